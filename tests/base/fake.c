/* SPDX-License-Identifier: BSD-2-Clause */
/* tests/base/fake.c - see fake.h. */
#include "fake.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"

void fake_create(struct fake_tree *tree)
{
    memset(tree, 0, sizeof *tree);
    snprintf(tree->root, sizeof tree->root, "/tmp/taut-fake-XXXXXX");
    TAUT_CHECK(mkdtemp(tree->root) != NULL);
}

const char *fake_path(struct fake_tree *tree, const char *path)
{
    TAUT_CHECK(snprintf(tree->path, sizeof tree->path, "%s/%s", tree->root, path) <
               (int)sizeof tree->path);
    return tree->path;
}

void fake_directory(struct fake_tree *tree, const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s", fake_path(tree, path));
    for (char *slash = full + strlen(tree->root) + 1; *slash != '\0'; slash++) {
        if (*slash != '/')
            continue;
        *slash = '\0';
        (void)mkdir(full, 0700); /* may be there already */
        *slash = '/';
    }
    (void)mkdir(full, 0700);
    struct stat status;
    TAUT_CHECK(stat(full, &status) == 0 && S_ISDIR(status.st_mode));
}

void fake_file(struct fake_tree *tree, const char *path, const char *text)
{
    char directory[512];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash != NULL) {
        *slash = '\0';
        fake_directory(tree, directory);
    }
    FILE *file = fopen(fake_path(tree, path), "w");
    TAUT_CHECK(file != NULL);
    TAUT_CHECK(fputs(text, file) >= 0);
    TAUT_CHECK(fclose(file) == 0);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

void fake_destroy(struct fake_tree *tree)
{
    TAUT_CHECK(nftw(tree->root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}
