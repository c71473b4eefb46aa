/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines beside a busy neighbour on the same CPU, with the real scheduler: a window of 0.5 ms in
 * which nobody wakes the waiter. What "a clock at each yield" alone makes of it, in the same run
 * and in turns, is the premise: where that is not late, the neighbour was not there and nothing is
 * concluded. The figures are bench/wait's; here only that ours is late by far less.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <taut/topology.h>
#include <taut/wait.h>

#define WINDOW_NS (500 * TAUT_NS_PER_US)
#define SAMPLES   61
#define LIMIT_NS  (20 * TAUT_NS_PER_S)

static _Atomic int over;

static void *be_busy(void *context)
{
    int *bound = context;
    *bound = taut_cpu_bind_self((uint32_t)*bound, NULL);
    uint64_t give_up_ns = taut_now_ns() + LIMIT_NS;
    while (!atomic_load_explicit(&over, memory_order_relaxed) && taut_now_ns() < give_up_ns)
        ;
    return NULL;
}

/* The discipline that looks right: a clock at every yield. */
static uint64_t yield_until(uint64_t deadline_ns)
{
    uint64_t now_ns;
    do {
        sched_yield();
        now_ns = taut_now_ns();
    } while (now_ns < deadline_ns);
    return now_ns - deadline_ns;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static uint64_t median(uint64_t *values)
{
    qsort(values, SAMPLES, sizeof *values, compare);
    return values[SAMPLES / 2];
}

static void a_window_beside_a_busy_neighbour_keeps_its_length(void **state)
{
    (void)state;
    struct taut_cpuset before;
    struct taut_event event;
    struct taut_window window;
    static uint64_t ours_ns[SAMPLES], theirs_ns[SAMPLES];
    assert_int_equal(taut_cpuset_of_self(&before), 0);
    uint32_t cpu = taut_cpuset_nth(&before, 0);
    int bound = (int)cpu;
    pthread_t neighbour;
    assert_int_equal(taut_cpu_bind_self(cpu, NULL), 0);
    assert_int_equal(pthread_create(&neighbour, NULL, be_busy, &bound), 0);
    int code = taut_event_init(&event) + taut_window_init(&window, NULL, NULL);
    struct taut_wait_policy policy = {
        .size = sizeof policy, .spin_ns = 20 * TAUT_NS_PER_US, .yield_ns = TAUT_NEVER_NS};
    policy.window = &window;
    uint32_t wrong = 0;
    for (int i = 0; i < SAMPLES; i++) {
        struct taut_wait_report report;
        wrong +=
            taut_wait(&event, 0, taut_now_ns() + WINDOW_NS, &policy, &report) != TAUT_WAIT_EXPIRED;
        ours_ns[i] = report.late_ns;
        theirs_ns[i] = yield_until(taut_now_ns() + WINDOW_NS);
    }
    atomic_store(&over, 1);
    pthread_join(neighbour, NULL);
    taut_cpuset_bind_self(&before, NULL);
    uint64_t ours = median(ours_ns), theirs = median(theirs_ns);
    print_message("median late: %llu us; with a clock at each yield: %llu us\n",
                  (unsigned long long)(ours / 1000), (unsigned long long)(theirs / 1000));
    assert_int_equal(code, 0);
    assert_int_equal(bound, 0);
    assert_int_equal(wrong, 0);
    assert_int_equal(taut_event_destroy(&event), 0);
    if (theirs < 2 * WINDOW_NS) {
        print_message("skipped: this scheduler or machine does not make yields dear\n");
        skip();
    }
    assert_in_range(ours, 0, theirs / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_beside_a_busy_neighbour_keeps_its_length),
    };
    return cmocka_run_group_tests_name("wait/late", tests, NULL, NULL);
}
