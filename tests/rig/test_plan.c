/* SPDX-License-Identifier: BSD-2-Clause */
/* The plan: synthetic machines from one CPU to hundreds, wishes, and what no plan may ever do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig/rig.h"

static struct taut_topology machine;
static struct rig_plan plan;
static struct taut_err err;

/*
 * A machine of `cores` cores with `threads` hardware threads each, CPU numbers as Linux gives them
 * on x86 (first all first threads, then all second ones), over `nodes` nodes, without a quota.
 */
static void build_machine(uint32_t cores, uint32_t threads, uint32_t nodes)
{
    memset(&machine, 0, sizeof machine);
    machine.usable_count = cores * threads;
    machine.online_count = cores * threads;
    machine.core_count = cores;
    machine.node_count = nodes;
    machine.quota_us = -1;
    machine.width = machine.usable_count;
    for (uint32_t i = 0; i < machine.usable_count; i++) {
        uint32_t core = i % cores, node = core * nodes / cores;
        taut_cpuset_add(&machine.usable, i);
        machine.cpus[i] = (struct taut_cpu){
            .cpu = i, .core = core, .package = node, .node = node, .sibling = i / cores};
    }
}

static void set_quota(int64_t quota_us, int64_t period_us)
{
    machine.quota_us = quota_us;
    machine.period_us = period_us;
    int64_t at_once = quota_us / period_us;
    machine.width = at_once < 1                      ? 1
                    : at_once > machine.usable_count ? machine.usable_count
                                                     : (uint32_t)at_once;
}

static void make(const struct rig_plan_request *request)
{
    taut_err_clear(&err);
    assert_int_equal(rig_plan_make(&plan, &machine, request, &err), TAUT_OK);
}

static void assert_cpus(const struct taut_cpuset *set, const char *wanted)
{
    char text[512];
    taut_cpuset_format(set, text, sizeof text);
    assert_string_equal(text, wanted);
}

static int has_note(const char *part)
{
    for (uint32_t i = 0; i < plan.note_count; i++) {
        if (strstr(plan.notes[i], part) != NULL)
            return 1;
    }
    return 0;
}

static uint32_t core_of(uint32_t cpu)
{
    for (uint32_t i = 0; i < machine.usable_count; i++) {
        if (machine.cpus[i].cpu == cpu)
            return machine.cpus[i].core;
    }
    fail_msg("CPU %u is not one of the machine's", cpu);
    return 0;
}

/* What holds for every plan of every machine. */
static void assert_sound(const struct rig_plan_request *request)
{
    uint32_t server = taut_cpuset_count(&plan.server_cpus);
    uint32_t clients = taut_cpuset_count(&plan.client_cpus);
    uint32_t in_use = 0, common = 0, sessions = 0;
    struct taut_cpuset server_seen = {{0}}, client_seen = {{0}};
    assert_in_range(plan.workers, 1, RIG_WORKERS_MAX);
    assert_in_range(plan.processes, 1, RIG_PROCESSES_MAX);
    assert_true(server >= 1 && clients >= 1);
    for (uint32_t cpu = 0; cpu < TAUT_CPUS_MAX; cpu++) {
        int is_server = taut_cpuset_has(&plan.server_cpus, cpu);
        int is_client = taut_cpuset_has(&plan.client_cpus, cpu);
        in_use += (uint32_t)(is_server || is_client);
        common += (uint32_t)(is_server && is_client);
        if (is_server || is_client) {
            assert_true(taut_cpuset_has(&machine.usable, cpu));
            if (request->cpus != NULL)
                assert_true(taut_cpuset_has(request->cpus, cpu));
        }
    }
    assert_true(in_use <= machine.width);
    /* Disjoint wherever two CPUs may run at once. */
    uint32_t candidates =
        request->cpus != NULL ? taut_cpuset_count(request->cpus) : machine.usable_count;
    int alone = candidates == 1 || machine.width == 1;
    assert_int_equal(common, alone ? 1 : 0);
    assert_int_equal(plan.overlap, alone);
    assert_int_equal(has_note("one CPU for all"), alone);
    for (uint32_t i = 0; i < plan.workers; i++) {
        assert_int_equal(plan.worker_cpu[i], taut_cpuset_nth(&plan.server_cpus, i % server));
        taut_cpuset_add(&server_seen, plan.worker_cpu[i]);
    }
    for (uint32_t i = 0; i < plan.processes; i++) {
        assert_true(taut_cpuset_has(&plan.client_cpus, plan.process_cpu[i]));
        taut_cpuset_add(&client_seen, plan.process_cpu[i]);
        sessions += plan.process_sessions[i];
        assert_true(plan.process_sessions[i] >= 1);
        assert_true(plan.process_sessions[0] - plan.process_sessions[i] <= 1);
    }
    /* No CPU is kept for nobody, and the accounts of what is crowded are right. */
    assert_memory_equal(&server_seen, &plan.server_cpus, sizeof server_seen);
    assert_memory_equal(&client_seen, &plan.client_cpus, sizeof client_seen);
    assert_int_equal(sessions, plan.sessions);
    assert_int_equal(plan.crowded_server, plan.workers - server);
    assert_int_equal(plan.crowded_client, plan.processes - clients);
    int house_shared = taut_cpuset_has(&plan.server_cpus, plan.house_cpu) ||
                       taut_cpuset_has(&plan.client_cpus, plan.house_cpu);
    assert_int_equal(plan.house_shared, house_shared);
    assert_true(taut_cpuset_has(&machine.usable, plan.house_cpu));
}

