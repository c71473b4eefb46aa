/* SPDX-License-Identifier: BSD-2-Clause */
/* base/fence.c - a full fence, as a call. */
#include "base/fence.h"

#include <stdatomic.h>

void taut__full_fence(void)
{
    /* seq_cst: all fences are in one order, so of two threads that store, fence and look, the one
     * whose fence is later sees what the other has stored. */
    atomic_thread_fence(memory_order_seq_cst);
}
