/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The framer: whole, partial, split at every byte, too big, and garbage of every kind; and that a
 * flood of garbage costs no more than the bytes it has.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"

#define LARGEST (1u << 20)
#define LIMIT   65536u

static struct guarded guard;
static uint8_t bytes[LARGEST];

static enum taut_frame_result next(uint32_t length, uint32_t resync, struct taut_frame *frame)
{
    memset(frame, 0xee, sizeof *frame);
    /* Padding that would complete any field, if somebody took it for data. */
    const uint8_t *data = guarded_put(&guard, bytes, length, 0x01);
    return taut_frame_next(data, length, LIMIT, resync, frame);
}

static void whole(void **unused)
{
    (void)unused;
    struct taut_frame frame;
    uint32_t length = build_message(bytes, "FIX.4.4", "35=0|34=1|");
    assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_READY);
    assert_int_equal(frame.length, length);
    assert_int_equal(frame.skip, 0);
    memcpy(bytes + length, bytes, length); /* and what follows is not looked at */
    assert_int_equal(next(2 * length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_READY);
    assert_int_equal(frame.length, length);
}

/* Begin strings and body lengths of every width. */
static void widths(void **unused)
{
    (void)unused;
    static char body[20000];
    struct taut_frame frame;
    for (uint32_t begin = 1; begin <= 16; begin++) {
        for (uint32_t text = 0; text < 20000; text = text * 3 + 1) {
            sprintf(body, "35=0|58=%*s|", (int)text, "");
            char begin_string[17] = "ABCDEFGHIJKLMNOP";
            begin_string[begin] = 0;
            uint32_t length = build_message(bytes, begin_string, body);
            assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_READY);
            assert_int_equal(frame.length, length);
        }
    }
}

/* Any number of bytes of a message wants more, and `need` never asks for more than the message. */
static void partial(void **unused)
{
    (void)unused;
    static const char *const begins[] = {"X", "FIX.4.4", "FIXT.1.1", "SIXTEEN.LETTERS."};
    struct taut_frame frame;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t length = build_message(bytes, begins[i], "35=0|34=1|112=hello|");
        uint32_t header = (uint32_t)strlen(begins[i]) + 3 + 5;
        for (uint32_t n = 0; n < length; n++) {
            assert_int_equal(next(n, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_MORE);
            assert_int_equal(frame.skip, 0);
            assert_in_range(frame.need, n + 1, length);
            if (n >= header)
                assert_int_equal(frame.need, length);
        }
    }
}

struct tally {
    uint32_t ready, garbled, too_big, calls;
    uint64_t hash; /* of the frames, in order */
};

/* Feeds the first `size` bytes in pieces of `piece` bytes, as a session would: no call before
 * `need` bytes are there. */
static struct tally feed(uint32_t size, uint32_t piece, uint32_t resync)
{
    struct tally tally = {0};
    struct taut_frame frame;
    uint32_t at = 0, there = 0, need = 0;
    while (at < size) {
        there = there + piece < size ? there + piece : size;
        while (there - at >= need) {
            const uint8_t *data = guarded_put(&guard, bytes + at, there - at, '8');
            enum taut_frame_result result =
                taut_frame_next(data, there - at, LIMIT, resync, &frame);
            tally.calls++;
            need = 0;
            if (result == TAUT_FRAME_MORE) {
                assert_true(frame.need > there - at);
                need = frame.need;
                break;
            }
            assert_true(result <= TAUT_FRAME_TOO_BIG);
            assert_true(frame.skip + frame.length > 0);
            assert_true(frame.skip + frame.length <= there - at);
            tally.ready += result == TAUT_FRAME_READY;
            tally.garbled += result == TAUT_FRAME_GARBLED;
            tally.too_big += result == TAUT_FRAME_TOO_BIG;
            if (result == TAUT_FRAME_READY)
                tally.hash = (tally.hash + at) * 1000003 + frame.length;
            at += frame.skip + frame.length;
        }
        if (there == size)
            break;
    }
    return tally;
}

