/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/queue.h - from one thread to another: a ring, and a fan-out whose children hold up nobody.
 *
 * A **ring** takes items of a fixed size from one producer to one consumer, in order, in memory of
 * the caller. Each side writes in place: reserve and commit, peek and release. What moves between
 * two CPUs is a cache line, and an item a line is what makes queues slow, so both sides tell the
 * other in *batches*: of what was committed, and of what was released. Nothing is held back when it
 * matters: the producer tells all when it finds the ring full, waits, closes or flushes, and the
 * consumer when it finds the ring empty, waits or flushes.
 *
 *     producer: while ((slot = taut_ring_reserve(ring))) { fill(slot); taut_ring_commit(ring); }
 *               taut_ring_flush(ring);            (whenever its own input is empty)
 *     consumer: while ((item = taut_ring_peek(ring))) { use(item); taut_ring_release(ring); }
 *
 * A **fan-out** is one owner and K children, with a work ring to each and a return ring back. An
 * item is sent to a child, taken, and returned when the child is done with it. Each child has a
 * *credit* of its own: a child that is slow or stopped uses up its own credit, its further items
 * are parked in a bounded list of its own (in order), and all others go on. The owner never waits
 * for a child.
 *
 * Threads: one producer and one consumer a ring, one owner and one thread a child in a fan-out. A
 * side belongs to the thread that uses it first. Where the caller is compiled without NDEBUG each
 * call checks that and aborts on another thread; with NDEBUG in the caller but not in the library,
 * it is checked once a batch. Statistics may be read by any thread. Blocking:
 * taut_ring_wait_items(), taut_ring_wait_space(), taut_fanout_wait_work() and
 * taut_fanout_wait_returns(), until their deadlines. Allocation: only in the two create functions.
 * Ownership: who gives memory keeps it; it must outlive both sides. Items are copied bytes; what
 * they point to belongs to whoever holds the item. Errors: codes of taut/err.h; full, empty, closed
 * and expired are outcomes.
 *
 * Caveats: a producer that stops without taut_ring_flush() leaves up to publish_batch - 1 items
 * unseen, and may leave a sleeping consumer asleep. A ring is for threads of one process: not for
 * shared memory, and not across fork(2). The layout of struct taut_ring is part of the ABI.
 */
#ifndef TAUT_QUEUE_H
#define TAUT_QUEUE_H

#include <string.h>

#include <taut/wait.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- ring ----------------------------------------------------------------------------------- */

#define TAUT_RING_CAPACITY_MAX   UINT32_C(0x40000000)
#define TAUT_RING_ITEM_BYTES_MAX UINT32_C(65536)
/* 8 items of 8 bytes fill a line; bench/records/2026-12-01-queue.md */
#define TAUT_RING_BATCH 8u

struct taut_ring_options {
    uint32_t size;          /* sizeof(struct taut_ring_options); 0 = as in version 0.1 */
    uint32_t capacity;      /* items; a power of two, 1 to TAUT_RING_CAPACITY_MAX; all are usable */
    uint32_t item_bytes;    /* 1 to TAUT_RING_ITEM_BYTES_MAX; a slot is as aligned as that allows */
    uint32_t publish_batch; /* items that the producer tells at once; a power of two, at most the
                               capacity; 0 = TAUT_RING_BATCH, or the capacity where that is less */
    uint32_t release_batch; /* slots that the consumer gives back at once; the same rules; 0 = as
                               publish_batch */
    uint32_t reserved;      /* 0 */
    /* Published when items are there, or the ring is closed, and the consumer waits in
     * taut_ring_wait_items(); no other call touches it. NULL: nobody waits for items. */
    struct taut_event *event;
    /* The same for space and taut_ring_wait_space(). Not the same event: it is another predicate.
     */
    struct taut_event *space_event;
};

/*
 * One side of a ring. Its thread's alone, but for the counters. Laid out here, because the inline
 * functions below are what a ring costs: a call for each item would double it.
 */
