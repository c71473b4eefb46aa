/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load/tally.c - the figures of a run from nothing but its raw files, by the same code as
 * `taut raw quantiles`, so that whoever reads the files by the documented format gets the same
 * ones. What only a load wants is added here: when the phase's first request was sent and its last
 * answer came, which is the time that a rate is over.
 */
#include <string.h>

#include "capture/groups.h"
#include "capture/quantile.h"
#include "capture/raw.h"
#include "load/load.h"

/* First request and last answer of each phase of one file. */
static void note_span(struct load_figures figures[LOAD_PHASES], const char *path)
{
    struct raw_reader *reader;
    const struct raw_record *records;
    uint64_t at = 0, count;
    if (raw_reader_open(&reader, path, NULL) != 0)
        return;
    uint64_t epoch_ns = raw_reader_info(reader)->epoch_ns;
    while ((records = raw_reader_records(reader, at, &count)) != NULL && count > 0) {
        for (uint64_t i = 0; i < count; i++) {
            const struct raw_record *r = &records[i];
            if (r->status == RAW_EMPTY || (r->phase != RAW_WARMUP && r->phase != RAW_MEASURE))
                continue;
            struct load_figures *f = &figures[r->phase == RAW_WARMUP ? LOAD_WARMUP : LOAD_MEASURE];
            uint64_t begin_ns = epoch_ns + r->begin_ns, received_ns = epoch_ns + r->received_ns;
            if (f->first_begin_ns == 0 || begin_ns < f->first_begin_ns)
                f->first_begin_ns = begin_ns;
            if ((r->status == RAW_ANSWERED || r->status == RAW_LATE) &&
                received_ns > f->last_received_ns)
                f->last_received_ns = received_ns;
        }
        at += count;
    }
    raw_reader_close(reader);
}

static void take_group(struct load_figures *f, const struct group *group,
                       const struct groups *groups)
{
    static const uint32_t ppm[LOAD_QUANTILES] = {QUANTILE_P50, QUANTILE_P90, QUANTILE_P99,
                                                 QUANTILE_P999, QUANTILE_P9999};
    const struct sample_series *service = &group->series[TIME_SERVICE];
    for (uint32_t status = 0; status < 7; status++)
        f->by_status[status] = group->by_status[status];
    f->by_status[7] = group->damaged;
    f->sent = group->by_status[RAW_ANSWERED] + group->by_status[RAW_LATE] +
              group->by_status[RAW_LOST] + group->by_status[RAW_ERROR];
    f->n = service->n;
    for (uint32_t q = 0; q < LOAD_QUANTILES; q++)
        f->quantile_ns[q] = quantile_of(service->values, (size_t)service->n, ppm[q]);
    if (service->n == service->unanswered)
        return;
    f->min_ns = service->min.ns;
    f->max_ns = service->max.ns;
    f->session_of_worst = service->max.session;
    f->record_of_worst = service->max.record;
    f->utc_of_worst_ns = service->max.utc_ns;
    f->process_of_worst = groups_file(groups, service->max.file)->process;
}

static int add_files(const struct load_plan *plan, uint32_t run, struct groups *groups,
                     struct load_figures figures[LOAD_PHASES], struct taut_err *err)
{
    char path[4096];
    for (uint32_t p = 0; p < plan->processes; p++) {
        int code = load_raw_path(plan, run, p, path, sizeof(path));
        if (code == 0)
            code = groups_add_file(groups, path, err);
        if (code == TAUT_ENOMEM)
            return code;
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
            figures[phase].files++;
            figures[phase].files_missing += code != 0;
        }
        if (code == 0)
            note_span(figures, path);
    }
    for (uint32_t i = 0; i < groups_file_count(groups); i++)
        for (uint32_t phase = 0; phase < LOAD_PHASES; phase++)
            figures[phase].files_damaged += groups_file(groups, i)->damage.code != 0;
    return 0;
}

int load_tally_run(const struct load_plan *plan, uint32_t run,
                   struct load_figures figures[LOAD_PHASES], struct taut_err *err)
{
    struct groups *groups;
    memset(figures, 0, sizeof(*figures) * LOAD_PHASES);
    for (uint32_t phase = 0; phase < LOAD_PHASES; phase++) {
        figures[phase].run = run;
        figures[phase].phase = phase;
        for (uint32_t q = 0; q < LOAD_QUANTILES; q++)
            figures[phase].quantile_ns[q] = QUANTILE_REFUSED;
    }
    int code = groups_create(&groups, GROUPS_BY_PHASE, 1, err);
    if (code)
        return code;
    code = add_files(plan, run, groups, figures, err);
    if (code == 0)
        code = groups_sort(groups, err);
    for (uint32_t i = 0; code == 0 && i < groups_count(groups); i++) {
        const struct group *group = groups_at(groups, i);
        if (group->phase == RAW_WARMUP || group->phase == RAW_MEASURE)
            take_group(&figures[group->phase == RAW_WARMUP ? LOAD_WARMUP : LOAD_MEASURE], group,
                       groups);
    }
    groups_destroy(groups);
    return code;
}
