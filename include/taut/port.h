/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/port.h - stream transports in completion style.
 *
 * A port owns connections. taut_port_poll() gives completions; a RECEIVED completion borrows a
 * buffer of the port, which the owner gives back with taut_port_release() as soon as it can: while
 * all buffers are borrowed, nothing more is received (counted as `starved`). taut_port_send() says
 * how many bytes it took; when it took less than all, the owner keeps the rest and gets a WRITABLE
 * completion once there is room again.
 *
 * The style is that of the hardest transport, so that an io_uring or kernel-bypass kind is another
 * set of functions and not another interface. Received bytes have TAUT_SCAN_PADDING readable bytes
 * behind them.
 *
 * Threads: exactly one owner thread calls everything but taut_port_wake(), which any thread and a
 * signal handler may call. Blocking: taut_port_poll() until its deadline only. Allocation: none
 * after taut_port_create(). Ownership: connections are named by a handle with a generation, so that
 * a stale one is refused (TAUT_ENOENT) instead of hitting its successor.
 */
#ifndef TAUT_PORT_H
#define TAUT_PORT_H

#include <stddef.h>
#include <stdint.h>

#include <taut/err.h>

#ifdef __cplusplus
extern "C" {
#endif

struct taut_port; /* opaque */

/* A connection or listener of one port. 0 is never valid. */
struct taut_conn {
    uint32_t id;
};

enum taut_port_kind { TAUT_PORT_EPOLL = 0 };

enum taut_completion_kind {
    TAUT_PORT_ACCEPTED = 1, /* conn is new, from listener `listener`; it belongs to this port */
    TAUT_PORT_ACCEPTED_FD,  /* the same for a listener with `hand_off`: fd is the caller's */
    TAUT_PORT_CONNECTED,    /* taut_port_connect() succeeded */
    TAUT_PORT_RECEIVED,     /* data[0..length); release `buffer` */
    TAUT_PORT_WRITABLE,     /* send would take bytes again */
    TAUT_PORT_CLOSED, /* the peer closed or the connection failed (`code`); the handle is dead */
    TAUT_PORT_WOKEN   /* taut_port_wake() was called, once or more */
};

struct taut_completion {
    uint32_t kind;
    struct taut_conn conn;
    int32_t code;        /* CLOSED: 0 = orderly, else enum taut_code */
    int32_t fd;          /* ACCEPTED_FD */
    uint64_t user;       /* the word set by taut_port_set_user() */
    const uint8_t *data; /* RECEIVED */
    uint32_t length;
    uint32_t buffer; /* RECEIVED: for taut_port_release() */
};

/* Zero means the default. */
struct taut_port_options {
    uint32_t size;              /* sizeof(struct taut_port_options) */
    uint32_t kind;              /* enum taut_port_kind */
    uint32_t connections;       /* most at a time, listeners included; 0 = 1,024 */
    uint32_t buffers;           /* receive buffers; 0 = 64 */
    uint32_t buffer_bytes;      /* bytes of one; 0 = 16 KiB */
    uint32_t busy_poll;         /* 1: taut_port_poll() never sleeps; it returns 0 at the deadline */
    uint32_t delay;             /* 1: leave Nagle's algorithm on (TCP_NODELAY is set otherwise) */
    uint32_t send_buffer_bytes; /* SO_SNDBUF; 0 = the system's */
    uint32_t receive_buffer_bytes; /* SO_RCVBUF; 0 = the system's */
};

/* What is in effect, read back, and counters. Written by the owner, readable by any thread. */
struct taut_port_stats {
    uint64_t polls, polls_empty, sleeps; /* sleeps: polls that entered the kernel to block */
    uint64_t receives, receive_bytes;    /* successful receive calls */
    uint64_t sends, send_bytes, sends_short;
    uint64_t accepted, connected, closed;
    uint64_t starved; /* polls that stopped for want of buffers */
    uint64_t refused; /* accepted and closed at once: too many connections */
    uint64_t wakes;
    uint64_t connections_peak;
    uint64_t buffers_peak; /* most borrowed at a time */
};

/* Creates a port. `options` may be NULL. */
TAUT_API int taut_port_create(struct taut_port **port, const struct taut_port_options *options,
                              struct taut_err *err);

/* Closes all connections and frees everything. Borrowed buffers are invalid afterwards. */
TAUT_API void taut_port_destroy(struct taut_port *port);

/*
 * Listens on `host`:`port_number` (numeric address or name; port 0 = any free one). With
 * `hand_off` accepted sockets are not registered here but given out as ACCEPTED_FD, to be adopted
 * by another port before their first byte is read. Returns 0, TAUT_EADDRINUSE, TAUT_EACCES,
 * TAUT_ENOENT.
 */
TAUT_API int taut_port_listen(struct taut_port *port, const char *host, uint16_t port_number,
                              uint32_t hand_off, struct taut_conn *listener, struct taut_err *err);

/* The local TCP port of a listener or connection, 0 for a stale handle. */
TAUT_API uint16_t taut_port_local(const struct taut_port *port, struct taut_conn conn);

/* "address:port" of the peer, always terminated. Returns its length, 0 for a stale handle. */
TAUT_API size_t taut_port_peer(const struct taut_port *port, struct taut_conn conn, char *text,
                               size_t capacity);

/* Starts to connect; CONNECTED or CLOSED follows. Only name resolution may block. */
TAUT_API int taut_port_connect(struct taut_port *port, const char *host, uint16_t port_number,
                               uint64_t user, struct taut_conn *conn, struct taut_err *err);

/* Takes over a connected stream socket; on success the descriptor belongs to the port. */
TAUT_API int taut_port_adopt(struct taut_port *port, int fd, uint64_t user, struct taut_conn *conn,
                             struct taut_err *err);

/* Sets the word that each completion of the connection carries. */
TAUT_API int taut_port_set_user(struct taut_port *port, struct taut_conn conn, uint64_t user);

/*
 * Waits until `deadline_ns` (CLOCK_MONOTONIC; 0 = look once, TAUT_NEVER_NS = no end) for
 * completions and stores up to `most`. Returns how many; 0 = the deadline passed. Order within one
 * connection is kept; CLOSED is always its last.
 */
TAUT_API int taut_port_poll(struct taut_port *port, struct taut_completion *completions,
                            uint32_t most, uint64_t deadline_ns);

/* Gives a borrowed buffer back. Each exactly once. */
TAUT_API void taut_port_release(struct taut_port *port, uint32_t buffer);

/* Sends; returns the bytes taken (0..length), or TAUT_ENOENT, TAUT_ECONNRESET. Never blocks. */
TAUT_API int64_t taut_port_send(struct taut_port *port, struct taut_conn conn, const void *data,
                                size_t length);

/* Closes at once; no further completion for this handle. `reset`: 1 = RST instead of FIN. */
TAUT_API int taut_port_close(struct taut_port *port, struct taut_conn conn, uint32_t reset);

/* Makes the current or next poll return a WOKEN completion. Any thread; async-signal-safe. */
TAUT_API void taut_port_wake(struct taut_port *port);

TAUT_API void taut_port_stats(const struct taut_port *port, struct taut_port_stats *stats);

/* The options in effect after defaults and read-back. */
TAUT_API void taut_port_effective(const struct taut_port *port, struct taut_port_options *options);

TAUT_API const char *taut_port_kind_name(uint32_t kind);
TAUT_API int taut_port_kind_from(const char *name); /* -1: unknown */

#ifdef __cplusplus
}
#endif
#endif
