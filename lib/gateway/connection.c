/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/connection.c - a connection's life: opened, tied to a session, let go, closed.
 *
 * What follows from a session's events is decided here, and what a connection waits for: its Logon,
 * its session's timers, its peer to read, its last bytes to leave. One number in the worker's heap
 * stands for all of them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "gateway/internal.h"

void taut__connection_log(struct taut__worker *w, struct taut__connection *c,
                          enum taut__place place, uint32_t level, const char *format, ...)
{
    const struct taut_log *log = w->gateway->options.log;
    char text[256], peer[64];
    va_list arguments;
    if (!log || level > log->level)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (taut_port_peer(w->port, c->conn, peer, sizeof(peer)) == 0)
        snprintf(peer, sizeof(peer), "peer gone");
    if (c->session)
        taut_log_limited(log, &w->limits[place], level, "%s %s->%s: %s", peer,
                         taut_session_target(c->session), taut_session_sender(c->session), text);
    else
        taut_log_limited(log, &w->limits[place], level, "%s: %s", peer, text);
}

void taut__connection_open(struct taut__worker *w, struct taut__connection *c,
                           struct taut_conn conn)
{
    struct taut_gateway *g = w->gateway;
    c->conn = conn;
    c->state = TAUT__UNKNOWN;
    c->logon_deadline_ns = taut_deadline_ns(w->moment.now_ns, g->options.logon_timeout_ns);
    w->active++;
    taut__count(&w->counters.accepted, 1);
    taut__set(&w->counters.connections, w->active);
    taut__peak(&w->counters.connections_peak, w->active);
    taut__timer_arm(w, c, c->logon_deadline_ns);
}

/* Gives back pages beyond what a successor is likely to touch. */
static void trim(uint8_t *region, uint32_t peak, uint32_t capacity)
{
    if (peak > TAUT__KEEP_BYTES)
        madvise(region + TAUT__KEEP_BYTES, capacity - TAUT__KEEP_BYTES, MADV_DONTNEED);
}

static void bury(struct taut__worker *w, struct taut__connection *c)
{
    struct taut_gateway *g = w->gateway;
    taut__timer_remove(w, c);
    taut__work_remove(w, c);
    trim(c->held, c->held_peak, g->held_region);
    trim(c->queue, c->queue_peak, g->queue_region);
    struct taut__connection fresh = {
        .index = c->index, .held = c->held, .queue = c->queue, .spare.memory = c->spare.memory};
    *c = fresh;
    c->free_next = w->free_list;
    w->free_list = c;
    w->active--;
    taut__count(&w->counters.closed, 1);
    taut__set(&w->counters.connections, w->active);
    atomic_fetch_sub_explicit(&g->total, 1, memory_order_relaxed);
    /* pairs with the acceptor's load: it counts a place only once it is really free */
    atomic_fetch_sub_explicit(&w->assigned, 1, memory_order_release);
}

static void logged_out(struct taut__worker *w, struct taut__connection *c)
{
    const struct taut_handler *handler = w->gateway->options.handler;
    if (!c->logged_on)
        return;
    c->logged_on = 0;
    taut__count(&w->counters.logouts, 1);
    w->call.connection = c;
    if (handler->on_logout)
        handler->on_logout(handler->context, &w->call);
}

/* Takes the session off the connection, so that its owner may connect anew. */
static void release_session(struct taut__worker *w, struct taut__connection *c)
{
    if (!c->session)
        return;
    uint32_t reason = taut_session_reason(c->session);
    taut_session_disconnected(c->session, w->moment);
    logged_out(w, c);
    if (reason == TAUT_REASON_LOGON_TIMEOUT)
        taut__count(&w->counters.logon_timeouts, 1);
    if (reason == TAUT_REASON_BAD_LOGON)
        taut__count(&w->counters.bad_logons, 1);
    if (w->stopping && reason == TAUT_REASON_LOGOUT_TIMEOUT)
        taut__count(&w->counters.cut, 1);
    c->session = NULL;
    taut__registry_release(&w->gateway->registry, c->entry);
    c->entry = NULL;
}

