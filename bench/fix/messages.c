/* SPDX-License-Identifier: BSD-2-Clause */
#include "messages.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/encode.h>
#include <taut/scan.h>

#define LARGEST 1024u

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench: %s\n", what);
    abort();
}

/* "tag=" and between least and most letters or digits. */
static void field(struct taut_encoder *e, uint64_t *state, uint32_t tag, const char *alphabet,
                  uint32_t least, uint32_t most)
{
    uint8_t value[64];
    uint32_t length = least + (uint32_t)(next_random(state) % (most - least + 1));
    for (uint32_t i = 0; i < length; i++)
        value[i] = (uint8_t)alphabet[next_random(state) % strlen(alphabet)];
    taut_encode_field(e, tag, value, length);
}

static void header(struct taut_encoder *e, uint64_t *state, const char *type)
{
    taut_encode_field(e, 35, type, (uint32_t)strlen(type));
    taut_encode_field_u64(e, 34, next_random(state) % 10000000);
    field(e, state, 49, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 3, 6);
    taut_encode_field_utc(e, 52, 1700000000000000000u + next_random(state) % 100000000000000u,
                          next_random(state) % 2 ? 3 : 6);
    field(e, state, 56, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 3, 6);
}

#define DIGITS  "0123456789"
#define LETTERS "ABCDEFGHJKLMNPQRSTUVWXYZ"

/* 24 fields behind 8 and 9 with 10; the text at the end fills up to the wanted length. */
static uint32_t report(uint8_t *buffer, uint64_t *state, uint8_t **message)
{
    struct taut_encoder e;
    taut_encode_begin(&e, buffer, LARGEST);
    header(&e, state, "8");
    field(&e, state, 37, DIGITS, 6, 10);
    field(&e, state, 11, LETTERS DIGITS, 6, 10);
    field(&e, state, 17, DIGITS, 5, 9);
    field(&e, state, 150, "0124F", 1, 1);
    field(&e, state, 39, "0124", 1, 1);
    field(&e, state, 1, LETTERS, 4, 8);
    field(&e, state, 55, LETTERS, 2, 6);
    field(&e, state, 54, "12", 1, 1);
    field(&e, state, 38, "123456789", 2, 5);
    field(&e, state, 40, "12", 1, 1);
    field(&e, state, 44, "123456789", 3, 6);
    field(&e, state, 59, "0136", 1, 1);
    field(&e, state, 31, "123456789", 3, 6);
    field(&e, state, 32, "123456789", 2, 4);
    field(&e, state, 151, "123456789", 2, 5);
    field(&e, state, 14, "123456789", 2, 5);
    field(&e, state, 6, "123456789", 3, 6);
    /* "8=FIX.4.4|9=229|", "58=", SOH and "10=ddd|" come to it. */
    uint32_t used = e.position - e.body + 16 + 4 + TAUT_ENCODE_TRAILER;
    check(used < REPORT_BYTES && REPORT_BYTES - used < 64, "a report's text has no room");
    field(&e, state, 58, LETTERS, REPORT_BYTES - used, REPORT_BYTES - used);
    uint32_t length;
    check(taut_encode_finish(&e, "FIX.4.4", 7, message, &length) == 0, "report");
    return length;
}

static uint32_t order(uint8_t *buffer, uint64_t *state, uint8_t **message)
{
    struct taut_encoder e;
    taut_encode_begin(&e, buffer, LARGEST);
    header(&e, state, "D");
    field(&e, state, 11, LETTERS DIGITS, 6, 12);
    field(&e, state, 55, LETTERS, 2, 6);
    field(&e, state, 54, "12", 1, 1);
    taut_encode_field_utc(&e, 60, 1700000000000000000u + next_random(state) % 100000000000000u, 3);
    field(&e, state, 38, "123456789", 2, 6);
    field(&e, state, 40, "12", 1, 1);
    if (next_random(state) % 4)
        field(&e, state, 44, "123456789", 3, 7);
    if (next_random(state) % 2) {
        taut_encode_field_u64(&e, 453, 2);
        for (int i = 0; i < 2; i++) {
            field(&e, state, 448, LETTERS, 3, 10);
            field(&e, state, 447, "D", 1, 1);
            field(&e, state, 452, DIGITS, 1, 2);
        }
    }
    uint32_t length;
    check(taut_encode_finish(&e, "FIX.4.4", 7, message, &length) == 0, "order");
    return length;
}

static uint32_t small(uint8_t *buffer, uint64_t *state, uint8_t **message)
{
    struct taut_encoder e;
    bool heartbeat = next_random(state) % 2;
    taut_encode_begin(&e, buffer, LARGEST);
    header(&e, state, heartbeat ? "0" : "F");
    if (!heartbeat) {
        field(&e, state, 41, LETTERS DIGITS, 6, 12);
        field(&e, state, 11, LETTERS DIGITS, 6, 12);
        field(&e, state, 55, LETTERS, 2, 6);
        field(&e, state, 54, "12", 1, 1);
    }
    uint32_t length;
    check(taut_encode_finish(&e, "FIX.4.4", 7, message, &length) == 0, "small message");
    return length;
}

static struct messages generate(uint32_t count, bool mixed)
{
    struct messages m = {.count = count};
    m.bytes = calloc((size_t)count * LARGEST + TAUT_SCAN_PADDING, 1);
    m.offset = calloc(count, sizeof *m.offset);
    m.length = calloc(count, sizeof *m.length);
    check(m.bytes && m.offset && m.length, "out of memory");
    uint64_t state = 20260101, at = 0;
    uint8_t buffer[LARGEST], *message;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t kind = mixed ? next_random(&state) % 8 : 0;
        uint32_t length = kind < 3   ? report(buffer, &state, &message)
                          : kind < 6 ? order(buffer, &state, &message)
                                     : small(buffer, &state, &message);
        memcpy(m.bytes + at, message, length);
        m.offset[i] = (uint32_t)at;
        m.length[i] = length;
        for (uint32_t b = 0; b < length; b++)
            m.total_fields += message[b] == TAUT_SOH;
        m.total_bytes += length;
        at += length;
    }
    if (!mixed) {
        check(m.total_bytes == (uint64_t)count * REPORT_BYTES, "reports have not 252 bytes");
        check(m.total_fields == (uint64_t)count * REPORT_FIELDS, "reports have not 26 fields");
    }
    return m;
}

struct messages messages_reports(uint32_t count)
{
    return generate(count, false);
}

struct messages messages_mixed(uint32_t count)
{
    return generate(count, true);
}

void messages_free(struct messages *m)
{
    free(m->bytes);
    free(m->offset);
    free(m->length);
}
