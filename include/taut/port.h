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
 * Handles carry a generation: a stale one is refused (TAUT_ENOENT) instead of hitting its
 * successor. One poll gives at most one completion of a connection, so an owner that closes the
 * connection it is just handling meets no later completion of it. An owner that closes *another*
 * connection while it works through a batch may find a completion of that one further on:
 * taut_port_live() is then 0; skip it (`user` may point to what is gone by now), but do release the
 * buffer of a RECEIVED. A successor of a closed connection never has the same handle.
 *
 * An end comes alone: bytes that arrived before it are given first, and the answer to them can
 * still be sent, because CLOSED is not in the same batch. A peer that only shut down its sending
 * side counts as closed.
 *
 * Threads: exactly one owner thread calls everything but taut_port_wake(), which any thread and a
 * signal handler may call, and taut_port_stats(). The owner is whoever polls first; a port may be
 * created, and listen, on another thread before, and be destroyed on another once the owner is done
 * with it. After the first poll, each call that changes the port aborts on any other thread, unless
 * the library was compiled with NDEBUG. Blocking: taut_port_poll() until its deadline, and
 * name resolution. Allocation: none after taut_port_create(), except by the resolver for a name
 * that is not a numeric address.
 */
#ifndef TAUT_PORT_H
#define TAUT_PORT_H

#include <stddef.h>
#include <stdint.h>

#include <taut/err.h>
#include <taut/wait.h>

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
    TAUT_PORT_ACCEPTED = 1, /* conn is new and belongs to this port; user is its listener's */
    TAUT_PORT_ACCEPTED_FD,  /* from listener conn with `hand_off`: fd is the caller's */
    TAUT_PORT_CONNECTED,    /* taut_port_connect() succeeded */
    TAUT_PORT_RECEIVED,     /* data[0..length); release `buffer` */
    TAUT_PORT_WRITABLE,     /* send would take bytes again */
    TAUT_PORT_CLOSED, /* the peer closed, or the connection or connect failed (`code`): see below */
    TAUT_PORT_WOKEN   /* taut_port_wake() was called, once or more; conn is 0 */
};

/*
 * After CLOSED the handle takes no more bytes. It is live until the next poll, only so that its
 * peer can still be named; closing it is not needed and does no harm. Members that a kind does not
 * use are 0, fd is -1, buffer UINT32_MAX.
 */
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
    uint32_t size;              /* sizeof(struct taut_port_options); 0 = as in version 0.1 */
    uint32_t kind;              /* enum taut_port_kind */
    uint32_t connections;       /* most at a time, listeners included; 0 = 1,024; up to 2^20 */
    uint32_t buffers;           /* receive buffers; 0 = 64; up to 2^20 */
    uint32_t buffer_bytes;      /* bytes of one; 0 = 16 KiB; up to 16 MiB */
    uint32_t busy_poll;         /* 1: taut_port_poll() never sleeps; it returns 0 at the deadline */
    uint32_t delay;             /* 1: leave Nagle's algorithm on (TCP_NODELAY is set otherwise) */
    uint32_t send_buffer_bytes; /* SO_SNDBUF; 0 = the system's */
    uint32_t receive_buffer_bytes; /* SO_RCVBUF; 0 = the system's */
    uint64_t spin_ns; /* how long a poll looks again and again before it sleeps; 0 = the default:
                         TAUT_WAIT_NONE_NS, and TAUT_NEVER_NS when busy-polling, where nothing else
                         is possible. At most 1 s or TAUT_NEVER_NS. Obeyed on any machine */
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
    uint64_t buffers_peak;  /* most borrowed at a time */
    uint64_t shed;          /* accepted and closed at once: the process had no descriptor left */
    uint64_t accept_pauses; /* listeners rested for up to 100 ms: not even that, or accept failed */
    /* How polls ended: with completions and without a sleep, with some after a sleep, with none.
     * caught + parked + expired == polls while nobody polls; expired == polls_empty. */
    uint64_t caught, parked, expired;
    uint64_t contended;   /* spins in which the CPU was taken away for more than 50 us */
    uint64_t late_max_ns; /* the most that a poll which waited came back after its deadline */
};

/*
 * Creates a port with all its memory: 72 bytes a connection and the receive buffers. `options` may
 * be NULL. Returns 0, TAUT_EINVAL (an option is out of range), TAUT_ENOTSUP (the kind is not
 * there), TAUT_ENOMEM, or the code of what the kernel refused.
 */
TAUT_API int taut_port_create(struct taut_port **port, const struct taut_port_options *options,
                              struct taut_err *err);

/* Closes all connections and frees everything. Borrowed buffers are invalid afterwards. */
TAUT_API void taut_port_destroy(struct taut_port *port);

/*
 * Listens on `host`:`port_number` (numeric address or name, "[::1]" too; NULL or "*" = all
 * addresses; port 0 = any free one). With `hand_off` accepted sockets are not registered here but
 * given out as ACCEPTED_FD, to be adopted by another port before their first byte is read. When all
 * connections of the port are in use, new ones are accepted and closed at once (`refused`).
 * Returns 0, TAUT_EADDRINUSE, TAUT_EACCES, TAUT_ENOENT (no such host or local address),
 * TAUT_ENOSPC (all connections in use), TAUT_ENOTSUP (address family).
 */
TAUT_API int taut_port_listen(struct taut_port *port, const char *host, uint16_t port_number,
                              uint32_t hand_off, struct taut_conn *listener, struct taut_err *err);

