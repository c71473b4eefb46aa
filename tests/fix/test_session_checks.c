/* SPDX-License-Identifier: BSD-2-Clause */
/* One session against hand-written messages: the checks on each of them, limits, own messages. */
#include "session_rig.h"

#include <stdio.h>
#include <string.h>

#define ENDED (TAUT_SESSION_CLOSE | TAUT_SESSION_LOGGED_OUT)

static void check_closed(struct rig *rig, uint32_t events, uint32_t reason)
{
    assert_true(events & TAUT_SESSION_CLOSE);
    assert_int_equal(taut_session_reason(rig->session), reason);
    assert_false(taut_session_logged_on(rig->session));
}

/* --- checks on every message -------------------------------------------------------------------
 */

static void missing_comp_ids_are_rejected(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_int_equal(rig_feed(rig, "35=0|34=2|52=<T>|56=ISLD|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=2|49=ISLD|52=<T>|56=TW44|45=2|58=Required tag missing|371=49|372=0|"
                    "373=1|");
    assert_int_equal(rig_feed(rig, "35=D|34=3|49=TW44|52=<T>|11=1|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=3|49=ISLD|52=<T>|56=TW44|45=3|58=Required tag missing|371=56|372=D|"
                    "373=1|");
    assert_int_equal(rig_feed(rig, "35=D|34=4|49=TW44|56=ISLD|11=1|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=4|49=ISLD|52=<T>|56=TW44|45=4|58=Required tag missing|371=52|372=D|"
                    "373=1|");
    assert_int_equal(rig_feed(rig, "35=D|34=5|49=|52=<T>|56=ISLD|11=1|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=5|49=ISLD|52=<T>|56=TW44|45=5|58=Tag specified without a value|"
                    "371=49|372=D|373=4|");
    assert_int_equal(rig_feed(rig, "35=D|34=6|49=TW44|52=20231114|56=ISLD|11=1|"),
                     TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=6|49=ISLD|52=<T>|56=TW44|45=6|58=Incorrect data format for value|"
                    "371=52|372=D|373=6|");
    rig_expect_nothing(rig);
    assert_true(taut_session_logged_on(rig->session));
    rig_peer(rig, "1", 7, "112=up|");
    rig_expect(rig, "35=0|34=7|49=ISLD|52=<T>|56=TW44|112=up|");
    rig_free(rig);
}

static void wrong_comp_id_ends_the_session(void **state)
{
    (void)state;
    static const char *const orders[] = {
        "35=D|34=2|49=WT|52=<T>|56=ISLD|11=1|",
        "35=D|34=2|49=TW44|52=<T>|56=DLSI|11=1|",
        "35=D|34=2|49=WT|52=<T>|56=DLSI|11=1|",
    };
    for (size_t i = 0; i < 3; i++) {
        struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
        assert_int_equal(rig_feed(rig, orders[i]), TAUT_SESSION_REJECTED);
        rig_expect(rig, "35=3|34=2|49=ISLD|52=<T>|56=TW44|45=2|58=CompID problem|372=D|373=9|");
        rig_expect(rig, "35=5|34=3|49=ISLD|52=<T>|56=TW44|");
        rig_expect_nothing(rig);
        uint32_t events = rig_peer(rig, "5", 3, "");
        assert_int_equal(events, ENDED | TAUT_SESSION_IGNORED);
        check_closed(rig, events, TAUT_REASON_COMP_ID);
        rig_expect_nothing(rig);
        rig_free(rig);
    }
}

static void stale_messages_get_one_logout(void **state)
{
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
        const char *message = ahead ? "35=0|34=2|49=TW44|52=<T+121>|56=ISLD|"
                                    : "35=0|34=2|49=TW44|52=<T-121>|56=ISLD|";
        for (int i = 0; i < 5; i++)
            assert_false(rig_feed(rig, message) & TAUT_SESSION_MESSAGE);
        rig_expect(rig, "35=3|34=2|49=ISLD|52=<T>|56=TW44|45=2|58=SendingTime accuracy problem|"
                        "372=0|373=10|");
        rig_expect(rig, "35=5|34=3|49=ISLD|52=<T>|56=TW44|");
        rig_expect_nothing(rig);
        check_closed(rig, rig_peer(rig, "5", 3, ""), TAUT_REASON_SENDING_TIME);
        rig_free(rig);
    }
}

static void time_not_checked(struct taut_session_config *config)
{
    config->sending_time_tolerance_s = UINT32_MAX;
}

static void time_check_can_be_off(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, time_not_checked);
    assert_true(rig_feed(rig, "35=D|34=2|49=TW44|52=<T-99999>|56=ISLD|") & TAUT_SESSION_MESSAGE);
    assert_true(rig_feed(rig, "35=D|34=3|49=TW44|52=19700101-00:00:00|56=ISLD|") &
                TAUT_SESSION_MESSAGE);
    assert_int_equal(rig_feed(rig, "35=D|34=4|49=TW44|52=19700101-00:00:00.|56=ISLD|"),
                     TAUT_SESSION_REJECTED);
    assert_int_equal(rig_feed(rig, "35=D|34=5|49=TW44|52=19700101-00:00:00.1x3|56=ISLD|"),
                     TAUT_SESSION_REJECTED);
    assert_int_equal(rig_feed(rig, "35=D|34=6|49=TW44|52=19700101-00:00:00Z|56=ISLD|"),
                     TAUT_SESSION_REJECTED);
    assert_true(rig_feed(rig, "35=D|34=7|49=TW44|52=19700101-00:00:00.123456|56=ISLD|") &
                TAUT_SESSION_MESSAGE);
    rig_free(rig);
}

static void wrong_begin_string(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig->begin_string = "FIX.4.1";
    rig_peer(rig, "1", 2, "112=id|");
    rig->begin_string = "FIX.4.4";
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|58=Incorrect BeginString|");
    rig_expect_nothing(rig);
    assert_int_equal(taut_session_next_in(rig->session), 3);
    check_closed(rig, rig_peer(rig, "5", 3, ""), TAUT_REASON_BEGIN_STRING);
    rig_free(rig);
}

static void missing_number_ends_the_session(void **state)
{
    (void)state;
    static const char *const messages[] = {
        "35=1|49=TW44|52=<T>|56=ISLD|112=T|", "35=1|34=|49=TW44|52=<T>|56=ISLD|112=T|",
        "35=1|34=-2|49=TW44|52=<T>|56=ISLD|112=T|", "35=D|134=2|49=TW44|52=<T>|56=ISLD|58=34=2|"};
    for (size_t i = 0; i < 4; i++) {
        struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
        uint32_t events = rig_feed(rig, messages[i]);
        assert_int_equal(events, ENDED);
        check_closed(rig, events, TAUT_REASON_SEQUENCE_MISSING);
        rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|58=Required tag missing or no number: "
                        "MsgSeqNum|");
        rig_expect_nothing(rig);
        rig_free(rig);
    }
}

static void test_requests_are_answered(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig_peer(rig, "1", 2, "112=HELLO|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=HELLO|");
    assert_int_equal(rig_peer(rig, "1", 3, ""), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=3|49=ISLD|52=<T>|56=TW44|45=3|58=Required tag missing|371=112|372=1|"
                    "373=1|");
    assert_int_equal(rig_peer(rig, "1", 4, "112=|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=4|49=ISLD|52=<T>|56=TW44|45=4|58=Tag specified without a value|"
                    "371=112|372=1|373=4|");
    assert_int_equal(rig_peer(rig, "3", 5, "45=2|58=whatever|"), 0);
    rig_expect_nothing(rig);
    struct taut_session_stats stats;
    taut_session_stats(rig->session, &stats);
    assert_int_equal(stats.test_requests_received, 3);
    assert_int_equal(stats.heartbeats_sent, 1);
    assert_int_equal(stats.rejects_sent, 2);
    assert_int_equal(stats.rejects_received, 1);
    assert_int_equal(stats.received, 5);
    assert_int_equal(stats.sent, 4);
    assert_int_equal(stats.received_app, 0);
    rig_free(rig);
}

/* --- garbled, too big --------------------------------------------------------------------------
 */

static void garbled_bytes(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, NULL);
    rig_connect(rig);
    uint32_t events =
        taut_session_garbled(rig->session, TAUT_GARBLED_CHECKSUM, rig->now, &rig->out);
    check_closed(rig, events, TAUT_REASON_BAD_LOGON);
    rig_expect_nothing(rig);
    rig_free(rig);

    rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_int_equal(taut_session_garbled(rig->session, TAUT_GARBLED_CHECKSUM, rig->now, &rig->out),
                     TAUT_SESSION_IGNORED);
    rig_expect_nothing(rig);
    assert_int_equal(taut_session_next_in(rig->session), 2);
    rig_peer(rig, "1", 2, "112=x|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=x|");
    rig_free(rig);
}

static void too_big(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    uint32_t events = taut_session_too_big(rig->session, rig->now, &rig->out);
    check_closed(rig, events, TAUT_REASON_TOO_BIG);
    assert_true(events & TAUT_SESSION_LOGGED_OUT);
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|58=Message size exceeds the limit|");
    rig_expect_nothing(rig);
    rig_free(rig);
    rig = rig_new(TAUT_ACCEPTOR, NULL);
    rig_connect(rig);
    check_closed(rig, taut_session_too_big(rig->session, rig->now, &rig->out), TAUT_REASON_TOO_BIG);
    rig_expect_nothing(rig);
    rig_free(rig);
}

/* --- the owner's messages ----------------------------------------------------------------------
 */

static void begin_and_commit(void **state)
{
    (void)state;
    struct taut_encoder e;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_int_equal(taut_session_begin(rig->session, rig->now, "0", &rig->out, &e), TAUT_EINVAL);
    assert_int_equal(taut_session_begin(rig->session, rig->now, "A", &rig->out, &e), TAUT_EINVAL);
    assert_int_equal(taut_session_begin(rig->session, rig->now, "", &rig->out, &e), TAUT_EINVAL);
    assert_int_equal(taut_session_begin(rig->session, rig->now, "123456789012345678901234567890123",
                                        &rig->out, &e),
                     TAUT_EINVAL);
    /* Begun and left: no trace. */
    assert_int_equal(taut_session_begin(rig->session, rig->now, "8", &rig->out, &e), 0);
    taut_encode_field(&e, 37, "lost", 4);
    assert_int_equal(rig_send(rig, "U99", "37=kept|"), 0);
    rig_expect(rig, "35=U99|34=2|49=ISLD|52=<T>|56=TW44|37=kept|");
    /* Committed once only. */
    assert_int_equal(taut_session_commit(rig->session, &rig->out, &e), TAUT_ESTATE);
    /* Something came between. */
    assert_int_equal(taut_session_begin(rig->session, rig->now, "8", &rig->out, &e), 0);
    rig_peer(rig, "1", 2, "112=x|");
    assert_int_equal(taut_session_commit(rig->session, &rig->out, &e), TAUT_ESTATE);
    rig_expect(rig, "35=0|34=3|49=ISLD|52=<T>|56=TW44|112=x|");
    /* Even where the place is the same again, because the outbox was sent meanwhile. */
    rig_drop_output(rig);
    assert_int_equal(taut_session_begin(rig->session, rig->now, "8", &rig->out, &e), 0);
    rig_peer(rig, "1", 3, "112=x|");
    rig_drop_output(rig);
    assert_int_equal(taut_session_commit(rig->session, &rig->out, &e), TAUT_ESTATE);
    /* A value with an SOH: nothing was sent, and no number used. */
    assert_int_equal(taut_session_begin(rig->session, rig->now, "8", &rig->out, &e), 0);
    taut_encode_text(&e, 58, "a\001b", 3);
    assert_int_equal(taut_session_commit(rig->session, &rig->out, &e), TAUT_EFORMAT);
    rig_expect_nothing(rig);
    assert_int_equal(taut_session_next_out(rig->session), 5);
    rig_free(rig);
}

static void bodies_of_all_lengths_follow_without_a_gap(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    char body[2100], expected[2300];
    for (uint32_t n = 1; n < 2000; n += n < 100 ? 1 : 97) {
        memset(body, 'x', sizeof body);
        memcpy(body, "58=", 3);
        body[3 + n] = '|';
        body[4 + n] = 0;
        rig->store.functions.sent = NULL; /* longer than the rig's store keeps */
        assert_int_equal(rig_send(rig, "B", body), 0);
        snprintf(expected, sizeof expected, "35=B|34=%llu|49=ISLD|52=<T>|56=TW44|%s",
                 (unsigned long long)taut_session_next_out(rig->session) - 1, body);
        rig_expect(rig, expected);
        if (rig->out.length > RIG_OUTBOX / 2)
            rig_expect_nothing(rig);
    }
    rig_free(rig);
}

static void full_outbox(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    struct taut_encoder e;
    char big[600];
    memset(big, 'y', sizeof big);
    rig->out.capacity = 1000;
    assert_int_equal(taut_session_begin(rig->session, rig->now, "B", &rig->out, &e), 0);
    taut_encode_field(&e, 58, big, 500);
    assert_int_equal(taut_session_commit(rig->session, &rig->out, &e), 0);
    uint32_t length = rig->out.length;
    assert_int_equal(taut_session_begin(rig->session, rig->now, "B", &rig->out, &e), 0);
    taut_encode_field(&e, 58, big, 500);
    assert_int_equal(taut_session_commit(rig->session, &rig->out, &e), TAUT_ENOSPC);
    assert_int_equal(rig->out.length, length);
    assert_int_equal(taut_session_next_out(rig->session), 3);
    /* An answer that the protocol demands and that does not fit. */
    uint32_t events = 0;
    for (uint64_t seq = 2; !(events & TAUT_SESSION_CLOSE); seq++)
        events = rig_peer(rig, "1", seq, "112=fill the outbox with answers|");
    check_closed(rig, events, TAUT_REASON_OVERFLOW);
    assert_true(rig->out.length <= rig->out.capacity);
    rig_free(rig);
}

static void nine_digits(struct taut_session_config *config)
{
    config->time_digits = 9;
}

static void sending_time_is_kept_and_patched(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, nine_digits);
    rig_connect(rig);
    rig_peer(rig, "A", 1, "98=0|108=30|");
    rig_drop_output(rig);
    static const uint64_t steps[] = {
        0, 1, 999999999, 1, 12345678, 987654321, 60000000000, 86400ull * 1000000000, 7};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        uint8_t time[TAUT_UTC_TEXT_MAX];
        char expected[200];
        rig->now.utc_ns += steps[i];
        size_t length = taut_format_utc(time, rig->now.utc_ns, 9);
        assert_int_equal(rig_send(rig, "B", "58=x|"), 0);
        snprintf(expected, sizeof expected, "35=B|34=%zu|49=ISLD|52=%.*s|56=TW44|58=x|", i + 2,
                 (int)length, (const char *)time);
        rig_expect(rig, expected);
    }
    /* Backwards, as a clock that is set does. */
    rig->now.utc_ns -= 5 * TAUT_NS_PER_S;
    uint8_t time[TAUT_UTC_TEXT_MAX];
    char expected[200];
    size_t length = taut_format_utc(time, rig->now.utc_ns, 9);
    assert_int_equal(rig_send(rig, "B", "58=x|"), 0);
    snprintf(expected, sizeof expected, "35=B|34=11|49=ISLD|52=%.*s|56=TW44|58=x|", (int)length,
             (const char *)time);
    rig_expect(rig, expected);
    rig_free(rig);
}

