/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue/fanout.c - one owner, K children: the owner's turn and the child's.
 *
 * Promises: a child's credit and side list are its own, and nothing here looks at one child before
 * it serves another; the owner neither waits nor yields; an item never overtakes an earlier one to
 * the same child; and each item is delivered, parked or shed, and comes back once.
 *
 * Order is kept by one rule: while anything is parked for a child, all that is new for it goes
 * behind that. It is kept for each flow because it is kept for all flows of a child together.
 */
#include "queue/fanout.h"

#include <stdio.h>

#include "base/check.h"
#include "base/fence.h"
#include "queue/queue_wait.h"
#include "queue/ring.h"

/* --- counters: written by the owner alone, read by anybody ---------------------------------- */

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint64_t add(_Atomic uint64_t *counter, uint64_t change)
{
    uint64_t value = get(counter) + change;
    atomic_store_explicit(counter, value, memory_order_relaxed);
    return value;
}

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    if (value > get(most))
        atomic_store_explicit(most, value, memory_order_relaxed);
}

#ifdef NDEBUG
#define OWNER(fanout) ((void)(fanout))
#else
/* The owner is who produces into the first work ring. */
#define OWNER(fanout) taut__ring_check(&(fanout)->child[0].work.producer, 1)
#endif

static void note_pressure(const struct taut_fanout *fanout, struct taut__child *child)
{
    uint64_t load = get(&child->outstanding) + child->park_count;
    uint32_t pressed = atomic_load_explicit(&child->pressed, memory_order_relaxed);
    if (!pressed && load >= fanout->high_mark) {
        atomic_store_explicit(&child->pressed, 1, memory_order_relaxed);
        add(&child->pressed_count, 1);
    } else if (pressed && load <= fanout->low_mark) {
        atomic_store_explicit(&child->pressed, 0, memory_order_relaxed);
    }
}

#define STALLED (UINT64_C(1) << 63) /* in struct taut__child, stall */

/* --- side list ------------------------------------------------------------------------------ */

static void park(const struct taut_fanout *fanout, struct taut__child *child, uint32_t flow,
                 uint64_t item)
{
    TAUT_CHECK(child->park_count < fanout->park_capacity);
    uint32_t at = child->park_first + child->park_count;
    if (at >= fanout->park_capacity)
        at -= fanout->park_capacity;
    child->park[at] = (struct taut_fanout_item){.item = item, .flow = flow};
    if (child->park_count++ == 0) {
        uint64_t before_ns = get(&child->stall) - taut_now_ns();
        atomic_store_explicit(&child->stall, before_ns | STALLED, memory_order_relaxed);
        add(&child->stalls, 1);
    }
    atomic_store_explicit(&child->parked, child->park_count, memory_order_relaxed);
    add(&child->parked_total, 1);
    raise_to(&child->parked_high, child->park_count);
}

static struct taut_fanout_item unpark(const struct taut_fanout *fanout, struct taut__child *child)
{
    TAUT_CHECK(child->park_count > 0);
    struct taut_fanout_item oldest = child->park[child->park_first];
    if (++child->park_first == fanout->park_capacity)
        child->park_first = 0;
    if (--child->park_count == 0) {
        uint64_t sum_ns = get(&child->stall) + taut_now_ns();
        atomic_store_explicit(&child->stall, sum_ns & ~STALLED, memory_order_relaxed);
    }
    atomic_store_explicit(&child->parked, child->park_count, memory_order_relaxed);
    return oldest;
}

/* --- delivery ------------------------------------------------------------------------------- */

/* Takes one credit of the child, which has one, and puts the item into its ring. */
static void deliver(struct taut_fanout *fanout, uint32_t index, uint32_t flow, uint64_t item)
{
    struct taut__child *child = &fanout->child[index];
    uint32_t number = child->free[--child->free_count];
    struct taut__credit *credit = &child->credits[number];
    credit->ticket += fanout->ticket_mask + 1;
    credit->item = item;
    credit->flow = flow;
    credit->out = 1;
    struct taut_fanout_item *slot = taut_ring_reserve(&child->work);
    TAUT_CHECK(slot != NULL); /* the reserve sees to it */
    *slot = (struct taut_fanout_item){.item = item, .flow = flow, .ticket = credit->ticket};
    taut_ring_commit(&child->work);
    if (!child->dirty) {
        child->dirty = 1;
        fanout->dirty[fanout->dirty_count++] = index;
    }
    add(&child->delivered, 1);
    raise_to(&child->outstanding_high, add(&child->outstanding, 1));
}

