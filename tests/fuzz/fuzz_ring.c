/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations on a ring, one a byte, compared with a reference after each: see
 * tests/queue/ring_ops.c. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../queue/ring_ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *wrong = ring_ops_run(data, size);
    if (wrong) {
        printf("broken: %s\n", wrong);
        fflush(stdout);
        abort();
    }
    return 0;
}
