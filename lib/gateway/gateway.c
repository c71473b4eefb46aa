/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/gateway.c - create, start, stop, and what can be read from outside.
 *
 * All address space that connections may ever need is taken by create, untouched: a page costs
 * nothing until a peer makes use of it. Threads are started with all signals blocked, so that a
 * program's handlers run on its own threads.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "gateway/internal.h"

#define CONNECTIONS_MAX 1000000u
#define MESSAGE_MIN     512u
#define MESSAGE_MAX     (16u << 20)
#define QUEUE_MIN       4096u
#define QUEUE_MAX       (256u << 20)

/* --- options --------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void set_default_u32(uint32_t *value, uint32_t usual)
{
    if (*value == 0)
        *value = usual;
}

static void set_default_u64(uint64_t *value, uint64_t usual)
{
    if (*value == 0)
        *value = usual;
}

static int default_workers(uint32_t *workers, struct taut_err *err)
{
    struct taut_topology *topology = calloc(1, sizeof(*topology));
    int code = topology ? taut_topology_read(topology, NULL, err) : TAUT_ENOMEM;
    if (code == 0)
        *workers = topology->width > 1 ? topology->width - 1 : 1;
    if (*workers > TAUT__WORKERS_MAX)
        *workers = TAUT__WORKERS_MAX;
    free(topology);
    return code;
}

static int fill_in(struct taut_gateway_options *o, struct taut_err *err)
{
    if (!o->host)
        o->host = "127.0.0.1";
    if (!o->handler)
        o->handler = taut_handler_fill();
    set_default_u32(&o->connections, 1024);
    set_default_u32(&o->message_bytes, 64u << 10);
    if (o->message_bytes <= MESSAGE_MAX)
        set_default_u32(&o->send_queue_bytes,
                        most(1u << 20, 2 * (o->message_bytes + TAUT__MESSAGE_EXTRA)));
    set_default_u64(&o->slow_consumer_ns, 10 * TAUT_NS_PER_S);
    set_default_u64(&o->logon_timeout_ns, 5 * TAUT_NS_PER_S);
    if (o->scan_variant == TAUT_SCAN_AUTO)
        o->scan_variant = taut_scan_best();
    if (o->shape == TAUT_SHAPE_SINGLE)
        set_default_u32(&o->workers, 1);
    else if (o->workers == 0)
        return default_workers(&o->workers, err);
    return 0;
}

static int check(const struct taut_gateway_options *o, struct taut_err *err)
{
    if (o->shape > TAUT_SHAPE_OWNED)
        return taut_err_set(err, TAUT_EINVAL, "unknown shape %u", o->shape);
    if (o->shape == TAUT_SHAPE_SINGLE && o->workers != 1)
        return taut_err_set(err, TAUT_EINVAL, "shape single has one worker, not %u", o->workers);
    if (o->workers > TAUT__WORKERS_MAX)
        return taut_err_set(err, TAUT_EINVAL, "%u workers are more than %u", o->workers,
                            TAUT__WORKERS_MAX);
    if (o->connections > CONNECTIONS_MAX)
        return taut_err_set(err, TAUT_EINVAL, "%u connections are more than %u", o->connections,
                            CONNECTIONS_MAX);
    if (o->message_bytes < MESSAGE_MIN || o->message_bytes > MESSAGE_MAX)
        return taut_err_set(err, TAUT_EINVAL, "message_bytes %u is outside %u .. %u",
                            o->message_bytes, MESSAGE_MIN, MESSAGE_MAX);
    if (o->send_queue_bytes < QUEUE_MIN || o->send_queue_bytes > QUEUE_MAX)
        return taut_err_set(err, TAUT_EINVAL, "send_queue_bytes %u is outside %u .. %u",
                            o->send_queue_bytes, QUEUE_MIN, QUEUE_MAX);
    if (o->send_queue_bytes / 2 < o->message_bytes + TAUT__MESSAGE_EXTRA)
        return taut_err_set(err, TAUT_EINVAL,
                            "send_queue_bytes %u is below twice message_bytes %u and %u",
                            o->send_queue_bytes, o->message_bytes, TAUT__MESSAGE_EXTRA);
    if (o->session_count == 0 || !o->sessions)
        return taut_err_set(err, TAUT_EINVAL, "no session is configured");
    if (!o->handler->on_message)
        return taut_err_set(err, TAUT_EINVAL, "the handler has no on_message");
    return 0;
}

/* Sizes that follow from the options; input.c and output.c say what they bound. */
static void derive(struct taut_gateway *g)
{
    const struct taut_gateway_options *o = &g->options;
    /* a message's beginning, and the rest of a chunk or two when the peer is made to wait */
    g->held_limit = o->message_bytes + 4 * TAUT__BUFFER_BYTES;
    g->held_region = 2 * g->held_limit;
    g->queue_region = 2 * o->send_queue_bytes;
    g->region_bytes =
        ((size_t)g->held_region + TAUT_SCAN_PADDING + g->queue_region + 4095) & ~(size_t)4095;
    g->pause_mark = o->send_queue_bytes / 2;
    g->resume_mark = o->send_queue_bytes / 4;
    /* Congestion is looked at before each message, and then at most half of the queue is spoken
     * for: so what one message or one turn of a replay produces may fill the other half. */
    g->outbox_mark = least(TAUT__OUTBOX_BYTES, g->pause_mark);
    g->outbox_room =
        least(g->pause_mark, most(TAUT__OUTBOX_BYTES, o->message_bytes + TAUT__MESSAGE_EXTRA));
    g->session_stride = (taut_session_footprint() + 63) & ~(size_t)63;
}

