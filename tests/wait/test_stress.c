/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No wake-up is lost: threads play ping-pong over events, without spinning, with default and
 * adaptive budgets, yielding and spinning without bounds, with 1, 2 and 4 threads a CPU; and, as
 * the argument "one-cpu", all of them on one CPU. Each wait has a deadline of many seconds; one
 * that expires is a wake-up that was lost. At rest every count must add up exactly.
 *
 * 100,000 rounds each. Where threads spin without bounds and there are more of them than CPUs, a
 * hand-over costs a time slice of the scheduler (4 ms): there it is a tenth at 2 threads a CPU, a
 * 40th at 4, and on one CPU a 200th. With the environment's TAUT_SOAK=N, N rounds in all (1: 10^8,
 * and 100,000 also there).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <taut/topology.h>
#include <taut/wait.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif

#ifdef SANITIZED
#define ROUNDS 20000u /* each access costs ten times as much */
#else
#define ROUNDS 100000u
#endif
#define SOAK_ROUNDS UINT64_C(100000000)
#define PAIRS_MOST  64u
#define LOST_NS     (20 * TAUT_NS_PER_S)

enum mode { NONE, DEFAULT, ADAPTIVE, YIELDING, UNBOUNDED, MODES };

static const char *const mode_names[] = {"no spinning", "default", "adaptive window",
                                         "unbounded yields", "unbounded spins"};

struct side {
    struct taut_event event; /* moved for this side */
    uint32_t value;          /* written by the other side before it publishes: no atomic */
    uint32_t wrong_values, lost, refused;
    uint64_t woken; /* sum of what this side's publications returned */
};

struct pair {
    struct side sides[2];
    uint64_t rounds;
    enum mode mode;
    pthread_t threads[2];
    struct seat {
        struct pair *pair;
        int number;
    } seats[2];
};

static struct taut_wait_policy policy_of(enum mode mode, struct taut_window *window)
{
    struct taut_wait_policy policy = {.size = sizeof policy};
    if (mode == NONE)
        policy.spin_ns = policy.yield_ns = TAUT_WAIT_NONE_NS;
    if (mode == YIELDING) {
        policy.spin_ns = TAUT_WAIT_NONE_NS;
        policy.yield_ns = TAUT_NEVER_NS;
    }
    if (mode == UNBOUNDED)
        policy.spin_ns = TAUT_NEVER_NS;
    if (mode == ADAPTIVE && taut_window_init(window, NULL, NULL) == 0)
        policy.window = window;
    return policy;
}

static void *play(void *context)
{
    struct seat *seat = context;
    struct side *mine = &seat->pair->sides[seat->number],
                *other = &seat->pair->sides[!seat->number];
    struct taut_window window;
    struct taut_wait_policy policy = policy_of(seat->pair->mode, &window);
    for (uint64_t i = 0; i < seat->pair->rounds; i++) {
        uint32_t round = (uint32_t)i;
        if (seat->number == 0) {
            other->value = round;
            mine->woken += taut_event_publish(&other->event);
        }
        int outcome =
            taut_wait(&mine->event, round, taut_deadline_ns(taut_now_ns(), LOST_NS), &policy, NULL);
        mine->lost += outcome == TAUT_WAIT_EXPIRED;
        mine->refused += outcome < 0;
        if (outcome == TAUT_WAIT_EXPIRED || outcome < 0)
            break; /* the other side then expires, too */
        mine->wrong_values += mine->value != round;
        if (seat->number == 1) {
            other->value = round;
            mine->woken += taut_event_publish(&other->event);
        }
    }
    return NULL;
}

static void check_side(const struct side *side, const struct side *other, uint64_t rounds)
{
    struct taut_event_stats stats;
    taut_event_stats(&side->event, &stats);
    assert_int_equal(side->refused, 0);
    if (side->lost != 0)
        fail_msg("LOST wake-up: epoch %u, sleepers %u, published %llu, wake calls %llu",
                 stats.epoch, stats.sleepers, (unsigned long long)stats.published,
                 (unsigned long long)stats.wake_calls);
    assert_int_equal(side->wrong_values, 0);
    assert_int_equal(stats.published, rounds);
    assert_int_equal(stats.waits, rounds);
    assert_int_equal(stats.expired, 0);
    assert_int_equal(stats.caught + stats.parked, rounds);
    assert_int_equal(stats.sleepers, 0);
    /* One waiter: each publication with a system call found exactly one thread, and who slept for
     * good was found by one. */
    assert_int_equal(stats.wake_calls, other->woken);
    assert_true(stats.parked <= stats.wake_calls && stats.wake_calls <= stats.published);
    /* Not equal: who was woken in vain may find the epoch moved before the next sleep begins. */
    assert_true(stats.sleeps >= stats.parked && stats.sleeps <= stats.parked + stats.spurious);
}

