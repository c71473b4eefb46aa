/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers and timestamps: what is read can be written, and what was written reads the same; the
 * digits of an integer are checked against a loop. The text is a heap block of exactly its length.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/number.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good, const char *what)
{
    if (good)
        return;
    printf("broken: %s\n", what);
    fflush(stdout);
    abort();
}

/* 0, TAUT_EFORMAT or TAUT_EOVERFLOW, one digit at a time. */
static int slow_u64(const uint8_t *text, size_t length, uint64_t *value)
{
    int code = length ? 0 : TAUT_EFORMAT;
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return TAUT_EFORMAT;
        uint64_t digit = (uint64_t)text[i] - '0';
        if (*value > (UINT64_MAX - digit) / 10)
            code = TAUT_EOVERFLOW;
        else
            *value = *value * 10 + digit;
    }
    return code;
}

static void integers(const uint8_t *text, size_t length)
{
    uint64_t value, slow;
    int code = taut_parse_u64(text, length, &value);
    must(code == slow_u64(text, length, &slow), "u64 code");
    must(code || value == slow, "u64 value");
    int64_t number, again;
    if (taut_parse_i64(text, length, &number) != 0)
        return;
    uint8_t out[TAUT_INTEGER_TEXT_MAX];
    size_t written = taut_format_i64(out, number);
    must(written <= length, "no digits added");
    must(taut_parse_i64(out, written, &again) == 0 && again == number, "i64 round trip");
}

static void decimal(const uint8_t *text, size_t length)
{
    struct taut_decimal value, again, sum;
    if (taut_parse_decimal(text, length, &value) != 0)
        return;
    uint8_t out[TAUT_DECIMAL_TEXT_MAX];
    size_t written = taut_format_decimal(out, value);
    must(taut_parse_decimal(out, written, &again) == 0, "decimal reads back");
    must(again.mantissa == value.mantissa && again.scale == value.scale, "decimal round trip");
    must(taut_decimal_compare(value, again) == 0, "decimal equals itself");
    if (taut_decimal_add(value, again, &sum) == 0 && value.mantissa > 0)
        must(taut_decimal_compare(sum, value) == 1, "a sum is larger");
    if (taut_decimal_multiply(value, (struct taut_decimal){10, 1}, &sum) == 0)
        must(taut_decimal_compare(sum, value) == 0, "times 1.0");
}

static void timestamp(const uint8_t *text, size_t length)
{
    struct taut_utc value;
    if (taut_parse_utc(text, length, &value) != 0)
        return;
    must(value.digits <= 12 && value.nanoseconds < 1000000000 && value.picoseconds < 1000, "utc");
    must(length == 17 + (value.digits ? value.digits + 1 : 0), "utc length");
    if (value.seconds < 0 || value.seconds > 18446744072 || value.leap || value.digits % 3 ||
        value.digits > 9)
        return;
    uint8_t out[TAUT_UTC_TEXT_MAX];
    uint64_t utc_ns = (uint64_t)value.seconds * 1000000000u + value.nanoseconds;
    size_t written = taut_format_utc(out, utc_ns, value.digits);
    must(written == length && memcmp(out, text, length) == 0, "utc round trip");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *text = malloc(size ? size : 1);
    must(text != NULL, "out of memory");
    memcpy(text, data, size);
    integers(text, size);
    decimal(text, size);
    timestamp(text, size);
    free(text);
    return 0;
}
