/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Server and clients as processes: whole runs, servers that can't start or die, a signal in
 * mid-run. After each of them no child is left and the signal mask is as before.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <taut/topology.h>

#include "base/futex.h"
#include "capture/raw.h"
#include "support.h"

struct scene {
    struct load_plan plan;
    struct load_control control;
    struct load_crew_options options;
    struct load_result result;
    struct taut_err err;
    char folder[256];
    uint64_t hold;    /* the server falls silent after so many bytes */
    int end;          /* what the server does: enum below */
    uint32_t signals; /* raised by the progress callback, once */
    uint32_t progress;
    uint64_t closing_ns, start_ns, stop_ns;
    uint32_t growers, growers_on_cpu; /* threads that grow a raw file: seen, on the client's CPU */
};

static int stop_at_sync; /* 1: a client stops itself in the middle of closing its raw file */

/* In the place of libc's: only client processes call it. */
int fsync(int fd)
{
    if (stop_at_sync)
        raise(SIGSTOP);
    return (int)syscall(SYS_fsync, fd);
}

/* The crew's waits for the server to tell: all, and those that a time-out ended. */
static uint32_t start_waits, start_waits_expired;

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    int ready = __real_ppoll(fds, count, timeout, mask);
    if (count == 2 && fds[1].fd >= 0) {
        start_waits++;
        start_waits_expired += ready == 0;
    }
    return ready;
}

enum { SERVE, FAIL_TO_START, EXIT_EARLY, NEVER_READY, READY_LATE, IGNORE_STOP, SLEEP_ON_STOP };

/* 1 once the crew's process sleeps, 0 when it does not within 10 s. */
static int crew_sleeps(void)
{
    char path[64], text[256];
    uint64_t end_ns = taut_now_ns() + 10 * TAUT_NS_PER_S;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)getppid());
    while (taut_now_ns() < end_ns) {
        FILE *file = fopen(path, "r");
        const char *end = file && fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
        if (file)
            fclose(file);
        if (end && end[1] == ' ' && end[2] == 'S')
            return 1;
        usleep(1000);
    }
    return 0;
}

struct echo {
    int listener;
    const _Atomic uint32_t *stop;
};

static void *echo_thread(void *argument)
{
    const struct echo *echo = argument;
    echo_until(echo->listener, echo->stop, 0);
    return NULL;
}

/* The echo is a thread's, and this one sleeps on the word, as a gateway's process does. 0: woken.
 */
static int sleep_on_stop(struct load_server *server, int listener)
{
    struct echo echo = {listener, &server->stop};
    pthread_t thread;
    if (pthread_create(&thread, NULL, echo_thread, &echo) != 0)
        return 1;
    while (atomic_load(&server->stop) == 0)
        taut__futex_wait(&server->stop, 0, TAUT_NEVER_NS, TAUT__FUTEX_SHARED);
    pthread_join(thread, NULL);
    return 0;
}

static int serve(void *context, struct load_control *control)
{
    struct scene *scene = context;
    struct load_server *server = &control->shared->server;
    static const _Atomic uint32_t never;
    if (scene->end == FAIL_TO_START) {
        server->code = TAUT_EADDRINUSE;
        snprintf(server->text, sizeof(server->text), "the port is taken");
        load_server_tell(server, LOAD_SERVER_FAILED);
        return 1;
    }
    if (scene->end == EXIT_EARLY)
        _exit(3);
    int listener = listen_any(&server->port_number);
    if (scene->end == NEVER_READY) {
        while (atomic_load(&server->stop) == 0)
            taut__futex_wait(&server->stop, 0, TAUT_NEVER_NS, TAUT__FUTEX_SHARED);
        return 0;
    }
    if (scene->end == READY_LATE && !crew_sleeps())
        _exit(9);
    load_server_tell(server, LOAD_SERVER_READY);
    if (scene->end == SLEEP_ON_STOP)
        return sleep_on_stop(server, listener);
    echo_until(listener, scene->end == IGNORE_STOP ? &never : &server->stop, scene->hold);
    return 0;
}

/* Counts the threads of client process 0 that grow its raw file. */
static void look_for_growers(struct scene *scene)
{
    char path[600], text[32];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)scene->control.processes[0].pid);
    DIR *tasks = opendir(path);
    const struct dirent *entry;
    while (tasks && (entry = readdir(tasks)) != NULL) {
        cpu_set_t mask;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)scene->control.processes[0].pid,
                 entry->d_name);
        FILE *comm = fopen(path, "r");
        int grower = comm && fgets(text, sizeof(text), comm) && !strcmp(text, "taut-grower\n");
        if (comm)
            fclose(comm);
        if (!grower ||
            sched_getaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof(mask), &mask) != 0)
            continue;
        scene->growers++;
        scene->growers_on_cpu += CPU_ISSET(scene->plan.process_cpu[0], &mask) != 0;
    }
    if (tasks)
        closedir(tasks);
}

