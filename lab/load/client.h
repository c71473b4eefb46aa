/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/client.h - inside a client process: one port, its links (a connection with its session), and
 * what is in flight. client.c leads through the life of the process, traffic.c moves the bytes,
 * answer.c decides what a message of the peer means.
 */
#ifndef LAB_LOAD_CLIENT_H
#define LAB_LOAD_CLIENT_H

#include <stdatomic.h>

#include <taut/scan.h>
#include <taut/session.h>

#include "capture/raw.h"
#include "load/load.h"
#include "load/order.h"

#define CLIENT_BATCH        64u
#define CLIENT_OUTBOX_BYTES 4096u
#define CLIENT_TICK_NS      (5 * TAUT_NS_PER_MS)
#define CLIENT_TEXT_BYTES   96u

enum link_state {
    LINK_IDLE = 0,
    LINK_CONNECTING,
    LINK_LOGGING_ON,
    LINK_READY,
    LINK_LOGGING_OUT,
    LINK_CLOSED
};

struct load_link {
    struct taut_session *fix; /* NULL in echo mode */
    struct load_marker *marker;
    struct raw_record *record; /* of the request in flight */
    uint64_t outstanding_id;   /* 0 = none */
    uint64_t begin_ns;
    uint64_t remaining; /* messages to send in this phase */
    uint64_t sent, answered;
    uint64_t activity_ns;
    uint64_t last_answered_id;
    struct taut_conn conn;
    uint32_t number; /* within the whole run */
    uint32_t state;  /* enum link_state */
    uint32_t busy;   /* 1: has not finished the phase */
    struct taut_outbox out;
    uint32_t out_done; /* bytes of the outbox that the port took */
    uint8_t *tail;     /* begin of a message whose end has not come */
    uint32_t tail_length;
    uint64_t bytes_received;
    struct load_echo *echo; /* NULL in FIX mode */
    uint32_t echo_got;
};

struct load_client {
    const struct load_control *control;
    const struct load_plan *plan;
    struct load_process *self;
    uint32_t process;
    struct taut_port *port;
    struct load_link *links;
    uint32_t count;
    uint32_t ready, closed;
    uint32_t connecting; /* links between connect and ready */
    uint32_t message_bytes;
    uint64_t stall_timeout_ns, logon_timeout_ns;

    /* the present phase */
    uint32_t phase;   /* enum load_phase */
    uint32_t sending; /* 1: an answered link sends its next request */
    uint32_t timed;   /* 1: until deadline_ns, 0: until `remaining` is 0 */
    uint32_t busy;    /* links that have not finished it */
    uint32_t ending;  /* 1: logouts and closes are wanted */
    uint64_t deadline_ns;
    struct load_account account;
    uint64_t flight; /* requests in flight */

    struct raw_writer *writer;
    struct taut_cpuset other_cpus; /* where this process may run, less the client's own CPU */
    uint64_t ordinal;              /* requests of this process so far */
    uint64_t utc_offset_ns;
    uint64_t now_ns;   /* when the last poll returned */
    uint64_t worst_ns; /* of this run */
    uint64_t tick_ns;
    uint32_t tick_link;
    uint32_t fault; /* enum load_fault */

    struct load_order order;
    taut_scan_function *scan;
    struct taut_message message;
    char peer_text[CLIENT_TEXT_BYTES]; /* tag 58 of the peer's last Logout or Reject */

    void *session_memory;
    uint8_t *outboxes;
    uint8_t *tails;
    size_t tails_bytes;
    struct load_echo *echoes;
};

/* Records the fault of this process (the first one counts). */
void load_client_fault(struct load_client *c, uint32_t fault, int code, const char *format, ...)
    TAUT_PRINTF(4, 5);

/* "session 7 (LOAD0008)" */
const char *load_link_name(const struct load_client *c, const struct load_link *link, char *text,
                           size_t capacity);

static inline struct taut_moment load_moment(const struct load_client *c)
{
    struct taut_moment moment = {c->now_ns, c->now_ns + c->utc_offset_ns};
    return moment;
}

/* --- traffic.c ------------------------------------------------------------------------------- */

/* One poll until `deadline_ns`, everything that it gave, timers. */
void load_pump(struct load_client *c, uint64_t deadline_ns);

/* Sends what the link's outbox holds, as far as the port takes it. */
void load_flush(struct load_client *c, struct load_link *link);

/* Sends the next request of a link; the link must have none in flight. */
void load_send(struct load_client *c, struct load_link *link);

/* The link has nothing more to do in this phase. */
void load_link_done(struct load_client *c, struct load_link *link);

/* The connection is over, in whatever way; `code` as in the CLOSED completion. */
void load_link_closed(struct load_client *c, struct load_link *link, int code);

/* --- answer.c -------------------------------------------------------------------------------- */

/* Bytes of the peer. */
void load_received(struct load_client *c, struct load_link *link, const uint8_t *data,
                   uint32_t length);

/* What a session wants after any of its calls; `message` may be NULL. */
void load_session_events(struct load_client *c, struct load_link *link, uint32_t events,
                         const struct taut_message *message);

#endif