struct taut__ring_side {
    uint64_t index; /* behind the last item committed (released); ahead of what is published */
    /* What the other side was told last. Not read back from tail (head): the other side has the
     * line, and asking for it to read and then again to write is two transfers. */
    uint64_t told;
    uint64_t other; /* the other side's published index, as read last */
    uint64_t limit; /* producer: the capacity; 0 once it has closed */
    uint64_t mask;  /* capacity - 1 */
    uint8_t *slots;
    int32_t owner_tid; /* the thread that used it first; 0 = nobody yet */
    uint32_t item_bytes;
    uint32_t batch;
    uint32_t looked; /* 1: since the last publication the other side's flag was looked at,
                        behind a fence */
    uint32_t ahead;  /* producer: slots between the next and those it asks for already */
    uint32_t idle;   /* consumer: empty looks in a row */
    TAUT__ATOMIC(uint32_t) in_wait; /* 1: its thread is in a wait, asleep or not */
    TAUT__ATOMIC(uint64_t) publications;
    TAUT__ATOMIC(uint64_t) misses;     /* full (empty) hits */
    TAUT__ATOMIC(uint64_t) high_water; /* producer */
    TAUT__ATOMIC(uint64_t) wakes;      /* events published because the other side waited */
};

/* A ring; its members belong to the functions below. */
struct taut_ring {
    TAUT__LINE struct taut__ring_side producer;
    /* Written by the producer alone. An 8-byte item that is published alone is told beside the
     * index, in the same line: so that it costs one transfer between cores, not two. */
    TAUT__LINE TAUT__ATOMIC(uint64_t) tail;
    TAUT__ATOMIC(uint64_t) echo_at; /* index of the item that is... */
    TAUT__ATOMIC(uint64_t) echo;    /* ... here, or of a later one */
    TAUT__LINE struct taut__ring_side consumer;
    TAUT__LINE TAUT__ATOMIC(uint64_t) head; /* written by the consumer alone */
    /* Read by both at each publication and hardly ever written, so it stays in both caches. */
    TAUT__LINE TAUT__ATOMIC(uint32_t) consumer_waits;
    TAUT__ATOMIC(uint32_t) producer_waits;
    TAUT__ATOMIC(uint32_t) closed;
    uint32_t magic;
    uint32_t generation; /* of the process, against fork(2) */
    struct taut_event *event, *space_event;
    uint64_t start; /* of both indices */
    void *memory;   /* of taut_ring_create(), to be freed */
};

/* Counters since the ring was made, and what is in effect. Each counter is whole, but they are of
 * one moment only where both sides are at rest. */
struct taut_ring_stats {
    uint64_t pushed;       /* items that the producer has published */
    uint64_t popped;       /* items whose slots the consumer has given back */
    uint64_t publications; /* of the producer: pushed / publications is the batch that came about */
    uint64_t releases;     /* the same of the consumer */
    uint64_t full_hits;    /* calls of the producer that found no room */
    uint64_t empty_hits;   /* calls of the consumer that found nothing */
    /* Most slots in use at a publication: published and not given back. What is given back during
     * that publication may be missing in it. Kept by the producer, and so also when the consumer
     * stands still; it stays when the ring is closed and drained. */
    uint64_t high_water;
    uint64_t wakes;       /* events published for a waiting consumer */
    uint64_t space_wakes; /* events published for a waiting producer */
    uint32_t capacity, item_bytes, publish_batch, release_batch;
    uint32_t closed;
    uint32_t reserved;
};

/* Bytes of slots that a ring with these options needs, a multiple of TAUT_LINE_BYTES; 0: NULL, or
 * an option that taut_ring_init() refuses. */
TAUT_API size_t taut_ring_footprint(const struct taut_ring_options *options);