static void on_progress(void *context, const struct load_progress *progress)
{
    struct scene *scene = context;
    scene->progress++;
    if (scene->plan.process_cpu[0] != LOAD_UNBOUND && progress->answered > 0)
        look_for_growers(scene);
    if (scene->signals && progress->answered > 0) {
        scene->signals = 0;
        raise(SIGTERM);
    }
}

static int run(struct scene *scene)
{
    sigset_t before, after;
    scene->plan.raw_folder = scene->folder;
    scene->options = (struct load_crew_options){.server = serve,
                                                .server_context = scene,
                                                .port_number = &scene->plan.port_number,
                                                .house_cpu = LOAD_UNBOUND,
                                                .start_ns = scene->start_ns,
                                                .stop_ns = scene->stop_ns,
                                                .closing_ns = scene->closing_ns,
                                                .progress = on_progress,
                                                .progress_context = scene};
    assert_int_equal(load_control_create(&scene->control, &scene->plan, NULL), 0);
    sigprocmask(SIG_SETMASK, NULL, &before);
    int code = load_crew_run(&scene->control, &scene->options, &scene->result, &scene->err);
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    assert_true(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    return code;
}

static void clean(struct scene *scene)
{
    load_control_destroy(&scene->control);
    remove_folder(&scene->plan);
}

static void set_up(struct scene *scene, uint32_t sessions, uint32_t processes, uint32_t runs,
                   uint64_t warmup, uint64_t measure)
{
    memset(scene, 0, sizeof(*scene));
    make_folder(scene->folder, sizeof(scene->folder));
    make_plan(&scene->plan, scene->folder, sessions, processes, runs, warmup, measure);
}

static uint64_t records(const struct scene *scene, uint32_t run_number, uint32_t status)
{
    struct load_figures figures[LOAD_PHASES];
    assert_int_equal(load_tally_run(&scene->plan, run_number, figures, NULL), 0);
    assert_int_equal(figures[0].files_missing + figures[0].files_damaged, 0);
    return figures[LOAD_WARMUP].by_status[status] + figures[LOAD_MEASURE].by_status[status];
}

static void whole_runs(void **state)
{
    struct scene scene;
    (void)state;
    set_up(&scene, 5, 2, 2, 20, 100);
    assert_int_equal(run(&scene), 0);
    assert_int_equal(scene.result.fault, LOAD_FINE);
    for (uint32_t r = 1; r <= 2; r++) {
        assert_true(records(&scene, r, RAW_ANSWERED) == 5 * 120);
        assert_true(records(&scene, r, RAW_LOST) == 0);
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
                const struct load_account *a = load_account_of(&scene.control, p, r, phase);
                uint64_t wanted = (phase ? 100 : 20) * (uint64_t)scene.plan.process_sessions[p];
                assert_true(a->scheduled == wanted && a->sent == wanted && a->answered == wanted);
                assert_true(a->lost == 0 && a->error == 0 && a->begun && a->finished);
            }
        for (uint32_t edge = 0; edge < 3; edge++) {
            assert_true(atomic_load(&load_edge_of(&scene.control, r, edge)->time_ns) > 0);
            assert_true(load_edge_of(&scene.control, r, edge)->server_cpu_ns > 0);
        }
    }
    for (uint32_t s = 0; s < 5; s++) {
        assert_true(atomic_load(&scene.control.markers[s].sent) == 240);
        assert_true(atomic_load(&scene.control.markers[s].answered) == 240);
        assert_true(atomic_load(&scene.control.markers[s].outstanding_id) == 0);
    }
    clean(&scene);
}

static void server_that_can_not_start(void **state)
{
    struct scene scene;
    (void)state;
    set_up(&scene, 2, 1, 1, 0, 1);
    scene.end = FAIL_TO_START;
    assert_int_equal(run(&scene), TAUT_EADDRINUSE);
    assert_string_equal(scene.err.text, "the port is taken");
    clean(&scene);
    set_up(&scene, 2, 1, 1, 0, 1);
    scene.end = EXIT_EARLY;
    assert_true(run(&scene) < 0);
    assert_non_null(strstr(scene.err.text, "status 3"));
    clean(&scene);
}

