/* SPDX-License-Identifier: BSD-2-Clause */
/* The logger: one line a message whatever the bytes, limits that count what they hold back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <taut/clock.h>

#include "base/log.h"

struct capture {
    uint32_t calls, level;
    char line[4096];
    size_t length;
};

static void keep_line(void *context, uint32_t level, const char *line, size_t length)
{
    struct capture *capture = context;
    capture->calls++;
    capture->level = level;
    capture->length = length;
    assert_true(length < sizeof capture->line);
    memcpy(capture->line, line, length + 1);
}

static struct taut_log logger_to(struct capture *capture)
{
    memset(capture, 0, sizeof *capture);
    return (struct taut_log){
        .fd = -1, .level = TAUT_LOG_DEBUG, .write = keep_line, .context = capture};
}

/* Logs to a pipe and returns what came out. */
static size_t through_pipe(struct taut_log *log, const char *message, char *text, size_t capacity)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    log->fd = ends[1];
    taut_log(log, TAUT_LOG_ERROR, "%s", message);
    close(ends[1]);
    ssize_t length = read(ends[0], text, capacity - 1);
    assert_true(length >= 0);
    text[length] = '\0';
    close(ends[0]);
    return (size_t)length;
}

static void a_line_has_program_level_text_and_newline(void **state)
{
    (void)state;
    char text[4096];
    struct taut_log log = {.level = TAUT_LOG_INFO, .program = "gate"};
    through_pipe(&log, "port 9 is taken", text, sizeof text);
    assert_string_equal(text, "gate: error: port 9 is taken\n");
    log.program = NULL;
    through_pipe(&log, "", text, sizeof text);
    assert_string_equal(text, "error: \n");
}

static void a_callback_gets_the_line_without_newline(void **state)
{
    (void)state;
    struct capture capture;
    struct taut_log log = logger_to(&capture);
    taut_log(&log, TAUT_LOG_DEBUG, "n=%d", 7);
    assert_int_equal(capture.calls, 1);
    assert_int_equal(capture.level, TAUT_LOG_DEBUG);
    assert_string_equal(capture.line, "debug: n=7");
    assert_int_equal(capture.length, strlen(capture.line));
}

static void levels_above_the_logger_s_are_dropped(void **state)
{
    (void)state;
    struct capture capture;
    struct taut_log log = logger_to(&capture);
    for (uint32_t limit = TAUT_LOG_ERROR; limit <= TAUT_LOG_DEBUG; limit++) {
        for (uint32_t level = TAUT_LOG_ERROR; level <= TAUT_LOG_DEBUG; level++) {
            capture.calls = 0;
            log.level = limit;
            taut_log(&log, level, "x");
            assert_int_equal(capture.calls, level <= limit ? 1 : 0);
        }
    }
}

static void null_logs_nothing(void **state)
{
    (void)state;
    struct taut_log_limit limit = {0};
    taut_log(NULL, TAUT_LOG_ERROR, "x");
    taut_log_limited(NULL, &limit, TAUT_LOG_ERROR, "x");
    assert_int_equal(limit.used, 0);
}

static void the_time_is_utc_in_one_form(void **state)
{
    (void)state;
    struct capture capture;
    struct taut_log log = logger_to(&capture);
    log.times = 1;
    log.program = "p";
    uint64_t before = taut_utc_now_ns() / 1000;
    taut_log(&log, TAUT_LOG_INFO, "x");
    uint64_t after = taut_utc_now_ns() / 1000;
    struct tm utc = {0};
    unsigned micro = 0;
    int used = 0;
    assert_int_equal(sscanf(capture.line, "%4d-%2d-%2dT%2d:%2d:%2d.%6uZ %n", &utc.tm_year,
                            &utc.tm_mon, &utc.tm_mday, &utc.tm_hour, &utc.tm_min, &utc.tm_sec,
                            &micro, &used),
                     7);
    assert_string_equal(capture.line + used, "p: info: x");
    utc.tm_year -= 1900;
    utc.tm_mon -= 1;
    uint64_t logged = (uint64_t)timegm(&utc) * 1000000 + micro;
    assert_in_range(logged, before, after);
}

