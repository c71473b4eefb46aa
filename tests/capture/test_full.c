/* SPDX-License-Identifier: BSD-2-Clause */
/* No space: on a tiny tmpfs, and at the process's file size limit. Never a signal, nothing lost. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "samples.h"

static char directory[256];
static char path[300];

/* Writes until the writer has no slot any more; all that went in must be read again. */
static void fill_and_read(const char *file, uint64_t least)
{
    struct raw_writer_options options = {.path = file, .run = 1};
    struct raw_writer *writer;
    struct raw_reader *reader;
    struct taut_err err = {0};
    struct raw_record *slot;
    uint64_t count = 0;
    assert_int_equal(raw_writer_create(&writer, &options, &err), 0);
    while ((slot = raw_writer_next(writer)) != NULL && count < 3000000) {
        slot->intended_ns = ++count;
        slot->status = RAW_ANSWERED;
    }
    assert_null(slot);
    assert_null(raw_writer_next(writer)); /* stays so */
    assert_int_equal(raw_writer_status(writer), TAUT_ENOSPC);
    assert_in_range(count, least, 3000000);
    assert_int_equal(raw_writer_count(writer), count);
    assert_int_equal(raw_writer_close(writer, 0, &err), 0);
    assert_int_equal(raw_reader_open(&reader, file, &err), 0);
    assert_int_equal(raw_reader_damage(reader, &err), 0);
    assert_int_equal(raw_reader_info(reader)->records, count);
    raw_reader_close(reader);
}

static void full_disk_at_growth(void **state)
{
    (void)state;
    fill_and_read(path, 400000); /* two chunks of 8 MiB fit into 20 MiB, a third does not */
    unlink(path);
}

static void full_disk_at_creation(void **state)
{
    (void)state;
    struct raw_writer_options options = {.path = path, .run = 1, .expected_records = 1000000};
    struct raw_writer *writer;
    struct taut_err err = {0};
    assert_int_equal(raw_writer_create(&writer, &options, &err), TAUT_ENOSPC);
    assert_non_null(strstr(err.text, path));
    assert_int_not_equal(access(path, F_OK), 0); /* nothing is left behind */
}

/* RLIMIT_FSIZE sends SIGXFSZ to a thread that goes beyond it. */
static void file_size_limit(void **state)
{
    (void)state;
    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 12u << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    fill_and_read(path, 250000);
    unlink(path);
    struct raw_writer_options options = {.path = path, .run = 1, .expected_records = 1000000};
    struct raw_writer *writer;
    assert_int_equal(raw_writer_create(&writer, &options, NULL), TAUT_ENOSPC);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

int main(void)
{
    const struct CMUnitTest on_disk[] = {cmocka_unit_test(file_size_limit)};
    const struct CMUnitTest on_tmpfs[] = {cmocka_unit_test(full_disk_at_growth),
                                          cmocka_unit_test(full_disk_at_creation)};
    snprintf(directory, sizeof(directory), "/tmp/taut-capture-XXXXXX");
    if (!mkdtemp(directory))
        return 1;
    snprintf(path, sizeof(path), "%s/a.traw", directory);
    int failed = cmocka_run_group_tests(on_disk, NULL, NULL);
    /* A mount of our own, seen by nobody else and gone with this process. */
    int mounted = (unshare(CLONE_NEWNS) == 0 || (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0)) &&
                  mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                  mount("tmpfs", directory, "tmpfs", 0, "size=20m,mode=0700") == 0;
    if (!mounted) {
        printf("skipped: no tmpfs may be mounted here (%s)\n", strerror(errno));
    } else {
        failed += cmocka_run_group_tests(on_tmpfs, NULL, NULL);
        umount2(directory, MNT_DETACH);
    }
    rmdir(directory);
    return failed ? 1 : mounted ? 0 : 77;
}
