/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/window.c - the adaptive window: how long spinning pays for one thread, what its yields have
 * cost of late, and whether the machine lets it spin at all.
 */
#include "wait/window.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/check.h"
#include "base/options.h"

#define WINDOW_LONGEST_NS TAUT_NS_PER_S
/* 16 pauses last 0.3 us where one costs 18 ns; the first intervals correct it. */
#define STRIDE_FIRST 16u
/* After ten halvings a time slice is below the assumption: nothing is known any more. */
#define COST_FORGOTTEN_NS (10 * TAUT_COST_MEMORY_NS)

struct machine {
    uint32_t cpus;
    uint32_t quota; /* as in the options: 1 = there is one, 2 = there is none */
};

/*
 * CPUs of the calling thread and of the process's main thread together. A thread that is bound to a
 * CPU of its own leaves the others to whoever publishes; it is the whole process on one CPU that
 * must not spin. What can't be read counts as the cautious case: one CPU.
 */
static uint32_t read_cpus(const struct taut_cpuset *allowed)
{
    struct taut_cpuset mine;
    if (taut_cpuset_of_self(&mine) < 0)
        return 1;
    cpu_set_t main_thread;
    int have_main = sched_getaffinity(getpid(), sizeof main_thread, &main_thread) == 0;
    uint32_t count = 0;
    for (uint32_t cpu = 0; cpu < TAUT_CPUS_MAX; cpu++) {
        int usable = taut_cpuset_has(&mine, cpu) ||
                     (have_main && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &main_thread));
        count += usable && (allowed == NULL || taut_cpuset_has(allowed, cpu));
    }
    /* Nothing in common: the list is not about us, and the kernel enforces the masks. */
    return count > 0 ? count : read_cpus(NULL);
}

/* Fills what is 0. */
static void read_machine(struct machine *machine)
{
    struct taut__cgroup *cgroup = malloc(sizeof *cgroup);
    if (machine->cpus == 0) {
        struct taut_cpuset allowed;
        int known = cgroup != NULL && taut__cgroup_find(cgroup, "cpuset", NULL, NULL, NULL) == 0 &&
                    taut__cgroup_cpus(cgroup, &allowed, NULL) == 1;
        machine->cpus = read_cpus(known ? &allowed : NULL);
    }
    if (machine->quota == 0) {
        int64_t quota_us = -1, period_us = 0;
        if (cgroup != NULL && taut__cgroup_find(cgroup, "cpu", NULL, NULL, NULL) == 0)
            (void)taut__cgroup_quota(cgroup, &quota_us, &period_us, NULL);
        machine->quota = quota_us >= 0 ? 1 : 2;
    }
    free(cgroup);
}

static uint32_t state_of(const struct machine *machine, uint32_t threads)
{
    if (machine->cpus <= 1)
        return TAUT_SPIN_ONE_CPU;
    if (machine->quota == 1)
        return TAUT_SPIN_QUOTA;
    return threads > machine->cpus ? TAUT_SPIN_OVERSUBSCRIBED : TAUT_SPIN_ON;
}

static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static struct machine default_machine; /* written within default_once only */

static void read_default(void)
{
    read_machine(&default_machine);
}

uint32_t taut__spin_default(uint32_t *cpus)
{
    TAUT_CHECK(pthread_once(&default_once, read_default) == 0);
    if (cpus != NULL)
        *cpus = default_machine.cpus;
    return state_of(&default_machine, 0);
}

int taut_window_init(struct taut_window *window, const struct taut_window_options *options,
                     struct taut_err *err)
{
    static const struct taut__options_kind kind =
        TAUT__OPTIONS_KIND(struct taut_window_options, quota, threads, "window options");
    struct taut_window_options whole;
    taut_err_clear(err);
    if (window == NULL)
        return taut_err_set(err, TAUT_EINVAL, "no window");
    int code = taut__options_take(&kind, &whole, options, err);
    if (code < 0)
        return code;
    options = &whole;
    uint64_t min_ns = options->min_ns != 0 ? options->min_ns : TAUT_WINDOW_MIN_NS;
    uint64_t max_ns = options->max_ns != 0 ? options->max_ns : TAUT_WINDOW_MAX_NS;
    /* Only one of the two given: the default of the other gives way. */
    if (options->max_ns == 0 && max_ns < min_ns)
        max_ns = min_ns;
    if (options->min_ns == 0 && min_ns > max_ns)
        min_ns = max_ns;
    if (min_ns > max_ns || max_ns > WINDOW_LONGEST_NS)
        return taut_err_set(err, TAUT_EINVAL, "a window from %llu to %llu ns",
                            (unsigned long long)min_ns, (unsigned long long)max_ns);
    if (options->quota > 2)
        return taut_err_set(err, TAUT_EINVAL, "quota is %u, not 0 to 2", options->quota);
    struct machine machine = {.cpus = options->cpus, .quota = options->quota};
    if (machine.cpus == 0 || machine.quota == 0)
        read_machine(&machine);
    *window = (struct taut_window){
        .window_ns = min_ns,
        .min_ns = min_ns,
        .max_ns = max_ns,
        .spin_stride = STRIDE_FIRST,
        .spin_state = state_of(&machine, options->threads),
        .cpus = machine.cpus,
        .ready = TAUT__WINDOW_READY,
    };
    return TAUT_OK;
}

