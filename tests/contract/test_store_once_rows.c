/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and names of `once` (contract section 3) that come apart: names that lead to a new row, rows
 * of another rule name, of another template, and from before the rule had `once`. */
#include "once_bed.h"

/* ---- names that lead to a new row ---- */

/* A store whose index takes keys over after a few. */
static void merge_often(struct bed *bed)
{
    bed_close(bed);
    bed->config.key_run = 7;
    bed_open(bed);
}

/* So many other keys that all before them stand in the index. */
static void merge_all(struct bed *bed)
{
    static uint64_t key = 10000;
    for (int i = 0; i < 40; i++, key++)
        finish(bed, key, proceed(bed, key), "other");
}

/* Two rows of one name: the value of the first was taken over. */
static void a_name_without_a_key_leads_to_the_last_holder_after_a_merge(void **state)
{
    struct bed *bed = *state;
    merge_often(bed);
    struct store_op first = keyless(bed, 5, &rejects);
    run(bed, &first);
    struct store_op failed = write_on(KEYLESS + 5, STORE_FINISH, first.result.record.token);
    failed.writing.final = RECORD_FAILED;
    failed.writing.http_status = 422;
    run(bed, &failed);
    merge_all(bed);
    struct store_op next = keyless(bed, 5, &rejects);
    run(bed, &next);
    assert_int_equal(next.result.verdict, RECORD_PROCEED);
    finish(bed, KEYLESS + 5, next.result.record.token, "done");
    merge_all(bed);
    next = keyless(bed, 5, &rejects);
    run(bed, &next);
    assert_int_equal(next.result.verdict, RECORD_DUPLICATE);
    drop(&next);
}

/* ---- records from before the rule had `once` ---- */

/* A begin of the rule after it was renamed. */
static struct store_op renamed(struct bed *bed, uint64_t key, uint64_t value,
                               const struct sort *sort, const struct digest *former)
{
    struct store_op op = begin(bed, key, value, sort);
    struct store_once *once = (struct store_once *)(uintptr_t)op.arrival.once;
    const struct digest_key *secret = store_digest_key(bed->store);
    once->former[0] = once->hash;
    once->former_as_key[0] = once->as_key;
    once->n_former = 1;
    once->hash = store_once_hash(secret, TENANT, SLICE("new"), once->text);
    once->as_key = key_of(2000 + value);
    op.arrival.rule = SLICE("new");
    op.arrival.former = former;
    op.arrival.n_former = 1;
    return op;
}

/* `once` came together with a new name of the rule. */
static void a_record_of_the_old_rule_name_holds_its_value(void **state)
{
    struct bed *bed = *state;
    struct digest former[] = {key_of(1), key_of(2), key_of(3)};
    act(bed, 1, STORE_RELEASE, proceed(bed, 1));
    struct store_op op = renamed(bed, 11, 5, &rejects, &former[0]);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_true(digest_eq(&op.key_hash, &former[0]));
    assert_string_equal(op.result.found_key, "key");
    drop(&op);
    finish(bed, 1, op.result.record.token, "done");
    for (uint64_t key = 2; key <= 3; key++) {
        op = renamed(bed, 10 + key, 5, &rejects, &former[key - 1]);
        run(bed, &op);
        assert_int_equal(op.result.status, STORE_DONE);
        assert_int_equal(op.result.verdict, RECORD_DUPLICATE);
        drop(&op);
    }
    assert_int_equal(check_counts(bed), 1);
}

static void a_record_in_doubt_of_the_old_rule_name_goes_on_and_holds_its_value(void **state)
{
    struct bed *bed = *state;
    struct digest former[] = {key_of(1), key_of(2)};
    struct store_op old = begin_on(1005);
    old.begin.unknown = RECORD_UNKNOWN_RETRY;
    run(bed, &old);
    act(bed, 1005, STORE_DOUBT, old.result.record.token);
    struct store_op op = renamed(bed, 11, 5, &retries, &former[0]);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    drop(&op);
    finish(bed, 1005, op.result.record.token, "done");
    op = renamed(bed, 12, 5, &retries, &former[1]);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    drop(&op);
    assert_int_equal(check_counts(bed), 1);
}

static void a_record_whose_value_is_taken_is_decided_by_the_value(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_RELEASE, proceed(bed, 1));
    finish(bed, 2, take(bed, 2, 5, &rejects), "done");
    struct store_op op = begin(bed, 1, 5, &rejects);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_DUPLICATE);
    assert_true(op.result.by_once);
    drop(&op);
}

