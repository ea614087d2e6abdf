/* SPDX-License-Identifier: Apache-2.0 */
/* Begins of callers that look themselves whether what has lapsed still runs. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_first_overtakes_no_other_token_than_the_one_it_has_looked_at),
        cmocka_unit_test(the_same_attempt_that_asks_first_still_gets_its_own_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
