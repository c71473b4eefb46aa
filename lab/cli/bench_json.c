/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_json.c - recipe and result as JSON objects; docs/bench-pool.schema.json is the
 * contract. A refused quantile is null, an unanswered one the text "inf".
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "capture/quantile.h"
#include "capture/raw.h"
#include "cli/bench.h"

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value ? value : json_null());
}

static void set_u64(json_t *object, const char *key, uint64_t value)
{
    set(object, key, json_integer((json_int_t)value));
}

/* A text of anybody's: bytes that are no UTF-8 must not make it vanish. */
static json_t *text_of(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char *copy = strdup(text);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = copy ? json_string(copy) : NULL;
    free(copy);
    return value;
}

static json_t *nanoseconds(uint64_t ns)
{
    if (ns == QUANTILE_REFUSED)
        return json_null();
    if (ns == QUANTILE_INFINITE)
        return json_string("inf");
    return json_integer((json_int_t)ns);
}

static json_t *known(uint64_t ns)
{
    return ns ? json_integer((json_int_t)ns) : json_null();
}

static json_t *rate(uint64_t count, uint64_t span_ns)
{
    return json_real(span_ns ? (double)count * 1e9 / (double)span_ns : 0);
}

static json_t *texts(const char (*list)[BENCH_REASON_BYTES], uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, text_of(list[i]));
    return array;
}

/* --- recipe ---------------------------------------------------------------------------------- */

static json_t *amount_json(const struct load_amount *amount)
{
    json_t *object = json_object();
    if (amount->duration_ns)
        set_u64(object, "duration_ns", amount->duration_ns);
    else
        set_u64(object, "messages_per_session", amount->messages);
    return object;
}

json_t *bench_raw_recipe_json(const struct bench *b)
{
    const struct load_plan *plan = &b->plan;
    json_t *o = json_object();
    set(o, "command", json_string(b->command->name));
    set(o, "loop", json_string("closed"));
    set(o, "protocol", json_string(plan->mode == LOAD_FIX ? "fix" : "echo"));
    set_u64(o, "sessions", plan->sessions);
    set_u64(o, "processes", plan->processes);
    set_u64(o, "runs", plan->runs);
    set(o, "warmup", amount_json(&plan->amount[LOAD_WARMUP]));
    set(o, "measure", amount_json(&plan->amount[LOAD_MEASURE]));
    set(o, "port", json_string(taut_port_kind_name(plan->port_kind)));
    set(o, "busy_poll", json_boolean(plan->busy_poll));
    set(o, "scan", json_string(b->options.scan));
    if (b->with_server) {
        set(o, "shape", json_string(taut_shape_name(b->gateway.shape)));
        set_u64(o, "workers", b->rig.workers);
        set(o, "handler", text_of(b->options.handler));
    } else {
        set(o, "host", text_of(plan->host));
        set_u64(o, "host_port", plan->port_number);
    }
    return o;
}

json_t *bench_recipe_json(const struct bench *b)
{
    json_t *o = bench_raw_recipe_json(b);
    set_u64(o, "stall_timeout_ns", b->plan.stall_timeout_ns);
    set_u64(o, "logon_timeout_ns", b->plan.logon_timeout_ns);
    set_u64(o, "heartbeat_s", b->plan.heartbeat_s);
    set(o, "sender", text_of(b->plan.sender));
    set(o, "target", text_of(b->plan.target));
    set_u64(o, "begun_utc_ns", b->begun_utc_ns);
    set(o, "cpus", b->options.cpus ? text_of(b->options.cpus) : NULL);
    set(o, "unbound", json_boolean(b->options.unbound));
    set(o, "plan", rig_plan_json(&b->rig));
    set(o, "provenance", json_incref(b->provenance_before));
    return o;
}

/* --- runs ------------------------------------------------------------------------------------ */

