/* SPDX-License-Identifier: BSD-2-Clause */
/* Who gets in, who is turned away, and how connections end; in both shapes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <taut/clock.h>
#include <taut/wait.h>

#include "support.h"

#define CROWD 100

static struct peer a, b;

static struct taut_gateway *start(void **state, struct taut_gateway_options options)
{
    options.shape = *(uint32_t *)*state;
    options.workers = options.shape == TAUT_SHAPE_OWNED ? 2 : 1;
    return start_gateway(&options, 4);
}

static void works(struct peer *peer)
{
    peer_send(peer, "D", ORDER("000000000001"));
    assert_int_equal(peer_receive(peer), 1);
    assert_string_equal(peer_field(peer, "35"), "8");
}

static int has_duplicate(const struct taut_gateway_stats *stats, uint64_t wanted)
{
    return stats->duplicate_logons == wanted;
}

/* With two workers the second connection is on the other one: the registry is shared. */
static void second_logon_of_a_session_is_closed(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    peer_logon(&a, gateway, "P0001");
    peer_connect(&b, gateway, "P0001");
    peer_send(&b, "A", "98=0|108=30|");
    peer_expect_end(&b);
    assert_true(wait_until(gateway, has_duplicate, 1));
    works(&a);
    peer_close(&b);
    peer_close(&a);
    assert_true(wait_until(gateway, no_connections, 0));
    peer_logon(&b, gateway, "P0001"); /* free again, on whichever worker */
    works(&b);
    assert_int_equal(stats_of(gateway, UINT32_MAX).logons, 2);
    stop_gateway(gateway);
}

static void strangers_are_closed_without_a_word(void **state)
{
    static const char *const first[] = {
        "35=A|34=1|49=NOBODY|52=20260101-00:00:00.000|56=TAUT|98=0|108=30|",
        "35=A|34=1|49=P0000|52=20260101-00:00:00.000|56=OTHER|98=0|108=30|",
        "35=A|34=1|52=20260101-00:00:00.000|56=TAUT|98=0|108=30|",
        "35=A|34=1|49=|52=20260101-00:00:00.000|56=TAUT|98=0|108=30|",
        "35=0|34=1|49=P0000|52=20260101-00:00:00.000|56=TAUT|",
        "35=D|34=1|49=P0000|52=20260101-00:00:00.000|56=TAUT|11=1|",
    };
    uint32_t count = sizeof(first) / sizeof(first[0]);
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    uint8_t bytes[512];
    for (uint32_t i = 0; i < count; i++) {
        peer_connect(&a, gateway, "x");
        peer_send_bytes(&a, bytes, make_message(bytes, sizeof(bytes), first[i]));
        peer_expect_end(&a);
        peer_close(&a);
    }
    /* The session is free for its owner all the same. */
    peer_logon(&b, gateway, "P0000");
    works(&b);
    assert_int_equal(stats_of(gateway, UINT32_MAX).bad_logons, count);
    stop_gateway(gateway);
}

static void any_target_takes_whom_it_does_not_know(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){.any_target = 1});
    peer_logon(&a, gateway, "SOMEBODY");
    works(&a);
    peer_connect(&b, gateway, "SOMEBODY");
    peer_send(&b, "A", "98=0|108=30|");
    peer_expect_end(&b);
    peer_close(&b);
    peer_logon(&b, gateway, "P0003");
    works(&b);
    peer_close(&b);
    peer_close(&a);
    assert_true(wait_until(gateway, no_connections, 0));
    peer_logon(&a, gateway, "SOMEBODY"); /* numbers start at 1 again */
    assert_string_equal(peer_field(&a, "34"), "1");
    works(&a);
    peer_connect(&b, gateway, "THIRD");
    snprintf(b.target, sizeof(b.target), "ELSE");
    peer_send(&b, "A", "98=0|108=30|");
    peer_expect_end(&b);
    stop_gateway(gateway);
}

static void garbage_before_logon_is_closed(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    static const char *const garbage[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02",
                                          "8=FIX.4.4\x01"
                                          "9=abc\x01",
                                          "8=FIX.4.4\x01"
                                          "9=5\x01"
                                          "35=0\x01"
                                          "10=000\x01"};
    uint32_t count = sizeof(garbage) / sizeof(garbage[0]);
    for (uint32_t i = 0; i < count; i++) {
        peer_connect(&a, gateway, "x");
        peer_send_bytes(&a, garbage[i], strlen(garbage[i]));
        peer_expect_end(&a);
        peer_close(&a);
    }
    assert_int_equal(stats_of(gateway, UINT32_MAX).garbled, count);
    stop_gateway(gateway);
}

