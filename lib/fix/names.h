/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix/names.h - built-in names of tags, message types and values, for people who read messages.
 *
 * Tags: all of FIX 4.0 to 4.4 and FIXT.1.1. Message types: all of 4.4 and of the session layer.
 * Values: those of header, session layer, orders, executions, cancels, rejects and basic market
 * data. What is said of a value is Taut's own wording. A dictionary, where one is loaded, knows
 * more.
 *
 * Threads: all functions are pure; the strings are static.
 */
#ifndef TAUT_FIX_NAMES_H
#define TAUT_FIX_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* "ClOrdID" for 11; NULL for a tag that is not known. */
const char *taut__tag_name(uint32_t tag);

/* "NewOrderSingle" for "D"; NULL for a type that is not known. */
const char *taut__msg_type_name(const uint8_t *type, size_t length);

/* What a tag's value means: "buy" for 54=1, "yes" for 43=Y, "Logon" for 35=A; NULL where nothing is
 * known. Values with several words ("1 G") are looked up by their first. */
const char *taut__value_meaning(uint32_t tag, const uint8_t *value, size_t length);

/*
 * 1 for a tag whose value must not be shown: passwords, new passwords and their encrypted forms;
 * RawData (96) in a Logon, where it carries credentials. `type` is MsgType's value, may be NULL:
 * then 96 counts as secret.
 */
int taut__tag_is_secret(uint32_t tag, const uint8_t *type, size_t type_length);

#endif
