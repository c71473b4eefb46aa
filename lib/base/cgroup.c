/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/cgroup.c - membership from <proc>/thread-self/cgroup (cgroups(7)), limits from the files of
 * the group and of every group above it.
 *
 * v1: cpu.cfs_quota_us and cpu.cfs_period_us, cpuset.effective_cpus or cpuset.cpus.
 * v2: cpu.max ("max 100000" or "50000 100000"), cpuset.cpus.effective.
 */
#include "base/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cpuset.h"
#include "base/file.h"

/* One line per hierarchy: there are about a dozen, each with one path. */
#define MEMBERSHIP_LIMIT (256u * 1024u)

static int is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

/* Joins two texts; -ENAMETOOLONG where they do not fit. */
static int join(char *path, size_t capacity, const char *head, const char *tail)
{
    int length = snprintf(path, capacity, "%s%s", head, tail);
    return length >= 0 && (size_t)length < capacity ? 0 : -ENAMETOOLONG;
}

int taut__cgroup_path(const struct taut__cgroup *cgroup, const char *file, char *path,
                      size_t capacity)
{
    int length = snprintf(path, capacity, "%s%s/%s", cgroup->mount, cgroup->group, file);
    return length >= 0 && (size_t)length < capacity ? 0 : -ENAMETOOLONG;
}

int taut__cgroup_up(struct taut__cgroup *cgroup)
{
    char *slash = strrchr(cgroup->group, '/');
    if (slash == NULL)
        return 0;
    *slash = '\0';
    return 1;
}

/* Whether `name` is one of the comma-separated `names`. */
static int names_contain(const char *names, size_t length, const char *name)
{
    size_t name_length = strlen(name);
    for (size_t start = 0; start < length;) {
        size_t size = strcspn(names + start, ",");
        if (size > length - start)
            size = length - start;
        if (size == name_length && memcmp(names + start, name, size) == 0)
            return 1;
        start += size + 1;
    }
    return 0;
}

/* Whether a component of the path is "..": a group outside of our cgroup namespace. */
static int leads_out(const char *group)
{
    for (const char *part = group; part != NULL; part = strchr(part + 1, '/')) {
        if (strncmp(part, "/..", 3) == 0 && (part[3] == '/' || part[3] == '\0'))
            return 1;
    }
    return 0;
}

/* The mount of a v1 hierarchy: named after all of its controllers, or linked under each name. */
static int find_mount_v1(struct taut__cgroup *cgroup, const char *root, const char *names,
                         size_t length, const char *controller)
{
    char candidate[PATH_MAX];
    int size = snprintf(candidate, sizeof candidate, "%s/%.*s", root, (int)length, names);
    if (size < 0 || (size_t)size >= sizeof candidate || !is_directory(candidate))
        size = snprintf(candidate, sizeof candidate, "%s/%s", root, controller);
    if (size < 0 || (size_t)size >= sizeof candidate)
        return -ENAMETOOLONG;
    cgroup->version = 1;
    return join(cgroup->mount, sizeof cgroup->mount, candidate, "");
}

/* v2 is at the root itself, or beside v1 hierarchies under the name "unified". */
static int find_mount_v2(struct taut__cgroup *cgroup, const char *root)
{
    char candidate[PATH_MAX];
    cgroup->version = 2;
    if (join(candidate, sizeof candidate, root, "/unified/cgroup.procs") == 0 && exists(candidate))
        return join(cgroup->mount, sizeof cgroup->mount, root, "/unified");
    return join(cgroup->mount, sizeof cgroup->mount, root, "");
}

static int set_group(struct taut__cgroup *cgroup, const char *group, size_t length)
{
    if (length >= sizeof cgroup->group)
        return -ENAMETOOLONG;
    memcpy(cgroup->group, group, length);
    cgroup->group[length] = '\0';
    while (length > 0 && cgroup->group[length - 1] == '/')
        cgroup->group[--length] = '\0';
    if (cgroup->group[0] != '/' || leads_out(cgroup->group))
        cgroup->group[0] = '\0';
    for (;;) {
        char path[2 * PATH_MAX];
        if (taut__cgroup_path(cgroup, "", path, sizeof path) == 0 && is_directory(path))
            return 0;
        if (!taut__cgroup_up(cgroup))
            return 0;
    }
}

