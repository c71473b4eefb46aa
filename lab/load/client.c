/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/client.c - the life of one client process: connect, log on, the runs with their barriers,
 * log out. Whatever ends it early, the account of each phase that began is complete, and its raw
 * file is closed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/check.h"
#include "load/client.h"

#define PORT_BUFFER_BYTES     16384u
#define MESSAGE_BYTES         16384u
#define CONNECTS_AT_A_TIME    64u
#define TIMEOUT_NS            (10 * TAUT_NS_PER_S)
#define BARRIER_POLL_NS       (200 * TAUT_NS_PER_US)
#define DRAIN_AFTER_STOP_NS   TAUT_NS_PER_S
#define LOGOUT_NS             (2 * TAUT_NS_PER_S)
#define LOGOUT_AFTER_FAULT_NS (200 * TAUT_NS_PER_MS)
/* What a phase of unknown rate is guessed at: 250 a ms, of which at most 32 MiB are prepared. */
#define GUESSED_RECORDS_PER_MS UINT64_C(250)
#define GUESSED_RECORDS_MAX    (UINT64_C(1) << 20)
/* More than this is not prepared ahead of a run: 128 MiB of records. */
#define EXPECTED_RECORDS_MAX (UINT64_C(4) << 20)

static int stopped(const struct load_client *c)
{
    return c->fault != LOAD_FINE ||
           atomic_load_explicit(&c->control->shared->stop, memory_order_relaxed) != LOAD_GO_ON;
}

static void set_state(struct load_client *c, uint32_t state)
{
    atomic_store_explicit(&c->self->state, state, memory_order_relaxed);
}

