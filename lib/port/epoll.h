/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port/epoll.h - what the two files of the epoll kind share: epoll.c waits, progress.c moves bytes.
 */
#ifndef TAUT_PORT_EPOLL_H
#define TAUT_PORT_EPOLL_H

#include <sys/epoll.h>

#include "port/port.h"

/* Most events taken from the kernel at a time. */
#define TAUT__PORT_EVENTS 256

/* Up to so many connections a busy-polling port receives without asking epoll first. With one and
 * two that is quicker, with three and four nothing is certain, from eight on asking is:
 * bench/records/2026-12-01-port-direct.md. 0 = always asks. */
#ifndef TAUT__PORT_DIRECT_MAX
#define TAUT__PORT_DIRECT_MAX 2u
#endif

/* How often it then looks at epoll all the same: accepts, connects, room to write. */
#define TAUT__PORT_LOOK_NS UINT64_C(20000)

/* A listener accepts at most so many a poll, then the others have their turn. */
#define TAUT__PORT_ACCEPTS_MAX 16u

/* How long a listener rests that can't accept: not even the reserved descriptor helps, or accept(2)
 * fails in a way that the next call would meet again. */
#define TAUT__PORT_ACCEPT_PAUSE_NS UINT64_C(100000000)

struct taut__port_epoll_state {
    int epoll_fd;
    int wake_fd;
    int reserve_fd; /* given up for a moment to accept and close when no descriptor is left */
    int no_pwait2;
    uint32_t ready_first, ready_last, ready_count;
    uint32_t blocked; /* of the ready ones, how many the last round left for want of a buffer */
    uint32_t streams; /* connections, listeners not included */
    /* Behind this struct, options.connections of each. Which slots are connections, in no order,
     * and where a slot is in that list: going direct costs what is there, not what could be. */
    uint32_t *stream_slots, *stream_places;
    uint32_t direct; /* 1: direct_slots are read without epoll */
    uint32_t direct_count, direct_next;
    uint32_t direct_slots[TAUT__PORT_DIRECT_MAX ? TAUT__PORT_DIRECT_MAX : 1];
    uint32_t starved_batch; /* the last poll counted as starved */
    uint64_t look_again_ns;
    uint64_t accept_again_ns; /* when the listeners that rest are tried again; NEVER = none does */
    uint32_t resting_first;   /* singly linked: there are few listeners */
    struct epoll_event events[TAUT__PORT_EVENTS];
};

/* --- epoll.c --------------------------------------------------------------------------------- */

void taut__port_ready_push(struct taut_port *port, struct taut__port_slot *slot);
void taut__port_ready_remove(struct taut_port *port, struct taut__port_slot *slot);
int taut__port_epoll_register(struct taut_port *port, struct taut__port_slot *slot);
void taut__port_epoll_unregister(struct taut_port *port, struct taut__port_slot *slot);

/* The listener is left alone for TAUT__PORT_ACCEPT_PAUSE_NS; it must not be on the ready list. */
void taut__port_epoll_rest(struct taut_port *port, struct taut__port_slot *slot);

/* --- progress.c ------------------------------------------------------------------------------ */

/* Serves each socket that is on the ready list now once, oldest first. Returns given + what it
 * gave. */
uint32_t taut__port_epoll_serve(struct taut_port *port, struct taut_completion *completions,
                                uint32_t most, uint32_t given);

/* One receive: 1 = a completion was given, 0 = nothing there, -1 = all buffers are borrowed. */
int taut__port_epoll_receive(struct taut_port *port, struct taut__port_slot *slot,
                             struct taut_completion *completion);

int64_t taut__port_epoll_send(struct taut_port *port, struct taut__port_slot *slot,
                              const void *data, size_t length);

/* The connection has failed with `code`: what was received before is still given, then CLOSED. */
void taut__port_epoll_fail(struct taut_port *port, struct taut__port_slot *slot, int code);

#endif
