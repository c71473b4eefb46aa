/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/process.c - a counter that the child of a fork moves. pthread_atfork(3) rather than
 * comparing getpid(2): that is a system call for every comparison.
 */
#include "base/process.h"

#include <pthread.h>
#include <unistd.h>

#include "base/check.h"

_Atomic uint32_t taut__process_generation_now = 1;

static pthread_once_t registered = PTHREAD_ONCE_INIT;
static _Thread_local int32_t own_tid;
static _Thread_local uint32_t own_tid_generation; /* 0: not read yet */

static void move_generation(void)
{
    uint32_t next = taut__process_generation() + 1;
    /* 0 is what an object that was never made holds. */
    atomic_store_explicit(&taut__process_generation_now, next != 0 ? next : 1,
                          memory_order_relaxed);
}

static void register_handler(void)
{
    /* Without the handler a child would wait for threads that it has not got. */
    TAUT_CHECK(pthread_atfork(NULL, NULL, move_generation) == 0);
}

uint32_t taut__process_generation_enter(void)
{
    TAUT_CHECK(pthread_once(&registered, register_handler) == 0);
    return taut__process_generation();
}

int32_t taut__tid(void)
{
    /* The first reading of a thread registers the handler, so a stale one is always recognised. */
    if (own_tid_generation != taut__process_generation()) {
        own_tid_generation = taut__process_generation_enter();
        own_tid = (int32_t)gettid();
    }
    return own_tid;
}
