/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_scan - what scanning, encoding and number parsing cost.
 *
 *   bench_scan [ROUNDS]           a table: ns an operation, median and least of interleaved rounds
 *   bench_scan --once SUBJECT N   N operations and no clock, for callgrind; SUBJECT is a scan
 *                                 variant or "encode"
 *
 * "one" scans the same message again and again, which the branch predictor learns by heart; "many"
 * goes round 1024 reports of the same size whose fields lie elsewhere in each; "mixed" goes round
 * messages of several types. "chained" can't begin a scan before the last one ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <taut/number.h>

#include "codec.h"

#define MANY       1024u
#define OPERATIONS (16u * MANY) /* a round of one arm: a millisecond or so */
#define ARMS_MAX   40u
#define ROUNDS_MAX 1000u

struct arm {
    char name[40];
    uint64_t (*run)(struct codec *c, uint32_t count);
    const struct messages *messages;
    taut_scan_function *scan;
    double *ns; /* one figure a round */
};

static struct arm arms[ARMS_MAX];
static uint32_t arm_count;
static volatile uint64_t sink;

static uint64_t run_scan(struct codec *c, uint32_t count)
{
    return codec_scan(c, count, false);
}

static uint64_t run_chained(struct codec *c, uint32_t count)
{
    return codec_scan(c, count, true);
}

static uint64_t run_parse_u64(struct codec *c, uint32_t count)
{
    static const char *const texts[] = {"7", "42", "1000", "1234567", "12345678901", "250"};
    uint64_t sum = 0;
    (void)c;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = texts[i % 6];
        uint64_t value = 0;
        sum += (uint64_t)taut_parse_u64((const uint8_t *)text, strlen(text), &value) + value;
    }
    return sum;
}

static uint64_t run_parse_decimal(struct codec *c, uint32_t count)
{
    static const char *const texts[] = {"1.08005", "100", "-3.5", "12345.6789", ".25", "250.00"};
    uint64_t sum = 0;
    (void)c;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = texts[i % 6];
        struct taut_decimal value = {0};
        sum += (uint64_t)taut_parse_decimal((const uint8_t *)text, strlen(text), &value);
        sum += (uint64_t)value.mantissa + value.scale;
    }
    return sum;
}

static uint64_t run_parse_utc(struct codec *c, uint32_t count)
{
    static const uint8_t text[] = "20261201-23:59:58.123456";
    uint64_t sum = 0;
    (void)c;
    for (uint32_t i = 0; i < count; i++) {
        struct taut_utc value = {0};
        sum += (uint64_t)taut_parse_utc(text, i % 2 ? 24 : 21, &value);
        sum += (uint64_t)value.seconds + value.nanoseconds;
    }
    return sum;
}

static uint64_t run_format_utc(struct codec *c, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += taut_format_utc(c->buffer, 1700000000000000000u + i * 104729ull, 6);
        sum += c->buffer[23];
    }
    return sum;
}

