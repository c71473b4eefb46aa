/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/fence.h - a full fence, as a call.
 *
 * Two threads that each store and then look at what the other stores (Dekker) need one between the
 * two steps, on both sides; else both may look too early, and a wake-up is lost once in millions of
 * times. A missing one can't be shown by chance, so it is a function: a test links another in its
 * place, lets the other side take its whole step there, and sees what was stored before and what is
 * looked at after. All its callers are about to sleep or end a burst: the call costs them nothing.
 *
 * Threads: any. Blocking: no.
 */
#ifndef TAUT_BASE_FENCE_H
#define TAUT_BASE_FENCE_H

void taut__full_fence(void);

#endif
