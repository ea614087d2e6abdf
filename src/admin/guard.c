/* SPDX-License-Identifier: Apache-2.0 */
/* Whom to admit. A page in a browser on this machine can reach loopback, too: it shows by its
 * Origin, or, where its host was made to resolve here (DNS rebinding), by its Host. */
#include "admin/admin_priv.h"

/* HOST or HOST:PORT of the request, without a look-up of the name. */
static bool names_loopback(struct slice authority)
{
    struct sockaddr_storage address = {0};
    struct slice host = slice_first(authority, (size_t)(slice_find(authority, ']') + 1));
    if (host.len == 0)
        slice_cut(authority, ':', &host);
    return address_read_host(host, &address) && address_is_loopback(&address);
}

/* Compared by their keyed hashes, so that the time it takes reveals nothing of the token. */
static bool presents_token(const struct session *session)
{
    const struct admin_config *config = &session->admin->config;
    const struct headers *headers = &session->http.request->headers;
    const struct header *line = headers_find(headers, SLICE("Authorization"));
    struct slice scheme;
    if (!line || headers_count(headers, SLICE("Authorization")) != 1)
        return false;
    struct slice given = slice_trim(slice_cut(line->value, ' ', &scheme));
    const struct digest_key *key = store_digest_key(config->store);
    struct digest ours = digest_keyed(key, &config->token, 1);
    struct digest theirs = digest_keyed(key, &given, 1);
    return slice_eq_nocase(scheme, SLICE("Bearer")) && digest_eq(&ours, &theirs);
}

bool guard_admits(const struct session *session, struct reply *reply)
{
    const struct http_request *request = session->http.request;
    if (headers_find(&request->headers, SLICE("Origin"))) {
        reply_problem(reply, 403, "requests from web pages are refused here");
        return false;
    }
    if (session->admin->config.token.len > 0) {
        if (presents_token(session))
            return true;
        buf_add_str(&reply->fields, "WWW-Authenticate: Bearer\r\n");
        reply_problem(reply, 401, "send `Authorization: Bearer` with the config's admin_token");
        return false;
    }
    /* Without a Host it is no browser. */
    if (request->authority.len == 0 || names_loopback(request->authority))
        return true;
    reply_problem(reply, 403,
                  "Host must be localhost, 127.0.0.1 or [::1]; to use another name, set "
                  "admin_token");
    return false;
}
