/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes: order, short sends and WRITABLE, want of buffers, fairness, and how many system calls they
 * cost: recv(2) and epoll_wait(2) are counted by wrappers that the linker puts in front of them.
 */
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t receive_calls, wait_calls, control_calls;

ssize_t __real_recv(int fd, void *data, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t length, int flags);
int __real_epoll_wait(int fd, struct epoll_event *events, int most, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout);
int __real_epoll_ctl(int fd, int operation, int target, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int operation, int target, struct epoll_event *event);

ssize_t __wrap_recv(int fd, void *data, size_t length, int flags)
{
    receive_calls++;
    return __real_recv(fd, data, length, flags);
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
    wait_calls++;
    return __real_epoll_wait(fd, events, most, timeout);
}

int __wrap_epoll_ctl(int fd, int operation, int target, struct epoll_event *event)
{
    control_calls++;
    return __real_epoll_ctl(fd, operation, target, event);
}

/* The byte at `position` of a stream that can't be shifted without being noticed. */
static uint8_t stream_byte(uint64_t position)
{
    return (uint8_t)((position * 2654435761u) >> 13);
}

static void stream_fill(uint8_t *data, size_t length, uint64_t position)
{
    for (size_t i = 0; i < length; i++)
        data[i] = stream_byte(position + i);
}

static void stream_check(const uint8_t *data, size_t length, uint64_t position)
{
    for (size_t i = 0; i < length; i++)
        if (data[i] != stream_byte(position + i))
            fail_msg("byte %llu is wrong", (unsigned long long)(position + i));
}

/* A peer that does not read: the send comes back short, WRITABLE follows once per short send, and
 * the stream arrives whole. */
static void test_short_sends(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .send_buffer_bytes = 8192};
    enum { TOTAL = 512 << 10, CHUNK = 65536 };
    struct rig rig;
    int fd;
    static uint8_t chunk[CHUNK];
    rig_open(&rig, &options, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    uint64_t sent = 0, got = 0, short_sends = 0, writables = 0;
    uint32_t may_send = 1;
    while (got < TOTAL) {
        while (may_send && sent < TOTAL) {
            size_t length = TOTAL - sent < CHUNK ? TOTAL - sent : CHUNK;
            stream_fill(chunk, length, sent);
            int64_t taken = taut_port_send(rig.port, conn, chunk, length);
            assert_in_range(taken, 0, length);
            sent += (uint64_t)taken;
            if ((size_t)taken < length) {
                may_send = 0;
                short_sends++;
            }
        }
        if (!may_send && got < sent) {
            size_t length = sent - got < CHUNK ? sent - got : CHUNK;
            assert_int_equal(plain_read(fd, chunk, length), length);
            stream_check(chunk, length, got);
            got += length;
        } else if (!may_send) {
            assert_int_equal(rig_expect(&rig, TAUT_PORT_WRITABLE).conn.id, conn.id);
            writables++;
            may_send = 1;
        } else {
            size_t length = TOTAL - got < CHUNK ? TOTAL - got : CHUNK;
            assert_int_equal(plain_read(fd, chunk, length), length);
            stream_check(chunk, length, got);
            got += length;
        }
    }
    assert_in_range(short_sends, 2, TOTAL); /* else nothing was tried here */
    if (!may_send) {
        rig_expect(&rig, TAUT_PORT_WRITABLE);
        writables++;
    }
    assert_int_equal(writables, short_sends);
    rig_quiet(&rig, 1000);
    struct taut_port_stats stats;
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.sends_short, short_sends);
    assert_int_equal(stats.send_bytes, TOTAL);
    close(fd);
    rig_close(&rig);
}

/* Sends until the kernel takes no more; bytes it moves on meanwhile make room, so more than once.
 */
static uint64_t fill(struct rig *rig, struct taut_conn conn)
{
    static const uint8_t block[1 << 20];
    uint64_t taken = 0;
    for (;;) {
        int64_t more = taut_port_send(rig->port, conn, block, sizeof block);
        assert_in_range(more, 0, sizeof block);
        taken += (uint64_t)more;
        if ((uint64_t)more < sizeof block)
            return taken;
    }
}

