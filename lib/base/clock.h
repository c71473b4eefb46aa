/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/clock.h - the steps of a calibration, apart, so that tests can give them a counter that is
 * interrupted, stands still or runs backwards.
 */
#ifndef TAUT_BASE_CLOCK_H
#define TAUT_BASE_CLOCK_H

#include <stddef.h>

#include <taut/clock.h>

/* A time read between two readings of the counter. */
struct taut__bracket {
    uint64_t before_ticks, after_ticks;
    uint64_t ns;
};

/* Takes one bracket. Its width shows whether something came between. */
typedef void taut__bracket_take(void *context, struct taut__bracket *bracket);

/* The real one: CLOCK_MONOTONIC between two ordered readings of this CPU's counter. */
void taut__bracket_take_now(void *context, struct taut__bracket *bracket);

/*
 * The narrowest of many brackets. A preemption, an interrupt or a steal can only widen a bracket,
 * so the narrowest is the least disturbed; the search ends when it has not improved for a while, or
 * after a fixed number. TAUT_EAGAIN: the counter ran backwards in every one.
 */
int taut__bracket_best(taut__bracket_take *take, void *context, struct taut__bracket *best);

/*
 * The clock through two brackets. TAUT_EFORMAT with a reason: the counter stood still or ran
 * backwards between them, a bracket is too wide for the distance, or the frequency is absurd.
 */
int taut__clock_fit(struct taut_clock *clock, const struct taut__bracket *first,
                    const struct taut__bracket *last, struct taut_err *err);

/*
 * Whether the counter may serve as a clock: it is invariant, and the kernel itself uses it as its
 * clock source. `clocksource_path` is the kernel's current_clocksource, `invariant` what the CPU
 * says. 0, or TAUT_ENOTSUP with the reason.
 *
 * A guest that uses kvm-clock, hyperv_clocksource_tsc_page or the like reads the counter too, but
 * scaled by a page that the host rewrites when the guest moves to another machine. A calibration of
 * ours would not notice the move, so these count as "not the counter": vDSO.
 */
int taut__clock_trust(const char *clocksource_path, int invariant, struct taut_err *err);

/* What the CPU says about its counter: 1 = constant rate in all power states. */
int taut__clock_invariant(void);

#endif
