/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/service.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/text/percent.h"
#include "http/headers_out.h"

#define FIELDS_MAX ((size_t)4096)
#define BODY_MAX (2 * LEDGER_FILE_MAX)

struct service_response service_response_make(void)
{
    return (struct service_response){.fields = buf_make(FIELDS_MAX), .body = buf_make(BODY_MAX)};
}

void service_refuse(struct service_response *response, int status, const char *error)
{
    CHECK(status >= 400 && status <= 599);
    response->status = status;
    buf_clear(&response->fields);
    buf_clear(&response->body);
    buf_add_str(&response->body, "{\"error\":");
    json_add_string(&response->body, slice_of(error));
    buf_add_str(&response->body, "}\n");
}

static void respond_entry(struct service_response *response, int status,
                          const struct ledger_entry *entry)
{
    if (!entry) {
        service_refuse(response, 404, "no such entry");
        return;
    }
    response->status = status;
    buf_add_slice(&response->body, entry->line);
    buf_add_char(&response->body, '\n');
}

/* ---- keys ---- */

/* An RFC 9651 String without its quotes and escapes; anything else as it is. */
static struct slice unquote_string(struct slice value, struct arena *arena)
{
    char *text = value.len > 0 && value.at[0] == '"' ? arena_alloc(arena, value.len) : NULL;
    size_t n = 0;
    for (size_t i = 1; text && i < value.len; i++) {
        if (value.at[i] == '"')
            return slice_make(text, n);
        if (value.at[i] == '\\' && ++i == value.len)
            break;
        text[n++] = value.at[i];
    }
    return value;
}

static struct slice read_demo_key(const struct http_request *request, struct arena *arena)
{
    const struct header *key = headers_find(&request->headers, SLICE("Idempotency-Key"));
    return key ? unquote_string(key->value, arena) : slice_make(NULL, 0);
}

/* ---- effects ---- */

/* What is wrong with an order, or NULL. */
static const char *read_order_body(const struct json *root, struct ledger_order *order)
{
    if (root->type != JSON_OBJECT)
        return "the body is not an object";
    const struct json *subject = json_at_as(root, ledger_subject(order->kind), JSON_STRING);
    const struct json *amount = json_at_as(root, SLICE("/amount"), JSON_NUMBER);
    if (!subject || subject->text.len == 0)
        return order->kind == LEDGER_REFUND ? "charge_id must be a string, not empty"
                                            : "order_id must be a string, not empty";
    if (!amount || !slice_to_u64(amount->text, LEDGER_AMOUNT_MAX, &order->amount) ||
        order->amount == 0)
        return "amount must be an integer above 0";
    order->subject = subject->text;
    return NULL;
}

static void add_entry_location(struct buf *fields, struct slice path,
                               const struct ledger_entry *entry)
{
    buf_add_str(fields, "Location: ");
    buf_add_slice(fields, path);
    buf_add_char(fields, '/');
    ledger_add_id(fields, entry->kind, entry->number);
    buf_add_str(fields, "\r\n");
}

/* What one request is about. */
struct call {
    struct ledger *ledger;
    const struct http_request *request;
    struct slice body;
    struct arena *arena;
    struct service_response *response;
};

static void create_entry(const struct call *call, enum ledger_kind kind, struct slice path)
{
    struct json *root;
    enum json_error error = json_parse(call->arena, call->body, &root, NULL);
    if (error != JSON_OK) {
        service_refuse(call->response, error == JSON_NO_MEMORY ? 500 : 400, json_error_text(error));
        return;
    }
    struct ledger_order order = {
        .kind = kind, .key = read_demo_key(call->request, call->arena), .at_us = clock_wall_us()};
    const char *problem = read_order_body(root, &order);
    if (problem) {
        service_refuse(call->response, 422, problem);
        return;
    }
    const struct ledger_entry *entry = ledger_append(call->ledger, &order);
    if (!entry) {
        service_refuse(call->response, 507, "the ledger is full");
        return;
    }
    call->response->effect = true;
    add_entry_location(&call->response->fields, path, entry);
    respond_entry(call->response, 201, entry);
}

/* ---- questions ---- */

static void show_by_key(const struct call *call, enum ledger_kind kind, struct slice text)
{
    struct slice key = percent_decode(text, false, call->arena);
    if (!key.at || !percent_is_valid(text))
        service_refuse(call->response, 400, "broken percent-encoding");
    else
        respond_entry(call->response, 200, ledger_by_key(call->ledger, kind, key));
}

static void show_entry(const struct call *call, enum ledger_kind kind, struct slice id)
{
    uint64_t number;
    bool is_id = ledger_read_id(kind, id, &number);
    respond_entry(call->response, 200, is_id ? ledger_by_number(call->ledger, kind, number) : NULL);
}

static void show_all(const struct call *call)
{
    struct buf *body = &call->response->body;
    call->response->status = 200;
    buf_add_char(body, '[');
    for (const struct ledger_entry *entry = ledger_first(call->ledger); entry;
         entry = entry->next) {
        buf_add_slice(body, entry->line);
        buf_add_str(body, entry->next ? ",\n" : "");
    }
    buf_add_str(body, "]\n");
}

/* ---- routes ---- */

static bool method_is_allowed(const struct call *call, const char *method)
{
    struct slice asked = call->request->method;
    bool reads = slice_eq(asked, SLICE("GET")) || slice_eq(asked, SLICE("HEAD"));
    if (slice_eq(asked, slice_of(method)) || (reads && slice_eq(slice_of(method), SLICE("GET"))))
        return true;
    service_refuse(call->response, 405, "method not allowed on this path");
    headers_write_field(&call->response->fields, "Allow", slice_of(method));
    return false;
}

/* `path` is /refunds or /payments and what follows it. */
static void route_kind(const struct call *call, enum ledger_kind kind, size_t prefix_len)
{
    static const struct slice by_key = {"by-key/", 7};
    struct slice path = call->request->path;
    struct slice rest = slice_skip(path, prefix_len);
    path.len = prefix_len;
    if (rest.len == 0) {
        if (method_is_allowed(call, "POST"))
            create_entry(call, kind, path);
        return;
    }
    rest = slice_skip(rest, 1);
    if (!method_is_allowed(call, "GET"))
        return;
    if (slice_starts(rest, by_key))
        show_by_key(call, kind, slice_skip(rest, by_key.len));
    else
        show_entry(call, kind, rest);
}

static bool is_under(struct slice path, struct slice prefix)
{
    return slice_starts(path, prefix) && (path.len == prefix.len || path.at[prefix.len] == '/');
}

void service_handle(struct ledger *ledger, const struct http_request *request, struct slice body,
                    struct arena *arena, struct service_response *response)
{
    static const struct slice refunds = {"/refunds", 8}, payments = {"/payments", 9};
    struct call call = {ledger, request, body, arena, response};
    if (is_under(request->path, refunds)) {
        route_kind(&call, LEDGER_REFUND, refunds.len);
    } else if (is_under(request->path, payments)) {
        route_kind(&call, LEDGER_PAYMENT, payments.len);
    } else if (slice_eq(request->path, SLICE("/ledger"))) {
        if (method_is_allowed(&call, "GET"))
            show_all(&call);
    } else if (slice_eq(request->path, SLICE("/healthz"))) {
        response->status = 200;
        buf_add_str(&response->body, "{\"status\":\"ok\"}\n");
    } else {
        service_refuse(response, 404, "no such path");
    }
}