/* A connection that owes a WRITABLE still receives, and one poll never gives it both. */
static void test_writable_beside_input(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .send_buffer_bytes = 8192};
    struct rig rig;
    int fd;
    uint32_t received = 0, writable = 0;
    rig_open(&rig, &options, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    uint64_t taken = fill(&rig, conn);
    plain_write(fd, "question", 8);
    while (received < 8) {
        struct taut_completion completion = rig_next(&rig); /* asserts one a batch */
        if (completion.kind == TAUT_PORT_WRITABLE) {
            taken += fill(&rig, conn); /* there was room still: use it up */
            continue;
        }
        assert_int_equal(completion.kind, TAUT_PORT_RECEIVED);
        received += completion.length;
        taut_port_release(rig.port, completion.buffer);
    }
    plain_write(fd, "again", 5);
    while (taken) {
        uint8_t sink[4096];
        size_t length = taken < sizeof sink ? (size_t)taken : sizeof sink;
        assert_int_equal(plain_read(fd, sink, length), length);
        taken -= length;
    }
    while (!writable || received < 13) {
        struct taut_completion completion = rig_next(&rig);
        if (completion.kind == TAUT_PORT_WRITABLE) {
            writable++;
            continue;
        }
        assert_int_equal(completion.kind, TAUT_PORT_RECEIVED);
        received += completion.length;
        taut_port_release(rig.port, completion.buffer);
    }
    assert_int_equal(writable, 1);
    rig_quiet(&rig, 1000);
    close(fd);
    rig_close(&rig);
}

/* All buffers borrowed: nothing is received, accepts and wakes still come, the wait is a wait; then
 * everything arrives in order. */
static void test_starved(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .buffers = 2, .buffer_bytes = 64};
    uint32_t busy = *(uint32_t *)*state;
    struct rig rig;
    int fds[3], late;
    struct taut_conn conns[3];
    struct taut_port_stats stats;
    rig_open(&rig, &options, busy);
    for (int i = 0; i < 3; i++)
        conns[i] = rig_accept(&rig, &fds[i]);
    for (int i = 0; i < 3; i++)
        plain_write(fds[i], "abc", 3);
    struct taut_completion first = rig_expect(&rig, TAUT_PORT_RECEIVED);
    struct taut_completion second = rig_expect(&rig, TAUT_PORT_RECEIVED);
    assert_int_not_equal(first.conn.id, second.conn.id);
    taut_port_stats(rig.port, &stats);
    uint64_t sleeps = stats.sleeps;
    rig_quiet(&rig, 20 * TAUT_NS_PER_MS);
    taut_port_stats(rig.port, &stats);
    assert_in_range(stats.starved, 1, stats.polls);
    assert_int_equal(stats.buffers_peak, 2);
    if (busy)
        assert_int_equal(stats.sleeps, 0);
    else
        assert_in_range(stats.sleeps - sleeps, 1, 10); /* slept through, not turned around */
    taut_port_wake(rig.port);
    rig_expect(&rig, TAUT_PORT_WOKEN);
    rig_accept(&rig, &late);
    assert_memory_equal(first.data, "abc", 3); /* borrowed bytes are not touched */
    assert_memory_equal(second.data, "abc", 3);
    plain_write(fds[1], "def", 3);

    taut_port_release(rig.port, first.buffer);
    taut_port_release(rig.port, second.buffer);
    char got[3][16] = {{0}};
    for (int i = 0; i < 3; i++)
        if (conns[i].id == first.conn.id || conns[i].id == second.conn.id)
            strcpy(got[i], "abc");
    while (strlen(got[0]) + strlen(got[1]) + strlen(got[2]) < 12) {
        struct taut_completion completion = rig_expect(&rig, TAUT_PORT_RECEIVED);
        for (int i = 0; i < 3; i++)
            if (conns[i].id == completion.conn.id)
                strncat(got[i], (const char *)completion.data, completion.length);
        taut_port_release(rig.port, completion.buffer);
    }
    assert_string_equal(got[0], "abc");
    assert_string_equal(got[1], "abcdef");
    assert_string_equal(got[2], "abc");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    close(late);
    rig_close(&rig);
}

/* An end can't overtake bytes that wait for a buffer. */
static void test_end_waits_for_buffers(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .buffers = 1};
    struct rig rig;
    int fd, other_fd;
    rig_open(&rig, &options, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    struct taut_conn other = rig_accept(&rig, &other_fd);
    plain_write(other_fd, "hold", 4);
    struct taut_completion held = rig_expect(&rig, TAUT_PORT_RECEIVED);
    assert_int_equal(held.conn.id, other.id);
    plain_write(fd, "tail", 4);
    close(fd);
    rig_quiet(&rig, 5 * TAUT_NS_PER_MS);
    taut_port_release(rig.port, held.buffer);
    rig_expect_bytes(&rig, conn, "tail");
    assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).conn.id, conn.id);
    close(other_fd);
    rig_close(&rig);
}

