/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/fix_log_check.c - one message of a log as it was on the wire, its verdict and its fields.
 *
 * Promises: the verdict is that of the scanner which the gateway uses, so that a log never shows a
 * message as good which a session would drop; a garbled message still shows all fields that can be
 * told apart.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/fix_log_internal.h"

enum reading {
    READ_PLAIN = 0, /* every separator is SOH */
    READ_DATA = 1,  /* except within data fields, by their length */
    READ_MERGE = 2  /* and in front of what can't be a field */
};

static int reserve(struct fix_log *log, size_t bytes)
{
    size_t wanted = bytes + 1 + TAUT_SCAN_PADDING;
    if (wanted <= log->bytes_capacity)
        return 0;
    wanted += wanted / 2;
    uint8_t *grown = realloc(log->checked.bytes, wanted);
    if (!grown)
        return TAUT_ENOMEM;
    log->checked.bytes = grown;
    log->bytes_capacity = (uint32_t)wanted;
    return 0;
}

/* "123=": its value, *behind gets the offset behind '='; 0 = no tag there. */
static uint32_t read_tag(const uint8_t *data, size_t at, size_t size, size_t *behind)
{
    uint64_t tag = 0;
    size_t begin = at;
    for (; at < size && isdigit(data[at]) && at - begin < 9; at++)
        tag = tag * 10 + (uint64_t)(data[at] - '0');
    if (at == begin || at >= size || data[at] != '=')
        return 0;
    *behind = at + 1;
    return (uint32_t)tag;
}

/* A length field's number, or UINT64_MAX. */
static uint64_t read_length(const uint8_t *data, size_t at, size_t end)
{
    uint64_t length = 0;
    if (at == end || end - at > 8)
        return UINT64_MAX;
    for (; at < end; at++) {
        if (!isdigit(data[at]))
            return UINT64_MAX;
        length = length * 10 + (uint64_t)(data[at] - '0');
    }
    return length;
}

/* Where the token at `at` ends: at its separator or at `size`. */
static size_t token_end(const uint8_t *data, size_t at, size_t size, const struct fix_separator *s)
{
    for (;;) {
        const uint8_t *found = memchr(data + at, s->text[0], size - at);
        if (!found)
            return size;
        at = (size_t)(found - data);
        if (separator_at(s, data, at, size))
            return at;
        at++;
    }
}

/* A length field that the next token may belong to. */
struct pending {
    uint32_t partner; /* 0 = none */
    uint64_t length;
};

static struct pending pending_of(const uint8_t *data, size_t at, size_t end)
{
    size_t value = 0;
    uint32_t tag = read_tag(data, at, end, &value);
    struct pending next = {0, 0};
    if (tag && taut_data_partner(tag)) {
        next.partner = taut_data_partner(tag);
        next.length = read_length(data, value, end);
    }
    return next;
}

/* The end of the token at `at`, over separators in it as far as `reading` and lengths tell. */
static size_t whole_token_end(const uint8_t *data, size_t at, size_t size,
                              const struct fix_separator *s, uint32_t reading,
                              struct pending pending)
{
    size_t behind = 0;
    uint32_t tag = read_tag(data, at, size, &behind);
    if ((reading & READ_DATA) && tag && tag == pending.partner && pending.length <= size - behind) {
        size_t end = behind + (size_t)pending.length;
        if (end == size || separator_at(s, data, end, size))
            return end;
    }
    size_t end = token_end(data, at, size, s);
    while ((reading & READ_MERGE) && end < size && end + s->length < size &&
           !read_tag(data, end + s->length, size, &behind))
        end = token_end(data, end + s->length, size, s);
    return end;
}

