/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fanout.pml - what the children of a fan-out share: the owner waits for the returns of all on one
 * event, and with WORK, it flushes all work rings behind one fence. Nobody sleeps for good.
 *
 * What of the source is modelled, function by function; all in lib/queue/:
 *
 *   taut_fanout_return(), taut__ring_publish()   fanout.c, ring.c   returns_one()
 *   taut_fanout_flush_returns(), taut_ring_flush()   fanout.c, ring.c   flush_returns()
 *   wake_consumer()                          ring.c     wakes_owner(), wakes_child()
 *   taut_fanout_wait_returns(), returns_ready(), owner_announces()   fanout.c   owner
 *   taut_fanout_send(), taut_fanout_flush()  fanout.c   owner: the rings in the list of those to
 *                                                       flush, one fence, then each flag
 *   taut_fanout_take(), _wait_work()         fanout.c   child
 *   taut__queue_wait(), sleep_for()          queue_wait.c   owner, child
 *   taut_event_publish(), taut_wait()        lib/wait/  one step each: park.pml shows that they may
 *
 * Memory: a thread's stores of an index become visible to others at any later moment (process
 * `memory`); a release RMW and a full fence wait until all are. Indices only grow, and two of them
 * may become visible in either order, which is more than x86 allows. Flags are visible at once: only
 * a fence makes that sure, so without it they come after the look. Loads go in program order.
 *
 * Left out: what ring.pml has, which is one child whole: slots, batches, credit, both directions
 * together. Each run is finite, so an end state in which somebody sleeps is all that can go wrong.
 *
 * pan: -DSAFETY
 * config work: -DWORK
 * twin TWIN_ANNOUNCE_ONE: invalid end state: the owner sets the flag of one child only
 * twin TWIN_LOOK_AT_ONE: invalid end state: the owner looks at the returns of one child only
 * twin TWIN_ANNOUNCE_NO_FENCE: invalid end state: it looks before its flags are visible
 * twin TWIN_EPOCH_LATE: invalid end state: it reads the epoch after it has looked
 * twin TWIN_CLEAR_LATE: invalid end state: a child clears its flag after the event has moved
 * twin TWIN_RETURN_NO_FENCE: invalid end state: a child looks at its flag before its tail is visible
 * twin TWIN_FLUSH_ONE: invalid end state [-DWORK]: only the first ring of the list is looked at
 * twin TWIN_FLUSH_NO_FENCE: invalid end state [-DWORK]: flags are looked at before tails are visible
 * twin TWIN_FLUSH_EARLY: invalid end state [-DWORK]: each flag is looked at before the fence
 */
#ifndef ITEMS
#define ITEMS 2 /* of each child */
#endif

/* Tails of the return rings (with WORK, of the work rings): visible, and as stored. */
byte tail[2], stored[2];

/* consumer_waits of each, the events, and who sleeps. */
bool flag[2];
#ifdef WORK
byte epoch[2];
bool asleep[2];

inline fence()
{
    tail[0] = stored[0];
    tail[1] = stored[1]
}

inline wakes_child(k)
{
    flag[k] = false;
    d_step { fence(); epoch[k]++; asleep[k] = false }
}

inline looks_at_child(k)
{
    if
    :: flag[k] -> wakes_child(k)
    :: !flag[k]
    fi
}

/* Sends, perhaps to one child or none before it flushes. */
active proctype owner()
{
    bool dirty[2];
    do
    :: stored[0] < ITEMS -> d_step { stored[0]++; dirty[0] = true };
       looks_at_child(0) /* too early, perhaps */
    :: stored[1] < ITEMS -> d_step { stored[1]++; dirty[1] = true };
       looks_at_child(1)
    :: dirty[0] || dirty[1] ->
#ifdef TWIN_FLUSH_EARLY
        looks_at_child(0);
        looks_at_child(1);
#endif
#ifndef TWIN_FLUSH_NO_FENCE
        d_step { fence() };
#endif
#ifndef TWIN_FLUSH_EARLY
        if
        :: dirty[0] -> looks_at_child(0)
        :: else
        fi;
#ifndef TWIN_FLUSH_ONE
        if
        :: dirty[1] -> looks_at_child(1)
        :: else
        fi;
#endif
#endif
        d_step { dirty[0] = false; dirty[1] = false }
    :: stored[0] == ITEMS && stored[1] == ITEMS && !dirty[0] && !dirty[1] -> break
    od
}

active [2] proctype child()
{
    byte taken, seen, me = _pid - 1;
    do
    :: tail[me] > taken -> taken++
    :: taken == ITEMS -> break
    :: tail[me] == taken && taken < ITEMS ->
        seen = epoch[me];
        flag[me] = true; /* and a fence */
        if
        :: d_step { tail[me] > taken -> flag[me] = false; seen = 0 }
        :: tail[me] == taken ->
            if
            :: d_step { epoch[me] == seen -> asleep[me] = true }; !asleep[me]
            :: epoch[me] != seen
            fi;
            d_step { flag[me] = false; seen = 0 }
        fi
    od
}
#else
byte epoch;
bool asleep;

#ifdef TWIN_LOOK_AT_ONE
#define RETURNS (tail[0] > reaped[0])
#else
#define RETURNS (tail[0] > reaped[0] || tail[1] > reaped[1])
#endif

active proctype owner()
{
    byte reaped[2], seen;
    do
    :: d_step { reaped[0] = tail[0]; reaped[1] = tail[1] };
       if
       :: reaped[0] + reaped[1] == 2 * ITEMS -> break
       :: else
       fi;
#ifndef TWIN_EPOCH_LATE
       seen = epoch;
#endif
#ifdef TWIN_ANNOUNCE_NO_FENCE
       if
       :: RETURNS -> goto awake
       :: !RETURNS
       fi;
#endif
       flag[0] = true;
#ifndef TWIN_ANNOUNCE_ONE
       flag[1] = true; /* and a fence */
#endif
#ifndef TWIN_ANNOUNCE_NO_FENCE
       if
       :: RETURNS -> goto awake
       :: !RETURNS
       fi;
#endif
#ifdef TWIN_EPOCH_LATE
       seen = epoch;
#endif
       if
       :: d_step { epoch == seen -> asleep = true }; !asleep
       :: epoch != seen
       fi;
awake: atomic { flag[0] = false; flag[1] = false; seen = 0 }
    od
}

inline wakes_owner(k)
{
#ifndef TWIN_CLEAR_LATE
    flag[k] = false;
#endif
    d_step { tail[k] = stored[k]; epoch++; asleep = false };
#ifdef TWIN_CLEAR_LATE
    flag[k] = false
#endif
}

inline looks_at_owner(k)
{
    if
    :: flag[k] -> wakes_owner(k)
    :: !flag[k]
    fi
}

active [2] proctype child()
{
    byte me = _pid - 1;
    bool looked = true;
    do
    :: stored[me] < ITEMS -> /* returns_one(), which ends a batch */
        d_step { stored[me]++; looked = false };
        looks_at_owner(me)
    :: !looked -> /* flush_returns() */
#ifdef TWIN_RETURN_NO_FENCE
        looked = true;
#else
        d_step { tail[me] = stored[me]; looked = true };
#endif
        looks_at_owner(me)
    :: stored[me] == ITEMS && looked -> break
    od
}
#endif

/* What was stored becomes visible, some time. */
active proctype memory()
{
end:
    do
    :: tail[0] < stored[0] -> tail[0] = stored[0]
    :: tail[1] < stored[1] -> tail[1] = stored[1]
    od
}
