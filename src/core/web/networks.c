/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/networks.h"

#include <arpa/inet.h>

#define V4_BITS 96 /* before an IPv4 address */

struct network_address network_address_v4(const void *bytes)
{
    struct network_address address = {{[10] = 0xff, [11] = 0xff}};
    memcpy(address.bytes + V4_BITS / 8, bytes, 4);
    return address;
}

static bool address_read(struct slice text, struct network_address *ret_address, bool *ret_v4)
{
    char copy[INET6_ADDRSTRLEN];
    struct in_addr v4;
    if (text.len == 0 || text.len >= sizeof copy)
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    *ret_v4 = inet_pton(AF_INET, copy, &v4) == 1;
    if (!*ret_v4)
        return inet_pton(AF_INET6, copy, ret_address->bytes) == 1;
    *ret_address = network_address_v4(&v4);
    return true;
}

bool network_read(struct slice text, struct network *ret_network)
{
    struct slice address;
    struct slice bits = slice_cut(text, '/', &address);
    struct network network = {0};
    bool v4 = false;
    if (!address_read(address, &network.address, &v4))
        return false;
    uint64_t most = v4 ? 32 : 128;
    uint64_t given = most;
    if (bits.at && !slice_to_u64(bits, most, &given))
        return false;
    network.bits = (unsigned)given + (v4 ? V4_BITS : 0);
    *ret_network = network;
    return true;
}

static bool network_holds(const struct network *network, const struct network_address *address)
{
    size_t whole = network->bits / 8;
    unsigned rest = network->bits % 8;
    const unsigned char *a = network->address.bytes;
    const unsigned char *b = address->bytes;
    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

bool networks_hold(const struct networks *networks, const struct network_address *address)
{
    for (size_t i = 0; i < networks->n; i++)
        if (network_holds(&networks->at[i], address))
            return true;
    return false;
}
