/* SPDX-License-Identifier: BSD-2-Clause */
/* One session against hand-written messages: configuration, logon and logout. */
#include "session_rig.h"

#include <string.h>

#define ENDED (TAUT_SESSION_CLOSE | TAUT_SESSION_LOGGED_OUT)

static void check_closed(struct rig *rig, uint32_t events, uint32_t reason)
{
    assert_true(events & TAUT_SESSION_CLOSE);
    assert_int_equal(taut_session_reason(rig->session), reason);
    assert_false(taut_session_logged_on(rig->session));
}

/* --- configuration -----------------------------------------------------------------------------
 */

static int try_config(const struct taut_session_config *config, struct taut_err *err)
{
    static _Alignas(64) uint8_t memory[4096];
    struct taut_session *session;
    return taut_session_init(&session, memory, sizeof memory, config, err);
}

static void bad_configurations_are_named(void **state)
{
    (void)state;
    const struct taut_session_config good = {
        .size = sizeof good, .sender_comp_id = "A", .target_comp_id = "B"};
    struct taut_session_config config;
    struct taut_err err = {0};
    char long_id[65];
    memset(long_id, 'x', 64);
    long_id[64] = 0;

    assert_int_equal(try_config(&good, &err), 0);
#define REFUSED(member, value, code, word)                                                         \
    do {                                                                                           \
        config = good;                                                                             \
        config.member = value;                                                                     \
        assert_int_equal(try_config(&config, &err), code);                                         \
        assert_non_null(strstr(err.text, word));                                                   \
    } while (0)
    REFUSED(size, 8, TAUT_EINVAL, "size");
    config = good; /* no size: version 0.1 */
    config.size = 0;
    assert_int_equal(try_config(&config, &err), 0);
    config.next_in = UINT64_MAX;
    assert_int_equal(try_config(&config, &err), TAUT_EINVAL);
    config.size = offsetof(struct taut_session_config, next_in); /* an older header's */
    assert_int_equal(try_config(&config, &err), 0);
    assert_int_equal(try_config(NULL, &err), TAUT_EINVAL);
    struct taut_session_store store = {.size = offsetof(struct taut_session_store, fetch)};
    REFUSED(store, &store, TAUT_EINVAL, "session store: size");
    store.size = 0;
    config.store = &store;
    assert_int_equal(try_config(&config, &err), 0);
    REFUSED(role, 7, TAUT_EINVAL, "role");
    REFUSED(version, 77, TAUT_EINVAL, "version");
    REFUSED(version, TAUT_FIX_4_0, TAUT_ENOTSUP, "FIX.4.0");
    REFUSED(version, TAUT_FIXT_1_1, TAUT_ENOTSUP, "FIXT.1.1");
    REFUSED(sender_comp_id, NULL, TAUT_EINVAL, "sender_comp_id");
    REFUSED(sender_comp_id, "", TAUT_EINVAL, "sender_comp_id");
    REFUSED(target_comp_id, long_id, TAUT_EINVAL, "target_comp_id");
    REFUSED(target_comp_id, "A\001B", TAUT_EINVAL, "target_comp_id");
    REFUSED(time_digits, 4, TAUT_EINVAL, "time_digits");
    REFUSED(next_in, UINT64_MAX, TAUT_EINVAL, "next_in");
    REFUSED(next_out, UINT64_MAX, TAUT_EINVAL, "next_out");
#undef REFUSED
    config = good;
    config.heartbeat_min_s = 10;
    config.heartbeat_max_s = 5;
    assert_int_equal(try_config(&config, &err), TAUT_EINVAL);
    long_id[63] = 0;
    config = good;
    config.target_comp_id = long_id; /* 63 bytes are allowed */
    assert_int_equal(try_config(&config, &err), 0);

    static _Alignas(64) uint8_t memory[4096];
    struct taut_session *session;
    assert_int_equal(taut_session_init(&session, memory, taut_session_footprint() - 1, &good, &err),
                     TAUT_ENOMEM);
    assert_int_equal(taut_session_init(&session, memory + 8, 4000, &good, &err), TAUT_EINVAL);
    assert_null(session);
}

