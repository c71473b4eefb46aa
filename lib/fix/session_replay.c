/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix/session_replay.c - messages sent again.
 *
 * The answer to a ResendRequest is made piece by piece, as much as the outbox has room for: stored
 * application messages with their bytes kept and only the header made anew (43, 52, 122), and one
 * gap fill for each run of messages of the protocol and of numbers that the store does not have.
 *
 * A request without an end ("16=0") ends with the last message that was sent when the replay gets
 * there, so that NewSeqNo of a closing gap fill is always the number of the next new message, and
 * what was sent meanwhile is not missed by a peer that ignored it because of its gap.
 */
#include "fix/session_internal.h"

#include <string.h>

/* Numbers looked up in the store in one call: a bound on its time, not on the replay. */
#define REPLAY_FETCHES 1024u

/* Room that a replay leaves in an outbox, so that the session can answer what comes meanwhile. */
#define REPLAY_RESERVE 1024u

void taut__session_replay_start(struct taut_session *s, uint64_t begin, uint64_t end)
{
    if (s->replay_next) {
        /* A second request while the first is being answered: what either of them wants. */
        uint64_t at = s->replay_run ? s->replay_run : s->replay_next;
        if (at < begin)
            begin = at;
        if (s->replay_end > end)
            end = s->replay_end;
    }
    s->replay_next = begin;
    s->replay_end = end;
    s->replay_run = 0;
}

/* The parts of a stored message that are kept. */
struct stored {
    const uint8_t *type, *time, *rest;
    uint32_t type_length, time_length, rest_length;
};

static int is_header_tag(uint32_t tag)
{
    return tag == 8 || tag == 9 || tag == 34 || tag == 35 || tag == 43 || tag == 49 || tag == 52 ||
           tag == 56 || tag == 122;
}

/* Takes a message apart that a session of this kind wrote. 0 or TAUT_ECORRUPT. */
static int take_apart(const uint8_t *message, uint32_t length, struct stored *stored)
{
    memset(stored, 0, sizeof *stored);
    if (length < TAUT_ENCODE_TRAILER)
        return TAUT_ECORRUPT;
    const uint8_t *p = message, *end = message + length - TAUT_ENCODE_TRAILER;
    const uint8_t *orig_time = NULL;
    uint32_t orig_length = 0;
    if (memcmp(end, "10=", 3) != 0 || end[6] != TAUT_SOH)
        return TAUT_ECORRUPT;
    while (p < end) {
        const uint8_t *field = p, *value;
        uint32_t tag = 0;
        while (p < end && *p >= '0' && *p <= '9' && tag < 1000)
            tag = tag * 10 + (uint32_t)(*p++ - '0');
        if (p == end || *p != '=' || !is_header_tag(tag)) {
            stored->rest = field;
            break;
        }
        value = p + 1;
        p = memchr(value, TAUT_SOH, (size_t)(end - value));
        if (!p)
            return TAUT_ECORRUPT;
        uint32_t bytes = (uint32_t)(p++ - value);
        if (tag == 35)
            stored->type = value, stored->type_length = bytes;
        else if (tag == 52)
            stored->time = value, stored->time_length = bytes;
        else if (tag == 122)
            orig_time = value, orig_length = bytes;
    }
    if (!stored->rest)
        stored->rest = end;
    stored->rest_length = (uint32_t)(end - stored->rest);
    if (orig_time)
        stored->time = orig_time, stored->time_length = orig_length;
    if (!stored->type || stored->type_length == 0 || stored->type_length > TAUT__TYPE_MAX ||
        !stored->time || stored->time_length == 0 || stored->time_length > 30)
        return TAUT_ECORRUPT;
    return 0;
}

/* Sends one stored message again: 0, TAUT_ENOSPC, or TAUT_ECORRUPT. */
static int send_again(struct taut_session *s, struct taut_moment now, struct taut_outbox *out,
                      uint64_t seq, const struct stored *stored)
{
    struct taut_encoder e;
    uint8_t *message;
    uint32_t length;
    taut__session_place(s, out, &e);
    (void)taut__session_header(s, &e, now.utc_ns, stored->type, stored->type_length, seq,
                               stored->time, stored->time_length);
    taut_encode_bytes(&e, stored->rest, stored->rest_length);
    int code = taut__session_complete(s, out, &e, &message, &length);
    if (code)
        return code;
    out->length += length;
    s->last_sent_ns = now.now_ns;
    s->stats.sent++;
    s->stats.replayed++;
    return 0;
}

/* Closes the run of numbers to be filled that ends before replay_next. */
static int fill_run(struct taut_session *s, struct taut_moment now, struct taut_outbox *out)
{
    if (!s->replay_run)
        return 0;
    int code = taut__session_send_gap_fill(s, now, out, s->replay_run, s->replay_next);
    if (code == 0)
        s->replay_run = 0;
    return code;
}

/* The number replay_next: 0, TAUT_ENOSPC, or what closed the session. */
static int replay_one(struct taut_session *s, struct taut_moment now, struct taut_outbox *out)
{
    const uint8_t *message;
    uint32_t length;
    struct stored stored;
    int code = s->store->fetch(s->store->context, s->replay_next, &message, &length);
    if (code == 0)
        code = take_apart(message, length, &stored);
    if (code == 0 && stored.type_length == 1 && taut__session_is_admin(stored.type[0]))
        code = TAUT_ENOENT;
    if (code == TAUT_ENOENT) {
        if (!s->replay_run)
            s->replay_run = s->replay_next;
        s->replay_next++;
        return 0;
    }
    if (code) {
        taut__session_close(s, TAUT_REASON_STORE);
        return code;
    }
    code = fill_run(s, now, out);
    if (code == 0)
        code = send_again(s, now, out, s->replay_next, &stored);
    if (code == 0)
        s->replay_next++;
    return code;
}

static int replay_some(struct taut_session *s, struct taut_moment now, struct taut_outbox *out)
{
    for (uint32_t fetches = 0; fetches < REPLAY_FETCHES; fetches++) {
        uint64_t last = s->next_out - 1;
        if (s->replay_end < last)
            last = s->replay_end;
        if (s->replay_next > last) {
            int code = fill_run(s, now, out);
            if (code == 0)
                s->replay_next = 0;
            return code;
        }
        if (!s->store || !s->store->fetch) {
            if (!s->replay_run)
                s->replay_run = s->replay_next;
            s->replay_next = last + 1;
            continue;
        }
        int code = replay_one(s, now, out);
        if (code)
            return code;
    }
    return 0;
}

void taut__session_replay(struct taut_session *s, struct taut_moment now, struct taut_outbox *out)
{
    if (!s->replay_next || (s->state != TAUT__ACTIVE && s->state != TAUT__LOGOUT_WAIT))
        return;
    struct taut_outbox room = *out;
    if (room.capacity > 4 * REPLAY_RESERVE && room.length < room.capacity - REPLAY_RESERVE)
        room.capacity -= REPLAY_RESERVE;
    uint32_t before = out->length;
    int code = replay_some(s, now, &room);
    out->length = room.length;
    if (code == TAUT_ENOSPC && before == 0 && out->length == 0)
        taut__session_close(s, TAUT_REASON_OVERFLOW); /* it will never fit */
    if (s->replay_next)
        s->events |= TAUT_SESSION_PUMP;
}
