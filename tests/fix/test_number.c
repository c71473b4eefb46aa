/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Integers, decimals and timestamps: every edge of the types, texts right in front of an unreadable
 * page and right behind one, and round trips through a reference that the C library provides.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <taut/number.h>

#include "support.h"

/* One readable page between two unreadable ones: parsers take exactly `length` bytes. */
static uint8_t *page;
static size_t page_size;

static int map_page(void **unused)
{
    (void)unused;
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 3 * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return -1;
    page = pages + page_size;
    return mprotect(page, page_size, PROT_READ | PROT_WRITE);
}

static int unmap_page(void **unused)
{
    (void)unused;
    return munmap(page - page_size, 3 * page_size);
}

/* The text at the page's very end, then at its very begin: both must give the same. */
#define AT_BOTH_ENDS(text, length, parse, value, code)                                             \
    do {                                                                                           \
        memcpy(page + page_size - (length), (text), (length));                                     \
        (code) = parse(page + page_size - (length), (length), (value));                            \
        memcpy(page, (text), (length));                                                            \
        assert_int_equal(parse(page, (length), (value)), (code));                                  \
    } while (0)

static int parse_u64(const char *text, uint64_t *value)
{
    int code;
    AT_BOTH_ENDS(text, strlen(text), taut_parse_u64, value, code);
    return code;
}

static int parse_i64(const char *text, int64_t *value)
{
    int code;
    AT_BOTH_ENDS(text, strlen(text), taut_parse_i64, value, code);
    return code;
}

static int parse_decimal(const char *text, struct taut_decimal *value)
{
    int code;
    AT_BOTH_ENDS(text, strlen(text), taut_parse_decimal, value, code);
    return code;
}

static int parse_utc(const char *text, struct taut_utc *value)
{
    int code;
    AT_BOTH_ENDS(text, strlen(text), taut_parse_utc, value, code);
    return code;
}

static void unsigned_integers(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int code;
        uint64_t value;
    } cases[] = {
        {"0", 0, 0},
        {"7", 0, 7},
        {"42", 0, 42},
        {"123", 0, 123},
        {"1234", 0, 1234},
        {"12345", 0, 12345},
        {"1234567", 0, 1234567},
        {"12345678", 0, 12345678},
        {"123456789", 0, 123456789},
        {"1234567890123456", 0, 1234567890123456},
        {"12345678901234567", 0, 12345678901234567},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", TAUT_EOVERFLOW, 0},
        {"99999999999999999999", TAUT_EOVERFLOW, 0},
        {"999999999999999999999999999999", TAUT_EOVERFLOW, 0},
        {"0000000000000000000000000000042", 0, 42},
        {"007", 0, 7},
        {"", TAUT_EFORMAT, 0},
        {"-1", TAUT_EFORMAT, 0},
        {"+1", TAUT_EFORMAT, 0},
        {" 1", TAUT_EFORMAT, 0},
        {"1 ", TAUT_EFORMAT, 0},
        {"1.0", TAUT_EFORMAT, 0},
        {"0x10", TAUT_EFORMAT, 0},
        {"1e5", TAUT_EFORMAT, 0},
        {"/", TAUT_EFORMAT, 0},
        {":", TAUT_EFORMAT, 0},
        {"\xb1", TAUT_EFORMAT, 0},
        {"99999999999999999999x", TAUT_EFORMAT, 0},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t value = 77;
        assert_int_equal(parse_u64(cases[i].text, &value), cases[i].code);
        assert_true(value == (cases[i].code ? 77 : cases[i].value));
    }
}

/* Each byte value at each place of texts of each length. */
static void every_byte(void **unused)
{
    (void)unused;
    char text[32];
    for (uint32_t length = 1; length <= 19; length++) {
        for (uint32_t at = 0; at < length; at++) {
            for (int byte = 0; byte < 256; byte++) {
                uint64_t value, want = 0;
                memset(text, '1', length);
                text[at] = (char)byte;
                int code = taut_parse_u64((const uint8_t *)text, length, &value);
                bool digit = byte >= '0' && byte <= '9';
                assert_int_equal(code, digit ? 0 : TAUT_EFORMAT);
                if (!digit)
                    continue;
                for (uint32_t i = 0; i < length; i++)
                    want = want * 10 + (uint64_t)(text[i] - '0');
                assert_true(value == want);
            }
        }
    }
}

