/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fan-out between real threads. A child that stands still holds up nobody else (counted in
 * turns of the owner, by flags and not by sleeping); with random stops, every item comes back
 * exactly once and each flow keeps its order; at no spinning, the default and unbounded, on all
 * CPUs and on one.
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

#define CHILDREN 4u
#define FLOWS    5u /* of one child */
#define LOST_NS  (10 * TAUT_NS_PER_S)

struct crew;

struct worker {
    struct crew *crew;
    uint32_t index;
    uint64_t seed;
    pthread_t thread;
    _Atomic uint32_t stop, stopped; /* the order to stand still, and that it does */
    /* results */
    uint64_t taken, disorder, failed;
};

/* Lines that a child has read and the owner then writes before it sends: its stores wait for each,
 * and so does the one of the index, which is what the fence of a flush is for. */
#define SLOW_LINES 48

struct slow_line {
    TAUT__LINE _Atomic uint64_t word;
};

struct crew {
    struct slow_line lines[SLOW_LINES];
    uint32_t slow_lines;
    struct taut_fanout *fanout;
    struct taut_wait_policy policy;
    uint32_t random_stops;
    uint32_t sheds; /* gaps in a flow are right */
    struct worker workers[CHILDREN];
};

static uint64_t soak(uint64_t usual, uint64_t in_soak)
{
    return getenv("TAUT_SOAK") ? in_soak : usual;
}

static uint32_t draw(uint64_t *random, uint32_t below)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (uint32_t)((*random >> 20) % below);
}

static uint64_t late(void)
{
    return taut_deadline_ns(taut_now_ns(), LOST_NS);
}

/* Stands still while ordered to; the owner's word comes back through the same flag. */
static void obey(struct worker *worker)
{
    if (!atomic_load_explicit(&worker->stop,
                              memory_order_acquire)) /* pairs with the owner's store */
        return;
    atomic_store_explicit(&worker->stopped, 1, memory_order_release); /* pairs with the owner */
    while (atomic_load_explicit(&worker->stop, memory_order_acquire))
        sched_yield();
    atomic_store_explicit(&worker->stopped, 0, memory_order_release);
}

/* An item is the flow's own count. Holds up to seven at a time, and returns them in any order. */
static void *work(void *context)
{
    struct worker *worker = context;
    struct taut_fanout *fanout = worker->crew->fanout;
    struct taut_fanout_item held[7];
    uint32_t count = 0;
    uint64_t random = worker->seed, next[FLOWS] = {0};
    for (;;) {
        obey(worker);
        struct taut_fanout_item item;
        if (count < 7 && taut_fanout_take(fanout, worker->index, &item)) {
            uint64_t expected = next[item.flow % FLOWS];
            worker->disorder +=
                item.flow / FLOWS != worker->index ||
                (worker->crew->sheds ? item.item < expected : item.item != expected);
            next[item.flow % FLOWS] = item.item + 1;
            worker->taken++;
            for (uint32_t k = 0; k < worker->crew->slow_lines; k++)
                (void)atomic_load_explicit(&worker->crew->lines[k].word, memory_order_relaxed);
            held[count++] = item;
            if (worker->crew->random_stops && draw(&random, 2000) == 0) {
                for (uint32_t i = draw(&random, 100); i > 0; i--)
                    sched_yield();
            }
        } else if (count == 0) {
            if (taut_fanout_closed(fanout, worker->index))
                break;
            /* Without an end: a child whose wake-up is lost sleeps on, and the owner, which waits
             * for what it has, is late. */
            int outcome = taut_fanout_wait_work(fanout, worker->index, TAUT_NEVER_NS,
                                                &worker->crew->policy, NULL);
            if (outcome < 0) {
                worker->failed++;
                break;
            }
            continue;
        }
        if (count == 7 || (count > 0 && draw(&random, 3))) {
            uint32_t at = draw(&random, count);
            taut_fanout_return(fanout, worker->index, &held[at]);
            held[at] = held[--count];
        }
    }
    taut_fanout_flush_returns(fanout, worker->index);
    return NULL;
}

