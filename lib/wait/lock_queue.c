/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/lock_queue.c - the queue of a lock: who waits, in the order in which they came.
 *
 * Nodes lie on the waiters' stacks. Coming is one step on the word. All else, queueing who has
 * come, leaving and promoting, is done under the guard, a futex mutex of a few instructions.
 * Nothing bounds the wait for it; but nobody holds it for longer than a walk over those who have
 * just come (taut_lock_retest() over all), unless he loses his CPU in there, and each passage takes
 * it once or twice.
 *
 * What must stay true, under the guard:
 *
 * QUEUED is set if and only if the queue is not empty.
 *
 * Each node remembers the bypasses in the word when it came, so the difference is how often it was
 * overtaken itself, also while it was not the oldest: and one that was overtaken as often as
 * allowed is the next that gets the lock. No other state keeps the lock for anybody. Where the word
 * is read without the guard, what is known of the oldest waiter may be that of an older one, which
 * was overtaken at least as often: the lock is rather kept too soon.
 *
 * The oldest waiter in the queue is awake, or on its way, whenever the lock is free: HEAD_ASLEEP is
 * set only while HELD, and no release clears HELD before it has cleared that and set LOCK_WAKE.
 *
 * Who has come and is not queued will be: by the next that promotes, or, where the queue is empty,
 * by himself or whoever leaves the guard. Until then a free lock may wait for him, and he for a
 * thread that lost its CPU in the guard.
 */
#include "base/check.h"
#include "base/fence.h"
#include "base/futex.h"
#include "wait/lock_internal.h"
#include "wait/spin.h"

/* A few times what the guard is held; less than a sleep and a wake-up. */
#define GUARD_SPIN_NS 1500

static void adopt(struct taut_lock *lock, const struct taut__lock_node *self);

static int guard_try(struct taut_lock *lock)
{
    uint32_t seen = 0;
    /* Pairs with the release in taut__lock_guard_exit(). seq_cst: see there. */
    return atomic_load_explicit(&lock->guard, memory_order_seq_cst) == 0 &&
           atomic_compare_exchange_strong_explicit(&lock->guard, &seen, 1, memory_order_seq_cst,
                                                   memory_order_seq_cst);
}

void taut__lock_guard_enter(struct taut_lock *lock)
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
     * Acquire pairs with the release in taut__lock_guard_exit(). */
    while (atomic_exchange_explicit(&lock->guard, 2, memory_order_acquire) != 0)
        taut__futex_wait(&lock->guard, 2, TAUT_NEVER_NS, TAUT__FUTEX_PRIVATE);
}

void taut__lock_guard_exit(struct taut_lock *lock)
{
    for (;;) {
        /* Release pairs with the acquires in guard_try() and taut__lock_guard_enter(). */
        if (atomic_exchange_explicit(&lock->guard, 0, memory_order_seq_cst) == 2)
            taut__futex_wake(&lock->guard, 1, TAUT__FUTEX_PRIVATE);
        /* seq_cst, with queue_first(): there the word, then the guard; here the guard, then the
         * word. Who has come and found the guard held is seen. */
        uint64_t seen = atomic_load_explicit(&lock->word, memory_order_seq_cst);
        if (!(seen & LOCK_ARRIVALS) || seen & LOCK_QUEUED || !guard_try(lock))
            return;
        adopt(lock, NULL);
    }
}

static struct taut__lock_node *head_of(struct taut_lock *lock)
{
    return (struct taut__lock_node *)atomic_load_explicit(&lock->head, memory_order_relaxed);
}

/* How often the waiter has been overtaken, in `word`. Exact under the guard or for the holder. */
static uint64_t bypasses_of(const struct taut_lock *lock, const struct taut__lock_node *node,
                            uint64_t word)
{
    uint64_t barged = atomic_load_explicit(&lock->barged, memory_order_relaxed);
    return taut__lock_bypasses(word, node->bypass_at, barged - node->barged_at);
}

/* --- taking ----------------------------------------------------------------------------------- */

/* Whether the lock is kept for an oldest waiter that came at since_ns and was bypassed `count`
 * times. */
static int is_kept(const struct taut_lock *lock, uint64_t count, uint64_t since_ns)
{
    if (lock->bypass_bound != LOCK_NO_BOUND && count >= lock->bypass_bound)
        return 1;
    if (lock->wait_max_ns == TAUT_NEVER_NS)
        return 0;
    uint64_t now_ns = taut_now_ns();
    return now_ns >= since_ns && now_ns - since_ns >= lock->wait_max_ns;
}

