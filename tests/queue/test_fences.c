/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The full fences of the room, one by one, on one thread: in place of each the other side takes its
 * whole step. What it finds there must have been stored before, and what it stores must be looked
 * at after; with both, no interleaving loses a wake-up (models/ring.pml).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/fence.h"
#include "queue/fanout.h"
#include "queue/ring.h"
#include "waited_ring.h"

#define CHILDREN 3u

void __real_taut__full_fence(void);
void __wrap_taut__full_fence(void);
int __wrap_taut_wait(struct taut_event *, uint32_t, uint64_t, const struct taut_wait_policy *,
                     struct taut_wait_report *);
uint32_t __real_taut_event_publish(struct taut_event *);
uint32_t __wrap_taut_event_publish(struct taut_event *);

static struct taut_ring *ring;
static struct taut_fanout *fanout;
static struct taut_event items, space;
static void (*at_fence)(void);
static void (*when_moved)(void); /* a waiter that has seen an event move */
static uint32_t stored_before;   /* what the step at the fence found as it must be */
static uint32_t fences, sleeps, published;

void __wrap_taut__full_fence(void)
{
    void (*step)(void) = at_fence;
    at_fence = NULL; /* its own calls have fences, too */
    fences++;
    __real_taut__full_fence();
    if (step)
        step();
}

/* Nobody here has a reason to sleep: who does has looked too early. */
int __wrap_taut_wait(struct taut_event *event, uint32_t seen, uint64_t deadline_ns,
                     const struct taut_wait_policy *policy, struct taut_wait_report *report)
{
    (void)event;
    (void)seen;
    (void)deadline_ns;
    (void)policy;
    *report = (struct taut_wait_report){.outcome = TAUT_WAIT_EXPIRED};
    sleeps++;
    return TAUT_WAIT_EXPIRED;
}

uint32_t __wrap_taut_event_publish(struct taut_event *event)
{
    published++;
    uint32_t woken = __real_taut_event_publish(event);
    if (when_moved)
        when_moved();
    return woken;
}

static const struct taut_wait_policy at_once = {
    .size = sizeof at_once, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_WAIT_NONE_NS};

static int start(void **state)
{
    (void)state;
    const struct taut_fanout_options children = {.size = sizeof children, .children = CHILDREN};
    at_fence = when_moved = NULL;
    stored_before = fences = sleeps = published = 0;
    return waited_ring_create(&ring, &items, &space) != 0 ||
           taut_fanout_create(&fanout, &children, NULL) != 0;
}

static uint32_t load(_Atomic uint32_t *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static void say(_Atomic uint32_t *flag)
{
    atomic_store_explicit(flag, 1, memory_order_relaxed);
}

static void take_back(_Atomic uint32_t *flag)
{
    atomic_store_explicit(flag, 0, memory_order_relaxed);
}

static int stop(void **state)
{
    (void)state;
    /* After a case that failed: nobody waits really. */
    take_back(&ring->consumer_waits);
    take_back(&ring->producer_waits);
    for (uint32_t i = 0; i < CHILDREN; i++)
        take_back(&fanout->child[i].work.consumer_waits);
    return taut_fanout_destroy(fanout) != 0 || waited_ring_destroy(ring, &items, &space) != 0;
}

/* The step was taken, it found `before`, and what it raised was seen: so many were woken. */
static void expect(uint32_t before, uint32_t woken)
{
    assert_null(at_fence);
    assert_int_equal(stored_before, before);
    assert_int_equal(published, woken);
    assert_int_equal(sleeps, 0);
}

/* --- who publishes ---------------------------------------------------------------------------- */

static void consumer_goes_to_sleep(void)
{
    stored_before = (uint32_t)taut__ring_has_items(ring);
    say(&ring->consumer_waits);
}

static void producer_goes_to_sleep(void)
{
    stored_before = (uint32_t)taut__ring_has_space(ring);
    say(&ring->producer_waits);
}

static void a_flush(void **state)
{
    (void)state;
    taut_ring_push_u64(ring, 1);
    at_fence = consumer_goes_to_sleep;
    taut_ring_flush(ring);
    expect(1, 1);
    assert_int_equal(load(&ring->consumer_waits), 0);
    /* One look a publication: what was looked for is not looked for again. */
    taut_ring_flush(ring);
    assert_int_equal(fences, 1);
}

static void a_close(void **state)
{
    (void)state;
    at_fence = consumer_goes_to_sleep;
    taut_ring_close(ring);
    expect(1, 1);
    assert_int_equal(load(&ring->consumer_waits), 0);
}

static void a_flush_of_what_was_released(void **state)
{
    (void)state;
    uint64_t value;
    while (taut_ring_push_u64(ring, 1))
        ;
    assert_int_equal(taut__ring_has_space(ring), 0);
    assert_int_equal(taut_ring_pop_u64(ring, &value), 1);
    at_fence = producer_goes_to_sleep;
    taut_ring_flush_released(ring);
    expect(1, 1);
    assert_int_equal(load(&ring->producer_waits), 0);
}

static void children_go_to_sleep(void)
{
    for (uint32_t i = 0; i < CHILDREN; i++) {
        stored_before += (uint32_t)taut__ring_has_items(&fanout->child[i].work);
        say(&fanout->child[i].work.consumer_waits);
    }
}

static void a_flush_of_the_fanout_once_for_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CHILDREN; i++)
        assert_int_equal(taut_fanout_send(fanout, i, i, i, NULL), TAUT_FANOUT_SENT);
    at_fence = children_go_to_sleep;
    taut_fanout_flush(fanout);
    expect(CHILDREN, CHILDREN);
    assert_int_equal(fences, 1);
    struct taut_fanout_item item;
    for (uint32_t i = 0; i < CHILDREN; i++) {
        assert_int_equal(load(&fanout->child[i].work.consumer_waits), 0);
        assert_int_equal(taut_fanout_take(fanout, i, &item), 1);
        taut_fanout_return(fanout, i, &item);
        taut_fanout_flush_returns(fanout, i);
    }
    assert_int_equal(taut_fanout_reap(fanout, &item, 1), 1);
    assert_int_equal(taut_fanout_reap(fanout, &item, 1), 1);
    assert_int_equal(taut_fanout_reap(fanout, &item, 1), 1);
}