void taut__connection_leave(struct taut__worker *w, struct taut__connection *c, int linger)
{
    if (c->state == TAUT__CLOSING)
        return;
    c->state = TAUT__CLOSING;
    c->linger = linger != 0;
    if (c->paused) /* what it still sends is dropped, and its end is seen */
        taut_port_pause(w->port, c->conn, 0);
    c->paused = c->pump = c->drain = c->resume = 0;
    c->held_begin = c->held_end = 0;
    c->close_deadline_ns =
        taut_deadline_ns(w->moment.now_ns, linger ? TAUT__LINGER_NS : TAUT__LAST_BYTES_NS);
    release_session(w, c);
}

/*
 * Whether a Logout or Reject is on its way that the peer should get to read. Closing at once while
 * its input is unread would reset the connection, and a reset may overtake them.
 */
static int wants_linger(uint32_t reason)
{
    switch (reason) {
    case TAUT_REASON_LOGON_TIMEOUT:
    case TAUT_REASON_BAD_LOGON:
    case TAUT_REASON_HEARTBEAT_TIMEOUT:
    case TAUT_REASON_LOGOUT_TIMEOUT:
    case TAUT_REASON_DISCONNECTED:
        return 0;
    default:
        return 1;
    }
}

static void closes(struct taut__worker *w, struct taut__connection *c)
{
    uint32_t reason = taut_session_reason(c->session);
    int usual = reason == TAUT_REASON_PEER_LOGOUT || reason == TAUT_REASON_OWN_LOGOUT;
    taut__connection_log(w, c, TAUT__LOG_CLOSE, usual ? TAUT_LOG_INFO : TAUT_LOG_WARNING,
                         "closed: %s", taut_session_reason_text(reason));
    /* Bytes on their way count whatever the reason: a refused Logon may be answered too. */
    taut__connection_leave(w, c, wants_linger(reason) || w->outbox.length || taut__queued(c));
}

static void deliver(struct taut__worker *w, struct taut__connection *c,
                    const struct taut_message *message)
{
    const struct taut_handler *handler = w->gateway->options.handler;
    taut__count(&w->counters.app_in, 1);
    w->call.connection = c;
    handler->on_message(handler->context, &w->call, message);
}

void taut__connection_events(struct taut__worker *w, struct taut__connection *c,
                             const struct taut_message *message, uint32_t events)
{
    const struct taut_handler *handler = w->gateway->options.handler;
    if (events == TAUT_SESSION_MESSAGE) { /* the hot path: nothing else happened */
        TAUT_CHECK(message != NULL);
        deliver(w, c, message);
        events = taut_session_handled(c->session);
        if (events == 0)
            return;
    } else if (events & TAUT_SESSION_MESSAGE) {
        TAUT_CHECK(message != NULL);
        deliver(w, c, message);
        events |= taut_session_handled(c->session);
    }
    if ((events & TAUT_SESSION_LOGGED_ON) && !c->logged_on) {
        c->logged_on = 1;
        c->logon_deadline_ns = TAUT_NEVER_NS;
        taut__count(&w->counters.logons, 1);
        taut__connection_log(w, c, TAUT__LOG_LOGON, TAUT_LOG_INFO, "logged on");
        w->call.connection = c;
        if (handler->on_logon)
            handler->on_logon(handler->context, &w->call);
    }
    if (events & TAUT_SESSION_REJECTED)
        taut__count(&w->counters.rejected, 1);
    if (events & TAUT_SESSION_LOGGED_OUT)
        logged_out(w, c);
    if (events & TAUT_SESSION_PUMP)
        c->pump = 1;
    if (events & TAUT_SESSION_DRAIN)
        c->drain = 1;
    if (events & TAUT_SESSION_CLOSE)
        closes(w, c);
}

/* --- what happens to a connection ------------------------------------------------------------ */

void taut__connection_writable(struct taut__worker *w, struct taut__connection *c)
{
    taut__output_continue(w, c);
    if (c->paused && !c->failed && taut__queued(c) <= w->gateway->resume_mark) {
        c->paused = 0;
        c->resume = 1;
        taut_port_pause(w->port, c->conn, 0);
    }
}