/* What newcomers must know of the oldest waiter. Set after the word that shows it as the oldest,
 * and before it acts as such; the first that comes sets it itself, in vain if another did. */
static void set_bounds(struct taut_lock *lock, const struct taut__lock_node *oldest)
{
    atomic_store_explicit(&lock->head_since_ns, oldest->queued_ns, memory_order_relaxed);
    atomic_store_explicit(&lock->head_bypass_at, oldest->bypass_at, memory_order_relaxed);
}

/* For a word that is waited for. */
static int may_barge(const struct taut_lock *lock, uint64_t word)
{
    /* Of the oldest waiter or of one before it, at the time of the compare and swap: if they are of
     * a later one, so is the word. But for one case: the word has come back to the same value after
     * 65,536 bypasses, or a multiple, between the look and the swap; then one more is let pass. */
    uint64_t since_ns = atomic_load_explicit(&lock->head_since_ns, memory_order_relaxed);
    uint32_t at = atomic_load_explicit(&lock->head_bypass_at, memory_order_relaxed);
    return !is_kept(lock, taut__lock_bypassed_since(word, at), since_ns);
}

/* In *wanted what the word becomes when a newcomer takes the lock: 1; 0: it may not. */
static int may_take(const struct taut_lock *lock, uint64_t word, uint64_t *wanted)
{
    if (word & LOCK_HELD)
        return 0;
    *wanted = word | LOCK_HELD;
    if (!(word & LOCK_WAITED))
        return 1;
    *wanted += LOCK_BYPASS_ONE;
    return may_barge(lock, word);
}

int taut__lock_take_new(struct taut_lock *lock, uint64_t *word)
{
    uint64_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed), wanted;
    while (may_take(lock, seen, &wanted)) {
        /* Pairs with the release in taut_lock_release(). */
        if (atomic_compare_exchange_weak_explicit(&lock->word, &seen, wanted, memory_order_acquire,
                                                  memory_order_relaxed)) {
            *word = seen;
            return 1;
        }
    }
    return 0;
}

int taut__lock_take_head(struct taut_lock *lock, uint64_t *word)
{
    uint64_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
    while (!(seen & LOCK_HELD)) {
        /* Pairs with the release in taut_lock_release(). */
        if (atomic_compare_exchange_weak_explicit(&lock->word, &seen, seen | LOCK_HELD,
                                                  memory_order_acquire, memory_order_relaxed)) {
            *word = seen;
            return 1;
        }
    }
    return 0;
}

/* Under the guard: the oldest waiter need not sleep any more. What is to be woken. */
static _Atomic uint32_t *rouse_node(struct taut_lock *lock, struct taut__lock_node *oldest)
{
    /* Release pairs with the acquire of who sleeps, in sleep_once(). */
    atomic_fetch_or_explicit(&oldest->wake, LOCK_WAKE, memory_order_release);
    taut__lock_add(&lock->wake_calls, 1);
    return &oldest->wake;
}

/* --- coming ----------------------------------------------------------------------------------- */

static struct taut__lock_node *newest_of(uint64_t word)
{
    return (struct taut__lock_node *)(uintptr_t)(word & LOCK_ARRIVALS);
}

/* Links from the newest to the oldest of them are there; sets those in the other direction. */
static struct taut__lock_node *oldest_of(struct taut__lock_node *newest)
{
    struct taut__lock_node *node = newest;
    for (; node->previous; node = node->previous)
        node->previous->next = node;
    return node;
}

/* Under the guard: `oldest` is the head of a queue that was empty when the word was `seen`. Unless
 * it is the caller itself it may sleep, or be about to: while the lock is held, the release will
 * wake it (HEAD_ASLEEP was set with QUEUED); if it is free no release will come. */
static void found_queue(struct taut_lock *lock, struct taut__lock_node *oldest,
                        const struct taut__lock_node *self, uint64_t seen)
{
    TAUT_CHECK(!self || self == oldest);
    set_bounds(lock, oldest);
    /* Release pairs with taut__lock_is_head(). */
    atomic_store_explicit(&lock->head, (uintptr_t)oldest, memory_order_release);
    if (self || seen & LOCK_HELD)
        return;
    /* Woken under the guard: the node is there until its owner has had it. */
    taut__futex_wake(rouse_node(lock, oldest), 1, TAUT__FUTEX_PRIVATE);
}