static json_t *run_json(const struct bench *b, uint32_t run, uint32_t phase)
{
    static const char *const names[LOAD_QUANTILES] = {"p50_ns", "p90_ns", "p99_ns", "p999_ns",
                                                      "p9999_ns"};
    const struct load_figures *f = &b->figures[run - 1][phase];
    uint64_t answered = f->by_status[RAW_ANSWERED] + f->by_status[RAW_LATE];
    json_t *o = json_object();
    set_u64(o, "run", run);
    set(o, "phase", json_string(phase == LOAD_WARMUP ? "warmup" : "measure"));
    set_u64(o, "n", f->n);
    set_u64(o, "answered", answered);
    set_u64(o, "lost", f->by_status[RAW_LOST]);
    set_u64(o, "error", f->by_status[RAW_ERROR]);
    set(o, "min_ns", answered ? json_integer((json_int_t)f->min_ns) : NULL);
    for (uint32_t q = 0; q < LOAD_QUANTILES; q++)
        set(o, names[q], nanoseconds(f->quantile_ns[q]));
    set(o, "max_ns", answered ? json_integer((json_int_t)f->max_ns) : NULL);
    if (answered)
        set(o, "worst",
            json_pack("{s:I, s:I, s:I, s:I}", "process", (json_int_t)f->process_of_worst, "session",
                      (json_int_t)f->session_of_worst, "record", (json_int_t)f->record_of_worst,
                      "utc_ns", (json_int_t)f->utc_of_worst_ns));
    set(o, "throughput_per_s", rate(answered, bench_span_ns(f)));
    set_u64(o, "span_ns", bench_span_ns(f));
    set(o, "wall_ns", known(bench_wall_ns(b, run, phase)));
    set(o, "server_cpu_ns", known(bench_server_cpu_ns(b, run, phase)));
    set(o, "client_cpu_ns", known(bench_client_cpu_ns(b, run, phase)));
    return o;
}

static json_t *runs_json(const struct bench *b)
{
    json_t *list = json_array();
    for (uint32_t run = 1; run <= b->plan.runs; run++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++)
            if (bench_phase_shown(b, run, phase))
                json_array_append_new(list, run_json(b, run, phase));
    return list;
}

static json_t *delivery_json(const struct bench_delivery *d)
{
    json_t *o = json_object(), *raw = json_object();
    set_u64(o, "scheduled", d->scheduled);
    set_u64(o, "sent", d->sent);
    set_u64(o, "answered", d->answered);
    set_u64(o, "lost", d->lost);
    set_u64(o, "error", d->error);
    set_u64(o, "unsent", d->unsent);
    set_u64(o, "derived_processes", d->derived);
    set(o, "balanced", json_boolean(d->balanced));
    set_u64(raw, "sent", d->raw_sent);
    set_u64(raw, "answered", d->raw_answered);
    set_u64(raw, "lost", d->raw_lost);
    set_u64(raw, "error", d->raw_error);
    set(o, "raw_files", raw);
    return o;
}

/* --- what was in effect ---------------------------------------------------------------------- */

static json_t *cpu_or_null(int64_t cpu)
{
    return cpu >= 0 && cpu < (int64_t)TAUT_CPUS_MAX ? json_integer(cpu) : json_null();
}

static json_t *planned_cpu(uint32_t cpu)
{
    return cpu == RIG_UNBOUND ? json_null() : json_integer(cpu);
}

/* A budget, null where it has no end. */
static json_t *budget_json(uint64_t spin_ns)
{
    return spin_ns == TAUT_NEVER_NS ? NULL : json_integer((json_int_t)spin_ns);
}

/* How a port waited: caught + parked + expired are its polls. */
static void set_waits(json_t *one, const struct taut_port_stats *port)
{
    set_u64(one, "polls", port->polls);
    set_u64(one, "sleeps", port->sleeps);
    set_u64(one, "caught", port->caught);
    set_u64(one, "parked", port->parked);
    set_u64(one, "expired", port->expired);
    set_u64(one, "contended", port->contended);
    set_u64(one, "late_max_ns", port->late_max_ns);
}

