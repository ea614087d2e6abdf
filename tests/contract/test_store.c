/* SPDX-License-Identifier: Apache-2.0 */
/* What every store does, on every backend, through store.h and the committer's thread. */
#include "store_bed.h"

#include "base/mem.h"
#include <stdio.h>
#include <unistd.h>

static int set_up(void **state)
{
    struct bed *bed = mem_zalloc(1, sizeof *bed);
    assert_non_null(bed);
    bed_init(bed, *(const enum store_kind *)*state);
    bed_open(bed);
    *state = bed;
    return 0;
}

static int tear_down(void **state)
{
    bed_fini(*state);
    mem_free(*state);
    return 0;
}

/* ---- one attempt after another ---- */

static void a_stored_outcome_is_replayed_byte_for_byte(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct slice fields = SLICE("Location: /r/1\r\nX: y\r\n"), body = SLICE("a\0b\xff");
    struct outcome *outcome = outcome_new(201, false, fields, body);
    struct store_op op = write_on(1, STORE_FINISH, token);
    op.outcome = outcome;
    op.kept = true;
    run(bed, &op);
    assert_int_equal(op.write, RECORD_WRITTEN);
    struct store_op again = begin_on(1);
    run(bed, &again);
    assert_int_equal(again.verdict, RECORD_REPLAY);
    assert_true(outcome_eq(again.found, outcome));
    assert_true(slice_eq(again.found->location, SLICE("/r/1")));
    assert_int_equal(again.record.token, token);
    outcome_unref(again.found);
    outcome_unref(outcome);
}

static void an_outcome_without_its_answer_says_so(void **state)
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
    op.final = RECORD_FAILED;
    op.http_status = 422;
    op.outcome = outcome;
    op.kept = true;
    run(bed, &op);
    outcome_unref(outcome);
    struct store_op again = begin_on(1);
    run(bed, &again);
    assert_int_equal(again.verdict, RECORD_REPLAY);
    assert_true(again.found->failed && again.found->status == 422);
    outcome_unref(again.found);
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
        assert_int_equal(other.verdict, RECORD_MISMATCH);
        if (i == 1)
            assert_int_equal(finish(bed, 1, token, "x"), RECORD_WRITTEN);
    }
}

static void another_recipe_is_told_with_the_record_s_own(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    struct store_op other = begin_on(1);
    other.recipe = SLICE("another");
    run(bed, &other);
    assert_int_equal(other.verdict, RECORD_OTHER_RECIPE);
    assert_string_equal(other.found_recipe, "recipe");
    mem_free(other.found_recipe);
}

static void a_running_operation_is_in_progress_with_the_lease_left(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    struct store_op op = begin_on(1);
    run(bed, &op);
    assert_int_equal(op.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(op.lease, RECORD_LEASE_LIVE);
    assert_true(op.lease_left_us > 0 && op.lease_left_us <= LEASE);
}

static void the_same_attempt_gets_the_same_token(void **state)
{
    struct bed *bed = *state;
    struct store_op op = begin_on(1);
    run(bed, &op);
    struct store_op again = begin_on(1);
    again.begin = op.begin;
    run(bed, &again);
    assert_int_equal(again.verdict, RECORD_PROCEED);
    assert_int_equal(again.record.token, op.record.token);
    assert_int_equal(again.record.attempts, 1);
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
    assert_int_equal(act(bed, 1, STORE_DOUBT, first.record.token), RECORD_WRITTEN);
    struct store_op probe = begin_on(1);
    probe.begin.unknown = RECORD_UNKNOWN_PROBE;
    run(bed, &probe);
    assert_int_equal(probe.verdict, RECORD_ASK);
    assert_true(probe.record.token > first.record.token);
    int64_t quiet_at = probe.record.quiet_at;
    assert_true(quiet_at > probe.store_now);
    assert_int_equal(act(bed, 1, STORE_RELEASE_SETTLED, probe.record.token), RECORD_EARLY);
    assert_int_equal(act(bed, 1, STORE_DOUBT, probe.record.token), RECORD_WRITTEN);
    struct record record = look(bed, 1);
    assert_int_equal(record.status, RECORD_UNKNOWN);
    assert_int_equal(record.quiet_at, quiet_at);
}

static void a_late_answer_counts_while_nobody_acquired_since(void **state)
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
        op.force = true;
        run(bed, &op);
        assert_int_equal(op.write, RECORD_STALE);
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
    assert_true(slice_eq(again.found->body, SLICE("first")));
    outcome_unref(again.found);
    assert_int_equal(act(bed, 1, STORE_RELEASE, token), RECORD_ALREADY);
}

