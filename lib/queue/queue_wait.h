/* SPDX-License-Identifier: BSD-2-Clause */
/* queue/queue_wait.h - the one loop in which a side of a ring, or the owner of many, waits. */
#ifndef TAUT_QUEUE_QUEUE_WAIT_H
#define TAUT_QUEUE_QUEUE_WAIT_H

#include <taut/wait.h>

struct taut__queue_waiter {
    struct taut_event *event;
    /* 1: what is waited for is there. Also from other threads' stores, with acquire order. */
    int (*ready)(void *context);
    /* Sets (1) or clears (0) the flags by which publishers know that they must wake. */
    void (*announce)(void *context, uint32_t waits);
    _Atomic uint32_t *in_wait; /* 1 from the begin to the last touch: destroying looks at it */
    void *context;
};

/* 0, or why nobody can wait so: what every wait asks first, before it touches its side. */
int taut__queue_refuse(const struct taut_event *event, const struct taut_wait_policy *policy);

/* As taut_ring_wait_items(), for a wait that is not refused and has flushed. */
int taut__queue_wait(const struct taut__queue_waiter *waiter, uint64_t deadline_ns,
                     const struct taut_wait_policy *policy, struct taut_wait_report *report);

#endif
