/* SPDX-License-Identifier: Apache-2.0 */
#include "client/http.h"

#include "base/check.h"
#include "base/crash.h"
#include <stdio.h>

#define HEADERS_OUT_MAX ((size_t)128 * 1024)
#define ARENA_MAX ((size_t)1024 * 1024)

static void run_http_attempt(struct runner_executor *executor, const struct runner_attempt *attempt,
                             struct runner_end *ret_end);

void client_http_init(struct client_http *http)
{
    http->executor.run = run_http_attempt;
    http->request = http->fields = http->kept = buf_make(HEADERS_OUT_MAX);
    http->body = buf_make(SIZE_MAX);
    http->arena = arena_make(ARENA_MAX);
}

void client_http_fini(struct client_http *http)
{
    buf_fini(&http->request);
    buf_fini(&http->fields);
    buf_fini(&http->kept);
    buf_fini(&http->body);
    arena_fini(&http->arena);
    compress_fini(&http->compress);
}

static void forget_last(struct client_http *http)
{
    CHECK(http->call.state == HTTP_CALL_CLOSED);
    memset(&http->call, 0, HTTP_CALL_ZEROED);
    buf_clear(&http->request);
    buf_clear(&http->fields);
    buf_clear(&http->kept);
    buf_clear(&http->body);
    arena_reset(&http->arena);
    http->status = 0;
    http->reason = SLICE("");
    http->truncated = false;
}

/* ---- the request ---- */

/* All of it: its lines beside those of the caller, who named none of them. No token goes along:
 * those of two stores cannot be compared. */
static bool write_request(struct client_http *http, int number)
{
    const struct client_operation *operation = http->operation;
    struct headers *headers = arena_alloc(&http->arena, sizeof *headers);
    BUF_AUTO struct buf key = buf_make(HEADERS_OUT_MAX), attempt = buf_make(HEADERS_OUT_MAX);
    key_value_write(operation->key, KEY_FORWARD_BARE, KEY_SYNTAX_LENIENT, &key);
    buf_add_i64(&attempt, number);
    if (!headers || !buf_ok(&key) || !buf_ok(&attempt))
        return false;
    *headers = *operation->headers;
    if (!headers_add(headers, SLICE("Idempotency-Key"), buf_slice(&key)) ||
        !headers_add(headers, SLICE("Idempotency-Attempt"), buf_slice(&attempt)))
        return false;
    struct http_origins_request request = {operation->method, &operation->url, headers,
                                           operation->body, operation->has_body};
    http_origins_write(&http->request, &request);
    return buf_ok(&http->request);
}

/* ---- the response ---- */

static void copy_response(struct client_http *http, enum http_call_result result)
{
    const struct http_response *response = &http->call.response;
    for (size_t i = 0; i < response->headers.n; i++)
        fields_add(&http->fields, response->headers.at[i].name, response->headers.at[i].value);
    outcome_keep_fields(&response->headers, 0, &http->kept);
    http->status = response->status;
    http->truncated = result == HTTP_CALL_TOO_LARGE;
    http->reason = arena_copy(&http->arena, response->reason);
}

/* What a portal says is no response, also to whoever sent it: nothing of it is kept. */
static bool is_of_portal(const struct client_http *http)
{
    const struct client_operation *operation = http->operation;
    const struct http_response *response = &http->call.response;
    return retry_is_of_portal(operation->url.tls, operation->headers, response->status,
                              &response->headers, http->choices);
}

/* Without the memory to read it, it is as if it had not come. */
static enum exchange_end forget_answer(struct retry_answer *answer, struct runner_end *end,
                                       enum http_call_result *result)
{
    *answer = (struct retry_answer){0};
    end->code = SLICE("");
    *result = HTTP_CALL_NO_MEMORY;
    return EXCHANGE_BROKE;
}

/* Reads what it says while its headers are there. */
static enum exchange_end read_http_response(struct client_http *http, enum http_call_result *result,
                                            struct retry_answer *answer, struct runner_end *end)
{
    const struct http_call *call = &http->call;
    const struct headers *headers = &call->response.headers;
    bool responded = call->state == HTTP_CALL_RESPONDED;
    bool stale = responded && disposition_token_is_stale(call->response.status, headers);
    enum exchange_end ended = http_call_end(call, *result, stale);
    if (ended != EXCHANGE_RESPONDED)
        return ended;
    struct slice whole = *result == HTTP_CALL_TOO_LARGE ? SLICE("") : buf_slice(&http->body);
    enum response_says says =
        http->choices ? retry_says(http->choices, headers, whole) : SAYS_NOTHING;
    if (says == SAYS_NOTHING && is_of_portal(http)) {
        buf_clear(&http->body);
        return EXCHANGE_PORTAL;
    }
    answer->is_not_done = says == SAYS_NOT_DONE;
    answer->status = call->response.status;
    bool is_read = retry_read_answer(headers, buf_slice(&http->body), &http->arena, answer);
    end->code = arena_copy(&http->arena, answer->code);
    if (says == SAYS_IN_DOUBT || !is_read || !end->code.at)
        return forget_answer(answer, end, result);
    answer->code = end->code;
    copy_response(http, *result);
    end->hint_us = retry_read_hint(headers, clock_wall_us());
    end->status = http->status;
    return ended;
}

