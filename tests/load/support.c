/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers of the tests of load. */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "support.h"

#define CONNECTIONS 64

void make_folder(char *path, size_t size)
{
    snprintf(path, size, "%s/taut-load-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(path));
}

void remove_folder(const struct load_plan *plan)
{
    char path[4096];
    for (uint32_t run = 1; run <= plan->runs; run++)
        for (uint32_t p = 0; p < plan->processes; p++)
            if (load_raw_path(plan, run, p, path, sizeof(path)) == 0)
                unlink(path);
    assert_int_equal(rmdir(plan->raw_folder), 0);
}

void make_plan(struct load_plan *plan, const char *folder, uint32_t sessions, uint32_t processes,
               uint32_t runs, uint64_t warmup, uint64_t measure)
{
    memset(plan, 0, sizeof(*plan));
    plan->mode = LOAD_ECHO;
    plan->host = "127.0.0.1";
    plan->sessions = sessions;
    plan->processes = processes;
    plan->runs = runs;
    for (uint32_t p = 0; p < processes; p++) {
        plan->process_sessions[p] = sessions / processes + (p < sessions % processes);
        plan->process_cpu[p] = LOAD_UNBOUND;
    }
    plan->amount[LOAD_WARMUP].messages = warmup;
    plan->amount[LOAD_MEASURE].messages = measure;
    plan->sender = "LOAD";
    plan->target = "TAUT";
    plan->heartbeat_s = 30;
    plan->raw_folder = folder;
    plan->epoch_ns = taut_now_ns();
    plan->epoch_utc_ns = taut_utc_now_ns();
}

int listen_any(uint16_t *port_number)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 128), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    *port_number = ntohs(address.sin_port);
    return listener;
}

void echo_until(int listener, const _Atomic uint32_t *stop, uint64_t hold)
{
    struct pollfd sockets[CONNECTIONS + 1] = {{listener, POLLIN, 0}};
    nfds_t count = 1;
    uint64_t bytes = 0;
    while (!atomic_load(stop)) {
        uint8_t data[4096];
        if (poll(sockets, count, 10) <= 0)
            continue;
        if ((sockets[0].revents & POLLIN) && count <= CONNECTIONS) {
            int fd = accept(listener, NULL, NULL);
            if (fd >= 0)
                sockets[count++] = (struct pollfd){fd, POLLIN, 0};
        }
        for (nfds_t i = 1; i < count; i++) {
            if (!(sockets[i].revents & (POLLIN | POLLHUP | POLLERR)))
                continue;
            ssize_t n = recv(sockets[i].fd, data, sizeof(data), MSG_DONTWAIT);
            if (n <= 0) {
                close(sockets[i].fd);
                sockets[i].fd = -1;
                continue;
            }
            bytes += (uint64_t)n;
            if ((hold == 0 || bytes < hold) &&
                send(sockets[i].fd, data, (size_t)n, MSG_NOSIGNAL) != n)
                break;
        }
    }
    for (nfds_t i = 1; i < count; i++)
        if (sockets[i].fd >= 0)
            close(sockets[i].fd);
}