static void signed_integers(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int code;
        int64_t value;
    } cases[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"-1", 0, -1},
        {"-007", 0, -7},
        {"9223372036854775807", 0, INT64_MAX},
        {"-9223372036854775807", 0, -INT64_MAX},
        {"-9223372036854775808", 0, INT64_MIN},
        {"9223372036854775808", TAUT_EOVERFLOW, 0},
        {"-9223372036854775809", TAUT_EOVERFLOW, 0},
        {"-18446744073709551616", TAUT_EOVERFLOW, 0},
        {"", TAUT_EFORMAT, 0},
        {"-", TAUT_EFORMAT, 0},
        {"--1", TAUT_EFORMAT, 0},
        {"+1", TAUT_EFORMAT, 0},
        {"1-", TAUT_EFORMAT, 0},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 77;
        assert_int_equal(parse_i64(cases[i].text, &value), cases[i].code);
        assert_true(value == (cases[i].code ? 77 : cases[i].value));
    }
}

static void decimals(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int code;
        int64_t mantissa;
        uint32_t scale;
    } cases[] = {
        {"0", 0, 0, 0},
        {"1.50", 0, 150, 2},
        {"-1.50", 0, -150, 2},
        {".5", 0, 5, 1},
        {"5.", 0, 5, 0},
        {"-.5", 0, -5, 1},
        {"00023.230", 0, 23230, 3},
        {"0.0000", 0, 0, 4},
        {"0.123456789012345678", 0, 123456789012345678, 18},
        {"9.223372036854775807", 0, INT64_MAX, 18},
        {"-9.223372036854775808", 0, INT64_MIN, 18},
        {"9223372036854775807", 0, INT64_MAX, 0},
        {"12345678.12345678", 0, 1234567812345678, 8},
        {"9.223372036854775808", TAUT_EOVERFLOW, 0, 0},
        {"-9.223372036854775809", TAUT_EOVERFLOW, 0, 0},
        {"0.1234567890123456789", TAUT_EOVERFLOW, 0, 0},
        {"99.123456789012345678", TAUT_EOVERFLOW, 0, 0},
        {"18446744073709551616.1", TAUT_EOVERFLOW, 0, 0},
        {"", TAUT_EFORMAT, 0, 0},
        {".", TAUT_EFORMAT, 0, 0},
        {"-", TAUT_EFORMAT, 0, 0},
        {"-.", TAUT_EFORMAT, 0, 0},
        {"+200.00", TAUT_EFORMAT, 0, 0},
        {"1..5", TAUT_EFORMAT, 0, 0},
        {"1.5.", TAUT_EFORMAT, 0, 0},
        {"1,5", TAUT_EFORMAT, 0, 0},
        {"1e5", TAUT_EFORMAT, 0, 0},
        {"1.-5", TAUT_EFORMAT, 0, 0},
        {"1. 5", TAUT_EFORMAT, 0, 0},
        {"NaN", TAUT_EFORMAT, 0, 0},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct taut_decimal value = {77, 7};
        assert_int_equal(parse_decimal(cases[i].text, &value), cases[i].code);
        assert_true(value.mantissa == (cases[i].code ? 77 : cases[i].mantissa));
        assert_int_equal(value.scale, cases[i].code ? 7 : cases[i].scale);
    }
}

