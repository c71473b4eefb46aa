/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock under threads: one, two and four a CPU, and all on one CPU; not spinning, by default,
 * and without end; each policy; acquired for good, timed, tried and given up for a reason. What the
 * callers counted is what the lock counted, and nothing is left at rest. Five minutes
 * with TAUT_SOAK.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <taut/lock.h>
#include <taut/topology.h>

#include "wait/lock_internal.h"

#define THREADS_MAX 64

struct sums {
    uint64_t acquired, contended, expired, gone, taken, kept, parks, lost, bypass, bypass_most,
        waited_most_ns, wrong;
};

struct shared {
    struct taut_lock lock;
    uint64_t inside;  /* guarded: how many hold it */
    uint64_t entries; /* guarded */
    _Atomic int stop;
    uint32_t bound;
};

struct worker {
    struct shared *shared;
    uint64_t random;
    struct sums sums;
    pthread_t thread;
};

static uint64_t next_random(struct worker *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random >> 11;
}

static int gone_by_luck(void *context)
{
    return next_random(context) % 16 == 0;
}

static int attempt(struct worker *worker, struct taut_lock_report *report)
{
    struct taut_lock *lock = &worker->shared->lock;
    uint64_t soon_ns = taut_now_ns() + next_random(worker) % (50 * TAUT_NS_PER_US);
    switch (next_random(worker) % 8) {
    case 0:
        return taut_lock_try(lock, report);
    case 1:
        return taut_lock_or(lock, gone_by_luck, worker, TAUT_NEVER_NS, report);
    case 2:
        return taut_lock_or(lock, gone_by_luck, worker, soon_ns, report);
    case 3:
        return taut_lock_acquire(lock, soon_ns, report);
    case 4:
        taut_lock_retest(lock);
        return taut_lock_acquire(lock, 0, report);
    default:
        return taut_lock_acquire(lock, TAUT_NEVER_NS, report);
    }
}

static void hold(struct worker *worker)
{
    struct shared *shared = worker->shared;
    shared->inside++;
    worker->sums.wrong += shared->inside != 1;
    for (uint64_t left = next_random(worker) % 256; left > 0; left--)
        __asm__ volatile("" ::: "memory");
    shared->entries++;
    worker->sums.wrong += shared->inside != 1;
    shared->inside--;
    taut_lock_release(&shared->lock);
}

static void count(struct worker *worker, int result, const struct taut_lock_report *report)
{
    struct sums *sums = &worker->sums;
    sums->acquired += result == TAUT_LOCK_ACQUIRED;
    sums->contended += result == TAUT_LOCK_ACQUIRED && report->waited_ns > 0;
    sums->expired += result == TAUT_LOCK_EXPIRED;
    sums->gone += result == TAUT_LOCK_GONE;
    sums->taken += result == TAUT_LOCK_TAKEN;
    sums->wrong += result < 0 || result == TAUT_LOCK_OWNER_DIED;
    sums->wrong += result != (int)report->outcome;
    sums->kept += report->kept;
    sums->parks += report->parks;
    sums->lost += report->wakeups_lost;
    sums->wrong += report->wakeups_lost > report->parks;
    sums->bypass += report->bypass_count;
    sums->wrong += report->bypass_count > worker->shared->bound;
    if (report->bypass_count > sums->bypass_most)
        sums->bypass_most = report->bypass_count;
    if (report->waited_ns > sums->waited_most_ns)
        sums->waited_most_ns = report->waited_ns;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct taut_lock_report report;
    while (!atomic_load_explicit(&worker->shared->stop, memory_order_relaxed)) {
        int result = attempt(worker, &report);
        count(worker, result, &report);
        if (result == TAUT_LOCK_ACQUIRED)
            hold(worker);
    }
    return NULL;
}

static void add(struct sums *sums, const struct sums *more)
{
    sums->acquired += more->acquired;
    sums->contended += more->contended;
    sums->expired += more->expired;
    sums->gone += more->gone;
    sums->taken += more->taken;
    sums->kept += more->kept;
    sums->parks += more->parks;
    sums->lost += more->lost;
    sums->bypass += more->bypass;
    sums->wrong += more->wrong;
    if (more->bypass_most > sums->bypass_most)
        sums->bypass_most = more->bypass_most;
    if (more->waited_most_ns > sums->waited_most_ns)
        sums->waited_most_ns = more->waited_most_ns;
}

static void same_at_rest(struct shared *shared, const struct sums *sums)
{
    struct taut_lock_stats stats;
    taut_lock_stats(&shared->lock, &stats);
    assert_int_equal(sums->wrong, 0);
    assert_int_equal(shared->inside, 0);
    assert_int_equal(shared->entries, sums->acquired);
    assert_int_equal(stats.acquired, sums->acquired);
    assert_int_equal(stats.contended, sums->contended);
    assert_int_equal(stats.expired, sums->expired);
    assert_int_equal(stats.gone, sums->gone);
    assert_int_equal(stats.kept, sums->kept);
    assert_int_equal(stats.parks, sums->parks);
    assert_int_equal(stats.wakeups_lost, sums->lost);
    assert_int_equal(stats.bypass_most, sums->bypass_most);
    assert_int_equal(stats.waited_most_ns, sums->waited_most_ns);
    assert_int_equal(stats.bypass_most_tid != 0, sums->bypass_most != 0);
    assert_true(stats.barged <= stats.acquired - stats.contended);
    assert_int_equal(stats.owner_tid, 0);
    assert_int_equal(stats.waiters, 0);
    assert_true((atomic_load(&shared->lock.word) & (LOCK_USED | LOCK_HEAD_ASLEEP)) == 0);
    assert_int_equal(atomic_load(&shared->lock.guard), 0);
    assert_int_equal(atomic_load(&shared->lock.reasons), 0);
    assert_int_equal(taut_lock_destroy(&shared->lock), 0);
}

