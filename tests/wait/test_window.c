/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window: what moves it and by how much, what the machine allows, and the count of the threads
 * that spin. Time is virtual; masks and quotas are what the test says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <taut/wait.h>

#include "base/cgroup.h"
#include "virtual.h"

#define MS TAUT_NS_PER_MS
#define US TAUT_NS_PER_US

/* --- the machine, as the test says ----------------------------------------------------------- */

static struct {
    int on;
    const char *self, *main_thread; /* masks as lists; NULL: can't be read */
    const char *cpuset;             /* NULL: none */
    int64_t quota_us;
} machine;

int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __real_taut__cgroup_quota(const struct taut__cgroup *cgroup, int64_t *quota_us,
                              int64_t *period_us, struct taut_err *err);
int __wrap_taut__cgroup_quota(const struct taut__cgroup *cgroup, int64_t *quota_us,
                              int64_t *period_us, struct taut_err *err);
int __real_taut__cgroup_cpus(const struct taut__cgroup *cgroup, struct taut_cpuset *cpus,
                             struct taut_err *err);
int __wrap_taut__cgroup_cpus(const struct taut__cgroup *cgroup, struct taut_cpuset *cpus,
                             struct taut_err *err);

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    if (!machine.on)
        return __real_sched_getaffinity(pid, size, set);
    const char *list = pid == 0 ? machine.self : machine.main_thread;
    struct taut_cpuset cpus;
    if (list == NULL || taut_cpuset_parse(&cpus, list, NULL) < 0) {
        errno = ESRCH;
        return -1;
    }
    memset(set, 0, size);
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        if (taut_cpuset_has(&cpus, cpu))
            CPU_SET_S(cpu, size, set);
    }
    return 0;
}

int __wrap_taut__cgroup_quota(const struct taut__cgroup *cgroup, int64_t *quota_us,
                              int64_t *period_us, struct taut_err *err)
{
    if (!machine.on)
        return __real_taut__cgroup_quota(cgroup, quota_us, period_us, err);
    *quota_us = machine.quota_us;
    *period_us = 100000;
    return 0;
}

int __wrap_taut__cgroup_cpus(const struct taut__cgroup *cgroup, struct taut_cpuset *cpus,
                             struct taut_err *err)
{
    if (!machine.on)
        return __real_taut__cgroup_cpus(cgroup, cpus, err);
    return machine.cpuset == NULL ? 0 : taut_cpuset_parse(cpus, machine.cpuset, err) < 0 ? -1 : 1;
}

static int end(void **state)
{
    machine.on = 0;
    return virtual_teardown(state);
}

/* --- moving ---------------------------------------------------------------------------------- */

static struct taut_wait_report one_spin(uint32_t outcome, int pauses)
{
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    struct taut_wait_report report;
    struct taut_spin spin;
    taut_spin_begin(&spin, TAUT_NEVER_NS, &policy);
    for (int i = 0; i < pauses; i++)
        taut_spin_next(&spin);
    taut_spin_end(&spin, outcome, &report);
    return report;
}

static void it_doubles_once_for_a_catch_and_halves_once_for_a_park(void **state)
{
    (void)state;
    static const uint64_t up_us[] = {40, 80, 160, 320, 500, 500};
    static const uint64_t down_ns[] = {250000, 125000, 62500, 31250, 20000, 20000};
    assert_int_equal(window.window_ns, 20 * US);
    for (size_t i = 0; i < 6; i++) {
        one_spin(TAUT_WAIT_CAUGHT, 3);
        assert_int_equal(window.window_ns, up_us[i] * US);
    }
    for (size_t i = 0; i < 6; i++) {
        one_spin(i % 2 ? TAUT_WAIT_PARKED : TAUT_WAIT_EXPIRED, 3);
        assert_int_equal(window.window_ns, down_ns[i]);
    }
    one_spin(77, 1); /* no outcome: counts as expired */
    assert_int_equal(window.window_ns, 20 * US);
    assert_int_equal(window.waits, 13);
    assert_int_equal(window.caught, 6);
    assert_int_equal(window.parked, 3);
    assert_int_equal(window.expired, 4);
    assert_int_equal(window.looked, 0);
}

