/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/options.c - one parser for all subcommands, and how a failure is told.
 *
 * Promises: an option that is not in the table, a missing value, a value that is no number or out
 * of its bounds is refused with one line that names it; nothing is guessed, no prefix of a name is
 * accepted, and no option is given twice with the last one winning in silence.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <taut/topology.h>

#include "cli/cli.h"

#define OPTIONS_MAX 64

struct exit_for_code {
    int code, exit_code;
};

static const struct exit_for_code exit_codes[] = {
    {TAUT_EINVAL, EXIT_BAD_VALUE},      {TAUT_ENOENT, EXIT_NO_FILE},
    {TAUT_EADDRINUSE, EXIT_ADDRESS},    {TAUT_ECONNREFUSED, EXIT_CONNECT},
    {TAUT_EFORMAT, EXIT_VERSION},       {TAUT_EVERSION, EXIT_VERSION},
    {TAUT_ETRUNCATED, EXIT_DAMAGED},    {TAUT_ECORRUPT, EXIT_DAMAGED},
    {TAUT_ENOSPC, EXIT_DISK_FULL},      {TAUT_EACCES, EXIT_RIGHTS},
    {TAUT_ECONNRESET, EXIT_PEER_LOST},  {TAUT_ETIMEDOUT, EXIT_TOO_SLOW},
    {TAUT_ETOOBIG, EXIT_TOO_BIG},       {TAUT_EPEER, EXIT_NOT_FIX},
    {TAUT_ECANCELED, EXIT_INTERRUPTED}, {TAUT_EAGAIN, EXIT_RIGHTS},
    {TAUT_ENOMEM, EXIT_RIGHTS},
};

int cli_exit_for(int code)
{
    for (size_t i = 0; i < sizeof(exit_codes) / sizeof(exit_codes[0]); i++)
        if (exit_codes[i].code == code)
            return exit_codes[i].exit_code;
    return code == 0 ? EXIT_OK : EXIT_INTERNAL;
}

static void say(const struct cli_command *command, const char *kind, const char *format,
                va_list arguments)
{
    char line[1024];
    int used = snprintf(line, sizeof(line), "taut %s: %s", command->name, kind);
    int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, arguments);
    size_t length = strlen(line);
    if (more < 0)
        return;
    for (size_t i = 0; i < length; i++) /* one message is one line, whatever a file name holds */
        if (iscntrl((unsigned char)line[i]))
            line[i] = '?';
    line[length++] = '\n';
    fflush(stdout);
    for (size_t done = 0; done < length;) {
        ssize_t n = write(STDERR_FILENO, line + done, length - done);
        if (n < 0 && errno != EINTR)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}

int cli_fail(const struct cli_command *command, int exit_code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(command, "", format, arguments);
    va_end(arguments);
    return exit_code;
}

void cli_warn(const struct cli_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(command, "warning: ", format, arguments);
    va_end(arguments);
}

int cli_fail_err(const struct cli_command *command, const struct taut_err *err)
{
    return cli_fail(command, cli_exit_for(err->code), "%s",
                    err->text[0] ? err->text : taut_code_text(err->code));
}

int cli_finish(const struct cli_command *command, int exit_code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    int why = errno;
    if (why == EPIPE) /* the reader had enough: no fault of ours */
        return exit_code;
    return cli_fail(command, EXIT_WRITE, "can't write the result: %s", strerror(why));
}

/* --- values ---------------------------------------------------------------------------------- */

/* Digits only, no sign, no space, no overflow. */
static int parse_number(const char *text, uint64_t *value)
{
    uint64_t v = 0;
    if (!*text)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        uint64_t digit = (uint64_t)(*text - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return -1;
        v = v * 10 + digit;
    }
    *value = v;
    return 0;
}

/* A number of at most three decimals and a unit: "250us", "1.5s". */
static int parse_duration(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ns", 1},         {"us", 1000},        {"ms", 1000000},
                 {"s", 1000000000}, {"m", 60000000000u}, {"h", 3600000000000u}};
    char digits[24];
    size_t whole = strspn(text, "0123456789");
    size_t decimals = 0;
    const char *unit = text + whole;
    uint64_t value, thousandths = 0;
    if (whole == 0 || whole >= sizeof(digits))
        return -1;
    memcpy(digits, text, whole);
    digits[whole] = '\0';
    if (parse_number(digits, &value) != 0)
        return -1;
    if (*unit == '.') {
        unit++;
        decimals = strspn(unit, "0123456789");
        if (decimals == 0 || decimals > 3)
            return -1;
        for (size_t i = 0; i < 3; i++)
            thousandths = thousandths * 10 + (i < decimals ? (uint64_t)(unit[i] - '0') : 0);
        unit += decimals;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].unit) != 0)
            continue;
        if (thousandths && units[i].ns < 1000)
            return -1;
        if (value > (UINT64_MAX / 2 - units[i].ns) / units[i].ns)
            return -1;
        *ns = value * units[i].ns + thousandths * (units[i].ns / 1000);
        return 0;
    }
    return -1;
}

static int parse_amount(const char *text, struct cli_amount *amount)
{
    struct cli_amount parsed = {0, 0};
    if (parse_number(text, &parsed.messages) != 0 && parse_duration(text, &parsed.duration_ns) != 0)
        return -1;
    *amount = parsed;
    return 0;
}

static int bad_value(const struct cli_command *command, const struct cli_option *option,
                     const char *text, const char *wanted)
{
    return cli_fail(command, EXIT_BAD_VALUE, "--%s: '%.100s' is no %s", option->name, text, wanted);
}

