/* SPDX-License-Identifier: Apache-2.0 */
/* courier/lanes in virtual time: caps, breaker, rest, budget, what is forgotten, and one hung lane
 * among a hundred. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "courier/lanes.h"

#define S CLOCK_US_PER_S
#define NOW (INT64_C(1000) * S)
#define KIND SLICE("queue")

static struct lanes *lanes;
static int64_t until;

static int set_up(void **state)
{
    (void)state;
    lanes = lanes_new(LANES_OVERALL);
    return lanes ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    lanes_free(lanes);
    return 0;
}

static struct lane *lane_at(const char *name, int64_t now)
{
    struct lane *lane = lanes_find(lanes, KIND, slice_of(name), LANES_IN_FLIGHT, now);
    assert_non_null(lane);
    return lane;
}

static int room_of(const char *name, int64_t now)
{
    return lanes_room(lanes, lane_at(name, now), now, &until);
}

static struct lane_attempt begin(const char *name, int64_t now)
{
    struct lane_attempt attempt;
    assert_true(lanes_begin(lanes, lane_at(name, now), false, now, &attempt));
    return attempt;
}

static void attempt(const char *name, enum lane_end end, int64_t now)
{
    struct lane_attempt begun = begin(name, now);
    lanes_end(lanes, &begun, end, now);
}

static void open_at(const char *name, int64_t now)
{
    for (int i = 0; i < 10; i++)
        attempt(name, LANE_FAILED, now);
    assert_int_equal(lane_breaker(lane_at(name, now), now), LANE_OPEN);
}

static void a_lane_takes_four_at_a_time_and_the_process_256(void **state)
{
    char name[16];
    (void)state;
    for (int i = 0; i < 64; i++) {
        (void)snprintf(name, sizeof name, "lane-%d", i);
        for (int left = 4; left > 0; left--) {
            assert_int_equal(room_of(name, NOW), left);
            begin(name, NOW);
        }
        assert_int_equal(room_of(name, NOW), 0);
        assert_int_equal(until, CLOCK_NEVER);
    }
    assert_int_equal(room_of("one more", NOW), 0);
    assert_int_equal(lanes_count(lanes, NOW).in_flight, 256);
}

static void a_breaker_opens_at_ten_attempts_of_which_seven_failed(void **state)
{
    (void)state;
    for (int failed = 0; failed <= 10; failed++) {
        char name[16];
        (void)snprintf(name, sizeof name, "lane-%d", failed);
        for (int i = 0; i < 10; i++)
            attempt(name, i < 10 - failed ? LANE_SUCCEEDED : LANE_FAILED, NOW);
        assert_int_equal(lane_breaker(lane_at(name, NOW), NOW),
                         failed >= 7 ? LANE_OPEN : LANE_CLOSED);
    }
    for (int i = 0; i < 9; i++)
        attempt("nine", LANE_FAILED, NOW);
    assert_int_equal(lane_breaker(lane_at("nine", NOW), NOW), LANE_CLOSED);
}

static void failures_of_more_than_five_minutes_ago_do_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++)
        attempt("a", LANE_FAILED, NOW);
    attempt("a", LANE_FAILED, NOW + LANE_WINDOW_US);
    assert_int_equal(lane_breaker(lane_at("a", NOW), NOW + LANE_WINDOW_US), LANE_CLOSED);
    for (int i = 0; i < 100; i++) /* one in forty seconds */
        attempt("b", LANE_FAILED, NOW + i * 40 * S);
    assert_int_equal(lanes_count(lanes, NOW).opened, 0);
}

static void while_it_is_open_nothing_begins_and_then_one_does(void **state)
{
    (void)state;
    open_at("a", NOW);
    assert_int_equal(room_of("a", NOW), 0);
    assert_int_equal(until, NOW + LANE_OPEN_US);
    assert_int_equal(room_of("a", until - 1), 0);
    assert_int_equal(room_of("a", NOW + LANE_OPEN_US), 1);
    struct lane_attempt probe = begin("a", NOW + LANE_OPEN_US);
    assert_int_equal(room_of("a", NOW + LANE_OPEN_US), 0);
    lanes_end(lanes, &probe, LANE_FAILED, NOW + 40 * S);
    assert_int_equal(room_of("a", NOW + 69 * S), 0);
    assert_int_equal(room_of("a", NOW + 70 * S), 1);
}

