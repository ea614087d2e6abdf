/* SPDX-License-Identifier: Apache-2.0 */
/* core/retry: the contract's table of profiles over 10,000 seeds, what each end of an attempt
 * means, hostile hints, the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/retry/retry.h"

#define SEEDS 10000
#define MS CLOCK_US_PER_MS
#define S CLOCK_US_PER_S
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))
#define NOW (INT64_C(7) * S)
#define WALL (INT64_C(1795338000) * S) /* 2026-11-22T09:00:00Z */

static const struct retry_schedule *schedule_of(const char *name)
{
    enum retry_profile profile;
    assert_true(retry_profile_find(slice_of(name), &profile));
    assert_true(slice_eq(retry_profile_name(profile), slice_of(name)));
    return retry_profile_schedule(profile);
}

/* ---- profiles ---- */

struct bounds {
    int64_t least_ms;
    int64_t most_ms;
};

/* Every delay of every seed is within its bounds, and seeds reach both of their ends. */
static void expect_bounds(const struct retry_schedule *schedule, const struct bounds *bounds)
{
    for (int attempt = 2; attempt <= schedule->attempts; attempt++) {
        int64_t least = INT64_MAX, most = 0;
        struct bounds wanted = bounds[attempt - 2];
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            int64_t delay = retry_delay_us(schedule, attempt, seed);
            least = delay < least ? delay : least;
            most = delay > most ? delay : most;
        }
        assert_in_range(least / MS, wanted.least_ms,
                        wanted.least_ms + (wanted.most_ms - wanted.least_ms) / 50);
        assert_in_range(most / MS, wanted.most_ms - (wanted.most_ms - wanted.least_ms) / 50,
                        wanted.most_ms);
    }
}

static void r1_user_facing_delays_double_from_100_to_200_ms(void **state)
{
    static const struct bounds bounds[] = {{100, 200}, {200, 400}, {400, 800}, {800, 1600}};
    const struct retry_schedule *schedule = schedule_of("user_facing");
    (void)state;
    assert_int_equal(schedule->attempts, 5);
    assert_int_equal(schedule->total_us, 10 * S);
    assert_int_equal(schedule->cap_us, 2 * S);
    expect_bounds(schedule, bounds);
}

static void r1_user_facing_ends_within_ten_seconds_with_what_requests_take(void **state)
{
    int ended_by_time = 0;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int64_t now = NOW;
        struct retry_course course =
            retry_course_make(schedule_of("user_facing"), seed, now, CLOCK_NEVER);
        struct retry_next next;
        for (;; course.attempts++) {
            assert_true(now <= NOW + 10 * S);
            next = retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT,
                                   now += (int64_t)(seed % 3000) * MS);
            if (next.end != RETRY_GOES_ON)
                break;
            now = next.at;
        }
        assert_true(next.end == RETRY_ENDS_ATTEMPTS || next.end == RETRY_ENDS_DEADLINE);
        assert_true(next.end == RETRY_ENDS_DEADLINE || course.attempts == 5);
        ended_by_time += next.end == RETRY_ENDS_DEADLINE;
    }
    assert_in_range(ended_by_time, SEEDS / 10, SEEDS * 9 / 10);
}

static void r2_api_delays_are_a_power_of_two_seconds_and_up_to_one_more(void **state)
{
    static const struct bounds bounds[] = {{1000, 2000}, {2000, 3000},   {4000, 5000},
                                           {8000, 9000}, {16000, 17000}, {30000, 30000}};
    struct retry_schedule longer = *schedule_of("api");
    (void)state;
    expect_bounds(schedule_of("api"), bounds);
    expect_bounds(schedule_of("background"), bounds);
    expect_bounds(schedule_of("scheduled"), bounds);
    longer.attempts = 7;
    expect_bounds(&longer, bounds); /* n = 5: exactly 30000 */
    assert_int_equal(schedule_of("api")->attempts, 1 + 3);
    assert_int_equal(schedule_of("api")->total_us, 10 * S);
    assert_int_equal(schedule_of("background")->attempts, 1 + 5);
    assert_int_equal(schedule_of("background")->total_us, 5 * 60 * S);
    assert_int_equal(schedule_of("scheduled")->attempts, 1 + 3);
    assert_int_equal(schedule_of("scheduled")->total_us, 3600 * S);
}

