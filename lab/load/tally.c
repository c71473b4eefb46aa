/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/tally.c - the figures of a run from nothing but its raw files, so that whoever reads the
 * files by the documented format gets the same ones. Samples of all files are put together before
 * anything is computed: no quantile of quantiles, no mean of maxima.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/quantile.h"
#include "capture/raw.h"
#include "load/load.h"

#define STATUSES 7u

struct samples {
    uint64_t *values; /* finite service times first, then +infinity */
    size_t count, capacity;
};

static int add(struct samples *samples, uint64_t value)
{
    if (samples->count == samples->capacity) {
        size_t capacity = samples->capacity ? samples->capacity * 2 : 65536;
        uint64_t *values = realloc(samples->values, capacity * sizeof(*values));
        if (!values)
            return TAUT_ENOMEM;
        samples->values = values;
        samples->capacity = capacity;
    }
    samples->values[samples->count++] = value;
    return 0;
}

static void note_times(struct load_figures *f, const struct raw_record *r, uint64_t epoch_ns)
{
    uint64_t begin_ns = epoch_ns + r->begin_ns;
    if (f->first_begin_ns == 0 || begin_ns < f->first_begin_ns)
        f->first_begin_ns = begin_ns;
    if (r->status != RAW_ANSWERED && r->status != RAW_LATE)
        return;
    uint64_t service_ns = r->received_ns - r->begin_ns;
    if (epoch_ns + r->received_ns > f->last_received_ns)
        f->last_received_ns = epoch_ns + r->received_ns;
    if (f->min_ns == UINT64_MAX || service_ns < f->min_ns)
        f->min_ns = service_ns;
    if (service_ns >= f->max_ns) {
        f->max_ns = service_ns;
        f->begin_of_worst_ns = begin_ns;
        f->session_of_worst = r->conn;
    }
}

static int one_record(struct load_figures *f, struct samples *samples, const struct raw_record *r,
                      uint64_t epoch_ns)
{
    int answered = r->status == RAW_ANSWERED || r->status == RAW_LATE;
    if (r->status >= STATUSES || (answered && r->received_ns < r->begin_ns)) {
        f->by_status[STATUSES]++;
        return 0;
    }
    f->by_status[r->status]++;
    if (!answered && r->status != RAW_LOST && r->status != RAW_ERROR)
        return 0; /* empty, shed, unsent: no sample of service time */
    f->sent++;
    note_times(f, r, epoch_ns);
    return add(samples, answered ? r->received_ns - r->begin_ns : QUANTILE_INFINITE);
}

static int one_file(const char *path, struct load_figures figures[LOAD_PHASES],
                    struct samples samples[LOAD_PHASES])
{
    struct raw_reader *reader;
    uint64_t at = 0, count;
    int code = raw_reader_open(&reader, path, NULL);
    for (uint32_t phase = 0; phase < LOAD_PHASES; phase++)
        figures[phase].files++;
    if (code) {
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++)
            figures[phase].files_missing++;
        return 0;
    }
    if (raw_reader_damage(reader, NULL) != 0)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++)
            figures[phase].files_damaged++;
    uint64_t epoch_ns = raw_reader_info(reader)->epoch_ns;
    const struct raw_record *records;
    code = 0;
    while (code == 0 && (records = raw_reader_records(reader, at, &count)) != NULL && count > 0) {
        for (uint64_t i = 0; i < count && code == 0; i++) {
            uint32_t phase = records[i].phase == RAW_WARMUP ? LOAD_WARMUP : LOAD_MEASURE;
            if (records[i].status == RAW_EMPTY)
                continue;
            code = one_record(&figures[phase], &samples[phase], &records[i], epoch_ns);
        }
        at += count;
    }
    raw_reader_close(reader);
    return code;
}

static int summarise(struct load_figures *f, struct samples *samples)
{
    static const uint32_t ppm[LOAD_QUANTILES] = {QUANTILE_P50, QUANTILE_P90, QUANTILE_P99,
                                                 QUANTILE_P999, QUANTILE_P9999};
    uint64_t *scratch = malloc((samples->count + 1) * sizeof(*scratch));
    if (!scratch)
        return TAUT_ENOMEM;
    quantile_sort(samples->values, scratch, samples->count);
    free(scratch);
    f->n = samples->count;
    for (uint32_t q = 0; q < LOAD_QUANTILES; q++)
        f->quantile_ns[q] = quantile_of(samples->values, samples->count, ppm[q]);
    if (f->min_ns == UINT64_MAX)
        f->min_ns = 0;
    return 0;
}

int load_tally_run(const struct load_plan *plan, uint32_t run,
                   struct load_figures figures[LOAD_PHASES], struct taut_err *err)
{
    struct samples samples[LOAD_PHASES] = {{0}};
    char path[4096];
    int code = 0;
    memset(figures, 0, sizeof(*figures) * LOAD_PHASES);
    for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
        figures[phase].run = run;
        figures[phase].phase = phase;
        figures[phase].min_ns = UINT64_MAX;
    }
    for (uint32_t p = 0; p < plan->processes && code == 0; p++)
        if (load_raw_path(plan, run, p, path, sizeof(path)) == 0)
            code = one_file(path, figures, samples);
    for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
        if (code == 0)
            code = summarise(&figures[phase], &samples[phase]);
        free(samples[phase].values);
    }
    return code ? taut_err_set(err, code, "no memory for the samples of run %u", run) : 0;
}
