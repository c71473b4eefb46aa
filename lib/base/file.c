/* SPDX-License-Identifier: BSD-2-Clause */
/* base/file.c - reads files that have no size until their end, whatever interrupts. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_for_reading(const char *path)
{
    int fd;
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/* Fills up to `capacity` bytes; fewer only at the end of the file. */
static ssize_t read_fully(int fd, char *bytes, size_t capacity)
{
    size_t length = 0;
    while (length < capacity) {
        ssize_t got = read(fd, bytes + length, capacity - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        length += (size_t)got;
    }
    return (ssize_t)length;
}

ssize_t taut__file_read(const char *path, char *text, size_t capacity)
{
    text[0] = '\0';
    int fd = open_for_reading(path);
    if (fd < 0)
        return fd;
    ssize_t length = read_fully(fd, text, capacity);
    close(fd);
    if (length < 0) {
        text[0] = '\0';
        return length;
    }
    if ((size_t)length == capacity) {
        text[capacity - 1] = '\0';
        return -EFBIG;
    }
    text[length] = '\0';
    return length;
}

ssize_t taut__file_read_value(const char *path, char *text, size_t capacity)
{
    ssize_t length = taut__file_read(path, text, capacity);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        text[--length] = '\0';
    return length;
}

char *taut__file_read_whole(const char *path, size_t limit, ssize_t *result)
{
    int fd = open_for_reading(path);
    if (fd < 0) {
        *result = fd;
        return NULL;
    }
    size_t length = 0, capacity = 0;
    char *bytes = NULL;
    for (;;) {
        /* One byte more than the limit tells "as long as" from "longer than". */
        size_t larger = capacity == 0 ? 4096 : capacity * 2;
        if (larger > limit + 1)
            larger = limit + 1;
        char *moved = realloc(bytes, larger + 1);
        if (moved == NULL) {
            *result = -ENOMEM;
            break;
        }
        bytes = moved;
        capacity = larger;
        ssize_t got = read_fully(fd, bytes + length, capacity - length);
        if (got < 0) {
            *result = got;
            break;
        }
        length += (size_t)got;
        if (length > limit) {
            *result = -EFBIG;
            break;
        }
        if (length < capacity) {
            close(fd);
            bytes[length] = '\0';
            *result = (ssize_t)length;
            return bytes;
        }
    }
    close(fd);
    free(bytes);
    return NULL;
}
