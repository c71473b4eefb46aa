/* SPDX-License-Identifier: BSD-2-Clause */
/* Structs of options from callers with older, newer and no headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/options.h"

/* A struct that has grown: nothing ends before `second`, all through `pointer` is of 0.1. */
struct options {
    uint32_t size;
    uint32_t first;
    uint64_t second;
    const void *pointer;
    uint64_t later, latest;
};

#define SIZE_0_1 offsetof(struct options, later)

static const struct taut__options_kind kind =
    TAUT__OPTIONS_KIND(struct options, pointer, second, "things");

/* What the next version's header has. */
struct newer {
    struct options known;
    uint64_t unknown[2];
};

static const struct options full = {
    .size = sizeof full, .first = 1, .second = 2, .pointer = &full, .later = 3, .latest = 4};

static struct options whole;

/* Takes `size` bytes that end where memory ends, so that a look behind them ends the test. */
static int take_at_the_edge(const void *given, size_t size, struct taut_err *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory =
        mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + 2 * page, page, PROT_NONE), 0);
    memcpy(memory + 2 * page - size, given, size);
    memset(&whole, 0xa5, sizeof whole);
    int code = taut__options_take(&kind, &whole, memory + 2 * page - size, err);
    assert_int_equal(munmap(memory, 3 * page), 0);
    return code;
}

/* The options are those of `full` in their first `size` bytes, and zero behind. */
static void taken(const struct options *options, size_t size)
{
    struct options expected = {0};
    memcpy(&expected, &full, size);
    expected.size = sizeof expected;
    assert_memory_equal(options, &expected, sizeof expected);
}

static void refused(const void *given, const char *word)
{
    struct taut_err err = {0};
    struct options untouched;
    memset(&whole, 0xa5, sizeof whole);
    untouched = whole;
    assert_int_equal(taut__options_take(&kind, &whole, given, &err), TAUT_EINVAL);
    assert_memory_equal(&whole, &untouched, sizeof whole);
    assert_int_equal(err.code, TAUT_EINVAL);
    assert_non_null(strstr(err.text, "things: size is "));
    assert_non_null(strstr(err.text, word));
    assert_int_equal(taut__options_take(&kind, &whole, given, NULL), TAUT_EINVAL);
    assert_int_equal(taut__options_take(&kind, NULL, given, NULL), TAUT_EINVAL);
}

static void none_are_the_defaults(void **state)
{
    (void)state;
    memset(&whole, 0xa5, sizeof whole);
    assert_int_equal(taut__options_take(&kind, &whole, NULL, NULL), 0);
    taken(&whole, 0);
    assert_int_equal(taut__options_take(&kind, NULL, NULL, NULL), 0);
}

static void the_own_size_is_taken_whole(void **state)
{
    (void)state;
    struct taut_err err = {.code = 77};
    assert_int_equal(take_at_the_edge(&full, sizeof full, &err), 0);
    taken(&whole, sizeof full);
    assert_int_equal(err.code, 77); /* success leaves it alone */
}

/* Who forgets size gets what he set, and nothing is read that 0.1 did not have. */
static void no_size_is_version_0_1(void **state)
{
    (void)state;
    struct options given = full;
    given.size = 0;
    assert_int_equal(take_at_the_edge(&given, SIZE_0_1, NULL), 0);
    taken(&whole, SIZE_0_1);
    assert_int_equal(taut__options_take(&kind, &whole, &given, NULL), 0);
    taken(&whole, SIZE_0_1); /* what came later needs a size */
}

static void a_smaller_struct_lacks_what_came_later(void **state)
{
    (void)state;
    for (size_t size = 16; size <= sizeof full; size += 8) {
        struct options given = full;
        given.size = (uint32_t)size;
        assert_int_equal(take_at_the_edge(&given, size, NULL), 0);
        taken(&whole, size);
        assert_int_equal(taut__options_take(&kind, NULL, &given, NULL), 0);
    }
}