static void names_and_versions(void **state)
{
    (void)state;
    for (uint32_t version = TAUT_FIX_4_4; version <= TAUT_FIXT_1_1; version++) {
        const char *text = taut_fix_version_text(version);
        assert_int_equal(taut_fix_version_from((const uint8_t *)text, (uint32_t)strlen(text)),
                         version);
    }
    assert_int_equal(taut_fix_version_from((const uint8_t *)"FIX.4.4X", 8), -1);
    assert_int_equal(taut_fix_version_from((const uint8_t *)"FIX.4", 5), -1);
    for (uint32_t reason = TAUT_REASON_NONE; reason <= TAUT_REASON_GAP; reason++)
        assert_string_not_equal(taut_session_reason_text(reason), "unknown");
    assert_string_equal(taut_session_reason_text(9999), "unknown");
    struct rig *rig = rig_new(TAUT_ACCEPTOR, NULL);
    assert_string_equal(taut_session_sender(rig->session), "ISLD");
    assert_string_equal(taut_session_target(rig->session), "TW44");
    rig_free(rig);
}

/* --- logon ------------------------------------------------------------------------------------ */

static void acceptor_logs_on(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_true(taut_session_logged_on(rig->session));
    assert_int_equal(taut_session_heartbeat_s(rig->session), 30);
    assert_int_equal(taut_session_next_in(rig->session), 2);
    assert_int_equal(taut_session_next_out(rig->session), 2);
    assert_int_equal(rig->store.next_in, 2);
    assert_int_equal(rig->store.last_sent, 1);
    rig_free(rig);
}

static void initiator_logs_on(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_INITIATOR, NULL);
    assert_int_equal(rig_connect(rig), 0);
    rig_expect(rig, "35=A|34=1|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_expect_nothing(rig);
    assert_false(taut_session_logged_on(rig->session));
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=30|"), TAUT_SESSION_LOGGED_ON);
    rig_expect_nothing(rig);
    assert_true(taut_session_logged_on(rig->session));
    assert_int_equal(rig_send(rig, "D", "11=x|"), 0);
    rig_expect(rig, "35=D|34=2|49=ISLD|52=<T>|56=TW44|11=x|");
    rig_free(rig);
}

static void no_heartbeats(struct taut_session_config *config)
{
    config->heartbeat_s = UINT32_MAX;
    config->reset_on_logon = 1;
    config->next_in = 40;
    config->next_out = 50;
}

static void initiator_resets_and_wants_no_heartbeat(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_INITIATOR, no_heartbeats);
    assert_int_equal(rig_connect(rig), TAUT_SESSION_RESET);
    assert_int_equal(rig->store.resets, 1);
    rig_expect(rig, "35=A|34=1|49=ISLD|52=<T>|56=TW44|98=0|108=0|141=Y|");
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=0|141=Y|"), TAUT_SESSION_LOGGED_ON);
    assert_int_equal(taut_session_next_out(rig->session), 2);
    assert_int_equal(taut_session_next_in(rig->session), 2);
    assert_int_equal(rig->store.resets, 1);
    rig_free(rig);
}

static void acceptor_that_begins_anew(void **state)
{
    (void)state;
    /* The acceptor answers 141=Y, which was not asked for: both Logons were number 1. */
    struct rig *rig = rig_new(TAUT_INITIATOR, NULL);
    rig_connect(rig);
    rig_disconnect(rig);
    rig_connect(rig); /* its Logon has number 2 */
    rig_drop_output(rig);
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=30|141=Y|"),
                     TAUT_SESSION_LOGGED_ON | TAUT_SESSION_RESET);
    assert_int_equal(taut_session_next_out(rig->session), 2);
    assert_int_equal(taut_session_next_in(rig->session), 2);
    rig_free(rig);
}

