/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/futex.h - sleeping on a word until a deadline.
 *
 * A wait compares the word with `expected` and sleeps in one step of the kernel: a waker that first
 * changes the word and then wakes is never missed, whatever happens between the waiter's own look
 * at the word and its sleep. Deadlines are absolute CLOCK_MONOTONIC times, so that interrupted and
 * repeated waits do not add up.
 *
 * Threads: any. Blocking: the wait, until its deadline. Memory: the word must stay mapped until the
 * wait has returned; waking a word that nobody can wait on any more is harmless.
 */
#ifndef TAUT_BASE_FUTEX_H
#define TAUT_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

#include <taut/clock.h>

enum taut__futex_scope {
    TAUT__FUTEX_PRIVATE = 0, /* waiters and wakers are threads of this process */
    TAUT__FUTEX_SHARED = 1   /* the word lies in memory shared between processes */
};

enum taut__futex_outcome {
    TAUT__FUTEX_WOKEN = 0,      /* a wake, or none (spurious): look at the word again */
    TAUT__FUTEX_CHANGED = 1,    /* the word was not `expected`: did not sleep */
    TAUT__FUTEX_EXPIRED = 2,    /* the deadline passed */
    TAUT__FUTEX_INTERRUPTED = 3 /* a signal handler ran */
};

/*
 * Sleeps while *word == expected, until deadline_ns (TAUT_NEVER_NS: without end). A deadline in the
 * past still compares first: CHANGED, else EXPIRED. Returns enum taut__futex_outcome. The word is
 * read by the kernel; the acquire order of what it publishes is the caller's own next load of it.
 */
int taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                     uint32_t scope);

/* Wakes up to `count` waiters; returns how many were woken. */
uint32_t taut__futex_wake(const _Atomic uint32_t *word, uint32_t count, uint32_t scope);

#endif
