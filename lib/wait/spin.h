/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/spin.h - the engine behind taut_spin_*(), for the loops of this room: the same functions,
 * the pause inline.
 */
#ifndef TAUT_WAIT_SPIN_H
#define TAUT_WAIT_SPIN_H

#include <taut/wait.h>

/* Tells the CPU that this is a loop of waiting: less power, and room for the other hardware thread.
 */
static inline void taut__cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* "yield" is a no-op on most cores */
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* All that is not a bare pause: the clock, phases, yields. */
int taut__spin_turn(struct taut_spin *spin);

/* taut_spin_next(), inline. */
static inline int taut__spin_next(struct taut_spin *spin)
{
    if (spin->left == 0)
        return taut__spin_turn(spin);
    spin->left--;
    taut__cpu_pause();
    return 1;
}

/* Ends both phases now: the next taut_spin_next() says 0. */
void taut__spin_stop(struct taut_spin *spin);

/* taut_spin_end(); `with_clock`: late_ns is wanted. The report stays in spin->report. */
void taut__spin_finish(struct taut_spin *spin, uint32_t outcome, int with_clock);

#endif
