/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner with a scripted executor over the toy store: whoever parks does the store's work, and
 * moves the clock where there is none.
 */
#ifndef PAWL_TESTS_RUNNER_PLAY_H
#define PAWL_TESTS_RUNNER_PLAY_H

#include "base/mem.h"
#include "runner/runner.h"
#include "toy/toy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
    struct backend *backend;
    struct runner_gate gate;
    int n_inside;            /* the gate */
    int closes;              /* it, after so many attempts; 0: nobody does */
    struct runner_end found; /* by a probe */
    int n_probed;
    int goes_on_for; /* so many looks */
    int n_looks;
    int64_t looked_at;                    /* token */
    void (*meanwhile)(struct play *play); /* during a look */
};

static int64_t boot; /* the time */

static inline void move_clock(int64_t by_us)
{
    boot += by_us;
    clock_test_set(WALL + boot, boot);
}

static inline bool park(struct parker *parker, int64_t deadline_us)
{
    struct process *process = (struct process *)parker;
    if ((process->is_stuck || !store_step(process->store)) && deadline_us != CLOCK_NEVER &&
        deadline_us > boot)
        move_clock(deadline_us - boot < STEP_US ? deadline_us - boot : STEP_US);
    return false;
}

static inline void wake(struct parker *parker)
{
    (void)parker;
}

static inline void fill(struct play *play, struct runner *runner, char payload)
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

static inline void run_elsewhere(struct play *play)
{
    struct process *process = &play->elsewhere;
    struct attempt *other = mem_zalloc(1, sizeof *other);
    assert_non_null(other);
    struct engine_act act = {.kind = STORE_FINISH, .final = RECORD_COMPLETE, .http_status = 299};
    *other = play->runner.attempt;
    move_clock(DAY_US / 2);
    assert_int_equal(engine_begin(process->engine, other, &process->parker, CLOCK_NEVER),
                     ENGINE_PROCEED);
    engine_write(process->engine, other, &act, &process->parker);
    assert_true(engine_wait(other, &process->parker, CLOCK_NEVER));
    assert_int_equal(engine_written(process->engine, other), ENGINE_STORED);
    mem_free(other);
}

static inline void execute(struct runner_executor *executor, const struct runner_attempt *attempt,
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

static inline void report(void *argument, const struct runner_report *report)
{
    struct play *play = argument;
    play->n_reported++;
    assert_int_equal(report->attempt->number, play->n_run);
    play->gate.closed |= play->n_run == play->closes;
}

static inline void start(struct process *process, struct backend *backend)
{
    struct store_config config = store_config_default();
    char *problem = NULL;
    config.no_thread = true;
    process->parker = (struct parker){.park = park, .wake = wake};
    assert_int_equal(store_open_over(&config, backend, &process->store, &problem), STORE_OPENED);
    process->engine = engine_new(process->store, 0);
    assert_non_null(process->engine);
}

static inline void open_play(struct play *play)
{
    boot = START;
    move_clock(0);
    *play = (struct play){.executor.run = execute};
    play->backend = toy_open(NULL);
    start(&play->here, play->backend);
    start(&play->elsewhere, toy_open(play->backend));
}

static inline void close_play(struct play *play)
{
    engine_free(play->here.engine);
    engine_free(play->elsewhere.engine);
    store_close(play->here.store);
    store_close(play->elsewhere.store);
    clock_test_set(0, 0);
}

static inline enum runner_result run(struct play *play)
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

#endif
