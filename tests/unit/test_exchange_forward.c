/* SPDX-License-Identifier: Apache-2.0 */
/* FORWARD, PROBE, INQUIRE, UNPROTECTED: what the end of a call means, and whether another follows.
 * The call itself is a script. */
#include "exchange_play.h"

#include "core/request/trial.h"
#include "gateway/exchange/upstream.h"

#define NONE ERROR_NONE
#define CALLS_MAX 4
#define DELAY_US (INT64_C(100) * CLOCK_US_PER_MS)

struct call_script {
    enum exchange_end end;
    int status; /* with EXCHANGE_RESPONDED */
};

static struct call_script calls[CALLS_MAX];
static int n_calls;
static char target_of_last[64]; /* "": the request's own */

enum exchange_end __wrap_upstream_exchange(struct exchange *x, struct slice target);

enum exchange_end __wrap_upstream_exchange(struct exchange *x, struct slice target)
{
    assert_true(n_calls < CALLS_MAX && x->deadline > clock_boot_us());
    const struct call_script *script = &calls[n_calls++];
    snprintf(target_of_last, sizeof target_of_last, "%.*s", SLICE_ARG(target));
    x->response.status = script->status;
    x->response.whole = true;
    x->cause = script->status;
    return script->end;
}

/* An attempt that has a lease, and a client that waits for as long as it takes. */
static struct exchange *stage_attempt(enum exchange_step step)
{
    struct exchange *x = stage_exchange(EXCHANGE_DECIDE, step);
    x->attempt.token = step == EXCHANGE_UNPROTECTED ? 0 : TOKEN;
    x->attempt.send_by = BOOT + S(50);
    n_calls = 0;
    target_of_last[0] = '\0';
    memset(calls, 0, sizeof calls);
    return x;
}

struct row {
    const char *name;
    struct call_script call;
    struct disposition disposition;
    bool is_spent; /* the request may have had its effect */
};

static void check_row(const struct row *row, enum exchange_step step,
                      enum exchange_step (*take)(struct exchange *x))
{
    struct exchange *x = stage_attempt(step);
    calls[0] = row->call;
    enum exchange_step next = take(x);
    const struct disposition *got = &x->disposition, *wanted = &row->disposition;
    if (next != EXCHANGE_SETTLE || n_calls != 1)
        fail_msg("%s: step %d after %d calls", row->name, next, n_calls);
    if (got->write != wanted->write || got->next != wanted->next || got->error != wanted->error)
        fail_msg("%s: write %d, next %d, error %d", row->name, got->write, got->next, got->error);
    if (x->attempt.begin.spent != row->is_spent)
        fail_msg("%s: spent %d", row->name, x->attempt.begin.spent);
    assert_string_equal(target_of_last, step == EXCHANGE_FORWARD ? "" : "/payments/k1");
    assert_int_equal(play->n_responses, 0);
}

/* ---- the request ---- */

static void an_end_is_settled_as_what_it_says_of_the_operation(void **state)
{
    static const struct row rows[] = {
        {"done", {EXCHANGE_RESPONDED, 201}, {WRITE_COMPLETE, NEXT_RESPONSE, NONE}, true},
        {"refused", {EXCHANGE_RESPONDED, 422}, {WRITE_FAIL, NEXT_RESPONSE, NONE}, true},
        {"later", {EXCHANGE_RESPONDED, 503}, {WRITE_RELEASE, NEXT_RESPONSE, NONE}, false},
        {"elsewhere", {EXCHANGE_RESPONDED, 307}, {WRITE_DROP, NEXT_RESPONSE, NONE}, false},
        {"in doubt", {EXCHANGE_RESPONDED, 500}, {WRITE_DOUBT, NEXT_RESPONSE, NONE}, true},
        {"not sent",
         {EXCHANGE_NOT_SENT, 0},
         {WRITE_RELEASE, NEXT_ERROR, ERROR_UPSTREAM_UNAVAILABLE},
         false},
        {"broke off", {EXCHANGE_BROKE, 0}, {WRITE_DOUBT, NEXT_ERROR, ERROR_UPSTREAM_BROKE}, true},
        {"malformed",
         {EXCHANGE_MALFORMED, 0},
         {WRITE_DOUBT, NEXT_ERROR, ERROR_UPSTREAM_MALFORMED},
         true},
        {"late", {EXCHANGE_TIMED_OUT, 0}, {WRITE_DOUBT, NEXT_ERROR, ERROR_UPSTREAM_TIMEOUT}, true},
        {"another owns it", {EXCHANGE_TOKEN_STALE, 0}, {WRITE_NOTHING, NEXT_DECIDE, NONE}, false},
    };
    (void)state;
    play->rule.responses = remember_policy_of(REMEMBER_FINAL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i], EXCHANGE_FORWARD, forward_request);
}

static void under_probe_a_doubt_asks_for_one(void **state)
{
    static const struct row row = {
        "broke off", {EXCHANGE_BROKE, 0}, {WRITE_DOUBT, NEXT_PROBE, ERROR_UPSTREAM_BROKE}, true};
    (void)state;
    play->rule.unknown = RECORD_UNKNOWN_PROBE;
    check_row(&row, EXCHANGE_FORWARD, forward_request);
}

