/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/public_address.h"

#include "base/check.h"
#include "base/text/ascii.h"

#define V4(a, b, c, d)                                                                             \
    {                                                                                              \
        {                                                                                          \
            [10] = 0xff, [11] = 0xff, a, b, c, d                                                   \
        }                                                                                          \
    }
#define V4_BITS(n) (96 + (n))
#define CARRIED_MAX 2 /* Teredo: its server and its client */

struct range {
    struct network network;
    const char *what;
};

static const char own_refusal[] = "an address of this machine";

/* Not public. The first that holds an address names it, so what lies within another comes first. */
static const struct range ranges_v4[] = {
    {{V4(0, 0, 0, 0), V4_BITS(8)}, "an address of \"this network\" (RFC 1122)"},
    {{V4(10, 0, 0, 0), V4_BITS(8)}, "a private address (RFC 1918)"},
    {{V4(100, 64, 0, 0), V4_BITS(10)}, "an address shared by a carrier's customers (RFC 6598)"},
    {{V4(127, 0, 0, 0), V4_BITS(8)}, "a loopback address (RFC 1122)"},
    {{V4(169, 254, 0, 0), V4_BITS(16)}, "a link-local address (RFC 3927)"},
    {{V4(172, 16, 0, 0), V4_BITS(12)}, "a private address (RFC 1918)"},
    {{V4(192, 0, 0, 0), V4_BITS(24)}, "an address of the IETF's protocols (RFC 6890)"},
    {{V4(192, 0, 2, 0), V4_BITS(24)}, "an address for documentation (RFC 5737)"},
    {{V4(192, 88, 99, 0), V4_BITS(24)}, "an address of 6to4 relays (RFC 7526)"},
    {{V4(192, 168, 0, 0), V4_BITS(16)}, "a private address (RFC 1918)"},
    {{V4(198, 18, 0, 0), V4_BITS(15)}, "an address for benchmarks (RFC 2544)"},
    {{V4(198, 51, 100, 0), V4_BITS(24)}, "an address for documentation (RFC 5737)"},
    {{V4(203, 0, 113, 0), V4_BITS(24)}, "an address for documentation (RFC 5737)"},
    {{V4(224, 0, 0, 0), V4_BITS(4)}, "a multicast address (RFC 5771)"},
    {{V4(255, 255, 255, 255), V4_BITS(32)}, "the broadcast address (RFC 919)"},
    {{V4(240, 0, 0, 0), V4_BITS(4)}, "a reserved address (RFC 1112)"},
};

static const struct range ranges_v6[] = {
    {{{{0}}, 128}, "the unspecified address (RFC 4291)"},
    {{{{[15] = 1}}, 128}, "a loopback address (RFC 4291)"},
    {{{{0}}, 96}, "an IPv4-compatible address (RFC 4291)"},
    {{{{[8] = 0xff, [9] = 0xff}}, 96}, "an IPv4-translated address (RFC 2765)"},
    {{{{0, 0x64, 0xff, 0x9b, 0, 1}}, 48}, "an address of a local NAT64 (RFC 8215)"},
    {{{{1}}, 64}, "an address whose packets are discarded (RFC 6666)"},
    {{{{0}}, 3}, "a reserved address (RFC 4291)"},
    {{{{0x20, 0x01}}, 23}, "an address of the IETF's protocols (RFC 2928)"},
    {{{{0x20, 0x01, 0x0d, 0xb8}}, 32}, "an address for documentation (RFC 3849)"},
    {{{{0x3f, 0xff}}, 20}, "an address for documentation (RFC 9637)"},
    {{{{0x5f, 0x00}}, 16}, "an address of segment routing (RFC 9602)"},
    {{{{0x40}}, 2}, "a reserved address (RFC 4291)"},
    {{{{0xfc}}, 7}, "a private address (RFC 4193)"},
    {{{{0xfe, 0x80}}, 10}, "a link-local address (RFC 4291)"},
    {{{{0xfe, 0xc0}}, 10}, "a site-local address (RFC 3879)"},
    {{{{0xff}}, 8}, "a multicast address (RFC 4291)"},
    {{{{0x80}}, 1}, "a reserved address (RFC 4291)"},
};

static bool network_holds_address(const struct network *network,
                                  const struct network_address *address)
{
    struct networks one = {.n = 1, .at = {*network}};
    return networks_hold(&one, address);
}

/* ---- addresses that carry others ---- */

