/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages written in place: templates, fields, and the header and checksum that finish them. Every
 * write goes through taut_encode_reserve(), which keeps it inside the caller's buffer.
 */
#include <taut/encode.h>

#include "number_internal.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Header in front of the body at most: "8=" 16 SOH "9=" 8 SOH. */
_Static_assert(2 + TAUT__BEGIN_MAX + 1 + 2 + TAUT__LENGTH_MAX + 1 <= TAUT_ENCODE_HEADROOM,
               "the headroom takes the longest header");

/* One "tag=value|" at `text`: bytes up to and including its '|', or 0 where it has not that form.
 */
static size_t field_text(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[0] == '0' || text[digits] != '=')
        return 0;
    size_t value = strcspn(text + digits + 1, "|\001");
    return text[digits + 1 + value] == '|' ? digits + 1 + value + 1 : 0;
}

static int template_error(struct taut_template *t, struct taut_err *err, int code, const char *what,
                          const char *text)
{
    t->values = 0;
    memset(t->run_end, 0, sizeof t->run_end);
    return taut_err_set(err, code, "template: %s at \"%.40s\"", what, text);
}

int taut_template_compile(struct taut_template *t, const char *text, struct taut_err *err)
{
    uint32_t bytes = 0, values = 0;
    while (*text) {
        size_t length = field_text(text);
        if (length == 0)
            return template_error(t, err, TAUT_EFORMAT, "no field of the form tag=value|", text);
        for (size_t i = 0; i < length; i++) {
            if (text[i] == '$' && values == TAUT_TEMPLATE_VALUES)
                return template_error(t, err, TAUT_ENOSPC, "too many values", text);
            if (text[i] == '$')
                t->run_end[values++] = bytes;
            else if (bytes == TAUT_TEMPLATE_BYTES)
                return template_error(t, err, TAUT_ENOSPC, "too many bytes", text);
            else
                t->text[bytes++] = text[i] == '|' ? TAUT_SOH : (uint8_t)text[i];
        }
        text += length;
    }
    t->run_end[values] = bytes;
    t->values = values;
    return 0;
}

/* Room for `most` bytes at the encoder's position? Then a formatter may write there at once. */
static bool has_room(const struct taut_encoder *e, uint32_t most)
{
    return TAUT__LIKELY(!e->overflow && e->capacity - TAUT_ENCODE_TRAILER - e->position >= most);
}

void taut_encode_u64(struct taut_encoder *e, uint64_t value)
{
    if (has_room(e, TAUT_INTEGER_TEXT_MAX)) {
        e->position += (uint32_t)taut_format_u64(e->buffer + e->position, value);
        return;
    }
    uint8_t text[TAUT_INTEGER_TEXT_MAX];
    taut_encode_bytes(e, text, (uint32_t)taut_format_u64(text, value));
}

void taut_encode_i64(struct taut_encoder *e, int64_t value)
{
    uint8_t text[TAUT_INTEGER_TEXT_MAX];
    taut_encode_bytes(e, text, (uint32_t)taut_format_i64(text, value));
}

void taut_encode_decimal(struct taut_encoder *e, struct taut_decimal value)
{
    if (has_room(e, TAUT_DECIMAL_TEXT_MAX)) {
        e->position += (uint32_t)taut_format_decimal(e->buffer + e->position, value);
        return;
    }
    uint8_t text[TAUT_DECIMAL_TEXT_MAX];
    taut_encode_bytes(e, text, (uint32_t)taut_format_decimal(text, value));
}

void taut_encode_utc(struct taut_encoder *e, uint64_t utc_ns, uint32_t digits)
{
    if (has_room(e, TAUT_UTC_TEXT_MAX)) {
        e->position += (uint32_t)taut_format_utc(e->buffer + e->position, utc_ns, digits);
        return;
    }
    uint8_t text[TAUT_UTC_TEXT_MAX];
    taut_encode_bytes(e, text, (uint32_t)taut_format_utc(text, utc_ns, digits));
}

/* "tag=" at the encoder's position, with room for the value and the SOH behind it. */
static uint8_t *begin_field(struct taut_encoder *e, uint32_t tag, uint32_t value_length)
{
    uint32_t digits = taut__count_digits(tag);
    if (value_length > TAUT__MESSAGE_MAX) { /* keeps the sum below from wrapping */
        if (!e->overflow)
            e->overflow = TAUT_ENOSPC;
        return NULL;
    }
    uint8_t *place = taut_encode_reserve(e, digits + 1 + value_length + 1);
    if (!place)
        return NULL;
    taut__write_digits(place, tag, digits);
    place[digits] = '=';
    place[digits + 1 + value_length] = TAUT_SOH;
    return place + digits + 1;
}