/*
 * Makes an empty ring over `memory` (`length` bytes, aligned to TAUT_LINE_BYTES), which stays the
 * caller's and must not move. The memory is not touched: its pages come where they are first used.
 * 0; TAUT_EINVAL: NULL, misaligned, a size that is none, an option outside its range, a capacity or
 * batch that is not a power of two; TAUT_ENOMEM: fewer bytes than taut_ring_footprint() says. err
 * may be NULL.
 */
TAUT_API int taut_ring_init(struct taut_ring *ring, const struct taut_ring_options *options,
                            void *memory, size_t length, struct taut_err *err);

/* Allocates a ring and its memory and makes it; errors as taut_ring_init(). */
TAUT_API int taut_ring_create(struct taut_ring **ring, const struct taut_ring_options *options,
                              struct taut_err *err);

/* Frees what taut_ring_create() gave. NULL is nothing. TAUT_EBUSY: a side is in a wait; nothing is
 * freed. No other call may be under way, taut_ring_close() of the producer neither: that the ring
 * is closed does not say that it has returned. TAUT_EINVAL: not from taut_ring_create(). A child of
 * fork(2) may free its copy whoever waited. A ring in the caller's memory needs no end. */
TAUT_API int taut_ring_destroy(struct taut_ring *ring);

/*
 * Closes the ring: the producer's last call. Flushes, then the consumer is told; it still gets
 * every item, then taut_ring_closed() is 1. From now on the producer's reserves find no room and
 * count nothing. A second call does nothing.
 */
TAUT_API void taut_ring_close(struct taut_ring *ring);

/* For the consumer: 1 when the ring is closed and every item was released, else 0. */
TAUT_API int taut_ring_closed(struct taut_ring *ring);

/*
 * Publishes what was committed, and wakes the consumer if it waits. The producer calls it whenever
 * it has nothing more to put in for now. With an event this costs one full fence where something
 * was published since the last, and no system call unless the consumer waits; publications by batch
 * cost neither. Nothing to publish is fine.
 */
TAUT_API void taut_ring_flush(struct taut_ring *ring);

/* The same for the consumer: gives back all released slots, and wakes the producer if it waits.
 * Needed only by a consumer that stops looking at the ring: one that finds it empty has done it. */
TAUT_API void taut_ring_flush_released(struct taut_ring *ring);

/*
 * The consumer waits until there is an item or the ring is closed, at most until deadline_ns
 * (absolute; 0: looks once; TAUT_NEVER_NS: no end). Gives back what was released first. It spins on
 * the ring itself, as `policy` says, so that a producer never pays for a consumer that does not
 * sleep; then it sleeps on the ring's event. policy and report may be NULL.
 *
 * Returns enum taut_wait_outcome: CAUGHT or PARKED mean that taut_ring_peek() or taut_ring_closed()
 * will tell. TAUT_EINVAL: the ring has no event, or as taut_wait(); TAUT_ESTATE: as taut_wait().
 */
TAUT_API int taut_ring_wait_items(struct taut_ring *ring, uint64_t deadline_ns,
                                  const struct taut_wait_policy *policy,
                                  struct taut_wait_report *report);

/* The producer waits until there is room for an item; flushes first. On a ring that is closed:
 * returns TAUT_ESTATE. Else as taut_ring_wait_items(), with the space_event. */
TAUT_API int taut_ring_wait_space(struct taut_ring *ring, uint64_t deadline_ns,
                                  const struct taut_wait_policy *policy,
                                  struct taut_wait_report *report);

/* Any thread. */
TAUT_API void taut_ring_stats(const struct taut_ring *ring, struct taut_ring_stats *stats);

/* What the inline functions below call once a batch, or where they find no room (no item).
 * more_space and more_items return how many there are. */
