/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who leaves the lock's queue without being served: its deadline passed, or its reason has gone.
 * The lock that was about to be its own is accepted or passed on, never lost. As test_lock_turns.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lock_script.h"
#include "wait/lock_internal.h"

/* --- deadlines --- */

static void a_past_deadline_tries_once(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    const uint64_t deadlines[] = {0, 1, actors_now_ns - 1, actors_now_ns};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(actor_acquire(A, &the_lock, deadlines[i]), ACTOR_IDLE);
        assert_int_equal(actor_of(A)->result, TAUT_LOCK_EXPIRED);
        assert_int_equal(actor_of(A)->sleeps, 0);
        assert_int_equal(actor_of(A)->report.late_ns,
                         deadlines[i] ? actors_now_ns - deadlines[i] : 0);
        assert_int_equal(actor_of(A)->report.found_tid, actor_of(OWNER)->tid);
        assert_int_equal(actor_of(A)->report.owner_gone, 0);
    }
    releases(OWNER);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(actor_acquire(A, &the_lock, deadlines[i]), ACTOR_IDLE);
        assert_int_equal(actor_of(A)->result, TAUT_LOCK_ACQUIRED);
        releases(A);
    }
    assert_int_equal(stats().expired, 4);
    at_rest();
}

/* Any of three, one after the other. */
static void who_times_out_leaves_the_queue_whole(void **state)
{
    (void)state;
    for (uint32_t leavers = 1; leavers < 8; leavers++) {
        make(TAUT_LOCK_BOUNDED);
        uint64_t deadline_ns = actors_now_ns + TAUT_NS_PER_US;
        uint32_t left = 0;
        for (uint32_t i = A; i <= C; i++)
            sleeps(i, leavers >> (i - A) & 1 ? deadline_ns : TAUT_NEVER_NS);
        bypasses(OWNER, 2);
        actors_now_ns = deadline_ns + 30;
        for (uint32_t i = A; i <= C; i++) {
            if (!(leavers >> (i - A) & 1))
                continue;
            assert_int_equal(actor_of(i)->until_ns, deadline_ns);
            assert_int_equal(actor_resume(i, EXPIRED), ACTOR_IDLE);
            assert_int_equal(actor_of(i)->result, TAUT_LOCK_EXPIRED);
            assert_int_equal(actor_of(i)->report.late_ns, 30);
            assert_int_equal(actor_of(i)->report.bypass_count, 2);
            assert_int_equal(actor_of(i)->report.last_winner_tid, actor_of(OWNER)->tid);
            assert_int_equal(stats().waiters, 3 - ++left);
        }
        sleeps(OTHER, TAUT_NEVER_NS);
        assert_int_equal(stats().bypass_most, 2);
        releases(OWNER);
        for (uint32_t i = A; i <= C; i++) {
            if (leavers >> (i - A) & 1)
                continue;
            is_served(i);
            assert_int_equal(actor_of(i)->report.bypass_count, 2);
            releases(i);
        }
        is_served(OTHER);
        assert_int_equal(actor_of(OTHER)->report.bypass_count, 0);
        releases(OTHER);
        assert_int_equal(stats().acquired, 7 - left);
        assert_int_equal(stats().expired, left);
        at_rest();
    }
}

static void the_only_waiter_that_times_out_leaves_nothing(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, actors_now_ns + 1);
    bypasses(OWNER, 2);
    actors_now_ns += 1;
    assert_int_equal(actor_resume(A, EXPIRED), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_EXPIRED);
    assert_true((atomic_load(&the_lock.word) & (LOCK_USED | LOCK_HEAD_ASLEEP)) == LOCK_HELD);
    releases(OWNER);
    at_rest();
}

