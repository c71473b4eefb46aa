/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_judge.c - what a result is worth: the accounting identity from both sides, the status
 * and every reason for it, and the exit code. Nothing here changes a figure.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "capture/quantile.h"
#include "capture/raw.h"
#include "cli/bench.h"
#include "report/table.h"

#define P99 2u /* index in load_figures.quantile_ns */

const char *bench_status_name(uint32_t status)
{
    static const char *const names[] = {"PUBLISHABLE", "DIAGNOSTIC", "PARTIAL", "INVALID"};
    return status <= BENCH_INVALID ? names[status] : "UNKNOWN";
}

TAUT_PRINTF(3, 4) static void reason(struct bench *b, uint32_t status, const char *format, ...)
{
    va_list arguments;
    if (status > b->status)
        b->status = status;
    if (b->reason_count == BENCH_REASONS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(b->reasons[b->reason_count++], BENCH_REASON_BYTES, format, arguments);
    va_end(arguments);
}

TAUT_PRINTF(2, 3) static void note(struct bench *b, const char *format, ...)
{
    va_list arguments;
    if (b->note_count == BENCH_REASONS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(b->notes[b->note_count++], BENCH_REASON_BYTES, format, arguments);
    va_end(arguments);
}

/* --- times of a phase ------------------------------------------------------------------------ */

static const struct load_edge *edge_of(const struct bench *b, uint32_t run, uint32_t edge)
{
    return load_edge_of(&b->control, run, edge);
}

uint64_t bench_wall_ns(const struct bench *b, uint32_t run, uint32_t phase)
{
    uint64_t begin = atomic_load(&edge_of(b, run, phase)->time_ns);
    uint64_t end = atomic_load(&edge_of(b, run, phase + 1)->time_ns);
    return begin && end > begin ? end - begin : 0;
}

uint64_t bench_server_cpu_ns(const struct bench *b, uint32_t run, uint32_t phase)
{
    const struct load_edge *begin = edge_of(b, run, phase), *end = edge_of(b, run, phase + 1);
    if (!bench_wall_ns(b, run, phase) || !begin->server_cpu_ns || !end->server_cpu_ns)
        return 0;
    return end->server_cpu_ns - begin->server_cpu_ns;
}

uint64_t bench_client_cpu_ns(const struct bench *b, uint32_t run, uint32_t phase)
{
    uint64_t sum = 0;
    for (uint32_t p = 0; p < b->plan.processes; p++)
        sum += load_account_of(&b->control, p, run, phase)->cpu_ns;
    return sum;
}

uint64_t bench_span_ns(const struct load_figures *f)
{
    return f->last_received_ns > f->first_begin_ns ? f->last_received_ns - f->first_begin_ns : 0;
}

int bench_phase_shown(const struct bench *b, uint32_t run, uint32_t phase)
{
    return b->figures[run - 1][phase].sent > 0;
}

/* --- delivery -------------------------------------------------------------------------------- */

/*
 * One process: what it counted itself, each figure on its own, so that the identity can fail. One
 * that ended within a phase left no account of it; its live counters stand, the rest is derived.
 */
static void count_process(struct bench *b, uint32_t p)
{
    struct bench_delivery *d = &b->delivery;
    const struct load_plan *plan = &b->plan;
    uint64_t sent = 0, lost = 0, error = 0, unsent = 0, scheduled = 0;
    uint64_t live_sent = atomic_load(&b->control.processes[p].sent);
    uint64_t live_answered = atomic_load(&b->control.processes[p].answered);
    for (uint32_t run = 1; run <= plan->runs; run++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
            const struct load_account *account = load_account_of(&b->control, p, run, phase);
            uint64_t planned = plan->amount[phase].messages * plan->process_sessions[p];
            sent += account->sent;
            lost += account->lost;
            error += account->error;
            unsent += account->begun ? account->unsent : planned;
            scheduled += planned ? planned : account->sent;
        }
    if (sent != live_sent) {
        d->derived++;
        lost = live_sent - live_answered - error;
        unsent = scheduled > live_sent ? scheduled - live_sent : 0;
    }
    d->scheduled += scheduled;
    d->sent += live_sent;
    d->answered += live_answered;
    d->lost += lost;
    d->error += error;
    d->unsent += unsent;
}

static void count_counters(struct bench *b)
{
    for (uint32_t p = 0; p < b->plan.processes; p++)
        count_process(b, p);
}

static void count_raw(struct bench *b)
{
    struct bench_delivery *d = &b->delivery;
    for (uint32_t run = 0; run < b->plan.runs; run++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
            const struct load_figures *f = &b->figures[run][phase];
            d->raw_sent += f->sent;
            d->raw_answered += f->by_status[RAW_ANSWERED] + f->by_status[RAW_LATE];
            d->raw_lost += f->by_status[RAW_LOST];
            d->raw_error += f->by_status[RAW_ERROR];
        }
}

/* Phase by phase, where all processes finished it. 1 = the files say what the counters say. */
static int phases_agree(const struct bench *b)
{
    for (uint32_t run = 1; run <= b->plan.runs; run++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
            const struct load_figures *f = &b->figures[run - 1][phase];
            uint64_t sent = 0, answered = 0;
            uint32_t finished = 0;
            for (uint32_t p = 0; p < b->plan.processes; p++) {
                const struct load_account *account = load_account_of(&b->control, p, run, phase);
                sent += account->sent;
                answered += account->answered;
                finished += account->finished;
            }
            if (finished == b->plan.processes &&
                (f->sent != sent ||
                 f->by_status[RAW_ANSWERED] + f->by_status[RAW_LATE] != answered))
                return 0;
        }
    return 1;
}

static void judge_delivery(struct bench *b)
{
    struct bench_delivery *d = &b->delivery;
    uint64_t damaged = 0;
    count_counters(b);
    count_raw(b);
    for (uint32_t run = 0; run < b->plan.runs; run++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++)
            damaged += b->figures[run][phase].by_status[7];
    d->agree = d->sent == d->raw_sent && d->answered == d->raw_answered && d->lost == d->raw_lost &&
               d->error == d->raw_error && damaged == 0 && phases_agree(b);
    d->balanced = d->agree && d->scheduled == d->sent + d->unsent &&
                  d->sent == d->answered + d->lost + d->error;
    if (!d->agree)
        reason(b, BENCH_INVALID,
               "accounts: the raw files say sent %" PRIu64 ", answered %" PRIu64 ", lost %" PRIu64
               ", error %" PRIu64 ", damaged %" PRIu64 "; the clients counted %" PRIu64 ", %" PRIu64
               ", %" PRIu64 ", %" PRIu64,
               d->raw_sent, d->raw_answered, d->raw_lost, d->raw_error, damaged, d->sent,
               d->answered, d->lost, d->error);
    else if (!d->balanced)
        reason(b, BENCH_INVALID,
               "accounts: scheduled %" PRIu64 ", sent %" PRIu64 ", unsent %" PRIu64
               ", answered %" PRIu64 ", lost %" PRIu64 ", error %" PRIu64 " do not balance",
               d->scheduled, d->sent, d->unsent, d->answered, d->lost, d->error);
    if (d->lost)
        reason(b, BENCH_INVALID, "lost: %" PRIu64 " of %" PRIu64 " requests were not answered",
               d->lost, d->sent);
    if (d->error)
        reason(b, BENCH_INVALID, "error: %" PRIu64 " requests were rejected", d->error);
}

/* --- status ---------------------------------------------------------------------------------- */

static void judge_faults(struct bench *b)
{
    char text[256];
    if (b->result.fault != LOAD_FINE)
        reason(b, BENCH_INVALID, "%s: %s", load_fault_name(b->result.fault), b->result.text);
    for (uint32_t p = 0; p < b->plan.processes; p++) {
        const struct load_process *process = &b->control.processes[p];
        uint32_t fault = atomic_load(&process->fault);
        if (fault == LOAD_FINE || p == b->result.process)
            continue;
        snprintf(text, sizeof(text), "%s", process->text);
        reason(b, BENCH_INVALID, "%s: process %u, after that: %s", load_fault_name(fault), p, text);
    }
    if (b->result.interrupted) {
        uint32_t run = 0, phase = 0;
        for (uint32_t p = 0; p < b->plan.processes; p++) {
            run = atomic_load(&b->control.processes[p].run);
            phase = atomic_load(&b->control.processes[p].phase);
        }
        if (run == 0)
            reason(b, BENCH_PARTIAL, "interrupted: by signal %d (%s) before the first run",
                   b->result.signal, strsignal(b->result.signal));
        else
            reason(b, BENCH_PARTIAL, "interrupted: by signal %d (%s) in run %u of %u, %s",
                   b->result.signal, strsignal(b->result.signal), run, b->plan.runs,
                   phase == LOAD_WARMUP ? "warm-up" : "measure");
    }
}

static void judge_files(struct bench *b)
{
    for (uint32_t run = 1; run <= b->plan.runs; run++) {
        const struct load_figures *f = b->figures[run - 1];
        int begun = atomic_load(&edge_of(b, run, 0)->time_ns) != 0;
        if (f->files_damaged)
            reason(b, BENCH_INVALID, "raw: %u of %u raw files of run %u were not closed",
                   f->files_damaged, f->files, run);
        if (f->files_missing && begun)
            reason(b, BENCH_INVALID, "raw: %u of %u raw files of run %u can't be read",
                   f->files_missing, f->files, run);
    }
    for (uint32_t p = 0; p < b->plan.processes; p++) {
        const struct load_process *process = &b->control.processes[p];
        if (process->raw_stalls)
            reason(b, BENCH_PARTIAL,
                   "raw: process %u waited %" PRIu64 " times for room in its raw file", p,
                   process->raw_stalls);
        if (process->drift_known && llabs(process->drift_ppb) > BENCH_DRIFT_PPB)
            reason(b, BENCH_INVALID,
                   "clock: drifted by %.1f ppm against CLOCK_MONOTONIC; the limit is %.0f",
                   (double)process->drift_ppb / 1000, BENCH_DRIFT_PPB / 1000.0);
    }
}

/* p99 of the measured phases: there, and alike in all runs. */
static void judge_quantiles(struct bench *b)
{
    uint64_t least = UINT64_MAX, most = 0;
    uint32_t refused = 0, measured = 0;
    for (uint32_t run = 0; run < b->plan.runs; run++) {
        const struct load_figures *f = &b->figures[run][LOAD_MEASURE];
        if (f->sent == 0)
            continue;
        measured++;
        b->measured_answered += f->by_status[RAW_ANSWERED] + f->by_status[RAW_LATE];
        b->measured_span_ns += bench_span_ns(f);
        uint64_t p99 = f->quantile_ns[P99];
        if (p99 == QUANTILE_REFUSED || p99 == QUANTILE_INFINITE) {
            refused++;
            continue;
        }
        least = p99 < least ? p99 : least;
        most = p99 > most ? p99 : most;
    }
    if (measured == 0)
        reason(b, b->result.interrupted ? BENCH_PARTIAL : BENCH_INVALID,
               "empty: no message of a measured phase");
    if (refused)
        reason(b, BENCH_PARTIAL,
               "few: %u of %u measured phases have too few messages for p99 (1,000)", refused,
               measured);
    if (most > 0 && (double)most * 100 > (double)least * BENCH_P99_SPREAD_PCT) {
        char a[FORMAT_BYTES], z[FORMAT_BYTES];
        reason(
            b, BENCH_PARTIAL,
            "spread: p99 of the runs lies between %s and %s, a factor of %.2f; the limit is %.2f",
            format_duration(a, least), format_duration(z, most), (double)most / (double)least,
            BENCH_P99_SPREAD_PCT / 100.0);
    }
}

static int is_this_machine(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

static void judge_places(struct bench *b)
{
    if (b->options.unbound)
        reason(b, BENCH_DIAGNOSTIC, "cpus: nothing is bound; server and clients may share a CPU");
    else if (b->with_server && b->rig.overlap)
        reason(b, BENCH_DIAGNOSTIC, "cpus: server and clients share a CPU");
    if (!b->with_server && is_this_machine(b->host))
        reason(b, BENCH_DIAGNOSTIC,
               "cpus: the server is on this machine, and where it runs is not known");
    if (b->rig.crowded_server)
        reason(b, BENCH_DIAGNOSTIC, "cpus: %u workers more than CPUs for them",
               b->rig.crowded_server);
    if (b->rig.crowded_client)
        reason(b, BENCH_DIAGNOSTIC, "cpus: %u client processes more than CPUs for them",
               b->rig.crowded_client);
    for (uint32_t p = 0; p < b->plan.processes; p++)
        if (b->plan.process_cpu[p] != LOAD_UNBOUND && b->control.processes[p].pid > 0 &&
            b->control.processes[p].cpu_bound != (int32_t)b->plan.process_cpu[p])
            reason(b, BENCH_PARTIAL, "cpus: client process %u is not on its CPU %u", p,
                   b->plan.process_cpu[p]);
    for (uint32_t i = 0; b->with_server && i < b->control.shared->server.workers; i++)
        if (b->rig.worker_cpu[i] != RIG_UNBOUND &&
            b->control.shared->server.worker[i].cpu_bound != (int32_t)b->rig.worker_cpu[i])
            reason(b, BENCH_PARTIAL, "cpus: worker %u is not on its CPU %u", i,
                   b->rig.worker_cpu[i]);
#if BENCH_INSTRUMENTED
    reason(b, BENCH_DIAGNOSTIC, "build: instrumented or not optimised");
#endif
}

static uint64_t quiet_u64(const json_t *object, const char *key, int *known)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        *known = 0;
        return 0;
    }
    return (uint64_t)json_integer_value(value);
}

/* What the machine did beside the bench, over its whole time: a figure taken beside others' work is
 * theirs too. What can't be known is said. */
static void judge_quiet(struct bench *b)
{
    int known = 1, steal_known = 1, throttling_known = 1;
    uint64_t window_us = quiet_u64(b->quiet, "window_ns", &known) / 1000 * b->topology.usable_count;
    uint64_t foreign_us = quiet_u64(b->quiet, "foreign_us", &known);
    uint64_t steal_us = quiet_u64(b->quiet, "steal_us", &steal_known);
    uint64_t throttled =
        quiet_u64(json_object_get(b->quiet, "throttling"), "throttled", &throttling_known);
    char text[FORMAT_BYTES];
    if (!known || !steal_known)
        reason(b, BENCH_PARTIAL, "others: what else used the CPUs is not known");
    if (known && foreign_us * 100 > window_us * BENCH_FOREIGN_PCT)
        reason(b, BENCH_PARTIAL,
               "others: used %s, %.1f %% of the time of the usable CPUs; the limit is %u %%",
               format_duration(text, foreign_us * 1000),
               (double)foreign_us * 100 / (double)window_us, BENCH_FOREIGN_PCT);
    if (known && steal_known && steal_us * 100 > window_us * BENCH_STEAL_PCT)
        reason(
            b, BENCH_PARTIAL,
            "steal: the hypervisor took %s, %.1f %% of the time of the usable CPUs; the limit is "
            "%u %%",
            format_duration(text, steal_us * 1000), (double)steal_us * 100 / (double)window_us,
            BENCH_STEAL_PCT);
    if (throttling_known && throttled)
        reason(b, BENCH_PARTIAL, "throttled: %" PRIu64 " times by a CPU quota", throttled);
    if (b->plan.runs < 2)
        reason(b, BENCH_PARTIAL, "single: one run shows no spread between runs");
}

/* A file that grew within a phase: its own thread did it, but the kernel's work is there. */
static void judge_growth(struct bench *b)
{
    for (uint32_t run = 1; run <= b->plan.runs; run++)
        for (uint32_t p = 0; p < b->plan.processes; p++) {
            uint64_t grown = load_account_of(&b->control, p, run, LOAD_MEASURE)->raw_grown;
            if (grown)
                reason(b, BENCH_PARTIAL,
                       "grown: the raw file of process %u grew by %" PRIu64
                       " records within the measured phase of run %u",
                       p, grown, run);
        }
}

/* Things to know that are no fault of the measurement. */
static void note_busy_clients(struct bench *b)
{
    if (b->plan.busy_poll)
        return;
    for (uint32_t p = 0; p < b->plan.processes; p++) {
        uint64_t used = 0, wall = 0;
        for (uint32_t run = 1; run <= b->plan.runs; run++) {
            used += load_account_of(&b->control, p, run, LOAD_MEASURE)->thread_ns;
            wall += bench_wall_ns(b, run, LOAD_MEASURE);
        }
        if (wall && used * 100 > wall * BENCH_BUSY_PCT)
            note(b,
                 "client-saturated: process %u used %.0f %% of a CPU while it measured: the client "
                 "may be the limit, not the server",
                 p, (double)used * 100 / (double)wall);
    }
}

void bench_judge(struct bench *b)
{
    judge_faults(b);
    judge_delivery(b);
    judge_files(b);
    judge_quantiles(b);
    judge_places(b);
    judge_quiet(b);
    judge_growth(b);
    for (uint32_t i = 0; i < b->rig.note_count; i++)
        note(b, "%s", b->rig.notes[i]);
    note_busy_clients(b);
}

int bench_sessions_shown(const struct bench *b)
{
    return b->result.fault != LOAD_FINE && b->delivery.sent > 0;
}

int bench_exit_code(const struct bench *b)
{
    static const int exits[LOAD_FAULTS] = {
        [LOAD_STALLED] = EXIT_INVALID,       [LOAD_WRONG_ANSWER] = EXIT_INVALID,
        [LOAD_REJECTED] = EXIT_INVALID,      [LOAD_GARBLED] = EXIT_INVALID,
        [LOAD_PEER_LOST] = EXIT_PEER_LOST,   [LOAD_REFUSED] = EXIT_CONNECT,
        [LOAD_LOGON_REFUSED] = EXIT_CONNECT, [LOAD_NOT_FIX] = EXIT_NOT_FIX,
        [LOAD_TOO_SLOW] = EXIT_TOO_SLOW,     [LOAD_TOO_BIG] = EXIT_TOO_BIG,
        [LOAD_DISK_FULL] = EXIT_DISK_FULL,   [LOAD_FILE] = EXIT_WRITE,
        [LOAD_SETUP] = EXIT_INTERNAL,        [LOAD_SERVER] = EXIT_INTERNAL,
        [LOAD_SERVER_DIED] = EXIT_PEER_LOST, [LOAD_CLIENT_DIED] = EXIT_INVALID,
        [LOAD_HUNG] = EXIT_INVALID,
    };
    uint32_t fault = b->result.fault;
    /* Ctrl-C is what the user did; a fault only counts where it was there before. */
    if (b->result.interrupted && atomic_load(&b->control.shared->stop) == LOAD_STOP_INTERRUPT)
        return EXIT_INTERRUPTED;
    if ((fault == LOAD_FILE || fault == LOAD_SETUP) && b->result.process != UINT32_MAX) {
        int code = b->control.processes[b->result.process].code;
        if (code == TAUT_EACCES)
            return EXIT_RIGHTS;
        if (code == TAUT_ENOSPC && fault == LOAD_FILE)
            return EXIT_DISK_FULL;
    }
    if (fault != LOAD_FINE && fault < LOAD_FAULTS)
        return exits[fault];
    return b->status == BENCH_INVALID ? EXIT_INVALID : EXIT_OK;
}
