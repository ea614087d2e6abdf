/* SPDX-License-Identifier: Apache-2.0 */
/* `unknown: {hold: 10m}`: when a hold ends, what it is then, and who ends it. */
#include "record_states.h"

#define HOLD (600 * SECOND)

static struct record held(enum state state, enum record_unknown unknown, int64_t hold_us)
{
    struct record record = make(state, unknown);
    record.hold_us = hold_us;
    record.settle_us = SETTLE;
    if (state == UNKNOWN)
        record.quiet_at = NOW + 5 * SECOND;
    return record;
}

static struct record_begin under(enum record_unknown unknown, int64_t hold_us)
{
    struct record_begin begin = a_begin(unknown);
    begin.hold_us = hold_us;
    return begin;
}

static int64_t end_of(const struct record *record, const struct record_begin *begin)
{
    struct record_world world = world_now(NOW);
    return record_held_until(record, begin, record_lease(record, &world, NULL));
}

static void the_longer_one_of_the_records_hold_and_of_todays_rule_counts(void **unused)
{
    (void)unused;
    static const struct {
        enum record_unknown mine, today;
        int64_t hold_us, today_us, want; /* `want`: behind quiet_at; 0: never */
    } rows[] = {
        {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_HOLD, HOLD, SECOND, HOLD},
        {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_HOLD, SECOND, HOLD, HOLD},
        {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_HOLD, 0, HOLD, 0},
        {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_HOLD, HOLD, 0, 0},
        {RECORD_UNKNOWN_PROBE, RECORD_UNKNOWN_HOLD, 0, HOLD, 0},
        {RECORD_UNKNOWN_PROBE, RECORD_UNKNOWN_HOLD, HOLD, HOLD, 0},
        {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_PROBE, HOLD, HOLD, 0},
        {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_RETRY, HOLD, 0, HOLD},
        {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_PARTICIPANT, HOLD, 0, HOLD},
        {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_RETRY, 0, 0, 0},
        {RECORD_UNKNOWN_PROBE, RECORD_UNKNOWN_RETRY, HOLD, 0, 0},
        {RECORD_UNKNOWN_RETRY, RECORD_UNKNOWN_PARTICIPANT, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct record record = held(UNKNOWN, rows[i].mine, rows[i].hold_us);
        struct record_begin begin = under(rows[i].today, rows[i].today_us);
        int64_t want = rows[i].want ? record.quiet_at + rows[i].want : CLOCK_NEVER;
        if (end_of(&record, &begin) != want)
            fail_msg("row %zu: %lld", i, (long long)end_of(&record, &begin));
        record.odd = true;
        assert_true(end_of(&record, &begin) == CLOCK_NEVER);
    }
}

static void what_lapsed_is_held_from_when_nobody_can_be_sending_any_more(void **unused)
{
    (void)unused;
    struct record_begin begin = under(RECORD_UNKNOWN_HOLD, HOLD);
    struct record lapsed = held(LAPSED, RECORD_UNKNOWN_HOLD, HOLD);
    assert_true(end_of(&lapsed, &begin) == NOW + SETTLE + HOLD);
    begin.settle_us = 2 * SETTLE;
    assert_true(end_of(&lapsed, &begin) == NOW + 2 * SETTLE + HOLD);
    lapsed.quiet_at = NOW + 3 * SETTLE;
    assert_true(end_of(&lapsed, &begin) == NOW + 3 * SETTLE + HOLD);
    /* What began under `retry` or by a participant, and is met by a rule that holds. */
    lapsed = held(LAPSED, RECORD_UNKNOWN_PARTICIPANT, 0);
    assert_true(end_of(&lapsed, &begin) == NOW + 2 * SETTLE + HOLD);
    /* A probe has no effect. */
    struct record probe = held(LAPSED_PROBE, RECORD_UNKNOWN_HOLD, HOLD);
    probe.quiet_at = NOW - SECOND;
    assert_true(end_of(&probe, &begin) == NOW - SECOND + HOLD);
    for (enum state state = ABSENT; state < STATES; state++) {
        struct record other = held(state, RECORD_UNKNOWN_HOLD, HOLD);
        if (state != LAPSED && state != LAPSED_PROBE && state != UNKNOWN)
            assert_true(end_of(&other, &begin) == CLOCK_NEVER);
    }
}

static enum record_verdict begin_at(struct record *record, const struct record_begin *begin,
                                    int64_t now, bool *ret_changed)
{
    struct record_world world = world_now(now);
    enum record_verdict verdict = record_begin(record, begin, &world, NEXT, ret_changed);
    assert_true(record_is_sound(record));
    return verdict;
}

static void at_its_end_the_next_begin_proceeds_without_a_doubt(void **unused)
{
    (void)unused;
    static const enum state states[] = {UNKNOWN, LAPSED, LAPSED_PROBE};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        struct record_begin begin = under(RECORD_UNKNOWN_HOLD, HOLD);
        struct record met = held(states[i], RECORD_UNKNOWN_HOLD, SECOND), record = met;
        int64_t end = end_of(&met, &begin);
        bool changed;
        assert_int_equal(begin_at(&record, &begin, end - 1, &changed), RECORD_OUTCOME_UNKNOWN);
        record = met;
        assert_int_equal(begin_at(&record, &begin, end, &changed), RECORD_PROCEED);
        assert_true(changed && !record.doubt && record_outlived_hold(&met, &record));
        assert_int_equal(record.cause, RECORD_CAUSE_HOLD_ENDED);
        assert_true(record.token == NEXT && record.attempts == met.attempts + 1);
        assert_true(record.hold_us == HOLD && record.created_at == met.created_at);
    }
}

