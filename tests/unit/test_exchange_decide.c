/* SPDX-License-Identifier: Apache-2.0 */
/* DECIDE: the step that each verdict of the engine means, or what the client gets. */
#include "exchange_play.h"

#define NONE ERROR_NONE

/* A verdict, and what is said with it. */
struct row {
    const char *name;
    enum engine_verdict verdict;
    enum exchange_step next;
    enum error error;   /* with RESPOND; NONE: what was found */
    enum result result; /* with RESPOND */
    int found;          /* the status of the outcome that it finds; 0: none */
    enum record_status status;
    enum rule_duplicate duplicate;
    bool by_once;
};

static const struct row rows[] = {
    {"it is acquired", ENGINE_PROCEED, EXCHANGE_FORWARD, NONE, 0},
    {"it is in doubt", ENGINE_PROBE, EXCHANGE_PROBE, NONE, 0},
    {"it may have been done", ENGINE_INQUIRE, EXCHANGE_INQUIRE, NONE, 0},
    {"done", ENGINE_REPLAY, EXCHANGE_RESPOND, NONE, RESULT_REPLAYED, 201, RECORD_COMPLETE},
    {"done, reject", ENGINE_REPLAY, EXCHANGE_RESPOND, ERROR_DUPLICATE, RESULT_REJECTED, 201,
     RECORD_COMPLETE, RULE_DUPLICATE_REJECT},
    {"done, acknowledge", ENGINE_REPLAY, EXCHANGE_RESPOND, NONE, RESULT_ACKED, 201, RECORD_COMPLETE,
     RULE_DUPLICATE_ACK},
    {"a failure is replayed, reject", ENGINE_REPLAY, EXCHANGE_RESPOND, NONE, RESULT_REPLAYED, 422,
     RECORD_FAILED, RULE_DUPLICATE_REJECT},
    {"a failure is replayed, acknowledge", ENGINE_REPLAY, EXCHANGE_RESPOND, NONE, RESULT_REPLAYED,
     422, RECORD_FAILED, RULE_DUPLICATE_ACK},
    {"what no status is was damaged", ENGINE_REPLAY, EXCHANGE_RESPOND, ERROR_RESULT_NOT_KEPT,
     RESULT_EXPIRED, 7, RECORD_COMPLETE},
    {"another body", ENGINE_MISMATCH, EXCHANGE_RESPOND, ERROR_PAYLOAD_MISMATCH, RESULT_MISMATCH, 0,
     RECORD_COMPLETE},
    {"it runs", ENGINE_IN_PROGRESS, EXCHANGE_RESPOND, ERROR_IN_PROGRESS, RESULT_IN_PROGRESS, 0,
     RECORD_PENDING},
    {"it is held", ENGINE_OUTCOME_UNKNOWN, EXCHANGE_RESPOND, ERROR_OUTCOME_UNKNOWN, RESULT_IN_DOUBT,
     0, RECORD_UNKNOWN},
    {"its response has gone", ENGINE_RESULT_EXPIRED, EXCHANGE_RESPOND, ERROR_RESULT_EXPIRED,
     RESULT_EXPIRED, 0, RECORD_COMPLETE},
    {"it has gone, acknowledge by the once value", ENGINE_RESULT_EXPIRED, EXCHANGE_RESPOND, NONE,
     RESULT_ACKED, 0, RECORD_COMPLETE, RULE_DUPLICATE_ACK, true},
    {"it was not kept", ENGINE_RESULT_NOT_KEPT, EXCHANGE_RESPOND, ERROR_RESULT_NOT_KEPT,
     RESULT_EXPIRED, 0, RECORD_COMPLETE},
    {"it was not kept, acknowledge", ENGINE_RESULT_NOT_KEPT, EXCHANGE_RESPOND, NONE, RESULT_ACKED,
     0, RECORD_COMPLETE, RULE_DUPLICATE_ACK},
    {"another key did it", ENGINE_DUPLICATE, EXCHANGE_RESPOND, NONE, RESULT_REPLAYED, 201,
     RECORD_COMPLETE, RULE_DUPLICATE_REPLAY, true},
    {"another key did it, and nothing is kept", ENGINE_DUPLICATE, EXCHANGE_RESPOND, ERROR_DUPLICATE,
     RESULT_REJECTED, 0, RECORD_COMPLETE, RULE_DUPLICATE_REPLAY, true},
    {"its key is too old", ENGINE_KEY_EXPIRED, EXCHANGE_RESPOND, ERROR_KEY_EXPIRED, RESULT_INVALID},
    {"its key is of a time to come", ENGINE_KEY_AHEAD, EXCHANGE_RESPOND, ERROR_KEY_AHEAD,
     RESULT_INVALID},
    {"its record may be missing", ENGINE_UNPROVED, EXCHANGE_RESPOND, ERROR_OUTCOME_UNKNOWN,
     RESULT_IN_DOUBT},
    {"too many wait", ENGINE_LIMITED, EXCHANGE_RESPOND, ERROR_LIMITED, RESULT_LIMITED},
    {"no memory now", ENGINE_NO_ROOM, EXCHANGE_RESPOND, ERROR_LIMITED, RESULT_LIMITED},
    {"nor ever", ENGINE_TOO_LARGE, EXCHANGE_RESPOND, ERROR_BODY_TOO_LARGE, RESULT_INVALID},
    {"the store is down", ENGINE_STORE_DOWN, EXCHANGE_RESPOND, ERROR_STORE_UNAVAILABLE,
     RESULT_STORE_DOWN},
    {"its time is over", ENGINE_GONE, EXCHANGE_RESPOND, ERROR_STORE_UNAVAILABLE, RESULT_STORE_DOWN},
    {"it is named otherwise now", ENGINE_MOVED, EXCHANGE_DECIDE, NONE, 0},
    {"it was hashed otherwise", ENGINE_OTHER_RECIPE, EXCHANGE_DECIDE, NONE, 0},
};

