/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct receives of a busy-polling port: when it goes over to them and back, what is registered
 * with epoll meanwhile, and that going over costs what is open and not what could be.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/epoll.h"

static struct taut__port_epoll_state *kind_of(const struct rig *rig)
{
    return rig->port->kind;
}

static uint32_t registered(const struct rig *rig, struct taut_conn conn)
{
    const struct taut__port_slot *slot = taut__port_slot_of(rig->port, conn);
    assert_non_null(slot);
    return (slot->flags & TAUT__PORT_REGISTERED) != 0;
}

static void talk(struct rig *rig, struct taut_conn conn, int fd)
{
    char answer[4];
    plain_write(fd, "ping", 4);
    rig_expect_bytes(rig, conn, "ping");
    assert_int_equal(taut_port_send(rig->port, conn, "pong", 4), 4);
    assert_int_equal(plain_read(fd, answer, 4), 4);
    assert_memory_equal(answer, "pong", 4);
}

/* Few: not registered. One more: all are. Few again: not registered again. Bytes all the while. */
static void test_registered_only_while_many(void **state)
{
    enum { MANY = TAUT__PORT_DIRECT_MAX + 1, LEFT = TAUT__PORT_DIRECT_MAX / 2 };
    struct rig rig;
    struct taut_conn conns[MANY];
    int fds[MANY];
    (void)state;
    rig_open(&rig, NULL, 1);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = turn ? LEFT : 0; i < MANY; i++) {
            conns[i] = rig_accept(&rig, &fds[i]);
            assert_int_equal(kind_of(&rig)->direct, i < MANY - 1);
            for (int j = 0; j <= i; j++)
                assert_int_equal(registered(&rig, conns[j]), i == MANY - 1);
        }
        for (int i = 0; i < MANY; i++)
            talk(&rig, conns[i], fds[i]);
        for (int i = MANY - 1; i >= LEFT; i--) {
            assert_int_equal(kind_of(&rig)->direct, 0);
            close(fds[i]);
            assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).conn.id, conns[i].id);
        }
        assert_int_equal(kind_of(&rig)->direct, 1);
        assert_int_equal(kind_of(&rig)->direct_count, LEFT);
        for (int i = 0; i < LEFT; i++) {
            assert_int_equal(registered(&rig, conns[i]), 0);
            talk(&rig, conns[i], fds[i]);
        }
    }
    for (int i = 0; i < LEFT; i++)
        close(fds[i]);
    rig_close(&rig);
}

/* A connection that owes a WRITABLE stays registered when the port goes over, and WRITABLE comes.
 */
static void test_owed_writable_survives(void **state)
{
    static const uint8_t block[1 << 20];
    static uint8_t sink[1 << 20];
    struct taut_port_options options = {.size = sizeof options, .send_buffer_bytes = 8192};
    struct rig rig;
    struct taut_conn conns[TAUT__PORT_DIRECT_MAX + 1];
    int fds[TAUT__PORT_DIRECT_MAX + 1];
    (void)state;
    rig_open(&rig, &options, 1);
    for (uint32_t i = 0; i <= TAUT__PORT_DIRECT_MAX; i++)
        conns[i] = rig_accept(&rig, &fds[i]);
    int64_t taken, total = 0;
    do {
        taken = taut_port_send(rig.port, conns[0], block, sizeof block);
        assert_true(taken >= 0);
        total += taken;
    } while (taken == sizeof block);
    for (uint32_t i = TAUT__PORT_DIRECT_MAX; i > 0 && !kind_of(&rig)->direct; i--)
        assert_int_equal(taut_port_close(rig.port, conns[i], 0), 0);
    assert_int_equal(kind_of(&rig)->direct, 1);
    assert_int_equal(registered(&rig, conns[0]), 1);
    while (total) {
        size_t piece = total > (int64_t)sizeof sink ? sizeof sink : (size_t)total;
        assert_int_equal(plain_read(fds[0], sink, piece), piece);
        total -= (int64_t)piece;
    }
    assert_int_equal(rig_expect(&rig, TAUT_PORT_WRITABLE).conn.id, conns[0].id);
    talk(&rig, conns[0], fds[0]);
    for (uint32_t i = 0; i <= TAUT__PORT_DIRECT_MAX; i++)
        close(fds[i]);
    rig_close(&rig);
}

