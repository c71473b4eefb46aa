/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * park.pml - an event: no publication is missed by who sleeps, and the count of sleepers is exact.
 *
 * What of the source is modelled, function by function:
 *
 *   taut_event_publish()   lib/wait/event.c   publisher: the swap of the whole word (epoch + 1, no
 *                                             sleepers), then "wake all" as a step of its own
 *   count_sleeper()        lib/wait/wait.c    MAY_COUNT_IN, MAY_COUNT_OUT: one step, or nothing
 *                                             when the epoch is not `seen`
 *   sleep_for()            lib/wait/wait.c    waiter, from `again`: sleeps, looks, leaves
 *   spin_for()             lib/wait/wait.c    one look: a waiter that looked several times without
 *                                             success is a waiter that was slow
 *   taut__futex_wait()     lib/base/futex.c   the kernel compares and queues in one step; a sleep
 *                                             ends by a wake, by the deadline or by a signal
 *   taut__futex_wake()     lib/base/futex.c   all that are queued then, whatever they wait for
 *
 * Left out: "quiesce" (a bit in the same word that ends spinning early), the wrap of the epoch
 * after 2^32, fork(2). Memory is sequentially consistent: the word is one atomic variable, and what
 * a publisher wrote before is ordered by its release (ring.pml has that kind of fault). A loop
 * around a compare and swap is one step: the one in which it succeeds, or gives up.
 *
 * A wait has a deadline or none; a deadline can pass at any moment. Each thread runs a bounded
 * number of times, so an end state in which somebody sleeps and should not is all that can go
 * wrong.
 *
 * pan: -DSAFETY
 * config publications: -DPUBLISHERS=1 -DPUBLICATIONS=3
 * twin TWIN_LOOK_FIRST: assertion violated: publisher looks at the count before it moves the epoch
 * twin TWIN_COUNT_BLIND: assertion violated: a waiter counts itself without comparing the epoch
 * twin TWIN_LEAVE_BLIND: assertion violated: a waiter that expires takes itself off in any epoch
 * twin TWIN_NO_COMPARE: assertion violated: the kernel queues without comparing
 * twin TWIN_WAKE_ONE: assertion violated: a publication wakes one sleeper
 */
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef PUBLISHERS
#define PUBLISHERS 2
#endif
#ifndef WAITS
#define WAITS 2 /* a waiter */
#endif
#ifndef PUBLICATIONS
#define PUBLICATIONS 1 /* a publisher */
#endif

/* What the word holds: changed in one step. */
byte epoch, sleepers;

byte data;             /* what publications tell: written before, looked at after the epoch */
byte saw[WAITERS];     /* what of it each waiter saw before its wait */
bool queued[WAITERS];  /* in the kernel */
bool counted[WAITERS]; /* this thread is one of the sleepers: what the count should say */
byte waking;           /* publishers between their swap and the end of their "wake all" */
byte unfinished;       /* waits without an outcome yet */
byte publishing = PUBLISHERS;
hidden byte sum, one, each; /* within one step only: not part of a state */

/* Holds in every state; looked at in every step that changes the word, the queue or the waking. */
inline invariants()
{
    sum = 0;
    for (one : 0 .. WAITERS - 1) {
        sum = sum + counted[one];
        /* Who is queued for an epoch that is over will be woken: somebody is on his way. */
        assert(!queued[one] || counted[one] || waking > 0);
        /* Nobody sleeps for good on what he has not seen. */
        assert(!queued[one] || publishing > 0 || saw[one] == data)
    }
    assert(sleepers == sum)
}

proctype publisher()
{
    byte times, old;
    do
    :: times == PUBLICATIONS -> break
    :: else ->
        data++;
#ifdef TWIN_LOOK_FIRST
        old = sleepers;
#endif
        d_step {
#ifndef TWIN_LOOK_FIRST
            old = sleepers;
#endif
            epoch++;
            sleepers = 0;
            waking = waking + (old > 0);
            for (each : 0 .. WAITERS - 1) {
                counted[each] = false
            }
            invariants()
        };
        if
        :: d_step {
            old > 0 ->
            for (each : 0 .. WAITERS - 1) {
#ifdef TWIN_WAKE_ONE
                if
                :: queued[each] -> queued[each] = false; break
                :: else
                fi
#else
                queued[each] = false
#endif
            }
            old = 0;
            waking--;
            invariants()
           }
        :: else
        fi;
        times++
    od;
    atomic { publishing--; invariants() }
}

/* count_sleeper(): does it, or says that it was not done. */
#if defined(TWIN_COUNT_BLIND)
#define MAY_COUNT_IN  true
#define MAY_COUNT_OUT (epoch == seen)
#elif defined(TWIN_LEAVE_BLIND)
#define MAY_COUNT_IN  (epoch == seen)
#define MAY_COUNT_OUT true
#else
#define MAY_COUNT_IN  (epoch == seen)
#define MAY_COUNT_OUT (epoch == seen)
#endif

#ifdef TWIN_NO_COMPARE
#define KERNEL_QUEUES true
#else
#define KERNEL_QUEUES (epoch == seen)
#endif

proctype waiter(byte me)
{
    byte times, seen;
    bool forever, slept, timed_out;
    do
    :: times == WAITS -> break
    :: else ->
        /* The caller's loop: reads the epoch, looks at what it waits for, and then waits. */
        seen = epoch;
        d_step { saw[me] = data; unfinished++ };
        if
        :: atomic { epoch != seen -> goto is_caught }
        :: atomic { epoch == seen -> goto is_expired } /* its deadline is past */
        :: forever = true
        :: forever = false
        fi;
        if
        :: d_step { MAY_COUNT_IN -> sleepers++; counted[me] = true; invariants() }
        :: atomic { !(MAY_COUNT_IN) -> goto is_caught }
        fi;
again:
        if
        :: d_step { KERNEL_QUEUES -> queued[me] = true; slept = true; invariants() };
end_asleep: /* for good, when nothing is published any more */
            do
            :: !queued[me] -> break
            :: d_step { queued[me] && !forever -> queued[me] = false; timed_out = true }; break
            :: d_step { queued[me] && publishing > 0 -> queued[me] = false }; break /* a signal */
            od
        :: !(KERNEL_QUEUES)
        fi;
        if
        :: atomic { epoch != seen -> goto is_parked }
        :: atomic { epoch == seen && !timed_out -> goto again }
        :: epoch == seen && timed_out
        fi;
        if
        :: d_step {
            MAY_COUNT_OUT ->
            assert(sleepers > 0);
            sleepers--;
            counted[me] = false;
            invariants()
           };
           goto is_expired
        :: atomic { !(MAY_COUNT_OUT) -> goto is_parked }
        fi;
is_parked:
        atomic {
            assert(epoch != seen);
            if
            :: slept -> slept = false; goto out
            :: else -> goto is_caught
            fi
        };
is_caught:
        assert(epoch != seen && !slept);
out:
is_expired:
        atomic {
            unfinished--;
            assert(!counted[me] && !queued[me]);
            slept = false;
            timed_out = false;
            forever = false;
            seen = 0;
            saw[me] = 0;
            times++
        }
    od
}

init
{
    atomic {
        for (each : 0 .. PUBLISHERS - 1) {
            run publisher()
        }
        for (each : 0 .. WAITERS - 1) {
            run waiter(each)
        }
    }
end_rest: /* if nobody sleeps for good */
    atomic {
        _nr_pr == 1 ->
        assert(sleepers == 0 && waking == 0 && unfinished == 0);
        assert(epoch == PUBLISHERS * PUBLICATIONS)
    }
}
