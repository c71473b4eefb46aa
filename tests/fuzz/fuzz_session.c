/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/fuzz/fuzz_session.c - sequences of messages, calls and time steps against one session.
 *
 * The input is a program: each step takes an opcode and its operands from it. A step may hand over
 * a message made of parts that are right or wrong in known ways, raw bytes, or a call of the owner.
 * Properties: no crash; numbers never go back but by a reset that was announced; each number is
 * stored once, in order; the outbox is never overrun and holds whole messages only; new messages
 * have consecutive numbers; nothing is appended after the session closed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/clock.h>
#include <taut/session.h>

#include "base/check.h"

#define OUTBOX 4096u
#define STORED 64u
#define CANARY 0xa5

struct input {
    const uint8_t *data;
    size_t size, at;
};

struct bench {
    struct taut_session *session;
    struct taut_session_config config;
    struct taut_session_store store;
    struct taut_moment now;
    struct taut_outbox out;
    struct input in;
    uint64_t last_stored, stored_next_in;
    uint64_t seq[STORED];
    uint32_t length[STORED];
    uint8_t stored[STORED][OUTBOX];
    uint32_t failures; /* bits: which functions of the store fail */
    int connected;
    int closed; /* CLOSE was given and the connection not yet ended */
    struct taut_message message, own;
    _Alignas(64) uint8_t memory[4096];
    uint8_t outbox[OUTBOX + TAUT_SCAN_PADDING];
    uint8_t bytes[2048 + TAUT_SCAN_PADDING];
};

static struct bench bench;

static uint8_t take(struct input *in)
{
    return in->at < in->size ? in->data[in->at++] : 0;
}

static uint64_t take_number(struct input *in, uint64_t near)
{
    uint8_t how = take(in);
    switch (how % 8) {
    case 0:
    case 1:
    case 2:
        return near;
    case 3:
        return near + 1 + how / 8;
    case 4:
        return near > how / 8u ? near - how / 8u : 0;
    case 5:
        return how / 8;
    case 6:
        return UINT64_MAX - how / 8;
    default:
        return (uint64_t)take(in) << (how / 8 * 2);
    }
}

/* --- the store ---------------------------------------------------------------------------------
 */

static int on_sent(void *context, uint64_t seq, const uint8_t *message, uint32_t length, int admin)
{
    struct bench *b = context;
    if (b->failures & 1)
        return TAUT_EIO;
    TAUT_CHECK(seq == b->last_stored + 1);
    TAUT_CHECK(length <= OUTBOX && message == b->out.data + b->out.length);
    b->last_stored = seq;
    b->seq[seq % STORED] = admin ? 0 : seq;
    b->length[seq % STORED] = length;
    memcpy(b->stored[seq % STORED], message, length);
    return 0;
}

static int on_received(void *context, uint64_t next_in)
{
    struct bench *b = context;
    if (b->failures & 2)
        return TAUT_EIO;
    TAUT_CHECK(next_in > b->stored_next_in);
    b->stored_next_in = next_in;
    return 0;
}

static int on_reset(void *context)
{
    struct bench *b = context;
    if (b->failures & 4)
        return TAUT_EIO;
    b->last_stored = 0;
    b->stored_next_in = 1;
    memset(b->seq, 0, sizeof b->seq);
    return 0;
}

static int on_fetch(void *context, uint64_t seq, const uint8_t **message, uint32_t *length)
{
    struct bench *b = context;
    if (b->failures & 8)
        return TAUT_EIO;
    TAUT_CHECK(seq > 0 && seq < taut_session_next_out(b->session));
    if (seq == 0 || b->seq[seq % STORED] != seq)
        return TAUT_ENOENT;
    *message = b->stored[seq % STORED];
    *length = b->length[seq % STORED];
    return 0;
}

/* --- messages ----------------------------------------------------------------------------------
 */

static uint32_t add(struct bench *b, uint32_t at, const char *text)
{
    size_t length = strlen(text);
    TAUT_CHECK(at + length < 1900);
    memcpy(b->bytes + at, text, length);
    return at + (uint32_t)length;
}

static uint32_t add_number(struct bench *b, uint32_t at, const char *tag, uint64_t number)
{
    char text[40];
    snprintf(text, sizeof text, "%s=%llu\001", tag, (unsigned long long)number);
    return add(b, at, text);
}

static uint32_t add_time(struct bench *b, uint32_t at, const char *tag, uint8_t how)
{
    uint8_t text[TAUT_UTC_TEXT_MAX + 1];
    uint64_t utc_ns = b->now.utc_ns;
    if (how % 16 == 1)
        return add(b, at, "52=today\001");
    if (how % 16 == 2)
        utc_ns += 300 * TAUT_NS_PER_S;
    else if (how % 16 == 3)
        utc_ns -= 300 * TAUT_NS_PER_S;
    text[taut_format_utc(text, utc_ns, how & 64 ? 0 : 3)] = 0;
    at = add(b, at, tag);
    at = add(b, at, (const char *)text);
    return add(b, at, "\001");
}

