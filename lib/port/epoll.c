/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The epoll kind: how it waits. What it does with a socket that is ready is in progress.c.
 *
 * Everything is edge-triggered and registered once, so a message costs one epoll_wait shared by a
 * batch, one recv and one send. Sockets with something to do are on a ready list, served round
 * robin, one completion each a poll; a socket leaves it when a receive came back short.
 *
 * Busy-polling a few connections goes straight to recv(2) on each ("direct"). Such a connection is
 * registered only while it connects and once a send has come back short; the others are not, or no
 * longer, so that neither side pays for epoll. What is registered, and listeners, is looked at
 * every TAUT__PORT_LOOK_NS.
 *
 * epoll(7), "Questions and answers" 9: a read that returns less than it was asked for has drained a
 * stream socket. Not so where an end, an error or urgent data is pending: the kernel reports those
 * in the event (or by another edge), and such a socket is read until nothing comes.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <taut/clock.h>

#include "base/check.h"
#include "port/epoll.h"

/* --- ready list ------------------------------------------------------------------------------ */

void taut__port_ready_push(struct taut_port *port, struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    if (slot->flags & TAUT__PORT_LISTED)
        return;
    uint32_t index = taut__port_slot_index(port, slot);
    slot->flags |= TAUT__PORT_LISTED;
    slot->next = TAUT__PORT_NO_SLOT;
    slot->previous = state->ready_last;
    if (state->ready_last == TAUT__PORT_NO_SLOT)
        state->ready_first = index;
    else
        port->slots[state->ready_last].next = index;
    state->ready_last = index;
    state->ready_count++;
}

void taut__port_ready_remove(struct taut_port *port, struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    if (!(slot->flags & TAUT__PORT_LISTED))
        return;
    if (slot->previous == TAUT__PORT_NO_SLOT)
        state->ready_first = slot->next;
    else
        port->slots[slot->previous].next = slot->next;
    if (slot->next == TAUT__PORT_NO_SLOT)
        state->ready_last = slot->previous;
    else
        port->slots[slot->next].previous = slot->previous;
    slot->flags &= ~(uint32_t)TAUT__PORT_LISTED;
    slot->next = slot->previous = TAUT__PORT_NO_SLOT;
    TAUT_CHECK(state->ready_count > 0);
    state->ready_count--;
}

/* --- registration and the direct set ---------------------------------------------------------- */

int taut__port_epoll_register(struct taut_port *port, struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    struct epoll_event event = {.events = EPOLLET | EPOLLIN, .data.u64 = slot->id};
    /* Room to write is reported along with input at no cost, and alone only after a send that came
     * back short: one registration serves both. */
    if (!(slot->flags & TAUT__PORT_LISTENER))
        event.events |= EPOLLOUT | EPOLLRDHUP | EPOLLPRI;
    if (epoll_ctl(state->epoll_fd, EPOLL_CTL_ADD, slot->fd, &event) != 0)
        return taut_code_from_errno(errno);
    slot->flags |= TAUT__PORT_REGISTERED;
    return 0;
}

void taut__port_epoll_unregister(struct taut_port *port, struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    if (!(slot->flags & TAUT__PORT_REGISTERED))
        return;
    /* Explicit, because closing is not enough while a child process holds a copy. */
    epoll_ctl(state->epoll_fd, EPOLL_CTL_DEL, slot->fd, NULL);
    slot->flags &= ~(uint32_t)TAUT__PORT_REGISTERED;
}

/* A connection that can't be watched is one that has failed: CLOSED follows. */
static void watch_or_fail(struct taut_port *port, struct taut__port_slot *slot)
{
    int code = slot->flags & TAUT__PORT_REGISTERED ? 0 : taut__port_epoll_register(port, slot);
    if (code)
        taut__port_epoll_fail(port, slot, code);
    else
        /* Edges, those of an end too, may have been passed over while direct. */
        slot->flags |= TAUT__PORT_READABLE | TAUT__PORT_READ_OUT;
    taut__port_ready_push(port, slot);
}

