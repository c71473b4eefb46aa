/* SPDX-License-Identifier: BSD-2-Clause */
/* wait/window.h - what the spin engine needs of windows and of the machine. */
#ifndef TAUT_WAIT_WINDOW_H
#define TAUT_WAIT_WINDOW_H

#include <taut/wait.h>

/* What taut_window.ready holds once it is made. */
#define TAUT__WINDOW_READY UINT32_C(0x57494e44)

/*
 * Whether a thread of this process may spin by default, read from the machine at the first call:
 * TAUT_SPIN_ON, ONE_CPU or QUOTA. `cpus` (may be NULL) gets the number of CPUs. The first call
 * reads files; taut_event_init() and taut_lock_init() make it, so that no wait does.
 */
uint32_t taut__spin_default(uint32_t *cpus);

/* Counts one wait and moves the window: the only place where it moves. `looked`: there was neither
 * a pause, nor a yield, nor a sleep; `contended`: the CPU was taken away. */
void taut__window_record(struct taut_window *window, uint32_t outcome, uint32_t looked,
                         uint32_t contended);

/* What the next yield will cost, from what the last ones did; without a history, an assumption. */
uint64_t taut__window_yield_cost(const struct taut_window *window, uint64_t now_ns);

/* Remembers what a yield cost that ended at now_ns. */
void taut__window_yielded(struct taut_window *window, uint64_t cost_ns, uint64_t now_ns);

/* 0, or TAUT_EINVAL: a wrong size, or a window that nobody made. policy may be NULL. */
int taut__policy_check(const struct taut_wait_policy *policy);

/* The cost of a yield of which nothing is known: above all uncontended ones measured (0.3 to 2 us),
 * far below a time slice. Wrong only once: the first yield tells the truth. */
#define TAUT__YIELD_ASSUMED_NS (5 * TAUT_NS_PER_US)

#endif
