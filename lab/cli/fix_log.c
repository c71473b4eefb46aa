/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/fix_log.c - the splitter: where messages begin and end in the text of a log.
 *
 * Promises: no message is lost because of a damaged one in front of it on the same line; no byte is
 * looked at a number of times that grows with the input.
 */
#include <stdlib.h>

#include "cli/fix_log_internal.h"

#define BEGIN_STRING_MAX 64u
#define LOOK_AHEAD       (2u + BEGIN_STRING_MAX + 8u + 3u) /* bytes that decide on a beginning */

/* SOH, and how logs write it. */
static const struct fix_separator separators[] = {
    {"\001", 1}, {"|", 1}, {"^A", 2}, {"\\x01", 4}, {"\\u0001", 6}, {"<SOH>", 5}, {"\\001", 4}};

/* The bytes that one call looks at. */
struct view {
    const uint8_t *data;
    size_t size;
    size_t line_end; /* of the first line: offset of its newline, or size */
    int has_newline;
    int at_end;
};

static const struct fix_separator *find_separator(const uint8_t *data, size_t at, size_t size)
{
    for (size_t i = 0; i < sizeof(separators) / sizeof(separators[0]); i++)
        if (separator_at(&separators[i], data, at, size))
            return &separators[i];
    return NULL;
}

/* --- beginnings ------------------------------------------------------------------------------ */

static int is_begin_string_byte(uint8_t byte)
{
    return isalnum(byte) || byte == '.' || byte == '_' || byte == '-';
}

/*
 * Whether "8=" at `at` begins a message: BeginString and a separator follow, and then either "9="
 * or the BeginString is "FIX..." and no part of a longer word or number ("108=FIX"). A "8=FIX..."
 * that ends the line begins a cut one.
 */
static int is_beginning(const struct view *v, size_t at, const struct fix_separator **separator)
{
    const uint8_t *data = v->data;
    size_t end = at + 2;
    while (end < v->line_end && end - at - 2 < BEGIN_STRING_MAX && is_begin_string_byte(data[end]))
        end++;
    int fix = end - at >= 5 && memcmp(data + at + 2, "FIX", 3) == 0;
    int word = at > 0 && isalnum(data[at - 1]);
    *separator = find_separator(data, end, v->line_end);
    if (!*separator) {
        *separator = &separators[0];
        return end == v->line_end && fix && !word;
    }
    end += (*separator)->length;
    int length_follows = v->line_end - end >= 2 && data[end] == '9' && data[end + 1] == '=';
    return length_follows || (fix && !word);
}

/* The first beginning at or behind `from` in the line, or v->line_end. */
static size_t find_beginning(const struct view *v, size_t from,
                             const struct fix_separator **separator)
{
    while (from < v->line_end) {
        const uint8_t *equals = memchr(v->data + from, '=', v->line_end - from);
        if (!equals)
            break;
        size_t at = (size_t)(equals - v->data);
        if (at > from && v->data[at - 1] == '8' && is_beginning(v, at - 1, separator))
            return at - 1;
        from = at + (at > from && v->data[at - 1] == '8');
        from = from > at ? from : at + 1;
    }
    return v->line_end;
}

/* --- ends ------------------------------------------------------------------------------------ */

/* 9=N behind the BeginString. 1: *length and *body are set. */
static int read_body_length(const struct view *v, size_t begin, const struct fix_separator *s,
                            size_t *body, uint64_t *length)
{
    size_t at = begin + 2;
    while (at < v->size && is_begin_string_byte(v->data[at]))
        at++;
    if (at >= v->size || !separator_at(s, v->data, at, v->size))
        return 0;
    at += s->length;
    if (v->size - at < 2 || memcmp(v->data + at, "9=", 2) != 0)
        return 0;
    at += 2;
    size_t digits = 0;
    *length = 0;
    for (; at < v->size && isdigit(v->data[at]) && digits < 9; at++, digits++)
        *length = *length * 10 + (uint64_t)(v->data[at] - '0');
    if (digits == 0 || at >= v->size || !separator_at(s, v->data, at, v->size))
        return 0;
    *body = at + s->length;
    return 1;
}

/* Where the body of `length` wire bytes ends, at most v->size + 1. A separator of several bytes is
 * one on the wire, so its bytes have to be walked; not beyond `limit`. */
