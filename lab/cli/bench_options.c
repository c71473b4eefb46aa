/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_options.c - the options that `taut bench pool` and `taut load` share, their defaults
 * and the checks that a table of bounds can't express.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/bench.h"

void bench_defaults(struct bench_options *o)
{
    memset(o, 0, sizeof(*o));
    o->sessions = 32;
    o->runs = 3;
    o->warmup.messages = 20000;
    o->measure.messages = 20000;
    o->port = "epoll";
    o->scan = "auto";
    o->sender = "LOAD";
    o->target = "TAUT";
    o->heartbeat_s = 30;
    o->stall_timeout_ns = 10 * TAUT_NS_PER_S;
    o->logon_timeout_ns = 10 * TAUT_NS_PER_S;
}

uint32_t bench_common_options(struct bench_options *o, struct cli_option *table, uint32_t count)
{
    const struct cli_option common[] = {
        {"sessions", CLI_U32, &o->sessions, "N", "FIX sessions over all processes (32)", 1,
         LOAD_SESSIONS_MAX, 0},
        {"processes", CLI_U32, &o->processes, "N", "client processes (from the machine)", 1,
         LOAD_PROCESSES_MAX, 0},
        {"runs", CLI_U32, &o->runs, "N", "runs, one after the other (3)", 1, LOAD_RUNS_MAX, 0},
        {"warmup", CLI_AMOUNT, &o->warmup, "N|TIME",
         "before measuring: messages a session, or 5s (20000)", 0, 0, 0},
        {"measure", CLI_AMOUNT, &o->measure, "N|TIME", "measured: the same (20000)", 0, 0, 0},
        {"port", CLI_STRING, &o->port, "KIND", "kind of transport: epoll", 0, 0, 0},
        {"busy-poll", CLI_FLAG, &o->busy_poll, NULL, "never sleep in a poll", 0, 0, 0},
        {"unbound", CLI_FLAG, &o->unbound, NULL, "bind nothing to a CPU", 0, 0, 0},
        {"scan", CLI_STRING, &o->scan, "VARIANT", "auto, scalar, swar, avx2, avx512 (auto)", 0, 0,
         0},
        {"stall-timeout", CLI_DURATION, &o->stall_timeout_ns, "TIME",
         "a session without an answer for so long ends the run (10s)", 0, 0, 0},
        {"logon-timeout", CLI_DURATION, &o->logon_timeout_ns, "TIME", "from connect to Logon (10s)",
         0, 0, 0},
        {"out", CLI_STRING, &o->out, "DIR", "run directory, new or empty (runs/TIME-...)", 0, 0,
         'o'},
        {"json", CLI_FLAG, &o->json, NULL, "print one JSON object instead of the report", 0, 0, 0},
        {"quiet", CLI_FLAG, &o->quiet, NULL, "no progress line", 0, 0, 'q'},
    };
    memcpy(table + count, common, sizeof(common));
    return count + (uint32_t)(sizeof(common) / sizeof(common[0]));
}

/* --scan: the variant must exist here. */
static int check_scan(struct bench *b)
{
    for (uint32_t variant = TAUT_SCAN_AUTO; variant <= TAUT_SCAN_AVX512; variant++) {
        if (strcmp(b->options.scan, taut_scan_name(variant)) != 0)
            continue;
        if (!taut_scan_select(variant))
            return cli_fail(b->command, EXIT_BAD_VALUE, "--scan: this CPU or build has no %s",
                            b->options.scan);
        b->plan.scan_variant = b->gateway.scan_variant = variant;
        return -1;
    }
    return cli_fail(b->command, EXIT_BAD_VALUE,
                    "--scan: '%.100s' is none of auto, scalar, swar, avx2, avx512",
                    b->options.scan);
}

static int check_comp_id(const struct bench *b, const char *option, const char *text)
{
    if (!*text || strlen(text) > LOAD_COMP_ID_BYTES)
        return cli_fail(b->command, EXIT_BAD_VALUE, "--%s: wants 1 to %u bytes", option,
                        LOAD_COMP_ID_BYTES);
    if (strchr(text, '\x01'))
        return cli_fail(b->command, EXIT_BAD_VALUE, "--%s: may not hold the byte SOH", option);
    return -1;
}

