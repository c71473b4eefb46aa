/* SPDX-License-Identifier: BSD-2-Clause */
/* queue/fanout_init.c - options of a fan-out and its memory: making one and ending it. */
#include <stdlib.h>

#include "base/check.h"
#include "base/options.h"
#include "base/process.h"
#include "queue/fanout.h"

static int power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* --- options -------------------------------------------------------------------------------- */

/*
 * How many items a child may hold. What a child has emptied it tells by batches, so as many as
 * publish_batch - 1 slots may seem used that are not: the reserve covers them, and a child with
 * credit always has room in its ring.
 */
static int credit(struct taut_fanout_options *options, uint32_t *effective, struct taut_err *err)
{
    uint32_t batch = options->publish_batch;
    if (options->reserve == 0)
        options->reserve = most(least(2 * batch, options->capacity / 2), batch - 1);
    if (options->reserve >= options->capacity)
        return taut_err_set(err, TAUT_EINVAL, "reserve %u leaves no credit of capacity %u",
                            options->reserve, options->capacity);
    if (options->reserve < batch - 1)
        return taut_err_set(err, TAUT_EINVAL, "reserve %u: wants publish_batch - 1 = %u at least",
                            options->reserve, batch - 1);
    *effective = options->capacity - options->reserve;
    if (options->credits == 0)
        return 0;
    if (options->credits < options->children)
        return taut_err_set(err, TAUT_EINVAL, "%u children share %u credits: each needs one",
                            options->children, options->credits);
    *effective = least(*effective, options->credits / options->children);
    return 0;
}

static int marks(struct taut_fanout_options *options, uint32_t effective, struct taut_err *err)
{
    if (options->park == 0)
        options->park = effective;
    if (options->park > TAUT_FANOUT_CAPACITY_MAX)
        return taut_err_set(err, TAUT_EINVAL, "park %u: wants up to %u", options->park,
                            TAUT_FANOUT_CAPACITY_MAX);
    if (options->high_mark == 0)
        options->high_mark = effective;
    if (options->low_mark == 0)
        options->low_mark = options->high_mark / 2;
    if (options->high_mark > effective + options->park)
        return taut_err_set(err, TAUT_EINVAL, "high_mark %u is never reached: %u and %u parked",
                            options->high_mark, effective, options->park);
    if (options->low_mark >= options->high_mark)
        return taut_err_set(err, TAUT_EINVAL, "low_mark %u is not below high_mark %u",
                            options->low_mark, options->high_mark);
    return 0;
}

static int options_check(struct taut_fanout_options *options, uint32_t *effective,
                         struct taut_err *err)
{
    if (options->children == 0 || options->children > TAUT_FANOUT_CHILDREN_MAX)
        return taut_err_set(err, TAUT_EINVAL, "children %u: wants 1 to %u", options->children,
                            TAUT_FANOUT_CHILDREN_MAX);
    if (options->capacity == 0)
        options->capacity = TAUT_FANOUT_CAPACITY;
    if (!power_of_two(options->capacity) || options->capacity < 2 ||
        options->capacity > TAUT_FANOUT_CAPACITY_MAX)
        return taut_err_set(err, TAUT_EINVAL, "capacity %u: wants a power of two, 2 to %u",
                            options->capacity, TAUT_FANOUT_CAPACITY_MAX);
    if (options->publish_batch == 0)
        options->publish_batch =
            options->capacity < 4 ? 1 : least(TAUT_RING_BATCH, options->capacity / 4);
    if (!power_of_two(options->publish_batch) || options->publish_batch > options->capacity)
        return taut_err_set(err, TAUT_EINVAL, "publish_batch %u: wants a power of two up to %u",
                            options->publish_batch, options->capacity);
    if (options->policy > TAUT_FANOUT_SHED_OLDEST)
        return taut_err_set(err, TAUT_EINVAL, "policy %u is none", options->policy);
    int code = credit(options, effective, err);
    return code != 0 ? code : marks(options, *effective, err);
}

/* --- layout --------------------------------------------------------------------------------- */

static size_t lines(size_t bytes)
{
    return (bytes + TAUT_LINE_BYTES - 1) / TAUT_LINE_BYTES * TAUT_LINE_BYTES;
}

int taut__fanout_layout(const struct taut_fanout_options *given, struct taut__fanout_layout *layout,
                        struct taut_err *err)
{
    static const struct taut__options_kind kind =
        TAUT__OPTIONS_KIND(struct taut_fanout_options, low_mark, children, "fan-out options");
    struct taut__fanout_layout made = {0};
    int code = taut__options_take(&kind, &made.options, given, err);
    if (code == 0)
        code = options_check(&made.options, &made.effective, err);
    if (code != 0)
        return code;
    /* At most 2^10 children of 2^20 items of some 60 bytes: fits 64 bits. */
    _Static_assert(sizeof(size_t) == 8, "64-bit machines only");
    made.children_at = lines(sizeof(struct taut_fanout));
    made.dirty_at = made.children_at + made.options.children * sizeof(struct taut__child);
    made.first_child_at = made.dirty_at + lines(made.options.children * sizeof(uint32_t));
    made.slots_bytes = lines(made.options.capacity * sizeof(struct taut_fanout_item));
    made.credits_bytes = lines(made.effective * sizeof(struct taut__credit));
    made.free_bytes = lines(made.effective * sizeof(uint32_t));
    made.park_bytes = lines(made.options.park * sizeof(struct taut_fanout_item));
    made.child_bytes =
        2 * made.slots_bytes + made.credits_bytes + made.free_bytes + made.park_bytes;
    made.bytes = made.first_child_at + made.options.children * made.child_bytes;
    *layout = made;
    return 0;
}

