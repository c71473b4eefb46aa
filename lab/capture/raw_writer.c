/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/raw_writer.c - writes a *.traw file by plain stores into mapped, allocated, pre-faulted
 * chunks.
 *
 * Promises: a slot never moves; raw_writer_next() is an index and a compare except twice a chunk
 * of 262,144 records; a full disk is found when a chunk is allocated, never as a signal at a
 * store; the file is a valid, readable one from the moment that it is created.
 *
 * The address range for the largest file is reserved without memory, and each chunk is mapped into
 * it at its place. A thread of the writer's own keeps one chunk ready ahead of the one in use. All
 * that can raise a signal for lack of space or of the process's file size limit happens in that
 * thread, where all signals are blocked.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>

#include <taut/wait.h>

#include "base/check.h"
#include "capture/raw_format.h"

#define CHUNK_BYTES (UINT64_C(8) << 20)
#define LOW_WATER                                                                                  \
    UINT64_C(16384) /* slots left when the next chunk is asked for: 16 ms at 1 M/s                 \
                     */
#define RESERVE_BYTES (UINT64_C(1) << 38) /* 256 GiB of addresses: 8 G records */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct raw_writer {
    /* The owner's: read and written for each record. */
    struct raw_record *slots;
    uint64_t next;
    uint64_t limit; /* slots that the owner knows to be ready */
    uint64_t stalls;

    _Atomic uint64_t ready; /* slots that are mapped; only the grower adds */
    _Atomic int status;

    uint8_t *base; /* the reserved range; the file's offset 0 */
    uint64_t reserved;
    uint64_t file_bytes; /* allocated and mapped so far; the grower's until it is joined */
    uint64_t first_bytes;
    int fd;
    struct raw_header header;
    char path[512];

    pthread_t thread;
    struct taut_event asked; /* by the owner: `wanted` or `stop` have changed */
    struct taut_event grown; /* by the grower: `ready` or `status` have */
    _Atomic uint64_t wanted; /* slots that shall be ready */
    _Atomic int stop;
    struct taut_cpuset cpus; /* where the grower may run; empty = where the owner may */
    struct taut_err err;     /* the grower's until it is joined */
};

/* Both sides sleep at once: a chunk takes milliseconds, and the next one is asked for long after.
 */
static const struct taut_wait_policy sleep_at_once = {.size = sizeof(sleep_at_once),
                                                      .spin_ns = TAUT_WAIT_NONE_NS};

static void wait_for(struct taut_event *event, uint32_t seen)
{
    /* Refused only in a child of fork(2), where the other side does not exist. */
    TAUT_CHECK(taut_wait(event, seen, TAUT_NEVER_NS, &sleep_at_once, NULL) >= 0);
}

/* --- the grower ------------------------------------------------------------------------------ */

/* Blocks for bytes [from, to) of the file, so that no store into them can fail. 0 or an errno. */
static int allocate(int fd, uint64_t from, uint64_t to)
{
    static const uint8_t zeros[65536];
    int result;
    do
        result = fallocate(fd, 0, (off_t)from, (off_t)(to - from)) == 0 ? 0 : errno;
    while (result == EINTR);
    if (result != EOPNOTSUPP && result != ENOSYS)
        return result;
    while (from < to) { /* no fallocate here: written zeros are allocated too */
        size_t part = to - from < sizeof(zeros) ? (size_t)(to - from) : sizeof(zeros);
        ssize_t n = pwrite(fd, zeros, part, (off_t)from);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n == 0)
            return ENOSPC;
        from += n > 0 ? (uint64_t)n : 0;
    }
    return 0;
}

/* Maps bytes [from, to) at their place and takes the write faults of all their pages now. */
static int map_chunk(struct raw_writer *writer, uint64_t from, uint64_t to)
{
    uint8_t *at = writer->base + from;
    size_t bytes = (size_t)(to - from);
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, writer->fd,
             (off_t)from) == MAP_FAILED)
        return errno;
    /* MAP_POPULATE takes only the read faults of a shared mapping: the first store to a page would
     * still enter the kernel. */
    if (madvise(at, bytes, MADV_POPULATE_WRITE) != 0) {
        if (errno != EINVAL)
            return errno;
        for (size_t i = 0; i < bytes; i += 4096) /* before 5.14: nobody else uses these bytes yet */
            *(volatile uint8_t *)(at + i) = 0;
    }
    return 0;
}

static int code_for(int errno_value)
{
    switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return TAUT_ENOSPC;
    default:
        return taut_code_from_errno(errno_value);
    }
}