static json_t *server_json(const struct bench *b)
{
    const struct load_server *server = &b->control.shared->server;
    json_t *o = json_object(), *workers = json_array();
    set(o, "shape", json_string(taut_shape_name(server->effective.shape)));
    set(o, "handler", text_of(b->options.handler));
    set(o, "port", json_string(taut_port_kind_name(server->effective.port_kind)));
    set(o, "busy_poll", json_boolean(server->effective.busy_poll));
    set(o, "spin_ns", budget_json(server->effective.spin_ns));
    set(o, "scan",
        json_string(taut_scan_name(server->effective.scan_variant == TAUT_SCAN_AUTO
                                       ? taut_scan_best()
                                       : server->effective.scan_variant)));
    set_u64(o, "tcp_port", server->port_number);
    set_u64(o, "pid", (uint64_t)server->pid);
    for (uint32_t i = 0; i < server->workers; i++) {
        const struct taut_gateway_stats *w = &server->worker[i];
        json_t *one = json_object();
        set_u64(one, "worker", i);
        set_u64(one, "tid", w->tid);
        set(one, "cpu_planned", planned_cpu(b->rig.worker_cpu[i]));
        set(one, "cpu_read_back", cpu_or_null(w->cpu_bound));
        set_u64(one, "app_in", w->app_in);
        set_u64(one, "app_out", w->app_out);
        set_u64(one, "bytes_assembled", w->bytes_assembled);
        set_u64(one, "connections_peak", w->connections_peak);
        set_waits(one, &w->port);
        json_array_append_new(workers, one);
    }
    set(o, "workers", workers);
    return o;
}

