/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.pml - the lock: one holder, a bound on overtaking, and no waiter that sleeps on a free lock.
 *
 * What of the source is modelled, function by function; all in lib/wait/:
 *
 *   taut__lock_take_new()   lock_queue.c   take_new: may_barge() refuses by the count, or at any
 *                                          time by the clock
 *   taut__lock_take_head()  lock_queue.c   TAKE_HEAD
 *   taut__lock_take_or_come() lock_queue.c take_new and come, in one step
 *   queue_first()           lock_queue.c   first
 *   adopt()                 lock_queue.c   adopts, founds; with found_queue()
 *   promote()               lock_queue.c   promotes
 *   taut__lock_guard_exit() lock_queue.c   leaves_guard
 *   taut__lock_served()     lock_queue.c   served
 *   taut__lock_leave()      lock_queue.c   leave, with unlink_middle(); take_it and not
 *   taut__lock_rouse()      lock_queue.c   rouse
 *   taut_lock_release()     lock.c         release: loads the word, rouses, swaps, wakes
 *   wait_in_queue()         lock.c         look: as head or not; the deadline may pass at any time
 *   try_as_head()           lock.c         look: an awake head clears HEAD_ASLEEP, or not
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
 * Left out: how one waits for the guard (a futex mutex), robust locks, statistics,
 * taut_lock_retest(), the lock's end; that bypasses are counted modulo 2^16, and that a newcomer's look
 * at the word and the bounds comes before its swap; that a release looks for HEAD_ASLEEP before it has
 * the guard, and who has come when it leaves it. Memory is sequentially consistent.
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
 * twin TWIN_ORPHANED: invalid end state: who leaves the guard does not look who has come
 * twin TWIN_FOUND_ASLEEP: invalid end state: who queues another does not say that it sleeps
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

bool held, queued, head_asleep;              /* the word ... */
byte arrivals[THREADS], arrivals_length;     /* ... who has come, oldest first ... */
byte bypassed;                               /* ... and all since the lock was made. Only differences
                                                to head_bypass_at count: that is 0 here */
#define WAITED (queued || arrivals_length > 0)
#define KEPT   (bypassed >= BOUND)

/* Under the guard. The queue is an array of threads, oldest first: links are not modelled. */
bool guard;
byte queue[THREADS], queue_length;
byte head = NOBODY; /* the source's own variable: stored after the word, read without the guard */

/* Of each thread's node. */
byte bypass_at[THREADS];
bool wake_bit[THREADS]; /* LOCK_WAKE of the futex word */
bool asleep[THREADS];   /* in the kernel */

/* What should be: not in the source. */
byte holder = NOBODY;
byte overtaken[THREADS]; /* acquisitions by newcomers while this thread has come and not left */
byte begun;              /* threads that have done their first step */
hidden byte one, own;

/* In every step that changes the word or takes the lock. */
inline invariants()
{
    for (one : 0 .. THREADS - 1) {
        assert(overtaken[one] <= BOUND)
    }
    assert(held == (holder != NOBODY));
    assert(!head_asleep || held);
    assert(queued == (queue_length > 0))
}

/* Threads are alike, so it is enough that they begin in the order of their numbers. */
inline begins(me)
{
    if
    :: begun == me -> begun++
    :: else
    fi
}

/* The step in which a thread gets the lock. */
inline takes(me)
{
    assert(holder == NOBODY && !held);
    held = true;
    holder = me
}

/* Everybody who has come was overtaken once more. */
inline overtakes()
{
    for (one : 0 .. THREADS - 1) {
        if
        :: one < queue_length -> overtaken[queue[one]]++
        :: else
        fi;
        if
        :: one < arrivals_length -> overtaken[arrivals[one]]++
        :: else
        fi
    }
#ifndef TWIN_UNCOUNTED
    bypassed++
#endif
}

/* set_bounds(). Where it is late it is in vain. */
inline bounds(who)
{
    own = bypass_at[who];
    bypassed = bypassed - own;
    for (one : 0 .. THREADS - 1) {
        if
        :: one < queue_length -> bypass_at[queue[one]] = bypass_at[queue[one]] - own
        :: else
        fi;
        if
        :: one < arrivals_length -> bypass_at[arrivals[one]] = bypass_at[arrivals[one]] - own
        :: else
        fi
    }
}

/* The swap of taut__lock_take_or_come(), for who can't take. */
inline comes(me)
{
    first = !WAITED;
    bypass_at[me] = bypassed;
    arrivals[arrivals_length] = me;
    arrivals_length++
}

