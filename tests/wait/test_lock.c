/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock's contract: options, refusals, owners that die, forks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <taut/lock.h>

#include "base/process.h"

static pthread_key_t key_before, key_after; /* made before and after the library's own */

static struct taut_lock *make(struct taut_lock *lock, uint32_t policy, uint32_t robust)
{
    const struct taut_lock_options options = {
        .size = sizeof options, .policy = policy, .robust = robust};
    assert_int_equal(taut_lock_init(lock, &options, NULL), 0);
    return lock;
}

static struct taut_lock_stats stats_of(const struct taut_lock *lock)
{
    struct taut_lock_stats stats;
    taut_lock_stats(lock, &stats);
    return stats;
}

static int run_thread(void *(*body)(void *), void *context)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, body, context) == 0 ? pthread_join(thread, NULL) : -1;
}

/* --- options and refusals --- */

static void options_are_checked(void **state)
{
    (void)state;
    static struct taut_lock lock;
    const struct taut_lock_options wrong[] = {
        {.size = sizeof wrong[0] - 1},
        {.size = 4},
        {.size = sizeof wrong[0], .policy = TAUT_LOCK_FIFO + 1},
        {.size = sizeof wrong[0], .bypass_max = 201},
        {.size = sizeof wrong[0], .robust = 2},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct taut_err err = {0};
        assert_int_equal(taut_lock_init(&lock, &wrong[i], &err), TAUT_EINVAL);
        assert_int_equal(err.code, TAUT_EINVAL);
        assert_true(err.text[0] != '\0');
        assert_int_equal(taut_lock_init(&lock, &wrong[i], NULL), TAUT_EINVAL);
    }
    assert_int_equal(taut_lock_init(NULL, NULL, NULL), TAUT_EINVAL);
    void *between_lines = (char *)&lock + TAUT_LINE_BYTES / 2;
    assert_int_equal(taut_lock_init(between_lines, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_lock_try(&lock, NULL), TAUT_EINVAL);
}

static void options_can_be_read_back(void **state)
{
    (void)state;
    static struct taut_lock lock;
    struct taut_lock_options options = {.size = sizeof options};
    assert_int_equal(taut_lock_init(&lock, NULL, NULL), 0);
    assert_int_equal(taut_lock_effective(&lock, &options), 0);
    assert_int_equal(options.size, sizeof options);
    assert_int_equal(options.policy, TAUT_LOCK_BOUNDED);
    assert_int_equal(options.bypass_max, TAUT_LOCK_BYPASS_MAX);
    assert_int_equal(options.wait_max_ns, TAUT_LOCK_WAIT_MAX_NS);
    assert_int_equal(options.robust, 0);
    const struct taut_lock_options wanted = {.size = sizeof wanted,
                                             .bypass_max = 200,
                                             .robust = 1,
                                             .wait_max_ns = TAUT_NEVER_NS,
                                             .spin_ns = TAUT_WAIT_NONE_NS};
    assert_int_equal(taut_lock_init(&lock, &wanted, NULL), 0);
    assert_int_equal(taut_lock_effective(&lock, &options), 0);
    assert_memory_equal(&options, &wanted, sizeof options);
    struct taut_lock_options other = wanted; /* no size: version 0.1 */
    other.size = 0;
    assert_int_equal(taut_lock_init(&lock, &other, NULL), 0);
    assert_int_equal(taut_lock_effective(&lock, &options), 0);
    assert_memory_equal(&options, &wanted, sizeof options);
    other.size = offsetof(struct taut_lock_options, wait_max_ns); /* an older header's */
    assert_int_equal(taut_lock_init(&lock, &other, NULL), 0);
    assert_int_equal(taut_lock_effective(&lock, &options), 0);
    assert_int_equal(options.bypass_max, 200);
    assert_int_equal(options.wait_max_ns, TAUT_LOCK_WAIT_MAX_NS);
    assert_int_equal(options.spin_ns, 0);
    make(&lock, TAUT_LOCK_FIFO, 0);
    assert_int_equal(taut_lock_effective(&lock, &options), 0);
    assert_int_equal(options.policy, TAUT_LOCK_FIFO);
    assert_int_equal(options.bypass_max, 0);
    assert_int_equal(taut_lock_effective(NULL, &options), TAUT_EINVAL);
    assert_int_equal(options.policy, TAUT_LOCK_FIFO); /* left alone */
    /* An older header's: nothing is written behind its end. */
    memset(&options, 0xa5, sizeof options);
    options.size = offsetof(struct taut_lock_options, wait_max_ns);
    assert_int_equal(taut_lock_effective(&lock, &options), 0);
    assert_int_equal(options.policy, TAUT_LOCK_FIFO);
    assert_true(options.wait_max_ns == UINT64_C(0xa5a5a5a5a5a5a5a5));
    options.size = 3;
    assert_int_equal(taut_lock_effective(&lock, &options), TAUT_EINVAL);
}

static int never_gone(void *context)
{
    (void)context;
    return 0;
}

static void what_is_no_lock_is_refused(void **state)
{
    (void)state;
    static struct taut_lock never_made, ended;
    struct taut_lock_report report;
    struct taut_lock_stats stats;
    make(&ended, TAUT_LOCK_BOUNDED, 0);
    assert_int_equal(taut_lock_destroy(&ended), 0);
    struct taut_lock *const wrong[] = {NULL, &never_made, &ended};
    for (size_t i = 0; i < 3; i++) {
        memset(&report, 0xff, sizeof report);
        assert_int_equal(taut_lock_acquire(wrong[i], 0, &report), TAUT_EINVAL);
        assert_int_equal(report.bypass_count, UINT32_MAX); /* left alone */
        assert_int_equal(report.outcome, UINT32_MAX);
        assert_int_equal(taut_lock_try(wrong[i], NULL), TAUT_EINVAL);
        assert_int_equal(taut_lock_or(wrong[i], never_gone, NULL, 0, NULL), TAUT_EINVAL);
        assert_int_equal(taut_lock_destroy(wrong[i]), TAUT_EINVAL);
        taut_lock_retest(wrong[i]);
        taut_lock_stats(wrong[i], &stats);
        assert_int_equal(stats.acquired, 0);
    }
}

static void a_holder_is_told_that_it_holds(void **state)
{
    (void)state;
    static struct taut_lock lock;
    make(&lock, TAUT_LOCK_BOUNDED, 0);
    assert_int_equal(taut_lock_acquire(&lock, TAUT_NEVER_NS, NULL), TAUT_LOCK_ACQUIRED);
    assert_int_equal(stats_of(&lock).owner_tid, taut__tid());
    assert_int_equal(taut_lock_acquire(&lock, TAUT_NEVER_NS, NULL), TAUT_ESTATE);
    assert_int_equal(taut_lock_acquire(&lock, 0, NULL), TAUT_ESTATE);
    struct taut_lock_report report;
    memset(&report, 0xff, sizeof report);
    assert_int_equal(taut_lock_try(&lock, &report), TAUT_ESTATE);
    assert_int_equal(report.outcome, UINT32_MAX);
    assert_int_equal(taut_lock_or(&lock, never_gone, NULL, TAUT_NEVER_NS, &report), TAUT_ESTATE);
    assert_int_equal(report.found_tid, -1);
    assert_int_equal(taut_lock_destroy(&lock), TAUT_EBUSY);
    taut_lock_release(&lock);
    assert_int_equal(stats_of(&lock).acquired, 1);
    assert_int_equal(taut_lock_destroy(&lock), 0);
}

static void outcomes_have_names(void **state)
{
    (void)state;
    const char *const names[] = {"acquired", "expired", "gone", "owner-died", "taken", "?"};
    for (uint32_t i = 0; i < 6; i++)
        assert_string_equal(taut_lock_outcome_name(i), names[i]);
    assert_string_equal(taut_lock_outcome_name(UINT32_MAX), "?");
}

/* --- releasing what one does not hold --- */

static void *hold_and_return(void *context)
{
    if (taut_lock_acquire(context, TAUT_NEVER_NS, NULL) != TAUT_LOCK_ACQUIRED)
        abort();
    return NULL;
}

/* Runs in a child: releases a lock that nobody, or another thread, holds. */
static void release_wrongly(int held)
{
    static struct taut_lock lock;
    if (taut_lock_init(&lock, NULL, NULL) != 0)
        _exit(1);
    if (held && run_thread(hold_and_return, &lock) != 0)
        _exit(1);
    printf("%d %d\n", taut__tid(), stats_of(&lock).owner_tid);
    fflush(stdout);
    taut_lock_release(&lock);
    _exit(0);
}

static void releasing_without_holding_aborts_and_names_both(void **state)
{
    (void)state;
    for (int held = 0; held < 2; held++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            dup2(ends[1], STDOUT_FILENO);
            dup2(ends[1], STDERR_FILENO);
            signal(SIGABRT, SIG_DFL);
            release_wrongly(held);
        }
        close(ends[1]);
        char text[2048] = {0}, wanted[128];
        size_t length = 0;
        ssize_t got;
        while ((got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
            length += (size_t)got;
        close(ends[0]);
        int status, caller, owner;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        assert_int_equal(sscanf(text, "%d %d", &caller, &owner), 2);
        assert_int_equal(owner != 0, held);
        snprintf(wanted, sizeof wanted, "thread %d releases a lock that thread %d holds", caller,
                 owner);
        assert_non_null(strstr(text, wanted));
    }
}

/* --- owners that end --- */

static void *hold_and_exit(void *context)
{
    hold_and_return(context);
    pthread_exit(NULL);
}

static void a_robust_lock_tells_that_its_owner_died(void **state)
{
    (void)state;
    static struct taut_lock lock;
    struct taut_lock_report report;
    make(&lock, TAUT_LOCK_BOUNDED, 1);
    void *(*const bodies[])(void *) = {hold_and_return, hold_and_exit};
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(run_thread(bodies[i], &lock), 0);
        assert_int_equal(taut_lock_acquire(&lock, TAUT_NEVER_NS, &report), TAUT_LOCK_OWNER_DIED);
        assert_int_equal(report.outcome, TAUT_LOCK_OWNER_DIED);
        assert_int_equal(stats_of(&lock).owner_tid, taut__tid());
        taut_lock_release(&lock);
        /* Told once: to the one who can repair it. */
        assert_int_equal(taut_lock_try(&lock, NULL), TAUT_LOCK_ACQUIRED);
        taut_lock_release(&lock);
        assert_int_equal(stats_of(&lock).owner_died, i + 1);
    }
    assert_int_equal(stats_of(&lock).acquired, 6);
    assert_int_equal(taut_lock_destroy(&lock), 0);
}

static void *wait_for_it(void *context)
{
    int *result = calloc(1, sizeof *result);
    if (result) {
        *result = taut_lock_acquire(context, TAUT_NEVER_NS, NULL);
        taut_lock_release(context);
    }
    return result;
}

struct dying {
    struct taut_lock *lock;
    uint32_t waiters; /* dies when so many wait */
};

static void *hold_until_awaited(void *context)
{
    struct dying *dying = context;
    hold_and_return(dying->lock);
    while (stats_of(dying->lock).waiters < dying->waiters)
        sched_yield();
    return NULL;
}

static void who_waits_for_a_dead_owner_is_served(void **state)
{
    (void)state;
    static struct taut_lock lock;
    struct dying dying = {make(&lock, TAUT_LOCK_BOUNDED, 1), 2};
    pthread_t owner, waiters[2];
    assert_int_equal(pthread_create(&owner, NULL, hold_until_awaited, &dying), 0);
    while (stats_of(&lock).owner_tid == 0)
        sched_yield();
    int died = 0, acquired = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&waiters[i], NULL, wait_for_it, &lock), 0);
    for (int i = 0; i < 2; i++) {
        void *result;
        assert_int_equal(pthread_join(waiters[i], &result), 0);
        assert_non_null(result);
        died += *(int *)result == TAUT_LOCK_OWNER_DIED;
        acquired += *(int *)result == TAUT_LOCK_ACQUIRED;
        free(result);
    }
    assert_int_equal(pthread_join(owner, NULL), 0);
    assert_int_equal(died, 1);
    assert_int_equal(acquired, 1);
    assert_int_equal(taut_lock_destroy(&lock), 0);
}

