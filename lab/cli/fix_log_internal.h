/* SPDX-License-Identifier: BSD-2-Clause */
/* cli/fix_log_internal.h - what splitter (fix_log.c) and checker (fix_log_check.c) share. */
#ifndef LAB_CLI_FIX_LOG_INTERNAL_H
#define LAB_CLI_FIX_LOG_INTERNAL_H

#include <ctype.h>
#include <string.h>

#include "cli/fix_log.h"

struct fix_separator {
    const char *text;
    uint32_t length;
};

struct fix_log {
    struct fix_log_checked checked;
    size_t newline_free;   /* bytes from the start of the data in which there is no newline, */
    size_t beginning_free; /* and in which no message begins: looked at once, not at each call */
    uint32_t bytes_capacity, fields_capacity;
    taut_scan_function *scan;
    struct taut_message message;
};

/* 1 where the separator is at data + at. */
static inline int separator_at(const struct fix_separator *s, const uint8_t *data, size_t at,
                               size_t size)
{
    return size - at >= s->length && memcmp(data + at, s->text, s->length) == 0;
}

/* "10=ddd" at data + at, and no fourth digit. */
static inline int checksum_at(const uint8_t *data, size_t at, size_t size)
{
    return size - at >= 6 && memcmp(data + at, "10=", 3) == 0 && isdigit(data[at + 3]) &&
           isdigit(data[at + 4]) && isdigit(data[at + 5]) &&
           (size - at == 6 || !isdigit(data[at + 6]));
}

/* Fills log->checked from the `size` bytes at `data`. 0 or TAUT_ENOMEM. */
int fix_log_check(struct fix_log *log, const uint8_t *data, size_t size,
                  const struct fix_separator *separator, int cut);

#endif
