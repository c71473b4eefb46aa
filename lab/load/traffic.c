/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/traffic.c - requests out, bytes in, timers; the loop that everything else runs in.
 *
 * The hot path of a message is: poll, scan, match, encode, send. Two reads of the clock a message
 * and one a poll; no other call enters the kernel. `received` is the moment at which the poll
 * returned that delivered the answer: what this process does with the other answers of the same
 * poll is not counted as the server's time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "load/client.h"

#define LINKS_PER_TICK 64u

void load_client_fault(struct load_client *c, uint32_t fault, int code, const char *format, ...)
{
    char text[240];
    va_list arguments;
    if (c->fault != LOAD_FINE)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    c->fault = fault;
    c->sending = 0;
    load_fault_set(c->control, c->process, fault, code, text);
}

const char *load_link_name(const struct load_client *c, const struct load_link *link, char *text,
                           size_t capacity)
{
    char comp_id[64];
    load_comp_id(c->plan, link->number, comp_id);
    if (c->plan->mode == LOAD_FIX)
        snprintf(text, capacity, "session %u (%s)", link->number, comp_id);
    else
        snprintf(text, capacity, "session %u", link->number);
    return text;
}

void load_link_done(struct load_client *c, struct load_link *link)
{
    if (!link->busy)
        return;
    link->busy = 0;
    c->busy--;
}

/* --- out ------------------------------------------------------------------------------------- */

void load_flush(struct load_client *c, struct load_link *link)
{
    uint32_t left = link->out.length - link->out_done;
    if (left == 0)
        return;
    int64_t took = taut_port_send(c->port, link->conn, link->out.data + link->out_done, left);
    if (took < 0) {
        /* The connection is gone: its CLOSED completion says why. */
        link->out.length = link->out_done = 0;
        return;
    }
    link->out_done += (uint32_t)took;
    if (link->out_done == link->out.length)
        link->out.length = link->out_done = 0;
}

/* Appends the order to the link's outbox. 0 or a code. */
static int encode_order(struct load_client *c, struct load_link *link, uint64_t id)
{
    struct taut_encoder encoder;
    struct taut_moment now = load_moment(c);
    int code = taut_session_begin(link->fix, now, "D", &link->out, &encoder);
    if (code)
        return code;
    load_order_body(&c->order, &encoder, id, now.utc_ns);
    return taut_session_commit(link->fix, &link->out, &encoder);
}

static struct raw_record *begin_record(struct load_client *c, struct load_link *link)
{
    struct raw_record *record = raw_writer_next(c->writer);
    if (!record) {
        int code = raw_writer_status(c->writer);
        load_client_fault(c, code == TAUT_ENOSPC || code == 0 ? LOAD_DISK_FULL : LOAD_FILE, code,
                          "the raw file of process %u can't grow: %s", c->process,
                          code == TAUT_ENOSPC || code == 0 ? "no space left on the disk"
                                                           : taut_code_text(code));
        return NULL;
    }
    record->conn = (uint16_t)link->number;
    record->phase = c->phase == LOAD_WARMUP ? RAW_WARMUP : RAW_MEASURE;
    record->received_ns = RAW_UNANSWERED;
    return record;
}

/* The counts of a request that is about to be sent. */
static void mark_sent(struct load_client *c, struct load_link *link, uint64_t id)
{
    link->outstanding_id = id;
    link->activity_ns = link->begin_ns;
    link->sent++;
    c->account.sent++;
    c->flight++;
    atomic_store_explicit(&link->marker->outstanding_id, id, memory_order_relaxed);
    atomic_store_explicit(&link->marker->sent, link->sent, memory_order_relaxed);
    atomic_store_explicit(&link->marker->last_activity_ns, link->begin_ns, memory_order_relaxed);
    atomic_store_explicit(&c->self->sent, c->ordinal, memory_order_relaxed);
}