static void one_cpu_runs_everything_and_says_so(void **state)
{
    (void)state;
    const struct rig_plan_request request = {0};
    build_machine(1, 1, 1);
    make(&request);
    assert_sound(&request);
    assert_int_equal(plan.workers, 1);
    assert_int_equal(plan.processes, 1);
    assert_int_equal(plan.sessions, 32);
    assert_cpus(&plan.server_cpus, "0");
    assert_cpus(&plan.client_cpus, "0");
    assert_int_equal(plan.house_cpu, 0);
}

static void two_cpus_are_one_each(void **state)
{
    (void)state;
    build_machine(2, 1, 1);
    make(NULL);
    assert_int_equal(plan.workers, 1);
    assert_int_equal(plan.processes, 1);
    assert_cpus(&plan.server_cpus, "0");
    assert_cpus(&plan.client_cpus, "1");
    assert_int_equal(plan.house_cpu, 1);
    assert_int_equal(plan.overlap, 0);
    assert_int_equal(plan.shared_cores, 0);
    assert_true(has_note("share CPU 1 with a client"));
}

static void two_threads_of_one_core_are_used_and_said(void **state)
{
    (void)state;
    build_machine(1, 2, 1);
    make(NULL);
    assert_cpus(&plan.server_cpus, "0");
    assert_cpus(&plan.client_cpus, "1");
    assert_int_equal(plan.shared_cores, 1);
    assert_true(has_note("share 1 physical core by hardware threads"));
}

static void one_physical_core_each_first(void **state)
{
    (void)state;
    static const struct {
        uint32_t cores, workers, processes;
        const char *server, *clients;
        uint32_t house; /* on a core of its own from five cores on */
    } cases[] = {
        {2, 1, 1, "0", "1", 3}, /* a thread beside the client, never beside the worker */
        {3, 1, 2, "0", "1-2", 4},
        {4, 2, 2, "0-1", "2-3", 6},
        {5, 2, 2, "0-1", "2-3", 4},
        {6, 2, 3, "0-1", "2-4", 5},
        {8, 3, 4, "0-2", "3-6", 7},
        {64, 8, 8, "0-7", "8-15", 16}, /* 32 sessions keep no more of them busy */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        build_machine(cases[i].cores, 2, 1);
        make(NULL);
        assert_int_equal(plan.workers, cases[i].workers);
        assert_int_equal(plan.processes, cases[i].processes);
        assert_cpus(&plan.server_cpus, cases[i].server);
        assert_cpus(&plan.client_cpus, cases[i].clients);
        assert_int_equal(plan.house_cpu, cases[i].house);
        assert_int_equal(plan.house_shared, 0);
        assert_int_equal(plan.shared_cores, 0);
        assert_int_equal(plan.note_count, 0);
    }
}

