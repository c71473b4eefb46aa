/* SPDX-License-Identifier: BSD-2-Clause */
/* Quietness: two readings of a fake machine, whose difference is known to the tick. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/fake.h"
#include "rig/quiet.h"

static struct fake_tree tree;
static char proc[128], cgroup[128];
static uint64_t tick_us;

static int set_up(void **state)
{
    (void)state;
    fake_create(&tree);
    fake_directory(&tree, "proc");
    fake_directory(&tree, "cg");
    snprintf(proc, sizeof proc, "%s", fake_path(&tree, "proc"));
    snprintf(cgroup, sizeof cgroup, "%s", fake_path(&tree, "cg"));
    tick_us = 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_destroy(&tree);
    return 0;
}

static void put_process(int pid, const char *name, int parent, int user, int system, int child_user,
                        int child_system, int started)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "proc/%d/stat", pid);
    snprintf(text, sizeof text,
             "%d (%s) S %d 1 1 0 -1 4194304 1 2 3 4 %d %d %d %d 20 0 1 0 %d 99 98 97\n", pid, name,
             parent, user, system, child_user, child_system, started);
    fake_file(&tree, path, text);
}

static void put_thread(int pid, int tid, int started, int voluntary, int involuntary)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "proc/%d/task/%d/stat", pid, tid);
    snprintf(text, sizeof text, "%d (t) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0\n", tid,
             started);
    fake_file(&tree, path, text);
    snprintf(path, sizeof path, "proc/%d/task/%d/status", pid, tid);
    snprintf(text, sizeof text,
             "Name:\tt\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n", voluntary,
             involuntary);
    fake_file(&tree, path, text);
}

static void put_machine(int scale)
{
    char text[512];
    /* user nice system idle iowait irq softirq steal guest guest_nice */
    snprintf(text, sizeof text,
             "cpu  %d %d %d %d %d %d %d %d 50 50\n"
             "cpu0 %d 0 %d 90 0 %d %d %d 0 0\n"
             "cpu1 7 7 7 7 7 7 7 7 0 0\n"
             "intr 1 2 3\nctxt %d\nprocesses %d\nprocs_running %d\n",
             100 * scale, 10 * scale, 50 * scale, 900, 5 * scale, 2 * scale, 3 * scale, 4 * scale,
             60 * scale, 30 * scale, scale, 2 * scale, 3 * scale, 1000 * scale, 20 * scale,
             1 + scale);
    fake_file(&tree, "proc/stat", text);
    static const char *const names[] = {"cpu", "memory", "io"};
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "proc/pressure/%s", names[i]);
        snprintf(text, sizeof text, "some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n",
                 (i + 1) * 1000 * scale);
        fake_file(&tree, path, text);
    }
    fake_file(&tree, "proc/self/cgroup", "0::/app\n");
    snprintf(text, sizeof text, "usage_usec 5\nnr_periods %d\nnr_throttled %d\nthrottled_usec %d\n",
             100 * scale, 7 * scale, 900 * scale);
    fake_file(&tree, "cg/app/cpu.stat", text);
}

static struct rig_quiet *start_fake(const struct taut_cpuset *cpus)
{
    struct rig_quiet *quiet = NULL;
    const struct rig_quiet_options options = {
        .roots = {proc, NULL, cgroup}, .own_pid = 100, .cpus = cpus, .now_ns = 1000};
    assert_int_equal(rig_quiet_start(&quiet, &options, NULL), TAUT_OK);
    assert_non_null(quiet);
    return quiet;
}

static int64_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value))
        fail_msg("%s is no number", name);
    return json_integer_value(value);
}

static void assert_reason(const json_t *object, const char *name, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (text == NULL)
        fail_msg("%s is no text", name);
    assert_string_equal(text, wanted);
}

