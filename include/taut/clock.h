/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/clock.h - time in nanoseconds.
 *
 * All times of Taut are CLOCK_MONOTONIC nanoseconds in a uint64_t named *_ns; an absolute deadline
 * is such a time, and TAUT_NEVER_NS means "no deadline". UTC appears only where a protocol wants a
 * calendar time.
 *
 * Two sources: the vDSO (about 40 ns a read on the machines measured) and a calibrated time-stamp
 * counter (about 18 ns). A struct taut_clock is calibrated once against CLOCK_MONOTONIC, used
 * read-only, and checked again at the end of a measurement: the drift between the two calibrations
 * belongs into the record of that measurement. Where the counter is not invariant, or the kernel
 * itself does not use it as its clock source, the clock falls back to the vDSO and says so.
 *
 * Threads: any; a calibrated struct taut_clock may be shared read-only. Blocking: only
 * taut_clock_calibrate() and taut_clock_check(), for the time given to them.
 */
#ifndef TAUT_CLOCK_H
#define TAUT_CLOCK_H

#include <stdint.h>
#include <time.h>

#include <taut/err.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAUT_NEVER_NS  UINT64_MAX
#define TAUT_NS_PER_US UINT64_C(1000)
#define TAUT_NS_PER_MS UINT64_C(1000000)
#define TAUT_NS_PER_S  UINT64_C(1000000000)

enum taut_clock_source {
    TAUT_CLOCK_VDSO = 0, /* clock_gettime(CLOCK_MONOTONIC) */
    TAUT_CLOCK_TSC = 1   /* invariant time-stamp counter (x86-64) or cntvct_el0 (aarch64) */
};

/* A calibrated clock. Zero-initialised it is a valid vDSO clock. */
struct taut_clock {
    uint32_t source; /* enum taut_clock_source */
    uint32_t shift;  /* ns = base_ns + ((ticks - base_ticks) * mult) >> shift */
    uint64_t mult;
    uint64_t base_ticks;
    uint64_t base_ns;
    uint64_t frequency_hz;   /* measured frequency of the counter; 0 for the vDSO */
    uint64_t uncertainty_ns; /* half width of the best bracket of the calibration */
};

/* CLOCK_MONOTONIC now, through the vDSO. */
static inline uint64_t taut_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * TAUT_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* CLOCK_REALTIME now: nanoseconds since 1970-01-01 UTC. */
static inline uint64_t taut_utc_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * TAUT_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The raw counter of this CPU; not ordered with surrounding loads. */
static inline uint64_t taut_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return taut_now_ns();
#endif
}

/* CLOCK_MONOTONIC nanoseconds by the calibrated clock. */
static inline uint64_t taut_clock_read(const struct taut_clock *clock)
{
    if (clock->source == TAUT_CLOCK_VDSO)
        return taut_now_ns();
    uint64_t ticks = taut_clock_ticks() - clock->base_ticks;
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 taut_u128;
    return clock->base_ns + (uint64_t)(((taut_u128)ticks * clock->mult) >> clock->shift);
#else
    return clock->base_ns + ((ticks * clock->mult) >> clock->shift);
#endif
}

/*
 * Calibrates `clock` for `duration_ns` (0 = 20 ms). Falls back to TAUT_CLOCK_VDSO where the
 * counter can't be trusted; `err` (may be NULL) then says why although the result is 0. A counter
 * behind a paravirtual clock source (kvm-clock, hyperv_clocksource_tsc_page) is not trusted: its
 * rate may change when the guest moves. Preemption during the calibration does no harm: the
 * narrowest of many readings counts.
 * Returns 0, or TAUT_EINVAL for a duration above 10 s or a NULL clock.
 */
TAUT_API int taut_clock_calibrate(struct taut_clock *clock, uint64_t duration_ns,
                                  struct taut_err *err);

/*
 * Compares the clock with CLOCK_MONOTONIC again and stores its drift since the calibration in
 * parts per billion (positive: the clock runs fast). 0 for a vDSO clock. Needs at least 1 ms since
 * the calibration began: TAUT_EAGAIN before. TAUT_EINVAL for NULL.
 */
TAUT_API int taut_clock_check(const struct taut_clock *clock, int64_t *drift_ppb);

/* "tsc" or "vdso". */
TAUT_API const char *taut_clock_source_name(uint32_t source);

/* now + duration, saturating at TAUT_NEVER_NS. */
static inline uint64_t taut_deadline_ns(uint64_t now_ns, uint64_t duration_ns)
{
    return duration_ns > TAUT_NEVER_NS - now_ns ? TAUT_NEVER_NS : now_ns + duration_ns;
}

#ifdef __cplusplus
}
#endif
#endif
