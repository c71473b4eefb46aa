/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/err.h - result codes and error details.
 *
 * Every function that can fail returns 0 (or a count) on success and one negative code of
 * enum taut_code on failure. Codes that have an errno equivalent are that errno, negated. errno
 * itself is never the channel: it may hold anything after a call. Time-outs and "closed" are
 * outcomes of a call, not errors, and are documented where they occur.
 *
 * Threads: all functions may be called from any thread; a struct taut_err belongs to its caller.
 * Blocking: never. Ownership: the caller owns the struct taut_err; the strings returned by
 * taut_code_name() and taut_code_text() are static.
 */
#ifndef TAUT_ERR_H
#define TAUT_ERR_H

#include <errno.h>
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TAUT_API
#define TAUT_API __attribute__((visibility("default")))
#endif
#define TAUT_PRINTF(format_index, first_argument)                                                  \
    __attribute__((format(printf, format_index, first_argument)))

/* Result codes. Values from -10001 downwards have no errno equivalent. */
enum taut_code {
    TAUT_OK = 0,
    TAUT_EINVAL = -EINVAL,         /* an argument or option is outside its documented range */
    TAUT_ENOMEM = -ENOMEM,         /* memory could not be had, or the caller's is too small */
    TAUT_ENOSPC = -ENOSPC,         /* no space: a disk, a buffer or a table is full */
    TAUT_EIO = -EIO,               /* the device reported an error */
    TAUT_EACCES = -EACCES,         /* not permitted */
    TAUT_ENOENT = -ENOENT,         /* no such file, key or object */
    TAUT_EADDRINUSE = -EADDRINUSE, /* the address is taken by another socket */
    TAUT_ECONNREFUSED = -ECONNREFUSED,
    TAUT_ECONNRESET = -ECONNRESET, /* the peer went away without closing */
    TAUT_ETIMEDOUT = -ETIMEDOUT,   /* a deadline that the caller did not give passed */
    TAUT_EAGAIN = -EAGAIN,         /* nothing to do now; try again after the next event */
    TAUT_ENOTSUP = -ENOTSUP,       /* not supported on this machine or in this build */
    TAUT_EBUSY = -EBUSY,           /* in use by another owner */
    TAUT_EOVERFLOW = -EOVERFLOW,   /* a number does not fit its type */
    TAUT_ECANCELED = -ECANCELED,   /* stopped by request */
    TAUT_ESTATE = -10001,          /* not allowed in the present state of the object */
    TAUT_EFORMAT = -10002,         /* bytes that do not follow their format */
    TAUT_EVERSION = -10003,        /* a version that this build does not read */
    TAUT_ETRUNCATED = -10004,      /* ends before its own length says */
    TAUT_ECORRUPT = -10005,        /* a checksum does not match */
    TAUT_ETOOBIG = -10006,         /* larger than the configured limit */
    TAUT_EPEER = -10007            /* the peer broke the protocol */
};

/* What failed, for a human. Fixed size, caller-owned; zero-initialise it or call taut_err_clear().
 */
struct taut_err {
    int code;         /* enum taut_code, 0 = nothing set */
    int line;         /* source line that set it */
    const char *file; /* source file that set it, static */
    char text[240];   /* one line, no newline at the end, always terminated */
};

/* The enumerator's name ("TAUT_EINVAL"), or "TAUT_E?" for an unknown code. */
TAUT_API const char *taut_code_name(int code);

/* A short English text for a code ("invalid argument"); never NULL. */
TAUT_API const char *taut_code_text(int code);

/*
 * Maps an errno value to a code: known ones to themselves negated, EPERM to TAUT_EACCES, others to
 * TAUT_EIO.
 */
TAUT_API int taut_code_from_errno(int errno_value);

/* Forgets what an error structure holds. err may be NULL. */
TAUT_API void taut_err_clear(struct taut_err *err);

/*
 * Records an error and returns its code, so that a caller can write
 * `return taut_err_set(err, TAUT_EINVAL, "width %u is above %u", width, limit);`.
 * err may be NULL: then only the code is returned. A text that is too long is cut; control bytes
 * become spaces. The arguments may refer to err itself.
 */
#define taut_err_set(err, code, ...) taut_err_set_at((err), (code), __FILE__, __LINE__, __VA_ARGS__)
TAUT_API int taut_err_set_at(struct taut_err *err, int code, const char *file, int line,
                             const char *format, ...) TAUT_PRINTF(5, 6);

#ifdef __cplusplus
}
#endif
#endif
