/* SPDX-License-Identifier: Apache-2.0 */
/* The holder of a once value, in every state it can be found in (contract section 3, `once`). */
#include "record_states.h"

#include "core/once.h"

/* Who comes, and what its rule does with duplicates. */
enum arrival { SAME, OTHER_PAYLOAD, RECIPE, REJECT, SPENT, ARRIVALS };

struct expected {
    enum once_act act;
    enum record_verdict verdict; /* of a NOTHING, CONTINUE or BIND */
};

#define NOTHING(verdict)                                                                           \
    {                                                                                              \
        ONCE_NOTHING, RECORD_##verdict                                                             \
    }
#define TAKES(act)                                                                                 \
    {                                                                                              \
        ONCE_##act, RECORD_PROCEED                                                                 \
    }
#define BINDS(verdict)                                                                             \
    {                                                                                              \
        ONCE_BIND, RECORD_##verdict                                                                \
    }

/* Of what is neither lapsed, unknown nor released in doubt, whatever the policy. */
static const struct expected settled[STATES][ARRIVALS] = {
    [ABSENT] = {TAKES(TAKE), TAKES(TAKE), TAKES(TAKE), TAKES(TAKE), NOTHING(OUTCOME_UNKNOWN)},
    [RELEASED] = {TAKES(REPLACE), TAKES(REPLACE), TAKES(REPLACE), TAKES(REPLACE),
                  NOTHING(OUTCOME_UNKNOWN)},
    [LIVE] = {NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS),
              NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS)},
    [OWN] = {NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS),
             NOTHING(IN_PROGRESS)},
    [OWN_PROBE] = {NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS),
                   NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS)},
    [COMPLETE] = {BINDS(REPLAY), NOTHING(MISMATCH), NOTHING(OTHER_RECIPE), NOTHING(DUPLICATE),
                  BINDS(REPLAY)},
    [NOT_KEPT] = {BINDS(RESULT_NOT_KEPT), NOTHING(MISMATCH), NOTHING(OTHER_RECIPE),
                  NOTHING(DUPLICATE), BINDS(RESULT_NOT_KEPT)},
    [TOMBSTONE] = {BINDS(RESULT_EXPIRED), NOTHING(MISMATCH), NOTHING(OTHER_RECIPE),
                   NOTHING(DUPLICATE), BINDS(RESULT_EXPIRED)},
    [FAILED] = {TAKES(TAKE), TAKES(TAKE), TAKES(TAKE), TAKES(TAKE), NOTHING(OUTCOME_UNKNOWN)},
    [GONE_FINAL] = {TAKES(TAKE), TAKES(TAKE), TAKES(TAKE), TAKES(TAKE), NOTHING(OUTCOME_UNKNOWN)},
    [GONE_RELEASED] = {TAKES(TAKE), TAKES(TAKE), TAKES(TAKE), TAKES(TAKE),
                       NOTHING(OUTCOME_UNKNOWN)},
    [PROVISIONAL] = {NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS),
                     NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS)},
    [OWN_PROVISIONAL] = {NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS),
                         NOTHING(IN_PROGRESS), NOTHING(IN_PROGRESS)},
    [LAPSED_PROVISIONAL] = {BINDS(REPLAY), NOTHING(MISMATCH), NOTHING(OTHER_RECIPE),
                            NOTHING(DUPLICATE), BINDS(REPLAY)},
};

static bool in_doubt(enum state state)
{
    return state == LAPSED || state == LAPSED_PROBE || state == UNKNOWN ||
           state == RELEASED_IN_DOUBT;
}

/* Under `retry` it goes on, under `probe` it is asked for; only by the same request. */
static struct expected expect_doubt(enum state state, enum arrival arrival,
                                    enum record_unknown policy)
{
    const struct expected unknown = NOTHING(OUTCOME_UNKNOWN), recipe = NOTHING(OTHER_RECIPE);
    bool asks = policy == RECORD_UNKNOWN_PROBE;
    bool goes_on = record_repeats(policy) && state != UNKNOWN;
    if (!asks && !goes_on)
        return arrival == RECIPE && record_repeats(policy) && state == UNKNOWN ? recipe : unknown;
    if (arrival == RECIPE)
        return recipe;
    if (arrival == OTHER_PAYLOAD || arrival == SPENT)
        return unknown;
    return (struct expected){ONCE_CONTINUE, asks ? RECORD_PROBE : RECORD_PROCEED};
}

static void decide_one(enum state state, enum arrival arrival, enum record_unknown policy)
{
    /* Unknown under `retry` is no state: the record then has a stricter policy of its own. */
    bool strict = state == UNKNOWN && record_repeats(policy);
    struct record record = make(state, strict ? RECORD_UNKNOWN_HOLD : policy);
    struct record before = record;
    struct record_begin begin = a_begin(policy);
    struct record_world world = world_now(NOW);
    struct once_question question = {.begin = &begin,
                                     .world = &world,
                                     .next_token = NEXT,
                                     .same = arrival != OTHER_PAYLOAD && arrival != RECIPE,
                                     .recipe_differs = arrival == RECIPE,
                                     .reject = arrival == REJECT};
    begin.spent = arrival == SPENT;
    struct once_decision answer = once_decide(&record, &question);
    enum record_unknown counts = strict ? RECORD_UNKNOWN_HOLD : policy;
    struct expected expected =
        in_doubt(state) ? expect_doubt(state, arrival, counts) : settled[state][arrival];
    if (answer.act != expected.act)
        fail_msg("%s, arrival %d, policy %d: act %d", state_name(state), (int)arrival, (int)policy,
                 (int)answer.act);
    bool told = answer.act != ONCE_TAKE && answer.act != ONCE_REPLACE;
    if (told && answer.verdict != expected.verdict)
        fail_msg("%s, arrival %d, policy %d: verdict %d", state_name(state), (int)arrival,
                 (int)policy, (int)answer.verdict);
    if (!answer.changed && memcmp(&record, &before, sizeof record) != 0)
        fail_msg("%s was changed unsaid", state_name(state));
    if (answer.act == ONCE_CONTINUE)
        assert_int_equal(record.token, NEXT);
    assert_true(record_is_sound(&record));
}

