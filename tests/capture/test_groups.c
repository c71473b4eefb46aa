/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups: files of a run are united without loss; what is a sample, and where the worst one is. */
#include <sys/stat.h>

#include "capture/groups.h"
#include "capture/quantile.h"
#include "samples.h"

static char directory[256];
static char paths[3][300];

static int setup(void **state)
{
    (void)state;
    make_directory(directory, sizeof(directory));
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof(paths[i]), "%s/%d.traw", directory, i);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        unlink(paths[i]);
    return rmdir(directory);
}

static void write_records(const char *path, uint32_t run, uint32_t process, int closed_loop,
                          const struct raw_record *records, uint64_t count)
{
    struct raw_writer *writer;
    struct raw_writer_options options = {.path = path,
                                         .run = run,
                                         .process = process,
                                         .closed_loop = (uint32_t)closed_loop,
                                         .epoch_utc_ns = 1000};
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    for (uint64_t i = 0; i < count; i++)
        *raw_writer_next(writer) = records[i];
    assert_int_equal(raw_writer_close(writer, 0, NULL), 0);
}

static struct groups *read_all(uint32_t by, int keep_values, int files)
{
    struct groups *groups;
    struct taut_err err = {0};
    assert_int_equal(groups_create(&groups, by, keep_values, &err), 0);
    for (int i = 0; i < files; i++)
        assert_int_equal(groups_add_file(groups, paths[i], &err), 0);
    assert_int_equal(groups_sort(groups, &err), 0);
    return groups;
}

/* Two processes, constants of 100 and 200 us: the minimum is 100, the maximum 200, not sums. */
static void extremes_of_two_processes(void **state)
{
    (void)state;
    struct raw_record records[100];
    for (uint32_t process = 0; process < 2; process++) {
        for (uint64_t i = 0; i < 100; i++)
            records[i] = (struct raw_record){.intended_ns = i * 1000000,
                                             .begin_ns = i * 1000000,
                                             .received_ns = i * 1000000 + (process + 1) * 100000,
                                             .conn = (uint16_t)process,
                                             .status = RAW_ANSWERED,
                                             .phase = RAW_MEASURE};
        write_records(paths[process], 1, process, 1, records, 100);
    }
    struct groups *groups = read_all(GROUPS_BY_PHASE, 1, 2);
    assert_int_equal(groups_count(groups), 1);
    const struct group *group = groups_at(groups, 0);
    const struct sample_series *service = &group->series[TIME_SERVICE];
    assert_int_equal(group->open_loop, 0);
    assert_int_equal(group->series[TIME_RESPONSE].n, 0);
    assert_int_equal(service->n, 200);
    assert_int_equal(service->min.ns, 100000);
    assert_int_equal(service->max.ns, 200000);
    assert_int_equal(service->max.session, 1);
    assert_int_equal(service->max.record, 0);
    assert_int_equal(service->max.file, 1);
    assert_int_equal(quantile_of(service->values, 200, QUANTILE_P50), 100000);
    assert_int_equal(quantile_of(service->values, 200, QUANTILE_P90), 200000);
    groups_destroy(groups);
    groups = read_all(GROUPS_BY_PROCESS, 0, 2);
    assert_int_equal(groups_count(groups), 2);
    assert_int_equal(groups_at(groups, 1)->process, 1);
    assert_int_equal(groups_at(groups, 1)->series[TIME_SERVICE].min.ns, 200000);
    groups_destroy(groups);
}

