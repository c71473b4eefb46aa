/* SPDX-License-Identifier: BSD-2-Clause */
/* Provenance: fake /proc and /sys, whole, empty and unreadable; nothing is ever left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/taut.h>

#include "../base/fake.h"
#include "rig/rig.h"

static struct fake_tree tree;
static char proc[128], sys[128], cgroup[128];
static const struct rig_roots roots = {proc, sys, cgroup};

static int set_up(void **state)
{
    (void)state;
    fake_create(&tree);
    fake_directory(&tree, "proc");
    fake_directory(&tree, "sys");
    fake_directory(&tree, "cg");
    snprintf(proc, sizeof proc, "%s", fake_path(&tree, "proc"));
    snprintf(sys, sizeof sys, "%s", fake_path(&tree, "sys"));
    snprintf(cgroup, sizeof cgroup, "%s", fake_path(&tree, "cg"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_destroy(&tree);
    return 0;
}

/* "kernel.release" in an object. */
static const json_t *at(const json_t *object, const char *path)
{
    char part[64];
    for (;;) {
        size_t length = strcspn(path, ".");
        assert_true(length < sizeof part);
        memcpy(part, path, length);
        part[length] = '\0';
        object = json_object_get(object, part);
        if (object == NULL)
            fail_msg("no member %s", path);
        if (path[length] == '\0')
            return object;
        path += length + 1;
    }
}

static void assert_text(const json_t *object, const char *path, const char *wanted)
{
    const json_t *value = at(object, path);
    assert_true(json_is_string(value));
    assert_string_equal(json_string_value(value), wanted);
}

