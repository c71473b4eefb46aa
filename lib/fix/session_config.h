/* SPDX-License-Identifier: BSD-2-Clause */
/* fix/session_config.h - configurations of sessions from callers with another header. */
#ifndef TAUT_FIX_SESSION_CONFIG_H
#define TAUT_FIX_SESSION_CONFIG_H

#include <taut/session.h>

/* Copies `given`, a struct taut_session_config as its caller's header has it: base/options.h. */
int taut__session_config_take(struct taut_session_config *whole, const void *given,
                              struct taut_err *err);

/* The bytes that an accepted one has: how far the elements of its array lie apart. */
size_t taut__session_config_size(const struct taut_session_config *accepted);

#endif
