/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/spin.c - the spin and yield phases: the only loops of Taut that use the CPU for waiting.
 *
 * Promises: the clock is looked at every few hundred nanoseconds while spinning, whatever a pause
 * costs, and at every yield; a pause or yield that took 50 us ends both phases; no yield begins
 * that would probably end after the deadline or the budget; and after the last look at the clock
 * the caller looks once more at what it waits for.
 */
#include "wait/spin.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/process.h"
#include "wait/window.h"

/* Pauses between two looks at the clock. A pause costs 3 to 50 ns on the CPUs known, up to some
 * hundred under an emulator. */
#define STRIDE_LEAST 4u
#define STRIDE_MOST  256u
#define STRIDE_FIRST 16u
#define GAP_SHORT_NS UINT64_C(150)
#define GAP_LONG_NS  UINT64_C(600)

/* Of a window, this much is spun and the rest yielded: bench/records/2026-12-01-wait.md. */
#define SPIN_SHARE_NS (50 * TAUT_NS_PER_US)

/* Who spins longer than this is counted: shorter waits are over before they could crowd anybody. */
#define CROWD_AFTER_NS TAUT_NS_PER_US

#define BY_DEFAULT_SPIN  1u
#define BY_DEFAULT_YIELD 2u

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --- the crowd: threads of this process that spin -------------------------------------------- */

/* Process generation in the upper half, threads in the lower: a child begins at 0. */
static TAUT__LINE _Atomic uint64_t crowd;

