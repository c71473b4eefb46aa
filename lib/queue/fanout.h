/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue/fanout.h - the memory of a fan-out: one block, the struct, its children, then for each
 * child the slots of two rings, its tickets and its side list.
 */
#ifndef TAUT_QUEUE_FANOUT_H
#define TAUT_QUEUE_FANOUT_H

#include <taut/queue.h>

#define TAUT__FANOUT_MAGIC UINT32_C(0x46414e4f)

/* One credit. */
struct taut__credit {
    uint64_t item;
    uint32_t flow;
    /* Of its use now or last. Below, the credit's number among those of all children, so that an
     * item that comes back from another child is noticed; above, how often it was used, for one
     * that comes back twice: as many bits as are left, 22 with 4 children of 240 credits. */
    uint32_t ticket;
    uint32_t out; /* 1: with the child */
};

struct taut__child {
    struct taut_ring work, back;
    struct taut_event event; /* of the work ring */
    /* The owner's, from here to the counters. */
    TAUT__LINE struct taut__credit *credits;
    uint32_t *free; /* numbers of free credits, a stack */
    uint32_t free_count;
    uint32_t dirty;                /* in the owner's list of those to flush */
    struct taut_fanout_item *park; /* a circle */
    uint32_t park_first, park_count;
    _Atomic uint32_t policy, pressed;
    /* How long something was parked, in one word, so that a reading is of one moment: 63 bits of
     * ns; while something is, bit 63 is set, and the rest is short by the time at which it began.
     */
    _Atomic uint64_t stall;
    /* Written by the owner, read by anybody. Parked and outstanding are among them so that a reader
     * needs not subtract numbers of different moments. */
    _Atomic uint64_t sent, delivered, returned, outstanding, parked, parked_total, shed, refused;
    _Atomic uint64_t outstanding_high, parked_high, stalls, pressed_count;
};

struct taut_fanout {
    uint32_t magic;
    uint32_t children, effective, capacity, reserve, park_capacity, high_mark, low_mark;
    uint32_t closed;
    uint32_t ticket_mask;     /* of the number in a ticket */
    _Atomic uint32_t in_wait; /* 1: the owner is in a wait, asleep or not */
    uint32_t next;            /* child that the next reap begins with */
    uint32_t dirty_count;     /* of dirty[] */
    uint32_t *dirty;
    void *memory; /* of taut_fanout_create(), to be freed */
    struct taut__child *child;
    struct taut_event return_event; /* of all return rings */
};

/* Where the parts lie. */
struct taut__fanout_layout {
    struct taut_fanout_options options; /* in effect */
    uint32_t effective;
    size_t children_at, dirty_at, first_child_at, slots_bytes, credits_bytes, free_bytes,
        park_bytes;
    size_t child_bytes, bytes;
};

/* Defaults, ranges, and the layout that follows. 0, or TAUT_EINVAL with a text. */
int taut__fanout_layout(const struct taut_fanout_options *given, struct taut__fanout_layout *layout,
                        struct taut_err *err);

#endif
