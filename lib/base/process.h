/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/process.h - which process this is, against fork(2): an object that threads wait for can't be
 * carried into a child, where those threads do not exist. Objects remember the generation they were
 * made in and refuse in another.
 *
 * vfork(2), _Fork(3) and raw clone(2) run no handlers and are not noticed.
 *
 * Threads: any. Blocking: no. Allocation: the C library's, at the first call of a process.
 */
#ifndef TAUT_BASE_PROCESS_H
#define TAUT_BASE_PROCESS_H

#include <stdatomic.h>
#include <stdint.h>

/* Written by the fork handler only, when the child has one thread. Use the function below. */
extern _Atomic uint32_t taut__process_generation_now;

/*
 * Makes sure that forks are noticed from here on, and returns the generation: never 0, different in
 * a child. For the call that makes an object.
 */
uint32_t taut__process_generation_enter(void);

/* The generation, for comparison with a remembered one. One load. */
static inline uint32_t taut__process_generation(void)
{
    return atomic_load_explicit(&taut__process_generation_now, memory_order_relaxed);
}

/* The calling thread's id as gettid(2) gives it, read once a thread and again after a fork. */
int32_t taut__tid(void);

#endif
