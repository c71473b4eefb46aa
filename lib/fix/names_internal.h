/* SPDX-License-Identifier: BSD-2-Clause */
/* fix/names_internal.h - the tables behind names.c. */
#ifndef TAUT_FIX_NAMES_INTERNAL_H
#define TAUT_FIX_NAMES_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

struct fix_tag_name {
    uint16_t tag;
    const char *name;
};

/* One meaning of a tag's value. */
struct fix_value_meaning {
    uint16_t tag;
    const char *value;
    const char *meaning;
};

/* In ascending order of tags. */
extern const struct fix_tag_name taut__fix_tag_names[];
extern const size_t taut__fix_tag_name_count;
extern const uint16_t taut__fix_boolean_tags[];
extern const size_t taut__fix_boolean_tag_count;
extern const struct fix_value_meaning taut__fix_value_meanings[];
extern const size_t taut__fix_value_meaning_count;

#endif
