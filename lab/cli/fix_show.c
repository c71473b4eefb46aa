/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/fix_show.c - messages and texts of a log for people and for programs.
 *
 * Promises: no byte of a log reaches a terminal as a control character; no secret is shown unless
 * asked for, also not the rest of one that a damaged message spreads over several fields.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/fix_show.h"
#include "fix/names.h"

#define VALUE_SHOWN 1000u /* bytes of a value or text that are shown unless all is asked for */
#define TEXT_SHOWN  400u

/* --- escaping -------------------------------------------------------------------------------- */

/* Bytes of the printable UTF-8 character at `at`, or 0: control (C0, C1, DEL), bidirectional
 * formatting, overlong, surrogate, cut or no UTF-8 at all. */
static size_t printable(const uint8_t *at, size_t left)
{
    if (at[0] >= 0x20 && at[0] < 0x7f)
        return 1;
    size_t length = at[0] >= 0xc2 && at[0] < 0xe0   ? 2
                    : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;
    if (length == 0 || length > left)
        return 0;
    uint32_t code = at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ||
        code < 0xa0 || (code >= 0x2028 && code < 0x202f) || (code >= 0x2066 && code < 0x206a))
        return 0;
    return length;
}

static void put_escaped(FILE *out, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t whole = printable(bytes + i, length - i);
        if (whole == 0)
            fprintf(out, "\\x%02x", bytes[i]);
        else if (bytes[i] == '\\')
            fputs("\\\\", out);
        else
            fwrite(bytes + i, 1, whole, out);
        i += whole ? whole : 1;
    }
}

/* --- secrets --------------------------------------------------------------------------------- */

/* "554=" and the like at `at`, not as the end of another number: the bytes of tag and '='. */
static size_t secret_tag_at(const uint8_t *text, size_t at, size_t length)
{
    size_t end = at;
    uint32_t tag = 0;
    if (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
        return 0;
    for (; end < length && end - at < 5 && text[end] >= '0' && text[end] <= '9'; end++)
        tag = tag * 10 + (uint32_t)(text[end] - '0');
    if (end == at || end >= length || text[end] != '=' || !taut__tag_is_secret(tag, NULL, 0))
        return 0;
    return end + 1 - at;
}

/* Where a value in free text ends: at anything that logs use as a separator. */
static size_t secret_end(const uint8_t *text, size_t at, size_t length)
{
    for (; at < length; at++)
        if (text[at] < 0x20 || text[at] == '|' || text[at] == '\\' ||
            (text[at] == '^' && length - at > 1 && text[at + 1] == 'A') ||
            (text[at] == '<' && length - at > 4 && memcmp(text + at, "<SOH>", 5) == 0))
            return at;
    return length;
}

/* Bytes of a log, escaped, without secrets, and no more than `limit` unless all is asked for. */
static void put_text(const struct fix_show *show, FILE *out, const uint8_t *text, size_t length,
                     size_t limit)
{
    size_t shown = show->full || length <= limit ? length : limit;
    for (size_t i = 0, begin = 0; i <= shown;) {
        size_t tag = i < shown && !show->show_secrets ? secret_tag_at(text, i, length) : 0;
        if (tag == 0 && i < shown) {
            i++;
            continue;
        }
        put_escaped(out, text + begin, (i + tag < shown ? i + tag : shown) - begin);
        if (tag == 0)
            break;
        fputs("***", out);
        begin = i = secret_end(text, i + tag, length);
        if (begin >= shown)
            break;
    }
    if (shown < length)
        fprintf(out, "... (%zu bytes)", length);
}

/* Whether a field is hidden. What has no tag behind a hidden field is the rest of its value. */
static int is_hidden(const struct fix_show *show, const struct fix_log_checked *m,
                     const struct fix_log_field *field, int before_hidden)
{
    if (show->show_secrets)
        return 0;
    if (field->tag == TAUT_TAG_INVALID)
        return before_hidden;
    return taut__tag_is_secret(field->tag, m->type, m->type_length);
}

/* --- the head line --------------------------------------------------------------------------- */

int fix_show_is_blank(const uint8_t *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n')
            return 0;
    return 1;
}

static int word_is(const uint8_t *word, size_t length, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == length && strncasecmp(*list, (const char *)word, length) == 0)
            return 1;
    return 0;
}

