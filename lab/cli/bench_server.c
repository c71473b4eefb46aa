/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_server.c - the gateway in a process of its own, on a free port of the loopback
 * interface. It tells through the control memory where it listens, and at the end what it did.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/futex.h"
#include "cli/bench.h"

static void publish(struct load_server *server, const struct taut_gateway *gateway)
{
    uint32_t workers = taut_gateway_workers(gateway);
    uint32_t most = (uint32_t)(sizeof(server->worker) / sizeof(server->worker[0]));
    taut_gateway_stats(gateway, UINT32_MAX, &server->total);
    server->workers = workers < most ? workers : most;
    for (uint32_t i = 0; i < server->workers; i++)
        taut_gateway_stats(gateway, i, &server->worker[i]);
}

static int refuse(struct load_server *server, int code, const struct taut_err *err)
{
    server->code = code;
    snprintf(server->text, sizeof(server->text), "the server can't start: %.210s",
             err->text[0] ? err->text : taut_code_text(code));
    load_server_tell(server, LOAD_SERVER_FAILED);
    return code;
}

/* One descriptor a session, and some; the soft limit is often far below the hard one. */
static int raise_descriptors(uint32_t sessions, struct taut_err *err)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)sessions + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return 0;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == wanted)
        return 0;
    return taut_err_set(err, TAUT_EACCES,
                        "%u sessions want %llu file descriptors, the limit is %llu", sessions,
                        (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
}

int bench_server(void *context, struct load_control *control)
{
    const struct bench *b = context;
    struct load_server *server = &control->shared->server;
    struct taut_gateway *gateway;
    struct taut_err err = {0};
    prctl(PR_SET_NAME, "taut-server");
    /* The acceptor inherits this; workers bind themselves, and are read back. */
    if (b->rig.house_cpu != RIG_UNBOUND)
        taut_cpu_bind_self(b->rig.house_cpu, NULL);
    int code = raise_descriptors(b->options.sessions, &err);
    if (code == 0)
        code = taut_gateway_create(&gateway, &b->gateway, &err);
    if (code)
        return refuse(server, code, &err);
    code = taut_gateway_start(gateway, &err);
    if (code) {
        taut_gateway_destroy(gateway);
        return refuse(server, code, &err);
    }
    server->port_number = taut_gateway_port(gateway);
    server->effective.size = sizeof server->effective;
    TAUT_CHECK(taut_gateway_effective(gateway, &server->effective) == 0);
    publish(server, gateway);
    load_server_tell(server, LOAD_SERVER_READY);
    /* Asleep until the crew says so; a crew that dies takes this process with it. A bare futex,
     * because the word is shared by two processes, and an event is not. */
    while (atomic_load_explicit(&server->stop, memory_order_relaxed) == 0)
        taut__futex_wait(&server->stop, 0, TAUT_NEVER_NS, TAUT__FUTEX_SHARED);
    /* Sessions are gone by now, or their clients were killed: no reason to wait for long. */
    taut_gateway_stop(gateway, taut_deadline_ns(taut_now_ns(), 2 * TAUT_NS_PER_S));
    publish(server, gateway);
    taut_gateway_destroy(gateway);
    atomic_store_explicit(&server->published, 1, memory_order_release);
    return 0;
}