static void assert_escapes(const char *bytes, size_t length, const char *wanted)
{
    char text[256];
    int complete = -1;
    size_t used = taut__log_escape(bytes, length, text, sizeof text, &complete);
    assert_string_equal(text, wanted);
    assert_int_equal(used, strlen(wanted));
    assert_int_equal(complete, 1);
}

static void what_could_forge_is_escaped(void **state)
{
    (void)state;
#define CASE(bytes, wanted) assert_escapes(bytes, sizeof(bytes) - 1, wanted)
    CASE("plain text", "plain text");
    CASE("a\nerror: b", "a\\nerror: b");
    CASE("a\rb\tc\\n", "a\\rb\\tc\\\\n");
    CASE("8=FIX\x01", "8=FIX\\x01");
    CASE("\x1b[2J\x7f", "\\x1b[2J\\x7f");
    CASE("nul\0byte", "nul\\x00byte");
    CASE("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    CASE("\xc2\x9b"
         "2J",
         "\\xc2\\x9b2J");                                               /* C1 control: CSI */
    CASE("\x9b", "\\x9b");                                              /* the same, raw */
    CASE("\xe2\x80\xa8\xe2\x80\xa9", "\\xe2\\x80\\xa8\\xe2\\x80\\xa9"); /* line separators */
    CASE("\xe2\x80\xae"
         "x\xe2\x81\xa6",
         "\\xe2\\x80\\xaex\\xe2\\x81\\xa6"); /* direction overrides */
    CASE("\xe2\x80\x8e\xd8\x9c", "\\xe2\\x80\\x8e\\xd8\\x9c");
    CASE("\xc0\x8a", "\\xc0\\x8a");                   /* overlong newline */
    CASE("\xe0\x80\x8a", "\\xe0\\x80\\x8a");          /* longer still */
    CASE("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* surrogate */
    CASE("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond Unicode */
    CASE("\xc1\x81", "\\xc1\\x81");                   /* overlong letter */
    CASE("\xff\xfe", "\\xff\\xfe");
    CASE("\xe2\x82", "\\xe2\\x82"); /* cut off */
    CASE("\xe2(\xa1", "\\xe2(\\xa1");
#undef CASE
}

static void every_byte_pair_stays_one_printable_line(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            const char bytes[] = {(char)first, (char)second};
            char text[64];
            int complete;
            size_t length = taut__log_escape(bytes, 2, text, sizeof text, &complete);
            assert_int_equal(complete, 1);
            for (size_t i = 0; i < length; i++) {
                unsigned char byte = (unsigned char)text[i];
                assert_true(byte >= 0x20 && byte != 0x7f);
            }
        }
    }
}

static void a_small_room_never_holds_a_part_of_an_escape(void **state)
{
    (void)state;
    const char bytes[] = "a\n\x01\xc3\xa9z";
    /* Whole forms end after 1, 3, 7, 9 and 10 bytes. */
    static const size_t ends[] = {0, 1, 1, 3, 3, 3, 3, 7, 7, 9, 10};
    for (size_t room = 0; room < sizeof ends / sizeof ends[0]; room++) {
        char text[16];
        memset(text, 0x5a, sizeof text);
        int complete;
        size_t used = taut__log_escape(bytes, sizeof bytes - 1, text, room + 1, &complete);
        assert_int_equal(used, ends[room]);
        assert_int_equal(text[used], '\0');
        assert_int_equal(text[room + 1], 0x5a);
        assert_int_equal(complete, room == 10);
    }
}