static void who_acquires_nothing_ends_nothing(void **unused)
{
    (void)unused;
    struct record_begin begin = under(RECORD_UNKNOWN_HOLD, HOLD);
    struct record met = held(UNKNOWN, RECORD_UNKNOWN_HOLD, HOLD), record = met;
    int64_t end = end_of(&met, &begin);
    bool changed;
    begin.spent = true;
    assert_int_equal(begin_at(&record, &begin, end, &changed), RECORD_OUTCOME_UNKNOWN);
    assert_true(!changed && same_bytes(&record, &met));
    begin.spent = false;
    begin.payload_hash = hash_of(9);
    assert_int_equal(begin_at(&record, &begin, end, &changed), RECORD_MISMATCH);
    assert_true(!changed && same_bytes(&record, &met));
    begin.recipe_differs = true;
    assert_int_equal(begin_at(&record, &begin, end, &changed), RECORD_OTHER_RECIPE);
    assert_true(!changed && same_bytes(&record, &met));
    begin.replaces = true;
    assert_int_equal(begin_at(&record, &begin, end, &changed), RECORD_PROCEED);
    assert_true(changed && record.attempts == 1 && record_outlived_hold(&met, &record));
}

static void its_ttl_runs_from_the_end(void **unused)
{
    (void)unused;
    struct record_begin begin = under(RECORD_UNKNOWN_HOLD, HOLD);
    struct record met = held(UNKNOWN, RECORD_UNKNOWN_HOLD, HOLD), record = met;
    int64_t end = end_of(&met, &begin);
    struct record_world world = world_now(end + SECOND);
    bool changed;
    assert_int_equal(record_end_hold(&record, TOKEN, &begin, &world), RECORD_WRITTEN);
    assert_true(record_is_released(&record) && !record.doubt && record.expires_at == end + TTL);
    assert_int_equal(record.cause, RECORD_CAUSE_HOLD_ENDED);
    assert_int_equal(record_end_hold(&record, TOKEN, &begin, &world), RECORD_ALREADY);
    record = met;
    assert_int_equal(begin_at(&record, &begin, end + TTL, &changed), RECORD_PROCEED);
    assert_true(record.attempts == 1 && record.created_at == end + TTL);
}

static void only_what_is_over_is_ended_and_by_its_token(void **unused)
{
    (void)unused;
    struct record_begin begin = under(RECORD_UNKNOWN_HOLD, HOLD);
    struct record met = held(UNKNOWN, RECORD_UNKNOWN_HOLD, HOLD), record = met;
    struct record_world before = world_now(end_of(&met, &begin) - 1);
    struct record_world after = world_now(end_of(&met, &begin));
    assert_int_equal(record_end_hold(&record, TOKEN, &begin, &before), RECORD_EARLY);
    assert_int_equal(record_end_hold(&record, TOKEN - 1, &begin, &after), RECORD_STALE);
    begin.unknown = RECORD_UNKNOWN_PROBE;
    assert_int_equal(record_end_hold(&record, TOKEN, &begin, &after), RECORD_EARLY);
    assert_true(same_bytes(&record, &met));
    record = held(COMPLETE, RECORD_UNKNOWN_HOLD, HOLD);
    assert_int_equal(record_end_hold(&record, TOKEN, &begin, &before), RECORD_STALE);
}

static void a_late_response_counts_until_somebody_acquires(void **unused)
{
    (void)unused;
    struct record_begin begin = under(RECORD_UNKNOWN_HOLD, HOLD);
    struct record record = held(UNKNOWN, RECORD_UNKNOWN_HOLD, HOLD);
    int64_t end = end_of(&record, &begin);
    struct record_world world = world_now(end);
    struct record_final done = {RECORD_COMPLETE, 201, true};
    bool changed;
    assert_int_equal(record_end_hold(&record, TOKEN, &begin, &world), RECORD_WRITTEN);
    struct record late = record;
    assert_int_equal(record_finish(&late, TOKEN, &done, end), RECORD_WRITTEN);
    assert_int_equal(begin_at(&record, &begin, end, &changed), RECORD_PROCEED);
    assert_int_equal(record_finish(&record, TOKEN, &done, end), RECORD_STALE);
    assert_int_equal(record_finish(&record, NEXT, &done, end), RECORD_WRITTEN);
}

static void a_hold_goes_with_the_policy_it_began_under(void **unused)
{
    (void)unused;
    bool changed;
    struct record record = make(RELEASED, RECORD_UNKNOWN_HOLD);
    struct record_begin begin = under(RECORD_UNKNOWN_RETRY, HOLD);
    assert_int_equal(begin_at(&record, &begin, NOW, &changed), RECORD_PROCEED);
    assert_true(record.hold_us == 0);
    /* Stricter today than when it began: it is held for as long as today's rule says. */
    record = make(RELEASED_IN_DOUBT, RECORD_UNKNOWN_RETRY);
    begin = under(RECORD_UNKNOWN_HOLD, HOLD);
    assert_int_equal(begin_at(&record, &begin, NOW, &changed), RECORD_OUTCOME_UNKNOWN);
    assert_true(record.status == RECORD_UNKNOWN && record.hold_us == HOLD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longer_one_of_the_records_hold_and_of_todays_rule_counts),
        cmocka_unit_test(what_lapsed_is_held_from_when_nobody_can_be_sending_any_more),
        cmocka_unit_test(at_its_end_the_next_begin_proceeds_without_a_doubt),
        cmocka_unit_test(who_acquires_nothing_ends_nothing),
        cmocka_unit_test(its_ttl_runs_from_the_end),
        cmocka_unit_test(only_what_is_over_is_ended_and_by_its_token),
        cmocka_unit_test(a_late_response_counts_until_somebody_acquires),
        cmocka_unit_test(a_hold_goes_with_the_policy_it_began_under),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
