/* SPDX-License-Identifier: BSD-2-Clause */
/* Boost.Lockfree's spsc_queue, by 1 and by 8.
 * bare wait: both sides of an arm spin, so that the queue is what is measured. */
#include "arms.h"

#ifdef HAVE_BOOST
#include <boost/lockfree/spsc_queue.hpp>

using queue_type = boost::lockfree::spsc_queue<uint64_t>;

static queue_type *queue;

static int open_queue()
{
    queue = new queue_type(BENCH_CAPACITY);
    return 0;
}

static void close_queue()
{
    delete queue;
}

static void produce(uint64_t items)
{
    for (uint64_t i = 1; i <= items; i++) {
        while (!queue->push(i))
            bench_pause();
    }
}

static uint64_t consume(uint64_t items)
{
    uint64_t sum = 0, value;
    for (uint64_t i = 0; i < items; i++) {
        while (!queue->pop(value))
            bench_pause();
        sum += value;
    }
    return sum;
}

static void produce_bulk(uint64_t items)
{
    uint64_t values[BENCH_BULK];
    for (uint64_t i = 0; i < items; i += BENCH_BULK) {
        bench_fill(values, BENCH_BULK, i);
        for (size_t done = 0; done < BENCH_BULK;) {
            size_t pushed = queue->push(values + done, BENCH_BULK - done);
            if (pushed == 0)
                bench_pause();
            done += pushed;
        }
    }
}

static uint64_t consume_bulk(uint64_t items)
{
    uint64_t sum = 0, values[BENCH_BULK];
    for (uint64_t i = 0; i < items;) {
        size_t got = queue->pop(values, BENCH_BULK);
        if (got == 0)
            bench_pause();
        sum += bench_sum(values, got);
        i += got;
    }
    return sum;
}

extern "C" const struct arm boost_arms[] = {
    {"boost spsc_queue", "single", "libboost-dev", 400000, open_queue, produce, consume,
     close_queue},
    {"boost spsc_queue", "bulk", "libboost-dev", 1000000, open_queue, produce_bulk, consume_bulk,
     close_queue},
    {},
};
#else
extern "C" const struct arm boost_arms[] = {{}};
#endif