static void queue_delays_are_those_of_api_up_to_five_minutes(void **state)
{
    static const struct bounds bounds[] = {{1000, 2000},   {2000, 3000},     {4000, 5000},
                                           {8000, 9000},   {16000, 17000},   {32000, 33000},
                                           {64000, 65000}, {128000, 129000}, {256000, 257000}};
    (void)state;
    assert_int_equal(schedule_of("queue")->attempts, 10);
    assert_int_equal(schedule_of("queue")->total_us, CLOCK_NEVER);
    assert_int_equal(schedule_of("queue")->cap_us, 300 * S);
    expect_bounds(schedule_of("queue"), bounds);
}

static const int64_t webhook_s[] = {0, 5, 30, 120, 600, 1800, 3600, 21600, 43200, 86400};

/* Each attempt takes no time; when it began. */
static void webhook_attempts_are_at_their_offsets_spread_upward(void **state)
{
    const struct retry_schedule *schedule = schedule_of("webhook");
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct retry_course course = retry_course_make(schedule, seed, NOW, CLOCK_NEVER);
        int64_t now = NOW;
        for (; course.attempts < 10; course.attempts++) {
            int n = course.attempts;
            int64_t step = webhook_s[n] - webhook_s[n - 1];
            struct retry_next next = retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT, now);
            assert_int_equal(next.end, RETRY_GOES_ON);
            assert_int_equal(next.at - now, retry_delay_us(schedule, n + 1, seed));
            assert_in_range((next.at - NOW) / MS, webhook_s[n] * 1000,
                            webhook_s[n] * 1000 + (n < 9 ? step * 100 : 0));
            now = next.at;
        }
        assert_int_equal(now, NOW + 86400 * S);
        assert_int_equal(retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT, now).end,
                         RETRY_ENDS_ATTEMPTS);
    }
}

static void offsets_that_passed_are_skipped_and_not_made_up(void **state)
{
    struct retry_course course = retry_course_make(schedule_of("webhook"), 3, NOW, CLOCK_NEVER);
    (void)state;
    /* The first attempt took 35 minutes. */
    struct retry_next next =
        retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT, NOW + 35 * 60 * S);
    assert_in_range((next.at - NOW) / S, 3600, 3600 + 180);
    course.attempts++;
    /* A hint past an offset is when it is tried; then comes the next offset ahead. */
    next = retry_plan_next(&course, RETRY_LATER, 6 * 3600 * S, next.at);
    assert_in_range((next.at - NOW) / S, 7 * 3600, 7 * 3600 + 2400);
    course.attempts++;
    next = retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT, next.at);
    assert_in_range((next.at - NOW) / S, 43200, 43200 + 2160);
    course.attempts++;
    next = retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT, NOW + 86400 * S);
    assert_int_equal(next.end, RETRY_ENDS_DEADLINE);
}

static void an_explicit_list_gives_its_delays(void **state)
{
    static const int64_t list[] = {0, 5 * S, 30 * S};
    struct retry_schedule schedule = {.form = RETRY_DELAYS,
                                      .attempts = 4,
                                      .total_us = CLOCK_NEVER,
                                      .cap_us = CLOCK_NEVER,
                                      .list = list};
    (void)state;
    for (int attempt = 2; attempt <= 4; attempt++)
        assert_int_equal(retry_delay_us(&schedule, attempt, 1), list[attempt - 2]);
    schedule.jitter = RETRY_JITTER_UPWARD;
    schedule.part_percent = 20;
    expect_bounds(&schedule, (const struct bounds[]){{0, 0}, {5000, 6000}, {30000, 36000}});
    schedule.jitter = RETRY_JITTER_FULL;
    expect_bounds(&schedule, (const struct bounds[]){{0, 0}, {0, 5000}, {0, 30000}});
    schedule.jitter = RETRY_JITTER_SPREAD;
    expect_bounds(&schedule, (const struct bounds[]){{0, 0}, {5000, 10000}, {30000, 60000}});
    schedule.cap_us = 40 * S;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        assert_in_range(retry_delay_us(&schedule, 4, seed), 30 * S, 40 * S);
}