static void a_catch_at_the_first_look_moves_nothing(void **state)
{
    (void)state;
    window.window_ns = 80 * US;
    struct taut_wait_report report = one_spin(TAUT_WAIT_CAUGHT, 0);
    assert_int_equal(report.phase, TAUT_PHASE_LOOK);
    assert_int_equal(window.window_ns, 80 * US);
    assert_int_equal(window.looked, 1);
    assert_int_equal(window.caught, 1);
    one_spin(TAUT_WAIT_EXPIRED, 0); /* only asked */
    assert_int_equal(window.window_ns, 80 * US);
    assert_int_equal(window.expired, 1);
    /* A park halves it, even where no pause was made. */
    one_spin(TAUT_WAIT_PARKED, 0);
    assert_int_equal(window.window_ns, 40 * US);
}

/* taut_wait() goes through the same door: one move a wait. */
static uint64_t publish_at_read;

static void publish_at_a_read(void)
{
    if (virtual.reads == publish_at_read)
        taut_event_publish(&event);
}

static void waits_move_it_once_each(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    virtual.on_read = publish_at_a_read;
    for (uint32_t i = 0; i < 3; i++) {
        publish_at_read = virtual.reads + 3;
        assert_int_equal(taut_wait(&event, i, TAUT_NEVER_NS, &policy, NULL), TAUT_WAIT_CAUGHT);
        assert_int_equal(window.window_ns, (40 * US) << i);
        assert_int_equal(taut_wait(&event, i, TAUT_NEVER_NS, &policy, NULL), TAUT_WAIT_CAUGHT);
        assert_int_equal(window.window_ns, (40 * US) << i); /* that one was only looked at */
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(taut_wait(&event, 3, virtual.now_ns + MS, &policy, NULL),
                         TAUT_WAIT_EXPIRED);
        assert_int_equal(window.window_ns, (80 * US) >> i);
    }
    assert_int_equal(window.waits, 9);
    assert_int_equal(window.looked, 3);
}

static int publish_while_asleep(void)
{
    virtual.now_ns += 100 * MS; /* ten items a second */
    taut_event_publish(&event);
    return 0;
}

/* The seed's window doubled when a task was woken, and so never came down under sparse traffic. */
static void under_sparse_traffic_it_comes_down_within_20_periods(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    virtual.on_sleep = publish_while_asleep;
    window.window_ns = window.max_ns;
    uint32_t periods = 0;
    while (window.window_ns > window.min_ns && periods < 20) {
        struct taut_wait_report report;
        assert_int_equal(taut_wait(&event, periods, TAUT_NEVER_NS, &policy, &report),
                         TAUT_WAIT_PARKED);
        periods++;
    }
    assert_int_equal(window.window_ns, window.min_ns);
    assert_int_equal(periods, 5); /* 500, 250, 125, 62.5, 31.25, 20 */
    for (uint32_t i = 0; i < 100; i++) {
        taut_wait(&event, periods + i, TAUT_NEVER_NS, &policy, NULL);
        assert_int_equal(window.window_ns, window.min_ns);
    }
}

/* A peer that answers after 300 us: 20 us of spinning never see it, and must not grow by not
 * seeing. */
static void it_takes_only_values_that_doubling_and_halving_reach(void **state)
{
    (void)state;
    uint64_t reachable[64];
    size_t count = 0;
    uint32_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        one_spin(seed >> 30 == 0 ? TAUT_WAIT_PARKED : TAUT_WAIT_CAUGHT, seed >> 29 & 1);
        size_t k = 0;
        while (k < count && reachable[k] != window.window_ns)
            k++;
        if (k == count) {
            assert_in_range(count, 0, 63);
            reachable[count++] = window.window_ns;
        }
        assert_in_range(window.window_ns, 20 * US, 500 * US);
    }
    /* 20 doubled five times, then capped; 500 halved five times, floored: at most those and what
     * the one chain doubled makes of the other. */
    assert_in_range(count, 6, 16);
    assert_int_equal(window.caught + window.parked + window.expired, window.waits);
}

/* --- options and names ----------------------------------------------------------------------- */