/* Slots in a file of that many bytes; room for the trailer is always kept. */
static uint64_t slots_in(uint64_t file_bytes)
{
    return (file_bytes - RAW_HEADER_BYTES - RAW_TRAILER_BYTES) / RAW_RECORD_BYTES;
}

/* One more chunk of the file. */
static int grow(struct raw_writer *writer)
{
    uint64_t from = writer->file_bytes;
    uint64_t to = from == 0 ? writer->first_bytes : from + CHUNK_BYTES;
    int failure = to > writer->reserved ? EFBIG : allocate(writer->fd, from, to);
    if (failure == 0 && from == 0) {
        ssize_t n = pwrite(writer->fd, &writer->header, sizeof(writer->header), 0);
        failure = n == (ssize_t)sizeof(writer->header) ? 0 : n < 0 ? errno : ENOSPC;
    }
    if (failure == 0)
        failure = map_chunk(writer, from, to);
    if (failure) {
        int code =
            taut_err_set(&writer->err, code_for(failure), "%s: no room for %llu more bytes: %s",
                         writer->path, (unsigned long long)(to - from), strerror(failure));
        atomic_store_explicit(&writer->status, code, memory_order_relaxed);
        return code;
    }
    writer->file_bytes = to;
    atomic_store_explicit(&writer->ready, slots_in(to), memory_order_release); /* with refill() */
    return 0;
}

static void *grower(void *argument)
{
    struct raw_writer *writer = argument;
    pthread_setname_np(pthread_self(), "taut-grower");
    /* Only a wish: where it can't be had, the owner's CPUs do. */
    if (taut_cpuset_count(&writer->cpus))
        (void)taut_cpuset_bind_self(&writer->cpus, NULL);
    for (;;) {
        /* Relaxed below: the epoch was acquired, and who writes these publishes afterwards. */
        uint32_t seen = taut_event_epoch(&writer->asked);
        if (atomic_load_explicit(&writer->stop, memory_order_relaxed))
            break;
        if (atomic_load_explicit(&writer->ready, memory_order_relaxed) >=
            atomic_load_explicit(&writer->wanted, memory_order_relaxed)) {
            wait_for(&writer->asked, seen);
            continue;
        }
        int code = grow(writer);
        taut_event_publish(&writer->grown); /* pairs with ask() */
        if (code)
            break;
    }
    return NULL;
}

/* Asks for `wanted` slots; with `wait`, until more than `have` are there or the grower gave up. */
static void ask(struct raw_writer *writer, uint64_t wanted, uint64_t have, int wait)
{
    atomic_store_explicit(&writer->wanted, wanted, memory_order_relaxed);
    taut_event_publish(&writer->asked); /* pairs with grower() */
    while (wait) {
        uint32_t seen = taut_event_epoch(&writer->grown);
        if (atomic_load_explicit(&writer->ready, memory_order_relaxed) > have ||
            atomic_load_explicit(&writer->status, memory_order_relaxed) != 0)
            break;
        wait_for(&writer->grown, seen);
    }
}

/* --- the owner ------------------------------------------------------------------------------- */

static int fill_header(struct raw_writer *writer, const struct raw_writer_options *options,
                       struct taut_err *err)
{
    struct raw_header *header = &writer->header;
    const char *recipe = options->recipe ? options->recipe : "{}";
    size_t recipe_bytes = strlen(recipe);
    if (recipe_bytes > RAW_RECIPE_BYTES_MAX)
        return taut_err_set(err, TAUT_ETOOBIG, "a recipe of %zu bytes is longer than %u",
                            recipe_bytes, RAW_RECIPE_BYTES_MAX);
    memcpy(header->magic, RAW_MAGIC, sizeof(header->magic));
    header->version = RAW_VERSION;
    header->header_bytes = RAW_HEADER_BYTES;
    header->record_bytes = RAW_RECORD_BYTES;
    header->trailer_bytes = RAW_TRAILER_BYTES;
    header->flags = options->closed_loop ? RAW_FLAG_CLOSED_LOOP : 0;
    header->run = options->run;
    header->process = options->process;
    header->epoch_ns = options->epoch_ns;
    header->epoch_utc_ns = options->epoch_utc_ns;
    header->clock_drift_ppb = RAW_DRIFT_NOT_CHECKED;
    if (options->clock) {
        header->clock_source = options->clock->source;
        header->clock_hz = options->clock->frequency_hz;
        header->clock_uncertainty_ns = options->clock->uncertainty_ns;
    }
    header->recipe_bytes = (uint32_t)recipe_bytes;
    memcpy(header->recipe, recipe, recipe_bytes);
    header->hash = XXH3_64bits(header, offsetof(struct raw_header, hash));
    return 0;
}