TAUT_API uint64_t taut__ring_more_space(struct taut_ring *ring);
TAUT_API uint64_t taut__ring_more_items(struct taut_ring *ring);
TAUT_API int taut__ring_pop_u64(struct taut_ring *ring, uint64_t *value);
TAUT_API void taut__ring_publish(struct taut_ring *ring);
TAUT_API void taut__ring_give_back(struct taut_ring *ring);
/* Aborts: another thread than the side's, or more committed than there is known to be room for
 * (more released than is known to be there). */
TAUT_API void taut__ring_check(struct taut__ring_side *side, int fits);

#ifdef NDEBUG
#define TAUT__RING_CHECK(side, fits) ((void)(side), (void)(fits))
#else
#define TAUT__RING_CHECK(side, fits) taut__ring_check((side), (fits))
#endif

/* 1: a multiple of the batch lies between what the other side was told and the index, so that
 * batches end where lines end. */
static inline int taut__ring_batch_ends(const struct taut__ring_side *side)
{
    return (side->index ^ side->told) >= side->batch;
}

/* A place for one item, or NULL: the ring is full, or closed. Until it is committed nobody else
 * sees it; a second reserve without a commit gives the same place. Producer. */
static inline void *taut_ring_reserve(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->producer;
    TAUT__RING_CHECK(side, 1);
    if (__builtin_expect(side->index - side->other >= side->limit, 0) &&
        taut__ring_more_space(ring) == 0)
        return NULL;
    return side->slots + (size_t)(side->index & side->mask) * side->item_bytes;
}

/*
 * Up to `want` places side by side: *got says how many, fewer at the end of the memory or where
 * there is less room. NULL and 0: no room, closed, or want 0. Commit as many of them as were
 * filled, from the first, and no more: what lies in others would be published. Producer.
 */
static inline void *taut_ring_reserve_n(struct taut_ring *ring, uint32_t want, uint32_t *got)
{
    struct taut__ring_side *side = &ring->producer;
    uint64_t used = side->index - side->other, room = used < side->limit ? side->limit - used : 0;
    uint64_t first = side->index & side->mask, run = side->mask + 1 - first;
    TAUT__RING_CHECK(side, 1);
    if (__builtin_expect(room < want, 0))
        room = taut__ring_more_space(ring);
    if (run > room)
        run = room;
    if (run > want)
        run = want;
    *got = (uint32_t)run;
    return run ? side->slots + (size_t)first * side->item_bytes : NULL;
}

/* Puts in the first `count` places reserved last. They are published with the batch, or by
 * taut_ring_flush(). Producer. */
static inline void taut_ring_commit_n(struct taut_ring *ring, uint32_t count)
{
    struct taut__ring_side *side = &ring->producer;
    TAUT__RING_CHECK(side, side->index + count - side->other <= side->limit);
    side->index += count;
    if (taut__ring_batch_ends(side))
        taut__ring_publish(ring);
}

/* Puts in the place reserved last. Producer. */
static inline void taut_ring_commit(struct taut_ring *ring)
{
    taut_ring_commit_n(ring, 1);
}

/* The oldest item, where it lies, or NULL: there is none (taut_ring_closed() tells whether one will
 * come). It stays until it is released; a second peek gives the same. Consumer. */
static inline const void *taut_ring_peek(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->consumer;
    TAUT__RING_CHECK(side, 1);
    if (__builtin_expect(side->index == side->other, 0) && taut__ring_more_items(ring) == 0)
        return NULL;
    return side->slots + (size_t)(side->index & side->mask) * side->item_bytes;
}

/* Up to `want` of the oldest items side by side; as taut_ring_reserve_n(). Consumer. */
static inline const void *taut_ring_peek_n(struct taut_ring *ring, uint32_t want, uint32_t *got)
{
    struct taut__ring_side *side = &ring->consumer;
    uint64_t have = side->other - side->index;
    uint64_t first = side->index & side->mask, run = side->mask + 1 - first;
    TAUT__RING_CHECK(side, 1);
    if (__builtin_expect(have < want, 0))
        have = taut__ring_more_items(ring);
    if (run > have)
        run = have;
    if (run > want)
        run = want;
    *got = (uint32_t)run;
    return run ? side->slots + (size_t)first * side->item_bytes : NULL;
}

