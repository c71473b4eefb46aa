/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.pml - a child of a fan-out: a work ring and a return ring, in batches, with credit, and with
 * sides that sleep. Nothing is lost, doubled or out of order, credit is conserved, nobody sleeps
 * for good.
 *
 * What of the source is modelled, function by function; all in lib/queue/:
 *
 *   taut_ring_reserve(), _commit()    taut/queue.h   put()
 *   taut_ring_peek(), _release()      taut/queue.h   peek(), get()
 *   taut__ring_publish()              ring.c         publish(): release store, look without a fence
 *   wake_consumer()                   ring.c         wakes()
 *   taut_ring_flush(), taut__ring_flush_begin(), taut__ring_look()   ring.c   flush()
 *   taut__ring_more_space(), taut__ring_more_items()   ring.c   in put(), peek()
 *   taut__ring_give_back(), taut_ring_flush_released()   ring.c   give_back(), flush_released()
 *   taut__queue_wait(), sleep_for()   queue_wait.c   wait_items(), without a deadline
 *   taut_event_publish(), taut_wait() lib/wait/      one step each: park.pml shows that they may
 *   deliver(), taut_fanout_send()     fanout.c       owner: while there is credit; what is parked
 *                                                    for want of it is what is not sent yet
 *   reap_child(), taut_fanout_wait_returns()   fanout.c   owner
 *   taut_fanout_take(), _return(), _flush_returns(), _wait_work()   fanout.c   child
 *
 * Memory: each thread has a store buffer of two entries. Its stores of tail and head, release
 * stores all of them, become visible to the other thread at any later moment (process `memory`), in
 * their order; a release RMW and a full fence wait until all are. Slots are visible before the tail
 * that tells of them, which is what its release is for. Loads go in program order: all that matter
 * are acquire loads, or stand behind a fence, but for one look that may be too early by design.
 *
 * With PLAIN it is one ring without credit, whose producer waits for space, and closes the ring in
 * the end: taut_ring_wait_space() as wait_space(), wake_producer() as wakes_for_space(),
 * taut_ring_close() as closes(), taut_ring_closed() in the consumer.
 *
 * Left out: an item's value told beside the index (echo.pml), the side list's bound, wrap of the
 * 64-bit indices, and what several children share (fanout.pml). Each run is finite, so an end state in which somebody sleeps is all that can go wrong with
 * the waits.
 *
 * pan: -DSAFETY
 * config whole: -DBATCH=4 -DRESERVE=3
 * config plain: -DPLAIN -DITEMS=9
 * config small: -DPLAIN -DCAPACITY=2 -DITEMS=7
 * twin TWIN_PUBLISH_RELAXED: assertion violated: tail may be seen before the slot
 * twin TWIN_GIVE_BACK_EARLY: assertion violated [-DPLAIN]: a slot is given back before it is read
 * twin TWIN_NO_FLUSH: invalid end state: a batch is not flushed before the wait
 * twin TWIN_FULL_NO_FLUSH: invalid end state [-DPLAIN]: nor before waiting for space
 * twin TWIN_FLUSH_NO_FENCE: invalid end state: the flag is looked at before tail is visible
 * twin TWIN_WAIT_NO_FENCE: invalid end state: tail is looked at before the flag is visible
 * twin TWIN_EPOCH_LATE: invalid end state: the epoch is read after the look at the ring
 * twin TWIN_CLEAR_LATE: invalid end state: the flag is cleared after the event has moved
 * twin TWIN_CLOSE_NO_FENCE: invalid end state [-DPLAIN]: the flag is looked at before the end is seen
 * twin TWIN_CLOSE_FIRST: assertion violated [-DPLAIN]: closed before the last items are told
 * twin TWIN_NO_RESERVE: assertion violated: as many credits as slots
 */
#ifndef CAPACITY
#define CAPACITY 4
#endif
#ifndef BATCH
#define BATCH 2
#endif
#ifndef RESERVE
#define RESERVE (BATCH - 1)
#endif
#ifndef ITEMS
#define ITEMS 5
#endif
#ifdef TWIN_NO_RESERVE
#define CREDITS CAPACITY
#else
#define CREDITS (CAPACITY - RESERVE)
#endif