/* One line "id:controllers:path" (without its newline). 1 = it is the controller's. */
static int take_line(struct taut__cgroup *cgroup, const char *line, size_t length,
                     const char *controller, const char *root, int version)
{
    const char *names = memchr(line, ':', length);
    if (names == NULL)
        return 0;
    names++;
    const char *group = memchr(names, ':', length - (size_t)(names - line));
    if (group == NULL)
        return 0;
    size_t names_length = (size_t)(group - names);
    group++;
    int result;
    if (version == 1 && names_contain(names, names_length, controller))
        result = find_mount_v1(cgroup, root, names, names_length, controller);
    else if (version == 2 && names_length == 0 && line[0] == '0' && names - line == 2)
        result = find_mount_v2(cgroup, root);
    else
        return 0;
    if (result == 0)
        result = set_group(cgroup, group, length - (size_t)(group - line));
    return result < 0 ? result : 1;
}

static char *read_membership(const char *proc_root, char *path, size_t capacity, ssize_t *length)
{
    /* A thread may be in another group than its process, as far as v2 allows it. */
    static const char *const files[] = {"/thread-self/cgroup", "/self/cgroup"};
    char *text = NULL;
    for (size_t i = 0; i < 2 && text == NULL; i++) {
        *length = join(path, capacity, proc_root, files[i]);
        if (*length == 0)
            text = taut__file_read_whole(path, MEMBERSHIP_LIMIT, length);
    }
    return text;
}

int taut__cgroup_find(struct taut__cgroup *cgroup, const char *controller, const char *cgroup_root,
                      const char *proc_root, struct taut_err *err)
{
    const char *root = cgroup_root != NULL ? cgroup_root : "/sys/fs/cgroup";
    char path[PATH_MAX];
    ssize_t length;
    *cgroup = (struct taut__cgroup){0};
    char *text =
        read_membership(proc_root != NULL ? proc_root : "/proc", path, sizeof path, &length);
    if (text == NULL) {
        taut_err_set(err, taut_code_from_errno((int)-length), "cgroup: %s: %s", path,
                     strerror((int)-length));
        return (int)length;
    }
    int found = 0;
    /* A controller is in one hierarchy only; v2's line names none, so it is the second choice. */
    for (int version = 1; version <= 2 && found == 0; version++) {
        for (const char *line = text; *line != '\0' && found == 0;) {
            size_t size = strcspn(line, "\n");
            found = take_line(cgroup, line, size, controller, root, version);
            line += size + (line[size] == '\n');
        }
    }
    free(text);
    if (found < 0) {
        *cgroup = (struct taut__cgroup){0};
        taut_err_set(err, taut_code_from_errno(-found), "cgroup: %s: %s", path, strerror(-found));
        return found;
    }
    return 0;
}

/* A positive decimal number that ends at a space, a newline or the end; -1: it is none. */
static int64_t parse_positive(const char *text, const char **end)
{
    char *stop;
    errno = 0;
    if (*text < '0' || *text > '9')
        return -1;
    long long value = strtoll(text, &stop, 10);
    if (errno != 0 || value <= 0 || (*stop != ' ' && *stop != '\n' && *stop != '\0'))
        return -1;
    *end = stop;
    return value;
}

/* One file of one level: 1 = read, 0 = not there (the root has no limits), negative = a code. */
static int read_level(const struct taut__cgroup *level, const char *file, char *text,
                      size_t capacity, struct taut_err *err)
{
    char path[2 * PATH_MAX];
    int failed = taut__cgroup_path(level, file, path, sizeof path);
    ssize_t length = failed < 0 ? failed : taut__file_read_value(path, text, capacity);
    if (length == -ENOENT || length == -ENOTDIR)
        return 0;
    if (length < 0)
        return taut_err_set(err, taut_code_from_errno((int)-length), "cgroup: %s: %s", path,
                            strerror((int)-length));
    return 1;
}