static void delays_of_ones_own_leave_the_rest_to_the_profile(void **state)
{
    struct retry_schedule schedule = *schedule_of("user_facing");
    (void)state;
    retry_schedule_set_delays(&schedule, (const int64_t[]){2 * S, 0}, 2);
    assert_int_equal(schedule.total_us, 10 * S);
    expect_bounds(&schedule, (const struct bounds[]){{2000, 2200}, {0, 0}});
}

static void a_delay_that_would_overflow_is_its_cap(void **state)
{
    struct retry_schedule schedule = {.jitter = RETRY_JITTER_SPREAD,
                                      .attempts = 10,
                                      .total_us = CLOCK_NEVER,
                                      .base_us = CLOCK_NEVER / 2,
                                      .cap_us = 60 * S};
    (void)state;
    assert_int_equal(retry_delay_us(&schedule, 10, 5), 60 * S);
    schedule.cap_us = CLOCK_NEVER;
    assert_int_equal(retry_delay_us(&schedule, 10, 5), CLOCK_NEVER);
}

/* Clients in other languages compute the same: splitmix64 of seed and attempt. */
static void a_seed_gives_the_same_delays_everywhere(void **state)
{
    static const int64_t wanted_ms[] = {163, 233, 504, 1509};
    const struct retry_schedule *schedule = schedule_of("user_facing");
    (void)state;
    for (int attempt = 2; attempt <= 5; attempt++)
        assert_int_equal(retry_delay_us(schedule, attempt, 42) / MS, wanted_ms[attempt - 2]);
}

static void a_name_that_is_no_profile_s_is_not_found(void **state)
{
    static const char *const names[] = {"", "none", "User_Facing", "user-facing", "api ", "apis"};
    enum retry_profile profile;
    (void)state;
    for (size_t i = 0; i < N_OF(names); i++)
        assert_false(retry_profile_find(slice_of(names[i]), &profile));
}

/* ---- hints ---- */

static int64_t hint_of(const char *value)
{
    struct headers headers;
    headers_clear(&headers);
    if (value)
        assert_true(headers_add(&headers, SLICE("Retry-After"), slice_of(value)));
    return retry_read_hint(&headers, WALL);
}

static void a_hint_is_digits_or_a_date_in_any_form(void **state)
{
    (void)state;
    assert_int_equal(hint_of("0"), 0);
    assert_int_equal(hint_of("2"), 2 * S);
    assert_int_equal(hint_of(" 2\t"), 2 * S);
    assert_int_equal(hint_of("007"), 7 * S);
    assert_int_equal(hint_of("00000000000000000000000000000060"), 60 * S);
    assert_int_equal(hint_of("Sun, 22 Nov 2026 09:01:00 GMT"), 60 * S);
    assert_int_equal(hint_of("Sunday, 22-Nov-26 09:01:00 GMT"), 60 * S);
    assert_int_equal(hint_of("Sun Nov 22 09:01:00 2026"), 60 * S);
    assert_int_equal(hint_of("Sun, 06 Nov 1994 08:49:37 GMT"), 0);
}

