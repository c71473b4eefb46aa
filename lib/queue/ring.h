/* SPDX-License-Identifier: BSD-2-Clause */
/* queue/ring.h - what the fan-out, the waits and the tests need of a ring beyond the public calls.
 */
#ifndef TAUT_QUEUE_RING_H
#define TAUT_QUEUE_RING_H

#include <taut/queue.h>

#define TAUT__RING_MAGIC UINT32_C(0x52494e47)

/* taut_ring_init() with both indices at `start` instead of 0: so that a test need not push 2^64
 * items to see them wrap. */
int taut__ring_init_at(struct taut_ring *ring, const struct taut_ring_options *options,
                       void *memory, size_t length, uint64_t start, struct taut_err *err);

/* Defaults filled in, or TAUT_EINVAL with a text. */
int taut__ring_options_check(const struct taut_ring_options *given,
                             struct taut_ring_options *in_effect, struct taut_err *err);

/* 1: an item (the end) is there for the consumer; 1: room (the end) is there for the producer. Both
 * read the other side's published index. */
int taut__ring_has_items(struct taut_ring *ring);
int taut__ring_has_space(struct taut_ring *ring);

/* The first half of taut_ring_flush(): publishes. 1: the flag of the consumer must be looked at
 * behind a full fence, by taut__ring_look(); several rings can share one fence. */
int taut__ring_flush_begin(struct taut_ring *ring);
/* The second half, behind the fence: wakes the consumer if it waits. */
void taut__ring_look(struct taut_ring *ring);

#endif