static void a_wrong_row_hint_finds_the_right_record(void **state)
{
    struct bed *bed = *state;
    struct store_op one = begin_on(1), two = begin_on(2);
    run(bed, &one);
    run(bed, &two);
    const int64_t hints[] = {two.row, one.row, 999999};
    for (size_t i = 0; i < 3; i++) {
        struct store_op op = write_on(1, STORE_EXTEND, one.record.token);
        op.row_hint = hints[i];
        run(bed, &op);
        assert_int_equal(op.write, RECORD_WRITTEN);
        assert_int_equal(op.row, one.row);
    }
}

static void forget_makes_the_old_token_stale_and_moves_the_caches_epoch(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1), seen_at = 0;
    int64_t forgets = store_forgets(bed->store, &seen_at);
    assert_int_equal(act(bed, 1, STORE_FORGET, token), RECORD_LIVE);
    struct store_op op = write_on(1, STORE_FORGET, token);
    op.force = true;
    run(bed, &op);
    assert_int_equal(op.write, RECORD_WRITTEN);
    assert_int_equal(op.record.status, RECORD_ABSENT);
    assert_int_equal(store_forgets(bed->store, &seen_at), forgets + 1);
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
    op.force = true;
    run(bed, &op);
    assert_int_equal(op.write, RECORD_WRITTEN);
    assert_int_equal(finish(bed, 1, token, "x"), RECORD_ALREADY);
}

/* ---- waiting ---- */

static void a_waiter_is_woken_by_the_outcome_and_replays_it(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    assert_false(store_op_ended(&waiter));
    finish(bed, 1, token, "done");
    await(bed, &waiter);
    assert_int_equal(waiter.verdict, RECORD_REPLAY);
    assert_true(slice_eq(waiter.found->body, SLICE("done")));
    outcome_unref(waiter.found);
    assert_int_equal(store_counts(bed->store).waiting, 0);
}

static void a_thousand_waiters_replay_one_outcome(void **state)
{
    struct bed *bed = *state;
    enum { N = 1000 };
    struct store_op *waiters = mem_zalloc(N, sizeof *waiters);
    assert_non_null(waiters);
    int64_t token = proceed(bed, 1);
    for (size_t i = 0; i < N; i++) {
        waiters[i] = wait_on(1);
        submit(bed, &waiters[i]);
    }
    await_waiting(bed, N);
    finish(bed, 1, token, "done");
    for (size_t i = 0; i < N; i++) {
        await(bed, &waiters[i]);
        assert_int_equal(waiters[i].verdict, RECORD_REPLAY);
        outcome_unref(waiters[i].found);
    }
    mem_free(waiters);
}

static void after_a_release_the_oldest_waiter_proceeds_and_the_others_wait_on(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiters[3];
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = wait_on(1);
        submit(bed, &waiters[i]);
        await_waiting(bed, i + 1);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(act(bed, 1, STORE_RELEASE, token), RECORD_WRITTEN);
        await(bed, &waiters[i]);
        assert_int_equal(waiters[i].verdict, RECORD_PROCEED);
        token = waiters[i].record.token;
        await_waiting(bed, 2 - i);
    }
}

