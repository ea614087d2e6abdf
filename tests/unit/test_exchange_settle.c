/* SPDX-License-Identifier: Apache-2.0 */
/* SETTLE: which act of the engine writes a disposition, and what follows what became of it. */
#include "exchange_play.h"

#define NONE ERROR_NONE

/* One disposition, of an attempt that the client waits for. */
struct row {
    const char *name;
    enum exchange_step before;
    struct disposition disposition;
    enum engine_written written;
    enum store_op_kind act;
    enum exchange_step next;
    enum error error;   /* with RESPOND; NONE: the upstream's response */
    enum result result; /* with RESPOND */
};

static const struct row rows[] = {
    {"an outcome is kept, and then sent",
     EXCHANGE_FORWARD,
     {WRITE_COMPLETE, NEXT_RESPONSE, NONE},
     ENGINE_STORED,
     STORE_FINISH,
     EXCHANGE_RESPOND,
     NONE,
     RESULT_STORED},
    {"so is a final failure",
     EXCHANGE_FORWARD,
     {WRITE_FAIL, NEXT_RESPONSE, NONE},
     ENGINE_STORED,
     STORE_FINISH,
     EXCHANGE_RESPOND,
     NONE,
     RESULT_STORED},
    {"what was not done frees the key",
     EXCHANGE_FORWARD,
     {WRITE_RELEASE, NEXT_RESPONSE, NONE},
     ENGINE_STORED,
     STORE_RELEASE,
     EXCHANGE_RESPOND,
     NONE,
     RESULT_RELEASED},
    {"what was not sent does, too",
     EXCHANGE_FORWARD,
     {WRITE_RELEASE, NEXT_ERROR, ERROR_UPSTREAM_UNAVAILABLE},
     ENGINE_STORED,
     STORE_RELEASE,
     EXCHANGE_RESPOND,
     ERROR_UPSTREAM_UNAVAILABLE,
     RESULT_RELEASED},
    {"so does a try whose wait a drain ended",
     EXCHANGE_RETRY,
     {WRITE_RELEASE, NEXT_RESPONSE, NONE},
     ENGINE_STORED,
     STORE_RELEASE,
     EXCHANGE_RESPOND,
     NONE,
     RESULT_RELEASED},
    {"a lease that came too late is given back",
     EXCHANGE_FORWARD,
     {WRITE_RELEASE, NEXT_DECIDE, NONE},
     ENGINE_STORED,
     STORE_RELEASE,
     EXCHANGE_DECIDE,
     NONE,
     0},
    {"a redirect leaves nothing",
     EXCHANGE_FORWARD,
     {WRITE_DROP, NEXT_RESPONSE, NONE},
     ENGINE_STORED,
     STORE_DROP,
     EXCHANGE_RESPOND,
     NONE,
     RESULT_RELEASED},
    {"a doubt is an error that says so",
     EXCHANGE_FORWARD,
     {WRITE_DOUBT, NEXT_ERROR, ERROR_UPSTREAM_TIMEOUT},
     ENGINE_STORED,
     STORE_DOUBT,
     EXCHANGE_RESPOND,
     ERROR_UPSTREAM_TIMEOUT,
     RESULT_UNKNOWN},
    {"a response in doubt is the service's",
     EXCHANGE_FORWARD,
     {WRITE_DOUBT, NEXT_RESPONSE, NONE},
     ENGINE_STORED,
     STORE_DOUBT,
     EXCHANGE_RESPOND,
     NONE,
     RESULT_UNKNOWN},
    {"a doubt is probed by the attempt that has it",
     EXCHANGE_FORWARD,
     {WRITE_DOUBT, NEXT_PROBE, ERROR_UPSTREAM_BROKE},
     ENGINE_ASKS,
     STORE_ASK,
     EXCHANGE_PROBE,
     NONE,
     0},
    {"not where the record is another's",
     EXCHANGE_FORWARD,
     {WRITE_DOUBT, NEXT_PROBE, ERROR_UPSTREAM_BROKE},
     ENGINE_STORED,
     STORE_ASK,
     EXCHANGE_RESPOND,
     ERROR_UPSTREAM_BROKE,
     RESULT_UNKNOWN},
    {"a token that the service calls old is decided again",
     EXCHANGE_FORWARD,
     {WRITE_NOTHING, NEXT_DECIDE, NONE},
     ENGINE_STALE,
     STORE_DOUBT,
     EXCHANGE_DECIDE,
     NONE,
     0},
    {"and is a doubt where the record says that it is not",
     EXCHANGE_FORWARD,
     {WRITE_NOTHING, NEXT_DECIDE, NONE},
     ENGINE_STORED,
     STORE_DOUBT,
     EXCHANGE_RESPOND,
     ERROR_UPSTREAM_BROKE,
     RESULT_UNKNOWN},
    {"an outcome that came too late is not sent",
     EXCHANGE_FORWARD,
     {WRITE_COMPLETE, NEXT_RESPONSE, NONE},
     ENGINE_STALE,
     STORE_FINISH,
     EXCHANGE_DECIDE,
     NONE,
     0},
    {"a probe that finds it completes it",
     EXCHANGE_PROBE,
     {WRITE_COMPLETE, NEXT_RESPONSE, NONE},
     ENGINE_STORED,
     STORE_FINISH,
     EXCHANGE_RESPOND,
     NONE,
     RESULT_STORED},
    {"one that does not find it lets it be sent",
     EXCHANGE_PROBE,
     {WRITE_RELEASE, NEXT_DECIDE, NONE},
     ENGINE_STORED,
     STORE_RELEASE_SETTLED,
     EXCHANGE_DECIDE,
     NONE,
     0},
    {"an inconclusive one leaves the doubt",
     EXCHANGE_PROBE,
     {WRITE_DOUBT, NEXT_ERROR, ERROR_OUTCOME_UNKNOWN},
     ENGINE_STORED,
     STORE_DOUBT,
     EXCHANGE_RESPOND,
     ERROR_OUTCOME_UNKNOWN,
     RESULT_IN_DOUBT},
    {"an inquiry that does not find it turns to sending",
     EXCHANGE_INQUIRE,
     {WRITE_TURN, NEXT_FORWARD, NONE},
     ENGINE_STORED,
     STORE_TURN,
     EXCHANGE_FORWARD,
     NONE,
     0},
    {"one that finds it is decided as a duplicate",
     EXCHANGE_INQUIRE,
     {WRITE_COMPLETE, NEXT_DECIDE, NONE},
     ENGINE_STORED,
     STORE_FINISH,
     EXCHANGE_DECIDE,
     NONE,
     0},
    {"one that proves nothing sends nothing",
     EXCHANGE_INQUIRE,
     {WRITE_RELEASE, NEXT_ERROR, ERROR_UNPROVED},
     ENGINE_STORED,
     STORE_RELEASE,
     EXCHANGE_RESPOND,
     ERROR_UNPROVED,
     RESULT_RELEASED},
    {"one that is not believed yet frees the key",
     EXCHANGE_INQUIRE,
     {WRITE_TURN, NEXT_FORWARD, NONE},
     ENGINE_EARLY,
     STORE_TURN,
     EXCHANGE_RESPOND,
     ERROR_UNPROVED,
     RESULT_RELEASED},
};