static void options_are_checked_and_read_back(void **state)
{
    (void)state;
    struct taut_err err;
    struct taut_window w;
    struct taut_window_options o = {.size = sizeof o, .cpus = 2, .quota = 2};
    assert_int_equal(taut_window_init(NULL, NULL, &err), TAUT_EINVAL);
    assert_int_equal(taut_window_init(&w, NULL, NULL), 0);
    assert_int_equal(taut_window_init(&w, &o, &err), 0);
    assert_int_equal(w.min_ns, 20 * US);
    assert_int_equal(w.max_ns, 500 * US);
    assert_int_equal(w.window_ns, 20 * US);
    assert_int_equal(w.cpus, 2);
    o.min_ns = 700 * US;
    assert_int_equal(taut_window_init(&w, &o, &err), 0);
    assert_int_equal(w.max_ns, 700 * US);
    o.min_ns = 0;
    o.max_ns = 5 * US;
    assert_int_equal(taut_window_init(&w, &o, &err), 0);
    assert_int_equal(w.min_ns, 5 * US);
    o.max_ns = 1000 * MS;
    assert_int_equal(taut_window_init(&w, &o, &err), 0);
    o.max_ns++;
    assert_int_equal(taut_window_init(&w, &o, &err), TAUT_EINVAL);
    assert_int_equal(err.code, TAUT_EINVAL);
    o.max_ns = 30 * US;
    o.min_ns = 31 * US;
    assert_int_equal(taut_window_init(&w, &o, &err), TAUT_EINVAL);
    o = (struct taut_window_options){.size = sizeof o, .quota = 3};
    assert_int_equal(taut_window_init(&w, &o, &err), TAUT_EINVAL);
    o = (struct taut_window_options){.size = sizeof o - 1};
    assert_int_equal(taut_window_init(&w, &o, &err), TAUT_EINVAL);
    assert_true(err.text[0] != '\0');
    o = (struct taut_window_options){.max_ns = 9 * US, .cpus = 3}; /* no size: version 0.1 */
    assert_int_equal(taut_window_init(&w, &o, &err), 0);
    assert_int_equal(w.max_ns, 9 * US);
    assert_int_equal(w.cpus, 3);
    o.size = offsetof(struct taut_window_options, cpus); /* and what an older one lacks is 0 */
    o.quota = 3;
    assert_int_equal(taut_window_init(&w, &o, &err), 0);
    assert_int_equal(w.max_ns, 9 * US);
    o = (struct taut_window_options){0};
    assert_int_equal(taut_window_init(&w, &o, &err), 0);
    assert_int_equal(taut_window_spin_state(NULL, 0), TAUT_EINVAL);
    struct taut_window unmade = {0};
    assert_int_equal(taut_window_spin_state(&unmade, 0), TAUT_EINVAL);
}

static void states_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"on",        "one-cpu", "quota", "oversubscribed",
                                        "contended", "?",       "?"};
    for (uint32_t i = 0; i < 7; i++)
        assert_string_equal(taut_spin_state_name(i), names[i]);
    assert_string_equal(taut_spin_state_name(UINT32_MAX), "?");
    assert_string_equal(taut_wait_outcome_name(TAUT_WAIT_CAUGHT), "caught");
    assert_string_equal(taut_wait_outcome_name(TAUT_WAIT_PARKED), "parked");
    assert_string_equal(taut_wait_outcome_name(TAUT_WAIT_EXPIRED), "expired");
    assert_string_equal(taut_wait_outcome_name(3), "?");
}

/* --- what the machine allows ----------------------------------------------------------------- */

static int state_and_spins(uint32_t cpus, uint32_t quota, uint32_t threads)
{
    struct taut_window_options o = {
        .size = sizeof o, .cpus = cpus, .quota = quota, .threads = threads};
    if (taut_window_init(&window, &o, NULL) != 0)
        return -1;
    struct taut_wait_report report = one_spin(TAUT_WAIT_EXPIRED, 100);
    if ((report.spins > 0) != (report.spin_state == TAUT_SPIN_ON) ||
        (report.spin_budget_ns > 0) != (report.spin_state == TAUT_SPIN_ON))
        return -2;
    return (int)report.spin_state;
}

