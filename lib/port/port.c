/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all kinds of ports share: creation in one allocation, handles with generations, the LIFO
 * pool of receive buffers, connects that try one address after the other, counters. How bytes and
 * events move is the kind's, behind struct taut__port_operations.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <taut/scan.h>

#include "base/check.h"
#include "base/options.h"
#include "port/port.h"

static const struct taut__port_operations *const kinds[] = {
    [TAUT_PORT_EPOLL] = &taut__port_epoll,
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* --- slots ----------------------------------------------------------------------------------- */

/* The next generation; 0 is left out, so that no handle is 0. */
static void slot_advance(const struct taut_port *port, struct taut__port_slot *slot)
{
    uint32_t last = UINT32_MAX >> port->id_shift;
    slot->generation = slot->generation == last ? 1 : slot->generation + 1;
}

struct taut__port_slot *taut__port_slot_take(struct taut_port *port, int fd, uint32_t flags,
                                             uint64_t user, const struct taut__port_address *peer)
{
    uint32_t index = port->free_first;
    if (index == TAUT__PORT_NO_SLOT)
        return NULL;
    struct taut__port_slot *slot = &port->slots[index];
    TAUT_CHECK(slot->fd == -1 && slot->id == 0);
    port->free_first = slot->next;
    if (port->free_first == TAUT__PORT_NO_SLOT)
        port->free_last = TAUT__PORT_NO_SLOT;
    slot_advance(port, slot);
    slot->id = slot->generation << port->id_shift | index;
    slot->fd = fd;
    slot->flags = flags;
    slot->next = slot->previous = TAUT__PORT_NO_SLOT;
    slot->batch = port->batch - 1;
    slot->code = 0;
    slot->user = user;
    if (peer)
        slot->peer = *peer;
    else
        memset(&slot->peer, 0, sizeof slot->peer);
    port->connections++;
    taut__port_count_peak(port, TAUT__PORT_CONNECTIONS_PEAK, port->connections);
    return slot;
}

void taut__port_slot_drop(struct taut_port *port, struct taut__port_slot *slot)
{
    uint32_t index = taut__port_slot_index(port, slot);
    slot->id = 0;
    slot->fd = -1;
    slot->flags = 0;
    slot->next = TAUT__PORT_NO_SLOT;
    if (port->free_last == TAUT__PORT_NO_SLOT)
        port->free_first = index;
    else
        port->slots[port->free_last].next = index;
    port->free_last = index;
    port->connections--;
}

void taut__port_slot_free(struct taut_port *port, struct taut__port_slot *slot)
{
    TAUT_CHECK(slot->fd >= 0 && !(slot->flags & TAUT__PORT_DYING));
    if (slot->flags & TAUT__PORT_CONNECTING) {
        struct taut__port_attempt *attempt = taut__port_attempt_of(port, slot);
        if (attempt)
            attempt->slot = TAUT__PORT_NO_SLOT;
    }
    port->operations->detach(port, slot);
    close(slot->fd);
    taut__port_slot_drop(port, slot);
}

void taut__port_slot_dies(struct taut_port *port, struct taut__port_slot *slot)
{
    TAUT_CHECK(!(slot->flags & (TAUT__PORT_DYING | TAUT__PORT_LISTENER)));
    port->operations->detach(port, slot);
    slot->flags |= TAUT__PORT_DYING;
    slot->next = port->dying;
    port->dying = taut__port_slot_index(port, slot);
    taut__port_count(port, TAUT__PORT_CLOSED, 1);
}

void taut__port_slots_reap(struct taut_port *port)
{
    while (port->dying != TAUT__PORT_NO_SLOT) {
        struct taut__port_slot *slot = &port->slots[port->dying];
        port->dying = slot->next;
        close(slot->fd);
        taut__port_slot_drop(port, slot);
    }
}

struct taut__port_attempt *taut__port_attempt_of(struct taut_port *port,
                                                 const struct taut__port_slot *slot)
{
    uint32_t index = taut__port_slot_index(port, slot);
    for (uint32_t i = 0; i < TAUT__PORT_ATTEMPTS; i++)
        if (port->attempts[i].slot == index)
            return &port->attempts[i];
    return NULL;
}

void taut__port_buffer_borrow(struct taut_port *port, uint32_t buffer)
{
    TAUT_CHECK(port->free_buffer_count > 0 &&
               port->free_buffers[port->free_buffer_count - 1] == buffer &&
               !port->borrowed[buffer]);
    port->free_buffer_count--;
    port->borrowed[buffer] = 1;
    taut__port_count_peak(port, TAUT__PORT_BUFFERS_PEAK,
                          port->options.buffers - port->free_buffer_count);
}

/* The rule of one owner, in each call that changes the port. Nobody owns it before the first poll;
 * taut_port_destroy() is for whoever knows that the owner has come to its end. */
static void check_owner(struct taut_port *port)
{
#ifndef NDEBUG
    TAUT_CHECK(!port->owner_known || pthread_equal(port->owner, pthread_self()));
#else
    (void)port;
#endif
}

/* --- creation -------------------------------------------------------------------------------- */

static const struct taut__options_kind options_kind =
    TAUT__OPTIONS_KIND(struct taut_port_options, spin_ns, kind, "port options");

static int take_options(struct taut_port_options *effective,
                        const struct taut_port_options *options, struct taut_err *err)
{
    int code = taut__options_take(&options_kind, effective, options, err);
    if (code)
        return code;
    if (effective->connections == 0)
        effective->connections = 1024;
    if (effective->buffers == 0)
        effective->buffers = 64;
    if (effective->buffer_bytes == 0)
        effective->buffer_bytes = 16u << 10;
    if (effective->kind >= KINDS || !kinds[effective->kind])
        return taut_err_set(err, TAUT_ENOTSUP, "port kind %u is not known", effective->kind);
    if (effective->connections > TAUT__PORT_CONNECTIONS_MAX)
        return taut_err_set(err, TAUT_EINVAL, "port: %u connections are above %u",
                            effective->connections, TAUT__PORT_CONNECTIONS_MAX);
    if (effective->buffers > TAUT__PORT_BUFFERS_MAX)
        return taut_err_set(err, TAUT_EINVAL, "port: %u buffers are above %u", effective->buffers,
                            TAUT__PORT_BUFFERS_MAX);
    if (effective->buffer_bytes > TAUT__PORT_BUFFER_BYTES_MAX)
        return taut_err_set(err, TAUT_EINVAL, "port: buffers of %u bytes are above %u",
                            effective->buffer_bytes, TAUT__PORT_BUFFER_BYTES_MAX);
    effective->busy_poll = effective->busy_poll != 0;
    if (effective->spin_ns == 0)
        effective->spin_ns = effective->busy_poll ? TAUT_NEVER_NS : TAUT_WAIT_NONE_NS;
    if (effective->spin_ns > TAUT_NS_PER_S && effective->spin_ns != TAUT_NEVER_NS)
        return taut_err_set(err, TAUT_EINVAL, "port: spinning for %llu ns is above a second",
                            (unsigned long long)effective->spin_ns);
    if (effective->busy_poll && effective->spin_ns != TAUT_NEVER_NS)
        return taut_err_set(err, TAUT_EINVAL,
                            "port: busy-polling spins without end, not for %llu ns",
                            (unsigned long long)effective->spin_ns);
    effective->delay = effective->delay != 0;
    return 0;
}

static size_t align_64(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

static void port_lay_out(struct taut_port *port, uint8_t *memory, size_t kind_size,
                         size_t slots_size, size_t list_size, size_t flags_size)
{
    port->kind = memory;
    memory += kind_size;
    port->slots = (struct taut__port_slot *)(void *)memory;
    memory += slots_size;
    port->free_buffers = (uint32_t *)(void *)memory;
    memory += list_size;
    port->borrowed = memory;
    memory += flags_size;
    port->buffers = memory;

    uint32_t count = port->options.connections;
    port->id_shift = 1;
    while (((uint32_t)1 << port->id_shift) < count)
        port->id_shift++;
    port->id_mask = ((uint32_t)1 << port->id_shift) - 1;
    for (uint32_t i = 0; i < count; i++) {
        port->slots[i].fd = -1;
        port->slots[i].next = i + 1 < count ? i + 1 : TAUT__PORT_NO_SLOT;
    }
    port->free_first = 0;
    port->free_last = count - 1;
    port->dying = TAUT__PORT_NO_SLOT;
    for (uint32_t i = 0; i < port->options.buffers; i++)
        port->free_buffers[i] = port->options.buffers - 1 - i;
    port->free_buffer_count = port->options.buffers;
    for (uint32_t i = 0; i < TAUT__PORT_ATTEMPTS; i++)
        port->attempts[i].slot = TAUT__PORT_NO_SLOT;
}

int taut_port_create(struct taut_port **port_out, const struct taut_port_options *options,
                     struct taut_err *err)
{
    struct taut_port_options effective;
    *port_out = NULL;
    int code = take_options(&effective, options, err);
    if (code)
        return code;
    const struct taut__port_operations *operations = kinds[effective.kind];
    size_t stride = align_64(effective.buffer_bytes + TAUT_SCAN_PADDING);
    size_t port_size = (sizeof(struct taut_port) + 127) & ~(size_t)127;
    size_t kind_size =
        align_64(operations->kind_state + effective.connections * operations->kind_connection);
    size_t slots_size = effective.connections * sizeof(struct taut__port_slot);
    size_t list_size = align_64(effective.buffers * sizeof(uint32_t));
    size_t flags_size = align_64(effective.buffers);
    size_t size =
        port_size + kind_size + slots_size + list_size + flags_size + stride * effective.buffers;
    void *memory = NULL;
    if (posix_memalign(&memory, 128, size) != 0)
        return taut_err_set(err, TAUT_ENOMEM, "port: no memory for %zu bytes", size);
    /* Also touches each page: none is left for the first messages to fault in. */
    memset(memory, 0, size);
    struct taut_port *port = memory;
    port->operations = operations;
    port->buffer_stride = (uint32_t)stride;
    port->options = port->requested = effective;
    port_lay_out(port, (uint8_t *)memory + port_size, kind_size, slots_size, list_size, flags_size);
    code = taut__port_socket_read_back(&port->options, err);
    if (!code)
        code = operations->start(port, err);
    if (code) {
        free(memory);
        return code;
    }
    *port_out = port;
    return 0;
}

void taut_port_destroy(struct taut_port *port)
{
    if (!port)
        return;
    taut__port_slots_reap(port);
    for (uint32_t i = 0; i < port->options.connections; i++)
        if (port->slots[i].fd >= 0)
            taut__port_slot_free(port, &port->slots[i]);
    TAUT_CHECK(port->connections == 0);
    port->operations->stop(port);
    free(port);
}

/* --- connections ----------------------------------------------------------------------------- */

/* Gives `fd` a slot and makes it known to the kind. On failure the descriptor stays the caller's.
 */
static int slot_open(struct taut_port *port, int fd, uint32_t flags, uint64_t user,
                     const struct taut__port_address *peer, struct taut__port_slot **slot_out,
                     struct taut_err *err)
{
    struct taut__port_slot *slot = taut__port_slot_take(port, fd, flags, user, peer);
    if (!slot)
        return taut_err_set(err, TAUT_ENOSPC, "port: all %u connections are in use",
                            port->options.connections);
    int code = port->operations->attach(port, slot);
    if (code) {
        taut__port_slot_drop(port, slot);
        return taut_err_set(err, code, "port: can't watch a socket: %s", taut_code_text(code));
    }
    *slot_out = slot;
    return 0;
}

int taut_port_listen(struct taut_port *port, const char *host, uint16_t port_number,
                     uint32_t hand_off, struct taut_conn *listener, struct taut_err *err)
{
    int fd = -1;
    listener->id = 0;
    check_owner(port);
    int code = taut__port_socket_listen(&fd, host, port_number, &port->requested, err);
    if (code)
        return code;
    struct taut__port_slot *slot = NULL;
    code = slot_open(port, fd, TAUT__PORT_LISTENER | (hand_off ? TAUT__PORT_HAND_OFF : 0), 0, NULL,
                     &slot, err);
    if (code) {
        close(fd);
        return code;
    }
    TAUT_CHECK(slot);
    listener->id = slot->id;
    return 0;
}

static void keep_attempts(struct taut_port *port, const struct taut__port_slot *slot,
                          const struct taut__port_address *addresses, uint32_t next, uint32_t count)
{
    if (next >= count)
        return;
    for (uint32_t i = 0; i < TAUT__PORT_ATTEMPTS; i++) {
        struct taut__port_attempt *attempt = &port->attempts[i];
        if (attempt->slot != TAUT__PORT_NO_SLOT)
            continue;
        attempt->slot = taut__port_slot_index(port, slot);
        attempt->next = next;
        attempt->count = count;
        memcpy(attempt->addresses, addresses, count * sizeof *addresses);
        return;
    }
    /* More names at a time than records: this connect tries only the address it has begun with. */
}

int taut_port_connect(struct taut_port *port, const char *host, uint16_t port_number, uint64_t user,
                      struct taut_conn *conn, struct taut_err *err)
{
    struct taut__port_address addresses[TAUT__PORT_ADDRESSES_MAX];
    conn->id = 0;
    check_owner(port);
    int count = taut__port_address_resolve(addresses, host, port_number, 0, err);
    if (count < 0)
        return count;
    int fd = -1;
    int code = TAUT_ENOENT;
    uint32_t tried = 0;
    while (tried < (uint32_t)count) {
        code = taut__port_socket_connect(&fd, &addresses[tried++], &port->requested);
        if (!code)
            break;
    }
    if (code) {
        char text[80];
        taut__port_address_format(&addresses[tried - 1], text, sizeof text);
        return taut_err_set(err, code, "can't connect to %s: %s", text, taut_code_text(code));
    }
    struct taut__port_slot *slot = NULL;
    code = slot_open(port, fd, TAUT__PORT_CONNECTING, user, &addresses[tried - 1], &slot, err);
    if (code) {
        close(fd);
        return code;
    }
    TAUT_CHECK(slot);
    keep_attempts(port, slot, addresses, tried, (uint32_t)count);
    conn->id = slot->id;
    return 0;
}

int taut_port_adopt(struct taut_port *port, int fd, uint64_t user, struct taut_conn *conn,
                    struct taut_err *err)
{
    struct sockaddr_storage storage = {0};
    socklen_t size = sizeof storage;
    int type = 0;
    socklen_t type_size = sizeof type;
    conn->id = 0;
    check_owner(port);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_STREAM)
        return taut_err_set(err, TAUT_EINVAL, "descriptor %d is not a stream socket", fd);
    struct taut__port_address peer = {0};
    if (getpeername(fd, (struct sockaddr *)&storage, &size) == 0) {
        taut__port_address_from(&peer, &storage);
    } else if (errno == ENOTCONN) {
        /* Either never connected, or reset since it was accepted: then it is taken over, and
         * CLOSED tells the owner, as it would a moment later. A listener is never right. */
        int listens = 0;
        socklen_t listens_size = sizeof listens;
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size);
        if (listens)
            return taut_err_set(err, TAUT_EINVAL, "descriptor %d is a listener", fd);
        size = sizeof storage;
        if (getsockname(fd, (struct sockaddr *)&storage, &size) == 0)
            peer.family = storage.ss_family;
    } else {
        return taut_err_set(err, TAUT_EINVAL, "descriptor %d has no peer", fd);
    }
    int code = taut__port_socket_nonblocking(fd);
    if (!code)
        code = taut__port_socket_configure(fd, peer.family, &port->requested);
    if (code)
        return taut_err_set(err, code, "can't set up descriptor %d: %s", fd, taut_code_text(code));
    struct taut__port_slot *slot = NULL;
    code = slot_open(port, fd, 0, user, &peer, &slot, err);
    if (code)
        return code;
    TAUT_CHECK(slot);
    conn->id = slot->id;
    return 0;
}

