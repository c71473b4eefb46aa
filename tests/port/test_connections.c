/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: how they begin, are named, handed over and refused. How they end: test_ends.c. */
#include "support.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_conversation(void **state)
{
    struct rig rig;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    assert_int_equal(taut_port_set_user(rig.port, rig.listener, 42), 0);
    int fd = plain_connect(rig.number);
    struct taut_completion accepted = rig_expect(&rig, TAUT_PORT_ACCEPTED);
    assert_int_equal(accepted.user, 42);
    assert_int_equal(taut_port_set_user(rig.port, accepted.conn, 77), 0);

    struct sockaddr_in own;
    socklen_t size = sizeof own;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &size), 0);
    char text[64], expected[64];
    snprintf(expected, sizeof expected, "127.0.0.1:%u", ntohs(own.sin_port));
    assert_int_equal(taut_port_peer(rig.port, accepted.conn, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    assert_int_equal(taut_port_local(rig.port, accepted.conn), rig.number);

    plain_write(fd, "hello", 5);
    struct taut_completion received = rig_expect(&rig, TAUT_PORT_RECEIVED);
    assert_int_equal(received.user, 77);
    assert_int_equal(received.length, 5);
    assert_memory_equal(received.data, "hello", 5);
    /* The padding behind the bytes may be read: under a sanitizer this is the proof. */
    volatile uint8_t sum = 0;
    for (uint32_t i = 0; i < 64; i++)
        sum = (uint8_t)(sum + received.data[received.length + i]);
    taut_port_release(rig.port, received.buffer);

    char answer[5];
    assert_int_equal(taut_port_send(rig.port, accepted.conn, "world", 5), 5);
    assert_int_equal(taut_port_send(rig.port, accepted.conn, "world", 0), 0);
    assert_int_equal(plain_read(fd, answer, 5), 5);
    assert_memory_equal(answer, "world", 5);

    close(fd);
    struct taut_completion closed = rig_expect(&rig, TAUT_PORT_CLOSED);
    assert_int_equal(closed.code, 0);
    assert_int_equal(closed.user, 77);
    /* Dead for bytes, but still named until the next poll. */
    assert_int_equal(taut_port_send(rig.port, closed.conn, "x", 1), TAUT_ENOENT);
    assert_int_equal(taut_port_live(rig.port, closed.conn), 1);
    assert_int_equal(taut_port_peer(rig.port, closed.conn, text, sizeof text), strlen(expected));
    rig_quiet(&rig, 1000);
    assert_int_equal(taut_port_live(rig.port, closed.conn), 0);

    struct taut_port_stats stats;
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.accepted, 1);
    assert_int_equal(stats.closed, 1);
    assert_int_equal(stats.receives, 1);
    assert_int_equal(stats.receive_bytes, 5);
    assert_int_equal(stats.sends, 1);
    assert_int_equal(stats.send_bytes, 5);
    assert_int_equal(stats.connections_peak, 2);
    assert_int_equal(stats.buffers_peak, 1);
    rig_close(&rig);
}

static void test_connect(void **state)
{
    struct rig rig;
    struct taut_conn conn;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    assert_int_equal(taut_port_connect(rig.port, "127.0.0.1", rig.number, 9, &conn, &rig.err), 0);
    struct taut_conn other = {0};
    for (int i = 0; i < 2; i++) {
        struct taut_completion completion = rig_next(&rig);
        if (completion.kind == TAUT_PORT_ACCEPTED) {
            other = completion.conn;
            continue;
        }
        assert_int_equal(completion.kind, TAUT_PORT_CONNECTED);
        assert_int_equal(completion.conn.id, conn.id);
        assert_int_equal(completion.user, 9);
    }
    assert_int_equal(taut_port_send(rig.port, conn, "ping", 4), 4);
    rig_expect_bytes(&rig, other, "ping");
    assert_int_equal(taut_port_send(rig.port, other, "pong", 4), 4);
    rig_expect_bytes(&rig, conn, "pong");
    assert_int_equal(taut_port_close(rig.port, conn, 0), 0);
    assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).conn.id, other.id);
    rig_close(&rig);
}

