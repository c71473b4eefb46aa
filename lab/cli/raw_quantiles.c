/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/raw_quantiles.c - `taut raw quantiles FILE...`: exact quantiles of every run and phase.
 *
 * Promises: a figure is one of the samples, by the rank rule of docs/traw.md; too few samples for a
 * quantile show as "-", an unanswered one as "inf"; warm-up has its own lines. Memory: 8 bytes a
 * sample and time, and as much again for the largest group while it is sorted.
 */
#include "capture/quantile.h"
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
    .name = "raw quantiles",
    .summary = "Shows exact quantiles of each run and phase of raw sample files.",
    .arguments = "FILE...",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .arguments_least = 1,
    .arguments_most = UINT32_MAX,
};

static const struct quantile {
    const char *title, *key;
    uint32_t ppm;
} quantiles[] = {
    {"p50", "p50_ns", QUANTILE_P50},        {"p90", "p90_ns", QUANTILE_P90},
    {"p99", "p99_ns", QUANTILE_P99},        {"p99.9", "p999_ns", QUANTILE_P999},
    {"p99.99", "p9999_ns", QUANTILE_P9999}, {"p99.999", "p99999_ns", QUANTILE_P99999},
};

#define QUANTILES (sizeof(quantiles) / sizeof(quantiles[0]))

static uint64_t figure(const struct sample_series *series, uint32_t ppm)
{
    return quantile_of(series->values, (size_t)series->n, ppm);
}

static void add_row(struct table *table, const struct groups *groups, uint32_t by,
                    const struct group *group, uint32_t time)
{
    const struct sample_series *series = &group->series[time];
    int any = series->n > series->unanswered;
    char text[FORMAT_BYTES];
    raw_key_cells(table, groups, by, group);
    table_cell(table, "%s", sample_time_name(time));
    table_cell(table, "%s", format_count(text, series->n));
    table_cell(table, "%s", format_count(text, series->unanswered));
    table_cell(table, "%s", format_duration(text, any ? series->min.ns : FORMAT_NO_NS));
    for (size_t i = 0; i < QUANTILES; i++)
        table_cell(table, "%s", format_duration(text, figure(series, quantiles[i].ppm)));
    table_cell(table, "%s", format_duration(text, any ? series->max.ns : FORMAT_NO_NS));
}

static int print_text(const struct groups *groups, uint32_t by)
{
    struct table_column columns[4 + 5 + QUANTILES];
    struct table *table;
    uint32_t count = raw_key_columns(groups, by, columns);
    columns[count++] = (struct table_column){"time", TABLE_LEFT};
    columns[count++] = (struct table_column){"n", TABLE_RIGHT};
    columns[count++] = (struct table_column){"unanswered", TABLE_RIGHT};
    columns[count++] = (struct table_column){"min", TABLE_RIGHT};
    for (size_t i = 0; i < QUANTILES; i++)
        columns[count++] = (struct table_column){quantiles[i].title, TABLE_RIGHT};
    columns[count++] = (struct table_column){"max", TABLE_RIGHT};
    int code = table_create(&table, columns, count);
    if (code != 0)
        return code;
    for (uint32_t i = 0; i < groups_count(groups); i++)
        for (uint32_t time = 0; time < TIME_KINDS; time++)
            if (time == TIME_SERVICE || groups_at(groups, i)->open_loop)
                add_row(table, groups, by, groups_at(groups, i), time);
    code = table_print(table, stdout, NULL);
    table_destroy(table);
    return code == TAUT_EIO ? 0 : code;
}

static json_t *json_series(const struct sample_series *series)
{
    int any = series->n > series->unanswered;
    json_t *object = json_pack("{s:I, s:I, s:o}", "n", (json_int_t)series->n, "unanswered",
                               (json_int_t)series->unanswered, "min_ns",
                               any ? raw_json_ns(series->min.ns) : json_null());
    for (size_t i = 0; i < QUANTILES; i++)
        json_object_set_new(object, quantiles[i].key,
                            raw_json_ns(figure(series, quantiles[i].ppm)));
    json_object_set_new(object, "max_ns", any ? raw_json_ns(series->max.ns) : json_null());
    return object;
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
                                    ? json_series(&group->series[time])
                                    : json_null());
        json_array_append_new(list, object);
    }
    return json_pack("{s:s, s:o, s:o}", "command", "raw quantiles", "files", raw_json_files(groups),
                     "groups", list);
}

int cmd_raw_quantiles(int argc, char **argv)
{
    static const struct raw_printer printer = {1, print_text, to_json};
    int count;
    int exit_code = cli_parse(&command, argc, argv, &count);
    if (exit_code >= 0)
        return exit_code;
    return raw_view(&command, by_text, json, count, argv + 1, &printer);
}
