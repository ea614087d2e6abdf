/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/url.h"

#include "base/text/ascii.h"
#include <arpa/inet.h>

#define PORT_HTTP 80
#define PORT_HTTPS 443

/* A certificate's check would take a name that begins with a dot for all names below it. */
static bool is_name(struct slice host)
{
    return slice_is_word(host, "-._") && host.len <= URL_HOST_MAX && host.at[0] != '.';
}

/* An IPv6 address, perhaps with `%` and the interface on which it is one. */
static bool is_address(struct slice host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    struct slice number, zone = slice_cut(host, '%', &number);
    if (number.len >= sizeof text || (zone.at && !is_name(zone)))
        return false;
    memcpy(text, number.at, number.len);
    text[number.len] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1;
}

bool url_is_host(struct slice host)
{
    return slice_find(host, ':') >= 0 ? is_address(host) : is_name(host);
}

bool url_read_authority(struct slice text, int port_else, struct url_authority *ret_authority)
{
    struct slice host, rest;
    uint64_t port = (uint64_t)port_else;
    bool bracketed = text.len > 0 && text.at[0] == '[';
    if (bracketed) {
        rest = slice_cut(slice_skip(text, 1), ']', &host);
        if (!rest.at || (rest.len > 0 && rest.at[0] != ':'))
            return false;
    } else {
        slice_cut(text, ':', &host);
        rest = slice_skip(text, host.len);
    }
    if (bracketed != (slice_find(host, ':') >= 0) || !url_is_host(host) ||
        (rest.len == 0 && port_else < 0))
        return false;
    if (rest.len > 0 && !slice_to_u64(slice_skip(rest, 1), UINT16_MAX, &port))
        return false;
    *ret_authority = (struct url_authority){host, (uint16_t)port};
    return true;
}

/* ---- a whole URL ---- */

/* Takes the scheme and `://` off the front. */
static bool take_scheme(struct slice *rest, bool *ret_tls)
{
    struct slice scheme, behind = slice_cut(*rest, ':', &scheme);
    *ret_tls = slice_eq_nocase(scheme, SLICE("https"));
    if (!*ret_tls && !slice_eq_nocase(scheme, SLICE("http")))
        return false;
    *rest = behind;
    return slice_take(rest, '/') && slice_take(rest, '/');
}

static const char *find_bad_byte(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return "contains a byte outside printable ASCII; percent-encode it";
        if (text.at[i] == '#')
            return "contains a #, which is never sent; leave it out, or write it as %23";
        if (text.at[i] == '\\')
            return "contains a backslash; percent-encode it";
    }
    return NULL;
}

/* How much of it is before the path and the query. */
static size_t authority_len(struct slice rest)
{
    size_t n = 0;
    while (n < rest.len && rest.at[n] != '/' && rest.at[n] != '?')
        n++;
    return n;
}

static const char *read_url_parts(struct slice rest, struct url *url)
{
    struct slice authority = slice_first(rest, authority_len(rest)), userinfo;
    struct slice host = slice_cut(authority, '@', &userinfo);
    url->query = slice_cut(slice_skip(rest, authority.len), '?', &url->path);
    url->userinfo = host.at ? userinfo : slice_of(NULL);
    if (!url_read_authority(host.at ? host : authority, url->tls ? PORT_HTTPS : PORT_HTTP,
                            &url->at))
        return "has no valid host, such as api.example.com, 127.0.0.1:9000 or [::1]:9000";
    return url->at.port == 0 ? "has the port 0" : NULL;
}

bool url_read(struct slice text, struct url *ret_url, const char **ret_problem)
{
    struct url url = {0};
    *ret_problem = find_bad_byte(text);
    if (!*ret_problem && !take_scheme(&text, &url.tls))
        *ret_problem = "does not begin with http:// or https://";
    if (!*ret_problem)
        *ret_problem = read_url_parts(text, &url);
    if (*ret_problem)
        return false;
    *ret_url = url;
    return true;
}

/* ---- writing ---- */

static void write_authority(struct buf *buf, const struct url *url, struct slice host)
{
    bool bracketed = slice_find(host, ':') >= 0;
    if (bracketed)
        buf_add_char(buf, '[');
    for (size_t i = 0; i < host.len; i++)
        buf_add_char(buf, ascii_lower(host.at[i]));
    if (bracketed)
        buf_add_char(buf, ']');
    if (url->at.port != (url->tls ? PORT_HTTPS : PORT_HTTP))
        buf_printf(buf, ":%u", (unsigned)url->at.port);
}

void url_write_authority(struct buf *buf, const struct url *url)
{
    struct slice host;
    slice_cut(url->at.host, '%', &host);
    write_authority(buf, url, host);
}

void url_write_origin(struct buf *buf, const struct url *url)
{
    buf_add_str(buf, url->tls ? "https://" : "http://");
    write_authority(buf, url, url->at.host);
}

void url_write_target(struct buf *buf, const struct url *url)
{
    buf_add_slice(buf, url->path.len > 0 ? url->path : SLICE("/"));
    if (!url->query.at)
        return;
    buf_add_char(buf, '?');
    buf_add_slice(buf, url->query);
}