/* One that always has more does not hold up one that has a byte. */
static void test_round_robin(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .buffer_bytes = 256};
    struct rig rig;
    int flood_fd, other_fd;
    static uint8_t flood[64 << 10];
    rig_open(&rig, &options, *(uint32_t *)*state);
    struct taut_conn flooding = rig_accept(&rig, &flood_fd);
    struct taut_conn other = rig_accept(&rig, &other_fd);
    stream_fill(flood, sizeof flood, 0);
    plain_write(flood_fd, flood, sizeof flood);
    uint64_t position = 0;
    uint32_t polls_to_other = 0;
    for (int n = 0; position < sizeof flood; n++) {
        struct taut_completion batch[8];
        if (n == 3)
            plain_write(other_fd, "x", 1);
        int count = taut_port_poll(rig.port, batch, 8, taut_now_ns() + PATIENCE_NS);
        assert_in_range(count, 1, 2);
        for (int i = 0; i < count; i++) {
            assert_int_equal(batch[i].kind, TAUT_PORT_RECEIVED);
            if (batch[i].conn.id == other.id) {
                polls_to_other = (uint32_t)n - 2;
            } else {
                assert_int_equal(batch[i].conn.id, flooding.id);
                stream_check(batch[i].data, batch[i].length, position);
                position += batch[i].length;
            }
            taut_port_release(rig.port, batch[i].buffer);
        }
    }
    assert_in_range(polls_to_other, 1, 3);
    close(flood_fd);
    close(other_fd);
    rig_close(&rig);
}

/* What a question and its answer cost: one wait, one receive, one send. */
static void test_system_calls(void **state)
{
    enum { ROUNDS = 500 };
    struct rig rig;
    int fd;
    char text[8];
    (void)state;
    rig_open(&rig, NULL, 0);
    struct taut_conn conn = rig_accept(&rig, &fd);
    uint64_t receives = receive_calls, waits = wait_calls, controls = control_calls;
    struct taut_completion completion;
    for (int i = 0; i < ROUNDS; i++) {
        __real_recv(fd, text, 0, MSG_DONTWAIT);
        plain_write(fd, "question", 8);
        assert_int_equal(taut_port_poll(rig.port, &completion, 1, TAUT_NEVER_NS), 1);
        assert_int_equal(completion.length, 8);
        taut_port_release(rig.port, completion.buffer);
        assert_int_equal(taut_port_send(rig.port, conn, "answer", 6), 6);
        assert_int_equal(__real_recv(fd, text, 6, MSG_WAITALL), 6);
    }
    assert_int_equal(receive_calls - receives, ROUNDS);
    assert_int_equal(wait_calls - waits, ROUNDS);
    assert_int_equal(control_calls - controls, 0);
    close(fd);
    rig_close(&rig);
}

/* A message as large as the buffer may have a successor: the port looks again, and no byte and no
 * end is left lying. */
static void test_full_buffers(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .buffer_bytes = 8};
    struct rig rig;
    int fd;
    rig_open(&rig, &options, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    plain_write(fd, "01234567", 8);
    rig_expect_bytes(&rig, conn, "01234567");
    rig_quiet(&rig, 1000);
    plain_write(fd, "0123456789abcdef", 16);
    rig_expect_bytes(&rig, conn, "0123456789abcdef");
    plain_write(fd, "89abcdef", 8);
    close(fd);
    rig_expect_bytes(&rig, conn, "89abcdef");
    rig_expect(&rig, TAUT_PORT_CLOSED);
    rig_close(&rig);
}

/* Urgent data cuts a receive short although more is there (tcp(7)): the rest must not wait for the
 * next packet, and the end behind it must be seen. */
static void test_urgent_data(void **state)
{
    struct rig rig;
    int fd;
    char all[32] = "";
    rig_open(&rig, NULL, *(uint32_t *)*state);
    rig_accept(&rig, &fd);
    plain_write(fd, "before", 6);
    assert_int_equal(send(fd, "!", 1, MSG_OOB), 1);
    plain_write(fd, "after", 5);
    while (strlen(all) < 11) {
        struct taut_completion completion = rig_expect(&rig, TAUT_PORT_RECEIVED);
        strncat(all, (const char *)completion.data, completion.length);
        taut_port_release(rig.port, completion.buffer);
    }
    assert_string_equal(all, "beforeafter");
    close(fd);
    rig_expect(&rig, TAUT_PORT_CLOSED);
    rig_close(&rig);
}

/* Paused: neither bytes nor an end come, whether they were there before or come later; others are
 * not touched. Then everything comes, in order. */