static void hardware_threads_serve_only_where_asked_for(void **state)
{
    (void)state;
    const struct rig_plan_request request = {.workers = 3, .processes = 3};
    build_machine(4, 2, 1);
    make(&request);
    assert_sound(&request);
    assert_cpus(&plan.server_cpus, "0-2");
    assert_cpus(&plan.client_cpus, "3-5");
    assert_int_equal(plan.shared_cores, 2); /* CPUs 4 and 5 beside 0 and 1 */
    assert_int_equal(plan.crowded_server + plan.crowded_client, 0);
    assert_int_equal(core_of(plan.house_cpu), 3); /* beside a client, not beside a worker */
    assert_true(has_note("share 2 physical cores"));
}

static void more_than_there_are_cpus_are_shared_in_proportion(void **state)
{
    (void)state;
    struct rig_plan_request request = {.workers = 6, .processes = 2};
    build_machine(4, 1, 1);
    make(&request);
    assert_sound(&request);
    assert_cpus(&plan.server_cpus, "0-2");
    assert_cpus(&plan.client_cpus, "3");
    assert_true(has_note("6 workers share 3 CPUs"));
    assert_true(has_note("2 client processes share 1 CPU"));
    request = (struct rig_plan_request){.workers = 64, .processes = 1};
    build_machine(2, 1, 1);
    make(&request);
    assert_sound(&request);
    assert_cpus(&plan.server_cpus, "0");
    /* What one side can't use, the other gets. */
    request = (struct rig_plan_request){.workers = 3, .processes = 2};
    build_machine(4, 1, 1);
    make(&request);
    assert_sound(&request);
    assert_int_equal(taut_cpuset_count(&plan.server_cpus) + taut_cpuset_count(&plan.client_cpus),
                     4);
}

static void one_given_count_leaves_the_rest_to_the_other(void **state)
{
    (void)state;
    struct rig_plan_request request = {.workers = 6};
    build_machine(8, 1, 1);
    make(&request);
    assert_sound(&request);
    assert_int_equal(plan.processes, 1); /* seven less six, one core is the house's */
    request = (struct rig_plan_request){.processes = 5};
    make(&request);
    assert_sound(&request);
    assert_int_equal(plan.workers, 2);
    request = (struct rig_plan_request){.single = 1};
    make(&request);
    assert_sound(&request);
    assert_int_equal(plan.workers, 1);
    assert_int_equal(plan.processes, 4);
    request = (struct rig_plan_request){.sessions = 1};
    make(&request);
    assert_sound(&request);
    assert_int_equal(plan.workers, 1);
    assert_int_equal(plan.processes, 1);
    request = (struct rig_plan_request){.sessions = 10, .processes = 4};
    make(&request);
    assert_int_equal(plan.process_sessions[0], 3);
    assert_int_equal(plan.process_sessions[1], 3);
    assert_int_equal(plan.process_sessions[2], 2);
    assert_int_equal(plan.process_sessions[3], 2);
}

static void a_quota_bounds_what_runs_at_once(void **state)
{
    (void)state;
    const struct rig_plan_request request = {0};
    build_machine(16, 1, 1);
    set_quota(250000, 100000);
    make(&request);
    assert_sound(&request);
    assert_cpus(&plan.server_cpus, "0");
    assert_cpus(&plan.client_cpus, "1");
    assert_true(has_note("a CPU quota of 250000 us every 100000 us lets 2 of 16 CPUs run at once"));
    set_quota(50000, 100000);
    make(&request);
    assert_sound(&request);
    assert_int_equal(plan.overlap, 1);
    set_quota(3200000, 100000); /* above what is there: in force all the same */
    make(&request);
    assert_true(has_note("is in force"));
}