static void after_it_has_closed_attempts_grow_from_one_to_two_to_four(void **state)
{
    int64_t now = NOW + LANE_OPEN_US;
    (void)state;
    open_at("a", NOW);
    attempt("a", LANE_SUCCEEDED, now);
    assert_int_equal(room_of("a", now), 1);
    attempt("a", LANE_SUCCEEDED, now);
    assert_int_equal(room_of("a", now), 2);
    attempt("a", LANE_SUCCEEDED, now);
    attempt("a", LANE_FAILED, now); /* begins to grow anew */
    assert_int_equal(room_of("a", now), 1);
    attempt("a", LANE_SUCCEEDED, now);
    attempt("a", LANE_SUCCEEDED, now);
    attempt("a", LANE_SUCCEEDED, now);
    assert_int_equal(room_of("a", now), 4);
}

static void what_began_before_it_opened_is_no_probe(void **state)
{
    struct lane_attempt old = begin("a", NOW), older = begin("a", NOW);
    (void)state;
    open_at("a", NOW);
    struct lane_attempt probe = begin("a", NOW + LANE_OPEN_US);
    lanes_end(lanes, &old, LANE_SUCCEEDED, NOW + LANE_OPEN_US);
    assert_int_equal(lane_breaker(lane_at("a", NOW), NOW + LANE_OPEN_US), LANE_HALF_OPEN);
    assert_int_equal(room_of("a", NOW + LANE_OPEN_US), 0);
    lanes_end(lanes, &probe, LANE_SUCCEEDED, NOW + LANE_OPEN_US);
    lanes_end(lanes, &older, LANE_FAILED, NOW + LANE_OPEN_US);
    assert_int_equal(lane_breaker(lane_at("a", NOW), NOW + LANE_OPEN_US), LANE_CLOSED);
    assert_int_equal(room_of("a", NOW + LANE_OPEN_US), 1);
}

static void a_probe_that_says_nothing_leaves_its_place_to_the_next(void **state)
{
    (void)state;
    open_at("a", NOW);
    attempt("a", LANE_UNCOUNTED, NOW + LANE_OPEN_US);
    assert_int_equal(lane_breaker(lane_at("a", NOW), NOW + LANE_OPEN_US), LANE_HALF_OPEN);
    assert_int_equal(room_of("a", NOW + LANE_OPEN_US), 1);
}

static void what_an_operator_sent_does_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        attempt("a", LANE_UNCOUNTED, NOW);
    assert_int_equal(room_of("a", NOW), 4);
}

static void a_lane_that_is_not_reached_rests_longer_each_time(void **state)
{
    int64_t now = NOW, wanted = S;
    (void)state;
    for (int i = 0; i < 12; i++) { /* slowly, for no breaker to open */
        attempt("a", LANE_UNREACHED, now);
        assert_int_equal(room_of("a", now), 0);
        assert_int_equal(until - now, wanted);
        now = until + LANE_WINDOW_US;
        assert_int_equal(room_of("a", now), 1);
        wanted = clock_first(wanted * 2, LANE_REST_MOST_US);
    }
    attempt("a", LANE_SUCCEEDED, now);
    assert_int_equal(room_of("a", now), 4);
    attempt("a", LANE_UNREACHED, now);
    assert_int_equal(room_of("a", now), 0);
    assert_int_equal(until - now, S);
}

static void those_under_way_when_a_rest_begins_do_not_lengthen_it(void **state)
{
    struct lane_attempt begun[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        begun[i] = begin("a", NOW);
    for (int i = 0; i < 4; i++)
        lanes_end(lanes, &begun[i], LANE_UNREACHED, NOW);
    assert_int_equal(room_of("a", NOW), 0);
    assert_int_equal(until, NOW + S);
}

static void retries_without_a_token_wait_for_one(void **state)
{
    struct lane_attempt begun;
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(lanes_begin(lanes, lane_at("a", NOW), true, NOW, &begun));
        lanes_end(lanes, &begun, LANE_SUCCEEDED, NOW);
    }
    assert_false(lanes_begin(lanes, lane_at("a", NOW), true, NOW, &begun));
    assert_int_equal(room_of("a", NOW), 0);
    assert_int_equal(until, NOW + S / 10);
    assert_true(lanes_begin(lanes, lane_at("a", until), true, until, &begun));
}