/* found: B-F3 */
static void every_holder_gets_the_contracts_decision(void **state)
{
    (void)state;
    for (enum state s = ABSENT; s < STATES; s++)
        for (enum arrival arrival = SAME; arrival < ARRIVALS; arrival++)
            for (enum record_unknown policy = 0; policy <= RECORD_UNKNOWN_PARTICIPANT; policy++)
                decide_one(s, arrival, policy);
}

static struct record complete(int64_t ttl_us, int64_t once_ttl_us, bool replay)
{
    struct record record = {.status = RECORD_ABSENT};
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    struct record_world world = world_now(NOW);
    struct record_final final = {RECORD_COMPLETE, 201, true};
    bool changed;
    begin.ttl_us = ttl_us;
    begin.once_ttl_us = once_ttl_us;
    begin.once_replay = replay;
    record_begin(&record, &begin, &world, NEXT, &changed);
    assert_int_equal(record_finish(&record, NEXT, &final, NOW), RECORD_WRITTEN);
    return record;
}

static void a_record_stays_while_one_of_its_names_lives(void **state)
{
    (void)state;
    struct record value = complete(10, 20, true), key = complete(20, 10, true);
    assert_true(record_key_is_absent(&value, NOW + 10));
    assert_false(record_is_absent(&value, NOW + 19));
    assert_true(record_is_absent(&value, NOW + 20));
    assert_false(record_is_absent(&key, NOW + 19));
    assert_true(record_is_absent(&key, NOW + 20));
}

static void its_answer_stays_while_one_of_them_may_replay_it(void **state)
{
    (void)state;
    struct record replays = complete(10, 20, true), rejects = complete(10, 20, false);
    assert_int_equal(record_body_until(&replays), NOW + 20);
    assert_int_equal(record_body_until(&rejects), NOW + 10);
    assert_int_equal(record_row_until(&rejects), NOW + RECORD_ROW_LEAST_US);
    rejects.completed_at = NOW - RECORD_ROW_LEAST_US;
    assert_int_equal(record_row_until(&rejects), NOW + 20);
    record_lengthen(&rejects, 10, 0, NOW + 5);
    assert_true(rejects.kept);
    assert_int_equal(record_body_until(&rejects), NOW + 15);
    record_lengthen(&rejects, 10, 0, NOW + 16);
    assert_false(rejects.kept);
}

/* Who waited for it inside its window must find it complete. */
static void a_value_outlasts_those_who_wait_for_it(void **state)
{
    (void)state;
    struct record record = {.status = RECORD_ABSENT};
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    struct record_world world = world_now(NOW);
    struct record_final final = {RECORD_COMPLETE, 201, true};
    bool changed;
    begin.once_ttl_us = 10;
    begin.once_window = true;
    begin.least_us = 30;
    record_begin(&record, &begin, &world, NEXT, &changed);
    assert_int_equal(record_finish(&record, NEXT, &final, NOW + 20), RECORD_WRITTEN);
    assert_int_equal(record.once_until, NOW + 50);
}

static void a_failed_record_holds_no_value(void **state)
{
    (void)state;
    struct record record = complete(10, 20, true);
    record.status = RECORD_PENDING;
    record.once_until = 0;
    struct record_final final = {RECORD_FAILED, 422, true};
    assert_int_equal(record_finish(&record, NEXT, &final, NOW), RECORD_WRITTEN);
    assert_true(record_is_absent(&record, NOW + 10));
}

static void what_is_in_doubt_never_frees_its_value(void **state)
{
    (void)state;
    struct record record = {.status = RECORD_ABSENT};
    struct record_begin begin = a_begin(RECORD_UNKNOWN_RETRY);
    struct record_world world = world_now(NOW);
    bool changed;
    begin.once_ttl_us = TTL;
    record_begin(&record, &begin, &world, NEXT, &changed);
    assert_int_equal(record_doubt(&record, NEXT, NOW), RECORD_WRITTEN);
    assert_false(record_is_absent(&record, CLOCK_NEVER - 1));
    record_release_settled(&record, NEXT, NOW + SETTLE, true, &world);
    assert_true(record_is_absent(&record, NOW + TTL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_holder_gets_the_contracts_decision),
        cmocka_unit_test(a_record_stays_while_one_of_its_names_lives),
        cmocka_unit_test(its_answer_stays_while_one_of_them_may_replay_it),
        cmocka_unit_test(a_value_outlasts_those_who_wait_for_it),
        cmocka_unit_test(a_failed_record_holds_no_value),
        cmocka_unit_test(what_is_in_doubt_never_frees_its_value),
    };
    return cmocka_run_group_tests_name("once", tests, NULL, NULL);
}
