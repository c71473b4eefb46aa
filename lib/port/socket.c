/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets as all kinds that use the kernel's (or a library that stands in its place) want them:
 * non-blocking, closed on exec, Nagle's algorithm off.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "port/port.h"

static int set_number(int fd, int level, int name, uint32_t value)
{
    int number = value > INT32_MAX ? INT32_MAX : (int)value;
    return setsockopt(fd, level, name, &number, sizeof number) == 0 ? 0
                                                                    : taut_code_from_errno(errno);
}

int taut__port_socket_configure(int fd, uint32_t family, const struct taut_port_options *options)
{
    int code = 0;
    if (options->send_buffer_bytes)
        code = set_number(fd, SOL_SOCKET, SO_SNDBUF, options->send_buffer_bytes);
    if (!code && options->receive_buffer_bytes)
        code = set_number(fd, SOL_SOCKET, SO_RCVBUF, options->receive_buffer_bytes);
    if (!code && family != AF_UNIX)
        code = set_number(fd, IPPROTO_TCP, TCP_NODELAY, options->delay ? 0 : 1);
    return code;
}

int taut__port_socket_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return taut_code_from_errno(errno);
    return 0;
}

static uint32_t read_number(int fd, int name)
{
    int number = 0;
    socklen_t size = sizeof number;
    return getsockopt(fd, SOL_SOCKET, name, &number, &size) == 0 && number > 0 ? (uint32_t)number
                                                                               : 0;
}

int taut__port_socket_read_back(struct taut_port_options *options, struct taut_err *err)
{
    if (!options->send_buffer_bytes && !options->receive_buffer_bytes)
        return 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return taut_err_set(err, taut_code_from_errno(errno), "can't make a socket: %s",
                            taut_code_text(taut_code_from_errno(errno)));
    int code = taut__port_socket_configure(fd, AF_INET, options);
    if (code) {
        taut_err_set(err, code, "socket buffers of %u and %u bytes are refused",
                     options->send_buffer_bytes, options->receive_buffer_bytes);
    } else {
        if (options->send_buffer_bytes)
            options->send_buffer_bytes = read_number(fd, SO_SNDBUF);
        if (options->receive_buffer_bytes)
            options->receive_buffer_bytes = read_number(fd, SO_RCVBUF);
    }
    close(fd);
    return code;
}

static int listen_at(int *fd_out, const struct taut__port_address *address,
                     const struct taut_port_options *options)
{
    struct sockaddr_storage storage;
    socklen_t size = taut__port_address_to(address, &storage);
    int fd = socket(address->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    /* Linux hands these options on to accepted sockets, so that an accept is one system call. */
    if (set_number(fd, SOL_SOCKET, SO_REUSEADDR, 1) ||
        taut__port_socket_configure(fd, address->family, options) ||
        bind(fd, (struct sockaddr *)&storage, size) != 0 || listen(fd, SOMAXCONN) != 0) {
        int failure = errno;
        close(fd);
        return failure;
    }
    *fd_out = fd;
    return 0;
}

int taut__port_socket_listen(int *fd, const char *host, uint16_t number,
                             const struct taut_port_options *options, struct taut_err *err)
{
    struct taut__port_address addresses[TAUT__PORT_ADDRESSES_MAX];
    int count = taut__port_address_resolve(addresses, host, number, 1, err);
    if (count < 0)
        return count;
    int failure = 0;
    int failed = 0;
    for (int i = 0; i < count; i++) {
        int result = listen_at(fd, &addresses[i], options);
        if (result == 0)
            return 0;
        /* A family that this machine does not have says less than what another address says. */
        if (failure == 0 || failure == EAFNOSUPPORT || failure == EADDRNOTAVAIL) {
            failure = result;
            failed = i;
        }
        if (failure == EADDRINUSE || failure == EACCES)
            break;
    }
    char text[80];
    taut__port_address_format(&addresses[failed], text, sizeof text);
    switch (failure) {
    case EADDRINUSE:
        return taut_err_set(err, TAUT_EADDRINUSE,
                            "can't listen on %s: the port is in use by another socket", text);
    case EACCES:
        return taut_err_set(err, TAUT_EACCES, "can't listen on %s: not permitted", text);
    case EADDRNOTAVAIL:
        return taut_err_set(err, TAUT_ENOENT,
                            "can't listen on %s: this machine has no such address", text);
    case EAFNOSUPPORT:
        return taut_err_set(err, TAUT_ENOTSUP,
                            "can't listen on %s: the address family is not supported here", text);
    default:
        return taut_err_set(err, taut_code_from_errno(failure), "can't listen on %s: %s", text,
                            strerrordesc_np(failure));
    }
}

int taut__port_socket_connect(int *fd_out, const struct taut__port_address *address,
                              const struct taut_port_options *options)
{
    struct sockaddr_storage storage;
    socklen_t size = taut__port_address_to(address, &storage);
    int fd = socket(address->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return taut_code_from_errno(errno);
    int code = taut__port_socket_configure(fd, address->family, options);
    if (!code && connect(fd, (struct sockaddr *)&storage, size) != 0 && errno != EINPROGRESS &&
        errno != EINTR)
        code = taut_code_from_errno(errno);
    if (code) {
        close(fd);
        return code;
    }
    *fd_out = fd;
    return 0;
}

int taut__port_socket_error(int fd)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        failure = errno;
    return failure ? taut_code_from_errno(failure) : 0;
}

void taut__port_socket_reset_on_close(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}
