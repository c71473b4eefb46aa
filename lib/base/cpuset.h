/* SPDX-License-Identifier: BSD-2-Clause */
/* base/cpuset.h - what topology and cgroup need of CPU sets beyond the public calls. */
#ifndef TAUT_BASE_CPUSET_H
#define TAUT_BASE_CPUSET_H

#include <taut/topology.h>

/*
 * taut_cpuset_parse() for lists that the kernel wrote: CPUs from TAUT_CPUS_MAX on are not an error
 * but left out, since a larger machine must not make its file unreadable.
 */
int taut__cpuset_parse_kernel(struct taut_cpuset *set, const char *list, struct taut_err *err);

#endif
