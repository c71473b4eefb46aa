/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses: numeric ones without the resolver, names by getaddrinfo(3). A numeric address never
 * allocates and never blocks; a name may do both.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "port/port.h"

void taut__port_address_from(struct taut__port_address *address,
                             const struct sockaddr_storage *storage)
{
    memset(address, 0, sizeof *address);
    address->family = storage->ss_family;
    if (storage->ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, storage, sizeof in);
        address->number = ntohs(in.sin_port);
        memcpy(address->bytes, &in.sin_addr, 4);
    } else if (storage->ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, storage, sizeof in6);
        address->number = ntohs(in6.sin6_port);
        address->scope = in6.sin6_scope_id;
        memcpy(address->bytes, &in6.sin6_addr, 16);
    }
}

socklen_t taut__port_address_to(const struct taut__port_address *address,
                                struct sockaddr_storage *storage)
{
    memset(storage, 0, sizeof *storage);
    if (address->family == AF_INET) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(address->number)};
        memcpy(&in.sin_addr, address->bytes, 4);
        memcpy(storage, &in, sizeof in);
        return sizeof in;
    }
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons(address->number),
                               .sin6_scope_id = address->scope};
    memcpy(&in6.sin6_addr, address->bytes, 16);
    memcpy(storage, &in6, sizeof in6);
    return sizeof in6;
}

size_t taut__port_address_format(const struct taut__port_address *address, char *text,
                                 size_t capacity)
{
    char host[INET6_ADDRSTRLEN] = "?";
    int length;
    if (address->family == AF_INET) {
        inet_ntop(AF_INET, address->bytes, host, sizeof host);
        length = snprintf(text, capacity, "%s:%u", host, address->number);
    } else if (address->family == AF_INET6) {
        inet_ntop(AF_INET6, address->bytes, host, sizeof host);
        length = snprintf(text, capacity, "[%s]:%u", host, address->number);
    } else {
        length = snprintf(text, capacity, "%s", address->family == AF_UNIX ? "unix" : "?");
    }
    return length < 0 ? 0 : (size_t)length;
}

/* 1 = it was numeric and is stored. */
static int parse_numeric(struct taut__port_address *address, const char *host, uint16_t number)
{
    memset(address, 0, sizeof *address);
    address->number = number;
    if (inet_pton(AF_INET, host, address->bytes) == 1) {
        address->family = AF_INET;
        return 1;
    }
    if (inet_pton(AF_INET6, host, address->bytes) == 1) {
        address->family = AF_INET6;
        return 1;
    }
    return 0;
}

static int resolve_name(struct taut__port_address *addresses, const char *host, uint16_t number,
                        uint32_t passive, struct taut_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = passive ? AI_PASSIVE : AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    int failure = getaddrinfo(host, NULL, &hints, &list);
    if (failure == EAI_MEMORY)
        return taut_err_set(err, TAUT_ENOMEM, "no memory to resolve host \"%s\"", host);
    if (failure != 0)
        return taut_err_set(err, TAUT_ENOENT, "can't resolve host \"%s\": %s", host,
                            gai_strerror(failure));
    uint32_t count = 0;
    for (struct addrinfo *entry = list; entry && count < TAUT__PORT_ADDRESSES_MAX;
         entry = entry->ai_next) {
        if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6)
            continue;
        struct sockaddr_storage storage = {0};
        memcpy(&storage, entry->ai_addr, entry->ai_addrlen);
        taut__port_address_from(&addresses[count], &storage);
        addresses[count++].number = number;
    }
    freeaddrinfo(list);
    if (count == 0)
        return taut_err_set(err, TAUT_ENOENT, "host \"%s\" has no IP address", host);
    return (int)count;
}

int taut__port_address_resolve(struct taut__port_address *addresses, const char *host,
                               uint16_t number, uint32_t passive, struct taut_err *err)
{
    if (passive && (!host || strcmp(host, "*") == 0)) {
        /* "::" takes IPv4 as well where the system is set up so; the other one is the fallback. */
        parse_numeric(&addresses[0], "::", number);
        parse_numeric(&addresses[1], "0.0.0.0", number);
        return 2;
    }
    if (!host || !*host)
        return taut_err_set(err, TAUT_EINVAL, "no host given");
    size_t length = strlen(host);
    if (length > 255)
        return taut_err_set(err, TAUT_EINVAL, "a host name of %zu characters is too long", length);
    char bare[256];
    memcpy(bare, host, length + 1);
    if (host[0] == '[' && host[length - 1] == ']') {
        memcpy(bare, host + 1, length - 2);
        bare[length - 2] = 0;
    }
    if (parse_numeric(&addresses[0], bare, number))
        return 1;
    return resolve_name(addresses, bare, number, passive, err);
}