static void a_newcomer_in_the_same_batch_does_not_overtake_who_waits(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op first = begin_on(1), waiter = wait_on(1), newcomer = wait_on(1);
    store_submit(bed->store, &first);
    store_submit(bed->store, &waiter);
    store_step(bed->store);
    struct store_op release = write_on(1, STORE_RELEASE, first.record.token);
    store_submit(bed->store, &release);
    store_submit(bed->store, &newcomer);
    while (store_step(bed->store))
        continue;
    assert_true(store_op_ended(&waiter));
    assert_int_equal(waiter.verdict, RECORD_PROCEED);
    assert_false(store_op_ended(&newcomer));
    bed_close(bed);
    assert_int_equal(newcomer.verdict, RECORD_IN_PROGRESS);
}

static void doubt_ends_the_waiters_as_unknown(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    act(bed, 1, STORE_DOUBT, token);
    await(bed, &waiter);
    assert_int_equal(waiter.verdict, RECORD_OUTCOME_UNKNOWN);
}

static void a_forget_lets_the_oldest_waiter_proceed(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    struct store_op forget = write_on(1, STORE_FORGET, token);
    forget.force = true;
    run(bed, &forget);
    await(bed, &waiter);
    assert_int_equal(waiter.verdict, RECORD_PROCEED);
}

static void a_waiter_whose_own_time_is_over_is_in_progress(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    struct store_op waiter = begin_on(1);
    waiter.wait_until = clock_boot_us() + 20 * CLOCK_US_PER_MS;
    run(bed, &waiter);
    assert_int_equal(waiter.verdict, RECORD_IN_PROGRESS);
    assert_true(clock_boot_us() >= waiter.wait_until);
    assert_int_equal(store_counts(bed->store).waiting, 0);
}

static void waiters_are_limited_for_a_key_and_in_all(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.max_waiting = 3;
    bed->config.max_waiting_per_key = 2;
    bed_open(bed);
    proceed(bed, 1);
    proceed(bed, 2);
    struct store_op waiters[5] = {wait_on(1), wait_on(1), wait_on(1), wait_on(2), wait_on(2)};
    for (size_t i = 0; i < 5; i++)
        submit(bed, &waiters[i]);
    await(bed, &waiters[2]);
    await(bed, &waiters[4]);
    assert_int_equal(waiters[2].status, STORE_LIMITED);
    assert_int_equal(waiters[4].status, STORE_LIMITED);
    assert_int_equal(store_counts(bed->store).waiting, 3);
    bed_close(bed);
    assert_int_equal(waiters[0].verdict, RECORD_IN_PROGRESS);
    assert_int_equal(waiters[3].verdict, RECORD_IN_PROGRESS);
}

static void a_full_queue_refuses_begins_but_never_outcomes(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed->config.max_queued = 2;
    bed_open(bed);
    struct store_op begins[3] = {begin_on(1), begin_on(2), begin_on(3)};
    for (size_t i = 0; i < 3; i++)
        store_submit(bed->store, &begins[i]);
    assert_true(store_op_ended(&begins[2]));
    assert_int_equal(begins[2].status, STORE_LIMITED);
    struct store_op outcome = write_on(9, STORE_FINISH, 1);
    store_submit(bed->store, &outcome);
    assert_false(store_op_ended(&outcome));
    store_step(bed->store);
    assert_int_equal(outcome.write, RECORD_STALE);
    assert_int_equal(begins[1].verdict, RECORD_PROCEED);
}

static void what_is_queued_or_waits_can_be_withdrawn_and_was_not_applied(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op queued = begin_on(1);
    store_submit(bed->store, &queued);
    assert_true(store_withdraw(bed->store, &queued));
    assert_int_equal(queued.status, STORE_WITHDRAWN);
    struct store_op first = begin_on(1), waiter = wait_on(1);
    store_submit(bed->store, &first);
    store_submit(bed->store, &waiter);
    store_step(bed->store);
    assert_int_equal(first.verdict, RECORD_PROCEED);
    assert_int_equal(store_counts(bed->store).waiting, 1);
    assert_true(store_withdraw(bed->store, &waiter));
    assert_int_equal(store_counts(bed->store).waiting, 0);
    assert_false(store_withdraw(bed->store, &waiter));
    assert_false(store_withdraw(bed->store, &first));
}

