/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring on one thread: options, batches, what is never held back, counters, the end, misuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "child.h"
#include "queue/ring.h"

static struct taut_ring_options of(uint32_t capacity, uint32_t batch)
{
    return (struct taut_ring_options){.size = sizeof(struct taut_ring_options),
                                      .capacity = capacity,
                                      .item_bytes = sizeof(uint64_t),
                                      .publish_batch = batch};
}

static struct taut_ring *make(uint32_t capacity, uint32_t batch)
{
    struct taut_ring_options options = of(capacity, batch);
    struct taut_ring *ring;
    assert_int_equal(taut_ring_create(&ring, &options, NULL), 0);
    return ring;
}

static struct taut_ring_stats stats_of(const struct taut_ring *ring)
{
    struct taut_ring_stats stats;
    taut_ring_stats(ring, &stats);
    return stats;
}

static void push(struct taut_ring *ring, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(taut_ring_push_u64(ring, first + i), 1);
}

static void pop(struct taut_ring *ring, uint64_t first, uint64_t count)
{
    uint64_t value;
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(taut_ring_pop_u64(ring, &value), 1);
        assert_int_equal(value, first + i);
    }
}

static void refused(struct taut_ring_options options, const char *text)
{
    struct taut_err err = {0};
    struct taut_ring *ring = (struct taut_ring *)(void *)&err;
    assert_int_equal(taut_ring_footprint(&options), 0);
    assert_int_equal(taut_ring_create(&ring, &options, &err), TAUT_EINVAL);
    assert_null(ring);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void bad_options_are_refused_with_a_text(void **state)
{
    (void)state;
    struct taut_event *event = (struct taut_event *)(uintptr_t)128;
    const uint32_t capacities[] = {
        0, 3, 100, 255, 257, TAUT_RING_CAPACITY_MAX + 1, TAUT_RING_CAPACITY_MAX * 2, UINT32_MAX};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
        refused(of(capacities[i], 0), "capacity");
    refused(of(16, 3), "publish_batch");
    refused(of(16, 32), "publish_batch");
    struct taut_ring_options options = of(16, 0);
    options.release_batch = 12;
    refused(options, "release_batch");
    options = of(16, 0);
    options.item_bytes = 0;
    refused(options, "item_bytes");
    options.item_bytes = TAUT_RING_ITEM_BYTES_MAX + 1;
    refused(options, "item_bytes");
    options = of(16, 0);
    options.size--;
    refused(options, "size");
    options.size = 8; /* no item_bytes in it */
    refused(options, "size");
    options.size = 0; /* as in version 0.1 */
    assert_int_equal(taut_ring_footprint(&options),
                     taut_ring_footprint(&(struct taut_ring_options){
                         .size = sizeof options, .capacity = 16, .item_bytes = 8}));
    options.event = options.space_event = event;
    refused(options, "one event");
    options.size = offsetof(struct taut_ring_options, space_event); /* an older header's */
    assert_int_not_equal(taut_ring_footprint(&options), 0);
    options = of(16, 0);
    options.event = options.space_event = event;
    refused(options, "one event");
    options = of(16, 0);
    options.reserved = 1;
    refused(options, "reserved");
    assert_int_equal(taut_ring_footprint(NULL), 0);
    assert_int_equal(taut_ring_create(NULL, &options, NULL), TAUT_EINVAL);
}

static void memory_is_the_callers_and_checked(void **state)
{
    (void)state;
    struct taut_ring_options options = of(8, 0);
    static _Alignas(128) uint8_t memory[3 * 128];
    static struct taut_ring ring;
    options.item_bytes = 24; /* 192 bytes: two lines */
    assert_int_equal(taut_ring_footprint(&options), 256);
    assert_int_equal(taut_ring_init(&ring, &options, memory, 255, NULL), TAUT_ENOMEM);
    assert_int_equal(taut_ring_init(&ring, &options, memory + 8, 256, NULL), TAUT_EINVAL);
    assert_int_equal(taut_ring_init(&ring, &options, NULL, 256, NULL), TAUT_EINVAL);
    assert_int_equal(taut_ring_init(NULL, &options, memory, 256, NULL), TAUT_EINVAL);
    memset(memory, 0xa5, sizeof memory);
    assert_int_equal(taut_ring_init(&ring, &options, memory, 256, NULL), 0);
    for (uint32_t i = 0; i < 8; i++) {
        memset(taut_ring_reserve(&ring), 0x11, 24);
        taut_ring_commit(&ring);
    }
    for (size_t i = 0; i < sizeof memory; i++)
        assert_int_equal(memory[i], i < 192 ? 0x11 : 0xa5);
    assert_int_equal(taut_ring_destroy(&ring), TAUT_EINVAL); /* not ours to free */
    assert_int_equal(taut_ring_destroy(NULL), 0);
    struct taut_ring_stats stats = stats_of(&ring);
    assert_int_equal(stats.publish_batch, 8);
    assert_int_equal(stats.release_batch, 8);
    assert_int_equal(stats.item_bytes, 24);
}

static void words_of_two_threads_are_two_lines_apart(void **state)
{
    (void)state;
    const size_t at[] = {offsetof(struct taut_ring, producer), offsetof(struct taut_ring, tail),
                         offsetof(struct taut_ring, consumer), offsetof(struct taut_ring, head),
                         offsetof(struct taut_ring, consumer_waits)};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        assert_int_equal(at[i] % TAUT_LINE_BYTES, 0);
    for (size_t i = 1; i < sizeof at / sizeof at[0]; i++)
        assert_true(at[i] - at[i - 1] >= TAUT_LINE_BYTES);
    assert_true(sizeof(struct taut__ring_side) <= TAUT_LINE_BYTES);
}

static void every_slot_is_usable(void **state)
{
    (void)state;
    for (uint32_t capacity = 1; capacity <= 64; capacity *= 2) {
        struct taut_ring *ring = make(capacity, 0);
        for (uint64_t lap = 0; lap < 3; lap++) {
            push(ring, lap * capacity, capacity);
            assert_null(taut_ring_reserve(ring));
            pop(ring, lap * capacity, capacity);
            assert_null(taut_ring_peek(ring));
        }
        assert_int_equal(stats_of(ring).full_hits, 3);
        assert_int_equal(taut_ring_destroy(ring), 0);
    }
}

static void items_are_published_by_batches(void **state)
{
    (void)state;
    struct taut_ring *ring = make(64, 8);
    push(ring, 0, 7);
    assert_null(taut_ring_peek(ring));
    push(ring, 7, 1);
    assert_int_equal(stats_of(ring).publications, 1);
    pop(ring, 0, 8);
    assert_null(taut_ring_peek(ring));
    push(ring, 8, 3);
    assert_null(taut_ring_peek(ring));
    taut_ring_flush(ring);
    taut_ring_flush(ring); /* nothing left: no publication */
    assert_int_equal(stats_of(ring).publications, 2);
    pop(ring, 8, 3);
    /* The next batch ends where its line ends: 5 more, not 8. */
    push(ring, 11, 4);
    assert_null(taut_ring_peek(ring));
    push(ring, 15, 1);
    pop(ring, 11, 5);
    assert_int_equal(taut_ring_destroy(ring), 0);
}

static void slots_are_given_back_by_batches_and_when_empty(void **state)
{
    (void)state;
    struct taut_ring *ring = make(16, 8);
    push(ring, 0, 16);
    pop(ring, 0, 7);
    assert_int_equal(stats_of(ring).popped, 0);
    assert_null(taut_ring_reserve(ring));
    pop(ring, 7, 1);
    assert_int_equal(stats_of(ring).popped, 8);
    pop(ring, 8, 3);
    taut_ring_flush_released(ring);
    taut_ring_flush_released(ring);
    assert_int_equal(stats_of(ring).popped, 11);
    assert_int_equal(stats_of(ring).releases, 2);
    push(ring, 16, 11);
    assert_null(taut_ring_reserve(ring)); /* publishes */
    pop(ring, 11, 5);
    pop(ring, 16, 11);
    assert_null(taut_ring_peek(ring)); /* gives back */
    assert_int_equal(stats_of(ring).popped, 27);
    uint64_t value;
    push(ring, 27, 2);
    taut_ring_flush(ring);
    pop(ring, 27, 2);
    assert_int_equal(stats_of(ring).popped, 27);
    assert_int_equal(taut_ring_pop_u64(ring, &value), 0); /* gives back, too */
    assert_int_equal(stats_of(ring).popped, 29);
    assert_int_equal(taut_ring_destroy(ring), 0);
}

/* A batch larger than what fits would wait for ever. */
static void a_full_ring_holds_nothing_back(void **state)
{
    (void)state;
    struct taut_ring *ring = make(16, 16);
    push(ring, 0, 4);
    taut_ring_flush(ring);
    push(ring, 4, 11); /* index 15: the batch ends at 16 */
    assert_int_equal(stats_of(ring).pushed, 4);
    pop(ring, 0, 4);
    taut_ring_flush_released(ring);
    push(ring, 15, 5); /* 16 of 16 in use again, 4 behind the end of a batch */
    assert_int_equal(stats_of(ring).pushed, 16);
    assert_null(taut_ring_reserve(ring));
    assert_int_equal(stats_of(ring).pushed, 20);
    pop(ring, 4, 16);
    assert_int_equal(taut_ring_destroy(ring), 0);
}

static void many_places_are_side_by_side(void **state)
{
    (void)state;
    struct taut_ring *ring = make(16, 8);
    uint32_t got;
    push(ring, 0, 10);
    pop(ring, 0, 8);
    taut_ring_flush(ring);
    pop(ring, 8, 2);
    uint64_t *slots = taut_ring_reserve_n(ring, 16, &got);
    assert_int_equal(got, 6); /* to the end of the memory */
    for (uint32_t i = 0; i < got; i++)
        slots[i] = 10 + i;
    taut_ring_commit_n(ring, 4); /* fewer than reserved */
    slots = taut_ring_reserve_n(ring, 2, &got);
    assert_int_equal(got, 2);
    slots[0] = 14, slots[1] = 15;
    taut_ring_commit_n(ring, 2);
    slots = taut_ring_reserve_n(ring, 16, &got);
    assert_int_equal(got, 8); /* 6 are in use and 2 more not told back */
    taut_ring_commit_n(ring, 0);
    const uint64_t *items = taut_ring_peek_n(ring, 16, &got);
    assert_int_equal(got, 6);
    for (uint32_t i = 0; i < got; i++)
        assert_int_equal(items[i], 10 + i);
    taut_ring_release_n(ring, 6);
    assert_null(taut_ring_peek_n(ring, 1, &got));
    assert_int_equal(got, 0);
    assert_null(taut_ring_peek_n(ring, 0, &got));
    assert_null(taut_ring_reserve_n(ring, 0, &got));
    assert_int_equal(taut_ring_destroy(ring), 0);
}

static void high_water_is_exact_and_survives_the_end(void **state)
{
    (void)state;
    struct taut_ring *ring = make(64, 1);
    uint64_t next = 0;
    static const uint32_t levels[] = {1, 5, 3, 5, 17, 2, 16};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        push(ring, next, levels[i]);
        pop(ring, next, levels[i]);
        next += levels[i];
        assert_null(taut_ring_peek(ring));
    }
    /* Long runs with one item in the ring at a time are no high water, however old the head that
     * the producer knows. */
    for (int i = 0; i < 300; i++, next++) {
        push(ring, next, 1);
        pop(ring, next, 1);
    }
    assert_int_equal(stats_of(ring).high_water, 17);
    push(ring, next, 40);
    assert_int_equal(stats_of(ring).high_water, 40);
    taut_ring_close(ring);
    assert_int_equal(stats_of(ring).high_water, 40);
    pop(ring, next, 40);
    assert_null(taut_ring_peek(ring));
    assert_int_equal(stats_of(ring).high_water, 40);
    assert_int_equal(taut_ring_destroy(ring), 0);
}

