/* SPDX-License-Identifier: Apache-2.0 */
/* What the client gets (contract section 5). Each request is answered once. */
#include "base/check.h"
#include "gateway/events.h"
#include "gateway/exchange/exchange.h"
#include "gateway/response.h"

#define DETAIL_MAX ((size_t)2 * 1024)

/* False: it was answered before. */
static bool begin_answer(struct exchange *x, int status, enum result result)
{
    if (x->answered)
        return false;
    x->answered = true;
    x->status = status;
    x->result = result;
    return true;
}

/* Writes a kept outcome. */
static void answer_outcome(struct exchange *x, const struct outcome *outcome, enum result result)
{
    if (!begin_answer(x, outcome->status, result))
        return;
    struct response response RESPONSE_AUTO =
        response_make(x->client, x->status, slice_of(NULL), result);
    buf_add_slice(&response.head, outcome->fields);
    if (!outcome_field(outcome->fields, SLICE("Cache-Control")).at)
        head_write_field(&response.head, "Cache-Control", SLICE("no-store"));
    x->keep_alive = response_write(&response, outcome->body);
}

/* `duplicate: ack`: that it was done is all this client wants to know. */
static void answer_ack(struct exchange *x)
{
    bool by_own = x->rule->duplicate == RULE_DUPLICATE_ACK;
    int status = by_own ? x->rule->ack_status : x->rule->once.ack_status;
    answer_outcome(x, &(struct outcome){.status = status}, RESULT_ACKED);
}

void answer_first(struct exchange *x, const struct answer *answer, enum result result)
{
    if (!begin_answer(x, answer->status, result))
        return;
    struct response response RESPONSE_AUTO =
        response_make(x->client, x->status, slice_of(NULL), result);
    buf_add_slice(&response.head, buf_slice(&answer->fields));
    bool live = !answer->whole && head_has_body(answer->status);
    x->keep_alive = live ? response_stream(&response, &x->call, buf_slice(&answer->body))
                         : response_write(&response, buf_slice(&answer->body));
}

/* ---- pawl's own errors ---- */

/* What the record says of the first attempt. */
static void tell_first(const struct exchange *x, struct problem *problem)
{
    const struct attempt_result *result = &x->attempt.result;
    problem->first_status = result->record.http_status;
    if (problem->error != ERROR_DUPLICATE)
        return;
    if (result->found)
        problem->first_location = result->found->location;
    problem->first_at = result->record.created_at;
    problem->window_ends_at = result->by_once ? result->record.once_until : result->record.gone_at;
}

static bool tells_first(enum error error)
{
    return error == ERROR_RESULT_EXPIRED || error == ERROR_RESULT_NOT_KEPT ||
           error == ERROR_DUPLICATE;
}

/* The operation is running, or nobody knows its outcome. */
static bool tells_operation(enum error error)
{
    return error == ERROR_IN_PROGRESS || error == ERROR_OUTCOME_UNKNOWN ||
           error == ERROR_UPSTREAM_BROKE || error == ERROR_UPSTREAM_TIMEOUT;
}

static void tell_operation(const struct attempt_result *result, struct problem *problem)
{
    const struct record *record = &result->record;
    bool live = result->lease == RECORD_LEASE_LIVE;
    bool open = record->status == RECORD_PENDING || record->provisional;
    bool running = open && (live || problem->error == ERROR_IN_PROGRESS);
    if (!running && record->status != RECORD_UNKNOWN)
        return;
    problem->state = record_status_name(running ? RECORD_PENDING : RECORD_UNKNOWN);
    problem->attempt = record->attempts;
    problem->started_at = record->started_at;
    problem->lease_left_ms = live ? result->lease_left_us / CLOCK_US_PER_MS : -1;
}

/* Somebody is at the first request under this key, or nobody knows what it did. */
static void warn_of_open_first(struct problem *problem)
{
    problem->safe_new_key = false;
    problem->hint = "The first request under this key is not settled. Repeat it exactly, and start "
                    "nothing new before its response is known.";
}

