/* SPDX-License-Identifier: Apache-2.0 */
/* The mutants of docs/model that attempts and operators can express: the simulation must notice
 * each, by the property that the model names. What a record or a store would have to do wrong is
 * left to the tests of the record and to scripts/mutants. */
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SEEDS 20
#define STEPS_EACH 300000

static bool is_noticed_in(struct sim_config config, enum sim_mutant mutant, unsigned properties)
{
    bool noticed = false;
    config.mutant = mutant;
    config.notes = true;
    for (uint64_t seed = 1; seed <= SEEDS && !noticed; seed++) {
        config.seed = seed;
        struct sim *sim = sim_new(&config);
        while (sim->step < STEPS_EACH && !(sim->broken & properties))
            sim_step(sim);
        noticed = sim->broken & properties;
        if (noticed)
            print_message("noticed with seed %d at step %d\n", (int)seed, (int)sim->step);
        sim_free(sim);
    }
    return noticed;
}

static bool is_noticed(enum sim_mutant mutant, unsigned properties)
{
    return is_noticed_in((struct sim_config){.once = false}, mutant, properties);
}

/* Where the rules have once values. */
static bool is_noticed_by_value(enum sim_mutant mutant, unsigned properties)
{
    return is_noticed_in((struct sim_config){.once = true}, mutant, properties);
}

/* Where the upstreams are participants. */
static bool is_noticed_by_participant(enum sim_mutant mutant, unsigned properties)
{
    return is_noticed_in((struct sim_config){.participants = true}, mutant, properties);
}

/* The mutants' control. */
static void without_a_mutant_nothing_is_noticed(void **state)
{
    (void)state;
    assert_false(is_noticed(SIM_NO_MUTANT, ~0u));
    assert_false(is_noticed_by_value(SIM_NO_MUTANT, ~0u));
    assert_false(is_noticed_by_participant(SIM_NO_MUTANT, ~0u));
}

static void a_dropped_send_check_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_SEND_UNCHECKED, SIM_ONE_EFFECT));
}

static void a_release_on_a_doubtful_5xx_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_DOUBT_RELEASES, SIM_ONE_EFFECT));
}

static void a_404_that_is_believed_at_once_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_NOT_FOUND_FINAL, SIM_ONE_EFFECT));
}

static void a_settle_time_that_is_not_kept_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_NO_SETTLE_TIME, SIM_ONE_EFFECT));
}

static void a_look_dated_by_its_answer_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_LOOK_MISDATED, SIM_ONE_EFFECT));
}

static void a_probe_under_the_token_of_its_own_lost_request_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_OWN_PROBE, SIM_ONE_EFFECT));
}

static void a_stale_owner_that_tells_its_own_answer_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_STALE_TELLS, SIM_ONE_OUTCOME | SIM_DURABLE));
}

static void an_outcome_told_before_its_commit_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_TOLD_EARLY, SIM_DURABLE));
}

static void a_disconnect_that_releases_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_CANCEL_RELEASES, SIM_ONE_EFFECT));
}

static void a_release_after_a_store_error_on_complete_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_ERROR_RELEASES, SIM_ONE_EFFECT));
}

static void a_request_sent_after_a_store_error_on_begin_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_ERROR_SENDS, SIM_DURABLE));
}

static void an_exchange_that_sends_once_more_under_a_new_record_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_RESEND, SIM_ONE_EFFECT));
}

static void a_later_try_that_undoes_the_doubt_of_an_earlier_one_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed_by_value(SIM_MUTANT_TRY_WASHES, SIM_ONE_EFFECT));
}

static void a_second_try_in_doubt_under_hold_or_probe_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_TRY_STRICT, SIM_ONE_EFFECT));
}

static void a_record_that_is_gone_before_its_waiters_were_told_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_BORN_EXPIRED, SIM_WAITED));
}

static void an_operator_who_does_not_name_the_token_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed(SIM_MUTANT_UNNAMED_TOKEN, SIM_ONE_EFFECT | SIM_ONE_OUTCOME));
}

static void a_value_that_a_begin_leaves_out_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed_by_value(SIM_MUTANT_NO_VALUE, SIM_ONE_EFFECT));
    assert_true(is_noticed_by_value(SIM_MUTANT_NO_VALUE, SIM_ONE_HOLDER));
}

static void a_renamed_rule_that_forgets_its_former_names_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed_by_value(SIM_MUTANT_NO_FORMER, SIM_ONE_EFFECT));
    assert_true(is_noticed_by_value(SIM_MUTANT_NO_FORMER, SIM_ONE_HOLDER));
}

static void a_value_given_away_on_a_doubtful_5xx_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed_by_value(SIM_MUTANT_DOUBT_RELEASES, SIM_ONE_EFFECT));
}

static void a_participant_that_looks_at_its_token_without_a_lock_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed_by_participant(SIM_MUTANT_PARTICIPANT_UNLOCKED, SIM_ONE_EFFECT));
}

static void a_participant_that_commits_its_effect_before_its_outcome_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed_by_participant(SIM_MUTANT_PARTICIPANT_APART, SIM_ONE_EFFECT));
}

static void an_owner_that_tells_its_own_answer_beside_the_participants_is_noticed(void **state)
{
    (void)state;
    assert_true(is_noticed_by_participant(SIM_MUTANT_STALE_TELLS, SIM_ONE_OUTCOME));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_mutant_nothing_is_noticed),
        cmocka_unit_test(a_dropped_send_check_is_noticed),
        cmocka_unit_test(a_release_on_a_doubtful_5xx_is_noticed),
        cmocka_unit_test(a_404_that_is_believed_at_once_is_noticed),
        cmocka_unit_test(a_settle_time_that_is_not_kept_is_noticed),
        cmocka_unit_test(a_look_dated_by_its_answer_is_noticed),
        cmocka_unit_test(a_probe_under_the_token_of_its_own_lost_request_is_noticed),
        cmocka_unit_test(a_stale_owner_that_tells_its_own_answer_is_noticed),
        cmocka_unit_test(an_outcome_told_before_its_commit_is_noticed),
        cmocka_unit_test(a_disconnect_that_releases_is_noticed),
        cmocka_unit_test(a_release_after_a_store_error_on_complete_is_noticed),
        cmocka_unit_test(a_request_sent_after_a_store_error_on_begin_is_noticed),
        cmocka_unit_test(an_exchange_that_sends_once_more_under_a_new_record_is_noticed),
        cmocka_unit_test(a_later_try_that_undoes_the_doubt_of_an_earlier_one_is_noticed),
        cmocka_unit_test(a_second_try_in_doubt_under_hold_or_probe_is_noticed),
        cmocka_unit_test(a_record_that_is_gone_before_its_waiters_were_told_is_noticed),
        cmocka_unit_test(an_operator_who_does_not_name_the_token_is_noticed),
        cmocka_unit_test(a_value_that_a_begin_leaves_out_is_noticed),
        cmocka_unit_test(a_renamed_rule_that_forgets_its_former_names_is_noticed),
        cmocka_unit_test(a_value_given_away_on_a_doubtful_5xx_is_noticed),
        cmocka_unit_test(a_participant_that_looks_at_its_token_without_a_lock_is_noticed),
        cmocka_unit_test(a_participant_that_commits_its_effect_before_its_outcome_is_noticed),
        cmocka_unit_test(an_owner_that_tells_its_own_answer_beside_the_participants_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
