/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of cli/options.c: every kind of value, its bounds, and each way of getting it wrong. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"

struct values {
    int flag;
    const char *text;
    uint32_t small;
    uint64_t large;
    uint64_t duration;
    struct cli_amount amount;
    const char *cpus;
};

static struct values got;
static char captured[4096];

static const struct cli_option options[] = {
    {"flag", CLI_FLAG, &got.flag, NULL, "a flag", 0, 0, 'f'},
    {"text", CLI_STRING, &got.text, "TEXT", "a text", 0, 0, 't'},
    {"small", CLI_U32, &got.small, "N", "a number", 1, 100, 0},
    {"large", CLI_U64, &got.large, "N", "a large number", 0, 0, 0},
    {"duration", CLI_DURATION, &got.duration, "TIME", "a duration", 0, 0, 0},
    {"amount", CLI_AMOUNT, &got.amount, "N", "an amount", 0, 0, 0},
    {"cpus", CLI_CPUS, &got.cpus, "LIST", "CPUs", 0, 0, 0},
};
static const struct cli_command command = {
    "try", "for the tests", "[FILE...]", options, sizeof(options) / sizeof(options[0]), 0, 2};

/* Parses a command line given as one text; stderr goes to `captured`. */
static int parse(const char *line, int *arguments)
{
    static char copy[512];
    char *argv[32] = {(char *)"try"};
    char name[] = "/tmp/taut-options-XXXXXX";
    int argc = 1, kept = 0;
    memset(&got, 0, sizeof(got));
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    int file = mkstemp(name), saved = dup(STDERR_FILENO);
    assert_true(file >= 0 && saved >= 0);
    unlink(name);
    dup2(file, STDERR_FILENO);
    int result = cli_parse(&command, argc, argv, &kept);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t length = pread(file, captured, sizeof(captured) - 1, 0);
    captured[length > 0 ? length : 0] = '\0';
    close(file);
    if (arguments)
        *arguments = kept;
    return result;
}

static void refused(const char *line, int exit_code, const char *named)
{
    int result = parse(line, NULL);
    if (result != exit_code || !strstr(captured, named))
        fail_msg("'%s' gave %d and '%s'", line, result, captured);
    assert_string_equal(strchr(captured, '\n'), "\n"); /* exactly one line */
}

static void test_values(void **state)
{
    int arguments;
    (void)state;
    assert_int_equal(
        parse("--flag --text=a=b --small 100 one --large 18446744073709551615 two", &arguments),
        -1);
    assert_int_equal(got.flag, 1);
    assert_string_equal(got.text, "a=b");
    assert_int_equal(got.small, 100);
    assert_true(got.large == UINT64_MAX);
    assert_int_equal(arguments, 2);
    assert_int_equal(parse("-f -t x --cpus 0,2-3 -- --flag", &arguments), -1);
    assert_string_equal(got.text, "x");
    assert_string_equal(got.cpus, "0,2-3");
    assert_int_equal(arguments, 1);
}

static void test_durations(void **state)
{
    static const struct {
        const char *line;
        uint64_t ns;
    } cases[] = {{"--duration 250us", 250000},     {"--duration 1ms", 1000000},
                 {"--duration 1.5s", 1500000000},  {"--duration 2m", 120000000000},
                 {"--duration 0.001ms", 1000},     {"--duration 7ns", 7},
                 {"--duration 1h", 3600000000000u}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i].line, NULL), -1);
        assert_true(got.duration == cases[i].ns);
    }
}

static void test_amounts(void **state)
{
    (void)state;
    assert_int_equal(parse("--amount 20000", NULL), -1);
    assert_true(got.amount.messages == 20000 && got.amount.duration_ns == 0);
    assert_int_equal(parse("--amount 5s", NULL), -1);
    assert_true(got.amount.messages == 0 && got.amount.duration_ns == 5000000000u);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("--unknown", EXIT_USAGE, "'--unknown'");
    refused("--fla", EXIT_USAGE, "'--fla'"); /* no prefixes */
    refused("-x", EXIT_USAGE, "'-x'");
    refused("-ff", EXIT_USAGE, "'-ff'");
    refused("--flag=1", EXIT_USAGE, "no value");
    refused("--small", EXIT_USAGE, "wants a value");
    refused("--small 1 --small 2", EXIT_USAGE, "twice");
    refused("a b c", EXIT_USAGE, "'c'");
    refused("--small 0", EXIT_BAD_VALUE, "outside 1 .. 100");
    refused("--small 101", EXIT_BAD_VALUE, "outside 1 .. 100");
    refused("--small 1x", EXIT_BAD_VALUE, "'1x'");
    refused("--small -1", EXIT_BAD_VALUE, "'-1'");
    refused("--small +1", EXIT_BAD_VALUE, "'+1'");
    refused("--small=", EXIT_BAD_VALUE, "''");
    refused("--large 18446744073709551616", EXIT_BAD_VALUE, "whole number");
    refused("--duration 5", EXIT_BAD_VALUE, "duration");
    refused("--duration 1.0001s", EXIT_BAD_VALUE, "duration");
    refused("--duration 1.5ns", EXIT_BAD_VALUE, "duration");
    refused("--duration s", EXIT_BAD_VALUE, "duration");
    refused("--duration 99999999999999999999s", EXIT_BAD_VALUE, "duration");
    refused("--duration 18446744073709551615h", EXIT_BAD_VALUE, "duration");
    refused("--amount 5x", EXIT_BAD_VALUE, "number of messages");
    refused("--amount -5", EXIT_BAD_VALUE, "'-5'");
    refused("--cpus 0,", EXIT_BAD_VALUE, "list of CPUs");
    refused("--cpus 3-1", EXIT_BAD_VALUE, "list of CPUs");
    refused("--cpus x", EXIT_BAD_VALUE, "list of CPUs");
}

static void test_one_line(void **state)
{
    char *argv[] = {(char *)"try", (char *)"--bad\nline\033[2J"};
    int kept, saved = dup(STDERR_FILENO), pipes[2];
    (void)state;
    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], STDERR_FILENO);
    int result = cli_parse(&command, 2, argv, &kept);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(pipes[1]);
    ssize_t length = read(pipes[0], captured, sizeof(captured) - 1);
    close(pipes[0]);
    captured[length > 0 ? length : 0] = '\0';
    assert_int_equal(result, EXIT_USAGE);
    assert_string_equal(strchr(captured, '\n'), "\n");
    assert_null(strchr(captured, '\033'));
}

static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(cli_exit_for(TAUT_EADDRINUSE), EXIT_ADDRESS);
    assert_int_equal(cli_exit_for(TAUT_ENOSPC), EXIT_DISK_FULL);
    assert_int_equal(cli_exit_for(TAUT_EVERSION), EXIT_VERSION);
    assert_int_equal(cli_exit_for(TAUT_ESTATE), EXIT_INTERNAL);
    assert_int_equal(cli_exit_for(0), EXIT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),   cmocka_unit_test(test_durations),
        cmocka_unit_test(test_amounts),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_one_line), cmocka_unit_test(test_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