/* Another key stands for the same operation, and it was done. */
static void warn_of_other_key(struct problem *problem)
{
    problem->safe_new_key = false;
    problem->hint = "The operation that this request names was done before, by another request. Do "
                    "not send it again, under whatever key.";
}

/* No more than the table says where no repeat under the key finds out more. */
static void make_unretryable(struct problem *problem)
{
    problem->retryable = false;
    problem->hint = error_row(ERROR_OUTCOME_UNKNOWN)->hint;
}

/* The operation is named by what the request says: no new key makes it another one, and what the
 * record holds may have happened. */
static void warn_of_derived_key(struct problem *problem)
{
    problem->safe_new_key = false;
    problem->hint = "This route builds the key from the request, and an operation of that name "
                    "exists. Repeat the first request exactly to retry it.";
}

static void make_mismatch_exact(const struct exchange *x, struct problem *problem)
{
    enum record_status status = x->attempt.result.record.status;
    problem->status = x->rule->mismatch_status;
    if (status == RECORD_PENDING || status == RECORD_UNKNOWN)
        warn_of_open_first(problem);
    else if (!template_key_header(&x->rule->key))
        warn_of_derived_key(problem);
    if (x->attempt.result.by_once)
        warn_of_other_key(problem);
}

/* Nothing was done by this request. What an earlier one under the key did is another matter, where
 * the record was not asked, or holds a doubt. */
static void make_unreached_exact(const struct exchange *x, struct problem *problem)
{
    bool asked = x->owned && !x->unprotected;
    if (asked && !x->at_store && !x->attempt.result.record.doubt)
        return;
    problem->safe_new_key = false;
    problem->hint = "This request did nothing, but an earlier one under the key may have. Retry "
                    "with backoff under the same key.";
}

/* This exchange acquires nothing any more; its client's next request is another one. */
static bool is_new_operation(const struct exchange *x)
{
    return x->attempt.begin.spent && x->attempt.result.record.status != RECORD_UNKNOWN;
}

/* What the table says in general, the rule's policy and the record make exact. While an operation
 * is the store's, so is the record, which is not looked at then. */
static void make_exact(const struct exchange *x, struct problem *problem)
{
    enum record_unknown unknown = x->rule->unknown;
    enum error error = problem->error;
    if (error == ERROR_PAYLOAD_MISMATCH)
        make_mismatch_exact(x, problem);
    if (error == ERROR_UPSTREAM_UNAVAILABLE)
        make_unreached_exact(x, problem);
    if (x->once_lacking)
        problem_name_once(problem);
    if (x->authorizing)
        return; /* no record was looked at */
    if (error == ERROR_OUTCOME_UNKNOWN)
        problem->retryable = unknown == RECORD_UNKNOWN_PROBE || is_new_operation(x);
    bool in_doubt = error == ERROR_UPSTREAM_BROKE || error == ERROR_UPSTREAM_TIMEOUT;
    if (in_doubt && unknown == RECORD_UNKNOWN_HOLD && !x->goes_on && !x->unprotected)
        make_unretryable(problem);
    if (x->unprotected)
        problem_warn_unprotected(problem);
    if (tells_first(error))
        tell_first(x, problem);
    if (tells_operation(error) && !x->unprotected)
        tell_operation(&x->attempt.result, problem);
}

/* As the upstream sees it: with {window:} its begin stands behind it, once that is known. */
static struct slice shown_key(struct exchange *x)
{
    bool known = x->attempt.result.record.created_at > 0;
    return x->attempt.begin.window && known ? operation_key(x) : buf_slice(&x->key);
}

static int64_t seconds_up(int64_t span_us)
{
    int64_t seconds = (span_us + CLOCK_US_PER_S - 1) / CLOCK_US_PER_S;
    return seconds > 0 ? seconds : 1;
}

