/* SPDX-License-Identifier: BSD-2-Clause */
/* rig/read.c - see rig/read.h. A reading that fails keeps its errno in the place of its value. */
#include "rig/read.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

#define UNAVAILABLE "unavailable: "

const char *rig__proc(const struct rig_roots *roots)
{
    return roots != NULL && roots->proc != NULL ? roots->proc : "/proc";
}

const char *rig__sys(const struct rig_roots *roots)
{
    return roots != NULL && roots->sys != NULL ? roots->sys : "/sys";
}

void rig__put(json_t *object, const char *name, json_t *value, int *failed)
{
    /* Both may be NULL after a failure of memory: jansson then refuses, and frees the value. */
    if (json_object_set_new(object, name, value) < 0)
        *failed = 1;
}

json_t *rig__unavailable(int failure)
{
    char text[160], reason[96];
    int number = failure < 0 ? -failure : failure;
    snprintf(text, sizeof text, UNAVAILABLE "%s (errno %d)",
             strerror_r(number, reason, sizeof reason), number);
    return json_string(text);
}

json_t *rig__unavailable_text(const char *reason)
{
    char text[160];
    snprintf(text, sizeof text, UNAVAILABLE "%s", reason);
    return json_string(text);
}

int rig_available(const json_t *value)
{
    if (value == NULL)
        return 0;
    const char *text = json_string_value(value);
    return text == NULL || strncmp(text, UNAVAILABLE, strlen(UNAVAILABLE)) != 0;
}

json_t *rig__text(const char *text)
{
    char safe[4096];
    int complete;
    taut__log_escape(text, strlen(text), safe, sizeof safe, &complete);
    return json_string(safe);
}

json_t *rig__file_text(const char *root, const char *format, ...)
{
    char path[PATH_MAX], text[2048];
    int head = snprintf(path, sizeof path, "%s/", root);
    if (head < 0 || (size_t)head >= sizeof path)
        return rig__unavailable(ENAMETOOLONG);
    va_list arguments;
    va_start(arguments, format);
    int tail = vsnprintf(path + head, sizeof path - (size_t)head, format, arguments);
    va_end(arguments);
    if (tail < 0 || (size_t)tail >= sizeof path - (size_t)head)
        return rig__unavailable(ENAMETOOLONG);
    ssize_t length = taut__file_read_value(path, text, sizeof text);
    return length < 0 ? rig__unavailable((int)-length) : rig__text(text);
}

json_t *rig__file_choice(const char *root, const char *path)
{
    json_t *whole = rig__file_text(root, "%s", path);
    const char *text = json_string_value(whole);
    const char *open = text != NULL ? strchr(text, '[') : NULL;
    const char *close = open != NULL ? strchr(open, ']') : NULL;
    if (close == NULL || !rig_available(whole))
        return whole;
    json_t *choice = json_stringn(open + 1, (size_t)(close - open - 1));
    json_decref(whole);
    return choice;
}

int64_t rig__pressure_total_us(const char *proc_root, const char *resource)
{
    char path[PATH_MAX], text[512];
    if (snprintf(path, sizeof path, "%s/pressure/%s", proc_root, resource) >= (int)sizeof path)
        return -ENAMETOOLONG;
    ssize_t length = taut__file_read(path, text, sizeof text);
    if (length < 0)
        return length;
    const char *line = strncmp(text, "some ", 5) == 0 ? text : strstr(text, "\nsome ");
    const char *total = line != NULL ? strstr(line, " total=") : NULL;
    if (total == NULL || total[7] < '0' || total[7] > '9')
        return -EPROTO;
    errno = 0;
    long long value = strtoll(total + 7, NULL, 10);
    return errno == 0 ? value : -EPROTO;
}