/* Gives back the places of the `count` oldest items; they must not be touched any more. Consumer.
 */
static inline void taut_ring_release_n(struct taut_ring *ring, uint32_t count)
{
    struct taut__ring_side *side = &ring->consumer;
    TAUT__RING_CHECK(side, side->other - side->index >= count);
    side->index += count;
    if (taut__ring_batch_ends(side))
        taut__ring_give_back(ring);
}

/* Gives back the place of the oldest item. Consumer. */
static inline void taut_ring_release(struct taut_ring *ring)
{
    taut_ring_release_n(ring, 1);
}

/* Reserve, fill and commit of one 8-byte item, where item_bytes is 8: with NDEBUG it is not
 * checked, and smaller items are written over. 1, or 0: no room, or closed. */
static inline int taut_ring_push_u64(struct taut_ring *ring, uint64_t value)
{
    struct taut__ring_side *side = &ring->producer;
    TAUT__RING_CHECK(side, side->item_bytes == sizeof value);
    if (__builtin_expect(side->index - side->other >= side->limit, 0) &&
        taut__ring_more_space(ring) == 0)
        return 0;
    memcpy(side->slots + (size_t)(side->index & side->mask) * sizeof value, &value, sizeof value);
    taut_ring_commit_n(ring, 1);
    return 1;
}

/* Peek, copy and release of one 8-byte item (item_bytes 8). 1, or 0: there is none. */
static inline int taut_ring_pop_u64(struct taut_ring *ring, uint64_t *value)
{
    struct taut__ring_side *side = &ring->consumer;
    TAUT__RING_CHECK(side, side->item_bytes == sizeof *value);
    if (__builtin_expect(side->index == side->other, 0))
        return taut__ring_pop_u64(ring, value);
    memcpy(value, side->slots + (size_t)(side->index & side->mask) * sizeof *value, sizeof *value);
    taut_ring_release_n(ring, 1);
    return 1;
}

/* --- fan-out -------------------------------------------------------------------------------- */

struct taut_fanout; /* opaque */

#define TAUT_FANOUT_CHILDREN_MAX 1024u
#define TAUT_FANOUT_CAPACITY     256u     /* of a work ring, by default */
#define TAUT_FANOUT_CAPACITY_MAX 1048576u /* 2^20 */

/* What happens to an item when its child has no credit and its side list is full. */
enum taut_fanout_policy {
    TAUT_FANOUT_REFUSE = 0,      /* it stays the caller's */
    TAUT_FANOUT_SHED_NEWEST = 1, /* it is dropped */
    TAUT_FANOUT_SHED_OLDEST = 2  /* the oldest parked item is dropped, and it is parked */
};

/* What became of an item. */
enum taut_fanout_outcome {
    TAUT_FANOUT_SENT = 0,   /* in the child's work ring */
    TAUT_FANOUT_PARKED = 1, /* in its side list; it goes on by itself when credit comes back */
    TAUT_FANOUT_SHED = 2,   /* an item was dropped, this one or an older one: *shed says which */
    TAUT_FANOUT_REFUSED = 3 /* neither sent nor counted as sent; try again after a reap */
};

/* An item as it goes to a child and comes back. */
struct taut_fanout_item {
    uint64_t item;   /* the caller's: a pointer, a handle */
    uint32_t flow;   /* the caller's: items of a flow that go to one child keep their order */
    uint32_t ticket; /* which credit it holds; comes back unchanged */
};

