/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_text.c - the report: what it is worth, a row for every run and phase, the account, what
 * was in effect, where the samples are. Every figure is one of a run and phase; none is an average
 * of others.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "capture/quantile.h"
#include "capture/raw.h"
#include "cli/bench.h"
#include "report/table.h"

static const struct table_column columns[] = {
    {"run", TABLE_RIGHT},   {"phase", TABLE_LEFT},       {"n", TABLE_RIGHT},
    {"p50", TABLE_RIGHT},   {"p90", TABLE_RIGHT},        {"p99", TABLE_RIGHT},
    {"p99.9", TABLE_RIGHT}, {"p99.99", TABLE_RIGHT},     {"max", TABLE_RIGHT},
    {"rate", TABLE_RIGHT},  {"server CPU", TABLE_RIGHT}, {"client CPU", TABLE_RIGHT},
};

/* "1.84 s (97.3 %)" of the phase's wall time. */
static void cpu_cell(struct table *table, uint64_t cpu_ns, uint64_t wall_ns)
{
    char seconds[FORMAT_BYTES], percent[FORMAT_BYTES];
    if (cpu_ns == 0 || wall_ns == 0)
        table_cell(table, "-");
    else
        table_cell(table, "%s (%s)", format_duration(seconds, cpu_ns),
                   format_percent(percent, cpu_ns, wall_ns));
}

/* One row; returns 1 where a quantile was refused. */
static int figure_row(const struct bench *b, struct table *table, uint32_t run, uint32_t phase)
{
    const struct load_figures *f = &b->figures[run - 1][phase];
    uint64_t answered = f->by_status[RAW_ANSWERED] + f->by_status[RAW_LATE];
    uint64_t wall = bench_wall_ns(b, run, phase);
    char text[FORMAT_BYTES];
    int refused = 0;
    table_cell(table, "%u", run);
    table_cell(table, "%s", phase == LOAD_WARMUP ? "warm-up" : "measure");
    table_cell(table, "%s", format_count(text, f->n));
    for (uint32_t q = 0; q < LOAD_QUANTILES; q++) {
        refused |= f->quantile_ns[q] == QUANTILE_REFUSED;
        table_cell(table, "%s", format_duration(text, f->quantile_ns[q]));
    }
    /* Who was never answered waited longer than all others: no finite greatest value is there. */
    table_cell(table, "%s",
               f->n > answered ? format_duration(text, QUANTILE_INFINITE)
               : answered      ? format_duration(text, f->max_ns)
                               : "-");
    /* While requests stay unanswered the time to the last answer is not all that passed. */
    table_cell(table, "%s",
               format_rate(text, answered, f->n > answered && wall ? wall : bench_span_ns(f)));
    cpu_cell(table, bench_server_cpu_ns(b, run, phase), wall);
    cpu_cell(table, bench_client_cpu_ns(b, run, phase), wall);
    return refused;
}

static void figures(const struct bench *b, FILE *to)
{
    struct table *table;
    uint32_t count = (uint32_t)(sizeof(columns) / sizeof(columns[0]));
    int refused = 0;
    if (table_create(&table, columns, count) != 0)
        return;
    for (uint32_t run = 1; run <= b->plan.runs; run++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++)
            if (bench_phase_shown(b, run, phase))
                refused |= figure_row(b, table, run, phase);
    if (table_rows(table) > 0)
        table_print(table, to, "");
    else
        fprintf(to, "no message was sent\n");
    table_destroy(table);
    if (refused)
        fprintf(to, "-  too few messages: a quantile p of n wants n (1 - p) >= 10\n");
    fprintf(to, "Closed loop: response time is undefined; service time is shown, from the begin of "
                "the send\nto the return of the poll that delivered the answer.\n");
}

static void delivery(const struct bench *b, FILE *to)
{
    const struct bench_delivery *d = &b->delivery;
    char rate[FORMAT_BYTES], a[FORMAT_BYTES], c[FORMAT_BYTES], e[FORMAT_BYTES], f[FORMAT_BYTES];
    fprintf(to, "throughput  %s over the measured phases of all runs\n",
            format_rate(rate, b->measured_answered, b->measured_span_ns));
    fprintf(to, "delivery    scheduled %s  sent %s  answered %s  lost %s",
            format_count(a, d->scheduled), format_count(c, d->sent), format_count(e, d->answered),
            format_count(f, d->lost));
    if (d->error)
        fprintf(to, "  error %s", format_count(a, d->error));
    if (d->unsent)
        fprintf(to, "  unsent %s", format_count(a, d->unsent));
    fprintf(to, ": %s\n",
            d->sent == 0  ? "nothing was sent"
            : d->balanced ? "balances, in the raw files and in the clients' counters"
            : d->agree    ? "does NOT balance"
                          : "raw files and clients' counters DISAGREE");
}

