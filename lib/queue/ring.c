/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue/ring.c - the ring's slow half: making one, and what happens once a batch.
 *
 * The indices are free-running 64-bit counters; tail - head slots are in use, also when they wrap.
 * tail is stored by the producer alone, head by the consumer alone: plain release stores, no RMW.
 * Each side keeps the other's index as it last read it, and reads it again only when that is not
 * enough.
 *
 * Whether the other side sleeps is told by a flag of its own (Dekker): a waiter sets its flag, then
 * looks at the index; a publisher stores the index, then looks at the flag; with a full fence
 * between the two steps on both sides at least one sees the other. A full fence waits for all
 * stores before it, a core-to-core transfer and more, so it is not paid for each batch:
 * publications by batch look at the flag without one (a look that may be too early), and
 * taut_ring_flush(), which ends each burst by contract, looks behind one.
 */
#include "queue/ring.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/fence.h"
#include "base/options.h"
#include "base/process.h"

/* Empty looks in a row after which the consumer fetches the slot's line together with the index:
 * not while it keeps up with a stream. bench/records/2026-12-01-queue.md */
#define IDLE_LOOKS 8u

/* How far before it is written the producer asks for a slot's line: a transfer takes as long as the
 * writing of some eight lines. bench/records/2026-12-01-queue.md */
#define AHEAD_BYTES 512u

static int power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* --- making --------------------------------------------------------------------------------- */

static int batch_check(uint32_t *batch, uint32_t preset, uint32_t capacity, const char *name,
                       struct taut_err *err)
{
    if (*batch == 0)
        *batch = preset < capacity ? preset : capacity;
    if (!power_of_two(*batch) || *batch > capacity)
        return taut_err_set(err, TAUT_EINVAL, "%s %u: wants a power of two up to the capacity, %u",
                            name, *batch, capacity);
    return 0;
}

int taut__ring_options_check(const struct taut_ring_options *given,
                             struct taut_ring_options *in_effect, struct taut_err *err)
{
    static const struct taut__options_kind kind =
        TAUT__OPTIONS_KIND(struct taut_ring_options, space_event, item_bytes, "ring options");
    int code = taut__options_take(&kind, in_effect, given, err);
    if (code != 0)
        return code;
    given = in_effect;
    if (!power_of_two(given->capacity) || given->capacity > TAUT_RING_CAPACITY_MAX)
        return taut_err_set(err, TAUT_EINVAL, "capacity %u: wants a power of two up to %u",
                            given->capacity, TAUT_RING_CAPACITY_MAX);
    if (given->item_bytes == 0 || given->item_bytes > TAUT_RING_ITEM_BYTES_MAX)
        return taut_err_set(err, TAUT_EINVAL, "item_bytes %u: wants 1 to %u", given->item_bytes,
                            TAUT_RING_ITEM_BYTES_MAX);
    if (given->reserved != 0)
        return taut_err_set(err, TAUT_EINVAL, "ring options: reserved is not 0");
    if (given->event && given->event == given->space_event)
        return taut_err_set(err, TAUT_EINVAL, "one event cannot tell of items and of space");
    code = batch_check(&in_effect->publish_batch, TAUT_RING_BATCH, given->capacity, "publish_batch",
                       err);
    if (code == 0)
        code = batch_check(&in_effect->release_batch, in_effect->publish_batch, given->capacity,
                           "release_batch", err);
    return code;
}

/* Capacity and item_bytes are bounded so that this fits 64 bits. */
static uint64_t slot_bytes(const struct taut_ring_options *options)
{
    uint64_t bytes = (uint64_t)options->capacity * options->item_bytes;
    return (bytes + TAUT_LINE_BYTES - 1) / TAUT_LINE_BYTES * TAUT_LINE_BYTES;
}

size_t taut_ring_footprint(const struct taut_ring_options *options)
{
    struct taut_ring_options in_effect = {0};
    if (taut__ring_options_check(options, &in_effect, NULL) != 0)
        return 0;
    return (size_t)slot_bytes(&in_effect);
}

static int aligned(const void *memory)
{
    return ((uintptr_t)memory & (TAUT_LINE_BYTES - 1)) == 0;
}

static void side_init(struct taut__ring_side *side, const struct taut_ring_options *options,
                      uint32_t batch, uint8_t *slots, uint64_t start)
{
    memset(side, 0, sizeof *side);
    side->index = start;
    side->other = start;
    side->told = start;
    side->limit = options->capacity;
    side->mask = options->capacity - 1;
    side->slots = slots;
    side->item_bytes = options->item_bytes;
    side->batch = batch;
    side->looked = 1;
    side->ahead = AHEAD_BYTES / options->item_bytes + 1;
}

