/* SPDX-License-Identifier: BSD-2-Clause */
/* The store: when it is called, and that nothing is acknowledged once it failed. */
#include "session_rig.h"

#include <string.h>

#define ENDED (TAUT_SESSION_CLOSE | TAUT_SESSION_LOGGED_OUT)

static void check_store_reason(struct rig *rig)
{
    assert_int_equal(taut_session_reason(rig->session), TAUT_REASON_STORE);
    assert_false(taut_session_logged_on(rig->session));
    assert_int_equal(rig_send(rig, "D", "11=x|"), TAUT_ESTATE);
}

static void number_is_stored_after_the_handler(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_int_equal(rig_feed_unhandled(rig, "35=D|34=2|49=TW44|52=<T>|56=ISLD|11=a|"),
                     TAUT_SESSION_MESSAGE);
    assert_int_equal(rig->store.next_in, 2);
    assert_int_equal(taut_session_next_in(rig->session), 2);
    assert_int_equal(rig_send(rig, "8", "11=a|"), 0);
    assert_int_equal(rig->store.last_sent, 2);
    assert_int_equal(taut_session_handled(rig->session), 0);
    assert_int_equal(rig->store.next_in, 3);
    assert_int_equal(taut_session_next_in(rig->session), 3);
    rig_free(rig);
}

static void handled_after_the_connection_is_gone(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig_feed_unhandled(rig, "35=D|34=2|49=TW44|52=<T>|56=ISLD|11=a|");
    assert_int_equal(rig_disconnect(rig), TAUT_SESSION_LOGGED_OUT);
    assert_int_equal(taut_session_handled(rig->session), 0);
    assert_int_equal(rig->store.next_in, 3); /* it was handled all the same */
    rig_free(rig);
}

static void number_that_is_not_stored_is_not_counted(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig->store.fail_received = 1;
    assert_int_equal(rig_peer(rig, "D", 2, "11=a|"), TAUT_SESSION_MESSAGE | ENDED);
    check_store_reason(rig);
    rig_expect_nothing(rig);
    assert_int_equal(taut_session_next_in(rig->session), 2);
    /* On the next connection it comes again. */
    rig_disconnect(rig);
    rig_connect(rig);
    assert_true(rig_peer(rig, "A", 3, "98=0|108=30|") & TAUT_SESSION_GAP);
    rig_expect(rig, "35=A|34=2|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_expect(rig, "35=2|34=3|49=ISLD|52=<T>|56=TW44|7=2|16=0|");
    assert_int_equal(rig_peer(rig, "D", 2, "43=Y|122=<T>|11=a|"), TAUT_SESSION_MESSAGE);
    assert_int_equal(taut_session_next_in(rig->session), 3);
    rig_free(rig);
}

static void nothing_is_answered_once_it_failed(void **state)
{
    (void)state;
    static const char *const messages[] = {
        "35=1|34=2|49=TW44|52=<T>|56=ISLD|112=x|",
        "35=2|34=2|49=TW44|52=<T>|56=ISLD|7=1|16=0|",
        "35=5|34=2|49=TW44|52=<T>|56=ISLD|",
        "35=D|34=2|49=WT|52=<T>|56=ISLD|",
        "35=0|34=2|49=TW44|52=<T>|",
        "35=0|34=2|49=TW44|52=<T>|56=ISLD|",
        "35=4|34=2|49=TW44|52=<T>|56=ISLD|36=9|123=Y|",
        "35=4|34=2|49=TW44|52=<T>|56=ISLD|36=9|",
    };
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
        rig->store.fail_received = 1;
        assert_int_equal(rig_feed(rig, messages[i]), ENDED);
        check_store_reason(rig);
        rig_expect_nothing(rig);
        assert_int_equal(taut_session_next_in(rig->session), 2);
        assert_int_equal(taut_session_next_out(rig->session), 2);
        rig_free(rig);
    }
}

