/* SPDX-License-Identifier: Apache-2.0 */
/* When the prober looks for what dead owners left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "prober/round.h"

#define S CLOCK_US_PER_S
#define NOW (INT64_C(1000) * S)

static void nothing_is_looked_for_while_no_lease_has_lapsed(void **state)
{
    struct round round = {0};
    (void)state;
    assert_false(round_is_due(&round, NOW, 0));
    assert_true(round_is_due(&round, NOW, 1));
}

static void a_round_that_found_none_rests_for_a_minute(void **state)
{
    struct round round = {0};
    (void)state;
    round_note(&round, false, false, NOW, 2);
    assert_true(round_is_due(&round, NOW + S, 2));
    round_note(&round, false, true, NOW + S, 2);
    assert_false(round_is_due(&round, NOW + 2 * S, 2));
    assert_false(round_is_due(&round, NOW + 61 * S - 1, 2));
    assert_true(round_is_due(&round, NOW + 61 * S, 2));
}

static void a_round_that_found_one_is_followed_by_the_next(void **state)
{
    struct round round = {0};
    (void)state;
    round_note(&round, true, false, NOW, 2);
    round_note(&round, false, true, NOW + S, 2);
    assert_true(round_is_due(&round, NOW + 2 * S, 2));
    round_note(&round, false, true, NOW + 2 * S, 2); /* the next finds none */
    assert_false(round_is_due(&round, NOW + 3 * S, 2));
}

static void a_lease_that_lapses_or_is_settled_ends_the_rest(void **state)
{
    struct round round = {0};
    (void)state;
    round_note(&round, false, true, NOW, 2);
    assert_true(round_is_due(&round, NOW + S, 3));
    assert_true(round_is_due(&round, NOW + S, 1));
    round_note(&round, false, false, NOW + S, 3); /* and the round goes on to its end */
    assert_true(round_is_due(&round, NOW + 2 * S, 3));
    round_note(&round, false, true, NOW + 2 * S, 3);
    assert_false(round_is_due(&round, NOW + 3 * S, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_looked_for_while_no_lease_has_lapsed),
        cmocka_unit_test(a_round_that_found_none_rests_for_a_minute),
        cmocka_unit_test(a_round_that_found_one_is_followed_by_the_next),
        cmocka_unit_test(a_lease_that_lapses_or_is_settled_ends_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