/* The release had given it the lock when its time ran out: accepted. */
static void a_hand_off_that_races_a_time_out_is_accepted(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, actors_now_ns + 100);
    sleeps(B, TAUT_NEVER_NS);
    bypasses(OWNER, 8);
    actors_now_ns += 140;
    releases(OWNER);
    is_refused(OTHER);
    assert_int_equal(actor_resume(A, EXPIRED), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_ACQUIRED);
    assert_int_equal(actor_of(A)->report.kept, 1);
    assert_int_equal(actor_of(A)->report.late_ns, 40);
    releases(A);
    is_served(B);
    releases(B);
    assert_int_equal(stats().expired, 0);
    at_rest();
}

/* Free after its last look, and its time has passed: the same in the step that leaves the queue. */
static void a_lock_freed_after_the_last_look_is_accepted(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, actors_now_ns + 100);
    sleeps(B, TAUT_NEVER_NS);
    bypasses(OWNER, 8);
    actors_now_ns += 100;
    actor_of(A)->stop_at_clock = 1;
    assert_int_equal(actor_resume(A, EXPIRED), ACTOR_AT_CLOCK);
    releases(OWNER);
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_ACQUIRED);
    assert_int_equal(actor_of(A)->report.kept, 1);
    assert_int_equal(actor_of(A)->report.bypass_count, 8);
    releases(A);
    is_served(B);
    assert_int_equal(actor_of(B)->report.bypass_count, 8);
    releases(B);
    at_rest();
}

/* Woken for the lock, overtaken, and out of time: the wake-up goes to the next. */
static void a_time_out_passes_the_wake_up_on(void **state)
{
    (void)state;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, actors_now_ns + 100);
    sleeps(B, TAUT_NEVER_NS);
    releases(OWNER);
    barges(OTHER);
    actors_now_ns += 100;
    assert_int_equal(actor_resume(A, EXPIRED), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_EXPIRED);
    assert_int_equal(actor_of(A)->report.wakeups_lost, 1);
    assert_int_equal(actor_of(B)->woken, 0); /* the lock is held: not yet */
    releases(OTHER);
    is_served(B);
    assert_int_equal(actor_of(B)->report.bypass_count, 1);
    releases(B);
    at_rest();
}

