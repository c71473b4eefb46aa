/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting: deadlines are never cut short, wakes are never lost, a signal does not end a wait. */
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "port/epoll.h"

static void test_deadlines(void **state)
{
    uint32_t busy = *(uint32_t *)*state;
    struct rig rig;
    struct taut_port_stats stats;
    rig_open(&rig, NULL, busy);
    for (uint32_t without_pwait2 = 0; without_pwait2 < 2; without_pwait2++) {
        ((struct taut__port_epoll_state *)rig.port->kind)->no_pwait2 = (int)without_pwait2;
        static const uint64_t waits_ns[] = {0, 1, 999, 300000, 1000001, 2345678, 25000000};
        for (size_t i = 0; i < sizeof waits_ns / sizeof *waits_ns; i++)
            rig_quiet(&rig, waits_ns[i]); /* asserts the deadline */
    }
    assert_int_equal(taut_port_poll(rig.port, rig.batch, 64, 0), 0);
    assert_int_equal(taut_port_poll(rig.port, rig.batch, 0, 0), TAUT_EINVAL);
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.polls, 15);
    assert_int_equal(stats.polls_empty, 15);
    if (busy)
        assert_int_equal(stats.sleeps, 0);
    else /* a long wait is made of a few, and none is a spin */
        assert_in_range(stats.sleeps, 8, 60);
    rig_close(&rig);
}

static void test_wake_before_poll(void **state)
{
    struct rig rig;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    errno = 123;
    for (int i = 0; i < 5; i++)
        taut_port_wake(rig.port);
    assert_int_equal(errno, 123);
    struct taut_completion woken = rig_expect(&rig, TAUT_PORT_WOKEN);
    assert_int_equal(woken.conn.id, 0);
    rig_quiet(&rig, TAUT_NS_PER_MS); /* five wakes are one completion */
    taut_port_wake(rig.port);
    assert_int_equal(taut_port_poll(rig.port, rig.batch, 64, 0), 1); /* looking once sees it */
    rig_close(&rig);
}

struct waker {
    struct taut_port *port;
    uint64_t rounds;
    _Atomic uint64_t posted; /* what a wake announces */
    _Atomic uint64_t seen;
};

#define LAST_ROUND UINT64_MAX

/* Up to `rounds`, and fewer where others want the CPUs too: a second is enough of it. */
static void *wake_and_wait(void *argument)
{
    struct waker *waker = argument;
    uint64_t end_ns = taut_now_ns() + TAUT_NS_PER_S;
    for (uint64_t i = 1; i <= waker->rounds && taut_now_ns() < end_ns; i++) {
        /* Relaxed: the wake itself has to order it. */
        atomic_store_explicit(&waker->posted, i, memory_order_relaxed);
        taut_port_wake(waker->port);
        while (atomic_load(&waker->seen) < i)
            sched_yield();
    }
    atomic_store_explicit(&waker->posted, LAST_ROUND, memory_order_relaxed);
    taut_port_wake(waker->port);
    return NULL;
}

/* Each post is answered before the next one: a single lost wake ends in the poll's deadline. */
static void test_no_wake_is_lost(void **state)
{
    struct rig rig;
    pthread_t thread;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    struct waker waker = {.port = rig.port, .rounds = 5000};
    assert_int_equal(pthread_create(&thread, NULL, wake_and_wait, &waker), 0);
    uint64_t posted, expected = 1, failures = 0;
    for (;;) {
        int count = taut_port_poll(rig.port, rig.batch, 64, taut_now_ns() + PATIENCE_NS);
        posted = atomic_load_explicit(&waker.posted, memory_order_relaxed);
        if (count != 1 || rig.batch[0].kind != TAUT_PORT_WOKEN)
            failures++;
        if (posted == LAST_ROUND)
            break;
        failures += posted != expected;
        atomic_store(&waker.seen, expected++);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(failures, 0);
    assert_in_range(expected, 2, 5001);
    struct taut_port_stats stats;
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.wakes, expected);
    rig_close(&rig);
}

static void *wake_freely(void *argument)
{
    struct waker *waker = argument;
    for (uint64_t i = 0; i < waker->rounds; i++) {
        atomic_fetch_add(&waker->posted, 1);
        taut_port_wake(waker->port);
    }
    return NULL;
}

