/* SPDX-License-Identifier: Apache-2.0 */
/* {date:..}, {week:..} and {hour}. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/time/timestamp.h"
#include "template_request.h"

#include <stdio.h>
#include <time.h>

#define JSON "application/json"

static void at(struct request *request, int64_t seconds)
{
    request->facts.now_us = seconds * CLOCK_US_PER_S + 999999;
}

static void add_zones(struct request *request, struct zones *zones)
{
    static const struct slice names[] = {
        {"America/New_York", 16}, {"Asia/Kolkata", 12}, {"Australia/Lord_Howe", 19}};
    zones->n = 0;
    for (size_t i = 0; i < 3; i++)
        assert_true(zones_add(zones, names[i], &request->arena));
    request->facts.zones = zones;
}

static void a_date_and_an_hour_are_those_of_the_place(void **state)
{
    REQUEST_AUTO struct request request;
    static struct zones zones;
    (void)state;
    request_init(&request);
    add_zones(&request, &zones);
    at(&request, 1771549200); /* 2026-02-20T01:00:00Z */
    gives(&request, TEMPLATE_FOR_KEY, "{hour}", "2026-02-20T01Z");
    gives(&request, TEMPLATE_FOR_KEY, "{route}{hour}", "refunds.create:2026-02-20T01Z");
    gives(&request, TEMPLATE_FOR_KEY, "{date:America/New_York}#{route}",
          "2026-02-19#refunds.create");
    gives(&request, TEMPLATE_FOR_KEY, "{hour:America/New_York}", "2026-02-19T20-0500");
    gives(&request, TEMPLATE_FOR_KEY, "{hour:Asia/Kolkata}", "2026-02-20T06+0530");
    at(&request, -1);
    gives(&request, TEMPLATE_FOR_KEY, "{hour}", "1969-12-31T23Z");
}

static void the_pointer_names_the_place(void **state)
{
    REQUEST_AUTO struct request request;
    static struct zones zones;
    (void)state;
    request_init(&request);
    add_zones(&request, &zones);
    at(&request, 1771549200);
    set_body(&request, JSON,
             "{\"tz\":\"America/New_York\",\"user\":\"user-123\",\"bad\":\"Mars/Base\","
             "\"up\":\"../UTC\",\"n\":5,\"none\":null}");
    gives(&request, TEMPLATE_FOR_KEY, "{date:/tz}:{body:/tz}:{body:/user}:daily_offers",
          "2026-02-19:America/New_York:user-123:daily_offers");
    gives(&request, TEMPLATE_FOR_KEY, "{hour:/tz}", "2026-02-19T20-0500");
    gives(&request, TEMPLATE_FOR_KEY, "{week:/tz}{body:/user}", "2026-W08:user-123");
    lacks(&request, TEMPLATE_FOR_KEY, "{week:/bad}", "week:/bad");
    lacks(&request, TEMPLATE_FOR_KEY, "{date:/bad}", "date:/bad");
    lacks(&request, TEMPLATE_FOR_KEY, "{date:/up}", "date:/up");
    lacks(&request, TEMPLATE_FOR_KEY, "{date:/n}", "date:/n");
    lacks(&request, TEMPLATE_FOR_KEY, "{date:/none}", "date:/none");
    lacks(&request, TEMPLATE_FOR_KEY, "{date:/absent}", "date:/absent");
    request.facts.payload = NULL;
    lacks(&request, TEMPLATE_FOR_KEY, "{date:/tz}", "date:/tz");
}

static void the_hour_that_comes_twice_is_two(void **state)
{
    REQUEST_AUTO struct request request;
    static struct zones zones;
    (void)state;
    request_init(&request);
    add_zones(&request, &zones);
    at(&request, 1793512800 - 3600); /* 2026-11-01, New York */
    gives(&request, TEMPLATE_FOR_KEY, "{hour:America/New_York}", "2026-11-01T01-0400");
    at(&request, 1793512800);
    gives(&request, TEMPLATE_FOR_KEY, "{hour:America/New_York}", "2026-11-01T01-0500");
    gives(&request, TEMPLATE_FOR_KEY, "{date:America/New_York}", "2026-11-01");
}

/* ---- weeks ---- */

