/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue/queue_wait.c - waiting for items, for space, for returns.
 *
 * First the waiter spins and yields on the index itself: as long as it does, the publisher has
 * nothing to do for it. Then it says that it will sleep, looks once more behind a full fence, and
 * sleeps on the event. The order is what counts: the epoch is read first, then the flag is set,
 * then the index is looked at. A publisher that saw the flag has moved the epoch after it was read,
 * so the sleep ends at once; one that did not see it has stored its index before the look.
 */
#include "queue/queue_wait.h"

#include <stdatomic.h>

#include "base/fence.h"
#include "base/process.h"
#include "queue/ring.h"
#include "wait/event.h"
#include "wait/spin.h"
#include "wait/window.h"

/* 1: it is there. 0: it is time to sleep. */
static int spin_for(const struct taut__queue_waiter *waiter, struct taut_spin *spin)
{
    for (;;) {
        if (waiter->ready(waiter->context))
            return 1;
        /* Relaxed: a hint of taut_event_quiesce(), which publishes nothing. */
        uint64_t state = atomic_load_explicit(&waiter->event->state, memory_order_relaxed);
        if ((state & TAUT__EVENT_QUIET) || !taut__spin_next(spin))
            return 0;
    }
}

/* Enum taut_wait_outcome, or a negative code. */
static int sleep_for(const struct taut__queue_waiter *waiter, uint64_t deadline_ns,
                     struct taut_wait_report *sum)
{
    const struct taut_wait_policy park = {.size = sizeof park,
                                          .strict = 1,
                                          .spin_ns = TAUT_WAIT_NONE_NS,
                                          .yield_ns = TAUT_WAIT_NONE_NS};
    for (;;) {
        struct taut_wait_report one;
        uint32_t seen = taut_event_epoch(waiter->event);
        waiter->announce(waiter->context, 1);
        /* Dekker with taut_ring_flush(), taut_ring_flush_released() and taut_ring_close(): flag,
         * fence, index here; index, fence, flag there */
        taut__full_fence();
        if (waiter->ready(waiter->context))
            return sum->parks > 0 ? TAUT_WAIT_PARKED : TAUT_WAIT_CAUGHT;
        int outcome = taut_wait(waiter->event, seen, deadline_ns, &park, &one);
        if (outcome < 0)
            return outcome;
        sum->parks += one.parks;
        sum->spurious += one.spurious;
        if (waiter->ready(waiter->context))
            return sum->parks > 0 ? TAUT_WAIT_PARKED : TAUT_WAIT_CAUGHT;
        if (outcome == TAUT_WAIT_EXPIRED)
            return TAUT_WAIT_EXPIRED;
        /* The event moved for what this thread has had already, or for another ring. */
        sum->spurious += one.parks > 0;
    }
}

int taut__queue_refuse(const struct taut_event *event, const struct taut_wait_policy *policy)
{
    if (!event || event->magic != TAUT__EVENT_MAGIC || taut__policy_check(policy) < 0)
        return TAUT_EINVAL;
    return event->generation == taut__process_generation() ? 0 : TAUT_ESTATE;
}

int taut__queue_wait(const struct taut__queue_waiter *waiter, uint64_t deadline_ns,
                     const struct taut_wait_policy *policy, struct taut_wait_report *report)
{
    struct taut_spin spin;
    atomic_store_explicit(waiter->in_wait, 1, memory_order_relaxed);
    taut__event_enter(waiter->event);
    taut_spin_begin(&spin, deadline_ns, policy);
    int outcome = TAUT_WAIT_CAUGHT;
    if (!spin_for(waiter, &spin)) {
        taut__spin_stop(&spin);
        outcome = TAUT_WAIT_EXPIRED;
        if (deadline_ns != 0) {
            outcome = sleep_for(waiter, deadline_ns, &spin.report);
            waiter->announce(waiter->context, 0);
        }
    }
    taut__event_leave(waiter->event); /* first: a fan-out's event is part of it */
    /* Release pairs with taut_ring_destroy() and taut_fanout_destroy(): the last touch. */
    atomic_store_explicit(waiter->in_wait, 0, memory_order_release);
    if (outcome < 0)
        return outcome;
    taut_spin_end(&spin, (uint32_t)outcome, report);
    return outcome;
}

/* --- the sides of a ring -------------------------------------------------------------------- */

static int items_ready(void *context)
{
    return taut__ring_has_items(context);
}

static void consumer_announces(void *context, uint32_t waits)
{
    struct taut_ring *ring = context;
    /* Ordered by the fence that follows; a clear needs no order. */
    atomic_store_explicit(&ring->consumer_waits, waits, memory_order_relaxed);
}

int taut_ring_wait_items(struct taut_ring *ring, uint64_t deadline_ns,
                         const struct taut_wait_policy *policy, struct taut_wait_report *report)
{
    if (!ring)
        return TAUT_EINVAL;
    const struct taut__queue_waiter waiter = {.event = ring->event,
                                              .ready = items_ready,
                                              .announce = consumer_announces,
                                              .in_wait = &ring->consumer.in_wait,
                                              .context = ring};
    int code = taut__queue_refuse(ring->event, policy);
    if (code != 0)
        return code;
    /* The producer may wait for just these slots. */
    taut_ring_flush_released(ring);
    return taut__queue_wait(&waiter, deadline_ns, policy, report);
}

static int space_ready(void *context)
{
    return taut__ring_has_space(context);
}

static void producer_announces(void *context, uint32_t waits)
{
    struct taut_ring *ring = context;
    atomic_store_explicit(&ring->producer_waits, waits, memory_order_relaxed);
}

int taut_ring_wait_space(struct taut_ring *ring, uint64_t deadline_ns,
                         const struct taut_wait_policy *policy, struct taut_wait_report *report)
{
    if (!ring)
        return TAUT_EINVAL;
    const struct taut__queue_waiter waiter = {.event = ring->space_event,
                                              .ready = space_ready,
                                              .announce = producer_announces,
                                              .in_wait = &ring->producer.in_wait,
                                              .context = ring};
    if (ring->producer.limit == 0)
        return TAUT_ESTATE;
    int code = taut__queue_refuse(ring->space_event, policy);
    if (code != 0)
        return code;
    /* The consumer may wait for just these items. */
    taut_ring_flush(ring);
    return taut__queue_wait(&waiter, deadline_ns, policy, report);
}
