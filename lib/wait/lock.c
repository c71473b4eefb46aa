/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/lock.c - the lock's calls, and the loop of one waiter.
 *
 * A newcomer tries once: free and nobody waits, or the bounds let it overtake. Then it tries again
 * and comes to wait, in one step. Only the oldest waiter spins; before it sleeps it says so in the
 * word (HEAD_ASLEEP), and the next release wakes it. From then on it is awake, and releases make no
 * system call until it sleeps again.
 *
 * A release takes the guard, if it must, while the lock is still held: when HELD has gone the
 * memory is no longer touched, so that the next holder may destroy the lock. What is woken after
 * that is an address on another stack; waking an address at which nobody sleeps is harmless.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fence.h"
#include "base/futex.h"
#include "base/options.h"
#include "base/process.h"
#include "wait/lock_internal.h"
#include "wait/spin.h"
#include "wait/window.h"

_Static_assert(sizeof(struct taut_lock) == 2 * TAUT_LINE_BYTES, "no holes worth a line");
_Static_assert(offsetof(struct taut_lock, guard) == TAUT_LINE_BYTES, "one line for acquirers");

#define BYPASS_MAX_MOST 200u

/* What one call wants. */
struct wish {
    uint64_t deadline_ns;
    int (*gone)(void *context); /* NULL: no reason to test */
    void *context;
    int32_t tid;
};

enum tried { TRY_HELD, TRY_TAKEN, TRY_GONE };

/* Why a waiter looks at the lock. */
enum turn {
    TURN_NEW,   /* it came, became the oldest, or the lock was released before it slept */
    TURN_WOKEN, /* a sleep has ended, and the lock was released meanwhile */
    TURN_IDLE   /* a sleep has ended by its time, a signal or taut_lock_retest(): nothing is new */
};

#define NOT_AT_ONCE (-1) /* neither an outcome nor a code: queue, or leave */

/* --- making, ending, reading back ------------------------------------------------------------- */

static const struct taut__options_kind options_kind =
    TAUT__OPTIONS_KIND(struct taut_lock_options, spin_ns, policy, "lock options");

static int options_check(struct taut_lock_options *options, const struct taut_lock_options *given,
                         struct taut_err *err)
{
    int code = taut__options_take(&options_kind, options, given, err);
    if (code)
        return code;
    if (options->policy > TAUT_LOCK_FIFO)
        return taut_err_set(err, TAUT_EINVAL, "policy %u is none of 0..2", options->policy);
    if (options->bypass_max > BYPASS_MAX_MOST)
        return taut_err_set(err, TAUT_EINVAL, "bypass_max %u is above %u", options->bypass_max,
                            BYPASS_MAX_MOST);
    if (options->robust > 1)
        return taut_err_set(err, TAUT_EINVAL, "robust %u is neither 0 nor 1", options->robust);
    return 0;
}

int taut_lock_init(struct taut_lock *lock, const struct taut_lock_options *given,
                   struct taut_err *err)
{
    struct taut_lock_options in_effect;
    const struct taut_lock_options *options = &in_effect;
    if (!lock || (uintptr_t)lock % TAUT_LINE_BYTES != 0)
        return taut_err_set(err, TAUT_EINVAL, "lock is NULL or not aligned to %d bytes",
                            TAUT_LINE_BYTES);
    int code = options_check(&in_effect, given, err);
    if (code)
        return code;
    if (options->robust && (code = taut__lock_robust_init()) != 0)
        return taut_err_set(err, code, "no thread-specific key is left to watch threads end");
    memset(lock, 0, sizeof *lock);
    lock->policy = options->policy;
    lock->robust = options->robust;
    lock->spin_ns = options->spin_ns;
    lock->wait_max_ns = TAUT_NEVER_NS;
    if (options->policy == TAUT_LOCK_BOUNDED) {
        lock->bypass_bound = options->bypass_max ? options->bypass_max : TAUT_LOCK_BYPASS_MAX;
        lock->wait_max_ns = options->wait_max_ns ? options->wait_max_ns : TAUT_LOCK_WAIT_MAX_NS;
    } else {
        lock->bypass_bound = options->policy == TAUT_LOCK_BARGING ? LOCK_NO_BOUND : 0;
    }
    uint32_t cpus = 1;
    (void)taut__spin_default(&cpus);
    lock->guard_spins = cpus > 1;
    lock->generation = taut__process_generation_enter();
    lock->magic = LOCK_MAGIC;
    return 0;
}

