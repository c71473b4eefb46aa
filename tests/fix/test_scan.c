/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scan's contract, case by case and for every variant: reasons, tags, data fields, slots, and
 * the table of length and data tags.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"

static struct guarded guard;
static struct taut_message message;
static uint8_t bytes[65536];

/* Scans with every variant; they must agree on the reason, which is returned. */
static uint32_t scan_all(uint32_t length)
{
    uint32_t first = UINT32_MAX;
    const uint8_t *data = guarded_put(&guard, bytes, length, 0x01);
    for (uint32_t variant = TAUT_SCAN_SCALAR; variant <= TAUT_SCAN_AVX512; variant++) {
        taut_scan_function *scan = taut_scan_select(variant);
        if (!scan)
            continue;
        memset(&message, 0xee, sizeof message);
        uint32_t reason = scan(&message, data, length);
        if (first == UINT32_MAX)
            first = reason;
        assert_int_equal(reason, first);
    }
    return first;
}

static uint32_t scan_body(const char *body)
{
    return scan_all(build_message(bytes, "FIX.4.4", body));
}

static void assert_field(uint32_t index, uint32_t tag, const char *value)
{
    assert_int_equal(message.tag[index], tag);
    assert_int_equal(message.end[index] - message.begin[index], strlen(value));
    assert_memory_equal(message.data + message.begin[index], value, strlen(value));
}

static void plain_message(void **unused)
{
    (void)unused;
    uint32_t length = build_message(bytes, "FIX.4.4", "35=D|34=12|49=A|56=B|58=a=b|10007=x|55=|");
    assert_int_equal(scan_all(length), 0);
    assert_int_equal(message.count, 10);
    assert_int_equal(message.length, length);
    assert_int_equal(message.begin_string_length, 7);
    assert_int_equal(message.body_begin, 15);
    assert_field(0, 8, "FIX.4.4");
    assert_field(1, 9, "40");
    assert_field(2, 35, "D");
    assert_field(3, 34, "12");
    assert_field(6, 58, "a=b");
    assert_field(7, 10007, "x");
    assert_field(8, 55, "");
    assert_int_equal(message.tag[9], 10);
    assert_int_equal(message.end[9], length - 1);
    assert_int_equal(taut_message_type(&message), 'D');
}

static void look_up(void **unused)
{
    (void)unused;
    uint32_t length = 0;
    assert_int_equal(scan_body("35=8|34=1|58=one|448=x|58=two|448=y|"), 0);
    const uint8_t *value = taut_message_get(&message, 58, &length);
    assert_non_null(value);
    assert_int_equal(length, 3);
    assert_memory_equal(value, "one", 3); /* the first of two */
    assert_int_equal(taut_message_find(&message, 58, 5), 6);
    assert_int_equal(taut_message_find(&message, 58, 7), -1);
    value = taut_message_get(&message, 448, &length);
    assert_non_null(value);
    assert_memory_equal(value, "x", 1);
    assert_null(taut_message_get(&message, 57, &length));
    assert_null(taut_message_get(&message, 449, &length));
    assert_null(taut_message_get(&message, 0, &length));
    for (uint32_t tag = 0; tag < 256; tag++)
        assert_int_equal(message.slot[tag] != 0, taut_message_find(&message, tag, 0) >= 0);
}

/* A tag below 256 that first occurs behind the 255th field has no slot, but is found. */
static void look_up_far(void **unused)
{
    (void)unused;
    char body[8192];
    int at = sprintf(body, "35=8|");
    for (int i = 0; i < 400; i++)
        at += sprintf(body + at, "%d=%d|", i == 300 ? 77 : 5000 + i, i);
    uint32_t length = 0;
    assert_int_equal(scan_body(body), 0);
    assert_int_equal(message.slot[77], 0);
    assert_int_equal(message.slot[10], 0);
    const uint8_t *value = taut_message_get(&message, 77, &length);
    assert_non_null(value);
    assert_memory_equal(value, "300", 3);
    assert_int_equal(taut_message_find(&message, 10, 0), 403);
    assert_null(taut_message_get(&message, 78, &length));
}

