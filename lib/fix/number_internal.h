/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Digits in words, shared by numbers, timestamps and the encoder. No load or store leaves the text.
 */
#ifndef TAUT_FIX_NUMBER_INTERNAL_H
#define TAUT_FIX_NUMBER_INTERNAL_H

#include <taut/number.h>

#include "scan_internal.h"

/* "00" .. "99". */
extern const char taut__digit_pairs[201];

/* 1..8 digits at `text` as a number; false where one is no digit. */
static inline bool taut__parse_digits(const uint8_t *text, size_t length, uint64_t *value)
{
    uint64_t word;
    if (length == 8) {
        word = taut__load64(text);
    } else if (length >= 4) { /* two loads that overlap */
        uint64_t last = taut__load32(text + length - 4);
        word = taut__load32(text) | last << (8 * (length - 4));
    } else { /* the first, the middle and the last byte: the same for one digit */
        word = (uint64_t)text[0] | (uint64_t)text[length / 2] << (8 * (length / 2)) |
               (uint64_t)text[length - 1] << (8 * (length - 1));
    }
    word = (word ^ TAUT__BYTES('0')) << (64 - 8 * length);
    *value = taut__eight_digits(word);
    return !taut__not_digits(word);
}

/* Decimal digits of a value, 1..20. */
static inline uint32_t taut__count_digits(uint64_t value)
{
    uint32_t digits = 1;
    for (; value >= 10000; value /= 10000)
        digits += 4;
    return digits + (value >= 10) + (value >= 100) + (value >= 1000);
}

static inline void taut__store64(uint8_t *p, uint64_t word)
{
    memcpy(p, &word, sizeof word);
}

/* The eight digits of a value below 10^8 as digit values, the most significant in the lowest byte.
 * Each step splits every number in the word in two: by 10^4, by 100, by 10; the divisions are
 * multiplications that are exact for the numbers that occur. */
static inline uint64_t taut__spread_digits(uint32_t value)
{
    uint64_t high = value / 10000;
    uint64_t word = high | (uint64_t)(value - high * 10000) << 32;
    uint64_t hundreds = ((word * 10486) >> 20) & 0x0000007f0000007full;
    word = hundreds | (word - hundreds * 100) << 16;
    uint64_t tens = ((word * 103) >> 10) & 0x000f000f000f000full;
    return tens | (word - tens * 10) << 8;
}

/* Writes exactly `digits` digits, with leading zeros. */
static inline void taut__write_digits(uint8_t *text, uint64_t value, uint32_t digits)
{
    uint8_t *at = text + digits;
    while (at - text >= 2) {
        at -= 2;
        memcpy(at, taut__digit_pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (at > text)
        *text = (uint8_t)('0' + value % 10);
}

#endif
