/* SPDX-License-Identifier: BSD-2-Clause */
/* bench/lock/waits.c - waits and what explains them. */
#include "waits.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* Runnable and not on a CPU since the thread began; 0: unreadable. */
static int read_delay(int fd, uint64_t *delay_ns)
{
    char text[128];
    unsigned long long on_cpu, delay;
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    if (sscanf(text, "%llu %llu", &on_cpu, &delay) != 2)
        return 0;
    *delay_ns = delay;
    return 1;
}

/* How long the thread was runnable since the last reading; 0 where one of the two failed. */
static uint64_t renew(struct waits *waits, uint64_t now_ns)
{
    uint64_t before_ns = waits->delay_ns, since_ns = 0;
    if (!read_delay(waits->schedstat, &waits->delay_ns)) {
        waits->unreadable++;
        waits->stale = 1;
        return 0;
    }
    if (!waits->stale && waits->delay_ns > before_ns)
        since_ns = waits->delay_ns - before_ns;
    waits->delay_at_ns = now_ns;
    waits->stale = 0;
    return since_ns;
}

int waits_open(struct waits *waits, const char *schedstat)
{
    waits->schedstat = open(schedstat, O_RDONLY | O_CLOEXEC);
    waits->stale = 1;
    return waits->schedstat < 0 || !read_delay(waits->schedstat, &waits->delay_ns) ? -1 : 0;
}

static void keep(struct waits *waits, struct spans *spans, uint64_t begin_ns, uint64_t end_ns,
                 uint64_t delay_ns)
{
    if (spans->count < WAITS_EVENTS_MAX)
        spans->span[spans->count++] = (struct span){begin_ns, end_ns, delay_ns};
    else
        waits->dropped++;
}

static uint32_t bucket_of(uint64_t ns)
{
    if (ns < 16)
        return (uint32_t)ns;
    uint32_t doubling = 63u - (uint32_t)__builtin_clzll(ns);
    uint32_t bucket = (doubling - 3) * 16 + ((uint32_t)(ns >> (doubling - 4)) & 15u);
    return bucket < WAITS_BUCKETS ? bucket : WAITS_BUCKETS - 1;
}

static uint64_t bucket_end_ns(uint32_t bucket)
{
    if (bucket < 16)
        return bucket;
    uint32_t doubling = bucket / 16 + 3;
    return ((UINT64_C(16) + bucket % 16 + 1) << (doubling - 4)) - 1;
}

void waits_begin(struct waits *waits, uint64_t now_ns)
{
    if (waits->stale || now_ns - waits->delay_at_ns >= BASELINE_AGE_NS) {
        waits->stale = 1; /* what was before this wait is not of it */
        (void)renew(waits, now_ns);
    }
}

void waits_got(struct waits *waits, uint64_t begin_ns, uint64_t got_ns, uint64_t free_ns)
{
    uint64_t took_ns = got_ns - begin_ns;
    int gap = free_ns != 0 && got_ns > free_ns && got_ns - free_ns >= LATE_NS;
    waits->count++;
    waits->bucket[bucket_of(took_ns)]++;
    if (took_ns > waits->max_ns)
        waits->max_ns = took_ns;
    if (took_ns < WAIT_LONG_NS && !gap)
        return;
    uint64_t delay_ns = renew(waits, got_ns);
    if (delay_ns > took_ns)
        delay_ns = took_ns;
    if (gap)
        keep(waits, &waits->gaps, free_ns, got_ns, delay_ns);
    if (took_ns >= WAIT_LONG_NS)
        keep(waits, &waits->longs, begin_ns, got_ns, delay_ns);
}

void waits_out(struct waits *waits, uint64_t got_ns, uint64_t work_ns, uint64_t done_ns,
               uint64_t out_ns)
{
    if (done_ns - got_ns > work_ns + LATE_NS) {
        keep(waits, &waits->late_holds, got_ns + work_ns, done_ns, 0);
        waits->stale = 1;
    }
    if (out_ns - done_ns > LATE_NS) {
        keep(waits, &waits->late_releases, done_ns, out_ns, 0);
        waits->stale = 1;
    }
}