/* Writes the message with SOH as separator; always ended by one. */
static void to_wire(struct fix_log *log, const uint8_t *data, size_t size,
                    const struct fix_separator *s, uint32_t reading)
{
    uint8_t *to = log->checked.bytes;
    struct pending pending = {0, 0};
    for (size_t at = 0; at < size;) {
        size_t end = reading == READ_PLAIN ? token_end(data, at, size, s)
                                           : whole_token_end(data, at, size, s, reading, pending);
        memcpy(to, data + at, end - at);
        to += end - at;
        *to++ = TAUT_SOH;
        pending = pending_of(data, at, end);
        at = end == size ? size : end + s->length;
    }
    log->checked.length = (uint32_t)(to - log->checked.bytes);
    memset(to, 0, TAUT_SCAN_PADDING);
}

/* --- fields ---------------------------------------------------------------------------------- */

static int add_field(struct fix_log *log, struct fix_log_field field)
{
    struct fix_log_checked *c = &log->checked;
    if (c->field_count == log->fields_capacity) {
        uint32_t capacity = log->fields_capacity ? log->fields_capacity * 2 : 64;
        struct fix_log_field *grown = realloc(c->fields, capacity * sizeof(*grown));
        if (!grown)
            return TAUT_ENOMEM;
        c->fields = grown;
        log->fields_capacity = capacity;
    }
    c->fields[c->field_count++] = field;
    return 0;
}

/* Good and garbled messages alike: one walk, the scanner's rule for data fields where they fit. */
static int find_fields(struct fix_log *log)
{
    static const struct fix_separator soh = {"\001", 1};
    struct fix_log_checked *c = &log->checked;
    struct pending pending = {0, 0};
    c->field_count = 0;
    c->type = NULL;
    for (size_t at = 0; at < c->length;) {
        size_t value = at;
        uint32_t tag = read_tag(c->bytes, at, c->length, &value);
        /* Up to the last byte, which is a SOH and no part of any value. */
        size_t end = whole_token_end(c->bytes, at, c->length - 1, &soh, READ_DATA, pending);
        struct fix_log_field field = {.tag = tag ? tag : TAUT_TAG_INVALID,
                                      .token = (uint32_t)at,
                                      .begin = (uint32_t)(tag ? value : at),
                                      .end = (uint32_t)end};
        if (add_field(log, field) != 0)
            return TAUT_ENOMEM;
        if (tag == 35 && !c->type) {
            c->type = c->bytes + value;
            c->type_length = (uint32_t)(end - value);
        }
        pending = pending_of(c->bytes, at, end);
        at = end + 1;
    }
    return 0;
}

/* --- details --------------------------------------------------------------------------------- */

static const struct fix_log_field *last_field(const struct fix_log_checked *c)
{
    return c->field_count ? &c->fields[c->field_count - 1] : NULL;
}

static void say_length(struct fix_log_checked *c)
{
    uint64_t said = c->field_count > 1 && c->fields[1].tag == 9
                        ? read_length(c->bytes, c->fields[1].begin, c->fields[1].end)
                        : UINT64_MAX;
    const struct fix_log_field *last = last_field(c);
    uint32_t body = c->field_count > 1 ? c->fields[1].end + 1 : 0;
    int has_checksum = last && last->tag == 10;
    uint32_t real = (has_checksum ? last->token : c->length) - body;
    if (said == UINT64_MAX)
        snprintf(c->detail, sizeof(c->detail), "%s", has_checksum ? "" : "there is no CheckSum");
    else if (has_checksum && said != real)
        snprintf(c->detail, sizeof(c->detail), "BodyLength says %llu, the body has %u bytes",
                 (unsigned long long)said, real);
    else if (has_checksum)
        snprintf(c->detail, sizeof(c->detail), "CheckSum is not three digits");
    else
        snprintf(c->detail, sizeof(c->detail),
                 "BodyLength says %llu, there are %u bytes and no CheckSum",
                 (unsigned long long)said, real);
}

static void say_checksum(struct fix_log_checked *c)
{
    const struct fix_log_field *last = last_field(c);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < last->token; i++)
        sum += c->bytes[i];
    snprintf(c->detail, sizeof(c->detail), "CheckSum says %.*s, the bytes add up to %03u",
             (int)(last->end - last->begin), (const char *)c->bytes + last->begin, sum & 0xff);
}

