/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/control.c - the memory that all processes of one invocation share.
 *
 * One anonymous mapping, made before the fork: there is no name to clean up, and what a killed
 * process wrote stays. Every word has one writer, except the barrier's counter, the stop word and
 * the count of faults.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "load/load.h"

#define EDGES 3u

static size_t part(size_t *at, size_t bytes)
{
    size_t begin = *at;
    *at = (begin + bytes + 127) & ~(size_t)127;
    return begin;
}

static int check_plan(const struct load_plan *plan, struct taut_err *err)
{
    uint64_t sum = 0;
    if (plan->processes < 1 || plan->processes > LOAD_PROCESSES_MAX)
        return taut_err_set(err, TAUT_EINVAL, "processes: %u is outside 1 .. %u", plan->processes,
                            LOAD_PROCESSES_MAX);
    if (plan->sessions < plan->processes || plan->sessions > LOAD_SESSIONS_MAX)
        return taut_err_set(err, TAUT_EINVAL, "sessions: %u is outside %u (processes) .. %u",
                            plan->sessions, plan->processes, LOAD_SESSIONS_MAX);
    if (plan->runs < 1 || plan->runs > LOAD_RUNS_MAX)
        return taut_err_set(err, TAUT_EINVAL, "runs: %u is outside 1 .. %u", plan->runs,
                            LOAD_RUNS_MAX);
    for (uint32_t i = 0; i < plan->processes; i++)
        sum += plan->process_sessions[i];
    if (sum != plan->sessions)
        return taut_err_set(err, TAUT_EINVAL, "the processes' sessions add up to %llu, not %u",
                            (unsigned long long)sum, plan->sessions);
    if (!plan->host || !plan->raw_folder || !plan->sender || !plan->target)
        return taut_err_set(err, TAUT_EINVAL, "host, raw folder, sender or target is missing");
    if (!*plan->sender || strlen(plan->sender) > LOAD_COMP_ID_BYTES)
        return taut_err_set(err, TAUT_EINVAL, "sender: wants 1 to %u bytes", LOAD_COMP_ID_BYTES);
    if (!*plan->target || strlen(plan->target) > LOAD_COMP_ID_BYTES)
        return taut_err_set(err, TAUT_EINVAL, "target: wants 1 to %u bytes", LOAD_COMP_ID_BYTES);
    for (uint32_t i = 0; i < LOAD_PHASES; i++)
        if (plan->amount[i].messages && plan->amount[i].duration_ns)
            return taut_err_set(err, TAUT_EINVAL, "a phase is messages or a time, not both");
    return 0;
}

int load_control_create(struct load_control *control, const struct load_plan *plan,
                        struct taut_err *err)
{
    size_t at = 0;
    memset(control, 0, sizeof(*control));
    int code = check_plan(plan, err);
    if (code)
        return code;
    size_t shared = part(&at, sizeof(struct load_shared));
    size_t processes = part(&at, sizeof(struct load_process) * plan->processes);
    size_t edges = part(&at, sizeof(struct load_edge) * plan->runs * EDGES);
    size_t accounts =
        part(&at, sizeof(struct load_account) * plan->processes * plan->runs * LOAD_PHASES);
    size_t markers = part(&at, sizeof(struct load_marker) * plan->sessions);
    uint8_t *map = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return taut_err_set(err, TAUT_ENOMEM, "no %zu bytes of shared memory", at);
    control->plan = plan;
    control->bytes = at;
    control->shared = (void *)(map + shared);
    control->processes = (void *)(map + processes);
    control->edges = (void *)(map + edges);
    control->accounts = (void *)(map + accounts);
    control->markers = (void *)(map + markers);
    for (uint32_t p = 0; p < plan->processes; p++) {
        control->processes[p].cpu_bound = -1;
        uint32_t first = load_first_session(plan, p);
        for (uint32_t s = 0; s < plan->process_sessions[p]; s++)
            control->markers[first + s].process = p;
    }
    return 0;
}

void load_control_destroy(struct load_control *control)
{
    if (control->shared)
        munmap(control->shared, control->bytes);
    memset(control, 0, sizeof(*control));
}

