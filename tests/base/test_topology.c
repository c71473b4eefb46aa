/* SPDX-License-Identifier: BSD-2-Clause */
/* Topology and quota: fake cgroup trees of both versions, and hwloc's synthetic machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "fake.h"

/* A topology is 20 kB: not on the stack of every test. */
static struct taut_topology topology;
static struct taut__cgroup cgroup;
static struct taut_err err;
static struct fake_tree tree;

static int set_up(void **state)
{
    (void)state;
    fake_create(&tree);
    fake_directory(&tree, "proc/self");
    fake_directory(&tree, "cg");
    taut_err_clear(&err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_destroy(&tree);
    return 0;
}

/* Reads with the fake tree as /proc and /sys/fs/cgroup. */
static int read_fake(void)
{
    char proc[128], cg[128];
    snprintf(proc, sizeof proc, "%s", fake_path(&tree, "proc"));
    snprintf(cg, sizeof cg, "%s", fake_path(&tree, "cg"));
    const struct taut_topology_options options = {
        .size = sizeof options, .cgroup_root = cg, .proc_root = proc};
    return taut_topology_read(&topology, &options, &err);
}

static int find_fake(const char *controller)
{
    char proc[128], cg[128];
    snprintf(proc, sizeof proc, "%s", fake_path(&tree, "proc"));
    snprintf(cg, sizeof cg, "%s", fake_path(&tree, "cg"));
    return taut__cgroup_find(&cgroup, controller, cg, proc, &err);
}

static void assert_quota(int64_t quota_us, int64_t period_us)
{
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(err.code, 0);
    assert_int_equal(topology.quota_us, quota_us);
    assert_int_equal(topology.period_us, period_us);
    int64_t at_once = quota_us < 0 ? INT32_MAX : quota_us / period_us;
    if (at_once < 1)
        at_once = 1;
    assert_int_equal(topology.width,
                     at_once < topology.usable_count ? (uint32_t)at_once : topology.usable_count);
}

static void v2_quota_of_the_own_group(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "0::/app/web\n");
    fake_file(&tree, "cg/app/web/cpu.max", "150000 100000\n");
    assert_quota(150000, 100000);
    fake_file(&tree, "cg/app/web/cpu.max", "max 100000\n");
    assert_quota(-1, 0);
    fake_file(&tree, "cg/app/web/cpu.max", "50000 100000\n"); /* half a CPU is still one thread */
    assert_quota(50000, 100000);
}

static void v2_a_limit_above_binds_too(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "0::/a/b/c\n");
    fake_file(&tree, "cg/a/b/c/cpu.max", "max 100000\n");
    fake_file(&tree, "cg/a/b/cpu.max", "800000 100000\n");
    fake_file(&tree, "cg/a/cpu.max", "30000 20000\n"); /* the tightest by ratio, not by number */
    assert_quota(30000, 20000);
    fake_file(&tree, "cg/a/b/c/cpu.max", "100000 100000\n");
    assert_quota(100000, 100000);
    /* A limit at the root of a namespace is a limit as well. */
    fake_file(&tree, "cg/cpu.max", "10000 100000\n");
    assert_quota(10000, 100000);
}

static void v1_quota_and_period(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup",
              "5:memory:/m\n4:cpuacct,cpu:/app\n3:cpuset:/\n0::/elsewhere\n");
    fake_file(&tree, "cg/cpuacct,cpu/app/cpu.cfs_quota_us", "250000\n");
    fake_file(&tree, "cg/cpuacct,cpu/app/cpu.cfs_period_us", "100000\n");
    fake_file(&tree, "cg/elsewhere/cpu.max", "1000 100000\n"); /* v2 does not hold the controller */
    assert_quota(250000, 100000);
    fake_file(&tree, "cg/cpuacct,cpu/app/cpu.cfs_quota_us", "-1\n");
    assert_quota(-1, 0);
    fake_file(&tree, "cg/cpuacct,cpu/cpu.cfs_quota_us", "120000\n");
    fake_file(&tree, "cg/cpuacct,cpu/cpu.cfs_period_us", "100000\n");
    assert_quota(120000, 100000);
}

