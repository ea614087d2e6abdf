/* SPDX-License-Identifier: Apache-2.0 */
/* A record with a second name: the table of `once` (contract section 3), on every backend. */
#include "once_bed.h"

/* ---- the client's key first ---- */

/* found: B-F3 */
static void the_retry_of_a_lost_response_gets_it_under_its_own_key(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take(bed, 1, 5, &rejects), "done");
    struct store_op op = begin(bed, 1, 5, &rejects);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(op.result.found->body, SLICE("done")));
    drop(&op);
}

/* found: B-F4 */
static void a_key_with_another_payload_or_value_is_a_mismatch(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take(bed, 1, 5, &replays), "done");
    assert_int_equal(ask_other(bed, 1, 5, &replays), RECORD_MISMATCH);
    assert_int_equal(ask(bed, 1, 6, &replays), RECORD_MISMATCH);
}

static void values_are_apart(void **state)
{
    struct bed *bed = *state;
    take(bed, 1, 5, &rejects);
    take(bed, 2, 6, &rejects);
    assert_int_equal(check_counts(bed), 2);
}

/* ---- the holder, complete ---- */

static void another_key_of_what_is_complete_is_a_duplicate(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take(bed, 1, 5, &rejects), "done");
    struct store_op op = begin(bed, 2, 5, &rejects);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_DUPLICATE);
    assert_true(op.result.by_once);
    assert_int_equal(op.result.record.http_status, 201);
    drop(&op);
    assert_int_equal(look(bed, 2).status, RECORD_ABSENT);
    assert_int_equal(ask_other(bed, 3, 5, &rejects), RECORD_DUPLICATE);
    assert_int_equal(check_counts(bed), 1);
}

static void another_key_gets_the_first_response_and_is_bound_to_it(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take(bed, 1, 5, &replays), "done");
    assert_int_equal(ask_other(bed, 3, 5, &replays), RECORD_MISMATCH);
    assert_int_equal(look(bed, 3).status, RECORD_ABSENT);
    for (int i = 0; i < 2; i++) {
        struct store_op op = begin(bed, 2, 5, &replays);
        run(bed, &op);
        assert_int_equal(op.result.verdict, RECORD_REPLAY);
        assert_true(slice_eq(op.result.found->body, SLICE("done")));
        assert_int_equal(op.result.by_once, i == 0);
        drop(&op);
    }
    assert_int_equal(look(bed, 2).status, RECORD_COMPLETE);
    assert_int_equal(ask_other(bed, 2, 5, &replays), RECORD_MISMATCH);
    assert_int_equal(ask(bed, 2, 6, &replays), RECORD_MISMATCH);
    assert_int_equal(check_counts(bed), 1);
}

static void a_bound_key_is_compared_by_its_own_hashes(void **state)
{
    struct bed *bed = *state;
    struct sort any = {.acknowledge = true, .any_payload = true};
    finish(bed, 1, take(bed, 1, 5, &any), "done");
    assert_int_equal(ask_other(bed, 2, 5, &any), RECORD_REPLAY);
    assert_int_equal(ask(bed, 2, 5, &any), RECORD_MISMATCH);
    struct store_op op = begin(bed, 2, 5, &any);
    op.begin.payload_hash.bytes[0] ^= 1;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_true(op.result.acknowledges);
    drop(&op);
    assert_int_equal(ask(bed, 1, 5, &any), RECORD_REPLAY);
}

static void what_was_not_kept_is_said_and_bound(void **state)
{
    struct bed *bed = *state;
    struct store_op op = write_on(1, STORE_FINISH, take(bed, 1, 5, &replays));
    run(bed, &op);
    assert_int_equal(ask(bed, 2, 5, &replays), RECORD_RESULT_NOT_KEPT);
    assert_int_equal(look(bed, 2).status, RECORD_COMPLETE);
}

/* ---- the holder, running or in doubt ---- */

