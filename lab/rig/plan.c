/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig/plan.c - who runs where. A pure function of a topology and a request: the same machine and
 * the same wishes give the same plan, and a test can ask for any machine.
 */
#include "rig/plan.h"

#include <string.h>

#include "base/check.h"

#define DEFAULT_SESSIONS  32u
#define SESSIONS_PER_SIDE 4u /* fewer sessions than this do not keep a worker or a process busy */
#define HOUSE_CORES_FROM  5u /* from so many cores on, one is kept for what is neither side's */

/* The CPUs to choose from, best first, and what is known of them. */
struct candidates {
    uint32_t count;      /* all that may be used */
    uint32_t budget;     /* how many of them may run at once */
    uint32_t core_count; /* different physical cores among them */
    const struct taut_cpu *order[TAUT_CPUS_MAX];
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static int check_request(const struct rig_plan_request *request,
                         const struct taut_topology *topology, struct taut_err *err)
{
    uint32_t sessions = request->sessions != 0 ? request->sessions : DEFAULT_SESSIONS;
    if (request->workers > RIG_WORKERS_MAX)
        return taut_err_set(err, TAUT_EINVAL, "%u workers: at most %u", request->workers,
                            RIG_WORKERS_MAX);
    if (request->single != 0 && request->workers > 1)
        return taut_err_set(err, TAUT_EINVAL, "%u workers: the shape single has one",
                            request->workers);
    if (request->processes > RIG_PROCESSES_MAX)
        return taut_err_set(err, TAUT_EINVAL, "%u client processes: at most %u", request->processes,
                            RIG_PROCESSES_MAX);
    if (request->processes > sessions)
        return taut_err_set(err, TAUT_EINVAL, "%u client processes for %u sessions",
                            request->processes, sessions);
    if (request->cpus == NULL)
        return TAUT_OK;
    if (taut_cpuset_count(request->cpus) == 0)
        return taut_err_set(err, TAUT_EINVAL, "the list of CPUs is empty");
    for (uint32_t i = 0; i < taut_cpuset_count(request->cpus); i++) {
        uint32_t cpu = taut_cpuset_nth(request->cpus, i);
        char usable[128];
        taut_cpuset_format(&topology->usable, usable, sizeof usable);
        if (!taut_cpuset_has(&topology->usable, cpu))
            return taut_err_set(err, TAUT_EINVAL, "CPU %u may not be used here: usable are %s", cpu,
                                usable);
    }
    return TAUT_OK;
}

/*
 * Orders the candidates: the first usable thread of every core, then the second ones. The topology
 * ranks threads among all usable CPUs; a list of CPUs may have left the first of a core out, so
 * they are ranked again.
 */
static void find_candidates(struct candidates *found, const struct taut_topology *topology,
                            const struct rig_plan_request *request)
{
    uint16_t rank[TAUT_CPUS_MAX];
    uint16_t threads_of_core[TAUT_CPUS_MAX] = {0};
    const struct taut_cpu *all[TAUT_CPUS_MAX];
    uint32_t highest_rank = 0;
    *found = (struct candidates){0};
    for (uint32_t i = 0; i < topology->usable_count; i++) {
        const struct taut_cpu *cpu = &topology->cpus[i];
        if (request->cpus != NULL && !taut_cpuset_has(request->cpus, cpu->cpu))
            continue;
        TAUT_CHECK(cpu->core < TAUT_CPUS_MAX);
        rank[found->count] = threads_of_core[cpu->core]++;
        found->core_count += rank[found->count] == 0;
        highest_rank = most(highest_rank, rank[found->count]);
        all[found->count++] = cpu;
    }
    uint32_t placed = 0;
    for (uint32_t wanted = 0; wanted <= highest_rank; wanted++) {
        for (uint32_t i = 0; i < found->count; i++) {
            if (rank[i] == wanted)
                found->order[placed++] = all[i];
        }
    }
    found->budget = most(1, least(found->count, topology->width));
}

/* How many workers and processes, where the request does not say. */
static void choose_counts(struct rig_plan *plan, const struct candidates *candidates,
                          const struct rig_plan_request *request)
{
    /* One core's threads count only where there is no second core. */
    uint32_t cores = candidates->core_count >= 2 ? least(candidates->budget, candidates->core_count)
                                                 : least(candidates->budget, 2);
    uint32_t both = cores >= HOUSE_CORES_FROM ? cores - 1 : cores;
    uint32_t cap = most(1, plan->sessions / SESSIONS_PER_SIDE);
    /* Where they can't be halved evenly, the clients get the odd core: a client also keeps time. */
    uint32_t workers = most(1, both / 2), processes = most(1, both - both / 2);
    if (request->workers != 0 || request->single != 0) {
        workers = most(1, request->workers);
        processes = least(processes, both > workers ? both - workers : 1);
    } else if (request->processes != 0) {
        workers = least(workers, both > request->processes ? both - request->processes : 1);
        workers = least(workers, cap);
    } else {
        workers = least(workers, cap);
    }
    plan->workers = least(workers, RIG_WORKERS_MAX);
    plan->processes = request->processes != 0 ? request->processes
                                              : least(least(processes, cap), RIG_PROCESSES_MAX);
}

/* How many CPUs each side gets, in proportion to what it runs, at least one each. */
static void share_out(const struct rig_plan *plan, uint32_t budget, uint32_t *server,
                      uint32_t *clients)
{
    uint32_t wanted = plan->workers + plan->processes;
    if (wanted <= budget) {
        *server = plan->workers;
        *clients = plan->processes;
        return;
    }
    uint32_t part = (budget * plan->workers + wanted / 2) / wanted;
    *server = least(most(part, 1), budget - 1);
    *clients = budget - *server;
    /* Shares of less than there is to run are never larger than what runs on them. */
    TAUT_CHECK(*server <= plan->workers && *clients <= plan->processes);
}

/* A free CPU for what is idle in a phase: on a core of its own, else beside clients; else
 * RIG_UNBOUND. */
static uint32_t free_house_cpu(const struct candidates *candidates, uint32_t used, uint32_t server)
{
    uint32_t beside_clients = RIG_UNBOUND;
    for (uint32_t i = used; i < candidates->budget; i++) {
        int beside_server = 0, beside_client = 0;
        for (uint32_t k = 0; k < used; k++) {
            if (candidates->order[k]->core != candidates->order[i]->core)
                continue;
            beside_server |= k < server;
            beside_client |= k >= server;
        }
        if (!beside_server && !beside_client)
            return candidates->order[i]->cpu;
        if (!beside_server && beside_clients == RIG_UNBOUND)
            beside_clients = candidates->order[i]->cpu;
    }
    return beside_clients;
}

static uint32_t count_shared_cores(const struct candidates *candidates, uint32_t server,
                                   uint32_t used)
{
    uint8_t seen[TAUT_CPUS_MAX] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < server; i++)
        seen[candidates->order[i]->core] = 1;
    for (uint32_t i = server; i < used; i++) {
        uint8_t *core = &seen[candidates->order[i]->core];
        count += *core == 1;
        if (*core == 1)
            *core = 2;
    }
    return count;
}