static int in_word(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static int in_arrow(uint8_t byte)
{
    return byte == '<' || byte == '>' || byte == '-' || byte == '=';
}

/* The last word or arrow in front of a message that tells its direction; NULL where none does. */
static const char *direction_of(const uint8_t *text, size_t length)
{
    static const char *const out[] = {"out",   "outgoing", "outbound", "send", "sent", "sending",
                                      "toapp", "toadmin",  "tx",       "->",   "-->",  "=>",
                                      "==>",   ">>",       ">",        ">>>",  NULL};
    static const char *const in[] = {"in",      "incoming",  "inbound", "recv",      "received",
                                     "receive", "receiving", "fromapp", "fromadmin", "rx",
                                     "<-",      "<--",       "<=",      "<==",       "<<",
                                     "<",       "<<<",       NULL};
    const char *found = NULL;
    for (size_t i = 0; i < length;) {
        size_t end = i;
        if (in_word(text[i]))
            while (end < length && in_word(text[end]))
                end++;
        else
            while (end < length && in_arrow(text[end]))
                end++;
        if (end > i && word_is(text + i, end - i, out))
            found = "out";
        else if (end > i && word_is(text + i, end - i, in))
            found = "in";
        i = end > i ? end : i + 1;
    }
    return found;
}

static const struct fix_log_field *find_field(const struct fix_log_checked *m, uint32_t tag)
{
    for (uint32_t i = 0; i < m->field_count; i++)
        if (m->fields[i].tag == tag)
            return &m->fields[i];
    return NULL;
}

static void put_field_value(const struct fix_show *show, FILE *out, const struct fix_log_checked *m,
                            const struct fix_log_field *field)
{
    if (field)
        put_text(show, out, m->bytes + field->begin, field->end - field->begin, 64);
    else
        putc('?', out);
}

static void put_head(const struct fix_show *show, FILE *out, const struct fix_log_checked *m,
                     const char *direction)
{
    const char *name = m->type ? taut__msg_type_name(m->type, m->type_length) : NULL;
    fprintf(out, "%" PRIu64 ":%" PRIu64 "  ", show->line, show->column);
    if (name && !show->no_meanings) {
        fputs(name, out);
    } else if (m->type) {
        fputs("MsgType ", out);
        put_text(show, out, m->type, m->type_length, 64);
    } else {
        fputs("no MsgType", out);
    }
    fputs("  ", out);
    put_field_value(show, out, m, find_field(m, 49));
    fputs(" -> ", out);
    put_field_value(show, out, m, find_field(m, 56));
    fputs("  seq ", out);
    put_field_value(show, out, m, find_field(m, 34));
    if (direction)
        fprintf(out, "  [%s]", direction);
}

/* What is wrong, or nothing. */
static void put_fault(FILE *out, const struct fix_log_checked *m)
{
    if (m->reason == TAUT_GARBLED_NONE)
        return;
    fprintf(out, "%s: %s", m->cut ? "CUT by the end of the file" : "GARBLED",
            taut_garbled_text(m->reason));
    if (m->detail[0])
        fprintf(out, " (%s)", m->detail);
}

/* --- forms ----------------------------------------------------------------------------------- */

static const char *meaning_of(const struct fix_show *show, const struct fix_log_checked *m,
                              const struct fix_log_field *field)
{
    if (show->no_meanings || field->tag == TAUT_TAG_INVALID)
        return NULL;
    return taut__value_meaning(field->tag, m->bytes + field->begin, field->end - field->begin);
}

static const char *name_of(const struct fix_show *show, const struct fix_log_field *field)
{
    const char *name = show->no_tag_names ? NULL : taut__tag_name(field->tag);
    return name ? name : "";
}

static void show_block(const struct fix_show *show, const struct fix_log_checked *m,
                       const uint8_t *before, size_t before_length)
{
    int hidden = 0, width = 0;
    put_head(show, show->out, m, direction_of(before, before_length));
    putc('\n', show->out);
    if (m->reason != TAUT_GARBLED_NONE) {
        fputs("  ", show->out);
        put_fault(show->out, m);
        putc('\n', show->out);
    }
    if (!fix_show_is_blank(before, before_length)) {
        fputs("  before: ", show->out);
        put_text(show, show->out, before, before_length, TEXT_SHOWN);
        putc('\n', show->out);
    }
    for (uint32_t i = 0; i < m->field_count; i++) {
        int length = (int)strlen(name_of(show, &m->fields[i]));
        width = length > width ? length : width;
    }
    for (uint32_t i = 0; i < m->field_count; i++) {
        const struct fix_log_field *field = &m->fields[i];
        hidden = is_hidden(show, m, field, hidden);
        if (field->tag == TAUT_TAG_INVALID)
            fprintf(show->out, "  %5s %-*s%s  ", "?", width, "", width ? " " : "");
        else
            fprintf(show->out, "  %5u %-*s%s= ", field->tag, width, name_of(show, field),
                    width ? " " : "");
        if (hidden)
            fputs("***", show->out);
        else
            put_text(show, show->out, m->bytes + field->begin, field->end - field->begin,
                     VALUE_SHOWN);
        const char *meaning = hidden ? NULL : meaning_of(show, m, field);
        if (meaning)
            fprintf(show->out, "  (%s)", meaning);
        putc('\n', show->out);
    }
    putc('\n', show->out);
}

static void show_line(const struct fix_show *show, const struct fix_log_checked *m,
                      const uint8_t *before, size_t before_length)
{
    int hidden = 0;
    put_head(show, show->out, m, direction_of(before, before_length));
    if (m->reason != TAUT_GARBLED_NONE) {
        fputs("  ", show->out);
        put_fault(show->out, m);
    }
    fputs("  |", show->out);
    for (uint32_t i = 0; i < m->field_count; i++) {
        const struct fix_log_field *field = &m->fields[i];
        const char *name = name_of(show, field);
        hidden = is_hidden(show, m, field, hidden);
        if (field->tag == 8 || field->tag == 9 || field->tag == 10 || field->tag == 34 ||
            field->tag == 35 || field->tag == 49 || field->tag == 56)
            continue;
        putc(' ', show->out);
        if (field->tag != TAUT_TAG_INVALID && *name)
            fprintf(show->out, "%s=", name);
        else if (field->tag != TAUT_TAG_INVALID)
            fprintf(show->out, "%u=", field->tag);
        if (hidden)
            fputs("***", show->out);
        else
            put_text(show, show->out, m->bytes + field->begin, field->end - field->begin,
                     VALUE_SHOWN);
        const char *meaning = hidden ? NULL : meaning_of(show, m, field);
        if (meaning)
            fprintf(show->out, "(%s)", meaning);
    }
    putc('\n', show->out);
}

/* --- JSON ------------------------------------------------------------------------------------ */

/* A program gets all bytes. */
static json_t *json_bytes(const struct fix_show *show, const uint8_t *bytes, size_t length)
{
    char *buffer = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&buffer, &size);
    if (!out)
        return NULL;
    put_text(show, out, bytes, length, SIZE_MAX);
    json_t *text = fclose(out) == 0 ? json_stringn(buffer, size) : NULL;
    free(buffer);
    return text;
}