static void v1_controllers_may_be_linked_one_by_one(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "4:cpu,cpuacct:/app\n");
    fake_file(&tree, "cg/cpu/app/cpu.cfs_quota_us", "100000\n");
    fake_file(&tree, "cg/cpu/app/cpu.cfs_period_us", "50000\n");
    assert_quota(100000, 50000);
}

static void names_are_compared_whole(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "4:cpuacct,cpuset:/app\n7:xcpu,cpux:/b\n");
    assert_int_equal(find_fake("cpu"), 0);
    assert_int_equal(cgroup.version, 0);
    assert_int_equal(find_fake("cpuset"), 0);
    assert_int_equal(cgroup.version, 1);
}

static void a_hybrid_machine_has_v2_beside_v1(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "3:memory:/\n0::/app\n");
    fake_file(&tree, "cg/unified/cgroup.procs", "1\n");
    fake_file(&tree, "cg/unified/app/cpu.max", "100000 100000\n");
    assert_quota(100000, 100000);
}

static void a_thread_s_own_group_comes_first(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "0::/process\n");
    fake_file(&tree, "proc/thread-self/cgroup", "0::/thread\n");
    fake_file(&tree, "cg/process/cpu.max", "300000 100000\n");
    fake_file(&tree, "cg/thread/cpu.max", "100000 100000\n");
    assert_quota(100000, 100000);
}

static void without_a_quota_there_is_none(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "0::/\n");
    assert_quota(-1, 0);
    fake_file(&tree, "proc/self/cgroup", ""); /* a kernel without cgroups */
    assert_quota(-1, 0);
    fake_file(&tree, "proc/self/cgroup", "garbage\n1:\n:::\n9\n1::/x\n00::/x\n");
    assert_quota(-1, 0);
}

static void a_group_seen_from_a_container_is_its_root(void **state)
{
    (void)state;
    /* The path is the host's; below our mount there is no such directory. */
    fake_file(&tree, "proc/self/cgroup", "0::/docker/4f2a/init\n");
    fake_file(&tree, "cg/cpu.max", "200000 100000\n");
    assert_quota(200000, 100000);
    /* Part of the path is there: the nearest group above. */
    fake_file(&tree, "cg/docker/cpu.max", "100000 100000\n");
    assert_quota(100000, 100000);
    assert_int_equal(find_fake("cpu"), 0);
    assert_string_equal(cgroup.group, "/docker");
}

static void a_path_out_of_the_namespace_is_not_followed(void **state)
{
    (void)state;
    fake_file(&tree, "outside/cpu.max", "1000 100000\n");
    fake_file(&tree, "cg/cpu.max", "200000 100000\n");
    static const char *const groups[] = {"/../outside", "/..", "/a/../../outside", "relative"};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "0::%s\n", groups[i]);
        fake_file(&tree, "proc/self/cgroup", line);
        assert_quota(200000, 100000);
        assert_int_equal(find_fake("cpu"), 0);
        assert_string_equal(cgroup.group, "");
    }
    /* Two dots within a name are a name. */
    fake_file(&tree, "proc/self/cgroup", "0::/..x/y..\n");
    fake_file(&tree, "cg/..x/y../cpu.max", "100000 100000\n");
    assert_quota(100000, 100000);
}

static void a_limit_that_can_t_be_read_is_said(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "0::/app\n");
    fake_directory(&tree, "cg/app/cpu.max"); /* EISDIR, for root too */
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(err.code, TAUT_EIO);
    assert_non_null(strstr(err.text, "cg/app/cpu.max: Is a directory"));
    assert_int_equal(topology.quota_us, -1);
    /* What is known of other levels still counts. */
    fake_file(&tree, "cg/cpu.max", "100000 100000\n");
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(err.code, TAUT_EIO);
    assert_int_equal(topology.quota_us, 100000);
    assert_int_equal(topology.width, 1);
}

static void unreadable_membership_is_said(void **state)
{
    (void)state;
    assert_int_equal(read_fake(), TAUT_OK); /* no such file */
    assert_int_equal(err.code, TAUT_ENOENT);
    assert_int_equal(topology.quota_us, -1);
    fake_directory(&tree, "proc/self/cgroup");
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(err.code, TAUT_EIO);
}