static int store_number(const struct cli_command *command, const struct cli_option *option,
                        const char *text)
{
    uint64_t largest = option->kind == CLI_U32 ? UINT32_MAX : UINT64_MAX;
    uint64_t high = option->high && option->high < largest ? option->high : largest;
    uint64_t value;
    if (parse_number(text, &value) != 0)
        return bad_value(command, option, text, "whole number");
    if (value < option->low || value > high)
        return cli_fail(command, EXIT_BAD_VALUE,
                        "--%s: %" PRIu64 " is outside %" PRIu64 " .. %" PRIu64, option->name, value,
                        option->low, high);
    if (option->kind == CLI_U32)
        *(uint32_t *)option->value = (uint32_t)value;
    else
        *(uint64_t *)option->value = value;
    return -1;
}

/* Stores one value; -1 = good, else the exit code. */
static int store(const struct cli_command *command, const struct cli_option *option,
                 const char *text)
{
    struct taut_cpuset set = {{0}};
    struct taut_err err = {0};
    switch (option->kind) {
    case CLI_STRING:
        *(const char **)option->value = text;
        return -1;
    case CLI_U32:
    case CLI_U64:
        return store_number(command, option, text);
    case CLI_DURATION:
        if (parse_duration(text, option->value) != 0)
            return bad_value(command, option, text, "duration (such as 250us, 10ms, 5s)");
        return -1;
    case CLI_AMOUNT:
        if (parse_amount(text, option->value) != 0)
            return bad_value(command, option, text, "number of messages or duration (20000, 5s)");
        return -1;
    case CLI_CPUS:
        if (taut_cpuset_parse(&set, text, &err) != 0 || taut_cpuset_count(&set) == 0)
            return bad_value(command, option, text, "list of CPUs (such as 0,2-3)");
        *(const char **)option->value = text;
        return -1;
    default:
        *(int *)option->value = 1;
        return -1;
    }
}

/* --- help ------------------------------------------------------------------------------------ */

static void print_help(const struct cli_command *command)
{
    printf("usage: taut %s [OPTIONS]%s%s\n%s\n", command->name, *command->arguments ? " " : "",
           command->arguments, command->summary);
    if (command->option_count)
        printf("\n");
    for (uint32_t i = 0; i < command->option_count; i++) {
        const struct cli_option *o = &command->options[i];
        char left[64];
        char letter[8] = "";
        if (o->letter)
            snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->metavar ? " " : "",
                 o->metavar ? o->metavar : "");
        printf("  %-26s %s\n", left, o->help);
    }
}

/* --- the parser ------------------------------------------------------------------------------ */

static const struct cli_option *find_long(const struct cli_command *command, const char *name,
                                          size_t length)
{
    for (uint32_t i = 0; i < command->option_count; i++)
        if (strlen(command->options[i].name) == length &&
            memcmp(command->options[i].name, name, length) == 0)
            return &command->options[i];
    return NULL;
}

static const struct cli_option *find_letter(const struct cli_command *command, char letter)
{
    for (uint32_t i = 0; i < command->option_count; i++)
        if (command->options[i].letter == letter)
            return &command->options[i];
    return NULL;
}

/* One option at argv[*index]; *index moves over its value. -1 = good, else the exit code. */
static int parse_option(const struct cli_command *command, int argc, char **argv, int *index,
                        uint64_t *seen)
{
    const char *word = argv[*index];
    const char *inline_value = NULL;
    const struct cli_option *option;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        inline_value = equals ? equals + 1 : NULL;
        option =
            find_long(command, word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2));
    } else {
        option = word[2] == '\0' ? find_letter(command, word[1]) : NULL;
    }
    if (!option)
        return cli_fail(command, EXIT_USAGE, "unknown option '%.100s'; see taut %s --help", word,
                        command->name);
    uint64_t bit = UINT64_C(1) << ((option - command->options) % OPTIONS_MAX);
    if (*seen & bit)
        return cli_fail(command, EXIT_USAGE, "--%s is given twice", option->name);
    *seen |= bit;
    if (option->kind == CLI_FLAG) {
        if (inline_value)
            return cli_fail(command, EXIT_USAGE, "--%s takes no value", option->name);
        return store(command, option, "");
    }
    if (inline_value)
        return store(command, option, inline_value);
    if (*index + 1 >= argc)
        return cli_fail(command, EXIT_USAGE, "--%s wants a value (%s)", option->name,
                        option->metavar);
    return store(command, option, argv[++*index]);
}

int cli_parse(const struct cli_command *command, int argc, char **argv, int *arguments)
{
    uint64_t seen = 0;
    int kept = 0, only_arguments = 0;
    for (int i = 1; i < argc; i++) {
        if (only_arguments || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[1 + kept++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            only_arguments = 1;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(command);
            return cli_finish(command, EXIT_OK);
        } else {
            int result = parse_option(command, argc, argv, &i, &seen);
            if (result >= 0)
                return result;
        }
    }
    *arguments = kept;
    if ((uint32_t)kept < command->arguments_least)
        return cli_fail(command, EXIT_USAGE, "wants %s; see taut %s --help", command->arguments,
                        command->name);
    if ((uint32_t)kept > command->arguments_most)
        return cli_fail(command, EXIT_USAGE, "unexpected argument '%.100s'; see taut %s --help",
                        argv[1 + command->arguments_most], command->name);
    return -1;
}