static void a_closed_ring_is_drained_and_then_closed(void **state)
{
    (void)state;
    struct taut_ring *ring = make(16, 8);
    uint32_t got;
    push(ring, 0, 3); /* not flushed */
    assert_int_equal(taut_ring_closed(ring), 0);
    taut_ring_close(ring);
    assert_null(taut_ring_reserve(ring));
    assert_null(taut_ring_reserve_n(ring, 4, &got));
    assert_int_equal(taut_ring_push_u64(ring, 9), 0);
    assert_int_equal(stats_of(ring).full_hits, 0);
    assert_int_equal(taut_ring_closed(ring), 0);
    pop(ring, 0, 3);
    assert_int_equal(taut_ring_closed(ring), 1);
    taut_ring_close(ring);
    taut_ring_flush(ring);
    assert_int_equal(stats_of(ring).closed, 1);
    assert_int_equal(stats_of(ring).pushed, 3);
    assert_int_equal(taut_ring_wait_space(ring, 0, NULL, NULL), TAUT_ESTATE);
    assert_int_equal(taut_ring_destroy(ring), 0);
}

/* --- misuse: in a child of its own, which must abort ---------------------------------------- */

static void *push_elsewhere(void *ring)
{
    taut_ring_push_u64(ring, 1);
    return NULL;
}

