/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port/port.h - what the kinds of ports share: slots with generations, receive buffers, counters.
 *
 * A kind is one struct taut__port_operations. Everything that does not depend on how bytes move is
 * done in port.c for all kinds: options and their defaults, one allocation at creation, handles,
 * the pool of receive buffers, deferred destruction. A kind gets `kind_state` bytes of its own, and
 * `kind_connection` a connection.
 *
 * Life of a connection: free -> live -> (CLOSED was given out: dying) -> free. A dying slot keeps
 * its descriptor and address until the next poll, so that whoever handles CLOSED can still name
 * the peer; nothing is sent or received on it any more.
 */
#ifndef TAUT_PORT_PORT_H
#define TAUT_PORT_PORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/socket.h>

#include <taut/err.h>
#include <taut/port.h>

#define TAUT__PORT_CONNECTIONS_MAX  (1u << 20) /* leaves 12 bits of a handle to the generation */
#define TAUT__PORT_BUFFERS_MAX      (1u << 20)
#define TAUT__PORT_BUFFER_BYTES_MAX (16u << 20)
#define TAUT__PORT_NO_SLOT          UINT32_MAX
#define TAUT__PORT_ADDRESSES_MAX    8u

/* An IPv4 or IPv6 address with a port, small enough to be kept for each connection. */
struct taut__port_address {
    uint16_t family; /* AF_INET, AF_INET6, AF_UNIX (no address), 0 = none */
    uint16_t number; /* port, host byte order */
    uint32_t scope;
    uint8_t bytes[16];
};

enum taut__port_slot_flag {
    TAUT__PORT_LISTENER = 1u << 0,
    TAUT__PORT_HAND_OFF = 1u << 1,
    TAUT__PORT_CONNECTING = 1u << 2,
    TAUT__PORT_REGISTERED = 1u << 3, /* the kernel reports events of it */
    TAUT__PORT_LISTED = 1u << 4,     /* on the ready list */
    TAUT__PORT_READABLE = 1u << 5,   /* a receive may find something */
    TAUT__PORT_READ_OUT = 1u << 6,   /* read until nothing comes: an end, an error or urgent data */
    TAUT__PORT_WANT_WRITE = 1u << 7, /* a send took less than all: owes a WRITABLE */
    TAUT__PORT_WRITE_EDGE = 1u << 8, /* there is room again */
    TAUT__PORT_SHUT = 1u << 9,       /* taut_port_shutdown() */
    TAUT__PORT_DYING = 1u << 10,     /* CLOSED was given out */
    TAUT__PORT_PAUSED = 1u << 11,    /* taut_port_pause(): nothing is received */
    TAUT__PORT_RESTING = 1u << 12    /* a listener that can't accept for now */
};

/* One connection or listener: a cache line (what a kind adds for each is apart). */
struct taut__port_slot {
    uint32_t id; /* its handle; 0 = no live handle */
    uint32_t generation;
    int32_t fd; /* -1 = the slot is free */
    uint32_t flags;
    uint32_t next, previous; /* ready list; `next` also: free, dying, resting list */
    uint32_t batch;          /* the last poll that gave a completion of it */
    int32_t code;            /* why it failed while sending, for CLOSED; 0 = it did not */
    uint64_t user;
    struct taut__port_address peer;
};
_Static_assert(sizeof(struct taut__port_slot) == 64, "10,000 idle connections are 640 kB");

/* In the order of struct taut_port_stats. */
enum taut__port_counter {
    TAUT__PORT_POLLS,
    TAUT__PORT_POLLS_EMPTY,
    TAUT__PORT_SLEEPS,
    TAUT__PORT_RECEIVES,
    TAUT__PORT_RECEIVE_BYTES,
    TAUT__PORT_SENDS,
    TAUT__PORT_SEND_BYTES,
    TAUT__PORT_SENDS_SHORT,
    TAUT__PORT_ACCEPTED,
    TAUT__PORT_CONNECTED,
    TAUT__PORT_CLOSED,
    TAUT__PORT_STARVED,
    TAUT__PORT_REFUSED,
    TAUT__PORT_WAKES,
    TAUT__PORT_CONNECTIONS_PEAK,
    TAUT__PORT_BUFFERS_PEAK,
    TAUT__PORT_SHED,
    TAUT__PORT_ACCEPT_PAUSES,
    TAUT__PORT_CAUGHT,
    TAUT__PORT_PARKED,
    TAUT__PORT_EXPIRED,
    TAUT__PORT_CONTENDED,
    TAUT__PORT_LATE_MAX_NS,
    TAUT__PORT_COUNTERS
};
_Static_assert(sizeof(struct taut_port_stats) == TAUT__PORT_COUNTERS * sizeof(uint64_t),
               "one counter a member");

