/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/load.h - closed-loop load on a server: client processes, their barriers, their accounts.
 *
 *   load_plan      what to do, complete before anything starts
 *   load_control   memory shared by all processes of one invocation: barriers, counters, faults
 *   load_client    the whole life of one client process
 *   load_crew      forks server and clients, watches them, leaves none behind
 *   load_tally     figures of a run, from nothing but its raw files
 *
 * A client process has one thread, one port and many sessions. A session has at most one request in
 * flight; the next goes out when the poll returns that delivered the answer. Every request is one
 * record in a raw file, lost until its answer comes. An answer that is not the one its session
 * waits for - another session's, a second one, an unknown one - ends the run as a fault: it is
 * never taken for the answer. So does a session that makes no progress for the stall timeout.
 *
 * A run is warm-up, then measure, in all processes at once; the sessions stay logged on between the
 * runs. After a fault or a stop no new request is sent, those in flight may still be answered for a
 * short time, the raw files are closed, and the accounts stay readable in the control memory, also
 * those of a process that was killed.
 *
 * Threads: a client is one thread; load_crew_run() is called where no other thread runs, for it
 * forks. Allocation: none between the barriers of a run.
 */
#ifndef LAB_LOAD_LOAD_H
#define LAB_LOAD_LOAD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <taut/clock.h>
#include <taut/err.h>
#include <taut/gateway.h>
#include <taut/port.h>

#define LOAD_PROCESSES_MAX 64u
#define LOAD_SESSIONS_MAX  65535u /* the raw record's session number has 16 bits */
#define LOAD_RUNS_MAX      1000u
#define LOAD_UNBOUND       UINT32_MAX
#define LOAD_ID_DIGITS     12u
#define LOAD_COMP_ID_BYTES 48u

enum load_mode {
    LOAD_FIX = 0, /* orders on FIX sessions */
    LOAD_ECHO     /* the same bytes without a session; an answer is a number of bytes */
};

enum load_phase { LOAD_WARMUP = 0, LOAD_MEASURE = 1, LOAD_PHASES = 2 };

/* How much a phase does: messages a session, or a time. Both 0: the phase is left out. */
struct load_amount {
    uint64_t messages;
    uint64_t duration_ns;
};

/* What ended a process early. The first one of all processes is the run's. */
enum load_fault {
    LOAD_FINE = 0,
    LOAD_STALLED,       /* a session made no progress for the stall timeout */
    LOAD_WRONG_ANSWER,  /* an answer to another request, a second one, an unknown one */
    LOAD_REJECTED,      /* the peer rejected a request */
    LOAD_GARBLED,       /* the peer sent bytes that are no message, after its logon */
    LOAD_PEER_LOST,     /* the peer closed, reset or logged out in mid-run */
    LOAD_REFUSED,       /* no connection */
    LOAD_LOGON_REFUSED, /* a connection, but no logon */
    LOAD_NOT_FIX,       /* the peer's first bytes are no FIX */
    LOAD_TOO_SLOW,      /* no complete Logon or message in time */
    LOAD_TOO_BIG,       /* a message larger than the buffer */
    LOAD_DISK_FULL,     /* the raw file can't grow */
    LOAD_FILE,          /* the raw file can't be made or closed */
    LOAD_SETUP,         /* memory, descriptors, CPU binding */
    LOAD_SERVER,        /* the server could not start */
    LOAD_SERVER_DIED,   /* the server process ended in mid-run */
    LOAD_CLIENT_DIED,   /* a client process ended without its account */
    LOAD_HUNG,          /* a process shows no sign of life */
    LOAD_FAULTS
};

enum load_stop {
    LOAD_GO_ON = 0,
    LOAD_STOP_FAULT,    /* some process has a fault */
    LOAD_STOP_INTERRUPT /* Ctrl-C, SIGTERM or SIGHUP */
};

/* Complete before load_control_create(); read-only afterwards. Texts must outlive the plan. */
struct load_plan {
    uint32_t mode; /* enum load_mode */
    const char *host;
    uint16_t port_number; /* may be set later, when the server has one */
    uint32_t sessions, processes, runs;
    uint32_t process_sessions[LOAD_PROCESSES_MAX]; /* adds up to `sessions` */
    uint32_t process_cpu[LOAD_PROCESSES_MAX];      /* or LOAD_UNBOUND */
    struct load_amount amount[LOAD_PHASES];
    uint32_t port_kind, busy_poll;
    uint32_t scan_variant;
    const char *sender; /* SenderCompID's first part; the session's number follows: LOAD0001 */
    const char *target; /* TargetCompID */
    uint32_t heartbeat_s;
    uint32_t reply_bytes;      /* echo: bytes of an answer; 0 = the request's, compared */
    uint32_t message_bytes;    /* longest message of the peer; 0 = 16 KiB */
    uint64_t stall_timeout_ns; /* 0 = 10 s */
    uint64_t logon_timeout_ns; /* connect to Logon; 0 = 10 s */
    const char *raw_folder;    /* where run-R-process-P.traw go */
    const char *recipe;        /* JSON for the raw files' headers, NULL = none */
    struct taut_clock clock;   /* calibrated before the processes fork */
    uint64_t epoch_ns, epoch_utc_ns;
};