static void leave_direct(struct taut_port *port)
{
    struct taut__port_epoll_state *state = port->kind;
    state->direct = 0;
    for (uint32_t i = 0; i < state->direct_count; i++) {
        struct taut__port_slot *slot = &port->slots[state->direct_slots[i]];
        if (!(slot->flags & TAUT__PORT_CONNECTING))
            watch_or_fail(port, slot);
    }
    state->direct_count = 0;
}

static void direct_push(struct taut__port_epoll_state *state, uint32_t index)
{
    /* 0 is a possible build, in which nothing comes here. */
    TAUT_CHECK(TAUT__PORT_DIRECT_MAX && state->direct_count + 1 <= TAUT__PORT_DIRECT_MAX);
    state->direct_slots[state->direct_count++] = index;
}

static void enter_direct(struct taut_port *port)
{
    struct taut__port_epoll_state *state = port->kind;
    state->direct = 1;
    state->direct_count = state->direct_next = 0;
    for (uint32_t i = 0; i < state->streams; i++) {
        struct taut__port_slot *slot = &port->slots[state->stream_slots[i]];
        if (!(slot->flags & (TAUT__PORT_CONNECTING | TAUT__PORT_WANT_WRITE)))
            taut__port_epoll_unregister(port, slot);
        direct_push(state, state->stream_slots[i]);
    }
}

/* --- all connections ------------------------------------------------------------------------- */

static void stream_add(struct taut__port_epoll_state *state, uint32_t index)
{
    state->stream_places[index] = state->streams;
    state->stream_slots[state->streams++] = index;
}

static void stream_remove(struct taut__port_epoll_state *state, uint32_t index)
{
    uint32_t place = state->stream_places[index];
    TAUT_CHECK(place < state->streams && state->stream_slots[place] == index);
    uint32_t last = state->stream_slots[--state->streams];
    state->stream_slots[place] = last;
    state->stream_places[last] = place;
}

/* --- listeners that rest ---------------------------------------------------------------------- */

void taut__port_epoll_rest(struct taut_port *port, struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    TAUT_CHECK((slot->flags & TAUT__PORT_LISTENER) &&
               !(slot->flags & (TAUT__PORT_LISTED | TAUT__PORT_RESTING)));
    slot->flags |= TAUT__PORT_RESTING;
    slot->next = state->resting_first;
    state->resting_first = taut__port_slot_index(port, slot);
    uint64_t again_ns = taut_now_ns() + TAUT__PORT_ACCEPT_PAUSE_NS;
    if (again_ns < state->accept_again_ns)
        state->accept_again_ns = again_ns;
    taut__port_count(port, TAUT__PORT_ACCEPT_PAUSES, 1);
}

static void stop_resting(struct taut_port *port, struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    if (!(slot->flags & TAUT__PORT_RESTING))
        return;
    uint32_t *link = &state->resting_first;
    while (*link != taut__port_slot_index(port, slot)) {
        TAUT_CHECK(*link != TAUT__PORT_NO_SLOT);
        link = &port->slots[*link].next;
    }
    *link = slot->next;
    slot->flags &= ~(uint32_t)TAUT__PORT_RESTING;
    if (state->resting_first == TAUT__PORT_NO_SLOT)
        state->accept_again_ns = TAUT_NEVER_NS;
}

/* --- attach and detach -------------------------------------------------------------------------
 */

static int epoll_attach(struct taut_port *port, struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    uint32_t stream = !(slot->flags & TAUT__PORT_LISTENER);
    if (state->direct && stream && state->direct_count == TAUT__PORT_DIRECT_MAX)
        leave_direct(port);
    if (!state->direct || !stream || (slot->flags & TAUT__PORT_CONNECTING)) {
        int code = taut__port_epoll_register(port, slot);
        if (code)
            return code;
    }
    if (!stream)
        return 0;
    stream_add(state, taut__port_slot_index(port, slot));
    if (state->direct)
        direct_push(state, taut__port_slot_index(port, slot));
    return 0;
}

