/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of cli/bench_judge.c: an account that forgets one request is found, and so is a machine
 * that was not ours. The premise of each is a bench that is PUBLISHABLE without the fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/raw.h"
#include "cli/bench.h"

#define RUNS     2u
#define MESSAGES 5000u
#define SESSIONS 4u

struct fixture {
    struct bench bench;
    struct load_figures figures[RUNS][LOAD_PHASES];
};

/* A whole, steady bench on a quiet machine of two CPUs: nothing to say against it. */
static struct fixture *make(void)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct bench *b = &f->bench;
    struct taut_err err = {0};
    assert_non_null(f);
    b->plan.sessions = b->plan.process_sessions[0] = SESSIONS;
    b->plan.processes = 1;
    b->plan.runs = RUNS;
    b->plan.process_cpu[0] = LOAD_UNBOUND;
    b->plan.host = "127.0.0.1";
    b->plan.raw_folder = "none";
    b->plan.sender = "LOAD";
    b->plan.target = "TAUT";
    b->plan.amount[LOAD_WARMUP].messages = b->plan.amount[LOAD_MEASURE].messages = MESSAGES;
    b->topology.usable_count = 2;
    b->figures = f->figures;
    assert_int_equal(load_control_create(&b->control, &b->plan, &err), 0);
    for (uint32_t run = 1; run <= RUNS; run++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
            uint64_t all = MESSAGES * SESSIONS;
            struct load_account *account = load_account_of(&b->control, 0, run, phase);
            account->begun = account->finished = 1;
            account->scheduled = account->sent = account->answered = all;
            f->figures[run - 1][phase].sent = all;
            f->figures[run - 1][phase].by_status[RAW_ANSWERED] = all;
            f->figures[run - 1][phase].files = 1;
            for (uint32_t q = 0; q < LOAD_QUANTILES; q++)
                f->figures[run - 1][phase].quantile_ns[q] = 10000;
            atomic_fetch_add(&b->control.processes[0].sent, all);
            atomic_fetch_add(&b->control.processes[0].answered, all);
        }
    b->quiet = json_pack("{s:I,s:I,s:I,s:{s:I}}", "window_ns", (json_int_t)10000000000,
                         "foreign_us", (json_int_t)100000, "steal_us", (json_int_t)1000,
                         "throttling", "throttled", (json_int_t)0);
    assert_non_null(b->quiet);
    return f;
}

static void release(struct fixture *f)
{
    load_control_destroy(&f->bench.control);
    json_decref(f->bench.quiet);
    free(f);
}

static void judged(struct fixture *f, uint32_t status, const char *word)
{
    struct bench *b = &f->bench;
    bench_judge(b);
#if BENCH_INSTRUMENTED
    if (status == BENCH_PUBLISHABLE)
        status = BENCH_DIAGNOSTIC; /* an instrumented build says so */
#endif
    if (b->status != status)
        fail_msg("status %s, first reason '%s'", bench_status_name(b->status), b->reasons[0]);
    for (uint32_t i = 0; word && i <= b->reason_count; i++) {
        if (i == b->reason_count)
            fail_msg("no reason begins with '%s'; the first is '%s'", word, b->reasons[0]);
        if (strncmp(b->reasons[i], word, strlen(word)) == 0)
            break;
    }
    release(f);
}

static void test_nothing_to_say(void **state)
{
    (void)state;
    struct fixture *f = make();
    bench_judge(&f->bench);
    assert_true(f->bench.delivery.balanced);
    assert_int_equal(f->bench.delivery.scheduled, RUNS * LOAD_PHASES * MESSAGES * SESSIONS);
    release(f);
    judged(make(), BENCH_PUBLISHABLE, NULL);
}

/* The files say lost, the sums of sent and answered too, the client's own count of lost does not.
 */
static void test_a_forgotten_loss(void **state)
{
    (void)state;
    struct fixture *f = make();
    struct load_account *account = load_account_of(&f->bench.control, 0, 1, LOAD_MEASURE);
    account->answered--;
    atomic_fetch_sub(&f->bench.control.processes[0].answered, 1);
    f->figures[0][LOAD_MEASURE].by_status[RAW_ANSWERED]--;
    f->figures[0][LOAD_MEASURE].by_status[RAW_LOST]++;
    account->lost = 1; /* counted: lost, and balanced */
    bench_judge(&f->bench);
    assert_true(f->bench.delivery.balanced);
    assert_int_equal(f->bench.status, BENCH_INVALID);
    f->bench.status = f->bench.reason_count = 0;
    memset(&f->bench.delivery, 0, sizeof(f->bench.delivery));
    account->lost = 0; /* forgotten */
    judged(f, BENCH_INVALID, "accounts:");
}