static void a_larger_struct_may_have_zeros_only(void **state)
{
    (void)state;
    struct newer given = {.known = full};
    given.known.size = sizeof given;
    assert_int_equal(take_at_the_edge(&given, sizeof given, NULL), 0);
    taken(&whole, sizeof full);
    for (size_t at = 0; at < sizeof given.unknown; at++) {
        memset(given.unknown, 0, sizeof given.unknown);
        ((uint8_t *)given.unknown)[at] = 1;
        refused(&given, "of which this library knows 40, and byte ");
    }
    given.known.size = sizeof full; /* and what is behind its size is not looked at */
    assert_int_equal(taut__options_take(&kind, &whole, &given, NULL), 0);
    taken(&whole, sizeof full);
}

static void sizes_that_no_header_has_are_refused(void **state)
{
    (void)state;
    static union {
        struct options options;
        uint8_t bytes[2 * TAUT__OPTIONS_SIZE_MAX];
    } given;
    const uint32_t wrong[] = {1,
                              4, /* size alone */
                              8, /* and no `second`, without which it is of no use */
                              7,
                              20, /* would cut `pointer` */
                              sizeof full - 1,
                              sizeof full + 1,
                              TAUT__OPTIONS_SIZE_MAX + 8,
                              UINT32_MAX - 7,
                              UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        given.options.size = wrong[i];
        refused(&given, "which no version of it has; now 40");
    }
    given.options.size = TAUT__OPTIONS_SIZE_MAX;
    assert_int_equal(taut__options_take(&kind, &whole, &given, NULL), 0);
    given.bytes[TAUT__OPTIONS_SIZE_MAX - 1] = 1;
    refused(&given, "byte 4095 is not 0");
}

static void a_member_is_there_if_the_size_says_so(void **state)
{
    (void)state;
    struct options given = {.size = sizeof given};
    assert_true(TAUT__OPTIONS_HAS(&given, &kind, latest));
    given.size = offsetof(struct options, latest);
    assert_false(TAUT__OPTIONS_HAS(&given, &kind, latest));
    assert_true(TAUT__OPTIONS_HAS(&given, &kind, later));
    given.size = 0;
    assert_false(TAUT__OPTIONS_HAS(&given, &kind, later));
    assert_true(TAUT__OPTIONS_HAS(&given, &kind, pointer));
}

/* A caller's struct of `size` bytes, with others of its own behind it. */
static void given_back(uint32_t size, size_t bytes)
{
    struct newer to, before;
    memset(&to, 0xa5, sizeof to);
    to.known.size = size;
    before = to;
    assert_int_equal(taut__options_give(&kind, &to, &full), 0);
    struct newer expected = {.known = full};
    expected.known.size = (uint32_t)bytes;
    assert_memory_equal(&to, &expected, bytes);
    assert_memory_equal((uint8_t *)&to + bytes, (uint8_t *)&before + bytes, sizeof to - bytes);
}

static void reading_fills_the_callers_struct_and_no_more(void **state)
{
    (void)state;
    given_back(sizeof full, sizeof full);
    given_back(0, SIZE_0_1);
    given_back(offsetof(struct options, pointer), offsetof(struct options, pointer));
    given_back(sizeof(struct newer), sizeof(struct newer));
}

static void a_size_that_is_none_is_not_written_to(void **state)
{
    (void)state;
    const uint32_t sizes[] = {1,
                              sizeof(uint32_t),
                              offsetof(struct options, second),
                              SIZE_0_1 - 1,
                              sizeof full + 4,
                              TAUT__OPTIONS_SIZE_MAX + 8,
                              UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct newer to, before;
        memset(&to, 0xa5, sizeof to);
        to.known.size = sizes[i];
        before = to;
        assert_int_equal(taut__options_give(&kind, &to, &full), TAUT_EINVAL);
        assert_memory_equal(&to, &before, sizeof to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_are_the_defaults),
        cmocka_unit_test(the_own_size_is_taken_whole),
        cmocka_unit_test(no_size_is_version_0_1),
        cmocka_unit_test(a_smaller_struct_lacks_what_came_later),
        cmocka_unit_test(a_larger_struct_may_have_zeros_only),
        cmocka_unit_test(sizes_that_no_header_has_are_refused),
        cmocka_unit_test(a_member_is_there_if_the_size_says_so),
        cmocka_unit_test(reading_fills_the_callers_struct_and_no_more),
        cmocka_unit_test(a_size_that_is_none_is_not_written_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
