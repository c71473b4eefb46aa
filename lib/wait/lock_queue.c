/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/lock_queue.c - the queue of a lock: who waits, in the order in which they came.
 *
 * Nodes lie on the waiters' stacks, and are linked, unlinked and promoted under the guard, a futex
 * mutex of a few instructions. It is no place to be starved in: nobody holds it for longer than a
 * walk over two nodes (taut_lock_retest() over all), and each passage takes it once or twice.
 *
 * What must stay true, under the guard:
 * - WAITERS is set if and only if the queue is not empty.
 * - bypass_base + the bypasses in the word = all bypasses since the lock was made. A node remembers
 *   that sum when it queues, so the difference is how often it was overtaken itself, also while it
 *   was not the oldest. On promotion that difference becomes the word's: a waiter that was
 *   overtaken as often as allowed is the next that gets the lock. No other state keeps the lock for
 *   anybody.
 * - The oldest waiter is awake, or on its way, whenever the lock is free: HEAD_ASLEEP is set only
 *   while HELD, and no release clears HELD before it has cleared that and set LOCK_WAKE.
 */
#include "base/check.h"
#include "base/fence.h"
#include "base/futex.h"
#include "wait/lock_internal.h"
#include "wait/spin.h"

/* A few times what the guard is held; less than a sleep and a wake-up. */
#define GUARD_SPIN_NS 1500

