/* SPDX-License-Identifier: BSD-2-Clause */
#include "session_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_UTC_NS (UINT64_C(1700000000) * TAUT_NS_PER_S + 250 * TAUT_NS_PER_MS)

/* --- the store -------------------------------------------------------------------------------- */

static int take_failure(uint32_t *fail)
{
    int code = *fail ? TAUT_EIO : 0;
    *fail = 0;
    return code;
}

static int store_sent(void *context, uint64_t seq, const uint8_t *message, uint32_t length,
                      int admin)
{
    struct rig_store *store = context;
    store->sent_calls++;
    if (take_failure(&store->fail_sent))
        return TAUT_EIO;
    assert_int_equal(seq, store->last_sent + 1); /* each number once, in order */
    store->last_sent = seq;
    if (!admin) {
        assert_true(length <= RIG_STORED_BYTES);
        store->seq[seq % RIG_STORED] = seq;
        store->length[seq % RIG_STORED] = length;
        memcpy(store->bytes[seq % RIG_STORED], message, length);
    }
    return 0;
}

static int store_received(void *context, uint64_t next_in)
{
    struct rig_store *store = context;
    store->received_calls++;
    if (take_failure(&store->fail_received))
        return TAUT_EIO;
    assert_true(next_in > store->next_in);
    store->next_in = next_in;
    return 0;
}

static int store_sync(void *context)
{
    struct rig_store *store = context;
    store->sync_calls++;
    return take_failure(&store->fail_sync) ? TAUT_EIO : 0;
}

static int store_reset(void *context)
{
    struct rig_store *store = context;
    if (take_failure(&store->fail_reset))
        return TAUT_EIO;
    store->resets++;
    store->last_sent = 0;
    store->next_in = 1;
    memset(store->seq, 0, sizeof store->seq);
    return 0;
}

static int store_fetch(void *context, uint64_t seq, const uint8_t **message, uint32_t *length)
{
    struct rig_store *store = context;
    if (take_failure(&store->fail_fetch))
        return TAUT_EIO;
    if (store->seq[seq % RIG_STORED] != seq)
        return TAUT_ENOENT;
    *message = store->bytes[seq % RIG_STORED];
    *length = store->length[seq % RIG_STORED];
    return 0;
}

/* --- life --------------------------------------------------------------------------------------
 */

struct rig *rig_new(uint32_t role, void (*change)(struct taut_session_config *config))
{
    struct taut_err err = {0};
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, sizeof(struct rig)), 0);
    struct rig *rig = memory;
    memset(rig, 0, sizeof *rig);
    rig->now.now_ns = 1000 * TAUT_NS_PER_S;
    rig->now.utc_ns = START_UTC_NS;
    rig->begin_string = "FIX.4.4";
    rig->out.data = rig->outbox;
    rig->out.capacity = RIG_OUTBOX;
    rig->store.functions = (struct taut_session_store){.size = sizeof rig->store.functions,
                                                       .context = &rig->store,
                                                       .sent = store_sent,
                                                       .received = store_received,
                                                       .reset = store_reset,
                                                       .fetch = store_fetch,
                                                       .sync = store_sync};
    rig->store.next_in = 1;
    rig->config = (struct taut_session_config){.size = sizeof rig->config,
                                               .role = role,
                                               .sender_comp_id = "ISLD",
                                               .target_comp_id = "TW44",
                                               .store = &rig->store.functions};
    if (change)
        change(&rig->config);
    if (rig->config.next_out)
        rig->store.last_sent = rig->config.next_out - 1;
    if (rig->config.next_in)
        rig->store.next_in = rig->config.next_in;
    assert_true(taut_session_footprint() <= sizeof rig->memory);
    int code =
        taut_session_init(&rig->session, rig->memory, sizeof rig->memory, &rig->config, &err);
    if (code)
        fail_msg("%s", err.text);
    return rig;
}

void rig_free(struct rig *rig)
{
    free(rig);
}

struct rig *rig_logged_on(uint32_t role, void (*change)(struct taut_session_config *config))
{
    struct rig *rig = rig_new(role, change);
    rig_connect(rig);
    assert_int_equal(rig_feed(rig, "35=A|34=1|49=TW44|52=<T>|56=ISLD|98=0|108=30|"),
                     TAUT_SESSION_LOGGED_ON);
    rig_expect(rig, "35=A|34=1|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_expect_nothing(rig);
    return rig;
}

void rig_wait_ms(struct rig *rig, uint64_t ms)
{
    rig->now.now_ns += ms * TAUT_NS_PER_MS;
    rig->now.utc_ns += ms * TAUT_NS_PER_MS;
}

uint32_t rig_connect(struct rig *rig)
{
    return taut_session_connected(rig->session, rig->now, &rig->out);
}

uint32_t rig_disconnect(struct rig *rig)
{
    return taut_session_disconnected(rig->session, rig->now);
}

uint32_t rig_timer(struct rig *rig)
{
    return taut_session_timer(rig->session, rig->now, &rig->out);
}

/* --- messages ----------------------------------------------------------------------------------
 */

/* Replaces '|' and "<T...>" in `text`. */
static uint32_t expand(const struct rig *rig, const char *text, char *to, uint32_t capacity)
{
    uint32_t length = 0;
    while (*text) {
        assert_true(length + 64 < capacity);
        if (strncmp(text, "<T", 2) == 0) {
            char *end;
            long seconds = strtol(text + 2, &end, 10);
            uint64_t utc_ns =
                rig->now.utc_ns + (uint64_t)((int64_t)seconds * (int64_t)TAUT_NS_PER_S);
            length += (uint32_t)taut_format_utc((uint8_t *)to + length, utc_ns, 3);
            assert_int_equal(*end, '>');
            text = end + 1;
            continue;
        }
        to[length++] = *text == '|' ? TAUT_SOH : *text;
        text++;
    }
    return length;
}

uint32_t rig_compose(const struct rig *rig, const char *text, uint8_t *to, uint32_t capacity)
{
    static char body[8192];
    uint32_t body_length = expand(rig, text, body, sizeof body);
    int head = snprintf((char *)to, capacity, "8=%s\0019=%u\001", rig->begin_string, body_length);
    uint32_t length = (uint32_t)head + body_length;
    assert_true(length + 8 <= capacity);
    memcpy(to + head, body, body_length);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < length; i++)
        sum += to[i];
    return length + (uint32_t)snprintf((char *)to + length, 8, "10=%03u\001", sum % 256);
}

