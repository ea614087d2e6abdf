/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `authorize: GET /tenants/{tenant}/access`: any client that can name a tenant can read its
 * responses and squat its keys, so the service is asked whether this caller may act as this tenant
 * (contract section 3). It is asked once a request, before anything begins: a first attempt under a
 * foreign tenant would become that tenant's outcome, and a mismatch alone shows that a key exists.
 * 2xx goes on, other responses below 500 are the client's, as they are, and 5xx or none is 503.
 * Nothing is remembered: a session ends between two requests. It is asked under a Host of pawl's
 * own: of several virtual hosts the caller would choose one that says 200 to anything.
 */
#include "base/check.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/steps.h"
#include "gateway/exchange/upstream.h"

/* Refuses a request for which no attempt has begun. */
static enum exchange_step refuse_caller(struct exchange *x, enum error error, const char *detail)
{
    return reply_result(x, error, detail, RESULT_UNSENT);
}

/* Nothing can be asked: the caller's doing where its value is no segment of a path, as `al/ice`. */
static enum exchange_step refuse_unwritable(struct exchange *x, enum template_result result,
                                            struct slice source, enum filled_fault fault)
{
    if (result != TEMPLATE_FORMAT)
        return refuse_caller(x, ERROR_UPSTREAM_UNAVAILABLE,
                             "the request lacks a value that `authorize` needs");
    buf_printf(&x->detail, "its value %s in the target of `authorize`: %.*s",
               filled_fault_text(fault), SLICE_ARG(source));
    return reply_error(x, ERROR_TENANT_MISSING, NULL);
}

static enum exchange_step ask_service(struct exchange *x)
{
    struct buf target BUF_AUTO = buf_make(HTTP_HEADERS_SIZE_MAX);
    struct slice missing = {0};
    struct template_output output = {.arena = x->arena, .buf = &target};
    enum template_result result =
        template_probe(&x->rule->authorize, &x->found.facts, &output, &missing);
    if (result == TEMPLATE_OK && !buf_ok(&target))
        result = TEMPLATE_NO_MEMORY;
    if (result != TEMPLATE_OK)
        return refuse_unwritable(x, result, missing, output.fault);
    enum exchange_end end = upstream_exchange(x, buf_slice(&target));
    if (clock_boot_us() >= x->deadline)
        return refuse_caller(x, ERROR_UPSTREAM_TIMEOUT,
                             "the service did not respond to the authorization request in time");
    if (end != EXCHANGE_RESPONDED || x->response.status >= 500)
        return refuse_caller(x, ERROR_UPSTREAM_UNAVAILABLE,
                             "the service did not say whether this caller may act as this tenant");
    return x->response.status / 100 == 2 ? EXCHANGE_JUDGE
                                         : reply_upstream(x, &x->response, RESULT_INVALID);
}

/* What the service said beside its 2xx is not used, and a duplicate may wait for long. */
static void drop_response(struct exchange *x)
{
    http_call_close(&x->call);
    buf_fini(&x->response.body);
    bodies_count(x, 0);
}

enum exchange_step authorize_caller(struct exchange *x)
{
    CHECK(x->flight.taken && x->attempt.token == 0);
    if (!x->rule->authorizes)
        return EXCHANGE_JUDGE;
    int64_t began = clock_boot_us();
    x->deadline = clock_first(clock_after(began, x->rule->timeout_us), x->client_deadline);
    enum exchange_step next = ask_service(x);
    if (next == EXCHANGE_JUDGE)
        drop_response(x);
    x->authorize_us += clock_boot_us() - began;
    return next;
}
