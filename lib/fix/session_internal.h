/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix/session_internal.h - the state of a session and what its files share.
 *
 * session.c          life of a session, the owner's own messages, what can be asked
 * session_send.c     headers, timestamps and the messages of the protocol
 * session_receive.c  the checks that every message passes, and the sequence rules
 * session_admin.c    what each message of the protocol does
 * session_replay.c   answers to ResendRequest, piece by piece
 * session_timer.c    heartbeats, test requests, time-outs
 *
 * Events are collected in `events` while a call runs and handed out by it (taut__session_take), so
 * that a failure deep inside, of the store for instance, can't be forgotten on the way out.
 *
 * Invariants: next_out only grows, but for a reset; a number is given to one message only, at the
 * moment in which the store accepted it. next_in only grows, but for a reset, and only after the
 * store accepted that. In TAUT__CLOSING nothing is appended to an outbox any more.
 */
#ifndef TAUT_FIX_SESSION_INTERNAL_H
#define TAUT_FIX_SESSION_INTERNAL_H

#include <taut/clock.h>
#include <taut/session.h>

#include "base/check.h"
#include "base/options.h"

#define TAUT__COMP_ID_MAX 63u
#define TAUT__TYPE_MAX    32u
/* Numbers above are no sequence numbers: next_in + 1 never wraps, and 18 digits always fit. */
#define TAUT__SEQ_MAX UINT64_C(999999999999999999)
/* "35=" type "34=" number "43=Y" "49=" id "52=" time "56=" id "122=" time, each with its SOH. */
#define TAUT__HEADER_MAX                                                                           \
    (4 + TAUT__TYPE_MAX + 4 + 20 + 5 + 4 + TAUT__COMP_ID_MAX + 4 + 30 + 4 + TAUT__COMP_ID_MAX +    \
     5 + 30)

enum taut__session_state {
    TAUT__DISCONNECTED = 0,
    TAUT__LOGON_WAIT, /* acceptor: no Logon yet; initiator: its Logon is out, no answer yet */
    TAUT__ACTIVE,
    TAUT__LOGOUT_WAIT, /* our Logout is out */
    TAUT__CLOSING      /* TAUT_SESSION_CLOSE was given */
};

/* Session reject reasons (tag 373) that this layer gives. */
enum taut__reject {
    TAUT__REJECT_REQUIRED = 1,
    TAUT__REJECT_EMPTY = 4,
    TAUT__REJECT_VALUE = 5,
    TAUT__REJECT_FORMAT = 6,
    TAUT__REJECT_COMP_ID = 9,
    TAUT__REJECT_TIME = 10
};

/* A store is used where it lies: what its functions may be is looked up by its size. */
extern const struct taut__options_kind taut__session_store_kind;

struct taut_session {
    /* The hot path first. */
    uint32_t state;    /* enum taut__session_state */
    uint32_t events;   /* not handed out yet */
    uint32_t handling; /* 1: TAUT_SESSION_MESSAGE was given, taut_session_handled() is due */
    uint32_t begin_string_length;
    uint64_t next_in, next_out;
    uint64_t handling_seq; /* the number of the message that the owner handles */
    uint64_t last_received_ns, last_sent_ns;
    uint64_t heartbeat_ns; /* 0 = none */

    uint64_t begun_seq, begun_ns; /* of the message between begin and commit */
    uint8_t *begun_at;

    uint64_t send_second;     /* the second that send_time shows; UINT64_MAX = none */
    uint32_t send_time_bytes; /* 21 with milliseconds */
    uint32_t send_fraction;   /* what send_time shows behind the second */
    uint32_t time_digits;
    uint8_t send_time[32];
    uint8_t seen_second[17]; /* the last SendingTime of the peer without its fraction */
    uint8_t seen_set;
    int64_t seen_seconds; /* the same as a number */

    uint32_t header_mid_length, header_tail_length;
    uint8_t header_mid[8 + 8 + TAUT__COMP_ID_MAX]; /* SOH 49=sender SOH 52= */
    uint8_t header_tail[8 + TAUT__COMP_ID_MAX];    /* SOH 56=target SOH */

