/* SPDX-License-Identifier: Apache-2.0 */
/* RESPOND: what of each kind of reply the client gets, once. */
#include "exchange_play.h"

#define LINES_MAX 6

/* ---- what was sent ---- */

/* Whether its headers, or with a `{` its body, hold that. */
static bool was_sent(const char *text)
{
    return strstr(play->sent, text) != NULL;
}

static void expect_sent(const char *name, const char *const *texts)
{
    for (size_t i = 0; i < LINES_MAX && texts[i]; i++) {
        bool absent = texts[i][0] == '!';
        if (was_sent(texts[i] + absent) == absent)
            fail_msg("%s: %s in\n%s", name, texts[i], play->sent);
    }
}

static void respond(enum exchange_step next)
{
    struct exchange *x = play->x;
    assert_int_equal(next, EXCHANGE_RESPOND);
    x->before = x->step;
    x->step = next;
    assert_int_equal(reply_write(x), EXCHANGE_DONE);
}

/* ---- pawl's own errors ---- */

struct row {
    const char *name;
    enum exchange_step step;
    enum error error;
    struct record record;
    enum record_lease lease;
    int64_t lease_left_us;
    const char *sent[LINES_MAX]; /* `!`: not that */
};

static const struct row rows[] = {
    {"of the request", EXCHANGE_IDENTIFY, ERROR_KEY_MALFORMED,
     .sent = {"HTTP/1.1 400 ", "Error-Code: VALIDATION.idempotency.key_malformed\r\n",
              "!Retry-After", "!Idempotency-Status", "\"detail\":\"so it is\"",
              "\"retryable\":false"}},
    {"of a limit", EXCHANGE_ADMIT, ERROR_LIMITED,
     .sent = {"HTTP/1.1 429 ", "Retry-After: 3\r\n", "\"retryable\":true"}},
    {"it runs",
     EXCHANGE_DECIDE,
     ERROR_IN_PROGRESS,
     {.status = RECORD_PENDING, .attempts = 2},
     RECORD_LEASE_LIVE,
     S(1),
     {"HTTP/1.1 409 ", "Retry-After: 1\r\n", "\"state\":\"pending\"", "\"attempt\":2",
      "\"idempotency_key\":\"k1\""}},
    {"held without an end",
     EXCHANGE_DECIDE,
     ERROR_OUTCOME_UNKNOWN,
     {.status = RECORD_UNKNOWN, .doubt = true, .quiet_at = WALL + S(20)},
     RECORD_LEASE_NONE,
     0,
     {"HTTP/1.1 409 ", "\"retryable\":false", "!Retry-After", "\"state\":\"unknown\"",
      "Error-Code: CONFLICT.idempotency.outcome_unknown\r\n"}},
    {"its response has gone",
     EXCHANGE_DECIDE,
     ERROR_RESULT_EXPIRED,
     {.status = RECORD_COMPLETE, .http_status = 201},
     RECORD_LEASE_NONE,
     0,
     {"HTTP/1.1 410 ", "\"safe_new_key\":false", "\"status\":201", "!Retry-After"}},
    {"not reached, and nothing was done", EXCHANGE_SETTLE, ERROR_UPSTREAM_UNAVAILABLE,
     .sent = {"HTTP/1.1 503 ", "Retry-After: 3\r\n", "\"safe_new_key\":true"}},
    {"not reached, and an earlier one is in doubt",
     EXCHANGE_SETTLE,
     ERROR_UPSTREAM_UNAVAILABLE,
     {.doubt = true},
     RECORD_LEASE_NONE,
     0,
     {"HTTP/1.1 503 ", "\"safe_new_key\":false", "an earlier one under the key may have"}},
    {"sent without a record", EXCHANGE_UNPROTECTED, ERROR_UPSTREAM_BROKE,
     .sent = {"HTTP/1.1 502 ", "\"safe_new_key\":false"}},
    {"not stored", EXCHANGE_SETTLE, ERROR_OUTCOME_NOT_STORED,
     .sent = {"HTTP/1.1 503 ", "Connection: close\r\n", "Retry-After: 3\r\n"}},
};

static void check_row(const struct row *row)
{
    struct exchange *x = stage_exchange(EXCHANGE_IDENTIFY, row->step);
    x->attempt.result = (struct store_result){.record = row->record,
                                              .lease = row->lease,
                                              .lease_left_us = row->lease_left_us,
                                              .store_now = WALL};
    respond(reply_error(x, row->error, "so it is"));
    expect_sent(row->name, row->sent);
    assert_int_equal(play->n_responses, 1);
    assert_int_equal(x->client_state, CLIENT_SERVED);
}

