/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock, interleaving by interleaving: who gets it, who is woken, what is counted. Nobody spins,
 * the clock stands, and one thread runs at a time (actors.h): each outcome is exact.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lock_script.h"
#include "wait/lock_internal.h"

/* --- order and wake-ups --- */

static void a_free_lock_costs_no_wait(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    const struct taut_lock_report *report = &actor_of(OWNER)->report;
    assert_int_equal(report->outcome, TAUT_LOCK_ACQUIRED);
    assert_int_equal(report->waited_ns, 0);
    assert_int_equal(report->found_tid, 0);
    releases(OWNER);
    assert_int_equal(actors_wake_calls, 0);
    assert_int_equal(stats().acquired, 1);
    assert_int_equal(stats().contended, 0);
    at_rest();
}

static void waiters_are_served_in_the_order_they_came(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    sleeps(B, TAUT_NEVER_NS);
    sleeps(C, TAUT_NEVER_NS);
    assert_int_equal(stats().waiters, 3);
    actors_now_ns += 700;
    releases(OWNER);
    assert_int_equal(actor_of(B)->woken, 0);
    is_served(A);
    assert_int_equal(actor_of(A)->report.found_tid, actor_of(OWNER)->tid);
    assert_int_equal(actor_of(A)->report.last_winner_tid, 0);
    assert_int_equal(actor_of(A)->report.waited_ns, 700);
    assert_int_equal(actor_of(A)->report.parks, 1);
    assert_int_equal(actor_of(A)->report.kept, 0);
    releases(A);
    is_served(B);
    assert_int_equal(actor_of(B)->report.last_winner_tid, actor_of(A)->tid);
    releases(B);
    is_served(C);
    assert_int_equal(actor_of(C)->report.queue_ahead, 2);
    assert_int_equal(actor_of(C)->report.bypass_count, 0);
    assert_int_equal(actor_of(C)->report.wakeups_lost, 0);
    releases(C);
    assert_int_equal(stats().acquired, 4);
    assert_int_equal(stats().contended, 3);
    assert_int_equal(stats().parks, 3);
    assert_int_equal(stats().wake_calls, 3);
    assert_int_equal(actors_wake_calls, 3);
    at_rest();
}

static void a_release_wakes_once_until_the_waiter_sleeps_again(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    bypasses(OWNER, 3);
    assert_int_equal(actors_wake_calls, 1);
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_ASLEEP);
    bypasses(OWNER, 2);
    assert_int_equal(actors_wake_calls, 2);
    releases(OWNER);
    is_served(A);
    assert_int_equal(actor_of(A)->report.bypass_count, 5);
    assert_int_equal(actor_of(A)->report.wakeups_lost, 1);
    assert_int_equal(actor_of(A)->report.parks, 2);
    assert_int_equal(actor_of(A)->report.last_winner_tid, actor_of(OWNER)->tid);
    releases(A);
    assert_int_equal(stats().wakeups_lost, 1);
    assert_int_equal(stats().barged, 5);
    at_rest();
}

static void nobody_sleeps_on_a_lock_that_became_free(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    /* A's second look at the clock comes after its look at the lock and before its sleep. */
    actor_of(A)->stop_at_clock = 2;
    assert_int_equal(actor_acquire(A, &the_lock, TAUT_NEVER_NS), ACTOR_AT_CLOCK);
    assert_int_equal(atomic_load(&the_lock.word), LOCK_HELD | LOCK_QUEUED);
    releases(OWNER);
    assert_int_equal(actors_wake_calls, 0);
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_ACQUIRED);
    assert_int_equal(actor_of(A)->report.parks, 0);
    releases(A);
    at_rest();
}

static void a_wake_up_before_the_sleep_is_not_missed(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    actor_of(A)->stop_at_futex = 1;
    assert_int_equal(actor_acquire(A, &the_lock, TAUT_NEVER_NS), ACTOR_AT_FUTEX);
    releases(OWNER);
    assert_int_equal(actors_wake_calls, 1);
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_ACQUIRED);
    assert_int_equal(actor_of(A)->report.parks, 0);
    releases(A);
    at_rest();
}

/* Overtaken on its way to sleep: it has lost the lock, but no sleep of its. */
static void a_wake_up_that_ended_no_sleep_is_not_a_lost_one(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    actor_of(A)->stop_at_futex = 1;
    assert_int_equal(actor_acquire(A, &the_lock, TAUT_NEVER_NS), ACTOR_AT_FUTEX);
    bypasses(OWNER, 1);
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_ASLEEP);
    bypasses(OWNER, 1);
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_ASLEEP);
    releases(OWNER);
    is_served(A);
    assert_int_equal(actor_of(A)->report.bypass_count, 2);
    assert_int_equal(actor_of(A)->report.parks, 2);
    assert_int_equal(actor_of(A)->report.wakeups_lost, 1);
    releases(A);
    at_rest();
}

