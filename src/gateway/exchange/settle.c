/* SPDX-License-Identifier: Apache-2.0 */
/* Stores what became of an exchange with the upstream, and only then tells it (invariants 3, 7,
 * 12). Once bytes went out the write is repeated until it is stored or stale. */
#include "base/check.h"
#include "base/crash.h"
#include "gateway/exchange/exchange.h"

/* A first failure, and a client who waits: it is probed at once, and nobody comes before that. */
static bool asks_at_once(const struct exchange *x, struct fate fate)
{
    return fate.tell == FATE_PROBE && !x->has_failure && !x->answered;
}

static struct engine_act act_of(const struct exchange *x, struct fate fate)
{
    switch (fate.write) {
    case FATE_COMPLETE:
    case FATE_FAIL:
        return (struct engine_act){
            .kind = ENGINE_FINISH,
            .final = fate.write == FATE_FAIL ? RECORD_FAILED : RECORD_COMPLETE,
            .http_status = x->answer.status,
        };
    case FATE_RELEASE:
        return (struct engine_act){.kind = x->probing ? ENGINE_RELEASE_SETTLED : ENGINE_RELEASE};
    case FATE_DROP:
        return (struct engine_act){.kind = ENGINE_DROP};
    case FATE_DOUBT:
        return (struct engine_act){.kind = asks_at_once(x, fate) ? ENGINE_ASK : ENGINE_DOUBT,
                                   .cause = x->cause};
    case FATE_NOTHING:
        break;
    }
    UNREACHABLE();
}

/* A live answer leaves only its tombstone. So does one for which there is no memory. */
static struct outcome *outcome_of(struct exchange *x, const struct engine_act *act)
{
    if (act->kind != ENGINE_FINISH || !x->answer.whole)
        return NULL;
    struct outcome *outcome = outcome_new(act->http_status, act->final == RECORD_FAILED,
                                          buf_slice(&x->answer.kept), buf_slice(&x->answer.body));
    if (outcome)
        bodies_pack(x, outcome);
    return outcome;
}

#define WRITE_GRACE_US (INT64_C(5) * CLOCK_US_PER_S)

/* Until when the client waits for the write: X-Request-Timeout, else the rule's timeout; and where
 * the upstream has used that up, as long as a store in good health may take. */
static int64_t client_deadline(const struct exchange *x)
{
    int64_t timeout = clock_after(x->started, x->rule->timeout_us);
    int64_t grace = clock_after(clock_boot_us(), WRITE_GRACE_US);
    return x->patience < CLOCK_NEVER ? x->patience : timeout > grace ? timeout : grace;
}

/* The store does not take the write in the client's time. Only where there is an outcome it is told
 * of one; else of what is true whatever becomes of the write. */
static void tell_untaken(struct exchange *x, struct fate fate, enum engine_act_kind kind)
{
    struct slice store = SLICE("the outcome could not be written to the record store");
    if (kind == ENGINE_FINISH) {
        answer_error(x, ERROR_OUTCOME_NOT_STORED, store);
    } else if (clock_boot_us() >= x->patience) {
        x->goes_on = true;
        answer_result(x, ERROR_UPSTREAM_TIMEOUT, SLICE("X-Request-Timeout passed"), RESULT_UNKNOWN);
    } else if (fate.write == FATE_RELEASE) {
        bool told = fate.tell == FATE_TELL_ERROR;
        answer_error(x, told ? fate.error : ERROR_STORE_UNAVAILABLE, slice_of(NULL));
    } else {
        answer_error(x, ERROR_OUTCOME_NOT_STORED, store);
    }
}

static enum engine_written write_fate(struct exchange *x, struct fate fate)
{
    struct engine_act act = act_of(x, fate);
    act.outcome = outcome_of(x, &act);
    x->kept = act.outcome != NULL;
    if (act.outcome)
        (void)bodies_hold(x, act.outcome); /* never refused: the effect has happened */
    if (act.kind == ENGINE_FINISH)
        CRASH_POINT(before_outcome_commit);
    else if (fate.write == FATE_DOUBT)
        CRASH_POINT(before_doubt_commit);
    else
        CRASH_POINT(before_release_commit);
    x->at_store = true;
    engine_write(x->server->config->engine, &x->attempt, &act, fiber_parker());
    int64_t deadline = client_deadline(x);
    while (!engine_wait(&x->attempt, fiber_parker(), x->answered ? CLOCK_NEVER : deadline))
        tell_untaken(x, fate, act.kind);
    x->at_store = false;
    enum engine_written written = engine_written(x->server->config->engine, &x->attempt);
    x->kept = x->kept && x->attempt.result.kept;
    CRASH_POINT(after_outcome_commit);
    if (act.outcome)
        bodies_drop(x, act.outcome);
    bodies_count(x, 0);
    return written;
}