static void *pop_elsewhere(void *ring)
{
    uint64_t value;
    taut_ring_pop_u64(ring, &value);
    return NULL;
}

static void *flush_elsewhere(void *ring)
{
    taut_ring_flush(ring);
    return NULL;
}

static void elsewhere(void *(*run)(void *), struct taut_ring *ring)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, ring) == 0)
        pthread_join(thread, NULL);
}

static void second_producer(void *context)
{
    struct taut_ring *ring = context;
    taut_ring_push_u64(ring, 0);
    elsewhere(push_elsewhere, ring);
}

static void second_flusher(void *context)
{
    struct taut_ring *ring = context;
    taut_ring_push_u64(ring, 0);
    elsewhere(flush_elsewhere, ring);
}

static void second_consumer(void *context)
{
    struct taut_ring *ring = context;
    uint64_t value;
    taut_ring_pop_u64(ring, &value);
    elsewhere(pop_elsewhere, ring);
}

static void two_owners(void *context)
{
    struct taut_ring *ring = context;
    taut_ring_push_u64(ring, 0);
    elsewhere(pop_elsewhere, ring);
}

static void commits_more_than_fits(void *context)
{
    struct taut_ring *ring = context;
    taut_ring_reserve(ring);
    taut_ring_commit_n(ring, 17);
}