static void the_difference_is_exact(void **state)
{
    (void)state;
    struct taut_cpuset cpus = {{0}};
    taut_cpuset_add(&cpus, 0);
    taut_cpuset_add(&cpus, 5); /* not there */
    put_machine(1);
    put_process(1, "init", 0, 500, 500, 0, 0, 1);
    put_process(100, "bench", 1, 10, 10, 5, 5, 50);
    put_process(101, "client", 100, 20, 0, 0, 0, 60);
    put_process(200, "hog", 1, 30, 0, 1000, 1000, 70);
    struct rig_quiet *quiet = start_fake(&cpus);
    put_machine(2);
    put_process(1, "init", 0, 501, 500, 0, 0, 1);
    put_process(100, "bench", 1, 15, 12, 5, 5, 50);      /* 7 ticks */
    put_process(101, "client", 100, 50, 10, 0, 0, 60);   /* 40 ticks */
    put_process(102, "grandchild", 101, 3, 0, 0, 0, 80); /* 3 ticks, started within */
    put_process(200, "hog", 1, 55, 5, 9000, 0, 70);      /* 30 ticks; its children are not it */
    put_process(201, "newcomer", 1, 11, 0, 0, 0, 90);
    json_t *result = rig_quiet_read(quiet, 5001000);
    assert_int_equal(number(result, "window_ns"), 5000000);
    /* 100 user + 10 nice + 50 system + 2 irq + 3 softirq; guest is within user. */
    assert_int_equal(number(result, "busy_us"), 165 * tick_us);
    assert_int_equal(number(result, "own_us"), 50 * tick_us);
    assert_int_equal(number(result, "foreign_us"), 115 * tick_us);
    assert_int_equal(number(result, "foreign_seen_us"), 42 * tick_us);
    assert_int_equal(number(result, "idle_us"), 0);
    assert_int_equal(number(result, "iowait_us"), 5 * tick_us);
    assert_int_equal(number(result, "irq_us"), 2 * tick_us);
    assert_int_equal(number(result, "softirq_us"), 3 * tick_us);
    assert_int_equal(number(result, "steal_us"), 4 * tick_us);
    assert_int_equal(number(result, "context_switches"), 1000);
    assert_int_equal(number(result, "forks"), 20);
    assert_int_equal(number(result, "runnable_start"), 2);
    assert_int_equal(number(result, "runnable_end"), 3);
    const json_t *pressure = json_object_get(result, "pressure_us");
    assert_int_equal(number(pressure, "cpu"), 1000);
    assert_int_equal(number(pressure, "memory"), 2000);
    assert_int_equal(number(pressure, "io"), 3000);
    const json_t *throttling = json_object_get(result, "throttling");
    assert_int_equal(number(throttling, "periods"), 100);
    assert_int_equal(number(throttling, "throttled"), 7);
    assert_int_equal(number(throttling, "us"), 900);
    const json_t *list = json_object_get(result, "competitors");
    assert_int_equal(json_array_size(list), 3);
    static const int pids[] = {200, 201, 1}, ticks[] = {30, 11, 1};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(number(json_array_get(list, i), "pid"), pids[i]);
        assert_int_equal(number(json_array_get(list, i), "cpu_us"), (uint64_t)ticks[i] * tick_us);
    }
    list = json_object_get(result, "cpus");
    assert_int_equal(json_array_size(list), 2);
    const json_t *zero = json_array_get(list, 0);
    assert_int_equal(number(zero, "cpu"), 0);
    assert_int_equal(number(zero, "busy_us"), 93 * tick_us); /* 60 + 30 + 1 + 2 */
    assert_int_equal(number(zero, "steal_us"), 3 * tick_us);
    assert_reason(json_array_get(list, 1), "busy_us", "unavailable: No such device (errno 19)");
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void a_reaped_child_s_time_stays_ours(void **state)
{
    (void)state;
    put_machine(1);
    put_process(100, "bench", 1, 10, 0, 0, 0, 50);
    put_process(101, "client", 100, 20, 0, 0, 0, 60);
    struct rig_quiet *quiet = start_fake(NULL);
    put_machine(2);
    remove(fake_path(&tree, "proc/101/stat"));
    remove(fake_path(&tree, "proc/101"));
    put_process(100, "bench", 1, 10, 0, 35, 0, 50); /* 20 known before, 15 more until its end */
    json_t *result = rig_quiet_read(quiet, 2000);
    assert_int_equal(number(result, "own_us"), 15 * tick_us);
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void a_descendant_may_have_a_lower_pid(void **state)
{
    (void)state;
    put_machine(1);
    struct rig_quiet *quiet = start_fake(NULL);
    put_process(100, "bench", 1, 1, 0, 0, 0, 50);
    put_process(60, "child", 100, 2, 0, 0, 0, 60); /* pids have wrapped around, twice */
    put_process(50, "grandchild", 60, 4, 0, 0, 0, 70);
    put_process(40, "other", 1, 8, 0, 0, 0, 80);
    json_t *result = rig_quiet_read(quiet, 2000);
    assert_int_equal(number(result, "own_us"), 7 * tick_us);
    assert_int_equal(number(result, "foreign_seen_us"), 8 * tick_us);
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void a_pid_used_again_is_another_process(void **state)
{
    (void)state;
    put_machine(1);
    put_process(200, "old", 1, 5000, 0, 0, 0, 50);
    struct rig_quiet *quiet = start_fake(NULL);
    put_process(200, "new", 1, 12, 0, 0, 0, 9000);
    json_t *result = rig_quiet_read(quiet, 2000);
    assert_int_equal(number(result, "foreign_seen_us"), 12 * tick_us);
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void five_competitors_are_named_the_largest_first(void **state)
{
    (void)state;
    put_machine(1);
    struct rig_quiet *quiet = start_fake(NULL);
    for (int i = 0; i < 9; i++)
        put_process(300 + i, "p", 1, (i * 4) % 9 + 1, 0, 0, 0, 10);
    json_t *result = rig_quiet_read(quiet, 2000);
    const json_t *list = json_object_get(result, "competitors");
    assert_int_equal(json_array_size(list), 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(number(json_array_get(list, i), "cpu_us"), (9 - i) * tick_us);
    assert_int_equal(number(result, "foreign_seen_us"), 45 * tick_us);
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void own_switches_are_counted_thread_by_thread(void **state)
{
    (void)state;
    put_machine(1);
    put_process(100, "bench", 1, 1, 0, 0, 0, 50);
    put_process(101, "client", 100, 1, 0, 0, 0, 50);
    put_process(200, "other", 1, 1, 0, 0, 0, 50);
    put_thread(100, 100, 50, 10, 3);
    put_thread(100, 110, 51, 1000, 1000); /* ends */
    put_thread(101, 101, 50, 5, 5);
    put_thread(200, 200, 50, 1, 1); /* not ours */
    struct rig_quiet *quiet = start_fake(NULL);
    put_thread(100, 100, 50, 14, 5);
    put_thread(100, 110, 99, 6, 1); /* the number is used again */
    put_thread(101, 101, 50, 5, 12);
    put_thread(101, 120, 90, 2, 2); /* started within */
    put_thread(200, 200, 50, 100, 100);
    json_t *result = rig_quiet_read(quiet, 2000);
    const json_t *switches = json_object_get(result, "own_switches");
    assert_int_equal(number(switches, "voluntary"), 4 + 6 + 0 + 2);
    assert_int_equal(number(switches, "involuntary"), 2 + 1 + 7 + 2);
    assert_int_equal(number(switches, "threads"), 4);
    assert_int_equal(number(switches, "threads_ended"), 1);
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void what_can_t_be_read_is_said_with_its_errno(void **state)
{
    (void)state;
    struct taut_cpuset cpus = {{0}};
    taut_cpuset_add(&cpus, 0);
    struct rig_quiet *quiet = start_fake(&cpus); /* an empty /proc: no file at all */
    put_machine(2);
    put_process(200, "late", 1, 1, 0, 0, 0, 1);
    json_t *result = rig_quiet_read(quiet, 2000);
    static const char *const names[] = {"busy_us",   "foreign_us", "idle_us",          "steal_us",
                                        "iowait_us", "forks",      "context_switches", "irq_us"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_reason(result, names[i], "unavailable: No such file or directory (errno 2)");
    assert_reason(json_object_get(result, "pressure_us"), "cpu",
                  "unavailable: No such file or directory (errno 2)");
    assert_reason(json_object_get(result, "throttling"), "us",
                  "unavailable: No such file or directory (errno 2)");
    assert_reason(json_array_get(json_object_get(result, "cpus"), 0), "steal_us",
                  "unavailable: No such file or directory (errno 2)");
    assert_reason(result, "runnable_start", "unavailable: No such file or directory (errno 2)");
    assert_int_equal(number(result, "runnable_end"), 3);
    json_decref(result);
    rig_quiet_destroy(quiet);

    /* No /proc at all, and a stat file without its first line. */
    snprintf(proc, sizeof proc, "%s", fake_path(&tree, "nowhere"));
    quiet = start_fake(NULL);
    result = rig_quiet_read(quiet, 2000);
    assert_reason(result, "own_us", "unavailable: No such file or directory (errno 2)");
    assert_reason(result, "competitors", "unavailable: No such file or directory (errno 2)");
    assert_reason(json_object_get(result, "own_switches"), "involuntary",
                  "unavailable: No such file or directory (errno 2)");
    json_decref(result);
    rig_quiet_destroy(quiet);
    snprintf(proc, sizeof proc, "%s", fake_path(&tree, "proc"));
    fake_file(&tree, "proc/stat", "intr 0\n");
    quiet = start_fake(NULL);
    result = rig_quiet_read(quiet, 2000);
    assert_reason(result, "busy_us", "unavailable: Protocol error (errno 71)");
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void v1_throttling_is_in_the_same_unit(void **state)
{
    (void)state;
    put_machine(1);
    fake_file(&tree, "proc/self/cgroup", "2:cpu,cpuacct:/app\n");
    fake_file(&tree, "cg/cpu,cpuacct/app/cpu.stat",
              "nr_periods 1\nnr_throttled 1\nthrottled_time 1000000\n");
    struct rig_quiet *quiet = start_fake(NULL);
    fake_file(&tree, "cg/cpu,cpuacct/app/cpu.stat",
              "nr_periods 5\nnr_throttled 3\nthrottled_time 4500000\n");
    json_t *result = rig_quiet_read(quiet, 2000);
    const json_t *throttling = json_object_get(result, "throttling");
    assert_int_equal(number(throttling, "periods"), 4);
    assert_int_equal(number(throttling, "throttled"), 2);
    assert_int_equal(number(throttling, "us"), 3500);
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void counters_that_step_back_give_zero(void **state)
{
    (void)state;
    put_machine(2);
    put_process(200, "p", 1, 50, 0, 0, 0, 1);
    struct rig_quiet *quiet = start_fake(NULL);
    put_machine(1);
    put_process(200, "p", 1, 40, 0, 0, 0, 1);
    json_t *result = rig_quiet_read(quiet, 500);
    assert_int_equal(number(result, "window_ns"), 0);
    assert_int_equal(number(result, "steal_us"), 0);
    assert_int_equal(number(result, "foreign_us"), 0);
    assert_int_equal(number(result, "foreign_seen_us"), 0);
    assert_int_equal(number(json_object_get(result, "pressure_us"), "cpu"), 0);
    json_decref(result);
    rig_quiet_destroy(quiet);
}

static void names_of_processes_can_hold_anything(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int result, parent;
        const char *name;
    } cases[] = {
        {"7 (a) S 3 0 0 0 0 0 0 0 0 0 1 2 3 4 0 0 0 0 9 0", 0, 3, "a"},
        {"7 (a b) c) (d) R 3 0 0 0 0 0 0 0 0 0 1 2 3 4 0 0 0 0 9", 0, 3, "a b) c) (d"},
        {"7 () S 3 0 0 0 0 0 0 0 0 0 1 2 3 4 0 0 0 0 9 0", 0, 3, ""},
        {"7 (a S 3 0 0 0 0 0 0 0 0 0 1 2 3 4 0 0 0 0 9 0", -71, 0, NULL},
        {"7 a) S 3", -71, 0, NULL},
        {")(", -71, 0, NULL},
        {"", -71, 0, NULL},
        {"(a) S 3 0 0 0 0 0 0 0 0 0 1 2 3 4 0 0 0 0 9 0", -71, 0, NULL},
        {"7 (a) S 3 0 0 0 0 0 0 0 0 0 1 2 3 4 0 0 0 0", -71, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct quiet_process process;
        assert_int_equal(rig__quiet_parse_stat(&process, cases[i].text), cases[i].result);
        if (cases[i].result < 0)
            continue;
        assert_int_equal(process.pid, 7);
        assert_int_equal(process.parent, cases[i].parent);
        assert_int_equal(process.ticks, 3);
        assert_int_equal(process.child_ticks, 7);
        assert_int_equal(process.started, 9);
        assert_string_equal(process.name, cases[i].name);
    }
    put_machine(1);
    struct rig_quiet *quiet = start_fake(NULL);
    put_process(200, "x\x1b[2J\xff\"", 1, 9, 0, 0, 0, 1);
    json_t *result = rig_quiet_read(quiet, 2000);
    const json_t *first = json_array_get(json_object_get(result, "competitors"), 0);
    assert_reason(first, "name", "x\\x1b[2J\\xff\"");
    json_decref(result);
    rig_quiet_destroy(quiet);
}

/* On the machine itself: what a child of ours burns is ours, not foreign. */
static void a_child_of_ours_is_not_a_competitor(void **state)
{
    (void)state;
    struct rig_quiet *quiet = NULL;
    assert_int_equal(rig_quiet_start(&quiet, NULL, NULL), TAUT_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct timespec used;
        do {
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        } while (used.tv_sec == 0 && used.tv_nsec < 100000000);
        pause();
        _exit(0);
    }
    json_t *result = NULL;
    int64_t own = 0;
    uint64_t give_up = taut_now_ns() + 20 * TAUT_NS_PER_S;
    while (own < 50000 && taut_now_ns() < give_up) {
        json_decref(result);
        usleep(10000);
        result = rig_quiet_read(quiet, 0);
        own = number(result, "own_us");
        size_t i;
        json_t *one;
        json_array_foreach(json_object_get(result, "competitors"), i, one)
        {
            assert_int_not_equal(number(one, "pid"), child);
            assert_int_not_equal(number(one, "pid"), getpid());
        }
    }
    assert_true(own >= 50000);
    assert_true(number(result, "window_ns") > 0);
    assert_true(number(json_object_get(result, "own_switches"), "threads") >= 2);
    json_decref(result);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    rig_quiet_destroy(quiet);
    rig_quiet_destroy(NULL);
    assert_int_equal(rig_quiet_start(NULL, NULL, NULL), TAUT_EINVAL);
}

int main(void)
{
#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TREE_TEST(the_difference_is_exact),
        TREE_TEST(a_reaped_child_s_time_stays_ours),
        TREE_TEST(a_descendant_may_have_a_lower_pid),
        TREE_TEST(a_pid_used_again_is_another_process),
        TREE_TEST(five_competitors_are_named_the_largest_first),
        TREE_TEST(own_switches_are_counted_thread_by_thread),
        TREE_TEST(what_can_t_be_read_is_said_with_its_errno),
        TREE_TEST(v1_throttling_is_in_the_same_unit),
        TREE_TEST(counters_that_step_back_give_zero),
        TREE_TEST(names_of_processes_can_hold_anything),
        cmocka_unit_test(a_child_of_ours_is_not_a_competitor),
    };
    return cmocka_run_group_tests_name("rig/quiet", tests, NULL, NULL);
}