static void decimal_texts(void **unused)
{
    (void)unused;
    static const struct {
        struct taut_decimal value;
        const char *text;
    } cases[] = {
        {{0, 0}, "0"},
        {{0, 2}, "0.00"},
        {{150, 2}, "1.50"},
        {{-150, 2}, "-1.50"},
        {{5, 1}, "0.5"},
        {{-5, 3}, "-0.005"},
        {{INT64_MAX, 0}, "9223372036854775807"},
        {{INT64_MAX, 1}, "922337203685477580.7"},
        {{INT64_MIN, 18}, "-9.223372036854775808"},
        {{INT64_MIN, 1}, "-922337203685477580.8"},
        {{1, 18}, "0.000000000000000001"},
        {{123456789, 8}, "1.23456789"},
        {{123456789, 9}, "0.123456789"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t *text = page + page_size - TAUT_DECIMAL_TEXT_MAX; /* exactly what is promised */
        size_t length = taut_format_decimal(text, cases[i].value);
        assert_int_equal(length, strlen(cases[i].text));
        assert_memory_equal(text, cases[i].text, length);
    }
}

static void decimal_arithmetic(void **unused)
{
    (void)unused;
    struct taut_decimal r;
    assert_int_equal(
        taut_decimal_compare((struct taut_decimal){15, 1}, (struct taut_decimal){150, 2}), 0);
    assert_int_equal(
        taut_decimal_compare((struct taut_decimal){-15, 1}, (struct taut_decimal){-14, 1}), -1);
    assert_int_equal(taut_decimal_compare((struct taut_decimal){INT64_MAX, 0},
                                          (struct taut_decimal){INT64_MAX, 18}),
                     1);
    assert_int_equal(taut_decimal_compare((struct taut_decimal){INT64_MIN, 0},
                                          (struct taut_decimal){INT64_MIN, 18}),
                     -1);
    assert_int_equal(taut_decimal_add((struct taut_decimal){1, 1}, (struct taut_decimal){2, 2}, &r),
                     0);
    assert_true(r.mantissa == 12 && r.scale == 2);
    assert_int_equal(
        taut_decimal_add((struct taut_decimal){INT64_MAX, 0}, (struct taut_decimal){1, 0}, &r),
        TAUT_EOVERFLOW);
    assert_int_equal(
        taut_decimal_add((struct taut_decimal){INT64_MAX, 0}, (struct taut_decimal){0, 18}, &r), 0);
    assert_true(r.mantissa == INT64_MAX && r.scale == 0); /* zeros that don't fit are dropped */
    assert_int_equal(
        taut_decimal_add((struct taut_decimal){INT64_MAX, 0}, (struct taut_decimal){1, 18}, &r),
        TAUT_EOVERFLOW);
    assert_int_equal(
        taut_decimal_multiply((struct taut_decimal){-25, 1}, (struct taut_decimal){4, 1}, &r), 0);
    assert_true(r.mantissa == -100 && r.scale == 2);
    assert_int_equal(taut_decimal_multiply((struct taut_decimal){INT64_MIN, 0},
                                           (struct taut_decimal){-1, 0}, &r),
                     TAUT_EOVERFLOW);
    assert_int_equal(
        taut_decimal_multiply((struct taut_decimal){1, 18}, (struct taut_decimal){1, 1}, &r),
        TAUT_EOVERFLOW);
    assert_int_equal(
        taut_decimal_multiply((struct taut_decimal){10, 18}, (struct taut_decimal){1, 1}, &r), 0);
    assert_true(r.mantissa == 1 && r.scale == 18);
    assert_int_equal(
        taut_decimal_add((struct taut_decimal){1, 19}, (struct taut_decimal){1, 0}, &r),
        TAUT_EINVAL);
}

static void timestamps(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int code;
        struct taut_utc value;
    } cases[] = {
        {"19700101-00:00:00", 0, {0, 0, 0, 0, 0}},
        {"20231114-22:13:20.123", 0, {1700000000, 123000000, 0, 3, 0}},
        {"20231114-22:13:20.1", 0, {1700000000, 100000000, 0, 1, 0}},
        {"20231114-22:13:20.12", 0, {1700000000, 120000000, 0, 2, 0}},
        {"20231114-22:13:20.123456", 0, {1700000000, 123456000, 0, 6, 0}},
        {"20231114-22:13:20.12345678", 0, {1700000000, 123456780, 0, 8, 0}},
        {"20231114-22:13:20.123456789", 0, {1700000000, 123456789, 0, 9, 0}},
        {"20231114-22:13:20.123456789012", 0, {1700000000, 123456789, 12, 12, 0}},
        {"20231114-22:13:20.999999999999", 0, {1700000000, 999999999, 999, 12, 0}},
        {"20000229-23:59:59", 0, {951868799, 0, 0, 0, 0}},
        {"20240229-00:00:00", 0, {1709164800, 0, 0, 0, 0}},
        {"20161231-23:59:60", 0, {1483228800, 0, 0, 0, 1}},
        {"19691231-23:59:59", 0, {-1, 0, 0, 0, 0}},
        {"00000101-00:00:00", 0, {-62167219200, 0, 0, 0, 0}},
        {"00000229-00:00:00", 0, {-62162121600, 0, 0, 0, 0}},
        {"99991231-23:59:59", 0, {253402300799, 0, 0, 0, 0}},
        {"20230229-00:00:00", TAUT_EFORMAT, {0}},
        {"21000229-00:00:00", TAUT_EFORMAT, {0}},
        {"20231301-00:00:00", TAUT_EFORMAT, {0}},
        {"20230001-00:00:00", TAUT_EFORMAT, {0}},
        {"20230100-00:00:00", TAUT_EFORMAT, {0}},
        {"20230431-00:00:00", TAUT_EFORMAT, {0}},
        {"20231114-24:00:00", TAUT_EFORMAT, {0}},
        {"20231114-23:60:00", TAUT_EFORMAT, {0}},
        {"20231114-23:00:61", TAUT_EFORMAT, {0}},
        {"20231114-22:13:20.", TAUT_EFORMAT, {0}},
        {"20231114-22:13:20.1234567890123", TAUT_EFORMAT, {0}},
        {"20231114-22:13:20.12x", TAUT_EFORMAT, {0}},
        {"20231114-22:13:20.123456789 12", TAUT_EFORMAT, {0}},
        {"20231114-22:13:20,123", TAUT_EFORMAT, {0}},
        {"20231114 22:13:20", TAUT_EFORMAT, {0}},
        {"20231114-22.13:20", TAUT_EFORMAT, {0}},
        {"20231114-22:13.20", TAUT_EFORMAT, {0}},
        {"20231114-22:13:2x", TAUT_EFORMAT, {0}},
        {"2023111x-22:13:20", TAUT_EFORMAT, {0}},
        {"20231114-22:13:2", TAUT_EFORMAT, {0}},
        {"20231114", TAUT_EFORMAT, {0}},
        {"", TAUT_EFORMAT, {0}},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct taut_utc value = {77, 77, 77, 77, 77}, same = value;
        int code = parse_utc(cases[i].text, &value);
        if (code != cases[i].code)
            printf("%s\n", cases[i].text);
        assert_int_equal(code, cases[i].code);
        assert_memory_equal(&value, code ? &same : &cases[i].value, sizeof value);
    }
}