static void epoll_detach(struct taut_port *port, struct taut__port_slot *slot)
{
    struct taut__port_epoll_state *state = port->kind;
    taut__port_ready_remove(port, slot);
    taut__port_epoll_unregister(port, slot);
    stop_resting(port, slot);
    if (slot->flags & TAUT__PORT_LISTENER)
        return;
    uint32_t index = taut__port_slot_index(port, slot);
    stream_remove(state, index);
    for (uint32_t i = 0; i < state->direct_count; i++) {
        if (state->direct_slots[i] == index) {
            state->direct_slots[i] = state->direct_slots[--state->direct_count];
            break;
        }
    }
    /* Half the bound, so that a connection that comes and goes does not flip the mode. */
    if (port->options.busy_poll && !state->direct && state->streams <= TAUT__PORT_DIRECT_MAX / 2)
        enter_direct(port);
}

/* Edges that came while it was paused were noted and passed over. */
static void epoll_resume(struct taut_port *port, struct taut__port_slot *slot)
{
    slot->flags |= TAUT__PORT_READABLE;
    taut__port_ready_push(port, slot);
}

/* --- start and stop -------------------------------------------------------------------------- */

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void epoll_stop(struct taut_port *port)
{
    struct taut__port_epoll_state *state = port->kind;
    close_if_open(state->reserve_fd);
    close_if_open(state->wake_fd);
    close_if_open(state->epoll_fd);
}

/* The first spin of a process reads files to learn what spinning is worth here. One of no length,
 * so that it is not a poll's. */
static void read_machine(void)
{
    struct taut_spin spin;
    taut_spin_begin(&spin, 0, NULL);
    taut_spin_end(&spin, TAUT_WAIT_CAUGHT, NULL);
}

static int epoll_start(struct taut_port *port, struct taut_err *err)
{
    struct taut__port_epoll_state *state = port->kind;
    state->ready_first = state->ready_last = state->resting_first = TAUT__PORT_NO_SLOT;
    state->accept_again_ns = TAUT_NEVER_NS;
    state->direct = port->options.busy_poll;
    state->stream_slots = (uint32_t *)(void *)(state + 1);
    state->stream_places = state->stream_slots + port->options.connections;
    state->wake_fd = state->reserve_fd = -1;
    read_machine();
    state->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (state->epoll_fd >= 0)
        state->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (state->wake_fd >= 0)
        state->reserve_fd = fcntl(state->wake_fd, F_DUPFD_CLOEXEC, 0);
    struct epoll_event event = {.events = EPOLLET | EPOLLIN, .data.u64 = 0};
    if (state->reserve_fd < 0 ||
        epoll_ctl(state->epoll_fd, EPOLL_CTL_ADD, state->wake_fd, &event) != 0) {
        int code = taut_code_from_errno(errno);
        taut_err_set(err, code, "port: can't make an epoll set: %s", strerrordesc_np(errno));
        epoll_stop(port);
        return code;
    }
    return 0;
}

/* --- wake ------------------------------------------------------------------------------------ */

static void epoll_wake(struct taut_port *port)
{
    struct taut__port_epoll_state *state = port->kind;
    int saved = errno;
    /* acq_rel, pairs with take_wake(): what the caller wrote before is seen by whoever gets WOKEN.
     * Only the call that finds 0 enters the kernel; the others rely on its write. */
    if (atomic_exchange_explicit(&port->woken, 1, memory_order_acq_rel) == 0 &&
        !port->options.busy_poll) {
        uint64_t one = 1;
        /* Never full: the count would need 2^64 wakes. Never read: each write is a new edge. */
        ssize_t written = write(state->wake_fd, &one, sizeof one);
        (void)written;
    }
    errno = saved;
}

