/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The yield phase on a virtual clock, where a yield costs what the test says: a clock at every
 * yield, an end at the first one that was dear, and none when the time left is too short for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <taut/wait.h>

#include "virtual.h"

#define MS TAUT_NS_PER_MS
#define US TAUT_NS_PER_US

static struct taut_wait_report report;
static struct taut_wait_policy yields_only;

static int begin(void **state)
{
    yields_only = (struct taut_wait_policy){
        .size = sizeof yields_only, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_NEVER_NS};
    return virtual_setup(state);
}

static void wait_for(uint64_t duration_ns, const struct taut_wait_policy *policy)
{
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + duration_ns, policy, &report),
                     TAUT_WAIT_EXPIRED);
}

/* The record behind this rule: yields of 5 ms beside a busy neighbour, a clock at each 64th, and a
 * window of 20 ms that lasted 318. Here with yields that are just not dear enough to end the phase.
 */
static void each_yield_has_its_look_at_the_clock(void **state)
{
    (void)state;
    virtual.yield_cost_ns = 40 * US;
    uint64_t began_ns = virtual.now_ns;
    wait_for(MS, &yields_only);
    /* 24 yields of 40 us fit into 1 ms, looks at the clock included; a 25th does not. */
    assert_int_equal(virtual.yields, 24);
    assert_int_equal(report.yields, 24);
    assert_int_equal(report.longest_yield_ns, 40 * US + 40);
    assert_in_range(virtual.reads, 25, 26); /* one before, one each, one for late_ns */
    assert_int_equal(report.parks, 1);
    assert_int_equal(virtual.now_ns - began_ns, MS + 40);
    assert_int_equal(report.late_ns, 40);
    assert_int_equal(report.contended, 0);
}

/* 20 ms a yield, a deadline in 100 ms: the premise of the record. One yield proves it, and the rest
 * of the time is slept with the deadline; "a clock at each yield" would make five. */
static void yields_of_20_ms_are_tried_once(void **state)
{
    (void)state;
    virtual.yield_cost_ns = 20 * MS;
    uint64_t began_ns = virtual.now_ns;
    wait_for(100 * MS, &yields_only);
    assert_true(report.longest_yield_ns >= 20 * MS); /* the premise */
    assert_int_equal(virtual.yields, 1);
    assert_int_equal(report.contended, 1);
    assert_int_equal(report.parks, 1);
    assert_int_equal(virtual.sleep_deadline_ns, began_ns + 100 * MS);
    assert_int_equal(report.late_ns, 40);
}

static void the_bound_of_a_dear_yield_is_50_us(void **state)
{
    (void)state;
    virtual.yield_cost_ns = 50 * US - 40;
    wait_for(MS, &yields_only);
    assert_int_equal(report.longest_yield_ns, 50 * US);
    assert_int_equal(report.contended, 0);
    assert_true(report.yields > 10);
    virtual.yield_cost_ns++;
    wait_for(MS, &yields_only);
    assert_int_equal(report.longest_yield_ns, 50 * US + 1);
    assert_int_equal(report.contended, 1);
    assert_int_equal(report.yields, 1);
}

static void a_dear_yield_also_ends_the_yields_after_spinning(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {
        .size = sizeof policy, .spin_ns = 10 * US, .yield_ns = 50 * MS, .window = &window};
    virtual.yield_cost_ns = 4 * MS;
    wait_for(60 * MS, &policy);
    assert_true(report.spins > 0);
    assert_int_equal(report.yields, 1);
    assert_int_equal(report.contended, 1);
    assert_int_equal(window.contended, 1);
    assert_int_equal(window.yield_cost_ns, 4 * MS + 40);
    assert_true(window.contended_until_ns > virtual.now_ns);
}

