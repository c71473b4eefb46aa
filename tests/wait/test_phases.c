/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The spin phase on a virtual clock: how often it looks at the clock whatever a pause costs, when
 * it ends, and when no clock is looked at at all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <taut/wait.h>

#include "virtual.h"

#define TURNS_MOST 2000000 /* of a loop that must end long before */
#define MS         TAUT_NS_PER_MS
#define US         TAUT_NS_PER_US

/* Spins with a pause that costs pause_ns, until the engine says that it is over. */
static int spin_to_the_end(struct taut_spin *spin, uint64_t pause_ns)
{
    int turns = 0;
    while (taut_spin_next(spin)) {
        virtual.now_ns += pause_ns;
        if (++turns == TURNS_MOST)
            fail_msg("no end after %d turns and %llu looks at the clock", turns,
                     (unsigned long long)virtual.reads);
    }
    return turns;
}

/* What a pause costs is not known beforehand: 3 ns here, 50 there, 2 us under an emulator. */
static void the_clock_is_looked_at_every_300_ns(void **state)
{
    (void)state;
    static const uint64_t pauses_ns[] = {3, 9, 18, 45, 70, 140, 400, 2000};
    for (size_t i = 0; i < sizeof pauses_ns / sizeof pauses_ns[0]; i++) {
        struct taut_wait_policy policy = {.size = sizeof policy, .spin_ns = TAUT_NEVER_NS};
        struct taut_wait_report report;
        struct taut_spin spin;
        virtual.reads = 0;
        uint64_t began_ns = virtual.now_ns, deadline_ns = began_ns + MS;
        taut_spin_begin(&spin, deadline_ns, &policy);
        spin_to_the_end(&spin, pauses_ns[i]);
        uint64_t reads = virtual.reads, spent_ns = virtual.now_ns - began_ns;
        taut_spin_end(&spin, TAUT_WAIT_EXPIRED, &report);
        /* Intervals settle between 150 and 600 ns, where four pauses fit into that. */
        uint64_t longest_ns = pauses_ns[i] <= 140 ? 600 : 4 * pauses_ns[i] + 40;
        assert_in_range(reads, MS / (longest_ns + 40) - 4, MS / 150 + 10);
        assert_in_range(spent_ns, MS, MS + longest_ns + 16 * pauses_ns[i]);
        assert_in_range(report.longest_gap_ns, 40, 16 * pauses_ns[i] + 600);
        /* The pauses that were made, not those that were planned. */
        uint64_t paid_ns = report.spins * pauses_ns[i] + reads * 40;
        assert_in_range(paid_ns, spent_ns - 2 * pauses_ns[i], spent_ns + 2 * pauses_ns[i]);
        assert_int_equal(report.phase, TAUT_PHASE_SPIN);
        assert_int_equal(report.contended, 0);
        assert_int_equal(report.yields, 0);
    }
}

static void the_stride_is_remembered_by_the_window(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy,
                                      .spin_ns = 20 * US,
                                      .yield_ns = TAUT_WAIT_NONE_NS,
                                      .window = &window};
    struct taut_spin spin;
    assert_int_equal(window.spin_stride, 16);
    taut_spin_begin(&spin, TAUT_NEVER_NS, &policy);
    spin_to_the_end(&spin, 2);
    taut_spin_end(&spin, TAUT_WAIT_EXPIRED, NULL);
    assert_in_range(window.spin_stride, 64, 256);
    for (int i = 0; i < 3; i++) {
        taut_spin_begin(&spin, TAUT_NEVER_NS, &policy);
        assert_int_equal(spin.stride, window.spin_stride);
        spin_to_the_end(&spin, 300);
        taut_spin_end(&spin, TAUT_WAIT_EXPIRED, NULL);
    }
    assert_int_equal(window.spin_stride, 4); /* the least */
}

static void a_look_that_costs_as_much_as_the_clock_gets_the_clock_each_time(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy, .spin_ns = 100 * US};
    struct taut_wait_report report;
    struct taut_spin spin;
    taut_spin_begin(&spin, TAUT_NEVER_NS, &policy);
    spin.look_each = 1;
    int turns = spin_to_the_end(&spin, 1000);
    taut_spin_end(&spin, TAUT_WAIT_EXPIRED, &report);
    assert_in_range(turns, 95, 100);
    assert_int_equal(virtual.reads, turns);
    assert_in_range(report.spins, turns - 1, turns);
}

