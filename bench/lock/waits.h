/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/lock/waits.h - one thread's waits: a histogram of all, each long one with what the
 * scheduler did meanwhile, and the holds that took too long.
 */
#ifndef TAUT_BENCH_LOCK_WAITS_H
#define TAUT_BENCH_LOCK_WAITS_H

#include <stdint.h>

#include <taut/clock.h>

#define WAIT_LONG_NS     TAUT_NS_PER_MS
#define HOLD_LATE_NS     (100 * TAUT_NS_PER_US)
#define BASELINE_AGE_NS  (500 * TAUT_NS_PER_US)
#define WAITS_EVENTS_MAX 65536
#define WAITS_BUCKETS    1024 /* 16 to a doubling: 6 % wide */

struct span {
    uint64_t begin_ns, end_ns;
    uint64_t delay_ns; /* of it, runnable and not on a CPU */
};

struct waits {
    uint64_t count, max_ns, dropped;
    uint64_t bucket[WAITS_BUCKETS];
    struct span longs[WAITS_EVENTS_MAX];      /* waits above WAIT_LONG_NS */
    struct span late_holds[WAITS_EVENTS_MAX]; /* what holds took too long */
    uint32_t long_count, late_count;
    int schedstat;
    uint64_t delay_ns, delay_at_ns; /* the last reading of run_delay */
};

struct explained {
    uint64_t over_1ms, over_2ms;
    uint64_t unexplained_2ms;     /* of over_2ms */
    uint64_t unexplained_most_ns; /* what is left of one wait at most */
};

/* For the calling thread. 0, or -1: the kernel tells no run_delay. */
int waits_open(struct waits *waits);

void waits_add(struct waits *waits, uint64_t begin_ns, uint64_t end_ns);
void waits_hold_late(struct waits *waits, uint64_t begin_ns, uint64_t end_ns);

/* Histogram, maximum and what was dropped: not the single ones. */
void waits_merge(struct waits *all, const struct waits *one);

/* Upper edge of the bucket in which rank ceil(p * count) lies. */
uint64_t waits_quantile(const struct waits *waits, double p);

/* Adds the long waits of one thread, explained by its own delays and those of the others. */
void waits_explain(const struct waits *one, const struct waits *const *others, uint32_t count,
                   struct explained *sums);

#endif
