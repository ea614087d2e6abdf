/* SPDX-License-Identifier: Apache-2.0 */
/* Begins and finishes that go without a load where the backend has pairs: they come to what they
 * would come to behind one, whatever another process did meanwhile. */
#include "store_bed.h"

#include "base/mem.h"

/* Two processes. What the first one knows is young: it has just had a batch with a load. */
struct two {
    struct bed first;
    struct bed second;
    size_t loads; /* of the first one, in front of a toy, since they are counted */
};

static void note_load(void *argument)
{
    struct two *two = argument;
    struct hostile_faults *faults = hostile_faults(two->first.backend);
    two->loads++;
    faults->loaded = note_load;
}

static int set_up(void **state)
{
    struct two *two = mem_zalloc(1, sizeof *two);
    assert_non_null(two);
    bed_init(&two->first, *(enum bed_kind *)*state);
    two->first.config.no_thread = true;
    two->first.config.role = STORE_SERVE;
    bed_open(&two->first);
    open_other(&two->first, &two->second);
    if (two->first.kind == BED_TOY) {
        hostile_let_pair(two->first.backend);
        hostile_faults(two->first.backend)->argument = two;
        note_load(two);
    }
    (void)look(&two->first, 1000);
    two->loads = 0;
    *state = two;
    return 0;
}

static int tear_down(void **state)
{
    struct two *two = *state;
    close_other(&two->second);
    bed_fini(&two->first);
    mem_free(two);
    return 0;
}

static struct outcome *new_outcome(const char *body)
{
    struct outcome *outcome = outcome_new(201, false, SLICE("A: b\r\n"), slice_of(body));
    assert_non_null(outcome);
    return outcome;
}

/* Ends what that begin came to, as its owner does who keeps the result. */
static struct store_result finish_claim(struct bed *bed, const struct store_op *begun)
{
    struct store_result claim = begun->result;
    struct outcome *outcome = new_outcome("kept");
    struct store_op op = {.kind = STORE_FINISH,
                          .key_hash = begun->key_hash,
                          .row_hint = claim.row,
                          .writing = {.token = claim.record.token,
                                      .claim = &claim,
                                      .outcome = outcome,
                                      .final = RECORD_COMPLETE,
                                      .http_status = 201,
                                      .keeps = true}};
    run(bed, &op);
    outcome_unref(outcome);
    assert_int_equal(op.result.status, STORE_DONE);
    outcome_unref(op.result.found);
    return op.result;
}

