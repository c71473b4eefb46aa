/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * examples/workers.c - one owner hands out jobs to workers that share a journal: a fan-out with
 * credit for each worker, waits with a deadline and a report, and a lock that tells who won
 * instead. Worker 0 is slow on purpose; nobody waits for it. Prints what became of the jobs and of
 * the waits.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <taut/taut.h>

#define WORKERS 3u
#define JOBS    30000u

struct farm {
    struct taut_fanout *fanout;
    struct taut_lock journal;
    uint64_t entries; /* guarded by the journal's lock */
};

struct worker {
    struct farm *farm;
    uint32_t number, most_bypassed;
    struct taut_window window; /* how long this thread spins before it sleeps */
};

static void write_journal(struct worker *w)
{
    struct taut_lock_report report;
    if (taut_lock_acquire(&w->farm->journal, TAUT_NEVER_NS, &report) != TAUT_LOCK_ACQUIRED)
        return;
    w->farm->entries++;
    taut_lock_release(&w->farm->journal);
    if (report.bypass_count > w->most_bypassed)
        w->most_bypassed = report.bypass_count;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct taut_fanout *fanout = w->farm->fanout;
    struct taut_fanout_item job;
    struct taut_wait_policy policy = {.size = sizeof policy, .window = &w->window};
    taut_window_init(&w->window, NULL, NULL);
    while (!taut_fanout_closed(fanout, w->number)) {
        if (!taut_fanout_take(fanout, w->number, &job)) {
            if (taut_fanout_wait_work(fanout, w->number, TAUT_NEVER_NS, &policy, NULL) < 0)
                abort(); /* a mistake of ours: it would be a loop without a wait */
            continue;
        }
        if (w->number == 0) { /* a slow device: a wait that nobody ends */
            struct taut_event nothing;
            if (taut_event_init(&nothing) == 0)
                taut_wait(&nothing, 0, taut_now_ns() + 100 * TAUT_NS_PER_US, &policy, NULL);
        }
        write_journal(w);
        taut_fanout_return(fanout, w->number, &job);
    }
    taut_fanout_flush_returns(fanout, w->number);
    return NULL;
}

/* Gives each job to the next worker whose list has room; returns the turns that found none. */
static uint64_t hand_out(struct taut_fanout *fanout)
{
    struct taut_fanout_item back[64];
    uint64_t full_turns = 0, returned = 0;
    for (uint32_t job = 0, given = 0, next = 0; returned < JOBS;) {
        uint32_t tried = 0;
        while (given < JOBS && tried < WORKERS) {
            int outcome = taut_fanout_send(fanout, next++ % WORKERS, 0, job, NULL);
            if (outcome == TAUT_FANOUT_REFUSED) {
                tried++;
                continue;
            }
            job++;
            given++;
            tried = 0;
        }
        full_turns += tried == WORKERS;
        uint32_t count = taut_fanout_reap(fanout, back, 64);
        returned += count;
        if (count == 0 && taut_fanout_wait_returns(fanout, TAUT_NEVER_NS, NULL, NULL) < 0)
            abort(); /* as above */
    }
    return full_turns;
}

int main(void)
{
    static struct farm farm;
    static struct worker workers[WORKERS];
    pthread_t threads[WORKERS];
    struct taut_err err;
    struct taut_fanout_options options = {
        .size = sizeof options, .children = WORKERS, .capacity = 64, .park = 16};
    if (taut_fanout_create(&farm.fanout, &options, &err) != 0 ||
        taut_lock_init(&farm.journal, NULL, &err) != 0) {
        fprintf(stderr, "workers: %s\n", err.text);
        return 1;
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.farm = &farm, .number = i};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "workers: no thread for worker %u\n", i);
            return 1;
        }
    }
    uint64_t full_turns = hand_out(farm.fanout);
    taut_fanout_close(farm.fanout);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct taut_fanout_stats stats;
        const struct taut_window *window = &workers[i].window;
        pthread_join(threads[i], NULL);
        taut_fanout_stats(farm.fanout, i, &stats);
        printf(
            "worker %u: jobs %llu, stalled %llu us; waits %llu: caught %llu, parked %llu, expired "
            "%llu; most bypassed %u\n",
            i, (unsigned long long)stats.returned, (unsigned long long)stats.stall_ns / 1000,
            (unsigned long long)window->waits, (unsigned long long)window->caught,
            (unsigned long long)window->parked, (unsigned long long)window->expired,
            workers[i].most_bypassed);
    }
    struct taut_lock_stats lock;
    taut_lock_stats(&farm.journal, &lock);
    printf(
        "journal: entries %llu, acquired %llu, contended %llu, longest wait %llu us behind thread "
        "%d; owner found all full %llu times\n",
        (unsigned long long)farm.entries, (unsigned long long)lock.acquired,
        (unsigned long long)lock.contended, (unsigned long long)lock.waited_most_ns / 1000,
        lock.waited_most_tid, (unsigned long long)full_turns);
    return taut_lock_destroy(&farm.journal) != 0 || taut_fanout_destroy(farm.fanout) != 0 ||
           farm.entries != JOBS;
}
