/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/gateway/support.h - a gateway to test, and a peer that speaks to it over a plain socket.
 *
 * The peer is written against the FIX text, not against libtaut's encoder: it builds messages with
 * its own length and checksum, so that a fault of the library can't hide itself. All waits have a
 * limit of WAIT_MS and fail the test, never hang it. Main thread only, except where noted.
 */
#ifndef TESTS_GATEWAY_SUPPORT_H
#define TESTS_GATEWAY_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <taut/gateway.h>

#define WAIT_MS 10000

struct peer {
    int fd;
    uint64_t next_out;
    char sender[64], target[64];
    uint8_t in[1 << 16];
    size_t in_length;
    char message[1 << 15]; /* the last one received, '|' for SOH, terminated */
    size_t message_length;
};

/* A gateway with sessions TAUT->P0000 ... and the options given; started. */
struct taut_gateway *start_gateway(struct taut_gateway_options *options, uint32_t sessions);

/* Stops at once, cutting peers that are still there, and frees. */
void stop_gateway(struct taut_gateway *gateway);

struct taut_gateway_stats stats_of(const struct taut_gateway *gateway, uint32_t worker);

/* Polls `condition` on the sum of the statistics until it holds or the limit is over. */
int wait_until(const struct taut_gateway *gateway,
               int (*condition)(const struct taut_gateway_stats *stats, uint64_t argument),
               uint64_t argument);
int no_connections(const struct taut_gateway_stats *stats, uint64_t unused);
/* So many have come, and all of them have gone. Their descriptors may be open for a moment yet. */
int all_closed(const struct taut_gateway_stats *stats, uint64_t accepted);

void peer_connect(struct peer *peer, const struct taut_gateway *gateway, const char *sender);
/* The same, with a small receive buffer. */
void peer_connect_small(struct peer *peer, const struct taut_gateway *gateway, const char *sender);
void peer_close(struct peer *peer);

/* "8=FIX.4.4|9=..|35=..." with the right length and checksum; `text` from 35= on, '|' for SOH.
 * Returns the length. */
size_t make_message(uint8_t *to, size_t capacity, const char *text);

/* The same with a standard header: type, then the next number, CompIDs and time, then `body`. */
size_t peer_make(struct peer *peer, uint8_t *to, size_t capacity, const char *type,
                 const char *body);

void peer_send_bytes(struct peer *peer, const void *bytes, size_t length);
void peer_send(struct peer *peer, const char *type, const char *body);

/* Next message into peer->message; 1, or 0 when the connection ended, -1 when the limit is over. */
int peer_receive(struct peer *peer);

/* 1 where the connection ends without any byte; fails the test otherwise. */
void peer_expect_end(struct peer *peer);

/* Connects and logs on, heartbeat 30 s. */
void peer_logon(struct peer *peer, const struct taut_gateway *gateway, const char *sender);

/* Value of a field of peer->message, "" where there is none. Static memory. */
const char *peer_field(struct peer *peer, const char *tag);

/* An order as the load generator sends it; `id` has 12 digits. */
#define ORDER(id) "11=" id "|55=EUR/USD|54=1|60=20260101-00:00:00.000|38=100|40=2|44=1.12345|59=0|"

#endif