int taut_window_spin_state(const struct taut_window *window, uint64_t now_ns)
{
    if (window == NULL || window->ready != TAUT__WINDOW_READY)
        return TAUT_EINVAL;
    if (window->spin_state != TAUT_SPIN_ON)
        return (int)window->spin_state;
    return now_ns < window->contended_until_ns ? TAUT_SPIN_CONTENDED : TAUT_SPIN_ON;
}

const char *taut_spin_state_name(uint32_t state)
{
    static const char *const names[] = {
        [TAUT_SPIN_ON] = "on",
        [TAUT_SPIN_ONE_CPU] = "one-cpu",
        [TAUT_SPIN_QUOTA] = "quota",
        [TAUT_SPIN_OVERSUBSCRIBED] = "oversubscribed",
        [TAUT_SPIN_CONTENDED] = "contended",
    };
    return state < sizeof names / sizeof names[0] ? names[state] : "?";
}

static const struct taut__options_kind policy_kind =
    TAUT__OPTIONS_KIND(struct taut_wait_policy, window, strict, "wait policy");

/* The fast path takes a policy without a size where it lies. When the struct has grown past version
 * 0.1, size 0 goes the general way: see taut__policy_take(). */
_Static_assert(sizeof(struct taut_wait_policy) ==
                   TAUT__OPTIONS_THROUGH(struct taut_wait_policy, window),
               "size 0 is no longer this struct");

int taut__policy_copy(const struct taut_wait_policy **policy, struct taut_wait_policy *room)
{
    int code = taut__options_take(&policy_kind, room, *policy, NULL);
    *policy = room;
    return code;
}

int taut__policy_check(const struct taut_wait_policy *policy)
{
    struct taut_wait_policy room;
    return taut__policy_take(&policy, &room);
}

void taut__window_record(struct taut_window *window, uint32_t outcome, uint32_t looked,
                         uint32_t contended)
{
    window->waits++;
    window->contended += contended;
    int grow = 0, shrink = contended != 0;
    switch (outcome) {
    case TAUT_WAIT_CAUGHT:
        window->caught++;
        window->looked += looked;
        grow = !looked && !contended;
        break;
    case TAUT_WAIT_PARKED:
        window->parked++;
        shrink = 1;
        break;
    default:
        window->expired++;
        shrink |= !looked; /* who only asks learns nothing about waiting */
        break;
    }
    /* max_ns is 1 s at most: no overflow. */
    if (grow)
        window->window_ns =
            2 * window->window_ns < window->max_ns ? 2 * window->window_ns : window->max_ns;
    else if (shrink)
        window->window_ns =
            window->window_ns / 2 > window->min_ns ? window->window_ns / 2 : window->min_ns;
    TAUT_ASSERT(window->window_ns >= window->min_ns && window->window_ns <= window->max_ns);
}

uint64_t taut__window_yield_cost(const struct taut_window *window, uint64_t now_ns)
{
    uint64_t age_ns = now_ns > window->yield_cost_at_ns ? now_ns - window->yield_cost_at_ns : 0;
    if (window->yield_cost_at_ns == 0 || age_ns >= COST_FORGOTTEN_NS)
        return TAUT__YIELD_ASSUMED_NS;
    return window->yield_cost_ns >> (age_ns / TAUT_COST_MEMORY_NS);
}

void taut__window_yielded(struct taut_window *window, uint64_t cost_ns, uint64_t now_ns)
{
    /* The assumption is no reading: a first, cheaper yield replaces it. */
    if (window->yield_cost_at_ns != 0 && now_ns - window->yield_cost_at_ns < COST_FORGOTTEN_NS &&
        cost_ns < taut__window_yield_cost(window, now_ns))
        return;
    window->yield_cost_ns = cost_ns;
    window->yield_cost_at_ns = now_ns;
}
