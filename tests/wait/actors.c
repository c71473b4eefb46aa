/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/wait/actors.c - threads that run one at a time. */
#include "actors.h"

#include <stdlib.h>
#include <time.h>

#include "base/fence.h"
#include "base/process.h"

uint64_t actors_now_ns, actors_tick_ns;
uint32_t actors_wake_calls;

/* Of this test. Those of one that failed are left behind asleep, with what they wait for. */
static struct actor *actors;
static sem_t stopped; /* the actor that runs has stopped */
static _Thread_local struct actor *self;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                            uint32_t scope);
void __real_taut__full_fence(void);
void __wrap_taut__full_fence(void);
uint32_t __wrap_taut__futex_wake(const _Atomic uint32_t *word, uint32_t count, uint32_t scope);

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

static void stop(enum actor_state state)
{
    self->state = state;
    sem_post(&stopped);
    wait_for(&self->go);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!self)
        return __real_clock_gettime(clock, now);
    if (self->stop_at_clock && --self->stop_at_clock == 0)
        stop(ACTOR_AT_CLOCK);
    self->clock_looks++;
    actors_now_ns += actors_tick_ns;
    now->tv_sec = (time_t)(actors_now_ns / TAUT_NS_PER_S);
    now->tv_nsec = (long)(actors_now_ns % TAUT_NS_PER_S);
    return 0;
}

int __wrap_taut__futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns,
                            uint32_t scope)
{
    (void)scope;
    if (self->stop_at_futex) {
        self->stop_at_futex = 0;
        stop(ACTOR_AT_FUTEX);
    }
    if (atomic_load(word) != expected)
        return TAUT__FUTEX_CHANGED;
    self->word = word;
    self->until_ns = deadline_ns;
    self->woken = 0;
    self->sleeps++;
    stop(ACTOR_ASLEEP);
    self->word = NULL;
    return self->outcome;
}

uint32_t __wrap_taut__futex_wake(const _Atomic uint32_t *word, uint32_t count, uint32_t scope)
{
    (void)count;
    (void)scope;
    actors_wake_calls++;
    for (uint32_t i = 0; i < ACTORS; i++) {
        if (actors[i].word == word) {
            actors[i].woken++;
            return 1;
        }
    }
    return 0;
}

void __wrap_taut__full_fence(void)
{
    if (self->stop_at_fence) {
        self->stop_at_fence = 0;
        stop(ACTOR_AT_FENCE);
    }
    __real_taut__full_fence();
}

static void do_call(struct actor *actor)
{
    actor->sleeps = actor->clock_looks = 0;
    switch (actor->call) {
    case CALL_ACQUIRE:
        actor->result = taut_lock_acquire(actor->lock, actor->deadline_ns, &actor->report);
        break;
    case CALL_OR:
        actor->result = taut_lock_or(actor->lock, actor->gone, actor->context, actor->deadline_ns,
                                     &actor->report);
        break;
    case CALL_TRY:
        actor->result = taut_lock_try(actor->lock, &actor->report);
        break;
    case CALL_RELEASE:
        taut_lock_release(actor->lock);
        break;
    case CALL_LOOK:
        taut_lock_retest(actor->lock);
        break;
    case CALL_END:
        break;
    }
}

static void *run(void *context)
{
    self = context;
    self->tid = taut__tid();
    do {
        stop(ACTOR_IDLE);
        do_call(self);
    } while (self->call != CALL_END);
    return NULL;
}

static enum actor_state let_run(struct actor *actor)
{
    sem_post(&actor->go);
    wait_for(&stopped);
    return actor->state;
}

void actors_begin(void)
{
    actors = calloc(ACTORS, sizeof *actors);
    if (!actors)
        abort();
    actors_now_ns = 1000 * TAUT_NS_PER_S;
    actors_tick_ns = 0;
    actors_wake_calls = 0;
    if (sem_init(&stopped, 0, 0) != 0)
        abort();
    for (uint32_t i = 0; i < ACTORS; i++) {
        if (sem_init(&actors[i].go, 0, 0) != 0 ||
            pthread_create(&actors[i].thread, NULL, run, &actors[i]) != 0)
            abort();
        wait_for(&stopped);
    }
}

/* Who is still in a call would wait for ever: a test that fails leaves its threads behind. */
void actors_end(void)
{
    uint32_t ended = 0;
    for (uint32_t i = 0; i < ACTORS; i++) {
        if (actors[i].state != ACTOR_IDLE)
            continue;
        actors[i].call = CALL_END;
        sem_post(&actors[i].go);
        pthread_join(actors[i].thread, NULL);
        ended++;
    }
    if (ended == ACTORS)
        free(actors);
}

struct actor *actor_of(uint32_t number)
{
    return &actors[number];
}

static struct actor *begin(uint32_t number, enum actor_call call, struct taut_lock *lock)
{
    struct actor *actor = &actors[number];
    if (actor->state != ACTOR_IDLE)
        abort();
    actor->call = call;
    actor->lock = lock;
    return actor;
}

enum actor_state actor_acquire(uint32_t number, struct taut_lock *lock, uint64_t deadline_ns)
{
    struct actor *actor = begin(number, CALL_ACQUIRE, lock);
    actor->deadline_ns = deadline_ns;
    return let_run(actor);
}

enum actor_state actor_or(uint32_t number, struct taut_lock *lock, int (*gone)(void *context),
                          void *context, uint64_t deadline_ns)
{
    struct actor *actor = begin(number, CALL_OR, lock);
    actor->gone = gone;
    actor->context = context;
    actor->deadline_ns = deadline_ns;
    return let_run(actor);
}

enum actor_state actor_try(uint32_t number, struct taut_lock *lock)
{
    return let_run(begin(number, CALL_TRY, lock));
}

enum actor_state actor_release(uint32_t number, struct taut_lock *lock)
{
    return let_run(begin(number, CALL_RELEASE, lock));
}

enum actor_state actor_retest(uint32_t number, struct taut_lock *lock)
{
    return let_run(begin(number, CALL_LOOK, lock));
}

enum actor_state actor_resume(uint32_t number, int outcome)
{
    struct actor *actor = &actors[number];
    if (actor->state == ACTOR_IDLE)
        abort();
    actor->outcome = outcome;
    return let_run(actor);
}
