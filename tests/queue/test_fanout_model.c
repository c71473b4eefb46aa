/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random operations on a fan-out beside a reference of four lists a child (parked, on the way,
 * held, returned); on one thread, so that every outcome and every counter has one right value. The
 * seed is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/queue.h>

#define CHILDREN 4u
#define MOST     256u

struct list {
    struct taut_fanout_item items[MOST];
    uint32_t count;
};

/* The reference of one child. */
struct twin {
    struct list parked, sent, held, back;
    uint64_t sent_total, delivered, returned, shed, refused, outstanding_high, parked_high;
    uint32_t policy, pressed;
    uint64_t pressed_count;
};

struct rig {
    struct taut_fanout *fanout;
    struct twin twins[CHILDREN];
    uint32_t children, effective, park, high, low, closed;
    uint64_t next_item, random;
    uint8_t *gone; /* by item: 1 = returned or shed */
};

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)

static uint32_t draw(struct rig *rig, uint32_t below)
{
    rig->random ^= rig->random << 13;
    rig->random ^= rig->random >> 7;
    rig->random ^= rig->random << 17;
    return (uint32_t)((rig->random >> 20) % below);
}

static void append(struct list *list, struct taut_fanout_item item)
{
    if (list->count == MOST)
        abort();
    list->items[list->count++] = item;
}

static struct taut_fanout_item take_at(struct list *list, uint32_t at)
{
    struct taut_fanout_item item = list->items[at];
    memmove(&list->items[at], &list->items[at + 1], (--list->count - at) * sizeof item);
    return item;
}

static uint32_t out(const struct twin *twin)
{
    return twin->sent.count + twin->held.count + twin->back.count;
}

static void pressure(struct rig *rig, struct twin *twin)
{
    uint32_t load = out(twin) + twin->parked.count;
    if (!twin->pressed && load >= rig->high) {
        twin->pressed = 1;
        twin->pressed_count++;
    } else if (twin->pressed && load <= rig->low) {
        twin->pressed = 0;
    }
}

static void deliver(struct twin *twin, struct taut_fanout_item item)
{
    append(&twin->sent, item);
    twin->delivered++;
    if (out(twin) > twin->outstanding_high)
        twin->outstanding_high = out(twin);
}

static int send(struct rig *rig, uint32_t child)
{
    struct twin *twin = &rig->twins[child];
    struct taut_fanout_item shed = {.item = UINT64_MAX};
    struct taut_fanout_item item = {.item = rig->next_item++, .flow = draw(rig, 3)};
    int outcome = taut_fanout_send(rig->fanout, child, item.flow, item.item, &shed);
    if (rig->closed) {
        MUST(outcome == TAUT_ESTATE);
        rig->gone[item.item] = 1;
        return 1;
    }
    if (twin->parked.count == 0 && out(twin) < rig->effective) {
        MUST(outcome == TAUT_FANOUT_SENT);
        deliver(twin, item);
    } else if (twin->parked.count < rig->park) {
        MUST(outcome == TAUT_FANOUT_PARKED);
        append(&twin->parked, item);
        if (twin->parked.count > twin->parked_high)
            twin->parked_high = twin->parked.count;
    } else if (twin->policy == TAUT_FANOUT_REFUSE) {
        MUST(outcome == TAUT_FANOUT_REFUSED);
        twin->refused++;
        rig->gone[item.item] = 1;
        return 1;
    } else {
        MUST(outcome == TAUT_FANOUT_SHED);
        if (twin->policy == TAUT_FANOUT_SHED_OLDEST) {
            append(&twin->parked, item);
            item = take_at(&twin->parked, 0);
        }
        MUST(shed.item == item.item && shed.flow == item.flow);
        MUST(!rig->gone[item.item]);
        rig->gone[item.item] = 1;
        twin->shed++;
    }
    twin->sent_total++;
    pressure(rig, twin);
    return 1;
}

/* The child sees what was sent in the order in which it was; all of it once it was flushed. */
static int take(struct rig *rig, uint32_t child, int flushed)
{
    struct twin *twin = &rig->twins[child];
    struct taut_fanout_item item;
    if (flushed)
        taut_fanout_flush(rig->fanout);
    if (!taut_fanout_take(rig->fanout, child, &item)) {
        MUST(!flushed || twin->sent.count == 0);
        return 1;
    }
    MUST(twin->sent.count > 0);
    struct taut_fanout_item first = take_at(&twin->sent, 0);
    MUST(item.item == first.item && item.flow == first.flow);
    append(&twin->held, item);
    return 1;
}

/* In any order. */
static void give(struct rig *rig, uint32_t child)
{
    struct twin *twin = &rig->twins[child];
    if (twin->held.count == 0)
        return;
    struct taut_fanout_item item = take_at(&twin->held, draw(rig, twin->held.count));
    append(&twin->back, item);
    taut_fanout_return(rig->fanout, child, &item);
}

static int forward(struct rig *rig, struct twin *twin)
{
    while (!rig->closed && twin->parked.count > 0 && out(twin) < rig->effective)
        deliver(twin, take_at(&twin->parked, 0));
    return 1;
}

