/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/runner.h"

#include "base/check.h"
#include "base/crash.h"

#define DECISIONS_MAX 64                               /* begins of one run */
#define BEGIN_US (10 * CLOCK_US_PER_S)                 /* for one decision of the store */
#define LEASE_MARGIN_US (INT64_C(15) * CLOCK_US_PER_S) /* beyond an attempt's time (courier) */
#define WRITE_GRACE_US (INT64_C(15) * CLOCK_US_PER_S)  /* for its outcome to be stored */
#define LOOK_US (INT64_C(100) * CLOCK_US_PER_MS)       /* at what goes on without its owner */
#define ROOM_MOST_US CLOCK_US_PER_S /* of the whole time, for the response to the last attempt */

enum step {
    STEP_BEGIN,
    STEP_ATTEMPT,
    STEP_PROBE,
    STEP_WAIT,
    STEP_ENDED,
};

/* ---- begin ---- */

static void make_course(struct runner *runner)
{
    int64_t now = clock_boot_us();
    int64_t total = clock_first(runner->total_us, runner->schedule->total_us);
    int64_t room = clock_first(total / 10, ROOM_MOST_US);
    runner->deadline = clock_after(now, total);
    int64_t last_by = total == CLOCK_NEVER ? CLOCK_NEVER : runner->deadline - room;
    runner->course = retry_course_make(runner->schedule, runner->seed, now, last_by);
    runner->course.attempts = 0;
}

static void fill_runner_attempt(struct runner *runner)
{
    struct record_begin *begin = &runner->attempt.begin;
    if (!runner->engine)
        return;
    runner->attempt.key_hash = engine_key_hash(runner->engine, runner->attempt.tenant,
                                               runner->attempt.rule, runner->attempt.key);
    begin->doubted_us = begin->ttl_us;
    begin->asks_first = runner->executor->goes_on;
    if (begin->lease_us > 0)
        return;
    begin->lease_us = clock_after(runner->timeout_us, LEASE_MARGIN_US);
    begin->settle_us = runner->timeout_us;
}

static bool is_gate_closed(const struct runner *runner)
{
    return runner->gate && runner->gate->closed;
}

static void leave_gate(struct runner *runner)
{
    if (runner->gate)
        runner->gate->leave(runner->gate);
}

/* A job waits for as long as it was told to, and its time for retries begins with its first
 * attempt; all else has its time in all. */
static int64_t waits_until(const struct runner *runner)
{
    return runner->is_job ? runner->wait_until : clock_first(runner->wait_until, runner->deadline);
}

static enum engine_verdict begin_runner(struct runner *runner)
{
    int64_t now = clock_boot_us();
    outcome_unref(runner->outcome); /* of an attempt whose token was stale */
    runner->outcome = NULL;
    int64_t until = waits_until(runner);
    runner->attempt.wait_us = until == CLOCK_NEVER ? CLOCK_NEVER : until > now ? until - now : 0;
    CRASH_POINT(before_begin);
    return engine_begin(runner->engine, &runner->attempt, runner->parker,
                        clock_after(now, clock_after(BEGIN_US, runner->attempt.wait_us)));
}

/* What is refused is an age of the key, an epoch or the like: no run brings any. */
static enum runner_result take_verdict(struct runner *runner, enum engine_verdict verdict)
{
    static const enum runner_result results[] = {
        [VERDICT_DONE] = RUNNER_REPLAYED,    [VERDICT_MISMATCH] = RUNNER_MISMATCH,
        [VERDICT_WAIT] = RUNNER_IN_PROGRESS, [VERDICT_HELD] = RUNNER_HELD,
        [VERDICT_DOWN] = RUNNER_STORE_DOWN,
    };
    enum verdict_class class = engine_class_of(verdict);
    CHECK(class >= VERDICT_DONE && class != VERDICT_REFUSED);
    runner->outcome = attempt_take_found(&runner->attempt);
    return verdict == ENGINE_GONE && is_gate_closed(runner) ? RUNNER_STOPPED : results[class];
}