/* found: G5 */
static void a_hint_has_a_fraction_members_and_lines_of_which_the_longest_counts(void **state)
{
    struct headers headers;
    (void)state;
    assert_int_equal(hint_of("3.0"), 3 * S);
    assert_int_equal(hint_of("3.000"), 3 * S);
    assert_int_equal(hint_of("3.497"), 4 * S);
    assert_int_equal(hint_of("0.001"), 1 * S);
    assert_int_equal(hint_of("0.0"), 0);
    assert_int_equal(hint_of("3, 3"), 3 * S);
    assert_int_equal(hint_of("2,7.1 , 5"), 8 * S);
    assert_int_equal(hint_of("99999999999999999999.5"), CLOCK_NEVER);
    headers_clear(&headers);
    headers_add(&headers, SLICE("Retry-After"), SLICE("2"));
    headers_add(&headers, SLICE("retry-after"), SLICE("soon"));
    assert_int_equal(retry_read_hint(&headers, WALL), 2 * S);
    headers_add(&headers, SLICE("RETRY-AFTER"), SLICE("Sun, 22 Nov 2026 09:01:00 GMT"));
    headers_add(&headers, SLICE("Retry-After"), SLICE("4"));
    assert_int_equal(retry_read_hint(&headers, WALL), 60 * S);
}

static void a_hint_that_is_no_hint_is_ignored(void **state)
{
    static const char *const values[] = {"",
                                         "1e300",
                                         "-1",
                                         "+1",
                                         ".5",
                                         "1.",
                                         "1.5.0",
                                         "1.5s",
                                         "0x10",
                                         "1 2",
                                         "2, 3,",
                                         "2,, 3",
                                         ", 2",
                                         "2, soon",
                                         "2, Sun, 22 Nov 2026 09:01:00 GMT",
                                         "NaN",
                                         "inf",
                                         "1s",
                                         "soon",
                                         "\"2\"",
                                         "2;",
                                         "\xD9\xA2",
                                         "1_0",
                                         "tomorrow",
                                         "Sun, 31 Jun 2026 09:00:00 GMT",
                                         "2026-11-22T09:01:00Z"};
    struct headers headers;
    (void)state;
    for (size_t i = 0; i < N_OF(values); i++)
        assert_int_equal(hint_of(values[i]), RETRY_NO_HINT);
    assert_int_equal(hint_of(NULL), RETRY_NO_HINT);
    headers_clear(&headers);
    headers_add(&headers, SLICE("Retry-After"), SLICE("1s"));
    headers_add(&headers, SLICE("retry-after"), SLICE("soon"));
    assert_int_equal(retry_read_hint(&headers, WALL), RETRY_NO_HINT);
}

static void a_hint_that_overflows_is_the_longest_there_is(void **state)
{
    static const char *const values[] = {
        "9223372036855", "9223372036854775807", "9223372036854775808", "18446744073709551616",
        "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999"};
    (void)state;
    for (size_t i = 0; i < N_OF(values); i++)
        assert_int_equal(hint_of(values[i]), CLOCK_NEVER);
    assert_true(hint_of("9223372036854") < CLOCK_NEVER);
    assert_int_equal(hint_of("Fri, 31 Dec 9999 23:59:59 GMT"), INT64_C(253402300799) * S - WALL);
}

/* What follows on a first attempt that ended at once. */
static struct retry_next next_of(const char *profile, enum retry_class class, int64_t hint_us,
                                 uint64_t seed)
{
    struct retry_course course = retry_course_make(schedule_of(profile), seed, NOW, CLOCK_NEVER);
    return retry_plan_next(&course, class, hint_us, NOW);
}

static void r3_a_hint_is_kept_and_no_attempt_comes_before_it_or_the_schedule(void **state)
{
    int64_t least = INT64_MAX, most = 0;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct retry_next next = next_of("user_facing", RETRY_LATER, 2 * S, seed);
        least = next.at < least ? next.at : least;
        most = next.at > most ? next.at : most;
        assert_int_equal(next_of("user_facing", RETRY_LATER, 0, seed).at,
                         next_of("user_facing", RETRY_LATER, RETRY_NO_HINT, seed).at);
    }
    assert_in_range((least - NOW) / MS, 2000, 2005);
    assert_in_range((most - NOW) / MS, 3990, 4000); /* nobody comes back together with all others */
}