/* The side list is full. */
static int overflow(const struct taut_fanout *fanout, struct taut__child *child, uint32_t flow,
                    uint64_t item, struct taut_fanout_item *shed)
{
    struct taut_fanout_item dropped = {.item = item, .flow = flow};
    uint32_t policy = atomic_load_explicit(&child->policy, memory_order_relaxed);
    if (policy == TAUT_FANOUT_REFUSE) {
        add(&child->refused, 1);
        return TAUT_FANOUT_REFUSED;
    }
    if (policy == TAUT_FANOUT_SHED_OLDEST) {
        dropped = child->park[child->park_first];
        /* In this order the list does not run empty in between: the stall goes on. */
        if (++child->park_first == fanout->park_capacity)
            child->park_first = 0;
        child->park_count--;
        uint32_t last = child->park_first + child->park_count;
        if (last >= fanout->park_capacity)
            last -= fanout->park_capacity;
        child->park[last] = (struct taut_fanout_item){.item = item, .flow = flow};
        child->park_count++;
        add(&child->parked_total, 1);
    }
    add(&child->sent, 1);
    add(&child->shed, 1);
    if (shed)
        *shed = dropped;
    return TAUT_FANOUT_SHED;
}

int taut_fanout_send(struct taut_fanout *fanout, uint32_t child_index, uint32_t flow, uint64_t item,
                     struct taut_fanout_item *shed)
{
    if (!fanout || child_index >= fanout->children)
        return TAUT_EINVAL;
    OWNER(fanout);
    if (fanout->closed)
        return TAUT_ESTATE;
    struct taut__child *child = &fanout->child[child_index];
    int outcome = TAUT_FANOUT_SENT;
    if (child->park_count == 0 && child->free_count > 0) {
        deliver(fanout, child_index, flow, item);
    } else if (child->park_count < fanout->park_capacity) {
        park(fanout, child, flow, item);
        outcome = TAUT_FANOUT_PARKED;
    } else {
        return overflow(fanout, child, flow, item, shed);
    }
    add(&child->sent, 1);
    note_pressure(fanout, child);
    return outcome;
}

/* --- returns -------------------------------------------------------------------------------- */

static void credit_back(const struct taut_fanout *fanout, uint32_t index,
                        const struct taut_fanout_item *item)
{
    struct taut__child *child = &fanout->child[index];
    uint32_t effective = fanout->effective;
    /* Another child's wraps, or is beyond the last. */
    uint32_t number = (item->ticket & fanout->ticket_mask) - index * effective;
    struct taut__credit *credit = &child->credits[number < effective ? number : 0];
    int outstanding = number < effective && credit->out && credit->ticket == item->ticket &&
                      credit->item == item->item && credit->flow == item->flow;
    if (!outstanding)
        fprintf(stderr, "taut fan-out: item %llx of flow %u came back and is not outstanding\n",
                (unsigned long long)item->item, item->flow);
    TAUT_CHECK(outstanding); /* returned twice, by another child, or changed */
    credit->out = 0;
    child->free[child->free_count++] = number;
    add(&child->returned, 1);
    add(&child->outstanding, UINT64_MAX);
}

/* What this child has returned, up to `most`; then what it has credit for goes on. */
static uint32_t reap_child(struct taut_fanout *fanout, uint32_t index,
                           struct taut_fanout_item *returned, uint32_t most)
{
    struct taut__child *child = &fanout->child[index];
    uint32_t count = 0;
    const struct taut_fanout_item *item;
    while (count < most && (item = taut_ring_peek(&child->back)) != NULL) {
        credit_back(fanout, index, item);
        returned[count++] = *item;
        taut_ring_release(&child->back);
    }
    taut_ring_flush_released(&child->back);
    while (child->park_count > 0 && child->free_count > 0 && !fanout->closed) {
        struct taut_fanout_item next = unpark(fanout, child);
        deliver(fanout, index, next.flow, next.item);
    }
    if (count > 0)
        note_pressure(fanout, child);
    return count;
}