/* One session's live marker: written by its process, readable by all at any time. */
struct load_marker {
    _Atomic uint64_t sent, answered;
    _Atomic uint64_t outstanding_id;   /* the request in flight, 0 = none */
    _Atomic uint64_t last_activity_ns; /* of the last send or answer, CLOCK_MONOTONIC */
    _Atomic uint32_t logged_on;
    uint32_t process;
};

/* One process's account of one phase of one run. Written by that process at the phase's end. */
struct load_account {
    uint64_t scheduled; /* what the plan wanted: in a phase with a duration, what was sent */
    uint64_t sent, answered, lost, error;
    uint64_t cpu_ns;    /* CPU time of the process within the phase */
    uint64_t thread_ns; /* that of its client thread */
    uint64_t unsent;    /* messages of the plan that the links did not get to */
    uint64_t raw_grown; /* records by which the raw file had to grow within the phase: 0 = none */
    uint32_t begun, finished;
};

/* A moment at which all processes passed a barrier. Three a run: warm-up, measure, end. */
struct load_edge {
    _Atomic uint64_t time_ns; /* 0 = not yet */
    uint64_t server_cpu_ns;   /* CPU time of the server's process so far; 0 = unknown */
};

enum load_process_state {
    LOAD_STARTING = 0,
    LOAD_CONNECTING,
    LOAD_WAITING, /* at a barrier */
    LOAD_RUNNING,
    LOAD_DRAINING,
    LOAD_CLOSING, /* writes and closes its raw file */
    LOAD_ENDED
};

/* What one client process says about itself. */
struct load_process {
    _Atomic uint32_t state; /* enum load_process_state */
    _Atomic uint64_t alive; /* grows while the process does its loop */
    _Atomic uint64_t sent, answered;
    _Atomic uint64_t worst_ns; /* greatest service time of this run so far */
    _Atomic uint32_t run, phase;
    _Atomic uint32_t ready; /* sessions that are ready for orders */

    _Atomic uint32_t fault; /* enum load_fault, set last */
    uint32_t fault_order;   /* 1 = first of all processes */
    int32_t code;           /* enum taut_code */
    char text[240];

    int32_t cpu_bound; /* read back; -1 = unbound */
    pid_t pid;
    int32_t wait_status; /* of waitpid(), once `reaped` */
    uint32_t reaped;
    uint32_t reply_bytes_least, reply_bytes_most;
    uint64_t raw_stalls; /* how often a record had to wait for its chunk */
    uint64_t heartbeats_sent, test_requests_received;
    int64_t drift_ppb; /* the greatest found, by its magnitude */
    uint32_t drift_known;
    struct taut_port_stats port;
    struct taut_port_options effective;
};

enum load_server_state {
    LOAD_SERVER_STARTING = 0,
    LOAD_SERVER_READY, /* `port_number` is listening */
    LOAD_SERVER_FAILED /* it can't: see `code` and `text` */
};

/* What the server process says about itself. */
struct load_server {
    _Atomic uint32_t ready;     /* enum load_server_state; set by load_server_tell() */
    int32_t ready_fd;           /* eventfd, inherited by the server: wakes the crew */
    _Atomic uint32_t stop;      /* set by the crew, which then wakes who sleeps on it: end */
    _Atomic uint32_t published; /* 1: the statistics are complete */
    pid_t pid;
    int32_t wait_status;
    uint32_t reaped;
    int32_t code;
    char text[240];
    uint16_t port_number;
    uint32_t workers;
    struct taut_gateway_options effective; /* its pointers mean nothing in another process */
    struct taut_gateway_stats total;
    struct taut_gateway_stats worker[64];
};

struct load_shared {
    _Atomic uint32_t stop; /* enum load_stop */
    _Atomic uint32_t fault_count;
    _Atomic uint64_t arrived; /* at barriers, over all processes */
    struct load_server server;
};

/* The same memory in every process; forked, not copied. */
struct load_control {
    const struct load_plan *plan;
    struct load_shared *shared;
    struct load_process *processes; /* plan->processes */
    struct load_edge *edges;        /* plan->runs * 3 */
    struct load_account *accounts;  /* [process][run][phase]: load_account_of() */
    struct load_marker *markers;    /* plan->sessions */
    size_t bytes;
};

/* --- control --------------------------------------------------------------------------------- */

/* TAUT_EINVAL for a plan whose parts do not fit together, TAUT_ENOMEM. */
int load_control_create(struct load_control *control, const struct load_plan *plan,
                        struct taut_err *err);
void load_control_destroy(struct load_control *control);

/* run from 1, phase enum load_phase. */
struct load_account *load_account_of(const struct load_control *control, uint32_t process,
                                     uint32_t run, uint32_t phase);

/* Edge 0..2 of a run from 1. */
struct load_edge *load_edge_of(const struct load_control *control, uint32_t run, uint32_t edge);