static void version_4_2(struct taut_session_config *config)
{
    config->version = TAUT_FIX_4_2;
}

static void other_versions(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, version_4_2);
    rig->begin_string = "FIX.4.2";
    rig_connect(rig);
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=30|"), TAUT_SESSION_LOGGED_ON);
    rig_expect(rig, "35=A|34=1|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_send(rig, "D", "11=a|");
    rig_drop_output(rig);
    rig_peer(rig, "2", 2, "7=1|16=999999|");
    rig_expect(rig, "35=4|34=1|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=2|123=Y|");
    rig_expect(rig, "35=D|34=2|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|11=a|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_comp_ids_are_rejected),
        cmocka_unit_test(wrong_comp_id_ends_the_session),
        cmocka_unit_test(stale_messages_get_one_logout),
        cmocka_unit_test(time_check_can_be_off),
        cmocka_unit_test(wrong_begin_string),
        cmocka_unit_test(missing_number_ends_the_session),
        cmocka_unit_test(test_requests_are_answered),
        cmocka_unit_test(garbled_bytes),
        cmocka_unit_test(too_big),
        cmocka_unit_test(begin_and_commit),
        cmocka_unit_test(bodies_of_all_lengths_follow_without_a_gap),
        cmocka_unit_test(full_outbox),
        cmocka_unit_test(sending_time_is_kept_and_patched),
        cmocka_unit_test(other_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
