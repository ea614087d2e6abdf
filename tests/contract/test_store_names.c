/* SPDX-License-Identifier: Apache-2.0 */
/* A rule that was renamed: records of its former names are found, on every backend. */
#include "store_bed.h"

#include "base/mem.h"
#include "engine/engine.h"

/* Key hashes of one operation under the rule's names, from the newest to the oldest. */
enum { NEW_NAME = 100, OLD_NAME, OLDER_NAME };

static struct digest former[2];

static struct store_op renamed(void)
{
    struct store_op op = begin_on(NEW_NAME);
    former[0] = key_of(OLD_NAME);
    former[1] = key_of(OLDER_NAME);
    op.arrival.former = former;
    op.arrival.n_former = 2;
    return op;
}

static void check_stands_under(const struct store_op *op, uint64_t key)
{
    struct digest hash = key_of(key);
    assert_true(digest_eq(&op->key_hash, &hash));
}

static void an_outcome_under_a_former_name_is_replayed(void **state)
{
    struct bed *bed = *state;
    finish(bed, OLDER_NAME, proceed(bed, OLDER_NAME), "done");
    struct store_op op = renamed();
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    assert_true(slice_eq(op.result.found->body, SLICE("done")));
    outcome_unref(op.result.found);
    check_stands_under(&op, OLDER_NAME);
    assert_int_equal(check_counts(bed), 1);
}

static void an_unknown_record_under_a_former_name_stays_unknown(void **state)
{
    struct bed *bed = *state;
    act(bed, OLD_NAME, STORE_DOUBT, proceed(bed, OLD_NAME));
    struct store_op op = renamed();
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(look(bed, NEW_NAME).status, RECORD_ABSENT);
}

static void another_payload_under_a_former_name_is_a_mismatch(void **state)
{
    struct bed *bed = *state;
    proceed(bed, OLD_NAME);
    struct store_op op = renamed();
    op.begin.payload_hash.bytes[0] ^= 1;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_MISMATCH);
}

static void a_duplicate_waits_for_the_first_attempt_under_a_former_name(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, OLD_NAME);
    struct store_op waiter = renamed();
    waiter.arrival.wait_until = CLOCK_NEVER;
    submit(bed, &waiter);
    await_waiting(bed, 1);
    finish(bed, OLD_NAME, token, "late");
    await(bed, &waiter);
    assert_int_equal(waiter.result.verdict, RECORD_REPLAY);
    assert_int_equal(waiter.result.record.token, token);
    outcome_unref(waiter.result.found);
}

static void what_was_released_under_a_former_name_proceeds_there_under_a_higher_token(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed(bed, OLD_NAME);
    act(bed, OLD_NAME, STORE_RELEASE, token);
    struct store_op op = renamed();
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_true(op.result.record.token > token);
    check_stands_under(&op, OLD_NAME);
    assert_int_equal(finish(bed, OLD_NAME, token, "stale"), RECORD_STALE);
    assert_int_equal(finish(bed, OLD_NAME, op.result.record.token, "new"), RECORD_WRITTEN);
    assert_int_equal(check_counts(bed), 1);
}

/* found: R23 */
static void what_goes_on_under_a_former_name_says_by_which_key_it_was_sent(void **state)
{
    struct bed *bed = *state;
    struct store_op old = begin_on(OLD_NAME);
    old.arrival.key = SLICE("k1:old");
    run(bed, &old);
    act(bed, OLD_NAME, STORE_RELEASE, old.result.record.token);
    struct store_op op = renamed();
    op.arrival.key = SLICE("k1:new");
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_string_equal(op.result.found_key, "k1:old");
    mem_free(op.result.found_key);
}

static void without_a_record_a_new_one_gets_the_new_name(void **state)
{
    struct bed *bed = *state;
    struct store_op op = renamed();
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    check_stands_under(&op, NEW_NAME);
    assert_int_equal(look(bed, NEW_NAME).status, RECORD_PENDING);
    assert_int_equal(look(bed, OLD_NAME).status, RECORD_ABSENT);
}

static void a_record_under_the_new_name_goes_before_all_former_ones(void **state)
{
    struct bed *bed = *state;
    proceed(bed, OLD_NAME);
    finish(bed, NEW_NAME, proceed(bed, NEW_NAME), "new");
    struct store_op op = renamed();
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_REPLAY);
    outcome_unref(op.result.found);
    check_stands_under(&op, NEW_NAME);
}