static void refused_logon_of_the_initiator(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_INITIATOR, NULL);
    rig_connect(rig);
    rig_drop_output(rig);
    check_closed(rig, rig_peer(rig, "5", 1, "58=go away|"), TAUT_REASON_PEER_LOGOUT);
    rig_expect_nothing(rig);
    assert_int_equal(taut_session_next_in(rig->session), 2);
    rig_free(rig);
    rig = rig_new(TAUT_INITIATOR, NULL);
    rig_connect(rig);
    rig_drop_output(rig);
    check_closed(rig, rig_peer(rig, "0", 1, ""), TAUT_REASON_BAD_LOGON);
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void bad_identity_is_met_with_silence(void **state)
{
    (void)state;
    static const char *const logons[] = {
        "35=0|34=1|49=TW44|52=<T>|56=ISLD|",
        "35=5|34=1|49=TW44|52=<T>|56=ISLD|",
        "35=D|34=1|49=TW44|52=<T>|56=ISLD|11=a|",
        "35=A|34=1|49=TW45|52=<T>|56=ISLD|98=0|108=30|",
        "35=A|34=1|49=TW4|52=<T>|56=ISLD|98=0|108=30|",
        "35=A|34=1|49=TW44|52=<T>|56=ISLE|98=0|108=30|",
        "35=A|34=1|52=<T>|56=ISLD|98=0|108=30|",
        "35=A|34=1|49=TW44|52=<T>|98=0|108=30|",
        "35=A|34=1|49=TW44|56=ISLD|98=0|108=30|",
        "35=A|34=1|49=TW44|52=<T-121>|56=ISLD|98=0|108=30|",
        "35=A|34=1|49=TW44|52=<T+121>|56=ISLD|98=0|108=30|",
        "35=A|34=1|49=TW44|52=yesterday|56=ISLD|98=0|108=30|",
        "35=A|49=TW44|52=<T>|56=ISLD|98=0|108=30|",
        "35=A|34=x|49=TW44|52=<T>|56=ISLD|98=0|108=30|",
    };
    for (size_t i = 0; i < sizeof logons / sizeof logons[0]; i++) {
        struct rig *rig = rig_new(TAUT_ACCEPTOR, NULL);
        assert_int_equal(rig_connect(rig), 0);
        check_closed(rig, rig_feed(rig, logons[i]), TAUT_REASON_BAD_LOGON);
        rig_expect_nothing(rig);
        assert_int_equal(taut_session_next_in(rig->session), 1);
        assert_int_equal(rig_disconnect(rig), 0); /* never logged on */
        rig_free(rig);
    }
    struct rig *rig = rig_new(TAUT_ACCEPTOR, NULL);
    rig_connect(rig);
    rig->begin_string = "FIX.4.1";
    check_closed(rig, rig_peer(rig, "A", 1, "98=0|108=30|"), TAUT_REASON_BAD_LOGON);
    rig_expect_nothing(rig);
    rig_free(rig);
    /* The edge of what is tolerated. */
    rig = rig_new(TAUT_ACCEPTOR, NULL);
    rig_connect(rig);
    assert_int_equal(rig_feed(rig, "35=A|34=1|49=TW44|52=<T-120>|56=ISLD|98=0|108=30|"),
                     TAUT_SESSION_LOGGED_ON);
    rig_free(rig);
}

static void bounded_heartbeat(struct taut_session_config *config)
{
    config->heartbeat_min_s = 5;
    config->heartbeat_max_s = 60;
}

static void bad_terms_are_met_with_logout(void **state)
{
    (void)state;
    static const struct {
        const char *rest, *text;
    } logons[] = {
        {"98=0|108=-10|", "HeartBtInt must not be negative"},
        {"98=0|108=ten|", "HeartBtInt is no number"},
        {"98=0|108=99999999999|", "HeartBtInt is too large"},
        {"98=0|", "Required tag missing: HeartBtInt"},
        {"108=30|", "Required tag missing: EncryptMethod"},
        {"98=2|108=30|", "EncryptMethod must be 0"},
        {"98=0|108=4|", "HeartBtInt is outside the permitted range"},
        {"98=0|108=61|", "HeartBtInt is outside the permitted range"},
        {"98=0|108=0|", "HeartBtInt is outside the permitted range"},
    };
    for (size_t i = 0; i < sizeof logons / sizeof logons[0]; i++) {
        char expected[200];
        struct rig *rig = rig_new(TAUT_ACCEPTOR, bounded_heartbeat);
        rig_connect(rig);
        check_closed(rig, rig_peer(rig, "A", 1, logons[i].rest), TAUT_REASON_BAD_LOGON);
        strcpy(expected, "35=5|34=1|49=ISLD|52=<T>|56=TW44|58=");
        strcat(expected, logons[i].text);
        strcat(expected, "|");
        rig_expect(rig, expected);
        rig_expect_nothing(rig);
        assert_int_equal(rig_disconnect(rig), 0); /* it was never logged on */
        /* The next attempt goes on behind the refused one. */
        rig_connect(rig);
        assert_int_equal(rig_peer(rig, "A", 2, "98=0|108=5|"), TAUT_SESSION_LOGGED_ON);
        rig_expect(rig, "35=A|34=2|49=ISLD|52=<T>|56=TW44|98=0|108=5|");
        rig_free(rig);
    }
}

