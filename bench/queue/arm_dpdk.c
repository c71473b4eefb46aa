/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DPDK's rte_ring, single producer and single consumer, by 1 and by 8. On memory of ours and
 * without its environment layer: rte_ring_init() needs neither that nor huge pages.
 *
 * bare wait: both sides of an arm spin, so that the queue is what is measured.
 */
#include "arms.h"

#ifdef HAVE_DPDK
#include <stdlib.h>

#include <rte_ring.h>

static struct rte_ring *ring;

static int open_ring(void)
{
    ssize_t bytes = rte_ring_get_memsize(BENCH_CAPACITY);
    ring = bytes > 0 ? aligned_alloc(128, ((size_t)bytes + 127) / 128 * 128) : NULL;
    if (!ring)
        return -1;
    return rte_ring_init(ring, "bench", BENCH_CAPACITY, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

static void close_ring(void)
{
    free(ring);
}

static void produce(uint64_t items)
{
    for (uint64_t i = 1; i <= items; i++) {
        while (rte_ring_sp_enqueue(ring, (void *)(uintptr_t)i) != 0)
            bench_pause();
    }
}

static uint64_t consume(uint64_t items)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < items; i++) {
        void *value;
        while (rte_ring_sc_dequeue(ring, &value) != 0)
            bench_pause();
        sum += (uintptr_t)value;
    }
    return sum;
}

static void produce_bulk(uint64_t items)
{
    void *values[BENCH_BULK];
    for (uint64_t i = 0; i < items; i += BENCH_BULK) {
        for (unsigned k = 0; k < BENCH_BULK; k++)
            values[k] = (void *)(uintptr_t)(i + k + 1);
        while (rte_ring_sp_enqueue_bulk(ring, values, BENCH_BULK, NULL) == 0)
            bench_pause();
    }
}

static uint64_t consume_bulk(uint64_t items)
{
    uint64_t sum = 0;
    void *values[BENCH_BULK];
    for (uint64_t i = 0; i < items; i += BENCH_BULK) {
        while (rte_ring_sc_dequeue_bulk(ring, values, BENCH_BULK, NULL) == 0)
            bench_pause();
        for (unsigned k = 0; k < BENCH_BULK; k++)
            sum += (uintptr_t)values[k];
    }
    return sum;
}

const struct arm dpdk_arms[] = {
    {"rte_ring sp/sc", "single", "libdpdk-dev", 400000, open_ring, produce, consume, close_ring},
    {"rte_ring sp/sc", "bulk", "libdpdk-dev", 1000000, open_ring, produce_bulk, consume_bulk,
     close_ring},
    {0},
};
#else
const struct arm dpdk_arms[] = {{0}};
#endif
