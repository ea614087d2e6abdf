/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `authorize: GET /me`: whoever can name a tenant can read its answers, so before one is told the
 * service is asked whether this caller may see it (contract section 3). The caller's end-to-end
 * headers go along, none of its body. 2xx goes on; any other answer is the client's, as it is. No
 * answer is 503: nothing is told unasked. Nothing is remembered: a session ends between two
 * requests. It is asked before a probe, too: what that finds is an earlier answer, and the 404 by
 * which a service hides from one caller what is another's would release the other's operation.
 */
#include "base/check.h"
#include "gateway/exchange.h"
#include "gateway/head.h"

/* Those that tell of an earlier answer. A mismatch or a running request tells of none. */
static bool tells_answer(enum engine_verdict verdict)
{
    return verdict == ENGINE_REPLAY || verdict == ENGINE_RESULT_EXPIRED ||
           verdict == ENGINE_RESULT_NOT_KEPT;
}

static bool write_head(struct exchange *x, struct buf *head, struct slice *ret_missing)
{
    struct buf target BUF_AUTO = buf_make(HTTP_HEAD_MAX);
    const struct http_request *request = upstream_get_request(x);
    enum template_result result =
        template_probe(&x->rule->authorize, &x->found.facts, &x->arena, &target, ret_missing);
    if (!request || result != TEMPLATE_OK || !buf_ok(&target))
        return false;
    struct head_extra extra = {
        .peer = x->client->address,
        .ruled = true,
        .traceparent = client_trace(x->client, x->request),
    };
    head_write_request(head, SLICE("GET"), buf_slice(&target), request, &extra);
    return buf_ok(head);
}

/* A kept connection may have died unused: a GET may go out once more, on a new one. */
static enum exchange_end ask(struct exchange *x, struct slice head, bool fresh)
{
    enum exchange_end end = EXCHANGE_NOT_SENT;
    if (!upstream_take(x, fresh, &end))
        return end;
    uint64_t before = x->upstream->received;
    end = upstream_exchange(x, SLICE("GET"), head, slice_of(NULL));
    bool unused = before > 0 && x->upstream->received == before;
    if (fresh || !unused || end == EXCHANGE_ANSWERED || end == EXCHANGE_TIMED_OUT)
        return end;
    upstream_give(x);
    return ask(x, head, true);
}

static bool refuse(struct exchange *x, const char *detail)
{
    answer_error(x, ERROR_UPSTREAM_UNAVAILABLE, slice_of(detail), NULL);
    return false;
}

static bool may_see(struct exchange *x)
{
    struct buf head BUF_AUTO = buf_make(HEAD_OUT_MAX);
    struct slice missing = {0};
    if (!write_head(x, &head, &missing))
        return refuse(x, "the request lacks what `authorize` asks with");
    enum exchange_end end = ask(x, buf_slice(&head), false);
    if (end != EXCHANGE_ANSWERED)
        return refuse(x, "the service did not say whether this caller may see the answer");
    if (x->answer.status / 100 == 2)
        return true;
    answer_first(x, &x->answer, NULL);
    return false;
}

static bool ask_who(struct exchange *x)
{
    int64_t limit = clock_after(clock_boot_us(), x->rule->timeout_us);
    x->deadline = limit < x->patience ? limit : x->patience;
    x->authorizing = true;
    atomic_fetch_add(&x->server->shared->in_flight, 1);
    bool goes_on = may_see(x);
    atomic_fetch_sub(&x->server->shared->in_flight, 1);
    x->authorizing = false;
    upstream_give(x);
    return goes_on;
}

bool authorize(struct exchange *x, enum engine_verdict verdict)
{
    if (!x->rule->authorizes || !tells_answer(verdict))
        return true;
    CHECK(x->attempt.token == 0);
    bool goes_on = ask_who(x);
    if (!goes_on && verdict == ENGINE_REPLAY)
        outcome_unref(x->attempt.op.found);
    return goes_on;
}

bool authorize_probe(struct exchange *x)
{
    return !x->rule->authorizes || x->owned || ask_who(x);
}
