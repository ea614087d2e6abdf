/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/receive/receive.h"

#include "base/check.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/steps.h"
#include "http/headers_out.h"
#include "webhook/receipt.h"

struct verifying {
    const struct inbox_verify *verify;
    struct signature_received received;
    enum signature_verdict verdict;
};

static void verify_signature(void *argument)
{
    struct verifying *verifying = argument;
    const struct inbox_verify *by = verifying->verify;
    const struct signature_keys keys = {by->secrets, by->n_secrets};
    verifying->verdict = signature_verify(&by->scheme, &keys, &verifying->received);
}

/* Its bytes, not what they mean. Senders that are not the source have bodies of any size verified,
 * too. */
static bool verify_event(struct exchange *x)
{
    CHECK(x->has_body && !x->found.facts.payload);
    const struct inbox_verify *by = &x->rule->inbox->verify;
    struct verifying verifying = {
        .verify = by,
        .received = {&x->request->headers, buf_slice(&x->body), clock_wall_us(), by->tolerance_us}};
    exchange_work(x, x->body.len >= OFFLOAD_LEAST, verify_signature, &verifying);
    bool is_refused = verifying.verdict != SIGNATURE_NO_MEMORY;
    if (verifying.verdict == SIGNATURE_GOOD)
        return true;
    if (is_refused)
        x->unverified = signature_verdict_name(verifying.verdict);
    (void)reply_error(x, is_refused ? ERROR_SIGNATURE : ERROR_LIMITED,
                      is_refused ? NULL : "out of memory for this request");
    return false;
}

/* 200, and with `text` that as its body. */
static enum exchange_step acknowledge_event(struct exchange *x, struct slice text,
                                            enum result result)
{
    x->response.status = 200;
    x->response.whole = true;
    if (text.len > 0)
        headers_write_field(&x->response.fields, "Content-Type", SLICE("text/plain"));
    buf_add_slice(&x->response.body, text);
    return reply_upstream(x, &x->response, result);
}

/* Slack asks once whether somebody is there. */
static bool is_challenge(const struct exchange *x, struct slice *ret_text)
{
    const struct json *root = x->payload.json;
    if (!root || !slice_eq(x->rule->inbox->verify.scheme.name, SLICE("slack")))
        return false;
    const struct json *type = json_at_as(root, SLICE("/type"), JSON_STRING);
    const struct json *text = json_at_as(root, SLICE("/challenge"), JSON_STRING);
    if (!type || !text || !slice_eq(type->text, SLICE("url_verification")))
        return false;
    *ret_text = text->text;
    return true;
}

/* An event that says nothing of it is in no order. */
static void read_event_order(struct exchange *x, struct buf *order)
{
    CHECK(x->key.len > 0);
    const struct inbox_source *source = x->rule->inbox;
    struct slice missing = {0};
    if (source->has_order &&
        template_key(&source->order, &x->found.facts, x->arena, order, &missing) != TEMPLATE_OK)
        buf_clear(order);
}

/* False: x->reply says what its sender gets. */
static bool identify_event(struct exchange *x, struct buf *order)
{
    struct slice challenge;
    if (!identify_read_request(x) || !verify_event(x) || !identify_read_payload(x))
        return false;
    if (is_challenge(x, &challenge)) {
        (void)acknowledge_event(x, challenge, RESULT_PASSED);
        return false;
    }
    if (!identify_read_key(x))
        return false;
    read_event_order(x, order);
    return true;
}

/* How the handler is to read the body. */
static void add_field(const struct exchange *x, const char *name, struct buf *fields)
{
    const struct header *line = headers_find(&x->request->headers, slice_of(name));
    if (line)
        headers_write_field(fields, name, line->value);
}

/* ---- what it comes to ---- */

static enum exchange_step refuse_event(struct exchange *x, enum store_status status)
{
    enum error error = status == STORE_LIMITED || status == STORE_NO_MEMORY
                           ? ERROR_LIMITED
                           : ERROR_STORE_UNAVAILABLE;
    return reply_error(x, error,
                       status == STORE_FROZEN
                           ? "an operator froze the record store; the event was not stored"
                           : "the event was not stored");
}

static enum exchange_step store_event(struct exchange *x, struct slice order)
{
    const struct gateway_config *config = x->server->config;
    BUF_AUTO struct buf fields = buf_make(HTTP_HEADERS_SIZE_MAX);
    add_field(x, "Content-Type", &fields);
    add_field(x, "Content-Encoding", &fields);
    const struct receipt receipt = {.source = x->rule->inbox,
                                    .event_id = buf_slice(&x->key),
                                    .order = order,
                                    .fields = buf_slice(&fields),
                                    .body = buf_slice(&x->body),
                                    .payload_hash = x->attempt.begin.payload_hash,
                                    .recipe = x->rule->recipe};
    enum receipt_end end;
    CHECK(!x->unverified && !x->found.facts.payload);
    enum store_status status = buf_ok(&fields)
                                   ? receipt_take(config->store, fiber_parker(), &receipt, &end)
                                   : STORE_NO_MEMORY;
    if (status != STORE_DONE)
        return refuse_event(x, status);
    switch (end) {
    case RECEIPT_STORED:
        config->has_events(config->argument);
        return acknowledge_event(x, SLICE(""), RESULT_STORED);
    case RECEIPT_REPLAYED:
        return acknowledge_event(x, SLICE(""), RESULT_REPLAYED);
    case RECEIPT_MISMATCH:
        break;
    }
    return x->rule->mismatch_status == 200
               ? acknowledge_event(x, SLICE(""), RESULT_MISMATCH)
               : reply_error(x, ERROR_PAYLOAD_MISMATCH,
                             "an event with this id was received before, with another body");
}

bool receive_event(struct client *client, const struct http_request *request,
                   const struct rule_found *found)
{
    CHECK(found->rule->inbox && found->rule->tenant_none);
    struct exchange *x = exchange_new(client, request, found);
    if (!x)
        return false;
    BUF_AUTO struct buf order = buf_make(HTTP_HEADERS_SIZE_MAX);
    bool identified = identify_event(x, &order);
    identify_close_payload(x);
    exchange_move(x, identified ? store_event(x, buf_slice(&order)) : EXCHANGE_RESPOND);
    exchange_move(x, reply_write(x));
    return exchange_end(x);
}