static void place(struct rig_plan *plan, const struct candidates *candidates)
{
    uint32_t server = 1, clients = 1, first_client = 0;
    if (candidates->budget > 1) {
        share_out(plan, candidates->budget, &server, &clients);
        first_client = server;
    } else {
        plan->overlap = 1;
    }
    for (uint32_t i = 0; i < server; i++)
        taut_cpuset_add(&plan->server_cpus, candidates->order[i]->cpu);
    for (uint32_t i = 0; i < clients; i++)
        taut_cpuset_add(&plan->client_cpus, candidates->order[first_client + i]->cpu);
    TAUT_CHECK(server >= 1 && clients >= 1);
    for (uint32_t i = 0; i < plan->workers; i++)
        plan->worker_cpu[i] = taut_cpuset_nth(&plan->server_cpus, i % server);
    for (uint32_t i = 0; i < plan->processes; i++)
        plan->process_cpu[i] = taut_cpuset_nth(&plan->client_cpus, i % clients);
    plan->crowded_server = plan->workers - server;
    plan->crowded_client = plan->processes - clients;
    if (!plan->overlap) {
        plan->shared_cores = count_shared_cores(candidates, server, server + clients);
        plan->house_cpu = free_house_cpu(candidates, server + clients, server);
    } else {
        plan->house_cpu = RIG_UNBOUND;
    }
    if (plan->house_cpu == RIG_UNBOUND) {
        plan->house_cpu = plan->process_cpu[plan->processes - 1];
        plan->house_shared = 1;
    }
}

static void leave_unbound(struct rig_plan *plan)
{
    for (uint32_t i = 0; i < plan->workers; i++)
        plan->worker_cpu[i] = RIG_UNBOUND;
    for (uint32_t i = 0; i < plan->processes; i++)
        plan->process_cpu[i] = RIG_UNBOUND;
    plan->house_cpu = RIG_UNBOUND;
}

static void share_sessions(struct rig_plan *plan)
{
    TAUT_CHECK(plan->processes >= 1);
    uint32_t each = plan->sessions / plan->processes, rest = plan->sessions % plan->processes;
    for (uint32_t i = 0; i < plan->processes; i++)
        plan->process_sessions[i] = each + (i < rest ? 1 : 0);
}

int rig_plan_make(struct rig_plan *plan, const struct taut_topology *topology,
                  const struct rig_plan_request *request, struct taut_err *err)
{
    static const struct rig_plan_request nothing;
    if (plan == NULL || topology == NULL || topology->usable_count == 0)
        return taut_err_set(err, TAUT_EINVAL, "no topology to plan for");
    if (request == NULL)
        request = &nothing;
    int code = check_request(request, topology, err);
    if (code < 0)
        return code;
    struct candidates candidates;
    find_candidates(&candidates, topology, request);
    *plan = (struct rig_plan){
        .sessions = request->sessions != 0 ? request->sessions : DEFAULT_SESSIONS,
        .usable_count = topology->usable_count,
        .core_count = topology->core_count,
        .width = topology->width,
        .candidate_count = candidates.count,
        .quota_us = topology->quota_us,
        .period_us = topology->period_us,
    };
    choose_counts(plan, &candidates, request);
    share_sessions(plan);
    if (request->unbound != 0)
        leave_unbound(plan);
    else
        place(plan, &candidates);
    rig__plan_explain(plan, topology);
    return TAUT_OK;
}
