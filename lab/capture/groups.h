/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/groups.h - the samples of many raw files, put together by run, phase, process or session.
 *
 * Files of one directory with the same run number are one run; their samples are united, never
 * their figures. Phases are kept apart except by GROUPS_BY_RUN. Which records are samples of which
 * time is said in docs/traw.md, "Figures".
 *
 * Memory: without values a fixed amount per group, however large the files are; with values 8 bytes
 * per sample and time, plus as much again as the largest group while it is sorted.
 *
 * Threads: one owner. Ownership: paths are copied.
 */
#ifndef LAB_CAPTURE_GROUPS_H
#define LAB_CAPTURE_GROUPS_H

#include <stdint.h>

#include <taut/err.h>

enum groups_by { GROUPS_BY_RUN, GROUPS_BY_PHASE, GROUPS_BY_PROCESS, GROUPS_BY_SESSION };

enum sample_time {
    TIME_SERVICE = 0,  /* received - begin */
    TIME_RESPONSE = 1, /* received - intended; open loop only */
    TIME_LATENESS = 2, /* begin - intended; open loop only */
    TIME_KINDS = 3
};

#define GROUP_ALL UINT32_MAX /* a part of the key by which the group is not divided */

/* Where a smallest or largest sample is. */
struct sample_place {
    uint64_t ns;
    uint64_t record;   /* index in its file, from 0 */
    uint64_t begin_ns; /* since that file's epoch */
    uint64_t utc_ns;   /* 0 = not known */
    uint32_t session;
    uint32_t file; /* index for groups_file() */
};

struct sample_series {
    uint64_t n;                   /* samples, infinite ones included */
    uint64_t unanswered;          /* infinite ones */
    struct sample_place min, max; /* over the finite ones; nothing where n == unanswered */
    uint64_t *values;             /* n of them when values are kept, else NULL */
    uint64_t capacity;
};

struct group {
    uint32_t directory; /* index for groups_directory() */
    uint32_t run, phase, process, session;
    uint32_t open_loop; /* 1: response and lateness exist */
    uint64_t records;
    uint64_t by_status[7]; /* enum raw_status */
    uint64_t damaged;      /* records that version 1 does not have, or with a negative time */
    struct sample_series series[TIME_KINDS];
};

struct group_file {
    char *path;
    uint32_t directory, run, process, closed_loop, complete;
    uint64_t records;
    struct taut_err damage; /* code 0 = none */
};

struct groups;

/* by: enum groups_by; keep_values: 1 when quantiles are wanted. */
int groups_create(struct groups **groups, uint32_t by, int keep_values, struct taut_err *err);

/*
 * Adds a file's records. 0 also for a damaged file: see groups_file()->damage. TAUT_EBUSY: the same
 * file was added before (nothing is counted twice). Otherwise the codes of raw_reader_open(), or
 * TAUT_ENOMEM: then the groups hold a part of the file and are good for nothing.
 */
int groups_add_file(struct groups *groups, const char *path, struct taut_err *err);

/* Sorts the groups by directory, run, phase, process, session, and the values within each. Once,
 * behind the last file. */
int groups_sort(struct groups *groups, struct taut_err *err);

uint32_t groups_count(const struct groups *groups);
const struct group *groups_at(const struct groups *groups, uint32_t index);
uint32_t groups_file_count(const struct groups *groups);
const struct group_file *groups_file(const struct groups *groups, uint32_t index);
uint32_t groups_directory_count(const struct groups *groups);
const char *groups_directory(const struct groups *groups, uint32_t index);
void groups_destroy(struct groups *groups);

/* "service", "response", "lateness". */
const char *sample_time_name(uint32_t time);

#endif
