/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting, on one thread: the calls of the wait room are wrapped, and in them the *other* side
 * acts, at exactly the step where a lost wake-up would begin. Nothing here sleeps for longer than
 * its deadline, which only a defect reaches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "child.h"
#include "queue/ring.h"
#include "waited_ring.h"

#define LONG_NS (2 * TAUT_NS_PER_S)

int __real_taut_wait(struct taut_event *, uint32_t, uint64_t, const struct taut_wait_policy *,
                     struct taut_wait_report *);
uint32_t __real_taut_event_epoch(const struct taut_event *);
uint32_t __real_taut_event_publish(struct taut_event *);
int __wrap_taut_wait(struct taut_event *, uint32_t, uint64_t, const struct taut_wait_policy *,
                     struct taut_wait_report *);
uint32_t __wrap_taut_event_epoch(const struct taut_event *);
uint32_t __wrap_taut_event_publish(struct taut_event *);

static struct taut_ring *ring;
static struct taut_event items, space;
static void (*before_epoch)(void), (*after_epoch)(void), (*before_sleep)(void);
static uint32_t sleeps, published;

static void once(void (**action)(void))
{
    void (*run)(void) = *action;
    *action = NULL;
    if (run)
        run();
}

int __wrap_taut_wait(struct taut_event *event, uint32_t seen, uint64_t deadline_ns,
                     const struct taut_wait_policy *policy, struct taut_wait_report *report)
{
    sleeps++;
    once(&before_sleep);
    return __real_taut_wait(event, seen, deadline_ns, policy, report);
}

uint32_t __wrap_taut_event_epoch(const struct taut_event *event)
{
    once(&before_epoch);
    uint32_t epoch = __real_taut_event_epoch(event);
    once(&after_epoch);
    return epoch;
}

uint32_t __wrap_taut_event_publish(struct taut_event *event)
{
    published++;
    return __real_taut_event_publish(event);
}

static int start(void **state)
{
    (void)state;
    before_epoch = after_epoch = before_sleep = NULL;
    sleeps = published = 0;
    return waited_ring_create(&ring, &items, &space);
}

static int stop(void **state)
{
    (void)state;
    return waited_ring_destroy(ring, &items, &space);
}

static uint64_t soon(void)
{
    return taut_deadline_ns(taut_now_ns(), LONG_NS);
}

static const struct taut_wait_policy at_once = {
    .size = sizeof at_once, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_WAIT_NONE_NS};

static void push_and_flush(void)
{
    taut_ring_push_u64(ring, 7);
    taut_ring_flush(ring);
}

static void push_a_batch(void)
{
    for (uint64_t i = 0; i < 8; i++)
        taut_ring_push_u64(ring, i);
}

static void close_ring(void)
{
    taut_ring_close(ring);
}

/* Fills, so that the producer has to wait for space. */
static void fill(void)
{
    while (taut_ring_push_u64(ring, 1))
        ;
}

static void pop_one_and_flush(void)
{
    uint64_t value;
    taut_ring_pop_u64(ring, &value);
    taut_ring_flush_released(ring);
}

static void pop_all(void)
{
    uint64_t value;
    while (taut_ring_pop_u64(ring, &value))
        ;
}

static void expect_items(void (*action)(void), void (**place)(void))
{
    struct taut_wait_report report;
    *place = action;
    int outcome = taut_ring_wait_items(ring, soon(), &at_once, &report);
    assert_null(*place); /* the premise: the step was passed */
    assert_int_equal(outcome, TAUT_WAIT_CAUGHT);
    assert_int_equal(report.outcome, TAUT_WAIT_CAUGHT);
    assert_true(taut_ring_peek(ring) != NULL || taut_ring_closed(ring));
}

static void an_item_before_the_epoch_is_read_is_found(void **state)
{
    (void)state;
    expect_items(push_and_flush, &before_epoch);
    assert_int_equal(sleeps, 0);
    assert_int_equal(published, 0); /* nobody had said that he waits */
}