static void a_childs_flush_of_returns(void **state)
{
    (void)state;
    struct taut_fanout_item item;
    assert_int_equal(taut_fanout_send(fanout, 1, 0, 0, NULL), TAUT_FANOUT_SENT);
    taut_fanout_flush(fanout);
    assert_int_equal(taut_fanout_take(fanout, 1, &item), 1);
    taut_fanout_return(fanout, 1, &item);
    fences = 0;
    taut_fanout_flush_returns(fanout, 1);
    assert_int_equal(fences, 1);
    assert_int_equal(taut_fanout_reap(fanout, &item, 1), 1);
}

static void each_publication_is_looked_for_again(void **state)
{
    (void)state;
    uint64_t value;
    for (uint32_t i = 1; i <= 3; i++) {
        taut_ring_push_u64(ring, i);
        at_fence = consumer_goes_to_sleep;
        taut_ring_flush(ring);
        expect(1, 2 * i - 1);
        assert_int_equal(taut_ring_pop_u64(ring, &value), 1);
        at_fence = producer_goes_to_sleep;
        taut_ring_flush_released(ring);
        expect(1, 2 * i);
    }
}

/* Who has seen the event move may wait again at once, and its flag is then to stay. */
static void both_wait_again(void)
{
    say(&ring->consumer_waits);
    say(&ring->producer_waits);
}

static void a_flag_is_cleared_before_the_event_moves(void **state)
{
    (void)state;
    uint64_t value;
    taut_ring_push_u64(ring, 1);
    at_fence = consumer_goes_to_sleep;
    when_moved = both_wait_again;
    taut_ring_flush(ring);
    assert_int_equal(load(&ring->consumer_waits), 1);
    take_back(&ring->producer_waits);
    assert_int_equal(taut_ring_pop_u64(ring, &value), 1);
    at_fence = producer_goes_to_sleep;
    taut_ring_flush_released(ring);
    assert_int_equal(load(&ring->producer_waits), 1);
    expect(1, 2);
}

/* --- who waits -------------------------------------------------------------------------------- */

static void producer_publishes(void)
{
    stored_before = load(&ring->consumer_waits);
    taut_ring_push_u64(ring, 1);
    taut_ring_flush(ring);
}

static void producer_closes(void)
{
    stored_before = load(&ring->consumer_waits);
    taut_ring_close(ring);
}

static void consumer_gives_back(void)
{
    uint64_t value;
    stored_before = load(&ring->producer_waits);
    taut_ring_pop_u64(ring, &value);
    taut_ring_flush_released(ring);
}

static void a_wait_for_items(void **state)
{
    (void)state;
    at_fence = producer_publishes;
    assert_int_equal(taut_ring_wait_items(ring, TAUT_NEVER_NS, &at_once, NULL), TAUT_WAIT_CAUGHT);
    expect(1, 1);
}

static void a_wait_that_the_end_comes_to(void **state)
{
    (void)state;
    at_fence = producer_closes;
    assert_int_equal(taut_ring_wait_items(ring, TAUT_NEVER_NS, &at_once, NULL), TAUT_WAIT_CAUGHT);
    expect(1, 1);
    assert_int_equal(taut_ring_closed(ring), 1);
}

static void a_wait_for_space(void **state)
{
    (void)state;
    while (taut_ring_push_u64(ring, 1))
        ;
    at_fence = consumer_gives_back;
    assert_int_equal(taut_ring_wait_space(ring, TAUT_NEVER_NS, &at_once, NULL), TAUT_WAIT_CAUGHT);
    expect(1, 1);
}

static void a_child_returns(void)
{
    struct taut_fanout_item item;
    for (uint32_t i = 0; i < CHILDREN; i++)
        stored_before += load(&fanout->child[i].back.consumer_waits);
    if (taut_fanout_take(fanout, CHILDREN - 1, &item) != 1)
        return;
    taut_fanout_return(fanout, CHILDREN - 1, &item);
    taut_fanout_flush_returns(fanout, CHILDREN - 1);
}

static void a_wait_for_returns(void **state)
{
    (void)state;
    struct taut_fanout_item item;
    assert_int_equal(taut_fanout_send(fanout, CHILDREN - 1, 0, 0, NULL), TAUT_FANOUT_SENT);
    taut_fanout_flush(fanout);
    at_fence = a_child_returns;
    assert_int_equal(taut_fanout_wait_returns(fanout, TAUT_NEVER_NS, &at_once, NULL),
                     TAUT_WAIT_CAUGHT);
    expect(CHILDREN, 1);
    assert_int_equal(taut_fanout_reap(fanout, &item, 1), 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_flush),
        CASE(a_close),
        CASE(a_flush_of_what_was_released),
        CASE(a_flush_of_the_fanout_once_for_all),
        CASE(a_childs_flush_of_returns),
        CASE(each_publication_is_looked_for_again),
        CASE(a_flag_is_cleared_before_the_event_moves),
        CASE(a_wait_for_items),
        CASE(a_wait_that_the_end_comes_to),
        CASE(a_wait_for_space),
        CASE(a_wait_for_returns),
    };
    return cmocka_run_group_tests_name("queue/fences", tests, NULL, NULL);
}
