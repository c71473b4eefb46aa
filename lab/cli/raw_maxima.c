/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/raw_maxima.c - `taut raw maxima FILE...`: the worst of every run and phase, and where it is.
 *
 * Promises: every phase of every run has its own line, warm-up included; a maximum is one sample
 * with its session, record and time, never a mean of anything. Memory does not depend on the files'
 * sizes.
 */
#include <inttypes.h>

#include "capture/raw.h"
#include "cli/raw_files.h"

static const char *by_text = "phase";
static int json;

static const struct cli_option options[] = {
    {"by", CLI_STRING, &by_text, "PART",
     "one group per run, phase, process or session (default: phase)", 0, 0, 0},
    {"json", CLI_FLAG, &json, NULL, "print one JSON object", 0, 0, 0},
};

static const struct cli_command command = {
    .name = "raw maxima",
    .summary = "Shows the largest and smallest time of each run and phase of raw sample files.",
    .arguments = "FILE...",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .arguments_least = 1,
    .arguments_most = UINT32_MAX,
};

static void add_row(struct table *table, const struct groups *groups, uint32_t by,
                    const struct group *group, uint32_t time)
{
    const struct sample_series *series = &group->series[time];
    const struct sample_place *max = &series->max;
    int any = series->n > series->unanswered;
    char text[FORMAT_BYTES];
    raw_key_cells(table, groups, by, group);
    table_cell(table, "%s", sample_time_name(time));
    table_cell(table, "%s", format_count(text, series->n));
    table_cell(table, "%s", format_count(text, series->unanswered));
    table_cell(table, "%s", format_duration(text, any ? series->min.ns : FORMAT_NO_NS));
    table_cell(table, "%s", format_duration(text, any ? max->ns : FORMAT_NO_NS));
    if (!any) {
        table_end_row(table);
        return;
    }
    table_cell(table, "%u", max->session);
    table_cell(table, "%" PRIu64, max->record);
    table_cell(table, "%" PRIu64 ".%09" PRIu64 " s", max->begin_ns / UINT64_C(1000000000),
               max->begin_ns % UINT64_C(1000000000));
    table_cell(table, "%s", format_utc(text, max->utc_ns));
    table_cell(table, "%s", groups_file(groups, max->file)->path);
}

static int print_text(const struct groups *groups, uint32_t by)
{
    static const struct table_column figures[] = {
        {"time", TABLE_LEFT},    {"n", TABLE_RIGHT},        {"unanswered", TABLE_RIGHT},
        {"min", TABLE_RIGHT},    {"max", TABLE_RIGHT},      {"of session", TABLE_RIGHT},
        {"record", TABLE_RIGHT}, {"begun at", TABLE_RIGHT}, {"UTC", TABLE_LEFT},
        {"in file", TABLE_LEFT},
    };
    struct table_column columns[4 + sizeof(figures) / sizeof(figures[0])];
    struct table *table;
    uint32_t count = raw_key_columns(groups, by, columns);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        columns[count++] = figures[i];
    int code = table_create(&table, columns, count);
    if (code != 0)
        return code;
    for (uint32_t i = 0; i < groups_count(groups); i++)
        for (uint32_t time = 0; time < TIME_KINDS; time++)
            if (time == TIME_SERVICE || groups_at(groups, i)->open_loop)
                add_row(table, groups, by, groups_at(groups, i), time);
    code = table_print(table, stdout, NULL);
    table_destroy(table);
    if (code == TAUT_ENOMEM)
        return code;
    putchar('\n');
    return raw_print_accounts(groups, by);
}

static json_t *json_place(const struct groups *groups, const struct sample_place *place)
{
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o}", "ns", raw_json_ns(place->ns), "session",
                     (json_int_t)place->session, "record", (json_int_t)place->record, "begin_ns",
                     raw_json_ns(place->begin_ns), "utc_ns",
                     place->utc_ns ? raw_json_ns(place->utc_ns) : json_null(), "file",
                     raw_json_path(groups_file(groups, place->file)->path));
}

static json_t *json_series(const struct groups *groups, const struct sample_series *series)
{
    int any = series->n > series->unanswered;
    return json_pack("{s:I, s:I, s:o, s:o}", "n", (json_int_t)series->n, "unanswered",
                     (json_int_t)series->unanswered, "min",
                     any ? json_place(groups, &series->min) : json_null(), "max",
                     any ? json_place(groups, &series->max) : json_null());
}

static json_t *to_json(const struct groups *groups)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < groups_count(groups); i++) {
        const struct group *group = groups_at(groups, i);
        json_t *object = raw_json_group(groups, group);
        for (uint32_t time = 0; time < TIME_KINDS; time++)
            json_object_set_new(object, sample_time_name(time),
                                time == TIME_SERVICE || group->open_loop
                                    ? json_series(groups, &group->series[time])
                                    : json_null());
        json_array_append_new(list, object);
    }
    return json_pack("{s:s, s:o, s:o}", "command", "raw maxima", "files", raw_json_files(groups),
                     "groups", list);
}

int cmd_raw_maxima(int argc, char **argv)
{
    static const struct raw_printer printer = {0, print_text, to_json};
    int count;
    int exit_code = cli_parse(&command, argc, argv, &count);
    if (exit_code >= 0)
        return exit_code;
    return raw_view(&command, by_text, json, count, argv + 1, &printer);
}