static void a_list_of_cpus_is_kept_to(void **state)
{
    (void)state;
    struct taut_cpuset cpus = {{0}};
    struct rig_plan_request request = {.cpus = &cpus};
    build_machine(4, 2, 1); /* CPUs 4-7 are the second threads of cores 0-3 */
    taut_cpuset_add(&cpus, 4);
    taut_cpuset_add(&cpus, 0);
    taut_cpuset_add(&cpus, 6);
    make(&request);
    assert_sound(&request);
    /* CPU 6 is the first of its core among the chosen: it comes before CPU 4, beside CPU 0. */
    assert_cpus(&plan.server_cpus, "0");
    assert_cpus(&plan.client_cpus, "6");
    assert_int_equal(plan.shared_cores, 0);
    assert_int_equal(plan.candidate_count, 3);
    cpus = (struct taut_cpuset){{0}};
    taut_cpuset_add(&cpus, 5);
    make(&request);
    assert_sound(&request);
    assert_cpus(&plan.server_cpus, "5");
    assert_int_equal(plan.overlap, 1);
}

static void nodes_are_filled_one_after_the_other(void **state)
{
    (void)state;
    build_machine(8, 1, 2);
    make(NULL);
    assert_cpus(&plan.server_cpus, "0-2");
    assert_cpus(&plan.client_cpus, "3-6");
    assert_true(has_note("lie on 2 NUMA nodes"));
    const struct rig_plan_request small = {.workers = 2, .processes = 2};
    make(&small);
    assert_false(has_note("NUMA"));
}

static void unbound_is_unbound(void **state)
{
    (void)state;
    const struct rig_plan_request request = {.unbound = 1};
    build_machine(8, 1, 1);
    make(&request);
    assert_int_equal(plan.workers, 3);
    assert_int_equal(taut_cpuset_count(&plan.server_cpus), 0);
    assert_int_equal(taut_cpuset_count(&plan.client_cpus), 0);
    for (uint32_t i = 0; i < plan.workers; i++)
        assert_int_equal(plan.worker_cpu[i], RIG_UNBOUND);
    assert_int_equal(plan.process_cpu[0], RIG_UNBOUND);
    assert_int_equal(plan.house_cpu, RIG_UNBOUND);
    assert_true(has_note("nothing is bound"));
}

static void wishes_that_can_t_be_are_refused(void **state)
{
    (void)state;
    struct taut_cpuset none = {{0}}, other = {{0}};
    taut_cpuset_add(&other, 1);
    taut_cpuset_add(&other, 9);
    const struct {
        struct rig_plan_request request;
        const char *part;
    } cases[] = {
        {{.workers = RIG_WORKERS_MAX + 1}, "65 workers"},
        {{.processes = RIG_PROCESSES_MAX + 1, .sessions = 100}, "65 client processes"},
        {{.processes = 33}, "33 client processes for 32 sessions"},
        {{.processes = 3, .sessions = 2}, "for 2 sessions"},
        {{.single = 1, .workers = 2}, "the shape single has one"},
        {{.cpus = &none}, "empty"},
        {{.cpus = &other}, "CPU 9 may not be used here: usable are 0-3"},
    };
    build_machine(4, 1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        taut_err_clear(&err);
        assert_int_equal(rig_plan_make(&plan, &machine, &cases[i].request, &err), TAUT_EINVAL);
        if (strstr(err.text, cases[i].part) == NULL)
            fail_msg("%s", err.text);
    }
    assert_int_equal(rig_plan_make(NULL, &machine, NULL, &err), TAUT_EINVAL);
    assert_int_equal(rig_plan_make(&plan, NULL, NULL, &err), TAUT_EINVAL);
    memset(&machine, 0, sizeof machine);
    assert_int_equal(rig_plan_make(&plan, &machine, NULL, &err), TAUT_EINVAL);
}

static void every_plan_is_sound_and_the_same_again(void **state)
{
    (void)state;
    static const uint32_t counts[] = {0, 1, 2, 3, 7, 16, 64};
    static struct rig_plan again;
    for (uint32_t cores = 1; cores <= 40; cores += cores < 10 ? 1 : 15) {
        for (uint32_t threads = 1; threads <= 4; threads++) {
            for (size_t w = 0; w < 7; w++) {
                for (size_t p = 0; p < 7; p++) {
                    const struct rig_plan_request request = {
                        .sessions = 64, .workers = counts[w], .processes = counts[p]};
                    build_machine(cores, threads, cores > 4 ? 2 : 1);
                    if ((cores + threads) % 3 == 0)
                        set_quota(100000 * (int64_t)(cores % 5), 100000);
                    if (machine.width == 0)
                        machine.width = 1;
                    make(&request);
                    assert_sound(&request);
                    if (counts[w] != 0)
                        assert_int_equal(plan.workers, counts[w]);
                    if (counts[p] != 0)
                        assert_int_equal(plan.processes, counts[p]);
                    assert_int_equal(rig_plan_make(&again, &machine, &request, &err), TAUT_OK);
                    assert_memory_equal(&again, &plan, sizeof plan);
                }
            }
        }
    }
}