/* Addresses for the whole file: as many as the process may have, down to the first chunk. */
static int reserve(struct raw_writer *writer, struct taut_err *err)
{
    uint64_t bytes = RESERVE_BYTES;
    for (; bytes >= writer->first_bytes; bytes /= 2) {
        void *base = mmap(NULL, (size_t)bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            continue;
        writer->base = base;
        writer->reserved = bytes;
        writer->slots = (struct raw_record *)(void *)(writer->base + RAW_HEADER_BYTES);
        return 0;
    }
    return taut_err_set(err, TAUT_ENOMEM, "no %llu bytes of addresses for %s",
                        (unsigned long long)writer->first_bytes, writer->path);
}

static int start_grower(struct raw_writer *writer, struct taut_err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    taut_event_init(&writer->asked);
    taut_event_init(&writer->grown);
    atomic_init(&writer->wanted, 1);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&writer->thread, NULL, grower, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure)
        return taut_err_set(err, taut_code_from_errno(failure), "no thread for %s: %s",
                            writer->path, strerror(failure));
    return 0;
}

static void stop_grower(struct raw_writer *writer)
{
    atomic_store_explicit(&writer->stop, 1, memory_order_relaxed);
    taut_event_publish(&writer->asked); /* pairs with grower() */
    pthread_join(writer->thread, NULL);
    TAUT_CHECK(taut_event_destroy(&writer->asked) == 0);
    TAUT_CHECK(taut_event_destroy(&writer->grown) == 0);
}

/* Opens, reserves and waits for the first chunk. What it leaves behind on failure, the caller
 * frees: fd, base. */
