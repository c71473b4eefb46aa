/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/log.c - builds a line on the stack, escapes what could forge another, writes it at once.
 */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <taut/clock.h>

#define DEFAULT_INTERVAL_NS TAUT_NS_PER_S
#define DEFAULT_BURST       5u

const char *taut_log_level_name(uint32_t level)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    return level < sizeof names / sizeof names[0] ? names[level] : "?";
}

/* Length of the UTF-8 character at the beginning of bytes, and its code point; 0: it is none. */
static size_t decode_utf8(const unsigned char *bytes, size_t length, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = bytes[0] < 0x80    ? 1
                  : bytes[0] >= 0xf0 ? 4
                  : bytes[0] >= 0xe0 ? 3
                  : bytes[0] >= 0xc0 ? 2
                                     : 0;
    if (size == 0 || size > length || bytes[0] > 0xf4)
        return 0;
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = bytes[0] & masks[size];
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    /* Overlong forms and surrogates are other spellings of what is refused elsewhere. */
    if (value < least[size] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *point = value;
    return size;
}

static int is_forging(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point <= 0x9f) || point == 0x061c || point == 0x200e ||
           point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069) || point == 0xfeff;
}

/* Writes the form of one character; returns its length (at most 16). */
static size_t escape_one(const unsigned char *bytes, size_t size, uint32_t point, char *form)
{
    static const char named[] = "\\\\\nn\rr\tt";
    if (size == 1 && point != 0) {
        for (const char *pair = named; *pair != '\0'; pair += 2) {
            if (bytes[0] == (unsigned char)pair[0]) {
                form[0] = '\\';
                form[1] = pair[1];
                return 2;
            }
        }
    }
    if (size > 0 && !is_forging(point)) {
        memcpy(form, bytes, size);
        return size;
    }
    static const char digits[] = "0123456789abcdef";
    size_t length = 0;
    for (size_t i = 0; i < (size > 0 ? size : 1); i++) {
        form[length++] = '\\';
        form[length++] = 'x';
        form[length++] = digits[bytes[i] >> 4];
        form[length++] = digits[bytes[i] & 15];
    }
    return length;
}

size_t taut__log_escape(const char *bytes, size_t length, char *text, size_t capacity,
                        int *complete)
{
    const unsigned char *input = (const unsigned char *)bytes;
    size_t used = 0;
    *complete = 1;
    for (size_t i = 0; i < length;) {
        uint32_t point = 0;
        char form[16];
        size_t size = decode_utf8(input + i, length - i, &point);
        size_t form_length = escape_one(input + i, size, point, form);
        if (used + form_length + 1 > capacity) {
            *complete = 0;
            break;
        }
        memcpy(text + used, form, form_length);
        used += form_length;
        i += size > 0 ? size : 1;
    }
    text[used] = '\0';
    return used;
}

static size_t append_time(char *line, size_t capacity)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc) == NULL)
        return 0;
    int length = snprintf(line, capacity, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ ",
                          utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                          utc.tm_sec, now.tv_nsec / 1000);
    return length > 0 && (size_t)length < capacity ? (size_t)length : 0;
}

/* "time program: level: ", never more than half of a line, so that the message has its share. */
static size_t append_prefix(const struct taut_log *log, uint32_t level, char *line)
{
    size_t length = log->times != 0 ? append_time(line, 64) : 0;
    if (log->program != NULL) {
        int complete;
        length += taut__log_escape(log->program, strlen(log->program), line + length,
                                   TAUT__LOG_LINE_MAX / 2 - length, &complete);
        memcpy(line + length, ": ", 2);
        length += 2;
    }
    const char *name = taut_log_level_name(level);
    size_t name_length = strlen(name);
    memcpy(line + length, name, name_length);
    memcpy(line + length + name_length, ": ", 2);
    return length + name_length + 2;
}

static void write_line(int fd, const char *line, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, line, length);
        if (written < 0 && errno == EINTR)
            continue;
        /* A log that can't be written has nobody to tell; a full pipe must not hold up a server. */
        if (written <= 0)
            return;
        line += written;
        length -= (size_t)written;
    }
}

static void log_line(const struct taut_log *log, uint32_t level, uint64_t suppressed,
                     const char *format, va_list arguments)
{
    int saved_errno = errno;
    char line[TAUT__LOG_LINE_MAX + 2];
    size_t length = append_prefix(log, level, line);
    if (suppressed > 0)
        length +=
            (size_t)snprintf(line + length, sizeof line - length,
                             "(%llu similar lines suppressed) ", (unsigned long long)suppressed);
    /* Escaping only lengthens: what does not fit here would not fit into the line either. */
    char message[TAUT__LOG_LINE_MAX + 1];
    message[0] = '\0';
    errno = saved_errno; /* for %m */
    int wanted = vsnprintf(message, sizeof message, format, arguments);
    size_t size = strlen(message);
    int complete;
    size_t start = length;
    length +=
        taut__log_escape(message, size, line + length, TAUT__LOG_LINE_MAX + 1 - length, &complete);
    if (!complete || (wanted > 0 && (size_t)wanted > size)) {
        /* Once more, with room for the mark: a cut never falls into an escape. */
        length = start;
        length += taut__log_escape(message, size, line + length,
                                   TAUT__LOG_LINE_MAX + 1 - 3 - length, &complete);
        memcpy(line + length, "...", 4);
        length += 3;
    }
    if (log->write != NULL) {
        log->write(log->context, level, line, length);
    } else {
        line[length] = '\n';
        write_line(log->fd, line, length + 1);
    }
    errno = saved_errno;
}

void taut_log(const struct taut_log *log, uint32_t level, const char *format, ...)
{
    if (log == NULL || level > log->level)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line(log, level, 0, format, arguments);
    va_end(arguments);
}

int taut__log_admit(struct taut_log_limit *limit, uint64_t now_ns, uint64_t *suppressed)
{
    uint64_t interval_ns = limit->interval_ns != 0 ? limit->interval_ns : DEFAULT_INTERVAL_NS;
    uint32_t burst = limit->burst != 0 ? limit->burst : DEFAULT_BURST;
    if (now_ns - limit->window_start_ns >= interval_ns) {
        limit->window_start_ns = now_ns;
        limit->used = 0;
    }
    if (limit->used >= burst) {
        limit->suppressed++;
        return 0;
    }
    limit->used++;
    *suppressed = limit->suppressed;
    limit->suppressed = 0;
    return 1;
}

void taut_log_limited(const struct taut_log *log, struct taut_log_limit *limit, uint32_t level,
                      const char *format, ...)
{
    uint64_t suppressed = 0;
    if (log == NULL || level > log->level)
        return;
    if (limit != NULL && !taut__log_admit(limit, taut_now_ns(), &suppressed))
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line(log, level, suppressed, format, arguments);
    va_end(arguments);
}
