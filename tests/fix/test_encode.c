/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The encoder: what it writes is what the scanner reads, it never writes outside its buffer
 * whatever the capacity, and untrusted text can't forge a field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <taut/encode.h>

#include "support.h"

static uint8_t area[65536];
static struct taut_message scanned;

/* Compares a message with a text that has '|' for SOH. */
static void assert_message(const uint8_t *message, uint32_t length, const char *text)
{
    uint8_t want[4096];
    assert_int_equal(raw_message(want, text), length);
    assert_memory_equal(message, want, length);
}

static void empty_and_small(void **unused)
{
    (void)unused;
    struct taut_encoder e;
    uint8_t *message;
    uint32_t length;
    taut_encode_begin(&e, area, 256);
    taut_encode_bytes(&e, "35=0\001", 5);
    assert_int_equal(taut_encode_finish(&e, "FIX.4.4", 7, &message, &length), 0);
    assert_message(message, length, "8=FIX.4.4|9=5|35=0|10=163|");
    assert_true(message >= area && message + length <= area + 256);
    taut_encode_begin(&e, area, 256);
    assert_int_equal(taut_encode_finish(&e, "X", 1, &message, &length), 0);
    assert_message(message, length, "8=X|9=0|10=117|");
}

static void templates(void **unused)
{
    (void)unused;
    struct taut_template t = {0};
    struct taut_err err = {0};
    assert_int_equal(taut_template_compile(&t, "35=8|34=$|52=$|44=$|58=a$b|", &err), 0);
    assert_int_equal(t.values, 4);
    struct taut_encoder e;
    uint8_t *message;
    uint32_t length;
    taut_encode_begin(&e, area, 512);
    taut_encode_run(&e, &t, 0);
    taut_encode_u64(&e, 1234567890123);
    taut_encode_run(&e, &t, 1);
    taut_encode_utc(&e, 1700000000123456789u, 6);
    taut_encode_run(&e, &t, 2);
    taut_encode_decimal(&e, (struct taut_decimal){-150, 2});
    taut_encode_run(&e, &t, 3);
    taut_encode_i64(&e, -5);
    taut_encode_run(&e, &t, 4);
    assert_int_equal(taut_encode_finish(&e, "FIX.4.4", 7, &message, &length), 0);
    assert_message(message, length,
                   "8=FIX.4.4|9=67|35=8|34=1234567890123|52=20231114-22:13:20.123456|44=-1.50|"
                   "58=a-5b|10=243|");
    assert_int_equal(taut_scan_select(TAUT_SCAN_SCALAR)(&scanned, message, length), 0);
}

static void template_errors(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"35=8",      "35",         "=8|",      "|",
                                      "35=8||",    "a=8|",       "035=8|",   "35=8|x",
                                      "35=8|$=1|", "35=8|1$=1|", "35=\001|", "1234567890=x|"};
    struct taut_template t;
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct taut_err err = {0};
        memset(&t, 0xee, sizeof t);
        assert_int_equal(taut_template_compile(&t, bad[i], &err), TAUT_EFORMAT);
        assert_int_equal(err.code, TAUT_EFORMAT);
        assert_true(strlen(err.text) > 10);
        assert_int_equal(t.values, 0);
        assert_int_equal(t.run_end[0], 0); /* a template that failed writes nothing */
    }
    assert_int_equal(taut_template_compile(&t, "", NULL), 0);
    assert_int_equal(taut_template_compile(&t, "35=8|", NULL), 0);
}

static void template_limits(void **unused)
{
    (void)unused;
    struct taut_template t;
    char text[TAUT_TEMPLATE_BYTES + 300] = "";
    for (uint32_t values = TAUT_TEMPLATE_VALUES; values <= TAUT_TEMPLATE_VALUES + 1; values++) {
        int at = 0;
        for (uint32_t i = 0; i < values; i++)
            at += sprintf(text + at, "1=$|");
        assert_int_equal(taut_template_compile(&t, text, NULL),
                         values > TAUT_TEMPLATE_VALUES ? TAUT_ENOSPC : 0);
    }
    for (uint32_t bytes = TAUT_TEMPLATE_BYTES - 1; bytes <= TAUT_TEMPLATE_BYTES + 1; bytes++) {
        memset(text, 'x', sizeof text);
        memcpy(text, "58=", 3);
        strcpy(text + bytes - 1, "|");
        assert_int_equal(taut_template_compile(&t, text, NULL),
                         bytes > TAUT_TEMPLATE_BYTES ? TAUT_ENOSPC : 0);
    }
}

