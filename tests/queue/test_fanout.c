/* SPDX-License-Identifier: BSD-2-Clause */
/* The fan-out on one thread: credit, side lists, policies, order, counters, options, misuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "child.h"
#include "queue/fanout.h"

static struct taut_fanout_options of(uint32_t children)
{
    return (struct taut_fanout_options){.size = sizeof(struct taut_fanout_options),
                                        .children = children,
                                        .capacity = 32,
                                        .park = 10};
}

static struct taut_fanout *make(const struct taut_fanout_options *options)
{
    struct taut_fanout *fanout;
    struct taut_err err = {0};
    if (taut_fanout_create(&fanout, options, &err) != 0)
        fail_msg("%s", err.text);
    return fanout;
}

static struct taut_fanout_stats stats_of(const struct taut_fanout *fanout, uint32_t child)
{
    struct taut_fanout_stats stats;
    assert_int_equal(taut_fanout_stats(fanout, child, &stats), 0);
    assert_int_equal(stats.sent, stats.delivered + stats.parked + stats.shed);
    assert_int_equal(stats.delivered, stats.returned + stats.outstanding);
    return stats;
}

static uint32_t send_until(struct taut_fanout *fanout, uint32_t child, int not_outcome,
                           uint64_t first)
{
    uint32_t count = 0;
    while (taut_fanout_send(fanout, child, 1, first + count, NULL) != not_outcome)
        count++;
    return count;
}

/* The child takes and returns `count` items and tells. */
static void serve(struct taut_fanout *fanout, uint32_t child, uint64_t first, uint32_t count)
{
    struct taut_fanout_item item;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(taut_fanout_take(fanout, child, &item), 1);
        assert_int_equal(item.item, first + i);
        taut_fanout_return(fanout, child, &item);
    }
    taut_fanout_flush_returns(fanout, child);
}

static void refused(struct taut_fanout_options options, const char *text)
{
    struct taut_err err = {0};
    struct taut_fanout *fanout = (struct taut_fanout *)(void *)&err;
    assert_int_equal(taut_fanout_footprint(&options), 0);
    assert_int_equal(taut_fanout_create(&fanout, &options, &err), TAUT_EINVAL);
    assert_null(fanout);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void bad_options_are_refused_with_a_text(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(0);
    refused(options, "children");
    refused(of(TAUT_FANOUT_CHILDREN_MAX + 1), "children");
    const uint32_t capacities[] = {
        1, 3, 240, 255, TAUT_FANOUT_CAPACITY_MAX + 1, 2 * TAUT_FANOUT_CAPACITY_MAX};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        options = of(2);
        options.capacity = capacities[i];
        refused(options, "capacity");
    }
    options = of(2), options.publish_batch = 6, refused(options, "publish_batch");
    options = of(2), options.publish_batch = 64, refused(options, "publish_batch");
    options = of(2), options.reserve = 32, refused(options, "reserve");
    options = of(2), options.reserve = 6, refused(options, "reserve");
    options = of(9), options.credits = 8, refused(options, "9 children share 8 credits");
    options = of(2), options.policy = 3, refused(options, "policy");
    options = of(2), options.park = TAUT_FANOUT_CAPACITY_MAX + 1, refused(options, "park");
    options = of(2), options.high_mark = 27, refused(options, "high_mark");
    options = of(2), options.high_mark = 5, options.low_mark = 5, refused(options, "low_mark");
    options = of(2), options.size = 4, refused(options, "size");
    options = of(2), options.size = 0; /* as in version 0.1 */
    options.low_mark = 99, refused(options, "low_mark");
    options.size = offsetof(struct taut_fanout_options, low_mark); /* an older header's */
    assert_int_not_equal(taut_fanout_footprint(&options), 0);
    assert_int_equal(taut_fanout_footprint(NULL), 0);
    assert_int_equal(taut_fanout_create(NULL, &options, NULL), TAUT_EINVAL);
}

