/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report/table.h - text tables and the numbers in them.
 *
 * A table collects cells row by row and is printed once all widths are known: columns are separated
 * by two blanks, no line has trailing blanks, a width is counted in characters of UTF-8. The format
 * functions give one number the same form in every table of Taut, so that two outputs can be
 * compared: at most four significant digits and a unit for durations, thousands separated by ','
 * for counts; no locale is asked.
 *
 * Errors: a table that could not get memory remembers that, accepts further calls, and
 * table_print() returns TAUT_ENOMEM. Threads: a table has one owner; the format functions are pure.
 * Ownership: cell texts and titles are copied. Every format function writes to the caller's buffer
 * of FORMAT_BYTES bytes and returns it.
 */
#ifndef LAB_REPORT_TABLE_H
#define LAB_REPORT_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include <taut/err.h>

#define FORMAT_BYTES  48u
#define FORMAT_INF_NS UINT64_MAX       /* equals QUANTILE_INFINITE */
#define FORMAT_NO_NS  (UINT64_MAX - 1) /* equals QUANTILE_REFUSED */

enum table_align { TABLE_LEFT = 0, TABLE_RIGHT = 1 };

struct table_column {
    const char *title;
    uint32_t align; /* enum table_align, of title and cells */
};

struct table;

/* A table with `count` columns (1 .. 64) and no row. TAUT_EINVAL, TAUT_ENOMEM. */
int table_create(struct table **table, const struct table_column *columns, uint32_t count);

/* The next cell of the current row; a row is complete after its last column, and the cell after
 * that begins the next row. Control characters become '?'. */
void table_cell(struct table *table, const char *format, ...) TAUT_PRINTF(2, 3);

/* Ends the current row: cells that are missing stay empty. Nothing where no cell was begun. */
void table_end_row(struct table *table);

/* A line of '-' under the present last row. */
void table_rule(struct table *table);

uint32_t table_rows(const struct table *table);

/* Titles, a rule, the rows; each line begins with `indent` (NULL = ""). 0, TAUT_ENOMEM for a table
 * that lost cells, or TAUT_EIO when `out` is in error. */
int table_print(const struct table *table, FILE *out, const char *indent);

/* Frees it; NULL is allowed. */
void table_destroy(struct table *table);

/* "0 ns", "812 ns", "8.214 us", "648.8 ms", "20.00 s", "3,600 s"; "inf" for FORMAT_INF_NS, "-" for
 * FORMAT_NO_NS. Rounded half up, never to a value of the next shorter form ("1000 us"). */
const char *format_duration(char *buffer, uint64_t ns);

/* "1,280,000". */
const char *format_count(char *buffer, uint64_t count);

/* A rate: `count` in `duration_ns`, as "219,312/s"; one decimal below 100 ("7.4/s"); "-" where the
 * duration is 0. */
const char *format_rate(char *buffer, uint64_t count, uint64_t duration_ns);

/* "12.5 %" of `whole`; "-" where that is 0. */
const char *format_percent(char *buffer, uint64_t part, uint64_t whole);

/* "4,096 B", "41.0 MB" (powers of 1,000). */
const char *format_bytes(char *buffer, uint64_t bytes);

/* UTC with nanoseconds: "2026-12-01 00:00:00.123456789"; "-" for 0. */
const char *format_utc(char *buffer, uint64_t utc_ns);

#endif
