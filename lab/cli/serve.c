/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/serve.c - `taut serve`: the FIX gateway alone.
 *
 * Says "listening on HOST:PORT" on stdout when connections are accepted, a line of statistics on
 * stderr every ten seconds, and a summary on stdout at the end. SIGINT, SIGTERM and SIGHUP end it
 * in order: sessions are logged out, and the exit code is 0. A second signal ends the waiting for
 * peers.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <taut/taut.h>

#include "base/check.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "report/table.h"

#define DEFAULT_PORT 9880u
#define LINE_EVERY_S 10

#define NOT_GIVEN UINT64_MAX /* no duration on a command line is as long */

struct serve {
    const char *config, *host, *shape, *port_kind, *cpus, *handler, *sender;
    uint32_t port_number, workers, connections, sessions, max_message, send_queue;
    uint64_t logon_timeout_ns, slow_consumer_ns, stop_timeout_ns;
    int busy_poll, any_target, strict, check, quiet, json;
    struct settings settings;
    struct taut_cpuset cpuset;
    struct taut_log log;
    struct taut_gateway_options gateway;
    uint64_t start_ns;
};

/* --- from options to a gateway --------------------------------------------------------------- */

/* LOAD0001 ...: the sessions of `taut load`. */
static int make_sessions(const struct cli_command *command, struct serve *s, uint32_t count)
{
    struct settings *settings = &s->settings;
    settings->text = calloc(count, 16);
    settings->sessions = calloc(count, sizeof(*settings->sessions));
    if (!settings->text || !settings->sessions)
        return cli_fail(command, EXIT_INTERNAL, "no memory for %u sessions", count);
    for (uint32_t i = 0; i < count; i++) {
        char *target = settings->text + 16 * (size_t)i;
        snprintf(target, 16, "LOAD%04u", i + 1);
        settings->sessions[i] = (struct taut_session_config){
            .size = sizeof(settings->sessions[i]),
            .version = TAUT_FIX_4_4,
            .sender_comp_id = s->sender,
            .target_comp_id = target,
        };
    }
    settings->session_count = count;
    return -1;
}

static int name_error(const struct cli_command *command, const char *option, const char *value,
                      const char *known)
{
    return cli_fail(command, EXIT_BAD_VALUE, "--%s: '%.100s' is none of: %s", option, value, known);
}

static int read_names(const struct cli_command *command, struct serve *s)
{
    int shape = taut_shape_from(s->shape), kind = taut_port_kind_from(s->port_kind);
    if (shape < 0)
        return name_error(command, "shape", s->shape, "single, owned");
    if (kind < 0)
        return name_error(command, "port-kind", s->port_kind, "epoll");
    s->gateway.shape = (uint32_t)shape;
    s->gateway.port_kind = (uint32_t)kind;
    s->gateway.handler = taut_handler_named(s->handler);
    if (!s->gateway.handler)
        return name_error(command, "handler", s->handler, "fill, echo");
    if (s->cpus) {
        taut_cpuset_parse(&s->cpuset, s->cpus, NULL); /* was checked with the option */
        s->gateway.cpus = &s->cpuset;
    }
    return -1;
}

static int read_sessions(const struct cli_command *command, struct serve *s)
{
    if (s->config && (s->sessions || s->sender))
        return cli_fail(command, EXIT_USAGE, "--config and --%s exclude each other",
                        s->sessions ? "sessions" : "sender");
    if (s->config)
        return settings_read(command, s->config, s->strict, &s->settings);
    if (!s->sender)
        s->sender = "TAUT";
    if (strlen(s->sender) == 0 || strlen(s->sender) > 63)
        return cli_fail(command, EXIT_BAD_VALUE, "--sender: a CompID has 1 to 63 bytes");
    if (s->sessions == 0)
        s->any_target = 1; /* nobody was named: whoever asks for the sender */
    s->settings.port_number = UINT32_MAX;
    return make_sessions(command, s, s->sessions ? s->sessions : 1);
}

