/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the bench of the lock says about long waits (bench/lock/waits.h), on waits that are made up:
 * run_delay is a file that the test writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../bench/lock/waits.h"

#define MS    TAUT_NS_PER_MS
#define US    TAUT_NS_PER_US
#define BEGIN (1000 * MS)

enum { VICTIM, OTHER, THIRD, FOURTH, THREADS };

static struct waits *threads[THREADS];
static char paths[THREADS][64];

static void set_delay(int thread, uint64_t delay_ns)
{
    FILE *file = fopen(paths[thread], "w");
    assert_non_null(file);
    fprintf(file, "12345 %llu 7\n", (unsigned long long)delay_ns);
    fclose(file);
}

static int start(void **state)
{
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        snprintf(paths[i], sizeof paths[i], "schedstat-%d-%d", (int)getpid(), i);
        set_delay(i, 0);
        threads[i] = calloc(1, sizeof *threads[i]);
        if (!threads[i] || waits_open(threads[i], paths[i]) != 0)
            return -1;
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        close(threads[i]->schedstat);
        unlink(paths[i]);
        free(threads[i]);
    }
    return 0;
}

/* A wait in which its thread was runnable for delay_ns. */
static void wait_of(int thread, uint64_t begin_ns, uint64_t got_ns, uint64_t free_ns,
                    uint64_t delay_ns)
{
    static uint64_t sum_ns; /* as the kernel's, it only grows */
    set_delay(thread, sum_ns);
    waits_begin(threads[thread], begin_ns);
    sum_ns += delay_ns;
    set_delay(thread, sum_ns);
    waits_got(threads[thread], begin_ns, got_ns, free_ns);
}

/* left_ns: of one wait, what nothing is sure to explain; certain: of the unexplained, those that
 * nothing can explain. */
static void expect(uint64_t over_2ms, uint64_t unexplained, uint64_t left_ns, uint64_t certain)
{
    struct explained sums = {0};
    waits_explain(threads[VICTIM], (const struct waits *const *)threads, THREADS, &sums);
    assert_int_equal(sums.over_2ms, over_2ms);
    assert_int_equal(sums.unexplained_2ms, unexplained);
    assert_int_equal(sums.unexplained_most_ns, left_ns);
    assert_int_equal(sums.certain_2ms, certain);
}

static void nothing_explains_a_wait_by_itself(void **state)
{
    (void)state;
    wait_of(VICTIM, BEGIN, BEGIN + 10 * MS, BEGIN + 10 * MS, 0);
    expect(1, 1, 10 * MS, 1);
}

static void a_hold_explains_what_it_took_too_long(void **state)
{
    (void)state;
    waits_out(threads[OTHER], BEGIN + 400 * US, 600 * US, BEGIN + 10 * MS, BEGIN + 10 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 10 * MS, BEGIN + 10 * MS, 0);
    expect(1, 0, MS, 0); /* before the hold, and its work */
}

static void holds_before_and_behind_explain_their_part(void **state)
{
    (void)state;
    waits_out(threads[OTHER], BEGIN - 5 * MS, 0, BEGIN + 3 * MS, BEGIN + 3 * MS);
    waits_out(threads[OTHER], BEGIN + 9 * MS, 0, BEGIN + 30 * MS, BEGIN + 30 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 10 * MS, BEGIN + 10 * MS, 0);
    expect(1, 1, 6 * MS, 1);
}

/* The waiter was runnable for 3 ms, and another held for 3 ms too long: that can be the same time,
 * and needn't. */
static void its_own_delay_is_not_added(void **state)
{
    (void)state;
    waits_out(threads[OTHER], BEGIN + MS, 0, BEGIN + 4 * MS, BEGIN + 4 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS, BEGIN + 6 * MS, 3 * MS);
    expect(1, 1, 3 * MS, 0);
}

static void its_own_delay_counts_where_it_is_more(void **state)
{
    (void)state;
    waits_out(threads[OTHER], BEGIN + MS, 0, BEGIN + 2 * MS, BEGIN + 2 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS, BEGIN + 6 * MS, 5 * MS + 500 * US);
    expect(1, 0, 500 * US, 0);
}

/* Another victim, which came later; and one that came before and was runnable while others had the
 * lock. */
static void the_wait_of_another_explains_nothing(void **state)
{
    (void)state;
    wait_of(OTHER, BEGIN + MS, BEGIN + 20 * MS, BEGIN + 20 * MS, 15 * MS);
    wait_of(THIRD, BEGIN - MS, BEGIN + 9 * MS, BEGIN + 9 * MS, 8 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 10 * MS, BEGIN + 10 * MS, 0);
    expect(1, 1, 10 * MS, 1);
}

/* The lock was free from 1 to 7 ms. Who was to have it had come 0.1 ms before the wait, and had no
 * CPU for 6.6. */
