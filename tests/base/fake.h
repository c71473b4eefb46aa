/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tests/base/fake.h - a small file tree that stands for /proc, /sys or /sys/fs/cgroup. Every
 * failure to build it aborts: a test without its tree would test nothing.
 */
#ifndef TESTS_BASE_FAKE_H
#define TESTS_BASE_FAKE_H

#include <stddef.h>

struct fake_tree {
    char root[64];
    char path[512]; /* of the last call of fake_path() */
};

void fake_create(struct fake_tree *tree);

/* Writes a file and makes the directories above it. `path` is relative to the root. */
void fake_file(struct fake_tree *tree, const char *path, const char *text);

/* Makes a directory and those above it. In the place of a file it is one that can't be read
 * (EISDIR), also by root. */
void fake_directory(struct fake_tree *tree, const char *path);

/* The full path; valid until the next call. */
const char *fake_path(struct fake_tree *tree, const char *path);

void fake_destroy(struct fake_tree *tree);

#endif
