/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/settings.h - a QuickFIX-style settings file: whom the gateway accepts, and where.
 *
 * [DEFAULT] and [SESSION] sections with key=value lines; a session takes from the defaults what it
 * does not set itself. Section names and keys are read without regard to case, '#' begins a comment
 * line. A key that Taut does not know is a warning with file, line and key (with `strict` the end);
 * one that it knows but does not act on yet is named once. A line of no form, or a value that is
 * none of its key's, ends the reading with one line and EXIT_BAD_KEY; a file that can't be read
 * with EXIT_NO_FILE.
 */
#ifndef LAB_CLI_SETTINGS_H
#define LAB_CLI_SETTINGS_H

#include <stdint.h>

#include <taut/session.h>

#include "cli/cli.h"

struct settings {
    struct taut_session_config *sessions; /* acceptors, in the file's order */
    uint32_t session_count;
    uint32_t port_number;      /* UINT32_MAX: the file does not say */
    const char *host;          /* NULL: the file does not say */
    uint64_t logon_timeout_ns; /* 0: the file does not say */
    char *text;                /* the file; all strings above point into it */
};

/* Reads `path`. -1 = good (free it later), else the exit code. */
int settings_read(const struct cli_command *command, const char *path, int strict,
                  struct settings *settings);

/* Frees what settings_read() gave; zero-initialised: nothing. */
void settings_free(struct settings *settings);

#endif
