/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/wait/lock_script.c - the steps that scripts of the lock consist of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lock_script.h"
#include "wait/lock_internal.h"

struct taut_lock the_lock;

void make(uint32_t policy)
{
    make_spinning(policy, TAUT_WAIT_NONE_NS);
}

void make_spinning(uint32_t policy, uint64_t spin_ns)
{
    const struct taut_lock_options options = {
        .size = sizeof options, .policy = policy, .spin_ns = spin_ns};
    assert_int_equal(taut_lock_init(&the_lock, &options, NULL), 0);
    assert_int_equal(actor_acquire(OWNER, &the_lock, TAUT_NEVER_NS), ACTOR_IDLE);
    assert_int_equal(actor_of(OWNER)->result, TAUT_LOCK_ACQUIRED);
}

int setup(void **state)
{
    (void)state;
    actors_begin();
    return 0;
}

int teardown(void **state)
{
    (void)state;
    actors_end();
    return 0;
}

int is_set(void *context)
{
    return *(int *)context;
}

struct taut_lock_stats stats(void)
{
    struct taut_lock_stats now;
    taut_lock_stats(&the_lock, &now);
    return now;
}

void at_rest(void)
{
    assert_true((atomic_load(&the_lock.word) & (LOCK_USED | LOCK_HEAD_ASLEEP)) == 0);
    assert_int_equal(stats().waiters, 0);
    assert_int_equal(stats().owner_tid, 0);
    assert_int_equal(atomic_load(&the_lock.reasons), 0);
    assert_int_equal(atomic_load(&the_lock.guard), 0);
    assert_int_equal(taut_lock_destroy(&the_lock), 0);
}

void sleeps(uint32_t number, uint64_t deadline_ns)
{
    assert_int_equal(actor_acquire(number, &the_lock, deadline_ns), ACTOR_ASLEEP);
}

void is_served(uint32_t number)
{
    assert_int_equal(actor_of(number)->woken, 1);
    assert_int_equal(actor_resume(number, WOKEN), ACTOR_IDLE);
    assert_int_equal(actor_of(number)->result, TAUT_LOCK_ACQUIRED);
}

void releases(uint32_t number)
{
    assert_int_equal(actor_release(number, &the_lock), ACTOR_IDLE);
}

void barges(uint32_t number)
{
    assert_int_equal(actor_try(number, &the_lock), ACTOR_IDLE);
    assert_int_equal(actor_of(number)->result, TAUT_LOCK_ACQUIRED);
}

void is_refused(uint32_t number)
{
    assert_int_equal(actor_try(number, &the_lock), ACTOR_IDLE);
    assert_int_equal(actor_of(number)->result, TAUT_LOCK_TAKEN);
}

void bypasses(uint32_t number, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        releases(number);
        barges(number);
    }
}
