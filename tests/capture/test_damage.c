/* SPDX-License-Identifier: BSD-2-Clause */
/* Damaged raw files: cut at many places, wrong bytes, other versions, things that are no files. */
#include <sys/stat.h>
#include <sys/un.h>

#include "samples.h"

#define RECORDS 300u

static char directory[256];
static char path[300], cut[300];
static uint8_t *whole;
static size_t size;

static int setup(void **state)
{
    (void)state;
    make_directory(directory, sizeof(directory));
    snprintf(path, sizeof(path), "%s/a.traw", directory);
    snprintf(cut, sizeof(cut), "%s/cut.traw", directory);
    write_random(path, 1, 0, RECORDS, 3, 1);
    whole = slurp(path, &size);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(whole);
    unlink(path);
    unlink(cut);
    return rmdir(directory);
}

/* Opens `cut`; the damage found, or the code of opening. *records gets how many there are; they are
 * compared with those of the whole file. */
static int damage_of(uint64_t *records, struct taut_err *err)
{
    struct raw_reader *reader;
    uint64_t count;
    *records = 0;
    int code = raw_reader_open(&reader, cut, err);
    if (code != 0)
        return code;
    code = raw_reader_damage(reader, err);
    const struct raw_record *first = raw_reader_records(reader, 0, &count);
    *records = count;
    assert_int_equal(count, raw_reader_info(reader)->records);
    assert_int_equal(raw_reader_info(reader)->complete, code == 0);
    if (count && code == TAUT_ETRUNCATED)
        assert_memory_equal(first, whole + 4096, count * 32);
    assert_non_null(raw_reader_info(reader)->recipe);
    raw_reader_close(reader);
    return code;
}

static void cut_at_every_512_bytes(void **state)
{
    (void)state;
    struct taut_err err = {0};
    uint64_t records;
    for (size_t length = 0; length < size; length += 512) {
        spill(cut, whole, length);
        int code = damage_of(&records, &err);
        assert_int_equal(code, length == 0 ? TAUT_EFORMAT : TAUT_ETRUNCATED);
        assert_int_equal(records, length < 4096 ? 0 : (length - 4096) / 32);
        assert_non_null(strstr(err.text, cut));
    }
}

/* The last 100 bytes one by one, and around the ends of magic and version. */
static void cut_at_every_byte_of_the_ends(void **state)
{
    (void)state;
    struct taut_err err = {0};
    uint64_t records;
    for (size_t length = size - 100; length < size; length++) {
        spill(cut, whole, length);
        assert_int_equal(damage_of(&records, &err), TAUT_ETRUNCATED);
        uint64_t slots = (length - 4096) / 32;
        assert_int_equal(records, slots < RECORDS ? slots : RECORDS);
    }
    for (size_t length = 1; length < 20; length++) {
        spill(cut, whole, length);
        assert_int_equal(damage_of(&records, &err), length < 8 ? TAUT_EFORMAT : TAUT_ETRUNCATED);
    }
}

/* One bit of every part: each is found, and none costs the records. */
static void a_wrong_bit_is_found_everywhere(void **state)
{
    (void)state;
    struct taut_err err = {0};
    uint64_t records;
    for (size_t i = 12; i < size; i += i < 200 ? 1 : 61) {
        whole[i] ^= 0x10;
        spill(cut, whole, size);
        whole[i] ^= 0x10;
        int code = damage_of(&records, &err);
        if (i >= size - 32 && i < size - 24)
            assert_int_equal(code, TAUT_ETRUNCATED); /* no trailer's magic: none there */
        else
            assert_int_equal(code, TAUT_ECORRUPT);
        assert_in_range(records, RECORDS, RECORDS + 1);
    }
}

static void another_version_is_named(void **state)
{
    (void)state;
    struct taut_err err = {0};
    uint64_t records;
    whole[8] = 2;
    spill(cut, whole, size);
    assert_int_equal(damage_of(&records, &err), TAUT_EVERSION);
    assert_non_null(strstr(err.text, "version 2"));
    spill(cut, whole, 12); /* says so even when cut */
    assert_int_equal(damage_of(&records, &err), TAUT_EVERSION);
}

static void bytes_behind_the_trailer_are_found(void **state)
{
    (void)state;
    struct taut_err err = {0};
    uint64_t records;
    uint8_t *longer = malloc(size + 100);
    assert_non_null(longer);
    memcpy(longer, whole, size);
    memset(longer + size, 'j', 100);
    for (size_t more = 1; more <= 100; more += 3) {
        spill(cut, longer, size + more);
        assert_int_equal(damage_of(&records, &err), TAUT_ECORRUPT);
        assert_int_equal(records, RECORDS);
    }
    /* Two files one behind the other: the last trailer does not fit. */
    longer = realloc(longer, 2 * size);
    assert_non_null(longer);
    memcpy(longer + size, whole, size);
    spill(cut, longer, 2 * size);
    assert_int_equal(damage_of(&records, &err), TAUT_ECORRUPT);
    free(longer);
}

static void a_record_from_another_place_is_found(void **state)
{
    (void)state;
    struct taut_err err = {0};
    uint64_t records;
    memmove(whole + 4096, whole + 4096 + 32, size - 4096 - 32); /* one record taken out */
    spill(cut, whole, size - 32);
    assert_int_equal(damage_of(&records, &err), TAUT_ECORRUPT);
    assert_int_equal(records, RECORDS - 1);
}

/* The writer died between its last steps: the header says closed, the trailer is still zero. */
static void a_death_while_closing_costs_nothing(void **state)
{
    (void)state;
    struct taut_err err = {0};
    uint64_t records;
    memset(whole + size - 32, 0, 32);
    spill(cut, whole, size);
    assert_int_equal(damage_of(&records, &err), TAUT_ETRUNCATED);
    assert_int_equal(records, RECORDS);
}

static void what_is_no_raw_file_is_refused(void **state)
{
    (void)state;
    struct taut_err err = {0};
    struct raw_reader *reader;
    uint64_t records;
    assert_int_equal(raw_reader_open(&reader, directory, &err), TAUT_EFORMAT);
    assert_non_null(strstr(err.text, "directory"));
    assert_int_equal(mkfifo(cut, 0600), 0);
    assert_int_equal(raw_reader_open(&reader, cut, &err), TAUT_EFORMAT); /* and does not hang */
    assert_null(reader);
    unlink(cut);
    assert_int_equal(raw_reader_open(&reader, cut, &err), TAUT_ENOENT);
    assert_int_equal(raw_reader_open(&reader, "/dev/null", &err), TAUT_EFORMAT);
    spill(cut, (const uint8_t *)"8=FIX.4.4\0019=5\001", 14);
    assert_int_equal(damage_of(&records, &err), TAUT_EFORMAT);
    if (geteuid() != 0) { /* root reads everything */
        assert_int_equal(chmod(cut, 0), 0);
        assert_int_equal(raw_reader_open(&reader, cut, &err), TAUT_EACCES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(cut_at_every_512_bytes),
        TEST(cut_at_every_byte_of_the_ends),
        TEST(a_wrong_bit_is_found_everywhere),
        TEST(another_version_is_named),
        TEST(bytes_behind_the_trailer_are_found),
        TEST(a_record_from_another_place_is_found),
        TEST(a_death_while_closing_costs_nothing),
        TEST(what_is_no_raw_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
