/* SPDX-License-Identifier: Apache-2.0 */
/* What a participant stores inside its own transaction, and what may still become of it. */
#include "record_states.h"

#include "core/once.h"

static const struct record_final created = {RECORD_COMPLETE, 201, true};

static void what_a_participant_stores_is_provisional_while_its_owner_may_fill_it_in(void **unused)
{
    (void)unused;
    struct record record = make(LIVE, RECORD_UNKNOWN_PARTICIPANT);
    record.once_ttl_us = TTL;
    assert_int_equal(record_complete(&record, TOKEN, &created, NOW), RECORD_WRITTEN);
    assert_true(record_is_sound(&record));
    assert_true(record.provisional && record.lease_until == NOW + 1);
    assert_int_equal(record.completed_at, NOW);
    assert_false(record_is_absent(&record, NOW + 2 * TTL));
    assert_int_equal(record_row_until(&record), CLOCK_NEVER);
    assert_int_equal(record_body_until(&record), CLOCK_NEVER);
    struct record_world world = world_now(NOW + 2 * TTL);
    assert_false(record_in_doubt(&record, record_lease(&record, &world, NULL)));
}

static void what_it_stores_once_the_owner_has_given_up_stands_at_once(void **unused)
{
    (void)unused;
    const enum state given_up[] = {RELEASED, RELEASED_IN_DOUBT, UNKNOWN};
    for (size_t i = 0; i < 3; i++) {
        struct record record = make(given_up[i], RECORD_UNKNOWN_HOLD);
        assert_int_equal(record_complete(&record, TOKEN, &created, NOW), RECORD_WRITTEN);
        assert_false(record.provisional);
        assert_int_equal(record.expires_at, NOW + TTL);
    }
}

static void the_owner_fills_it_in_once_also_when_its_lease_has_lapsed(void **unused)
{
    (void)unused;
    const enum state states[] = {PROVISIONAL, OWN_PROVISIONAL, LAPSED_PROVISIONAL};
    for (size_t i = 0; i < 3; i++) {
        struct record record = make(states[i], RECORD_UNKNOWN_PARTICIPANT);
        record.completed_at = NOW - 1;
        assert_int_equal(record_finish(&record, TOKEN, &created, NOW), RECORD_WRITTEN);
        assert_true(record_is_sound(&record));
        assert_false(record.provisional);
        assert_int_equal(record.lease_until, 0);
        assert_int_equal(record.completed_at, NOW - 1);
        assert_int_equal(record.expires_at, NOW + TTL);
        struct record filled = record;
        assert_int_equal(record_finish(&record, TOKEN, &created, NOW + 1), RECORD_ALREADY);
        assert_true(same_bytes(&record, &filled));
    }
}

static void an_answer_that_is_not_kept_leaves_that_there_was_one(void **unused)
{
    (void)unused;
    struct record record = make(OWN_PROVISIONAL, RECORD_UNKNOWN_PARTICIPANT);
    struct record_final final = {RECORD_COMPLETE, 201, false};
    assert_int_equal(record_finish(&record, TOKEN, &final, NOW), RECORD_WRITTEN);
    struct record_world world = world_now(NOW);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PARTICIPANT);
    bool changed = true;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_RESULT_NOT_KEPT);
    assert_false(changed);
}

static void where_the_status_differs_the_participants_stands(void **unused)
{
    (void)unused;
    const struct record_final others[] = {
        {RECORD_COMPLETE, 200, true}, {RECORD_FAILED, 422, true}, {RECORD_COMPLETE, 200, false}};
    for (size_t i = 0; i < 3; i++) {
        struct record record = make(OWN_PROVISIONAL, RECORD_UNKNOWN_PARTICIPANT);
        assert_int_equal(record_finish(&record, TOKEN, &others[i], NOW), RECORD_ALREADY);
        assert_false(record.provisional);
        assert_int_equal(record.status, RECORD_COMPLETE);
        assert_int_equal(record.http_status, 201);
        assert_true(record.kept);
    }
}

