/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/lock.h - a lock whose waiters are not starved, and that says who won instead.
 *
 * A waiter that is woken only to compete again loses to whoever is already running: one send() of
 * the record behind this library slept 648 ms in such a lock and lost 29,463 times. Here waiters
 * queue, and a thread may overtake them (*barge*: cheap, it is running already) only while the
 * oldest of them has been overtaken fewer than `bypass_max` times (8) and has waited less than
 * `wait_max_ns` (200 us). Then the lock is kept for that waiter, whoever else comes; once it has
 * been served, barging is allowed again at once. Only the oldest waiter spins for the lock; the
 * others sleep.
 *
 * Two other policies exist for comparison: `barging` never keeps the lock for anybody (as the glibc
 * mutex), `fifo` always does.
 *
 * Every acquisition can return a report: how often it was bypassed, how often it was woken in vain,
 * whether the lock was kept for it, and which thread won last in the meantime. The lock keeps sums
 * and the worst case with the winner's thread id.
 *
 * taut_lock_or() is for a lock that is only a means: it tests at every turn whether the *reason*
 * for wanting the lock has gone (the pool has buffers again), and then leaves without the lock.
 *
 * Threads: any number, of one process. Blocking: taut_lock_acquire() and taut_lock_or() until their
 * deadlines. Allocation: none; waiters queue on their own stacks. Ownership: the caller's memory.
 * Not recursive. Not for signal handlers. Errors: codes of taut/err.h; expired and reason gone are
 * outcomes. Releasing a lock that the caller does not hold aborts.
 *
 * Caveats: the bound has a price. Where more wait than are served within it, the lock is kept for
 * almost each of them, and every such hand-off waits for a wake-up: on 2 CPUs 16 threads that do
 * nothing else get a third of the throughput of a mutex that starves them. A waiter keeps its place
 * by sleeping with a node on its stack; a thread must not be ended by pthread_cancel(3) within a
 * call. After fork(2) the child's copy refuses (TAUT_ESTATE). A raw exit(2) of one thread by system
 * call is not noticed by a robust lock; pthread_exit(3) and returning are.
 */
#ifndef TAUT_LOCK_H
#define TAUT_LOCK_H

#include <taut/wait.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAUT_LOCK_BYPASS_MAX  8u                     /* bypasses of the oldest waiter */
#define TAUT_LOCK_WAIT_MAX_NS (200 * TAUT_NS_PER_US) /* and how long it may be bypassed */

enum taut_lock_policy {
    TAUT_LOCK_BOUNDED = 0, /* barging within the two bounds, then kept for the oldest waiter */
    TAUT_LOCK_BARGING = 1, /* whoever finds it free takes it: no bound */
    TAUT_LOCK_FIFO = 2     /* always the oldest waiter: nobody overtakes */
};

/* How an attempt ended. */
enum taut_lock_outcome {
    TAUT_LOCK_ACQUIRED = 0,   /* the caller holds the lock */
    TAUT_LOCK_EXPIRED = 1,    /* the deadline passed; not held */
    TAUT_LOCK_GONE = 2,       /* taut_lock_or(): the reason has gone; not held */
    TAUT_LOCK_OWNER_DIED = 3, /* held, but the previous owner ended with it: what it guards may be
                                 half changed. Robust locks only */
    TAUT_LOCK_TAKEN = 4       /* taut_lock_try(): somebody holds it, or it is kept for a waiter */
};

struct taut_lock_options {
    uint32_t size;        /* sizeof(struct taut_lock_options); 0 = as in version 0.1 */
    uint32_t policy;      /* enum taut_lock_policy */
    uint32_t bypass_max;  /* BOUNDED: 0 = TAUT_LOCK_BYPASS_MAX; at most 200 */
    uint32_t robust;      /* 1: a thread that ends while it holds the lock is reported */
    uint64_t wait_max_ns; /* BOUNDED: 0 = TAUT_LOCK_WAIT_MAX_NS; TAUT_NEVER_NS = by count only */
    uint64_t spin_ns;     /* of the oldest waiter: 0 = TAUT_WINDOW_MIN_NS where it may spin;
                             TAUT_WAIT_NONE_NS = never; explicit budgets are obeyed on any machine */
};