static void a_budget_is_a_duration(void **state)
{
    (void)state;
    static const uint64_t budgets_ns[] = {2, 1000, 5 * US, 50 * US, 3 * MS};
    for (size_t i = 0; i < sizeof budgets_ns / sizeof budgets_ns[0]; i++) {
        struct taut_wait_policy policy = {.size = sizeof policy, .spin_ns = budgets_ns[i]};
        struct taut_wait_report report;
        struct taut_spin spin;
        uint64_t began_ns = virtual.now_ns;
        taut_spin_begin(&spin, TAUT_NEVER_NS, &policy);
        spin_to_the_end(&spin, 20);
        assert_in_range(virtual.now_ns - began_ns, budgets_ns[i], budgets_ns[i] + 600 + 80);
        assert_int_equal(taut_spin_next(&spin), 0); /* and stays over */
        taut_spin_end(&spin, TAUT_WAIT_EXPIRED, &report);
        assert_int_equal(report.spin_budget_ns, budgets_ns[i]);
        assert_int_equal(report.yield_budget_ns, 0);
    }
}

/* After the clock has said that time is up, the caller looks once more. */
static void the_last_look_is_after_the_last_clock(void **state)
{
    (void)state;
    static const uint64_t deadlines_ns[] = {5 * US, 0};
    for (size_t i = 0; i < 2; i++) {
        struct taut_wait_policy policy = {.size = sizeof policy, .spin_ns = 10 * US};
        struct taut_spin spin;
        uint64_t reads_at_look = 0;
        taut_spin_begin(&spin, virtual.now_ns + deadlines_ns[i], &policy);
        do {
            reads_at_look = virtual.reads;
            virtual.now_ns += 20;
        } while (taut_spin_next(&spin));
        assert_true(reads_at_look > 0);
        assert_int_equal(virtual.reads, reads_at_look);
        taut_spin_end(&spin, TAUT_WAIT_EXPIRED, NULL);
    }
}

/* A loop of one's own that only asks: it has looked, and that was all. */
static void a_loop_with_deadline_zero_ends_without_a_clock(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    struct taut_wait_report report;
    struct taut_spin spin;
    window.window_ns = 160 * US;
    taut_spin_begin(&spin, 0, &policy);
    assert_int_equal(taut_spin_next(&spin), 0);
    taut_spin_end(&spin, TAUT_WAIT_EXPIRED, &report);
    assert_int_equal(virtual.reads, 0);
    assert_int_equal(report.phase, TAUT_PHASE_LOOK);
    assert_int_equal(report.late_ns, 0);
    assert_int_equal(window.window_ns, 160 * US); /* who only asks learns nothing */
}

static void no_budget_needs_no_clock(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {
        .size = sizeof policy, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_WAIT_NONE_NS};
    struct taut_wait_report report;
    struct taut_spin spin;
    taut_spin_begin(&spin, virtual.now_ns + MS, &policy);
    assert_int_equal(taut_spin_next(&spin), 0);
    taut_spin_end(&spin, TAUT_WAIT_PARKED, NULL);
    assert_int_equal(virtual.reads, 0);
    taut_spin_begin(&spin, TAUT_NEVER_NS, &policy);
    assert_int_equal(taut_spin_next(&spin), 0);
    taut_spin_end(&spin, TAUT_WAIT_PARKED, &report);
    assert_int_equal(virtual.reads, 0);
    assert_int_equal(report.spins, 0);
    assert_int_equal(report.spin_state, TAUT_SPIN_ON);
    assert_int_equal(report.phase, TAUT_PHASE_PARK);
}

static void an_immediate_catch_looks_at_no_clock(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    struct taut_wait_report report;
    taut_event_publish(&event);
    assert_int_equal(taut_wait(&event, 0, TAUT_NEVER_NS, NULL, &report), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_wait(&event, 0, TAUT_NEVER_NS, &policy, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &policy, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns - MS, NULL, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_wait(&event, 0, 0, &policy, &report), TAUT_WAIT_CAUGHT);
    assert_int_equal(virtual.reads, 0);
    assert_int_equal(virtual.sleeps, 0);
    /* How late it is can't be told without one. */
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns - MS, &policy, &report), TAUT_WAIT_CAUGHT);
    assert_int_equal(virtual.reads, 1);
    assert_in_range(report.late_ns, MS, MS + 40);
    assert_int_equal(report.phase, TAUT_PHASE_LOOK);
    assert_int_equal(window.looked, 4);
    assert_int_equal(window.caught, 4);
    assert_int_equal(window.window_ns, window.min_ns);
}

