/* SPDX-License-Identifier: Apache-2.0 */
/* errors, problem, disposition, outcome: what pawl answers, and what it keeps of an upstream's
 * answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/outcome.h"
#include "core/retry/disposition.h"
#include "core/web/problem.h"

/* ---- errors ---- */

static void every_row_is_complete_and_every_code_is_used_once(void **state)
{
    (void)state;
    for (int i = ERROR_NONE + 1; i < ERROR_COUNT; i++) {
        const struct error_row *row = error_row((enum error)i);
        assert_true(row->status >= 400 && row->status <= 599);
        assert_true(strlen(row->code) > 0 && strlen(row->short_code) > 0);
        assert_true(strlen(row->title) > 0 && strlen(row->hint) > 0);
        assert_int_not_equal(row->exit_code, EXIT_DONE);
        for (int j = i + 1; j < ERROR_COUNT; j++)
            assert_string_not_equal(row->code, error_row((enum error)j)->code);
    }
}

/* The answer table of contract section 5. */
static void the_table_has_the_contracts_statuses_and_codes(void **state)
{
    static const struct {
        enum error error;
        int status;
        const char *code;
    } wanted[] = {
        {ERROR_KEY_MISSING, 400, "VALIDATION.idempotency.key_missing"},
        {ERROR_KEY_MALFORMED, 400, "VALIDATION.idempotency.key_malformed"},
        {ERROR_KEY_EXPIRED, 400, "VALIDATION.idempotency.key_expired"},
        {ERROR_KEY_AHEAD, 400, "VALIDATION.idempotency.key_ahead"},
        {ERROR_KEY_SOURCE_MISSING, 400, "VALIDATION.idempotency.key_source_missing"},
        {ERROR_TENANT_MISSING, 400, "VALIDATION.idempotency.tenant_missing"},
        {ERROR_PATH_AMBIGUOUS, 400, "VALIDATION.path_ambiguous"},
        {ERROR_BODY_TOO_LARGE, 413, "VALIDATION.body_too_large"},
        {ERROR_PAYLOAD_MISMATCH, 409, "CONFLICT.idempotency.payload_mismatch"},
        {ERROR_IN_PROGRESS, 409, "CONFLICT.idempotency.in_progress"},
        {ERROR_DUPLICATE, 409, "CONFLICT.idempotency.duplicate"},
        {ERROR_OUTCOME_UNKNOWN, 409, "CONFLICT.idempotency.outcome_unknown"},
        {ERROR_RESULT_EXPIRED, 410, "CONFLICT.idempotency.result_expired"},
        {ERROR_RESULT_NOT_KEPT, 410, "CONFLICT.idempotency.result_not_kept"},
        {ERROR_UPSTREAM_UNAVAILABLE, 503, "DEPENDENCY.unavailable"},
        {ERROR_UPSTREAM_BROKE, 502, "TRANSIENT.upstream_broke"},
        {ERROR_UPSTREAM_MALFORMED, 502, "TRANSIENT.upstream_malformed"},
        {ERROR_UPSTREAM_TIMEOUT, 504, "DEPENDENCY.timeout"},
        {ERROR_OUTCOME_NOT_STORED, 503, "DEPENDENCY.outcome_not_stored"},
        {ERROR_LIMITED, 429, "RATE_LIMIT.exceeded"},
        {ERROR_STORE_UNAVAILABLE, 503, "DEPENDENCY.store_unavailable"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        assert_int_equal(error_row(wanted[i].error)->status, wanted[i].status);
        assert_string_equal(error_row(wanted[i].error)->code, wanted[i].code);
    }
    assert_string_equal(error_row(ERROR_IN_PROGRESS)->short_code, "CONCURRENT_REQUEST");
}

static void nobody_is_told_to_start_over_while_the_first_attempt_may_have_happened(void **state)
{
    static const enum error risky[] = {
        ERROR_IN_PROGRESS,      ERROR_OUTCOME_UNKNOWN,    ERROR_UPSTREAM_BROKE,
        ERROR_UPSTREAM_TIMEOUT, ERROR_OUTCOME_NOT_STORED, ERROR_UPSTREAM_MALFORMED,
    };
    static const enum error not_looked_at[] = {ERROR_LIMITED, ERROR_STORE_UNAVAILABLE,
                                               ERROR_REQUEST_TIMEOUT};
    (void)state;
    for (size_t i = 0; i < sizeof(risky) / sizeof(risky[0]); i++)
        assert_false(error_row(risky[i])->safe_new_key);
    for (size_t i = 0; i < sizeof(not_looked_at) / sizeof(not_looked_at[0]); i++)
        assert_false(error_row(not_looked_at[i])->safe_new_key);
}

static void nobody_is_told_to_start_over_when_the_operation_happened(void **state)
{
    static const enum error done[] = {ERROR_DUPLICATE, ERROR_RESULT_EXPIRED, ERROR_RESULT_NOT_KEPT};
    (void)state;
    for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++)
        assert_false(error_row(done[i])->safe_new_key);
}