int taut_port_live(const struct taut_port *port, struct taut_conn conn)
{
    return taut__port_slot_of(port, conn) != NULL;
}

int taut_port_set_user(struct taut_port *port, struct taut_conn conn, uint64_t user)
{
    check_owner(port);
    struct taut__port_slot *slot = taut__port_slot_of(port, conn);
    if (!slot)
        return TAUT_ENOENT;
    slot->user = user;
    return 0;
}

uint16_t taut_port_local(const struct taut_port *port, struct taut_conn conn)
{
    const struct taut__port_slot *slot = taut__port_slot_of(port, conn);
    struct sockaddr_storage storage = {0};
    socklen_t size = sizeof storage;
    if (!slot || getsockname(slot->fd, (struct sockaddr *)&storage, &size) != 0)
        return 0;
    struct taut__port_address address;
    taut__port_address_from(&address, &storage);
    return address.number;
}

size_t taut_port_peer(const struct taut_port *port, struct taut_conn conn, char *text,
                      size_t capacity)
{
    const struct taut__port_slot *slot = taut__port_slot_of(port, conn);
    if (capacity)
        text[0] = 0;
    if (!slot || (slot->flags & TAUT__PORT_LISTENER))
        return 0;
    return taut__port_address_format(&slot->peer, text, capacity);
}

