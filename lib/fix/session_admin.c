/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix/session_admin.c - Logon, Logout, ResendRequest, SequenceReset, TestRequest as received.
 *
 * In each of them next_in is moved, and stored, before anything is answered: a crash between the
 * two costs an answer that the peer will ask for again, never a message.
 */
#include "fix/session_internal.h"

#include <string.h>

/* --- Logon -------------------------------------------------------------------------------------
 */

/* Why a Logon of the right peer is refused, or NULL; stores HeartBtInt. */
static const char *logon_problem(const struct taut_session *s, const struct taut_message *m,
                                 uint32_t *heartbeat_s)
{
    uint32_t length;
    int64_t seconds;
    const uint8_t *value = taut_message_get(m, 98, &length);
    if (!value)
        return "Required tag missing: EncryptMethod";
    if (length != 1 || value[0] != '0')
        return "EncryptMethod must be 0";
    value = taut_message_get(m, 108, &length);
    if (!value)
        return "Required tag missing: HeartBtInt";
    if (taut_parse_i64(value, length, &seconds))
        return "HeartBtInt is no number";
    if (seconds < 0)
        return "HeartBtInt must not be negative";
    if (seconds >= UINT32_MAX)
        return "HeartBtInt is too large";
    if (s->role == TAUT_ACCEPTOR &&
        ((s->heartbeat_min_s && seconds < (int64_t)s->heartbeat_min_s) ||
         (s->heartbeat_max_s && (seconds == 0 || seconds > (int64_t)s->heartbeat_max_s))))
        return "HeartBtInt is outside the permitted range";
    *heartbeat_s = (uint32_t)seconds;
    return NULL;
}

/* Who it is and when: anything wrong here is answered by silence. */
static int logon_identity_good(struct taut_session *s, struct taut__received *r)
{
    const struct taut_message *m = r->message;
    uint32_t length;
    const uint8_t *value = taut_message_get(m, 49, &length);
    if (!value || length != s->target_length || memcmp(value, s->target, length) != 0)
        return 0;
    value = taut_message_get(m, 56, &length);
    if (!value || length != s->sender_length || memcmp(value, s->sender, length) != 0)
        return 0;
    if (m->begin_string_length != s->begin_string_length ||
        memcmp(m->data + 2, s->begin_string, s->begin_string_length) != 0)
        return 0;
    value = taut_message_get(m, 52, &length);
    if (!value || taut__session_check_time(s, value, length, r->now.utc_ns))
        return 0;
    return taut__session_number(m, 34, &r->seq) == 0;
}

static void log_on(struct taut_session *s, const struct taut__received *r, uint32_t heartbeat_s)
{
    s->heartbeat_s = heartbeat_s;
    s->heartbeat_ns = heartbeat_s * TAUT_NS_PER_S;
    s->last_received_ns = r->now.now_ns;
    s->test_request_open = 0;
}

static void refuse_logon(struct taut_session *s, const struct taut__received *r, uint32_t reset,
                         const char *problem)
{
    /* Nothing is reset for a Logon that is refused, and its number counts only as what it is. */
    if (r->seq == s->next_in && !reset && taut__session_advance(s, r->seq + 1, r->now.now_ns))
        return;
    (void)taut__session_send_logout(s, r->now, r->out, problem);
    taut__session_close(s, TAUT_REASON_BAD_LOGON);
}

/* Both numbers to 1 where this Logon asks for it. */
static int logon_reset(struct taut_session *s, const struct taut__received *r, uint32_t reset)
{
    if (s->role == TAUT_ACCEPTOR)
        return reset || s->reset_on_logon ? taut__session_reset(s) : 0;
    if (!reset || s->reset_on_logon || r->seq != 1)
        return 0; /* not asked for, or the answer to our own */
    /* The acceptor began anew of its own accord: our Logon was then the first message. */
    int code = taut__session_reset(s);
    if (code == 0)
        s->next_out = 2;
    return code;
}

static void first_logon(struct taut_session *s, struct taut__received *r)
{
    uint32_t heartbeat_s = 0;
    uint32_t reset = taut__session_is(r->message, 141, 'Y') != 0;
    if (!logon_identity_good(s, r)) {
        taut__session_close(s, TAUT_REASON_BAD_LOGON);
        return;
    }
    const char *problem = logon_problem(s, r->message, &heartbeat_s);
    if (problem) {
        refuse_logon(s, r, reset || s->reset_on_logon, problem);
        return;
    }
    if (logon_reset(s, r, reset))
        return;
    if (r->seq < s->next_in) {
        taut__session_too_low(s, r);
        return;
    }
    uint32_t in_turn = r->seq == s->next_in;
    if (in_turn && taut__session_advance(s, r->seq + 1, r->now.now_ns))
        return;
    log_on(s, r, heartbeat_s);
    if (s->role == TAUT_ACCEPTOR && taut__session_send_logon(s, r->now, r->out, reset))
        return;
    s->state = TAUT__ACTIVE;
    s->online = 1;
    s->events |= TAUT_SESSION_LOGGED_ON;
    if (!in_turn)
        taut__session_gap(s, r->now, r->out, r->seq);
}

void taut__session_first(struct taut_session *s, struct taut__received *r)
{
    if (r->type == 'A') {
        first_logon(s, r);
        return;
    }
    if (s->role == TAUT_INITIATOR && r->type == '5' && logon_identity_good(s, r)) {
        /* Our Logon was refused. */
        if (r->seq == s->next_in && taut__session_advance(s, r->seq + 1, r->now.now_ns))
            return;
        taut__session_close(s, TAUT_REASON_PEER_LOGOUT);
        return;
    }
    taut__session_close(s, TAUT_REASON_BAD_LOGON);
}

