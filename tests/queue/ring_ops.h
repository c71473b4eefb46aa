/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring beside a reference that is obviously right (an array, and four counters), driven by a
 * string of bytes: each byte is one operation. Shared by the random test and the fuzz target.
 */
#ifndef TESTS_QUEUE_RING_OPS_H
#define TESTS_QUEUE_RING_OPS_H

#include <stddef.h>
#include <stdint.h>

/* NULL, or what does not agree. The first bytes choose capacity, item size, batches and the start
 * of the indices. */
const char *ring_ops_run(const uint8_t *bytes, size_t length);

#endif