/* Promoted between its look at the queue and its sleep: the wake-up is in its word. */
static void who_is_promoted_on_the_way_to_sleep_is_woken(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    actor_of(B)->stop_at_clock = 2;
    assert_int_equal(actor_acquire(B, &the_lock, TAUT_NEVER_NS), ACTOR_AT_CLOCK);
    releases(OWNER);
    is_served(A);
    releases(A);
    assert_int_equal(actor_resume(B, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(B)->result, TAUT_LOCK_ACQUIRED);
    releases(B);
    at_rest();
}

static void a_spurious_wake_up_changes_nothing(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    sleeps(B, TAUT_NEVER_NS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(actor_resume(A, i ? WOKEN : TAUT__FUTEX_INTERRUPTED), ACTOR_ASLEEP);
        assert_int_equal(actor_resume(B, WOKEN), ACTOR_ASLEEP);
    }
    releases(OWNER);
    assert_int_equal(actor_of(B)->woken, 0);
    is_served(A);
    assert_int_equal(actor_of(A)->report.wakeups_lost, 0);
    releases(A);
    is_served(B);
    releases(B);
    at_rest();
}

static void a_lock_that_is_waited_for_is_not_ended(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    assert_int_equal(taut_lock_destroy(&the_lock), TAUT_EBUSY);
    releases(OWNER);
    assert_int_equal(stats().owner_tid, 0);
    assert_int_equal(taut_lock_destroy(&the_lock), TAUT_EBUSY); /* free, and A on its way */
    is_served(A);
    assert_int_equal(taut_lock_destroy(&the_lock), TAUT_EBUSY);
    releases(A);
    at_rest();
}

/* A look at the clock takes 100 ns here, so a spin of 50 us has hundreds. */
static void only_the_oldest_waiter_spins(void **state)
{
    (void)state;
    make_spinning(TAUT_LOCK_BOUNDED, 50 * TAUT_NS_PER_US);
    actors_tick_ns = 100;
    sleeps(A, TAUT_NEVER_NS);
    assert_in_range(actor_of(A)->clock_looks, 400, 600);
    assert_int_equal(actor_of(A)->report.parks, 0); /* not before it has spun */
    sleeps(B, TAUT_NEVER_NS);
    assert_in_range(actor_of(B)->clock_looks, 1, 4);
    releases(OWNER);
    is_served(A);
    actor_of(B)->clock_looks = 0;
    assert_int_equal(actor_resume(B, WOKEN), ACTOR_ASLEEP); /* the oldest now, and A holds it */
    assert_in_range(actor_of(B)->clock_looks, 400, 600);
    releases(A);
    is_served(B);
    releases(B);
    at_rest();
}

/* --- the bounds --- */

static void the_oldest_waiter_is_bypassed_eight_times_and_then_served(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    bypasses(OWNER, 8);
    releases(OWNER);
    is_refused(OWNER);
    is_refused(OTHER);
    assert_int_equal(actor_acquire(OTHER, &the_lock, TAUT_NEVER_NS), ACTOR_ASLEEP);
    is_served(A);
    assert_int_equal(actor_of(A)->report.bypass_count, 8);
    assert_int_equal(actor_of(A)->report.kept, 1);
    assert_int_equal(stats().barged, 8);
    assert_int_equal(stats().kept, 1);
    assert_int_equal(stats().bypass_most, 8);
    assert_int_equal(stats().bypass_most_tid, actor_of(OWNER)->tid);
    assert_int_equal(stats().waited_most_ns, 0);
    releases(A);
    is_served(OTHER);
    assert_int_equal(actor_of(OTHER)->report.kept, 0);
    releases(OTHER);
    at_rest();
}

static void the_bound_by_time_keeps_it_too(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    actors_now_ns += TAUT_LOCK_WAIT_MAX_NS - 1;
    bypasses(OWNER, 1);
    actors_now_ns += 1;
    releases(OWNER);
    is_refused(OWNER);
    is_served(A);
    assert_int_equal(actor_of(A)->report.kept, 1);
    assert_int_equal(actor_of(A)->report.bypass_count, 1);
    assert_int_equal(stats().waited_most_ns, TAUT_LOCK_WAIT_MAX_NS);
    assert_int_equal(stats().waited_most_tid, actor_of(OWNER)->tid);
    releases(A);
    at_rest();
}

static void the_time_of_the_next_begins_when_it_came(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    actors_now_ns += 150 * TAUT_NS_PER_US;
    sleeps(B, TAUT_NEVER_NS);
    actors_now_ns += 150 * TAUT_NS_PER_US;
    releases(OWNER);
    is_refused(OTHER); /* A has waited 300 us */
    is_served(A);
    releases(A);
    barges(OTHER); /* B only 150 us */
    actors_now_ns += 50 * TAUT_NS_PER_US;
    releases(OTHER);
    is_refused(OTHER);
    is_served(B);
    assert_int_equal(actor_of(B)->report.bypass_count, 1);
    releases(B);
    at_rest();
}

/* Bypassed eight times while it was second: the next that gets the lock. */
static void bypasses_count_while_another_is_the_oldest(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    sleeps(B, TAUT_NEVER_NS);
    bypasses(OWNER, 8);
    sleeps(C, TAUT_NEVER_NS);
    releases(OWNER);
    is_served(A);
    releases(A);
    is_refused(OTHER);
    is_served(B);
    assert_int_equal(actor_of(B)->report.bypass_count, 8);
    assert_int_equal(actor_of(B)->report.kept, 1);
    bypasses(B, 8); /* C came after those: all its own are left */
    releases(B);
    is_refused(B);
    is_served(C);
    assert_int_equal(actor_of(C)->report.bypass_count, 8);
    releases(C);
    assert_int_equal(stats().bypass_most, 8);
    assert_int_equal(stats().barged, 16);
    at_rest();
}

static void keeping_ends_when_the_waiter_is_served(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    for (uint32_t round = 0; round < 3; round++) {
        sleeps(A, TAUT_NEVER_NS);
        bypasses(OWNER, 8);
        sleeps(B, TAUT_NEVER_NS);
        releases(OWNER);
        is_refused(OTHER);
        is_served(A);
        assert_int_equal(actor_of(A)->report.kept, 1);
        releases(A);
        barges(OWNER); /* B has not been bypassed yet */
        bypasses(OWNER, 7);
        releases(OWNER);
        is_refused(OTHER);
        is_served(B);
        assert_int_equal(actor_of(B)->report.bypass_count, 8);
        releases(B);
        barges(OWNER);
    }
    assert_int_equal(stats().kept, 6);
    releases(OWNER);
    at_rest();
}

static void fifo_lets_nobody_overtake(void **state)
{
    (void)state;
    make(TAUT_LOCK_FIFO);
    sleeps(A, TAUT_NEVER_NS);
    sleeps(B, TAUT_NEVER_NS);
    releases(OWNER);
    is_refused(OWNER);
    is_served(A);
    assert_int_equal(actor_of(A)->report.kept, 1);
    releases(A);
    is_refused(OTHER);
    is_served(B);
    releases(B);
    assert_int_equal(stats().barged, 0);
    at_rest();
}

static void barging_starves_and_counts_it(void **state)
{
    (void)state;
    make(TAUT_LOCK_BARGING);
    sleeps(A, TAUT_NEVER_NS);
    sleeps(B, TAUT_NEVER_NS);
    for (uint32_t i = 0; i < 500; i++) {
        bypasses(OWNER, 1);
        actors_now_ns += TAUT_NS_PER_MS;
        assert_int_equal(actor_of(A)->woken, 1);
        assert_int_equal(actor_resume(A, WOKEN), ACTOR_ASLEEP);
    }
    releases(OWNER);
    is_served(A);
    assert_int_equal(actor_of(A)->report.wakeups_lost, 500);
    assert_int_equal(actor_of(A)->report.bypass_count, 500);
    assert_int_equal(actor_of(A)->report.kept, 0);
    releases(A);
    bypasses(OTHER, 0);
    is_served(B);
    assert_int_equal(actor_of(B)->report.bypass_count, 500);
    releases(B);
    at_rest();
}

/* More than the word can count. */
static void bypasses_are_counted_without_end(void **state)
{
    (void)state;
    assert_int_equal(taut__lock_bypasses(UINT64_C(7) << LOCK_BYPASS_SHIFT, 7, 1), 0);
    assert_int_equal(taut__lock_bypasses(UINT64_C(2) << LOCK_BYPASS_SHIFT, 65535, 2), 3);
    assert_int_equal(taut__lock_bypasses(UINT64_C(2) << LOCK_BYPASS_SHIFT, 65535, 65540), 65539);
    make(TAUT_LOCK_BARGING);
    sleeps(A, TAUT_NEVER_NS);
    bypasses(OWNER, 2);
    sleeps(B, TAUT_NEVER_NS);
    /* All in one go. */
    atomic_fetch_add(&the_lock.word, 100000 * LOCK_BYPASS_ONE);
    atomic_fetch_add(&the_lock.barged, 100000);
    bypasses(OWNER, 3);
    releases(OWNER);
    is_served(A);
    assert_int_equal(actor_of(A)->report.bypass_count, 100005);
    releases(A);
    is_served(B);
    assert_int_equal(actor_of(B)->report.bypass_count, 100003);
    releases(B);
    at_rest();
}

/* The guard's holder has lost its CPU, whoever that is and whatever for. */
static void who_comes_waits_for_nobody_to_be_counted(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    actors_tick_ns = 100; /* or it would spin for ever */
    taut__lock_guard_enter(&the_lock);
    sleeps(A, TAUT_NEVER_NS);
    assert_int_equal(stats().waiters, 1);
    sleeps(B, TAUT_NEVER_NS);
    bypasses(OWNER, TAUT_LOCK_BYPASS_MAX);
    releases(OWNER);
    is_refused(OWNER); /* free, and kept for A */
    assert_int_equal(actor_of(A)->woken, 0);
    taut__lock_guard_exit(&the_lock);
    is_served(A);
    assert_int_equal(actor_of(A)->report.bypass_count, TAUT_LOCK_BYPASS_MAX);
    assert_int_equal(actor_of(A)->report.queue_ahead, 0);
    assert_int_equal(actor_of(A)->report.kept, 1);
    releases(A);
    is_served(B);
    assert_int_equal(actor_of(B)->report.bypass_count, TAUT_LOCK_BYPASS_MAX);
    assert_int_equal(actor_of(B)->report.queue_ahead, 1);
    releases(B);
    at_rest();
}

static void who_is_queued_by_another_is_woken_by_the_release(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    actors_tick_ns = 100; /* or it would spin for ever */
    taut__lock_guard_enter(&the_lock);
    sleeps(A, TAUT_NEVER_NS);
    taut__lock_guard_exit(&the_lock);
    assert_int_equal(actor_of(A)->woken, 0); /* it is held */
    releases(OWNER);
    is_served(A);
    releases(A);
    assert_int_equal(actors_wake_calls, 1);
    at_rest();
}

/* It finds out before it sleeps: the release has nothing to do. */
static void who_is_queued_by_another_and_awake_needs_no_wake_up(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    the_lock.guard_spins = 1;
    taut__lock_guard_enter(&the_lock);
    actor_of(A)->stop_at_clock = 2; /* it has come, and waits for the guard */
    assert_int_equal(actor_acquire(A, &the_lock, TAUT_NEVER_NS), ACTOR_AT_CLOCK);
    taut__lock_guard_exit(&the_lock);
    actor_of(A)->stop_at_clock = 1; /* it has looked, and will sleep */
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_AT_CLOCK);
    releases(OWNER);
    assert_int_equal(actors_wake_calls, 0);
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_ACQUIRED);
    releases(A);
    at_rest();
}

