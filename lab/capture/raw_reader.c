/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/raw_reader.c - reads a *.traw file, whole, unfinished or damaged.
 *
 * Promises: no byte of a file is trusted before it is checked, and what can be read of a damaged
 * one is read. The numbered cases are those of docs/traw.md.
 *
 * A page of a mapping that somebody cuts from the file raises SIGBUS. A writer that closes its file
 * cuts the zeros behind its last record, so the end is looked at with pread(2), and only records go
 * through the mapping: a writer never cuts those.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "capture/raw_format.h"

struct raw_reader {
    uint8_t *map;
    uint64_t size;
    struct raw_info info;
    int fd;
    int has_trailer;
    struct raw_trailer trailer;
    int checked;
    struct taut_err damage; /* code 0: none found so far */
    char path[256];
    char recipe[RAW_RECIPE_BYTES_MAX + 1];
};

#define NAMES(array) (sizeof(array) / sizeof((array)[0]))

const char *raw_status_name(uint32_t status)
{
    static const char *const names[] = {"empty", "answered", "late",  "lost",
                                        "error", "shed",     "unsent"};
    return status < NAMES(names) ? names[status] : "?";
}

const char *raw_phase_name(uint32_t phase)
{
    static const char *const names[] = {"?", "warmup", "measure", "drain"};
    return phase < NAMES(names) ? names[phase] : "?";
}

static const struct raw_header *header_of(const struct raw_reader *reader)
{
    return (const struct raw_header *)(const void *)reader->map;
}

static const struct raw_record *records_of(const struct raw_reader *reader)
{
    return (const struct raw_record *)(const void *)(reader->map + RAW_HEADER_BYTES);
}

static int is_trailer(const void *bytes)
{
    return memcmp(bytes, RAW_TRAILER_MAGIC, 8) == 0;
}

/* --- opening --------------------------------------------------------------------------------- */

static int map_file(struct raw_reader *reader, const char *path, struct taut_err *err)
{
    struct stat status;
    /* Not blocking: a FIFO without a writer must not hang us. */
    int fd = reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        int code = errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG
                       ? TAUT_ENOENT
                       : taut_code_from_errno(errno);
        return taut_err_set(err, code, "can't open %s: %s", path, strerror(errno));
    }
    int code = 0;
    if (fstat(fd, &status) != 0) {
        code = taut_err_set(err, taut_code_from_errno(errno), "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        code = taut_err_set(err, TAUT_EFORMAT, "%s is %s, no raw file", path,
                            S_ISDIR(status.st_mode)    ? "a directory"
                            : S_ISFIFO(status.st_mode) ? "a pipe"
                                                       : "no regular file");
    } else if (status.st_size == 0) {
        code = taut_err_set(err, TAUT_EFORMAT, "%s is empty, no raw file", path);
    } else {
        reader->size = (uint64_t)status.st_size;
        void *map = mmap(NULL, (size_t)reader->size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            code = taut_err_set(err, taut_code_from_errno(errno), "can't map %s: %s", path,
                                strerror(errno));
        else
            reader->map = map;
    }
    return code;
}

/* Cases 1 to 3: what can't be read at all. */
static int check_identity(const struct raw_reader *reader, const char *path, struct taut_err *err)
{
    uint32_t version;
    if (reader->size < 8 || memcmp(reader->map, RAW_MAGIC, 8) != 0)
        return taut_err_set(err, TAUT_EFORMAT, "%s is no raw file", path);
    if (reader->size >= 12) {
        memcpy(&version, reader->map + 8, sizeof(version));
        if (version != RAW_VERSION)
            return taut_err_set(err, TAUT_EVERSION,
                                "%s has version %u of the raw format; this program reads %u", path,
                                version, RAW_VERSION);
    }
    if (reader->size < RAW_HEADER_BYTES)
        return taut_err_set(err, TAUT_ETRUNCATED, "%s is cut within its header (%llu bytes of %u)",
                            path, (unsigned long long)reader->size, RAW_HEADER_BYTES);
    return 0;
}

/* The first damage is the one that is told. */
static void set_damage(struct raw_reader *reader, int code, const char *text)
{
    if (reader->damage.code == 0)
        taut_err_set(&reader->damage, code, "%s: %s", reader->path, text);
}

static void read_header(struct raw_reader *reader)
{
    const struct raw_header *header = header_of(reader);
    struct raw_info *info = &reader->info;
    uint32_t recipe_bytes = header->recipe_bytes;
    if (XXH3_64bits(header, offsetof(struct raw_header, hash)) != header->hash) /* case 4 */
        set_damage(reader, TAUT_ECORRUPT, "the header's hash does not match");
    if (recipe_bytes > RAW_RECIPE_BYTES_MAX)
        recipe_bytes = RAW_RECIPE_BYTES_MAX;
    memcpy(reader->recipe, header->recipe, recipe_bytes);
    info->version = header->version;
    info->closed_loop = header->flags & RAW_FLAG_CLOSED_LOOP ? 1 : 0;
    info->run = header->run;
    info->process = header->process;
    info->epoch_ns = header->epoch_ns;
    info->epoch_utc_ns = header->epoch_utc_ns;
    info->clock_source = header->clock_source;
    info->clock_hz_before = header->clock_hz;
    info->clock_drift_ppb = header->clock_drift_ppb;
    info->file_bytes = reader->size;
    info->recipe = reader->recipe;
}

