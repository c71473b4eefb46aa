/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/fuzz/fuzz_raw.c - any bytes as a raw sample file.
 *
 * Properties: no crash; records lie within the file; every record is counted in one group and under
 * one status; quantiles rise and lie between the extremes. Bits of the first byte repair magic and
 * version, the header's hash and the trailer, so that what lies behind those checks is reached.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/check.h"
#include "capture/groups.h"
#include "capture/quantile.h"
#include "capture/raw.h"

static void repair(uint8_t *bytes, size_t size, uint8_t how)
{
    uint64_t hash;
    if ((how & 1) && size >= 12)
        memcpy(bytes, RAW_MAGIC "\1\0\0\0", 12);
    if ((how & 2) && size >= 4096) {
        hash = XXH3_64bits(bytes, 4088);
        memcpy(bytes + 4088, &hash, 8);
    }
    if ((how & 4) && size >= 4128) {
        uint64_t count = (size - 4128) / 32;
        uint8_t *trailer = bytes + size - 32;
        memcpy(trailer, "TAUTEND\n", 8);
        memcpy(trailer + 8, &count, 8);
        hash = XXH3_64bits(bytes + 4096, (size_t)count * 32);
        memcpy(trailer + 16, &hash, 8);
        hash = XXH3_64bits(bytes, 4096);
        memcpy(trailer + 24, &hash, 8);
    }
}

static void check_series(const struct sample_series *series)
{
    static const uint32_t ppms[] = {QUANTILE_P50, QUANTILE_P90, QUANTILE_P99};
    TAUT_CHECK(series->unanswered <= series->n);
    if (series->n == series->unanswered)
        return;
    TAUT_CHECK(series->min.ns <= series->max.ns);
    TAUT_CHECK(series->values[0] == series->min.ns);
    TAUT_CHECK(series->values[series->n - series->unanswered - 1] == series->max.ns);
    uint64_t before = series->min.ns;
    for (size_t i = 0; i < sizeof(ppms) / sizeof(ppms[0]); i++) {
        uint64_t q = quantile_of(series->values, (size_t)series->n, ppms[i]);
        if (q == QUANTILE_REFUSED)
            break;
        TAUT_CHECK(q >= before);
        before = q;
    }
}

static void check_groups(const char *path, uint32_t by, uint64_t records)
{
    struct groups *groups;
    uint64_t counted = 0;
    TAUT_CHECK(groups_create(&groups, by, 1, NULL) == 0);
    TAUT_CHECK(groups_add_file(groups, path, NULL) == 0);
    TAUT_CHECK(groups_add_file(groups, path, NULL) == TAUT_EBUSY);
    TAUT_CHECK(groups_sort(groups, NULL) == 0);
    for (uint32_t i = 0; i < groups_count(groups); i++) {
        const struct group *group = groups_at(groups, i);
        uint64_t statuses = group->damaged;
        for (int status = 0; status <= RAW_UNSENT; status++)
            statuses += group->by_status[status];
        TAUT_CHECK(statuses == group->records);
        counted += group->records;
        for (int time = 0; time < TIME_KINDS; time++)
            check_series(&group->series[time]);
    }
    TAUT_CHECK(counted == records);
    groups_destroy(groups);
}

static void check_file(const char *path, size_t size)
{
    struct raw_reader *reader;
    struct taut_err err = {0};
    uint64_t count;
    int code = raw_reader_open(&reader, path, &err);
    if (code != 0) {
        TAUT_CHECK(code == err.code && err.text[0]);
        return;
    }
    int damage = raw_reader_damage(reader, &err);
    const struct raw_info *info = raw_reader_info(reader);
    const struct raw_record *records = raw_reader_records(reader, 0, &count);
    TAUT_CHECK(count == info->records && count <= (size - 4096) / 32);
    TAUT_CHECK((records == NULL) == (count == 0));
    TAUT_CHECK((damage == 0) == (info->complete == 1));
    TAUT_CHECK(strlen(info->recipe) <= 3900);
    raw_reader_close(reader);
    for (uint32_t by = GROUPS_BY_RUN; by <= GROUPS_BY_SESSION; by++)
        check_groups(path, by, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    if (size < 1)
        return 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    uint8_t *bytes = malloc(size);
    TAUT_CHECK(fd >= 0 && bytes);
    memcpy(bytes, data + 1, size - 1);
    repair(bytes, size - 1, data[0]);
    TAUT_CHECK(write(fd, bytes, size - 1) == (ssize_t)(size - 1));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    check_file(path, size - 1);
    free(bytes);
    close(fd);
    return 0;
}
