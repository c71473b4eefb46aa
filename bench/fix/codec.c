/* SPDX-License-Identifier: BSD-2-Clause */
#include "codec.h"

#include <stdio.h>
#include <stdlib.h>

static const char report_text[] =
    "35=8|34=$|49=TAUT|52=$|56=C01|37=$|11=$|17=$|150=2|39=2|55=AAPL|54=1|38=$|44=$|32=$|31=$|14=$|"
    "6=$|60=$|";

void codec_init(struct codec *c, const struct messages *messages, taut_scan_function *scan)
{
    struct taut_err err = {0};
    c->messages = messages;
    c->scan = scan;
    c->sequence = 0;
    if (taut_template_compile(&c->report, report_text, &err) != 0) {
        fprintf(stderr, "bench: %s\n", err.text);
        abort();
    }
}

uint64_t codec_scan(struct codec *c, uint32_t count, bool chained)
{
    const struct messages *m = c->messages;
    uint64_t sum = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t reason = c->scan(&c->message, m->bytes + m->offset[next], m->length[next]);
        sum += reason + c->message.count;
        /* A good scan's reason is 0: a number that the CPU can't know before the scan ended. */
        next = next + 1 < m->count ? next + 1 : 0;
        next += chained ? reason + (c->message.tag[c->message.count - 2] >> 31) : 0;
    }
    return sum;
}

uint64_t codec_frame_and_scan(struct codec *c, uint32_t count)
{
    const struct messages *m = c->messages;
    uint64_t sum = 0, at = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct taut_frame frame;
        sum += (uint32_t)taut_frame_next(m->bytes + at, m->total_bytes - at, 65536,
                                         TAUT_RESYNC_STRICT, &frame);
        sum += c->scan(&c->message, m->bytes + at, frame.length) + c->message.count;
        at += frame.length;
        at = at < m->total_bytes ? at : 0;
    }
    return sum;
}

uint64_t codec_encode(struct codec *c, uint32_t count)
{
    const struct taut_template *t = &c->report;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t n = 1000000 + ++c->sequence;
        struct taut_decimal price = {.mantissa = 108000 + (int64_t)(n % 1000), .scale = 5};
        uint64_t now_ns = 1700000000000000000u + n * 7919;
        struct taut_encoder e;
        taut_encode_begin(&e, c->buffer, sizeof c->buffer);
        taut_encode_run(&e, t, 0);
        taut_encode_u64(&e, n);
        taut_encode_run(&e, t, 1);
        taut_encode_utc(&e, now_ns, 3);
        taut_encode_run(&e, t, 2);
        taut_encode_u64(&e, n);
        taut_encode_run(&e, t, 3);
        taut_encode_bytes(&e, "O1", 2);
        taut_encode_run(&e, t, 4);
        taut_encode_u64(&e, n);
        taut_encode_run(&e, t, 5);
        taut_encode_u64(&e, 1000);
        taut_encode_run(&e, t, 6);
        taut_encode_decimal(&e, price);
        taut_encode_run(&e, t, 7);
        taut_encode_u64(&e, 1000);
        taut_encode_run(&e, t, 8);
        taut_encode_decimal(&e, price);
        taut_encode_run(&e, t, 9);
        taut_encode_u64(&e, 1000);
        taut_encode_run(&e, t, 10);
        taut_encode_decimal(&e, price);
        taut_encode_run(&e, t, 11);
        taut_encode_utc(&e, now_ns, 3);
        taut_encode_run(&e, t, 12);
        uint8_t *message;
        uint32_t length;
        if (taut_encode_finish(&e, "FIX.4.4", 7, &message, &length) != 0 ||
            length != ENCODED_BYTES) {
            fprintf(stderr, "bench: a report of %u bytes\n", length);
            abort();
        }
        sum += length + message[length - 2];
    }
    return sum;
}