static void by_default_it_spins_only_where_a_cpu_is_to_spare(void **state)
{
    (void)state;
    assert_int_equal(state_and_spins(1, 2, 0), TAUT_SPIN_ONE_CPU);
    assert_int_equal(state_and_spins(1, 1, 2), TAUT_SPIN_ONE_CPU);
    assert_int_equal(state_and_spins(2, 1, 0), TAUT_SPIN_QUOTA);
    assert_int_equal(state_and_spins(2, 2, 3), TAUT_SPIN_OVERSUBSCRIBED);
    assert_int_equal(state_and_spins(2, 2, 2), TAUT_SPIN_ON);
    assert_int_equal(state_and_spins(8, 2, 0), TAUT_SPIN_ON);
    /* Explicit budgets are obeyed on any machine. */
    assert_int_equal(state_and_spins(1, 1, 9), TAUT_SPIN_ONE_CPU);
    struct taut_wait_policy policy = {
        .size = sizeof policy, .spin_ns = 100 * US, .yield_ns = 100 * US, .window = &window};
    struct taut_wait_report report;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &policy, &report),
                     TAUT_WAIT_EXPIRED);
    assert_true(report.spins > 100);
    assert_true(report.yields > 10);
    assert_int_equal(report.spin_state, TAUT_SPIN_ON);
}

static void affinity_cpuset_and_quota_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *self, *main_thread, *cpuset;
        int64_t quota_us;
        uint32_t cpus, spin_state;
    } rows[] = {
        {"0-3", "0-3", NULL, -1, 4, TAUT_SPIN_ON},
        {"0", "0", NULL, -1, 1, TAUT_SPIN_ONE_CPU},
        {"2", "0", NULL, -1, 2, TAUT_SPIN_ON}, /* bound, but the process is not */
        {"2", "0-3", NULL, -1, 4, TAUT_SPIN_ON},
        {"0-3", "0", NULL, -1, 4, TAUT_SPIN_ON},
        {"0-3", "0-3", "1", -1, 1, TAUT_SPIN_ONE_CPU},
        {"0-3", "0-3", "1-2", -1, 2, TAUT_SPIN_ON},
        {"0-3", "0-3", "6", -1, 4, TAUT_SPIN_ON}, /* not about us */
        {"0-3", NULL, NULL, -1, 4, TAUT_SPIN_ON},
        {NULL, NULL, NULL, -1, 1, TAUT_SPIN_ONE_CPU}, /* unknown: the cautious case */
        {"0-3", "0-3", NULL, 400000, 4, TAUT_SPIN_QUOTA},
        {"0", "0", NULL, 400000, 1, TAUT_SPIN_ONE_CPU},
    };
    machine.on = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        machine.self = rows[i].self;
        machine.main_thread = rows[i].main_thread;
        machine.cpuset = rows[i].cpuset;
        machine.quota_us = rows[i].quota_us;
        assert_int_equal(taut_window_init(&window, NULL, NULL), 0);
        assert_int_equal(window.cpus, rows[i].cpus);
        assert_int_equal(window.spin_state, rows[i].spin_state);
    }
}

