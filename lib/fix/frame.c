/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The framer: where the next message begins and ends, from BodyLength alone. A call looks at some
 * 40 bytes, however long the message is; only a resync searches, and it drops what it searched, so
 * that no input makes the work more than linear.
 */
#include "scan_internal.h"

/* Offset of the first "8=FIX" at or behind `from`; of a piece of it that ends the bytes; else size.
 * "8=" alone would stop at every 58= and 448= of what is being dropped. */
static size_t find_begin(const uint8_t *data, size_t from, size_t size)
{
    static const char begin[] = "8=FIX";
    const uint8_t *found = memmem(data + from, size - from, begin, 5);
    if (found)
        return (size_t)(found - data);
    for (size_t tail = size - from < 4 ? size - from : 4; tail > 0; tail--)
        if (memcmp(data + size - tail, begin, tail) == 0)
            return size - tail;
    return size;
}

static enum taut_frame_result garbled(struct taut_frame *frame, size_t skip, uint32_t reason)
{
    *frame = (struct taut_frame){.skip = (uint32_t)skip, .reason = reason};
    return TAUT_FRAME_GARBLED;
}

static enum taut_frame_result more(struct taut_frame *frame, size_t need)
{
    *frame = (struct taut_frame){.need = (uint32_t)need};
    return TAUT_FRAME_MORE;
}

/* QuickFIX's rule: what BodyLength miscounts goes on up to the next trailer, whatever is between.
 */
static enum taut_frame_result swallow(const uint8_t *data, size_t size, size_t from, size_t limit,
                                      struct taut_frame *frame)
{
    const uint8_t *trailer = memmem(data + from, size - from, "\00110=", 4);
    if (trailer) {
        size_t at = (size_t)(trailer - data) + 4;
        const uint8_t *soh = memchr(data + at, TAUT_SOH, size - at);
        if (soh)
            return garbled(frame, (size_t)(soh - data) + 1, TAUT_GARBLED_TRAILER);
    }
    if (size >= limit) /* a message would have ended by now */
        return garbled(frame, find_begin(data, 2, size), TAUT_GARBLED_TRAILER);
    return more(frame, size + 1);
}

enum taut_frame_result taut_frame_next(const uint8_t *data, size_t size, uint32_t max_message,
                                       uint32_t resync, struct taut_frame *frame)
{
    struct taut__header header;
    size_t limit = max_message < TAUT__MESSAGE_MAX ? max_message : TAUT__MESSAGE_MAX;
    size = size < INT32_MAX ? size : INT32_MAX; /* offsets are 32 bits; the rest comes next time */
    uint32_t reason = taut__header_parse(data, size, &header);
    if (TAUT__UNLIKELY(reason)) {
        if (header.incomplete)
            return more(frame, size < TAUT__FRAME_MIN ? TAUT__FRAME_MIN : size + 1);
        if (reason != TAUT_GARBLED_TOO_BIG) {
            size_t from = reason == TAUT_GARBLED_NO_BEGIN ? 0 : 1;
            return garbled(frame, find_begin(data, from, size), reason);
        }
        garbled(frame, find_begin(data, header.begin_end, size), reason);
        return TAUT_FRAME_TOO_BIG;
    }
    /* At most 29 + 99,999,999 + 7: no overflow, and compared before any pointer is formed. */
    uint32_t total = header.body_begin + header.body_length + TAUT__TRAILER;
    if (total > limit) {
        garbled(frame, find_begin(data, header.body_begin, size), TAUT_GARBLED_TOO_BIG);
        return TAUT_FRAME_TOO_BIG;
    }
    if (total > size)
        return more(frame, total);
    if (TAUT__LIKELY(taut__trailer_good(data, &header))) {
        *frame = (struct taut_frame){.length = total};
        return TAUT_FRAME_READY;
    }
    if (resync == TAUT_RESYNC_QUICKFIX)
        return swallow(data, size, header.body_begin + header.body_length - 1, limit, frame);
    return garbled(frame, find_begin(data, header.body_begin, size), TAUT_GARBLED_TRAILER);
}
