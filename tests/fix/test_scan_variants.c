/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every scan variant against the naive scanner, on random and on damaged messages, each of which
 * ends right in front of its padding and an unreadable page. The sequence of messages is fixed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "naive.h"
#include "support.h"

#define LARGEST 32768u

static struct guarded guard;
static struct taut_message message;

/* All variants on the same bytes, with two kinds of padding. Returns the reason. */
static uint32_t compare(const uint8_t *bytes, uint32_t length)
{
    static struct naive_message naive;
    static const int fills[] = {0x00, 0x01, '='};
    for (uint32_t fill = 0; fill < 3; fill++) {
        const uint8_t *data = guarded_put(&guard, bytes, length, fills[fill]);
        for (uint32_t variant = TAUT_SCAN_AUTO; variant <= TAUT_SCAN_AVX512; variant++) {
            taut_scan_function *scan = taut_scan_select(variant);
            if (scan)
                assert_true(naive_agrees(scan, taut_scan_name(variant), &message, data, length));
        }
    }
    return naive_scan(&naive, guarded_put(&guard, bytes, length, 0), length);
}

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(next_random(state) % bound);
}

/* A tag as messages have them, and now and then one that nobody should send. */
static uint32_t put_tag(uint8_t *out, uint64_t *state)
{
    static const char *const odd[] = {
        "-1",        "0",          "08",         "+5",          "",  "a",  "99999999",
        "123456789", "4294967294", "4294967295", "99999999999", "-", "1x", "00"};
    static const uint32_t length_tags[] = {90, 93, 95, 212, 348, 354, 1401, 2372, 43109};
    uint32_t kind = random_below(state, 400);
    if (kind == 0)
        return (uint32_t)sprintf((char *)out, "%s", odd[random_below(state, 14)]);
    if (kind < 8)
        return (uint32_t)sprintf((char *)out, "%u", length_tags[random_below(state, 9)]);
    if (kind < 250)
        return (uint32_t)sprintf((char *)out, "%u", 1 + random_below(state, 99));
    if (kind < 380)
        return (uint32_t)sprintf((char *)out, "%u", 100 + random_below(state, 900));
    return (uint32_t)sprintf((char *)out, "%u", 1000 + random_below(state, 9999000));
}

static uint32_t put_value(uint8_t *out, uint64_t *state, uint32_t largest)
{
    static const char alphabet[] = "ABCxyz0123456789.:-= +/\x02\x7f\xff\x80";
    uint32_t length = random_below(state, largest + 1);
    for (uint32_t i = 0; i < length; i++)
        out[i] = (uint8_t)alphabet[random_below(state, sizeof alphabet - 1)];
    return length;
}

/* A length field and its data field, with SOH and '=' inside; at times the length is wrong. */
static uint32_t put_data(uint8_t *out, uint64_t *state)
{
    static const uint32_t length_tags[] = {90, 93, 95, 212, 348, 354, 1401, 2372, 43109};
    uint32_t tag = length_tags[random_below(state, 9)];
    uint32_t length = random_below(state, 40);
    uint32_t said = random_below(state, 20) ? length : random_below(state, 400);
    uint32_t at = (uint32_t)sprintf((char *)out, "%u=%u\001%u=", tag, said, taut_data_partner(tag));
    for (uint32_t i = 0; i < length; i++)
        out[at++] = (uint8_t) "AB\001\001=10"[random_below(state, 7)];
    out[at++] = 1;
    return at;
}

static uint32_t random_message(uint8_t *out, uint64_t *state)
{
    static uint8_t body[LARGEST];
    static const char *const begins[] = {"FIX.4.4", "FIX.4.2", "FIXT.1.1", "X", "LONGER.THAN.16BB"};
    uint32_t fields = random_below(state, 8) ? random_below(state, 40) : random_below(state, 1100);
    uint32_t largest = random_below(state, 6) ? 12 : 150;
    uint32_t at = (uint32_t)sprintf((char *)body, "35=%c\001", 'A' + (int)random_below(state, 26));
    uint32_t data_every = random_below(state, 3) ? 0 : 1 + random_below(state, 30);
    for (uint32_t i = 0; i < fields && at < LARGEST - 1024; i++) {
        if (data_every && i % data_every == 0) {
            at += put_data(body + at, state);
            continue;
        }
        at += put_tag(body + at, state);
        body[at++] = '=';
        at += put_value(body + at, state, largest);
        body[at++] = 1;
    }
    return wrap_message(out, begins[random_below(state, 5)], body, at);
}

static void random_messages(void **unused)
{
    (void)unused;
    static uint8_t bytes[LARGEST];
    uint64_t state = 1;
    uint32_t reasons[TAUT_GARBLED_TOO_BIG + 1] = {0};
    uint32_t turns = getenv("TAUT_SOAK") ? 400000 : 4000;
    for (uint32_t i = 0; i < turns; i++)
        reasons[compare(bytes, random_message(bytes, &state))]++;
    /* The premise: enough of each kind was among them. */
    assert_true(reasons[TAUT_GARBLED_NONE] > turns / 4);
    assert_true(reasons[TAUT_GARBLED_TAG] > turns / 400);
    assert_true(reasons[TAUT_GARBLED_DATA_LENGTH] > turns / 400);
    assert_true(reasons[TAUT_GARBLED_FIELD_COUNT] > 0);
}

