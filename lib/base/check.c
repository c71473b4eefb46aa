/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/check.c - the last words of a broken invariant: one line on stderr, then abort(3). Uses only
 * what is safe in a signal handler apart from snprintf, and takes no lock.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void taut__check_failed(const char *file, int line, const char *function, const char *expression)
{
    char text[512];
    int length = snprintf(text, sizeof text, "%s:%d: %s: check failed: %s\n", file, line, function,
                          expression);
    if (length > 0) {
        size_t size = (size_t)length;
        if (size >= sizeof text) {
            size = sizeof text - 1;
            text[size - 1] = '\n';
        }
        /* Nobody is left to tell when this fails. */
        ssize_t written = write(STDERR_FILENO, text, size);
        (void)written;
    }
    abort();
}