static size_t body_end(const struct view *v, size_t body, uint64_t length,
                       const struct fix_separator *s, size_t limit)
{
    if (s->length == 1)
        return length <= v->size - body ? body + (size_t)length : v->size + 1;
    size_t at = body;
    for (; length > 0 && at < limit; length--)
        at += separator_at(s, v->data, at, limit) ? s->length : 1;
    return length == 0 ? at : v->size + 1;
}

enum end_result { END_FOUND, END_WRONG, END_BEHIND };

/* The end by BodyLength, when a CheckSum is there. END_BEHIND: it would be behind the bytes. */
static enum end_result end_by_length(const struct view *v, size_t begin,
                                     const struct fix_separator *s, size_t *end)
{
    size_t body;
    uint64_t length;
    if (!read_body_length(v, begin, s, &body, &length) || length > FIX_LOG_MESSAGE_MAX)
        return END_WRONG;
    /* A log that writes SOH in several bytes also escapes newlines: such a message does not leave
     * its line, and is not walked into the next one, else many wrong lengths would cost their
     * product. */
    const struct fix_separator *other;
    size_t limit = s->length == 1 ? v->size : find_beginning(v, begin + 2, &other);
    size_t trailer = body_end(v, body, length, s, limit);
    if (trailer > v->size || v->size - trailer < 6 + s->length)
        if (!v->at_end || trailer > v->size || v->size - trailer < 6)
            return limit == v->size ? END_BEHIND : END_WRONG;
    if (trailer < body + s->length || !separator_at(s, v->data, trailer - s->length, v->size) ||
        !checksum_at(v->data, trailer, v->size))
        return END_WRONG;
    *end = trailer + 6;
    *end += separator_at(s, v->data, *end, v->size) ? s->length : 0;
    return END_FOUND;
}

/* The end without BodyLength: behind the line's next CheckSum, in front of its next message, which
 * begins at `limit`, or the line's end; not more than FIX_LOG_MESSAGE_MAX bytes. *closed: one of
 * the first two was found. */
static size_t end_by_search(const struct view *v, size_t begin, size_t limit,
                            const struct fix_separator *s, int *closed)
{
    *closed = limit < v->line_end;
    for (size_t at = begin; at < limit;) {
        const uint8_t *found = memmem(v->data + at, limit - at, "10=", 3);
        if (!found)
            break;
        at = (size_t)(found - v->data);
        if (at >= begin + s->length && separator_at(s, v->data, at - s->length, limit) &&
            checksum_at(v->data, at, limit)) {
            *closed = 1;
            limit = at + 6;
            limit += separator_at(s, v->data, limit, v->line_end) ? s->length : 0;
            break;
        }
        at += 3;
    }
    return limit - begin > FIX_LOG_MESSAGE_MAX ? begin + FIX_LOG_MESSAGE_MAX : limit;
}

/* --- pieces ---------------------------------------------------------------------------------- */

/* The offset behind the separator in front of, or blank before, `at`: a token's first byte. */
static int token_begins(const struct view *v, size_t at, const struct fix_separator *s)
{
    return at == 0 || isspace(v->data[at - 1]) ||
           (at >= s->length && separator_at(s, v->data, at - s->length, v->line_end));
}

/* A line with 35= and 10= but no 8= had a message that lost its head. 1: *begin, *end, *separator.
 */
static int find_headless(const struct view *v, size_t *begin, size_t *end,
                         const struct fix_separator **separator)
{
    for (size_t from = 0; from < v->line_end;) {
        const uint8_t *found = memmem(v->data + from, v->line_end - from, "35=", 3);
        if (!found)
            return 0;
        size_t at = (size_t)(found - v->data);
        size_t value = at + 3;
        while (value < v->line_end && value - at < 8 && isalnum(v->data[value]))
            value++;
        const struct fix_separator *s = find_separator(v->data, value, v->line_end);
        if (s && token_begins(v, at, s)) {
            int closed;
            size_t last = end_by_search(v, at, v->line_end, s, &closed);
            if (!closed)
                return 0;
            while (at > 0 && !isspace(v->data[at - 1]))
                at--;
            *begin = at;
            *end = last;
            *separator = s;
            return 1;
        }
        from = at + 3;
    }
    return 0;
}

