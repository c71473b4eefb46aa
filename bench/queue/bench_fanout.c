/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One owner, four children, one of which stands still for 100 ms: what do the other three lose?
 *
 * The owner runs on one CPU; the four children are the turns of one thread on another, each with up
 * to 8 items a turn, so that two CPUs are enough and nobody is preempted by a sibling. The owner
 * sends each child an item every 4 us; an item is the time it was due, and its latency ends when
 * the owner has it back. A round is 100 ms with all children, then 100 ms with the last one
 * standing still, then a rest in which it catches up.
 *
 * Two disciplines: `own` is the fan-out as it is; `gate` is the control, an owner that sends to
 * nobody while any child is out of credit, as the poller of the record behind this library. `flat`
 * is `own` without a schedule: as fast as credit allows, for throughput only. There the last child
 * stands still in both windows, first with nothing to do and then with all it can hold: else its
 * turns on their CPU would be a present to the other three.
 *
 * One JSON object a round and discipline goes to stdout. Exits 2 where it cannot run, or where the
 * child that should stand still did not.
 *
 * usage: bench_fanout [ROUNDS [OWNER-CPU CHILDREN-CPU]]
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <taut/queue.h>

#define CHILDREN  4u
#define STOPPED   3u
#define EVERY_NS  (4 * TAUT_NS_PER_US)
#define WINDOW_NS (100 * TAUT_NS_PER_MS)
#define REST_NS   (20 * TAUT_NS_PER_MS)
#define SAMPLES   1000000u

enum discipline { OWN, GATE, FLAT };
static const char *const names[] = {"own", "gate", "flat"};

static struct taut_fanout *fanout;
/* The order to stand still, by number (0: go on), and the last that was obeyed. */
static _Atomic uint32_t stop, stopped;
static _Atomic uint32_t end;
static size_t cpus[2] = {0, 1};
static uint32_t *samples;
static int spare_the_last; /* flat: the last child is sent nothing */

struct window {
    uint64_t returned; /* of the other children */
    uint32_t count;    /* samples */
    uint32_t p99_ns, most_ns;
};

static void pin(size_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("bench_fanout: sched_setaffinity");
        exit(2);
    }
}

