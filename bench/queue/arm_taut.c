/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring: item by item, published by 8; and 8 places at a time. Neither has an event: nobody
 * sleeps.
 * bare wait: both sides of an arm spin, so that the queue is what is measured. */
#include "arms.h"

#include <stdlib.h>
#include <string.h>

#include <taut/queue.h>

static struct taut_ring *ring;

static int open_with(uint32_t batch)
{
    const struct taut_ring_options options = {.size = sizeof options,
                                              .capacity = BENCH_CAPACITY,
                                              .item_bytes = sizeof(uint64_t),
                                              .publish_batch = batch};
    return taut_ring_create(&ring, &options, NULL);
}

static int open_ring(void)
{
    return open_with(0);
}

/* As the queues that tell of every item. */
static int open_each(void)
{
    return open_with(1);
}

static void close_ring(void)
{
    taut_ring_destroy(ring);
}

static void produce(uint64_t items)
{
    for (uint64_t i = 1; i <= items; i++) {
        while (!taut_ring_push_u64(ring, i))
            bench_pause();
    }
    taut_ring_flush(ring);
}

static uint64_t consume(uint64_t items)
{
    uint64_t sum = 0, value;
    for (uint64_t i = 0; i < items; i++) {
        while (!taut_ring_pop_u64(ring, &value))
            bench_pause();
        sum += value;
    }
    taut_ring_flush_released(ring);
    return sum;
}

static void produce_bulk(uint64_t items)
{
    for (uint64_t i = 0; i < items;) {
        uint32_t got, want = items - i < BENCH_BULK ? (uint32_t)(items - i) : BENCH_BULK;
        uint64_t *slots = taut_ring_reserve_n(ring, want, &got);
        if (!slots) {
            bench_pause();
            continue;
        }
        bench_fill(slots, got, i);
        i += got;
        taut_ring_commit_n(ring, got);
    }
    taut_ring_flush(ring);
}

static uint64_t consume_bulk(uint64_t items)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < items;) {
        uint32_t got;
        const uint64_t *slots = taut_ring_peek_n(ring, BENCH_BULK, &got);
        if (!slots) {
            bench_pause();
            continue;
        }
        sum += bench_sum(slots, got);
        i += got;
        taut_ring_release_n(ring, got);
    }
    taut_ring_flush_released(ring);
    return sum;
}

const struct arm taut_arms[] = {
    {"taut_ring", "single", "", 1000000, open_ring, produce, consume, close_ring},
    {"taut_ring", "each", "", 400000, open_each, produce, consume, close_ring},
    {"taut_ring", "bulk", "", 1000000, open_ring, produce_bulk, consume_bulk, close_ring},
    {0},
};
