/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.pml - the lock: one holder, a bound on overtaking, and no waiter that sleeps on a free lock.
 *
 * What of the source is modelled, function by function; all in lib/wait/:
 *
 *   taut__lock_take_new()   lock_queue.c   take_new: may_barge() refuses by the count, or at any
 *                                          time by the clock
 *   taut__lock_take_head()  lock_queue.c   TAKE_HEAD
 *   taut__lock_enqueue()    lock_queue.c   enqueue, with enqueue_first()
 *   promote()               lock_queue.c   promote(), with promoted_word()
 *   taut__lock_served()     lock_queue.c   served
 *   taut__lock_leave()      lock_queue.c   leave, with unlink_middle(); may_take and not
 *   taut__lock_rouse()      lock_queue.c   rouse
 *   taut_lock_release()     lock.c         release: loads the word, rouses, swaps, wakes
 *   wait_in_queue()         lock.c         look: as head or not; the deadline may pass at any time
 *   announce_sleep()        lock.c         announce
 *   sleep_once()            lock.c         announce, sleep
 *
 * The word changes in single steps, each the one in which its compare and swap succeeds; where the
 * source loads it and acts on what it saw (the release), that is a step of its own. What happens
 * under the guard is interleaved with steps of threads that do not need it. Each call is of one
 * kind: without a deadline (a head that spins is one that looks again), with one (leaves with the
 * lock if it can) or with a reason that goes away (leaves without; wakes by itself after a while,
 * too).
 *
 * Left out: the guard itself (a futex mutex), robust locks, statistics, taut_lock_retest(), the
 * lock's end. Memory is sequentially consistent.
 *
 * pan: -DSAFETY
 * config wide: -DTHREADS=4 -DROUNDS=1 -DBOUND=1
 * config fifo: -DBOUND=0
 * twin TWIN_HAND_OFF_LOST: invalid end state: who leaves a free lock promotes without waking
 * twin TWIN_ANNOUNCE_BLIND: assertion violated: the head says it sleeps though the lock is free
 * twin TWIN_RELEASE_FIRST: assertion violated: HELD is cleared by what was seen before
 * twin TWIN_UNCOUNTED: assertion violated: overtaking is not counted
 * twin TWIN_STICKY: assertion violated: once kept for a waiter, kept for the next at once
 * twin TWIN_SLEEP_BLIND: invalid end state: sleeps without comparing
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* calls of a thread */
#endif
#ifndef BOUND
#define BOUND 2 /* bypass_max */
#endif
#define NOBODY THREADS
#ifdef TWIN_SLEEP_BLIND
#define MAY_SLEEP true
#else
#define MAY_SLEEP (!wake_bit[me])
#endif

bool held, waiters, head_asleep; /* the word ... */
byte bypassed;                   /* ... in four pieces, changed in one step */

/* Under the guard. The queue is an array of threads, oldest first: links are not modelled. */
bool guard;
byte queue[THREADS], queue_length;
byte head = NOBODY; /* the source's own variable: stored after the word, read without the guard */
byte base;          /* bypass_base */

/* Of each thread's node. */
byte bypass_at[THREADS];
bool wake_bit[THREADS]; /* LOCK_WAKE of the futex word */
bool asleep[THREADS];   /* in the kernel */

/* What should be: not in the source. */
byte holder = NOBODY;
byte overtaken[THREADS]; /* acquisitions by newcomers while this thread was in the queue */
hidden byte one, own, next;

/* In every step that changes the word or takes the lock. */
inline invariants()
{
    for (one : 0 .. THREADS - 1) {
        assert(overtaken[one] <= BOUND)
    }
    assert(held == (holder != NOBODY));
    assert(!head_asleep || held)
}

/* The step in which a thread gets the lock. */
inline takes(me)
{
    assert(holder == NOBODY && !held);
    held = true;
    holder = me
}

/* Everybody in the queue was overtaken once more. */
inline overtakes()
{
    for (one : 0 .. THREADS - 1) {
        if
        :: one < queue_length -> overtaken[queue[one]]++
        :: else
        fi
    }
#ifndef TWIN_UNCOUNTED
    bypassed++
#endif
}

inline unlink(me)
{
    own = 0;
    for (one : 0 .. THREADS - 1) {
        if
        :: one < queue_length && queue[one] != me -> queue[own] = queue[one]; own++
        :: else
        fi
    }
    queue_length--;
    assert(own == queue_length);
    queue[queue_length] = 0;
    overtaken[me] = 0;
    bypass_at[me] = 0;
    wake_bit[me] = false
}

/* promoted_word() and the swap of promote(): what the word becomes without the oldest waiter, which
 * the caller has unlinked. */
inline promotes()
{
    if
    :: queue_length == 0 ->
        base = 0; /* in the source it goes on growing; only differences to it matter */
        bypassed = 0;
        waiters = false;
        head_asleep = false
    :: else ->
        next = queue[0];
        own = base + bypassed - bypass_at[next];
        /* Nobody is overtaken more often than those before it, so nothing is cut off here. */
        assert(own <= BOUND && (own == overtaken[next]));
#ifdef TWIN_STICKY
        own = (bypassed == BOUND -> BOUND : own);
#endif
        base = base + bypassed - own;
        bypassed = own;
        assert(bypassed == overtaken[next]); /* kept for what it has suffered itself, and no more */
        head_asleep = held
    fi
}