/* The first session of a process. */
uint32_t load_first_session(const struct load_plan *plan, uint32_t process);

/* "LOAD0001" for session 0; `text` has 64 bytes. */
void load_comp_id(const struct load_plan *plan, uint32_t session, char *text);

/* The path of a raw file; TAUT_ETOOBIG where it does not fit. */
int load_raw_path(const struct load_plan *plan, uint32_t run, uint32_t process, char *path,
                  size_t capacity);

/* Records a fault of a process once, and stops all. */
void load_fault_set(const struct load_control *control, uint32_t process, uint32_t fault, int code,
                    const char *text);

/* "stalled", "wrong-answer", ...: stable words for machines. */
const char *load_fault_name(uint32_t fault);

/*
 * Arrives at barrier `run`, `edge` and returns at once; the last one to arrive sets the edge. Call
 * once a process and barrier, in order. Wait until load_edge_of()->time_ns is set, or stop is.
 */
void load_barrier_arrive(const struct load_control *control, uint32_t run, uint32_t edge);

/* --- client ---------------------------------------------------------------------------------- */

/*
 * The whole life of client process `process`: connect, log on, all runs, log out. Returns its
 * enum load_fault, which the control memory has too. Returns LOAD_FINE after a stop.
 */
uint32_t load_client_run(const struct load_control *control, uint32_t process);

/* --- crew ------------------------------------------------------------------------------------ */

struct load_progress {
    uint32_t run, runs, phase; /* phase: enum load_phase */
    uint32_t ready, sessions;  /* while they connect: ready < sessions */
    uint64_t sent, answered;   /* all processes, since the beginning */
    uint64_t worst_ns;         /* greatest service time of this run so far */
    uint64_t rate_per_s;       /* over about the last second */
    uint64_t elapsed_ns;       /* since the beginning */
    uint32_t stopping;         /* enum load_stop */
};

struct load_crew_options {
    /* Runs the server in a process of its own: fills control->shared->server, says so by
     * load_server_tell(), returns after `stop`. NULL: the server is there already. */
    int (*server)(void *context, struct load_control *control);
    void *server_context;
    uint16_t *port_number; /* where the plan's port_number is, set when the server is ready */
    uint32_t house_cpu;    /* where this process goes once all are forked, or LOAD_UNBOUND */
    uint64_t start_ns;   /* a server that has not told for longer than this is given up; 0 = 15 s */
    uint64_t stop_ns;    /* one that has not ended for longer than this after its end is killed;
                            0 = 8 s */
    uint64_t closing_ns; /* a client that closes its raw file for longer than this, and what its
                            records take at 4 MB/s, is LOAD_HUNG; 0 = 30 s */
    /* Called about five times a second; NULL = never. */
    void (*progress)(void *context, const struct load_progress *progress);
    void *progress_context;
};

/* For the server: tells the crew, once, that it is READY or has FAILED. All that it has filled in
 * before is there for the crew, which wakes at once. */
void load_server_tell(struct load_server *server, uint32_t state);

struct load_result {
    uint32_t fault;   /* the first fault that is no consequence of another, LOAD_FINE = none */
    uint32_t process; /* whose; UINT32_MAX = the server's or the crew's */
    uint32_t interrupted;
    int signal; /* that interrupted */
    char text[320];
};

/*
 * Forks, watches, ends and reaps all processes; they die with this one. Returns 0 when it could
 * start them, whatever came of it, or a code when nothing ran: the server's own, TAUT_ESTATE when
 * it ended, TAUT_ETIMEDOUT when it had not told within start_ns, TAUT_ECANCELED after a signal.
 */
int load_crew_run(struct load_control *control, const struct load_crew_options *options,
                  struct load_result *result, struct taut_err *err);

/* --- tally ----------------------------------------------------------------------------------- */

#define LOAD_QUANTILES 5u /* p50, p90, p99, p99.9, p99.99 */

/* One phase of one run over all its raw files. Times are service times. */
struct load_figures {
    uint32_t run, phase;   /* phase: enum load_phase */
    uint64_t by_status[8]; /* records by enum raw_status; the last: damaged ones */
    uint64_t sent;         /* answered + late + lost + error */
    uint64_t n;            /* samples */
    uint64_t min_ns, max_ns;
    uint64_t quantile_ns[LOAD_QUANTILES];      /* or QUANTILE_REFUSED, QUANTILE_INFINITE */
    uint64_t first_begin_ns, last_received_ns; /* CLOCK_MONOTONIC; 0 = none */
    uint64_t utc_of_worst_ns;                  /* when the request of max_ns was sent */
    uint64_t record_of_worst;                  /* its record, in the file of its process */
    uint32_t session_of_worst, process_of_worst;
    uint32_t files, files_missing, files_damaged;
};

/* Reads the raw files of `run` of `processes` processes below the folder. The other members of the
 * plan are not looked at. TAUT_ENOMEM; a missing or damaged file is counted, not an error. */
int load_tally_run(const struct load_plan *plan, uint32_t run,
                   struct load_figures figures[LOAD_PHASES], struct taut_err *err);

#endif