static void reasons(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        uint32_t reason;
    } cases[] = {
        {"", TAUT_GARBLED_NO_BEGIN},
        {"8", TAUT_GARBLED_NO_BEGIN},
        {"9=5|35=0|10=000|", TAUT_GARBLED_NO_BEGIN},
        {"8=|9=5|35=0|10=000|", TAUT_GARBLED_BEGIN_STRING},
        {"8=FIX.4.4", TAUT_GARBLED_BEGIN_STRING},
        {"8=SEVENTEEN.LETTERS|9=5|35=0|10=000|", TAUT_GARBLED_BEGIN_STRING},
        {"8=FI=.4.4|9=5|35=0|10=172|", TAUT_GARBLED_BEGIN_STRING},
        {"8=LONGER.STRING=|9=5|35=0|10=172|", TAUT_GARBLED_BEGIN_STRING},
        {"8=FIX.4.4|35=0|9=5|10=000|", TAUT_GARBLED_BODY_LENGTH},
        {"8=FIX.4.4|9=|35=0|10=000|", TAUT_GARBLED_BODY_LENGTH},
        {"8=FIX.4.4|9=-5|35=0|10=000|", TAUT_GARBLED_BODY_LENGTH},
        {"8=FIX.4.4|9=+5|35=0|10=000|", TAUT_GARBLED_BODY_LENGTH},
        {"8=FIX.4.4|9=5x|35=0|10=000|", TAUT_GARBLED_BODY_LENGTH},
        {"8=FIX.4.4|9=00000000005|35=0|10=163|", TAUT_GARBLED_BODY_LENGTH},
        {"8=FIX.4.4|9=99999999999|35=0|10=163|", TAUT_GARBLED_TOO_BIG},
        {"8=FIX.4.4|9=20000000|35=0|10=163|", TAUT_GARBLED_TRAILER},
        {"8=FIX.4.4|9=4|35=0|10=163|", TAUT_GARBLED_TRAILER},
        {"8=FIX.4.4|9=6|35=0|10=163|", TAUT_GARBLED_TRAILER},
        {"8=FIX.4.4|9=5|35=0|11=163|", TAUT_GARBLED_TRAILER},
        {"8=FIX.4.4|9=5|35=0|10=16|", TAUT_GARBLED_TRAILER},
        {"8=FIX.4.4|9=5|35=0|10=1 3|", TAUT_GARBLED_TRAILER},
        {"8=FIX.4.4|9=5|35=0|10=163!", TAUT_GARBLED_TRAILER},
        {"8=FIX.4.4|9=5|35=0|10=163|x", TAUT_GARBLED_TRAILER},
        {"8=FIX.4.4|9=5|35=0|10=163|", TAUT_GARBLED_NONE},
        {"8=FIX.4.4|9=5|35=0|10=164|", TAUT_GARBLED_CHECKSUM},
        {"8=FIX.4.4|9=5|35=0|10=419|", TAUT_GARBLED_CHECKSUM}, /* 163 + 256 */
        {"8=FIX.4.4|9=0005|35=0|10=051|", TAUT_GARBLED_NONE},
        {"8=FIX.4.4|9=00000005|35=0|10=243|", TAUT_GARBLED_NONE},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t got = scan_all(raw_message(bytes, cases[i].text));
        if (got != cases[i].reason)
            printf("%s: %s\n", cases[i].text, taut_garbled_text(got));
        assert_int_equal(got, cases[i].reason);
    }
}

static void body_reasons(void **unused)
{
    (void)unused;
    static const struct {
        const char *body;
        uint32_t reason;
    } cases[] = {
        {"", TAUT_GARBLED_MSG_TYPE},
        {"34=1|35=0|", TAUT_GARBLED_MSG_TYPE},
        {"35=|34=1|", TAUT_GARBLED_MSG_TYPE},
        {"035=0|34=1|", TAUT_GARBLED_MSG_TYPE},
        {"35=0|34|", TAUT_GARBLED_TAG},
        {"35=0||", TAUT_GARBLED_TAG},
        {"35=0||34=1|", TAUT_GARBLED_TAG},
        {"35=0|=1|", TAUT_GARBLED_TAG},
        {"35=0|+5=1|", TAUT_GARBLED_TAG},
        {"35=0|-=1|", TAUT_GARBLED_TAG},
        {"35=0|--1=1|", TAUT_GARBLED_TAG},
        {"35=0|1a=1|", TAUT_GARBLED_TAG},
        {"35=0|a1=1|", TAUT_GARBLED_TAG},
        {"35=0| 1=1|", TAUT_GARBLED_TAG},
        {"35=0|1 =1|", TAUT_GARBLED_TAG},
        {"35=0|/=1|", TAUT_GARBLED_TAG}, /* the neighbours of the digits */
        {"35=0|:=1|", TAUT_GARBLED_TAG},
        {"35=0|1:=1|", TAUT_GARBLED_TAG},
        {"35=0|\xb1=1|", TAUT_GARBLED_TAG}, /* '1' with the top bit */
        {"35=0|1=|", TAUT_GARBLED_NONE},
        {"35=0|1==|", TAUT_GARBLED_NONE},
        {"35=0|10=5|", TAUT_GARBLED_NONE},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t got = scan_body(cases[i].body);
        if (got != cases[i].reason)
            printf("%s: %s\n", cases[i].body, taut_garbled_text(got));
        assert_int_equal(got, cases[i].reason);
    }
}