/* `threads` in pairs play `rounds` in all. */
static void ping_pong(enum mode mode, uint32_t threads, uint64_t rounds, const char *where)
{
    static struct pair pairs[PAIRS_MOST];
    uint32_t count = threads / 2 < PAIRS_MOST ? threads / 2 : PAIRS_MOST;
    uint64_t parked = 0, wake_calls = 0, began_ns = taut_now_ns();
    for (uint32_t i = 0; i < count; i++) {
        struct pair *pair = &pairs[i];
        *pair = (struct pair){.rounds = (rounds + count - 1) / count, .mode = mode};
        assert_int_equal(taut_event_init(&pair->sides[0].event), 0);
        assert_int_equal(taut_event_init(&pair->sides[1].event), 0);
        for (int k = 0; k < 2; k++) {
            pair->seats[k] = (struct seat){pair, k};
            assert_int_equal(pthread_create(&pair->threads[k], NULL, play, &pair->seats[k]), 0);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        for (int k = 0; k < 2; k++)
            pthread_join(pairs[i].threads[k], NULL);
    }
    uint64_t spent_ns = taut_now_ns() - began_ns;
    for (uint32_t i = 0; i < count; i++) {
        for (int k = 0; k < 2; k++) {
            struct side *side = &pairs[i].sides[k];
            struct taut_event_stats stats;
            check_side(side, &pairs[i].sides[!k], pairs[i].rounds);
            taut_event_stats(&side->event, &stats);
            parked += stats.parked;
            wake_calls += stats.wake_calls;
            assert_int_equal(taut_event_destroy(&side->event), 0);
        }
    }
    print_message("%s, %u threads %s: %llu rounds, %llu sleeps, %llu wake calls, %.1f us a round\n",
                  mode_names[mode], threads, where, (unsigned long long)rounds,
                  (unsigned long long)parked, (unsigned long long)wake_calls,
                  (double)spent_ns / 1e3 / (double)rounds);
}

/* Rounds of a configuration. In a soak those without spinning get the most: they sleep and wake. */
static uint64_t rounds_of(enum mode mode, uint64_t divisor)
{
    const char *soak = getenv("TAUT_SOAK");
    uint64_t rounds = ROUNDS;
    if (soak != NULL && *soak != '\0') {
        uint64_t wanted = strtoull(soak, NULL, 10);
        wanted = wanted > 1 ? wanted : SOAK_ROUNDS;
        rounds = mode == NONE ? wanted / 4 + 1 : wanted / 100 + 1;
        if (wanted >= SOAK_ROUNDS && rounds / divisor < ROUNDS)
            return ROUNDS;
    }
    return rounds / divisor + 1;
}

static uint32_t cpu_count(void)
{
    struct taut_cpuset mine;
    assert_int_equal(taut_cpuset_of_self(&mine), 0);
    return taut_cpuset_count(&mine);
}

static void no_wake_up_is_lost_at_any_number_of_threads(void **state)
{
    (void)state;
    uint32_t cpus = cpu_count();
    for (uint32_t mode = 0; mode < MODES; mode++) {
        for (uint32_t each = 1; each <= 4; each *= 2) {
            uint32_t threads = cpus * each > 2 ? cpus * each & ~1u : 2;
            uint64_t divisor = mode == UNBOUNDED && each > 1 ? 10 * each / 2 * each / 2 : 1;
            ping_pong((enum mode)mode, threads, rounds_of((enum mode)mode, divisor), "on all CPUs");
        }
    }
}

static void no_wake_up_is_lost_on_one_cpu(void **state)
{
    (void)state;
    struct taut_cpuset before;
    assert_int_equal(taut_cpuset_of_self(&before), 0);
    assert_int_equal(taut_cpu_bind_self(taut_cpuset_nth(&before, 0), NULL), 0);
    for (uint32_t mode = 0; mode < MODES; mode++)
        ping_pong((enum mode)mode, 2, rounds_of((enum mode)mode, mode == UNBOUNDED ? 200 : 1),
                  "on one CPU");
    assert_int_equal(taut_cpuset_bind_self(&before, NULL), 0);
}

/* --- deadlines that race publications -------------------------------------------------------- */

#define RACERS 3

struct race {
    struct taut_event event;
    _Atomic uint32_t ended; /* racers that are through */
    uint32_t publications;
    struct racer {
        struct race *race;
        uint32_t seed, lost;
        uint64_t waits, expired;
        pthread_t thread;
    } racers[RACERS];
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static void *race_deadlines(void *context)
{
    struct racer *racer = context;
    static const struct taut_wait_policy parks = {
        .size = sizeof parks, .spin_ns = TAUT_WAIT_NONE_NS, .yield_ns = TAUT_WAIT_NONE_NS};
    struct race *race = racer->race;
    uint64_t give_up_ns = taut_deadline_ns(taut_now_ns(), 4 * LOST_NS);
    for (;;) {
        uint32_t seen = taut_event_epoch(&race->event);
        if (seen >= race->publications)
            break;
        uint64_t now_ns = taut_now_ns();
        if (now_ns > give_up_ns) {
            racer->lost = 1;
            break;
        }
        int outcome = taut_wait(&race->event, seen,
                                now_ns + next_random(&racer->seed) % (150 * TAUT_NS_PER_US),
                                racer->seed & 64 ? &parks : NULL, NULL);
        racer->waits++;
        racer->expired += outcome == TAUT_WAIT_EXPIRED;
    }
    atomic_fetch_add(&race->ended, 1);
    return NULL;
}

/* A sleeper that leaves by its deadline takes itself off, one that is published to does not, and
 * when both happen at once it is exactly one of them: at rest the count is 0. */
static void deadlines_that_race_publications_leave_no_count_behind(void **state)
{
    (void)state;
    static struct race race;
    race = (struct race){.publications = ROUNDS / 5};
    assert_int_equal(taut_event_init(&race.event), 0);
    for (uint32_t i = 0; i < RACERS; i++) {
        race.racers[i] = (struct racer){.race = &race, .seed = i + 1};
        assert_int_equal(
            pthread_create(&race.racers[i].thread, NULL, race_deadlines, &race.racers[i]), 0);
    }
    uint64_t woken = 0;
    uint32_t seed = 99;
    for (uint32_t i = 0; i < race.publications; i++) {
        uint64_t until_ns = taut_now_ns() + next_random(&seed) % (100 * TAUT_NS_PER_US);
        while (taut_now_ns() < until_ns)
            ;
        woken += taut_event_publish(&race.event);
    }
    uint64_t waits = 0, expired = 0;
    uint32_t lost = 0;
    for (uint32_t i = 0; i < RACERS; i++) {
        pthread_join(race.racers[i].thread, NULL);
        waits += race.racers[i].waits;
        expired += race.racers[i].expired;
        lost += race.racers[i].lost;
    }
    struct taut_event_stats stats;
    taut_event_stats(&race.event, &stats);
    print_message("%llu waits of which %llu expired and %llu slept, %llu sleepers published to\n",
                  (unsigned long long)waits, (unsigned long long)expired,
                  (unsigned long long)stats.parked, (unsigned long long)woken);
    assert_int_equal(lost, 0);
    assert_int_equal(stats.sleepers, 0);
    assert_int_equal(stats.waits, waits);
    assert_int_equal(stats.expired, expired);
    assert_int_equal(stats.caught + stats.parked + stats.expired, stats.waits);
    assert_int_equal(stats.published, race.publications);
    assert_true(woken >= stats.parked);
    /* The premise: both kinds of end were there, or nothing was raced. */
    if (expired == 0 || stats.parked == 0)
        fail_msg("inconclusive: %llu expired, %llu parked", (unsigned long long)expired,
                 (unsigned long long)stats.parked);
    assert_int_equal(taut_event_destroy(&race.event), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all_cpus[] = {
        cmocka_unit_test(no_wake_up_is_lost_at_any_number_of_threads),
        cmocka_unit_test(deadlines_that_race_publications_leave_no_count_behind),
    };
    /* A program of its own: whether spinning pays is read once a process. */
    const struct CMUnitTest one_cpu[] = {
        cmocka_unit_test(no_wake_up_is_lost_on_one_cpu),
    };
    if (argc > 1 && strcmp(argv[1], "one-cpu") == 0)
        return cmocka_run_group_tests_name("wait/stress-one-cpu", one_cpu, NULL, NULL);
    return cmocka_run_group_tests_name("wait/stress", all_cpus, NULL, NULL);
}