/* Zero means the default. */
struct taut_fanout_options {
    uint32_t size;          /* sizeof(struct taut_fanout_options); 0 = as in version 0.1 */
    uint32_t children;      /* 1 to TAUT_FANOUT_CHILDREN_MAX; no default */
    uint32_t capacity;      /* nominal: slots of a work ring; a power of two, 2 to
                               TAUT_FANOUT_CAPACITY_MAX; 0 = TAUT_FANOUT_CAPACITY */
    uint32_t publish_batch; /* of all rings; a power of two; 0 = TAUT_RING_BATCH, at most a quarter
                               of the capacity */
    uint32_t reserve;   /* slots that are no credit: a child tells in batches which it has emptied,
                           so publish_batch - 1 at least; 0 = twice publish_batch, at most half
                           of the capacity */
    uint32_t credits;   /* items that all children together may hold, shared out evenly: for who
                           has so many buffers. 0 = as many as the rings take */
    uint32_t park;      /* items of a side list; 0 = as many as the effective capacity; up to
                           TAUT_FANOUT_CAPACITY_MAX */
    uint32_t policy;    /* enum taut_fanout_policy of all; taut_fanout_set_policy() for one */
    uint32_t high_mark; /* a child is *pressed* from so many items on (held by it and parked)...
                           0 = its effective capacity */
    uint32_t low_mark;  /* ... until it has no more than so many; below high_mark; 0 = half */
};

/*
 * Counters of one child. Each is whole; when owner and child are at rest these are exact:
 * sent == delivered + parked + shed, and delivered == returned + outstanding.
 */
struct taut_fanout_stats {
    uint64_t sent;         /* items given and not refused */
    uint64_t delivered;    /* put into the work ring */
    uint64_t returned;     /* come back, as reaped by the owner */
    uint64_t outstanding;  /* now with the child, or on the way to or from it */
    uint64_t parked;       /* now in the side list */
    uint64_t parked_total; /* ever put there */
    uint64_t shed, refused;
    uint64_t outstanding_high, parked_high; /* most of each at a time */
    uint64_t stalls;                        /* times that the side list came into use */
    uint64_t stall_ns; /* how long it was in use in all: no credit, and items that wait for it */
    uint64_t pressed_count;                /* times that high_mark was reached */
    uint32_t capacity, effective, reserve; /* nominal, credit, what lies between */
    uint32_t park_capacity, policy, pressed;
};

/* Bytes for a fan-out with these options, a multiple of TAUT_LINE_BYTES; 0: options that
 * taut_fanout_init() refuses. */
TAUT_API size_t taut_fanout_footprint(const struct taut_fanout_options *options);

/*
 * Makes a fan-out in `memory` (`length` bytes, aligned to TAUT_LINE_BYTES), which stays the
 * caller's. 0; TAUT_EINVAL, with a text: an option outside its range; capacity or batch not a power
 * of two; a reserve that is less than publish_batch - 1, or leaves no credit; more children than
 * credits; TAUT_ENOMEM: fewer bytes than the footprint.
 */
TAUT_API int taut_fanout_init(struct taut_fanout **fanout,
                              const struct taut_fanout_options *options, void *memory,
                              size_t length, struct taut_err *err);
TAUT_API int taut_fanout_create(struct taut_fanout **fanout,
                                const struct taut_fanout_options *options, struct taut_err *err);

/* Ends it; frees what taut_fanout_create() gave. Items that are parked or outstanding are the
 * caller's to know. TAUT_EBUSY: a thread is in a wait; nothing is changed. No other call may be
 * under way. NULL is nothing. A child of fork(2) may end its copy. */
TAUT_API int taut_fanout_destroy(struct taut_fanout *fanout);

/*
 * Gives an item to a child. With credit, and nothing parked before it, it goes to the work ring;
 * else behind what is parked; where the side list is full, as the policy says. Never waits, never
 * yields. The child sees it with the batch, or after taut_fanout_flush() or taut_fanout_reap().
 *
 * Returns enum taut_fanout_outcome; with TAUT_FANOUT_SHED *shed (may be NULL) is what was dropped,
 * for the caller to free. TAUT_EINVAL: no such child. TAUT_ESTATE: closed. Owner.
 */