/* The work ring; the owner produces. The return ring; the child does. */
#define WORK 0
#define BACK 1
#define SLOT(r, index) (r * CAPACITY + index % CAPACITY)

/* What everybody sees. */
byte slot[2 * CAPACITY], tail[2], head[2], epoch[2];
bool flag[2];   /* consumer_waits */
bool asleep[2]; /* the consumer, in the kernel */

/* What its producer (consumer) has stored, visible or not. */
byte stored_tail[2], stored_head[2];

/* Store buffers: of the owner, who produces into WORK, and of the child. */
typedef store {
    bool is_head; /* of the other ring; else tail. With PLAIN, of the producer: closed */
    byte value
}
typedef store_buffer {
    byte count;
    store oldest, newest
}
store_buffer stores[2];

#ifdef TWIN_PUBLISH_RELAXED
byte stored_slot[2 * CAPACITY]; /* visible some time */
#endif

/* The sides' own. */
byte p_index[2], p_other[2], c_index[2], c_other[2];
bool looked[2];

byte credit = CREDITS;

#ifdef PLAIN
/* producer_waits, the space event, and who sleeps on it. */
bool space_flag, space_asleep;
byte space_epoch;
bool closed, stored_closed;
#define HAS_ITEMS(r) (tail[r] != c_index[r] || closed)
#else
#define HAS_ITEMS(r) (tail[r] != c_index[r])
#endif
bool c_looked;

#define MAY_STORE(r) (stores[r].count < 2)

/* By the producer of r, in a step that begins with MAY_STORE(r). */
inline stores_one(r, to_head, what)
{
    if
    :: stores[r].count == 0 -> stores[r].oldest.is_head = to_head; stores[r].oldest.value = what
    :: else -> stores[r].newest.is_head = to_head; stores[r].newest.value = what
    fi;
    stores[r].count++
}

inline become_visible(r)
{
    if
#ifdef PLAIN
    :: stores[r].oldest.is_head && r == WORK -> closed = true
    :: stores[r].oldest.is_head && r == BACK -> head[WORK] = stores[r].oldest.value
#else
    :: stores[r].oldest.is_head -> head[1 - (r)] = stores[r].oldest.value
#endif
    :: else -> tail[r] = stores[r].oldest.value
    fi;
    stores[r].oldest.is_head = stores[r].newest.is_head;
    stores[r].oldest.value = stores[r].newest.value;
    stores[r].newest.is_head = false;
    stores[r].newest.value = 0;
    stores[r].count--
}

/* A full fence of the producer of r, and what a release RMW of its waits for: all it has stored. */
inline drain(r)
{
    tail[r] = stored_tail[r];
#ifdef PLAIN
    if
    :: r == WORK -> closed = stored_closed
    :: else
    fi;
#endif
    head[1 - (r)] = stored_head[1 - (r)];
    stores[r].oldest.is_head = false;
    stores[r].oldest.value = 0;
    stores[r].newest.is_head = false;
    stores[r].newest.value = 0;
    stores[r].count = 0
}

inline wakes(r)
{
#ifndef TWIN_CLEAR_LATE
    flag[r] = false;
#endif
    d_step { drain(r); epoch[r]++; asleep[r] = false };
#ifdef TWIN_CLEAR_LATE
    flag[r] = false
#endif
}

inline publish(r)
{
    d_step {
        MAY_STORE(r) ->
        stores_one(r, false, p_index[r]);
        stored_tail[r] = p_index[r];
        looked[r] = false
    };
    if
    :: flag[r] -> wakes(r)
    :: !flag[r]
    fi
}

inline flush(r)
{
    if
    :: p_index[r] != stored_tail[r] -> publish(r)
    :: else
    fi;
    if
    :: !looked[r] ->
#ifdef TWIN_FLUSH_NO_FENCE
        looked[r] = true;
#else
        d_step { looked[r] = true; drain(r) };
#endif
        if
        :: flag[r] -> wakes(r)
        :: !flag[r]
        fi
    :: else
    fi
}

