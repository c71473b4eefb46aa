/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/load.c - `taut load`: client processes against a server that is there already, in FIX or with
 * the same bytes and no session.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

#define OPTIONS_MAX 32u

static int bad_url(const struct bench *b, const char *url, const char *why)
{
    return cli_fail(b->command, EXIT_BAD_VALUE,
                    "'%.200s': %s; wanted is fix://HOST:PORT or echo://HOST:PORT", url, why);
}

/* SCHEME://HOST:PORT, HOST in brackets where it has colons. */
static int parse_url(struct bench *b, const char *url)
{
    const char *rest, *colon, *end;
    uint64_t port = 0;
    if (strncmp(url, "fix://", 6) == 0) {
        b->plan.mode = LOAD_FIX;
        rest = url + 6;
    } else if (strncmp(url, "echo://", 7) == 0) {
        b->plan.mode = LOAD_ECHO;
        rest = url + 7;
    } else {
        return bad_url(b, url, "unknown scheme");
    }
    colon = strrchr(rest, ':');
    end = colon;
    if (*rest == '[') {
        end = strchr(++rest, ']');
        if (!end || end[1] != ':')
            return bad_url(b, url, "no ']:' behind the address");
        colon = end + 1;
    }
    if (!colon || end == rest)
        return bad_url(b, url, colon ? "no host" : "no port");
    if ((size_t)(end - rest) >= sizeof(b->host))
        return bad_url(b, url, "the host is too long");
    for (const char *digit = colon + 1; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || (port = port * 10 + (uint64_t)(*digit - '0')) > 65535)
            return bad_url(b, url, "the port is no number from 1 to 65535");
    }
    if (port == 0)
        return bad_url(b, url, "the port is no number from 1 to 65535");
    memcpy(b->host, rest, (size_t)(end - rest));
    b->host[end - rest] = '\0';
    b->plan.port_number = (uint16_t)port;
    return -1;
}

static int is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

/* Spreads the sessions over processes and these over the CPUs of `cpus`. */
static void spread(struct bench *b, uint32_t processes, const struct taut_cpuset *cpus)
{
    struct rig_plan *rig = &b->rig;
    uint32_t count = taut_cpuset_count(cpus);
    rig->processes = processes;
    rig->workers = 0;
    memset(&rig->server_cpus, 0, sizeof(rig->server_cpus));
    rig->client_cpus = *cpus;
    rig->overlap = rig->crowded_server = rig->shared_cores = rig->house_shared = 0;
    rig->note_count = 0;
    rig->house_cpu = RIG_UNBOUND;
    if (count && processes > count) {
        rig->crowded_client = processes - count;
        snprintf(rig->notes[rig->note_count++], sizeof(rig->notes[0]),
                 "%u client processes share %u CPU%s", processes, count, count == 1 ? "" : "s");
    }
    for (uint32_t p = 0; p < processes; p++) {
        rig->process_cpu[p] = count ? taut_cpuset_nth(cpus, p % count) : RIG_UNBOUND;
        rig->process_sessions[p] =
            b->options.sessions / processes + (p < b->options.sessions % processes);
    }
}

/*
 * Where the clients run. On loopback the server is likely on this machine: the clients take the
 * CPUs that the plan of a whole pool gives them. With --cpus, or a server elsewhere, they take all
 * that they may.
 */
static int place(struct bench *b)
{
    struct rig_plan_request request = {
        .sessions = b->options.sessions,
        .processes = b->options.processes,
        .unbound = (uint32_t)b->options.unbound,
        .cpus = b->options.cpus ? &b->cpus : NULL,
    };
    struct taut_cpuset none = {{0}};
    struct taut_err err = {0};
    if (rig_plan_make(&b->rig, &b->topology, &request, &err) != 0)
        return cli_fail(b->command, EXIT_BAD_VALUE, "%s", err.text);
    const struct taut_cpuset *cpus = &b->rig.client_cpus;
    struct taut_cpuset chosen;
    uint32_t processes = b->options.processes ? b->options.processes : b->rig.processes;
    if (b->options.unbound) {
        cpus = &none;
    } else if (b->options.cpus || !is_loopback(b->host)) {
        cpus = b->options.cpus ? &b->cpus : &b->topology.usable;
        if (!b->options.processes) {
            uint32_t most = taut_cpuset_count(cpus);
            uint32_t wanted = (b->options.sessions + 3) / 4;
            most = most < b->topology.width ? most : b->topology.width;
            processes = wanted < most ? wanted : most;
            processes = processes < LOAD_PROCESSES_MAX ? processes : LOAD_PROCESSES_MAX;
        }
    }
    chosen = *cpus;
    spread(b, processes, &chosen);
    bench_take_places(b);
    return -1;
}

int cmd_load(int argc, char **argv)
{
    static struct cli_option table[OPTIONS_MAX];
    struct cli_command command = {"load",
                                  "Puts closed-loop load on a server and tells what every request "
                                  "took.",
                                  "fix://HOST:PORT",
                                  table,
                                  0,
                                  1,
                                  1};
    struct bench *b = calloc(1, sizeof(*b));
    int arguments, exit_code;
    if (!b)
        return cli_fail(&command, EXIT_INTERNAL, "out of memory");
    bench_defaults(&b->options);
    b->command = &command;
    b->scenario = "load";
    const struct cli_option own[] = {
        {"sender", CLI_STRING, &b->options.sender, "TEXT",
         "SenderCompID without its number (LOAD: LOAD0001, LOAD0002, ...)", 0, 0, 0},
        {"target", CLI_STRING, &b->options.target, "TEXT", "TargetCompID (TAUT)", 0, 0, 0},
        {"heartbeat", CLI_U32, &b->options.heartbeat_s, "SECONDS", "HeartBtInt (30)", 1, 3600, 0},
        {"reply-bytes", CLI_U32, &b->options.reply_bytes, "N",
         "echo: bytes of an answer (as many as sent, compared)", 1, 1u << 30, 0},
        {"cpus", CLI_CPUS, &b->options.cpus, "LIST", "client process i runs on the i-th of these",
         0, 0, 0},
    };
    memcpy(table, own, sizeof(own));
    command.option_count =
        bench_common_options(&b->options, table, (uint32_t)(sizeof(own) / sizeof(own[0])));
    exit_code = cli_parse(&command, argc, argv, &arguments);
    if (exit_code < 0)
        exit_code = parse_url(b, argv[1]);
    if (exit_code < 0 && b->plan.mode == LOAD_FIX && b->options.reply_bytes)
        exit_code = cli_fail(&command, EXIT_USAGE, "--reply-bytes is for echo://");
    if (exit_code < 0)
        exit_code = bench_check(b);
    if (exit_code < 0)
        exit_code = place(b);
    if (exit_code < 0)
        exit_code = bench_run(b);
    bench_free(b);
    return exit_code;
}
