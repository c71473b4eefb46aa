/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures of a run from raw files that are made here, so that every figure is known beforehand. */
#include "capture/quantile.h"
#include "capture/raw.h"
#include "support.h"

enum { P50, P90, P99, P999, P9999 };

static struct raw_writer *begin_file(const struct load_plan *plan, uint32_t run, uint32_t process,
                                     uint64_t epoch_ns)
{
    char path[4096];
    struct raw_writer *writer;
    assert_int_equal(load_raw_path(plan, run, process, path, sizeof(path)), 0);
    struct raw_writer_options options = {.path = path,
                                         .run = run,
                                         .process = process,
                                         .closed_loop = 1,
                                         .expected_records = 2000,
                                         .epoch_ns = epoch_ns,
                                         .epoch_utc_ns = UINT64_C(1796083200000000000)};
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    return writer;
}

static void put(struct raw_writer *writer, uint32_t phase, uint32_t status, uint64_t begin_ns,
                uint64_t service_ns)
{
    struct raw_record *record = raw_writer_next(writer);
    assert_non_null(record);
    record->intended_ns = record->begin_ns = begin_ns;
    record->received_ns = status == RAW_ANSWERED ? begin_ns + service_ns : RAW_UNANSWERED;
    record->conn = (uint16_t)(raw_writer_count(writer) % 7);
    record->phase = (uint8_t)phase;
    record->status = (uint8_t)status;
}

static void end_file(struct raw_writer *writer)
{
    assert_int_equal(raw_writer_close(writer, 0, NULL), 0);
}

/* 1,000 of 10 us in one process, 10 of 10 ms in another: the p99 of all is 10 us. A mean of the
 * two processes' p99 would say 5 ms, a mean of maxima 5 ms. */
static void samples_are_put_together(void **state)
{
    char folder[256];
    struct load_plan plan;
    struct load_figures figures[LOAD_PHASES];
    (void)state;
    make_folder(folder, sizeof(folder));
    make_plan(&plan, folder, 2, 2, 1, 0, 1);
    struct raw_writer *writer = begin_file(&plan, 1, 0, 1000000);
    for (uint64_t i = 0; i < 1000; i++)
        put(writer, RAW_MEASURE, RAW_ANSWERED, 500 + i * 20000, 10000);
    end_file(writer);
    writer = begin_file(&plan, 1, 1, 2000000);
    for (uint64_t i = 0; i < 10; i++)
        put(writer, RAW_MEASURE, RAW_ANSWERED, i * 20000000, 10000000 + i);
    end_file(writer);
    assert_int_equal(load_tally_run(&plan, 1, figures, NULL), 0);
    const struct load_figures *f = &figures[LOAD_MEASURE];
    assert_true(f->n == 1010 && f->sent == 1010);
    assert_true(f->by_status[RAW_ANSWERED] == 1010);
    assert_true(f->quantile_ns[P50] == 10000);
    assert_true(f->quantile_ns[P99] == 10000);
    assert_true(f->quantile_ns[P999] == QUANTILE_REFUSED);
    assert_true(f->min_ns == 10000 && f->max_ns == 10000009);
    assert_int_equal(f->process_of_worst, 1);
    assert_true(f->record_of_worst == 9);
    /* The span is over both epochs: 1,000,500 to 2,000,000 + 9 * 20 ms + 10 ms + 9. */
    assert_true(f->first_begin_ns == 1000500);
    assert_true(f->last_received_ns == 2000000 + 180000000 + 10000009);
    assert_true(figures[LOAD_WARMUP].n == 0 && figures[LOAD_WARMUP].sent == 0);
    assert_true(figures[LOAD_WARMUP].quantile_ns[P50] == QUANTILE_REFUSED);
    assert_int_equal(f->files, 2);
    assert_int_equal(f->files_missing + f->files_damaged, 0);
    remove_folder(&plan);
}

