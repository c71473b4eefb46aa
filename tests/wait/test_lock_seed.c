/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault this lock is there to make impossible. A waiter found no buffer and so wants the lock;
 * the holder releases and re-takes it at once, for as long as it has work. With a lock that wakes a
 * waiter only to compete again, the waiter sleeps as long as the holder works: thousands of
 * wake-ups lost, twice the work twice the wait, and buffers that came back meanwhile do not help
 * it.
 *
 * What a wake-up costs is injected (--wrap=taut__futex_wait): who was woken runs on when the holder
 * is in the first half of its work again, or when it has waited for the lock itself for 20 us, or
 * is done. That makes the starving reproducible and gives the bounded lock no help. Holder and
 * waiter have a CPU each, as workers of such a machine do: on one, the scheduler may preempt the
 * holder for who was woken. With TAUT_SOAK the
 * holder works for 30 s beside the bounded lock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <taut/lock.h>

#include "base/futex.h"

#define HELD_NS (100 * TAUT_NS_PER_US)
/* Longer than the holder is off its CPU on a busy machine; and the slow end of a wake-up. */
#define LONG_PATIENCE_NS  (20 * TAUT_NS_PER_MS)
#define SHORT_PATIENCE_NS (20 * TAUT_NS_PER_US)
#define ATTEMPTS          20 /* at a premise that luck can spoil */

int __real_taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                            uint32_t scope);
int __wrap_taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                            uint32_t scope);

static cpu_set_t usable;

enum { HOLDER_DONE, HOLDER_WANTS, HOLDER_HOLDS };
static uint64_t patience_ns;
static _Atomic uint64_t holder; /* what it does, and since when: ns * 4 + state */

static void holder_is(uint64_t doing)
{
    atomic_store(&holder, taut_now_ns() * 4 + doing);
}

/* When a woken waiter may look at the lock. */
static int may_run_on(uint64_t doing)
{
    uint64_t for_ns = taut_now_ns() - doing / 4;
    switch (doing % 4) {
    case HOLDER_HOLDS:
        return for_ns < HELD_NS / 2;
    case HOLDER_WANTS:
        return for_ns > patience_ns;
    default:
        return 1;
    }
}

static void spend(uint64_t duration_ns)
{
    uint64_t end_ns = taut_now_ns() + duration_ns;
    while (taut_now_ns() < end_ns)
        ;
}

int __wrap_taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                            uint32_t scope)
{
    int outcome = __real_taut__futex_wait(word, expected, deadline_ns, scope);
    while (outcome == TAUT__FUTEX_WOKEN && !may_run_on(atomic_load(&holder)))
        ;
    return outcome;
}

/* The n-th CPU of those this process may use; without that many, any. */
static void bind_to(uint32_t number)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &usable) || number-- > 0)
            continue;
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

struct stack {
    struct taut_lock lock;
    _Atomic int busy;    /* the holder has begun */
    _Atomic int stop;    /* it shall end */
    _Atomic int buffers; /* in the pool; taken by who wants one */
    _Atomic uint32_t tests;
    uint64_t turns; /* the holder's work: acquisitions; 0 = until stopped */
    pthread_t thread;
};

/* Re-takes at once: between release and acquire there is nothing. */
static void *hold_again_and_again(void *context)
{
    struct stack *stack = context;
    bind_to(1);
    for (uint64_t turn = 0; stack->turns == 0 || turn < stack->turns; turn++) {
        if (taut_lock_acquire(&stack->lock, TAUT_NEVER_NS, NULL) != TAUT_LOCK_ACQUIRED)
            abort();
        holder_is(HOLDER_HOLDS);
        atomic_store(&stack->busy, 1);
        spend(HELD_NS);
        holder_is(HOLDER_WANTS);
        taut_lock_release(&stack->lock);
        if (atomic_load_explicit(&stack->stop, memory_order_relaxed))
            break;
    }
    holder_is(HOLDER_DONE);
    return NULL;
}

static void start(struct stack *stack, uint32_t policy, uint64_t spin_ns, uint64_t wait_max_ns,
                  uint64_t turns)
{
    const struct taut_lock_options options = {
        .size = sizeof options, .policy = policy, .spin_ns = spin_ns, .wait_max_ns = wait_max_ns};
    memset(stack, 0, sizeof *stack);
    stack->turns = turns;
    assert_int_equal(taut_lock_init(&stack->lock, &options, NULL), 0);
    assert_int_equal(pthread_create(&stack->thread, NULL, hold_again_and_again, stack), 0);
    while (!atomic_load(&stack->busy))
        sched_yield();
}

static void finish(struct stack *stack)
{
    atomic_store(&stack->stop, 1);
    assert_int_equal(pthread_join(stack->thread, NULL), 0);
    assert_int_equal(taut_lock_destroy(&stack->lock), 0);
}

/* One wait with the fault in place, beside a holder that has so many turns of work. */
static void starve(uint64_t turns, struct taut_lock_report *report)
{
    static struct stack stack;
    start(&stack, TAUT_LOCK_BARGING, TAUT_WAIT_NONE_NS, 0, turns);
    assert_int_equal(taut_lock_acquire(&stack.lock, TAUT_NEVER_NS, report), TAUT_LOCK_ACQUIRED);
    taut_lock_release(&stack.lock);
    finish(&stack);
}

/*
 * The waits for once and twice the work: the waiter is passed over all the time. On a quiet machine
 * each of those thousands of turns is a wake-up lost; where others want its CPU, the waiter sleeps
 * and is woken less often.
 */
