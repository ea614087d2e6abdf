/* SPDX-License-Identifier: Apache-2.0 */
/* One client connection: request after request, in order, until one side ends it. */
#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include "gateway/events.h"
#include "gateway/head.h"
#include "gateway/pass.h"
#include "gateway/places.h"
#include "gateway/well_known.h"
#include <stdio.h>
#include <sys/uio.h>

#define DROP_MAX ((uint64_t)64 * 1024) /* of a body nobody wanted */
/* A client that still sends after its answer is listened to for as long as nginx does. */
#define LINGER_IDLE_US (INT64_C(5) * CLOCK_US_PER_S)
#define LINGER_US (INT64_C(30) * CLOCK_US_PER_S)
#define LINGER_DRAIN_US (INT64_C(1) * CLOCK_US_PER_S)
#define CLIENT_ARENA_MAX ((size_t)256 * 1024) /* paths and parameters of one head */
#define PROBLEM_MAX ((size_t)8 * 1024)
#define DETAIL_MAX ((size_t)256)
#define NAME_SHOWN ((size_t)64)

const char *client_instance(struct client *client)
{
    unsigned char id[16];
    char hex[2 * sizeof id + 1];
    if (client->instance[0])
        return client->instance;
    random_bytes(id, sizeof id);
    id[6] = (id[6] & 0x0F) | 0x40; /* UUID version 4, RFC 9562 */
    id[8] = (id[8] & 0x3F) | 0x80;
    hex_encode(id, sizeof id, hex);
    snprintf(client->instance, sizeof client->instance, "urn:uuid:%.8s-%.4s-%.4s-%.4s-%.12s", hex,
             hex + 8, hex + 12, hex + 16, hex + 20);
    return client->instance;
}

bool client_may_go_on(const struct client *client, const struct http_request *request)
{
    const struct http_conn *conn = &client->conn;
    if (server_draining(client->server) || client->leaving)
        return false;
    if (!http_conn_body_left(conn))
        return true;
    return conn->framing == HTTP_FRAMING_LENGTH && conn->left <= DROP_MAX &&
           !request->expect_continue;
}

void client_write_cors(const struct client *client, const struct http_request *request,
                       struct buf *head)
{
    const struct header *line = request ? headers_find(&request->headers, SLICE("Origin")) : NULL;
    cors_write_fields(&client->plan->settings.cors, line ? line->value : slice_of(NULL),
                      slice_of(NULL), head);
}

void client_end_head(const struct http_request *request, bool keep_alive, struct buf *head)
{
    if (!keep_alive)
        head_write_field(head, "Connection", SLICE("close"));
    else if (request && request->minor_version == 0)
        head_write_field(head, "Connection", SLICE("keep-alive"));
    buf_add(head, "\r\n", 2);
}

bool client_ask_for_body(struct client *client, const struct http_request *request)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!request->expect_continue || !http_conn_body_left(&client->conn))
        return true;
    struct iovec part = {(void *)(uintptr_t)text, sizeof text - 1};
    int64_t deadline = clock_after(clock_boot_us(), client->plan->settings.write_timeout_us);
    return http_conn_write(&client->conn, &part, 1, deadline) == 0;
}

void client_refuse(struct client *client, const struct refusal *refusal)
{
    struct problem problem = problem_of(refusal->error);
    if (refusal->status != 0)
        problem.status = refusal->status;
    problem.detail = refusal->detail;
    problem.instance = client_instance(client);
    if (refusal->mark)
        problem_warn_unprotected(&problem);
    refusal_report(client, refusal, problem.status);
    problem.base = client->plan->settings.public_url;
    struct buf body BUF_AUTO = buf_make(PROBLEM_MAX);
    struct buf head BUF_AUTO = buf_make(HEAD_OUT_MAX);
    problem_write(&problem, &body);
    head_write_status(&head, problem.status, slice_of(NULL));
    head_write_date(&head);
    problem_write_fields(&problem, &head);
    if (refusal->mark)
        head_write_field(&head, "Idempotency-Status", slice_of(refusal->mark));
    if (refusal->error == ERROR_UPSTREAM_UNAVAILABLE || refusal->error == ERROR_LIMITED)
        head_write_number(&head, "Retry-After", 1);
    client_write_cors(client, refusal->request, &head);
    head_write_number(&head, "Content-Length", body.len);
    client_end_head(refusal->request, refusal->keep_alive, &head);
    bool silent = refusal->request && slice_eq(refusal->request->method, SLICE("HEAD"));
    struct iovec parts[2] = {{head.at, head.len}, {body.at, body.len}};
    int64_t deadline = clock_boot_us() + client->plan->settings.write_timeout_us;
    if (buf_ok(&head) && buf_ok(&body))
        (void)http_conn_write(&client->conn, parts, silent ? 1 : 2, deadline);
}

