/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/options.h - the one rule for structs of options, which begin with `uint32_t size`.
 *
 * They grow at their end, and programs built with an older or a newer header go on working: size
 * is how many bytes the struct has in the caller's header. 0 stands for the layout of version 0.1,
 * so a zero-initialised struct with some fields set is right as it is. What a smaller struct lacks
 * is zero, the default. A larger one is accepted while all that this library does not know is zero;
 * an option that it would have to ignore is refused. So are sizes that no header can have had.
 *
 * Threads: any. Blocking: no. Allocation: none.
 */
#ifndef TAUT_BASE_OPTIONS_H
#define TAUT_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <taut/err.h>

/* No struct will ever have more; also how far behind its own end a call looks. */
#define TAUT__OPTIONS_SIZE_MAX 4096u

/* One struct of options. Made by TAUT__OPTIONS_KIND, which says what each number is. */
struct taut__options_kind {
    const char *what; /* begins the text of a refusal */
    uint32_t size, size_0_1, least, align;
};

/* Bytes up to the end of a member. */
#define TAUT__OPTIONS_THROUGH(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/*
 * last_0_1: the last member of version 0.1; it stays the same when members are added behind it.
 * least_member: a struct that ends before the end of this one has no use, whoever wrote its header.
 */
#define TAUT__OPTIONS_KIND(type, last_0_1, least_member, text)                                     \
    {                                                                                              \
        .what = (text), .size = sizeof(type),                                                      \
        .size_0_1 = (uint32_t)TAUT__OPTIONS_THROUGH(type, last_0_1),                               \
        .least = (uint32_t)TAUT__OPTIONS_THROUGH(type, least_member), .align = _Alignof(type)      \
    }

/* Whether a struct that was accepted has the member: 1 or 0.
 * For a struct that is used where it lies, and not copied. */
#define TAUT__OPTIONS_HAS(pointer, kind, member)                                                   \
    (taut__options_given((kind), (pointer)->size) >=                                               \
     offsetof(__typeof__(*(pointer)), member) + sizeof((pointer)->member))

/* The bytes that a struct of this size has. */
static inline uint32_t taut__options_given(const struct taut__options_kind *kind, uint32_t size)
{
    return size != 0 ? size : kind->size_0_1;
}

/*
 * Copies `given` to `whole`, a struct of this library's size; what is not given is zero, and
 * whole's size is this library's. given NULL: all zero. 0, or TAUT_EINVAL with a text, and `whole`
 * is unchanged. whole NULL: only the check. err may be NULL; success leaves it alone.
 */
int taut__options_take(const struct taut__options_kind *kind, void *whole, const void *given,
                       struct taut_err *err);

/*
 * The way back, for calls that read options: fills the caller's struct, of the size that it says,
 * from `whole`, one of this library's size. What this library does not know is zero; a size of 0
 * becomes that of version 0.1. 0, or TAUT_EINVAL: no header has this size, and nothing is written.
 */
int taut__options_give(const struct taut__options_kind *kind, void *to, const void *whole);

#endif
