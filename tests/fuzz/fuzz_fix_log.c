/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/fuzz/fuzz_fix_log.c - any bytes as a FIX log, given whole and in parts.
 *
 * Properties: no crash; every byte belongs to one piece; fields lie in their message, in order; the
 * pieces do not depend on how the bytes arrived. The first two bytes choose the sizes of the parts.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli/fix_log.h"

/* FNV-1a over what is told of the pieces. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        hash = (hash ^ ((value >> (8 * i)) & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t check_message(const struct fix_log_checked *m, size_t source_bytes, uint64_t hash)
{
    uint32_t at = 0;
    TAUT_CHECK(m->length <= source_bytes + 1);
    for (uint32_t i = 0; i < m->field_count; i++) {
        const struct fix_log_field *f = &m->fields[i];
        TAUT_CHECK(f->token == at && f->token <= f->begin && f->begin <= f->end);
        TAUT_CHECK(f->end < m->length && m->bytes[f->end] == TAUT_SOH);
        at = f->end + 1;
    }
    TAUT_CHECK(at == m->length);
    TAUT_CHECK(m->detail[sizeof(m->detail) - 1] == '\0');
    if (m->reason == TAUT_GARBLED_NONE)
        TAUT_CHECK(m->field_count >= 4 && m->type && !m->cut);
    return mix(mix(mix(hash, m->reason), m->cut), m->field_count);
}

static uint64_t read_log(const uint8_t *data, size_t size, size_t part)
{
    struct fix_log *log;
    struct fix_log_piece piece;
    size_t begin = 0, known = part < size ? part : size;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    TAUT_CHECK(fix_log_create(&log) == 0);
    for (;;) {
        uint32_t result = fix_log_next(log, data + begin, known - begin, known == size, &piece);
        if (result == FIX_LOG_END)
            break;
        if (result == FIX_LOG_MORE) {
            TAUT_CHECK(known < size);
            known = size - known < part ? size : known + part;
            continue;
        }
        TAUT_CHECK(result == FIX_LOG_PIECE);
        TAUT_CHECK(piece.begin <= piece.end && piece.end <= piece.next);
        TAUT_CHECK(piece.next > 0 && piece.next <= known - begin);
        hash = mix(mix(mix(hash, piece.kind), begin + piece.begin), begin + piece.end);
        if (piece.kind == FIX_LOG_MESSAGE)
            hash = check_message(fix_log_message(log), piece.end - piece.begin, hash);
        begin += piece.next;
    }
    TAUT_CHECK(begin == size);
    fix_log_destroy(log);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t part = 1 + (data[0] | (size_t)data[1] << 8) % 1000;
    uint64_t whole = read_log(data + 2, size - 2, size);
    TAUT_CHECK(read_log(data + 2, size - 2, part) == whole);
    return 0;
}
