/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/wait/actors.h - threads that run one at a time, on a clock that stands still.
 *
 * Each actor is a real thread that does one call on a lock; it runs when the script lets it, until
 * it sleeps (the futex is wrapped), stops at a look at the clock if told to, or is done. So a
 * script fixes an interleaving, and what each thread saw is the same in every run. Who is asleep is
 * resumed by the script with the outcome that the kernel shall give, whether woken or not: a
 * time-out that races a wake-up is both at once.
 *
 * Link with -Wl,--wrap= of taut__futex_wait, taut__futex_wake, taut__full_fence and clock_gettime.
 */
#ifndef TAUT_TESTS_WAIT_ACTORS_H
#define TAUT_TESTS_WAIT_ACTORS_H

#include <pthread.h>
#include <semaphore.h>

#include <taut/lock.h>

#include "base/futex.h"

#define ACTORS 8

enum actor_state { ACTOR_IDLE, ACTOR_ASLEEP, ACTOR_AT_CLOCK, ACTOR_AT_FUTEX, ACTOR_AT_FENCE };

enum actor_call { CALL_ACQUIRE, CALL_OR, CALL_TRY, CALL_RELEASE, CALL_LOOK, CALL_END };

struct actor {
    /* what the last call gave */
    int result;
    struct taut_lock_report report;
    /* what it does now */
    enum actor_state state;
    uint32_t woken;         /* wake-ups of the word it sleeps on, since it fell asleep */
    uint64_t until_ns;      /* the deadline it sleeps with */
    uint32_t sleeps;        /* of this call */
    uint32_t clock_looks;   /* of this call */
    uint32_t stop_at_clock; /* stop at the n-th look at the clock from here; 0 = never */
    uint32_t stop_at_futex; /* 1: stop once before the kernel compares the word it will sleep on */
    uint32_t stop_at_fence; /* 1: stop once at a full fence */
    int32_t tid;
    /* internal */
    enum actor_call call;
    struct taut_lock *lock;
    uint64_t deadline_ns;
    int (*gone)(void *context);
    void *context;
    const _Atomic uint32_t *word;
    int outcome;
    sem_t go;
    pthread_t thread;
};

extern uint64_t actors_now_ns;     /* the clock */
extern uint64_t actors_tick_ns;    /* by which each look at it moves it; 0 */
extern uint32_t actors_wake_calls; /* system calls that wake */

void actors_begin(void);
void actors_end(void);
struct actor *actor_of(uint32_t number);

/* Each runs the actor until it is ACTOR_IDLE again or stopped, and returns its state. */
enum actor_state actor_acquire(uint32_t number, struct taut_lock *lock, uint64_t deadline_ns);
enum actor_state actor_or(uint32_t number, struct taut_lock *lock, int (*gone)(void *context),
                          void *context, uint64_t deadline_ns);
enum actor_state actor_try(uint32_t number, struct taut_lock *lock);
enum actor_state actor_release(uint32_t number, struct taut_lock *lock);
enum actor_state actor_retest(uint32_t number, struct taut_lock *lock);
/* From a sleep with enum taut__futex_outcome, or from another stop. */
enum actor_state actor_resume(uint32_t number, int outcome);

#endif