/* Case 6: the first slot that is a trailer with its own index as count, or `slots`. */
static uint64_t find_trailer(const struct raw_reader *reader, uint64_t slots)
{
    const struct raw_record *records = records_of(reader);
    for (uint64_t i = 0; i < slots; i++) {
        const struct raw_trailer *trailer = (const struct raw_trailer *)(const void *)&records[i];
        if (is_trailer(trailer) && trailer->records == i)
            return i;
    }
    return slots;
}

/* `size` bytes at `offset` by pread(2); what is not there any more reads as zeros. */
static void read_at(const struct raw_reader *reader, void *to, size_t size, uint64_t offset)
{
    size_t done = 0;
    memset(to, 0, size);
    while (done < size) {
        ssize_t n = pread(reader->fd, (uint8_t *)to + done, size - done, (off_t)(offset + done));
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}

/* Cases 6 and 7: slots up to the last one that is not all zero. */
static uint64_t used_slots(const struct raw_reader *reader, uint64_t slots)
{
    static const struct raw_record zero;
    struct raw_record block[512];
    while (slots > 0) {
        uint64_t count = slots < NAMES(block) ? slots : NAMES(block);
        read_at(reader, block, (size_t)count * sizeof(*block),
                RAW_HEADER_BYTES + (slots - count) * RAW_RECORD_BYTES);
        for (; count > 0; count--, slots--)
            if (memcmp(&block[count - 1], &zero, sizeof(zero)) != 0)
                return slots;
    }
    return 0;
}

/* Cases 5 to 7: how many records there are. */
static void find_records(struct raw_reader *reader)
{
    uint64_t behind_header = reader->size - RAW_HEADER_BYTES;
    uint64_t slots = behind_header / RAW_RECORD_BYTES;
    struct raw_info *info = &reader->info;
    if (slots > 0)
        read_at(reader, &reader->trailer, RAW_TRAILER_BYTES, reader->size - RAW_TRAILER_BYTES);
    if (is_trailer(&reader->trailer)) {
        info->records = slots - 1;
        if (behind_header % RAW_RECORD_BYTES != 0) {
            set_damage(reader, TAUT_ECORRUPT, "its length is not one of whole records");
            return;
        }
        reader->has_trailer = 1;
        if (reader->trailer.records != info->records)
            set_damage(reader, TAUT_ECORRUPT, "its trailer counts other records than there are");
        else if (reader->trailer.header_hash != XXH3_64bits(reader->map, RAW_HEADER_BYTES))
            set_damage(reader, TAUT_ECORRUPT, "header and trailer do not belong together");
        info->complete = reader->damage.code == 0;
    } else if (header_of(reader)->flags & RAW_FLAG_CLOSED) {
        info->records = find_trailer(reader, slots);
        if (info->records < slots) {
            set_damage(reader, TAUT_ECORRUPT, "there are bytes behind its trailer");
        } else {
            info->records = used_slots(reader, slots);
            set_damage(reader, TAUT_ETRUNCATED, "cut short: its trailer is missing");
        }
    } else {
        info->records = used_slots(reader, slots);
        set_damage(reader, TAUT_ETRUNCATED,
                   "was never closed: its writer died or is still writing");
    }
}

int raw_reader_open(struct raw_reader **reader, const char *path, struct taut_err *err)
{
    *reader = NULL;
    struct raw_reader *r = calloc(1, sizeof(*r));
    if (!r)
        return taut_err_set(err, TAUT_ENOMEM, "no memory for a raw reader");
    r->fd = -1;
    snprintf(r->path, sizeof(r->path), "%s", path);
    int code = map_file(r, path, err);
    if (code == 0)
        code = check_identity(r, path, err);
    if (code != 0) {
        raw_reader_close(r);
        return code;
    }
    /* Only a hint: read ahead, and let go of pages behind in a file larger than memory. */
    madvise(r->map, (size_t)r->size, MADV_SEQUENTIAL);
    read_header(r);
    find_records(r);
    *reader = r;
    return 0;
}

/* --- reading --------------------------------------------------------------------------------- */

const struct raw_info *raw_reader_info(const struct raw_reader *reader)
{
    return &reader->info;
}

int raw_reader_damage(struct raw_reader *reader, struct taut_err *err)
{
    if (!reader->checked && reader->has_trailer &&
        XXH3_64bits(records_of(reader), (size_t)(reader->info.records * RAW_RECORD_BYTES)) !=
            reader->trailer.records_hash) {
        set_damage(reader, TAUT_ECORRUPT, "the hash of its records does not match");
        reader->info.complete = 0;
    }
    reader->checked = 1;
    if (err && reader->damage.code != 0)
        *err = reader->damage;
    return reader->damage.code;
}

const struct raw_record *raw_reader_records(const struct raw_reader *reader, uint64_t first,
                                            uint64_t *count)
{
    uint64_t records = reader->info.records;
    *count = first < records ? records - first : 0;
    return *count ? records_of(reader) + first : NULL;
}

void raw_reader_close(struct raw_reader *reader)
{
    if (!reader)
        return;
    if (reader->map)
        munmap(reader->map, (size_t)reader->size);
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader);
}
