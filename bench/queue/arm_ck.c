/* SPDX-License-Identifier: BSD-2-Clause */
/* Concurrency Kit's ring, one producer and one consumer; it has no bulk form.
 * bare wait: both sides of an arm spin, so that the queue is what is measured. */
#include "arms.h"

#ifdef HAVE_CK
#include <ck_ring.h>

static ck_ring_t ring;
static ck_ring_buffer_t buffer[BENCH_CAPACITY] __attribute__((aligned(128)));

static int open_ring(void)
{
    ck_ring_init(&ring, BENCH_CAPACITY);
    return 0;
}

static void close_ring(void)
{
}

static void produce(uint64_t items)
{
    for (uint64_t i = 1; i <= items; i++) {
        while (!ck_ring_enqueue_spsc(&ring, buffer, (void *)(uintptr_t)i))
            bench_pause();
    }
}

static uint64_t consume(uint64_t items)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < items; i++) {
        void *value;
        while (!ck_ring_dequeue_spsc(&ring, buffer, &value))
            bench_pause();
        sum += (uintptr_t)value;
    }
    return sum;
}

const struct arm ck_arms[] = {
    {"ck_ring spsc", "single", "libck-dev", 400000, open_ring, produce, consume, close_ring},
    {0},
};
#else
const struct arm ck_arms[] = {{0}};
#endif