static void the_first_replay_freezes_it_and_a_fill_in_comes_too_late(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PARTICIPANT);
    struct record record = make(LAPSED_PROVISIONAL, RECORD_UNKNOWN_PARTICIPANT);
    bool changed = false;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_REPLAY);
    assert_true(changed && !record.provisional);
    assert_int_equal(record.expires_at, NOW + TTL);
    struct record frozen = record;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_REPLAY);
    assert_false(changed);
    assert_int_equal(record_finish(&record, TOKEN, &created, NOW), RECORD_ALREADY);
    assert_true(same_bytes(&record, &frozen));
}

/* Nothing that was replaced can commit: whoever looks need not wait for silence. */
static void under_participant_no_doubt_waits_until_it_is_quiet(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = make(LAPSED, RECORD_UNKNOWN_PARTICIPANT);
    record.settle_us = SETTLE;
    struct record doubted = record;
    assert_int_equal(record_release_settled(&record, TOKEN, NOW, false, &world), RECORD_WRITTEN);
    assert_int_equal(record_doubt(&doubted, TOKEN, NOW), RECORD_WRITTEN);
    assert_int_equal(doubted.quiet_at, 0);
    assert_true(record_is_released(&doubted) && doubted.doubt);
    assert_int_equal(record_forget(&doubted, TOKEN, false, &world), RECORD_WRITTEN);
}

/* The rule of today does not know participants. */
static void what_began_under_participant_is_held_as_anything_else(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    struct record record = make(LAPSED, RECORD_UNKNOWN_PARTICIPANT);
    begin.settle_us = SETTLE;
    bool changed = false;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_OUTCOME_UNKNOWN);
    assert_int_equal(record.unknown, RECORD_UNKNOWN_HOLD);
    assert_int_equal(record.quiet_at, NOW + SETTLE);
}

/* ---- its once value ---- */

static struct once_decision ask(struct record *holder, bool same, bool reject)
{
    struct record_begin begin = a_begin(RECORD_UNKNOWN_PARTICIPANT);
    struct record_world world = world_now(NOW);
    struct once_question question = {
        .begin = &begin, .world = &world, .next_token = NEXT, .same = same, .reject = reject};
    return once_decide(holder, &question);
}

static void a_value_whose_holder_was_given_up_is_frozen_where_its_answer_is_told(void **unused)
{
    (void)unused;
    struct record holder = make(LAPSED_PROVISIONAL, RECORD_UNKNOWN_PARTICIPANT);
    holder.once_ttl_us = TTL;
    holder.once_until = CLOCK_NEVER;
    struct record before = holder;
    assert_int_equal(ask(&holder, true, true).verdict, RECORD_DUPLICATE);
    assert_int_equal(ask(&holder, false, false).verdict, RECORD_MISMATCH);
    assert_true(same_bytes(&holder, &before));
    struct once_decision answer = ask(&holder, true, false);
    assert_int_equal(answer.verdict, RECORD_REPLAY);
    assert_int_equal(answer.act, ONCE_BIND);
    assert_true(answer.changed && !holder.provisional);
    assert_int_equal(holder.once_until, NOW + TTL);
    assert_true(record_is_sound(&holder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_participant_stores_is_provisional_while_its_owner_may_fill_it_in),
        cmocka_unit_test(what_it_stores_once_the_owner_has_given_up_stands_at_once),
        cmocka_unit_test(the_owner_fills_it_in_once_also_when_its_lease_has_lapsed),
        cmocka_unit_test(an_answer_that_is_not_kept_leaves_that_there_was_one),
        cmocka_unit_test(where_the_status_differs_the_participants_stands),
        cmocka_unit_test(the_first_replay_freezes_it_and_a_fill_in_comes_too_late),
        cmocka_unit_test(under_participant_no_doubt_waits_until_it_is_quiet),
        cmocka_unit_test(what_began_under_participant_is_held_as_anything_else),
        cmocka_unit_test(a_value_whose_holder_was_given_up_is_frozen_where_its_answer_is_told),
    };
    return cmocka_run_group_tests_name("participant", tests, NULL, NULL);
}
