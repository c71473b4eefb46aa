/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/queue/waited_ring.c - a ring of 16 numbers, both of whose sides may wait. */
#include "waited_ring.h"

int waited_ring_create(struct taut_ring **ring, struct taut_event *items, struct taut_event *space)
{
    const struct taut_ring_options options = {.size = sizeof options,
                                              .capacity = 16,
                                              .item_bytes = sizeof(uint64_t),
                                              .event = items,
                                              .space_event = space};
    return taut_event_init(items) != 0 || taut_event_init(space) != 0 ||
           taut_ring_create(ring, &options, NULL) != 0;
}

int waited_ring_destroy(struct taut_ring *ring, struct taut_event *items, struct taut_event *space)
{
    return taut_ring_destroy(ring) != 0 || taut_event_destroy(items) != 0 ||
           taut_event_destroy(space) != 0;
}
