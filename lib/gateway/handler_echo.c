/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/handler_echo.c - any application message comes back, its body byte for byte.
 *
 * The header is our own (CompIDs turned round, our number and time); everything that is no field of
 * the standard header or trailer is copied as it stands, in runs as long as possible, so that
 * groups and data fields come back as they were.
 */
#include <string.h>

#include <taut/gateway.h>

/* Fields of the standard header and trailer (FIX 4.4 volume 1, "Standard message header"). Not
 * among them: 212 and 213, which carry the content of an XML message. */
static int is_header(uint32_t tag)
{
    switch (tag) {
    case 8:
    case 9:
    case 10:
    case 34:
    case 35:
    case 43:
    case 49:
    case 50:
    case 52:
    case 56:
    case 57:
    case 89:
    case 90:
    case 91:
    case 93:
    case 97:
    case 115:
    case 116:
    case 122:
    case 128:
    case 129:
    case 142:
    case 143:
    case 144:
    case 145:
    case 347:
    case 369:
    case 627:
    case 628:
    case 629:
    case 630:
    case 1128:
    case 1129:
    case 1156:
        return 1;
    default:
        return 0;
    }
}

static void copy_body(struct taut_encoder *e, const struct taut_message *m)
{
    uint32_t run_begin = 0, run_end = 0;
    for (uint32_t i = 3; i < m->count; i++) {
        if (is_header(m->tag[i]))
            continue;
        uint32_t begin = m->end[i - 1] + 1; /* of the tag */
        if (begin != run_end) {
            taut_encode_bytes(e, m->data + run_begin, run_end - run_begin);
            run_begin = begin;
        }
        run_end = m->end[i] + 1;
    }
    taut_encode_bytes(e, m->data + run_begin, run_end - run_begin);
}

static void on_message(void *context, struct taut_call *call, const struct taut_message *message)
{
    char type[33];
    struct taut_encoder encoder;
    uint32_t length = message->end[2] - message->begin[2];
    (void)context;
    if (length < sizeof(type)) {
        memcpy(type, message->data + message->begin[2], length);
        type[length] = '\0';
        if (taut_gateway_begin(call, type, &encoder) == 0) {
            copy_body(&encoder, message);
            taut_gateway_commit(call, &encoder); /* what does not fit is not answered */
        }
        return;
    }
    taut_gateway_reject(call, message, 5, 35);
}

const struct taut_handler *taut_handler_echo(void)
{
    static const struct taut_handler handler = {.name = "echo", .on_message = on_message};
    return &handler;
}