uint32_t taut_fanout_reap(struct taut_fanout *fanout, struct taut_fanout_item *returned,
                          uint32_t most)
{
    OWNER(fanout);
    uint32_t count = 0, index = fanout->next;
    for (uint32_t i = 0; i < fanout->children; i++) {
        count += reap_child(fanout, index, returned + count, most - count);
        if (++index == fanout->children)
            index = 0;
    }
    if (++fanout->next == fanout->children)
        fanout->next = 0;
    taut_fanout_flush(fanout);
    return count;
}

void taut_fanout_flush(struct taut_fanout *fanout)
{
    OWNER(fanout);
    if (fanout->dirty_count == 0)
        return;
    for (uint32_t i = 0; i < fanout->dirty_count; i++)
        (void)taut__ring_flush_begin(&fanout->child[fanout->dirty[i]].work);
    /* Dekker with taut_fanout_wait_work(), once for all: tails, fence, flags here; flag, fence,
     * tail there */
    taut__full_fence();
    for (uint32_t i = 0; i < fanout->dirty_count; i++) {
        struct taut__child *child = &fanout->child[fanout->dirty[i]];
        child->dirty = 0;
        taut__ring_look(&child->work);
    }
    fanout->dirty_count = 0;
}

/* --- the owner's rare calls ----------------------------------------------------------------- */

int taut_fanout_shed(struct taut_fanout *fanout, uint32_t child_index,
                     struct taut_fanout_item *shed)
{
    OWNER(fanout);
    if (child_index >= fanout->children || fanout->child[child_index].park_count == 0)
        return 0;
    struct taut__child *child = &fanout->child[child_index];
    struct taut_fanout_item oldest = unpark(fanout, child);
    add(&child->shed, 1);
    if (shed)
        *shed = oldest;
    note_pressure(fanout, child);
    return 1;
}

void taut_fanout_close(struct taut_fanout *fanout)
{
    OWNER(fanout);
    fanout->closed = 1;
    for (uint32_t i = 0; i < fanout->children; i++)
        taut_ring_close(&fanout->child[i].work);
}

int taut_fanout_set_policy(struct taut_fanout *fanout, uint32_t child_index, uint32_t policy)
{
    if (!fanout || child_index >= fanout->children || policy > TAUT_FANOUT_SHED_OLDEST)
        return TAUT_EINVAL;
    OWNER(fanout);
    atomic_store_explicit(&fanout->child[child_index].policy, policy, memory_order_relaxed);
    return 0;
}

int taut_fanout_pressed(const struct taut_fanout *fanout, uint32_t child_index)
{
    if (child_index >= fanout->children)
        return 0;
    return (int)atomic_load_explicit(&fanout->child[child_index].pressed, memory_order_relaxed);
}

static int returns_ready(void *context)
{
    struct taut_fanout *fanout = context;
    for (uint32_t i = 0; i < fanout->children; i++) {
        if (taut__ring_has_items(&fanout->child[i].back))
            return 1;
    }
    return 0;
}

static void owner_announces(void *context, uint32_t waits)
{
    struct taut_fanout *fanout = context;
    /* Ordered by the fence in the wait, once for all. */
    for (uint32_t i = 0; i < fanout->children; i++)
        atomic_store_explicit(&fanout->child[i].back.consumer_waits, waits, memory_order_relaxed);
}

int taut_fanout_wait_returns(struct taut_fanout *fanout, uint64_t deadline_ns,
                             const struct taut_wait_policy *policy, struct taut_wait_report *report)
{
    if (!fanout)
        return TAUT_EINVAL;
    const struct taut__queue_waiter waiter = {.event = &fanout->return_event,
                                              .ready = returns_ready,
                                              .announce = owner_announces,
                                              .in_wait = &fanout->in_wait,
                                              .context = fanout};
    int code = taut__queue_refuse(&fanout->return_event, policy);
    if (code != 0)
        return code;
    taut_fanout_flush(fanout);
    return taut__queue_wait(&waiter, deadline_ns, policy, report);
}

