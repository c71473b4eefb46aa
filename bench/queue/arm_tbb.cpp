/* SPDX-License-Identifier: BSD-2-Clause */
/* oneTBB's queues, which take any number of threads; they have no bulk form.
 * bare wait: both sides of an arm spin, so that the queue is what is measured. */
#include "arms.h"

#ifdef HAVE_TBB
#include <tbb/concurrent_queue.h>

static tbb::concurrent_bounded_queue<uint64_t> *bounded;
static tbb::concurrent_queue<uint64_t> *unbounded;

template <typename Queue> static inline uint64_t consume(Queue &queue, uint64_t items)
{
    uint64_t sum = 0, value;
    for (uint64_t i = 0; i < items; i++) {
        while (!queue.try_pop(value))
            bench_pause();
        sum += value;
    }
    return sum;
}

static int open_bounded()
{
    bounded = new tbb::concurrent_bounded_queue<uint64_t>;
    bounded->set_capacity(BENCH_CAPACITY);
    return 0;
}

static void close_bounded()
{
    delete bounded;
}

static void produce_bounded(uint64_t items)
{
    for (uint64_t i = 1; i <= items; i++) {
        while (!bounded->try_push(i))
            bench_pause();
    }
}

static uint64_t consume_bounded(uint64_t items)
{
    return consume(*bounded, items);
}

static int open_unbounded()
{
    unbounded = new tbb::concurrent_queue<uint64_t>;
    return 0;
}

static void close_unbounded()
{
    delete unbounded;
}

static void produce_unbounded(uint64_t items)
{
    for (uint64_t i = 1; i <= items; i++)
        unbounded->push(i);
}

static uint64_t consume_unbounded(uint64_t items)
{
    return consume(*unbounded, items);
}

extern "C" const struct arm tbb_arms[] = {
    {"tbb bounded_queue", "single", "libtbb-dev", 50000, open_bounded, produce_bounded,
     consume_bounded, close_bounded},
    {"tbb concurrent_queue", "single", "libtbb-dev", 50000, open_unbounded, produce_unbounded,
     consume_unbounded, close_unbounded},
    {},
};
#else
extern "C" const struct arm tbb_arms[] = {{}};
#endif
