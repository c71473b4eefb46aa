/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * echo.pml - an item that is published alone is told beside the index: the consumer gets that item,
 * and never another one's value.
 *
 * What of the source is modelled, function by function; all in lib/queue/ring.c:
 *
 *   taut_ring_push_u64()   taut/queue.h   producer: one slot, or two before they are published
 *   taut__ring_publish()                  producer: tell_alone() where it is one, then tail
 *   tell_alone()                          TELL: echo_at (relaxed), then echo (release)
 *   taut__ring_pop_u64()                  consumer: tail, echo (acquire), echo_at, else the slot
 *   taut_ring_pop_u64()    taut/queue.h   consumer: what is known to be there is read from its slot
 *
 * Memory: the producer's stores become visible at any later moment. A release store only after all
 * that were stored before it; a relaxed one (slots, echo_at) also before others, but not before an
 * earlier one to the same place. The consumer's loads go in program order, which its acquires are
 * for.
 *
 * Left out: batches of more than two, sleeping (ring.pml), and the consumer's releases, which are
 * visible at once.
 *
 * pan: -DSAFETY
 * config large: -DCAPACITY=4
 * twin TWIN_ECHO_AT_FIRST: assertion violated: echo_at is read before echo
 * twin TWIN_ECHO_RELAXED: assertion violated: echo may be seen before its echo_at
 * twin TWIN_TOLD_LATE: assertion violated: tail is stored first
 * twin TWIN_NO_ECHO_AT: assertion violated: whatever was told last is taken
 */
#ifndef CAPACITY
#define CAPACITY 2
#endif
#ifndef ITEMS
#define ITEMS 7
#endif

/* Places: the slots, and behind them: */
#define TAIL    CAPACITY
#define ECHO_AT (CAPACITY + 1) /* plus one: 0 is the index of none */
#define ECHO    (CAPACITY + 2)
#define PLACES  (CAPACITY + 3)
byte memory[PLACES];
byte head;

/* Stores that are not visible yet, the oldest first. */
#define BUFFER 3
byte place[BUFFER], value[BUFFER];
bool release[BUFFER];
byte pending;
hidden byte one;

inline store(where, what, is_release)
{
    d_step {
        pending < BUFFER ->
        place[pending] = where;
        value[pending] = what;
        release[pending] = is_release;
        pending++
    }
}

inline become_visible(which)
{
    memory[place[which]] = value[which];
    for (one : which .. BUFFER - 2) {
        place[one] = place[one + 1];
        value[one] = value[one + 1];
        release[one] = release[one + 1]
    }
    pending--;
    place[pending] = 0;
    value[pending] = 0;
    release[pending] = false
}

#define RELAXED(which) (pending > which && !release[which])

active proctype visibility()
{
end:
    do
    :: d_step { pending > 0 -> become_visible(0) }
    :: d_step { RELAXED(1) && place[1] != place[0] -> become_visible(1) }
    :: d_step { RELAXED(2) && place[2] != place[0] && place[2] != place[1] -> become_visible(2) }
    od
}

#ifdef TWIN_ECHO_RELAXED
#define ECHO_RELEASES false
#else
#define ECHO_RELEASES true
#endif

inline tell_alone()
{
    if
    :: index - told == 1 ->
        store(ECHO_AT, index, false);
        store(ECHO, index, ECHO_RELEASES)
    :: else
    fi
}

/* Item number n, from 0 on, has the value n + 1. */
active proctype producer()
{
    byte index, told;
    do
    :: index < ITEMS && index - head < CAPACITY ->
        store(index % CAPACITY, index + 1, false);
        index++;
        if
        :: true ->
#ifndef TWIN_TOLD_LATE
            tell_alone();
#endif
            store(TAIL, index, true);
#ifdef TWIN_TOLD_LATE
            tell_alone();
#endif
            told = index
        :: index - told < 2 && index < ITEMS && index - head < CAPACITY /* with the next one */
        fi
    :: index == ITEMS -> break
    od
}

active proctype consumer()
{
    byte index, other, got, at;
    do
    :: index == ITEMS -> break
    :: index < ITEMS && index == other ->
        other = memory[TAIL];
        if
        :: other != index -> /* one or more: the echo may be of this item, or of a later one */
#ifdef TWIN_ECHO_AT_FIRST
            at = memory[ECHO_AT];
            got = memory[ECHO];
#else
            got = memory[ECHO];
            at = memory[ECHO_AT];
#endif
            if
#ifdef TWIN_NO_ECHO_AT
            :: true
#else
            :: at == index + 1
            :: at != index + 1 -> got = memory[index % CAPACITY]
#endif
            fi;
            atomic { assert(got == index + 1); got = 0; at = 0; index++; head = index }
        :: other == index /* nothing yet */
        fi
    :: index != other ->
        atomic { assert(memory[index % CAPACITY] == index + 1); index++; head = index }
    od
}