static void r5_a_hint_beyond_the_deadline_ends_the_attempts(void **state)
{
    static const int64_t beyond[] = {10 * S + 1, 60 * S, RETRY_HINT_MOST_US, CLOCK_NEVER};
    int at_the_end = 0;
    (void)state;
    for (size_t i = 0; i < N_OF(beyond); i++)
        assert_int_equal(next_of("user_facing", RETRY_LATER, beyond[i], i).end, RETRY_ENDS_HINT);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(next_of("user_facing", RETRY_LATER, 10 * S, seed).at, NOW + 10 * S);
        struct retry_next next = next_of("user_facing", RETRY_LATER, 9 * S, seed);
        assert_in_range(next.at, NOW + 9 * S, NOW + 10 * S);
        at_the_end += next.at == NOW + 10 * S;
    }
    assert_true(at_the_end <= SEEDS / 100); /* nor do they heap up there */
}

static void without_a_deadline_a_hint_counts_for_a_day_at_most(void **state)
{
    static const int64_t hints[] = {RETRY_HINT_MOST_US, RETRY_HINT_MOST_US + 1, CLOCK_NEVER};
    (void)state;
    for (size_t i = 0; i < N_OF(hints); i++) {
        struct retry_next next = next_of("queue", RETRY_LATER, hints[i], i);
        assert_int_equal(next.end, RETRY_GOES_ON);
        assert_in_range((next.at - NOW) / S, 86400, 86400 + 8640);
    }
}

static void the_caller_s_deadline_counts_where_it_comes_first(void **state)
{
    struct retry_course course =
        retry_course_make(schedule_of("user_facing"), 1, NOW, NOW + 50 * MS);
    (void)state;
    assert_int_equal(course.deadline, NOW + 50 * MS);
    assert_int_equal(retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT, NOW).end,
                     RETRY_ENDS_DEADLINE);
    course = retry_course_make(schedule_of("user_facing"), 1, NOW, NOW + 50 * S);
    assert_int_equal(course.deadline, NOW + 10 * S);
}

static void r3_the_first_408_is_retried_at_once_and_later_ones_by_schedule(void **state)
{
    struct retry_course course = retry_course_make(schedule_of("user_facing"), 1, NOW, CLOCK_NEVER);
    (void)state;
    assert_int_equal(retry_plan_next(&course, RETRY_AT_ONCE, RETRY_NO_HINT, NOW).at, NOW);
    course.attempts++;
    struct retry_next next = retry_plan_next(&course, RETRY_AT_ONCE, RETRY_NO_HINT, NOW);
    assert_in_range((next.at - NOW) / MS, 200, 400);
    assert_true(next_of("user_facing", RETRY_AT_ONCE, 2 * S, 1).at >= NOW + 2 * S);
    assert_true(next_of("webhook", RETRY_AT_ONCE, RETRY_NO_HINT, 1).at >= NOW + 5 * S);
    assert_true(next_of("queue", RETRY_AT_ONCE, RETRY_NO_HINT, 1).at >= NOW + 1 * S);
}

static void r6_an_operation_in_progress_is_waited_for_two_seconds_or_its_hint(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct retry_next next = next_of("user_facing", RETRY_BUSY, RETRY_NO_HINT, seed);
        assert_in_range((next.at - NOW) / MS, 2000, 4000);
        next = next_of("user_facing", RETRY_BUSY, 1 * S, seed);
        assert_in_range((next.at - NOW) / MS, 1000, 2000);
        next = next_of("user_facing", RETRY_BUSY, 0, seed);
        assert_in_range((next.at - NOW) / MS, 1000, 2000);
    }
}