static int reap(struct rig *rig, uint32_t most, int flushed)
{
    static struct taut_fanout_item returned[CHILDREN * MOST];
    uint32_t before = 0, got[CHILDREN] = {0};
    for (uint32_t i = 0; i < rig->children; i++) {
        if (flushed)
            taut_fanout_flush_returns(rig->fanout, i);
        before += rig->twins[i].back.count;
    }
    uint32_t count = taut_fanout_reap(rig->fanout, returned, most);
    MUST(count <= most && count <= before);
    if (flushed)
        MUST(count == (before < most ? before : most));
    for (uint32_t k = 0; k < count; k++) {
        /* The oldest that its child has returned. */
        uint32_t child = 0;
        while (child < rig->children && (rig->twins[child].back.count == 0 ||
                                         rig->twins[child].back.items[0].item != returned[k].item))
            child++;
        MUST(child < rig->children);
        (void)take_at(&rig->twins[child].back, 0);
        MUST(!rig->gone[returned[k].item]);
        rig->gone[returned[k].item] = 1;
        rig->twins[child].returned++;
        got[child]++;
    }
    for (uint32_t i = 0; i < rig->children; i++) {
        MUST(forward(rig, &rig->twins[i]));
        if (got[i] > 0)
            pressure(rig, &rig->twins[i]);
    }
    return 1;
}

static int shed(struct rig *rig, uint32_t child)
{
    struct twin *twin = &rig->twins[child];
    struct taut_fanout_item item;
    int is = taut_fanout_shed(rig->fanout, child, &item);
    MUST(is == (twin->parked.count > 0));
    if (!is)
        return 1;
    MUST(item.item == twin->parked.items[0].item);
    (void)take_at(&twin->parked, 0);
    rig->gone[item.item] = 1;
    twin->shed++;
    pressure(rig, twin);
    return 1;
}

static int compare(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->children; i++) {
        const struct twin *twin = &rig->twins[i];
        struct taut_fanout_stats stats;
        MUST(taut_fanout_stats(rig->fanout, i, &stats) == 0);
        MUST(stats.sent == twin->sent_total);
        MUST(stats.delivered == twin->delivered);
        MUST(stats.returned == twin->returned);
        MUST(stats.outstanding == out(twin));
        MUST(stats.parked == twin->parked.count);
        MUST(stats.shed == twin->shed);
        MUST(stats.refused == twin->refused);
        MUST(stats.outstanding_high == twin->outstanding_high);
        MUST(stats.parked_high == twin->parked_high);
        MUST(stats.pressed == twin->pressed);
        MUST(stats.pressed_count == twin->pressed_count);
        MUST(stats.sent == stats.delivered + stats.parked + stats.shed);
        MUST(stats.delivered == stats.returned + stats.outstanding);
        MUST(stats.outstanding <= stats.effective && stats.parked <= stats.park_capacity);
    }
    return 1;
}

static int step(struct rig *rig)
{
    uint32_t child = draw(rig, rig->children), what = draw(rig, 64);
    if (what < 22)
        return send(rig, child);
    if (what < 36)
        return take(rig, child, what & 1);
    if (what < 52) {
        give(rig, child);
        return 1;
    }
    if (what < 60)
        return reap(rig, draw(rig, 12), what & 1);
    if (what < 61)
        return shed(rig, child);
    if (what < 62) {
        rig->twins[child].policy = draw(rig, 3);
        MUST(taut_fanout_set_policy(rig->fanout, child, rig->twins[child].policy) == 0);
        return 1;
    }
    return reap(rig, MOST * CHILDREN, 1);
}

/* Everything comes home. */
static int finish(struct rig *rig)
{
    taut_fanout_close(rig->fanout);
    rig->closed = 1;
    MUST(send(rig, 0));
    for (uint32_t i = 0; i < rig->children; i++) {
        while (rig->twins[i].sent.count > 0)
            MUST(take(rig, i, 1));
        while (rig->twins[i].held.count > 0)
            give(rig, i);
        MUST(taut_fanout_closed(rig->fanout, i));
    }
    MUST(reap(rig, MOST * CHILDREN, 1));
    for (uint32_t i = 0; i < rig->children; i++) {
        while (rig->twins[i].parked.count > 0)
            MUST(shed(rig, i));
    }
    MUST(compare(rig));
    for (uint64_t item = 0; item < rig->next_item; item++)
        MUST(rig->gone[item] == 1);
    return 1;
}

static int one_run(uint64_t seed)
{
    static struct rig rig;
    memset(&rig, 0, sizeof rig);
    rig.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    rig.children = 1 + draw(&rig, CHILDREN);
    struct taut_fanout_options options = {.size = sizeof options,
                                          .children = rig.children,
                                          .capacity = 2u << draw(&rig, 6),
                                          .park = 1 + draw(&rig, 40),
                                          .policy = draw(&rig, 3)};
    if (draw(&rig, 3) == 0)
        options.credits = rig.children * (1 + draw(&rig, 6));
    if (taut_fanout_create(&rig.fanout, &options, NULL) != 0)
        abort();
    struct taut_fanout_stats stats;
    taut_fanout_stats(rig.fanout, 0, &stats);
    rig.effective = stats.effective;
    rig.park = options.park;
    rig.high = stats.effective; /* the defaults of the marks */
    rig.low = stats.effective / 2;
    uint32_t steps = 3000;
    rig.gone = calloc(steps + 8, 1);
    for (uint32_t i = 0; i < CHILDREN; i++)
        rig.twins[i].policy = options.policy;
    int good = 1;
    for (uint32_t i = 0; good && i < steps; i++)
        good = step(&rig) && compare(&rig);
    good = good && finish(&rig);
    free(rig.gone);
    if (taut_fanout_destroy(rig.fanout) != 0)
        abort();
    return good;
}

static void random_operations_agree_with_the_reference(void **state)
{
    (void)state;
    uint64_t runs = getenv("TAUT_SOAK") ? 30000 : 300;
    for (uint64_t seed = 1; seed <= runs; seed++) {
        if (!one_run(seed))
            fail_msg("seed %llu", (unsigned long long)seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