static void values_that_make_no_sense_are_said(void **state)
{
    (void)state;
    static const char *const v2[] = {"",
                                     "100000",
                                     "100000 ",
                                     "100000 0",
                                     "0 100000",
                                     "-5 100000",
                                     "100000 -5",
                                     "1e5 100000",
                                     "100000 100000 100000",
                                     "99999999999999999999 100000",
                                     "100000  100000",
                                     "x"};
    fake_file(&tree, "proc/self/cgroup", "0::/app\n");
    for (size_t i = 0; i < sizeof v2 / sizeof v2[0]; i++) {
        fake_file(&tree, "cg/app/cpu.max", v2[i]);
        assert_int_equal(read_fake(), TAUT_OK);
        assert_int_equal(err.code, TAUT_EFORMAT);
        assert_int_equal(topology.quota_us, -1);
        assert_int_equal(topology.width, topology.usable_count);
    }
    static const char *const v1[][2] = {
        {"100000", "0"}, {"100000", NULL}, {"100000", "x"},
        {"0", "100000"}, {"-2", "100000"}, {"", "100000"},
    };
    fake_file(&tree, "proc/self/cgroup", "2:cpu:/app\n");
    for (size_t i = 0; i < sizeof v1 / sizeof v1[0]; i++) {
        fake_file(&tree, "cg/cpu/app/cpu.cfs_quota_us", v1[i][0]);
        if (v1[i][1] != NULL)
            fake_file(&tree, "cg/cpu/app/cpu.cfs_period_us", v1[i][1]);
        else
            remove(fake_path(&tree, "cg/cpu/app/cpu.cfs_period_us"));
        assert_int_equal(read_fake(), TAUT_OK);
        assert_int_equal(err.code, TAUT_EFORMAT);
        assert_int_equal(topology.quota_us, -1);
    }
}

static void very_large_limits_do_not_overflow(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "0::/a/b\n");
    fake_file(&tree, "cg/a/b/cpu.max", "9223372036854775807 1000\n");
    fake_file(&tree, "cg/a/cpu.max", "9223372036854775806 999\n");
    assert_int_equal(read_fake(), TAUT_OK);
    assert_true(topology.quota_us == INT64_MAX); /* the smaller ratio */
    assert_int_equal(topology.width, topology.usable_count);
}

static void a_very_long_group_is_an_error_not_a_cut(void **state)
{
    (void)state;
    static char line[3 * PATH_MAX];
    memset(line, 'x', sizeof line - 1);
    memcpy(line, "0::/", 4);
    fake_file(&tree, "proc/self/cgroup", line);
    assert_int_equal(find_fake("cpu"), -ENAMETOOLONG);
    assert_int_equal(cgroup.version, 0);
}

static void the_cpuset_narrows_the_usable_cpus(void **state)
{
    (void)state;
    struct taut_cpuset mask;
    char list[32];
    assert_int_equal(taut_cpuset_of_self(&mask), TAUT_OK);
    uint32_t last = taut_cpuset_nth(&mask, taut_cpuset_count(&mask) - 1);
    snprintf(list, sizeof list, "%u\n", last);
    fake_file(&tree, "proc/self/cgroup", "0::/a/b\n");
    fake_file(&tree, "cg/a/b/cpuset.cpus.effective", "\n"); /* empty: look above */
    fake_file(&tree, "cg/a/cpuset.cpus.effective", list);
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(err.code, 0);
    assert_int_equal(topology.usable_count, 1);
    assert_int_equal(topology.cpus[0].cpu, last);
    assert_int_equal(topology.width, 1);
    assert_int_equal(topology.core_count, 1);
    assert_int_equal(topology.node_count, 1);
    /* v1 by its own names. */
    fake_file(&tree, "proc/self/cgroup", "3:cpuset:/v\n");
    fake_file(&tree, "cg/cpuset/v/cpuset.cpus", "0-1023\n");
    fake_file(&tree, "cg/cpuset/v/cpuset.effective_cpus", list);
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(topology.usable_count, 1);
    /* A list that has nothing to do with our mask is about another machine. */
    fake_file(&tree, "cg/cpuset/v/cpuset.effective_cpus", "1023\n");
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(topology.usable_count, taut_cpuset_count(&mask));
    /* A list that is none is said, and the mask holds. */
    fake_file(&tree, "cg/cpuset/v/cpuset.effective_cpus", "all of them\n");
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(err.code, TAUT_EFORMAT);
    assert_int_equal(topology.usable_count, taut_cpuset_count(&mask));
}