static void warmup_is_kept_apart_and_kept(void **state)
{
    char folder[256];
    struct load_plan plan;
    struct load_figures figures[LOAD_PHASES];
    (void)state;
    make_folder(folder, sizeof(folder));
    make_plan(&plan, folder, 1, 1, 2, 0, 1);
    for (uint32_t run = 1; run <= 2; run++) {
        struct raw_writer *writer = begin_file(&plan, run, 0, 0);
        for (uint64_t i = 0; i < 100; i++)
            put(writer, RAW_WARMUP, RAW_ANSWERED, i * 1000, i == 50 ? 648000000 * run : 100);
        for (uint64_t i = 0; i < 100; i++)
            put(writer, RAW_MEASURE, RAW_ANSWERED, 1000000000 + i * 1000, 200);
        end_file(writer);
    }
    for (uint32_t run = 1; run <= 2; run++) {
        assert_int_equal(load_tally_run(&plan, run, figures, NULL), 0);
        assert_int_equal(figures[LOAD_WARMUP].run, run);
        assert_true(figures[LOAD_WARMUP].max_ns == 648000000 * (uint64_t)run);
        assert_true(figures[LOAD_WARMUP].record_of_worst == 50);
        assert_true(figures[LOAD_WARMUP].quantile_ns[P50] == 100);
        assert_true(figures[LOAD_MEASURE].max_ns == 200);
        assert_true(figures[LOAD_MEASURE].n == 100);
    }
    remove_folder(&plan);
}

static void unanswered_is_infinite(void **state)
{
    char folder[256];
    struct load_plan plan;
    struct load_figures figures[LOAD_PHASES];
    (void)state;
    make_folder(folder, sizeof(folder));
    make_plan(&plan, folder, 1, 1, 1, 0, 1);
    struct raw_writer *writer = begin_file(&plan, 1, 0, 0);
    for (uint64_t i = 0; i < 1000; i++)
        put(writer, RAW_MEASURE,
            i % 50 == 0   ? RAW_LOST
            : i % 50 == 1 ? RAW_ERROR
                          : RAW_ANSWERED,
            i * 1000, 100 + i);
    end_file(writer);
    assert_int_equal(load_tally_run(&plan, 1, figures, NULL), 0);
    const struct load_figures *f = &figures[LOAD_MEASURE];
    assert_true(f->n == 1000 && f->sent == 1000);
    assert_true(f->by_status[RAW_ANSWERED] == 960);
    assert_true(f->by_status[RAW_LOST] == 20 && f->by_status[RAW_ERROR] == 20);
    assert_true(f->quantile_ns[P90] != QUANTILE_INFINITE);
    assert_true(f->quantile_ns[P99] == QUANTILE_INFINITE);
    assert_true(f->max_ns == 1099);
    remove_folder(&plan);
}

static void missing_and_damaged_files_are_counted(void **state)
{
    char folder[256], path[4096];
    struct load_plan plan;
    struct load_figures figures[LOAD_PHASES];
    (void)state;
    make_folder(folder, sizeof(folder));
    make_plan(&plan, folder, 3, 3, 1, 0, 1);
    for (uint32_t p = 0; p < 2; p++) {
        struct raw_writer *writer = begin_file(&plan, 1, p, 0);
        for (uint64_t i = 0; i < 50; i++)
            put(writer, RAW_MEASURE, RAW_ANSWERED, i * 1000, 100);
        end_file(writer);
    }
    assert_int_equal(load_raw_path(&plan, 1, 1, path, sizeof(path)), 0);
    assert_int_equal(truncate(path, 4096 + 32 * 40), 0);
    assert_int_equal(load_tally_run(&plan, 1, figures, NULL), 0);
    assert_int_equal(figures[LOAD_MEASURE].files, 3);
    assert_int_equal(figures[LOAD_MEASURE].files_missing, 1);
    assert_int_equal(figures[LOAD_MEASURE].files_damaged, 1);
    assert_true(figures[LOAD_MEASURE].n == 90);
    remove_folder(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_put_together),
        cmocka_unit_test(warmup_is_kept_apart_and_kept),
        cmocka_unit_test(unanswered_is_infinite),
        cmocka_unit_test(missing_and_damaged_files_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
