/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/wait/lock_script.h - the steps that scripts of the lock consist of: what an actor does, and
 * what it must see.
 */
#ifndef TAUT_TESTS_WAIT_LOCK_SCRIPT_H
#define TAUT_TESTS_WAIT_LOCK_SCRIPT_H

#include "actors.h"

#define OWNER 0u
#define A     1u
#define B     2u
#define C     3u
#define OTHER 4u

#define WOKEN   TAUT__FUTEX_WOKEN
#define EXPIRED TAUT__FUTEX_EXPIRED

extern struct taut_lock the_lock;

/* Around each test: the actors. */
int setup(void **state);
int teardown(void **state);

/* Makes the lock; OWNER holds it. make(): nobody spins. */
void make(uint32_t policy);
void make_spinning(uint32_t policy, uint64_t spin_ns);

struct taut_lock_stats stats(void);

/* At rest nothing is left: no bit, nobody in the queue, and the lock can be ended. */
void at_rest(void);

void sleeps(uint32_t number, uint64_t deadline_ns);

/* Woken by the release before, it gets the lock now. */
void is_served(uint32_t number);

void releases(uint32_t number);

/* A newcomer that gets it at once, or does not. */
void barges(uint32_t number);
void is_refused(uint32_t number);

/* The holder re-takes at once, `times` times; holds it after. */
void bypasses(uint32_t number, uint32_t times);

/* A reason: *(int *)context. */
int is_set(void *context);

#endif