static int open_first(struct raw_writer *writer, struct taut_err *err)
{
    writer->fd = open(writer->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (writer->fd < 0) {
        int failure = errno;
        int code = failure == EEXIST ? TAUT_EBUSY : code_for(failure);
        return taut_err_set(err, code, "can't create %s: %s", writer->path, strerror(failure));
    }
    int code = reserve(writer, err);
    if (code == 0)
        code = start_grower(writer, err);
    if (code == 0) {
        ask(writer, 1, 0, 1);
        code = raw_writer_status(writer);
        if (code != 0) {
            stop_grower(writer);
            if (err)
                *err = writer->err;
        }
    }
    if (code != 0)
        unlink(writer->path);
    return code;
}

/* Slots that the owner may use before it must look again: all but the last LOW_WATER ones. */
static uint64_t limit_of(uint64_t ready, uint64_t next)
{
    return ready - next > LOW_WATER ? ready - LOW_WATER : ready;
}

int raw_writer_create(struct raw_writer **writer, const struct raw_writer_options *options,
                      struct taut_err *err)
{
    *writer = NULL;
    size_t path_bytes = options->path ? strlen(options->path) : 0;
    if (path_bytes == 0 || path_bytes >= sizeof((*writer)->path))
        return taut_err_set(err, TAUT_EINVAL, "a path of %zu bytes: 1 to %zu are allowed",
                            path_bytes, sizeof((*writer)->path) - 1);
    if (options->expected_records > (RESERVE_BYTES / 2) / RAW_RECORD_BYTES)
        return taut_err_set(err, TAUT_ETOOBIG, "%llu records are too many for one file",
                            (unsigned long long)options->expected_records);
    struct raw_writer *w = aligned_alloc(TAUT_LINE_BYTES, sizeof(*w)); /* a multiple of it */
    if (!w)
        return taut_err_set(err, TAUT_ENOMEM, "no memory for a raw writer");
    memset(w, 0, sizeof(*w));
    memcpy(w->path, options->path, path_bytes + 1);
    w->fd = -1;
    if (options->grower_cpus)
        w->cpus = *options->grower_cpus;
    /* One chunk, or all that is expected without a look at the next one. */
    uint64_t bytes = RAW_HEADER_BYTES + RAW_TRAILER_BYTES +
                     (options->expected_records + LOW_WATER) * RAW_RECORD_BYTES;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    w->first_bytes = bytes > CHUNK_BYTES ? (bytes + page - 1) / page * page : CHUNK_BYTES;
    int code = fill_header(w, options, err);
    if (code == 0)
        code = open_first(w, err);
    if (code != 0) {
        if (w->base)
            munmap(w->base, (size_t)w->reserved);
        if (w->fd >= 0)
            close(w->fd);
        free(w);
        return code;
    }
    w->limit = limit_of(atomic_load_explicit(&w->ready, memory_order_acquire), 0);
    *writer = w;
    return 0;
}

/* The known slots are used up: take over what the grower made; near the end ask for a chunk more.
 */
static struct raw_record *refill(struct raw_writer *writer)
{
    uint64_t ready = atomic_load_explicit(&writer->ready, memory_order_acquire); /* with grow() */
    if (ready == writer->next && raw_writer_status(writer) == 0) {
        writer->stalls++;
        ask(writer, ready + 1, ready, 1);
        ready = atomic_load_explicit(&writer->ready, memory_order_acquire);
    }
    if (ready == writer->next)
        return NULL;
    writer->limit = limit_of(ready, writer->next);
    if (writer->limit == ready)
        ask(writer, ready + 1, 0, 0);
    return &writer->slots[writer->next++];
}

struct raw_record *raw_writer_next(struct raw_writer *writer)
{
    if (__builtin_expect(writer->next < writer->limit, 1))
        return &writer->slots[writer->next++];
    return refill(writer);
}

int raw_writer_reserve(struct raw_writer *writer, uint64_t records)
{
    /* The next chunk is asked for LOW_WATER slots before the end: that many more, and none is. */
    uint64_t wanted = writer->next + records + LOW_WATER;
    uint64_t ready;
    while ((ready = raw_writer_ready(writer)) < wanted && raw_writer_status(writer) == 0)
        ask(writer, wanted, ready, 1);
    writer->limit = limit_of(raw_writer_ready(writer), writer->next);
    return raw_writer_status(writer);
}

uint64_t raw_writer_ready(const struct raw_writer *writer)
{
    return atomic_load_explicit(&writer->ready, memory_order_acquire); /* with grow() */
}

uint64_t raw_writer_count(const struct raw_writer *writer)
{
    return writer->next;
}

struct raw_record *raw_writer_at(struct raw_writer *writer, uint64_t index)
{
    return index < writer->next ? &writer->slots[index] : NULL;
}

int raw_writer_status(const struct raw_writer *writer)
{
    return atomic_load_explicit(&writer->status, memory_order_relaxed);
}

uint64_t raw_writer_stalls(const struct raw_writer *writer)
{
    return writer->stalls;
}

/* --- closing --------------------------------------------------------------------------------- */

static int write_at(const struct raw_writer *writer, const void *bytes, size_t size,
                    uint64_t offset, struct taut_err *err)
{
    const uint8_t *from = bytes;
    while (size) {
        ssize_t n = pwrite(writer->fd, from, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int failure = n < 0 ? errno : ENOSPC;
            return taut_err_set(err, code_for(failure), "can't finish %s: %s", writer->path,
                                strerror(failure));
        }
        from += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

/* Length first, then the header, the trailer last: a death in between leaves an unclosed file with
 * all its records. The trailer's block is already allocated. */
static int finish_file(struct raw_writer *writer, int64_t drift_ppb, struct taut_err *err)
{
    struct raw_header *header = &writer->header;
    struct raw_trailer trailer = {.records = writer->next};
    uint64_t records_bytes = writer->next * RAW_RECORD_BYTES;
    memcpy(trailer.magic, RAW_TRAILER_MAGIC, sizeof(trailer.magic));
    trailer.records_hash = XXH3_64bits(writer->slots, (size_t)records_bytes);
    header->flags |= RAW_FLAG_CLOSED;
    header->clock_drift_ppb = drift_ppb;
    header->hash = XXH3_64bits(header, offsetof(struct raw_header, hash));
    trailer.header_hash = XXH3_64bits(header, sizeof(*header));

    uint64_t trailer_at = RAW_HEADER_BYTES + records_bytes;
    if (ftruncate(writer->fd, (off_t)(trailer_at + RAW_TRAILER_BYTES)) != 0)
        return taut_err_set(err, code_for(errno), "can't cut %s to its length: %s", writer->path,
                            strerror(errno));
    int code = write_at(writer, header, sizeof(*header), 0, err);
    if (code == 0)
        code = write_at(writer, &trailer, sizeof(trailer), trailer_at, err);
    if (code == 0 && fsync(writer->fd) != 0)
        code =
            taut_err_set(err, code_for(errno), "can't sync %s: %s", writer->path, strerror(errno));
    return code;
}

int raw_writer_close(struct raw_writer *writer, int64_t clock_drift_ppb, struct taut_err *err)
{
    if (!writer)
        return 0;
    stop_grower(writer);
    TAUT_CHECK(writer->next <= slots_in(writer->file_bytes));
    int code = finish_file(writer, clock_drift_ppb, err);
    munmap(writer->base, (size_t)writer->reserved);
    if (close(writer->fd) != 0 && code == 0)
        code =
            taut_err_set(err, code_for(errno), "can't close %s: %s", writer->path, strerror(errno));
    free(writer);
    return code;
}
