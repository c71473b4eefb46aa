/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens because nothing happens: heartbeats, test requests, time-outs, by a fake clock. */
#include "session_rig.h"

#include <string.h>

#define ENDED (TAUT_SESSION_CLOSE | TAUT_SESSION_LOGGED_OUT)
#define MS    TAUT_NS_PER_MS

/* 108=10 both ways. */
static struct rig *rig_with_heartbeat(const char *rest)
{
    struct rig *rig = rig_new(TAUT_ACCEPTOR, NULL);
    rig_connect(rig);
    assert_int_equal(rig_peer(rig, "A", 1, rest), TAUT_SESSION_LOGGED_ON);
    rig_drop_output(rig);
    return rig;
}

static uint64_t due_in_ms(const struct rig *rig)
{
    uint64_t deadline_ns = taut_session_deadline_ns(rig->session);
    return deadline_ns == TAUT_NEVER_NS ? UINT64_MAX : (deadline_ns - rig->now.now_ns) / MS;
}

static void nothing_to_do_without_a_connection(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, NULL);
    assert_int_equal(taut_session_deadline_ns(rig->session), TAUT_NEVER_NS);
    assert_int_equal(rig_timer(rig), 0);
    rig_free(rig);
}

static void heartbeat_when_idle(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=10|");
    assert_int_equal(due_in_ms(rig), 10000);
    rig_wait_ms(rig, 9999);
    assert_int_equal(rig_timer(rig), 0); /* early: harmless */
    rig_expect_nothing(rig);
    rig_wait_ms(rig, 1);
    assert_int_equal(rig_timer(rig), 0);
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|");
    rig_expect_nothing(rig);
    /* A message of ours defers the next one. */
    rig_peer(rig, "0", 2, "");
    rig_wait_ms(rig, 6000);
    rig_peer(rig, "0", 3, "");
    assert_int_equal(rig_send(rig, "D", "11=x|"), 0);
    rig_drop_output(rig);
    assert_int_equal(due_in_ms(rig), 10000);
    rig_free(rig);
}

static void test_request_then_the_end(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=10|");
    rig_wait_ms(rig, 10000);
    rig_timer(rig);
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|");
    assert_int_equal(due_in_ms(rig), 2000);
    rig_wait_ms(rig, 2000); /* 1.2 x */
    assert_int_equal(rig_timer(rig), 0);
    rig_expect(rig, "35=1|34=3|49=ISLD|52=<T>|56=TW44|112=TEST|");
    assert_int_equal(due_in_ms(rig), 12000);
    /* No second one, and no heartbeat, while it is outstanding. */
    for (int i = 0; i < 119; i++) {
        rig_wait_ms(rig, 100);
        assert_int_equal(rig_timer(rig), 0);
    }
    rig_expect_nothing(rig);
    rig_wait_ms(rig, 100); /* 2.4 x */
    assert_int_equal(rig_timer(rig), ENDED);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_HEARTBEAT_TIMEOUT);
    rig_expect_nothing(rig); /* no Logout */
    assert_int_equal(taut_session_deadline_ns(rig->session), TAUT_NEVER_NS);
    rig_free(rig);
}

static void any_message_is_a_sign_of_life(void **state)
{
    (void)state;
    static const char *const types[] = {"0", "D", "3", "1"};
    for (size_t i = 0; i < 4; i++) {
        struct rig *rig = rig_with_heartbeat("98=0|108=10|");
        rig_wait_ms(rig, 12000);
        rig_timer(rig);
        rig_expect(rig, "35=1|34=2|49=ISLD|52=<T>|56=TW44|112=TEST|");
        rig_drop_output(rig);
        rig_wait_ms(rig, 11999);
        rig_peer(rig, types[i], 2, "112=TEST|");
        rig_drop_output(rig);
        rig_wait_ms(rig, 1);
        assert_int_equal(rig_timer(rig) & TAUT_SESSION_CLOSE, 0);
        assert_true(taut_session_logged_on(rig->session));
        rig_wait_ms(rig, 11999);
        rig_drop_output(rig);
        rig_timer(rig); /* 1.2 x later: the next one */
        struct taut_session_stats stats;
        taut_session_stats(rig->session, &stats);
        assert_int_equal(stats.test_requests_sent, 2);
        rig_free(rig);
    }
}

