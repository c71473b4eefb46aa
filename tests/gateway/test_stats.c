/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What can be read of a gateway, and when: before its start, from another thread while it starts,
 * and afterwards. Under TSan a reader that meets what a thread is just making is a failure.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <taut/clock.h>

#include "support.h"

static struct peer peer;

/* A thread that reads all there is, again and again. It records, main asserts. */
struct reader {
    pthread_t thread;
    const struct taut_gateway *gateway;
    _Atomic uint32_t over;
    /* All relaxed: an order between reader and gateway would hide a race from TSan. */
    _Atomic uint64_t readings;
    _Atomic uint32_t port_seen; /* worker 0's spin, which its port alone knows, has been read */
    uint32_t refused, wrong;
};

static int is_zero(const struct taut_gateway_stats *stats)
{
    struct taut_gateway_stats none;
    memset(&none, 0, sizeof(none));
    none.cpu_bound = -1;
    return memcmp(stats, &none, sizeof(none)) == 0;
}

static void read_once(struct reader *reader, uint64_t *polls, uint32_t *tid)
{
    struct taut_gateway_stats one, all;
    struct taut_gateway_options effective = {.size = sizeof(effective)};
    reader->refused += taut_gateway_stats(reader->gateway, UINT32_MAX, &all) != 0;
    reader->refused += taut_gateway_stats(reader->gateway, 0, &one) != 0;
    reader->refused += taut_gateway_effective(reader->gateway, &effective) != 0;
    reader->wrong += one.port.polls < *polls || (*tid != 0 && one.tid != *tid);
    reader->wrong += taut_gateway_workers(reader->gateway) != effective.workers;
    reader->wrong += effective.spin_ns != 0 && effective.spin_ns != TAUT_WAIT_NONE_NS;
    *polls = one.port.polls;
    *tid = one.tid;
    if (effective.spin_ns == TAUT_WAIT_NONE_NS)
        atomic_store_explicit(&reader->port_seen, 1, memory_order_relaxed);
    (void)taut_gateway_port(reader->gateway);
    atomic_fetch_add_explicit(&reader->readings, 1, memory_order_relaxed);
}

static void *read_on(void *argument)
{
    struct reader *reader = argument;
    uint64_t polls = 0;
    uint32_t tid = 0;
    while (!atomic_load_explicit(&reader->over, memory_order_relaxed))
        read_once(reader, &polls, &tid);
    return NULL;
}

static void rest(void)
{
    struct timespec pause = {.tv_nsec = 100 * TAUT_NS_PER_US};
    nanosleep(&pause, NULL);
}

/* 1 once there are more than `from` readings, 0 when the limit is over. */
static int has_read(const struct reader *reader, uint64_t from)
{
    uint64_t end_ns = taut_now_ns() + WAIT_MS * TAUT_NS_PER_MS;
    while (atomic_load_explicit(&reader->readings, memory_order_relaxed) <= from) {
        if (taut_now_ns() > end_ns)
            return 0;
        rest();
    }
    return 1;
}

/* Called by each worker in the middle of the start: its port is there, and the start has not
 * returned. Goes on when the reader has seen that, and has read some more. */
static int hold_the_start(void *context, uint32_t worker, uint32_t workers)
{
    struct reader *reader = context;
    uint64_t end_ns = taut_now_ns() + WAIT_MS * TAUT_NS_PER_MS;
    (void)worker, (void)workers;
    while (!atomic_load_explicit(&reader->port_seen, memory_order_relaxed)) {
        if (taut_now_ns() > end_ns)
            return TAUT_ETIMEDOUT;
        rest();
    }
    uint64_t now = atomic_load_explicit(&reader->readings, memory_order_relaxed);
    return has_read(reader, now + 20) ? 0 : TAUT_ETIMEDOUT;
}

static void no_message(void *context, struct taut_call *call, const struct taut_message *message)
{
    (void)context, (void)call, (void)message;
}

static struct taut_gateway *create(uint32_t shape, const struct taut_handler *handler)
{
    static const struct taut_session_config session = {.size = sizeof(session),
                                                       .sender_comp_id = "TAUT",
                                                       .target_comp_id = "P0000",
                                                       .reset_on_logon = 1};
    struct taut_gateway_options options = {.size = sizeof(options),
                                           .shape = shape,
                                           .workers = shape == TAUT_SHAPE_OWNED ? 3 : 1,
                                           .sessions = &session,
                                           .session_count = 1,
                                           .handler = handler};
    struct taut_gateway *gateway = NULL;
    assert_int_equal(taut_gateway_create(&gateway, &options, NULL), 0);
    return gateway;
}

