/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/wait/virtual.h - a clock that moves only as a test says, and a price for each thing that
 * the library does: looking at the clock, yielding, sleeping. Link with VIRTUAL_WRAPS
 * (meson.build). One thread only; off (all real) until virtual_begin().
 */
#ifndef TESTS_WAIT_VIRTUAL_H
#define TESTS_WAIT_VIRTUAL_H

#include <taut/wait.h>

struct virtual_world {
    int on;
    uint64_t now_ns;
    uint64_t read_cost_ns;  /* of each look at the clock */
    uint64_t yield_cost_ns; /* of each yield */
    uint64_t oversleep_ns;  /* a sleep that expires ends that long after its deadline */
    uint64_t reads, yields, sleeps, wakes;
    uint64_t sleep_deadline_ns; /* of the last sleep */
    uint32_t sleep_expected;
    /* What happens meanwhile; NULL = nothing. on_sleep() returns how the sleep ends; NULL: it
     * expires, and a sleep without a deadline aborts the program. */
    void (*on_read)(void);
    void (*on_yield)(void);
    int (*on_sleep)(void);
    void (*on_wake)(void);
};

extern struct virtual_world virtual;

/* All counters 0, the clock at one hour, prices: read 40 ns, yield 400 ns. */
void virtual_begin(void);
void virtual_end(void);

/* Fixtures: begin and end, with an event and the window of a machine of 4 CPUs that are idle. */
extern struct taut_event event;
extern struct taut_window window;
int virtual_setup(void **state);
int virtual_teardown(void **state);

#endif
