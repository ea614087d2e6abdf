/* SPDX-License-Identifier: Apache-2.0 */
/* What the client gets (contract section 5). Each request is answered once. */
#include "gateway/exchange/reply.h"

#include "base/check.h"
#include "gateway/events.h"
#include "gateway/exchange/bodies.h"
#include "gateway/response.h"

#include <inttypes.h>

/* ---- what it is to be ---- */

static enum exchange_step set_reply(struct exchange *x, struct reply reply)
{
    CHECK(!reply.response || reply.error == ERROR_NONE);
    x->reply = reply;
    x->reply.step = x->step;
    return EXCHANGE_RESPOND;
}

enum exchange_step reply_result(struct exchange *x, enum error error, const char *detail,
                                enum result result)
{
    CHECK(error != ERROR_NONE);
    buf_add_slice(&x->detail, slice_of(detail));
    return set_reply(x, (struct reply){.error = error, .result = result});
}

enum exchange_step reply_error(struct exchange *x, enum error error, const char *detail)
{
    return reply_result(x, error, detail, result_of_error(error));
}

static int64_t seconds_up(int64_t duration_us)
{
    int64_t seconds = (duration_us + CLOCK_US_PER_S - 1) / CLOCK_US_PER_S;
    return seconds > 0 ? seconds : 1;
}

/* Until "not found" is believed; not above 0: it is. */
static int64_t believed_wait(const struct exchange *x)
{
    const struct terms terms = store_terms(x->server->config->store);
    const struct record_world world = {.restored_at = terms.restored_at};
    const struct store_result *result = &x->attempt.result;
    return record_believed_from(&result->record, &world) - result->store_now;
}

static void explain_too_early(struct exchange *x)
{
    buf_printf(&x->detail,
               "not found yet: the probe got 404, which pawl trusts in %" PRId64
               " s, when no request can still be on its way",
               believed_wait(x) > 0 ? seconds_up(believed_wait(x)) : 0);
}

enum exchange_step reply_unbelieved(struct exchange *x)
{
    if (believed_wait(x) > 0)
        explain_too_early(x);
    else
        buf_add_str(&x->detail, "nothing begins in the record store now");
    return reply_result(x, ERROR_UNPROVED, NULL, RESULT_RELEASED);
}

/* What the probe settled, once that is stored. */
static void explain_probe(struct exchange *x, bool not_done)
{
    if (not_done)
        buf_add_str(&x->detail, "the probe found that the operation was not done");
    else if (x->not_found_yet)
        explain_too_early(x);
    else if (x->unprobed.at)
        buf_printf(&x->detail,
                   "no probe was sent: its target cannot hold {%.*s}, whose value %s; an operator "
                   "has to resolve the record",
                   SLICE_ARG(x->unprobed), filled_fault_text(x->unprobed_by));
    else
        buf_add_str(&x->detail, "the probe was inconclusive");
}

enum exchange_step reply_no_room(struct exchange *x)
{
    limit_count(x->server, METRICS_LIMIT_MEMORY);
    return reply_error(x, ERROR_LIMITED, "too many bodies are held in memory");
}

enum exchange_step reply_upstream(struct exchange *x, const struct upstream_response *response,
                                  enum result result)
{
    CHECK(response->status >= 200 && !response->stale);
    return set_reply(x, (struct reply){.response = response, .result = result});
}

enum exchange_step reply_failure(struct exchange *x, bool not_done)
{
    enum result result = not_done ? RESULT_RELEASED : RESULT_UNKNOWN;
    if (x->failed.status == 0)
        explain_probe(x, not_done);
    if (x->failed.status != 0)
        (void)reply_upstream(x, &x->failed, result);
    else if (x->failure != ERROR_NONE)
        (void)reply_result(x, x->failure, NULL, result);
    else
        (void)reply_error(x, ERROR_OUTCOME_UNKNOWN, NULL);
    x->reply.not_done = not_done;
    return EXCHANGE_RESPOND;
}

enum exchange_step reply_found(struct exchange *x, enum result result)
{
    CHECK(result == RESULT_ACKED || x->attempt.result.found);
    return set_reply(x, (struct reply){.result = result});
}

enum exchange_step reply_nothing(struct exchange *x)
{
    if (x->client_state == CLIENT_WAITS)
        x->client_state = CLIENT_LEFT;
    x->keep_alive = false;
    return EXCHANGE_RESPOND;
}

/* ---- pawl's own errors, made exact ---- */

