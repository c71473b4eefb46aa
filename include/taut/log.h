/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/log.h - one line a message, to a file descriptor or a callback.
 *
 * A logger is an object that its owner passes to whoever shall log; there is no global one, and
 * every function accepts NULL as "log nothing". A line is written with one write(2), so lines of
 * several threads and processes do not mix. Control characters, bytes that are no UTF-8 and
 * characters that change the direction of writing are escaped (\n, \x1b; a backslash doubles), so
 * that a peer's bytes can't forge a line. Repeated lines from one place can be bounded with
 * struct taut_log_limit: what is suppressed is counted and said.
 *
 * Threads: a logger may be used by many threads once set up. Blocking: as write(2) on its
 * descriptor; never call it on a hot path. Ownership: the caller owns logger and descriptor.
 */
#ifndef TAUT_LOG_H
#define TAUT_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <taut/err.h>

#ifdef __cplusplus
extern "C" {
#endif

enum taut_log_level {
    TAUT_LOG_ERROR = 0,
    TAUT_LOG_WARNING = 1,
    TAUT_LOG_INFO = 2,
    TAUT_LOG_DEBUG = 3
};

struct taut_log {
    int fd;              /* used where write is NULL */
    uint32_t level;      /* lines above it are dropped; enum taut_log_level */
    const char *program; /* prefix "program: "; NULL = none. Not copied. */
    uint32_t times;      /* 1: prefix each line with UTC time */
    /* Gets the line with its prefix, terminated, without a newline; valid during the call. */
    void (*write)(void *context, uint32_t level, const char *line, size_t length);
    void *context;
};

/* At most `burst` lines per `interval_ns`; zero-initialised: 5 lines a second. One per place. */
struct taut_log_limit {
    uint64_t interval_ns;
    uint32_t burst;
    uint32_t used;
    uint64_t window_start_ns;
    uint64_t suppressed; /* lines not written since the last one that was */
};

/* Writes one line ("program: error: text\n"). Longer than 2,000 bytes is cut and marked "...". */
TAUT_API void taut_log(const struct taut_log *log, uint32_t level, const char *format, ...)
    TAUT_PRINTF(3, 4);

/* The same, bounded by `limit` (NULL = unbounded), which one thread at a time may use. The next
 * line that is written says how many were not: "(12 similar lines suppressed)". */
TAUT_API void taut_log_limited(const struct taut_log *log, struct taut_log_limit *limit,
                               uint32_t level, const char *format, ...) TAUT_PRINTF(4, 5);

/* "error", "warning", "info", "debug"; "?" for another number. */
TAUT_API const char *taut_log_level_name(uint32_t level);

#ifdef __cplusplus
}
#endif
#endif
