/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/internal.h - what the files of this room share.
 *
 * One worker thread owns everything below `struct taut__worker` except the few atomics and the
 * inbox, which say so. A connection never leaves the worker that took it up. The registry of
 * CompIDs is the only thing that workers share; its lock is taken at logon and logout only.
 *
 * A connection lives through UNKNOWN (connected, no session yet), OPEN (a session is attached) and
 * CLOSING (the session is released, last bytes are on their way). Nothing frees a connection while
 * a handler or a loop still looks at it: the functions below mark it, and taut__settle(), called
 * last by whoever touched a connection, does what the marks demand.
 */
#ifndef TAUT_GATEWAY_INTERNAL_H
#define TAUT_GATEWAY_INTERNAL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/clock.h>
#include <taut/gateway.h>
#include <taut/wait.h>

#include "base/check.h"

#define TAUT__WORKERS_MAX    64u
#define TAUT__COMP_ID_MAX    64u
#define TAUT__BUFFERS        64u
#define TAUT__BUFFER_BYTES   16384u
#define TAUT__OUTBOX_BYTES   (256u * 1024u)
#define TAUT__MESSAGE_EXTRA  2048u /* what a session's own message or header may add to a body */
#define TAUT__POLL_MOST      64u
#define TAUT__UTC_REFRESH_NS (100 * TAUT_NS_PER_MS)
#define TAUT__CPU_REFRESH_NS TAUT_NS_PER_S
#define TAUT__LINGER_NS      (200 * TAUT_NS_PER_MS) /* for the peer to read our last bytes */
#define TAUT__LAST_BYTES_NS  TAUT_NS_PER_S          /* for unsent bytes of a closing connection */
#define TAUT__KEEP_BYTES     65536u /* pages of a region that a successor inherits */

/* Counters with one writer; any thread may read. */
#define TAUT__COUNTERS(X)                                                                          \
    X(accepted)                                                                                    \
    X(closed)                                                                                      \
    X(refused)                                                                                     \
    X(logons)                                                                                      \
    X(logouts)                                                                                     \
    X(messages_in)                                                                                 \
    X(messages_out)                                                                                \
    X(app_in)                                                                                      \
    X(app_out)                                                                                     \
    X(bytes_in)                                                                                    \
    X(bytes_out)                                                                                   \
    X(garbled)                                                                                     \
    X(too_big)                                                                                     \
    X(rejected)                                                                                    \
    X(bytes_assembled)                                                                             \
    X(sends)                                                                                       \
    X(sends_short)                                                                                 \
    X(send_queue_peak)                                                                             \
    X(slow_closed)                                                                                 \
    X(logon_timeouts)                                                                              \
    X(connections)                                                                                 \
    X(connections_peak)                                                                            \
    X(cpu_ns)                                                                                      \
    X(bytes_held)                                                                                  \
    X(pauses)                                                                                      \
    X(bad_logons)                                                                                  \
    X(duplicate_logons)                                                                            \
    X(cut)

struct taut__counters {
#define TAUT__DECLARE(name) _Atomic uint64_t name;
    TAUT__COUNTERS(TAUT__DECLARE)
#undef TAUT__DECLARE
    _Atomic int32_t cpu_bound;
    _Atomic uint32_t tid;
    _Atomic(struct taut_port *) port; /* the thread's own, once made: for readers of statistics */
};

/* A thread of the gateway has made its port, which lives until destroy. */
static inline void taut__port_show(struct taut__counters *counters, struct taut_port *port)
{
    atomic_store_explicit(&counters->port, port, memory_order_release); /* with taut__port_seen() */
}

/* For other threads, while the gateway may be starting: NULL before the port is there, whole. */
static inline struct taut_port *taut__port_seen(const struct taut__counters *counters)
{
    return atomic_load_explicit((_Atomic(struct taut_port *) *)&counters->port,
                                memory_order_acquire); /* pairs with taut__port_show() */
}