/* What the record says of the first attempt. */
static void show_first(const struct exchange *x, struct problem *problem)
{
    const struct store_result *result = &x->attempt.result;
    problem->first_status = result->record.http_status;
    if (problem->error != ERROR_DUPLICATE)
        return;
    if (result->found)
        problem->first_location = result->found->location;
    problem->first_at = result->record.created_at;
    problem->window_ends_at = result->by_once ? result->record.once_until : result->record.gone_at;
}

static bool shows_first_at(enum error error)
{
    return error == ERROR_RESULT_EXPIRED || error == ERROR_RESULT_NOT_KEPT ||
           error == ERROR_DUPLICATE;
}

/* The outcome is not known. */
static bool is_doubt_error(enum error error)
{
    return error == ERROR_OUTCOME_UNKNOWN || error_is_lost_answer(error);
}

static void show_operation(const struct store_result *result, struct problem *problem)
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

static void warn_of_new_key(struct problem *problem, const char *hint)
{
    problem->safe_new_key = false;
    problem->hint = hint;
}

/* No more than the table says where no repeat under the key finds out more. */
static void make_unretryable(struct problem *problem)
{
    problem->retryable = false;
    problem->hint = error_row(ERROR_OUTCOME_UNKNOWN)->hint;
}

static void make_mismatch_exact(const struct exchange *x, struct problem *problem)
{
    enum record_status status = x->attempt.result.record.status;
    problem->status = x->rule->mismatch_status;
    if (x->attempt.result.by_once) /* another key names the same operation, and it was done */
        warn_of_new_key(problem, "The operation that this request names was done before, by "
                                 "another request. Do not send it again, under whatever key.");
    else if (status == RECORD_PENDING || status == RECORD_UNKNOWN)
        warn_of_new_key(problem, "The first request under this key is not settled. Repeat it "
                                 "exactly, and start nothing new before its response is known.");
    else if (!template_key_header(&x->rule->key)) /* no new key makes it another operation */
        warn_of_new_key(problem,
                        "This route builds the key from the request, and an operation of that "
                        "name exists. Repeat the first request exactly to retry it.");
}

/* Nothing was done by this request. What an earlier one under the key did is another matter, where
 * the record was not asked, or holds a doubt. */
static void make_unreached_exact(const struct exchange *x, struct problem *problem)
{
    bool asked = x->reply.step == EXCHANGE_SETTLE && !x->reply.early;
    if (asked && !x->attempt.result.record.doubt)
        return;
    warn_of_new_key(problem, "This request did nothing, but an earlier one under the key may have. "
                             "Retry with backoff under the same key.");
}

/* Until the hold of what is in doubt ends; 0: it has no end, or the operation still runs. */
static int64_t hold_left(const struct exchange *x)
{
    const struct store_result *result = &x->attempt.result;
    int64_t until = record_held_until(&result->record, &x->attempt.begin, result->lease);
    if (until == CLOCK_NEVER || x->unprobed.at || x->reply.early)
        return 0;
    return until > result->store_now ? until - result->store_now : 1;
}

/* Its client's next request may find out more. */
static bool may_probe(const struct exchange *x)
{
    return x->rule->unknown == RECORD_UNKNOWN_PROBE && !x->unprobed.at;
}

/* Completes an error that leaves the operation in doubt by what the rule's `unknown:` does next. */
static void make_doubt_exact(const struct exchange *x, struct problem *problem)
{
    bool holds = x->rule->unknown == RECORD_UNKNOWN_HOLD || x->unprobed.at;
    if (problem->error == ERROR_OUTCOME_UNKNOWN)
        problem->retryable = may_probe(x) || hold_left(x) > 0 || exchange_is_spent(x);
    else if (holds && hold_left(x) == 0 && !x->reply.early)
        make_unretryable(problem);
}

/* What the table says in general, the rule's policy and the record make exact. While an operation
 * is the store's, so is the record, which is not looked at then. */
static void make_exact(const struct exchange *x, struct problem *problem)
{
    enum error error = problem->error;
    if (error == ERROR_PAYLOAD_MISMATCH)
        make_mismatch_exact(x, problem);
    if (error == ERROR_UPSTREAM_UNAVAILABLE)
        make_unreached_exact(x, problem);
    if (x->reply.of_once)
        problem_name_once(problem);
    if (x->reply.step == EXCHANGE_AUTHORIZE)
        return; /* no record was looked at */
    if (x->reply.step == EXCHANGE_UNPROTECTED) {
        problem_warn_unprotected(problem);
        return;
    }
    if (x->reply.not_done) {
        problem->safe_new_key = true;
        problem->hint = error_row(ERROR_UPSTREAM_UNAVAILABLE)->hint;
        return;
    }
    if (is_doubt_error(error))
        make_doubt_exact(x, problem);
    if (shows_first_at(error))
        show_first(x, problem);
    if (is_doubt_error(error) || error == ERROR_IN_PROGRESS)
        show_operation(&x->attempt.result, problem);
}

