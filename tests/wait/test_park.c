/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sleep, with a kernel that the test plays: who is counted when, what a publication costs, and
 * what happens when an epoch moves at the worst of moments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>

#include <taut/wait.h>

#include "base/futex.h"
#include "virtual.h"

#define MS TAUT_NS_PER_MS
#define US TAUT_NS_PER_US

static struct taut_wait_report report;
static struct taut_wait_policy at_once; /* neither spins nor yields */

static int begin(void **state)
{
    at_once = (struct taut_wait_policy){
        .size = sizeof at_once, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_WAIT_NONE_NS};
    return virtual_setup(state);
}

static struct taut_event_stats stats_now(void)
{
    struct taut_event_stats stats;
    taut_event_stats(&event, &stats);
    return stats;
}

static uint32_t sleepers_seen, published_to, published_again_to, epoch_at_wake, sleepers_at_wake;

static int see_sleepers_and_expire(void)
{
    sleepers_seen = stats_now().sleepers;
    virtual.now_ns = virtual.sleep_deadline_ns + virtual.oversleep_ns;
    return TAUT__FUTEX_EXPIRED;
}

static void a_sleeper_is_counted_while_it_sleeps_and_not_after(void **state)
{
    (void)state;
    virtual.on_sleep = see_sleepers_and_expire;
    sleepers_seen = 99;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &at_once, &report),
                     TAUT_WAIT_EXPIRED);
    assert_int_equal(sleepers_seen, 1);
    assert_int_equal(virtual.sleep_expected, 0);
    assert_int_equal(stats_now().sleepers, 0);
    /* Nobody is left to be woken. */
    assert_int_equal(taut_event_publish(&event), 0);
    assert_int_equal(virtual.wakes, 0);
    assert_int_equal(stats_now().wake_calls, 0);
}

static void how_late_is_told(void **state)
{
    (void)state;
    virtual.oversleep_ns = 7 * MS;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &at_once, &report),
                     TAUT_WAIT_EXPIRED);
    assert_int_equal(report.late_ns, 7 * MS + 40);
    assert_int_equal(stats_now().late_max_ns, 7 * MS + 40);
    virtual.oversleep_ns = 3 * MS;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &at_once, NULL), TAUT_WAIT_EXPIRED);
    assert_int_equal(stats_now().late_max_ns, 7 * MS + 40);
    virtual.oversleep_ns = 9 * MS;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &at_once, NULL), TAUT_WAIT_EXPIRED);
    assert_int_equal(stats_now().late_max_ns, 9 * MS + 40);
}

static void a_publication_without_a_sleeper_makes_no_system_call(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(taut_event_publish(&event), 0);
    taut_event_quiesce(&event);
    assert_int_equal(taut_event_publish(&event), 0);
    assert_int_equal(virtual.wakes, 0);
    assert_int_equal(stats_now().published, 1001);
    assert_int_equal(stats_now().wake_calls, 0);
    assert_int_equal(taut_event_epoch(&event), 1001);
}

static void note_wake(void)
{
    epoch_at_wake = taut_event_epoch(&event);
    sleepers_at_wake = stats_now().sleepers;
}

static int publish_twice_and_be_woken(void)
{
    published_to = taut_event_publish(&event);
    published_again_to = taut_event_publish(&event);
    return TAUT__FUTEX_WOKEN;
}

static void a_publication_takes_the_sleepers_off_and_then_wakes_once(void **state)
{
    (void)state;
    virtual.on_sleep = publish_twice_and_be_woken;
    virtual.on_wake = note_wake;
    assert_int_equal(taut_wait(&event, 0, TAUT_NEVER_NS, &at_once, &report), TAUT_WAIT_PARKED);
    assert_int_equal(published_to, 1);
    /* The first has taken the sleeper off: the second costs nothing. */
    assert_int_equal(published_again_to, 0);
    assert_int_equal(virtual.wakes, 1);
    assert_int_equal(epoch_at_wake, 1); /* moved before the wake, not after it */
    assert_int_equal(sleepers_at_wake, 0);
    assert_int_equal(stats_now().wake_calls, 1);
    assert_int_equal(stats_now().sleepers, 0);
    assert_int_equal(report.parks, 1);
    assert_int_equal(report.spurious, 0);
    assert_int_equal(report.phase, TAUT_PHASE_PARK);
    assert_int_equal(virtual.sleep_deadline_ns, TAUT_NEVER_NS);
}

static int publish_as_it_expires(void)
{
    virtual.now_ns = virtual.sleep_deadline_ns + US;
    published_to = taut_event_publish(&event);
    return TAUT__FUTEX_EXPIRED;
}

static void an_epoch_that_moves_as_the_sleep_expires_is_not_expired(void **state)
{
    (void)state;
    virtual.on_sleep = publish_as_it_expires;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &at_once, &report),
                     TAUT_WAIT_PARKED);
    assert_int_equal(published_to, 1);
    assert_int_equal(stats_now().sleepers, 0); /* the publisher took it off, nobody else */
    assert_int_equal(report.late_ns, US + 40);
    assert_int_equal(stats_now().parked, 1);
}

