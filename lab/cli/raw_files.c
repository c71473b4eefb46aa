/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/raw_files.c - reads the raw files of a command line, and prints what is common to their
 * views.
 *
 * Promises: a file that can't be read, or only in part, costs one line on stderr and the exit code,
 * never the figures of the others.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/quantile.h"
#include "capture/raw.h"
#include "cli/raw_files.h"

int raw_parse_by(const char *text)
{
    static const char *const names[] = {"run", "phase", "process", "session"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return -1;
}

static int exit_for_open(int code)
{
    return code == TAUT_EACCES ? EXIT_NO_FILE : cli_exit_for(code);
}

/* Two files that both say "run 1, process 0" are most likely not of one measurement. */
static void warn_of_twins(const struct cli_command *command, const struct groups *groups)
{
    uint32_t count = groups_file_count(groups);
    const struct group_file *added = groups_file(groups, count - 1);
    for (uint32_t i = 0; i + 1 < count; i++) {
        const struct group_file *other = groups_file(groups, i);
        if (other->directory == added->directory && other->run == added->run &&
            other->process == added->process) {
            cli_warn(command, "%s and %s both say run %u, process %u; put together", other->path,
                     added->path, added->run, added->process);
            return;
        }
    }
}

int raw_read_files(const struct cli_command *command, uint32_t by, int keep_values, int count,
                   char **paths, struct groups **groups)
{
    struct taut_err err = {0};
    int exit_code = EXIT_OK;
    if (groups_create(groups, by, keep_values, &err) != 0)
        return cli_fail_err(command, &err);
    for (int i = 0; i < count; i++) {
        int code = groups_add_file(*groups, paths[i], &err);
        int failed = EXIT_OK;
        if (code == TAUT_EBUSY) {
            cli_warn(command, "%s; counted once", err.text);
        } else if (code == TAUT_ENOMEM) {
            exit_code = cli_fail(command, EXIT_INTERNAL, "%s", err.text);
            groups_destroy(*groups);
            *groups = NULL;
            return exit_code;
        } else if (code != 0) {
            failed = cli_fail(command, exit_for_open(code), "%s", err.text);
        } else {
            const struct group_file *file = groups_file(*groups, groups_file_count(*groups) - 1);
            if (file->damage.code != 0)
                failed = cli_fail(command, EXIT_DAMAGED, "%s; %llu records read", file->damage.text,
                                  (unsigned long long)file->records);
            warn_of_twins(command, *groups);
        }
        exit_code = exit_code ? exit_code : failed;
    }
    if (groups_sort(*groups, &err) != 0) {
        exit_code = cli_fail(command, EXIT_INTERNAL, "%s", err.text);
        groups_destroy(*groups);
        *groups = NULL;
    }
    return exit_code;
}

/* --- text ------------------------------------------------------------------------------------ */

uint32_t raw_key_columns(const struct groups *groups, uint32_t by, struct table_column *columns)
{
    uint32_t count = 0;
    if (groups_directory_count(groups) > 1)
        columns[count++] = (struct table_column){"directory", TABLE_LEFT};
    columns[count++] = (struct table_column){"run", TABLE_RIGHT};
    columns[count++] = (struct table_column){"phase", TABLE_LEFT};
    if (by == GROUPS_BY_PROCESS)
        columns[count++] = (struct table_column){"process", TABLE_RIGHT};
    if (by == GROUPS_BY_SESSION)
        columns[count++] = (struct table_column){"session", TABLE_RIGHT};
    return count;
}

void raw_key_cells(struct table *table, const struct groups *groups, uint32_t by,
                   const struct group *group)
{
    if (groups_directory_count(groups) > 1)
        table_cell(table, "%s", groups_directory(groups, group->directory));
    table_cell(table, "%u", group->run);
    table_cell(table, "%s", group->phase == GROUP_ALL ? "all" : raw_phase_name(group->phase));
    if (by == GROUPS_BY_PROCESS)
        table_cell(table, "%u", group->process);
    if (by == GROUPS_BY_SESSION)
        table_cell(table, "%u", group->session);
}

int raw_print_accounts(const struct groups *groups, uint32_t by)
{
    struct table_column columns[16];
    struct table *table;
    uint32_t count = raw_key_columns(groups, by, columns);
    columns[count++] = (struct table_column){"records", TABLE_RIGHT};
    for (uint32_t status = RAW_ANSWERED; status <= RAW_UNSENT; status++)
        columns[count++] = (struct table_column){raw_status_name(status), TABLE_RIGHT};
    columns[count++] = (struct table_column){raw_status_name(RAW_EMPTY), TABLE_RIGHT};
    columns[count++] = (struct table_column){"damaged", TABLE_RIGHT};
    int code = table_create(&table, columns, count);
    if (code != 0)
        return code;
    for (uint32_t i = 0; i < groups_count(groups); i++) {
        const struct group *group = groups_at(groups, i);
        char text[FORMAT_BYTES];
        raw_key_cells(table, groups, by, group);
        table_cell(table, "%s", format_count(text, group->records));
        for (uint32_t status = RAW_ANSWERED; status <= RAW_UNSENT; status++)
            table_cell(table, "%s", format_count(text, group->by_status[status]));
        table_cell(table, "%s", format_count(text, group->by_status[RAW_EMPTY]));
        table_cell(table, "%s", format_count(text, group->damaged));
    }
    code = table_print(table, stdout, NULL);
    table_destroy(table);
    return code == TAUT_EIO ? 0 : code; /* cli_finish() tells of stdout */
}

/* --- JSON ------------------------------------------------------------------------------------ */

json_t *raw_json_ns(uint64_t value)
{
    if (value == QUANTILE_INFINITE)
        return json_string("inf");
    if (value == QUANTILE_REFUSED)
        return json_null();
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* A file name is bytes, JSON is UTF-8: other bytes become '?'. */
json_t *raw_json_path(const char *path)
{
    json_t *text = json_string(path);
    if (text)
        return text;
    char copy[4096];
    snprintf(copy, sizeof(copy), "%s", path);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(copy);
}

json_t *raw_json_files(const struct groups *groups)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < groups_file_count(groups); i++) {
        const struct group_file *file = groups_file(groups, i);
        json_array_append_new(
            list,
            json_pack("{s:o, s:I, s:I, s:b, s:I, s:b, s:o}", "path", raw_json_path(file->path),
                      "run", (json_int_t)file->run, "process", (json_int_t)file->process,
                      "closed_loop", (int)file->closed_loop, "records", (json_int_t)file->records,
                      "complete", (int)file->complete, "damage",
                      file->damage.code ? raw_json_path(file->damage.text) : json_null()));
    }
    return list;
}

