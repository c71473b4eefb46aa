/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix/session_send.c - headers, timestamps, and the messages that the session itself sends.
 *
 * A header is two constant runs, made once, between what changes: MsgType, MsgSeqNum and
 * SendingTime. The text of SendingTime is kept and only its fraction rewritten within one second.
 * Field order is 35, 34, (43), 49, 52, 56, (122), and bodies go up by tag.
 */
#include "fix/session_internal.h"

#include <string.h>

void taut__session_header_init(struct taut_session *s)
{
    uint8_t *p = s->header_mid;
    *p++ = TAUT_SOH;
    memcpy(p, "49=", 3);
    memcpy(p + 3, s->sender, s->sender_length);
    p += 3 + s->sender_length;
    *p++ = TAUT_SOH;
    memcpy(p, "52=", 3);
    s->header_mid_length = (uint32_t)(p + 3 - s->header_mid);

    p = s->header_tail;
    *p++ = TAUT_SOH;
    memcpy(p, "56=", 3);
    memcpy(p + 3, s->target, s->target_length);
    p += 3 + s->target_length;
    *p++ = TAUT_SOH;
    s->header_tail_length = (uint32_t)(p - s->header_tail);

    s->send_second = UINT64_MAX;
    s->send_time_bytes = 18 + s->time_digits;
}

/* Makes send_time show `utc_ns`. */
static void refresh_time(struct taut_session *s, uint64_t utc_ns)
{
    uint64_t fraction = utc_ns - s->send_second * TAUT_NS_PER_S;
    if (s->send_second == UINT64_MAX || fraction >= TAUT_NS_PER_S) {
        s->send_second = utc_ns / TAUT_NS_PER_S;
        s->send_fraction = UINT32_MAX; /* not known: the next one is written */
        (void)taut_format_utc(s->send_time, utc_ns, s->time_digits);
        return;
    }
    uint32_t value = (uint32_t)fraction;
    if (s->time_digits == 3)
        value /= 1000000;
    else if (s->time_digits == 6)
        value /= 1000;
    if (value == s->send_fraction)
        return;
    s->send_fraction = value;
    for (uint32_t i = s->send_time_bytes; i > 18; i--) {
        s->send_time[i - 1] = (uint8_t)('0' + value % 10);
        value /= 10;
    }
}

static uint8_t *put(uint8_t *p, const void *bytes, uint32_t length)
{
    memcpy(p, bytes, length);
    return p + length;
}

int taut__session_header(struct taut_session *s, struct taut_encoder *e, uint64_t utc_ns,
                         const void *type, uint32_t type_length, uint64_t seq,
                         const uint8_t *orig_time, uint32_t orig_length)
{
    TAUT_CHECK(type_length <= TAUT__TYPE_MAX && orig_length <= 30);
    refresh_time(s, utc_ns);
    uint32_t start = e->position;
    uint8_t *first = taut_encode_reserve(e, TAUT__HEADER_MAX);
    if (!first)
        return e->overflow;
    uint8_t *p = put(first, "35=", 3);
    p = put(p, type, type_length);
    p = put(p, "\00134=", 4);
    p += taut_format_u64(p, seq);
    if (orig_time)
        p = put(p, "\00143=Y", 5);
    p = put(p, s->header_mid, s->header_mid_length);
    p = put(p, s->send_time, s->send_time_bytes);
    p = put(p, s->header_tail, s->header_tail_length);
    if (orig_time) {
        p = put(p, "122=", 4);
        p = put(p, orig_time, orig_length);
        *p++ = TAUT_SOH;
    }
    e->position = start + (uint32_t)(p - first);
    return 0;
}

void taut__session_place(const struct taut_session *s, struct taut_outbox *out,
                         struct taut_encoder *e)
{
    TAUT_CHECK(out->length <= out->capacity);
    taut_encode_begin_tight(e, out->data + out->length, out->capacity - out->length,
                            s->begin_string_length);
}

int taut__session_complete(struct taut_session *s, struct taut_outbox *out, struct taut_encoder *e,
                           uint8_t **message, uint32_t *length)
{
    int code = taut_encode_finish(e, s->begin_string, s->begin_string_length, message, length);
    if (code)
        return code;
    /* The outbox has no gaps: whoever sends it sends all of it. */
    uint8_t *place = out->data + out->length;
    if (*message != place) {
        memmove(place, *message, *length);
        *message = place;
    }
    TAUT_CHECK(*length <= out->capacity - out->length);
    return 0;
}

int taut_session_flush(struct taut_session *s)
{
    if (!s->unsynced)
        return 0;
    s->unsynced = 0;
    int has_sync =
        TAUT__OPTIONS_HAS(s->store, &taut__session_store_kind, sync) && s->store->sync != NULL;
    int code = has_sync ? s->store->sync(s->store->context) : 0;
    if (code) {
        taut__session_close(s, TAUT_REASON_STORE);
        s->reason = TAUT_REASON_STORE;
    }
    return code;
}

int taut__session_append(struct taut_session *s, struct taut_outbox *out, const uint8_t *message,
                         uint32_t length, uint32_t admin, uint64_t now_ns)
{
    if (s->store && s->store->sent) {
        int code = s->store->sent(s->store->context, s->next_out, message, length, (int)admin);
        if (code) {
            taut__session_close(s, TAUT_REASON_STORE);
            s->reason = TAUT_REASON_STORE;
            return code;
        }
        s->unsynced = 1;
    }
    out->length += length;
    s->next_out++;
    s->last_sent_ns = now_ns;
    s->stats.sent++;
    return 0;
}

/* --- one message of the protocol ---------------------------------------------------------------
 */