static void hire(struct crew *crew, const struct taut_fanout_options *options)
{
    assert_int_equal(taut_fanout_create(&crew->fanout, options, NULL), 0);
    for (uint32_t i = 0; i < CHILDREN; i++) {
        struct worker *worker = &crew->workers[i];
        worker->crew = crew;
        worker->index = i;
        worker->seed = 77 + i;
        assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
    }
}

/* What the owner knows: by child and flow, how many were given, and which came back. */
struct ledger {
    uint64_t given[CHILDREN * FLOWS];
    uint8_t *back[CHILDREN * FLOWS]; /* by item */
    uint64_t twice, foreign, came_back;
};

static void enter(struct ledger *ledger, const struct taut_fanout_item *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].flow >= CHILDREN * FLOWS || items[i].item >= ledger->given[items[i].flow]) {
            ledger->foreign++;
            continue;
        }
        ledger->twice += ledger->back[items[i].flow][items[i].item]++ != 0;
        ledger->came_back++;
    }
}

static void ledger_open(struct ledger *ledger, uint64_t most)
{
    memset(ledger, 0, sizeof *ledger);
    for (uint32_t flow = 0; flow < CHILDREN * FLOWS; flow++) {
        ledger->back[flow] = calloc(most, 1);
        assert_non_null(ledger->back[flow]);
    }
}

static void ledger_close(struct ledger *ledger)
{
    for (uint32_t flow = 0; flow < CHILDREN * FLOWS; flow++)
        free(ledger->back[flow]);
}

/* Sends one item of a random flow of the child; 0: refused. */
static int give(struct crew *crew, struct ledger *ledger, uint32_t child, uint64_t *random)
{
    uint32_t flow = child * FLOWS + draw(random, FLOWS);
    struct taut_fanout_item shed;
    int outcome = taut_fanout_send(crew->fanout, child, flow, ledger->given[flow], &shed);
    if (outcome == TAUT_FANOUT_REFUSED)
        return 0;
    ledger->given[flow]++;
    if (outcome == TAUT_FANOUT_SHED)
        enter(ledger, &shed, 1);
    return 1;
}

static void dismiss(struct crew *crew, struct ledger *ledger)
{
    struct taut_fanout_item returned[64];
    uint32_t count;
    struct taut_fanout_stats stats;
    /* All that is parked is sent on before the end. */
    for (uint32_t i = 0; i < CHILDREN; i++) {
        while (taut_fanout_stats(crew->fanout, i, &stats) == 0 && stats.parked > 0) {
            count = taut_fanout_reap(crew->fanout, returned, 64);
            enter(ledger, returned, count);
            if (count == 0 && taut_fanout_wait_returns(crew->fanout, late(), &crew->policy, NULL) ==
                                  TAUT_WAIT_EXPIRED)
                fail_msg("child %u returns nothing", i);
        }
    }
    taut_fanout_close(crew->fanout);
    for (uint32_t i = 0; i < CHILDREN; i++)
        pthread_join(crew->workers[i].thread, NULL);
    while ((count = taut_fanout_reap(crew->fanout, returned, 64)) > 0)
        enter(ledger, returned, count);
    uint64_t given = 0;
    for (uint32_t flow = 0; flow < CHILDREN * FLOWS; flow++)
        given += ledger->given[flow];
    assert_int_equal(ledger->twice, 0);
    assert_int_equal(ledger->foreign, 0);
    assert_int_equal(ledger->came_back, given);
    for (uint32_t i = 0; i < CHILDREN; i++) {
        assert_int_equal(taut_fanout_stats(crew->fanout, i, &stats), 0);
        assert_int_equal(crew->workers[i].failed, 0);
        assert_int_equal(crew->workers[i].disorder, 0);
        assert_int_equal(stats.sent, stats.delivered + stats.parked + stats.shed);
        assert_int_equal(stats.delivered, stats.returned);
        assert_int_equal(stats.delivered, crew->workers[i].taken);
        assert_int_equal(stats.outstanding, 0);
        assert_int_equal(stats.parked, 0);
        assert_true(stats.outstanding_high <= stats.effective);
    }
    assert_int_equal(taut_fanout_destroy(crew->fanout), 0);
}