static void *hold_three_release_one(void *context)
{
    struct taut_lock *locks = context;
    for (int i = 0; i < 4; i++)
        hold_and_return(&locks[i]);
    taut_lock_release(&locks[1]); /* in the middle of the list */
    taut_lock_release(&locks[3]); /* its first */
    return NULL;
}

static void only_what_is_still_held_is_left(void **state)
{
    (void)state;
    static struct taut_lock locks[4];
    for (int i = 0; i < 4; i++)
        make(&locks[i], TAUT_LOCK_BOUNDED, 1);
    assert_int_equal(run_thread(hold_three_release_one, locks), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(taut_lock_try(&locks[i], NULL),
                         i % 2 ? TAUT_LOCK_ACQUIRED : TAUT_LOCK_OWNER_DIED);
        taut_lock_release(&locks[i]);
        assert_int_equal(taut_lock_destroy(&locks[i]), 0);
    }
}

static void release_at_end(void *context)
{
    taut_lock_release(context);
}

struct destroyed {
    struct taut_lock before, after;
};

static void *hold_for_destructors(void *context)
{
    struct destroyed *locks = context;
    hold_and_return(&locks->before);
    hold_and_return(&locks->after);
    if (pthread_setspecific(key_before, &locks->before) ||
        pthread_setspecific(key_after, &locks->after))
        abort();
    return NULL;
}

