/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/raw_format.h - the bytes of a *.traw file as C structures; private to the room.
 *
 * docs/traw.md is the contract, these are its tables. The structures are the file's bytes on a
 * little-endian machine, which is all that Taut builds for; the assertions keep every offset.
 */
#ifndef LAB_CAPTURE_RAW_FORMAT_H
#define LAB_CAPTURE_RAW_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/raw.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "records are stored as they are in memory");

#define RAW_TRAILER_MAGIC     "TAUTEND\n"
#define RAW_RECIPE_OFFSET     128u
#define RAW_RECIPE_BYTES_MAX  3900u
#define RAW_FLAG_CLOSED_LOOP  1u
#define RAW_FLAG_CLOSED       2u
#define RAW_DRIFT_NOT_CHECKED INT64_MIN

struct raw_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t record_bytes;
    uint32_t trailer_bytes;
    uint32_t flags;
    uint32_t run;
    uint32_t process;
    uint32_t clock_source;
    uint64_t epoch_ns;
    uint64_t epoch_utc_ns;
    uint64_t clock_hz;
    uint64_t clock_uncertainty_ns;
    int64_t clock_drift_ppb;
    uint32_t recipe_bytes;
    uint8_t reserved[44];
    char recipe[RAW_HEADER_BYTES - RAW_RECIPE_OFFSET - 8];
    uint64_t hash;
};

struct raw_trailer {
    char magic[8];
    uint64_t records;
    uint64_t records_hash;
    uint64_t header_hash;
};

static_assert(sizeof(struct raw_header) == RAW_HEADER_BYTES, "header");
static_assert(offsetof(struct raw_header, flags) == 24, "flags");
static_assert(offsetof(struct raw_header, epoch_ns) == 40, "epoch");
static_assert(offsetof(struct raw_header, clock_drift_ppb) == 72, "drift");
static_assert(offsetof(struct raw_header, recipe) == RAW_RECIPE_OFFSET, "recipe");
static_assert(offsetof(struct raw_header, hash) == 4088, "hash");
static_assert(sizeof(struct raw_trailer) == RAW_TRAILER_BYTES, "trailer");
static_assert(sizeof(struct raw_record) == RAW_RECORD_BYTES, "record");
static_assert(offsetof(struct raw_record, send_ns) == 24, "send");
static_assert(offsetof(struct raw_record, conn) == 28, "session");
static_assert(offsetof(struct raw_record, phase) == 31, "phase");

#endif
