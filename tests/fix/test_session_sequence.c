/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer's sequence numbers: gaps, duplicates, our ResendRequest, its SequenceReset. Several
 * tests replay exchanges on which FIX engines are publicly known to have failed.
 */
#include "session_rig.h"

#define ENDED (TAUT_SESSION_CLOSE | TAUT_SESSION_LOGGED_OUT)

/* --- the peer's numbers ------------------------------------------------------------------------
 */

static void number_too_high_asks_once(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(5);
    assert_int_equal(rig_peer(rig, "0", 10, ""), TAUT_SESSION_GAP | TAUT_SESSION_IGNORED);
    rig_expect(rig, "35=2|34=2|49=ISLD|52=<T>|56=TW44|7=5|16=0|");
    assert_int_equal(rig_peer(rig, "0", 11, ""), TAUT_SESSION_IGNORED);
    assert_int_equal(rig_peer(rig, "D", 12, "11=a|"), TAUT_SESSION_IGNORED);
    rig_expect_nothing(rig);
    for (uint64_t seq = 5; seq < 12; seq++) {
        assert_int_equal(rig_peer(rig, "0", seq, "43=Y|122=<T>|"), 0);
        assert_int_equal(rig_next_in(rig), seq + 1);
    }
    assert_true(rig_peer(rig, "D", 12, "43=Y|122=<T>|11=a|") & TAUT_SESSION_MESSAGE);
    rig_expect_nothing(rig);
    /* A new gap is a new request. */
    assert_true(rig_peer(rig, "0", 15, "") & TAUT_SESSION_GAP);
    rig_expect(rig, "35=2|34=3|49=ISLD|52=<T>|56=TW44|7=13|16=0|");
    struct taut_session_stats stats;
    taut_session_stats(rig->session, &stats);
    assert_int_equal(stats.gaps, 2);
    assert_int_equal(stats.resend_requests_sent, 2);
    assert_int_equal(stats.received_app, 1);
    rig_free(rig);
}

static void gap_that_is_filled_short_is_asked_for_again(void **state)
{
    (void)state;
    /* A peer that sends just what was missing, and not again what came ahead of it. */
    struct rig *rig = rig_expecting(5);
    rig_peer(rig, "0", 8, "");
    rig_drop_output(rig);
    for (uint64_t seq = 5; seq < 8; seq++)
        rig_peer(rig, "0", seq, "43=Y|122=<T>|");
    rig_expect_nothing(rig);
    assert_true(rig_peer(rig, "0", 9, "") & TAUT_SESSION_GAP);
    rig_expect(rig, "35=2|34=3|49=ISLD|52=<T>|56=TW44|7=8|16=0|");
    rig_free(rig);
}