static void begin_admin(struct taut_session *s, struct taut_moment now, char type,
                        struct taut_outbox *out, struct taut_encoder *e)
{
    taut__session_place(s, out, e);
    (void)taut__session_header(s, e, now.utc_ns, &type, 1, s->next_out, NULL, 0);
}

static int end_admin(struct taut_session *s, struct taut_moment now, struct taut_outbox *out,
                     struct taut_encoder *e)
{
    uint8_t *message;
    uint32_t length;
    int code = taut__session_complete(s, out, e, &message, &length);
    if (code) {
        taut__session_close(s, TAUT_REASON_OVERFLOW);
        return code;
    }
    return taut__session_append(s, out, message, length, 1, now.now_ns);
}

static void put_text(struct taut_encoder *e, uint32_t tag, const char *text)
{
    taut_encode_text(e, tag, text, (uint32_t)strlen(text));
}

int taut__session_send_logon(struct taut_session *s, struct taut_moment now,
                             struct taut_outbox *out, uint32_t reset)
{
    struct taut_encoder e;
    begin_admin(s, now, 'A', out, &e);
    taut_encode_field(&e, 98, "0", 1);
    taut_encode_field_u64(&e, 108, s->heartbeat_s);
    if (reset)
        taut_encode_field(&e, 141, "Y", 1);
    int code = end_admin(s, now, out, &e);
    if (code == 0)
        s->stats.logons++;
    return code;
}

int taut__session_send_logout(struct taut_session *s, struct taut_moment now,
                              struct taut_outbox *out, const char *text)
{
    struct taut_encoder e;
    begin_admin(s, now, '5', out, &e);
    if (text && !strchr(text, TAUT_SOH)) /* the Logout matters more than its text */
        put_text(&e, 58, text);
    int code = end_admin(s, now, out, &e);
    if (code == 0)
        s->stats.logouts++;
    return code;
}

int taut__session_send_heartbeat(struct taut_session *s, struct taut_moment now,
                                 struct taut_outbox *out, const uint8_t *id, uint32_t id_length)
{
    struct taut_encoder e;
    begin_admin(s, now, '0', out, &e);
    if (id)
        taut_encode_field(&e, 112, id, id_length);
    int code = end_admin(s, now, out, &e);
    if (code == 0)
        s->stats.heartbeats_sent++;
    return code;
}

int taut__session_send_test_request(struct taut_session *s, struct taut_moment now,
                                    struct taut_outbox *out)
{
    struct taut_encoder e;
    begin_admin(s, now, '1', out, &e);
    taut_encode_field(&e, 112, "TEST", 4);
    int code = end_admin(s, now, out, &e);
    if (code == 0)
        s->stats.test_requests_sent++;
    return code;
}

int taut__session_send_resend_request(struct taut_session *s, struct taut_moment now,
                                      struct taut_outbox *out, uint64_t from)
{
    struct taut_encoder e;
    begin_admin(s, now, '2', out, &e);
    taut_encode_field_u64(&e, 7, from);
    taut_encode_field_u64(&e, 16, 0);
    int code = end_admin(s, now, out, &e);
    if (code == 0)
        s->stats.resend_requests_sent++;
    return code;
}

static const char *reject_text(uint32_t reason)
{
    switch (reason) {
    case TAUT__REJECT_REQUIRED:
        return "Required tag missing";
    case TAUT__REJECT_EMPTY:
        return "Tag specified without a value";
    case TAUT__REJECT_VALUE:
        return "Value is incorrect (out of range) for this tag";
    case TAUT__REJECT_FORMAT:
        return "Incorrect data format for value";
    case TAUT__REJECT_COMP_ID:
        return "CompID problem";
    case TAUT__REJECT_TIME:
        return "SendingTime accuracy problem";
    default:
        TAUT_UNREACHABLE();
    }
}

int taut__session_send_reject(struct taut_session *s, const struct taut__received *r,
                              uint32_t reason, uint32_t ref_tag)
{
    const struct taut_message *m = r->message;
    struct taut_encoder e;
    begin_admin(s, r->now, '3', r->out, &e);
    taut_encode_field_u64(&e, 45, r->seq);
    put_text(&e, 58, reject_text(reason));
    if (ref_tag)
        taut_encode_field_u64(&e, 371, ref_tag);
    taut_encode_field(&e, 372, m->data + m->begin[2], m->end[2] - m->begin[2]);
    taut_encode_field_u64(&e, 373, reason);
    int code = end_admin(s, r->now, r->out, &e);
    if (code == 0) {
        s->stats.rejects_sent++;
        s->events |= TAUT_SESSION_REJECTED;
    }
    return code;
}

int taut__session_send_gap_fill(struct taut_session *s, struct taut_moment now,
                                struct taut_outbox *out, uint64_t first, uint64_t next)
{
    struct taut_encoder e;
    uint8_t *message;
    uint32_t length;
    uint8_t time[TAUT_UTC_TEXT_MAX];
    uint32_t time_length = (uint32_t)taut_format_utc(time, now.utc_ns, s->time_digits);

    taut__session_place(s, out, &e);
    (void)taut__session_header(s, &e, now.utc_ns, "4", 1, first, time, time_length);
    taut_encode_field_u64(&e, 36, next);
    taut_encode_field(&e, 123, "Y", 1);
    int code = taut__session_complete(s, out, &e, &message, &length);
    if (code)
        return code;
    /* Not stored: its number belongs to the messages whose place it takes. */
    out->length += length;
    s->last_sent_ns = now.now_ns;
    s->stats.sent++;
    s->stats.gap_fills_sent++;
    return 0;
}
