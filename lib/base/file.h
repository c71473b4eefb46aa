/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/file.h - reading the small text files of /proc, /sys and cgroup.
 *
 * These files are made at the moment they are read and report no size, so they are read until the
 * end. Results are exact negated errno values rather than TAUT_E codes: who records a missing
 * reading records why it is missing.
 *
 * Threads: any. Blocking: as read(2) on the file.
 */
#ifndef TAUT_BASE_FILE_H
#define TAUT_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Reads up to capacity - 1 bytes into `text` and terminates them (capacity >= 1; also on failure,
 * then it is empty). Returns the length, or a negated errno; -EFBIG: there is more than fits, and
 * `text` holds the beginning.
 */
ssize_t taut__file_read(const char *path, char *text, size_t capacity);

/* The same, and cuts white space off the end: for files that hold one value. */
ssize_t taut__file_read_value(const char *path, char *text, size_t capacity);

/*
 * Reads the whole file, at most `limit` bytes, into memory that the caller frees; terminated.
 * NULL with *result a negated errno (-EFBIG: longer than the limit), else *result is the length.
 */
char *taut__file_read_whole(const char *path, size_t limit, ssize_t *result);

#endif