static json_t *clients_json(const struct bench *b)
{
    json_t *list = json_array();
    for (uint32_t p = 0; p < b->plan.processes; p++) {
        const struct load_process *process = &b->control.processes[p];
        json_t *one = json_object();
        set_u64(one, "process", p);
        set_u64(one, "pid", (uint64_t)process->pid);
        set_u64(one, "sessions", b->plan.process_sessions[p]);
        set(one, "cpu_planned", planned_cpu(b->plan.process_cpu[p]));
        set(one, "cpu_read_back", cpu_or_null(process->cpu_bound));
        set(one, "port", json_string(taut_port_kind_name(process->effective.kind)));
        set(one, "busy_poll", json_boolean(process->effective.busy_poll));
        set(one, "spin_ns", budget_json(process->effective.spin_ns));
        set_u64(one, "reply_bytes_least", process->reply_bytes_least);
        set_u64(one, "reply_bytes_most", process->reply_bytes_most);
        set_u64(one, "heartbeats_sent", process->heartbeats_sent);
        set_u64(one, "raw_waits", process->raw_stalls);
        set_waits(one, &process->port);
        set_u64(one, "sends_short", process->port.sends_short);
        set(one, "clock_drift_ppb", process->drift_known ? json_integer(process->drift_ppb) : NULL);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *effective_json(const struct bench *b)
{
    const struct taut_clock *clock = &b->plan.clock;
    const struct bench_options *wanted = &b->options;
    json_t *o = json_object();
    set(o, "protocol", json_string(b->plan.mode == LOAD_FIX ? "fix" : "echo"));
    set(o, "loop", json_string("closed"));
    set_u64(o, "sessions", b->plan.sessions);
    set_u64(o, "processes", b->plan.processes);
    set_u64(o, "runs", b->plan.runs);
    set(o, "warmup", amount_json(&b->plan.amount[LOAD_WARMUP]));
    set(o, "measure", amount_json(&b->plan.amount[LOAD_MEASURE]));
    set(o, "port", json_string(taut_port_kind_name(b->plan.port_kind)));
    set(o, "busy_poll", json_boolean(wanted->busy_poll));
    set(o, "scan",
        json_string(taut_scan_name(b->plan.scan_variant == TAUT_SCAN_AUTO ? taut_scan_best()
                                                                          : b->plan.scan_variant)));
    set(o, "clock",
        json_pack("{s:s, s:I, s:I}", "source", taut_clock_source_name(clock->source),
                  "frequency_hz", (json_int_t)clock->frequency_hz, "uncertainty_ns",
                  (json_int_t)clock->uncertainty_ns));
    set(o, "kernel", json_incref(json_object_get(b->provenance_after, "kernel")));
    set(o, "host", text_of(b->plan.host));
    set_u64(o, "tcp_port", b->plan.port_number);
    if (b->with_server) {
        set(o, "shape", json_string(taut_shape_name(b->control.shared->server.effective.shape)));
        set_u64(o, "workers", b->control.shared->server.workers);
        set(o, "server", server_json(b));
    }
    set(o, "clients", clients_json(b));
    set(o, "plan", rig_plan_json(&b->rig));
    return o;
}

static json_t *cpu_json(const struct bench *b)
{
    json_t *o = json_object(), *workers = json_array(), *clients = json_array();
    uint64_t wall = 0, server = 0, client = 0;
    for (uint32_t run = 1; run <= b->plan.runs; run++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
            wall += bench_wall_ns(b, run, phase);
            server += bench_server_cpu_ns(b, run, phase);
            client += bench_client_cpu_ns(b, run, phase);
        }
    set(o, "wall_ns", known(wall));
    set(o, "server_ns", known(server));
    set(o, "client_ns", known(client));
    for (uint32_t i = 0; b->with_server && i < b->control.shared->server.workers; i++)
        json_array_append_new(workers,
                              json_pack("{s:I, s:I}", "worker", (json_int_t)i, "cpu_ns",
                                        (json_int_t)b->control.shared->server.worker[i].cpu_ns));
    for (uint32_t p = 0; p < b->plan.processes; p++) {
        uint64_t process_ns = 0, thread_ns = 0;
        for (uint32_t run = 1; run <= b->plan.runs; run++)
            for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
                process_ns += load_account_of(&b->control, p, run, phase)->cpu_ns;
                thread_ns += load_account_of(&b->control, p, run, phase)->thread_ns;
            }
        json_array_append_new(clients, json_pack("{s:I, s:I, s:I}", "process", (json_int_t)p,
                                                 "cpu_ns", (json_int_t)process_ns, "thread_ns",
                                                 (json_int_t)thread_ns));
    }
    set(o, "workers", workers);
    set(o, "clients", clients);
    return o;
}

/* --- the result ------------------------------------------------------------------------------ */

static json_t *sessions_json(const struct bench *b)
{
    json_t *list = json_array();
    for (uint32_t s = 0; s < b->plan.sessions; s++) {
        const struct load_marker *m = &b->control.markers[s];
        char comp_id[64];
        json_t *one = json_object();
        load_comp_id(&b->plan, s, comp_id);
        set_u64(one, "session", s);
        set(one, "comp_id", text_of(comp_id));
        set_u64(one, "process", m->process);
        set_u64(one, "sent", atomic_load(&m->sent));
        set_u64(one, "answered", atomic_load(&m->answered));
        set_u64(one, "outstanding", atomic_load(&m->outstanding_id) != 0);
        set_u64(one, "last_activity_ns", atomic_load(&m->last_activity_ns));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *fault_json(const struct bench *b)
{
    json_t *o;
    if (b->result.fault == LOAD_FINE)
        return json_null();
    o = json_object();
    set(o, "name", json_string(load_fault_name(b->result.fault)));
    set(o, "text", text_of(b->result.text));
    set(o, "process",
        b->result.process == UINT32_MAX ? NULL : json_integer((json_int_t)b->result.process));
    return o;
}

json_t *bench_result_json(const struct bench *b)
{
    json_t *o = json_object();
    set(o, "command", json_string(b->command->name));
    set(o, "version", json_string(TAUT_VERSION));
    set(o, "status", json_string(bench_status_name(b->status)));
    set(o, "reasons", texts(b->reasons, b->reason_count));
    set(o, "notes", texts(b->notes, b->note_count));
    set(o, "fault", fault_json(b));
    set(o, "interrupted", json_boolean(b->result.interrupted));
    set(o, "closed_loop", json_true());
    set(o, "time", json_string("service"));
    set(o, "runs", runs_json(b));
    set(o, "throughput_per_s", rate(b->measured_answered, b->measured_span_ns));
    set(o, "delivery", delivery_json(&b->delivery));
    set(o, "dir", text_of(b->folder));
    set(o, "raw_dir", text_of(b->raw_folder));
    set(o, "effective", effective_json(b));
    set(o, "cpu", cpu_json(b));
    if (bench_sessions_shown(b))
        set(o, "sessions", sessions_json(b));
    set(o, "begun_utc_ns", json_integer((json_int_t)b->begun_utc_ns));
    set(o, "quiet", json_incref(b->quiet));
    set(o, "provenance",
        json_pack("{s:O*, s:O*}", "before", b->provenance_before, "after", b->provenance_after));
    return o;
}