int64_t taut_port_send(struct taut_port *port, struct taut_conn conn, const void *data,
                       size_t length)
{
    check_owner(port);
    struct taut__port_slot *slot = taut__port_slot_of(port, conn);
    if (!slot || (slot->flags & (TAUT__PORT_DYING | TAUT__PORT_LISTENER)))
        return TAUT_ENOENT;
    if (slot->flags & TAUT__PORT_SHUT)
        return TAUT_ESTATE;
    if (slot->code)
        return slot->code;
    if (length == 0)
        return 0;
    int64_t taken = port->operations->send(port, slot, data, length);
    if (taken < 0)
        return taken;
    taut__port_count(port, TAUT__PORT_SENDS, 1);
    taut__port_count(port, TAUT__PORT_SEND_BYTES, (uint64_t)taken);
    if ((uint64_t)taken < length)
        taut__port_count(port, TAUT__PORT_SENDS_SHORT, 1);
    return taken;
}

int taut_port_pause(struct taut_port *port, struct taut_conn conn, uint32_t paused)
{
    check_owner(port);
    struct taut__port_slot *slot = taut__port_slot_of(port, conn);
    if (!slot || (slot->flags & (TAUT__PORT_DYING | TAUT__PORT_LISTENER)))
        return TAUT_ENOENT;
    if (paused) {
        slot->flags |= TAUT__PORT_PAUSED;
    } else if (slot->flags & TAUT__PORT_PAUSED) {
        slot->flags &= ~(uint32_t)TAUT__PORT_PAUSED;
        port->operations->resume(port, slot);
    }
    return 0;
}

