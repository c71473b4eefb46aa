/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig/quiet.c - what happened on the machine between two readings.
 *
 * Foreign time is what the CPUs were busy less what our processes used. It includes processes that
 * came and went in between, which no listing shows: the part that can be put down to a process that
 * is still there is given beside it. All of it is as fine as the kernel's ticks (10 ms).
 */
#include "rig/quiet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig/read.h"

#define COMPETITORS_NAMED 5u

struct rig_quiet {
    struct rig_roots roots; /* texts are owned copies */
    char *texts[3];
    int32_t own_pid;
    struct taut_cpuset cpus;
    struct quiet_reading start;
};

struct competitor {
    const struct quiet_process *process;
    uint64_t ticks;
};

static uint64_t ticks_to_us(uint64_t ticks)
{
    return ticks * (1000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Counters of the kernel can step back by a tick between two reads (iowait does): not a difference.
 */
static uint64_t difference(uint64_t later, uint64_t earlier)
{
    return later > earlier ? later - earlier : 0;
}

static uint64_t column_us(const struct quiet_cpu *start, const struct quiet_cpu *end, int column)
{
    return ticks_to_us(difference(end->ticks[column], start->ticks[column]));
}

static uint64_t busy_us(const struct quiet_cpu *start, const struct quiet_cpu *end)
{
    static const int columns[] = {QUIET_USER, QUIET_NICE, QUIET_SYSTEM, QUIET_IRQ, QUIET_SOFTIRQ};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        sum += column_us(start, end, columns[i]);
    return sum;
}

static uint64_t own_ticks(const struct quiet_reading *reading)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < reading->process_count; i++) {
        if (reading->processes[i].ours)
            sum += reading->processes[i].ticks + reading->processes[i].child_ticks;
    }
    return sum;
}

/* The same process in an earlier reading, or NULL: the pid may have been used again. */
static const struct quiet_process *find_earlier(const struct quiet_reading *reading,
                                                const struct quiet_process *process)
{
    uint32_t low = 0, high = reading->process_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (reading->processes[middle].pid < process->pid)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == reading->process_count || reading->processes[low].pid != process->pid ||
        reading->processes[low].started != process->started)
        return NULL;
    return &reading->processes[low];
}

static void rank_competitor(struct competitor *ranking, const struct quiet_process *process,
                            uint64_t ticks)
{
    struct competitor next = {process, ticks};
    for (uint32_t i = 0; i < COMPETITORS_NAMED; i++) {
        if (next.ticks > ranking[i].ticks) {
            struct competitor displaced = ranking[i];
            ranking[i] = next;
            next = displaced;
        }
    }
}

static json_t *competitors_json(const struct competitor *ranking, int *failed)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < COMPETITORS_NAMED && ranking[i].ticks > 0; i++) {
        json_t *one = json_object();
        rig__put(one, "pid", json_integer(ranking[i].process->pid), failed);
        rig__put(one, "name", rig__text(ranking[i].process->name), failed);
        rig__put(one, "cpu_us", json_integer((json_int_t)ticks_to_us(ranking[i].ticks)), failed);
        if (json_array_append_new(list, one) < 0)
            *failed = 1;
    }
    return list;
}

static void put_us(json_t *object, const char *name, uint64_t us, int failure, int *failed)
{
    rig__put(object, name, failure < 0 ? rig__unavailable(failure) : json_integer((json_int_t)us),
             failed);
}