static void a_clock_near_its_end_changes_nothing(void **state)
{
    (void)state;
    int gone = 0;
    actors_now_ns = UINT64_MAX - 1000;
    make(TAUT_LOCK_BOUNDED);
    assert_int_equal(actor_acquire(A, &the_lock, UINT64_MAX - 500), ACTOR_ASLEEP);
    assert_int_equal(actor_of(A)->until_ns, UINT64_MAX - 500);
    assert_int_equal(actor_or(B, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_ASLEEP);
    assert_int_equal(actor_of(B)->until_ns, TAUT_NEVER_NS); /* less than a slice is left */
    bypasses(OWNER, 1);
    actors_now_ns = UINT64_MAX - 400;
    assert_int_equal(actor_resume(A, EXPIRED), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_EXPIRED);
    assert_int_equal(actor_of(A)->report.late_ns, 100);
    releases(OWNER);
    is_served(B);
    assert_int_equal(actor_of(B)->report.waited_ns, 600);
    releases(B);
    at_rest();
}

/* --- reasons --- */

static void a_reason_that_has_gone_is_seen_before_the_lock(void **state)
{
    (void)state;
    int gone = 1;
    make(TAUT_LOCK_BOUNDED);
    releases(OWNER);
    assert_int_equal(actor_or(A, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_GONE);
    assert_int_equal(actor_of(A)->report.turns, 0);
    gone = 0;
    assert_int_equal(actor_or(A, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_ACQUIRED);
    releases(A);
    assert_int_equal(stats().gone, 1);
    assert_int_equal(actor_or(A, &the_lock, NULL, NULL, TAUT_NEVER_NS), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_EINVAL);
    at_rest();
}

static void a_reason_is_tested_after_each_sleep_of_at_most_200_us(void **state)
{
    (void)state;
    int gone = 0;
    make(TAUT_LOCK_BOUNDED);
    assert_int_equal(actor_or(A, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_ASLEEP);
    assert_int_equal(actor_or(B, &the_lock, is_set, &gone, actors_now_ns + 1000), ACTOR_ASLEEP);
    assert_int_equal(actor_of(A)->until_ns, actors_now_ns + 200 * TAUT_NS_PER_US);
    assert_int_equal(actor_of(B)->until_ns, actors_now_ns + 1000);
    actors_now_ns += 200 * TAUT_NS_PER_US;
    assert_int_equal(actor_resume(A, EXPIRED), ACTOR_ASLEEP);
    assert_int_equal(actor_of(A)->until_ns, actors_now_ns + 200 * TAUT_NS_PER_US);
    gone = 1;
    assert_int_equal(actor_resume(A, EXPIRED), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_GONE);
    assert_int_equal(actor_of(A)->report.turns, 3); /* queued, the first sleep, the second */
    assert_int_equal(actor_resume(B, EXPIRED), ACTOR_IDLE);
    assert_int_equal(actor_of(B)->result, TAUT_LOCK_GONE); /* also past the deadline */
    releases(OWNER);
    assert_int_equal(stats().gone, 2);
    at_rest();
}

/* Its sleeps end every 200 us. Spinning pays when the lock was released, and only then. */
static void a_sleep_that_ends_without_a_release_is_not_followed_by_spinning(void **state)
{
    (void)state;
    int gone = 0;
    make_spinning(TAUT_LOCK_BARGING, 50 * TAUT_NS_PER_US); /* OTHER overtakes at any time */
    actors_tick_ns = 100;
    assert_int_equal(actor_or(A, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_ASLEEP);
    assert_in_range(actor_of(A)->clock_looks, 400, 600);
    const int ends[] = {EXPIRED, TAUT__FUTEX_INTERRUPTED, EXPIRED};
    for (uint32_t i = 0; i < 3; i++) {
        actors_now_ns += 200 * TAUT_NS_PER_US;
        actor_of(A)->clock_looks = 0;
        assert_int_equal(actor_resume(A, ends[i]), ACTOR_ASLEEP);
        assert_in_range(actor_of(A)->clock_looks, 1, 4);
    }
    assert_int_equal(actor_of(A)->report.wakeups_lost, 0);
    releases(OWNER);
    barges(OTHER);
    actor_of(A)->clock_looks = 0;
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_ASLEEP);
    assert_in_range(actor_of(A)->clock_looks, 400, 600); /* OTHER may be as quick as OWNER was */
    gone = 1;
    assert_int_equal(actor_resume(A, EXPIRED), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_GONE);
    assert_int_equal(actor_of(A)->report.wakeups_lost, 1);
    releases(OTHER);
    at_rest();
}

static void a_retest_wakes_who_has_a_reason_and_nobody_else(void **state)
{
    (void)state;
    int gone = 0;
    make(TAUT_LOCK_BOUNDED);
    sleeps(A, TAUT_NEVER_NS);
    assert_int_equal(actor_retest(OTHER, &the_lock), ACTOR_IDLE);
    assert_int_equal(actors_wake_calls, 0);
    assert_int_equal(actor_or(B, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_ASLEEP);
    assert_int_equal(actor_or(C, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_ASLEEP);
    assert_int_equal(actor_retest(OTHER, &the_lock), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->woken, 0);
    assert_int_equal(actor_of(B)->woken, 1);
    assert_int_equal(actor_of(C)->woken, 1);
    assert_int_equal(actor_resume(B, WOKEN), ACTOR_ASLEEP); /* still wanted */
    gone = 1;
    assert_int_equal(actor_retest(OTHER, &the_lock), ACTOR_IDLE);
    assert_int_equal(actor_of(B)->woken, 1);
    assert_int_equal(actor_resume(B, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(B)->result, TAUT_LOCK_GONE);
    assert_int_equal(actor_of(B)->report.wakeups_lost, 0);
    assert_int_equal(actor_resume(C, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(C)->result, TAUT_LOCK_GONE);
    uint32_t calls = actors_wake_calls;
    assert_int_equal(actor_retest(OTHER, &the_lock), ACTOR_IDLE);
    assert_int_equal(actors_wake_calls, calls);
    releases(OWNER);
    is_served(A);
    releases(A);
    at_rest();
}

/* Told to look between its test and its sleep. */
static void a_retest_before_the_sleep_is_not_missed(void **state)
{
    (void)state;
    int gone = 0;
    make(TAUT_LOCK_BOUNDED);
    actor_of(A)->stop_at_futex = 1;
    assert_int_equal(actor_or(A, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_AT_FUTEX);
    gone = 1;
    assert_int_equal(actor_retest(OTHER, &the_lock), ACTOR_IDLE);
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_GONE);
    releases(OWNER);
    at_rest();
}

/* A waiter counts itself, then tests its reason; who removes a reason does so, then looks for
 * waiters. Each at the other's fence: one of the two sees the other. */
static void a_reason_that_goes_at_the_fence_is_not_missed(void **state)
{
    (void)state;
    int gone = 0;
    make(TAUT_LOCK_BOUNDED);
    actor_of(A)->stop_at_fence = 1;
    assert_int_equal(actor_or(A, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_AT_FENCE);
    assert_int_equal(atomic_load(&the_lock.reasons), 1);
    gone = 1;
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_GONE);
    assert_int_equal(actor_of(A)->sleeps, 0);
    gone = 0;
    actor_of(OTHER)->stop_at_fence = 1;
    assert_int_equal(actor_retest(OTHER, &the_lock), ACTOR_AT_FENCE);
    assert_int_equal(actor_or(B, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_ASLEEP);
    assert_int_equal(actor_of(B)->woken, 0);
    gone = 1;
    assert_int_equal(actor_resume(OTHER, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(B)->woken, 1);
    assert_int_equal(actor_resume(B, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(B)->result, TAUT_LOCK_GONE);
    releases(OWNER);
    at_rest();
}

/* The lock is free and kept for it, and it does not want it any more: the next is woken at once. */
static void a_kept_lock_is_passed_on_when_the_reason_has_gone(void **state)
{
    (void)state;
    int gone = 0;
    make(TAUT_LOCK_BOUNDED);
    assert_int_equal(actor_or(A, &the_lock, is_set, &gone, TAUT_NEVER_NS), ACTOR_ASLEEP);
    sleeps(B, TAUT_NEVER_NS);
    bypasses(OWNER, 8);
    releases(OWNER);
    assert_int_equal(actor_of(A)->woken, 1);
    gone = 1;
    assert_int_equal(actor_resume(A, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(A)->result, TAUT_LOCK_GONE);
    is_refused(OTHER);
    is_served(B);
    assert_int_equal(actor_of(B)->report.bypass_count, 8);
    releases(B);
    at_rest();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        ONE(a_past_deadline_tries_once),
        ONE(who_times_out_leaves_the_queue_whole),
        ONE(the_only_waiter_that_times_out_leaves_nothing),
        ONE(a_hand_off_that_races_a_time_out_is_accepted),
        ONE(a_lock_freed_after_the_last_look_is_accepted),
        ONE(a_time_out_passes_the_wake_up_on),
        ONE(a_clock_near_its_end_changes_nothing),
        ONE(a_reason_that_has_gone_is_seen_before_the_lock),
        ONE(a_reason_is_tested_after_each_sleep_of_at_most_200_us),
        ONE(a_sleep_that_ends_without_a_release_is_not_followed_by_spinning),
        ONE(a_retest_wakes_who_has_a_reason_and_nobody_else),
        ONE(a_retest_before_the_sleep_is_not_missed),
        ONE(a_reason_that_goes_at_the_fence_is_not_missed),
        ONE(a_kept_lock_is_passed_on_when_the_reason_has_gone),
    };
    return cmocka_run_group_tests_name("wait/lock_leave", tests, NULL, NULL);
}