/* Under the guard: all who have come are put behind the queue. `self`: NULL, or the caller's node,
 * the oldest of those. */
static void adopt(struct taut_lock *lock, const struct taut__lock_node *self)
{
    struct taut__lock_node *head = head_of(lock), *last = (struct taut__lock_node *)lock->tail;
    uint64_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed), wanted;
    do {
        if (!(seen & LOCK_ARRIVALS))
            return;
        wanted = (seen & ~LOCK_ARRIVALS) | LOCK_QUEUED;
        if (!head && !self && seen & LOCK_HELD)
            wanted |= LOCK_HEAD_ASLEEP;
        /* Acquire pairs with the release of taut__lock_take_or_come(): the nodes. */
    } while (!atomic_compare_exchange_weak_explicit(&lock->word, &seen, wanted,
                                                    memory_order_acquire, memory_order_relaxed));
    struct taut__lock_node *oldest = oldest_of(newest_of(seen));
    oldest->previous = last;
    if (last)
        last->next = oldest;
    lock->tail = (uintptr_t)newest_of(seen);
    if (!head)
        found_queue(lock, oldest, self, seen);
}

/* Nobody was waiting when this one came: it founds the queue, or whoever has the guard does. */
static void queue_first(struct taut_lock *lock, struct taut__lock_node *node)
{
    set_bounds(lock, node);
    uint64_t until_ns = 0;
    while (!guard_try(lock)) {
        /* Who has the guard sees this node when it leaves; mostly that is soon. */
        if (taut__lock_is_head(lock, node) || !lock->guard_spins)
            return;
        uint64_t now_ns = taut_now_ns();
        if (until_ns == 0)
            until_ns = now_ns + GUARD_SPIN_NS;
        else if (now_ns >= until_ns)
            return;
        taut__cpu_pause();
    }
    adopt(lock, node);
    taut__lock_guard_exit(lock);
}

int taut__lock_take_or_come(struct taut_lock *lock, struct taut__lock_node *node, uint64_t *word)
{
    uint64_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed), wanted;
    int taken;
    TAUT_CHECK(((uintptr_t)node & ~LOCK_ARRIVALS) == 0); /* 48 bits, as where stacks are */
    do {
        /* Before the step: whoever acquires after it is counted. */
        node->acquired_at = atomic_load_explicit(&lock->acquired, memory_order_relaxed);
        node->barged_at = atomic_load_explicit(&lock->barged, memory_order_relaxed);
        taken = may_take(lock, seen, &wanted);
        if (!taken) {
            node->previous = newest_of(seen);
            node->bypass_at = (uint16_t)(seen >> LOCK_BYPASS_SHIFT);
            wanted = (seen & ~LOCK_ARRIVALS) | (uintptr_t)node;
        }
        /* Acquire pairs with the release in taut_lock_release(), release with adopt(); seq_cst: see
         * taut__lock_guard_exit(). */
    } while (!atomic_compare_exchange_weak_explicit(&lock->word, &seen, wanted,
                                                    memory_order_seq_cst, memory_order_relaxed));
    *word = seen;
    if (taken)
        return 1;
    node->ahead = atomic_fetch_add_explicit(&lock->waiters, 1, memory_order_relaxed);
    if (!(seen & LOCK_WAITED))
        queue_first(lock, node);
    if (node->has_reason) {
        atomic_fetch_add_explicit(&lock->reasons, 1, memory_order_relaxed);
        /* seq_cst, with the fence in taut_lock_retest(): there a reason is removed and then this
         * count read, here it is counted and then the reason tested. One of the two sees the other.
         */
        taut__full_fence();
    }
    return 0;
}

/* --- going ------------------------------------------------------------------------------------ */

/*
 * Under the guard: `node`, the oldest, makes room for the next, which sleeps or is about to. While
 * the lock is held, its release will wake that one; if it is free no release will come, and it is
 * woken by the caller: *wake. With take_it, a free lock is taken instead: 1, and the next stays
 * asleep until the caller releases.
 */
