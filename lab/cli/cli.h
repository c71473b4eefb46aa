/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/cli.h - what all subcommands of `taut` share: options, exit codes, messages.
 *
 * A subcommand is one function in one file, with a table of options from which both the parser and
 * --help are made. Results go to stdout, everything else to stderr, one line a message. Every
 * failure has a line and one of the exit codes below, which the man page taut(1) lists.
 */
#ifndef LAB_CLI_CLI_H
#define LAB_CLI_CLI_H

#include <stdint.h>
#include <stdio.h>

#include <taut/err.h>

enum cli_exit {
    EXIT_OK = 0,
    EXIT_INVALID = 1,    /* the measurement is INVALID: the accounts do not balance, a run failed */
    EXIT_USAGE = 2,      /* unknown subcommand or option, missing argument */
    EXIT_BAD_VALUE = 3,  /* an option's value is no number, or out of range */
    EXIT_NO_FILE = 4,    /* a file is missing or unreadable */
    EXIT_BAD_KEY = 5,    /* a settings file has an unknown key, a bad line or a bad value */
    EXIT_ADDRESS = 6,    /* the port is in use, or the address is not ours */
    EXIT_CONNECT = 7,    /* the server refuses, or can't be reached */
    EXIT_NOT_FIX = 8,    /* the peer answers, but not in FIX */
    EXIT_TOO_SLOW = 9,   /* the peer did not complete a message or a logon in time */
    EXIT_TOO_BIG = 10,   /* the peer's message is larger than the buffer */
    EXIT_DAMAGED = 11,   /* a raw file is cut short or its hash does not match */
    EXIT_VERSION = 12,   /* no raw file, or one of another version */
    EXIT_DISK_FULL = 13, /* no space left; what was written before is kept */
    EXIT_RIGHTS = 14, /* not permitted, or a limit of the machine: descriptors, memory, processes */
    EXIT_PEER_LOST = 15,   /* the peer closed or reset in mid-run */
    EXIT_GARBLED = 16,     /* `fix cat`: the log had garbled messages (they were shown) */
    EXIT_WRITE = 17,       /* stdout or an output file could not be written */
    EXIT_INTERNAL = 70,    /* a fault of Taut itself */
    EXIT_INTERRUPTED = 130 /* Ctrl-C or SIGTERM; what was measured is kept */
};

/* The exit code for a library error where the subcommand has no better one. */
int cli_exit_for(int code);

enum cli_option_kind {
    CLI_FLAG,     /* int *: set to 1 */
    CLI_STRING,   /* const char ** */
    CLI_U32,      /* uint32_t *, within [low, high] */
    CLI_U64,      /* uint64_t *, within [low, high] */
    CLI_DURATION, /* uint64_t * ns: "250us", "1ms", "10s", "2m"; a bare number is refused */
    CLI_AMOUNT,   /* struct cli_amount *: "20000" messages or "5s" */
    CLI_CPUS      /* const char **: checked as a CPU list, e.g. "0,2-3" */
};

/* "20000" -> messages, "5s" -> duration. Exactly one is nonzero, or both zero for "0". */
struct cli_amount {
    uint64_t messages;
    uint64_t duration_ns;
};

struct cli_option {
    const char *name; /* without the dashes */
    uint32_t kind;    /* enum cli_option_kind */
    void *value;
    const char *metavar; /* "N", "FILE"; NULL for a flag */
    const char *help;
    uint64_t low, high; /* CLI_U32, CLI_U64: bounds; high 0 = the type's largest */
    char letter;        /* short form, or 0 */
};

struct cli_command {
    const char *name;      /* "bench pool" */
    const char *summary;   /* one line */
    const char *arguments; /* "FILE...", "" */
    const struct cli_option *options;
    uint32_t option_count;
    uint32_t arguments_least, arguments_most;
};

/*
 * Parses argv[1..). Options may be --name VALUE, --name=VALUE, -x VALUE; "--" ends them. Arguments
 * that are no options are moved to the front: argv[1 .. *arguments]. Returns -1 to go on, or the
 * exit code (0 after --help).
 */
int cli_parse(const struct cli_command *command, int argc, char **argv, int *arguments);

/* "taut COMMAND: text" on stderr; returns exit_code. */
int cli_fail(const struct cli_command *command, int exit_code, const char *format, ...)
    TAUT_PRINTF(3, 4);
void cli_warn(const struct cli_command *command, const char *format, ...) TAUT_PRINTF(2, 3);

/* cli_fail() with the text and the exit code of a library error. */
int cli_fail_err(const struct cli_command *command, const struct taut_err *err);

/* Flushes stdout; EXIT_WRITE with a line where that fails (a full disk behind a redirection). */
int cli_finish(const struct cli_command *command, int exit_code);

/* The subcommands: one file each, lab/cli/NAME.c. argv[0] is the last word of the command. */
int cmd_bench_pool(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_raw_maxima(int argc, char **argv);
int cmd_raw_quantiles(int argc, char **argv);
int cmd_fix_cat(int argc, char **argv);

#endif