static void tags(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        uint32_t tag;
    } cases[] = {
        {"1", 1},
        {"9999999", 9999999},
        {"10000000", 10000000},
        {"123456789", 123456789},
        {"4294967294", 4294967294u},
        {"4294967295", TAUT_TAG_INVALID},
        {"4294967296", TAUT_TAG_INVALID},
        {"99999999999", TAUT_TAG_INVALID},
        {"18446744073709551617", TAUT_TAG_INVALID}, /* 2^64 + 1 */
        {"0", TAUT_TAG_INVALID},
        {"00", TAUT_TAG_INVALID},
        {"08", TAUT_TAG_INVALID},
        {"-1", TAUT_TAG_INVALID},
        {"-0", TAUT_TAG_INVALID},
        {"-99999999999999999999", TAUT_TAG_INVALID},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[64];
        snprintf(body, sizeof body, "35=0|34=1|%s=v|58=x|", cases[i].text);
        assert_int_equal(scan_body(body), 0);
        assert_field(4, cases[i].tag, "v");
        assert_field(5, 58, "x");
        assert_int_equal(message.slot[0], 0);
    }
}

static void data_fields(void **unused)
{
    (void)unused;
    static const struct {
        const char *body, *value; /* value of the field at index 4, NULL: DATA_LENGTH */
    } cases[] = {
        {"35=n|95=3|96=abc|58=x|", "abc"},
        {"35=n|95=5|96=a|b=c|58=x|", "a\001b=c"},
        {"35=n|95=5|96=||||||58=x|", "\001\001\001\001\001"}, /* and a terminator */
        {"35=n|95=0|96=|58=x|", ""},
        {"35=n|95=0003|96=abc|58=x|", "abc"},
        {"35=n|93=2|89=|||58=x|", "\001\001"},
        {"35=n|212=11|213=10=000|8=FI|58=x|", "10=000\0018=FI"},
        {"35=n|2372=3|2371=a|b|58=x|", "a\001b"},
        {"35=n|43109=3|42684=a|b|58=x|", "a\001b"},
        {"35=n|95=2|96=abc|58=x|", NULL},
        {"35=n|95=4|96=abc|58=x|", NULL},
        {"35=n|95=10|96=abc|", NULL}, /* up to the SOH that ends the trailer */
        {"35=n|95=500|96=x|58=x|", NULL},
        {"35=n|95=5000000|96=x|58=x|", NULL},
        {"35=n|95=4294967295|96=x|58=x|", NULL},
        {"35=n|95=18446744073709551616|96=x|58=x|", NULL},
        {"35=n|95=-5|96=x|58=x|", NULL},
        {"35=n|95=|96=x|58=x|", NULL},
        {"35=n|95=1x|96=x|58=x|", NULL},
        {"35=n|95=+1|96=x|58=x|", NULL},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t reason = scan_body(cases[i].body);
        if (!cases[i].value) {
            assert_int_equal(reason, TAUT_GARBLED_DATA_LENGTH);
            assert_int_equal(message.count, 4); /* for a Reject that names the length field */
            assert_int_equal(message.tag[3], 95);
            continue;
        }
        if (reason)
            printf("%s: %s\n", cases[i].body, taut_garbled_text(reason));
        assert_int_equal(reason, 0);
        assert_int_equal(message.end[4] - message.begin[4], strlen(cases[i].value));
        assert_memory_equal(message.data + message.begin[4], cases[i].value,
                            strlen(cases[i].value));
        assert_int_equal(message.tag[5], 58);
        assert_int_equal(message.count, 7);
    }
}

/* A length field that is not directly followed by its partner announces nothing. */
static void data_field_apart(void **unused)
{
    (void)unused;
    assert_int_equal(scan_body("35=n|95=500|58=x|96=abc|"), 0);
    assert_field(5, 96, "abc");
    assert_int_equal(scan_body("35=n|95=500|"), 0);
    assert_int_equal(scan_body("35=n|96=abc|95=3|"), 0);
    assert_int_equal(scan_body("35=n|93=5|94=x|"), 0); /* 93's partner is 89 */
    assert_int_equal(scan_body("35=n|95=5|89=x|"), 0);
}

/* The value must end in the body: its SOH may be the body's last, not the trailer's. */
static void data_field_last(void **unused)
{
    (void)unused;
    assert_int_equal(scan_body("35=n|95=3|96=abc|"), 0);
    assert_field(4, 96, "abc");
    assert_int_equal(scan_body("35=n|95=10|96=abc|"), TAUT_GARBLED_DATA_LENGTH);
    assert_int_equal(scan_body("35=n|95=11|96=abc|"), TAUT_GARBLED_DATA_LENGTH);
}

