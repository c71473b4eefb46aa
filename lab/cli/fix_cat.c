/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/fix_cat.c - `taut fix cat [FILE...]`: shows a FIX log with names, garbled messages marked.
 *
 * Promises: reads anything, a pipe while it is written included, in bounded memory (a message's
 * limit and some MiB); what is garbled is marked with its reason, and everything behind it is
 * shown.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/cli.h"
#include "cli/fix_log.h"
#include "cli/fix_show.h"
#include "fix/names.h"

#define BUFFER_FIRST (256u << 10)
#define BUFFER_MOST  (FIX_LOG_MESSAGE_MAX + 4 * FIX_LOG_TEXT_MAX)
#define READ_LEAST   (64u << 10)

static int json, oneline, raw_tags, no_names, show_secrets, full, text, garbled_only;
static const char *only;

static const struct cli_option options[] = {
    {"oneline", CLI_FLAG, &oneline, NULL, "one line a message", 0, 0, '1'},
    {"json", CLI_FLAG, &json, NULL, "one JSON object a line for each message", 0, 0, 0},
    {"only", CLI_STRING, &only, "TYPE", "only these types: values or names, by comma (D,8,Logon)",
     0, 0, 0},
    {"garbled", CLI_FLAG, &garbled_only, NULL, "only garbled and cut messages", 0, 0, 0},
    {"text", CLI_FLAG, &text, NULL, "also lines, and ends of lines, without a message", 0, 0, 0},
    {"raw-tags", CLI_FLAG, &raw_tags, NULL, "tags as numbers only", 0, 0, 0},
    {"no-names", CLI_FLAG, &no_names, NULL, "no names of tags, types and values at all", 0, 0, 0},
    {"full", CLI_FLAG, &full, NULL, "do not shorten long values and texts", 0, 0, 0},
    {"show-secrets", CLI_FLAG, &show_secrets, NULL,
     "show passwords (554, 925, 1402, 1404; 96 of a Logon)", 0, 0, 0},
};

static const struct cli_command command = {
    .name = "fix cat",
    .summary =
        "Shows the messages of FIX logs with names; garbled ones are marked with the reason.",
    .arguments = "[FILE|-]...",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .arguments_least = 0,
    .arguments_most = UINT32_MAX,
};

struct cat {
    struct fix_log *log;
    struct fix_show show;
    uint8_t *buffer;
    size_t begin, end, capacity; /* bytes that are not yet used; capacity without the padding */
    int fd, at_end, interactive;
    int behind_message; /* the last piece was a message, and its line goes on */
    uint64_t messages, garbled;
};

/* --- input ----------------------------------------------------------------------------------- */

/* Room for READ_LEAST bytes more. 0 or TAUT_ENOMEM. */
static int make_room(struct cat *cat)
{
    if (cat->capacity - cat->end >= READ_LEAST)
        return 0;
    if (cat->begin >= READ_LEAST && cat->begin >= cat->capacity / 2) {
        memmove(cat->buffer, cat->buffer + cat->begin, cat->end - cat->begin);
        cat->end -= cat->begin;
        cat->begin = 0;
        return 0;
    }
    TAUT_CHECK(cat->end - cat->begin < BUFFER_MOST); /* the splitter never wants more */
    size_t capacity = cat->capacity ? cat->capacity * 2 : BUFFER_FIRST;
    uint8_t *grown = realloc(cat->buffer, capacity + TAUT_SCAN_PADDING);
    if (!grown)
        return TAUT_ENOMEM;
    cat->buffer = grown;
    cat->capacity = capacity;
    return 0;
}

/* Reads some bytes more, or sets at_end. -1, or an exit code. */
static int read_more(struct cat *cat)
{
    if (cat->interactive)
        fflush(cat->show.out); /* what is known is shown before we wait for more */
    if (make_room(cat) != 0)
        return cli_fail(&command, EXIT_INTERNAL, "no memory for %s", cat->show.file);
    ssize_t n;
    do
        n = read(cat->fd, cat->buffer + cat->end, cat->capacity - cat->end);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return cli_fail(&command, EXIT_NO_FILE, "can't read %s: %s", cat->show.file,
                        strerror(errno));
    cat->at_end = n == 0;
    cat->end += (size_t)n;
    return -1;
}

/* --- pieces ---------------------------------------------------------------------------------- */

/* Whether `--only` lets a message through; one whose type can't be read always. */
static int is_wanted(const struct fix_log_checked *message)
{
    if (garbled_only && message->reason == TAUT_GARBLED_NONE)
        return 0;
    if (!only || !message->type)
        return 1;
    const char *name = taut__msg_type_name(message->type, message->type_length);
    for (const char *item = only; item; item = strchr(item, ',')) {
        item += *item == ',';
        size_t length = strcspn(item, ",");
        if (length == message->type_length && memcmp(item, message->type, length) == 0)
            return 1;
        if (name && strlen(name) == length && memcmp(item, name, length) == 0)
            return 1;
    }
    return 0;
}

