/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "base/time/timestamp.h"
#include "engine/identities.h"
#include "gateway/events.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/replay.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/steps.h"

#define DECISIONS_MAX 32                                /* for one request */
#define NAMES_MAX ((size_t)2 * 1024)                    /* of what differs */
#define BEGIN_SLACK_US (INT64_C(1) * CLOCK_US_PER_S)    /* a begin's time beyond its wait */
#define RELOAD_US (INT64_C(2) * CLOCK_US_PER_MS)        /* between two looks at one under way */
#define BEGIN_GRACE_US (INT64_C(250) * CLOCK_US_PER_MS) /* at most, of a healthy store */

/* ---- the parker of a begin ---- */

/* The begin is being applied, the client's time is over, and nothing says when the disk will be
 * done. A client that named its own time has only left early; any other gets the error that nothing
 * was done, and so it will be. */
static void respond_undecided(struct exchange *x)
{
    if (reply_late(x, true))
        return;
    reply_early(x, ERROR_STORE_UNAVAILABLE, "the record store did not decide in time");
    x->client_state = CLIENT_REFUSED;
}

/* The store wakes it when it begins to wait: a duplicate that waits is not in flight. Behind
 * `respond_at`, which is behind the begin's own time, it parks for one that cannot be withdrawn. */
static bool client_park(struct parker *parker, int64_t deadline_us)
{
    struct exchange *x = (struct exchange *)parker;
    CHECK(x->step == EXCHANGE_DECIDE);
    struct fiber_source source = {&x->client->session.conn.io, FIBER_HANGUP};
    if (engine_waits(&x->attempt))
        flight_give_back(x);
    if (clock_boot_us() >= x->respond_at && x->client_state == CLIENT_WAITS)
        respond_undecided(x);
    size_t n = parker->interrupted ? 0 : 1;
    enum fiber_wake wake = fiber_wait(&source, n, deadline_us);
    if (wake == FIBER_READY)
        parker->interrupted = true;
    return wake == FIBER_WOKEN;
}

/* ---- asking ---- */

static enum engine_verdict begin_attempt(struct exchange *x)
{
    struct http_session *session = &x->client->session;
    int64_t limit = clock_after(clock_boot_us(), x->attempt.wait_us + BEGIN_SLACK_US +
                                                     x->plan->settings.connect_timeout_us);
    int64_t until = clock_first(limit, x->client_deadline);
    x->parker = (struct parker){.park = client_park, .waker = fiber_parker()};
    x->respond_at = clock_after(until, BEGIN_GRACE_US);
    if (http_session_is_draining(session))
        x->attempt.wait_us = 0; /* those that wait were refused before: it would not be woken */
    session->waiting = &x->parker;
    CRASH_POINT(before_begin);
    enum engine_verdict verdict =
        engine_begin(x->server->config->engine, &x->attempt, &x->parker, until);
    session->waiting = NULL;
    exchange_note_state(x, verdict);
    return verdict;
}

/* `store_down: pass`. Not by a store that is frozen or went back, and not once this exchange has
 * met a record, its own or another's: what was sent then may have happened, and would happen again.
 * A begin that ran out of memory may have met one. */
static bool passes_by(const struct exchange *x, enum engine_verdict verdict)
{
    bool in_time = !x->parker.interrupted && clock_boot_us() < x->client_deadline;
    bool is_closed = store_closed_by(&x->attempt.result) != STORE_DONE;
    bool down = verdict == ENGINE_STORE_DOWN && !is_closed;
    bool undecided = down || (verdict == ENGINE_GONE && in_time);
    bool met = x->met || attempt_may_have_met(&x->attempt);
    bool open = x->client_state == CLIENT_WAITS && !http_session_is_draining(&x->client->session);
    return undecided && x->rule->store_down_pass && !met && open;
}

