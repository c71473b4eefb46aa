/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_pool.c - `taut bench pool`: a FIX gateway in a process of its own, client processes
 * beside it, each on CPUs chosen from the machine; orders in, execution reports out.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

#define OPTIONS_MAX 32u

static int set_up_server(struct bench *b, struct taut_session_config *session)
{
    const struct bench_options *o = &b->options;
    int shape = taut_shape_from(o->shape);
    if (shape < 0)
        return cli_fail(b->command, EXIT_BAD_VALUE,
                        "--shape: '%.100s' is no shape; there are single and owned", o->shape);
    b->gateway.handler = taut_handler_named(o->handler);
    if (!b->gateway.handler)
        return cli_fail(b->command, EXIT_BAD_VALUE,
                        "--handler: '%.100s' is no handler; there are fill and echo", o->handler);
    if (shape == TAUT_SHAPE_SINGLE && o->workers > 1)
        return cli_fail(b->command, EXIT_BAD_VALUE, "--workers: the shape single has one worker");
    session->size = sizeof(*session);
    session->sender_comp_id = o->target;
    session->target_comp_id = o->sender;
    b->gateway.size = sizeof(b->gateway);
    b->gateway.shape = (uint32_t)shape;
    b->gateway.host = "127.0.0.1";
    b->gateway.connections = o->sessions + 16;
    b->gateway.sessions = session;
    b->gateway.session_count = 1;
    b->gateway.any_target = 1;
    snprintf(b->host, sizeof(b->host), "127.0.0.1");
    return -1;
}

static int place(struct bench *b)
{
    struct rig_plan_request request = {
        .sessions = b->options.sessions,
        .workers = b->options.workers,
        .processes = b->options.processes,
        .single = b->gateway.shape == TAUT_SHAPE_SINGLE,
        .unbound = (uint32_t)b->options.unbound,
        .cpus = b->options.cpus ? &b->cpus : NULL,
    };
    struct taut_err err = {0};
    if (rig_plan_make(&b->rig, &b->topology, &request, &err) != 0)
        return cli_fail(b->command, EXIT_BAD_VALUE, "%s", err.text);
    b->gateway.workers = b->rig.workers;
    if (taut_cpuset_count(&b->rig.server_cpus) > 0)
        b->gateway.cpus = &b->rig.server_cpus;
    bench_take_places(b);
    return -1;
}

int cmd_bench_pool(int argc, char **argv)
{
    static struct cli_option table[OPTIONS_MAX];
    struct cli_command command = {"bench pool",
                                  "Runs a FIX gateway and client processes against it, and tells "
                                  "what every order took.",
                                  "",
                                  table,
                                  0,
                                  0,
                                  0};
    struct taut_session_config session = {0};
    struct bench *b = calloc(1, sizeof(*b));
    int arguments, exit_code;
    if (!b)
        return cli_fail(&command, EXIT_INTERNAL, "out of memory");
    bench_defaults(&b->options);
    b->command = &command;
    b->scenario = "pool";
    b->with_server = 1;
    b->options.shape = "owned";
    b->options.handler = "fill";
    const struct cli_option own[] = {
        {"workers", CLI_U32, &b->options.workers, "N", "server threads (from the machine)", 1,
         RIG_WORKERS_MAX, 0},
        {"shape", CLI_STRING, &b->options.shape, "NAME", "single or owned (owned)", 0, 0, 0},
        {"handler", CLI_STRING, &b->options.handler, "NAME", "fill or echo (fill)", 0, 0, 0},
        {"cpus", CLI_CPUS, &b->options.cpus, "LIST",
         "use only these CPUs, for server and clients (all)", 0, 0, 0},
    };
    memcpy(table, own, sizeof(own));
    command.option_count =
        bench_common_options(&b->options, table, (uint32_t)(sizeof(own) / sizeof(own[0])));
    exit_code = cli_parse(&command, argc, argv, &arguments);
    if (exit_code < 0)
        exit_code = bench_check(b);
    if (exit_code < 0)
        exit_code = set_up_server(b, &session);
    if (exit_code < 0)
        exit_code = place(b);
    if (exit_code < 0)
        exit_code = bench_run(b);
    bench_free(b);
    return exit_code;
}
