/* SPDX-License-Identifier: BSD-2-Clause */
/* CPU sets: operations, list format with hostile input, binding with a read-back that may lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuset.h"

/* The linker sends the library's calls here (--wrap): a kernel that refuses, or does otherwise. */
static int set_failure, get_failure;
static size_t get_least_size; /* EINVAL for a smaller buffer, as a kernel with more CPUs */
static const cpu_set_t *get_answer;

int __real_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask);

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
    if (set_failure != 0) {
        errno = set_failure;
        return -1;
    }
    return __real_sched_setaffinity(pid, size, mask);
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
    if (get_failure != 0 || size < get_least_size) {
        errno = get_failure != 0 ? get_failure : EINVAL;
        return -1;
    }
    if (get_answer != NULL) {
        memset(mask, 0, size);
        memcpy(mask, get_answer, sizeof *get_answer);
        return 0;
    }
    return __real_sched_getaffinity(pid, size, mask);
}

static struct taut_cpuset parsed(const char *list)
{
    struct taut_cpuset set = {{0}};
    struct taut_err err = {0};
    assert_int_equal(taut_cpuset_parse(&set, list, &err), TAUT_OK);
    return set;
}

static void a_set_holds_what_was_added(void **state)
{
    (void)state;
    struct taut_cpuset set = {{0}};
    const uint32_t members[] = {0, 1, 63, 64, 127, 1022, 1023};
    assert_int_equal(taut_cpuset_count(&set), 0);
    assert_int_equal(taut_cpuset_nth(&set, 0), TAUT_CPUS_MAX);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(taut_cpuset_has(&set, members[i]), 0);
        assert_int_equal(taut_cpuset_add(&set, members[i]), TAUT_OK);
        assert_int_equal(taut_cpuset_add(&set, members[i]), TAUT_OK); /* twice is once */
        assert_int_equal(taut_cpuset_count(&set), i + 1);
    }
    uint32_t found = 0;
    for (uint32_t cpu = 0; cpu < TAUT_CPUS_MAX; cpu++)
        found += (uint32_t)taut_cpuset_has(&set, cpu);
    assert_int_equal(found, 7);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(taut_cpuset_nth(&set, i), members[i]);
    assert_int_equal(taut_cpuset_nth(&set, 7), TAUT_CPUS_MAX);
    assert_int_equal(taut_cpuset_nth(&set, UINT32_MAX), TAUT_CPUS_MAX);
}

static void numbers_beyond_the_limit_are_never_members(void **state)
{
    (void)state;
    struct taut_cpuset set = {{0}};
    assert_int_equal(taut_cpuset_add(&set, TAUT_CPUS_MAX), TAUT_EINVAL);
    assert_int_equal(taut_cpuset_add(&set, UINT32_MAX), TAUT_EINVAL);
    assert_int_equal(taut_cpuset_count(&set), 0);
    memset(&set, 0xff, sizeof set);
    assert_int_equal(taut_cpuset_has(&set, TAUT_CPUS_MAX), 0);
    assert_int_equal(taut_cpuset_has(&set, UINT32_MAX), 0);
    assert_int_equal(taut_cpuset_count(&set), TAUT_CPUS_MAX);
}

static void lists_of_the_kernel_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t count, first, last;
    } cases[] = {
        {"0", 1, 0, 0},          {"0\n", 1, 0, 0},
        {"0-3", 4, 0, 3},        {"0,2-3", 3, 0, 3},
        {"7-7", 1, 7, 7},        {"3,1,2,1-3", 3, 1, 3},
        {"1023", 1, 1023, 1023}, {"0-1023\n", 1024, 0, 1023},
        {"0000000005", 1, 5, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct taut_cpuset set = parsed(cases[i].list);
        assert_int_equal(taut_cpuset_count(&set), cases[i].count);
        assert_int_equal(taut_cpuset_nth(&set, 0), cases[i].first);
        assert_int_equal(taut_cpuset_nth(&set, cases[i].count - 1), cases[i].last);
    }
    struct taut_cpuset empty = parsed("");
    assert_int_equal(taut_cpuset_count(&empty), 0);
    empty = parsed("\n");
    assert_int_equal(taut_cpuset_count(&empty), 0);
}