static void nothing_is_sent_for_a_client_that_was_told_so(void **state)
{
    (void)state;
    struct exchange *x = stage_attempt(EXCHANGE_FORWARD);
    x->client_state = CLIENT_REFUSED;
    assert_int_equal(forward_request(x), EXCHANGE_SETTLE);
    assert_int_equal(n_calls, 0);
    assert_int_equal(x->disposition.write, WRITE_RELEASE);
    assert_int_equal(x->disposition.next, NEXT_DECIDE);
}

/* ---- further tries ---- */

static void let_retry(void)
{
    play->rule.responses = remember_policy_of(REMEMBER_FINAL);
    play->rule.retry = (struct rule_retry){
        .on = true,
        .profile = RETRY_PROFILE_user_facing,
        .schedule = *retry_profile_schedule(RETRY_PROFILE_user_facing),
        .try_timeout_us = CLOCK_NEVER,
    };
}

/* Takes the next try, when its time has come. */
static enum exchange_step forward_again(struct exchange *x)
{
    x->before = EXCHANGE_FORWARD;
    x->step = EXCHANGE_RETRY;
    clock_test_set(WALL + x->retry_at - BOOT, x->retry_at);
    assert_int_equal(retry_wait(x), EXCHANGE_FORWARD);
    x->before = EXCHANGE_RETRY;
    x->step = EXCHANGE_FORWARD;
    return forward_request(x);
}

static void what_was_not_done_is_tried_again_under_the_same_token(void **state)
{
    (void)state;
    let_retry();
    struct exchange *x = stage_attempt(EXCHANGE_FORWARD);
    calls[0] = (struct call_script){EXCHANGE_NOT_SENT, 0};
    calls[1] = (struct call_script){EXCHANGE_RESPONDED, 503};
    calls[2] = (struct call_script){EXCHANGE_RESPONDED, 201};
    assert_int_equal(forward_request(x), EXCHANGE_RETRY);
    assert_true(x->retry_at >= BOOT + DELAY_US && x->retry_at < BOOT + S(30));
    assert_int_equal(forward_again(x), EXCHANGE_RETRY);
    assert_int_equal(forward_again(x), EXCHANGE_SETTLE);
    assert_int_equal(x->disposition.write, WRITE_COMPLETE);
    assert_int_equal(x->further, 2);
}

static void a_doubt_is_tried_again_only_where_the_rule_repeats_it(void **state)
{
    static const struct {
        enum record_unknown unknown;
        enum exchange_step next;
    } cases[] = {{RECORD_UNKNOWN_HOLD, EXCHANGE_SETTLE},
                 {RECORD_UNKNOWN_PROBE, EXCHANGE_SETTLE},
                 {RECORD_UNKNOWN_PARTICIPANT, EXCHANGE_SETTLE},
                 {RECORD_UNKNOWN_RETRY, EXCHANGE_RETRY}};
    (void)state;
    let_retry();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        play->rule.unknown = cases[i].unknown;
        struct exchange *x = stage_attempt(EXCHANGE_FORWARD);
        x->attempt.result.record.unknown = cases[i].unknown;
        calls[0] = (struct call_script){EXCHANGE_BROKE, 0};
        assert_int_equal(forward_request(x), cases[i].next);
    }
}

static void a_later_not_done_does_not_end_an_earlier_doubt(void **state)
{
    (void)state;
    let_retry();
    play->rule.unknown = RECORD_UNKNOWN_RETRY;
    struct exchange *x = stage_attempt(EXCHANGE_FORWARD);
    x->attempt.result.record.unknown = RECORD_UNKNOWN_RETRY;
    calls[0] = (struct call_script){EXCHANGE_BROKE, 0};
    calls[1] = (struct call_script){EXCHANGE_RESPONDED, 401};
    assert_int_equal(forward_request(x), EXCHANGE_RETRY);
    assert_int_equal(forward_again(x), EXCHANGE_SETTLE);
    assert_int_equal(x->disposition.write, WRITE_DOUBT);
    assert_true(x->attempt.begin.spent);
}

static void a_gateway_that_drains_tries_no_more(void **state)
{
    (void)state;
    let_retry();
    struct exchange *x = stage_attempt(EXCHANGE_FORWARD);
    calls[0] = (struct call_script){EXCHANGE_NOT_SENT, 0};
    play->drains = true;
    assert_int_equal(forward_request(x), EXCHANGE_SETTLE);
    assert_int_equal(x->disposition.write, WRITE_RELEASE);
}

/* ---- what asks ---- */

static void let_probe(enum trial trial)
{
    struct slice problem;
    if (!template_compile(SLICE("/payments/{key}"), TEMPLATE_FOR_PROBE, &play->arena,
                          &play->rule.probe, &problem))
        fail_msg("%.*s", SLICE_ARG(problem));
    remember_policy_move(&play->rule.not_found, 404, SORT_NOT_DONE);
    atomic_store(&play->trial, (int)trial);
}