/* The attempt that is settled under TOKEN. */
static void stage_settling(enum exchange_step before, struct disposition disposition)
{
    stage_exchange(before, EXCHANGE_SETTLE);
    play->x->attempt.token = TOKEN;
    play->x->disposition = disposition;
    play->x->started = clock_boot_us();
    play->x->client_deadline = CLOCK_NEVER;
}

static void check_row(const struct row *row)
{
    stage_settling(row->before, row->disposition);
    give_response(201, "Location: /payments/1\r\n", "done");
    play->engine.written[0] = row->written;
    enum exchange_step next = settle_disposition(play->x);
    const struct reply *reply = &play->x->reply;
    const struct engine_act *act = &play->engine.acts[0];
    bool responds = row->next == EXCHANGE_RESPOND;
    if (next != row->next || play->engine.n_acts != 1 || act->kind != row->act)
        fail_msg("%s: step %d, %d acts, the first %d", row->name, next, play->engine.n_acts,
                 act->kind);
    if (responds && (reply->error != row->error || reply->result != row->result))
        fail_msg("%s: error %d, result %d", row->name, reply->error, reply->result);
    assert_true(!responds || (reply->response != NULL) == (row->error == NONE));
    assert_true(play->n_responses == 0); /* only RESPOND writes */
}