static void run(uint32_t threads, uint32_t policy, uint64_t spin_ns, uint64_t for_ns,
                struct sums *all)
{
    static struct shared shared;
    static struct worker workers[THREADS_MAX];
    const struct taut_lock_options options = {
        .size = sizeof options, .policy = policy, .spin_ns = spin_ns};
    memset(&shared, 0, sizeof shared);
    memset(workers, 0, sizeof workers);
    assert_int_equal(taut_lock_init(&shared.lock, &options, NULL), 0);
    shared.bound = policy == TAUT_LOCK_BOUNDED ? TAUT_LOCK_BYPASS_MAX
                   : policy == TAUT_LOCK_FIFO  ? 0
                                               : UINT32_MAX;
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].shared = &shared;
        workers[i].random = 88172645463325252u + i * 7919u;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    struct timespec length = {.tv_sec = (time_t)(for_ns / TAUT_NS_PER_S),
                              .tv_nsec = (long)(for_ns % TAUT_NS_PER_S)};
    nanosleep(&length, NULL);
    atomic_store(&shared.stop, 1);
    struct sums sums = {0};
    for (uint32_t i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        add(&sums, &workers[i].sums);
    }
    same_at_rest(&shared, &sums);
    add(all, &sums);
}

static uint64_t all_ns(void)
{
    return (getenv("TAUT_SOAK") ? 300 : 3) * TAUT_NS_PER_S;
}

static void each_policy_and_spin(uint32_t threads, uint64_t for_ns, struct sums *all)
{
    const uint64_t spins[] = {TAUT_WAIT_NONE_NS, 0, TAUT_NEVER_NS};
    for (uint32_t policy = TAUT_LOCK_BOUNDED; policy <= TAUT_LOCK_FIFO; policy++) {
        for (uint32_t i = 0; i < 3; i++)
            run(threads, policy, spins[i], for_ns / 9, all);
    }
}

static void premises(const struct sums *sums)
{
    if (sums->contended == 0 || sums->expired == 0 || sums->gone == 0 || sums->taken == 0 ||
        sums->parks == 0)
        fail_msg("inconclusive: not all that can happen has happened");
}

static void nothing_is_lost_with_1_2_and_4_threads_a_cpu(void **state)
{
    (void)state;
    struct taut_cpuset set;
    assert_int_equal(taut_cpuset_of_self(&set), 0);
    uint32_t cpus = taut_cpuset_count(&set);
    for (uint32_t each = 1; each <= 4; each *= 2) {
        struct sums sums = {0};
        uint32_t threads = each * (cpus > 1 ? cpus : 2);
        each_policy_and_spin(threads < THREADS_MAX ? threads : THREADS_MAX, all_ns() / 4, &sums);
        premises(&sums);
    }
}

static void nothing_is_lost_on_one_cpu(void **state)
{
    (void)state;
    struct taut_cpuset before;
    struct sums sums = {0};
    assert_int_equal(taut_cpuset_of_self(&before), 0);
    assert_int_equal(taut_cpu_bind_self(taut_cpuset_nth(&before, 0), NULL), 0);
    each_policy_and_spin(4, all_ns() / 4, &sums);
    assert_int_equal(taut_cpuset_bind_self(&before, NULL), 0);
    premises(&sums);
}

/* --- the last one out --- */

static void *free_it(void *context)
{
    struct taut_lock *lock = context;
    if (taut_lock_acquire(lock, TAUT_NEVER_NS, NULL) != TAUT_LOCK_ACQUIRED)
        abort();
    taut_lock_release(lock);
    if (taut_lock_destroy(lock) != 0)
        abort();
    memset(lock, 0xff, sizeof *lock);
    free(lock);
    return NULL;
}

/* Whoever released before does not touch the lock any more. A sanitizer sees more of it than we do.
 */
static void the_next_holder_may_free_the_lock(void **state)
{
    (void)state;
    const struct taut_lock_options options = {.size = sizeof options, .spin_ns = TAUT_WAIT_NONE_NS};
    for (int round = 0; round < 500; round++) {
        struct taut_lock *lock = aligned_alloc(TAUT_LINE_BYTES, sizeof *lock);
        struct taut_lock_stats stats;
        pthread_t thread;
        assert_non_null(lock);
        assert_int_equal(taut_lock_init(lock, round % 2 ? &options : NULL, NULL), 0);
        assert_int_equal(taut_lock_acquire(lock, 0, NULL), TAUT_LOCK_ACQUIRED);
        assert_int_equal(pthread_create(&thread, NULL, free_it, lock), 0);
        do {
            sched_yield();
            taut_lock_stats(lock, &stats);
        } while (stats.waiters == 0);
        if (round % 4 < 2)
            sched_yield(); /* it sleeps, or it is on its way to */
        taut_lock_release(lock);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_with_1_2_and_4_threads_a_cpu),
        cmocka_unit_test(nothing_is_lost_on_one_cpu),
        cmocka_unit_test(the_next_holder_may_free_the_lock),
    };
    return cmocka_run_group_tests_name("wait/lock_stress", tests, NULL, NULL);
}
