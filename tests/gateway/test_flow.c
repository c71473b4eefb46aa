/* SPDX-License-Identifier: BSD-2-Clause */
/* Where bytes are copied, what slow peers do to others, and how connections spread. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <taut/clock.h>

#include "support.h"

static struct peer a, b;

static struct taut_gateway *start(void **state, struct taut_gateway_options options)
{
    options.shape = *(uint32_t *)*state;
    if (options.workers == 0 || options.shape == TAUT_SHAPE_SINGLE)
        options.workers = 1;
    return start_gateway(&options, 16);
}

/* Counted after the send: the peer may know of it earlier. */
static int one_send_a_chunk(const struct taut_gateway_stats *stats, uint64_t unused)
{
    (void)unused;
    return stats->sends == stats->port.receives && stats->sends_short == 0;
}

static int has_bytes_out(const struct taut_gateway_stats *stats, uint64_t wanted)
{
    return stats->bytes_out == wanted;
}

static void whole_messages_are_never_copied(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    uint8_t bytes[4096];
    peer_logon(&a, gateway, "P0000");
    for (int round = 0; round < 50; round++) {
        size_t length = 0;
        for (int i = 0; i < 10; i++) /* ten in one chunk: ten answers in one send */
            length +=
                peer_make(&a, bytes + length, sizeof(bytes) - length, "D", ORDER("000000000001"));
        peer_send_bytes(&a, bytes, length);
        for (int i = 0; i < 10; i++)
            assert_int_equal(peer_receive(&a), 1);
    }
    assert_true(wait_until(gateway, one_send_a_chunk, 0));
    struct taut_gateway_stats stats = stats_of(gateway, UINT32_MAX);
    assert_int_equal(stats.bytes_assembled, 0);
    assert_int_equal(stats.bytes_held, 0);
    assert_int_equal(stats.app_in, 500);
    assert_int_equal(stats.app_out, 500);
    assert_int_equal(stats.messages_in, 501);
    assert_int_equal(stats.messages_out, 501);
    stop_gateway(gateway);
}

/* Each byte of a split message is copied once at most, wherever it is split. */
static void split_messages_are_copied_once(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    uint8_t bytes[1024];
    peer_logon(&a, gateway, "P0000");
    uint64_t whole = 0;
    for (size_t cut = 1;; cut += 7) {
        /* two and a half: the second chunk holds an end, a whole message, and nothing else */
        size_t one = peer_make(&a, bytes, sizeof(bytes), "D", ORDER("000000000001"));
        size_t length =
            one + peer_make(&a, bytes + one, sizeof(bytes) - one, "D", ORDER("000000000002"));
        if (cut >= one)
            break;
        peer_send_bytes(&a, bytes, cut);
        usleep(300);
        peer_send_bytes(&a, bytes + cut, length - cut);
        assert_int_equal(peer_receive(&a), 1);
        assert_int_equal(peer_receive(&a), 1);
        whole += one;
        a.next_out = strtoull(peer_field(&a, "34"), NULL, 10) + 1;
    }
    struct taut_gateway_stats stats = stats_of(gateway, UINT32_MAX);
    if (stats.bytes_assembled == 0)
        fail_msg("inconclusive: no message was split");
    assert_true(stats.bytes_assembled <= whole);
    assert_int_equal(stats.garbled, 0);
    stop_gateway(gateway);
}

static void message_of_many_chunks_is_copied_once(void **state)
{
    struct taut_gateway *gateway =
        start(state, (struct taut_gateway_options){.handler = taut_handler_echo(),
                                                   .message_bytes = 1 << 20});
    uint32_t size = 12000;
    char *body = malloc(size + 16);
    uint8_t *bytes = malloc(size + 512);
    assert_true(body && bytes);
    strcpy(body, "148=");
    memset(body + 4, 'h', size);
    strcpy(body + 4 + size, "|");
    peer_logon(&a, gateway, "P0000");
    size_t length = peer_make(&a, bytes, size + 512, "B", body);
    for (size_t done = 0; done < length; done += 1000) {
        peer_send_bytes(&a, bytes + done, length - done < 1000 ? length - done : 1000);
        usleep(300);
    }
    assert_int_equal(peer_receive(&a), 1);
    assert_int_equal(strlen(peer_field(&a, "148")), size);
    assert_true(stats_of(gateway, UINT32_MAX).bytes_assembled <= length);
    free(body);
    free(bytes);
    stop_gateway(gateway);
}