/* It is given up in time, told to stop, and nobody connects to it. */
static void server_that_is_never_ready(void **state)
{
    struct scene scene;
    (void)state;
    set_up(&scene, 2, 1, 1, 0, 1);
    scene.end = NEVER_READY;
    scene.start_ns = 300 * TAUT_NS_PER_MS;
    uint64_t begun_ns = taut_now_ns();
    assert_int_equal(run(&scene), TAUT_ETIMEDOUT);
    assert_true(taut_now_ns() - begun_ns >= scene.start_ns);
    assert_string_equal(scene.err.text, "the server was not ready within 0.3 s");
    const struct load_server *server = &scene.control.shared->server;
    assert_true(WIFEXITED(server->wait_status) && WEXITSTATUS(server->wait_status) == 0);
    assert_true(scene.control.processes[0].pid == 0); /* never forked */
    clean(&scene);
}

/* The crew is asleep when the server tells: no time-out ends that sleep, only the word. */
static void server_that_is_ready_late(void **state)
{
    struct scene scene;
    (void)state;
    set_up(&scene, 2, 1, 1, 0, 1);
    scene.end = READY_LATE;
    scene.start_ns = 8 * TAUT_NS_PER_S;
    start_waits = start_waits_expired = 0;
    assert_int_equal(run(&scene), 0);
    assert_int_equal(scene.result.fault, LOAD_FINE);
    assert_in_range(start_waits, 1, 2); /* a SIGCHLD of an earlier scene may be left */
    assert_int_equal(start_waits_expired, 0);
    clean(&scene);
}

/* A server that does not end when told to is killed; the result is what it was. */
static void server_that_does_not_stop(void **state)
{
    struct scene scene;
    (void)state;
    set_up(&scene, 2, 1, 1, 0, 10);
    scene.end = IGNORE_STOP;
    scene.stop_ns = 500 * TAUT_NS_PER_MS;
    assert_int_equal(run(&scene), 0);
    assert_int_equal(scene.result.fault, LOAD_FINE);
    assert_true(WIFSIGNALED(scene.control.shared->server.wait_status));
    clean(&scene);
}

/* Else the crew's patience ends, and it is killed. */
static void server_that_sleeps_is_woken(void **state)
{
    struct scene scene;
    (void)state;
    set_up(&scene, 2, 1, 1, 0, 10);
    scene.end = SLEEP_ON_STOP;
    assert_int_equal(run(&scene), 0);
    const struct load_server *server = &scene.control.shared->server;
    assert_true(WIFEXITED(server->wait_status) && WEXITSTATUS(server->wait_status) == 0);
    clean(&scene);
}

/* The peer falls silent: every process ends, the account says what is lost, file and marker agree.
 */
static void silence_is_a_stall(void **state)
{
    struct scene scene;
    uint64_t sent = 0, answered = 0, outstanding = 0, error = 0, lost = 0;
    (void)state;
    set_up(&scene, 4, 2, 1, 0, 100000);
    scene.hold = 40000;
    scene.plan.stall_timeout_ns = 300 * TAUT_NS_PER_MS;
    assert_int_equal(run(&scene), 0);
    assert_int_equal(scene.result.fault, LOAD_STALLED);
    assert_non_null(strstr(scene.result.text, "no answer within"));
    for (uint32_t s = 0; s < 4; s++) {
        sent += atomic_load(&scene.control.markers[s].sent);
        answered += atomic_load(&scene.control.markers[s].answered);
        outstanding += atomic_load(&scene.control.markers[s].outstanding_id) != 0;
    }
    for (uint32_t p = 0; p < 2; p++) {
        lost += load_account_of(&scene.control, p, 1, LOAD_MEASURE)->lost;
        error += load_account_of(&scene.control, p, 1, LOAD_MEASURE)->error;
        assert_false(load_account_of(&scene.control, p, 1, LOAD_MEASURE)->finished);
    }
    assert_true(outstanding > 0);
    assert_true(sent == answered + outstanding);
    assert_true(lost == outstanding && error == 0);
    assert_true(records(&scene, 1, RAW_LOST) == outstanding);
    assert_true(records(&scene, 1, RAW_ANSWERED) == answered);
    clean(&scene);
}

static void signal_in_mid_run(void **state)
{
    struct scene scene;
    uint64_t answered = 0;
    (void)state;
    set_up(&scene, 4, 2, 3, 10, 0);
    scene.plan.amount[LOAD_MEASURE].duration_ns = 60 * TAUT_NS_PER_S;
    scene.signals = 1;
    assert_int_equal(run(&scene), 0);
    assert_int_equal(scene.result.fault, LOAD_FINE);
    assert_int_equal(scene.result.interrupted, 1);
    assert_int_equal(scene.result.signal, SIGTERM);
    assert_int_equal(atomic_load(&scene.control.shared->stop), LOAD_STOP_INTERRUPT);
    for (uint32_t p = 0; p < 2; p++)
        answered += atomic_load(&scene.control.processes[p].answered);
    assert_true(answered > 0);
    assert_true(records(&scene, 1, RAW_ANSWERED) == answered);
    assert_true(records(&scene, 1, RAW_LOST) == 0); /* what was in flight was waited for */
    clean(&scene);
}

