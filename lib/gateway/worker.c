/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/worker.c - the loop of one worker thread.
 *
 * Poll, look at the clock once, handle what came, fire what is due, give a turn to connections that
 * have work left, poll again. Nothing in it allocates: connections, their regions, the heap and the
 * inbox are made by taut__worker_create(), and the port on the worker's own CPU before it serves.
 *
 * Deadlines: one binary heap of connections. A key may be earlier than what is due but never later,
 * so that the usual case, a deadline that moves away with each message, costs one comparison; ten
 * thousand idle sessions cost one wake each per heartbeat interval.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gateway/internal.h"

/* --- deadlines ------------------------------------------------------------------------------- */

static void place(struct taut__worker *w, uint32_t i, struct taut__connection *c)
{
    w->heap[i] = c;
    c->heap_index = i;
}

static void sift_up(struct taut__worker *w, struct taut__connection *c)
{
    uint32_t i = c->heap_index;
    for (; i > 1 && w->heap[i / 2]->wake_ns > c->wake_ns; i /= 2)
        place(w, i, w->heap[i / 2]);
    place(w, i, c);
}

static void sift_down(struct taut__worker *w, struct taut__connection *c)
{
    uint32_t i = c->heap_index;
    for (;;) {
        uint32_t child = 2 * i;
        if (child > w->heap_count)
            break;
        if (child < w->heap_count && w->heap[child + 1]->wake_ns < w->heap[child]->wake_ns)
            child++;
        if (w->heap[child]->wake_ns >= c->wake_ns)
            break;
        place(w, i, w->heap[child]);
        i = child;
    }
    place(w, i, c);
}

void taut__timer_arm(struct taut__worker *w, struct taut__connection *c, uint64_t deadline_ns)
{
    if (c->heap_index) {
        if (deadline_ns >= c->wake_ns)
            return; /* wakes too early, looks, and is armed anew */
        c->wake_ns = deadline_ns;
        sift_up(w, c);
    } else if (deadline_ns != TAUT_NEVER_NS) {
        TAUT_CHECK(w->heap_count < w->capacity);
        c->wake_ns = deadline_ns;
        place(w, ++w->heap_count, c);
        sift_up(w, c);
    }
}

void taut__timer_remove(struct taut__worker *w, struct taut__connection *c)
{
    uint32_t i = c->heap_index;
    if (!i)
        return;
    struct taut__connection *last = w->heap[w->heap_count--];
    c->heap_index = 0;
    if (last == c)
        return;
    place(w, i, last);
    sift_up(w, last);
    sift_down(w, last);
}

static void fire_timers(struct taut__worker *w)
{
    /* each at most once a turn: one that is due again at once must not keep the others waiting */
    for (uint32_t most = w->heap_count; most && w->heap_count; most--) {
        struct taut__connection *c = w->heap[1];
        if (c->wake_ns > w->moment.now_ns)
            break;
        taut__timer_remove(w, c);
        taut__connection_timer(w, c);
        taut__settle(w, c);
    }
}

/* --- connections that have work without input ------------------------------------------------ */

void taut__work_add(struct taut__worker *w, struct taut__connection *c)
{
    if (c->listed)
        return;
    c->listed = 1;
    if (!w->work) {
        w->work = c->list_next = c->list_previous = c;
        return;
    }
    c->list_next = w->work;
    c->list_previous = w->work->list_previous;
    c->list_previous->list_next = c;
    w->work->list_previous = c;
}

void taut__work_remove(struct taut__worker *w, struct taut__connection *c)
{
    if (!c->listed)
        return;
    c->listed = 0;
    c->list_next->list_previous = c->list_previous;
    c->list_previous->list_next = c->list_next;
    if (w->work == c)
        w->work = c->list_next == c ? NULL : c->list_next;
}

/* One connection a turn of the loop: between two of them others' input is handled. */
static void give_turn(struct taut__worker *w)
{
    struct taut__connection *c = w->work;
    if (!c)
        return;
    w->work = c->list_next;
    taut__connection_work(w, c);
    taut__settle(w, c);
}

/* --- completions ----------------------------------------------------------------------------- */

static struct taut__connection *take_slot(struct taut__worker *w)
{
    struct taut__connection *c = w->free_list;
    if (c)
        w->free_list = c->free_next;
    return c;
}