static void a_gap_is_explained_by_the_next_one(void **state)
{
    (void)state;
    wait_of(OTHER, BEGIN - 100 * US, BEGIN + 7 * MS, BEGIN + MS, 6 * MS + 600 * US);
    wait_of(VICTIM, BEGIN, BEGIN + 7 * MS + 400 * US, BEGIN + 7 * MS + 400 * US, 0);
    /* 1.1 of the 6.6 may have been before the lock was free */
    expect(1, 1, 1900 * US, 1);
}

/* If it has only passed by, it was not waited for. */
static void a_next_one_that_came_later_is_not_sure(void **state)
{
    (void)state;
    wait_of(OTHER, BEGIN + US, BEGIN + 7 * MS, BEGIN + 500 * US, 6 * MS + 500 * US);
    wait_of(VICTIM, BEGIN, BEGIN + 7 * MS + 400 * US, BEGIN + 7 * MS + 400 * US, 0);
    expect(1, 1, 7 * MS + 400 * US, 0);
}

/* It waited for 11 ms and was runnable for 5 of them; the gap was the last 5: all or nothing. */
static void what_may_have_been_before_a_gap_is_not_sure(void **state)
{
    (void)state;
    wait_of(OTHER, BEGIN - 6 * MS, BEGIN + 5 * MS, BEGIN, 5 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 5 * MS, BEGIN + 5 * MS, 0);
    expect(1, 1, 5 * MS, 0);
}

/* The lock was free for 6 ms: who was at the head of the queue had no CPU. Then a third passed by,
 * and the head was next. */
static void a_gap_is_explained_by_who_stood_ahead(void **state)
{
    (void)state;
    wait_of(THIRD, BEGIN + 6 * MS, BEGIN + 6 * MS + 2 * US, BEGIN, 0);
    wait_of(OTHER, BEGIN - MS, BEGIN + 6 * MS + 10 * US, BEGIN + 6 * MS + 10 * US,
            6 * MS + 900 * US);
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS + 20 * US, BEGIN + 6 * MS + 20 * US, 0);
    expect(1, 0, 128 * US, 0); /* at most 0.11 ms of the 6.9 were elsewhere; 20 us after it */
}

/* Three were runnable in one gap of 3.5 ms, two that stood ahead and the next one, for 3 ms each:
 * 3 ms at least, 3.5 at most. */
static void delays_in_one_gap_are_not_added(void **state)
{
    (void)state;
    wait_of(THIRD, BEGIN - US, BEGIN + 3500 * US, BEGIN, 3 * MS + US);
    wait_of(OTHER, BEGIN - US, BEGIN + 3510 * US, BEGIN + 3510 * US, 3 * MS + 11 * US);
    wait_of(FOURTH, BEGIN - US, BEGIN + 3520 * US, BEGIN + 3520 * US, 3 * MS + 21 * US);
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS, BEGIN + 6 * MS, 0);
    expect(1, 1, 3 * MS, 1);
}

/* The same with one that came later: it is not sure, but it may have queued first. */
static void who_may_have_stood_behind_is_not_sure(void **state)
{
    (void)state;
    wait_of(THIRD, BEGIN + 6 * MS, BEGIN + 6 * MS + 2 * US, BEGIN, 0);
    wait_of(OTHER, BEGIN + 10 * US, BEGIN + 6 * MS + 10 * US, BEGIN + 6 * MS + 10 * US, 6 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS + 20 * US, BEGIN + 6 * MS + 20 * US, 0);
    expect(1, 1, 6 * MS + 20 * US, 0);
}

static void who_came_later_and_was_served_later_explains_no_gap(void **state)
{
    (void)state;
    wait_of(THIRD, BEGIN + 6 * MS, BEGIN + 6 * MS + 2 * US, BEGIN, 0);
    wait_of(OTHER, BEGIN + 10 * US, BEGIN + 6 * MS + 30 * US, BEGIN + 6 * MS + 30 * US, 6 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS + 20 * US, BEGIN + 6 * MS + 20 * US, 0);
    expect(1, 1, 6 * MS + 20 * US, 1);
}

static void who_was_served_later_explains_no_gap(void **state)
{
    (void)state;
    wait_of(THIRD, BEGIN + 6 * MS, BEGIN + 6 * MS + 2 * US, BEGIN, 0);
    wait_of(OTHER, BEGIN - MS, BEGIN + 6 * MS + 30 * US, BEGIN + 6 * MS + 30 * US, 7 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS + 20 * US, BEGIN + 6 * MS + 20 * US, 0);
    expect(1, 1, 6 * MS + 20 * US, 1);
}

/* Free and nobody in the way: a lost wake-up looks like this. */
static void a_gap_without_a_reason_stays_open(void **state)
{
    (void)state;
    wait_of(VICTIM, BEGIN, BEGIN + 7 * MS, BEGIN + 100 * US, 0);
    expect(1, 1, 7 * MS, 1);
}