/* Destructors run in an order of their own: what one of them still releases was not left. */
static void a_destructor_may_release_what_the_thread_held(void **state)
{
    (void)state;
    static struct destroyed locks;
    make(&locks.before, TAUT_LOCK_BOUNDED, 1);
    make(&locks.after, TAUT_LOCK_BOUNDED, 1);
    assert_int_equal(run_thread(hold_for_destructors, &locks), 0);
    assert_int_equal(taut_lock_try(&locks.before, NULL), TAUT_LOCK_ACQUIRED);
    assert_int_equal(taut_lock_try(&locks.after, NULL), TAUT_LOCK_ACQUIRED);
    taut_lock_release(&locks.before);
    taut_lock_release(&locks.after);
}

static void a_lock_that_is_not_robust_says_that_its_holder_is_gone(void **state)
{
    (void)state;
    static struct taut_lock lock;
    struct taut_lock_report report = {0};
    make(&lock, TAUT_LOCK_BOUNDED, 0);
    assert_int_equal(run_thread(hold_and_return, &lock), 0);
    /* The kernel forgets a joined thread a moment after the join. */
    uint64_t until_ns = taut_now_ns() + 10 * TAUT_NS_PER_S;
    do {
        assert_int_equal(taut_lock_acquire(&lock, taut_now_ns() + TAUT_NS_PER_MS, &report),
                         TAUT_LOCK_EXPIRED);
    } while (!report.owner_gone && taut_now_ns() < until_ns);
    assert_int_equal(report.owner_gone, 1);
    assert_true(report.found_tid != 0);
    assert_int_equal(report.waited_ns >= TAUT_NS_PER_MS, 1);
    assert_int_equal(taut_lock_destroy(&lock), TAUT_EBUSY);
}

