/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadline honesty: nobody wakes the waiter, and busy neighbours are bound to its CPU. Each
 * discipline has a thread of its own on that CPU, since the scheduler holds against a thread what
 * it has used; they take turns, so that whatever else happens on the machine happens to all of
 * them.
 *
 *   ours      taut_wait() with one struct taut_window and nothing else said
 *   yields    taut_wait() told to spin 20 us and then to yield for the whole window
 *   each      control: yields with a look at the clock at each
 *   each-64   control: yields with a look at the clock at each 64th
 *
 * usage: bench_deadline WINDOW_US NEIGHBOURS ROUNDS [CPU]
 *
 * In a round each discipline waits eight windows, the last one one. Its waits are counted if what
 * they are about was so, else its round is inconclusive:
 * - in each of these waits the waiter and the neighbours had the CPU but for 3 %, and the
 * neighbours had some of it;
 * - from the begin to the end of the round, of all disciplines, each neighbour had at least half of
 *   its fair share of the CPU (in one short wait it is one neighbour's turn).
 * Nothing there asks how long a wait took: one that is late by its own fault is counted.
 *
 * Prints one JSON object a discipline: how long the window lasted (median, greatest), how late the
 * latest was, and how many rounds were inconclusive; and at last for the whole run: which share of
 * that CPU neither waiters nor neighbours had, and which share the neighbour had that got least (0:
 * it ended before it was told to). Exits 2 without a figure where a discipline has more than half
 * of its rounds inconclusive. Neighbours end with this program, and by themselves after two
 * minutes.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <taut/topology.h>
#include <taut/wait.h>

#define NEIGHBOURS_MOST  16u
#define ROUNDS_MOST      1000u
#define NEIGHBOUR_END_NS (120 * TAUT_NS_PER_S)

#define IN_A_ROUND   8u
#define FOREIGN_MOST 0.03

enum discipline { OURS, YIELDS, EACH, EACH_64, DISCIPLINES };

static const char *const names[] = {"ours", "yields", "each", "each-64"};

static pid_t neighbours[NEIGHBOURS_MOST];
static uint32_t neighbour_count;

static uint64_t used_ns(const struct rusage *usage)
{
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * TAUT_NS_PER_S +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * TAUT_NS_PER_US;
}

/* Returns the CPU time that they have used; *least_ns: of the one that used least, 0 if one was not
 * there any more. */
static uint64_t kill_neighbours(uint64_t *least_ns)
{
    uint64_t used = 0;
    *least_ns = neighbour_count > 0 ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < neighbour_count; i++) {
        struct rusage usage = {0};
        int status = 0;
        kill(neighbours[i], SIGKILL);
        int ended = wait4(neighbours[i], &status, 0, &usage) == neighbours[i];
        uint64_t one_ns = ended ? used_ns(&usage) : 0;
        used += one_ns;
        if (!ended || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            *least_ns = 0;
        else if (one_ns < *least_ns)
            *least_ns = one_ns;
    }
    neighbour_count = 0;
    return used;
}

static void end_neighbours(void)
{
    uint64_t least_ns;
    (void)kill_neighbours(&least_ns);
}

static int start_neighbours(uint32_t count, uint32_t cpu)
{
    pid_t parent = getpid();
    for (uint32_t i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0)
            return -1;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent || taut_cpu_bind_self(cpu, NULL) != 0)
                _exit(1);
            uint64_t end_ns = taut_now_ns() + NEIGHBOUR_END_NS;
            while (taut_now_ns() < end_ns)
                ;
            _exit(0);
        }
        neighbours[neighbour_count++] = child;
    }
    return 0;
}

/* The CPU times of all neighbours, one by one. 0, or -1: one isn't there any more. */
static int read_neighbours(uint64_t *each_ns)
{
    for (uint32_t i = 0; i < neighbour_count; i++) {
        clockid_t clock;
        struct timespec time;
        if (clock_getcpuclockid(neighbours[i], &clock) != 0 || clock_gettime(clock, &time) != 0)
            return -1;
        each_ns[i] = (uint64_t)time.tv_sec * TAUT_NS_PER_S + (uint64_t)time.tv_nsec;
    }
    return 0;
}

/* Who had the CPU until now. */
struct usage {
    uint64_t now_ns, own_ns, each_ns[NEIGHBOURS_MOST];
    int failed;
};