static uint32_t stream(uint32_t messages)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < messages; i++) {
        char body[100];
        snprintf(body, sizeof body, "35=0|34=%u|58=%.*s|", i, (int)(i * 7 % 40),
                 "................................................");
        length += build_message(bytes + length, i % 2 ? "FIX.4.4" : "FIXT.1.1", body);
    }
    return length;
}

static void split_at_every_byte(void **unused)
{
    (void)unused;
    uint32_t size = stream(20);
    struct tally whole_tally = feed(size, size, TAUT_RESYNC_STRICT);
    assert_int_equal(whole_tally.ready, 20);
    for (uint32_t piece = 1; piece < size; piece += piece < 200 ? 1 : 37) {
        struct tally tally = feed(size, piece, TAUT_RESYNC_STRICT);
        assert_int_equal(tally.ready, 20);
        assert_int_equal(tally.garbled, 0);
        assert_true(tally.hash == whole_tally.hash);
    }
    /* Byte by byte, `need` saves the calls that could not give anything. */
    assert_true(feed(size, 1, TAUT_RESYNC_STRICT).calls < size / 2);
}

static void data_field_with_a_message_inside(void **unused)
{
    (void)unused;
    uint32_t length =
        build_message(bytes, "FIX.4.2", "35=n|212=40|213=<RTRF>8=FIX.4.2|9=5|35=0|10=171|</RTRF>|");
    struct tally tally = feed(length, 1, TAUT_RESYNC_STRICT);
    assert_int_equal(tally.ready, 1);
    assert_int_equal(tally.garbled, 0);
}

static void header_garbage(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        uint32_t reason, skip;
    } cases[] = {
        {"hello", TAUT_GARBLED_NO_BEGIN, 5},
        {"|", TAUT_GARBLED_NO_BEGIN, 1},
        {"hello 8=FIX.4.4|9=5|", TAUT_GARBLED_NO_BEGIN, 6},
        {"hello 8", TAUT_GARBLED_NO_BEGIN, 6}, /* an 8 that may become 8= */
        {"=8=", TAUT_GARBLED_NO_BEGIN, 1},
        {"88=", TAUT_GARBLED_NO_BEGIN, 1},
        {"8x8=", TAUT_GARBLED_NO_BEGIN, 2},
        {"8=|9=5|", TAUT_GARBLED_BEGIN_STRING, 7},
        {"8=|8=FIX", TAUT_GARBLED_BEGIN_STRING, 3},
        {"8=SEVENTEEN.LETTERS|9=5|", TAUT_GARBLED_BEGIN_STRING, 24},
        {"8=8=8=8=8=8=8=8=8=8=8=", TAUT_GARBLED_BEGIN_STRING, 20},
        {"8=EIGHTEEN.LETTERS..|58=FI", TAUT_GARBLED_BEGIN_STRING, 22},
        {"8=F8=FIX.4.4|9=5|35=0|10=163|", TAUT_GARBLED_BEGIN_STRING,
         3}, /* cut off, then a good one */
        {"8=FIX.4=4|9=5|", TAUT_GARBLED_BEGIN_STRING, 14},
        {"8=FIX.4.4|35=0|", TAUT_GARBLED_BODY_LENGTH, 15},
        {"8=FIX.4.4|9x", TAUT_GARBLED_BODY_LENGTH, 12},
        {"8=FIX.4.4|9=|", TAUT_GARBLED_BODY_LENGTH, 13},
        {"8=FIX.4.4|9=-5|", TAUT_GARBLED_BODY_LENGTH, 15},
        {"8=FIX.4.4|9=5a8=", TAUT_GARBLED_BODY_LENGTH, 14},
        {"8=FIX.4.4|9=00000000079|", TAUT_GARBLED_BODY_LENGTH, 24},
        {"8=FIX.4.4|8=FIX.4.4|9=5|35=0|10=163|", TAUT_GARBLED_BODY_LENGTH, 10},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct taut_frame frame;
        uint32_t length = raw_message(bytes, cases[i].text);
        enum taut_frame_result result = next(length, TAUT_RESYNC_STRICT, &frame);
        if (result != TAUT_FRAME_GARBLED || frame.skip != cases[i].skip)
            printf("%s: result %u, skip %u\n", cases[i].text, (unsigned)result, frame.skip);
        assert_int_equal(result, TAUT_FRAME_GARBLED);
        assert_int_equal(frame.reason, cases[i].reason);
        assert_int_equal(frame.skip, cases[i].skip);
    }
}

