/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_folder.c - the run directory: made before anything runs, never one that holds anything,
 * and every file in it written whole or with a line that says why not.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/bench.h"

static int exit_for_errno(int why)
{
    switch (why) {
    case EACCES:
    case EPERM:
        return EXIT_RIGHTS;
    case ENOSPC:
    case EDQUOT:
        return EXIT_DISK_FULL;
    default:
        return EXIT_WRITE;
    }
}

/* mkdir -p. 0 or an errno value. */
static int make_folders(const char *path)
{
    char part[BENCH_PATH_BYTES];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(part))
        return ENAMETOOLONG;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return errno;
    }
    return 0;
}

static int is_empty(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    int empty = 1;
    if (!folder)
        return 0;
    while ((entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            empty = 0;
    closedir(folder);
    return empty;
}

/* --out: new or empty. */
static int use_given(struct bench *b)
{
    const char *out = b->options.out;
    struct stat found;
    if (!*out || strlen(out) >= sizeof(b->folder))
        return cli_fail(b->command, EXIT_BAD_VALUE, "--out: wants a path of 1 to %u bytes",
                        BENCH_PATH_BYTES - 1);
    snprintf(b->folder, sizeof(b->folder), "%s", out);
    if (stat(out, &found) == 0) {
        if (!S_ISDIR(found.st_mode))
            return cli_fail(b->command, EXIT_BAD_VALUE, "--out: %s is no directory", out);
        if (!is_empty(out))
            return cli_fail(b->command, EXIT_BAD_VALUE, "--out: %s is not empty", out);
        return -1;
    }
    int why = make_folders(out);
    if (why == ENOTDIR || why == EEXIST)
        return cli_fail(b->command, EXIT_BAD_VALUE, "--out: %s: %s", out, strerror(why));
    if (why)
        return cli_fail(b->command, exit_for_errno(why), "can't make the run directory %s: %s", out,
                        strerror(why));
    return -1;
}

/* runs/20261201T001005Z-pool, with -2, -3 ... where two begin within one second. */
static int use_new(struct bench *b)
{
    time_t seconds = (time_t)(b->begun_utc_ns / TAUT_NS_PER_S);
    struct tm utc;
    char when[32];
    int why = make_folders("runs");
    gmtime_r(&seconds, &utc);
    strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &utc);
    for (unsigned n = 1; why == 0 && n < 1000; n++) {
        char again[8] = "";
        if (n > 1)
            snprintf(again, sizeof(again), "-%u", n);
        snprintf(b->folder, sizeof(b->folder), "runs/%s-%s%s", when, b->scenario, again);
        if (mkdir(b->folder, 0777) == 0)
            return -1;
        why = errno == EEXIST ? 0 : errno;
    }
    return cli_fail(b->command, exit_for_errno(why), "can't make a run directory below runs/: %s",
                    strerror(why ? why : EEXIST));
}

int bench_folder_create(struct bench *b)
{
    int exit_code = b->options.out ? use_given(b) : use_new(b);
    if (exit_code >= 0)
        return exit_code;
    snprintf(b->raw_folder, sizeof(b->raw_folder), "%s/raw", b->folder);
    if (mkdir(b->raw_folder, 0777) != 0) {
        int why = errno;
        return cli_fail(b->command, exit_for_errno(why), "can't make %s: %s", b->raw_folder,
                        strerror(why));
    }
    b->plan.raw_folder = b->raw_folder;
    return -1;
}

int bench_folder_text(const struct bench *b, const char *name, const char *text, size_t length)
{
    char path[BENCH_PATH_BYTES + 64];
    snprintf(path, sizeof(path), "%s/%s", b->folder, name);
    FILE *file = fopen(path, "wxe");
    int why = file ? 0 : errno;
    if (file) {
        errno = 0; /* a short write need not say why */
        if (fwrite(text, 1, length, file) != length)
            why = errno ? errno : EIO;
        if (fclose(file) != 0 && !why)
            why = errno ? errno : EIO;
    }
    if (!why)
        return -1;
    return cli_fail(b->command, exit_for_errno(why), "can't write %s: %s", path, strerror(why));
}

int bench_folder_json(const struct bench *b, const char *name, const json_t *object)
{
    char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
    if (!text)
        return cli_fail(b->command, EXIT_INTERNAL, "no memory for %s", name);
    int exit_code = bench_folder_text(b, name, text, strlen(text));
    free(text);
    return exit_code;
}
