/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers of the tests of capture: temporary directories and random raw files. */
#ifndef TESTS_CAPTURE_SAMPLES_H
#define TESTS_CAPTURE_SAMPLES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/raw.h"

/* xorshift64*: the same numbers everywhere. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static inline void make_directory(char *path, size_t size)
{
    snprintf(path, size, "%s/taut-capture-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(path));
}

/* A plausible record: mostly answered within some decades of latency, all other statuses too. */
static inline struct raw_record random_record(uint64_t *state, uint64_t index, int closed_loop)
{
    uint64_t r = next_random(state);
    struct raw_record record = {.intended_ns = index * 1000 + r % 1000};
    uint64_t late = closed_loop ? 0 : next_random(state) % 5000;
    record.begin_ns = record.intended_ns + late;
    record.conn = (uint16_t)(index % 32);
    record.phase = index % 4 == 0 ? RAW_WARMUP : RAW_MEASURE;
    record.send_ns = (uint32_t)(r >> 40);
    switch (r % 100) {
    case 0:
        record.status = RAW_LOST;
        break;
    case 1:
        record.status = RAW_ERROR;
        break;
    case 2:
        record.status = RAW_SHED;
        break;
    case 3:
        record.status = RAW_UNSENT;
        break;
    case 4:
        record.status = RAW_LATE;
        break;
    default:
        record.status = RAW_ANSWERED;
    }
    uint64_t decades = UINT64_C(1) << (8 + (r >> 8) % 22);
    record.received_ns = record.status <= RAW_LATE
                             ? record.begin_ns + decades + next_random(state) % decades
                             : RAW_UNANSWERED;
    return record;
}

/* Writes a whole file of `count` random records. */
static inline void write_random(const char *path, uint32_t run, uint32_t process, uint64_t count,
                                uint64_t seed, int closed_loop)
{
    struct raw_writer *writer;
    struct taut_err err = {0};
    struct raw_writer_options options = {.path = path,
                                         .run = run,
                                         .process = process,
                                         .closed_loop = (uint32_t)closed_loop,
                                         .expected_records = count,
                                         .epoch_ns = 5,
                                         .epoch_utc_ns = UINT64_C(1780000000000000000),
                                         .recipe = "{\"sessions\":32}"};
    assert_int_equal(raw_writer_create(&writer, &options, &err), 0);
    for (uint64_t i = 0; i < count; i++)
        *raw_writer_next(writer) = random_record(&seed, i, closed_loop);
    assert_int_equal(raw_writer_close(writer, -12, &err), 0);
}

/* The whole file as bytes; the caller frees. */
static inline uint8_t *slurp(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static inline void spill(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

#endif