/* Seconds; 0: not said. */
static uint64_t retry_after(const struct exchange *x, enum error error)
{
    const struct attempt_result *result = &x->attempt.result;
    int64_t wait = x->plan->settings.retry_after_us;
    switch (error) {
    case ERROR_IN_PROGRESS:
        if (result->lease_left_us > 0 && result->lease_left_us < wait)
            wait = result->lease_left_us;
        break;
    case ERROR_OUTCOME_UNKNOWN:
        if (result->record.quiet_at <= result->store_now)
            return 0;
        wait = result->record.quiet_at - result->store_now;
        break;
    case ERROR_UPSTREAM_UNAVAILABLE:
    case ERROR_STORE_UNAVAILABLE:
    case ERROR_OUTCOME_NOT_STORED:
    case ERROR_LIMITED:
        break;
    default:
        return 0;
    }
    return (uint64_t)seconds_up(wait);
}

static bool ends_connection(enum error error)
{
    return error == ERROR_OUTCOME_NOT_STORED || error == ERROR_REQUEST_TIMEOUT ||
           error == ERROR_REQUEST_MALFORMED;
}

void answer_result(struct exchange *x, enum error error, struct slice detail, enum result result)
{
    struct problem problem = problem_of(error);
    make_exact(x, &problem);
    if (!begin_answer(x, problem.status, result))
        return;
    x->error = error;
    problem.detail = detail;
    if (x->key.len > 0)
        problem.key = shown_key(x);
    struct response response RESPONSE_AUTO =
        response_make(x->client, x->status, slice_of(NULL), result);
    response.keep_alive = response.keep_alive && !ends_connection(error);
    x->keep_alive = response_write_problem(&response, &problem, retry_after(x, error));
}

void answer_error(struct exchange *x, enum error error, struct slice detail)
{
    answer_result(x, error, detail, result_of_error(error));
}

void answer_no_room(struct exchange *x)
{
    limit_count(x->server, METRICS_LIMIT_MEMORY);
    answer_error(x, ERROR_LIMITED, SLICE("too many bodies are held in memory"));
}

/* ---- verdicts ---- */

/* Nothing was acquired: the client left, the gateway drains, or the store did not decide. */
static void answer_gone(struct exchange *x)
{
    if (http_session_is_draining(&x->client->session)) {
        answer_result(x, ERROR_UPSTREAM_UNAVAILABLE, SLICE("the gateway is shutting down"),
                      RESULT_LIMITED);
        return;
    }
    if (x->parker.parker.interrupted) {
        x->answered = true;
        x->keep_alive = false;
        return;
    }
    answer_error(x, ERROR_STORE_UNAVAILABLE, SLICE("the record store did not decide in time"));
}

/* Who was told by the once value that it was done is told no more under its own key. */
static enum rule_duplicate duplicate_policy(const struct exchange *x)
{
    const struct attempt_result *result = &x->attempt.result;
    if (result->by_once)
        return x->rule->once.duplicate;
    return result->acknowledges ? RULE_DUPLICATE_ACK : x->rule->duplicate;
}

/* What a `failed` attempt was told is always told again: there is no effect to keep quiet about. To
 * reject or acknowledge a duplicate the first answer need not have been kept. */
static void answer_duplicate(struct exchange *x, enum error not_kept)
{
    struct outcome *outcome = x->attempt.result.found;
    bool failed = x->attempt.result.record.status == RECORD_FAILED;
    switch (failed ? RULE_DUPLICATE_REPLAY : duplicate_policy(x)) {
    case RULE_DUPLICATE_REPLAY:
        if (!outcome)
            answer_error(x, not_kept, slice_of(NULL));
        else if (bodies_unpack_found(x))
            answer_outcome(x, outcome, RESULT_REPLAYED);
        else
            answer_no_room(x);
        break;
    case RULE_DUPLICATE_REJECT:
        answer_error(x, ERROR_DUPLICATE, slice_of(NULL));
        break;
    case RULE_DUPLICATE_ACK:
        answer_ack(x);
        break;
    }
    bodies_drop_found(x);
}

