/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the scan variants and the framer share: word loads, the SWAR primitives, and the parse of
 * the two fields in front of the body. Everything here reads at most TAUT_SCAN_PADDING bytes behind
 * the bytes that it was given, and decides nothing on them.
 */
#ifndef TAUT_FIX_SCAN_INTERNAL_H
#define TAUT_FIX_SCAN_INTERNAL_H

#include <stdbool.h>
#include <string.h>

#include <taut/scan.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the word-wise scanners are written for little-endian machines"
#endif

#define TAUT__LIKELY(x)   __builtin_expect(!!(x), 1)
#define TAUT__UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Loops of a constant few turns that must not be loops, at whatever optimisation level. */
#if defined(__clang__)
#define TAUT__UNROLLED _Pragma("clang loop unroll(full)")
#else
#define TAUT__UNROLLED _Pragma("GCC unroll 8")
#endif

#define TAUT__TRAILER      7u  /* "10=ddd" SOH */
#define TAUT__BEGIN_MAX    16u /* bytes of a BeginString */
#define TAUT__LENGTH_MAX   8u  /* digits of a BodyLength */
#define TAUT__FRAME_MIN    15u /* "8=F|9=0|10=ddd|": no frame is shorter */
#define TAUT__MESSAGE_MAX  (16u << 20)
#define TAUT__BYTES(value) (0x0101010101010101ull * (value))

