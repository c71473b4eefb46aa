/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scan with AVX2. Stage 1 goes over the message in blocks of 64 bytes and finds the SOH bytes
 * and the checksum in the same pass. Stage 2 takes eight fields at a time: eight bytes from each
 * field's start, the '=' among them, and the digits in front of it as a number. A message with
 * anything odd in it (a data field, a tag that is not 1..7 plain digits, a wrong sum) goes to the
 * scalar scan, which decides.
 */
#include "scan_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))

#define BLOCK       64u
#define LANES       8u                        /* fields that stage 2 takes at a time */
#define FIELDS_FAST (TAUT_FIELDS_MAX - BLOCK) /* stage 1 writes up to a block's worth too much */

/* Ones for the bytes of a last block that belong to the message, by an offset into this. */
static const uint8_t tail_mask[2 * BLOCK] = {
    [0 ... BLOCK - 1] = 0xff,
};

AVX2 static inline __m256i load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

AVX2 static inline void store256(void *p, __m256i value)
{
    _mm256_storeu_si256((__m256i *)p, value);
}

/* Writes the offsets of the bits in `mask`, and up to seven numbers of no meaning behind them. */
AVX2 static inline uint32_t *emit(uint32_t *end, uint32_t at, uint64_t mask)
{
    uint32_t count = (uint32_t)_mm_popcnt_u64(mask);
    uint32_t *next = end + count;
    for (;;) {
        TAUT__UNROLLED
        for (uint32_t i = 0; i < 8; i++) {
            end[i] = at + (uint32_t)_tzcnt_u64(mask);
            mask = _blsr_u64(mask);
        }
        if (TAUT__LIKELY(count <= 8)) /* 64 bytes hold 6 or 7 fields as a rule */
            return next;
        end += 8;
        count -= 8;
    }
}

/* One block: its SOH bits, and its bytes added to four sums. */
AVX2 static inline uint64_t index_block(__m256i low, __m256i high, __m256i *sums)
{
    const __m256i soh = _mm256_set1_epi8(TAUT_SOH), zero = _mm256_setzero_si256();
    *sums = _mm256_add_epi64(
        *sums, _mm256_add_epi64(_mm256_sad_epu8(low, zero), _mm256_sad_epu8(high, zero)));
    uint32_t first = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, soh));
    uint32_t second = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, soh));
    return first | (uint64_t)second << 32;
}

/* Stage 1: SOH offsets to `end`, returns how many; 0 where there are more than FIELDS_FAST. */
AVX2 static inline uint32_t index_blocks(uint32_t *end, const uint8_t *data, uint32_t length,
                                         uint32_t *sum)
{
    uint32_t *next = end, at = 0;
    __m256i sums = _mm256_setzero_si256();
    for (; length - at > BLOCK; at += BLOCK) {
        uint64_t mask = index_block(load256(data + at), load256(data + at + 32), &sums);
        next = emit(next, at, mask);
        if (TAUT__UNLIKELY(next - end > FIELDS_FAST))
            return 0;
    }
    const uint8_t *ones = tail_mask + BLOCK - (length - at);
    uint64_t mask =
        index_block(_mm256_and_si256(load256(data + at), load256(ones)),
                    _mm256_and_si256(load256(data + at + 32), load256(ones + 32)), &sums);
    next = emit(next, at, mask);
    __m128i half = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    *sum = (uint32_t)_mm_cvtsi128_si32(_mm_add_epi64(half, _mm_unpackhi_epi64(half, half)));
    return next - end > FIELDS_FAST ? 0 : (uint32_t)(next - end);
}

/* What stage 2 found odd, over all lanes. */
struct oddities {
    __m256i below;    /* the bytes in front of '=': the eighth one set where there is no '=' */
    __m256i largest;  /* digit values: above 9 is no digit */
    __m256i smallest; /* the first one: 0 is a leading zero, or no digit at all */
    __m256i tags;     /* the largest tags */
};

/* Four tags, left-aligned digits first; *digits gets how many each has. Quads of digits are left
 * as two 32-bit numbers a tag. */
