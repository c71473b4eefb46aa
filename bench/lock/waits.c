/* SPDX-License-Identifier: BSD-2-Clause */
/* bench/lock/waits.c - waits and what explains them. */
#include "waits.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t read_delay(int fd)
{
    char text[128];
    unsigned long long on_cpu, delay;
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    if (length <= 0)
        return UINT64_MAX;
    text[length] = '\0';
    return sscanf(text, "%llu %llu", &on_cpu, &delay) == 2 ? delay : UINT64_MAX;
}

int waits_open(struct waits *waits)
{
    waits->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (waits->schedstat < 0)
        return -1;
    waits->delay_ns = read_delay(waits->schedstat);
    waits->delay_at_ns = taut_now_ns();
    return waits->delay_ns == UINT64_MAX ? -1 : 0;
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

void waits_add(struct waits *waits, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t took_ns = end_ns - begin_ns;
    waits->count++;
    waits->bucket[bucket_of(took_ns)]++;
    if (took_ns > waits->max_ns)
        waits->max_ns = took_ns;
    if (took_ns < WAIT_LONG_NS && end_ns - waits->delay_at_ns < BASELINE_AGE_NS)
        return;
    uint64_t delay_ns = read_delay(waits->schedstat);
    if (took_ns >= WAIT_LONG_NS) {
        uint64_t delta_ns = delay_ns - waits->delay_ns;
        if (waits->long_count < WAITS_EVENTS_MAX)
            waits->longs[waits->long_count++] =
                (struct span){begin_ns, end_ns, delta_ns < took_ns ? delta_ns : took_ns};
        else
            waits->dropped++;
    }
    waits->delay_ns = delay_ns;
    waits->delay_at_ns = end_ns;
}

void waits_hold_late(struct waits *waits, uint64_t begin_ns, uint64_t end_ns)
{
    if (waits->late_count < WAITS_EVENTS_MAX)
        waits->late_holds[waits->late_count++] = (struct span){begin_ns, end_ns, end_ns - begin_ns};
    else
        waits->dropped++;
}

void waits_merge(struct waits *all, const struct waits *one)
{
    all->count += one->count;
    all->dropped += one->dropped;
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

/* How much of the wait the delays in `spans` cover; they are in the order of time. */
static uint64_t covered_ns(const struct span *wait, const struct span *spans, uint32_t count)
{
    uint64_t sum_ns = 0;
    uint32_t low = 0, high = count;
    while (low < high) { /* the first that ends after the wait begins */
        uint32_t middle = low + (high - low) / 2;
        if (spans[middle].end_ns <= wait->begin_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (uint32_t i = low; i < count && spans[i].begin_ns < wait->end_ns; i++) {
        uint64_t begin_ns = spans[i].begin_ns > wait->begin_ns ? spans[i].begin_ns : wait->begin_ns;
        uint64_t end_ns = spans[i].end_ns < wait->end_ns ? spans[i].end_ns : wait->end_ns;
        uint64_t shared_ns = end_ns - begin_ns;
        sum_ns += shared_ns < spans[i].delay_ns ? shared_ns : spans[i].delay_ns;
    }
    return sum_ns;
}

void waits_explain(const struct waits *one, const struct waits *const *others, uint32_t count,
                   struct explained *sums)
{
    for (uint32_t i = 0; i < one->long_count; i++) {
        const struct span *wait = &one->longs[i];
        uint64_t took_ns = wait->end_ns - wait->begin_ns, covered = wait->delay_ns;
        for (uint32_t j = 0; j < count; j++) {
            covered += covered_ns(wait, others[j]->late_holds, others[j]->late_count);
            covered += covered_ns(wait, others[j]->longs, others[j]->long_count);
        }
        uint64_t left_ns = took_ns > covered ? took_ns - covered : 0;
        sums->over_1ms++;
        if (left_ns > sums->unexplained_most_ns)
            sums->unexplained_most_ns = left_ns;
        if (took_ns < 2 * WAIT_LONG_NS)
            continue;
        sums->over_2ms++;
        sums->unexplained_2ms += left_ns > WAIT_LONG_NS;
    }
}
