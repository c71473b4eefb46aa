/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix/session_timer.c - what happens because nothing happened.
 *
 * With HeartBtInt h: a Heartbeat after h without a message of ours, but not while a TestRequest is
 * outstanding; a TestRequest after 1.2 h without one of the peer's; the end, without a Logout,
 * another 1.2 h later. The last is counted from the TestRequest, so that a process that was stopped
 * for longer gives its peer the time to answer.
 */
#include "fix/session_internal.h"

/* A gap is asked for this often before the session gives up. */
#define GAP_REQUESTS_MAX 3u

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t patience_ns(const struct taut_session *s)
{
    return s->heartbeat_ns / 5 * 6;
}

uint64_t taut_session_deadline_ns(const struct taut_session *s)
{
    if (s->events)
        return 0; /* something that happened outside a call with a result waits to be told */
    if (s->state == TAUT__LOGON_WAIT || s->state == TAUT__LOGOUT_WAIT)
        return s->wait_deadline_ns;
    if (s->state != TAUT__ACTIVE)
        return TAUT_NEVER_NS;
    uint64_t deadline_ns = s->gap_end ? s->gap_deadline_ns : TAUT_NEVER_NS;
    if (s->heartbeat_ns == 0)
        return deadline_ns;
    if (s->test_request_open)
        return earlier(deadline_ns, taut_deadline_ns(s->test_request_ns, patience_ns(s)));
    deadline_ns = earlier(deadline_ns, taut_deadline_ns(s->last_sent_ns, s->heartbeat_ns));
    return earlier(deadline_ns, taut_deadline_ns(s->last_received_ns, patience_ns(s)));
}

/* Bytes wait in an outbox without room: they are a sign of life themselves. */
static int outbox_busy(const struct taut_outbox *out)
{
    return out->length > 0 && out->capacity - out->length < TAUT__HEADER_MAX + 64;
}

static void ask_again(struct taut_session *s, struct taut_moment now, struct taut_outbox *out)
{
    if (s->gap_asked >= GAP_REQUESTS_MAX) {
        if (taut__session_send_logout(s, now, out, "No answer to ResendRequest") == 0)
            taut__session_await_logout(s, TAUT_REASON_GAP, 1, now);
        return;
    }
    s->gap_asked++;
    s->gap_deadline_ns =
        taut_deadline_ns(now.now_ns, s->heartbeat_ns ? s->heartbeat_ns : 30 * TAUT_NS_PER_S);
    if (!outbox_busy(out) && taut__session_send_resend_request(s, now, out, s->next_in) == 0)
        s->events |= TAUT_SESSION_GAP;
}

static void watch_peer(struct taut_session *s, struct taut_moment now, struct taut_outbox *out)
{
    if (s->test_request_open) {
        if (now.now_ns >= taut_deadline_ns(s->test_request_ns, patience_ns(s)))
            taut__session_close(s, TAUT_REASON_HEARTBEAT_TIMEOUT);
        return;
    }
    if (now.now_ns >= taut_deadline_ns(s->last_received_ns, patience_ns(s))) {
        /* A peer that neither sends nor reads gets no TestRequest, but no more time either. */
        s->test_request_open = 1;
        s->test_request_ns = now.now_ns;
        if (!outbox_busy(out))
            (void)taut__session_send_test_request(s, now, out);
        return;
    }
    if (now.now_ns >= taut_deadline_ns(s->last_sent_ns, s->heartbeat_ns)) {
        if (outbox_busy(out))
            s->last_sent_ns = now.now_ns;
        else
            (void)taut__session_send_heartbeat(s, now, out, NULL, 0);
    }
}

uint32_t taut_session_timer(struct taut_session *s, struct taut_moment now, struct taut_outbox *out)
{
    switch (s->state) {
    case TAUT__LOGON_WAIT:
        if (now.now_ns >= s->wait_deadline_ns)
            taut__session_close(s, TAUT_REASON_LOGON_TIMEOUT);
        break;
    case TAUT__LOGOUT_WAIT:
        if (now.now_ns >= s->wait_deadline_ns) {
            if (!s->failing)
                s->reason = TAUT_REASON_LOGOUT_TIMEOUT;
            taut__session_close(s, s->reason);
        }
        break;
    case TAUT__ACTIVE:
        if (s->gap_end && now.now_ns >= s->gap_deadline_ns)
            ask_again(s, now, out);
        if (s->state == TAUT__ACTIVE && s->heartbeat_ns)
            watch_peer(s, now, out);
        break;
    default:
        break;
    }
    return taut__session_take(s);
}