static void commits_after_the_end(void *context)
{
    struct taut_ring *ring = context;
    taut_ring_reserve(ring);
    taut_ring_close(ring);
    taut_ring_commit(ring);
}

static void releases_more_than_is_there(void *context)
{
    struct taut_ring *ring = context;
    taut_ring_push_u64(ring, 0);
    taut_ring_flush(ring);
    taut_ring_peek(ring);
    taut_ring_release_n(ring, 2);
}

/* What the inline calls don't notice with NDEBUG. */
static void publishes_more_than_fits(void *context)
{
    struct taut_ring *ring = context;
    ring->producer.index += 17;
    taut__ring_publish(ring);
}

static void publishes_after_the_end(void *context)
{
    struct taut_ring *ring = context;
    taut_ring_close(ring);
    ring->producer.index += 1;
    taut_ring_flush(ring);
}

static void gives_back_more_than_is_there(void *context)
{
    struct taut_ring *ring = context;
    ring->consumer.index += 1;
    taut__ring_give_back(ring);
}

static void wrong_size_of_item(void *context)
{
    struct taut_ring *ring = context;
    ring->producer.item_bytes = 4;
    taut_ring_push_u64(ring, 0);
}

static void indices_that_cannot_be_abort_in_all_builds(void **state)
{
    (void)state;
    struct taut_ring *ring = make(16, 8);
    assert_true(child_aborts(publishes_more_than_fits, ring));
    assert_true(child_aborts(publishes_after_the_end, ring));
    assert_true(child_aborts(gives_back_more_than_is_there, ring));
    assert_int_equal(taut_ring_destroy(ring), 0);
}

static void misuse_aborts(void **state)
{
    (void)state;
#ifdef NDEBUG
    skip();
#endif
    struct taut_ring *ring = make(16, 8);
    assert_true(child_aborts(second_producer, ring));
    assert_true(child_aborts(second_flusher, ring));
    assert_true(child_aborts(second_consumer, ring));
    assert_false(child_aborts(two_owners, ring)); /* one a side: as it should be */
    assert_true(child_aborts(commits_more_than_fits, ring));
    assert_true(child_aborts(commits_after_the_end, ring));
    assert_true(child_aborts(releases_more_than_is_there, ring));
    assert_true(child_aborts(wrong_size_of_item, ring));
    assert_int_equal(taut_ring_destroy(ring), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options_are_refused_with_a_text),
        cmocka_unit_test(memory_is_the_callers_and_checked),
        cmocka_unit_test(words_of_two_threads_are_two_lines_apart),
        cmocka_unit_test(every_slot_is_usable),
        cmocka_unit_test(items_are_published_by_batches),
        cmocka_unit_test(slots_are_given_back_by_batches_and_when_empty),
        cmocka_unit_test(a_full_ring_holds_nothing_back),
        cmocka_unit_test(many_places_are_side_by_side),
        cmocka_unit_test(high_water_is_exact_and_survives_the_end),
        cmocka_unit_test(a_closed_ring_is_drained_and_then_closed),
        cmocka_unit_test(misuse_aborts),
        cmocka_unit_test(indices_that_cannot_be_abort_in_all_builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
