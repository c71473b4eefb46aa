/* SPDX-License-Identifier: BSD-2-Clause */
/* Result codes, error details, checks, version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <taut/taut.h>

#include "base/check.h"

#define ALL_CODES                                                                                  \
    X(TAUT_OK)                                                                                     \
    X(TAUT_EINVAL)                                                                                 \
    X(TAUT_ENOMEM)                                                                                 \
    X(TAUT_ENOSPC)                                                                                 \
    X(TAUT_EIO)                                                                                    \
    X(TAUT_EACCES)                                                                                 \
    X(TAUT_ENOENT)                                                                                 \
    X(TAUT_EADDRINUSE)                                                                             \
    X(TAUT_ECONNREFUSED)                                                                           \
    X(TAUT_ECONNRESET)                                                                             \
    X(TAUT_ETIMEDOUT)                                                                              \
    X(TAUT_EAGAIN)                                                                                 \
    X(TAUT_ENOTSUP)                                                                                \
    X(TAUT_EBUSY)                                                                                  \
    X(TAUT_EOVERFLOW)                                                                              \
    X(TAUT_ECANCELED)                                                                              \
    X(TAUT_ESTATE)                                                                                 \
    X(TAUT_EFORMAT)                                                                                \
    X(TAUT_EVERSION)                                                                               \
    X(TAUT_ETRUNCATED)                                                                             \
    X(TAUT_ECORRUPT)                                                                               \
    X(TAUT_ETOOBIG)                                                                                \
    X(TAUT_EPEER)

static const struct {
    int code;
    const char *name;
} all_codes[] = {
#define X(code) {code, #code},
    ALL_CODES
#undef X
};

#define CODE_COUNT (sizeof all_codes / sizeof all_codes[0])

/* A code that is added to the header and not here stops this from compiling (-Wswitch). */
static int is_listed(enum taut_code code)
{
    switch (code) {
#define X(listed) case listed:
        ALL_CODES
#undef X
        return 1;
    }
    return 0;
}

static void every_code_has_its_name_and_a_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODE_COUNT; i++) {
        assert_true(is_listed((enum taut_code)all_codes[i].code));
        assert_string_equal(taut_code_name(all_codes[i].code), all_codes[i].name);
        const char *text = taut_code_text(all_codes[i].code);
        assert_non_null(text);
        assert_string_not_equal(text, "unknown error");
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(all_codes[i].code, all_codes[k].code);
            assert_string_not_equal(text, taut_code_text(all_codes[k].code));
        }
    }
}

static void unknown_codes_are_named_as_such(void **state)
{
    (void)state;
    const int unknown[] = {1, -1000, -10008, INT_MIN, INT_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_string_equal(taut_code_name(unknown[i]), "TAUT_E?");
        assert_string_equal(taut_code_text(unknown[i]), "unknown error");
    }
}

static void errno_maps_to_known_codes_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODE_COUNT; i++) {
        int code = all_codes[i].code;
        if (code > TAUT_ESTATE)
            assert_int_equal(taut_code_from_errno(-code), code);
        else /* a number that no errno has must not turn into a code of ours */
            assert_int_equal(taut_code_from_errno(-code), TAUT_EIO);
    }
    assert_int_equal(taut_code_from_errno(EPERM), TAUT_EACCES);
    assert_int_equal(taut_code_from_errno(EISDIR), TAUT_EIO);
    assert_int_equal(taut_code_from_errno(-EINVAL), TAUT_EIO);
    assert_int_equal(taut_code_from_errno(INT_MIN), TAUT_EIO);
    assert_int_equal(taut_code_from_errno(INT_MAX), TAUT_EIO);
}

static void set_records_code_place_and_text(void **state)
{
    (void)state;
    struct taut_err err = {0};
    int code = taut_err_set(&err, TAUT_EINVAL, "width %u is above %u", 9u, 8u);
    int line = __LINE__ - 1;
    assert_int_equal(code, TAUT_EINVAL);
    assert_int_equal(err.code, TAUT_EINVAL);
    assert_int_equal(err.line, line);
    assert_string_equal(err.file, __FILE__);
    assert_string_equal(err.text, "width 9 is above 8");
    taut_err_clear(&err);
    const struct taut_err zero = {0};
    assert_memory_equal(&err, &zero, sizeof err);
}

