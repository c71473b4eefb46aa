/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix/session.c - the life of a session, the owner's own messages, and what can be asked of it.
 */
#include "fix/session_config.h"
#include "fix/session_internal.h"

#include <string.h>

#define SESSION_ALIGN 64u

static const char *const version_texts[] = {
    [TAUT_FIX_4_4] = "FIX.4.4", [TAUT_FIX_4_0] = "FIX.4.0", [TAUT_FIX_4_1] = "FIX.4.1",
    [TAUT_FIX_4_2] = "FIX.4.2", [TAUT_FIX_4_3] = "FIX.4.3", [TAUT_FIXT_1_1] = "FIXT.1.1",
};
#define VERSIONS (sizeof version_texts / sizeof version_texts[0])

const char *taut_fix_version_text(uint32_t version)
{
    return version < VERSIONS ? version_texts[version] : "?";
}

int taut_fix_version_from(const uint8_t *text, uint32_t length)
{
    for (uint32_t i = 0; i < VERSIONS; i++)
        if (strlen(version_texts[i]) == length && memcmp(version_texts[i], text, length) == 0)
            return (int)i;
    return -1;
}

const char *taut_session_reason_text(uint32_t reason)
{
    static const char *const texts[] = {
        [TAUT_REASON_NONE] = "none",
        [TAUT_REASON_PEER_LOGOUT] = "the peer logged out",
        [TAUT_REASON_OWN_LOGOUT] = "logged out on our side",
        [TAUT_REASON_LOGON_TIMEOUT] = "no Logon in time",
        [TAUT_REASON_LOGOUT_TIMEOUT] = "no answer to our Logout in time",
        [TAUT_REASON_HEARTBEAT_TIMEOUT] = "nothing received, not even an answer to TestRequest",
        [TAUT_REASON_BAD_LOGON] = "bad Logon",
        [TAUT_REASON_SEQUENCE_LOW] = "MsgSeqNum too low",
        [TAUT_REASON_SEQUENCE_MISSING] = "MsgSeqNum missing or no number",
        [TAUT_REASON_COMP_ID] = "CompID problem",
        [TAUT_REASON_SENDING_TIME] = "SendingTime accuracy problem",
        [TAUT_REASON_BEGIN_STRING] = "incorrect BeginString",
        [TAUT_REASON_TOO_BIG] = "message larger than the limit",
        [TAUT_REASON_STORE] = "the store failed",
        [TAUT_REASON_OVERFLOW] = "the outbox is too small",
        [TAUT_REASON_DISCONNECTED] = "the connection ended",
        [TAUT_REASON_GAP] = "no answer to ResendRequest",
    };
    return reason < sizeof texts / sizeof texts[0] ? texts[reason] : "unknown";
}

size_t taut_session_footprint(void)
{
    return (sizeof(struct taut_session) + SESSION_ALIGN - 1) / SESSION_ALIGN * SESSION_ALIGN;
}

static int copy_comp_id(char *to, uint32_t *length, const char *from, const char *field,
                        struct taut_err *err)
{
    size_t bytes = from ? strnlen(from, TAUT__COMP_ID_MAX + 1) : 0;
    if (bytes == 0 || bytes > TAUT__COMP_ID_MAX)
        return taut_err_set(err, TAUT_EINVAL, "%s must have 1 to %u bytes", field,
                            TAUT__COMP_ID_MAX);
    if (memchr(from, TAUT_SOH, bytes))
        return taut_err_set(err, TAUT_EINVAL, "%s contains an SOH", field);
    memcpy(to, from, bytes);
    to[bytes] = 0;
    *length = (uint32_t)bytes;
    return 0;
}

static const struct taut__options_kind config_kind =
    TAUT__OPTIONS_KIND(struct taut_session_config, store, target_comp_id, "session config");

const struct taut__options_kind taut__session_store_kind =
    TAUT__OPTIONS_KIND(struct taut_session_store, sync, fetch, "session store");

int taut__session_config_take(struct taut_session_config *whole, const void *given,
                              struct taut_err *err)
{
    return taut__options_take(&config_kind, whole, given, err);
}

size_t taut__session_config_size(const struct taut_session_config *accepted)
{
    return taut__options_given(&config_kind, accepted->size);
}

