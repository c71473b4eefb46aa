/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock: calibration with injected counters, the fallback, and the real counter on every CPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/topology.h>

#include "base/clock.h"
#include "fake.h"

/* A counter of `hz` whose reads take 20 ticks, with something in the way of most brackets. */
struct counter {
    uint64_t ns, ticks;
    uint32_t taken, clean_every; /* one in so many brackets is undisturbed; 0 = none */
    uint64_t disturbance_ticks;
    int backwards;
};

static void take_from_counter(void *context, struct taut__bracket *bracket)
{
    struct counter *counter = context;
    int clean = counter->clean_every != 0 && counter->taken % counter->clean_every == 0;
    uint64_t late = clean ? 0 : counter->disturbance_ticks + counter->taken % 7;
    counter->taken++;
    bracket->before_ticks = counter->ticks;
    bracket->ns = counter->ns;
    bracket->after_ticks =
        counter->backwards ? counter->ticks - 1 - late : counter->ticks + 20 + late;
    counter->ticks += 40 + late;
}

static void the_narrowest_bracket_wins(void **state)
{
    (void)state;
    for (uint32_t clean_every = 1; clean_every <= 200; clean_every += 33) {
        struct counter counter = {
            .ns = 5, .ticks = 1000, .clean_every = clean_every, .disturbance_ticks = 2000000};
        struct taut__bracket best = {0};
        counter.taken = 1 % clean_every; /* not the first one */
        assert_int_equal(taut__bracket_best(take_from_counter, &counter, &best), TAUT_OK);
        assert_int_equal(best.after_ticks - best.before_ticks, 20);
    }
}

static void the_search_for_a_bracket_ends(void **state)
{
    (void)state;
    struct counter counter = {.ticks = 1000, .clean_every = 1};
    struct taut__bracket best = {0};
    assert_int_equal(taut__bracket_best(take_from_counter, &counter, &best), TAUT_OK);
    assert_in_range(counter.taken, 2, 4096);
    /* Always disturbed: the least disturbed one, and an end all the same. */
    counter = (struct counter){.ticks = 1000, .disturbance_ticks = 50000};
    assert_int_equal(taut__bracket_best(take_from_counter, &counter, &best), TAUT_OK);
    assert_int_equal(best.after_ticks - best.before_ticks, 20 + 50000);
    assert_in_range(counter.taken, 2, 4096);
}

/* Gets better every 200 brackets, five times. */
static void take_improving(void *context, struct taut__bracket *bracket)
{
    uint32_t *taken = context;
    uint32_t steps = *taken / 200 < 5 ? *taken / 200 : 5;
    (*taken)++;
    *bracket = (struct taut__bracket){1000, 2000 - 100 * steps, 7};
}

static void the_search_goes_on_while_it_improves(void **state)
{
    (void)state;
    uint32_t taken = 0;
    struct taut__bracket best = {0};
    assert_int_equal(taut__bracket_best(take_improving, &taken, &best), TAUT_OK);
    assert_int_equal(best.after_ticks - best.before_ticks, 500);
}

static void a_counter_that_runs_backwards_is_refused(void **state)
{
    (void)state;
    struct counter counter = {.ticks = 1u << 30, .backwards = 1};
    struct taut__bracket best = {0};
    assert_int_equal(taut__bracket_best(take_from_counter, &counter, &best), TAUT_EAGAIN);
}

static struct taut__bracket bracket_at(uint64_t ns, uint64_t ticks, uint64_t width)
{
    return (struct taut__bracket){ticks - width / 2, ticks + (width - width / 2), ns};
}

/* What the clock shows `elapsed` ticks after its base; taut_clock_read() without the counter. */
static uint64_t shown(const struct taut_clock *clock, uint64_t elapsed)
{
    __extension__ typedef unsigned __int128 wide;
    return clock->base_ns + (uint64_t)(((wide)elapsed * clock->mult) >> clock->shift);
}