static void a_zero_deadline_looks_once(void **state)
{
    (void)state;
    struct taut_wait_policy spins = {
        .size = sizeof spins, .spin_ns = TAUT_NEVER_NS, .yield_ns = TAUT_NEVER_NS};
    const struct taut_wait_policy *policies[] = {NULL, &spins};
    for (size_t i = 0; i < 2; i++) {
        struct taut_wait_report report;
        assert_int_equal(taut_wait(&event, 0, 0, policies[i], &report), TAUT_WAIT_EXPIRED);
        assert_int_equal(virtual.reads, 0); /* there is no time to compare with */
        assert_int_equal(virtual.sleeps, 0);
        assert_int_equal(virtual.yields, 0);
        assert_int_equal(report.spins, 0);
        assert_int_equal(report.parks, 0);
        assert_int_equal(report.late_ns, 0);
        assert_int_equal(report.outcome, TAUT_WAIT_EXPIRED);
    }
}

static void a_past_deadline_looks_once_and_tells_how_late(void **state)
{
    (void)state;
    struct taut_wait_policy none = {
        .size = sizeof none, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_WAIT_NONE_NS};
    const struct taut_wait_policy *policies[] = {NULL, &none};
    for (size_t i = 0; i < 2; i++) {
        struct taut_wait_report report;
        uint64_t began_ns = virtual.now_ns;
        assert_int_equal(taut_wait(&event, 0, virtual.now_ns - MS, policies[i], &report),
                         TAUT_WAIT_EXPIRED);
        assert_int_equal(virtual.sleeps, 0);
        assert_int_equal(report.spins, 0);
        assert_in_range(report.late_ns, MS, MS + 2 * 40);
        assert_in_range(virtual.now_ns - began_ns, 0, 2 * 40);
    }
    /* Lateness that was there at the call is not the event's. */
    struct taut_event_stats stats;
    taut_event_stats(&event, &stats);
    assert_int_equal(stats.expired, 2);
    assert_int_equal(stats.late_max_ns, 0);
}

/* The CPU goes away in the middle of a spin, for 60 us. */
static uint64_t gone_at_read, gone_ns;

static void take_the_cpu(void)
{
    if (virtual.reads == gone_at_read)
        virtual.now_ns += gone_ns;
}

static void a_lost_cpu_ends_spinning_and_yielding(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {
        .size = sizeof policy, .spin_ns = 10 * MS, .yield_ns = 10 * MS};
    for (int with_window = 0; with_window < 2; with_window++) {
        struct taut_wait_report report;
        policy.window = with_window ? &window : NULL;
        window.window_ns = 160 * US;
        virtual.reads = 0;
        gone_at_read = 10;
        gone_ns = 60 * US;
        virtual.on_read = take_the_cpu;
        assert_int_equal(taut_wait(&event, 0, virtual.now_ns + 5 * MS, &policy, &report),
                         TAUT_WAIT_EXPIRED);
        assert_int_equal(report.contended, 1);
        assert_int_equal(virtual.yields, 0);
        assert_in_range(virtual.reads, 10, 11); /* the last one for late_ns */
        assert_in_range(report.longest_gap_ns, 60 * US, 61 * US);
        assert_int_equal(report.parks, 1);
    }
    assert_int_equal(window.contended, 1);
    assert_int_equal(window.window_ns, 80 * US); /* halved once, not once for each reason */
}

static void a_gap_of_50_us_is_borne(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {
        .size = sizeof policy, .spin_ns = 100 * US, .yield_ns = 1, .window = &window};
    window.window_ns = 160 * US;
    struct taut_wait_report report;
    gone_at_read = 10;
    gone_ns = 50 * US - 40;
    virtual.on_read = take_the_cpu;
    virtual.read_cost_ns = 40;
    struct taut_spin spin;
    taut_spin_begin(&spin, TAUT_NEVER_NS, &policy);
    spin_to_the_end(&spin, 0); /* pauses are free: a gap is one reading, and what was taken */
    taut_spin_end(&spin, TAUT_WAIT_EXPIRED, &report);
    assert_int_equal(report.longest_gap_ns, 50 * US);
    assert_int_equal(report.contended, 0);
    gone_ns++;
    virtual.reads = 0;
    taut_spin_begin(&spin, TAUT_NEVER_NS, &policy);
    spin_to_the_end(&spin, 0);
    taut_spin_end(&spin, TAUT_WAIT_CAUGHT, &report);
    assert_int_equal(report.longest_gap_ns, 50 * US + 1);
    assert_int_equal(report.contended, 1);
    /* Once for the expired one, and once for the lost CPU although it was caught. */
    assert_int_equal(window.window_ns, 40 * US);
}