/* --- create and destroy ---------------------------------------------------------------------- */

static int build(struct taut_gateway *g, struct taut_err *err)
{
    uint32_t workers = g->options.workers;
    uint32_t share = (g->options.connections + workers - 1) / workers;
    int code = taut__registry_init(&g->registry, &g->options, err);
    if (code)
        return code;
    g->workers = aligned_alloc(TAUT_LINE_BYTES, workers * sizeof(*g->workers));
    if (!g->workers)
        return taut_err_set(err, TAUT_ENOMEM, "no memory for %u workers", workers);
    memset(g->workers, 0, workers * sizeof(*g->workers));
    for (uint32_t i = 0; i < workers && code == 0; i++)
        code = taut__worker_create(&g->workers[i], g, i, share, err);
    return code;
}

static const struct taut__options_kind options_kind =
    TAUT__OPTIONS_KIND(struct taut_gateway_options, spin_ns, busy_poll, "gateway options");

int taut_gateway_create(struct taut_gateway **gateway, const struct taut_gateway_options *options,
                        struct taut_err *err)
{
    *gateway = NULL;
    struct taut_gateway *g = aligned_alloc(TAUT_LINE_BYTES, sizeof(*g)); /* a multiple of it */
    if (!g)
        return taut_err_set(err, TAUT_ENOMEM, "no memory for a gateway");
    memset(g, 0, sizeof(*g));
    g->acceptor.gateway = g;
    atomic_init(&g->acceptor.counters.cpu_bound, -1);
    int code = taut__options_take(&options_kind, &g->options, options, err);
    if (code == 0)
        code = fill_in(&g->options, err);
    if (code == 0)
        code = check(&g->options, err);
    if (code) {
        free(g);
        return code;
    }
    derive(g);
    code = build(g, err);
    if (code) {
        taut_gateway_destroy(g);
        return code;
    }
    *gateway = g;
    return 0;
}

void taut_gateway_destroy(struct taut_gateway *g)
{
    if (!g)
        return;
    taut_gateway_stop(g, 0);
    for (uint32_t i = 0; g->workers && i < g->options.workers; i++)
        taut__worker_free(&g->workers[i]);
    if (g->acceptor.port)
        taut_port_destroy(g->acceptor.port);
    free(g->workers);
    taut__registry_free(&g->registry);
    taut_event_destroy(&g->reported); /* no thread is left that waits or reports */
    free(g);
}

/* --- start and stop -------------------------------------------------------------------------- */

void taut__report_ready(struct taut_gateway *g, int code, const struct taut_err *err)
{
    if (code) {
        g->start_code = code;
        g->start_err = *err;
    }
    taut_event_publish(&g->reported); /* pairs with the wait in start_thread() */
}