static void too_many_fields(void **unused)
{
    (void)unused;
    char *body = malloc(8 * TAUT_FIELDS_MAX);
    assert_non_null(body);
    for (uint32_t extra = 0; extra < 3; extra++) {
        int at = sprintf(body, "35=0|");
        for (uint32_t i = 4; i < TAUT_FIELDS_MAX + extra; i++)
            at += sprintf(body + at, "58=x|");
        assert_int_equal(scan_body(body), extra ? TAUT_GARBLED_FIELD_COUNT : 0);
        if (!extra)
            assert_int_equal(message.count, TAUT_FIELDS_MAX);
    }
    free(body);
}

static void message_types(void **unused)
{
    (void)unused;
    assert_int_equal(scan_body("35=AE|34=1|"), 0);
    assert_int_equal(taut_message_type(&message), 'A' | 'E' << 8);
    assert_int_equal(scan_body("35=ABCD|34=1|"), 0);
    assert_int_equal(taut_message_type(&message), 0x44434241);
    assert_int_equal(scan_body("35=ABCDE|34=1|"), 0);
    assert_int_equal(taut_message_type(&message), 0);
}

/* The pairs that are not "the next tag", those of FIX 4.2, and a tag without a partner. */
static void partners(void **unused)
{
    (void)unused;
    static const uint32_t pairs[][2] = {
        {90, 91},       {93, 89},     {95, 96},       {212, 213},     {348, 349},     {350, 351},
        {352, 353},     {354, 355},   {356, 357},     {358, 359},     {360, 361},     {362, 363},
        {364, 365},     {445, 446},   {618, 619},     {621, 622},     {1184, 1185},   {1401, 1402},
        {1525, 1527},   {1678, 1697}, {2372, 2371},   {2494, 2493},   {2522, 2521},   {2802, 2801},
        {2809, 2808},   {2815, 2814}, {43109, 42684}, {43110, 42486}, {43111, 42982}, {89, 0},
        {0, 0},         {9, 0},       {94, 0},        {96, 0},        {65631, 0}, /* 95 + 2^16 */
        {UINT32_MAX, 0}};
    for (uint32_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_int_equal(taut_data_partner(pairs[i][0]), pairs[i][1]);
}

/* Every tag of the table is a data field in every variant: the fast ones look at bits instead. */
static void every_partner(void **unused)
{
    (void)unused;
    uint32_t count = 0;
    for (uint32_t tag = 1; tag < 70000; tag++) {
        uint32_t partner = taut_data_partner(tag);
        if (!partner)
            continue;
        char body[64];
        snprintf(body, sizeof body, "35=n|34=1|%u=3|%u=a|b|58=x|", tag, partner);
        assert_int_equal(scan_body(body), 0);
        assert_field(5, partner, "a\001b");
        count++;
    }
    assert_int_equal(count, 83);
}

static void names(void **unused)
{
    (void)unused;
    assert_string_equal(taut_scan_name(TAUT_SCAN_AUTO), "auto");
    assert_string_equal(taut_scan_name(TAUT_SCAN_SCALAR), "scalar");
    assert_string_equal(taut_scan_name(TAUT_SCAN_SWAR), "swar");
    assert_string_equal(taut_scan_name(TAUT_SCAN_AVX2), "avx2");
    assert_string_equal(taut_scan_name(TAUT_SCAN_AVX512), "avx512");
    assert_string_equal(taut_scan_name(99), "unknown");
    assert_non_null(taut_scan_select(TAUT_SCAN_SCALAR));
    assert_non_null(taut_scan_select(TAUT_SCAN_SWAR));
    assert_true(taut_scan_select(TAUT_SCAN_AUTO) == taut_scan_select(taut_scan_best()));
    assert_null(taut_scan_select(99));
    for (uint32_t reason = 0; reason <= TAUT_GARBLED_TOO_BIG; reason++)
        assert_true(strlen(taut_garbled_text(reason)) > 8);
    assert_string_equal(taut_garbled_text(99), "unknown reason");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_message),   cmocka_unit_test(look_up),
        cmocka_unit_test(look_up_far),     cmocka_unit_test(reasons),
        cmocka_unit_test(body_reasons),    cmocka_unit_test(tags),
        cmocka_unit_test(data_fields),     cmocka_unit_test(data_field_apart),
        cmocka_unit_test(data_field_last), cmocka_unit_test(too_many_fields),
        cmocka_unit_test(message_types),   cmocka_unit_test(partners),
        cmocka_unit_test(every_partner),   cmocka_unit_test(names),
    };
    guard = guarded_create(sizeof bytes);
    int failed = cmocka_run_group_tests_name("scan", tests, NULL, NULL);
    guarded_destroy(&guard);
    return failed;
}