static void a_peer_s_bytes_make_one_line_only(void **state)
{
    (void)state;
    char text[4096];
    struct taut_log log = {.level = TAUT_LOG_INFO, .program = "gate\n"};
    size_t length = through_pipe(&log, "x\ngate: error: forged\n", text, sizeof text);
    assert_ptr_equal(strchr(text, '\n'), text + length - 1);
    assert_string_equal(text, "gate\\n: error: x\\ngate: error: forged\\n\n");
}

static void long_lines_are_cut_at_2000_and_marked(void **state)
{
    (void)state;
    struct capture capture;
    struct taut_log log = logger_to(&capture);
    static char message[5000];
    const size_t prefix = strlen("error: ");
    for (size_t length = TAUT__LOG_LINE_MAX - prefix - 3; length < TAUT__LOG_LINE_MAX + 5;
         length++) {
        memset(message, 'x', length);
        message[length] = '\0';
        taut_log(&log, TAUT_LOG_ERROR, "%s", message);
        int fits = length + prefix <= TAUT__LOG_LINE_MAX;
        assert_int_equal(capture.length, fits ? length + prefix : TAUT__LOG_LINE_MAX);
        assert_int_equal(strcmp(capture.line + capture.length - 3, "...") == 0, !fits);
    }
    taut_log(&log, TAUT_LOG_ERROR, "a%cb", 0); /* a NUL ends the text, and that is marked */
    assert_string_equal(capture.line, "error: a...");
    /* Each byte becomes four: cut by escaping, not by formatting. */
    memset(message, 1, 1000);
    message[1000] = '\0';
    taut_log(&log, TAUT_LOG_ERROR, "%s", message);
    assert_true(capture.length <= TAUT__LOG_LINE_MAX && capture.length > TAUT__LOG_LINE_MAX - 4);
    assert_string_equal(capture.line + capture.length - 7, "\\x01...");
}

static void a_long_program_leaves_room_for_the_message(void **state)
{
    (void)state;
    struct capture capture;
    struct taut_log log = logger_to(&capture);
    static char program[4000];
    memset(program, 'p', sizeof program - 1);
    log.program = program;
    log.times = 1;
    taut_log(&log, TAUT_LOG_ERROR, "message");
    assert_true(capture.length <= TAUT__LOG_LINE_MAX);
    assert_non_null(strstr(capture.line, "p: error: message"));
}

static void errno_is_kept_and_a_bad_descriptor_is_harmless(void **state)
{
    (void)state;
    const struct taut_log log = {.fd = -1, .level = TAUT_LOG_DEBUG};
    errno = ENOTTY;
    taut_log(&log, TAUT_LOG_ERROR, "x");
    assert_int_equal(errno, ENOTTY);
    struct capture capture;
    struct taut_log to_capture = logger_to(&capture);
    errno = ENOENT;
    taut_log(&to_capture, TAUT_LOG_ERROR, "%m");
    assert_string_equal(capture.line, "error: No such file or directory");
}

static void a_full_pipe_does_not_hold_up(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    const struct taut_log log = {.fd = ends[1], .level = TAUT_LOG_DEBUG};
    for (int i = 0; i < 100; i++) /* more than any default pipe holds */
        taut_log(&log, TAUT_LOG_ERROR, "%01900d", i);
    close(ends[0]);
    close(ends[1]);
}

static void the_limit_admits_a_burst_and_counts_the_rest(void **state)
{
    (void)state;
    struct taut_log_limit limit = {.interval_ns = 1000, .burst = 3};
    uint64_t suppressed = 99;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(taut__log_admit(&limit, 5000, &suppressed), 1);
        assert_int_equal(suppressed, 0);
    }
    for (int i = 0; i < 7; i++)
        assert_int_equal(taut__log_admit(&limit, 5999, &suppressed), 0);
    assert_int_equal(limit.suppressed, 7);
    assert_int_equal(taut__log_admit(&limit, 6000, &suppressed), 1); /* exactly one interval on */
    assert_int_equal(suppressed, 7);
    assert_int_equal(limit.suppressed, 0);
    assert_int_equal(taut__log_admit(&limit, 6001, &suppressed), 1);
    assert_int_equal(suppressed, 0); /* said once */
}