/* found: the holder was compared as if it had no recipe */
static void a_record_whose_value_is_complete_of_another_payload_is_a_mismatch(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_RELEASE, proceed(bed, 1));
    struct store_op op = begin(bed, 2, 5, &replays);
    op.begin.payload_hash.bytes[0] ^= 1;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    finish(bed, 2, op.result.record.token, "done");
    op = begin(bed, 1, 5, &replays);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_MISMATCH);
    assert_true(op.result.by_once);
    drop(&op);
}

/* ---- values of another template ---- */

/* A begin of the rule after its once template was changed. */
static struct store_op made_by(struct bed *bed, int64_t template_id, uint64_t key, uint64_t value)
{
    struct store_op op = begin(bed, key, value, &rejects);
    struct store_once *once = (struct store_once *)(uintptr_t)op.arrival.once;
    once->template_id = template_id;
    return op;
}

static struct store_op changed(struct bed *bed, uint64_t key, uint64_t value)
{
    return made_by(bed, 2, key, value);
}

static enum record_verdict ask_changed(struct bed *bed, uint64_t key, uint64_t value)
{
    struct store_op op = changed(bed, key, value);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    drop(&op);
    return op.result.verdict;
}

static void a_retry_is_not_compared_with_a_value_of_another_template(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take(bed, 1, 5, &rejects), "done");
    struct store_op op = changed(bed, 1, 6);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(op.result.found->body, SLICE("done")));
    drop(&op);
    op = changed(bed, 1, 6);
    op.begin.payload_hash.bytes[0] ^= 1;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_MISMATCH);
    assert_int_equal(ask(bed, 1, 6, &rejects), RECORD_MISMATCH);
}

static void what_proceeds_again_holds_the_value_of_the_new_template(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_RELEASE, take(bed, 1, 5, &rejects));
    if (bed->kind == BED_TOY) /* undone, and done again */
        atomic_store(&hostile_faults(bed->backend)->next_save, BACKEND_BUSY);
    struct store_op op = changed(bed, 1, 6);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_equal(ask_changed(bed, 2, 6), RECORD_IN_PROGRESS);
    assert_int_equal(ask_changed(bed, 1, 7), RECORD_MISMATCH);
    finish(bed, 1, op.result.record.token, "done");
    assert_int_equal(ask_changed(bed, 2, 6), RECORD_DUPLICATE);
    assert_int_equal(ask_changed(bed, 3, 5), RECORD_PROCEED); /* nobody holds that one */
    assert_int_equal(check_counts(bed), 2);
}

static void what_proceeds_again_takes_no_value_of_the_new_template_that_is_held(void **state)
{
    struct bed *bed = *state;
    act(bed, 1, STORE_RELEASE, take(bed, 1, 5, &rejects));
    struct store_op op = changed(bed, 2, 6);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_equal(ask_changed(bed, 1, 6), RECORD_IN_PROGRESS);
    finish(bed, 2, op.result.record.token, "done");
    assert_int_equal(ask_changed(bed, 1, 6), RECORD_DUPLICATE);
    act(bed, 2, STORE_FORGET, 0);
    assert_int_equal(ask_changed(bed, 1, 6), RECORD_PROCEED);
    assert_int_equal(check_counts(bed), 1);
}

#ifdef PAWL_HOOKS

/* The key's time is over, the value's is not. */
static void assert_replayed_by_value(struct bed *bed, const struct sort *sort, const char *body)
{
    advance(bed, TTL + 10 * SECOND);
    struct store_op op = begin(bed, 3, 5, sort);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(op.result.found->body, slice_of(body)));
    drop(&op);
}

static int64_t in_doubt(struct bed *bed, uint64_t key, enum record_unknown unknown)
{
    struct store_op op = begin_on(key);
    op.begin.unknown = unknown;
    run(bed, &op);
    act(bed, key, STORE_DOUBT, op.result.record.token);
    return op.result.record.token;
}

static void what_goes_on_for_another_key_holds_the_value(void **state)
{
    struct bed *bed = *state;
    hold_clock(bed);
    in_doubt(bed, 1005, RECORD_UNKNOWN_RETRY);
    struct store_op op = begin(bed, 2, 5, &retries);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_non_null(op.result.found_key);
    drop(&op);
    finish(bed, 1005, op.result.record.token, "done");
    assert_replayed_by_value(bed, &retries, "done");
}

