/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a gateway takes while it works: no allocation on a worker after its start, and nothing that
 * is left behind by ten thousand connections.
 *
 * malloc and its relatives are defined in this program, so that calls from every library land here;
 * calls made by worker threads are counted. Sanitizers bring their own malloc: the count is skipped
 * there.
 */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <taut/clock.h>

#include "support.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

static _Thread_local int on_worker_thread;
static _Atomic int counting;
static _Atomic uint64_t allocations, frees, workers_seen;

#ifndef SANITIZED
#define SANITIZED 0
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static void note(_Atomic uint64_t *counter)
{
    if (on_worker_thread && counting)
        atomic_fetch_add(counter, 1);
}

void *malloc(size_t size)
{
    note(&allocations);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    note(&allocations);
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    note(&allocations);
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    note(&allocations);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    note(&allocations);
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void free(void *memory)
{
    if (memory)
        note(&frees);
    __libc_free(memory);
}
#endif

static int mark_worker(void *context, uint32_t worker, uint32_t workers)
{
    (void)context;
    (void)worker;
    (void)workers;
    on_worker_thread = 1;
    atomic_fetch_add(&workers_seen, 1);
    return 0;
}

static void on_message(void *context, struct taut_call *call, const struct taut_message *message)
{
    const struct taut_handler *fill = taut_handler_fill();
    if (*(int *)context) { /* prove that the count counts */
        void *volatile memory = malloc(100);
        free(memory);
        *(int *)context = 0;
    }
    fill->on_message(fill->context, call, message);
}

static int allocate;
static const struct taut_handler handler = {
    .name = "counted", .context = &allocate, .on_message = on_message, .on_worker = mark_worker};

static void conversation(struct taut_gateway *gateway, struct peer *peer, const char *sender)
{
    uint8_t bytes[1024];
    peer_logon(peer, gateway, sender);
    for (int i = 0; i < 200; i++) {
        peer_send(peer, "D", ORDER("000000000001"));
        assert_int_equal(peer_receive(peer), 1);
    }
    size_t length = peer_make(peer, bytes, sizeof(bytes), "D", ORDER("000000000001"));
    peer_send_bytes(peer, bytes, 50); /* split */
    usleep(500);
    peer_send_bytes(peer, bytes + 50, length - 50);
    assert_int_equal(peer_receive(peer), 1);
    peer_send(peer, "D", "11=1|");
    assert_int_equal(peer_receive(peer), 1);
    peer_send(peer, "F", "11=1|");
    assert_int_equal(peer_receive(peer), 1);
    peer_send(peer, "1", "112=T|");
    assert_int_equal(peer_receive(peer), 1);
    peer_send_bytes(peer, "noise", 5);
    peer_send(peer, "5", "");
    assert_int_equal(peer_receive(peer), 1);
    peer_expect_end(peer);
    peer_close(peer);
}

static void workers_allocate_nothing(void **state)
{
    if (SANITIZED) {
        print_message("skipped: sanitizers bring their own malloc\n");
        skip();
    }
    uint32_t shape = *(uint32_t *)*state;
    struct taut_gateway_options options = {
        .shape = shape, .handler = &handler, .workers = shape == TAUT_SHAPE_OWNED ? 2 : 1};
    static struct peer peer;
    workers_seen = 0;
    struct taut_gateway *gateway = start_gateway(&options, 4);
    assert_int_equal(workers_seen, options.workers);
    allocations = frees = 0;
    counting = 1;
    for (int i = 0; i < 4; i++) {
        char sender[16];
        snprintf(sender, sizeof(sender), "P%04d", i);
        conversation(gateway, &peer, sender);
    }
    peer_connect(&peer, gateway, "x"); /* those who are turned away, too */
    peer_send_bytes(&peer, "GET / HTTP/1.1\r\n", 16);
    peer_expect_end(&peer);
    peer_close(&peer);
    assert_int_equal(allocations, 0);
    assert_int_equal(frees, 0);
    allocate = 1;
    conversation(gateway, &peer, "P0000");
    assert_int_equal(allocations, 1); /* the count is alive */
    assert_int_equal(frees, 1);
    counting = 0;
    stop_gateway(gateway);
}

static uint32_t open_descriptors(void)
{
    uint32_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static uint64_t resident_bytes(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &total, &resident), 2);
    fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A port keeps the descriptor of what has closed until its next poll, so that the peer can still be
 * named: the number is reached a moment after the last connection was counted. */
static void expect_descriptors(uint32_t wanted)
{
    uint64_t end_ns = taut_now_ns() + WAIT_MS * TAUT_NS_PER_MS;
    uint32_t count;
    while ((count = open_descriptors()) != wanted && taut_now_ns() < end_ns)
        usleep(1000);
    assert_int_equal(count, wanted);
}

/* `count` connections, after `before` others; returns when all of them have been accepted and have
 * gone. */
static void come_and_go(struct taut_gateway *gateway, struct peer *peer, uint32_t before,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i % 3 == 0) { /* logged on, ended in mid-message */
            peer_logon(peer, gateway, i % 2 ? "P0001" : "P0000");
            peer_send_bytes(peer, "8=FIX.4.4\x01", 10);
        } else {
            peer_connect(peer, gateway, "x");
            if (i % 3 == 1)
                peer_send_bytes(peer, "8=FIX", 5);
        }
        peer_close(peer);
        if (i % 3 == 0 || i % 100 == 0)
            assert_true(wait_until(gateway, all_closed, before + i + 1));
    }
    assert_true(wait_until(gateway, all_closed, before + count));
}

static void ten_thousand_connections_leave_nothing(void **state)
{
    uint32_t shape = *(uint32_t *)*state;
    struct taut_gateway_options options = {.shape = shape,
                                           .workers = shape == TAUT_SHAPE_OWNED ? 2 : 1};
    static struct peer peer;
    struct taut_gateway *gateway = start_gateway(&options, 2);
    uint32_t descriptors = open_descriptors();
    come_and_go(gateway, &peer, 0, 1000); /* pages that any use touches */
    expect_descriptors(descriptors);
    uint64_t resident = resident_bytes();
    come_and_go(gateway, &peer, 1000, 10000);
    expect_descriptors(descriptors);
    struct taut_gateway_stats stats = stats_of(gateway, UINT32_MAX);
    assert_int_equal(stats.accepted, 11000);
    assert_int_equal(stats.accepted, stats.closed);
    assert_int_equal(stats.logons, stats.logouts);
    /* Not one page a connection, by far. */
    uint64_t after = resident_bytes();
    if (!SANITIZED && after > resident + (2u << 20)) /* they keep what was freed for a while */
        fail_msg("resident memory grew from %llu to %llu bytes", (unsigned long long)resident,
                 (unsigned long long)after);
    stop_gateway(gateway);
}

static void start_and_stop_leave_nothing(void **state)
{
    uint32_t shape = *(uint32_t *)*state;
    uint32_t descriptors = open_descriptors();
    for (int i = 0; i < 20; i++) {
        struct taut_gateway_options options = {.shape = shape, .any_target = 1};
        static struct peer peer;
        struct taut_gateway *gateway = start_gateway(&options, 2);
        peer_logon(&peer, gateway, "SOMEBODY");
        stop_gateway(gateway);
        peer_close(&peer);
    }
    assert_int_equal(open_descriptors(), descriptors);
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
        BOTH(workers_allocate_nothing),
        BOTH(ten_thousand_connections_leave_nothing),
        BOTH(start_and_stop_leave_nothing),
    };
    return cmocka_run_group_tests_name("gateway/resources", tests, NULL, NULL);
}