static void refused_logon_resets_nothing(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    for (uint64_t seq = 2; seq < 5; seq++)
        rig_peer(rig, "0", seq, "");
    rig_disconnect(rig);
    rig_connect(rig);
    check_closed(rig, rig_peer(rig, "A", 1, "98=0|108=-1|141=Y|"), TAUT_REASON_BAD_LOGON);
    assert_int_equal(rig->store.resets, 0);
    assert_int_equal(taut_session_next_in(rig->session), 5);
    rig_disconnect(rig);
    rig_drop_output(rig);
    rig_connect(rig);
    assert_int_equal(rig_peer(rig, "A", 5, "98=0|108=30|"), TAUT_SESSION_LOGGED_ON);
    rig_expect(rig, "35=A|34=3|49=ISLD|52=<T>|56=TW44|98=0|108=30|");
    rig_free(rig);
}

static void reset_by_the_peer(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    rig_peer(rig, "0", 2, "");
    rig_disconnect(rig);
    rig_connect(rig);
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=10|141=Y|"),
                     TAUT_SESSION_LOGGED_ON | TAUT_SESSION_RESET);
    rig_expect(rig, "35=A|34=1|49=ISLD|52=<T>|56=TW44|98=0|108=10|141=Y|");
    rig_expect_nothing(rig);
    /* Each side's next message is number 2. */
    rig_peer(rig, "1", 2, "112=a|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=a|");
    assert_int_equal(rig->store.resets, 1);
    assert_int_equal(rig->store.last_sent, 2);
    rig_free(rig);
}

static void reset_always(struct taut_session_config *config)
{
    config->reset_on_logon = 1;
}

static void reset_by_configuration(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, reset_always);
    for (int i = 0; i < 3; i++) {
        rig_connect(rig);
        assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=10|"),
                         TAUT_SESSION_LOGGED_ON | TAUT_SESSION_RESET);
        rig_expect(rig, "35=A|34=1|49=ISLD|52=<T>|56=TW44|98=0|108=10|"); /* 141 not asked for */
        rig_peer(rig, "0", 2, "");
        assert_int_equal(rig_disconnect(rig), TAUT_SESSION_LOGGED_OUT);
        rig_drop_output(rig);
    }
    assert_int_equal(rig->store.resets, 3);
    rig_free(rig);
}

static void reset_in_mid_session(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    for (uint64_t seq = 2; seq < 10; seq++)
        rig_peer(rig, "0", seq, "");
    rig_peer(rig, "1", 10, "112=1|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=1|");
    assert_int_equal(rig_peer(rig, "A", 1, "98=0|108=20|141=Y|"), TAUT_SESSION_RESET);
    rig_expect(rig, "35=A|34=1|49=ISLD|52=<T>|56=TW44|98=0|108=20|141=Y|");
    rig_peer(rig, "1", 2, "112=1|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=1|");
    assert_int_equal(taut_session_heartbeat_s(rig->session), 20);
    /* Any other Logon ends the session, in silence. */
    rig_expect_nothing(rig);
    uint32_t events = rig_peer(rig, "A", 3, "98=0|108=30|");
    assert_int_equal(events, ENDED);
    check_closed(rig, events, TAUT_REASON_BAD_LOGON);
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void second_connection_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_int_equal(rig_connect(rig), TAUT_SESSION_CLOSE);
    assert_true(taut_session_logged_on(rig->session));
    rig_peer(rig, "1", 2, "112=still here|");
    rig_expect(rig, "35=0|34=2|49=ISLD|52=<T>|56=TW44|112=still here|");
    rig_free(rig);
}