static uint32_t take_wake(struct taut_port *port, struct taut_completion *completion)
{
    if (atomic_load_explicit(&port->woken, memory_order_relaxed) == 0)
        return 0;
    atomic_exchange_explicit(&port->woken, 0, memory_order_acq_rel); /* pairs with epoll_wake() */
    memset(completion, 0, sizeof *completion);
    completion->kind = TAUT_PORT_WOKEN;
    completion->fd = -1;
    completion->buffer = UINT32_MAX;
    taut__port_count(port, TAUT__PORT_WAKES, 1);
    return 1;
}

/* --- waiting --------------------------------------------------------------------------------- */

static void note_event(struct taut_port *port, const struct epoll_event *event)
{
    struct taut__port_epoll_state *state = port->kind;
    struct taut_conn conn = {(uint32_t)event->data.u64};
    struct taut__port_slot *slot = taut__port_slot_of(port, conn);
    if (!slot)
        return; /* the wake descriptor */
    uint32_t ends = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if (slot->flags & TAUT__PORT_CONNECTING) {
        if (event->events & (EPOLLOUT | ends)) {
            slot->flags |= TAUT__PORT_WRITE_EDGE;
            taut__port_ready_push(port, slot);
        }
        return;
    }
    if ((event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) &&
        (slot->flags & TAUT__PORT_WANT_WRITE)) {
        slot->flags |= TAUT__PORT_WRITE_EDGE;
        taut__port_ready_push(port, slot);
    }
    if (state->direct && !(slot->flags & TAUT__PORT_LISTENER))
        return; /* read at each turn anyway */
    if (event->events & (EPOLLIN | EPOLLPRI | ends)) {
        slot->flags |= TAUT__PORT_READABLE;
        if (event->events & (EPOLLPRI | ends))
            slot->flags |= TAUT__PORT_READ_OUT;
        if (!(slot->flags & TAUT__PORT_RESTING))
            taut__port_ready_push(port, slot);
    }
}

static void note_events(struct taut_port *port, int count)
{
    struct taut__port_epoll_state *state = port->kind;
    for (int i = 0; i < count; i++)
        note_event(port, &state->events[i]);
}

static void look(struct taut_port *port)
{
    struct taut__port_epoll_state *state = port->kind;
    note_events(port, epoll_wait(state->epoll_fd, state->events, TAUT__PORT_EVENTS, 0));
}

/*
 * Sleeps until an event or, at most, `until_ns`; may come back early without one. The kernel rounds
 * a time-out up by 1/1000 of it (1/200 for a niced thread) and by at least the timer slack, so long
 * ones are cut short by that much: the caller comes again for the rest, and is late by the slack
 * of a short wait only.
 */
static void sleep_until(struct taut_port *port, uint64_t now_ns, uint64_t until_ns)
{
    struct taut__port_epoll_state *state = port->kind;
    taut__port_count(port, TAUT__PORT_SLEEPS, 1);
    if (until_ns == TAUT_NEVER_NS) {
        note_events(port, epoll_wait(state->epoll_fd, state->events, TAUT__PORT_EVENTS, -1));
        return;
    }
    uint64_t wait_ns = until_ns - now_ns;
    if (wait_ns > 10 * TAUT_NS_PER_MS)
        wait_ns -= wait_ns / 200;
    int count = -1;
    if (!state->no_pwait2) {
        struct timespec timeout = {.tv_sec = (time_t)(wait_ns / TAUT_NS_PER_S),
                                   .tv_nsec = (long)(wait_ns % TAUT_NS_PER_S)};
        count = epoll_pwait2(state->epoll_fd, state->events, TAUT__PORT_EVENTS, &timeout, NULL);
        /* ENOSYS before Linux 5.11; EPERM from a sandbox that does not know the call. */
        if (count < 0 && (errno == ENOSYS || errno == EPERM))
            state->no_pwait2 = 1;
    }
    if (state->no_pwait2) {
        uint64_t wait_ms = (wait_ns + TAUT_NS_PER_MS - 1) / TAUT_NS_PER_MS;
        int timeout = wait_ms > INT32_MAX ? INT32_MAX : (int)wait_ms;
        count = epoll_wait(state->epoll_fd, state->events, TAUT__PORT_EVENTS, timeout);
    }
    note_events(port, count);
}

