/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/wait.h - the one way in which Taut waits.
 *
 * An *event* is a counter (its epoch) that somebody moves and others wait for. A waiter reads the
 * epoch, looks at what it wants (a ring, a flag), and if that is not there waits until the epoch
 * has moved from what it read: what is published between the look and the sleep is never missed.
 *
 *     for (;;) {
 *         uint32_t seen = taut_event_epoch(&event);
 *         if (there_is_work())
 *             break;
 *         int outcome = taut_wait(&event, seen, deadline_ns, &policy, &report);
 *         if (outcome == TAUT_WAIT_EXPIRED || outcome < 0)
 *             break;
 *     }
 *
 * A wait has three phases, each bounded by a *duration*: **spin** (CPU pauses; the clock is looked
 * at every few hundred nanoseconds), **yield** (clock and cost of every one) and **park** (futex(2)
 * with the absolute deadline). A yield or a pause between two looks at the clock that took more
 * than 50 us proves that somebody else wants this CPU, and ends spinning and yielding; no yield
 * begins when the time left is below what one has cost of late. So a wait is late by at most one
 * delay of the scheduler, once, and its report says by how much.
 *
 * How long to spin adapts between 20 and 500 us (struct taut_window): doubled once for a wait that
 * spinning or yielding caught, halved once for one that parked, expired or lost its CPU. Nothing
 * else moves it, and a wait that only looked does not. Of a window, 50 us at most are spun and the
 * rest is yielded; a strict policy spins all of it.
 *
 * A call that is refused returns at once: a loop that goes on after a negative code is a hot one.
 *
 * Correctness never depends on spinning. An explicit budget of TAUT_NEVER_NS ends at the deadline,
 * by taut_event_quiesce() or when the CPU is taken away; with no deadline it is all the caller's.
 *
 * Threads: an event may be published to and waited for by any number of threads of one process. A
 * struct taut_window and a struct taut_spin belong to one thread. Blocking: taut_wait() only.
 * Allocation: none, except while the machine is read (taut_window_init(); the first event, or spin
 * without a window, of a process). Ownership: the caller owns all memory; it must outlive the last
 * waiter, which taut_event_destroy() checks. A waiter that has returned may end and free the event
 * even though the publisher that woke it has not returned yet. Errors: codes of taut/err.h; expired
 * is an outcome.
 *
 * Caveats: the epoch has 32 bits; a waiter that sleeps through exactly 2^32 publications misses
 * them. An event made before fork(2) belongs to the parent: the child's copy refuses to wait
 * (TAUT_ESTATE). vfork(2), _Fork(3) and raw clone(2) are not noticed. A handler of a signal may
 * publish.
 */
#ifndef TAUT_WAIT_H
#define TAUT_WAIT_H

#include <stddef.h>
#include <stdint.h>

#include <taut/clock.h>
#include <taut/err.h>
#ifndef __cplusplus
#include <stdatomic.h>
#endif