static void nominal_and_effective_capacity_are_told(void **state)
{
    (void)state;
    const struct {
        uint32_t capacity, batch, reserve, credits, effective, reserve_in_effect;
    } rows[] = {
        {0, 0, 0, 0, 240, 16}, /* 256 - 16: the record's numbers, by default */
        {256, 1, 1, 0, 255, 1}, {32, 0, 0, 0, 16, 16}, {32, 0, 7, 0, 25, 7}, {4, 0, 0, 0, 2, 2},
        {2, 0, 0, 0, 1, 1},     {64, 0, 0, 9, 3, 16},  {64, 0, 0, 3, 1, 16}, /* as many credits as
                                                                                children */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct taut_fanout_options options = of(3);
        options.capacity = rows[i].capacity;
        options.publish_batch = rows[i].batch;
        options.reserve = rows[i].reserve;
        options.credits = rows[i].credits;
        struct taut_fanout *fanout = make(&options);
        struct taut_fanout_stats stats = stats_of(fanout, 2);
        assert_int_equal(stats.capacity, rows[i].capacity ? rows[i].capacity : 256);
        assert_int_equal(stats.effective, rows[i].effective);
        assert_int_equal(stats.reserve, rows[i].reserve_in_effect);
        assert_int_equal(send_until(fanout, 2, TAUT_FANOUT_PARKED, 0), rows[i].effective);
        assert_int_equal(taut_fanout_destroy(fanout), 0);
    }
}

static void memory_is_the_callers_and_checked(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(5);
    struct taut_fanout *fanout;
    size_t bytes = taut_fanout_footprint(&options);
    assert_int_equal(bytes % TAUT_LINE_BYTES, 0);
    uint8_t *memory = aligned_alloc(TAUT_LINE_BYTES, bytes + TAUT_LINE_BYTES);
    memset(memory + bytes, 0xa5, TAUT_LINE_BYTES);
    assert_int_equal(taut_fanout_init(&fanout, &options, memory, bytes - 1, NULL), TAUT_ENOMEM);
    assert_int_equal(taut_fanout_init(&fanout, &options, memory + 64, bytes, NULL), TAUT_EINVAL);
    assert_int_equal(taut_fanout_init(&fanout, &options, NULL, bytes, NULL), TAUT_EINVAL);
    assert_null(fanout);
    assert_int_equal(taut_fanout_init(&fanout, &options, memory, bytes, NULL), 0);
    for (uint32_t child = 0; child < 5; child++) {
        assert_int_equal(send_until(fanout, child, TAUT_FANOUT_REFUSED, 0), 26);
        serve(fanout, child, 0, 0);
    }
    for (size_t i = 0; i < TAUT_LINE_BYTES; i++)
        assert_int_equal(memory[bytes + i], 0xa5);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
    free(memory);
}