/* found: G4 */
static void what_is_busy_uses_up_no_attempt_and_the_deadline_ends_it(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct retry_course course =
            retry_course_make(schedule_of("background"), seed, NOW, CLOCK_NEVER);
        struct retry_next next = {RETRY_GOES_ON, NOW};
        int64_t waited = 0, now = NOW;
        for (int n = 1; next.end == RETRY_GOES_ON; n++, course.attempts++, now = next.at) {
            assert_int_equal(retry_course_sent(&course), n);
            next = retry_plan_next(&course, RETRY_BUSY, RETRY_NO_HINT, now);
            assert_int_equal(course.attempts, 0);
            waited = next.end == RETRY_GOES_ON ? next.at - now : waited;
        }
        assert_int_equal(next.end, RETRY_ENDS_DEADLINE);
        assert_in_range(waited / MS, 30000, 40000);
        assert_in_range(retry_course_sent(&course), 9, 16);
    }
}

static void a_refusal_between_begins_the_waits_for_what_is_busy_anew(void **state)
{
    struct retry_course course = retry_course_make(schedule_of("background"), 1, NOW, CLOCK_NEVER);
    (void)state;
    (void)retry_plan_next(&course, RETRY_BUSY, RETRY_NO_HINT, NOW);
    course.attempts++;
    (void)retry_plan_next(&course, RETRY_LATER, RETRY_NO_HINT, NOW + 60 * S);
    course.attempts++;
    struct retry_next next = retry_plan_next(&course, RETRY_BUSY, RETRY_NO_HINT, NOW + 62 * S);
    assert_in_range((next.at - NOW) / MS, 64000, 66000);
}

static void a_course_far_in_the_future_does_not_overflow(void **state)
{
    struct retry_course course =
        retry_course_make(schedule_of("queue"), 1, CLOCK_NEVER - 1, CLOCK_NEVER);
    (void)state;
    assert_int_equal(retry_plan_next(&course, RETRY_LATER, CLOCK_NEVER, CLOCK_NEVER - 1).end,
                     RETRY_ENDS_DEADLINE);
}

/* ---- the budget ---- */

/* How many of `retries` a second go through in `seconds`, beside `requests` a second. */
static int count_retries(struct retry_budget *budget, int64_t *now, int seconds, int requests,
                         int retries)
{
    int taken = 0;
    for (int64_t us = 1; us <= seconds * S; us += MS) {
        int64_t ms = us / MS;
        for (int64_t n = ms * requests / 1000; n > (ms - 1) * requests / 1000; n--)
            retry_budget_add_request(budget, *now);
        for (int64_t n = ms * retries / 1000; n > (ms - 1) * retries / 1000; n--)
            taken += retry_budget_take(budget, *now);
        *now += MS;
    }
    return taken;
}

static void a_budget_is_a_fifth_of_the_requests_or_ten_a_second(void **state)
{
    static const struct {
        int requests;
        int wanted;
    } rows[] = {{0, 10}, {10, 10}, {50, 10}, {100, 20}, {1000, 200}, {20000, 4000}};
    (void)state;
    for (size_t i = 0; i < N_OF(rows); i++) {
        int64_t now = NOW;
        struct retry_budget budget = retry_budget_make(now);
        for (int n = 0; n < 100; n++) /* it starts full */
            assert_true(retry_budget_take(&budget, now));
        assert_false(retry_budget_take(&budget, now));
        int taken = count_retries(&budget, &now, 20, rows[i].requests, 20000);
        assert_in_range(taken, rows[i].wanted * 20 - 15, rows[i].wanted * 20 + 15);
    }
}