static void a_gap_is_explained_by_the_release_before(void **state)
{
    (void)state;
    waits_out(threads[OTHER], BEGIN - US, US, BEGIN + MS, BEGIN + 6 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 7 * MS, BEGIN + MS, 900 * US);
    /* held too long 1 ms, release 5 ms; its own 0.9 may be of them */
    expect(1, 0, MS, 0);
}

static void a_release_that_began_before_explains_its_part(void **state)
{
    (void)state;
    waits_out(threads[OTHER], BEGIN - 6 * MS, MS, BEGIN - 5 * MS, BEGIN + 2 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 5 * MS, BEGIN - 5 * MS, 0);
    expect(1, 1, 3 * MS, 1);
}

/* Its holder was long gone when the gap began; it has only not come out of its release. */
static void the_release_of_one_before_explains_no_gap(void **state)
{
    (void)state;
    waits_out(threads[OTHER], BEGIN - 2 * US, US, BEGIN - US, BEGIN + 6 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 7 * MS, BEGIN + MS, 0);
    expect(1, 1, 7 * MS, 1);
}

/* Free from 5 to 7 ms, and its holder came out of the release at 8. */
static void a_gap_explains_no_more_than_its_length(void **state)
{
    (void)state;
    waits_out(threads[THIRD], BEGIN + 5 * MS, 0, BEGIN + 5 * MS, BEGIN + 8 * MS);
    wait_of(OTHER, BEGIN, BEGIN + 7 * MS, BEGIN + 5 * MS, 7 * MS);
    wait_of(VICTIM, BEGIN, BEGIN + 9 * MS, BEGIN + 9 * MS, 0);
    expect(1, 1, 7 * MS, 1);
}

/* Of 11 ms 9.5 were runnable, the last 2 are common: 0.5 at least, 2 at most. */
static void a_gap_that_began_before_explains_its_part(void **state)
{
    (void)state;
    wait_of(OTHER, BEGIN - 9 * MS, BEGIN + 2 * MS, BEGIN - 8 * MS, 9 * MS + 500 * US);
    wait_of(VICTIM, BEGIN, BEGIN + 5 * MS, BEGIN + 5 * MS, 0);
    expect(1, 1, 4 * MS + 500 * US, 1);
}

/* Its own delay in the gap that it ended itself is the same delay. */
static void its_own_gap_is_not_added(void **state)
{
    (void)state;
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS, BEGIN + 3 * MS, 2 * MS + 600 * US);
    expect(1, 1, 3 * MS + 400 * US, 1);
}

/* Nor is it in a gap that another ended. */
static void its_own_delay_in_a_gap_is_not_added(void **state)
{
    (void)state;
    wait_of(THIRD, BEGIN + 4 * MS, BEGIN + 4 * MS + 2 * US, BEGIN, 0);
    wait_of(VICTIM, BEGIN, BEGIN + 6 * MS, BEGIN + 6 * MS, 2 * MS + 600 * US);
    expect(1, 1, 3 * MS + 400 * US, 1);
}

static void what_was_before_the_wait_is_not_of_it(void **state)
{
    (void)state;
    set_delay(VICTIM, 0);
    waits_begin(threads[VICTIM], BEGIN);
    waits_got(threads[VICTIM], BEGIN, BEGIN + US, 0);
    waits_out(threads[VICTIM], BEGIN + US, US, BEGIN + 200 * US, BEGIN + 200 * US);
    set_delay(VICTIM, 50 * MS); /* while it held the lock, 0.2 ms ago */
    waits_begin(threads[VICTIM], BEGIN + 300 * US);
    waits_got(threads[VICTIM], BEGIN + 300 * US, BEGIN + 10300 * US, BEGIN + 10300 * US);
    expect(1, 1, 10 * MS, 1);
}

static void a_delay_between_a_release_and_the_wait_is_not_of_it(void **state)
{
    (void)state;
    set_delay(VICTIM, 0);
    waits_begin(threads[VICTIM], BEGIN);
    waits_got(threads[VICTIM], BEGIN, BEGIN + US, 0);
    waits_out(threads[VICTIM], BEGIN + US, US, BEGIN + 2 * US, BEGIN + 3 * US);
    set_delay(VICTIM, 50 * MS); /* in its work outside */
    waits_begin(threads[VICTIM], BEGIN + 300 * US);
    waits_got(threads[VICTIM], BEGIN + 300 * US, BEGIN + 10300 * US, BEGIN + 10300 * US);
    expect(1, 1, 10 * MS, 1);
}