/* 0, or why this lock is none. */
static inline int refuse(const struct taut_lock *lock)
{
    if (!lock || lock->magic != LOCK_MAGIC)
        return TAUT_EINVAL;
    return lock->generation == taut__process_generation() ? 0 : TAUT_ESTATE;
}

int taut_lock_destroy(struct taut_lock *lock)
{
    int code = refuse(lock);
    if (code == TAUT_EINVAL)
        return code;
    /* In a child of fork(2) neither holder nor waiters exist. Acquire pairs with the release of the
     * last holder: what follows comes after all it did. */
    if (code == 0 && atomic_load_explicit(&lock->word, memory_order_acquire) & LOCK_USED)
        return TAUT_EBUSY;
    lock->magic = 0;
    return 0;
}

int taut_lock_effective(const struct taut_lock *lock, struct taut_lock_options *options)
{
    struct taut_lock_options whole = {.size = sizeof whole};
    if (!lock || lock->magic != LOCK_MAGIC)
        return TAUT_EINVAL;
    whole.policy = lock->policy;
    whole.robust = lock->robust;
    whole.spin_ns = lock->spin_ns;
    if (lock->policy == TAUT_LOCK_BOUNDED) {
        whole.bypass_max = lock->bypass_bound;
        whole.wait_max_ns = lock->wait_max_ns;
    }
    return taut__options_give(&options_kind, options, &whole);
}

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static int32_t read_tid(const _Atomic int32_t *tid)
{
    return atomic_load_explicit(tid, memory_order_relaxed);
}

void taut_lock_stats(const struct taut_lock *lock, struct taut_lock_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    if (!lock || lock->magic != LOCK_MAGIC)
        return;
    stats->acquired = read_counter(&lock->acquired);
    stats->contended = read_counter(&lock->contended);
    stats->barged = read_counter(&lock->barged);
    stats->kept = read_counter(&lock->kept);
    stats->expired = read_counter(&lock->expired);
    stats->gone = read_counter(&lock->gone);
    stats->owner_died = read_counter(&lock->owners_died);
    stats->parks = read_counter(&lock->parks);
    stats->wakeups_lost = read_counter(&lock->wakeups_lost);
    stats->wake_calls = read_counter(&lock->wake_calls);
    stats->bypass_most = read_counter(&lock->bypass_most);
    stats->waited_most_ns = read_counter(&lock->waited_most_ns);
    stats->bypass_most_tid = read_tid(&lock->bypass_most_tid);
    stats->waited_most_tid = read_tid(&lock->waited_most_tid);
    stats->owner_tid = read_tid(&lock->owner_tid);
    stats->waiters = atomic_load_explicit(&lock->waiters, memory_order_relaxed);
}

const char *taut_lock_outcome_name(uint32_t outcome)
{
    static const char *const names[] = {"acquired", "expired", "gone", "owner-died", "taken"};
    return outcome < sizeof names / sizeof *names ? names[outcome] : "?";
}

/* --- having it -------------------------------------------------------------------------------- */