struct taut__port_operations {
    const char *name;
    size_t kind_state;      /* bytes for the kind, 64-byte aligned */
    size_t kind_connection; /* more of them, right behind, for each connection there may be */
    int (*start)(struct taut_port *port,
                 struct taut_err *err); /* may allocate; after it, no more */
    void (*stop)(struct taut_port *port);
    /* `most` > 0. Each call counts itself once with taut__port_poll_ended(). */
    int (*poll)(struct taut_port *port, struct taut_completion *completions, uint32_t most,
                uint64_t deadline_ns);
    void (*wake)(struct taut_port *port);
    /* The slot has its descriptor and flags and becomes known to the kind. 0 or a code. */
    int (*attach)(struct taut_port *port, struct taut__port_slot *slot);
    /* The opposite; the descriptor is closed by the caller afterwards. */
    void (*detach)(struct taut_port *port, struct taut__port_slot *slot);
    int64_t (*send)(struct taut_port *port, struct taut__port_slot *slot, const void *data,
                    size_t length);
    /* TAUT__PORT_PAUSED was taken away: something may have come meanwhile. */
    void (*resume)(struct taut_port *port, struct taut__port_slot *slot);
};

extern const struct taut__port_operations taut__port_epoll;

/* Addresses that a connect may still try; one record per connect by name that is under way. */
struct taut__port_attempt {
    uint32_t slot; /* TAUT__PORT_NO_SLOT = free */
    uint32_t next, count;
    struct taut__port_address addresses[TAUT__PORT_ADDRESSES_MAX];
};
#define TAUT__PORT_ATTEMPTS 32u

struct taut_port {
    const struct taut__port_operations *operations;
    void *kind; /* kind_state + connections * kind_connection bytes */
    struct taut__port_slot *slots;
    uint8_t *buffers;
    uint32_t *free_buffers; /* LIFO, so that the next receive finds a warm one */
    uint8_t *borrowed;      /* one byte a buffer: a buffer given back twice is a broken invariant */
    uint32_t free_buffer_count;
    uint32_t buffer_stride;
    uint32_t id_mask; /* handle & id_mask = index of the slot */
    uint32_t id_shift;
    uint32_t free_first, free_last; /* free slots, FIFO: a handle comes back as late as possible */
    uint32_t dying;                 /* slots to destroy at the next poll */
    uint32_t connections;           /* slots in use, listeners included */
    uint32_t batch;                 /* number of the poll */
    uint32_t owner_known;
    pthread_t owner;                    /* who polled first */
    struct taut_port_options options;   /* in effect */
    struct taut_port_options requested; /* with defaults, before the kernel's read-back */
    struct taut__port_attempt attempts[TAUT__PORT_ATTEMPTS];
    _Atomic uint32_t woken;
    _Alignas(128) _Atomic uint64_t counters[TAUT__PORT_COUNTERS];
};

/* Counters have one writer: a load and a store are enough, and no reader sees a torn one. */
static inline void taut__port_count(struct taut_port *port, enum taut__port_counter counter,
                                    uint64_t more)
{
    uint64_t value = atomic_load_explicit(&port->counters[counter], memory_order_relaxed);
    atomic_store_explicit(&port->counters[counter], value + more, memory_order_relaxed);
}

static inline void taut__port_count_peak(struct taut_port *port, enum taut__port_counter counter,
                                         uint64_t value)
{
    if (value > atomic_load_explicit(&port->counters[counter], memory_order_relaxed))
        atomic_store_explicit(&port->counters[counter], value, memory_order_relaxed);
}

/* How a poll ended, which gave `given` completions and has entered the kernel to block or not. */
static inline void taut__port_poll_ended(struct taut_port *port, uint32_t given, uint32_t slept)
{
    taut__port_count(port,
                     !given  ? TAUT__PORT_EXPIRED
                     : slept ? TAUT__PORT_PARKED
                             : TAUT__PORT_CAUGHT,
                     1);
}