static uint64_t publish_at_read;

static void publish_at_a_read(void)
{
    if (virtual.reads == publish_at_read)
        taut_event_publish(&event);
}

/* The clock says "over", and in that very moment the epoch moves. */
static void an_epoch_that_moves_as_the_clock_expires_is_caught(void **state)
{
    (void)state;
    struct taut_wait_policy spins = {.size = sizeof spins, .spin_ns = MS};
    const struct taut_wait_policy *policies[] = {&at_once, &spins};
    for (size_t i = 0; i < 2; i++) {
        uint32_t seen = taut_event_epoch(&event);
        virtual.reads = 0;
        publish_at_read = 1;
        virtual.on_read = publish_at_a_read;
        assert_int_equal(taut_wait(&event, seen, virtual.now_ns - US, policies[i], &report),
                         TAUT_WAIT_CAUGHT);
        assert_int_equal(report.parks, 0);
    }
    assert_int_equal(stats_now().caught, 2);
    assert_int_equal(virtual.sleeps, 0);
}

static int publish_before_the_kernel_looks(void)
{
    published_to = taut_event_publish(&event);
    return TAUT__FUTEX_CHANGED;
}

static void who_did_not_sleep_has_not_parked(void **state)
{
    (void)state;
    virtual.on_sleep = publish_before_the_kernel_looks;
    assert_int_equal(taut_wait(&event, 0, TAUT_NEVER_NS, &at_once, &report), TAUT_WAIT_CAUGHT);
    assert_int_equal(report.parks, 0);
    assert_int_equal(published_to, 1); /* it was on its way, and had to be woken to be sure */
    struct taut_event_stats stats = stats_now();
    assert_int_equal(stats.sleepers, 0);
    assert_int_equal(stats.sleeps, 0);
    assert_int_equal(stats.caught, 1);
}

static int wake_for_nothing_five_times(void)
{
    if (stats_now().sleepers != 1)
        sleepers_seen = 99;
    if (virtual.sleeps <= 5)
        return virtual.sleeps % 2 ? TAUT__FUTEX_WOKEN : TAUT__FUTEX_INTERRUPTED;
    published_to = taut_event_publish(&event);
    return TAUT__FUTEX_WOKEN;
}

static void sleeps_that_end_for_nothing_are_told_and_go_on(void **state)
{
    (void)state;
    sleepers_seen = 0;
    virtual.on_sleep = wake_for_nothing_five_times;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &at_once, &report),
                     TAUT_WAIT_PARKED);
    assert_int_equal(report.spurious, 5);
    assert_int_equal(report.parks, 6);
    assert_int_equal(sleepers_seen, 0); /* counted once all the time */
    assert_int_equal(published_to, 1);
    struct taut_event_stats stats = stats_now();
    assert_int_equal(stats.sleeps, 6);
    assert_int_equal(stats.spurious, 5);
    assert_int_equal(stats.sleepers, 0);
}

static void quiesced_waiters_go_to_sleep_at_once(void **state)
{
    (void)state;
    struct taut_wait_policy spins = {
        .size = sizeof spins, .spin_ns = TAUT_NEVER_NS, .yield_ns = TAUT_NEVER_NS};
    taut_event_quiesce(&event);
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &spins, &report), TAUT_WAIT_EXPIRED);
    assert_int_equal(report.spins, 0);
    assert_int_equal(virtual.yields, 0);
    assert_int_equal(virtual.sleeps, 1);
    /* Until the next publication. */
    taut_event_publish(&event);
    assert_int_equal(taut_wait(&event, 1, virtual.now_ns + 50 * US, &spins, &report),
                     TAUT_WAIT_EXPIRED);
    assert_true(report.spins > 0);
    assert_int_equal(virtual.sleeps, 1);
}

static void quiesce_now(void)
{
    if (virtual.reads == 100 || virtual.yields == 100)
        taut_event_quiesce(&event);
}

static void quiesce_reaches_who_spins_and_who_yields(void **state)
{
    (void)state;
    struct taut_wait_policy spins = {.size = sizeof spins, .spin_ns = TAUT_NEVER_NS};
    virtual.on_read = quiesce_now;
    assert_int_equal(taut_wait(&event, 0, virtual.now_ns + MS, &spins, &report), TAUT_WAIT_EXPIRED);
    assert_in_range(virtual.reads, 100, 101);
    assert_int_equal(virtual.sleeps, 1);
    taut_event_publish(&event);
    virtual.reads = 1000;
    spins.spin_ns = TAUT_WAIT_NONE_NS;
    spins.yield_ns = TAUT_NEVER_NS;
    virtual.on_read = NULL;
    virtual.on_yield = quiesce_now;
    assert_int_equal(taut_wait(&event, 1, virtual.now_ns + MS, &spins, &report), TAUT_WAIT_EXPIRED);
    assert_int_equal(virtual.yields, 100);
    assert_int_equal(virtual.sleeps, 2);
    /* One that sleeps on stays asleep and is woken as ever. */
    taut_event_quiesce(&event);
    virtual.on_yield = NULL;
    virtual.on_sleep = publish_twice_and_be_woken;
    assert_int_equal(taut_wait(&event, 1, TAUT_NEVER_NS, &at_once, &report), TAUT_WAIT_PARKED);
    assert_int_equal(published_to, 1);
}

