/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The idle contract, in CPU time of the process: after the last work item at most one window a
 * thread and 1 ms; at ten items a second at most 1 % of a CPU; and nothing after quiesce. CPU time
 * and not time: load on the machine can only make it less.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <taut/wait.h>

#define THREADS   3
#define WINDOW_NS TAUT_WINDOW_MAX_NS
#define MS        TAUT_NS_PER_MS

static uint64_t cpu_ns(clockid_t clock)
{
    struct timespec spent;
    clock_gettime(clock, &spent);
    return (uint64_t)spent.tv_sec * TAUT_NS_PER_S + (uint64_t)spent.tv_nsec;
}

struct worker {
    struct taut_event event;
    struct taut_window window;
    struct taut_wait_policy policy;
    uint32_t items; /* to be taken */
    uint64_t window_begin_ns;
    int keep_window; /* set it again before each wait, and forget that a CPU was lost */
    _Atomic uint32_t taken;
    uint64_t cpu_ns, window_last_ns; /* at the end */
    uint32_t refused;
    pthread_t thread;
};

static void *work(void *context)
{
    struct worker *worker = context;
    /* Many CPUs: each may spin, as on a large machine. The contract holds for all of them. */
    struct taut_window_options options = {.size = sizeof options, .cpus = 64, .quota = 2};
    worker->refused += taut_window_init(&worker->window, &options, NULL) != 0;
    worker->window.window_ns = worker->window_begin_ns;
    worker->policy.window = &worker->window;
    uint64_t began_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < worker->items; i++) {
        if (worker->keep_window) {
            worker->window.window_ns = worker->window_begin_ns;
            worker->window.contended_until_ns = 0;
        }
        worker->refused += taut_wait(&worker->event, i, TAUT_NEVER_NS, &worker->policy, NULL) < 0;
        worker->taken++;
    }
    worker->cpu_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
    worker->window_last_ns = worker->window.window_ns;
    return NULL;
}

static void start(struct worker *worker, uint32_t items, uint64_t window_ns, uint64_t spin_ns,
                  int keep_window)
{
    *worker = (struct worker){.items = items,
                              .window_begin_ns = window_ns,
                              .keep_window = keep_window,
                              .policy = {.size = sizeof worker->policy, .spin_ns = spin_ns}};
    assert_int_equal(taut_event_init(&worker->event), 0);
    assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void finish(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    assert_int_equal(worker->refused, 0);
    assert_int_equal(taut_event_destroy(&worker->event), 0);
}

static uint32_t sleepers_of(const struct worker *worker)
{
    struct taut_event_stats stats;
    taut_event_stats(&worker->event, &stats);
    return stats.sleepers;
}

/* 1 = it sleeps, within some seconds. */
static int await_sleep(const struct worker *worker)
{
    for (int i = 0; i < 5000 && sleepers_of(worker) != 1; i++)
        usleep(1000);
    return sleepers_of(worker) == 1;
}

/* One item for each of them; the CPU time of the process until long after. */
static uint64_t cpu_of_one_item(struct worker *workers)
{
    for (int i = 0; i < THREADS; i++)
        assert_true(await_sleep(&workers[i]));
    uint32_t taken = workers[0].taken;
    uint64_t before_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < THREADS; i++)
        taut_event_publish(&workers[i].event);
    usleep(50000);
    for (int i = 0; i < THREADS; i++)
        assert_true(await_sleep(&workers[i]) && workers[i].taken == taken + 1);
    return cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns;
}

static void after_the_last_item_a_window_a_thread_is_spent_and_no_more(void **state)
{
    (void)state;
    static struct worker workers[THREADS];
    enum { TRIES = 40 };
    for (int i = 0; i < THREADS; i++)
        start(&workers[i], TRIES + 1, WINDOW_NS, 0, 1);
    uint64_t least_ns = UINT64_MAX, most_ns = 0;
    int tries = 0;
    /* Until each of them has most probably used its window: on a busy machine they give up early.
     */
    for (; tries < TRIES && (tries < 5 || most_ns < THREADS * WINDOW_NS * 2 / 3); tries++) {
        uint64_t spent_ns = cpu_of_one_item(workers);
        assert_in_range(spent_ns, 1, THREADS * WINDOW_NS + MS);
        least_ns = spent_ns < least_ns ? spent_ns : least_ns;
        most_ns = spent_ns > most_ns ? spent_ns : most_ns;
    }
    print_message("%.3f to %.3f ms of CPU after the last item in %d tries, %d threads\n",
                  (double)least_ns / 1e6, (double)most_ns / 1e6, tries, THREADS);
    for (int i = tries; i < TRIES + 1; i++) {
        for (int k = 0; k < THREADS; k++) {
            taut_event_publish(&workers[k].event);
        }
        for (int k = 0; k < THREADS; k++) {
            for (int n = 0; n < 5000 && workers[k].taken != (uint32_t)i + 1; n++)
                usleep(1000);
        }
    }
    for (int i = 0; i < THREADS; i++)
        finish(&workers[i]);
    if (most_ns < WINDOW_NS / 2)
        fail_msg("inconclusive: in no try has anybody spun for long");
}

static void ten_items_a_second_cost_one_percent_at_most(void **state)
{
    (void)state;
    static struct worker worker;
    enum { ITEMS = 20 };
    start(&worker, ITEMS, TAUT_WINDOW_MAX_NS, 0, 0);
    for (int i = 0; i < ITEMS; i++) {
        usleep(100000);
        taut_event_publish(&worker.event);
        for (int k = 0; k < 5000 && worker.taken != (uint32_t)i + 1; k++)
            usleep(1000);
    }
    finish(&worker);
    print_message("%.3f ms of CPU in %d items, window %llu us\n", (double)worker.cpu_ns / 1e6,
                  ITEMS, (unsigned long long)(worker.window_last_ns / TAUT_NS_PER_US));
    assert_in_range(worker.cpu_ns, 1, ITEMS * 100 * MS / 100);
    assert_int_equal(worker.window_last_ns, TAUT_WINDOW_MIN_NS);
}

static void quiesce_sends_to_sleep_who_would_spin_without_end(void **state)
{
    (void)state;
    static struct worker worker;
    start(&worker, 1, TAUT_WINDOW_MIN_NS, TAUT_NEVER_NS, 0);
    uint64_t before_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < 5000 && cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns < 3 * MS; i++)
        usleep(1000);
    uint64_t spun_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns;
    taut_event_quiesce(&worker.event);
    assert_true(await_sleep(&worker));
    before_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    usleep(100000);
    uint64_t spent_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns;
    taut_event_publish(&worker.event);
    finish(&worker);
    /* The premise: it was spinning, unless its CPU was taken away and it sleeps for that reason. */
    if (spun_ns < 3 * MS && worker.window.contended == 0)
        fail_msg("inconclusive: %llu ns spun", (unsigned long long)spun_ns);
    assert_in_range(spent_ns, 0, MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_the_last_item_a_window_a_thread_is_spent_and_no_more),
        cmocka_unit_test(ten_items_a_second_cost_one_percent_at_most),
        cmocka_unit_test(quiesce_sends_to_sleep_who_would_spin_without_end),
    };
    return cmocka_run_group_tests_name("wait/idle", tests, NULL, NULL);
}
