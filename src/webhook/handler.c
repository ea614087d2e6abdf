/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/handler.h"

#include "base/check.h"
#include "core/request/key_header.h"
#include "courier/kind.h"
#include "courier/series.h"
#include "store/rows.h"
#include "webhook/post.h"

#define KEY_MAX ((size_t)64 * 1024) /* of a header */

/* A call's own: one attempt. */
struct calling {
    struct webhook_plan *plan;
    const struct webhook_source *source;
    struct store_request request;
    struct webhook_post post;
};

static struct calling *calling_of(const struct courier_delivery *delivery)
{
    return delivery->own;
}

static const struct webhook_handler *handler_of(const struct courier_kind *kind)
{
    return kind->argument;
}

/* ---- the claim ---- */

/* It was removed; or a reload took it out meanwhile, or it is declared again. */
static struct courier_verdict judge_missing_handler(const struct webhook_handler *handler,
                                                    const struct courier_delivery *delivery)
{
    enum store_roster_state state;
    enum store_status status = census_ask(handler->store, delivery->parker, SLICE(INBOX_KIND),
                                          delivery->stored.lane, &state);
    return status == STORE_DONE && state == STORE_ROSTER_REMOVED
               ? courier_settle(TASK_DEAD, TASK_REASON_REMOVED)
               : courier_down;
}

/* Everything but the claim. COURIER_CLAIMED: it may be claimed. */
static struct courier_verdict prepare_call(const struct webhook_handler *handler,
                                           const struct courier_delivery *delivery,
                                           struct rows *rows)
{
    struct calling *calling = calling_of(delivery);
    calling->plan = webhook_plan_ref(*handler->plan);
    calling->source = webhook_plan_source(calling->plan, delivery->stored.lane);
    if (!calling->source)
        return judge_missing_handler(handler, delivery);
    if (rows_by_id(rows, &request_table, delivery->stored.row.id, &calling->request.row) !=
        STORE_DONE)
        return courier_down;
    return calling->request.row.id != 0 ? (struct courier_verdict){.claim = COURIER_CLAIMED}
                                        : courier_settle(TASK_DEAD, TASK_REASON_UNREADABLE);
}

static struct courier_verdict claim(const struct courier_kind *kind,
                                    struct courier_delivery *delivery, struct rows *rows)
{
    const struct webhook_handler *handler = handler_of(kind);
    struct calling *calling = calling_of(delivery);
    webhook_post_init(&calling->post);
    struct courier_verdict verdict = prepare_call(handler, delivery, rows);
    return verdict.claim == COURIER_CLAIMED ? webhook_post_claim(rows) : verdict;
}

/* ---- an attempt ---- */

/* The lines that were kept of the sender's request. */
static bool add_fields(struct calling *calling)
{
    struct slice rest = calling->request.fields, name, value;
    bool fits = true;
    while (fits && fields_next(&rest, &name, &value))
        fits = headers_add(&calling->post.headers, name, value);
    return fits;
}

static bool add_call_headers(struct calling *calling, const struct courier_delivery *delivery)
{
    struct headers *headers = &calling->post.headers;
    BUF_AUTO struct buf key = buf_make(KEY_MAX);
    key_value_write(delivery->stored.key, KEY_FORWARD_BARE, KEY_SYNTAX_LENIENT, &key);
    return add_fields(calling) &&
           headers_add(headers, SLICE("User-Agent"), SLICE("pawl/" PAWL_VERSION)) &&
           headers_add(headers, SLICE("Webhook-Source"), calling->source->settings->source) &&
           webhook_post_add(&calling->post, SLICE("Idempotency-Key"), &key);
}

static struct courier_result attempt(const struct courier_kind *kind,
                                     struct courier_delivery *delivery)
{
    struct calling *calling = calling_of(delivery);
    const struct webhook_source *source = calling->source;
    const struct webhook_way way = {.url = &source->url,
                                    .pool = source->settings->at_upstream ? calling->plan->upstream
                                                                          : NULL,
                                    .origins = calling->plan->handlers,
                                    .connect_us = calling->plan->wanted.connect_timeout_us};
    (void)kind;
    CHECK(source && calling->request.row.id == delivery->stored.row.id);
    calling->post.body = calling->request.body;
    enum http_call_result result = add_call_headers(calling, delivery)
                                       ? webhook_post_send(&calling->post, &way, delivery)
                                       : HTTP_CALL_NO_MEMORY;
    return webhook_post_result(&calling->post, result, RETRY_BY_HANDLER,
                               delivery->stored.task.in_doubt);
}

static void fini(const struct courier_kind *kind, struct courier_delivery *delivery)
{
    struct calling *calling = calling_of(delivery);
    (void)kind;
    webhook_post_fini(&calling->post);
    webhook_plan_unref(calling->plan);
}

/* ---- the kind ---- */

/* Events of one that was removed are ended here. */
static bool serves(const struct courier_kind *kind, struct slice lane)
{
    const struct webhook_handler *handler = handler_of(kind);
    return webhook_plan_source(*handler->plan, lane) ||
           census_gives_up(handler->census, kind->name, lane);
}

/* Of a source that others have, none. */
static struct courier_limits limits_of(const struct courier_kind *kind, struct slice lane)
{
    const struct webhook_source *source = webhook_plan_source(*handler_of(kind)->plan, lane);
    if (!source)
        return kind->limits;
    const struct inbox_source *settings = source->settings;
    return (struct courier_limits){(int)settings->in_flight, settings->timeout_us,
                                   settings->keep_us};
}

static struct slice label(const struct courier_kind *kind, struct slice lane)
{
    const struct webhook_source *source = webhook_plan_source(*handler_of(kind)->plan, lane);
    return source ? source->settings->source : SERIES_OTHER;
}

void webhook_handler_init(struct webhook_handler *handler)
{
    CHECK(handler->store && handler->census && handler->plan);
    handler->kind =
        (struct courier_kind){.name = SLICE(INBOX_KIND),
                              .limits = {LANES_IN_FLIGHT, CLOCK_US_PER_S, TASK_KEEP_DONE_US, NULL},
                              .keep_dead_us = TASK_KEEP_DEAD_US,
                              .own_size = sizeof(struct calling),
                              .serves = serves,
                              .limits_of = limits_of,
                              .claim = claim,
                              .attempt = attempt,
                              .end = webhook_post_end,
                              .fini = fini,
                              .label = label,
                              .argument = handler};
}