static void own_attempt(struct exchange *x)
{
    CHECK(x->attempt.token > 0);
    x->met = true;
    mem_free(x->holder_key);
    x->holder_key = attempt_take_key(&x->attempt);
    x->spelling = x->attempt.result.spelling;
    flight_take_beyond(x);
}

/* ---- what ends it ---- */

/* Nothing was acquired: the client left, the gateway drains, or the store did not decide. */
static enum exchange_step refuse_undecided(struct exchange *x, enum error error)
{
    if (http_session_is_draining(&x->client->session))
        return reply_result(x, ERROR_UPSTREAM_UNAVAILABLE, "the gateway is shutting down",
                            RESULT_LIMITED);
    if (x->parker.interrupted)
        return reply_nothing(x);
    return reply_error(x, error, "the record store did not decide in time");
}

static enum exchange_step reply_to_replay(struct exchange *x)
{
    int status = x->attempt.result.found->status;
    enum outcome_unpacked unpacked = bodies_unpack_found(x);
    if (unpacked == OUTCOME_NO_MEMORY)
        return reply_no_room(x);
    if (unpacked == OUTCOME_UNPACKED && status >= 200 && status <= 999)
        return replay_copy_members(x) ? reply_found(x, RESULT_REPLAYED) : reply_no_room(x);
    exchange_log_damaged(x);
    return reply_error(x, ERROR_RESULT_NOT_KEPT, "what was kept of the response is damaged");
}

/* A client that learned from the once value that it was done learns no more under its own key. */
static enum rule_duplicate duplicate_policy(const struct exchange *x)
{
    const struct store_result *result = &x->attempt.result;
    if (result->by_once)
        return x->rule->once.duplicate;
    return result->acknowledges ? RULE_DUPLICATE_ACK : x->rule->duplicate;
}

/* The response of a `failed` attempt is always replayed: there is no effect to keep quiet about. To
 * reject or acknowledge a duplicate the first response need not have been kept. */
static enum exchange_step reply_to_duplicate(struct exchange *x, enum error not_kept)
{
    bool failed = x->attempt.result.record.status == RECORD_FAILED;
    switch (failed ? RULE_DUPLICATE_REPLAY : duplicate_policy(x)) {
    case RULE_DUPLICATE_REPLAY:
        if (!x->attempt.result.found)
            return reply_error(x, not_kept, NULL);
        return reply_to_replay(x);
    case RULE_DUPLICATE_REJECT:
        return reply_error(x, ERROR_DUPLICATE, NULL);
    case RULE_DUPLICATE_ACK:
        return reply_found(x, RESULT_ACKED);
    }
    UNREACHABLE();
}

/* A client that finds its own bug needs to know where to look. A stranger would find with it what
 * another one's request held, member by member. */
static void add_difference(struct exchange *x, bool target, const char *lead, const char *general)
{
    struct buf names BUF_AUTO = buf_make(NAMES_MAX);
    if (rule_names_callers(x->rule))
        identify_difference(x, target, &names);
    bool named = buf_ok(&names) && names.len > 0;
    buf_add_str(&x->detail, named ? lead : general);
    buf_add_slice(&x->detail, named ? buf_slice(&names) : slice_of(NULL));
}

static enum exchange_step refuse_mismatch(struct exchange *x, enum error error)
{
    const struct record *first = &x->attempt.result.record;
    bool body = digest_differs(&first->payload_hash, &x->attempt.begin.payload_hash);
    bool target = digest_differs(&first->target_hash, &x->attempt.begin.target_hash);
    if (x->attempt.result.by_once)
        return reply_error(
            x, error, "the operation was done before, by a request that differs from this one");
    if (body || target)
        buf_add_str(&x->detail, "the key was first used with another ");
    if (body)
        add_difference(x, false, "body: it differs at ", "body");
    if (body && target)
        buf_add_str(&x->detail, "; and with another ");
    if (target)
        add_difference(x, true, "target: ", "method, path, query, media type or compared header");
    return reply_error(x, error, NULL);
}