/* Listeners that rest get another chance, all at the time of the first. */
static void resume_accepting(struct taut_port *port, uint64_t now_ns)
{
    struct taut__port_epoll_state *state = port->kind;
    if (now_ns < state->accept_again_ns)
        return;
    state->accept_again_ns = TAUT_NEVER_NS;
    while (state->resting_first != TAUT__PORT_NO_SLOT) {
        struct taut__port_slot *slot = &port->slots[state->resting_first];
        state->resting_first = slot->next;
        slot->flags &= ~(uint32_t)TAUT__PORT_RESTING;
        taut__port_ready_push(port, slot);
    }
}

/* A wait's loop of looks: the port's own budget, and never a yield, which would hand this CPU to
 * whoever is not waited for. */
static void spin_begin(const struct taut_port *port, struct taut_spin *spin, uint64_t until_ns)
{
    struct taut_wait_policy policy = {
        .size = sizeof policy, .strict = 1, .spin_ns = port->options.spin_ns};
    taut_spin_begin(spin, until_ns, &policy);
    spin->look_each = 1; /* a look is a system call, and dearer than the clock */
}

static void spin_end(struct taut_port *port, struct taut_spin *spin, uint32_t found)
{
    taut_spin_end(spin, found ? TAUT_WAIT_CAUGHT : TAUT_WAIT_EXPIRED, NULL);
    if (spin->report.contended)
        taut__port_count(port, TAUT__PORT_CONTENDED, 1);
}

/* 1: something is ready or a wake has come; 0: the budget is used up, it is until_ns, or the CPU
 * was taken away. */
static uint32_t spin_until(struct taut_port *port, uint64_t until_ns)
{
    const struct taut__port_epoll_state *state = port->kind;
    struct taut_spin spin;
    uint32_t found = 0;
    spin_begin(port, &spin, until_ns);
    while (!found && taut_spin_next(&spin)) {
        look(port);
        found = state->ready_count ||
                atomic_load_explicit(&port->woken, memory_order_relaxed); /* taken by take_wake() */
    }
    spin_end(port, &spin, found);
    return found;
}

/* Nothing came until the deadline. Who did not wait is not late, however long ago that was. */
static int poll_expired(struct taut_port *port, uint64_t now_ns, uint64_t deadline_ns,
                        uint32_t slept, uint32_t waited)
{
    if (waited)
        taut__port_count_peak(port, TAUT__PORT_LATE_MAX_NS, now_ns - deadline_ns);
    taut__port_poll_ended(port, 0, slept);
    return 0;
}

static int poll_blocking(struct taut_port *port, struct taut_completion *completions, uint32_t most,
                         uint64_t deadline_ns)
{
    struct taut__port_epoll_state *state = port->kind;
    uint32_t stuck = 0; /* all that is ready waits for buffers: only an event helps */
    uint32_t spun = port->options.spin_ns <= TAUT_WAIT_NONE_NS, slept = 0, waited = 0;
    for (;;) {
        uint32_t given = take_wake(port, completions);
        uint64_t until_ns = deadline_ns;
        if (state->accept_again_ns < until_ns)
            until_ns = state->accept_again_ns;
        uint64_t now_ns = until_ns == TAUT_NEVER_NS || until_ns == 0 ? 0 : taut_now_ns();
        if (given || (state->ready_count && !stuck) || now_ns >= until_ns) {
            look(port);
        } else if (!spun && !stuck) {
            spun = waited = 1;
            if (!spin_until(port, until_ns))
                continue;
            given = take_wake(port, completions);
        } else {
            slept = waited = 1;
            sleep_until(port, now_ns, until_ns);
        }
        if (state->accept_again_ns != TAUT_NEVER_NS)
            resume_accepting(port, taut_now_ns());
        given = taut__port_epoll_serve(port, completions, most, given);
        if (given) {
            taut__port_poll_ended(port, given, slept);
            return (int)given;
        }
        now_ns = deadline_ns == TAUT_NEVER_NS ? 0 : taut_now_ns();
        if (now_ns >= deadline_ns)
            return poll_expired(port, now_ns, deadline_ns, slept, waited);
        stuck = state->ready_count > 0 && state->blocked == state->ready_count;
    }
}