static void a_begin_and_its_finish_are_there_for_all(void **state)
{
    struct two *two = *state;
    struct store_op op = begin_on(1);
    run(&two->first, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_equal(op.result.row, op.result.record.token);
    assert_int_equal(look(&two->second, 1).token, op.result.record.token);
    assert_int_equal(look(&two->second, 1).started_at, op.result.record.started_at);
    assert_int_equal(finish_claim(&two->first, &op).write, RECORD_WRITTEN);
    if (two->first.kind == BED_TOY)
        assert_int_equal(two->loads, 0);
    assert_int_equal(verdict(&two->second, 1), RECORD_REPLAY);
    assert_int_equal(look(&two->second, 1).lease_until, 0);
    assert_int_equal(check_counts(&two->first), 1);
}

static void many_in_one_batch_have_tokens_of_their_own(void **state)
{
    enum { N = 20 };
    struct two *two = *state;
    static struct store_op ops[N];
    for (uint64_t i = 0; i < N; i++) {
        ops[i] = begin_on(i);
        submit(&two->first, &ops[i]);
    }
    for (uint64_t i = 0; i < N; i++) {
        await(&two->first, &ops[i]);
        assert_int_equal(ops[i].result.verdict, RECORD_PROCEED);
        assert_int_equal(look(&two->second, i).token, ops[i].result.record.token);
        for (uint64_t k = 0; k < i; k++)
            assert_true(ops[k].result.record.token != ops[i].result.record.token);
    }
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(finish_claim(&two->first, &ops[i]).write, RECORD_WRITTEN);
    assert_int_equal(check_counts(&two->first), N);
}

static void what_another_process_has_done_is_replayed(void **state)
{
    struct two *two = *state;
    assert_int_equal(finish(&two->second, 1, proceed(&two->second, 1), "theirs"), RECORD_WRITTEN);
    struct store_op others[] = {begin_on(1), begin_on(2)};
    for (size_t i = 0; i < 2; i++)
        submit(&two->first, &others[i]);
    for (size_t i = 0; i < 2; i++)
        await(&two->first, &others[i]);
    assert_int_equal(others[0].result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(others[0].result.found->body, SLICE("theirs")));
    outcome_unref(others[0].result.found);
    assert_int_equal(others[1].result.verdict, RECORD_PROCEED);
}

static void what_another_process_runs_is_in_progress(void **state)
{
    struct two *two = *state;
    (void)proceed(&two->second, 1);
    assert_int_equal(verdict(&two->first, 1), RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(&two->first), 1);
}

static void two_begins_of_one_key_in_one_batch_are_one(void **state)
{
    struct two *two = *state;
    struct store_op ops[] = {begin_on(1), begin_on(1)};
    for (size_t i = 0; i < 2; i++)
        submit(&two->first, &ops[i]);
    for (size_t i = 0; i < 2; i++)
        await(&two->first, &ops[i]);
    assert_int_equal(ops[0].result.verdict, RECORD_PROCEED);
    assert_int_equal(ops[1].result.verdict, RECORD_IN_PROGRESS);
}

static void an_operation_that_was_settled_meanwhile_is_not_finished_again(void **state)
{
    struct two *two = *state;
    struct store_op op = begin_on(1);
    run(&two->first, &op);
    struct outcome *outcome = new_outcome("by hand");
    struct store_op resolve = write_on(1, STORE_RESOLVE, op.result.record.token);
    resolve.writing.outcome = outcome;
    resolve.writing.http_status = 201;
    resolve.writing.force = true;
    resolve.writing.actor = SLICE("ann");
    run(&two->second, &resolve);
    outcome_unref(outcome);
    assert_int_equal(resolve.result.write, RECORD_WRITTEN);
    assert_int_equal(finish_claim(&two->first, &op).write, RECORD_ALREADY);
    struct store_op again = begin_on(1);
    run(&two->second, &again);
    assert_int_equal(again.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(again.result.found->body, SLICE("by hand")));
    outcome_unref(again.result.found);
}

/* Whether its success is an event is in its row. */
static void what_an_earlier_attempt_may_have_asked_for_is_loaded(void **state)
{
    struct two *two = *state;
    struct store_op plain = begin_on(1), tells = begin_on(2), probe = begin_on(1);
    run(&two->first, &plain);
    tells.arrival.origin = SLICE("POST /refunds\trefund.created\n127.0.0.1\n\n\n");
    run(&two->first, &tells);
    assert_int_equal(act(&two->first, 1, STORE_DOUBT, plain.result.record.token), RECORD_WRITTEN);
    probe.begin.unknown = RECORD_UNKNOWN_PROBE;
    run(&two->first, &probe);
    assert_int_equal(probe.result.verdict, RECORD_PROBE);
    assert_int_equal(probe.result.version, 0);
    assert_int_equal(tells.result.version, 0);
    if (two->first.kind == BED_TOY || two->first.kind == BED_POSTGRES)
        assert_true(plain.result.version != 0);
}

static void one_that_was_forgotten_meanwhile_is_not_finished(void **state)
{
    struct two *two = *state;
    struct store_op op = begin_on(1), forget = write_on(1, STORE_FORGET, 0);
    run(&two->first, &op);
    forget.writing.force = true;
    run(&two->second, &forget);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    assert_int_equal(finish_claim(&two->first, &op).write, RECORD_STALE);
    assert_int_equal(check_counts(&two->first), 0);
}

/* Also where the key had a life between two batches of the process that begins it. */
static void a_token_is_above_all_that_its_key_ever_had(void **state)
{
    struct two *two = *state;
    int64_t token = 0;
    for (int i = 0; i < 5; i++) {
        struct bed *bed = i % 2 == 0 ? &two->first : &two->second;
        struct store_op op = begin_on(1), forget = write_on(1, STORE_FORGET, 0);
        run(bed, &op);
        assert_int_equal(op.result.verdict, RECORD_PROCEED);
        assert_true(op.result.record.token > token);
        token = op.result.record.token;
        act(bed, 1, STORE_RELEASE, token);
        token = proceed(i % 2 == 0 ? &two->second : &two->first, 1);
        forget.writing.force = true;
        run(&two->second, &forget);
    }
}

/* Store time of the other process may be a little behind. */
static void run_until_lapsed(struct bed *bed, struct store_op *op)
{
    struct store_op again = *op;
    do {
        *op = again;
        run(bed, op);
    } while (op->result.verdict == RECORD_IN_PROGRESS);
}

/* The first attempt lapses at once, the other process takes over, and the key is forgotten. */
static void so_it_is_above_that_of_a_takeover(void **state)
{
    struct two *two = *state;
    int64_t token = 0;
    for (int i = 0; i < 5; i++) {
        bool swapped = i % 2 != 0;
        struct bed *first = swapped ? &two->second : &two->first;
        struct bed *other = swapped ? &two->first : &two->second;
        struct store_op op = begin_on(1), taker = begin_on(1),
                        forget = write_on(1, STORE_FORGET, 0);
        op.begin.lease_us = 1;
        op.begin.unknown = taker.begin.unknown = RECORD_UNKNOWN_RETRY;
        run(first, &op);
        run_until_lapsed(other, &taker);
        assert_int_equal(op.result.verdict, RECORD_PROCEED);
        assert_int_equal(taker.result.verdict, RECORD_PROCEED);
        assert_true(op.result.record.token > token);
        assert_true(taker.result.record.token > op.result.record.token);
        token = taker.result.record.token;
        assert_int_equal(finish_claim(first, &op).write, RECORD_STALE);
        forget.writing.force = true;
        run(i % 3 == 0 ? first : other, &forget);
        assert_int_equal(forget.result.write, RECORD_WRITTEN);
    }
}

static void nothing_is_claimed_under_terms_that_were_ended(void **state)
{
    struct two *two = *state;
    struct terms none = {0}, frozen = {.frozen = 1};
    struct terms_change change = {none, frozen};
    struct store_op set = {.kind = STORE_ROWS, .rows.terms = &change};
    struct store_op op = begin_on(1), begun = begin_on(2);
    run(&two->first, &begun);
    run(&two->second, &set);
    assert_int_equal(set.result.status, STORE_DONE);
    run(&two->first, &op);
    assert_int_equal(op.result.status, STORE_FROZEN);
    assert_int_equal(finish_claim(&two->first, &begun).write, RECORD_WRITTEN);
}

#ifdef PAWL_HOOKS
static void a_lock_that_is_held_for_a_moment_is_not_in_progress(void **state)
{
    struct two *two = *state;
    if (two->first.kind != BED_TOY)
        return;
    struct digest key = key_of(1);
    struct store_op op = begin_on(1);
    hostile_hold(two->first.backend, &key, true);
    submit(&two->first, &op);
    (void)store_step(two->first.store);
    assert_false(store_op_ended(&op));
    hostile_hold(two->first.backend, &key, false);
    await(&two->first, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
}

static void one_that_was_unsure_finds_its_own_claim(void **state)
{
    struct two *two = *state;
    if (two->first.kind != BED_TOY)
        return;
    struct store_op op = begin_on(1);
    atomic_store(&hostile_faults(two->first.backend)->next_save, BACKEND_UNSURE);
    run(&two->first, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_equal(look(&two->second, 1).token, op.result.record.token);
    assert_int_equal(finish_claim(&two->first, &op).write, RECORD_WRITTEN);
    assert_int_equal(check_counts(&two->first), 1);
}
#endif

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    struct CMUnitTest tests[] = {
        T(a_begin_and_its_finish_are_there_for_all),
        T(many_in_one_batch_have_tokens_of_their_own),
        T(what_another_process_has_done_is_replayed),
        T(what_another_process_runs_is_in_progress),
        T(two_begins_of_one_key_in_one_batch_are_one),
        T(an_operation_that_was_settled_meanwhile_is_not_finished_again),
        T(what_an_earlier_attempt_may_have_asked_for_is_loaded),
        T(one_that_was_forgotten_meanwhile_is_not_finished),
        T(a_token_is_above_all_that_its_key_ever_had),
        T(so_it_is_above_that_of_a_takeover),
        T(nothing_is_claimed_under_terms_that_were_ended),
#ifdef PAWL_HOOKS
        T(a_lock_that_is_held_for_a_moment_is_not_in_progress),
        T(one_that_was_unsure_finds_its_own_claim),
#endif
    };
    return bed_run_in_peace(tests, sizeof tests / sizeof *tests);
}