/* ---- one request ---- */

static bool refuse_request(struct client *client, const struct http_request *request,
                           enum error error, struct slice detail)
{
    struct refusal refusal = {
        .request = request,
        .error = error,
        .detail = detail,
        .keep_alive = request->keep_alive && client_may_go_on(client, request),
    };
    client_refuse(client, &refusal);
    return refusal.keep_alive;
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
static bool refuse_look_alike(struct client *client, const struct http_request *request,
                              struct slice name)
{
    BUF_AUTO struct buf detail = buf_make(DETAIL_MAX);
    buf_add_str(&detail, "a header that counts here is spelled with '_' in place of '-': ");
    buf_add_slice(&detail, slice_first(name, NAME_SHOWN));
    return refuse_request(client, request, ERROR_REQUEST_MALFORMED, buf_slice(&detail));
}

static bool run_rule(struct client *client, const struct http_request *request,
                     const struct rule_found *found)
{
    if (!found->rule->protect) {
        client->let_by = found->rule->name;
        return pass_run(client, request);
    }
    const struct header *look_alike = rule_look_alike(found->rule, &request->headers);
    if (look_alike)
        return refuse_look_alike(client, request, look_alike->name);
    return exchange_run(client, request, found);
}

static bool route(struct client *client, const struct http_request *request, struct arena *arena)
{
    const struct gateway_settings *settings = &client->plan->settings;
    struct rule_request wanted = {request->method, request->path, &request->headers};
    struct rule_found *found = arena_alloc(arena, sizeof *found);
    if (!found)
        return false;
    if (is_looping(client, request))
        return refuse_request(client, request, ERROR_LOOP, slice_of(NULL));
    if (well_known_asked(client, request))
        return well_known_answer(client, request);
    switch (rule_find_request(settings->rules, &wanted, arena, found)) {
    case RULE_FOUND:
        return run_rule(client, request, found);
    case RULE_NONE:
        if (settings->unmatched_refuse && !rule_request_is_safe(&request->headers, request->method))
            return refuse_request(client, request, ERROR_ROUTE_UNKNOWN, slice_of(NULL));
        return pass_run(client, request);
    case RULE_PATH_AMBIGUOUS:
        return refuse_request(client, request, ERROR_PATH_AMBIGUOUS,
                              SLICE("servers read this path in different ways"));
    case RULE_METHOD_AMBIGUOUS:
        return refuse_request(client, request, ERROR_METHOD_AMBIGUOUS,
                              SLICE("a method-override header names a method that another rule, "
                                    "or none, takes"));
    case RULE_METHOD_REFUSED:
        return refuse_request(client, request, ERROR_METHOD_NOT_ALLOWED, slice_of(NULL));
    case RULE_NO_MEMORY:
        return false;
    }
    UNREACHABLE();
}

/* What a client still sends of a body that was refused. */
static bool drop_body(struct client *client)
{
    int64_t deadline = clock_boot_us() + client->plan->settings.body_timeout_us;
    while (http_conn_body_left(&client->conn)) {
        struct slice data;
        if (http_conn_read_some(&client->conn, deadline, &data) != HTTP_READ_OK)
            return false;
    }
    return true;
}

static void refuse_malformed(struct client *client, const struct http_request *request)
{
    enum http_refusal why = client->conn.refusal;
    struct slice field = http_refused_field(request, why);
    struct buf detail BUF_AUTO = buf_make(HTTP_HEAD_MAX);
    buf_printf(&detail, "%s%s%.*s", http_refusal_text(why), field.len > 0 ? ": " : "",
               SLICE_ARG(field));
    struct refusal refusal = {
        .error = ERROR_REQUEST_MALFORMED,
        .status = http_refusal_status(why) >= 500 && http_refusal_status(why) != 505
                      ? 400
                      : http_refusal_status(why),
        .detail = buf_ok(&detail) ? buf_slice(&detail) : slice_of(http_refusal_text(why)),
    };
    client_refuse(client, &refusal);
}

void client_refuse_crowd(struct client *client)
{
    limit_count(client->server, METRICS_LIMIT_CONNECTIONS);
    client_refuse(client, &(struct refusal){
                              .error = ERROR_LIMITED,
                              .status = 503,
                              .detail = SLICE("all client connections of this gateway are in use"),
                          });
}

/* Whoever has not sent a whole head makes room for others, the oldest head first. */
static enum http_read read_head(struct client *client, struct http_request *request)
{
    int64_t deadline = clock_boot_us() + client->plan->settings.head_timeout_us;
    places_newest(client);
    enum http_read read = http_conn_read_request(&client->conn, deadline, request);
    places_busy(client, read == HTTP_READ_OK);
    client->began = clock_boot_us();
    client->sent_before = client->conn.sent;
    return read;
}

static bool serve_head(struct client *client, struct http_request *request, struct arena *arena)
{
    switch (read_head(client, request)) {
    case HTTP_READ_OK:
        break;
    case HTTP_READ_REFUSED:
        refuse_malformed(client, request);
        return false;
    case HTTP_READ_TIMEOUT:
        client_refuse(client, &(struct refusal){
                                  .error = ERROR_REQUEST_TIMEOUT,
                                  .detail = SLICE("the request headers did not arrive in time")});
        return false;
    default:
        if (client->makes_room)
            client_refuse_crowd(client);
        return false;
    }
    return route(client, request, arena) && drop_body(client);
}

static bool serve_one(struct client *client)
{
    client->state = CLIENT_IDLE;
    plan_replace(&client->plan, client->server->plan);
    int64_t idle_until = clock_boot_us() + client->plan->settings.idle_timeout_us;
    places_idle(client);
    bool came = !server_draining(client->server) && !client->leaving &&
                http_conn_wait(&client->conn, idle_until) == HTTP_READ_OK;
    if (!came) {
        places_busy(client, false);
        return false;
    }
    client->state = CLIENT_BUSY;
    client->instance[0] = '\0';
    client->let_by = slice_of(NULL);

    struct arena arena ARENA_AUTO = arena_make(CLIENT_ARENA_MAX);
    struct http_request *request = arena_alloc(&arena, sizeof *request);
    if (!request)
        places_busy(client, false);
    if (!request || !serve_head(client, request, &arena))
        return false;
    http_conn_next(&client->conn);
    return true;
}

/* ---- its life ---- */

static void unlink_client(struct client *client)
{
    *(client->prev ? &client->prev->next : &client->server->clients) = client->next;
    if (client->next)
        client->next->prev = client->prev;
}

/* It has its answer: when somebody else needs its place, or the gateway drains, it goes at once. */
static void linger(struct client *client)
{
    if (client->leaving) {
        http_conn_linger(&client->conn, 0, 0);
        return;
    }
    int64_t most = server_draining(client->server) ? LINGER_DRAIN_US : LINGER_US;
    client->state = CLIENT_LINGERING;
    places_idle(client);
    http_conn_linger(&client->conn, LINGER_IDLE_US, clock_after(clock_boot_us(), most));
    places_busy(client, false);
}

void client_run(void *argument)
{
    struct client *client = argument;
    while (serve_one(client) && !client->leaving)
        ;
    client->state = CLIENT_BUSY;
    if (client->cut_off)
        http_conn_abort(&client->conn);
    else if (client->conn.head_len > 0 || client->conn.refusal != HTTP_REFUSAL_NONE)
        linger(client);
    http_conn_close(&client->conn);
    unlink_client(client);
    plan_unref(client->plan);
    if (client->counted)
        peers_leave(client->server->shared->peers, client->peer);
    places_leave(client);
    mem_free(client);
}
