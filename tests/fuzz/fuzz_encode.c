/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The encoder as a little machine. The first three bytes choose the capacity and how to begin, then
 * comes a template's text up to a zero byte, then operations with their operands. The buffer is a
 * heap block of exactly its capacity. A message that is finished must be a good frame.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/encode.h>
#include <taut/scan.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good, const char *what)
{
    if (good)
        return;
    printf("broken: %s\n", what);
    fflush(stdout);
    abort();
}

struct input {
    const uint8_t *at, *end;
};

static uint8_t take(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static uint64_t take_number(struct input *in)
{
    uint64_t value = 0;
    for (uint32_t bytes = take(in) % 9; bytes > 0; bytes--)
        value = value << 8 | take(in);
    return value;
}

static const void *take_bytes(struct input *in, uint32_t *length)
{
    uint32_t left = (uint32_t)(in->end - in->at), wanted = take(in);
    *length = left < 2 ? 0 : wanted < left - 1 ? wanted : left - 1;
    const void *bytes = in->at;
    in->at += *length;
    return bytes;
}

static void operate(struct taut_encoder *e, const struct taut_template *t, struct input *in)
{
    uint32_t length, tag = 1 + take(in);
    const void *bytes;
    switch (take(in) % 10) {
    case 0:
        taut_encode_run(e, t, take(in) % (t->values + 1));
        break;
    case 1:
        taut_encode_u64(e, take_number(in));
        break;
    case 2:
        taut_encode_i64(e, (int64_t)take_number(in));
        break;
    case 3:
        taut_encode_decimal(e, (struct taut_decimal){(int64_t)take_number(in), take(in) % 19});
        break;
    case 4:
        taut_encode_utc(e, take_number(in), take(in) % 10);
        break;
    case 5:
        taut_encode_field_u64(e, tag, take_number(in));
        break;
    case 6:
        taut_encode_field_utc(e, tag, take_number(in), take(in) % 10);
        break;
    case 7:
        bytes = take_bytes(in, &length);
        taut_encode_field(e, tag, bytes, length);
        break;
    case 8:
        bytes = take_bytes(in, &length);
        taut_encode_text(e, tag, bytes, length);
        must(e->overflow || !length || !memchr(bytes, TAUT_SOH, length), "forged field");
        break;
    default:
        bytes = take_bytes(in, &length);
        taut_encode_bytes(e, bytes, length);
    }
}

/* The finished message, given to the framer and the scanner with padding behind it. */
static void check_message(const uint8_t *message, uint32_t length)
{
    static struct taut_message scanned;
    uint8_t *copy = calloc(1, (size_t)length + TAUT_SCAN_PADDING);
    must(copy != NULL, "out of memory");
    memcpy(copy, message, length);
    struct taut_frame frame;
    must(taut_frame_next(copy, length, 1u << 20, TAUT_RESYNC_STRICT, &frame) == TAUT_FRAME_READY &&
             frame.length == length,
         "frame");
    uint32_t reason = taut_scan_select(TAUT_SCAN_AUTO)(&scanned, copy, length);
    must(reason == 0 || reason > TAUT_GARBLED_CHECKSUM, "checksum");
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct taut_template t;
    struct input in = {data, data + size};
    uint32_t capacity = (uint32_t)take(&in) << 8;
    capacity |= take(&in);
    uint8_t how = take(&in);
    char text[1400];
    uint32_t at = 0;
    while (in.at < in.end && *in.at && at < sizeof text - 1)
        text[at++] = (char)*in.at++;
    text[at] = 0;
    take(&in); /* the zero byte */
    memset(&t, 0, sizeof t);
    int code = taut_template_compile(&t, text, NULL);
    must(code == 0 || code == TAUT_EFORMAT || code == TAUT_ENOSPC, "template code");
    must(t.values <= TAUT_TEMPLATE_VALUES && t.run_end[t.values] <= TAUT_TEMPLATE_BYTES,
         "template");

    uint8_t *buffer = malloc(capacity ? capacity : 1), *message = NULL;
    uint32_t length = 0, begin_length = 1 + (how >> 1) % 16;
    must(buffer != NULL, "out of memory");
    struct taut_encoder e;
    if (how & 1)
        taut_encode_begin_tight(&e, buffer, capacity, begin_length);
    else
        taut_encode_begin(&e, buffer, capacity);
    while (in.at < in.end)
        operate(&e, &t, &in);
    code = taut_encode_finish(&e, "FIX.ABCDEFGHIJKL", begin_length, &message, &length);
    must(code == 0 || code == TAUT_EFORMAT || code == TAUT_ENOSPC, "finish code");
    if (code == 0) {
        must(message >= buffer && length <= capacity, "message inside the buffer");
        must((size_t)(message - buffer) <= capacity - length, "message inside the buffer");
        /* A body that does not end with SOH is no FIX body: the framer sees no trailer. */
        if (e.position > e.body && buffer[e.position - 1] == TAUT_SOH)
            check_message(message, length);
    }
    free(buffer);
    return 0;
}