#define N_ROWS (sizeof rows / sizeof *rows)

/* A request that was admitted. */
static struct exchange *stage_decision(void)
{
    struct exchange *x = stage_exchange(EXCHANGE_JUDGE, EXCHANGE_DECIDE);
    atomic_fetch_add(&play->shared.in_flight, 1);
    x->flight.taken = true;
    return x;
}

static struct exchange *stage_row(const struct row *row)
{
    play->rule.duplicate = row->by_once ? RULE_DUPLICATE_REPLAY : row->duplicate;
    play->rule.once.duplicate = row->duplicate;
    struct exchange *x = stage_decision();
    struct engine_script *script = &play->engine;
    script->verdict = row->verdict;
    script->begun.record.status = row->status;
    script->begun.by_once = row->by_once;
    script->begun.found = row->found ? make_found(row->found, row->status == RECORD_FAILED) : NULL;
    if (row->verdict == ENGINE_OTHER_RECIPE)
        script->begun.found_recipe = mem_copy("2 raw", 5);
    return x;
}

static void check_row(const struct row *row)
{
    struct exchange *x = stage_row(row);
    enum exchange_step next = decide_attempt(x);
    if (next != row->next || play->engine.n_begun != 1)
        fail_msg("%s: step %d after %d begins", row->name, next, play->engine.n_begun);
    if (next == EXCHANGE_RESPOND &&
        (x->reply.error != row->error || x->reply.result != row->result))
        fail_msg("%s: error %d, result %d", row->name, x->reply.error, x->reply.result);
    bool owns = next == EXCHANGE_FORWARD || next == EXCHANGE_PROBE || next == EXCHANGE_INQUIRE;
    if (owns != (x->attempt.token != 0) || (next == EXCHANGE_RESPOND && x->flight.taken) ||
        (owns && !x->flight.taken))
        fail_msg("%s: token %d, in flight %d", row->name, (int)x->attempt.token, x->flight.taken);
    assert_true(play->n_responses == 0); /* only RESPOND writes */
}

