/* SPDX-License-Identifier: Apache-2.0 */
/* Once bytes went out the write is repeated until it is stored or stale. */
#include "base/check.h"
#include "gateway/events.h"
#include "gateway/exchange/bodies.h"
#include "gateway/exchange/reply.h"
#include "gateway/exchange/retry.h"
#include "gateway/exchange/steps.h"

#define WRITE_GRACE_US (INT64_C(5) * CLOCK_US_PER_S)
#define TELLING_GRACE_US CLOCK_US_PER_S
#define TELLING_PAUSE_US (INT64_C(50) * CLOCK_US_PER_MS)

static bool is_probe(const struct exchange *x)
{
    return x->before == EXCHANGE_PROBE;
}

/* A probe of its own follows a failure, or has. */
static bool has_probed(const struct exchange *x)
{
    return x->failure != ERROR_NONE || x->failed.status != 0;
}

/* A first failure, and a client that waits: it is probed at once, and no other attempt comes
 * before that. */
static bool probes_at_once(const struct exchange *x)
{
    return x->disposition.next == NEXT_PROBE && !has_probed(x) && x->client_state == CLIENT_WAITS;
}

/* It is kept, as complete or as failed. */
static bool has_outcome(const struct exchange *x)
{
    return x->disposition.write == WRITE_COMPLETE || x->disposition.write == WRITE_FAIL;
}

/* A live response leaves only its tombstone. So does one that could not be decoded, and one for
 * which there is no memory. */
static struct outcome *outcome_of(struct exchange *x, const struct engine_act *act)
{
    if (act->kind != STORE_FINISH || !x->response.whole || x->response.unkept)
        return NULL;
    struct outcome *outcome =
        outcome_new(act->http_status, act->final == RECORD_FAILED, buf_slice(&x->response.kept),
                    buf_slice(&x->response.body));
    if (outcome)
        bodies_pack(x, outcome);
    return outcome;
}

/* What the event of its success says. */
struct telling {
    struct slice body;
    struct slice data;
    bool is_read;
};

static void judge_data(void *argument)
{
    struct telling *telling = argument;
    telling->is_read = emit_read_body(telling->body, &telling->data);
}

/* False: the time is over. */
static bool pause_telling(int64_t until)
{
    struct parker *parker = fiber_parker();
    int64_t pause_until = clock_after(clock_boot_us(), TELLING_PAUSE_US);
    while (clock_boot_us() < pause_until)
        parker->park(parker, pause_until);
    return pause_until < until;
}

/* For a shortage of memory it waits a little: the event is told once. */
static struct slice event_data(struct exchange *x, const struct engine_act *act)
{
    const struct emit *emit = &x->rule->emit;
    bool tells = act->kind == STORE_FINISH && emit->type.len > 0 && emit->data != EMIT_NONE;
    struct telling telling = {.body = !tells                       ? SLICE("")
                                      : emit->data == EMIT_REQUEST ? buf_slice(&x->body)
                                      : x->response.whole          ? buf_slice(&x->response.body)
                                                                   : SLICE("")};
    int64_t until = clock_after(clock_boot_us(), TELLING_GRACE_US);
    do
        exchange_work(x, telling.body.len >= OFFLOAD_LEAST, judge_data, &telling);
    while (!telling.is_read && pause_telling(until));
    return telling.data;
}

/* Until when the client waits for the write: X-Request-Timeout, else the rule's timeout; and where
 * the upstream has used that up, as long as a store in good health may take. */
static int64_t write_deadline(const struct exchange *x)
{
    int64_t timeout = clock_after(x->started, x->rule->timeout_us);
    int64_t grace = clock_after(clock_boot_us(), WRITE_GRACE_US);
    if (x->client_deadline < CLOCK_NEVER)
        return x->client_deadline;
    return timeout > grace ? timeout : grace;
}

/* The store does not take the write in the client's time. Only where there is an outcome the error
 * says so; else it says what is true whatever becomes of the write. */