/* Relaxed: a counter orders nothing, and has one writer. */
static inline void taut__count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline void taut__set(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static inline uint64_t taut__get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)counter, memory_order_relaxed);
}

static inline void taut__peak(_Atomic uint64_t *counter, uint64_t value)
{
    if (value > taut__get(counter))
        taut__set(counter, value);
}

/* --- registry.c ------------------------------------------------------------------------------ */

/* A session and who may claim it. Static ones are made by create, dynamic ones at logon. */
struct taut__entry {
    struct taut__entry *next; /* hash chain; registry lock */
    struct taut_session *session;
    void *memory;       /* taut_session_footprint() bytes */
    uint32_t connected; /* registry lock */
    uint32_t dynamic;
    uint32_t version;
    uint32_t ours_length, theirs_length;
    uint8_t ours[TAUT__COMP_ID_MAX], theirs[TAUT__COMP_ID_MAX];
};

struct taut__registry {
    pthread_mutex_t lock;
    struct taut__entry **buckets;
    uint32_t bucket_mask;
    struct taut__entry *entries; /* the static ones */
    uint32_t entry_count;
    void *memory; /* their sessions */
    size_t memory_bytes;
    struct taut_session_config pattern; /* for dynamic ones */
    uint32_t any_target;
};

enum taut__claim { TAUT__CLAIM_GOOD, TAUT__CLAIM_UNKNOWN, TAUT__CLAIM_DUPLICATE };

int taut__registry_init(struct taut__registry *registry, const struct taut_gateway_options *options,
                        struct taut_err *err);
void taut__registry_free(struct taut__registry *registry);

/* Finds and takes the session of a Logon; `spare` becomes a dynamic entry where that is allowed. */
enum taut__claim taut__registry_claim(struct taut__registry *registry,
                                      const struct taut_message *logon, struct taut__entry *spare,
                                      struct taut__entry **entry);
void taut__registry_release(struct taut__registry *registry, struct taut__entry *entry);

/* --- the worker ------------------------------------------------------------------------------ */

enum taut__state { TAUT__FREE = 0, TAUT__UNKNOWN, TAUT__OPEN, TAUT__CLOSING };

struct taut__connection {
    alignas(TAUT_LINE_BYTES) struct taut_conn conn;
    uint32_t index;
    uint32_t state;    /* enum taut__state */
    uint8_t logged_on; /* between LOGGED_ON and LOGGED_OUT */
    uint8_t paused;    /* input waits until the peer has read */
    uint8_t failed;    /* the transport is gone, or the peer is to be cut: reset at settle */
    uint8_t linger;    /* CLOSING: let the peer read and close first */
    uint8_t shut;      /* CLOSING: our side is ended, the peer's is awaited */
    uint8_t pump;      /* a replay is pending */
    uint8_t drain;     /* queued messages are next */
    uint8_t resume;    /* held input is to be looked at */
    uint8_t listed;    /* in the worker's list of connections that have work */
    struct taut__entry *entry;
    struct taut_session *session;
    uint64_t user;      /* the application's word */
    uint64_t sent_seen; /* of the session's `sent` counter, already in messages_out */
    uint64_t logon_deadline_ns;
    uint64_t close_deadline_ns;

    uint8_t *held; /* input that could not be handled where it was received */
    uint32_t held_begin, held_end, held_peak;
    uint32_t need; /* bytes from held_begin on that complete the next step */

    uint8_t *queue; /* output that the transport did not take */
    uint32_t queue_begin, queue_end, queue_peak;
    uint64_t queue_mark; /* the slow clock: when queue_sent reaches it, it is set anew */
    uint64_t queue_put, queue_sent;
    uint64_t slow_deadline_ns;

    uint64_t wake_ns;    /* key in the heap; may be earlier than what is due, never later */
    uint32_t heap_index; /* 1-based; 0 = not in it */
    struct taut__connection *list_next, *list_previous;
    struct taut__connection *free_next;
    struct taut__entry spare; /* for a dynamic session */
};