/* Starts one thread and waits until it serves or says why not. */
static int start_thread(struct taut_gateway *g, pthread_t *thread, void *(*entry)(void *),
                        void *argument, const char *name, struct taut_err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    uint32_t seen = taut_event_epoch(&g->reported);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, entry, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return taut_err_set(err, taut_code_from_errno(failed), "can't start a thread: %s",
                            strerror(failed));
    pthread_setname_np(*thread, name);
    /* A start takes longer than any spin pays: ports and their memory are made. */
    static const struct taut_wait_policy sleep_at_once = {.size = sizeof(sleep_at_once),
                                                          .spin_ns = TAUT_WAIT_NONE_NS};
    int outcome = taut_wait(&g->reported, seen, TAUT_NEVER_NS, &sleep_at_once, NULL);
    TAUT_CHECK(outcome == TAUT_WAIT_CAUGHT || outcome == TAUT_WAIT_PARKED);
    int code = g->start_code;
    if (code && err)
        *err = g->start_err;
    if (code) /* it has nothing more to do */
        pthread_join(*thread, NULL);
    return code;
}

int taut_gateway_start(struct taut_gateway *g, struct taut_err *err)
{
    int code = 0;
    if (g->started || g->over)
        return taut_err_set(err, TAUT_ESTATE, "a gateway starts once");
    /* Here, not in create: an event belongs to the process that made it, and that starts. */
    taut_event_init(&g->reported);
    for (uint32_t i = 0; i < g->options.workers && code == 0; i++) {
        char name[16];
        snprintf(name, sizeof(name), "taut-worker-%u", i % 1000);
        code = start_thread(g, &g->workers[i].thread, taut__worker_main, &g->workers[i], name, err);
        g->started += code == 0;
    }
    if (code == 0 && g->options.shape == TAUT_SHAPE_OWNED) {
        code = start_thread(g, &g->acceptor.thread, taut__acceptor_main, &g->acceptor,
                            "taut-acceptor", err);
        g->acceptor_started = code == 0;
    }
    if (code)
        taut_gateway_stop(g, 0);
    return code;
}

int taut_gateway_stop(struct taut_gateway *g, uint64_t deadline_ns)
{
    uint64_t cut = 0;
    g->over = 1;
    if (g->acceptor_started) { /* first: afterwards no socket is on its way to a worker */
        atomic_store_explicit(&g->acceptor_stop, 1, memory_order_release); /* with its loop */
        taut_port_wake(g->acceptor.port);
        pthread_join(g->acceptor.thread, NULL);
        g->acceptor_started = 0;
    }
    atomic_store_explicit(&g->stop_deadline_ns, deadline_ns ? deadline_ns : 1,
                          memory_order_release); /* pairs with serve() */
    for (uint32_t i = 0; i < g->started; i++)
        taut_port_wake(g->workers[i].port);
    for (uint32_t i = 0; i < g->started; i++)
        pthread_join(g->workers[i].thread, NULL);
    for (uint32_t i = 0; i < g->started; i++)
        cut += taut__get(&g->workers[i].counters.cut);
    g->started = 0;
    return cut ? TAUT_ETIMEDOUT : 0;
}

void taut_gateway_cut(struct taut_gateway *g)
{
    atomic_store_explicit(&g->cut_now, 1, memory_order_release); /* pairs with stop_deadline() */
    for (uint32_t i = 0; i < g->options.workers; i++) {
        struct taut_port *port = taut__port_seen(&g->workers[i].counters);
        if (port) /* who has none yet does not wait either */
            taut_port_wake(port);
    }
}

/* --- readings -------------------------------------------------------------------------------- */

uint16_t taut_gateway_port(const struct taut_gateway *g)
{
    return (uint16_t)atomic_load_explicit((_Atomic uint32_t *)&g->port_number,
                                          memory_order_relaxed);
}

uint32_t taut_gateway_workers(const struct taut_gateway *g)
{
    return g->options.workers;
}