/* Tells which field, never its bytes: they may be the rest of a secret. */
static void say_tag(struct fix_log_checked *c)
{
    for (uint32_t i = 0; i < c->field_count; i++) {
        const struct fix_log_field *field = &c->fields[i];
        if (field->tag != TAUT_TAG_INVALID)
            continue;
        int equals = memchr(c->bytes + field->token, '=', field->end - field->token) != NULL;
        snprintf(c->detail, sizeof(c->detail), equals ? "field %u" : "field %u has no '='", i + 1);
        return;
    }
}

static void say_data_length(struct fix_log_checked *c)
{
    for (uint32_t i = 0; i + 1 < c->field_count; i++) {
        const struct fix_log_field *length = &c->fields[i], *data = length + 1;
        uint64_t said = read_length(c->bytes, length->begin, length->end);
        if (length->tag == TAUT_TAG_INVALID || taut_data_partner(length->tag) != data->tag ||
            said == data->end - data->begin)
            continue;
        if (said == UINT64_MAX)
            snprintf(c->detail, sizeof(c->detail), "%u is no number", length->tag);
        else
            snprintf(c->detail, sizeof(c->detail), "%u says %llu, %u has %u bytes up to its SOH",
                     length->tag, (unsigned long long)said, data->tag, data->end - data->begin);
        return;
    }
}

/* The field that stands where another one should be. */
static void say_which(struct fix_log_checked *c, uint32_t index)
{
    if (c->field_count <= index)
        snprintf(c->detail, sizeof(c->detail), "there is none");
    else if (c->fields[index].tag != TAUT_TAG_INVALID)
        snprintf(c->detail, sizeof(c->detail), "it is %u=", c->fields[index].tag);
}

static void say_why(struct fix_log_checked *c)
{
    c->detail[0] = '\0';
    switch (c->reason) {
    case TAUT_GARBLED_BODY_LENGTH:
        say_which(c, 1);
        break;
    case TAUT_GARBLED_MSG_TYPE:
        say_which(c, 2);
        break;
    case TAUT_GARBLED_TRAILER:
        say_length(c);
        break;
    case TAUT_GARBLED_CHECKSUM:
        say_checksum(c);
        break;
    case TAUT_GARBLED_TAG:
        say_tag(c);
        break;
    case TAUT_GARBLED_DATA_LENGTH:
        say_data_length(c);
        break;
    case TAUT_GARBLED_FIELD_COUNT:
        snprintf(c->detail, sizeof(c->detail), "%u, the limit is %u", c->field_count,
                 TAUT_FIELDS_MAX);
        break;
    default:
        break;
    }
}

int fix_log_check(struct fix_log *log, const uint8_t *data, size_t size,
                  const struct fix_separator *separator, int cut)
{
    static const uint32_t readings[] = {READ_DATA, READ_PLAIN, READ_DATA | READ_MERGE};
    struct fix_log_checked *c = &log->checked;
    int plain = separator->text[0] == TAUT_SOH;
    if (reserve(log, size) != 0)
        return TAUT_ENOMEM;
    /* Which of its separators are SOH only the CheckSum can tell. */
    for (uint32_t i = 0; i < (plain ? 1 : 3); i++) {
        to_wire(log, data, size, separator, plain ? READ_PLAIN : readings[i]);
        c->reason = log->scan(&log->message, c->bytes, c->length);
        if (c->reason == TAUT_GARBLED_NONE)
            break;
    }
    if (c->reason != TAUT_GARBLED_NONE && !plain) {
        to_wire(log, data, size, separator, READ_DATA);
        c->reason = log->scan(&log->message, c->bytes, c->length);
    }
    c->cut = cut != 0;
    if (find_fields(log) != 0)
        return TAUT_ENOMEM;
    say_why(c);
    return 0;
}
