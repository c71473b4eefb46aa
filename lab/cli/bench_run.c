/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_run.c - the order of a scenario: run directory and recipe first, then the processes,
 * then the figures from the raw files, the verdict, and the same result as text, as JSON and as
 * files. Whatever went wrong in between, what was measured is printed and kept.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/bench.h"

#define SESSIONS_ON_A_SCREEN 40u

void bench_take_places(struct bench *b)
{
    b->plan.processes = b->rig.processes;
    for (uint32_t p = 0; p < b->rig.processes; p++) {
        b->plan.process_sessions[p] = b->rig.process_sessions[p];
        b->plan.process_cpu[p] = b->rig.process_cpu[p];
    }
}

/* What must be there before anything starts. -1 to go on, or the exit code. */
static int prepare(struct bench *b)
{
    struct taut_err err = {0};
    json_t *recipe;
    int exit_code;
    b->begun_utc_ns = taut_utc_now_ns();
    exit_code = bench_folder_create(b);
    if (exit_code >= 0)
        return exit_code;
    b->provenance_before = rig_provenance(NULL);
    recipe = bench_recipe_json(b);
    exit_code = bench_folder_json(b, "recipe.json", recipe);
    json_decref(recipe);
    if (exit_code >= 0)
        return exit_code;
    recipe = bench_raw_recipe_json(b);
    b->raw_recipe = json_dumps(recipe, JSON_COMPACT);
    json_decref(recipe);
    b->plan.recipe = b->raw_recipe;
    if (taut_clock_calibrate(&b->plan.clock, 0, &err) != 0)
        return cli_fail_err(b->command, &err);
    b->plan.epoch_ns = taut_clock_read(&b->plan.clock);
    b->plan.epoch_utc_ns = taut_utc_now_ns();
    if (load_control_create(&b->control, &b->plan, &err) != 0)
        return cli_fail_err(b->command, &err);
    b->figures = calloc(b->plan.runs, sizeof(*b->figures));
    return b->figures ? -1 : cli_fail(b->command, EXIT_INTERNAL, "no memory for the figures");
}

/* The processes. -1 when they ran, whatever came of it. */
static int run_processes(struct bench *b)
{
    struct rig_quiet_options quiet_options = {.cpus = &b->topology.usable};
    struct load_crew_options options = {
        .server = b->with_server ? bench_server : NULL,
        .server_context = b,
        .port_number = &b->plan.port_number,
        .house_cpu = b->rig.house_cpu,
        .progress = bench_progress_wanted(b) ? bench_progress : NULL,
        .progress_context = b,
    };
    struct rig_quiet *quiet = NULL;
    struct taut_err err = {0};
    rig_quiet_start(&quiet, &quiet_options, NULL);
    int code = load_crew_run(&b->control, &options, &b->result, &err);
    bench_progress_end(b);
    if (quiet)
        b->quiet = rig_quiet_read(quiet, 0);
    rig_quiet_destroy(quiet);
    if (code == 0)
        return -1;
    if (err.code == TAUT_ECANCELED)
        return cli_fail(b->command, EXIT_INTERRUPTED, "%s", err.text);
    return cli_fail_err(b->command, &err);
}

static int tally(struct bench *b)
{
    struct taut_err err = {0};
    for (uint32_t run = 1; run <= b->plan.runs; run++)
        if (load_tally_run(&b->plan, run, b->figures[run - 1], &err) != 0)
            return cli_fail(b->command, EXIT_INTERNAL, "%s; the raw files are in %s", err.text,
                            b->raw_folder);
    b->provenance_after = rig_provenance(NULL);
    return -1;
}

/* report.txt with all sessions, stdout with some. */
static int print_text(const struct bench *b)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    int exit_code = -1;
    if (memory) {
        bench_text(b, memory, UINT32_MAX);
        if (fclose(memory) == 0)
            exit_code = bench_folder_text(b, "report.txt", text, length);
    }
    free(text);
    if (!b->options.json)
        bench_text(b, stdout, SESSIONS_ON_A_SCREEN);
    return exit_code;
}

static int print_json(const struct bench *b)
{
    json_t *object = bench_result_json(b);
    int exit_code = bench_folder_json(b, "result.json", object);
    if (b->options.json && object) {
        json_dumpf(object, stdout, JSON_INDENT(2));
        fputc('\n', stdout);
    }
    json_decref(object);
    return exit_code;
}

/* One line that says why the exit code is not 0. */
static void say_why(const struct bench *b, int exit_code)
{
    if (exit_code == EXIT_INTERRUPTED)
        cli_fail(b->command, exit_code, "interrupted; what was measured is in %s", b->folder);
    else if (b->result.fault != LOAD_FINE)
        cli_fail(b->command, exit_code, "%s", b->result.text);
    else if (exit_code != EXIT_OK)
        cli_fail(b->command, exit_code, "the measurement is %s: %s", bench_status_name(b->status),
                 b->reason_count ? b->reasons[0] : "no reason given");
}

static void interrupts(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

/* A signal while the figures were made: they are printed and written all the same. */
static int interrupted_late(void)
{
    const struct timespec at_once = {0};
    sigset_t set;
    interrupts(&set);
    return sigtimedwait(&set, NULL, &at_once) > 0;
}

int bench_run(struct bench *b)
{
    /* Until the end: while processes run, the crew takes them from a descriptor, and a signal
     * during the evaluation must not lose what was measured. */
    sigset_t set;
    interrupts(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int exit_code = prepare(b);
    if (exit_code < 0)
        exit_code = run_processes(b);
    if (exit_code < 0)
        exit_code = tally(b);
    if (exit_code >= 0)
        return exit_code;
    bench_judge(b);
    exit_code = bench_exit_code(b);
    /* A full disk may keep the small files from being written too: the printed result counts. */
    int json_exit = print_json(b), text_exit = print_text(b);
    say_why(b, exit_code);
    if (exit_code == EXIT_OK && json_exit >= 0)
        exit_code = json_exit;
    if (exit_code == EXIT_OK && text_exit >= 0)
        exit_code = text_exit;
    if (exit_code == EXIT_OK && interrupted_late())
        exit_code =
            cli_fail(b->command, EXIT_INTERRUPTED, "interrupted after the runs; they are whole");
    return cli_finish(b->command, exit_code);
}

void bench_free(struct bench *b)
{
    load_control_destroy(&b->control);
    free(b->figures);
    free(b->raw_recipe);
    json_decref(b->provenance_before);
    json_decref(b->provenance_after);
    json_decref(b->quiet);
    free(b);
}
