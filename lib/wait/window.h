/* SPDX-License-Identifier: BSD-2-Clause */
/* wait/window.h - what the spin engine needs of windows and of the machine. */
#ifndef TAUT_WAIT_WINDOW_H
#define TAUT_WAIT_WINDOW_H

#include <taut/wait.h>

/* What taut_window.ready holds once it is made. */
#define TAUT__WINDOW_READY UINT32_C(0x57494e44)

/*
 * Whether a thread of this process may spin by default, read from the machine at the first call:
 * TAUT_SPIN_ON, ONE_CPU or QUOTA. `cpus` (may be NULL) gets the number of CPUs. The first call
 * reads files; taut_event_init() and taut_lock_init() make it, so that no wait does.
 */
uint32_t taut__spin_default(uint32_t *cpus);

/* Counts one wait and moves the window: the only place where it moves. `looked`: there was neither
 * a pause, nor a yield, nor a sleep; `contended`: the CPU was taken away. */
void taut__window_record(struct taut_window *window, uint32_t outcome, uint32_t looked,
                         uint32_t contended);

/* What the next yield will cost, from what the last ones did; without a history, an assumption. */
uint64_t taut__window_yield_cost(const struct taut_window *window, uint64_t now_ns);

/* Remembers what a yield cost that ended at now_ns. */
void taut__window_yielded(struct taut_window *window, uint64_t cost_ns, uint64_t now_ns);

/* The general way of taut__policy_take(): the policy is copied to `room`. */
__attribute__((cold)) int taut__policy_copy(const struct taut_wait_policy **policy,
                                            struct taut_wait_policy *room);

/*
 * Afterwards all of **policy may be read: where it lies, when its caller's header is this one, else
 * a copy in `room`. *policy may be NULL, and stays so. 0, or TAUT_EINVAL: a size that
 * base/options.h refuses, strict neither 0 nor 1, or a window that nobody made.
 */
static inline int taut__policy_take(const struct taut_wait_policy **policy,
                                    struct taut_wait_policy *room)
{
    if (*policy == NULL)
        return TAUT_OK;
    uint32_t size = (*policy)->size;
    if (size != sizeof **policy && size != 0) {
        int code = taut__policy_copy(policy, room);
        if (code < 0)
            return code;
    }
    const struct taut_window *window = (*policy)->window;
    if ((*policy)->strict > 1)
        return TAUT_EINVAL;
    return window == NULL || window->ready == TAUT__WINDOW_READY ? TAUT_OK : TAUT_EINVAL;
}

/* The same for who only passes the policy on. */
int taut__policy_check(const struct taut_wait_policy *policy);

/* The cost of a yield of which nothing is known: above all uncontended ones measured (0.3 to 2 us),
 * far below a time slice. Wrong only once: the first yield tells the truth. */
#define TAUT__YIELD_ASSUMED_NS (5 * TAUT_NS_PER_US)

#endif
