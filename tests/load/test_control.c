/* SPDX-License-Identifier: BSD-2-Clause */
/* The shared memory: plans that do not fit together, numbering, barriers, faults. */
#include <pthread.h>
#include <sched.h>

#include "support.h"

#define RACERS 4
#define ROUNDS 300

static void refused(const struct load_plan *plan, const char *word)
{
    struct load_control control;
    struct taut_err err = {0};
    assert_int_equal(load_control_create(&control, plan, &err), TAUT_EINVAL);
    assert_non_null(strstr(err.text, word));
    assert_null(control.shared);
}

static void plans_that_do_not_fit(void **state)
{
    struct load_plan good, plan;
    struct load_control control;
    char name[LOAD_COMP_ID_BYTES + 2];
    (void)state;
    make_plan(&good, "x", 5, 2, 3, 1, 1);
    assert_int_equal(load_control_create(&control, &good, NULL), 0);
    load_control_destroy(&control);
    plan = good;
    plan.processes = 0;
    refused(&plan, "processes");
    plan.processes = LOAD_PROCESSES_MAX + 1;
    refused(&plan, "processes");
    plan = good;
    plan.sessions = 1;
    refused(&plan, "sessions");
    plan.sessions = LOAD_SESSIONS_MAX + 1;
    refused(&plan, "sessions");
    plan = good;
    plan.runs = 0;
    refused(&plan, "runs");
    plan.runs = LOAD_RUNS_MAX + 1;
    refused(&plan, "runs");
    plan = good;
    plan.process_sessions[1]++;
    refused(&plan, "add up");
    plan = good;
    plan.sender = "";
    refused(&plan, "sender");
    memset(name, 'N', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    plan.sender = name;
    refused(&plan, "sender");
    plan = good;
    plan.target = name;
    refused(&plan, "target");
    plan = good;
    plan.host = NULL;
    refused(&plan, "host");
    plan = good;
    plan.amount[LOAD_MEASURE].duration_ns = 1;
    refused(&plan, "not both");
}

static void numbering(void **state)
{
    struct load_plan plan;
    struct load_control control;
    char text[64];
    (void)state;
    make_plan(&plan, "/folder", 7, 3, 2, 1, 1); /* 3 + 2 + 2 */
    assert_int_equal(load_control_create(&control, &plan, NULL), 0);
    static const uint32_t process_of[] = {0, 0, 0, 1, 1, 2, 2};
    for (uint32_t s = 0; s < 7; s++)
        assert_int_equal(control.markers[s].process, process_of[s]);
    assert_int_equal(load_first_session(&plan, 0), 0);
    assert_int_equal(load_first_session(&plan, 2), 5);
    load_comp_id(&plan, 0, text);
    assert_string_equal(text, "LOAD0001");
    load_comp_id(&plan, 65534, text);
    assert_string_equal(text, "LOAD65535");
    assert_int_equal(load_raw_path(&plan, 2, 1, text, sizeof(text)), 0);
    assert_string_equal(text, "/folder/run-2-process-1.traw");
    assert_int_equal(load_raw_path(&plan, 2, 1, text, 28), TAUT_ETOOBIG);
    /* No two accounts, and no two edges, are the same memory. */
    for (uint32_t i = 0; i < 3 * 2 * LOAD_PHASES; i++)
        load_account_of(&control, i / 4, 1 + i / 2 % 2, i % 2)->sent = i + 1;
    for (uint32_t i = 0; i < 3 * 2 * LOAD_PHASES; i++)
        assert_int_equal(load_account_of(&control, i / 4, 1 + i / 2 % 2, i % 2)->sent, i + 1);
    assert_ptr_equal(load_edge_of(&control, 1, 2) + 1, load_edge_of(&control, 2, 0));
    load_control_destroy(&control);
}

static void barrier_opens_with_the_last(void **state)
{
    struct load_plan plan;
    struct load_control control;
    uint64_t before = 0;
    (void)state;
    make_plan(&plan, "x", 3, 3, 2, 1, 1);
    assert_int_equal(load_control_create(&control, &plan, NULL), 0);
    for (uint32_t run = 1; run <= 2; run++)
        for (uint32_t edge = 0; edge < 3; edge++) {
            for (uint32_t p = 0; p < 3; p++) {
                assert_true(atomic_load(&load_edge_of(&control, run, edge)->time_ns) == 0);
                load_barrier_arrive(&control, run, edge);
            }
            uint64_t at = atomic_load(&load_edge_of(&control, run, edge)->time_ns);
            assert_true(at > 0 && at >= before);
            before = at;
        }
    load_control_destroy(&control);
}

struct racer {
    const struct load_control *control;
    _Atomic uint32_t *inside; /* how many are in each round */
    uint32_t wrong;
};

/* All must have arrived at an edge before anybody gets past it. */
static void *race(void *argument)
{
    struct racer *racer = argument;
    for (uint32_t i = 0; i < ROUNDS * 3; i++) {
        const struct load_edge *edge = load_edge_of(racer->control, 1 + i / 3, i % 3);
        atomic_fetch_add(&racer->inside[i], 1);
        load_barrier_arrive(racer->control, 1 + i / 3, i % 3);
        while (atomic_load_explicit(&edge->time_ns, memory_order_acquire) == 0)
            sched_yield();
        racer->wrong += atomic_load(&racer->inside[i]) != RACERS;
    }
    return NULL;
}

static void barriers_under_a_race(void **state)
{
    static _Atomic uint32_t inside[ROUNDS * 3];
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    struct load_plan plan;
    struct load_control control;
    (void)state;
    make_plan(&plan, "x", RACERS, RACERS, ROUNDS, 1, 1);
    assert_int_equal(load_control_create(&control, &plan, NULL), 0);
    for (uint32_t i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){&control, inside, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (uint32_t i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(racers[i].wrong, 0);
    }
    load_control_destroy(&control);
}

static void first_fault_counts(void **state)
{
    struct load_plan plan;
    struct load_control control;
    (void)state;
    make_plan(&plan, "x", 2, 2, 1, 1, 1);
    assert_int_equal(load_control_create(&control, &plan, NULL), 0);
    load_fault_set(&control, 1, LOAD_STALLED, TAUT_ETIMEDOUT, "first");
    load_fault_set(&control, 1, LOAD_PEER_LOST, 0, "second of the same process");
    load_fault_set(&control, 0, LOAD_PEER_LOST, 0, "second");
    assert_int_equal(atomic_load(&control.processes[1].fault), LOAD_STALLED);
    assert_string_equal(control.processes[1].text, "first");
    assert_int_equal(control.processes[1].fault_order, 1);
    assert_int_equal(control.processes[0].fault_order, 2);
    assert_int_equal(atomic_load(&control.shared->stop), LOAD_STOP_FAULT);
    load_control_destroy(&control);
    /* A stop that was there before keeps its reason. */
    assert_int_equal(load_control_create(&control, &plan, NULL), 0);
    atomic_store(&control.shared->stop, LOAD_STOP_INTERRUPT);
    load_fault_set(&control, 0, LOAD_PEER_LOST, 0, "after Ctrl-C");
    assert_int_equal(atomic_load(&control.shared->stop), LOAD_STOP_INTERRUPT);
    load_control_destroy(&control);
}

static void faults_have_names(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LOAD_FAULTS; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(load_fault_name(i), load_fault_name(j));
    assert_string_equal(load_fault_name(LOAD_FAULTS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_that_do_not_fit),       cmocka_unit_test(numbering),
        cmocka_unit_test(barrier_opens_with_the_last), cmocka_unit_test(barriers_under_a_race),
        cmocka_unit_test(first_fault_counts),          cmocka_unit_test(faults_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