/* The peer's first bytes, and its end, are there before the port sees that it is connected. */
static void test_input_with_connect(void **state)
{
    struct rig rig;
    struct taut_conn conn;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fds[3], listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    rig_open(&rig, NULL, *(uint32_t *)*state);
    for (int i = 0; i < 3; i++) { /* with the third, a busy-polling port asks epoll */
        assert_int_equal(
            taut_port_connect(rig.port, "127.0.0.1", ntohs(address.sin_port), 0, &conn, &rig.err),
            0);
        int fd = accept(listener, NULL, NULL);
        assert_true(fd >= 0);
        plain_write(fd, "banner", 6);
        fds[i] = fd;
        if (i == 2)
            close(fd);
        assert_int_equal(rig_expect(&rig, TAUT_PORT_CONNECTED).conn.id, conn.id);
        rig_expect_bytes(&rig, conn, "banner");
        if (i == 2)
            assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).conn.id, conn.id);
        else
            rig_quiet(&rig, 1000);
    }
    close(fds[0]);
    close(fds[1]);
    close(listener);
    rig_close(&rig);
}

/* A port number on which nobody listens: bound, so that nobody else gets it, and not listening. */
static int refusing_socket(uint16_t *number)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *number = ntohs(address.sin_port);
    return fd;
}

static void test_connect_refused(void **state)
{
    struct rig rig;
    struct taut_conn conn;
    uint16_t number;
    int fd = refusing_socket(&number);
    rig_open(&rig, NULL, *(uint32_t *)*state);
    const char *hosts[] = {"127.0.0.1", "localhost"};
    for (size_t i = 0; i < 2; i++) {
        int code = taut_port_connect(rig.port, hosts[i], number, 5, &conn, &rig.err);
        if (code == 0) {
            struct taut_completion closed = rig_expect(&rig, TAUT_PORT_CLOSED);
            assert_int_equal(closed.conn.id, conn.id);
            assert_int_equal(closed.user, 5);
            code = closed.code;
        }
        assert_int_equal(code, TAUT_ECONNREFUSED);
    }
    rig_quiet(&rig, 1000);
    struct taut_port_stats stats;
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.connected, 0);
    close(fd);
    rig_close(&rig);
}

/* "localhost" is ::1 first on many machines: the listener is on 127.0.0.1 only. */
static void test_connect_next_address(void **state)
{
    struct rig rig;
    struct taut_conn conn;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    assert_int_equal(taut_port_connect(rig.port, "localhost", rig.number, 0, &conn, &rig.err), 0);
    for (int i = 0; i < 2; i++) {
        struct taut_completion completion = rig_next(&rig);
        assert_true(completion.kind == TAUT_PORT_ACCEPTED ||
                    (completion.kind == TAUT_PORT_CONNECTED && completion.conn.id == conn.id));
    }
    char text[64];
    taut_port_peer(rig.port, conn, text, sizeof text);
    assert_memory_equal(text, "127.0.0.1:", 10);
    rig_close(&rig);
}

static void test_ipv6(void **state)
{
    struct rig rig;
    struct taut_conn listener, conn, accepted = {0};
    rig_open(&rig, NULL, *(uint32_t *)*state);
    if (taut_port_listen(rig.port, "::1", 0, 0, &listener, &rig.err) != 0) {
        print_message("skipped: no IPv6 here: %s\n", rig.err.text);
        rig_close(&rig);
        skip();
    }
    uint16_t number = taut_port_local(rig.port, listener);
    assert_int_equal(taut_port_connect(rig.port, "[::1]", number, 0, &conn, &rig.err), 0);
    for (int i = 0; i < 2; i++) {
        struct taut_completion completion = rig_next(&rig);
        if (completion.kind == TAUT_PORT_ACCEPTED)
            accepted = completion.conn;
    }
    char text[64];
    taut_port_peer(rig.port, accepted, text, sizeof text);
    assert_memory_equal(text, "[::1]:", 6);
    assert_int_equal(taut_port_send(rig.port, conn, "six", 3), 3);
    rig_expect_bytes(&rig, accepted, "six");
    rig_close(&rig);
}

