/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/acceptor.c - shape `owned`: accepts, and moves each socket to a worker.
 *
 * The socket goes to the worker with the fewest connections, counting those on their way, before
 * its first byte is read; from then on only that worker touches it. As the least loaded worker is
 * chosen, none ever has more than its share of the most connections allowed, rounded up, which is
 * how many places it has.
 */
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gateway/internal.h"

static void refresh_cpu(struct taut__acceptor *a)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    taut__set(&a->counters.cpu_ns, (uint64_t)used.tv_sec * TAUT_NS_PER_S + (uint64_t)used.tv_nsec);
}

static struct taut__worker *least_loaded(struct taut_gateway *g)
{
    struct taut__worker *best = NULL;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < g->options.workers; i++) {
        /* pairs with bury(): the place is free before it is counted so */
        uint32_t load = atomic_load_explicit(&g->workers[i].assigned, memory_order_acquire);
        if (load < least) {
            least = load;
            best = &g->workers[i];
        }
    }
    return best;
}

static void hand_over(struct taut__acceptor *a, int fd)
{
    struct taut_gateway *g = a->gateway;
    struct taut__worker *worker = least_loaded(g);
    uint32_t total = atomic_load_explicit(&g->total, memory_order_relaxed);
    if (total >= g->options.connections ||
        atomic_load_explicit(&worker->assigned, memory_order_relaxed) >= worker->capacity) {
        close(fd);
        taut__count(&a->counters.refused, 1);
        taut_log_limited(g->options.log, &a->limit, TAUT_LOG_WARNING,
                         "connection refused: %u are open", total);
        return;
    }
    total = atomic_fetch_add_explicit(&g->total, 1, memory_order_relaxed) + 1;
    taut__peak(&g->total_peak, total);
    atomic_fetch_add_explicit(&worker->assigned, 1, memory_order_relaxed);
    taut__worker_hand_over(worker, fd);
}

static int make_ready(struct taut__acceptor *a, struct taut_conn *listener, struct taut_err *err)
{
    struct taut_gateway *g = a->gateway;
    struct taut_port_options options = {.size = sizeof(options),
                                        .kind = g->options.port_kind,
                                        .connections = 2,
                                        .buffers = 1,
                                        .buffer_bytes = 4096};
    atomic_store_explicit(&a->counters.tid, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);
    int code = taut_port_create(&a->port, &options, err);
    if (code)
        return code;
    taut__port_show(&a->counters, a->port);
    code = taut_port_listen(a->port, g->options.host, g->options.port_number, 1, listener, err);
    if (code == 0)
        atomic_store_explicit(&g->port_number, taut_port_local(a->port, *listener),
                              memory_order_relaxed);
    return code;
}

void *taut__acceptor_main(void *argument)
{
    struct taut__acceptor *a = argument;
    struct taut_completion completions[TAUT__POLL_MOST];
    struct taut_conn listener = {0};
    struct taut_err err = {0};
    int code = make_ready(a, &listener, &err);
    taut__report_ready(a->gateway, code, &err);
    /* pairs with taut_gateway_stop(), which wakes the port after it */
    while (code == 0 && !atomic_load_explicit(&a->gateway->acceptor_stop, memory_order_acquire)) {
        int n = taut_port_poll(a->port, completions, TAUT__POLL_MOST, TAUT_NEVER_NS);
        for (int i = 0; i < n; i++)
            if (completions[i].kind == TAUT_PORT_ACCEPTED_FD)
                hand_over(a, completions[i].fd);
        refresh_cpu(a);
    }
    if (code == 0) /* the kernel refuses from here on; the port itself lives until destroy */
        taut_port_close(a->port, listener, 0);
    refresh_cpu(a);
    return NULL;
}
