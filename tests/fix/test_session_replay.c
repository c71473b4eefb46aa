/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our own sequence numbers: the peer's ResendRequest, replays and gap fills, whole and in pieces.
 * Several tests replay exchanges on which FIX engines are publicly known to have failed.
 */
#include "session_rig.h"

#include <stdio.h>
#include <string.h>

/* Has sent messages 2 .. `last`. */
static struct rig *rig_with_sent(unsigned last)
{
    struct rig *rig = rig_expecting(2);
    for (unsigned i = 2; i <= last; i++)
        rig_send(rig, "D", "11=old|");
    rig_drop_output(rig);
    return rig;
}

static void replay_of_mixed_messages(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(2);
    rig_send(rig, "D", "11=two|");
    rig_peer(rig, "1", 2, "112=x|");
    rig_wait_ms(rig, 1000);
    rig_send(rig, "D", "11=four|");
    rig_send(rig, "8", "11=five|");
    rig_peer(rig, "1", 3, "112=x|");
    rig_drop_output(rig);
    rig_wait_ms(rig, 2500);
    assert_int_equal(rig_peer(rig, "2", 4, "7=2|16=6|"), 0);
    rig_expect(rig, "35=D|34=2|43=Y|49=ISLD|52=<T>|56=TW44|122=20231114-22:13:20.250|11=two|");
    rig_expect(rig, "35=4|34=3|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=4|123=Y|");
    rig_expect(rig, "35=D|34=4|43=Y|49=ISLD|52=<T>|56=TW44|122=20231114-22:13:21.250|11=four|");
    rig_expect(rig, "35=8|34=5|43=Y|49=ISLD|52=<T>|56=TW44|122=20231114-22:13:21.250|11=five|");
    rig_expect(rig, "35=4|34=6|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=7|123=Y|");
    rig_expect_nothing(rig);
    /* The next number is not touched. */
    rig_peer(rig, "1", 5, "112=y|");
    rig_expect(rig, "35=0|34=7|49=ISLD|52=<T>|56=TW44|112=y|");
    struct taut_session_stats stats;
    taut_session_stats(rig->session, &stats);
    assert_int_equal(stats.replayed, 3);
    assert_int_equal(stats.gap_fills_sent, 2);
    assert_int_equal(stats.resend_requests_received, 1);
    rig_free(rig);
}

static void starts_at_nine(struct taut_session_config *config)
{
    config->next_out = 9;
}

static void numbers_without_messages_are_filled_behind_the_last_message(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, starts_at_nine);
    rig->store.last_sent = 1;
    const char *two = "8=FIX.4.4\0019=1\00135=D\00134=2\00149=OLD\00152=20230101-00:00:00\00156=X"
                      "\00111=two\001453=1\001448=a\00110=000\001";
    rig->store.seq[2] = 2;
    rig->store.length[2] = (uint32_t)strlen(two);
    memcpy(rig->store.bytes[2], two, strlen(two));
    rig->store.last_sent = 8;
    rig_connect(rig);
    rig_peer(rig, "A", 1, "98=0|108=30|");
    rig_drop_output(rig);
    rig_peer(rig, "2", 2, "7=2|16=8|");
    rig_expect(rig, "35=D|34=2|43=Y|49=ISLD|52=<T>|56=TW44|122=20230101-00:00:00|11=two|453=1|"
                    "448=a|");
    rig_expect(rig, "35=4|34=3|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=9|123=Y|");
    rig_expect_nothing(rig);
    /* What was a duplicate when it was stored keeps its first time. */
    const char *again =
        "8=FIX.4.4\0019=1\00135=D\00134=2\00143=Y\00149=X\00152=20230102-00:00:00\001"
        "56=X\001122=20230101-00:00:00\00111=two\00110=000\001";
    rig->store.length[2] = (uint32_t)strlen(again);
    memcpy(rig->store.bytes[2], again, strlen(again));
    rig_peer(rig, "2", 3, "7=2|16=2|");
    rig_expect(rig, "35=D|34=2|43=Y|49=ISLD|52=<T>|56=TW44|122=20230101-00:00:00|11=two|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void request_without_end(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(2);
    rig_peer(rig, "2", 2, "7=1|16=0|");
    rig_expect(rig, "35=4|34=1|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=2|123=Y|");
    rig_expect_nothing(rig);
    rig_peer(rig, "1", 3, "112=x|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=x|");
    rig_free(rig);
}

