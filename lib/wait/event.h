/* SPDX-License-Identifier: BSD-2-Clause */
/* wait/event.h - the word of an event. */
#ifndef TAUT_WAIT_EVENT_H
#define TAUT_WAIT_EVENT_H

#include <stdatomic.h>

#include <taut/wait.h>

#define TAUT__EVENT_MAGIC    UINT32_C(0x45564e54)
#define TAUT__EVENT_QUIET    (UINT64_C(1) << 31)
#define TAUT__EVENT_SLEEPERS (TAUT__EVENT_QUIET - 1)

static inline uint32_t taut__event_epoch_of(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

/* A wait that looks at words of its own and only sleeps on the event: from here on the event is not
 * destroyed... */
static inline void taut__event_enter(struct taut_event *event)
{
    atomic_fetch_add_explicit(&event->guests, 1, memory_order_relaxed);
}

/* ... to here, the last touch. Release pairs with taut_event_destroy(). */
static inline void taut__event_leave(struct taut_event *event)
{
    atomic_fetch_sub_explicit(&event->guests, 1, memory_order_release);
}

/* The half of the word that the kernel compares. No thread of ours ever accesses it as 32 bits. */
static inline const _Atomic uint32_t *taut__event_futex(const struct taut_event *event)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the epoch is the upper half");
    _Static_assert(sizeof event->state == 8, "two words of the kernel");
    return (const _Atomic uint32_t *)(const void *)&event->state + 1;
}

#endif