static int check_config(const struct taut_session_config *config, struct taut_err *err)
{
    if (config->store) {
        int code = taut__options_take(&taut__session_store_kind, NULL, config->store, err);
        if (code)
            return code;
    }
    if (config->role > TAUT_INITIATOR)
        return taut_err_set(err, TAUT_EINVAL, "role %u is unknown", config->role);
    if (config->version >= VERSIONS)
        return taut_err_set(err, TAUT_EINVAL, "version %u is unknown", config->version);
    if (config->version != TAUT_FIX_4_4 && config->version != TAUT_FIX_4_3 &&
        config->version != TAUT_FIX_4_2)
        return taut_err_set(err, TAUT_ENOTSUP, "version %s is not supported yet",
                            version_texts[config->version]);
    if (config->time_digits != 0 && config->time_digits != 3 && config->time_digits != 6 &&
        config->time_digits != 9)
        return taut_err_set(err, TAUT_EINVAL, "time_digits is %u, not 3, 6 or 9",
                            config->time_digits);
    if (config->heartbeat_max_s && config->heartbeat_min_s > config->heartbeat_max_s)
        return taut_err_set(err, TAUT_EINVAL, "heartbeat_min_s %u is above heartbeat_max_s %u",
                            config->heartbeat_min_s, config->heartbeat_max_s);
    if (config->next_in > TAUT__SEQ_MAX)
        return taut_err_set(err, TAUT_EINVAL, "next_in has more than 18 digits");
    if (config->next_out > TAUT__SEQ_MAX)
        return taut_err_set(err, TAUT_EINVAL, "next_out has more than 18 digits");
    return 0;
}

int taut_session_init(struct taut_session **session, void *memory, size_t size,
                      const struct taut_session_config *given, struct taut_err *err)
{
    struct taut_session_config whole;
    const struct taut_session_config *config = &whole;
    *session = NULL;
    int code = taut__session_config_take(&whole, given, err);
    if (code)
        return code;
    if (!memory || size < taut_session_footprint())
        return taut_err_set(err, TAUT_ENOMEM, "memory of %zu bytes is too small, %zu are wanted",
                            size, taut_session_footprint());
    if ((uintptr_t)memory % SESSION_ALIGN)
        return taut_err_set(err, TAUT_EINVAL, "memory is not aligned to %u", SESSION_ALIGN);
    code = check_config(config, err);
    if (code)
        return code;

    struct taut_session *s = memory;
    memset(s, 0, sizeof *s);
    code =
        copy_comp_id(s->sender, &s->sender_length, config->sender_comp_id, "sender_comp_id", err);
    if (code == 0)
        code = copy_comp_id(s->target, &s->target_length, config->target_comp_id, "target_comp_id",
                            err);
    if (code)
        return code;
    s->role = config->role;
    s->version = config->version;
    s->begin_string_length = (uint32_t)strlen(version_texts[s->version]);
    memcpy(s->begin_string, version_texts[s->version], s->begin_string_length);
    s->asked_s = config->heartbeat_s == 0            ? 30
                 : config->heartbeat_s == UINT32_MAX ? 0
                                                     : config->heartbeat_s;
    s->heartbeat_min_s = config->heartbeat_min_s;
    s->heartbeat_max_s = config->heartbeat_max_s;
    s->reset_on_logon = config->reset_on_logon != 0;
    s->tolerance_s = config->sending_time_tolerance_s ? config->sending_time_tolerance_s : 120;
    s->time_digits = config->time_digits ? config->time_digits : 3;
    s->logon_timeout_ns = config->logon_timeout_ns ? config->logon_timeout_ns : 10 * TAUT_NS_PER_S;
    s->logout_timeout_ns =
        config->logout_timeout_ns ? config->logout_timeout_ns : 2 * TAUT_NS_PER_S;
    s->next_in = config->next_in ? config->next_in : 1;
    s->next_out = config->next_out ? config->next_out : 1;
    s->store = config->store;
    taut__session_header_init(s);
    *session = s;
    return 0;
}

/* --- shared by the files of the session --------------------------------------------------------
 */

void taut__session_close(struct taut_session *s, uint32_t reason)
{
    if (s->state == TAUT__CLOSING || s->state == TAUT__DISCONNECTED)
        return;
    s->state = TAUT__CLOSING;
    if (s->reason == TAUT_REASON_NONE)
        s->reason = reason;
    s->replay_next = s->replay_run = 0;
    s->gap_end = 0;
    s->events &= ~(uint32_t)TAUT_SESSION_PUMP;
    s->events |= TAUT_SESSION_CLOSE;
    if (s->online)
        s->events |= TAUT_SESSION_LOGGED_OUT;
    s->online = 0;
}