static void both_sides_behind(void **state)
{
    (void)state;
    /* The peer's request comes ahead of its own gap: it is answered at once, and the gap asked for
     * once. */
    struct rig *rig = rig_expecting(4);
    assert_int_equal(rig_peer(rig, "2", 9, "7=1|16=0|"), TAUT_SESSION_GAP);
    rig_expect(rig, "35=2|34=2|49=ISLD|52=<T>|56=TW44|7=4|16=0|");
    rig_expect(rig, "35=4|34=1|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=3|123=Y|");
    rig_expect_nothing(rig);
    assert_int_equal(rig_peer(rig, "2", 10, "7=1|16=0|"), 0);
    rig_expect(rig, "35=4|34=1|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=3|123=Y|");
    rig_expect_nothing(rig);
    assert_int_equal(rig_next_in(rig), 4);
    rig_free(rig);

    /* At logon: NewSeqNo is the number of the next new message, the request included. */
    rig = rig_expecting(7);
    rig_send(rig, "D", "11=2|");
    rig_send(rig, "D", "11=3|");
    rig_send(rig, "D", "11=4|");
    rig_disconnect(rig);
    rig_drop_output(rig);
    rig_connect(rig);
    rig_peer(rig, "A", 8, "98=0|108=30|");
    rig_expect(rig, "35=A|34=5|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_expect(rig, "35=2|34=6|49=ISLD|52=<T>|56=TW44|7=7|16=0|");
    rig_peer(rig, "2", 9, "7=5|16=0|");
    rig_expect(rig, "35=4|34=5|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=7|123=Y|");
    rig_expect_nothing(rig);
    rig_send(rig, "D", "11=next|");
    rig_expect(rig, "35=D|34=7|49=ISLD|52=<T>|56=TW44|11=next|");
    rig_free(rig);
}

static void request_with_an_old_number_is_answered(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(5);
    assert_int_equal(rig_peer(rig, "2", 3, "7=1|16=0|"), 0);
    rig_expect(rig, "35=4|34=1|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=2|123=Y|");
    rig_expect_nothing(rig);
    assert_int_equal(rig_next_in(rig), 5);
    rig_free(rig);
}

static void bad_requests_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *rest, *text;
        unsigned tag, reason;
    } requests[] = {
        {"16=0|", "Required tag missing", 7, 1},
        {"7=1|", "Required tag missing", 16, 1},
        {"7=|16=0|", "Tag specified without a value", 7, 4},
        {"7=a|16=0|", "Incorrect data format for value", 7, 6},
        {"7=1|16=-1|", "Incorrect data format for value", 16, 6},
        {"7=0|16=0|", "Value is incorrect (out of range) for this tag", 7, 5},
        {"7=1000|16=0|", "Value is incorrect (out of range) for this tag", 7, 5},
        {"7=5|16=4|", "Value is incorrect (out of range) for this tag", 16, 5},
    };
    struct rig *rig = rig_expecting(2);
    for (unsigned i = 0; i < 10; i++)
        rig_send(rig, "D", "11=x|");
    rig_drop_output(rig);
    for (uint32_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char text[300];
        assert_int_equal(rig_peer(rig, "2", i + 2, requests[i].rest), TAUT_SESSION_REJECTED);
        snprintf(text, sizeof text,
                 "35=3|34=%u|49=ISLD|52=<T>|56=TW44|45=%u|58=%s|371=%u|372=2|373=%u|", i + 12,
                 i + 2, requests[i].text, requests[i].tag, requests[i].reason);
        rig_expect(rig, text);
    }
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void replay_piece_by_piece(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(2);
    char body[400] = "58=";
    memset(body + 3, 'z', 300);
    strcpy(body + 303, "|");
    for (unsigned i = 2; i <= 101; i++) {
        if (i % 10 == 0)
            rig_peer(rig, "1", i / 10 + 1, "112=x|");
        else
            assert_int_equal(rig_send(rig, "D", body), 0);
        rig_drop_output(rig);
    }
    rig->out.capacity = 1200;
    uint32_t events = rig_peer(rig, "2", 12, "7=1|16=0|");
    uint64_t seq = 1;
    unsigned calls = 0;
    for (;;) {
        assert_true(rig->out.length <= rig->out.capacity);
        while (rig->taken < rig->out.length) {
            if (seq == 1 || seq % 10 == 0)
                rig_expect_numbers(
                    rig, "35=4|34=%llu|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=%llu|123=Y|", seq,
                    seq + 1);
            else {
                char text[600];
                snprintf(text, sizeof text, "35=D|34=%llu|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|%s",
                         (unsigned long long)seq, body);
                rig_expect(rig, text);
            }
            seq++;
        }
        rig_drop_output(rig);
        if (!(events & TAUT_SESSION_PUMP))
            break;
        events = taut_session_pump(rig->session, rig->now, &rig->out);
        calls++;
    }
    assert_int_equal(seq, 102);
    assert_true(calls > 20);
    assert_int_equal(taut_session_pump(rig->session, rig->now, &rig->out), 0);
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void new_messages_during_an_open_replay(void **state)
{
    (void)state;
    struct rig *rig = rig_with_sent(9);
    rig->out.capacity = 400;
    uint32_t events = rig_peer(rig, "2", 2, "7=2|16=0|");
    assert_true(events & TAUT_SESSION_PUMP);
    rig_drop_output(rig);
    /* The peer ignores it, because it has a gap. */
    assert_int_equal(rig_send(rig, "D", "11=new|"), 0);
    rig_expect(rig, "35=D|34=10|49=ISLD|52=<T>|56=TW44|11=new|");
    rig_drop_output(rig);
    rig->out.capacity = 4000;
    events = taut_session_pump(rig->session, rig->now, &rig->out);
    assert_false(events & TAUT_SESSION_PUMP);
    /* The end of the replay is the message sent meanwhile. */
    rig->out.data[rig->out.length] = 0;
    const char *last = strstr((char *)rig->out.data, "\00134=10\001");
    assert_non_null(last);
    rig->taken = (uint32_t)((const uint8_t *)last - rig->out.data) - 20;
    while (rig->out.data[rig->taken] != '8' || rig->out.data[rig->taken + 1] != '=')
        rig->taken++;
    rig_expect(rig, "35=D|34=10|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|11=new|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

/* A replay of 2 .. 10 is open. */
static struct rig *rig_in_a_replay(void)
{
    struct rig *rig = rig_with_sent(20);
    rig->out.capacity = 400;
    assert_true(rig_peer(rig, "2", 2, "7=2|16=10|") & TAUT_SESSION_PUMP);
    rig_drop_output(rig);
    rig->out.capacity = RIG_OUTBOX;
    return rig;
}

static void second_request_during_a_replay(void **state)
{
    (void)state;
    struct rig *rig = rig_in_a_replay();
    assert_int_equal(rig_peer(rig, "2", 3, "7=15|16=16|"), 0);
    /* Neither request lost anything. */
    char got[4096];
    memcpy(got, rig->out.data, rig->out.length);
    got[rig->out.length] = 0;
    for (unsigned i = 5; i <= 16; i++) {
        char number[16];
        snprintf(number, sizeof number, "\00134=%u\001", i);
        assert_non_null(strstr(got, number));
    }
    assert_null(strstr(got, "\00134=17\001"));
    rig_free(rig);

    rig = rig_in_a_replay();
    assert_int_equal(rig_peer(rig, "2", 3, "7=2|16=3|"), 0);
    for (uint64_t seq = 2; seq <= 10; seq++)
        rig_expect_numbers(rig, "35=D|34=%llu|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|11=old|", seq, 0);
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void replay_leaves_room_for_answers(void **state)
{
    (void)state;
    struct rig *rig = rig_with_sent(100);
    rig->out.capacity = 5000;
    assert_true(rig_peer(rig, "2", 2, "7=2|16=0|") & TAUT_SESSION_PUMP);
    assert_true(rig->out.length > 3000);
    for (uint64_t seq = 3; seq < 8; seq++)
        assert_int_equal(rig_peer(rig, "1", seq, "112=answered meanwhile|"), 0);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_of_mixed_messages),
        cmocka_unit_test(numbers_without_messages_are_filled_behind_the_last_message),
        cmocka_unit_test(request_without_end),
        cmocka_unit_test(both_sides_behind),
        cmocka_unit_test(request_with_an_old_number_is_answered),
        cmocka_unit_test(bad_requests_are_rejected),
        cmocka_unit_test(replay_piece_by_piece),
        cmocka_unit_test(new_messages_during_an_open_replay),
        cmocka_unit_test(second_request_during_a_replay),
        cmocka_unit_test(replay_leaves_room_for_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