static void garbage_after_logon_is_skipped(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    uint8_t bytes[1024];
    peer_logon(&a, gateway, "P0002");
    memcpy(bytes, "noise", 5);
    size_t length = 5 + peer_make(&a, bytes + 5, sizeof(bytes) - 5, "D", ORDER("000000000009"));
    peer_send_bytes(&a, bytes, length);
    assert_int_equal(peer_receive(&a), 1);
    assert_string_equal(peer_field(&a, "11"), "000000000009");
    /* A wrong checksum: as if it had not come. The number is used again by the next one. */
    length = peer_make(&a, bytes, sizeof(bytes), "D", ORDER("000000000010"));
    bytes[length - 2] = bytes[length - 2] == '0' ? '1' : '0';
    a.next_out--;
    peer_send_bytes(&a, bytes, length);
    works(&a);
    assert_int_equal(stats_of(gateway, UINT32_MAX).garbled, 2);
    assert_int_equal(stats_of(gateway, UINT32_MAX).app_in, 2);
    stop_gateway(gateway);
}

static void too_big_is_told_and_closed(void **state)
{
    struct taut_gateway *gateway =
        start(state, (struct taut_gateway_options){.message_bytes = 4096});
    char *body = calloc(1, 1 << 20);
    assert_non_null(body);
    memset(body, 'x', (1 << 20) - 1);
    peer_logon(&a, gateway, "P0000");
    peer_logon(&b, gateway, "P0001");
    /* The peer says 1 MiB and begins to send it: the answer must not wait for the end. */
    const char *head = "8=FIX.4.4\x01"
                       "9=1048576\x01"
                       "35=B\x01";
    peer_send_bytes(&a, head, strlen(head));
    peer_send_bytes(&a, body, 65536);
    assert_int_equal(peer_receive(&a), 1);
    assert_string_equal(peer_field(&a, "35"), "5");
    assert_non_null(strstr(peer_field(&a, "58"), "size"));
    peer_expect_end(&a);
    assert_int_equal(stats_of(gateway, UINT32_MAX).too_big, 1);
    works(&b);
    peer_close(&a);
    peer_connect(&a, gateway, "P0000"); /* before logon: no word */
    peer_send_bytes(&a, head, strlen(head));
    peer_expect_end(&a);
    free(body);
    stop_gateway(gateway);
}

struct line_count {
    _Atomic uint32_t timeouts, others;
};

static void count_lines(void *context, uint32_t level, const char *line, size_t length)
{
    struct line_count *count = context;
    (void)level;
    (void)length;
    if (strstr(line, "no Logon completed in time"))
        count->timeouts++;
    else
        count->others++;
}

/* Neither silence nor one byte now and then keeps a connection beyond the Logon deadline. */
static void slow_logon_is_closed_by_its_deadline(void **state)
{
    struct line_count lines = {0};
    struct taut_log log = {.level = TAUT_LOG_WARNING, .write = count_lines, .context = &lines};
    struct taut_gateway *gateway =
        start(state,
              (struct taut_gateway_options){.logon_timeout_ns = 300 * TAUT_NS_PER_MS, .log = &log});
    uint8_t bytes[512];
    uint64_t begin_ns = taut_now_ns();
    peer_connect(&a, gateway, "P0000");
    peer_connect(&b, gateway, "P0001");
    size_t length = peer_make(&a, bytes, sizeof(bytes), "A", "98=0|108=30|"), sent = 0;
    int ended = 0;
    while (!ended && sent < length) {
        uint8_t byte;
        if (send(a.fd, bytes + sent++, 1, MSG_NOSIGNAL) != 1)
            break;
        usleep(20000);
        ended = recv(a.fd, &byte, 1, MSG_DONTWAIT) == 0;
    }
    assert_true(sent < length); /* it was cut in the middle */
    peer_expect_end(&b);
    assert_true(taut_now_ns() - begin_ns >= 300 * TAUT_NS_PER_MS); /* and not too early */
    assert_int_equal(stats_of(gateway, UINT32_MAX).logon_timeouts, 2);
    assert_true(wait_until(gateway, no_connections, 0));
    peer_close(&a);
    peer_close(&b);
    struct peer *many = calloc(CROWD, sizeof(*many)); /* a crowd at once gives few lines */
    assert_non_null(many);
    for (int i = 0; i < CROWD; i++)
        peer_connect(&many[i], gateway, "x");
    for (int i = 0; i < CROWD; i++) {
        peer_expect_end(&many[i]);
        peer_close(&many[i]);
    }
    free(many);
    assert_int_equal(stats_of(gateway, UINT32_MAX).logon_timeouts, 2 + CROWD);
    stop_gateway(gateway);
    assert_true(lines.timeouts >= 1 && lines.timeouts <= CROWD / 2);
    assert_int_equal(lines.others, 0);
}