/* A client that is stopped while it closes its file is not waited for for ever. */
static void stopped_while_it_closes(void **state)
{
    struct scene scene;
    (void)state;
    set_up(&scene, 2, 1, 1, 0, 10);
    scene.closing_ns = 500 * TAUT_NS_PER_MS;
    stop_at_sync = 1;
    int code = run(&scene);
    stop_at_sync = 0;
    assert_int_equal(code, 0);
    assert_int_equal(scene.result.fault, LOAD_HUNG);
    assert_non_null(strstr(scene.result.text, "while it closes its raw file"));
    assert_true(WIFSIGNALED(scene.control.processes[0].wait_status));
    assert_int_equal(WTERMSIG(scene.control.processes[0].wait_status), SIGKILL);
    clean(&scene);
}

/* A client has its CPU for itself: its raw file grows elsewhere, and not while it measures. */
static void the_raw_file_grows_elsewhere(void **state)
{
    struct scene scene;
    struct taut_cpuset cpus;
    (void)state;
    assert_int_equal(taut_cpuset_of_self(&cpus), 0);
    if (taut_cpuset_count(&cpus) < 2) {
        print_message("skipped: there is only one CPU\n");
        skip();
    }
    uint64_t grown = 1;
    /* Again where somebody else had the CPU in the warm-up, by whose rate the file is prepared. */
    for (int attempt = 0; attempt < 5 && grown > 0; attempt++) {
        set_up(&scene, 4, 1, 1, 0, 0);
        scene.plan.process_cpu[0] = taut_cpuset_nth(&cpus, 0);
        scene.plan.amount[LOAD_WARMUP].duration_ns = 200 * TAUT_NS_PER_MS;
        scene.plan.amount[LOAD_MEASURE].duration_ns = TAUT_NS_PER_S;
        assert_int_equal(run(&scene), 0);
        assert_int_equal(scene.result.fault, LOAD_FINE);
        assert_int_equal(scene.control.processes[0].cpu_bound, scene.plan.process_cpu[0]);
        assert_true(scene.growers > 0);
        assert_int_equal(scene.growers_on_cpu, 0);
        grown = load_account_of(&scene.control, 0, 1, LOAD_MEASURE)->raw_grown;
        clean(&scene);
    }
    assert_int_equal(grown, 0);
}

static void nobody_listens(void **state)
{
    struct scene scene;
    (void)state;
    set_up(&scene, 2, 2, 1, 0, 1);
    int listener = listen_any(&scene.plan.port_number);
    close(listener);
    scene.options = (struct load_crew_options){.house_cpu = LOAD_UNBOUND};
    assert_int_equal(load_control_create(&scene.control, &scene.plan, NULL), 0);
    assert_int_equal(load_crew_run(&scene.control, &scene.options, &scene.result, &scene.err), 0);
    assert_int_equal(scene.result.fault, LOAD_REFUSED);
    assert_int_equal(scene.control.processes[scene.result.process].code, TAUT_ECONNREFUSED);
    clean(&scene);
}

static void raw_file_that_exists(void **state)
{
    struct scene scene;
    char path[4096];
    (void)state;
    set_up(&scene, 2, 1, 1, 0, 1);
    assert_int_equal(load_raw_path(&scene.plan, 1, 0, path, sizeof(path)), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("somebody's", file);
    fclose(file);
    assert_int_equal(run(&scene), 0);
    assert_int_equal(scene.result.fault, LOAD_FILE);
    file = fopen(path, "r");
    assert_non_null(file);
    char kept[16] = "";
    assert_non_null(fgets(kept, sizeof(kept), file));
    fclose(file);
    assert_string_equal(kept, "somebody's");
    clean(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_runs),
        cmocka_unit_test(server_that_can_not_start),
        cmocka_unit_test(server_that_is_never_ready),
        cmocka_unit_test(server_that_is_ready_late),
        cmocka_unit_test(server_that_does_not_stop),
        cmocka_unit_test(server_that_sleeps_is_woken),
        cmocka_unit_test(silence_is_a_stall),
        cmocka_unit_test(signal_in_mid_run),
        cmocka_unit_test(stopped_while_it_closes),
        cmocka_unit_test(the_raw_file_grows_elsewhere),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(raw_file_that_exists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
