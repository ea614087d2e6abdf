/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that say when they were made: which of them starts a life, and how long that lasts. */
#include "core/once.h"
#include "record_states.h"

#define AGE (600 * SECOND)
#define BEFORE (NOW - AGE)

static struct record_begin of_key(int64_t made_at)
{
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    begin.key_at = made_at;
    begin.key_max_age_us = AGE;
    return begin;
}

static enum record_verdict begin_at(struct record *record, const struct record_begin *begin,
                                    int64_t now, bool *ret_changed)
{
    struct record_world world = world_now(now);
    return record_begin(record, begin, &world, NEXT, ret_changed);
}

static void a_life_starts_only_under_a_key_of_now(void **unused)
{
    (void)unused;
    static const struct {
        int64_t made_at;
        enum record_verdict want;
    } rows[] = {
        {0, RECORD_KEY_EXPIRED},
        {BEFORE - 1, RECORD_KEY_EXPIRED},
        {BEFORE, RECORD_PROCEED},
        {NOW, RECORD_PROCEED},
        {NOW + RECORD_KEY_AHEAD_US, RECORD_PROCEED},
        {NOW + RECORD_KEY_AHEAD_US + 1, RECORD_KEY_AHEAD},
        {INT64_MAX, RECORD_KEY_AHEAD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct record record = make(ABSENT, RECORD_UNKNOWN_HOLD);
        struct record_begin begin = of_key(rows[i].made_at);
        bool changed = false;
        enum record_verdict verdict = begin_at(&record, &begin, NOW, &changed);
        if (verdict != rows[i].want || changed != (verdict == RECORD_PROCEED))
            fail_msg("row %zu: %d", i, (int)verdict);
        begin.key_max_age_us = 0;
        assert_int_equal(record_judge_key(&begin, NOW), RECORD_PROCEED);
    }
}

/* But for what is absent, each state answers as if its key said no time. */
static void what_lives_answers_however_old_its_key_is(void **unused)
{
    (void)unused;
    for (enum state state = ABSENT; state < STATES; state++) {
        struct record plain = make(state, RECORD_UNKNOWN_HOLD), dated = plain;
        struct record_begin old = of_key(0), any = a_begin(RECORD_UNKNOWN_HOLD);
        bool absent = record_is_absent(&plain, NOW), changed = false, changed_too = false;
        enum record_verdict verdict = begin_at(&plain, &any, NOW, &changed);
        enum record_verdict want = absent ? RECORD_KEY_EXPIRED : verdict;
        if (begin_at(&dated, &old, NOW, &changed_too) != want)
            fail_msg("%s", state_name(state));
        assert_true(absent ? !changed_too : changed_too == changed);
    }
}

/* Its bytes went out, and its record is gone: it is not told that nothing was done. */
static void what_was_sent_is_in_doubt_and_not_expired(void **unused)
{
    (void)unused;
    struct record_begin begin = of_key(INT64_MAX);
    struct record record = make(ABSENT, RECORD_UNKNOWN_HOLD);
    bool changed = true;
    begin.spent = true;
    assert_int_equal(begin_at(&record, &begin, NOW, &changed), RECORD_OUTCOME_UNKNOWN);
    assert_false(changed);
}

/* From the first moment at which the key may begin to the last: never a second life. */
static void a_record_lives_for_as_long_as_its_key_may_begin(void **unused)
{
    (void)unused;
    static const int64_t made[] = {BEFORE, NOW, NOW + SECOND, NOW + RECORD_KEY_AHEAD_US};
    for (size_t i = 0; i < 2 * sizeof made / sizeof *made; i++) {
        struct record record = make(ABSENT, RECORD_UNKNOWN_HOLD);
        struct record_begin begin = of_key(made[i / 2]);
        bool changed = false;
        begin.ttl_us = AGE;
        begin.window = i % 2;
        assert_int_equal(begin_at(&record, &begin, NOW, &changed), RECORD_PROCEED);
        struct record_final final = {RECORD_COMPLETE, 201, true};
        assert_int_equal(record_finish(&record, record.token, &final, NOW), RECORD_WRITTEN);
        int64_t last = record.gone_at;
        assert_true(last >= NOW + AGE && last <= NOW + AGE + RECORD_KEY_AHEAD_US + 1);
        assert_int_equal(begin_at(&record, &begin, last - 1, &changed), RECORD_REPLAY);
        assert_int_equal(begin_at(&record, &begin, last, &changed), RECORD_KEY_EXPIRED);
    }
}

static enum once_act act_on(enum state state, const struct record_begin *begin, bool key_lives,
                            enum record_verdict *ret_verdict)
{
    struct record holder = make(state, RECORD_UNKNOWN_HOLD);
    struct record_world world = world_now(NOW);
    struct once_question question = {
        .begin = begin, .world = &world, .next_token = NEXT, .same = true, .key_lives = key_lives};
    struct once_decision decision = once_decide(&holder, &question);
    *ret_verdict = decision.verdict;
    return decision.act;
}

static void nor_does_an_old_key_take_a_once_value(void **unused)
{
    (void)unused;
    struct record_begin old = of_key(0);
    enum record_verdict verdict;
    assert_int_equal(act_on(ABSENT, &old, false, &verdict), ONCE_NOTHING);
    assert_int_equal(verdict, RECORD_KEY_EXPIRED);
    assert_int_equal(act_on(RELEASED, &old, false, &verdict), ONCE_NOTHING);
    assert_int_equal(verdict, RECORD_KEY_EXPIRED);
    assert_int_equal(act_on(RELEASED, &old, true, &verdict), ONCE_REPLACE);
    assert_int_equal(act_on(LIVE, &old, false, &verdict), ONCE_NOTHING);
    assert_int_equal(verdict, RECORD_IN_PROGRESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_starts_only_under_a_key_of_now),
        cmocka_unit_test(what_lives_answers_however_old_its_key_is),
        cmocka_unit_test(what_was_sent_is_in_doubt_and_not_expired),
        cmocka_unit_test(a_record_lives_for_as_long_as_its_key_may_begin),
        cmocka_unit_test(nor_does_an_old_key_take_a_once_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
