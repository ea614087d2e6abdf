/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `authorize: GET /tenants/{tenant}/access`: whoever can name a tenant can read its answers and
 * squat its keys, so the service is asked whether this caller may act as this tenant (contract
 * section 3). It is asked once a request, before anything begins: a first attempt under a foreign
 * tenant would become that tenant's outcome, and a mismatch alone tells that a key exists. 2xx goes
 * on, other answers below 500 are the client's, as they are, and 5xx or none is 503. Nothing is
 * remembered: a session ends between two requests. It is asked under a Host of pawl's own: of
 * several virtual hosts the caller would choose one that says 200 to anything.
 */
#include "base/check.h"
#include "gateway/exchange/exchange.h"
#include "gateway/head.h"

static enum template_result write_head(struct exchange *x, struct buf *head,
                                       struct slice *ret_missing)
{
    struct buf target BUF_AUTO = buf_make(HTTP_HEAD_MAX);
    const struct http_request *request = upstream_get_request(x);
    enum template_result result =
        template_probe(&x->rule->authorize, &x->found.facts, x->arena, &target, ret_missing);
    if (result != TEMPLATE_OK)
        return result;
    if (!request || !buf_ok(&target))
        return TEMPLATE_NO_MEMORY;
    struct head_extra extra = {
        .client = x->client,
        .ruled = true,
        .host = x->rule->authorize_host,
    };
    head_write_request(head, SLICE("GET"), buf_slice(&target), request, &extra);
    return buf_ok(head) ? TEMPLATE_OK : TEMPLATE_NO_MEMORY;
}

/* Nothing has begun. */
static bool refuse(struct exchange *x, enum error error, const char *detail)
{
    answer_result(x, error, slice_of(detail), RESULT_UNSENT);
    return false;
}

/* Nothing can be asked: the caller's doing where its value is no segment of a path, as `al/ice`. */
static bool refuse_question(struct exchange *x, enum template_result result, struct slice source)
{
    struct buf detail BUF_AUTO = buf_make(HTTP_HEAD_MAX);
    if (result != TEMPLATE_FORMAT)
        return refuse(x, ERROR_UPSTREAM_UNAVAILABLE,
                      "the request lacks what `authorize` asks with");
    buf_add_str(&detail, "its value cannot be written into the path of `authorize`: ");
    buf_add_slice(&detail, source);
    answer_error(x, ERROR_TENANT_MISSING, buf_slice(&detail));
    return false;
}

static bool may_act(struct exchange *x)
{
    struct buf head BUF_AUTO = buf_make(HEAD_OUT_MAX);
    struct slice missing = {0};
    enum template_result result = write_head(x, &head, &missing);
    if (result != TEMPLATE_OK)
        return refuse_question(x, result, missing);
    enum exchange_end end = upstream_exchange(x, SLICE("GET"), buf_slice(&head), slice_of(NULL));
    if (clock_boot_us() >= x->deadline)
        return refuse(x, ERROR_UPSTREAM_TIMEOUT, "the service was still asked who may do this");
    if (end != EXCHANGE_ANSWERED || x->answer.status >= 500)
        return refuse(x, ERROR_UPSTREAM_UNAVAILABLE,
                      "the service did not say whether this caller may act as this tenant");
    if (x->answer.status / 100 == 2)
        return true;
    answer_first(x, &x->answer, RESULT_INVALID);
    return false;
}

/* What the service said beside its 2xx: nobody reads it, and a duplicate may wait for long. */
static void drop_answer(struct exchange *x)
{
    buf_fini(&x->answer.body);
    x->answer.body = buf_make(x->rule->max_response_body);
    bodies_count(x, 0);
}

bool authorize(struct exchange *x)
{
    if (!x->rule->authorizes)
        return true;
    CHECK(x->attempt.token == 0);
    int64_t began = clock_boot_us();
    x->deadline = clock_first(clock_after(began, x->rule->timeout_us), x->patience);
    x->authorizing = true;
    bool goes_on = may_act(x);
    x->authorizing = false;
    http_call_close(&x->call);
    if (goes_on)
        drop_answer(x);
    x->asked_us += clock_boot_us() - began;
    return goes_on;
}