/* The local TCP port of a listener or connection, 0 for a stale handle. */
TAUT_API uint16_t taut_port_local(const struct taut_port *port, struct taut_conn conn);

/* "address:port" of the peer, always terminated. Returns its length, 0 for a stale handle. */
TAUT_API size_t taut_port_peer(const struct taut_port *port, struct taut_conn conn, char *text,
                               size_t capacity);

/*
 * Starts to connect; CONNECTED or CLOSED follows. A name with several addresses is tried address by
 * address. Only name resolution may block. Returns 0, TAUT_ENOENT (no such host), TAUT_ENOSPC, or
 * the code of a connect that failed at once (TAUT_ECONNREFUSED).
 */
TAUT_API int taut_port_connect(struct taut_port *port, const char *host, uint16_t port_number,
                               uint64_t user, struct taut_conn *conn, struct taut_err *err);

/*
 * Takes over a connected stream socket; on success the descriptor belongs to the port, otherwise it
 * stays the caller's. Returns 0, TAUT_EINVAL (not a connected stream socket), TAUT_ENOSPC.
 */
TAUT_API int taut_port_adopt(struct taut_port *port, int fd, uint64_t user, struct taut_conn *conn,
                             struct taut_err *err);

/* 1 while the handle names a connection or listener that its owner has not closed, else 0. */
TAUT_API int taut_port_live(const struct taut_port *port, struct taut_conn conn);

/* Sets the word that each completion of the connection carries. Connections accepted by a listener
 * start with the listener's. 0 or TAUT_ENOENT. */
TAUT_API int taut_port_set_user(struct taut_port *port, struct taut_conn conn, uint64_t user);

/*
 * Waits until `deadline_ns` (CLOCK_MONOTONIC; 0 = look once, TAUT_NEVER_NS = no end) for
 * completions and stores up to `most`. Returns how many; 0 = the deadline passed, never before it;
 * TAUT_EINVAL for `most` 0. Late by at most the thread's timer slack (prctl(2); 50 us) and what the
 * scheduler adds. Order within one connection is kept, CLOSED is always its last, and no poll gives
 * more than one completion of a connection.
 *
 * A poll that finds nothing looks again for options.spin_ns, then it sleeps. It looks at the clock
 * in each turn and never yields. When the CPU is taken away meanwhile, it sleeps at once; a
 * busy-polling port, which never sleeps, goes on and counts it (`contended`). With one or two
 * connections such a port receives from each without asking the kernel who is ready, and looks for
 * new connections, room to write and finished connects every 20 us only: a single look with
 * deadline 0 may miss one as young as that.
 */
TAUT_API int taut_port_poll(struct taut_port *port, struct taut_completion *completions,
                            uint32_t most, uint64_t deadline_ns);

/* Gives a borrowed buffer back. Each exactly once; a second time aborts. */
TAUT_API void taut_port_release(struct taut_port *port, uint32_t buffer);

/*
 * `paused` 1: receives nothing more from this connection until 0 is said; what its peer sends stays
 * in the kernel's buffer and then holds the peer up. Neither RECEIVED nor CLOSED comes meanwhile,
 * WRITABLE does. 0, TAUT_ENOENT.
 */
TAUT_API int taut_port_pause(struct taut_port *port, struct taut_conn conn, uint32_t paused);

/*
 * Sends; returns the bytes taken (0..length). Never blocks, never raises SIGPIPE. Less than
 * `length` means that WRITABLE follows. TAUT_ENOENT: a stale handle. TAUT_ESTATE: after
 * taut_port_shutdown(). TAUT_ECONNRESET or another code: the connection has failed; CLOSED with
 * this code follows, after the bytes that were received before.
 */
TAUT_API int64_t taut_port_send(struct taut_port *port, struct taut_conn conn, const void *data,
                                size_t length);

/*
 * Ends the sending side in order (FIN) after what was taken. Receiving goes on until the peer ends
 * too, then CLOSED comes: a last message is not lost to a reset, as it may be by closing while
 * input of the peer is unread. 0, TAUT_ENOENT, or TAUT_ESTATE while connecting.
 */
TAUT_API int taut_port_shutdown(struct taut_port *port, struct taut_conn conn);

/* Closes at once; no further poll gives a completion for this handle (see above for the batch in
 * hand). `reset`: 1 = RST instead of FIN. 0 or TAUT_ENOENT. */
TAUT_API int taut_port_close(struct taut_port *port, struct taut_conn conn, uint32_t reset);

/* Makes the current or next poll return a WOKEN completion; what the caller wrote before is visible
 * to whoever gets it. Any thread; async-signal-safe; keeps errno. */
TAUT_API void taut_port_wake(struct taut_port *port);

/* A copy of the counters; each is whole, but they are not of one moment. Any thread. */
TAUT_API void taut_port_stats(const struct taut_port *port, struct taut_port_stats *stats);

/* The options in effect after defaults; buffer sizes as the kernel made them. options->size is the
 * caller's, as where options are given. 0, or TAUT_EINVAL: no version has that size; nothing is
 * written. */
TAUT_API int taut_port_effective(const struct taut_port *port, struct taut_port_options *options);

/* "epoll"; "?" for an unknown kind. */
TAUT_API const char *taut_port_kind_name(uint32_t kind);
TAUT_API int taut_port_kind_from(const char *name); /* -1: unknown */

#ifdef __cplusplus
}
#endif
#endif
