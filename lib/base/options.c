/* SPDX-License-Identifier: BSD-2-Clause */
/* base/options.c - structs of options from callers with older and newer headers. */
#include "base/options.h"

#include <string.h>

#include "base/check.h"

/* The first byte from `from` on that is not zero, or `to`. */
static uint32_t first_set(const uint8_t *bytes, uint32_t from, uint32_t to)
{
    while (from < to && bytes[from] == 0)
        from++;
    return from;
}

/* Headers pad a struct to its alignment: another size is none, and would cut a member. */
static int is_size(const struct taut__options_kind *kind, uint32_t size)
{
    return size >= kind->least && size <= TAUT__OPTIONS_SIZE_MAX && size % kind->align == 0;
}

static int check(const struct taut__options_kind *kind, const uint8_t *bytes, uint32_t size,
                 struct taut_err *err)
{
    if (!is_size(kind, size))
        return taut_err_set(err, TAUT_EINVAL, "%s: size is %u, which no version of it has; now %u",
                            kind->what, size, kind->size);
    uint32_t set = first_set(bytes, kind->size, size);
    if (set < size)
        return taut_err_set(err, TAUT_EINVAL,
                            "%s: size is %u, of which this library knows %u, and byte %u is not 0: "
                            "an option that it does not have",
                            kind->what, size, kind->size, set);
    return 0;
}

int taut__options_take(const struct taut__options_kind *kind, void *whole, const void *given,
                       struct taut_err *err)
{
    TAUT_CHECK(kind->least <= kind->size_0_1 && kind->size_0_1 <= kind->size &&
               kind->size <= TAUT__OPTIONS_SIZE_MAX);
    uint32_t size = 0, bytes = 0;
    if (given != NULL) {
        memcpy(&size, given, sizeof size);
        bytes = taut__options_given(kind, size);
        int code = size != 0 ? check(kind, given, size, err) : 0;
        if (code != 0)
            return code;
    }
    if (whole == NULL)
        return 0;
    if (bytes > kind->size)
        bytes = kind->size;
    if (bytes > 0)
        memcpy(whole, given, bytes);
    memset((uint8_t *)whole + bytes, 0, kind->size - bytes);
    memcpy(whole, &kind->size, sizeof kind->size);
    return 0;
}

int taut__options_give(const struct taut__options_kind *kind, void *to, const void *whole)
{
    uint32_t size;
    memcpy(&size, to, sizeof size);
    size = taut__options_given(kind, size);
    if (!is_size(kind, size))
        return TAUT_EINVAL;
    uint32_t known = size < kind->size ? size : kind->size;
    memcpy(to, whole, known);
    memset((uint8_t *)to + known, 0, size - known);
    memcpy(to, &size, sizeof size);
    return 0;
}