static void hostile_lists_are_refused_by_their_bad_part(void **state)
{
    (void)state;
    static const struct {
        const char *list, *part;
    } cases[] = {
        {"x", "'x'"},
        {"0,x,1", "'x'"},
        {"0,,1", "''"},
        {",0", "''"},
        {"0,", "''"},
        {"0,\n", "''"},
        {"-1", "'-1'"},
        {"1-", "'1-'"},
        {"1--2", "'1--2'"},
        {"3-1", "'3-1'"},
        {"1-2-3", "'1-2-3'"},
        {" 0", "' 0'"},
        {"0 ", "'0 '"},
        {"0, 1", "' 1'"},
        {"0;1", "'0;1'"},
        {"+1", "'+1'"},
        {"0x1", "'0x1'"},
        {"1e2", "'1e2'"},
        {"0-3:1/2", "'0-3:1/2'"},
        {"0\n1", "'0'"},
        {"0\n\n", "'0'"},
        {"\n\n", "''"},
        {"1024", "'1024'"},
        {"0-1024", "'0-1024'"},
        {"4294967296", "'4294967296'"},
        {"18446744073709551616", "'18446744073709551616'"},
        {"0-99999999999999999999", "'0-99999999999999999999'"},
        {"1.5", "'1.5'"},
        {"\xd9\xa1", "'\xd9\xa1'"}, /* a digit, but not an ASCII one */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct taut_cpuset set = parsed("5");
        struct taut_err err = {0};
        assert_int_equal(taut_cpuset_parse(&set, cases[i].list, &err), TAUT_EFORMAT);
        assert_int_equal(err.code, TAUT_EFORMAT);
        if (strstr(err.text, cases[i].part) == NULL)
            fail_msg("'%s': %s", cases[i].list, err.text);
        /* Nothing of a bad list is kept. */
        assert_int_equal(taut_cpuset_count(&set), 1);
        assert_int_equal(taut_cpuset_has(&set, 5), 1);
    }
}

static void a_very_long_bad_list_gives_one_short_line(void **state)
{
    (void)state;
    static char list[100000];
    struct taut_cpuset set = {{0}};
    struct taut_err err = {0};
    memset(list, '7', sizeof list - 1);
    assert_int_equal(taut_cpuset_parse(&set, list, &err), TAUT_EFORMAT);
    assert_true(strlen(err.text) < 120);
    assert_int_equal(taut_cpuset_parse(&set, list, NULL), TAUT_EFORMAT);
    assert_int_equal(taut_cpuset_parse(NULL, "0", &err), TAUT_EINVAL);
    assert_int_equal(taut_cpuset_parse(&set, NULL, &err), TAUT_EINVAL);
}

static void lists_of_a_larger_kernel_are_clipped(void **state)
{
    (void)state;
    struct taut_cpuset set = {{0}};
    struct taut_err err = {0};
    assert_int_equal(taut__cpuset_parse_kernel(&set, "1020-2047,4000\n", &err), TAUT_OK);
    assert_int_equal(taut_cpuset_count(&set), 4);
    assert_int_equal(taut_cpuset_nth(&set, 0), 1020);
    assert_int_equal(taut__cpuset_parse_kernel(&set, "0-999999999", &err), TAUT_EFORMAT);
}