static void weeks_are_those_of_iso_8601(void **state)
{
    static const struct {
        const char *day, *week;
    } rows[] = {
        {"0001-01-01T12:00:00Z", "0001-W01"}, {"1969-12-31T23:59:59Z", "1970-W01"},
        {"2000-01-02T23:59:59Z", "1999-W52"}, {"2000-01-03T00:00:00Z", "2000-W01"},
        {"2020-12-31T00:00:00Z", "2020-W53"}, {"2021-01-03T23:59:59Z", "2020-W53"},
        {"2021-01-04T00:00:00Z", "2021-W01"}, {"2024-12-29T23:59:59Z", "2024-W52"},
        {"2024-12-30T00:00:00Z", "2025-W01"}, {"2026-02-20T03:00:00Z", "2026-W08"},
        {"2027-01-01T00:00:00Z", "2026-W53"}, {"2027-01-04T00:00:00Z", "2027-W01"},
        {"9998-12-31T23:59:59Z", "9998-W53"},
    };
    REQUEST_AUTO struct request request;
    static struct zones zones;
    (void)state;
    request_init(&request);
    zones.n = 0;
    assert_true(zones_add(&zones, SLICE("UTC"), &request.arena));
    request.facts.zones = &zones;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(timestamp_parse(slice_of(rows[i].day), &request.facts.now_us));
        gives(&request, TEMPLATE_FOR_KEY, "{week:UTC}", rows[i].week);
    }
}

/* Every day of two centuries, against the C library. */
static void weeks_are_those_of_the_c_library(void **state)
{
    REQUEST_AUTO struct request request;
    static struct zones zones;
    struct template template;
    (void)state;
    request_init(&request);
    zones.n = 0;
    assert_true(zones_add(&zones, SLICE("UTC"), &request.arena));
    request.facts.zones = &zones;
    compile(&request, TEMPLATE_FOR_KEY, "{week:UTC}", &template);
    for (time_t day = -36525; day < 36525; day++) {
        ARENA_AUTO struct arena arena = arena_make(1024);
        BUF_AUTO struct buf buf = buf_make(1024);
        char expected[32];
        struct slice missing;
        time_t seconds = day * 86400;
        struct tm fields;
        assert_true(strftime(expected, sizeof(expected), "%G-W%V", gmtime_r(&seconds, &fields)));
        at(&request, seconds);
        assert_int_equal(template_key(&template, &request.facts, &arena, &buf, &missing),
                         TEMPLATE_OK);
        if (!slice_eq(buf_slice(&buf), slice_of(expected)))
            fail_msg("day %ld: %.*s, not %s", (long)day, SLICE_ARG(buf_slice(&buf)), expected);
    }
}

static void a_week_is_that_of_the_place(void **state)
{
    REQUEST_AUTO struct request request;
    static struct zones zones;
    (void)state;
    request_init(&request);
    add_zones(&request, &zones);
    at(&request, 1798761600); /* 2027-01-01T00:00:00Z, a Friday */
    gives(&request, TEMPLATE_FOR_KEY, "{week:America/New_York}#{route}", "2026-W53#refunds.create");
    at(&request, 1799038800 - 1); /* Sunday, 2027-01-03T23:59:59 in New York */
    gives(&request, TEMPLATE_FOR_KEY, "{week:America/New_York}", "2026-W53");
    gives(&request, TEMPLATE_FOR_KEY, "{week:Asia/Kolkata}", "2027-W01");
    at(&request, 1799038800);
    gives(&request, TEMPLATE_FOR_KEY, "{week:America/New_York}", "2027-W01");
}

/* ---- months ---- */

static void a_month_is_that_of_the_place(void **state)
{
    REQUEST_AUTO struct request request;
    static struct zones zones;
    (void)state;
    request_init(&request);
    add_zones(&request, &zones);
    at(&request, 1798761600); /* 2027-01-01T00:00:00Z */
    gives(&request, TEMPLATE_FOR_KEY, "{month:America/New_York}#{route}", "2026-12#refunds.create");
    gives(&request, TEMPLATE_FOR_KEY, "{month:Asia/Kolkata}", "2027-01");
}

/* ---- daylight saving time ---- */

struct moment {
    const char *utc, *date, *hour, *week;
};

/* The second before each change of 2026, the change, and an hour later; Sao Paulo and Kolkata
 * have none: there, midnight of two days. Computed with Python's zoneinfo. */