/* As the upstream sees it: with {window:} its begin follows the key, once that is known. */
static struct slice shown_key(struct exchange *x)
{
    bool known = x->attempt.result.record.created_at > 0;
    return x->attempt.begin.window && known ? operation_key(x) : buf_slice(&x->key);
}

/* After a probe that might have been believed, and was inconclusive: from a second on, twice as
 * long with each acquisition. */
static int64_t probe_backoff(const struct record *record)
{
    int64_t wait = CLOCK_US_PER_S;
    for (int64_t probe = 2; probe < record->attempts && wait < RECORD_PROBE_APART_US; probe++)
        wait *= 2;
    return clock_first(wait, RECORD_PROBE_APART_US);
}

/* In doubt: until a repeat may find out more, or as long as the service asks for, if the record
 * surely lasts till then. */
static int64_t doubt_wait(const struct exchange *x)
{
    const struct record *record = &x->attempt.result.record;
    int64_t now = x->attempt.result.store_now;
    if (hold_left(x) > 0)
        return hold_left(x);
    int64_t quiet = record->quiet_at - now;
    if (x->reply.early) /* a repeat waits for this exchange, or finds its outcome */
        return quiet;
    int64_t paced = x->rule->probes_alone ? record->started_at + RECORD_PROBE_PACE_US - now : 0;
    int64_t more = x->hint_at > 0 ? x->hint_at - clock_boot_us() : 0;
    if (may_probe(x) && quiet <= 0 && more < probe_backoff(record))
        more = probe_backoff(record);
    more = clock_first(more, record->least_us);
    more = more > paced ? more : paced;
    return more > quiet ? more : quiet;
}

/* Nothing was done: a second, or as long as the service asks for, if the record lasts till then. */
static int64_t released_wait(const struct exchange *x)
{
    int64_t asked = x->hint_at > 0 ? x->hint_at - clock_boot_us() : 0;
    return asked < CLOCK_US_PER_S ? CLOCK_US_PER_S
                                  : clock_first(asked, x->attempt.result.record.least_us);
}

/* The next inquiry. */
static int64_t unproved_wait(const struct exchange *x)
{
    int64_t wait = released_wait(x), backoff = probe_backoff(&x->attempt.result.record);
    if (x->not_found_yet && believed_wait(x) > 0)
        return believed_wait(x);
    return wait > backoff ? wait : backoff;
}

static bool says_when(const struct exchange *x, const struct problem *problem)
{
    bool probed = x->reply.result == RESULT_UNKNOWN && may_probe(x);
    return problem->retryable &&
           (problem->error == ERROR_OUTCOME_UNKNOWN || x->reply.late || probed || hold_left(x) > 0);
}

