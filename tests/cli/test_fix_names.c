/* SPDX-License-Identifier: BSD-2-Clause */
/* The built-in names: order that the searches rely on, look-ups, and what is a secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fix/names.h"
#include "fix/names_internal.h"

static const char *meaning(uint32_t tag, const char *value)
{
    return taut__value_meaning(tag, (const uint8_t *)value, strlen(value));
}

static void tables_are_in_order(void **state)
{
    (void)state;
    for (size_t i = 1; i < taut__fix_tag_name_count; i++)
        assert_true(taut__fix_tag_names[i - 1].tag < taut__fix_tag_names[i].tag);
    for (size_t i = 1; i < taut__fix_value_meaning_count; i++)
        assert_true(taut__fix_value_meanings[i - 1].tag <= taut__fix_value_meanings[i].tag);
    /* Each value once, and each of a tag that has a name. */
    for (size_t i = 0; i < taut__fix_value_meaning_count; i++) {
        const struct fix_value_meaning *m = &taut__fix_value_meanings[i];
        assert_ptr_equal(meaning(m->tag, m->value), m->meaning);
        assert_non_null(taut__tag_name(m->tag));
    }
    for (size_t i = 0; i < taut__fix_boolean_tag_count; i++) {
        assert_string_equal(meaning(taut__fix_boolean_tags[i], "Y"), "yes");
        assert_non_null(taut__tag_name(taut__fix_boolean_tags[i]));
    }
}

static void names_are_found(void **state)
{
    (void)state;
    assert_string_equal(taut__tag_name(1), "Account");
    assert_string_equal(taut__tag_name(11), "ClOrdID");
    assert_string_equal(taut__tag_name(1137), "DefaultApplVerID");
    assert_string_equal(taut__tag_name(1404), "EncryptedNewPassword");
    assert_null(taut__tag_name(0));
    assert_null(taut__tag_name(9999));
    assert_null(taut__tag_name(UINT32_MAX));
    assert_string_equal(meaning(35, "D"), "NewOrderSingle");
    assert_string_equal(meaning(372, "AE"), "TradeCaptureReport");
    assert_string_equal(meaning(54, "1"), "buy");
    assert_string_equal(meaning(43, "N"), "no");
    assert_string_equal(meaning(18, "G 1"), "all or none");
    assert_string_equal(meaning(373, "99"), "other");
    assert_null(meaning(373, "9999"));
    assert_null(meaning(54, ""));
    assert_null(meaning(58, "Y"));
    assert_null(meaning(35, "ZZZZZZ"));
}

static void secrets_are_known(void **state)
{
    (void)state;
    static const uint32_t always[] = {554, 925, 1402, 1404};
    for (size_t i = 0; i < 4; i++) {
        assert_true(taut__tag_is_secret(always[i], (const uint8_t *)"BE", 2));
        assert_true(taut__tag_is_secret(always[i], NULL, 0));
    }
    assert_true(taut__tag_is_secret(96, (const uint8_t *)"A", 1));
    assert_true(taut__tag_is_secret(96, NULL, 0));
    assert_false(taut__tag_is_secret(96, (const uint8_t *)"B", 1));
    assert_false(taut__tag_is_secret(96, (const uint8_t *)"AE", 2));
    assert_false(taut__tag_is_secret(553, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_in_order),
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(secrets_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
