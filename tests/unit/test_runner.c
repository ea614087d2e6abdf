/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner with a scripted executor over the toy store: whoever parks does the store's work, and
 * moves the clock where there is none.
 */
#include "base/mem.h"
#include "runner/runner.h"
#include "toy/toy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define START (INT64_C(1000) * CLOCK_US_PER_S)
#define WALL (INT64_C(1700000000) * CLOCK_US_PER_S)
#define MS(n) (INT64_C(n) * CLOCK_US_PER_MS)
#define SCRIPT_MAX 8
#define STEP_US (50 * CLOCK_US_PER_MS)
#define DAY_US (INT64_C(86400) * CLOCK_US_PER_S)

struct line {
    enum retry_class class;
    enum disposition_write write;
    int64_t takes_us;
    int64_t hint_us; /* 0: none */
    bool unreached;
};

/* A process, as its store sees it. */
struct process {
    struct parker parker; /* first: the two are cast into each other */
    struct store *store;
    struct engine *engine;
    bool is_stuck; /* its store does nothing */
};

struct play {
    struct runner_executor executor; /* first, likewise */
    struct process here;
    struct process elsewhere;
    struct runner runner;
    struct line script[SCRIPT_MAX];
    int n_run;
    int n_reported;
    int64_t delays_ms[SCRIPT_MAX];
    int64_t tokens[SCRIPT_MAX];
    bool waits;
    bool loses_token; /* another runs the operation during the attempt */
    bool is_stuck;    /* the store, from the attempt's end on */
};

static int64_t boot;

static void move_clock(int64_t by_us)
{
    boot += by_us;
    clock_test_set(WALL + boot, boot);
}

static bool park(struct parker *parker, int64_t deadline_us)
{
    struct process *process = (struct process *)parker;
    if ((process->is_stuck || !store_step(process->store)) && deadline_us != CLOCK_NEVER &&
        deadline_us > boot)
        move_clock(deadline_us - boot < STEP_US ? deadline_us - boot : STEP_US);
    return false;
}

static void wake(struct parker *parker)
{
    (void)parker;
}

static void fill(struct play *play, struct runner *runner, char payload)
{
    *runner = (struct runner){.engine = play->here.engine,
                              .parker = &play->here.parker,
                              .executor = &play->executor,
                              .schedule = retry_profile_schedule(RETRY_PROFILE_user_facing),
                              .seed = 7,
                              .total_us = CLOCK_NEVER,
                              .timeout_us = 5 * CLOCK_US_PER_S};
    runner->attempt.rule = SLICE("send");
    runner->attempt.key = SLICE("k1");
    runner->attempt.recipe = SLICE("2 all");
    runner->attempt.begin.ttl_us = DAY_US;
    runner->attempt.begin.unknown = RECORD_UNKNOWN_RETRY;
    memset(runner->attempt.begin.payload_hash.bytes, payload, DIGEST_SIZE);
}

static void run_elsewhere(struct play *play)
{
    struct process *process = &play->elsewhere;
    struct attempt *other = mem_zalloc(1, sizeof *other);
    assert_non_null(other);
    struct engine_act act = {.kind = ENGINE_FINISH, .final = RECORD_COMPLETE, .http_status = 299};
    *other = play->runner.attempt;
    move_clock(DAY_US / 2);
    assert_int_equal(engine_begin(process->engine, other, &process->parker, CLOCK_NEVER),
                     ENGINE_PROCEED);
    engine_write(process->engine, other, &act, &process->parker);
    assert_true(engine_wait(other, &process->parker, CLOCK_NEVER));
    assert_int_equal(engine_written(process->engine, other), ENGINE_STORED);
    mem_free(other);
}

