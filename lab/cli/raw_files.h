/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/raw_files.h - what `taut raw maxima` and `taut raw quantiles` share: reading the files that
 * are named on the command line, one line for each that is damaged or can't be read, and the parts
 * of the output that name files, groups and accounts.
 */
#ifndef LAB_CLI_RAW_FILES_H
#define LAB_CLI_RAW_FILES_H

#include <jansson.h>

#include "capture/groups.h"
#include "cli/cli.h"
#include "report/table.h"

/* "run", "phase", "process", "session" -> enum groups_by; -1 for another text. */
int raw_parse_by(const char *text);

/* Reads all files into `*groups`, sorted. The exit code: 0, or that of the first file that failed;
 * the others are read all the same. `*groups` is NULL where there is no memory. */
int raw_read_files(const struct cli_command *command, uint32_t by, int keep_values, int count,
                   char **paths, struct groups **groups);

/* Key columns (directory where there are several, run, phase, process or session as divided): their
 * number, at most 4, and one group's cells. */
uint32_t raw_key_columns(const struct groups *groups, uint32_t by, struct table_column *columns);
void raw_key_cells(struct table *table, const struct groups *groups, uint32_t by,
                   const struct group *group);

/* The table of accounts: records by status, per group. 0 or a TAUT_E code. */
int raw_print_accounts(const struct groups *groups, uint32_t by);

/* JSON: the list of files; an object with a group's key and accounts; a number that is "inf" for
 * QUANTILE_INFINITE and null for QUANTILE_REFUSED. */
json_t *raw_json_files(const struct groups *groups);
json_t *raw_json_group(const struct groups *groups, const struct group *group);
json_t *raw_json_ns(uint64_t value);
json_t *raw_json_path(const char *path);

/* What a view makes of the groups that were read. */
struct raw_printer {
    int keep_values;                                       /* 1: it wants every sample */
    int (*text)(const struct groups *groups, uint32_t by); /* to stdout; 0 or a TAUT_E code */
    json_t *(*json)(const struct groups *groups);          /* a new object, NULL = no memory */
};

/* A whole view, from the checked options to the exit code: reads the files `paths`, divided by the
 * text `by`, and prints them as the printer does. */
int raw_view(const struct cli_command *command, const char *by, int as_json, int count,
             char **paths, const struct raw_printer *printer);

/* Writes the object and a line feed to stdout and frees it. `root` NULL: no memory. */
int raw_json_print(const struct cli_command *command, json_t *root, int exit_code);

#endif
