/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of the room fix: messages from readable text, a buffer that ends at an
 * unreadable page, and random numbers that are the same on every run.
 */
#ifndef TAUT_TESTS_FIX_SUPPORT_H
#define TAUT_TESTS_FIX_SUPPORT_H

#include <taut/scan.h>

/* Bytes whose last padding byte is the last readable one: reading one more is a SIGSEGV. */
struct guarded {
    uint8_t *pages, *limit; /* limit: the unreadable page */
    size_t mapped;
};

struct guarded guarded_create(size_t largest);
void guarded_destroy(struct guarded *g);

/* Copies `length` bytes so that TAUT_SCAN_PADDING bytes of `fill` follow, and then the end. */
uint8_t *guarded_put(struct guarded *g, const void *bytes, size_t length, int fill);

/* splitmix64: the next number of the sequence that *state began. */
uint64_t next_random(uint64_t *state);

/* `text` with SOH for '|', to out; returns the length. */
uint32_t raw_message(uint8_t *out, const char *text);

/*
 * "8=<begin>|9=<n>|<body>10=<sum>|" around a body with '|' for SOH; returns the length. `body` of
 * `body_length` bytes may hold real SOH bytes as well.
 */
uint32_t build_message(uint8_t *out, const char *begin, const char *body);
uint32_t wrap_message(uint8_t *out, const char *begin, const uint8_t *body, uint32_t body_length);

/* Replaces the last three digits of a message by its right checksum. */
void fix_checksum(uint8_t *message, uint32_t length);

#endif