static void respond_unwritten(struct exchange *x)
{
    const struct disposition *settled = &x->disposition;
    if (!has_outcome(x) && reply_late(x, true))
        return;
    if (settled->write == WRITE_TURN) {
        reply_early(x, ERROR_STORE_UNAVAILABLE, NULL);
        x->client_state = CLIENT_REFUSED;
    } else if (settled->write == WRITE_RELEASE)
        reply_early(x, settled->next == NEXT_ERROR ? settled->error : ERROR_STORE_UNAVAILABLE,
                    NULL);
    else
        reply_early(x, ERROR_OUTCOME_NOT_STORED,
                    "the outcome could not be written to the record store");
}

static struct engine_act make_settling_act(struct exchange *x)
{
    struct engine_act act = engine_act_of(x->disposition.write, is_probe(x));
    if (act.kind == STORE_DOUBT && probes_at_once(x))
        act.kind = STORE_ASK;
    act.http_status = x->response.status;
    act.cause = x->cause;
    act.event_data = event_data(x, &act);
    act.outcome = outcome_of(x, &act);
    CHECK(!act.outcome || act.kind == STORE_FINISH);
    return act;
}

static enum engine_written write_disposition(struct exchange *x)
{
    CHECK(x->disposition.write != WRITE_NOTHING && x->attempt.token > 0);
    struct engine *engine = x->server->config->engine;
    struct engine_act act = make_settling_act(x);
    if (act.outcome)
        (void)bodies_hold(x, act.outcome); /* never refused: the effect has happened */
    engine_write(engine, &x->attempt, &act, fiber_parker());
    int64_t deadline = write_deadline(x);
    while (!engine_wait(&x->attempt, fiber_parker(),
                        x->client_state != CLIENT_WAITS ? CLOCK_NEVER : deadline))
        respond_unwritten(x);
    enum engine_written written = engine_written(engine, &x->attempt);
    if (written == ENGINE_STORED && act.kind == STORE_FINISH && x->rule->emit.type.len > 0)
        x->server->config->has_events(x->server->config->argument);
    if (act.outcome)
        bodies_drop(x, act.outcome);
    bodies_count(x, 0);
    return written;
}

static enum result result_of_settling(const struct exchange *x)
{
    enum disposition_write write = x->disposition.write;
    if (write == WRITE_RELEASE || write == WRITE_DROP)
        return RESULT_RELEASED;
    if (write == WRITE_DOUBT)
        return record_repeats(x->rule->unknown) ? RESULT_RELEASED : RESULT_UNKNOWN;
    return x->attempt.result.kept ? RESULT_STORED : RESULT_NOT_KEPT;
}

/* ---- the reply once the outcome is stored ---- */

/* Probes: the store has recorded the doubt and the probe's token. */
static enum exchange_step probe_next(struct exchange *x)
{
    CHECK(!has_probed(x));
    x->failure = x->disposition.error;
    if (x->failure == ERROR_NONE && x->response.whole) {
        struct upstream_response response = x->response;
        x->response = x->failed;
        x->failed = response;
    } else if (x->failure == ERROR_NONE) {
        x->failure = ERROR_UPSTREAM_BROKE; /* too large a response to be held in the meantime */
    }
    return EXCHANGE_PROBE;
}

/* Its probe found that nothing was done, and that is stored: what this exchange has sent, if it was
 * about that, is not coming any more. It is sent again by its client, or as the rule says. */
static enum exchange_step take_not_done(struct exchange *x)
{
    x->attempt.begin.spent = false;
    if (!has_probed(x))
        return EXCHANGE_DECIDE;
    return retry_plans_begin(x) ? EXCHANGE_RETRY : reply_failure(x, true);
}

/* The step after the result of the attempt is stored. A doubt is not probed if the record is not
 * this exchange's any more. */
