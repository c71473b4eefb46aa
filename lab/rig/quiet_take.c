/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig/quiet_take.c - reads /proc and the cgroup once. Processes come and go meanwhile: one that is
 * gone between the listing and its file is left out, like one that ended before.
 */
#include "rig/quiet.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "rig/read.h"

#define STAT_LIMIT (64u * 1024u * 1024u)

/* "cpu3 1 2 3 ...": the columns after the name. Older kernels have fewer; those stay 0. */
static void parse_columns(struct quiet_cpu *cpu, const char *line)
{
    const char *position = line + strcspn(line, " \n");
    for (int i = 0; i < QUIET_COLUMNS && *position == ' '; i++) {
        char *end;
        position += strspn(position, " ");
        if (*position < '0' || *position > '9')
            break;
        cpu->ticks[i] = strtoull(position, &end, 10);
        position = end;
    }
    cpu->present = 1;
}

static void take_stat_line(struct quiet_reading *reading, const char *line)
{
    if (strncmp(line, "cpu ", 4) == 0) {
        parse_columns(&reading->total, line);
    } else if (strncmp(line, "cpu", 3) == 0 && line[3] >= '0' && line[3] <= '9') {
        unsigned long cpu = strtoul(line + 3, NULL, 10);
        for (uint32_t i = 0; i < reading->cpu_count; i++) {
            if (reading->cpus[i].cpu == cpu)
                parse_columns(&reading->cpus[i], line);
        }
    } else if (strncmp(line, "ctxt ", 5) == 0) {
        reading->context_switches = strtoull(line + 5, NULL, 10);
    } else if (strncmp(line, "processes ", 10) == 0) {
        reading->forks = strtoull(line + 10, NULL, 10);
    } else if (strncmp(line, "procs_running ", 14) == 0) {
        reading->runnable = strtoull(line + 14, NULL, 10);
    }
}

static void take_stat(struct quiet_reading *reading, const char *proc)
{
    char path[PATH_MAX];
    ssize_t length = -ENAMETOOLONG;
    char *text = NULL;
    if (snprintf(path, sizeof path, "%s/stat", proc) < (int)sizeof path)
        text = taut__file_read_whole(path, STAT_LIMIT, &length);
    if (text == NULL) {
        reading->stat_failure = (int)length;
        return;
    }
    for (const char *line = text; *line != '\0';) {
        size_t size = strcspn(line, "\n");
        take_stat_line(reading, line);
        line += size + (line[size] == '\n');
    }
    free(text);
    if (!reading->total.present)
        reading->stat_failure = -EPROTO;
}

/* "name value" lines of cpu.stat. v1 counts nanoseconds under another name. */
static void parse_throttle(struct quiet_reading *reading, const char *text)
{
    for (const char *line = text; *line != '\0';) {
        unsigned long long value = 0;
        if (sscanf(line, "nr_periods %llu", &value) == 1)
            reading->periods = value;
        else if (sscanf(line, "nr_throttled %llu", &value) == 1)
            reading->throttled = value;
        else if (sscanf(line, "throttled_usec %llu", &value) == 1)
            reading->throttled_us = value;
        else if (sscanf(line, "throttled_time %llu", &value) == 1)
            reading->throttled_us = value / 1000;
        size_t size = strcspn(line, "\n");
        line += size + (line[size] == '\n');
    }
}

static int take_throttle(struct quiet_reading *reading, const struct rig_roots *roots)
{
    struct taut__cgroup *cgroup = malloc(sizeof *cgroup);
    if (cgroup == NULL)
        return TAUT_ENOMEM;
    char path[2 * PATH_MAX], text[4096];
    int failure = taut__cgroup_find(cgroup, "cpu", roots != NULL ? roots->cgroup : NULL,
                                    roots != NULL ? roots->proc : NULL, NULL);
    if (failure == 0 && cgroup->version == 0)
        failure = -ENOENT;
    if (failure == 0)
        failure = taut__cgroup_path(cgroup, "cpu.stat", path, sizeof path);
    if (failure == 0) {
        ssize_t length = taut__file_read(path, text, sizeof text);
        failure = length < 0 ? (int)length : 0;
    }
    free(cgroup);
    reading->throttle_failure = failure;
    if (failure == 0)
        parse_throttle(reading, text);
    return TAUT_OK;
}

