/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A long replay: it goes out piece by piece, the peer that asked for it may be slow, and others on
 * the same worker are served in between. Also what a store that fails does to its connection.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <taut/clock.h>

#include "support.h"

#define MESSAGES 30000u /* more than the kernel's buffers of a connection take */
#define BATCH    50u
#define BYTES    256u

/* Worker thread only, but for `fail`. */
struct memory {
    uint8_t bytes[MESSAGES + 2][BYTES];
    uint32_t length[MESSAGES + 2];
    _Atomic int fail;
};

static int sent(void *context, uint64_t seq, const uint8_t *message, uint32_t length, int admin)
{
    struct memory *memory = context;
    if (memory->fail)
        return TAUT_EIO;
    if (seq >= MESSAGES + 2 || length > BYTES)
        return 0;
    memory->length[seq] = admin ? 0 : length;
    memcpy(memory->bytes[seq], message, length);
    return 0;
}

static int fetch(void *context, uint64_t seq, const uint8_t **message, uint32_t *length)
{
    struct memory *memory = context;
    if (seq >= MESSAGES + 2 || memory->length[seq] == 0)
        return TAUT_ENOENT;
    *message = memory->bytes[seq];
    *length = memory->length[seq];
    return 0;
}

static struct memory *memory;
static struct peer a, b;

static struct taut_gateway *start(uint32_t busy_poll)
{
    static struct taut_session_store store;
    static struct taut_session_config configs[2];
    struct taut_gateway_options options = {.size = sizeof(options),
                                           .busy_poll = busy_poll,
                                           .message_bytes = 4096,
                                           .send_queue_bytes = 65536,
                                           .sessions = configs,
                                           .session_count = 2};
    struct taut_gateway *gateway;
    struct taut_err err = {0};
    memory = calloc(1, sizeof(*memory));
    assert_non_null(memory);
    store = (struct taut_session_store){
        .size = sizeof(store), .context = memory, .sent = sent, .fetch = fetch};
    configs[0] = (struct taut_session_config){.size = sizeof(configs[0]),
                                              .sender_comp_id = "TAUT",
                                              .target_comp_id = "P0000",
                                              .store = &store};
    configs[1] = (struct taut_session_config){
        .size = sizeof(configs[1]), .sender_comp_id = "TAUT", .target_comp_id = "P0001"};
    if (taut_gateway_create(&gateway, &options, &err) || taut_gateway_start(gateway, &err))
        fail_msg("no gateway: %s", err.text);
    return gateway;
}

static void finish(struct taut_gateway *gateway)
{
    stop_gateway(gateway);
    free(memory);
}

static void ask(struct peer *peer)
{
    peer_send(peer, "D", ORDER("000000000001"));
    assert_int_equal(peer_receive(peer), 1);
    assert_string_equal(peer_field(peer, "35"), "8");
}

static void replay(uint32_t busy_poll)
{
    struct taut_gateway *gateway = start(busy_poll);
    peer_connect_small(&a, gateway, "P0000");
    peer_send(&a, "A", "98=0|108=30|");
    assert_int_equal(peer_receive(&a), 1);
    for (uint32_t i = 0; i < MESSAGES; i += BATCH) {
        static uint8_t bytes[BATCH * 512];
        size_t length = 0;
        for (uint32_t j = 0; j < BATCH; j++)
            length +=
                peer_make(&a, bytes + length, sizeof(bytes) - length, "D", ORDER("000000000001"));
        peer_send_bytes(&a, bytes, length);
        for (uint32_t j = 0; j < BATCH; j++)
            assert_int_equal(peer_receive(&a), 1);
    }
    peer_logon(&b, gateway, "P0001");
    peer_send(&a, "2", "7=1|16=0|");
    for (int i = 0; i < 100; i++) /* nobody reads the replay: the other has its turns */
        ask(&b);
    if (stats_of(gateway, 0).port.sends_short == 0)
        fail_msg("inconclusive: the replay fitted the kernel's buffers");
    assert_int_equal(peer_receive(&a), 1); /* 1 was the Logon */
    assert_string_equal(peer_field(&a, "35"), "4");
    assert_string_equal(peer_field(&a, "36"), "2");
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(peer_receive(&a), 1);
        assert_string_equal(peer_field(&a, "35"), "8");
        assert_string_equal(peer_field(&a, "43"), "Y");
        assert_int_equal(strtoul(peer_field(&a, "34"), NULL, 10), i + 2);
        assert_int_equal(strtoul(peer_field(&a, "37"), NULL, 10), i + 1);
    }
    ask(&a);
    assert_int_equal(strtoul(peer_field(&a, "34"), NULL, 10), MESSAGES + 2);
    struct taut_gateway_stats stats = stats_of(gateway, UINT32_MAX);
    assert_int_equal(stats.slow_closed, 0);
    assert_true(stats.send_queue_peak <= 65536);
    finish(gateway);
}

static void long_replay_leaves_turns_to_others(void **state)
{
    (void)state;
    replay(0);
}

static void long_replay_with_busy_poll(void **state)
{
    (void)state;
    replay(1);
}

static void failing_store_ends_its_connection_only(void **state)
{
    struct taut_gateway *gateway = start(0);
    (void)state;
    peer_connect(&a, gateway, "P0000");
    peer_send(&a, "A", "98=0|108=30|");
    assert_int_equal(peer_receive(&a), 1);
    peer_logon(&b, gateway, "P0001");
    ask(&a);
    memory->fail = 1;
    peer_send(&a, "D", ORDER("000000000002"));
    peer_expect_end(&a); /* nothing that was not stored is sent */
    ask(&b);
    memory->fail = 0;
    peer_close(&a);
    peer_connect(&a, gateway, "P0000"); /* the order counts as not handled: number 3 again */
    a.next_out = 3;
    peer_send(&a, "A", "98=0|108=30|");
    assert_int_equal(peer_receive(&a), 1);
    assert_string_equal(peer_field(&a, "35"), "A");
    assert_string_equal(peer_field(&a, "34"), "3");
    ask(&a);
    finish(gateway);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_replay_leaves_turns_to_others),
        cmocka_unit_test(long_replay_with_busy_poll),
        cmocka_unit_test(failing_store_ends_its_connection_only),
    };
    return cmocka_run_group_tests_name("gateway/replay", tests, NULL, NULL);
}
