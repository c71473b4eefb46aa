/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/cpuset.c - sets of CPU numbers, their list format, and the mask of the calling thread.
 */
#include "base/cpuset.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most CPUs that a kernel is built for is 8,192 on x86; ten times that is certainly nonsense.
 */
#define NUMBER_LIMIT 131072u

int taut_cpuset_add(struct taut_cpuset *set, uint32_t cpu)
{
    if (cpu >= TAUT_CPUS_MAX)
        return TAUT_EINVAL;
    set->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    return TAUT_OK;
}

int taut_cpuset_has(const struct taut_cpuset *set, uint32_t cpu)
{
    return cpu < TAUT_CPUS_MAX && (set->bits[cpu / 64] >> (cpu % 64) & 1) != 0;
}

uint32_t taut_cpuset_count(const struct taut_cpuset *set)
{
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof set->bits / sizeof set->bits[0]; i++)
        count += (uint32_t)__builtin_popcountll(set->bits[i]);
    return count;
}

uint32_t taut_cpuset_nth(const struct taut_cpuset *set, uint32_t n)
{
    for (uint32_t i = 0; i < sizeof set->bits / sizeof set->bits[0]; i++) {
        uint64_t word = set->bits[i];
        uint32_t count = (uint32_t)__builtin_popcountll(word);
        if (n >= count) {
            n -= count;
            continue;
        }
        for (; n > 0; n--)
            word &= word - 1;
        return i * 64 + (uint32_t)__builtin_ctzll(word);
    }
    return TAUT_CPUS_MAX;
}

/* Reads digits at *position; -1: there are none, or the number is above the limit. */
static int64_t parse_number(const char **position)
{
    const char *digit = *position;
    uint32_t value = 0;
    if (*digit < '0' || *digit > '9')
        return -1;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        value = value * 10 + (uint32_t)(*digit - '0');
        if (value > NUMBER_LIMIT)
            return -1;
    }
    *position = digit;
    return value;
}

/* The list up to the next comma, for a message. */
static int bad_part(struct taut_err *err, const char *part, const char *why)
{
    size_t length = strcspn(part, ",\n");
    return taut_err_set(err, TAUT_EFORMAT, "CPU list: '%.*s%s': %s",
                        (int)(length > 40 ? 40 : length), part, length > 40 ? "..." : "", why);
}

static int parse_list(struct taut_cpuset *set, const char *list, uint32_t limit,
                      struct taut_err *err)
{
    struct taut_cpuset found = {{0}};
    const char *position = list;
    /* The kernel writes an empty set as an empty line. */
    int done = *position == '\0' || strcmp(position, "\n") == 0;
    while (!done) {
        const char *part = position;
        int64_t first = parse_number(&position);
        int64_t last = first;
        if (first >= 0 && *position == '-') {
            position++;
            last = parse_number(&position);
        }
        if (first < 0 || last < 0)
            return bad_part(err, part, "not a CPU number or range");
        if (last < first)
            return bad_part(err, part, "the range ends before it begins");
        done = *position == '\0' || strcmp(position, "\n") == 0;
        if (!done && *position != ',')
            return bad_part(err, part, "a comma must follow a CPU number or range");
        if (last >= limit)
            return bad_part(err, part, "CPU numbers go up to 1023");
        for (int64_t cpu = first; cpu <= last && cpu < TAUT_CPUS_MAX; cpu++)
            taut_cpuset_add(&found, (uint32_t)cpu);
        position++;
    }
    *set = found;
    return TAUT_OK;
}

int taut_cpuset_parse(struct taut_cpuset *set, const char *list, struct taut_err *err)
{
    if (set == NULL || list == NULL)
        return taut_err_set(err, TAUT_EINVAL, "no CPU list");
    return parse_list(set, list, TAUT_CPUS_MAX, err);
}

int taut__cpuset_parse_kernel(struct taut_cpuset *set, const char *list, struct taut_err *err)
{
    return parse_list(set, list, UINT32_MAX, err);
}

