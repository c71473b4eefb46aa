/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/quantile.h - exact quantiles of raw samples.
 *
 * The rank of quantile p over n values is ceil(p * n), at least 1; no interpolation. An unanswered
 * request counts as +infinity (QUANTILE_INFINITE). A quantile that has fewer than 10 expected
 * exceedances, n * (1 - p) < 10, is refused (QUANTILE_REFUSED): too few values for that statement.
 * Only the median says something of the middle and not of a tail: it is given from 5 values on.
 * The maximum is a value, not a quantile, and is always given.
 *
 * Threads: pure, on the caller's memory.
 */
#ifndef LAB_CAPTURE_QUANTILE_H
#define LAB_CAPTURE_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

#define QUANTILE_INFINITE UINT64_MAX
#define QUANTILE_REFUSED  (UINT64_MAX - 1)

/* Standard quantiles in parts per million of a million: 500000 = p50, 999900 = p99.99. */
#define QUANTILE_P50       500000u
#define QUANTILE_P50_LEAST 5u /* values that a median wants */
#define QUANTILE_P90       900000u
#define QUANTILE_P99       990000u
#define QUANTILE_P999      999000u
#define QUANTILE_P9999     999900u
#define QUANTILE_P99999    999990u

/* Sorts values ascending (radix sort; `scratch` has room for n values). */
void quantile_sort(uint64_t *values, uint64_t *scratch, size_t n);

/* The quantile `ppm` / 1e6 of n sorted values, or QUANTILE_REFUSED. */
uint64_t quantile_of(const uint64_t *sorted, size_t n, uint32_t ppm);

/* 1-based rank ceil(ppm * n / 1e6), at least 1; exact in integers. */
uint64_t quantile_rank(uint64_t n, uint32_t ppm);

#endif
