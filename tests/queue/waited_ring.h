/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/queue/waited_ring.h - a ring of 16 numbers, both of whose sides may wait. */
#ifndef TESTS_QUEUE_WAITED_RING_H
#define TESTS_QUEUE_WAITED_RING_H

#include <taut/queue.h>

/* 0, or 1 when a step failed. The events stay the caller's, who looks at what happens to them. */
int waited_ring_create(struct taut_ring **ring, struct taut_event *items, struct taut_event *space);
int waited_ring_destroy(struct taut_ring *ring, struct taut_event *items, struct taut_event *space);

#endif