/* --- a child that stands still -------------------------------------------------------------- */

static void a_child_that_stands_still_holds_up_nobody(void **state)
{
    (void)state;
    static struct crew crew;
    struct ledger ledger;
    const uint64_t each = 20000;
    const struct taut_fanout_options options = {
        .size = sizeof options, .children = CHILDREN, .capacity = 64, .park = 30};
    memset(&crew, 0, sizeof crew);
    ledger_open(&ledger, CHILDREN * each);
    atomic_store_explicit(&crew.workers[2].stop, 1, memory_order_release); /* pairs with obey() */
    hire(&crew, &options);
    while (!atomic_load_explicit(&crew.workers[2].stopped, memory_order_acquire)) /* obey() */
        sched_yield();

    struct taut_fanout_item returned[64];
    struct taut_fanout_stats stats;
    uint64_t random = 5, sent[CHILDREN] = {0}, refused = 0;
    while (sent[0] < each || sent[1] < each || sent[3] < each) {
        uint32_t moved = 0;
        for (uint32_t child = 0; child < CHILDREN; child++) {
            if (sent[child] >= each)
                continue;
            int taken = give(&crew, &ledger, child, &random);
            sent[child] += (uint64_t)taken;
            refused += child == 2 && !taken;
            moved += child != 2 && taken;
        }
        uint32_t count = taut_fanout_reap(crew.fanout, returned, 64);
        enter(&ledger, returned, count);
        if (count + moved == 0)
            assert_int_not_equal(taut_fanout_wait_returns(crew.fanout, late(), &crew.policy, NULL),
                                 TAUT_WAIT_EXPIRED);
    }
    /* The premise: it stood still all the time, with nothing left to give it. */
    assert_int_equal(atomic_load(&crew.workers[2].stopped), 1);
    assert_int_equal(taut_fanout_stats(crew.fanout, 2, &stats), 0);
    assert_int_equal(stats.delivered, stats.effective);
    assert_int_equal(stats.returned, 0);
    assert_int_equal(stats.parked, 30);
    assert_int_equal(sent[2], stats.effective + 30);
    assert_true(refused > 0);
    assert_true(stats.stall_ns > 0);
    atomic_store_explicit(&crew.workers[2].stop, 0, memory_order_release); /* pairs with obey() */
    dismiss(&crew, &ledger);
    ledger_close(&ledger);
}

/* --- wake-ups ------------------------------------------------------------------------------- */

/*
 * One item at a time, sent just when the child goes to sleep: the owner spins for its return, and
 * sends the next a few hundred nanoseconds later. A fence that is missing in the flush shows here.
 */
static void a_child_that_goes_to_sleep_is_woken(void **state)
{
    (void)state;
    static struct crew crew;
    struct ledger ledger;
    const uint64_t rounds = soak(40000, 4000000);
    const struct taut_fanout_options options = {
        .size = sizeof options, .children = CHILDREN, .capacity = 16};
    struct taut_cpuset cpus;
    assert_int_equal(taut_cpuset_of_self(&cpus), 0);
    if (taut_cpuset_count(&cpus) < 2) {
        print_message("one CPU: owner and child never run at once\n");
        skip();
    }
    memset(&crew, 0, sizeof crew);
    crew.slow_lines = SLOW_LINES;
    crew.policy =
        (struct taut_wait_policy){.size = sizeof crew.policy, .spin_ns = TAUT_WAIT_NONE_NS};
    ledger_open(&ledger, 4 * rounds);
    hire(&crew, &options);
    struct taut_wait_policy spin = {.size = sizeof spin, .spin_ns = TAUT_NS_PER_S};
    struct taut_fanout_item returned[8];
    uint64_t random = 11, lost = 0;
    for (uint64_t i = 0; i < 4 * rounds && !lost; i++) {
        uint32_t most = 4u << (i / rounds * 2), count = 0;
        for (uint32_t k = 0; k < crew.slow_lines; k++)
            atomic_store_explicit(&crew.lines[k].word, i, memory_order_relaxed);
        (void)give(&crew, &ledger, 0, &random);
        taut_fanout_flush(crew.fanout);
        while (!lost && (count = taut_fanout_reap(crew.fanout, returned, 8)) == 0)
            lost = taut_fanout_wait_returns(crew.fanout, late(), &spin, NULL) == TAUT_WAIT_EXPIRED;
        enter(&ledger, returned, count);
        for (uint32_t k = draw(&random, most); k > 0; k--)
            atomic_signal_fence(memory_order_seq_cst);
    }
    assert_int_equal(lost, 0);
    dismiss(&crew, &ledger);
    ledger_close(&ledger);
}