static void after_a_lost_cpu_default_budgets_rest_for_100_ms(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    struct taut_wait_report report;
    gone_at_read = 3;
    gone_ns = 60 * US;
    virtual.on_read = take_the_cpu;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &policy, &report),
                     TAUT_WAIT_EXPIRED);
    assert_int_equal(report.contended, 1);
    assert_int_equal(report.spin_state, TAUT_SPIN_ON);
    assert_int_equal(taut_window_spin_state(&window, virtual.now_ns), TAUT_SPIN_CONTENDED);
    virtual.on_read = NULL;

    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &policy, &report),
                     TAUT_WAIT_EXPIRED);
    assert_int_equal(report.spin_state, TAUT_SPIN_CONTENDED);
    assert_int_equal(report.spins, 0);
    assert_int_equal(report.yields, 0);
    assert_int_equal(report.spin_budget_ns, 0);
    assert_int_equal(report.yield_budget_ns, 0);
    assert_int_equal(report.contended, 0);

    /* An explicit budget is obeyed. */
    policy.spin_ns = 10 * US;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &policy, &report),
                     TAUT_WAIT_EXPIRED);
    assert_true(report.spins > 0);
    policy.spin_ns = 0;

    virtual.now_ns += 100 * MS;
    assert_int_equal(taut_window_spin_state(&window, virtual.now_ns), TAUT_SPIN_ON);
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &policy, &report),
                     TAUT_WAIT_EXPIRED);
    assert_int_equal(report.spin_state, TAUT_SPIN_ON);
    assert_true(report.spins > 0);
}

/* Near the end of time, sums must not wrap into the past. */
static void a_clock_near_the_end_of_its_range_does_not_wrap(void **state)
{
    (void)state;
    static const uint64_t budgets_ns[] = {TAUT_WAIT_NONE_NS, 10 * US, TAUT_NEVER_NS - 1,
                                          TAUT_NEVER_NS};
    virtual.now_ns = TAUT_NEVER_NS - 100 * US;
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 4; k++) {
            struct taut_wait_policy policy = {
                .size = sizeof policy, .spin_ns = budgets_ns[i], .yield_ns = budgets_ns[k]};
            struct taut_wait_report report;
            uint64_t began_ns = virtual.now_ns;
            assert_int_equal(taut_wait(&event, 0, began_ns + 5 * US, &policy, &report),
                             TAUT_WAIT_EXPIRED);
            assert_in_range(virtual.now_ns - began_ns, 5 * US, 5 * US + 700);
            assert_in_range(report.late_ns, 0, 700);
        }
    }
    /* 2^64 - 2 is a time like others; it is not "never". The time-out of the sleep is that time. */
    struct taut_wait_report report;
    virtual.now_ns = TAUT_NEVER_NS - 100 * US;
    assert_int_equal(taut_wait(&event, 0, TAUT_NEVER_NS - 1, NULL, &report), TAUT_WAIT_EXPIRED);
    assert_int_equal(virtual.sleep_deadline_ns, TAUT_NEVER_NS - 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, virtual_setup, virtual_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_clock_is_looked_at_every_300_ns),
        CASE(the_stride_is_remembered_by_the_window),
        CASE(a_look_that_costs_as_much_as_the_clock_gets_the_clock_each_time),
        CASE(a_budget_is_a_duration),
        CASE(the_last_look_is_after_the_last_clock),
        CASE(a_loop_with_deadline_zero_ends_without_a_clock),
        CASE(no_budget_needs_no_clock),
        CASE(an_immediate_catch_looks_at_no_clock),
        CASE(a_zero_deadline_looks_once),
        CASE(a_past_deadline_looks_once_and_tells_how_late),
        CASE(a_lost_cpu_ends_spinning_and_yielding),
        CASE(a_gap_of_50_us_is_borne),
        CASE(after_a_lost_cpu_default_budgets_rest_for_100_ms),
        CASE(a_clock_near_the_end_of_its_range_does_not_wrap),
    };
    return cmocka_run_group_tests_name("wait/phases", tests, NULL, NULL);
}