static void an_error_says_what_the_record_and_the_rule_make_of_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i]);
}

static void a_mismatch_has_the_status_of_its_rule(void **state)
{
    static const char *const sent[LINES_MAX] = {"HTTP/1.1 422 ", "\"safe_new_key\":false",
                                                "The first request under this key is not settled"};
    (void)state;
    play->rule.mismatch_status = 422;
    struct exchange *x = stage_exchange(EXCHANGE_IDENTIFY, EXCHANGE_DECIDE);
    x->attempt.result.record.status = RECORD_PENDING;
    respond(reply_error(x, ERROR_PAYLOAD_MISMATCH, NULL));
    expect_sent("mismatch", sent);
}

static void a_doubt_that_a_probe_may_end_says_when(void **state)
{
    static const char *const sent[LINES_MAX] = {"HTTP/1.1 504 ", "Retry-After: 9\r\n",
                                                "Idempotency-Status: unknown\r\n"};
    (void)state;
    play->rule.unknown = RECORD_UNKNOWN_PROBE;
    struct exchange *x = stage_exchange(EXCHANGE_FORWARD, EXCHANGE_SETTLE);
    x->attempt.result = (struct store_result){
        .record = {.status = RECORD_UNKNOWN, .quiet_at = WALL + S(9)}, .store_now = WALL};
    respond(reply_result(x, ERROR_UPSTREAM_TIMEOUT, NULL, RESULT_UNKNOWN));
    expect_sent("doubt", sent);
}

/* ---- the service's responses ---- */

static void a_response_goes_as_it_came(void **state)
{
    static const char *const sent[LINES_MAX] = {"HTTP/1.1 201 ",
                                                "Location: /payments/1\r\n",
                                                "Idempotency-Status: stored\r\n",
                                                "Content-Length: 4\r\n",
                                                "\r\n\r\ndone",
                                                "!Error-Code"};
    (void)state;
    struct exchange *x = stage_exchange(EXCHANGE_FORWARD, EXCHANGE_SETTLE);
    give_response(201, "Location: /payments/1\r\n", "done");
    respond(reply_upstream(x, &x->response, RESULT_STORED));
    expect_sent("stored", sent);
    assert_int_equal(x->status, 201);
}

static void a_response_in_doubt_says_so_beside_its_status(void **state)
{
    static const char *const sent[LINES_MAX] = {
        "HTTP/1.1 500 ", "Idempotency-Status: unknown\r\n",
        "Error-Code: CONFLICT.idempotency.outcome_unknown\r\n", "\r\n\r\nhalf", "!Retry-After"};
    (void)state;
    struct exchange *x = stage_exchange(EXCHANGE_FORWARD, EXCHANGE_SETTLE);
    give_response(500, "", "half");
    respond(reply_upstream(x, &x->response, RESULT_UNKNOWN));
    expect_sent("in doubt", sent);
}

static void a_failure_that_a_probe_found_not_done_may_be_repeated(void **state)
{
    static const char *const own[LINES_MAX] = {
        "HTTP/1.1 502 ", "Retry-After: 1\r\n", "Idempotency-Status: released\r\n",
        "\"safe_new_key\":true", "the probe found that the operation was not done"};
    static const char *const services[LINES_MAX] = {
        "HTTP/1.1 500 ", "Retry-After: 1\r\n", "X-Should-Retry: true\r\n",
        "Idempotency-Status: released\r\n", "\r\n\r\nhalf"};
    (void)state;
    struct exchange *x = stage_exchange(EXCHANGE_PROBE, EXCHANGE_SETTLE);
    x->failure = ERROR_UPSTREAM_BROKE;
    respond(reply_failure(x, true));
    expect_sent("pawl's own", own);
    x = stage_exchange(EXCHANGE_PROBE, EXCHANGE_SETTLE);
    give_response(500, "X-Should-Retry: false\r\n", "half");
    x->failed = x->response;
    x->response = (struct upstream_response){0};
    respond(reply_failure(x, true));
    expect_sent("the service's", services);
    assert_false(was_sent("X-Should-Retry: false"));
}