static void execute(struct runner_executor *executor, const struct runner_attempt *attempt,
                    struct runner_end *ret_end)
{
    struct play *play = (struct play *)executor;
    const struct line *line = &play->script[play->n_run];
    assert_true(play->n_run < SCRIPT_MAX && attempt->number == play->n_run + 1);
    assert_true(attempt->until > boot && attempt->send_by > boot);
    play->delays_ms[play->n_run] = attempt->delay_us / CLOCK_US_PER_MS;
    play->tokens[play->n_run++] = attempt->token;
    move_clock(line->takes_us);
    *ret_end = (struct runner_end){.class = line->class,
                                   .write = line->write,
                                   .reached = !line->unreached,
                                   .status = line->write == WRITE_COMPLETE ? 201 : 503,
                                   .hint_us = line->hint_us ? line->hint_us : RETRY_NO_HINT};
    if (line->write == WRITE_COMPLETE)
        ret_end->outcome = outcome_new(201, false, SLICE("A: b\r\n"), SLICE("done"));
    if (play->loses_token)
        run_elsewhere(play);
    play->here.is_stuck = play->is_stuck;
}

static void report(void *argument, const struct runner_report *report)
{
    struct play *play = argument;
    play->n_reported++;
    assert_int_equal(report->attempt->number, play->n_run);
}

static void start(struct process *process, struct backend *backend)
{
    struct store_config config = store_config_default();
    char *problem = NULL;
    config.no_thread = true;
    process->parker = (struct parker){.park = park, .wake = wake};
    assert_int_equal(store_open_over(&config, backend, &process->store, &problem), STORE_OPENED);
    process->engine = engine_new(process->store, 0);
    assert_non_null(process->engine);
}

static void open_play(struct play *play)
{
    boot = START;
    move_clock(0);
    *play = (struct play){.executor.run = execute};
    struct backend *backend = toy_open(NULL);
    start(&play->here, backend);
    start(&play->elsewhere, toy_open(backend));
}

static void close_play(struct play *play)
{
    engine_free(play->here.engine);
    engine_free(play->elsewhere.engine);
    store_close(play->here.store);
    store_close(play->elsewhere.store);
    clock_test_set(0, 0);
}

static enum runner_result run(struct play *play)
{
    play->n_run = play->n_reported = 0;
    outcome_unref(play->runner.outcome);
    fill(play, &play->runner, 'a');
    play->runner.report = report;
    play->runner.wait_us = play->waits ? CLOCK_NEVER : 0;
    play->runner.argument = play;
    return runner_run(&play->runner);
}

static const struct line done = {RETRY_DONE, WRITE_COMPLETE, 0, 0, false};
static const struct line busy = {RETRY_LATER, WRITE_RELEASE, 0, 0, false};
static const struct line lost = {RETRY_LATER, WRITE_DOUBT, 0, 0, false};
static const struct line refused = {RETRY_FINAL, WRITE_RELEASE, 0, 0, false};

/* ---- */

static void test_r4_attempts_go_on_by_schedule_under_one_record_until_one_is_done(void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.script[0] = play.script[1] = lost;
    play.script[2] = done;
    assert_int_equal(run(&play), RUNNER_DONE);
    assert_int_equal(play.n_run, 3);
    assert_int_equal(play.n_reported, 3);
    assert_int_equal(play.delays_ms[0], 0);
    assert_in_range(play.delays_ms[1], 100, 200);
    assert_in_range(play.delays_ms[2], 200, 400);
    assert_true(play.tokens[0] < play.tokens[1] && play.tokens[1] < play.tokens[2]);
    assert_int_equal(play.runner.outcome->status, 201);
    outcome_unref(play.runner.outcome);
    close_play(&play);
}

static void test_q3_a_success_is_remembered_and_nothing_is_run_again(void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.script[0] = done;
    assert_int_equal(run(&play), RUNNER_DONE);
    move_clock(DAY_US - MS(1));
    assert_int_equal(run(&play), RUNNER_REPLAYED);
    assert_int_equal(play.n_run, 0);
    assert_true(slice_eq(play.runner.outcome->body, SLICE("done")));
    move_clock(2 * CLOCK_US_PER_S);
    assert_int_equal(run(&play), RUNNER_DONE);
    outcome_unref(play.runner.outcome);
    close_play(&play);
}