static void close_ends_who_waits_as_in_progress(void **state)
{
    struct bed *bed = *state;
    proceed(bed, 1);
    struct store_op waiter = wait_on(1);
    submit(bed, &waiter);
    await_waiting(bed, 1);
    bed_close(bed);
    assert_int_equal(waiter.status, STORE_DONE);
    assert_int_equal(waiter.verdict, RECORD_IN_PROGRESS);
}

/* ---- many at once ---- */

struct racer {
    struct thread thread;
    struct bed *bed;
    struct thread_parker parker;
    struct store_op op;
    bool proceeded;
};

static void race(void *argument)
{
    struct racer *racer = argument;
    struct store *store = racer->bed->store;
    racer->op = wait_on(1);
    store_run(store, &racer->op, &racer->parker.parker, CLOCK_NEVER);
    racer->proceeded = racer->op.verdict == RECORD_PROCEED;
    if (!racer->proceeded)
        return;
    struct outcome *outcome = outcome_new(200, false, SLICE(""), SLICE("one"));
    int64_t token = racer->op.record.token;
    racer->op = write_on(1, STORE_FINISH, token);
    racer->op.outcome = outcome;
    racer->op.http_status = 200;
    racer->op.kept = true;
    store_run(store, &racer->op, &racer->parker.parker, CLOCK_NEVER);
    outcome_unref(outcome);
}

static void of_a_hundred_threads_on_one_key_exactly_one_proceeds(void **state)
{
    struct bed *bed = *state;
    enum { N = 100 };
    struct racer *racers = mem_zalloc(N, sizeof *racers);
    assert_non_null(racers);
    for (size_t i = 0; i < N; i++) {
        racers[i].bed = bed;
        thread_parker_init(&racers[i].parker);
        assert_true(thread_start(&racers[i].thread, "racer", race, &racers[i]));
    }
    size_t proceeded = 0;
    for (size_t i = 0; i < N; i++) {
        thread_join(&racers[i].thread);
        proceeded += racers[i].proceeded;
        if (!racers[i].proceeded) {
            assert_int_equal(racers[i].op.verdict, RECORD_REPLAY);
            assert_true(slice_eq(racers[i].op.found->body, SLICE("one")));
            outcome_unref(racers[i].op.found);
        }
    }
    assert_int_equal(proceeded, 1);
    bed_close(bed);
    for (size_t i = 0; i < N; i++)
        thread_parker_fini(&racers[i].parker);
    mem_free(racers);
}

static void what_is_queued_together_is_committed_together(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    enum { N = 100 };
    struct store_op *ops = mem_zalloc(N, sizeof *ops);
    assert_non_null(ops);
    for (uint64_t i = 0; i < N; i++) {
        ops[i] = begin_on(i);
        store_submit(bed->store, &ops[i]);
    }
    uint64_t before = bed->backend ? memory_backend_faults(bed->backend)->commits : 0;
    assert_true(store_step(bed->store));
    for (size_t i = 0; i < N; i++) {
        assert_true(store_op_ended(&ops[i]));
        assert_int_equal(ops[i].verdict, RECORD_PROCEED);
        assert_true(i == 0 || ops[i].record.token > ops[i - 1].record.token);
    }
    if (bed->backend)
        assert_int_equal(memory_backend_faults(bed->backend)->commits, before + 1);
    mem_free(ops);
}

