/* SPDX-License-Identifier: Apache-2.0 */
/* `unknown: probe`: asks the upstream what became of an operation (contract section 5). A probe is
 * an acquisition of its own, and only a GET. */
#include "base/crash.h"
#include "gateway/exchange/exchange.h"
#include "gateway/head.h"

static bool write_head(struct exchange *x, struct buf *head)
{
    struct buf target BUF_AUTO = buf_make(HTTP_HEAD_MAX);
    struct slice missing = {0};
    x->found.facts.key = holder_key(x);
    const struct http_request *probe = upstream_get_request(x);
    bool opened =
        !template_needs_body(&x->rule->probe) || payload_open(x, x->rule->body_json) == PAYLOAD_OK;
    enum template_result result =
        template_probe(&x->rule->probe, &x->found.facts, x->arena, &target, &missing);
    payload_close(x);
    if (!opened || !probe || x->holder_lost || result != TEMPLATE_OK || !buf_ok(&target))
        return false;
    struct head_extra extra = {
        .client = x->client,
        .ruled = true,
        .idempotency_key = upstream_key(x),
        .token = x->attempt.token,
        .attempt = x->attempt.result.record.attempts,
    };
    head_write_request(head, SLICE("GET"), buf_slice(&target), probe, &extra);
    return buf_ok(head);
}

enum step probe_run(struct exchange *x)
{
    struct buf head BUF_AUTO = buf_make(HEAD_OUT_MAX);
    enum exchange_end end = EXCHANGE_NOT_SENT;
    x->probing = true;
    x->deadline = clock_after(clock_boot_us(), x->rule->timeout_us);
    CRASH_POINT(before_probe);
    if (write_head(x, &head))
        end = upstream_exchange(x, SLICE("GET"), buf_slice(&head), slice_of(NULL));
    CRASH_POINT(after_probe_answer);
    bool live = end == EXCHANGE_ANSWERED && !x->answer.whole;
    if (!live)
        http_call_close(&x->call);
    if (end == EXCHANGE_ANSWERED && x->rule->probe_status != 0 && x->answer.status / 100 == 2)
        x->answer.status = x->rule->probe_status;
    return settle(x, fate_of_probe(end, x->answer.status));
}