static void accepted(struct taut__worker *w, struct taut_conn conn)
{
    struct taut_gateway *g = w->gateway;
    struct taut__connection *c = w->stopping ? NULL : take_slot(w);
    if (!c) {
        taut__count(&w->counters.refused, 1);
        taut_port_close(w->port, conn, 1);
        return;
    }
    uint32_t total = atomic_fetch_add_explicit(&g->total, 1, memory_order_relaxed) + 1;
    taut__peak(&g->total_peak, total);
    atomic_fetch_add_explicit(&w->assigned, 1, memory_order_relaxed);
    taut_port_set_user(w->port, conn, c->index);
    taut__connection_open(w, c, conn);
    taut__settle(w, c);
}

/* Takes up what the acceptor handed over. */
static void adopt(struct taut__worker *w)
{
    struct taut_gateway *g = w->gateway;
    while (atomic_load_explicit(&w->inbox_filled, memory_order_relaxed)) {
        struct taut_conn conn;
        struct taut_err err = {0};
        pthread_mutex_lock(&w->inbox_lock);
        TAUT_CHECK(w->inbox_count > 0);
        int fd = w->inbox[--w->inbox_count];
        atomic_store_explicit(&w->inbox_filled, w->inbox_count, memory_order_relaxed);
        pthread_mutex_unlock(&w->inbox_lock);

        struct taut__connection *c = w->stopping ? NULL : take_slot(w);
        TAUT_CHECK(c || w->stopping); /* `assigned` keeps a place for each */
        if (!c || taut_port_adopt(w->port, fd, c->index, &conn, &err) != 0) {
            if (c) {
                c->free_next = w->free_list;
                w->free_list = c;
                taut_log_limited(g->options.log, &w->limits[TAUT__LOG_TRANSPORT], TAUT_LOG_WARNING,
                                 "can't take up a connection: %s", err.text);
            }
            close(fd);
            taut__count(&w->counters.refused, 1);
            atomic_fetch_sub_explicit(&g->total, 1, memory_order_relaxed);
            atomic_fetch_sub_explicit(&w->assigned, 1, memory_order_release);
            continue;
        }
        taut__connection_open(w, c, conn);
        taut__settle(w, c);
    }
}

void taut__worker_hand_over(struct taut__worker *w, int fd)
{
    pthread_mutex_lock(&w->inbox_lock);
    TAUT_CHECK(w->inbox_count < w->capacity);
    w->inbox[w->inbox_count++] = fd;
    atomic_store_explicit(&w->inbox_filled, w->inbox_count, memory_order_relaxed);
    pthread_mutex_unlock(&w->inbox_lock);
    taut_port_wake(w->port);
}

/* NULL for a completion of a connection that this batch closed already. */
static struct taut__connection *connection_of(struct taut__worker *w,
                                              const struct taut_completion *completion)
{
    TAUT_CHECK(completion->user < w->capacity);
    struct taut__connection *c = &w->connections[completion->user];
    return c->state != TAUT__FREE && c->conn.id == completion->conn.id ? c : NULL;
}