/* --- the child's half ----------------------------------------------------------------------- */

int taut_fanout_take(struct taut_fanout *fanout, uint32_t child_index,
                     struct taut_fanout_item *item)
{
    TAUT_CHECK(child_index < fanout->children);
    struct taut__child *child = &fanout->child[child_index];
    const struct taut_fanout_item *next = taut_ring_peek(&child->work);
    if (!next) {
        /* The owner may have nothing to send before it has these back. */
        taut_ring_flush(&child->back);
        return 0;
    }
    *item = *next;
    taut_ring_release(&child->work);
    return 1;
}

void taut_fanout_return(struct taut_fanout *fanout, uint32_t child_index,
                        const struct taut_fanout_item *item)
{
    TAUT_CHECK(child_index < fanout->children);
    struct taut_ring *back = &fanout->child[child_index].back;
    struct taut_fanout_item *slot = taut_ring_reserve(back);
    TAUT_CHECK(slot != NULL); /* more came back than were out */
    *slot = *item;
    taut_ring_commit(back);
}

void taut_fanout_flush_returns(struct taut_fanout *fanout, uint32_t child_index)
{
    TAUT_CHECK(child_index < fanout->children);
    taut_ring_flush(&fanout->child[child_index].back);
}

int taut_fanout_wait_work(struct taut_fanout *fanout, uint32_t child_index, uint64_t deadline_ns,
                          const struct taut_wait_policy *policy, struct taut_wait_report *report)
{
    if (!fanout || child_index >= fanout->children)
        return TAUT_EINVAL;
    struct taut__child *child = &fanout->child[child_index];
    int code = taut__queue_refuse(&child->event, policy);
    if (code != 0)
        return code;
    taut_ring_flush(&child->back);
    return taut_ring_wait_items(&child->work, deadline_ns, policy, report);
}

int taut_fanout_closed(struct taut_fanout *fanout, uint32_t child_index)
{
    TAUT_CHECK(child_index < fanout->children);
    return taut_ring_closed(&fanout->child[child_index].work);
}

/* --- reading -------------------------------------------------------------------------------- */

int taut_fanout_stats(const struct taut_fanout *fanout, uint32_t child_index,
                      struct taut_fanout_stats *stats)
{
    if (!stats)
        return TAUT_EINVAL;
    memset(stats, 0, sizeof *stats);
    if (!fanout || child_index >= fanout->children)
        return TAUT_EINVAL;
    const struct taut__child *child = &fanout->child[child_index];
    stats->sent = get(&child->sent);
    stats->delivered = get(&child->delivered);
    stats->returned = get(&child->returned);
    stats->outstanding = get(&child->outstanding);
    stats->parked = get(&child->parked);
    stats->parked_total = get(&child->parked_total);
    stats->shed = get(&child->shed);
    stats->refused = get(&child->refused);
    stats->outstanding_high = get(&child->outstanding_high);
    stats->parked_high = get(&child->parked_high);
    stats->stalls = get(&child->stalls);
    stats->pressed_count = get(&child->pressed_count);
    uint64_t stall = get(&child->stall);
    stats->stall_ns = stall & STALLED ? (stall + taut_now_ns()) & ~STALLED : stall;
    stats->capacity = fanout->capacity;
    stats->effective = fanout->effective;
    stats->reserve = fanout->reserve;
    stats->park_capacity = fanout->park_capacity;
    stats->policy = atomic_load_explicit(&child->policy, memory_order_relaxed);
    stats->pressed = atomic_load_explicit(&child->pressed, memory_order_relaxed);
    return 0;
}

const char *taut_fanout_outcome_name(uint32_t outcome)
{
    static const char *const names[] = {
        [TAUT_FANOUT_SENT] = "sent",
        [TAUT_FANOUT_PARKED] = "parked",
        [TAUT_FANOUT_SHED] = "shed",
        [TAUT_FANOUT_REFUSED] = "refused",
    };
    return outcome < sizeof names / sizeof names[0] ? names[outcome] : "?";
}
