/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/text/ascii.h"
#include "core/request/path.h"
#include "gateway/events.h"
#include "gateway/exchange/exchange.h"
#include "gateway/pass/pass.h"
#include "gateway/receive/receive.h"
#include "gateway/response.h"
#include "gateway/well_known.h"
#include <netinet/in.h>

#define DETAIL_MAX ((size_t)256)
#define NAME_SHOWN ((size_t)64)

/* ---- one request ---- */

static bool refuse_request(struct client *client, enum error error, struct slice detail)
{
    struct event event = {.error = error, .result = result_of_error(error)};
    return response_refuse(client, event, detail, true);
}

/* Whether it went through this gateway before: its upstream is, in the end, itself. */
static bool is_looping(const struct client *client, const struct http_request *request)
{
    const char *via = client->server->gateway->via;
    const struct header *line;
    size_t at = 0;
    while ((line = headers_next(&request->headers, SLICE("Via"), &at)))
        if (memmem(line->value.at, line->value.len, via, strlen(via)))
            return true;
    return false;
}

/* Applications that take '_' for '-' would see another value than the one the rule judges by. */
static bool refuse_look_alike(struct client *client, struct slice name)
{
    BUF_AUTO struct buf detail = buf_make(DETAIL_MAX);
    buf_add_str(&detail, "a header that counts here is spelled with '_' instead of '-': ");
    buf_add_slice(&detail, slice_first(name, NAME_SHOWN));
    return refuse_request(client, ERROR_REQUEST_MALFORMED, buf_slice(&detail));
}

static bool run_rule(struct client *client, const struct http_request *request,
                     const struct rule_found *found)
{
    if (!found->rule->protect) {
        client->rule = found->rule->name;
        return pass_run(client, request);
    }
    const struct header *look_alike = rule_look_alike(found->rule, &request->headers);
    if (look_alike)
        return refuse_look_alike(client, look_alike->name);
    return found->rule->inbox ? receive_event(client, request, found)
                              : exchange_run(client, request, found);
}

/* `.at` NULL: no memory. */
static struct slice to_lower(const struct client *client, struct slice text)
{
    char *lower = text.at ? arena_alloc(client->arena, text.len + 1) : NULL;
    for (size_t i = 0; lower && i < text.len; i++)
        lower[i] = ascii_lower(text.at[i]);
    return slice_make(lower, text.len);
}

static bool meets_closed(const struct client *client, struct slice path)
{
    static const struct headers none;
    const struct rule_request wanted = {SLICE("POST"), path, &none};
    struct rule_found found;
    return !path.at || rule_find_request(client->plan->settings.rules->closed, &wanted,
                                         client->arena, &found) != RULE_NONE;
}

/* `/path` of `/path.json`. */
static struct slice without_suffix(struct slice path)
{
    size_t at = path.len;
    while (at > 0 && path.at[at - 1] != '/')
        at--;
    ptrdiff_t dot = slice_find(slice_skip(path, at), '.');
    return dot > 0 ? slice_first(path, at + (size_t)dot) : path;
}

/* Whether the path, however it is spelled, is one that pawl alone asks for. What is closed is in
 * lower case, as many servers route without regard to it; and some drop a suffix. */
static bool is_closed_path(const struct client *client, const struct http_request *request)
{
    if (!client->plan->settings.rules->closed)
        return false;
    struct slice normal = to_lower(client, path_normalise(request->path, client->arena));
    return meets_closed(client, to_lower(client, request->path)) || meets_closed(client, normal) ||
           meets_closed(client, without_suffix(normal));
}

/* Sources of events come before the rules. */
static enum rule_find find_rule(const struct client *client, const struct http_request *request,
                                struct rule_found *ret_found)
{
    const struct rule_set *rules = client->plan->settings.rules;
    const struct rule_request wanted = {request->method, request->path, &request->headers};
    enum rule_find find = rules->inboxes
                              ? rule_find_request(rules->inboxes, &wanted, client->arena, ret_found)
                              : RULE_NONE;
    return find == RULE_NONE ? rule_find_request(rules, &wanted, client->arena, ret_found) : find;
}

