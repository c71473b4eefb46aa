/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report/table.c - collects cells, then prints them in columns.
 *
 * Promises: no line is longer than its cells need, nothing a cell contains can break the layout,
 * and a lost cell (no memory) is never a silently missing figure: printing fails.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report/table.h"

#define COLUMNS_MAX 64u
#define CELL_BYTES  512u

/* A row is `columns` texts in one array; a rule is a row whose first text is NULL. */
struct table {
    uint32_t columns;
    uint32_t used; /* cells of the current row */
    uint32_t rows, capacity;
    int failed;
    uint32_t align[COLUMNS_MAX];
    char *title[COLUMNS_MAX];
    char **cells;
};

/* Characters of a UTF-8 text: bytes that are no continuation. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; text && *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

int table_create(struct table **table, const struct table_column *columns, uint32_t count)
{
    *table = NULL;
    if (count == 0 || count > COLUMNS_MAX)
        return TAUT_EINVAL;
    struct table *t = calloc(1, sizeof(*t));
    if (!t)
        return TAUT_ENOMEM;
    t->columns = count;
    for (uint32_t i = 0; i < count; i++) {
        t->align[i] = columns[i].align;
        t->title[i] = strdup(columns[i].title);
        if (!t->title[i]) {
            table_destroy(t);
            return TAUT_ENOMEM;
        }
    }
    *table = t;
    return 0;
}

static char **begin_row(struct table *table)
{
    if (table->rows == table->capacity) {
        uint32_t capacity = table->capacity ? table->capacity * 2 : 16;
        char **grown =
            realloc(table->cells, (size_t)capacity * table->columns * sizeof(*table->cells));
        if (!grown) {
            table->failed = 1;
            return NULL;
        }
        table->cells = grown;
        table->capacity = capacity;
    }
    char **row = table->cells + (size_t)table->rows++ * table->columns;
    memset(row, 0, table->columns * sizeof(*row));
    return row;
}

void table_cell(struct table *table, const char *format, ...)
{
    char text[CELL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length < 0)
        text[0] = '\0';
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    if (table->used == table->columns)
        table->used = 0;
    if (table->used == 0 && !begin_row(table))
        return;
    char *copy = strdup(text);
    if (!copy)
        table->failed = 1;
    /* A row that began always has a first text: NULL there would read as a rule. */
    table->cells[(size_t)(table->rows - 1) * table->columns + table->used] = copy;
    if (copy || table->used > 0)
        table->used++;
    else
        table->rows--;
}

void table_end_row(struct table *table)
{
    table->used = 0;
}

void table_rule(struct table *table)
{
    table_end_row(table);
    begin_row(table);
}

uint32_t table_rows(const struct table *table)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < table->rows; i++)
        rows += table->cells[(size_t)i * table->columns] != NULL;
    return rows;
}

static void fill(FILE *out, char with, size_t count)
{
    while (count--)
        putc(with, out);
}

/* One line of cells; blanks that would end the line are not written. */
static void print_line(const struct table *table, FILE *out, const char *indent, char *const *cells,
                       const size_t *widths)
{
    size_t pending = 0;
    fputs(indent, out);
    for (uint32_t i = 0; i < table->columns; i++) {
        const char *text = cells[i] ? cells[i] : "";
        size_t blanks = widths[i] - width_of(text);
        size_t before = table->align[i] == TABLE_RIGHT ? blanks : 0;
        if (*text) {
            fill(out, ' ', pending + before);
            fputs(text, out);
            pending = 0;
        } else {
            pending += before;
        }
        pending += blanks - before + 2;
    }
    putc('\n', out);
}

int table_print(const struct table *table, FILE *out, const char *indent)
{
    size_t widths[COLUMNS_MAX] = {0}, total = 0;
    if (table->failed)
        return TAUT_ENOMEM;
    if (!indent)
        indent = "";
    for (uint32_t i = 0; i < table->columns; i++) {
        widths[i] = width_of(table->title[i]);
        for (uint32_t row = 0; row < table->rows; row++) {
            size_t width = width_of(table->cells[(size_t)row * table->columns + i]);
            widths[i] = width > widths[i] ? width : widths[i];
        }
        total += widths[i] + (i ? 2 : 0);
    }
    print_line(table, out, indent, table->title, widths);
    fputs(indent, out);
    fill(out, '-', total);
    putc('\n', out);
    for (uint32_t row = 0; row < table->rows; row++) {
        char **cells = table->cells + (size_t)row * table->columns;
        if (cells[0]) {
            print_line(table, out, indent, cells, widths);
        } else {
            fputs(indent, out);
            fill(out, '-', total);
            putc('\n', out);
        }
    }
    return ferror(out) ? TAUT_EIO : 0;
}

void table_destroy(struct table *table)
{
    if (!table)
        return;
    for (uint32_t i = 0; i < table->columns; i++)
        free(table->title[i]);
    for (size_t i = 0; i < (size_t)table->rows * table->columns; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}
