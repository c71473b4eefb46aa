/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/topology.c - the CPUs that this thread may use and how they are built: affinity from the
 * kernel, limits from cgroup, cores, packages and NUMA nodes from hwloc.
 *
 * The kernel's affinity mask is already within the cpuset; the cpuset is read all the same, since
 * a container may see a tighter one than the mask shows until the next migration. A CPU that hwloc
 * does not know (a synthetic topology from its environment) is a core of its own: never merged into
 * another, never left out.
 */
#include <taut/topology.h>

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/check.h"
#include "base/cpuset.h"
#include "base/file.h"
#include "base/options.h"

#define ONLINE_PATH "/sys/devices/system/cpu/online"
/* About 400 bytes for each CPU and interrupt line on the largest machines. */
#define STAT_LIMIT (64u * 1024u * 1024u)

/* Numbers as hwloc gives them, before they are made dense. */
struct place {
    uint32_t core, package, node;
};

#define PLACE_UNKNOWN UINT32_MAX

static uint32_t ancestor_index(hwloc_topology_t hwloc, hwloc_obj_t unit, hwloc_obj_type_t type)
{
    hwloc_obj_t ancestor = hwloc_get_ancestor_obj_by_type(hwloc, type, unit);
    return ancestor != NULL ? ancestor->logical_index : PLACE_UNKNOWN;
}

static uint32_t node_index(hwloc_topology_t hwloc, uint32_t cpu)
{
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, node)) != NULL) {
        if (node->cpuset != NULL && hwloc_bitmap_isset(node->cpuset, cpu))
            return node->logical_index;
    }
    return PLACE_UNKNOWN;
}

/* Fills places[cpu] for every usable CPU. */
static int read_places(const struct taut_cpuset *usable, struct place *places, struct taut_err *err)
{
    hwloc_topology_t hwloc;
    if (hwloc_topology_init(&hwloc) < 0)
        return taut_err_set(err, TAUT_ENOMEM, "hwloc: no topology");
    /* Without this flag hwloc leaves out what its own view of cgroup does not allow. */
    if (hwloc_topology_set_flags(hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) < 0 ||
        hwloc_topology_load(hwloc) < 0) {
        int failure = errno;
        hwloc_topology_destroy(hwloc);
        return taut_err_set(err, taut_code_from_errno(failure), "hwloc: can't load: %s",
                            strerror(failure));
    }
    for (uint32_t cpu = 0; cpu < TAUT_CPUS_MAX; cpu++) {
        if (!taut_cpuset_has(usable, cpu))
            continue;
        places[cpu] = (struct place){PLACE_UNKNOWN, PLACE_UNKNOWN, PLACE_UNKNOWN};
        hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(hwloc, cpu);
        if (unit == NULL)
            continue;
        places[cpu].core = ancestor_index(hwloc, unit, HWLOC_OBJ_CORE);
        places[cpu].package = ancestor_index(hwloc, unit, HWLOC_OBJ_PACKAGE);
        places[cpu].node = node_index(hwloc, cpu);
    }
    hwloc_topology_destroy(hwloc);
    return TAUT_OK;
}

static int compare_numbers(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/*
 * Replaces numbers by their rank among the different ones; returns how many those are. For packages
 * and nodes, all unknown CPUs are together (one rank, the last); for cores (`apart`) each is alone.
 */
static uint32_t make_dense(uint32_t *numbers, uint32_t count, int apart)
{
    uint32_t sorted[TAUT_CPUS_MAX];
    uint32_t known = 0, different = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] != PLACE_UNKNOWN)
            sorted[known++] = numbers[i];
    }
    qsort(sorted, known, sizeof sorted[0], compare_numbers);
    for (uint32_t i = 0; i < known; i++) {
        if (i == 0 || sorted[i] != sorted[i - 1])
            sorted[different++] = sorted[i];
    }
    uint32_t next_unknown = different;
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] == PLACE_UNKNOWN) {
            numbers[i] = apart ? next_unknown++ : different;
            if (!apart)
                next_unknown = different + 1;
            continue;
        }
        const uint32_t *rank =
            bsearch(&numbers[i], sorted, different, sizeof sorted[0], compare_numbers);
        TAUT_CHECK(rank != NULL);
        numbers[i] = (uint32_t)(rank - sorted);
    }
    return next_unknown;
}

static int compare_cpus(const void *left, const void *right)
{
    const struct taut_cpu *a = left, *b = right;
    const uint32_t keys_a[] = {a->sibling, a->node, a->package, a->core, a->cpu};
    const uint32_t keys_b[] = {b->sibling, b->node, b->package, b->core, b->cpu};
    for (size_t i = 0; i < sizeof keys_a / sizeof keys_a[0]; i++) {
        if (keys_a[i] != keys_b[i])
            return keys_a[i] < keys_b[i] ? -1 : 1;
    }
    return 0;
}