static void cpu_of(FILE *to, const char *what, int64_t planned, int64_t read_back)
{
    if (read_back >= 0)
        fprintf(to, "%s CPU %" PRId64, what, read_back);
    else if (planned >= 0 && planned != RIG_UNBOUND)
        fprintf(to, "%s CPU %" PRId64 " wanted but NOT bound", what, planned);
    else
        fprintf(to, "unbound");
}

static void server(const struct bench *b, FILE *to)
{
    const struct load_server *s = &b->control.shared->server;
    char used[FORMAT_BYTES];
    fprintf(to, "server      shape %s, %u worker%s, handler %s, port %s, scan %s, %s\n",
            taut_shape_name(s->effective.shape), s->workers, s->workers == 1 ? "" : "s",
            b->options.handler, taut_port_kind_name(s->effective.port_kind),
            taut_scan_name(s->effective.scan_variant == TAUT_SCAN_AUTO ? taut_scan_best()
                                                                       : s->effective.scan_variant),
            s->effective.busy_poll ? "busy-poll" : "sleeps when idle");
    for (uint32_t i = 0; i < s->workers; i++) {
        fprintf(to, "            worker %u: ", i);
        cpu_of(to, "on", b->rig.worker_cpu[i], s->worker[i].cpu_bound);
        if (atomic_load(&s->published))
            fprintf(to, ", %" PRIu64 " orders in, %" PRIu64 " answers out, %s of CPU\n",
                    s->worker[i].app_in, s->worker[i].app_out,
                    format_duration(used, s->worker[i].cpu_ns));
        else
            fprintf(to, ", its counters are not known: it did not end in order\n");
    }
}

static void clients(const struct bench *b, FILE *to)
{
    const struct load_plan *plan = &b->plan;
    fprintf(to, "clients     %u session%s over %u process%s, port %s, scan %s, %s\n",
            plan->sessions, plan->sessions == 1 ? "" : "s", plan->processes,
            plan->processes == 1 ? "" : "es", taut_port_kind_name(plan->port_kind),
            taut_scan_name(plan->scan_variant == TAUT_SCAN_AUTO ? taut_scan_best()
                                                                : plan->scan_variant),
            plan->busy_poll ? "busy-poll" : "sleeps when idle");
    for (uint32_t p = 0; p < plan->processes; p++) {
        const struct load_process *process = &b->control.processes[p];
        uint64_t used = 0, sent = 0; /* of the phases that the process finished */
        char text[FORMAT_BYTES];
        for (uint32_t run = 1; run <= plan->runs; run++)
            for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
                const struct load_account *account = load_account_of(&b->control, p, run, phase);
                used += account->cpu_ns;
                sent += account->sent;
            }
        fprintf(to, "            process %u: ", p);
        cpu_of(to, "on", plan->process_cpu[p] == LOAD_UNBOUND ? -1 : (int64_t)plan->process_cpu[p],
               process->cpu_bound);
        fprintf(to, ", %u session%s, %s%s of CPU, answers of ", plan->process_sessions[p],
                plan->process_sessions[p] == 1 ? "" : "s",
                sent == atomic_load(&process->sent) ? "" : "at least ",
                format_duration(text, used));
        if (process->reply_bytes_most == 0)
            fprintf(to, "unknown size: none came\n");
        else if (process->reply_bytes_least == process->reply_bytes_most)
            fprintf(to, "%u bytes\n", process->reply_bytes_most);
        else
            fprintf(to, "%u to %u bytes\n", process->reply_bytes_least, process->reply_bytes_most);
    }
}

static void clock_line(const struct bench *b, FILE *to)
{
    const struct taut_clock *clock = &b->plan.clock;
    double drift = 0;
    int known = 0;
    for (uint32_t p = 0; p < b->plan.processes; p++) {
        const struct load_process *process = &b->control.processes[p];
        double found = (double)process->drift_ppb / 1000;
        if (process->drift_known &&
            (!known || (found < 0 ? -found : found) > (drift < 0 ? -drift : drift)))
            drift = found;
        known |= (int)process->drift_known;
    }
    fprintf(to, "clock       %s", taut_clock_source_name(clock->source));
    if (clock->source == TAUT_CLOCK_TSC)
        fprintf(to, " at %.6f MHz, +-%" PRIu64 " ns", (double)clock->frequency_hz / 1e6,
                clock->uncertainty_ns);
    if (known)
        fprintf(to, ", drift %+.3f ppm", drift);
    else
        fprintf(to, ", drift not checked");
    fprintf(to, "\n");
}

