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

static void keep(struct waits *waits, struct spans *spans, struct span span)
{
    if (spans->count < WAITS_EVENTS_MAX)
        spans->span[spans->count++] = span;
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
    int late = waits->out_ns != 0 && now_ns - waits->out_ns >= LATE_NS;
    if (waits->stale || late || now_ns - waits->delay_at_ns >= BASELINE_AGE_NS) {
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
    if (took_ns < WAIT_LONG_NS && !gap) {
        waits->stale |= took_ns >= LATE_NS;
        return;
    }
    uint64_t delay_ns = renew(waits, got_ns);
    if (delay_ns > took_ns)
        delay_ns = took_ns;
    if (gap)
        keep(waits, &waits->gaps, (struct span){free_ns, got_ns, begin_ns, delay_ns});
    if (took_ns >= WAIT_LONG_NS)
        keep(waits, &waits->longs, (struct span){begin_ns, got_ns, begin_ns, delay_ns});
}

void waits_out(struct waits *waits, uint64_t got_ns, uint64_t work_ns, uint64_t done_ns,
               uint64_t out_ns)
{
    if (done_ns - got_ns > work_ns + LATE_NS) {
        keep(waits, &waits->late_holds, (struct span){got_ns + work_ns, done_ns, 0, 0});
        waits->stale = 1;
    }
    if (out_ns - done_ns > LATE_NS) {
        keep(waits, &waits->late_releases, (struct span){done_ns, out_ns, 0, 0});
        waits->stale = 1;
    }
    waits->out_ns = out_ns;
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

/* Of a time, what is explained at least and at most. */
struct bounds {
    uint64_t least_ns, most_ns;
};

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

static void raise_to(uint64_t *value, uint64_t least)
{
    if (*value < least)
        *value = least;
}

/* How much of `part` the delay of a wait explains: what cannot have been in the rest of that wait,
 * and what fits into the part. */
static struct bounds delay_in(const struct span *part, uint64_t since_ns, uint64_t got_ns,
                              uint64_t delay_ns)
{
    struct span wait = {.begin_ns = since_ns, .end_ns = got_ns};
    uint64_t within_ns = common_ns(part, &wait), elsewhere_ns = got_ns - since_ns - within_ns;
    return (struct bounds){delay_ns > elsewhere_ns ? delay_ns - elsewhere_ns : 0,
                           delay_ns < within_ns ? delay_ns : within_ns};
}

/* When the release that began with the gap had returned, if late; else when the gap began. */
static uint64_t released_ns(const struct span *gap, const struct waits *const *all, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct spans *late = &all[i]->late_releases;
        for (uint32_t k = first_after(late, gap->begin_ns);
             k < late->count && late->span[k].begin_ns <= gap->begin_ns; k++)
            if (late->span[k].begin_ns == gap->begin_ns)
                return late->span[k].end_ns < gap->end_ns ? late->span[k].end_ns : gap->end_ns;
    }
    return gap->begin_ns;
}

/* Those who got the lock after the gap and not after this wait did: it was theirs to take. Who has
 * looked at the clock first need not have queued first: one that came later may be meant. */
static struct bounds ahead_explain(const struct span *part, const struct span *gap,
                                   const struct span *wait, const struct waits *const *all,
                                   uint32_t count)
{
    struct bounds sum = {0, 0};
    for (uint32_t i = 0; i < count; i++) {
        const struct spans *longs = &all[i]->longs;
        for (uint32_t k = first_after(longs, gap->end_ns);
             k < longs->count && longs->span[k].begin_ns < part->end_ns; k++) {
            const struct span *one = &longs->span[k];
            if (one == wait || one->end_ns > wait->end_ns)
                continue;
            struct bounds more = delay_in(part, one->begin_ns, one->end_ns, one->delay_ns);
            if (one->begin_ns < wait->begin_ns)
                raise_to(&sum.least_ns, more.least_ns);
            sum.most_ns += more.most_ns;
        }
    }
    return sum;
}

/* What scheduling explains of that part of a gap which lies in a wait. */
static struct bounds gap_explained(const struct span *gap, const struct span *wait,
                                   const struct waits *const *all, uint32_t count)
{
    uint64_t out_ns = released_ns(gap, all, count);
    struct span release = {.begin_ns = gap->begin_ns, .end_ns = out_ns};
    struct span part = {.begin_ns = out_ns > wait->begin_ns ? out_ns : wait->begin_ns,
                        .end_ns = gap->end_ns < wait->end_ns ? gap->end_ns : wait->end_ns};
    uint64_t release_ns = common_ns(wait, &release);
    if (part.begin_ns >= part.end_ns)
        return (struct bounds){release_ns, release_ns};
    uint64_t rest_ns = part.end_ns - part.begin_ns;
    struct bounds next = delay_in(&part, gap->since_ns, gap->end_ns, gap->delay_ns);
    if (gap->since_ns > wait->begin_ns)
        next.least_ns = 0;
    struct bounds ahead = ahead_explain(&part, gap, wait, all, count);
    if (gap->since_ns == wait->begin_ns && gap->end_ns == wait->end_ns)
        next.most_ns = 0; /* the wait's own delay, which is added to all */
    raise_to(&next.least_ns, ahead.least_ns);
    next.most_ns += ahead.most_ns;
    return (struct bounds){release_ns + next.least_ns,
                           release_ns + (next.most_ns < rest_ns ? next.most_ns : rest_ns)};
}

/* What scheduling explains of a wait. */
static struct bounds wait_explained(const struct span *wait, const struct waits *const *all,
                                    uint32_t count)
{
    struct bounds sum = {0, 0};
    uint64_t took_ns = wait->end_ns - wait->begin_ns;
    for (uint32_t i = 0; i < count; i++) {
        const struct spans *gaps = &all[i]->gaps;
        uint64_t hold_ns = covered_ns(wait, &all[i]->late_holds);
        sum.least_ns += hold_ns;
        sum.most_ns += hold_ns;
        for (uint32_t k = first_after(gaps, wait->begin_ns);
             k < gaps->count && gaps->span[k].begin_ns < wait->end_ns; k++) {
            struct bounds gap = gap_explained(&gaps->span[k], wait, all, count);
            sum.least_ns += gap.least_ns;
            sum.most_ns += gap.most_ns;
        }
    }
    raise_to(&sum.least_ns, wait->delay_ns);
    sum.most_ns += wait->delay_ns;
    return (struct bounds){sum.least_ns < took_ns ? sum.least_ns : took_ns,
                           sum.most_ns < took_ns ? sum.most_ns : took_ns};
}

void waits_explain(const struct waits *one, const struct waits *const *all, uint32_t count,
                   struct explained *sums)
{
    for (uint32_t i = 0; i < one->longs.count; i++) {
        const struct span *wait = &one->longs.span[i];
        uint64_t took_ns = wait->end_ns - wait->begin_ns;
        struct bounds explained = wait_explained(wait, all, count);
        sums->over_1ms++;
        raise_to(&sums->unexplained_most_ns, took_ns - explained.least_ns);
        if (took_ns < 2 * WAIT_LONG_NS)
            continue;
        sums->over_2ms++;
        sums->unexplained_2ms += took_ns - explained.least_ns > WAIT_LONG_NS;
        sums->certain_2ms += took_ns - explained.most_ns > WAIT_LONG_NS;
    }
}
