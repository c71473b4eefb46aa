/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FIX integers and decimals, from and to text. Digits are read eight at a time with loads that stay
 * inside the text, and written two at a time.
 */
#include "number_internal.h"

const char taut__digit_pairs[201] = "00010203040506070809101112131415161718192021222324252627282930"
                                    "31323334353637383940414243444546474849505152535455565758596061"
                                    "62636465666768697071727374757677787980818283848586878889909192"
                                    "93949596979899";

static const uint64_t powers_of_ten[20] = {
    1ull,
    10ull,
    100ull,
    1000ull,
    10000ull,
    100000ull,
    1000000ull,
    10000000ull,
    100000000ull,
    1000000000ull,
    10000000000ull,
    100000000000ull,
    1000000000000ull,
    10000000000000ull,
    100000000000000ull,
    1000000000000000ull,
    10000000000000000ull,
    100000000000000000ull,
    1000000000000000000ull,
    10000000000000000000ull,
};

/* Any number of digits, with the overflow check that up to 16 digits do not need. */
static int parse_long(const uint8_t *text, size_t length, uint64_t *value)
{
    uint64_t result = 0;
    bool overflow = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return TAUT_EFORMAT; /* what is no number at all is not "too large" */
        overflow |= __builtin_mul_overflow(result, 10, &result);
        overflow |= __builtin_add_overflow(result, (uint64_t)(text[i] - '0'), &result);
    }
    *value = result;
    return overflow ? TAUT_EOVERFLOW : 0;
}

int taut_parse_u64(const uint8_t *text, size_t length, uint64_t *value)
{
    uint64_t result;
    int code = TAUT_EFORMAT;
    if (length - 1 < 8) {
        if (!taut__parse_digits(text, length, &result))
            return TAUT_EFORMAT;
    } else if (length - 1 < 16) {
        uint64_t high;
        if (!taut__parse_digits(text, length - 8, &high) ||
            !taut__parse_digits(text + length - 8, 8, &result))
            return TAUT_EFORMAT;
        result += high * 100000000u;
    } else if (length == 0 || (code = parse_long(text, length, &result)) != 0) {
        return code;
    }
    *value = result;
    return 0;
}

int taut_parse_i64(const uint8_t *text, size_t length, int64_t *value)
{
    bool negative = length > 0 && text[0] == '-';
    uint64_t magnitude;
    int code = taut_parse_u64(text + negative, length - negative, &magnitude);
    if (code)
        return code;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return TAUT_EOVERFLOW;
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 0;
}

/* The digits on both sides of a point as one number. Either side may be empty, not both. */
static int parse_sides(const uint8_t *text, size_t whole, size_t fraction, uint64_t *value)
{
    uint64_t left = 0, right = 0;
    int code = whole ? taut_parse_u64(text, whole, &left) : 0;
    int right_code = fraction ? taut_parse_u64(text + whole + 1, fraction, &right) : 0;
    if (whole + fraction == 0 || code == TAUT_EFORMAT || right_code == TAUT_EFORMAT)
        return TAUT_EFORMAT;
    if (code || right_code || fraction > 18)
        return TAUT_EOVERFLOW;
    if (__builtin_mul_overflow(left, powers_of_ten[fraction], &left) ||
        __builtin_add_overflow(left, right, value))
        return TAUT_EOVERFLOW;
    return 0;
}

int taut_parse_decimal(const uint8_t *text, size_t length, struct taut_decimal *value)
{
    bool negative = length > 0 && text[0] == '-';
    text += negative;
    length -= negative;
    const uint8_t *point = length ? memchr(text, '.', length) : NULL;
    size_t whole = point ? (size_t)(point - text) : length;
    size_t fraction = point ? length - whole - 1 : 0;
    uint64_t magnitude;
    int code = parse_sides(text, whole, fraction, &magnitude);
    if (code)
        return code;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return TAUT_EOVERFLOW;
    value->mantissa = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    value->scale = (uint32_t)fraction;
    return 0;
}