static inline uint64_t taut__load64(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline uint32_t taut__load32(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* 0x80 in bytes of `word` that equal `byte`. Exact up to and including the lowest match; above it
 * there may be false ones. */
static inline uint64_t taut__match_low(uint64_t word, uint8_t byte)
{
    uint64_t x = word ^ TAUT__BYTES(byte);
    return (x - TAUT__BYTES(0x01)) & ~x & TAUT__BYTES(0x80);
}

/* 0x80 in exactly the bytes of `word` that equal `byte`. */
static inline uint64_t taut__match_all(uint64_t word, uint8_t byte)
{
    uint64_t x = word ^ TAUT__BYTES(byte);
    return ~(((x & TAUT__BYTES(0x7f)) + TAUT__BYTES(0x7f)) | x) & TAUT__BYTES(0x80);
}

/* Nonzero where a byte is above 9: for bytes from which '0' was taken, "not a digit". */
static inline uint64_t taut__not_digits(uint64_t digits)
{
    return (digits | (digits + TAUT__BYTES(0x76))) & TAUT__BYTES(0x80);
}

/* The number of eight digit values, the most significant in the lowest byte. */
static inline uint32_t taut__eight_digits(uint64_t digits)
{
    digits = (digits * 10 + (digits >> 8)) & 0x00ff00ff00ff00ffull;
    digits = (digits * 100 + (digits >> 16)) & 0x0000ffff0000ffffull;
    return (uint32_t)(digits * 10000 + (digits >> 32));
}

/* The two fields in front of the body, as offsets from the "8". */
struct taut__header {
    uint32_t begin_end;   /* the SOH behind BeginString */
    uint32_t body_begin;  /* the byte behind the SOH of BodyLength */
    uint32_t body_length; /* what BodyLength says */
    bool incomplete;      /* the reason may be just that the bytes end here */
};

/* The byte-wise parse behind taut__header_parse(): for partial and damaged headers. */
uint32_t taut__header_careful(const uint8_t *data, size_t size, struct taut__header *header);

/* Parses "8=...|9=...|" in `size` bytes. 0, or a reason of enum taut_garbled. */
static inline uint32_t taut__header_parse(const uint8_t *data, size_t size,
                                          struct taut__header *header)
{
    /* The usual header: up to 7 bytes of BeginString and 7 digits, wholly there. */
    uint64_t word = taut__load64(data + 2);
    uint64_t soh = taut__match_low(word, TAUT_SOH);
    uint64_t equals = taut__match_low(word, '=') & (soh - 1) & ~soh; /* in front of the SOH */
    uint32_t begin_length = soh ? (uint32_t)__builtin_ctzll(soh) / 8 : 0;
    word = taut__load64(data + begin_length + 5);
    soh = taut__match_low(word, TAUT_SOH);
    uint32_t digits = soh ? (uint32_t)__builtin_ctzll(soh) / 8 : 0;
    uint32_t body_begin = begin_length + 6 + digits;
    if (TAUT__LIKELY(begin_length > 0 && equals == 0 && digits > 0 && body_begin <= size &&
                     data[0] == '8' && data[1] == '=' && data[begin_length + 3] == '9' &&
                     data[begin_length + 4] == '=')) {
        word = (word - TAUT__BYTES('0')) << (64 - 8 * digits);
        if (TAUT__LIKELY(!taut__not_digits(word))) {
            header->begin_end = begin_length + 2;
            header->body_begin = body_begin;
            header->body_length = taut__eight_digits(word);
            header->incomplete = false;
            return TAUT_GARBLED_NONE;
        }
    }
    return taut__header_careful(data, size, header);
}

/* Is "SOH 10=ddd SOH" where a body of `body_length` bytes says? The bytes must be there. */
static inline bool taut__trailer_good(const uint8_t *data, const struct taut__header *header)
{
    const uint8_t *soh = data + header->body_begin + header->body_length - 1;
    uint64_t word = taut__load64(soh);
    /* From the lowest byte on: SOH '1' '0' '=' digit digit digit SOH. */
    uint64_t digits = word ^ 0x013030303d303101ull;
    return (digits & 0xff000000ffffffffull) == 0 && !taut__not_digits(digits);
}

/* The value of the three digits of a good trailer: 0..999. */
static inline uint32_t taut__trailer_value(const uint8_t *trailer)
{
    return (uint32_t)(trailer[3] - '0') * 100 + (uint32_t)(trailer[4] - '0') * 10 +
           (uint32_t)(trailer[5] - '0');
}

/* One bit for each tag modulo 65536, set for the tags that announce a data field. A larger tag that
 * shares a bit takes the careful path: slower, with the same result. */
extern const uint32_t taut__length_tag_bits[65536 / 32];

static inline uint32_t taut__maybe_length_tag(uint32_t tag)
{
    return taut__length_tag_bits[(tag & 0xffff) >> 5] >> (tag & 31) & 1;
}

/* What the fast variants check before their first pass: header, trailer and MsgType in place. */
static inline bool taut__envelope_plain(const uint8_t *data, uint32_t length,
                                        struct taut__header *header)
{
    if (TAUT__UNLIKELY(taut__header_parse(data, length, header) ||
                       header->body_begin + header->body_length + TAUT__TRAILER != length ||
                       !taut__trailer_good(data, header)))
        return false;
    uint32_t type = taut__load32(data + header->body_begin); /* "35=" and one byte more */
    return (type & 0xffffff) == 0x3d3533 && type >> 24 != TAUT_SOH;
}

/* Does the sum of all the frame's bytes, the trailer's among them, match what the trailer says? */
static inline bool taut__checksum_plain(const uint8_t *data, uint32_t length, uint32_t sum)
{
    const uint8_t *trailer = data + length - TAUT__TRAILER;
    const uint32_t constant = (uint32_t)('1' + '0' + '=' + TAUT_SOH);
    sum -= constant + trailer[3] + trailer[4] + trailer[5];
    return (sum & 0xff) == taut__trailer_value(trailer);
}

/* What is the same for every good message: the first three fields, the last, and the frame. */
static inline void taut__finish_envelope(struct taut_message *m, const uint8_t *data,
                                         uint32_t length, const struct taut__header *header,
                                         uint32_t count)
{
    m->data = data;
    m->length = length;
    m->count = count;
    m->body_begin = header->body_begin;
    m->begin_string_length = header->begin_end - 2;
    m->tag[0] = 8;
    m->begin[0] = 2;
    m->tag[1] = 9;
    m->begin[1] = header->begin_end + 3;
    m->tag[2] = 35;
    m->begin[2] = header->body_begin + 3;
    m->tag[count - 1] = 10;
    m->begin[count - 1] = length - 4;
    m->end[count - 1] = length - 1;
    m->slot[0] = 0; /* where the variants write what has no slot */
    m->slot[8] = 1;
    m->slot[9] = 2;
    m->slot[35] = 3;
}

/* The variants. The scalar one defines the result: the others accept what is plain and hand it
 * everything else. */
taut_scan_function taut__scan_scalar, taut__scan_swar;
#if defined(__x86_64__)
taut_scan_function taut__scan_avx2, taut__scan_avx512;
#endif

#endif