/* One record of each status, open loop: who is a sample of what. */
static void each_status_is_counted_once(void **state)
{
    (void)state;
    struct raw_record records[10];
    for (uint8_t i = 0; i < 10; i++)
        records[i] = (struct raw_record){.intended_ns = 100,
                                         .begin_ns = 110,
                                         .received_ns = RAW_UNANSWERED,
                                         .status = i,
                                         .phase = RAW_WARMUP};
    records[0] = (struct raw_record){0};
    records[RAW_ANSWERED].received_ns = 150;
    records[RAW_LATE].received_ns = 1000;
    records[RAW_ERROR].received_ns = 120; /* a reject is no answer */
    records[8] = records[RAW_ANSWERED];
    records[8].received_ns = 109; /* before it was sent */
    records[9] = records[RAW_ANSWERED];
    records[9].phase = 77;
    write_records(paths[0], 1, 0, 0, records, 10);
    struct groups *groups = read_all(GROUPS_BY_RUN, 1, 1);
    assert_int_equal(groups_count(groups), 1);
    const struct group *group = groups_at(groups, 0);
    assert_int_equal(group->phase, GROUP_ALL);
    assert_int_equal(group->records, 10);
    for (int i = 0; i <= RAW_UNSENT; i++)
        assert_int_equal(group->by_status[i], 1);
    assert_int_equal(group->damaged, 3); /* status 7, negative time, phase 77 */
    const struct sample_series *series = group->series;
    assert_int_equal(series[TIME_SERVICE].n, 4);
    assert_int_equal(series[TIME_SERVICE].unanswered, 2);
    assert_int_equal(series[TIME_SERVICE].min.ns, 40);
    assert_int_equal(series[TIME_SERVICE].max.ns, 890);
    assert_int_equal(series[TIME_SERVICE].max.utc_ns, 1110);
    assert_int_equal(series[TIME_RESPONSE].n, 6);
    assert_int_equal(series[TIME_RESPONSE].unanswered, 4);
    assert_int_equal(series[TIME_RESPONSE].max.ns, 900);
    assert_int_equal(series[TIME_LATENESS].n, 4);
    assert_int_equal(series[TIME_LATENESS].max.ns, 10);
    assert_int_equal(series[TIME_RESPONSE].values[5], QUANTILE_INFINITE);
    groups_destroy(groups);
}

/* However divided, the parts add up to the whole. */
static void parts_add_up(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        write_random(paths[i], 1 + i / 2, i % 2, 20000, i + 1, 0);
    for (uint32_t by = GROUPS_BY_RUN; by <= GROUPS_BY_SESSION; by++) {
        static const uint32_t wanted[] = {2, 4, 6, 64};
        struct groups *groups = read_all(by, 1, 3);
        uint64_t records = 0, samples = 0, statuses = 0, worst = 0;
        /* In this file a session is always in one phase: 32 sessions, 2 runs. */
        assert_int_equal(groups_count(groups), wanted[by]);
        for (uint32_t i = 0; i < groups_count(groups); i++) {
            const struct group *group = groups_at(groups, i);
            records += group->records;
            samples += group->series[TIME_RESPONSE].n;
            for (int status = 0; status <= RAW_UNSENT; status++)
                statuses += group->by_status[status];
            if (group->series[TIME_RESPONSE].max.ns > worst)
                worst = group->series[TIME_RESPONSE].max.ns;
        }
        assert_int_equal(records, 60000);
        assert_int_equal(statuses, 60000);
        assert_int_equal(samples, 60000);
        static uint64_t worst_before;
        assert_true(by == GROUPS_BY_RUN || worst == worst_before);
        worst_before = worst;
        groups_destroy(groups);
    }
}

static void the_same_file_counts_once(void **state)
{
    (void)state;
    struct groups *groups;
    write_random(paths[0], 1, 0, 100, 1, 1);
    assert_int_equal(symlink(paths[0], paths[1]), 0);
    assert_int_equal(groups_create(&groups, GROUPS_BY_RUN, 0, NULL), 0);
    assert_int_equal(groups_add_file(groups, paths[0], NULL), 0);
    assert_int_equal(groups_add_file(groups, paths[1], NULL), TAUT_EBUSY);
    assert_int_equal(groups_at(groups, 0)->records, 100);
    groups_destroy(groups);
}

/* Run 1 of one measurement is not run 1 of another. */
static void directories_are_kept_apart(void **state)
{
    (void)state;
    char other[300], file[340];
    struct groups *groups;
    snprintf(other, sizeof(other), "%s/other", directory);
    snprintf(file, sizeof(file), "%s/0.traw", other);
    assert_int_equal(mkdir(other, 0700), 0);
    write_random(paths[0], 1, 0, 10, 1, 1);
    write_random(file, 1, 0, 20, 1, 1);
    assert_int_equal(groups_create(&groups, GROUPS_BY_RUN, 0, NULL), 0);
    assert_int_equal(groups_add_file(groups, paths[0], NULL), 0);
    assert_int_equal(groups_add_file(groups, file, NULL), 0);
    assert_int_equal(groups_count(groups), 2);
    assert_int_equal(groups_directory_count(groups), 2);
    groups_destroy(groups);
    unlink(file);
    rmdir(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(extremes_of_two_processes), TEST(each_status_is_counted_once), TEST(parts_add_up),
        TEST(the_same_file_counts_once), TEST(directories_are_kept_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