int taut__ring_init_at(struct taut_ring *ring, const struct taut_ring_options *options,
                       void *memory, size_t length, uint64_t start, struct taut_err *err)
{
    struct taut_ring_options in_effect = {0};
    if (!ring || !aligned(ring))
        return taut_err_set(err, TAUT_EINVAL, "ring: NULL, or not aligned to %d", TAUT_LINE_BYTES);
    int code = taut__ring_options_check(options, &in_effect, err);
    if (code != 0)
        return code;
    if (!memory || !aligned(memory))
        return taut_err_set(err, TAUT_EINVAL, "memory: NULL, or not aligned to %d",
                            TAUT_LINE_BYTES);
    if (length < slot_bytes(&in_effect))
        return taut_err_set(err, TAUT_ENOMEM, "%zu bytes, and the slots take %llu", length,
                            (unsigned long long)slot_bytes(&in_effect));
    memset(ring, 0, sizeof *ring);
    side_init(&ring->producer, &in_effect, in_effect.publish_batch, memory, start);
    side_init(&ring->consumer, &in_effect, in_effect.release_batch, memory, start);
    atomic_init(&ring->tail, start);
    atomic_init(&ring->echo_at, start - 1);
    atomic_init(&ring->head, start);
    ring->event = in_effect.event;
    ring->space_event = in_effect.space_event;
    ring->start = start;
    ring->generation = taut__process_generation_enter();
    ring->magic = TAUT__RING_MAGIC;
    return 0;
}

int taut_ring_init(struct taut_ring *ring, const struct taut_ring_options *options, void *memory,
                   size_t length, struct taut_err *err)
{
    return taut__ring_init_at(ring, options, memory, length, 0, err);
}

int taut_ring_create(struct taut_ring **ring, const struct taut_ring_options *options,
                     struct taut_err *err)
{
    struct taut_ring_options in_effect = {0};
    if (!ring)
        return taut_err_set(err, TAUT_EINVAL, "ring: NULL");
    *ring = NULL;
    int code = taut__ring_options_check(options, &in_effect, err);
    if (code != 0)
        return code;
    uint64_t bytes = sizeof **ring + slot_bytes(&in_effect);
    uint8_t *memory = bytes <= SIZE_MAX ? aligned_alloc(TAUT_LINE_BYTES, (size_t)bytes) : NULL;
    if (!memory)
        return taut_err_set(err, TAUT_ENOMEM, "no %llu bytes for a ring",
                            (unsigned long long)bytes);
    struct taut_ring *made = (struct taut_ring *)(void *)memory;
    code = taut_ring_init(made, options, memory + sizeof *made, (size_t)bytes - sizeof *made, err);
    TAUT_CHECK(code == 0);
    made->memory = memory;
    *ring = made;
    return 0;
}

int taut_ring_destroy(struct taut_ring *ring)
{
    if (!ring)
        return 0;
    if (ring->magic != TAUT__RING_MAGIC || !ring->memory)
        return TAUT_EINVAL;
    /* pairs with the end of taut__queue_wait(): who is out of it touches nothing any more */
    if (ring->generation == taut__process_generation() &&
        (atomic_load_explicit(&ring->consumer.in_wait, memory_order_acquire) ||
         atomic_load_explicit(&ring->producer.in_wait, memory_order_acquire)))
        return TAUT_EBUSY;
    ring->magic = 0;
    free(ring->memory);
    return 0;
}

/* --- counters and owners -------------------------------------------------------------------- */

/* Counters have one writer and are read by anybody: a load and a store, both relaxed. */
static void count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void owned(struct taut__ring_side *side)
{
    int32_t self = taut__tid();
    if (__builtin_expect(side->owner_tid == self, 1))
        return;
    if (side->owner_tid == 0) {
        side->owner_tid = self;
        return;
    }
    fprintf(stderr, "taut ring: thread %d uses a side that belongs to thread %d\n", (int)self,
            (int)side->owner_tid);
    TAUT_CHECK(side->owner_tid == self);
}

#ifdef NDEBUG
#define OWNED(side) ((void)0)
#else
#define OWNED(side) owned(side)
#endif

void taut__ring_check(struct taut__ring_side *side, int fits)
{
    owned(side);
    TAUT_CHECK(fits); /* commits what was reserved, releases what was peeked, and no more */
}

/* --- producer ------------------------------------------------------------------------------- */

static void wake_consumer(struct taut_ring *ring)
{
    /* Cleared before the event moves: a consumer that then waits again sets it anew, and that store
     * comes after this one, because it has seen the event move. */
    atomic_store_explicit(&ring->consumer_waits, 0, memory_order_relaxed);
    count(&ring->producer.wakes);
    taut_event_publish(ring->event);
}

