/* SPDX-License-Identifier: BSD-2-Clause */
/* The futex: outcomes, deadlines, and that a wake between a look and a sleep is never lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/futex.h"

/* A wait that hangs ends the program by the test runner's time-out; this bounds it earlier. */
#define LONG_NS (10 * TAUT_NS_PER_S)

static uint64_t in_ns(uint64_t duration_ns)
{
    return taut_deadline_ns(taut_now_ns(), duration_ns);
}

static void a_changed_word_does_not_sleep(void **state)
{
    (void)state;
    const _Atomic uint32_t word = 5;
    const uint64_t deadlines[] = {0, 1, taut_now_ns(), TAUT_NEVER_NS};
    for (size_t i = 0; i < 4; i++) {
        for (uint32_t scope = TAUT__FUTEX_PRIVATE; scope <= TAUT__FUTEX_SHARED; scope++)
            assert_int_equal(taut__futex_wait(&word, 4, deadlines[i], scope), TAUT__FUTEX_CHANGED);
    }
}

static void a_deadline_in_the_past_expires_at_once(void **state)
{
    (void)state;
    const _Atomic uint32_t word = 5;
    const uint64_t deadlines[] = {0, 1, TAUT_NS_PER_S - 1, taut_now_ns() - 1};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(taut__futex_wait(&word, 5, deadlines[i], TAUT__FUTEX_PRIVATE),
                         TAUT__FUTEX_EXPIRED);
}

static void a_deadline_is_absolute_and_never_early(void **state)
{
    (void)state;
    const _Atomic uint32_t word = 5;
    for (int i = 0; i < 20; i++) {
        uint64_t deadline = in_ns(300 * TAUT_NS_PER_US);
        assert_int_equal(taut__futex_wait(&word, 5, deadline, TAUT__FUTEX_PRIVATE),
                         TAUT__FUTEX_EXPIRED);
        assert_true(taut_now_ns() >= deadline);
    }
}

static void a_wake_without_waiters_wakes_nobody(void **state)
{
    (void)state;
    const _Atomic uint32_t word = 0;
    assert_int_equal(taut__futex_wake(&word, 1, TAUT__FUTEX_PRIVATE), 0);
    assert_int_equal(taut__futex_wake(&word, UINT32_MAX, TAUT__FUTEX_SHARED), 0);
    errno = ENOTTY;
    (void)taut__futex_wait(&word, 1, 0, TAUT__FUTEX_PRIVATE);
    (void)taut__futex_wake(&word, 1, TAUT__FUTEX_PRIVATE);
    assert_int_equal(errno, ENOTTY);
}

struct sleeper {
    _Atomic uint32_t *word;
    int outcome;
    pthread_t thread;
};

static void *sleep_once(void *context)
{
    struct sleeper *sleeper = context;
    sleeper->outcome = taut__futex_wait(sleeper->word, 0, in_ns(LONG_NS), TAUT__FUTEX_PRIVATE);
    return NULL;
}

static void wake_counts_whom_it_wakes(void **state)
{
    (void)state;
    enum { SLEEPERS = 5 };
    _Atomic uint32_t word = 0;
    struct sleeper sleepers[SLEEPERS];
    for (int i = 0; i < SLEEPERS; i++) {
        sleepers[i] = (struct sleeper){.word = &word, .outcome = -1};
        assert_int_equal(pthread_create(&sleepers[i].thread, NULL, sleep_once, &sleepers[i]), 0);
    }
    /* The word stays 0, so every wake hits a sleeper that is really there: count until all five. */
    uint32_t woken = 0;
    uint64_t give_up = in_ns(LONG_NS);
    while (woken < SLEEPERS && taut_now_ns() < give_up) {
        uint32_t now = taut__futex_wake(&word, woken == 0 ? 1 : 2, TAUT__FUTEX_PRIVATE);
        assert_true(now <= (woken == 0 ? 1u : 2u));
        woken += now;
    }
    assert_int_equal(woken, SLEEPERS);
    for (int i = 0; i < SLEEPERS; i++) {
        pthread_join(sleepers[i].thread, NULL);
        assert_int_equal(sleepers[i].outcome, TAUT__FUTEX_WOKEN);
    }
}

/*
 * The classic race, provoked on purpose: the waiter looks, then lets the other side change the word
 * *and* wake before it sleeps. A futex that slept now would sleep for ever.
 */