static void number_too_low_ends_the_session(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(5);
    uint32_t events = rig_peer(rig, "0", 2, "");
    assert_int_equal(events, ENDED);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_SEQUENCE_LOW);
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|58=MsgSeqNum too low, expecting 5 but "
                    "received 2|");
    rig_expect_nothing(rig);
    rig_free(rig);
    /* At logon too. */
    rig = rig_expecting(5);
    rig_disconnect(rig);
    rig_connect(rig);
    events = rig_peer(rig, "A", 4, "98=0|108=30|");
    assert_int_equal(events, TAUT_SESSION_CLOSE);
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|58=MsgSeqNum too low, expecting 5 but "
                    "received 4|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void possible_duplicates(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(4);
    assert_int_equal(rig_peer(rig, "D", 2, "43=Y|122=<T-1>|11=a|"), TAUT_SESSION_IGNORED);
    rig_expect_nothing(rig);
    /* Without OrigSendingTime: Reject, and no number is used up. */
    assert_int_equal(rig_peer(rig, "D", 2, "43=Y|11=a|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=2|49=ISLD|52=<T>|56=TW44|45=2|58=Required tag missing|371=122|372=D|"
                    "373=1|");
    assert_int_equal(rig_peer(rig, "D", 2, "43=Y|122=|11=a|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=3|49=ISLD|52=<T>|56=TW44|45=2|58=Tag specified without a value|"
                    "371=122|372=D|373=4|");
    assert_int_equal(rig_peer(rig, "D", 2, "43=Y|122=x|11=a|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=4|49=ISLD|52=<T>|56=TW44|45=2|58=Incorrect data format for value|"
                    "371=122|372=D|373=6|");
    rig_peer(rig, "1", 4, "112=HELLO|");
    rig_expect(rig, "35=0|34=5|49=ISLD|52=<T>|56=TW44|112=HELLO|");
    /* 43=N is no PossDup. */
    assert_true(rig_peer(rig, "D", 5, "43=Y|122=<T>|11=a|") & TAUT_SESSION_MESSAGE);
    assert_true(rig_peer(rig, "D", 5, "43=N|122=<T>|11=a|") & TAUT_SESSION_CLOSE);
    rig_free(rig);
}

static void duplicate_sent_at(const char *body)
{
    struct rig *rig = rig_expecting(4);
    assert_int_equal(rig_peer(rig, "D", 2, "43=Y|122=<T>|11=a|"), TAUT_SESSION_IGNORED);
    assert_int_equal(rig_peer(rig, "D", 2, body), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=2|49=ISLD|52=<T>|56=TW44|45=2|58=SendingTime accuracy problem|372=D|"
                    "373=10|");
    rig_expect(rig, "35=5|34=3|49=ISLD|52=<T>|56=TW44|");
    rig_expect_nothing(rig);
    assert_int_equal(rig_next_in(rig), 4);
    assert_true(rig_peer(rig, "5", 4, "") & TAUT_SESSION_CLOSE);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_SENDING_TIME);
    rig_free(rig);
}

static void duplicate_from_the_future(void **state)
{
    (void)state;
    duplicate_sent_at("43=Y|122=<T+10>|11=a|");
    duplicate_sent_at("43=Y|122=20231114-22:13:20.251|11=a|"); /* a millisecond after <T> */
}

static void logon_too_high(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, NULL);
    rig_connect(rig);
    assert_int_equal(rig_peer(rig, "A", 5, "98=0|108=30|"),
                     TAUT_SESSION_LOGGED_ON | TAUT_SESSION_GAP);
    rig_expect(rig, "35=A|34=1|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_expect(rig, "35=2|34=2|49=ISLD|52=<T>|56=TW44|7=1|16=0|");
    assert_int_equal(rig_peer(rig, "5", 6, ""), ENDED);
    rig_expect(rig, "35=5|34=3|49=ISLD|52=<T>|56=TW44|");
    rig_expect_nothing(rig);
    assert_int_equal(rig_next_in(rig), 1);
    rig_free(rig);
}

static void logout_across_a_gap_keeps_the_number(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(2);
    assert_int_equal(rig_peer(rig, "5", 5, ""), ENDED);
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|");
    rig_expect_nothing(rig);
    rig_disconnect(rig);
    rig_connect(rig);
    rig_peer(rig, "A", 6, "98=0|108=30|");
    rig_expect(rig, "35=A|34=3|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_expect(rig, "35=2|34=4|49=ISLD|52=<T>|56=TW44|7=2|16=0|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void request_lost_with_the_connection_is_made_again(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(5);
    rig_peer(rig, "0", 9, "");
    rig_expect(rig, "35=2|34=2|49=ISLD|52=<T>|56=TW44|7=5|16=0|");
    rig_disconnect(rig);
    rig_connect(rig);
    rig_peer(rig, "A", 10, "98=0|108=30|");
    rig_expect(rig, "35=A|34=3|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_expect(rig, "35=2|34=4|49=ISLD|52=<T>|56=TW44|7=5|16=0|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

/* --- SequenceReset -----------------------------------------------------------------------------
 */

static void gap_fill_in_turn(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(2);
    assert_int_equal(rig_peer(rig, "4", 2, "123=Y|36=20|"), 0);
    assert_int_equal(rig_next_in(rig), 20);
    assert_int_equal(rig->store.next_in, 20);
    rig_peer(rig, "1", 20, "112=HELLO|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=HELLO|");
    /* NewSeqNo must lie ahead. */
    assert_int_equal(rig_peer(rig, "4", 21, "123=Y|36=20|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=3|49=ISLD|52=<T>|56=TW44|45=21|58=Value is incorrect (out of range) "
                    "for this tag|372=4|373=5|");
    assert_int_equal(rig_peer(rig, "4", 21, "123=Y|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=4|49=ISLD|52=<T>|56=TW44|45=21|58=Required tag missing|371=36|372=4|"
                    "373=1|");
    assert_int_equal(rig_next_in(rig), 21);
    rig_free(rig);
}

static void gap_fill_too_high_and_too_low(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(2);
    assert_int_equal(rig_peer(rig, "4", 10, "36=20|123=Y|"),
                     TAUT_SESSION_GAP | TAUT_SESSION_IGNORED);
    rig_expect(rig, "35=2|34=2|49=ISLD|52=<T>|56=TW44|7=2|16=0|");
    assert_int_equal(rig_peer(rig, "1", 20, "112=HELLO|"), TAUT_SESSION_IGNORED);
    rig_expect_nothing(rig);
    assert_int_equal(rig_next_in(rig), 2);
    rig_free(rig);

    rig = rig_expecting(2);
    /* Nobody asked for it. */
    assert_int_equal(rig_peer(rig, "4", 1, "43=Y|122=<T-1>|36=20|123=Y|"), TAUT_SESSION_IGNORED);
    rig_peer(rig, "1", 2, "112=HELLO|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=HELLO|");
    assert_int_equal(rig_peer(rig, "4", 1, "36=20|123=Y|"), ENDED);
    rig_expect(rig, "35=5|34=3|49=ISLD|52=<T>|56=TW44|58=MsgSeqNum too low, expecting 3 but "
                    "received 1|");
    rig_free(rig);
}

static void gap_fill_that_reaches_further(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(5);
    rig_peer(rig, "0", 10, "");
    rig_expect(rig, "35=2|34=2|49=ISLD|52=<T>|56=TW44|7=5|16=0|");
    for (uint64_t seq = 5; seq < 11; seq++)
        assert_int_equal(rig_peer(rig, "0", seq, "43=Y|122=<T>|"), 0);
    assert_int_equal(rig_next_in(rig), 11);
    assert_int_equal(rig_peer(rig, "4", 10, "43=Y|122=<T>|123=Y|36=12|"), 0);
    assert_int_equal(rig_next_in(rig), 12);
    assert_int_equal(rig_peer(rig, "0", 12, ""), 0);
    rig_expect_nothing(rig);
    /* Outside what was asked for it is a duplicate like any other. */
    assert_int_equal(rig_peer(rig, "4", 11, "43=Y|122=<T>|123=Y|36=99|"), TAUT_SESSION_IGNORED);
    assert_int_equal(rig_peer(rig, "4", 4, "43=Y|122=<T>|123=Y|36=99|"), TAUT_SESSION_IGNORED);
    assert_int_equal(rig_next_in(rig), 13);
    rig_free(rig);
}

static void reset_ignores_its_own_number(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(2);
    assert_int_equal(rig_peer(rig, "4", 0, "36=1|"), TAUT_SESSION_REJECTED);
    rig_expect(rig, "35=3|34=2|49=ISLD|52=<T>|56=TW44|45=0|58=Value is incorrect (out of range) "
                    "for this tag|372=4|373=5|");
    rig_peer(rig, "1", 2, "112=HELLO|");
    rig_expect(rig, "35=0|34=3|49=ISLD|52=<T>|56=TW44|112=HELLO|");
    assert_int_equal(rig_peer(rig, "4", 0, "36=1|123=N|"), TAUT_SESSION_REJECTED);
    rig_drop_output(rig);
    assert_int_equal(rig_peer(rig, "4", 777, "36=3|"), 0); /* equal: nothing happens */
    assert_int_equal(rig_next_in(rig), 3);
    assert_int_equal(rig_peer(rig, "4", 1, "36=30|"), 0);
    assert_int_equal(rig_next_in(rig), 30);
    /* So near the end of 64 bits that the next number would wrap. */
    assert_int_equal(rig_peer(rig, "4", 1, "36=18446744073709551615|"), TAUT_SESSION_REJECTED);
    assert_int_equal(rig_next_in(rig), 30);
    rig_drop_output(rig);
    /* A reset also ends a gap. */
    assert_true(rig_peer(rig, "0", 40, "") & TAUT_SESSION_GAP);
    assert_int_equal(rig_peer(rig, "4", 41, "36=41|"), 0);
    assert_int_equal(rig_peer(rig, "0", 41, ""), 0);
    rig_free(rig);
}

static void highest_number(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(2);
    assert_int_equal(rig_peer(rig, "0", UINT64_MAX, ""), TAUT_SESSION_GAP | TAUT_SESSION_IGNORED);
    assert_int_equal(rig_next_in(rig), 2);
    assert_int_equal(rig_peer(rig, "4", 0, "36=999999999999999999|"), 0);
    assert_int_equal(rig_peer(rig, "0", 999999999999999999, ""), 0);
    assert_int_equal(rig_next_in(rig), 1000000000000000000);
    rig_free(rig);
}

static void reset_in_a_gap(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(5);
    assert_true(rig_peer(rig, "0", 10, "") & TAUT_SESSION_GAP);
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=30|141=Y|"), TAUT_SESSION_RESET);
    rig_drop_output(rig);
    assert_true(rig_peer(rig, "0", 4, "") & TAUT_SESSION_GAP);
    rig_expect(rig, "35=2|34=2|49=ISLD|52=<T>|56=TW44|7=2|16=0|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void what_was_asked_for_ends_with_the_connection(void **state)
{
    (void)state;
    struct rig *rig = rig_expecting(5);
    rig_peer(rig, "0", 10, "");
    for (uint64_t seq = 5; seq < 11; seq++)
        rig_peer(rig, "0", seq, "43=Y|122=<T>|");
    rig_disconnect(rig);
    rig_connect(rig);
    assert_int_equal(rig_peer(rig, "A", 11, "98=0|108=30|"), TAUT_SESSION_LOGGED_ON);
    assert_int_equal(rig_peer(rig, "4", 10, "43=Y|122=<T>|123=Y|36=99|"), TAUT_SESSION_IGNORED);
    assert_int_equal(rig_next_in(rig), 12);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_too_high_asks_once),
        cmocka_unit_test(gap_that_is_filled_short_is_asked_for_again),
        cmocka_unit_test(number_too_low_ends_the_session),
        cmocka_unit_test(possible_duplicates),
        cmocka_unit_test(duplicate_from_the_future),
        cmocka_unit_test(logon_too_high),
        cmocka_unit_test(logout_across_a_gap_keeps_the_number),
        cmocka_unit_test(request_lost_with_the_connection_is_made_again),
        cmocka_unit_test(gap_fill_in_turn),
        cmocka_unit_test(gap_fill_too_high_and_too_low),
        cmocka_unit_test(gap_fill_that_reaches_further),
        cmocka_unit_test(reset_ignores_its_own_number),
        cmocka_unit_test(highest_number),
        cmocka_unit_test(reset_in_a_gap),
        cmocka_unit_test(what_was_asked_for_ends_with_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