struct load_account *load_account_of(const struct load_control *control, uint32_t process,
                                     uint32_t run, uint32_t phase)
{
    return &control
                ->accounts[((size_t)process * control->plan->runs + run - 1) * LOAD_PHASES + phase];
}

struct load_edge *load_edge_of(const struct load_control *control, uint32_t run, uint32_t edge)
{
    return &control->edges[(size_t)(run - 1) * EDGES + edge];
}

uint32_t load_first_session(const struct load_plan *plan, uint32_t process)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < process; i++)
        first += plan->process_sessions[i];
    return first;
}

void load_comp_id(const struct load_plan *plan, uint32_t session, char *text)
{
    snprintf(text, 64, "%.48s%04u", plan->sender, session + 1);
}

int load_raw_path(const struct load_plan *plan, uint32_t run, uint32_t process, char *path,
                  size_t capacity)
{
    int length =
        snprintf(path, capacity, "%s/run-%u-process-%u.traw", plan->raw_folder, run, process);
    return length < 0 || (size_t)length >= capacity ? TAUT_ETOOBIG : 0;
}

void load_fault_set(const struct load_control *control, uint32_t process, uint32_t fault, int code,
                    const char *text)
{
    struct load_process *p = &control->processes[process];
    if (atomic_load_explicit(&p->fault, memory_order_relaxed) != LOAD_FINE)
        return;
    snprintf(p->text, sizeof(p->text), "%s", text);
    p->code = code;
    p->fault_order =
        1 + atomic_fetch_add_explicit(&control->shared->fault_count, 1, memory_order_relaxed);
    /* pairs with the acquire load in load_crew_run(): the text is there when the fault is */
    atomic_store_explicit(&p->fault, fault, memory_order_release);
    uint32_t go_on = LOAD_GO_ON;
    atomic_compare_exchange_strong_explicit(&control->shared->stop, &go_on, LOAD_STOP_FAULT,
                                            memory_order_relaxed, memory_order_relaxed);
}

const char *load_fault_name(uint32_t fault)
{
    static const char *const names[LOAD_FAULTS] = {
        [LOAD_FINE] = "none",
        [LOAD_STALLED] = "stalled",
        [LOAD_WRONG_ANSWER] = "wrong-answer",
        [LOAD_REJECTED] = "rejected",
        [LOAD_GARBLED] = "garbled",
        [LOAD_PEER_LOST] = "peer-lost",
        [LOAD_REFUSED] = "refused",
        [LOAD_LOGON_REFUSED] = "logon-refused",
        [LOAD_NOT_FIX] = "not-fix",
        [LOAD_TOO_SLOW] = "too-slow",
        [LOAD_TOO_BIG] = "too-big",
        [LOAD_DISK_FULL] = "disk-full",
        [LOAD_FILE] = "file",
        [LOAD_SETUP] = "setup",
        [LOAD_SERVER] = "server",
        [LOAD_SERVER_DIED] = "server-died",
        [LOAD_CLIENT_DIED] = "client-died",
        [LOAD_HUNG] = "hung",
    };
    return fault < LOAD_FAULTS ? names[fault] : "unknown";
}

static uint64_t cpu_of(pid_t pid)
{
    clockid_t id;
    struct timespec used;
    if (pid <= 0 || clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * TAUT_NS_PER_S + (uint64_t)used.tv_nsec;
}

void load_barrier_arrive(const struct load_control *control, uint32_t run, uint32_t edge)
{
    struct load_edge *e = load_edge_of(control, run, edge);
    uint64_t full = ((uint64_t)(run - 1) * EDGES + edge + 1) * control->plan->processes;
    /* acq_rel: the last to arrive sees what the others wrote before they came, and whoever sees
     * the edge sees it too. */
    if (atomic_fetch_add_explicit(&control->shared->arrived, 1, memory_order_acq_rel) + 1 != full)
        return;
    e->server_cpu_ns = cpu_of(control->shared->server.pid);
    /* pairs with the acquire loads of those who wait */
    atomic_store_explicit(&e->time_ns, taut_clock_read(&control->plan->clock),
                          memory_order_release);
}