static void test_a_final_failure_is_not_tried_again_and_not_remembered(void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.script[0] = refused;
    assert_int_equal(run(&play), RUNNER_FINAL);
    assert_int_equal(play.n_run, 1);
    assert_int_equal(run(&play), RUNNER_FINAL);
    assert_int_equal(play.n_run, 1);
    assert_false(play.runner.in_doubt);
    close_play(&play);
}

static void test_another_payload_under_the_key_is_refused_without_an_attempt(void **state)
{
    (void)state;
    struct play play;
    struct runner *other = mem_zalloc(1, sizeof *other);
    open_play(&play);
    play.script[0] = refused;
    assert_int_equal(run(&play), RUNNER_FINAL);
    fill(&play, other, 'b');
    assert_int_equal(runner_run(other), RUNNER_MISMATCH);
    assert_int_equal(play.n_run, 1);
    mem_free(other);
    close_play(&play);
}

static void test_r5_a_hint_beyond_the_deadline_ends_at_once(void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.script[0] = busy;
    play.script[0].hint_us = 60 * CLOCK_US_PER_S;
    assert_int_equal(run(&play), RUNNER_ENDED);
    assert_int_equal(play.runner.ended_by, RETRY_ENDS_HINT);
    assert_int_equal(boot, START);
    close_play(&play);
}

static void test_r6_what_is_in_progress_at_the_target_is_asked_again_after_two_seconds(void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.script[0] = (struct line){RETRY_IN_PROGRESS, WRITE_RELEASE, 0, 0, false};
    play.script[1] = done;
    assert_int_equal(run(&play), RUNNER_DONE);
    assert_true(play.delays_ms[1] >= 2000);
    outcome_unref(play.runner.outcome);
    close_play(&play);
}

static void test_r1_attempts_and_time_end_and_it_says_what_is_in_doubt(void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    for (int i = 0; i < SCRIPT_MAX; i++)
        play.script[i] = busy;
    assert_int_equal(run(&play), RUNNER_ENDED);
    assert_int_equal(play.n_run, 5);
    assert_int_equal(play.runner.ended_by, RETRY_ENDS_ATTEMPTS);
    assert_true(play.runner.reached && !play.runner.in_doubt);
    for (int i = 0; i < SCRIPT_MAX; i++)
        play.script[i] = (struct line){RETRY_LATER, WRITE_RELEASE, 4 * CLOCK_US_PER_S, 0, true};
    play.script[0].write = WRITE_DOUBT;
    assert_int_equal(run(&play), RUNNER_ENDED);
    assert_int_equal(play.n_run, 3);
    assert_int_equal(play.runner.ended_by, RETRY_ENDS_DEADLINE);
    assert_true(!play.runner.reached && play.runner.in_doubt && play.runner.out_of_time);
    close_play(&play);
}

static void test_a_running_attempt_elsewhere_is_waited_for_or_reported(void **state)
{
    (void)state;
    struct play play;
    struct attempt *other = mem_zalloc(1, sizeof *other);
    open_play(&play);
    fill(&play, &play.runner, 'a');
    *other = play.runner.attempt;
    struct engine *engine = play.elsewhere.engine;
    other->key_hash = engine_key_hash(engine, other->tenant, other->rule, other->key);
    other->begin.lease_us = 4 * CLOCK_US_PER_S;
    other->begin.unknown = RECORD_UNKNOWN_RETRY;
    assert_int_equal(engine_begin(engine, other, &play.elsewhere.parker, CLOCK_NEVER),
                     ENGINE_PROCEED);
    assert_int_equal(run(&play), RUNNER_IN_PROGRESS);
    assert_int_equal(play.n_run, 0);
    assert_true(play.runner.attempt.result.lease_left_us > 0);
    play.script[0] = done;
    play.waits = true;
    assert_int_equal(run(&play), RUNNER_DONE);
    assert_true(boot >= START + 4 * CLOCK_US_PER_S);
    outcome_unref(play.runner.outcome);
    mem_free(other);
    close_play(&play);
}

