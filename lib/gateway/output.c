/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/output.c - what goes out, and what happens when the peer does not read.
 *
 * All messages that one chunk of input produced are appended to the worker's outbox and go out in
 * one send. What the transport does not take moves to the connection's own queue, once. The queue
 * is bounded in bytes (options.send_queue_bytes) and in time: a byte that was queued at time t must
 * be gone by t + slow_consumer_ns, give or take one such period, else the connection is reset. The
 * clock looks at marks and not at single bytes: a mark is the last byte queued when it was set.
 *
 * Above pause_mark (half the bytes) the connection's input waits (input.c): so the queue grows
 * beyond it only by what needs no input, such as heartbeats.
 */
#include <string.h>

#include "gateway/internal.h"

void taut__output_account(struct taut__worker *w, struct taut__connection *c)
{
    struct taut_session_stats stats;
    taut_session_stats(c->session, &stats);
    taut__count(&w->counters.messages_out, stats.sent - c->sent_seen);
    c->sent_seen = stats.sent;
}

void taut__output_too_slow(struct taut__worker *w, struct taut__connection *c, const char *bound)
{
    if (c->failed)
        return;
    c->failed = 1;
    taut__count(&w->counters.slow_closed, 1);
    taut__connection_log(w, c, TAUT__LOG_SLOW, TAUT_LOG_WARNING,
                         "reads too slowly: %u bytes unsent, above the bound in %s; closed",
                         taut__queued(c), bound);
}

static void start_slow_clock(struct taut__worker *w, struct taut__connection *c)
{
    c->queue_mark = c->queue_put;
    c->slow_deadline_ns = taut_deadline_ns(w->moment.now_ns, w->gateway->options.slow_consumer_ns);
}

static void enqueue(struct taut__worker *w, struct taut__connection *c, const uint8_t *data,
                    uint32_t length)
{
    struct taut_gateway *g = w->gateway;
    uint32_t queued = taut__queued(c);
    if (length > g->options.send_queue_bytes - queued) {
        taut__output_too_slow(w, c, "bytes");
        return;
    }
    if (length > g->queue_region - c->queue_end) { /* at most half is live: rare, and no overlap */
        memmove(c->queue, c->queue + c->queue_begin, queued);
        c->queue_begin = 0;
        c->queue_end = queued;
    }
    memcpy(c->queue + c->queue_end, data, length);
    c->queue_end += length;
    c->queue_put += length;
    if (c->queue_end > c->queue_peak)
        c->queue_peak = c->queue_end;
    if (queued == 0)
        start_slow_clock(w, c);
    taut__peak(&w->counters.send_queue_peak, queued + length);
}

/* Bytes taken; marks the connection when the transport is gone. */
static uint32_t send_now(struct taut__worker *w, struct taut__connection *c, const uint8_t *data,
                         uint32_t length)
{
    int64_t taken = taut_port_send(w->port, c->conn, data, length);
    taut__count(&w->counters.sends, 1);
    if (taken < 0) {
        c->failed = 1;
        taut__connection_log(w, c, TAUT__LOG_TRANSPORT, TAUT_LOG_INFO, "send: %s",
                             taut_code_text((int)taken));
        return 0;
    }
    taut__count(&w->counters.bytes_out, (uint64_t)taken);
    if ((uint64_t)taken < length)
        taut__count(&w->counters.sends_short, 1);
    return (uint32_t)taken;
}

void taut__output_flush(struct taut__worker *w, struct taut__connection *c)
{
    uint32_t taken = 0, length = w->outbox.length;
    w->outbox.length = 0;
    if (length == 0 || c->failed)
        return;
    if (c->session && taut_session_flush(c->session) != 0) { /* not durable: nothing may leave */
        c->failed = 1;
        taut__connection_log(w, c, TAUT__LOG_CLOSE, TAUT_LOG_ERROR, "closed: %s",
                             taut_session_reason_text(TAUT_REASON_STORE));
        return;
    }
    if (taut__queued(c) == 0)
        taken = send_now(w, c, w->outbox.data, length);
    if (taken < length && !c->failed)
        enqueue(w, c, w->outbox.data + taken, length - taken);
}

void taut__output_continue(struct taut__worker *w, struct taut__connection *c)
{
    if (taut__queued(c) == 0 || c->failed)
        return;
    uint32_t taken = send_now(w, c, c->queue + c->queue_begin, taut__queued(c));
    c->queue_begin += taken;
    c->queue_sent += taken;
    if (c->queue_begin == c->queue_end)
        c->queue_begin = c->queue_end = 0;
    else if (c->queue_sent >= c->queue_mark)
        start_slow_clock(w, c);
}

int taut__output_congested(const struct taut__worker *w, const struct taut__connection *c)
{
    uint32_t queued = taut__queued(c);
    return queued && queued + w->outbox.length >= w->gateway->pause_mark;
}

void taut__output_make_room(struct taut__worker *w, struct taut__connection *c)
{
    if (w->outbox.length > w->gateway->outbox_mark)
        taut__output_flush(w, c);
    w->outbox.capacity = w->outbox.length + w->gateway->outbox_room;
}

/* --- what handlers call ---------------------------------------------------------------------- */

int taut_gateway_begin(struct taut_call *call, const char *type, struct taut_encoder *encoder)
{
    struct taut__worker *w = call->worker;
    struct taut__connection *c = call->connection;
    if (!c->session || c->failed)
        return TAUT_ESTATE;
    taut__output_make_room(w, c);
    if (c->failed)
        return TAUT_ESTATE;
    return taut_session_begin(c->session, w->moment, type, &w->outbox, encoder);
}

int taut_gateway_commit(struct taut_call *call, struct taut_encoder *encoder)
{
    struct taut__worker *w = call->worker;
    struct taut__connection *c = call->connection;
    if (!c->session)
        return TAUT_ESTATE;
    int code = taut_session_commit(c->session, &w->outbox, encoder);
    if (code == 0) {
        taut__count(&w->counters.app_out, 1);
        taut__count(&w->counters.messages_out, 1);
        c->sent_seen++;
    }
    return code;
}

int taut_gateway_reject(struct taut_call *call, const struct taut_message *message, uint32_t reason,
                        uint32_t ref_tag)
{
    struct taut__worker *w = call->worker;
    struct taut__connection *c = call->connection;
    if (!c->session || c->failed)
        return TAUT_ESTATE;
    taut__output_make_room(w, c);
    int code = taut_session_reject(c->session, message, reason, ref_tag, w->moment, &w->outbox);
    taut__output_account(w, c);
    return code;
}
