/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/encode.h - FIX messages, written once and in place.
 *
 * The body is written first, TAUT_ENCODE_HEADROOM bytes into the caller's buffer; then
 * "8=...|9=...|" goes backwards in front of it and the checksum behind it. No byte moves twice, so
 * the message's first byte lies at a varying place near the buffer's start.
 *
 * A template is a text with '|' for SOH and '$' for a value that changes: "35=8|34=$|52=$|37=$|".
 * It is compiled once into constant runs; a message is then run 0, value 0, run 1, value 1, ...
 * up to the last run.
 *
 * An encoder never writes outside its buffer, but bytes of it behind `position` may change at any
 * call: a message that does not fit sets `overflow`, and taut_encode_finish() returns TAUT_ENOSPC.
 * What is called after an overflow does nothing. No value is checked for SOH except by
 * taut_encode_text(): values from outside go through that one.
 *
 * Threads: one owner an encoder; templates are read-only after compilation and may be shared.
 * Blocking, allocation: never. Ownership: buffer and template belong to the caller.
 */
#ifndef TAUT_ENCODE_H
#define TAUT_ENCODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <taut/err.h>
#include <taut/number.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAUT_ENCODE_HEADROOM 48u
#define TAUT_ENCODE_TRAILER  7u
#define TAUT_TEMPLATE_BYTES  1024u
#define TAUT_TEMPLATE_VALUES 64u

struct taut_encoder {
    uint8_t *buffer;
    uint32_t capacity; /* bytes of buffer, up to 16 MiB */
    uint32_t position; /* where the next byte goes */
    uint32_t body;     /* where the body began: the headroom chosen at begin */
    int32_t overflow;  /* 0, or the code that finish will return */
};

/* The constant runs of one message type. Zero-initialised: empty. */
struct taut_template {
    uint32_t values;                            /* how many '$' */
    uint32_t run_end[TAUT_TEMPLATE_VALUES + 1]; /* run i is text[run_end[i-1] .. run_end[i]) */
    uint8_t text[TAUT_TEMPLATE_BYTES];
};

/* Compiles `text`. TAUT_EFORMAT (a field without tag or '|'), TAUT_ENOSPC (too long). */
TAUT_API int taut_template_compile(struct taut_template *t, const char *text, struct taut_err *err);

/* Starts a message in `capacity` bytes at `buffer`. */
static inline void taut_encode_begin(struct taut_encoder *e, uint8_t *buffer, uint32_t capacity)
{
    e->buffer = buffer;
    e->capacity = capacity;
    e->position = e->body = TAUT_ENCODE_HEADROOM;
    e->overflow = capacity < TAUT_ENCODE_HEADROOM + TAUT_ENCODE_TRAILER ? TAUT_ENOSPC : 0;
}

/*
 * The same with just the headroom that a header with a BodyLength of three digits takes, so that
 * messages of 100..999 body bytes follow each other without a gap in one outbox. Others are moved
 * by taut_encode_finish() as far as is needed.
 */
static inline void taut_encode_begin_tight(struct taut_encoder *e, uint8_t *buffer,
                                           uint32_t capacity, uint32_t begin_string_length)
{
    taut_encode_begin(e, buffer, capacity);
    e->position = e->body = 2 + begin_string_length + 1 + 2 + 3 + 1;
}

/* Reserves `length` bytes and returns where they go, or NULL and sets overflow. */
static inline uint8_t *taut_encode_reserve(struct taut_encoder *e, uint32_t length)
{
    if (e->overflow || length > e->capacity - TAUT_ENCODE_TRAILER - e->position) {
        if (!e->overflow)
            e->overflow = TAUT_ENOSPC;
        return NULL;
    }
    uint8_t *place = e->buffer + e->position;
    e->position += length;
    return place;
}

/* Appends bytes as they are. */
static inline void taut_encode_bytes(struct taut_encoder *e, const void *bytes, uint32_t length)
{
    uint8_t *place = taut_encode_reserve(e, length);
    if (place)
        memcpy(place, bytes, length);
}

#define TAUT_ENCODE_CHUNK 32u

/* Appends constant run `index` of a template, 0 .. values. */
static inline void taut_encode_run(struct taut_encoder *e, const struct taut_template *t,
                                   uint32_t index)
{
    uint32_t begin = index ? t->run_end[index - 1] : 0, length = t->run_end[index] - begin;
    /* Most runs are short: a copy of a constant size, where both sides have room for it. */
    if (length <= TAUT_ENCODE_CHUNK && begin <= TAUT_TEMPLATE_BYTES - TAUT_ENCODE_CHUNK &&
        !e->overflow && e->capacity - TAUT_ENCODE_TRAILER - e->position >= TAUT_ENCODE_CHUNK) {
        memcpy(e->buffer + e->position, t->text + begin, TAUT_ENCODE_CHUNK);
        e->position += length;
        return;
    }
    taut_encode_bytes(e, t->text + begin, length);
}

/* Append a bare value: the tag and the SOH are in a template's runs. */
TAUT_API void taut_encode_u64(struct taut_encoder *e, uint64_t value);
TAUT_API void taut_encode_i64(struct taut_encoder *e, int64_t value);
TAUT_API void taut_encode_decimal(struct taut_encoder *e, struct taut_decimal value);
TAUT_API void taut_encode_utc(struct taut_encoder *e, uint64_t utc_ns, uint32_t digits);

/* Append whole fields: "tag=value SOH". */
TAUT_API void taut_encode_field(struct taut_encoder *e, uint32_t tag, const void *value,
                                uint32_t length);
TAUT_API void taut_encode_field_u64(struct taut_encoder *e, uint32_t tag, uint64_t value);
TAUT_API void taut_encode_field_utc(struct taut_encoder *e, uint32_t tag, uint64_t utc_ns,
                                    uint32_t digits);

/* A whole field from an untrusted text: an SOH inside sets overflow to TAUT_EFORMAT; empty: nothing
 * is written. */
TAUT_API void taut_encode_text(struct taut_encoder *e, uint32_t tag, const char *text,
                               uint32_t length);

/*
 * Completes the message: header in front, checksum behind. `begin_string` is the value of tag 8,
 * at most 16 bytes. *message points into the buffer. Returns 0, TAUT_ENOSPC, or TAUT_EFORMAT.
 */
TAUT_API int taut_encode_finish(struct taut_encoder *e, const char *begin_string,
                                uint32_t begin_string_length, uint8_t **message, uint32_t *length);

/* Sum of `length` bytes modulo 256. */
TAUT_API uint8_t taut_checksum(const uint8_t *data, size_t length);

#ifdef __cplusplus
}
#endif
#endif
