/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench.h - what `taut bench pool` and `taut load` share: one scenario from its options to its
 * table, JSON object and run directory.
 *
 *   bench_options.c   options common to both, checked
 *   bench_folder.c    the run directory and the files in it
 *   bench_server.c    the gateway in a process of its own
 *   bench_progress.c  the line on a terminal
 *   bench_run.c       the order of it all
 *   bench_judge.c     delivery, status and its reasons
 *   bench_json.c      the result as one object
 *   bench_text.c      the result as text
 */
#ifndef LAB_CLI_BENCH_H
#define LAB_CLI_BENCH_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <taut/clock.h>
#include <taut/gateway.h>
#include <taut/topology.h>

#include "cli/cli.h"
#include "load/load.h"
#include "rig/rig.h"

#define BENCH_PATH_BYTES     3072u
#define BENCH_REASONS_MAX    24u
#define BENCH_REASON_BYTES   400u
#define BENCH_P99_SPREAD_PCT 150u  /* PARTIAL above: greatest p99 of the runs by the least */
#define BENCH_DRIFT_PPB      50000 /* INVALID above: 50 ppm */
#define BENCH_MESSAGES_MAX   UINT64_C(1000000000000) /* of a phase, over all sessions and runs */
#define BENCH_FOREIGN_PCT    5u  /* PARTIAL above: CPU time of other processes, of all usable */
#define BENCH_STEAL_PCT      1u  /* PARTIAL above: CPU time taken by the hypervisor */
#define BENCH_BUSY_PCT       95u /* a client that uses more of its CPU may be the limit */

/* 1: this build's times are not those of a release. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define BENCH_INSTRUMENTED 1
#endif
#endif
#ifndef BENCH_INSTRUMENTED
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define BENCH_INSTRUMENTED 1
#else
#define BENCH_INSTRUMENTED 0
#endif
#endif

enum bench_status {
    BENCH_PUBLISHABLE = 0,
    BENCH_DIAGNOSTIC, /* whole, but not comparable: shared CPUs, instrumented build */
    BENCH_PARTIAL,    /* right as far as it goes: interrupted, unsteady, too few messages */
    BENCH_INVALID     /* a fault, or accounts that do not balance */
};

/* What the user asked for. */
struct bench_options {
    uint32_t sessions, workers, processes, runs;
    struct cli_amount warmup, measure;
    const char *shape, *port, *handler, *cpus, *out;
    const char *sender, *target, *scan;
    uint32_t reply_bytes, heartbeat_s;
    uint64_t stall_timeout_ns, logon_timeout_ns;
    int busy_poll, json, quiet, unbound;
};

/* Both sides of the accounting identity. */
struct bench_delivery {
    uint64_t scheduled, sent, answered, lost, error, unsent;
    uint64_t raw_sent, raw_answered, raw_lost, raw_error; /* from the raw files */
    uint32_t derived;  /* processes that ended within a phase: their lost and unsent are derived */
    uint32_t agree;    /* 1: raw files and counters say the same */
    uint32_t balanced; /* 1: scheduled = sent + unsent, sent = answered + lost + error, and agree */
};

struct bench {
    const struct cli_command *command;
    const char *scenario; /* "pool", "load" */
    struct bench_options options;
    uint32_t with_server; /* 1: the gateway is ours */

    struct taut_topology topology;
    struct taut_cpuset cpus;
    struct rig_plan rig;
    struct taut_gateway_options gateway;
    char host[256];

    struct load_plan plan;
    struct load_control control;
    struct load_result result;
    struct load_figures (*figures)[LOAD_PHASES]; /* plan.runs */

    char folder[BENCH_PATH_BYTES];
    char raw_folder[BENCH_PATH_BYTES + 8];
    char *raw_recipe; /* JSON for the raw files' headers */
    uint64_t begun_utc_ns;
    json_t *provenance_before, *provenance_after;
    json_t *quiet; /* what else ran meanwhile, NULL = not known */

    struct bench_delivery delivery;
    uint64_t measured_answered, measured_span_ns;
    uint32_t status; /* enum bench_status */
    uint32_t reason_count, note_count;
    char reasons[BENCH_REASONS_MAX][BENCH_REASON_BYTES]; /* "word: sentence" */
    char notes[BENCH_REASONS_MAX][BENCH_REASON_BYTES];
};

/* --- options --------------------------------------------------------------------------------- */

/* The defaults. */
void bench_defaults(struct bench_options *options);

/* Appends the options that both commands have; returns the new count. */
uint32_t bench_common_options(struct bench_options *o, struct cli_option *table, uint32_t count);

/* Options -> topology and the parts of the load plan that do not need a CPU plan. -1 to go on, or
 * the exit code. */
int bench_check(struct bench *b);

/* --- the whole ------------------------------------------------------------------------------- */

/* The client processes' sessions and CPUs: from the CPU plan into the load plan. */
void bench_take_places(struct bench *b);

/* From complete options and CPU plan to the printed result; returns the exit code. */
int bench_run(struct bench *b);
void bench_free(struct bench *b);

/* --- parts ----------------------------------------------------------------------------------- */

/* Creates the run directory and raw/ in it. -1 to go on, or the exit code. */
int bench_folder_create(struct bench *b);

/* Writes `object` or `text` to a file of the run directory. -1, or the exit code, with a line. */
int bench_folder_json(const struct bench *b, const char *name, const json_t *object);
int bench_folder_text(const struct bench *b, const char *name, const char *text, size_t length);

/* For struct load_crew_options.server; context is the struct bench. */
int bench_server(void *context, struct load_control *control);

/* For struct load_crew_options.progress; context is the struct bench. */
void bench_progress(void *context, const struct load_progress *progress);
int bench_progress_wanted(const struct bench *b);
void bench_progress_end(const struct bench *b);

/* Delivery, throughput, status, reasons and notes from figures and control memory. */
void bench_judge(struct bench *b);
const char *bench_status_name(uint32_t status);

/* The exit code that the result deserves. */
int bench_exit_code(const struct bench *b);

/* Wall time of a phase between its barriers, and the server's CPU time in it; 0 = unknown. */
uint64_t bench_wall_ns(const struct bench *b, uint32_t run, uint32_t phase);
uint64_t bench_server_cpu_ns(const struct bench *b, uint32_t run, uint32_t phase);
uint64_t bench_client_cpu_ns(const struct bench *b, uint32_t run, uint32_t phase);

/* From the first request to the last answer of a phase; 0 = none. */
uint64_t bench_span_ns(const struct load_figures *figures);

/* A phase that has something to show. */
int bench_phase_shown(const struct bench *b, uint32_t run, uint32_t phase);

/* 1: the table of sessions belongs into the result. */
int bench_sessions_shown(const struct bench *b);

/* New references. */
json_t *bench_recipe_json(const struct bench *b);     /* recipe.json */
json_t *bench_raw_recipe_json(const struct bench *b); /* short, for the raw files' headers */
json_t *bench_result_json(const struct bench *b);     /* result.json and --json */

/* The report. `sessions_most`: rows of the table of sessions, where there is one. */
void bench_text(const struct bench *b, FILE *to, uint32_t sessions_most);

#endif