static void an_item_after_the_epoch_is_read_is_found(void **state)
{
    (void)state;
    expect_items(push_and_flush, &after_epoch);
    assert_int_equal(sleeps, 0);
}

static void an_item_before_the_sleep_ends_it(void **state)
{
    (void)state;
    expect_items(push_and_flush, &before_sleep);
    assert_int_equal(published, 1);
}

static void a_batch_before_the_sleep_ends_it_without_a_flush(void **state)
{
    (void)state;
    expect_items(push_a_batch, &before_sleep); /* a new high water: the rare end */
    assert_int_equal(published, 1);
    pop_all();
    fill();
    pop_all();
    expect_items(push_a_batch, &before_sleep); /* it can't be one */
    assert_int_equal(published, 2);
}

static void the_end_at_any_step_is_found(void **state)
{
    (void)state;
    expect_items(close_ring, &before_sleep);
    assert_int_equal(published, 1);
    taut_ring_destroy(ring);
    start(NULL);
    expect_items(close_ring, &after_epoch);
    taut_ring_destroy(ring);
    start(NULL);
    expect_items(close_ring, &before_epoch);
    assert_int_equal(taut_ring_wait_items(ring, 0, NULL, NULL), TAUT_WAIT_CAUGHT);
}

/* Exactly a batch: neither a flush nor an empty ring. */
static void pop_a_batch(void)
{
    uint64_t value;
    for (int i = 0; i < 8; i++)
        taut_ring_pop_u64(ring, &value);
}

static void expect_space(void (*action)(void), void (**place)(void))
{
    struct taut_wait_report report;
    fill();
    *place = action;
    assert_int_equal(taut_ring_wait_space(ring, soon(), &at_once, &report), TAUT_WAIT_CAUGHT);
    assert_null(*place);
    assert_non_null(taut_ring_reserve(ring));
}

static void space_at_any_step_is_found(void **state)
{
    (void)state;
    expect_space(pop_one_and_flush, &before_epoch);
    expect_space(pop_one_and_flush, &after_epoch);
    expect_space(pop_one_and_flush, &before_sleep);
    /* A consumer that drains needs no flush: finding the ring empty is one. */
    expect_space(pop_all, &before_sleep);
    assert_int_equal(published, 2);
    expect_space(pop_a_batch, &before_sleep);
    assert_int_equal(published, 3);
}

