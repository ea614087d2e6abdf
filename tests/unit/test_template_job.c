/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of jobs and of items. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "template_item.h"

#include <stdio.h>

#define OFFERS "2026-02-19:America/New_York:user-123:daily_offers"

static struct zones zones;

static void the_key_of_a_job(void **state)
{
    REQUEST_AUTO struct request request;
    struct template template;
    (void)state;
    item_init(&request, &zones);
    gives(&request, TEMPLATE_FOR_JOB,
          "{date:America/New_York}:America/New_York:user-123:daily_offers", OFFERS);
    gives(&request, TEMPLATE_FOR_JOB, "nightly", "nightly");
    gives(&request, TEMPLATE_FOR_JOB, "report:{week:Asia/Kolkata}", "report:2026-W08");
    gives(&request, TEMPLATE_FOR_JOB, "{hour}", "2026-02-20T03Z");
    gives(&request, TEMPLATE_FOR_JOB, "x#{hour:Asia/Kolkata}", "x#2026-02-20T08+0530");
    gives(&request, TEMPLATE_FOR_JOB, "{env:REGION}{date:Asia/Kolkata}", "eu%20west:2026-02-20");
    gives(&request, TEMPLATE_FOR_JOB, "sync:{env:REGION}{window:1h}", "sync:eu%20west");
    compile(&request, TEMPLATE_FOR_JOB, "sync{window:90s}", &template);
    assert_int_equal(template_window_us(&template), 90000000);
    assert_false(template_needs_body(&template));
}

static void a_variable_that_is_not_set_or_is_empty_is_missing_in_a_key(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    lacks(&request, TEMPLATE_FOR_JOB, "a{env:NONE}", "env:NONE");
    lacks(&request, TEMPLATE_FOR_JOB, "a{env:EMPTY}", "env:EMPTY");
    lacks(&request, TEMPLATE_FOR_ITEM, "a{env:EMPTY}", "env:EMPTY");
    request.facts.env = NULL;
    lacks(&request, TEMPLATE_FOR_JOB, "a{env:REGION}", "env:REGION");
}

static void the_key_of_a_line(void **state)
{
    static char long_line[301];
    REQUEST_AUTO struct request request;
    BUF_AUTO struct buf buf = buf_make(1024);
    struct slice missing;
    (void)state;
    item_init(&request, &zones);
    set_line(&request, "user-123");
    gives(&request, TEMPLATE_FOR_ITEM, "{date:America/New_York}:America/New_York:{}:daily_offers",
          OFFERS);
    gives(&request, TEMPLATE_FOR_ITEM, "{}", "user-123");
    gives(&request, TEMPLATE_FOR_ITEM, "{}{hour}", "user-123:2026-02-20T03Z");
    lacks(&request, TEMPLATE_FOR_ITEM, "{name}", "name");
    lacks(&request, TEMPLATE_FOR_ITEM, "{/0}", "/0");
    lacks(&request, TEMPLATE_FOR_ITEM, "{date:/zone}", "date:/zone");
    set_line(&request, "a:b \xC3\xBC%");
    gives(&request, TEMPLATE_FOR_ITEM, "{}", "a%3Ab%20%C3%BC%25");
    set_line(&request, "");
    lacks(&request, TEMPLATE_FOR_ITEM, "a{}", "");
    memset(long_line, 'a', sizeof(long_line) - 1);
    set_line(&request, long_line);
    assert_int_equal(evaluate(&request, TEMPLATE_FOR_ITEM, "{}", &buf, &missing), TEMPLATE_OK);
    assert_true(slice_starts(buf_slice(&buf), SLICE("sha256-")));
}

