/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames and scans. The input is taken twice: as bytes from a peer, which are framed under both
 * resync rules and scanned as they are; and as a body, to which a right header and trailer are put,
 * so that the fuzzer need not guess a checksum. Every variant must say what the naive scanner says.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fix/naive.h"
#include "../fix/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good, const char *what)
{
    if (good)
        return;
    printf("broken: %s\n", what);
    fflush(stdout);
    abort();
}

/* All variants on a copy that ends with its padding, where the sanitizer watches. */
static void scan_all(const uint8_t *bytes, uint32_t length)
{
    static struct taut_message message;
    uint8_t *copy = malloc((size_t)length + TAUT_SCAN_PADDING);
    must(copy != NULL, "out of memory");
    if (length)
        memcpy(copy, bytes, length);
    memset(copy + length, 1, TAUT_SCAN_PADDING);
    for (uint32_t variant = TAUT_SCAN_SCALAR; variant <= TAUT_SCAN_AVX512; variant++) {
        taut_scan_function *scan = taut_scan_select(variant);
        if (scan)
            must(naive_agrees(scan, taut_scan_name(variant), &message, copy, length), "scan");
    }
    free(copy);
}

/* Frames all of it. Each call makes progress or wants more than there is. */
static void frame_all(const uint8_t *bytes, size_t size, uint32_t resync)
{
    uint8_t *copy = malloc(size + TAUT_SCAN_PADDING);
    must(copy != NULL, "out of memory");
    if (size)
        memcpy(copy, bytes, size);
    memset(copy + size, 1, TAUT_SCAN_PADDING);
    for (size_t at = 0; at < size;) {
        struct taut_frame frame;
        size_t left = size - at;
        enum taut_frame_result result = taut_frame_next(copy + at, left, 4096, resync, &frame);
        if (result == TAUT_FRAME_MORE) {
            must(frame.need > left && frame.need <= 4096 + left, "need");
            break;
        }
        must(frame.skip <= left && frame.length <= left - frame.skip, "frame inside the bytes");
        must(frame.skip + frame.length > 0, "progress");
        if (result == TAUT_FRAME_READY) {
            static struct naive_message naive;
            uint32_t reason = naive_scan(&naive, copy + at + frame.skip, frame.length);
            must(reason == 0 || reason >= TAUT_GARBLED_CHECKSUM, "a frame has header and trailer");
            scan_all(copy + at + frame.skip, frame.length);
        }
        at += frame.skip + frame.length;
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 60000)
        return 0;
    scan_all(data, (uint32_t)size);
    frame_all(data, size, TAUT_RESYNC_STRICT);
    frame_all(data, size, TAUT_RESYNC_QUICKFIX);
    uint8_t *wrapped = malloc(size + 64), *body = malloc(size + 6);
    must(wrapped && body, "out of memory");
    memcpy(body, "35=D\001", 5);
    memcpy(body + 5, data, size);
    body[5 + size] = 1;
    scan_all(wrapped, wrap_message(wrapped, "FIX.4.4", body + 5, (uint32_t)size));
    scan_all(wrapped, wrap_message(wrapped, "FIXT.1.1", body, (uint32_t)size + 6));
    free(wrapped);
    free(body);
    return 0;
}
