/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/answer.c - what the peer's bytes mean: frames, session events, and whether an application
 * message is the one answer that its session waits for. Whatever it is not is a fault with a text
 * that says what came instead.
 */
#include <stdio.h>
#include <string.h>

#include "load/client.h"

/* Printable copy of at most `length` bytes. */
static void printable(char *text, size_t capacity, const uint8_t *data, uint32_t length)
{
    size_t used = 0;
    for (uint32_t i = 0; i < length && used + 1 < capacity; i++)
        text[used++] = data[i] == TAUT_SOH                 ? '|'
                       : data[i] >= 0x20 && data[i] < 0x7f ? (char)data[i]
                                                           : '?';
    text[used] = '\0';
}

/* --- answers --------------------------------------------------------------------------------- */

static void complete(struct load_client *c, struct load_link *link)
{
    uint64_t service_ns = c->now_ns - link->begin_ns;
    link->record->received_ns = c->now_ns - c->plan->epoch_ns;
    link->record->status = RAW_ANSWERED;
    link->last_answered_id = link->outstanding_id;
    link->outstanding_id = 0;
    link->activity_ns = c->now_ns;
    link->answered++;
    c->account.answered++;
    c->flight--;
    atomic_store_explicit(&link->marker->outstanding_id, 0, memory_order_relaxed);
    atomic_store_explicit(&link->marker->answered, link->answered, memory_order_relaxed);
    atomic_store_explicit(&link->marker->last_activity_ns, c->now_ns, memory_order_relaxed);
    uint64_t answered = atomic_load_explicit(&c->self->answered, memory_order_relaxed) + 1;
    atomic_store_explicit(&c->self->answered, answered, memory_order_relaxed);
    if (service_ns > c->worst_ns) {
        c->worst_ns = service_ns;
        atomic_store_explicit(&c->self->worst_ns, service_ns, memory_order_relaxed);
    }
}

/* The next request, or the end of the phase for this link. */
static void go_on(struct load_client *c, struct load_link *link)
{
    if (link->outstanding_id != 0 || !link->busy)
        return;
    if (c->sending && (c->timed || link->remaining > 0))
        load_send(c, link);
    else if (c->timed || link->remaining == 0)
        load_link_done(c, link);
}

static void note_reply_bytes(struct load_client *c, uint32_t bytes)
{
    if (bytes > c->self->reply_bytes_most)
        c->self->reply_bytes_most = bytes;
    if (bytes < c->self->reply_bytes_least || c->self->reply_bytes_least == 0)
        c->self->reply_bytes_least = bytes;
}

static void rejected(struct load_client *c, struct load_link *link,
                     const struct taut_message *message)
{
    char name[96], type[8], why[CLIENT_TEXT_BYTES] = "no text";
    uint32_t length;
    const uint8_t *text = taut_message_get(message, 58, &length);
    load_link_name(c, link, name, sizeof(name));
    printable(type, sizeof(type), message->data + message->begin[2],
              message->end[2] - message->begin[2]);
    if (text)
        printable(why, sizeof(why), text, length);
    if (link->outstanding_id) {
        link->record->received_ns = c->now_ns - c->plan->epoch_ns;
        link->record->status = RAW_ERROR;
        link->outstanding_id = 0;
        c->flight--;
        c->account.error++;
        atomic_store_explicit(&link->marker->outstanding_id, 0, memory_order_relaxed);
        load_link_done(c, link);
    }
    load_client_fault(c, LOAD_REJECTED, TAUT_EPEER, "%s: the server rejects an order (35=%s): %s",
                      name, type, why);
}

static void wrong(struct load_client *c, const struct load_link *link, const uint8_t *id,
                  uint32_t id_length)
{
    char name[96], got[32];
    uint64_t value = id ? load_id_read(id, id_length) : 0;
    const char *what = "a message without ClOrdID, which answers nothing";
    load_link_name(c, link, name, sizeof(name));
    printable(got, sizeof(got), id ? id : (const uint8_t *)"", id ? id_length : 0);
    if (value && value == link->last_answered_id)
        what = "a second answer to a request that was answered";
    else if (id) {
        what = "an answer to an unknown request";
        for (uint32_t i = 0; value && i < c->count; i++)
            if (c->links[i].outstanding_id == value || c->links[i].last_answered_id == value)
                what = "an answer to another session's request";
    }
    load_client_fault(c, LOAD_WRONG_ANSWER, TAUT_EPEER, "%s: %s%s%s; waited for %012llu", name,
                      what, id ? ": ClOrdID " : "", got, (unsigned long long)link->outstanding_id);
}

static void application_message(struct load_client *c, struct load_link *link,
                                const struct taut_message *message)
{
    uint32_t type = taut_message_type(message), length, status_length;
    const uint8_t *id = taut_message_get(message, 11, &length);
    const uint8_t *status = taut_message_get(message, 39, &status_length);
    if (type == 'j' || (type == '8' && status && status_length == 1 && *status == '8')) {
        rejected(c, link, message);
        return;
    }
    if (c->ending && link->outstanding_id == 0)
        return; /* it was given up and is counted as lost: an answer now is late, and not wrong */
    if (!id || link->outstanding_id == 0 || load_id_read(id, length) != link->outstanding_id) {
        wrong(c, link, id, id ? length : 0);
        return;
    }
    note_reply_bytes(c, message->length);
    complete(c, link);
}

