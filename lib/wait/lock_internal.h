/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/lock_internal.h - the lock's word, its waiters, and what its files call in each other.
 *
 * The word says everything that decides who is next, so that one compare and swap does: whether the
 * lock is held, who waits, and how often waiters have been overtaken. A thread takes the lock or
 * comes to wait for it in the same kind of step, so nobody waits for anything before he is counted.
 * Overtaking counts itself, so the bound holds although the waiter sleeps. What else there is, the
 * queue, is changed under `guard` only.
 *
 * The waiters that came last are a stack, its newest in the word: who comes puts himself on top.
 * Whoever has the guard and needs to know who is next moves them behind the queue, in the order in
 * which they came. If nobody was in the queue, who comes does it himself, or leaves it to the one
 * who has the guard just then.
 *
 * Who changes the word: an acquirer sets HELD (with one bypass more, when it overtakes); the holder
 * clears it; who comes changes ARRIVALS; the oldest waiter sets HEAD_ASLEEP while HELD, and clears
 * it when it is awake; QUEUED, HEAD_ASLEEP of another, and ARRIVALS to none, change under the
 * guard.
 */
#ifndef TAUT_WAIT_LOCK_INTERNAL_H
#define TAUT_WAIT_LOCK_INTERNAL_H

#include <taut/lock.h>

#define LOCK_MAGIC 0x6c6f636bu

/* HEAD_ASLEEP only while HELD: the release that follows wakes the oldest waiter. */
#define LOCK_HELD         UINT64_C(1)
#define LOCK_QUEUED       UINT64_C(2) /* the queue has a head */
#define LOCK_HEAD_ASLEEP  UINT64_C(4)
#define LOCK_ARRIVALS     (((UINT64_C(1) << LOCK_BYPASS_SHIFT) - 1) & ~UINT64_C(63)) /* a node */
#define LOCK_WAITED       (LOCK_QUEUED | LOCK_ARRIVALS)
#define LOCK_USED         (LOCK_HELD | LOCK_WAITED)
#define LOCK_BYPASS_SHIFT 48 /* all bypasses since the lock was made, modulo 2^16 */
#define LOCK_BYPASS_ONE   (UINT64_C(1) << LOCK_BYPASS_SHIFT)
#define LOCK_NO_BOUND     UINT32_MAX

/* Bits of a waiter's futex word. */
#define LOCK_WAKE   1u /* it is the oldest waiter, and the lock was released */
#define LOCK_RETEST 2u /* test the reason */

/* The longest sleep of who has a reason to test. */
#define LOCK_OR_SLICE_NS (200 * TAUT_NS_PER_US)

/* A waiter, on its own stack while it waits. Aligned: its address is in the word. */
struct taut__lock_node {
    _Atomic uint32_t wake;            /* what it sleeps on: 0 = nothing has happened */
    uint32_t has_reason;              /* it has a reason to test */
    struct taut__lock_node *previous; /* who came before it */
    struct taut__lock_node *next;     /* in the queue */
    uint64_t queued_ns;
    uint64_t acquired_at; /* acquisitions when it came */
    uint64_t barged_at;   /* those of them that overtook, but perhaps for the last */
    uint32_t ahead; /* waiters when it came, or about: who comes at once is counted in any order */
    uint16_t bypass_at; /* bypasses in the word when it came */
} __attribute__((aligned(64)));

/* How leaving the queue ended, and what taut__lock_leave() may do. */
enum taut__lock_leave {
    TAUT__LOCK_LEFT = 0, /* not held */
    TAUT__LOCK_TOOK = 1  /* held: it was free, and this was the oldest waiter */
};

/* How often a waiter was overtaken that came at `at`, in a word: 2^16 and more begin again. */
static inline uint32_t taut__lock_bypassed_since(uint64_t word, uint32_t at)
{
    return (uint16_t)((word >> LOCK_BYPASS_SHIFT) - at);
}

/* The same without end: `about` is what a counter says that may lag by some. */
static inline uint64_t taut__lock_bypasses(uint64_t word, uint32_t at, uint64_t about)
{
    return about + (uint64_t)(int64_t)(int16_t)(taut__lock_bypassed_since(word, at) - about);
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
int taut__lock_take_new(struct taut_lock *lock, uint64_t *word);

/* Sets HELD if it is not set: for the oldest waiter. *word is the one it was set in. */
int taut__lock_take_head(struct taut_lock *lock, uint64_t *word);

/* As taut__lock_take_new(), or else, in the same step, comes to wait: 0, with a node whose
 * queued_ns and has_reason are set and all else is 0. */
int taut__lock_take_or_come(struct taut_lock *lock, struct taut__lock_node *node, uint64_t *word);

/* The oldest waiter, which has taken the lock in `word`, leaves the queue; fills what the queue
 * knows of the report. */
void taut__lock_served(struct taut_lock *lock, struct taut__lock_node *node, uint64_t word,
                       struct taut_lock_report *report);

/* A waiter leaves without the lock; or with it, if take_it and it is the oldest and the lock free.
 * In either case nobody behind it misses a wake-up. enum taut__lock_leave. */
int taut__lock_leave(struct taut_lock *lock, struct taut__lock_node *node, int take_it,
                     struct taut_lock_report *report);

/* The guard. Whoever leaves it queues those who have come meanwhile to an empty queue. */
void taut__lock_guard_enter(struct taut_lock *lock);
void taut__lock_guard_exit(struct taut_lock *lock);

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
