/* SPDX-License-Identifier: Apache-2.0 */
/* One operation under one key, tried again by a schedule. */
#include "runner_play.h"

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
    play.script[0] = (struct line){RETRY_BUSY, WRITE_RELEASE, 0, 0, false};
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
        struct engine_act act = {.kind = STORE_DOUBT};
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
