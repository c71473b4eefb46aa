/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a window should be divided between spinning and yielding: the latency from a publication to
 * the waiter's return, where the publisher needs some time first, on another CPU or on the waiter's
 * own.
 *
 * usage: bench_split ROUNDS SPIN_US YIELD_US WORK_US SAME_CPU
 *
 * One JSON object: latency p50 and p99, CPU time of the waiter a round, and how the waits ended.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <taut/topology.h>
#include <taut/wait.h>

#define ROUNDS_MOST 100000u
#define LOST_NS     (10 * TAUT_NS_PER_S)

static struct taut_event request, reply;
static struct taut_wait_policy policy;
static uint64_t latency_ns[ROUNDS_MOST];
static uint64_t replied_ns; /* published with the reply */
static uint32_t rounds, reply_cpu;
static uint64_t work_ns;
static int failed;

static void *answer(void *context)
{
    (void)context;
    static const struct taut_wait_policy parks = {
        .size = sizeof parks, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_WAIT_NONE_NS};
    failed |= taut_cpu_bind_self(reply_cpu, NULL) != 0;
    for (uint32_t i = 0; i < rounds; i++) {
        if (taut_wait(&request, i, taut_now_ns() + LOST_NS, &parks, NULL) == TAUT_WAIT_EXPIRED)
            failed = 1;
        uint64_t until_ns = taut_now_ns() + work_ns;
        while ((replied_ns = taut_now_ns()) < until_ns)
            ;
        taut_event_publish(&reply);
    }
    return NULL;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * TAUT_NS_PER_S + (uint64_t)spent.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bench_split ROUNDS SPIN_US YIELD_US WORK_US SAME_CPU\n");
        return 2;
    }
    rounds = (uint32_t)strtoul(argv[1], NULL, 10);
    uint64_t spin_ns = strtoull(argv[2], NULL, 10) * TAUT_NS_PER_US;
    uint64_t yield_ns = strtoull(argv[3], NULL, 10) * TAUT_NS_PER_US;
    work_ns = strtoull(argv[4], NULL, 10) * TAUT_NS_PER_US;
    struct taut_cpuset cpus;
    if (rounds == 0 || rounds > ROUNDS_MOST || taut_cpuset_of_self(&cpus) != 0)
        return 2;
    struct taut_window window;
    pthread_t thread;
    policy = (struct taut_wait_policy){.size = sizeof policy,
                                       .spin_ns = spin_ns != 0 ? spin_ns : TAUT_WAIT_NONE_NS,
                                       .yield_ns = yield_ns != 0 ? yield_ns : TAUT_WAIT_NONE_NS,
                                       .window = &window};
    failed |= taut_window_init(&window, NULL, NULL) != 0 || taut_event_init(&request) != 0 ||
              taut_event_init(&reply) != 0;
    failed |= taut_cpu_bind_self(taut_cpuset_nth(&cpus, 0), NULL) != 0;
    reply_cpu = taut_cpuset_nth(&cpus, argv[5][0] == '1' ? 0 : 1);
    if (failed || pthread_create(&thread, NULL, answer, NULL) != 0)
        return 2;
    uint64_t cpu_ns = thread_cpu_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        taut_event_publish(&request);
        if (taut_wait(&reply, i, taut_now_ns() + LOST_NS, &policy, NULL) == TAUT_WAIT_EXPIRED)
            failed = 1;
        latency_ns[i] = taut_now_ns() - replied_ns;
    }
    cpu_ns = thread_cpu_ns() - cpu_ns;
    pthread_join(thread, NULL);
    qsort(latency_ns, rounds, sizeof latency_ns[0], compare);
    printf(
        "{\"spin_us\": %s, \"yield_us\": %s, \"work_us\": %s, \"same_cpu\": %s, \"p50_ns\": %llu, "
        "\"p99_ns\": %llu, \"cpu_ns\": %llu, \"caught\": %llu, \"parked\": %llu, "
        "\"contended\": %llu}\n",
        argv[2], argv[3], argv[4], argv[5], (unsigned long long)latency_ns[(rounds - 1) / 2],
        (unsigned long long)latency_ns[(uint64_t)(rounds - 1) * 99 / 100],
        (unsigned long long)(cpu_ns / rounds), (unsigned long long)window.caught,
        (unsigned long long)window.parked, (unsigned long long)window.contended);
    return failed ? 2 : 0;
}
