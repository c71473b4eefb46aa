/* SPDX-License-Identifier: BSD-2-Clause */
/* Events with real threads and a real kernel: bad input, waking all, fork, ending with waiters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <taut/wait.h>

#include "base/futex.h"

#define LONG_NS (10 * TAUT_NS_PER_S)
#define WAITERS 6

static const struct taut_wait_policy parks = {
    .size = sizeof parks, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_WAIT_NONE_NS};

static uint64_t in_ns(uint64_t duration_ns)
{
    return taut_deadline_ns(taut_now_ns(), duration_ns);
}

static struct taut_event_stats stats_of(const struct taut_event *event)
{
    struct taut_event_stats stats;
    taut_event_stats(event, &stats);
    return stats;
}

/* Until `wanted` threads sleep on the event, or LONG_NS; 1 or 0. */
static int await_sleepers(const struct taut_event *event, uint32_t wanted)
{
    uint64_t give_up_ns = in_ns(LONG_NS);
    while (stats_of(event).sleepers != wanted) {
        if (taut_now_ns() > give_up_ns)
            return 0;
        usleep(100);
    }
    return 1;
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    static TAUT__LINE unsigned char room[2 * sizeof(struct taut_event)];
    struct taut_event *event = (void *)room, *crooked = (void *)(room + 64);
    assert_int_equal(taut_event_init(NULL), TAUT_EINVAL);
    assert_int_equal(taut_event_init(crooked), TAUT_EINVAL);
    assert_int_equal(taut_event_destroy(NULL), TAUT_EINVAL);
    assert_int_equal(taut_event_destroy(event), TAUT_EINVAL); /* never made */
    assert_int_equal(taut_wait(NULL, 0, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_wait(event, 0, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_event_init(event), 0);
    struct taut_window unmade = {0};
    const struct taut_wait_policy bad[] = {
        {.size = sizeof bad[0] - 1},
        {.size = 1},
        {.size = sizeof bad[0] - 4}, /* half a window */
        {.size = 8192},
        {.window = &unmade},
        {.size = sizeof bad[0], .window = &unmade},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(taut_wait(event, 0, 0, &bad[i], NULL), TAUT_EINVAL);
    assert_int_equal(stats_of(event).waits, 0); /* a refused call is no wait */
    const struct taut_wait_policy zero = {0};
    assert_int_equal(taut_wait(event, 0, 0, &zero, NULL), TAUT_WAIT_EXPIRED);
    assert_int_equal(taut_event_destroy(event), 0);
    assert_int_equal(taut_event_destroy(event), TAUT_EINVAL); /* ended already */
    assert_int_equal(taut_wait(event, 0, 0, NULL, NULL), TAUT_EINVAL);
}

/* Policies of callers who forgot the size, or have another header: each waits as it says. */
static void policies_of_other_headers_are_obeyed(void **state)
{
    (void)state;
    struct taut_event event;
    struct taut_window window;
    struct taut_wait_report report;
    const struct taut_window_options quiet = {.size = sizeof quiet, .cpus = 4, .quota = 2};
    assert_int_equal(taut_event_init(&event), 0);
    assert_int_equal(taut_window_init(&window, &quiet, NULL), 0);
    const uint64_t other_ns = 77 * TAUT_NS_PER_US;
    struct taut_wait_policy policy = {.spin_ns = other_ns, .yield_ns = 55, .window = &window};
    assert_int_equal(taut_wait(&event, 0, 0, &policy, &report), TAUT_WAIT_EXPIRED);
    assert_int_equal(report.spin_budget_ns, other_ns);
    assert_int_equal(report.yield_budget_ns, 55);
    assert_int_equal(window.waits, 1);
    /* What an older header did not have is not looked at. */
    policy.size = offsetof(struct taut_wait_policy, window);
    policy.window = (void *)(uintptr_t)64; /* no memory */
    assert_int_equal(taut_wait(&event, 0, 0, &policy, &report), TAUT_WAIT_EXPIRED);
    assert_int_equal(report.spin_budget_ns, other_ns);
    assert_int_equal(report.yield_budget_ns, 55);
    assert_int_equal(taut_wait(&event, 1, 0, &policy, NULL), TAUT_WAIT_CAUGHT);
    policy.size = offsetof(struct taut_wait_policy, yield_ns);
    assert_int_equal(taut_wait(&event, 0, 0, &policy, &report), TAUT_WAIT_EXPIRED);
    assert_int_equal(report.spin_budget_ns, other_ns);
    assert_int_equal(report.yield_budget_ns, 0);
    assert_int_equal(window.waits, 1);
    struct {
        struct taut_wait_policy known;
        uint64_t unknown;
    } newer = {.known = {.size = sizeof newer, .spin_ns = other_ns, .window = &window}};
    assert_int_equal(taut_wait(&event, 0, 0, &newer.known, &report), TAUT_WAIT_EXPIRED);
    assert_int_equal(report.spin_budget_ns, other_ns);
    assert_int_equal(taut_wait(&event, 1, 0, &newer.known, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(window.waits, 3);
    newer.unknown = 1;
    assert_int_equal(taut_wait(&event, 0, 0, &newer.known, &report), TAUT_EINVAL);
    assert_int_equal(taut_event_destroy(&event), 0);
}

static void a_report_is_filled_completely(void **state)
{
    (void)state;
    struct taut_event event;
    struct taut_wait_report report, again;
    assert_int_equal(taut_event_init(&event), 0);
    taut_event_publish(&event);
    for (int round = 0; round < 3; round++) {
        memset(&report, 0xa5, sizeof report);
        memset(&again, 0x5a, sizeof again);
        uint32_t seen = round == 0 ? 0 : 1;
        uint64_t deadline_ns = round == 2 ? in_ns(TAUT_NS_PER_MS) : 0;
        int outcome = taut_wait(&event, seen, deadline_ns, &parks, &report);
        assert_int_equal(outcome, taut_wait(&event, seen, deadline_ns, &parks, &again));
        assert_int_equal(report.outcome, outcome);
        /* Equal whatever was there before, but for what takes time. */
        report.late_ns = again.late_ns = 0;
        report.parks = again.parks = 0;
        report.phase = again.phase = 0;
        assert_memory_equal(&report, &again, sizeof report);
    }
    assert_int_equal(taut_event_destroy(&event), 0);
}

/* All four corners of the range of deadlines, with and without something to catch. */
static void deadlines_at_the_ends_of_their_range(void **state)
{
    (void)state;
    struct taut_event event;
    assert_int_equal(taut_event_init(&event), 0);
    static const uint64_t past_ns[] = {0, 1, TAUT_NS_PER_S};
    static const uint64_t far_ns[] = {TAUT_NEVER_NS, TAUT_NEVER_NS - 1, TAUT_NEVER_NS - 2,
                                      UINT64_C(1) << 63};
    const struct taut_wait_policy *policies[] = {NULL, &parks};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(taut_wait(&event, 0, past_ns[i], policies[k], NULL),
                             TAUT_WAIT_EXPIRED);
    }
    taut_event_publish(&event);
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(taut_wait(&event, 0, past_ns[i], policies[k], NULL), TAUT_WAIT_CAUGHT);
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(taut_wait(&event, 0, far_ns[i], policies[k], NULL), TAUT_WAIT_CAUGHT);
    }
    assert_int_equal(taut_event_destroy(&event), 0);
}

struct waiter {
    struct taut_event *event;
    const struct taut_wait_policy *policy;
    uint64_t deadline_ns;
    uint32_t seen;
    int outcome;
    struct taut_wait_report report;
    pthread_t thread;
};

static void *wait_once(void *context)
{
    struct waiter *waiter = context;
    waiter->outcome = taut_wait(waiter->event, waiter->seen, waiter->deadline_ns, waiter->policy,
                                &waiter->report);
    return NULL;
}

/* Woken, whether it was asleep already or still on its way into the kernel. */
static int was_woken(const struct waiter *waiter)
{
    return waiter->outcome == (waiter->report.parks > 0 ? TAUT_WAIT_PARKED : TAUT_WAIT_CAUGHT);
}

static void start(struct waiter *waiter, struct taut_event *event, uint64_t deadline_ns,
                  const struct taut_wait_policy *policy)
{
    *waiter = (struct waiter){.event = event,
                              .policy = policy,
                              .deadline_ns = deadline_ns,
                              .seen = taut_event_epoch(event),
                              .outcome = -1};
    assert_int_equal(pthread_create(&waiter->thread, NULL, wait_once, waiter), 0);
}

/* The deadlines that are far away are given to the kernel, which must not take them for the past.
 */
static void one_publication_wakes_all_who_sleep(void **state)
{
    (void)state;
    static const uint64_t deadlines_ns[] = {TAUT_NEVER_NS, TAUT_NEVER_NS - 1, TAUT_NEVER_NS - 2,
                                            UINT64_C(1) << 63};
    struct taut_event event;
    struct waiter waiters[WAITERS];
    assert_int_equal(taut_event_init(&event), 0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < WAITERS; i++)
            start(&waiters[i], &event, deadlines_ns[i % 4], &parks);
        assert_true(await_sleepers(&event, WAITERS));
        assert_int_equal(taut_event_destroy(&event), TAUT_EBUSY); /* refused, they stay served */
        uint64_t wake_calls = stats_of(&event).wake_calls;
        assert_int_equal(taut_event_publish(&event), WAITERS);
        assert_int_equal(stats_of(&event).sleepers, 0); /* at once: taken off by that publication */
        assert_int_equal(taut_event_publish(&event), 0);
        assert_int_equal(stats_of(&event).wake_calls, wake_calls + 1);
        for (int i = 0; i < WAITERS; i++) {
            pthread_join(waiters[i].thread, NULL);
            assert_true(was_woken(&waiters[i]));
        }
    }
    struct taut_event_stats stats = stats_of(&event);
    assert_int_equal(stats.waits, 10 * WAITERS);
    assert_int_equal(stats.caught + stats.parked, 10 * WAITERS);
    assert_int_equal(stats.published, 20);
    assert_int_equal(taut_event_destroy(&event), 0);
}

static void who_expires_is_not_woken_and_who_sleeps_on_is(void **state)
{
    (void)state;
    struct taut_event event;
    struct waiter short_one, long_one;
    assert_int_equal(taut_event_init(&event), 0);
    start(&long_one, &event, in_ns(LONG_NS), &parks);
    assert_true(await_sleepers(&event, 1));
    start(&short_one, &event, in_ns(2 * TAUT_NS_PER_MS), &parks);
    pthread_join(short_one.thread, NULL);
    assert_int_equal(short_one.outcome, TAUT_WAIT_EXPIRED);
    assert_true(await_sleepers(&event, 1));
    assert_int_equal(taut_event_publish(&event), 1);
    pthread_join(long_one.thread, NULL);
    assert_true(was_woken(&long_one));
    assert_int_equal(taut_event_destroy(&event), 0);
}

static void an_expired_wait_is_never_early(void **state)
{
    (void)state;
    struct taut_event event;
    assert_int_equal(taut_event_init(&event), 0);
    for (int i = 0; i < 30; i++) {
        struct taut_wait_report report;
        uint64_t deadline_ns = in_ns((uint64_t)(i % 3 * 100 + 30) * TAUT_NS_PER_US);
        assert_int_equal(taut_wait(&event, 0, deadline_ns, i % 2 ? &parks : NULL, &report),
                         TAUT_WAIT_EXPIRED);
        uint64_t now_ns = taut_now_ns();
        assert_true(now_ns >= deadline_ns);
        assert_in_range(report.late_ns, 0, now_ns - deadline_ns);
    }
    assert_int_equal(taut_event_destroy(&event), 0);
}

static void a_spinning_waiter_makes_destroy_refuse(void **state)
{
    (void)state;
    static const struct taut_wait_policy spins = {.size = sizeof spins, .spin_ns = TAUT_NEVER_NS};
    struct taut_event event;
    struct waiter waiter;
    assert_int_equal(taut_event_init(&event), 0);
    start(&waiter, &event, in_ns(LONG_NS), &spins);
    uint64_t give_up_ns = in_ns(LONG_NS);
    while (stats_of(&event).waits == 0 && taut_now_ns() < give_up_ns)
        usleep(100);
    assert_int_equal(taut_event_destroy(&event), TAUT_EBUSY);
    taut_event_quiesce(&event); /* it goes to sleep although its budget has no end */
    assert_true(await_sleepers(&event, 1));
    assert_int_equal(taut_event_destroy(&event), TAUT_EBUSY);
    taut_event_publish(&event);
    pthread_join(waiter.thread, NULL);
    assert_in_range(waiter.outcome, TAUT_WAIT_CAUGHT, TAUT_WAIT_PARKED);
    assert_int_equal(taut_event_destroy(&event), 0);
}

/* A one-shot event on the waiter's stack: unmapped as soon as the waiter is back, whatever its
 * publisher is still doing. */
struct shot {
    struct taut_event *_Atomic event;
    _Atomic int stop;
};

static void *publish_shots(void *context)
{
    struct shot *shot = context;
    while (!atomic_load(&shot->stop)) {
        struct taut_event *event = atomic_exchange(&shot->event, NULL);
        if (event != NULL)
            taut_event_publish(event);
    }
    return NULL;
}

static void a_waiter_may_free_the_event_before_its_publisher_is_back(void **state)
{
    (void)state;
    struct shot shot = {.stop = 0};
    pthread_t publisher;
    uint32_t lost = 0;
    assert_int_equal(pthread_create(&publisher, NULL, publish_shots, &shot), 0);
    for (int i = 0; i < 3000 && lost == 0; i++) {
        struct taut_event *event =
            mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(event, MAP_FAILED);
        assert_int_equal(taut_event_init(event), 0);
        atomic_store(&shot.event, event);
        lost +=
            taut_wait(event, 0, in_ns(LONG_NS), i % 2 ? &parks : NULL, NULL) == TAUT_WAIT_EXPIRED;
        lost += taut_event_destroy(event) != 0;
        munmap(event, 4096);
    }
    atomic_store(&shot.stop, 1);
    pthread_join(publisher, NULL);
    assert_int_equal(lost, 0);
}

static void a_child_of_a_fork_may_not_wait(void **state)
{
    (void)state;
    struct taut_event event;
    assert_int_equal(taut_event_init(&event), 0);
    struct waiter waiter;
    start(&waiter, &event, in_ns(LONG_NS), &parks);
    assert_true(await_sleepers(&event, 1));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct taut_event own;
        int wrong = 0;
        wrong |= taut_wait(&event, 0, 0, NULL, NULL) != TAUT_ESTATE ? 1 : 0;
        wrong |= taut_wait(&event, 7, TAUT_NEVER_NS, &parks, NULL) != TAUT_ESTATE ? 2 : 0;
        wrong |= stats_of(&event).waits != 1 ? 4 : 0;
        /* The waiter has stayed behind: the copy can be ended, and made anew. */
        wrong |= taut_event_destroy(&event) != 0 ? 8 : 0;
        wrong |= taut_event_init(&event) != 0 ? 16 : 0;
        wrong |= taut_wait(&event, 0, 0, NULL, NULL) != TAUT_WAIT_EXPIRED ? 32 : 0;
        wrong |= taut_event_init(&own) != 0 || taut_wait(&own, 0, 0, NULL, NULL) < 0 ? 64 : 0;
        _exit(wrong);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(taut_event_publish(&event), 1); /* the parent's is as it was */
    pthread_join(waiter.thread, NULL);
    assert_true(was_woken(&waiter));
    assert_int_equal(taut_event_destroy(&event), 0);
}

static struct taut_event signalled;

static void publish_from_a_handler(int number)
{
    (void)number;
    taut_event_publish(&signalled);
}

static void a_signal_handler_may_publish(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = publish_from_a_handler}, before;
    struct waiter waiter;
    sigemptyset(&action.sa_mask);
    assert_int_equal(taut_event_init(&signalled), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    start(&waiter, &signalled, in_ns(LONG_NS), &parks);
    assert_true(await_sleepers(&signalled, 1));
    assert_int_equal(pthread_kill(waiter.thread, SIGUSR1), 0);
    pthread_join(waiter.thread, NULL);
    assert_true(was_woken(&waiter));
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(taut_event_destroy(&signalled), 0);
}

static _Atomic int handled;

static void only_count(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

/* Signals interrupt the sleep; the wait goes on to its deadline, still counted once. */
static void signals_do_not_end_a_wait(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = only_count}, before;
    struct taut_event event;
    struct waiter waiter;
    sigemptyset(&action.sa_mask);
    assert_int_equal(taut_event_init(&event), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    start(&waiter, &event, TAUT_NEVER_NS, &parks);
    assert_true(await_sleepers(&event, 1));
    uint64_t give_up_ns = in_ns(LONG_NS);
    for (int i = 0; i < 20; i++) {
        int count = atomic_load(&handled);
        pthread_kill(waiter.thread, SIGUSR1);
        while (atomic_load(&handled) == count && taut_now_ns() < give_up_ns)
            usleep(100);
        assert_int_equal(stats_of(&event).sleepers, 1);
    }
    assert_int_equal(taut_event_publish(&event), 1);
    pthread_join(waiter.thread, NULL);
    assert_true(was_woken(&waiter));
    assert_true(waiter.report.spurious > 0);
    assert_in_range(waiter.report.parks, waiter.report.spurious, waiter.report.spurious + 1);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(taut_event_destroy(&event), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(policies_of_other_headers_are_obeyed),
        cmocka_unit_test(a_report_is_filled_completely),
        cmocka_unit_test(deadlines_at_the_ends_of_their_range),
        cmocka_unit_test(one_publication_wakes_all_who_sleep),
        cmocka_unit_test(who_expires_is_not_woken_and_who_sleeps_on_is),
        cmocka_unit_test(an_expired_wait_is_never_early),
        cmocka_unit_test(a_spinning_waiter_makes_destroy_refuse),
        cmocka_unit_test(a_waiter_may_free_the_event_before_its_publisher_is_back),
        cmocka_unit_test(a_child_of_a_fork_may_not_wait),
        cmocka_unit_test(a_signal_handler_may_publish),
        cmocka_unit_test(signals_do_not_end_a_wait),
    };
    return cmocka_run_group_tests_name("wait/event", tests, NULL, NULL);
}
