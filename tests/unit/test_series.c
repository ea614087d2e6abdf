/* SPDX-License-Identifier: Apache-2.0 */
/* What metrics show of a courier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/thread.h"
#include "courier/series.h"

#define S CLOCK_US_PER_S
#define NOW (INT64_C(1000) * S)
#define KIND SLICE("test")

static struct series series;
static struct lanes *lanes;

static int set_up(void **state)
{
    (void)state;
    series_init(&series);
    lanes = lanes_new(LANES_OVERALL);
    return lanes ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    lanes_free(lanes);
    series_fini(&series);
    return 0;
}

static char *page_of_series(void)
{
    struct buf page = buf_make(PAGE_MAX);
    series_write(&series, &page);
    assert_true(buf_ok(&page));
    return buf_take(&page);
}

static bool shows(const char *line)
{
    char *page MEM_AUTO = page_of_series();
    struct slice rest = slice_of(page), found;
    while (rest.len > 0) {
        rest = slice_cut(rest, '\n', &found);
        if (slice_eq(found, slice_of(line)))
            return true;
    }
    return false;
}

static int samples_of_lanes(void)
{
    char *page MEM_AUTO = page_of_series();
    int n = 0;
    for (const char *at = strstr(page, "\npawl_breaker_open{"); at;
         at = strstr(at + 1, "\npawl_breaker_open{"))
        n++;
    return n;
}

/* ---- waits ---- */

static void a_wait_counts_in_each_bucket_that_is_not_below_it(void **state)
{
    (void)state;
    series_add_wait(&series, -3);
    series_add_wait(&series, 5000);
    series_add_wait(&series, 5001);
    series_add_wait(&series, 86400 * S);
    series_add_wait(&series, 86401 * S);
    assert_true(shows("pawl_task_wait_seconds_bucket{le=\"0.005\"} 2"));
    assert_true(shows("pawl_task_wait_seconds_bucket{le=\"0.025\"} 3"));
    assert_true(shows("pawl_task_wait_seconds_bucket{le=\"21600\"} 3"));
    assert_true(shows("pawl_task_wait_seconds_bucket{le=\"86400\"} 4"));
    assert_true(shows("pawl_task_wait_seconds_bucket{le=\"+Inf\"} 5"));
    assert_true(shows("pawl_task_wait_seconds_sum 172801.010001"));
    assert_true(shows("pawl_task_wait_seconds_count 5"));
}

/* ---- breakers ---- */

/* As it is called, but for those that begin with `s`. */
static struct slice find_label(const void *argument, struct slice kind, struct slice lane)
{
    (void)argument;
    assert_true(slice_eq(kind, KIND));
    return lane.at[0] == 's' ? SLICE("stored") : lane;
}

static void show_lanes(int64_t now)
{
    const struct series_labels labels = {find_label, NULL};
    series_show_lanes(&series, lanes, &labels, now);
}

static void use_lane(const char *name, enum lane_end end, int times)
{
    for (int i = 0; i < times; i++) {
        struct lane *lane = lanes_find(lanes, KIND, slice_of(name), LANES_IN_FLIGHT, NOW);
        struct lane_attempt attempt;
        assert_non_null(lane);
        assert_true(lanes_begin(lanes, lane, false, NOW, &attempt));
        lanes_end(lanes, &attempt, end, NOW);
    }
}

static void a_breaker_is_open_until_it_has_closed(void **state)
{
    (void)state;
    struct lane_attempt probe;
    assert_int_equal(samples_of_lanes(), 0);
    use_lane("crm", LANE_FAILED, LANE_OPENS_AT);
    use_lane("mail", LANE_SUCCEEDED, 1);
    assert_int_equal(samples_of_lanes(), 0); /* none was shown yet */
    show_lanes(NOW);
    assert_true(shows("pawl_breaker_open{lane=\"crm\"} 1"));
    assert_true(shows("pawl_breaker_open{lane=\"mail\"} 0"));
    int64_t later = NOW + LANE_OPEN_US;
    struct lane *lane = lanes_find(lanes, KIND, SLICE("crm"), LANES_IN_FLIGHT, later);
    assert_int_equal(lane_breaker(lane, later), LANE_HALF_OPEN);
    show_lanes(later);
    assert_true(shows("pawl_breaker_open{lane=\"crm\"} 1"));
    assert_true(lanes_begin(lanes, lane, false, later, &probe));
    lanes_end(lanes, &probe, LANE_SUCCEEDED, later);
    show_lanes(later);
    assert_true(shows("pawl_breaker_open{lane=\"crm\"} 0"));
}

static void lanes_of_one_label_are_added_up(void **state)
{
    (void)state;
    use_lane("s1", LANE_FAILED, LANE_OPENS_AT);
    use_lane("s2", LANE_FAILED, LANE_OPENS_AT);
    use_lane("s3", LANE_SUCCEEDED, 1);
    show_lanes(NOW);
    show_lanes(NOW);
    assert_true(shows("pawl_breaker_open{lane=\"stored\"} 2"));
    assert_true(shows("pawl_breaker_open{lane=\"(other)\"} 0"));
    assert_int_equal(samples_of_lanes(), 2);
}

static void labels_beyond_a_bound_share_one(void **state)
{
    (void)state;
    for (int i = 0; i < SERIES_LABELS_MAX + 3; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "lane-%d", i);
        use_lane(name, LANE_FAILED, LANE_OPENS_AT);
    }
    show_lanes(NOW);
    assert_int_equal(samples_of_lanes(), SERIES_LABELS_MAX + 1);
    assert_true(shows("pawl_breaker_open{lane=\"(other)\"} 3"));
}

static void a_label_is_escaped(void **state)
{
    (void)state;
    use_lane("a\"b\\c\nd", LANE_SUCCEEDED, 1);
    show_lanes(NOW);
    assert_true(shows("pawl_breaker_open{lane=\"a\\\"b\\\\c\\nd\"} 0"));
}

/* ---- threads ---- */

#define ROUNDS 2000

static void read_all(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++)
        mem_free(page_of_series());
}

static void a_page_is_read_while_the_loop_fills_it_in(void **state)
{
    (void)state;
    struct thread reader;
    use_lane("crm", LANE_FAILED, LANE_OPENS_AT);
    assert_true(thread_start(&reader, "reader", read_all, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        series_add_wait(&series, i);
        show_lanes(NOW);
    }
    thread_join(&reader);
    assert_true(shows("pawl_task_wait_seconds_count 2000"));
    assert_true(shows("pawl_breaker_open{lane=\"crm\"} 1"));
}

#define BED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(a_wait_counts_in_each_bucket_that_is_not_below_it),
        BED_TEST(a_breaker_is_open_until_it_has_closed),
        BED_TEST(lanes_of_one_label_are_added_up),
        BED_TEST(labels_beyond_a_bound_share_one),
        BED_TEST(a_label_is_escaped),
        BED_TEST(a_page_is_read_while_the_loop_fills_it_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