static void what_is_asked_for_another_key_holds_the_value(void **state)
{
    struct bed *bed = *state;
    hold_clock(bed);
    in_doubt(bed, 1005, RECORD_UNKNOWN_PROBE);
    struct store_op op = begin(bed, 2, 5, &probes);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROBE);
    drop(&op);
    finish(bed, 1005, op.result.record.token, "found");
    assert_replayed_by_value(bed, &probes, "found");
}

static void what_proceeds_under_its_own_key_replays_by_its_value(void **state)
{
    struct bed *bed = *state;
    hold_clock(bed);
    act(bed, 1, STORE_RELEASE, proceed(bed, 1));
    finish(bed, 1, take(bed, 1, 5, &replays), "done");
    assert_replayed_by_value(bed, &replays, "done");
}

/* The sweep of its old row leaves a key that was used again. */
static void a_key_that_was_used_again_outlives_its_old_row(void **state)
{
    struct bed *bed = *state;
    hold_clock(bed);
    in_doubt(bed, 1005, RECORD_UNKNOWN_RETRY);
    struct store_op op = begin(bed, 2, 5, &retries);
    run(bed, &op);
    drop(&op);
    finish(bed, 1005, op.result.record.token, "done");
    advance(bed, TTL + SECOND);
    finish(bed, 1005, take(bed, 1005, 6, &retries), "new");
    advance(bed, ONCE_TTL - TTL);
    for (int i = 0; i < 20; i++)
        advance(bed, SECOND);
    op = begin(bed, 1005, 6, &retries);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(op.result.found->body, SLICE("new")));
    drop(&op);
}

/* One name leads to a new row after each window, and the rows before it live for their keys; and a
 * key is used again while the value of its old row lives. */
static void names_that_were_used_again_are_merged(void **state)
{
    struct bed *bed = *state;
    bed->config.key_run = 7;
    hold_clock(bed);
    for (int i = 0; i < 2; i++) {
        struct store_op op = keyless(bed, 5, &rejects);
        op.begin.once_ttl_us = TTL / 4;
        run(bed, &op);
        assert_int_equal(op.result.verdict, RECORD_PROCEED);
        finish(bed, KEYLESS + 5, op.result.record.token, "done");
        merge_all(bed);
        advance(bed, TTL / 4 + SECOND);
    }
    finish(bed, 1, take(bed, 1, 6, &rejects), "done");
    merge_all(bed);
    advance(bed, TTL + SECOND);
    finish(bed, 1, take(bed, 1, 7, &rejects), "done");
    merge_all(bed);
    assert_int_equal(ask(bed, 1, 7, &rejects), RECORD_REPLAY);
    assert_int_equal(ask(bed, 2, 6, &rejects), RECORD_DUPLICATE);
}

#endif

static void step_by_hand(struct bed *bed)
{
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
}

/* Both in one batch: the name that the store has not seen yet goes with its record. */
static void a_key_that_is_bound_beside_the_end_of_its_record_leads_nowhere(void **state)
{
    struct bed *bed = *state;
    step_by_hand(bed);
    finish(bed, 1, take(bed, 1, 5, &replays), "done");
    struct store_op bound = begin(bed, 2, 5, &replays);
    struct store_op forget = write_on(1, STORE_FORGET, 0);
    submit(bed, &bound);
    submit(bed, &forget);
    await(bed, &bound);
    await(bed, &forget);
    assert_int_equal(bound.result.verdict, RECORD_REPLAY);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    outcome_unref(bound.result.found);
    struct store_op next = begin(bed, 2, 5, &replays);
    run(bed, &next);
    assert_int_equal(next.result.verdict, RECORD_PROCEED);
    assert_int_equal(check_counts(bed), 1);
}

/* What the first came to is not in the store yet, and is told from what the batch knows. */
static void a_duplicate_in_the_batch_of_the_outcome_learns_where_the_result_is(void **state)
{
    struct bed *bed = *state;
    step_by_hand(bed);
    struct store_op first = begin(bed, 1, 5, &rejects);
    run(bed, &first);
    struct outcome *outcome =
        outcome_new(201, false, SLICE("Location: /refunds/5\r\n"), SLICE("{}"));
    assert_non_null(outcome);
    struct store_op done = write_on(1, STORE_FINISH, first.result.record.token);
    done.writing.outcome = outcome;
    done.writing.keeps = true;
    struct store_op duplicate = begin(bed, 2, 5, &rejects);
    submit(bed, &done);
    submit(bed, &duplicate);
    await(bed, &done);
    await(bed, &duplicate);
    assert_int_equal(duplicate.result.verdict, RECORD_DUPLICATE);
    assert_non_null(duplicate.result.found);
    assert_true(slice_eq(duplicate.result.found->location, SLICE("/refunds/5")));
    outcome_unref(duplicate.result.found);
    outcome_unref(outcome);
}

