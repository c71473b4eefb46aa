/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gateway/registry.c - who may log on, and who is.
 *
 * Keyed by BeginString, our CompID and theirs. The lock is taken once at a Logon and once when the
 * session is let go, by whichever worker has the connection: that is also what hands a session's
 * memory from the worker of its last connection to that of the next.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fix/session_config.h"
#include "gateway/internal.h"

struct key {
    const uint8_t *ours, *theirs;
    uint32_t ours_length, theirs_length, version;
};

/* FNV-1a: short keys, and no peer gains by collisions, as it can't choose configured CompIDs and
 * dynamic ones are bounded by the connections. */
static uint32_t hash(const struct key *key)
{
    uint32_t h = 2166136261u ^ key->version;
    for (uint32_t i = 0; i < key->ours_length; i++)
        h = (h ^ key->ours[i]) * 16777619u;
    h = (h ^ 0x01) * 16777619u;
    for (uint32_t i = 0; i < key->theirs_length; i++)
        h = (h ^ key->theirs[i]) * 16777619u;
    return h;
}

static struct taut__entry **bucket_of(struct taut__registry *r, const struct key *key)
{
    return &r->buckets[hash(key) & r->bucket_mask];
}

static struct taut__entry *find(struct taut__registry *r, const struct key *key)
{
    for (struct taut__entry *e = *bucket_of(r, key); e; e = e->next)
        if (e->version == key->version && e->ours_length == key->ours_length &&
            e->theirs_length == key->theirs_length &&
            memcmp(e->ours, key->ours, key->ours_length) == 0 &&
            memcmp(e->theirs, key->theirs, key->theirs_length) == 0)
            return e;
    return NULL;
}

static struct key key_of(const struct taut__entry *e)
{
    return (struct key){e->ours, e->theirs, e->ours_length, e->theirs_length, e->version};
}

static void insert(struct taut__registry *r, struct taut__entry *e, const struct key *key)
{
    struct taut__entry **bucket = bucket_of(r, key);
    e->version = key->version;
    e->ours_length = key->ours_length;
    e->theirs_length = key->theirs_length;
    memcpy(e->ours, key->ours, key->ours_length);
    memcpy(e->theirs, key->theirs, key->theirs_length);
    e->next = *bucket;
    *bucket = e;
}

static int add_static(struct taut__registry *r, struct taut__entry *e,
                      struct taut_session_config config, uint32_t number, struct taut_err *err)
{
    if (!config.sender_comp_id || !config.target_comp_id)
        return taut_err_set(err, TAUT_EINVAL, "session %u: a CompID is missing", number);
    int code = taut_session_init(&e->session, e->memory, taut_session_footprint(), &config, err);
    if (code)
        return code;
    struct key key = {(const uint8_t *)config.sender_comp_id,
                      (const uint8_t *)config.target_comp_id,
                      (uint32_t)strlen(config.sender_comp_id),
                      (uint32_t)strlen(config.target_comp_id), config.version};
    if (key.ours_length >= TAUT__COMP_ID_MAX || key.theirs_length >= TAUT__COMP_ID_MAX)
        return taut_err_set(err, TAUT_EINVAL, "session %u: a CompID is longer than %u bytes",
                            number, TAUT__COMP_ID_MAX - 1);
    if (find(r, &key))
        return taut_err_set(err, TAUT_EINVAL, "session %u: %s %s->%s is there twice", number,
                            taut_fix_version_text(config.version), config.sender_comp_id,
                            config.target_comp_id);
    insert(r, e, &key);
    return 0;
}

