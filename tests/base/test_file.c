/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading small files: lengths around every boundary, and why a file can't be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "fake.h"

static struct fake_tree tree;

static int set_up(void **state)
{
    (void)state;
    fake_create(&tree);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_destroy(&tree);
    return 0;
}

static void a_file_is_read_up_to_its_room(void **state)
{
    (void)state;
    char text[16];
    fake_file(&tree, "seven", "1234567");
    for (size_t room = 1; room < sizeof text; room++) {
        memset(text, 0x5a, sizeof text);
        ssize_t length = taut__file_read(fake_path(&tree, "seven"), text, room);
        assert_int_equal(text[room], 0x5a);
        if (room >= 8)
            assert_int_equal(length, 7);
        else
            assert_int_equal(length, -EFBIG);
        assert_int_equal(strlen(text), room >= 8 ? 7 : room - 1); /* the beginning is there */
        assert_int_equal(strncmp(text, "1234567", strlen(text)), 0);
    }
}

static void a_value_ends_before_white_space(void **state)
{
    (void)state;
    char text[16];
    fake_file(&tree, "value", " a b \t\r\n\n");
    assert_int_equal(taut__file_read_value(fake_path(&tree, "value"), text, sizeof text), 4);
    assert_string_equal(text, " a b");
    fake_file(&tree, "value", "\n \n");
    assert_int_equal(taut__file_read_value(fake_path(&tree, "value"), text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void whole_files_of_every_length(void **state)
{
    (void)state;
    static char content[20000];
    static const size_t lengths[] = {0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 16384, 19999};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(content, 'a' + (int)i, lengths[i]);
        content[lengths[i]] = '\0';
        fake_file(&tree, "whole", content);
        ssize_t length = -1;
        char *text = taut__file_read_whole(fake_path(&tree, "whole"), 1u << 20, &length);
        assert_non_null(text);
        assert_int_equal(length, lengths[i]);
        assert_string_equal(text, content);
        free(text);
        /* A limit of just its length is enough, one less is not. */
        text = taut__file_read_whole(fake_path(&tree, "whole"), lengths[i], &length);
        assert_non_null(text);
        assert_int_equal(length, lengths[i]);
        free(text);
        if (lengths[i] == 0)
            continue;
        text = taut__file_read_whole(fake_path(&tree, "whole"), lengths[i] - 1, &length);
        assert_null(text);
        assert_int_equal(length, -EFBIG);
    }
}

static void failures_keep_their_errno(void **state)
{
    (void)state;
    char text[16] = "old";
    ssize_t length = 0;
    assert_int_equal(taut__file_read(fake_path(&tree, "none"), text, sizeof text), -ENOENT);
    assert_string_equal(text, "");
    assert_null(taut__file_read_whole(fake_path(&tree, "none"), 10, &length));
    assert_int_equal(length, -ENOENT);
    fake_directory(&tree, "directory");
    memcpy(text, "old", 4);
    assert_int_equal(taut__file_read_value(fake_path(&tree, "directory"), text, sizeof text),
                     -EISDIR);
    assert_string_equal(text, "");
    assert_null(taut__file_read_whole(fake_path(&tree, "directory"), 10, &length));
    assert_int_equal(length, -EISDIR);
    /* A FIFO without a writer must not block. */
    assert_int_equal(mkfifo(fake_path(&tree, "fifo"), 0600), 0);
    assert_int_equal(taut__file_read(fake_path(&tree, "fifo"), text, sizeof text), 0);
}

int main(void)
{
#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TREE_TEST(a_file_is_read_up_to_its_room),
        TREE_TEST(a_value_ends_before_white_space),
        TREE_TEST(whole_files_of_every_length),
        TREE_TEST(failures_keep_their_errno),
    };
    return cmocka_run_group_tests_name("base/file", tests, NULL, NULL);
}
