/* SPDX-License-Identifier: BSD-2-Clause */
/* cli/settings.c - reads a QuickFIX-style settings file in one pass; see settings.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <taut/clock.h>
#include <taut/number.h>

#include "cli/settings.h"

#define FILE_MAX     (16u << 20)
#define SESSIONS_MAX 100000u

enum key {
    KEY_BEGIN_STRING,
    KEY_SENDER,
    KEY_TARGET,
    KEY_CONNECTION_TYPE,
    KEY_PORT,
    KEY_HOST,
    KEY_RESET_ON_LOGON,
    KEY_LOGON_TIMEOUT,
    KEY_LOGOUT_TIMEOUT,
    KEY_CHECK_LATENCY,
    KEY_MAX_LATENCY,
    KEY_PRECISION,
    KEY_APPL_VERSION,
    KEY_SILENT,    /* from here on not kept: has no meaning for an acceptor */
    KEY_NO_EFFECT, /* known, but Taut does not act on it yet: said once */
    KEY_UNKNOWN
};
#define KEYS KEY_SILENT

static const struct {
    const char *name;
    enum key key;
} names[] = {
    {"BeginString", KEY_BEGIN_STRING},
    {"SenderCompID", KEY_SENDER},
    {"TargetCompID", KEY_TARGET},
    {"ConnectionType", KEY_CONNECTION_TYPE},
    {"SocketAcceptPort", KEY_PORT},
    {"SocketAcceptHost", KEY_HOST},
    {"SocketAcceptAddress", KEY_HOST},
    {"ResetOnLogon", KEY_RESET_ON_LOGON},
    {"LogonTimeout", KEY_LOGON_TIMEOUT},
    {"LogoutTimeout", KEY_LOGOUT_TIMEOUT},
    {"CheckLatency", KEY_CHECK_LATENCY},
    {"MaxLatency", KEY_MAX_LATENCY},
    {"TimestampPrecision", KEY_PRECISION},
    {"DefaultApplVerID", KEY_APPL_VERSION},
    {"HeartBtInt", KEY_SILENT}, /* an acceptor takes the peer's */
    {"ReconnectInterval", KEY_SILENT},
    {"SocketConnectHost", KEY_SILENT},
    {"SocketConnectPort", KEY_SILENT},
    {"SocketReuseAddress", KEY_SILENT}, /* always */
    {"SocketNodelay", KEY_SILENT},      /* always */
    {"Description", KEY_SILENT},
    {"SessionQualifier", KEY_NO_EFFECT},
    {"StartTime", KEY_NO_EFFECT},
    {"EndTime", KEY_NO_EFFECT},
    {"StartDay", KEY_NO_EFFECT},
    {"EndDay", KEY_NO_EFFECT},
    {"NonStopSession", KEY_SILENT}, /* always */
    {"UseLocalTime", KEY_NO_EFFECT},
    {"TimeZone", KEY_NO_EFFECT},
    {"LogonTime", KEY_NO_EFFECT},
    {"LogoutTime", KEY_NO_EFFECT},
    {"LogonDay", KEY_NO_EFFECT},
    {"LogoutDay", KEY_NO_EFFECT},
    {"MillisecondsInTimeStamp", KEY_NO_EFFECT},
    {"UseDataDictionary", KEY_NO_EFFECT},
    {"DataDictionary", KEY_NO_EFFECT},
    {"TransportDataDictionary", KEY_NO_EFFECT},
    {"AppDataDictionary", KEY_NO_EFFECT},
    {"ValidateLengthAndChecksum", KEY_NO_EFFECT},
    {"ValidateFieldsOutOfOrder", KEY_NO_EFFECT},
    {"ValidateFieldsHaveValues", KEY_NO_EFFECT},
    {"ValidateUserDefinedFields", KEY_NO_EFFECT},
    {"AllowUnknownMsgFields", KEY_NO_EFFECT},
    {"PreserveMessageFieldsOrder", KEY_NO_EFFECT},
    {"CheckCompID", KEY_NO_EFFECT},
    {"SendRedundantResendRequests", KEY_NO_EFFECT},
    {"SendNextExpectedMsgSeqNum", KEY_NO_EFFECT},
    {"ResetOnLogout", KEY_NO_EFFECT},
    {"ResetOnDisconnect", KEY_NO_EFFECT},
    {"RefreshOnLogon", KEY_NO_EFFECT},
    {"PersistMessages", KEY_NO_EFFECT},
    {"FileStorePath", KEY_NO_EFFECT},
    {"FileLogPath", KEY_NO_EFFECT},
    {"FileLogBackupPath", KEY_NO_EFFECT},
    {"ScreenLogShowIncoming", KEY_NO_EFFECT},
    {"ScreenLogShowOutgoing", KEY_NO_EFFECT},
    {"ScreenLogShowEvents", KEY_NO_EFFECT},
    {"HttpAcceptPort", KEY_NO_EFFECT},
};
#define NAMES (sizeof(names) / sizeof(names[0]))

