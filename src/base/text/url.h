/* SPDX-License-Identifier: Apache-2.0 */
/*
 * url: an http:// or https:// URL, and the HOST:PORT in it (RFC 3986, RFC 9110 4.2). Strict: what
 * two readers could take for two hosts is refused. Slices point into the text that was read.
 *
 *      https://user:secret@[2001:db8::1]:8443/refunds?dry=1
 *      ^tls    ^userinfo    ^host        ^port^path   ^query
 */
#ifndef PAWL_BASE_URL_H
#define PAWL_BASE_URL_H

#include "base/buf.h"

#define URL_HOST_MAX 253

struct url_authority {
    struct slice host; /* as written; IPv6 without its brackets */
    uint16_t port;
};

struct url {
    bool tls; /* https */
    struct url_authority at;
    struct slice userinfo; /* escaped as it was; `at` NULL: none */
    struct slice path;     /* as written; empty: "/" */
    struct slice query;    /* behind the '?'; `at` NULL: there is no '?' */
};

/* Reads HOST[:PORT]: letters, digits and `-._`, or an IPv6 address in brackets, perhaps with its
 * interface (`[fe80::1%eth0]`). Without a port it is `port_else`, if that is not negative. */
bool url_read_authority(struct slice text, int port_else, struct url_authority *ret_authority);

/* Whether a host may be `host`, an IPv6 address without brackets. */
bool url_is_host(struct slice host);

/* Reads a URL of printable ASCII without a fragment. False: `*ret_problem` is a literal that says
 * what is wrong, as in "the URL ...". */
bool url_read(struct slice text, struct url *ret_url, const char **ret_problem);

/* Appends HOST[:PORT] in lower case, without the port where it is the scheme's own, and without an
 * interface, which only this machine knows: for Host. */
void url_write_authority(struct buf *buf, const struct url *url);

/* Appends the origin (RFC 6454 6.2), such as `https://api.example.com`: equal for URLs whose
 * requests may share connections. */
void url_write_origin(struct buf *buf, const struct url *url);

/* Appends path and query, for the request line. */
void url_write_target(struct buf *buf, const struct url *url);

#endif
