/* SPDX-License-Identifier: BSD-2-Clause */
#include "support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <taut/clock.h>

#define SESSIONS_MAX 64

struct taut_gateway *start_gateway(struct taut_gateway_options *options, uint32_t sessions)
{
    static char targets[SESSIONS_MAX][16];
    static struct taut_session_config configs[SESSIONS_MAX];
    struct taut_gateway *gateway = NULL;
    struct taut_err err = {0};
    assert_true(sessions <= SESSIONS_MAX);
    for (uint32_t i = 0; i < sessions; i++) {
        snprintf(targets[i], sizeof(targets[i]), "P%04u", i);
        configs[i] = (struct taut_session_config){.size = sizeof(configs[i]),
                                                  .sender_comp_id = "TAUT",
                                                  .target_comp_id = targets[i],
                                                  .reset_on_logon = 1};
    }
    options->size = sizeof(*options);
    options->sessions = configs;
    options->session_count = sessions;
    if (taut_gateway_create(&gateway, options, &err) != 0 || taut_gateway_start(gateway, &err) != 0)
        fail_msg("no gateway: %s", err.text);
    assert_int_not_equal(taut_gateway_port(gateway), 0);
    return gateway;
}

void stop_gateway(struct taut_gateway *gateway)
{
    int code = taut_gateway_stop(gateway, taut_now_ns() + 20 * TAUT_NS_PER_MS);
    assert_true(code == 0 || code == TAUT_ETIMEDOUT);
    assert_int_equal(stats_of(gateway, UINT32_MAX).connections, 0);
    taut_gateway_destroy(gateway);
}

struct taut_gateway_stats stats_of(const struct taut_gateway *gateway, uint32_t worker)
{
    struct taut_gateway_stats stats;
    assert_int_equal(taut_gateway_stats(gateway, worker, &stats), 0);
    return stats;
}

int wait_until(const struct taut_gateway *gateway,
               int (*condition)(const struct taut_gateway_stats *stats, uint64_t argument),
               uint64_t argument)
{
    uint64_t end_ns = taut_now_ns() + WAIT_MS * TAUT_NS_PER_MS;
    for (;;) {
        struct taut_gateway_stats stats = stats_of(gateway, UINT32_MAX);
        if (condition(&stats, argument))
            return 1;
        if (taut_now_ns() > end_ns)
            return 0;
        usleep(1000);
    }
}

int no_connections(const struct taut_gateway_stats *stats, uint64_t unused)
{
    (void)unused;
    return stats->connections == 0;
}

int all_closed(const struct taut_gateway_stats *stats, uint64_t accepted)
{
    return stats->accepted == accepted && stats->closed == accepted && stats->connections == 0;
}