/* The epoch is a 32-bit number that goes round; 64 bits of publications are counted all the same.
 */
static void an_epoch_that_wraps_is_an_epoch_that_moved(void **state)
{
    (void)state;
    atomic_store(&event.state, (uint64_t)UINT32_MAX << 32);
    assert_int_equal(taut_event_epoch(&event), UINT32_MAX);
    assert_int_equal(stats_now().published, UINT32_MAX);
    virtual.on_sleep = publish_twice_and_be_woken;
    virtual.on_wake = note_wake;
    assert_int_equal(taut_wait(&event, UINT32_MAX, TAUT_NEVER_NS, &at_once, &report),
                     TAUT_WAIT_PARKED);
    assert_int_equal(virtual.sleep_expected, UINT32_MAX);
    assert_int_equal(published_to, 1);
    assert_int_equal(epoch_at_wake, 0);
    assert_int_equal(taut_event_epoch(&event), 1);
    assert_int_equal(stats_now().published, UINT64_C(0x100000001));
    assert_int_equal(stats_now().sleepers, 0);
    /* Behind as well as ahead: any other number has moved. */
    static const uint32_t others[] = {0, 2, UINT32_MAX, 0x80000001u, 0x80000000u};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(taut_wait(&event, others[i], 0, &at_once, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_wait(&event, 1, 0, &at_once, NULL), TAUT_WAIT_EXPIRED);
}

static void waits_are_the_sum_of_their_outcomes(void **state)
{
    (void)state;
    virtual.on_sleep = publish_twice_and_be_woken;
    assert_int_equal(taut_wait(&event, 0, TAUT_NEVER_NS, &at_once, NULL), TAUT_WAIT_PARKED);
    virtual.on_sleep = NULL;
    assert_int_equal(taut_wait(&event, 0, TAUT_NEVER_NS, NULL, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_wait(&event, 2, 0, NULL, NULL), TAUT_WAIT_EXPIRED);
    assert_int_equal(taut_wait(&event, 2, virtual.now_ns + MS, NULL, NULL), TAUT_WAIT_EXPIRED);
    struct taut_wait_policy bad = {.size = 4};
    assert_int_equal(taut_wait(&event, 0, 0, &bad, NULL), TAUT_EINVAL); /* no wait at all */
    bad = (struct taut_wait_policy){.size = sizeof bad, .strict = 2};
    assert_int_equal(taut_wait(&event, 0, 0, &bad, NULL), TAUT_EINVAL);
    struct taut_event_stats stats = stats_now();
    assert_int_equal(stats.waits, 4);
    assert_int_equal(stats.parked, 1);
    assert_int_equal(stats.caught, 1);
    assert_int_equal(stats.expired, 2);
    assert_int_equal(stats.sleeps, 2);
}

/* A waiter that is back may free its event, whatever its publisher is still doing: here the memory
 * goes in the wake itself. */
static struct taut_event *doomed;

static void unmap_the_event(void)
{
    munmap(doomed, 4096);
}

static void a_publisher_touches_nothing_after_its_wake(void **state)
{
    (void)state;
    doomed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(doomed, MAP_FAILED);
    assert_int_equal(taut_event_init(doomed), 0);
    atomic_fetch_add(&doomed->state, 1); /* one sleeps */
    virtual.on_wake = unmap_the_event;
    assert_int_equal(taut_event_publish(doomed), 1);
    assert_int_equal(virtual.wakes, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, virtual_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_sleeper_is_counted_while_it_sleeps_and_not_after),
        CASE(how_late_is_told),
        CASE(a_publication_without_a_sleeper_makes_no_system_call),
        CASE(a_publication_takes_the_sleepers_off_and_then_wakes_once),
        CASE(an_epoch_that_moves_as_the_sleep_expires_is_not_expired),
        CASE(an_epoch_that_moves_as_the_clock_expires_is_caught),
        CASE(who_did_not_sleep_has_not_parked),
        CASE(sleeps_that_end_for_nothing_are_told_and_go_on),
        CASE(quiesced_waiters_go_to_sleep_at_once),
        CASE(quiesce_reaches_who_spins_and_who_yields),
        CASE(an_epoch_that_wraps_is_an_epoch_that_moved),
        CASE(waits_are_the_sum_of_their_outcomes),
        CASE(a_publisher_touches_nothing_after_its_wake),
    };
    return cmocka_run_group_tests_name("wait/park", tests, NULL, NULL);
}
