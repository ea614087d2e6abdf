/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers: how many of something each peer holds, over all loops: connections of an address, requests
 * in flight of a tenant. IPv4 counts whole; of IPv6 the first 64 bits, as that is the least that
 * one client is given; of a tenant 64 bits of its keyed hash.
 */
#ifndef PAWL_HTTP_PEERS_H
#define PAWL_HTTP_PEERS_H

#include "base/crypto/digest.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct peers;

struct peer {
    uint64_t network; /* IPv4: the address; IPv6: its first half; else of a hash */
    bool v4;
};

/* For about `max` holdings at one time; more cost time. NULL: no memory. */
struct peers *peers_new(size_t max);
/* Every peer must have left. Accepts NULL. */
void peers_free(struct peers *peers);

/* The peer that an address of either family counts for. */
struct peer peer_of(const struct sockaddr_storage *address);

/* The peer of whatever was hashed. */
struct peer peer_of_digest(const struct digest *digest);

/* From any thread: one more of `peer`, unless it has `limit`, or memory ran out. */
bool peers_enter(struct peers *peers, struct peer peer, size_t limit);
/* From any thread: one less. It must have entered. */
void peers_leave(struct peers *peers, struct peer peer);

#endif