static json_t *json_name(const char *name)
{
    return name && *name ? json_string(name) : json_null();
}

static json_t *json_field_value(const struct fix_show *show, const struct fix_log_checked *m,
                                uint32_t tag)
{
    const struct fix_log_field *field = find_field(m, tag);
    return field ? json_bytes(show, m->bytes + field->begin, field->end - field->begin)
                 : json_null();
}

static int write_json(const struct fix_show *show, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return TAUT_ENOMEM;
    fputs(text, show->out);
    putc('\n', show->out);
    free(text);
    return 0;
}

static int show_json(const struct fix_show *show, const struct fix_log_checked *m,
                     const uint8_t *before, size_t before_length)
{
    json_t *fields = json_array();
    int hidden = 0;
    for (uint32_t i = 0; i < m->field_count; i++) {
        const struct fix_log_field *field = &m->fields[i];
        hidden = is_hidden(show, m, field, hidden);
        json_t *object = json_pack(
            "{s:o, s:o, s:o, s:o}", "tag",
            field->tag == TAUT_TAG_INVALID ? json_null() : json_integer((json_int_t)field->tag),
            "name", json_name(name_of(show, field)), "value",
            hidden ? json_null()
                   : json_bytes(show, m->bytes + field->begin, field->end - field->begin),
            "meaning", json_name(hidden ? NULL : meaning_of(show, m, field)));
        if (object && hidden)
            json_object_set_new(object, "hidden", json_true());
        if (json_array_append_new(fields, object) != 0) {
            json_decref(fields);
            return TAUT_ENOMEM;
        }
    }
    return write_json(
        show,
        json_pack("{s:o, s:I, s:I, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file",
                  json_bytes(show, (const uint8_t *)show->file, strlen(show->file)), "line",
                  (json_int_t)show->line, "column", (json_int_t)show->column, "before",
                  json_bytes(show, before, before_length), "direction",
                  json_name(direction_of(before, before_length)), "status",
                  m->reason == TAUT_GARBLED_NONE ? "good"
                  : m->cut                       ? "cut"
                                                 : "garbled",
                  "reason",
                  m->reason == TAUT_GARBLED_NONE ? json_null()
                                                 : json_string(taut_garbled_text(m->reason)),
                  "detail", json_name(m->detail), "msg_type",
                  m->type ? json_bytes(show, m->type, m->type_length) : json_null(), "name",
                  json_name(m->type ? taut__msg_type_name(m->type, m->type_length) : NULL),
                  "sender", json_field_value(show, m, 49), "target", json_field_value(show, m, 56),
                  "seq", json_field_value(show, m, 34), "fields", fields));
}

int fix_show_message(const struct fix_show *show, const struct fix_log_checked *message,
                     const uint8_t *before, size_t before_length)
{
    switch (show->form) {
    case FIX_SHOW_JSON:
        return show_json(show, message, before, before_length);
    case FIX_SHOW_LINES:
        show_line(show, message, before, before_length);
        return 0;
    default:
        show_block(show, message, before, before_length);
        return 0;
    }
}

int fix_show_text(const struct fix_show *show, const uint8_t *text, size_t length, int behind)
{
    if (show->form == FIX_SHOW_JSON)
        return write_json(
            show, json_pack("{s:o, s:I, s:I, s:s, s:o}", "file",
                            json_bytes(show, (const uint8_t *)show->file, strlen(show->file)),
                            "line", (json_int_t)show->line, "column", (json_int_t)show->column,
                            "status", "text", "text", json_bytes(show, text, length)));
    fprintf(show->out, "%" PRIu64 ":%" PRIu64 "  %s: ", show->line, show->column,
            behind ? "behind" : "text");
    put_text(show, show->out, text, length, TEXT_SHOWN);
    fputs(show->form == FIX_SHOW_BLOCKS ? "\n\n" : "\n", show->out);
    return 0;
}
