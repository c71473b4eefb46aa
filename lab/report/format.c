/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report/format.c - durations, counts, rates, bytes and times as text.
 *
 * Integers throughout: a figure never passes through a double, so that what is printed is the
 * rounding of what was measured, the same on every machine.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "report/table.h"

#define NS_PER_S UINT64_C(1000000000)

const char *format_count(char *buffer, uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    char *to = buffer;
    for (int i = 0; i < length; i++) {
        *to++ = digits[i];
        if (i + 1 < length && (length - 1 - i) % 3 == 0)
            *to++ = ',';
    }
    *to = '\0';
    return buffer;
}

/* value / unit with `decimals` digits behind the point, rounded half up. */
static uint64_t scaled(uint64_t value, uint64_t unit, uint32_t decimals)
{
    uint64_t step = unit;
    for (uint32_t i = 0; i < decimals; i++)
        step /= 10;
    return value / step + (value % step >= step - step / 2);
}

/* Four significant digits of value / unit, where unit is a power of 1,000 and value >= unit.
 * Returns 0 when that would need more than three digits before the point. */
static int four_digits(char *buffer, uint64_t value, uint64_t unit, const char *name)
{
    for (uint32_t decimals = 3;; decimals--) {
        uint64_t power = decimals == 3 ? 1000 : decimals == 2 ? 100 : 10;
        uint64_t number = scaled(value, unit, decimals);
        if (number < 10000) {
            snprintf(buffer, FORMAT_BYTES, "%" PRIu64 ".%0*" PRIu64 " %s", number / power,
                     (int)decimals, number % power, name);
            return 1;
        }
        if (decimals == 1)
            return 0;
    }
}

const char *format_duration(char *buffer, uint64_t ns)
{
    if (ns == FORMAT_INF_NS)
        return strcpy(buffer, "inf");
    if (ns == FORMAT_NO_NS)
        return strcpy(buffer, "-");
    if (ns < 1000) {
        snprintf(buffer, FORMAT_BYTES, "%" PRIu64 " ns", ns);
        return buffer;
    }
    if (ns < 1000000 && four_digits(buffer, ns, 1000, "us"))
        return buffer;
    if (ns < NS_PER_S && four_digits(buffer, ns < 1000000 ? 1000000 : ns, 1000000, "ms"))
        return buffer;
    if (four_digits(buffer, ns < NS_PER_S ? NS_PER_S : ns, NS_PER_S, "s"))
        return buffer;
    format_count(buffer, scaled(ns, NS_PER_S, 0));
    return strcat(buffer, " s");
}

const char *format_rate(char *buffer, uint64_t count, uint64_t duration_ns)
{
    __extension__ typedef unsigned __int128 wide;
    if (duration_ns == 0)
        return strcpy(buffer, "-");
    wide tenths = ((wide)count * 10 * NS_PER_S + duration_ns / 2) / duration_ns;
    if (tenths < 1000) {
        snprintf(buffer, FORMAT_BYTES, "%" PRIu64 ".%" PRIu64 "/s", (uint64_t)tenths / 10,
                 (uint64_t)tenths % 10);
        return buffer;
    }
    wide whole = ((wide)count * NS_PER_S + duration_ns / 2) / duration_ns;
    format_count(buffer, whole > UINT64_MAX ? UINT64_MAX : (uint64_t)whole);
    return strcat(buffer, "/s");
}

const char *format_percent(char *buffer, uint64_t part, uint64_t whole)
{
    __extension__ typedef unsigned __int128 wide;
    if (whole == 0)
        return strcpy(buffer, "-");
    wide tenths = ((wide)part * 1000 + whole / 2) / whole;
    snprintf(buffer, FORMAT_BYTES, "%" PRIu64 ".%" PRIu64 " %%", (uint64_t)(tenths / 10),
             (uint64_t)(tenths % 10));
    return buffer;
}

const char *format_bytes(char *buffer, uint64_t bytes)
{
    static const char *const names[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    uint64_t unit = 1000;
    if (bytes < 10000) {
        format_count(buffer, bytes);
        return strcat(buffer, " B");
    }
    uint32_t i = 0;
    while (i < 5 && scaled(bytes, unit, 1) >= 10000) {
        unit *= 1000;
        i++;
    }
    uint64_t tenths = scaled(bytes, unit, 1);
    snprintf(buffer, FORMAT_BYTES, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10,
             names[i]);
    return buffer;
}

const char *format_utc(char *buffer, uint64_t utc_ns)
{
    time_t seconds = (time_t)(utc_ns / NS_PER_S);
    struct tm parts;
    if (utc_ns == 0 || !gmtime_r(&seconds, &parts))
        return strcpy(buffer, "-");
    size_t length = strftime(buffer, FORMAT_BYTES - 11, "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(buffer + length, FORMAT_BYTES - length, ".%09" PRIu64, utc_ns % NS_PER_S);
    return buffer;
}