static void the_kept_counts_are_those_of_a_scan_after_any_acts(void **state)
{
    struct bed *bed = *state;
    uint64_t random = 12345;
    int64_t tokens[16] = {0};
    for (int i = 0; i < 600; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        uint64_t key = random >> 60;
        int kind = (int)(random >> 40) % (STORE_FORGET + 1);
        struct store_op op = kind == STORE_BEGIN
                                 ? begin_on(key)
                                 : write_on(key, (enum store_op_kind)kind, tokens[key]);
        op.force = (random >> 33) % 2;
        run(bed, &op);
        outcome_unref(op.found);
        assert_int_equal(op.status, STORE_DONE);
        tokens[key] = op.record.status == RECORD_ABSENT ? 0 : op.record.token;
        if (i % 20 == 0)
            check_counts(bed);
    }
    assert_true(check_counts(bed) > 0);
}

/* ---- looking ---- */

struct listed {
    uint64_t n;
    int64_t last;
    struct store_row row;
    char text[32];
};

static void note(void *argument, const struct store_row *row, enum record_lease lease)
{
    (void)lease;
    struct listed *listed = argument;
    assert_true(row->id > listed->last);
    listed->n++;
    listed->last = row->id;
    listed->row = *row;
    snprintf(listed->text, sizeof listed->text, "%.*s/%.*s/%.*s", SLICE_ARG(row->tenant),
             SLICE_ARG(row->rule), SLICE_ARG(row->key));
}

static struct listed list(struct bed *bed, struct store_list filter)
{
    struct listed listed = {0};
    if (filter.limit == 0)
        filter.limit = SIZE_MAX;
    filter.each = note;
    filter.argument = &listed;
    struct store_op op = {.kind = STORE_LIST, .list = &filter};
    run(bed, &op);
    assert_int_equal(op.status, STORE_DONE);
    return listed;
}

static void a_list_shows_what_matches_oldest_first(void **state)
{
    struct bed *bed = *state;
    for (uint64_t i = 0; i < 12; i++) {
        struct store_op op = begin_on(i);
        op.tenant = i % 2 ? SLICE("odd") : SLICE("even");
        op.rule = i % 3 ? SLICE("some") : SLICE("third");
        op.key = i == 6 ? SLICE("six") : SLICE("any");
        run(bed, &op);
        if (i < 4)
            finish(bed, i, op.record.token, "");
    }
    assert_int_equal(list(bed, (struct store_list){0}).n, 12);
    assert_int_equal(list(bed, (struct store_list){.limit = 5}).n, 5);
    assert_int_equal(list(bed, (struct store_list){.tenant = SLICE("odd")}).n, 6);
    assert_int_equal(list(bed, (struct store_list){.status = RECORD_COMPLETE}).n, 4);
    assert_int_equal(list(bed, (struct store_list){.lapsed_only = true}).n, 0);
    struct listed six = list(bed, (struct store_list){.key = SLICE("six")});
    assert_int_equal(six.n, 1);
    assert_string_equal(six.text, "even/third/six");
    struct digest key = key_of(6);
    assert_true(digest_eq(&six.row.key_hash, &key));
    assert_int_equal(list(bed, (struct store_list){.tenant = SLICE("")}).n, 0);
}

static void a_look_reads_the_record_and_its_answer_and_changes_nothing(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(look(bed, 1).status, RECORD_ABSENT);
    int64_t token = proceed(bed, 1);
    assert_int_equal(look(bed, 1).token, token);
    finish(bed, 1, token, "x");
    struct store_op op = {.kind = STORE_LOOK, .key_hash = key_of(1)};
    run(bed, &op);
    assert_non_null(op.found);
    assert_true(slice_eq(op.found->body, SLICE("x")));
    outcome_unref(op.found);
}

/* ---- time ---- */

#ifdef PAWL_HOOKS
static void set_clock(int64_t now)
{
    clock_test_set(now, now);
}