static void the_line_goes_through_both_points(void **state)
{
    (void)state;
    static const uint64_t frequencies[] = {1000000, 24000000, 1000000000, 2999999999, 5700000000};
    for (size_t i = 0; i < sizeof frequencies / sizeof frequencies[0]; i++) {
        uint64_t hz = frequencies[i], distance = 20000000, ticks = hz / 50;
        struct taut__bracket first = bracket_at(700, 1u << 20, 40);
        struct taut__bracket last = bracket_at(700 + distance, (1u << 20) + ticks, 50);
        /* 40 ticks of a slow counter are too wide for the distance. */
        if (hz < 100000000) {
            first = bracket_at(700, 1u << 20, 2);
            last = bracket_at(700 + distance, (1u << 20) + ticks, 2);
        }
        struct taut_clock clock;
        struct taut_err err = {0};
        assert_int_equal(taut__clock_fit(&clock, &first, &last, &err), TAUT_OK);
        assert_int_equal(clock.source, TAUT_CLOCK_TSC);
        assert_int_equal(clock.base_ns, 700);
        assert_in_range(clock.frequency_hz, hz - hz / 1000000 - 1, hz + hz / 1000000 + 1);
        assert_in_range(shown(&clock, ticks), 700 + distance - 1, 700 + distance + 1);
        /* One year on: exact to a microsecond for an exact frequency, and no overflow. */
        uint64_t year_s = 365 * 86400;
        uint64_t year = shown(&clock, year_s * hz) - 700;
        uint64_t exact = (uint64_t)((unsigned __int128)year_s * TAUT_NS_PER_S * hz * distance /
                                    ((unsigned __int128)ticks * TAUT_NS_PER_S));
        assert_in_range(year, exact - exact / 100000000, exact + exact / 100000000);
        /* Half the wider bracket, rounded up. */
        uint64_t widest = (last.after_ticks - last.before_ticks) * TAUT_NS_PER_S / hz;
        assert_in_range(clock.uncertainty_ns, widest / 2, widest / 2 + 2);
    }
}

static void lines_that_make_no_clock_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t first_ns, first_ticks, last_ns, last_ticks, width;
        const char *reason;
    } cases[] = {
        {1000, 5000, 21000000, 5000, 2, "the counter did not advance"},
        {1000, 5000, 21000000, 4000, 2, "the counter did not advance"},
        {1000, 5000, 1000, 40005000, 2, "CLOCK_MONOTONIC did not advance"},
        {1000, 5000, 900, 40005000, 2, "CLOCK_MONOTONIC did not advance"},
        {1000, 5000, 20001000, 5010, 2, "the counter's frequency is absurd"},
        {1000, 5000, 1001, 40005000, 2, "the counter's frequency is absurd"},
        {1000, 50000000, 20001000, 90000000, 4000000,
         "the counter could be read no closer than 1000001 ns to the clock"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct taut__bracket first =
            bracket_at(cases[i].first_ns, cases[i].first_ticks, cases[i].width);
        struct taut__bracket last =
            bracket_at(cases[i].last_ns, cases[i].last_ticks, cases[i].width);
        struct taut_clock clock = {.source = TAUT_CLOCK_VDSO};
        struct taut_err err = {0};
        assert_int_equal(taut__clock_fit(&clock, &first, &last, &err), TAUT_EFORMAT);
        assert_string_equal(err.text, cases[i].reason);
        assert_int_equal(clock.source, TAUT_CLOCK_VDSO);
    }
}