static int promote(struct taut_lock *lock, struct taut__lock_node *node, int take_it,
                   uint64_t *left_in, _Atomic uint32_t **wake)
{
    if (!node->next)
        adopt(lock, NULL); /* who comes after this is seen when the guard is left */
    struct taut__lock_node *next = node->next;
    uint64_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed), wanted;
    do {
        wanted = seen & ~(LOCK_QUEUED | LOCK_HEAD_ASLEEP);
        if (next)
            wanted |= LOCK_QUEUED;
        if (seen & LOCK_HELD || take_it)
            wanted |= LOCK_HELD | (next ? LOCK_HEAD_ASLEEP : 0);
        /* Acquire, when it takes the lock: pairs with taut_lock_release(). */
    } while (!atomic_compare_exchange_weak_explicit(&lock->word, &seen, wanted,
                                                    memory_order_acquire, memory_order_relaxed));
    if (next) {
        next->previous = NULL;
        set_bounds(lock, next);
    } else {
        lock->tail = 0;
    }
    *left_in = seen;
    /* Release pairs with taut__lock_is_head(). */
    atomic_store_explicit(&lock->head, (uintptr_t)next, memory_order_release);
    if (next && !(wanted & LOCK_HELD))
        *wake = rouse_node(lock, next);
    return take_it && !(seen & LOCK_HELD);
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
static void account(struct taut_lock *lock, const struct taut__lock_node *node, uint64_t word,
                    struct taut_lock_report *report)
{
    uint64_t count = bypasses_of(lock, node, word);
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
    atomic_fetch_sub_explicit(&lock->waiters, 1, memory_order_relaxed);
}

static void account_acquired(struct taut_lock *lock, uint32_t kept, struct taut_lock_report *report)
{
    report->kept = kept;
    taut__lock_add(&lock->contended, 1);
    taut__lock_add(&lock->kept, kept);
}

void taut__lock_served(struct taut_lock *lock, struct taut__lock_node *node, uint64_t word,
                       struct taut_lock_report *report)
{
    _Atomic uint32_t *none = NULL;
    uint64_t left_in;
    uint32_t kept = (uint32_t)is_kept(lock, bypasses_of(lock, node, word), node->queued_ns);
    taut__lock_guard_enter(lock);
    TAUT_CHECK(head_of(lock) == node);
    promote(lock, node, 0, &left_in, &none);
    account(lock, node, word, report);
    account_acquired(lock, kept, report);
    taut__lock_guard_exit(lock);
}

int taut__lock_leave(struct taut_lock *lock, struct taut__lock_node *node, int take_it,
                     struct taut_lock_report *report)
{
    _Atomic uint32_t *wake = NULL;
    int took = 0;
    taut__lock_guard_enter(lock);
    if (head_of(lock) != node)
        adopt(lock, NULL); /* this one, perhaps: and then it may be the oldest */
    uint64_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);
    if (head_of(lock) == node)
        took = promote(lock, node, take_it, &word, &wake);
    else
        unlink_middle(lock, node);
    account(lock, node, word, report);
    if (took) {
        uint64_t count = bypasses_of(lock, node, word);
        account_acquired(lock, (uint32_t)is_kept(lock, count, node->queued_ns), report);
    }
    taut__lock_guard_exit(lock);
    if (wake)
        taut__futex_wake(wake, 1, TAUT__FUTEX_PRIVATE);
    return took ? TAUT__LOCK_TOOK : TAUT__LOCK_LEFT;
}

/* --- waking ----------------------------------------------------------------------------------- */

_Atomic uint32_t *taut__lock_rouse(struct taut_lock *lock)
{
    taut__lock_guard_enter(lock);
    struct taut__lock_node *head = head_of(lock);
    /* The caller holds the lock: the bit may have gone with the one who slept, if it gave up and
     * was the last. */
    _Atomic uint32_t *wake = NULL;
    /* Acquire pairs with the release in the sleeper's own setting of the bit: its clearing of
     * LOCK_WAKE came before. */
    uint64_t seen = atomic_fetch_and_explicit(&lock->word, ~LOCK_HEAD_ASLEEP, memory_order_acquire);
    if (seen & LOCK_HEAD_ASLEEP) {
        TAUT_CHECK(head != NULL);
        wake = rouse_node(lock, head);
    }
    taut__lock_guard_exit(lock);
    return wake;
}

void taut__lock_retest_all(struct taut_lock *lock)
{
    taut__lock_guard_enter(lock);
    adopt(lock, NULL);
    for (struct taut__lock_node *node = head_of(lock); node; node = node->next) {
        if (!node->has_reason)
            continue;
        /* Release pairs with the acquire of who sleeps in taut_lock_or(). Woken under the guard:
         * the node is there until its owner has had it. */
        atomic_fetch_or_explicit(&node->wake, LOCK_RETEST, memory_order_release);
        taut__futex_wake(&node->wake, 1, TAUT__FUTEX_PRIVATE);
    }
    taut__lock_guard_exit(lock);
}