static void test_listen_errors(void **state)
{
    struct rig rig;
    struct taut_conn listener;
    (void)state;
    rig_open(&rig, NULL, 0);
    assert_int_equal(taut_port_listen(rig.port, "127.0.0.1", rig.number, 0, &listener, &rig.err),
                     TAUT_EADDRINUSE);
    assert_int_equal(listener.id, 0);
    assert_non_null(strstr(rig.err.text, "in use"));
    assert_non_null(strstr(rig.err.text, "127.0.0.1:"));

    /* A label of 64 characters is no name: no resolver needs to be asked. */
    const char *bad = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid";
    assert_int_equal(taut_port_listen(rig.port, bad, 0, 0, &listener, &rig.err), TAUT_ENOENT);
    assert_non_null(strstr(rig.err.text, bad));
    assert_int_equal(taut_port_connect(rig.port, bad, 1, 0, &listener, &rig.err), TAUT_ENOENT);
    assert_int_equal(taut_port_listen(rig.port, "", 0, 0, &listener, &rig.err), TAUT_EINVAL);
    assert_int_equal(taut_port_connect(rig.port, NULL, 1, 0, &listener, &rig.err), TAUT_EINVAL);
    /* TEST-NET-1 belongs to nobody. */
    assert_int_equal(taut_port_listen(rig.port, "192.0.2.1", 0, 0, &listener, &rig.err),
                     TAUT_ENOENT);
    assert_non_null(strstr(rig.err.text, "no such address"));
    assert_int_equal(taut_port_listen(rig.port, "*", 0, 0, &listener, &rig.err), 0);
    int fd = plain_connect(taut_port_local(rig.port, listener));
    rig_expect(&rig, TAUT_PORT_ACCEPTED);
    close(fd);
    rig_close(&rig);
}

static void test_hand_off(void **state)
{
    struct rig from, to;
    struct taut_conn listener, conn;
    uint32_t before = open_descriptors();
    rig_open(&from, NULL, *(uint32_t *)*state);
    rig_open(&to, NULL, *(uint32_t *)*state);
    assert_int_equal(taut_port_listen(from.port, "127.0.0.1", 0, 1, &listener, &from.err), 0);
    assert_int_equal(taut_port_set_user(from.port, listener, 3), 0);
    int fd = plain_connect(taut_port_local(from.port, listener));
    plain_write(fd, "early", 5); /* already there when the socket moves */
    struct taut_completion accepted = rig_expect(&from, TAUT_PORT_ACCEPTED_FD);
    assert_int_equal(accepted.conn.id, listener.id);
    assert_int_equal(accepted.user, 3);
    assert_true(accepted.fd >= 0);
    assert_int_equal(taut_port_adopt(to.port, accepted.fd, 8, &conn, &to.err), 0);
    struct taut_completion received = rig_expect(&to, TAUT_PORT_RECEIVED);
    assert_int_equal(received.user, 8);
    assert_memory_equal(received.data, "early", 5);
    taut_port_release(to.port, received.buffer);
    rig_quiet(&from, 1000);
    close(fd);
    rig_expect(&to, TAUT_PORT_CLOSED);
    rig_close(&from);
    rig_close(&to);
    assert_int_equal(open_descriptors(), before);
}

static void test_adopt_refuses(void **state)
{
    struct rig rig;
    struct taut_conn conn;
    int pipes[2];
    (void)state;
    rig_open(&rig, NULL, 0);
    assert_int_equal(taut_port_adopt(rig.port, -1, 0, &conn, &rig.err), TAUT_EINVAL);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(taut_port_adopt(rig.port, pipes[0], 0, &conn, &rig.err), TAUT_EINVAL);
    int datagram = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(taut_port_adopt(rig.port, datagram, 0, &conn, &rig.err), TAUT_EINVAL);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(taut_port_adopt(rig.port, listener, 0, &conn, &rig.err), TAUT_EINVAL);
    close(listener);
    close(datagram);
    close(pipes[0]);
    close(pipes[1]);
    rig_close(&rig);
}

