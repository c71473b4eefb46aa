/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/peers/echo_bare - a server that understands nothing: one thread, epoll, plain recv(2) and
 * send(2), TCP_NODELAY. It is the ceiling for any server of that shape under the same client.
 *
 * Without --request-bytes what comes goes back. With --request-bytes N every N bytes received on a
 * connection are answered by --reply-bytes M (212) constant bytes, in one send for all that one
 * receive completed: the amounts of a FIX order and its execution report without looking at either.
 *
 * A peer that does not read is closed: this is a bench's peer, its clients have one request in
 * flight. Prints `listening on 127.0.0.1:PORT`; ends by SIGTERM or SIGINT.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES    65536
#define CONNECTIONS_MAX 65536

static uint32_t request_bytes, reply_bytes = 212, busy_poll;
static uint16_t port_number;
static int cpu = -1;
static char received[BUFFER_BYTES];
static char canned[BUFFER_BYTES];
static uint32_t pending[CONNECTIONS_MAX]; /* by descriptor: bytes of a request not yet whole */

static void fail(const char *what)
{
    fprintf(stderr, "echo_bare: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int start_listening(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port_number),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 || /* inherited */
        bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        fail("listening");
    printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_all(int set, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (fd >= CONNECTIONS_MAX || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) {
            close(fd);
            continue;
        }
        pending[fd] = 0;
    }
}

/* 0 = the connection goes on. */
static int answer(int fd, uint32_t length)
{
    if (request_bytes == 0)
        return send(fd, received, length, MSG_NOSIGNAL) == (ssize_t)length ? 0 : -1;
    uint32_t bytes = pending[fd] + length;
    uint32_t left = bytes / request_bytes * reply_bytes;
    pending[fd] = bytes % request_bytes;
    while (left) {
        uint32_t piece = left < BUFFER_BYTES ? left : BUFFER_BYTES;
        if (send(fd, canned, piece, MSG_NOSIGNAL) != (ssize_t)piece)
            return -1;
        left -= piece;
    }
    return 0;
}

static void serve_one(int fd)
{
    ssize_t length = recv(fd, received, sizeof received, 0);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length <= 0 || answer(fd, (uint32_t)length) != 0)
        close(fd);
}

static void serve(int listener)
{
    struct epoll_event events[256], event = {.events = EPOLLIN, .data.fd = listener};
    int set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) != 0)
        fail("epoll");
    /* bare wait: a server is not worse for what it leaves out, and this one is the measure. It ends
     * by a signal. */
    for (;;) {
        int count = epoll_wait(set, events, 256, busy_poll ? 0 : -1);
        if (count < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                accept_all(set, listener);
            else
                serve_one(events[i].data.fd);
        }
    }
}

static void usage(void)
{
    fputs("usage: echo_bare [--port N] [--request-bytes N] [--reply-bytes N] [--cpu N] "
          "[--busy-poll]\n",
          stderr);
    exit(2);
}

static uint32_t number(const char *text, uint32_t least, uint32_t most)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || end == text || *text == '-' || value < least || value > most) {
        fprintf(stderr, "echo_bare: \"%s\" is not a number from %u to %u\n", text, least, most);
        exit(2);
    }
    return (uint32_t)value;
}

static void take_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        {"request-bytes", required_argument, NULL, 'q'},
        {"reply-bytes", required_argument, NULL, 'r'},
        {"cpu", required_argument, NULL, 'c'},
        {"busy-poll", no_argument, NULL, 'b'},
        {0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p':
            port_number = (uint16_t)number(optarg, 0, 65535);
            break;
        case 'q':
            request_bytes = number(optarg, 1, BUFFER_BYTES);
            break;
        case 'r':
            reply_bytes = number(optarg, 1, BUFFER_BYTES);
            break;
        case 'c':
            cpu = (int)number(optarg, 0, CPU_SETSIZE - 1);
            break;
        case 'b':
            busy_poll = 1;
            break;
        default:
            usage();
        }
    }
    if (optind != argc)
        usage();
}

int main(int argc, char **argv)
{
    take_options(argc, argv);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            fail("binding to a CPU");
    }
    memset(canned, 'x', sizeof canned);
    serve(start_listening());
    return 0;
}