/* Receives on each direct connection in turn, without asking first. */
static uint32_t receive_direct(struct taut_port *port, struct taut_completion *completions,
                               uint32_t most, uint32_t given)
{
    struct taut__port_epoll_state *state = port->kind;
    for (uint32_t visits = state->direct_count; visits && given < most; visits--) {
        if (state->direct_next >= state->direct_count)
            state->direct_next = 0;
        if (state->direct_count == 0)
            break;
        struct taut__port_slot *slot = &port->slots[state->direct_slots[state->direct_next++]];
        if (slot->flags & (TAUT__PORT_CONNECTING | TAUT__PORT_PAUSED))
            continue;
        int progress = taut__port_epoll_receive(port, slot, &completions[given]);
        if (progress < 0)
            break; /* no buffers */
        given += (uint32_t)progress;
    }
    return given;
}

/* One turn of a busy poll. */
static uint32_t busy_turn(struct taut_port *port, struct taut_completion *completions,
                          uint32_t most, uint64_t now_ns)
{
    struct taut__port_epoll_state *state = port->kind;
    uint32_t given = take_wake(port, completions);
    if (state->direct)
        given = receive_direct(port, completions, most, given);
    if (!state->direct || state->direct_count == 0 || now_ns >= state->look_again_ns) {
        state->look_again_ns = now_ns + TAUT__PORT_LOOK_NS;
        look(port);
        resume_accepting(port, now_ns);
    }
    if (state->ready_count)
        given = taut__port_epoll_serve(port, completions, most, given);
    return given;
}

static int poll_busy(struct taut_port *port, struct taut_completion *completions, uint32_t most,
                     uint64_t deadline_ns)
{
    uint64_t now_ns = taut_now_ns();
    uint32_t given = busy_turn(port, completions, most, now_ns), waited = 0;
    /* A spin that ends before its deadline had its CPU taken away. Who asked for a port that never
     * sleeps goes on all the same. */
    while (!given && now_ns < deadline_ns) {
        struct taut_spin spin;
        waited = 1;
        spin_begin(port, &spin, deadline_ns);
        while (!given && taut_spin_next(&spin))
            given = busy_turn(port, completions, most, spin.last_ns);
        spin_end(port, &spin, given);
        now_ns = spin.last_ns;
    }
    if (!given)
        return poll_expired(port, now_ns, deadline_ns, 0, waited);
    taut__port_poll_ended(port, given, 0);
    return (int)given;
}

static int epoll_poll(struct taut_port *port, struct taut_completion *completions, uint32_t most,
                      uint64_t deadline_ns)
{
    return port->options.busy_poll ? poll_busy(port, completions, most, deadline_ns)
                                   : poll_blocking(port, completions, most, deadline_ns);
}

const struct taut__port_operations taut__port_epoll = {
    .name = "epoll",
    .kind_state = sizeof(struct taut__port_epoll_state),
    .kind_connection = 2 * sizeof(uint32_t), /* stream_slots, stream_places */
    .start = epoll_start,
    .stop = epoll_stop,
    .poll = epoll_poll,
    .wake = epoll_wake,
    .attach = epoll_attach,
    .detach = epoll_detach,
    .send = taut__port_epoll_send,
    .resume = epoll_resume,
};