static void put_processes(json_t *object, const struct quiet_reading *start,
                          const struct quiet_reading *end, int *failed)
{
    int process_failure = end->process_failure < 0 ? end->process_failure : start->process_failure;
    int stat_failure = end->stat_failure < 0 ? end->stat_failure : start->stat_failure;
    struct competitor ranking[COMPETITORS_NAMED] = {{0}};
    uint64_t seen = 0;
    for (uint32_t i = 0; i < end->process_count; i++) {
        const struct quiet_process *process = &end->processes[i];
        if (process->ours)
            continue;
        const struct quiet_process *earlier = find_earlier(start, process);
        uint64_t ticks = difference(process->ticks, earlier != NULL ? earlier->ticks : 0);
        seen += ticks;
        rank_competitor(ranking, process, ticks);
    }
    uint64_t busy = busy_us(&start->total, &end->total);
    uint64_t own = ticks_to_us(difference(own_ticks(end), own_ticks(start)));
    put_us(object, "busy_us", busy, stat_failure, failed);
    put_us(object, "own_us", own, process_failure, failed);
    put_us(object, "foreign_us", difference(busy, own),
           stat_failure < 0 ? stat_failure : process_failure, failed);
    put_us(object, "foreign_seen_us", ticks_to_us(seen), process_failure, failed);
    rig__put(object, "competitors",
             process_failure < 0 ? rig__unavailable(process_failure)
                                 : competitors_json(ranking, failed),
             failed);
}

static void put_machine(json_t *object, const struct quiet_reading *start,
                        const struct quiet_reading *end, int *failed)
{
    int failure = end->stat_failure < 0 ? end->stat_failure : start->stat_failure;
    const struct quiet_cpu *from = &start->total, *to = &end->total;
    put_us(object, "idle_us", column_us(from, to, QUIET_IDLE), failure, failed);
    put_us(object, "iowait_us", column_us(from, to, QUIET_IOWAIT), failure, failed);
    put_us(object, "irq_us", column_us(from, to, QUIET_IRQ), failure, failed);
    put_us(object, "softirq_us", column_us(from, to, QUIET_SOFTIRQ), failure, failed);
    put_us(object, "steal_us", column_us(from, to, QUIET_STEAL), failure, failed);
    put_us(object, "context_switches", difference(end->context_switches, start->context_switches),
           failure, failed);
    put_us(object, "forks", difference(end->forks, start->forks), failure, failed);
    put_us(object, "runnable_start", start->runnable, start->stat_failure, failed);
    put_us(object, "runnable_end", end->runnable, end->stat_failure, failed);
}

static json_t *pressure_json(const struct quiet_reading *start, const struct quiet_reading *end,
                             int *failed)
{
    static const char *const names[] = {"cpu", "memory", "io"};
    json_t *object = json_object();
    for (int i = 0; i < QUIET_RESOURCES; i++) {
        int64_t from = start->pressure_us[i], to = end->pressure_us[i];
        int failure = to < 0 ? (int)to : from < 0 ? (int)from : 0;
        put_us(object, names[i], failure < 0 ? 0 : difference((uint64_t)to, (uint64_t)from),
               failure, failed);
    }
    return object;
}

static json_t *throttle_json(const struct quiet_reading *start, const struct quiet_reading *end,
                             int *failed)
{
    int failure = end->throttle_failure < 0 ? end->throttle_failure : start->throttle_failure;
    json_t *object = json_object();
    put_us(object, "periods", difference(end->periods, start->periods), failure, failed);
    put_us(object, "throttled", difference(end->throttled, start->throttled), failure, failed);
    put_us(object, "us", difference(end->throttled_us, start->throttled_us), failure, failed);
    return object;
}

/* Our threads, each against itself: those that ended took their counts with them. */
static json_t *switches_json(const struct quiet_reading *start, const struct quiet_reading *end,
                             int *failed)
{
    int failure = end->thread_failure < 0 ? end->thread_failure : start->thread_failure;
    uint64_t voluntary = 0, involuntary = 0;
    uint32_t still_there = 0, k = 0;
    for (uint32_t i = 0; i < end->thread_count; i++) {
        const struct quiet_thread *thread = &end->threads[i];
        while (k < start->thread_count && start->threads[k].tid < thread->tid)
            k++;
        static const struct quiet_thread fresh;
        const struct quiet_thread *earlier = &fresh;
        if (k < start->thread_count && start->threads[k].tid == thread->tid &&
            start->threads[k].started == thread->started) {
            earlier = &start->threads[k];
            still_there++;
        }
        voluntary += difference(thread->voluntary, earlier->voluntary);
        involuntary += difference(thread->involuntary, earlier->involuntary);
    }
    json_t *object = json_object();
    put_us(object, "voluntary", voluntary, failure, failed);
    put_us(object, "involuntary", involuntary, failure, failed);
    put_us(object, "threads", end->thread_count, failure, failed);
    put_us(object, "threads_ended", start->thread_count - still_there, failure, failed);
    return object;
}