static void test_pause(void **state)
{
    struct rig rig;
    int fds[6];
    struct taut_conn conns[6];
    rig_open(&rig, NULL, *(uint32_t *)*state);
    conns[0] = rig_accept(&rig, &fds[0]);
    plain_write(fds[0], "one ", 4);
    assert_int_equal(taut_port_pause(rig.port, conns[0], 1), 0);
    uint64_t looks = wait_calls;
    rig_quiet(&rig, 2 * TAUT_NS_PER_MS);
    if (!*(uint32_t *)*state)
        assert_in_range(wait_calls - looks, 0, 10); /* slept through, not turned around */
    /* More connections: a busy-polling port changes how it looks for input meanwhile. */
    for (int i = 1; i < 6; i++)
        conns[i] = rig_accept(&rig, &fds[i]);
    plain_write(fds[0], "two ", 4);
    plain_write(fds[3], "else", 4);
    rig_expect_bytes(&rig, conns[3], "else");
    rig_quiet(&rig, 2 * TAUT_NS_PER_MS);
    assert_int_equal(taut_port_send(rig.port, conns[0], "sends", 5), 5);
    assert_int_equal(taut_port_pause(rig.port, conns[0], 1), 0); /* again changes nothing */
    assert_int_equal(taut_port_pause(rig.port, conns[0], 0), 0);
    rig_expect_bytes(&rig, conns[0], "one two ");
    rig_quiet(&rig, 1000);
    assert_int_equal(taut_port_pause(rig.port, conns[0], 1), 0);
    plain_write(fds[0], "three", 5);
    close(fds[0]);
    rig_quiet(&rig, 2 * TAUT_NS_PER_MS);
    for (int i = 1; i < 6; i++) { /* and back */
        assert_int_equal(taut_port_close(rig.port, conns[i], 0), 0);
        close(fds[i]);
    }
    rig_quiet(&rig, 2 * TAUT_NS_PER_MS);
    assert_int_equal(taut_port_pause(rig.port, conns[0], 0), 0);
    rig_expect_bytes(&rig, conns[0], "three");
    /* It was reset, because it left "sends" unread: an end all the same, and the last. */
    rig_expect(&rig, TAUT_PORT_CLOSED);
    rig_quiet(&rig, 1000);
    rig_close(&rig);
}

/* A paused connection still gets its WRITABLE; bytes and an end that came meanwhile are not lost,
 * also where a busy-polling port has changed how it looks for input. */
static void test_writable_while_paused(void **state)
{
    struct taut_port_options options = {.size = sizeof options, .send_buffer_bytes = 8192};
    struct rig rig;
    int fd, others[4];
    rig_open(&rig, &options, *(uint32_t *)*state);
    struct taut_conn conn = rig_accept(&rig, &fd);
    assert_int_equal(taut_port_pause(rig.port, conn, 1), 0);
    plain_write(fd, "input", 5);
    for (uint64_t taken = fill(&rig, conn); taken;) {
        uint8_t sink[4096];
        size_t length = taken < sizeof sink ? (size_t)taken : sizeof sink;
        assert_int_equal(plain_read(fd, sink, length), length);
        taken -= length;
    }
    rig_expect(&rig, TAUT_PORT_WRITABLE);
    shutdown(fd, SHUT_WR);
    rig_quiet(&rig, TAUT_NS_PER_MS);
    for (int i = 0; i < 4; i++)
        rig_accept(&rig, &others[i]);
    rig_quiet(&rig, TAUT_NS_PER_MS);
    assert_int_equal(taut_port_pause(rig.port, conn, 0), 0);
    rig_expect_bytes(&rig, conn, "input");
    assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).conn.id, conn.id);
    for (int i = 0; i < 4; i++)
        close(others[i]);
    close(fd);
    rig_close(&rig);
}

struct stream {
    struct taut_conn conn;
    uint64_t sent, got;
};

static void stream_push(struct rig *rig, struct stream *stream, uint64_t total)
{
    static uint8_t data[5000];
    while (stream->sent < total) {
        size_t length = 1 + (size_t)rand() % sizeof data;
        if (length > total - stream->sent)
            length = (size_t)(total - stream->sent);
        stream_fill(data, length, stream->sent);
        int64_t taken = taut_port_send(rig->port, stream->conn, data, length);
        assert_in_range(taken, 0, length);
        stream->sent += (uint64_t)taken;
        if ((size_t)taken < length)
            return;
    }
}

/* `pairs` connections of the port to itself, each side a stream to the other, until all is there.
 */