static void a_failure_that_no_probe_cleared_up_is_in_doubt(void **state)
{
    static const char *const sent[LINES_MAX] = {"HTTP/1.1 502 ", "Idempotency-Status: unknown\r\n",
                                                "the probe was inconclusive"};
    (void)state;
    struct exchange *x = stage_exchange(EXCHANGE_PROBE, EXCHANGE_SETTLE);
    x->failure = ERROR_UPSTREAM_BROKE;
    respond(reply_failure(x, false));
    expect_sent("inconclusive", sent);
}

/* ---- what was found ---- */

static struct exchange *stage_found(void)
{
    struct exchange *x = stage_exchange(EXCHANGE_IDENTIFY, EXCHANGE_DECIDE);
    assert_true(attempt_replace_found(&x->attempt, make_found(201, false)));
    return x;
}

static void a_kept_response_is_replayed_and_given_back(void **state)
{
    static const char *const sent[LINES_MAX] = {"HTTP/1.1 201 ",
                                                "Location: /payments/1\r\n",
                                                "Idempotency-Status: replayed\r\n",
                                                "Idempotent-Replayed: true\r\n",
                                                "Cache-Control: no-store\r\n",
                                                "\r\n\r\nfirst"};
    (void)state;
    struct exchange *x = stage_found();
    respond(reply_found(x, RESULT_REPLAYED));
    expect_sent("replayed", sent);
    assert_null(x->attempt.result.found);
    assert_true(atomic_load(&play->shared.buffered) == 0);
}

static void an_acknowledged_duplicate_gets_no_more_than_that(void **state)
{
    static const char *const sent[LINES_MAX] = {"HTTP/1.1 204 ", "Idempotency-Status: replayed\r\n",
                                                "Idempotent-Replayed: true\r\n", "!Location",
                                                "!first"};
    (void)state;
    play->rule.duplicate = RULE_DUPLICATE_ACK;
    respond(reply_found(stage_found(), RESULT_ACKED));
    expect_sent("acknowledged", sent);
}

/* ---- once ---- */

static void a_client_that_left_gets_nothing(void **state)
{
    (void)state;
    struct exchange *x = stage_exchange(EXCHANGE_IDENTIFY, EXCHANGE_DECIDE);
    respond(reply_nothing(x));
    assert_int_equal(play->n_responses, 0);
    assert_int_equal(x->client_state, CLIENT_LEFT);
    assert_false(x->keep_alive);
}

static void what_was_said_early_is_all_that_the_client_gets(void **state)
{
    (void)state;
    struct exchange *x = stage_exchange(EXCHANGE_FORWARD, EXCHANGE_SETTLE);
    reply_early(x, ERROR_OUTCOME_NOT_STORED, "the store is slow");
    assert_int_equal(play->n_responses, 1);
    assert_int_equal(x->client_state, CLIENT_SERVED);
    give_response(201, "", "done");
    respond(reply_upstream(x, &x->response, RESULT_STORED));
    assert_int_equal(play->n_responses, 1);
    assert_true(was_sent("OUTCOME_NOT_STORED") && !was_sent("done"));
}

static void a_clients_own_time_ends_when_it_says_and_not_before(void **state)
{
    static const char *const sent[LINES_MAX] = {"HTTP/1.1 504 ", "X-Request-Timeout passed",
                                                "Idempotency-Status: unknown\r\n"};
    (void)state;
    struct exchange *x = stage_exchange(EXCHANGE_DECIDE, EXCHANGE_FORWARD);
    x->client_deadline = BOOT + S(2);
    assert_false(reply_late(x, true));
    assert_int_equal(play->n_responses, 0);
    clock_test_set(WALL + S(2), BOOT + S(2));
    assert_true(reply_late(x, true));
    expect_sent("late", sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEP_TEST(an_error_says_what_the_record_and_the_rule_make_of_it),
        STEP_TEST(a_mismatch_has_the_status_of_its_rule),
        STEP_TEST(a_doubt_that_a_probe_may_end_says_when),
        STEP_TEST(a_response_goes_as_it_came),
        STEP_TEST(a_response_in_doubt_says_so_beside_its_status),
        STEP_TEST(a_failure_that_a_probe_found_not_done_may_be_repeated),
        STEP_TEST(a_failure_that_no_probe_cleared_up_is_in_doubt),
        STEP_TEST(a_kept_response_is_replayed_and_given_back),
        STEP_TEST(an_acknowledged_duplicate_gets_no_more_than_that),
        STEP_TEST(a_client_that_left_gets_nothing),
        STEP_TEST(what_was_said_early_is_all_that_the_client_gets),
        STEP_TEST(a_clients_own_time_ends_when_it_says_and_not_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
