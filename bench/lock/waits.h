/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/lock/waits.h - one thread's waits: a histogram of all, each long one, and what the kernel's
 * scheduling did that can explain it.
 *
 * While somebody waits, the lock is either held or between two holders. So a wait is made of parts
 * that do not overlap, and scheduling explains these of them:
 * - a hold that took longer than its work by 100 us: its thread had lost its CPU. From when the
 *   work alone would have been done;
 * - a time between two holders (a gap) of 100 us and more: until the one before had come out of its
 *   release, if that took 100 us (it had lost its CPU on the way); and of the rest, what
 *   somebody who stood ahead of this wait was runnable and not on a CPU. He got the lock at the end
 *   of the gap or later, but not after this wait did; and he had come before it, or may have;
 * - what the waiter itself was runnable and not on a CPU, wherever that was.
 * Who came later and was served later explains nothing.
 *
 * Runnable time is run_delay of /proc/thread-self/schedstat: an amount in a wait, and not an
 * interval. So there are two sums. What is explained at least: of an amount, what cannot lie in the
 * rest of its wait; the greatest of those that may be the same time; and nothing of who came
 * later, by the clock that each reads before it queues. It is never more than is true, and a wait
 * that it leaves more than 1 ms of is unexplained. What is explained at most: each amount where it
 * explains what nothing else does. A wait that even this leaves more than 1 ms of is certainly
 * unexplained; of the other unexplained ones it can't be told.
 *
 * What a hypervisor takes is in no run_delay: where it stole time, nothing is certain.
 *
 * The amount is counted from the last reading, which is renewed before a wait where it is 0.5 ms
 * old, or a wait, a hold, a release, or the time since took 100 us. A reading that fails explains
 * nothing, and is counted.
 */
#ifndef TAUT_BENCH_LOCK_WAITS_H
#define TAUT_BENCH_LOCK_WAITS_H

#include <stdint.h>

#include <taut/clock.h>

#define WAIT_LONG_NS     TAUT_NS_PER_MS
#define LATE_NS          (100 * TAUT_NS_PER_US)
#define BASELINE_AGE_NS  (500 * TAUT_NS_PER_US)
#define WAITS_EVENTS_MAX 65536
#define WAITS_BUCKETS    1024 /* 16 to a doubling: 6 % wide */

struct span {
    uint64_t begin_ns, end_ns;
    /* of a wait, or of a gap its next holder's: when that had begun to wait, and for how long it
     * was runnable and not on a CPU until end_ns */
    uint64_t since_ns, delay_ns;
};

/* In the order of time; none overlaps another of its list. */
struct spans {
    struct span span[WAITS_EVENTS_MAX];
    uint32_t count;
};

struct waits {
    uint64_t count, max_ns;
    uint64_t dropped;    /* events that did not fit: the explanation is incomplete */
    uint64_t unreadable; /* readings of run_delay that failed */
    uint64_t bucket[WAITS_BUCKETS];
    struct spans longs;         /* waits of WAIT_LONG_NS and more */
    struct spans gaps;          /* before this thread's holds */
    struct spans late_holds;    /* from when the work alone would have been done */
    struct spans late_releases; /* from the end of the work to the return of the release */
    int schedstat;
    int stale; /* the last reading is not fit for another wait */
    uint64_t delay_ns, delay_at_ns;
    uint64_t out_ns; /* return of the last release; 0: none yet */
};

struct explained {
    uint64_t over_1ms, over_2ms;
    uint64_t unexplained_2ms;     /* of over_2ms: more than 1 ms is not sure to be explained */
    uint64_t certain_2ms;         /* of unexplained_2ms: more than 1 ms can't be explained */
    uint64_t unexplained_most_ns; /* of one wait at most, what is not sure to be explained */
};

/* For the calling thread; `schedstat` is the path of its run_delay. 0, or -1: it can't be read. */
int waits_open(struct waits *waits, const char *schedstat);

/* Before each wait. */
void waits_begin(struct waits *waits, uint64_t now_ns);

/* A wait that got the lock, which its last holder had been done with at free_ns; 0 = there was
 * none. Called while the lock is held. */
void waits_got(struct waits *waits, uint64_t begin_ns, uint64_t got_ns, uint64_t free_ns);

/* The hold that followed: its work wanted work_ns and was done at done_ns, the release had returned
 * at out_ns. */
void waits_out(struct waits *waits, uint64_t got_ns, uint64_t work_ns, uint64_t done_ns,
               uint64_t out_ns);

/* Histogram, maximum, and what was dropped and unreadable: not the single ones. */
void waits_merge(struct waits *all, const struct waits *one);

/* Upper edge of the bucket in which rank ceil(p * count) lies. */
uint64_t waits_quantile(const struct waits *waits, double p);

/* Adds the long waits of `one`, explained by what all threads did, itself among them. */
void waits_explain(const struct waits *one, const struct waits *const *all, uint32_t count,
                   struct explained *sums);

#endif
