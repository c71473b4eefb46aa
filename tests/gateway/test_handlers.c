/* SPDX-License-Identifier: BSD-2-Clause */
/* What the handlers `fill` and `echo` answer, byte for byte. */
#include <stdio.h>
#include <string.h>

#include "support.h"

static struct peer peer;

static struct taut_gateway *start(const char *handler)
{
    struct taut_gateway_options options = {.handler = taut_handler_named(handler)};
    struct taut_gateway *gateway = start_gateway(&options, 2);
    peer_logon(&peer, gateway, "P0000");
    return gateway;
}

/* The message in hand without BodyLength, SendingTime and CheckSum, which the peer has checked or
 * can't know. */
static const char *stable(void)
{
    static char text[8192];
    const char *begin = strstr(peer.message, "|35="), *time = strstr(peer.message, "|52=");
    const char *after = strstr(time + 1, "|"), *trailer = strstr(peer.message, "|10=");
    assert_true(begin && time && after && trailer && after - time == 25);
    snprintf(text, sizeof(text), "%.*s%.*s|", (int)(time - begin - 1), begin + 1,
             (int)(trailer - after), after);
    return text;
}

static void ask(const char *type, const char *body)
{
    peer_send(&peer, type, body);
    assert_int_equal(peer_receive(&peer), 1);
}

static void order_is_filled_in_212_bytes(void **state)
{
    struct taut_gateway *gateway = start("fill");
    (void)state;
    ask("D", ORDER("123456789012"));
    assert_int_equal(peer.message_length, 212);
    assert_memory_equal(peer.message, "8=FIX.4.4|9=189|35=8|", 21);
    assert_string_equal(stable(), "35=8|34=2|49=TAUT|56=P0000|37=000000000001|11=123456789012|"
                                  "150=F|39=2|55=EUR/USD|54=1|38=100|44=1.12345|32=100|31=1.12345|"
                                  "151=0|14=100|6=1.12345|17=000000000000001|");
    assert_int_equal(stats_of(gateway, 0).app_out, 1);
    stop_gateway(gateway);
}

/* The sequence numbers get longer, the reports do not, and no ExecID comes twice. */
static void length_stays_while_numbers_grow(void **state)
{
    struct taut_gateway *gateway = start("fill");
    char last[64] = "";
    (void)state;
    for (int i = 0; i < 1200; i++) {
        ask("D", ORDER("000000000001"));
        assert_int_equal(peer.message_length, 212);
        assert_string_not_equal(peer_field(&peer, "17"), last);
        snprintf(last, sizeof(last), "%s", peer_field(&peer, "17"));
    }
    assert_string_equal(peer_field(&peer, "34"), "1201");
    assert_string_equal(peer_field(&peer, "37"), "000000001200");
    stop_gateway(gateway);
}

static void long_order_gives_a_longer_report(void **state)
{
    struct taut_gateway *gateway = start("fill");
    (void)state;
    ask("D", "11=a-client-order-id-of-fifty-bytes-0123456789-abcdef|55=A|54=2|60=x|38=1.50|40=2|"
             "44=1000000.25|");
    assert_true(peer.message_length > 212);
    assert_string_equal(peer_field(&peer, "17"), "1");
    assert_string_equal(peer_field(&peer, "14"), "1.50");
    assert_string_equal(peer_field(&peer, "31"), "1000000.25");
    stop_gateway(gateway);
}