static void format_is_the_shortest_list_and_reads_back(void **state)
{
    (void)state;
    static const struct {
        const char *list, *formatted;
    } cases[] = {
        {"", ""},
        {"5", "5"},
        {"3,2,1", "1-3"},
        {"0,2,4-5,7-9,1023", "0,2,4-5,7-9,1023"},
        {"0-1023", "0-1023"},
        {"62-65,127,128", "62-65,127-128"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct taut_cpuset set = parsed(cases[i].list);
        char text[64];
        assert_int_equal(taut_cpuset_format(&set, text, sizeof text), strlen(cases[i].formatted));
        assert_string_equal(text, cases[i].formatted);
        struct taut_cpuset again = parsed(text);
        assert_memory_equal(&again, &set, sizeof set);
    }
}

static void format_never_writes_beyond_its_room(void **state)
{
    (void)state;
    struct taut_cpuset set = parsed("0,2-3,10,1023");
    const char *whole = "0,2-3,10,1023";
    for (size_t room = 0; room <= 20; room++) {
        char text[32];
        memset(text, 0x5a, sizeof text);
        assert_int_equal(taut_cpuset_format(&set, text, room), strlen(whole));
        assert_int_equal(text[room], 0x5a);
        if (room == 0)
            continue;
        assert_true(strlen(text) < room);
        assert_int_equal(strncmp(text, whole, strlen(text)), 0);
    }
    assert_int_equal(taut_cpuset_format(&set, NULL, 0), strlen(whole));
}

static void binding_takes_and_is_read_back(void **state)
{
    (void)state;
    struct taut_cpuset before, after;
    struct taut_err err = {0};
    assert_int_equal(taut_cpuset_of_self(&before), TAUT_OK);
    for (uint32_t i = 0; i < taut_cpuset_count(&before) && i < 4; i++) {
        uint32_t cpu = taut_cpuset_nth(&before, i);
        assert_int_equal(taut_cpu_bind_self(cpu, &err), TAUT_OK);
        assert_int_equal(taut_cpu_current(), cpu);
        assert_int_equal(taut_cpuset_of_self(&after), TAUT_OK);
        assert_int_equal(taut_cpuset_count(&after), 1);
        assert_int_equal(taut_cpuset_has(&after, cpu), 1);
    }
    assert_int_equal(taut_cpuset_bind_self(&before, &err), TAUT_OK);
    assert_int_equal(taut_cpuset_of_self(&after), TAUT_OK);
    assert_memory_equal(&after, &before, sizeof before);
}

static void binding_to_what_is_not_there_is_refused(void **state)
{
    (void)state;
    struct taut_cpuset before, after, none = {{0}};
    struct taut_err err = {0};
    assert_int_equal(taut_cpuset_of_self(&before), TAUT_OK);
    assert_int_equal(taut_cpu_bind_self(TAUT_CPUS_MAX, &err), TAUT_EINVAL);
    assert_int_equal(taut_cpuset_bind_self(&none, &err), TAUT_EINVAL);
    assert_int_equal(taut_cpuset_bind_self(NULL, &err), TAUT_EINVAL);
    if (!taut_cpuset_has(&before, 1023)) {
        assert_int_equal(taut_cpu_bind_self(1023, &err), TAUT_EINVAL);
        assert_non_null(strstr(err.text, "CPU 1023"));
    }
    assert_int_equal(taut_cpuset_of_self(&after), TAUT_OK);
    assert_memory_equal(&after, &before, sizeof before);
}

static void a_refusal_of_the_kernel_has_its_code(void **state)
{
    (void)state;
    struct taut_err err = {0};
    set_failure = EPERM;
    int code = taut_cpu_bind_self((uint32_t)taut_cpu_current(), &err);
    set_failure = 0;
    assert_int_equal(code, TAUT_EACCES);
    assert_non_null(strstr(err.text, "not permitted"));
}

static void a_mask_that_reads_back_otherwise_is_no_binding(void **state)
{
    (void)state;
    struct taut_cpuset before, two;
    struct taut_err err = {0};
    cpu_set_t other;
    CPU_ZERO(&other);
    CPU_SET(1000, &other);
    assert_int_equal(taut_cpuset_of_self(&before), TAUT_OK);
    get_answer = &other;
    int code = taut_cpuset_bind_self(&before, &err);
    get_answer = NULL;
    assert_int_equal(code, TAUT_ESTATE);
    assert_non_null(strstr(err.text, "1000"));
    get_failure = EACCES;
    code = taut_cpuset_bind_self(&before, &err);
    get_failure = 0;
    assert_int_equal(code, TAUT_EACCES);
    assert_non_null(strstr(err.text, "read back"));
    /* No wrap: the kernel drops what is not there from a set without a word. */
    two = before;
    if (!taut_cpuset_has(&before, 1023)) {
        taut_cpuset_add(&two, 1023);
        assert_int_equal(taut_cpuset_bind_self(&two, &err), TAUT_ESTATE);
    }
    assert_int_equal(taut_cpuset_bind_self(&before, &err), TAUT_OK);
}

static void a_kernel_with_a_larger_mask_is_asked_again(void **state)
{
    (void)state;
    struct taut_cpuset plain, large;
    assert_int_equal(taut_cpuset_of_self(&plain), TAUT_OK);
    get_least_size = 8192 / 8;
    assert_int_equal(taut_cpuset_of_self(&large), TAUT_OK);
    assert_memory_equal(&large, &plain, sizeof plain);
    get_least_size = 1u << 24; /* no machine: an end, not a loop */
    assert_int_equal(taut_cpuset_of_self(&large), TAUT_EOVERFLOW);
    get_least_size = 0;
    assert_int_equal(taut_cpuset_of_self(NULL), TAUT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_holds_what_was_added),
        cmocka_unit_test(numbers_beyond_the_limit_are_never_members),
        cmocka_unit_test(lists_of_the_kernel_are_read),
        cmocka_unit_test(hostile_lists_are_refused_by_their_bad_part),
        cmocka_unit_test(a_very_long_bad_list_gives_one_short_line),
        cmocka_unit_test(lists_of_a_larger_kernel_are_clipped),
        cmocka_unit_test(format_is_the_shortest_list_and_reads_back),
        cmocka_unit_test(format_never_writes_beyond_its_room),
        cmocka_unit_test(binding_takes_and_is_read_back),
        cmocka_unit_test(binding_to_what_is_not_there_is_refused),
        cmocka_unit_test(a_refusal_of_the_kernel_has_its_code),
        cmocka_unit_test(a_mask_that_reads_back_otherwise_is_no_binding),
        cmocka_unit_test(a_kernel_with_a_larger_mask_is_asked_again),
    };
    return cmocka_run_group_tests_name("base/cpuset", tests, NULL, NULL);
}