int rig__quiet_parse_stat(struct quiet_process *process, const char *text)
{
    /* "pid (name) state parent ...": the name may hold spaces and parentheses; the last one ends
     * it. */
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (open == NULL || close == NULL || close < open)
        return -EPROTO;
    char *end;
    *process = (struct quiet_process){0};
    process->pid = (int32_t)strtol(text, &end, 10);
    if (end == text)
        return -EPROTO;
    size_t length = (size_t)(close - open - 1);
    if (length >= sizeof process->name)
        length = sizeof process->name - 1;
    memcpy(process->name, open + 1, length);
    unsigned long long user, system, started;
    long long child_user, child_system;
    int parent;
    /* Fields 3 (state), 4 (parent), 14-17 (times), 22 (start): proc(5). */
    int found = sscanf(close + 1,
                       " %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %lld %lld %*s %*s "
                       "%*s %*s %llu",
                       &parent, &user, &system, &child_user, &child_system, &started);
    if (found != 6)
        return -EPROTO;
    process->parent = parent;
    process->started = started;
    process->ticks = user + system;
    process->child_ticks = (uint64_t)child_user + (uint64_t)child_system;
    return 0;
}

/* Calls `take` for every entry of a directory whose name is a number. 0 or a negated errno. */
static int each_number(const char *path, int (*take)(void *context, int32_t number), void *context)
{
    DIR *directory = opendir(path);
    if (directory == NULL)
        return -errno;
    struct dirent *entry;
    int result = 0;
    while (result == 0 && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            result = take(context, (int32_t)strtol(entry->d_name, NULL, 10));
    }
    closedir(directory);
    return result;
}

/* Room for one more element; NULL when out of memory. Grows by doubling. */
static void *grow(void *elements, uint32_t count, size_t size)
{
    if (count != 0 && (count & (count - 1)) != 0)
        return elements;
    return realloc(elements, (count == 0 ? 1 : 2 * (size_t)count) * size);
}

struct taking {
    struct quiet_reading *reading;
    const char *proc;
    int32_t pid; /* whose threads */
};

static int take_process(void *context, int32_t pid)
{
    struct taking *taking = context;
    struct quiet_reading *reading = taking->reading;
    char path[PATH_MAX], text[1024];
    struct quiet_process process;
    snprintf(path, sizeof path, "%s/%d/stat", taking->proc, pid);
    if (taut__file_read(path, text, sizeof text) < 0 || rig__quiet_parse_stat(&process, text) < 0)
        return 0;
    void *moved = grow(reading->processes, reading->process_count, sizeof process);
    if (moved == NULL)
        return -ENOMEM;
    reading->processes = moved;
    reading->processes[reading->process_count++] = process;
    return 0;
}

static int take_thread(void *context, int32_t tid)
{
    struct taking *taking = context;
    struct quiet_reading *reading = taking->reading;
    char path[PATH_MAX], text[4096];
    struct quiet_process identity;
    struct quiet_thread thread = {.tid = tid};
    snprintf(path, sizeof path, "%s/%d/task/%d/stat", taking->proc, taking->pid, tid);
    if (taut__file_read(path, text, sizeof text) < 0 || rig__quiet_parse_stat(&identity, text) < 0)
        return 0;
    thread.started = identity.started;
    snprintf(path, sizeof path, "%s/%d/task/%d/status", taking->proc, taking->pid, tid);
    if (taut__file_read(path, text, sizeof text) < 0)
        return 0;
    const char *voluntary = strstr(text, "\nvoluntary_ctxt_switches:");
    const char *involuntary = strstr(text, "\nnonvoluntary_ctxt_switches:");
    if (voluntary == NULL || involuntary == NULL)
        return 0;
    thread.voluntary = strtoull(strchr(voluntary, ':') + 1, NULL, 10);
    thread.involuntary = strtoull(strchr(involuntary, ':') + 1, NULL, 10);
    void *moved = grow(reading->threads, reading->thread_count, sizeof thread);
    if (moved == NULL)
        return -ENOMEM;
    reading->threads = moved;
    reading->threads[reading->thread_count++] = thread;
    return 0;
}