/* --- random stops --------------------------------------------------------------------------- */

static void storm(uint64_t spin_ns, uint32_t policy, uint32_t capacity, uint64_t items)
{
    static struct crew crew;
    struct ledger ledger;
    const struct taut_fanout_options options = {.size = sizeof options,
                                                .children = CHILDREN,
                                                .capacity = capacity,
                                                .park = capacity / 2,
                                                .policy = policy};
    memset(&crew, 0, sizeof crew);
    crew.policy = (struct taut_wait_policy){.size = sizeof crew.policy, .spin_ns = spin_ns};
    crew.random_stops = 1;
    crew.sheds = policy != TAUT_FANOUT_REFUSE;
    ledger_open(&ledger, items + 1);
    hire(&crew, &options);
    struct taut_fanout_item returned[64];
    uint64_t random = items + capacity;
    for (uint64_t given = 0; given < items;) {
        uint32_t moved = 0;
        for (uint32_t child = 0; child < CHILDREN && given + moved < items; child++) {
            for (uint32_t i = draw(&random, 8); i > 0 && given + moved < items; i--)
                moved += (uint32_t)give(&crew, &ledger, child, &random);
        }
        uint32_t count = taut_fanout_reap(crew.fanout, returned, 1 + draw(&random, 64));
        enter(&ledger, returned, count);
        given += moved;
        if (count + moved == 0) {
            struct taut_fanout_stats stats;
            uint64_t out = 0;
            for (uint32_t child = 0; child < CHILDREN; child++) {
                taut_fanout_stats(crew.fanout, child, &stats);
                out += stats.outstanding;
            }
            if (out > 0)
                assert_int_not_equal(
                    taut_fanout_wait_returns(crew.fanout, late(), &crew.policy, NULL),
                    TAUT_WAIT_EXPIRED);
        }
    }
    dismiss(&crew, &ledger);
    ledger_close(&ledger);
}

/* A soak of the whole goes over 10^9 items: several times this, since a ledger has a byte an item.
 */
static void nothing_is_lost_doubled_or_freed_twice(void **state)
{
    (void)state;
    static const uint64_t spins[] = {TAUT_WAIT_NONE_NS, 0, TAUT_NEVER_NS};
    uint64_t sum = 0;
    struct taut_cpuset before;
    assert_int_equal(taut_cpuset_of_self(&before), 0);
    for (uint64_t again = soak(1, 100); again > 0; again--) {
        for (int one = 0; one < 2; one++) {
            if (one)
                assert_int_equal(taut_cpu_bind_self(taut_cpuset_nth(&before, 0), NULL), 0);
            for (size_t i = 0; i < 3; i++) {
                uint64_t items = soak(one ? 50000 : 100000, 1000000);
                if (one && spins[i] == TAUT_NEVER_NS)
                    items = 2000; /* a time slice a wait */
                storm(spins[i], TAUT_FANOUT_REFUSE, 256, items);
                storm(spins[i], TAUT_FANOUT_REFUSE, 4, items / 10);
                storm(spins[i], TAUT_FANOUT_SHED_NEWEST, 32, items);
                storm(spins[i], TAUT_FANOUT_SHED_OLDEST, 32, items);
                sum += 3 * items + items / 10;
            }
        }
        assert_int_equal(taut_cpuset_bind_self(&before, NULL), 0);
        print_message("%llu items so far\n", (unsigned long long)sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_stands_still_holds_up_nobody),
        cmocka_unit_test(a_child_that_goes_to_sleep_is_woken),
        cmocka_unit_test(nothing_is_lost_doubled_or_freed_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