static void padded_length(void **unused)
{
    (void)unused;
    struct taut_frame frame;
    uint32_t length = raw_message(bytes, "8=FIX.4.4|9=0005|35=0|10=051|");
    assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_READY);
    length = raw_message(bytes, "8=FIX.4.4|9=00000005|35=0|10=243|");
    assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_READY);
    length = raw_message(bytes, "8=FIX.4.4|9=00000000");
    assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_MORE);
}

static void too_big(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "8=FIX.4.4|9=20000000|",     "8=FIX.4.4|9=99999999|",  "8=FIX.4.4|9=65536|",
        "8=FIX.4.4|9=999999999",     "8=FIX.4.4|9=4294967295", "8=FIX.4.4|9=18446744073709551615|",
        "8=FIX.4.4|9=65512|35=0|8=F"};
    struct taut_frame frame;
    for (uint32_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint32_t length = raw_message(bytes, texts[i]);
        assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_TOO_BIG);
        assert_int_equal(frame.reason, TAUT_GARBLED_TOO_BIG);
        assert_in_range(frame.skip, 11, length);
        assert_int_equal(next(length, TAUT_RESYNC_QUICKFIX, &frame), TAUT_FRAME_TOO_BIG);
    }
    /* The largest that is allowed: 18 bytes of header, 65511 of body, 7 of trailer. */
    uint32_t length = raw_message(bytes, "8=FIX.4.4|9=65511|");
    assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_MORE);
    assert_int_equal(frame.need, LIMIT);
    length = raw_message(bytes, "8=FIX.4.4|9=65512|");
    assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_TOO_BIG);
    /* A limit of the caller above ours is ours. */
    length = raw_message(bytes, "8=FIX.4.4|9=16777216|");
    uint8_t *data = guarded_put(&guard, bytes, length, 0);
    assert_int_equal(taut_frame_next(data, length, UINT32_MAX, 0, &frame), TAUT_FRAME_TOO_BIG);
    length = raw_message(bytes, "8=FIX.4.4|9=16777000|");
    data = guarded_put(&guard, bytes, length, 0);
    assert_int_equal(taut_frame_next(data, length, UINT32_MAX, 0, &frame), TAUT_FRAME_MORE);
}

/* A BodyLength that is wrong by one, and a good message behind it. */
static void resync(void **unused)
{
    (void)unused;
    struct taut_frame frame;
    static const char *const firsts[] = {"8=FIX.4.4|9=4|35=0|10=163|", "8=FIX.4.4|9=6|35=0|10=163|",
                                         "8=FIX.4.4|9=0|35=0|10=163|",
                                         "8=FIX.4.4|9=5|35=0|10=16x|"};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t first = raw_message(bytes, firsts[i]);
        uint32_t length = first + build_message(bytes + first, "FIX.4.4", "35=0|34=1|");
        assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_GARBLED);
        assert_int_equal(frame.reason, TAUT_GARBLED_TRAILER);
        assert_int_equal(frame.skip, first);
        assert_int_equal(feed(length, length, TAUT_RESYNC_STRICT).ready, 1);
        struct tally tally = feed(length, 1, TAUT_RESYNC_STRICT);
        assert_int_equal(tally.ready, 1);
        assert_in_range(tally.garbled, 1, 2); /* what comes later is garbage of its own */
    }
}