int taut_port_shutdown(struct taut_port *port, struct taut_conn conn)
{
    check_owner(port);
    struct taut__port_slot *slot = taut__port_slot_of(port, conn);
    if (!slot || (slot->flags & (TAUT__PORT_DYING | TAUT__PORT_LISTENER)))
        return TAUT_ENOENT;
    if (slot->flags & TAUT__PORT_CONNECTING)
        return TAUT_ESTATE;
    slot->flags |= TAUT__PORT_SHUT;
    slot->flags &= ~(uint32_t)TAUT__PORT_WANT_WRITE;
    /* Fails only where the connection has failed: CLOSED says so. */
    (void)shutdown(slot->fd, SHUT_WR);
    return 0;
}

int taut_port_close(struct taut_port *port, struct taut_conn conn, uint32_t reset)
{
    check_owner(port);
    struct taut__port_slot *slot = taut__port_slot_of(port, conn);
    if (!slot)
        return TAUT_ENOENT;
    if (slot->flags & TAUT__PORT_DYING) {
        slot->id = 0; /* it dies at the next poll anyway; a CLOSED still unread is now stale */
        return 0;
    }
    if (reset)
        taut__port_socket_reset_on_close(slot->fd);
    if (!(slot->flags & TAUT__PORT_LISTENER))
        taut__port_count(port, TAUT__PORT_CLOSED, 1);
    taut__port_slot_free(port, slot);
    return 0;
}

