/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/futex.c - the two futex operations that Taut uses. FUTEX_WAIT_BITSET rather than FUTEX_WAIT:
 * its time-out is absolute, and on CLOCK_MONOTONIC (futex(2)).
 */
#include "base/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

_Static_assert(sizeof(_Atomic uint32_t) == 4, "the kernel compares four bytes");

static long futex_call(const _Atomic uint32_t *word, int operation, uint32_t value,
                       const struct timespec *timeout, uint32_t bits)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, bits);
}

int taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                     uint32_t scope)
{
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / TAUT_NS_PER_S),
        .tv_nsec = (long)(deadline_ns % TAUT_NS_PER_S),
    };
    int operation = FUTEX_WAIT_BITSET | (scope == TAUT__FUTEX_PRIVATE ? FUTEX_PRIVATE_FLAG : 0);
    int saved_errno = errno;
    long result =
        futex_call(word, operation, expected, deadline_ns == TAUT_NEVER_NS ? NULL : &deadline,
                   FUTEX_BITSET_MATCH_ANY);
    int failure = result < 0 ? errno : 0;
    errno = saved_errno;
    switch (failure) {
    case 0:
        return TAUT__FUTEX_WOKEN;
    case EAGAIN:
        return TAUT__FUTEX_CHANGED;
    case ETIMEDOUT:
        return TAUT__FUTEX_EXPIRED;
    case EINTR:
        return TAUT__FUTEX_INTERRUPTED;
    default:
        /* EFAULT, EINVAL, ENOSYS: the word is no word. Returning would turn it into a busy loop. */
        taut__check_failed(__FILE__, __LINE__, __func__, "the futex word is valid");
        return TAUT__FUTEX_WOKEN;
    }
}

uint32_t taut__futex_wake(const _Atomic uint32_t *word, uint32_t count, uint32_t scope)
{
    int operation = FUTEX_WAKE | (scope == TAUT__FUTEX_PRIVATE ? FUTEX_PRIVATE_FLAG : 0);
    int saved_errno = errno;
    /* The kernel takes an int, and would read a larger count as a negative one: one waiter. */
    long woken = futex_call(word, operation, count > INT_MAX ? INT_MAX : count, NULL, 0);
    errno = saved_errno;
    /* EFAULT: the waiter's memory is gone, and with it the waiter. */
    return woken > 0 ? (uint32_t)woken : 0;
}