static enum result result_of(const struct exchange *x, enum fate_write write)
{
    if (write == FATE_RELEASE || write == FATE_DROP)
        return RESULT_RELEASED;
    if (write == FATE_DOUBT)
        return record_repeats(x->rule->unknown) ? RESULT_RELEASED : RESULT_UNKNOWN;
    return x->kept ? RESULT_STORED : RESULT_NOT_KEPT;
}

/* The failure that a probe was to clear up. An answer of the upstream that is in doubt goes to the
 * client as it is; else pawl says what happened. */
static enum step tell_failure(struct exchange *x)
{
    if (x->failed.status != 0)
        answer_first(x, &x->failed, RESULT_UNKNOWN);
    else if (x->has_failure)
        answer_result(x, x->failure.error, SLICE("the probe was inconclusive"), RESULT_UNKNOWN);
    else
        answer_error(x, ERROR_OUTCOME_UNKNOWN, SLICE("the probe was inconclusive"));
    return STEP_DONE;
}

static void swap_answer(struct answer *a, struct answer *b)
{
    struct answer kept = *a;
    *a = *b;
    *b = kept;
}

/* The doubt is stored, and the probe's token with it. */
static enum step ask_next(struct exchange *x, struct fate fate)
{
    x->has_failure = true;
    x->failure = fate;
    x->failed.status = 0;
    if (fate.error == ERROR_NONE && x->answer.whole)
        swap_answer(&x->answer, &x->failed);
    else if (fate.error == ERROR_NONE)
        x->failure.error = ERROR_UPSTREAM_BROKE; /* too large an answer to be held meanwhile */
    http_call_close(&x->call);
    return STEP_PROBE;
}

/* In doubt, and not asked about: the record is not this exchange's any more, or a probe said before
 * that it did not happen, the request went out once more, and failed again. Asking on would send
 * without end, and without a pause, for one request. */
static enum step tell_doubt(struct exchange *x, struct fate fate)
{
    if (fate.error == ERROR_NONE)
        answer_first(x, &x->answer, result_of(x, fate.write));
    else
        answer_result(x, fate.error, slice_of(x->call.tls_problem), result_of(x, fate.write));
    return STEP_DONE;
}

static enum step tell(struct exchange *x, struct fate fate)
{
    switch (fate.tell) {
    case FATE_TELL_ANSWER:
        answer_first(x, &x->answer, result_of(x, fate.write));
        return STEP_DONE;
    case FATE_TELL_ERROR:
        if (x->probing)
            return tell_failure(x);
        answer_result(x, fate.error, slice_of(x->call.tls_problem), result_of(x, fate.write));
        return STEP_DONE;
    case FATE_PROBE:
        return tell_doubt(x, fate);
    case FATE_DECIDE:
        return STEP_DECIDE;
    }
    UNREACHABLE();
}

static enum step lost(struct exchange *x)
{
    x->answered = true;
    x->keep_alive = false;
    return STEP_DONE;
}

/* "It did not happen", found out by its own probe and stored: what this exchange has sent is not
 * coming any more. */
static void note_cleared(struct exchange *x, struct fate fate)
{
    if (x->probing && fate.write == FATE_RELEASE)
        x->attempt.begin.spent = false;
}

static enum step settle_once(struct exchange *x, struct fate fate)
{
    switch (write_fate(x, fate)) {
    case ENGINE_STORED:
        note_cleared(x, fate);
        return tell(x, fate);
    case ENGINE_ASKS:
        return ask_next(x, fate);
    case ENGINE_STALE:
        return STEP_DECIDE;
    case ENGINE_EARLY:
        /* "Not found" is not believed yet: somebody may still be sending. */
        return settle_once(x, (struct fate){.write = FATE_DOUBT,
                                            .tell = FATE_TELL_ERROR,
                                            .error = ERROR_OUTCOME_UNKNOWN});
    case ENGINE_LOST:
        return lost(x);
    }
    UNREACHABLE();
}

/* The upstream says that our token is old. If the record has moved on, it says what is true. If it
 * has not, the upstream contradicts the store, and what it did is in doubt. */
static struct fate contradicted(void)
{
    return (struct fate){
        .write = FATE_DOUBT, .tell = FATE_TELL_ERROR, .error = ERROR_UPSTREAM_BROKE};
}

enum step settle(struct exchange *x, struct fate fate)
{
    enum step step = settle_once(x, fate.write == FATE_NOTHING ? contradicted() : fate);
    http_call_close(&x->call);
    /* Nobody is left to answer: whoever comes next decides. What was acquired is used. */
    return x->answered && step != STEP_PROBE ? STEP_DONE : step;
}