static void a_disposition_is_one_act_and_its_client_gets_what_is_then_true(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i]);
}

/* ---- what is kept ---- */

static void a_whole_response_is_kept_and_one_that_passes_live_is_not(void **state)
{
    static const struct disposition complete = {WRITE_COMPLETE, NEXT_RESPONSE, NONE};
    static const struct disposition failed = {WRITE_FAIL, NEXT_RESPONSE, NONE};
    (void)state;
    stage_settling(EXCHANGE_FORWARD, failed);
    give_response(422, "", "no funds");
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->engine.acts[0].final, RECORD_FAILED);
    assert_int_equal(play->engine.acts[0].http_status, 422);
    assert_string_equal(play->engine.kept, "no funds");
    assert_int_equal(play->x->reply.result, RESULT_STORED);
    stage_settling(EXCHANGE_FORWARD, complete);
    give_response(200, "", NULL);
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->engine.acts[0].final, RECORD_COMPLETE);
    assert_null(play->engine.acts[0].outcome);
    assert_int_equal(play->x->reply.result, RESULT_NOT_KEPT);
}

static void an_event_is_told_of_once_its_success_is_stored(void **state)
{
    static const struct disposition complete = {WRITE_COMPLETE, NEXT_RESPONSE, NONE};
    static const struct disposition release = {WRITE_RELEASE, NEXT_RESPONSE, NONE};
    (void)state;
    play->rule.emit.type = SLICE("payment.made");
    stage_settling(EXCHANGE_FORWARD, complete);
    give_response(200, "", "{\"id\":1}");
    play->engine.written[0] = ENGINE_STALE;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_DECIDE);
    assert_int_equal(play->n_events, 0);
    play->engine.written[1] = ENGINE_STORED;
    play->x->disposition = release;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->n_events, 0);
    play->x->disposition = complete;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->n_events, 1);
}

#ifdef PAWL_HOOKS

static bool let_time_pass(struct parker *parker, int64_t deadline_us)
{
    assert_ptr_equal(parker, &play->parker);
    clock_test_set(WALL + deadline_us - BOOT, deadline_us);
    return false;
}

/* found: the event was published without the data that it has */
static void what_an_event_says_waits_for_memory(void **state)
{
    (void)state;
    play->rule.emit = (struct emit){SLICE("payment.made"), EMIT_RESPONSE};
    play->parker.park = let_time_pass;
    stage_settling(EXCHANGE_FORWARD, (struct disposition){WRITE_COMPLETE, NEXT_RESPONSE, NONE});
    give_response(200, "", "{\"id\":1}");
    play->engine.written[0] = ENGINE_STORED;
    mem_fail_nth(1);
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_true(mem_fail_fired());
    mem_fail_nth(0);
    assert_true(slice_eq(play->engine.acts[0].event_data, SLICE("{\"id\":1}")));
    assert_true(clock_boot_us() > BOOT && clock_boot_us() < BOOT + S(1));
}

#endif

/* ---- probes ---- */

static const struct disposition not_done = {WRITE_RELEASE, NEXT_DECIDE, NONE};
static const struct disposition inconclusive = {WRITE_DOUBT, NEXT_ERROR, ERROR_OUTCOME_UNKNOWN};

/* A first try whose end is in doubt, and PROBE is next. */
static void fail_first(enum error error, int status)
{
    stage_settling(EXCHANGE_FORWARD, (struct disposition){WRITE_DOUBT, NEXT_PROBE, error});
    give_response(status, "", "half");
    play->engine.n_acts = 0;
    play->engine.written[0] = ENGINE_ASKS;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_PROBE);
    play->x->before = EXCHANGE_PROBE;
    play->engine.written[1] = ENGINE_STORED;
}