static void an_answer_expires_then_its_tombstone_then_it_is_a_new_life(void **state)
{
    struct bed *bed = *state;
    int64_t now = clock_wall_us();
    set_clock(now);
    struct store_op op = begin_on(1);
    op.begin.tombstone_us = SECOND;
    run(bed, &op);
    finish(bed, 1, op.record.token, "x");
    set_clock(now + TTL - 1);
    assert_int_equal(verdict(bed, 1), RECORD_REPLAY);
    set_clock(now + TTL);
    for (int i = 0; i < 3; i++, set_clock(now + TTL + SECOND - 1))
        assert_int_equal(verdict(bed, 1), RECORD_RESULT_EXPIRED);
    assert_int_equal(store_counts(bed->store).complete, 1);
    set_clock(now + TTL + SECOND);
    assert_int_equal(verdict(bed, 1), RECORD_PROCEED);
    assert_int_equal(look(bed, 1).attempts, 1);
    assert_int_equal(check_counts(bed), 1);
    set_clock(0);
}

static void a_wall_clock_set_back_neither_freezes_nor_reverses_store_time(void **state)
{
    struct bed *bed = *state;
    int64_t now = clock_wall_us();
    set_clock(now);
    int64_t token = proceed(bed, 1);
    act(bed, 1, STORE_RELEASE, token);
    clock_test_set(now - 10 * TTL, now + 1);
    assert_int_equal(proceed(bed, 1), token + 1);
    clock_test_set(now - 10 * TTL, now + TTL);
    assert_true(proceed(bed, 2) >= now + TTL);
    assert_true(store_now(bed->store) >= now + TTL);
    set_clock(0);
}

static void the_sweep_removes_in_slices_and_keeps_the_counts(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    int64_t now = clock_wall_us();
    set_clock(now);
    enum { N = 200 };
    struct store_op *ops = mem_zalloc(N, sizeof *ops);
    for (uint64_t i = 0; i < N; i++) {
        ops[i] = begin_on(i);
        store_submit(bed->store, &ops[i]);
    }
    store_step(bed->store);
    for (uint64_t i = 0; i < N; i++) {
        int64_t token = ops[i].record.token;
        enum store_op_kind kind = i % 4 == 1 ? STORE_RELEASE : STORE_FINISH;
        ops[i] = write_on(i, i % 4 == 0 ? STORE_DOUBT : kind, token);
        ops[i].final = i % 4 == 2 ? RECORD_FAILED : RECORD_COMPLETE;
        store_submit(bed->store, &ops[i]);
    }
    store_step(bed->store);
    set_clock(now + TTL);
    int64_t left = N, steps = 0;
    while (store_step(bed->store)) {
        struct store_counts counts = store_counts(bed->store);
        int64_t n = counts.pending + counts.complete + counts.failed + counts.unknown;
        assert_true(left - n <= 64);
        left = n;
        steps++;
    }
    assert_int_equal(left, N / 4);
    assert_int_equal(store_counts(bed->store).unknown, N / 4);
    assert_true(steps >= 3);
    mem_free(ops);
    set_clock(0);
}

static void the_heartbeat_keeps_a_lease_alive_in_the_eyes_of_another_process(void **state)
{
    struct bed *bed = *state, other;
    int64_t now = clock_wall_us();
    set_clock(now);
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    bed_share(bed, &other);
    bed_open(&other);
    struct store_op op = begin_on(1);
    store_submit(bed->store, &op);
    store_step(bed->store);
    for (int i = 1; i <= 9; i++) {
        set_clock(now + i * LEASE / 3);
        store_step(bed->store);
        assert_int_equal(verdict(&other, 1), RECORD_IN_PROGRESS);
    }
    set_clock(now + 3 * LEASE + LEASE);
    assert_int_equal(verdict(&other, 1), RECORD_OUTCOME_UNKNOWN);
    bed_close(&other);
    thread_parker_fini(&other.parker);
    set_clock(0);
}
#endif

