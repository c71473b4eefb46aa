/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/clock.c - calibration of the time-stamp counter against CLOCK_MONOTONIC.
 *
 * Two brackets, one at each end of the calibration, give a line through two points. What the time
 * of a bracket's middle is off from the truth is nearly the same in both (the same instructions in
 * the same order, undisturbed), so it moves the line but hardly turns it. The line starts at the
 * first bracket: a reading on another CPU that is some ticks behind is still after the start.
 */
#include "base/clock.h"

#include <errno.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/file.h"

#define CLOCKSOURCE_PATH    "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define DEFAULT_DURATION_NS (20 * TAUT_NS_PER_MS)
#define LONGEST_DURATION_NS (10 * TAUT_NS_PER_S)
#define SHORTEST_CHECK_NS   TAUT_NS_PER_MS

/* A bracket costs under 100 ns: 4,096 of them outlast several interrupts, but not a time slice. */
#define BRACKETS_MOST           4096u
#define BRACKETS_WITHOUT_CHANGE 256u

/* ns = ticks * mult >> shift. A 1 GHz counter makes mult 2^40: a rate exact to 1e-12, and 2^63
 * ticks times 2^40 is within 128 bits. */
#define SHIFT 40u

/* aarch64 counters run at 1 MHz or more, x86 ones at 10 GHz or less. */
#define FREQUENCY_LEAST_HZ UINT64_C(1000000)
#define FREQUENCY_MOST_HZ  UINT64_C(10000000000)

/* A half width of 1 % of the distance could turn the line by 2 %: no clock. */
#define WIDTH_SHARE 100u

__extension__ typedef unsigned __int128 wide;

const char *taut_clock_source_name(uint32_t source)
{
    return source == TAUT_CLOCK_TSC ? "tsc" : "vdso";
}

/* The counter, not before earlier loads and not after later ones. */
static inline uint64_t ordered_ticks(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
    uint64_t ticks = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return ticks;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks)::"memory");
    return ticks;
#else
    return taut_clock_ticks();
#endif
}

int taut__clock_invariant(void)
{
#if defined(__x86_64__)
    unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
    /* Leaf 0x80000007, EDX bit 8: constant rate in all ACPI P-, C- and T-states. */
    return __get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 8 & 1) != 0;
#elif defined(__aarch64__)
    return 1; /* by the architecture */
#else
    return 0;
#endif
}

int taut__clock_trust(const char *clocksource_path, int invariant, struct taut_err *err)
{
#if defined(__aarch64__)
    static const char wanted[] = "arch_sys_counter";
#else
    static const char wanted[] = "tsc";
#endif
    char source[64];
    if (!invariant)
        return taut_err_set(err, TAUT_ENOTSUP, "the counter of this CPU is not invariant");
    ssize_t length = taut__file_read_value(clocksource_path, source, sizeof source);
    if (length < 0)
        return taut_err_set(err, TAUT_ENOTSUP, "the kernel's clock source is unknown: %s: %s",
                            clocksource_path, strerror((int)-length));
    if (strcmp(source, wanted) != 0)
        return taut_err_set(err, TAUT_ENOTSUP, "the kernel's clock source is %s, not %s", source,
                            wanted);
    return TAUT_OK;
}

void taut__bracket_take_now(void *context, struct taut__bracket *bracket)
{
    (void)context;
    bracket->before_ticks = ordered_ticks();
    bracket->ns = taut_now_ns();
    bracket->after_ticks = ordered_ticks();
}

int taut__bracket_best(taut__bracket_take *take, void *context, struct taut__bracket *best)
{
    uint64_t best_width = UINT64_MAX;
    uint32_t without_change = 0;
    for (uint32_t i = 0; i < BRACKETS_MOST && without_change < BRACKETS_WITHOUT_CHANGE; i++) {
        struct taut__bracket bracket;
        take(context, &bracket);
        uint64_t width = bracket.after_ticks - bracket.before_ticks;
        /* Backwards: the two readings come from CPUs that do not agree. */
        if (width > INT64_MAX)
            continue;
        if (width < best_width) {
            best_width = width;
            *best = bracket;
            without_change = 0;
        } else {
            without_change++;
        }
    }
    return best_width == UINT64_MAX ? TAUT_EAGAIN : TAUT_OK;
}

static uint64_t bracket_middle(const struct taut__bracket *bracket)
{
    return bracket->before_ticks + (bracket->after_ticks - bracket->before_ticks) / 2;
}

static uint64_t half_width_ns(const struct taut__bracket *bracket, uint64_t mult)
{
    uint64_t width = bracket->after_ticks - bracket->before_ticks;
    return (uint64_t)(((wide)width * mult) >> SHIFT) / 2 + 1;
}