static void what_a_probe_does_not_clear_up_is_answered_by_the_failure_before_it(void **state)
{
    (void)state;
    fail_first(ERROR_UPSTREAM_TIMEOUT, 0);
    play->x->disposition = inconclusive;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->x->reply.error, ERROR_UPSTREAM_TIMEOUT);
    assert_int_equal(play->x->reply.result, RESULT_UNKNOWN);
    fail_first(ERROR_NONE, 500);
    give_response(404, "", "what the probe got");
    play->x->disposition = inconclusive;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_ptr_equal(play->x->reply.response, &play->x->failed);
    assert_int_equal(play->x->failed.status, 500);
    assert_int_equal(play->x->reply.result, RESULT_UNKNOWN);
    assert_false(play->x->reply.not_done);
}

static void what_a_probe_finds_not_done_is_released_and_its_client_repeats(void **state)
{
    (void)state;
    fail_first(ERROR_UPSTREAM_BROKE, 0);
    play->x->attempt.begin.spent = true;
    play->x->disposition = not_done;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->engine.acts[1].kind, STORE_RELEASE_SETTLED);
    assert_int_equal(play->x->reply.error, ERROR_UPSTREAM_BROKE);
    assert_int_equal(play->x->reply.result, RESULT_RELEASED);
    assert_true(play->x->reply.not_done && !play->x->attempt.begin.spent);
}

static void a_probe_that_is_not_believed_yet_stores_the_doubt(void **state)
{
    (void)state;
    stage_settling(EXCHANGE_PROBE, not_done);
    play->engine.written[0] = ENGINE_EARLY;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->engine.n_acts, 2);
    assert_int_equal(play->engine.acts[0].kind, STORE_RELEASE_SETTLED);
    assert_int_equal(play->engine.acts[1].kind, STORE_DOUBT);
    assert_int_equal(play->x->reply.error, ERROR_OUTCOME_UNKNOWN);
    assert_true(play->x->not_found_yet);
}

static void a_doubt_is_not_probed_for_a_client_that_left(void **state)
{
    static const struct disposition probe = {WRITE_DOUBT, NEXT_PROBE, ERROR_UPSTREAM_BROKE};
    (void)state;
    stage_settling(EXCHANGE_FORWARD, probe);
    play->x->client_state = CLIENT_LEFT;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->engine.acts[0].kind, STORE_DOUBT);
}

/* ---- the record went on, or away ---- */

static void without_a_client_nothing_is_decided_again(void **state)
{
    static const struct disposition complete = {WRITE_COMPLETE, NEXT_RESPONSE, NONE};
    (void)state;
    stage_settling(EXCHANGE_FORWARD, complete);
    give_response(200, "", "done");
    play->x->client_state = CLIENT_SERVED;
    play->engine.written[0] = ENGINE_STALE;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
}