static void test_a_result_under_a_stale_token_is_thrown_away_for_the_one_that_is_stored(
    void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.script[0] = done;
    play.loses_token = true;
    assert_int_equal(run(&play), RUNNER_REPLAYED);
    assert_int_equal(play.n_run, 1);
    assert_int_equal(play.n_reported, 0);
    assert_int_equal(play.runner.attempt.result.record.http_status, 299);
    assert_null(play.runner.outcome);
    close_play(&play);
}

static void test_what_others_hold_in_doubt_is_not_run(void **state)
{
    (void)state;
    const enum record_unknown policies[] = {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_PROBE};
    for (size_t i = 0; i < 2; i++) {
        struct play play;
        struct attempt *other = mem_zalloc(1, sizeof *other);
        open_play(&play);
        fill(&play, &play.runner, 'a');
        *other = play.runner.attempt;
        struct process *process = &play.elsewhere;
        struct engine_act act = {.kind = ENGINE_DOUBT};
        other->key_hash = engine_key_hash(process->engine, other->tenant, other->rule, other->key);
        other->begin.lease_us = CLOCK_US_PER_S;
        other->begin.doubted_us = DAY_US;
        other->begin.unknown = policies[i];
        assert_int_equal(engine_begin(process->engine, other, &process->parker, CLOCK_NEVER),
                         ENGINE_PROCEED);
        engine_write(process->engine, other, &act, &process->parker);
        assert_true(engine_wait(other, &process->parker, CLOCK_NEVER));
        assert_int_equal(run(&play), RUNNER_HELD);
        assert_int_equal(play.n_run, 0);
        mem_free(other);
        close_play(&play);
    }
}

static void test_what_the_store_may_still_write_is_not_handed_to_a_caller_who_would_free_it(
    void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.script[0] = done;
    play.is_stuck = true;
    assert_int_equal(run(&play), RUNNER_NOT_STORED);
    assert_null(play.runner.outcome);
    while (store_step(play.here.store))
        ;
    assert_true(store_op_ended(&play.runner.attempt.op));
    outcome_unref(play.runner.end.outcome);
    play.is_stuck = play.here.is_stuck = false;
    assert_int_equal(run(&play), RUNNER_REPLAYED);
    assert_true(slice_eq(play.runner.outcome->body, SLICE("done")));
    outcome_unref(play.runner.outcome);
    close_play(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r4_attempts_go_on_by_schedule_under_one_record_until_one_is_done),
        cmocka_unit_test(test_q3_a_success_is_remembered_and_nothing_is_run_again),
        cmocka_unit_test(test_a_final_failure_is_not_tried_again_and_not_remembered),
        cmocka_unit_test(test_another_payload_under_the_key_is_refused_without_an_attempt),
        cmocka_unit_test(test_r5_a_hint_beyond_the_deadline_ends_at_once),
        cmocka_unit_test(
            test_r6_what_is_in_progress_at_the_target_is_asked_again_after_two_seconds),
        cmocka_unit_test(test_r1_attempts_and_time_end_and_it_says_what_is_in_doubt),
        cmocka_unit_test(test_a_running_attempt_elsewhere_is_waited_for_or_reported),
        cmocka_unit_test(
            test_a_result_under_a_stale_token_is_thrown_away_for_the_one_that_is_stored),
        cmocka_unit_test(test_what_others_hold_in_doubt_is_not_run),
        cmocka_unit_test(
            test_what_the_store_may_still_write_is_not_handed_to_a_caller_who_would_free_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