static void test_a_forgotten_rest(void **state)
{
    (void)state;
    struct fixture *f = make();
    struct load_account *account = load_account_of(&f->bench.control, 0, 2, LOAD_MEASURE);
    account->sent--;
    account->answered--;
    atomic_fetch_sub(&f->bench.control.processes[0].sent, 1);
    atomic_fetch_sub(&f->bench.control.processes[0].answered, 1);
    f->figures[1][LOAD_MEASURE].by_status[RAW_ANSWERED]--;
    f->figures[1][LOAD_MEASURE].sent--;
    judged(f, BENCH_INVALID, "accounts: scheduled");
}

static void test_a_killed_process_is_derived(void **state)
{
    (void)state;
    struct fixture *f = make();
    struct load_account *account = load_account_of(&f->bench.control, 0, 2, LOAD_MEASURE);
    memset(account, 0, sizeof(*account));
    bench_judge(&f->bench);
    assert_int_equal(f->bench.delivery.derived, 1);
    assert_true(f->bench.delivery.balanced);
    release(f);
}

static void test_the_machine(void **state)
{
    static const struct {
        const char *key;
        json_int_t value;
        const char *word;
    } cases[] = {{"foreign_us", 1000001, "others: used"}, {"steal_us", 200001, "steal:"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture *f = make();
        json_object_set_new(f->bench.quiet, cases[i].key, json_integer(cases[i].value));
        judged(f, BENCH_PARTIAL, cases[i].word);
        f = make(); /* just at the limit */
        json_object_set_new(f->bench.quiet, cases[i].key, json_integer(cases[i].value - 1));
        judged(f, BENCH_PUBLISHABLE, NULL);
    }
    struct fixture *f = make();
    json_object_set_new(json_object_get(f->bench.quiet, "throttling"), "throttled",
                        json_integer(1));
    judged(f, BENCH_PARTIAL, "throttled:");
    f = make();
    json_object_set_new(f->bench.quiet, "steal_us", json_string("unavailable"));
    judged(f, BENCH_PARTIAL, "others: what else");
    f = make();
    json_decref(f->bench.quiet);
    f->bench.quiet = NULL;
    judged(f, BENCH_PARTIAL, "others: what else");
}

static void test_growth_within_a_phase(void **state)
{
    (void)state;
    struct fixture *f = make();
    load_account_of(&f->bench.control, 0, 2, LOAD_MEASURE)->raw_grown = 262144;
    judged(f, BENCH_PARTIAL, "grown:");
}

/* A busy client is told of, and held against nobody: the loop is closed. */
static void test_a_busy_client(void **state)
{
    (void)state;
    for (uint64_t percent = 95; percent <= 96; percent++) {
        struct fixture *f = make();
        struct bench *b = &f->bench;
        for (uint32_t run = 1; run <= RUNS; run++) {
            atomic_store(&load_edge_of(&b->control, run, 1)->time_ns, 1000);
            atomic_store(&load_edge_of(&b->control, run, 2)->time_ns, 1000 + 1000000);
            load_account_of(&b->control, 0, run, LOAD_MEASURE)->thread_ns = percent * 10000;
        }
        bench_judge(b);
        assert_int_equal(b->note_count, percent > 95);
        assert_int_equal(b->status, BENCH_INSTRUMENTED ? BENCH_DIAGNOSTIC : BENCH_PUBLISHABLE);
        if (percent > 95)
            assert_non_null(strstr(b->notes[0], "client-saturated: process 0"));
        release(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_busy_client),
        cmocka_unit_test(test_nothing_to_say),
        cmocka_unit_test(test_a_forgotten_loss),
        cmocka_unit_test(test_a_forgotten_rest),
        cmocka_unit_test(test_a_killed_process_is_derived),
        cmocka_unit_test(test_the_machine),
        cmocka_unit_test(test_growth_within_a_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