static const struct {
    const char *zone;
    struct moment moments[6];
} daylight_saving[] = {
    {"America/New_York",
     {{"2026-03-08T06:59:59Z", "2026-03-08", "2026-03-08T01-0500", "2026-W10"},
      {"2026-03-08T07:00:00Z", "2026-03-08", "2026-03-08T03-0400", "2026-W10"},
      {"2026-03-08T08:00:00Z", "2026-03-08", "2026-03-08T04-0400", "2026-W10"},
      {"2026-11-01T05:59:59Z", "2026-11-01", "2026-11-01T01-0400", "2026-W44"},
      {"2026-11-01T06:00:00Z", "2026-11-01", "2026-11-01T01-0500", "2026-W44"},
      {"2026-11-01T07:00:00Z", "2026-11-01", "2026-11-01T02-0500", "2026-W44"}}},
    {"Europe/Berlin",
     {{"2026-03-29T00:59:59Z", "2026-03-29", "2026-03-29T01+0100", "2026-W13"},
      {"2026-03-29T01:00:00Z", "2026-03-29", "2026-03-29T03+0200", "2026-W13"},
      {"2026-03-29T02:00:00Z", "2026-03-29", "2026-03-29T04+0200", "2026-W13"},
      {"2026-10-25T00:59:59Z", "2026-10-25", "2026-10-25T02+0200", "2026-W43"},
      {"2026-10-25T01:00:00Z", "2026-10-25", "2026-10-25T02+0100", "2026-W43"},
      {"2026-10-25T02:00:00Z", "2026-10-25", "2026-10-25T03+0100", "2026-W43"}}},
    {"Europe/London",
     {{"2026-03-29T00:59:59Z", "2026-03-29", "2026-03-29T00+0000", "2026-W13"},
      {"2026-03-29T01:00:00Z", "2026-03-29", "2026-03-29T02+0100", "2026-W13"},
      {"2026-03-29T02:00:00Z", "2026-03-29", "2026-03-29T03+0100", "2026-W13"},
      {"2026-10-25T00:59:59Z", "2026-10-25", "2026-10-25T01+0100", "2026-W43"},
      {"2026-10-25T01:00:00Z", "2026-10-25", "2026-10-25T01+0000", "2026-W43"},
      {"2026-10-25T02:00:00Z", "2026-10-25", "2026-10-25T02+0000", "2026-W43"}}},
    {"Australia/Sydney",
     {{"2026-04-04T15:59:59Z", "2026-04-05", "2026-04-05T02+1100", "2026-W14"},
      {"2026-04-04T16:00:00Z", "2026-04-05", "2026-04-05T02+1000", "2026-W14"},
      {"2026-04-04T17:00:00Z", "2026-04-05", "2026-04-05T03+1000", "2026-W14"},
      {"2026-10-03T15:59:59Z", "2026-10-04", "2026-10-04T01+1000", "2026-W40"},
      {"2026-10-03T16:00:00Z", "2026-10-04", "2026-10-04T03+1100", "2026-W40"},
      {"2026-10-03T17:00:00Z", "2026-10-04", "2026-10-04T04+1100", "2026-W40"}}},
    {"Australia/Lord_Howe",
     {{"2026-04-04T14:59:59Z", "2026-04-05", "2026-04-05T01+1100", "2026-W14"},
      {"2026-04-04T15:00:00Z", "2026-04-05", "2026-04-05T01+1030", "2026-W14"},
      {"2026-04-04T16:00:00Z", "2026-04-05", "2026-04-05T02+1030", "2026-W14"},
      {"2026-10-03T15:29:59Z", "2026-10-04", "2026-10-04T01+1030", "2026-W40"},
      {"2026-10-03T15:30:00Z", "2026-10-04", "2026-10-04T02+1100", "2026-W40"},
      {"2026-10-03T16:30:00Z", "2026-10-04", "2026-10-04T03+1100", "2026-W40"}}},
    {"Antarctica/Troll",
     {{"2026-03-29T00:59:59Z", "2026-03-29", "2026-03-29T00+0000", "2026-W13"},
      {"2026-03-29T01:00:00Z", "2026-03-29", "2026-03-29T03+0200", "2026-W13"},
      {"2026-03-29T02:00:00Z", "2026-03-29", "2026-03-29T04+0200", "2026-W13"},
      {"2026-10-25T00:59:59Z", "2026-10-25", "2026-10-25T02+0200", "2026-W43"},
      {"2026-10-25T01:00:00Z", "2026-10-25", "2026-10-25T01+0000", "2026-W43"},
      {"2026-10-25T02:00:00Z", "2026-10-25", "2026-10-25T02+0000", "2026-W43"}}},
    {"America/Havana",
     {{"2026-03-08T04:59:59Z", "2026-03-07", "2026-03-07T23-0500", "2026-W10"},
      {"2026-03-08T05:00:00Z", "2026-03-08", "2026-03-08T01-0400", "2026-W10"},
      {"2026-03-08T06:00:00Z", "2026-03-08", "2026-03-08T02-0400", "2026-W10"},
      {"2026-11-01T04:59:59Z", "2026-11-01", "2026-11-01T00-0400", "2026-W44"},
      {"2026-11-01T05:00:00Z", "2026-11-01", "2026-11-01T00-0500", "2026-W44"},
      {"2026-11-01T06:00:00Z", "2026-11-01", "2026-11-01T01-0500", "2026-W44"}}},
    {"Atlantic/Azores",
     {{"2026-03-29T00:59:59Z", "2026-03-28", "2026-03-28T23-0100", "2026-W13"},
      {"2026-03-29T01:00:00Z", "2026-03-29", "2026-03-29T01+0000", "2026-W13"},
      {"2026-03-29T02:00:00Z", "2026-03-29", "2026-03-29T02+0000", "2026-W13"},
      {"2026-10-25T00:59:59Z", "2026-10-25", "2026-10-25T00+0000", "2026-W43"},
      {"2026-10-25T01:00:00Z", "2026-10-25", "2026-10-25T00-0100", "2026-W43"},
      {"2026-10-25T02:00:00Z", "2026-10-25", "2026-10-25T01-0100", "2026-W43"}}},
    {"America/Sao_Paulo",
     {{"2026-01-01T02:59:59Z", "2025-12-31", "2025-12-31T23-0300", "2026-W01"},
      {"2026-01-01T03:00:00Z", "2026-01-01", "2026-01-01T00-0300", "2026-W01"},
      {"2026-01-01T04:00:00Z", "2026-01-01", "2026-01-01T01-0300", "2026-W01"},
      {"2026-11-01T02:59:59Z", "2026-10-31", "2026-10-31T23-0300", "2026-W44"},
      {"2026-11-01T03:00:00Z", "2026-11-01", "2026-11-01T00-0300", "2026-W44"},
      {"2026-11-01T04:00:00Z", "2026-11-01", "2026-11-01T01-0300", "2026-W44"}}},
    {"Asia/Kolkata",
     {{"2025-12-31T18:29:59Z", "2025-12-31", "2025-12-31T23+0530", "2026-W01"},
      {"2025-12-31T18:30:00Z", "2026-01-01", "2026-01-01T00+0530", "2026-W01"},
      {"2025-12-31T19:30:00Z", "2026-01-01", "2026-01-01T01+0530", "2026-W01"},
      {"2026-10-31T18:29:59Z", "2026-10-31", "2026-10-31T23+0530", "2026-W44"},
      {"2026-10-31T18:30:00Z", "2026-11-01", "2026-11-01T00+0530", "2026-W44"},
      {"2026-10-31T19:30:00Z", "2026-11-01", "2026-11-01T01+0530", "2026-W44"}}},
    {"Pacific/Auckland",
     {{"2026-04-04T13:59:59Z", "2026-04-05", "2026-04-05T02+1300", "2026-W14"},
      {"2026-04-04T14:00:00Z", "2026-04-05", "2026-04-05T02+1200", "2026-W14"},
      {"2026-04-04T15:00:00Z", "2026-04-05", "2026-04-05T03+1200", "2026-W14"},
      {"2026-09-26T13:59:59Z", "2026-09-27", "2026-09-27T01+1200", "2026-W39"},
      {"2026-09-26T14:00:00Z", "2026-09-27", "2026-09-27T03+1300", "2026-W39"},
      {"2026-09-26T15:00:00Z", "2026-09-27", "2026-09-27T04+1300", "2026-W39"}}},
};

