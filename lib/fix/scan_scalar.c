/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scan, byte by byte. This one is the definition: the other variants give the same result for
 * every input, since they only finish messages that are plain (no data fields, no odd tags, nothing
 * wrong) and start over here for any other.
 *
 * The order of the checks decides which reason a message with several faults gets: header, trailer,
 * checksum, MsgType, then field by field.
 */
#include "scan_internal.h"

/* The tag in text[0 .. length), which is everything in front of the '='. Garbled: not -?digits. */
static bool parse_tag(const uint8_t *text, uint32_t length, uint32_t *tag)
{
    uint32_t sign = length > 0 && text[0] == '-';
    if (length == sign)
        return false;
    uint64_t value = 0;
    for (uint32_t i = sign; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (value <= UINT32_MAX)
            value = value * 10 + (uint64_t)(text[i] - '0');
    }
    bool plain = !sign && text[0] != '0' && value < TAUT_TAG_INVALID;
    *tag = plain ? (uint32_t)value : TAUT_TAG_INVALID;
    return true;
}

/* The SOH behind the data value that begins at `begin`, as the length field in front says; 0 where
 * that is no number, passes the body's last SOH, or no SOH is there. */
static uint32_t data_end(const struct taut_message *m, uint32_t begin)
{
    uint32_t at = m->begin[m->count - 1], end = m->end[m->count - 1];
    uint64_t value = 0;
    uint64_t room = m->length - TAUT__TRAILER - 1; /* the body's last SOH */
    if (at == end || begin > room)
        return 0;
    room -= begin;
    for (; at < end; at++) {
        if (m->data[at] < '0' || m->data[at] > '9')
            return 0;
        value = value * 10 + (uint64_t)(m->data[at] - '0');
        if (value > room) /* so the product above stays small, too */
            return 0;
    }
    return m->data[begin + value] == TAUT_SOH ? begin + (uint32_t)value : 0;
}

/* Indexes the field at `at` and returns a reason; *next gets the field behind it. */
static uint32_t scan_field(struct taut_message *m, uint32_t at, uint32_t partner, uint32_t *next)
{
    const uint8_t *data = m->data;
    uint32_t equals = at, tag;
    while (data[equals] != '=' && data[equals] != TAUT_SOH)
        equals++;
    if (data[equals] != '=' || !parse_tag(data + at, equals - at, &tag))
        return TAUT_GARBLED_TAG;
    uint32_t end = equals + 1;
    if (partner && tag == partner) {
        end = data_end(m, equals + 1);
        if (!end)
            return TAUT_GARBLED_DATA_LENGTH;
    }
    while (data[end] != TAUT_SOH)
        end++;
    m->tag[m->count] = tag;
    m->begin[m->count] = equals + 1;
    m->end[m->count] = end;
    m->count++;
    if (tag < 256 && !m->slot[tag] && m->count <= 255)
        m->slot[tag] = (uint8_t)m->count;
    *next = end + 1;
    return TAUT_GARBLED_NONE;
}

/* The checks in front of the fields. */
static uint32_t scan_envelope(struct taut_message *m, const uint8_t *data, uint32_t length)
{
    struct taut__header header;
    uint32_t reason = taut__header_careful(data, length, &header);
    if (reason)
        return reason;
    if ((uint64_t)header.body_begin + header.body_length + TAUT__TRAILER != length ||
        !taut__trailer_good(data, &header))
        return TAUT_GARBLED_TRAILER;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < length - TAUT__TRAILER; i++)
        sum += data[i];
    if ((sum & 0xff) != taut__trailer_value(data + length - TAUT__TRAILER))
        return TAUT_GARBLED_CHECKSUM;
    const uint8_t *type = data + header.body_begin;
    if (type[0] != '3' || type[1] != '5' || type[2] != '=' || type[3] == TAUT_SOH)
        return TAUT_GARBLED_MSG_TYPE;
    m->data = data;
    m->length = length;
    m->count = 0;
    m->body_begin = header.body_begin;
    m->begin_string_length = header.begin_end - 2;
    return TAUT_GARBLED_NONE;
}

uint32_t taut__scan_scalar(struct taut_message *message, const uint8_t *data, uint32_t length)
{
    uint32_t reason = scan_envelope(message, data, length);
    if (reason)
        return reason;
    memset(message->slot, 0, sizeof message->slot);
    uint32_t at = 0;
    while (at < length) {
        if (message->count == TAUT_FIELDS_MAX)
            return TAUT_GARBLED_FIELD_COUNT;
        uint32_t before = message->count ? message->tag[message->count - 1] : 0;
        uint32_t partner = taut__maybe_length_tag(before) ? taut_data_partner(before) : 0;
        reason = scan_field(message, at, partner, &at);
        if (reason)
            return reason;
    }
    return TAUT_GARBLED_NONE;
}