/* The command line over the settings file over the defaults. */
static void merge(struct serve *s)
{
    struct taut_gateway_options *g = &s->gateway;
    uint32_t port_number = s->port_number != UINT32_MAX            ? s->port_number
                           : s->settings.port_number != UINT32_MAX ? s->settings.port_number
                                                                   : DEFAULT_PORT;
    g->size = sizeof(*g);
    g->host = s->host ? s->host : s->settings.host;
    g->port_number = (uint16_t)port_number;
    g->workers = s->workers;
    g->busy_poll = (uint32_t)s->busy_poll;
    g->connections = s->connections;
    g->message_bytes = s->max_message;
    g->send_queue_bytes = s->send_queue;
    g->slow_consumer_ns = s->slow_consumer_ns;
    g->logon_timeout_ns = s->logon_timeout_ns ? s->logon_timeout_ns : s->settings.logon_timeout_ns;
    g->sessions = s->settings.sessions;
    g->session_count = s->settings.session_count;
    g->any_target = (uint32_t)s->any_target;
    for (uint32_t i = 0; i < g->session_count; i++) /* a session must not give up before the stop */
        if (s->stop_timeout_ns != NOT_GIVEN)
            s->settings.sessions[i].logout_timeout_ns = s->stop_timeout_ns;
    if (s->stop_timeout_ns == NOT_GIVEN)
        s->stop_timeout_ns = 2 * TAUT_NS_PER_S;
    if (!g->connections && g->session_count > 1024)
        g->connections = g->session_count;
    g->log = &s->log;
}

/* --- what it says ---------------------------------------------------------------------------- */

static void print_line(const struct taut_gateway *gateway, struct taut_gateway_stats *last)
{
    struct taut_gateway_stats now;
    char in[FORMAT_BYTES], out[FORMAT_BYTES];
    uint64_t interval_ns = LINE_EVERY_S * TAUT_NS_PER_S;
    taut_gateway_stats(gateway, UINT32_MAX, &now);
    uint64_t cpu_ns = now.cpu_ns - last->cpu_ns;
    fprintf(stderr,
            "connections %" PRIu64 ", in %s, out %s, garbled %" PRIu64 ", slow %" PRIu64
            ", cpu %" PRIu64 " %%\n",
            now.connections, format_rate(in, now.messages_in - last->messages_in, interval_ns),
            format_rate(out, now.messages_out - last->messages_out, interval_ns), now.garbled,
            now.slow_closed, cpu_ns / (interval_ns / 100));
    *last = now;
}

static void add_row(struct table *table, const char *name, const struct taut_gateway_stats *stats)
{
    char number[FORMAT_BYTES];
    table_cell(table, "%s", name);
    table_cell(table, "%s", format_count(number, stats->accepted));
    table_cell(table, "%s", format_count(number, stats->logons));
    table_cell(table, "%s", format_count(number, stats->messages_in));
    table_cell(table, "%s", format_count(number, stats->messages_out));
    table_cell(table, "%s", format_bytes(number, stats->bytes_in));
    table_cell(table, "%s", format_bytes(number, stats->bytes_out));
    table_cell(table, "%s", format_count(number, stats->garbled));
    table_cell(table, "%s", format_count(number, stats->rejected));
    table_cell(table, "%s", format_count(number, stats->slow_closed));
    table_cell(table, "%s", format_bytes(number, stats->bytes_assembled));
    table_cell(table, "%s", format_duration(number, stats->cpu_ns));
    if (stats->cpu_bound >= 0)
        table_cell(table, "%d", stats->cpu_bound);
    else
        table_cell(table, "-");
}