static uint32_t give_message(struct fix_log *log, const struct view *v, size_t begin, size_t end,
                             const struct fix_separator *s, int cut, struct fix_log_piece *piece)
{
    *piece = (struct fix_log_piece){
        .kind = FIX_LOG_MESSAGE, .begin = begin, .end = end, .next = end, .separator = s->text};
    if (fix_log_check(log, v->data + begin, end - begin, s, cut) != 0)
        return FIX_LOG_NO_MEMORY;
    return FIX_LOG_PIECE;
}

/* No message in the line (as far as it is there). */
static uint32_t give_text(struct fix_log *log, const struct view *v, struct fix_log_piece *piece)
{
    const struct fix_separator *s;
    size_t begin, end;
    int whole = v->has_newline || v->at_end;
    if (!whole && v->size < FIX_LOG_TEXT_MAX)
        return FIX_LOG_MORE;
    if (whole && find_headless(v, &begin, &end, &s))
        return give_message(log, v, begin, end, s, 0, piece);
    /* What is cut off a long line may be the beginning of a message: it stays for the next call. */
    size_t text_end = whole ? v->line_end : v->size - LOOK_AHEAD;
    *piece = (struct fix_log_piece){.kind = FIX_LOG_TEXT,
                                    .end = text_end,
                                    .next = text_end + (size_t)v->has_newline,
                                    .part = !whole};
    return FIX_LOG_PIECE;
}

static uint32_t next_piece(struct fix_log *log, const struct view *v, struct fix_log_piece *piece)
{
    const struct fix_separator *s, *other;
    size_t begin = find_beginning(v, log->beginning_free, &s), end = 0;
    int open = !v->has_newline && !v->at_end; /* the line may go on behind these bytes */
    /* What more bytes may still complete is looked at again. */
    size_t sure = open ? (v->line_end > LOOK_AHEAD ? v->line_end - LOOK_AHEAD : 0) : v->line_end;
    log->beginning_free = begin < sure ? begin : sure;
    if (begin == v->line_end)
        return give_text(log, v, piece);
    if (open && v->size - begin < LOOK_AHEAD)
        return FIX_LOG_MORE;
    enum end_result found = end_by_length(v, begin, s, &end);
    if (found == END_BEHIND && !v->at_end)
        return FIX_LOG_MORE;
    if (found == END_FOUND) {
        uint32_t result = give_message(log, v, begin, end, s, 0, piece);
        if (result != FIX_LOG_PIECE || end <= v->line_end || log->checked.reason == 0)
            return result;
        /* Over a newline, and not good: BodyLength hit a CheckSum by chance. */
    }
    int closed;
    end = end_by_search(v, begin, find_beginning(v, begin + 2, &other), s, &closed);
    /* What stands near the end of an open line may look different with more behind it. */
    if (open && (!closed || v->size - end < LOOK_AHEAD) && end - begin < FIX_LOG_MESSAGE_MAX)
        return FIX_LOG_MORE;
    int cut = !closed && v->at_end && !v->has_newline && end == v->size;
    return give_message(log, v, begin, end, s, cut, piece);
}

uint32_t fix_log_next(struct fix_log *log, const uint8_t *data, size_t size, int at_end,
                      struct fix_log_piece *piece)
{
    struct view v = {.data = data, .size = size, .line_end = size, .at_end = at_end};
    if (size == 0)
        return at_end ? FIX_LOG_END : FIX_LOG_MORE;
    const uint8_t *newline = memchr(data + log->newline_free, '\n', size - log->newline_free);
    if (newline) {
        v.line_end = (size_t)(newline - data);
        v.has_newline = 1;
    }
    log->newline_free = v.line_end;
    uint32_t result = next_piece(log, &v, piece);
    if (result == FIX_LOG_PIECE) {
        size_t used = piece->next;
        log->newline_free -= log->newline_free < used ? log->newline_free : used;
        log->beginning_free -= log->beginning_free < used ? log->beginning_free : used;
    }
    return result;
}

int fix_log_create(struct fix_log **log)
{
    *log = calloc(1, sizeof(**log));
    if (!*log)
        return TAUT_ENOMEM;
    (*log)->scan = taut_scan_select(TAUT_SCAN_AUTO);
    return 0;
}

void fix_log_destroy(struct fix_log *log)
{
    if (!log)
        return;
    free(log->checked.bytes);
    free(log->checked.fields);
    free(log);
}

const struct fix_log_checked *fix_log_message(const struct fix_log *log)
{
    return &log->checked;
}
