/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One arm a queue: how 8-byte items go through it, one by one or in its best bulk form. An arm's
 * two loops are its own functions, so that whatever the queue offers inline is inlined.
 *
 * bare wait: both sides of an arm spin, so that the queue is what is measured.
 */
#ifndef BENCH_QUEUE_ARMS_H
#define BENCH_QUEUE_ARMS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_CAPACITY 1024u
#define BENCH_BULK     8u

struct arm {
    const char *name;
    const char *form; /* "single" or "bulk" */
    const char *package;
    uint64_t items; /* a round: slow queues get fewer */
    int (*open)(void);
    void (*produce)(uint64_t items);     /* 1, 2, 3, ... */
    uint64_t (*consume)(uint64_t items); /* their sum */
    void (*close)(void);
};

/* Each list ends with a NULL name. A package that was not there when this was built: an empty list.
 */
extern const struct arm taut_arms[], ck_arms[], dpdk_arms[], boost_arms[], tbb_arms[];

static inline void bench_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* What every bulk form does with its items, a full bulk by a loop of known length: where an arm
 * does not know the length before, it is not to pay for that here. */
static inline void bench_fill(uint64_t *values, size_t count, uint64_t before)
{
    if (count == BENCH_BULK) {
        for (unsigned k = 0; k < BENCH_BULK; k++)
            values[k] = before + k + 1;
        return;
    }
    for (size_t k = 0; k < count; k++)
        values[k] = before + k + 1;
}

static inline uint64_t bench_sum(const uint64_t *values, size_t count)
{
    uint64_t sum = 0;
    if (count == BENCH_BULK) {
        for (unsigned k = 0; k < BENCH_BULK; k++)
            sum += values[k];
        return sum;
    }
    for (size_t k = 0; k < count; k++)
        sum += values[k];
    return sum;
}

#ifdef __cplusplus
}
#endif
#endif
