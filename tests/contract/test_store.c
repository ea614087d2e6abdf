/* SPDX-License-Identifier: Apache-2.0 */
/* What every store does, on every backend, through store.h and the committer's thread. */
#include "store_bed.h"

#include "base/mem.h"
#include <stdio.h>

/* ---- one attempt after another ---- */

static void a_stored_outcome_is_replayed_byte_for_byte(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct slice fields = SLICE("Location: /r/1\r\nX: y\r\n"), body = SLICE("a\0b\xff");
    struct outcome *outcome = outcome_new(201, false, fields, body);
    struct store_op op = write_on(1, STORE_FINISH, token);
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    run(bed, &op);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    struct store_op again = begin_on(1);
    run(bed, &again);
    assert_int_equal(again.result.verdict, RECORD_REPLAY);
    assert_true(outcome_eq(again.result.found, outcome));
    assert_true(slice_eq(again.result.found->location, SLICE("/r/1")));
    assert_int_equal(again.result.record.token, token);
    outcome_unref(again.result.found);
    outcome_unref(outcome);
}

static void an_outcome_without_its_response_is_found_as_such(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(act(bed, 1, STORE_FINISH, proceed(bed, 1)), RECORD_WRITTEN);
    assert_int_equal(verdict(bed, 1), RECORD_RESULT_NOT_KEPT);
    assert_int_equal(look(bed, 1).http_status, 201);
}

static void a_failed_outcome_is_replayed_as_failed(void **state)
{
    struct bed *bed = *state;
    struct outcome *outcome = outcome_new(422, true, SLICE(""), SLICE("no"));
    struct store_op op = write_on(1, STORE_FINISH, proceed(bed, 1));
    op.writing.final = RECORD_FAILED;
    op.writing.http_status = 422;
    op.writing.outcome = outcome;
    op.writing.keeps = true;
    run(bed, &op);
    outcome_unref(outcome);
    struct store_op again = begin_on(1);
    run(bed, &again);
    assert_int_equal(again.result.verdict, RECORD_REPLAY);
    assert_true(again.result.found->failed && again.result.found->status == 422);
    outcome_unref(again.result.found);
    assert_int_equal(store_counts(bed->store).failed, 1);
}

static void another_payload_or_target_is_a_mismatch_in_every_state(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    for (int i = 0; i < 3; i++) {
        struct store_op other = begin_on(1);
        (i == 1 ? &other.begin.target_hash : &other.begin.payload_hash)->bytes[0] ^= 1;
        run(bed, &other);
        assert_int_equal(other.result.verdict, RECORD_MISMATCH);
        if (i == 1)
            assert_int_equal(finish(bed, 1, token, "x"), RECORD_WRITTEN);
    }
}

static void another_recipe_is_reported_with_the_record_s_own(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    struct store_op other = begin_on(1);
    other.arrival.recipe = SLICE("another");
    run(bed, &other);
    assert_int_equal(other.result.verdict, RECORD_OTHER_RECIPE);
    assert_string_equal(other.result.found_recipe, "recipe");
    mem_free(other.result.found_recipe);
}

static void a_running_operation_is_in_progress_with_the_lease_left(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    struct store_op op = begin_on(1);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(op.result.lease, RECORD_LEASE_LIVE);
    assert_true(op.result.lease_left_us > 0 && op.result.lease_left_us <= LEASE);
}

static void the_same_attempt_gets_the_same_token(void **state)
{
    struct bed *bed = *state;
    struct store_op op = begin_on(1);
    run(bed, &op);
    struct store_op again = begin_on(1);
    again.begin = op.begin;
    run(bed, &again);
    assert_int_equal(again.result.verdict, RECORD_PROCEED);
    assert_int_equal(again.result.record.token, op.result.record.token);
    assert_int_equal(again.result.record.attempts, 1);
}

static void a_released_operation_proceeds_under_a_higher_token(void **state)
{
    struct bed *bed = *state;
    int64_t first = proceed(bed, 1);
    assert_int_equal(act(bed, 1, STORE_RELEASE, first), RECORD_WRITTEN);
    int64_t second = proceed(bed, 1);
    assert_true(second > first);
    assert_int_equal(look(bed, 1).attempts, 2);
}

