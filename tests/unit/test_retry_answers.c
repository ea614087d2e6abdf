/* SPDX-License-Identifier: Apache-2.0 */
/* core/retry: what each end of an attempt means. The responses of others are in test_vectors.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/retry/retry.h"

#define S CLOCK_US_PER_S
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))
#define NOW (INT64_C(7) * S)

static enum retry_class judge(enum exchange_end end, int status, const char *code)
{
    const struct retry_answer answer = {.end = end, .status = status, .code = slice_of(code)};
    return retry_judge(RETRY_BY_CALL, &answer, NULL, false);
}

/* The sentence of contract section 6, written down a second time. */
static enum retry_class wanted_class(int status)
{
    if (status >= 200 && status < 300)
        return RETRY_DONE;
    if (status == 401 || status == 407)
        return RETRY_CREDENTIALS;
    if (status == 408)
        return RETRY_AT_ONCE;
    if (status == 425 || status == 429)
        return RETRY_LATER;
    return status >= 500 && status != 501 && status != 505 ? RETRY_LATER : RETRY_FINAL;
}

static void every_status_has_its_class(void **state)
{
    (void)state;
    for (int status = 100; status <= RETRY_STATUS_MOST; status++)
        assert_int_equal(judge(EXCHANGE_RESPONDED, status, ""), wanted_class(status));
}

/* While an attempt is in doubt a refusal is no refusal: what is final says nothing of it. */
static void every_end_in_doubt_is_in_doubt(void **state)
{
    (void)state;
    for (int status = 100; status <= RETRY_STATUS_MOST; status++) {
        const struct retry_answer answer = {.end = EXCHANGE_RESPONDED, .status = status};
        enum retry_class wanted = wanted_class(status);
        enum retry_class class = retry_judge(RETRY_BY_CALL, &answer, NULL, true);
        assert_int_equal(class, status == 409           ? RETRY_BUSY_A_WHILE
                                : wanted == RETRY_FINAL ? RETRY_IN_DOUBT
                                                        : wanted);
        wanted = status == 401 || status == 403 || status == 407 ? RETRY_LATER : class;
        assert_int_equal(retry_judge(RETRY_BY_HANDLER, &answer, NULL, true), wanted);
    }
}

static void a_code_or_a_failure_of_the_transport_has_its_class(void **state)
{
    static const struct {
        enum exchange_end end;
        int status;
        const char *code;
        enum retry_class class;
    } rows[] = {
        {EXCHANGE_NOT_SENT, 0, "", RETRY_LATER},
        {EXCHANGE_BROKE, 0, "", RETRY_LATER},
        {EXCHANGE_TIMED_OUT, 0, "", RETRY_LATER},
        {EXCHANGE_PORTAL, 0, "", RETRY_LATER},
        {EXCHANGE_TOKEN_STALE, 409, "CONFLICT.idempotency.token_stale", RETRY_FINAL},
        {EXCHANGE_RESPONDED, 409, "CONFLICT.idempotency.in_progress", RETRY_BUSY},
        {EXCHANGE_RESPONDED, 422, "CONFLICT.idempotency.in_progress", RETRY_BUSY},
        {EXCHANGE_RESPONDED, 503, "CONFLICT.idempotency.in_progress", RETRY_LATER},
        {EXCHANGE_RESPONDED, 409, "anything.in_progress", RETRY_BUSY_A_WHILE},
        {EXCHANGE_RESPONDED, 409, "CONCURRENT_REQUEST", RETRY_BUSY},
        {EXCHANGE_RESPONDED, 429, "CONCURRENT_REQUEST", RETRY_LATER},
        {EXCHANGE_RESPONDED, 409, "in_progress", RETRY_FINAL},
        {EXCHANGE_RESPONDED, 409, "concurrent_request", RETRY_FINAL},
        {EXCHANGE_RESPONDED, 409, "CONFLICT.idempotency.in_progress.not", RETRY_FINAL},
        {EXCHANGE_RESPONDED, 409, "CONFLICT.idempotency.payload_mismatch", RETRY_FINAL},
        {EXCHANGE_RESPONDED, 409, "CONFLICT.idempotency.outcome_unknown", RETRY_IN_DOUBT},
        {EXCHANGE_RESPONDED, 401, "AUTH.signature", RETRY_FINAL},
        {EXCHANGE_RESPONDED, 401, "PROVIDER.duplicate", RETRY_DONE},
        {EXCHANGE_RESPONDED, 500, "PROVIDER.duplicate", RETRY_DONE},
        {EXCHANGE_RESPONDED, 410, "PROVIDER.duplicate", RETRY_DONE},
        {EXCHANGE_RESPONDED, 503, "TRANSIENT.flaky", RETRY_LATER},
        {EXCHANGE_RESPONDED, 400, "TRANSIENT.flaky", RETRY_FINAL},
    };
    (void)state;
    for (size_t i = 0; i < N_OF(rows); i++)
        assert_int_equal(judge(rows[i].end, rows[i].status, rows[i].code), rows[i].class);
}