/* 1 = counted; 0 = there are as many already as may be, and `spin` may be refused. */
static int crowd_join(struct taut_spin *spin)
{
    uint32_t generation = taut__process_generation_enter();
    uint32_t cpus;
    if (spin->window != NULL)
        cpus = spin->window->cpus;
    else
        (void)taut__spin_default(&cpus);
    /* Relaxed: a count that guards no memory. */
    uint64_t old = atomic_load_explicit(&crowd, memory_order_relaxed), next;
    do {
        uint64_t count = old >> 32 == generation ? old & UINT32_MAX : 0;
        /* One CPU stays free for whoever is waited for. */
        if ((spin->by_default & BY_DEFAULT_SPIN) && count + 1 >= cpus)
            return 0;
        next = (uint64_t)generation << 32 | (count + 1);
    } while (!atomic_compare_exchange_weak_explicit(&crowd, &old, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    spin->crowd = generation;
    return 1;
}

static void crowd_leave(struct taut_spin *spin)
{
    if (spin->crowd == 0)
        return;
    uint32_t joined = spin->crowd;
    spin->crowd = 0;
    /* After a fork the count is the child's own, and this thread is not in it. */
    if (joined == taut__process_generation())
        atomic_fetch_sub_explicit(&crowd, 1, memory_order_relaxed);
}

/* --- phases ---------------------------------------------------------------------------------- */

void taut__spin_stop(struct taut_spin *spin)
{
    spin->report.spins -= spin->left;
    spin->left = 0;
    spin->phase = TAUT_PHASE_PARK;
    crowd_leave(spin);
}

/* Over, after one more look: what came between the last look and the clock is not missed. */
static int stop_after_a_look(struct taut_spin *spin)
{
    taut__spin_stop(spin);
    return 1;
}

static int lost_cpu(struct taut_spin *spin, uint64_t now_ns)
{
    spin->report.contended = 1;
    if (spin->window != NULL)
        spin->window->contended_until_ns = taut_deadline_ns(now_ns, TAUT_COST_MEMORY_NS);
    return stop_after_a_look(spin);
}

static int pause_once(struct taut_spin *spin)
{
    uint32_t pauses = spin->look_each ? 1 : spin->stride;
    spin->left = pauses - 1;
    spin->report.spins += pauses; /* what is left of them at the end is taken off */
    taut__cpu_pause();
    return 1;
}

static uint64_t next_yield_cost(const struct taut_spin *spin)
{
    if (spin->window != NULL)
        return taut__window_yield_cost(spin->window, spin->last_ns);
    return spin->report.yields > 0 ? spin->report.longest_yield_ns : TAUT__YIELD_ASSUMED_NS;
}

/* One yield, if one fits between last_ns and the end. */
static int yield_once(struct taut_spin *spin)
{
    uint64_t budget_ns = taut_deadline_ns(spin->spin_budget_ns, spin->yield_budget_ns);
    uint64_t end_ns = least(spin->deadline_ns, taut_deadline_ns(spin->began_ns, budget_ns));
    if (spin->yield_budget_ns == 0 || spin->last_ns >= end_ns ||
        end_ns - spin->last_ns < next_yield_cost(spin))
        return stop_after_a_look(spin);
    spin->phase = spin->report.phase = TAUT_PHASE_YIELD;
    sched_yield();
    uint64_t now_ns = taut_now_ns();
    uint64_t cost_ns = now_ns - spin->last_ns;
    spin->last_ns = now_ns;
    spin->report.yields++;
    if (cost_ns > spin->report.longest_yield_ns)
        spin->report.longest_yield_ns = cost_ns;
    if (spin->window != NULL)
        taut__window_yielded(spin->window, cost_ns, now_ns);
    return cost_ns > TAUT_CONTENDED_NS ? lost_cpu(spin, now_ns) : 1;
}

/* Ends what was not asked for by an explicit budget. */
static void drop_defaults(struct taut_spin *spin, uint32_t state)
{
    spin->report.spin_state = state;
    if (spin->by_default & BY_DEFAULT_SPIN)
        spin->spin_budget_ns = spin->report.spin_budget_ns = 0;
    if (spin->by_default & BY_DEFAULT_YIELD)
        spin->yield_budget_ns = spin->report.yield_budget_ns = 0;
}

static int first_turn(struct taut_spin *spin)
{
    spin->began_ns = spin->last_ns = taut_now_ns();
    if (spin->last_ns >= spin->deadline_ns)
        return stop_after_a_look(spin);
    if (spin->by_default != 0 && spin->window != NULL &&
        spin->last_ns < spin->window->contended_until_ns)
        drop_defaults(spin, TAUT_SPIN_CONTENDED);
    if (spin->spin_budget_ns == 0)
        return yield_once(spin);
    spin->phase = spin->report.phase = TAUT_PHASE_SPIN;
    return pause_once(spin);
}

static void adapt_stride(struct taut_spin *spin, uint64_t gap_ns)
{
    if (spin->look_each)
        return;
    if (gap_ns < GAP_SHORT_NS && spin->stride < STRIDE_MOST)
        spin->stride *= 2;
    else if (gap_ns > GAP_LONG_NS && spin->stride > STRIDE_LEAST)
        spin->stride /= 2;
}

static int spin_turn(struct taut_spin *spin)
{
    uint64_t now_ns = taut_now_ns();
    uint64_t gap_ns = now_ns - spin->last_ns;
    uint64_t spent_ns = now_ns - spin->began_ns;
    spin->last_ns = now_ns;
    if (gap_ns > spin->report.longest_gap_ns)
        spin->report.longest_gap_ns = gap_ns;
    if (gap_ns > TAUT_CONTENDED_NS)
        return lost_cpu(spin, now_ns);
    adapt_stride(spin, gap_ns);
    if (now_ns >= spin->deadline_ns)
        return stop_after_a_look(spin);
    if (spent_ns >= spin->spin_budget_ns)
        return yield_once(spin);
    if (spin->crowd == 0 && spent_ns >= CROWD_AFTER_NS && !crowd_join(spin)) {
        drop_defaults(spin, TAUT_SPIN_OVERSUBSCRIBED);
        return yield_once(spin);
    }
    return pause_once(spin);
}

int taut__spin_turn(struct taut_spin *spin)
{
    switch (spin->phase) {
    case TAUT_PHASE_LOOK:
        return first_turn(spin);
    case TAUT_PHASE_SPIN:
        return spin_turn(spin);
    case TAUT_PHASE_YIELD:
        return yield_once(spin);
    default:
        return 0;
    }
}

/* --- public ---------------------------------------------------------------------------------- */

/* An explicit budget; "none" is one that is not worth a look at the clock. */
static uint64_t explicit_budget(uint64_t budget_ns)
{
    return budget_ns <= TAUT_WAIT_NONE_NS ? 0 : budget_ns;
}

void taut_spin_begin(struct taut_spin *spin, uint64_t deadline_ns,
                     const struct taut_wait_policy *policy)
{
    static const struct taut_wait_policy none;
    struct taut_wait_policy room;
    if (policy == NULL || taut__policy_take(&policy, &room) < 0)
        policy = &none;
    struct taut_window *window = policy->window;
    uint32_t state = window != NULL ? window->spin_state : taut__spin_default(NULL);
    uint64_t whole_ns = window != NULL ? window->window_ns : TAUT_WINDOW_MIN_NS;
    if (state != TAUT_SPIN_ON)
        whole_ns = 0;
    uint64_t spin_ns = policy->spin_ns != 0 ? explicit_budget(policy->spin_ns)
                       : policy->strict     ? whole_ns
                                            : least(whole_ns, SPIN_SHARE_NS);
    uint64_t yield_ns = 0;
    if (policy->yield_ns != 0)
        yield_ns = explicit_budget(policy->yield_ns);
    else if (window != NULL && whole_ns > spin_ns)
        yield_ns = whole_ns - spin_ns;
    if (policy->strict)
        yield_ns = 0;
    /* Deadline 0: who asks has looked, and there is no time to compare with. */
    int over = deadline_ns == 0 || (spin_ns == 0 && yield_ns == 0);
    uint32_t by_default = (policy->spin_ns == 0 ? BY_DEFAULT_SPIN : 0u) |
                          (policy->yield_ns == 0 && !policy->strict ? BY_DEFAULT_YIELD : 0u);
    *spin = (struct taut_spin){
        .deadline_ns = deadline_ns,
        .spin_budget_ns = spin_ns,
        .yield_budget_ns = yield_ns,
        .window = window,
        .stride = window != NULL ? window->spin_stride : STRIDE_FIRST,
        .phase = over ? TAUT_PHASE_PARK : TAUT_PHASE_LOOK,
        .by_default = by_default,
        .report = {.spin_state = by_default != 0 ? state : TAUT_SPIN_ON,
                   .spin_budget_ns = spin_ns,
                   .yield_budget_ns = yield_ns},
    };
}

int taut_spin_next(struct taut_spin *spin)
{
    return taut__spin_next(spin);
}

void taut__spin_finish(struct taut_spin *spin, uint32_t outcome, int with_clock)
{
    taut__spin_stop(spin);
    struct taut_wait_report *report = &spin->report;
    report->outcome = outcome <= TAUT_WAIT_EXPIRED ? outcome : TAUT_WAIT_EXPIRED;
    if (outcome == TAUT_WAIT_PARKED || report->parks > 0)
        report->phase = TAUT_PHASE_PARK;
    if (with_clock && spin->deadline_ns != 0 && spin->deadline_ns != TAUT_NEVER_NS) {
        uint64_t now_ns = taut_now_ns();
        if (now_ns > spin->deadline_ns)
            report->late_ns = now_ns - spin->deadline_ns;
    }
    if (spin->window == NULL)
        return;
    spin->window->spin_stride = spin->stride;
    taut__window_record(spin->window, report->outcome, report->phase == TAUT_PHASE_LOOK,
                        report->contended);
}

void taut_spin_end(struct taut_spin *spin, uint32_t outcome, struct taut_wait_report *report)
{
    taut__spin_finish(spin, outcome, report != NULL);
    if (report != NULL)
        *report = spin->report;
}
