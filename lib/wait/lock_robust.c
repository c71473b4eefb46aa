/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/lock_robust.c - a thread that ends while it holds robust locks leaves them to the next.
 *
 * Each thread links the robust locks it holds; a destructor of thread-specific data releases what
 * is left when the thread returns or calls pthread_exit(3). Other destructors may still use and
 * release such locks, in any order, so ours asks to be called again and acts in the last round but
 * one: in the last, run-time libraries (sanitizers) take down what they keep of the thread. A lock
 * that is acquired by a destructor after that is left in the last round, if there is one.
 *
 * A child of fork(2) has a copy of the list, of locks that are not its own: the list belongs to a
 * generation of the process, and an older one is forgotten without touching what it links.
 */
#include <limits.h>
#include <pthread.h>

#include "base/check.h"
#include "base/process.h"
#include "wait/lock_internal.h"

#define ROUND_TO_ACT (PTHREAD_DESTRUCTOR_ITERATIONS - 1)

static struct {
    pthread_once_t once;
    pthread_key_t key;
    int failure;
} watch = {.once = PTHREAD_ONCE_INIT};

static _Thread_local struct {
    struct taut_lock *first;
    uint32_t generation; /* of the process that `first` belongs to */
    uint32_t armed;      /* the destructor will be called */
    int rounds;          /* of it, so far */
} holds;

static void forget_the_parent(void)
{
    uint32_t generation = taut__process_generation();
    if (holds.generation != generation) {
        holds.generation = generation;
        holds.first = NULL;
    }
}

static void thread_ends(void *unused)
{
    (void)unused;
    if (++holds.rounds < ROUND_TO_ACT && pthread_setspecific(watch.key, &watch) == 0)
        return;
    holds.armed = 0;
    forget_the_parent();
    while (holds.first) {
        holds.first->owner_died = 1;
        taut_lock_release(holds.first);
    }
}

static void make_key(void)
{
    watch.failure = pthread_key_create(&watch.key, thread_ends);
}

int taut__lock_robust_init(void)
{
    pthread_once(&watch.once, make_key);
    return watch.failure ? TAUT_EAGAIN : 0;
}

int taut__lock_robust_watch(void)
{
    if (holds.armed)
        return 0;
    if (pthread_setspecific(watch.key, &watch) != 0)
        return TAUT_ENOMEM;
    holds.armed = 1;
    return 0;
}

void taut__lock_robust_hold(struct taut_lock *lock)
{
    forget_the_parent();
    lock->held_previous = NULL;
    lock->held_next = holds.first;
    if (holds.first)
        holds.first->held_previous = lock;
    holds.first = lock;
}

void taut__lock_robust_drop(struct taut_lock *lock)
{
    if (lock->held_next)
        lock->held_next->held_previous = lock->held_previous;
    if (lock->held_previous) {
        lock->held_previous->held_next = lock->held_next;
    } else {
        TAUT_CHECK(holds.first == lock);
        holds.first = lock->held_next;
    }
}
