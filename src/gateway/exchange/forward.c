/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/crash.h"
#include "base/text/uuid.h"
#include "core/request/trial.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/retry.h"
#include "gateway/exchange/steps.h"
#include "gateway/exchange/upstream.h"

/* Reads the response's body, which may be large: on a worker. */
struct reading {
    const struct exchange *x;
    bool is_probe;
    enum response_says says;
};

static void read_response_body(void *argument)
{
    struct reading *reading = argument;
    const struct exchange *x = reading->x;
    const struct headers *headers = &x->call.response.headers;
    struct slice body = x->response.whole ? buf_slice(&x->response.body) : SLICE("");
    if (reading->is_probe)
        reading->says = rule_probe_says(x->rule, x->response.status, headers, body);
    else
        reading->says =
            disposition_says_by_body(&x->rule->by_body, x->response.status, headers, body);
}

static enum response_says read_by_rule(const struct exchange *x, bool is_probe)
{
    struct reading reading = {.x = x, .is_probe = is_probe};
    bool on = body_conditions_are_on(is_probe ? &x->rule->not_found_by_body : &x->rule->by_body);
    exchange_work(x, on && x->response.body.len >= OFFLOAD_LEAST, read_response_body, &reading);
    return reading.says;
}

static enum response_says says_of(const struct exchange *x)
{
    enum response_says by_code = disposition_says(x->response.status, &x->call.response.headers);
    if (by_code == SAYS_DUPLICATE)
        return by_code;
    enum response_says by_body = read_by_rule(x, false);
    return by_body == SAYS_NOTHING ? by_code : by_body;
}

static struct disposition disposition_of(struct exchange *x, enum exchange_end end)
{
    x->says = end == EXCHANGE_RESPONDED ? says_of(x) : SAYS_NOTHING;
    return disposition_of_exchange(end, x->response.status, x->says, x->rule->unknown,
                                   &x->rule->responses);
}

/* The rest of a response that is passed live is still to be read. */
static void close_unless_live(struct exchange *x, enum exchange_end end)
{
    if (end != EXCHANGE_RESPONDED || x->response.whole)
        http_call_close(&x->call);
}

/* What `authorize` took is part of the rule's timeout. */
static int64_t deadline_from_now(const struct exchange *x)
{
    return clock_after(clock_boot_us(), x->rule->timeout_us - x->authorize_us);
}

/* All tries have the one timeout. */
static void begin_tries(struct exchange *x)
{
    CHECK(!x->attempt.begin.spent);
    if (x->course.attempts == 0)
        x->tries_by = deadline_from_now(x);
    retry_begin_course(x);
}

/* Nothing was sent under this token: it is released, and the next begin is a new attempt (invariant
 * 13). */
static enum exchange_step give_back_lease(struct exchange *x)
{
    CHECK(x->attempt.token > 0 && x->call.state == HTTP_CALL_CLOSED);
    x->disposition = (struct disposition){.write = WRITE_RELEASE, .next = NEXT_DECIDE};
    return EXCHANGE_SETTLE;
}

enum exchange_step forward_request(struct exchange *x)
{
    CHECK(x->attempt.token > 0 && x->has_body);
    if (x->client_state == CLIENT_REFUSED)
        return give_back_lease(x);
    if (x->before != EXCHANGE_RETRY)
        begin_tries(x);
    retry_time_try(x);
    enum exchange_end end = x->try_end = upstream_exchange(x, slice_of(NULL));
    /* The response's headers go with its connection. */
    x->disposition = retry_keep_doubt(x, disposition_of(x, end));
    bool not_done = x->disposition.write == WRITE_RELEASE || x->disposition.write == WRITE_DROP;
    bool connected = x->call.state != HTTP_CALL_CLOSED;
    bool late = connected && end == EXCHANGE_NOT_SENT && !engine_may_send(&x->attempt) &&
                !x->tried_in_doubt;
    bool again = !late && retry_plans_again(x, end);
    close_unless_live(x, end);
    if (late) {
        retry_take_back(x);
        return give_back_lease(x);
    }
    x->attempt.begin.spent = x->tried_in_doubt || (!not_done && end != EXCHANGE_TOKEN_STALE);
    return again ? EXCHANGE_RETRY : EXCHANGE_SETTLE;
}

/* ---- a probe ---- */

