/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One arm a queue: how 8-byte items go through it, one by one or in its best bulk form. An arm's
 * two loops are its own functions, so that whatever the queue offers inline is inlined.
 *
 * bare wait: both sides of an arm spin, so that the queue is what is measured.
 */
#ifndef BENCH_QUEUE_ARMS_H
#define BENCH_QUEUE_ARMS_H

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

#ifdef __cplusplus
}
#endif
#endif