uint32_t rig_feed_unhandled(struct rig *rig, const char *text)
{
    uint32_t length = rig_compose(rig, text, rig->input, sizeof rig->input - TAUT_SCAN_PADDING);
    uint32_t garbled = taut_scan_select(TAUT_SCAN_SCALAR)(&rig->message, rig->input, length);
    if (garbled)
        fail_msg("the test's own message is garbled: %s", taut_garbled_text(garbled));
    return taut_session_receive(rig->session, &rig->message, rig->now, &rig->out);
}

uint32_t rig_feed(struct rig *rig, const char *text)
{
    uint32_t events = rig_feed_unhandled(rig, text);
    if (events & TAUT_SESSION_MESSAGE)
        events |= taut_session_handled(rig->session);
    return events;
}

uint32_t rig_peer(struct rig *rig, const char *type, uint64_t seq, const char *rest)
{
    char text[4096];
    snprintf(text, sizeof text, "35=%s|34=%llu|49=TW44|52=<T>|56=ISLD|%s", type,
             (unsigned long long)seq, rest);
    return rig_feed(rig, text);
}

int rig_send(struct rig *rig, const char *type, const char *body)
{
    char bytes[4096];
    struct taut_encoder e;
    int code = taut_session_begin(rig->session, rig->now, type, &rig->out, &e);
    if (code)
        return code;
    taut_encode_bytes(&e, bytes, expand(rig, body, bytes, sizeof bytes));
    return taut_session_commit(rig->session, &rig->out, &e);
}

static void show(char *to, size_t capacity, const uint8_t *bytes, uint32_t length)
{
    size_t n = 0;
    for (uint32_t i = 0; i < length && n + 1 < capacity; i++)
        to[n++] = bytes[i] == TAUT_SOH ? '|' : (char)bytes[i];
    to[n] = 0;
}

void rig_expect_at(struct rig *rig, const char *text, const char *file, int line)
{
    static char wanted[8192], got[8192];
    struct taut_frame frame;
    const uint8_t *data = rig->out.data + rig->taken;
    uint32_t left = rig->out.length - rig->taken;
    uint32_t wanted_length = expand(rig, text, wanted, sizeof wanted - 1);
    show(wanted, sizeof wanted, (const uint8_t *)wanted, wanted_length);
    if (left == 0) {
        print_error("expected: %s\nfound nothing\n", wanted);
        _fail(file, line);
    }
    enum taut_frame_result result =
        taut_frame_next(data, left, RIG_OUTBOX, TAUT_RESYNC_STRICT, &frame);
    if (result != TAUT_FRAME_READY || frame.skip ||
        taut_scan_select(TAUT_SCAN_SCALAR)(&rig->message, data, frame.length)) {
        show(got, sizeof got, data, left);
        print_error("the session sent no message: %s\n", got);
        _fail(file, line);
    }
    const struct taut_message *m = &rig->message;
    show(got, sizeof got, data + m->body_begin, frame.length - 7 - m->body_begin);
    if (m->begin_string_length != strlen(rig->begin_string) ||
        memcmp(data + 2, rig->begin_string, m->begin_string_length) != 0 ||
        strcmp(got, wanted) != 0) {
        print_error("expected: %s\n   found: %s\n", wanted, got);
        _fail(file, line);
    }
    rig->taken += frame.length;
}

void rig_expect_nothing_at(struct rig *rig, const char *file, int line)
{
    if (rig->taken != rig->out.length) {
        static char got[8192];
        show(got, sizeof got, rig->out.data + rig->taken, rig->out.length - rig->taken);
        print_error("unexpected: %s\n", got);
        _fail(file, line);
    }
    rig_drop_output(rig);
}

void rig_drop_output(struct rig *rig)
{
    rig->taken = rig->out.length = 0;
}

uint64_t rig_next_in(const struct rig *rig)
{
    return taut_session_next_in(rig->session);
}

struct rig *rig_expecting(uint64_t next)
{
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    for (uint64_t seq = 2; seq < next; seq++)
        assert_int_equal(rig_peer(rig, "0", seq, ""), 0);
    rig_expect_nothing(rig);
    assert_int_equal(rig_next_in(rig), next);
    return rig;
}

void rig_expect_numbers(struct rig *rig, const char *format, unsigned long long a,
                        unsigned long long b)
{
    char text[300];
    snprintf(text, sizeof text, format, a, b);
    rig_expect(rig, text);
}