static enum exchange_step reply_outcome(struct exchange *x)
{
    const struct disposition *settled = &x->disposition;
    CHECK(settled->next != NEXT_ERROR || settled->error != ERROR_NONE);
    if (settled->next == NEXT_DECIDE)
        return EXCHANGE_DECIDE;
    if (settled->next == NEXT_FORWARD)
        return EXCHANGE_FORWARD;
    if (settled->next == NEXT_ERROR && is_probe(x)) {
        if (has_probed(x))
            retry_ends_unknown(x);
        return reply_failure(x, false);
    }
    if (settled->error == ERROR_NONE)
        return reply_upstream(x, &x->response, result_of_settling(x));
    bool malformed = settled->error == ERROR_UPSTREAM_MALFORMED;
    return reply_result(x, settled->error, malformed ? x->malformed : x->call.tls_problem,
                        result_of_settling(x));
}

/* Under `participant`: the service sent 2xx without having completed the record, or completed it
 * with another status than it sent. */
static void note_participant(struct exchange *x, enum engine_written written)
{
    const struct store_result *result = &x->attempt.result;
    const struct record *record = &result->record;
    if (!has_outcome(x) || x->rule->unknown != RECORD_UNKNOWN_PARTICIPANT)
        return;
    if (written == ENGINE_STORED && result->alone && x->response.status / 100 == 2) {
        x->participant = "missing";
        participant_missed(x->server, x->rule->name);
    }
    if (written == ENGINE_STALE && record->token == x->attempt.token &&
        record_is_final(record->status) && record->http_status != x->response.status)
        x->participant = "overruled";
}

/* Of what was surely not done nothing is lost. */
static bool is_lost_outcome(const struct exchange *x)
{
    enum disposition_write write = x->disposition.write;
    bool sent = write != WRITE_RELEASE && write != WRITE_DROP && write != WRITE_TURN;
    return x->attempt.result.is_lost && sent;
}

/* The record with which it had begun went with what the store lost. What was sent may have
 * happened: an operator finds it by this line. */
static enum exchange_step reply_lost(struct exchange *x)
{
    exchange_log_lost(x, x->disposition.error == ERROR_NONE ? x->response.status : 0);
    return reply_error(x, ERROR_OUTCOME_NOT_STORED,
                       "the record store lost the record of this operation");
}

/* Nothing but the doubt is stored, and the client gets that error. */
static void settle_as_doubt(struct exchange *x, enum error error)
{
    x->disposition = (struct disposition){.write = WRITE_DOUBT, .next = NEXT_ERROR, .error = error};
}

static enum exchange_step settle_once(struct exchange *x)
{
    enum engine_written written = write_disposition(x);
    note_participant(x, written);
    switch (written) {
    case ENGINE_STORED:
        return is_probe(x) && x->disposition.write == WRITE_RELEASE ? take_not_done(x)
                                                                    : reply_outcome(x);
    case ENGINE_ASKS:
        return probe_next(x);
    case ENGINE_STALE:
        return is_lost_outcome(x) ? reply_lost(x) : EXCHANGE_DECIDE;
    case ENGINE_EARLY:
        /* "Not found" is not believed yet: another process may still be sending. */
        x->not_found_yet = true;
        if (x->disposition.write == WRITE_TURN)
            return reply_unbelieved(x);
        settle_as_doubt(x, ERROR_OUTCOME_UNKNOWN);
        return settle_once(x);
    case ENGINE_LOST:
        return reply_nothing(x);
    }
    UNREACHABLE();
}

/* The upstream says that our token is old. If the record has moved on, it says what is true. If it
 * has not, the upstream contradicts the store, and what it did is in doubt. */
enum exchange_step settle_disposition(struct exchange *x)
{
    CHECK(x->step == EXCHANGE_SETTLE && x->attempt.token > 0);
    if (x->disposition.write == WRITE_NOTHING)
        settle_as_doubt(x, ERROR_UPSTREAM_BROKE);
    enum exchange_step next = settle_once(x);
    if (next != EXCHANGE_RESPOND)
        http_call_close(&x->call);
    /* No client waits: the next attempt decides. What was acquired is used. */
    return x->client_state != CLIENT_WAITS && next == EXCHANGE_DECIDE ? EXCHANGE_RESPOND : next;
}
