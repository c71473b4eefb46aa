/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/input.c - from received bytes to messages.
 *
 * A message that lies whole in a received chunk is scanned and handled where it is. Only when a
 * chunk ends within a message is that message's beginning copied to the connection's held region,
 * and of the next chunk only as many bytes as complete it: each byte of a split message is copied
 * once (bytes_assembled), no byte of a whole one ever.
 *
 * While the peer does not read (output.c), its input waits: the port receives nothing more from it,
 * so that TCP holds the peer up, the rest of the chunk at hand is copied to the held region
 * (bytes_held), and the borrowed buffer goes back at once: a slow peer takes none from the others.
 */
#include <string.h>

#include "gateway/internal.h"

static uint32_t held_bytes(const struct taut__connection *c)
{
    return c->held_end - c->held_begin;
}

/* 0 when the bound would be broken; the connection is marked then. */
static int hold(struct taut__worker *w, struct taut__connection *c, const uint8_t *data,
                uint32_t length, _Atomic uint64_t *counter)
{
    struct taut_gateway *g = w->gateway;
    uint32_t held = held_bytes(c);
    if (length > g->held_limit - held) {
        taut__output_too_slow(w, c, "bytes");
        return 0;
    }
    if (length > g->held_region - c->held_end) { /* the region is twice the limit: rare */
        memmove(c->held, c->held + c->held_begin, held);
        c->held_begin = 0;
        c->held_end = held;
    }
    memcpy(c->held + c->held_end, data, length);
    c->held_end += length;
    if (c->held_end > c->held_peak)
        c->held_peak = c->held_end;
    taut__count(counter, length);
    return 1;
}

static void unhold(struct taut__connection *c, uint32_t length)
{
    TAUT_CHECK(length <= held_bytes(c));
    c->held_begin += length;
    if (c->held_begin == c->held_end)
        c->held_begin = c->held_end = 0;
}

static int gone(const struct taut__connection *c)
{
    return c->failed || c->state == TAUT__CLOSING;
}

static void refuse(struct taut__worker *w, struct taut__connection *c, enum taut__place place,
                   const char *why)
{
    taut__connection_log(w, c, place, TAUT_LOG_WARNING, "%s; closed", why);
    taut__connection_leave(w, c, 0);
}

static void garbled(struct taut__worker *w, struct taut__connection *c, uint32_t reason)
{
    taut__count(&w->counters.garbled, 1);
    if (c->state == TAUT__UNKNOWN) {
        refuse(w, c, TAUT__LOG_GARBAGE, taut_garbled_text(reason));
        return;
    }
    taut__connection_log(w, c, TAUT__LOG_GARBAGE, TAUT_LOG_WARNING, "garbled: %s",
                         taut_garbled_text(reason));
    taut__output_make_room(w, c);
    uint32_t events = taut_session_garbled(c->session, reason, w->moment, &w->outbox);
    taut__output_account(w, c);
    taut__connection_events(w, c, NULL, events);
}

static void too_big(struct taut__worker *w, struct taut__connection *c)
{
    taut__count(&w->counters.too_big, 1);
    if (c->state == TAUT__UNKNOWN) {
        refuse(w, c, TAUT__LOG_GARBAGE, "message above the limit before logon");
        return;
    }
    taut__connection_log(w, c, TAUT__LOG_GARBAGE, TAUT_LOG_WARNING,
                         "message above the limit of %u bytes", w->gateway->options.message_bytes);
    taut__output_make_room(w, c);
    uint32_t events = taut_session_too_big(c->session, w->moment, &w->outbox);
    taut__output_account(w, c);
    taut__connection_events(w, c, NULL, events | TAUT_SESSION_CLOSE);
}

/* The first message: attaches the session it names. Nothing is said to a peer that names none. */
static int identify(struct taut__worker *w, struct taut__connection *c)
{
    if (taut_message_type(&w->message) != 'A') {
        taut__count(&w->counters.bad_logons, 1);
        refuse(w, c, TAUT__LOG_REFUSED, "the first message is no Logon");
        return 0;
    }
    switch (taut__registry_claim(&w->gateway->registry, &w->message, &c->spare, &c->entry)) {
    case TAUT__CLAIM_UNKNOWN:
        taut__count(&w->counters.bad_logons, 1);
        refuse(w, c, TAUT__LOG_REFUSED, "Logon for a session that is not configured");
        return 0;
    case TAUT__CLAIM_DUPLICATE:
        taut__count(&w->counters.duplicate_logons, 1);
        refuse(w, c, TAUT__LOG_REFUSED, "Logon for a session that is connected already");
        return 0;
    case TAUT__CLAIM_GOOD:
        break;
    }
    struct taut_session_stats stats;
    c->session = c->entry->session;
    c->state = TAUT__OPEN;
    taut_session_stats(c->session, &stats);
    c->sent_seen = stats.sent;
    uint32_t events = taut_session_connected(c->session, w->moment, &w->outbox);
    taut__connection_events(w, c, NULL, events);
    return !gone(c);
}

