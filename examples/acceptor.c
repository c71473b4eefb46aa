/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * examples/acceptor.c - a FIX.4.4 acceptor with a handler of its own, the least that there is.
 *
 * Each NewOrderSingle is answered by an ExecutionReport that fills it; whoever logs on to TAUT is
 * let in. Try it: `acceptor 9881 &` and `taut load fix://127.0.0.1:9881 --sessions 4`. Ctrl-C ends
 * it.
 *
 *     cc -o acceptor acceptor.c $(pkg-config --cflags --libs taut)
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <taut/taut.h>

/* Copies a field of the order into the answer; nothing where the order has none. */
static void copy(struct taut_encoder *answer, const struct taut_message *order, uint32_t tag)
{
    uint32_t length;
    const uint8_t *value = taut_message_get(order, tag, &length);
    if (value)
        taut_encode_field(answer, tag, value, length);
}

/* On the worker's thread, once for each application message in sequence. */
static void on_message(void *context, struct taut_call *call, const struct taut_message *message)
{
    struct taut_encoder answer;
    (void)context;
    if (taut_message_type(message) != 'D')
        return;
    if (taut_gateway_begin(call, "8", &answer) != 0)
        return; /* not logged on any more, or the peer does not read */
    uint64_t id = taut_call_unique(call);
    taut_encode_field_u64(&answer, 37, id); /* OrderID */
    copy(&answer, message, 11);             /* ClOrdID */
    taut_encode_field_u64(&answer, 17, id); /* ExecID */
    taut_encode_field(&answer, 150, "F", 1);
    taut_encode_field(&answer, 39, "2", 1);
    copy(&answer, message, 55);
    copy(&answer, message, 54);
    copy(&answer, message, 38);
    taut_encode_field(&answer, 151, "0", 1);
    uint32_t length;
    const uint8_t *quantity = taut_message_get(message, 38, &length);
    const uint8_t *price = taut_message_get(message, 44, &length);
    if (quantity && price) {
        taut_encode_field(&answer, 6, price, length);
        quantity = taut_message_get(message, 38, &length);
        taut_encode_field(&answer, 14, quantity, length);
    }
    if (taut_gateway_commit(call, &answer) != 0)
        fprintf(stderr, "acceptor: an answer did not fit\n");
}

int main(int argc, char **argv)
{
    static const struct taut_handler handler = {.name = "example", .on_message = on_message};
    static const struct taut_log log = {.fd = 2, .level = TAUT_LOG_WARNING, .program = "acceptor"};
    /* any_target: this one is the template for everybody who logs on to TAUT */
    const struct taut_session_config session = {.size = sizeof(session),
                                                .version = TAUT_FIX_4_4,
                                                .sender_comp_id = "TAUT",
                                                .target_comp_id = "ANYBODY"};
    struct taut_gateway_options options = {.size = sizeof(options),
                                           .port_number = 9881,
                                           .sessions = &session,
                                           .session_count = 1,
                                           .any_target = 1,
                                           .handler = &handler,
                                           .log = &log};
    struct taut_gateway *gateway;
    struct taut_err err = {0};
    sigset_t signals;
    int got;
    if (argc > 1)
        options.port_number = (uint16_t)strtoul(argv[1], NULL, 10); /* 0 = any free one */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before the workers are there: they inherit it */
    if (taut_gateway_create(&gateway, &options, &err) != 0) {
        fprintf(stderr, "acceptor: %s\n", err.text);
        return 1;
    }
    if (taut_gateway_start(gateway, &err) != 0) {
        fprintf(stderr, "acceptor: %s\n", err.text);
        taut_gateway_destroy(gateway);
        return 1;
    }
    printf("listening on 127.0.0.1:%u\n", taut_gateway_port(gateway));
    fflush(stdout);
    sigwait(&signals, &got);
    taut_gateway_stop(gateway, taut_deadline_ns(taut_now_ns(), 2 * TAUT_NS_PER_S));
    taut_gateway_destroy(gateway);
    return 0;
}
