/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of the FIX benchmarks: ExecutionReports of 252 bytes and 26 fields whose fields lie
 * at other places in every message, and a mix of types and sizes as a session has them. The same
 * bytes on every run and machine.
 */
#ifndef TAUT_BENCH_FIX_MESSAGES_H
#define TAUT_BENCH_FIX_MESSAGES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REPORT_BYTES  252u
#define REPORT_FIELDS 26u

struct messages {
    uint8_t *bytes; /* all of them, TAUT_SCAN_PADDING readable bytes behind the last */
    uint32_t *offset, *length;
    uint32_t count;
    uint64_t total_bytes, total_fields;
};

/* `count` reports, or a mix of reports, orders, heartbeats and cancels. Aborts where memory ends.
 */
struct messages messages_reports(uint32_t count);
struct messages messages_mixed(uint32_t count);
void messages_free(struct messages *messages);

#ifdef __cplusplus
}
#endif
#endif
