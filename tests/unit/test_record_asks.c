/* SPDX-License-Identifier: Apache-2.0 */
/* Begins of jobs: they look themselves whether what has lapsed still runs, and a corrected command
 * takes the place of one that failed. */
#include "record_states.h"

#define POLICIES 4
#define N_TOKENS 4

/* As one that does not ask, but for what has lapsed: that is in progress, unless it is the token of
 * which the caller knows that nothing is left. */
static void who_asks_first_overtakes_no_other_token_than_the_one_it_has_looked_at(void **unused)
{
    (void)unused;
    const int64_t tokens[N_TOKENS] = {0, TOKEN, TOKEN - 1, NEXT};
    struct record_world world = world_now(NOW);
    for (int state = 0; state < STATES; state++)
        for (int policy = 0; policy < N_TOKENS * POLICIES; policy++) {
            enum record_unknown mine = (enum record_unknown)(policy % POLICIES);
            int64_t token = tokens[policy / POLICIES];
            if (state == UNKNOWN && record_repeats(mine))
                continue;
            struct record plain = make((enum state)state, mine), asked = plain;
            struct record_begin begin = a_begin(mine);
            bool plain_changed = false, changed = false;
            enum record_verdict wanted = record_begin(&plain, &begin, &world, NEXT, &plain_changed);
            begin.asks_first = true;
            begin.overtakes = token;
            enum record_verdict verdict = record_begin(&asked, &begin, &world, NEXT, &changed);
            bool lapsed = state == LAPSED || state == LAPSED_PROBE;
            if (lapsed && token != TOKEN) {
                wanted = RECORD_IN_PROGRESS;
                plain = make((enum state)state, mine);
                plain_changed = false;
            }
            if (verdict != wanted || changed != plain_changed || !same_bytes(&asked, &plain))
                fail_msg("%s, policy %d: verdict %d", state_name((enum state)state), policy,
                         (int)verdict);
        }
}

static void the_same_attempt_that_asks_first_still_gets_its_own_token(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    struct record record = make(LAPSED, RECORD_UNKNOWN_HOLD);
    struct record_begin begin = a_begin(RECORD_UNKNOWN_HOLD);
    memcpy(begin.attempt_id, record.attempt_id, sizeof begin.attempt_id);
    begin.asks_first = true;
    bool changed = true;
    assert_int_equal(record_begin(&record, &begin, &world, NEXT, &changed), RECORD_PROCEED);
    assert_false(changed);
    assert_int_equal(record.token, TOKEN);
}

/* As one that does not replace, but for another operation under a key that is free. */
static void a_begin_that_replaces_takes_what_was_released_without_a_doubt_and_no_more(void **unused)
{
    (void)unused;
    struct record_world world = world_now(NOW);
    for (int state = 0; state < STATES; state++)
        for (int other = 0; other < 4; other++) {
            struct record plain = make((enum state)state, RECORD_UNKNOWN_RETRY), record = plain;
            struct record_begin begin = a_begin(RECORD_UNKNOWN_RETRY);
            begin.payload_hash = hash_of(other == 1 ? 9 : 1);
            begin.target_hash = hash_of(other == 2 ? 9 : 2);
            begin.recipe_differs = other == 3;
            bool plain_changed = false, changed = false;
            enum record_verdict wanted = record_begin(&plain, &begin, &world, NEXT, &plain_changed);
            begin.replaces = true;
            enum record_verdict verdict = record_begin(&record, &begin, &world, NEXT, &changed);
            bool replaced = state == RELEASED && other > 0;
            assert_int_equal(verdict, replaced ? RECORD_PROCEED : wanted);
            assert_int_equal(changed, replaced || plain_changed);
            assert_true(replaced || same_bytes(&record, &plain));
            if (!replaced)
                continue;
            assert_int_equal(record.token, NEXT);
            assert_int_equal(record.attempts, 1);
            assert_int_equal(record.created_at, NOW);
            assert_true(digest_eq(&record.payload_hash, &begin.payload_hash));
            assert_true(digest_eq(&record.target_hash, &begin.target_hash));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_first_overtakes_no_other_token_than_the_one_it_has_looked_at),
        cmocka_unit_test(a_begin_that_replaces_takes_what_was_released_without_a_doubt_and_no_more),
        cmocka_unit_test(the_same_attempt_that_asks_first_still_gets_its_own_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
