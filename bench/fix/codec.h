/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the FIX benchmarks time: one function a subject, each doing `count` operations and returning
 * a number that depends on all of them, so that none can be left out.
 */
#ifndef TAUT_BENCH_FIX_CODEC_H
#define TAUT_BENCH_FIX_CODEC_H

#include <stdbool.h>

#include <taut/encode.h>
#include <taut/scan.h>

#include "messages.h"

#define ENCODED_BYTES 212u

struct codec {
    const struct messages *messages;
    taut_scan_function *scan;
    struct taut_message message;
    struct taut_template report;
    uint8_t buffer[1024];
    uint64_t sequence;
};

void codec_init(struct codec *c, const struct messages *messages, taut_scan_function *scan);

/* Scans messages round robin; each call's address depends on the last result where `chained`. */
uint64_t codec_scan(struct codec *c, uint32_t count, bool chained);

/* Frames and scans, as a session does. */
uint64_t codec_frame_and_scan(struct codec *c, uint32_t count);

/* Writes an ExecutionReport of 212 bytes from its template: number, time, ids, prices. */
uint64_t codec_encode(struct codec *c, uint32_t count);

#endif