static enum exchange_step refuse_key_time(struct exchange *x, enum error error)
{
    const struct attempt *attempt = &x->attempt;
    buf_add_str(&x->detail, "the key says that it was made at ");
    if (!timestamp_print(&x->detail, attempt->begin.key_at))
        buf_add_str(&x->detail, "a time after the year 9999");
    buf_add_str(&x->detail, ", and the record store's time is ");
    (void)timestamp_print(&x->detail, attempt->result.store_now);
    return reply_error(x, error, NULL);
}

static enum exchange_step reply_to_expired(struct exchange *x, enum error error)
{
    bool is_duplicate = x->attempt.result.by_once || x->attempt.result.acknowledges;
    return is_duplicate ? reply_to_duplicate(x, error) : reply_error(x, error, NULL);
}

static enum exchange_step refuse_in_progress(struct exchange *x, enum error error)
{
    bool drains = http_session_is_draining(&x->client->session);
    bool has_waited = drains && x->rule->in_progress_wait_us > 0;
    return has_waited ? refuse_undecided(x, ERROR_STORE_UNAVAILABLE) : reply_error(x, error, NULL);
}

static enum exchange_step refuse_unknown(struct exchange *x, enum error error)
{
    const char *sent = "this request was sent to the service, and its record has since been "
                       "released or deleted";
    return reply_error(x, error, exchange_is_spent(x) ? sent : NULL);
}

static enum exchange_step refuse_down(struct exchange *x, enum error error)
{
    enum store_status closed = store_closed_by(&x->attempt.result);
    const char *back = "the record store lost what it had confirmed, until an operator has looked "
                       "at it";
    const char *frozen = closed == STORE_FROZEN ? "an operator froze the record store" : NULL;
    return reply_error(x, error, closed == STORE_WENT_BACK ? back : frozen);
}

/* What a client is told of a verdict with which its exchange does not go on: by `reply`, or the
 * error with `why`. */
static const struct verdict_reply {
    enum exchange_step (*reply)(struct exchange *x, enum error error);
    enum error error;
    const char *why;
} verdict_replies[] = {
    [ENGINE_REPLAY] = {reply_to_duplicate, ERROR_RESULT_NOT_KEPT},
    [ENGINE_RESULT_NOT_KEPT] = {reply_to_duplicate, ERROR_RESULT_NOT_KEPT},
    [ENGINE_DUPLICATE] = {reply_to_duplicate, ERROR_DUPLICATE},
    [ENGINE_RESULT_EXPIRED] = {reply_to_expired, ERROR_RESULT_EXPIRED},
    [ENGINE_MISMATCH] = {refuse_mismatch, ERROR_PAYLOAD_MISMATCH},
    [ENGINE_IN_PROGRESS] = {refuse_in_progress, ERROR_IN_PROGRESS},
    [ENGINE_OUTCOME_UNKNOWN] = {refuse_unknown, ERROR_OUTCOME_UNKNOWN},
    [ENGINE_KEY_EXPIRED] = {refuse_key_time, ERROR_KEY_EXPIRED},
    [ENGINE_KEY_AHEAD] = {refuse_key_time, ERROR_KEY_AHEAD},
    [ENGINE_UNPROVED] = {NULL, ERROR_OUTCOME_UNKNOWN,
                         "the record store was restored from a backup, and the key is from before "
                         "that: what was done under it may not be known any more"},
    [ENGINE_LIMITED] = {NULL, ERROR_LIMITED, "too many requests are waiting"},
    [ENGINE_TOO_LARGE] = {NULL, ERROR_BODY_TOO_LARGE,
                          "the stored response is larger than this gateway's max_buffered"},
    [ENGINE_STORE_DOWN] = {refuse_down, ERROR_STORE_UNAVAILABLE},
    [ENGINE_GONE] = {refuse_undecided, ERROR_STORE_UNAVAILABLE},
};

