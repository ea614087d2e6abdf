/* SPDX-License-Identifier: Apache-2.0 */
/* A table of lists under one lock: it is held for a few steps, and only when one comes or goes. The
 * hash is seeded, so that no client can choose addresses that share a list. */
#include "http/peers.h"

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "base/thread.h"
#include <netinet/in.h>
#include <string.h>

#define LISTS_LEAST ((size_t)64)

struct entry {
    struct entry *next;
    struct peer peer;
    size_t held;
};

struct peers {
    struct mutex mutex;
    uint64_t seed[2];
    size_t n_lists; /* a power of two */
    size_t n_entries;
    struct entry *lists[];
};

struct peers *peers_new(size_t max)
{
    size_t n = LISTS_LEAST;
    while (n < max)
        n *= 2;
    struct peers *peers = mem_zalloc(1, sizeof *peers + n * sizeof peers->lists[0]);
    if (!peers)
        return NULL;
    mutex_init(&peers->mutex);
    random_bytes(peers->seed, sizeof peers->seed);
    peers->n_lists = n;
    return peers;
}

void peers_free(struct peers *peers)
{
    if (!peers)
        return;
    CHECK(peers->n_entries == 0);
    mutex_fini(&peers->mutex);
    mem_free(peers);
}

static uint64_t high_64(const unsigned char *bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

struct peer peer_of(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *in4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET)
        return (struct peer){ntohl(in4->sin_addr.s_addr), true};
    if (address->ss_family != AF_INET6)
        return (struct peer){0};
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        return (struct peer){high_64(in6->sin6_addr.s6_addr + 8) & UINT32_MAX, true};
    return (struct peer){high_64(in6->sin6_addr.s6_addr), false};
}

struct peer peer_of_digest(const struct digest *digest)
{
    return (struct peer){high_64(digest->bytes), false};
}

static struct entry **peers_in_slot(struct peers *peers, struct peer peer)
{
    uint64_t h = (peer.network ^ peers->seed[0]) * (peers->seed[1] | 1);
    h = (h ^ h >> 32) * (peers->seed[0] | 1);
    return &peers->lists[(h ^ h >> 32) & (peers->n_lists - 1)];
}

/* Where the entry of `peer` hangs; what hangs there is NULL without one. */
static struct entry **find_peer(struct peers *peers, struct peer peer)
{
    struct entry **at = peers_in_slot(peers, peer);
    while (*at && ((*at)->peer.network != peer.network || (*at)->peer.v4 != peer.v4))
        at = &(*at)->next;
    return at;
}

static bool enter_peer(struct peers *peers, struct peer peer, size_t limit)
{
    struct entry **at = find_peer(peers, peer);
    if (limit == 0 || (*at && (*at)->held >= limit))
        return false;
    if (!*at) {
        struct entry *made = mem_zalloc(1, sizeof *made);
        if (!made)
            return false;
        made->peer = peer;
        peers->n_entries++;
        *at = made;
    }
    (*at)->held++;
    return true;
}

bool peers_enter(struct peers *peers, struct peer peer, size_t limit)
{
    mutex_lock(&peers->mutex);
    bool entered = enter_peer(peers, peer, limit);
    mutex_unlock(&peers->mutex);
    return entered;
}

void peers_leave(struct peers *peers, struct peer peer)
{
    mutex_lock(&peers->mutex);
    struct entry **at = find_peer(peers, peer);
    struct entry *entry = *at;
    CHECK(entry && entry->held > 0);
    if (--entry->held == 0) {
        *at = entry->next;
        peers->n_entries--;
        mem_free(entry);
    }
    mutex_unlock(&peers->mutex);
}
