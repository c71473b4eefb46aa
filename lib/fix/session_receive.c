/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix/session_receive.c - what every message of a session that is logged on must pass.
 *
 * In this order: MsgSeqNum is there and a number (otherwise nothing can be answered: Logout, end),
 * SenderCompID and TargetCompID are there (Reject), BeginString is ours (Logout), SendingTime is
 * there, well formed (Reject) and near the clock (Reject and Logout), the CompIDs are ours (Reject
 * and Logout), the number's turn. ResendRequest and Logout are looked at whatever their number is:
 * each of two sides may be behind the other at the same time.
 */
#include "fix/session_internal.h"

#include <stdio.h>
#include <string.h>

/* --- SendingTime -------------------------------------------------------------------------------
 */

static int digits_only(const uint8_t *text, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return 0;
    return 1;
}

int taut__session_check_time(struct taut_session *s, const uint8_t *time, uint32_t length,
                             uint64_t utc_ns)
{
    int64_t seconds;
    /* The date and the second are mostly those of the message before. */
    if (s->seen_set && length >= 17 && memcmp(time, s->seen_second, 17) == 0 &&
        (length == 17 ||
         (length > 18 && length <= 30 && time[17] == '.' && digits_only(time + 18, length - 18)))) {
        seconds = s->seen_seconds;
    } else {
        struct taut_utc utc;
        if (taut_parse_utc(time, length, &utc))
            return TAUT_EFORMAT;
        seconds = utc.seconds;
        memcpy(s->seen_second, time, 17);
        s->seen_seconds = seconds;
        s->seen_set = 1;
    }
    if (s->tolerance_s == UINT32_MAX)
        return 0;
    /* In whole seconds: a fraction decides nothing in a tolerance of seconds. */
    int64_t off = (int64_t)(utc_ns / TAUT_NS_PER_S) - seconds;
    return off > (int64_t)s->tolerance_s || -off > (int64_t)s->tolerance_s ? TAUT_ETIMEDOUT : 0;
}

/* --- reactions ---------------------------------------------------------------------------------
 */

void taut__session_refuse(struct taut_session *s, const struct taut__received *r, uint32_t reason,
                          uint32_t ref_tag)
{
    if (s->state != TAUT__ACTIVE) {
        s->events |= TAUT_SESSION_IGNORED;
        return;
    }
    /* These two move the numbers by their content, which was not good. */
    if (r->seq == s->next_in && r->type != '4' && r->type != 'A' &&
        taut__session_advance(s, r->seq + 1, r->now.now_ns))
        return;
    (void)taut__session_send_reject(s, r, reason, ref_tag);
}

/* Reject where `reject` is not 0, then Logout, then only the peer's Logout counts. */
static void refuse_and_logout(struct taut_session *s, const struct taut__received *r,
                              uint32_t reject, const char *text, uint32_t reason)
{
    if (s->state != TAUT__ACTIVE) {
        s->events |= TAUT_SESSION_IGNORED;
        return;
    }
    if (r->seq == s->next_in && taut__session_advance(s, r->seq + 1, r->now.now_ns))
        return;
    if (reject && taut__session_send_reject(s, r, reject, 0))
        return;
    if (taut__session_send_logout(s, r->now, r->out, text) == 0)
        taut__session_await_logout(s, reason, 1, r->now);
}

void taut__session_too_low(struct taut_session *s, const struct taut__received *r)
{
    char text[96];
    (void)snprintf(text, sizeof text, "MsgSeqNum too low, expecting %llu but received %llu",
                   (unsigned long long)s->next_in, (unsigned long long)r->seq);
    (void)taut__session_send_logout(s, r->now, r->out, text);
    taut__session_close(s, TAUT_REASON_SEQUENCE_LOW);
}

void taut__session_gap(struct taut_session *s, struct taut_moment now, struct taut_outbox *out,
                       uint64_t seen)
{
    if (s->state != TAUT__ACTIVE)
        return; /* our Logout is out: the next logon will ask */
    if (s->gap_end) {
        if (seen > s->asked_high)
            s->asked_high = seen;
        return; /* asked already, and open-ended */
    }
    if (taut__session_send_resend_request(s, now, out, s->next_in))
        return;
    s->gap_end = seen - 1;
    s->gap_asked = 1;
    s->gap_deadline_ns =
        taut_deadline_ns(now.now_ns, s->heartbeat_ns ? s->heartbeat_ns : 30 * TAUT_NS_PER_S);
    s->asked_from = s->next_in;
    s->asked_high = seen;
    s->stats.gaps++;
    s->events |= TAUT_SESSION_GAP;
}

/* A number that is past: without PossDupFlag an error, with it a duplicate. */
static void past_number(struct taut_session *s, const struct taut__received *r)
{
    const struct taut_message *m = r->message;
    uint32_t length = 0, orig_length = 0;
    struct taut_utc sent, orig;
    if (s->state != TAUT__ACTIVE) {
        s->events |= TAUT_SESSION_IGNORED;
        return;
    }
    if (!r->poss_dup) {
        taut__session_too_low(s, r);
        return;
    }
    const uint8_t *orig_time = taut_message_get(m, 122, &orig_length);
    const uint8_t *time = taut_message_get(m, 52, &length);
    if (!orig_time || orig_length == 0) {
        (void)taut__session_send_reject(
            s, r, orig_time ? TAUT__REJECT_EMPTY : TAUT__REJECT_REQUIRED, 122);
        return;
    }
    if (taut_parse_utc(orig_time, orig_length, &orig) || !time ||
        taut_parse_utc(time, length, &sent)) {
        (void)taut__session_send_reject(s, r, TAUT__REJECT_FORMAT, 122);
        return;
    }
    if (orig.seconds > sent.seconds ||
        (orig.seconds == sent.seconds && orig.nanoseconds > sent.nanoseconds)) {
        refuse_and_logout(s, r, TAUT__REJECT_TIME, NULL, TAUT_REASON_SENDING_TIME);
        return;
    }
    s->stats.duplicates++;
    s->events |= TAUT_SESSION_IGNORED;
}

