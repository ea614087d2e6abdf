/* SPDX-License-Identifier: Apache-2.0 */
/* disposition: `remember`, `not_done` and `in_doubt` over every status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/retry/disposition.h"

static const enum remember remembers[] = {REMEMBER_FINAL, REMEMBER_SUCCESS, REMEMBER_ALL};
static const enum record_unknown unknowns[] = {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_RETRY,
                                               RECORD_UNKNOWN_PROBE};

/* The sentence of contract section 5, written down a second time. */
static bool is_redirect(int status)
{
    return status == 301 || status == 307 || status == 308;
}

static enum response_sort wanted(enum remember remember, int status)
{
    if (is_redirect(status))
        return SORT_NOT_DONE;
    if (status > 599)
        return SORT_IN_DOUBT;
    if (remember == REMEMBER_ALL)
        return SORT_FINAL;
    switch (status) {
    case 401:
    case 403:
    case 407:
    case 408:
    case 425:
    case 429:
    case 503:
    case 508:
        return SORT_NOT_DONE;
    case 500:
    case 502:
    case 504:
        return SORT_IN_DOUBT;
    default:
        break;
    }
    bool refused = status >= 400 && status <= 499;
    return remember == REMEMBER_SUCCESS && refused ? SORT_NOT_DONE : SORT_FINAL;
}

/* found: C-C2, E-F1 */
static void every_status_has_its_sort_under_every_policy(void **state)
{
    (void)state;
    for (size_t r = 0; r < 3; r++) {
        struct remember_policy policy = remember_policy_of(remembers[r]);
        for (int status = 100; status <= 999; status++)
            assert_int_equal(remember_policy_sort(&policy, status), wanted(remembers[r], status));
    }
}

static void a_moved_status_is_where_it_was_put_and_no_other_moves(void **state)
{
    static const enum response_sort sorts[] = {SORT_FINAL, SORT_NOT_DONE, SORT_IN_DOUBT};
    (void)state;
    for (int moved = REMEMBER_STATUS_LEAST; moved <= REMEMBER_STATUS_MOST; moved++) {
        struct remember_policy before = remember_policy_of(remembers[moved % 3]);
        struct remember_policy policy = before;
        remember_policy_move(&policy, moved, sorts[moved / 3 % 3]);
        for (int status = REMEMBER_STATUS_LEAST; status <= REMEMBER_STATUS_MOST; status++)
            assert_int_equal(remember_policy_sort(&policy, status),
                             status == moved ? sorts[moved / 3 % 3]
                                             : remember_policy_sort(&before, status));
    }
}

/* Each sort leads to one write, whatever the status: a final 4xx is `failed`. */
static enum disposition_write write_of(enum response_sort sort, int status)
{
    if (sort == SORT_NOT_DONE)
        return is_redirect(status) ? WRITE_DROP : WRITE_RELEASE;
    if (sort == SORT_IN_DOUBT)
        return WRITE_DOUBT;
    return status / 100 == 4 ? WRITE_FAIL : WRITE_COMPLETE;
}

static void what_is_stored_of_an_answer_follows_its_sort(void **state)
{
    (void)state;
    for (size_t r = 0; r < 3; r++) {
        for (size_t u = 0; u < 3; u++) {
            struct remember_policy policy = remember_policy_of(remembers[r]);
            for (int status = 100; status <= 999; status++) {
                struct disposition disposition = disposition_of_exchange(
                    EXCHANGE_RESPONDED, status, SAYS_NOTHING, unknowns[u], &policy);
                bool asks = disposition.write == WRITE_DOUBT && unknowns[u] == RECORD_UNKNOWN_PROBE;
                assert_int_equal(disposition.write,
                                 write_of(remember_policy_sort(&policy, status), status));
                assert_int_equal(disposition.next, asks ? NEXT_PROBE : NEXT_RESPONSE);
            }
        }
    }
}

