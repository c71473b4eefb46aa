/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/fix_log.h - finds FIX messages in the text of a log, and checks them.
 *
 * A message begins with "8=" and goes as far as its BodyLength says where a CheckSum is there, over
 * newlines and separators in its data fields; otherwise to the next CheckSum, the next message or
 * the end of its line, whichever comes first. The separator is recognised for each message by
 * itself: SOH, or what logs write instead of it. For such a log each separator counts as the one
 * byte SOH, in BodyLength and in CheckSum; a separator text within a data field, or within a value
 * that can't be anything else, counts as itself where that makes the CheckSum right.
 *
 * Pure functions on the caller's bytes; every input gives an answer, in time linear in its length.
 *
 * Threads: a struct fix_log has one owner. Ownership: bytes are borrowed for the call.
 */
#ifndef LAB_CLI_FIX_LOG_H
#define LAB_CLI_FIX_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <taut/scan.h>

#define FIX_LOG_MESSAGE_MAX (16u << 20) /* longer ones are reported as too big and cut */
#define FIX_LOG_TEXT_MAX    (1u << 20) /* a line without a message is given in parts of this size */

enum fix_log_kind {
    FIX_LOG_TEXT,   /* a line, or the rest of one, without a message */
    FIX_LOG_MESSAGE /* text in front of a message, and the message */
};

struct fix_log_piece {
    uint32_t kind;     /* enum fix_log_kind */
    size_t begin, end; /* of the message, or of the text without its newline */
    size_t next;       /* bytes that the piece used, newline included */
    uint32_t part;     /* TEXT: 1 where the line goes on */
    const char *separator;
};

/* A field of the message that was checked; offsets in its `bytes`. */
struct fix_log_field {
    uint32_t tag;        /* or TAUT_TAG_INVALID: then the token as a whole is shown */
    uint32_t token;      /* first byte of the tag */
    uint32_t begin, end; /* value */
};

/* The last message found: as on the wire, with SOH. */
struct fix_log_checked {
    uint8_t *bytes;
    uint32_t length;
    uint32_t reason; /* enum taut_garbled */
    uint32_t cut;    /* 1: the file ends within it */
    char detail[200];
    struct fix_log_field *fields;
    uint32_t field_count;
    const uint8_t *type; /* MsgType's value; NULL where there is none */
    uint32_t type_length;
};

struct fix_log;

/* 0 or TAUT_ENOMEM. */
int fix_log_create(struct fix_log **log);
void fix_log_destroy(struct fix_log *log);

enum fix_log_result {
    FIX_LOG_PIECE = 0,
    FIX_LOG_MORE, /* wants more bytes behind these */
    FIX_LOG_END,  /* no bytes left */
    FIX_LOG_NO_MEMORY
};

/*
 * The first piece of the bytes at `data`. The next call wants data + piece->next, or after
 * FIX_LOG_MORE the same bytes with more behind them; `at_end` = 1 says that there are no more.
 * FIX_LOG_MORE is never asked for above FIX_LOG_MESSAGE_MAX + 2 * FIX_LOG_TEXT_MAX bytes.
 */
uint32_t fix_log_next(struct fix_log *log, const uint8_t *data, size_t size, int at_end,
                      struct fix_log_piece *piece);

/* What is known of the message of the last FIX_LOG_MESSAGE piece; valid until the next call. */
const struct fix_log_checked *fix_log_message(const struct fix_log *log);

#endif