/* A message whose parts are mostly right. */
static uint32_t compose(struct bench *b)
{
    static const char *const types[] = {"0", "1", "2", "3",  "4", "5", "A", "D",
                                        "8", "j", "n", "AE", "U", "*", "D", "0"};
    struct input *in = &b->in;
    uint64_t next_in = taut_session_next_in(b->session);
    uint64_t next_out = taut_session_next_out(b->session);
    uint8_t type = take(in), wrong = take(in), flags = take(in);
    uint32_t at = 64;
    at = add(b, at, "35=");
    at = add(b, at, types[type % 16]);
    at = add(b, at, "\001");
    if (wrong != 1)
        at = add_number(b, at, "34", take_number(in, next_in));
    if (flags & 1)
        at = add(b, at, flags & 128 ? "43=N\001" : "43=Y\001");
    if (wrong != 2)
        at = add(b, at, wrong == 3 ? "49=X\001" : "49=T\001");
    if (wrong != 4)
        at = add_time(b, at, "52=", wrong == 5 ? take(in) : 0);
    if (wrong != 6)
        at = add(b, at, wrong == 7 ? "56=\001" : "56=S\001");
    if (flags & 2)
        at = add_time(b, at, "122=", take(in));
    if (flags & 4)
        at = add_number(b, at, "7", take_number(in, next_out));
    if (flags & 8)
        at = add_number(b, at, "16", flags & 64 ? 0 : take_number(in, next_out));
    if (flags & 16)
        at = add_number(b, at, "36", take_number(in, next_in));
    if (flags & 32)
        at = add(b, at, "123=Y\001");
    if (type % 16 == 6 || type & 16)
        at = add(b, at, wrong == 8 ? "98=0\001108=-1\001" : "98=0\001108=7\001");
    if (type & 32)
        at = add(b, at, "141=Y\001");
    if (type & 64)
        at = add(b, at, "112=id\001");
    char head[32];
    int head_length = snprintf(head, sizeof head, "8=%s\0019=%u\001",
                               wrong == 9 ? "FIX.4.1" : "FIX.4.4", at - 64);
    memcpy(b->bytes + 64 - head_length, head, (size_t)head_length);
    uint32_t begin = 64 - (uint32_t)head_length;
    uint8_t sum = taut_checksum(b->bytes + begin, at - begin);
    char tail[8];
    snprintf(tail, sizeof tail, "10=%03u\001", sum);
    at = add(b, at, tail);
    memmove(b->bytes, b->bytes + begin, at - begin);
    return at - begin;
}

/* --- steps -------------------------------------------------------------------------------------
 */

/* What is in the outbox must be whole messages; then it is taken away. */
static void check_outbox(struct bench *b, uint64_t first_new)
{
    uint32_t at = 0;
    uint8_t saved[TAUT_SCAN_PADDING];
    memcpy(saved, b->out.data + b->out.capacity, sizeof saved);
    for (size_t i = 0; i < sizeof saved; i++)
        TAUT_CHECK(saved[i] == CANARY);
    while (at < b->out.length) {
        struct taut_frame frame;
        uint32_t length;
        uint64_t seq;
        const uint8_t *data = b->out.data + at;
        TAUT_CHECK(taut_frame_next(data, b->out.length - at, OUTBOX, TAUT_RESYNC_STRICT, &frame) ==
                   TAUT_FRAME_READY);
        TAUT_CHECK(frame.skip == 0);
        TAUT_CHECK(taut_scan_select(TAUT_SCAN_SCALAR)(&b->own, data, frame.length) == 0);
        const uint8_t *value = taut_message_get(&b->own, 34, &length);
        TAUT_CHECK(value && taut_parse_u64(value, length, &seq) == 0);
        if (!taut_message_get(&b->own, 43, &length)) {
            TAUT_CHECK(seq == first_new);
            first_new++;
        } else {
            TAUT_CHECK(seq < first_new || seq < taut_session_next_out(b->session));
        }
        at += frame.length;
    }
    TAUT_CHECK(first_new == taut_session_next_out(b->session));
    b->out.length = 0;
}

static uint32_t send_own(struct bench *b)
{
    struct taut_encoder e;
    uint8_t how = take(&b->in);
    if (taut_session_begin(b->session, b->now, how & 1 ? "D" : "AE", &b->out, &e))
        return 0;
    for (uint32_t n = how / 8; n; n--)
        taut_encode_field(&e, 58, "0123456789012345678901234567890123456789", 40);
    if (how & 2)
        taut_encode_text(&e, 58, "a\001b", 3);
    if ((how & 4) == 0)
        (void)taut_session_commit(b->session, &b->out, &e);
    return 0;
}