void taut__ring_look(struct taut_ring *ring)
{
    if (__builtin_expect(atomic_load_explicit(&ring->consumer_waits, memory_order_relaxed), 0))
        wake_consumer(ring);
}

/* Most slots in use at a publication. The head that is known may be old, which makes the number too
 * large; so before a new maximum is believed, the head is read again. Rare: it is the publication's
 * other end, so that the common one keeps no register for it. */
static __attribute__((noinline)) void note_high_water(struct taut_ring *ring, uint64_t high)
{
    struct taut__ring_side *side = &ring->producer;
    side->other =
        atomic_load_explicit(&ring->head, memory_order_acquire); /* taut__ring_give_back */
    if (side->index - side->other > high)
        atomic_store_explicit(&side->high_water, side->index - side->other, memory_order_relaxed);
    taut__ring_look(ring);
}

static void *slot(const struct taut__ring_side *side, uint64_t index)
{
    return side->slots + (size_t)(index & side->mask) * side->item_bytes;
}

/* The line of a slot that will be written soon is in the consumer's cache, and stores wait for it
 * in order: so it is asked for early, if the consumer has no use for it any more. */
static inline void ask_for_line(const struct taut__ring_side *side, uint64_t index, uint64_t used)
{
    if (used + side->ahead >= side->limit)
        return;
    index += side->ahead;
#if defined(__x86_64__)
    /* Not __builtin_prefetch(): without -mprfchw that asks for a copy to read. Where the CPU does
     * not know the instruction it is none. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)slot(side, index)));
#else
    __builtin_prefetch(slot(side, index), 1);
#endif
}

/* Before the tail: see taut__ring_pop_u64(). */
static void tell_alone(struct taut_ring *ring)
{
    const struct taut__ring_side *side = &ring->producer;
    uint64_t value, at = side->index - 1;
    memcpy(&value, slot(side, at), sizeof value);
    atomic_store_explicit(&ring->echo_at, at, memory_order_relaxed);
    /* pairs with taut__ring_pop_u64(): who reads it reads no older echo_at */
    atomic_store_explicit(&ring->echo, value, memory_order_release);
}

void taut__ring_publish(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->producer;
    OWNED(side);
    /* Read once: the compiler may not keep them over the stores to atomics. */
    uint64_t index = side->index, used = index - side->other;
    TAUT_CHECK(used <= side->limit); /* which is 0 once it is closed */
    if (index - side->told == 1 && side->item_bytes == sizeof(uint64_t))
        tell_alone(ring);
    side->told = index;
    if (side->looked) /* a store less in a stream: stores wait in line behind that of the tail */
        side->looked = 0;
    /* pairs with the load in taut__ring_more_items(): the slots were written before */
    atomic_store_explicit(&ring->tail, index, memory_order_release);
    count(&side->publications);
    ask_for_line(side, index, used);
    uint64_t high = atomic_load_explicit(&side->high_water, memory_order_relaxed);
    if (__builtin_expect(used > high, 0))
        note_high_water(ring, high);
    else
        taut__ring_look(ring); /* without a fence, so perhaps too early; a flush looks again */
}

int taut__ring_flush_begin(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->producer;
    OWNED(side);
    if (side->index != side->told)
        taut__ring_publish(ring);
    int look = ring->event && !side->looked;
    side->looked = 1;
    return look;
}

void taut_ring_flush(struct taut_ring *ring)
{
    if (!taut__ring_flush_begin(ring))
        return;
    /* Dekker with taut_ring_wait_items(): tail, fence, flag here; flag, fence, tail there */
    taut__full_fence();
    taut__ring_look(ring);
}

uint64_t taut__ring_more_space(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->producer;
    OWNED(side);
    if (side->limit == 0)
        return 0;
    side->other =
        atomic_load_explicit(&ring->head, memory_order_acquire); /* taut__ring_give_back */
    uint64_t room = side->limit - (side->index - side->other);
    if (room == 0) {
        /* Nothing more comes until the consumer has seen these, so no batch is waited for. */
        taut_ring_flush(ring);
        count(&side->misses);
    }
    return room;
}

void taut_ring_close(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->producer;
    OWNED(side);
    if (side->limit == 0)
        return;
    if (side->index != side->told)
        taut__ring_publish(ring);
    side->limit = 0;
    /* pairs with taut_ring_closed(): who sees it sees the last tail */
    atomic_store_explicit(&ring->closed, 1, memory_order_release);
    /* Dekker with taut_ring_wait_items(): closed, fence, flag here; flag, fence, closed there */
    taut__full_fence();
    side->looked = 1;
    taut__ring_look(ring);
}

/* --- consumer ------------------------------------------------------------------------------- */

static void wake_producer(struct taut_ring *ring)
{
    atomic_store_explicit(&ring->producer_waits, 0, memory_order_relaxed); /* as wake_consumer() */
    count(&ring->consumer.wakes);
    taut_event_publish(ring->space_event);
}

void taut__ring_give_back(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->consumer;
    OWNED(side);
    uint64_t index = side->index;
    TAUT_CHECK(side->other - index <= side->mask + 1); /* never more than was there */
    side->told = index;
    if (side->looked)
        side->looked = 0;
    /* pairs with the loads of head in the producer's half: the slots were read before */
    atomic_store_explicit(&ring->head, index, memory_order_release);
    count(&side->publications);
    if (__builtin_expect(atomic_load_explicit(&ring->producer_waits, memory_order_relaxed), 0))
        wake_producer(ring);
}

void taut_ring_flush_released(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->consumer;
    OWNED(side);
    if (side->index != side->told)
        taut__ring_give_back(ring);
    if (!ring->space_event || side->looked)
        return;
    side->looked = 1;
    /* Dekker with taut_ring_wait_space(): head, fence, flag here; flag, fence, head there */
    taut__full_fence();
    if (atomic_load_explicit(&ring->producer_waits, memory_order_relaxed))
        wake_producer(ring);
}

uint64_t taut__ring_more_items(struct taut_ring *ring)
{
    struct taut__ring_side *side = &ring->consumer;
    OWNED(side);
    /* An isolated item costs two transfers between cores, of the index and then of its slot. While
     * nothing comes for a while, both are asked for at once. */
    if (side->idle >= IDLE_LOOKS)
        __builtin_prefetch(slot(side, side->index));
    uint64_t index = side->index;
    uint64_t tail =
        atomic_load_explicit(&ring->tail, memory_order_acquire); /* taut__ring_publish */
    side->other = tail;
    if (tail != index) {
        side->idle = 0;
        return tail - index;
    }
    side->idle += side->idle < IDLE_LOOKS;
    taut_ring_flush_released(ring);
    count(&side->misses);
    return 0;
}

int taut__ring_pop_u64(struct taut_ring *ring, uint64_t *value)
{
    struct taut__ring_side *side = &ring->consumer;
    OWNED(side);
    uint64_t tail =
        atomic_load_explicit(&ring->tail, memory_order_acquire); /* taut__ring_publish */
    if (tail == side->index) {
        taut_ring_flush_released(ring);
        count(&side->misses);
        return 0;
    }
    side->other = tail;
    /*
     * The echo that is read belongs to this item or to a later one, since it was stored before this
     * tail; and echo_at, read after it, to that one or a later. So where echo_at is this item's,
     * the echo is.
     */
    uint64_t echo = atomic_load_explicit(&ring->echo, memory_order_acquire); /* tell_alone */
    if (atomic_load_explicit(&ring->echo_at, memory_order_relaxed) == side->index)
        *value = echo;
    else
        memcpy(value, slot(side, side->index), sizeof *value);
    taut_ring_release_n(ring, 1);
    return 1;
}

int taut_ring_closed(struct taut_ring *ring)
{
    if (!atomic_load_explicit(&ring->closed, memory_order_acquire)) /* taut_ring_close */
        return 0;
    /* The tail is the last one now: closed was stored behind it. */
    return atomic_load_explicit(&ring->tail, memory_order_acquire) == ring->consumer.index;
}

/* --- reading -------------------------------------------------------------------------------- */

int taut__ring_has_items(struct taut_ring *ring)
{
    return atomic_load_explicit(&ring->tail, memory_order_acquire) != ring->consumer.index ||
           atomic_load_explicit(&ring->closed, memory_order_acquire); /* taut_ring_close */
}

int taut__ring_has_space(struct taut_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire); /* give_back */
    return ring->producer.index - head <= ring->producer.mask;
}

static uint64_t reading(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void taut_ring_stats(const struct taut_ring *ring, struct taut_ring_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    /* Acquire: the tail is read after it, so that no more was popped than pushed. */
    stats->popped = atomic_load_explicit(&ring->head, memory_order_acquire) - ring->start;
    stats->pushed = reading(&ring->tail) - ring->start;
    stats->publications = reading(&ring->producer.publications);
    stats->releases = reading(&ring->consumer.publications);
    stats->full_hits = reading(&ring->producer.misses);
    stats->empty_hits = reading(&ring->consumer.misses);
    stats->high_water = reading(&ring->producer.high_water);
    stats->wakes = reading(&ring->producer.wakes);
    stats->space_wakes = reading(&ring->consumer.wakes);
    stats->capacity = (uint32_t)(ring->producer.mask + 1);
    stats->item_bytes = ring->producer.item_bytes;
    stats->publish_batch = ring->producer.batch;
    stats->release_batch = ring->consumer.batch;
    stats->closed = atomic_load_explicit(&ring->closed, memory_order_relaxed);
}
