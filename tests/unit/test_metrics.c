/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"
#include "observe/page.h"

static char *page_of(struct metrics *metrics)
{
    struct buf buf = buf_make(PAGE_MAX);
    page_metrics(&buf, metrics);
    assert_true(buf_ok(&buf));
    return buf_take(&buf);
}

/* Whether `line` is one of the page's lines. */
static bool has_line(struct metrics *metrics, const char *line)
{
    char *page MEM_AUTO = page_of(metrics);
    struct slice rest = slice_of(page), found;
    while (rest.len > 0) {
        rest = slice_cut(rest, '\n', &found);
        if (slice_eq(found, slice_of(line)))
            return true;
    }
    return false;
}

static void a_rule_that_was_asked_for_has_all_its_series_at_zero(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    metrics_rule(metrics, SLICE("refunds"));
    static const char *const lines[] = {
#define X(name, text) "pawl_requests_total{rule=\"refunds\",outcome=\"" text "\"} 0",
        METRICS_OUTCOMES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_true(has_line(metrics, lines[i]));
    assert_true(has_line(metrics, "pawl_request_duration_seconds_count{rule=\"refunds\"} 0"));
    assert_true(has_line(metrics, "pawl_requests_total{rule=\"\",outcome=\"bypassed\"} 0"));
    assert_false(has_line(metrics, "pawl_requests_total{rule=\"(other)\",outcome=\"passed\"} 0"));
    metrics_free(metrics);
}

static void an_answer_is_counted_under_its_rule_and_outcome(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    struct metrics_rule *rule = metrics_rule(metrics, SLICE("refunds"));
    metrics_count(rule, METRICS_CREATED);
    metrics_count(rule, METRICS_CREATED);
    metrics_count(metrics_rule(metrics, slice_of(NULL)), METRICS_PASSED);
    assert_ptr_equal(metrics_rule(metrics, SLICE("refunds")), rule);
    assert_true(has_line(metrics, "pawl_requests_total{rule=\"refunds\",outcome=\"created\"} 2"));
    assert_true(has_line(metrics, "pawl_requests_total{rule=\"\",outcome=\"passed\"} 1"));
    metrics_free(metrics);
}

static void an_operation_without_its_participant_is_counted_under_its_rule(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    metrics_participant_missed(metrics_rule(metrics, SLICE("payments")));
    metrics_rule(metrics, SLICE("refunds"));
    assert_true(has_line(metrics, "pawl_participant_missing_total{rule=\"payments\"} 1"));
    assert_true(has_line(metrics, "pawl_participant_missing_total{rule=\"refunds\"} 0"));
    metrics_free(metrics);
}

static void a_duration_falls_into_every_bucket_that_is_not_below_it(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    struct metrics_rule *rule = metrics_rule(metrics, SLICE("r"));
    metrics_request_took(rule, 1000);
    metrics_request_took(rule, 1001);
    metrics_request_took(rule, 31000000);
    metrics_request_took(rule, -5);
#define LINE(le, n)                                                                                \
    assert_true(                                                                                   \
        has_line(metrics, "pawl_request_duration_seconds_bucket{rule=\"r\",le=\"" le "\"} " n))
    LINE("0.001", "2");
    LINE("0.0025", "3");
    LINE("30", "3");
    LINE("+Inf", "4");
#undef LINE
    assert_true(has_line(metrics, "pawl_request_duration_seconds_sum{rule=\"r\"} 31.002001"));
    assert_true(has_line(metrics, "pawl_request_duration_seconds_count{rule=\"r\"} 4"));
    assert_true(has_line(metrics, "pawl_upstream_duration_seconds_count{rule=\"r\"} 0"));
    metrics_free(metrics);
}

static void names_beyond_the_limit_share_one_rule(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    char name[16];
    for (int i = 0; i < METRICS_RULES_MAX; i++) {
        snprintf(name, sizeof name, "rule%d", i);
        metrics_rule(metrics, slice_of(name));
    }
    struct metrics_rule *other = metrics_rule(metrics, SLICE("one more"));
    assert_ptr_equal(other, metrics_rule(metrics, SLICE("and another")));
    metrics_count(other, METRICS_CREATED);
    assert_true(has_line(metrics, "pawl_requests_total{rule=\"(other)\",outcome=\"created\"} 1"));
    assert_true(has_line(metrics, "pawl_requests_total{rule=\"rule255\",outcome=\"created\"} 0"));
    metrics_free(metrics);
}

static void label_values_are_escaped(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    metrics_count(metrics_rule(metrics, SLICE("a\"b\\c\nd")), METRICS_CREATED);
    assert_true(
        has_line(metrics, "pawl_requests_total{rule=\"a\\\"b\\\\c\\nd\",outcome=\"created\"} 1"));
    metrics_free(metrics);
}

static void reloads_are_counted_and_the_last_one_told(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    assert_true(has_line(metrics, "pawl_config_last_reload_successful 1"));
    metrics_reloaded(metrics, true);
    metrics_reloaded(metrics, false);
    assert_true(has_line(metrics, "pawl_config_last_reload_successful 0"));
    assert_true(has_line(metrics, "pawl_config_reloads_total{result=\"success\"} 1"));
    assert_true(has_line(metrics, "pawl_config_reloads_total{result=\"failure\"} 1"));
    metrics_free(metrics);
}

/* The value of a series without labels; it is on the page once. */
static double value_of(const char *page, const struct page_series *series)
{
    char start[128];
    snprintf(start, sizeof start, "\n%s ", series->name);
    const char *at = strstr(page, start);
    assert_non_null(at);
    assert_null(strstr(at + 1, start));
    return strtod(at + strlen(start), NULL);
}

static void what_the_process_uses_is_read(void **state)
{
    (void)state;
    struct buf buf = buf_make(PAGE_MAX);
    page_process(&buf);
    char *page MEM_AUTO = buf_take(&buf);
    assert_true(value_of(page, SERIES(RESIDENT)) > 64 * 1024);
    assert_true(value_of(page, SERIES(VIRTUAL)) > value_of(page, SERIES(RESIDENT)));
    assert_true(value_of(page, SERIES(OPEN_FDS)) >= 3);
    assert_true(value_of(page, SERIES(MAX_FDS)) >= value_of(page, SERIES(OPEN_FDS)));
    assert_true(value_of(page, SERIES(START_TIME)) > 1.6e9);
}

#define THREADS 4
#define ROUNDS 10000

static void count_much(void *argument)
{
    struct metrics *metrics = argument;
    char name[16];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "rule%d", i % 300);
        struct metrics_rule *rule = metrics_rule(metrics, slice_of(name));
        metrics_count(rule, METRICS_REPLAYED);
        metrics_upstream_took(rule, i);
    }
}

