/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What events cost: a publication that nobody sleeps for, a catch at the first look, and the way
 * from a publication to the waiter's return, asleep and spinning; glibc's condition variable beside
 * it.
 *
 * usage: bench_event [SAMPLES]
 *
 * Waiter and publisher are bound to the first two CPUs of this process. Prints one JSON object a
 * row.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <taut/topology.h>
#include <taut/wait.h>

#define SAMPLES_MOST 100000u
#define BATCH        1000u /* calls between two looks at the clock */
#define LOST_NS      (10 * TAUT_NS_PER_S)

static double samples[SAMPLES_MOST];
static uint32_t sample_count;

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void print(const char *what)
{
    qsort(samples, sample_count, sizeof samples[0], compare);
    printf("{\"what\": \"%s\", \"samples\": %u, \"p50_ns\": %.2f, \"p99_ns\": %.2f, "
           "\"max_ns\": %.2f}\n",
           what, sample_count, samples[(sample_count - 1) / 2],
           samples[(uint64_t)(sample_count - 1) * 99 / 100], samples[sample_count - 1]);
}

/* --- one thread ------------------------------------------------------------------------------ */

enum call { PUBLISH, CATCH, CATCH_REPORT, CATCH_WINDOW, SIGNAL };

static void cost_of(const char *what, enum call call)
{
    static struct taut_event event;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct taut_window window;
    struct taut_wait_report report;
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &window};
    taut_event_init(&event);
    taut_window_init(&window, NULL, NULL);
    uint32_t seen = taut_event_epoch(&event) - 1;
    uint64_t deadline_ns = taut_now_ns() + 3600 * TAUT_NS_PER_S;
    sample_count = 2000;
    for (uint32_t i = 0; i < sample_count; i++) {
        uint64_t began_ns = taut_now_ns();
        for (uint32_t k = 0; k < BATCH; k++) {
            switch (call) {
            case PUBLISH:
                taut_event_publish(&event);
                break;
            case CATCH:
                taut_wait(&event, seen, deadline_ns, NULL, NULL);
                break;
            case CATCH_REPORT:
                taut_wait(&event, seen, deadline_ns, &policy, &report);
                break;
            case CATCH_WINDOW:
                taut_wait(&event, seen, deadline_ns, &policy, NULL);
                break;
            case SIGNAL:
                pthread_mutex_lock(&mutex);
                pthread_cond_signal(&cond);
                pthread_mutex_unlock(&mutex);
                break;
            }
        }
        samples[i] = (double)(taut_now_ns() - began_ns) / BATCH;
    }
    print(what);
}

/* --- two threads ----------------------------------------------------------------------------- */

enum way { ASLEEP, SPINNING, WINDOW, COND };

struct table {
    enum way way;
    uint32_t rounds, waiter_cpu, publisher_cpu;
    struct taut_event event, ready;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t cond_round;
    _Atomic uint64_t published_ns;
    int failed;
};

static void await_cond(struct table *table, uint32_t round)
{
    pthread_mutex_lock(&table->mutex);
    while (table->cond_round == round)
        /* bare wait: the peer */
        pthread_cond_wait(&table->cond, &table->mutex);
    pthread_mutex_unlock(&table->mutex);
}

static void *wait_rounds(void *context)
{
    struct table *table = context;
    struct taut_window window;
    struct taut_wait_policy policy = {.size = sizeof policy, .spin_ns = TAUT_NEVER_NS};
    taut_window_init(&window, NULL, NULL);
    if (table->way == ASLEEP)
        policy.spin_ns = policy.yield_ns = TAUT_WAIT_NONE_NS;
    if (table->way == WINDOW)
        policy = (struct taut_wait_policy){.size = sizeof policy, .window = &window};
    table->failed |= taut_cpu_bind_self(table->waiter_cpu, NULL) != 0;
    for (uint32_t i = 0; i < table->rounds; i++) {
        taut_event_publish(&table->ready);
        if (table->way == COND)
            await_cond(table, i);
        else if (taut_wait(&table->event, i, taut_now_ns() + LOST_NS, &policy, NULL) ==
                 TAUT_WAIT_EXPIRED)
            table->failed = 1;
        samples[i] = (double)(taut_now_ns() - table->published_ns);
    }
    return NULL;
}

