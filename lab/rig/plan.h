/* SPDX-License-Identifier: BSD-2-Clause */
/* rig/plan.h - what the two files of the plan share. */
#ifndef LAB_RIG_PLAN_H
#define LAB_RIG_PLAN_H

#include "rig/rig.h"

/* Fills the notes of a placed plan. */
void rig__plan_explain(struct rig_plan *plan, const struct taut_topology *topology);

#endif