static int bad_value(const struct taut__cgroup *level, const char *file, const char *text,
                     struct taut_err *err)
{
    return taut_err_set(err, TAUT_EFORMAT, "cgroup: %s%s/%s: '%.40s' is no limit", level->mount,
                        level->group, file, text);
}

/* The quota of one level: 1 = there is one, 0 = none, negative = a code. */
static int quota_of_level(const struct taut__cgroup *level, int64_t *quota_us, int64_t *period_us,
                          struct taut_err *err)
{
    char text[128] = "";
    const char *end;
    if (level->version == 2) {
        int result = read_level(level, "cpu.max", text, sizeof text, err);
        if (result <= 0 || strncmp(text, "max", 3) == 0)
            return result < 0 ? result : 0;
        *quota_us = parse_positive(text, &end);
        *period_us = *quota_us > 0 && *end == ' ' ? parse_positive(end + 1, &end) : -1;
        return *period_us > 0 && *end == '\0' ? 1 : bad_value(level, "cpu.max", text, err);
    }
    int result = read_level(level, "cpu.cfs_quota_us", text, sizeof text, err);
    if (result <= 0 || strcmp(text, "-1") == 0)
        return result < 0 ? result : 0;
    *quota_us = parse_positive(text, &end);
    if (*quota_us < 0 || *end != '\0')
        return bad_value(level, "cpu.cfs_quota_us", text, err);
    result = read_level(level, "cpu.cfs_period_us", text, sizeof text, err);
    if (result < 0)
        return result;
    if (result == 0)
        return bad_value(level, "cpu.cfs_period_us", "(missing)", err);
    *period_us = parse_positive(text, &end);
    return *period_us > 0 && *end == '\0' ? 1 : bad_value(level, "cpu.cfs_period_us", text, err);
}

int taut__cgroup_quota(const struct taut__cgroup *cgroup, int64_t *quota_us, int64_t *period_us,
                       struct taut_err *err)
{
    *quota_us = -1;
    *period_us = 0;
    if (cgroup->version == 0)
        return TAUT_OK;
    struct taut__cgroup level = *cgroup;
    int code = TAUT_OK;
    do {
        int64_t quota = 0, period = 0;
        int result = quota_of_level(&level, &quota, &period, code < 0 ? NULL : err);
        if (result < 0 && code == TAUT_OK)
            code = result;
        __extension__ typedef __int128 wide;
        /* quota/period < the tightest so far, without a division. */
        if (result == 1 && (*quota_us < 0 || (wide)quota * *period_us < (wide)*quota_us * period)) {
            *quota_us = quota;
            *period_us = period;
        }
    } while (taut__cgroup_up(&level));
    return code;
}

int taut__cgroup_cpus(const struct taut__cgroup *cgroup, struct taut_cpuset *cpus,
                      struct taut_err *err)
{
    static const char *const files_v1[] = {"cpuset.effective_cpus", "cpuset.cpus"};
    static const char *const files_v2[] = {"cpuset.cpus.effective", "cpuset.cpus"};
    if (cgroup->version == 0)
        return 0;
    const char *const *files = cgroup->version == 1 ? files_v1 : files_v2;
    struct taut__cgroup level = *cgroup;
    do {
        for (size_t i = 0; i < 2; i++) {
            char text[8192] = "";
            int result = read_level(&level, files[i], text, sizeof text, err);
            if (result < 0)
                return result;
            /* An empty list means "as above" in v2, and "not set up" in v1. */
            if (result == 0 || text[0] == '\0')
                continue;
            int code = taut__cpuset_parse_kernel(cpus, text, err);
            return code < 0 ? bad_value(&level, files[i], text, err) : 1;
        }
    } while (taut__cgroup_up(&level));
    return 0;
}