void taut__session_await_logout(struct taut_session *s, uint32_t reason, uint32_t failing,
                                struct taut_moment now)
{
    if (s->state != TAUT__ACTIVE)
        return; /* sending the Logout closed the session */
    s->state = TAUT__LOGOUT_WAIT;
    s->reason = reason;
    s->failing = failing;
    s->wait_deadline_ns = taut_deadline_ns(now.now_ns, s->logout_timeout_ns);
    s->gap_end = 0;
    if (failing)
        s->replay_next = s->replay_run = 0;
}

int taut__session_advance(struct taut_session *s, uint64_t next, uint64_t now_ns)
{
    if (s->store && s->store->received) {
        int code = s->store->received(s->store->context, next);
        if (code) {
            taut__session_close(s, TAUT_REASON_STORE);
            s->reason = TAUT_REASON_STORE;
            return code;
        }
    }
    s->next_in = next;
    if (s->gap_end) {
        s->gap_asked = 1; /* progress: the count of vain requests starts again */
        s->gap_deadline_ns =
            taut_deadline_ns(now_ns, s->heartbeat_ns ? s->heartbeat_ns : 30 * TAUT_NS_PER_S);
        if (next > s->gap_end)
            s->gap_end = 0;
    }
    return 0;
}

int taut__session_reset(struct taut_session *s)
{
    if (s->store && s->store->reset) {
        int code = s->store->reset(s->store->context);
        if (code) {
            taut__session_close(s, TAUT_REASON_STORE);
            s->reason = TAUT_REASON_STORE;
            return code;
        }
    }
    s->next_in = s->next_out = 1;
    s->gap_end = 0;
    s->asked_from = s->asked_high = 0;
    s->replay_next = s->replay_run = 0;
    s->events |= TAUT_SESSION_RESET;
    return 0;
}

/* --- connections ------------------------------------------------------------------------------ */

uint32_t taut_session_connected(struct taut_session *s, struct taut_moment now,
                                struct taut_outbox *out)
{
    if (s->state != TAUT__DISCONNECTED)
        return TAUT_SESSION_CLOSE; /* the new one; the session and its connection go on */
    s->state = TAUT__LOGON_WAIT;
    s->events = 0;
    s->reason = TAUT_REASON_NONE;
    s->failing = 0;
    s->heartbeat_s = 0;
    s->heartbeat_ns = 0;
    s->test_request_open = 0;
    s->gap_end = 0;
    s->asked_from = s->asked_high = 0;
    s->replay_next = s->replay_run = 0;
    s->seen_set = 0;
    s->begun_at = NULL;
    s->last_received_ns = s->last_sent_ns = now.now_ns;
    s->wait_deadline_ns = taut_deadline_ns(now.now_ns, s->logon_timeout_ns);
    if (s->role == TAUT_INITIATOR) {
        s->heartbeat_s = s->asked_s;
        if (!s->reset_on_logon || taut__session_reset(s) == 0)
            (void)taut__session_send_logon(s, now, out, s->reset_on_logon);
    }
    return taut__session_take(s);
}

uint32_t taut_session_disconnected(struct taut_session *s, struct taut_moment now)
{
    (void)now;
    taut__session_close(s, TAUT_REASON_DISCONNECTED);
    s->state = TAUT__DISCONNECTED;
    return taut__session_take(s) & ~(uint32_t)TAUT_SESSION_CLOSE;
}

uint32_t taut_session_handled(struct taut_session *s)
{
    TAUT_CHECK(s->handling);
    s->handling = 0;
    /* Where an answer could not be stored the message counts as not handled: it comes again. */
    if (s->reason != TAUT_REASON_STORE)
        (void)taut__session_advance(s, s->handling_seq + 1, s->last_received_ns);
    return taut__session_take(s);
}

uint32_t taut_session_garbled(struct taut_session *s, uint32_t reason, struct taut_moment now,
                              struct taut_outbox *out)
{
    (void)reason, (void)now, (void)out;
    s->stats.garbled++;
    if (s->state == TAUT__LOGON_WAIT)
        taut__session_close(s, TAUT_REASON_BAD_LOGON);
    return taut__session_take(s) | TAUT_SESSION_IGNORED;
}