static void print_table(const struct taut_gateway *gateway)
{
    static const struct table_column columns[] = {
        {"worker", TABLE_LEFT},     {"connections", TABLE_RIGHT}, {"logons", TABLE_RIGHT},
        {"in", TABLE_RIGHT},        {"out", TABLE_RIGHT},         {"bytes in", TABLE_RIGHT},
        {"bytes out", TABLE_RIGHT}, {"garbled", TABLE_RIGHT},     {"rejected", TABLE_RIGHT},
        {"slow", TABLE_RIGHT},      {"assembled", TABLE_RIGHT},   {"cpu", TABLE_RIGHT},
        {"bound to", TABLE_RIGHT}};
    struct taut_gateway_stats stats;
    struct table *table;
    uint32_t workers = taut_gateway_workers(gateway);
    if (table_create(&table, columns, sizeof(columns) / sizeof(columns[0])) != 0)
        return;
    for (uint32_t i = 0; i < workers; i++) {
        char name[16];
        taut_gateway_stats(gateway, i, &stats);
        snprintf(name, sizeof(name), "%u", i);
        add_row(table, name, &stats);
    }
    if (workers > 1) {
        taut_gateway_stats(gateway, UINT32_MAX, &stats);
        table_rule(table);
        add_row(table, "all", &stats);
    }
    table_print(table, stdout, NULL);
    table_destroy(table);
}

