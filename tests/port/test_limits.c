/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits: no descriptors left, 10,000 connections that come and go, no allocation after creation.
 * The malloc family is replaced by one that counts and calls the C library's own; a sanitizer has
 * its own, and those two tests are then skipped. accept4(2) is wrapped by the linker, to count and
 * to fail as told.
 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/epoll.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static _Atomic uint64_t allocations;

#if !SANITIZED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_realloc(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_memalign(alignment, size);
}
#endif

static void skip_if_sanitized(void)
{
    if (SANITIZED) {
        print_message("skipped: the sanitizer brings its own allocator\n");
        skip();
    }
}

/* Two connected handles of the port itself. */
static void connect_pair(struct rig *rig, struct taut_conn *here, struct taut_conn *there)
{
    if (taut_port_connect(rig->port, "127.0.0.1", rig->number, 0, here, &rig->err) != 0)
        fail_msg("%s", rig->err.text);
    for (uint32_t seen = 0; seen < 2; seen++) {
        struct taut_completion completion = rig_next(rig);
        if (completion.kind == TAUT_PORT_ACCEPTED)
            *there = completion.conn;
        else
            assert_int_equal(completion.kind, TAUT_PORT_CONNECTED);
    }
}

static void chat(struct rig *rig, struct taut_conn here, struct taut_conn there)
{
    static const uint8_t block[40000];
    assert_int_equal(taut_port_send(rig->port, here, "question", 8), 8);
    rig_expect_bytes(rig, there, "question");
    assert_int_equal(taut_port_send(rig->port, there, "answer", 6), 6);
    rig_expect_bytes(rig, here, "answer");
    /* More than the buffers of the kernel hold, so that WRITABLE comes into play. */
    uint64_t sent = 0, got = 0;
    while (got < sizeof block) {
        if (sent < sizeof block) {
            int64_t taken = taut_port_send(rig->port, here, block, sizeof block - sent);
            assert_true(taken >= 0);
            sent += (uint64_t)taken;
        }
        struct taut_completion completion = rig_next(rig);
        if (completion.kind == TAUT_PORT_RECEIVED) {
            got += completion.length;
            taut_port_release(rig->port, completion.buffer);
        }
    }
}

static void test_no_allocation(void **state)
{
    struct taut_port_options options = {
        .size = sizeof options, .buffers = 2, .buffer_bytes = 512, .send_buffer_bytes = 4096};
    struct rig rig;
    struct taut_conn here[20], there[20];
    struct taut_port_stats stats;
    char text[64];
    skip_if_sanitized();
    uint64_t before = atomic_load(&allocations);
    rig_open(&rig, &options, *(uint32_t *)*state);
    uint64_t created = atomic_load(&allocations);
    assert_in_range(created - before, 1, 100); /* the counter counts */
    for (int i = 0; i < 20; i++)
        connect_pair(&rig, &here[i], &there[i]);
    for (int i = 0; i < 20; i++)
        chat(&rig, here[i], there[i]);
    for (int i = 0; i < 20; i++) {
        taut_port_peer(rig.port, here[i], text, sizeof text);
        taut_port_local(rig.port, there[i]);
        assert_int_equal(taut_port_close(rig.port, here[i], i & 1), 0);
        rig_expect(&rig, TAUT_PORT_CLOSED);
    }
    taut_port_wake(rig.port);
    rig_expect(&rig, TAUT_PORT_WOKEN);
    rig_quiet(&rig, 1000);
    taut_port_stats(rig.port, &stats);
    assert_in_range(stats.sends_short, 1, stats.sends);
    assert_int_equal(atomic_load(&allocations), created);
    rig_close(&rig);
}

static void test_ten_thousand_connections(void **state)
{
    enum { TOTAL = 10000, TOGETHER = 50 };
    struct taut_port_options options = {.size = sizeof options, .connections = 2 * TOGETHER + 1};
    struct rig rig;
    struct taut_conn here[TOGETHER], there[TOGETHER];
    struct taut_port_stats stats;
    rig_open(&rig, &options, *(uint32_t *)*state);
    uint32_t descriptors = 0;
    size_t memory = 0;
    for (int round = 0; round < TOTAL / TOGETHER; round++) {
        if (round == 1) { /* after a warm-up */
            descriptors = open_descriptors();
            memory = mallinfo2().uordblks;
        }
        for (int i = 0; i < TOGETHER; i++)
            connect_pair(&rig, &here[i], &there[i]);
        for (int i = 0; i < TOGETHER; i++) {
            assert_int_equal(taut_port_send(rig.port, here[i], "x", 1), 1);
            rig_expect_bytes(&rig, there[i], "x");
        }
        /* By reset, which leaves no TIME_WAIT behind; the kinds of ends are tested elsewhere. */
        for (int i = 0; i < TOGETHER; i++) {
            assert_int_equal(taut_port_close(rig.port, here[i], 1), 0);
            assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).code, TAUT_ECONNRESET);
        }
        rig_quiet(&rig, 1);
        if (round > 1)
            assert_int_equal(open_descriptors(), descriptors);
    }
    assert_int_equal(mallinfo2().uordblks, memory);
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.accepted, TOTAL);
    assert_int_equal(stats.connected, TOTAL);
    assert_int_equal(stats.closed, 2 * TOTAL);
    assert_int_equal(stats.connections_peak, 2 * TOGETHER + 1);
    rig_close(&rig);
}