int taut__clock_fit(struct taut_clock *clock, const struct taut__bracket *first,
                    const struct taut__bracket *last, struct taut_err *err)
{
    uint64_t ticks = bracket_middle(last) - bracket_middle(first);
    if (ticks == 0 || ticks > INT64_MAX)
        return taut_err_set(err, TAUT_EFORMAT, "the counter did not advance");
    if (last->ns <= first->ns)
        return taut_err_set(err, TAUT_EFORMAT, "CLOCK_MONOTONIC did not advance");
    uint64_t ns = last->ns - first->ns;
    wide frequency = (wide)ticks * TAUT_NS_PER_S / ns;
    if (frequency < FREQUENCY_LEAST_HZ || frequency > FREQUENCY_MOST_HZ)
        return taut_err_set(err, TAUT_EFORMAT, "the counter's frequency is absurd");
    /* ns is bounded by the duration and some scheduling delay: shifted by 40 it fits 128 bits. */
    uint64_t mult = (uint64_t)(((wide)ns << SHIFT) / ticks);
    uint64_t first_half = half_width_ns(first, mult), last_half = half_width_ns(last, mult);
    uint64_t uncertainty = first_half > last_half ? first_half : last_half;
    if (uncertainty > ns / WIDTH_SHARE)
        return taut_err_set(err, TAUT_EFORMAT,
                            "the counter could be read no closer than %llu ns to the clock",
                            (unsigned long long)uncertainty);
    *clock = (struct taut_clock){
        .source = TAUT_CLOCK_TSC,
        .shift = SHIFT,
        .mult = mult,
        .base_ticks = bracket_middle(first),
        .base_ns = first->ns,
        .frequency_hz = (uint64_t)frequency,
        .uncertainty_ns = uncertainty,
    };
    return TAUT_OK;
}

static void sleep_until(uint64_t deadline_ns)
{
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / TAUT_NS_PER_S),
        .tv_nsec = (long)(deadline_ns % TAUT_NS_PER_S),
    };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) {
    }
}

int taut_clock_calibrate(struct taut_clock *clock, uint64_t duration_ns, struct taut_err *err)
{
    if (clock == NULL)
        return taut_err_set(err, TAUT_EINVAL, "no clock");
    *clock = (struct taut_clock){.source = TAUT_CLOCK_VDSO};
    if (duration_ns > LONGEST_DURATION_NS)
        return taut_err_set(err, TAUT_EINVAL, "a calibration of %llu ns is longer than 10 s",
                            (unsigned long long)duration_ns);
    if (duration_ns == 0)
        duration_ns = DEFAULT_DURATION_NS;
    taut_err_clear(err);
    if (taut__clock_trust(CLOCKSOURCE_PATH, taut__clock_invariant(), err) < 0)
        return TAUT_OK;
    struct taut__bracket first, last;
    if (taut__bracket_best(taut__bracket_take_now, NULL, &first) < 0) {
        taut_err_set(err, TAUT_ENOTSUP, "the counter runs backwards");
        return TAUT_OK;
    }
    sleep_until(taut_deadline_ns(first.ns, duration_ns));
    if (taut__bracket_best(taut__bracket_take_now, NULL, &last) < 0) {
        taut_err_set(err, TAUT_ENOTSUP, "the counter runs backwards");
        return TAUT_OK;
    }
    /* A line that can't be drawn leaves the vDSO clock in place, and err says why. */
    (void)taut__clock_fit(clock, &first, &last, err);
    return TAUT_OK;
}

int taut_clock_check(const struct taut_clock *clock, int64_t *drift_ppb)
{
    if (clock == NULL || drift_ppb == NULL)
        return TAUT_EINVAL;
    *drift_ppb = 0;
    if (clock->source == TAUT_CLOCK_VDSO)
        return TAUT_OK;
    struct taut__bracket bracket;
    if (taut__bracket_best(taut__bracket_take_now, NULL, &bracket) < 0)
        return TAUT_EAGAIN;
    if (bracket.ns < clock->base_ns || bracket.ns - clock->base_ns < SHORTEST_CHECK_NS)
        return TAUT_EAGAIN;
    uint64_t elapsed = bracket.ns - clock->base_ns;
    uint64_t ticks = bracket_middle(&bracket) - clock->base_ticks;
    uint64_t by_clock = (uint64_t)(((wide)ticks * clock->mult) >> clock->shift);
    int64_t ahead = (int64_t)(by_clock - elapsed);
    /* Ahead is nanoseconds of an offset: in 128 bits it can be scaled whatever it is. */
    __extension__ typedef __int128 wide_signed;
    wide_signed ppb = (wide_signed)ahead * (wide_signed)TAUT_NS_PER_S / (wide_signed)elapsed;
    *drift_ppb = ppb > INT64_MAX ? INT64_MAX : ppb < -INT64_MAX ? -INT64_MAX : (int64_t)ppb;
    return TAUT_OK;
}