/* --- session --------------------------------------------------------------------------------- */

static void logged_on(struct load_client *c, struct load_link *link)
{
    link->state = LINK_READY;
    c->connecting--;
    c->ready++;
    atomic_store_explicit(&link->marker->logged_on, 1, memory_order_relaxed);
    atomic_store_explicit(&c->self->ready, c->ready, memory_order_relaxed);
}

/* The session wants its connection closed: why, in the words of a fault. */
static void session_closed(struct load_client *c, const struct load_link *link)
{
    uint32_t reason = taut_session_reason(link->fix);
    int early = link->state == LINK_LOGGING_ON;
    uint32_t fault = early ? LOAD_LOGON_REFUSED : LOAD_PEER_LOST;
    char name[96];
    load_link_name(c, link, name, sizeof(name));
    if (reason == TAUT_REASON_LOGON_TIMEOUT) {
        load_client_fault(c, LOAD_TOO_SLOW, TAUT_ETIMEDOUT,
                          "%s: no complete Logon from the server within %.3f s (%llu bytes came)",
                          name, (double)c->logon_timeout_ns / 1e9,
                          (unsigned long long)link->bytes_received);
        return;
    }
    if (reason == TAUT_REASON_HEARTBEAT_TIMEOUT)
        fault = LOAD_STALLED;
    load_client_fault(c, fault, TAUT_EPEER, "%s: %s: %s%s%s", name,
                      early ? "the server refuses the logon" : "the session ended",
                      taut_session_reason_text(reason), c->peer_text[0] ? ": " : "", c->peer_text);
}

/* Continues a replay until it is complete, or until the port takes no more: the rest goes out when
 * the connection is writable again, see completion(). Returns what else the session wants. */
static uint32_t pump_replay(struct load_client *c, struct load_link *link)
{
    uint32_t events = TAUT_SESSION_PUMP, seen = 0;
    while (events & TAUT_SESSION_PUMP) {
        uint32_t before = link->out.length;
        events = taut_session_pump(link->fix, load_moment(c), &link->out);
        seen |= events;
        if (before == 0 && link->out.length == 0)
            break;
        load_flush(c, link);
        if (link->out.length != 0)
            break;
    }
    return seen & ~(uint32_t)TAUT_SESSION_PUMP;
}

/* Hands out what the session had queued. Returns what the session wants after that. */
static uint32_t drain_queue(struct load_client *c, struct load_link *link)
{
    const struct taut_message *queued = NULL;
    uint32_t more, seen = 0;
    while ((more = taut_session_drain(link->fix, load_moment(c), &link->out, &queued)) != 0) {
        if ((more & TAUT_SESSION_MESSAGE) && queued) {
            application_message(c, link, queued);
            more |= taut_session_handled(link->fix);
        }
        seen |= more;
        if (more & TAUT_SESSION_CLOSE)
            break;
    }
    return seen & (TAUT_SESSION_CLOSE | TAUT_SESSION_PUMP | TAUT_SESSION_REJECTED);
}

static void broke_rules(struct load_client *c, const struct load_link *link)
{
    load_client_fault(
        c, LOAD_GARBLED, TAUT_EPEER,
        "session %u: the server's message breaks the session's rules and was rejected",
        link->number);
}

void load_session_events(struct load_client *c, struct load_link *link, uint32_t events,
                         const struct taut_message *message)
{
    if (events & TAUT_SESSION_LOGGED_ON)
        logged_on(c, link);
    if ((events & TAUT_SESSION_MESSAGE) && message) {
        application_message(c, link, message);
        events |= taut_session_handled(link->fix);
    }
    uint32_t rejected_now = message ? events & TAUT_SESSION_REJECTED : 0;
    if (events & TAUT_SESSION_DRAIN) {
        uint32_t more = drain_queue(c, link);
        rejected_now |= more & TAUT_SESSION_REJECTED;
        events |= more;
    }
    if (events & TAUT_SESSION_PUMP)
        events |= pump_replay(c, link);
    if (rejected_now)
        broke_rules(c, link);
    if (events & TAUT_SESSION_CLOSE) {
        load_flush(c, link);
        if (!c->ending)
            session_closed(c, link);
        taut_port_close(c->port, link->conn, 0);
        load_link_closed(c, link, 0);
    } else if (link->out.length) {
        load_flush(c, link); /* Logon, heartbeats and the like */
    }
}

/* Admin messages that the session would only count, but that matter to a load. */
static void look_at_admin(struct load_client *c, struct load_link *link)
{
    uint32_t type = taut_message_type(&c->message), length;
    if (type != '5' && type != '3')
        return;
    const uint8_t *text = taut_message_get(&c->message, 58, &length);
    if (text)
        printable(c->peer_text, sizeof(c->peer_text), text, length);
    if (type == '3' && link->state == LINK_READY)
        rejected(c, link, &c->message);
}

