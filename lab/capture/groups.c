/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/groups.c - one pass over each file; groups are found by a small open hash table.
 *
 * Promises: every record is counted in exactly one group, also one that is damaged; with values not
 * kept the memory does not depend on the files' sizes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "capture/groups.h"
#include "capture/quantile.h"
#include "capture/raw.h"

#define TIME_LIMIT (UINT64_C(1) << 63) /* 292 years: no time of a run */

struct groups {
    uint32_t by;
    int keep_values;
    struct group **table; /* in the order of their first record, later sorted */
    uint32_t count, capacity;
    uint32_t *slots; /* hash table of 1 + index; a power of two, at most half full */
    uint32_t slot_count;
    struct group_file *files;
    struct file_identity {
        dev_t device;
        ino_t inode;
    } * identities;
    uint32_t file_count;
    char **directories;
    uint32_t directory_count;
};

/* The key of a group and the file that is being read. */
struct reading {
    struct groups *groups;
    const struct raw_info *info;
    uint32_t directory, file;
    struct group *last; /* of the record before: mostly the same one */
};

const char *sample_time_name(uint32_t time)
{
    static const char *const names[TIME_KINDS] = {"service", "response", "lateness"};
    return time < TIME_KINDS ? names[time] : "?";
}

int groups_create(struct groups **groups, uint32_t by, int keep_values, struct taut_err *err)
{
    struct groups *g = calloc(1, sizeof(*g));
    *groups = g;
    if (!g)
        return taut_err_set(err, TAUT_ENOMEM, "no memory for groups");
    g->by = by;
    g->keep_values = keep_values;
    return 0;
}

/* --- finding a group ------------------------------------------------------------------------- */

static uint32_t hash_key(const struct group *key)
{
    uint64_t hash = ((uint64_t)key->run << 32 | key->session) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= ((uint64_t)key->directory << 40 | (uint64_t)key->phase << 32 | key->process) *
            UINT64_C(0xc2b2ae3d27d4eb4f);
    return (uint32_t)(hash >> 32) ^ (uint32_t)hash;
}

static int same_key(const struct group *a, const struct group *b)
{
    return a->session == b->session && a->phase == b->phase && a->run == b->run &&
           a->process == b->process && a->directory == b->directory;
}

static void put_slot(struct groups *groups, uint32_t index)
{
    uint32_t mask = groups->slot_count - 1;
    uint32_t slot = hash_key(groups->table[index]) & mask;
    while (groups->slots[slot])
        slot = (slot + 1) & mask;
    groups->slots[slot] = index + 1;
}

static int make_room(struct groups *groups)
{
    if (groups->count < groups->capacity)
        return 0;
    uint32_t capacity = groups->capacity ? groups->capacity * 2 : 32;
    struct group **table = realloc(groups->table, capacity * sizeof(*table));
    if (!table)
        return TAUT_ENOMEM;
    groups->table = table;
    uint32_t *slots = calloc((size_t)capacity * 2, sizeof(*slots));
    if (!slots)
        return TAUT_ENOMEM;
    free(groups->slots);
    groups->slots = slots;
    groups->slot_count = capacity * 2;
    groups->capacity = capacity;
    for (uint32_t i = 0; i < groups->count; i++)
        put_slot(groups, i);
    return 0;
}

/* The group of a record; made where it is the first one. NULL: no memory. */
static struct group *group_of(struct reading *reading, const struct raw_record *record)
{
    struct groups *groups = reading->groups;
    struct group key = {.directory = reading->directory,
                        .run = reading->info->run,
                        .phase = groups->by == GROUPS_BY_RUN ? GROUP_ALL : record->phase,
                        .process =
                            groups->by == GROUPS_BY_PROCESS ? reading->info->process : GROUP_ALL,
                        .session = groups->by == GROUPS_BY_SESSION ? record->conn : GROUP_ALL};
    if (reading->last && same_key(reading->last, &key))
        return reading->last;
    if (groups->slot_count) {
        uint32_t mask = groups->slot_count - 1;
        for (uint32_t slot = hash_key(&key) & mask; groups->slots[slot]; slot = (slot + 1) & mask) {
            struct group *found = groups->table[groups->slots[slot] - 1];
            if (same_key(found, &key))
                return reading->last = found;
        }
    }
    if (make_room(groups) != 0)
        return NULL;
    struct group *made = malloc(sizeof(*made));
    if (!made)
        return NULL;
    *made = key;
    groups->table[groups->count] = made;
    put_slot(groups, groups->count++);
    return reading->last = made;
}

/* --- adding a record ------------------------------------------------------------------------- */

static int keep(struct sample_series *series, uint64_t value)
{
    if (series->n == series->capacity) {
        uint64_t capacity = series->capacity ? series->capacity + series->capacity / 2 : 4096;
        uint64_t *values = realloc(series->values, (size_t)capacity * sizeof(*values));
        if (!values)
            return TAUT_ENOMEM;
        series->values = values;
        series->capacity = capacity;
    }
    series->values[series->n] = value;
    return 0;
}