static void a_budget_is_full_again_after_ten_quiet_seconds_and_holds_no_more(void **state)
{
    int64_t now = NOW;
    struct retry_budget budget = retry_budget_make(now);
    (void)state;
    (void)count_retries(&budget, &now, 5, 0, 1000);
    now += 9 * S;
    assert_true(retry_budget_take(&budget, now) && budget.tokens < 95 * RETRY_TOKEN);
    now += 86400 * S;
    assert_true(retry_budget_take(&budget, now));
    assert_int_equal(budget.tokens, 99 * RETRY_TOKEN);
    now += 10 * S;
    assert_true(retry_budget_take(&budget, CLOCK_NEVER));
    assert_int_equal(budget.tokens, 99 * RETRY_TOKEN);
}

static void a_burst_of_requests_does_not_take_the_floor_away_for_long(void **state)
{
    int64_t now = NOW;
    struct retry_budget budget = retry_budget_make(now);
    (void)state;
    for (int i = 0; i < 1000000; i++)
        retry_budget_add_request(&budget, now);
    while (retry_budget_take(&budget, now))
        ;
    now += 2 * S;
    assert_in_range(count_retries(&budget, &now, 1, 0, 1000), 10, 25);
}

static void a_clock_that_goes_back_brings_no_tokens(void **state)
{
    struct retry_budget budget = retry_budget_make(NOW);
    (void)state;
    while (retry_budget_take(&budget, NOW))
        ;
    assert_false(retry_budget_take(&budget, 0));
    assert_false(retry_budget_take(&budget, NOW));
    assert_true(retry_budget_take(&budget, NOW + S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_user_facing_delays_double_from_100_to_200_ms),
        cmocka_unit_test(r1_user_facing_ends_within_ten_seconds_with_what_requests_take),
        cmocka_unit_test(r2_api_delays_are_a_power_of_two_seconds_and_up_to_one_more),
        cmocka_unit_test(queue_delays_are_those_of_api_up_to_five_minutes),
        cmocka_unit_test(webhook_attempts_are_at_their_offsets_spread_upward),
        cmocka_unit_test(offsets_that_passed_are_skipped_and_not_made_up),
        cmocka_unit_test(an_explicit_list_gives_its_delays),
        cmocka_unit_test(a_delay_that_would_overflow_is_its_cap),
        cmocka_unit_test(a_seed_gives_the_same_delays_everywhere),
        cmocka_unit_test(a_name_that_is_no_profile_s_is_not_found),
        cmocka_unit_test(a_hint_is_digits_or_a_date_in_any_form),
        cmocka_unit_test(a_hint_has_a_fraction_members_and_lines_of_which_the_longest_counts),
        cmocka_unit_test(a_hint_that_is_no_hint_is_ignored),
        cmocka_unit_test(a_hint_that_overflows_is_the_longest_there_is),
        cmocka_unit_test(r3_a_hint_is_kept_and_no_attempt_comes_before_it_or_the_schedule),
        cmocka_unit_test(delays_of_ones_own_leave_the_rest_to_the_profile),
        cmocka_unit_test(r5_a_hint_beyond_the_deadline_ends_the_attempts),
        cmocka_unit_test(without_a_deadline_a_hint_counts_for_a_day_at_most),
        cmocka_unit_test(the_caller_s_deadline_counts_where_it_comes_first),
        cmocka_unit_test(r3_the_first_408_is_retried_at_once_and_later_ones_by_schedule),
        cmocka_unit_test(r6_an_operation_in_progress_is_waited_for_two_seconds_or_its_hint),
        cmocka_unit_test(what_is_busy_uses_up_no_attempt_and_the_deadline_ends_it),
        cmocka_unit_test(a_refusal_between_begins_the_waits_for_what_is_busy_anew),
        cmocka_unit_test(a_course_far_in_the_future_does_not_overflow),
        cmocka_unit_test(a_budget_is_a_fifth_of_the_requests_or_ten_a_second),
        cmocka_unit_test(a_budget_is_full_again_after_ten_quiet_seconds_and_holds_no_more),
        cmocka_unit_test(a_burst_of_requests_does_not_take_the_floor_away_for_long),
        cmocka_unit_test(a_clock_that_goes_back_brings_no_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
