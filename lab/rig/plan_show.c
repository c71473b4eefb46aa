/* SPDX-License-Identifier: BSD-2-Clause */
/* rig/plan_show.c - a plan in words, as text and as JSON. */
#include "rig/plan.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

static void add_note(struct rig_plan *plan, const char *format, ...) TAUT_PRINTF(2, 3);

static void add_note(struct rig_plan *plan, const char *format, ...)
{
    TAUT_CHECK(plan->note_count < RIG_NOTES_MAX);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(plan->notes[plan->note_count++], sizeof plan->notes[0], format, arguments);
    va_end(arguments);
}

/* NUMA nodes under the CPUs of the plan. */
static uint32_t count_nodes(const struct rig_plan *plan, const struct taut_topology *topology)
{
    struct taut_cpuset nodes = {{0}};
    for (uint32_t i = 0; i < topology->usable_count; i++) {
        const struct taut_cpu *cpu = &topology->cpus[i];
        if (taut_cpuset_has(&plan->server_cpus, cpu->cpu) ||
            taut_cpuset_has(&plan->client_cpus, cpu->cpu))
            taut_cpuset_add(&nodes, cpu->node);
    }
    return taut_cpuset_count(&nodes);
}

void rig__plan_explain(struct rig_plan *plan, const struct taut_topology *topology)
{
    uint32_t server = taut_cpuset_count(&plan->server_cpus);
    uint32_t clients = taut_cpuset_count(&plan->client_cpus);
    plan->note_count = 0;
    if (plan->quota_us >= 0 && plan->width < plan->usable_count)
        add_note(plan, "a CPU quota of %lld us every %lld us lets %u of %u CPUs run at once",
                 (long long)plan->quota_us, (long long)plan->period_us, plan->width,
                 plan->usable_count);
    else if (plan->quota_us >= 0)
        add_note(plan, "a CPU quota of %lld us every %lld us is in force",
                 (long long)plan->quota_us, (long long)plan->period_us);
    if (server == 0) {
        add_note(plan, "nothing is bound: the kernel places all threads");
        return;
    }
    if (plan->overlap)
        add_note(plan, "one CPU for all: every time includes waits of server and clients for "
                       "each other");
    if (plan->crowded_server > 0)
        add_note(plan, "%u workers share %u CPU%s", plan->workers, server, server > 1 ? "s" : "");
    if (plan->crowded_client > 0)
        add_note(plan, "%u client processes share %u CPU%s", plan->processes, clients,
                 clients > 1 ? "s" : "");
    if (plan->shared_cores > 0)
        add_note(plan, "server and clients share %u physical core%s by hardware threads",
                 plan->shared_cores, plan->shared_cores > 1 ? "s" : "");
    if (plan->house_shared && !plan->overlap)
        add_note(plan,
                 "acceptor and coordinator share CPU %u with a client; both are idle in a "
                 "phase",
                 plan->house_cpu);
    uint32_t nodes = count_nodes(plan, topology);
    if (nodes > 1)
        add_note(plan, "server and clients lie on %u NUMA nodes", nodes);
}

/* Appends like snprintf: *length grows by what is wanted, what fits is written. */
static void append(char *text, size_t capacity, size_t *length, const char *format, ...)
    TAUT_PRINTF(4, 5);

static void append(char *text, size_t capacity, size_t *length, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = *length < capacity ? vsnprintf(text + *length, capacity - *length, format, arguments)
                                  : vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size > 0)
        *length += (size_t)size;
}

static void append_cpus(char *text, size_t capacity, size_t *length, const struct taut_cpuset *set)
{
    char list[512];
    taut_cpuset_format(set, list, sizeof list);
    if (list[0] == '\0')
        append(text, capacity, length, " (not bound)\n");
    else
        append(text, capacity, length, " on CPU %s\n", list);
}

size_t rig_plan_text(const struct rig_plan *plan, char *text, size_t capacity)
{
    size_t length = 0;
    if (capacity > 0)
        text[0] = '\0';
    append(text, capacity, &length, "server    %u worker%s", plan->workers,
           plan->workers > 1 ? "s" : "");
    append_cpus(text, capacity, &length, &plan->server_cpus);
    append(text, capacity, &length, "clients   %u process%s, %u session%s", plan->processes,
           plan->processes > 1 ? "es" : "", plan->sessions, plan->sessions > 1 ? "s" : "");
    append_cpus(text, capacity, &length, &plan->client_cpus);
    if (plan->house_cpu != RIG_UNBOUND)
        append(text, capacity, &length, "acceptor  and coordinator on CPU %u\n", plan->house_cpu);
    append(text, capacity, &length, "machine   %u usable CPU%s on %u core%s, ", plan->usable_count,
           plan->usable_count > 1 ? "s" : "", plan->core_count, plan->core_count > 1 ? "s" : "");
    if (plan->candidate_count != plan->usable_count)
        append(text, capacity, &length, "%u of them chosen, ", plan->candidate_count);
    append(text, capacity, &length, "%u at once\n", plan->width);
    for (uint32_t i = 0; i < plan->note_count; i++)
        append(text, capacity, &length, "note      %s\n", plan->notes[i]);
    return length;
}

static json_t *cpu_or_null(uint32_t cpu)
{
    return cpu == RIG_UNBOUND ? json_null() : json_integer(cpu);
}

static json_t *cpus_json(const uint32_t *cpus, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        if (json_array_append_new(list, cpu_or_null(cpus[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *numbers_json(const uint32_t *numbers, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        if (json_array_append_new(list, json_integer(numbers[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *notes_json(const struct rig_plan *plan)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < plan->note_count; i++) {
        if (json_array_append_new(list, json_string(plan->notes[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *set_json(const struct taut_cpuset *set)
{
    /* Every second of 1,024 CPUs, the longest list, takes under 2,500 bytes. */
    char list[4096];
    taut_cpuset_format(set, list, sizeof list);
    return json_string(list);
}

json_t *rig_plan_json(const struct rig_plan *plan)
{
    json_t *object = json_object();
    int failed = 0;
#define PUT(name, value) failed |= json_object_set_new(object, (name), (value)) < 0
    PUT("sessions", json_integer(plan->sessions));
    PUT("workers", json_integer(plan->workers));
    PUT("processes", json_integer(plan->processes));
    PUT("server_cpus", set_json(&plan->server_cpus));
    PUT("client_cpus", set_json(&plan->client_cpus));
    PUT("worker_cpu", cpus_json(plan->worker_cpu, plan->workers));
    PUT("process_cpu", cpus_json(plan->process_cpu, plan->processes));
    PUT("process_sessions", numbers_json(plan->process_sessions, plan->processes));
    PUT("house_cpu", cpu_or_null(plan->house_cpu));
    PUT("cpus_usable", json_integer(plan->usable_count));
    PUT("cpus_chosen_from", json_integer(plan->candidate_count));
    PUT("cpus_at_once", json_integer(plan->width));
    PUT("cores", json_integer(plan->core_count));
    PUT("quota_us", plan->quota_us < 0 ? json_null() : json_integer(plan->quota_us));
    PUT("period_us", plan->quota_us < 0 ? json_null() : json_integer(plan->period_us));
    PUT("overlap", json_boolean(plan->overlap));
    PUT("shared_cores", json_integer(plan->shared_cores));
    PUT("workers_beyond_cpus", json_integer(plan->crowded_server));
    PUT("processes_beyond_cpus", json_integer(plan->crowded_client));
    PUT("house_shared", json_boolean(plan->house_shared));
    PUT("notes", notes_json(plan));
#undef PUT
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}