/* What a yield has cost is remembered, and halved each 100 ms. */
static void no_yield_begins_that_does_not_fit(void **state)
{
    (void)state;
    yields_only.window = &window;
    virtual.yield_cost_ns = 20 * MS - 40;
    virtual.now_ns += MS;
    wait_for(100 * MS, &yields_only);
    assert_int_equal(report.yields, 1);
    assert_int_equal(window.yield_cost_ns, 20 * MS);
    uint64_t known_at_ns = window.yield_cost_at_ns; /* 20 ms into that wait */

    virtual.now_ns = known_at_ns + 90 * MS;
    wait_for(8 * MS, &yields_only); /* 20 ms do not fit into 8 */
    assert_int_equal(report.yields, 0);
    assert_int_equal(report.parks, 1);
    assert_int_equal(report.late_ns, 40);
    assert_int_equal(report.contended, 0);
    assert_int_equal(report.phase, TAUT_PHASE_PARK);

    virtual.now_ns = known_at_ns + 100 * MS;
    wait_for(10 * MS, &yields_only); /* 10 ms by now: do not fit after the first look */
    assert_int_equal(report.yields, 0);
    virtual.now_ns = known_at_ns + 120 * MS;
    wait_for(10 * MS + 80, &yields_only); /* fits: tried, and as dear as ever */
    assert_int_equal(report.yields, 1);
    assert_int_equal(report.contended, 1);

    /* The budget counts as the deadline does. */
    known_at_ns = window.yield_cost_at_ns;
    yields_only.yield_ns = 5 * MS;
    virtual.now_ns = known_at_ns + 150 * MS;
    wait_for(TAUT_NS_PER_S, &yields_only);
    assert_int_equal(report.yields, 0);
    /* After a second nothing is known any more, and 5 us are assumed. */
    virtual.now_ns = known_at_ns + 1000 * MS;
    wait_for(20 * MS, &yields_only);
    assert_int_equal(report.yields, 1);
}

static void a_larger_cost_is_kept_when_cheap_ones_follow(void **state)
{
    (void)state;
    yields_only.window = &window;
    virtual.yield_cost_ns = 30 * US;
    wait_for(40 * US, &yields_only);
    assert_int_equal(report.yields, 1);
    virtual.yield_cost_ns = 400;
    wait_for(50 * US, &yields_only);
    assert_true(report.yields >= 10); /* until 30 us are left */
    assert_in_range(report.yields, 10, 50);
    assert_int_equal(window.yield_cost_ns, 30 * US + 40);
    wait_for(30 * US, &yields_only);
    assert_int_equal(report.yields, 0);
    virtual.now_ns += 100 * MS;
    wait_for(30 * US, &yields_only);
    assert_true(report.yields > 0);
}

static void without_a_history_a_yield_is_taken_for_5_us(void **state)
{
    (void)state;
    for (int with_window = 0; with_window < 2; with_window++) {
        yields_only.window = with_window ? &window : NULL;
        wait_for(5 * US, &yields_only);
        assert_int_equal(report.yields, 0);
        wait_for(5 * US + 40, &yields_only);
        assert_true(report.yields > 0);
        /* From then on its real cost counts, down to the last 0.44 us. */
        assert_in_range(report.yields, 10, 12);
    }
}

static void without_a_window_the_wait_itself_remembers(void **state)
{
    (void)state;
    virtual.yield_cost_ns = 45 * US;
    wait_for(100 * US, &yields_only);
    assert_int_equal(report.yields, 2);
    assert_in_range(report.late_ns, 0, 80);
}

static void a_strict_wait_never_yields(void **state)
{
    (void)state;
    yields_only.strict = 1;
    wait_for(MS, &yields_only);
    assert_int_equal(virtual.yields, 0);
    assert_int_equal(report.yield_budget_ns, 0);
    window.window_ns = 500 * US;
    struct taut_wait_policy policy = {.size = sizeof policy, .strict = 1, .window = &window};
    wait_for(MS, &policy);
    assert_int_equal(virtual.yields, 0);
    assert_true(report.spins > 0);
    assert_int_equal(report.spin_budget_ns, 500 * US); /* the whole window */
    assert_int_equal(report.yield_budget_ns, 0);
}

