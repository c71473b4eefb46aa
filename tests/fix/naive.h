/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scanner that anybody would write first: no words, no tables, no early outs. It shares no code
 * with the library (the pairs of length and data tags are asked for, and tested by themselves), and
 * is what the variants are compared with.
 */
#ifndef TAUT_TESTS_FIX_NAIVE_H
#define TAUT_TESTS_FIX_NAIVE_H

#include <taut/scan.h>

struct naive_field {
    uint32_t tag, begin, end;
};

struct naive_message {
    uint32_t count, body_begin, begin_string_length;
    struct naive_field field[TAUT_FIELDS_MAX];
};

uint32_t naive_scan(struct naive_message *message, const uint8_t *data, uint32_t length);

/* Is what a variant returned and wrote what the naive scanner says? Prints the difference. */
int naive_agrees(taut_scan_function *scan, const char *name, struct taut_message *message,
                 const uint8_t *data, uint32_t length);

#endif
