/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/order.h - the request: a NewOrderSingle whose ClOrdID says which request it is.
 *
 * A ClOrdID is LOAD_ID_DIGITS decimal digits, never 0: process * 10^10 + the number of the request
 * within its process, from 1, over all runs. No two requests of one invocation share one.
 *
 * Threads: a compiled order is read-only. Allocation, blocking: never.
 */
#ifndef LAB_LOAD_ORDER_H
#define LAB_LOAD_ORDER_H

#include <stdint.h>

#include <taut/encode.h>
#include <taut/err.h>

#include "load/load.h"

#define LOAD_ID_PER_PROCESS UINT64_C(10000000000)
#define LOAD_ECHO_BYTES     512u /* room for one whole message */

/* The template of the body, behind the standard header. */
struct load_order {
    struct taut_template body;
};

/* A whole message whose ClOrdID is changed in place. */
struct load_echo {
    uint32_t length;
    uint32_t id_offset;
    uint32_t checksum_offset; /* of the three digits */
    uint32_t sum_without_id;  /* of the bytes in front of the trailer, digits of the id left out */
    uint8_t bytes[LOAD_ECHO_BYTES];
};

int load_order_compile(struct load_order *order, struct taut_err *err);

/* Appends the body behind the header: ClOrdID `id`, TransactTime `utc_ns`. */
void load_order_body(const struct load_order *order, struct taut_encoder *encoder, uint64_t id,
                     uint64_t utc_ns);

/* Makes the whole message of a session, with sequence number 1 and a constant time. */
int load_echo_make(struct load_echo *echo, const struct load_order *order,
                   const struct load_plan *plan, uint32_t session, uint64_t utc_ns,
                   struct taut_err *err);

/* Sets the ClOrdID and the checksum. */
void load_echo_set_id(struct load_echo *echo, uint64_t id);

/* LOAD_ID_DIGITS digits, leading zeros. */
void load_id_write(uint8_t *text, uint64_t id);

/* The id, or 0 for anything that load_id_write() does not write. */
uint64_t load_id_read(const uint8_t *text, uint32_t length);

#endif
