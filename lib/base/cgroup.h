/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/cgroup.h - where this process stands in the cgroup tree, and what the tree allows it.
 *
 * Limits nest: a process is bound by its own group and by every group above it. Both hierarchies
 * are read: v1 where /proc/self/cgroup lists the controller by name, else v2.
 *
 * Threads: any. Blocking: file reads.
 */
#ifndef TAUT_BASE_CGROUP_H
#define TAUT_BASE_CGROUP_H

#include <limits.h>
#include <stdint.h>

#include <taut/topology.h>

/* The directory of one controller, and the group within it. */
struct taut__cgroup {
    int version;          /* 1 or 2; 0 = the controller is not in use */
    char mount[PATH_MAX]; /* "/sys/fs/cgroup/cpu" */
    char group[PATH_MAX]; /* "" for the root, else "/a/b", no slash at the end */
};

/*
 * Finds the calling thread's group of `controller` ("cpu", "cpuset"). Roots may be NULL. A group
 * that is not there below the mount (a container that sees its own group as the root, or a path
 * that leads out of the namespace) becomes the nearest one above it that is. Returns 0, also with
 * version 0, or a negated errno with the path in err: membership could not be read.
 */
int taut__cgroup_find(struct taut__cgroup *cgroup, const char *controller, const char *cgroup_root,
                      const char *proc_root, struct taut_err *err);

/* Path of a file in the group; -ENAMETOOLONG where it does not fit. */
int taut__cgroup_path(const struct taut__cgroup *cgroup, const char *file, char *path,
                      size_t capacity);

/* One level up; 0 at the root already. */
int taut__cgroup_up(struct taut__cgroup *cgroup);

/*
 * The tightest quota of the group and all above it: *quota_us of every *period_us, or -1 and 0
 * without one. A level that can't be read or makes no sense is skipped and reported: its code and
 * text go to err, and the result is that code; what was found at other levels is still stored.
 */
int taut__cgroup_quota(const struct taut__cgroup *cgroup, int64_t *quota_us, int64_t *period_us,
                       struct taut_err *err);

/*
 * The CPUs that the nearest group with a list allows. 1 = stored; 0 = no list anywhere; or a
 * negative code with a text.
 */
int taut__cgroup_cpus(const struct taut__cgroup *cgroup, struct taut_cpuset *cpus,
                      struct taut_err *err);

#endif
