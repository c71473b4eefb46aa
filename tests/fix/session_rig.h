/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/fix/session_rig.h - one session on a bench: a fake clock, an outbox, a store in memory.
 *
 * Texts of messages use '|' for SOH and leave out 8, 9 and 10, which are made (and, in what the
 * session sent, verified). "<T>" is the rig's UTC time with milliseconds, "<T-121>" and "<T+10>"
 * are that many seconds away from it.
 */
#ifndef TAUT_TESTS_SESSION_RIG_H
#define TAUT_TESTS_SESSION_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <taut/clock.h>
#include <taut/session.h>

#define RIG_STORED       256u
#define RIG_STORED_BYTES 1024u
#define RIG_OUTBOX       (64u * 1024u)

struct rig_store {
    struct taut_session_store functions;
    uint32_t fail_sent, fail_received, fail_reset, fail_fetch,
        fail_sync; /* 1: the next call fails */
    uint64_t last_sent, next_in, resets, sent_calls, received_calls, sync_calls;
    uint64_t seq[RIG_STORED];
    uint32_t length[RIG_STORED];
    uint8_t bytes[RIG_STORED][RIG_STORED_BYTES];
};

struct rig {
    struct taut_session *session;
    struct taut_moment now;
    struct taut_outbox out;
    uint32_t taken; /* bytes of the outbox that rig_expect() has consumed */
    const char *begin_string;
    struct rig_store store;
    struct taut_session_config config;
    uint8_t input[8192 + TAUT_SCAN_PADDING];
    struct taut_message message;
    _Alignas(64) uint8_t memory[4096];
    uint8_t outbox[RIG_OUTBOX + TAUT_SCAN_PADDING];
};

/* A rig with ISLD (ours) and TW44 (theirs); `change` may alter the configuration. */
struct rig *rig_new(uint32_t role, void (*change)(struct taut_session_config *config));
void rig_free(struct rig *rig);

/* Connects and logs on both ways with 108=30; nothing is left to be expected. */
struct rig *rig_logged_on(uint32_t role, void (*change)(struct taut_session_config *config));

/* An acceptor that has had heartbeats 2 .. `next` - 1, so that `next` is expected. */
struct rig *rig_expecting(uint64_t next);
uint64_t rig_next_in(const struct rig *rig);

/* Moves both clocks. */
void rig_wait_ms(struct rig *rig, uint64_t ms);

/* Gives a message of the peer to the session; an application message is handled at once. */
uint32_t rig_feed(struct rig *rig, const char *text);
/* The same without taut_session_handled(). */
uint32_t rig_feed_unhandled(struct rig *rig, const char *text);
/* A message of the peer with header: type, number, rest of the body. */
uint32_t rig_peer(struct rig *rig, const char *type, uint64_t seq, const char *rest);

/* Sends an application message of ours: "35=D" with the body given. */
int rig_send(struct rig *rig, const char *type, const char *body);

/* The next message in the outbox must be this. */
#define rig_expect(rig, text) rig_expect_at(rig, text, __FILE__, __LINE__)
void rig_expect_at(struct rig *rig, const char *text, const char *file, int line);
/* The same, of a format with two numbers (or fewer), each %llu. */
void rig_expect_numbers(struct rig *rig, const char *format, unsigned long long a,
                        unsigned long long b);
/* Nothing is left in the outbox. */
#define rig_expect_nothing(rig) rig_expect_nothing_at(rig, __FILE__, __LINE__)
void rig_expect_nothing_at(struct rig *rig, const char *file, int line);
/* Forgets what is in the outbox. */
void rig_drop_output(struct rig *rig);

/* Writes `text` as a whole message to `to`; returns its bytes. */
uint32_t rig_compose(const struct rig *rig, const char *text, uint8_t *to, uint32_t capacity);

uint32_t rig_connect(struct rig *rig);
uint32_t rig_disconnect(struct rig *rig);
uint32_t rig_timer(struct rig *rig);

#endif