struct taut_call {
    struct taut__worker *worker;
    struct taut__connection *connection;
};

/* Places that may log; each has its own limit in each worker. */
enum taut__place {
    TAUT__LOG_LOGON,
    TAUT__LOG_CLOSE,
    TAUT__LOG_GARBAGE,
    TAUT__LOG_REFUSED,
    TAUT__LOG_TIMEOUT,
    TAUT__LOG_SLOW,
    TAUT__LOG_TRANSPORT,
    TAUT__LOG_PLACES
};

struct taut__worker {
    struct taut_gateway *gateway;
    uint32_t index;
    uint32_t stopping; /* own copy of "a stop was asked for" */
    pthread_t thread;
    struct taut_port *port;
    struct taut_conn listener; /* shape single */
    struct taut_moment moment; /* of this batch */
    uint64_t utc_offset_ns, utc_refresh_ns, cpu_refresh_ns;
    uint32_t dirty; /* did something since cpu_ns was refreshed */
    uint32_t active;
    taut_scan_function *scan;
    struct taut_outbox outbox;
    struct taut_call call;
    uint64_t unique; /* last number given by taut_call_unique() */

    struct taut__connection *connections;
    uint32_t capacity;
    uint32_t heap_count;
    struct taut__connection *free_list;
    struct taut__connection *work; /* doubly linked, circular */
    struct taut__connection **heap;
    uint8_t *regions; /* held and queue regions; untouched pages cost nothing */
    uint8_t *session_memory;
    struct taut_log_limit limits[TAUT__LOG_PLACES];
    struct taut_message message;
    struct taut_completion completions[TAUT__POLL_MOST];

    /* Written by other threads. */
    alignas(TAUT_LINE_BYTES) pthread_mutex_t inbox_lock;
    int *inbox; /* accepted sockets on their way here; at most `capacity` */
    uint32_t inbox_count;
    _Atomic uint32_t inbox_filled;
    alignas(TAUT_LINE_BYTES) _Atomic uint32_t assigned; /* connections here or on their way here */

    alignas(TAUT_LINE_BYTES) struct taut__counters counters;
    alignas(TAUT_LINE_BYTES) char end[1];
};

struct taut__acceptor {
    struct taut_gateway *gateway;
    pthread_t thread;
    struct taut_port *port;
    struct taut_log_limit limit;
    alignas(TAUT_LINE_BYTES) struct taut__counters counters;
};

struct taut_gateway {
    struct taut_gateway_options options; /* in effect */
    struct taut__registry registry;
    struct taut__worker *workers;
    struct taut__acceptor acceptor;
    uint32_t held_limit, held_region, queue_region; /* bytes a connection */
    uint32_t pause_mark, resume_mark;               /* bytes unsent */
    uint32_t outbox_mark;                           /* flush above it */
    uint32_t outbox_room;                           /* most that one call may append */
    size_t region_bytes;
    size_t session_stride;
    uint32_t started, acceptor_started, over;
    _Atomic uint32_t port_number;
    _Atomic uint32_t acceptor_stop;
    _Atomic uint32_t cut_now;          /* 1: a stop waits for nobody any more */
    _Atomic uint64_t stop_deadline_ns; /* 0 = run */
    _Atomic uint32_t total;            /* connections over all workers; its peak: total_peak */
    _Atomic uint64_t total_peak;

    /* Made by start: threads begin one after another, and each publishes once when it serves or has
     * written why it can't. */
    struct taut_event reported;
    int start_code;
    struct taut_err start_err;
};

void *taut__worker_main(void *worker);
void *taut__acceptor_main(void *acceptor);

/* Tells the thread in taut_gateway_start() that this thread serves (0), or why it can't. */
void taut__report_ready(struct taut_gateway *gateway, int code, const struct taut_err *err);