/* Reserve, write and commit; both sides rely on finding room. */
inline put(r, item)
{
    d_step {
        if
        :: p_index[r] - p_other[r] >= CAPACITY -> p_other[r] = head[r]
        :: else
        fi;
        assert(p_index[r] - p_other[r] < CAPACITY);
#ifdef TWIN_PUBLISH_RELAXED
        stored_slot[SLOT(r, p_index[r])] = item;
#else
        slot[SLOT(r, p_index[r])] = item;
#endif
        p_index[r]++
    };
    if
    :: p_index[r] % BATCH == 0 -> publish(r)
    :: else
    fi
}

#ifdef PLAIN
/* wake_producer() */
inline wakes_for_space()
{
    space_flag = false;
    d_step { drain(BACK); space_epoch++; space_asleep = false }
}

inline looks_for_space()
{
    if
    :: space_flag -> wakes_for_space()
    :: !space_flag
    fi
}
#endif

/* taut__ring_give_back(). In a fan-out nobody waits for space. */
inline give_back(r)
{
    d_step {
        MAY_STORE(1 - r) ->
        stores_one(1 - r, true, c_index[r]);
        stored_head[r] = c_index[r];
        c_looked = false
    };
#ifdef PLAIN
    looks_for_space()
#endif
}

inline flush_released(r)
{
    if
    :: stored_head[r] != c_index[r] -> give_back(r)
    :: else
    fi;
#ifdef PLAIN
    if
    :: d_step { !c_looked -> c_looked = true; drain(BACK) };
       looks_for_space()
    :: c_looked
    fi
#endif
}

/* Peeks: `found` tells. */
inline peek(r)
{
    d_step {
        if
        :: c_index[r] == c_other[r] -> c_other[r] = tail[r]
        :: else
        fi;
        found = (c_index[r] != c_other[r])
    };
    if
    :: !found -> flush_released(r)
    :: found
    fi
}

/* Reads and releases what was peeked. */
inline get(r, wanted)
{
#ifdef TWIN_GIVE_BACK_EARLY
    c_index[r]++;
    give_back(r);
    assert(slot[SLOT(r, (c_index[r] - 1))] == wanted)
#else
    d_step { assert(slot[SLOT(r, c_index[r])] == wanted); c_index[r]++ };
    if
    :: c_index[r] % BATCH == 0 -> give_back(r)
    :: else
    fi
#endif
}

/* The consumer of r is the producer of 1 - r: drain(1 - r) is its fence. */
inline wait_items(r)
{
    flush_released(r);
    do
    :: HAS_ITEMS(r) -> break /* while it spins */
    :: true ->
#ifndef TWIN_EPOCH_LATE
        seen = epoch[r];
#endif
#ifdef TWIN_WAIT_NO_FENCE
        if
        :: HAS_ITEMS(r) -> break
        :: !HAS_ITEMS(r)
        fi;
        flag[r] = true;
#else
        d_step { flag[r] = true; drain(1 - r) };
        if
        :: HAS_ITEMS(r) -> break
        :: !HAS_ITEMS(r)
        fi;
#endif
#ifdef TWIN_EPOCH_LATE
        seen = epoch[r];
#endif
        if
        :: d_step { epoch[r] == seen -> asleep[r] = true }; !asleep[r]
        :: epoch[r] != seen
        fi;
        if
        :: HAS_ITEMS(r) -> break
        :: !HAS_ITEMS(r)
        fi
    od;
    atomic { flag[r] = false; seen = 0 }
}

#ifdef PLAIN
#define HAS_ROOM (p_index[WORK] - head[WORK] < CAPACITY)