static void a_wake_between_look_and_sleep_is_not_lost(void **state)
{
    (void)state;
    _Atomic uint32_t word = 0;
    uint32_t seen = atomic_load(&word);
    atomic_store(&word, 1);
    assert_int_equal(taut__futex_wake(&word, 1, TAUT__FUTEX_PRIVATE), 0); /* nobody sleeps yet */
    assert_int_equal(taut__futex_wait(&word, seen, TAUT_NEVER_NS, TAUT__FUTEX_PRIVATE),
                     TAUT__FUTEX_CHANGED);
}

struct table {
    _Atomic uint32_t turn; /* even: the first player's */
    uint32_t rounds;
    uint32_t failures; /* outcome that leaves the word unchanged for LONG_NS */
};

static void play(struct table *table, uint32_t side)
{
    for (uint32_t i = 0; i < table->rounds; i++) {
        for (;;) {
            uint32_t turn = atomic_load_explicit(&table->turn, memory_order_acquire);
            if (turn % 2 == side)
                break;
            if (taut__futex_wait(&table->turn, turn, in_ns(LONG_NS), TAUT__FUTEX_PRIVATE) ==
                TAUT__FUTEX_EXPIRED) {
                table->failures++;
                return;
            }
        }
        atomic_fetch_add_explicit(&table->turn, 1, memory_order_release); /* pairs with the load */
        taut__futex_wake(&table->turn, 1, TAUT__FUTEX_PRIVATE);
    }
}

static void *play_second(void *context)
{
    play(context, 1);
    return NULL;
}

static void many_hand_overs_lose_no_wake(void **state)
{
    (void)state;
    struct table table = {.rounds = 20000};
    pthread_t second;
    assert_int_equal(pthread_create(&second, NULL, play_second, &table), 0);
    play(&table, 0);
    pthread_join(second, NULL);
    assert_int_equal(table.failures, 0);
    assert_int_equal(atomic_load(&table.turn), 2 * table.rounds);
}

static void processes_wake_each_other_through_shared_memory(void **state)
{
    (void)state;
    _Atomic uint32_t *words =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(words, MAP_FAILED);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(taut__futex_wait(words, 0, in_ns(LONG_NS), TAUT__FUTEX_SHARED));
    uint64_t give_up = in_ns(LONG_NS);
    while (taut__futex_wake(words, 1, TAUT__FUTEX_SHARED) == 0 && taut_now_ns() < give_up)
        usleep(100);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), TAUT__FUTEX_WOKEN);
    munmap(words, 4096);
}

static void do_nothing(int number)
{
    (void)number;
}

static _Atomic uint32_t interrupted_word;
static _Atomic int interrupted_done;

static void *wait_for_signal(void *context)
{
    int *outcome = context;
    *outcome = taut__futex_wait(&interrupted_word, 0, in_ns(LONG_NS), TAUT__FUTEX_PRIVATE);
    atomic_store(&interrupted_done, 1);
    return NULL;
}

static void a_signal_interrupts_a_wait(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = do_nothing}, before; /* no SA_RESTART */
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    int outcome = -1;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_signal, &outcome), 0);
    uint64_t give_up = in_ns(LONG_NS / 2);
    while (!atomic_load(&interrupted_done) && taut_now_ns() < give_up) {
        pthread_kill(thread, SIGUSR1);
        usleep(200);
    }
    pthread_join(thread, NULL);
    assert_int_equal(outcome, TAUT__FUTEX_INTERRUPTED);
    sigaction(SIGUSR1, &before, NULL);
}

static void a_word_that_is_none_aborts(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        (void)taut__futex_wait(page, 0, 0, TAUT__FUTEX_PRIVATE);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_word_does_not_sleep),
        cmocka_unit_test(a_deadline_in_the_past_expires_at_once),
        cmocka_unit_test(a_deadline_is_absolute_and_never_early),
        cmocka_unit_test(a_wake_without_waiters_wakes_nobody),
        cmocka_unit_test(wake_counts_whom_it_wakes),
        cmocka_unit_test(a_wake_between_look_and_sleep_is_not_lost),
        cmocka_unit_test(many_hand_overs_lose_no_wake),
        cmocka_unit_test(processes_wake_each_other_through_shared_memory),
        cmocka_unit_test(a_signal_interrupts_a_wait),
        cmocka_unit_test(a_word_that_is_none_aborts),
    };
    return cmocka_run_group_tests_name("base/futex", tests, NULL, NULL);
}