static void null_takes_nothing_and_returns_the_code(void **state)
{
    (void)state;
    assert_int_equal(taut_err_set(NULL, TAUT_EPEER, "%s", "lost"), TAUT_EPEER);
    taut_err_clear(NULL);
}

static void long_texts_are_cut_and_terminated(void **state)
{
    (void)state;
    char longer[1000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    struct {
        struct taut_err err;
        char after[8];
    } guarded;
    memset(&guarded, 0x5a, sizeof guarded);
    taut_err_set(&guarded.err, TAUT_EIO, "%s", longer);
    assert_int_equal(strlen(guarded.err.text), sizeof guarded.err.text - 1);
    for (size_t i = 0; i < sizeof guarded.after; i++)
        assert_int_equal(guarded.after[i], 0x5a);
}

static void a_text_stays_one_line(void **state)
{
    (void)state;
    struct taut_err err = {0};
    taut_err_set(&err, TAUT_EPEER, "%s", "a\nb\r\x1b[2Jc\x7f\xc3\xa9");
    assert_string_equal(err.text, "a b  [2Jc \xc3\xa9");
}

static void arguments_may_refer_to_the_same_err(void **state)
{
    (void)state;
    struct taut_err err = {0};
    taut_err_set(&err, TAUT_ENOENT, "inner");
    taut_err_set(&err, TAUT_EIO, "outer: %s (%s)", err.text, taut_code_name(err.code));
    assert_string_equal(err.text, "outer: inner (TAUT_ENOENT)");
    assert_int_equal(err.code, TAUT_EIO);
}

/* Runs a child whose stderr is a pipe; returns its wait status. */
static int run_child(void (*body)(void), char *text, size_t capacity)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], text, capacity - 1);
    text[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int evaluations;

enum { BROKEN_LINE = __LINE__ + 4 }; /* of the check below */

static void broken_check(void)
{
    TAUT_CHECK(evaluations == 77);
}

static void held_check(void)
{
    TAUT_CHECK(++evaluations == 1);
    TAUT_CHECK(evaluations == 1);
}

static void unreachable_place(void)
{
    TAUT_UNREACHABLE();
}

static void a_broken_check_says_where_and_aborts(void **state)
{
    (void)state;
    char text[600], wanted[200];
    int status = run_child(broken_check, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    snprintf(wanted, sizeof wanted,
             "test_err.c:%d: broken_check: check failed: evaluations == 77\n", BROKEN_LINE);
    assert_non_null(strstr(text, wanted));
    assert_int_equal(text[strlen(text) - 1], '\n');

    status = run_child(unreachable_place, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "unreachable"));
}

static void a_check_that_holds_is_silent_and_evaluates_once(void **state)
{
    (void)state;
    char text[600];
    int status = run_child(held_check, text, sizeof text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_string_equal(text, "");
}

static void the_version_is_the_build_s(void **state)
{
    (void)state;
    assert_string_equal(taut_version(), TAUT_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_name_and_a_text),
        cmocka_unit_test(unknown_codes_are_named_as_such),
        cmocka_unit_test(errno_maps_to_known_codes_only),
        cmocka_unit_test(set_records_code_place_and_text),
        cmocka_unit_test(null_takes_nothing_and_returns_the_code),
        cmocka_unit_test(long_texts_are_cut_and_terminated),
        cmocka_unit_test(a_text_stays_one_line),
        cmocka_unit_test(arguments_may_refer_to_the_same_err),
        cmocka_unit_test(a_broken_check_says_where_and_aborts),
        cmocka_unit_test(a_check_that_holds_is_silent_and_evaluates_once),
        cmocka_unit_test(the_version_is_the_build_s),
    };
    return cmocka_run_group_tests_name("base/err", tests, NULL, NULL);
}
