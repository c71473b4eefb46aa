/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The epoll kind: what happens to a socket that is ready - accept, connect, receive, send, and how
 * each ends.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <taut/clock.h>

#include "base/check.h"
#include "port/epoll.h"

static int code_of(int errno_value)
{
    return errno_value == EPIPE ? TAUT_ECONNRESET : taut_code_from_errno(errno_value);
}

static void give(struct taut_port *port, struct taut__port_slot *slot,
                 struct taut_completion *completion, enum taut_completion_kind kind)
{
    completion->kind = kind;
    completion->conn.id = slot->id;
    completion->code = 0;
    completion->fd = -1;
    completion->user = slot->user;
    completion->data = NULL;
    completion->length = 0;
    completion->buffer = UINT32_MAX;
    slot->batch = port->batch;
}

static int give_closed(struct taut_port *port, struct taut__port_slot *slot,
                       struct taut_completion *completion, int code)
{
    give(port, slot, completion, TAUT_PORT_CLOSED);
    completion->code = slot->code ? slot->code : code;
    taut__port_slot_dies(port, slot);
    return 1;
}

/* --- receive and send ------------------------------------------------------------------------ */

int taut__port_epoll_receive(struct taut_port *port, struct taut__port_slot *slot,
                             struct taut_completion *completion)
{
    struct taut__port_epoll_state *state = port->kind;
    uint32_t buffer = taut__port_buffer_peek(port);
    if (buffer == UINT32_MAX) {
        if (state->starved_batch != port->batch) {
            state->starved_batch = port->batch;
            taut__port_count(port, TAUT__PORT_STARVED, 1);
        }
        return -1;
    }
    uint8_t *data = taut__port_buffer_at(port, buffer);
    ssize_t length;
    do
        length = recv(slot->fd, data, port->options.buffer_bytes, MSG_DONTWAIT);
    while (length < 0 && errno == EINTR);
    if (length > 0) {
        taut__port_buffer_borrow(port, buffer);
        give(port, slot, completion, TAUT_PORT_RECEIVED);
        completion->data = data;
        completion->length = (uint32_t)length;
        completion->buffer = buffer;
        taut__port_count(port, TAUT__PORT_RECEIVES, 1);
        taut__port_count(port, TAUT__PORT_RECEIVE_BYTES, (uint64_t)length);
        if ((uint32_t)length < port->options.buffer_bytes && !(slot->flags & TAUT__PORT_READ_OUT))
            slot->flags &= ~(uint32_t)TAUT__PORT_READABLE;
        return 1;
    }
    if (length == 0)
        return give_closed(port, slot, completion, 0);
    if (errno != EAGAIN)
        return give_closed(port, slot, completion, code_of(errno));
    if (slot->code)
        return give_closed(port, slot, completion, slot->code);
    slot->flags &= ~(uint32_t)(TAUT__PORT_READABLE | TAUT__PORT_READ_OUT);
    return 0;
}

void taut__port_epoll_fail(struct taut_port *port, struct taut__port_slot *slot, int code)
{
    slot->code = code;
    slot->flags |= TAUT__PORT_READABLE | TAUT__PORT_READ_OUT;
    slot->flags &= ~(uint32_t)(TAUT__PORT_WANT_WRITE | TAUT__PORT_WRITE_EDGE);
    taut__port_ready_push(port, slot);
}