    const struct taut_session_store *store;
    uint32_t unsynced; /* 1: the store was given messages since the last flush */
    char begin_string[12];
    char sender[TAUT__COMP_ID_MAX + 1], target[TAUT__COMP_ID_MAX + 1];
    uint32_t sender_length, target_length;

    uint32_t role, version;
    uint32_t failing;     /* LOGOUT_WAIT for an error: only the peer's Logout still counts */
    uint32_t online;      /* LOGGED_ON was given, LOGGED_OUT not yet */
    uint32_t reason;      /* enum taut_session_reason */
    uint32_t heartbeat_s; /* in effect */
    uint32_t asked_s;     /* initiator: configured */
    uint32_t heartbeat_min_s, heartbeat_max_s;
    uint32_t reset_on_logon;
    uint32_t tolerance_s; /* UINT32_MAX = not checked */
    uint64_t logon_timeout_ns, logout_timeout_ns;

    uint64_t wait_deadline_ns;  /* LOGON_WAIT, LOGOUT_WAIT */
    uint64_t test_request_ns;   /* when the outstanding TestRequest was sent */
    uint32_t test_request_open; /* 1: no message came since */

    /* The peer's gap. gap_end 0 = none is open. */
    uint64_t gap_end;                /* the last number that is known to be missing */
    uint64_t gap_deadline_ns;        /* without progress until then: ask again */
    uint32_t gap_asked;              /* how often the same range was asked for */
    uint64_t asked_from, asked_high; /* last range asked for on this connection; 0 = none */

    /* A replay for the peer. replay_next 0 = none. */
    uint64_t replay_next, replay_end; /* replay_end UINT64_MAX = up to the last one sent */
    uint64_t replay_run;              /* first number of the run to be filled; 0 = no run */

    struct taut_session_stats stats;
};

/* What the checks found in a message. */
struct taut__received {
    const struct taut_message *message;
    struct taut_moment now;
    struct taut_outbox *out;
    uint64_t seq;
    uint32_t type;     /* taut_message_type() */
    uint32_t poss_dup; /* 43=Y */
};

static inline uint32_t taut__session_take(struct taut_session *s)
{
    uint32_t events = s->events;
    s->events = 0;
    return events;
}

/* A field that is a number: 0, TAUT_ENOENT (not there), TAUT_EINVAL (empty), TAUT_EFORMAT. */
static inline int taut__session_number(const struct taut_message *m, uint32_t tag, uint64_t *number)
{
    uint32_t length;
    const uint8_t *value = taut_message_get(m, tag, &length);
    if (!value)
        return TAUT_ENOENT;
    if (length == 0)
        return TAUT_EINVAL;
    return taut_parse_u64(value, length, number) ? TAUT_EFORMAT : 0;
}

static inline int taut__session_is(const struct taut_message *m, uint32_t tag, char expected)
{
    uint32_t length;
    const uint8_t *value = taut_message_get(m, tag, &length);
    return value && length == 1 && value[0] == (uint8_t)expected;
}

/* One of the seven types of the session layer. */
static inline int taut__session_is_admin(uint32_t type)
{
    return (type >= '0' && type <= '5') || type == 'A';
}

/* --- session.c ------------------------------------------------------------------------------- */

/* Ends the connection: CLOSE, and LOGGED_OUT where it was logged on. The first reason stays. */
void taut__session_close(struct taut_session *s, uint32_t reason);

/* Waits for the peer's Logout. `failing`: nothing else is looked at any more. */
void taut__session_await_logout(struct taut_session *s, uint32_t reason, uint32_t failing,
                                struct taut_moment now);

/* Moves next_in to `next` after the store accepted it. 0, or the session is closed. */
int taut__session_advance(struct taut_session *s, uint64_t next, uint64_t now_ns);

/* Both numbers to 1, by the store too. 0, or the session is closed. */
int taut__session_reset(struct taut_session *s);

/* --- session_send.c -------------------------------------------------------------------------- */

/* Precomputes what every header has in common. */
void taut__session_header_init(struct taut_session *s);

/* The header of a message of `seq`, sent at `utc_ns`. With `orig_length`: a message sent again,
 * with PossDupFlag and OrigSendingTime. 0 or TAUT_ENOSPC. */
