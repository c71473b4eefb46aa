/* SPDX-License-Identifier: BSD-2-Clause */
#include "support.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

uint32_t rig_blocking = 0, rig_busy = 1;

void rig_open(struct rig *rig, const struct taut_port_options *options, uint32_t busy)
{
    struct taut_port_options own = {.size = sizeof own};
    memset(rig, 0, sizeof *rig);
    if (options)
        own = *options;
    own.busy_poll = busy;
    if (taut_port_create(&rig->port, &own, &rig->err) != 0)
        fail_msg("%s", rig->err.text);
    if (taut_port_listen(rig->port, "127.0.0.1", 0, 0, &rig->listener, &rig->err) != 0)
        fail_msg("%s", rig->err.text);
    rig->number = taut_port_local(rig->port, rig->listener);
    assert_int_not_equal(rig->number, 0);
}

void rig_close(struct rig *rig)
{
    taut_port_destroy(rig->port);
    rig->port = NULL;
}

struct taut_completion rig_next(struct rig *rig)
{
    if (rig->at == rig->count) {
        rig->at = 0;
        rig->count = taut_port_poll(rig->port, rig->batch, 64, taut_now_ns() + PATIENCE_NS);
        if (rig->count <= 0)
            fail_msg("no completion came");
        for (int i = 0; i < rig->count; i++)
            for (int j = 0; j < i; j++)
                if (rig->batch[i].conn.id && rig->batch[i].kind != TAUT_PORT_ACCEPTED_FD)
                    assert_int_not_equal(rig->batch[i].conn.id, rig->batch[j].conn.id);
    }
    return rig->batch[rig->at++];
}

struct taut_completion rig_expect(struct rig *rig, uint32_t kind)
{
    struct taut_completion completion = rig_next(rig);
    assert_int_equal(completion.kind, kind);
    return completion;
}

void rig_quiet(struct rig *rig, uint64_t duration_ns)
{
    assert_int_equal(rig->at, rig->count);
    uint64_t deadline_ns = taut_now_ns() + duration_ns;
    assert_int_equal(taut_port_poll(rig->port, rig->batch, 64, deadline_ns), 0);
    assert_true(taut_now_ns() >= deadline_ns);
    rig->at = rig->count = 0;
}

void rig_expect_bytes(struct rig *rig, struct taut_conn conn, const char *text)
{
    size_t length = strlen(text);
    while (length) {
        struct taut_completion completion = rig_expect(rig, TAUT_PORT_RECEIVED);
        assert_int_equal(completion.conn.id, conn.id);
        assert_in_range(completion.length, 1, length);
        assert_memory_equal(completion.data, text, completion.length);
        text += completion.length;
        length -= completion.length;
        taut_port_release(rig->port, completion.buffer);
    }
}

int plain_connect(uint16_t number)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(number),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail_msg("connect: %s", strerror(errno));
    return fd;
}

void plain_write(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length) {
        ssize_t written = send(fd, at, length, MSG_NOSIGNAL);
        assert_true(written > 0);
        at += written;
        length -= (size_t)written;
    }
}

size_t plain_read(int fd, void *data, size_t length)
{
    size_t got = 0;
    struct timeval patience = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (got < length) {
        ssize_t piece = recv(fd, (char *)data + got, length - got, 0);
        if (piece < 0)
            fail_msg("recv: %s", strerror(errno));
        if (piece == 0)
            break;
        got += (size_t)piece;
    }
    return got;
}

void plain_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

struct taut_conn rig_accept(struct rig *rig, int *fd)
{
    *fd = plain_connect(rig->number);
    return rig_expect(rig, TAUT_PORT_ACCEPTED).conn;
}

uint32_t open_descriptors(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 3; /* ".", ".." and the folder itself */
}