/* A client that finds its own bug needs to know where to look. A stranger would find with it what
 * another one's request held, member by member. */
static void add_difference(struct exchange *x, bool target, const char *lead, const char *general,
                           struct buf *detail)
{
    struct buf names BUF_AUTO = buf_make(DETAIL_MAX);
    if (rule_names_callers(x->rule))
        identify_difference(x, target, &names);
    bool named = buf_ok(&names) && names.len > 0;
    buf_add_str(detail, named ? lead : general);
    buf_add_slice(detail, named ? buf_slice(&names) : slice_of(NULL));
}

static void answer_mismatch(struct exchange *x)
{
    const struct record *first = &x->attempt.result.record;
    bool body = !digest_eq(&first->payload_hash, &x->attempt.begin.payload_hash);
    bool target = !digest_eq(&first->target_hash, &x->attempt.begin.target_hash);
    struct buf detail BUF_AUTO = buf_make(DETAIL_MAX);
    if (x->attempt.result.by_once) {
        answer_error(
            x, ERROR_PAYLOAD_MISMATCH,
            SLICE("the operation was done before, by a request that differs from this one"));
        return;
    }
    buf_add_str(&detail, "the key was first used with another ");
    if (body)
        add_difference(x, false, "body: it differs at ", "body", &detail);
    if (body && target)
        buf_add_str(&detail, "; and with another ");
    if (target)
        add_difference(x, true, "target: ", "method, path, query, media type or compared header",
                       &detail);
    struct slice said = body || target ? buf_slice(&detail) : slice_of(NULL);
    answer_error(x, ERROR_PAYLOAD_MISMATCH, buf_ok(&detail) ? said : slice_of(NULL));
}

void answer_verdict(struct exchange *x, enum engine_verdict verdict)
{
    switch (verdict) {
    case ENGINE_REPLAY:
    case ENGINE_RESULT_NOT_KEPT:
        answer_duplicate(x, ERROR_RESULT_NOT_KEPT);
        return;
    case ENGINE_DUPLICATE:
        answer_duplicate(x, ERROR_DUPLICATE);
        return;
    case ENGINE_MISMATCH:
        answer_mismatch(x);
        return;
    case ENGINE_IN_PROGRESS:
        if (http_session_is_draining(&x->client->session) && x->rule->in_progress_wait_us > 0)
            answer_gone(x);
        else
            answer_error(x, ERROR_IN_PROGRESS, slice_of(NULL));
        return;
    case ENGINE_OUTCOME_UNKNOWN:
        answer_error(x, ERROR_OUTCOME_UNKNOWN,
                     is_new_operation(x) ? SLICE("this request went to the service, and its record "
                                                 "was released or is gone")
                                         : slice_of(NULL));
        return;
    case ENGINE_RESULT_EXPIRED:
        if (x->attempt.result.by_once || x->attempt.result.acknowledges)
            answer_duplicate(x, ERROR_RESULT_EXPIRED);
        else
            answer_error(x, ERROR_RESULT_EXPIRED, slice_of(NULL));
        return;
    case ENGINE_LIMITED:
        limit_count(x->server, METRICS_LIMIT_WAITING);
        answer_error(x, ERROR_LIMITED, SLICE("too many requests wait"));
        return;
    case ENGINE_NO_ROOM:
        answer_no_room(x);
        return;
    case ENGINE_TOO_LARGE:
        answer_error(x, ERROR_BODY_TOO_LARGE,
                     SLICE("the kept response is larger than max_buffered of this gateway"));
        return;
    case ENGINE_STORE_DOWN:
        answer_error(x, ERROR_STORE_UNAVAILABLE, slice_of(NULL));
        return;
    case ENGINE_GONE:
        answer_gone(x);
        return;
    case ENGINE_PROCEED:
    case ENGINE_PROBE:
    case ENGINE_OTHER_RECIPE:
        break;
    }
    UNREACHABLE();
}