static void test_memory_of_idle_connections(void **state)
{
    struct taut_port *port;
    struct taut_port_options options = {.size = sizeof options, .connections = 10000};
    (void)state;
    skip_if_sanitized();
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_int_equal(taut_port_create(&port, &options, NULL), 0);
    size_t with = mallinfo2().uordblks + mallinfo2().hblkhd;
    /* 64 buffers of 16 KiB, and 72 bytes a connection. */
    assert_in_range(with - before, 64 * 16384, 64 * 16384 + 10000 * 72 + 65536);
    taut_port_destroy(port);
    assert_int_equal(mallinfo2().uordblks + mallinfo2().hblkhd, before);
}

/* Leaves room for `more` descriptors, gaps between the open ones included. Returns the old limit.
 */
static struct rlimit limit_descriptors(uint32_t more)
{
    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = old;
    int end = 0;
    for (uint32_t room = 0; fcntl(end, F_GETFD) != -1 || room++ < more; end++)
        assert_in_range(end, 0, old.rlim_cur - 2);
    limit.rlim_cur = (rlim_t)end;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return old;
}

/* No descriptor left: each new connection is taken and closed, and the listener recovers. */
static void test_no_descriptors(void **state)
{
    enum { CLIENTS = 40, ROOM = 3 };
    struct rig rig;
    struct taut_port_stats stats;
    int clients[CLIENTS];
    char byte;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = plain_connect(rig.number);
    struct rlimit old = limit_descriptors(ROOM);
    uint32_t accepted = 0, polls = 0;
    do {
        int count = taut_port_poll(rig.port, rig.batch, 64, taut_now_ns() + 20 * TAUT_NS_PER_MS);
        polls++;
        for (int i = 0; i < count; i++)
            accepted += rig.batch[i].kind == TAUT_PORT_ACCEPTED;
        if (count == 0)
            break;
    } while (polls < 1000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    taut_port_stats(rig.port, &stats);
    assert_in_range(polls, 1, 10);
    assert_int_equal(accepted, ROOM);
    assert_int_equal(stats.shed, CLIENTS - ROOM);
    assert_int_equal(stats.accept_pauses, 0);
    for (int i = ROOM; i < CLIENTS; i++)
        assert_int_equal(plain_read(clients[i], &byte, 1), 0);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    for (int i = 0; i < ROOM; i++)
        rig_expect(&rig, TAUT_PORT_CLOSED);
    int fd;
    rig_accept(&rig, &fd);
    close(fd);
    rig_close(&rig);
}

/* Not even the reserved one: the listener rests, nothing spins, and later it accepts. */
static void test_no_descriptors_and_no_reserve(void **state)
{
    uint32_t busy = *(uint32_t *)*state;
    struct rig rig;
    struct taut_port_stats stats;
    rig_open(&rig, NULL, busy);
    int client = plain_connect(rig.number);
    struct taut__port_epoll_state *epoll = rig.port->kind;
    int reserve = epoll->reserve_fd;
    epoll->reserve_fd = -1;
    struct rlimit old = limit_descriptors(0);
    int count = taut_port_poll(rig.port, rig.batch, 64, taut_now_ns() + 250 * TAUT_NS_PER_MS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    taut_port_stats(rig.port, &stats);
    assert_int_equal(count, 0);
    assert_in_range(stats.accept_pauses, 2, 4); /* at once, and every 100 ms */
    if (!busy)
        assert_in_range(stats.sleeps, 2, 20);
    assert_int_equal(stats.shed, 0);
    rig_expect(&rig, TAUT_PORT_ACCEPTED);
    close(reserve);
    close(client);
    rig_close(&rig);
}

/* What the wrapped accept4() does: fails `accept_failures` times on `accept_fd` (-1: on any). */
static int accept_fd, accept_errno;
static uint64_t accept_failures, accept_calls;

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    accept_calls++;
    if (accept_failures == 0 || (accept_fd >= 0 && accept_fd != fd))
        return __real_accept4(fd, address, size, flags);
    accept_failures--;
    errno = accept_errno;
    return -1;
}

static void fail_accepts(int fd, int errno_value, uint64_t failures)
{
    accept_fd = fd;
    accept_errno = errno_value;
    accept_failures = failures;
    accept_calls = 0;
}

/* An error that the next call would meet as well: the listener rests, as without descriptors. */
static void test_accept_errors_that_stay(void **state)
{
    static const int errors[] = {EINVAL, ENOTSOCK, EBADF, EPERM, ENOBUFS};
    uint32_t busy = *(uint32_t *)*state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct rig rig;
        struct taut_port_stats stats;
        rig_open(&rig, NULL, busy);
        int client = plain_connect(rig.number);
        fail_accepts(-1, errors[i], UINT64_MAX);
        int count = taut_port_poll(rig.port, rig.batch, 64, taut_now_ns() + 250 * TAUT_NS_PER_MS);
        taut_port_stats(rig.port, &stats);
        assert_int_equal(count, 0);
        assert_in_range(accept_calls, 2, 4); /* at once, and every 100 ms */
        assert_int_equal(stats.accept_pauses, accept_calls);
        if (!busy)
            assert_in_range(stats.sleeps, 2, 20);
        fail_accepts(-1, 0, 0);
        rig_expect(&rig, TAUT_PORT_ACCEPTED);
        close(client);
        rig_close(&rig);
    }
}