static void an_outcome_whose_record_the_store_lost_is_not_sent(void **state)
{
    static const struct {
        struct disposition disposition;
        enum exchange_step next;
    } cases[] = {
        {{WRITE_COMPLETE, NEXT_RESPONSE, NONE}, EXCHANGE_RESPOND},
        {{WRITE_DOUBT, NEXT_ERROR, ERROR_UPSTREAM_TIMEOUT}, EXCHANGE_RESPOND},
        {{WRITE_RELEASE, NEXT_RESPONSE, NONE}, EXCHANGE_DECIDE},
        {{WRITE_DROP, NEXT_RESPONSE, NONE}, EXCHANGE_DECIDE},
        {{WRITE_TURN, NEXT_FORWARD, NONE}, EXCHANGE_DECIDE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stage_settling(EXCHANGE_FORWARD, cases[i].disposition);
        give_response(200, "", "done");
        play->engine.written[0] = ENGINE_STALE;
        play->engine.settled.is_lost = true;
        assert_int_equal(settle_disposition(play->x), cases[i].next);
        if (cases[i].next == EXCHANGE_RESPOND)
            assert_int_equal(play->x->reply.error, ERROR_OUTCOME_NOT_STORED);
    }
}

static void a_store_that_stopped_lets_nothing_be_said(void **state)
{
    static const struct disposition complete = {WRITE_COMPLETE, NEXT_RESPONSE, NONE};
    (void)state;
    stage_settling(EXCHANGE_FORWARD, complete);
    give_response(200, "", "done");
    play->engine.written[0] = ENGINE_LOST;
    assert_int_equal(settle_disposition(play->x), EXCHANGE_RESPOND);
    assert_int_equal(play->x->client_state, CLIENT_LEFT);
    assert_false(play->x->keep_alive);
}

static void a_participant_that_completed_nothing_is_told_of(void **state)
{
    static const struct disposition complete = {WRITE_COMPLETE, NEXT_RESPONSE, NONE};
    (void)state;
    play->rule.unknown = RECORD_UNKNOWN_PARTICIPANT;
    stage_settling(EXCHANGE_FORWARD, complete);
    give_response(200, "", "done");
    play->engine.settled.alone = true;
    (void)settle_disposition(play->x);
    assert_string_equal(play->x->participant, "missing");
    play->engine.written[1] = ENGINE_STALE;
    play->engine.settled.alone = false;
    play->engine.settled.record =
        (struct record){.status = RECORD_COMPLETE, .token = TOKEN, .http_status = 202};
    assert_int_equal(settle_disposition(play->x), EXCHANGE_DECIDE);
    assert_string_equal(play->x->participant, "overruled");
}

/* ---- a write that takes longer than the client waits ---- */

static void a_client_whose_time_ends_before_the_write_learns_what_is_true(void **state)
{
    static const struct {
        struct disposition disposition;
        enum exchange_client client;
        const char *code;
    } cases[] = {
        {{WRITE_COMPLETE, NEXT_RESPONSE, NONE}, CLIENT_SERVED, "OUTCOME_NOT_STORED"},
        {{WRITE_FAIL, NEXT_RESPONSE, NONE}, CLIENT_SERVED, "OUTCOME_NOT_STORED"},
        {{WRITE_DOUBT, NEXT_ERROR, ERROR_UPSTREAM_TIMEOUT}, CLIENT_SERVED, "OUTCOME_NOT_STORED"},
        {{WRITE_RELEASE, NEXT_RESPONSE, NONE}, CLIENT_SERVED, "STORE_UNAVAILABLE"},
        {{WRITE_RELEASE, NEXT_ERROR, ERROR_UPSTREAM_UNAVAILABLE}, CLIENT_SERVED, "UNAVAILABLE"},
        {{WRITE_TURN, NEXT_FORWARD, NONE}, CLIENT_REFUSED, "STORE_UNAVAILABLE"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char code[64];
        stage_settling(EXCHANGE_FORWARD, cases[i].disposition);
        give_response(200, "", "done");
        play->engine.waits = 1;
        (void)settle_disposition(play->x);
        assert_int_equal(play->n_responses, 1);
        assert_int_equal(play->x->client_state, cases[i].client);
        snprintf(code, sizeof code, "\"code\":\"%s\"", cases[i].code);
        if (!strstr(play->sent, code))
            fail_msg("%zu: no %s in %s", i, code, play->sent);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEP_TEST(a_disposition_is_one_act_and_its_client_gets_what_is_then_true),
        STEP_TEST(a_whole_response_is_kept_and_one_that_passes_live_is_not),
        STEP_TEST(an_event_is_told_of_once_its_success_is_stored),
#ifdef PAWL_HOOKS
        STEP_TEST(what_an_event_says_waits_for_memory),
#endif
        STEP_TEST(what_a_probe_does_not_clear_up_is_answered_by_the_failure_before_it),
        STEP_TEST(what_a_probe_finds_not_done_is_released_and_its_client_repeats),
        STEP_TEST(a_probe_that_is_not_believed_yet_stores_the_doubt),
        STEP_TEST(a_doubt_is_not_probed_for_a_client_that_left),
        STEP_TEST(without_a_client_nothing_is_decided_again),
        STEP_TEST(an_outcome_whose_record_the_store_lost_is_not_sent),
        STEP_TEST(a_store_that_stopped_lets_nothing_be_said),
        STEP_TEST(a_participant_that_completed_nothing_is_told_of),
        STEP_TEST(a_client_whose_time_ends_before_the_write_learns_what_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