/* Runs before anything else of this program has made an event: the reading is once a process. */
static void without_a_window_the_process_is_read_once(void **state)
{
    (void)state;
    for (int one_cpu = 0; one_cpu < 2; one_cpu++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct taut_wait_report report;
            virtual_begin();
            machine.on = 1;
            machine.self = machine.main_thread = one_cpu ? "1" : "0-1";
            machine.quota_us = -1;
            if (taut_event_init(&event) != 0)
                _exit(1);
            machine.self = machine.main_thread = one_cpu ? "0-1" : "1"; /* too late */
            if (taut_wait(&event, 0, virtual.now_ns + MS, NULL, &report) != TAUT_WAIT_EXPIRED)
                _exit(2);
            if (report.spin_state != (one_cpu ? TAUT_SPIN_ONE_CPU : TAUT_SPIN_ON))
                _exit(3);
            if (report.spin_budget_ns != (one_cpu ? 0 : 20 * US) || (report.spins > 0) == one_cpu)
                _exit(4);
            if (report.yields != 0 || virtual.sleeps != 1)
                _exit(5);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* --- the crowd ------------------------------------------------------------------------------- */

/* Spins until it has been counted (1), or is over (0). */
static int spin_until_counted(struct taut_spin *spin)
{
    for (int i = 0; i < 100000 && spin->crowd == 0; i++) {
        virtual.now_ns += 20;
        if (!taut_spin_next(spin))
            return 0;
    }
    return spin->crowd != 0;
}

static void of_the_threads_that_spin_one_cpu_is_spared(void **state)
{
    (void)state;
    struct taut_window windows[6];
    struct taut_spin spins[6];
    struct taut_wait_report report;
    struct taut_window_options four_cpus = {.size = sizeof four_cpus, .cpus = 4, .quota = 2};
    struct taut_wait_policy policy = {.size = sizeof policy};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(taut_window_init(&windows[i], &four_cpus, NULL), 0);
        policy.window = &windows[i];
        policy.spin_ns = i == 5 ? MS : 0;
        uint64_t began_ns = virtual.now_ns;
        taut_spin_begin(&spins[i], TAUT_NEVER_NS, &policy);
        int counted = spin_until_counted(&spins[i]);
        uint64_t spent_ns = virtual.now_ns - began_ns;
        if (i < 3 || i == 5) { /* three of four CPUs; and who has an explicit budget */
            assert_int_equal(counted, 1);
            continue;
        }
        assert_int_equal(counted, 0);
        assert_in_range(spent_ns, 1000, 2000); /* about 1 us, then it sleeps */
        taut_spin_end(&spins[i], TAUT_WAIT_PARKED, &report);
        assert_int_equal(report.spin_state, TAUT_SPIN_OVERSUBSCRIBED);
        assert_int_equal(report.yields, 0);
    }
    /* A place that is given back, by the end or by the budget's, can be taken. */
    taut_spin_end(&spins[0], TAUT_WAIT_CAUGHT, NULL);
    taut_spin_end(&spins[5], TAUT_WAIT_CAUGHT, NULL);
    policy = (struct taut_wait_policy){.size = sizeof policy, .window = &windows[3]};
    taut_spin_begin(&spins[3], TAUT_NEVER_NS, &policy);
    assert_int_equal(spin_until_counted(&spins[3]), 1);
    while (taut_spin_next(&spins[3]))
        virtual.now_ns += 20;
    assert_int_equal(spins[3].crowd, 0); /* over, and no longer counted, before its end */
    policy.window = &windows[4];
    taut_spin_begin(&spins[4], TAUT_NEVER_NS, &policy);
    assert_int_equal(spin_until_counted(&spins[4]), 1);
    for (int i = 1; i < 5; i++)
        taut_spin_end(&spins[i], TAUT_WAIT_CAUGHT, NULL);
}

static void a_child_of_a_fork_has_no_crowd(void **state)
{
    (void)state;
    struct taut_window_options two_cpus = {.size = sizeof two_cpus, .cpus = 2, .quota = 2};
    assert_int_equal(taut_window_init(&window, &two_cpus, NULL), 0);
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    struct taut_spin first, second, third;
    taut_spin_begin(&first, TAUT_NEVER_NS, &policy);
    assert_int_equal(spin_until_counted(&first), 1);
    taut_spin_begin(&second, TAUT_NEVER_NS, &policy);
    assert_int_equal(spin_until_counted(&second), 0); /* the premise: two would be too many here */
    taut_spin_end(&second, TAUT_WAIT_PARKED, NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        taut_spin_begin(&second, TAUT_NEVER_NS, &policy);
        int counted = spin_until_counted(&second);
        taut_spin_end(&first, TAUT_WAIT_CAUGHT,
                      NULL); /* was counted elsewhere: must take off nothing */
        taut_spin_begin(&third, TAUT_NEVER_NS, &policy);
        _exit(counted && !spin_until_counted(&third) ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    taut_spin_end(&first, TAUT_WAIT_CAUGHT, NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, virtual_setup, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_window_the_process_is_read_once), /* first */
        CASE(it_doubles_once_for_a_catch_and_halves_once_for_a_park),
        CASE(a_catch_at_the_first_look_moves_nothing),
        CASE(waits_move_it_once_each),
        CASE(under_sparse_traffic_it_comes_down_within_20_periods),
        CASE(it_takes_only_values_that_doubling_and_halving_reach),
        CASE(options_are_checked_and_read_back),
        CASE(states_have_names),
        CASE(by_default_it_spins_only_where_a_cpu_is_to_spare),
        CASE(affinity_cpuset_and_quota_are_read),
        CASE(of_the_threads_that_spin_one_cpu_is_spared),
        CASE(a_child_of_a_fork_has_no_crowd),
    };
    return cmocka_run_group_tests_name("wait/window", tests, NULL, NULL);
}