TAUT_API int taut_fanout_send(struct taut_fanout *fanout, uint32_t child, uint32_t flow,
                              uint64_t item, struct taut_fanout_item *shed);

/*
 * Collects what children have returned, up to `most` in returned[], and gives their credit back;
 * sends parked items on for which there is credit now; flushes. Begins each time with another
 * child, so that a small `most` serves all. Returns how many; 0 with most 0, which still moves and
 * flushes. Call it every turn. Owner.
 */
TAUT_API uint32_t taut_fanout_reap(struct taut_fanout *fanout, struct taut_fanout_item *returned,
                                   uint32_t most);

/* Publishes all that was sent and wakes children that wait; one fence for all. Owner. */
TAUT_API void taut_fanout_flush(struct taut_fanout *fanout);

/* Takes the oldest parked item of a child away, and counts it as shed: 1; 0 when nothing is parked.
 * For the end, and for a child that is given up. Owner. */
TAUT_API int taut_fanout_shed(struct taut_fanout *fanout, uint32_t child,
                              struct taut_fanout_item *shed);

/* Closes all work rings: children get what is in them, then taut_fanout_closed(). Parked items stay
 * parked; returns can still be reaped. Owner. */
TAUT_API void taut_fanout_close(struct taut_fanout *fanout);

/* 0, TAUT_EINVAL. Owner. */
TAUT_API int taut_fanout_set_policy(struct taut_fanout *fanout, uint32_t child, uint32_t policy);

/* 1 from high_mark until low_mark: stop taking more for this child where that is possible
 * (taut_port_pause()); 0 also for a child that does not exist. Owner. */
TAUT_API int taut_fanout_pressed(const struct taut_fanout *fanout, uint32_t child);

/* The owner waits until something has been returned, by any child; as taut_ring_wait_items().
 * Flushes first. For an owner that has nothing else to do; nothing outstanding: only the deadline
 * ends it. */
TAUT_API int taut_fanout_wait_returns(struct taut_fanout *fanout, uint64_t deadline_ns,
                                      const struct taut_wait_policy *policy,
                                      struct taut_wait_report *report);

/* The child takes its next item: 1, or 0: there is none now. */
TAUT_API int taut_fanout_take(struct taut_fanout *fanout, uint32_t child,
                              struct taut_fanout_item *item);

/*
 * The child gives an item back, as it was taken, in any order. The owner sees it with the batch,
 * when the child finds no work, waits or flushes. An item that is not outstanding (returned twice,
 * of another child, or changed) aborts the process: at the latest when the owner reaps it.
 */
TAUT_API void taut_fanout_return(struct taut_fanout *fanout, uint32_t child,
                                 const struct taut_fanout_item *item);

/* The child tells all it has returned; needed by a child that stops looking for work. */
TAUT_API void taut_fanout_flush_returns(struct taut_fanout *fanout, uint32_t child);

/* The child flushes its returns and waits for work or the end; as taut_ring_wait_items(). */
TAUT_API int taut_fanout_wait_work(struct taut_fanout *fanout, uint32_t child, uint64_t deadline_ns,
                                   const struct taut_wait_policy *policy,
                                   struct taut_wait_report *report);

/* 1 when the owner has closed and this child has taken all; else 0. The child. */
TAUT_API int taut_fanout_closed(struct taut_fanout *fanout, uint32_t child);

/* 0, or TAUT_EINVAL for no such child. Any thread. */
TAUT_API int taut_fanout_stats(const struct taut_fanout *fanout, uint32_t child,
                               struct taut_fanout_stats *stats);

/* "sent", "parked", "shed", "refused"; "?" for another number. */
TAUT_API const char *taut_fanout_outcome_name(uint32_t outcome);

#ifdef __cplusplus
}
#endif
#endif
