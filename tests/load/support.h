/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers of the tests of load: plans, directories, a server that sends everything back. */
#ifndef TESTS_LOAD_SUPPORT_H
#define TESTS_LOAD_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "load/load.h"

/* A new directory, by a name that its caller keeps. */
void make_folder(char *path, size_t size);

/* Removes the raw files that the plan may have made, and their directory. */
void remove_folder(const struct load_plan *plan);

/* A plan of `sessions` over `processes` against 127.0.0.1, nothing bound, no session layer. */
void make_plan(struct load_plan *plan, const char *folder, uint32_t sessions, uint32_t processes,
               uint32_t runs, uint64_t warmup, uint64_t measure);

/* Listens on a free port of the loopback interface; returns the socket. */
int listen_any(uint16_t *port_number);

/* Sends everything back, on up to 64 connections, until *stop. `hold`: from this many bytes on it
 * says nothing any more, 0 = never. */
void echo_until(int listener, const _Atomic uint32_t *stop, uint64_t hold);

#endif