static void threads_that_count_at_once_lose_nothing(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new();
    struct thread threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_true(thread_start(&threads[i], "count", count_much, metrics));
    for (int i = 0; i < THREADS; i++)
        thread_join(&threads[i]);
    char *page MEM_AUTO = page_of(metrics);
    unsigned long long n = 0;
    for (const char *at = page; (at = strstr(at, "outcome=\"replayed\"} ")); at++) {
        uint64_t value;
        struct slice digits;
        slice_cut(slice_of(at + strlen("outcome=\"replayed\"} ")), '\n', &digits);
        assert_true(slice_to_u64(digits, INT64_MAX, &value));
        n += value;
    }
    assert_int_equal(n, THREADS * ROUNDS);
    metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_was_asked_for_has_all_its_series_at_zero),
        cmocka_unit_test(an_answer_is_counted_under_its_rule_and_outcome),
        cmocka_unit_test(an_operation_without_its_participant_is_counted_under_its_rule),
        cmocka_unit_test(a_duration_falls_into_every_bucket_that_is_not_below_it),
        cmocka_unit_test(names_beyond_the_limit_share_one_rule),
        cmocka_unit_test(label_values_are_escaped),
        cmocka_unit_test(reloads_are_counted_and_the_last_one_told),
        cmocka_unit_test(what_the_process_uses_is_read),
        cmocka_unit_test(threads_that_count_at_once_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