/* What the kernel did not take of the last message of flood(). */
static uint8_t rest[512];
static size_t rest_length;

/* Sends orders without reading until the kernel takes no more for a while, or `most` were sent.
 * Returns how many were begun; the last one may be in `rest`. Never blocks. */
static uint64_t flood(struct peer *peer, uint64_t most)
{
    uint64_t begun = 0;
    for (int idle = 0; idle < 50 && (begun < most || rest_length);) {
        if (rest_length == 0) {
            rest_length = peer_make(peer, rest, sizeof(rest), "D", ORDER("000000000001"));
            begun++;
        }
        ssize_t n = send(peer->fd, rest, rest_length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            break; /* cut: the caller finds out */
        if (n > 0) {
            rest_length -= (size_t)n;
            memmove(rest, rest + n, rest_length);
            idle = 0;
        } else {
            idle++;
            usleep(1000);
        }
    }
    return begun;
}

static int has_paused(const struct taut_gateway_stats *stats, uint64_t wanted)
{
    return stats->pauses >= wanted || stats->slow_closed;
}

static int has_slow_closed(const struct taut_gateway_stats *stats, uint64_t wanted)
{
    return stats->slow_closed >= wanted;
}

/* While one peer floods and does not read, another on the same worker gets every answer. */
static void slow_peer_does_not_move_others(void **state)
{
    struct taut_gateway *gateway =
        start(state, (struct taut_gateway_options){.message_bytes = 4096,
                                                   .send_queue_bytes = 65536,
                                                   .slow_consumer_ns = 300 * TAUT_NS_PER_MS});
    peer_connect_small(&a, gateway, "P0000");
    peer_send(&a, "A", "98=0|108=30|");
    assert_int_equal(peer_receive(&a), 1);
    peer_logon(&b, gateway, "P0001");
    rest_length = 0;
    for (int turns = 0; turns < 200 && !stats_of(gateway, 0).pauses; turns++)
        flood(&a, 1000);
    if (!wait_until(gateway, has_paused, 1))
        fail_msg("inconclusive: the peer was never slow");
    for (int i = 0; i < 500; i++) {
        peer_send(&b, "D", ORDER("000000000001"));
        assert_int_equal(peer_receive(&b), 1);
        assert_string_equal(peer_field(&b, "35"), "8");
    }
    assert_true(wait_until(gateway, has_slow_closed, 1));
    struct taut_gateway_stats stats = stats_of(gateway, UINT32_MAX);
    assert_int_equal(stats.slow_closed, 1);
    assert_true(stats.send_queue_peak > 0 && stats.send_queue_peak <= 65536);
    peer_send(&b, "D", ORDER("000000000001"));
    assert_int_equal(peer_receive(&b), 1);
    stop_gateway(gateway);
}

/* A peer that stops reading for a while and then reads on loses nothing. */
static void paused_peer_gets_everything_in_order(void **state)
{
    struct taut_gateway *gateway =
        start(state, (struct taut_gateway_options){.send_queue_bytes = 1 << 20,
                                                   .slow_consumer_ns = 60 * TAUT_NS_PER_S});
    peer_connect_small(&a, gateway, "P0000");
    peer_send(&a, "A", "98=0|108=30|");
    assert_int_equal(peer_receive(&a), 1);
    uint64_t sent = 0;
    rest_length = 0;
    for (int turns = 0; turns < 2000 && !stats_of(gateway, 0).pauses; turns++)
        sent += flood(&a, 100);
    if (!stats_of(gateway, 0).pauses)
        fail_msg("inconclusive: the connection was never paused");
    for (uint64_t i = 0; i < sent; i++) {
        char wanted[24];
        if (i + 1 == sent) { /* by now there is room */
            peer_send_bytes(&a, rest, rest_length);
            rest_length = 0;
        }
        assert_int_equal(peer_receive(&a), 1);
        snprintf(wanted, sizeof(wanted), "%llu", (unsigned long long)(i + 2));
        assert_string_equal(peer_field(&a, "34"), wanted);
        assert_string_equal(peer_field(&a, "35"), "8");
    }
    struct taut_gateway_stats stats = stats_of(gateway, UINT32_MAX);
    assert_int_equal(stats.app_in, sent);
    assert_int_equal(stats.slow_closed, 0);
    assert_true(stats.bytes_held <= stats.pauses * 16384); /* TCP held the rest, not we */
    assert_int_equal(stats.garbled, 0);
    stop_gateway(gateway);
}

static int has_taken(const struct taut_gateway_stats *stats, uint64_t wanted)
{
    return stats->bytes_in >= wanted;
}

/* What is held when a connection is paused is looked at when it has read on, though nothing more
 * comes. */
static void held_input_goes_on_without_more(void **state)
{
    static uint8_t burst[4096];
    struct taut_gateway *gateway =
        start(state, (struct taut_gateway_options){.message_bytes = 4096,
                                                   .send_queue_bytes = 65536,
                                                   .slow_consumer_ns = 60 * TAUT_NS_PER_S});
    peer_connect_small(&a, gateway, "P0000");
    peer_send(&a, "A", "98=0|108=30|");
    assert_int_equal(peer_receive(&a), 1);
    uint64_t sent = 0, bytes = stats_of(gateway, UINT32_MAX).bytes_in;
    for (int turns = 0; turns < 20000 && !stats_of(gateway, UINT32_MAX).pauses; turns++) {
        size_t length = 0;
        for (int i = 0; i < 16; i++, sent++)
            length +=
                peer_make(&a, burst + length, sizeof(burst) - length, "D", ORDER("000000000001"));
        peer_send_bytes(&a, burst, length);
        bytes += length;
        assert_true(wait_until(gateway, has_taken, bytes)); /* so nothing is left in the kernel */
    }
    struct taut_gateway_stats stats = stats_of(gateway, UINT32_MAX);
    if (!stats.pauses || !stats.bytes_held)
        fail_msg("inconclusive: %llu pauses, %llu bytes held", (unsigned long long)stats.pauses,
                 (unsigned long long)stats.bytes_held);
    for (uint64_t i = 0; i < sent; i++)
        assert_int_equal(peer_receive(&a), 1);
    assert_int_equal(stats_of(gateway, UINT32_MAX).app_in, sent);
    stop_gateway(gateway);
}

static void connections_spread_and_sums_agree(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){.workers = 3});
    uint32_t workers = taut_gateway_workers(gateway);
    struct peer *peers = calloc(9, sizeof(*peers));
    struct taut_gateway_stats sum = {0}, all;
    uint64_t bytes = 0;
    assert_non_null(peers);
    for (int i = 0; i < 9; i++) {
        char sender[16];
        snprintf(sender, sizeof(sender), "P%04d", i);
        peer_logon(&peers[i], gateway, sender);
        bytes += peers[i].message_length;
        peer_send(&peers[i], "D", ORDER("000000000001"));
        assert_int_equal(peer_receive(&peers[i]), 1);
        bytes += peers[i].message_length;
    }
    assert_true(wait_until(gateway, has_bytes_out, bytes));
    for (uint32_t i = 0; i < workers; i++) {
        struct taut_gateway_stats one = stats_of(gateway, i);
        assert_int_equal(one.connections, 9 / workers);
        assert_int_equal(one.app_in, 9 / workers);
        assert_int_not_equal(one.tid, 0);
        sum.accepted += one.accepted;
        sum.app_in += one.app_in;
        sum.app_out += one.app_out;
        sum.bytes_in += one.bytes_in;
        sum.bytes_out += one.bytes_out;
        sum.messages_in += one.messages_in;
        sum.messages_out += one.messages_out;
        sum.logons += one.logons;
    }
    all = stats_of(gateway, UINT32_MAX);
    assert_int_equal(sum.accepted, all.accepted);
    assert_int_equal(all.accepted, 9);
    assert_int_equal(all.connections_peak, 9);
    assert_int_equal(sum.app_in, all.app_in);
    assert_int_equal(sum.app_out, all.app_out);
    assert_int_equal(sum.bytes_in, all.bytes_in);
    assert_int_equal(sum.bytes_out, all.bytes_out);
    assert_int_equal(sum.messages_in, all.messages_in);
    assert_int_equal(sum.messages_out, all.messages_out);
    assert_int_equal(all.messages_in, 18);
    assert_int_equal(all.messages_out, 18);
    assert_int_equal(sum.logons, all.logons);
    assert_int_equal(taut_gateway_stats(gateway, workers, &all), TAUT_EINVAL);
    for (int i = 0; i < 9; i++)
        peer_close(&peers[i]);
    assert_true(wait_until(gateway, no_connections, 0));
    assert_int_equal(stats_of(gateway, UINT32_MAX).closed, 9);
    free(peers);
    stop_gateway(gateway);
}

