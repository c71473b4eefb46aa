/* SPDX-License-Identifier: BSD-2-Clause */
/* taut/taut.h - all public headers of libtaut, and its version. */
#ifndef TAUT_TAUT_H
#define TAUT_TAUT_H

#include <taut/clock.h>
#include <taut/encode.h>
#include <taut/err.h>
#include <taut/gateway.h>
#include <taut/lock.h>
#include <taut/log.h>
#include <taut/number.h>
#include <taut/port.h>
#include <taut/queue.h>
#include <taut/scan.h>
#include <taut/session.h>
#include <taut/topology.h>
#include <taut/wait.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0": the version of the library that is loaded. */
TAUT_API const char *taut_version(void);

#ifdef __cplusplus
}
#endif
#endif
