/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/port: a port under test, its completions one by one, and plain sockets to face it. */
#ifndef TAUT_TESTS_PORT_SUPPORT_H
#define TAUT_TESTS_PORT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <taut/clock.h>
#include <taut/port.h>

#define PATIENCE_NS                                                                                \
    (10 * TAUT_NS_PER_S) /* nothing here takes so long, however loaded the machine */

struct rig {
    struct taut_port *port;
    struct taut_conn listener;
    uint16_t number; /* the listener's TCP port */
    struct taut_completion batch[64];
    int count, at;
    struct taut_err err;
};

/* Runs a test on a blocking and on a busy-polling port: *state is a uint32_t, 1 = busy. */
extern uint32_t rig_blocking, rig_busy;
#define ON_BOTH(test)                                                                              \
    {#test " (blocking)", test, NULL, NULL, &rig_blocking},                                        \
    {                                                                                              \
#test " (busy)", test, NULL, NULL, &rig_busy                                               \
    }

/* A port with a listener on 127.0.0.1. `options` may be NULL. */
void rig_open(struct rig *rig, const struct taut_port_options *options, uint32_t busy);
void rig_close(struct rig *rig);

/* The next completion; fails the test when none comes. */
struct taut_completion rig_next(struct rig *rig);
/* The same, and it must be of this kind. */
struct taut_completion rig_expect(struct rig *rig, uint32_t kind);
/* Nothing comes for `duration_ns`. */
void rig_quiet(struct rig *rig, uint64_t duration_ns);
/* A RECEIVED of `conn` with exactly these bytes, in one or more pieces; releases them. */
void rig_expect_bytes(struct rig *rig, struct taut_conn conn, const char *text);

/* Blocking plain sockets. */
int plain_connect(uint16_t number);
void plain_write(int fd, const void *data, size_t length);
size_t plain_read(int fd, void *data, size_t length); /* until length or end */
void plain_reset(int fd);                             /* closes with RST */

/* A plain connection and the handle that the port gave it. */
struct taut_conn rig_accept(struct rig *rig, int *fd);

uint32_t open_descriptors(void);

#endif