static void put(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *counters(const struct taut_gateway_stats *stats)
{
    json_t *o = json_object();
    put(o, "accepted", stats->accepted);
    put(o, "closed", stats->closed);
    put(o, "refused", stats->refused);
    put(o, "logons", stats->logons);
    put(o, "logouts", stats->logouts);
    put(o, "bad_logons", stats->bad_logons);
    put(o, "duplicate_logons", stats->duplicate_logons);
    put(o, "logon_timeouts", stats->logon_timeouts);
    put(o, "messages_in", stats->messages_in);
    put(o, "messages_out", stats->messages_out);
    put(o, "app_in", stats->app_in);
    put(o, "app_out", stats->app_out);
    put(o, "bytes_in", stats->bytes_in);
    put(o, "bytes_out", stats->bytes_out);
    put(o, "garbled", stats->garbled);
    put(o, "too_big", stats->too_big);
    put(o, "rejected", stats->rejected);
    put(o, "bytes_assembled", stats->bytes_assembled);
    put(o, "bytes_held", stats->bytes_held);
    put(o, "pauses", stats->pauses);
    put(o, "sends", stats->sends);
    put(o, "sends_short", stats->sends_short);
    put(o, "send_queue_peak", stats->send_queue_peak);
    put(o, "slow_closed", stats->slow_closed);
    put(o, "cut", stats->cut);
    put(o, "connections_peak", stats->connections_peak);
    put(o, "cpu_ns", stats->cpu_ns);
    return o;
}

static void print_json(const struct serve *s, const struct taut_gateway *gateway)
{
    struct taut_gateway_options effective = {.size = sizeof effective};
    struct taut_gateway_stats stats;
    json_t *root = json_object(), *workers = json_array();
    TAUT_CHECK(taut_gateway_effective(gateway, &effective) == 0);
    json_object_set_new(root, "host", json_string(effective.host));
    put(root, "port", effective.port_number);
    json_object_set_new(root, "shape", json_string(taut_shape_name(effective.shape)));
    json_object_set_new(root, "port_kind", json_string(taut_port_kind_name(effective.port_kind)));
    json_object_set_new(root, "busy_poll", json_boolean(effective.busy_poll));
    json_object_set_new(root, "handler", json_string(effective.handler->name));
    json_object_set_new(root, "scan", json_string(taut_scan_name(effective.scan_variant)));
    put(root, "sessions", effective.session_count);
    put(root, "elapsed_ns", taut_now_ns() - s->start_ns);
    taut_gateway_stats(gateway, UINT32_MAX, &stats);
    json_object_set_new(root, "total", counters(&stats));
    for (uint32_t i = 0; i < effective.workers; i++) {
        taut_gateway_stats(gateway, i, &stats);
        json_t *one = counters(&stats);
        put(one, "worker", i);
        put(one, "tid", stats.tid);
        json_object_set_new(one, "cpu_bound",
                            stats.cpu_bound >= 0 ? json_integer(stats.cpu_bound) : json_null());
        json_array_append_new(workers, one);
    }
    json_object_set_new(root, "workers", workers);
    json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}

/* --- running --------------------------------------------------------------------------------- */

static void wait_for_signal(const struct serve *s, const struct taut_gateway *gateway,
                            const sigset_t *signals)
{
    struct taut_gateway_stats last = {0};
    for (;;) {
        struct timespec interval = {.tv_sec = LINE_EVERY_S};
        int signal = sigtimedwait(signals, NULL, &interval);
        if (signal > 0)
            return;
        if (errno == EAGAIN && !s->quiet)
            print_line(gateway, &last);
    }
}

struct impatience {
    struct taut_gateway *gateway;
    const sigset_t *signals;
    _Atomic uint32_t over;
};

/* A thread while the gateway stops: a second signal ends the waiting for peers. */
static void *second_signal(void *argument)
{
    struct impatience *i = argument;
    for (;;) {
        int signal = sigwaitinfo(i->signals, NULL);
        /* pairs with the release store in stop(), which sends a signal to this thread alone */
        if (atomic_load_explicit(&i->over, memory_order_acquire))
            return NULL;
        if (signal > 0)
            taut_gateway_cut(i->gateway);
    }
}

/* Peers get stop_timeout_ns to answer the Logout, unless a second signal comes. */
static void stop(const struct serve *s, struct taut_gateway *gateway, const sigset_t *signals)
{
    struct impatience impatience = {.gateway = gateway, .signals = signals};
    pthread_t thread;
    int watched = pthread_create(&thread, NULL, second_signal, &impatience) == 0;
    int code = taut_gateway_stop(gateway, taut_deadline_ns(taut_now_ns(), s->stop_timeout_ns));
    atomic_store_explicit(&impatience.over, 1, memory_order_release); /* with second_signal() */
    if (watched) {
        /* One of `signals`: blocked in all threads, and awaited in this one; nobody dies of it. */
        pthread_kill(thread, SIGTERM); /* NOLINT(bugprone-bad-signal-to-kill-thread,cert-pos44-c) */
        pthread_join(thread, NULL);
    }
    if (code == 0)
        return;
    struct taut_gateway_stats stats;
    taut_gateway_stats(gateway, UINT32_MAX, &stats);
    if (!s->quiet)
        fprintf(stderr, "%" PRIu64 " sessions did not answer the Logout and were cut\n", stats.cut);
}

/* The exit code for what create or start refused: whose fault it is decides. */
static int refused(const struct cli_command *command, const struct serve *s,
                   const struct taut_err *err)
{
    const char *text = err->text[0] ? err->text : taut_code_text(err->code);
    switch (err->code) {
    case TAUT_ENOENT: /* a host name */
        return cli_fail(command, EXIT_ADDRESS, "%s", text);
    case TAUT_EINVAL:
    case TAUT_ENOTSUP:
        if (s->config)
            return cli_fail(command, EXIT_BAD_KEY, "%s: %s", s->config, text);
        return cli_fail(command, EXIT_BAD_VALUE, "%s", text);
    default:
        return cli_fail_err(command, err);
    }
}

static int run(const struct cli_command *command, struct serve *s)
{
    struct taut_gateway *gateway = NULL;
    struct taut_gateway_options effective = {.size = sizeof effective};
    struct taut_err err = {0};
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before any thread is there */
    int code = taut_gateway_create(&gateway, &s->gateway, &err);
    if (code == 0 && !s->check)
        code = taut_gateway_start(gateway, &err);
    if (code) {
        err.code = code;
        taut_gateway_destroy(gateway);
        return refused(command, s, &err);
    }
    TAUT_CHECK(taut_gateway_effective(gateway, &effective) == 0);
    if (s->check) {
        printf("%u %s, %s:%u\n", effective.session_count,
               effective.session_count == 1 ? "session" : "sessions", effective.host,
               effective.port_number);
        taut_gateway_destroy(gateway);
        return cli_finish(command, EXIT_OK);
    }
    printf("listening on %s:%u\n", effective.host, effective.port_number);
    code = cli_finish(command, EXIT_OK);
    if (code == EXIT_OK) {
        s->start_ns = taut_now_ns();
        wait_for_signal(s, gateway, &signals);
    }
    stop(s, gateway, &signals);
    if (s->json)
        print_json(s, gateway);
    else if (!s->quiet)
        print_table(gateway);
    taut_gateway_destroy(gateway);
    return code == EXIT_OK ? cli_finish(command, EXIT_OK) : code;
}

int cmd_serve(int argc, char **argv)
{
    struct serve s = {.shape = "single",
                      .port_kind = "epoll",
                      .handler = "fill",
                      .port_number = UINT32_MAX,
                      .stop_timeout_ns = NOT_GIVEN,
                      .log = {.fd = 2, .level = TAUT_LOG_WARNING, .program = "taut serve"}};
    const struct cli_option options[] = {
        {"config", CLI_STRING, &s.config, "FILE", "settings file, QuickFIX style", 0, 0, 'c'},
        {"host", CLI_STRING, &s.host, "HOST", "address to listen on; default 127.0.0.1", 0, 0, 0},
        {"port", CLI_U32, &s.port_number, "N", "TCP port, 0 = any free one; default 9880", 0, 65535,
         'p'},
        {"shape", CLI_STRING, &s.shape, "NAME", "single (default) or owned", 0, 0, 0},
        {"workers", CLI_U32, &s.workers, "N", "threads of shape owned; default: CPUs less one", 1,
         64, 'w'},
        {"port-kind", CLI_STRING, &s.port_kind, "NAME", "epoll", 0, 0, 0},
        {"busy-poll", CLI_FLAG, &s.busy_poll, NULL, "workers never sleep", 0, 0, 0},
        {"cpus", CLI_CPUS, &s.cpus, "LIST", "bind worker i to the i-th of these CPUs", 0, 0, 0},
        {"handler", CLI_STRING, &s.handler, "NAME", "fill (default) or echo", 0, 0, 0},
        {"sender", CLI_STRING, &s.sender, "ID", "our CompID; default TAUT", 0, 0, 0},
        {"sessions", CLI_U32, &s.sessions, "N", "accept LOAD0001 .. N; default: anybody", 1, 100000,
         's'},
        {"any-target", CLI_FLAG, &s.any_target, NULL, "accept any CompID that asks for ours", 0, 0,
         0},
        {"connections", CLI_U32, &s.connections, "N", "most at a time; default 1024", 1, 1000000,
         0},
        {"logon-timeout", CLI_DURATION, &s.logon_timeout_ns, "TIME",
         "connect to complete Logon; default 5s", 0, 0, 0},
        {"max-message", CLI_U32, &s.max_message, "BYTES", "longest message; default 65536", 512,
         16u << 20, 0},
        {"send-queue", CLI_U32, &s.send_queue, "BYTES", "unsent bytes a peer may have; 1048576",
         4096, 256u << 20, 0},
        {"slow-consumer", CLI_DURATION, &s.slow_consumer_ns, "TIME",
         "how long a byte may be unsent; default 10s", 0, 0, 0},
        {"stop-timeout", CLI_DURATION, &s.stop_timeout_ns, "TIME",
         "how long peers may take to log out; default 2s", 0, 0, 0},
        {"strict", CLI_FLAG, &s.strict, NULL, "an unknown key of the file is an error", 0, 0, 0},
        {"check", CLI_FLAG, &s.check, NULL, "check options and file, then end", 0, 0, 0},
        {"quiet", CLI_FLAG, &s.quiet, NULL, "no statistics, no summary", 0, 0, 'q'},
        {"json", CLI_FLAG, &s.json, NULL, "summary as one JSON object", 0, 0, 0},
    };
    const struct cli_command command = {
        "serve", "the FIX gateway alone", "", options, sizeof(options) / sizeof(options[0]), 0, 0};
    int arguments = 0;
    int code = cli_parse(&command, argc, argv, &arguments);
    if (code >= 0)
        return code;
    code = read_names(&command, &s);
    if (code < 0)
        code = read_sessions(&command, &s);
    if (code < 0) {
        merge(&s);
        code = run(&command, &s);
    }
    settings_free(&s.settings);
    return code;
}