static bool route_request(struct client *client, const struct http_request *request)
{
    const struct gateway_settings *settings = &client->plan->settings;
    struct rule_found *found = arena_alloc(client->arena, sizeof *found);
    if (!found)
        return false;
    if (is_looping(client, request))
        return refuse_request(client, ERROR_LOOP, slice_of(NULL));
    if (well_known_is_asked(client, request))
        return well_known_respond(client, request);
    if (is_closed_path(client, request))
        return refuse_request(client, ERROR_ROUTE_UNKNOWN, slice_of(NULL));
    switch (find_rule(client, request, found)) {
    case RULE_FOUND:
        return run_rule(client, request, found);
    case RULE_NONE:
        if (settings->unmatched_refuse && !rule_request_is_safe(&request->headers, request->method))
            return refuse_request(client, ERROR_ROUTE_UNKNOWN, slice_of(NULL));
        return pass_run(client, request);
    case RULE_PATH_AMBIGUOUS:
        return refuse_request(client, ERROR_PATH_AMBIGUOUS,
                              SLICE("servers read this path in different ways"));
    case RULE_METHOD_AMBIGUOUS:
        return refuse_request(client, ERROR_METHOD_AMBIGUOUS,
                              SLICE("a method-override header names a method that another rule, "
                                    "or none, takes"));
    case RULE_METHOD_REFUSED:
        return refuse_request(client, ERROR_METHOD_NOT_ALLOWED, slice_of(NULL));
    case RULE_NO_MEMORY:
        return false;
    }
    UNREACHABLE();
}

/* ---- the service ---- */

static void begin_client(struct client *client, struct arena *arena)
{
    CHECK(!client->plan && !client->arena);
    client->plan = plan_ref(client->server->plan);
    client->arena = arena;
    client->instance[0] = '\0';
    client->rule = slice_of(NULL);
}

static void end_client(struct client *client)
{
    CHECK(client->plan);
    plan_unref(client->plan);
    client->plan = NULL;
    client->arena = NULL;
}

static void open_client(struct http_session *session, const struct sockaddr_storage *peer)
{
    struct client *client = (struct client *)session;
    client->server = session->data;
    client->address = slice_of(session->peer);
    if (peer->ss_family == AF_INET)
        client->network = network_address_v4(&((const struct sockaddr_in *)peer)->sin_addr);
    else if (peer->ss_family == AF_INET6)
        memcpy(client->network.bytes, &((const struct sockaddr_in6 *)peer)->sin6_addr,
               sizeof client->network.bytes);
}

static bool serve_client(struct http_session *session, struct arena *arena)
{
    struct client *client = (struct client *)session;
    begin_client(client, arena);
    bool goes_on = route_request(client, session->request);
    end_client(client);
    return goes_on;
}

/* Also counts a request that a limit refused. */
static enum error error_of_refusal(const struct client *client, enum http_refused why)
{
    if (why == HTTP_ADDRESS_FULL || why == HTTP_FULL)
        limit_count(client->server,
                    why == HTTP_FULL ? METRICS_LIMIT_CONNECTIONS : METRICS_LIMIT_ADDRESS);
    return why == HTTP_MALFORMED                          ? ERROR_REQUEST_MALFORMED
           : why == HTTP_ADDRESS_FULL || why == HTTP_FULL ? ERROR_LIMITED
                                                          : ERROR_REQUEST_TIMEOUT;
}

static void refuse_client(struct http_session *session, const struct http_complaint *complaint)
{
    struct client *client = (struct client *)session;
    struct buf detail BUF_AUTO = buf_make(HTTP_HEADERS_SIZE_MAX);
    begin_client(client, NULL);
    struct event event = {
        .status = complaint->status,
        .error = error_of_refusal(client, complaint->why),
    };
    event.result = result_of_error(event.error);
    buf_add_str(&detail, complaint->why == HTTP_FULL ? RESPONSE_FULL : complaint->text);
    if (complaint->why == HTTP_MALFORMED) {
        struct slice field = http_refused_field(complaint->malformed, session->conn.refusal);
        buf_add_str(&detail, field.len > 0 ? ": " : "");
        buf_add_slice(&detail, field);
    }
    (void)response_refuse(client, event, buf_slice(&detail), false);
    end_client(client);
}

const struct http_service client_service = {
    .session_size = sizeof(struct client),
    .open = open_client,
    .serve = serve_client,
    .refuse = refuse_client,
};