static void a_delay_in_a_short_wait_is_not_of_the_next(void **state)
{
    (void)state;
    set_delay(VICTIM, 0);
    waits_begin(threads[VICTIM], BEGIN);
    waits_got(threads[VICTIM], BEGIN, BEGIN + 300 * US, 0);
    waits_out(threads[VICTIM], BEGIN + 300 * US, US, BEGIN + 301 * US, BEGIN + 302 * US);
    set_delay(VICTIM, 50 * MS);
    waits_begin(threads[VICTIM], BEGIN + 303 * US);
    waits_got(threads[VICTIM], BEGIN + 303 * US, BEGIN + 10303 * US, BEGIN + 10303 * US);
    expect(1, 1, 10 * MS, 1);
}

static void an_unreadable_delay_explains_nothing_and_is_counted(void **state)
{
    (void)state;
    static struct waits all;
    set_delay(VICTIM, 0);
    waits_begin(threads[VICTIM], BEGIN);
    FILE *file = fopen(paths[VICTIM], "w");
    assert_non_null(file);
    fclose(file); /* empty */
    waits_got(threads[VICTIM], BEGIN, BEGIN + 10 * MS, BEGIN + 10 * MS);
    expect(1, 1, 10 * MS, 1);
    waits_begin(threads[VICTIM], BEGIN + 11 * MS);
    set_delay(VICTIM, 20 * MS);
    waits_got(threads[VICTIM], BEGIN + 11 * MS, BEGIN + 21 * MS, BEGIN + 21 * MS);
    expect(2, 2, 10 * MS, 2);
    waits_merge(&all, threads[VICTIM]);
    assert_int_equal(all.unreadable, 2);
}

/* A gap of 0.2 ms, whose reading fails: the next wait has no reading to count from. */
static void after_an_unreadable_delay_none_is_counted_from_before(void **state)
{
    (void)state;
    set_delay(VICTIM, 0);
    waits_begin(threads[VICTIM], BEGIN);
    FILE *file = fopen(paths[VICTIM], "w");
    assert_non_null(file);
    fclose(file);
    waits_got(threads[VICTIM], BEGIN, BEGIN + 200 * US, BEGIN);
    set_delay(VICTIM, 50 * MS);
    waits_begin(threads[VICTIM], BEGIN + 210 * US);
    waits_got(threads[VICTIM], BEGIN + 210 * US, BEGIN + 10210 * US, BEGIN + 10210 * US);
    expect(1, 1, 10 * MS, 1);
}

static void what_does_not_fit_is_counted(void **state)
{
    (void)state;
    static struct waits all;
    for (uint64_t i = 0; i < WAITS_EVENTS_MAX + 5; i++)
        waits_out(threads[OTHER], BEGIN + i * MS, 0, BEGIN + i * MS + 200 * US,
                  BEGIN + i * MS + 200 * US);
    waits_merge(&all, threads[OTHER]);
    assert_int_equal(all.dropped, 5);
}

static void no_schedstat_is_said_at_once(void **state)
{
    (void)state;
    static struct waits waits;
    assert_int_equal(waits_open(&waits, "no-such-file"), -1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing_explains_a_wait_by_itself),
        CASE(a_hold_explains_what_it_took_too_long),
        CASE(holds_before_and_behind_explain_their_part),
        CASE(its_own_delay_is_not_added),
        CASE(its_own_delay_counts_where_it_is_more),
        CASE(the_wait_of_another_explains_nothing),
        CASE(a_gap_is_explained_by_the_next_one),
        CASE(a_next_one_that_came_later_is_not_sure),
        CASE(what_may_have_been_before_a_gap_is_not_sure),
        CASE(a_gap_is_explained_by_who_stood_ahead),
        CASE(delays_in_one_gap_are_not_added),
        CASE(who_may_have_stood_behind_is_not_sure),
        CASE(who_came_later_and_was_served_later_explains_no_gap),
        CASE(who_was_served_later_explains_no_gap),
        CASE(a_gap_without_a_reason_stays_open),
        CASE(a_gap_is_explained_by_the_release_before),
        CASE(a_release_that_began_before_explains_its_part),
        CASE(the_release_of_one_before_explains_no_gap),
        CASE(a_gap_explains_no_more_than_its_length),
        CASE(a_gap_that_began_before_explains_its_part),
        CASE(its_own_gap_is_not_added),
        CASE(its_own_delay_in_a_gap_is_not_added),
        CASE(what_was_before_the_wait_is_not_of_it),
        CASE(a_delay_between_a_release_and_the_wait_is_not_of_it),
        CASE(a_delay_in_a_short_wait_is_not_of_the_next),
        CASE(an_unreadable_delay_explains_nothing_and_is_counted),
        CASE(after_an_unreadable_delay_none_is_counted_from_before),
        CASE(what_does_not_fit_is_counted),
        CASE(no_schedstat_is_said_at_once),
    };
    return cmocka_run_group_tests_name("wait/lock-waits", tests, NULL, NULL);
}