/* Seconds; 0: not said. */
static uint64_t retry_after(const struct exchange *x, const struct problem *problem)
{
    const struct store_result *result = &x->attempt.result;
    int64_t wait = x->plan->settings.retry_after_us;
    if (x->reply.not_done)
        return (uint64_t)seconds_up(released_wait(x));
    if (is_doubt_error(problem->error))
        return says_when(x, problem) ? (uint64_t)seconds_up(doubt_wait(x)) : 0;
    switch (problem->error) {
    case ERROR_IN_PROGRESS:
        if (result->lease_left_us > 0 && result->lease_left_us < wait)
            wait = result->lease_left_us;
        break;
    case ERROR_UNPROVED:
        return (uint64_t)seconds_up(unproved_wait(x));
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

/* ---- writing ---- */

static struct response response_with(struct exchange *x, int status)
{
    x->status = status;
    return response_make(x->client, status, slice_of(NULL), x->reply.result);
}

static bool write_error(struct exchange *x)
{
    enum error error = x->reply.error;
    struct problem problem = problem_of(error);
    make_exact(x, &problem);
    problem.detail = buf_ok(&x->detail) ? buf_slice(&x->detail) : slice_of(NULL);
    if (x->key.len > 0)
        problem.key = shown_key(x);
    if (http_session_makes_room(&x->client->session)) /* as to others that do (HTTP_FULL) */
        problem.status = 503;
    struct response response RESPONSE_AUTO = response_with(x, problem.status);
    response.keep_alive = response.keep_alive && !ends_connection(error);
    return response_write_problem(&response, &problem, x->rule ? x->rule->errors : NULL,
                                  retry_after(x, &problem));
}

/* What the service's own response in doubt says beside it, for clients that judge by its status. */
static void add_doubt_header(const struct exchange *x, struct buf *to)
{
    bool repeats = x->reply.result == RESULT_RELEASED && x->disposition.write == WRITE_DOUBT;
    if (repeats || x->reply.result == RESULT_UNKNOWN)
        headers_write_field(to, "Error-Code", slice_of(error_row(ERROR_OUTCOME_UNKNOWN)->code));
}

/* The service's own response that was in doubt says when a repeat may find out more, or runs the
 * operation, unless it asks for a longer wait itself. */
static void add_upstreams_fields(const struct exchange *x, const struct upstream_response *from,
                                 struct buf *to)
{
    struct slice fields = buf_slice(&from->fields);
    bool not_done = x->reply.not_done;
    bool in_doubt = x->reply.result == RESULT_UNKNOWN && (may_probe(x) || hold_left(x) > 0);
    add_doubt_header(x, to);
    if (!not_done && !in_doubt) {
        buf_add_slice(to, fields);
        return;
    }
    int64_t wait = not_done ? CLOCK_US_PER_S : doubt_wait(x);
    bool asks = from->hint_at > 0 && from->hint_at - clock_boot_us() >= wait;
    for (struct slice name, value; fields_next(&fields, &name, &value);) {
        bool own = (!asks && slice_eq_nocase(name, SLICE("Retry-After"))) ||
                   (not_done && slice_eq_nocase(name, SLICE("X-Should-Retry")));
        if (!own)
            fields_add(to, name, value);
    }
    if (!asks)
        headers_write_number(to, "Retry-After", (uint64_t)seconds_up(wait));
    if (not_done)
        headers_write_field(to, "X-Should-Retry", SLICE("true"));
}

static bool write_upstreams(struct exchange *x, const struct upstream_response *from)
{
    struct response response RESPONSE_AUTO = response_with(x, from->status);
    add_upstreams_fields(x, from, &response.headers);
    bool live = !from->whole && headers_allow_body(from->status);
    if (!live)
        return response_write(&response,
                              buf_slice(from->coded.len > 0 ? &from->coded : &from->body));
    bool keep = response_stream(&response, &x->call, buf_slice(&from->body));
    http_call_name_malformed(&x->call);
    memcpy(x->malformed, x->call.malformed, sizeof x->malformed);
    return keep;
}

/* `duplicate: ack`: that it was done is all this client wants to know. */
static bool write_found(struct exchange *x)
{
    bool by_own = x->rule->duplicate == RULE_DUPLICATE_ACK;
    struct outcome ack = {.status = by_own ? x->rule->ack_status : x->rule->once.ack_status};
    const struct outcome *outcome =
        x->reply.result == RESULT_ACKED ? &ack : x->attempt.result.found;
    struct response response RESPONSE_AUTO = response_with(x, outcome->status);
    buf_add_slice(&response.headers, outcome->fields);
    if (!outcome_field(outcome->fields, SLICE("Cache-Control")).at)
        headers_write_field(&response.headers, "Cache-Control", SLICE("no-store"));
    return response_write(&response, outcome->body);
}

static void send_own_response(struct exchange *x)
{
    CHECK(x->client_state == CLIENT_WAITS);
    x->client_state = CLIENT_SERVED;
    x->error = x->reply.error;
    x->result = x->reply.result;
    x->keep_alive = x->error != ERROR_NONE ? write_error(x)
                    : x->reply.response    ? write_upstreams(x, x->reply.response)
                                           : write_found(x);
    buf_clear(&x->detail);
}

void reply_early(struct exchange *x, enum error error, const char *detail)
{
    CHECK(x->step == EXCHANGE_DECIDE || x->step == EXCHANGE_SETTLE);
    (void)reply_error(x, error, detail);
    x->reply.early = true;
    send_own_response(x);
}

bool reply_late(struct exchange *x, bool goes_on)
{
    if (clock_boot_us() < x->client_deadline)
        return false;
    enum result result = x->step == EXCHANGE_AUTHORIZE     ? RESULT_UNSENT
                         : x->step == EXCHANGE_UNPROTECTED ? RESULT_BYPASSED
                                                           : RESULT_UNKNOWN;
    (void)reply_result(x, ERROR_UPSTREAM_TIMEOUT, "X-Request-Timeout passed", result);
    x->reply.early = goes_on;
    x->reply.late = true;
    send_own_response(x);
    return true;
}

enum exchange_step reply_write(struct exchange *x)
{
    CHECK(x->client_state != CLIENT_WAITS || x->reply.step == x->before);
    if (x->client_state == CLIENT_WAITS)
        send_own_response(x);
    http_call_close(&x->call);
    attempt_fini(&x->attempt);
    return EXCHANGE_DONE;
}