/* taut_lock_release() */
inline release()
{
#ifdef TWIN_RELEASE_FIRST
    roused = head_asleep;
#endif
    do
#ifdef TWIN_RELEASE_FIRST
    :: d_step { !roused -> holder = NOBODY; held = false; invariants() }; break
    :: d_step {
        roused && !guard ->
#else
    :: d_step { !head_asleep -> holder = NOBODY; held = false; invariants() }; break
    :: d_step {
        head_asleep && !guard ->
#endif
        /* taut__lock_rouse(). Should the bit have gone meanwhile, it is the next turn. */
        guard = true;
        head_asleep = false
       };
       atomic {
        assert(head != NOBODY);
        wake_bit[head] = true;
        wake = head;
        roused = false;
        guard = false
       }
    od;
    wakes()
}

/* taut__futex_wake(), if there is whom to wake: whoever sleeps there by now. */
inline wakes()
{
    if
    :: d_step { wake != NOBODY -> asleep[wake] = false; wake = NOBODY }
    :: wake == NOBODY
    fi
}

proctype thread(byte me)
{
    byte rounds, wake = NOBODY;
    bool roused, took, may_take;
    do
    :: rounds == ROUNDS -> break
    :: else ->
        /* taut__lock_take_new() */
        if
        :: d_step { !held && !waiters -> takes(me); invariants() }; goto acquired
        :: d_step {
            !held && waiters && bypassed < BOUND -> takes(me); overtakes(); invariants()
           };
           goto acquired
        :: held || waiters /* also: kept, by count or by time */
        fi;

        /* taut__lock_enqueue() */
        if
        :: d_step {
            !guard && queue_length == 0 && !held ->
            assert(!waiters && !head_asleep && bypassed == 0);
            takes(me);
            invariants()
           };
           goto acquired
        :: d_step {
            !guard && queue_length == 0 && held ->
            guard = true;
            assert(!waiters && !head_asleep && bypassed == 0);
            waiters = true;
            bypass_at[me] = base;
            queue[0] = me;
            queue_length = 1
           };
           d_step { head = me; guard = false }
        :: d_step {
            !guard && queue_length > 0 ->
            assert(waiters);
            bypass_at[me] = base + bypassed;
            queue[queue_length] = me;
            queue_length++
           }
        fi;

look:   /* wait_in_queue() */
        if
        :: head == me ->
            if
            :: d_step { !held -> takes(me); head_asleep = false; invariants() }; goto served
            :: held
            fi
        :: head != me
        fi;
        /* sleep_once(): is it the head now? announce_sleep() */
        if
        :: head == me ->
            wake_bit[me] = false;
            if
#ifdef TWIN_ANNOUNCE_BLIND
            :: d_step { head_asleep = true; invariants() }
#else
            :: d_step { held -> head_asleep = true; invariants() }
            :: !held -> goto look
#endif
            fi
        :: head != me
        fi;
        /* Sleeps; whether the deadline can pass meanwhile is open. */
        if
        :: d_step { MAY_SLEEP -> asleep[me] = true }; !asleep[me] -> goto look
        :: d_step { MAY_SLEEP -> asleep[me] = true };
            if
            :: !asleep[me]
            :: d_step { asleep[me] -> asleep[me] = false }
            fi
        :: wake_bit[me]
        fi;
        if
        :: goto look /* it has time, or its reason still stands */
        :: may_take = true
        :: may_take = false
        fi;

        /* taut__lock_leave() */
        if
        :: d_step { !guard && head != me -> unlink(me) };
           goto out
        :: d_step {
            !guard && head == me ->
            guard = true;
            unlink(me);
            if
            :: !held && may_take -> takes(me); took = true
            :: else
            fi;
            promotes();
            roused = (queue_length > 0 && !held);
            invariants()
           }
        fi;
        atomic {
            head = (queue_length > 0 -> queue[0] : NOBODY);
            if
            :: roused ->
#ifndef TWIN_HAND_OFF_LOST
                wake_bit[head] = true;
                wake = head;
#endif
                roused = false
            :: else
            fi;
            guard = false
        };
        if
        :: took -> goto acquired
        :: else
        fi;
        wakes();
        goto out;

served: /* taut__lock_served() */
        atomic {
            !guard ->
            guard = true;
            assert(head == me);
            unlink(me);
            promotes();
            invariants()
        };
        d_step { head = (queue_length > 0 -> queue[0] : NOBODY); guard = false };

acquired:
        assert(holder == me);
        took = false;
        release();
out:
        atomic { assert(!asleep[me]); may_take = false; rounds++ }
    od
}

init
{
    byte each;
    atomic {
        for (each : 0 .. THREADS - 1) {
            run thread(each)
        }
        each = 0
    }
    atomic {
        _nr_pr == 1 ->
        assert(!held && !waiters && !head_asleep && bypassed == 0);
        assert(queue_length == 0 && head == NOBODY && !guard)
    }
}