/* --- bytes ----------------------------------------------------------------------------------- */

static void garbled(struct load_client *c, struct load_link *link, uint32_t reason,
                    const uint8_t *data, uint32_t length)
{
    char name[96], begin[33];
    load_link_name(c, link, name, sizeof(name));
    printable(begin, sizeof(begin), data, length);
    if (link->state == LINK_LOGGING_ON)
        load_client_fault(c, LOAD_NOT_FIX, TAUT_EPEER,
                          "%s:%u speaks no FIX: its first bytes are \"%s\" (%s)", c->plan->host,
                          c->plan->port_number, begin, taut_garbled_text(reason));
    else
        load_client_fault(c, LOAD_GARBLED, TAUT_EPEER,
                          "%s: garbled bytes from the server: %s: \"%s\"", name,
                          taut_garbled_text(reason), begin);
    load_session_events(c, link,
                        taut_session_garbled(link->fix, reason, load_moment(c), &link->out), NULL);
}

static void one_message(struct load_client *c, struct load_link *link, const uint8_t *data,
                        uint32_t length)
{
    uint32_t reason = c->scan(&c->message, data, length);
    if (reason) {
        garbled(c, link, reason, data, length);
        return;
    }
    look_at_admin(c, link);
    uint32_t events = taut_session_receive(link->fix, &c->message, load_moment(c), &link->out);
    load_session_events(c, link, events, &c->message);
}

/* Handles whole messages; returns the bytes that are done with. */
static uint32_t consume(struct load_client *c, struct load_link *link, const uint8_t *data,
                        uint32_t length)
{
    uint32_t at = 0;
    while (at < length && link->state != LINK_CLOSED) {
        struct taut_frame frame = {0};
        enum taut_frame_result result =
            taut_frame_next(data + at, length - at, c->message_bytes, TAUT_RESYNC_STRICT, &frame);
        if (result == TAUT_FRAME_TOO_BIG) {
            load_client_fault(c, LOAD_TOO_BIG, TAUT_ETOOBIG,
                              "session %u: the server's message is larger than the buffer of %u "
                              "bytes",
                              link->number, c->message_bytes);
            load_session_events(c, link,
                                taut_session_too_big(link->fix, load_moment(c), &link->out), NULL);
            return length;
        }
        if (frame.skip > 0)
            garbled(c, link, frame.reason ? frame.reason : TAUT_GARBLED_NO_BEGIN, data + at,
                    frame.skip);
        at += frame.skip;
        if (result == TAUT_FRAME_MORE)
            return at;
        if (result == TAUT_FRAME_GARBLED)
            continue;
        one_message(c, link, data + at, frame.length);
        at += frame.length;
    }
    return length;
}

static void received_fix(struct load_client *c, struct load_link *link, const uint8_t *data,
                         uint32_t length)
{
    uint32_t done;
    if (link->tail_length == 0) {
        done = consume(c, link, data, length);
        link->tail_length = length - done;
        memcpy(link->tail, data + done, link->tail_length);
    } else {
        /* Fits: a tail is shorter than a message, and a chunk than a receive buffer. */
        memcpy(link->tail + link->tail_length, data, length);
        link->tail_length += length;
        done = consume(c, link, link->tail, link->tail_length);
        link->tail_length -= done;
        memmove(link->tail, link->tail + done, link->tail_length);
    }
    if (link->state == LINK_CLOSED)
        link->tail_length = 0;
}

/* Bytes without a session: an answer is a count of them, and a copy where it is as long. */
static void received_echo(struct load_client *c, struct load_link *link, const uint8_t *data,
                          uint32_t length)
{
    uint32_t wanted = c->plan->reply_bytes ? c->plan->reply_bytes : link->echo->length;
    uint32_t room = link->outstanding_id ? wanted - link->echo_got : 0;
    if (length > room) {
        load_client_fault(c, LOAD_WRONG_ANSWER, TAUT_EPEER,
                          "session %u: %u bytes more than the answer of %u", link->number,
                          length - room, wanted);
        return;
    }
    if (c->plan->reply_bytes == 0 &&
        memcmp(link->echo->bytes + link->echo_got, data, length) != 0) {
        load_client_fault(c, LOAD_WRONG_ANSWER, TAUT_EPEER,
                          "session %u: the answer is no echo of the request", link->number);
        return;
    }
    link->echo_got += length;
    if (link->echo_got < wanted)
        return;
    link->echo_got = 0;
    note_reply_bytes(c, wanted);
    complete(c, link);
}

void load_received(struct load_client *c, struct load_link *link, const uint8_t *data,
                   uint32_t length)
{
    link->bytes_received += length;
    if (link->fix)
        received_fix(c, link, data, length);
    else
        received_echo(c, link, data, length);
    if (link->state == LINK_READY)
        go_on(c, link);
}