/* What one acquisition, or attempt, cost and whom it lost to. */
struct taut_lock_report {
    uint32_t outcome;      /* enum taut_lock_outcome */
    uint32_t bypass_count; /* others that came later and got the lock first */
    uint32_t wakeups_lost; /* sleeps that ended with the lock taken by another */
    uint32_t kept;         /* 1: the lock was kept for this thread (a hand-off) */
    uint32_t queue_ahead;  /* waiters ahead of it when it came */
    uint32_t parks;        /* sleeps */
    uint32_t turns;        /* taut_lock_or(): tests of the reason after the first */
    /* 0 = nobody. Who was just acquiring the lock when this thread came or left without it may be
     * missing in both, or count as a winner though it had the lock before. */
    int32_t found_tid;       /* who held the lock when it came */
    int32_t last_winner_tid; /* who acquired it last while this thread waited */
    int32_t owner_gone;      /* at an expired deadline: 1 = the holder's thread no longer exists */
    uint64_t waited_ns;      /* 0 when it was free at once */
    uint64_t late_ns;        /* by how much the return is after the deadline; deadline 0: 0 */
};

/* Sums and worst cases since the lock was made. */
struct taut_lock_stats {
    uint64_t acquired, contended; /* contended: of acquired, those that queued */
    uint64_t barged;              /* acquisitions that overtook a waiter */
    uint64_t kept;                /* acquisitions of a waiter the lock was kept for */
    uint64_t expired, gone, owner_died;
    uint64_t parks, wakeups_lost, wake_calls; /* wake_calls: system calls of releasers */
    uint64_t bypass_most;                     /* of one waiter, acquired or not */
    uint64_t waited_most_ns;
    int32_t bypass_most_tid; /* the winner of the last of those bypasses */
    int32_t waited_most_tid; /* who held the lock last before the longest wait ended */
    int32_t owner_tid;       /* now; 0 = free */
    uint32_t waiters;        /* now */
};

struct taut_lock;

/* 0; TAUT_EINVAL: an option outside its range, NULL, or memory that is not aligned; TAUT_EAGAIN:
 * robust, and no key for thread-specific data is left to watch threads end. */
TAUT_API int taut_lock_init(struct taut_lock *lock, const struct taut_lock_options *options,
                            struct taut_err *err);

/*
 * 0; TAUT_EBUSY: held or waited for, nothing is changed. TAUT_EINVAL: NULL, never made, ended. Who
 * has acquired the lock last may destroy it right after its own release, even though those who
 * released it before have not returned yet. No other call may be under way: a waiter that gives up
 * (expired, gone) is no longer counted as one, and uses the lock until it has returned. A child of
 * fork(2) may end its copy whoever held it.
 */
TAUT_API int taut_lock_destroy(struct taut_lock *lock);

/*
 * Acquires the lock, waiting until deadline_ns at most (absolute CLOCK_MONOTONIC; a past time:
 * tries once; TAUT_NEVER_NS: no end). A lock that was kept for this thread at the moment its
 * deadline passed is acquired, or passed on to the next waiter: never lost. report may be NULL; a
 * refused call leaves it as it was.
 *
 * Returns TAUT_LOCK_ACQUIRED, TAUT_LOCK_EXPIRED or TAUT_LOCK_OWNER_DIED; TAUT_EINVAL: NULL or not
 * made; TAUT_ESTATE: the caller holds it already, or it was made before fork(2) in the parent;
 * TAUT_ENOMEM: robust, and this thread's end can't be watched (once a thread, at its first).
 */
TAUT_API int taut_lock_acquire(struct taut_lock *lock, uint64_t deadline_ns,
                               struct taut_lock_report *report);

/* Acquires the lock if that needs no wait: ACQUIRED, OWNER_DIED or TAKEN; errors as above. A lock
 * that is kept for a waiter is taken. */