/* --- the checks --------------------------------------------------------------------------------
 */

static int same(const uint8_t *value, uint32_t length, const char *text, uint32_t text_length)
{
    return length == text_length && memcmp(value, text, length) == 0;
}

static void missing_number(struct taut_session *s, const struct taut__received *r)
{
    if (s->state == TAUT__ACTIVE)
        (void)taut__session_send_logout(s, r->now, r->out,
                                        "Required tag missing or no number: MsgSeqNum");
    taut__session_close(s, TAUT_REASON_SEQUENCE_MISSING);
}

/* Everything but the turn of the number. 1: go on. */
static int header_good(struct taut_session *s, struct taut__received *r)
{
    const struct taut_message *m = r->message;
    uint32_t sender_length = 0, target_length = 0, time_length = 0;
    if (taut__session_number(m, 34, &r->seq)) {
        missing_number(s, r);
        return 0;
    }
    const uint8_t *sender = taut_message_get(m, 49, &sender_length);
    const uint8_t *target = taut_message_get(m, 56, &target_length);
    const uint8_t *time = taut_message_get(m, 52, &time_length);
    if (!sender || !target) {
        taut__session_refuse(s, r, TAUT__REJECT_REQUIRED, sender ? 56 : 49);
        return 0;
    }
    if (m->begin_string_length != s->begin_string_length ||
        memcmp(m->data + 2, s->begin_string, s->begin_string_length) != 0) {
        refuse_and_logout(s, r, 0, "Incorrect BeginString", TAUT_REASON_BEGIN_STRING);
        return 0;
    }
    if (!time) {
        taut__session_refuse(s, r, TAUT__REJECT_REQUIRED, 52);
        return 0;
    }
    if (sender_length == 0 || target_length == 0 || time_length == 0) {
        taut__session_refuse(s, r, TAUT__REJECT_EMPTY,
                             sender_length == 0   ? 49
                             : target_length == 0 ? 56
                                                  : 52);
        return 0;
    }
    int code = taut__session_check_time(s, time, time_length, r->now.utc_ns);
    if (code == TAUT_EFORMAT) {
        taut__session_refuse(s, r, TAUT__REJECT_FORMAT, 52);
        return 0;
    }
    if (code) {
        refuse_and_logout(s, r, TAUT__REJECT_TIME, NULL, TAUT_REASON_SENDING_TIME);
        return 0;
    }
    if (!same(sender, sender_length, s->target, s->target_length) ||
        !same(target, target_length, s->sender, s->sender_length)) {
        refuse_and_logout(s, r, TAUT__REJECT_COMP_ID, NULL, TAUT_REASON_COMP_ID);
        return 0;
    }
    r->poss_dup = taut__session_is(m, 43, 'Y') != 0;
    return 1;
}

/* 1: it is this number's turn. Otherwise all that is to be done was done. */
int taut__session_in_turn(struct taut_session *s, const struct taut__received *r)
{
    if (r->seq == s->next_in)
        return 1;
    if (r->seq < s->next_in) {
        past_number(s, r);
        return 0;
    }
    taut__session_gap(s, r->now, r->out, r->seq);
    s->events |= TAUT_SESSION_IGNORED;
    return 0;
}

static void admin(struct taut_session *s, const struct taut__received *r)
{
    switch (r->type) {
    case 'A':
        taut__session_logon_again(s, r);
        return;
    case '5':
        taut__session_peer_logout(s, r);
        return;
    case '2':
        taut__session_resend_request(s, r);
        return;
    case '4':
        taut__session_sequence_reset(s, r);
        return;
    default:
        break;
    }
    if (!taut__session_in_turn(s, r))
        return;
    if (r->type == '1') {
        taut__session_test_request(s, r);
        return;
    }
    if (r->type == '0')
        s->stats.heartbeats_received++;
    else
        s->stats.rejects_received++;
    (void)taut__session_advance(s, r->seq + 1, r->now.now_ns);
}

uint32_t taut_session_receive(struct taut_session *s, const struct taut_message *message,
                              struct taut_moment now, struct taut_outbox *out)
{
    TAUT_CHECK(!s->handling); /* taut_session_handled() is still due */
    struct taut__received r = {.message = message, .now = now, .out = out};
    s->stats.received++;
    r.type = taut_message_type(message);
    if (s->state == TAUT__LOGON_WAIT) {
        taut__session_first(s, &r);
        return taut__session_take(s);
    }
    if (s->state != TAUT__ACTIVE && s->state != TAUT__LOGOUT_WAIT)
        return taut__session_take(s) | TAUT_SESSION_IGNORED | TAUT_SESSION_CLOSE;
    s->last_received_ns = now.now_ns;
    s->test_request_open = 0;
    if (s->failing) {
        s->events |= TAUT_SESSION_IGNORED;
        if (r.type == '5')
            taut__session_close(s, s->reason);
        return taut__session_take(s);
    }
    if (!header_good(s, &r))
        return taut__session_take(s);
    if (taut__session_is_admin(r.type)) {
        admin(s, &r);
        return taut__session_take(s);
    }
    if (!taut__session_in_turn(s, &r))
        return taut__session_take(s);
    s->handling = 1;
    s->handling_seq = r.seq;
    s->stats.received_app++;
    s->events |= TAUT_SESSION_MESSAGE;
    return taut__session_take(s);
}