static void add_arm(const char *name, const char *set, uint64_t (*run)(struct codec *, uint32_t),
                    const struct messages *messages, taut_scan_function *scan)
{
    struct arm *arm = &arms[arm_count++];
    snprintf(arm->name, sizeof arm->name, "%s%s%s", name, *set ? " " : "", set);
    arm->run = run;
    arm->messages = messages;
    arm->scan = scan;
    arm->ns = calloc(ROUNDS_MAX, sizeof *arm->ns);
    if (!arm->ns)
        abort();
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run_round(struct codec *c, struct arm *arm, uint32_t round)
{
    codec_init(c, arm->messages, arm->scan);
    sink += arm->run(c, MANY); /* the arm before has used the caches */
    uint64_t begin_ns = now_ns();
    sink += arm->run(c, OPERATIONS);
    arm->ns[round] = (double)(now_ns() - begin_ns) / OPERATIONS;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_table(uint32_t rounds)
{
    printf("%-24s %10s %10s %10s\n", "ns an operation", "median", "least", "greatest");
    for (uint32_t i = 0; i < arm_count; i++) {
        qsort(arms[i].ns, rounds, sizeof(double), by_value);
        printf("%-24s %10.1f %10.1f %10.1f\n", arms[i].name, arms[i].ns[rounds / 2], arms[i].ns[0],
               arms[i].ns[rounds - 1]);
    }
}

static int once(const char *subject, const char *times)
{
    static struct codec c;
    struct messages many = messages_reports(64);
    char *end;
    unsigned long count = strtoul(times, &end, 10);
    if (*end || count == 0 || count > 100000000) {
        fprintf(stderr, "bench_scan: '%s' is no count\n", times);
        return 2;
    }
    for (uint32_t variant = TAUT_SCAN_AUTO; variant <= TAUT_SCAN_AVX512; variant++) {
        if (strcmp(subject, taut_scan_name(variant)) != 0)
            continue;
        codec_init(&c, &many, taut_scan_select(variant));
        if (!c.scan) {
            fprintf(stderr, "bench_scan: no %s here\n", subject);
            return 77;
        }
        sink = codec_scan(&c, (uint32_t)count, false);
        return 0;
    }
    if (strcmp(subject, "encode") != 0) {
        fprintf(stderr, "bench_scan: unknown subject '%s'\n", subject);
        return 2;
    }
    codec_init(&c, &many, NULL);
    sink = codec_encode(&c, (uint32_t)count);
    return 0;
}

int main(int argc, char **argv)
{
    static struct codec c;
    if (argc == 4 && strcmp(argv[1], "--once") == 0)
        return once(argv[2], argv[3]);
    int rounds = argc == 2 ? atoi(argv[1]) : 101;
    if (argc > 2 || rounds < 1 || rounds > (int)ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_scan [ROUNDS] | --once SUBJECT N\n");
        return 2;
    }
    struct messages one = messages_reports(1), many = messages_reports(MANY);
    struct messages mixed = messages_mixed(MANY);
    for (uint32_t variant = TAUT_SCAN_SCALAR; variant <= TAUT_SCAN_AVX512; variant++) {
        taut_scan_function *scan = taut_scan_select(variant);
        if (!scan)
            continue;
        add_arm(taut_scan_name(variant), "one", run_scan, &one, scan);
        add_arm(taut_scan_name(variant), "many", run_scan, &many, scan);
        add_arm(taut_scan_name(variant), "many chained", run_chained, &many, scan);
        add_arm(taut_scan_name(variant), "mixed", run_scan, &mixed, scan);
    }
    taut_scan_function *best = taut_scan_select(TAUT_SCAN_AUTO);
    add_arm("frame and scan", "many", codec_frame_and_scan, &many, best);
    add_arm("encode 212 bytes", "", codec_encode, &many, best);
    add_arm("parse u64", "", run_parse_u64, &many, best);
    add_arm("parse decimal", "", run_parse_decimal, &many, best);
    add_arm("parse utc", "", run_parse_utc, &many, best);
    add_arm("format utc", "", run_format_utc, &many, best);
    printf("%u reports of %u bytes and %u fields; mixed: %.1f bytes and %.1f fields; "
           "%d rounds of %u\n",
           MANY, REPORT_BYTES, REPORT_FIELDS, (double)mixed.total_bytes / mixed.count,
           (double)mixed.total_fields / mixed.count, rounds, OPERATIONS);
    for (uint32_t round = 0; round < (uint32_t)rounds; round++)
        for (uint32_t i = 0; i < arm_count; i++)
            run_round(&c, &arms[round % 2 ? arm_count - 1 - i : i], round);
    print_table((uint32_t)rounds);
    for (uint32_t i = 0; i < arm_count; i++)
        free(arms[i].ns);
    messages_free(&one);
    messages_free(&many);
    messages_free(&mixed);
    return 0;
}
