/* SPDX-License-Identifier: Apache-2.0 */
/* A participant, which completes a record inside its own transaction: another process of the store.
 * What it stores is provisional; the gateway fills it in, as long as nobody was told. */
#include "once_bed.h"

/* The processes of one store. */
struct pair {
    struct bed gateway;
    struct bed other; /* the participant, and whoever comes after the gateway's death */
};

static int set_up(void **state)
{
    struct pair *pair = mem_zalloc(1, sizeof *pair);
    assert_non_null(pair);
    bed_init(&pair->gateway, *(const enum bed_kind *)*state);
    pair->gateway.config.no_thread = true;
    bed_open(&pair->gateway);
    open_other(&pair->gateway, &pair->other);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    close_other(&pair->other);
    bed_fini(&pair->gateway);
    mem_free(pair);
    return 0;
}

/* Proceeds under `participant`; in the eyes of others its lease lives, or has lapsed. */
static int64_t acquire(struct pair *pair, uint64_t key, bool lives)
{
    struct store_op op = begin_on(key);
    op.begin.unknown = RECORD_UNKNOWN_PARTICIPANT;
    op.begin.lease_us = lives ? LEASE : 1;
    run(&pair->gateway, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    return op.result.record.token;
}

/* What an outcome came to; `*ret_body`, where it was stored before, says what is kept. */
static enum record_write store_as(struct bed *bed, struct store_op *op, const char *body,
                                  struct buf *ret_body)
{
    struct outcome *outcome =
        outcome_new(op->writing.http_status, op->writing.final == RECORD_FAILED, SLICE("A: b\r\n"),
                    slice_of(body));
    assert_non_null(outcome);
    op->writing.outcome = outcome;
    op->writing.keeps = true;
    run(bed, op);
    assert_int_equal(op->result.status, STORE_DONE);
    buf_clear(ret_body);
    if (op->result.found)
        buf_add_slice(ret_body, op->result.found->body);
    outcome_unref(op->result.found);
    outcome_unref(outcome);
    return op->result.write;
}

static enum record_write complete(struct pair *pair, uint64_t key, int64_t token)
{
    struct buf found BUF_AUTO = buf_make(64);
    struct store_op op = write_on(key, STORE_COMPLETE, token);
    return store_as(&pair->other, &op, "participant's", &found);
}

/* Two answers to everybody: whoever asks, and asks again, in whichever process. */
static void assert_told(struct pair *pair, uint64_t key, const char *body)
{
    for (int i = 0; i < 4; i++) {
        struct store_op op = begin_on(key);
        run(i % 2 ? &pair->gateway : &pair->other, &op);
        assert_int_equal(op.result.verdict, RECORD_REPLAY);
        assert_int_equal(op.result.record.http_status, 201);
        assert_true(slice_eq(op.result.found->body, slice_of(body)));
        outcome_unref(op.result.found);
    }
    assert_int_equal(check_counts(&pair->gateway), 1);
}

static void a_duplicate_waits_until_the_gateway_has_filled_it_in(void **state)
{
    struct pair *pair = *state;
    int64_t token = acquire(pair, 1, true);
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    assert_int_equal(complete(pair, 1, token), RECORD_ALREADY);
    assert_int_equal(verdict(&pair->other, 1), RECORD_IN_PROGRESS);
    assert_int_equal(verdict(&pair->gateway, 1), RECORD_IN_PROGRESS);
    struct record seen = look(&pair->gateway, 1);
    assert_true(seen.provisional && seen.expires_at == CLOCK_NEVER);
    assert_int_equal(check_counts(&pair->other), 1);
    if (pair->other.kind == BED_SQLITE)
        assert_int_equal(bed_number(&pair->other, "SELECT count(*) FROM idempotency_keys"), 1);
    assert_int_equal(finish(&pair->gateway, 1, token, "the gateway's"), RECORD_WRITTEN);
    assert_false(look(&pair->other, 1).provisional);
    assert_told(pair, 1, "the gateway's");
}

/* How a gateway learns that the participant has not completed what it did. */
static void an_outcome_without_a_participant_is_stored_alone(void **state)
{
    struct pair *pair = *state;
    struct buf found BUF_AUTO = buf_make(64);
    for (uint64_t key = 1; key <= 2; key++) {
        int64_t token = acquire(pair, key, true);
        if (key == 2)
            assert_int_equal(complete(pair, key, token), RECORD_WRITTEN);
        for (int i = 0; i < 2; i++) {
            struct store_op op = write_on(key, STORE_FINISH, token);
            enum record_write write = store_as(&pair->gateway, &op, "the gateway's", &found);
            assert_int_equal(write, i == 0 ? RECORD_WRITTEN : RECORD_ALREADY);
            assert_int_equal(op.result.alone, key == 1 && i == 0);
        }
    }
}

static void a_waiter_gets_what_was_filled_in(void **state)
{
    struct pair *pair = *state;
    int64_t token = acquire(pair, 1, true);
    struct store_op waiter = wait_on(1);
    submit(&pair->gateway, &waiter);
    while (!store_op_waits(&waiter))
        assert_true(store_step(pair->gateway.store));
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    assert_int_equal(finish(&pair->gateway, 1, token, "the gateway's"), RECORD_WRITTEN);
    await(&pair->gateway, &waiter);
    assert_int_equal(waiter.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(waiter.result.found->body, SLICE("the gateway's")));
    outcome_unref(waiter.result.found);
}

static void after_a_replay_a_fill_in_is_discarded(void **state)
{
    struct pair *pair = *state;
    struct buf found BUF_AUTO = buf_make(64);
    int64_t token = acquire(pair, 1, false);
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    assert_int_equal(verdict(&pair->other, 1), RECORD_REPLAY);
    assert_false(look(&pair->other, 1).provisional);
    struct store_op late = write_on(1, STORE_FINISH, token);
    assert_int_equal(store_as(&pair->gateway, &late, "the gateway's", &found), RECORD_ALREADY);
    assert_true(slice_eq(buf_slice(&found), SLICE("participant's")));
    assert_told(pair, 1, "participant's");
}

static void a_response_of_another_status_is_discarded(void **state)
{
    struct pair *pair = *state;
    struct buf found BUF_AUTO = buf_make(64);
    int64_t token = acquire(pair, 1, true);
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    struct store_op other = write_on(1, STORE_FINISH, token);
    other.writing.http_status = 202;
    assert_int_equal(store_as(&pair->gateway, &other, "the gateway's", &found), RECORD_ALREADY);
    assert_true(slice_eq(buf_slice(&found), SLICE("participant's")));
    assert_told(pair, 1, "participant's");
}

static void what_the_gateway_gives_up_is_frozen(void **state)
{
    struct pair *pair = *state;
    const enum store_op_kind kinds[] = {STORE_RELEASE, STORE_DOUBT, STORE_DROP};
    for (uint64_t key = 0; key < 3; key++) {
        int64_t token = acquire(pair, key, true);
        assert_int_equal(complete(pair, key, token), RECORD_WRITTEN);
        assert_int_equal(act(&pair->gateway, key, kinds[key], token), RECORD_ALREADY);
        assert_false(look(&pair->other, key).provisional);
        assert_int_equal(verdict(&pair->other, key), RECORD_REPLAY);
    }
    assert_int_equal(check_counts(&pair->gateway), 3);
}

static void what_comes_after_the_gateway_gave_up_is_replayed(void **state)
{
    struct pair *pair = *state;
    int64_t token = acquire(pair, 1, true);
    assert_int_equal(act(&pair->gateway, 1, STORE_DOUBT, token), RECORD_WRITTEN);
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    assert_told(pair, 1, "participant's");
}

static void a_participant_whose_token_was_replaced_rolls_back(void **state)
{
    struct pair *pair = *state;
    int64_t token = acquire(pair, 1, false);
    struct store_op next = begin_on(1);
    next.begin.unknown = RECORD_UNKNOWN_PARTICIPANT;
    run(&pair->other, &next);
    assert_int_equal(next.result.verdict, RECORD_PROCEED);
    assert_int_equal(complete(pair, 1, token), RECORD_STALE);
    assert_int_equal(complete(pair, 1, next.result.record.token), RECORD_WRITTEN);
    assert_int_equal(finish(&pair->gateway, 1, token, "late"), RECORD_STALE);
    assert_int_equal(finish(&pair->other, 1, next.result.record.token, "the other's"),
                     RECORD_WRITTEN);
    assert_told(pair, 1, "the other's");
}

static void a_response_that_is_not_kept_leaves_nothing_to_replay(void **state)
{
    struct pair *pair = *state;
    int64_t token = acquire(pair, 1, true);
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    assert_int_equal(act(&pair->gateway, 1, STORE_FINISH, token), RECORD_WRITTEN);
    assert_int_equal(verdict(&pair->other, 1), RECORD_RESULT_NOT_KEPT);
    assert_int_equal(check_counts(&pair->gateway), 1);
}

static void a_provisional_record_is_forgotten_whole(void **state)
{
    struct pair *pair = *state;
    int64_t token = acquire(pair, 1, true);
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    assert_int_equal(act(&pair->other, 1, STORE_FORGET, token), RECORD_LIVE);
    struct store_op forget = write_on(1, STORE_FORGET, token);
    forget.writing.force = true;
    run(&pair->gateway, &forget);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    assert_int_equal(check_counts(&pair->gateway), 0);
    assert_int_equal(finish(&pair->gateway, 1, token, "late"), RECORD_STALE);
    assert_true(proceed(&pair->gateway, 1) > token);
}

static void an_operator_changes_nothing_of_what_a_participant_stored(void **state)
{
    struct pair *pair = *state;
    int64_t token = acquire(pair, 1, false);
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    assert_int_equal(act(&pair->other, 1, STORE_RESOLVE, token), RECORD_ALREADY);
    assert_int_equal(act(&pair->other, 1, STORE_RELEASE_SETTLED, token), RECORD_ALREADY);
    assert_int_equal(act(&pair->gateway, 1, STORE_EXTEND, token), RECORD_WRITTEN);
    assert_true(look(&pair->other, 1).provisional);
    assert_told(pair, 1, "participant's");
}

static void what_one_batch_fills_in_and_replays_is_the_same(void **state)
{
    struct pair *pair = *state;
    int64_t token = acquire(pair, 1, true);
    assert_int_equal(complete(pair, 1, token), RECORD_WRITTEN);
    struct outcome *filled = outcome_new(201, false, SLICE(""), SLICE("the gateway's"));
    struct store_op ops[] = {
        {.kind = STORE_LOOK, .key_hash = key_of(1)}, write_on(1, STORE_FINISH, token), begin_on(1)};
    ops[1].writing.outcome = filled;
    ops[1].writing.keeps = true;
    for (size_t i = 0; i < 3; i++)
        submit(&pair->gateway, &ops[i]);
    for (size_t i = 0; i < 3; i++)
        await(&pair->gateway, &ops[i]);
    assert_int_equal(ops[1].result.write, RECORD_WRITTEN);
    assert_int_equal(ops[2].result.verdict, RECORD_REPLAY);
    assert_true(outcome_eq(ops[2].result.found, filled));
    outcome_unref(ops[0].result.found);
    outcome_unref(ops[2].result.found);
    outcome_unref(filled);
    assert_told(pair, 1, "the gateway's");
}

/* ---- its once value ---- */

static void a_value_replays_what_was_provisional_once_it_was_given_up(void **state)
{
    struct pair *pair = *state;
    const struct sort sort = {.unknown = RECORD_UNKNOWN_PARTICIPANT, .replay = true};
    struct store_op op = begin(&pair->gateway, 1, 5, &sort);
    op.begin.lease_us = 1;
    run(&pair->gateway, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_equal(complete(pair, 1, op.result.record.token), RECORD_WRITTEN);
    assert_int_equal(ask(&pair->gateway, 2, 5, &sort), RECORD_IN_PROGRESS);
    assert_int_equal(ask(&pair->other, 2, 5, &rejects), RECORD_DUPLICATE);
    assert_true(look(&pair->other, 1).provisional);
    assert_int_equal(ask(&pair->other, 2, 5, &sort), RECORD_REPLAY);
    assert_false(look(&pair->other, 1).provisional);
    assert_int_equal(finish(&pair->gateway, 1, op.result.record.token, "late"), RECORD_ALREADY);
    assert_int_equal(ask(&pair->gateway, 2, 5, &sort), RECORD_REPLAY);
    assert_int_equal(check_counts(&pair->gateway), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_duplicate_waits_until_the_gateway_has_filled_it_in),
        T(an_outcome_without_a_participant_is_stored_alone),
        T(a_waiter_gets_what_was_filled_in),
        T(after_a_replay_a_fill_in_is_discarded),
        T(a_response_of_another_status_is_discarded),
        T(what_the_gateway_gives_up_is_frozen),
        T(what_comes_after_the_gateway_gave_up_is_replayed),
        T(a_participant_whose_token_was_replaced_rolls_back),
        T(a_response_that_is_not_kept_leaves_nothing_to_replay),
        T(a_provisional_record_is_forgotten_whole),
        T(an_operator_changes_nothing_of_what_a_participant_stored),
        T(what_one_batch_fills_in_and_replays_is_the_same),
        T(a_value_replays_what_was_provisional_once_it_was_given_up),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