static void byte_by_byte_is_read_like_whole(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    uint8_t bytes[512];
    peer_logon(&a, gateway, "P0000");
    uint64_t before = stats_of(gateway, UINT32_MAX).bytes_assembled;
    assert_int_equal(before, 0);
    size_t length = peer_make(&a, bytes, sizeof(bytes), "D", ORDER("000000000042"));
    for (size_t i = 0; i < length; i++) {
        peer_send_bytes(&a, bytes + i, 1);
        usleep(100);
    }
    assert_int_equal(peer_receive(&a), 1);
    assert_string_equal(peer_field(&a, "11"), "000000000042");
    assert_true(stats_of(gateway, UINT32_MAX).bytes_assembled <= length);
    works(&a);
    stop_gateway(gateway);
}

/* The peer vanishes in the middle of a message: nothing of it is left for its successor. */
static void cut_within_a_message_leaves_nothing(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    uint8_t bytes[512];
    for (uint32_t i = 0; i < 3; i++) {
        struct linger reset = {.l_onoff = 1, .l_linger = 0};
        peer_logon(&a, gateway, "P0000");
        size_t length = peer_make(&a, bytes, sizeof(bytes), "D", ORDER("000000000042"));
        peer_send_bytes(&a, bytes, length / 2);
        usleep(2000);
        if (i & 1)
            setsockopt(a.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        peer_close(&a);
        assert_true(wait_until(gateway, no_connections, 0));
    }
    peer_logon(&a, gateway, "P0000");
    works(&a);
    assert_int_equal(stats_of(gateway, UINT32_MAX).garbled, 0);
    assert_int_equal(stats_of(gateway, UINT32_MAX).app_in, 1);
    stop_gateway(gateway);
}

static void logout_is_answered_and_closed(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    peer_logon(&a, gateway, "P0000");
    works(&a);
    peer_send(&a, "5", "58=bye|");
    assert_int_equal(peer_receive(&a), 1);
    assert_string_equal(peer_field(&a, "35"), "5");
    peer_expect_end(&a);
    peer_close(&a);
    assert_true(wait_until(gateway, no_connections, 0));
    assert_int_equal(stats_of(gateway, UINT32_MAX).logouts, 1);
    stop_gateway(gateway);
}

static void stop_logs_everybody_out(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    peer_logon(&a, gateway, "P0000"); /* will not answer */
    peer_logon(&b, gateway, "P0001"); /* has gone */
    peer_close(&b);
    assert_int_equal(taut_gateway_stop(gateway, taut_now_ns() + 100 * TAUT_NS_PER_MS),
                     TAUT_ETIMEDOUT);
    assert_int_equal(stats_of(gateway, UINT32_MAX).cut, 1);
    assert_int_equal(stats_of(gateway, UINT32_MAX).connections, 0);
    assert_int_equal(stats_of(gateway, UINT32_MAX).logouts, 2);
    taut_gateway_destroy(gateway);
    assert_int_equal(peer_receive(&a), 1);
    assert_string_equal(peer_field(&a, "35"), "5");
    peer_expect_end(&a);
}

static void *stopper(void *gateway)
{
    return (void *)(intptr_t)taut_gateway_stop(gateway, taut_now_ns() + WAIT_MS * TAUT_NS_PER_MS);
}

static void stop_ends_as_soon_as_all_have_answered(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){0});
    pthread_t thread;
    void *result;
    uint64_t begin_ns = taut_now_ns();
    peer_logon(&a, gateway, "P0000");
    assert_int_equal(pthread_create(&thread, NULL, stopper, gateway), 0);
    assert_int_equal(peer_receive(&a), 1);
    assert_string_equal(peer_field(&a, "35"), "5");
    peer_send(&a, "5", "");
    peer_expect_end(&a);
    pthread_join(thread, &result);
    assert_ptr_equal(result, NULL);
    assert_true(taut_now_ns() - begin_ns < WAIT_MS * TAUT_NS_PER_MS);
    assert_int_equal(stats_of(gateway, UINT32_MAX).cut, 0);
    taut_gateway_destroy(gateway);
}

