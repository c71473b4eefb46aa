/* SPDX-License-Identifier: BSD-2-Clause */
/* The request: its number survives the way to text and back, and every message that is made or
 * changed in place is one that the scanner accepts, checksum included. */
#include <taut/scan.h>

#include "load/order.h"
#include "support.h"

static void ids_survive(void **state)
{
    static const uint64_t ids[] = {
        1, 9, 10, 999999, 1000000, 123456, 999999999999, 630000000001, 10000000000, 123456789012};
    uint8_t text[LOAD_ID_DIGITS];
    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        char expected[32];
        snprintf(expected, sizeof(expected), "%012llu", (unsigned long long)ids[i]);
        load_id_write(text, ids[i]);
        assert_memory_equal(text, expected, LOAD_ID_DIGITS);
        assert_true(load_id_read(text, LOAD_ID_DIGITS) == ids[i]);
    }
}

static void other_texts_are_no_ids(void **state)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "00000000001",
                                        "0000000000001",
                                        "00000000000x",
                                        "x00000000001",
                                        "000000 00001",
                                        "+00000000001",
                                        "-00000000001",
                                        "00000000000/",
                                        "00000000000:",
                                        "000000000000"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_true(load_id_read((const uint8_t *)texts[i], (uint32_t)strlen(texts[i])) == 0);
}

static void assert_value(const struct taut_message *message, uint32_t tag, const char *expected)
{
    uint32_t length = 0;
    const uint8_t *value = taut_message_get(message, tag, &length);
    assert_non_null(value);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(value, expected, length);
}

static void echo_messages_are_good(void **state)
{
    static struct taut_message message;
    static uint8_t padded[LOAD_ECHO_BYTES + TAUT_SCAN_PADDING];
    struct load_order order;
    struct load_echo echo, before;
    struct load_plan plan = {.sender = "LOAD", .target = "TAUT"};
    (void)state;
    assert_int_equal(load_order_compile(&order, NULL), 0);
    assert_int_equal(load_echo_make(&echo, &order, &plan, 41, UINT64_C(1796083200123000000), NULL),
                     0);
    before = echo;
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 2000; i++) {
        char text[32];
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        uint64_t id = 1 + seed % UINT64_C(999999999999);
        load_echo_set_id(&echo, id);
        memcpy(padded, echo.bytes, echo.length);
        struct taut_frame frame = {0};
        assert_int_equal(taut_frame_next(padded, echo.length, 4096, TAUT_RESYNC_STRICT, &frame),
                         TAUT_FRAME_READY);
        assert_int_equal(frame.skip, 0);
        assert_int_equal(frame.length, echo.length);
        assert_int_equal(taut_scan_select(TAUT_SCAN_SCALAR)(&message, padded, echo.length), 0);
        snprintf(text, sizeof(text), "%012llu", (unsigned long long)id);
        assert_value(&message, 11, text);
    }
    assert_value(&message, 35, "D");
    assert_value(&message, 49, "LOAD0042");
    assert_value(&message, 56, "TAUT");
    assert_value(&message, 55, "TAUT");
    assert_value(&message, 54, "1");
    assert_value(&message, 38, "100");
    assert_value(&message, 40, "2");
    assert_value(&message, 44, "101.25");
    assert_value(&message, 60, "20261201-00:00:00.123");
    /* Nothing but the number and the checksum has changed. */
    for (uint32_t i = 0; i < echo.length; i++)
        if (echo.bytes[i] != before.bytes[i])
            assert_true((i >= echo.id_offset && i < echo.id_offset + LOAD_ID_DIGITS) ||
                        (i >= echo.checksum_offset && i < echo.checksum_offset + 3));
}

static void longest_names_fit(void **state)
{
    struct load_order order;
    struct load_echo echo;
    char name[LOAD_COMP_ID_BYTES + 1];
    struct load_plan plan = {.sender = name, .target = name};
    (void)state;
    memset(name, 'N', LOAD_COMP_ID_BYTES);
    name[LOAD_COMP_ID_BYTES] = '\0';
    assert_int_equal(load_order_compile(&order, NULL), 0);
    assert_int_equal(load_echo_make(&echo, &order, &plan, LOAD_SESSIONS_MAX - 1,
                                    UINT64_C(1796083200000000000), NULL),
                     0);
}

/* An order that does not fit its buffer is an error of the encoder, not a short message. */
static void full_buffer(void **state)
{
    struct load_order order;
    struct taut_encoder encoder;
    uint8_t buffer[100], *message;
    uint32_t length;
    (void)state;
    assert_int_equal(load_order_compile(&order, NULL), 0);
    taut_encode_begin(&encoder, buffer, sizeof(buffer));
    load_order_body(&order, &encoder, 1, 0);
    assert_int_equal(taut_encode_finish(&encoder, "FIX.4.4", 7, &message, &length), TAUT_ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_survive),
        cmocka_unit_test(other_texts_are_no_ids),
        cmocka_unit_test(echo_messages_are_good),
        cmocka_unit_test(longest_names_fit),
        cmocka_unit_test(full_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
