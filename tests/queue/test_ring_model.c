/* SPDX-License-Identifier: BSD-2-Clause */
/* Random operations on a ring, each compared with the reference of ring_ops.c; the seed is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "ring_ops.h"

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Weighted towards filling, draining or both, so that full and empty are met often. */
static void make(uint8_t *bytes, size_t length, uint64_t seed)
{
    static const uint8_t mostly[3][8] = {
        {0, 1, 0, 1, 2, 5, 7, 4}, {2, 3, 2, 3, 0, 6, 7, 4}, {0, 1, 2, 3, 4, 5, 6, 7}};
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    uint32_t mood = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t draw = next_random(&state);
        if (draw % 61 == 0)
            mood = (uint32_t)(draw >> 8) % 3;
        bytes[i] = (uint8_t)((draw >> 16 & 0xf8) | mostly[mood][(draw >> 32) % 8]);
        if (i < length - length / 8 && bytes[i] == 0xff)
            bytes[i] = 0x07;
        if (i < 4)
            bytes[i] = (uint8_t)(draw >> 40);
    }
}

static void random_operations_agree_with_the_reference(void **state)
{
    (void)state;
    uint64_t runs = getenv("TAUT_SOAK") ? 400000 : 4000;
    static uint8_t bytes[600];
    for (uint64_t seed = 1; seed <= runs; seed++) {
        make(bytes, sizeof bytes, seed);
        const char *wrong = ring_ops_run(bytes, sizeof bytes);
        if (wrong)
            fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