static void publish_round(struct table *table, uint32_t round)
{
    uint64_t seen_ns = taut_now_ns();
    struct taut_event_stats stats;
    /* Until the waiter sleeps, or for 30 us: spinning by then. */
    do {
        taut_event_stats(&table->event, &stats);
    } while ((table->way != ASLEEP || stats.sleepers == 0) &&
             taut_now_ns() - seen_ns < (table->way == ASLEEP ? TAUT_NS_PER_S : 30000));
    /* And some time more: in the kernel, off its CPU. */
    seen_ns = taut_now_ns();
    while (taut_now_ns() - seen_ns <
           (table->way == SPINNING || table->way == WINDOW ? 1000 : 30000))
        ;
    if (table->way == COND) {
        pthread_mutex_lock(&table->mutex);
        table->cond_round = round + 1;
        table->published_ns = taut_now_ns();
        pthread_cond_signal(&table->cond);
        pthread_mutex_unlock(&table->mutex);
    } else {
        table->published_ns = taut_now_ns();
        taut_event_publish(&table->event);
    }
}

static int wake_latency(const char *what, enum way way, uint32_t rounds)
{
    static struct table table;
    struct taut_cpuset cpus;
    pthread_t thread;
    taut_cpuset_of_self(&cpus);
    table = (struct table){.way = way,
                           .rounds = rounds,
                           .waiter_cpu = taut_cpuset_nth(&cpus, 0),
                           .publisher_cpu = taut_cpuset_nth(&cpus, 1),
                           .mutex = PTHREAD_MUTEX_INITIALIZER,
                           .cond = PTHREAD_COND_INITIALIZER};
    taut_event_init(&table.event);
    taut_event_init(&table.ready);
    if (pthread_create(&thread, NULL, wait_rounds, &table) != 0)
        return 2;
    table.failed |= taut_cpu_bind_self(table.publisher_cpu, NULL) != 0;
    struct taut_wait_policy spins = {.size = sizeof spins, .spin_ns = TAUT_NEVER_NS};
    for (uint32_t i = 0; i < rounds; i++) {
        if (taut_wait(&table.ready, i, taut_now_ns() + LOST_NS, &spins, NULL) == TAUT_WAIT_EXPIRED)
            table.failed = 1;
        publish_round(&table, i);
    }
    pthread_join(thread, NULL);
    taut_cpuset_bind_self(&cpus, NULL);
    sample_count = rounds;
    if (!table.failed)
        print(what);
    return table.failed ? 2 : 0;
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 5000;
    struct taut_cpuset cpus;
    if (rounds == 0 || rounds > SAMPLES_MOST) {
        fprintf(stderr, "usage: bench_event [SAMPLES]\n");
        return 2;
    }
    cost_of("publish, nobody sleeps", PUBLISH);
    cost_of("pthread_cond_signal under its mutex, nobody sleeps", SIGNAL);
    cost_of("catch at the first look", CATCH);
    cost_of("catch at the first look, with a window", CATCH_WINDOW);
    cost_of("catch at the first look, with window, report and deadline", CATCH_REPORT);
    if (taut_cpuset_of_self(&cpus) != 0 || taut_cpuset_count(&cpus) < 2) {
        fprintf(stderr, "bench_event: one CPU: no latencies\n");
        return 2;
    }
    return wake_latency("publish to return, spinning", SPINNING, rounds) |
           wake_latency("publish to return, by the window", WINDOW, rounds) |
           wake_latency("publish to return, asleep", ASLEEP, rounds) |
           wake_latency("pthread_cond_signal to return", COND, rounds);
}
