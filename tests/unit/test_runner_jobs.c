/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs need of the runner: a gate, and what another process began and left behind. */
#include "runner_play.h"

/* ---- the gate ---- */

static bool enter(struct runner_gate *gate, struct parker *parker)
{
    struct play *play = (struct play *)((char *)gate - offsetof(struct play, gate));
    (void)parker;
    play->n_inside += !gate->closed;
    return !gate->closed;
}

static void leave(struct runner_gate *gate)
{
    ((struct play *)((char *)gate - offsetof(struct play, gate)))->n_inside--;
}

/* As run, of a job that asks first and may probe. */
static enum runner_result run_job(struct play *play, enum record_unknown unknown, int64_t wait_us)
{
    struct runner *runner = &play->runner;
    play->n_run = play->n_reported = play->n_probed = play->n_looks = 0;
    play->gate = (struct runner_gate){.enter = enter, .leave = leave, .closed = play->closes < 0};
    outcome_unref(runner->outcome);
    fill(play, runner, 'a');
    runner->report = report;
    runner->argument = play;
    runner->wait_us = wait_us;
    runner->gate = &play->gate;
    runner->is_job = true;
    runner->timeout_us = CLOCK_NEVER;
    runner->attempt.begin.lease_us = 4 * CLOCK_US_PER_S;
    runner->attempt.begin.unknown = unknown;
    enum runner_result result = runner_run(runner);
    assert_int_equal(play->n_inside, 0);
    return result;
}

static void test_through_a_closed_gate_no_attempt_is_made(void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.script[0] = play.script[1] = busy;
    play.script[2] = done;
    play.closes = -1;
    assert_int_equal(run_job(&play, RECORD_UNKNOWN_RETRY, 0), RUNNER_STOPPED);
    assert_int_equal(play.n_run, 0);
    play.closes = 2;
    assert_int_equal(run_job(&play, RECORD_UNKNOWN_RETRY, 0), RUNNER_STOPPED);
    assert_int_equal(play.n_run, 2);
    play.closes = 3; /* what has been done is done */
    assert_int_equal(run_job(&play, RECORD_UNKNOWN_RETRY, 0), RUNNER_DONE);
    outcome_unref(play.runner.outcome);
    close_play(&play);
}

/* ---- what another process began and does not end ---- */

static void begin_in(struct play *play, struct process *process, int64_t overtakes)
{
    struct attempt *other = mem_zalloc(1, sizeof *other);
    struct runner *runner = mem_zalloc(1, sizeof *runner);
    assert_true(other && runner);
    fill(play, runner, 'a');
    *other = runner->attempt;
    other->key_hash = engine_key_hash(process->engine, other->tenant, other->rule, other->key);
    other->origin = SLICE("run it\nthere\n\n\n");
    other->begin.lease_us = 4 * CLOCK_US_PER_S;
    other->begin.doubted_us = DAY_US;
    other->begin.settle_us = play->runner.attempt.begin.settle_us;
    other->begin.unknown = play->runner.attempt.begin.unknown;
    other->begin.asks_first = true;
    other->begin.overtakes = overtakes;
    assert_int_equal(engine_begin(process->engine, other, &process->parker, CLOCK_NEVER),
                     ENGINE_PROCEED);
    mem_free(runner);
    mem_free(other);
}

static bool goes_on(struct runner_executor *executor, struct slice origin, int64_t token)
{
    struct play *play = (struct play *)executor;
    assert_true(slice_starts(origin, SLICE("run it\nthere")));
    play->looked_at = token;
    if (play->meanwhile)
        play->meanwhile(play);
    return ++play->n_looks <= play->goes_on_for;
}

static void probe(struct runner_executor *executor, const struct runner_attempt *attempt,
                  struct runner_end *ret_end)
{
    struct play *play = (struct play *)executor;
    assert_true(attempt->token > play->looked_at);
    play->n_probed++;
    *ret_end = play->found;
    if (ret_end->write == WRITE_COMPLETE)
        ret_end->outcome = outcome_new(0, false, SLICE(""), SLICE("found"));
}

static void open_left_behind(struct play *play, enum record_unknown unknown)
{
    open_play(play);
    play->executor.goes_on = goes_on;
    play->executor.probe = probe;
    play->script[0] = done;
    play->runner.attempt.begin.unknown = unknown;
    begin_in(play, &play->elsewhere, 0);
}

static void test_others_are_waited_for_as_long_as_is_wanted(void **state)
{
    (void)state;
    struct play play;
    open_left_behind(&play, RECORD_UNKNOWN_RETRY);
    assert_int_equal(run_job(&play, RECORD_UNKNOWN_RETRY, 0), RUNNER_IN_PROGRESS);
    assert_int_equal(boot, START);
    assert_int_equal(run_job(&play, RECORD_UNKNOWN_RETRY, CLOCK_US_PER_S), RUNNER_IN_PROGRESS);
    assert_in_range(boot - START, MS(1000), MS(1200));
    assert_int_equal(play.n_run + play.n_looks, 0);
    assert_int_equal(run_job(&play, RECORD_UNKNOWN_RETRY, 60 * CLOCK_US_PER_S), RUNNER_DONE);
    assert_true(boot >= START + 4 * CLOCK_US_PER_S);
    assert_int_equal(play.n_looks, 1);
    outcome_unref(play.runner.outcome);
    close_play(&play);
}

