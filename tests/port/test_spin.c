/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The spin of a poll: how long it looks before it sleeps, what ends it, and how it is counted. On a
 * clock that moves with each reading and each sleep, so that durations are counts.
 */
#include "support.h"

#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"

#define TICK_NS    TAUT_NS_PER_US /* what a reading of the clock costs */
#define OVERRUN_NS 7000u          /* what a sleep takes beyond its time-out */

static uint64_t now_ns, jump_ns;
static uint32_t looks, kernel_sleeps, jump_at, wake_at;
static struct taut_port *woken_port;
static uint32_t machine_reads; /* looks for a cgroup: each opens files */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms);
int __wrap_epoll_pwait2(int set, struct epoll_event *events, int most,
                        const struct timespec *timeout, const sigset_t *mask);
int __real_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms);
int __wrap_taut__cgroup_find(struct taut__cgroup *cgroup, const char *controller,
                             const char *cgroup_root, const char *proc_root, struct taut_err *err);
int __real_taut__cgroup_find(struct taut__cgroup *cgroup, const char *controller,
                             const char *cgroup_root, const char *proc_root, struct taut_err *err);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    now_ns += TICK_NS;
    time->tv_sec = (time_t)(now_ns / TAUT_NS_PER_S);
    time->tv_nsec = (long)(now_ns % TAUT_NS_PER_S);
    return 0;
}

int __wrap_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms)
{
    assert_int_equal(timeout_ms, 0); /* a look; sleeps have an end here */
    looks++;
    if (looks == jump_at)
        now_ns += jump_ns;
    if (looks == wake_at)
        taut_port_wake(woken_port);
    return __real_epoll_wait(set, events, most, 0);
}

int __wrap_epoll_pwait2(int set, struct epoll_event *events, int most,
                        const struct timespec *timeout, const sigset_t *mask)
{
    (void)mask;
    kernel_sleeps++;
    int count = __real_epoll_wait(set, events, most, 0);
    if (count == 0)
        now_ns +=
            (uint64_t)timeout->tv_sec * TAUT_NS_PER_S + (uint64_t)timeout->tv_nsec + OVERRUN_NS;
    return count;
}

int __wrap_taut__cgroup_find(struct taut__cgroup *cgroup, const char *controller,
                             const char *cgroup_root, const char *proc_root, struct taut_err *err)
{
    machine_reads++;
    return __real_taut__cgroup_find(cgroup, controller, cgroup_root, proc_root, err);
}

static void open_port(struct rig *rig, uint64_t spin_ns, uint32_t busy)
{
    struct taut_port_options options = {.size = sizeof options, .spin_ns = spin_ns};
    now_ns = 1000 * TAUT_NS_PER_S;
    rig_open(rig, &options, busy);
    woken_port = rig->port;
    looks = kernel_sleeps = jump_at = wake_at = 0;
}

/* A poll of a millisecond; what it gave. */
static int poll_for_1_ms(struct rig *rig)
{
    return taut_port_poll(rig->port, rig->batch, 64, now_ns + TAUT_NS_PER_MS);
}

static struct taut_port_stats stats_of(const struct rig *rig)
{
    struct taut_port_stats stats;
    taut_port_stats(rig->port, &stats);
    assert_int_equal(stats.caught + stats.parked + stats.expired, stats.polls);
    assert_int_equal(stats.expired, stats.polls_empty);
    return stats;
}

/* Must be the first: the machine is read once a process. */
static void test_reads_the_machine_before_it_polls(void **state)
{
    struct rig rig;
    (void)state;
    assert_int_equal(machine_reads, 0);
    open_port(&rig, 100000, 0);
    uint32_t at_creation = machine_reads;
    assert_int_equal(poll_for_1_ms(&rig), 0);
    assert_true(looks > 0); /* else nothing has spun, and nothing could have read */
    assert_int_equal(machine_reads, at_creation);
    assert_true(at_creation > 0);
    rig_close(&rig);
}

static void test_sleeps_at_once(void **state)
{
    struct rig rig;
    (void)state;
    open_port(&rig, 0, 0);
    assert_int_equal(poll_for_1_ms(&rig), 0);
    assert_int_equal(looks, 0);
    assert_int_equal(kernel_sleeps, 1);
    assert_int_equal(stats_of(&rig).expired, 1);
    rig_close(&rig);
}

/* The budget is a duration: so many readings of the clock, then the rest is slept. */
static void test_spins_for_its_budget(void **state)
{
    static const uint64_t budgets_ns[] = {10000, 100000, 900000};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct rig rig;
        open_port(&rig, budgets_ns[i], 0);
        assert_int_equal(poll_for_1_ms(&rig), 0);
        assert_in_range(looks, budgets_ns[i] / TICK_NS - 3, budgets_ns[i] / TICK_NS + 1);
        assert_int_equal(kernel_sleeps, 1);
        assert_int_equal(stats_of(&rig).contended, 0);
        rig_close(&rig);
    }
}