TAUT_API int taut_lock_try(struct taut_lock *lock, struct taut_lock_report *report);

/*
 * Acquires the lock, or leaves without it when `gone(context)` returns non-zero: TAUT_LOCK_GONE.
 * The reason is tested first, then at every turn: after each sleep, while spinning at each look at
 * the lock, and at least every 200 us. taut_lock_retest() makes sleeping waiters test at once.
 * gone() runs on the caller's thread, without the lock; it must not touch this lock. Else as
 * taut_lock_acquire(); TAUT_EINVAL: gone is NULL.
 */
TAUT_API int taut_lock_or(struct taut_lock *lock, int (*gone)(void *context), void *context,
                          uint64_t deadline_ns, struct taut_lock_report *report);

/* Tells the waiters of taut_lock_or() to test their reasons now: for who has just removed it, by
 * whatever way. Needs not to hold the lock. Costs a fence and a load where nobody waits so. */
TAUT_API void taut_lock_retest(struct taut_lock *lock);

/* Releases. The caller must hold it: else the process is aborted, with both thread ids. Does
 * nothing to a child's copy of what its parent made. */
TAUT_API void taut_lock_release(struct taut_lock *lock);

TAUT_API void taut_lock_stats(const struct taut_lock *lock, struct taut_lock_stats *stats);

/* The options in effect after defaults. options->size is the caller's, as where options are given.
 * 0; TAUT_EINVAL: no lock, or no version has that size; nothing is written. */
TAUT_API int taut_lock_effective(const struct taut_lock *lock, struct taut_lock_options *options);

/* "acquired", "expired", "gone", "owner-died", "taken"; "?" for another number. */
TAUT_API const char *taut_lock_outcome_name(uint32_t outcome);

/*
 * The lock itself; its members belong to the functions above. The first line is what each
 * acquisition and each release touches, the second what is changed while there are waiters.
 */
struct taut_lock {
    /* bit 0 held, 1 there is a queue, 2 the oldest waiter sleeps, 47..6 the waiter that came last
     * and is not in the queue yet, 63..48 bypasses */
    TAUT__LINE TAUT__ATOMIC(uint64_t) word;
    TAUT__ATOMIC(int32_t) owner_tid;
    TAUT__ATOMIC(int32_t) winner_tid;      /* the last that acquired it */
    TAUT__ATOMIC(int32_t) barger_tid;      /* the last that overtook a waiter */
    TAUT__ATOMIC(uint32_t) head_bypass_at; /* bypasses when the oldest waiter came */
    TAUT__ATOMIC(uint64_t) acquired;
    TAUT__ATOMIC(uint64_t) barged;
    TAUT__ATOMIC(uint64_t) head_since_ns; /* when the oldest waiter came */
    TAUT__ATOMIC(uint32_t) reasons;       /* waiters with a reason to test */
    uint32_t owner_died;                  /* the last owner ended with it: the holder's to read */
    uint32_t magic;
    uint32_t generation; /* of the process, against fork(2) */
    uint32_t policy, robust;
    uint32_t bypass_bound; /* of the oldest waiter; UINT32_MAX = none */
    uint32_t guard_spins;
    uint64_t wait_max_ns, spin_ns;
    struct taut_lock *held_next, *held_previous; /* robust: what its holder holds */

    TAUT__LINE TAUT__ATOMIC(uint32_t) guard; /* of the queue: 0 free, 1 held, 2 waited for */
    TAUT__ATOMIC(uint32_t) waiters;
    TAUT__ATOMIC(uintptr_t) head; /* the oldest waiter */
    uintptr_t tail;
    TAUT__ATOMIC(uint64_t) contended, kept, expired, gone, owners_died;
    TAUT__ATOMIC(uint64_t) parks, wakeups_lost, wake_calls;
    TAUT__ATOMIC(uint64_t) bypass_most, waited_most_ns;
    TAUT__ATOMIC(int32_t) bypass_most_tid, waited_most_tid;
};

#ifdef __cplusplus
}
#endif
#endif