/* A counter that only the holder writes: the lock orders it, atomic for who reads statistics. */
static inline void count_held(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* What a new holder does first. `word` is the one it was taken in; `newcomer`: not from the queue.
 */
static inline uint32_t own(struct taut_lock *lock, int32_t tid, uint64_t word, int newcomer)
{
    atomic_store_explicit(&lock->owner_tid, tid, memory_order_relaxed);
    atomic_store_explicit(&lock->winner_tid, tid, memory_order_relaxed);
    count_held(&lock->acquired);
    if (newcomer && word & LOCK_WAITED) {
        count_held(&lock->barged);
        atomic_store_explicit(&lock->barger_tid, tid, memory_order_relaxed);
    }
    if (__builtin_expect(lock->robust, 0)) {
        taut__lock_robust_hold(lock);
        if (lock->owner_died) {
            lock->owner_died = 0;
            count_held(&lock->owners_died);
            return TAUT_LOCK_OWNER_DIED;
        }
    }
    return TAUT_LOCK_ACQUIRED;
}

__attribute__((noreturn, cold)) static void not_yours(int32_t caller, int32_t owner)
{
    char text[128];
    snprintf(text, sizeof text, "thread %d releases a lock that thread %d holds (0: nobody)",
             caller, owner);
    taut__check_failed(__FILE__, __LINE__, "taut_lock_release", text);
}

void taut_lock_release(struct taut_lock *lock)
{
    int code = refuse(lock);
    if (code == TAUT_ESTATE)
        return; /* a child's copy: the parent's thread holds the parent's */
    TAUT_CHECK(code == 0);
    int32_t tid = taut__tid();
    int32_t owner = read_tid(&lock->owner_tid);
    if (__builtin_expect(owner != tid, 0))
        not_yours(tid, owner);
    if (__builtin_expect(lock->robust, 0))
        taut__lock_robust_drop(lock);
    atomic_store_explicit(&lock->owner_tid, 0, memory_order_relaxed);
    _Atomic uint32_t *wake = NULL;
    uint64_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
    for (;;) {
        TAUT_ASSERT(seen & LOCK_HELD);
        if (seen & LOCK_HEAD_ASLEEP) {
            _Atomic uint32_t *roused = taut__lock_rouse(lock);
            if (roused)
                wake = roused; /* an earlier one has been woken by its own deadline and left */
            seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
            continue;
        }
        /* Pairs with the acquires of who takes the lock, and of the queue. */
        if (atomic_compare_exchange_weak_explicit(&lock->word, &seen, seen & ~LOCK_HELD,
                                                  memory_order_release, memory_order_relaxed))
            break;
    }
    if (wake)
        taut__futex_wake(wake, 1, TAUT__FUTEX_PRIVATE);
}

/* --- one waiter ------------------------------------------------------------------------------- */

static enum tried try_once(struct taut_lock *lock, const struct wish *wish, uint64_t *word,
                           struct taut_lock_report *report)
{
    if (wish->gone) {
        report->turns++;
        if (wish->gone(wish->context))
            return TRY_GONE;
    }
    return taut__lock_take_head(lock, word) ? TRY_TAKEN : TRY_HELD;
}

/* The oldest waiter's looks, with the lock's budget of spinning between them: once a release,
 * so that who tests a reason beside a long holder does not spin after each of its short sleeps. */
static enum tried try_as_head(struct taut_lock *lock, const struct wish *wish, uint64_t *word,
                              enum turn turn, struct taut_lock_report *report)
{
    if (turn == TURN_NEW &&
        atomic_load_explicit(&lock->word, memory_order_relaxed) & LOCK_HEAD_ASLEEP)
        /* So said who made it the oldest. It is awake, and needs no wake-up. */
        atomic_fetch_and_explicit(&lock->word, ~LOCK_HEAD_ASLEEP, memory_order_relaxed);
    enum tried seen = try_once(lock, wish, word, report);
    if (seen != TRY_HELD)
        return seen;
    report->wakeups_lost += turn == TURN_WOKEN;
    if (lock->spin_ns == TAUT_WAIT_NONE_NS || turn == TURN_IDLE)
        return TRY_HELD;
    const struct taut_wait_policy policy = {
        .size = sizeof policy, .strict = 1, .spin_ns = lock->spin_ns};
    struct taut_spin spin;
    taut_spin_begin(&spin, wish->deadline_ns, &policy);
    while (seen == TRY_HELD && taut__spin_next(&spin))
        seen = try_once(lock, wish, word, report);
    taut__spin_finish(&spin, seen == TRY_HELD ? TAUT_WAIT_PARKED : TAUT_WAIT_CAUGHT, 0);
    return seen;
}

/* The oldest waiter says that it is going to sleep. 0: the lock is free, look again. */
static int announce_sleep(struct taut_lock *lock, struct taut__lock_node *node)
{
    atomic_fetch_and_explicit(&node->wake, ~LOCK_WAKE, memory_order_relaxed);
    uint64_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
    do {
        if (!(seen & LOCK_HELD))
            return 0;
        /* Release pairs with the acquire in taut__lock_rouse(): LOCK_WAKE, cleared above, is set
         * after this. */
    } while (!atomic_compare_exchange_weak_explicit(&lock->word, &seen, seen | LOCK_HEAD_ASLEEP,
                                                    memory_order_release, memory_order_relaxed));
    return 1;
}

/* Sleeps once, and tells what the next look is for. */
static enum turn sleep_once(struct taut_lock *lock, struct taut__lock_node *node, uint64_t until_ns,
                            struct taut_lock_report *report)
{
    /* Who is promoted after this look has LOCK_WAKE set by the release that follows. */
    if (taut__lock_is_head(lock, node) && !announce_sleep(lock, node))
        return TURN_NEW;
    uint32_t slept =
        taut__futex_wait(&node->wake, 0, until_ns, TAUT__FUTEX_PRIVATE) != TAUT__FUTEX_CHANGED;
    report->parks += slept;
    /* Acquire pairs with the releases of LOCK_WAKE and LOCK_RETEST in the queue. */
    uint32_t told = atomic_fetch_and_explicit(&node->wake, ~LOCK_RETEST, memory_order_acquire);
    if (!(told & LOCK_WAKE))
        return TURN_IDLE;
    return slept ? TURN_WOKEN : TURN_NEW;
}

/* In the queue until one of the outcomes; *word is the one the lock was taken in. */
static uint32_t wait_in_queue(struct taut_lock *lock, struct taut__lock_node *node,
                              const struct wish *wish, struct taut_lock_report *report)
{
    enum turn turn = TURN_NEW;
    uint64_t word = 0;
    for (;;) {
        enum tried seen = TRY_HELD;
        int is_head = taut__lock_is_head(lock, node);
        if (is_head) {
            seen = try_as_head(lock, wish, &word, turn, report);
        } else if (wish->gone) {
            report->turns++;
            if (wish->gone(wish->context))
                seen = TRY_GONE;
        }
        uint64_t now_ns = taut_now_ns();
        report->waited_ns = now_ns - node->queued_ns;
        if (seen == TRY_TAKEN) {
            taut__lock_served(lock, node, word, report);
            return own(lock, wish->tid, word, 0);
        }
        if (seen == TRY_GONE) {
            taut__lock_leave(lock, node, 0, report);
            return TAUT_LOCK_GONE;
        }
        if (now_ns >= wish->deadline_ns) {
            if (taut__lock_leave(lock, node, 1, report) == TAUT__LOCK_TOOK)
                return own(lock, wish->tid, word, 0);
            return TAUT_LOCK_EXPIRED;
        }
        uint64_t until_ns = wish->deadline_ns;
        if (wish->gone && until_ns - now_ns > LOCK_OR_SLICE_NS)
            until_ns = now_ns + LOCK_OR_SLICE_NS;
        turn = sleep_once(lock, node, until_ns, report);
        if (!is_head && turn == TURN_IDLE)
            turn = TURN_NEW; /* it may have become the oldest */
    }
}

static uint32_t is_thread_gone(int32_t tid)
{
    if (tid == 0)
        return 0;
    int saved_errno = errno;
    uint32_t gone = syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH;
    errno = saved_errno;
    return gone;
}

/* Expired without the lock: what is known about whoever has it. */
static uint32_t expire(struct taut_lock *lock, const struct wish *wish,
                       struct taut_lock_report *report)
{
    report->owner_gone = (int32_t)is_thread_gone(read_tid(&lock->owner_tid));
    if (wish->deadline_ns != 0) /* 0 is no time to be late by */
        report->late_ns = taut_now_ns() - wish->deadline_ns;
    taut__lock_add(&lock->expired, 1);
    return TAUT_LOCK_EXPIRED;
}

/* What does not need a wait, or can't have one; else NOT_AT_ONCE. */
static int attempt_at_once(struct taut_lock *lock, const struct wish *wish,
                           struct taut_lock_report *report)
{
    uint64_t word;
    if (wish->gone && wish->gone(wish->context)) {
        taut__lock_add(&lock->gone, 1);
        return TAUT_LOCK_GONE;
    }
    int32_t found_tid = read_tid(&lock->owner_tid);
    if (taut__lock_take_new(lock, &word))
        return (int)own(lock, wish->tid, word, 1);
    if (found_tid == wish->tid)
        return TAUT_ESTATE;
    report->found_tid = found_tid;
    return NOT_AT_ONCE;
}

static int attempt_queued(struct taut_lock *lock, const struct wish *wish,
                          struct taut_lock_report *report)
{
    uint64_t word;
    struct taut__lock_node node = {.queued_ns = taut_now_ns(), .has_reason = wish->gone != NULL};
    if (node.queued_ns >= wish->deadline_ns)
        return (int)expire(lock, wish, report);
    if (taut__lock_take_or_come(lock, &node, &word))
        return (int)own(lock, wish->tid, word, 1);
    uint32_t outcome = wait_in_queue(lock, &node, wish, report);
    if (outcome == TAUT_LOCK_EXPIRED)
        return (int)expire(lock, wish, report);
    if (outcome == TAUT_LOCK_GONE)
        taut__lock_add(&lock->gone, 1);
    uint64_t now_ns = node.queued_ns + report->waited_ns;
    if (now_ns > wish->deadline_ns)
        report->late_ns = now_ns - wish->deadline_ns;
    return (int)outcome;
}

static int attempt(struct taut_lock *lock, int (*gone)(void *context), void *context,
                   uint64_t deadline_ns, struct taut_lock_report *report, int queue)
{
    struct taut_lock_report filled = {0};
    int code = refuse(lock);
    if (code == 0 && lock->robust)
        code = taut__lock_robust_watch();
    if (code)
        return code;
    const struct wish wish = {
        .deadline_ns = deadline_ns, .gone = gone, .context = context, .tid = taut__tid()};
    int outcome = attempt_at_once(lock, &wish, &filled);
    if (outcome == NOT_AT_ONCE)
        outcome = queue ? attempt_queued(lock, &wish, &filled) : TAUT_LOCK_TAKEN;
    if (outcome < 0 || !report)
        return outcome;
    filled.outcome = (uint32_t)outcome;
    *report = filled;
    return outcome;
}

int taut_lock_acquire(struct taut_lock *lock, uint64_t deadline_ns, struct taut_lock_report *report)
{
    return attempt(lock, NULL, NULL, deadline_ns, report, 1);
}

int taut_lock_try(struct taut_lock *lock, struct taut_lock_report *report)
{
    return attempt(lock, NULL, NULL, 0, report, 0);
}

int taut_lock_or(struct taut_lock *lock, int (*gone)(void *context), void *context,
                 uint64_t deadline_ns, struct taut_lock_report *report)
{
    return gone ? attempt(lock, gone, context, deadline_ns, report, 1) : TAUT_EINVAL;
}

void taut_lock_retest(struct taut_lock *lock)
{
    if (refuse(lock))
        return;
    /* seq_cst, with the fence in taut__lock_take_or_come(): the caller has removed a reason and now
     * looks for waiters; a waiter counts itself and then tests its reason. One of the two sees the
     * other. */
    taut__full_fence();
    if (atomic_load_explicit(&lock->reasons, memory_order_relaxed) != 0)
        taut__lock_retest_all(lock);
}
