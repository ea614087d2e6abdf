/* SPDX-License-Identifier: Apache-2.0 */
/* fate: `remember`, `not_done` and `in_doubt` over every status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/fate.h"

static const enum fate_remember remembers[] = {FATE_REMEMBER_FINAL, FATE_REMEMBER_SUCCESS,
                                               FATE_REMEMBER_ALL};
static const enum record_unknown unknowns[] = {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_RETRY,
                                               RECORD_UNKNOWN_PROBE};

/* The sentence of contract section 5, written down a second time. */
static bool is_redirect(int status)
{
    return status == 301 || status == 307 || status == 308;
}

static enum fate_sort wanted(enum fate_remember remember, int status)
{
    if (is_redirect(status))
        return FATE_SORT_NOT_DONE;
    if (remember == FATE_REMEMBER_ALL)
        return FATE_SORT_FINAL;
    switch (status) {
    case 401:
    case 403:
    case 407:
    case 408:
    case 425:
    case 429:
    case 503:
    case 508:
        return FATE_SORT_NOT_DONE;
    case 500:
    case 502:
    case 504:
        return FATE_SORT_IN_DOUBT;
    default:
        break;
    }
    bool refused = status >= 400 && status <= 499;
    return remember == FATE_REMEMBER_SUCCESS && refused ? FATE_SORT_NOT_DONE : FATE_SORT_FINAL;
}

/* found: C-C2, E-F1 */
static void every_status_has_its_sort_under_every_policy(void **state)
{
    (void)state;
    for (size_t r = 0; r < 3; r++) {
        struct fate_policy policy = fate_policy_of(remembers[r]);
        for (int status = 100; status <= 999; status++)
            assert_int_equal(fate_policy_sort(&policy, status), wanted(remembers[r], status));
    }
}

static void a_moved_status_is_where_it_was_put_and_no_other_moves(void **state)
{
    static const enum fate_sort sorts[] = {FATE_SORT_FINAL, FATE_SORT_NOT_DONE, FATE_SORT_IN_DOUBT};
    (void)state;
    for (int moved = FATE_STATUS_LEAST; moved <= FATE_STATUS_MOST; moved++) {
        struct fate_policy before = fate_policy_of(remembers[moved % 3]);
        struct fate_policy policy = before;
        fate_policy_move(&policy, moved, sorts[moved / 3 % 3]);
        for (int status = FATE_STATUS_LEAST; status <= FATE_STATUS_MOST; status++)
            assert_int_equal(fate_policy_sort(&policy, status),
                             status == moved ? sorts[moved / 3 % 3]
                                             : fate_policy_sort(&before, status));
    }
}

/* Each sort leads to one write, whatever the status: a final 4xx is `failed`. */
static enum fate_write write_of(enum fate_sort sort, int status)
{
    if (sort == FATE_SORT_NOT_DONE)
        return is_redirect(status) ? FATE_DROP : FATE_RELEASE;
    if (sort == FATE_SORT_IN_DOUBT)
        return FATE_DOUBT;
    return status / 100 == 4 ? FATE_FAIL : FATE_COMPLETE;
}

static void what_is_stored_of_an_answer_follows_its_sort(void **state)
{
    (void)state;
    for (size_t r = 0; r < 3; r++) {
        for (size_t u = 0; u < 3; u++) {
            struct fate_policy policy = fate_policy_of(remembers[r]);
            for (int status = 100; status <= 999; status++) {
                struct fate fate =
                    fate_of_exchange(EXCHANGE_RESPONDED, status, false, unknowns[u], &policy);
                bool asks = fate.write == FATE_DOUBT && unknowns[u] == RECORD_UNKNOWN_PROBE;
                assert_int_equal(fate.write, write_of(fate_policy_sort(&policy, status), status));
                assert_int_equal(fate.tell, asks ? FATE_PROBE : FATE_TELL_ANSWER);
            }
        }
    }
}

static void a_providers_duplicate_is_final_under_every_policy(void **state)
{
    (void)state;
    for (size_t r = 0; r < 3; r++) {
        struct fate_policy policy = fate_policy_of(remembers[r]);
        fate_policy_move(&policy, 200, FATE_SORT_IN_DOUBT);
        fate_policy_move(&policy, 409, FATE_SORT_NOT_DONE);
        assert_int_equal(
            fate_of_exchange(EXCHANGE_RESPONDED, 200, true, RECORD_UNKNOWN_HOLD, &policy).write,
            FATE_COMPLETE);
        assert_int_equal(
            fate_of_exchange(EXCHANGE_RESPONDED, 409, true, RECORD_UNKNOWN_HOLD, &policy).write,
            FATE_FAIL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_sort_under_every_policy),
        cmocka_unit_test(a_moved_status_is_where_it_was_put_and_no_other_moves),
        cmocka_unit_test(what_is_stored_of_an_answer_follows_its_sort),
        cmocka_unit_test(a_providers_duplicate_is_final_under_every_policy),
    };
    return cmocka_run_group_tests_name("fate_policy", tests, NULL, NULL);
}
