/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/topology.h - which CPUs this process may use, how many of them at once, and where a thread
 * really runs.
 *
 * The CPUs that count are affinity mask ∩ cgroup cpuset; the number that may run at once is further
 * bounded by floor(cgroup quota / period), cgroup v1 and v2. Reading the topology changes nothing.
 * Binding a thread is always read back: a plan is not a placement.
 *
 * Threads: any; a struct taut_topology is read-only after taut_topology_read(). Blocking: file
 * reads in taut_topology_read() only.
 */
#ifndef TAUT_TOPOLOGY_H
#define TAUT_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include <taut/err.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAUT_CPUS_MAX 1024u

/* A set of CPU numbers, 0 .. TAUT_CPUS_MAX-1. Zero-initialised it is empty. */
struct taut_cpuset {
    uint64_t bits[TAUT_CPUS_MAX / 64];
};

struct taut_cpu {
    uint32_t cpu;     /* the kernel's number */
    uint32_t core;    /* logical number of the physical core, dense from 0 */
    uint32_t package; /* socket, dense from 0 */
    uint32_t node;    /* NUMA node, dense from 0 */
    uint32_t
        sibling; /* 0 = first hardware thread of its core among the usable ones, 1 = second... */
};

struct taut_topology {
    struct taut_cpuset usable; /* affinity ∩ cpuset */
    uint32_t usable_count;
    uint32_t core_count;   /* physical cores with a usable CPU */
    uint32_t node_count;   /* NUMA nodes with a usable CPU */
    uint32_t online_count; /* CPUs online on the machine */
    int64_t quota_us;      /* CPU time allowed per period, -1 = no quota */
    int64_t period_us;     /* 0 = no quota */
    uint32_t width;        /* CPUs that may run at once: min(usable, floor(quota)), at least 1 */
    struct taut_cpu cpus[TAUT_CPUS_MAX]; /* usable_count entries; first threads of cores first */
};

/* Parameters of taut_topology_read(); zero-initialised = this machine. For tests: other roots. */
struct taut_topology_options {
    uint32_t size;           /* sizeof(struct taut_topology_options); 0 = as in version 0.1 */
    const char *cgroup_root; /* NULL = /sys/fs/cgroup */
    const char *proc_root;   /* NULL = /proc */
};

/*
 * Reads the topology as seen by the calling thread. `options` may be NULL.
 *
 * Limits nest: the tightest quota of the thread's cgroup and of all groups above it counts. A limit
 * that can't be read or makes no sense is left out, and `err` (may be NULL) says so although the
 * result is 0; err->code is 0 when nothing was left out. A CPU whose core the system does not tell
 * counts as a core of its own. CPUs from TAUT_CPUS_MAX on are not considered.
 *
 * 0; TAUT_EINVAL: topology is NULL or options->size is none; TAUT_EOVERFLOW: every usable CPU is
 * beyond TAUT_CPUS_MAX; TAUT_ENOMEM; TAUT_EIO: hwloc can't read the machine.
 */
TAUT_API int taut_topology_read(struct taut_topology *topology,
                                const struct taut_topology_options *options, struct taut_err *err);

/* Set operations. A cpu >= TAUT_CPUS_MAX is never in a set; adding one is TAUT_EINVAL. */
TAUT_API int taut_cpuset_add(struct taut_cpuset *set, uint32_t cpu);
TAUT_API int taut_cpuset_has(const struct taut_cpuset *set, uint32_t cpu); /* 1 or 0 */
TAUT_API uint32_t taut_cpuset_count(const struct taut_cpuset *set);
TAUT_API uint32_t taut_cpuset_nth(const struct taut_cpuset *set,
                                  uint32_t n); /* TAUT_CPUS_MAX: none */

/*
 * Parses the kernel's list format ("0,2-3"; a newline may end it; "" is the empty set).
 * TAUT_EFORMAT with a text that names the bad part, TAUT_EINVAL for NULL; `set` is then unchanged.
 */
TAUT_API int taut_cpuset_parse(struct taut_cpuset *set, const char *list, struct taut_err *err);

/* Writes the list format, terminated unless `capacity` is 0; returns the length that it would need
 * without the NUL. */
TAUT_API size_t taut_cpuset_format(const struct taut_cpuset *set, char *text, size_t capacity);

/*
 * Binds the calling thread to one CPU and reads the mask back. 0 = took; TAUT_EINVAL = no such CPU
 * or outside the cpuset; TAUT_ESTATE = the call succeeded but the mask read back differs;
 * TAUT_EACCES = a sandbox forbids it.
 */
TAUT_API int taut_cpu_bind_self(uint32_t cpu, struct taut_err *err);

/* Binds the calling thread to a set, with the same read-back. The kernel drops CPUs outside the
 * cpuset from a set in silence: that is the TAUT_ESTATE here. An empty set or NULL: TAUT_EINVAL. */
TAUT_API int taut_cpuset_bind_self(const struct taut_cpuset *set, struct taut_err *err);

/* The mask of the calling thread. 0; TAUT_EINVAL for NULL, TAUT_ENOMEM, TAUT_EOVERFLOW. */
TAUT_API int taut_cpuset_of_self(struct taut_cpuset *set);

/* The CPU that the calling thread runs on at this moment; it may be another one right after. A
 * negative code where the kernel does not tell. */
TAUT_API int taut_cpu_current(void);

#ifdef __cplusplus
}
#endif
#endif