/* Its lease has lapsed: it goes on without its owner and may be waited for, or is overtaken. */
static enum step look_at_lapsed(struct runner *runner)
{
    struct attempt *attempt = &runner->attempt;
    struct slice origin = slice_of(attempt->result.found_origin);
    int64_t token = attempt->result.record.token;
    bool goes_on = runner->executor->goes_on(runner->executor, origin, token);
    if (!goes_on) {
        attempt->begin.overtakes = token;
        return STEP_BEGIN;
    }
    runner->due = clock_after(clock_boot_us(), LOOK_US);
    bool waits = runner->due < waits_until(runner);
    runner->decisions--; /* of its own process it will be waited for, however often that takes */
    return waits ? STEP_WAIT : STEP_ENDED;
}

static enum step follow_verdict(struct runner *runner, enum engine_verdict verdict)
{
    if (verdict == ENGINE_PROCEED) {
        CRASH_POINT(after_claim_commit);
        runner->unproved = runner->unproved || runner->attempt.result.unproved;
        return STEP_ATTEMPT;
    }
    if (engine_class_of(verdict) == VERDICT_PROBE)
        return STEP_PROBE;
    leave_gate(runner);
    bool lapsed = verdict == ENGINE_IN_PROGRESS && runner->attempt.begin.asks_first &&
                  runner->attempt.result.lease == RECORD_LEASE_LAPSED;
    return lapsed ? look_at_lapsed(runner) : STEP_ENDED;
}

static enum step decide_runner(struct runner *runner, enum runner_result *ret_result)
{
    *ret_result = RUNNER_STOPPED;
    if (runner->gate && !runner->gate->enter(runner->gate, runner->parker))
        return STEP_ENDED;
    if (!runner->engine)
        return STEP_ATTEMPT;
    *ret_result = RUNNER_IN_PROGRESS;
    if (runner->decisions++ == DECISIONS_MAX) {
        leave_gate(runner);
        return STEP_ENDED;
    }
    enum engine_verdict verdict = begin_runner(runner);
    enum step step = follow_verdict(runner, verdict);
    if (step == STEP_ENDED)
        *ret_result = take_verdict(runner, verdict);
    return step;
}

/* ---- an attempt, and what is stored of it ---- */

struct engine_act runner_act(const struct runner_end *end, bool is_probe)
{
    struct engine_act act = engine_act_of(end->write, is_probe);
    act.http_status = end->status;
    act.cause = end->cause;
    act.outcome = end->outcome;
    return act;
}

/* `ends`: no attempt follows; `again`: one might have. */
static void count_course(struct runner *runner, bool ends, bool again)
{
    struct attempt *attempt = &runner->attempt;
    struct tally *tally = &runner->tally;
    tally_init(tally, runner->profile, attempt->token);
    tally_add(tally, retry_course_sent(&runner->course) == 1 ? TALLY_OPERATION : TALLY_RETRY, 1);
    if (ends && again)
        tally_add(tally, TALLY_EXHAUSTED, 1);
    if (ends && runner->is_job)
        tally_add(tally,
                  runner->end.class == RETRY_DONE    ? TALLY_JOB_RUN
                  : runner->end.write == WRITE_DOUBT ? TALLY_JOB_DOUBT
                                                     : TALLY_JOB_FAILED,
                  1);
    attempt->brings = tally->changes;
    attempt->n_brings = tally->n;
}

/* False: it is not known whether it is stored, or the store has stopped: the result says which. */
static bool await_runner_end(struct runner *runner, enum engine_written *ret_written,
                             enum runner_result *ret_result)
{
    int64_t now = clock_boot_us();
    int64_t until =
        runner->deadline > now && runner->deadline != CLOCK_NEVER ? runner->deadline : now;
    *ret_result = RUNNER_NOT_STORED;
    if (!engine_wait(&runner->attempt, runner->parker, clock_after(until, WRITE_GRACE_US))) {
        runner->outcome = NULL; /* the store writes from it still: the reference stays with it */
        return false;
    }
    *ret_written = engine_written(runner->engine, &runner->attempt);
    runner->attempt.n_brings = 0;
    *ret_result = RUNNER_LOST;
    return *ret_written != ENGINE_LOST;
}

/* Behind a turn its attempt follows at once. */
static bool store_end(struct runner *runner, const struct engine_act *act,
                      enum engine_written *ret_written, enum runner_result *ret_result)
{
    engine_write(runner->engine, &runner->attempt, act, runner->parker);
    if (act->kind != STORE_TURN)
        leave_gate(runner);
    return await_runner_end(runner, ret_written, ret_result);
}

