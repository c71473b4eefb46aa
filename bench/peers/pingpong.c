/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/peers/pingpong - the floor: two processes, one TCP connection over loopback, nothing but
 * send(2) and recv(2). The client sends --request-bytes, the server answers with --reply-bytes once
 * it has them all, and so on. TCP_NODELAY on both sides; each side is bound to a CPU. With
 * --busy-poll both spin on a non-blocking recv, else both block in it.
 *
 * Every round trip is kept (from before the send to after the last byte of the answer), and its
 * quantiles are printed as one JSON object: rank ceil(p * n) of the sorted samples.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES_MAX 65536

static uint32_t request_bytes = 163, reply_bytes = 212, busy_poll;
static uint64_t count = 100000, warmup = 20000;
static int server_cpu = -1, client_cpu = -1;
static char bytes[BYTES_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "pingpong: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void bind_to(int cpu)
{
    cpu_set_t set;
    if (cpu < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("binding to a CPU");
}

static void no_delay(int fd)
{
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail("TCP_NODELAY");
}

/* 1 = all `length` bytes are there, 0 = the peer has ended. */
static int receive_all(int fd, uint32_t length)
{
    uint32_t got = 0;
    /* bare wait: this program is the measure of what waiting adds. Its end is that of the peer,
     * which the kernel reports here, or kills this process with. */
    while (got < length) {
        ssize_t piece = recv(fd, bytes, length - got, busy_poll ? MSG_DONTWAIT : 0);
        if (piece > 0)
            got += (uint32_t)piece;
        else if (piece == 0)
            return 0;
        else if (errno != EAGAIN && errno != EINTR)
            fail("recv");
    }
    return 1;
}

static void send_all(int fd, uint32_t length)
{
    /* At most one message is in flight: the socket's buffer always has room for it. */
    if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
        fail("send");
}

static void serve(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a busy server must not outlive its client */
    bind_to(server_cpu);
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    no_delay(fd);
    while (receive_all(fd, request_bytes))
        send_all(fd, reply_bytes);
    exit(0);
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t quantile(const uint64_t *sorted, uint64_t n, uint64_t per_mille)
{
    uint64_t rank = (n * per_mille + 999) / 1000;
    return sorted[rank ? rank - 1 : 0];
}

static void drive(const struct sockaddr_in *address)
{
    uint64_t *samples = calloc(count, sizeof *samples);
    if (!samples)
        fail("memory for the samples");
    memset(samples, 1, count * sizeof *samples); /* no page fault while measuring */
    bind_to(client_cpu);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        fail("connect");
    no_delay(fd);
    for (uint64_t i = 0; i < warmup + count; i++) {
        uint64_t begin_ns = now_ns();
        send_all(fd, request_bytes);
        if (!receive_all(fd, reply_bytes)) {
            errno = ECONNRESET;
            fail("the server ended");
        }
        if (i >= warmup)
            samples[i - warmup] = now_ns() - begin_ns;
    }
    close(fd);
    qsort(samples, count, sizeof *samples, compare);
    printf("{\"busy_poll\": %u, \"client_cpu\": %d, \"max_ns\": %llu, \"n\": %llu, "
           "\"p50_ns\": %llu, \"p90_ns\": %llu, \"p99_ns\": %llu, \"p999_ns\": %llu, "
           "\"reply_bytes\": %u, \"request_bytes\": %u, \"server_cpu\": %d}\n",
           busy_poll, client_cpu, (unsigned long long)samples[count - 1], (unsigned long long)count,
           (unsigned long long)quantile(samples, count, 500),
           (unsigned long long)quantile(samples, count, 900),
           (unsigned long long)quantile(samples, count, 990),
           (unsigned long long)quantile(samples, count, 999), reply_bytes, request_bytes,
           server_cpu);
    free(samples);
}

static void usage(void)
{
    fputs("usage: pingpong [--request-bytes N] [--reply-bytes N] [--count N] [--warmup N]\n"
          "                [--cpus SERVER,CLIENT] [--busy-poll]\n",
          stderr);
    exit(2);
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || *end || end == text || *text == '-' || value < least || value > most) {
        fprintf(stderr, "pingpong: \"%s\" is not a number from %llu to %llu\n", text,
                (unsigned long long)least, (unsigned long long)most);
        exit(2);
    }
    return value;
}

static void take_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"request-bytes", required_argument, NULL, 'q'},
        {"reply-bytes", required_argument, NULL, 'r'},
        {"count", required_argument, NULL, 'n'},
        {"warmup", required_argument, NULL, 'w'},
        {"cpus", required_argument, NULL, 'c'},
        {"busy-poll", no_argument, NULL, 'b'},
        {0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'q':
            request_bytes = (uint32_t)number(optarg, 1, BYTES_MAX);
            break;
        case 'r':
            reply_bytes = (uint32_t)number(optarg, 1, BYTES_MAX);
            break;
        case 'n':
            count = number(optarg, 1, 1000000000);
            break;
        case 'w':
            warmup = number(optarg, 0, 1000000000);
            break;
        case 'c': {
            char *comma = strchr(optarg, ',');
            if (!comma)
                usage();
            *comma = 0;
            server_cpu = (int)number(optarg, 0, CPU_SETSIZE - 1);
            client_cpu = (int)number(comma + 1, 0, CPU_SETSIZE - 1);
            break;
        }
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
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        fail("listening on loopback");
    pid_t server = fork();
    if (server < 0)
        fail("fork");
    if (server == 0)
        serve(listener);
    close(listener);
    drive(&address);
    int status = 0;
    if (waitpid(server, &status, 0) != server || status != 0) {
        fputs("pingpong: the server failed\n", stderr);
        return 1;
    }
    return 0;
}