static void the_text_says_all_and_never_overflows(void **state)
{
    (void)state;
    char text[1024];
    const struct rig_plan_request request = {.workers = 2};
    build_machine(2, 1, 1);
    make(&request);
    size_t length = rig_plan_text(&plan, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_string_equal(text, "server    2 workers on CPU 0\n"
                              "clients   1 process, 32 sessions on CPU 1\n"
                              "acceptor  and coordinator on CPU 1\n"
                              "machine   2 usable CPUs on 2 cores, 2 at once\n"
                              "note      2 workers share 1 CPU\n"
                              "note      acceptor and coordinator share CPU 1 with a client; both "
                              "are idle in a phase\n");
    for (size_t room = 0; room < length + 2; room++) {
        char cut[1024];
        memset(cut, 0x5a, sizeof cut);
        assert_int_equal(rig_plan_text(&plan, cut, room), length);
        assert_int_equal(cut[room], 0x5a);
        if (room > 0)
            assert_int_equal(strncmp(cut, text, strlen(cut)), 0);
    }
}

static void the_json_has_every_field(void **state)
{
    (void)state;
    build_machine(2, 1, 1);
    make(NULL);
    json_t *object = rig_plan_json(&plan);
    char *text = json_dumps(object, JSON_COMPACT);
    assert_string_equal(
        text, "{\"sessions\":32,\"workers\":1,\"processes\":1,\"server_cpus\":\"0\","
              "\"client_cpus\":\"1\",\"worker_cpu\":[0],\"process_cpu\":[1],"
              "\"process_sessions\":[32],\"house_cpu\":1,\"cpus_usable\":2,"
              "\"cpus_chosen_from\":2,\"cpus_at_once\":2,\"cores\":2,\"quota_us\":null,"
              "\"period_us\":null,\"overlap\":false,\"shared_cores\":0,"
              "\"workers_beyond_cpus\":0,\"processes_beyond_cpus\":0,\"house_shared\":true,"
              "\"notes\":[\"acceptor and coordinator share CPU 1 with a client; both are idle in a "
              "phase\"]}");
    free(text);
    json_decref(object);
    const struct rig_plan_request unbound = {.unbound = 1};
    set_quota(150000, 100000);
    make(&unbound);
    object = rig_plan_json(&plan);
    assert_true(json_is_null(json_object_get(object, "house_cpu")));
    assert_true(json_is_null(json_array_get(json_object_get(object, "worker_cpu"), 0)));
    assert_int_equal(json_integer_value(json_object_get(object, "quota_us")), 150000);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cpu_runs_everything_and_says_so),
        cmocka_unit_test(two_cpus_are_one_each),
        cmocka_unit_test(two_threads_of_one_core_are_used_and_said),
        cmocka_unit_test(one_physical_core_each_first),
        cmocka_unit_test(hardware_threads_serve_only_where_asked_for),
        cmocka_unit_test(more_than_there_are_cpus_are_shared_in_proportion),
        cmocka_unit_test(one_given_count_leaves_the_rest_to_the_other),
        cmocka_unit_test(a_quota_bounds_what_runs_at_once),
        cmocka_unit_test(a_list_of_cpus_is_kept_to),
        cmocka_unit_test(nodes_are_filled_one_after_the_other),
        cmocka_unit_test(unbound_is_unbound),
        cmocka_unit_test(wishes_that_can_t_be_are_refused),
        cmocka_unit_test(every_plan_is_sound_and_the_same_again),
        cmocka_unit_test(the_text_says_all_and_never_overflows),
        cmocka_unit_test(the_json_has_every_field),
    };
    return cmocka_run_group_tests_name("rig/plan", tests, NULL, NULL);
}