/* The record's fault was one gate for all: here each child has its own. */
static void one_full_child_holds_up_nobody(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(4);
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item returned[64];
    assert_int_equal(send_until(fanout, 1, TAUT_FANOUT_REFUSED, 0), 26);
    for (uint64_t turn = 0; turn < 500; turn++) {
        for (uint32_t child = 0; child < 4; child++) {
            if (child == 1)
                continue;
            assert_int_equal(taut_fanout_send(fanout, child, child, turn, NULL), TAUT_FANOUT_SENT);
        }
        taut_fanout_flush(fanout);
        for (uint32_t child = 0; child < 4; child++) {
            if (child != 1)
                serve(fanout, child, turn, 1);
        }
        assert_int_equal(taut_fanout_reap(fanout, returned, 64), 3);
    }
    assert_int_equal(stats_of(fanout, 1).returned, 0);
    assert_int_equal(stats_of(fanout, 1).parked, 10);
    assert_int_equal(stats_of(fanout, 1).refused, 1);
    assert_int_equal(stats_of(fanout, 2).returned, 500);
    assert_int_equal(stats_of(fanout, 2).parked_total, 0);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

static void parked_items_go_on_in_order_and_nothing_overtakes(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(2);
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item returned[64];
    uint64_t next = send_until(fanout, 0, TAUT_FANOUT_PARKED, 0) + 1;
    assert_int_equal(next, 17); /* 16 sent, the 17th parked */
    taut_fanout_flush(fanout);
    serve(fanout, 0, 0, 5);
    /* Credit is back in the return ring, but not reaped: what is parked stays before what is new.
     */
    assert_int_equal(taut_fanout_send(fanout, 0, 1, next++, NULL), TAUT_FANOUT_PARKED);
    assert_int_equal(taut_fanout_reap(fanout, returned, 3), 3);
    assert_int_equal(stats_of(fanout, 0).parked, 0);
    assert_int_equal(taut_fanout_send(fanout, 0, 1, next++, NULL), TAUT_FANOUT_SENT);
    assert_int_equal(taut_fanout_send(fanout, 0, 1, next++, NULL), TAUT_FANOUT_PARKED);
    assert_int_equal(taut_fanout_reap(fanout, returned, 64), 2);
    taut_fanout_flush(fanout);
    serve(fanout, 0, 5, 15);
    assert_int_equal(taut_fanout_reap(fanout, returned, 64), 15);
    assert_int_equal(stats_of(fanout, 0).returned, 20);
    assert_int_equal(stats_of(fanout, 0).parked_total, 3);
    assert_int_equal(stats_of(fanout, 0).stalls, 2);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

/* A child with parked items and credit: only within a reap, but even then new ones go behind. */
static void a_small_reap_serves_all_children_in_turn(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(3);
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item returned[4];
    for (uint32_t child = 0; child < 3; child++) {
        for (uint64_t i = 0; i < 6; i++)
            taut_fanout_send(fanout, child, 1, i, NULL);
    }
    assert_int_equal(taut_fanout_reap(fanout, returned, 0), 0); /* flushes */
    for (uint32_t child = 0; child < 3; child++)
        serve(fanout, child, 0, 6);
    for (int i = 0; i < 9; i++)
        assert_int_equal(taut_fanout_reap(fanout, returned, 1), 1);
    for (uint32_t child = 0; child < 3; child++)
        assert_int_equal(stats_of(fanout, child).returned, 3);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

static void a_full_side_list_does_what_the_policy_says(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(3);
    options.policy = TAUT_FANOUT_SHED_NEWEST;
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item shed = {0};
    assert_int_equal(taut_fanout_set_policy(fanout, 1, TAUT_FANOUT_SHED_OLDEST), 0);
    assert_int_equal(taut_fanout_set_policy(fanout, 2, TAUT_FANOUT_REFUSE), 0);
    assert_int_equal(taut_fanout_set_policy(fanout, 3, TAUT_FANOUT_REFUSE), TAUT_EINVAL);
    assert_int_equal(taut_fanout_set_policy(fanout, 0, 3), TAUT_EINVAL);
    for (uint32_t child = 0; child < 3; child++) {
        for (uint64_t i = 0; i < 26; i++)
            assert_int_equal(taut_fanout_send(fanout, child, 1, i, NULL),
                             i < 16 ? TAUT_FANOUT_SENT : TAUT_FANOUT_PARKED);
    }
    for (uint64_t i = 0; i < 25; i++) {
        assert_int_equal(taut_fanout_send(fanout, 0, 5, 100 + i, &shed), TAUT_FANOUT_SHED);
        assert_int_equal(shed.item, 100 + i);
        assert_int_equal(shed.flow, 5);
        assert_int_equal(taut_fanout_send(fanout, 1, 5, 26 + i, &shed), TAUT_FANOUT_SHED);
        assert_int_equal(shed.item, 16 + i);
        assert_int_equal(shed.flow, i < 10 ? 1 : 5);
        assert_int_equal(taut_fanout_send(fanout, 2, 5, 200 + i, &shed), TAUT_FANOUT_REFUSED);
    }
    assert_int_equal(stats_of(fanout, 0).shed, 25);
    assert_int_equal(stats_of(fanout, 1).shed, 25);
    assert_int_equal(stats_of(fanout, 2).shed, 0);
    assert_int_equal(stats_of(fanout, 2).refused, 25);
    assert_int_equal(stats_of(fanout, 2).sent, 26);
    for (uint32_t child = 0; child < 3; child++) {
        assert_int_equal(stats_of(fanout, child).parked, 10);
        assert_int_equal(stats_of(fanout, child).parked_high, 10);
        assert_int_equal(stats_of(fanout, child).outstanding_high, 16);
        assert_int_equal(stats_of(fanout, child).stalls, 1);
    }
    /* Those that were kept arrive, in order. */
    struct taut_fanout_item returned[64];
    serve(fanout, 1, 0, 16);
    assert_int_equal(taut_fanout_reap(fanout, returned, 64), 16);
    serve(fanout, 1, 41, 10);
    assert_int_equal(taut_fanout_shed(fanout, 1, &shed), 0);
    assert_int_equal(taut_fanout_shed(fanout, 0, &shed), 1);
    assert_int_equal(shed.item, 16);
    assert_int_equal(taut_fanout_shed(fanout, 9, &shed), 0);
    assert_int_equal(stats_of(fanout, 0).shed, 26);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

static void a_child_is_pressed_from_the_high_mark_to_the_low_mark(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(1);
    options.high_mark = 12;
    options.low_mark = 4;
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item returned[64];
    for (uint64_t i = 0; i < 12; i++) {
        assert_int_equal(taut_fanout_pressed(fanout, 0), 0);
        taut_fanout_send(fanout, 0, 1, i, NULL);
    }
    assert_int_equal(taut_fanout_pressed(fanout, 0), 1);
    taut_fanout_flush(fanout);
    serve(fanout, 0, 0, 7);
    taut_fanout_reap(fanout, returned, 64);
    assert_int_equal(taut_fanout_pressed(fanout, 0), 1);
    serve(fanout, 0, 7, 1);
    taut_fanout_reap(fanout, returned, 64);
    assert_int_equal(taut_fanout_pressed(fanout, 0), 0);
    assert_int_equal(stats_of(fanout, 0).pressed_count, 1);
    assert_int_equal(taut_fanout_pressed(fanout, 1), 0);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

/* No credit and items that wait: from the first that was parked until none is. */
static void a_stall_is_timed_while_it_lasts(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(2);
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item returned[64];
    uint64_t before_ns = taut_now_ns();
    send_until(fanout, 0, TAUT_FANOUT_PARKED, 0);
    uint64_t parked_ns = taut_now_ns();
    while (taut_now_ns() - parked_ns < TAUT_NS_PER_MS)
        ;
    assert_true(stats_of(fanout, 0).stall_ns >= TAUT_NS_PER_MS);
    taut_fanout_flush(fanout);
    serve(fanout, 0, 0, 3);
    taut_fanout_reap(fanout, returned, 64);
    uint64_t stall_ns = stats_of(fanout, 0).stall_ns;
    assert_true(stall_ns >= TAUT_NS_PER_MS);
    assert_true(stall_ns <= taut_now_ns() - before_ns);
    parked_ns = taut_now_ns();
    while (taut_now_ns() - parked_ns < TAUT_NS_PER_MS)
        ;
    assert_int_equal(stats_of(fanout, 0).stall_ns, stall_ns); /* over is over */
    assert_int_equal(stats_of(fanout, 1).stall_ns, 0);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

static void the_end_keeps_what_is_parked_for_the_owner(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(2);
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item item, returned[64];
    send_until(fanout, 0, TAUT_FANOUT_REFUSED, 0);
    taut_fanout_close(fanout);
    assert_int_equal(taut_fanout_send(fanout, 0, 1, 1, NULL), TAUT_ESTATE);
    assert_int_equal(taut_fanout_closed(fanout, 1), 1);
    assert_int_equal(taut_fanout_closed(fanout, 0), 0);
    serve(fanout, 0, 0, 16);
    assert_int_equal(taut_fanout_take(fanout, 0, &item), 0);
    assert_int_equal(taut_fanout_closed(fanout, 0), 1);
    assert_int_equal(taut_fanout_wait_work(fanout, 0, TAUT_NEVER_NS, NULL, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_fanout_reap(fanout, returned, 64), 16);
    assert_int_equal(stats_of(fanout, 0).parked, 10);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(taut_fanout_shed(fanout, 0, &item), 1);
        assert_int_equal(item.item, 16 + i);
    }
    assert_int_equal(stats_of(fanout, 0).outstanding_high, 16); /* survives */
    struct taut_fanout_stats stats;
    assert_int_equal(taut_fanout_send(fanout, 9, 1, 1, NULL), TAUT_EINVAL);
    assert_int_equal(taut_fanout_send(NULL, 0, 1, 1, NULL), TAUT_EINVAL);
    assert_int_equal(taut_fanout_set_policy(NULL, 0, TAUT_FANOUT_REFUSE), TAUT_EINVAL);
    assert_int_equal(taut_fanout_wait_work(NULL, 0, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_fanout_wait_returns(NULL, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_fanout_stats(NULL, 0, &stats), TAUT_EINVAL);
    assert_int_equal(taut_fanout_stats(fanout, 0, NULL), TAUT_EINVAL);
    assert_int_equal(taut_fanout_wait_work(fanout, 9, 0, NULL, NULL), TAUT_EINVAL);
    assert_int_equal(taut_fanout_stats(fanout, 2, &stats), TAUT_EINVAL);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
    assert_int_equal(taut_fanout_destroy(NULL), 0);
}

/* A child that only takes and returns, and finds no more work, has told all. */
static void a_child_without_work_holds_no_return_back(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(1);
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item item, returned[8];
    taut_fanout_send(fanout, 0, 1, 42, NULL);
    taut_fanout_flush(fanout);
    assert_int_equal(taut_fanout_take(fanout, 0, &item), 1);
    taut_fanout_return(fanout, 0, &item);
    assert_int_equal(taut_fanout_reap(fanout, returned, 8), 0);
    assert_int_equal(taut_fanout_take(fanout, 0, &item), 0);
    assert_int_equal(taut_fanout_reap(fanout, returned, 8), 1);
    assert_int_equal(returned[0].item, 42);
    taut_fanout_send(fanout, 0, 1, 43, NULL);
    taut_fanout_flush(fanout);
    assert_int_equal(taut_fanout_take(fanout, 0, &item), 1);
    taut_fanout_return(fanout, 0, &item);
    assert_int_equal(taut_fanout_wait_work(fanout, 0, 0, NULL, NULL), TAUT_WAIT_EXPIRED);
    assert_int_equal(taut_fanout_wait_returns(fanout, TAUT_NEVER_NS, NULL, NULL), TAUT_WAIT_CAUGHT);
    assert_int_equal(taut_fanout_reap(fanout, returned, 8), 1);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

/* --- misuse: in a child process, which must abort ------------------------------------------- */

/* Each leaves its returns flushed and reaped. */
static void give(struct taut_fanout *fanout, uint32_t child, const struct taut_fanout_item *item)
{
    struct taut_fanout_item returned[64];
    taut_fanout_return(fanout, child, item);
    taut_fanout_flush_returns(fanout, child);
    taut_fanout_reap(fanout, returned, 64);
}

static struct taut_fanout_item get(struct taut_fanout *fanout, uint32_t child)
{
    struct taut_fanout_item item = {0};
    taut_fanout_send(fanout, child, 1, 77, NULL);
    taut_fanout_flush(fanout);
    taut_fanout_take(fanout, child, &item);
    return item;
}

static void once_each(void *context)
{
    struct taut_fanout *fanout = context;
    struct taut_fanout_item a = get(fanout, 0), b = get(fanout, 0);
    give(fanout, 0, &b);
    give(fanout, 0, &a);
}

static void twice(void *context)
{
    struct taut_fanout *fanout = context;
    struct taut_fanout_item a = get(fanout, 0), b = get(fanout, 0);
    (void)b;
    give(fanout, 0, &a);
    give(fanout, 0, &a);
}

/* The same pointer is out again, with the same credit. */
static void twice_with_another_between(void *context)
{
    struct taut_fanout *fanout = context;
    struct taut_fanout_item a = get(fanout, 0);
    give(fanout, 0, &a);
    struct taut_fanout_item b = get(fanout, 0);
    if (b.item != a.item || (b.ticket & fanout->ticket_mask) != (a.ticket & fanout->ticket_mask))
        _exit(0); /* not what this is about */
    give(fanout, 0, &a);
}

static void to_another_child(void *context)
{
    struct taut_fanout *fanout = context;
    struct taut_fanout_item a = get(fanout, 0);
    (void)get(fanout, 1); /* the same there, with the same credit */
    give(fanout, 1, &a);
}

static void another_item(void *context)
{
    struct taut_fanout *fanout = context;
    struct taut_fanout_item a = get(fanout, 0);
    a.item++;
    give(fanout, 0, &a);
}

static void another_flow(void *context)
{
    struct taut_fanout *fanout = context;
    struct taut_fanout_item a = get(fanout, 0);
    a.flow++;
    give(fanout, 0, &a);
}

static void a_ticket_of_nobody(void *context)
{
    struct taut_fanout *fanout = context;
    struct taut_fanout_item a = get(fanout, 0);
    a.ticket |= fanout->ticket_mask;
    give(fanout, 0, &a);
}

static void what_is_not_outstanding_aborts(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(2);
    struct taut_fanout *fanout = make(&options);
    assert_false(child_aborts(once_each, fanout));
    assert_true(child_aborts(twice, fanout));
    assert_true(child_aborts(twice_with_another_between, fanout));
    assert_true(child_aborts(to_another_child, fanout));
    assert_true(child_aborts(another_item, fanout));
    assert_true(child_aborts(another_flow, fanout));
    assert_true(child_aborts(a_ticket_of_nobody, fanout));
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

static void the_owner_holds_nothing_back(void **state)
{
    (void)state;
    struct taut_fanout_options options = of(2);
    struct taut_fanout *fanout = make(&options);
    struct taut_fanout_item item, returned[2];
    struct taut_ring *back = &fanout->child[1].back;
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(taut_fanout_send(fanout, 1, 0, i, NULL), TAUT_FANOUT_SENT);
    /* What it has sent is told before it waits. */
    assert_int_equal(taut_fanout_wait_returns(fanout, 0, NULL, NULL), TAUT_WAIT_EXPIRED);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(taut_fanout_take(fanout, 1, &item), 1);
        taut_fanout_return(fanout, 1, &item);
    }
    taut_fanout_flush_returns(fanout, 1);
    /* And the slots of what it has reaped, also where it did not look for more. */
    assert_int_equal(taut_fanout_reap(fanout, returned, 1), 1);
    assert_int_equal(atomic_load(&back->head), 1);
    assert_int_equal(taut_fanout_reap(fanout, returned, 1), 1);
    assert_int_equal(atomic_load(&back->head), 2);
    assert_int_equal(taut_fanout_destroy(fanout), 0);
}

static void outcomes_have_names(void **state)
{
    (void)state;
    assert_string_equal(taut_fanout_outcome_name(TAUT_FANOUT_SENT), "sent");
    assert_string_equal(taut_fanout_outcome_name(TAUT_FANOUT_PARKED), "parked");
    assert_string_equal(taut_fanout_outcome_name(TAUT_FANOUT_SHED), "shed");
    assert_string_equal(taut_fanout_outcome_name(TAUT_FANOUT_REFUSED), "refused");
    assert_string_equal(taut_fanout_outcome_name(4), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options_are_refused_with_a_text),
        cmocka_unit_test(nominal_and_effective_capacity_are_told),
        cmocka_unit_test(memory_is_the_callers_and_checked),
        cmocka_unit_test(one_full_child_holds_up_nobody),
        cmocka_unit_test(parked_items_go_on_in_order_and_nothing_overtakes),
        cmocka_unit_test(a_small_reap_serves_all_children_in_turn),
        cmocka_unit_test(a_full_side_list_does_what_the_policy_says),
        cmocka_unit_test(a_child_is_pressed_from_the_high_mark_to_the_low_mark),
        cmocka_unit_test(a_stall_is_timed_while_it_lasts),
        cmocka_unit_test(the_end_keeps_what_is_parked_for_the_owner),
        cmocka_unit_test(a_child_without_work_holds_no_return_back),
        cmocka_unit_test(what_is_not_outstanding_aborts),
        cmocka_unit_test(the_owner_holds_nothing_back),
        cmocka_unit_test(outcomes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
