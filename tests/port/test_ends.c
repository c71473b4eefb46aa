/* SPDX-License-Identifier: BSD-2-Clause */
/* How connections end, and what becomes of their handles. */
#include "support.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes before an end come first, and the answer to them still goes out. */
static void test_bytes_before_end(void **state)
{
    struct rig rig;
    int fd;
    char answer[8];
    rig_open(&rig, NULL, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    plain_write(fd, "last words", 10);
    shutdown(fd, SHUT_WR);
    struct taut_completion received = rig_expect(&rig, TAUT_PORT_RECEIVED);
    assert_int_equal(received.length, 10);
    taut_port_release(rig.port, received.buffer);
    assert_int_equal(rig.at, rig.count); /* CLOSED is not in the same batch */
    assert_int_equal(taut_port_send(rig.port, conn, "answer", 6), 6);
    struct taut_completion closed = rig_expect(&rig, TAUT_PORT_CLOSED);
    assert_int_equal(closed.code, 0);
    rig_quiet(&rig, 1000);
    assert_int_equal(plain_read(fd, answer, sizeof answer), 6);
    assert_memory_equal(answer, "answer", 6);
    close(fd);
    rig_close(&rig);
}

static void test_bytes_before_reset(void **state)
{
    struct rig rig;
    int fd;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    plain_write(fd, "then gone", 9);
    plain_reset(fd);
    rig_expect_bytes(&rig, conn, "then gone");
    assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).code, TAUT_ECONNRESET);
    rig_close(&rig);
}

/* Sending to a peer that is gone: no signal (its default action ends this program), a code, then
 * CLOSED with the same code. */
static void test_send_to_reset_peer(void **state)
{
    struct rig rig;
    int fd;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    signal(SIGPIPE, SIG_DFL);
    struct taut_conn conn = rig_accept(&rig, &fd);
    plain_reset(fd);
    int64_t taken = 0;
    for (int i = 0; i < 3; i++) /* it stays so */
        taken = taut_port_send(rig.port, conn, "x", 1);
    assert_int_equal(taken, TAUT_ECONNRESET);
    assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).code, TAUT_ECONNRESET);
    assert_int_equal(taut_port_send(rig.port, conn, "x", 1), TAUT_ENOENT);
    rig_close(&rig);
}

/* A reset after an end makes the next send fail by EPIPE, the one that raises a signal. */
static void test_no_signal(void **state)
{
    struct rig rig;
    int fd;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    signal(SIGPIPE, SIG_DFL);
    struct taut_conn conn = rig_accept(&rig, &fd);
    shutdown(fd, SHUT_WR);
    plain_reset(fd);
    assert_int_equal(taut_port_send(rig.port, conn, "x", 1), TAUT_ECONNRESET);
    assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).code, TAUT_ECONNRESET);
    rig_close(&rig);
}