/* --- poll, buffers, counters ----------------------------------------------------------------- */

int taut_port_poll(struct taut_port *port, struct taut_completion *completions, uint32_t most,
                   uint64_t deadline_ns)
{
    if (most == 0)
        return TAUT_EINVAL;
    check_owner(port);
    if (!port->owner_known) {
        port->owner = pthread_self();
        port->owner_known = 1;
    }
    taut__port_slots_reap(port);
    port->batch++;
    taut__port_count(port, TAUT__PORT_POLLS, 1);
    int given =
        port->operations->poll(port, completions, most > INT32_MAX ? INT32_MAX : most, deadline_ns);
    if (given == 0)
        taut__port_count(port, TAUT__PORT_POLLS_EMPTY, 1);
    return given;
}

void taut_port_release(struct taut_port *port, uint32_t buffer)
{
    check_owner(port);
    TAUT_CHECK(buffer < port->options.buffers && port->borrowed[buffer]);
    port->borrowed[buffer] = 0;
    port->free_buffers[port->free_buffer_count++] = buffer;
}

void taut_port_wake(struct taut_port *port)
{
    port->operations->wake(port);
}

void taut_port_stats(const struct taut_port *port, struct taut_port_stats *stats)
{
    uint64_t values[TAUT__PORT_COUNTERS];
    for (uint32_t i = 0; i < TAUT__PORT_COUNTERS; i++)
        values[i] = atomic_load_explicit(&port->counters[i], memory_order_relaxed);
    memcpy(stats, values, sizeof *stats);
}

int taut_port_effective(const struct taut_port *port, struct taut_port_options *options)
{
    return taut__options_give(&options_kind, options, &port->options);
}

const char *taut_port_kind_name(uint32_t kind)
{
    return kind < KINDS && kinds[kind] ? kinds[kind]->name : "?";
}

int taut_port_kind_from(const char *name)
{
    for (uint32_t i = 0; i < KINDS; i++)
        if (kinds[i] && name && strcmp(kinds[i]->name, name) == 0)
            return (int)i;
    return -1;
}
