/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables and number formats: layout, rounding, and the edges between units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/table.h"

static void durations_keep_four_digits(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "0 ns"},
                 {999, "999 ns"},
                 {1000, "1.000 us"},
                 {1234, "1.234 us"},
                 {9999, "9.999 us"},
                 {99994, "99.99 us"},
                 {99995, "100.0 us"},
                 {999949, "999.9 us"},
                 {999950, "1.000 ms"},
                 {648788000, "648.8 ms"},
                 {999949999, "999.9 ms"},
                 {999950000, "1.000 s"},
                 {20000000000, "20.00 s"},
                 {999949999999, "999.9 s"},
                 {999950000000, "1,000 s"},
                 {3600000000000, "3,600 s"},
                 {FORMAT_NO_NS, "-"},
                 {FORMAT_INF_NS, "inf"},
                 {FORMAT_NO_NS - 1, "18,446,744,074 s"}};
    char buffer[FORMAT_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(format_duration(buffer, cases[i].ns), cases[i].text);
}

static void other_numbers(void **state)
{
    (void)state;
    char b[FORMAT_BYTES];
    assert_string_equal(format_count(b, 0), "0");
    assert_string_equal(format_count(b, 999), "999");
    assert_string_equal(format_count(b, 1000), "1,000");
    assert_string_equal(format_count(b, UINT64_MAX), "18,446,744,073,709,551,615");
    assert_string_equal(format_rate(b, 1280000, 5836000000), "219,328/s");
    assert_string_equal(format_rate(b, 74, 10000000000), "7.4/s");
    assert_string_equal(format_rate(b, 9999, 100000000000), "100/s");
    assert_string_equal(format_rate(b, UINT64_MAX, 1), "18,446,744,073,709,551,615/s");
    assert_string_equal(format_rate(b, 5, 0), "-");
    assert_string_equal(format_percent(b, 1, 8), "12.5 %");
    assert_string_equal(format_percent(b, 2, 3), "66.7 %");
    assert_string_equal(format_percent(b, 0, 0), "-");
    assert_string_equal(format_bytes(b, 9999), "9,999 B");
    assert_string_equal(format_bytes(b, 10000), "10.0 kB");
    assert_string_equal(format_bytes(b, 999950), "1.0 MB");
    assert_string_equal(format_bytes(b, 40960128), "41.0 MB");
    assert_string_equal(format_utc(b, 0), "-");
    assert_string_equal(format_utc(b, 1780000000000000007), "2026-05-28 20:26:40.000000007");
}

static char *printed(const struct table *table, const char *indent)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(table_print(table, out, indent), 0);
    fclose(out);
    return text;
}

static void columns_are_aligned(void **state)
{
    (void)state;
    static const struct table_column columns[] = {
        {"run", TABLE_RIGHT}, {"phase", TABLE_LEFT}, {"max", TABLE_RIGHT}, {"note", TABLE_LEFT}};
    struct table *table;
    assert_int_equal(table_create(&table, columns, 4), 0);
    table_cell(table, "%d", 1);
    table_cell(table, "warmup");
    table_cell(table, "1.234 ms");
    table_end_row(table); /* the note stays empty */
    table_cell(table, "%d", 12);
    table_cell(table, "m\xc3\xa4"
                      "x"); /* three characters, four bytes */
    table_cell(table, "9 ns");
    table_cell(table, "a\nb"); /* can't break the layout */
    table_rule(table);
    table_cell(table, "2"); /* a row that is not finished */
    char *text = printed(table, "> ");
    assert_string_equal(text, "> run  phase        max  note\n"
                              "> ---------------------------\n"
                              ">   1  warmup  1.234 ms\n"
                              ">  12  m\xc3\xa4x         9 ns  a?b\n"
                              "> ---------------------------\n"
                              ">   2\n");
    assert_int_equal(table_rows(table), 3);
    free(text);
    table_destroy(table);
}

static void many_rows(void **state)
{
    (void)state;
    static const struct table_column columns[] = {{"i", TABLE_RIGHT}};
    struct table *table;
    assert_int_equal(table_create(&table, columns, 1), 0);
    for (int i = 0; i < 1000; i++)
        table_cell(table, "%d", i);
    char *text = printed(table, NULL);
    assert_int_equal(table_rows(table), 1000);
    assert_non_null(strstr(text, "\n999\n"));
    free(text);
    table_destroy(table);
    table_destroy(NULL);
    assert_int_equal(table_create(&table, columns, 0), TAUT_EINVAL);
}

static void a_full_disk_is_told(void **state)
{
    (void)state;
    static const struct table_column columns[] = {{"i", TABLE_RIGHT}};
    struct table *table;
    assert_int_equal(table_create(&table, columns, 1), 0);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    setbuf(full, NULL);
    table_cell(table, "x");
    assert_int_equal(table_print(table, full, NULL), TAUT_EIO);
    fclose(full);
    table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_keep_four_digits), cmocka_unit_test(other_numbers),
        cmocka_unit_test(columns_are_aligned),        cmocka_unit_test(many_rows),
        cmocka_unit_test(a_full_disk_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
