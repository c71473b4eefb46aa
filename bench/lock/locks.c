/* SPDX-License-Identifier: BSD-2-Clause */
/* bench/lock/locks.c - ours, glibc's and Concurrency Kit's. */
#include "locks.h"

#include <stdlib.h>
#include <string.h>

static int ours_init(union any_lock *lock, uint32_t policy)
{
    const struct taut_lock_options options = {.size = sizeof options, .policy = policy};
    return taut_lock_init(&lock->ours, &options, NULL);
}

static int bounded_init(union any_lock *lock)
{
    return ours_init(lock, TAUT_LOCK_BOUNDED);
}

static int barging_init(union any_lock *lock)
{
    return ours_init(lock, TAUT_LOCK_BARGING);
}

static int fifo_init(union any_lock *lock)
{
    return ours_init(lock, TAUT_LOCK_FIFO);
}

static uint32_t ours_acquire(union any_lock *lock, struct hold *hold)
{
    struct taut_lock_report report;
    (void)hold;
    if (taut_lock_acquire(&lock->ours, TAUT_NEVER_NS, &report) != TAUT_LOCK_ACQUIRED)
        abort();
    return report.bypass_count;
}

static void ours_release(union any_lock *lock, struct hold *hold)
{
    (void)hold;
    taut_lock_release(&lock->ours);
}

static int mutex_of(union any_lock *lock, int type, int protocol)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    int code = pthread_mutexattr_settype(&attributes, type);
    if (code == 0)
        code = pthread_mutexattr_setprotocol(&attributes, protocol);
    if (code == 0)
        code = pthread_mutex_init(&lock->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return code;
}

static int mutex_init(union any_lock *lock)
{
    return mutex_of(lock, PTHREAD_MUTEX_DEFAULT, PTHREAD_PRIO_NONE);
}

static int adaptive_init(union any_lock *lock)
{
    return mutex_of(lock, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE);
}

static int pi_init(union any_lock *lock)
{
    return mutex_of(lock, PTHREAD_MUTEX_DEFAULT, PTHREAD_PRIO_INHERIT);
}

static uint32_t mutex_acquire(union any_lock *lock, struct hold *hold)
{
    (void)hold;
    if (pthread_mutex_lock(&lock->mutex) != 0)
        abort();
    return 0;
}

static void mutex_release(union any_lock *lock, struct hold *hold)
{
    (void)hold;
    pthread_mutex_unlock(&lock->mutex);
}

static int ticket_init(union any_lock *lock)
{
    ck_spinlock_ticket_init(&lock->ticket);
    return 0;
}

static uint32_t ticket_acquire(union any_lock *lock, struct hold *hold)
{
    (void)hold;
    ck_spinlock_ticket_lock(&lock->ticket);
    return 0;
}

static void ticket_release(union any_lock *lock, struct hold *hold)
{
    (void)hold;
    ck_spinlock_ticket_unlock(&lock->ticket);
}

static int mcs_init(union any_lock *lock)
{
    ck_spinlock_mcs_init(&lock->mcs);
    return 0;
}

static uint32_t mcs_acquire(union any_lock *lock, struct hold *hold)
{
    ck_spinlock_mcs_lock(&lock->mcs, &hold->mcs);
    return 0;
}

static void mcs_release(union any_lock *lock, struct hold *hold)
{
    ck_spinlock_mcs_unlock(&lock->mcs, &hold->mcs);
}

const struct kind *kind_of(const char *name)
{
    static const struct kind kinds[] = {
        {"bounded", bounded_init, ours_acquire, ours_release},
        {"barging", barging_init, ours_acquire, ours_release},
        {"fifo", fifo_init, ours_acquire, ours_release},
        {"mutex", mutex_init, mutex_acquire, mutex_release},
        {"adaptive", adaptive_init, mutex_acquire, mutex_release},
        {"pi", pi_init, mutex_acquire, mutex_release},
        {"ticket", ticket_init, ticket_acquire, ticket_release},
        {"mcs", mcs_init, mcs_acquire, mcs_release},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    return NULL;
}