static void exchange(struct rig *rig, struct stream *streams, uint32_t count, uint64_t total)
{
    for (uint32_t i = 0; i < count; i++) {
        streams[i].sent = streams[i].got = 0;
        assert_int_equal(taut_port_set_user(rig->port, streams[i].conn, i), 0);
        stream_push(rig, &streams[i], total);
    }
    for (uint64_t left = count * total; left;) {
        struct taut_completion completion = rig_next(rig);
        struct stream *stream = &streams[completion.user];
        assert_int_equal(completion.conn.id, stream->conn.id);
        if (completion.kind == TAUT_PORT_WRITABLE) {
            stream_push(rig, stream, total);
            continue;
        }
        assert_int_equal(completion.kind, TAUT_PORT_RECEIVED);
        stream_check(completion.data, completion.length, stream->got);
        stream->got += completion.length;
        left -= completion.length;
        taut_port_release(rig->port, completion.buffer);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(streams[i].sent, total);
        assert_int_equal(streams[i].got, total);
    }
}

static void add_pair(struct rig *rig, struct stream *streams)
{
    memset(streams, 0, 2 * sizeof *streams);
    assert_int_equal(
        taut_port_connect(rig->port, "127.0.0.1", rig->number, 0, &streams[0].conn, NULL), 0);
    for (uint32_t seen = 0; seen < 2; seen++) {
        struct taut_completion completion = rig_next(rig);
        if (completion.kind == TAUT_PORT_ACCEPTED)
            streams[1].conn = completion.conn;
        else
            assert_int_equal(completion.kind, TAUT_PORT_CONNECTED);
    }
}

/* Many streams both ways through small buffers, while the number of connections crosses, up and
 * down, the bound at which a busy-polling port changes how it looks for input. */
static void test_many_streams(void **state)
{
    struct taut_port_options options = {.size = sizeof options,
                                        .buffers = 3,
                                        .buffer_bytes = 700,
                                        .send_buffer_bytes = 5000,
                                        .receive_buffer_bytes = 5000};
    enum { MOST = 40, TOTAL = 60000 };
    struct rig rig;
    struct stream streams[MOST];
    rig_open(&rig, &options, *(uint32_t *)*state);
    srand(4711);
    uint32_t count = 0;
    static const uint32_t steps[] = {2, 6, 2, MOST, 8, 0, 2, 4, 0, 2};
    for (size_t step = 0; step < sizeof steps / sizeof *steps; step++) {
        while (count < steps[step]) {
            add_pair(&rig, &streams[count]);
            count += 2;
        }
        while (count > steps[step]) {
            count -= 2;
            assert_int_equal(taut_port_close(rig.port, streams[count].conn, 0), 0);
            rig_expect(&rig, TAUT_PORT_CLOSED);
        }
        exchange(&rig, streams, count, TOTAL);
    }
    rig_quiet(&rig, 1000);
    rig_close(&rig);
}

/* Input that is already there when the number of connections crosses the bound. */
static void test_input_while_changing(void **state)
{
    struct rig rig;
    int fds[20];
    struct taut_conn conns[20];
    rig_open(&rig, NULL, *(uint32_t *)*state);
    for (int i = 0; i < 20; i++) {
        conns[i] = rig_accept(&rig, &fds[i]);
        /* Each new connection arrives beside a byte on every older one. */
        for (int j = 0; j <= i; j++)
            plain_write(fds[j], "b", 1);
        for (int j = 0; j <= i; j++) {
            struct taut_completion completion = rig_expect(&rig, TAUT_PORT_RECEIVED);
            assert_int_equal(completion.length, 1);
            taut_port_release(rig.port, completion.buffer);
        }
    }
    for (int i = 19; i >= 0; i--) {
        for (int j = 0; j < i; j++)
            plain_write(fds[j], "b", 1);
        assert_int_equal(taut_port_close(rig.port, conns[i], 0), 0);
        for (int j = 0; j < i; j++)
            taut_port_release(rig.port, rig_expect(&rig, TAUT_PORT_RECEIVED).buffer);
        close(fds[i]);
    }
    rig_quiet(&rig, 1000);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_short_sends),  ON_BOTH(test_writable_beside_input),
        ON_BOTH(test_starved),      ON_BOTH(test_end_waits_for_buffers),
        ON_BOTH(test_round_robin),  cmocka_unit_test(test_system_calls),
        ON_BOTH(test_full_buffers), ON_BOTH(test_urgent_data),
        ON_BOTH(test_pause),        ON_BOTH(test_writable_while_paused),
        ON_BOTH(test_many_streams), ON_BOTH(test_input_while_changing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
