/* SPDX-License-Identifier: BSD-2-Clause */
/* Quantiles: the sort against qsort, ranks against their definition, what is refused. */
#include "capture/quantile.h"
#include "samples.h"

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void check_sort(uint64_t *values, size_t n)
{
    uint64_t *wanted = malloc((n + 1) * sizeof(*wanted));
    uint64_t *scratch = malloc((n + 1) * sizeof(*scratch));
    assert_non_null(wanted);
    assert_non_null(scratch);
    memcpy(wanted, values, n * sizeof(*wanted));
    qsort(wanted, n, sizeof(*wanted), compare);
    quantile_sort(values, scratch, n);
    assert_memory_equal(values, wanted, n * sizeof(*wanted));
    free(wanted);
    free(scratch);
}

static void sorts_as_qsort_does(void **state)
{
    (void)state;
    static const uint32_t bits[] = {1, 8, 11, 12, 20, 22, 33, 40, 63, 64};
    static const size_t sizes[] = {0, 1, 2, 63, 64, 65, 66, 1000, 30000};
    uint64_t random = 1;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (size_t b = 0; b < sizeof(bits) / sizeof(bits[0]); b++)
            for (uint32_t infinite = 0; infinite < 3; infinite++) {
                uint64_t *values = malloc((sizes[s] + 1) * sizeof(*values));
                assert_non_null(values);
                for (size_t i = 0; i < sizes[s]; i++) {
                    values[i] = next_random(&random) >> (64 - bits[b]);
                    if (infinite == 2 || (infinite && next_random(&random) % 50 == 0))
                        values[i] = QUANTILE_INFINITE;
                }
                check_sort(values, sizes[s]);
                free(values);
            }
}

/* rank = the smallest r >= 1 with r / n >= p. */
static void ranks_follow_their_definition(void **state)
{
    (void)state;
    static const uint32_t ppms[] = {0,      1,      500000, 900000, 920000,
                                    990000, 999000, 999900, 999990, 1000000};
    for (uint64_t n = 1; n < 3000; n++)
        for (size_t i = 0; i < sizeof(ppms) / sizeof(ppms[0]); i++) {
            uint64_t rank = quantile_rank(n, ppms[i]);
            assert_in_range(rank, 1, n);
            assert_true(rank * 1000000 >= n * ppms[i]);
            assert_true(rank == 1 || (rank - 1) * 1000000 < n * ppms[i]);
        }
    assert_int_equal(quantile_rank(10, 920000), 10); /* a rounding rank would say 9 */
    assert_int_equal(quantile_rank(UINT64_MAX, 1000000), UINT64_MAX);
    assert_int_equal(quantile_rank(UINT64_C(1) << 62, 500000), UINT64_C(1) << 61);
}

static void too_few_values_are_refused(void **state)
{
    (void)state;
    uint64_t *sorted = calloc(1000000, sizeof(*sorted));
    assert_non_null(sorted);
    for (size_t i = 0; i < 1000000; i++)
        sorted[i] = i + 1;
    static const struct {
        uint32_t ppm;
        size_t least;
    } cases[] = {{500001, 21},           {QUANTILE_P90, 100},      {QUANTILE_P99, 1000},
                 {QUANTILE_P999, 10000}, {QUANTILE_P9999, 100000}, {QUANTILE_P99999, 1000000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(quantile_of(sorted, cases[i].least - 1, cases[i].ppm), QUANTILE_REFUSED);
        assert_int_equal(quantile_of(sorted, cases[i].least, cases[i].ppm), cases[i].least - 10);
    }
    /* The median is no statement about a tail. */
    assert_int_equal(quantile_of(sorted, 0, QUANTILE_P50), QUANTILE_REFUSED);
    assert_int_equal(quantile_of(sorted, 4, QUANTILE_P50), QUANTILE_REFUSED);
    assert_int_equal(quantile_of(sorted, 5, QUANTILE_P50), 3);
    assert_int_equal(quantile_of(sorted, 19, QUANTILE_P50), 10);
    assert_int_equal(quantile_of(sorted, 20, QUANTILE_P50), 10);
    assert_int_equal(quantile_of(sorted, 1000000, 1000000), QUANTILE_REFUSED);
    free(sorted);
}

/* min <= p50 <= ... <= max, and each is one of the values. */
static void quantiles_rise(void **state)
{
    (void)state;
    uint64_t random = 7, values[5000], scratch[5000];
    static const uint32_t ppms[] = {QUANTILE_P50, QUANTILE_P90, QUANTILE_P99};
    for (int round = 0; round < 50; round++) {
        size_t n = 1000 + next_random(&random) % 4000;
        for (size_t i = 0; i < n; i++)
            values[i] = next_random(&random) >> (next_random(&random) % 60);
        quantile_sort(values, scratch, n);
        uint64_t before = values[0];
        for (size_t i = 0; i < 3; i++) {
            uint64_t q = quantile_of(values, n, ppms[i]);
            assert_true(q >= before && q <= values[n - 1]);
            assert_non_null(bsearch(&q, values, n, sizeof(q), compare));
            before = q;
        }
    }
}

/* Two samples that were put together are not the mean of two figures: 1,000 at 10 us and 10 at
 * 10 ms have a p99 of 10 us. */
static void union_is_not_a_mean(void **state)
{
    (void)state;
    uint64_t values[1010], scratch[1010];
    for (size_t i = 0; i < 1010; i++)
        values[i] = i % 101 == 0 ? 10000000 : 10000;
    quantile_sort(values, scratch, 1010);
    assert_int_equal(quantile_of(values, 1010, QUANTILE_P99), 10000);
    assert_int_equal(values[1009], 10000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_as_qsort_does),
        cmocka_unit_test(ranks_follow_their_definition),
        cmocka_unit_test(too_few_values_are_refused),
        cmocka_unit_test(quantiles_rise),
        cmocka_unit_test(union_is_not_a_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
