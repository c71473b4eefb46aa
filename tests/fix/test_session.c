/* SPDX-License-Identifier: BSD-2-Clause */
/* One session against hand-written messages: logon, logout, identity, times, limits. */
#include "session_rig.h"

#include <string.h>

#define ANSWERS(events) ((events) & ~(uint32_t)(TAUT_SESSION_IGNORED | TAUT_SESSION_REJECTED))
#define ENDED           (TAUT_SESSION_CLOSE | TAUT_SESSION_LOGGED_OUT)

static void check_closed(struct rig *rig, uint32_t events, uint32_t reason)
{
    assert_true(events & TAUT_SESSION_CLOSE);
    assert_int_equal(taut_session_reason(rig->session), reason);
    assert_false(taut_session_logged_on(rig->session));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acceptor_logs_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