/* ---- problem ---- */

static void assert_body(const struct problem *problem, const char *wanted)
{
    BUF_AUTO struct buf buf = buf_make(4096);
    problem_write(problem, &buf);
    assert_true(buf_ok(&buf));
    buf_add_char(&buf, '\0');
    assert_string_equal(buf.at, wanted);
}

static void a_problem_has_the_members_of_the_contract(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_KEY_MISSING);
    problem.detail = SLICE("Send Idempotency-Key.");
    assert_body(&problem,
                "{\"type\":\"/.well-known/idempotency#VALIDATION.idempotency.key_missing\","
                "\"title\":\"Idempotency key missing\",\"status\":400,"
                "\"detail\":\"Send Idempotency-Key.\","
                "\"error_code\":\"VALIDATION.idempotency.key_missing\","
                "\"retryable\":false,\"safe_new_key\":true,"
                "\"hint\":\"Send the key this route requires.\","
                "\"error\":{\"type\":\"idempotency_error\",\"code\":\"KEY_MISSING\","
                "\"message\":\"Send Idempotency-Key.\"}}\n");
}

static void a_running_operation_is_described(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_IN_PROGRESS);
    problem.key = SLICE("a\"b");
    problem.state = "pending";
    problem.attempt = 2;
    problem.started_at = INT64_C(1769851800250999);
    problem.lease_left_ms = 1500;
    assert_body(&problem,
                "{\"type\":\"/.well-known/idempotency#CONFLICT.idempotency.in_progress\","
                "\"title\":\"The first request is still running\",\"status\":409,"
                "\"detail\":\"The first request is still running\","
                "\"error_code\":\"CONFLICT.idempotency.in_progress\","
                "\"retryable\":true,\"safe_new_key\":false,"
                "\"hint\":\"Wait, then repeat the request under the same key.\","
                "\"idempotency_key\":\"a\\\"b\","
                "\"operation\":{\"state\":\"pending\",\"attempt\":2,"
                "\"started_at\":\"2026-01-31T09:30:00.250Z\",\"lease_left_ms\":1500},"
                "\"error\":{\"type\":\"idempotency_error\",\"code\":\"CONCURRENT_REQUEST\","
                "\"message\":\"The first request is still running\"}}\n");
}

static bool body_holds(const struct problem *problem, const char *part)
{
    BUF_AUTO struct buf buf = buf_make(4096);
    problem_write(problem, &buf);
    buf_add_char(&buf, '\0');
    assert_true(buf_ok(&buf));
    return strstr(buf.at, part) != NULL;
}

static void an_operation_without_a_lease_has_none_left(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_OUTCOME_UNKNOWN);
    problem.state = "unknown";
    assert_true(body_holds(&problem, "\"lease_left_ms\":null}"));
}

static void an_expired_answer_names_the_first_status(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_RESULT_EXPIRED);
    assert_false(body_holds(&problem, "\"first\""));
    problem.first_status = 201;
    assert_true(body_holds(&problem, ",\"first\":{\"status\":201},\"error\":{"));
}

static void a_rejected_duplicate_tells_of_the_first_and_when_its_window_ends(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_DUPLICATE);
    problem.first_status = 201;
    problem.first_location = SLICE("/reports/\"7\"");
    problem.first_at = INT64_C(1769851800250999);
    problem.window_ends_at = problem.first_at + 3600 * CLOCK_US_PER_S;
    assert_true(body_holds(&problem,
                           ",\"first\":{\"status\":201,\"location\":\"/reports/\\\"7\\\"\","
                           "\"at\":\"2026-01-31T09:30:00.250Z\"},"
                           "\"window_ends_at\":\"2026-01-31T10:30:00.250Z\",\"error\":"));
    problem.window_ends_at = CLOCK_NEVER;
    assert_true(body_holds(&problem, ",\"window_ends_at\":null,"));
}