static void message_that_is_not_stored_is_not_sent(void **state)
{
    (void)state;
    /* An answer of the handler. */
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig_feed_unhandled(rig, "35=D|34=2|49=TW44|52=<T>|56=ISLD|11=a|");
    rig->store.fail_sent = 1;
    assert_int_equal(rig_send(rig, "8", "11=a|"), TAUT_EIO);
    rig_expect_nothing(rig);
    assert_int_equal(taut_session_deadline_ns(rig->session), 0); /* there is something to tell */
    assert_int_equal(taut_session_handled(rig->session), ENDED);
    check_store_reason(rig);
    assert_int_equal(taut_session_next_in(rig->session), 2); /* not acknowledged */
    assert_int_equal(taut_session_next_out(rig->session), 2);
    rig_free(rig);
    /* One of the owner's, out of the blue: the timer tells. */
    rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig->store.fail_sent = 1;
    assert_int_equal(rig_send(rig, "8", "11=a|"), TAUT_EIO);
    assert_int_equal(rig_timer(rig), ENDED);
    check_store_reason(rig);
    rig_free(rig);
    /* An answer of the session. */
    rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig->store.fail_sent = 1;
    assert_int_equal(rig_peer(rig, "1", 2, "112=x|"), ENDED);
    rig_expect_nothing(rig);
    check_store_reason(rig);
    rig_free(rig);
    /* The Logon of an initiator, and the answer of an acceptor. */
    rig = rig_new(TAUT_INITIATOR, NULL);
    rig->store.fail_sent = 1;
    assert_int_equal(rig_connect(rig), TAUT_SESSION_CLOSE);
    rig_expect_nothing(rig);
    check_store_reason(rig);
    rig_free(rig);
    rig = rig_new(TAUT_ACCEPTOR, NULL);
    rig_connect(rig);
    rig->store.fail_sent = 1;
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=30|"), TAUT_SESSION_CLOSE);
    rig_expect_nothing(rig);
    check_store_reason(rig);
    rig_free(rig);
}

static void reset_that_fails(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig->store.fail_reset = 1;
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=30|141=Y|"), ENDED);
    rig_expect_nothing(rig);
    check_store_reason(rig);
    assert_int_equal(taut_session_next_in(rig->session), 2);
    rig_free(rig);
    /* The answer of an acceptor that begins anew. */
    rig = rig_new(TAUT_INITIATOR, NULL);
    rig_connect(rig);
    rig_disconnect(rig);
    rig_connect(rig);
    rig_drop_output(rig);
    rig->store.fail_reset = 1;
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=30|141=Y|"), TAUT_SESSION_CLOSE);
    check_store_reason(rig);
    assert_int_equal(taut_session_next_out(rig->session), 3);
    rig_free(rig);
}

static void store_that_cannot_read(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig_send(rig, "8", "11=a|");
    rig_drop_output(rig);
    rig->store.fail_fetch = 1;
    assert_int_equal(rig_peer(rig, "2", 2, "7=1|16=0|"), ENDED);
    rig_expect_nothing(rig); /* above all no gap fill in the place of a message */
    check_store_reason(rig);
    rig_free(rig);
}

static void damaged_messages_are_not_sent_again(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "",
        "8=FIX.4.4",
        "8=FIX.4.4|9=5|35=8|34=2|49=ISLD|56=TW44|11=a|10=000|",            /* no time */
        "8=FIX.4.4|9=5|34=2|49=ISLD|52=20231114-22:13:20|56=TW44|10=000|", /* no type */
        "8=FIX.4.4|9=5|35=8|34=2|52=20231114-22:13:20|56=TW44|10=00000|",  /* trailer */
        "8=FIX.4.4|9=5|35=8|34=2|52=12345678901234567890123456789012|10=000|",
        "8=FIX.4.4|9=5|35=|34=2|52=20231114-22:13:20|10=000|",
        "8=FIX.4.4|9=5|35=8|34=2|52=20231114-22:13:20_10=000|",
    };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
        rig_send(rig, "8", "11=a|");
        rig_drop_output(rig);
        rig->store.length[2] = (uint32_t)strlen(damaged[i]);
        for (uint32_t n = 0; n < rig->store.length[2]; n++)
            rig->store.bytes[2][n] = damaged[i][n] == '|' ? 1 : (uint8_t)damaged[i][n];
        assert_int_equal(rig_peer(rig, "2", 2, "7=2|16=0|"), ENDED);
        rig_expect_nothing(rig);
        check_store_reason(rig);
        rig_free(rig);
    }
}