AVX2 static inline __m256i tag_quads(__m256i words, __m256i *digits, struct oddities *odd)
{
    __m256i equals = _mm256_cmpeq_epi8(words, _mm256_set1_epi8('='));
    /* x - 1 turns the bits below the lowest one of x to ones: all bytes in front of the '='. */
    __m256i below = _mm256_andnot_si256(equals, _mm256_add_epi64(equals, _mm256_set1_epi64x(-1)));
    __m256i values = _mm256_and_si256(_mm256_sub_epi8(words, _mm256_set1_epi8('0')), below);
    *digits = _mm256_sad_epu8(_mm256_and_si256(below, _mm256_set1_epi8(1)), _mm256_setzero_si256());
    odd->below = _mm256_or_si256(odd->below, below);
    odd->largest = _mm256_max_epu8(odd->largest, values);
    odd->smallest = _mm256_min_epu8(odd->smallest, values);
    __m256i shift = _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64(*digits, 3));
    values = _mm256_sllv_epi64(values, shift);
    values = _mm256_maddubs_epi16(values, _mm256_set1_epi16(0x010a));      /* 10, 1 */
    return _mm256_madd_epi16(values, _mm256_set1_epi32(0x00010000 | 100)); /* 100, 1 */
}

/* Eight bytes from each of two field starts: behind the SOH at *end and at *(end + 1). */
AVX2 static inline __m128i load_pair(const uint8_t *behind, const uint32_t *end)
{
    __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)(behind + end[0]));
    return _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(low), (const __m64 *)(const void *)(behind + end[1])));
}

/* Tags and value offsets of the fields i .. i + 7. (Gather instructions take longer than this.) */
AVX2 static inline void parse_eight(struct taut_message *m, const uint8_t *data, uint32_t i,
                                    struct oddities *odd, uint32_t *slots)
{
    const uint32_t *end = m->end + i - 1;
    const uint8_t *behind = data + 1;
    /* The packs below work in halves: fields 0 1 4 5 first and 2 3 6 7 second come out in order. */
    __m256i first = _mm256_inserti128_si256(_mm256_castsi128_si256(load_pair(behind, end)),
                                            load_pair(behind, end + 4), 1);
    __m256i second = _mm256_inserti128_si256(_mm256_castsi128_si256(load_pair(behind, end + 2)),
                                             load_pair(behind, end + 6), 1);
    __m256i first_digits, second_digits;
    first = tag_quads(first, &first_digits, odd);
    second = tag_quads(second, &second_digits, odd);
    __m256i tags = _mm256_madd_epi16(_mm256_packus_epi32(first, second),
                                     _mm256_set1_epi32(0x00010000 | 10000));
    __m256i digits = _mm256_castps_si256(_mm256_shuffle_ps(
        _mm256_castsi256_ps(first_digits), _mm256_castsi256_ps(second_digits), 0x88));
    __m256i begin = _mm256_add_epi32(_mm256_add_epi32(load256(end), digits), _mm256_set1_epi32(2));
    store256(m->tag + i, tags);
    store256(m->begin + i, begin);
    odd->tags = _mm256_max_epu32(odd->tags, tags);
    /* Unsigned: what was no digits may have become anything, and these are indices. */
    __m256i large = _mm256_cmpeq_epi32(_mm256_max_epu32(tags, _mm256_set1_epi32(256)), tags);
    store256(slots, _mm256_andnot_si256(large, tags));
    /* Through memory: compilers take the lanes out one by one otherwise, at twice the cost. */
    __asm__("" : "+m"(*(uint32_t(*)[LANES])slots));
}