inline wait_space()
{
#ifndef TWIN_FULL_NO_FLUSH
    flush(WORK);
#endif
    do
    :: HAS_ROOM -> break /* while it spins */
    :: true ->
        seen = space_epoch;
        d_step { space_flag = true; drain(WORK) };
        if
        :: HAS_ROOM -> break
        :: !HAS_ROOM
        fi;
        if
        :: d_step { space_epoch == seen -> space_asleep = true }; !space_asleep
        :: space_epoch != seen
        fi;
        if
        :: HAS_ROOM -> break
        :: !HAS_ROOM
        fi
    od;
    atomic { space_flag = false; seen = 0 }
}

/* taut_ring_close() */
inline closes()
{
#ifdef TWIN_CLOSE_FIRST
    d_step { MAY_STORE(WORK) -> stores_one(WORK, true, 1); stored_closed = true };
#endif
    if
    :: p_index[WORK] != stored_tail[WORK] -> publish(WORK)
    :: else
    fi;
#ifndef TWIN_CLOSE_FIRST
    d_step { MAY_STORE(WORK) -> stores_one(WORK, true, 1); stored_closed = true };
#endif
#ifndef TWIN_CLOSE_NO_FENCE
    d_step { drain(WORK) };
#endif
    if
    :: flag[WORK] -> wakes(WORK)
    :: !flag[WORK]
    fi
}

/* A ring by itself, whose two sides both sleep. */
active proctype producer()
{
    byte sent, seen;
    do
    :: atomic { sent < ITEMS && HAS_ROOM -> sent++ };
       put(WORK, sent)
    :: sent < ITEMS && !HAS_ROOM -> wait_space()
    :: sent == ITEMS -> break
    od;
    if
    :: flush(WORK) /* or not: closing does */
    :: true
    fi;
    closes()
}

active proctype consumer()
{
    byte taken, seen;
    bool found;
    do
    :: closed -> /* taut_ring_closed(): then the tail is the last one */
        if
        :: tail[WORK] == c_index[WORK] -> break
        :: else -> peek(WORK); taken++; get(WORK, taken)
        fi
    :: !closed ->
        peek(WORK);
        if
        :: found ->
            taken++;
            get(WORK, taken)
        :: else -> wait_items(WORK)
        fi
    od;
    assert(taken == ITEMS)
}
#else
active proctype owner()
{
    byte sent, reaped, seen;
    bool found;
    do
    :: sent < ITEMS && credit > 0 ->
        atomic { credit--; sent++ };
        put(WORK, sent)
    :: reaped < sent -> /* one turn of taut_fanout_reap() */
        peek(BACK);
        do
        :: found ->
            atomic { reaped++; credit++ };
            get(BACK, reaped);
            peek(BACK)
        :: !found -> break
        od;
        flush_released(BACK);
        flush(WORK);
        assert(credit == CREDITS - (sent - reaped));
        if
        :: reaped < sent && (sent == ITEMS || credit == 0) -> wait_items(BACK)
        :: else
        fi
    :: reaped == ITEMS -> break
    od
}

active proctype child()
{
    byte taken, seen;
    bool found;
    do
    :: atomic { taken == ITEMS && stored_tail[BACK] == ITEMS && looked[BACK] -> break }
    :: else ->
        peek(WORK);
        if
        :: found ->
            taken++;
            get(WORK, taken);
            put(BACK, taken);
            if
            :: flush(BACK) /* taut_fanout_flush_returns() */
            :: true
            fi
        :: else ->
#ifndef TWIN_NO_FLUSH
            flush(BACK);
#endif
            if
            :: taken < ITEMS -> wait_items(WORK)
            :: taken == ITEMS
            fi
        fi
    od
}
#endif

/* What was stored becomes visible, some time. */
active proctype memory()
{
end:
    do
    :: d_step { stores[WORK].count > 0 -> become_visible(WORK) }
    :: d_step { stores[BACK].count > 0 -> become_visible(BACK) }
#ifdef TWIN_PUBLISH_RELAXED
    :: slot[0] = stored_slot[0]
    :: slot[1] = stored_slot[1]
    :: slot[2] = stored_slot[2]
    :: slot[3] = stored_slot[3] /* some of them are enough */
#endif
    od
}