static void message(struct taut__worker *w, struct taut__connection *c, const uint8_t *data,
                    uint32_t length)
{
    uint32_t reason = w->scan(&w->message, data, length);
    if (reason) {
        garbled(w, c, reason);
        return;
    }
    taut__count(&w->counters.messages_in, 1);
    if (c->state == TAUT__UNKNOWN && !identify(w, c))
        return;
    taut__output_make_room(w, c);
    if (c->failed)
        return;
    uint32_t before = w->outbox.length;
    uint32_t events = taut_session_receive(c->session, &w->message, w->moment, &w->outbox);
    if (w->outbox.length != before)
        taut__output_account(w, c);
    taut__connection_events(w, c, &w->message, events);
    if (c->drain)
        taut__input_drain(w, c);
}

void taut__input_drain(struct taut__worker *w, struct taut__connection *c)
{
    while (c->drain && !gone(c) && !taut__output_congested(w, c)) {
        const struct taut_message *queued = NULL;
        taut__output_make_room(w, c);
        if (c->failed)
            return;
        uint32_t before = w->outbox.length;
        uint32_t events = taut_session_drain(c->session, w->moment, &w->outbox, &queued);
        if (w->outbox.length != before)
            taut__output_account(w, c);
        if (!queued)
            c->drain = 0;
        taut__connection_events(w, c, queued,
                                queued ? events : events & ~(uint32_t)TAUT_SESSION_DRAIN);
    }
}

static void pause_input(struct taut__worker *w, struct taut__connection *c)
{
    c->paused = 1;
    taut_port_pause(w->port, c->conn, 1);
    taut__count(&w->counters.pauses, 1);
}

/*
 * Handles whole messages at `data`; returns how many bytes are done with. Stops early when the
 * connection is paused or gone. At the end of the input c->need says how many bytes, from the first
 * one not done with, the next step wants.
 */
static uint32_t process(struct taut__worker *w, struct taut__connection *c, const uint8_t *data,
                        uint32_t size)
{
    uint32_t done = 0;
    c->need = 1;
    while (done < size && !gone(c)) {
        struct taut_frame frame;
        if (c->drain || taut__output_congested(w, c)) {
            pause_input(w, c);
            return done;
        }
        enum taut_frame_result result =
            taut_frame_next(data + done, size - done, w->gateway->options.message_bytes,
                            TAUT_RESYNC_STRICT, &frame);
        if (frame.skip && result != TAUT_FRAME_TOO_BIG)
            garbled(w, c, frame.reason);
        done += frame.skip;
        TAUT_CHECK(done <= size);
        if (gone(c))
            break;
        switch (result) {
        case TAUT_FRAME_READY:
            message(w, c, data + done, frame.length);
            done += frame.length;
            break;
        case TAUT_FRAME_MORE:
            TAUT_CHECK(frame.need > size - done || done == size);
            c->need = frame.need;
            return done;
        case TAUT_FRAME_GARBLED:
            TAUT_CHECK(frame.skip > 0);
            break;
        case TAUT_FRAME_TOO_BIG:
            too_big(w, c);
            break;
        }
    }
    return gone(c) ? size : done;
}

/* Adds to the held beginning of a message only what completes it. Returns the bytes taken. */
static uint32_t complete(struct taut__worker *w, struct taut__connection *c, const uint8_t *data,
                         uint32_t length)
{
    uint32_t used = 0;
    while (held_bytes(c) && !c->paused && !gone(c)) {
        uint32_t held = held_bytes(c);
        uint32_t want = c->need > held ? c->need - held : 0;
        uint32_t take = want < length - used ? want : length - used;
        if (take && !hold(w, c, data + used, take, &w->counters.bytes_assembled))
            break;
        used += take;
        if (take < want)
            break;
        uint32_t done = process(w, c, c->held + c->held_begin, held_bytes(c));
        if (!gone(c)) /* what leaves holds nothing any more */
            unhold(c, done);
    }
    return used;
}

void taut__connection_input(struct taut__worker *w, struct taut__connection *c, const uint8_t *data,
                            uint32_t length)
{
    taut__count(&w->counters.bytes_in, length);
    if (gone(c))
        return; /* a closing connection's input is dropped, so that it can close */
    if (c->paused) {
        hold(w, c, data, length, &w->counters.bytes_held);
        return;
    }
    uint32_t used = held_bytes(c) ? complete(w, c, data, length) : 0;
    if (used < length && !c->paused && !gone(c))
        used += process(w, c, data + used, length - used);
    if (used < length && !gone(c))
        hold(w, c, data + used, length - used,
             c->paused ? &w->counters.bytes_held : &w->counters.bytes_assembled);
}

void taut__input_resume(struct taut__worker *w, struct taut__connection *c)
{
    if (c->drain)
        taut__input_drain(w, c);
    if (!held_bytes(c) || c->paused || gone(c))
        return;
    uint32_t done = process(w, c, c->held + c->held_begin, held_bytes(c));
    if (!gone(c))
        unhold(c, done);
}
