/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/session.h - one FIX session as a pure state machine.
 *
 * Bytes and time go in, bytes and events come out: no socket, no file, no clock is touched, so a
 * session can be driven by a test with a fake clock as well as by a gateway. Acceptor and initiator
 * are the same machine with another `role`.
 *
 * A call appends what must be sent to the caller's outbox and returns a set of events. The order
 * is: process the events, send the outbox, then close if TAUT_SESSION_CLOSE was among them. All
 * messages of one connection go through one session, in the order in which they came.
 *
 * Persistence is a table of functions given by the owner (struct taut_session_store); without one
 * every resend is answered by a gap fill, and numbers start at the configured values.
 *
 * Rules: FIX 4.4 volume 2 "Session protocol" and FIXT 1.1; the man page taut_session(3) lists which
 * rule each reaction follows.
 *
 * Threads: one owner at a time. Blocking, allocation: never (the store's functions may).
 * Ownership: the caller gives the memory (taut_session_footprint()); configuration texts are
 * copied.
 */
#ifndef TAUT_SESSION_H
#define TAUT_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include <taut/encode.h>
#include <taut/err.h>
#include <taut/scan.h>

#ifdef __cplusplus
extern "C" {
#endif

struct taut_session; /* opaque */

enum taut_role { TAUT_ACCEPTOR = 0, TAUT_INITIATOR = 1 };

/* The session layer's version. For 5.0, 5.0SP1, 5.0SP2 it is FIXT.1.1. */
enum taut_fix_version {
    TAUT_FIX_4_4 = 0,
    TAUT_FIX_4_0,
    TAUT_FIX_4_1,
    TAUT_FIX_4_2,
    TAUT_FIX_4_3,
    TAUT_FIXT_1_1
};

/* A moment, on both clocks: timers use the first, SendingTime and its check the second. */
struct taut_moment {
    uint64_t now_ns; /* CLOCK_MONOTONIC */
    uint64_t utc_ns; /* since 1970-01-01 UTC */
};

/* Where a session appends what is to be sent. `length` grows; the owner empties it. */
struct taut_outbox {
    uint8_t *data;
    uint32_t capacity;
    uint32_t length;
};

/* Events, a set of bits. */
enum taut_session_event {
    TAUT_SESSION_MESSAGE = 1u << 0, /* the message just given is the application's, in sequence */
    TAUT_SESSION_LOGGED_ON = 1u << 1,
    TAUT_SESSION_LOGGED_OUT = 1u << 2, /* the logout is complete, or the connection ended */
    TAUT_SESSION_CLOSE = 1u << 3,      /* send the outbox, then close; see taut_session_reason() */
    TAUT_SESSION_PUMP = 1u << 4,       /* a replay is pending: call taut_session_pump() */
    TAUT_SESSION_GAP = 1u << 5,        /* the peer's messages have a gap; a resend was asked for */
    TAUT_SESSION_REJECTED = 1u << 6,   /* the message was answered by a Reject */
    TAUT_SESSION_IGNORED = 1u << 7,    /* duplicate, or ahead of a gap: not delivered */
    TAUT_SESSION_RESET = 1u << 8,      /* both numbers went back to 1 */
    TAUT_SESSION_DRAIN = 1u << 9       /* queued messages are next: call taut_session_drain() */
};

/* Why a session closes. */
enum taut_session_reason {
    TAUT_REASON_NONE = 0,
    TAUT_REASON_PEER_LOGOUT,
    TAUT_REASON_OWN_LOGOUT,
    TAUT_REASON_LOGON_TIMEOUT,
    TAUT_REASON_LOGOUT_TIMEOUT,
    TAUT_REASON_HEARTBEAT_TIMEOUT,
    TAUT_REASON_BAD_LOGON, /* first message no Logon, wrong CompIDs, version or time */
    TAUT_REASON_SEQUENCE_LOW,
    TAUT_REASON_SEQUENCE_MISSING,
    TAUT_REASON_COMP_ID,
    TAUT_REASON_SENDING_TIME,
    TAUT_REASON_BEGIN_STRING,
    TAUT_REASON_TOO_BIG,
    TAUT_REASON_STORE,
    TAUT_REASON_OVERFLOW, /* the outbox was too small for a message the protocol demands */
    TAUT_REASON_DISCONNECTED,
    TAUT_REASON_GAP /* several ResendRequests for the same gap, and no message of it came */
};

/* Persistence, called by the session; any member may be NULL. Codes other than 0 from `sent` and
 * `received` close the session with TAUT_REASON_STORE, and nothing is acknowledged: the expected
 * number stays where it was, so that the message comes again. A crash or failure between the two
 * may thus repeat a message (with PossDupFlag), and never loses one. */
struct taut_session_store {
    uint32_t size; /* sizeof(struct taut_session_store); 0 = as in version 0.1 */
    void *context;
    /* A message with number `seq` is about to be handed to the outbox. */
    int (*sent)(void *context, uint64_t seq, const uint8_t *message, uint32_t length, int admin);
    /* The next expected number is now `next_in` (called after the owner handled the message). */
    int (*received)(void *context, uint64_t next_in);
    /* Both numbers are 1 again. */
    int (*reset)(void *context);
    /* Bytes of a sent application message, valid until the next call; TAUT_ENOENT = fill the gap.
     */
    int (*fetch)(void *context, uint64_t seq, const uint8_t **message, uint32_t *length);
    /* All that `sent` was given is to be as durable as the store's policy says: nothing of it has
     * left yet. One call may cover many messages. Called by taut_session_flush(). */
    int (*sync)(void *context);
};

/* Zero means the default. Texts are copied by taut_session_init(). Versions in this release:
 * FIX.4.2, 4.3 and 4.4; the others are refused with TAUT_ENOTSUP. */
struct taut_session_config {
    uint32_t size;                   /* sizeof(struct taut_session_config); 0 = as in version 0.1 */
    uint32_t role;                   /* enum taut_role */
    uint32_t version;                /* enum taut_fix_version */
    const char *sender_comp_id;      /* ours, 1..63 bytes */
    const char *target_comp_id;      /* theirs */
    const char *default_appl_ver_id; /* FIXT: tag 1137, e.g. "9" */
    uint32_t heartbeat_s;     /* initiator: HeartBtInt asked for. 0 = 30; UINT32_MAX = none */
    uint32_t heartbeat_min_s; /* acceptor: bounds on the peer's HeartBtInt; 0 = no bound */
    uint32_t heartbeat_max_s;
    uint32_t reset_on_logon;                /* 1: both numbers start at 1 at each logon */
    uint32_t sending_time_tolerance_s;      /* 0 = 120; UINT32_MAX = not checked */
    uint32_t time_digits;                   /* fractional digits of SendingTime: 0 = 3; 3, 6, 9 */
    uint64_t logon_timeout_ns;              /* 0 = 10 s */
    uint64_t logout_timeout_ns;             /* 0 = 2 s */
    uint64_t next_in;                       /* 0 = 1 */
    uint64_t next_out;                      /* 0 = 1 */
    const struct taut_session_store *store; /* NULL = none; must outlive the session */
};

/* Counters since taut_session_init(), read by the owner. */
struct taut_session_stats {
    uint64_t received, sent; /* messages, both kinds */
    uint64_t received_app, sent_app;
    uint64_t heartbeats_received, heartbeats_sent;
    uint64_t test_requests_received, test_requests_sent;
    uint64_t resend_requests_received, resend_requests_sent;
    uint64_t rejects_received, rejects_sent;
    uint64_t gaps, duplicates, garbled;
    uint64_t replayed, gap_fills_sent;
    uint64_t logons, logouts;
};

/* Bytes and alignment (64) that taut_session_init() wants. */
TAUT_API size_t taut_session_footprint(void);

/* Makes a session in the caller's memory, aligned to 64. TAUT_EINVAL with a text that names the
 * field, TAUT_ENOTSUP for a version, TAUT_ENOMEM where `size` is too small. */
TAUT_API int taut_session_init(struct taut_session **session, void *memory, size_t size,
                               const struct taut_session_config *config, struct taut_err *err);

/* A connection is there. Initiator: appends Logon. Returns events. TAUT_SESSION_CLOSE where one is
 * there already: the new connection is to be closed. */
TAUT_API uint32_t taut_session_connected(struct taut_session *s, struct taut_moment now,
                                         struct taut_outbox *out);

/* The connection is gone. Returns events (LOGGED_OUT where it was logged on). */
TAUT_API uint32_t taut_session_disconnected(struct taut_session *s, struct taut_moment now);

/*
 * One scanned message of this connection. With TAUT_SESSION_MESSAGE the owner handles it, then
 * calls taut_session_handled(). Everything else was dealt with.
 */
TAUT_API uint32_t taut_session_receive(struct taut_session *s, const struct taut_message *message,
                                       struct taut_moment now, struct taut_outbox *out);

/* The message of the last TAUT_SESSION_MESSAGE was handled: its number may be persisted. Due
 * exactly once before the next taut_session_receive(). */
TAUT_API uint32_t taut_session_handled(struct taut_session *s);

/* Bytes that were no message: counted; closes before logon. */
TAUT_API uint32_t taut_session_garbled(struct taut_session *s, uint32_t reason,
                                       struct taut_moment now, struct taut_outbox *out);

/* A message that claims to be longer than the limit: Logout with a text, then close. */
TAUT_API uint32_t taut_session_too_big(struct taut_session *s, struct taut_moment now,
                                       struct taut_outbox *out);

/* When taut_session_timer() must be called next; TAUT_NEVER_NS = not; 0 = at once, because events
 * wait (a store that failed in taut_session_commit()). Cheap. */
TAUT_API uint64_t taut_session_deadline_ns(const struct taut_session *s);

/* Heartbeats, test requests, time-outs. Harmless when called early. */
TAUT_API uint32_t taut_session_timer(struct taut_session *s, struct taut_moment now,
                                     struct taut_outbox *out);

/* Continues a replay while the outbox has room; returns TAUT_SESSION_PUMP while more is left. Call
 * it after emptying the outbox. */
TAUT_API uint32_t taut_session_pump(struct taut_session *s, struct taut_moment now,
                                    struct taut_outbox *out);

/* The next queued message whose turn has come, as from taut_session_receive(); *message points to
 * memory of the session, valid until the next call. Returns 0 and NULL when there is none. In this
 * version nothing is queued: what comes ahead of a gap is ignored, and the peer sends it again. */
TAUT_API uint32_t taut_session_drain(struct taut_session *s, struct taut_moment now,
                                     struct taut_outbox *out, const struct taut_message **message);

/*
 * Starts an application message at the end of the outbox: the encoder then stands behind the
 * standard header (35, 34, 49, 52, 56 in this order). `type` is the MsgType's text. Add the body,
 * then commit; nothing else may be appended to the outbox between. A message that was begun and not
 * committed leaves no trace. TAUT_ESTATE where the session is not logged on, TAUT_ENOSPC,
 * TAUT_EINVAL for a type that is empty, longer than 32 bytes or the session layer's own.
 */
TAUT_API int taut_session_begin(struct taut_session *s, struct taut_moment now, const char *type,
                                struct taut_outbox *out, struct taut_encoder *encoder);

/* Finishes, numbers and appends the message. After an error nothing was sent and no number used;
 * where it is the store's error the session is closed, and the next call says so. TAUT_ESTATE also
 * where something else was appended since taut_session_begin(). */
TAUT_API int taut_session_commit(struct taut_session *s, struct taut_outbox *out,
                                 struct taut_encoder *encoder);

/*
 * Answers the message that is being handled, `message` as it was given with TAUT_SESSION_MESSAGE,
 * by a session-level Reject: `reason` is SessionRejectReason (373): 1 required tag missing, 4 no
 * value, 5 value out of range, 6 wrong format; `ref_tag` (371) the tag at fault, 0 = none. Call it
 * before taut_session_handled(), which then tells TAUT_SESSION_REJECTED. 0, TAUT_EINVAL for another
 * reason, TAUT_ESTATE where no message is being handled or the session is closed.
 */
TAUT_API int taut_session_reject(struct taut_session *s, const struct taut_message *message,
                                 uint32_t reason, uint32_t ref_tag, struct taut_moment now,
                                 struct taut_outbox *out);

/* Asks for an orderly end: Logout with `text` (may be NULL; left out where it contains an SOH),
 * then waits for the peer's. What the peer sent before is still delivered, but no longer answered:
 * taut_session_begin() returns TAUT_ESTATE. Before logon the session is closed at once. */
TAUT_API uint32_t taut_session_logout(struct taut_session *s, const char *text,
                                      struct taut_moment now, struct taut_outbox *out);

/*
 * To be called by whoever sends the outbox, before its first byte leaves. Lets the store make
 * durable what was stored since the last call. 0, or the store's code: then nothing of the outbox
 * may be sent, and the session is closed with TAUT_REASON_STORE.
 */
TAUT_API int taut_session_flush(struct taut_session *s);

TAUT_API int taut_session_logged_on(const struct taut_session *s); /* 1 or 0 */
TAUT_API uint32_t taut_session_reason(const struct taut_session *s);
TAUT_API const char *taut_session_reason_text(uint32_t reason);
TAUT_API uint64_t taut_session_next_in(const struct taut_session *s);
TAUT_API uint64_t taut_session_next_out(const struct taut_session *s);
TAUT_API const char *taut_session_sender(const struct taut_session *s);
TAUT_API const char *taut_session_target(const struct taut_session *s);
TAUT_API uint32_t taut_session_heartbeat_s(const struct taut_session *s); /* in effect */
TAUT_API void taut_session_stats(const struct taut_session *s, struct taut_session_stats *stats);

/* "FIX.4.4" ... "FIXT.1.1", and back (-1: unknown). */
TAUT_API const char *taut_fix_version_text(uint32_t version);
TAUT_API int taut_fix_version_from(const uint8_t *text, uint32_t length);

#ifdef __cplusplus
}
#endif
#endif