static void the_key_of_a_json_value(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_json(&request,
             "{\"id\":\"u 1\",\"n\":1.50,\"t\":true,\"a.b-c_d\":\"x\",\"o\":{\"k\":[7]},"
             "\"zone\":\"America/New_York\",\"hour\":\"h\",\"method\":\"m\",\"date\":\"d\","
             "\"first name\":\"f\",\"none\":null,\"e\":\"\"}");
    gives(&request, TEMPLATE_FOR_ITEM, "{id}{n}{t}", "u%201:1.5:true");
    gives(&request, TEMPLATE_FOR_ITEM, "{a.b-c_d}", "x");
    gives(&request, TEMPLATE_FOR_ITEM, "{/o/k/0}#{/first name}", "7#f");
    gives(&request, TEMPLATE_FOR_ITEM, "{date:/zone}{week:/zone}", "2026-02-19:2026-W08");
    gives(&request, TEMPLATE_FOR_ITEM, "{hour:/zone}", "2026-02-19T22-0500");
    gives(&request, TEMPLATE_FOR_ITEM, "{month:/zone}", "2026-02");
    lacks(&request, TEMPLATE_FOR_ITEM, "{week:/id}", "week:/id");
    /* What is a source in items' keys is that; what is one elsewhere is a name like others. */
    gives(&request, TEMPLATE_FOR_ITEM, "{hour}{/hour}", "2026-02-20T03Z:h");
    gives(&request, TEMPLATE_FOR_ITEM, "{method}{/date}", "m:d");
    lacks(&request, TEMPLATE_FOR_ITEM, "{absent}", "absent");
    lacks(&request, TEMPLATE_FOR_ITEM, "{none}", "none");
    lacks(&request, TEMPLATE_FOR_ITEM, "{e}", "e");
    lacks(&request, TEMPLATE_FOR_ITEM, "{o}", "o");
    lacks(&request, TEMPLATE_FOR_ITEM, "{/o/k}", "/o/k");
}

static void the_key_of_a_csv_record(void **state)
{
    REQUEST_AUTO struct request request;
    struct template template;
    (void)state;
    item_init(&request, &zones);
    set_csv(&request, "7,1.50,", "{\"id\":\"7\",\"price\":\"1.50\",\"note\":\"\"}");
    gives(&request, TEMPLATE_FOR_ITEM, "{id}{price}", "7:1.50");
    gives(&request, TEMPLATE_FOR_ITEM, "{}", "7%2C1.50%2C");
    lacks(&request, TEMPLATE_FOR_ITEM, "{id}{note}", "note");
    compile(&request, TEMPLATE_FOR_ITEM, "{id}", &template);
    assert_true(template_needs_body(&template));
    assert_true(template_uses(&template, TEMPLATE_MEMBER));
    compile(&request, TEMPLATE_FOR_ITEM, "{}", &template);
    assert_false(template_needs_body(&template));
}

/* ---- why there is none ---- */

static void explains(struct request *request, const char *text, const char *expected)
{
    BUF_AUTO struct buf buf = buf_make(1024);
    struct template template;
    compile(request, TEMPLATE_FOR_ITEM, text, &template);
    template_explain_missing(&template, &request->facts, template.parts[0].written, &buf);
    if (!slice_eq(buf_slice(&buf), slice_of(expected)))
        fail_msg("%s: <%.*s>", text, SLICE_ARG(buf_slice(&buf)));
}

static void a_message_says_why_a_value_is_missing(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_line(&request, "x");
    explains(&request, "{name}", ": the item has no members");
    explains(&request, "{}", ", which is empty");
    explains(&request, "{env:NONE}", ", which is not set");
    explains(&request, "{env:EMPTY}", ", which is empty");
    set_json(&request, "{\"name\":null,\"o\":{},\"a\":[],\"e\":\"\"}");
    explains(&request, "{name}", ", which is null");
    explains(&request, "{/name}", ", which is null");
    explains(&request, "{o}", ", but an object ({name|json} in a text puts it there as JSON)");
    explains(&request, "{a}", ", but an array ({name|json} in a text puts it there as JSON)");
    explains(&request, "{e}", ", which is empty");
    explains(&request, "{other}", ": the item has only name, o, a, e");
    set_json(&request, "{}");
    explains(&request, "{other}", ": the item is an object without members");
    set_json(&request, "[1]");
    explains(&request, "{other}", ": the item is no object");
    set_json(&request, "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,"
                       "\"j\":1,\"k\":1,\"l\":1,\"m\":1}");
    explains(&request, "{other}", ": the item has only a, b, c, d, e, f, g, h, i, j, k, l, ...");
}

/* ---- refusals ---- */

struct refused_row {
    enum template_use use;
    const char *text;
    const char *says;
};

