/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/crew.c - forks server and clients, watches them, ends them.
 *
 * Signals come through a descriptor, so there is no handler and no global state: the children
 * inherit the blocked mask, and a Ctrl-C that the terminal sends to the whole group is acted upon
 * by this process alone. Every child dies with its parent (PR_SET_PDEATHSIG), and is only ever
 * signalled by its own, not yet reaped pid.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <taut/topology.h>

#include "base/futex.h"
#include "capture/raw.h"
#include "load/load.h"

#define WATCH_NS            (200 * TAUT_NS_PER_MS)
#define RATE_SAMPLES        6u /* a second of watches, and one */
#define SERVER_START_NS     (15 * TAUT_NS_PER_S)
#define SERVER_STOP_NS      (8 * TAUT_NS_PER_S)
#define CLIENTS_STOP_NS     (30 * TAUT_NS_PER_S)
#define HANG_NS             (10 * TAUT_NS_PER_S) /* beyond the stall timeout */
#define CLOSING_NS          (30 * TAUT_NS_PER_S) /* and the time of the bytes on a slow disk: */
#define CLOSING_BYTES_PER_S UINT64_C(4000000)

struct crew {
    struct load_control *control;
    const struct load_crew_options *options;
    struct load_result *result;
    pid_t parent;
    int signals;      /* signalfd */
    int server_ready; /* eventfd, -1 = nobody is waited for */
    sigset_t old_mask;
    uint64_t begun_ns;
    uint64_t stop_ns; /* when the clients were first told to stop, 0 = not yet */
    uint32_t clients_left;
    uint32_t killed; /* 1: the rest of the clients was killed for taking too long */
    uint64_t alive[LOAD_PROCESSES_MAX];
    uint64_t alive_ns[LOAD_PROCESSES_MAX];
    uint64_t rate_time_ns[RATE_SAMPLES], rate_answered[RATE_SAMPLES];
    uint32_t rate_count;
};

/* --- processes ------------------------------------------------------------------------------- */

static void describe_end(char *text, size_t capacity, const char *who, pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        snprintf(text, capacity, "%s (pid %d) was killed by signal %d (%s)", who, (int)pid,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, capacity, "%s (pid %d) ended by itself with status %d", who, (int)pid,
                 WEXITSTATUS(status));
}

static void stop_clients(struct crew *crew, uint32_t why)
{
    uint32_t go_on = LOAD_GO_ON;
    atomic_compare_exchange_strong_explicit(&crew->control->shared->stop, &go_on, why,
                                            memory_order_relaxed, memory_order_relaxed);
}

/* In the child: dies with the parent. */
static void become_child(const struct crew *crew)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != crew->parent) /* it died before the prctl() */
        _exit(1);
    close(crew->signals);
}

void load_server_tell(struct load_server *server, uint32_t state)
{
    /* pairs with the acquire load in wait_for_server(): what the server wrote before is there */
    atomic_store_explicit(&server->ready, state, memory_order_release);
    eventfd_write(server->ready_fd, 1); /* can't fail: once a process, and the crew holds it open */
}

static int fork_server(struct crew *crew, struct taut_err *err)
{
    struct load_server *server = &crew->control->shared->server;
    pid_t pid = fork();
    if (pid < 0)
        return taut_err_set(err, taut_code_from_errno(errno), "can't start the server process: %s",
                            strerror(errno));
    if (pid == 0) {
        become_child(crew);
        _exit(crew->options->server(crew->options->server_context, crew->control) == 0 ? 0 : 1);
    }
    server->pid = pid;
    return 0;
}

static int fork_clients(struct crew *crew, struct taut_err *err)
{
    struct load_control *control = crew->control;
    for (uint32_t p = 0; p < control->plan->processes; p++) {
        pid_t pid = fork();
        if (pid < 0) {
            int why = errno;
            stop_clients(crew, LOAD_STOP_FAULT);
            return taut_err_set(err, taut_code_from_errno(why), "can't start client process %u: %s",
                                p, strerror(why));
        }
        if (pid == 0) {
            char name[32];
            become_child(crew);
            snprintf(name, sizeof(name), "taut-client-%u", p);
            prctl(PR_SET_NAME, name);
            _exit(load_client_run(control, p) == LOAD_FINE ? 0 : 1);
        }
        control->processes[p].pid = pid;
        crew->clients_left++;
        crew->alive_ns[p] = taut_now_ns();
    }
    return 0;
}