void load_send(struct load_client *c, struct load_link *link)
{
    const struct taut_clock *clock = &c->plan->clock;
    uint64_t id = (uint64_t)c->process * LOAD_ID_PER_PROCESS + c->ordinal + 1;
    int code = 0;
    /* The live marker: a slot that is in use is never overwritten. */
    TAUT_CHECK(link->outstanding_id == 0);
    if (link->echo)
        load_echo_set_id(link->echo, id);
    else if ((code = encode_order(c, link, id)) != 0)
        load_client_fault(c, LOAD_SETUP, code, "an order could not be encoded: %s",
                          taut_code_text(code));
    if (code)
        return;
    struct raw_record *record = begin_record(c, link);
    if (!record) {
        link->out.length = link->out_done = 0; /* encoded, but not sent */
        return;
    }
    c->ordinal++;
    if (!c->timed)
        link->remaining--;
    link->record = record;
    link->begin_ns = taut_clock_read(clock);
    record->intended_ns = record->begin_ns = link->begin_ns - c->plan->epoch_ns;
    record->status = RAW_LOST; /* until the answer is here */
    mark_sent(c, link, id);
    if (link->echo) {
        link->out.length = link->echo->length;
        link->echo_got = 0;
    }
    load_flush(c, link);
    uint64_t send_ns = taut_clock_read(clock) - link->begin_ns;
    record->send_ns = send_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)send_ns;
}

/* --- in -------------------------------------------------------------------------------------- */

static void connected(struct load_client *c, struct load_link *link)
{
    link->activity_ns = c->now_ns;
    if (link->fix) {
        link->state = LINK_LOGGING_ON;
        uint32_t events = taut_session_connected(link->fix, load_moment(c), &link->out);
        load_session_events(c, link, events, NULL);
        return;
    }
    link->state = LINK_READY;
    c->connecting--;
    c->ready++;
    atomic_store_explicit(&link->marker->logged_on, 1, memory_order_relaxed);
    atomic_store_explicit(&c->self->ready, c->ready, memory_order_relaxed);
}

static void closed_early(struct load_client *c, const struct load_link *link, int code)
{
    const struct load_plan *plan = c->plan;
    char name[96];
    load_link_name(c, link, name, sizeof(name));
    if (link->state == LINK_CONNECTING)
        load_client_fault(c, LOAD_REFUSED, code, "can't connect to %s:%u: %s", plan->host,
                          plan->port_number, taut_code_text(code));
    else if (link->state == LINK_LOGGING_ON && c->peer_text[0])
        load_client_fault(c, LOAD_LOGON_REFUSED, code, "%s: the server refuses the logon: %s", name,
                          c->peer_text);
    else if (link->state == LINK_LOGGING_ON && link->bytes_received == 0)
        load_client_fault(c, LOAD_LOGON_REFUSED, code,
                          "%s: the server closed the connection in answer to the logon", name);
    else
        load_client_fault(c, LOAD_PEER_LOST, code, "%s: the server %s the connection%s%s%s", name,
                          code == 0 ? "closed" : "lost",
                          link->state == LINK_LOGGING_ON ? " during the logon"
                          : link->tail_length            ? " in the middle of a message"
                          : link->outstanding_id         ? " with a request unanswered"
                                                         : "",
                          c->peer_text[0] ? ": " : "", c->peer_text);
}

void load_link_closed(struct load_client *c, struct load_link *link, int code)
{
    if (link->state == LINK_CLOSED)
        return;
    if (link->fix)
        taut_session_disconnected(link->fix, load_moment(c));
    if (!c->ending)
        closed_early(c, link, code);
    if (link->state == LINK_CONNECTING || link->state == LINK_LOGGING_ON)
        c->connecting--;
    else
        c->ready--;
    link->state = LINK_CLOSED;
    link->out.length = link->out_done = 0;
    c->closed++;
    load_link_done(c, link);
    atomic_store_explicit(&link->marker->logged_on, 0, memory_order_relaxed);
    atomic_store_explicit(&c->self->ready, c->ready, memory_order_relaxed);
}

