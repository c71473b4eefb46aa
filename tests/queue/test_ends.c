/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends: rings and fan-outs that somebody waits in, asleep or not, are not destroyed, nor the events
 * of those; and in a child
 * of fork(2) nobody waits, and its copies are freed whoever waits in the parent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "child.h"
#include "queue/fanout.h"
#include "queue/ring.h"

static struct taut_event items, space; /* of the ring */

/* One thread in one wait, that spins or sleeps. */
struct waiter {
    struct taut_fanout *fanout;
    struct taut_ring *ring;
    uint32_t which;
    uint64_t spin_ns;
    int outcome;
};

enum { FOR_WORK, FOR_RETURNS, FOR_ITEMS, FOR_SPACE, WAITS };

static void *wait_for_it(void *context)
{
    struct waiter *waiter = context;
    const struct taut_wait_policy policy = {
        .size = sizeof policy, .spin_ns = waiter->spin_ns, .yield_ns = TAUT_WAIT_NONE_NS};
    switch (waiter->which) {
    case FOR_WORK:
        waiter->outcome = taut_fanout_wait_work(waiter->fanout, 1, TAUT_NEVER_NS, &policy, NULL);
        break;
    case FOR_RETURNS:
        waiter->outcome = taut_fanout_wait_returns(waiter->fanout, TAUT_NEVER_NS, &policy, NULL);
        break;
    case FOR_ITEMS:
        waiter->outcome = taut_ring_wait_items(waiter->ring, TAUT_NEVER_NS, &policy, NULL);
        break;
    default:
        while (taut_ring_push_u64(waiter->ring, 1))
            ;
        waiter->outcome = taut_ring_wait_space(waiter->ring, TAUT_NEVER_NS, &policy, NULL);
    }
    return NULL;
}

static int destroy(const struct waiter *waiter)
{
    return waiter->which < FOR_ITEMS ? taut_fanout_destroy(waiter->fanout)
                                     : taut_ring_destroy(waiter->ring);
}

static _Atomic uint32_t *in_wait(const struct waiter *waiter)
{
    switch (waiter->which) {
    case FOR_WORK:
        return &waiter->fanout->child[1].work.consumer.in_wait;
    case FOR_RETURNS:
        return &waiter->fanout->in_wait;
    case FOR_ITEMS:
        return &waiter->ring->consumer.in_wait;
    default:
        return &waiter->ring->producer.in_wait;
    }
}

/* What the waiter sleeps on, where it is the caller's to end. */
static struct taut_event *event_of(const struct waiter *waiter)
{
    return waiter->which == FOR_ITEMS ? &items : waiter->which == FOR_SPACE ? &space : NULL;
}

static void end_the_wait(const struct waiter *waiter)
{
    struct taut_fanout_item item = {0};
    uint64_t value;
    switch (waiter->which) {
    case FOR_WORK:
        taut_fanout_send(waiter->fanout, 1, 0, 5, NULL);
        taut_fanout_flush(waiter->fanout);
        break;
    case FOR_RETURNS: /* what a child gives back without having had it; nobody reaps it here */
        taut_fanout_return(waiter->fanout, 1, &item);
        taut_fanout_flush_returns(waiter->fanout, 1);
        break;
    case FOR_ITEMS:
        taut_ring_push_u64(waiter->ring, 5);
        taut_ring_flush(waiter->ring);
        break;
    default:
        taut_ring_pop_u64(waiter->ring, &value);
        taut_ring_flush_released(waiter->ring);
    }
}

static struct waiter waiter_of(uint32_t which, uint64_t spin_ns)
{
    struct waiter waiter = {.which = which, .spin_ns = spin_ns, .outcome = -1};
    const struct taut_fanout_options options = {.size = sizeof options, .children = 2};
    const struct taut_ring_options ring = {.size = sizeof ring,
                                           .capacity = 4,
                                           .item_bytes = 8,
                                           .event = &items,
                                           .space_event = &space};
    assert_int_equal(taut_event_init(&items), 0);
    assert_int_equal(taut_event_init(&space), 0);
    assert_int_equal(taut_ring_create(&waiter.ring, &ring, NULL), 0);
    assert_int_equal(taut_fanout_create(&waiter.fanout, &options, NULL), 0);
    return waiter;
}