static void expect_moment(struct request *request, const char *zone, const struct moment *moment)
{
    const char *const expected[] = {moment->date, moment->hour, moment->week};
    static const char *const sources[] = {"date", "hour", "week"};
    assert_true(timestamp_parse(slice_of(moment->utc), &request->facts.now_us));
    for (size_t i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof(text), "{%s:%s}", sources[i], zone);
        gives(request, TEMPLATE_FOR_KEY, text, expected[i]);
    }
}

/* The hour that is repeated is two keys, the one that is skipped none, and of dates and weeks there
 * is one each. */
static void daylight_saving_table(void **state)
{
    static struct zones zones;
    (void)state;
    for (size_t i = 0; i < sizeof(daylight_saving) / sizeof(daylight_saving[0]); i++) {
        REQUEST_AUTO struct request request;
        request_init(&request);
        zones.n = 0;
        assert_true(zones_add(&zones, slice_of(daylight_saving[i].zone), &request.arena));
        request.facts.zones = &zones;
        for (size_t m = 0; m < 6; m++)
            expect_moment(&request, daylight_saving[i].zone, &daylight_saving[i].moments[m]);
    }
}

/* ---- but for the clocks ---- */

static void make(struct request *request, const char *template_text, struct buf *buf,
                 struct template_clocks *ret_clocks)
{
    struct template template;
    struct slice missing;
    struct template_text text = {.buf = buf};
    compile(request, TEMPLATE_FOR_KEY, template_text, &template);
    assert_int_equal(template_value(&template, &request->facts, &request->arena, &text, &missing),
                     TEMPLATE_OK);
    *ret_clocks = text.clocks;
}

