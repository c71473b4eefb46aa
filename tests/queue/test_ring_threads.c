/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring between real threads: order, loss and doubling over streams with random batches, flushes
 * and stops; wake-ups that must not be lost, one by one; at no spinning, the default and unbounded,
 * on all CPUs and on one. A wait that expires is a lost wake-up: its deadline is far behind all
 * delays of a scheduler.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <taut/queue.h>
#include <taut/topology.h>

#define LOST_NS (10 * TAUT_NS_PER_S)
#define PAIRS   4u

static uint64_t soak(uint64_t usual, uint64_t in_soak)
{
    return getenv("TAUT_SOAK") ? in_soak : usual;
}

/* How one case waits and where it runs. */
struct setting {
    uint64_t spin_ns; /* as in struct taut_wait_policy */
    int one_cpu;
};

static const struct setting settings[] = {
    {TAUT_WAIT_NONE_NS, 0}, {0, 0}, {TAUT_NEVER_NS, 0},
    {TAUT_WAIT_NONE_NS, 1}, {0, 1}, {TAUT_NEVER_NS, 1},
};
#define SETTINGS (sizeof settings / sizeof settings[0])

/* An unbounded spin on one CPU lasts until that is taken away: a time slice a wait. */
static int slow(const struct setting *setting)
{
    return setting->spin_ns == TAUT_NEVER_NS && setting->one_cpu;
}

/* Threads of a case inherit the affinity of the main thread. */
static void place(const struct setting *setting, struct taut_cpuset *before)
{
    assert_int_equal(taut_cpuset_of_self(before), 0);
    if (setting->one_cpu)
        assert_int_equal(taut_cpu_bind_self(taut_cpuset_nth(before, 0), NULL), 0);
}

static void place_back(const struct taut_cpuset *before)
{
    assert_int_equal(taut_cpuset_bind_self(before, NULL), 0);
}

static uint32_t draw(uint64_t *random, uint32_t below)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (uint32_t)((*random >> 20) % below);
}

/* Also where a wait finds at its deadline what nobody had woken it for. */
static int is_lost(int outcome, const struct taut_wait_report *report)
{
    return outcome < 0 || outcome == TAUT_WAIT_EXPIRED || report->late_ns > 0;
}

static void pauses(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        atomic_signal_fence(memory_order_seq_cst);
}

/* --- streams -------------------------------------------------------------------------------- */

struct stream {
    struct taut_ring *ring;
    struct taut_event items, space;
    struct taut_wait_policy policy;
    uint64_t count, seed;
    /* results */
    uint64_t received, disorder, expired, failed;
};

static void *stream_produce(void *context)
{
    struct stream *stream = context;
    struct taut_ring *ring = stream->ring;
    struct taut_wait_report report;
    uint64_t random = stream->seed, next = 0, expired = 0;
    while (next < stream->count) {
        uint64_t left = stream->count - next;
        uint32_t want = 1 + draw(&random, draw(&random, 8) ? 8 : 200), got;
        uint64_t *slots = taut_ring_reserve_n(ring, want < left ? want : (uint32_t)left, &got);
        if (!slots) {
            uint64_t deadline_ns = taut_deadline_ns(taut_now_ns(), LOST_NS);
            int outcome = taut_ring_wait_space(ring, deadline_ns, &stream->policy, &report);
            expired += is_lost(outcome, &report) ? 1 : 0;
            if (expired)
                break;
            continue;
        }
        for (uint32_t i = 0; i < got; i++)
            slots[i] = next++;
        taut_ring_commit_n(ring, got);
        if (draw(&random, 16) == 0) {
            taut_ring_flush(ring); /* "its input is empty": a stop */
            pauses(draw(&random, 3000));
        }
    }
    stream->failed += expired;
    taut_ring_close(ring);
    return NULL;
}

static void *stream_consume(void *context)
{
    struct stream *stream = context;
    struct taut_ring *ring = stream->ring;
    struct taut_wait_report report;
    uint64_t random = ~stream->seed, next = 0, disorder = 0;
    for (;;) {
        uint32_t got;
        const uint64_t *slots = taut_ring_peek_n(ring, 1 + draw(&random, 64), &got);
        if (!slots) {
            if (taut_ring_closed(ring))
                break;
            uint64_t deadline_ns = taut_deadline_ns(taut_now_ns(), LOST_NS);
            int outcome = taut_ring_wait_items(ring, deadline_ns, &stream->policy, &report);
            if (is_lost(outcome, &report)) {
                stream->expired++;
                break;
            }
            continue;
        }
        for (uint32_t i = 0; i < got; i++)
            disorder += slots[i] != next++;
        taut_ring_release_n(ring, got);
        if (draw(&random, 64) == 0)
            pauses(draw(&random, 20000)); /* the ring fills */
    }
    stream->received = next;
    stream->disorder = disorder;
    return NULL;
}