static void read_usage(struct usage *usage)
{
    struct timespec own = {0};
    usage->now_ns = taut_now_ns();
    usage->failed = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own) != 0;
    usage->own_ns = (uint64_t)own.tv_sec * TAUT_NS_PER_S + (uint64_t)own.tv_nsec;
    usage->failed |= read_neighbours(usage->each_ns) != 0;
}

/* Whether between the two the calling thread's CPU was its own and the neighbours'. */
static int beside_neighbours(const struct usage *before, const struct usage *after)
{
    uint64_t lasted_ns = after->now_ns - before->now_ns, neighbours_ns = 0;
    if (before->failed || after->failed)
        return 0;
    if (neighbour_count == 0)
        return 1;
    for (uint32_t i = 0; i < neighbour_count; i++)
        neighbours_ns += after->each_ns[i] - before->each_ns[i];
    uint64_t known_ns = neighbours_ns + after->own_ns - before->own_ns;
    return neighbours_ns > 0 && (double)known_ns >= (1 - FOREIGN_MOST) * (double)lasted_ns;
}

/* Whether each neighbour has had half of its share. */
static int all_busy(const struct usage *before, const struct usage *after)
{
    uint64_t half_ns = (after->now_ns - before->now_ns) / (neighbour_count + 1) / 2;
    int busy = !before->failed && !after->failed;
    for (uint32_t i = 0; i < neighbour_count; i++)
        busy &= after->each_ns[i] - before->each_ns[i] >= half_ns;
    return busy;
}