static json_t *part(uint32_t number)
{
    return number == GROUP_ALL ? json_null() : json_integer((json_int_t)number);
}

json_t *raw_json_group(const struct groups *groups, const struct group *group)
{
    json_t *counts = json_object();
    json_object_set_new(counts, "records", json_integer((json_int_t)group->records));
    for (uint32_t status = RAW_EMPTY; status <= RAW_UNSENT; status++)
        json_object_set_new(counts, raw_status_name(status),
                            json_integer((json_int_t)group->by_status[status]));
    json_object_set_new(counts, "damaged", json_integer((json_int_t)group->damaged));
    return json_pack("{s:o, s:I, s:s, s:o, s:o, s:o}", "directory",
                     raw_json_path(groups_directory(groups, group->directory)), "run",
                     (json_int_t)group->run, "phase",
                     group->phase == GROUP_ALL ? "all" : raw_phase_name(group->phase), "process",
                     part(group->process), "session", part(group->session), "counts", counts);
}

int raw_json_print(const struct cli_command *command, json_t *root, int exit_code)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text)
        return cli_fail(command, EXIT_INTERNAL, "no memory for the result");
    puts(text);
    free(text);
    return exit_code;
}

/* --- a view ---------------------------------------------------------------------------------- */

int raw_view(const struct cli_command *command, const char *by, int as_json, int count,
             char **paths, const struct raw_printer *printer)
{
    struct groups *groups;
    int part_by = raw_parse_by(by);
    if (part_by < 0)
        return cli_fail(command, EXIT_BAD_VALUE,
                        "--by: '%.100s' is none of run, phase, process, session", by);
    int exit_code =
        raw_read_files(command, (uint32_t)part_by, printer->keep_values, count, paths, &groups);
    if (!groups)
        return exit_code;
    if (as_json)
        exit_code = raw_json_print(command, printer->json(groups), exit_code);
    else if (groups_file_count(groups) > 0 && printer->text(groups, (uint32_t)part_by) != 0)
        exit_code = cli_fail(command, EXIT_INTERNAL, "no memory for the result");
    groups_destroy(groups);
    return cli_finish(command, exit_code);
}