void waits_merge(struct waits *all, const struct waits *one)
{
    all->count += one->count;
    all->dropped += one->dropped;
    all->unreadable += one->unreadable;
    if (one->max_ns > all->max_ns)
        all->max_ns = one->max_ns;
    for (uint32_t i = 0; i < WAITS_BUCKETS; i++)
        all->bucket[i] += one->bucket[i];
}

uint64_t waits_quantile(const struct waits *waits, double p)
{
    uint64_t rank = (uint64_t)ceil(p * (double)waits->count), seen = 0;
    for (uint32_t i = 0; i < WAITS_BUCKETS; i++) {
        seen += waits->bucket[i];
        if (seen >= rank)
            return bucket_end_ns(i) < waits->max_ns ? bucket_end_ns(i) : waits->max_ns;
    }
    return waits->max_ns;
}

static uint64_t common_ns(const struct span *a, const struct span *b)
{
    uint64_t begin_ns = a->begin_ns > b->begin_ns ? a->begin_ns : b->begin_ns;
    uint64_t end_ns = a->end_ns < b->end_ns ? a->end_ns : b->end_ns;
    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

/* The first that ends after the time. */
static uint32_t first_after(const struct spans *spans, uint64_t time_ns)
{
    uint32_t low = 0, high = spans->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (spans->span[middle].end_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How much of `part` these spans cover. */
static uint64_t covered_ns(const struct span *part, const struct spans *spans)
{
    uint64_t sum_ns = 0;
    for (uint32_t i = first_after(spans, part->begin_ns);
         i < spans->count && spans->span[i].begin_ns < part->end_ns; i++)
        sum_ns += common_ns(part, &spans->span[i]);
    return sum_ns;
}

/* What scheduling explains of a time between two holders. */
static uint64_t gap_explained_ns(const struct span *gap, const struct waits *const *all,
                                 uint32_t count)
{
    uint64_t length_ns = gap->end_ns - gap->begin_ns, release_ns = 0;
    for (uint32_t i = 0; i < count; i++)
        release_ns += covered_ns(gap, &all[i]->late_releases);
    if (release_ns > length_ns)
        release_ns = length_ns;
    uint64_t rest_ns = length_ns - release_ns;
    return release_ns + (gap->delay_ns < rest_ns ? gap->delay_ns : rest_ns);
}

/* The same of a wait. */
static uint64_t wait_explained_ns(const struct span *wait, const struct waits *const *all,
                                  uint32_t count)
{
    uint64_t sum_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct spans *gaps = &all[i]->gaps;
        sum_ns += covered_ns(wait, &all[i]->late_holds);
        for (uint32_t k = first_after(gaps, wait->begin_ns);
             k < gaps->count && gaps->span[k].begin_ns < wait->end_ns; k++) {
            uint64_t within_ns = common_ns(wait, &gaps->span[k]);
            uint64_t explained_ns = gap_explained_ns(&gaps->span[k], all, count);
            sum_ns += explained_ns < within_ns ? explained_ns : within_ns;
        }
    }
    return sum_ns > wait->delay_ns ? sum_ns : wait->delay_ns;
}

void waits_explain(const struct waits *one, const struct waits *const *all, uint32_t count,
                   struct explained *sums)
{
    for (uint32_t i = 0; i < one->longs.count; i++) {
        const struct span *wait = &one->longs.span[i];
        uint64_t took_ns = wait->end_ns - wait->begin_ns;
        uint64_t explained_ns = wait_explained_ns(wait, all, count);
        uint64_t left_ns = took_ns > explained_ns ? took_ns - explained_ns : 0;
        sums->over_1ms++;
        if (left_ns > sums->unexplained_most_ns)
            sums->unexplained_most_ns = left_ns;
        if (took_ns < 2 * WAIT_LONG_NS)
            continue;
        sums->over_2ms++;
        sums->unexplained_2ms += left_ns > WAIT_LONG_NS;
    }
}