/* Is there a tag among them that announces a data field? */
AVX2 static inline bool announces_data(const struct taut_message *m, uint32_t count,
                                       const struct oddities *odd)
{
    const __m256i low_tags = _mm256_set1_epi32(347); /* up to here they have slots */
    if (TAUT__LIKELY(
            count <= 255 &&
            _mm256_testc_si256(_mm256_cmpeq_epi32(_mm256_max_epu32(odd->tags, low_tags), low_tags),
                               _mm256_set1_epi32(-1))))
        return (m->slot[90] | m->slot[93] | m->slot[95] | m->slot[212]) != 0;
    __m256i any = _mm256_setzero_si256();
    for (uint32_t i = 3; i < count - 1; i += LANES) {
        __m256i tags = load256(m->tag + i);
        __m256i word = _mm256_srli_epi32(_mm256_slli_epi32(tags, 16), 21);
        __m256i bits = _mm256_i32gather_epi32((const int *)taut__length_tag_bits, word, 4);
        bits = _mm256_srlv_epi32(bits, _mm256_and_si256(tags, _mm256_set1_epi32(31)));
        any = _mm256_or_si256(any, bits);
    }
    return !_mm256_testz_si256(any, _mm256_set1_epi32(1));
}

AVX2 static inline bool is_odd(const struct oddities *odd)
{
    const __m256i first_byte = _mm256_set1_epi64x(0xff), zero = _mm256_setzero_si256();
    __m256i no_digit = _mm256_subs_epu8(odd->largest, _mm256_set1_epi8(9));
    __m256i leading = _mm256_and_si256(_mm256_cmpeq_epi8(odd->smallest, zero), first_byte);
    __m256i no_equals = _mm256_srli_epi64(odd->below, 63);
    __m256i any = _mm256_or_si256(_mm256_or_si256(no_digit, leading), no_equals);
    return !_mm256_testz_si256(any, any);
}

/* Stage 2, for the fields between the first three and the last. Backwards, so that the first field
 * of several with one tag writes its slot last. */
AVX2 static inline bool parse_fields(struct taut_message *m, const uint8_t *data, uint32_t count)
{
    struct oddities odd = {
        .below = _mm256_setzero_si256(),
        .largest = _mm256_setzero_si256(),
        .smallest = _mm256_set1_epi8(-1),
        .tags = _mm256_setzero_si256(),
    };
    uint32_t slots[LANES];
    /* Lanes behind the last field read field 1 once more: "9=" is never odd. */
    store256(m->end + count - 1, _mm256_set1_epi32((int)m->end[0]));
    uint32_t groups = (count - 4 + LANES - 1) / LANES;
    while (groups-- > 0) {
        uint32_t i = 3 + groups * LANES;
        parse_eight(m, data, i, &odd, slots);
        uint32_t known = i + LANES <= 255 ? LANES : i < 255 ? 255 - i : 0;
        if (TAUT__LIKELY(known == LANES)) {
            TAUT__UNROLLED
            for (uint32_t lane = LANES; lane-- > 0;)
                m->slot[slots[lane]] = (uint8_t)(i + lane + 1);
        } else {
            for (uint32_t lane = known; lane-- > 0;)
                m->slot[slots[lane]] = (uint8_t)(i + lane + 1);
        }
    }
    return !is_odd(&odd) && !announces_data(m, count, &odd);
}

AVX2 static inline void clear_slots(uint8_t *slot)
{
    const __m256i zero = _mm256_setzero_si256();
    /* Written out: a loop is turned into a call or into "rep stos", which cost more than all of it.
     */
    store256(slot, zero);
    store256(slot + 32, zero);
    store256(slot + 64, zero);
    store256(slot + 96, zero);
    store256(slot + 128, zero);
    store256(slot + 160, zero);
    store256(slot + 192, zero);
    store256(slot + 224, zero);
}

AVX2 uint32_t taut__scan_avx2(struct taut_message *m, const uint8_t *data, uint32_t length)
{
    struct taut__header header;
    if (TAUT__UNLIKELY(!taut__envelope_plain(data, length, &header)))
        return taut__scan_scalar(m, data, length);
    uint32_t sum, count = index_blocks(m->end, data, length, &sum);
    if (TAUT__UNLIKELY(count == 0 || !taut__checksum_plain(data, length, sum)))
        return taut__scan_scalar(m, data, length);
    clear_slots(m->slot);
    if (count <= 255)
        m->slot[10] = (uint8_t)count;
    if (TAUT__UNLIKELY(!parse_fields(m, data, count)))
        return taut__scan_scalar(m, data, length);
    taut__finish_envelope(m, data, length, &header, count);
    return TAUT_GARBLED_NONE;
}
#endif