static void lanes_that_are_not_in_use_are_forgotten(void **state)
{
    char name[24];
    (void)state;
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof name, "lane-%d", i);
        attempt(name, LANE_FAILED, NOW);
        assert_true(lanes_count(lanes, NOW).kept <= LANES_KEPT_MAX + 16);
        i += i > 10000 ? 99 : 0;
    }
    begin("in use", NOW);
    for (int i = 0; i < 2048; i++)
        lane_at("a", NOW + 2 * LANE_WINDOW_US);
    assert_int_equal(lanes_count(lanes, NOW).kept, 2);
    assert_int_equal(lane_in_flight(lane_at("in use", NOW)), 1);
}

/* ---- one hung lane among a hundred, by the courier's turn ---- */

#define LANES 100
#define TICKS 3000
#define HANGS_TICKS 300 /* 30 s, at ten ticks a second */

struct traffic {
    int waiting[LANES];
    struct {
        struct lane_attempt attempt;
        int ends_at; /* 0: free */
    } slots[LANES_OVERALL];
    int64_t waited; /* in all, of all lanes but the first */
    int done;
};

static void end_attempts(struct traffic *traffic, int tick, int64_t now)
{
    for (int i = 0; i < LANES_OVERALL; i++)
        if (traffic->slots[i].ends_at != 0 && traffic->slots[i].ends_at <= tick) {
            lanes_end(lanes, &traffic->slots[i].attempt, LANE_SUCCEEDED, now);
            traffic->slots[i].ends_at = 0;
        }
}

static void begin_attempts(struct traffic *traffic, int lane, int ends_at, int64_t now)
{
    char name[16];
    (void)snprintf(name, sizeof name, "lane-%d", lane);
    for (int i = 0; i < LANES_OVERALL && traffic->waiting[lane] > 0; i++) {
        if (traffic->slots[i].ends_at != 0)
            continue;
        if (room_of(name, now) == 0)
            return;
        traffic->slots[i].attempt = begin(name, now);
        traffic->slots[i].ends_at = ends_at;
        traffic->waiting[lane]--;
        traffic->done += lane != 0;
    }
}

/* Each lane gets two tasks a second; an attempt takes a tick, or hangs for 30 s. */
static const struct traffic *run_traffic(bool hangs)
{
    static struct traffic runs[2];
    struct traffic *traffic = &runs[hangs];
    for (int tick = 1; tick <= TICKS; tick++) {
        int64_t now = NOW + tick * S / 10;
        end_attempts(traffic, tick, now);
        for (int lane = 0; lane < LANES; lane++)
            traffic->waiting[lane] += (tick + lane) % 5 == 0;
        for (int i = 0; i < LANES; i++) {
            int lane = (tick + i) % LANES;
            begin_attempts(traffic, lane, tick + (hangs && lane == 0 ? HANGS_TICKS : 1), now);
            traffic->waited += lane != 0 ? traffic->waiting[lane] : 0;
        }
    }
    return traffic;
}

static void one_hung_lane_among_a_hundred_costs_the_others_nothing(void **state)
{
    const struct traffic *sound = run_traffic(false);
    tear_down(state);
    set_up(state);
    const struct traffic *hung = run_traffic(true);
    assert_int_equal(sound->waiting[0], 0);
    assert_true(hung->waiting[0] > 500);
    assert_int_equal(hung->done, sound->done);
    assert_int_equal(hung->waited, sound->waited);
}

#define BED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(a_lane_takes_four_at_a_time_and_the_process_256),
        BED_TEST(a_breaker_opens_at_ten_attempts_of_which_seven_failed),
        BED_TEST(failures_of_more_than_five_minutes_ago_do_not_count),
        BED_TEST(while_it_is_open_nothing_begins_and_then_one_does),
        BED_TEST(after_it_has_closed_attempts_grow_from_one_to_two_to_four),
        BED_TEST(what_began_before_it_opened_is_no_probe),
        BED_TEST(a_probe_that_says_nothing_leaves_its_place_to_the_next),
        BED_TEST(what_an_operator_sent_does_not_count),
        BED_TEST(a_lane_that_is_not_reached_rests_longer_each_time),
        BED_TEST(those_under_way_when_a_rest_begins_do_not_lengthen_it),
        BED_TEST(retries_without_a_token_wait_for_one),
        BED_TEST(lanes_that_are_not_in_use_are_forgotten),
        BED_TEST(one_hung_lane_among_a_hundred_costs_the_others_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
