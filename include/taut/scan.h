/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taut/scan.h - frames and field index of FIX tag=value messages.
 *
 * Two steps. taut_frame_next() finds the next whole message in a buffer in O(1) from BodyLength,
 * without looking at the body. A scan function then makes one pass over that message: SOH
 * positions, CheckSum, tags and values. Nothing is copied: a struct taut_message points into the
 * caller's buffer, which must outlive it.
 *
 * CAVEAT: every buffer handed to these functions needs TAUT_SCAN_PADDING readable bytes behind its
 * last byte. Their content does not matter.
 *
 * Rules: FIX 4.x volume 2 and FIXT 1.1, "Message format", "Garbled messages": 8, 9, 35 are the
 * first three fields in this order, 10 is the last, 9 counts the bytes from after its SOH to the
 * SOH before 10, 10 is the sum of all bytes before it modulo 256 in three digits.
 *
 * Threads: all functions are pure; a struct taut_message has one owner at a time. Blocking: never.
 */
#ifndef TAUT_SCAN_H
#define TAUT_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include <taut/err.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAUT_SCAN_PADDING 64u
#define TAUT_FIELDS_MAX   1024u
#define TAUT_SOH          0x01

/* A tag that is no plain positive number that fits ("-1", "0", "99999999999"). */
#define TAUT_TAG_INVALID UINT32_MAX

/* Why bytes are no message. FIX calls such bytes garbled: they are ignored and counted. */
enum taut_garbled {
    TAUT_GARBLED_NONE = 0,
    TAUT_GARBLED_NO_BEGIN,     /* bytes that do not start with "8=" */
    TAUT_GARBLED_BEGIN_STRING, /* 8= empty, with '=' in it, or without SOH in 17 bytes */
    TAUT_GARBLED_BODY_LENGTH,  /* the second field is not 9=<1..8 digits> */
    TAUT_GARBLED_TRAILER,      /* no SOH 10=ddd SOH where BodyLength says */
    TAUT_GARBLED_CHECKSUM,     /* 10= does not match the bytes */
    TAUT_GARBLED_MSG_TYPE,     /* the third field is not a non-empty 35= */
    TAUT_GARBLED_TAG,          /* a field without '=', or a tag that is no integer */
    TAUT_GARBLED_DATA_LENGTH,  /* a data field whose length field does not fit its bytes */
    TAUT_GARBLED_FIELD_COUNT,  /* more than TAUT_FIELDS_MAX fields */
    TAUT_GARBLED_TOO_BIG       /* longer than the caller's limit */
};

/* One short English text for a reason ("checksum does not match"). */
TAUT_API const char *taut_garbled_text(uint32_t reason);

enum taut_frame_result {
    TAUT_FRAME_READY = 0, /* data[skip] .. data[skip + length - 1] is a frame; scan it */
    TAUT_FRAME_MORE,      /* incomplete: wait until `need` bytes from data[skip] are there */
    TAUT_FRAME_GARBLED,   /* drop `skip` bytes for `reason`, then call again with the rest */
    TAUT_FRAME_TOO_BIG    /* the message says that it is longer than max_message */
};

enum taut_resync {
    TAUT_RESYNC_STRICT = 0,  /* a bad trailer: go on at the next "8=FIX" behind the body's start */
    TAUT_RESYNC_QUICKFIX = 1 /* a too long BodyLength swallows up to the next trailer */
};

struct taut_frame {
    uint32_t skip;   /* GARBLED, TOO_BIG: bytes to drop. READY, MORE: 0, since garbage in front of
                        a message is reported by itself; a caller adds it all the same */
    uint32_t length; /* READY: bytes of the message, "8=" up to the SOH of 10= */
    uint32_t need;   /* MORE: bytes wanted from data[skip] on, more than there are. A lower bound
                        until 9= is known, then the whole frame: nothing can be gained by a call
                        before they are there */
    uint32_t reason; /* GARBLED, TOO_BIG: enum taut_garbled */
};

/*
 * Finds the next frame in `size` bytes at `data`. `max_message` bounds a message's length in bytes
 * (up to 16 MiB). Never reads behind data + size + TAUT_SCAN_PADDING, and decides nothing on what
 * lies behind data + size.
 *
 * A call looks at about 40 bytes, whatever the message's length. Only where bytes are dropped does
 * it search for the next beginning, and what it searched it drops: all calls together are linear in
 * the bytes received. (TAUT_RESYNC_QUICKFIX searches anew at each call while the trailer behind a
 * wrong BodyLength has not arrived: up to max_message bytes a call.)
 *
 * TOO_BIG comes as soon as 9= is known, and also for a BodyLength of more than 8 digits that does
 * not begin with 0. A session ends there; who goes on regardless drops `skip` bytes.
 *
 * A message may have any BeginString, but what is dropped is searched for "8=FIX", since "8=" is in
 * every "58=": from its second byte on after a bad 8= or 9=, from the body's first byte on after a
 * bad trailer. Where all that is there is dropped, the next byte that comes is a front again: then
 * any "8=" begins a message, and which of them do depends on how garbage was cut.
 */