/* The swap of adopt(); `other`: the head of a queue that was empty is not the caller. */
inline adopts(other)
{
    found = (head == NOBODY && arrivals_length > 0);
    wake_it = (found && other && !held);
    for (one : 0 .. THREADS - 1) {
        if
        :: one < arrivals_length ->
            queue[queue_length] = arrivals[one];
            queue_length++;
            arrivals[one] = 0
        :: else
        fi
    }
    arrivals_length = 0;
    queued = (queue_length > 0);
#ifndef TWIN_FOUND_ASLEEP
    if
    :: found && other && held -> head_asleep = true
    :: else
    fi;
#endif
    invariants()
}

/* What adopt() does after that, in found_queue(). */
inline founds()
{
    if
    :: d_step {
        found ->
        bounds(queue[0]);
        head = queue[0];
        found = false;
        if
        :: wake_it -> wake_bit[head] = true; asleep[head] = false; wake_it = false
        :: else
        fi
       }
    :: !found
    fi
}

inline leaves_guard()
{
    guard = false;
#ifndef TWIN_ORPHANED
    do
    :: d_step { arrivals_length > 0 && !queued && !guard -> guard = true; adopts(true) };
       founds();
       guard = false
    :: arrivals_length == 0 || queued || guard -> break
    od
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

/* promote(): the oldest, `me`, leaves the queue; then the bounds; the head is for the caller to set.
 */
inline promotes(me)
{
    if
    :: d_step { queue_length == 1 -> adopts(true) }
    :: skip /* too early for who has come: seen when the guard is left */
    fi;
    d_step {
        unlink(me);
        if
        :: !held && take_it -> takes(me); took = true
        :: else
        fi;
        queued = (queue_length > 0);
        head_asleep = (held && queued);
        roused = (queued && !held);
        invariants()
    };
    atomic {
        if
        :: queue_length > 0 ->
#ifdef TWIN_STICKY
            if
            :: KEPT
            :: else -> bounds(queue[0])
            fi;
#else
            bounds(queue[0]);
#endif
            /* Kept for what it has suffered itself, and no more. */
            assert(bypassed == overtaken[queue[0]])
        :: else
        fi
    }
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
    bool roused, took, take_it, first, found, wake_it;
    begun >= me;
    do
    :: rounds == ROUNDS -> break
    :: else ->
        /* taut__lock_take_new(), or taut__lock_take_or_come() */
        if
        :: d_step { !held && !WAITED -> begins(me); takes(me); invariants() }; goto acquired
        :: d_step { !held && WAITED && !KEPT -> begins(me); takes(me); overtakes(); invariants() };
           goto acquired
        :: d_step { held || WAITED -> begins(me); comes(me) } /* also: kept, by count or time */
        fi;

        /* queue_first() */
        if
        :: first ->
            d_step { bounds(me); first = false };
            if
            :: d_step { !guard -> guard = true; adopts(false) };
               founds();
               d_step { assert(queued); guard = false } /* nobody else can be an empty queue's first */
            :: guard
            fi
        :: else
        fi;

look:   /* wait_in_queue() */
        if
        :: head == me ->
            if
            :: d_step { !held -> takes(me); head_asleep = false; invariants() }; goto served
            :: held
            :: held -> head_asleep = false /* it was told so, and is awake */
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
        :: take_it = true
        :: take_it = false
        fi;

        /* taut__lock_leave() */
        d_step { !guard -> guard = true };
        if
        :: head != me ->
            d_step { adopts(true) };
            founds()
        :: else
        fi;
        if
        :: head != me ->
            d_step { unlink(me); invariants() };
            d_step { assert(queued); guard = false }; /* so there is nothing to see */
            goto out
        :: else
        fi;
        promotes(me);
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
            fi
        };
        leaves_guard();
        if
        :: took -> goto acquired
        :: else
        fi;
        wakes();
        goto out;

served: /* taut__lock_served() */
        atomic { !guard -> guard = true; assert(head == me); take_it = false };
        promotes(me);
        d_step { assert(!roused); head = (queue_length > 0 -> queue[0] : NOBODY) };
        leaves_guard();

acquired:
        assert(holder == me);
        took = false;
        release();
out:
        atomic { assert(!asleep[me]); take_it = false; rounds++ }
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
        assert(!held && !WAITED && !head_asleep);
        assert(queue_length == 0 && head == NOBODY && !guard)
    }
}