void taut__connection_closed(struct taut__worker *w, struct taut__connection *c, int32_t code)
{
    if (c->state != TAUT__CLOSING)
        taut__connection_log(w, c, TAUT__LOG_CLOSE, TAUT_LOG_INFO, "peer closed%s%s",
                             code ? ": " : "", code ? taut_code_text(code) : "");
    w->outbox.length = 0;
    release_session(w, c);
    bury(w, c);
}

void taut__connection_timer(struct taut__worker *w, struct taut__connection *c)
{
    uint64_t now_ns = w->moment.now_ns;
    if (c->state == TAUT__CLOSING)
        return; /* settle looks at close_deadline_ns */
    if (now_ns >= c->logon_deadline_ns) {
        taut__count(&w->counters.logon_timeouts, 1);
        taut__connection_log(w, c, TAUT__LOG_TIMEOUT, TAUT_LOG_WARNING,
                             "no Logon completed in time; closed");
        taut__connection_leave(w, c, 0);
        return;
    }
    if (taut__queued(c) && now_ns >= c->slow_deadline_ns) {
        taut__output_too_slow(w, c, "time");
        return;
    }
    if (c->session && now_ns >= taut_session_deadline_ns(c->session)) {
        taut__output_make_room(w, c);
        uint32_t events = taut_session_timer(c->session, w->moment, &w->outbox);
        taut__output_account(w, c);
        taut__connection_events(w, c, NULL, events);
    }
}

/* One turn of a connection that has work without input: bounded, so that others get theirs. */
void taut__connection_work(struct taut__worker *w, struct taut__connection *c)
{
    if (c->resume) {
        c->resume = 0;
        taut__input_resume(w, c);
    }
    if (c->pump && c->session && !c->failed && !taut__output_congested(w, c)) {
        taut__output_flush(w, c);
        taut__output_make_room(w, c);
        c->pump = 0;
        uint32_t events = taut_session_pump(c->session, w->moment, &w->outbox);
        taut__output_account(w, c);
        taut__connection_events(w, c, NULL, events);
    }
    if (c->drain && c->session && !c->failed)
        taut__input_drain(w, c);
}

void taut__connection_stop(struct taut__worker *w, struct taut__connection *c)
{
    if (c->state == TAUT__CLOSING)
        return;
    if (!c->logged_on) {
        taut__connection_leave(w, c, 0);
        return;
    }
    taut__output_make_room(w, c);
    uint32_t events = taut_session_logout(c->session, "gateway stops", w->moment, &w->outbox);
    taut__output_account(w, c);
    taut__connection_events(w, c, NULL, events);
}

void taut__connection_cut(struct taut__worker *w, struct taut__connection *c)
{
    if (c->state != TAUT__CLOSING)
        taut__count(&w->counters.cut, 1);
    c->failed = 1;
    taut__settle(w, c);
}

static uint64_t due_ns(const struct taut__connection *c)
{
    if (c->state == TAUT__CLOSING)
        return c->close_deadline_ns;
    uint64_t due = c->session ? taut_session_deadline_ns(c->session) : TAUT_NEVER_NS;
    if (c->logon_deadline_ns < due)
        due = c->logon_deadline_ns;
    if (taut__queued(c) && c->slow_deadline_ns < due)
        due = c->slow_deadline_ns;
    return due;
}

void taut__settle(struct taut__worker *w, struct taut__connection *c)
{
    taut__output_flush(w, c);
    int over = c->failed;
    if (!over && c->state == TAUT__CLOSING)
        over = (taut__queued(c) == 0 && !c->linger && !c->shut) ||
               w->moment.now_ns >= c->close_deadline_ns;
    if (over) {
        uint32_t reset = c->failed || taut__queued(c) != 0;
        if (c->session)
            taut__connection_leave(w, c, 0);
        w->outbox.length = 0;
        taut_port_close(w->port, c->conn, reset);
        bury(w, c);
        return;
    }
    if (c->linger &&
        taut__queued(c) == 0) { /* our last byte is taken: end our side, await theirs */
        c->linger = 0;
        c->shut = 1;
        taut_port_shutdown(w->port, c->conn);
    }
    if (c->resume || ((c->pump || c->drain) && !taut__output_congested(w, c)))
        taut__work_add(w, c);
    else
        taut__work_remove(w, c);
    taut__timer_arm(w, c, due_ns(c));
}