static void fill_plan(struct bench *b)
{
    const struct bench_options *o = &b->options;
    struct load_plan *plan = &b->plan;
    plan->sessions = o->sessions;
    plan->runs = o->runs;
    plan->amount[LOAD_WARMUP].messages = o->warmup.messages;
    plan->amount[LOAD_WARMUP].duration_ns = o->warmup.duration_ns;
    plan->amount[LOAD_MEASURE].messages = o->measure.messages;
    plan->amount[LOAD_MEASURE].duration_ns = o->measure.duration_ns;
    plan->busy_poll = (uint32_t)o->busy_poll;
    plan->sender = o->sender;
    plan->target = o->target;
    plan->heartbeat_s = o->heartbeat_s;
    plan->reply_bytes = o->reply_bytes;
    plan->stall_timeout_ns = o->stall_timeout_ns;
    plan->logon_timeout_ns = o->logon_timeout_ns;
    plan->host = b->host;
}

static int check_cpus(struct bench *b)
{
    struct taut_err err = {0};
    if (taut_topology_read(&b->topology, NULL, &err) != 0)
        return cli_fail_err(b->command, &err);
    if (!b->options.cpus)
        return -1;
    if (b->options.unbound)
        return cli_fail(b->command, EXIT_USAGE, "--cpus and --unbound exclude each other");
    if (taut_cpuset_parse(&b->cpus, b->options.cpus, &err) != 0)
        return cli_fail(b->command, EXIT_BAD_VALUE, "--cpus: %s", err.text);
    for (uint32_t cpu = 0; cpu < TAUT_CPUS_MAX; cpu++)
        if (taut_cpuset_has(&b->cpus, cpu) && !taut_cpuset_has(&b->topology.usable, cpu))
            return cli_fail(b->command, EXIT_BAD_VALUE, "--cpus: CPU %u is not usable here", cpu);
    return -1;
}

int bench_check(struct bench *b)
{
    const struct bench_options *o = &b->options;
    int kind = taut_port_kind_from(o->port);
    int exit_code;
    if (kind < 0)
        return cli_fail(b->command, EXIT_BAD_VALUE,
                        "--port: '%.100s' is no kind of transport; there is epoll", o->port);
    if (o->out && !*o->out)
        return cli_fail(b->command, EXIT_BAD_VALUE, "--out: the name is empty");
    uint64_t most = BENCH_MESSAGES_MAX / o->sessions / o->runs;
    if (o->warmup.messages > most || o->measure.messages > most)
        return cli_fail(
            b->command, EXIT_BAD_VALUE,
            "--%s: %u sessions and %u runs may have at most %" PRIu64 " messages each and session",
            o->warmup.messages > most ? "warmup" : "measure", o->sessions, o->runs, most);
    if (o->measure.messages == 0 && o->measure.duration_ns == 0)
        return cli_fail(b->command, EXIT_BAD_VALUE, "--measure: 0 measures nothing");
    if (o->stall_timeout_ns == 0 || o->logon_timeout_ns == 0)
        return cli_fail(b->command, EXIT_BAD_VALUE, "--%s: wants more than 0",
                        o->stall_timeout_ns == 0 ? "stall-timeout" : "logon-timeout");
    if (o->processes > o->sessions)
        return cli_fail(b->command, EXIT_BAD_VALUE,
                        "--processes: %u processes are more than %u sessions", o->processes,
                        o->sessions);
    if ((exit_code = check_comp_id(b, "sender", o->sender)) >= 0 ||
        (exit_code = check_comp_id(b, "target", o->target)) >= 0)
        return exit_code;
    b->plan.port_kind = b->gateway.port_kind = (uint32_t)kind;
    b->gateway.busy_poll = (uint32_t)o->busy_poll;
    fill_plan(b);
    if ((exit_code = check_scan(b)) >= 0)
        return exit_code;
    return check_cpus(b);
}