size_t taut_format_u64(uint8_t *text, uint64_t value)
{
    size_t at = 0;
    if (TAUT__UNLIKELY(value >= 100000000)) {
        at = taut_format_u64(text, value / 100000000);
        taut__store64(text + at,
                      taut__spread_digits((uint32_t)(value % 100000000)) | TAUT__BYTES('0'));
        return at + 8;
    }
    uint64_t digits = taut__spread_digits((uint32_t)value);
    /* Leading zeros are zero bytes at the low end; the last digit stays, be it zero or not. */
    uint32_t leading = (uint32_t)__builtin_ctzll(digits | 1ull << 56) / 8;
    taut__store64(text, (digits | TAUT__BYTES('0')) >> (8 * leading));
    return 8 - leading;
}

static size_t format_magnitude(uint8_t *text, int64_t value, uint64_t *magnitude)
{
    *magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0)
        *text = '-';
    return value < 0;
}

size_t taut_format_i64(uint8_t *text, int64_t value)
{
    uint64_t magnitude;
    size_t sign = format_magnitude(text, value, &magnitude);
    return sign + taut_format_u64(text + sign, magnitude);
}

size_t taut_format_decimal(uint8_t *text, struct taut_decimal value)
{
    uint64_t magnitude;
    size_t at = format_magnitude(text, value.mantissa, &magnitude);
    uint32_t scale = value.scale < 18 ? value.scale : 18;
    if (scale == 0)
        return at + taut_format_u64(text + at, magnitude);
    uint8_t digits[TAUT_DECIMAL_TEXT_MAX];
    uint32_t count = (uint32_t)taut_format_u64(digits, magnitude);
    if (TAUT__UNLIKELY(count <= scale)) { /* 0.0012 */
        memcpy(text + at, "0.", 2);
        taut__write_digits(text + at + 2, magnitude, scale);
        return at + 2 + scale;
    }
    /* Copies of a constant size: at most 18 digits on either side, where 1 + 18 + 1 + 18 fit. */
    uint32_t whole = count - scale;
    memcpy(text + at, digits, 18);
    text[at + whole] = '.';
    memcpy(text + at + whole + 1, digits + whole, 18);
    return at + count + 1;
}

/* Same scale for both: the smaller one times a power of ten, exact in 128 bits. */
static void align(struct taut_decimal a, struct taut_decimal b, __int128 *x, __int128 *y,
                  uint32_t *scale)
{
    uint32_t up_a = b.scale > a.scale ? b.scale - a.scale : 0;
    uint32_t up_b = a.scale > b.scale ? a.scale - b.scale : 0;
    *x = (__int128)a.mantissa * (__int128)powers_of_ten[up_a < 19 ? up_a : 19];
    *y = (__int128)b.mantissa * (__int128)powers_of_ten[up_b < 19 ? up_b : 19];
    *scale = a.scale > b.scale ? a.scale : b.scale;
}

int taut_decimal_compare(struct taut_decimal a, struct taut_decimal b)
{
    __int128 x, y;
    uint32_t scale;
    align(a, b, &x, &y, &scale);
    return (x > y) - (x < y);
}

/* An exact result of whatever size, with trailing zeros dropped only where it would not fit. */
static int narrow(__int128 mantissa, uint32_t scale, struct taut_decimal *result)
{
    while ((scale > 18 || mantissa > INT64_MAX || mantissa < INT64_MIN) && scale > 0 &&
           mantissa % 10 == 0) {
        mantissa /= 10;
        scale--;
    }
    if (scale > 18 || mantissa > INT64_MAX || mantissa < INT64_MIN)
        return TAUT_EOVERFLOW;
    *result = (struct taut_decimal){.mantissa = (int64_t)mantissa, .scale = scale};
    return 0;
}

int taut_decimal_add(struct taut_decimal a, struct taut_decimal b, struct taut_decimal *sum)
{
    __int128 x, y;
    uint32_t scale;
    if (a.scale > 18 || b.scale > 18)
        return TAUT_EINVAL;
    align(a, b, &x, &y, &scale);
    return narrow(x + y, scale, sum);
}

int taut_decimal_multiply(struct taut_decimal a, struct taut_decimal b,
                          struct taut_decimal *product)
{
    if (a.scale > 18 || b.scale > 18)
        return TAUT_EINVAL;
    return narrow((__int128)a.mantissa * b.mantissa, a.scale + b.scale, product);
}