static void affinity_narrows_too(void **state)
{
    (void)state;
    struct taut_cpuset mask;
    assert_int_equal(taut_cpuset_of_self(&mask), TAUT_OK);
    uint32_t last = taut_cpuset_nth(&mask, taut_cpuset_count(&mask) - 1);
    assert_int_equal(taut_cpu_bind_self(last, &err), TAUT_OK);
    int code = taut_topology_read(&topology, NULL, &err);
    assert_int_equal(taut_cpuset_bind_self(&mask, NULL), TAUT_OK);
    assert_int_equal(code, TAUT_OK);
    assert_int_equal(topology.usable_count, 1);
    assert_int_equal(topology.cpus[0].cpu, last);
    assert_int_equal(topology.cpus[0].sibling, 0);
    assert_true(topology.online_count >= taut_cpuset_count(&mask));
}

static void the_online_count_comes_from_stat_under_a_fake_root(void **state)
{
    (void)state;
    fake_file(&tree, "proc/self/cgroup", "0::/\n");
    fake_file(&tree, "proc/stat", "cpu  1 2\ncpu0 1\ncpu1 1\ncpu17 1\ncpux 1\nintr 5\n");
    uint32_t usable;
    assert_int_equal(read_fake(), TAUT_OK);
    usable = topology.usable_count;
    assert_int_equal(topology.online_count, usable > 3 ? usable : 3);
    remove(fake_path(&tree, "proc/stat"));
    assert_int_equal(read_fake(), TAUT_OK);
    assert_int_equal(topology.online_count, usable); /* at least ours are */
}

/* hwloc takes a machine from its environment; our mask (CPUs 0 and 1) is looked up in it. */
static void read_synthetic(const char *machine)
{
    assert_int_equal(setenv("HWLOC_SYNTHETIC", machine, 1), 0);
    fake_file(&tree, "proc/self/cgroup", "0::/\n");
    int code = read_fake();
    unsetenv("HWLOC_SYNTHETIC");
    assert_int_equal(code, TAUT_OK);
}

static void cores_packages_and_nodes_come_from_hwloc(void **state)
{
    (void)state;
    struct taut_cpuset mask;
    assert_int_equal(taut_cpuset_of_self(&mask), TAUT_OK);
    if (!taut_cpuset_has(&mask, 0) || !taut_cpuset_has(&mask, 1)) {
        print_message("CPUs 0 and 1 are not both usable\n");
        skip();
    }
    struct taut_cpuset two = {{0}};
    taut_cpuset_add(&two, 0);
    taut_cpuset_add(&two, 1);
    assert_int_equal(taut_cpuset_bind_self(&two, &err), TAUT_OK);
    read_synthetic("pack:1 core:4 pu:2"); /* 0 and 1 are threads of one core */
    assert_int_equal(topology.core_count, 1);
    assert_int_equal(topology.cpus[0].cpu, 0);
    assert_int_equal(topology.cpus[0].sibling, 0);
    assert_int_equal(topology.cpus[1].cpu, 1);
    assert_int_equal(topology.cpus[1].sibling, 1);
    assert_int_equal(topology.cpus[1].core, topology.cpus[0].core);
    read_synthetic("numa:1 pack:1 core:4 pu:1");
    assert_int_equal(topology.core_count, 2);
    assert_int_equal(topology.node_count, 1);
    assert_int_equal(topology.cpus[1].sibling, 0);
    assert_int_not_equal(topology.cpus[1].core, topology.cpus[0].core);
    assert_int_equal(topology.cpus[1].package, topology.cpus[0].package);
    read_synthetic("numa:2 pack:1 core:1 pu:1"); /* one node and one package each */
    assert_int_equal(topology.core_count, 2);
    assert_int_equal(topology.node_count, 2);
    assert_int_equal(topology.cpus[0].node, 0);
    assert_int_equal(topology.cpus[1].node, 1);
    assert_int_equal(topology.cpus[1].package, 1);
    read_synthetic("pack:1 core:1 pu:1"); /* CPU 1 is unknown: a core of its own, not left out */
    assert_int_equal(topology.usable_count, 2);
    assert_int_equal(topology.core_count, 2);
    assert_int_equal(topology.cpus[1].sibling, 0);
    assert_int_equal(taut_cpuset_bind_self(&mask, &err), TAUT_OK);
}