/* A run at the very end of a full template is copied without reading behind the template. */
static void run_at_the_end(void **unused)
{
    (void)unused;
    char text[TAUT_TEMPLATE_BYTES + 8];
    struct taut_template *t = malloc(sizeof *t);
    struct taut_encoder e;
    assert_non_null(t);
    memset(text, 'x', sizeof text);
    memcpy(text, "58=", 3);
    strcpy(text + TAUT_TEMPLATE_BYTES - 4, "$yyy|"); /* 1024 bytes and a '$' */
    assert_int_equal(taut_template_compile(t, text, NULL), 0);
    taut_encode_begin(&e, area, sizeof area);
    taut_encode_run(&e, t, 0);
    taut_encode_run(&e, t, 1);
    assert_int_equal(e.position, TAUT_ENCODE_HEADROOM + TAUT_TEMPLATE_BYTES);
    assert_memory_equal(area + e.position - 4, "yyy\001", 4);
    free(t);
}

static void fields(void **unused)
{
    (void)unused;
    struct taut_encoder e;
    uint8_t *message;
    uint32_t length;
    taut_encode_begin(&e, area, 256);
    taut_encode_field(&e, 35, "0", 1);
    taut_encode_field_u64(&e, 34, 0);
    taut_encode_field_u64(&e, 36, UINT64_MAX);
    taut_encode_field_utc(&e, 52, 0, 3);
    taut_encode_field(&e, 4294967294u, NULL, 0);
    taut_encode_text(&e, 58, "", 0); /* an empty text is no field */
    taut_encode_text(&e, 58, "hi = |", 5);
    assert_int_equal(taut_encode_finish(&e, "FIXT.1.1", 8, &message, &length), 0);
    assert_message(message, length,
                   "8=FIXT.1.1|9=80|35=0|34=0|36=18446744073709551615|52=19700101-00:00:00.000|"
                   "4294967294=|58=hi = |10=189|");
}

static void forged_field(void **unused)
{
    (void)unused;
    struct taut_encoder e;
    uint8_t *message;
    uint32_t length;
    taut_encode_begin(&e, area, 256);
    taut_encode_field(&e, 35, "0", 1);
    taut_encode_text(&e, 58, "x\00135=5", 6);
    taut_encode_field(&e, 112, "t", 1); /* what follows does not undo it */
    assert_int_equal(taut_encode_finish(&e, "FIX.4.4", 7, &message, &length), TAUT_EFORMAT);
}

static void begin_strings(void **unused)
{
    (void)unused;
    struct taut_encoder e;
    uint8_t *message;
    uint32_t length;
    static const char begin[] = "ABCDEFGHIJKLMNOPQ";
    for (uint32_t n = 0; n <= 17; n++) {
        taut_encode_begin(&e, area, 256);
        taut_encode_bytes(&e, "35=0\001", 5);
        int code = taut_encode_finish(&e, begin, n, &message, &length);
        assert_int_equal(code, n == 0 || n > 16 ? TAUT_EFORMAT : 0);
        if (code)
            continue;
        assert_int_equal(length, 2 + n + 1 + 4 + 5 + 7);
        assert_memory_equal(message + 2, begin, n);
        assert_int_equal(taut_scan_select(TAUT_SCAN_SCALAR)(&scanned, message, length), 0);
    }
}

/* What a message of all kinds of parts needs, written by one function for every capacity. */
static int write_all(struct taut_encoder *e, const struct taut_template *t, uint8_t **message,
                     uint32_t *length)
{
    taut_encode_run(e, t, 0);
    taut_encode_u64(e, 12345678901234567890u);
    taut_encode_run(e, t, 1);
    taut_encode_utc(e, 1700000000123456789u, 9);
    taut_encode_run(e, t, 2);
    taut_encode_decimal(e, (struct taut_decimal){INT64_MIN, 9});
    taut_encode_run(e, t, 3);
    taut_encode_i64(e, -42);
    taut_encode_field(e, 55, "EURUSD", 6);
    taut_encode_field_u64(e, 38, 1000);
    taut_encode_field_utc(e, 60, 1700000000123456789u, 6);
    taut_encode_text(e, 58, "the end", 7);
    return taut_encode_finish(e, "FIX.4.4", 7, message, length);
}

/* Every capacity from nothing to enough, with guard bytes on both sides. */
static void every_capacity(void **unused)
{
    (void)unused;
    struct taut_template t = {0};
    uint8_t *message, *whole;
    uint32_t length, whole_length;
    struct taut_encoder e;
    assert_int_equal(taut_template_compile(&t, "35=8|49=SENDER|34=$|52=$|44=$|1=$|", NULL), 0);
    t.run_end[4]--; /* the i64 is followed by a field of its own: drop the template's last SOH */
    taut_encode_begin(&e, area, 1024);
    assert_int_equal(write_all(&e, &t, &whole, &whole_length), 0);
    uint32_t enough = (uint32_t)(whole - area) + whole_length, fitted = 0;
    uint8_t *expected = malloc(whole_length), *buffer = malloc(enough + 400);
    assert_non_null(expected);
    assert_non_null(buffer);
    memcpy(expected, whole, whole_length);
    for (uint32_t capacity = 0; capacity < enough + 200; capacity++) {
        memset(buffer, 0xa5, enough + 400);
        taut_encode_begin(&e, buffer + 100, capacity);
        int code = write_all(&e, &t, &message, &length);
        assert_int_equal(code, capacity < enough ? TAUT_ENOSPC : 0);
        for (uint32_t i = 0; i < 100; i++)
            assert_int_equal(buffer[i], 0xa5);
        for (uint32_t i = 100 + capacity; i < enough + 400; i++)
            assert_int_equal(buffer[i], 0xa5);
        if (code == 0) {
            fitted++;
            assert_int_equal(length, whole_length);
            assert_memory_equal(message, expected, length);
        }
    }
    assert_int_equal(fitted, 200);
    free(expected);
    free(buffer);
}