static void client_ended(struct crew *crew, uint32_t p, int status)
{
    struct load_process *process = &crew->control->processes[p];
    char who[40], text[240];
    process->wait_status = status;
    process->reaped = 1;
    crew->clients_left--;
    /* pairs with the release store at the end of load_client_run() */
    if (atomic_load_explicit(&process->state, memory_order_acquire) == LOAD_ENDED &&
        WIFEXITED(status))
        return;
    snprintf(who, sizeof(who), "client process %u", p);
    describe_end(text, sizeof(text), who, process->pid, status);
    load_fault_set(crew->control, p, LOAD_CLIENT_DIED, TAUT_ESTATE, text);
}

/* The server's end before it was told to. */
static void server_died(struct crew *crew, int status)
{
    struct load_server *server = &crew->control->shared->server;
    if (atomic_load_explicit(&server->ready, memory_order_acquire) !=
        LOAD_SERVER_FAILED) /* else it said why */
        describe_end(server->text, sizeof(server->text), "the server process", server->pid, status);
    if (crew->result->fault == LOAD_FINE) {
        crew->result->fault = LOAD_SERVER_DIED;
        crew->result->process = UINT32_MAX;
        snprintf(crew->result->text, sizeof(crew->result->text), "%s", server->text);
    }
    stop_clients(crew, LOAD_STOP_FAULT);
}

static void reap(struct crew *crew)
{
    struct load_server *server = &crew->control->shared->server;
    int status;
    for (uint32_t p = 0; p < crew->control->plan->processes; p++) {
        struct load_process *process = &crew->control->processes[p];
        if (process->pid > 0 && !process->reaped &&
            waitpid(process->pid, &status, WNOHANG) == process->pid)
            client_ended(crew, p, status);
    }
    if (server->pid > 0 && !server->reaped &&
        waitpid(server->pid, &status, WNOHANG) == server->pid) {
        server->wait_status = status;
        server->reaped = 1;
        if (!atomic_load_explicit(&server->stop, memory_order_relaxed))
            server_died(crew, status);
    }
}

static void kill_clients(struct crew *crew)
{
    for (uint32_t p = 0; p < crew->control->plan->processes; p++)
        if (crew->control->processes[p].pid > 0 && !crew->control->processes[p].reaped)
            kill(crew->control->processes[p].pid, SIGKILL);
    crew->killed = 1;
}

/* --- watching -------------------------------------------------------------------------------- */

static void on_signal(struct crew *crew, int number)
{
    if (number == SIGCHLD)
        return; /* reap() looks in any case */
    if (crew->result->interrupted) {
        kill_clients(crew); /* asked twice: at once */
        return;
    }
    crew->result->interrupted = 1;
    crew->result->signal = number;
    stop_clients(crew, LOAD_STOP_INTERRUPT);
}

/* Waits until `until_ns` for a signal, the end of a child or the server's word; handles what came,
 * reaps. */