static void what_is_missing_is_rejected(void **state)
{
    static const struct {
        const char *body, *answer;
    } cases[] = {
        {"55=A|54=1|60=x|38=1|40=2|44=1|", "58=Required tag missing|371=11|372=D|373=1|"},
        {"11=1|54=1|60=x|38=1|40=2|44=1|", "58=Required tag missing|371=55|372=D|373=1|"},
        {"11=1|55=A|60=x|38=1|40=2|44=1|", "58=Required tag missing|371=54|372=D|373=1|"},
        {"11=1|55=A|54=1|38=1|40=2|44=1|", "58=Required tag missing|371=60|372=D|373=1|"},
        {"11=1|55=A|54=1|60=x|40=2|44=1|", "58=Required tag missing|371=38|372=D|373=1|"},
        {"11=1|55=A|54=1|60=x|38=1|44=1|", "58=Required tag missing|371=40|372=D|373=1|"},
        {"11=1|55=A|54=1|60=x|38=1x|40=2|44=1|",
         "58=Incorrect data format for value|371=38|372=D|373=6|"},
        {"11=1|55=A|54=1|60=x|38=1|40=2|44=1e5|",
         "58=Incorrect data format for value|371=44|372=D|373=6|"},
        {"11=1|55=A|54=11|60=x|38=1|40=2|44=1|",
         "58=Value is incorrect (out of range) for this tag|371=54|372=D|373=5|"},
    };
    struct taut_gateway *gateway = start("fill");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[256];
        ask("D", cases[i].body);
        snprintf(expected, sizeof(expected), "35=3|34=%zu|49=TAUT|56=P0000|45=%zu|%s", i + 2, i + 2,
                 cases[i].answer);
        assert_string_equal(stable(), expected);
    }
    assert_int_equal(stats_of(gateway, 0).rejected, sizeof(cases) / sizeof(cases[0]));
    assert_int_equal(stats_of(gateway, 0).app_out, 0);
    stop_gateway(gateway);
}

static void other_types_are_rejected_by_business(void **state)
{
    struct taut_gateway *gateway = start("fill");
    (void)state;
    ask("F", "11=2|41=1|55=A|54=1|60=x|");
    assert_string_equal(stable(), "35=j|34=2|49=TAUT|56=P0000|45=2|58=Unsupported Message Type|"
                                  "372=F|380=3|");
    ask("D", "11=1|55=A|54=1|60=x|38=1|40=1|");
    assert_string_equal(stable(), "35=j|34=3|49=TAUT|56=P0000|45=3|"
                                  "58=Orders are filled at their price (44)|372=D|380=5|");
    /* A reject is not answered: the next answer belongs to the order behind it. */
    peer_send(&peer, "j", "45=2|372=8|380=0|");
    ask("D", ORDER("000000000007"));
    assert_string_equal(peer_field(&peer, "35"), "8");
    assert_string_equal(peer_field(&peer, "34"), "4");
    stop_gateway(gateway);
}

static void echo_gives_the_body_back(void **state)
{
    struct taut_gateway *gateway = start("echo");
    (void)state;
    ask("D", ORDER("000000000001"));
    assert_string_equal(stable(), "35=D|34=2|49=TAUT|56=P0000|" ORDER("000000000001"));
    /* Header fields of the peer stay out, groups keep their order. */
    ask("E", "50=DESK|57=T|453=2|448=a|452=1|448=b|452=2|58=x|");
    assert_string_equal(stable(), "35=E|34=3|49=TAUT|56=P0000|453=2|448=a|452=1|448=b|452=2|58=x|");
    ask("UX", "115=a|5001=q|128=b|5002=r|");
    assert_string_equal(stable(), "35=UX|34=4|49=TAUT|56=P0000|5001=q|5002=r|");
    /* A data field may hold what looks like a field of the header. */
    ask("B", "148=h|95=7|96=1|34=99|");
    assert_string_equal(stable(), "35=B|34=5|49=TAUT|56=P0000|148=h|95=7|96=1|34=99|");
    stop_gateway(gateway);
}

static void names(void **state)
{
    (void)state;
    assert_ptr_equal(taut_handler_named("fill"), taut_handler_fill());
    assert_ptr_equal(taut_handler_named("echo"), taut_handler_echo());
    assert_null(taut_handler_named("fil"));
    assert_int_equal(taut_shape_from("single"), TAUT_SHAPE_SINGLE);
    assert_int_equal(taut_shape_from("owned"), TAUT_SHAPE_OWNED);
    assert_int_equal(taut_shape_from("shared"), -1);
    assert_string_equal(taut_shape_name(TAUT_SHAPE_OWNED), "owned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_filled_in_212_bytes),
        cmocka_unit_test(length_stays_while_numbers_grow),
        cmocka_unit_test(long_order_gives_a_longer_report),
        cmocka_unit_test(what_is_missing_is_rejected),
        cmocka_unit_test(other_types_are_rejected_by_business),
        cmocka_unit_test(echo_gives_the_body_back),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("gateway/handlers", tests, NULL, NULL);
}
