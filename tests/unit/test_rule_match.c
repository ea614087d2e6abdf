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
        "POST /x{a}y{b}",
        "POST /{a}{",
        "POST /a}{b",
        "POST /{a}}",
        "POST /{a}*",
        "POST /{a}/v{a}",
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
    static const char *const texts[] = {"POST /",
                                        "* /**",
                                        "POST,DELETE /a/{x}/**",
                                        "PUT /a",
                                        "POST /orders/{id}:cancel",
                                        "POST /{id}.json",
                                        "POST /v{n}/a%20{x}%3Ab",
                                        "POST /:{id}"};
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

/* found: L9 */
static void a_literal_beside_a_parameter_counts_in_what_is_reached(void **state)
{
    (void)state;
    assert_true(covers("POST /a/{x}", "POST /a/{x}:cancel"));
    assert_true(covers("POST /a/{x}:cancel", "POST /a/o1:cancel"));
    assert_true(covers("POST /a/{x}:cancel", "POST /a/o1%3Acancel"));
    assert_true(covers("POST /v{n}", "POST /v1{n}.json"));
    assert_true(covers("POST /{x}l", "POST /{x}:cancel"));
    assert_true(covers("POST /a:b", "POST /a%3Ab"));
    assert_false(covers("POST /a/{x}:cancel", "POST /a/{x}"));
    assert_false(covers("POST /a/{x}:cancel", "POST /a/%3Acancel"));
    assert_false(covers("POST /a/{x}:cancel", "POST /a/{x}:capture"));
    assert_false(covers("POST /v1{n}", "POST /v{n}"));
    assert_false(covers("POST /a{x}a", "POST /a"));
    assert_false(covers("POST /{x}3Ab", "POST /o%3Ab"));
}

/* found: L9 */
static void a_literal_may_stand_beside_a_parameter(void **state)
{
    static const char *const rules[] = {
        "POST /orders/{id}:cancel", "POST /orders/{id}", "POST /{id}.json",    "POST /v{n}/a",
        "POST /n%20{x}%20n",        "POST /a:b",         "PUT /{a}/{b}ab/{c}", NULL};
    static const struct headers none;
    static const struct {
        const char *request;
        enum rule_find found;
        const char *rule;
        const char *value; /* of the first parameter */
    } rows[] = {
        {"/orders/o1:cancel", RULE_FOUND, "POST /orders/{id}:cancel", "o1"},
        {"/orders/o1:cancel:cancel", RULE_FOUND, "POST /orders/{id}:cancel", "o1:cancel"},
        {"/orders/a%3Ab:cancel/", RULE_FOUND, "POST /orders/{id}:cancel", "a%3Ab"},
        {"/orders/o1:cancelled", RULE_FOUND, "POST /orders/{id}", "o1:cancelled"},
        {"/orders/:cancel", RULE_FOUND, "POST /orders/{id}", ":cancel"},
        {"/orders/cancel", RULE_FOUND, "POST /orders/{id}", "cancel"},
        {"/a.json", RULE_FOUND, "POST /{id}.json", "a"},
        {"/a%2Ejson", RULE_FOUND, "POST /{id}.json", "a"},
        {"/.json", RULE_NONE, NULL, NULL},
        {"/v12/a", RULE_FOUND, "POST /v{n}/a", "12"},
        {"/%7612/a", RULE_FOUND, "POST /v{n}/a", "12"},
        {"/v/a", RULE_NONE, NULL, NULL},
        {"/n%20a%20n", RULE_FOUND, "POST /n%20{x}%20n", "a"},
        {"/n%20n", RULE_NONE, NULL, NULL},
        {"/a:b", RULE_FOUND, "POST /a:b", NULL},
        /* decoded, and nothing else as it is spelled */
        {"/a%3Ab", RULE_FOUND, "POST /a:b", NULL},
        {"/a%3ab", RULE_FOUND, "POST /a:b", NULL},
        /* as it is spelled another rule */
        {"/orders/o1%3Acancel", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders/o1%3acance%6C", RULE_PATH_AMBIGUOUS, NULL, NULL},
        /* decoded twice, cut at a parameter, a NUL, a dot or a space: another rule */
        {"/orders/o1%253Acancel", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders/o1:cancel;x", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders/o1:cancel%00", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders/o1:cancel%3Fx", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders/o1:cancel.", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders/o1:cancel%20", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders/x/../o1:cancel", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders//o1:cancel", RULE_PATH_AMBIGUOUS, NULL, NULL},
        {"/orders%2Fo1:cancel", RULE_PATH_AMBIGUOUS, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct rule_set *set = make_set(rules);
        struct rule_found met = {0};
        struct rule_request request = {SLICE("POST"), slice_of(rows[i].request), &none};
        enum rule_find result = rule_find_request(set, &request, &arena, &met);
        if (result != rows[i].found)
            fail_msg("%s: %d, not %d", rows[i].request, result, rows[i].found);
        if (rows[i].rule && !slice_eq(met.rule->name, slice_of(rows[i].rule)))
            fail_msg("%s: met %.*s", rows[i].request, SLICE_ARG(met.rule->name));
        if (rows[i].value && !slice_eq(met.facts.params[0].value, slice_of(rows[i].value)))
            fail_msg("%s: %.*s", rows[i].request, SLICE_ARG(met.facts.params[0].value));
        rule_set_unref(set);
    }
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
        cmocka_unit_test(a_literal_beside_a_parameter_counts_in_what_is_reached),
        cmocka_unit_test(a_literal_may_stand_beside_a_parameter),
        cmocka_unit_test(a_template_that_names_no_parameter_of_the_path_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
