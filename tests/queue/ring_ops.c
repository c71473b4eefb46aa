/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/ring.h"

/* What a ring is: numbered items, those committed, published, taken and given back so far. */
struct reference {
    uint64_t committed, published, taken, given;
    uint64_t capacity, publish_batch, release_batch;
    uint64_t full_hits, empty_hits, publications, releases, high_water;
    int closed;
};

struct rig {
    struct taut_ring ring;
    struct reference is;
    uint32_t item_bytes;
    uint64_t start;
    char wrong[160];
};

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            snprintf(rig->wrong, sizeof rig->wrong, "%s:%d: %s", __FILE__, __LINE__, #condition);  \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)

/* Byte k of item n. */
static uint8_t content(uint64_t n, uint32_t k)
{
    return (uint8_t)((n * UINT64_C(0x9e3779b97f4a7c15) >> (k % 8 * 8)) + k);
}

static void publish(struct rig *rig)
{
    struct reference *is = &rig->is;
    if (is->published == is->committed)
        return;
    is->published = is->committed;
    is->publications++;
    if (is->published - is->given > is->high_water)
        is->high_water = is->published - is->given;
}

static void give_back(struct rig *rig)
{
    struct reference *is = &rig->is;
    if (is->given == is->taken)
        return;
    is->given = is->taken;
    is->releases++;
}

/* Batches end at multiples of the batch, counted as the indices are. */
static int passes(uint64_t start, uint64_t before, uint64_t after, uint64_t batch)
{
    return (start + before) / batch != (start + after) / batch || after - before >= batch;
}

static int put(struct rig *rig, uint32_t want)
{
    struct reference *is = &rig->is;
    uint32_t got = 1;
    uint8_t *slots =
        want == 0 ? taut_ring_reserve(&rig->ring) : taut_ring_reserve_n(&rig->ring, want, &got);
    uint64_t room = is->closed ? 0 : is->capacity - (is->committed - is->given);
    if (room == 0) {
        MUST(slots == NULL);
        if (!is->closed)
            is->full_hits++;
        if (!is->closed)
            publish(rig);
        return 1;
    }
    MUST(slots != NULL);
    uint64_t at = (rig->start + is->committed) % is->capacity, count = want == 0 ? 1 : want;
    if (count > room)
        count = room;
    if (count > is->capacity - at)
        count = is->capacity - at;
    MUST(got == count);
    for (uint32_t i = 0; i < got; i++) {
        for (uint32_t k = 0; k < rig->item_bytes; k++)
            slots[i * rig->item_bytes + k] = content(is->committed + i, k);
    }
    uint64_t before = is->committed;
    is->committed += got;
    if (passes(rig->start, before, is->committed, is->publish_batch))
        publish(rig);
    if (want == 0)
        taut_ring_commit(&rig->ring);
    else
        taut_ring_commit_n(&rig->ring, got);
    return 1;
}

static int get(struct rig *rig, uint32_t want, int release)
{
    struct reference *is = &rig->is;
    uint32_t got = 1;
    /* What the consumer knows may be older than what is published, but never less than it needs. */
    const uint8_t *slots =
        want == 0 ? taut_ring_peek(&rig->ring) : taut_ring_peek_n(&rig->ring, want, &got);
    uint64_t there = is->published - is->taken;
    if (there == 0) {
        MUST(slots == NULL);
        is->empty_hits++;
        give_back(rig);
        return 1;
    }
    MUST(slots != NULL);
    uint64_t at = (rig->start + is->taken) % is->capacity, count = want == 0 ? 1 : want;
    if (count > there)
        count = there;
    if (count > is->capacity - at)
        count = is->capacity - at;
    MUST(got == count);
    for (uint32_t i = 0; i < got; i++) {
        for (uint32_t k = 0; k < rig->item_bytes; k++)
            MUST(slots[i * rig->item_bytes + k] == content(is->taken + i, k));
    }
    if (!release)
        return 1;
    uint64_t before = is->taken;
    is->taken += got;
    if (passes(rig->start, before, is->taken, is->release_batch))
        give_back(rig);
    if (want == 0)
        taut_ring_release(&rig->ring);
    else
        taut_ring_release_n(&rig->ring, got);
    return 1;
}

/* Item n of a ring of 8-byte items, as one number. */
static uint64_t whole(uint64_t n)
{
    uint8_t bytes[8];
    uint64_t value;
    for (uint32_t k = 0; k < 8; k++)
        bytes[k] = content(n, k);
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* The same by the functions for 8-byte items. */
static int put_u64(struct rig *rig)
{
    struct reference *is = &rig->is;
    uint64_t room = is->closed ? 0 : is->capacity - (is->committed - is->given);
    uint64_t before = is->committed;
    MUST(taut_ring_push_u64(&rig->ring, whole(is->committed)) == (room > 0));
    if (room == 0) {
        is->full_hits += !is->closed;
        if (!is->closed)
            publish(rig);
        return 1;
    }
    is->committed++;
    if (passes(rig->start, before, is->committed, is->publish_batch))
        publish(rig);
    return 1;
}

static int get_u64(struct rig *rig)
{
    struct reference *is = &rig->is;
    uint64_t value, before = is->taken;
    int got = taut_ring_pop_u64(&rig->ring, &value);
    MUST(got == (is->published != is->taken));
    if (!got) {
        is->empty_hits++;
        give_back(rig);
        return 1;
    }
    MUST(value == whole(is->taken));
    is->taken++;
    if (passes(rig->start, before, is->taken, is->release_batch))
        give_back(rig);
    return 1;
}

static int compare(struct rig *rig)
{
    const struct reference *is = &rig->is;
    struct taut_ring_stats stats;
    taut_ring_stats(&rig->ring, &stats);
    MUST(stats.pushed == is->published);
    MUST(stats.popped == is->given);
    MUST(stats.publications == is->publications);
    MUST(stats.releases == is->releases);
    MUST(stats.full_hits == is->full_hits);
    MUST(stats.empty_hits == is->empty_hits);
    MUST(stats.high_water == is->high_water);
    MUST(stats.closed == (uint32_t)is->closed);
    MUST(stats.capacity == is->capacity);
    MUST(taut_ring_closed(&rig->ring) == (is->closed && is->taken == is->published));
    return 1;
}

static int step(struct rig *rig, uint8_t byte)
{
    uint32_t many = 1 + (uint32_t)(byte >> 3);
    switch (byte & 7) {
    case 0:
        return rig->item_bytes == 8 && (byte & 8) ? put_u64(rig) : put(rig, 0);
    case 1:
        return put(rig, many);
    case 2:
        return rig->item_bytes == 8 && (byte & 8) ? get_u64(rig) : get(rig, 0, 1);
    case 3:
        return get(rig, many, 1);
    case 4:
        return get(rig, many, 0);
    case 5:
        taut_ring_flush(&rig->ring);
        publish(rig);
        return 1;
    case 6:
        taut_ring_flush_released(&rig->ring);
        give_back(rig);
        return 1;
    default:
        if (byte != 0xff)
            return put(rig, 0) && get(rig, many, 1);
        taut_ring_close(&rig->ring);
        if (!rig->is.closed)
            publish(rig);
        rig->is.closed = 1;
        return 1;
    }
}

static int drive(struct rig *rig, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!step(rig, bytes[i]) || !compare(rig))
            return 0;
    }
    /* Nothing is held back at the end. */
    taut_ring_close(&rig->ring);
    if (!rig->is.closed)
        publish(rig);
    rig->is.closed = 1;
    while (rig->is.taken < rig->is.committed) {
        if (!get(rig, 5, 1))
            return 0;
    }
    return get(rig, 0, 1) && compare(rig);
}