/* Several wakers without a pause: after the last post there is a WOKEN that sees it. */
static void test_wakes_from_many_threads(void **state)
{
    struct rig rig;
    pthread_t threads[4];
    rig_open(&rig, NULL, *(uint32_t *)*state);
    struct waker waker = {.port = rig.port, .rounds = 5000};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wake_freely, &waker), 0);
    uint64_t seen = 0, failures = 0;
    while (seen < 4 * waker.rounds && !failures) {
        int count = taut_port_poll(rig.port, rig.batch, 64, taut_now_ns() + PATIENCE_NS);
        if (count != 1 || rig.batch[0].kind != TAUT_PORT_WOKEN)
            failures++;
        seen = atomic_load(&waker.posted);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(failures, 0);
    rig_close(&rig);
}

static struct taut_port *signalled_port;
static _Atomic uint32_t signals_taken, stop_signalling;

static void on_signal_wake(int number)
{
    (void)number;
    atomic_fetch_add(&signals_taken, 1);
    taut_port_wake(signalled_port);
}

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_taken, 1);
}

struct signaller {
    pthread_t target;
    uint32_t times; /* 0 = until told to stop */
};

static void *send_signals(void *argument)
{
    const struct signaller *signaller = argument;
    for (uint32_t i = 0;
         (!signaller->times || i < signaller->times) && !atomic_load(&stop_signalling); i++) {
        pthread_kill(signaller->target, SIGUSR1);
        struct timespec pause = {.tv_nsec = 200000};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void catch_signal(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    atomic_store(&signals_taken, 0);
    atomic_store(&stop_signalling, 0);
}

static void test_wake_from_signal_handler(void **state)
{
    struct rig rig;
    pthread_t thread;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    signalled_port = rig.port;
    catch_signal(on_signal_wake);
    struct signaller signaller = {.target = pthread_self(), .times = 1};
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(pthread_create(&thread, NULL, send_signals, &signaller), 0);
        struct taut_completion woken = rig_next(&rig);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(woken.kind, TAUT_PORT_WOKEN);
    }
    assert_int_equal(atomic_load(&signals_taken), 20);
    signal(SIGUSR1, SIG_IGN);
    rig_close(&rig);
}

/* Interrupted again and again: neither an error nor an early end. */
static void test_signals_do_not_end_a_wait(void **state)
{
    struct rig rig;
    pthread_t thread;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    catch_signal(on_signal);
    struct signaller signaller = {.target = pthread_self()};
    assert_int_equal(pthread_create(&thread, NULL, send_signals, &signaller), 0);
    while (atomic_load(&signals_taken) == 0)
        sched_yield();
    uint64_t deadline_ns = taut_now_ns() + 30 * TAUT_NS_PER_MS;
    int count = taut_port_poll(rig.port, rig.batch, 64, deadline_ns);
    uint64_t end_ns = taut_now_ns();
    atomic_store(&stop_signalling, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count, 0);
    assert_true(end_ns >= deadline_ns);
    signal(SIGUSR1, SIG_IGN);
    rig_close(&rig);
}

static void *read_stats(void *argument)
{
    struct waker *waker = argument;
    uint64_t last = 0;
    while (!atomic_load(&waker->seen)) {
        struct taut_port_stats stats;
        taut_port_stats(waker->port, &stats);
        if (stats.polls < last)
            atomic_fetch_add(&waker->posted, 1); /* it went back */
        last = stats.polls;
    }
    return NULL;
}

/* Counters are read by another thread while the owner works; TSan looks on. */
static void test_stats_from_another_thread(void **state)
{
    struct rig rig;
    pthread_t thread;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    struct waker waker = {.port = rig.port};
    assert_int_equal(pthread_create(&thread, NULL, read_stats, &waker), 0);
    for (int i = 0; i < 20000; i++)
        taut_port_poll(rig.port, rig.batch, 64, 0);
    atomic_store(&waker.seen, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&waker.posted), 0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_deadlines),
        ON_BOTH(test_wake_before_poll),
        ON_BOTH(test_no_wake_is_lost),
        ON_BOTH(test_wakes_from_many_threads),
        ON_BOTH(test_wake_from_signal_handler),
        ON_BOTH(test_signals_do_not_end_a_wait),
        ON_BOTH(test_stats_from_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