static void fill_machine(void)
{
    struct taut_cpuset mask;
    char path[128];
    assert_int_equal(taut_cpuset_of_self(&mask), TAUT_OK);
    for (uint32_t i = 0; i < taut_cpuset_count(&mask); i++) {
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor",
                 taut_cpuset_nth(&mask, i));
        fake_file(&tree, path, "performance\n");
    }
    fake_file(&tree, "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
    fake_file(&tree, "sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
    fake_file(&tree, "sys/devices/system/cpu/cpufreq/boost", "0\n");
    fake_file(&tree, "sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
    fake_file(&tree, "sys/devices/system/cpu/smt/control", "off\n");
    fake_file(&tree, "sys/devices/system/cpu/isolated", "2-3\n");
    fake_file(&tree, "sys/devices/system/cpu/nohz_full", "2-3\n");
    fake_file(&tree, "sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    fake_file(&tree, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    fake_file(&tree, "sys/kernel/mm/transparent_hugepage/defrag",
              "always defer defer+madvise [madvise] never\n");
    fake_file(&tree, "sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n");
    fake_file(&tree, "sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n");
    fake_file(&tree, "sys/devices/system/cpu/vulnerabilities/spectre_v1", "Mitigation: x\n");
    fake_file(&tree, "proc/sys/kernel/osrelease", "6.1.0-test\n");
    fake_file(&tree, "proc/sys/kernel/version", "#1 SMP PREEMPT\n");
    fake_file(&tree, "proc/sys/kernel/random/boot_id", "00-11\n");
    fake_file(&tree, "proc/sys/kernel/numa_balancing", "0\n");
    fake_file(&tree, "proc/sys/kernel/randomize_va_space", "2\n");
    fake_file(&tree, "proc/cmdline",
              "BOOT_IMAGE=/vmlinuz root=/dev/secret isolcpus=2-3 i=1 quiet nohz_fullx=4 "
              "nohz_full=2-3 token=abc "
              "mitigations=off xidle=1 threadirqs\n");
    fake_file(&tree, "proc/cpuinfo",
              "processor\t: 0\nvendor_id\t: GenuineTest\nmodel\t\t: 9\nmodel name\t: Test CPU @ "
              "1.00GHz\nmicrocode\t: 0x42\n\nprocessor\t: 1\nmodel name\t: Other\n");
    fake_file(&tree, "proc/stat", "cpu  1 2 3 4 5 6 7 250 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
    fake_file(&tree, "proc/loadavg", "0.50 0.40 0.30 2/99 1234\n");
    fake_file(&tree, "proc/pressure/cpu",
              "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\n"
              "full avg10=0.00 avg60=0.00 avg300=0.00 total=999\n");
    fake_file(&tree, "proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    fake_file(&tree, "proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n");
    fake_file(&tree, "proc/self/cgroup", "0::/app\n");
    fake_file(&tree, "cg/app/cpu.max", "100000 50000\n");
}

static void everything_that_is_there_is_recorded(void **state)
{
    (void)state;
    fill_machine();
    json_t *all = rig_provenance(&roots);
    assert_non_null(all);
    assert_text(all, "taut.version", taut_version());
    assert_text(all, "taut.executable", "test_rig_provenance");
    assert_text(all, "kernel.release", "6.1.0-test");
    assert_text(all, "kernel.version", "#1 SMP PREEMPT");
    assert_text(all, "kernel.boot_id", "00-11");
    /* Only what changes how time behaves: no names of hosts, disks or keys. */
    assert_text(all, "kernel.boot_parameters",
                "isolcpus=2-3 nohz_full=2-3 mitigations=off threadirqs");
    assert_text(all, "processor.model", "Test CPU @ 1.00GHz");
    assert_text(all, "processor.vendor", "GenuineTest");
    assert_text(all, "processor.microcode", "0x42");
    assert_text(all, "processor.smt", "off");
    assert_text(all, "processor.isolated", "2-3");
    assert_text(all, "processor.nohz_full", "2-3");
    assert_text(all, "processor.clocksource", "tsc");
    assert_text(all, "frequency.governor", "performance");
    assert_text(all, "frequency.driver", "intel_pstate");
    assert_text(all, "frequency.no_turbo", "1");
    assert_text(all, "frequency.boost", "0");
    assert_text(all, "frequency.idle_driver", "intel_idle");
    assert_text(all, "memory.huge_pages", "madvise");
    assert_text(all, "memory.huge_pages_defrag", "madvise");
    assert_int_equal(json_integer_value(at(all, "mitigations.not_affected")), 2);
    assert_text(all, "mitigations.affected.spectre_v1", "Mitigation: x");
    assert_text(all, "load.average", "0.50 0.40 0.30 2/99 1234");
    assert_int_equal(json_integer_value(at(all, "load.steal_ms")), 2500);
    assert_int_equal(json_integer_value(at(all, "load.pressure_us.cpu")), 12345);
    assert_int_equal(json_integer_value(at(all, "load.pressure_us.memory")), 0);
    assert_int_equal(json_integer_value(at(all, "load.pressure_us.io")), 77);
    assert_int_equal(json_integer_value(at(all, "cpus.quota_us")), 100000);
    assert_int_equal(json_integer_value(at(all, "cpus.period_us")), 50000);
    assert_true(json_integer_value(at(all, "cpus.usable")) >= 1);
    assert_non_null(strstr(json_string_value(at(all, "taut.compiler")),
#if defined(__clang__)
                           "clang "
#else
                           "gcc "
#endif
                           ));
    json_decref(all);
}

/* Every leaf of `whole` is in `other` too. Returns how many leaves of `other` are unavailable. */
static uint32_t compare_members(const json_t *whole, const json_t *other)
{
    const char *name;
    json_t *value;
    uint32_t unavailable = 0;
    json_object_foreach((json_t *)(uintptr_t)whole, name, value)
    {
        const json_t *twin = json_object_get(other, name);
        if (twin == NULL)
            fail_msg("%s is left out", name);
        if (json_is_object(value) && json_is_object(twin))
            unavailable += compare_members(value, twin);
        else
            unavailable += !rig_available(twin);
    }
    return unavailable;
}

static void nothing_is_left_out_where_nothing_can_be_read(void **state)
{
    (void)state;
    json_t *empty = rig_provenance(&roots);
    assert_non_null(empty);
    assert_text(empty, "kernel.release", "unavailable: No such file or directory (errno 2)");
    assert_text(empty, "processor.model", "unavailable: No such file or directory (errno 2)");
    assert_text(empty, "frequency.governor", "unavailable: No such file or directory (errno 2)");
    assert_text(empty, "mitigations", "unavailable: No such file or directory (errno 2)");
    assert_text(empty, "load.steal_ms", "unavailable: No such file or directory (errno 2)");
    assert_text(empty, "load.pressure_us.io", "unavailable: No such file or directory (errno 2)");
    /* Not "no quota": it is not known. */
    assert_int_equal(strncmp(json_string_value(at(empty, "cpus.quota_us")), "unavailable: ", 13),
                     0);
    fill_machine();
    json_t *whole = rig_provenance(&roots);
    assert_int_equal(compare_members(whole, whole),
                     rig_available(at(whole, "taut.build_id")) ? 0 : 1);
    assert_true(compare_members(whole, empty) >= 24);
    json_decref(whole);
    json_decref(empty);
}

static void each_file_has_its_own_errno(void **state)
{
    (void)state;
    fill_machine();
    remove(fake_path(&tree, "proc/loadavg"));
    fake_directory(&tree, "proc/loadavg");
    remove(fake_path(&tree, "proc/pressure/io"));
    fake_directory(&tree, "proc/pressure/io");
    fake_file(&tree, "proc/pressure/cpu", "nothing of the kind\n");
    fake_file(&tree, "proc/stat", "cpu  1 2\n");
    fake_file(&tree, "proc/cpuinfo", "processor : 0\nmodel name without colon\n");
    json_t *all = rig_provenance(&roots);
    assert_text(all, "load.average", "unavailable: Is a directory (errno 21)");
    assert_text(all, "load.pressure_us.io", "unavailable: Is a directory (errno 21)");
    assert_text(all, "load.pressure_us.cpu", "unavailable: Protocol error (errno 71)");
    assert_text(all, "load.steal_ms", "unavailable: not in stat");
    assert_text(all, "processor.model", "unavailable: not in cpuinfo");
    assert_text(all, "kernel.release", "6.1.0-test");
    json_decref(all);
}

static void governors_that_differ_are_all_named(void **state)
{
    (void)state;
    struct taut_cpuset mask;
    char path[128];
    assert_int_equal(taut_cpuset_of_self(&mask), TAUT_OK);
    if (taut_cpuset_count(&mask) < 2) {
        print_message("only one CPU is usable\n");
        skip();
    }
    fill_machine();
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor",
             taut_cpuset_nth(&mask, 1));
    fake_file(&tree, path, "powersave\n");
    json_t *all = rig_provenance(&roots);
    const char *text = json_string_value(at(all, "frequency.governor"));
    assert_int_equal(strncmp(text, "mixed: performance,powersave", 28), 0);
    json_decref(all);
    remove(fake_path(&tree, path));
    all = rig_provenance(&roots);
    assert_false(rig_available(at(all, "frequency.governor")));
    json_decref(all);
}

static void bytes_of_the_machine_can_t_break_the_record(void **state)
{
    (void)state;
    fill_machine();
    fake_file(&tree, "proc/sys/kernel/osrelease", "6.1\xff\"\n\x1b[2J");
    json_t *all = rig_provenance(&roots);
    assert_text(all, "kernel.release", "6.1\\xff\"\\n\\x1b[2J");
    char *text = json_dumps(all, JSON_COMPACT);
    assert_non_null(text);
    json_t *again = json_loads(text, 0, NULL);
    assert_true(json_equal(all, again));
    json_decref(again);
    free(text);
    json_decref(all);
}

static void members_come_in_one_order(void **state)
{
    (void)state;
    static const char *const names[] = {"taut",      "kernel", "processor",   "cpus",
                                        "frequency", "memory", "mitigations", "load"};
    json_t *all = rig_provenance(NULL);
    size_t i = 0;
    const char *name;
    json_t *value;
    json_object_foreach(all, name, value)
    {
        assert_true(i < sizeof names / sizeof names[0]);
        assert_string_equal(name, names[i++]);
        assert_non_null(value);
    }
    assert_int_equal(i, sizeof names / sizeof names[0]);
    assert_true(rig_available(at(all, "kernel.release")));
    json_decref(all);
}

/* The note as a tool finds it in the file: what the loader gives must be the same bytes. */
static void the_build_id_is_that_of_the_file(void **state)
{
    (void)state;
    char id[129], small[8];
    int length = rig_build_id(id, sizeof id);
    if (length == TAUT_ENOENT) {
        print_message("linked without a build-id\n");
        skip();
    }
    assert_true(length >= 16 && length % 2 == 0);
    assert_int_equal(strlen(id), length);
    assert_int_equal(strspn(id, "0123456789abcdef"), length);
    static const char head[] = {4, 0, 0, 0};
    FILE *file = fopen("/proc/self/exe", "rb");
    assert_non_null(file);
    static char image[16u << 20];
    size_t size = fread(image, 1, sizeof image, file);
    fclose(file);
    char wanted[16 + 64];
    memcpy(wanted, head, 4);
    const uint32_t words[] = {(uint32_t)length / 2, 3};
    memcpy(wanted + 4, words, 8);
    memcpy(wanted + 12, "GNU", 4);
    for (int i = 0; i < length / 2; i++) {
        unsigned byte;
        assert_int_equal(sscanf(id + 2 * (size_t)i, "%2x", &byte), 1);
        wanted[16 + i] = (char)byte;
    }
    assert_non_null(memmem(image, size, wanted, 16 + (size_t)length / 2));
    assert_int_equal(rig_build_id(small, sizeof small), TAUT_ENOSPC);
    assert_int_equal(rig_build_id(id, (size_t)length), TAUT_ENOSPC);
    assert_int_equal(rig_build_id(id, (size_t)length + 1), length);
    assert_int_equal(rig_build_id(NULL, 0), TAUT_ENOSPC);
}

static void available_tells_values_from_reasons(void **state)
{
    (void)state;
    json_t *values[] = {json_string("unavailable: x"), json_string("unavailable"),
                        json_string("performance"), json_integer(0), json_null()};
    static const int wanted[] = {0, 1, 1, 1, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(rig_available(values[i]), wanted[i]);
        json_decref(values[i]);
    }
    assert_int_equal(rig_available(NULL), 0);
}

int main(void)
{
#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TREE_TEST(everything_that_is_there_is_recorded),
        TREE_TEST(nothing_is_left_out_where_nothing_can_be_read),
        TREE_TEST(each_file_has_its_own_errno),
        TREE_TEST(governors_that_differ_are_all_named),
        TREE_TEST(bytes_of_the_machine_can_t_break_the_record),
        TREE_TEST(members_come_in_one_order),
        cmocka_unit_test(the_build_id_is_that_of_the_file),
        cmocka_unit_test(available_tells_values_from_reasons),
    };
    return cmocka_run_group_tests_name("rig/provenance", tests, NULL, NULL);
}