static void stream_once(const struct setting *setting, uint32_t capacity, uint32_t batch,
                        uint64_t count)
{
    struct stream stream = {
        .policy = {.size = sizeof stream.policy, .spin_ns = setting->spin_ns, .strict = 1},
        .count = count,
        .seed = count * 3 + capacity};
    const struct taut_ring_options options = {.size = sizeof options,
                                              .capacity = capacity,
                                              .item_bytes = sizeof(uint64_t),
                                              .publish_batch = batch,
                                              .event = &stream.items,
                                              .space_event = &stream.space};
    assert_int_equal(taut_event_init(&stream.items), 0);
    assert_int_equal(taut_event_init(&stream.space), 0);
    assert_int_equal(taut_ring_create(&stream.ring, &options, NULL), 0);
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, stream_produce, &stream), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, stream_consume, &stream), 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    struct taut_ring_stats stats;
    taut_ring_stats(stream.ring, &stats);
    assert_int_equal(stream.failed, 0);
    assert_int_equal(stream.expired, 0);
    assert_int_equal(stream.disorder, 0);
    assert_int_equal(stream.received, count);
    assert_int_equal(stats.pushed, count);
    assert_int_equal(stats.popped, count);
    assert_true(stats.high_water > 0 && stats.high_water <= capacity);
    assert_int_equal(taut_ring_destroy(stream.ring), 0);
    assert_int_equal(taut_event_destroy(&stream.items), 0);
    assert_int_equal(taut_event_destroy(&stream.space), 0);
}

static void streams_keep_order_and_lose_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct taut_cpuset before;
        place(&settings[i], &before);
        uint64_t count = soak(settings[i].one_cpu ? 200000 : 500000, 60000000);
        if (slow(&settings[i]))
            count = soak(2000, 200000);
        stream_once(&settings[i], 1024, 8, count);
        stream_once(&settings[i], 64, 16, count);
        stream_once(&settings[i], 8, 1, count / 4);
        stream_once(&settings[i], 1, 1, count / 50);
        place_back(&before);
    }
}

/* --- items told alone ----------------------------------------------------------------------- */

static void *alone_produce(void *context)
{
    struct stream *stream = context;
    for (uint64_t i = 0; i < stream->count; i++) {
        while (!taut_ring_push_u64(stream->ring, i * 3))
            sched_yield();
        pauses((uint32_t)(i % 3) *
               20); /* now the consumer is a step behind, now it waits for this item */
    }
    return NULL;
}

/* An item published alone comes by the line of the index; the next may be on its way into it. */
static void an_item_told_alone_is_the_right_one(void **state)
{
    (void)state;
    struct stream stream = {.count = soak(2000000, 1000000000)};
    const struct taut_ring_options options = {.size = sizeof options,
                                              .capacity = 1024,
                                              .item_bytes = sizeof(uint64_t),
                                              .publish_batch = 1};
    assert_int_equal(taut_ring_create(&stream.ring, &options, NULL), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, alone_produce, &stream), 0);
    uint64_t wrong = 0, value;
    for (uint64_t i = 0; i < stream.count; i++) {
        while (!taut_ring_pop_u64(stream.ring, &value))
            pauses(10);
        wrong += value != i * 3;
    }
    pthread_join(thread, NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(taut_ring_destroy(stream.ring), 0);
}

/* --- wake-ups ------------------------------------------------------------------------------- */

/*
 * Lines that the first side reads and the second then writes before it waits: each such store waits
 * for its line, and all later ones behind it. So the flag of the waiter becomes visible late, which
 * is what its fence is for; without them the flag is hardly ever late enough.
 */
#define SLOW_LINES 48

struct slow_line {
    TAUT__LINE _Atomic uint64_t word;
};

/* Two rings; each round is one item there and one back, and both sides sleep in between. */
struct pair {
    struct taut_ring *there, *back;
    struct taut_event there_event, back_event;
    struct taut_wait_policy policies[2];
    struct slow_line lines[SLOW_LINES];
    uint32_t pauses_most, slow_lines;
    uint64_t rounds, seed;
    /* results */
    uint64_t lost, wrong, parks[2];
};

/* The item that comes next, or 0. */
static uint64_t await(const struct taut_wait_policy *policy, struct taut_ring *ring,
                      uint64_t *parks, uint64_t *lost)
{
    uint64_t value;
    struct taut_wait_report report;
    while (!taut_ring_pop_u64(ring, &value)) {
        if (taut_ring_closed(ring))
            return 0;
        uint64_t deadline_ns = taut_deadline_ns(taut_now_ns(), LOST_NS);
        int outcome = taut_ring_wait_items(ring, deadline_ns, policy, &report);
        if (is_lost(outcome, &report)) {
            (*lost)++;
            return 0;
        }
        *parks += report.parks;
    }
    return value;
}

static void *pair_first(void *context)
{
    struct pair *pair = context;
    uint64_t random = pair->seed, parks = 0, lost = 0, wrong = 0;
    for (uint64_t i = 1; i <= pair->rounds && !lost; i++) {
        pauses(draw(&random, pair->pauses_most));
        wrong += !taut_ring_push_u64(pair->there, i);
        taut_ring_flush(pair->there);
        for (uint32_t k = 0; k < pair->slow_lines; k++)
            (void)atomic_load_explicit(&pair->lines[k].word, memory_order_relaxed);
        wrong += await(&pair->policies[0], pair->back, &parks, &lost) != i;
    }
    taut_ring_close(pair->there);
    pair->parks[0] = parks;
    pair->wrong = wrong;
    pair->lost = lost;
    return NULL;
}