/* Lengths that would wrap 32-bit sums. */
static void huge_lengths(void **unused)
{
    (void)unused;
    static const uint32_t lengths[] = {UINT32_MAX, UINT32_MAX - 1,  UINT32_MAX - 60,
                                       1u << 31,   (16u << 20) + 1, 300};
    for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct taut_encoder e;
        taut_encode_begin(&e, area, 256);
        assert_null(taut_encode_reserve(&e, lengths[i]));
        assert_int_equal(e.overflow, TAUT_ENOSPC);
        taut_encode_begin(&e, area, 256);
        taut_encode_field(&e, 58, "x", lengths[i]); /* must not be read: it does not fit */
        assert_int_equal(e.overflow, TAUT_ENOSPC);
    }
}

/* Tight messages follow each other without a gap; others are moved, and still right. */
static void tight(void **unused)
{
    (void)unused;
    char text[20000];
    memset(text, 'x', sizeof text);
    for (uint32_t n = 1; n < 20000; n = n * 5 / 4 + 1) {
        struct taut_encoder e;
        uint8_t *message, *second;
        uint32_t length, second_length;
        taut_encode_begin_tight(&e, area, sizeof area, 7);
        taut_encode_field(&e, 35, "8", 1);
        taut_encode_field(&e, 58, text, n);
        assert_int_equal(taut_encode_finish(&e, "FIX.4.4", 7, &message, &length), 0);
        assert_int_equal(taut_scan_select(TAUT_SCAN_SCALAR)(&scanned, message, length), 0);
        assert_int_equal(scanned.end[3] - scanned.begin[3], n);
        uint32_t body = 5 + 3 + n + 1;
        assert_int_equal(message - area, body < 10 ? 2 : body < 100 ? 1 : 0);
        uint8_t *next = message + length;
        taut_encode_begin_tight(&e, next, (uint32_t)(area + sizeof area - next), 7);
        taut_encode_field(&e, 35, "0", 1);
        taut_encode_field(&e, 58, text, 100);
        assert_int_equal(taut_encode_finish(&e, "FIX.4.4", 7, &second, &second_length), 0);
        assert_ptr_equal(second, next);
        assert_int_equal(taut_scan_select(TAUT_SCAN_SCALAR)(&scanned, message, length), 0);
    }
}

/* Begun tight and moved at the finish: only where the move still fits. */
static void tight_capacity(void **unused)
{
    (void)unused;
    char text[2000];
    memset(text, 'x', sizeof text);
    for (uint32_t capacity = 1040; capacity < 1060; capacity++) {
        struct taut_encoder e;
        uint8_t *message;
        uint32_t length;
        memset(area, 0xa5, 2048);
        taut_encode_begin_tight(&e, area, capacity, 7);
        taut_encode_field(&e, 35, "8", 1);
        taut_encode_field(&e, 58, text, 1014); /* a body of 1023 bytes: 17 + 1023 + 7 = 1047 */
        int code = taut_encode_finish(&e, "FIX.4.4", 7, &message, &length);
        assert_int_equal(code, capacity < 1047 ? TAUT_ENOSPC : 0);
        for (uint32_t i = capacity; i < 2048; i++)
            assert_int_equal(area[i], 0xa5);
        if (code == 0)
            assert_int_equal(taut_scan_select(TAUT_SCAN_SCALAR)(&scanned, message, length), 0);
    }
}

static void checksums(void **unused)
{
    (void)unused;
    uint64_t state = 5;
    uint8_t *bytes = malloc(5000);
    assert_non_null(bytes);
    for (uint32_t length = 0; length < 5000; length += length < 300 ? 1 : 97) {
        uint8_t *at = bytes + 5000 - length; /* ends where the allocation ends */
        uint32_t sum = 0;
        for (uint32_t i = 0; i < length; i++) {
            at[i] = (uint8_t)(length % 3 ? next_random(&state) : 0xff);
            sum += at[i];
        }
        assert_int_equal(taut_checksum(at, length), sum & 0xff);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_and_small), cmocka_unit_test(templates),
        cmocka_unit_test(template_errors), cmocka_unit_test(template_limits),
        cmocka_unit_test(run_at_the_end),  cmocka_unit_test(fields),
        cmocka_unit_test(forged_field),    cmocka_unit_test(begin_strings),
        cmocka_unit_test(every_capacity),  cmocka_unit_test(huge_lengths),
        cmocka_unit_test(tight),           cmocka_unit_test(tight_capacity),
        cmocka_unit_test(checksums),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