static void with_a_public_url_the_links_are_absolute(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_LIMITED);
    problem.base = SLICE("https://api.example/v1");
    assert_true(body_holds(&problem, "{\"type\":\"https://api.example/v1/.well-known/idempotency#"
                                     "RATE_LIMIT.exceeded\","));
    BUF_AUTO struct buf buf = buf_make(4096);
    problem_write_fields(&problem, &buf);
    assert_true(slice_eq(outcome_field(buf_slice(&buf), SLICE("Link")),
                         SLICE("<https://api.example/v1/.well-known/idempotency#"
                               "RATE_LIMIT.exceeded>; rel=\"describedby\"")));
}

static void a_rules_policy_overrides_the_table(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_PAYLOAD_MISMATCH);
    problem.status = 422;
    problem.safe_new_key = false;
    assert_true(body_holds(&problem, "\"status\":422,"));
    assert_true(body_holds(&problem, "\"safe_new_key\":false"));
}

static void a_problem_that_does_not_fit_fails_and_is_not_cut(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_LIMITED);
    BUF_AUTO struct buf buf = buf_make(100);
    problem_write(&problem, &buf);
    assert_false(buf_ok(&buf));
}

static void only_what_no_retry_heals_tells_stripes_client_not_to_retry(void **state)
{
    (void)state;
    for (int i = ERROR_NONE + 1; i < ERROR_COUNT; i++) {
        struct problem problem = problem_of((enum error)i);
        BUF_AUTO struct buf buf = buf_make(4096);
        problem_write_fields(&problem, &buf);
        struct slice said = outcome_field(buf_slice(&buf), SLICE("Stripe-Should-Retry"));
        assert_int_equal(said.at != NULL, !problem.retryable);
        struct slice again = outcome_field(buf_slice(&buf), SLICE("X-Should-Retry"));
        /* found: E-W1 */
        assert_true(slice_eq(again, problem.retryable ? SLICE("true") : SLICE("false")));
        if (said.at)
            assert_true(slice_eq(said, SLICE("false")));
    }
}

static void the_field_lines_name_code_and_document(void **state)
{
    (void)state;
    struct problem problem = problem_of(ERROR_IN_PROGRESS);
    BUF_AUTO struct buf buf = buf_make(4096);
    problem_write_fields(&problem, &buf);
    buf_add_char(&buf, '\0');
    assert_true(buf_ok(&buf));
    assert_string_equal(buf.at,
                        "Content-Type: application/problem+json\r\n"
                        "Error-Code: CONFLICT.idempotency.in_progress\r\n"
                        "Link: </.well-known/idempotency#CONFLICT.idempotency.in_progress>; "
                        "rel=\"describedby\"\r\n"
                        "Cache-Control: no-store\r\nX-Should-Retry: true\r\n");
}

/* ---- disposition ---- */

static const enum record_unknown policies[] = {
    RECORD_UNKNOWN_HOLD,
    RECORD_UNKNOWN_RETRY,
    RECORD_UNKNOWN_PROBE,
};

static void assert_disposition(struct disposition disposition, enum disposition_write write,
                               enum disposition_next next, enum error error)
{
    assert_int_equal(disposition.write, write);
    assert_int_equal(disposition.next, next);
    assert_int_equal(disposition.error, error);
}

static struct disposition forwarded(enum exchange_end end, int status, bool duplicate,
                                    enum record_unknown unknown)
{
    struct remember_policy policy = remember_policy_of(REMEMBER_FINAL);
    return disposition_of_exchange(end, status, duplicate ? SAYS_DUPLICATE : SAYS_NOTHING, unknown,
                                   &policy);
}

static bool is_one_of(int status, const int *set, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (set[i] == status)
            return true;
    return false;
}

static void every_answer_without_a_probe_is_final_not_done_or_in_doubt(void **state)
{
    static const int not_done[] = {401, 403, 407, 408, 425, 429, 503, 508};
    static const int in_doubt[] = {500, 502, 504};
    static const int elsewhere[] = {301, 307, 308};
    (void)state;
    for (int status = 100; status <= 999; status++) {
        enum disposition_write wanted = status / 100 == 4 ? WRITE_FAIL : WRITE_COMPLETE;
        if (is_one_of(status, not_done, 8))
            wanted = WRITE_RELEASE;
        if (is_one_of(status, in_doubt, 3) || status > 599)
            wanted = WRITE_DOUBT;
        if (is_one_of(status, elsewhere, 3))
            wanted = WRITE_DROP;
        for (int p = 0; p < 2; p++)
            assert_disposition(forwarded(EXCHANGE_RESPONDED, status, false, policies[p]), wanted,
                               NEXT_RESPONSE, ERROR_NONE);
    }
}

