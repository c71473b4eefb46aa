/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/check.h - invariants.
 *
 * TAUT_CHECK states what must hold in every build: when it does not, the process has already gone
 * wrong, and going on would turn one defect into wrong numbers or a damaged store. It prints
 * "file:line: function: check failed: expression" to stderr with one write(2), and aborts.
 * TAUT_ASSERT is for what is too dear to test on a hot path; it is compiled out with NDEBUG, and
 * even then its expression is still parsed, so that it can't rot.
 *
 * Neither is for input: what a caller or a peer may get wrong is an error code, not a check.
 *
 * Threads: any. Blocking: no, except for the write of the last words. Allocation: none.
 */
#ifndef TAUT_BASE_CHECK_H
#define TAUT_BASE_CHECK_H

#include <taut/err.h>

/* Last words, then abort(3). Not part of the public interface. */
__attribute__((noreturn, cold)) void
taut__check_failed(const char *file, int line, const char *function, const char *expression);

#define TAUT_CHECK(condition)                                                                      \
    (__builtin_expect(!!(condition), 1)                                                            \
         ? (void)0                                                                                 \
         : taut__check_failed(__FILE__, __LINE__, __func__, #condition))

#ifdef NDEBUG
#define TAUT_ASSERT(condition) ((void)sizeof(!(condition)))
#else
#define TAUT_ASSERT(condition) TAUT_CHECK(condition)
#endif

/* For a place that no state of the program can reach. */
#define TAUT_UNREACHABLE() taut__check_failed(__FILE__, __LINE__, __func__, "unreachable")

#endif