static void a_probe_believes_what_the_rule_calls_not_found(void **state)
{
    static const struct row rows[] = {
        {"not found", {EXCHANGE_RESPONDED, 404}, {WRITE_RELEASE, NEXT_DECIDE, NONE}, false},
        {"found", {EXCHANGE_RESPONDED, 200}, {WRITE_COMPLETE, NEXT_RESPONSE, NONE}, false},
        {"neither",
         {EXCHANGE_RESPONDED, 500},
         {WRITE_DOUBT, NEXT_ERROR, ERROR_OUTCOME_UNKNOWN},
         false},
        {"no response",
         {EXCHANGE_NOT_SENT, 0},
         {WRITE_DOUBT, NEXT_ERROR, ERROR_OUTCOME_UNKNOWN},
         false},
    };
    (void)state;
    let_probe(TRIAL_PASSED);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i], EXCHANGE_PROBE, forward_probe);
}

static void an_inquiry_sends_only_what_was_not_found(void **state)
{
    static const struct row rows[] = {
        {"not found", {EXCHANGE_RESPONDED, 404}, {WRITE_TURN, NEXT_FORWARD, NONE}, false},
        {"found", {EXCHANGE_RESPONDED, 200}, {WRITE_COMPLETE, NEXT_DECIDE, NONE}, false},
        {"the caller may not", {EXCHANGE_RESPONDED, 403}, {WRITE_RELEASE, NEXT_RESPONSE, NONE}},
        {"neither", {EXCHANGE_RESPONDED, 500}, {WRITE_RELEASE, NEXT_ERROR, ERROR_UNPROVED}},
        {"no response", {EXCHANGE_TIMED_OUT, 0}, {WRITE_RELEASE, NEXT_ERROR, ERROR_UNPROVED}},
    };
    (void)state;
    let_probe(TRIAL_PASSED);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i], EXCHANGE_INQUIRE, forward_inquiry);
}

/* One that also finds a key that cannot exist is asked no more than that. */
static void a_probe_that_finds_anything_is_not_believed(void **state)
{
    static const struct row row = {"found",
                                   {EXCHANGE_RESPONDED, 200},
                                   {WRITE_DOUBT, NEXT_ERROR, ERROR_OUTCOME_UNKNOWN},
                                   false};
    (void)state;
    let_probe(TRIAL_DUE);
    struct exchange *x = stage_attempt(EXCHANGE_PROBE);
    calls[0] = calls[1] = row.call;
    assert_int_equal(forward_probe(x), EXCHANGE_SETTLE);
    assert_int_equal(n_calls, 2);
    assert_int_equal(x->disposition.write, WRITE_DOUBT);
    assert_int_equal(atomic_load(&play->trial), TRIAL_FAILED);
    check_row(&row, EXCHANGE_PROBE, forward_probe);
}

/* ---- without a record ---- */

static void what_is_sent_without_a_record_is_answered_as_it_ends(void **state)
{
    static const struct {
        struct call_script call;
        enum error error;
    } cases[] = {
        {{EXCHANGE_RESPONDED, 500}, NONE},
        {{EXCHANGE_NOT_SENT, 0}, ERROR_UPSTREAM_UNAVAILABLE},
        {{EXCHANGE_TIMED_OUT, 0}, ERROR_UPSTREAM_TIMEOUT},
        {{EXCHANGE_MALFORMED, 0}, ERROR_UPSTREAM_MALFORMED},
        {{EXCHANGE_BROKE, 0}, ERROR_UPSTREAM_BROKE},
        {{EXCHANGE_TOKEN_STALE, 0}, ERROR_UPSTREAM_BROKE},
    };
    (void)state;
    play->rule.store_down_pass = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exchange *x = stage_attempt(EXCHANGE_UNPROTECTED);
        calls[0] = cases[i].call;
        assert_int_equal(forward_unprotected(x), EXCHANGE_RESPOND);
        assert_int_equal(x->reply.error, cases[i].error);
        assert_int_equal(x->reply.result, RESULT_BYPASSED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEP_TEST(an_end_is_settled_as_what_it_says_of_the_operation),
        STEP_TEST(under_probe_a_doubt_asks_for_one),
        STEP_TEST(nothing_is_sent_for_a_client_that_was_told_so),
        STEP_TEST(what_was_not_done_is_tried_again_under_the_same_token),
        STEP_TEST(a_doubt_is_tried_again_only_where_the_rule_repeats_it),
        STEP_TEST(a_later_not_done_does_not_end_an_earlier_doubt),
        STEP_TEST(a_gateway_that_drains_tries_no_more),
        STEP_TEST(a_probe_believes_what_the_rule_calls_not_found),
        STEP_TEST(an_inquiry_sends_only_what_was_not_found),
        STEP_TEST(a_probe_that_finds_anything_is_not_believed),
        STEP_TEST(what_is_sent_without_a_record_is_answered_as_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