/* ---- what it means ---- */

/* `remember: success`, where a 5xx leaves in doubt what it does not rule out. */
static struct remember_policy make_policy(void)
{
    struct remember_policy policy = remember_policy_of(REMEMBER_SUCCESS);
    for (int status = 500; status <= REMEMBER_STATUS_MOST; status++)
        remember_policy_move(&policy, status,
                             retry_leaves_doubt(status) ? SORT_IN_DOUBT : SORT_NOT_DONE);
    return policy;
}

static const char *note_of(struct client_http *http, enum exchange_end ended,
                           enum http_call_result result)
{
    const struct http_call *call = &http->call;
    switch (ended) {
    case EXCHANGE_RESPONDED:
        return NULL;
    case EXCHANGE_TIMED_OUT:
        return "timeout";
    case EXCHANGE_MALFORMED:
        snprintf(http->note, sizeof http->note, "malformed: %s", call->malformed);
        return http->note;
    case EXCHANGE_PORTAL:
        snprintf(http->note, sizeof http->note,
                 "%d over http is taken for a portal's: the service was not reached",
                 call->response.status);
        return http->note;
    case EXCHANGE_BROKE:
        return result == HTTP_CALL_NO_MEMORY ? "out of memory" : "the connection broke off";
    case EXCHANGE_TOKEN_STALE:
        return "the service knows of a later attempt";
    case EXCHANGE_NOT_SENT:
        break;
    }
    return call->unreached                 ? call->unreached
           : result == HTTP_CALL_NO_MEMORY ? "out of memory"
           : result == HTTP_CALL_LATE      ? "the time to send it had passed"
                                           : "the connection was closed";
}

/* A refusal alone is kept, and only where nothing is in doubt: a redirect. */
static enum disposition_write write_of(const struct runner_end *end,
                                       const struct retry_answer *answer)
{
    struct remember_policy policy = make_policy();
    enum disposition_write write = disposition_of_exchange(answer->end, end->status, SAYS_NOTHING,
                                                           RECORD_UNKNOWN_RETRY, &policy)
                                       .write;
    if (end->class == RETRY_DONE)
        return WRITE_COMPLETE;
    bool keeps = end->class == RETRY_FINAL || write >= WRITE_RELEASE;
    if (!answer->is_not_done && retry_answer_leaves_doubt(answer))
        return WRITE_DOUBT;
    return keeps && !answer->is_not_done ? write : WRITE_RELEASE;
}

static void judge_http_attempt(struct client_http *http, const struct runner_attempt *attempt,
                               const struct retry_answer *answer, enum http_call_result result,
                               struct runner_end *end)
{
    enum exchange_end ended = answer->end;
    end->class = retry_judge(RETRY_BY_CALL, answer, http->choices, attempt->in_doubt);
    end->write = write_of(end, answer);
    end->is_settled = attempt->in_doubt && ended == EXCHANGE_RESPONDED && end->class == RETRY_FINAL;
    end->cause = http_call_cause(&http->call, ended);
    end->ended = ended;
    end->reached = ended != EXCHANGE_NOT_SENT && ended != EXCHANGE_PORTAL;
    end->note = note_of(http, ended, result);
    if (end->write != WRITE_COMPLETE || http->truncated || !buf_ok(&http->kept))
        return;
    end->outcome = outcome_new(http->status, false, buf_slice(&http->kept), buf_slice(&http->body));
    if (end->outcome)
        outcome_pack(end->outcome, &http->compress);
}

/* ---- all of it ---- */

static enum http_call_result exchange_over_http(struct client_http *http,
                                                const struct runner_attempt *attempt,
                                                const char **ret_problem)
{
    struct http_call *call = &http->call;
    int64_t connect_by = clock_after(clock_boot_us(), http->connect_us);
    struct http_call_limits limits = {connect_by, attempt->until, http->max_body};
    if (!write_request(http, attempt->number))
        return HTTP_CALL_NO_MEMORY;
    enum http_call_result result =
        http_origins_find(http->origins, &http->operation->url,
                          clock_first(connect_by, attempt->until), &call->pool, ret_problem);
    if (result != HTTP_CALL_DONE)
        return result;
    call->method = http->operation->method;
    call->headers = buf_slice(&http->request);
    call->body = http->operation->body;
    call->first_by = attempt->send_by;
    CRASH_POINT(before_connect);
    result = http_call_run(call, &limits, &http->body);
    CRASH_POINT(after_response_body);
    return result;
}

static void run_http_attempt(struct runner_executor *executor, const struct runner_attempt *attempt,
                             struct runner_end *ret_end)
{
    struct client_http *http = (struct client_http *)executor;
    const char *problem = NULL;
    CHECK(http->connect_us > 0 && http->max_body > 0);
    CHECK(attempt->number > 0 && !ret_end->outcome);
    forget_last(http);
    enum http_call_result result = exchange_over_http(http, attempt, &problem);
    if (problem)
        http->call.unreached = problem;
    struct retry_answer answer = {0};
    answer.end = read_http_response(http, &result, &answer, ret_end);
    judge_http_attempt(http, attempt, &answer, result, ret_end);
    http_call_close(&http->call);
    http_pool_unref(http->call.pool);
    http->call.pool = NULL;
}