/* The slots that were never used lie in pages that may not be touched while the mode changes. */
static void test_unused_slots_are_not_looked_at(void **state)
{
    struct taut_port_options options = {
        .size = sizeof options, .connections = 4096, .buffers = 4, .buffer_bytes = 512};
    struct rig rig;
    struct taut_conn conns[TAUT__PORT_DIRECT_MAX + 1];
    int fds[TAUT__PORT_DIRECT_MAX + 1];
    (void)state;
    rig_open(&rig, &options, 1);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)&rig.port->slots[64] + page - 1) & ~(page - 1);
    uintptr_t end = (uintptr_t)&rig.port->slots[4096 - 64] & ~(page - 1);
    assert_true(begin < end); /* else nothing is tried here */
    for (uint32_t i = 0; i <= TAUT__PORT_DIRECT_MAX; i++)
        conns[i] = rig_accept(&rig, &fds[i]);
    assert_int_equal(kind_of(&rig)->direct, 0);
    assert_int_equal(mprotect((void *)begin, end - begin, PROT_NONE), 0);
    for (uint32_t i = TAUT__PORT_DIRECT_MAX; i > 0; i--)
        assert_int_equal(taut_port_close(rig.port, conns[i], 0), 0);
    talk(&rig, conns[0], fds[0]);
    assert_int_equal(mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(kind_of(&rig)->direct, 1);
    for (uint32_t i = 0; i <= TAUT__PORT_DIRECT_MAX; i++)
        close(fds[i]);
    rig_close(&rig);
}

/* The list of connections is exactly the live slots that are none of a listener. */
static void validate(const struct rig *rig)
{
    const struct taut__port_epoll_state *kind = kind_of(rig);
    uint32_t streams = 0;
    for (uint32_t i = 0; i < rig->port->options.connections; i++) {
        const struct taut__port_slot *slot = &rig->port->slots[i];
        if (slot->fd < 0 || (slot->flags & (TAUT__PORT_LISTENER | TAUT__PORT_DYING)))
            continue;
        streams++;
        assert_in_range(kind->stream_places[i] + 1, 1, kind->streams);
        assert_int_equal(kind->stream_slots[kind->stream_places[i]], i);
        assert_int_equal((slot->flags & TAUT__PORT_REGISTERED) != 0, !kind->direct);
    }
    assert_int_equal(kind->streams, streams);
    assert_int_equal(kind->direct_count, kind->direct ? streams : 0);
    assert_in_range(kind->direct_count, 0, TAUT__PORT_DIRECT_MAX);
}

static void test_coming_and_going(void **state)
{
    enum { MOST = TAUT__PORT_DIRECT_MAX + 3, STEPS = 2000 };
    struct rig rig;
    struct taut_conn conns[MOST];
    int fds[MOST];
    uint32_t open = 0, went_direct = 0, left_direct = 0, seed = 20261201;
    (void)state;
    rig_open(&rig, NULL, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t before = kind_of(&rig)->direct;
        seed = seed * 1664525u + 1013904223u;
        uint32_t which = open ? (seed >> 16) % open : 0;
        if (open == 0 || (open < MOST && (seed >> 30) < 2)) {
            conns[open] = rig_accept(&rig, &fds[open]);
            open++;
        } else {
            if (seed >> 31) {
                plain_reset(fds[which]);
                assert_int_equal(rig_expect(&rig, TAUT_PORT_CLOSED).conn.id, conns[which].id);
            } else {
                assert_int_equal(taut_port_close(rig.port, conns[which], 1), 0);
                close(fds[which]);
            }
            conns[which] = conns[--open];
            fds[which] = fds[open];
        }
        validate(&rig);
        went_direct += !before && kind_of(&rig)->direct;
        left_direct += before && !kind_of(&rig)->direct;
    }
    assert_in_range(went_direct, 2, STEPS); /* else the walk never crossed the bound */
    assert_in_range(left_direct, 2, STEPS);
    while (open)
        close(fds[--open]);
    rig_close(&rig);
}

int main(void)
{
    if (TAUT__PORT_DIRECT_MAX < 2) {
        puts("skipped: this build never receives directly from two connections");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registered_only_while_many),
        cmocka_unit_test(test_owed_writable_survives),
        cmocka_unit_test(test_unused_slots_are_not_looked_at),
        cmocka_unit_test(test_coming_and_going),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