static void a_zero_limit_is_five_lines_a_second(void **state)
{
    (void)state;
    struct taut_log_limit limit = {0};
    uint64_t suppressed;
    uint32_t admitted = 0;
    for (uint64_t i = 0; i < 100; i++)
        admitted += (uint32_t)taut__log_admit(&limit, 7 * TAUT_NS_PER_S + i * 9000000, &suppressed);
    assert_int_equal(admitted, 5);
    assert_int_equal(limit.suppressed, 95);
    assert_int_equal(taut__log_admit(&limit, 8 * TAUT_NS_PER_S, &suppressed), 1);
    assert_int_equal(suppressed, 95);
    /* Right after boot the clock is below one interval. */
    struct taut_log_limit early = {0};
    assert_int_equal(taut__log_admit(&early, 5, &suppressed), 1);
}

static void a_limited_line_says_what_was_held_back(void **state)
{
    (void)state;
    struct capture capture;
    struct taut_log log = logger_to(&capture);
    struct taut_log_limit limit = {.interval_ns = TAUT_NEVER_NS, .burst = 2};
    for (int i = 0; i < 14; i++)
        taut_log_limited(&log, &limit, TAUT_LOG_WARNING, "line %d", i);
    assert_int_equal(capture.calls, 2);
    assert_string_equal(capture.line, "warning: line 1");
    assert_int_equal(limit.suppressed, 12);
    limit.used = 0;
    taut_log_limited(&log, &limit, TAUT_LOG_WARNING, "line %d", 14);
    assert_string_equal(capture.line, "warning: (12 similar lines suppressed) line 14");
    assert_int_equal(limit.suppressed, 0);
    /* A line below the logger's level uses up nothing. */
    log.level = TAUT_LOG_ERROR;
    uint32_t used = limit.used;
    taut_log_limited(&log, &limit, TAUT_LOG_DEBUG, "x");
    assert_int_equal(limit.used, used);
    taut_log_limited(&log, NULL, TAUT_LOG_ERROR, "unbounded");
    assert_string_equal(capture.line, "error: unbounded");
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(taut_log_level_name(TAUT_LOG_ERROR), "error");
    assert_string_equal(taut_log_level_name(TAUT_LOG_WARNING), "warning");
    assert_string_equal(taut_log_level_name(TAUT_LOG_INFO), "info");
    assert_string_equal(taut_log_level_name(TAUT_LOG_DEBUG), "debug");
    assert_string_equal(taut_log_level_name(4), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_program_level_text_and_newline),
        cmocka_unit_test(a_callback_gets_the_line_without_newline),
        cmocka_unit_test(levels_above_the_logger_s_are_dropped),
        cmocka_unit_test(null_logs_nothing),
        cmocka_unit_test(the_time_is_utc_in_one_form),
        cmocka_unit_test(what_could_forge_is_escaped),
        cmocka_unit_test(every_byte_pair_stays_one_printable_line),
        cmocka_unit_test(a_small_room_never_holds_a_part_of_an_escape),
        cmocka_unit_test(a_peer_s_bytes_make_one_line_only),
        cmocka_unit_test(long_lines_are_cut_at_2000_and_marked),
        cmocka_unit_test(a_long_program_leaves_room_for_the_message),
        cmocka_unit_test(errno_is_kept_and_a_bad_descriptor_is_harmless),
        cmocka_unit_test(a_full_pipe_does_not_hold_up),
        cmocka_unit_test(the_limit_admits_a_burst_and_counts_the_rest),
        cmocka_unit_test(a_zero_limit_is_five_lines_a_second),
        cmocka_unit_test(a_limited_line_says_what_was_held_back),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests_name("base/log", tests, NULL, NULL);
}