static struct runner_attempt make_runner_attempt(const struct runner *runner, int number)
{
    int64_t until = clock_after(clock_boot_us(), runner->timeout_us);
    return (struct runner_attempt){
        .number = number,
        .delay_us = runner->delay_us,
        .until = runner->is_job ? until : clock_first(until, runner->deadline),
        .send_by = runner->engine ? runner->attempt.send_by : CLOCK_NEVER,
        .token = runner->attempt.token,
        .acquired = runner->attempt.result.record.attempts,
        .in_doubt = runner->in_doubt || (runner->engine && runner->attempt.result.record.doubt)};
}

static void run_attempt(struct runner *runner, struct runner_attempt *ret_attempt)
{
    runner->course.attempts++;
    *ret_attempt = make_runner_attempt(runner, retry_course_sent(&runner->course));
    runner->end = (struct runner_end){.hint_us = RETRY_NO_HINT};
    runner->began_at = clock_wall_us();
    runner->executor->run(runner->executor, ret_attempt, &runner->end);
    runner->ended_at = clock_wall_us();
    runner->outcome = runner->end.outcome;
    runner->end.class = retry_bound_busy(runner->end.class, runner->course.busy_since,
                                         ret_attempt->in_doubt, clock_boot_us());
    CHECK(runner->end.class != RETRY_DONE || runner->end.write == WRITE_COMPLETE);
    CHECK(runner->end.class < RETRY_LATER || runner->end.write >= WRITE_RELEASE);
    runner->reached = runner->reached || runner->end.reached;
    runner->out_of_time = clock_boot_us() >= runner->deadline;
}

static bool is_tried_again(const struct runner *runner)
{
    return runner->end.class >= RETRY_LATER || runner->end.write == WRITE_NOTHING;
}

/* What follows on an attempt that is to be tried again. */
static struct retry_next plan_next_run(struct runner *runner, int64_t now)
{
    enum retry_class class = runner->end.class < RETRY_LATER ? RETRY_LATER : runner->end.class;
    struct retry_next next = retry_plan_next(&runner->course, class, runner->end.hint_us, now);
    if (next.end == RETRY_GOES_ON && runner->budget && !retry_budget_take(runner->budget, now))
        next.end = RETRY_ENDS_BUDGET;
    return next;
}

/* The time of a job begins with its first attempt. */
static void begin_course(struct runner *runner)
{
    if (retry_course_sent(&runner->course) > 0)
        return;
    if (runner->is_job)
        make_course(runner);
    if (runner->budget)
        retry_budget_add_request(runner->budget, clock_boot_us());
}

/* What follows on it, and what the store counts of it. */
static void plan_end(struct runner *runner, struct runner_report *report)
{
    bool again = is_tried_again(runner);
    if (again)
        report->next = plan_next_run(runner, report->now);
    bool ends = !again || report->next.end != RETRY_GOES_ON;
    if (runner->gate && runner->gate->fails_fast && ends && runner->end.class != RETRY_DONE)
        runner->gate->closed = true;
    if (runner->engine)
        count_course(runner, ends, again);
}

static void note_doubt(struct runner *runner, enum engine_written written)
{
    const struct runner_end *end = &runner->end;
    bool stored = written == ENGINE_STORED;
    if (end->write == WRITE_DOUBT || end->write == WRITE_NOTHING ||
        (stored && runner->attempt.result.record.doubt))
        runner->in_doubt = true;
    if (stored && (end->write == WRITE_COMPLETE || end->is_settled))
        runner->in_doubt = false;
}

static enum step judge_runner_end(struct runner *runner, const struct runner_report *report,
                                  enum runner_result *ret_result)
{
    bool again = is_tried_again(runner);
    if (runner->report)
        runner->report(runner->argument, report);
    *ret_result = runner->end.class == RETRY_DONE ? RUNNER_DONE
                  : again                         ? RUNNER_ENDED
                                                  : RUNNER_FINAL;
    runner->ended_by = report->next.end;
    if (!again || report->next.end != RETRY_GOES_ON)
        return STEP_ENDED;
    runner->due = report->next.at;
    runner->delay_us = report->next.at > report->now ? report->next.at - report->now : 0;
    return STEP_WAIT;
}