static uint32_t give(struct bench *b, uint32_t length)
{
    if (taut_scan_select(TAUT_SCAN_AUTO)(&b->message, b->bytes, length))
        return taut_session_garbled(b->session, TAUT_GARBLED_CHECKSUM, b->now, &b->out);
    uint32_t events = taut_session_receive(b->session, &b->message, b->now, &b->out);
    if (events & TAUT_SESSION_MESSAGE) {
        if (take(&b->in) & 1)
            send_own(b);
        events |= taut_session_handled(b->session);
    }
    return events;
}

static uint32_t step(struct bench *b)
{
    struct input *in = &b->in;
    const struct taut_message *queued;
    uint64_t ns;
    uint32_t length;
    switch (take(in) % 16) {
    case 0:
        b->closed = b->connected = 0;
        return taut_session_disconnected(b->session, b->now);
    case 1:
        if (b->connected) {
            TAUT_CHECK(taut_session_connected(b->session, b->now, &b->out) == TAUT_SESSION_CLOSE);
            return 0; /* the second connection is to be closed */
        }
        b->connected = 1;
        return taut_session_connected(b->session, b->now, &b->out);
    case 2:
        ns = (uint64_t)take(in) * 50 * TAUT_NS_PER_MS;
        b->now.now_ns += ns;
        b->now.utc_ns += ns;
        return taut_session_timer(b->session, b->now, &b->out);
    case 3:
        return taut_session_pump(b->session, b->now, &b->out);
    case 4:
        return send_own(b);
    case 5:
        return taut_session_logout(b->session, take(in) & 1 ? "text" : NULL, b->now, &b->out);
    case 6:
        b->failures = take(in); /* both bytes, so that few of the bits are set */
        b->failures &= take(in);
        return 0;
    case 7:
        return taut_session_too_big(b->session, b->now, &b->out);
    case 8:
        length = take(in);
        if (length > in->size - in->at)
            length = (uint32_t)(in->size - in->at);
        memcpy(b->bytes, in->data + in->at, length);
        in->at += length;
        return give(b, length);
    case 9:
        return taut_session_drain(b->session, b->now, &b->out, &queued);
    default:
        return give(b, compose(b));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bench *b = &bench;
    struct taut_err err = {0};
    memset(b->seq, 0, sizeof b->seq);
    b->in = (struct input){data, size, 0};
    b->failures = 0;
    b->closed = 0;
    b->connected = 1;
    b->last_stored = 0;
    b->stored_next_in = 1;
    b->now = (struct taut_moment){TAUT_NS_PER_S, UINT64_C(1700000000) * TAUT_NS_PER_S};
    b->store = (struct taut_session_store){.size = sizeof b->store,
                                           .context = b,
                                           .sent = on_sent,
                                           .received = on_received,
                                           .reset = on_reset,
                                           .fetch = on_fetch};
    uint8_t how = take(&b->in);
    b->config = (struct taut_session_config){.size = sizeof b->config,
                                             .role = how & 1,
                                             .sender_comp_id = "S",
                                             .target_comp_id = "T",
                                             .heartbeat_s = 7,
                                             .reset_on_logon = how & 2 ? 1 : 0,
                                             .store = how & 4 ? NULL : &b->store};
    b->out = (struct taut_outbox){b->outbox, how & 8 ? 300 : how & 16 ? 700 : OUTBOX, 0};
    memset(b->outbox + b->out.capacity, CANARY, TAUT_SCAN_PADDING);
    TAUT_CHECK(taut_session_init(&b->session, b->memory, sizeof b->memory, &b->config, &err) == 0);

    uint64_t next_in = 1, next_out = 1, first_new = 1;
    (void)taut_session_connected(b->session, b->now, &b->out);
    while (b->in.at < b->in.size) {
        uint32_t before = b->out.length;
        int closed = b->closed;
        uint32_t events = step(b);
        TAUT_CHECK(b->out.length <= b->out.capacity);
        if (closed && b->closed)
            TAUT_CHECK(b->out.length == before);
        if (b->connected && (events & TAUT_SESSION_CLOSE))
            b->closed = 1;
        if (taut_session_next_in(b->session) < next_in)
            TAUT_CHECK(events & TAUT_SESSION_RESET);
        if (taut_session_next_out(b->session) < next_out)
            TAUT_CHECK(events & TAUT_SESSION_RESET);
        next_in = taut_session_next_in(b->session);
        next_out = taut_session_next_out(b->session);
        (void)taut_session_deadline_ns(b->session);
        if (events & TAUT_SESSION_RESET) {
            b->last_stored = next_out - 1; /* an unasked reset counts our Logon as number 1 */
            b->out.length = 0;
            first_new = next_out;
        } else if (b->in.at % 3 == 0) {
            check_outbox(b, first_new);
            first_new = next_out;
        }
    }
    return 0;
}