/* Moves line and column behind `length` bytes. */
static void advance(struct cat *cat, const uint8_t *bytes, size_t length)
{
    const uint8_t *end = bytes + length;
    for (const uint8_t *newline; (newline = memchr(bytes, '\n', (size_t)(end - bytes))) != NULL;
         bytes = newline + 1) {
        cat->show.line++;
        cat->show.column = 1;
    }
    cat->show.column += (uint64_t)(end - bytes);
}

/* Shows a piece. 0 or TAUT_ENOMEM. */
static int show_piece(struct cat *cat, const struct fix_log_piece *piece)
{
    const uint8_t *data = cat->buffer + cat->begin;
    int code = 0;
    if (piece->kind == FIX_LOG_MESSAGE) {
        const struct fix_log_checked *message = fix_log_message(cat->log);
        advance(cat, data, piece->begin);
        if (is_wanted(message)) {
            cat->messages++;
            cat->garbled += message->reason != TAUT_GARBLED_NONE;
            code = fix_show_message(&cat->show, message, data, piece->begin);
        }
        advance(cat, data + piece->begin, piece->next - piece->begin);
    } else {
        size_t length = piece->end; /* without the CR of a CR LF */
        length -= length > 0 && data[length - 1] == '\r';
        if (text && !fix_show_is_blank(data, length))
            code = fix_show_text(&cat->show, data, length, cat->behind_message);
        advance(cat, data, piece->next);
    }
    cat->behind_message = piece->kind == FIX_LOG_MESSAGE && cat->show.column > 1;
    cat->begin += piece->next;
    return code;
}

/* One open file from start to end. -1, or an exit code. */
static int cat_stream(struct cat *cat)
{
    struct stat status;
    struct fix_log_piece piece;
    cat->begin = cat->end = 0;
    cat->at_end = cat->behind_message = 0;
    cat->show.line = cat->show.column = 1;
    cat->interactive = fstat(cat->fd, &status) == 0 && !S_ISREG(status.st_mode);
    for (;;) {
        uint32_t result = FIX_LOG_MORE;
        if (cat->end > cat->begin || cat->at_end)
            result = fix_log_next(cat->log, cat->buffer + cat->begin, cat->end - cat->begin,
                                  cat->at_end, &piece);
        if (result == FIX_LOG_END)
            return -1;
        if (result == FIX_LOG_NO_MEMORY ||
            (result == FIX_LOG_PIECE && show_piece(cat, &piece) != 0))
            return cli_fail(&command, EXIT_INTERNAL, "no memory for %s", cat->show.file);
        if (ferror(cat->show.out))
            return EXIT_WRITE; /* cli_finish() tells why */
        if (result == FIX_LOG_MORE) {
            int exit_code = read_more(cat);
            if (exit_code >= 0)
                return exit_code;
        }
    }
}

static int cat_file(struct cat *cat, const char *path)
{
    int is_stdin = strcmp(path, "-") == 0;
    cat->show.file = path;
    cat->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (cat->fd < 0)
        return cli_fail(&command, EXIT_NO_FILE, "can't open %s: %s", path, strerror(errno));
    int exit_code = fix_log_create(&cat->log) == 0 ? cat_stream(cat)
                                                   : cli_fail(&command, EXIT_INTERNAL, "no memory");
    fix_log_destroy(cat->log);
    if (!is_stdin)
        close(cat->fd);
    return exit_code;
}

int cmd_fix_cat(int argc, char **argv)
{
    static char stdin_name[] = "-";
    char *stdin_only[] = {stdin_name};
    int count;
    int exit_code = cli_parse(&command, argc, argv, &count);
    if (exit_code >= 0)
        return exit_code;
    if (json && oneline)
        return cli_fail(&command, EXIT_USAGE, "--json and --oneline exclude each other");
    struct cat cat = {.show = {.out = stdout,
                               .form = json      ? FIX_SHOW_JSON
                                       : oneline ? FIX_SHOW_LINES
                                                 : FIX_SHOW_BLOCKS,
                               .no_tag_names = raw_tags || no_names,
                               .no_meanings = no_names,
                               .show_secrets = show_secrets,
                               .full = full}};
    char **paths = count ? argv + 1 : stdin_only;
    exit_code = EXIT_OK;
    for (int i = 0; i < (count ? count : 1) && !ferror(stdout); i++) {
        int result = cat_file(&cat, paths[i]);
        if (result > 0 && exit_code == EXIT_OK)
            exit_code = result;
    }
    free(cat.buffer);
    if (exit_code == EXIT_WRITE) /* a closed pipe is no fault; another reason is told below */
        return cli_finish(&command, EXIT_OK);
    if (cat.messages == 0 && exit_code == EXIT_OK)
        cli_warn(&command, "no FIX message found");
    if (cat.garbled > 0) {
        cli_fail(&command, EXIT_GARBLED, "%" PRIu64 " of %" PRIu64 " messages are garbled",
                 cat.garbled, cat.messages);
        exit_code = exit_code ? exit_code : EXIT_GARBLED;
    }
    return cli_finish(&command, exit_code);
}
