/* SPDX-License-Identifier: BSD-2-Clause */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct guarded guarded_create(size_t largest)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t readable = (largest + TAUT_SCAN_PADDING + page - 1) / page * page;
    struct guarded g = {.mapped = readable + page};
    g.pages = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.pages == MAP_FAILED || mprotect(g.pages + readable, page, PROT_NONE) != 0) {
        perror("guard page");
        abort();
    }
    g.limit = g.pages + readable;
    return g;
}

void guarded_destroy(struct guarded *g)
{
    munmap(g->pages, g->mapped);
}

uint8_t *guarded_put(struct guarded *g, const void *bytes, size_t length, int fill)
{
    uint8_t *place = g->limit - TAUT_SCAN_PADDING - length;
    if (length)
        memcpy(place, bytes, length);
    memset(place + length, fill, TAUT_SCAN_PADDING);
    return place;
}

uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint32_t raw_message(uint8_t *out, const char *text)
{
    uint32_t length = 0;
    for (; text[length]; length++)
        out[length] = text[length] == '|' ? 1 : (uint8_t)text[length];
    return length;
}

void fix_checksum(uint8_t *message, uint32_t length)
{
    unsigned sum = 0;
    for (uint32_t i = 0; i + 7 < length; i++)
        sum += message[i];
    char digits[4];
    snprintf(digits, sizeof digits, "%03u", sum % 256);
    memcpy(message + length - 4, digits, 3);
}

uint32_t wrap_message(uint8_t *out, const char *begin, const uint8_t *body, uint32_t body_length)
{
    uint32_t length = (uint32_t)sprintf((char *)out, "8=%s\0019=%u\001", begin, body_length);
    memcpy(out + length, body, body_length);
    length += body_length;
    memcpy(out + length, "10=000\001", 7);
    fix_checksum(out, length + 7);
    return length + 7;
}

uint32_t build_message(uint8_t *out, const char *begin, const char *body)
{
    uint8_t *bytes = malloc(strlen(body) + 1);
    if (!bytes)
        abort();
    uint32_t body_length = raw_message(bytes, body);
    uint32_t length = wrap_message(out, begin, bytes, body_length);
    free(bytes);
    return length;
}