int taut__session_header(struct taut_session *s, struct taut_encoder *e, uint64_t utc_ns,
                         const void *type, uint32_t type_length, uint64_t seq,
                         const uint8_t *orig_time, uint32_t orig_length);

/* Starts an encoder at the end of the outbox. */
void taut__session_place(const struct taut_session *s, struct taut_outbox *out,
                         struct taut_encoder *e);

/* Completes the message at the end of the outbox, without appending it. */
int taut__session_complete(struct taut_session *s, struct taut_outbox *out, struct taut_encoder *e,
                           uint8_t **message, uint32_t *length);

/* Numbers, stores and appends a completed message. 0, or the session is closed. */
int taut__session_append(struct taut_session *s, struct taut_outbox *out, const uint8_t *message,
                         uint32_t length, uint32_t admin, uint64_t now_ns);

/* One message of the protocol each; where it does not fit or can't be stored the session is closed
 * and the result negative. */
int taut__session_send_logon(struct taut_session *s, struct taut_moment now,
                             struct taut_outbox *out, uint32_t reset);
int taut__session_send_logout(struct taut_session *s, struct taut_moment now,
                              struct taut_outbox *out, const char *text);
int taut__session_send_heartbeat(struct taut_session *s, struct taut_moment now,
                                 struct taut_outbox *out, const uint8_t *id, uint32_t id_length);
int taut__session_send_test_request(struct taut_session *s, struct taut_moment now,
                                    struct taut_outbox *out);
int taut__session_send_resend_request(struct taut_session *s, struct taut_moment now,
                                      struct taut_outbox *out, uint64_t from);
/* `ref_tag` 0: without RefTagID. */
int taut__session_send_reject(struct taut_session *s, const struct taut__received *r,
                              uint32_t reason, uint32_t ref_tag);
/* Fills `first` .. `next` - 1. TAUT_ENOSPC leaves the session as it was. */
int taut__session_send_gap_fill(struct taut_session *s, struct taut_moment now,
                                struct taut_outbox *out, uint64_t first, uint64_t next);

/* --- session_receive.c ----------------------------------------------------------------------- */

/* Compares SendingTime with the clock: 0, TAUT_EFORMAT, or TAUT_ETIMEDOUT. */
int taut__session_check_time(struct taut_session *s, const uint8_t *time, uint32_t length,
                             uint64_t utc_ns);

/* Asks for next_in and all behind it because `seen` came. */
void taut__session_gap(struct taut_session *s, struct taut_moment now, struct taut_outbox *out,
                       uint64_t seen);

/* Sends a Reject; the message's number is used up where it was its turn. */
void taut__session_refuse(struct taut_session *s, const struct taut__received *r, uint32_t reason,
                          uint32_t ref_tag);

/* 1: it is the turn of this number. Otherwise all that is to be done was done. */
int taut__session_in_turn(struct taut_session *s, const struct taut__received *r);

/* Logout with "MsgSeqNum too low, ...", and the end. */
void taut__session_too_low(struct taut_session *s, const struct taut__received *r);

/* --- session_admin.c ------------------------------------------------------------------------- */

/* The first message of a connection. */
void taut__session_first(struct taut_session *s, struct taut__received *r);
/* A Logon on a session that is logged on. */
void taut__session_logon_again(struct taut_session *s, const struct taut__received *r);
void taut__session_peer_logout(struct taut_session *s, const struct taut__received *r);
void taut__session_resend_request(struct taut_session *s, const struct taut__received *r);
void taut__session_sequence_reset(struct taut_session *s, const struct taut__received *r);
void taut__session_test_request(struct taut_session *s, const struct taut__received *r);

/* --- session_replay.c ------------------------------------------------------------------------ */

/* Adds begin .. end (UINT64_MAX = open) to what is to be sent again. */
void taut__session_replay_start(struct taut_session *s, uint64_t begin, uint64_t end);
/* Sends what fits; sets TAUT_SESSION_PUMP while more is left. */
void taut__session_replay(struct taut_session *s, struct taut_moment now, struct taut_outbox *out);

#endif