static void process_that_was_stopped_asks_before_it_ends(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=10|");
    rig_wait_ms(rig, 100000);
    assert_int_equal(rig_timer(rig), 0);
    rig_expect(rig, "35=1|34=2|49=ISLD|52=<T>|56=TW44|112=TEST|");
    rig_wait_ms(rig, 11999);
    assert_int_equal(rig_timer(rig), 0);
    rig_wait_ms(rig, 1);
    assert_int_equal(rig_timer(rig), ENDED);
    rig_free(rig);
}

static void zero_means_silence(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=0|");
    assert_int_equal(taut_session_deadline_ns(rig->session), TAUT_NEVER_NS);
    for (int i = 0; i < 1000; i++) {
        rig_wait_ms(rig, 1000);
        assert_int_equal(rig_timer(rig), 0);
    }
    rig_expect_nothing(rig);
    assert_true(taut_session_logged_on(rig->session));
    rig_free(rig);
}

static void longest_heartbeat(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=4294967294|");
    assert_int_equal(taut_session_deadline_ns(rig->session),
                     rig->now.now_ns + UINT64_C(4294967294) * TAUT_NS_PER_S);
    rig_free(rig);
}

static void busy_outbox_is_a_heartbeat(void **state)
{
    (void)state;
    /* Bytes that the peer does not take: no room, no message, but no overflow either. */
    struct rig *rig = rig_with_heartbeat("98=0|108=10|");
    rig->out.length = rig->out.capacity - 10;
    rig_wait_ms(rig, 10000);
    assert_int_equal(rig_timer(rig), 0);
    rig_wait_ms(rig, 2000);
    assert_int_equal(rig_timer(rig), 0);
    assert_int_equal(rig->out.length, rig->out.capacity - 10);
    assert_true(taut_session_deadline_ns(rig->session) > rig->now.now_ns);
    rig_wait_ms(rig, 12000);
    assert_int_equal(rig_timer(rig), ENDED);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_HEARTBEAT_TIMEOUT);
    rig_free(rig);
}

static void logon_timeout(void **state)
{
    (void)state;
    for (uint32_t role = TAUT_ACCEPTOR; role <= TAUT_INITIATOR; role++) {
        struct rig *rig = rig_new(role, NULL);
        rig_connect(rig);
        rig_drop_output(rig);
        assert_int_equal(due_in_ms(rig), 10000);
        rig_wait_ms(rig, 9999);
        assert_int_equal(rig_timer(rig), 0);
        rig_wait_ms(rig, 1);
        assert_int_equal(rig_timer(rig), TAUT_SESSION_CLOSE);
        assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_LOGON_TIMEOUT);
        rig_expect_nothing(rig);
        assert_int_equal(rig_disconnect(rig), 0);
        rig_free(rig);
    }
}

static void logout_timeout(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=1|");
    taut_session_logout(rig->session, NULL, rig->now, &rig->out);
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|");
    assert_int_equal(due_in_ms(rig), 2000);
    rig_wait_ms(rig, 1999);
    assert_int_equal(rig_timer(rig), 0);
    rig_expect_nothing(rig); /* no heartbeat either */
    rig_wait_ms(rig, 1);
    assert_int_equal(rig_timer(rig), ENDED);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_LOGOUT_TIMEOUT);
    rig_free(rig);

    /* After an error its reason stays. */
    rig = rig_with_heartbeat("98=0|108=10|");
    rig_feed(rig, "35=D|34=2|49=WT|52=<T>|56=ISLD|11=1|");
    rig_drop_output(rig);
    rig_wait_ms(rig, 2000);
    assert_int_equal(rig_timer(rig), ENDED);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_COMP_ID);
    rig_free(rig);
}