static int add_sample(const struct reading *reading, struct sample_series *series, uint64_t value,
                      const struct raw_record *record, uint64_t index)
{
    uint64_t finite_before = series->n - series->unanswered;
    if (reading->groups->keep_values && keep(series, value) != 0)
        return TAUT_ENOMEM;
    series->n++;
    if (value == QUANTILE_INFINITE) {
        series->unanswered++;
        return 0;
    }
    struct sample_place place = {.ns = value,
                                 .record = index,
                                 .begin_ns = record->begin_ns,
                                 .session = record->conn,
                                 .file = reading->file};
    if (reading->info->epoch_utc_ns && reading->info->epoch_utc_ns < TIME_LIMIT)
        place.utc_ns = reading->info->epoch_utc_ns + record->begin_ns;
    if (finite_before == 0 || value < series->min.ns)
        series->min = place;
    if (finite_before == 0 || value > series->max.ns)
        series->max = place;
    return 0;
}

/* 1 when the times that count for this status are ones that version 1 allows. */
static int plausible(const struct raw_record *r, int closed_loop)
{
    int sent = r->status >= RAW_ANSWERED && r->status <= RAW_ERROR;
    int answered = r->status == RAW_ANSWERED || r->status == RAW_LATE;
    if (r->status > RAW_UNSENT || r->status == RAW_EMPTY || r->phase < RAW_WARMUP ||
        r->phase > RAW_DRAIN || r->intended_ns >= TIME_LIMIT)
        return 0;
    if (sent && (r->begin_ns >= TIME_LIMIT || (!closed_loop && r->begin_ns < r->intended_ns)))
        return 0;
    return !answered || (r->received_ns >= r->begin_ns && r->received_ns < TIME_LIMIT);
}

static int add_record(const struct reading *reading, struct group *group,
                      const struct raw_record *r, uint64_t index)
{
    static const struct raw_record zero;
    int closed_loop = reading->info->closed_loop != 0;
    int answered = r->status == RAW_ANSWERED || r->status == RAW_LATE;
    int sent = r->status >= RAW_ANSWERED && r->status <= RAW_ERROR;
    int code = 0;
    group->records++;
    group->open_loop |= !closed_loop;
    if (memcmp(r, &zero, sizeof(zero)) == 0) {
        group->by_status[RAW_EMPTY]++;
        return 0;
    }
    if (!plausible(r, closed_loop)) {
        group->damaged++;
        return 0;
    }
    group->by_status[r->status]++;
    if (sent)
        code = add_sample(reading, &group->series[TIME_SERVICE],
                          answered ? r->received_ns - r->begin_ns : QUANTILE_INFINITE, r, index);
    if (code == 0 && !closed_loop)
        code = add_sample(reading, &group->series[TIME_RESPONSE],
                          answered ? r->received_ns - r->intended_ns : QUANTILE_INFINITE, r, index);
    if (code == 0 && !closed_loop && sent)
        code = add_sample(reading, &group->series[TIME_LATENESS], r->begin_ns - r->intended_ns, r,
                          index);
    return code;
}

/* --- files ----------------------------------------------------------------------------------- */

static int find_directory(struct groups *groups, const char *path, uint32_t *index)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + (slash == path) : 1;
    char *name = strndup(slash ? path : ".", length);
    char *resolved = name ? realpath(name, NULL) : NULL;
    const char *key = resolved ? resolved : name;
    int code = key ? 0 : TAUT_ENOMEM;
    for (*index = 0; code == 0 && *index < groups->directory_count; ++*index)
        if (strcmp(groups->directories[*index], key) == 0)
            break;
    if (code == 0 && *index == groups->directory_count) {
        char **grown = realloc(groups->directories, (*index + 1) * sizeof(*grown));
        char *copy = strdup(key);
        if (grown)
            groups->directories = grown;
        if (grown && copy) {
            grown[groups->directory_count++] = copy;
        } else {
            free(copy);
            code = TAUT_ENOMEM;
        }
    }
    free(name);
    free(resolved);
    return code;
}

static int add_file_entry(struct groups *groups, const char *path, struct raw_reader *reader,
                          const struct file_identity *identity, uint32_t directory)
{
    uint32_t n = groups->file_count;
    struct group_file *files = realloc(groups->files, (n + 1) * sizeof(*files));
    if (files)
        groups->files = files;
    struct file_identity *identities = realloc(groups->identities, (n + 1) * sizeof(*identities));
    if (identities)
        groups->identities = identities;
    char *copy = strdup(path);
    if (!files || !identities || !copy) {
        free(copy);
        return TAUT_ENOMEM;
    }
    files[n] = (struct group_file){.path = copy, .directory = directory};
    raw_reader_damage(reader, &files[n].damage);
    const struct raw_info *info = raw_reader_info(reader);
    files[n].run = info->run;
    files[n].process = info->process;
    files[n].closed_loop = info->closed_loop;
    files[n].complete = info->complete;
    files[n].records = info->records;
    identities[n] = *identity;
    groups->file_count++;
    return 0;
}