static void connect_with(struct peer *peer, const struct taut_gateway *gateway, const char *sender,
                         int receive_bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(taut_gateway_port(gateway)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    memset(peer, 0, sizeof(*peer));
    peer->next_out = 1;
    snprintf(peer->sender, sizeof(peer->sender), "%s", sender);
    snprintf(peer->target, sizeof(peer->target), "TAUT");
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(peer->fd >= 0);
    if (receive_bytes)
        setsockopt(peer->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(peer->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail_msg("connect: %s", strerror(errno));
}

void peer_connect(struct peer *peer, const struct taut_gateway *gateway, const char *sender)
{
    connect_with(peer, gateway, sender, 0);
}

void peer_connect_small(struct peer *peer, const struct taut_gateway *gateway, const char *sender)
{
    connect_with(peer, gateway, sender, 4096);
}

void peer_close(struct peer *peer)
{
    close(peer->fd);
    peer->fd = -1;
}

size_t make_message(uint8_t *to, size_t capacity, const char *text)
{
    size_t body = strlen(text);
    int head = snprintf((char *)to, capacity, "8=FIX.4.4|9=%zu|", body);
    assert_true(head > 0 && (size_t)head + body + 8 <= capacity);
    memcpy(to + head, text, body);
    size_t length = (size_t)head + body;
    uint32_t sum = 0;
    for (size_t i = 0; i < length; i++) {
        if (to[i] == '|')
            to[i] = 1;
        sum += to[i];
    }
    char trailer[16];
    snprintf(trailer, sizeof(trailer), "10=%03u\x01", sum % 256);
    memcpy(to + length, trailer, 7);
    return length + 7;
}

size_t peer_make(struct peer *peer, uint8_t *to, size_t capacity, const char *type,
                 const char *body)
{
    char *text = malloc(strlen(body) + 256);
    char when[32];
    struct timespec now;
    struct tm calendar;
    assert_non_null(text);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &calendar);
    strftime(when, sizeof(when), "%Y%m%d-%H:%M:%S", &calendar);
    sprintf(text, "35=%s|34=%llu|49=%s|52=%s.%03ld|56=%s|%s", type,
            (unsigned long long)peer->next_out++, peer->sender, when, now.tv_nsec / 1000000,
            peer->target, body);
    size_t length = make_message(to, capacity, text);
    free(text);
    return length;
}

void peer_send_bytes(struct peer *peer, const void *bytes, size_t length)
{
    const uint8_t *next = bytes;
    while (length) {
        ssize_t n = send(peer->fd, next, length, MSG_NOSIGNAL);
        if (n < 0)
            fail_msg("send: %s", strerror(errno));
        next += n;
        length -= (size_t)n;
    }
}

void peer_send(struct peer *peer, const char *type, const char *body)
{
    size_t capacity = strlen(body) + 512;
    uint8_t *bytes = malloc(capacity);
    assert_non_null(bytes);
    size_t length = peer_make(peer, bytes, capacity, type, body);
    peer_send_bytes(peer, bytes, length);
    free(bytes);
}

/* Length of the whole message at the start of `in`, 0 where there is none yet. */
static size_t whole(const struct peer *peer)
{
    size_t body = 0, i;
    if (peer->in_length < 20)
        return 0;
    const uint8_t *soh = memchr(peer->in, 1, peer->in_length);
    assert_non_null(soh);
    i = (size_t)(soh - peer->in) + 1;
    assert_memory_equal(peer->in + i, "9=", 2);
    for (i += 2; i < peer->in_length && peer->in[i] != 1; i++)
        body = body * 10 + (size_t)(peer->in[i] - '0');
    size_t length = i + 1 + body + 7;
    return length <= peer->in_length ? length : 0;
}

static void take(struct peer *peer, size_t length)
{
    uint32_t sum = 0, told = 0;
    assert_true(length < sizeof(peer->message));
    for (size_t i = 0; i < length - 7; i++)
        sum += peer->in[i];
    for (size_t i = length - 4; i < length - 1; i++)
        told = told * 10 + (uint32_t)(peer->in[i] - '0');
    assert_int_equal(sum % 256, told);
    for (size_t i = 0; i < length; i++)
        peer->message[i] = peer->in[i] == 1 ? '|' : (char)peer->in[i];
    peer->message[length] = '\0';
    peer->message_length = length;
    peer->in_length -= length;
    memmove(peer->in, peer->in + length, peer->in_length);
}

/* 1 = bytes came, 0 = end, -1 = the limit is over. */
static int more(struct peer *peer)
{
    struct pollfd wait = {.fd = peer->fd, .events = POLLIN};
    if (poll(&wait, 1, WAIT_MS) <= 0)
        return -1;
    ssize_t n = recv(peer->fd, peer->in + peer->in_length, sizeof(peer->in) - peer->in_length, 0);
    if (n <= 0)
        return 0;
    peer->in_length += (size_t)n;
    return 1;
}

int peer_receive(struct peer *peer)
{
    size_t length;
    while ((length = whole(peer)) == 0) {
        int result = more(peer);
        if (result != 1)
            return result;
    }
    take(peer, length);
    return 1;
}

void peer_expect_end(struct peer *peer)
{
    int result = peer->in_length ? 1 : more(peer);
    if (result == 1)
        fail_msg("bytes instead of an end: %.*s", (int)peer->in_length, (char *)peer->in);
    if (result == -1)
        fail_msg("the connection does not end");
}

void peer_logon(struct peer *peer, const struct taut_gateway *gateway, const char *sender)
{
    peer_connect(peer, gateway, sender);
    peer_send(peer, "A", "98=0|108=30|");
    assert_int_equal(peer_receive(peer), 1);
    assert_string_equal(peer_field(peer, "35"), "A");
}

const char *peer_field(struct peer *peer, const char *tag)
{
    static char value[1 << 15];
    char wanted[16];
    snprintf(wanted, sizeof(wanted), "|%s=", tag);
    const char *found = strstr(peer->message, wanted);
    if (!found)
        return "";
    found += strlen(wanted);
    size_t length = strcspn(found, "|");
    memcpy(value, found, length);
    value[length] = '\0';
    return value;
}