static void before_start_all_is_zero(void **state)
{
    struct taut_gateway *gateway = create(*(uint32_t *)*state, NULL);
    struct taut_gateway_options effective = {.size = sizeof(effective)};
    struct taut_gateway_stats stats;
    memset(&stats, 0x55, sizeof(stats));
    assert_int_equal(taut_gateway_stats(gateway, UINT32_MAX, &stats), 0);
    assert_true(is_zero(&stats));
    for (uint32_t i = 0; i < taut_gateway_workers(gateway); i++) {
        memset(&stats, 0x55, sizeof(stats));
        assert_int_equal(taut_gateway_stats(gateway, i, &stats), 0);
        assert_true(is_zero(&stats));
    }
    memset(&stats, 0x55, sizeof(stats));
    assert_int_equal(taut_gateway_stats(gateway, taut_gateway_workers(gateway), &stats),
                     TAUT_EINVAL);
    assert_true(is_zero(&stats));
    assert_int_equal(taut_gateway_port(gateway), 0);
    assert_int_equal(taut_gateway_effective(gateway, &effective), 0);
    assert_int_equal(effective.spin_ns, 0);
    taut_gateway_destroy(gateway);
}

static void read_while_it_starts(void **state)
{
    struct reader reader = {0};
    struct taut_handler handler = {
        .name = "held", .context = &reader, .on_message = no_message, .on_worker = hold_the_start};
    struct taut_err err = {0};
    struct taut_gateway *gateway = create(*(uint32_t *)*state, &handler);
    reader.gateway = gateway;
    assert_int_equal(pthread_create(&reader.thread, NULL, read_on, &reader), 0);
    int read_before = has_read(&reader, 0);
    int code = taut_gateway_start(gateway, &err);
    if (code == 0)
        peer_logon(&peer, gateway, "P0000");
    uint64_t now = atomic_load_explicit(&reader.readings, memory_order_relaxed);
    int read_after = has_read(&reader, now + 20);
    int stopped = taut_gateway_stop(gateway, 0);
    atomic_store_explicit(&reader.over, 1, memory_order_relaxed);
    assert_int_equal(pthread_join(reader.thread, NULL), 0);
    assert_string_equal(err.text, "");
    assert_int_equal(code, 0);
    assert_true(read_before && read_after);
    assert_true(stopped == 0 || stopped == TAUT_ETIMEDOUT);
    assert_int_equal(reader.refused, 0);
    assert_int_equal(reader.wrong, 0);
    peer_close(&peer);
    taut_gateway_destroy(gateway);
}

/* Each thread's port is in the sum, the acceptor's too, and after the end as well. */
static void ports_are_in_the_sum(void **state)
{
    struct taut_gateway *gateway = create(*(uint32_t *)*state, NULL);
    assert_int_equal(taut_gateway_start(gateway, NULL), 0);
    peer_logon(&peer, gateway, "P0000");
    peer_close(&peer);
    assert_true(wait_until(gateway, all_closed, 1));
    (void)taut_gateway_stop(gateway, 0);
    struct taut_gateway_stats all = stats_of(gateway, UINT32_MAX);
    uint64_t polls = 0, accepted = 0, receives = 0;
    for (uint32_t i = 0; i < taut_gateway_workers(gateway); i++) {
        struct taut_gateway_stats one = stats_of(gateway, i);
        assert_true(one.port.polls > 0);
        polls += one.port.polls;
        accepted += one.port.accepted;
        receives += one.port.receives;
    }
    assert_true(receives > 0);
    assert_int_equal(all.port.receives, receives);
    if (*(uint32_t *)*state == TAUT_SHAPE_OWNED) { /* what the workers lack is the acceptor's */
        assert_true(all.port.polls > polls);
        assert_int_equal(all.port.accepted, accepted + 1);
    } else {
        assert_int_equal(all.port.polls, polls);
        assert_int_equal(all.port.accepted, 1);
    }
    taut_gateway_destroy(gateway);
}

int main(void)
{
    static uint32_t single = TAUT_SHAPE_SINGLE, owned = TAUT_SHAPE_OWNED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(before_start_all_is_zero, &single),
        cmocka_unit_test_prestate(before_start_all_is_zero, &owned),
        cmocka_unit_test_prestate(read_while_it_starts, &single),
        cmocka_unit_test_prestate(read_while_it_starts, &owned),
        cmocka_unit_test_prestate(ports_are_in_the_sum, &single),
        cmocka_unit_test_prestate(ports_are_in_the_sum, &owned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