static void expect_stale(struct rig *rig, struct taut_conn conn)
{
    char text[8] = "x";
    assert_int_equal(taut_port_live(rig->port, conn), 0);
    assert_int_equal(taut_port_send(rig->port, conn, "x", 1), TAUT_ENOENT);
    assert_int_equal(taut_port_close(rig->port, conn, 0), TAUT_ENOENT);
    assert_int_equal(taut_port_shutdown(rig->port, conn), TAUT_ENOENT);
    assert_int_equal(taut_port_set_user(rig->port, conn, 1), TAUT_ENOENT);
    assert_int_equal(taut_port_pause(rig->port, conn, 1), TAUT_ENOENT);
    assert_int_equal(taut_port_local(rig->port, conn), 0);
    assert_int_equal(taut_port_peer(rig->port, conn, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void test_stale_handles(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .connections = 2};
    struct rig rig;
    struct taut_conn old[50];
    rig_open(&rig, &options, *(uint32_t *)*state);
    /* One slot only: each connection is its predecessor's successor. */
    for (int i = 0; i < 50; i++) {
        int fd;
        old[i] = rig_accept(&rig, &fd);
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(old[i].id, old[j].id);
            expect_stale(&rig, old[j]);
        }
        assert_int_equal(taut_port_live(rig.port, old[i]), 1);
        assert_int_equal(taut_port_close(rig.port, old[i], 1), 0);
        close(fd);
    }
    expect_stale(&rig, (struct taut_conn){0});
    expect_stale(&rig, (struct taut_conn){UINT32_MAX});
    assert_int_equal(taut_port_send(rig.port, rig.listener, "x", 1), TAUT_ENOENT);
    rig_close(&rig);
}

/* While the first of a batch is handled, the others are closed and have successors. */
static void test_close_within_batch(void **state)
{
    struct rig rig;
    struct taut_conn conns[4], successor;
    int fds[4], pair[2];
    rig_open(&rig, NULL, *(uint32_t *)*state);
    for (int i = 0; i < 4; i++)
        conns[i] = rig_accept(&rig, &fds[i]);
    plain_write(fds[0], "a", 1);
    plain_write(fds[1], "b", 1);
    plain_write(fds[2], "c", 1);
    close(fds[3]);
    int count = 0;
    /* Not all may have arrived when the port first looks; nothing is released, so none is lost. */
    struct taut_completion batch[4];
    while (count < 4) {
        int more = taut_port_poll(rig.port, batch + count, (uint32_t)(4 - count),
                                  taut_now_ns() + PATIENCE_NS);
        assert_true(more > 0);
        count += more;
    }
    for (int i = 0; i < 4; i++)
        (void)taut_port_close(rig.port, conns[i], 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(taut_port_adopt(rig.port, pair[0], 1, &successor, &rig.err), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(taut_port_live(rig.port, batch[i].conn), 0);
        assert_int_not_equal(batch[i].conn.id, successor.id);
        if (batch[i].kind == TAUT_PORT_RECEIVED)
            taut_port_release(rig.port, batch[i].buffer);
    }
    rig_quiet(&rig, 1000);
    assert_int_equal(taut_port_live(rig.port, successor), 1);
    plain_write(pair[1], "mine", 4);
    rig_expect_bytes(&rig, successor, "mine");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    close(pair[1]);
    rig_close(&rig);
}

/* Closing a handle whose CLOSED was just given out is allowed, and ends it at once. */
static void test_close_after_closed(void **state)
{
    struct rig rig;
    int fd;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    close(fd);
    rig_expect(&rig, TAUT_PORT_CLOSED);
    assert_int_equal(taut_port_close(rig.port, conn, 0), 0);
    expect_stale(&rig, conn);
    rig_quiet(&rig, 1000);
    struct taut_port_stats stats;
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.closed, 1);
    rig_close(&rig);
}

static void test_shutdown(void **state)
{
    struct rig rig;
    int fd;
    char text[8];
    rig_open(&rig, NULL, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    assert_int_equal(taut_port_send(rig.port, conn, "bye", 3), 3);
    assert_int_equal(taut_port_shutdown(rig.port, conn), 0);
    assert_int_equal(taut_port_send(rig.port, conn, "x", 1), TAUT_ESTATE);
    assert_int_equal(plain_read(fd, text, sizeof text), 3); /* and the end */
    plain_write(fd, "late", 4);
    rig_expect_bytes(&rig, conn, "late");
    close(fd);
    assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).code, 0);
    rig_close(&rig);
}

static void test_reset_on_close(void **state)
{
    struct rig rig;
    int fd;
    char byte;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    assert_int_equal(taut_port_close(rig.port, conn, 1), 0);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_bytes_before_end),   ON_BOTH(test_bytes_before_reset),
        ON_BOTH(test_send_to_reset_peer), ON_BOTH(test_no_signal),
        ON_BOTH(test_stale_handles),      ON_BOTH(test_close_within_batch),
        ON_BOTH(test_close_after_closed), ON_BOTH(test_shutdown),
        ON_BOTH(test_reset_on_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