static void message_of_the_protocol_in_the_store(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig_send(rig, "8", "11=a|");
    rig_drop_output(rig);
    uint8_t *type = (uint8_t *)strstr((char *)rig->store.bytes[2], "35=8");
    assert_non_null(type);
    type[3] = '0';
    rig_peer(rig, "2", 2, "7=1|16=0|");
    rig_expect(rig, "35=4|34=1|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=3|123=Y|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void no_store(struct taut_session_config *config)
{
    config->store = NULL;
}

static void without_a_store_all_is_filled(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, no_store);
    for (int i = 0; i < 50; i++)
        rig_send(rig, "8", "11=a|");
    rig_drop_output(rig);
    rig_peer(rig, "2", 2, "7=3|16=0|");
    rig_expect(rig, "35=4|34=3|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=52|123=Y|");
    rig_peer(rig, "2", 3, "7=3|16=20|");
    rig_expect(rig, "35=4|34=3|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=21|123=Y|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void far_ahead(struct taut_session_config *config)
{
    config->next_out = 1000000;
}

static void long_gap_in_the_store_takes_several_calls(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, far_ahead);
    rig_connect(rig);
    rig_peer(rig, "A", 1, "98=0|108=30|");
    rig_drop_output(rig);
    uint32_t events = rig_peer(rig, "2", 2, "7=1|16=0|");
    unsigned calls = 1;
    for (; events & TAUT_SESSION_PUMP; calls++) {
        rig_expect_nothing(rig);
        events = taut_session_pump(rig->session, rig->now, &rig->out);
    }
    assert_true(calls > 500 && calls < 5000); /* each call does a bounded piece */
    rig_expect(rig, "35=4|34=1|43=Y|49=ISLD|52=<T>|56=TW44|122=<T>|36=1000001|123=Y|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

/* One sync covers what was stored since the last one, and none is made for nothing. */
static void flush_syncs_once(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    uint64_t before;
    assert_int_equal(taut_session_flush(rig->session), 0);
    before = rig->store.sync_calls;
    assert_int_equal(before, 1); /* our Logon */
    assert_int_equal(taut_session_flush(rig->session), 0);
    assert_int_equal(rig->store.sync_calls, before);
    assert_int_equal(rig_send(rig, "8", "11=a|"), 0);
    assert_int_equal(rig_send(rig, "8", "11=b|"), 0);
    assert_int_equal(taut_session_flush(rig->session), 0);
    assert_int_equal(rig->store.sync_calls, before + 1);
    assert_int_equal(rig_send(rig, "8", "11=c|"), 0);
    rig->store.fail_sync = 1;
    assert_int_equal(taut_session_flush(rig->session), TAUT_EIO);
    check_store_reason(rig);
    rig_free(rig);
}

/* A caller built with a header that had no sync yet: nothing behind its end is looked at. */
static void older_store_has_no_sync(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig->store.functions.size = offsetof(struct taut_session_store, sync);
    assert_int_equal(rig_send(rig, "8", "11=a|"), 0);
    assert_int_equal(taut_session_flush(rig->session), 0);
    assert_int_equal(rig->store.sync_calls, 0);
    rig_free(rig);
}

/* Who forgot the size has all that version 0.1 has. */
static void store_without_a_size_has_sync(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig->store.functions.size = 0;
    assert_int_equal(taut_session_flush(rig->session), 0);
    assert_int_equal(rig->store.sync_calls, 1); /* our Logon */
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_is_stored_after_the_handler),
        cmocka_unit_test(handled_after_the_connection_is_gone),
        cmocka_unit_test(number_that_is_not_stored_is_not_counted),
        cmocka_unit_test(nothing_is_answered_once_it_failed),
        cmocka_unit_test(message_that_is_not_stored_is_not_sent),
        cmocka_unit_test(reset_that_fails),
        cmocka_unit_test(flush_syncs_once),
        cmocka_unit_test(older_store_has_no_sync),
        cmocka_unit_test(store_without_a_size_has_sync),
        cmocka_unit_test(store_that_cannot_read),
        cmocka_unit_test(damaged_messages_are_not_sent_again),
        cmocka_unit_test(message_of_the_protocol_in_the_store),
        cmocka_unit_test(without_a_store_all_is_filled),
        cmocka_unit_test(long_gap_in_the_store_takes_several_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