/* What an over-long BodyLength takes from the next message: STRICT saves it, QUICKFIX eats it. */
static void resync_rules_differ(void **unused)
{
    (void)unused;
    struct taut_frame frame;
    uint32_t first = raw_message(bytes, "8=FIX.4.4|9=20|35=0|10=163|");
    uint32_t second = build_message(bytes + first, "FIX.4.4", "35=0|34=1|");
    uint32_t third = build_message(bytes + first + second, "FIX.4.4", "35=0|34=2|");
    uint32_t length = first + second + third;
    assert_int_equal(next(length, TAUT_RESYNC_STRICT, &frame), TAUT_FRAME_GARBLED);
    assert_int_equal(frame.skip, first);
    assert_int_equal(feed(length, length, TAUT_RESYNC_STRICT).ready, 2);
    assert_int_equal(next(length, TAUT_RESYNC_QUICKFIX, &frame), TAUT_FRAME_GARBLED);
    assert_int_equal(frame.reason, TAUT_GARBLED_TRAILER);
    assert_int_equal(frame.skip, first + second);
    for (uint32_t piece = 1; piece < length; piece++) {
        struct tally tally = feed(length, piece, TAUT_RESYNC_QUICKFIX);
        assert_int_equal(tally.ready, 1);
        assert_int_equal(tally.garbled, 1);
    }
}

/* QUICKFIX without a trailer in sight waits, until a message would have ended. */
static void swallow_is_bounded(void **unused)
{
    (void)unused;
    struct taut_frame frame;
    uint32_t length = raw_message(bytes, "8=FIX.4.4|9=5|35=0x12=163|");
    memset(bytes + length, 'x', LARGEST - length);
    assert_int_equal(next(1000, TAUT_RESYNC_QUICKFIX, &frame), TAUT_FRAME_MORE);
    assert_int_equal(frame.need, 1001);
    assert_int_equal(next(LIMIT, TAUT_RESYNC_QUICKFIX, &frame), TAUT_FRAME_GARBLED);
    assert_int_equal(frame.skip, LIMIT);
}

/* Each call drops at least one byte, and few calls are needed, whatever the garbage. */
static void floods(void **unused)
{
    (void)unused;
    static const char *const units[] = {"8=",
                                        "8",
                                        "=",
                                        "8=FIX",
                                        "8=FIX.4.4|9=5|",
                                        "x",
                                        "8=FIX.4.4|9=500|8=",
                                        "58=FIX ",
                                        "|10=",
                                        "8=FIX.4.4|9=1|"};
    for (uint32_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        uint8_t unit[64];
        uint32_t unit_length = raw_message(unit, units[i]), size = 200000;
        for (uint32_t at = 0; at < size; at++)
            bytes[at] = unit[at % unit_length];
        for (uint32_t piece = 1000; piece <= size; piece *= 200) {
            struct tally tally = feed(size, piece, TAUT_RESYNC_STRICT);
            assert_int_equal(tally.ready, 0);
            assert_true(tally.calls <= size / 2 + size / piece + 2);
        }
    }
}

/* Behind garbage only "8=FIX" begins a message, but at the front any "8=" does; so what is dropped
 * up to a cut makes the next byte the front. This is the one thing that depends on the cuts. */
static void dropped_up_to_a_cut(void **unused)
{
    (void)unused;
    uint32_t size = raw_message(bytes, "noise");
    size += build_message(bytes + size, "X", "35=0|34=1|");
    assert_int_equal(feed(size, size, TAUT_RESYNC_STRICT).ready, 0);
    assert_int_equal(feed(size, 15, TAUT_RESYNC_STRICT).ready, 0);
    memmove(bytes + 15, bytes + 5, size - 5); /* the framer looks at 15 bytes at least */
    memcpy(bytes, "noiseNOISEnoise", 15);
    assert_int_equal(feed(size + 10, size + 10, TAUT_RESYNC_STRICT).ready, 0);
    assert_int_equal(feed(size + 10, 15, TAUT_RESYNC_STRICT).ready, 1);
}

