/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/gateway.h - FIX acceptor sessions over ports and worker threads.
 *
 * Shapes: `single` - the one worker accepts and serves; `owned` - an acceptor thread accepts and
 * moves each socket to one of K workers before its first byte; each worker has its own port.
 *
 * A handler sees a scanned message in place and answers with taut_gateway_begin() and
 * taut_gateway_commit(). What a chunk of input produced goes out in one send. A peer that does not
 * read is bounded in bytes and time and never holds up another session. Input is handled where it
 * was received; only the tail of a message that is split over two receives is copied, once.
 *
 * Threads: create, start, stop, destroy from one controlling thread; what reads (stats, port,
 * workers, effective) and cut from any, from create until destroy. Handlers run on worker threads:
 * one worker's calls are serial, `worker` tells which. Blocking: stop() until its deadline.
 * Allocation: none by a worker after its start, as long as handlers do not allocate.
 */
#ifndef TAUT_GATEWAY_H
#define TAUT_GATEWAY_H

#include <stddef.h>
#include <stdint.h>

#include <taut/encode.h>
#include <taut/err.h>
#include <taut/log.h>
#include <taut/port.h>
#include <taut/scan.h>
#include <taut/session.h>
#include <taut/topology.h>

#ifdef __cplusplus
extern "C" {
#endif

struct taut_gateway; /* opaque */
struct taut_call;    /* opaque: the connection that a handler is called for */

enum taut_shape { TAUT_SHAPE_SINGLE = 0, TAUT_SHAPE_OWNED = 1 };

/* What the application does. All members but on_message may be NULL. */
struct taut_handler {
    const char *name;
    void *context;
    /* An application message in sequence. Its bytes are valid during the call only. */
    void (*on_message)(void *context, struct taut_call *call, const struct taut_message *message);
    void (*on_logon)(void *context, struct taut_call *call);
    void (*on_logout)(void *context, struct taut_call *call);
    /* Called once on each worker thread before it serves; may allocate. */
    int (*on_worker)(void *context, uint32_t worker, uint32_t workers);
};

/* NewOrderSingle -> one ExecutionReport, filled at the order's price; 212 bytes for the load
 * generator's default order. Other types: BusinessMessageReject. */
TAUT_API const struct taut_handler *taut_handler_fill(void);

/* Any application message -> the same message back, body fields as they came. */
TAUT_API const struct taut_handler *taut_handler_echo(void);

/* "fill" or "echo"; NULL for another name. */
TAUT_API const struct taut_handler *taut_handler_named(const char *name);

/* Zero means the default. Texts must outlive the gateway. */
struct taut_gateway_options {
    uint32_t size;        /* sizeof(struct taut_gateway_options); 0 = as in version 0.1 */
    uint32_t shape;       /* enum taut_shape */
    uint32_t workers;     /* owned: 1..64; 0 = the topology's width less one, at least 1 */
    uint32_t port_kind;   /* enum taut_port_kind */
    uint32_t busy_poll;   /* 1: workers never sleep */
    const char *host;     /* NULL = 127.0.0.1 */
    uint16_t port_number; /* 0 = any free one */
    uint16_t reserved;
    uint32_t connections;      /* most at a time over all workers; 0 = 1,024 */
    uint32_t message_bytes;    /* longest message; 0 = 64 KiB */
    uint32_t send_queue_bytes; /* what a slow consumer may have queued; 0 = 1 MiB, or what two of
                                  the longest messages take where that is more */
    uint64_t slow_consumer_ns; /* how long it may stay so; 0 = 10 s */
    uint64_t logon_timeout_ns; /* connect to complete Logon; 0 = 5 s */
    uint32_t scan_variant;     /* enum taut_scan_variant */
    const struct taut_cpuset
        *cpus; /* worker i is bound to the i-th CPU, cyclically; NULL = unbound */
    /* Whom to accept; role is ignored. They lie as far apart as the size of the first says. */
    const struct taut_session_config *sessions;
    uint32_t session_count;
    uint32_t any_target; /* 1: a Logon whose TargetCompID is sessions[0]'s sender is accepted
                            for any SenderCompID, with the settings of sessions[0] */
    const struct taut_handler *handler; /* NULL = fill */
    const struct taut_log *log;         /* NULL = none */
    uint64_t spin_ns; /* how long a worker looks before it sleeps: struct taut_port_options. Read
                         back from the ports once started */
};

/* One worker's counters, or the sum of all. */
struct taut_gateway_stats {
    uint64_t accepted, closed, refused;
    uint64_t logons, logouts;
    uint64_t messages_in, messages_out; /* admin and application */
    uint64_t app_in, app_out;
    uint64_t bytes_in, bytes_out;
    uint64_t garbled, too_big, rejected;
    uint64_t bytes_assembled; /* bytes copied because a message was split */
    uint64_t sends, sends_short;
    uint64_t send_queue_peak; /* bytes, most of any session */
    uint64_t slow_closed, logon_timeouts;
    uint64_t connections, connections_peak;
    uint64_t bytes_held;       /* bytes copied because the peer did not read its answers */
    uint64_t pauses;           /* times that a connection's input had to wait for that */
    uint64_t bad_logons;       /* first message no Logon, or one that names no session of ours */
    uint64_t duplicate_logons; /* Logon for a session that is connected */
    uint64_t cut;              /* connections that taut_gateway_stop() had to cut */
    uint64_t cpu_ns;           /* CPU time of the thread, refreshed about once a second */
    int32_t cpu_bound;         /* the CPU it is bound to and was read back on; -1 = none */
    uint32_t tid;
    struct taut_port_stats port;
};

TAUT_API int taut_gateway_create(struct taut_gateway **gateway,
                                 const struct taut_gateway_options *options, struct taut_err *err);

/* Binds the address and starts the threads; when it returns 0, connections are accepted. */
TAUT_API int taut_gateway_start(struct taut_gateway *gateway, struct taut_err *err);

/* The TCP port that it listens on; 0 before it does. */
TAUT_API uint16_t taut_gateway_port(const struct taut_gateway *gateway);

/* Stops accepting, logs sessions out, ends the threads. Sessions that do not answer by the
 * deadline are cut. Returns 0, or TAUT_ETIMEDOUT when some were. */
TAUT_API int taut_gateway_stop(struct taut_gateway *gateway, uint64_t deadline_ns);

/* Ends the waiting of a taut_gateway_stop() that is under way, or of the next one: what has not
 * logged out is cut now. Any thread, from create until destroy. */
TAUT_API void taut_gateway_cut(struct taut_gateway *gateway);

TAUT_API void taut_gateway_destroy(struct taut_gateway *gateway);

/* worker UINT32_MAX = the sum. Any thread, from create until destroy: what a thread of the gateway
 * has not made yet, because taut_gateway_start() has not returned or was never called, counts as
 * zeros (cpu_bound -1). 0, or TAUT_EINVAL: no such worker; then it is all zeros, too. */
TAUT_API int taut_gateway_stats(const struct taut_gateway *gateway, uint32_t worker,
                                struct taut_gateway_stats *stats);

TAUT_API uint32_t taut_gateway_workers(const struct taut_gateway *gateway);

/* The options in effect after defaults, before start those that were given. options->size is the
 * caller's, as where options are given. 0, or TAUT_EINVAL: no version has that size; nothing is
 * written. */
TAUT_API int taut_gateway_effective(const struct taut_gateway *gateway,
                                    struct taut_gateway_options *options);

/* --- inside a handler ------------------------------------------------------------------------ */

/* The session of this call. */
TAUT_API struct taut_session *taut_call_session(struct taut_call *call);

/* Which worker this is. */
TAUT_API uint32_t taut_call_worker(const struct taut_call *call);

/* The moment at which the input was received, as given to the session. */
TAUT_API struct taut_moment taut_call_moment(const struct taut_call *call);

/* A word of the application for this connection, 0 at first. */
TAUT_API uint64_t *taut_call_user(struct taut_call *call);

/* Starts and completes an answer on this session; see taut_session_begin(). */
TAUT_API int taut_gateway_begin(struct taut_call *call, const char *type,
                                struct taut_encoder *encoder);
TAUT_API int taut_gateway_commit(struct taut_call *call, struct taut_encoder *encoder);

/* Answers the message at hand by a session-level Reject; see taut_session_reject(). */
TAUT_API int taut_gateway_reject(struct taut_call *call, const struct taut_message *message,
                                 uint32_t reason, uint32_t ref_tag);

/* A number from 1 on that no other call of this gateway gets; within a worker they go up. */
TAUT_API uint64_t taut_call_unique(struct taut_call *call);

TAUT_API const char *taut_shape_name(uint32_t shape);
TAUT_API int taut_shape_from(const char *name); /* -1: unknown */

#ifdef __cplusplus
}
#endif
#endif