void taut__session_logon_again(struct taut_session *s, const struct taut__received *r)
{
    uint32_t heartbeat_s = 0;
    if (r->poss_dup && r->seq < s->next_in) {
        s->stats.duplicates++;
        s->events |= TAUT_SESSION_IGNORED;
        return;
    }
    if (!taut__session_is(r->message, 141, 'Y') || r->seq != 1 || s->state != TAUT__ACTIVE) {
        taut__session_close(s, TAUT_REASON_BAD_LOGON);
        return;
    }
    const char *problem = logon_problem(s, r->message, &heartbeat_s);
    if (problem) {
        refuse_logon(s, r, 1, problem);
        return;
    }
    if (taut__session_reset(s) || taut__session_advance(s, 2, r->now.now_ns))
        return;
    log_on(s, r, heartbeat_s);
    (void)taut__session_send_logon(s, r->now, r->out, 1);
}

/* --- Logout ------------------------------------------------------------------------------------
 */

void taut__session_peer_logout(struct taut_session *s, const struct taut__received *r)
{
    /* Ahead of a gap it leaves next_in where it is, so that the next logon asks for what is
     * missing. */
    if (r->seq == s->next_in && taut__session_advance(s, r->seq + 1, r->now.now_ns))
        return;
    if (s->state == TAUT__ACTIVE && taut__session_send_logout(s, r->now, r->out, NULL))
        return;
    taut__session_close(s, TAUT_REASON_PEER_LOGOUT);
}

/* --- ResendRequest -----------------------------------------------------------------------------
 */

/* What is wrong with a number of a message, as a reject reason; 0 = nothing. */
static uint32_t number_problem(const struct taut_message *m, uint32_t tag, uint64_t *number)
{
    switch (taut__session_number(m, tag, number)) {
    case 0:
        return 0;
    case TAUT_ENOENT:
        return TAUT__REJECT_REQUIRED;
    case TAUT_EINVAL:
        return TAUT__REJECT_EMPTY;
    default:
        return TAUT__REJECT_FORMAT;
    }
}

void taut__session_resend_request(struct taut_session *s, const struct taut__received *r)
{
    uint64_t begin, end;
    s->stats.resend_requests_received++;
    uint32_t problem = number_problem(r->message, 7, &begin), tag = 7;
    if (!problem) {
        problem = number_problem(r->message, 16, &end);
        tag = 16;
    }
    if (!problem && (begin == 0 || begin >= s->next_out)) {
        problem = TAUT__REJECT_VALUE; /* nothing was ever sent there */
        tag = 7;
    }
    if (!problem && end != 0 && end < begin)
        problem = TAUT__REJECT_VALUE, tag = 16;
    if (problem) {
        taut__session_refuse(s, r, problem, tag);
        return;
    }
    if (r->seq == s->next_in) {
        if (taut__session_advance(s, r->seq + 1, r->now.now_ns))
            return;
    } else if (r->seq > s->next_in) {
        /* Before the replay, which may take all the room there is. */
        taut__session_gap(s, r->now, r->out, r->seq);
    }
    /* 999999 was "no end" before FIX 4.3. */
    if (end == 0 || end >= s->next_out || (s->version == TAUT_FIX_4_2 && end == 999999))
        end = UINT64_MAX;
    taut__session_replay_start(s, begin, end);
    taut__session_replay(s, r->now, r->out);
}

/* --- SequenceReset -----------------------------------------------------------------------------
 */

/* A gap fill in answer to our request that begins in what came already, and reaches further. */
static int fills_further(const struct taut_session *s, const struct taut__received *r,
                         uint64_t new_seq)
{
    return r->poss_dup && r->seq < s->next_in && new_seq > s->next_in && s->asked_from &&
           r->seq >= s->asked_from && r->seq <= s->asked_high;
}

void taut__session_sequence_reset(struct taut_session *s, const struct taut__received *r)
{
    uint64_t new_seq = 0;
    uint32_t gap_fill = taut__session_is(r->message, 123, 'Y') != 0;
    uint32_t problem = number_problem(r->message, 36, &new_seq), tag = 36;
    if (gap_fill && !(problem == 0 && fills_further(s, r, new_seq)) && !taut__session_in_turn(s, r))
        return;
    if (!problem && (new_seq < s->next_in || new_seq > TAUT__SEQ_MAX))
        problem = TAUT__REJECT_VALUE, tag = 0;
    if (problem) {
        taut__session_refuse(s, r, problem, tag);
        return;
    }
    if (new_seq > s->next_in)
        (void)taut__session_advance(s, new_seq, r->now.now_ns);
}

/* --- TestRequest -------------------------------------------------------------------------------
 */

void taut__session_test_request(struct taut_session *s, const struct taut__received *r)
{
    uint32_t length;
    const uint8_t *id = taut_message_get(r->message, 112, &length);
    s->stats.test_requests_received++;
    if (!id || length == 0) {
        taut__session_refuse(s, r, id ? TAUT__REJECT_EMPTY : TAUT__REJECT_REQUIRED, 112);
        return;
    }
    if (taut__session_advance(s, r->seq + 1, r->now.now_ns) == 0 && s->state == TAUT__ACTIVE)
        (void)taut__session_send_heartbeat(s, r->now, r->out, id, length);
}