static inline uint32_t taut__port_slot_index(const struct taut_port *port,
                                             const struct taut__port_slot *slot)
{
    return (uint32_t)(slot - port->slots);
}

/* The live slot of a handle (a dying one included), or NULL. */
static inline struct taut__port_slot *taut__port_slot_of(const struct taut_port *port,
                                                         struct taut_conn conn)
{
    uint32_t index = conn.id & port->id_mask;
    if (conn.id == 0 || index >= port->options.connections || port->slots[index].id != conn.id)
        return NULL;
    return &port->slots[index];
}

/* A new slot that owns `fd`, or NULL when all are taken. */
struct taut__port_slot *taut__port_slot_take(struct taut_port *port, int fd, uint32_t flags,
                                             uint64_t user, const struct taut__port_address *peer);

/* Gives back a slot that no kind knows; the descriptor is the caller's again. */
void taut__port_slot_drop(struct taut_port *port, struct taut__port_slot *slot);

/* CLOSED was given out: the slot is freed at the start of the next poll. */
void taut__port_slot_dies(struct taut_port *port, struct taut__port_slot *slot);

/* Detaches, closes and frees now. */
void taut__port_slot_free(struct taut_port *port, struct taut__port_slot *slot);

/* Frees the slots that died in the last batch. */
void taut__port_slots_reap(struct taut_port *port);

/* A buffer to receive into, without taking it: UINT32_MAX when all are borrowed. */
static inline uint32_t taut__port_buffer_peek(const struct taut_port *port)
{
    return port->free_buffer_count ? port->free_buffers[port->free_buffer_count - 1] : UINT32_MAX;
}

static inline uint8_t *taut__port_buffer_at(const struct taut_port *port, uint32_t buffer)
{
    return port->buffers + (size_t)buffer * port->buffer_stride;
}

/* The buffer of the last peek now belongs to the owner of the port. */
void taut__port_buffer_borrow(struct taut_port *port, uint32_t buffer);

/* The record of a connect that is under way, or NULL. */
struct taut__port_attempt *taut__port_attempt_of(struct taut_port *port,
                                                 const struct taut__port_slot *slot);

/* --- address.c ------------------------------------------------------------------------------- */

/* Resolves `host` (numeric without allocation; "[...]" is accepted) into up to
 * TAUT__PORT_ADDRESSES_MAX addresses. `passive`: for listening; NULL or "*" = all local addresses.
 * Returns how many, or TAUT_ENOENT, TAUT_EINVAL. */
int taut__port_address_resolve(struct taut__port_address *addresses, const char *host,
                               uint16_t number, uint32_t passive, struct taut_err *err);
socklen_t taut__port_address_to(const struct taut__port_address *address,
                                struct sockaddr_storage *storage);
void taut__port_address_from(struct taut__port_address *address,
                             const struct sockaddr_storage *storage);
/* "1.2.3.4:5", "[::1]:5", "unix"; always terminated; returns the length it would need. */
size_t taut__port_address_format(const struct taut__port_address *address, char *text,
                                 size_t capacity);

/* --- socket.c -------------------------------------------------------------------------------- */

/* Options of a connection or listener as the port's options say; 0 or a code. */
int taut__port_socket_configure(int fd, uint32_t family, const struct taut_port_options *options);
/* O_NONBLOCK and FD_CLOEXEC. */
int taut__port_socket_nonblocking(int fd);
/* Sets the buffer sizes on a socket made for it and stores what the kernel made of them. */
int taut__port_socket_read_back(struct taut_port_options *options, struct taut_err *err);
/* A listening socket; *fd is the caller's. */
int taut__port_socket_listen(int *fd, const char *host, uint16_t number,
                             const struct taut_port_options *options, struct taut_err *err);
/* Starts one connect. 0 = under way or done, else a code. */
int taut__port_socket_connect(int *fd, const struct taut__port_address *address,
                              const struct taut_port_options *options);
/* 0, or the code of the error that the socket holds. */
int taut__port_socket_error(int fd);
void taut__port_socket_reset_on_close(int fd);

#endif
