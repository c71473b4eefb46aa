/* SPDX-License-Identifier: BSD-2-Clause */
#include "naive.h"

#include <stdio.h>
#include <string.h>

static int is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

/* The byte at `at`, or -1 behind the end. */
static int byte_at(const uint8_t *data, uint32_t length, uint32_t at)
{
    return at < length ? data[at] : -1;
}

/* 8= and 9=. *body gets where the body begins, *body_length what 9= says. */
static uint32_t naive_header(const uint8_t *data, uint32_t length, uint32_t *begin_string,
                             uint32_t *body, uint64_t *body_length)
{
    if (byte_at(data, length, 0) != '8' || byte_at(data, length, 1) != '=')
        return TAUT_GARBLED_NO_BEGIN;
    uint32_t at = 2;
    while (at < length && data[at] != 1 && data[at] != '=')
        at++;
    *begin_string = at - 2;
    if (at == length || data[at] == '=' || *begin_string == 0 || *begin_string > 16)
        return TAUT_GARBLED_BEGIN_STRING;
    if (byte_at(data, length, at + 1) != '9' || byte_at(data, length, at + 2) != '=')
        return TAUT_GARBLED_BODY_LENGTH;
    at += 3;
    uint32_t first = at;
    *body_length = 0;
    while (at < length && is_digit(data[at]) && at - first < 9)
        *body_length = *body_length * 10 + data[at++] - '0';
    if (at - first == 9)
        return data[first] == '0' ? TAUT_GARBLED_BODY_LENGTH : TAUT_GARBLED_TOO_BIG;
    if (at == first || byte_at(data, length, at) != 1)
        return TAUT_GARBLED_BODY_LENGTH;
    *body = at + 1;
    return 0;
}

static uint32_t naive_trailer(const uint8_t *data, uint32_t length, uint32_t body,
                              uint64_t body_length)
{
    if (body + body_length + 7 != length)
        return TAUT_GARBLED_TRAILER;
    const uint8_t *t = data + length - 8;
    if (t[0] != 1 || t[1] != '1' || t[2] != '0' || t[3] != '=' || !is_digit(t[4]) ||
        !is_digit(t[5]) || !is_digit(t[6]) || t[7] != 1)
        return TAUT_GARBLED_TRAILER;
    unsigned sum = 0;
    for (uint32_t i = 0; i + 7 < length; i++)
        sum = (sum + data[i]) % 256;
    unsigned said = (t[4] - '0') * 100u + (t[5] - '0') * 10u + (t[6] - '0');
    return sum == said ? 0 : TAUT_GARBLED_CHECKSUM;
}

