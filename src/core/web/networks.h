/* SPDX-License-Identifier: Apache-2.0 */
/*
 * networks: blocks of addresses, IPv4 and IPv6, as a config names them: 10.0.0.0/8, 192.0.2.7,
 * fd00::/8. An IPv4 address is one with ::ffff:0:0/96 before it, so that it is met however the
 * socket shows it. Pure.
 */
#ifndef PAWL_CORE_NETWORKS_H
#define PAWL_CORE_NETWORKS_H

#include "base/slice.h"

#define NETWORKS_MAX 32
#define NETWORK_ADDRESS_SIZE 16

struct network_address {
    unsigned char bytes[NETWORK_ADDRESS_SIZE];
};

struct network {
    struct network_address address;
    unsigned bits; /* of it that count */
};

struct networks {
    size_t n;
    struct network at[NETWORKS_MAX];
};

/* Reads ADDRESS or ADDRESS/BITS. */
bool network_read(struct slice text, struct network *ret_network);

/* The address of 4 bytes. */
struct network_address network_address_v4(const void *bytes);

/* Whether one of them holds the address. */
bool networks_hold(const struct networks *networks, const struct network_address *address);

#endif