static void complete(struct taut__worker *w, const struct taut_completion *completion)
{
    struct taut__connection *c;
    switch (completion->kind) {
    case TAUT_PORT_RECEIVED:
        c = connection_of(w, completion);
        if (c)
            taut__connection_input(w, c, completion->data, completion->length);
        taut_port_release(w->port, completion->buffer);
        if (c)
            taut__settle(w, c);
        break;
    case TAUT_PORT_WRITABLE:
        c = connection_of(w, completion);
        if (c) {
            taut__connection_writable(w, c);
            taut__settle(w, c);
        }
        break;
    case TAUT_PORT_CLOSED:
        if (completion->conn.id == w->listener.id)
            break;
        c = connection_of(w, completion);
        if (c)
            taut__connection_closed(w, c, completion->code);
        break;
    case TAUT_PORT_ACCEPTED:
        accepted(w, completion->conn);
        break;
    default: /* WOKEN: the inbox and the stop word are looked at in each turn */
        break;
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

static void look_at_clock(struct taut__worker *w)
{
    uint64_t now_ns = taut_now_ns();
    if (now_ns >= w->utc_refresh_ns) { /* follows steps of the calendar clock */
        w->utc_offset_ns = taut_utc_now_ns() - now_ns;
        w->utc_refresh_ns = now_ns + TAUT__UTC_REFRESH_NS;
    }
    w->moment.now_ns = now_ns;
    w->moment.utc_ns = now_ns + w->utc_offset_ns;
}

static void refresh_cpu(struct taut__worker *w)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    taut__set(&w->counters.cpu_ns, (uint64_t)used.tv_sec * TAUT_NS_PER_S + (uint64_t)used.tv_nsec);
    w->cpu_refresh_ns = taut_deadline_ns(w->moment.now_ns, TAUT__CPU_REFRESH_NS);
    w->dirty = 0;
}

static void begin_stop(struct taut__worker *w)
{
    w->stopping = 1;
    if (w->listener.id)
        taut_port_close(w->port, w->listener, 0);
    for (uint32_t i = 0; i < w->capacity; i++) {
        struct taut__connection *c = &w->connections[i];
        if (c->state == TAUT__FREE)
            continue;
        taut__connection_stop(w, c);
        taut__settle(w, c);
    }
}

static void cut_rest(struct taut__worker *w)
{
    for (uint32_t i = 0; i < w->capacity; i++)
        if (w->connections[i].state != TAUT__FREE)
            taut__connection_cut(w, &w->connections[i]);
}

static uint64_t next_deadline_ns(const struct taut__worker *w, uint64_t stop_ns)
{
    uint64_t next = w->heap_count ? w->heap[1]->wake_ns : TAUT_NEVER_NS;
    if (w->work)
        return 0;
    if ((w->dirty || w->gateway->options.busy_poll) && w->cpu_refresh_ns < next)
        next = w->cpu_refresh_ns;
    if (stop_ns && stop_ns < next)
        next = stop_ns;
    return next;
}

/* When a stop that was asked for ends; 0 = none was. */
static uint64_t stop_deadline(const struct taut_gateway *g)
{
    /* pairs with taut_gateway_stop() and taut_gateway_cut(), which wake the port after it */
    uint64_t stop_ns = atomic_load_explicit(&g->stop_deadline_ns, memory_order_acquire);
    return stop_ns && atomic_load_explicit(&g->cut_now, memory_order_acquire) ? 1 : stop_ns;
}

static void serve(struct taut__worker *w)
{
    struct taut_gateway *g = w->gateway;
    for (;;) {
        uint64_t stop_ns = stop_deadline(g);
        int n =
            taut_port_poll(w->port, w->completions, TAUT__POLL_MOST, next_deadline_ns(w, stop_ns));
        look_at_clock(w);
        for (int i = 0; i < n; i++)
            complete(w, &w->completions[i]);
        w->dirty |= n > 0;
        if (atomic_load_explicit(&w->inbox_filled, memory_order_relaxed))
            adopt(w);
        give_turn(w);
        fire_timers(w);
        if (w->moment.now_ns >= w->cpu_refresh_ns)
            refresh_cpu(w);
        stop_ns = stop_deadline(g);
        if (stop_ns && !w->stopping)
            begin_stop(w);
        if (w->stopping && w->moment.now_ns >= stop_ns)
            cut_rest(w);
        if (w->stopping && w->active == 0)
            return;
    }
}

/* --- start and end --------------------------------------------------------------------------- */

static void bind_cpu(struct taut__worker *w)
{
    const struct taut_cpuset *cpus = w->gateway->options.cpus;
    struct taut_err err = {0};
    uint32_t count = cpus ? taut_cpuset_count(cpus) : 0;
    if (!count)
        return;
    uint32_t cpu = taut_cpuset_nth(cpus, w->index % count);
    if (taut_cpu_bind_self(cpu, &err) == 0)
        atomic_store_explicit(&w->counters.cpu_bound, (int32_t)cpu, memory_order_relaxed);
    else /* said and visible in the statistics, but no reason not to serve */
        taut_log(w->gateway->options.log, TAUT_LOG_WARNING, "worker %u is not bound to CPU %u: %s",
                 w->index, cpu, err.text);
}

static int make_ready(struct taut__worker *w, struct taut_err *err)
{
    struct taut_gateway *g = w->gateway;
    int single = g->options.shape == TAUT_SHAPE_SINGLE;
    struct taut_port_options options = {.size = sizeof(options),
                                        .kind = g->options.port_kind,
                                        .connections = w->capacity + (single ? 1 : 0),
                                        .buffers = TAUT__BUFFERS,
                                        .buffer_bytes = TAUT__BUFFER_BYTES,
                                        .busy_poll = g->options.busy_poll,
                                        .spin_ns = g->options.spin_ns};
    const struct taut_handler *handler = g->options.handler;
    int code;
    atomic_store_explicit(&w->counters.tid, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);
    bind_cpu(w);
    memset(w->outbox.data, 0, w->outbox.capacity); /* its pages come from this CPU's node */
    code = taut_port_create(&w->port, &options, err);
    if (code)
        return code;
    taut__port_show(&w->counters, w->port);
    if (handler->on_worker) {
        code = handler->on_worker(handler->context, w->index, g->options.workers);
        if (code)
            return taut_err_set(err, code, "handler %s: %s", handler->name ? handler->name : "",
                                taut_code_text(code));
    }
    if (single) {
        code = taut_port_listen(w->port, g->options.host, g->options.port_number, 0, &w->listener,
                                err);
        if (code)
            return code;
        atomic_store_explicit(&g->port_number, taut_port_local(w->port, w->listener),
                              memory_order_relaxed);
    }
    look_at_clock(w);
    refresh_cpu(w);
    return 0;
}

void *taut__worker_main(void *argument)
{
    struct taut__worker *w = argument;
    struct taut_err err = {0};
    int code = make_ready(w, &err);
    taut__report_ready(w->gateway, code, &err);
    if (code == 0)
        serve(w);
    refresh_cpu(w);
    return NULL;
}

int taut__worker_create(struct taut__worker *w, struct taut_gateway *g, uint32_t index,
                        uint32_t capacity, struct taut_err *err)
{
    w->gateway = g;
    w->index = index;
    w->capacity = capacity;
    w->unique = index;
    w->call.worker = w;
    w->scan = taut_scan_select(g->options.scan_variant);
    atomic_init(&w->counters.cpu_bound, -1);
    pthread_mutex_init(&w->inbox_lock, NULL);
    w->outbox.capacity = g->outbox_mark + g->outbox_room;
    w->outbox.data = aligned_alloc(4096, ((size_t)w->outbox.capacity + 4095 + TAUT_SCAN_PADDING) &
                                             ~(size_t)4095);
    w->connections = aligned_alloc(TAUT_LINE_BYTES, capacity * sizeof(*w->connections));
    w->heap = calloc(capacity + 1, sizeof(struct taut__connection *));
    w->inbox = calloc(capacity, sizeof(*w->inbox));
    w->regions = mmap(NULL, capacity * g->region_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w->regions == MAP_FAILED)
        w->regions = NULL;
    if (g->options.any_target) {
        w->session_memory = mmap(NULL, capacity * g->session_stride, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (w->session_memory == MAP_FAILED)
            w->session_memory = NULL;
    }
    if (!w->scan)
        return taut_err_set(err, TAUT_ENOTSUP, "this CPU or build has no scanner '%s'",
                            taut_scan_name(g->options.scan_variant));
    if (!w->outbox.data || !w->connections || !w->heap || !w->inbox || !w->regions ||
        (g->options.any_target && !w->session_memory))
        return taut_err_set(err, TAUT_ENOMEM, "no address space for %u connections of %zu bytes",
                            capacity, g->region_bytes);
    memset(w->connections, 0, capacity * sizeof(*w->connections));
    for (uint32_t i = capacity; i-- > 0;) {
        struct taut__connection *c = &w->connections[i];
        c->index = i;
        c->held = w->regions + i * g->region_bytes;
        c->queue = c->held + g->held_region + TAUT_SCAN_PADDING;
        if (w->session_memory)
            c->spare.memory = w->session_memory + i * g->session_stride;
        c->free_next = w->free_list;
        w->free_list = c;
    }
    return 0;
}

void taut__worker_free(struct taut__worker *w)
{
    struct taut_gateway *g = w->gateway;
    if (!g)
        return; /* never made */
    if (w->port)
        taut_port_destroy(w->port);
    while (w->inbox_count)
        close(w->inbox[--w->inbox_count]);
    if (w->regions)
        munmap(w->regions, w->capacity * g->region_bytes);
    if (w->session_memory)
        munmap(w->session_memory, w->capacity * g->session_stride);
    free(w->outbox.data);
    free(w->connections);
    free(w->heap);
    free(w->inbox);
    pthread_mutex_destroy(&w->inbox_lock);
}