/* data[from .. to) as a tag: 0 = no integer, UINT32_MAX = an integer, but no tag. */
static uint32_t naive_tag(const uint8_t *data, uint32_t from, uint32_t to)
{
    char text[32] = "";
    int minus = from < to && data[from] == '-';
    uint32_t digits = from + (uint32_t)minus;
    if (digits == to)
        return 0;
    for (uint32_t i = digits; i < to; i++)
        if (!is_digit(data[i]))
            return 0;
    if (minus || data[digits] == '0' || to - digits > 10)
        return UINT32_MAX;
    memcpy(text, data + digits, to - digits);
    unsigned long long value = 0;
    sscanf(text, "%llu", &value);
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* The length that the field in front announces, or -1. */
static long long naive_length(const uint8_t *data, struct naive_field field)
{
    long long value = 0;
    if (field.begin == field.end)
        return -1;
    for (uint32_t i = field.begin; i < field.end; i++) {
        if (!is_digit(data[i]))
            return -1;
        if (value < 1000000000000ll)
            value = value * 10 + data[i] - '0';
    }
    return value;
}

uint32_t naive_scan(struct naive_message *m, const uint8_t *data, uint32_t length)
{
    uint64_t body_length = 0;
    uint32_t reason =
        naive_header(data, length, &m->begin_string_length, &m->body_begin, &body_length);
    if (!reason)
        reason = naive_trailer(data, length, m->body_begin, body_length);
    if (reason)
        return reason;
    if (memcmp(data + m->body_begin, "35=", 3) != 0 || data[m->body_begin + 3] == 1)
        return TAUT_GARBLED_MSG_TYPE;
    m->count = 0;
    for (uint32_t at = 0; at < length;) {
        struct naive_field field;
        if (m->count == TAUT_FIELDS_MAX)
            return TAUT_GARBLED_FIELD_COUNT;
        uint32_t equals = at;
        while (equals < length && data[equals] != '=')
            equals++;
        for (uint32_t i = at; i < equals; i++)
            if (data[i] == 1)
                return TAUT_GARBLED_TAG;
        field.tag = naive_tag(data, at, equals);
        if (field.tag == 0)
            return TAUT_GARBLED_TAG;
        field.begin = field.end = equals + 1;
        struct naive_field *before = m->count ? &m->field[m->count - 1] : NULL;
        if (before && field.tag == taut_data_partner(before->tag)) {
            long long bytes = naive_length(data, *before);
            if (bytes < 0 || field.begin + bytes > length - 8 || data[field.begin + bytes] != 1)
                return TAUT_GARBLED_DATA_LENGTH;
            field.end = field.begin + (uint32_t)bytes;
        }
        while (data[field.end] != 1)
            field.end++;
        m->field[m->count++] = field;
        at = field.end + 1;
    }
    return 0;
}

static int differs(const char *name, const char *what, uint32_t index, uint64_t got, uint64_t want,
                   const uint8_t *data, uint32_t length)
{
    printf("%s: %s of field %u is %llu instead of %llu in ", name, what, index,
           (unsigned long long)got, (unsigned long long)want);
    for (uint32_t i = 0; i < length && i < 600; i++) {
        if (data[i] > 31 && data[i] < 127)
            putchar(data[i]);
        else if (data[i] == 1)
            putchar('|');
        else
            printf("\\x%02x", data[i]);
    }
    putchar('\n');
    return 0;
}

/* What the naive message says about slot[tag]. */
static uint32_t naive_slot(const struct naive_message *m, uint32_t tag)
{
    for (uint32_t i = 0; i < m->count && i < 255; i++)
        if (m->field[i].tag == tag)
            return i + 1;
    return 0;
}

int naive_agrees(taut_scan_function *scan, const char *name, struct taut_message *m,
                 const uint8_t *data, uint32_t length)
{
    static struct naive_message naive;
    uint32_t want = naive_scan(&naive, data, length);
    memset(m, 0xee, sizeof *m);
    uint32_t got = scan(m, data, length);
    if (got != want)
        return differs(name, "reason", 0, got, want, data, length);
    if (want && want != TAUT_GARBLED_DATA_LENGTH)
        return 1;
    if (m->data != data || m->length != length)
        return differs(name, "length", 0, m->length, length, data, length);
    if (m->count != naive.count)
        return differs(name, "count", 0, m->count, naive.count, data, length);
    if (m->body_begin != naive.body_begin)
        return differs(name, "body_begin", 0, m->body_begin, naive.body_begin, data, length);
    if (m->begin_string_length != naive.begin_string_length)
        return differs(name, "begin_string_length", 0, m->begin_string_length,
                       naive.begin_string_length, data, length);
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->tag[i] != naive.field[i].tag)
            return differs(name, "tag", i, m->tag[i], naive.field[i].tag, data, length);
        if (m->begin[i] != naive.field[i].begin)
            return differs(name, "begin", i, m->begin[i], naive.field[i].begin, data, length);
        if (m->end[i] != naive.field[i].end)
            return differs(name, "end", i, m->end[i], naive.field[i].end, data, length);
    }
    for (uint32_t tag = 0; tag < 256; tag++)
        if (m->slot[tag] != naive_slot(&naive, tag))
            return differs(name, "slot", tag, m->slot[tag], naive_slot(&naive, tag), data, length);
    return 1;
}