static void test_full_table(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .connections = 3};
    struct rig rig;
    struct taut_conn conn;
    int fds[2], pair[2];
    char byte;
    rig_open(&rig, &options, *(uint32_t *)*state);
    struct taut_conn first = rig_accept(&rig, &fds[0]);
    rig_accept(&rig, &fds[1]);
    int refused = plain_connect(rig.number);
    rig_quiet(&rig, 20 * TAUT_NS_PER_MS);
    assert_int_equal(plain_read(refused, &byte, 1), 0); /* its end, not a wait without one */
    close(refused);
    struct taut_port_stats stats;
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.refused, 1);
    assert_int_equal(taut_port_connect(rig.port, "127.0.0.1", rig.number, 0, &conn, &rig.err),
                     TAUT_ENOSPC);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(taut_port_adopt(rig.port, pair[0], 0, &conn, &rig.err), TAUT_ENOSPC);
    plain_write(pair[0], "x", 1); /* still the caller's */
    assert_int_equal(taut_port_close(rig.port, first, 0), 0);
    assert_int_equal(taut_port_adopt(rig.port, pair[0], 0, &conn, &rig.err), 0);
    close(pair[1]);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void test_options(void **state)
{
    struct taut_port *port;
    struct taut_err err = {0};
    (void)state;
    struct taut_port_options options = {.size = 1};
    assert_int_equal(taut_port_create(&port, &options, &err), TAUT_EINVAL);
    assert_non_null(strstr(err.text, "port options: size"));
    options = (struct taut_port_options){.size = sizeof options, .kind = 99};
    assert_int_equal(taut_port_create(&port, &options, &err), TAUT_ENOTSUP);
    options = (struct taut_port_options){.size = sizeof options, .connections = UINT32_MAX};
    assert_int_equal(taut_port_create(&port, &options, &err), TAUT_EINVAL);
    assert_non_null(strstr(err.text, "4294967295"));
    options = (struct taut_port_options){.size = sizeof options, .buffer_bytes = UINT32_MAX};
    assert_int_equal(taut_port_create(&port, &options, &err), TAUT_EINVAL);
    options = (struct taut_port_options){.size = sizeof options, .buffers = UINT32_MAX};
    assert_int_equal(taut_port_create(&port, &options, &err), TAUT_EINVAL);
    assert_null(port);

    assert_int_equal(taut_port_create(&port, NULL, NULL), 0);
    assert_int_equal(taut_port_effective(port, &options), 0);
    assert_int_equal(options.connections, 1024);
    assert_int_equal(options.buffers, 64);
    assert_int_equal(options.buffer_bytes, 16384);
    taut_port_destroy(port);
    taut_port_destroy(NULL);

    options = (struct taut_port_options){.connections = 3, .spin_ns = 5000}; /* no size: 0.1 */
    assert_int_equal(taut_port_create(&port, &options, NULL), 0);
    assert_int_equal(taut_port_effective(port, &options), 0);
    assert_int_equal(options.size, sizeof options);
    assert_int_equal(options.connections, 3);
    assert_int_equal(options.spin_ns, 5000);
    taut_port_destroy(port);
    options.size = offsetof(struct taut_port_options, spin_ns); /* an older header's */
    assert_int_equal(taut_port_create(&port, &options, NULL), 0);
    assert_int_equal(taut_port_effective(port, &options), 0);
    assert_int_equal(options.connections, 3);
    assert_int_equal(options.spin_ns, 5000); /* behind the end of that size */
    options.size = sizeof options;
    assert_int_equal(taut_port_effective(port, &options), 0);
    assert_int_equal(options.spin_ns, TAUT_WAIT_NONE_NS);
    options.size = 1;
    assert_int_equal(taut_port_effective(port, &options), TAUT_EINVAL);
    taut_port_destroy(port);

    options = (struct taut_port_options){.size = sizeof options, .send_buffer_bytes = 20000};
    assert_int_equal(taut_port_create(&port, &options, &err), 0);
    assert_int_equal(taut_port_effective(port, &options), 0);
    assert_int_equal(options.send_buffer_bytes, 40000); /* socket(7): the kernel doubles it */
    taut_port_destroy(port);

    assert_string_equal(taut_port_kind_name(TAUT_PORT_EPOLL), "epoll");
    assert_string_equal(taut_port_kind_name(99), "?");
    assert_int_equal(taut_port_kind_from("epoll"), TAUT_PORT_EPOLL);
    assert_int_equal(taut_port_kind_from("carrier pigeon"), -1);
    assert_int_equal(taut_port_kind_from(NULL), -1);
}

/* Giving a buffer back twice is a broken invariant, in every build. */
static void test_double_release_aborts(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct taut_port *port;
        struct taut_conn conn;
        struct taut_completion completion;
        int pair[2];
        close(2);
        if (taut_port_create(&port, NULL, NULL) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
            taut_port_adopt(port, pair[0], 0, &conn, NULL) || write(pair[1], "x", 1) != 1 ||
            taut_port_poll(port, &completion, 1, TAUT_NEVER_NS) != 1)
            _exit(1);
        taut_port_release(port, completion.buffer);
        taut_port_release(port, completion.buffer);
        _exit(2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_conversation),           ON_BOTH(test_connect),
        ON_BOTH(test_input_with_connect),     ON_BOTH(test_connect_refused),
        ON_BOTH(test_connect_next_address),   ON_BOTH(test_ipv6),
        cmocka_unit_test(test_listen_errors), ON_BOTH(test_hand_off),
        cmocka_unit_test(test_adopt_refuses), ON_BOTH(test_full_table),
        cmocka_unit_test(test_options),       cmocka_unit_test(test_double_release_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