void taut_encode_field(struct taut_encoder *e, uint32_t tag, const void *value, uint32_t length)
{
    uint8_t *place = begin_field(e, tag, length);
    if (place && length)
        memcpy(place, value, length);
}

void taut_encode_field_u64(struct taut_encoder *e, uint32_t tag, uint64_t value)
{
    uint32_t digits = taut__count_digits(value);
    uint8_t *place = begin_field(e, tag, digits);
    if (place)
        taut__write_digits(place, value, digits);
}

void taut_encode_field_utc(struct taut_encoder *e, uint32_t tag, uint64_t utc_ns, uint32_t digits)
{
    uint8_t text[TAUT_UTC_TEXT_MAX];
    taut_encode_field(e, tag, text, (uint32_t)taut_format_utc(text, utc_ns, digits));
}

void taut_encode_text(struct taut_encoder *e, uint32_t tag, const char *text, uint32_t length)
{
    if (length == 0)
        return;
    if (memchr(text, TAUT_SOH, length)) {
        if (!e->overflow)
            e->overflow = TAUT_EFORMAT;
        return;
    }
    taut_encode_field(e, tag, text, length);
}

/* Up to 16 bytes without a call. */
static inline void copy_short(uint8_t *to, const uint8_t *from, uint32_t length)
{
    if (length >= 8) {
        uint64_t last = taut__load64(from + length - 8);
        taut__store64(to, taut__load64(from));
        taut__store64(to + length - 8, last);
    } else if (length >= 4) {
        uint32_t first = taut__load32(from), last = taut__load32(from + length - 4);
        memcpy(to, &first, 4);
        memcpy(to + length - 4, &last, 4);
    } else {
        for (uint32_t i = 0; i < length; i++)
            to[i] = from[i];
    }
}

int taut_encode_finish(struct taut_encoder *e, const char *begin_string,
                       uint32_t begin_string_length, uint8_t **message, uint32_t *length)
{
    if (e->overflow)
        return e->overflow;
    uint32_t body_length = e->position - e->body;
    if (begin_string_length == 0 || begin_string_length > TAUT__BEGIN_MAX)
        return TAUT_EFORMAT;
    uint32_t digits = taut__count_digits(body_length);
    uint32_t header = 2 + begin_string_length + 1 + 2 + digits + 1;
    if (header > e->body) { /* begun too tight: the body makes room */
        uint32_t by = header - e->body;
        if (by > e->capacity - TAUT_ENCODE_TRAILER - e->position)
            return TAUT_ENOSPC;
        memmove(e->buffer + header, e->buffer + e->body, body_length);
        e->position += by;
        e->body = header;
    }
    uint8_t *begin = e->buffer + e->body - header, *at = begin;
    *at++ = '8';
    *at++ = '=';
    copy_short(at, (const uint8_t *)begin_string, begin_string_length);
    at += begin_string_length;
    *at++ = TAUT_SOH;
    *at++ = '9';
    *at++ = '=';
    taut__write_digits(at, body_length, digits);
    at[digits] = TAUT_SOH;

    at = e->buffer + e->position;
    uint8_t sum = taut_checksum(begin, (size_t)(at - begin));
    memcpy(at, "10=", 3);
    taut__write_digits(at + 3, sum, 3);
    at[6] = TAUT_SOH;
    *message = begin;
    *length = header + body_length + TAUT_ENCODE_TRAILER;
    return 0;
}

/* The sum of a word's bytes, in the top 16 bits of a product. */
static uint32_t sum_bytes(uint64_t word)
{
    word = (word & 0x00ff00ff00ff00ffull) + ((word >> 8) & 0x00ff00ff00ff00ffull);
    return (uint32_t)((word * 0x0001000100010001ull) >> 48);
}

uint8_t taut_checksum(const uint8_t *data, size_t length)
{
    uint32_t sum = 0;
    size_t at = 0;
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    __m128i sums = zero, more = zero;
    for (; length - at >= 32; at += 32) {
        const __m128i *bytes = (const __m128i *)(const void *)(data + at);
        sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_loadu_si128(bytes), zero));
        more = _mm_add_epi64(more, _mm_sad_epu8(_mm_loadu_si128(bytes + 1), zero));
    }
    sums = _mm_add_epi64(sums, more);
    sum = (uint32_t)_mm_cvtsi128_si32(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
#endif
    for (; length - at >= 8; at += 8)
        sum += sum_bytes(taut__load64(data + at));
    if (at < length && length >= 8) { /* the last word again, without what was counted */
        uint32_t counted = 8 - (uint32_t)(length - at);
        sum += sum_bytes(taut__load64(data + length - 8) >> (8 * counted));
    } else {
        for (; at < length; at++)
            sum += data[at];
    }
    return (uint8_t)sum;
}