/* Spin and yield together are the window: the idle contract. */
static void by_default_a_window_is_spun_and_yielded_and_not_more(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    for (uint64_t window_ns = 20 * US; window_ns <= 500 * US; window_ns += 20 * US) {
        window.window_ns = window_ns;
        virtual.sleeps = 0;
        uint64_t began_ns = virtual.now_ns;
        assert_int_equal(taut_wait(&event, 0, began_ns + TAUT_NS_PER_S, &policy, &report),
                         TAUT_WAIT_EXPIRED);
        assert_int_equal(report.spin_budget_ns + report.yield_budget_ns, window_ns);
        assert_int_equal(report.yields > 0, window_ns >= 60 * US);
        uint64_t yielded_ns = report.yields * 440;
        assert_in_range(yielded_ns, 0, window_ns);
        assert_int_equal(virtual.sleeps, 1);
        assert_int_equal(virtual.sleep_deadline_ns, began_ns + TAUT_NS_PER_S);
    }
    /* A budget that is given for one phase leaves the other its part of the window. */
    window.window_ns = 500 * US;
    policy.spin_ns = 100 * US;
    wait_for(TAUT_NS_PER_S, &policy);
    assert_int_equal(report.spin_budget_ns, 100 * US);
    assert_int_equal(report.yield_budget_ns, 400 * US);
    window.window_ns = 500 * US;
    policy.spin_ns = 0;
    policy.yield_ns = 7 * US;
    wait_for(TAUT_NS_PER_S, &policy);
    assert_int_equal(report.spin_budget_ns, 50 * US);
    assert_int_equal(report.yield_budget_ns, 7 * US);
    /* Nothing given, no window: 20 us of spinning, where the machine allows it. */
    wait_for(TAUT_NS_PER_S, NULL);
    assert_int_equal(report.spin_budget_ns, report.spin_state == TAUT_SPIN_ON ? 20 * US : 0);
    assert_int_equal(report.yield_budget_ns, 0);
}

static void publish_now(void)
{
    taut_event_publish(&event);
}

static void what_comes_during_a_yield_is_caught(void **state)
{
    (void)state;
    static const uint64_t costs_ns[] = {400, 20 * MS, 200 * MS};
    for (size_t i = 0; i < 3; i++) {
        virtual.yields = 0;
        virtual.yield_cost_ns = costs_ns[i];
        virtual.on_yield = publish_now;
        uint32_t seen = taut_event_epoch(&event);
        /* Also when that yield was dear, and when the deadline passed in it. */
        assert_int_equal(taut_wait(&event, seen, virtual.now_ns + 100 * MS, &yields_only, &report),
                         TAUT_WAIT_CAUGHT);
        assert_int_equal(virtual.yields, 1);
        assert_int_equal(report.phase, TAUT_PHASE_YIELD);
        assert_int_equal(virtual.sleeps, 0);
        assert_int_equal(report.contended, i > 0);
        assert_in_range(report.late_ns, i == 2 ? 100 * MS : 0, i == 2 ? 100 * MS + 200 : 0);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, virtual_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_yield_has_its_look_at_the_clock),
        CASE(yields_of_20_ms_are_tried_once),
        CASE(the_bound_of_a_dear_yield_is_50_us),
        CASE(a_dear_yield_also_ends_the_yields_after_spinning),
        CASE(no_yield_begins_that_does_not_fit),
        CASE(a_larger_cost_is_kept_when_cheap_ones_follow),
        CASE(without_a_history_a_yield_is_taken_for_5_us),
        CASE(without_a_window_the_wait_itself_remembers),
        CASE(a_strict_wait_never_yields),
        CASE(by_default_a_window_is_spun_and_yielded_and_not_more),
        CASE(what_comes_during_a_yield_is_caught),
    };
    return cmocka_run_group_tests_name("wait/yield", tests, NULL, NULL);
}