/* Eight silent peers, up to their ends: each gets one TestRequest, after how many Heartbeats? The
 * fewest that one got. */
static int heartbeats_of_silent_peers(struct taut_gateway *gateway, struct peer *peers)
{
    int fewest = INT_MAX;
    for (int i = 0; i < 8; i++) {
        char sender[16];
        snprintf(sender, sizeof(sender), "P%04d", i);
        peer_connect(&peers[i], gateway, sender);
        peer_send(&peers[i], "A", "98=0|108=1|");
        assert_int_equal(peer_receive(&peers[i]), 1);
    }
    for (int i = 0; i < 8; i++) {
        int heartbeats = 0, test_requests = 0, result;
        while ((result = peer_receive(&peers[i])) == 1) {
            heartbeats += strcmp(peer_field(&peers[i], "35"), "0") == 0;
            test_requests += strcmp(peer_field(&peers[i], "35"), "1") == 0;
        }
        assert_int_equal(result, 0);
        assert_int_equal(test_requests, 1);
        fewest = heartbeats < fewest ? heartbeats : fewest;
        peer_close(&peers[i]);
    }
    assert_true(wait_until(gateway, no_connections, 0));
    return fewest;
}

/* The Heartbeat is due after 1 s, the TestRequest, which makes one needless, after 1.2 s: a machine
 * that stands still in between proves nothing, and is asked again. */
