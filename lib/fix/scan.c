/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the scan variants share: which there are, the careful header parse, field look-up and the
 * texts of the reasons.
 */
#include "scan_internal.h"

/* The reason for a header whose bytes were all as they should be but end at `size`. */
static uint32_t ends_early(struct taut__header *header, uint32_t reason)
{
    header->incomplete = true;
    return reason;
}

/* BodyLength's digits from `at` on. */
static uint32_t careful_length(const uint8_t *data, size_t size, uint32_t at,
                               struct taut__header *header)
{
    uint32_t value = 0;
    for (uint32_t digits = 0;; digits++) {
        if (at + digits >= size)
            return ends_early(header, TAUT_GARBLED_BODY_LENGTH);
        uint8_t byte = data[at + digits];
        if (byte == TAUT_SOH && digits > 0) {
            header->body_begin = at + digits + 1;
            header->body_length = value;
            return TAUT_GARBLED_NONE;
        }
        if (byte < '0' || byte > '9')
            return TAUT_GARBLED_BODY_LENGTH;
        if (digits == TAUT__LENGTH_MAX) /* padded with zeros, or above every limit */
            return data[at] == '0' ? TAUT_GARBLED_BODY_LENGTH : TAUT_GARBLED_TOO_BIG;
        value = value * 10 + (uint32_t)(byte - '0');
    }
}

uint32_t taut__header_careful(const uint8_t *data, size_t size, struct taut__header *header)
{
    header->incomplete = false;
    if (size == 0 || (size == 1 && data[0] == '8'))
        return ends_early(header, TAUT_GARBLED_NO_BEGIN);
    if (data[0] != '8' || data[1] != '=')
        return TAUT_GARBLED_NO_BEGIN;
    uint32_t at = 2;
    for (; at < size && data[at] != TAUT_SOH; at++)
        if (at == 2 + TAUT__BEGIN_MAX || data[at] == '=')
            return TAUT_GARBLED_BEGIN_STRING;
    if (at >= size)
        return ends_early(header, TAUT_GARBLED_BEGIN_STRING);
    if (at == 2)
        return TAUT_GARBLED_BEGIN_STRING;
    header->begin_end = at;
    static const uint8_t tag[] = {'9', '='};
    for (uint32_t i = 0; i < sizeof tag; i++) {
        if (++at >= size)
            return ends_early(header, TAUT_GARBLED_BODY_LENGTH);
        if (data[at] != tag[i])
            return TAUT_GARBLED_BODY_LENGTH;
    }
    return careful_length(data, size, at + 1, header);
}

uint32_t taut_scan_best(void)
{
#if defined(__x86_64__)
    if (taut_scan_select(TAUT_SCAN_AVX2))
        return TAUT_SCAN_AVX2;
#endif
    return TAUT_SCAN_SWAR;
}

taut_scan_function *taut_scan_select(uint32_t variant)
{
    switch (variant) {
    case TAUT_SCAN_AUTO:
        return taut_scan_select(taut_scan_best());
    case TAUT_SCAN_SCALAR:
        return taut__scan_scalar;
    case TAUT_SCAN_SWAR:
        return taut__scan_swar;
#if defined(__x86_64__)
    case TAUT_SCAN_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                       __builtin_cpu_supports("bmi2")
                   ? taut__scan_avx2
                   : NULL;
#endif
    default:
        return NULL;
    }
}

const char *taut_scan_name(uint32_t variant)
{
    static const char *const names[] = {"auto", "scalar", "swar", "avx2", "avx512"};
    return variant < sizeof names / sizeof names[0] ? names[variant] : "unknown";
}

const char *taut_garbled_text(uint32_t reason)
{
    static const char *const texts[] = {
        [TAUT_GARBLED_NONE] = "not garbled",
        [TAUT_GARBLED_NO_BEGIN] = "no 8= where a message should begin",
        [TAUT_GARBLED_BEGIN_STRING] = "BeginString is empty, too long or not ended by SOH",
        [TAUT_GARBLED_BODY_LENGTH] = "the second field is no BodyLength",
        [TAUT_GARBLED_TRAILER] = "no CheckSum field where BodyLength says",
        [TAUT_GARBLED_CHECKSUM] = "checksum does not match",
        [TAUT_GARBLED_MSG_TYPE] = "the third field is no MsgType",
        [TAUT_GARBLED_TAG] = "a field without an integer tag",
        [TAUT_GARBLED_DATA_LENGTH] = "a data field does not have the length announced",
        [TAUT_GARBLED_FIELD_COUNT] = "too many fields",
        [TAUT_GARBLED_TOO_BIG] = "longer than the limit",
    };
    return reason < sizeof texts / sizeof texts[0] ? texts[reason] : "unknown reason";
}

int32_t taut_message_find(const struct taut_message *message, uint32_t tag, uint32_t from)
{
    for (uint32_t i = from; i < message->count; i++)
        if (message->tag[i] == tag)
            return (int32_t)i;
    return -1;
}
