/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait/wait.c - the waiter's side: spin and yield by the engine of spin.c, then sleep.
 *
 * A waiter counts itself in by a compare-and-swap of the whole word, which fails when the epoch has
 * moved. From then on it is the publisher's to take off; only a waiter that leaves while the epoch
 * is still the one it came with takes itself off, in the same manner. So the count can be neither
 * lost nor doubled, and there is no fence between "I sleep" and "has it moved?" that could be
 * forgotten.
 */
#include "wait/event.h"
#include "wait/spin.h"
#include "wait/window.h"

#include "base/futex.h"
#include "base/process.h"

const char *taut_wait_outcome_name(uint32_t outcome)
{
    static const char *const names[] = {
        [TAUT_WAIT_CAUGHT] = "caught",
        [TAUT_WAIT_PARKED] = "parked",
        [TAUT_WAIT_EXPIRED] = "expired",
    };
    return outcome < sizeof names / sizeof names[0] ? names[outcome] : "?";
}

static uint64_t load_state(const struct taut_event *event)
{
    /* Acquire pairs with taut_event_publish(). */
    return atomic_load_explicit(&event->state, memory_order_acquire);
}

/* Adds `change` to the sleepers, if the epoch is still `seen`: 1. Else nothing: 0. */
static int count_sleeper(struct taut_event *event, uint32_t seen, uint64_t change)
{
    uint64_t old = load_state(event);
    do {
        if (taut__event_epoch_of(old) != seen)
            return 0;
        /* The order of this count against publications is that of the one word. Acquire pairs with
         * taut_event_publish(), for the failure: the epoch may have moved. */
    } while (!atomic_compare_exchange_weak_explicit(&event->state, &old, old + change,
                                                    memory_order_acquire, memory_order_acquire));
    return 1;
}

/* Looks and spins until the epoch has moved (1) or it is time to sleep (0). */
static int spin_for(const struct taut_event *event, uint32_t seen, struct taut_spin *spin)
{
    for (;;) {
        uint64_t state = load_state(event);
        if (taut__event_epoch_of(state) != seen)
            return 1;
        if ((state & TAUT__EVENT_QUIET) || !taut__spin_next(spin))
            return 0;
    }
}

/* 1: no sleep is worth beginning. Sets began_ns where nobody has looked at the clock yet. */
static int is_past(struct taut_spin *spin)
{
    if (spin->deadline_ns == TAUT_NEVER_NS || spin->deadline_ns == 0)
        return spin->deadline_ns == 0;
    if (spin->began_ns == 0)
        spin->began_ns = spin->last_ns = taut_now_ns();
    return spin->last_ns >= spin->deadline_ns;
}

/* Sleeps until the epoch has moved or the deadline has passed. */
static uint32_t sleep_for(struct taut_event *event, uint32_t seen, struct taut_spin *spin)
{
    struct taut_wait_report *report = &spin->report;
    if (is_past(spin))
        return taut__event_epoch_of(load_state(event)) != seen ? TAUT_WAIT_CAUGHT
                                                               : TAUT_WAIT_EXPIRED;
    if (!count_sleeper(event, seen, 1))
        return TAUT_WAIT_CAUGHT;
    for (;;) {
        int woken = taut__futex_wait(taut__event_futex(event), seen, spin->deadline_ns,
                                     TAUT__FUTEX_PRIVATE);
        report->parks += woken != TAUT__FUTEX_CHANGED;
        if (taut__event_epoch_of(load_state(event)) != seen)
            break;
        if (woken == TAUT__FUTEX_EXPIRED) {
            if (count_sleeper(event, seen, UINT64_MAX))
                return TAUT_WAIT_EXPIRED;
            break; /* it moved just now: not expired, and the publisher took this thread off */
        }
        /* A signal, or a wake meant for memory that was here before: still counted, sleep again. */
        report->spurious++;
    }
    return report->parks > 0 ? TAUT_WAIT_PARKED : TAUT_WAIT_CAUGHT;
}

/* The last thing that a wait does: release pairs with taut_event_destroy(), after which the memory
 * may be gone. */
static void count_outcome(struct taut_event *event, uint32_t outcome)
{
    atomic_fetch_add_explicit(outcome == TAUT_WAIT_CAUGHT   ? &event->caught
                              : outcome == TAUT_WAIT_PARKED ? &event->parked
                                                            : &event->expired,
                              1, memory_order_release);
}

static void count_wait(struct taut_event *event, const struct taut_spin *spin)
{
    const struct taut_wait_report *report = &spin->report;
    if (report->parks > 0)
        atomic_fetch_add_explicit(&event->sleeps, report->parks, memory_order_relaxed);
    if (report->spurious > 0)
        atomic_fetch_add_explicit(&event->spurious, report->spurious, memory_order_relaxed);
    /* A deadline that was past at the call says nothing about this wait. */
    if (spin->began_ns != 0 && spin->began_ns < spin->deadline_ns) {
        uint64_t worst = atomic_load_explicit(&event->late_max_ns, memory_order_relaxed);
        while (report->late_ns > worst &&
               !atomic_compare_exchange_weak_explicit(&event->late_max_ns, &worst, report->late_ns,
                                                      memory_order_relaxed, memory_order_relaxed))
            ;
    }
    count_outcome(event, report->outcome);
}

int taut_wait(struct taut_event *event, uint32_t seen, uint64_t deadline_ns,
              const struct taut_wait_policy *policy, struct taut_wait_report *report)
{
    struct taut_wait_policy room;
    if (event == NULL || event->magic != TAUT__EVENT_MAGIC || taut__policy_take(&policy, &room) < 0)
        return TAUT_EINVAL;
    if (event->generation != taut__process_generation())
        return TAUT_ESTATE;
    atomic_fetch_add_explicit(&event->waits, 1, memory_order_relaxed);
    if (report == NULL && taut__event_epoch_of(load_state(event)) != seen) {
        /* Nobody asks for more: half the price of what follows. */
        if (policy != NULL && policy->window != NULL)
            taut__window_record(policy->window, TAUT_WAIT_CAUGHT, 1, 0);
        count_outcome(event, TAUT_WAIT_CAUGHT);
        return TAUT_WAIT_CAUGHT;
    }
    struct taut_spin spin;
    taut_spin_begin(&spin, deadline_ns, policy);
    uint32_t outcome = TAUT_WAIT_CAUGHT;
    if (!spin_for(event, seen, &spin)) {
        taut__spin_stop(&spin);
        outcome = sleep_for(event, seen, &spin);
    }
    /* A catch without a report needs no clock; who slept can afford one. */
    taut__spin_finish(&spin, outcome, report != NULL || outcome != TAUT_WAIT_CAUGHT);
    if (report != NULL)
        *report = spin.report;
    count_wait(event, &spin);
    return (int)outcome;
}
