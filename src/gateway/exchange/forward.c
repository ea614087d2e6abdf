/* SPDX-License-Identifier: Apache-2.0 */
/* The first attempt: the request goes upstream, once, under the token that was acquired. */
#include "gateway/exchange/exchange.h"
#include "gateway/head.h"

static void write_head(struct exchange *x, struct buf *head)
{
    struct head_extra extra = {
        .client = x->client,
        .ruled = true,
        .idempotency_key = upstream_key(x),
        .token = x->attempt.token,
        .attempt = x->attempt.result.record.attempts,
        .has_length = true,
        .length = x->body.len,
    };
    head_write_request(head, x->request->method, slice_of(NULL), x->request, &extra);
}

static bool says_duplicate(const struct exchange *x)
{
    const struct header *code = headers_find(&x->call.response.headers, SLICE("Error-Code"));
    return code && slice_eq(code->value, SLICE("PROVIDER.duplicate"));
}

static struct fate fate_of(const struct exchange *x, enum exchange_end end)
{
    bool duplicate = end == EXCHANGE_ANSWERED && says_duplicate(x);
    return fate_of_exchange(end, x->answer.status, duplicate, x->rule->unknown, &x->rule->answers);
}

/* Nothing was sent under this token: the next begin is a new attempt (invariant 13). */
enum step forward_give_back(struct exchange *x)
{
    http_call_close(&x->call);
    return settle(x, (struct fate){.write = FATE_RELEASE, .tell = FATE_DECIDE});
}

enum step forward_run(struct exchange *x)
{
    struct buf head BUF_AUTO = exchange_buf(x, HEAD_OUT_FIRST, HEAD_OUT_MAX);
    enum exchange_end end = EXCHANGE_NOT_SENT;
    x->probing = false;
    x->deadline = clock_after(clock_boot_us(), x->rule->timeout_us - x->asked_us);
    write_head(x, &head);
    if (buf_ok(&head) && !x->holder_lost)
        end = upstream_exchange(x, x->request->method, buf_slice(&head), buf_slice(&x->body));
    if (x->call.state == HTTP_CALL_CLOSED)
        return settle(x, fate_of(x, EXCHANGE_NOT_SENT));
    if (end == EXCHANGE_NOT_SENT && !engine_may_send(&x->attempt))
        return forward_give_back(x);
    bool live = end == EXCHANGE_ANSWERED && !x->answer.whole;
    struct fate fate = fate_of(x, end); /* the answer's head goes with its connection */
    bool not_done = fate.write == FATE_RELEASE || fate.write == FATE_DROP;
    x->attempt.begin.spent = !not_done && end != EXCHANGE_TOKEN_STALE;
    if (!live)
        http_call_close(&x->call);
    return settle(x, fate);
}

/* ---- without a record ---- */

static void tell_unprotected(struct exchange *x, enum exchange_end end)
{
    enum error error = end == EXCHANGE_NOT_SENT    ? ERROR_UPSTREAM_UNAVAILABLE
                       : end == EXCHANGE_TIMED_OUT ? ERROR_UPSTREAM_TIMEOUT
                                                   : ERROR_UPSTREAM_BROKE;
    if (end == EXCHANGE_ANSWERED)
        answer_first(x, &x->answer, RESULT_BYPASSED);
    else
        answer_result(x, error, slice_of(x->call.tls_problem), RESULT_BYPASSED);
}

enum step forward_unprotected(struct exchange *x)
{
    struct buf head BUF_AUTO = exchange_buf(x, HEAD_OUT_FIRST, HEAD_OUT_MAX);
    enum exchange_end end = EXCHANGE_NOT_SENT;
    x->unprotected = true;
    x->deadline = clock_after(clock_boot_us(), x->rule->timeout_us - x->asked_us);
    if (x->attempt.begin.window)
        x->attempt.result.record.created_at = clock_wall_us(); /* its window is not known */
    write_head(x, &head);
    if (buf_ok(&head))
        end = upstream_exchange(x, x->request->method, buf_slice(&head), buf_slice(&x->body));
    tell_unprotected(x, end);
    http_call_close(&x->call);
    return STEP_DONE;
}
