/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scan in 64-bit words, for any CPU. Stage 1 makes one bit a byte of 64 bytes at a time and
 * sums up the checksum in the same pass; stage 2 takes a field at a time: one load, the '=' in it,
 * and three multiplications for the digits in front. A message with anything odd in it (a data
 * field, a tag that is not 1..7 plain digits, a wrong sum) goes to the scalar scan, which decides.
 */
#include "scan_internal.h"

#define BLOCK       64u
#define FIELDS_FAST (TAUT_FIELDS_MAX - BLOCK) /* stage 1 writes up to a block's worth too much */

/* The builtin is a call where the CPU may not have the instruction. */
static inline uint32_t count_bits(uint64_t x)
{
    x -= (x >> 1) & 0x5555555555555555ull;
    x = (x & 0x3333333333333333ull) + ((x >> 2) & 0x3333333333333333ull);
    return (uint32_t)((((x + (x >> 4)) & TAUT__BYTES(0x0f)) * TAUT__BYTES(1)) >> 56);
}

/* Writes the offsets of the bits in `mask`, and up to seven numbers of no meaning behind them. */
static inline uint32_t *emit(uint32_t *end, uint32_t at, uint64_t mask)
{
    uint32_t count = count_bits(mask);
    uint32_t *next = end + count;
    while (count > 0) {
        TAUT__UNROLLED
        for (uint32_t i = 0; i < 4; i++) {
            end[i] = at + (uint32_t)__builtin_ctzll(mask | 1ull << 63);
            mask &= mask - 1;
        }
        end += 4;
        count = count > 4 ? count - 4 : 0;
    }
    return next;
}

/* Bit i: byte i of the word is SOH. *lanes takes up the bytes in four 16-bit sums. */
static inline uint64_t index_word(uint64_t word, uint64_t *lanes)
{
    const uint64_t even = 0x00ff00ff00ff00ffull;
    *lanes += (word & even) + ((word >> 8) & even);
    return ((taut__match_all(word, TAUT_SOH) >> 7) * 0x0102040810204080ull) >> 56;
}

/* Stage 1: SOH offsets to `end`, returns how many; 0 where there are more than FIELDS_FAST. */
static inline uint32_t index_blocks(uint32_t *end, const uint8_t *data, uint32_t length,
                                    uint32_t *sum)
{
    uint32_t *next = end, total = 0;
    for (uint32_t at = 0; at < length; at += BLOCK) {
        uint64_t mask = 0, lanes = 0;
        uint32_t left = length - at;
        if (TAUT__LIKELY(left >= BLOCK)) {
            TAUT__UNROLLED
            for (uint32_t i = 0; i < BLOCK; i += 8)
                mask |= index_word(taut__load64(data + at + i), &lanes) << i;
        } else {
            for (uint32_t i = 0; i < left; i += 8) {
                uint64_t word = taut__load64(data + at + i);
                word &= left - i < 8 ? ~(~0ull << (8 * (left - i))) : ~0ull;
                mask |= index_word(word, &lanes) << i;
            }
        }
        /* Eight words are at most 8 * 510 a lane, the four lanes 16320: no carry. */
        total += (uint32_t)((lanes * 0x0001000100010001ull) >> 48);
        next = emit(next, at, mask);
        if (TAUT__UNLIKELY(next - end > FIELDS_FAST))
            return 0;
    }
    *sum = total;
    return (uint32_t)(next - end);
}

/* Stage 2, for the fields between the first three and the last. Backwards, so that the first field
 * of several with one tag writes its slot last. */
static inline bool parse_fields(struct taut_message *m, const uint8_t *data, uint32_t count)
{
    uint64_t odd = 0, over_nine = 0;
    for (uint32_t i = count - 1; i-- > 3;) {
        uint32_t start = m->end[i - 1] + 1;
        uint64_t word = taut__load64(data + start);
        uint64_t equals = taut__match_low(word, '=');
        uint32_t bits = (uint32_t)__builtin_ctzll(equals | 1ull << 63) & 0x38; /* 8 a digit */
        word ^= TAUT__BYTES('0');
        odd |= (equals == 0) | ((word & 0xff) == 0);
        word <<= -bits & 63; /* with no digit at all the '=' stays in it, which is none */
        over_nine |= word | (word + TAUT__BYTES(0x76));
        uint32_t tag = taut__eight_digits(word);
        odd |= taut__maybe_length_tag(tag);
        m->tag[i] = tag;
        m->begin[i] = start + bits / 8 + 1;
        m->slot[tag < 256 && i < 255 ? tag : 0] = (uint8_t)(i + 1);
    }
    odd |= over_nine & TAUT__BYTES(0x80);
    return odd == 0;
}

uint32_t taut__scan_swar(struct taut_message *m, const uint8_t *data, uint32_t length)
{
    struct taut__header header;
    if (TAUT__UNLIKELY(!taut__envelope_plain(data, length, &header)))
        return taut__scan_scalar(m, data, length);
    uint32_t sum, count = index_blocks(m->end, data, length, &sum);
    if (TAUT__UNLIKELY(count == 0 || !taut__checksum_plain(data, length, sum)))
        return taut__scan_scalar(m, data, length);
    memset(m->slot, 0, sizeof m->slot);
    if (count <= 255)
        m->slot[10] = (uint8_t)count;
    if (TAUT__UNLIKELY(!parse_fields(m, data, count)))
        return taut__scan_scalar(m, data, length);
    taut__finish_envelope(m, data, length, &header, count);
    return TAUT_GARBLED_NONE;
}