#ifdef __cplusplus
extern "C" {
/* C++ sees the layout only; the functions do the atomic work. */
#define TAUT__ATOMIC(type) type
#else
#define TAUT__ATOMIC(type) _Atomic type
#endif

/* 128, not 64: x86-64 fetches lines in pairs, so two threads' words stay that far apart. */
#define TAUT_LINE_BYTES 128
#define TAUT__LINE      __attribute__((aligned(TAUT_LINE_BYTES)))

/* How a wait ended; what it is called is taut_wait_outcome_name(). */
enum taut_wait_outcome {
    TAUT_WAIT_CAUGHT = 0, /* the epoch had moved, and this thread did not sleep */
    TAUT_WAIT_PARKED = 1, /* the epoch had moved after at least one sleep */
    TAUT_WAIT_EXPIRED = 2 /* the deadline passed and the epoch has not moved */
};

/* Where a wait ended. */
enum taut_wait_phase {
    TAUT_PHASE_LOOK = 0, /* at the first look, before any pause */
    TAUT_PHASE_SPIN = 1,
    TAUT_PHASE_YIELD = 2,
    TAUT_PHASE_PARK = 3
};

/* Why a window does not spin; TAUT_SPIN_ON is the good case. */
enum taut_spin_state {
    TAUT_SPIN_ON = 0,
    TAUT_SPIN_ONE_CPU = 1,        /* one CPU for waiter and publisher */
    TAUT_SPIN_QUOTA = 2,          /* a cgroup quota is finite: spinning eats it */
    TAUT_SPIN_OVERSUBSCRIBED = 3, /* more threads want to run than there are CPUs */
    TAUT_SPIN_CONTENDED = 4       /* this CPU was taken from a spinning thread in the last 100 ms */
};

/* The budget of a phase that is skipped. 0 in an options struct means the default. */
#define TAUT_WAIT_NONE_NS UINT64_C(1)

#define TAUT_WINDOW_MIN_NS  (20 * TAUT_NS_PER_US)
#define TAUT_WINDOW_MAX_NS  (500 * TAUT_NS_PER_US)
#define TAUT_CONTENDED_NS   (50 * TAUT_NS_PER_US)  /* a longer pause or yield proves it */
#define TAUT_COST_MEMORY_NS (100 * TAUT_NS_PER_MS) /* halves the recent cost of a yield */

/* --- the adaptive window ----------------------------------------------------------------- */

struct taut_window_options {
    uint32_t size;    /* sizeof(struct taut_window_options); 0 = as in version 0.1 */
    uint32_t threads; /* threads of this process that will want to run at once; 0 = not known */
    uint64_t min_ns;  /* 0 = TAUT_WINDOW_MIN_NS */
    uint64_t max_ns;  /* 0 = TAUT_WINDOW_MAX_NS; at least min_ns, at most 1 s */
    /* CPUs that waiter and publishers may use; 0 = read here: those of the calling thread and of
     * the main thread, within the cpuset. */
    uint32_t cpus;
    uint32_t quota; /* 0 = read the cgroup's quota here, 1 = there is one, 2 = there is none */
};

/*
 * What one thread knows about its waits: how long spinning pays, what a yield has cost of late, and
 * whether it may spin at all. Belongs to one waiting thread; may serve all events that it waits
 * for. All fields may be read by the owner; taut_window_* write them.
 */
struct taut_window {
    uint64_t window_ns;          /* spin and yield together, for the next wait */
    uint64_t min_ns, max_ns;     /* in effect */
    uint64_t yield_cost_ns;      /* largest recent cost of a yield, as of yield_cost_at_ns */
    uint64_t yield_cost_at_ns;   /* when that was */
    uint64_t contended_until_ns; /* no spinning before: this CPU was taken away */
    /* Of this thread; caught + parked + expired == waits. */
    uint64_t waits, caught, parked, expired;
    uint64_t looked;      /* of caught: those without a pause or yield; they move no window */
    uint64_t contended;   /* waits that lost their CPU while they spun or yielded */
    uint32_t spin_stride; /* pauses between two looks at the clock, as measured last */
    uint32_t spin_state;  /* enum taut_spin_state, of the machine: ONE_CPU, QUOTA, ... or ON */
    uint32_t cpus;        /* in effect */
    uint32_t ready;       /* internal: taut_window_init() was here */
};

/*
 * Makes a window for the calling thread and reads from the machine whether it may spin: its
 * affinity mask (and the main thread's: a thread with a CPU of its own may spin while its publisher
 * runs elsewhere) and the cgroup's quota (a few file reads, tens of us). options may be NULL. The
 * window begins at min_ns. Of min_ns and max_ns the one that is not given gives way to the other.
 * 0; TAUT_EINVAL: window is NULL, a size that is none, min_ns above max_ns, max_ns above 1 s, quota
 * above 2.
 */
TAUT_API int taut_window_init(struct taut_window *window, const struct taut_window_options *options,
                              struct taut_err *err);

/* Whether the next wait with this window would spin, and if not, why: enum taut_spin_state at the
 * time now_ns. TAUT_EINVAL for a window that taut_window_init() has not made. */
TAUT_API int taut_window_spin_state(const struct taut_window *window, uint64_t now_ns);

/* "on", "one-cpu", "quota", "oversubscribed", "contended"; "?" for another number. */
TAUT_API const char *taut_spin_state_name(uint32_t state);

/* --- policy and report ------------------------------------------------------------------- */

/*
 * How to wait. Zero-initialised, or NULL where a policy is asked for: spin for TAUT_WINDOW_MIN_NS
 * at most, where this process may use two CPUs or more and no quota, then park.
 */
struct taut_wait_policy {
    uint32_t size;              /* sizeof(struct taut_wait_policy); 0 = as in version 0.1 */
    uint32_t strict;            /* 1: never yield; the lateness is then the park's alone */
    uint64_t spin_ns;           /* 0 = by the window; explicit budgets are obeyed on any machine */
    uint64_t yield_ns;          /* 0 = by the window, none without one */
    struct taut_window *window; /* NULL: nothing is remembered between waits. Owner: the waiter */
};

/* What one wait did. Filled completely by every wait, whatever its outcome. */
struct taut_wait_report {
    uint32_t outcome;    /* enum taut_wait_outcome */
    uint32_t phase;      /* enum taut_wait_phase it ended in */
    uint32_t spin_state; /* enum taut_spin_state that was in effect */
    uint32_t parks;      /* sleeps */
    uint32_t spurious;   /* sleeps that ended although neither epoch nor deadline had come */
    uint32_t contended;  /* 1: spinning or yielding ended because the CPU was taken away */
    uint64_t spins;      /* pauses */
    uint64_t yields;
    uint64_t longest_yield_ns;
    uint64_t longest_gap_ns;  /* between two looks at the clock while spinning */
    uint64_t spin_budget_ns;  /* in effect */
    uint64_t yield_budget_ns; /* in effect */
    /* By how much the return is after the deadline; 0: it is not, or the deadline was 0. */
    uint64_t late_ns;
};

/* "caught", "parked", "expired"; "?" for another number. */
TAUT_API const char *taut_wait_outcome_name(uint32_t outcome);

/* --- events ------------------------------------------------------------------------------ */

/*
 * Sleeper count and epoch are the two halves of one word, changed by one atomic operation: a
 * publisher learns in the step that moves the epoch whether somebody sleeps, and a waiter counts
 * itself in a step that fails if the epoch has moved. There is no fence that could be forgotten.
 */
struct taut_event {
    /* bits 63..32 epoch (the futex word), 31 quiet, 30..0 sleepers */
    TAUT__LINE TAUT__ATOMIC(uint64_t) state;
    TAUT__ATOMIC(uint64_t) wraps;      /* of the epoch: with it, 64 bits of publications */
    TAUT__ATOMIC(uint64_t) wake_calls; /* publications with a sleeper, so with a system call */
    uint32_t generation;               /* of the process, against fork(2) */
    uint32_t magic;
    TAUT__LINE TAUT__ATOMIC(uint64_t) waits; /* the waiters' line */
    TAUT__ATOMIC(uint64_t) caught;
    TAUT__ATOMIC(uint64_t) parked;
    TAUT__ATOMIC(uint64_t) expired;
    TAUT__ATOMIC(uint64_t) sleeps;
    TAUT__ATOMIC(uint64_t) spurious;
    TAUT__ATOMIC(uint64_t) late_max_ns;
    TAUT__ATOMIC(uint32_t) guests; /* in waits of a ring or fan-out that sleep here */
};

/* A reading of an event's counters. Exact when nobody waits or publishes: then caught + parked +
 * expired == waits. While threads wait, waits is ahead by their number. */
struct taut_event_stats {
    uint64_t published, wake_calls;
    uint64_t waits, caught, parked, expired;
    uint64_t sleeps, spurious;
    /* The latest return after a deadline that was ahead when the wait looked at the clock first; of
     * waits that slept, expired or filled a report. */
    uint64_t late_max_ns;
    uint32_t epoch, sleepers;
};

/* Makes an event with epoch 0. Reads once a process, at its first event, whether spinning can pay
 * here (affinity and quota). 0, TAUT_EINVAL for NULL or memory that is not aligned. */
TAUT_API int taut_event_init(struct taut_event *event);

/* Ends an event. TAUT_EBUSY: threads wait for it, or for a ring that sleeps on it; nothing is
 * changed, and they stay served.
 * TAUT_EINVAL: NULL, never made, or ended already. */
TAUT_API int taut_event_destroy(struct taut_event *event);

/* The epoch now. What was published before it moved to this value is visible to the caller. */
TAUT_API uint32_t taut_event_epoch(const struct taut_event *event);

/*
 * Moves the epoch and wakes all who sleep. What the caller wrote before is visible to every waiter
 * that sees the new epoch. Without a sleeper no system call is made. Returns the number of threads
 * that slept or were on their way to. One event serves one predicate; who wants to wake one of
 * several waiters gives each an event of its own.
 */
TAUT_API uint32_t taut_event_publish(struct taut_event *event);

/* Sends all waiters of the event to sleep now, whatever their budgets, until the next publication:
 * for a server that knows that nothing will come. A waiter that was yielding comes back first. */
TAUT_API void taut_event_quiesce(struct taut_event *event);

TAUT_API void taut_event_stats(const struct taut_event *event, struct taut_event_stats *stats);

/*
 * Waits until the event's epoch is not `seen`, at most until deadline_ns (absolute CLOCK_MONOTONIC;
 * 0 and any past time: looks once; TAUT_NEVER_NS: no end). An epoch that has moved is caught even
 * when the deadline has passed. policy and report may be NULL.
 *
 * Returns enum taut_wait_outcome, or TAUT_EINVAL: event is NULL or not made, or a size that is none
 * or an unmade window in the policy; TAUT_ESTATE: the event was made before fork(2), in the parent.
 * A refused call counts as no wait, and leaves the report as it was.
 */
TAUT_API int taut_wait(struct taut_event *event, uint32_t seen, uint64_t deadline_ns,
                       const struct taut_wait_policy *policy, struct taut_wait_report *report);

/* --- loops of one's own ------------------------------------------------------------------ */

/*
 * The spin and yield phases for a loop whose condition is no event: a socket, a ring of a device.
 *
 *     struct taut_spin spin;
 *     taut_spin_begin(&spin, deadline_ns, &policy);
 *     while (!(found = look()) && taut_spin_next(&spin))
 *         ;
 *     taut_spin_end(&spin, found ? TAUT_WAIT_CAUGHT : TAUT_WAIT_EXPIRED, &report);
 *
 * taut_spin_next() pauses or yields once and returns 1, or 0 when the budgets are used up, the
 * deadline has come or the CPU was taken away: then sleep where the kernel wakes you, or give up.
 * There is always one more look() after the last look at the clock.
 *
 * Time that look() takes counts: one of more than 50 us is taken for a lost CPU.
 * When look() itself costs about as much as a look at the clock (a system call), set
 * `look_each` in the struct after begin: the clock is then read at every turn.
 */
struct taut_spin {
    uint64_t began_ns, last_ns; /* 0: not looked yet */
    uint64_t deadline_ns;
    uint64_t spin_budget_ns, yield_budget_ns;
    struct taut_window *window;
    struct taut_wait_report report;
    uint32_t stride, left; /* pauses between two looks at the clock; those left until the next */
    uint32_t phase;        /* enum taut_wait_phase */
    uint32_t look_each;
    uint32_t by_default; /* internal: budgets that the machine's state may end */
    uint32_t crowd;      /* internal: counted among the spinning threads of this process */
};

/* Begins. policy as for taut_wait(); a policy that taut_wait() refuses counts as none. */
TAUT_API void taut_spin_begin(struct taut_spin *spin, uint64_t deadline_ns,
                              const struct taut_wait_policy *policy);

/* Pauses or yields once, or only ends. 1: look again; 0: over. */
TAUT_API int taut_spin_next(struct taut_spin *spin);

/*
 * Ends, whether or not taut_spin_next() has said so. `outcome` is how the whole wait ended, the
 * caller's own sleep included (enum taut_wait_outcome; another number counts as expired); it moves
 * the window, once. report may be NULL; its parks and spurious are 0 unless the caller has counted
 * its own sleeps in spin->report.
 */
TAUT_API void taut_spin_end(struct taut_spin *spin, uint32_t outcome,
                            struct taut_wait_report *report);

#ifdef __cplusplus
}
#endif
#endif
