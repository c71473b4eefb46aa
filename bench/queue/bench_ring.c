/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring beside packaged queues, interleaved: in each round every arm moves its items from a
 * producer on one CPU to a consumer on another; then a ping-pong through two rings, beside one over
 * bare cache lines. One JSON object a round and arm goes to stdout, {"arm", "form", "package",
 * "ns"}: ns an item, or half a round trip. Exits 2 when an arm loses an item or cannot run.
 *
 * bare wait: both sides of an arm spin, so that the queue is what is measured.
 *
 * usage: bench_ring [ROUNDS [PRODUCER-CPU CONSUMER-CPU]]
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/queue.h>

#include "arms.h"

#define TRIPS 20000u

static size_t cpus[2] = {0, 1};
static _Atomic uint32_t ready;
static _Atomic uint64_t began_ns;

static void pin(size_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("bench_ring: sched_setaffinity");
        exit(2);
    }
}

/* Both threads leave it together. */
static void meet(void)
{
    atomic_fetch_add(&ready, 1); /* seq_cst: a barrier, not measured */
    while (atomic_load(&ready) % 2 != 0 || atomic_load(&ready) == 0) {
        bench_pause();
    }
}

struct side {
    void (*run)(void *context);
    void *context;
    size_t cpu;
};

static void *enter(void *argument)
{
    struct side *side = argument;
    pin(side->cpu);
    meet();
    side->run(side->context);
    return NULL;
}

/* Runs both; returns how long the second took from the start. */
static uint64_t pair(void (*first)(void *), void (*second)(void *), void *context)
{
    pthread_t threads[2];
    struct side sides[2] = {{first, context, cpus[0]}, {second, context, cpus[1]}};
    atomic_store(&ready, 0);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, enter, &sides[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

/* --- throughput ----------------------------------------------------------------------------- */

struct transfer {
    const struct arm *arm;
    uint64_t sum, ended_ns;
};

static void transfer_produce(void *context)
{
    struct transfer *transfer = context;
    atomic_store(&began_ns, taut_now_ns());
    transfer->arm->produce(transfer->arm->items);
}

static void transfer_consume(void *context)
{
    struct transfer *transfer = context;
    transfer->sum = transfer->arm->consume(transfer->arm->items);
    transfer->ended_ns = taut_now_ns();
}

static void report(const char *arm, const char *form, const char *package, double ns)
{
    printf("{\"arm\": \"%s\", \"form\": \"%s\", \"package\": \"%s\", \"ns\": %.3f}\n", arm, form,
           package, ns);
    fflush(stdout);
}

static void throughput(const struct arm *arm)
{
    struct transfer transfer = {.arm = arm};
    if (arm->open() != 0) {
        fprintf(stderr, "bench_ring: %s %s does not open\n", arm->name, arm->form);
        exit(2);
    }
    pair(transfer_produce, transfer_consume, &transfer);
    arm->close();
    if (transfer.sum != arm->items * (arm->items + 1) / 2) {
        fprintf(stderr, "bench_ring: %s %s lost or doubled items\n", arm->name, arm->form);
        exit(2);
    }
    report(arm->name, arm->form, arm->package,
           (double)(transfer.ended_ns - atomic_load(&began_ns)) / (double)arm->items);
}

/* --- one item at a time --------------------------------------------------------------------- */

struct lines {
    _Alignas(128) _Atomic uint64_t there;
    _Alignas(128) _Atomic uint64_t back;
};

static struct lines lines;
static struct taut_ring *there, *back;
static double trip_ns;

static void bare_first(void *context)
{
    (void)context;
    uint64_t began = taut_now_ns();
    for (uint64_t i = 1; i <= TRIPS; i++) {
        atomic_store_explicit(&lines.there, i, memory_order_release);
        while (atomic_load_explicit(&lines.back, memory_order_acquire) != i)
            bench_pause();
    }
    trip_ns = (double)(taut_now_ns() - began) / TRIPS;
}

static void bare_second(void *context)
{
    (void)context;
    for (uint64_t i = 1; i <= TRIPS; i++) {
        while (atomic_load_explicit(&lines.there, memory_order_acquire) != i)
            bench_pause();
        atomic_store_explicit(&lines.back, i, memory_order_release);
    }
}

static void ring_first(void *context)
{
    (void)context;
    uint64_t began = taut_now_ns(), value;
    for (uint64_t i = 1; i <= TRIPS; i++) {
        if (!taut_ring_push_u64(there, i))
            exit(2);
        taut_ring_flush(there);
        while (!taut_ring_pop_u64(back, &value))
            bench_pause();
        if (value != i)
            exit(2);
    }
    trip_ns = (double)(taut_now_ns() - began) / TRIPS;
}

static void ring_second(void *context)
{
    (void)context;
    uint64_t value;
    for (uint64_t i = 1; i <= TRIPS; i++) {
        while (!taut_ring_pop_u64(there, &value))
            bench_pause();
        if (!taut_ring_push_u64(back, value))
            exit(2);
        taut_ring_flush(back);
    }
}

static void latency(void)
{
    const struct taut_ring_options options = {
        .size = sizeof options, .capacity = BENCH_CAPACITY, .item_bytes = sizeof(uint64_t)};
    atomic_store(&lines.there, 0);
    atomic_store(&lines.back, 0);
    pair(bare_first, bare_second, NULL);
    report("cache line", "latency", "", trip_ns / 2);
    if (taut_ring_create(&there, &options, NULL) != 0 ||
        taut_ring_create(&back, &options, NULL) != 0)
        exit(2);
    pair(ring_first, ring_second, NULL);
    report("taut_ring", "latency", "", trip_ns / 2);
    taut_ring_destroy(there);
    taut_ring_destroy(back);
}

int main(int count, char **words)
{
    int rounds = count > 1 ? atoi(words[1]) : 9;
    if (count > 3) {
        cpus[0] = (size_t)atoi(words[2]);
        cpus[1] = (size_t)atoi(words[3]);
    }
    const struct arm *all[16];
    int arms = 0;
    const struct arm *lists[] = {taut_arms, ck_arms, boost_arms, dpdk_arms, tbb_arms};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (const struct arm *arm = lists[i]; arm->name; arm++)
            all[arms++] = arm;
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < arms; i++)
            throughput(all[round % 2 == 0 ? i : arms - 1 - i]);
        latency();
    }
    return 0;
}