static void another_key_waits_for_the_holder_whatever_its_payload(void **state)
{
    struct bed *bed = *state;
    int64_t token = take(bed, 1, 5, &replays);
    assert_int_equal(ask_other(bed, 2, 5, &replays), RECORD_IN_PROGRESS);
    struct store_op waiter = begin(bed, 2, 5, &replays);
    waiter.arrival.wait_until = CLOCK_NEVER;
    submit(bed, &waiter);
    await_waiting(bed, 1);
    finish(bed, 1, token, "late");
    await(bed, &waiter);
    assert_int_equal(waiter.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(waiter.result.found->body, SLICE("late")));
    drop(&waiter);
}

/* Whatever their key, and the value goes from one to the next. */
static void waiters_proceed_in_the_order_of_their_arrival(void **state)
{
    struct bed *bed = *state;
    int64_t token = take(bed, 1, 5, &rejects);
    static const uint64_t keys[] = {2, 1, 3};
    struct store_op waiters[3];
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = begin(bed, keys[i], 5, &rejects);
        waiters[i].arrival.wait_until = CLOCK_NEVER;
        submit(bed, &waiters[i]);
        await_waiting(bed, i + 1);
    }
    act(bed, 1, STORE_RELEASE, token);
    await(bed, &waiters[0]);
    assert_int_equal(waiters[0].result.verdict, RECORD_PROCEED);
    assert_int_equal(store_counts(bed->store).waiting, 2);
    assert_int_equal(look(bed, 1).status, RECORD_ABSENT);
    assert_int_equal(finish(bed, 1, token, "stale"), RECORD_STALE);
    act(bed, 2, STORE_RELEASE, waiters[0].result.record.token);
    await(bed, &waiters[1]);
    assert_int_equal(waiters[1].result.verdict, RECORD_PROCEED);
    finish(bed, 1, waiters[1].result.record.token, "done");
    await(bed, &waiters[2]);
    assert_int_equal(waiters[2].result.verdict, RECORD_DUPLICATE);
    drop(&waiters[2]);
    assert_int_equal(check_counts(bed), 1);
}

static void a_released_holder_ends_under_all_its_keys(void **state)
{
    struct bed *bed = *state;
    int64_t old = take(bed, 1, 5, &rejects);
    act(bed, 1, STORE_RELEASE, old);
    take(bed, 2, 5, &rejects);
    assert_int_equal(look(bed, 1).status, RECORD_ABSENT);
    assert_int_equal(finish(bed, 1, old, "late"), RECORD_STALE);
    assert_int_equal(ask(bed, 1, 5, &rejects), RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(bed), 1);
}

static void a_failed_holder_stays_for_its_keys(void **state)
{
    struct bed *bed = *state;
    struct store_op op = write_on(1, STORE_FINISH, take(bed, 1, 5, &replays));
    op.writing.final = RECORD_FAILED;
    op.writing.http_status = 422;
    run(bed, &op);
    finish(bed, 2, take(bed, 2, 5, &replays), "done");
    assert_int_equal(look(bed, 1).status, RECORD_FAILED);
    assert_int_equal(ask(bed, 1, 5, &replays), RECORD_RESULT_NOT_KEPT);
    assert_int_equal(ask(bed, 3, 5, &replays), RECORD_REPLAY);
    assert_int_equal(check_counts(bed), 2);
}

static void what_is_in_doubt_under_retry_goes_on_under_the_holders_key(void **state)
{
    struct bed *bed = *state;
    int64_t old = take(bed, 1, 5, &retries);
    act(bed, 1, STORE_DOUBT, old);
    assert_int_equal(ask_other(bed, 2, 5, &retries), RECORD_OUTCOME_UNKNOWN);
    struct store_op op = begin(bed, 2, 5, &retries);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_string_equal(op.result.found_key, "key-1");
    struct digest holder = key_of(1);
    assert_true(digest_eq(&op.key_hash, &holder));
    drop(&op);
    assert_int_equal(finish(bed, 1, old, "stale"), RECORD_STALE);
    /* A not-done answer says nothing of the first try. */
    act(bed, 1, STORE_RELEASE, op.result.record.token);
    assert_int_equal(ask_other(bed, 3, 5, &retries), RECORD_OUTCOME_UNKNOWN);
    struct store_op again = begin(bed, 2, 5, &retries);
    run(bed, &again);
    assert_int_equal(again.result.verdict, RECORD_PROCEED);
    assert_string_equal(again.result.found_key, "key-1");
    drop(&again);
    finish(bed, 1, again.result.record.token, "done");
    assert_int_equal(ask(bed, 1, 5, &retries), RECORD_REPLAY);
    assert_int_equal(ask(bed, 2, 5, &retries), RECORD_REPLAY);
    assert_int_equal(check_counts(bed), 1);
}

