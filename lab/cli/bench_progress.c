/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli/bench_progress.c - one line on a terminal, rewritten in place; in a pipe there is none.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench.h"
#include "report/table.h"

int bench_progress_wanted(const struct bench *b)
{
    const char *terminal = getenv("TERM");
    return !b->options.quiet && isatty(STDERR_FILENO) &&
           !(terminal && strcmp(terminal, "dumb") == 0);
}

void bench_progress(void *context, const struct load_progress *p)
{
    const struct bench *b = context;
    char line[200], rate[FORMAT_BYTES], worst[FORMAT_BYTES];
    int length;
    if (p->stopping)
        length = snprintf(line, sizeof(line), "\r\033[Kstopping; closing the raw files");
    else if (p->run == 0)
        length = snprintf(line, sizeof(line), "\r\033[K%u of %u sessions logged on", p->ready,
                          p->sessions);
    else
        length = snprintf(line, sizeof(line),
                          "\r\033[Krun %u/%u  %-7s  %12s  worst of this run %s  %.0f s", p->run,
                          p->runs, p->phase == LOAD_WARMUP ? "warm-up" : "measure",
                          format_rate(rate, p->rate_per_s, TAUT_NS_PER_S),
                          format_duration(worst, p->worst_ns), (double)p->elapsed_ns / 1e9);
    (void)b;
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
        return; /* a terminal that went away: the result is what counts */
}

void bench_progress_end(const struct bench *b)
{
    static const char clear[] = "\r\033[K";
    if (bench_progress_wanted(b) && write(STDERR_FILENO, clear, sizeof(clear) - 1) < 0)
        return;
}
