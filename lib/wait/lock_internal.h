/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/lock_internal.h - the lock's word, its waiters, and what its files call in each other.
 *
 * The word says everything that an acquirer who does not queue must know, so that one compare and
 * swap decides: whether the lock is held, whether somebody waits, and how often the oldest waiter
 * has been overtaken. Overtaking counts itself in the same step, so the bound holds although the
 * waiter sleeps. What else there is, the queue, is changed under `guard` only.
 *
 * Who changes the word: an acquirer sets HELD (with one bypass more, when it overtakes); the holder
 * clears it; the oldest waiter sets HEAD_ASLEEP while HELD, and clears it when it acquires;
 * WAITERS, HEAD_ASLEEP of another and the bypasses change under the guard.
 */
#ifndef TAUT_WAIT_LOCK_INTERNAL_H
#define TAUT_WAIT_LOCK_INTERNAL_H

#include <taut/lock.h>

#define LOCK_MAGIC 0x6c6f636bu

/* HEAD_ASLEEP only while HELD: the release that follows wakes the oldest waiter. */
#define LOCK_HELD         1u
#define LOCK_WAITERS      2u
#define LOCK_HEAD_ASLEEP  4u
#define LOCK_BYPASS_SHIFT 8
#define LOCK_BYPASS_ONE   (1u << LOCK_BYPASS_SHIFT)
#define LOCK_BYPASS_MOST  (UINT32_MAX >> LOCK_BYPASS_SHIFT)
#define LOCK_NO_BOUND     UINT32_MAX

/* Bits of a waiter's futex word. */
#define LOCK_WAKE   1u /* it is the oldest waiter, and the lock was released */
#define LOCK_RETEST 2u /* test the reason */

/* The longest sleep of who has a reason to test. */
#define LOCK_OR_SLICE_NS (200 * TAUT_NS_PER_US)

/* A waiter, on its own stack while it is in the queue. */
struct taut__lock_node {
    _Atomic uint32_t wake; /* what it sleeps on: 0 = nothing has happened */
    uint32_t has_reason;   /* it has a reason to test */
    struct taut__lock_node *previous, *next;
    uint64_t queued_ns;
    uint64_t bypass_at;   /* bypasses since the lock was made, when it queued */
    uint64_t acquired_at; /* acquisitions then */
    uint32_t ahead;       /* waiters then */
};

/* How leaving the queue ended, and what taut__lock_leave() may do. */
enum taut__lock_leave {
    TAUT__LOCK_LEFT = 0, /* not held */
    TAUT__LOCK_TOOK = 1  /* held: it was free, and this was the oldest waiter */
};

/* One bypass more, in a word: saturates. */
static inline uint32_t taut__lock_bypassed(uint32_t word)
{
    return word >> LOCK_BYPASS_SHIFT < LOCK_BYPASS_MOST ? word + LOCK_BYPASS_ONE : word;
}

static inline int taut__lock_is_head(const struct taut_lock *lock,
                                     const struct taut__lock_node *node)
{
    /* Pairs with the release in promote(): head_since_ns and the word are those of this head. */
    return atomic_load_explicit(&lock->head, memory_order_acquire) == (uintptr_t)node;
}

static inline void taut__lock_add(_Atomic uint64_t *counter, uint64_t count)
{
    if (count)
        atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

/* Sets HELD if the word allows a newcomer to. *word is the one it was set in. */
int taut__lock_take_new(struct taut_lock *lock, uint32_t *word);

/* Sets HELD if it is not set: for the oldest waiter. *word is the one it was set in. */
int taut__lock_take_head(struct taut_lock *lock, uint32_t *word);

/* Appends a node whose queued_ns and has_reason are set. 1: not appended, the lock was free and
 * without waiters, and is now held. */
int taut__lock_enqueue(struct taut_lock *lock, struct taut__lock_node *node);

/* The oldest waiter, which has taken the lock in `word`, leaves the queue; fills what the queue
 * knows of the report. */
void taut__lock_served(struct taut_lock *lock, struct taut__lock_node *node, uint32_t word,
                       struct taut_lock_report *report);

/* A waiter leaves without the lock; or with it, if may_take and it is the oldest and the lock free.
 * In either case nobody behind it misses a wake-up. enum taut__lock_leave. */
int taut__lock_leave(struct taut_lock *lock, struct taut__lock_node *node, int may_take,
                     struct taut_lock_report *report);

/* For the holder that finds HEAD_ASLEEP: clears it and returns what to wake after the release. */
_Atomic uint32_t *taut__lock_rouse(struct taut_lock *lock);

/* Makes all waiters that have a reason test it. */
void taut__lock_retest_all(struct taut_lock *lock);

/* --- robust locks ---------------------------------------------------------------------------- */

/* Once a lock: 0 or TAUT_EAGAIN, no thread-specific key is left. */
int taut__lock_robust_init(void);

/* Before a thread acquires: 0 or TAUT_ENOMEM, its end could not be watched. */
int taut__lock_robust_watch(void);

/* The holder's list. */
void taut__lock_robust_hold(struct taut_lock *lock);
void taut__lock_robust_drop(struct taut_lock *lock);

#endif