static int compare_processes(const void *left, const void *right)
{
    const struct quiet_process *a = left, *b = right;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int compare_threads(const void *left, const void *right)
{
    const struct quiet_thread *a = left, *b = right;
    return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Marks the own process and everything below it, however deep. */
static void mark_ours(struct quiet_reading *reading, int32_t own_pid)
{
    int changed = 1;
    for (uint32_t i = 0; i < reading->process_count; i++)
        reading->processes[i].ours = reading->processes[i].pid == own_pid;
    while (changed) {
        changed = 0;
        for (uint32_t i = 0; i < reading->process_count; i++) {
            struct quiet_process *process = &reading->processes[i];
            if (process->ours)
                continue;
            const struct quiet_process key = {.pid = process->parent};
            const struct quiet_process *parent = bsearch(
                &key, reading->processes, reading->process_count, sizeof key, compare_processes);
            if (parent != NULL && parent->ours) {
                process->ours = 1;
                changed = 1;
            }
        }
    }
}

static int take_processes(struct quiet_reading *reading, const char *proc, int32_t own_pid)
{
    struct taking taking = {.reading = reading, .proc = proc};
    reading->process_failure = each_number(proc, take_process, &taking);
    if (reading->process_failure == -ENOMEM)
        return TAUT_ENOMEM;
    if (reading->process_count > 0)
        qsort(reading->processes, reading->process_count, sizeof reading->processes[0],
              compare_processes);
    mark_ours(reading, own_pid);
    reading->thread_failure = reading->process_failure;
    for (uint32_t i = 0; i < reading->process_count; i++) {
        char path[PATH_MAX];
        if (!reading->processes[i].ours)
            continue;
        taking.pid = reading->processes[i].pid;
        snprintf(path, sizeof path, "%s/%d/task", proc, taking.pid);
        int failure = each_number(path, take_thread, &taking);
        if (failure == -ENOMEM)
            return TAUT_ENOMEM;
        /* A child that has just ended takes its threads along; anything else is a failure. */
        if (failure < 0 && failure != -ENOENT && failure != -ESRCH)
            reading->thread_failure = failure;
    }
    if (reading->thread_count > 0)
        qsort(reading->threads, reading->thread_count, sizeof reading->threads[0], compare_threads);
    return TAUT_OK;
}

int rig__quiet_take(struct quiet_reading *reading, const struct rig_roots *roots, int32_t own_pid,
                    const struct taut_cpuset *cpus, uint64_t now_ns)
{
    static const char *const resources[] = {"cpu", "memory", "io"};
    const char *proc = rig__proc(roots);
    *reading = (struct quiet_reading){.now_ns = now_ns};
    reading->cpu_count = cpus != NULL ? taut_cpuset_count(cpus) : 0;
    if (reading->cpu_count > 0) {
        reading->cpus = calloc(reading->cpu_count, sizeof reading->cpus[0]);
        if (reading->cpus == NULL)
            return TAUT_ENOMEM;
        for (uint32_t i = 0; i < reading->cpu_count; i++)
            reading->cpus[i].cpu = taut_cpuset_nth(cpus, i);
    }
    take_stat(reading, proc);
    for (int i = 0; i < QUIET_RESOURCES; i++)
        reading->pressure_us[i] = rig__pressure_total_us(proc, resources[i]);
    int code = take_throttle(reading, roots);
    if (code == TAUT_OK)
        code = take_processes(reading, proc, own_pid);
    if (code < 0)
        rig__quiet_release(reading);
    return code;
}

void rig__quiet_release(struct quiet_reading *reading)
{
    free(reading->cpus);
    free(reading->processes);
    free(reading->threads);
    *reading = (struct quiet_reading){0};
}