static void where_the_upstream_can_be_asked_a_500_502_and_504_are_asked_about(void **state)
{
    static const int asked[] = {500, 502, 504};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_disposition(forwarded(EXCHANGE_RESPONDED, asked[i], false, RECORD_UNKNOWN_PROBE),
                           WRITE_DOUBT, NEXT_PROBE, ERROR_NONE);
    assert_disposition(forwarded(EXCHANGE_RESPONDED, 503, false, RECORD_UNKNOWN_PROBE),
                       WRITE_RELEASE, NEXT_RESPONSE, ERROR_NONE);
}

static void a_providers_duplicate_is_final_whatever_its_status(void **state)
{
    (void)state;
    for (size_t p = 0; p < 3; p++) {
        assert_disposition(forwarded(EXCHANGE_RESPONDED, 503, true, policies[p]), WRITE_COMPLETE,
                           NEXT_RESPONSE, ERROR_NONE);
        assert_disposition(forwarded(EXCHANGE_RESPONDED, 429, true, policies[p]), WRITE_FAIL,
                           NEXT_RESPONSE, ERROR_NONE);
    }
}

static void a_broken_or_late_answer_is_in_doubt_under_every_policy(void **state)
{
    (void)state;
    for (size_t p = 0; p < 3; p++) {
        enum disposition_next next = p == RECORD_UNKNOWN_PROBE ? NEXT_PROBE : NEXT_ERROR;
        assert_disposition(forwarded(EXCHANGE_BROKE, 0, false, policies[p]), WRITE_DOUBT, next,
                           ERROR_UPSTREAM_BROKE);
        assert_disposition(forwarded(EXCHANGE_MALFORMED, 0, false, policies[p]), WRITE_DOUBT, next,
                           ERROR_UPSTREAM_MALFORMED);
        assert_disposition(forwarded(EXCHANGE_TIMED_OUT, 0, false, policies[p]), WRITE_DOUBT, next,
                           ERROR_UPSTREAM_TIMEOUT);
    }
}

static void what_was_never_sent_is_released(void **state)
{
    static const enum exchange_end ends[] = {EXCHANGE_NOT_SENT, EXCHANGE_PORTAL};
    (void)state;
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            assert_disposition(forwarded(ends[i], 0, false, policies[p]), WRITE_RELEASE, NEXT_ERROR,
                               ERROR_UPSTREAM_UNAVAILABLE);
}

static void a_refused_token_throws_the_answer_away(void **state)
{
    (void)state;
    for (size_t p = 0; p < 3; p++)
        assert_disposition(forwarded(EXCHANGE_TOKEN_STALE, 409, false, policies[p]), WRITE_NOTHING,
                           NEXT_DECIDE, ERROR_NONE);
}

static void only_a_2xx_completes_by_probe_and_only_a_404_releases(void **state)
{
    (void)state;
    for (int status = 100; status <= 999; status++) {
        struct disposition disposition =
            disposition_of_probe(EXCHANGE_RESPONDED, status, status == 404);
        if (status / 100 == 2)
            assert_disposition(disposition, WRITE_COMPLETE, NEXT_RESPONSE, ERROR_NONE);
        else if (status == 404)
            assert_disposition(disposition, WRITE_RELEASE, NEXT_DECIDE, ERROR_NONE);
        else
            assert_disposition(disposition, WRITE_DOUBT, NEXT_ERROR, ERROR_OUTCOME_UNKNOWN);
    }
}

static void a_probe_that_got_no_answer_settles_nothing(void **state)
{
    static const enum exchange_end ends[] = {EXCHANGE_NOT_SENT, EXCHANGE_BROKE, EXCHANGE_TIMED_OUT,
                                             EXCHANGE_TOKEN_STALE, EXCHANGE_PORTAL};
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (int status = 0; status <= 404; status += 202)
            assert_disposition(disposition_of_probe(ends[i], status, status == 404), WRITE_DOUBT,
                               NEXT_ERROR, ERROR_OUTCOME_UNKNOWN);
}