static uint64_t cpu_ns(clockid_t id)
{
    struct timespec used;
    if (clock_gettime(id, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * TAUT_NS_PER_S + (uint64_t)used.tv_nsec;
}

/* --- setting up ------------------------------------------------------------------------------ */

static void bind_cpu(struct load_client *c)
{
    uint32_t cpu = c->plan->process_cpu[c->process];
    struct taut_err err = {0};
    if (cpu == LOAD_UNBOUND)
        return;
    /* The thread that grows the raw file must not do it on this CPU, where there is another one. */
    if (taut_cpuset_of_self(&c->other_cpus) == 0 && taut_cpuset_count(&c->other_cpus) > 1)
        c->other_cpus.bits[cpu / 64] &= ~(UINT64_C(1) << (cpu % 64));
    if (taut_cpu_bind_self(cpu, &err) != 0)
        load_client_fault(c, LOAD_SETUP, err.code, "client process %u can't run on CPU %u: %s",
                          c->process, cpu, err.text);
    else
        c->self->cpu_bound = (int32_t)cpu; /* taut_cpu_bind_self() read it back */
}

static void raise_descriptors(struct load_client *c)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)c->count + 64;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted)
        load_client_fault(
            c, LOAD_SETUP, TAUT_EACCES,
            "%u sessions in one process want %llu file descriptors, the limit is %llu", c->count,
            (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
}

static int make_port(struct load_client *c)
{
    struct taut_port_options options = {
        .size = sizeof(options),
        .kind = c->plan->port_kind,
        .connections = c->count + 1,
        .buffers = c->count < 8     ? 8
                   : c->count > 256 ? 256
                                    : c->count,
        .buffer_bytes = PORT_BUFFER_BYTES,
        .busy_poll = c->plan->busy_poll,
    };
    struct taut_err err = {0};
    int code = taut_port_create(&c->port, &options, &err);
    if (code) {
        load_client_fault(c, LOAD_SETUP, code, "no port: %s", err.text);
        return code;
    }
    c->self->effective.size = sizeof c->self->effective;
    TAUT_CHECK(taut_port_effective(c->port, &c->self->effective) == 0);
    return 0;
}

static int make_fix(struct load_client *c, struct load_link *link, void *memory)
{
    char sender[64];
    struct taut_err err = {0};
    load_comp_id(c->plan, link->number, sender);
    struct taut_session_config config = {
        .size = sizeof(config),
        .role = TAUT_INITIATOR,
        .version = TAUT_FIX_4_4,
        .sender_comp_id = sender,
        .target_comp_id = c->plan->target,
        .heartbeat_s = c->plan->heartbeat_s,
        .reset_on_logon = 1, /* a load generator has no store: each logon starts at 1 */
        .logon_timeout_ns = c->logon_timeout_ns,
        .logout_timeout_ns = LOGOUT_NS,
    };
    int code = taut_session_init(&link->fix, memory, taut_session_footprint(), &config, &err);
    if (code)
        load_client_fault(c, LOAD_SETUP, code, "no session: %s", err.text);
    return code;
}

static int make_links(struct load_client *c)
{
    size_t footprint = (taut_session_footprint() + 63) & ~(size_t)63;
    size_t tail = c->message_bytes + PORT_BUFFER_BYTES + TAUT_SCAN_PADDING;
    int fix = c->plan->mode == LOAD_FIX;
    uint32_t first = load_first_session(c->plan, c->process);
    struct taut_err err = {0};
    c->links = calloc(c->count, sizeof(*c->links));
    if (fix) {
        c->session_memory = aligned_alloc(64, footprint * c->count);
        c->outboxes = calloc(c->count, CLIENT_OUTBOX_BYTES);
        /* Most tails are never touched: pages come when a message is split. */
        c->tails_bytes = tail * c->count;
        c->tails = mmap(NULL, c->tails_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (c->tails == MAP_FAILED)
            c->tails = NULL;
    } else {
        c->echoes = calloc(c->count, sizeof(*c->echoes));
    }
    if (!c->links || (fix && (!c->session_memory || !c->outboxes || !c->tails)) ||
        (!fix && !c->echoes)) {
        load_client_fault(c, LOAD_SETUP, TAUT_ENOMEM, "no memory for %u sessions", c->count);
        return TAUT_ENOMEM;
    }
    for (uint32_t i = 0; i < c->count; i++) {
        struct load_link *link = &c->links[i];
        link->number = first + i;
        link->marker = &c->control->markers[link->number];
        if (fix) {
            link->out.data = c->outboxes + (size_t)i * CLIENT_OUTBOX_BYTES;
            link->out.capacity = CLIENT_OUTBOX_BYTES;
            link->tail = c->tails + i * tail;
            if (make_fix(c, link, (uint8_t *)c->session_memory + i * footprint) != 0)
                return TAUT_EINVAL;
            continue;
        }
        link->echo = &c->echoes[i];
        int code =
            load_echo_make(link->echo, &c->order, c->plan, link->number, taut_utc_now_ns(), &err);
        if (code) {
            load_client_fault(c, LOAD_SETUP, code, "%s", err.text);
            return code;
        }
        link->out.data = link->echo->bytes;
        link->out.capacity = LOAD_ECHO_BYTES;
    }
    return 0;
}

static void set_up(struct load_client *c)
{
    struct taut_err err = {0};
    bind_cpu(c);
    raise_descriptors(c);
    c->scan = taut_scan_select(c->plan->scan_variant);
    if (!c->scan)
        load_client_fault(c, LOAD_SETUP, TAUT_ENOTSUP, "this CPU has no scan variant %s",
                          taut_scan_name(c->plan->scan_variant));
    if (load_order_compile(&c->order, &err) != 0)
        load_client_fault(c, LOAD_SETUP, err.code, "%s", err.text);
    c->now_ns = taut_clock_read(&c->plan->clock);
    c->utc_offset_ns = taut_utc_now_ns() - c->now_ns;
    if (c->fault == LOAD_FINE && make_port(c) == 0)
        make_links(c);
}

/* --- connecting ------------------------------------------------------------------------------ */

static void start_connect(struct load_client *c, struct load_link *link, uint32_t index)
{
    struct taut_err err = {0};
    link->state = LINK_CONNECTING;
    link->activity_ns = c->now_ns;
    int code =
        taut_port_connect(c->port, c->plan->host, c->plan->port_number, index, &link->conn, &err);
    if (code) {
        link->state = LINK_CLOSED;
        c->closed++;
        load_client_fault(c, LOAD_REFUSED, code, "can't connect to %s:%u: %s", c->plan->host,
                          c->plan->port_number, err.text[0] ? err.text : taut_code_text(code));
        return;
    }
    c->connecting++;
}

static void connect_all(struct load_client *c)
{
    uint32_t next = 0;
    set_state(c, LOAD_CONNECTING);
    while (c->ready < c->count && !stopped(c)) {
        while (next < c->count && c->connecting < CONNECTS_AT_A_TIME && !stopped(c)) {
            start_connect(c, &c->links[next], next);
            next++;
        }
        load_pump(c, c->now_ns + CLIENT_TICK_NS);
    }
}

/* --- a run ----------------------------------------------------------------------------------- */

/* 1: the edge is reached; 0: stopped. */
static int wait_edge(struct load_client *c, uint32_t run, uint32_t edge)
{
    const struct load_edge *e = load_edge_of(c->control, run, edge);
    set_state(c, LOAD_WAITING);
    load_barrier_arrive(c->control, run, edge);
    /* pairs with the release store in load_barrier_arrive() */
    while (atomic_load_explicit(&e->time_ns, memory_order_acquire) == 0) {
        if (stopped(c))
            return 0;
        load_pump(c, taut_clock_read(&c->plan->clock) + BARRIER_POLL_NS);
    }
    return !stopped(c);
}

/* Waits for what is in flight; afterwards what is still unanswered is lost. */
static void drain(struct load_client *c)
{
    uint64_t patience = stopped(c) ? DRAIN_AFTER_STOP_NS : c->stall_timeout_ns + CLIENT_TICK_NS;
    uint64_t until = taut_deadline_ns(c->now_ns, patience);
    set_state(c, LOAD_DRAINING);
    c->sending = 0;
    while (c->flight > 0 && c->fault == LOAD_FINE && c->now_ns < until) {
        load_pump(c, until);
        if (stopped(c) && until > c->now_ns + DRAIN_AFTER_STOP_NS)
            until = c->now_ns + DRAIN_AFTER_STOP_NS;
    }
}

/* Requests that will not be answered any more: their records stay `lost`. What the plan has left is
 * counted from the links, not derived. */
static void give_up(struct load_client *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        struct load_link *link = &c->links[i];
        link->busy = 0;
        c->account.unsent += c->timed ? 0 : link->remaining;
        if (link->outstanding_id == 0)
            continue;
        link->outstanding_id = 0; /* the shared marker keeps it, for the table of sessions */
        c->flight--;
        c->account.lost++;
    }
    c->busy = 0;
}

static void run_phase(struct load_client *c, uint32_t run, uint32_t phase)
{
    const struct load_amount *amount = &c->plan->amount[phase];
    uint64_t process_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t thread_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    struct load_account *account = load_account_of(c->control, c->process, run, phase);
    memset(&c->account, 0, sizeof(c->account));
    c->account.begun = 1;
    c->phase = phase;
    c->timed = amount->duration_ns != 0;
    uint64_t raw_ready = raw_writer_ready(c->writer);
    atomic_store_explicit(&c->self->phase, phase, memory_order_relaxed);
    set_state(c, LOAD_RUNNING);
    if (amount->messages || amount->duration_ns) {
        uint64_t begun_ns = atomic_load_explicit(&load_edge_of(c->control, run, phase)->time_ns,
                                                 memory_order_relaxed);
        c->deadline_ns = taut_deadline_ns(begun_ns, amount->duration_ns);
        c->now_ns = taut_clock_read(&c->plan->clock);
        c->sending = 1;
        c->busy = c->count;
        for (uint32_t i = 0; i < c->count; i++) {
            c->links[i].remaining = amount->messages;
            c->links[i].busy = 1;
        }
        for (uint32_t i = 0; i < c->count && c->sending; i++)
            load_send(c, &c->links[i]);
        while (c->busy > 0 && c->sending)
            load_pump(c, TAUT_NEVER_NS);
        drain(c);
        give_up(c);
    }
    c->account.scheduled = amount->messages ? amount->messages * c->count : c->account.sent;
    c->account.cpu_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - process_ns;
    c->account.thread_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - thread_ns;
    c->account.raw_grown = raw_writer_ready(c->writer) - raw_ready;
    c->account.finished = !stopped(c);
    *account = c->account;
}

/* Records of a phase with a duration whose rate nobody knows yet. */
static uint64_t guessed_records(uint64_t duration_ns)
{
    uint64_t records = duration_ns / TAUT_NS_PER_MS * GUESSED_RECORDS_PER_MS;
    return records < GUESSED_RECORDS_MAX ? records : GUESSED_RECORDS_MAX;
}

/* The warm-up's rate, with half as much again, tells how many records a measured phase with a
 * duration will want: they are prepared before it begins, so that nothing grows within it. */
static void prepare_measure(struct load_client *c, uint32_t run)
{
    uint64_t duration_ns = c->plan->amount[LOAD_MEASURE].duration_ns;
    uint64_t begun_ns = atomic_load_explicit(&load_edge_of(c->control, run, LOAD_WARMUP)->time_ns,
                                             memory_order_relaxed);
    uint64_t took_ns = taut_clock_read(&c->plan->clock) - begun_ns;
    struct load_account *warmup = load_account_of(c->control, c->process, run, LOAD_WARMUP);
    if (!duration_ns || stopped(c))
        return;
    uint64_t records = guessed_records(duration_ns);
    if (warmup->sent && took_ns)
        records = (uint64_t)(1.5 * (double)warmup->sent * (double)duration_ns / (double)took_ns);
    if (records > EXPECTED_RECORDS_MAX)
        records = EXPECTED_RECORDS_MAX;
    (void)raw_writer_reserve(c->writer,
                             records); /* a failure shows at the record that finds no room */
}

static int open_raw(struct load_client *c, uint32_t run)
{
    const struct load_plan *plan = c->plan;
    uint64_t expected = 0;
    char path[4096];
    struct taut_err err = {0};
    for (uint32_t i = 0; i < LOAD_PHASES; i++) {
        uint64_t messages = plan->amount[i].messages;
        if (plan->amount[i].duration_ns && i == LOAD_WARMUP)
            messages = guessed_records(plan->amount[i].duration_ns) / c->count;
        if (messages > EXPECTED_RECORDS_MAX / c->count)
            messages = EXPECTED_RECORDS_MAX / c->count;
        expected += messages * c->count;
    }
    if (expected > EXPECTED_RECORDS_MAX)
        expected = EXPECTED_RECORDS_MAX;
    if (load_raw_path(plan, run, c->process, path, sizeof(path)) != 0) {
        load_client_fault(c, LOAD_FILE, TAUT_ETOOBIG, "the path of a raw file is too long");
        return TAUT_ETOOBIG;
    }
    struct raw_writer_options options = {
        .path = path,
        .run = run,
        .process = c->process,
        .closed_loop = 1,
        .expected_records = expected,
        .clock = &plan->clock,
        .epoch_ns = plan->epoch_ns,
        .epoch_utc_ns = plan->epoch_utc_ns,
        .recipe = plan->recipe,
        .grower_cpus = &c->other_cpus,
    };
    int code = raw_writer_create(&c->writer, &options, &err);
    if (code)
        load_client_fault(c, code == TAUT_ENOSPC ? LOAD_DISK_FULL : LOAD_FILE, code, "%s",
                          err.text[0] ? err.text : taut_code_text(code));
    return code;
}

static void close_raw(struct load_client *c)
{
    int64_t drift = INT64_MIN, found;
    struct taut_err err = {0};
    if (taut_clock_check(&c->plan->clock, &found) == 0) {
        drift = found;
        if (!c->self->drift_known || llabs(found) > llabs(c->self->drift_ppb))
            c->self->drift_ppb = found;
        c->self->drift_known = 1;
    }
    c->self->raw_stalls += raw_writer_stalls(c->writer);
    int code = raw_writer_close(c->writer, drift, &err);
    c->writer = NULL;
    if (code)
        load_client_fault(c, code == TAUT_ENOSPC ? LOAD_DISK_FULL : LOAD_FILE, code, "%s",
                          err.text[0] ? err.text : taut_code_text(code));
}

static void run_one(struct load_client *c, uint32_t run)
{
    c->worst_ns = 0;
    atomic_store_explicit(&c->self->worst_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&c->self->run, run, memory_order_relaxed);
    atomic_store_explicit(&c->self->phase, LOAD_WARMUP, memory_order_relaxed);
    if (open_raw(c, run) != 0)
        return;
    if (wait_edge(c, run, 0)) {
        run_phase(c, run, LOAD_WARMUP);
        prepare_measure(c, run);
        if (!stopped(c) && wait_edge(c, run, 1)) {
            run_phase(c, run, LOAD_MEASURE);
            if (!stopped(c))
                wait_edge(c, run, 2);
        }
    }
    set_state(c, LOAD_CLOSING);
    close_raw(c);
}

/* --- the end --------------------------------------------------------------------------------- */

static void log_out(struct load_client *c)
{
    /* Whoever caused a fault is not waited for. */
    uint64_t until =
        taut_deadline_ns(c->now_ns, c->fault == LOAD_FINE ? LOGOUT_NS : LOGOUT_AFTER_FAULT_NS);
    c->ending = 1;
    for (uint32_t i = 0; i < c->count; i++) {
        struct load_link *link = &c->links[i];
        if (link->state != LINK_READY)
            continue;
        if (!link->fix) {
            taut_port_close(c->port, link->conn, 0);
            load_link_closed(c, link, 0);
            continue;
        }
        link->state = LINK_LOGGING_OUT;
        uint32_t events = taut_session_logout(link->fix, NULL, load_moment(c), &link->out);
        load_session_events(c, link, events, NULL);
        load_flush(c, link);
    }
    /* What a server does not answer within its time is not held against it: the measurement is
     * over. */
    while (c->ready > 0 && c->now_ns < until)
        load_pump(c, until);
}

static void publish(struct load_client *c)
{
    for (uint32_t i = 0; i < c->count && c->links; i++) {
        struct taut_session_stats stats;
        if (!c->links[i].fix)
            continue;
        taut_session_stats(c->links[i].fix, &stats);
        c->self->heartbeats_sent += stats.heartbeats_sent;
        c->self->test_requests_received += stats.test_requests_received;
    }
    if (c->port)
        taut_port_stats(c->port, &c->self->port);
}

static void tear_down(struct load_client *c)
{
    taut_port_destroy(c->port);
    if (c->tails)
        munmap(c->tails, c->tails_bytes);
    free(c->session_memory);
    free(c->outboxes);
    free(c->echoes);
    free(c->links);
}

uint32_t load_client_run(const struct load_control *control, uint32_t process)
{
    const struct load_plan *plan = control->plan;
    struct load_client *c = calloc(1, sizeof(*c));
    if (!c) {
        load_fault_set(control, process, LOAD_SETUP, TAUT_ENOMEM, "no memory for a client");
        return LOAD_SETUP;
    }
    c->control = control;
    c->plan = plan;
    c->process = process;
    c->self = &control->processes[process];
    c->count = plan->process_sessions[process];
    c->message_bytes = plan->message_bytes ? plan->message_bytes : MESSAGE_BYTES;
    c->stall_timeout_ns = plan->stall_timeout_ns ? plan->stall_timeout_ns : TIMEOUT_NS;
    c->logon_timeout_ns = plan->logon_timeout_ns ? plan->logon_timeout_ns : TIMEOUT_NS;
    set_up(c);
    if (!stopped(c))
        connect_all(c);
    for (uint32_t run = 1; run <= plan->runs && !stopped(c); run++)
        run_one(c, run);
    if (c->links)
        log_out(c);
    publish(c);
    uint32_t fault = c->fault;
    tear_down(c);
    free(c);
    atomic_store_explicit(&control->processes[process].state, LOAD_ENDED, memory_order_release);
    return fault;
}
