/* SPDX-License-Identifier: Apache-2.0 */
/* A ruled request from top to bottom: the steps that exchange.h draws. */
#include "base/check.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/steps.h"
#include "gateway/pass/pass.h"

static enum exchange_step take_exchange_step(struct exchange *x)
{
    switch (x->step) {
    case EXCHANGE_IDENTIFY:
        return identify_request(x); /* tenant, key, body, hashes */
    case EXCHANGE_ADMIT:
        return flight_admit(x); /* one of max_in_flight */
    case EXCHANGE_AUTHORIZE:
        return authorize_caller(x); /* may it act as this tenant? */
    case EXCHANGE_JUDGE:
        return exchange_judge_anew(x); /* by the rules of now, after a reload */
    case EXCHANGE_DECIDE:
        return decide_attempt(x); /* engine_begin, and then one of: */
    case EXCHANGE_FORWARD:
        return forward_request(x); /* send once, read */
    case EXCHANGE_RETRY:
        return retry_wait(x); /* wait, then send once more */
    case EXCHANGE_PROBE:
        return forward_probe(x); /* ask what became of it */
    case EXCHANGE_INQUIRE:
        return forward_inquiry(x); /* ask whether it was done before */
    case EXCHANGE_UNPROTECTED:
        return forward_unprotected(x); /* `store_down: pass` */
    case EXCHANGE_SETTLE:
        return settle_disposition(x); /* store what became of it */
    case EXCHANGE_RESPOND:
        return reply_write(x); /* respond with what is then true */
    case EXCHANGE_BYPASS:
    case EXCHANGE_DONE:
        break;
    }
    UNREACHABLE();
}

bool exchange_end(struct exchange *x)
{
    bool bypass = x->step == EXCHANGE_BYPASS;
    CHECK(!x->client->session.waiting);
    CHECK(bypass ? x->client_state == CLIENT_WAITS : x->client_state != CLIENT_WAITS);
    bool keep = x->keep_alive;
    if (!bypass)
        exchange_log(x);
    flight_give_back(x);
    bodies_release(x);
    exchange_free(x);
    return keep;
}

bool exchange_run(struct client *client, const struct http_request *request,
                  const struct rule_found *found)
{
    struct exchange *x = exchange_new(client, request, found);
    if (!x)
        return false;
    while (x->step != EXCHANGE_DONE && x->step != EXCHANGE_BYPASS)
        exchange_move(x, take_exchange_step(x));
    bool bypass = x->step == EXCHANGE_BYPASS;
    bool keep = exchange_end(x);
    return bypass ? pass_run(client, request) : keep;
}