/* --- fork --- */

/* In a child that has `lock` of its parent, which the forking thread held. 0 or what went wrong. */
static int as_child(struct taut_lock *lock)
{
    static struct taut_lock own;
    const struct taut_lock_options options = {.size = sizeof options, .robust = 1};
    if (taut_lock_acquire(lock, TAUT_NEVER_NS, NULL) != TAUT_ESTATE ||
        taut_lock_try(lock, NULL) != TAUT_ESTATE ||
        taut_lock_or(lock, never_gone, NULL, TAUT_NEVER_NS, NULL) != TAUT_ESTATE)
        return 1;
    taut_lock_release(lock); /* not its own: nothing happens */
    taut_lock_retest(lock);
    if (taut_lock_init(&own, &options, NULL) != 0 ||
        taut_lock_acquire(&own, TAUT_NEVER_NS, NULL) != TAUT_LOCK_ACQUIRED)
        return 2;
    if (own.held_next != NULL) /* the parent's list is not continued */
        return 3;
    taut_lock_release(&own);
    if (taut_lock_destroy(lock) != 0)
        return 4;
    if (taut_lock_try(lock, NULL) != TAUT_EINVAL)
        return 5;
    return taut_lock_destroy(&own) == 0 ? 0 : 6;
}

static void a_childs_copy_refuses(void **state)
{
    (void)state;
    static struct taut_lock lock;
    make(&lock, TAUT_LOCK_BOUNDED, 1);
    assert_int_equal(taut_lock_try(&lock, NULL), TAUT_LOCK_ACQUIRED);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(as_child(&lock));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    taut_lock_release(&lock);
    assert_int_equal(taut_lock_destroy(&lock), 0);
}

static int make_keys(void **state)
{
    static struct taut_lock first;
    const struct taut_lock_options options = {.size = sizeof options, .robust = 1};
    (void)state;
    return pthread_key_create(&key_before, release_at_end) ||
           taut_lock_init(&first, &options, NULL) || pthread_key_create(&key_after, release_at_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(options_can_be_read_back),
        cmocka_unit_test(what_is_no_lock_is_refused),
        cmocka_unit_test(a_holder_is_told_that_it_holds),
        cmocka_unit_test(outcomes_have_names),
        cmocka_unit_test(releasing_without_holding_aborts_and_names_both),
        cmocka_unit_test(a_robust_lock_tells_that_its_owner_died),
        cmocka_unit_test(who_waits_for_a_dead_owner_is_served),
        cmocka_unit_test(only_what_is_still_held_is_left),
        cmocka_unit_test(a_destructor_may_release_what_the_thread_held),
        cmocka_unit_test(a_lock_that_is_not_robust_says_that_its_holder_is_gone),
        cmocka_unit_test(a_childs_copy_refuses),
    };
    return cmocka_run_group_tests_name("wait/lock", tests, make_keys, NULL);
}