uint32_t taut_session_too_big(struct taut_session *s, struct taut_moment now,
                              struct taut_outbox *out)
{
    s->stats.garbled++;
    if (s->state == TAUT__ACTIVE)
        (void)taut__session_send_logout(s, now, out, "Message size exceeds the limit");
    taut__session_close(s, TAUT_REASON_TOO_BIG);
    return taut__session_take(s) | TAUT_SESSION_IGNORED;
}

uint32_t taut_session_logout(struct taut_session *s, const char *text, struct taut_moment now,
                             struct taut_outbox *out)
{
    if (s->state == TAUT__LOGON_WAIT)
        taut__session_close(s, TAUT_REASON_OWN_LOGOUT);
    if (s->state == TAUT__ACTIVE && taut__session_send_logout(s, now, out, text) == 0)
        taut__session_await_logout(s, TAUT_REASON_OWN_LOGOUT, 0, now);
    return taut__session_take(s);
}

uint32_t taut_session_pump(struct taut_session *s, struct taut_moment now, struct taut_outbox *out)
{
    taut__session_replay(s, now, out);
    return taut__session_take(s);
}

uint32_t taut_session_drain(struct taut_session *s, struct taut_moment now, struct taut_outbox *out,
                            const struct taut_message **message)
{
    (void)now, (void)out;
    *message = NULL;
    return taut__session_take(s);
}

/* --- the owner's messages --------------------------------------------------------------------- */

int taut_session_begin(struct taut_session *s, struct taut_moment now, const char *type,
                       struct taut_outbox *out, struct taut_encoder *encoder)
{
    if (s->state != TAUT__ACTIVE)
        return TAUT_ESTATE;
    size_t length = strnlen(type, TAUT__TYPE_MAX + 1);
    if (length == 0 || length > TAUT__TYPE_MAX ||
        (length == 1 && taut__session_is_admin((uint8_t)type[0])))
        return TAUT_EINVAL;
    taut__session_place(s, out, encoder);
    int code =
        taut__session_header(s, encoder, now.utc_ns, type, (uint32_t)length, s->next_out, NULL, 0);
    s->begun_seq = s->next_out;
    s->begun_ns = now.now_ns;
    s->begun_at = encoder->buffer;
    return code;
}

int taut_session_commit(struct taut_session *s, struct taut_outbox *out,
                        struct taut_encoder *encoder)
{
    uint8_t *message;
    uint32_t length;
    /* The number and the place were taken at begin: nothing may have come between. */
    if (s->state != TAUT__ACTIVE || s->begun_seq != s->next_out || !s->begun_at ||
        s->begun_at != out->data + out->length || s->begun_at != encoder->buffer)
        return TAUT_ESTATE;
    s->begun_at = NULL;
    int code = taut__session_complete(s, out, encoder, &message, &length);
    if (code)
        return code;
    code = taut__session_append(s, out, message, length, 0, s->begun_ns);
    if (code == 0)
        s->stats.sent_app++;
    return code;
}

int taut_session_reject(struct taut_session *s, const struct taut_message *message, uint32_t reason,
                        uint32_t ref_tag, struct taut_moment now, struct taut_outbox *out)
{
    if (reason != TAUT__REJECT_REQUIRED &&
        (reason < TAUT__REJECT_EMPTY || reason > TAUT__REJECT_FORMAT))
        return TAUT_EINVAL;
    if (s->state != TAUT__ACTIVE || !s->handling)
        return TAUT_ESTATE;
    struct taut__received r = {.message = message, .now = now, .out = out, .seq = s->handling_seq};
    return taut__session_send_reject(s, &r, reason, ref_tag);
}

/* --- what can be asked ------------------------------------------------------------------------ */

int taut_session_logged_on(const struct taut_session *s)
{
    return s->state == TAUT__ACTIVE;
}

uint32_t taut_session_reason(const struct taut_session *s)
{
    return s->reason;
}

uint64_t taut_session_next_in(const struct taut_session *s)
{
    return s->next_in;
}

uint64_t taut_session_next_out(const struct taut_session *s)
{
    return s->next_out;
}

const char *taut_session_sender(const struct taut_session *s)
{
    return s->sender;
}

const char *taut_session_target(const struct taut_session *s)
{
    return s->target;
}

uint32_t taut_session_heartbeat_s(const struct taut_session *s)
{
    return s->heartbeat_s;
}

void taut_session_stats(const struct taut_session *s, struct taut_session_stats *stats)
{
    *stats = s->stats;
}