static void a_verdict_is_a_step_or_what_the_client_gets(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++)
        check_row(&rows[i]);
}

static void the_table_has_every_verdict(void **state)
{
    static const enum engine_verdict verdicts[] = {
#define X(name, class) ENGINE_##name,
        ENGINE_DECIDED(X) ENGINE_UNDECIDED(X)
#undef X
    };
    (void)state;
    for (size_t v = 0; v < sizeof verdicts / sizeof *verdicts; v++) {
        size_t i = 0;
        while (i < N_ROWS && rows[i].verdict != verdicts[v])
            i++;
        if (i == N_ROWS)
            fail_msg("no row for verdict %d", verdicts[v]);
    }
}

/* ---- while the store cannot decide ---- */

static const struct row down = {"down", ENGINE_STORE_DOWN, EXCHANGE_RESPOND, NONE, 0};
static const struct row gone = {"gone", ENGINE_GONE, EXCHANGE_RESPOND, NONE, 0};

static void a_rule_may_let_requests_pass_a_store_that_is_down(void **state)
{
    (void)state;
    play->rule.store_down_pass = true;
    assert_int_equal(decide_attempt(stage_row(&down)), EXCHANGE_UNPROTECTED);
    assert_true(play->x->flight.taken && play->x->attempt.token == 0);
    assert_int_equal(decide_attempt(stage_row(&gone)), EXCHANGE_UNPROTECTED);
}

static void what_may_have_happened_does_not_pass(void **state)
{
    (void)state;
    play->rule.store_down_pass = true;
    struct exchange *x = stage_row(&down);
    x->met = true;
    assert_int_equal(decide_attempt(x), EXCHANGE_RESPOND);
    assert_int_equal(x->reply.error, ERROR_STORE_UNAVAILABLE);
    x = stage_row(&down);
    play->engine.begun.status = STORE_NO_MEMORY;
    assert_int_equal(decide_attempt(x), EXCHANGE_RESPOND);
    assert_int_equal(x->reply.error, ERROR_STORE_UNAVAILABLE);
}

static void nothing_passes_a_store_that_is_closed_or_behind_a_client_that_left(void **state)
{
    static const enum store_status closed[] = {STORE_FROZEN, STORE_WENT_BACK};
    (void)state;
    play->rule.store_down_pass = true;
    for (size_t i = 0; i < 2; i++) {
        struct exchange *x = stage_row(&down);
        play->engine.begun.status = closed[i];
        assert_int_equal(decide_attempt(x), EXCHANGE_RESPOND);
        assert_int_equal(x->reply.error, ERROR_STORE_UNAVAILABLE);
        assert_true(x->detail.len > 0);
    }
    struct exchange *x = stage_row(&gone);
    play->engine.interrupts = true;
    assert_int_equal(decide_attempt(x), EXCHANGE_RESPOND);
    assert_int_equal(x->client_state, CLIENT_LEFT);
    assert_false(x->keep_alive);
}

static void a_gateway_that_drains_says_so_to_those_that_would_wait(void **state)
{
    static const struct row runs = {"runs", ENGINE_IN_PROGRESS, EXCHANGE_RESPOND, NONE, 0};
    (void)state;
    play->rule.in_progress_wait_us = S(5);
    struct exchange *x = stage_row(&runs);
    x->attempt.wait_us = S(5);
    play->drains = true;
    assert_int_equal(decide_attempt(x), EXCHANGE_RESPOND);
    assert_int_equal(x->reply.error, ERROR_UPSTREAM_UNAVAILABLE);
    assert_int_equal(x->reply.result, RESULT_LIMITED);
    assert_int_equal(x->attempt.wait_us, 0);
}

/* ---- its record ---- */

