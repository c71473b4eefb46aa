/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig/quiet.h - one reading of what the machine is doing. The difference of two is made in quiet.c.
 */
#ifndef LAB_RIG_QUIET_H
#define LAB_RIG_QUIET_H

#include "rig/rig.h"

/* The columns of a "cpu" line in /proc/stat, in its ticks. Guest time is within user and nice. */
enum quiet_column {
    QUIET_USER,
    QUIET_NICE,
    QUIET_SYSTEM,
    QUIET_IDLE,
    QUIET_IOWAIT,
    QUIET_IRQ,
    QUIET_SOFTIRQ,
    QUIET_STEAL,
    QUIET_COLUMNS
};

struct quiet_cpu {
    uint32_t cpu;
    int present; /* 0: no such line in this reading */
    uint64_t ticks[QUIET_COLUMNS];
};

struct quiet_process {
    int32_t pid, parent;
    uint64_t started;     /* ticks since boot: with the pid, an identity */
    uint64_t ticks;       /* its own user and system time */
    uint64_t child_ticks; /* that of its children that it has waited for */
    int ours;             /* the own process or a descendant */
    char name[64];
};

struct quiet_thread {
    int32_t tid;
    uint64_t started;
    uint64_t voluntary, involuntary;
};

enum quiet_resource { QUIET_CPU, QUIET_MEMORY, QUIET_IO, QUIET_RESOURCES };

/* *_failure: 0, or the negated errno for which the members after it are missing. */
struct quiet_reading {
    uint64_t now_ns;
    int stat_failure;
    struct quiet_cpu total;
    struct quiet_cpu *cpus; /* the watched ones */
    uint32_t cpu_count;
    uint64_t context_switches, forks, runnable;
    int64_t pressure_us[QUIET_RESOURCES]; /* negative: an errno */
    int throttle_failure;
    uint64_t periods, throttled, throttled_us;
    int process_failure;
    struct quiet_process *processes; /* by pid */
    uint32_t process_count;
    int thread_failure;
    struct quiet_thread *threads; /* ours, by tid */
    uint32_t thread_count;
};

/* Takes a reading. 0, or TAUT_ENOMEM with nothing to release. */
int rig__quiet_take(struct quiet_reading *reading, const struct rig_roots *roots, int32_t own_pid,
                    const struct taut_cpuset *cpus, uint64_t now_ns);

void rig__quiet_release(struct quiet_reading *reading);

/* Reads one line of /proc/PID/stat or .../task/TID/stat. 0, or -EPROTO. */
int rig__quiet_parse_stat(struct quiet_process *process, const char *text);

#endif
