/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules_made.h"

static void what_is_no_match_is_refused_with_a_reason(void **state)
{
    static const char *const texts[] = {
        "",
        "POST",
        "/refunds",
        "GET /x",
        "HEAD /x",
        "TRACE /x",
        "post /x",
        "POST x",
        "POST /a//b",
        "POST /../b",
        "POST /a%2Fb",
        "POST /a b",
        "POST /a?b",
        "POST /a#b",
        "POST /a;b",
        "POST /{}",
        "POST /{a}{b}",
        "POST /x{a}",
        "POST /{a",
        "POST /a}",
        "POST /{a b}",
        "POST /{a/b}",
        "POST /{a}/{a}",
        "POST /\xC3\xBC",
        "POST /1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17",
        "OPTIONS,POST /x",
        "PROPPATCH /x",
        "*,POST /x",
        "POST,, PUT /x",
        "POST/x",
        "* x",
        "POST /*",
        "POST /orders/*",
        "POST /orders/*/lines",
        "POST /**/lines",
        "POST /a**",
        "POST /***",
        "POST /orders/**/",
        "POST /orders/:id",
        "POST ^/orders$",
        "POST /orders$",
        "POST /orders/[0-9]+",
        "POST /orders/(a|b)",
        "POST /orders/.+",
        "POST /orders/<id>",
        "POST /orders/\\d",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct rule_match match;
        struct slice problem = {NULL, 0};
        if (rule_match_compile(slice_of(texts[i]), &arena, &match, &problem) || problem.len < 10)
            fail_msg("<%s> was taken", texts[i]);
    }
}

/* found: B-F2, C-H1 */
static void a_pattern_of_another_gateway_is_refused_with_the_right_spelling(void **state)
{
    static const char *const rows[][2] = {
        {"POST /orders/*", "/**"},    {"POST /orders/:id", "{id}"},
        {"POST /orders/*", "{name}"}, {"POST /orders/[0-9]+", "{name}"},
        {"ANY /orders", "*"},         {"GET,POST /orders", "always pass"},
        {"TRACE /orders", "405"},     {"PROPPATCH /orders", "* for every method"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct rule_match match;
        struct slice problem = {NULL, 0};
        assert_false(rule_match_compile(slice_of(rows[i][0]), &arena, &match, &problem));
        if (!memmem(problem.at, problem.len, rows[i][1], strlen(rows[i][1])))
            fail_msg("%s: %.*s", rows[i][0], SLICE_ARG(problem));
    }
}

static void a_match_is_written_as_it_was(void **state)
{
    static const char *const texts[] = {"POST /", "* /**", "POST,DELETE /a/{x}/**", "PUT /a"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        BUF_AUTO struct buf buf = buf_make(256);
        struct rule_match match;
        struct slice problem;
        assert_true(rule_match_compile(slice_of(texts[i]), &arena, &match, &problem));
        rule_match_write(&match, &buf);
        assert_true(slice_eq(buf_slice(&buf), slice_of(texts[i])));
    }
}

static unsigned covers(const char *earlier, const char *later)
{
    const char *const rules[] = {earlier, later, NULL};
    struct rule_set *set = make_set(rules);
    unsigned result = rule_match_covers(&set->rules[0].match, &set->rules[1].match);
    rule_set_unref(set);
    return result;
}

static void a_rule_that_can_never_be_reached_is_seen(void **state)
{
    (void)state;
    assert_true(covers("POST /a/{x}", "POST /a/b"));
    assert_true(covers("POST /a/{x}", "POST /a/{y}"));
    assert_true(covers("POST /a/%62", "POST /a/b/"));
    assert_false(covers("POST /a/b", "POST /a/{x}"));
    assert_false(covers("POST /a/{x}", "PUT /a/b"));
    assert_false(covers("POST /a/{x}", "POST /a"));
    assert_false(covers("POST /{x}/b", "POST /a/{y}"));
    assert_int_equal(covers("* /**", "POST,PUT /a/{x}"), RULE_POST | RULE_PUT);
    assert_int_equal(covers("POST,PATCH /a/**", "POST,PUT /a"), RULE_POST);
    assert_int_equal(covers("* /a/**", "* /a/**"), RULE_EVERY);
    assert_int_equal(covers("* /a/{x}", "POST /a/**"), 0);
    assert_int_equal(covers("* /a/b/**", "POST /a"), 0);
    assert_int_equal(covers("* /a/b/**", "POST /a/**"), 0);
    assert_int_equal(covers("POST,PUT,PATCH,DELETE /**", "* /a"),
                     RULE_POST | RULE_PUT | RULE_PATCH | RULE_DELETE);
}

static void a_template_that_names_no_parameter_of_the_path_is_seen(void **state)
{
    static const char *const rules[] = {"POST /a/{x}", NULL};
    struct rule_set *set = make_set(rules);
    struct template template;
    struct slice problem;
    (void)state;
    assert_true(
        template_compile(SLICE("{path:x}"), TEMPLATE_FOR_KEY, &set->arena, &template, &problem));
    assert_null(rule_match_lacks(&set->rules[0].match, &template).at);
    assert_true(template_compile(SLICE("{path:x}{path:y}"), TEMPLATE_FOR_KEY, &set->arena,
                                 &template, &problem));
    assert_true(slice_eq(rule_match_lacks(&set->rules[0].match, &template), SLICE("y")));
    rule_set_unref(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_match_is_refused_with_a_reason),
        cmocka_unit_test(a_pattern_of_another_gateway_is_refused_with_the_right_spelling),
        cmocka_unit_test(a_match_is_written_as_it_was),
        cmocka_unit_test(a_rule_that_can_never_be_reached_is_seen),
        cmocka_unit_test(a_template_that_names_no_parameter_of_the_path_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