/* Words of others and what a service says of retries come first; then the caller's choice. */
static void a_caller_chooses_single_statuses(void **state)
{
    static const char *const wrong[] = {"", "409,", ",409", "4090", "4x9", "200", "409 422", "+12"};
    struct retry_choices choices = {0};
    struct retry_answer answer = {.end = EXCHANGE_RESPONDED, .status = 409};
    (void)state;
    assert_true(retry_choose(&choices, SLICE("409"), RETRY_CHOICE_DONE));
    assert_true(retry_choose(&choices, SLICE("422,423"), RETRY_CHOICE_LATER));
    assert_false(retry_choose(&choices, SLICE("410,409"), RETRY_CHOICE_LATER));
    assert_true(retry_choices_read(&choices, SLICE("done=409\nlater=422\n")));
    assert_false(retry_choices_read(&choices, SLICE("never=409\n")));
    for (size_t i = 0; i < N_OF(wrong); i++)
        assert_false(retry_choose(&choices, slice_of(wrong[i]), RETRY_CHOICE_LATER));
    assert_int_equal(retry_judge(RETRY_BY_CALL, &answer, &choices, true), RETRY_DONE);
    answer.advice = RETRY_ADVICE_NEVER;
    assert_int_equal(retry_judge(RETRY_BY_CALL, &answer, &choices, false), RETRY_FINAL);
    answer = (struct retry_answer){.end = EXCHANGE_RESPONDED, .status = 423};
    assert_int_equal(retry_judge(RETRY_BY_CALL, &answer, &choices, true), RETRY_LATER);
}

/* Whether a response of this type with this body has it. */
static bool holds(const char *condition, const char *type, const char *body)
{
    struct retry_choices choices = {0};
    struct headers headers;
    headers_clear(&headers);
    assert_true(headers_add(&headers, SLICE("Content-Type"), slice_of(type)));
    assert_true(headers_add(&headers, SLICE("X-State"), SLICE("queued")));
    assert_true(retry_choose_not_done(&choices, slice_of(condition)));
    return retry_says(&choices, &headers, slice_of(body)) == SAYS_NOT_DONE;
}

static void a_body_or_a_header_says_that_it_was_not_done(void **state)
{
    static const char json[] = "application/json; charset=utf-8";
    static const char body[] =
        "{\"a\":[{\"code\":\"A=B\"}],\"n\":1.0,\"z\":null,\"t\":true,\"s\":\"1\",\"o\":{}}";
    static const char *const yes[] = {"/a/0/code=A=B", "/n=1",     "/n=10e-1",       "/z=null",
                                      "/t=true",       "/s=\"1\"", "X-State: queued"};
    static const char *const no[] = {"/a/0/code=A", "/n=\"1\"",      "/s=1",
                                     "/x=null",     "/t=false",      "/o={}",
                                     "/a/1=A",      "X-State: done", "X-Other: queued"};
    static const char *const wrong[] = {"", "x", "/a", "a=b", "/~2=1", "/a\n=1", "X Y: 1"};
    struct retry_choices choices = {0};
    (void)state;
    for (size_t i = 0; i < N_OF(yes); i++)
        assert_true(holds(yes[i], json, body));
    for (size_t i = 0; i < N_OF(no); i++)
        assert_false(holds(no[i], json, body));
    for (size_t i = 0; i < N_OF(wrong); i++)
        assert_false(retry_choose_not_done(&choices, slice_of(wrong[i])));
    assert_true(holds("/n=1", "application/hal+json", body));
    assert_false(holds("/n=1", "text/html", body));
    assert_false(holds("/n=1", json, "{\"n\":1"));
    for (int i = 0; i < RETRY_CONDITIONS_MOST; i++)
        assert_true(retry_choose_not_done(&choices, SLICE("/a=1")));
    assert_false(retry_choose_not_done(&choices, SLICE("/a=1")));
}

static void what_was_not_done_is_sent_again_whatever_its_status(void **state)
{
    (void)state;
    for (int status = 200; status <= RETRY_STATUS_MOST; status++) {
        const struct retry_answer answer = {
            .end = EXCHANGE_RESPONDED, .status = status, .is_not_done = true};
        assert_int_equal(retry_judge(RETRY_BY_CALL, &answer, NULL, true), RETRY_LATER);
    }
}

static enum retry_class to_webhook(enum exchange_end end, int status, const char *code)
{
    const struct retry_answer answer = {.end = end, .status = status, .code = slice_of(code)};
    return retry_judge(RETRY_BY_WEBHOOK, &answer, NULL, true);
}

static void to_a_webhook_only_2xx_is_done_and_only_410_is_final(void **state)
{
    static const char *const codes[] = {"", "PROVIDER.duplicate", "anything.in_progress",
                                        "CONCURRENT_REQUEST"};
    (void)state;
    for (int status = 100; status <= 999; status++)
        for (size_t i = 0; i < N_OF(codes); i++)
            assert_int_equal(to_webhook(EXCHANGE_RESPONDED, status, codes[i]),
                             status >= 200 && status < 300 ? RETRY_DONE
                             : status == 410               ? RETRY_FINAL
                                                           : RETRY_LATER);
    for (enum exchange_end end = EXCHANGE_NOT_SENT; end <= EXCHANGE_PORTAL; end++)
        if (end != EXCHANGE_RESPONDED)
            assert_int_equal(to_webhook(end, 0, ""), RETRY_LATER);
}

