/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/fix_show.h - shows what fix_log.h found: as blocks, as one line each, or as JSON lines.
 *
 * Whatever a log holds, the output is printable UTF-8: control bytes and bytes that are no UTF-8
 * appear as \xNN, a backslash as \\. Secrets appear as ***, in messages and in the text around
 * them.
 */
#ifndef LAB_CLI_FIX_SHOW_H
#define LAB_CLI_FIX_SHOW_H

#include <stdio.h>

#include "cli/fix_log.h"

enum fix_show_form { FIX_SHOW_BLOCKS, FIX_SHOW_LINES, FIX_SHOW_JSON };

struct fix_show {
    FILE *out;
    uint32_t form;    /* enum fix_show_form */
    int no_tag_names; /* 1: tags as numbers only */
    int no_meanings;  /* 1: values without what they mean */
    int show_secrets; /* 1 */
    int full;         /* 1: long values and texts are not cut */
    const char *file; /* named in JSON */
    uint64_t line;    /* of the message's or text's first byte, from 1 */
    uint64_t column;  /* byte in that line, from 1 */
};

/* A message; `before` is the text in front of it. 0, or TAUT_ENOMEM in JSON. */
int fix_show_message(const struct fix_show *show, const struct fix_log_checked *message,
                     const uint8_t *before, size_t before_length);

/* A text without a message. `behind`: 1 when it follows a message on its line. */
int fix_show_text(const struct fix_show *show, const uint8_t *text, size_t length, int behind);

/* 1: only blanks. */
int fix_show_is_blank(const uint8_t *text, size_t length);

#endif