/* Behind a queue nobody needs the guard to come; who leaves first is queued for that. */
static void who_has_come_and_is_not_queued_may_leave(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    sleeps(B, actors_now_ns + 10);
    sleeps(C, TAUT_NEVER_NS);
    assert_true((atomic_load(&the_lock.word) & LOCK_ARRIVALS) != 0);
    actors_now_ns += 10;
    assert_int_equal(actor_resume(B, EXPIRED), ACTOR_IDLE);
    assert_int_equal(actor_of(B)->result, TAUT_LOCK_EXPIRED);
    assert_true((atomic_load(&the_lock.word) & LOCK_ARRIVALS) == 0);
    releases(OWNER);
    is_served(A);
    releases(A);
    is_served(C);
    releases(C);
    at_rest();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        ONE(a_free_lock_costs_no_wait),
        ONE(waiters_are_served_in_the_order_they_came),
        ONE(a_release_wakes_once_until_the_waiter_sleeps_again),
        ONE(nobody_sleeps_on_a_lock_that_became_free),
        ONE(a_wake_up_before_the_sleep_is_not_missed),
        ONE(a_wake_up_that_ended_no_sleep_is_not_a_lost_one),
        ONE(who_is_promoted_on_the_way_to_sleep_is_woken),
        ONE(a_spurious_wake_up_changes_nothing),
        ONE(a_lock_that_is_waited_for_is_not_ended),
        ONE(only_the_oldest_waiter_spins),
        ONE(the_oldest_waiter_is_bypassed_eight_times_and_then_served),
        ONE(the_bound_by_time_keeps_it_too),
        ONE(the_time_of_the_next_begins_when_it_came),
        ONE(bypasses_count_while_another_is_the_oldest),
        ONE(keeping_ends_when_the_waiter_is_served),
        ONE(fifo_lets_nobody_overtake),
        ONE(barging_starves_and_counts_it),
        ONE(bypasses_are_counted_without_end),
        ONE(who_comes_waits_for_nobody_to_be_counted),
        ONE(who_is_queued_by_another_is_woken_by_the_release),
        ONE(who_is_queued_by_another_and_awake_needs_no_wake_up),
        ONE(who_has_come_and_is_not_queued_may_leave),
    };
    return cmocka_run_group_tests_name("wait/lock_turns", tests, NULL, NULL);
}