static void only_the_kernel_s_own_clock_source_is_trusted(void **state)
{
    (void)state;
    struct fake_tree tree;
    struct taut_err err = {0};
    fake_create(&tree);
#if defined(__aarch64__)
    fake_file(&tree, "good", "arch_sys_counter\n");
#else
    fake_file(&tree, "good", "tsc\n");
#endif
    assert_int_equal(taut__clock_trust(fake_path(&tree, "good"), 1, &err), TAUT_OK);
    assert_int_equal(taut__clock_trust(fake_path(&tree, "good"), 0, &err), TAUT_ENOTSUP);
    assert_string_equal(err.text, "the counter of this CPU is not invariant");
    static const char *const others[] = {"kvm-clock", "hpet", "acpi_pm",
                                         "tscx",      "ts",   "hyperv_clocksource_tsc_page"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        fake_file(&tree, "other", others[i]);
        assert_int_equal(taut__clock_trust(fake_path(&tree, "other"), 1, &err), TAUT_ENOTSUP);
        assert_non_null(strstr(err.text, others[i]));
    }
    assert_int_equal(taut__clock_trust(fake_path(&tree, "missing"), 1, &err), TAUT_ENOTSUP);
    assert_non_null(strstr(err.text, "No such file"));
    fake_destroy(&tree);
}

/* The real thing: whichever source it is, the clock keeps to CLOCK_MONOTONIC on every CPU. */
static void a_calibrated_clock_agrees_on_every_cpu(void **state)
{
    (void)state;
    struct taut_clock clock;
    struct taut_err err = {0};
    struct taut_cpuset mask;
    assert_int_equal(taut_clock_calibrate(&clock, 0, &err), TAUT_OK);
    printf("source %s, %llu Hz, +-%llu ns%s%s\n", taut_clock_source_name(clock.source),
           (unsigned long long)clock.frequency_hz, (unsigned long long)clock.uncertainty_ns,
           err.code != 0 ? ": " : "", err.text);
    assert_int_equal(clock.source == TAUT_CLOCK_VDSO, err.code != 0);
    assert_int_equal(taut_cpuset_of_self(&mask), TAUT_OK);
    uint64_t previous = taut_clock_read(&clock);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t n = 0; n < taut_cpuset_count(&mask) && n < 8; n++) {
            assert_int_equal(taut_cpu_bind_self(taut_cpuset_nth(&mask, n), &err), TAUT_OK);
            for (int i = 0; i < 200; i++) {
                uint64_t before = taut_now_ns();
                uint64_t now = taut_clock_read(&clock);
                uint64_t after = taut_now_ns();
                /* 10 us + the slope's error: a CPU with another counter is off by far more. */
                assert_true(now + 10000 >= before && now <= after + 10000);
                assert_true(now + 1000 >= previous);
                previous = now;
            }
        }
    }
    assert_int_equal(taut_cpuset_bind_self(&mask, &err), TAUT_OK);
}

static void a_right_clock_has_no_drift_and_a_wrong_one_shows_its(void **state)
{
    (void)state;
    struct taut_clock clock;
    struct taut_err err = {0};
    int64_t drift = 99;
    assert_int_equal(taut_clock_calibrate(&clock, 5 * TAUT_NS_PER_MS, &err), TAUT_OK);
    assert_int_equal(taut_clock_check(&clock, &drift), TAUT_OK);
    if (clock.source == TAUT_CLOCK_VDSO) {
        assert_int_equal(drift, 0);
        printf("no counter here: %s\n", err.text);
        skip();
    }
    assert_in_range(drift + 200000, 0, 400000); /* +-200 ppm after 5 ms */
    /* A clock that runs one part in a thousand fast or slow. */
    struct taut_clock fast = clock, slow = clock;
    fast.mult += fast.mult / 1000;
    slow.mult -= slow.mult / 1000;
    assert_int_equal(taut_clock_check(&fast, &drift), TAUT_OK);
    assert_in_range(drift, 700000, 1300000);
    assert_int_equal(taut_clock_check(&slow, &drift), TAUT_OK);
    assert_in_range(-drift, 700000, 1300000);
}