static void two_processes_on_one_store_see_each_other_s_writes(void **state)
{
    struct bed *bed = *state, other;
    bed_share(bed, &other);
    bed_open(&other);
    int64_t token = proceed(bed, 1);
    assert_int_equal(verdict(&other, 1), RECORD_IN_PROGRESS);
    struct store_op waiter = wait_on(1);
    submit(&other, &waiter);
    await_waiting(&other, 1);
    finish(bed, 1, token, "there");
    await(&other, &waiter);
    assert_int_equal(waiter.verdict, RECORD_REPLAY);
    assert_true(slice_eq(waiter.found->body, SLICE("there")));
    outcome_unref(waiter.found);
    assert_true(proceed(&other, 2) > token);
    assert_int_equal(check_counts(&other), 2);
    bed_close(&other);
    thread_parker_fini(&other.parker);
    assert_int_equal(check_counts(bed), 2);
}

#define T(name) {#name, name, set_up, tear_down, NULL}

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_stored_outcome_is_replayed_byte_for_byte),
        T(an_outcome_without_its_answer_says_so),
        T(a_failed_outcome_is_replayed_as_failed),
        T(another_payload_or_target_is_a_mismatch_in_every_state),
        T(another_recipe_is_told_with_the_record_s_own),
        T(a_running_operation_is_in_progress_with_the_lease_left),
        T(the_same_attempt_gets_the_same_token),
        T(a_released_operation_proceeds_under_a_higher_token),
        T(doubt_makes_it_unknown_until_somebody_resolves_it),
        T(a_probe_is_an_acquisition_that_releases_only_once_quiet),
        T(a_late_answer_counts_while_nobody_acquired_since),
        T(a_stale_token_changes_nothing_by_any_write),
        T(a_write_repeated_reports_what_is_stored),
        T(a_wrong_row_hint_finds_the_right_record),
        T(forget_makes_the_old_token_stale_and_moves_the_caches_epoch),
        T(an_operator_needs_force_on_a_live_lease),
        T(a_waiter_is_woken_by_the_outcome_and_replays_it),
        T(a_thousand_waiters_replay_one_outcome),
        T(after_a_release_the_oldest_waiter_proceeds_and_the_others_wait_on),
        T(a_newcomer_in_the_same_batch_does_not_overtake_who_waits),
        T(doubt_ends_the_waiters_as_unknown),
        T(a_forget_lets_the_oldest_waiter_proceed),
        T(a_waiter_whose_own_time_is_over_is_in_progress),
        T(waiters_are_limited_for_a_key_and_in_all),
        T(a_full_queue_refuses_begins_but_never_outcomes),
        T(what_is_queued_or_waits_can_be_withdrawn_and_was_not_applied),
        T(close_ends_who_waits_as_in_progress),
        T(of_a_hundred_threads_on_one_key_exactly_one_proceeds),
        T(what_is_queued_together_is_committed_together),
        T(the_kept_counts_are_those_of_a_scan_after_any_acts),
        T(a_list_shows_what_matches_oldest_first),
        T(a_look_reads_the_record_and_its_answer_and_changes_nothing),
        T(two_processes_on_one_store_see_each_other_s_writes),
#ifdef PAWL_HOOKS
        T(an_answer_expires_then_its_tombstone_then_it_is_a_new_life),
        T(a_wall_clock_set_back_neither_freezes_nor_reverses_store_time),
        T(the_sweep_removes_in_slices_and_keeps_the_counts),
        T(the_heartbeat_keeps_a_lease_alive_in_the_eyes_of_another_process),
#endif
    };
    enum store_kind kinds[] = {STORE_MEMORY, STORE_SQLITE};
    int failed = 0;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
            tests[i].initial_state = &kinds[k];
        const char *name = kinds[k] == STORE_SQLITE ? "sqlite" : "memory";
        failed += cmocka_run_group_tests_name(name, tests, NULL, NULL);
    }
    return failed;
}