struct section {
    char *value[KEYS];
    uint32_t line[KEYS];
};

struct reader {
    const struct cli_command *command;
    const char *path;
    int strict;
    struct settings *settings;
    uint32_t line;
    uint32_t where; /* 0 = in no section, 1 = DEFAULT, 2 = SESSION */
    uint32_t session_line;
    uint32_t capacity;
    struct section defaults, session;
    uint8_t without_effect[NAMES];
};

static int bad(const struct reader *r, uint32_t line, const char *key, const char *value,
               const char *wanted)
{
    return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: %s: '%.100s' is no %s", r->path, line, key,
                    value, wanted);
}

/* --- values ---------------------------------------------------------------------------------- */

static const char *name_of(enum key key)
{
    for (size_t i = 0; i < NAMES; i++)
        if (names[i].key == key)
            return names[i].name;
    return "?";
}

/* The value in effect for the session that was just read, or NULL. */
static const char *effective(const struct reader *r, enum key key, uint32_t *line)
{
    const struct section *from = r->session.value[key] ? &r->session : &r->defaults;
    *line = from->line[key];
    return from->value[key];
}

static int get_number(const struct reader *r, enum key key, uint64_t low, uint64_t high,
                      uint64_t *value, const char *wanted)
{
    uint32_t line;
    uint64_t number;
    const char *text = effective(r, key, &line);
    if (!text)
        return -1;
    if (taut_parse_u64((const uint8_t *)text, strlen(text), &number) != 0 || number < low ||
        number > high)
        return bad(r, line, name_of(key), text, wanted);
    *value = number;
    return -1;
}

static int get_flag(const struct reader *r, enum key key, uint32_t *value)
{
    uint32_t line;
    const char *text = effective(r, key, &line);
    if (!text)
        return -1;
    if (strcasecmp(text, "Y") != 0 && strcasecmp(text, "N") != 0)
        return bad(r, line, name_of(key), text, "Y or N");
    *value = strcasecmp(text, "Y") == 0;
    return -1;
}

static int get_comp_id(const struct reader *r, enum key key, const char **value)
{
    uint32_t line;
    *value = effective(r, key, &line);
    if (!*value)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: the session has no %s", r->path,
                        r->session_line, name_of(key));
    if (strlen(*value) == 0 || strlen(*value) > 63)
        return bad(r, line, name_of(key), *value, "CompID of 1 to 63 bytes");
    return -1;
}

static int get_version(const struct reader *r, uint32_t *version)
{
    uint32_t line;
    const char *text = effective(r, KEY_BEGIN_STRING, &line);
    if (!text)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: the session has no BeginString", r->path,
                        r->session_line);
    int found = taut_fix_version_from((const uint8_t *)text, (uint32_t)strlen(text));
    if (found < 0)
        return bad(r, line, "BeginString", text, "version of FIX");
    *version = (uint32_t)found;
    return -1;
}

/* --- sessions -------------------------------------------------------------------------------- */

/* All sessions share one listener: two ports or hosts can't both be right. */
static int get_address(struct reader *r)
{
    uint64_t number = UINT64_MAX;
    uint32_t line;
    const char *host = effective(r, KEY_HOST, &line);
    if (host && r->settings->host && strcmp(host, r->settings->host) != 0)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: a second host to listen on", r->path,
                        line);
    if (host)
        r->settings->host = host;
    int code = get_number(r, KEY_PORT, 0, 65535, &number, "TCP port");
    if (code >= 0 || number == UINT64_MAX)
        return code;
    effective(r, KEY_PORT, &line);
    if (r->settings->port_number != UINT32_MAX && r->settings->port_number != number)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: a second port to listen on", r->path,
                        line);
    r->settings->port_number = (uint32_t)number;
    return -1;
}