static void logon_again_that_resets_nothing(void **state)
{
    (void)state;
    static const char *const rest[] = {"98=0|108=30|141=Y|", "98=0|108=30|", "98=0|108=30|141=N|"};
    for (size_t i = 0; i < 3; i++) {
        struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
        uint32_t events = rig_peer(rig, "A", 2, rest[i]);
        assert_int_equal(events, ENDED);
        check_closed(rig, events, TAUT_REASON_BAD_LOGON);
        assert_int_equal(rig->store.resets, 0);
        rig_expect_nothing(rig);
        rig_free(rig);
    }
    /* A duplicate of the first one is no more than that. */
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_int_equal(rig_peer(rig, "A", 1, "43=Y|122=<T>|98=0|108=30|"), TAUT_SESSION_IGNORED);
    assert_true(taut_session_logged_on(rig->session));
    rig_free(rig);
}

/* --- logout ----------------------------------------------------------------------------------- */

static void peer_logs_out(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    uint32_t events = rig_peer(rig, "5", 2, "");
    assert_int_equal(events, ENDED);
    check_closed(rig, events, TAUT_REASON_PEER_LOGOUT);
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|");
    rig_expect_nothing(rig);
    assert_int_equal(taut_session_next_in(rig->session), 3);
    assert_int_equal(rig_disconnect(rig), 0); /* LOGGED_OUT was given already */
    rig_free(rig);
}

static void we_log_out(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_int_equal(taut_session_logout(rig->session, "bye", rig->now, &rig->out), 0);
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|58=bye|");
    assert_false(taut_session_logged_on(rig->session));
    assert_int_equal(rig_send(rig, "D", "11=x|"), TAUT_ESTATE);
    /* A second one sends nothing. */
    assert_int_equal(taut_session_logout(rig->session, "bye", rig->now, &rig->out), 0);
    rig_expect_nothing(rig);
    /* What the peer had sent before it saw our Logout is still delivered. */
    assert_true(rig_peer(rig, "D", 2, "11=late|") & TAUT_SESSION_MESSAGE);
    uint32_t events = rig_peer(rig, "5", 3, "");
    assert_int_equal(events, ENDED);
    check_closed(rig, events, TAUT_REASON_OWN_LOGOUT);
    rig_expect_nothing(rig);
    assert_int_equal(taut_session_next_in(rig->session), 4);
    rig_free(rig);
}

static void logout_before_logon(void **state)
{
    (void)state;
    struct rig *rig = rig_new(TAUT_ACCEPTOR, NULL);
    assert_int_equal(taut_session_logout(rig->session, NULL, rig->now, &rig->out), 0);
    rig_connect(rig);
    assert_int_equal(taut_session_logout(rig->session, NULL, rig->now, &rig->out),
                     TAUT_SESSION_CLOSE);
    rig_expect_nothing(rig);
    assert_true(rig_peer(rig, "A", 1, "98=0|108=30|") & TAUT_SESSION_CLOSE);
    rig_expect_nothing(rig);
    rig_free(rig);
}

static void text_with_soh_is_left_out(void **state)
{
    (void)state;
    struct rig *rig = rig_logged_on(TAUT_ACCEPTOR, NULL);
    assert_int_equal(taut_session_logout(rig->session, "a\00110=000\001", rig->now, &rig->out), 0);
    rig_expect(rig, "35=5|34=2|49=ISLD|52=<T>|56=TW44|");
    rig_expect_nothing(rig);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_configurations_are_named),
        cmocka_unit_test(names_and_versions),
        cmocka_unit_test(acceptor_logs_on),
        cmocka_unit_test(initiator_logs_on),
        cmocka_unit_test(initiator_resets_and_wants_no_heartbeat),
        cmocka_unit_test(acceptor_that_begins_anew),
        cmocka_unit_test(refused_logon_of_the_initiator),
        cmocka_unit_test(bad_identity_is_met_with_silence),
        cmocka_unit_test(bad_terms_are_met_with_logout),
        cmocka_unit_test(refused_logon_resets_nothing),
        cmocka_unit_test(reset_by_the_peer),
        cmocka_unit_test(reset_by_configuration),
        cmocka_unit_test(reset_in_mid_session),
        cmocka_unit_test(logon_again_that_resets_nothing),
        cmocka_unit_test(second_connection_is_refused),
        cmocka_unit_test(peer_logs_out),
        cmocka_unit_test(we_log_out),
        cmocka_unit_test(logout_before_logon),
        cmocka_unit_test(text_with_soh_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
