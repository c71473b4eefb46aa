/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/event.c - the publisher's side of an event, and its counters.
 *
 * A publication is one compare-and-swap that moves the epoch, ends "quiet" and takes all sleepers
 * off the count. Who counted himself before it is woken by it; who comes after it finds the epoch
 * moved and does not sleep. Between two publications the count is exactly the number of threads
 * that are in, or on their way into, the kernel.
 *
 * After that swap a publisher touches nothing of the event but its address: a waiter that has
 * returned may end the event and free it at once, even though the publisher has not returned yet.
 */
#include "wait/event.h"

#include "base/futex.h"
#include "base/process.h"
#include "wait/window.h"

int taut_event_init(struct taut_event *event)
{
    if (event == NULL || (uintptr_t)event % TAUT_LINE_BYTES != 0)
        return TAUT_EINVAL;
    (void)taut__spin_default(NULL); /* here, so that no wait has to read files */
    atomic_init(&event->state, 0);
    atomic_init(&event->wraps, 0);
    atomic_init(&event->wake_calls, 0);
    atomic_init(&event->waits, 0);
    atomic_init(&event->caught, 0);
    atomic_init(&event->parked, 0);
    atomic_init(&event->expired, 0);
    atomic_init(&event->sleeps, 0);
    atomic_init(&event->spurious, 0);
    atomic_init(&event->late_max_ns, 0);
    atomic_init(&event->guests, 0);
    event->generation = taut__process_generation_enter();
    event->magic = TAUT__EVENT_MAGIC;
    return TAUT_OK;
}

int taut_event_destroy(struct taut_event *event)
{
    if (event == NULL || event->magic != TAUT__EVENT_MAGIC)
        return TAUT_EINVAL;
    /* Acquire pairs with the release that ends each taut_wait(): whose outcome is counted here has
     * touched the event for the last time; and with that of taut__event_leave(), which comes after
     * the outcomes of its guest. In a child of fork(2) the waiters do not exist. */
    uint32_t guests = atomic_load_explicit(&event->guests, memory_order_acquire);
    uint64_t ended = atomic_load_explicit(&event->caught, memory_order_acquire) +
                     atomic_load_explicit(&event->parked, memory_order_acquire) +
                     atomic_load_explicit(&event->expired, memory_order_acquire);
    if (event->generation == taut__process_generation() &&
        (guests != 0 || atomic_load_explicit(&event->waits, memory_order_relaxed) != ended))
        return TAUT_EBUSY;
    event->magic = 0;
    return TAUT_OK;
}

uint32_t taut_event_epoch(const struct taut_event *event)
{
    /* Acquire pairs with taut_event_publish(). */
    return taut__event_epoch_of(atomic_load_explicit(&event->state, memory_order_acquire));
}

/* Makes *counter count this publication or not, before it is made: nothing may be touched after. */
static void count_ahead(_Atomic uint64_t *counter, int *counted, int wanted)
{
    if (*counted == wanted)
        return;
    if (wanted)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(counter, 1, memory_order_relaxed);
    *counted = wanted;
}

uint32_t taut_event_publish(struct taut_event *event)
{
    uint64_t old = atomic_load_explicit(&event->state, memory_order_relaxed), next;
    int wrap_counted = 0, wake_counted = 0;
    do {
        uint32_t epoch = taut__event_epoch_of(old);
        count_ahead(&event->wraps, &wrap_counted, epoch == UINT32_MAX);
        count_ahead(&event->wake_calls, &wake_counted, (old & TAUT__EVENT_SLEEPERS) != 0);
        next = (uint64_t)(epoch + 1) << 32;
        /* Release pairs with the acquire loads of taut_event_epoch() and taut_wait(). */
    } while (!atomic_compare_exchange_weak_explicit(&event->state, &old, next, memory_order_release,
                                                    memory_order_relaxed));
    uint32_t sleepers = (uint32_t)(old & TAUT__EVENT_SLEEPERS);
    if (sleepers > 0)
        taut__futex_wake(taut__event_futex(event), UINT32_MAX, TAUT__FUTEX_PRIVATE);
    return sleepers;
}

void taut_event_quiesce(struct taut_event *event)
{
    /* Relaxed: a request, it publishes nothing. Waiters see it in the word that they poll. */
    atomic_fetch_or_explicit(&event->state, TAUT__EVENT_QUIET, memory_order_relaxed);
}

void taut_event_stats(const struct taut_event *event, struct taut_event_stats *stats)
{
    uint64_t state = atomic_load_explicit(&event->state, memory_order_relaxed);
    *stats = (struct taut_event_stats){
        .published = (atomic_load_explicit(&event->wraps, memory_order_relaxed) << 32) +
                     taut__event_epoch_of(state),
        .wake_calls = atomic_load_explicit(&event->wake_calls, memory_order_relaxed),
        /* Acquire pairs with the release that ends each taut_wait(): its other counts are seen. */
        .caught = atomic_load_explicit(&event->caught, memory_order_acquire),
        .parked = atomic_load_explicit(&event->parked, memory_order_acquire),
        .expired = atomic_load_explicit(&event->expired, memory_order_acquire),
        .epoch = taut__event_epoch_of(state),
        .sleepers = (uint32_t)(state & TAUT__EVENT_SLEEPERS),
    };
    stats->waits = atomic_load_explicit(&event->waits, memory_order_relaxed);
    stats->sleeps = atomic_load_explicit(&event->sleeps, memory_order_relaxed);
    stats->spurious = atomic_load_explicit(&event->spurious, memory_order_relaxed);
    stats->late_max_ns = atomic_load_explicit(&event->late_max_ns, memory_order_relaxed);
}