/* A window that ends after `stride` yields at a time. */
static void yield_for(uint64_t deadline_ns, int stride)
{
    do {
        for (int i = 0; i < stride; i++)
            sched_yield(); /* bare wait: the control that this bench is about */
    } while (taut_now_ns() < deadline_ns);
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* One discipline: its thread, and what it has measured. */
struct arm {
    enum discipline discipline;
    uint32_t cpu, rounds, samples;
    uint64_t window_ns;
    struct taut_event turn, done; /* epochs: rounds begun, rounds over */
    uint32_t counted;             /* of samples: of the rounds before that were not inconclusive */
    uint32_t inconclusive;        /* rounds */
    int disturbed;                /* in this round */
    uint64_t lasted_ns[ROUNDS_MOST * IN_A_ROUND];
    uint64_t yields, contended;
    int failed;
    pthread_t thread;
};

static void wait_once(struct arm *arm, struct taut_event *never, struct taut_window *window)
{
    struct taut_wait_policy policy = {.size = sizeof policy, .window = window};
    struct taut_wait_report report;
    struct usage before, after;
    if (arm->discipline == YIELDS) {
        policy.spin_ns = 20 * TAUT_NS_PER_US;
        policy.yield_ns = arm->window_ns;
    }
    read_usage(&before);
    uint64_t began_ns = taut_now_ns(), deadline_ns = began_ns + arm->window_ns;
    if (arm->discipline == EACH || arm->discipline == EACH_64) {
        yield_for(deadline_ns, arm->discipline == EACH ? 1 : 64);
    } else {
        arm->failed |= taut_wait(never, 0, deadline_ns, &policy, &report) != TAUT_WAIT_EXPIRED;
        arm->yields += report.yields;
        arm->contended += report.contended;
    }
    arm->lasted_ns[arm->samples++] = taut_now_ns() - began_ns;
    read_usage(&after);
    arm->disturbed |= !beside_neighbours(&before, &after);
}

static void *run_arm(void *context)
{
    struct arm *arm = context;
    struct taut_event never;
    struct taut_window window;
    arm->failed = taut_cpu_bind_self(arm->cpu, NULL) != 0 || taut_event_init(&never) != 0 ||
                  taut_window_init(&window, NULL, NULL) != 0;
    for (uint32_t round = 0; round < arm->rounds; round++) {
        (void)taut_wait(&arm->turn, round, TAUT_NEVER_NS, NULL, NULL);
        uint32_t count = arm->discipline == EACH_64 ? 1 : IN_A_ROUND;
        for (uint32_t i = 0; i < count && !arm->failed; i++)
            wait_once(arm, &never, &window);
        taut_event_publish(&arm->done);
    }
    return NULL;
}

static void print(struct arm *arm)
{
    qsort(arm->lasted_ns, arm->samples, sizeof arm->lasted_ns[0], compare);
    uint64_t median_ns = arm->lasted_ns[(arm->samples - 1) / 2];
    uint64_t most_ns = arm->lasted_ns[arm->samples - 1];
    printf("{\"discipline\": \"%s\", \"samples\": %u, \"median_ratio\": %.4f, "
           "\"worst_ratio\": %.3f, \"worst_late_ns\": %llu, \"yields\": %llu, "
           "\"contended\": %llu, \"rounds\": %u, \"inconclusive\": %u}\n",
           names[arm->discipline], arm->samples, (double)median_ns / (double)arm->window_ns,
           (double)most_ns / (double)arm->window_ns, (unsigned long long)(most_ns - arm->window_ns),
           (unsigned long long)arm->yields, (unsigned long long)arm->contended, arm->rounds,
           arm->inconclusive);
}

/* The round of all disciplines is over: keeps what can be judged. */
static void settle(struct arm *arms, int busy)
{
    for (uint32_t i = 0; i < DISCIPLINES; i++) {
        if (!busy || arms[i].disturbed) {
            arms[i].inconclusive++;
            arms[i].samples = arms[i].counted;
        }
        arms[i].counted = arms[i].samples;
        arms[i].disturbed = 0;
    }
}

/* 0; 2: a discipline has failed, or can't be judged. */
static int report(struct arm *arms)
{
    for (uint32_t i = 0; i < DISCIPLINES; i++) {
        if (arms[i].failed)
            return 2;
        if (2 * arms[i].inconclusive > arms[i].rounds) {
            fprintf(
                stderr,
                "bench_deadline: %u of %u rounds of '%s' were not beside busy neighbours only\n",
                arms[i].inconclusive, arms[i].rounds, names[i]);
            return 2;
        }
    }
    for (uint32_t i = 0; i < DISCIPLINES; i++)
        print(&arms[i]);
    return 0;
}

static int run(uint64_t window_ns, uint32_t rounds, uint32_t cpu)
{
    static struct arm arms[DISCIPLINES];
    for (uint32_t i = 0; i < DISCIPLINES; i++) {
        struct arm *arm = &arms[i];
        arm->discipline = (enum discipline)i;
        arm->cpu = cpu;
        arm->rounds = rounds;
        arm->window_ns = window_ns;
        if (taut_event_init(&arm->turn) != 0 || taut_event_init(&arm->done) != 0 ||
            pthread_create(&arm->thread, NULL, run_arm, arm) != 0)
            return 2;
    }
    for (uint32_t round = 0; round < rounds; round++) {
        struct usage before, after;
        read_usage(&before);
        for (uint32_t k = 0; k < DISCIPLINES; k++) {
            struct arm *arm = &arms[(round + k) % DISCIPLINES];
            taut_event_publish(&arm->turn);
            (void)taut_wait(&arm->done, round, TAUT_NEVER_NS, NULL, NULL);
        }
        read_usage(&after);
        settle(arms, all_busy(&before, &after));
    }
    for (uint32_t i = 0; i < DISCIPLINES; i++)
        pthread_join(arms[i].thread, NULL);
    return report(arms);
}

int main(int argc, char **argv)
{
    uint64_t window_us = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    uint32_t rounds = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    uint32_t cpu = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    if (window_us == 0 || window_us > 10000000 || count > NEIGHBOURS_MOST || rounds == 0 ||
        rounds > ROUNDS_MOST) {
        fprintf(stderr, "usage: bench_deadline WINDOW_US NEIGHBOURS ROUNDS [CPU]\n");
        return 2;
    }
    atexit(end_neighbours);
    uint64_t began_ns = taut_now_ns();
    if (start_neighbours(count, cpu) != 0) {
        fprintf(stderr, "bench_deadline: no neighbours\n");
        return 2;
    }
    struct timespec tick;
    struct rusage usage;
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    printf("{\"tick_ns\": %ld}\n", tick.tv_nsec);
    fflush(stdout);
    /* bare wait: let the neighbours arrive, and the scheduler's memory of our start fade. */
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    int code = run(window_us * TAUT_NS_PER_US, rounds, cpu);
    uint64_t lasted_ns = taut_now_ns() - began_ns;
    uint64_t least_ns, used = kill_neighbours(&least_ns);
    if (code == 0 && getrusage(RUSAGE_SELF, &usage) == 0)
        printf("{\"foreign_share\": %.4f, \"neighbour_least\": %.4f}\n",
               1 - (double)(used + used_ns(&usage)) / (double)lasted_ns,
               (double)least_ns / (double)lasted_ns);
    return code;
}