/* Fills cpus[] and the counts from usable and the places of its CPUs. */
static void arrange(struct taut_topology *topology, const struct place *places)
{
    uint32_t cores[TAUT_CPUS_MAX], packages[TAUT_CPUS_MAX], nodes[TAUT_CPUS_MAX];
    uint32_t threads_of_core[TAUT_CPUS_MAX] = {0};
    uint32_t count = topology->usable_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t cpu = taut_cpuset_nth(&topology->usable, i);
        topology->cpus[i].cpu = cpu;
        cores[i] = places[cpu].core;
        packages[i] = places[cpu].package;
        nodes[i] = places[cpu].node;
    }
    topology->core_count = make_dense(cores, count, 1);
    make_dense(packages, count, 0);
    topology->node_count = make_dense(nodes, count, 0);
    for (uint32_t i = 0; i < count; i++) {
        topology->cpus[i].core = cores[i];
        topology->cpus[i].package = packages[i];
        topology->cpus[i].node = nodes[i];
        topology->cpus[i].sibling = threads_of_core[cores[i]]++;
    }
    qsort(topology->cpus, count, sizeof topology->cpus[0], compare_cpus);
}

/* "cpuN" lines of <proc>/stat: one for each CPU online. 0 where it can't be read. */
static uint32_t count_stat_cpus(const char *proc_root)
{
    char path[PATH_MAX];
    ssize_t length;
    if (snprintf(path, sizeof path, "%s/stat", proc_root) >= (int)sizeof path)
        return 0;
    char *text = taut__file_read_whole(path, STAT_LIMIT, &length);
    uint32_t count = 0;
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, "cpu", 3) == 0 && line[3] >= '0' && line[3] <= '9')
            count++;
        line = strchr(line, '\n');
        if (line != NULL)
            line++;
    }
    free(text);
    return count;
}

static uint32_t count_online(const char *proc_root)
{
    struct taut_cpuset online;
    char text[8192];
    /* /proc/stat may be a container's own; the list in /sys is the machine's. */
    if (proc_root == NULL && taut__file_read_value(ONLINE_PATH, text, sizeof text) > 0 &&
        taut__cpuset_parse_kernel(&online, text, NULL) == TAUT_OK)
        return taut_cpuset_count(&online);
    return count_stat_cpus(proc_root != NULL ? proc_root : "/proc");
}

/* Narrows the usable CPUs to the cpuset, and reads the quota. What can't be read goes to err. */
static void apply_cgroup(struct taut_topology *topology, const char *cgroup_root,
                         const char *proc_root, struct taut_err *err)
{
    struct taut__cgroup *cgroup = malloc(sizeof *cgroup);
    topology->quota_us = -1;
    topology->period_us = 0;
    if (cgroup == NULL) {
        taut_err_set(err, TAUT_ENOMEM, "cgroup: not read");
        return;
    }
    struct taut_cpuset allowed;
    if (taut__cgroup_find(cgroup, "cpuset", cgroup_root, proc_root, err) == 0 &&
        taut__cgroup_cpus(cgroup, &allowed, err) == 1) {
        struct taut_cpuset both;
        for (size_t i = 0; i < sizeof both.bits / sizeof both.bits[0]; i++)
            both.bits[i] = topology->usable.bits[i] & allowed.bits[i];
        /* Nothing in common: the file is not about us. The kernel enforces the mask. */
        if (taut_cpuset_count(&both) > 0)
            topology->usable = both;
    }
    if (taut__cgroup_find(cgroup, "cpu", cgroup_root, proc_root, err) == 0)
        (void)taut__cgroup_quota(cgroup, &topology->quota_us, &topology->period_us, err);
    free(cgroup);
}

static uint32_t width_of(const struct taut_topology *topology)
{
    if (topology->quota_us < 0)
        return topology->usable_count;
    /* Rounded down: one thread too many is throttled, and with it the whole group. */
    int64_t at_once = topology->quota_us / topology->period_us;
    if (at_once < 1)
        return 1;
    return at_once < (int64_t)topology->usable_count ? (uint32_t)at_once : topology->usable_count;
}

int taut_topology_read(struct taut_topology *topology, const struct taut_topology_options *options,
                       struct taut_err *err)
{
    if (topology == NULL)
        return taut_err_set(err, TAUT_EINVAL, "no topology");
    static const struct taut__options_kind kind = TAUT__OPTIONS_KIND(
        struct taut_topology_options, proc_root, cgroup_root, "topology options");
    struct taut_topology_options in_effect;
    int code = taut__options_take(&kind, &in_effect, options, err);
    if (code < 0)
        return code;
    const char *cgroup_root = in_effect.cgroup_root, *proc_root = in_effect.proc_root;
    *topology = (struct taut_topology){0};
    taut_err_clear(err);
    code = taut_cpuset_of_self(&topology->usable);
    if (code < 0)
        return taut_err_set(err, code, "the affinity mask can't be read");
    apply_cgroup(topology, cgroup_root, proc_root, err);
    topology->usable_count = taut_cpuset_count(&topology->usable);
    if (topology->usable_count == 0)
        return taut_err_set(err, TAUT_EOVERFLOW, "all usable CPUs have numbers above %u",
                            TAUT_CPUS_MAX - 1);
    struct place *places = calloc(TAUT_CPUS_MAX, sizeof *places);
    if (places == NULL)
        return taut_err_set(err, TAUT_ENOMEM, "no memory for %u CPUs", TAUT_CPUS_MAX);
    code = read_places(&topology->usable, places, err);
    if (code == TAUT_OK)
        arrange(topology, places);
    free(places);
    if (code < 0)
        return code;
    topology->online_count = count_online(proc_root);
    if (topology->online_count < topology->usable_count)
        topology->online_count = topology->usable_count;
    topology->width = width_of(topology);
    return TAUT_OK;
}