static int starves_in_proportion(uint64_t turns)
{
    struct taut_lock_report once, twice;
    starve(turns, &once);
    starve(2 * turns, &twice);
    double ratio = (double)twice.waited_ns / (double)(once.waited_ns + 1);
    print_message("barging: %u wake-ups lost in %.1f ms, %u in %.1f ms: %.2fx\n", once.wakeups_lost,
                  (double)once.waited_ns / 1e6, twice.wakeups_lost, (double)twice.waited_ns / 1e6,
                  ratio);
    uint64_t least_lost = turns / 20;
    return once.wakeups_lost >= least_lost && twice.wakeups_lost >= 2 * least_lost &&
           once.bypass_count >= turns * 8 / 10 && twice.bypass_count >= 2 * turns * 8 / 10 &&
           ratio > 1.5 && ratio < 2.7;
}

static void barging_starves_as_long_as_the_holder_works(void **state)
{
    (void)state;
    patience_ns = LONG_PATIENCE_NS;
    for (int i = 0; i < ATTEMPTS; i++) {
        if (starves_in_proportion(getenv("TAUT_SOAK") ? 30000 : 1500))
            return;
    }
    fail_msg("inconclusive: the waiter did not starve, so this machine proves nothing");
}

static uint64_t holder_works_ns(void)
{
    return getenv("TAUT_SOAK") ? 30 * TAUT_NS_PER_S : TAUT_NS_PER_S / 3;
}

/* The same holder, the same waiter, the same cost of a wake-up: again and again. */
static void bounded_gets_in(uint64_t spin_ns, uint64_t wait_max_ns)
{
    static struct stack stack;
    struct taut_lock_report report;
    uint32_t most = 0, waits = 0, overtaken = 0, lost = 0;
    start(&stack, TAUT_LOCK_BOUNDED, spin_ns, wait_max_ns, 0);
    uint64_t end_ns = taut_now_ns() + holder_works_ns();
    while (taut_now_ns() < end_ns) {
        assert_int_equal(taut_lock_acquire(&stack.lock, TAUT_NEVER_NS, &report),
                         TAUT_LOCK_ACQUIRED);
        taut_lock_release(&stack.lock);
        waits += report.waited_ns > 0;
        overtaken += report.bypass_count > 0;
        most = report.bypass_count > most ? report.bypass_count : most;
        lost = report.wakeups_lost > lost ? report.wakeups_lost : lost;
    }
    finish(&stack);
    print_message("bounded: %u waits, %u overtaken, at most %u times, %u wake-ups lost at most\n",
                  waits, overtaken, most, lost);
    if (waits < 5)
        fail_msg("inconclusive: %u waits", waits);
    if (spin_ns == TAUT_WAIT_NONE_NS && overtaken == 0)
        fail_msg("inconclusive: the holder never won");
    assert_true(most <= TAUT_LOCK_BYPASS_MAX);
    assert_true(lost <= TAUT_LOCK_BYPASS_MAX);
}

static void bounded_gets_in_within_eight_bypasses(void **state)
{
    (void)state;
    patience_ns = SHORT_PATIENCE_NS;
    bounded_gets_in(TAUT_WAIT_NONE_NS, 0);
    bounded_gets_in(0, 0);
    patience_ns = LONG_PATIENCE_NS;
    bounded_gets_in(TAUT_WAIT_NONE_NS, TAUT_NEVER_NS); /* by the count alone */
}

static int has_buffers(void *context)
{
    struct stack *stack = context;
    atomic_fetch_add(&stack->tests, 1);
    return atomic_load(&stack->buffers) > 0;
}

static void *want_a_buffer(void *context)
{
    struct stack *stack = context;
    static struct taut_lock_report report;
    bind_to(0);
    int result = taut_lock_or(&stack->lock, has_buffers, stack, TAUT_NEVER_NS, &report);
    if (result == TAUT_LOCK_ACQUIRED)
        taut_lock_release(&stack->lock);
    return result == TAUT_LOCK_GONE ? &report : NULL;
}

/*
 * How many turns the waiter took after the buffer was back; -1: it had got the lock before, by
 * luck. Even with the policy that starves: who re-tests its reason need not win.
 */
static int turns_after_the_return(int with_look)
{
    static struct stack stack;
    pthread_t waiter;
    struct timespec while_it_starves = {.tv_nsec = (long)(20 * TAUT_NS_PER_MS)};
    void *left;
    start(&stack, TAUT_LOCK_BARGING, TAUT_WAIT_NONE_NS, 0, 0);
    assert_int_equal(pthread_create(&waiter, NULL, want_a_buffer, &stack), 0);
    nanosleep(&while_it_starves, NULL);
    atomic_store(&stack.buffers, 1);
    uint32_t before = atomic_load(&stack.tests);
    if (with_look)
        taut_lock_retest(&stack.lock);
    assert_int_equal(pthread_join(waiter, &left), 0);
    uint32_t after = atomic_load(&stack.tests);
    finish(&stack);
    return left ? (int)(after - before) : -1;
}

static void who_wants_a_buffer_leaves_when_there_is_one(void **state)
{
    (void)state;
    patience_ns = LONG_PATIENCE_NS;
    int conclusive = 0;
    for (int i = 0; i < 20; i++) {
        int turns = turns_after_the_return(i % 2);
        conclusive += turns >= 0;
        assert_true(turns <= 2);
    }
    if (conclusive < 4)
        fail_msg("inconclusive: %d of 20 waiters still waited", conclusive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barging_starves_as_long_as_the_holder_works),
        cmocka_unit_test(bounded_gets_in_within_eight_bypasses),
        cmocka_unit_test(who_wants_a_buffer_leaves_when_there_is_one),
    };
    sched_getaffinity(0, sizeof usable, &usable);
    if (CPU_COUNT(&usable) < 2) {
        printf("skipped: holder and waiter need a CPU each\n");
        return 77;
    }
    bind_to(0);
    return cmocka_run_group_tests_name("wait/lock_seed", tests, NULL, NULL);
}
