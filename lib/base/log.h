/* SPDX-License-Identifier: BSD-2-Clause */
/* base/log.h - the parts of the logger that its tests call with a time of their own. */
#ifndef TAUT_BASE_LOG_H
#define TAUT_BASE_LOG_H

#include <taut/log.h>

#define TAUT__LOG_LINE_MAX 2000u

/*
 * Whether a line may be written at now_ns. 0: no, it was counted as suppressed. 1: yes, and
 * *suppressed says how many were not written since the last one that was.
 */
int taut__log_admit(struct taut_log_limit *limit, uint64_t now_ns, uint64_t *suppressed);

/*
 * Makes `bytes` safe for a terminal and for a reader of lines: a backslash doubles, \n \r \t keep
 * their names, and other control characters, bytes that are no UTF-8, C1 controls, line separators
 * and characters that change the direction of writing become \xNN. Writes at most capacity - 1
 * bytes, never a part of a character or of an escape, and terminates. Returns how many were
 * written; *complete tells whether that was all.
 */
size_t taut__log_escape(const char *bytes, size_t length, char *text, size_t capacity,
                        int *complete);

#endif
