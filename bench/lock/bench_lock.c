/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/lock/bench_lock - threads that want one lock: how much gets done, how long each waits, who
 * is overtaken how often, and which long waits the kernel's scheduling explains.
 *
 *   bench_lock KIND THREADS HELD_NS OUTSIDE_NS MILLISECONDS [FIRST_HELD_NS FIRST_OUTSIDE_NS]
 *
 * KIND: bounded, barging, fifo (ours), mutex, adaptive, pi (glibc), ticket, mcs (Concurrency Kit).
 * The last two numbers are for the first thread, where holders are unequal. Work is a calibrated
 * number of steps, not a look at the clock: a thread that is off its CPU in it has still to do the
 * rest.
 *
 * What explains a wait above 1 ms, and why nothing explains it twice: waits.h. Prints one JSON
 * object.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <taut/clock.h>

#include "locks.h"
#include "waits.h"

#define THREADS_MAX 64

struct shared {
    const struct kind *kind;
    union any_lock lock;
    _Atomic int go, stop;
    _Atomic uint64_t ready;
    uint64_t acquisitions; /* by whoever holds the lock */
    uint64_t free_ns;      /* when the last holder was done with it */
};

struct worker {
    struct shared *shared;
    struct waits waits;
    uint64_t held_steps, outside_steps, held_ns;
    uint64_t ops, cpu_ns, switches, passed_most;
    uint32_t bypass_most;
    pthread_t thread;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_lock: %s\n", what);
    exit(2);
}

/* One step depends on the one before: nothing to overlap, and nothing to leave out. */
static uint64_t work(uint64_t steps, uint64_t value)
{
    for (uint64_t i = 0; i < steps; i++) {
        value = value * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

/* Steps of 1 ms: the fastest of many runs, so that who disturbs does not count. */
static uint64_t calibrate(void)
{
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < 200; i++) {
        uint64_t begin_ns = taut_now_ns();
        work(50000, begin_ns);
        uint64_t took_ns = taut_now_ns() - begin_ns;
        if (took_ns < best_ns)
            best_ns = took_ns;
    }
    return 50000 * TAUT_NS_PER_MS / best_ns;
}

/* What a hypervisor took from the CPUs of this process since boot. */
static uint64_t stolen_ns(void)
{
    char line[512];
    unsigned cpu;
    unsigned long long steal;
    uint64_t ticks = 0;
    cpu_set_t mine;
    FILE *stat = fopen("/proc/stat", "re");
    if (!stat || sched_getaffinity(0, sizeof mine, &mine) != 0)
        fail("/proc/stat or the CPUs of this process can't be read");
    while (fgets(line, sizeof line, stat))
        if (sscanf(line, "cpu%u %*u %*u %*u %*u %*u %*u %*u %llu", &cpu, &steal) == 2 &&
            cpu < CPU_SETSIZE && CPU_ISSET(cpu, &mine))
            ticks += steal;
    fclose(stat);
    return ticks * (TAUT_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void one_turn(struct worker *worker, struct hold *hold)
{
    struct shared *shared = worker->shared;
    uint64_t begin_ns = taut_now_ns();
    uint64_t before = __atomic_load_n(&shared->acquisitions, __ATOMIC_RELAXED);
    waits_begin(&worker->waits, begin_ns);
    uint32_t bypass = shared->kind->acquire(&shared->lock, hold);
    uint64_t passed = shared->acquisitions - before;
    __atomic_store_n(&shared->acquisitions, shared->acquisitions + 1, __ATOMIC_RELAXED);
    uint64_t got_ns = taut_now_ns();
    waits_got(&worker->waits, begin_ns, got_ns, shared->free_ns);
    if (passed > worker->passed_most)
        worker->passed_most = passed;
    if (bypass > worker->bypass_most)
        worker->bypass_most = bypass;
    work(worker->held_steps, begin_ns);
    uint64_t done_ns = shared->free_ns = taut_now_ns();
    shared->kind->release(&shared->lock, hold);
    waits_out(&worker->waits, got_ns, worker->held_ns, done_ns, taut_now_ns());
    work(worker->outside_steps, begin_ns);
    worker->ops++;
}

static void *run(void *context)
{
    struct worker *worker = context;
    struct shared *shared = worker->shared;
    struct hold hold;
    if (waits_open(&worker->waits, "/proc/thread-self/schedstat") != 0)
        fail("/proc/thread-self/schedstat can't be read");
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->go))
        work(1000, 1);
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed))
        one_turn(worker, &hold);
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    worker->cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * TAUT_NS_PER_S +
                     (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * TAUT_NS_PER_US;
    worker->switches = (uint64_t)usage.ru_nivcsw;
    return NULL;
}

static double jain(const struct worker *workers, uint32_t threads)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < threads; i++) {
        sum += (double)workers[i].ops;
        squares += (double)workers[i].ops * (double)workers[i].ops;
    }
    return squares > 0 ? sum * sum / (threads * squares) : 0;
}