static void test_what_goes_on_beyond_its_lease_is_in_progress_until_it_has_ended(void **state)
{
    (void)state;
    for (int policy = RECORD_UNKNOWN_HOLD; policy <= RECORD_UNKNOWN_PROBE; policy++) {
        struct play play;
        open_left_behind(&play, (enum record_unknown)policy);
        move_clock(DAY_US / 2);
        play.goes_on_for = 1;
        assert_int_equal(run_job(&play, (enum record_unknown)policy, 0), RUNNER_IN_PROGRESS);
        assert_int_equal(play.runner.attempt.result.lease, RECORD_LEASE_LAPSED);
        assert_int_equal(play.n_run + play.n_probed, 0);
        play.goes_on_for = 90; /* more than a run decides of itself */
        play.found = (struct runner_end){.class = RETRY_DONE, .write = WRITE_COMPLETE};
        enum runner_result result = run_job(&play, (enum record_unknown)policy, DAY_US);
        assert_int_equal(result, policy == RECORD_UNKNOWN_HOLD    ? RUNNER_HELD
                                 : policy == RECORD_UNKNOWN_RETRY ? RUNNER_DONE
                                                                  : RUNNER_FOUND);
        assert_int_equal(play.n_looks, 91);
        outcome_unref(play.runner.outcome);
        close_play(&play);
    }
}

static void test_what_a_probe_finds_is_stored_or_is_run_or_is_held(void **state)
{
    (void)state;
    const struct {
        struct runner_end found;
        enum runner_result first, second;
        int runs;
    } cases[] = {
        {{.class = RETRY_DONE, .write = WRITE_COMPLETE}, RUNNER_FOUND, RUNNER_REPLAYED, 0},
        {{.class = RETRY_LATER, .write = WRITE_RELEASE}, RUNNER_DONE, RUNNER_REPLAYED, 1},
        {{.class = RETRY_LATER, .write = WRITE_DOUBT}, RUNNER_HELD, RUNNER_HELD, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct play play;
        open_left_behind(&play, RECORD_UNKNOWN_PROBE);
        move_clock(5 * CLOCK_US_PER_S);
        play.found = cases[i].found;
        assert_int_equal(run_job(&play, RECORD_UNKNOWN_PROBE, 0), cases[i].first);
        assert_int_equal(play.n_probed, 1);
        assert_int_equal(play.n_run, cases[i].runs);
        assert_int_equal(run_job(&play, RECORD_UNKNOWN_PROBE, 0), cases[i].second);
        if (cases[i].second == RUNNER_REPLAYED)
            assert_true(slice_eq(play.runner.outcome->body,
                                 cases[i].runs ? SLICE("done") : SLICE("found")));
        outcome_unref(play.runner.outcome);
        close_play(&play);
    }
}

/* In doubt at once, so that no other run takes its probe for one that is still under way. */
static void test_not_done_before_it_is_believed_is_held(void **state)
{
    (void)state;
    struct play play;
    open_play(&play);
    play.executor.goes_on = goes_on;
    play.executor.probe = probe;
    play.runner.attempt.begin.unknown = RECORD_UNKNOWN_PROBE;
    play.runner.attempt.begin.settle_us = DAY_US;
    begin_in(&play, &play.elsewhere, 0);
    move_clock(5 * CLOCK_US_PER_S);
    play.found = (struct runner_end){.class = RETRY_LATER, .write = WRITE_RELEASE};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_job(&play, RECORD_UNKNOWN_PROBE, 0), RUNNER_HELD);
        assert_int_equal(play.runner.attempt.result.record.status, RECORD_UNKNOWN);
        assert_int_equal(play.n_run, 0);
    }
    close_play(&play);
}

static struct process third;

static void overtake_first(struct play *play)
{
    play->meanwhile = NULL;
    begin_in(play, &third, play->looked_at);
}

static void test_another_one_that_has_overtaken_meanwhile_is_not_overtaken(void **state)
{
    (void)state;
    struct play play;
    open_left_behind(&play, RECORD_UNKNOWN_RETRY);
    start(&third, toy_open(play.backend));
    move_clock(5 * CLOCK_US_PER_S);
    play.meanwhile = overtake_first;
    assert_int_equal(run_job(&play, RECORD_UNKNOWN_RETRY, 0), RUNNER_IN_PROGRESS);
    assert_int_equal(play.runner.attempt.result.lease, RECORD_LEASE_LIVE);
    assert_int_equal(play.n_run, 0);
    assert_int_equal(play.n_looks, 1);
    engine_free(third.engine);
    store_close(third.store);
    close_play(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_through_a_closed_gate_no_attempt_is_made),
        cmocka_unit_test(test_others_are_waited_for_as_long_as_is_wanted),
        cmocka_unit_test(test_what_goes_on_beyond_its_lease_is_in_progress_until_it_has_ended),
        cmocka_unit_test(test_what_a_probe_finds_is_stored_or_is_run_or_is_held),
        cmocka_unit_test(test_not_done_before_it_is_believed_is_held),
        cmocka_unit_test(test_another_one_that_has_overtaken_meanwhile_is_not_overtaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
