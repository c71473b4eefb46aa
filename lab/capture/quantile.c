/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/quantile.c - radix sort and ranks.
 *
 * Promises: ranks are integers from start to end, so that a quantile is one of the values and the
 * same on every machine; the sort's time depends on n and on the widest finite value only.
 */
#include <string.h>

#include "base/check.h"
#include "capture/quantile.h"

#define DIGIT_BITS   11u
#define DIGIT_VALUES (1u << DIGIT_BITS)
#define DIGITS       6u /* 66 bits */
#define SMALL_SORT   64u

__extension__ typedef unsigned __int128 wide;

static void insertion_sort(uint64_t *values, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

/* Moves the infinite values behind all others and returns how many are finite: left among them,
 * their set bits would cost a pass for every digit. */
static size_t split_infinite(uint64_t *values, size_t n)
{
    size_t finite = 0;
    for (size_t i = 0; i < n; i++)
        if (values[i] != QUANTILE_INFINITE)
            values[finite++] = values[i];
    for (size_t i = finite; i < n; i++)
        values[i] = QUANTILE_INFINITE;
    return finite;
}

/* One stable pass by the digit at `shift`; `starts` are the counts of that digit's values. */
static void pass(const uint64_t *from, uint64_t *to, size_t n, uint32_t shift, size_t *starts)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < DIGIT_VALUES; i++) {
        size_t count = starts[i];
        starts[i] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[starts[(from[i] >> shift) & (DIGIT_VALUES - 1)]++] = from[i];
}

void quantile_sort(uint64_t *values, uint64_t *scratch, size_t n)
{
    size_t counts[DIGITS][DIGIT_VALUES];
    uint64_t *from = values, *to = scratch;
    n = split_infinite(values, n);
    if (n <= SMALL_SORT) {
        insertion_sort(values, n);
        return;
    }
    memset(counts, 0, sizeof(counts));
    for (size_t i = 0; i < n; i++)
        for (uint32_t digit = 0; digit < DIGITS; digit++)
            counts[digit][(values[i] >> (digit * DIGIT_BITS)) & (DIGIT_VALUES - 1)]++;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t shift = digit * DIGIT_BITS;
        if (counts[digit][(from[0] >> shift) & (DIGIT_VALUES - 1)] == n)
            continue; /* all alike in this digit */
        pass(from, to, n, shift, counts[digit]);
        uint64_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != values)
        memcpy(values, from, n * sizeof(*values));
}

uint64_t quantile_rank(uint64_t n, uint32_t ppm)
{
    wide rank = ((wide)n * ppm + 999999u) / 1000000u;
    return rank == 0 ? 1 : (uint64_t)rank;
}

uint64_t quantile_of(const uint64_t *sorted, size_t n, uint32_t ppm)
{
    TAUT_CHECK(ppm <= 1000000u);
    int enough =
        ppm == QUANTILE_P50 ? n >= QUANTILE_P50_LEAST : (wide)n * (1000000u - ppm) >= 10000000u;
    if (!enough)
        return QUANTILE_REFUSED;
    return sorted[quantile_rank(n, ppm) - 1];
}