/* Where an IPv4 address lies in the addresses of a network. */
struct carrier {
    struct network network;
    size_t n;
    struct {
        size_t at;
        unsigned char mask; /* each byte is xor-ed with it */
    } carried[CARRIED_MAX];
};

static const struct carrier carriers[] = {
    {{{{0, 0x64, 0xff, 0x9b}}, 96}, 1, {{12, 0}}},              /* NAT64, RFC 6052 */
    {{{{0x20, 0x02}}, 16}, 1, {{2, 0}}},                        /* 6to4, RFC 3056 */
    {{{{0x20, 0x01, 0, 0}}, 32}, 2, {{4, 0}, {12, UINT8_MAX}}}, /* Teredo, RFC 4380 */
};

static const struct carrier *carrier_of(const struct network_address *address)
{
    for (size_t i = 0; i < sizeof carriers / sizeof *carriers; i++)
        if (network_holds_address(&carriers[i].network, address))
            return &carriers[i];
    return NULL;
}

static struct network_address carried_by(const struct carrier *carrier, size_t i,
                                         const struct network_address *address)
{
    unsigned char bytes[4];
    CHECK(i < carrier->n && carrier->carried[i].at + sizeof bytes <= sizeof address->bytes);
    for (size_t b = 0; b < sizeof bytes; b++)
        bytes[b] = address->bytes[carrier->carried[i].at + b] ^ carrier->carried[i].mask;
    return network_address_v4(bytes);
}

/* ---- judging ---- */

static bool is_own_network(const struct public_address_rules *rules,
                           const struct network_address *address)
{
    CHECK(rules->own || rules->n_own == 0);
    for (size_t i = 0; i < rules->n_own; i++)
        if (memcmp(rules->own[i].bytes, address->bytes, sizeof address->bytes) == 0)
            return true;
    return false;
}

static const char *range_of(const struct range *ranges, size_t n,
                            const struct network_address *address)
{
    for (size_t i = 0; i < n; i++)
        if (network_holds_address(&ranges[i].network, address))
            return ranges[i].what;
    return NULL;
}

static bool is_v4(const struct network_address *address)
{
    const struct network v4 = {V4(0, 0, 0, 0), V4_BITS(0)};
    return network_holds_address(&v4, address);
}

/* Of an address that carries no other. */
static const char *plain_refusal(const struct public_address_rules *rules,
                                 const struct network_address *address)
{
    const char *what = is_v4(address)
                           ? range_of(ranges_v4, sizeof ranges_v4 / sizeof *ranges_v4, address)
                           : range_of(ranges_v6, sizeof ranges_v6 / sizeof *ranges_v6, address);
    return !what && is_own_network(rules, address) ? own_refusal : what;
}

const char *public_address_refusal(const struct public_address_rules *rules,
                                   const struct network_address *address)
{
    if (networks_hold(&rules->allow, address))
        return NULL;
    const struct carrier *carrier = carrier_of(address);
    if (!carrier)
        return plain_refusal(rules, address);
    if (is_own_network(rules, address))
        return own_refusal;
    for (size_t i = 0; i < carrier->n; i++) {
        struct network_address carried = carried_by(carrier, i, address);
        const char *refusal = plain_refusal(rules, &carried);
        if (refusal)
            return refusal;
    }
    return NULL;
}

/* ---- URLs ---- */

/* Whether resolvers may read a host's last part as a number: then all of it is an IPv4 address to
 * them, or nothing. */
static bool ends_in_number(struct slice host)
{
    if (host.len > 0 && host.at[host.len - 1] == '.')
        host.len--;
    size_t at = host.len;
    while (at > 0 && host.at[at - 1] != '.')
        at--;
    struct slice last = slice_skip(host, at);
    if (last.len < 2 || last.at[0] != '0' || ascii_lower(last.at[1]) != 'x')
        return last.len > 0 && slice_digits(last) == last.len;
    for (size_t i = 2; i < last.len; i++)
        if (hex_digit(last.at[i]) < 0)
            return false;
    return true;
}

static bool is_plain_v4(struct slice host)
{
    struct network network;
    return network_read(host, &network);
}

const char *public_address_url_refusal(const struct url *url, bool allow_http)
{
    struct slice host = url->at.host;
    if (!url->tls && !allow_http)
        return "is not https";
    if (url->userinfo.at)
        return "has credentials";
    if (slice_find(host, '%') >= 0)
        return "names an interface of this machine";
    if (slice_find(host, ':') < 0 && ends_in_number(host) && !is_plain_v4(host))
        return "has an IPv4 address that is not four decimal numbers";
    return NULL;
}