/* Each byte value at each place of a timestamp: only digits for digits, separators as they are. */
static void every_byte_of_a_timestamp(void **unused)
{
    (void)unused;
    static const char good[] = "20111111-11:11:11.111";
    for (uint32_t at = 0; at < sizeof good - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            uint8_t text[sizeof good];
            struct taut_utc value;
            memcpy(text, good, sizeof good);
            text[at] = (uint8_t)byte;
            int code = taut_parse_utc(text, sizeof good - 1, &value);
            bool digit = byte >= '0' && byte <= '9';
            if (good[at] < '0' || good[at] > '9')
                assert_int_equal(code, byte == good[at] ? 0 : TAUT_EFORMAT);
            else if (!digit)
                assert_int_equal(code, TAUT_EFORMAT);
        }
    }
}

/* Every day from 1970 to 2554 against gmtime_r(), which knows the calendar independently. */
static void every_day(void **unused)
{
    (void)unused;
    const uint64_t second_ns = 1000000000u;
    for (uint64_t day = 0; day < 213503; day++) {
        uint64_t seconds = day * 86400 + day % 86400;
        time_t t = (time_t)seconds;
        struct tm tm;
        char want[80];
        uint8_t *text = page + page_size - TAUT_UTC_TEXT_MAX;
        struct taut_utc back;
        assert_non_null(gmtime_r(&t, &tm));
        snprintf(want, sizeof want, "%04d%02d%02d-%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        assert_int_equal(taut_format_utc(text, seconds * second_ns, 0), 17);
        assert_memory_equal(text, want, 17);
        assert_int_equal(taut_parse_utc(text, 17, &back), 0);
        assert_true(back.seconds == (int64_t)seconds);
    }
}

static void timestamp_texts(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t utc_ns;
        uint32_t digits;
        const char *text;
    } cases[] = {
        {1700000000123456789u, 0, "20231114-22:13:20"},
        {1700000000123456789u, 3, "20231114-22:13:20.123"},
        {1700000000123456789u, 6, "20231114-22:13:20.123456"},
        {1700000000123456789u, 9, "20231114-22:13:20.123456789"},
        {1700000000000000001u, 9, "20231114-22:13:20.000000001"},
        {1700000000999999999u, 3, "20231114-22:13:20.999"}, /* cut, never rounded up */
        {0, 3, "19700101-00:00:00.000"},
        {UINT64_MAX, 9, "25540721-23:34:33.709551615"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t *text = page + page_size - TAUT_UTC_TEXT_MAX;
        size_t length = taut_format_utc(text, cases[i].utc_ns, cases[i].digits);
        assert_int_equal(length, strlen(cases[i].text));
        assert_memory_equal(text, cases[i].text, length);
    }
}

/* Around every power of ten, and at random: text and back, against printf. */
static void round_trips(void **unused)
{
    (void)unused;
    uint64_t state = 4, power = 1;
    for (uint32_t i = 0; i < 60000; i++) {
        uint64_t value =
            i < 60000 - 100 ? next_random(&state) >> (next_random(&state) % 64) : power - 1 + i % 3;
        if (i >= 60000 - 100 && i % 3 == 0 && power < 10000000000000000000u)
            power *= 10;
        char want[32];
        uint8_t *text = page + page_size - TAUT_INTEGER_TEXT_MAX;
        uint64_t back;
        int64_t signed_back;
        size_t length = taut_format_u64(text, value);
        assert_int_equal(length, snprintf(want, sizeof want, "%" PRIu64, value));
        assert_memory_equal(text, want, length);
        assert_int_equal(taut_parse_u64(text, length, &back), 0);
        assert_true(back == value);
        length = taut_format_i64(text, (int64_t)value);
        assert_int_equal(length, snprintf(want, sizeof want, "%" PRId64, (int64_t)value));
        assert_memory_equal(text, want, length);
        assert_int_equal(taut_parse_i64(text, length, &signed_back), 0);
        assert_true(signed_back == (int64_t)value);

        struct taut_decimal decimal = {(int64_t)value, i % 19}, decimal_back;
        text = page + page_size - TAUT_DECIMAL_TEXT_MAX;
        length = taut_format_decimal(text, decimal);
        assert_int_equal(taut_parse_decimal(text, length, &decimal_back), 0);
        assert_true(decimal_back.mantissa == decimal.mantissa);
        assert_int_equal(decimal_back.scale, decimal.scale);
    }
}

/* All values that eight digits at once can have, in steps; and all of the last two digits. */
static void eight_digits(void **unused)
{
    (void)unused;
    uint32_t step = getenv("TAUT_SOAK") ? 1 : 37;
    for (uint32_t value = 0; value < 100000000; value += step) {
        uint8_t text[TAUT_INTEGER_TEXT_MAX];
        uint32_t back = 0;
        size_t length = taut_format_u64(text, value);
        for (size_t i = 0; i < length; i++)
            back = back * 10 + (uint32_t)(text[i] - '0');
        if (back != value || (length > 1 && text[0] == '0'))
            fail_msg("%u became %.*s", value, (int)length, (char *)text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_integers), cmocka_unit_test(every_byte),
        cmocka_unit_test(signed_integers),   cmocka_unit_test(decimals),
        cmocka_unit_test(decimal_texts),     cmocka_unit_test(decimal_arithmetic),
        cmocka_unit_test(timestamps),        cmocka_unit_test(every_byte_of_a_timestamp),
        cmocka_unit_test(every_day),         cmocka_unit_test(timestamp_texts),
        cmocka_unit_test(round_trips),       cmocka_unit_test(eight_digits),
    };
    return cmocka_run_group_tests_name("number", tests, map_page, unmap_page);
}
