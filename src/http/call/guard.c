/* SPDX-License-Identifier: Apache-2.0 */
#include "http/call/guard.h"

#include "base/check.h"
#include "base/mem.h"
#include "core/web/public_address.h"
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdatomic.h>

/* Addresses of this machine; more are not looked at: private ones are refused by their range. */
#define OWN_MAX 256

struct http_guard {
    atomic_int refs;
    struct http_guard_config config;
};

struct http_guard *http_guard_new(const struct http_guard_config *config)
{
    struct http_guard *guard = mem_zalloc(1, sizeof *guard);
    if (!guard)
        return NULL;
    atomic_init(&guard->refs, 1);
    guard->config = *config;
    return guard;
}

struct http_guard *http_guard_ref(struct http_guard *guard)
{
    if (guard)
        CHECK(atomic_fetch_add(&guard->refs, 1) > 0);
    return guard;
}

void http_guard_unref(struct http_guard *guard)
{
    if (guard && atomic_fetch_sub(&guard->refs, 1) == 1)
        mem_free(guard);
}

const char *http_guard_url_refusal(const struct http_guard *guard, const struct url *url)
{
    return public_address_url_refusal(url, guard->config.allow_http);
}

/* False: it is of no family that has one. */
static bool read_peer_address(const struct sockaddr *from, struct network_address *ret_address)
{
    if (from && from->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)from;
        *ret_address = network_address_v4(&v4->sin_addr);
        return true;
    }
    if (!from || from->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;
    memcpy(ret_address->bytes, &v6->sin6_addr, sizeof ret_address->bytes);
    return true;
}

/* This machine's. False: the system does not say. */
static bool list_own(struct network_address own[OWN_MAX], size_t *ret_n)
{
    struct ifaddrs *all = NULL;
    *ret_n = 0;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *at = all; at && *ret_n < OWN_MAX; at = at->ifa_next)
        *ret_n += read_peer_address(at->ifa_addr, &own[*ret_n]);
    freeifaddrs(all);
    return true;
}

const char *http_guard_refusal(const struct http_guard *guard, const struct addrinfo *found)
{
    struct network_address own[OWN_MAX], address;
    struct public_address_rules rules = {.allow = guard->config.allow, .own = own};
    const char *refusal = NULL;
    if (!list_own(own, &rules.n_own))
        return "addresses that cannot be told from those of this machine";
    for (const struct addrinfo *at = found; at && !refusal; at = at->ai_next)
        refusal = read_peer_address(at->ai_addr, &address)
                      ? public_address_refusal(&rules, &address)
                      : "an address of an unknown family";
    return refusal;
}
