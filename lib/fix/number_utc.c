/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FIX UTCTimestamp, from and to text: YYYYMMDD-HH:MM:SS with up to 12 digits of a second. Days are
 * counted in a calendar whose year begins in March, so that the leap day is its last.
 */
#include "number_internal.h"

#define SECONDS_A_DAY 86400u
#define WHOLE_TEXT    17u /* YYYYMMDD-HH:MM:SS */
#define DIGITS_MAX    12u

/* Days since 1970-01-01 of a date in years 0..9999. */
static int64_t days_from_date(uint32_t year, uint32_t month, uint32_t day)
{
    uint32_t y = year + 400 - (month <= 2); /* 400 years more keep year 0's January positive */
    uint32_t month_day = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t days = (int64_t)y * 365 + y / 4 - y / 100 + y / 400 + month_day;
    return days - 146097 - 719468;
}

/* Two digits at `text`, which are known to be digits. */
static uint32_t two(const uint8_t *text)
{
    return (uint32_t)(text[0] - '0') * 10 + (uint32_t)(text[1] - '0');
}

static uint32_t days_in_month(uint32_t year, uint32_t month)
{
    static const uint8_t days[13] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29u : days[month];
}

/* Are the 17 bytes digits and separators where they should be? */
static bool whole_shape(const uint8_t *text)
{
    /* Separators become digits by XOR with (separator ^ '0'), then all bytes are checked alike. */
    uint64_t date = taut__load64(text) ^ TAUT__BYTES('0');
    uint64_t time = taut__load64(text + 8) ^ 0x303a30303a30302dull;
    return !taut__not_digits(date) && !taut__not_digits(time) && text[8] == '-' &&
           text[11] == ':' && text[14] == ':' && (uint8_t)(text[16] - '0') <= 9;
}

/* The fraction's digits behind the point, scaled to picoseconds. */
static bool parse_fraction(const uint8_t *text, size_t digits, struct taut_utc *value)
{
    uint8_t padded[16];
    uint64_t high, low;
    memset(padded, '0', sizeof padded);
    memcpy(padded, text, digits);
    if (!taut__parse_digits(padded, 8, &high) || !taut__parse_digits(padded + 8, 4, &low))
        return false;
    value->nanoseconds = (uint32_t)(high * 10 + low / 1000);
    value->picoseconds = (uint32_t)(low % 1000);
    return true;
}

int taut_parse_utc(const uint8_t *text, size_t length, struct taut_utc *value)
{
    if (length < WHOLE_TEXT || !whole_shape(text))
        return TAUT_EFORMAT;
    uint32_t year = two(text) * 100 + two(text + 2), month = two(text + 4), day = two(text + 6);
    uint32_t hour = two(text + 9), minute = two(text + 12), second = two(text + 15);
    if (month - 1 > 11 || day == 0 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 60)
        return TAUT_EFORMAT;
    struct taut_utc result = {.leap = second == 60};
    if (length > WHOLE_TEXT) {
        result.digits = (uint32_t)length - WHOLE_TEXT - 1;
        if (length > WHOLE_TEXT + 1 + DIGITS_MAX || result.digits == 0 || text[17] != '.' ||
            !parse_fraction(text + 18, result.digits, &result))
            return TAUT_EFORMAT;
    }
    result.seconds =
        days_from_date(year, month, day) * SECONDS_A_DAY + hour * 3600 + minute * 60 + second;
    *value = result;
    return 0;
}

static void put_two(uint8_t *text, uint32_t value)
{
    memcpy(text, taut__digit_pairs + 2 * value, 2);
}

size_t taut_format_utc(uint8_t *text, uint64_t utc_ns, uint32_t digits)
{
    uint64_t seconds = utc_ns / 1000000000u;
    uint32_t ns = (uint32_t)(utc_ns % 1000000000u);
    uint32_t days = (uint32_t)(seconds / SECONDS_A_DAY),
             second = (uint32_t)(seconds % SECONDS_A_DAY);
    /* Every 64-bit nanosecond lies before 2554: the arithmetic of the century rule stays small. */
    uint32_t shifted = days + 719468, era = shifted / 146097, day_of_era = shifted % 146097;
    uint32_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t month = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    uint32_t year = year_of_era + era * 400 + (month <= 2);
    put_two(text, year / 100);
    put_two(text + 2, year % 100);
    put_two(text + 4, month);
    put_two(text + 6, day);
    text[8] = '-';
    put_two(text + 9, second / 3600);
    text[11] = ':';
    put_two(text + 12, second / 60 % 60);
    text[14] = ':';
    put_two(text + 15, second % 60);
    if (digits == 0)
        return WHOLE_TEXT;
    text[17] = '.';
    /* Eight digits at once and a ninth; what is behind the wanted ones is not counted. */
    taut__store64(text + 18, taut__spread_digits(ns / 10) | TAUT__BYTES('0'));
    text[26] = (uint8_t)('0' + ns % 10);
    return WHOLE_TEXT + 1 + (digits <= 3 ? 3 : digits <= 6 ? 6 : 9);
}