static void heartbeats_and_time_outs_come_from_the_heap(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    struct peer *peers = calloc(8, sizeof(*peers));
    int attempts = 0, heartbeats;
    assert_non_null(peers);
    do
        heartbeats = heartbeats_of_silent_peers(gateway, peers);
    while (heartbeats == 0 && ++attempts < 4);
    if (heartbeats == 0)
        fail_msg("no Heartbeat in %d attempts, or inconclusive: the machine stood still", attempts);
    free(peers);
    stop_gateway(gateway);
}

/* The elements of an array lie as far apart as its caller's header says. */
static void options_of_other_headers_are_taken(void **state)
{
    (void)state;
    struct {
        struct taut_session_config known;
        uint64_t unknown;
    } newer[2] = {
        {{.size = sizeof newer[0], .sender_comp_id = "T", .target_comp_id = "P"}, 0},
        {{.size = sizeof newer[0], .sender_comp_id = "T", .target_comp_id = "Q"}, 0},
    };
    struct {
        _Alignas(struct taut_session_config)
            uint8_t bytes[offsetof(struct taut_session_config, next_in)];
    } older[2];
    struct taut_session_config plain[2] = {newer[0].known, newer[1].known};
    struct taut_gateway *gateway;
    struct taut_err err = {0};
    for (int i = 0; i < 2; i++) {
        plain[i].size = sizeof older[0];
        memcpy(older[i].bytes, &plain[i], sizeof older[0]);
        plain[i].size = 0;
    }
    const void *given[] = {newer, older, plain};
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        struct taut_gateway_options options = {.connections = 7, /* no size: version 0.1 */
                                               .sessions = given[i],
                                               .session_count = 2};
        assert_int_equal(taut_gateway_create(&gateway, &options, &err), 0);
        assert_int_equal(taut_gateway_effective(gateway, &options), 0);
        assert_int_equal(options.size, sizeof(options));
        assert_int_equal(options.connections, 7);
        taut_gateway_destroy(gateway);
        options.size = offsetof(struct taut_gateway_options, spin_ns);
        options.spin_ns = TAUT_NEVER_NS - 1;
        assert_int_equal(taut_gateway_create(&gateway, &options, &err), 0);
        assert_int_equal(taut_gateway_effective(gateway, &options), 0);
        assert_true(options.spin_ns == TAUT_NEVER_NS - 1); /* behind the end of that size */
        options.size = sizeof options;
        assert_int_equal(taut_gateway_effective(gateway, &options), 0);
        assert_int_not_equal(options.spin_ns, TAUT_NEVER_NS - 1);
        options.size = 1;
        assert_int_equal(taut_gateway_effective(gateway, &options), TAUT_EINVAL);
        taut_gateway_destroy(gateway);
    }
    newer[1].unknown = 1;
    struct taut_gateway_options options = {.sessions = &newer[0].known, .session_count = 2};
    assert_int_equal(taut_gateway_create(&gateway, &options, &err), TAUT_EINVAL);
    assert_non_null(strstr(err.text, "session config: size"));
    assert_int_equal(taut_gateway_create(&gateway, NULL, &err), TAUT_EINVAL);
}

