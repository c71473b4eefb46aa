/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/number.h - FIX integers, decimals and UTC timestamps, from and to text.
 *
 * Parsers take exactly `length` bytes and refuse anything that the FIX data types do not allow:
 * no white space, no '+', no exponent. A decimal is a mantissa and a scale and never passes through
 * a double. Formatters need the capacity that their TAUT_*_TEXT_MAX constant says, write no NUL,
 * and return the length.
 *
 * Threads: pure. Blocking: never. Errors: TAUT_EFORMAT (not of the type), TAUT_EOVERFLOW.
 */
#ifndef TAUT_NUMBER_H
#define TAUT_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include <taut/err.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAUT_INTEGER_TEXT_MAX 20u
#define TAUT_DECIMAL_TEXT_MAX 40u
#define TAUT_UTC_TEXT_MAX     30u

/* mantissa * 10^-scale, scale 0..18. "1.50" is {150, 2}: trailing zeros are kept. */
struct taut_decimal {
    int64_t mantissa;
    uint32_t scale;
};

/* A UTC timestamp with up to 12 fractional digits. */
struct taut_utc {
    int64_t seconds;      /* since 1970-01-01T00:00:00 UTC, leap seconds not counted */
    uint32_t nanoseconds; /* 0 .. 999,999,999 */
    uint32_t picoseconds; /* below the nanosecond, 0 .. 999 */
    uint32_t digits;      /* fractional digits in the text, 0..12 */
    uint32_t leap;        /* 1: the text said second 60 */
};

/* FIX SeqNum, Length, NumInGroup: digits only, leading zeros allowed. */
TAUT_API int taut_parse_u64(const uint8_t *text, size_t length, uint64_t *value);

/* FIX int: an optional '-' and digits. */
TAUT_API int taut_parse_i64(const uint8_t *text, size_t length, int64_t *value);

/* FIX float: optional '-', digits with at most one '.'; ".5" and "5." are read. */
TAUT_API int taut_parse_decimal(const uint8_t *text, size_t length, struct taut_decimal *value);

/* FIX UTCTimestamp: YYYYMMDD-HH:MM:SS[.f{1,12}], calendar checked, second 60 allowed. */
TAUT_API int taut_parse_utc(const uint8_t *text, size_t length, struct taut_utc *value);

TAUT_API size_t taut_format_u64(uint8_t *text, uint64_t value);
TAUT_API size_t taut_format_i64(uint8_t *text, int64_t value);
TAUT_API size_t taut_format_decimal(uint8_t *text, struct taut_decimal value);

/* UTC timestamp of `utc_ns` (nanoseconds since 1970, years 1970..9999) with 0, 3, 6, 9 digits. */
TAUT_API size_t taut_format_utc(uint8_t *text, uint64_t utc_ns, uint32_t digits);

/* -1, 0, 1 by value: 1.5 equals 1.50. */
TAUT_API int taut_decimal_compare(struct taut_decimal a, struct taut_decimal b);

/* Exact sum and product; TAUT_EOVERFLOW where mantissa or scale do not fit. */
TAUT_API int taut_decimal_add(struct taut_decimal a, struct taut_decimal b,
                              struct taut_decimal *sum);
TAUT_API int taut_decimal_multiply(struct taut_decimal a, struct taut_decimal b,
                                   struct taut_decimal *product);

#ifdef __cplusplus
}
#endif
#endif