static int get_times(struct reader *r, struct taut_session_config *config)
{
    uint64_t logon_s = 0, logout_s = 0, latency_s = 0, digits = 0;
    uint32_t check_latency = 1, line;
    int code = get_number(r, KEY_LOGON_TIMEOUT, 1, 86400, &logon_s, "number of seconds");
    if (code < 0)
        code = get_number(r, KEY_LOGOUT_TIMEOUT, 1, 86400, &logout_s, "number of seconds");
    if (code < 0)
        code = get_number(r, KEY_MAX_LATENCY, 1, 86400, &latency_s, "number of seconds");
    if (code < 0)
        code = get_number(r, KEY_PRECISION, 3, 9, &digits, "precision (3, 6 or 9)");
    if (code < 0)
        code = get_flag(r, KEY_CHECK_LATENCY, &check_latency);
    if (code < 0 && digits % 3 != 0) {
        const char *text = effective(r, KEY_PRECISION, &line);
        code = bad(r, line, "TimestampPrecision", text, "precision (3, 6 or 9)");
    }
    config->logon_timeout_ns = logon_s * TAUT_NS_PER_S;
    config->logout_timeout_ns = logout_s * TAUT_NS_PER_S;
    config->sending_time_tolerance_s = check_latency ? (uint32_t)latency_s : UINT32_MAX;
    config->time_digits = (uint32_t)digits;
    if (config->logon_timeout_ns > r->settings->logon_timeout_ns)
        r->settings->logon_timeout_ns = config->logon_timeout_ns;
    return code;
}

/* A [SESSION] section is complete. */
static int end_session(struct reader *r)
{
    struct settings *s = r->settings;
    struct taut_session_config config = {.size = sizeof(config), .role = TAUT_ACCEPTOR};
    uint32_t line;
    if (r->where != 2)
        return -1;
    const char *type = effective(r, KEY_CONNECTION_TYPE, &line);
    if (type && strcasecmp(type, "initiator") == 0) {
        cli_warn(r->command, "%s:%u: an initiator session; only acceptors are served", r->path,
                 r->session_line);
        return -1;
    }
    if (type && strcasecmp(type, "acceptor") != 0)
        return bad(r, line, "ConnectionType", type, "acceptor or initiator");
    int code = get_version(r, &config.version);
    if (code < 0)
        code = get_comp_id(r, KEY_SENDER, &config.sender_comp_id);
    if (code < 0)
        code = get_comp_id(r, KEY_TARGET, &config.target_comp_id);
    if (code < 0)
        code = get_flag(r, KEY_RESET_ON_LOGON, &config.reset_on_logon);
    if (code < 0)
        code = get_times(r, &config);
    if (code < 0)
        code = get_address(r);
    if (code >= 0)
        return code;
    config.default_appl_ver_id = effective(r, KEY_APPL_VERSION, &line);
    if (s->session_count == SESSIONS_MAX)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: more than %u sessions", r->path,
                        r->session_line, SESSIONS_MAX);
    if (s->session_count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 16;
        void *more = realloc(s->sessions, r->capacity * sizeof(*s->sessions));
        if (!more)
            return cli_fail(r->command, EXIT_INTERNAL, "%s: no memory", r->path);
        s->sessions = more;
    }
    s->sessions[s->session_count++] = config;
    return -1;
}

/* --- lines ----------------------------------------------------------------------------------- */

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

static int read_section(struct reader *r, char *text)
{
    size_t length = strlen(text);
    if (text[length - 1] != ']')
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: '%.100s' does not end with ']'", r->path,
                        r->line, text);
    int code = end_session(r);
    if (code >= 0)
        return code;
    if (strcasecmp(text, "[DEFAULT]") == 0) {
        r->where = 1;
    } else if (strcasecmp(text, "[SESSION]") == 0) {
        r->where = 2;
        r->session_line = r->line;
        memset(&r->session, 0, sizeof(r->session));
    } else {
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: unknown section '%.100s'", r->path,
                        r->line, text);
    }
    return -1;
}

