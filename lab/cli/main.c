/* SPDX-License-Identifier: BSD-2-Clause */
/* cli/main.c - the `taut` command: finds the subcommand and runs it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <taut/taut.h>

#include "cli/cli.h"

struct entry {
    const char *first, *second; /* second NULL: a one-word command */
    int (*run)(int argc, char **argv);
    const char *summary;
};

static const struct entry entries[] = {
    {"bench", "pool", cmd_bench_pool, "a whole FIX pool: server, clients, table"},
    {"serve", NULL, cmd_serve, "the FIX gateway alone"},
    {"load", NULL, cmd_load, "clients against a server that is already there"},
    {"raw", "maxima", cmd_raw_maxima, "maxima of raw sample files, per run and phase"},
    {"raw", "quantiles", cmd_raw_quantiles, "quantiles of raw sample files, per run and phase"},
    {"fix", "cat", cmd_fix_cat, "show a FIX log with names, garbled messages marked"},
};

static void help(FILE *to)
{
    fprintf(to, "usage: taut COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        const struct entry *e = &entries[i];
        char name[32];
        snprintf(name, sizeof(name), "%s%s%s", e->first, e->second ? " " : "",
                 e->second ? e->second : "");
        fprintf(to, "  taut %-16s %s\n", name, e->summary);
    }
    fprintf(to, "\n`taut COMMAND --help` tells the options; taut(1) the exit codes.\n");
}

/* `taut raw` alone, or with an unknown second word: say which ones there are. */
static int incomplete(const char *first, const char *second)
{
    int known = 0;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        known |= strcmp(entries[i].first, first) == 0;
    if (!known)
        fprintf(stderr, "taut: unknown command '%s'; `taut --help` lists them\n", first);
    else if (second)
        fprintf(stderr, "taut: unknown command '%s %s'; `taut --help` lists them\n", first, second);
    else
        fprintf(stderr, "taut: '%s' wants a second word; `taut --help` lists them\n", first);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    /* A closed pipe and a file size limit are errors of a write, and are told as such. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        help(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("taut %s\n", taut_version());
        return EXIT_OK;
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        const struct entry *e = &entries[i];
        if (strcmp(e->first, argv[1]) != 0)
            continue;
        if (!e->second)
            return e->run(argc - 1, argv + 1);
        if (argc > 2 && strcmp(e->second, argv[2]) == 0)
            return e->run(argc - 2, argv + 2);
    }
    return incomplete(argv[1], argc > 2 ? argv[2] : NULL);
}