int taut__registry_init(struct taut__registry *r, const struct taut_gateway_options *options,
                        struct taut_err *err)
{
    size_t footprint = (taut_session_footprint() + 63) & ~(size_t)63;
    uint64_t wanted =
        (uint64_t)options->session_count + (options->any_target ? options->connections : 0);
    uint32_t buckets = 64;
    pthread_mutex_init(&r->lock, NULL);
    while (buckets < wanted && buckets < (1u << 24))
        buckets *= 2;
    r->bucket_mask = buckets - 1;
    r->entry_count = options->session_count;
    r->any_target = options->any_target;
    r->buckets = calloc(buckets, sizeof(*r->buckets));
    r->entries = calloc(r->entry_count, sizeof(*r->entries));
    r->memory_bytes = footprint * r->entry_count;
    r->memory = mmap(NULL, r->memory_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->memory == MAP_FAILED)
        r->memory = NULL;
    if (!r->buckets || !r->entries || !r->memory)
        return taut_err_set(err, TAUT_ENOMEM, "no memory for %u sessions", r->entry_count);
    const uint8_t *given = (const uint8_t *)options->sessions;
    for (uint32_t i = 0; i < r->entry_count; i++) {
        struct taut_session_config config;
        int code = taut__session_config_take(&config, given, err);
        if (code)
            return code;
        config.role = TAUT_ACCEPTOR;
        if (i == 0)
            r->pattern = config;
        r->entries[i].memory = (uint8_t *)r->memory + i * footprint;
        code = add_static(r, &r->entries[i], config, i, err);
        if (code)
            return code;
        /* The array is the caller's, and so is the distance of its elements. */
        given += taut__session_config_size(options->sessions);
    }
    r->pattern.store = NULL; /* a store belongs to one session; dynamic ones have none */
    r->pattern.next_in = r->pattern.next_out = 0;
    return 0;
}

void taut__registry_free(struct taut__registry *r)
{
    if (r->memory)
        munmap(r->memory, r->memory_bytes);
    free(r->buckets);
    free(r->entries);
    pthread_mutex_destroy(&r->lock);
}

/* A new session for a peer that is in no configuration, by the pattern of the first one. */
static enum taut__claim claim_dynamic(struct taut__registry *r, const struct key *key,
                                      struct taut__entry *spare, struct taut__entry **entry)
{
    const struct taut__entry *first = &r->entries[0];
    char theirs[TAUT__COMP_ID_MAX];
    if (!r->any_target || key->version != first->version ||
        key->ours_length != first->ours_length ||
        memcmp(key->ours, first->ours, first->ours_length) != 0)
        return TAUT__CLAIM_UNKNOWN;
    memcpy(theirs, key->theirs, key->theirs_length);
    theirs[key->theirs_length] = '\0';
    struct taut_session_config config = r->pattern;
    config.target_comp_id = theirs;
    if (taut_session_init(&spare->session, spare->memory, taut_session_footprint(), &config, NULL))
        return TAUT__CLAIM_UNKNOWN;
    spare->dynamic = 1;
    spare->connected = 1;
    insert(r, spare, key);
    *entry = spare;
    return TAUT__CLAIM_GOOD;
}

enum taut__claim taut__registry_claim(struct taut__registry *r, const struct taut_message *logon,
                                      struct taut__entry *spare, struct taut__entry **entry)
{
    struct key key = {0};
    uint32_t length = 0;
    const uint8_t *begin_string = taut_message_get(logon, 8, &length);
    int version = taut_fix_version_from(begin_string, length);
    key.theirs = taut_message_get(logon, 49, &key.theirs_length);
    key.ours = taut_message_get(logon, 56, &key.ours_length);
    if (version < 0 || !key.ours || !key.theirs || key.ours_length == 0 || key.theirs_length == 0 ||
        key.ours_length >= TAUT__COMP_ID_MAX || key.theirs_length >= TAUT__COMP_ID_MAX ||
        memchr(key.theirs, 0, key.theirs_length))
        return TAUT__CLAIM_UNKNOWN;
    key.version = (uint32_t)version;

    enum taut__claim result = TAUT__CLAIM_GOOD;
    pthread_mutex_lock(&r->lock);
    struct taut__entry *found = find(r, &key);
    if (!found) {
        result = claim_dynamic(r, &key, spare, entry);
    } else if (found->connected) {
        result = TAUT__CLAIM_DUPLICATE;
    } else {
        found->connected = 1;
        *entry = found;
    }
    pthread_mutex_unlock(&r->lock);
    return result;
}

void taut__registry_release(struct taut__registry *r, struct taut__entry *entry)
{
    pthread_mutex_lock(&r->lock);
    TAUT_CHECK(entry->connected);
    entry->connected = 0;
    if (entry->dynamic) {
        struct key key = key_of(entry);
        struct taut__entry **link = bucket_of(r, &key);
        while (*link != entry)
            link = &(*link)->next;
        *link = entry->next;
    }
    pthread_mutex_unlock(&r->lock);
}
