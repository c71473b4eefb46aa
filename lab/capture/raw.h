/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/raw.h - raw sample files, *.traw: one record of 32 bytes for every scheduled message.
 *
 * The format is documented byte by byte in docs/traw.md; that document is the contract, this header
 * follows it. A file belongs to one process and one run. Records are written by plain stores into a
 * mapping that was pre-faulted before the phase began; nothing allocates or enters the kernel for
 * a sample. The file is readable after a crash at any moment: a slot that was not reached is all
 * zero, a request in flight is `lost` until its answer overwrites it.
 *
 * Threads: a writer has one owner; it runs one thread of its own that prepares the next chunk of
 * the file. Readers are independent. Ownership: paths and recipes are copied.
 */
#ifndef LAB_CAPTURE_RAW_H
#define LAB_CAPTURE_RAW_H

#include <stddef.h>
#include <stdint.h>

#include <taut/clock.h>
#include <taut/err.h>
#include <taut/topology.h>

#define RAW_MAGIC         "TAUTRAW\n"
#define RAW_VERSION       1u
#define RAW_HEADER_BYTES  4096u
#define RAW_RECORD_BYTES  32u
#define RAW_TRAILER_BYTES 32u
#define RAW_UNANSWERED    UINT64_MAX

enum raw_status {
    RAW_EMPTY = 0, /* slot never reached */
    RAW_ANSWERED = 1,
    RAW_LATE = 2,  /* answered after the drain's deadline */
    RAW_LOST = 3,  /* sent, never answered */
    RAW_ERROR = 4, /* could not be sent, or answered by a reject */
    RAW_SHED = 5,  /* not sent on purpose: the catch-up policy dropped it */
    RAW_UNSENT = 6 /* scheduled, but the run ended first */
};

enum raw_phase { RAW_WARMUP = 1, RAW_MEASURE = 2, RAW_DRAIN = 3 };

/* One record, little-endian, as in the file. Times are ns since the file's epoch. */
struct raw_record {
    uint64_t intended_ns; /* closed loop: equals begin_ns */
    uint64_t begin_ns;    /* just before the send call */
    uint64_t received_ns; /* RAW_UNANSWERED = none */
    uint32_t send_ns;     /* duration of the send call, saturating */
    uint16_t conn;        /* session number within the whole run */
    uint8_t status;       /* enum raw_status */
    uint8_t phase;        /* enum raw_phase */
};

/* What a header says. */
struct raw_info {
    uint32_t version;
    uint32_t complete;        /* 1: closed properly, trailer present and matching */
    uint32_t closed_loop;     /* 1: no response time, only service time */
    uint32_t run;             /* from 1 */
    uint32_t process;         /* from 0 */
    uint64_t epoch_ns;        /* CLOCK_MONOTONIC of time 0 in this file */
    uint64_t epoch_utc_ns;    /* the same moment, UTC */
    uint32_t clock_source;    /* enum taut_clock_source */
    uint64_t clock_hz_before; /* counter frequency at the start, 0 for the vDSO */
    int64_t clock_drift_ppb;  /* found at the end; INT64_MIN = not checked (crash) */
    uint64_t records;         /* non-empty ones from the start; counted where there is no trailer */
    uint64_t file_bytes;
    const char *recipe; /* JSON object, NUL-terminated; owned by the reader */
};

struct raw_writer;
struct raw_reader;

struct raw_writer_options {
    const char *path;
    uint32_t run, process, closed_loop;
    uint64_t expected_records;      /* 0 = unknown; the first chunk covers at least this many */
    const struct taut_clock *clock; /* recorded in the header; NULL = vDSO */
    uint64_t epoch_ns, epoch_utc_ns;
    const struct taut_cpuset *grower_cpus; /* where the thread that grows the file may run; NULL or
                                              empty = where the caller may */
    const char *recipe;                    /* JSON text of at most 3,900 bytes; NULL = "{}" */
};

/*
 * Creates the file, allocates its blocks, maps and pre-faults the first chunk: 8 MiB, or what is
 * expected and some more. TAUT_ENOSPC where the disk (or the process's file size limit) has no room
 * for it: no file is left behind then. TAUT_EBUSY where the file exists, TAUT_ETOOBIG for a recipe
 * or an expectation that is too large, else the code of what open(2) or mmap(2) said.
 */
int raw_writer_create(struct raw_writer **writer, const struct raw_writer_options *options,
                      struct taut_err *err);

/* The next record's slot, all zero, or NULL when the file can't grow (disk full: see
 * raw_writer_status()). Waits, and counts that in raw_writer_stalls(), only where records come
 * faster than chunks can be made. Fill it at once. Slots stay writable until raw_writer_close(). */
struct raw_record *raw_writer_next(struct raw_writer *writer);

/* Makes room for `records` more before a phase begins, so that nothing grows within it. Waits.
 * 0, or the code that stopped the growth. */
int raw_writer_reserve(struct raw_writer *writer, uint64_t records);

/* Slots that are allocated, mapped and pre-faulted so far: more at the end of a phase than at its
 * begin means that the file grew meanwhile. */
uint64_t raw_writer_ready(const struct raw_writer *writer);

/* Index of the next record; the slot of an earlier one, NULL when out of range. */
uint64_t raw_writer_count(const struct raw_writer *writer);
struct raw_record *raw_writer_at(struct raw_writer *writer, uint64_t index);

/* 0, or the code that stopped the growth (TAUT_ENOSPC, TAUT_EIO). */
int raw_writer_status(const struct raw_writer *writer);

/* How often raw_writer_next() had to wait for a chunk: 0 in a good run. */
uint64_t raw_writer_stalls(const struct raw_writer *writer);

/* Writes calibration, trailer and hash, cuts the file to its length, syncs. Frees the writer
 * whatever the result; after TAUT_ENOSPC in the run it still makes a whole file of what was
 * written. NULL: 0. */
int raw_writer_close(struct raw_writer *writer, int64_t clock_drift_ppb, struct taut_err *err);

/*
 * Opens for reading. TAUT_ENOENT/TAUT_EACCES, TAUT_EFORMAT (no raw file: also a directory, a pipe,
 * an empty file), TAUT_EVERSION (other version), TAUT_ETRUNCATED (cut within its header: nothing to
 * read). A file cut behind that, without trailer or with a wrong hash opens: raw_reader_damage()
 * then gives TAUT_ETRUNCATED or TAUT_ECORRUPT, and what is there can be read. A file may be read
 * while it is written: the reader sees the records of the moment when it opened.
 */
int raw_reader_open(struct raw_reader **reader, const char *path, struct taut_err *err);
const struct raw_info *raw_reader_info(const struct raw_reader *reader);

/* 0, TAUT_ETRUNCATED or TAUT_ECORRUPT, with a text. Checks the hash at the first call. */
int raw_reader_damage(struct raw_reader *reader, struct taut_err *err);

/* Records from `first` on: a pointer into the mapping and how many follow there (0 = end). */
const struct raw_record *raw_reader_records(const struct raw_reader *reader, uint64_t first,
                                            uint64_t *count);
void raw_reader_close(struct raw_reader *reader);

const char *raw_status_name(uint32_t status);
const char *raw_phase_name(uint32_t phase);

#endif