static void a_check_that_is_too_early_or_has_nothing_is_refused(void **state)
{
    (void)state;
    int64_t drift = 99;
    struct taut_clock future = {
        .source = TAUT_CLOCK_TSC, .shift = 40, .mult = 1, .base_ns = taut_now_ns() + TAUT_NS_PER_S};
    assert_int_equal(taut_clock_check(&future, &drift), TAUT_EAGAIN);
    future.base_ns = taut_now_ns(); /* microseconds ago */
    uint64_t asked = taut_now_ns();
    int code = taut_clock_check(&future, &drift);
    if (taut_now_ns() - asked < 500000) /* else we were held up, and it was not early */
        assert_int_equal(code, TAUT_EAGAIN);
    assert_int_equal(taut_clock_check(NULL, &drift), TAUT_EINVAL);
    assert_int_equal(taut_clock_check(&future, NULL), TAUT_EINVAL);
    const struct taut_clock vdso = {0};
    assert_int_equal(taut_clock_check(&vdso, &drift), TAUT_OK);
    assert_int_equal(drift, 0);
}

static void calibration_bounds_its_duration(void **state)
{
    (void)state;
    struct taut_clock clock;
    struct taut_err err = {0};
    memset(&clock, 0x5a, sizeof clock);
    assert_int_equal(taut_clock_calibrate(&clock, 10 * TAUT_NS_PER_S + 1, &err), TAUT_EINVAL);
    assert_non_null(strstr(err.text, "10 s"));
    const struct taut_clock zero = {0}; /* still a valid clock */
    assert_memory_equal(&clock, &zero, sizeof clock);
    assert_int_equal(taut_clock_calibrate(NULL, 0, &err), TAUT_EINVAL);
    assert_int_equal(taut_clock_calibrate(NULL, 0, NULL), TAUT_EINVAL);
}

static void a_vdso_clock_is_monotonic_time(void **state)
{
    (void)state;
    const struct taut_clock zero = {0};
    uint64_t before = taut_now_ns();
    uint64_t now = taut_clock_read(&zero);
    assert_in_range(now, before, taut_now_ns());
    struct timespec utc;
    clock_gettime(CLOCK_REALTIME, &utc);
    uint64_t utc_ns = (uint64_t)utc.tv_sec * TAUT_NS_PER_S + (uint64_t)utc.tv_nsec;
    assert_true(taut_utc_now_ns() + TAUT_NS_PER_S > utc_ns);
    assert_string_equal(taut_clock_source_name(TAUT_CLOCK_VDSO), "vdso");
    assert_string_equal(taut_clock_source_name(TAUT_CLOCK_TSC), "tsc");
}

static void deadlines_saturate(void **state)
{
    (void)state;
    assert_int_equal(taut_deadline_ns(5, 7), 12);
    assert_true(taut_deadline_ns(5, TAUT_NEVER_NS) == TAUT_NEVER_NS);
    assert_true(taut_deadline_ns(5, TAUT_NEVER_NS - 5) == TAUT_NEVER_NS);
    assert_true(taut_deadline_ns(5, TAUT_NEVER_NS - 6) == TAUT_NEVER_NS - 1);
    assert_true(taut_deadline_ns(TAUT_NEVER_NS, 1) == TAUT_NEVER_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_narrowest_bracket_wins),
        cmocka_unit_test(the_search_for_a_bracket_ends),
        cmocka_unit_test(the_search_goes_on_while_it_improves),
        cmocka_unit_test(a_counter_that_runs_backwards_is_refused),
        cmocka_unit_test(the_line_goes_through_both_points),
        cmocka_unit_test(lines_that_make_no_clock_are_refused),
        cmocka_unit_test(only_the_kernel_s_own_clock_source_is_trusted),
        cmocka_unit_test(a_calibrated_clock_agrees_on_every_cpu),
        cmocka_unit_test(a_right_clock_has_no_drift_and_a_wrong_one_shows_its),
        cmocka_unit_test(a_check_that_is_too_early_or_has_nothing_is_refused),
        cmocka_unit_test(calibration_bounds_its_duration),
        cmocka_unit_test(a_vdso_clock_is_monotonic_time),
        cmocka_unit_test(deadlines_saturate),
    };
    return cmocka_run_group_tests_name("base/clock", tests, NULL, NULL);
}
