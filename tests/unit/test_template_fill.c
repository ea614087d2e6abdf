/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are filled in from an item. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "template_item.h"

#include <stdio.h>

static struct zones zones;

static enum template_result fill(struct request *request, enum template_filling filling,
                                 const char *text, struct buf *buf, struct slice *ret_missing)
{
    struct template template;
    struct template_output output = {.arena = &request->arena, .buf = buf};
    compile(request, TEMPLATE_FOR_TEXT, text, &template);
    return template_fill(&template, &request->facts, filling, &output, ret_missing);
}

static void fills(struct request *request, enum template_filling filling, const char *text,
                  const char *expected)
{
    BUF_AUTO struct buf buf = buf_make(1 << 20);
    struct slice missing = {NULL, 0};
    enum template_result result = fill(request, filling, text, &buf, &missing);
    if (result != TEMPLATE_OK || !slice_eq(buf_slice(&buf), slice_of(expected)))
        fail_msg("%s: result %d, <%.*s>, missing %.*s", text, result, SLICE_ARG(buf_slice(&buf)),
                 SLICE_ARG(missing));
}

static void fills_not(struct request *request, enum template_filling filling,
                      enum template_result because, const char *text, const char *expected)
{
    BUF_AUTO struct buf buf = buf_make(1 << 20);
    struct slice missing = {NULL, 0};
    buf_add_str(&buf, "before");
    enum template_result result = fill(request, filling, text, &buf, &missing);
    if (result != because || !slice_eq(missing, slice_of(expected)) || buf.len != 6)
        fail_msg("%s: result %d, <%.*s>, missing %.*s", text, result, SLICE_ARG(buf_slice(&buf)),
                 SLICE_ARG(missing));
}

/* ---- what is a placeholder ---- */

static void what_is_no_placeholder_stays_as_it_is(void **state)
{
    static const char *const texts[] = {
        "",
        "{print $1}",
        "{\"a\":1,\"b\":{\"c\":[]}}",
        "}{",
        "{",
        "}",
        "a{",
        "{'x'}",
        "{ }",
        "{name }",
        "{1}",
        "{1..5}",
        "{a,b}",
        "{header:X}",
        "{window:1h}",
        "{name:x}",
        "{na\nme}",
        "{/a'b}",
        "{date:Europe/Berlin",
        "\xC3\xBC\xFF\x01\n",
        "${HOME:-x}",
        "{a|uuid}",
    };
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_line(&request, "x");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        fills(&request, TEMPLATE_RAW, texts[i], texts[i]);
}

static void two_braces_are_one(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_line(&request, "x");
    fills(&request, TEMPLATE_RAW, "{{}", "{}");
    fills(&request, TEMPLATE_RAW, "{{{}}", "{x}");
    fills(&request, TEMPLATE_RAW, "{{{{{}", "{{x");
    fills(&request, TEMPLATE_RAW, "${{HOME} {{", "${HOME} {");
    fills(&request, TEMPLATE_RAW, "{{{", "{{");
    fills(&request, TEMPLATE_RAW, "{ {}", "{ x");
    fills(&request, TEMPLATE_RAW, "{\"{}\"}", "{\"x\"}");
}

static void a_text_is_written_as_it_was_given(void **state)
{
    static const char text[] = "a{{b{}{{{ {print}}{env:X}\n";
    REQUEST_AUTO struct request request;
    BUF_AUTO struct buf buf = buf_make(1024);
    struct template template;
    (void)state;
    item_init(&request, &zones);
    compile(&request, TEMPLATE_FOR_TEXT, text, &template);
    template_write(&template, &buf);
    assert_true(slice_eq(buf_slice(&buf), slice_of(text)));
}