int taut_gateway_effective(const struct taut_gateway *g, struct taut_gateway_options *options)
{
    struct taut_gateway_options whole = g->options;
    if (taut_gateway_port(g)) /* once it listens: what 0 became */
        whole.port_number = taut_gateway_port(g);
    const struct taut_port *port = taut__port_seen(&g->workers[0].counters);
    struct taut_port_options of_port = {.size = sizeof of_port};
    if (port && taut_port_effective(port, &of_port) == 0)
        whole.spin_ns = of_port.spin_ns;
    return taut__options_give(&options_kind, options, &whole);
}

static void add_port(struct taut_port_stats *sum, const struct taut_port *port)
{
    struct taut_port_stats s;
    if (!port)
        return;
    taut_port_stats(port, &s);
    sum->polls += s.polls;
    sum->polls_empty += s.polls_empty;
    sum->sleeps += s.sleeps;
    sum->receives += s.receives;
    sum->receive_bytes += s.receive_bytes;
    sum->sends += s.sends;
    sum->send_bytes += s.send_bytes;
    sum->sends_short += s.sends_short;
    sum->accepted += s.accepted;
    sum->connected += s.connected;
    sum->closed += s.closed;
    sum->starved += s.starved;
    sum->refused += s.refused;
    sum->wakes += s.wakes;
    sum->connections_peak += s.connections_peak;
    sum->buffers_peak += s.buffers_peak;
    sum->shed += s.shed;
    sum->accept_pauses += s.accept_pauses;
    sum->caught += s.caught;
    sum->parked += s.parked;
    sum->expired += s.expired;
    sum->contended += s.contended;
    sum->late_max_ns = s.late_max_ns > sum->late_max_ns ? s.late_max_ns : sum->late_max_ns;
}

static void add(struct taut_gateway_stats *sum, const struct taut__counters *counters)
{
    uint64_t queue_peak = sum->send_queue_peak;
    uint64_t port_refused = sum->port.refused;
#define ADD(name) sum->name += taut__get(&counters->name);
    TAUT__COUNTERS(ADD)
#undef ADD
    sum->send_queue_peak = taut__get(&counters->send_queue_peak);
    if (sum->send_queue_peak < queue_peak)
        sum->send_queue_peak = queue_peak;
    add_port(&sum->port, taut__port_seen(counters));
    sum->refused += sum->port.refused - port_refused;
}

int taut_gateway_stats(const struct taut_gateway *g, uint32_t worker,
                       struct taut_gateway_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->cpu_bound = -1;
    if (worker != UINT32_MAX) {
        if (worker >= g->options.workers)
            return TAUT_EINVAL;
        const struct taut__worker *w = &g->workers[worker];
        add(stats, &w->counters);
        stats->cpu_bound =
            atomic_load_explicit((_Atomic int32_t *)&w->counters.cpu_bound, memory_order_relaxed);
        stats->tid =
            atomic_load_explicit((_Atomic uint32_t *)&w->counters.tid, memory_order_relaxed);
        return 0;
    }
    for (uint32_t i = 0; i < g->options.workers; i++)
        add(stats, &g->workers[i].counters);
    add(stats, &g->acceptor.counters);
    stats->connections_peak = taut__get(&g->total_peak);
    return 0;
}

const char *taut_shape_name(uint32_t shape)
{
    return shape == TAUT_SHAPE_SINGLE ? "single" : shape == TAUT_SHAPE_OWNED ? "owned" : "unknown";
}

int taut_shape_from(const char *name)
{
    if (strcmp(name, "single") == 0)
        return TAUT_SHAPE_SINGLE;
    return strcmp(name, "owned") == 0 ? TAUT_SHAPE_OWNED : -1;
}

/* --- inside a handler ------------------------------------------------------------------------ */

struct taut_session *taut_call_session(struct taut_call *call)
{
    return call->connection->session;
}

uint32_t taut_call_worker(const struct taut_call *call)
{
    return call->worker->index;
}

struct taut_moment taut_call_moment(const struct taut_call *call)
{
    return call->worker->moment;
}

uint64_t *taut_call_user(struct taut_call *call)
{
    return &call->connection->user;
}

uint64_t taut_call_unique(struct taut_call *call)
{
    struct taut__worker *w = call->worker;
    w->unique += w->gateway->options.workers;
    return w->unique;
}