static json_t *cpus_json(const struct quiet_reading *start, const struct quiet_reading *end,
                         int *failed)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < end->cpu_count; i++) {
        const struct quiet_cpu *from = &start->cpus[i], *to = &end->cpus[i];
        int failure = end->stat_failure < 0          ? end->stat_failure
                      : start->stat_failure < 0      ? start->stat_failure
                      : from->present && to->present ? 0
                                                     : -ENODEV;
        json_t *one = json_object();
        rig__put(one, "cpu", json_integer(to->cpu), failed);
        put_us(one, "busy_us", busy_us(from, to), failure, failed);
        put_us(one, "irq_us", column_us(from, to, QUIET_IRQ), failure, failed);
        put_us(one, "softirq_us", column_us(from, to, QUIET_SOFTIRQ), failure, failed);
        put_us(one, "steal_us", column_us(from, to, QUIET_STEAL), failure, failed);
        if (json_array_append_new(list, one) < 0)
            *failed = 1;
    }
    return list;
}

static int copy_roots(struct rig_quiet *quiet, const struct rig_roots *roots)
{
    const char *const from[] = {roots->proc, roots->sys, roots->cgroup};
    for (int i = 0; i < 3; i++) {
        quiet->texts[i] = from[i] != NULL ? strdup(from[i]) : NULL;
        if (from[i] != NULL && quiet->texts[i] == NULL)
            return TAUT_ENOMEM;
    }
    quiet->roots = (struct rig_roots){quiet->texts[0], quiet->texts[1], quiet->texts[2]};
    return TAUT_OK;
}

int rig_quiet_start(struct rig_quiet **quiet, const struct rig_quiet_options *options,
                    struct taut_err *err)
{
    static const struct rig_quiet_options defaults;
    if (quiet == NULL)
        return taut_err_set(err, TAUT_EINVAL, "nowhere to keep the reading");
    if (options == NULL)
        options = &defaults;
    *quiet = NULL;
    struct rig_quiet *made = calloc(1, sizeof *made);
    if (made == NULL)
        return taut_err_set(err, TAUT_ENOMEM, "no memory for a reading of the machine");
    made->own_pid = options->own_pid != 0 ? options->own_pid : getpid();
    if (options->cpus != NULL)
        made->cpus = *options->cpus;
    int code = copy_roots(made, &options->roots);
    if (code == TAUT_OK)
        code = rig__quiet_take(&made->start, &made->roots, made->own_pid, &made->cpus,
                               options->now_ns != 0 ? options->now_ns : taut_now_ns());
    if (code < 0) {
        rig_quiet_destroy(made);
        return taut_err_set(err, code, "no memory for a reading of the machine");
    }
    *quiet = made;
    return TAUT_OK;
}

json_t *rig_quiet_read(const struct rig_quiet *quiet, uint64_t now_ns)
{
    struct quiet_reading end;
    const struct quiet_reading *start = &quiet->start;
    if (rig__quiet_take(&end, &quiet->roots, quiet->own_pid, &quiet->cpus,
                        now_ns != 0 ? now_ns : taut_now_ns()) < 0)
        return NULL;
    int failed = 0;
    json_t *object = json_object();
    put_us(object, "window_ns", difference(end.now_ns, start->now_ns), 0, &failed);
    put_processes(object, start, &end, &failed);
    put_machine(object, start, &end, &failed);
    rig__put(object, "pressure_us", pressure_json(start, &end, &failed), &failed);
    rig__put(object, "throttling", throttle_json(start, &end, &failed), &failed);
    rig__put(object, "own_switches", switches_json(start, &end, &failed), &failed);
    rig__put(object, "cpus", cpus_json(start, &end, &failed), &failed);
    rig__quiet_release(&end);
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

void rig_quiet_destroy(struct rig_quiet *quiet)
{
    if (quiet == NULL)
        return;
    for (int i = 0; i < 3; i++)
        free(quiet->texts[i]);
    rig__quiet_release(&quiet->start);
    free(quiet);
}