static void disconnect_while_waiting_for_logout(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=10|");
    taut_session_logout(rig->session, NULL, rig->now, &rig->out);
    assert_int_equal(rig_disconnect(rig), TAUT_SESSION_LOGGED_OUT);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_OWN_LOGOUT);
    assert_int_equal(rig_disconnect(rig), 0);
    rig_free(rig);
    rig = rig_with_heartbeat("98=0|108=10|");
    assert_int_equal(rig_disconnect(rig), TAUT_SESSION_LOGGED_OUT);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_DISCONNECTED);
    rig_free(rig);
}

static void gap_without_an_answer(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=10|");
    assert_true(rig_peer(rig, "0", 5, "") & TAUT_SESSION_GAP);
    rig_expect(rig, "35=2|34=2|49=ISLD|52=<T>|56=TW44|7=2|16=0|");
    rig_expect_nothing(rig);
    uint64_t seq = 6;
    for (int second = 1; second <= 29; second++) {
        rig_wait_ms(rig, 1000);
        rig_peer(rig, "0", seq++, "");
        rig_timer(rig);
    }
    struct taut_session_stats stats;
    taut_session_stats(rig->session, &stats);
    assert_int_equal(stats.resend_requests_sent, 3);
    rig_drop_output(rig);
    rig_wait_ms(rig, 1000);
    rig_peer(rig, "0", seq++, "");
    rig_timer(rig);
    assert_false(taut_session_logged_on(rig->session));
    rig->taken = 0;
    rig_expect(rig, "35=5|34=5|49=ISLD|52=<T>|56=TW44|58=No answer to ResendRequest|");
    rig_expect_nothing(rig);
    rig_wait_ms(rig, 2000);
    assert_int_equal(rig_timer(rig), ENDED);
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_GAP);
    rig_free(rig);
}

static void progress_begins_the_count_anew(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=10|");
    uint64_t seq = 20;
    rig_peer(rig, "0", seq++, "");
    for (uint64_t filled = 2; filled < 6; filled++) {
        /* Twice in vain, then one message of the gap. */
        for (int i = 0; i < 2; i++) {
            rig_wait_ms(rig, 10000);
            rig_peer(rig, "0", seq++, "");
            rig_timer(rig);
        }
        rig_peer(rig, "0", filled, "43=Y|122=<T>|");
    }
    assert_true(taut_session_logged_on(rig->session));
    struct taut_session_stats stats;
    taut_session_stats(rig->session, &stats);
    assert_int_equal(stats.resend_requests_sent, 9);
    rig_free(rig);
}

static void gap_that_shrinks_is_not_given_up(void **state)
{
    (void)state;
    struct rig *rig = rig_with_heartbeat("98=0|108=10|");
    rig_peer(rig, "0", 20, "");
    /* One message every 9 s is progress. */
    for (uint64_t seq = 2; seq < 20; seq++) {
        rig_wait_ms(rig, 9000);
        rig_peer(rig, "0", seq, "43=Y|122=<T>|");
        rig_timer(rig);
    }
    struct taut_session_stats stats;
    taut_session_stats(rig->session, &stats);
    assert_int_equal(stats.resend_requests_sent, 1);
    assert_int_equal(taut_session_next_in(rig->session), 20);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_do_without_a_connection),
        cmocka_unit_test(heartbeat_when_idle),
        cmocka_unit_test(test_request_then_the_end),
        cmocka_unit_test(any_message_is_a_sign_of_life),
        cmocka_unit_test(process_that_was_stopped_asks_before_it_ends),
        cmocka_unit_test(zero_means_silence),
        cmocka_unit_test(longest_heartbeat),
        cmocka_unit_test(busy_outbox_is_a_heartbeat),
        cmocka_unit_test(logon_timeout),
        cmocka_unit_test(logout_timeout),
        cmocka_unit_test(disconnect_while_waiting_for_logout),
        cmocka_unit_test(gap_without_an_answer),
        cmocka_unit_test(progress_begins_the_count_anew),
        cmocka_unit_test(gap_that_shrinks_is_not_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