static void expect_code(const char *header, const char *body, const char *wanted)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 20);
    struct headers headers;
    headers_clear(&headers);
    if (header)
        assert_true(headers_add(&headers, SLICE("error-code"), slice_of(header)));
    struct retry_answer answer = {.end = EXCHANGE_RESPONDED};
    assert_true(retry_read_answer(&headers, slice_of(body), &arena, &answer));
    assert_true(slice_eq(answer.code, slice_of(wanted)));
}

static void an_error_code_is_read_where_responses_have_it(void **state)
{
    (void)state;
    expect_code("A.b", "{\"error_code\":\"C.d\"}", "A.b");
    expect_code(NULL, "{\"error_code\":\"C.d\",\"error\":{\"code\":\"E\"}}", "C.d");
    expect_code(NULL, "{\"error\":{\"code\":\"CONCURRENT_REQUEST\"}}", "CONCURRENT_REQUEST");
    expect_code(NULL, "{\"error_code\":7,\"error\":{\"code\":\"E\"}}", "E");
    expect_code(NULL, "{\"error\":\"E\"}", "");
    expect_code(NULL, "[]", "");
    expect_code(NULL, "", "");
    expect_code(NULL, "not JSON", "");
}

#ifdef PAWL_HOOKS

/* Of a response of this status whose body says why. */
static bool reads_all(int status, const char *type, const char *body)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 20);
    struct retry_answer answer = {.end = EXCHANGE_RESPONDED, .status = status};
    struct headers headers;
    headers_clear(&headers);
    assert_true(headers_add(&headers, SLICE("Content-Type"), slice_of(type)));
    bool is_read = retry_read_answer(&headers, slice_of(body), &arena, &answer);
    enum retry_class class = retry_judge(RETRY_BY_CALL, &answer, NULL, false);
    assert_true(!is_read || class == (status == 200 ? RETRY_DONE : RETRY_BUSY));
    return is_read;
}

/* found: a 409 whose body could not be read for want of memory was final, and ended the retries */
static void what_is_not_read_for_want_of_memory_says_nothing(void **state)
{
    static const char *const rows[][2] = {
        {"application/json", "{\"error\":{\"code\":\"CONCURRENT_REQUEST\"}}"},
        {"application/json", "{\"error_code\":\"CONCURRENT\\u005fREQUEST\"}"},
        {"application/problem+json", "{\"title\":\"A request is outstanding\"}"},
        {"application/problem+json", "{\"retryable\":true}"}};
    (void)state;
    for (size_t i = 0; i < N_OF(rows); i++) {
        int fired = 1;
        for (long n = 1; fired; n++) {
            mem_fail_nth(n);
            bool is_read = reads_all(409, rows[i][0], rows[i][1]);
            fired = mem_fail_fired();
            mem_fail_nth(n);
            assert_true(reads_all(200, rows[i][0], rows[i][1]));
            mem_fail_nth(0);
            assert_true(is_read == !fired && (fired || n > 1));
        }
    }
}

#endif

static void what_may_be_busy_is_so_for_a_quarter_of_an_hour(void **state)
{
    (void)state;
    int64_t over = NOW + RETRY_BUSY_MOST_US;
    assert_int_equal(retry_bound_busy(RETRY_BUSY_A_WHILE, 0, true, over), RETRY_BUSY);
    assert_int_equal(retry_bound_busy(RETRY_BUSY_A_WHILE, NOW, true, over - 1), RETRY_BUSY);
    assert_int_equal(retry_bound_busy(RETRY_BUSY_A_WHILE, NOW, true, over), RETRY_IN_DOUBT);
    assert_int_equal(retry_bound_busy(RETRY_BUSY_A_WHILE, NOW, false, over), RETRY_FINAL);
    assert_int_equal(retry_bound_busy(RETRY_BUSY, NOW, true, over), RETRY_BUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_class),
        cmocka_unit_test(every_end_in_doubt_is_in_doubt),
        cmocka_unit_test(a_code_or_a_failure_of_the_transport_has_its_class),
        cmocka_unit_test(a_caller_chooses_single_statuses),
        cmocka_unit_test(a_body_or_a_header_says_that_it_was_not_done),
        cmocka_unit_test(what_was_not_done_is_sent_again_whatever_its_status),
        cmocka_unit_test(to_a_webhook_only_2xx_is_done_and_only_410_is_final),
        cmocka_unit_test(an_error_code_is_read_where_responses_have_it),
#ifdef PAWL_HOOKS
        cmocka_unit_test(what_is_not_read_for_want_of_memory_says_nothing),
#endif
        cmocka_unit_test(what_may_be_busy_is_so_for_a_quarter_of_an_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