static void bad_options_are_refused(void **state)
{
    static const struct taut_session_config one = {
        .size = sizeof(one), .sender_comp_id = "T", .target_comp_id = "P"};
    static const struct taut_session_config twice[] = {
        {.size = sizeof(one), .sender_comp_id = "T", .target_comp_id = "P"},
        {.size = sizeof(one), .sender_comp_id = "T", .target_comp_id = "P"}};
    struct taut_gateway_options good = {.size = sizeof(good), .sessions = &one, .session_count = 1};
    struct taut_gateway_options bad[10];
    struct taut_gateway *gateway;
    struct taut_err err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        bad[i] = good;
    bad[0].size = 8;
    bad[1].session_count = 0;
    bad[2].shape = 7;
    bad[3].workers = 2; /* shape single */
    bad[4].shape = TAUT_SHAPE_OWNED, bad[4].workers = 65;
    bad[5].message_bytes = 100;
    bad[6].send_queue_bytes = 100;
    bad[7].sessions = twice, bad[7].session_count = 2;
    bad[8].connections = 2000000;
    bad[9].send_queue_bytes = 65536; /* two messages would not fit */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        taut_err_clear(&err);
        assert_int_equal(taut_gateway_create(&gateway, &bad[i], &err), TAUT_EINVAL);
        assert_null(gateway);
        assert_true(err.text[0] != '\0');
    }
    /* A port that is taken: the error names it, and nothing is left running. */
    struct taut_gateway *first, *second;
    assert_int_equal(taut_gateway_create(&first, &good, &err), 0);
    assert_int_equal(taut_gateway_start(first, &err), 0);
    assert_int_equal(taut_gateway_start(first, &err), TAUT_ESTATE);
    for (uint32_t shape = 0; shape < 2; shape++) {
        good.shape = shape;
        good.port_number = taut_gateway_port(first);
        assert_int_equal(taut_gateway_create(&second, &good, &err), 0);
        assert_int_equal(taut_gateway_start(second, &err), TAUT_EADDRINUSE);
        taut_gateway_destroy(second);
    }
    assert_int_equal(taut_gateway_stop(first, 0), 0);
    taut_gateway_destroy(first);
}

#define BOTH(function)                                                                             \
    {#function " (single)", function, NULL, NULL, &single},                                        \
    {                                                                                              \
#function " (owned)", function, NULL, NULL, &owned                                         \
    }

int main(void)
{
    static uint32_t single = TAUT_SHAPE_SINGLE, owned = TAUT_SHAPE_OWNED;
    const struct CMUnitTest tests[] = {
        BOTH(whole_messages_are_never_copied),
        BOTH(split_messages_are_copied_once),
        BOTH(message_of_many_chunks_is_copied_once),
        BOTH(slow_peer_does_not_move_others),
        BOTH(paused_peer_gets_everything_in_order),
        BOTH(held_input_goes_on_without_more),
        BOTH(connections_spread_and_sums_agree),
        BOTH(heartbeats_and_time_outs_come_from_the_heap),
        cmocka_unit_test(options_of_other_headers_are_taken),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests_name("gateway/flow", tests, NULL, NULL);
}