/* A response whose token is stale says nothing any more: the record is asked again. */
static enum step attempt_once(struct runner *runner, enum runner_result *ret_result)
{
    struct runner_attempt attempt;
    enum engine_written written = ENGINE_STORED;
    begin_course(runner);
    run_attempt(runner, &attempt);
    struct runner_report report = {&attempt, &runner->end, {0}, clock_boot_us()};
    plan_end(runner, &report);
    struct engine_act act = runner_act(&runner->end, false);
    if (!runner->engine)
        leave_gate(runner);
    else if (!store_end(runner, &act, &written, ret_result))
        return STEP_ENDED;
    note_doubt(runner, written);
    if (written == ENGINE_STALE)
        return STEP_BEGIN;
    CHECK(written == ENGINE_STORED);
    return judge_runner_end(runner, &report, ret_result);
}

/* ---- a probe ---- */

/* A job that was done, and that its process did not live to count. */
static void count_found(struct runner *runner)
{
    if (!runner->is_job)
        return;
    tally_init(&runner->tally, RETRY_PROFILE_COUNT, runner->attempt.token);
    tally_add(&runner->tally, TALLY_JOB_RUN, 1);
    runner->attempt.brings = runner->tally.changes;
    runner->attempt.n_brings = runner->tally.n;
}

/* An inquiry that found nothing out leaves no doubt. */
static struct engine_act act_of_probe(const struct runner *runner, bool inquires)
{
    struct runner_end end = runner->end;
    if (inquires && end.write != WRITE_COMPLETE)
        end.write = end.write == WRITE_RELEASE ? WRITE_TURN : WRITE_RELEASE;
    return runner_act(&end, !inquires);
}

static enum step after_probe(enum store_op_kind kind, enum engine_written written)
{
    bool begins =
        written == ENGINE_STALE || (written == ENGINE_STORED && kind == STORE_RELEASE_SETTLED);
    return begins ? STEP_BEGIN : STEP_ENDED;
}

/* What it found out is stored before it is reported; "not done" is followed by an attempt. */
static enum step probe_once(struct runner *runner, enum runner_result *ret_result)
{
    bool inquires = record_is_asking(&runner->attempt.result.record);
    struct runner_attempt attempt =
        make_runner_attempt(runner, retry_course_sent(&runner->course) + 1);
    enum engine_written written;
    CHECK(runner->executor->probe);
    runner->end = (struct runner_end){.hint_us = RETRY_NO_HINT};
    runner->executor->probe(runner->executor, &attempt, &runner->end);
    runner->outcome = runner->end.outcome;
    struct engine_act act = act_of_probe(runner, inquires);
    if (act.kind == STORE_FINISH)
        count_found(runner);
    bool is_known = store_end(runner, &act, &written, ret_result);
    if (is_known && act.kind == STORE_TURN && written == ENGINE_STORED)
        return STEP_ATTEMPT;
    if (act.kind == STORE_TURN)
        leave_gate(runner);
    if (is_known && act.kind == STORE_RELEASE_SETTLED && written == ENGINE_EARLY) {
        act = engine_act_of(WRITE_DOUBT, true); /* which ends its lease */
        engine_write(runner->engine, &runner->attempt, &act, runner->parker);
        is_known = await_runner_end(runner, &written, ret_result);
    }
    if (!is_known)
        return STEP_ENDED;
    *ret_result = act.kind == STORE_FINISH ? RUNNER_FOUND
                  : inquires               ? RUNNER_UNPROVED
                                           : RUNNER_HELD;
    return after_probe(act.kind, written);
}

/* ---- all of it ---- */

static enum step wait_until_due(struct runner *runner)
{
    while (clock_boot_us() < runner->due && !is_gate_closed(runner))
        runner->parker->park(runner->parker, runner->due);
    return STEP_BEGIN;
}

enum runner_result runner_run(struct runner *runner)
{
    enum runner_result result = RUNNER_STORE_DOWN;
    enum step step = STEP_BEGIN;
    CHECK(runner->timeout_us > 0 && runner->attempt.begin.ttl_us > 0);
    make_course(runner);
    runner->wait_until = clock_after(clock_boot_us(), runner->wait_us);
    fill_runner_attempt(runner);
    while (step != STEP_ENDED) {
        if (step == STEP_BEGIN)
            step = decide_runner(runner, &result);
        else if (step == STEP_ATTEMPT)
            step = attempt_once(runner, &result);
        else if (step == STEP_PROBE)
            step = probe_once(runner, &result);
        else
            step = wait_until_due(runner);
    }
    attempt_fini(&runner->attempt);
    return result;
}
