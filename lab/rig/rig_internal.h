/* SPDX-License-Identifier: BSD-2-Clause */
/* rig/rig_internal.h - what the files of rig share. */
#ifndef LAB_RIG_INTERNAL_H
#define LAB_RIG_INTERNAL_H

#include "rig/rig.h"

/* Fills the notes of a placed plan. */
void rig__plan_explain(struct rig_plan *plan, const struct taut_topology *topology);

/* "unavailable: No such file or directory (errno 2)" as a new reference. `failure` may be negative.
 */
json_t *rig__unavailable(int failure);

/* Text that a machine or another process chose, as a JSON string: bytes that are no UTF-8 escaped.
 */
json_t *rig__text(const char *text);

/* A root, or its default. */
const char *rig__proc(const struct rig_roots *roots);
const char *rig__sys(const struct rig_roots *roots);

#endif