/* Of two requests, an hour apart, with these path parameters. */
static bool same(const char *template_text, const char *a, const char *b)
{
    REQUEST_AUTO struct request request;
    BUF_AUTO struct buf first = buf_make(1024);
    BUF_AUTO struct buf second = buf_make(1024);
    struct template_clocks clocks;
    request_init(&request);
    at(&request, 1771549200);
    set_pair(&request, a, "b");
    make(&request, template_text, &first, &clocks);
    at(&request, 1771549200 + 3600);
    set_pair(&request, b, "b");
    make(&request, template_text, &second, &clocks);
    assert_int_equal(slice_eq(buf_slice(&first), buf_slice(&second)),
                     clocks.n == 0 && strcmp(a, b) == 0);
    return template_same_but_clocks(buf_slice(&first), buf_slice(&second), &clocks);
}

static void two_values_are_compared_but_for_their_clocks(void **state)
{
    (void)state;
    assert_true(same("{path:a}", "x", "x"));
    assert_false(same("{path:a}", "x", "y"));
    assert_true(same("{path:a}{hour}{path:b}", "x", "x"));
    assert_true(same("{hour}{path:a}{hour}", "x", "x"));
    assert_true(same("{hour}", "x", "y"));
    assert_false(same("{path:a}{hour}{path:b}", "x", "y"));
    assert_false(same("{path:a}{hour}{path:b}", "x", "xy"));
    assert_false(same("{hour}{path:a}", "x", "y"));
    /* What looks like a clock and is none counts. */
    assert_false(same("{path:a}{hour}", "2026-02-20T01Z", "2026-02-20T02Z"));
}

static void a_long_value_is_compared_but_for_its_clocks_too(void **state)
{
    static char a[300], b[300];
    (void)state;
    memset(a, 'a', sizeof(a) - 1);
    memset(b, 'b', sizeof(b) - 1);
    assert_true(same("{path:a}", a, a));
    assert_true(same("{path:a}{hour}", a, a));
    assert_true(same("{hour}x:{path:a}{hour}", a, a));
    assert_false(same("{path:a}{hour}", a, b));
    assert_false(same("{path:a}{hour}", "a", b));
}

static void a_template_says_whether_a_request_names_its_zone(void **state)
{
    REQUEST_AUTO struct request request;
    struct template template;
    (void)state;
    request_init(&request);
    compile(&request, TEMPLATE_FOR_KEY, "{hour}{date:Europe/Berlin}", &template);
    assert_false(template_needs_body(&template));
    compile(&request, TEMPLATE_FOR_KEY, "{route}{date:/zone}", &template);
    assert_true(template_needs_body(&template));
    compile(&request, TEMPLATE_FOR_KEY, "{week:Europe/Berlin}", &template);
    assert_false(template_needs_body(&template));
    assert_true(template_has_clock(&template));
    compile(&request, TEMPLATE_FOR_KEY, "{route}{week:/zone}", &template);
    assert_true(template_needs_body(&template));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_date_and_an_hour_are_those_of_the_place),
        cmocka_unit_test(the_pointer_names_the_place),
        cmocka_unit_test(the_hour_that_comes_twice_is_two),
        cmocka_unit_test(weeks_are_those_of_iso_8601),
        cmocka_unit_test(weeks_are_those_of_the_c_library),
        cmocka_unit_test(a_week_is_that_of_the_place),
        cmocka_unit_test(a_month_is_that_of_the_place),
        cmocka_unit_test(daylight_saving_table),
        cmocka_unit_test(two_values_are_compared_but_for_their_clocks),
        cmocka_unit_test(a_long_value_is_compared_but_for_its_clocks_too),
        cmocka_unit_test(a_template_says_whether_a_request_names_its_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