TAUT_API enum taut_frame_result taut_frame_next(const uint8_t *data, size_t size,
                                                uint32_t max_message, uint32_t resync,
                                                struct taut_frame *frame);

/* The fields of one message, in wire order. About 12.5 KiB: keep one a worker. */
struct taut_message {
    const uint8_t *data; /* the frame's first byte; borrowed */
    uint32_t length;     /* the frame's bytes */
    uint32_t count;      /* fields, including 8, 9, 35 and 10 */
    uint32_t body_begin; /* offset of the first byte that BodyLength counts */
    uint32_t begin_string_length;
    uint8_t slot[256]; /* slot[tag]: 1 + index of the first field with that tag < 256, or 0:
                          not present among the first 255 fields */
    uint32_t tag[TAUT_FIELDS_MAX];   /* or TAUT_TAG_INVALID */
    uint32_t begin[TAUT_FIELDS_MAX]; /* offset of the value's first byte */
    uint32_t end[TAUT_FIELDS_MAX];   /* offset of the SOH behind the value */
};

/*
 * Indexes the frame of `length` bytes at `data` and verifies its checksum. 0 = good, otherwise a
 * reason of enum taut_garbled; `message` then holds nothing to rely on, with one exception: behind
 * TAUT_GARBLED_DATA_LENGTH it holds the fields in front of the data field, the last of which is the
 * length field, so that a session can reject the message by its number. All variants give the same
 * result for the same bytes. Any bytes may be given, frame or not; TAUT_SCAN_PADDING readable bytes
 * must follow them.
 *
 * A message with several faults gets the reason that comes first in this order: header (NO_BEGIN,
 * BEGIN_STRING, BODY_LENGTH, TOO_BIG for more than 8 digits), TRAILER, CHECKSUM, MSG_TYPE, then the
 * fields from left to right (TAG, DATA_LENGTH, FIELD_COUNT).
 *
 * Tags: digits without a leading zero, up to 4294967294. An integer that is none of these ("-1",
 * "0", "08", "99999999999") is TAUT_TAG_INVALID, for the session to reject by number (373=0);
 * anything else in front of '=' ("+5", "a", nothing), or a field without '=', is TAUT_GARBLED_TAG.
 * An empty value is a value, except that of 35.
 *
 * Data fields: where a length field is directly followed by its partner (taut_data_partner()), the
 * partner's value has just that many bytes, SOH bytes among them. A length that is no number, or
 * behind which there is no SOH within the body, is TAUT_GARBLED_DATA_LENGTH.
 */
typedef uint32_t taut_scan_function(struct taut_message *message, const uint8_t *data,
                                    uint32_t length);

enum taut_scan_variant {
    TAUT_SCAN_AUTO = 0, /* the fastest that this CPU has */
    TAUT_SCAN_SCALAR,
    TAUT_SCAN_SWAR,
    TAUT_SCAN_AVX2,
    TAUT_SCAN_AVX512
};

/* The scan function of a variant, or NULL where this CPU or build has none. */
TAUT_API taut_scan_function *taut_scan_select(uint32_t variant);

/* Which variant TAUT_SCAN_AUTO is here. */
TAUT_API uint32_t taut_scan_best(void);

/* "scalar", "swar", "avx2", "avx512", "auto". */
TAUT_API const char *taut_scan_name(uint32_t variant);

/* The Length tag's data partner ("95" -> 96), or 0 for a tag that announces no data field. */
TAUT_API uint32_t taut_data_partner(uint32_t length_tag);

/* Index of the first field with `tag` at or behind index `from`, or -1. */
TAUT_API int32_t taut_message_find(const struct taut_message *message, uint32_t tag, uint32_t from);

/* The value of the first field with `tag`, NULL where there is none; *length gets its bytes. */
static inline const uint8_t *taut_message_get(const struct taut_message *message, uint32_t tag,
                                              uint32_t *length)
{
    int32_t index = -1;
    if (tag < 256 && message->slot[tag])
        index = message->slot[tag] - 1;
    else if (tag >= 256 || message->count > 255) /* a slot knows of the first 255 fields only */
        index = taut_message_find(message, tag, tag < 256 ? 255 : 0);
    if (index < 0)
        return NULL;
    *length = message->end[index] - message->begin[index];
    return message->data + message->begin[index];
}

/* MsgType as a number for switch statements: the value's first 4 bytes, little-endian ('D' = 0x44).
 * A longer type gives 0: compare its text. */
static inline uint32_t taut_message_type(const struct taut_message *message)
{
    uint32_t type = 0, length = message->end[2] - message->begin[2];
    if (length > 4)
        return 0;
    for (uint32_t i = 0; i < length; i++)
        type |= (uint32_t)message->data[message->begin[2] + i] << (8 * i);
    return type;
}

#ifdef __cplusplus
}
#endif
#endif