/* One message of a random stream, at `to`: a good one, or what garbage of kind 0 to 2 made of it.
 * Returns its length. */
static uint32_t random_piece(uint8_t *to, uint64_t *state, uint64_t kind)
{
    char header[32];
    uint32_t length = build_message(to, "FIX.4.4", "35=0|34=7|58=text|");
    switch (kind) {
    case 0: /* bytes that headers are made of; without 9=, see dropped_up_to_a_cut() */
        for (uint32_t i = 0; i < length; i++)
            to[i] = (uint8_t) "8=5\001FIX10"[next_random(state) % 9];
        to[length - 1] = 'x';
        return length;
    case 1: /* a piece that does not just go on */
        length = 6 + (uint32_t)(next_random(state) % (length - 6));
        to[length - 1] ^= 0x20;
        return length;
    case 2: /* a BodyLength that lies: by little, or above the limit and of up to 12 digits */
        snprintf(header, sizeof header, "8=FIX.4.4|9=%" PRIu64 "|35=0|",
                 next_random(state) % 2 ? 65536 + next_random(state) % 999999999999u
                                        : next_random(state) % 60);
        return raw_message(to, header);
    default:
        return length;
    }
}

/* Random bytes, messages and pieces of messages: always progress, never outside the bytes, and the
 * same messages whatever the cuts. A message that says that it is too big is garbage like any
 * other to who goes on; one whose BodyLength is just longer than the stream hides the rest. */
static void random_streams(void **unused)
{
    (void)unused;
    uint64_t state = 3, all_good = 0, all_ready = 0, all_too_big = 0;
    uint32_t turns = getenv("TAUT_SOAK") ? 20000 : 300;
    for (uint32_t turn = 0; turn < turns; turn++) {
        uint32_t size = 0, good = 0, lies = 0;
        while (size < 3000) {
            uint64_t kind = next_random(&state) % 6;
            size += random_piece(bytes + size, &state, kind);
            good += kind > 2;
            lies += kind == 2;
        }
        struct tally at_once = feed(size, size, TAUT_RESYNC_STRICT);
        assert_true(at_once.ready <= good + lies); /* a lie may meet a trailer by chance */
        struct tally pieces = feed(size, 1 + (uint32_t)(next_random(&state) % 50), 0);
        assert_int_equal(pieces.ready, at_once.ready);
        assert_true(pieces.hash == at_once.hash);
        feed(size, 1 + (uint32_t)(next_random(&state) % 50), TAUT_RESYNC_QUICKFIX);
        all_good += good;
        all_ready += at_once.ready;
        all_too_big += at_once.too_big;
    }
    /* The premise: garbage hid few good messages, and each outcome was among them. */
    assert_true(all_ready > all_good / 2);
    assert_true(all_too_big > turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(widths),
        cmocka_unit_test(partial),
        cmocka_unit_test(split_at_every_byte),
        cmocka_unit_test(data_field_with_a_message_inside),
        cmocka_unit_test(header_garbage),
        cmocka_unit_test(padded_length),
        cmocka_unit_test(too_big),
        cmocka_unit_test(resync),
        cmocka_unit_test(resync_rules_differ),
        cmocka_unit_test(swallow_is_bounded),
        cmocka_unit_test(floods),
        cmocka_unit_test(dropped_up_to_a_cut),
        cmocka_unit_test(random_streams),
    };
    guard = guarded_create(LARGEST);
    int failed = cmocka_run_group_tests_name("frame", tests, NULL, NULL);
    guarded_destroy(&guard);
    return failed;
}