static const char *member(const json_t *object, const char *section, const char *key)
{
    const json_t *value = json_object_get(json_object_get(object, section), key);
    return json_is_string(value) ? json_string_value(value) : "unknown";
}

static void machine(const struct bench *b, FILE *to)
{
    fprintf(to, "machine     Linux %s, %s, %u of %u CPUs usable, %u at once\n",
            member(b->provenance_after, "kernel", "release"),
            member(b->provenance_after, "processor", "model"), b->topology.usable_count,
            b->topology.online_count, b->topology.width);
    const json_t *foreign = json_object_get(b->quiet, "foreign_us");
    const json_t *window = json_object_get(b->quiet, "window_ns");
    if (json_is_integer(foreign) && json_is_integer(window)) {
        char text[FORMAT_BYTES], all[FORMAT_BYTES];
        fprintf(to, "others      used %s of CPU in these %s\n",
                format_duration(text, (uint64_t)json_integer_value(foreign) * 1000),
                format_duration(all, (uint64_t)json_integer_value(window)));
    }
}

/* The table of sessions that a run leaves which failed: those with a request in flight first. */
static void sessions(const struct bench *b, FILE *to, uint32_t most)
{
    static const struct table_column titles[] = {
        {"session", TABLE_RIGHT},       {"CompID", TABLE_LEFT},    {"process", TABLE_RIGHT},
        {"sent", TABLE_RIGHT},          {"answered", TABLE_RIGHT}, {"outstanding", TABLE_LEFT},
        {"last activity", TABLE_RIGHT},
    };
    struct table *table;
    uint32_t shown = 0;
    uint64_t last = 0;
    if (table_create(&table, titles, 7) != 0)
        return;
    for (uint32_t s = 0; s < b->plan.sessions; s++) {
        uint64_t at = atomic_load(&b->control.markers[s].last_activity_ns);
        last = at > last ? at : last;
    }
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t s = 0; s < b->plan.sessions && shown < most; s++) {
            const struct load_marker *m = &b->control.markers[s];
            uint64_t id = atomic_load(&m->outstanding_id), at = atomic_load(&m->last_activity_ns);
            char comp_id[64], ago[FORMAT_BYTES];
            if ((id != 0) != (pass == 0))
                continue;
            load_comp_id(&b->plan, s, comp_id);
            table_cell(table, "%u", s);
            table_cell(table, "%s", comp_id);
            table_cell(table, "%u", m->process);
            table_cell(table, "%" PRIu64, atomic_load(&m->sent));
            table_cell(table, "%" PRIu64, atomic_load(&m->answered));
            if (id)
                table_cell(table, "%012" PRIu64, id);
            else
                table_cell(table, "-");
            table_cell(table, "%s", at ? format_duration(ago, last - at) : "never");
            shown++;
        }
    fprintf(to, "\nsessions (outstanding first; last activity before that of the last one)\n");
    table_print(table, to, "  ");
    if (shown < b->plan.sessions)
        fprintf(to, "  ... %u more in %s/report.txt\n", b->plan.sessions - shown, b->folder);
    table_destroy(table);
}

void bench_text(const struct bench *b, FILE *to, uint32_t sessions_most)
{
    fprintf(to, "taut %s: %s\n", b->command->name, bench_status_name(b->status));
    for (uint32_t i = 0; i < b->reason_count; i++)
        fprintf(to, "  %s\n", b->reasons[i]);
    fprintf(to, "\n");
    figures(b, to);
    fprintf(to, "\n");
    delivery(b, to);
    if (b->with_server)
        server(b, to);
    else
        fprintf(to, "server      %s:%u, %s\n", b->plan.host, b->plan.port_number,
                b->plan.mode == LOAD_FIX ? "FIX.4.4" : "bytes without a session");
    clients(b, to);
    clock_line(b, to);
    machine(b, to);
    for (uint32_t i = 0; i < b->note_count; i++)
        fprintf(to, "note        %s\n", b->notes[i]);
    fprintf(to, "raw files   %s\n", b->raw_folder);
    if (bench_sessions_shown(b))
        sessions(b, to, sessions_most);
}