/* What the other side may be waiting for is told before this side waits. */
static void a_wait_holds_nothing_back(void **state)
{
    (void)state;
    uint64_t value;
    taut_ring_push_u64(ring, 3);
    taut_ring_push_u64(ring, 4);
    assert_int_equal(taut_ring_wait_space(ring, 0, &at_once, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_ring_pop_u64(ring, &value), 1);
    assert_int_equal(taut_ring_pop_u64(ring, &value), 1);
    assert_int_equal(value, 4);
    struct taut_ring_stats stats;
    taut_ring_stats(ring, &stats);
    assert_int_equal(stats.popped, 0);
    assert_int_equal(taut_ring_wait_items(ring, 0, &at_once, NULL), TAUT_WAIT_EXPIRED);
    taut_ring_stats(ring, &stats);
    assert_int_equal(stats.popped, 2);
    assert_int_equal(sleeps, 0); /* a past deadline looks once */
}

static void nobody_waits_nobody_pays(void **state)
{
    (void)state;
    uint64_t value;
    for (uint64_t i = 0; i < 1000; i++) {
        push_and_flush();
        assert_int_equal(taut_ring_pop_u64(ring, &value), 1);
        assert_null(taut_ring_peek(ring));
    }
    assert_int_equal(published, 0);
    /* A wait that ends says so: the next flush wakes nobody. */
    assert_int_equal(taut_ring_wait_items(ring, taut_now_ns() + 1000, &at_once, NULL),
                     TAUT_WAIT_EXPIRED);
    push_and_flush();
    assert_int_equal(published, 0);
    struct taut_ring_stats stats;
    taut_ring_stats(ring, &stats);
    assert_int_equal(stats.wakes, 0);
}

static uint32_t publications_for_one_wait;

static void push_much(void)
{
    for (uint64_t i = 0; i < 12; i++)
        push_and_flush();
    publications_for_one_wait = published;
}

/* A consumer takes microseconds to wake; the publications meanwhile must not each pay for it. */
static void one_wait_is_woken_once(void **state)
{
    (void)state;
    expect_items(push_much, &before_sleep);
    assert_int_equal(publications_for_one_wait, 1);
}

static void publish_nothing(void)
{
    (void)__real_taut_event_publish(&items);
}

static void an_event_that_moves_for_nothing_does_not_end_the_wait(void **state)
{
    (void)state;
    struct taut_wait_report report;
    before_sleep = publish_nothing;
    uint64_t deadline_ns = taut_now_ns() + 2 * TAUT_NS_PER_MS;
    assert_int_equal(taut_ring_wait_items(ring, deadline_ns, &at_once, &report), TAUT_WAIT_EXPIRED);
    assert_true(taut_now_ns() >= deadline_ns);
    assert_int_equal(sleeps, 2);
    assert_int_equal(report.outcome, TAUT_WAIT_EXPIRED);
    assert_int_equal(report.phase, TAUT_PHASE_PARK);
    assert_true(report.parks >= 1);
}

static void a_quiet_event_ends_the_spin(void **state)
{
    (void)state;
    struct taut_wait_policy policy = {.size = sizeof policy, .spin_ns = 20 * TAUT_NS_PER_MS};
    struct taut_wait_report report;
    taut_event_quiesce(&items);
    before_sleep = push_and_flush;
    assert_int_equal(taut_ring_wait_items(ring, soon(), &policy, &report), TAUT_WAIT_CAUGHT);
    assert_int_equal(report.spins, 0);
    assert_int_equal(sleeps, 1);
}

/* Each bit is a wait that was not refused. */
static int waits_in_a_child(void *context)
{
    (void)context;
    return (taut_ring_wait_items(ring, TAUT_NEVER_NS, &at_once, NULL) != TAUT_ESTATE) |
           (taut_ring_wait_space(ring, TAUT_NEVER_NS, &at_once, NULL) != TAUT_ESTATE) << 1;
}

/* Also where there is something to have, and where both sides have an owner in the parent. */
static void a_child_of_fork_does_not_wait(void **state)
{
    (void)state;
    int code;
    push_a_batch();
    pop_one_and_flush();
    assert_int_equal(child_signal(waits_in_a_child, NULL, &code), 0);
    assert_int_equal(code, 0);
}

static void what_cannot_wait_is_refused(void **state)
{
    (void)state;
    const struct taut_ring_options options = {
        .size = sizeof options, .capacity = 4, .item_bytes = 8};
    struct taut_ring *deaf;
    struct taut_wait_policy wrong = {.size = 3};
    assert_int_equal(taut_ring_create(&deaf, &options, NULL), 0);
    assert_int_equal(taut_ring_wait_items(deaf, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_ring_wait_space(deaf, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_ring_wait_items(NULL, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_ring_wait_space(NULL, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_ring_wait_items(ring, 0, &wrong, NULL), TAUT_EINVAL);
    assert_int_equal(taut_ring_destroy(deaf), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(an_item_before_the_epoch_is_read_is_found),
        CASE(an_item_after_the_epoch_is_read_is_found),
        CASE(an_item_before_the_sleep_ends_it),
        CASE(a_batch_before_the_sleep_ends_it_without_a_flush),
        CASE(the_end_at_any_step_is_found),
        CASE(space_at_any_step_is_found),
        CASE(a_wait_holds_nothing_back),
        CASE(nobody_waits_nobody_pays),
        CASE(one_wait_is_woken_once),
        CASE(an_event_that_moves_for_nothing_does_not_end_the_wait),
        CASE(a_quiet_event_ends_the_spin),
        CASE(a_child_of_fork_does_not_wait),
        CASE(what_cannot_wait_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
