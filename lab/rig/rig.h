/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig/rig.h - the machine under a measurement: who runs where, what was in effect, who else ran.
 *
 *   rig_plan_*        workers, client processes and their CPUs, chosen from a topology
 *   rig_provenance()  what was in effect, as a JSON object
 *   rig_quiet_*       what the machine did beside us over a window, as a JSON object of deltas
 *
 * What can't be read is recorded as the text "unavailable: REASON (errno N)" in the place of its
 * value, never left out: rig_available() tells the two apart. JSON members come in a fixed order.
 *
 * Threads: any; a plan is plain data, a struct rig_quiet has one owner. Blocking: reads of /proc
 * and /sys (tens of milliseconds on a machine with thousands of processes): never inside a measured
 * phase. Allocation: jansson objects, which the caller releases with json_decref().
 */
#ifndef LAB_RIG_RIG_H
#define LAB_RIG_RIG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include <taut/clock.h>
#include <taut/err.h>
#include <taut/topology.h>

/* Where to read; NULL = the machine's own. For tests: other roots. */
struct rig_roots {
    const char *proc;   /* /proc */
    const char *sys;    /* /sys */
    const char *cgroup; /* /sys/fs/cgroup */
};

/* --- plan ------------------------------------------------------------------------------------ */

#define RIG_WORKERS_MAX   64u
#define RIG_PROCESSES_MAX 64u
#define RIG_NOTES_MAX     8u
#define RIG_UNBOUND       UINT32_MAX /* in a place for a CPU: not bound to any */

/* What is wanted. Zero means "choose". */
struct rig_plan_request {
    uint32_t sessions;              /* over all client processes; 0 = 32 */
    uint32_t workers;               /* server threads that serve, 1..RIG_WORKERS_MAX */
    uint32_t processes;             /* client processes, 1..min(sessions, RIG_PROCESSES_MAX) */
    uint32_t single;                /* 1: the shape has one worker, which also accepts */
    uint32_t unbound;               /* 1: choose the counts only, bind nothing */
    const struct taut_cpuset *cpus; /* use only these, a subset of the usable ones; NULL = all */
};

/*
 * What was chosen. Worker i runs on worker_cpu[i], which is CPU number i (cyclically, in ascending
 * order) of server_cpus: the rule of struct taut_gateway_options.cpus. Client process i has
 * process_sessions[i] sessions, numbered on from those of process i-1, and runs on process_cpu[i].
 */
struct rig_plan {
    uint32_t sessions, workers, processes;
    struct taut_cpuset server_cpus; /* empty: unbound */
    struct taut_cpuset client_cpus;
    uint32_t worker_cpu[RIG_WORKERS_MAX];
    uint32_t process_cpu[RIG_PROCESSES_MAX];
    uint32_t process_sessions[RIG_PROCESSES_MAX];
    uint32_t house_cpu; /* acceptor thread and the bench's own process: both idle in a phase */

    /* What the choice was made from. */
    uint32_t usable_count, core_count, width, candidate_count;
    int64_t quota_us, period_us;

    /* What it costs; each has a note. */
    uint32_t overlap;        /* 1: server and clients share a CPU */
    uint32_t shared_cores;   /* physical cores that both sides use, on different CPUs */
    uint32_t crowded_server; /* workers beyond one a CPU */
    uint32_t crowded_client; /* processes beyond one a CPU */
    uint32_t house_shared;   /* 1: house_cpu also runs a worker or a client */
    uint32_t note_count;
    char notes[RIG_NOTES_MAX][160]; /* one sentence each, for a human */
};

/*
 * Chooses. Deterministic: a pure function of topology and request.
 *
 * Server and clients get disjoint CPUs wherever two CPUs may run at once; one physical core each
 * first, hardware threads of a used core only when the request asks for more. A CPU quota counts:
 * no more CPUs than may run at once are used. Chosen counts: half of the cores each (one core less
 * from five on, kept for the acceptor, the coordinator and the kernel's own work), at most one
 * worker and one process per four sessions. Two CPUs: worker on the first, client on the second.
 * One CPU: all on it, and a note says so.
 *
 * 0; TAUT_EINVAL: a count out of range, more processes than sessions, `single` with more than one
 * worker, or `cpus` empty or naming a CPU that is not usable (the text names it).
 */
int rig_plan_make(struct rig_plan *plan, const struct taut_topology *topology,
                  const struct rig_plan_request *request, struct taut_err *err);

/* The plan as lines of text, each ended by a newline; always terminated. Returns the length that
 * it would need, without the NUL. */
size_t rig_plan_text(const struct rig_plan *plan, char *text, size_t capacity);

/* The plan as an object; NULL when out of memory. New reference. */
json_t *rig_plan_json(const struct rig_plan *plan);

/* --- provenance ------------------------------------------------------------------------------ */

/*
 * What was in effect: kernel, CPU model, CPUs, quota, clock source, frequency policy, huge pages,
 * mitigations, load, pressure, versions, compiler, build-id of the running executable. Read anew at
 * each call. `roots` may be NULL. New reference; NULL only when out of memory.
 */
json_t *rig_provenance(const struct rig_roots *roots);

/*
 * The build-id of the running executable as lower-case hex, from its loaded ELF notes. Returns its
 * length, or TAUT_ENOENT: linked without one, or TAUT_ENOSPC: does not fit `capacity` with its NUL.
 */
int rig_build_id(char *hex, size_t capacity);

/* 1: the value was read; 0: it is an "unavailable: ..." text or NULL. */
int rig_available(const json_t *value);

/* --- quietness ------------------------------------------------------------------------------- */

struct rig_quiet; /* opaque */

struct rig_quiet_options {
    struct rig_roots roots;
    pid_t own_pid;                  /* it and its descendants are ours; 0 = this process */
    const struct taut_cpuset *cpus; /* CPUs to report one by one; NULL = none. Copied. */
    uint64_t now_ns;                /* the moment of start, for tests; 0 = taut_now_ns() */
};

/* Takes the first reading. `options` may be NULL. 0, TAUT_ENOMEM, or TAUT_EINVAL for a NULL
 * `quiet`; unreadable files are recorded, not errors. */
int rig_quiet_start(struct rig_quiet **quiet, const struct rig_quiet_options *options,
                    struct taut_err *err);

/*
 * Takes the second reading and returns the difference: window, CPU time of others (by process, the
 * five largest named), steal, interrupts, pressure, context switches, throttling, and our own
 * involuntary switches. Our processes must still be alive, else their threads count as ended.
 * May be called again: always relative to the start. `now_ns` as above. New reference; NULL only
 * when out of memory.
 */
json_t *rig_quiet_read(const struct rig_quiet *quiet, uint64_t now_ns);

void rig_quiet_destroy(struct rig_quiet *quiet); /* NULL is fine */

#endif