static enum record_verdict ask_made_by(struct bed *bed, int64_t template_id, uint64_t key,
                                       uint64_t value)
{
    struct store_op op = made_by(bed, template_id, key, value);
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    drop(&op);
    return op.result.verdict;
}

static int64_t take_made_by(struct bed *bed, int64_t template_id, uint64_t key, uint64_t value)
{
    struct store_op op = made_by(bed, template_id, key, value);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    drop(&op);
    return op.result.record.token;
}

/* found: R22 */
static void a_value_holds_only_under_the_template_that_made_it(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take_made_by(bed, 1, 1, 5), "order");
    assert_int_equal(ask_made_by(bed, 1, 2, 5), RECORD_DUPLICATE);
    int64_t token = take_made_by(bed, 2, 3, 5);
    assert_int_equal(ask_made_by(bed, 2, 4, 5), RECORD_IN_PROGRESS);
    finish(bed, 3, token, "invoice");
    assert_int_equal(ask_made_by(bed, 2, 4, 5), RECORD_DUPLICATE);
    assert_int_equal(ask_made_by(bed, 2, 1, 6), RECORD_REPLAY); /* the order's own key */
    assert_int_equal(check_counts(bed), 2);
}

/* found: R22 */
static void no_value_of_another_template_is_waited_for_or_in_doubt(void **state)
{
    struct bed *bed = *state;
    int64_t running = take_made_by(bed, 1, 1, 5);
    act(bed, 2, STORE_DOUBT, take_made_by(bed, 1, 2, 6));
    assert_int_equal(ask_made_by(bed, 1, 3, 6), RECORD_OUTCOME_UNKNOWN);
    finish(bed, 4, take_made_by(bed, 2, 4, 5), "invoice 5");
    finish(bed, 5, take_made_by(bed, 2, 5, 6), "invoice 6");
    finish(bed, 1, running, "order 5");
    assert_int_equal(ask_made_by(bed, 2, 6, 5), RECORD_DUPLICATE);
    assert_int_equal(ask_made_by(bed, 1, 1, 5), RECORD_REPLAY);
    assert_int_equal(ask_made_by(bed, 1, 2, 6), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(check_counts(bed), 4);
}

/* What an application brought was made by no template. */
static void a_value_without_a_template_is_one_of_each(void **state)
{
    struct bed *bed = *state;
    finish(bed, 1, take(bed, 1, 5, &rejects), "by the application");
    assert_int_equal(ask_made_by(bed, 1, 2, 5), RECORD_DUPLICATE);
    assert_int_equal(ask_made_by(bed, 2, 3, 5), RECORD_DUPLICATE);
    finish(bed, 4, take_made_by(bed, 1, 4, 6), "by a rule");
    assert_int_equal(ask(bed, 5, 6, &rejects), RECORD_DUPLICATE);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_name_without_a_key_leads_to_the_last_holder_after_a_merge),
        BED_TEST(a_record_of_the_old_rule_name_holds_its_value),
        BED_TEST(a_record_in_doubt_of_the_old_rule_name_goes_on_and_holds_its_value),
        BED_TEST(a_record_whose_value_is_taken_is_decided_by_the_value),
        BED_TEST(a_record_whose_value_is_complete_of_another_payload_is_a_mismatch),
        BED_TEST(a_key_that_is_bound_beside_the_end_of_its_record_leads_nowhere),
        BED_TEST(a_duplicate_in_the_batch_of_the_outcome_learns_where_the_result_is),
        BED_TEST(a_retry_is_not_compared_with_a_value_of_another_template),
        BED_TEST(what_proceeds_again_holds_the_value_of_the_new_template),
        BED_TEST(what_proceeds_again_takes_no_value_of_the_new_template_that_is_held),
        BED_TEST(a_value_holds_only_under_the_template_that_made_it),
        BED_TEST(no_value_of_another_template_is_waited_for_or_in_doubt),
        BED_TEST(a_value_without_a_template_is_one_of_each),
#ifdef PAWL_HOOKS
        BED_TEST(what_goes_on_for_another_key_holds_the_value),
        BED_TEST(what_is_asked_for_another_key_holds_the_value),
        BED_TEST(what_proceeds_under_its_own_key_replays_by_its_value),
        BED_TEST(a_key_that_was_used_again_outlives_its_old_row),
        BED_TEST(names_that_were_used_again_are_merged),
#endif
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
