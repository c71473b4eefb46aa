/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/wait/virtual.c - the linker puts these in the place of the real ones (--wrap). */
#include "virtual.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/futex.h"

struct virtual_world virtual;
struct taut_event event;
struct taut_window window;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __real_taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                            uint32_t scope);
int __wrap_taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                            uint32_t scope);
uint32_t __real_taut__futex_wake(const _Atomic uint32_t *word, uint32_t count, uint32_t scope);
uint32_t __wrap_taut__futex_wake(const _Atomic uint32_t *word, uint32_t count, uint32_t scope);

void virtual_begin(void)
{
    virtual = (struct virtual_world){
        .on = 1, .now_ns = 3600 * TAUT_NS_PER_S, .read_cost_ns = 40, .yield_cost_ns = 400};
}

void virtual_end(void)
{
    virtual.on = 0;
}

int virtual_setup(void **state)
{
    static const struct taut_window_options quiet_machine = {
        .size = sizeof quiet_machine, .cpus = 4, .quota = 2};
    (void)state;
    virtual_begin();
    return taut_event_init(&event) == 0 && taut_window_init(&window, &quiet_machine, NULL) == 0
               ? 0
               : -1;
}

int virtual_teardown(void **state)
{
    (void)state;
    virtual_end();
    return taut_event_destroy(&event);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!virtual.on || clock != CLOCK_MONOTONIC)
        return __real_clock_gettime(clock, time);
    virtual.reads++;
    virtual.now_ns += virtual.read_cost_ns;
    if (virtual.on_read != NULL)
        virtual.on_read();
    time->tv_sec = (time_t)(virtual.now_ns / TAUT_NS_PER_S);
    time->tv_nsec = (long)(virtual.now_ns % TAUT_NS_PER_S);
    return 0;
}

int __wrap_sched_yield(void)
{
    if (!virtual.on)
        return __real_sched_yield();
    virtual.yields++;
    virtual.now_ns += virtual.yield_cost_ns;
    if (virtual.on_yield != NULL)
        virtual.on_yield();
    return 0;
}

int __wrap_taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                            uint32_t scope)
{
    if (!virtual.on)
        return __real_taut__futex_wait(word, expected, deadline_ns, scope);
    virtual.sleeps++;
    virtual.sleep_deadline_ns = deadline_ns;
    virtual.sleep_expected = expected;
    if (virtual.on_sleep != NULL)
        return virtual.on_sleep();
    if (deadline_ns == TAUT_NEVER_NS)
        abort(); /* nobody would ever wake it */
    if (virtual.now_ns < deadline_ns)
        virtual.now_ns = deadline_ns;
    virtual.now_ns += virtual.oversleep_ns;
    return TAUT__FUTEX_EXPIRED;
}

uint32_t __wrap_taut__futex_wake(const _Atomic uint32_t *word, uint32_t count, uint32_t scope)
{
    virtual.wakes += virtual.on != 0;
    if (!virtual.on)
        return __real_taut__futex_wake(word, count, scope);
    if (virtual.on_wake != NULL)
        virtual.on_wake();
    return 0;
}