static void start_waiting(struct waiter *waiter, pthread_t *thread)
{
    assert_int_equal(pthread_create(thread, NULL, wait_for_it, waiter), 0);
    while (!atomic_load_explicit(in_wait(waiter), memory_order_relaxed))
        sched_yield();
}

/* Whether it spins, sleeps, or has just been woken and not returned: busy. Then it is not. */
static void what_is_waited_in_is_not_destroyed(void **state)
{
    (void)state;
    static const uint64_t spins_ns[] = {TAUT_NEVER_NS, TAUT_WAIT_NONE_NS};
    for (uint32_t i = 0; i < 2 * WAITS; i++) {
        struct waiter waiter = waiter_of(i / 2, spins_ns[i % 2]);
        struct taut_event *event = event_of(&waiter);
        pthread_t thread;
        start_waiting(&waiter, &thread);
        while (event && atomic_load_explicit(&event->guests, memory_order_relaxed) == 0)
            sched_yield();
        for (int k = 0; k < 20; k++) {
            assert_int_equal(destroy(&waiter), TAUT_EBUSY);
            if (event)
                assert_int_equal(taut_event_destroy(event), TAUT_EBUSY);
            sched_yield();
        }
        end_the_wait(&waiter);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(waiter.outcome == TAUT_WAIT_CAUGHT || waiter.outcome == TAUT_WAIT_PARKED);
        if (event)
            assert_int_equal(taut_event_destroy(event), 0);
        assert_int_equal(taut_fanout_destroy(waiter.fanout), 0);
        assert_int_equal(taut_ring_destroy(waiter.ring), 0);
    }
}

static int frees_its_copies(void *context)
{
    struct waiter *waiter = context;
    return taut_fanout_destroy(waiter->fanout) != 0 || taut_ring_destroy(waiter->ring) != 0;
}

static void a_child_of_fork_frees_its_copies(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < WAITS; which++) {
        struct waiter waiter = waiter_of(which, TAUT_WAIT_NONE_NS);
        pthread_t thread;
        int code;
        start_waiting(&waiter, &thread);
        assert_int_equal(child_signal(frees_its_copies, &waiter, &code), 0);
        assert_int_equal(code, 0);
        end_the_wait(&waiter);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(taut_fanout_destroy(waiter.fanout), 0);
        assert_int_equal(taut_ring_destroy(waiter.ring), 0);
    }
}

static int waits_in_a_child(void *context)
{
    struct taut_fanout *fanout = context;
    return (taut_fanout_wait_returns(fanout, TAUT_NEVER_NS, NULL, NULL) != TAUT_ESTATE) |
           (taut_fanout_wait_work(fanout, 0, TAUT_NEVER_NS, NULL, NULL) != TAUT_ESTATE) << 1;
}

static void a_child_of_fork_does_not_wait(void **state)
{
    (void)state;
    int code;
    const struct taut_fanout_options options = {.size = sizeof options, .children = 2};
    struct taut_fanout *fanout;
    struct taut_fanout_item item, returned;
    assert_int_equal(taut_fanout_create(&fanout, &options, NULL), 0);
    /* Every side has an owner in the parent, and something to tell. */
    for (int i = 0; i < 2; i++) {
        taut_fanout_send(fanout, 0, 1, 77, NULL);
        taut_fanout_flush(fanout);
        assert_int_equal(taut_fanout_take(fanout, 0, &item), 1);
        taut_fanout_return(fanout, 0, &item);
        if (i == 0)
            taut_fanout_flush_returns(fanout, 0);
        taut_fanout_reap(fanout, &returned, 1);
    }
    assert_int_equal(child_signal(waits_in_a_child, fanout, &code), 0);
    assert_int_equal(code, 0);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_waited_in_is_not_destroyed),
        cmocka_unit_test(a_child_of_fork_frees_its_copies),
        cmocka_unit_test(a_child_of_fork_does_not_wait),
    };
    return cmocka_run_group_tests_name("queue/ends", tests, NULL, NULL);
}