static int guard_try(struct taut_lock *lock)
{
    uint32_t seen = 0;
    /* Pairs with the release in guard_exit(). */
    return atomic_load_explicit(&lock->guard, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong_explicit(&lock->guard, &seen, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void guard_enter(struct taut_lock *lock)
{
    if (guard_try(lock))
        return;
    if (lock->guard_spins) {
        uint64_t until_ns = taut_now_ns() + GUARD_SPIN_NS;
        do {
            taut__cpu_pause();
            if (guard_try(lock))
                return;
        } while (taut_now_ns() < until_ns);
    }
    /* Who slept takes it as "waited for": there may be more, and one wake too many does no harm.
     * Acquire pairs with the release in guard_exit(). */
    while (atomic_exchange_explicit(&lock->guard, 2, memory_order_acquire) != 0)
        taut__futex_wait(&lock->guard, 2, TAUT_NEVER_NS, TAUT__FUTEX_PRIVATE);
}

static void guard_exit(struct taut_lock *lock)
{
    /* Pairs with the acquires in guard_try() and guard_enter(). */
    if (atomic_exchange_explicit(&lock->guard, 0, memory_order_release) == 2)
        taut__futex_wake(&lock->guard, 1, TAUT__FUTEX_PRIVATE);
}

static struct taut__lock_node *head_of(struct taut_lock *lock)
{
    return (struct taut__lock_node *)atomic_load_explicit(&lock->head, memory_order_relaxed);
}

/* Under the guard: all bypasses since the lock was made. */
static uint64_t bypasses(const struct taut_lock *lock, uint32_t word)
{
    return lock->bypass_base + (word >> LOCK_BYPASS_SHIFT);
}

/* --- taking ----------------------------------------------------------------------------------- */

/* Whether the lock is kept for an oldest waiter that came at since_ns and was bypassed as often as
 * the word says. */
static int is_kept(const struct taut_lock *lock, uint32_t word, uint64_t since_ns)
{
    if (word >> LOCK_BYPASS_SHIFT >= lock->bypass_bound)
        return 1;
    if (lock->wait_max_ns == TAUT_NEVER_NS)
        return 0;
    uint64_t now_ns = taut_now_ns();
    return now_ns >= since_ns && now_ns - since_ns >= lock->wait_max_ns;
}

/* For a word with WAITERS. */
static int may_barge(const struct taut_lock *lock, uint32_t word)
{
    /* Stored before the word that the caller has seen. Should the oldest waiter have changed since
     * and the word come to the same value, the compare and swap lets one pass by the time of
     * another: the bound by count holds all the same. */
    uint64_t since_ns = atomic_load_explicit(&lock->head_since_ns, memory_order_relaxed);
    return !is_kept(lock, word, since_ns);
}

int taut__lock_take_new(struct taut_lock *lock, uint32_t *word)
{
    /* Acquire, here and below, pairs with the release of the word by promote() and leave(): for
     * head_since_ns. */
    uint32_t seen = atomic_load_explicit(&lock->word, memory_order_acquire);
    while (!(seen & LOCK_HELD)) {
        uint32_t taken = seen | LOCK_HELD;
        if (seen & LOCK_WAITERS) {
            if (!may_barge(lock, seen))
                return 0;
            taken = taut__lock_bypassed(taken);
        }
        /* Pairs with the release in taut_lock_release(). */
        if (atomic_compare_exchange_weak_explicit(&lock->word, &seen, taken, memory_order_acquire,
                                                  memory_order_acquire)) {
            *word = seen;
            return 1;
        }
    }
    return 0;
}

int taut__lock_take_head(struct taut_lock *lock, uint32_t *word)
{
    uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
    while (!(seen & LOCK_HELD)) {
        /* Pairs with the release in taut_lock_release(). */
        if (atomic_compare_exchange_weak_explicit(&lock->word, &seen,
                                                  (seen | LOCK_HELD) & ~LOCK_HEAD_ASLEEP,
                                                  memory_order_acquire, memory_order_relaxed)) {
            *word = seen;
            return 1;
        }
    }
    return 0;
}

/* --- coming ----------------------------------------------------------------------------------- */

/* Under the guard. The first waiter: the word gets WAITERS, and its bypasses begin at none. */
static int enqueue_first(struct taut_lock *lock, struct taut__lock_node *node)
{
    atomic_store_explicit(&lock->head_since_ns, node->queued_ns, memory_order_relaxed);
    uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
    for (;;) {
        TAUT_CHECK(!(seen & ~LOCK_HELD));
        uint32_t wanted = seen & LOCK_HELD ? seen | LOCK_WAITERS : LOCK_HELD;
        /* Release: head_since_ns, for may_barge(). Acquire, when it takes the lock: pairs
         * with taut_lock_release(). */
        if (atomic_compare_exchange_weak_explicit(&lock->word, &seen, wanted, memory_order_acq_rel,
                                                  memory_order_relaxed))
            break;
    }
    if (!(seen & LOCK_HELD))
        return 1;
    node->bypass_at = lock->bypass_base;
    node->previous = NULL;
    atomic_store_explicit(&lock->head, (uintptr_t)node, memory_order_release);
    return 0;
}

int taut__lock_enqueue(struct taut_lock *lock, struct taut__lock_node *node)
{
    guard_enter(lock);
    node->next = NULL;
    node->ahead = atomic_load_explicit(&lock->waiters, memory_order_relaxed);
    node->acquired_at = atomic_load_explicit(&lock->acquired, memory_order_relaxed);
    if (node->ahead == 0) {
        if (enqueue_first(lock, node)) {
            guard_exit(lock);
            return 1;
        }
    } else {
        struct taut__lock_node *last = (struct taut__lock_node *)lock->tail;
        node->bypass_at = bypasses(lock, atomic_load_explicit(&lock->word, memory_order_relaxed));
        node->previous = last;
        last->next = node;
    }
    lock->tail = (uintptr_t)node;
    atomic_store_explicit(&lock->waiters, node->ahead + 1, memory_order_relaxed);
    if (node->has_reason) {
        atomic_fetch_add_explicit(&lock->reasons, 1, memory_order_relaxed);
        /* seq_cst, with the fence in taut_lock_retest(): there a reason is removed and then this
         * count read, here it is counted and then the reason tested. One of the two sees the other.
         */
        taut__full_fence();
    }
    guard_exit(lock);
    return 0;
}

/* --- going ------------------------------------------------------------------------------------ */

/* Under the guard, in `word`: what the word becomes when `next` is the oldest waiter, without HELD.
 * The base moves by as much as the bypasses in the word do. */
static uint32_t promoted_word(const struct taut_lock *lock, uint32_t word,
                              const struct taut__lock_node *next, uint64_t *base)
{
    uint64_t sum = bypasses(lock, word), most = lock->bypass_bound, own;
    if (!next) {
        *base = sum;
        return 0;
    }
    if (most > LOCK_BYPASS_MOST)
        most = LOCK_BYPASS_MOST;
    own = sum - next->bypass_at;
    if (own > most)
        own = most;
    *base = sum - own;
    return LOCK_WAITERS | (uint32_t)own << LOCK_BYPASS_SHIFT;
}

/*
 * Under the guard: `node`, the oldest, makes room for the next, which sleeps or is about to. While
 * the lock is held, its release will wake that one; if it is free no release will come, and it is
 * woken by the caller: *wake. With may_take, a free lock is taken instead: 1, and the next stays
 * asleep until the caller releases.
 */
static int promote(struct taut_lock *lock, struct taut__lock_node *node, int may_take,
                   uint32_t *left_in, _Atomic uint32_t **wake)
{
    struct taut__lock_node *next = node->next;
    uint64_t base;
    if (next) {
        atomic_store_explicit(&lock->head_since_ns, next->queued_ns, memory_order_relaxed);
        next->previous = NULL;
    } else {
        lock->tail = 0;
    }
    uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed), wanted;
    do {
        wanted = promoted_word(lock, seen, next, &base);
        if (seen & LOCK_HELD || may_take)
            wanted |= LOCK_HELD | (next ? LOCK_HEAD_ASLEEP : 0);
        /* Release: head_since_ns, for may_barge(). Acquire, when it takes the lock: pairs
         * with taut_lock_release(). */
    } while (!atomic_compare_exchange_weak_explicit(&lock->word, &seen, wanted,
                                                    memory_order_acq_rel, memory_order_relaxed));
    lock->bypass_base = base;
    *left_in = seen;
    /* Release pairs with taut__lock_is_head(). */
    atomic_store_explicit(&lock->head, (uintptr_t)next, memory_order_release);
    if (next && !(wanted & LOCK_HELD)) {
        /* Release pairs with the acquire of who sleeps in taut_lock_acquire(). */
        atomic_fetch_or_explicit(&next->wake, LOCK_WAKE, memory_order_release);
        taut__lock_add(&lock->wake_calls, 1);
        *wake = &next->wake;
    }
    return may_take && !(seen & LOCK_HELD);
}

static void unlink_middle(struct taut_lock *lock, struct taut__lock_node *node)
{
    node->previous->next = node->next;
    if (node->next)
        node->next->previous = node->previous;
    else
        lock->tail = (uintptr_t)node->previous;
}

/* Under the guard: what everybody who leaves does, in `word`. */
static void account(struct taut_lock *lock, const struct taut__lock_node *node, uint64_t sum,
                    struct taut_lock_report *report)
{
    uint64_t count = sum - node->bypass_at;
    report->bypass_count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    report->queue_ahead = node->ahead;
    /* The holder's own counters: exact for who has just acquired and has not yet counted itself. */
    int32_t winner = atomic_load_explicit(&lock->winner_tid, memory_order_relaxed);
    if (atomic_load_explicit(&lock->acquired, memory_order_relaxed) != node->acquired_at)
        report->last_winner_tid = winner;
    if (count > atomic_load_explicit(&lock->bypass_most, memory_order_relaxed)) {
        atomic_store_explicit(&lock->bypass_most, count, memory_order_relaxed);
        atomic_store_explicit(&lock->bypass_most_tid,
                              atomic_load_explicit(&lock->barger_tid, memory_order_relaxed),
                              memory_order_relaxed);
    }
    if (report->waited_ns > atomic_load_explicit(&lock->waited_most_ns, memory_order_relaxed)) {
        atomic_store_explicit(&lock->waited_most_ns, report->waited_ns, memory_order_relaxed);
        atomic_store_explicit(&lock->waited_most_tid, winner, memory_order_relaxed);
    }
    taut__lock_add(&lock->parks, report->parks);
    taut__lock_add(&lock->wakeups_lost, report->wakeups_lost);
    if (node->has_reason)
        atomic_fetch_sub_explicit(&lock->reasons, 1, memory_order_relaxed);
    uint32_t waiters = atomic_load_explicit(&lock->waiters, memory_order_relaxed);
    atomic_store_explicit(&lock->waiters, waiters - 1, memory_order_relaxed);
}

static void account_acquired(struct taut_lock *lock, uint32_t kept, struct taut_lock_report *report)
{
    report->kept = kept;
    taut__lock_add(&lock->contended, 1);
    taut__lock_add(&lock->kept, kept);
}

void taut__lock_served(struct taut_lock *lock, struct taut__lock_node *node, uint32_t word,
                       struct taut_lock_report *report)
{
    _Atomic uint32_t *none = NULL;
    uint32_t left_in;
    uint32_t kept = (uint32_t)is_kept(lock, word, node->queued_ns);
    guard_enter(lock);
    TAUT_CHECK(head_of(lock) == node);
    uint64_t sum = bypasses(lock, word);
    promote(lock, node, 0, &left_in, &none);
    account(lock, node, sum, report);
    account_acquired(lock, kept, report);
    guard_exit(lock);
}

int taut__lock_leave(struct taut_lock *lock, struct taut__lock_node *node, int may_take,
                     struct taut_lock_report *report)
{
    _Atomic uint32_t *wake = NULL;
    int took = 0;
    uint64_t sum;
    guard_enter(lock);
    if (head_of(lock) == node) {
        uint64_t base = lock->bypass_base;
        uint32_t left_in;
        took = promote(lock, node, may_take, &left_in, &wake);
        sum = base + (left_in >> LOCK_BYPASS_SHIFT);
        account(lock, node, sum, report);
        if (took)
            account_acquired(lock, (uint32_t)is_kept(lock, left_in, node->queued_ns), report);
    } else {
        sum = bypasses(lock, atomic_load_explicit(&lock->word, memory_order_relaxed));
        unlink_middle(lock, node);
        account(lock, node, sum, report);
    }
    guard_exit(lock);
    if (wake)
        taut__futex_wake(wake, 1, TAUT__FUTEX_PRIVATE);
    return took ? TAUT__LOCK_TOOK : TAUT__LOCK_LEFT;
}

/* --- waking ----------------------------------------------------------------------------------- */

_Atomic uint32_t *taut__lock_rouse(struct taut_lock *lock)
{
    guard_enter(lock);
    struct taut__lock_node *head = head_of(lock);
    /* The caller holds the lock: the bit may have gone with the one who slept, if it gave up and
     * was the last. */
    _Atomic uint32_t *wake = NULL;
    /* Acquire pairs with the release in the sleeper's own setting of the bit: its clearing of
     * LOCK_WAKE came before. */
    uint32_t seen = atomic_fetch_and_explicit(&lock->word, ~LOCK_HEAD_ASLEEP, memory_order_acquire);
    if (seen & LOCK_HEAD_ASLEEP) {
        TAUT_CHECK(head != NULL);
        /* Release pairs with the acquire of who sleeps in taut_lock_acquire(). */
        atomic_fetch_or_explicit(&head->wake, LOCK_WAKE, memory_order_release);
        taut__lock_add(&lock->wake_calls, 1);
        wake = &head->wake;
    }
    guard_exit(lock);
    return wake;
}

void taut__lock_retest_all(struct taut_lock *lock)
{
    guard_enter(lock);
    for (struct taut__lock_node *node = head_of(lock); node; node = node->next) {
        if (!node->has_reason)
            continue;
        /* Release pairs with the acquire of who sleeps in taut_lock_or(). Woken under the guard:
         * the node is there until its owner has had it. */
        atomic_fetch_or_explicit(&node->wake, LOCK_RETEST, memory_order_release);
        taut__futex_wake(&node->wake, 1, TAUT__FUTEX_PRIVATE);
    }
    guard_exit(lock);
}