int64_t taut__port_epoll_send(struct taut_port *port, struct taut__port_slot *slot,
                              const void *data, size_t length)
{
    ssize_t taken;
    do
        taken = send(slot->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (taken < 0 && errno == EINTR);
    int code = 0;
    if (taken < 0 && errno != EAGAIN) {
        code = code_of(errno);
    } else if (taken < 0 || (size_t)taken < length) {
        taken = taken < 0 ? 0 : taken;
        slot->flags |= TAUT__PORT_WANT_WRITE;
        if (!(slot->flags & TAUT__PORT_CONNECTING))
            slot->flags &= ~(uint32_t)TAUT__PORT_WRITE_EDGE;
        if (!(slot->flags & TAUT__PORT_REGISTERED))
            code = taut__port_epoll_register(port, slot);
    }
    if (!code)
        return taken;
    taut__port_epoll_fail(port, slot, code);
    return code;
}

/* --- connect --------------------------------------------------------------------------------- */

/* Goes on to the next address of the name. 1 = another connect is under way. */
static int connect_next(struct taut_port *port, struct taut__port_slot *slot, int *code)
{
    struct taut__port_attempt *attempt = taut__port_attempt_of(port, slot);
    while (attempt && attempt->next < attempt->count) {
        const struct taut__port_address *address = &attempt->addresses[attempt->next++];
        int fd;
        *code = taut__port_socket_connect(&fd, address, &port->requested);
        if (*code)
            continue;
        taut__port_epoll_unregister(port, slot);
        close(slot->fd);
        slot->fd = fd;
        slot->peer = *address;
        *code = taut__port_epoll_register(port, slot);
        if (*code == 0)
            return 1;
    }
    if (attempt)
        attempt->slot = TAUT__PORT_NO_SLOT;
    return 0;
}

static int finish_connect(struct taut_port *port, struct taut__port_slot *slot,
                          struct taut_completion *completion)
{
    const struct taut__port_epoll_state *state = port->kind;
    int code = taut__port_socket_error(slot->fd);
    slot->flags &= ~(uint32_t)TAUT__PORT_WRITE_EDGE;
    if (code) {
        if (connect_next(port, slot, &code))
            return 0;
        slot->flags &= ~(uint32_t)TAUT__PORT_CONNECTING;
        return give_closed(port, slot, completion, code);
    }
    struct taut__port_attempt *attempt = taut__port_attempt_of(port, slot);
    if (attempt)
        attempt->slot = TAUT__PORT_NO_SLOT;
    slot->flags &= ~(uint32_t)TAUT__PORT_CONNECTING;
    /* Input and an end may have come in the same event, and neither is reported again. */
    slot->flags |= TAUT__PORT_READABLE | TAUT__PORT_READ_OUT;
    if (slot->flags & TAUT__PORT_WANT_WRITE)
        slot->flags |= TAUT__PORT_WRITE_EDGE;
    else if (state->direct)
        taut__port_epoll_unregister(port, slot);
    taut__port_count(port, TAUT__PORT_CONNECTED, 1);
    give(port, slot, completion, TAUT_PORT_CONNECTED);
    return 1;
}

/* --- accept ---------------------------------------------------------------------------------- */

/*
 * No descriptor is left: gives up the reserved one to take the connection off the queue and close
 * it, so that its peer sees an end and this loop does not turn without effect. Returns 0 when one
 * was shed, else what accept4() said: EAGAIN where there was none, for which the first call did not
 * look.
 */
static int accept_and_shed(struct taut_port *port, const struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    int failure = EMFILE;
    if (state->reserve_fd >= 0) {
        close(state->reserve_fd);
        int fd = accept4(slot->fd, NULL, NULL, SOCK_CLOEXEC);
        failure = fd >= 0 ? 0 : errno;
        if (fd >= 0) {
            close(fd);
            taut__port_count(port, TAUT__PORT_SHED, 1);
        }
    }
    state->reserve_fd = fcntl(state->wake_fd, F_DUPFD_CLOEXEC, 0);
    return failure;
}

/*
 * What accept4() said. 1 = go on, 0 = nothing more for now.
 *
 * accept(2) also reports errors of the connection that it took off the queue, and of the network:
 * these are used up by the call. Any other would be met again by the next call, and as the queue
 * stays readable, going on would turn without effect or end.
 */
static int accept_failed(struct taut_port *port, struct taut__port_slot *slot, int failure)
{
    if (failure == EMFILE || failure == ENFILE)
        failure = accept_and_shed(port, slot);
    switch (failure) {
    case EAGAIN:
        slot->flags &= ~(uint32_t)TAUT__PORT_READABLE;
        return 0;
    case 0: /* shed */
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ETIMEDOUT:
        return 1;
    default:
        taut__port_epoll_rest(port, slot);
        return 0;
    }
}

static void give_accepted(struct taut_port *port, struct taut__port_slot *listener, int fd,
                          const struct sockaddr_storage *storage,
                          struct taut_completion *completions, uint32_t *given)
{
    struct taut_completion *completion = &completions[*given];
    if (listener->flags & TAUT__PORT_HAND_OFF) {
        give(port, listener, completion, TAUT_PORT_ACCEPTED_FD);
        completion->fd = fd;
    } else {
        struct taut__port_address peer;
        taut__port_address_from(&peer, storage);
        struct taut__port_slot *slot = taut__port_slot_take(port, fd, 0, listener->user, &peer);
        if (!slot || port->operations->attach(port, slot) != 0) {
            if (slot)
                taut__port_slot_drop(port, slot);
            close(fd);
            taut__port_count(port, TAUT__PORT_REFUSED, 1);
            return;
        }
        give(port, slot, completion, TAUT_PORT_ACCEPTED);
    }
    taut__port_count(port, TAUT__PORT_ACCEPTED, 1);
    ++*given;
}

static uint32_t accept_some(struct taut_port *port, struct taut__port_slot *slot,
                            struct taut_completion *completions, uint32_t most, uint32_t given)
{
    for (uint32_t i = 0; i < TAUT__PORT_ACCEPTS_MAX && given < most; i++) {
        struct sockaddr_storage storage = {0};
        socklen_t size = sizeof storage;
        int fd =
            accept4(slot->fd, (struct sockaddr *)&storage, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            give_accepted(port, slot, fd, &storage, completions, &given);
        else if (!accept_failed(port, slot, errno))
            break;
    }
    return given;
}

/* --- the round ------------------------------------------------------------------------------- */

/* Is there anything left to do for a slot that was just served? */
static int pending(const struct taut__port_epoll_state *state, const struct taut__port_slot *slot)
{
    if (slot->flags & TAUT__PORT_DYING)
        return 0;
    if (slot->flags & TAUT__PORT_LISTENER)
        return (slot->flags & (TAUT__PORT_READABLE | TAUT__PORT_RESTING)) == TAUT__PORT_READABLE;
    if ((slot->flags & TAUT__PORT_WRITE_EDGE) &&
        (slot->flags & (TAUT__PORT_WANT_WRITE | TAUT__PORT_CONNECTING)))
        return 1;
    return (slot->flags & TAUT__PORT_READABLE) &&
           !(slot->flags & (TAUT__PORT_CONNECTING | TAUT__PORT_PAUSED)) &&
           (!state->direct || slot->code);
}

static int progress(struct taut_port *port, struct taut__port_slot *slot,
                    struct taut_completion *completion)
{
    if (slot->flags & TAUT__PORT_CONNECTING)
        return slot->flags & TAUT__PORT_WRITE_EDGE ? finish_connect(port, slot, completion) : 0;
    if ((slot->flags & TAUT__PORT_WRITE_EDGE) && (slot->flags & TAUT__PORT_WANT_WRITE)) {
        slot->flags &= ~(uint32_t)(TAUT__PORT_WRITE_EDGE | TAUT__PORT_WANT_WRITE);
        give(port, slot, completion, TAUT_PORT_WRITABLE);
        return 1;
    }
    if ((slot->flags & (TAUT__PORT_READABLE | TAUT__PORT_PAUSED)) != TAUT__PORT_READABLE)
        return 0;
    return taut__port_epoll_receive(port, slot, completion);
}

uint32_t taut__port_epoll_serve(struct taut_port *port, struct taut_completion *completions,
                                uint32_t most, uint32_t given)
{
    struct taut__port_epoll_state *state = port->kind;
    state->blocked = 0;
    for (uint32_t visits = state->ready_count; visits && given < most; visits--) {
        TAUT_CHECK(state->ready_first != TAUT__PORT_NO_SLOT);
        struct taut__port_slot *slot = &port->slots[state->ready_first];
        taut__port_ready_remove(port, slot);
        if (slot->flags & TAUT__PORT_LISTENER) {
            given = accept_some(port, slot, completions, most, given);
        } else if (given == 0 || slot->batch != port->batch) {
            /* One completion a connection and poll: what its owner does with the first, such as
             * closing it, is known before there is a second. */
            int outcome = progress(port, slot, &completions[given]);
            given += outcome > 0;
            state->blocked += outcome < 0;
        }
        if (pending(state, slot))
            taut__port_ready_push(port, slot);
    }
    return given;
}