const char *ring_ops_run(const uint8_t *bytes, size_t length)
{
    static _Thread_local char wrong[160];
    if (length < 4)
        return NULL;
    struct taut_ring_options options = {.size = sizeof options,
                                        .capacity = 1u << (bytes[0] % 8),
                                        .item_bytes = bytes[1] & 64 ? 8 : 1u + bytes[1] % 24,
                                        .publish_batch = 1u << (bytes[2] % 8),
                                        .release_batch = 1u << (bytes[2] / 16 % 8)};
    if (options.publish_batch > options.capacity)
        options.publish_batch = options.capacity;
    if (options.release_batch > options.capacity)
        options.release_batch = options.capacity;
    size_t bytes_needed = taut_ring_footprint(&options);
    struct rig *rig = aligned_alloc(TAUT_LINE_BYTES, (sizeof *rig + 127) / 128 * 128);
    void *memory = aligned_alloc(TAUT_LINE_BYTES, bytes_needed);
    if (!rig || !memory)
        abort();
    memset(rig, 0, sizeof *rig);
    rig->item_bytes = options.item_bytes;
    /* Half of the runs begin shortly before 2^64. */
    rig->start = bytes[3] & 1 ? UINT64_C(0) - (bytes[3] >> 1) : (uint64_t)(bytes[3] >> 1);
    rig->is = (struct reference){.capacity = options.capacity,
                                 .publish_batch = options.publish_batch,
                                 .release_batch = options.release_batch};
    wrong[0] = 0;
    if (taut__ring_init_at(&rig->ring, &options, memory, bytes_needed, rig->start, NULL) != 0)
        snprintf(wrong, sizeof wrong, "init");
    else if (!drive(rig, bytes + 4, length - 4))
        snprintf(wrong, sizeof wrong, "%s", rig->wrong);
    free(memory);
    free(rig);
    return wrong[0] ? wrong : NULL;
}