static int one_connection(const struct taut_gateway_stats *stats, uint64_t unused)
{
    (void)unused;
    return stats->connections == 1;
}

static int one_refused(const struct taut_gateway_stats *stats, uint64_t unused)
{
    (void)unused;
    return stats->refused == 1;
}

static void too_many_connections_are_refused(void **state)
{
    struct taut_gateway *gateway = start(state, (struct taut_gateway_options){.connections = 2});
    static struct peer c;
    peer_logon(&a, gateway, "P0000");
    peer_logon(&b, gateway, "P0001");
    peer_connect(&c, gateway, "P0002");
    peer_expect_end(&c);
    peer_close(&c);
    assert_true(wait_until(gateway, one_refused, 0));
    peer_close(&a);
    assert_true(wait_until(gateway, one_connection, 0));
    peer_logon(&c, gateway, "P0002");
    works(&c);
    works(&b);
    stop_gateway(gateway);
}

/* A worker's port spins as the options say, which can be read back; what a port refuses, start
 * tells. */
static void spin_budget_is_the_port_s(void **state)
{
    static const struct {
        uint64_t spin_ns;
        uint32_t busy;
        uint64_t effective_ns;
    } cases[] = {{0, 0, TAUT_WAIT_NONE_NS}, {0, 1, TAUT_NEVER_NS}, {50 * TAUT_NS_PER_US, 0, 50000}};
    struct taut_gateway_options options = {.size = sizeof options};
    for (uint32_t i = 0; i < 3; i++) {
        struct taut_gateway *gateway =
            start(state, (struct taut_gateway_options){.spin_ns = cases[i].spin_ns,
                                                       .busy_poll = cases[i].busy});
        assert_int_equal(taut_gateway_effective(gateway, &options), 0);
        assert_true(options.spin_ns == cases[i].effective_ns);
        peer_logon(&a, gateway, "P0000");
        works(&a);
        struct taut_port_stats port = stats_of(gateway, UINT32_MAX).port;
        assert_true(port.caught + port.parked > 0);
        assert_true(cases[i].busy ? port.caught > 0 : port.parked > 0);
        stop_gateway(gateway);
        peer_close(&a);
    }
    struct taut_err err = {0};
    struct taut_gateway *gateway = NULL;
    struct taut_session_config config = {
        .size = sizeof(config), .sender_comp_id = "TAUT", .target_comp_id = "P0000"};
    options = (struct taut_gateway_options){.size = sizeof(options),
                                            .shape = *(uint32_t *)*state,
                                            .workers = 1,
                                            .sessions = &config,
                                            .session_count = 1,
                                            .spin_ns = 2 * TAUT_NS_PER_S};
    assert_int_equal(taut_gateway_create(&gateway, &options, &err), 0);
    assert_int_equal(taut_gateway_start(gateway, &err), TAUT_EINVAL);
    assert_non_null(strstr(err.text, "spinning"));
    taut_gateway_destroy(gateway);
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
        BOTH(second_logon_of_a_session_is_closed),
        BOTH(strangers_are_closed_without_a_word),
        BOTH(any_target_takes_whom_it_does_not_know),
        BOTH(garbage_before_logon_is_closed),
        BOTH(garbage_after_logon_is_skipped),
        BOTH(too_big_is_told_and_closed),
        BOTH(slow_logon_is_closed_by_its_deadline),
        BOTH(byte_by_byte_is_read_like_whole),
        BOTH(cut_within_a_message_leaves_nothing),
        BOTH(logout_is_answered_and_closed),
        BOTH(stop_logs_everybody_out),
        BOTH(stop_ends_as_soon_as_all_have_answered),
        BOTH(too_many_connections_are_refused),
        BOTH(spin_budget_is_the_port_s),
    };
    return cmocka_run_group_tests_name("gateway/sessions", tests, NULL, NULL);
}
