/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/post.h"

#include "base/check.h"
#include "base/crash.h"
#include "courier/kind.h"

#define ARENA_MAX ((size_t)128 * 1024 * 1024)
#define HEAD_MAX ((size_t)64 * 1024)
#define RESPONSE_MAX ((uint64_t)16 * 1024) /* bytes of a response's body that are read */

void webhook_post_init(struct webhook_post *post)
{
    post->arena = arena_make(ARENA_MAX);
    post->request = buf_make(HEAD_MAX);
    post->response = buf_make(SIZE_MAX);
}

void webhook_post_fini(struct webhook_post *post)
{
    http_call_close(&post->call);
    http_pool_unref(post->call.pool);
    buf_fini(&post->request);
    buf_fini(&post->response);
    arena_fini(&post->arena);
}

bool webhook_post_add(struct webhook_post *post, struct slice name, const struct buf *value)
{
    struct slice copy = arena_copy(&post->arena, buf_slice(value));
    return buf_ok(value) && !post->arena.failed && headers_add(&post->headers, name, copy);
}

enum http_call_result webhook_post_send(struct webhook_post *post, const struct webhook_way *way,
                                        const struct courier_delivery *delivery)
{
    struct http_call *call = &post->call;
    int64_t connect_by = clock_after(clock_boot_us(), way->connect_us);
    struct http_call_limits limits = {connect_by, delivery->until, RESPONSE_MAX};
    const struct http_origins_request request = {SLICE("POST"), way->url, &post->headers,
                                                 post->body, true};
    enum http_call_result result = HTTP_CALL_DONE;
    CHECK(call->state == HTTP_CALL_CLOSED && (way->pool || way->origins));
    http_origins_write(&post->request, &request);
    if (!buf_ok(&post->request))
        return HTTP_CALL_NO_MEMORY;
    if (way->pool)
        call->pool = http_pool_ref(way->pool);
    else
        result = http_origins_find(way->origins, way->url, clock_first(connect_by, delivery->until),
                                   &call->pool, &call->unreached);
    if (result != HTTP_CALL_DONE)
        return result;
    call->method = SLICE("POST");
    call->headers = buf_slice(&post->request);
    call->body = post->body;
    call->first_by = delivery->send_by;
    CRASH_POINT(before_connect);
    result = http_call_run(call, &limits, &post->response);
    CRASH_POINT(after_response_body);
    return result;
}

static enum task_reason reason_of_post(enum retry_class class, enum exchange_end ended,
                                       enum http_call_result result, enum retry_column column)
{
    enum task_reason reason = task_reason_of_end(ended, class);
    if (result == HTTP_CALL_FORBIDDEN)
        return TASK_REASON_ADDRESS_REFUSED;
    return reason == TASK_REASON_FINAL && column == RETRY_BY_WEBHOOK ? TASK_REASON_GONE : reason;
}

/* What a receiver of webhooks says beside its status is not read; what a handler says, and there is
 * no memory to read, is as if it had broken off. */
static struct retry_answer answer_of(struct webhook_post *post, enum http_call_result result,
                                     enum retry_column column)
{
    struct retry_answer answer = {.end = http_call_end(&post->call, result, false)};
    if (answer.end != EXCHANGE_RESPONDED)
        return answer;
    answer.status = post->call.response.status;
    if (column == RETRY_BY_HANDLER &&
        !retry_read_answer(&post->call.response.headers, buf_slice(&post->response), &post->arena,
                           &answer))
        return (struct retry_answer){.end = EXCHANGE_BROKE};
    return answer;
}

/* A handler that responds says by its status whether it may have been done. */
static bool is_post_in_doubt(const struct retry_answer *answer, enum retry_column column,
                             enum retry_class class)
{
    if (answer->end == EXCHANGE_RESPONDED && column == RETRY_BY_HANDLER)
        return class != RETRY_DONE && retry_answer_leaves_doubt(answer);
    return answer->end != EXCHANGE_NOT_SENT && class != RETRY_DONE;
}

struct courier_result webhook_post_result(struct webhook_post *post, enum http_call_result result,
                                          enum retry_column column, bool in_doubt)
{
    struct http_call *call = &post->call;
    struct retry_answer answer = answer_of(post, result, column);
    bool responded = answer.end == EXCHANGE_RESPONDED;
    const struct headers *headers = responded ? &call->response.headers : NULL;
    enum retry_class class =
        result == HTTP_CALL_FORBIDDEN ? RETRY_FINAL : retry_judge(column, &answer, NULL, in_doubt);
    return (struct courier_result){
        .task = {.class = class,
                 .reason = reason_of_post(class, answer.end, result, column),
                 .hint_us = responded ? retry_read_hint(headers, clock_wall_us()) : RETRY_NO_HINT,
                 .status = answer.status,
                 .is_unreached = answer.end == EXCHANGE_NOT_SENT,
                 .is_in_doubt = is_post_in_doubt(&answer, column, class),
                 .is_settled = in_doubt && responded && class == RETRY_FINAL},
        /* What there is to show: the response, or why there is none. */
        .answer = responded         ? buf_slice(&post->response)
                  : call->unreached ? slice_of(call->unreached)
                                    : slice_of(call->malformed),
        .sent_at = call->sent > 0 ? call->sent_at : 0};
}

/* ---- the store ---- */

struct courier_verdict webhook_post_claim(struct rows *rows)
{
    CHECK(rows->begins && rows->n == 1);
    CRASH_POINT(before_begin);
    enum store_status status = rows_save(rows);
    if (status == STORE_DONE)
        CRASH_POINT(after_claim_commit);
    return courier_claimed(status);
}

enum store_status webhook_post_end(const struct courier_kind *kind,
                                   struct courier_delivery *delivery, struct rows *rows)
{
    (void)kind;
    (void)delivery;
    CHECK(!rows->begins); /* what was claimed ends in a frozen store, too */
    if (rows->n == 0)
        return STORE_DONE;
    CRASH_POINT(before_outcome_commit);
    enum store_status status = rows_save(rows);
    CRASH_POINT(after_outcome_commit);
    return status;
}