/* An error of the connection that was taken off the queue: the next one is looked for at once. */
static void test_accept_errors_that_pass(void **state)
{
    static const int errors[] = {ECONNABORTED, EPROTO,       EINTR,  ENETDOWN,   ENOPROTOOPT,
                                 EHOSTDOWN,    EHOSTUNREACH, ENONET, EOPNOTSUPP, ENETUNREACH};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct rig rig;
        struct taut_port_stats stats;
        rig_open(&rig, NULL, *(uint32_t *)*state);
        int client = plain_connect(rig.number);
        fail_accepts(-1, errors[i], 5);
        rig_expect(&rig, TAUT_PORT_ACCEPTED);
        taut_port_stats(rig.port, &stats);
        assert_in_range(accept_calls, 6, 7);
        assert_int_equal(accept_failures, 0);
        assert_int_equal(stats.accept_pauses, 0);
        close(client);
        rig_close(&rig);
    }
}

/* While one listener rests, new connections do not wake it up, another listener accepts, and it may
 * be closed. */
static void test_only_the_failing_listener_rests(void **state)
{
    struct rig rig;
    struct taut_conn other;
    struct taut_port_stats stats;
    rig_open(&rig, NULL, *(uint32_t *)*state);
    assert_int_equal(taut_port_listen(rig.port, "127.0.0.1", 0, 0, &other, &rig.err), 0);
    uint16_t number = taut_port_local(rig.port, other);
    int resting = taut__port_slot_of(rig.port, rig.listener)->fd, clients[20];
    int first = plain_connect(rig.number);
    fail_accepts(resting, EINVAL, UINT64_MAX);
    rig_quiet(&rig, TAUT_NS_PER_MS);
    assert_int_equal(accept_calls, 1);
    uint64_t begin_ns = taut_now_ns();
    for (int i = 0; i < 20; i += 2) {
        clients[i] = plain_connect(rig.number);
        clients[i + 1] = plain_connect(number);
        rig_expect(&rig, TAUT_PORT_ACCEPTED);
    }
    uint64_t periods = (taut_now_ns() - begin_ns) / TAUT__PORT_ACCEPT_PAUSE_NS;
    taut_port_stats(rig.port, &stats);
    assert_int_equal(stats.accepted, 10);
    assert_in_range(stats.accept_pauses, 1, 2 + periods);
    assert_int_equal(taut_port_close(rig.port, rig.listener, 0), 0);
    rig_quiet(&rig, 2 * TAUT__PORT_ACCEPT_PAUSE_NS);
    taut_port_stats(rig.port, &stats);
    assert_in_range(stats.accept_pauses, 1, 2 + periods);
    fail_accepts(-1, 0, 0);
    close(first);
    for (int i = 0; i < 20; i++)
        close(clients[i]);
    rig_close(&rig);
}

/* More connects at a time than a listener may accept in one poll, beside other input. */
static void test_accepts_are_bounded(void **state)
{
    enum { CLIENTS = 60 };
    struct rig rig;
    int clients[CLIENTS];
    rig_open(&rig, NULL, *(uint32_t *)*state);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = plain_connect(rig.number);
    uint32_t accepted = 0;
    while (accepted < CLIENTS) {
        int count = taut_port_poll(rig.port, rig.batch, 64, taut_now_ns() + PATIENCE_NS);
        assert_in_range(count, 1, TAUT__PORT_ACCEPTS_MAX);
        for (int i = 0; i < count; i++)
            assert_int_equal(rig.batch[i].kind, TAUT_PORT_ACCEPTED);
        accepted += (uint32_t)count;
    }
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_no_allocation),
        ON_BOTH(test_ten_thousand_connections),
        cmocka_unit_test(test_memory_of_idle_connections),
        ON_BOTH(test_no_descriptors),
        ON_BOTH(test_no_descriptors_and_no_reserve),
        ON_BOTH(test_accepts_are_bounded),
        ON_BOTH(test_accept_errors_that_stay),
        ON_BOTH(test_accept_errors_that_pass),
        ON_BOTH(test_only_the_failing_listener_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
