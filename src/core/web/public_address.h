/* SPDX-License-Identifier: Apache-2.0 */
/*
 * public_address: whether an address, or the URL that names one, is public: whether a request to it
 * can only leave for the internet, and cannot reach this machine, its network or its provider's
 * metadata. For URLs that somebody else than the operator may have chosen (contract, section 9,
 * "Address guard"). Pure: it looks no name up.
 *
 * An IPv4 address is judged by a table of ranges, each with the document that reserves it. Of IPv6
 * only 2000::/3 is public (RFC 4291 2.4, IANA's registry of global unicast), less the ranges
 * reserved in it. An address that carries others is judged by them: IPv4-mapped (::ffff:0:0/96) is
 * the IPv4 address itself; NAT64 (64:ff9b::/96), 6to4 and Teredo are public where all they carry
 * is.
 */
#ifndef PAWL_CORE_PUBLIC_ADDRESS_H
#define PAWL_CORE_PUBLIC_ADDRESS_H

#include "base/text/url.h"
#include "core/web/networks.h"

struct public_address_rules {
    struct networks allow;             /* an operator's word, above all else */
    const struct network_address *own; /* of this machine's interfaces; borrowed */
    size_t n_own;
};

/* NULL: requests may go there. Otherwise a literal that says what the address is, such as
 * "a loopback address (RFC 1122)". `allow` is compared with the address itself, never with one that
 * it carries: who allows 10.0.0.0/8 has not allowed 64:ff9b::10.0.0.1. */
const char *public_address_refusal(const struct public_address_rules *rules,
                                   const struct network_address *address);

/* What can be said of a URL before its host is looked up. NULL: nothing is wrong with it. Otherwise
 * a literal, as in "the URL ...": it is not https (unless `allow_http`), has credentials or names
 * an interface, or its host is an IPv4 address not written as four decimal numbers, which resolvers
 * read in several ways (0177.1, 0x7f.1, 2130706433, "127.0.0.1."). */
const char *public_address_url_refusal(const struct url *url, bool allow_http);

#endif