static void a_waiter_whose_former_record_is_forgotten_begins_under_the_new_name(void **state)
{
    struct bed *bed = *state;
    proceed(bed, OLD_NAME);
    struct store_op waiters[2] = {renamed(), renamed()};
    for (size_t i = 0; i < 2; i++) {
        waiters[i].arrival.wait_until = CLOCK_NEVER;
        submit(bed, &waiters[i]);
        await_waiting(bed, i + 1);
    }
    struct store_op forget = write_on(OLD_NAME, STORE_FORGET, 0);
    forget.writing.force = true;
    run(bed, &forget);
    await(bed, &waiters[0]);
    assert_int_equal(waiters[0].result.verdict, RECORD_PROCEED);
    check_stands_under(&waiters[0], NEW_NAME);
    assert_false(store_op_ended(&waiters[1]));
    finish(bed, NEW_NAME, waiters[0].result.record.token, "done");
    await(bed, &waiters[1]);
    assert_int_equal(waiters[1].result.verdict, RECORD_REPLAY);
    outcome_unref(waiters[1].result.found);
}

static void of_the_old_and_the_new_name_in_one_batch_one_proceeds(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    bed->config.no_thread = true;
    bed_open(bed);
    struct store_op old = begin_on(OLD_NAME), new = renamed();
    submit(bed, &old);
    submit(bed, &new);
    await(bed, &old);
    await(bed, &new);
    assert_int_equal(old.result.verdict, RECORD_PROCEED);
    assert_int_equal(new.result.verdict, RECORD_IN_PROGRESS);
    assert_int_equal(check_counts(bed), 1);
}

#ifdef PAWL_HOOKS
static void an_expired_former_record_makes_room_for_a_new_one(void **state)
{
    struct bed *bed = *state;
    bed_close(bed);
    int64_t now = clock_wall_us();
    clock_test_set(now, now);
    bed->config.no_thread = true;
    bed_open(bed);
    finish(bed, OLD_NAME, proceed(bed, OLD_NAME), "old");
    finish(bed, NEW_NAME, proceed(bed, NEW_NAME), "new");
    clock_test_set(now + TTL + 1, now + TTL + 1);
    struct store_op op = renamed();
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    check_stands_under(&op, NEW_NAME);
    bed_close(bed);
    clock_test_set(0, 0);
}
#endif

/* ---- through the engine ---- */

static struct attempt attempt_of(const struct engine *engine, const char *rule)
{
    struct attempt attempt = {.tenant = SLICE("t"),
                              .rule = slice_of(rule),
                              .key = SLICE("k"),
                              .recipe = SLICE("recipe"),
                              .begin = {.lease_us = LEASE, .ttl_us = TTL}};
    attempt.key_hash = engine_key_hash(engine, attempt.tenant, attempt.rule, attempt.key);
    attempt.former[0] = engine_key_hash(engine, attempt.tenant, SLICE("old"), attempt.key);
    attempt.n_former = attempt.rule.len == 3 && rule[0] == 'n' ? 1 : 0;
    return attempt;
}

static enum engine_verdict begin(struct bed *bed, struct engine *engine, struct attempt *attempt)
{
    return engine_begin(engine, attempt, &bed->parker.parker, CLOCK_NEVER);
}

static enum engine_written write_done(struct bed *bed, struct engine *engine,
                                      struct attempt *attempt, enum store_op_kind kind)
{
    struct outcome *outcome = outcome_new(201, false, SLICE(""), SLICE("done"));
    struct engine_act act = {.kind = kind, .final = RECORD_COMPLETE, .http_status = 201};
    act.outcome = kind == STORE_FINISH ? outcome : NULL;
    engine_write(engine, attempt, &act, &bed->parker.parker);
    assert_true(engine_wait(attempt, &bed->parker.parker, CLOCK_NEVER));
    enum engine_written written = engine_written(engine, attempt);
    outcome_unref(outcome);
    return written;
}

static void an_attempt_writes_to_the_record_it_was_decided_on(void **state)
{
    struct bed *bed = *state;
    struct engine *engine = engine_new(bed->store, 65536);
    struct attempt old = attempt_of(engine, "old"), new = attempt_of(engine, "new");
    assert_int_equal(begin(bed, engine, &old), ENGINE_PROCEED);
    assert_int_equal(write_done(bed, engine, &old, STORE_RELEASE), ENGINE_STORED);
    assert_int_equal(begin(bed, engine, &new), ENGINE_PROCEED);
    assert_true(digest_eq(&new.record_hash, &old.key_hash));
    assert_int_equal(write_done(bed, engine, &new, STORE_FINISH), ENGINE_STORED);
    assert_int_equal(begin(bed, engine, &old), ENGINE_REPLAY);
    attempt_fini(&old);
    assert_int_equal(check_counts(bed), 1);
    engine_free(engine);
}

static void no_replay_under_a_former_name_outlives_its_record(void **state)
{
    struct bed *bed = *state;
    struct engine *engine = engine_new(bed->store, 65536);
    struct attempt old = attempt_of(engine, "old"), new = attempt_of(engine, "new");
    assert_int_equal(begin(bed, engine, &old), ENGINE_PROCEED);
    assert_int_equal(write_done(bed, engine, &old, STORE_FINISH), ENGINE_STORED);
    assert_int_equal(begin(bed, engine, &new), ENGINE_REPLAY);
    attempt_fini(&new);
    size_t n_former = new.n_former;
    new.n_former = 0;
    assert_int_equal(begin(bed, engine, &new), ENGINE_PROCEED);
    assert_int_equal(write_done(bed, engine, &new, STORE_RELEASE), ENGINE_STORED);
    new.n_former = n_former;
    struct store_op forget = {.kind = STORE_FORGET, .key_hash = old.key_hash};
    run(bed, &forget);
    assert_int_equal(forget.result.write, RECORD_WRITTEN);
    assert_int_equal(begin(bed, engine, &new), ENGINE_PROCEED);
    assert_true(digest_eq(&new.record_hash, &new.key_hash));
    engine_free(engine);
}