static int add_all(struct groups *groups, struct raw_reader *reader, uint32_t directory)
{
    struct reading reading = {.groups = groups,
                              .info = raw_reader_info(reader),
                              .directory = directory,
                              .file = groups->file_count - 1};
    uint64_t count;
    const struct raw_record *records = raw_reader_records(reader, 0, &count);
    for (uint64_t i = 0; i < count; i++) {
        struct group *group = group_of(&reading, &records[i]);
        if (!group || add_record(&reading, group, &records[i], i) != 0)
            return TAUT_ENOMEM;
    }
    return 0;
}

int groups_add_file(struct groups *groups, const char *path, struct taut_err *err)
{
    struct raw_reader *reader;
    struct stat status;
    uint32_t directory = 0;
    int code = raw_reader_open(&reader, path, err);
    if (code != 0)
        return code;
    struct file_identity identity = {0, 0};
    if (stat(path, &status) == 0)
        identity = (struct file_identity){status.st_dev, status.st_ino};
    for (uint32_t i = 0; code == 0 && i < groups->file_count; i++)
        if (groups->identities[i].device == identity.device &&
            groups->identities[i].inode == identity.inode)
            code = taut_err_set(err, TAUT_EBUSY, "%s is the same file as %s", path,
                                groups->files[i].path);
    if (code == 0) {
        code = find_directory(groups, path, &directory);
        if (code == 0)
            code = add_file_entry(groups, path, reader, &identity, directory);
        if (code == 0)
            code = add_all(groups, reader, directory);
        if (code != 0)
            taut_err_set(err, code, "no memory for the samples of %s", path);
    }
    raw_reader_close(reader);
    return code;
}

/* --- results --------------------------------------------------------------------------------- */

static int compare_groups(const void *left, const void *right)
{
    const struct group *a = *(struct group *const *)left, *b = *(struct group *const *)right;
    const uint32_t keys[5][2] = {{a->directory, b->directory},
                                 {a->run, b->run},
                                 {a->phase, b->phase},
                                 {a->process, b->process},
                                 {a->session, b->session}};
    for (int i = 0; i < 5; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

int groups_sort(struct groups *groups, struct taut_err *err)
{
    uint64_t largest = 0;
    if (groups->count)
        qsort(groups->table, groups->count, sizeof(struct group *), compare_groups);
    for (uint32_t i = 0; i < groups->count; i++)
        for (uint32_t time = 0; time < TIME_KINDS; time++)
            if (groups->table[i]->series[time].n > largest)
                largest = groups->table[i]->series[time].n;
    if (!groups->keep_values || largest == 0)
        return 0;
    uint64_t *scratch = malloc((size_t)largest * sizeof(*scratch));
    if (!scratch)
        return taut_err_set(err, TAUT_ENOMEM, "no memory to sort %llu samples",
                            (unsigned long long)largest);
    for (uint32_t i = 0; i < groups->count; i++)
        for (uint32_t time = 0; time < TIME_KINDS; time++) {
            struct sample_series *series = &groups->table[i]->series[time];
            if (series->n)
                quantile_sort(series->values, scratch, (size_t)series->n);
        }
    free(scratch);
    return 0;
}

uint32_t groups_count(const struct groups *groups)
{
    return groups->count;
}

const struct group *groups_at(const struct groups *groups, uint32_t index)
{
    return groups->table[index];
}

uint32_t groups_file_count(const struct groups *groups)
{
    return groups->file_count;
}

const struct group_file *groups_file(const struct groups *groups, uint32_t index)
{
    return &groups->files[index];
}

uint32_t groups_directory_count(const struct groups *groups)
{
    return groups->directory_count;
}

const char *groups_directory(const struct groups *groups, uint32_t index)
{
    return groups->directories[index];
}

void groups_destroy(struct groups *groups)
{
    if (!groups)
        return;
    for (uint32_t i = 0; i < groups->count; i++) {
        for (uint32_t time = 0; time < TIME_KINDS; time++)
            free(groups->table[i]->series[time].values);
        free(groups->table[i]);
    }
    for (uint32_t i = 0; i < groups->file_count; i++)
        free(groups->files[i].path);
    for (uint32_t i = 0; i < groups->directory_count; i++)
        free(groups->directories[i]);
    free(groups->table);
    free(groups->slots);
    free(groups->files);
    free(groups->identities);
    free(groups->directories);
    free(groups);
}