static void the_machine_itself_is_consistent(void **state)
{
    (void)state;
    assert_int_equal(taut_topology_read(&topology, NULL, &err), TAUT_OK);
    assert_int_equal(taut_cpuset_count(&topology.usable), topology.usable_count);
    assert_in_range(topology.width, 1, topology.usable_count);
    assert_in_range(topology.core_count, 1, topology.usable_count);
    assert_in_range(topology.node_count, 1, topology.usable_count);
    assert_in_range(topology.usable_count, 1, topology.online_count);
    struct taut_cpuset listed = {{0}};
    for (uint32_t i = 0; i < topology.usable_count; i++) {
        assert_in_range(topology.cpus[i].core, 0, topology.core_count - 1);
        assert_in_range(topology.cpus[i].node, 0, topology.node_count - 1);
        taut_cpuset_add(&listed, topology.cpus[i].cpu);
        if (i > 0) /* first threads of cores first */
            assert_true(topology.cpus[i].sibling >= topology.cpus[i - 1].sibling);
    }
    assert_memory_equal(&listed, &topology.usable, sizeof listed);
    assert_int_equal(topology.cpus[topology.core_count - 1].sibling, 0);
}

/* Who forgot the size has what he set; what an older header did not have is not looked at. */
static void options_of_other_headers_are_taken(void **state)
{
    (void)state;
    char proc[128], cg[128];
    fake_file(&tree, "proc/self/cgroup", "0::/app\n");
    fake_file(&tree, "cg/app/cpu.max", "150000 100000\n");
    snprintf(proc, sizeof proc, "%s", fake_path(&tree, "proc"));
    snprintf(cg, sizeof cg, "%s", fake_path(&tree, "cg"));
    struct taut_topology_options options = {.cgroup_root = cg, .proc_root = proc};
    assert_int_equal(taut_topology_read(&topology, &options, &err), TAUT_OK);
    assert_int_equal(topology.quota_us, 150000);
    options.size = offsetof(struct taut_topology_options, proc_root);
    options.proc_root = (const char *)(uintptr_t)64; /* no memory */
    assert_int_equal(taut_topology_read(&topology, &options, &err), TAUT_OK);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    struct taut_topology_options options = {.size = 3};
    assert_int_equal(taut_topology_read(NULL, NULL, &err), TAUT_EINVAL);
    assert_int_equal(taut_topology_read(&topology, &options, &err), TAUT_EINVAL);
    assert_true(err.text[0] != '\0');
    options = (struct taut_topology_options){0};
    assert_int_equal(taut_topology_read(&topology, &options, NULL), TAUT_OK);
}

int main(void)
{
#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TREE_TEST(v2_quota_of_the_own_group),
        TREE_TEST(v2_a_limit_above_binds_too),
        TREE_TEST(v1_quota_and_period),
        TREE_TEST(v1_controllers_may_be_linked_one_by_one),
        TREE_TEST(names_are_compared_whole),
        TREE_TEST(a_hybrid_machine_has_v2_beside_v1),
        TREE_TEST(a_thread_s_own_group_comes_first),
        TREE_TEST(without_a_quota_there_is_none),
        TREE_TEST(a_group_seen_from_a_container_is_its_root),
        TREE_TEST(a_path_out_of_the_namespace_is_not_followed),
        TREE_TEST(a_limit_that_can_t_be_read_is_said),
        TREE_TEST(unreadable_membership_is_said),
        TREE_TEST(values_that_make_no_sense_are_said),
        TREE_TEST(very_large_limits_do_not_overflow),
        TREE_TEST(a_very_long_group_is_an_error_not_a_cut),
        TREE_TEST(the_cpuset_narrows_the_usable_cpus),
        TREE_TEST(affinity_narrows_too),
        TREE_TEST(the_online_count_comes_from_stat_under_a_fake_root),
        TREE_TEST(cores_packages_and_nodes_come_from_hwloc),
        TREE_TEST(the_machine_itself_is_consistent),
        TREE_TEST(options_of_other_headers_are_taken),
        TREE_TEST(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("base/topology", tests, NULL, NULL);
}