size_t taut_fanout_footprint(const struct taut_fanout_options *options)
{
    struct taut__fanout_layout layout = {0};
    return taut__fanout_layout(options, &layout, NULL) == 0 ? layout.bytes : 0;
}

/* --- making and ending ---------------------------------------------------------------------- */

static void child_init(struct taut_fanout *fanout, uint32_t index,
                       const struct taut__fanout_layout *layout, uint8_t *memory)
{
    struct taut__child *child = &fanout->child[index];
    memset(child, 0, sizeof *child);
    int code = taut_event_init(&child->event);
    struct taut_ring_options ring = {.size = sizeof ring,
                                     .capacity = layout->options.capacity,
                                     .item_bytes = sizeof(struct taut_fanout_item),
                                     .publish_batch = layout->options.publish_batch,
                                     .event = &child->event};
    code |= taut_ring_init(&child->work, &ring, memory, layout->slots_bytes, NULL);
    memory += layout->slots_bytes;
    ring.event = &fanout->return_event;
    code |= taut_ring_init(&child->back, &ring, memory, layout->slots_bytes, NULL);
    TAUT_CHECK(code == 0); /* the options were checked, and the memory is laid out here */
    memory += layout->slots_bytes;
    child->credits = (struct taut__credit *)(void *)memory;
    memory += layout->credits_bytes;
    child->free = (uint32_t *)(void *)memory;
    memory += layout->free_bytes;
    child->park = (struct taut_fanout_item *)(void *)memory;
    for (uint32_t i = 0; i < layout->effective; i++) {
        child->credits[i] = (struct taut__credit){.ticket = index * layout->effective + i};
        child->free[i] = layout->effective - 1 - i;
    }
    child->free_count = layout->effective;
    atomic_init(&child->policy, layout->options.policy);
}

int taut_fanout_init(struct taut_fanout **fanout, const struct taut_fanout_options *options,
                     void *memory, size_t length, struct taut_err *err)
{
    struct taut__fanout_layout layout = {0};
    if (!fanout)
        return taut_err_set(err, TAUT_EINVAL, "fanout: NULL");
    *fanout = NULL;
    int code = taut__fanout_layout(options, &layout, err);
    if (code != 0)
        return code;
    if (!memory || ((uintptr_t)memory & (TAUT_LINE_BYTES - 1)) != 0)
        return taut_err_set(err, TAUT_EINVAL, "memory: NULL, or not aligned to %d",
                            TAUT_LINE_BYTES);
    if (length < layout.bytes)
        return taut_err_set(err, TAUT_ENOMEM, "%zu bytes, and the fan-out takes %zu", length,
                            layout.bytes);
    uint8_t *bytes = memory;
    struct taut_fanout *made = memory;
    memset(made, 0, sizeof *made);
    made->children = layout.options.children;
    made->effective = layout.effective;
    made->capacity = layout.options.capacity;
    made->reserve = layout.options.reserve;
    made->park_capacity = layout.options.park;
    made->high_mark = layout.options.high_mark;
    made->low_mark = layout.options.low_mark;
    made->child = (struct taut__child *)(void *)(bytes + layout.children_at);
    made->dirty = (uint32_t *)(void *)(bytes + layout.dirty_at);
    /* At most 2^30 credits, so two bits at least are left for the uses of each. */
    while (made->ticket_mask < made->children * made->effective - 1)
        made->ticket_mask = made->ticket_mask * 2 + 1;
    code = taut_event_init(&made->return_event);
    TAUT_CHECK(code == 0);
    for (uint32_t i = 0; i < made->children; i++)
        child_init(made, i, &layout, bytes + layout.first_child_at + i * layout.child_bytes);
    made->magic = TAUT__FANOUT_MAGIC;
    *fanout = made;
    return 0;
}

int taut_fanout_create(struct taut_fanout **fanout, const struct taut_fanout_options *options,
                       struct taut_err *err)
{
    struct taut__fanout_layout layout = {0};
    if (!fanout)
        return taut_err_set(err, TAUT_EINVAL, "fanout: NULL");
    *fanout = NULL;
    int code = taut__fanout_layout(options, &layout, err);
    if (code != 0)
        return code;
    void *memory = aligned_alloc(TAUT_LINE_BYTES, layout.bytes);
    if (!memory)
        return taut_err_set(err, TAUT_ENOMEM, "no %zu bytes for a fan-out", layout.bytes);
    code = taut_fanout_init(fanout, options, memory, layout.bytes, err);
    TAUT_CHECK(code == 0 && *fanout != NULL);
    (*fanout)->memory = memory;
    return 0;
}

/* Acquire pairs with the end of taut__queue_wait(): who is out of it touches nothing any more. */
static int is_awaited(const struct taut_fanout *fanout)
{
    uint32_t waits = atomic_load_explicit(&fanout->in_wait, memory_order_acquire);
    for (uint32_t i = 0; i < fanout->children; i++)
        waits |=
            atomic_load_explicit(&fanout->child[i].work.consumer.in_wait, memory_order_acquire);
    return waits != 0;
}

int taut_fanout_destroy(struct taut_fanout *fanout)
{
    if (!fanout)
        return 0;
    if (fanout->magic != TAUT__FANOUT_MAGIC)
        return TAUT_EINVAL;
    if (fanout->return_event.generation == taut__process_generation() && is_awaited(fanout))
        return TAUT_EBUSY;
    int code = taut_event_destroy(&fanout->return_event);
    for (uint32_t i = 0; i < fanout->children; i++)
        code |= taut_event_destroy(&fanout->child[i].event);
    TAUT_CHECK(code == 0); /* nobody may come to wait meanwhile */
    fanout->magic = 0;
    free(fanout->memory);
    return 0;
}