size_t taut_cpuset_format(const struct taut_cpuset *set, char *text, size_t capacity)
{
    size_t length = 0;
    if (capacity > 0)
        text[0] = '\0';
    for (uint32_t cpu = 0; cpu < TAUT_CPUS_MAX; cpu++) {
        if (!taut_cpuset_has(set, cpu))
            continue;
        uint32_t last = cpu;
        while (taut_cpuset_has(set, last + 1))
            last++;
        char part[32];
        int size = last > cpu
                       ? snprintf(part, sizeof part, "%s%u-%u", length > 0 ? "," : "", cpu, last)
                       : snprintf(part, sizeof part, "%s%u", length > 0 ? "," : "", cpu);
        /* Cut like snprintf: what fits is there, and the result says how much is wanted. */
        if (length < capacity)
            snprintf(text + length, capacity - length, "%s", part);
        length += (size_t)size;
        cpu = last;
    }
    return length;
}

/*
 * The kernel refuses a buffer smaller than its own mask, whose size it does not tell: double until
 * it fits.
 */
int taut_cpuset_of_self(struct taut_cpuset *set)
{
    if (set == NULL)
        return TAUT_EINVAL;
    for (size_t count = TAUT_CPUS_MAX; count <= NUMBER_LIMIT; count *= 2) {
        cpu_set_t *mask = CPU_ALLOC(count);
        if (mask == NULL)
            return TAUT_ENOMEM;
        size_t size = CPU_ALLOC_SIZE(count);
        CPU_ZERO_S(size, mask);
        int failure = sched_getaffinity(0, size, mask) < 0 ? errno : 0;
        if (failure == 0) {
            *set = (struct taut_cpuset){{0}};
            for (uint32_t cpu = 0; cpu < TAUT_CPUS_MAX; cpu++) {
                if (CPU_ISSET_S(cpu, size, mask))
                    taut_cpuset_add(set, cpu);
            }
        }
        CPU_FREE(mask);
        if (failure != EINVAL)
            return failure == 0 ? TAUT_OK : taut_code_from_errno(failure);
    }
    return TAUT_EOVERFLOW;
}

int taut_cpuset_bind_self(const struct taut_cpuset *set, struct taut_err *err)
{
    if (set == NULL || taut_cpuset_count(set) == 0)
        return taut_err_set(err, TAUT_EINVAL, "no CPU to bind to");
    char wanted[128], got[128];
    taut_cpuset_format(set, wanted, sizeof wanted);
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (uint32_t cpu = 0; cpu < TAUT_CPUS_MAX && cpu < CPU_SETSIZE; cpu++) {
        if (taut_cpuset_has(set, cpu))
            CPU_SET(cpu, &mask);
    }
    if (sched_setaffinity(0, sizeof mask, &mask) < 0) {
        int failure = errno;
        return taut_err_set(err, taut_code_from_errno(failure), "can't bind to CPU %s: %s", wanted,
                            failure == EINVAL ? "not there, or not in this process's cpuset"
                                              : strerror(failure));
    }
    struct taut_cpuset after;
    int code = taut_cpuset_of_self(&after);
    if (code < 0)
        return taut_err_set(err, code, "bound to CPU %s, but the mask can't be read back", wanted);
    if (memcmp(&after, set, sizeof after) != 0) {
        taut_cpuset_format(&after, got, sizeof got);
        return taut_err_set(err, TAUT_ESTATE, "bound to CPU %s, but the mask read back is %s",
                            wanted, got);
    }
    return TAUT_OK;
}

int taut_cpu_bind_self(uint32_t cpu, struct taut_err *err)
{
    struct taut_cpuset set = {{0}};
    if (taut_cpuset_add(&set, cpu) < 0)
        return taut_err_set(err, TAUT_EINVAL, "CPU %u: numbers go up to %u", cpu,
                            TAUT_CPUS_MAX - 1);
    return taut_cpuset_bind_self(&set, err);
}

int taut_cpu_current(void)
{
    int cpu = sched_getcpu();
    return cpu >= 0 ? cpu : taut_code_from_errno(errno);
}
