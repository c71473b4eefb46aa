/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig/read.h - readings of /proc and /sys as JSON values: the value, or why there is none.
 *
 * Every function returns a new reference, NULL only when out of memory.
 */
#ifndef LAB_RIG_READ_H
#define LAB_RIG_READ_H

#include "rig/rig.h"

/* "unavailable: No such file or directory (errno 2)"; `failure` may be a negated errno. */
json_t *rig__unavailable(int failure);

/* "unavailable: REASON": the file is there, but says nothing that we understand. */
json_t *rig__unavailable_text(const char *reason);

/* Text that a machine or another process chose; bytes that are no UTF-8 and controls escaped. */
json_t *rig__text(const char *text);

/* The one value of a file. `format` is a path below `root`. */
json_t *rig__file_text(const char *root, const char *format, ...) TAUT_PRINTF(2, 3);

/* What stands in brackets in a file such as "always [madvise] never"; all of it where nothing does.
 */
json_t *rig__file_choice(const char *root, const char *path);

/* Roots, or their defaults. */
const char *rig__proc(const struct rig_roots *roots);
const char *rig__sys(const struct rig_roots *roots);

/* Sets a member and takes over the value; *failed becomes 1 where that can't be done. */
void rig__put(json_t *object, const char *name, json_t *value, int *failed);

/* "some" line's total of a pressure file in us, or a negated errno; -EPROTO: not understood. */
int64_t rig__pressure_total_us(const char *proc_root, const char *resource);

#endif
