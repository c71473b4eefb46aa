/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/port/bench_direct - what a round trip costs by the number of connections of a busy-polling
 * port: the measurement behind TAUT__PORT_DIRECT_MAX.
 *
 *   bench_direct CONNECTIONS [COUNT [one|all [SERVER_CPU CLIENT_CPU]]]
 *
 * A child process serves with a port: 163 bytes in, 212 out. The parent, bare sockets, sends `one`
 * request at a time on a random connection, or on `all` of them before it collects the answers (the
 * sample is then the time divided by the number of connections). Prints one JSON object.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <taut/clock.h>
#include <taut/port.h>

#define REQUEST_BYTES   163
#define REPLY_BYTES     212
#define CONNECTIONS_MAX 1000

static void fail(const char *what)
{
    fprintf(stderr, "bench_direct: %s\n", what);
    exit(1);
}

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("can't bind to the CPU");
}

static void serve(struct taut_port *port)
{
    static const uint8_t reply[REPLY_BYTES];
    struct taut_completion batch[64];
    for (;;) {
        int count = taut_port_poll(port, batch, 64, TAUT_NEVER_NS);
        for (int i = 0; i < count; i++) {
            if (batch[i].kind != TAUT_PORT_RECEIVED)
                continue;
            taut_port_send(port, batch[i].conn, reply, sizeof reply);
            taut_port_release(port, batch[i].buffer);
        }
    }
}

static int connect_to(uint16_t number)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(number),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail("can't connect");
    return fd;
}

static void ask(int fd)
{
    static const uint8_t request[REQUEST_BYTES];
    if (send(fd, request, sizeof request, MSG_NOSIGNAL) != sizeof request)
        fail("can't send");
}

static void collect(int fd)
{
    uint8_t reply[REPLY_BYTES];
    size_t got = 0;
    /* bare wait: the client is the same for all that is measured. Its end is that of the server. */
    while (got < sizeof reply) {
        ssize_t piece = recv(fd, reply, sizeof reply - got, MSG_DONTWAIT);
        if (piece > 0)
            got += (size_t)piece;
        else if (piece == 0 || errno != EAGAIN)
            fail("the server ended");
    }
}

static uint64_t round_trip(const int *fds, uint32_t connections, uint32_t all)
{
    uint64_t begin_ns = taut_now_ns();
    if (!all) {
        int fd = fds[(uint32_t)rand() % connections];
        ask(fd);
        collect(fd);
        return taut_now_ns() - begin_ns;
    }
    for (uint32_t i = 0; i < connections; i++)
        ask(fds[i]);
    for (uint32_t i = 0; i < connections; i++)
        collect(fds[i]);
    return (taut_now_ns() - begin_ns) / connections;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    uint32_t connections = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 20000;
    uint32_t all = argc > 3 && strcmp(argv[3], "all") == 0;
    if (connections == 0 || connections > CONNECTIONS_MAX || count == 0)
        fail("usage: bench_direct CONNECTIONS [COUNT [one|all [SERVER_CPU CLIENT_CPU]]]");
    struct taut_port_options options = {
        .size = sizeof options, .busy_poll = 1, .connections = CONNECTIONS_MAX + 1};
    struct taut_port *port;
    struct taut_conn listener = {0};
    struct taut_err err = {0};
    if (taut_port_create(&port, &options, &err) ||
        taut_port_listen(port, "127.0.0.1", 0, 0, &listener, &err))
        fail(err.text);
    uint16_t number = taut_port_local(port, listener);
    pid_t server = fork();
    if (server < 0)
        fail("can't fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bind_to(argc > 4 ? atoi(argv[4]) : 0);
        serve(port);
    }
    bind_to(argc > 5 ? atoi(argv[5]) : 1);
    int fds[CONNECTIONS_MAX];
    for (uint32_t i = 0; i < connections; i++)
        fds[i] = connect_to(number);
    uint64_t *samples = calloc(count, sizeof *samples);
    if (!samples)
        fail("no memory");
    for (uint32_t i = 0; i < count / 5; i++)
        round_trip(fds, connections, all);
    for (uint32_t i = 0; i < count; i++)
        samples[i] = round_trip(fds, connections, all);
    qsort(samples, count, sizeof *samples, compare);
    printf("{\"all\": %u, \"connections\": %u, \"max_ns\": %llu, \"n\": %u, \"p50_ns\": %llu}\n",
           all, connections, (unsigned long long)samples[count - 1], count,
           (unsigned long long)samples[(count + 1) / 2 - 1]);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    free(samples);
    return 0;
}