static void keys_are_refused_with_a_reason(void **state)
{
    static const struct refused_row rows[] = {
        {TEMPLATE_FOR_JOB, "", "empty"},
        {TEMPLATE_FOR_JOB, "{hous}", "no source \"hous\"; the nearest is {hour}"},
        {TEMPLATE_FOR_JOB, "{dat:UTC}", "the nearest is {date:Area/City}"},
        {TEMPLATE_FOR_JOB, "{tenant}", "{tenant} cannot be part of a job's key"},
        {TEMPLATE_FOR_JOB, "{body:/a}", "cannot be part of a job's key"},
        {TEMPLATE_FOR_JOB, "a{}", "{} names an item, and a job has none"},
        {TEMPLATE_FOR_JOB, "a{/id}", "{/id} names an item, and a job has none"},
        {TEMPLATE_FOR_JOB, "{date:/zone}", "a job has no item"},
        {TEMPLATE_FOR_JOB, "{hour:/zone}", "a job has no item"},
        {TEMPLATE_FOR_JOB, "{date:a b}", "is not the name of a time zone"},
        {TEMPLATE_FOR_JOB, "{env}", "written {env:NAME}"},
        {TEMPLATE_FOR_JOB, "{env:}", "environment variable"},
        {TEMPLATE_FOR_JOB, "{env:1A}", "environment variable"},
        {TEMPLATE_FOR_JOB, "{env:A=B}", "environment variable"},
        {TEMPLATE_FOR_JOB, "{env:A|uuid}", "only in the key of a rule"},
        {TEMPLATE_FOR_JOB, "{window:1h}", "names nothing"},
        {TEMPLATE_FOR_JOB, "{window:1h}{week:UTC}", "expected one of them"},
        {TEMPLATE_FOR_JOB, "{hour}-{env:A}", "or two runs could look the same"},
        {TEMPLATE_FOR_JOB, "{hour", "not closed"},
        {TEMPLATE_FOR_JOB, "a}", "closes nothing"},
        {TEMPLATE_FOR_JOB, "\xC3\xBC", "printable ASCII"},
        {TEMPLATE_FOR_ITEM, "{header:X}", "cannot be part of an item's key"},
        {TEMPLATE_FOR_ITEM, "{dote:UTC}", "the nearest is {date:Area/City} or"},
        {TEMPLATE_FOR_ITEM, "{date}", "the member of that name is {/date}"},
        {TEMPLATE_FOR_ITEM, "{1a}", "expected a JSON pointer, {/1a}"},
        {TEMPLATE_FOR_ITEM, "{first name}", "expected a JSON pointer, {/first name}"},
        {TEMPLATE_FOR_ITEM, "{/a~2}", "JSON pointer"},
        {TEMPLATE_FOR_ITEM, "{id|uuid}", "only in the key of a rule"},
        {TEMPLATE_FOR_ITEM, "{/id|uuid}", "only in the key of a rule"},
        {TEMPLATE_FOR_ITEM, "{}-{id}", "or two items could look the same"},
        {TEMPLATE_FOR_KEY, "{env:HOME}", "{env:NAME} cannot be part of a key"},
        {TEMPLATE_FOR_KEY, "{/id}", "no source"},
        {TEMPLATE_FOR_PROBE, "/{env:HOME}", "cannot be part of a probe"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct template template;
        struct slice problem = {NULL, 0};
        char text[512];
        bool taken =
            template_compile(slice_of(rows[i].text), rows[i].use, &arena, &template, &problem);
        snprintf(text, sizeof(text), "%.*s", SLICE_ARG(problem));
        if (taken || !strstr(text, rows[i].says))
            fail_msg("<%s>: taken %d, <%s>", rows[i].text, taken, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_of_a_job),
        cmocka_unit_test(a_variable_that_is_not_set_or_is_empty_is_missing_in_a_key),
        cmocka_unit_test(the_key_of_a_line),
        cmocka_unit_test(the_key_of_a_json_value),
        cmocka_unit_test(the_key_of_a_csv_record),
        cmocka_unit_test(a_message_says_why_a_value_is_missing),
        cmocka_unit_test(keys_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
