/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * examples/initiator.c - a FIX.4.4 initiator, made of a port (bytes) and a session (FIX). It logs
 * on to TAUT, sends one order, prints the fields of the answer and logs out. Try it: `acceptor 9881
 * &` and `initiator 127.0.0.1 9881`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/taut.h>

#define MESSAGE_BYTES 32768u

struct client {
    struct taut_port *port;
    struct taut_conn conn;
    struct taut_session *session;
    struct taut_outbox out;
    uint32_t answered, ended, received; /* received: bytes of input */
    int32_t code;                       /* why the connection ended */
    struct taut_message message;
    uint8_t input[2 * MESSAGE_BYTES + TAUT_SCAN_PADDING], output[16384];
    _Alignas(64) uint8_t session_memory[16384];
};

static struct taut_moment now(void)
{
    return (struct taut_moment){.now_ns = taut_now_ns(), .utc_ns = taut_utc_now_ns()};
}

static void send_order(struct client *c)
{
    struct taut_encoder order;
    puts("logged on");
    if (taut_session_begin(c->session, now(), "D", &c->out, &order) != 0)
        return;
    taut_encode_field(&order, 11, "order-1", 7); /* ClOrdID */
    taut_encode_field(&order, 55, "TAUT", 4);    /* Symbol */
    taut_encode_field(&order, 54, "1", 1);       /* Side: buy */
    taut_encode_field_utc(&order, 60, taut_utc_now_ns(), 3);
    taut_encode_field_u64(&order, 38, 100); /* OrderQty */
    taut_encode_field(&order, 40, "2", 1);  /* OrdType: limit */
    taut_encode_field(&order, 44, "12.50", 5);
    taut_session_commit(c->session, &c->out, &order);
}

/* Acts on the events that each call of the session gives back. */
static void act(struct client *c, uint32_t events)
{
    const struct taut_message *m = &c->message;
    if (events & TAUT_SESSION_LOGGED_ON)
        send_order(c);
    if (events & TAUT_SESSION_MESSAGE) {
        for (uint32_t i = 0; i < m->count; i++)
            printf("%u=%.*s\n", m->tag[i], (int)(m->end[i] - m->begin[i]), m->data + m->begin[i]);
        c->answered = 1;
        act(c, taut_session_handled(c->session));
        act(c, taut_session_logout(c->session, NULL, now(), &c->out));
    }
    if (events & TAUT_SESSION_LOGGED_OUT)
        puts("logged out");
    c->ended |= events & TAUT_SESSION_CLOSE;
}

/* Gives the session each message that is whole; what is left moves to the front. */
static void take_input(struct client *c)
{
    struct taut_frame frame;
    uint32_t at = 0, result = TAUT_FRAME_READY;
    while (!c->ended) {
        uint8_t *data = c->input + at;
        result = taut_frame_next(data, c->received - at, MESSAGE_BYTES, TAUT_RESYNC_STRICT, &frame);
        if (result == TAUT_FRAME_MORE || result == TAUT_FRAME_TOO_BIG)
            break;
        uint32_t whole = result == TAUT_FRAME_READY, reason = frame.reason;
        if (whole)
            reason = taut_scan_select(TAUT_SCAN_AUTO)(&c->message, data, frame.length);
        act(c, reason ? taut_session_garbled(c->session, reason, now(), &c->out)
                      : taut_session_receive(c->session, &c->message, now(), &c->out));
        at += whole ? frame.length : frame.skip;
    }
    if (result == TAUT_FRAME_TOO_BIG)
        act(c, taut_session_too_big(c->session, now(), &c->out));
    c->received -= at;
    memmove(c->input, c->input + at, c->received);
}

static void on_completion(struct client *c, const struct taut_completion *completion)
{
    if (completion->kind == TAUT_PORT_CONNECTED) {
        act(c, taut_session_connected(c->session, now(), &c->out));
    } else if (completion->kind == TAUT_PORT_RECEIVED) {
        /* Fits: what waits is less than a message, and a buffer of the port holds less than one. */
        memcpy(c->input + c->received, completion->data, completion->length);
        c->received += completion->length;
        taut_port_release(c->port, completion->buffer);
        take_input(c);
    } else if (completion->kind == TAUT_PORT_CLOSED) {
        act(c, taut_session_disconnected(c->session, now()));
        c->code = completion->code;
        c->ended = 1;
    }
}

/* 1 = the order was answered, and both sides logged out. */
static int run(struct client *c)
{
    struct taut_completion batch[8];
    uint64_t give_up_ns = taut_deadline_ns(taut_now_ns(), 10 * TAUT_NS_PER_S);
    for (uint32_t events = 0; !c->ended && taut_now_ns() < give_up_ns;) {
        uint64_t due_ns = events & TAUT_SESSION_PUMP ? 0 : taut_session_deadline_ns(c->session);
        int n = taut_port_poll(c->port, batch, 8, due_ns < give_up_ns ? due_ns : give_up_ns);
        for (int i = 0; i < n && !c->ended; i++)
            on_completion(c, &batch[i]);
        act(c, taut_session_timer(c->session, now(), &c->out));
        events = taut_session_pump(c->session, now(), &c->out); /* a resend, if one is due */
        act(c, events);
        if (c->out.length == 0 || taut_session_flush(c->session) != 0)
            continue;
        int64_t sent = taut_port_send(c->port, c->conn, c->out.data, c->out.length);
        c->out.length -= sent > 0 ? (uint32_t)sent : 0; /* WRITABLE or CLOSED follows */
        memmove(c->out.data, c->out.data + (sent > 0 ? sent : 0), c->out.length);
    }
    return c->answered && taut_session_reason(c->session) == TAUT_REASON_OWN_LOGOUT;
}

int main(int argc, char **argv)
{
    static struct client c;
    struct taut_err err = {.text = "usage: initiator HOST PORT"};
    const struct taut_session_config config = {.size = sizeof(config),
                                               .role = TAUT_INITIATOR,
                                               .sender_comp_id = "INITIATOR",
                                               .target_comp_id = "TAUT",
                                               .reset_on_logon = 1}; /* there is no store */
    int good = 0;
    c.out = (struct taut_outbox){.data = c.output, .capacity = sizeof(c.output)};
    if (argc != 3 || taut_port_create(&c.port, NULL, &err) ||
        taut_session_init(&c.session, c.session_memory, sizeof(c.session_memory), &config, &err) ||
        taut_port_connect(c.port, argv[1], (uint16_t)atoi(argv[2]), 0, &c.conn, &err))
        fprintf(stderr, "initiator: %s\n", err.text);
    else if (!(good = run(&c)))
        fprintf(stderr, "initiator: %s\n",
                c.code ? taut_code_text(c.code)
                       : taut_session_reason_text(taut_session_reason(c.session)));
    taut_port_destroy(c.port);
    return good ? 0 : 1;
}
