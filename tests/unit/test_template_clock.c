/* SPDX-License-Identifier: Apache-2.0 */
/* {date:..} and {hour}. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "template_request.h"

#include <stdio.h>

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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_date_and_an_hour_are_those_of_the_place),
        cmocka_unit_test(the_pointer_names_the_place),
        cmocka_unit_test(the_hour_that_comes_twice_is_two),
        cmocka_unit_test(two_values_are_compared_but_for_their_clocks),
        cmocka_unit_test(a_long_value_is_compared_but_for_its_clocks_too),
        cmocka_unit_test(a_template_says_whether_a_request_names_its_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