int taut__worker_create(struct taut__worker *worker, struct taut_gateway *gateway, uint32_t index,
                        uint32_t capacity, struct taut_err *err);
void taut__worker_free(struct taut__worker *worker);

/* Called by the acceptor; the socket is the worker's afterwards. */
void taut__worker_hand_over(struct taut__worker *worker, int fd);

/* The connection is to be woken at `deadline_ns` or earlier. */
void taut__timer_arm(struct taut__worker *worker, struct taut__connection *c, uint64_t deadline_ns);
void taut__timer_remove(struct taut__worker *worker, struct taut__connection *c);

/* The connection wants a turn of its own although nothing happened on its transport. */
void taut__work_add(struct taut__worker *worker, struct taut__connection *c);
void taut__work_remove(struct taut__worker *worker, struct taut__connection *c);

/* --- connection.c: input, sessions, life and death ------------------------------------------- */

void taut__connection_open(struct taut__worker *worker, struct taut__connection *c,
                           struct taut_conn conn);
void taut__connection_input(struct taut__worker *worker, struct taut__connection *c,
                            const uint8_t *data, uint32_t length);
void taut__connection_writable(struct taut__worker *worker, struct taut__connection *c);
void taut__connection_closed(struct taut__worker *worker, struct taut__connection *c, int32_t code);
void taut__connection_timer(struct taut__worker *worker, struct taut__connection *c);
void taut__connection_work(struct taut__worker *worker, struct taut__connection *c);
void taut__connection_stop(struct taut__worker *worker, struct taut__connection *c);
void taut__connection_cut(struct taut__worker *worker, struct taut__connection *c);

/* Acts on a set of session events; `message` is what the session was given. */
void taut__connection_events(struct taut__worker *worker, struct taut__connection *c,
                             const struct taut_message *message, uint32_t events);

/* Lets go of the session and begins to close; bytes that are in the outbox still go out. */
void taut__connection_leave(struct taut__worker *worker, struct taut__connection *c, int linger);

/* Sends, closes and re-arms as the marks of `c` say. The last thing done to a connection. */
void taut__settle(struct taut__worker *worker, struct taut__connection *c);

/* Logs "PEER OURS->THEIRS: text", bounded by the place's limit. */
void taut__connection_log(struct taut__worker *worker, struct taut__connection *c,
                          enum taut__place place, uint32_t level, const char *format, ...)
    TAUT_PRINTF(5, 6);

/* --- input.c --------------------------------------------------------------------------------- */

/* Looks at input that is held; after a pause. */
void taut__input_resume(struct taut__worker *worker, struct taut__connection *c);

/* Hands over queued messages of the session until there are none or the connection is paused. */
void taut__input_drain(struct taut__worker *worker, struct taut__connection *c);

/* --- output.c -------------------------------------------------------------------------------- */

static inline uint32_t taut__queued(const struct taut__connection *c)
{
    return c->queue_end - c->queue_begin;
}

/* Sends what is in the outbox, after what is queued; keeps the rest, or marks the connection. */
void taut__output_flush(struct taut__worker *worker, struct taut__connection *c);

/* Sends from the queue. */
void taut__output_continue(struct taut__worker *worker, struct taut__connection *c);

/* Due before each call of a session: leaves room in the outbox for what it may append, and no more
 * than the connection's queue can take in any case. */
void taut__output_make_room(struct taut__worker *worker, struct taut__connection *c);

/* 1: the peer reads too little for its input to be handled now. */
int taut__output_congested(const struct taut__worker *worker, const struct taut__connection *c);

/* Brings messages_out up to date after the session itself may have written. */
void taut__output_account(struct taut__worker *worker, struct taut__connection *c);

/* The peer was too slow, in bytes or in time. */
void taut__output_too_slow(struct taut__worker *worker, struct taut__connection *c,
                           const char *bound);

#endif