static void an_unknown_holder_stays_unknown_for_every_key(void **state)
{
    struct bed *bed = *state;
    int64_t token = take(bed, 1, 5, &rejects);
    act(bed, 1, STORE_DOUBT, token);
    assert_int_equal(ask(bed, 2, 5, &rejects), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(ask_other(bed, 3, 5, &rejects), RECORD_OUTCOME_UNKNOWN);
    act(bed, 1, STORE_RELEASE_SETTLED, token);
    assert_int_equal(ask(bed, 2, 5, &rejects), RECORD_PROCEED);
}

static void only_the_same_request_probes_for_the_holder(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_DOUBT, take(bed, 1, 5, &probes));
    assert_int_equal(ask_other(bed, 2, 5, &probes), RECORD_OUTCOME_UNKNOWN);
    struct store_op op = begin(bed, 2, 5, &probes);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROBE);
    assert_string_equal(op.result.found_key, "key-1");
    drop(&op);
    finish(bed, 1, op.result.record.token, "found");
    assert_int_equal(ask(bed, 2, 5, &probes), RECORD_REPLAY);
}

static void a_hundred_keys_of_one_value_have_one_effect(void **state)
{
    struct bed *bed = *state;
    enum { N = 100 };
    static struct store_op ops[N];
    static struct store_once once[N];
    for (size_t i = 0; i < N; i++) {
        ops[i] = begin(bed, 100 + i, 5, &replays);
        once[i] = *ops[i].arrival.once;
        ops[i].arrival.once = &once[i];
        ops[i].arrival.wait_until = CLOCK_NEVER;
        submit(bed, &ops[i]);
    }
    await(bed, &ops[0]);
    assert_int_equal(ops[0].result.verdict, RECORD_PROCEED);
    finish(bed, 100, ops[0].result.record.token, "done");
    for (size_t i = 1; i < N; i++) {
        await(bed, &ops[i]);
        assert_int_equal(ops[i].result.verdict, RECORD_REPLAY);
        drop(&ops[i]);
    }
    assert_int_equal(check_counts(bed), 1);
}

/* ---- without a key, other names, the end ---- */

static void without_a_key_every_later_request_is_a_duplicate(void **state)
{
    struct bed *bed = *state;
    struct store_op op = keyless(bed, 5, &rejects);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    struct store_op next = keyless(bed, 5, &rejects);
    run(bed, &next);
    assert_int_equal(next.result.verdict, RECORD_IN_PROGRESS);
    finish(bed, KEYLESS + 5, op.result.record.token, "done");
    next = keyless(bed, 5, &rejects);
    run(bed, &next);
    assert_int_equal(next.result.verdict, RECORD_DUPLICATE);
    drop(&next);
    assert_int_equal(ask(bed, 1, 5, &rejects), RECORD_DUPLICATE);
    next = keyless(bed, 5, &replays);
    run(bed, &next);
    assert_int_equal(next.result.verdict, RECORD_REPLAY);
    drop(&next);
    assert_int_equal(check_counts(bed), 1);
}

static void a_record_from_before_once_is_found_by_its_key_text(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1005, proceed(bed, 1005), "old");
    assert_int_equal(ask(bed, 1, 5, &rejects), RECORD_DUPLICATE);
    /* A client's key of that text is no business key. */
    finish(bed, 1006, take(bed, 1006, 4, &rejects), "squatted");
    assert_int_equal(ask(bed, 2, 6, &rejects), RECORD_PROCEED);
}

static void a_released_record_from_before_once_takes_its_value(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_RELEASE, proceed(bed, 1));
    act(bed, 2, STORE_RELEASE, proceed(bed, 2));
    finish(bed, 1, take(bed, 1, 5, &rejects), "done");
    assert_int_equal(ask(bed, 2, 5, &rejects), RECORD_DUPLICATE);
    assert_int_equal(ask(bed, 3, 5, &rejects), RECORD_DUPLICATE);
}

