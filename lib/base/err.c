/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/err.c - names and texts of result codes, and the recording of what failed. One table holds
 * all there is to know about a code, so that a code can't have a name and no text.
 */
#include <taut/err.h>

#include <stdio.h>
#include <string.h>

struct code_entry {
    int code;
    const char *name;
    const char *text;
};

static const struct code_entry codes[] = {
    {TAUT_OK, "TAUT_OK", "success"},
    {TAUT_EINVAL, "TAUT_EINVAL", "invalid argument"},
    {TAUT_ENOMEM, "TAUT_ENOMEM", "out of memory"},
    {TAUT_ENOSPC, "TAUT_ENOSPC", "no space left"},
    {TAUT_EIO, "TAUT_EIO", "input/output error"},
    {TAUT_EACCES, "TAUT_EACCES", "permission denied"},
    {TAUT_ENOENT, "TAUT_ENOENT", "not found"},
    {TAUT_EADDRINUSE, "TAUT_EADDRINUSE", "address already in use"},
    {TAUT_ECONNREFUSED, "TAUT_ECONNREFUSED", "connection refused"},
    {TAUT_ECONNRESET, "TAUT_ECONNRESET", "connection reset by peer"},
    {TAUT_ETIMEDOUT, "TAUT_ETIMEDOUT", "timed out"},
    {TAUT_EAGAIN, "TAUT_EAGAIN", "nothing to do now"},
    {TAUT_ENOTSUP, "TAUT_ENOTSUP", "not supported here"},
    {TAUT_EBUSY, "TAUT_EBUSY", "in use by another owner"},
    {TAUT_EOVERFLOW, "TAUT_EOVERFLOW", "number does not fit"},
    {TAUT_ECANCELED, "TAUT_ECANCELED", "stopped by request"},
    {TAUT_ESTATE, "TAUT_ESTATE", "not allowed in this state"},
    {TAUT_EFORMAT, "TAUT_EFORMAT", "malformed"},
    {TAUT_EVERSION, "TAUT_EVERSION", "unsupported version"},
    {TAUT_ETRUNCATED, "TAUT_ETRUNCATED", "truncated"},
    {TAUT_ECORRUPT, "TAUT_ECORRUPT", "checksum mismatch"},
    {TAUT_ETOOBIG, "TAUT_ETOOBIG", "too big"},
    {TAUT_EPEER, "TAUT_EPEER", "protocol broken by peer"},
};

static const struct code_entry *find_code(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].code == code)
            return &codes[i];
    }
    return NULL;
}

const char *taut_code_name(int code)
{
    const struct code_entry *entry = find_code(code);
    return entry != NULL ? entry->name : "TAUT_E?";
}

const char *taut_code_text(int code)
{
    const struct code_entry *entry = find_code(code);
    return entry != NULL ? entry->text : "unknown error";
}

int taut_code_from_errno(int errno_value)
{
    /* Codes without an errno equivalent are not errno values, whatever their number. */
    if (errno_value < 0 || errno_value >= -TAUT_ESTATE)
        return TAUT_EIO;
    /* Two spellings of one refusal; a caller can act on one code only. */
    if (errno_value == EPERM)
        return TAUT_EACCES;
    return find_code(-errno_value) != NULL ? -errno_value : TAUT_EIO;
}

void taut_err_clear(struct taut_err *err)
{
    if (err != NULL)
        *err = (struct taut_err){0};
}

/* Error texts are printed to terminals and logs; a peer's bytes in them must not move a cursor. */
static void make_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f)
            *text = ' ';
    }
}

int taut_err_set_at(struct taut_err *err, int code, const char *file, int line, const char *format,
                    ...)
{
    if (err == NULL)
        return code;
    /* Formatted aside first: an argument may be the text of the same err. */
    char text[sizeof err->text] = {0};
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        text[0] = '\0';
    make_one_line(text);
    err->code = code;
    err->line = line;
    err->file = file;
    memcpy(err->text, text, sizeof text);
    return code;
}