static void print(const char *name, struct worker *workers, uint32_t threads, uint64_t took_ns,
                  uint64_t stolen)
{
    static struct waits all;
    uint64_t ops = 0, cpu_ns = 0, switches = 0, passed = 0;
    uint32_t bypass = 0;
    struct explained explained = {0};
    for (uint32_t i = 0; i < threads; i++) {
        ops += workers[i].ops;
        cpu_ns += workers[i].cpu_ns;
        switches += workers[i].switches;
        passed = workers[i].passed_most > passed ? workers[i].passed_most : passed;
        bypass = workers[i].bypass_most > bypass ? workers[i].bypass_most : bypass;
        waits_merge(&all, &workers[i].waits);
    }
    const struct waits *everybody[THREADS_MAX];
    for (uint32_t i = 0; i < threads; i++)
        everybody[i] = &workers[i].waits;
    for (uint32_t i = 0; i < threads; i++)
        waits_explain(&workers[i].waits, everybody, threads, &explained);
    printf("{\"kind\": \"%s\", \"threads\": %u, \"ops\": %" PRIu64 ", \"took_ns\": %" PRIu64
           ", \"ops_per_s\": %.0f",
           name, threads, ops, took_ns, (double)ops * 1e9 / (double)took_ns);
    printf(", \"cpu_ns_per_op\": %.0f, \"jain\": %.3f, \"nivcsw\": %" PRIu64,
           ops ? (double)cpu_ns / (double)ops : 0.0, jain(workers, threads), switches);
    printf(", \"p50_ns\": %" PRIu64 ", \"p999_ns\": %" PRIu64 ", \"max_ns\": %" PRIu64,
           waits_quantile(&all, 0.5), waits_quantile(&all, 0.999), all.max_ns);
    printf(", \"over_1ms\": %" PRIu64 ", \"over_2ms\": %" PRIu64 ", \"unexplained_2ms\": %" PRIu64
           ", \"certain_2ms\": %" PRIu64 ", \"unexplained_most_ns\": %" PRIu64
           ", \"dropped\": %" PRIu64 ", \"unreadable\": %" PRIu64,
           explained.over_1ms, explained.over_2ms, explained.unexplained_2ms, explained.certain_2ms,
           explained.unexplained_most_ns, all.dropped, all.unreadable);
    printf(", \"stolen_ns\": %" PRIu64, stolen);
    printf(", \"passed_most\": %" PRIu64 ", \"bypass_most\": %u, \"ops_each\": [", passed, bypass);
    for (uint32_t i = 0; i < threads; i++)
        printf("%s%" PRIu64, i ? ", " : "", workers[i].ops);
    printf("]}\n");
}

int main(int argc, char **argv)
{
    static struct shared shared;
    static struct worker workers[THREADS_MAX];
    uint64_t number[6] = {0};
    if (argc != 6 && argc != 8)
        fail("usage: bench_lock KIND THREADS HELD_NS OUTSIDE_NS MS [FIRST_HELD_NS "
             "FIRST_OUTSIDE_NS]");
    for (int i = 2; i < argc; i++)
        number[i - 2] = strtoull(argv[i], NULL, 10);
    uint32_t threads = (uint32_t)number[0];
    shared.kind = kind_of(argv[1]);
    if (!shared.kind || threads == 0 || threads > THREADS_MAX || number[3] == 0)
        fail("unknown kind, or a number outside its range");
    if (shared.kind->init(&shared.lock) != 0)
        fail("the lock can't be made");
    uint64_t per_ms = calibrate();
    for (uint32_t i = 0; i < threads; i++) {
        uint64_t held_ns = argc == 8 && i == 0 ? number[4] : number[1];
        uint64_t outside_ns = argc == 8 && i == 0 ? number[5] : number[2];
        workers[i].shared = &shared;
        workers[i].held_ns = held_ns;
        workers[i].held_steps = held_ns * per_ms / TAUT_NS_PER_MS;
        workers[i].outside_steps = outside_ns * per_ms / TAUT_NS_PER_MS;
        if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0)
            fail("can't make a thread");
    }
    struct timespec nap = {.tv_nsec = (long)TAUT_NS_PER_MS};
    while (atomic_load(&shared.ready) < threads)
        nanosleep(&nap, NULL); /* bare wait: nothing is measured yet */
    uint64_t stolen = stolen_ns(), begin_ns = taut_now_ns();
    atomic_store(&shared.go, 1);
    struct timespec length = {.tv_sec = (time_t)(number[3] / 1000),
                              .tv_nsec = (long)(number[3] % 1000 * TAUT_NS_PER_MS)};
    nanosleep(&length, NULL); /* bare wait: the length of the run */
    atomic_store(&shared.stop, 1);
    for (uint32_t i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    uint64_t took_ns = taut_now_ns() - begin_ns;
    print(argv[1], workers, threads, took_ns, stolen_ns() - stolen);
    return 0;
}