/* One to three bytes changed, dropped or doubled; half of the time the checksum is put right. */
static uint32_t damage(uint8_t *bytes, uint32_t length, uint64_t *state)
{
    static const char interesting[] = "\001\001==0189-+.A\377";
    for (uint32_t n = 1 + random_below(state, 3); n > 0 && length > 1; n--) {
        uint32_t at = random_below(state, 3) ? random_below(state, length)
                                             : random_below(state, length < 30 ? length : 30);
        switch (random_below(state, 4)) {
        case 0:
            memmove(bytes + at, bytes + at + 1, length - at - 1);
            length--;
            break;
        case 1:
            memmove(bytes + at + 1, bytes + at, length - at);
            length++;
            break;
        default:
            bytes[at] = (uint8_t)interesting[random_below(state, sizeof interesting - 1)];
        }
    }
    if (random_below(state, 4) && length >= 8)
        fix_checksum(bytes, length);
    return length;
}

static void damaged_messages(void **unused)
{
    (void)unused;
    static uint8_t bytes[LARGEST + 8];
    uint64_t state = 2;
    uint32_t reasons[TAUT_GARBLED_TOO_BIG + 1] = {0};
    uint32_t turns = getenv("TAUT_SOAK") ? 1000000 : 20000;
    for (uint32_t i = 0; i < turns; i++) {
        char body[200];
        uint32_t length;
        if (i % 8 == 0) {
            length = random_message(bytes, &state);
        } else {
            snprintf(body, sizeof body, "35=D|34=%u|49=A|56=B|52=20261201-00:00:00|95=3|96=a=b|%s",
                     i, i % 3 ? "11=x|55=EURUSD|54=1|" : "");
            length = build_message(bytes, i % 2 ? "FIX.4.4" : "FIXT.1.1", body);
        }
        reasons[compare(bytes, damage(bytes, length, &state))]++;
    }
    for (uint32_t reason = TAUT_GARBLED_NONE; reason < TAUT_GARBLED_FIELD_COUNT; reason++)
        assert_true(reasons[reason] > 0);
}

/* Every length of the last field, so that the end meets every place in a block of 64 and a word. */
static void every_size(void **unused)
{
    (void)unused;
    static uint8_t bytes[1024], body[512];
    for (uint32_t text = 0; text < 300; text++) {
        uint32_t at = (uint32_t)sprintf((char *)body, "35=0\00158=");
        memset(body + at, 'x', text);
        body[at + text] = 1;
        assert_int_equal(compare(bytes, wrap_message(bytes, "FIX.4.4", body, at + text + 1)),
                         TAUT_GARBLED_NONE);
    }
}

/* Every count of fields around the widths of a group, of the slots and of the index. */
static void every_count(void **unused)
{
    (void)unused;
    static uint8_t bytes[LARGEST], body[LARGEST];
    for (uint32_t fields = 0; fields < 1100; fields++) {
        if (fields > 60 && fields < 235)
            continue;
        if (fields > 275 && fields < 940 && fields % 8 != 0)
            continue;
        uint32_t at = (uint32_t)sprintf((char *)body, "35=0\001");
        for (uint32_t i = 0; i < fields; i++)
            at += (uint32_t)sprintf((char *)body + at, "%u=%u\001", 1 + i * 7 % 300, i % 10);
        uint32_t reason = compare(bytes, wrap_message(bytes, "FIX.4.4", body, at));
        assert_int_equal(reason, fields + 4 > TAUT_FIELDS_MAX ? TAUT_GARBLED_FIELD_COUNT
                                                              : TAUT_GARBLED_NONE);
    }
}

/* A message of many one-byte fields: more SOH bytes in a block than any sensible message has. */
static void dense(void **unused)
{
    (void)unused;
    static uint8_t bytes[LARGEST], body[LARGEST];
    for (uint32_t fields = 1; fields < 900; fields += 13) {
        uint32_t at = (uint32_t)sprintf((char *)body, "35=0\001");
        for (uint32_t i = 0; i < fields; i++)
            at += (uint32_t)sprintf((char *)body + at, "%u=\001", 1 + i % 9);
        assert_int_equal(compare(bytes, wrap_message(bytes, "FIX.4.4", body, at)), 0);
        memset(body + 5, 1, fields);
        assert_int_equal(compare(bytes, wrap_message(bytes, "FIX.4.4", body, 5 + fields)),
                         TAUT_GARBLED_TAG);
    }
}

static void short_inputs(void **unused)
{
    (void)unused;
    uint8_t bytes[64];
    uint32_t length = build_message(bytes, "FIX.4.4", "35=0|34=1|");
    for (uint32_t n = 0; n < length; n++)
        assert_int_not_equal(compare(bytes, n), TAUT_GARBLED_NONE);
    assert_int_equal(compare(bytes, length), TAUT_GARBLED_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_inputs),    cmocka_unit_test(every_size),
        cmocka_unit_test(every_count),     cmocka_unit_test(dense),
        cmocka_unit_test(random_messages), cmocka_unit_test(damaged_messages),
    };
    guard = guarded_create(LARGEST + 64);
    printf("best variant here: %s\n", taut_scan_name(taut_scan_best()));
    int failed = cmocka_run_group_tests_name("scan variants", tests, NULL, NULL);
    guarded_destroy(&guard);
    return failed;
}
