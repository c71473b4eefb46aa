/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/order.c - the request and its identity. One order for all: a limit order of 100 at a price
 * of two decimals, because what differs between two requests must be nothing but what the protocol
 * makes differ (numbers and times).
 */
#include <string.h>

#include "base/check.h"
#include "load/order.h"

#define BEGIN_STRING "FIX.4.4"

static const char order_body[] = "11=$|55=TAUT|54=1|60=$|38=100|40=2|44=101.25|59=0|";

int load_order_compile(struct load_order *order, struct taut_err *err)
{
    memset(order, 0, sizeof(*order));
    return taut_template_compile(&order->body, order_body, err);
}

void load_id_write(uint8_t *text, uint64_t id)
{
    /* Two halves of six digits: 32-bit divisions by a constant, independent of each other. */
    uint32_t high = (uint32_t)(id / 1000000), low = (uint32_t)(id % 1000000);
    for (uint32_t i = 6; i-- > 0;) {
        text[i] = (uint8_t)('0' + high % 10);
        text[6 + i] = (uint8_t)('0' + low % 10);
        high /= 10;
        low /= 10;
    }
}

uint64_t load_id_read(const uint8_t *text, uint32_t length)
{
    uint64_t id = 0;
    if (length != LOAD_ID_DIGITS)
        return 0;
    for (uint32_t i = 0; i < LOAD_ID_DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        id = id * 10 + (uint64_t)(text[i] - '0');
    }
    return id;
}

void load_order_body(const struct load_order *order, struct taut_encoder *encoder, uint64_t id,
                     uint64_t utc_ns)
{
    uint8_t *place;
    taut_encode_run(encoder, &order->body, 0);
    place = taut_encode_reserve(encoder, LOAD_ID_DIGITS);
    if (place)
        load_id_write(place, id);
    taut_encode_run(encoder, &order->body, 1);
    taut_encode_utc(encoder, utc_ns, 3);
    taut_encode_run(encoder, &order->body, 2);
}

int load_echo_make(struct load_echo *echo, const struct load_order *order,
                   const struct load_plan *plan, uint32_t session, uint64_t utc_ns,
                   struct taut_err *err)
{
    static const uint8_t tag[] = "\x01"
                                 "11=";
    struct taut_encoder encoder;
    char comp_id[64];
    uint8_t *message;
    uint32_t length;
    memset(echo, 0, sizeof(*echo));
    load_comp_id(plan, session, comp_id);
    taut_encode_begin(&encoder, echo->bytes, sizeof(echo->bytes));
    taut_encode_field(&encoder, 35, "D", 1);
    taut_encode_field_u64(&encoder, 34, 1);
    taut_encode_field(&encoder, 49, comp_id, (uint32_t)strlen(comp_id));
    taut_encode_field_utc(&encoder, 52, utc_ns, 3);
    taut_encode_field(&encoder, 56, plan->target, (uint32_t)strlen(plan->target));
    load_order_body(order, &encoder, 1, utc_ns);
    int code =
        taut_encode_finish(&encoder, BEGIN_STRING, sizeof(BEGIN_STRING) - 1, &message, &length);
    if (code)
        return taut_err_set(err, code, "the order does not fit %u bytes", LOAD_ECHO_BYTES);
    memmove(echo->bytes, message, length);
    echo->length = length;
    echo->checksum_offset = length - 4;
    const uint8_t *found = memmem(echo->bytes, length, tag, sizeof(tag) - 1);
    TAUT_CHECK(found != NULL);
    echo->id_offset = (uint32_t)(found - echo->bytes) + (uint32_t)sizeof(tag) - 1;
    for (uint32_t i = 0; i < length - TAUT_ENCODE_TRAILER; i++)
        if (i < echo->id_offset || i >= echo->id_offset + LOAD_ID_DIGITS)
            echo->sum_without_id += echo->bytes[i];
    return 0;
}

void load_echo_set_id(struct load_echo *echo, uint64_t id)
{
    uint8_t *digits = echo->bytes + echo->id_offset;
    uint8_t *checksum = echo->bytes + echo->checksum_offset;
    uint32_t sum = echo->sum_without_id;
    load_id_write(digits, id);
    for (uint32_t i = 0; i < LOAD_ID_DIGITS; i++)
        sum += digits[i];
    sum &= 0xff;
    checksum[0] = (uint8_t)('0' + sum / 100);
    checksum[1] = (uint8_t)('0' + sum / 10 % 10);
    checksum[2] = (uint8_t)('0' + sum % 10);
}