static void a_holder_under_a_former_name_of_the_rule_is_found(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take(bed, 1, 5, &rejects), "done");
    struct store_op op = begin(bed, 2, 5, &rejects);
    struct store_once renamed = *op.arrival.once;
    renamed.hash = store_once_hash(store_digest_key(bed->store), TENANT, SLICE("new"), text_of(5));
    renamed.former[0] = op.arrival.once->hash;
    renamed.former_as_key[0] = key_of(1005);
    renamed.n_former = 1;
    op.arrival.once = &renamed;
    op.arrival.rule = SLICE("new");
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_DUPLICATE);
    drop(&op);
}

static void forget_ends_a_record_under_all_its_names(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take(bed, 1, 5, &replays), "done");
    assert_int_equal(ask(bed, 2, 5, &replays), RECORD_REPLAY);
    act(bed, 1, STORE_FORGET, 0);
    assert_int_equal(look(bed, 1).status, RECORD_ABSENT);
    assert_int_equal(look(bed, 2).status, RECORD_ABSENT);
    assert_int_equal(check_counts(bed), 0);
    take(bed, 2, 5, &replays);
    assert_int_equal(check_counts(bed), 1);
}

static void a_batch_that_was_rolled_back_binds_the_key_when_it_is_done_again(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_TOY)
        return;
    finish(bed, 1, take(bed, 1, 5, &replays), "done");
    struct hostile_faults *faults = hostile_faults(bed->backend);
    atomic_store(&faults->next_save, BACKEND_BUSY);
    assert_int_equal(ask(bed, 2, 5, &replays), RECORD_REPLAY);
    assert_int_equal(look(bed, 2).status, RECORD_COMPLETE);
    assert_int_equal(check_counts(bed), 1);
}

#ifdef PAWL_HOOKS

/* Until the sweep has taken all that it should. */
static void await_rows(struct bed *bed, size_t n)
{
    for (int i = 0; i < 1000 && check_counts(bed) != n; i++)
        advance(bed, SECOND);
    assert_int_equal(check_counts(bed), n);
}

/* The key's time is over first: its value blocks on, and replays. */
static void a_value_outlives_its_keys(void **state)
{
    struct bed *bed = *state;
    hold_clock(bed);
    finish(bed, 1, take(bed, 1, 5, &replays), "done");
    finish(bed, 2, take(bed, 2, 6, &rejects), "done");
    advance(bed, TTL + 10 * SECOND);
    assert_int_equal(ask(bed, 1, 6, &rejects), RECORD_DUPLICATE);
    assert_int_equal(ask_other(bed, 3, 5, &replays), RECORD_MISMATCH);
    take(bed, 1, 4, &replays); /* the key is free for something else */
    struct store_op op = begin(bed, 3, 5, &replays);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(op.result.found->body, SLICE("done")));
    drop(&op);
    assert_int_equal(ask(bed, 1, 4, &replays), RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(bed), 3);
    advance(bed, ONCE_TTL);
    take(bed, 4, 5, &replays);
    await_rows(bed, 2);
    assert_int_equal(look(bed, 3).status, RECORD_ABSENT);
}

static void keys_outlive_the_value_and_a_bound_key_lengthens_their_time(void **state)
{
    struct bed *bed = *state;
    hold_clock(bed);
    struct store_op op = begin(bed, 1, 5, &replays);
    op.begin.once_ttl_us = TTL / 2;
    run(bed, &op);
    finish(bed, 1, op.result.record.token, "first");
    advance(bed, TTL / 4);
    assert_int_equal(ask(bed, 2, 5, &replays), RECORD_REPLAY);
    advance(bed, TTL / 4 + SECOND);
    /* The value is free, and its old record answers its keys. */
    finish(bed, 3, take(bed, 3, 5, &replays), "second");
    advance(bed, TTL / 2 + TTL / 8);
    op = begin(bed, 2, 5, &replays);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(op.result.found->body, SLICE("first")));
    drop(&op);
    advance(bed, TTL / 8);
    assert_int_equal(ask(bed, 2, 5, &replays), RECORD_REPLAY);
    op = begin(bed, 2, 5, &replays);
    run(bed, &op);
    assert_true(slice_eq(op.result.found->body, SLICE("second")));
    drop(&op);
}