static void *children(void *context)
{
    (void)context;
    pin(cpus[1]);
    while (!atomic_load_explicit(&end, memory_order_relaxed)) {
        for (uint32_t child = 0; child < CHILDREN; child++) {
            struct taut_fanout_item item;
            uint32_t order = atomic_load_explicit(&stop, memory_order_relaxed);
            if (child == STOPPED && order != 0) {
                /* pairs with round_of(): what it returned before is told */
                atomic_store_explicit(&stopped, order, memory_order_release);
                continue;
            }
            for (int i = 0; i < 8 && taut_fanout_take(fanout, child, &item); i++)
                taut_fanout_return(fanout, child, &item);
            taut_fanout_flush_returns(fanout, child);
        }
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void send_due(enum discipline discipline, uint64_t *due_ns, uint64_t now_ns)
{
    int gate = 0;
    for (uint32_t child = 0; discipline == GATE && child < CHILDREN; child++)
        gate |= taut_fanout_pressed(fanout, child);
    if (discipline == FLAT) {
        for (uint32_t child = 0; child < CHILDREN; child++) {
            if (child == STOPPED && spare_the_last)
                continue;
            for (int i = 0; i < 8 && !taut_fanout_pressed(fanout, child); i++)
                (void)taut_fanout_send(fanout, child, child, now_ns, NULL);
        }
        return;
    }
    for (; *due_ns <= now_ns; *due_ns += EVERY_NS / CHILDREN) {
        /* One due time after the other goes to one child after the other. */
        uint32_t child = (uint32_t)(*due_ns / (EVERY_NS / CHILDREN) % CHILDREN);
        if (!gate)
            (void)taut_fanout_send(fanout, child, child, *due_ns, NULL);
    }
}

static void run(enum discipline discipline, uint64_t length_ns, struct window *window)
{
    struct taut_fanout_item returned[64];
    uint64_t now_ns = taut_now_ns(), end_ns = now_ns + length_ns;
    uint64_t due_ns = now_ns - now_ns % EVERY_NS;
    *window = (struct window){0};
    while (now_ns < end_ns) {
        send_due(discipline, &due_ns, now_ns);
        uint32_t count = taut_fanout_reap(fanout, returned, 64);
        now_ns = taut_now_ns();
        for (uint32_t i = 0; i < count; i++) {
            if (returned[i].flow == STOPPED)
                continue;
            window->returned++;
            uint64_t took_ns = now_ns - returned[i].item;
            if (window->count < SAMPLES)
                samples[window->count++] = took_ns < UINT32_MAX ? (uint32_t)took_ns : UINT32_MAX;
        }
    }
    if (window->count == 0)
        return;
    qsort(samples, window->count, sizeof *samples, by_size);
    window->p99_ns = samples[(uint64_t)window->count * 99 / 100];
    window->most_ns = samples[window->count - 1];
}

/* The last child stands still. */
static void stop_the_last(enum discipline discipline)
{
    static uint32_t order;
    struct window rest;
    atomic_store(&stop, ++order);
    do {
        run(discipline, TAUT_NS_PER_MS, &rest);
    } while (atomic_load_explicit(&stopped, memory_order_acquire) != order); /* children() */
    run(discipline, TAUT_NS_PER_MS, &rest);
}

static void round_of(enum discipline discipline)
{
    struct window rest, all, three;
    struct taut_fanout_stats before, after;
    spare_the_last = discipline == FLAT;
    run(discipline, REST_NS, &rest);
    if (discipline == FLAT)
        stop_the_last(discipline);
    run(discipline, WINDOW_NS, &all);
    spare_the_last = 0;
    stop_the_last(discipline);
    taut_fanout_stats(fanout, STOPPED, &before);
    run(discipline, WINDOW_NS, &three);
    taut_fanout_stats(fanout, STOPPED, &after);
    atomic_store(&stop, 0);
    run(discipline, REST_NS, &rest);
    if (after.returned != before.returned || all.returned == 0) {
        fprintf(stderr, "bench_fanout: %s\n",
                all.returned == 0 ? "nothing came back in 100 ms: the CPUs are not ours"
                                  : "the child that should stand still did not");
        exit(2);
    }
    printf("{\"discipline\": \"%s\", \"all\": %llu, \"three\": %llu, \"p99_all_ns\": %u, "
           "\"p99_three_ns\": %u, \"max_all_ns\": %u, \"max_three_ns\": %u, \"stall_ms\": %.1f, "
           "\"capacity\": %u, \"effective\": %u}\n",
           names[discipline], (unsigned long long)all.returned, (unsigned long long)three.returned,
           all.p99_ns, three.p99_ns, all.most_ns, three.most_ns,
           (double)(after.stall_ns - before.stall_ns) / 1e6, after.capacity, after.effective);
    fflush(stdout);
}

int main(int count, char **words)
{
    int rounds = count > 1 ? atoi(words[1]) : 9;
    if (count > 3) {
        cpus[0] = (size_t)atoi(words[2]);
        cpus[1] = (size_t)atoi(words[3]);
    }
    const struct taut_fanout_options options = {.size = sizeof options, .children = CHILDREN};
    samples = malloc(SAMPLES * sizeof *samples);
    pthread_t thread;
    pin(cpus[0]);
    if (!samples || taut_fanout_create(&fanout, &options, NULL) != 0 ||
        pthread_create(&thread, NULL, children, NULL) != 0) {
        fprintf(stderr, "bench_fanout: cannot begin\n");
        return 2;
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 3; i++)
            round_of((enum discipline)(round % 2 == 0 ? i : 2 - i));
    }
    atomic_store(&end, 1);
    pthread_join(thread, NULL);
    return 0;
}