static void *pair_second(void *context)
{
    struct pair *pair = context;
    uint64_t random = ~pair->seed, parks = 0, lost = 0, value;
    while ((value = await(&pair->policies[1], pair->there, &parks, &lost)) != 0) {
        pauses(draw(&random, pair->pauses_most));
        (void)taut_ring_push_u64(pair->back, value);
        taut_ring_flush(pair->back);
        for (uint32_t k = 0; k < pair->slow_lines; k++)
            atomic_store_explicit(&pair->lines[k].word, value, memory_order_relaxed);
    }
    taut_ring_close(pair->back);
    pair->parks[1] = parks;
    return NULL;
}

/* Returns the sleeps of the second sides. */
static uint64_t pairs_run(uint64_t first_spin_ns, uint64_t second_spin_ns, uint32_t pairs,
                          uint64_t rounds, uint32_t pauses_most, uint32_t slow_lines)
{
    static struct pair all[PAIRS];
    pthread_t threads[2 * PAIRS];
    for (uint32_t i = 0; i < pairs; i++) {
        struct pair *pair = &all[i];
        *pair = (struct pair){.pauses_most = pauses_most,
                              .slow_lines = slow_lines,
                              .rounds = rounds,
                              .seed = rounds + i + 1};
        for (int side = 0; side < 2; side++) {
            pair->policies[side].size = sizeof pair->policies[side];
            pair->policies[side].spin_ns = side == 0 ? first_spin_ns : second_spin_ns;
        }
        struct taut_ring_options options = {.size = sizeof options,
                                            .capacity = 4,
                                            .item_bytes = sizeof(uint64_t),
                                            .event = &pair->there_event};
        assert_int_equal(taut_event_init(&pair->there_event), 0);
        assert_int_equal(taut_event_init(&pair->back_event), 0);
        assert_int_equal(taut_ring_create(&pair->there, &options, NULL), 0);
        options.event = &pair->back_event;
        assert_int_equal(taut_ring_create(&pair->back, &options, NULL), 0);
    }
    for (uint32_t i = 0; i < pairs; i++) {
        assert_int_equal(pthread_create(&threads[2 * i], NULL, pair_first, &all[i]), 0);
        assert_int_equal(pthread_create(&threads[2 * i + 1], NULL, pair_second, &all[i]), 0);
    }
    for (uint32_t i = 0; i < 2 * pairs; i++)
        pthread_join(threads[i], NULL);
    uint64_t parks = 0;
    for (uint32_t i = 0; i < pairs; i++) {
        assert_int_equal(all[i].lost, 0);
        assert_int_equal(all[i].wrong, 0);
        parks += all[i].parks[1];
        assert_int_equal(taut_ring_destroy(all[i].there), 0);
        assert_int_equal(taut_ring_destroy(all[i].back), 0);
        assert_int_equal(taut_event_destroy(&all[i].there_event), 0);
        assert_int_equal(taut_event_destroy(&all[i].back_event), 0);
    }
    return parks;
}

/*
 * The item is published just when the consumer goes to sleep: the first side spins, and is there
 * with the next item a few hundred nanoseconds after it got the last. This is where a fence that is
 * missing on either side shows.
 */
static void an_item_beside_the_sleep_wakes(void **state)
{
    (void)state;
    struct taut_cpuset cpus;
    assert_int_equal(taut_cpuset_of_self(&cpus), 0);
    if (taut_cpuset_count(&cpus) < 2) {
        print_message("one CPU: the two sides never run at once\n");
        skip();
    }
    for (uint32_t pauses_most = 4; pauses_most <= 1024; pauses_most *= 4) {
        uint64_t rounds = soak(30000, 3000000);
        (void)pairs_run(TAUT_NS_PER_S, TAUT_WAIT_NONE_NS, 1, rounds, pauses_most, 0);
        (void)pairs_run(TAUT_NS_PER_S, TAUT_WAIT_NONE_NS, 1, rounds, pauses_most, SLOW_LINES);
    }
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        struct taut_cpuset before;
        place(&settings[i], &before);
        uint64_t rounds = slow(&settings[i]) ? soak(100, 20000) : soak(60000, 3000000);
        uint64_t spin_ns = settings[i].spin_ns;
        uint64_t parks = pairs_run(spin_ns, spin_ns, 1, rounds, 2000, 0);
        /* The premise: without spinning somebody slept. */
        if (spin_ns == TAUT_WAIT_NONE_NS)
            assert_true(parks > rounds / 100);
        (void)pairs_run(spin_ns, spin_ns, PAIRS, rounds / 20, 2000, 0);
        place_back(&before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_keep_order_and_lose_nothing),
        cmocka_unit_test(an_item_told_alone_is_the_right_one),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(an_item_beside_the_sleep_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