static void texts_are_refused_with_a_reason(void **state)
{
    static const struct {
        struct slice text;
        const char *says;
    } rows[] = {
        {{"a\0b", 3}, "no NUL"},
        {{"{date}", 6}, "the member of that name is {/date}"},
        {{"{date:..}", 9}, "name of a time zone"},
        {{"{env:1}", 7}, "environment variable"},
        {{"{/a~2}", 6}, "JSON pointer"},
        {{"{/id|uuid}", 10}, "only in the key of a rule"},
        {{"{} {} {} {} {} {} {} {} {}", 26}, "at most 16 parts"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct template template;
        struct slice problem = {NULL, 0};
        char said[512];
        bool taken = template_compile(rows[i].text, TEMPLATE_FOR_TEXT, &arena, &template, &problem);
        snprintf(said, sizeof(said), "%.*s", SLICE_ARG(problem));
        if (taken || !strstr(said, rows[i].says))
            fail_msg("row %zu: taken %d, <%s>", i, taken, said);
    }
}

static void a_large_text_is_read_in_one_pass(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(8 << 20);
    BUF_AUTO struct buf buf = buf_make(4 << 20);
    struct template template;
    struct slice problem;
    (void)state;
    for (size_t i = 0; i < 1 << 20; i++)
        buf_add_str(&buf, i % 2 ? "{a" : "{[");
    assert_true(template_compile(buf_slice(&buf), TEMPLATE_FOR_TEXT, &arena, &template, &problem));
    assert_int_equal(template.n, 1);
}

/* ---- values ---- */

#define USER                                                                                       \
    "{\"id\":\"a \\\"b\\\"\",\"n\":1.50,\"t\":true,\"none\":null,\"e\":\"\",\"o\":{\"k\":[7]},"    \
    "\"zone\":\"America/New_York\",\"nul\":\"a\\u0000b\"}"

static void values_are_put_in_as_they_are(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_json(&request, USER);
    fills(&request, TEMPLATE_RAW, "--id={id}", "--id=a \"b\"");
    fills(&request, TEMPLATE_RAW, "{n}{t}{/o/k/0}", "1.50true7");
    fills(&request, TEMPLATE_RAW, "<{e}>", "<>");
    fills(&request, TEMPLATE_RAW, "{}", USER);
    fills(&request, TEMPLATE_RAW, "{env:REGION}{env:EMPTY}.", "eu west.");
    fills(&request, TEMPLATE_RAW, "{date:/zone}{week:Asia/Kolkata}{hour}",
          "2026-02-192026-W082026-02-20T03Z");
    fills(&request, TEMPLATE_RAW, "{hour:/zone}-", "2026-02-19T22-0500-");
    set_line(&request, "");
    fills(&request, TEMPLATE_RAW, "<{}>", "<>");
    set_line(&request, "\xFF\x01");
    fills(&request, TEMPLATE_RAW, "{}", "\xFF\x01");
}

static void what_is_missing_is_named(void **state)
{
    static const enum template_filling all[] = {TEMPLATE_RAW, TEMPLATE_IN_URL, TEMPLATE_IN_JSON};
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_json(&request, USER);
    for (size_t i = 0; i < 3; i++) {
        fills_not(&request, all[i], TEMPLATE_MISSING, "{id}{absent}", "absent");
        fills_not(&request, all[i], TEMPLATE_MISSING, "x{none}", "none");
        fills_not(&request, all[i], TEMPLATE_MISSING, "{o}", "o");
        fills_not(&request, all[i], TEMPLATE_MISSING, "{/o/k}", "/o/k");
        fills_not(&request, all[i], TEMPLATE_MISSING, "{env:NONE}", "env:NONE");
        fills_not(&request, all[i], TEMPLATE_MISSING, "{date:/id}", "date:/id");
    }
    fills_not(&request, TEMPLATE_RAW, TEMPLATE_FORMAT, "{id} {nul}", "nul");
    set_line(&request, "x");
    fills_not(&request, TEMPLATE_RAW, TEMPLATE_MISSING, "{id}", "id");
}

static void a_value_as_json_is_any_value_and_of_a_csv_field_what_stands_in_it(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_json(&request, USER);
    fills(&request, TEMPLATE_RAW, "{o|json} {/o/k|json} {none|json}", "{\"k\":[7]} [7] null");
    fills(&request, TEMPLATE_IN_JSON, "{\"a\":{id|json},\"b\":{n|json}}",
          "{\"a\":\"a \\\"b\\\"\",\"b\":1.50}");
    fills(&request, TEMPLATE_IN_JSON, "\"{o|json}\"", "\"{\\\"k\\\":[7]}\"");
    fills_not(&request, TEMPLATE_RAW, TEMPLATE_MISSING, "{absent|json}", "absent|json");
    set_csv(&request, "7,x,", "{\"id\":\"7\",\"t\":\"x\",\"e\":\"\",\"l\":\"[1, 2]\"}");
    fills(&request, TEMPLATE_IN_JSON, "[{id|json},{id},{l|json}]", "[7,\"7\",[1, 2]]");
    fills_not(&request, TEMPLATE_IN_JSON, TEMPLATE_FORMAT, "{t|json}", "t|json");
    fills_not(&request, TEMPLATE_IN_JSON, TEMPLATE_FORMAT, "{e|json}", "e|json");
    fills(&request, TEMPLATE_RAW, "{id|jso} {x y|json}", "{id|jso} {x y|json}");
}

static void in_a_url_values_are_percent_encoded(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_line(&request, "a/b?c&d=e +\xC3\xBC@~._-");
    fills(&request, TEMPLATE_IN_URL, "https://x/{}?r={env:REGION}&h={hour}",
          "https://x/a%2Fb%3Fc%26d%3De%20%2B%C3%BC%40~._-?r=eu%20west&h=2026-02-20T03Z");
    set_json(&request, USER);
    fills(&request, TEMPLATE_IN_URL, "/{hour:Asia/Kolkata}?n={nul}",
          "/2026-02-20T08%2B0530?n=a%00b");
    fills(&request, TEMPLATE_IN_FORM, "/{nul}/{e}/", "/a%00b//");
    fills_not(&request, TEMPLATE_IN_URL, TEMPLATE_FORMAT, "/{n}/{nul}/{t}", "nul");
    fills_not(&request, TEMPLATE_IN_URL, TEMPLATE_FORMAT, "/{n}/{e}", "e");
    fills(&request, TEMPLATE_IN_URL, "/{n}?e={e}", "/1.50?e=");
}

static void in_json_values_are_strings_content_or_values(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_json(&request, USER);
    fills(&request, TEMPLATE_IN_JSON, "{\"id\":{id},\"n\":{n},\"t\":{t},\"e\":{e}}",
          "{\"id\":\"a \\\"b\\\"\",\"n\":1.50,\"t\":true,\"e\":\"\"}");
    fills(&request, TEMPLATE_IN_JSON, "{\"x\":\"<{id}|{n}|{t}|{e}>\",\"n\":{n}}",
          "{\"x\":\"<a \\\"b\\\"|1.50|true|>\",\"n\":1.50}");
    fills(&request, TEMPLATE_IN_JSON, "[{},{nul}]", "[" USER ",\"a\\u0000b\"]");
    fills(&request, TEMPLATE_IN_JSON, "[{env:REGION},{hour},\"{env:EMPTY}\"]",
          "[\"eu west\",\"2026-02-20T03Z\",\"\"]");
    /* A quote behind a '\' ends no string. */
    fills(&request, TEMPLATE_IN_JSON, "[\"\\\"{id}\\\\\",{n}]", "[\"\\\"a \\\"b\\\"\\\\\",1.50]");
    fills_not(&request, TEMPLATE_IN_JSON, TEMPLATE_FORMAT, "[\"\\{id}\"]", "id");
    set_json(&request, "\"a\"");
    fills(&request, TEMPLATE_IN_JSON, "[{},\"{}\"]", "[\"a\",\"\\\"a\\\"\"]");
}

static void in_json_lines_and_columns_are_strings(void **state)
{
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_csv(&request, "7,\"x\"", "{\"id\":\"7\",\"name\":\"x\"}");
    fills(&request, TEMPLATE_IN_JSON, "{\"id\":{id},\"name\":\"{name}\",\"all\":{}}",
          "{\"id\":\"7\",\"name\":\"x\",\"all\":\"7,\\\"x\\\"\"}");
    set_line(&request, "a\tb\\");
    fills(&request, TEMPLATE_IN_JSON, "[{},\"{}\"]", "[\"a\\tb\\\\\",\"a\\tb\\\\\"]");
    set_line(&request, "\xFF");
    fills_not(&request, TEMPLATE_IN_JSON, TEMPLATE_FORMAT, "[{}]", "");
    fills_not(&request, TEMPLATE_IN_JSON, TEMPLATE_FORMAT, "[\"{}\"]", "");
}

static void a_text_that_does_not_fit_is_none(void **state)
{
    static const enum template_filling all[] = {TEMPLATE_RAW, TEMPLATE_IN_URL, TEMPLATE_IN_JSON};
    REQUEST_AUTO struct request request;
    (void)state;
    item_init(&request, &zones);
    set_line(&request, "0123456789");
    for (size_t i = 0; i < 3; i++) {
        BUF_AUTO struct buf buf = buf_make(12);
        struct slice missing;
        assert_int_equal(fill(&request, all[i], "abc\"{}\"", &buf, &missing), TEMPLATE_NO_MEMORY);
        assert_int_equal(buf.len, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_placeholder_stays_as_it_is),
        cmocka_unit_test(two_braces_are_one),
        cmocka_unit_test(a_text_is_written_as_it_was_given),
        cmocka_unit_test(texts_are_refused_with_a_reason),
        cmocka_unit_test(a_large_text_is_read_in_one_pass),
        cmocka_unit_test(values_are_put_in_as_they_are),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(a_value_as_json_is_any_value_and_of_a_csv_field_what_stands_in_it),
        cmocka_unit_test(in_a_url_values_are_percent_encoded),
        cmocka_unit_test(in_json_values_are_strings_content_or_values),
        cmocka_unit_test(in_json_lines_and_columns_are_strings),
        cmocka_unit_test(a_text_that_does_not_fit_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