/* ---- how the key was spelled to the service ---- */

static struct store_op sent_as(struct slice word)
{
    static const struct slice origins[] = {{"POST /r\na\nc\nt\n", 15},
                                           {"POST /r\na\nc\nt\tbare\n", 20},
                                           {"POST /r\na\nc\nt\tquoted\n", 22}};
    struct store_op op = begin_on(1);
    op.begin.unknown = RECORD_UNKNOWN_RETRY;
    op.arrival.origin = origins[word.len == 0 ? 0 : word.len == 4 ? 1 : 2];
    return op;
}

static int64_t proceed_as(struct bed *bed, struct slice word, enum key_forward spelling)
{
    struct store_op op = sent_as(word);
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROCEED);
    assert_int_equal(op.result.spelling, spelling);
    return op.result.record.token;
}

static void what_is_in_doubt_keeps_the_spelling_that_was_sent(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed_as(bed, SLICE("bare"), KEY_FORWARD_BY_SYNTAX);
    for (int i = 0; i < 3; i++) {
        act(bed, 1, STORE_DOUBT, token);
        token = proceed_as(bed, SLICE("quoted"), KEY_FORWARD_BARE);
    }
    struct store_op op = sent_as(SLICE("quoted"));
    act(bed, 1, STORE_DOUBT, token);
    op.begin.unknown = RECORD_UNKNOWN_PROBE;
    run(bed, &op);
    assert_int_equal(op.result.verdict, RECORD_PROBE);
    assert_int_equal(op.result.spelling, KEY_FORWARD_BARE);
    assert_int_equal(act(bed, 1, STORE_RELEASE_SETTLED, op.result.record.token), RECORD_WRITTEN);
    proceed_as(bed, SLICE("quoted"), KEY_FORWARD_BY_SYNTAX);
}

static void what_surely_did_not_happen_is_spelled_as_the_rule_does_by_now(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed_as(bed, SLICE("bare"), KEY_FORWARD_BY_SYNTAX);
    act(bed, 1, STORE_RELEASE, token);
    token = proceed_as(bed, SLICE("quoted"), KEY_FORWARD_BY_SYNTAX);
    act(bed, 1, STORE_DOUBT, token);
    proceed_as(bed, SLICE("bare"), KEY_FORWARD_QUOTED);
}

static void a_record_in_doubt_from_before_spellings_were_kept_has_none(void **state)
{
    struct bed *bed = *state;
    int64_t token = proceed_as(bed, SLICE(""), KEY_FORWARD_BY_SYNTAX);
    for (int i = 0; i < 2; i++) {
        act(bed, 1, STORE_DOUBT, token);
        token = proceed_as(bed, SLICE("quoted"), KEY_FORWARD_BY_SYNTAX);
    }
}

int main(void)
{
    struct CMUnitTest tests[] = {
        BED_TEST(an_outcome_under_a_former_name_is_replayed),
        BED_TEST(an_unknown_record_under_a_former_name_stays_unknown),
        BED_TEST(another_payload_under_a_former_name_is_a_mismatch),
        BED_TEST(a_duplicate_waits_for_the_first_attempt_under_a_former_name),
        BED_TEST(what_was_released_under_a_former_name_proceeds_there_under_a_higher_token),
        BED_TEST(what_goes_on_under_a_former_name_says_by_which_key_it_was_sent),
        BED_TEST(without_a_record_a_new_one_gets_the_new_name),
        BED_TEST(what_is_in_doubt_keeps_the_spelling_that_was_sent),
        BED_TEST(what_surely_did_not_happen_is_spelled_as_the_rule_does_by_now),
        BED_TEST(a_record_in_doubt_from_before_spellings_were_kept_has_none),
        BED_TEST(a_record_under_the_new_name_goes_before_all_former_ones),
        BED_TEST(a_waiter_whose_former_record_is_forgotten_begins_under_the_new_name),
        BED_TEST(of_the_old_and_the_new_name_in_one_batch_one_proceeds),
#ifdef PAWL_HOOKS
        BED_TEST(an_expired_former_record_makes_room_for_a_new_one),
#endif
        BED_TEST(an_attempt_writes_to_the_record_it_was_decided_on),
        BED_TEST(no_replay_under_a_former_name_outlives_its_record),
    };
    return bed_run(tests, sizeof tests / sizeof *tests);
}
