/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of the run directory: what could not be written whole is never taken for written. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/bench.h"

static enum { WHOLE, SHORT_IN_SILENCE, FULL_AT_WRITE } disk;

/* In the place of libc's: a disk as `disk` says. */
size_t fwrite(const void *data, size_t size, size_t count, FILE *file)
{
    if (disk == FULL_AT_WRITE)
        errno = ENOSPC;
    if (disk == SHORT_IN_SILENCE || disk == FULL_AT_WRITE)
        count /= 2;
    for (size_t i = 0; i < size * count; i++)
        putc(((const unsigned char *)data)[i], file);
    return count;
}

static int write_one(const char *name)
{
    static const char text[] = "what was measured\n";
    static const struct cli_command command = {.name = "test"};
    static struct bench b = {.command = &command};
    char folder[200], path[256];
    snprintf(folder, sizeof(folder), "%s/taut-folder-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(b.folder, sizeof(b.folder), "%s", folder);
    int exit_code = bench_folder_text(&b, name, text, sizeof(text) - 1);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
    return exit_code;
}

static void written_whole_or_said(void **state)
{
    (void)state;
    disk = WHOLE;
    assert_int_equal(write_one("a"), -1);
    disk = SHORT_IN_SILENCE;
    assert_int_equal(write_one("a"), EXIT_WRITE);
    disk = FULL_AT_WRITE;
    assert_int_equal(write_one("a"), EXIT_DISK_FULL);
    disk = WHOLE;
    assert_int_equal(write_one("no-such-folder/a"), EXIT_WRITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_whole_or_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
