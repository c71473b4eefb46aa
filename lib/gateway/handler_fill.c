/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/handler_fill.c - every order is filled at once, at its own price.
 *
 * NewOrderSingle -> one ExecutionReport (150=F, 39=2). Every report has the same length: ExecID
 * comes last, and leading zeros bring the message to REPORT_BYTES where its other fields leave room
 * for them, so that a load test's messages do not grow with their sequence numbers. OrderID and
 * ExecID carry the same number, which no other order of this gateway gets.
 *
 * TransactTime (60) is left out: the report is made while the message is handled, so SendingTime
 * (52) says the same.
 *
 * An order that lacks a field that FIX requires is answered by a Reject (373=1, or 4 where the
 * field is empty), a quantity or price that is no number by 373=6; an order without a price by a
 * BusinessMessageReject (380=5), another message type by one with 380=3.
 */
#include <pthread.h>
#include <string.h>

#include <taut/gateway.h>

#define REPORT_BYTES    212u
#define ORDER_ID_DIGITS 12u
#define EXEC_ID_MAX     40u

enum { REQUIRED_MISSING = 1, NO_VALUE = 4, WRONG_VALUE = 5, WRONG_FORMAT = 6 };

struct value {
    const uint8_t *text;
    uint32_t length;
};

struct order {
    struct value id, symbol, side, quantity, price;
};

/* Compiled once in a process, constant afterwards. */
static struct taut_template report;
static pthread_once_t report_once = PTHREAD_ONCE_INIT;

static void compile(void)
{
    taut_template_compile(
        &report, "37=$|11=$|150=F|39=2|55=$|54=$|38=$|44=$|32=$|31=$|151=0|14=$|6=$|17=$|", NULL);
}

/* `digits` of the number, or more where it has more. */
static uint32_t format_padded(uint8_t *text, uint64_t number, uint32_t digits)
{
    uint8_t plain[TAUT_INTEGER_TEXT_MAX];
    uint32_t length = (uint32_t)taut_format_u64(plain, number);
    uint32_t zeros = digits > length ? digits - length : 0;
    memset(text, '0', zeros);
    memcpy(text + zeros, plain, length);
    return zeros + length;
}

static void put(struct taut_encoder *e, uint32_t run, struct value value)
{
    taut_encode_run(e, &report, run);
    taut_encode_bytes(e, value.text, value.length);
}

/* How many digits of ExecID bring the message to REPORT_BYTES. Behind them come one SOH and the
 * trailer; in front of the body "8=...|9=ddd|". */
static uint32_t exec_id_digits(const struct taut_encoder *e, const struct taut_message *m)
{
    uint32_t header = 2 + m->begin_string_length + 1 + 2 + 3 + 1;
    uint32_t used = header + (e->position - e->body) + 1 + TAUT_ENCODE_TRAILER;
    uint32_t digits = used < REPORT_BYTES ? REPORT_BYTES - used : 0;
    return digits < EXEC_ID_MAX ? digits : EXEC_ID_MAX;
}

static void answer(struct taut_call *call, const struct taut_message *m, const struct order *order)
{
    struct taut_encoder e;
    uint8_t text[EXEC_ID_MAX + TAUT_INTEGER_TEXT_MAX];
    uint64_t number = taut_call_unique(call);
    if (taut_gateway_begin(call, "8", &e) != 0)
        return;
    put(&e, 0, (struct value){text, format_padded(text, number, ORDER_ID_DIGITS)});
    put(&e, 1, order->id);
    put(&e, 2, order->symbol);
    put(&e, 3, order->side);
    put(&e, 4, order->quantity);
    put(&e, 5, order->price);
    put(&e, 6, order->quantity);
    put(&e, 7, order->price);
    put(&e, 8, order->quantity);
    put(&e, 9, order->price);
    taut_encode_run(&e, &report, 10);
    uint32_t digits = exec_id_digits(&e, m);
    taut_encode_bytes(&e, text, format_padded(text, number, digits));
    taut_encode_run(&e, &report, 11);
    taut_gateway_commit(call, &e);
}

static void business_reject(struct taut_call *call, const struct taut_message *m, uint64_t reason,
                            const char *text)
{
    struct taut_encoder e;
    uint32_t length = 0;
    if (taut_gateway_begin(call, "j", &e) != 0)
        return;
    const uint8_t *seq = taut_message_get(m, 34, &length);
    taut_encode_field(&e, 45, seq, length);
    taut_encode_text(&e, 58, text, (uint32_t)strlen(text));
    taut_encode_field(&e, 372, m->data + m->begin[2], m->end[2] - m->begin[2]);
    taut_encode_field_u64(&e, 380, reason);
    taut_gateway_commit(call, &e);
}

/* 0, or the SessionRejectReason. */
static uint32_t get(const struct taut_message *m, uint32_t tag, struct value *value)
{
    value->text = taut_message_get(m, tag, &value->length);
    if (!value->text)
        return REQUIRED_MISSING;
    return value->length ? 0 : NO_VALUE;
}

static uint32_t get_decimal(const struct taut_message *m, uint32_t tag, struct value *value)
{
    struct taut_decimal number;
    uint32_t reason = get(m, tag, value);
    if (!reason && taut_parse_decimal(value->text, value->length, &number) != 0)
        reason = WRONG_FORMAT;
    return reason;
}

/* Reads what FIX 4.4 requires of NewOrderSingle; *tag is the field at fault. */
static uint32_t read_order(const struct taut_message *m, struct order *order, uint32_t *tag)
{
    struct value unused;
    uint32_t reason = get(m, *tag = 11, &order->id);
    if (!reason)
        reason = get_decimal(m, *tag = 38, &order->quantity);
    if (!reason)
        reason = get(m, *tag = 40, &unused);
    if (!reason)
        reason = get(m, *tag = 54, &order->side);
    if (!reason && order->side.length != 1)
        reason = WRONG_VALUE;
    if (!reason)
        reason = get(m, *tag = 55, &order->symbol);
    if (!reason)
        reason = get(m, *tag = 60, &unused);
    return reason;
}

static void on_message(void *context, struct taut_call *call, const struct taut_message *message)
{
    struct order order;
    uint32_t tag = 0;
    (void)context;
    switch (taut_message_type(message)) {
    case 'D':
        break;
    case 'j': /* a complaint is never answered by a complaint */
        return;
    default:
        business_reject(call, message, 3, "Unsupported Message Type");
        return;
    }
    uint32_t reason = read_order(message, &order, &tag);
    if (!reason) {
        reason = get_decimal(message, tag = 44, &order.price);
        if (reason == REQUIRED_MISSING) {
            business_reject(call, message, 5, "Orders are filled at their price (44)");
            return;
        }
    }
    if (reason)
        taut_gateway_reject(call, message, reason, tag);
    else
        answer(call, message, &order);
}

const struct taut_handler *taut_handler_fill(void)
{
    static const struct taut_handler handler = {.name = "fill", .on_message = on_message};
    pthread_once(&report_once, compile);
    return &handler;
}

const struct taut_handler *taut_handler_named(const char *name)
{
    if (strcmp(name, "fill") == 0)
        return taut_handler_fill();
    return strcmp(name, "echo") == 0 ? taut_handler_echo() : NULL;
}
