/* SPDX-License-Identifier: BSD-2-Clause */
/* wait/event.h - the word of an event. */
#ifndef TAUT_WAIT_EVENT_H
#define TAUT_WAIT_EVENT_H

#include <taut/wait.h>

#define TAUT__EVENT_MAGIC    UINT32_C(0x45564e54)
#define TAUT__EVENT_QUIET    (UINT64_C(1) << 31)
#define TAUT__EVENT_SLEEPERS (TAUT__EVENT_QUIET - 1)

static inline uint32_t taut__event_epoch_of(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

/* The half of the word that the kernel compares. No thread of ours ever accesses it as 32 bits. */
static inline const _Atomic uint32_t *taut__event_futex(const struct taut_event *event)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the epoch is the upper half");
    _Static_assert(sizeof event->state == 8, "two words of the kernel");
    return (const _Atomic uint32_t *)(const void *)&event->state + 1;
}

#endif