/* What a job does whose command was corrected. */
static struct store_op replace_on(uint64_t key)
{
    struct store_op op = begin_on(key);
    op.begin.payload_hash.bytes[0] ^= 1;
    op.begin.replaces = true;
    op.arrival.origin = SLICE("another");
    return op;
}

static void what_was_released_is_replaced_by_another_operation_and_what_is_in_doubt_is_not(
    void **state)
{
    struct bed *bed = *state;
    int64_t first = proceed(bed, 1);
    assert_int_equal(act(bed, 1, STORE_RELEASE, first), RECORD_WRITTEN);
    struct store_op other = replace_on(1);
    run(bed, &other);
    assert_int_equal(other.result.verdict, RECORD_PROCEED);
    assert_true(other.result.record.token > first);
    assert_int_equal(look(bed, 1).attempts, 1);
    assert_int_equal(act(bed, 1, STORE_FINISH, first), RECORD_STALE);
    assert_int_equal(verdict(bed, 1), RECORD_MISMATCH);
    struct store_op again = replace_on(1);
    run(bed, &again);
    assert_int_equal(again.result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(finish(bed, 1, other.result.record.token, "x"), RECORD_WRITTEN);
    assert_int_equal(verdict(bed, 1), RECORD_MISMATCH);

    assert_int_equal(act(bed, 2, STORE_DOUBT, proceed(bed, 2)), RECORD_WRITTEN);
    other = replace_on(2);
    run(bed, &other);
    assert_int_equal(other.result.verdict, RECORD_MISMATCH);
}

static void doubt_makes_it_unknown_until_somebody_resolves_it(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    assert_int_equal(act(bed, 1, STORE_DOUBT, token), RECORD_WRITTEN);
    assert_int_equal(verdict(bed, 1), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(store_counts(bed->store).unknown, 1);
    assert_int_equal(act(bed, 1, STORE_RESOLVE, token + 1), RECORD_STALE);
    assert_int_equal(act(bed, 1, STORE_RESOLVE, token), RECORD_WRITTEN);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    assert_int_equal(store_counts(bed->store).unknown, 0);
}

static void a_probe_is_an_acquisition_that_releases_only_once_quiet(void **state)
{
    struct bed *bed = *state;
    struct store_op first = begin_on(1);
    first.begin.unknown = RECORD_UNKNOWN_PROBE;
    first.begin.settle_us = LEASE;
    run(bed, &first);
    assert_int_equal(act(bed, 1, STORE_DOUBT, first.result.record.token), RECORD_WRITTEN);
    struct store_op probe = begin_on(1);
    probe.begin.unknown = RECORD_UNKNOWN_PROBE;
    run(bed, &probe);
    assert_int_equal(probe.result.verdict, RECORD_PROBE);
    assert_true(probe.result.record.token > first.result.record.token);
    int64_t quiet_at = probe.result.record.quiet_at;
    assert_true(quiet_at > probe.result.store_now);
    assert_int_equal(act(bed, 1, STORE_RELEASE_SETTLED, probe.result.record.token), RECORD_EARLY);
    assert_int_equal(act(bed, 1, STORE_DOUBT, probe.result.record.token), RECORD_WRITTEN);
    struct record record = look(bed, 1);
    assert_int_equal(record.status, RECORD_UNKNOWN);
    assert_int_equal(record.quiet_at, quiet_at);
}

static void a_late_response_counts_while_nobody_acquired_since(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    act(bed, 1, STORE_DOUBT, token);
    assert_int_equal(finish(bed, 1, token, "late"), RECORD_WRITTEN);
    token = proceed(bed, 2);
    act(bed, 2, STORE_RELEASE, token);
    assert_int_equal(finish(bed, 2, token, "late"), RECORD_WRITTEN);
    token = proceed(bed, 3);
    act(bed, 3, STORE_RELEASE, token);
    proceed(bed, 3);
    assert_int_equal(finish(bed, 3, token, "too late"), RECORD_STALE);
    assert_int_equal(look(bed, 3).status, RECORD_PENDING);
}

static void a_stale_token_changes_nothing_by_any_write(void **state)
{
    struct bed *bed = *state;
    int64_t old = proceed(bed, 1);
    act(bed, 1, STORE_RELEASE, old);
    proceed(bed, 1);
    struct record before = look(bed, 1);
    for (int kind = STORE_FINISH; kind <= STORE_FORGET; kind++) {
        struct store_op op = write_on(1, (enum store_op_kind)kind, old);
        op.writing.force = true;
        run(bed, &op);
        assert_int_equal(op.result.write, RECORD_STALE);
    }
    struct record after = look(bed, 1);
    assert_int_equal(after.status, before.status);
    assert_int_equal(after.token, before.token);
    assert_int_equal(after.lease_until, before.lease_until);
    assert_int_equal(check_counts(bed), 1);
}

static void a_write_repeated_reports_what_is_stored(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    finish(bed, 1, token, "first");
    assert_int_equal(finish(bed, 1, token, "second"), RECORD_ALREADY);
    struct store_op again = begin_on(1);
    run(bed, &again);
    assert_true(slice_eq(again.result.found->body, SLICE("first")));
    outcome_unref(again.result.found);
    assert_int_equal(act(bed, 1, STORE_RELEASE, token), RECORD_ALREADY);
}

static void a_record_is_named_by_its_first_token(void **state)
{
    struct bed *bed = *state;
    struct store_op first = begin_on(1), second = begin_on(1);
    run(bed, &first);
    assert_int_equal(first.result.row, first.result.record.token);
    act(bed, 1, STORE_RELEASE, first.result.record.token);
    run(bed, &second);
    assert_int_equal(second.result.verdict, RECORD_PROCEED);
    assert_int_equal(second.result.row, first.result.record.token);
    assert_true(second.result.record.token > first.result.record.token);
}

static void a_wrong_row_hint_finds_the_right_record(void **state)
{
    struct bed *bed = *state;
    struct store_op one = begin_on(1), two = begin_on(2);
    run(bed, &one);
    run(bed, &two);
    const int64_t hints[] = {two.result.row, one.result.row, 999999};
    for (size_t i = 0; i < 3; i++) {
        struct store_op op = write_on(1, STORE_EXTEND, one.result.record.token);
        op.row_hint = hints[i];
        run(bed, &op);
        assert_int_equal(op.result.write, RECORD_WRITTEN);
        assert_int_equal(op.result.row, one.result.row);
    }
}

static void forget_makes_the_old_token_stale_and_moves_the_caches_epoch(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1), seen_at = 0;
    int64_t forgets = store_forgets(bed->store, &seen_at);
    assert_int_equal(act(bed, 1, STORE_FORGET, token), RECORD_LIVE);
    struct store_op op = write_on(1, STORE_FORGET, token);
    op.writing.force = true;
    run(bed, &op);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    assert_int_equal(op.result.record.status, RECORD_ABSENT);
    /* One that was decided twice may be counted twice: caches only ask once more. */
    int64_t moved = store_forgets(bed->store, &seen_at) - forgets;
    assert_true(moved == 1 || (bed->kind == BED_HOSTILE && moved > 1));
    assert_int_equal(finish(bed, 1, token, "late"), RECORD_STALE);
    assert_int_equal(check_counts(bed), 0);
    assert_true(proceed(bed, 1) > token + 1);
    assert_int_equal(finish(bed, 1, token, "late"), RECORD_STALE);
}

static void an_operator_needs_force_on_a_live_lease(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    assert_int_equal(act(bed, 1, STORE_RESOLVE, token), RECORD_LIVE);
    assert_int_equal(act(bed, 1, STORE_RELEASE_SETTLED, token), RECORD_LIVE);
    struct store_op op = write_on(1, STORE_RESOLVE, token);
    op.writing.force = true;
    run(bed, &op);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
    assert_int_equal(finish(bed, 1, token, "x"), RECORD_ALREADY);
}

/* ---- looking ---- */

struct listed {
    uint64_t most; /* to be shown; 0: all */
    uint64_t n;
    int64_t seen; /* up to which row id it looked; 0: to the end */
    int64_t last;
    struct store_row row;
    char text[32];
};

static bool note(void *argument, const struct store_row *row, enum record_lease lease)
{
    (void)lease;
    struct listed *listed = argument;
    assert_true(row->id > listed->last);
    listed->n++;
    listed->last = row->id;
    listed->row = *row;
    snprintf(listed->text, sizeof listed->text, "%.*s/%.*s/%.*s", SLICE_ARG(row->tenant),
             SLICE_ARG(row->rule), SLICE_ARG(row->key));
    return listed->n != listed->most;
}

static struct listed list_some(struct bed *bed, struct store_list filter, uint64_t most)
{
    struct listed listed = {.most = most};
    if (filter.most == 0)
        filter.most = SIZE_MAX;
    filter.each = note;
    filter.argument = &listed;
    struct store_op op = {.kind = STORE_LIST, .list = &filter};
    run(bed, &op);
    assert_int_equal(op.result.status, STORE_DONE);
    listed.seen = op.result.row;
    return listed;
}

static struct listed list(struct bed *bed, struct store_list filter)
{
    return list_some(bed, filter, 0);
}

#define LISTED 12

static void begin_some(struct bed *bed, int64_t *ret_ids)
{
    for (uint64_t i = 0; i < LISTED; i++) {
        struct store_op op = begin_on(i);
        op.arrival.tenant = i % 2 ? SLICE("odd") : SLICE("even");
        op.arrival.rule = i % 3 ? SLICE("some") : SLICE("third");
        op.arrival.key = i == 6 ? SLICE("six") : SLICE("any");
        run(bed, &op);
        ret_ids[i] = op.result.row;
        if (i < 4)
            finish(bed, i, op.result.record.token, "");
    }
}

static void a_list_shows_what_matches_oldest_first(void **state)
{
    struct bed *bed = *state;
    int64_t ids[LISTED];
    begin_some(bed, ids);
    assert_int_equal(list(bed, (struct store_list){0}).n, LISTED);
    assert_int_equal(list(bed, (struct store_list){.tenant = SLICE("odd")}).n, 6);
    assert_int_equal(list(bed, (struct store_list){.statuses = 1U << RECORD_COMPLETE}).n, 4);
    assert_int_equal(list(bed, (struct store_list){.lapsed_only = true}).n, 0);
    struct listed six = list(bed, (struct store_list){.key = SLICE("six")});
    assert_int_equal(six.n, 1);
    assert_string_equal(six.text, "even/third/six");
    struct digest key = key_of(6);
    assert_true(digest_eq(&six.row.key_hash, &key));
    assert_int_equal(list(bed, (struct store_list){.tenant = SLICE("")}).n, 0);
}

static void a_list_looks_at_so_many_rows_and_says_up_to_which(void **state)
{
    struct bed *bed = *state;
    int64_t ids[LISTED];
    begin_some(bed, ids);
    struct store_list wanted = {.after = ids[1], .most = 4};
    struct listed slice = list(bed, wanted);
    assert_int_equal(slice.n, 4);
    assert_int_equal(slice.seen, ids[5]);
    wanted.rule = SLICE("third");
    slice = list(bed, wanted);
    assert_int_equal(slice.last, ids[3]);
    assert_int_equal(slice.seen, ids[5]);
    wanted.tenant = SLICE("");
    slice = list(bed, wanted);
    assert_int_equal(slice.n, 0);
    assert_int_equal(slice.seen, ids[5]);
    wanted = (struct store_list){.after = ids[9], .most = 4};
    slice = list(bed, wanted);
    assert_int_equal(slice.n, 2);
    assert_int_equal(slice.seen, 0);
}

static void a_list_stops_where_its_caller_says(void **state)
{
    struct bed *bed = *state;
    int64_t ids[LISTED];
    begin_some(bed, ids);
    struct listed some = list_some(bed, (struct store_list){0}, 5);
    assert_int_equal(some.n, 5);
    assert_int_equal(some.last, ids[4]);
    assert_int_equal(some.seen, ids[4]);
}

static bool add_id(void *argument, const struct store_row *row, enum record_lease lease)
{
    (void)lease;
    *(int64_t *)argument += row->id;
    return true;
}

static void a_list_of_the_newest_shows_the_last_rows(void **state)
{
    struct bed *bed = *state;
    int64_t ids[LISTED], sum = 0;
    begin_some(bed, ids);
    struct store_list newest = {.most = 3, .newest = true, .each = add_id, .argument = &sum};
    struct store_op op = {.kind = STORE_LIST, .list = &newest};
    run(bed, &op);
    assert_int_equal(sum, ids[9] + ids[10] + ids[11]);
}

static void a_look_reads_the_record_and_its_outcome_and_changes_nothing(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(look(bed, 1).status, RECORD_ABSENT);
    int64_t token = proceed(bed, 1);
    assert_int_equal(look(bed, 1).token, token);
    finish(bed, 1, token, "x");
    struct store_op op = {.kind = STORE_LOOK, .key_hash = key_of(1)};
    run(bed, &op);
    assert_non_null(op.result.found);
    assert_true(slice_eq(op.result.found->body, SLICE("x")));
    outcome_unref(op.result.found);
}

static bool note_origin(void *argument, const struct store_row *row, enum record_lease lease)
{
    struct listed *listed = argument;
    (void)lease;
    snprintf(listed->text, sizeof listed->text, "%.*s %d", SLICE_ARG(row->origin),
             row->record.cause);
    return true;
}

static const char *origin_of(struct bed *bed, struct listed *listed)
{
    struct store_list wanted = {.most = 1, .each = note_origin, .argument = listed};
    struct store_op op = {.kind = STORE_LIST, .list = &wanted};
    run(bed, &op);
    return listed->text;
}

static int64_t proceed_from(struct bed *bed, const char *origin)
{
    struct store_op op = begin_on(1);
    op.arrival.origin = slice_of(origin);
    op.begin.unknown = RECORD_UNKNOWN_RETRY;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    return op.result.record.token;
}

static void doubt_for(struct bed *bed, int64_t token, int cause)
{
    struct store_op op = write_on(1, STORE_DOUBT, token);
    op.writing.cause = cause;
    run(bed, &op);
    assert_int_equal(op.result.write, RECORD_WRITTEN);
}

/* found: C-H4 */
static void a_claim_names_its_last_request_and_why_its_outcome_is_in_doubt(void **state)
{
    struct bed *bed = *state;
    struct listed listed = {0};
    int64_t token = proceed_from(bed, "POST /a");
    assert_string_equal(origin_of(bed, &listed), "POST /a 0");
    doubt_for(bed, token, RECORD_CAUSE_TIMEOUT);
    assert_string_equal(origin_of(bed, &listed), "POST /a 2");
    token = proceed_from(bed, "POST /the-second");
    assert_string_equal(origin_of(bed, &listed), "POST /the-second 2");
    act(bed, 1, STORE_RELEASE, token);
    assert_string_equal(origin_of(bed, &listed), "POST /the-second 2");
    token = proceed_from(bed, "");
    doubt_for(bed, token, 504);
    assert_string_equal(origin_of(bed, &listed), " 504");
    token = proceed_from(bed, "POST /third");
    finish(bed, 1, token, "x");
    assert_int_equal(look(bed, 1).cause, 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(a_stored_outcome_is_replayed_byte_for_byte),
        BED_TEST(an_outcome_without_its_response_is_found_as_such),
        BED_TEST(a_failed_outcome_is_replayed_as_failed),
        BED_TEST(another_payload_or_target_is_a_mismatch_in_every_state),
        BED_TEST(another_recipe_is_reported_with_the_record_s_own),
        BED_TEST(a_running_operation_is_in_progress_with_the_lease_left),
        BED_TEST(the_same_attempt_gets_the_same_token),
        BED_TEST(a_released_operation_proceeds_under_a_higher_token),
        BED_TEST(what_was_released_is_replaced_by_another_operation_and_what_is_in_doubt_is_not),
        BED_TEST(doubt_makes_it_unknown_until_somebody_resolves_it),
        BED_TEST(a_probe_is_an_acquisition_that_releases_only_once_quiet),
        BED_TEST(a_late_response_counts_while_nobody_acquired_since),
        BED_TEST(a_stale_token_changes_nothing_by_any_write),
        BED_TEST(a_write_repeated_reports_what_is_stored),
        BED_TEST(a_record_is_named_by_its_first_token),
        BED_TEST(a_wrong_row_hint_finds_the_right_record),
        BED_TEST(forget_makes_the_old_token_stale_and_moves_the_caches_epoch),
        BED_TEST(an_operator_needs_force_on_a_live_lease),
        BED_TEST(a_list_shows_what_matches_oldest_first),
        BED_TEST(a_list_looks_at_so_many_rows_and_says_up_to_which),
        BED_TEST(a_list_stops_where_its_caller_says),
        BED_TEST(a_list_of_the_newest_shows_the_last_rows),
        BED_TEST(a_claim_names_its_last_request_and_why_its_outcome_is_in_doubt),
        BED_TEST(a_look_reads_the_record_and_its_outcome_and_changes_nothing),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