static void what_goes_on_in_anothers_record_is_sent_under_that_ones_key(void **state)
{
    static const struct row acquired = {"acquired", ENGINE_PROCEED, EXCHANGE_FORWARD, NONE, 0};
    (void)state;
    struct exchange *x = stage_row(&acquired);
    play->engine.begun.found_key = mem_copy("another", 7);
    assert_int_equal(decide_attempt(x), EXCHANGE_FORWARD);
    assert_true(slice_eq(holder_key(x), SLICE("another")) && x->met);
    assert_true(slice_eq(operation_key(x), SLICE("k1")));
    assert_null(x->attempt.result.found_key);
}

static void a_record_that_changes_owners_for_ever_is_in_progress(void **state)
{
    static const struct row moved = {"moved", ENGINE_MOVED, EXCHANGE_DECIDE, NONE, 0};
    int begins = 0;
    (void)state;
    struct exchange *x = stage_row(&moved);
    while (decide_attempt(x) == EXCHANGE_DECIDE)
        begins++;
    assert_in_range(begins, 2, 100);
    assert_int_equal(x->reply.error, ERROR_IN_PROGRESS);
}

static void names_that_cannot_be_compared_begin_nothing(void **state)
{
    static const struct row moved = {"moved", ENGINE_MOVED, EXCHANGE_DECIDE, NONE, 0};
    (void)state;
    struct exchange *x = stage_row(&moved);
    play->engine.learned = STORE_DOWN;
    assert_int_equal(decide_attempt(x), EXCHANGE_RESPOND);
    assert_int_equal(x->reply.error, ERROR_STORE_UNAVAILABLE);
    assert_false(x->flight.taken);
}

/* ---- what was found ---- */

static void what_is_found_is_held_against_the_limit_until_it_is_given_back(void **state)
{
    static const struct row done = {"done",          ENGINE_REPLAY, EXCHANGE_RESPOND, NONE,
                                    RESULT_REPLAYED, 201,           RECORD_COMPLETE};
    (void)state;
    struct exchange *x = stage_row(&done);
    assert_int_equal(decide_attempt(x), EXCHANGE_RESPOND);
    assert_true(x->attempt.result.holds && atomic_load(&play->shared.buffered) > 0);
    attempt_fini(&x->attempt);
    assert_true(atomic_load(&play->shared.buffered) == 0);
}

static void a_mismatch_names_no_member_to_a_caller_that_is_not_known(void **state)
{
    static const struct row other = {"other", ENGINE_MISMATCH, EXCHANGE_RESPOND,
                                     ERROR_PAYLOAD_MISMATCH, RESULT_MISMATCH};
    (void)state;
    struct exchange *x = stage_row(&other);
    memset(&play->engine.begun.record.payload_hash, 1, DIGEST_SIZE);
    memset(&x->attempt.begin.payload_hash, 2, DIGEST_SIZE);
    assert_int_equal(decide_attempt(x), EXCHANGE_RESPOND);
    assert_true(slice_eq(buf_slice(&x->detail), SLICE("the key was first used with another body")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEP_TEST(a_verdict_is_a_step_or_what_the_client_gets),
        STEP_TEST(the_table_has_every_verdict),
        STEP_TEST(a_rule_may_let_requests_pass_a_store_that_is_down),
        STEP_TEST(what_may_have_happened_does_not_pass),
        STEP_TEST(nothing_passes_a_store_that_is_closed_or_behind_a_client_that_left),
        STEP_TEST(a_gateway_that_drains_says_so_to_those_that_would_wait),
        STEP_TEST(what_goes_on_in_anothers_record_is_sent_under_that_ones_key),
        STEP_TEST(a_record_that_changes_owners_for_ever_is_in_progress),
        STEP_TEST(names_that_cannot_be_compared_begin_nothing),
        STEP_TEST(what_is_found_is_held_against_the_limit_until_it_is_given_back),
        STEP_TEST(a_mismatch_names_no_member_to_a_caller_that_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