/* False: there is nothing to probe by. */
static bool write_target(struct exchange *x, struct buf *target)
{
    struct slice missing = {0};
    struct template_output output = {.arena = x->arena, .buf = target};
    x->found.facts.key = holder_key(x);
    bool opened = !template_needs_body(&x->rule->probe) ||
                  identify_open_payload(x, x->rule->body_json) == PAYLOAD_OK;
    enum template_result result =
        template_probe(&x->rule->probe, &x->found.facts, &output, &missing);
    identify_close_payload(x);
    if (result == TEMPLATE_FORMAT) {
        x->unprobed = missing;
        x->unprobed_by = output.fault;
    }
    return opened && result == TEMPLATE_OK && buf_ok(target);
}

/* `*ret_not_found`: the service knows nothing of it. What could not be read for want of memory is
 * as if it had not been sent. */
static enum exchange_end ask_probe(struct exchange *x, bool *ret_not_found)
{
    struct buf target BUF_AUTO = buf_make(HTTP_HEADERS_SIZE_MAX);
    enum exchange_end end = EXCHANGE_NOT_SENT;
    x->deadline = clock_after(clock_boot_us(), x->rule->timeout_us);
    if (write_target(x, &target))
        end = upstream_exchange(x, buf_slice(&target));
    enum response_says says = SAYS_NOTHING;
    if (end == EXCHANGE_RESPONDED)
        says = read_by_rule(x, true);
    *ret_not_found = says == SAYS_NOT_DONE;
    if (says == SAYS_IN_DOUBT)
        end = EXCHANGE_NOT_SENT;
    close_unless_live(x, end);
    return end;
}

static void try_probed_service(struct exchange *x)
{
    char key[UUID_SIZE];
    bool not_found = false;
    uuid_make(key);
    x->no_key = slice_of(key);
    enum exchange_end end = ask_probe(x, &not_found);
    http_call_close(&x->call); /* one that would be passed live is not read */
    x->no_key = slice_of(NULL);
    trial_ends(x->plan->settings.rules, x->rule,
               (struct trial_end){end, x->response.status, not_found}, x->server->config->log);
}

/* As one that was not sent: it says nothing, also where what it finds is not believed. */
static enum exchange_end ask_upstream(struct exchange *x, bool *ret_not_found)
{
    CHECK(x->attempt.token > 0 && x->has_body);
    x->not_found_yet = false;
    if (trial_is_due(x->plan->settings.rules, x->rule))
        try_probed_service(x);
    CRASH_POINT(before_probe);
    enum exchange_end end = ask_probe(x, ret_not_found);
    CRASH_POINT(after_probe_response);
    bool found = end == EXCHANGE_RESPONDED && !*ret_not_found && x->response.status / 100 == 2;
    if (found && trial_of(x->plan->settings.rules, x->rule) == TRIAL_FAILED)
        return EXCHANGE_NOT_SENT;
    if (found && x->rule->probe_status != 0)
        x->response.status = x->rule->probe_status;
    return end;
}

enum exchange_step forward_probe(struct exchange *x)
{
    bool not_found = false;
    enum exchange_end end = ask_upstream(x, &not_found);
    x->disposition = disposition_of_probe(end, x->response.status, not_found);
    return EXCHANGE_SETTLE;
}

enum exchange_step forward_inquiry(struct exchange *x)
{
    bool not_found = false;
    enum exchange_end end = ask_upstream(x, &not_found);
    x->disposition = disposition_of_inquiry(end, x->response.status, not_found);
    return EXCHANGE_SETTLE;
}

/* ---- without a record ---- */

enum exchange_step forward_unprotected(struct exchange *x)
{
    CHECK(x->rule->store_down_pass && !x->met);
    x->deadline = deadline_from_now(x);
    if (x->attempt.begin.window)
        x->attempt.result.record.created_at = clock_wall_us(); /* its window is not known */
    enum exchange_end end = upstream_exchange(x, slice_of(NULL));
    if (end == EXCHANGE_RESPONDED)
        return reply_upstream(x, &x->response, RESULT_BYPASSED);
    enum error error = end == EXCHANGE_NOT_SENT    ? ERROR_UPSTREAM_UNAVAILABLE
                       : end == EXCHANGE_TIMED_OUT ? ERROR_UPSTREAM_TIMEOUT
                       : end == EXCHANGE_MALFORMED ? ERROR_UPSTREAM_MALFORMED
                                                   : ERROR_UPSTREAM_BROKE;
    const char *why = error == ERROR_UPSTREAM_MALFORMED ? x->malformed : x->call.tls_problem;
    return reply_result(x, error, why, RESULT_BYPASSED);
}
