/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bound on bypasses with threads that run as they like: equal holders, and one that holds a
 * hundred times as long as the others and re-takes at once. Each acquisition's own count is held
 * against the bound, every thread gets on, and it must have been overtaken at all for that to say
 * anything.
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

#define THREADS 8u

struct run {
    struct taut_lock lock;
    _Atomic int stop;
};

struct worker {
    struct run *run;
    uint64_t held_ns, outside_ns;
    uint64_t acquired, overtaken, kept, failed;
    uint32_t bypass_most;
    pthread_t thread;
};

/* Until so much has passed: who loses its CPU in it holds the lock for longer, as happens to all.
 */
static void spend(uint64_t duration_ns)
{
    uint64_t end_ns = taut_now_ns() + duration_ns;
    while (duration_ns && taut_now_ns() < end_ns)
        ;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct taut_lock_report report;
    while (!atomic_load_explicit(&worker->run->stop, memory_order_relaxed)) {
        if (taut_lock_acquire(&worker->run->lock, TAUT_NEVER_NS, &report) != TAUT_LOCK_ACQUIRED) {
            worker->failed++;
            continue;
        }
        spend(worker->held_ns);
        taut_lock_release(&worker->run->lock);
        worker->acquired++;
        worker->overtaken += report.bypass_count > 0;
        worker->kept += report.kept;
        if (report.bypass_count > worker->bypass_most)
            worker->bypass_most = report.bypass_count;
        spend(worker->outside_ns);
    }
    return NULL;
}

static void start(struct run *run, struct worker *workers, uint32_t threads, uint32_t bypass_max,
                  uint64_t wait_max_ns)
{
    const struct taut_lock_options options = {
        .size = sizeof options, .bypass_max = bypass_max, .wait_max_ns = wait_max_ns};
    memset(run, 0, sizeof *run);
    assert_int_equal(taut_lock_init(&run->lock, &options, NULL), 0);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].run = run;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

/* Returns how many acquisitions were overtaken. */
static uint64_t finish(struct run *run, struct worker *workers, uint32_t threads, uint32_t bound)
{
    struct timespec length = {.tv_nsec = (long)(400 * TAUT_NS_PER_MS)};
    nanosleep(&length, NULL);
    atomic_store(&run->stop, 1);
    uint64_t overtaken = 0;
    for (uint32_t i = 0; i < threads; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (uint32_t i = 0; i < threads; i++) {
        assert_int_equal(workers[i].failed, 0);
        assert_true(workers[i].acquired > 0);
        assert_true(workers[i].bypass_most <= bound);
        overtaken += workers[i].overtaken;
    }
    assert_int_equal(taut_lock_destroy(&run->lock), 0);
    return overtaken;
}

static void equal_holders_are_bypassed_eight_times_at_most(void **state)
{
    (void)state;
    static struct run run;
    uint64_t overtaken = 0;
    for (uint32_t threads = 2; threads <= THREADS; threads *= 2) {
        struct worker workers[THREADS] = {0};
        for (uint32_t i = 0; i < threads; i++) {
            workers[i].held_ns = TAUT_NS_PER_US;
            workers[i].outside_ns = TAUT_NS_PER_US / 2;
        }
        start(&run, workers, threads, 0, TAUT_NEVER_NS);
        overtaken += finish(&run, workers, threads, TAUT_LOCK_BYPASS_MAX);
    }
    if (overtaken == 0)
        fail_msg("inconclusive: nobody was overtaken");
}

static void a_long_holder_that_re_takes_at_once_does_not_starve_the_others(void **state)
{
    (void)state;
    static struct run run;
    uint64_t overtaken = 0;
    const uint32_t bounds[] = {1, 8, 30};
    for (uint32_t round = 0; round < 3; round++) {
        struct worker workers[4] = {{.held_ns = 100 * TAUT_NS_PER_US}};
        for (uint32_t i = 1; i < 4; i++) {
            workers[i].held_ns = TAUT_NS_PER_US;
            workers[i].outside_ns = TAUT_NS_PER_US / 2;
        }
        start(&run, workers, 4, bounds[round], TAUT_NEVER_NS);
        overtaken += finish(&run, workers, 4, bounds[round]);
    }
    if (overtaken == 0)
        fail_msg("inconclusive: nobody was overtaken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_holders_are_bypassed_eight_times_at_most),
        cmocka_unit_test(a_long_holder_that_re_takes_at_once_does_not_starve_the_others),
    };
    return cmocka_run_group_tests_name("wait/lock_bound", tests, NULL, NULL);
}