static void a_providers_duplicate_is_final_under_every_policy(void **state)
{
    (void)state;
    for (size_t r = 0; r < 3; r++) {
        struct remember_policy policy = remember_policy_of(remembers[r]);
        remember_policy_move(&policy, 200, SORT_IN_DOUBT);
        remember_policy_move(&policy, 409, SORT_NOT_DONE);
        assert_int_equal(disposition_of_exchange(EXCHANGE_RESPONDED, 200, SAYS_DUPLICATE,
                                                 RECORD_UNKNOWN_HOLD, &policy)
                             .write,
                         WRITE_COMPLETE);
        assert_int_equal(disposition_of_exchange(EXCHANGE_RESPONDED, 409, SAYS_DUPLICATE,
                                                 RECORD_UNKNOWN_HOLD, &policy)
                             .write,
                         WRITE_FAIL);
    }
}

static enum response_says says(int status, const char *code)
{
    struct headers headers = {0};
    assert_true(headers_add(&headers, SLICE("Error-Code"), slice_of(code)));
    return disposition_says(status, &headers);
}

/* found: R19 */
static void a_services_own_in_progress_is_not_done_under_every_policy(void **state)
{
    (void)state;
    assert_int_equal(says(409, "CONFLICT.idempotency.in_progress"), SAYS_IN_PROGRESS);
    assert_int_equal(says(423, "CONFLICT.idempotency.in_progress"), SAYS_IN_PROGRESS);
    assert_int_equal(says(200, "CONFLICT.idempotency.in_progress"), SAYS_NOTHING);
    assert_int_equal(says(500, "CONFLICT.idempotency.in_progress"), SAYS_NOTHING);
    assert_int_equal(says(409, "CONFLICT.idempotency.in_progress2"), SAYS_NOTHING);
    assert_int_equal(says(409, "in_progress"), SAYS_NOTHING);
    assert_int_equal(says(409, "PROVIDER.duplicate"), SAYS_DUPLICATE);
    for (size_t r = 0; r < 3; r++) {
        struct remember_policy policy = remember_policy_of(remembers[r]);
        struct disposition disposition = disposition_of_exchange(
            EXCHANGE_RESPONDED, 409, SAYS_IN_PROGRESS, RECORD_UNKNOWN_HOLD, &policy);
        assert_int_equal(disposition.write, WRITE_RELEASE);
        assert_int_equal(disposition.next, NEXT_RESPONSE);
    }
}

#ifdef PAWL_HOOKS

static enum response_says said(const struct body_conditions *conditions, const char *body)
{
    struct header line = {SLICE("Content-Type"), SLICE("application/json")};
    struct headers headers = {.at = {line}, .n = 1};
    return disposition_says_by_body(conditions, 200, &headers, slice_of(body));
}

/* found: a body that could not be read for want of memory said nothing, and its 2xx was kept */
static void what_is_not_read_for_want_of_memory_is_in_doubt(void **state)
{
    static const char *const bodies[] = {"{\"a\":5.50}", "{\"a\":\"\\u0078\"}", "{\"b\":true}",
                                         "{\"c\":1}"};
    struct slice values[] = {SLICE("5.5"), SLICE("x")}, yes[] = {SLICE("true")};
    struct response_condition not_done = {.n = 1, .parts = {{SLICE("/a"), false, 2, values}}};
    struct response_condition in_doubt = {.n = 1, .parts = {{SLICE("/b"), false, 1, yes}}};
    struct body_conditions conditions = {.in_doubt = {1, &in_doubt}, .not_done = {1, &not_done}};
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        enum response_says wanted = said(&conditions, bodies[i]);
        assert_true((wanted == SAYS_NOT_DONE) == (i < 2));
        int fired = 1;
        for (long n = 1; fired; n++) {
            mem_fail_nth(n);
            enum response_says says = said(&conditions, bodies[i]);
            fired = mem_fail_fired();
            mem_fail_nth(0);
            assert_int_equal(says, fired ? SAYS_IN_DOUBT : wanted);
            assert_true(fired || n > 1);
        }
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_sort_under_every_policy),
        cmocka_unit_test(a_moved_status_is_where_it_was_put_and_no_other_moves),
        cmocka_unit_test(what_is_stored_of_an_answer_follows_its_sort),
        cmocka_unit_test(a_providers_duplicate_is_final_under_every_policy),
        cmocka_unit_test(a_services_own_in_progress_is_not_done_under_every_policy),
#ifdef PAWL_HOOKS
        cmocka_unit_test(what_is_not_read_for_want_of_memory_is_in_doubt),
#endif
    };
    return cmocka_run_group_tests_name("remember_policy", tests, NULL, NULL);
}