/* A budget without end ends at the deadline; a busy-polling port has no other. */
static void test_spins_to_the_deadline(void **state)
{
    struct rig rig;
    open_port(&rig, TAUT_NEVER_NS, *(uint32_t *)*state);
    assert_int_equal(poll_for_1_ms(&rig), 0);
    assert_in_range(looks, 995, 1001);
    assert_int_equal(kernel_sleeps, 0);
    assert_in_range(stats_of(&rig).late_max_ns, 0, 2 * TICK_NS);
    rig_close(&rig);
}

static void test_catches_without_a_sleep(void **state)
{
    uint32_t busy = *(uint32_t *)*state;
    struct rig rig;
    open_port(&rig, busy ? 0 : 100000, busy);
    wake_at = 20;
    assert_int_equal(poll_for_1_ms(&rig), 1);
    assert_int_equal(rig.batch[0].kind, TAUT_PORT_WOKEN);
    assert_in_range(looks, 20, 21); /* a busy turn takes a wake before it looks */
    assert_int_equal(kernel_sleeps, 0);
    assert_int_equal(stats_of(&rig).caught, 1);
    rig_close(&rig);
}

/* What came before the poll is found by its sleep, which does not last. */
static void test_parks(void **state)
{
    struct rig rig;
    (void)state;
    open_port(&rig, 0, 0);
    int fd = plain_connect(rig.number);
    assert_int_equal(poll_for_1_ms(&rig), 1);
    assert_int_equal(stats_of(&rig).parked, 1);
    assert_int_equal(stats_of(&rig).late_max_ns, 0);
    close(fd);
    rig_close(&rig);
}

/* 60 us between two readings: somebody else had this CPU. */
static void test_contention_ends_a_spin(void **state)
{
    struct rig rig;
    (void)state;
    open_port(&rig, 500000, 0);
    jump_at = 20;
    jump_ns = 60000;
    assert_int_equal(poll_for_1_ms(&rig), 0);
    assert_in_range(looks, 20, 22);
    assert_int_equal(kernel_sleeps, 1);
    assert_int_equal(stats_of(&rig).contended, 1);
    rig_close(&rig);
}

/* Who asked for a port that never sleeps goes on, and can read that it happened. */
static void test_contention_does_not_end_a_busy_poll(void **state)
{
    struct rig rig;
    (void)state;
    open_port(&rig, 0, 1);
    jump_at = 20;
    jump_ns = 60000;
    uint64_t deadline_ns = now_ns + TAUT_NS_PER_MS;
    assert_int_equal(taut_port_poll(rig.port, rig.batch, 64, deadline_ns), 0);
    assert_true(now_ns >= deadline_ns);
    assert_in_range(looks, 930, 941);
    assert_int_equal(kernel_sleeps, 0);
    assert_int_equal(stats_of(&rig).contended, 1);
    rig_close(&rig);
}

/* Late is who waited and came back after the deadline, not who was asked too late. */
static void test_lateness(void **state)
{
    struct rig rig;
    (void)state;
    open_port(&rig, 0, 0);
    assert_int_equal(taut_port_poll(rig.port, rig.batch, 64, 1), 0);
    assert_int_equal(taut_port_poll(rig.port, rig.batch, 64, 0), 0);
    assert_int_equal(stats_of(&rig).late_max_ns, 0);
    assert_int_equal(poll_for_1_ms(&rig), 0);
    assert_in_range(stats_of(&rig).late_max_ns, OVERRUN_NS, OVERRUN_NS + 3 * TICK_NS);
    rig_close(&rig);
}

static void test_options(void **state)
{
    static const struct {
        uint64_t spin_ns;
        uint32_t busy;
        int code;
        uint64_t effective_ns;
    } cases[] = {
        {0, 0, 0, TAUT_WAIT_NONE_NS},         {0, 1, 0, TAUT_NEVER_NS},
        {TAUT_NEVER_NS, 1, 0, TAUT_NEVER_NS}, {20000, 0, 0, 20000},
        {TAUT_NS_PER_S, 0, 0, TAUT_NS_PER_S}, {TAUT_NS_PER_S + 1, 0, TAUT_EINVAL, 0},
        {20000, 1, TAUT_EINVAL, 0},           {TAUT_WAIT_NONE_NS, 1, TAUT_EINVAL, 0},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct taut_port_options options = {
            .size = sizeof options, .spin_ns = cases[i].spin_ns, .busy_poll = cases[i].busy};
        struct taut_port *port;
        struct taut_err err;
        assert_int_equal(taut_port_create(&port, &options, &err), cases[i].code);
        if (cases[i].code)
            continue;
        assert_int_equal(taut_port_effective(port, &options), 0);
        assert_true(options.spin_ns == cases[i].effective_ns);
        taut_port_destroy(port);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_the_machine_before_it_polls),
        cmocka_unit_test(test_sleeps_at_once),
        cmocka_unit_test(test_spins_for_its_budget),
        ON_BOTH(test_spins_to_the_deadline),
        ON_BOTH(test_catches_without_a_sleep),
        cmocka_unit_test(test_parks),
        cmocka_unit_test(test_contention_ends_a_spin),
        cmocka_unit_test(test_contention_does_not_end_a_busy_poll),
        cmocka_unit_test(test_lateness),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