static void look(struct crew *crew, uint64_t until_ns)
{
    struct pollfd waiting[] = {{crew->signals, POLLIN, 0}, {crew->server_ready, POLLIN, 0}};
    struct signalfd_siginfo info;
    uint64_t now = taut_now_ns(), wait_ns = until_ns > now ? until_ns - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(wait_ns / TAUT_NS_PER_S),
                               .tv_nsec = (long)(wait_ns % TAUT_NS_PER_S)};
    ppoll(waiting, 2, until_ns == TAUT_NEVER_NS ? NULL : &timeout, NULL);
    while (read(crew->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        on_signal(crew, (int)info.ssi_signo);
    reap(crew);
}

/* How long a process may show no sign of life. One that closes its raw file hashes and syncs it
 * without any: it gets the time that the records of all runs take on a slow disk. */
static uint64_t patience_ns(const struct crew *crew, const struct load_process *process,
                            uint32_t state)
{
    const struct load_plan *plan = crew->control->plan;
    if (state != LOAD_CLOSING)
        return (plan->stall_timeout_ns ? plan->stall_timeout_ns : HANG_NS) + HANG_NS;
    uint64_t closing = crew->options->closing_ns ? crew->options->closing_ns : CLOSING_NS;
    uint64_t sent = atomic_load_explicit(&process->sent, memory_order_relaxed);
    return closing + sent * (RAW_RECORD_BYTES * (TAUT_NS_PER_S / CLOSING_BYTES_PER_S));
}

/* A process that is stopped, or stuck in a call: nobody else would notice. */
static void watch_life(struct crew *crew)
{
    const struct load_plan *plan = crew->control->plan;
    uint64_t now = taut_now_ns();
    for (uint32_t p = 0; p < plan->processes; p++) {
        struct load_process *process = &crew->control->processes[p];
        uint64_t alive = atomic_load_explicit(&process->alive, memory_order_relaxed);
        uint32_t state = atomic_load_explicit(&process->state, memory_order_relaxed);
        char text[240];
        uint64_t limit = patience_ns(crew, process, state);
        if (process->pid <= 0)
            continue; /* never forked: kill(0) would be for everybody in our process group */
        if (alive != crew->alive[p] || process->reaped || state == LOAD_ENDED) {
            crew->alive[p] = alive;
            crew->alive_ns[p] = now;
        }
        if (now - crew->alive_ns[p] < limit)
            continue;
        snprintf(text, sizeof(text),
                 "client process %u (pid %d) shows no sign of life for %.1f s%s", p,
                 (int)process->pid, (double)limit / 1e9,
                 state == LOAD_CLOSING ? " while it closes its raw file" : "");
        load_fault_set(crew->control, p, LOAD_HUNG, TAUT_ETIMEDOUT, text);
        kill(process->pid, SIGKILL);
        crew->alive_ns[p] = now;
    }
}

/* Answers a second since the oldest sample kept, about a second ago. */
static uint64_t rate_now(struct crew *crew, uint64_t now, uint64_t answered)
{
    uint32_t slot = crew->rate_count % RATE_SAMPLES;
    uint32_t oldest = crew->rate_count < RATE_SAMPLES ? 0 : slot;
    uint64_t since = crew->rate_time_ns[oldest], before = crew->rate_answered[oldest];
    uint32_t any = crew->rate_count > 0;
    crew->rate_time_ns[slot] = now;
    crew->rate_answered[slot] = answered;
    crew->rate_count++;
    if (!any || now <= since)
        return 0;
    return (uint64_t)((double)(answered - before) * 1e9 / (double)(now - since));
}

static void tell_progress(struct crew *crew)
{
    const struct load_plan *plan = crew->control->plan;
    struct load_progress progress = {.runs = plan->runs, .sessions = plan->sessions};
    uint64_t now = taut_now_ns();
    if (!crew->options->progress)
        return;
    for (uint32_t p = 0; p < plan->processes; p++) {
        const struct load_process *process = &crew->control->processes[p];
        uint64_t worst = atomic_load_explicit(&process->worst_ns, memory_order_relaxed);
        uint32_t run = atomic_load_explicit(&process->run, memory_order_relaxed);
        uint32_t phase = atomic_load_explicit(&process->phase, memory_order_relaxed);
        progress.ready += atomic_load_explicit(&process->ready, memory_order_relaxed);
        progress.sent += atomic_load_explicit(&process->sent, memory_order_relaxed);
        progress.answered += atomic_load_explicit(&process->answered, memory_order_relaxed);
        progress.worst_ns = worst > progress.worst_ns ? worst : progress.worst_ns;
        if (run > progress.run || (run == progress.run && phase > progress.phase)) {
            progress.run = run;
            progress.phase = phase;
        }
    }
    progress.rate_per_s = rate_now(crew, now, progress.answered);
    progress.elapsed_ns = now - crew->begun_ns;
    progress.stopping = atomic_load_explicit(&crew->control->shared->stop, memory_order_relaxed);
    crew->options->progress(crew->options->progress_context, &progress);
}

static void watch_clients(struct crew *crew)
{
    while (crew->clients_left > 0) {
        look(crew, taut_deadline_ns(taut_now_ns(), WATCH_NS));
        watch_life(crew);
        tell_progress(crew);
        if (atomic_load_explicit(&crew->control->shared->stop, memory_order_relaxed) == LOAD_GO_ON)
            continue;
        uint64_t now = taut_now_ns();
        if (!crew->stop_ns)
            crew->stop_ns = now;
        if (!crew->killed && now - crew->stop_ns > CLIENTS_STOP_NS)
            kill_clients(crew);
    }
}

/* --- server ---------------------------------------------------------------------------------- */

/* Asleep until the server tells, ends, or it takes too long: what it said. */
static uint32_t wait_for_server(struct crew *crew, uint64_t until_ns)
{
    struct load_server *server = &crew->control->shared->server;
    uint32_t ready = LOAD_SERVER_STARTING;
    while (ready == LOAD_SERVER_STARTING && !server->reaped && !crew->result->interrupted &&
           taut_now_ns() < until_ns) {
        look(crew, until_ns);
        /* pairs with load_server_tell() */
        ready = atomic_load_explicit(&server->ready, memory_order_acquire);
    }
    return ready;
}

static int start_server(struct crew *crew, struct taut_err *err)
{
    struct load_server *server = &crew->control->shared->server;
    uint64_t patience_ns = crew->options->start_ns ? crew->options->start_ns : SERVER_START_NS;
    uint64_t until_ns = taut_deadline_ns(taut_now_ns(), patience_ns);
    /* Not an event of lib/wait: those are for threads of one process, and this one has signals and
     * ends of children to wait for as well. */
    crew->server_ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (crew->server_ready < 0)
        return taut_err_set(err, taut_code_from_errno(errno), "eventfd: %s", strerror(errno));
    server->ready_fd = crew->server_ready;
    int code = fork_server(crew, err);
    uint32_t ready = code == 0 ? wait_for_server(crew, until_ns) : LOAD_SERVER_STARTING;
    close(crew->server_ready); /* no client inherits it */
    crew->server_ready = -1;
    if (code)
        return code;
    if (ready == LOAD_SERVER_READY) {
        *crew->options->port_number = server->port_number;
        return 0;
    }
    if (crew->result->interrupted)
        return taut_err_set(err, TAUT_ECANCELED, "interrupted before the server was ready");
    if (ready == LOAD_SERVER_FAILED)
        return taut_err_set(err, server->code, "%s", server->text);
    if (server->reaped)
        return taut_err_set(err, TAUT_ESTATE, "%s", server->text);
    return taut_err_set(err, TAUT_ETIMEDOUT, "the server was not ready within %.1f s",
                        (double)patience_ns / 1e9);
}

static void stop_server(struct crew *crew)
{
    struct load_server *server = &crew->control->shared->server;
    uint64_t patience_ns = crew->options->stop_ns ? crew->options->stop_ns : SERVER_STOP_NS;
    uint64_t until = taut_deadline_ns(taut_now_ns(), patience_ns);
    if (server->pid <= 0)
        return;
    reap(crew); /* its death before this line is one in mid-run */
    atomic_store_explicit(&server->stop, 1, memory_order_relaxed);
    taut__futex_wake(&server->stop, UINT32_MAX, TAUT__FUTEX_SHARED); /* it may sleep on the word */
    while (!server->reaped && taut_now_ns() < until)
        look(crew, until);
    if (server->reaped)
        return;
    kill(server->pid, SIGKILL);
    while (!server->reaped)
        look(crew, taut_deadline_ns(taut_now_ns(), WATCH_NS));
}

/* --- the whole ------------------------------------------------------------------------------- */

/* The first fault of the clients, unless the server's death was the cause of it. */
static void judge(struct crew *crew)
{
    const struct load_plan *plan = crew->control->plan;
    uint32_t first = UINT32_MAX;
    if (crew->result->fault != LOAD_FINE)
        return;
    for (uint32_t p = 0; p < plan->processes; p++) {
        struct load_process *process = &crew->control->processes[p];
        /* pairs with the release store in load_fault_set() */
        uint32_t fault = atomic_load_explicit(&process->fault, memory_order_acquire);
        if (fault == LOAD_FINE || process->fault_order >= first)
            continue;
        first = process->fault_order;
        crew->result->fault = fault;
        crew->result->process = p;
        snprintf(crew->result->text, sizeof(crew->result->text), "%s", process->text);
    }
}

static int open_signals(struct crew *crew, struct taut_err *err)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &crew->old_mask);
    crew->signals = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (crew->signals >= 0)
        return 0;
    int why = errno;
    sigprocmask(SIG_SETMASK, &crew->old_mask, NULL);
    return taut_err_set(err, taut_code_from_errno(why), "signalfd: %s", strerror(why));
}

int load_crew_run(struct load_control *control, const struct load_crew_options *options,
                  struct load_result *result, struct taut_err *err)
{
    struct crew crew = {
        .control = control, .options = options, .result = result, .server_ready = -1};
    memset(result, 0, sizeof(*result));
    result->process = UINT32_MAX;
    crew.parent = getpid();
    crew.begun_ns = taut_now_ns();
    int code = open_signals(&crew, err);
    if (code)
        return code;
    fflush(NULL); /* what is buffered is not to be written once a process */
    if (options->server)
        code = start_server(&crew, err);
    if (code == 0) {
        code = fork_clients(&crew, err);
        if (options->house_cpu != LOAD_UNBOUND)
            taut_cpu_bind_self(options->house_cpu, NULL); /* a wish; the plan's read-back tells */
        watch_clients(&crew);
    }
    stop_server(&crew);
    look(&crew, 0); /* the last ends, and a signal that came meanwhile */
    judge(&crew);
    close(crew.signals);
    sigprocmask(SIG_SETMASK, &crew.old_mask, NULL);
    return code;
}