static int read_key(struct reader *r, char *name, char *value)
{
    size_t i = 0;
    while (i < NAMES && strcasecmp(names[i].name, name) != 0)
        i++;
    enum key key = i < NAMES ? names[i].key : KEY_UNKNOWN;
    if (key == KEY_UNKNOWN && r->strict)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: unknown key '%.100s'", r->path, r->line,
                        name);
    if (key == KEY_UNKNOWN)
        cli_warn(r->command, "%s:%u: unknown key '%.100s'; ignored", r->path, r->line, name);
    if (key == KEY_NO_EFFECT)
        r->without_effect[i] = 1;
    if (key >= KEYS)
        return -1;
    struct section *section = r->where == 1 ? &r->defaults : &r->session;
    if (section->value[key] && r->where == 2)
        cli_warn(r->command, "%s:%u: %s was set in line %u already; this one counts", r->path,
                 r->line, names[i].name, section->line[key]);
    section->value[key] = value;
    section->line[key] = r->line;
    return -1;
}

static int read_line(struct reader *r, char *text)
{
    text = trim(text);
    if (*text == '\0' || *text == '#')
        return -1;
    if (*text == '[')
        return read_section(r, text);
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: '%.100s' is no key=value line", r->path,
                        r->line, text);
    if (r->where == 0)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s:%u: a key before any [SECTION]", r->path,
                        r->line);
    *equals = '\0';
    return read_key(r, trim(text), trim(equals + 1));
}

static void tell_without_effect(const struct reader *r)
{
    char list[800] = "";
    size_t used = 0;
    for (size_t i = 0; i < NAMES; i++) {
        size_t length = strlen(names[i].name);
        if (!r->without_effect[i] || used + length + 3 > sizeof(list))
            continue;
        if (used) {
            memcpy(list + used, ", ", 3);
            used += 2;
        }
        memcpy(list + used, names[i].name, length + 1);
        used += length;
    }
    if (used)
        cli_warn(r->command, "%s: known, but without effect in this version: %s", r->path, list);
}

static int read_lines(struct reader *r, char *text)
{
    char *next = text;
    if (strncmp(next, "\xef\xbb\xbf", 3) == 0) /* a byte-order mark */
        next += 3;
    while (next) {
        char *line = strsep(&next, "\n");
        r->line++;
        int code = read_line(r, line);
        if (code >= 0)
            return code;
    }
    int code = end_session(r);
    if (code >= 0)
        return code;
    tell_without_effect(r);
    if (r->settings->session_count == 0)
        return cli_fail(r->command, EXIT_BAD_KEY, "%s: no acceptor session in it", r->path);
    return -1;
}

/* --- the file -------------------------------------------------------------------------------- */

static int read_file(const struct cli_command *command, const char *path, char **text)
{
    struct stat stat;
    size_t length = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &stat) != 0) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return cli_fail(command, EXIT_NO_FILE, "can't read %s: %s", path, strerror(why));
    }
    if (!S_ISREG(stat.st_mode) || stat.st_size > FILE_MAX) {
        close(fd);
        return cli_fail(command, EXIT_NO_FILE, "can't read %s: %s", path,
                        S_ISREG(stat.st_mode) ? "too large for a settings file" : "no file");
    }
    *text = malloc((size_t)stat.st_size + 1);
    ssize_t n = *text ? 1 : -1;
    while (n > 0 && length < (size_t)stat.st_size) {
        n = read(fd, *text + length, (size_t)stat.st_size - length);
        length += n > 0 ? (size_t)n : 0;
    }
    int why = errno;
    close(fd);
    if (n < 0)
        return cli_fail(command, EXIT_NO_FILE, "can't read %s: %s", path, strerror(why));
    (*text)[length] = '\0';
    if (strlen(*text) != length)
        return cli_fail(command, EXIT_BAD_KEY, "%s: holds a NUL byte, so it is no text", path);
    return -1;
}

int settings_read(const struct cli_command *command, const char *path, int strict,
                  struct settings *settings)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    memset(settings, 0, sizeof(*settings));
    settings->port_number = UINT32_MAX;
    if (!reader)
        return cli_fail(command, EXIT_INTERNAL, "no memory");
    int code = read_file(command, path, &settings->text);
    if (code < 0) {
        reader->command = command;
        reader->path = path;
        reader->strict = strict;
        reader->settings = settings;
        code = read_lines(reader, settings->text);
    }
    free(reader);
    if (code >= 0)
        settings_free(settings);
    return code;
}

void settings_free(struct settings *settings)
{
    free(settings->sessions);
    free(settings->text);
    memset(settings, 0, sizeof(*settings));
}
