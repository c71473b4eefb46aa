/* SPDX-License-Identifier: BSD-2-Clause */
/* bench/lock/locks.h - the locks that are compared, behind one pair of calls. */
#ifndef TAUT_BENCH_LOCK_LOCKS_H
#define TAUT_BENCH_LOCK_LOCKS_H

#include <ck_spinlock.h>
#include <pthread.h>

#include <taut/lock.h>

union any_lock {
    struct taut_lock ours;
    pthread_mutex_t mutex;
    ck_spinlock_ticket_t ticket;
    ck_spinlock_mcs_t mcs;
};

/* What a holder keeps between the calls. */
struct hold {
    ck_spinlock_mcs_context_t mcs;
};

struct kind {
    const char *name;
    int (*init)(union any_lock *lock);
    uint32_t (*acquire)(union any_lock *lock, struct hold *hold); /* bypasses, where known */
    void (*release)(union any_lock *lock, struct hold *hold);
};

/* NULL: there is none of that name. */
const struct kind *kind_of(const char *name);

#endif