static enum exchange_step reply_to_verdict(struct exchange *x, enum engine_verdict verdict)
{
    if (verdict == ENGINE_NO_ROOM)
        return reply_no_room(x);
    if (verdict == ENGINE_LIMITED)
        limit_count(x->server, METRICS_LIMIT_WAITING);
    const struct verdict_reply *said = &verdict_replies[verdict];
    CHECK(said->error != ERROR_NONE); /* else it goes on */
    return said->reply ? said->reply(x, said->error) : reply_error(x, said->error, said->why);
}

/* ---- what keys are made of ---- */

/* Whether the rules of now may know better: those of a reload that moves the keys itself, for which
 * it waits as for a connection. */
static bool await_newer_rules(struct exchange *x)
{
    int64_t until = clock_first(clock_after(clock_boot_us(), x->plan->settings.connect_timeout_us),
                                x->client_deadline);
    while (atomic_load(&x->server->gateway->prepared) && x->plan == x->server->plan &&
           clock_boot_us() < until && !http_session_is_draining(&x->client->session))
        fiber_sleep_until(clock_boot_us() + RELOAD_US);
    bool is_first = x->decisions <= 2 && !x->met && x->client_state == CLIENT_WAITS;
    return x->plan != x->server->plan && is_first && x->flight.taken;
}

/* By another identity the same request has another name, and would be done again. */
static enum exchange_step refuse_moved(struct exchange *x)
{
    if (await_newer_rules(x))
        return EXCHANGE_JUDGE;
    flight_give_back(x);
    buf_printf(&x->detail, "another gateway moved the keys of rule '%.*s'; reload this one",
               SLICE_ARG(x->rule->name));
    return reply_error(x, ERROR_STORE_UNAVAILABLE, NULL);
}

/* Something was changed since this config was compared with the store. */
static enum exchange_step compare_identities(struct exchange *x)
{
    enum store_status status =
        identities_learn(x->server->config->store, x->plan->settings.rules, fiber_parker());
    if (status == STORE_DONE)
        return EXCHANGE_DECIDE;
    flight_give_back(x);
    return reply_error(x, ERROR_STORE_UNAVAILABLE, "the record store did not respond in time");
}

/* ---- the step ---- */

enum exchange_step decide_attempt(struct exchange *x)
{
    CHECK(x->call.state == HTTP_CALL_CLOSED && x->attempt.rule.at && !x->attempt.result.found);
    if (x->decisions == 0 && !exchange_note_origin(x))
        return reply_error(x, ERROR_LIMITED, "out of memory for this request");
    if (x->decisions++ == DECISIONS_MAX)
        return reply_error(x, ERROR_IN_PROGRESS, "the record changed owners too often");
    if (!identities_name(x->plan->settings.rules, x->rule, &x->attempt))
        return refuse_moved(x);
    enum engine_verdict verdict = begin_attempt(x);
    if (passes_by(x, verdict)) {
        flight_take_beyond(x);
        return EXCHANGE_UNPROTECTED;
    }
    switch (verdict) {
    case ENGINE_PROCEED:
        CRASH_POINT(after_claim_commit);
        if (x->attempt.result.outlived_hold)
            hold_ended(x->server, x->rule->name);
        if (x->attempt.result.unproved)
            begin_unproved(x->server, x->rule->name);
        own_attempt(x);
        return EXCHANGE_FORWARD;
    case ENGINE_PROBE:
        own_attempt(x);
        return EXCHANGE_PROBE;
    case ENGINE_INQUIRE:
        own_attempt(x);
        return EXCHANGE_INQUIRE;
    case ENGINE_OTHER_RECIPE:
        x->met = true;
        return identify_again(x);
    case ENGINE_MOVED:
        return compare_identities(x);
    default:
        flight_give_back(x);
        return reply_to_verdict(x, verdict);
    }
}
