/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw files: what is written is read; bytes at the documented offsets; chunks; crashes. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "samples.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREAD 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SANITIZED_THREAD 1
#endif

#define CHUNK_RECORDS 262144u /* 8 MiB: what a file grows by */

static char directory[256];
static char path[300];

static int setup(void **state)
{
    (void)state;
    make_directory(directory, sizeof(directory));
    snprintf(path, sizeof(path), "%s/a.traw", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static uint64_t get(const uint8_t *bytes, size_t offset, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[offset + i] << (8 * i);
    return value;
}

/* Every offset of docs/traw.md, in bytes, not through the reader. */
static void bytes_are_where_the_document_says(void **state)
{
    (void)state;
    struct taut_clock clock = {
        .source = TAUT_CLOCK_TSC, .frequency_hz = 2500000001, .uncertainty_ns = 17};
    struct raw_writer_options options = {.path = path,
                                         .run = 3,
                                         .process = 7,
                                         .closed_loop = 1,
                                         .clock = &clock,
                                         .epoch_ns = 0x1122334455667788,
                                         .epoch_utc_ns = 0x1020304050607080,
                                         .recipe = "{\"a\":1}"};
    struct raw_writer *writer;
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    *raw_writer_next(writer) = (struct raw_record){.intended_ns = 0x0102030405060708,
                                                   .begin_ns = 0x1112131415161718,
                                                   .received_ns = RAW_UNANSWERED,
                                                   .send_ns = 0x21222324,
                                                   .conn = 0x3132,
                                                   .status = RAW_LOST,
                                                   .phase = RAW_DRAIN};
    assert_int_equal(raw_writer_close(writer, -5, NULL), 0);
    size_t size;
    uint8_t *b = slurp(path, &size);
    assert_int_equal(size, 4096 + 32 + 32);
    assert_memory_equal(b, "TAUTRAW\n", 8);
    assert_int_equal(get(b, 8, 4), 1);
    assert_int_equal(get(b, 12, 4), 4096);
    assert_int_equal(get(b, 16, 4), 32);
    assert_int_equal(get(b, 20, 4), 32);
    assert_int_equal(get(b, 24, 4), 3);
    assert_int_equal(get(b, 28, 4), 3);
    assert_int_equal(get(b, 32, 4), 7);
    assert_int_equal(get(b, 36, 4), 1);
    assert_int_equal(get(b, 40, 8), 0x1122334455667788);
    assert_int_equal(get(b, 48, 8), 0x1020304050607080);
    assert_int_equal(get(b, 56, 8), 2500000001);
    assert_int_equal(get(b, 64, 8), 17);
    assert_int_equal((int64_t)get(b, 72, 8), -5);
    assert_int_equal(get(b, 80, 4), 7);
    for (size_t i = 84; i < 128; i++)
        assert_int_equal(b[i], 0);
    assert_memory_equal(b + 128, "{\"a\":1}\0", 8);
    const uint8_t record[32] = {8,    7,    6,    5,    4,    3,    2,    1,    0x18, 0x17, 0x16,
                                0x15, 0x14, 0x13, 0x12, 0x11, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                0xff, 0xff, 0x24, 0x23, 0x22, 0x21, 0x32, 0x31, 3,    3};
    assert_memory_equal(b + 4096, record, 32);
    assert_memory_equal(b + 4128, "TAUTEND\n", 8);
    assert_int_equal(get(b, 4136, 8), 1);
    free(b);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct raw_reader *reader;
    write_random(path, 2, 1, 5000, 42, 0);
    assert_int_equal(raw_reader_open(&reader, path, NULL), 0);
    assert_int_equal(raw_reader_damage(reader, NULL), 0);
    const struct raw_info *info = raw_reader_info(reader);
    assert_int_equal(info->complete, 1);
    assert_int_equal(info->run, 2);
    assert_int_equal(info->process, 1);
    assert_int_equal(info->closed_loop, 0);
    assert_int_equal(info->records, 5000);
    assert_int_equal(info->clock_drift_ppb, -12);
    assert_int_equal(info->epoch_ns, 5);
    assert_string_equal(info->recipe, "{\"sessions\":32}");
    uint64_t seed = 42, count;
    const struct raw_record *records = raw_reader_records(reader, 0, &count);
    assert_int_equal(count, 5000);
    for (uint64_t i = 0; i < count; i++) {
        struct raw_record wanted = random_record(&seed, i, 0);
        assert_memory_equal(&records[i], &wanted, sizeof(wanted));
    }
    assert_ptr_equal(raw_reader_records(reader, 4999, &count), records + 4999);
    assert_int_equal(count, 1);
    assert_null(raw_reader_records(reader, 5000, &count));
    assert_int_equal(count, 0);
    raw_reader_close(reader);
}

static void an_empty_run_is_a_whole_file(void **state)
{
    (void)state;
    struct raw_reader *reader;
    uint64_t count;
    write_random(path, 1, 0, 0, 1, 1);
    assert_int_equal(raw_reader_open(&reader, path, NULL), 0);
    assert_int_equal(raw_reader_damage(reader, NULL), 0);
    assert_int_equal(raw_reader_info(reader)->complete, 1);
    assert_null(raw_reader_records(reader, 0, &count));
    raw_reader_close(reader);
}

/* Several chunks, early slots changed late: no slot ever moves. */
static void a_file_grows_and_slots_stay(void **state)
{
    (void)state;
    const uint64_t total = 3 * CHUNK_RECORDS + 77;
    struct raw_writer_options options = {.path = path, .run = 1};
    struct raw_writer *writer;
    struct raw_reader *reader;
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    assert_null(raw_writer_at(writer, 0));
    struct raw_record *first = raw_writer_next(writer);
    first->status = RAW_LOST;
    for (uint64_t i = 1; i < total; i++) {
        static const struct raw_record zero;
        struct raw_record *slot = raw_writer_next(writer);
        assert_non_null(slot);
        assert_memory_equal(slot, &zero, sizeof(zero));
        *slot = (struct raw_record){.intended_ns = i, .status = RAW_ANSWERED, .phase = RAW_MEASURE};
    }
    assert_int_equal(raw_writer_count(writer), total);
    assert_ptr_equal(raw_writer_at(writer, 0), first);
    assert_null(raw_writer_at(writer, total));
    raw_writer_at(writer, CHUNK_RECORDS)->received_ns = 123;
    first->status = RAW_ANSWERED;
    assert_int_equal(raw_writer_status(writer), 0);
    assert_int_equal(raw_writer_close(writer, 0, NULL), 0);
    assert_int_equal(raw_reader_open(&reader, path, NULL), 0);
    assert_int_equal(raw_reader_damage(reader, NULL), 0);
    assert_int_equal(raw_reader_info(reader)->file_bytes, 4096 + 32 * (total + 1));
    uint64_t count;
    const struct raw_record *records = raw_reader_records(reader, 0, &count);
    assert_int_equal(count, total);
    assert_int_equal(records[0].status, RAW_ANSWERED);
    assert_int_equal(records[CHUNK_RECORDS].received_ns, 123);
    for (uint64_t i = 1; i < total; i++)
        if (records[i].intended_ns != i)
            fail_msg("record %llu is another", (unsigned long long)i);
    raw_reader_close(reader);
}

/* What is expected is there from the start: no store faults, no waiting. */
static void expected_records_neither_fault_nor_wait(void **state)
{
    (void)state;
    const uint64_t total = 2 * CHUNK_RECORDS;
    struct raw_writer_options options = {.path = path, .run = 1, .expected_records = total};
    struct raw_writer *writer;
    struct rusage before, after;
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    for (uint64_t i = 0; i < total; i++) {
        struct raw_record *slot = raw_writer_next(writer);
        slot->intended_ns = i;
        slot->status = RAW_LOST;
    }
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    assert_int_equal(raw_writer_stalls(writer), 0);
    assert_int_equal(raw_writer_close(writer, 0, NULL), 0);
#ifdef SANITIZED_THREAD
    print_message("skipped: ThreadSanitizer's shadow memory faults with each of our pages\n");
    skip();
#endif
    /* 4,096 pages were stored to. A kernel may write some back and protect them meanwhile. */
    assert_in_range(after.ru_minflt - before.ru_minflt, 0, 256);
}

/* What was reserved before a phase is there in it: nothing grows, nobody waits. */
static void reserved_records_grow_nothing(void **state)
{
    (void)state;
    struct raw_writer_options options = {.path = path, .run = 1};
    struct raw_writer *writer;
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    for (uint64_t i = 0; i < 1000; i++)
        raw_writer_next(writer)->status = RAW_LOST;
    assert_int_equal(raw_writer_reserve(writer, 2 * CHUNK_RECORDS), 0);
    uint64_t ready = raw_writer_ready(writer);
    assert_true(ready >= 1000 + 2 * CHUNK_RECORDS);
    for (uint64_t i = 0; i < 2 * CHUNK_RECORDS; i++)
        raw_writer_next(writer)->status = RAW_LOST;
    assert_true(raw_writer_ready(writer) == ready);
    assert_int_equal(raw_writer_stalls(writer), 0);
    while (raw_writer_count(writer) < ready + 1) /* and the growth behind them is seen */
        raw_writer_next(writer)->status = RAW_LOST;
    assert_true(raw_writer_ready(writer) > ready);
    assert_int_equal(raw_writer_close(writer, 0, NULL), 0);
}

/* The id of the thread of that name in this process, 0 = none. */
static pid_t thread_named(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    pid_t found = 0;
    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        char file[300], text[32] = "";
        snprintf(file, sizeof(file), "/proc/self/task/%s/comm", entry->d_name);
        FILE *comm = fopen(file, "r");
        if (comm && fgets(text, sizeof(text), comm) && strncmp(text, name, strlen(name)) == 0)
            found = (pid_t)strtol(entry->d_name, NULL, 10);
        if (comm)
            fclose(comm);
    }
    closedir(tasks);
    return found;
}

/* An owner that bound itself to a CPU keeps it for itself. */
static void the_grower_leaves_the_owners_cpu(void **state)
{
    (void)state;
    cpu_set_t before, mask;
    struct taut_cpuset others;
    struct raw_writer *writer;
    struct raw_writer_options options = {.path = path, .run = 1, .grower_cpus = &others};
    assert_int_equal(taut_cpuset_of_self(&others), 0);
    if (taut_cpuset_count(&others) < 2) {
        print_message("skipped: there is only one CPU\n");
        skip();
    }
    uint32_t own = taut_cpuset_nth(&others, 0);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    others.bits[own / 64] &= ~(UINT64_C(1) << (own % 64));
    assert_int_equal(taut_cpu_bind_self(own, NULL), 0);
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    pid_t grower = thread_named("taut-grower");
    int code = sched_getaffinity(grower, sizeof(mask), &mask);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(raw_writer_close(writer, 0, NULL), 0);
    assert_true(grower != 0);
    assert_int_equal(code, 0);
    assert_false(CPU_ISSET(own, &mask));
    assert_int_equal(CPU_COUNT(&mask), taut_cpuset_count(&others));
}

static void a_file_that_exists_is_not_touched(void **state)
{
    (void)state;
    struct raw_writer *writer;
    struct taut_err err = {0};
    struct raw_writer_options options = {.path = path, .run = 1};
    spill(path, (const uint8_t *)"mine", 4);
    assert_int_equal(raw_writer_create(&writer, &options, &err), TAUT_EBUSY);
    assert_null(writer);
    assert_non_null(strstr(err.text, path));
    size_t size;
    uint8_t *bytes = slurp(path, &size);
    assert_int_equal(size, 4);
    free(bytes);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    struct raw_writer *writer;
    struct raw_writer_options options = {.path = "/nonexistent/a.traw", .run = 1};
    assert_int_equal(raw_writer_create(&writer, &options, NULL), TAUT_ENOENT);
    options.path = "";
    assert_int_equal(raw_writer_create(&writer, &options, NULL), TAUT_EINVAL);
    options.path = path;
    char recipe[3902];
    memset(recipe, ' ', sizeof(recipe));
    recipe[3901] = '\0';
    options.recipe = recipe;
    assert_int_equal(raw_writer_create(&writer, &options, NULL), TAUT_ETOOBIG);
    assert_int_not_equal(access(path, F_OK), 0);
    recipe[3900] = '\0';
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    assert_int_equal(raw_writer_close(writer, 0, NULL), 0);
}

/* --- a killed writer ------------------------------------------------------------------------- */

static void run_until_killed(int to_parent, uint64_t count)
{
    struct raw_writer_options options = {.path = path, .run = 1, .closed_loop = 1};
    struct raw_writer *writer;
    uint64_t seed = 9;
    if (raw_writer_create(&writer, &options, NULL) != 0)
        _exit(1);
    for (uint64_t i = 0; i < count; i++)
        *raw_writer_next(writer) = random_record(&seed, i, 1);
    raw_writer_next(writer)->intended_ns = 0; /* handed out, never filled */
    struct raw_record *in_flight = raw_writer_next(writer);
    in_flight->status = RAW_LOST;
    in_flight->phase = RAW_MEASURE;
    in_flight->received_ns = RAW_UNANSWERED;
    if (write(to_parent, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void a_killed_writer_leaves_its_records(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 1000, CHUNK_RECORDS - 200, CHUNK_RECORDS + 500};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        int ends[2], status;
        char byte;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0)
            run_until_killed(ends[1], counts[c]);
        close(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        close(ends[0]);

        struct raw_reader *reader;
        struct taut_err err = {0};
        assert_int_equal(raw_reader_open(&reader, path, &err), 0);
        assert_int_equal(raw_reader_damage(reader, &err), TAUT_ETRUNCATED);
        assert_non_null(strstr(err.text, "never closed"));
        const struct raw_info *info = raw_reader_info(reader);
        assert_int_equal(info->complete, 0);
        assert_int_equal(info->clock_drift_ppb, INT64_MIN);
        assert_int_equal(info->records, counts[c] + 2);
        uint64_t count, seed = 9;
        const struct raw_record *records = raw_reader_records(reader, 0, &count);
        for (uint64_t i = 0; i < counts[c]; i++) {
            struct raw_record wanted = random_record(&seed, i, 1);
            if (memcmp(&records[i], &wanted, sizeof(wanted)) != 0)
                fail_msg("record %llu of %llu is another", (unsigned long long)i,
                         (unsigned long long)counts[c]);
        }
        assert_int_equal(records[counts[c]].status, RAW_EMPTY);
        assert_int_equal(records[counts[c] + 1].status, RAW_LOST);
        raw_reader_close(reader);
        unlink(path);
    }
}

/* Reading a file that is being written shows a prefix of it. */
static void a_file_can_be_read_while_it_is_written(void **state)
{
    (void)state;
    struct raw_writer_options options = {.path = path, .run = 1};
    struct raw_writer *writer;
    struct raw_reader *reader;
    assert_int_equal(raw_writer_create(&writer, &options, NULL), 0);
    for (int i = 0; i < 100; i++)
        raw_writer_next(writer)->status = RAW_ANSWERED;
    assert_int_equal(raw_reader_open(&reader, path, NULL), 0);
    assert_int_equal(raw_reader_info(reader)->records, 100);
    assert_int_equal(raw_writer_close(writer, 0, NULL), 0);
    /* The zeros behind the records are cut away now; the reader does not look there. */
    assert_int_equal(raw_reader_damage(reader, NULL), TAUT_ETRUNCATED);
    raw_reader_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(bytes_are_where_the_document_says),
        TEST(what_is_written_is_read),
        TEST(an_empty_run_is_a_whole_file),
        TEST(a_file_grows_and_slots_stay),
        TEST(expected_records_neither_fault_nor_wait),
        TEST(reserved_records_grow_nothing),
        TEST(the_grower_leaves_the_owners_cpu),
        TEST(a_file_that_exists_is_not_touched),
        TEST(bad_options_are_refused),
        TEST(a_killed_writer_leaves_its_records),
        TEST(a_file_can_be_read_while_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