static void completion(struct load_client *c, const struct taut_completion *done)
{
    struct load_link *link = &c->links[done->user];
    switch (done->kind) {
    case TAUT_PORT_RECEIVED:
        if (link->state != LINK_CLOSED)
            load_received(c, link, done->data, done->length);
        taut_port_release(c->port, done->buffer);
        break;
    case TAUT_PORT_WRITABLE:
        load_flush(c, link);
        /* The rest of a replay that found no room; nothing where there is none. */
        if (link->fix && link->state != LINK_CLOSED && link->out.length == 0)
            load_session_events(c, link, TAUT_SESSION_PUMP, NULL);
        break;
    case TAUT_PORT_CONNECTED:
        connected(c, link);
        break;
    case TAUT_PORT_CLOSED:
        load_link_closed(c, link, done->code);
        break;
    default:
        break;
    }
}

/* --- timers ---------------------------------------------------------------------------------- */

static void check_link(struct load_client *c, struct load_link *link)
{
    char name[96];
    if (link->state == LINK_CONNECTING && c->now_ns - link->activity_ns > c->logon_timeout_ns) {
        load_client_fault(c, LOAD_REFUSED, TAUT_ETIMEDOUT,
                          "can't connect to %s:%u: no answer within %.3f s", c->plan->host,
                          c->plan->port_number, (double)c->logon_timeout_ns / 1e9);
        return;
    }
    if (link->fix && link->state != LINK_CLOSED && link->state > LINK_CONNECTING &&
        taut_session_deadline_ns(link->fix) <= c->now_ns)
        load_session_events(c, link, taut_session_timer(link->fix, load_moment(c), &link->out),
                            NULL);
    if (link->outstanding_id == 0 || link->state != LINK_READY ||
        c->now_ns < link->activity_ns + c->stall_timeout_ns)
        return;
    load_link_name(c, link, name, sizeof(name));
    load_client_fault(c, link->tail_length ? LOAD_TOO_SLOW : LOAD_STALLED, TAUT_ETIMEDOUT,
                      "%s: %s within %.3f s: sent %llu, answered %llu", name,
                      link->tail_length ? "an answer began but was not complete" : "no answer",
                      (double)c->stall_timeout_ns / 1e9, (unsigned long long)link->sent,
                      (unsigned long long)link->answered);
}

/* A slice of the links each time, so that thousands of them do not make a hiccup. */
static void tick(struct load_client *c)
{
    uint32_t slice = c->count / 64 > LINKS_PER_TICK ? c->count / 64 : LINKS_PER_TICK;
    slice = slice < c->count ? slice : c->count;
    for (uint32_t i = 0; i < slice; i++) {
        check_link(c, &c->links[c->tick_link]);
        c->tick_link = c->tick_link + 1 == c->count ? 0 : c->tick_link + 1;
    }
    c->tick_ns = c->now_ns + CLIENT_TICK_NS;
    c->utc_offset_ns = taut_utc_now_ns() - taut_clock_read(&c->plan->clock);
}

void load_pump(struct load_client *c, uint64_t deadline_ns)
{
    struct taut_completion done[CLIENT_BATCH];
    uint64_t until = deadline_ns < c->tick_ns ? deadline_ns : c->tick_ns;
    int count = taut_port_poll(c->port, done, CLIENT_BATCH, until);
    c->now_ns = taut_clock_read(&c->plan->clock);
    if (c->sending && c->timed && c->now_ns >= c->deadline_ns)
        c->sending = 0;
    if (atomic_load_explicit(&c->control->shared->stop, memory_order_relaxed) != LOAD_GO_ON)
        c->sending = 0;
    for (int i = 0; i < count; i++)
        completion(c, &done[i]);
    if (c->now_ns >= c->tick_ns)
        tick(c);
    uint64_t alive = atomic_load_explicit(&c->self->alive, memory_order_relaxed) + 1;
    atomic_store_explicit(&c->self->alive, alive, memory_order_relaxed); /* its only writer */
}