static void neither_time_runs_while_a_record_is_in_doubt(void **state)
{
    struct bed *bed = *state;
    hold_clock(bed);
    act(bed, 1, STORE_DOUBT, take(bed, 1, 5, &retries));
    advance(bed, 10 * ONCE_TTL);
    struct store_op op = begin(bed, 2, 5, &retries);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_string_equal(op.result.found_key, "key-1");
    drop(&op);
    assert_int_equal(check_counts(bed), 1);
}

static void what_was_swept_of_a_response_does_not_come_back(void **state)
{
    struct bed *bed = *state;
    struct sort acks = {.acknowledge = true};
    hold_clock(bed);
    finish(bed, 1, take(bed, 1, 5, &acks), "done");
    advance(bed, TTL + SECOND);
    assert_int_equal(ask(bed, 2, 5, &acks), RECORD_RESULT_EXPIRED);
    struct store_op op = begin(bed, 2, 5, &acks);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_RESULT_NOT_KEPT);
    assert_true(op.result.acknowledges);
    drop(&op);
}

static void a_value_that_is_known_for_ever_keeps_no_response_for_so_long(void **state)
{
    struct bed *bed = *state;
    if (bed->kind != BED_SQLITE)
        return;
    struct sort acks = {.acknowledge = true};
    hold_clock(bed);
    struct store_op op = begin(bed, 1, 5, &acks);
    op.begin.once_ttl_us = CLOCK_NEVER;
    run(bed, &op);
    finish(bed, 1, op.result.record.token, "done");
    advance(bed, TTL + SECOND);
    assert_int_equal(ask(bed, 2, 5, &acks), RECORD_RESULT_EXPIRED);
    assert_int_equal(bed_number(bed, "SELECT body IS NULL FROM pawl_outcome"), 1);
}

#endif

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(the_retry_of_a_lost_response_gets_it_under_its_own_key),
        BED_TEST(a_key_with_another_payload_or_value_is_a_mismatch),
        BED_TEST(values_are_apart),
        BED_TEST(another_key_of_what_is_complete_is_a_duplicate),
        BED_TEST(another_key_gets_the_first_response_and_is_bound_to_it),
        BED_TEST(a_bound_key_is_compared_by_its_own_hashes),
        BED_TEST(what_was_not_kept_is_said_and_bound),
        BED_TEST(another_key_waits_for_the_holder_whatever_its_payload),
        BED_TEST(waiters_proceed_in_the_order_of_their_arrival),
        BED_TEST(a_released_holder_ends_under_all_its_keys),
        BED_TEST(a_failed_holder_stays_for_its_keys),
        BED_TEST(what_is_in_doubt_under_retry_goes_on_under_the_holders_key),
        BED_TEST(an_unknown_holder_stays_unknown_for_every_key),
        BED_TEST(only_the_same_request_probes_for_the_holder),
        BED_TEST(a_hundred_keys_of_one_value_have_one_effect),
        BED_TEST(without_a_key_every_later_request_is_a_duplicate),
        BED_TEST(a_record_from_before_once_is_found_by_its_key_text),
        BED_TEST(a_released_record_from_before_once_takes_its_value),
        BED_TEST(a_holder_under_a_former_name_of_the_rule_is_found),
        BED_TEST(forget_ends_a_record_under_all_its_names),
        BED_TEST(a_batch_that_was_rolled_back_binds_the_key_when_it_is_done_again),
#ifdef PAWL_HOOKS
        BED_TEST(a_value_outlives_its_keys),
        BED_TEST(keys_outlive_the_value_and_a_bound_key_lengthens_their_time),
        BED_TEST(neither_time_runs_while_a_record_is_in_doubt),
        BED_TEST(what_was_swept_of_a_response_does_not_come_back),
        BED_TEST(a_value_that_is_known_for_ever_keeps_no_response_for_so_long),
#endif
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