static void client_errors_are_kept_as_failed_and_all_else_as_complete(void **state)
{
    (void)state;
    static const int kept[][2] = {
        {399, WRITE_COMPLETE}, {400, WRITE_FAIL}, {499, WRITE_FAIL}, {501, WRITE_COMPLETE}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_int_equal(
            forwarded(EXCHANGE_RESPONDED, kept[i][0], false, RECORD_UNKNOWN_RETRY).write,
            kept[i][1]);
}

/* ---- outcome ---- */

static void an_outcome_is_a_copy_with_its_location(void **state)
{
    char fields[] = "Content-Type: text/plain\r\nlocation:  /r/1 \r\n";
    char body[] = "hello";
    (void)state;
    struct outcome *outcome = outcome_new(201, false, slice_of(fields), slice_of(body));
    assert_non_null(outcome);
    memset(fields, 'x', sizeof(fields));
    memset(body, 'x', sizeof(body));
    assert_int_equal(outcome->status, 201);
    assert_false(outcome->failed);
    assert_true(slice_eq(outcome->body, SLICE("hello")));
    assert_true(slice_eq(outcome->location, SLICE("/r/1")));
    assert_true(outcome_size(outcome) >= outcome->fields.len + outcome->body.len);
    outcome_unref(outcome);
}

static void an_empty_outcome_has_no_location(void **state)
{
    (void)state;
    struct outcome *outcome = outcome_new(204, false, slice_of(NULL), slice_of(NULL));
    assert_non_null(outcome);
    assert_null(outcome->location.at);
    assert_int_equal(outcome->body.len, 0);
    outcome_unref(outcome);
    outcome_unref(NULL);
}

static void an_outcome_lives_until_its_last_reference(void **state)
{
    (void)state;
    struct outcome *outcome = outcome_new(200, false, slice_of(NULL), SLICE("kept"));
    assert_non_null(outcome);
    assert_ptr_equal(outcome_ref(outcome), outcome);
    outcome_unref(outcome);
    assert_true(slice_eq(outcome->body, SLICE("kept")));
    outcome_unref(outcome);
}

static void outcomes_are_equal_by_status_fields_and_body(void **state)
{
    (void)state;
    struct outcome *made[] = {
        outcome_new(200, false, SLICE("A: 1\r\n"), SLICE("b")),
        outcome_new(200, false, SLICE("A: 1\r\n"), SLICE("b")),
        outcome_new(201, false, SLICE("A: 1\r\n"), SLICE("b")),
        outcome_new(200, false, SLICE("A: 2\r\n"), SLICE("b")),
        outcome_new(200, false, SLICE("A: 1\r\n"), SLICE("c")),
        outcome_new(200, false, SLICE("A: 1\r"), SLICE("\nb")),
    };
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(outcome_eq(made[0], made[i]), i < 2);
    for (size_t i = 0; i < 6; i++)
        outcome_unref(made[i]);
}

static void add(struct headers *headers, const char *name, const char *value)
{
    assert_true(headers_add(headers, slice_of(name), slice_of(value)));
}

static void assert_kept(const struct headers *headers, bool cookies, const char *wanted)
{
    BUF_AUTO struct buf buf = buf_make(4096);
    outcome_keep_fields(headers, cookies ? OUTCOME_KEEPS_COOKIES : 0, &buf);
    buf_add_char(&buf, '\0');
    assert_true(buf_ok(&buf));
    assert_string_equal(buf.at, wanted);
}

static void headers_of_the_moment_are_not_kept_and_the_rest_keeps_its_order(void **state)
{
    struct headers headers = {0};
    (void)state;
    add(&headers, "X-Last", "1");
    add(&headers, "DATE", "Sat, 31 Jan 2026 09:30:00 GMT");
    add(&headers, "Content-Type", "application/json");
    add(&headers, "content-length", "12");
    add(&headers, "Connection", "close, X-Hop");
    add(&headers, "x-hop", "1");
    add(&headers, "Keep-Alive", "timeout=5");
    add(&headers, "Transfer-Encoding", "chunked");
    add(&headers, "Trailer", "X-T");
    add(&headers, "Set-Cookie", "sid=1");
    add(&headers, "WWW-Authenticate", "Basic");
    add(&headers, "Proxy-Authenticate", "Basic");
    add(&headers, "Access-Control-Allow-Origin", "*");
    add(&headers, "Idempotency-Status", "stored");
    add(&headers, "Idempotent-Replayed", "true");
    add(&headers, "Error-Code", "X.y");
    add(&headers, "ETag", "\"1\"");
    add(&headers, "Location", "/r/1");
    add(&headers, "X-Last", "2");
    assert_kept(&headers, false,
                "X-Last: 1\r\nContent-Type: application/json\r\nETag: \"1\"\r\n"
                "Location: /r/1\r\nX-Last: 2\r\n");
}

static void cookies_are_kept_where_the_rule_says_so(void **state)
{
    struct headers headers = {0};
    (void)state;
    add(&headers, "Set-Cookie", "a=1");
    add(&headers, "set-cookie", "b=2");
    assert_kept(&headers, true, "Set-Cookie: a=1\r\nset-cookie: b=2\r\n");
}

static void only_the_providers_duplicate_keeps_its_error_code(void **state)
{
    struct headers headers = {0};
    (void)state;
    add(&headers, "error-code", "PROVIDER.duplicate");
    add(&headers, "Error-Code", "PROVIDER.duplicates");
    assert_kept(&headers, false, "error-code: PROVIDER.duplicate\r\n");
}

static void a_field_is_found_by_its_whole_name(void **state)
{
    struct slice fields = SLICE("Xa: 1\r\nX: \r\nA: b:c\r\nA: 2\r\n");
    (void)state;
    assert_true(slice_eq(outcome_field(fields, SLICE("a")), SLICE("b:c")));
    assert_non_null(outcome_field(fields, SLICE("X")).at);
    assert_int_equal(outcome_field(fields, SLICE("X")).len, 0);
    assert_null(outcome_field(fields, SLICE("B")).at);
    assert_null(outcome_field(slice_of(NULL), SLICE("B")).at);
}

#ifdef PAWL_HOOKS
static void without_memory_there_is_no_outcome(void **state)
{
    (void)state;
    mem_fail_nth(1);
    assert_null(outcome_new(200, false, SLICE("A: 1\r\n"), SLICE("b")));
    assert_true(mem_fail_fired());
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_complete_and_every_code_is_used_once),
        cmocka_unit_test(the_table_has_the_contracts_statuses_and_codes),
        cmocka_unit_test(nobody_is_told_to_start_over_while_the_first_attempt_may_have_happened),
        cmocka_unit_test(nobody_is_told_to_start_over_when_the_operation_happened),
        cmocka_unit_test(a_problem_has_the_members_of_the_contract),
        cmocka_unit_test(a_running_operation_is_described),
        cmocka_unit_test(an_operation_without_a_lease_has_none_left),
        cmocka_unit_test(an_expired_answer_names_the_first_status),
        cmocka_unit_test(a_rejected_duplicate_tells_of_the_first_and_when_its_window_ends),
        cmocka_unit_test(with_a_public_url_the_links_are_absolute),
        cmocka_unit_test(a_rules_policy_overrides_the_table),
        cmocka_unit_test(a_problem_that_does_not_fit_fails_and_is_not_cut),
        cmocka_unit_test(only_what_no_retry_heals_tells_stripes_client_not_to_retry),
        cmocka_unit_test(the_field_lines_name_code_and_document),
        cmocka_unit_test(every_answer_without_a_probe_is_final_not_done_or_in_doubt),
        cmocka_unit_test(where_the_upstream_can_be_asked_a_500_502_and_504_are_asked_about),
        cmocka_unit_test(a_providers_duplicate_is_final_whatever_its_status),
        cmocka_unit_test(a_broken_or_late_answer_is_in_doubt_under_every_policy),
        cmocka_unit_test(what_was_never_sent_is_released),
        cmocka_unit_test(a_refused_token_throws_the_answer_away),
        cmocka_unit_test(only_a_2xx_completes_by_probe_and_only_a_404_releases),
        cmocka_unit_test(a_probe_that_got_no_answer_settles_nothing),
        cmocka_unit_test(client_errors_are_kept_as_failed_and_all_else_as_complete),
        cmocka_unit_test(an_outcome_is_a_copy_with_its_location),
        cmocka_unit_test(an_empty_outcome_has_no_location),
        cmocka_unit_test(an_outcome_lives_until_its_last_reference),
        cmocka_unit_test(outcomes_are_equal_by_status_fields_and_body),
        cmocka_unit_test(headers_of_the_moment_are_not_kept_and_the_rest_keeps_its_order),
        cmocka_unit_test(cookies_are_kept_where_the_rule_says_so),
        cmocka_unit_test(only_the_providers_duplicate_keeps_its_error_code),
        cmocka_unit_test(a_field_is_found_by_its_whole_name),
#ifdef PAWL_HOOKS
        cmocka_unit_test(without_memory_there_is_no_outcome),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
