/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/rule.h"

#define ARENA_MAX (1024 * 1024)

/* ---- rules under test ---- */

/* The rules of a config, first to last, named by their `match`. */
static struct rule_set *make_set(const char *const *matches)
{
    struct rule_set *set = rule_set_new(ARENA_MAX);
    size_t n = 0;
    assert_non_null(set);
    while (matches[n])
        n++;
    set->rules = arena_alloc(&set->arena, n * sizeof(*set->rules));
    assert_non_null(set->rules);
    for (; set->n < n; set->n++) {
        struct rule *rule = &set->rules[set->n];
        struct slice problem;
        memset(rule, 0, sizeof(*rule));
        rule->name = slice_of(matches[set->n]);
        if (!rule_match_compile(rule->name, &set->arena, &rule->match, &problem))
            fail_msg("%s: %.*s", matches[set->n], SLICE_ARG(problem));
    }
    return set;
}

static enum rule_find find(const struct rule_set *set, const char *method, const char *path,
                           struct arena *arena, struct rule_found *ret_found)
{
    static const struct headers none;
    struct rule_request request = {slice_of(method), slice_of(path), &none};
    return rule_find_request(set, &request, arena, ret_found);
}

static void expect(const char *const *rules, const char *request, enum rule_find expected,
                   const char *name)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rule_set *set = make_set(rules);
    struct rule_found found = {0};
    char method[16] = {0};
    const char *space = strchr(request, ' ');
    memcpy(method, request, (size_t)(space - request));
    enum rule_find result = find(set, method, space + 1, &arena, &found);
    if (result != expected)
        fail_msg("%s: %d, not %d", request, result, expected);
    if (name && !slice_eq(found.rule->name, slice_of(name)))
        fail_msg("%s: met %.*s", request, SLICE_ARG(found.rule->name));
    rule_set_unref(set);
}

/* ---- matching ---- */

static const char *const shop[] = {"POST /refunds",
                                   "POST /refunds/{id}/lines",
                                   "DELETE /refunds/{id}",
                                   "POST /matches/{match}/messages/{n}",
                                   "POST /",
                                   "PUT /caf%C3%A9/~x",
                                   NULL};

static void a_rule_is_met_by_method_and_whole_path(void **state)
{
    (void)state;
    expect(shop, "POST /refunds", RULE_FOUND, "POST /refunds");
    expect(shop, "DELETE /refunds/7", RULE_FOUND, "DELETE /refunds/{id}");
    expect(shop, "POST /", RULE_FOUND, "POST /");
    expect(shop, "POST /refunds/7/lines", RULE_FOUND, "POST /refunds/{id}/lines");
    expect(shop, "POST /refunds/7", RULE_NONE, NULL);
    expect(shop, "POST /refunds/7/lines/8", RULE_NONE, NULL);
    expect(shop, "POST /refund", RULE_NONE, NULL);
    expect(shop, "POST /refundsx", RULE_NONE, NULL);
    expect(shop, "POST /Refunds", RULE_NONE, NULL);
    expect(shop, "PUT /refunds", RULE_NONE, NULL);
    expect(shop, "GET /refunds", RULE_NONE, NULL);
    expect(shop, "POST /1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18", RULE_NONE, NULL);
}

static void the_first_rule_that_matches_wins(void **state)
{
    static const char *const rules[] = {"POST /a/{x}", "POST /a/b", NULL};
    static const char *const turned[] = {"POST /a/b", "POST /a/{x}", NULL};
    (void)state;
    expect(rules, "POST /a/b", RULE_FOUND, "POST /a/{x}");
    expect(turned, "POST /a/b", RULE_FOUND, "POST /a/b");
}

static void escapes_of_unreserved_characters_and_one_trailing_slash_do_not_hide_a_path(void **state)
{
    (void)state;
    expect(shop, "POST /refunds/", RULE_FOUND, "POST /refunds");
    expect(shop, "POST /%72efunds", RULE_FOUND, "POST /refunds");
    expect(shop, "POST /%72%65%66%75%6E%64%73/", RULE_FOUND, "POST /refunds");
    expect(shop, "PUT /caf%c3%a9/%7ex", RULE_FOUND, "PUT /caf%C3%A9/~x");
    expect(shop, "PUT /caf%C3%A9/%7Ex", RULE_FOUND, "PUT /caf%C3%A9/~x");
}

static void a_method_in_lower_case_meets_the_rule_too(void **state)
{
    (void)state;
    expect(shop, "post /refunds", RULE_FOUND, "POST /refunds");
    expect(shop, "connect /refunds", RULE_METHOD_REFUSED, NULL);
    expect(shop, "TRACE /refunds", RULE_METHOD_REFUSED, NULL);
}

static void path_parameters_have_their_value_from_the_normalised_path(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rule_set *set = make_set(shop);
    struct rule_found found;
    (void)state;
    assert_int_equal(find(set, "POST", "/matches/%61%25b%3f/messages/a%20b;c=1/", &arena, &found),
                     RULE_FOUND);
    assert_int_equal(found.facts.n_params, 2);
    assert_true(slice_eq(found.facts.params[0].name, SLICE("match")));
    assert_true(slice_eq(found.facts.params[0].value, SLICE("a%25b%3F")));
    assert_true(slice_eq(found.facts.params[1].name, SLICE("n")));
    assert_true(slice_eq(found.facts.params[1].value, SLICE("a%20b;c=1")));
    assert_true(slice_eq(found.facts.route, SLICE("POST /matches/{match}/messages/{n}")));
    assert_true(slice_eq(found.facts.method, SLICE("POST")));
    assert_true(slice_eq(found.path, SLICE("/matches/a%25b%3F/messages/a%20b;c=1")));
    rule_set_unref(set);
}

static void a_path_that_some_server_reads_so_that_it_meets_a_rule_is_ambiguous(void **state)
{
    static const char *const requests[] = {
        "POST //refunds",
        "POST /refunds//",
        "POST ///refunds///",
        "POST /./refunds",
        "POST /refunds/.",
        "POST /x/../refunds",
        "POST /x/%2e%2e/refunds",
        "POST /x/.%2E/refunds",
        "POST /refunds/x/..",
        "POST /../refunds",
        "POST /x/y/../../refunds",
        "POST /%2Frefunds",
        "POST /refunds%2F",
        "POST /refunds%2f",
        "POST \\refunds",
        "POST /x\\..\\refunds",
        "POST /x%5c..%5crefunds",
        "POST /refunds\\",
        "POST /x%2F..%2Frefunds",
        "POST /refunds%00",
        "POST /refunds%00.json",
        "POST /re%00funds",
        "POST /x/..;/refunds",
        "POST /x/..;a=b/refunds",
        "POST /refunds/a%2Fb/..",
        "POST /refunds/x%5cy/..",
        "POST /x//../refunds",
        "POST /refunds/./;x",
        "POST /refunds;x",
        "POST /refunds;x=1/",
        "POST /;x/refunds",
        "POST /refunds%3Bx",
        "DELETE /refunds/..",
        "DELETE /refunds/a%2Fb",
        "DELETE /refunds//7",
        "DELETE /refunds/7/../8",
        "DELETE /x/../refunds/%31",
        "DELETE /refunds/%00",
        "POST /x/..",
        "POST /./",
        "POST /refunds/%2e",
        "POST /x/%2e%2e%3bx/refunds",
        "POST /%/../refunds",
        "POST /%/%2e%2e/refunds",
        "POST /x/%2e%2e%2f%72efunds",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        expect(shop, requests[i], RULE_PATH_AMBIGUOUS, NULL);
}

static void an_ambiguous_path_too_long_to_be_tried_is_refused_where_the_method_is_ruled(
    void **state)
{
    char request[2200] = "POST /files//";
    (void)state;
    memset(request + strlen(request), 'a', 1900);
    expect(shop, request, RULE_NONE, NULL);
    memset(request + strlen(request), 'a', 200);
    expect(shop, request, RULE_PATH_AMBIGUOUS, NULL);
    memcpy(request, "GET  ", 4);
    memmove(request + 3, request + 4, sizeof(request) - 4);
    expect(shop, request, RULE_NONE, NULL);
}

static void an_ambiguous_path_that_meets_no_rule_passes(void **state)
{
    static const char *const rules[] = {"POST /refunds", "DELETE /refunds/{id}", NULL};
    static const char *const requests[] = {
        "POST /files//a",
        "POST /x/../files",
        "POST /files/a%2Fb",
        "POST /refunds/../x",
        "POST /a\\b",
        "POST /files%00",
        "GET //refunds",
        "PUT /x/../refunds",
        "POST /files;x",
        "POST /x/...",
        "POST /%252e%252e/refunds",
        "POST /x%252Frefunds",
        "DELETE /refunds/../x/y",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        expect(rules, requests[i], RULE_NONE, NULL);
}

static void parameters_in_a_segment_that_a_rule_leaves_free_are_just_its_value(void **state)
{
    (void)state;
    expect(shop, "DELETE /refunds/7;v=2", RULE_FOUND, "DELETE /refunds/{id}");
    expect(shop, "DELETE /refunds/...", RULE_FOUND, "DELETE /refunds/{id}");
    expect(shop, "DELETE /refunds/.x", RULE_FOUND, "DELETE /refunds/{id}");
    expect(shop, "DELETE /refunds/..x", RULE_FOUND, "DELETE /refunds/{id}");
}

/* ---- method overrides ---- */

struct override_row {
    const char *sent;
    const char *name;
    const char *value;
    enum rule_find find;
    const char *rule;
    const char *method; /* that counts */
};

static const char *const two[] = {"POST /x", "DELETE /x", NULL};
static const char *const post_only[] = {"POST /x", NULL};

static void check_override(const char *const *rules, const struct override_row *row)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rule_set *set = make_set(rules);
    struct headers headers = {0};
    struct rule_found found;
    assert_true(headers_add(&headers, slice_of(row->name), slice_of(row->value)));
    struct rule_request request = {slice_of(row->sent), SLICE("/x"), &headers};
    enum rule_find result = rule_find_request(set, &request, &arena, &found);
    if (result != row->find)
        fail_msg("%s as %s: %d", row->sent, row->value, result);
    if (result == RULE_FOUND && (!slice_eq(found.rule->name, slice_of(row->rule)) ||
                                 !slice_eq(found.facts.method, slice_of(row->method))))
        fail_msg("%s as %s: rule %.*s, method %.*s", row->sent, row->value,
                 SLICE_ARG(found.rule->name), SLICE_ARG(found.facts.method));
    if (result == RULE_FOUND)
        assert_ptr_equal(found.facts.headers, &headers);
    rule_set_unref(set);
}

static void a_method_override_counts_as_the_method(void **state)
{
    static const struct override_row rows[] = {
        {"POST", "X-HTTP-Method-Override", "DELETE", RULE_FOUND, "DELETE /x", "DELETE"},
        {"POST", "x-http-method", "delete", RULE_FOUND, "DELETE /x", "DELETE"},
        {"GET", "X-Method-Override", "POST", RULE_FOUND, "POST /x", "POST"},
        {"GET", "X_Method_Override", "POST", RULE_FOUND, "POST /x", "POST"},
        {"POST", "X-HTTP-Method-Override", "POST", RULE_FOUND, "POST /x", "POST"},
        {"GET", "X-Method-Override", "HEAD", RULE_NONE, NULL, NULL},
        {"POST", "X-HTTP-Method-Override", "TRACE", RULE_METHOD_REFUSED, NULL, NULL},
        {"POST", "X-HTTP-Method-Override", "POST, CONNECT", RULE_METHOD_REFUSED, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_override(two, &rows[i]);
}

static void no_override_leads_round_the_rule_of_the_sent_method(void **state)
{
    static const struct override_row rows[] = {
        {"POST", "X-HTTP-Method-Override", "GET", RULE_FOUND, "POST /x", "POST,GET"},
        {"POST", "X-HTTP-Method-Override", "DELETE", RULE_FOUND, "POST /x", "POST,DELETE"},
        {"POST", "X-HTTP-Method-Override", "NONSENSE", RULE_FOUND, "POST /x", "POST,NONSENSE"},
        {"POST", "X-HTTP-Method-Override", "", RULE_FOUND, "POST /x", "POST,"},
        {"GET", "X-HTTP-Method-Override", "GET, POST", RULE_FOUND, "POST /x", "GET,GET, POST"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_override(post_only, &rows[i]);
}

static void a_request_is_safe_only_when_every_reading_is(void **state)
{
    static struct headers none;
    static struct headers post;
    static struct headers head;
    (void)state;
    headers_add(&post, SLICE("X-HTTP-Method"), SLICE("GET,POST"));
    headers_add(&head, SLICE("X-HTTP-Method"), SLICE("HEAD"));
    assert_true(rule_request_is_safe(&none, SLICE("GET")));
    assert_true(rule_request_is_safe(&head, SLICE("OPTIONS")));
    assert_false(rule_request_is_safe(&post, SLICE("GET")));
    assert_false(rule_request_is_safe(&head, SLICE("POST")));
    assert_false(rule_request_is_safe(&none, SLICE("PURGE")));
    assert_true(slice_eq(rule_method(&none, SLICE("PURGE")), SLICE("PURGE")));
    assert_true(slice_eq(rule_method(&head, SLICE("GET")), SLICE("HEAD")));
}

/* ---- match ---- */

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

static bool covers(const char *earlier, const char *later)
{
    const char *const rules[] = {earlier, later, NULL};
    struct rule_set *set = make_set(rules);
    bool result = rule_match_covers(&set->rules[0].match, &set->rules[1].match);
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

/* ---- memory ---- */

static void a_set_lives_as_long_as_somebody_holds_it(void **state)
{
    static const char *const rules[] = {"POST /a", "POST /b", NULL};
    struct slice problem;
    struct rule_set *set = make_set(rules);
    (void)state;
    set->rules[1].key_format = key_format_new(KEY_FORMAT_REGEX, SLICE("a+"), &set->arena, &problem);
    assert_ptr_equal(rule_set_ref(set), set);
    rule_set_unref(set);
    assert_int_equal(set->n, 2);
    rule_set_unref(set);
    rule_set_unref(NULL);
}

#ifdef PAWL_HOOKS
/* Everything from config to hash; false: something said that there was no memory. */
static bool go_through(struct rule_set *set, struct arena *arena)
{
    struct headers headers = {0};
    struct rule_found found;
    struct slice problem;
    struct digest hash;
    headers_add(&headers, SLICE("X-HTTP-Method"), SLICE("GET"));
    struct rule_request request = {SLICE("POST"), SLICE("/a/b"), &headers};
    set->rules = arena_alloc(&set->arena, sizeof(*set->rules));
    if (!set->rules)
        return false;
    memset(set->rules, 0, sizeof(*set->rules));
    set->n = 1;
    set->rules[0].query = RULE_QUERY_NAMES;
    if (!rule_match_compile(SLICE("POST /a/{x}"), &set->arena, &set->rules[0].match, &problem)) {
        assert_true(slice_eq(problem, SLICE("out of memory")));
        return false;
    }
    request.path = SLICE("/a/..");
    enum rule_find result = rule_find_request(set, &request, arena, &found);
    assert_true(result == RULE_PATH_AMBIGUOUS || result == RULE_NO_MEMORY);
    if (result == RULE_NO_MEMORY)
        return false;
    request.path = SLICE("/a/b");
    result = rule_find_request(set, &request, arena, &found);
    assert_true(result == RULE_FOUND || result == RULE_NO_MEMORY);
    return result == RULE_FOUND && path_resolve(SLICE("/a/.."), arena).at &&
           rule_target_hash(found.rule, &found.facts, found.path, arena, &hash);
}

static void every_allocation_may_fail(void **state)
{
    bool fired = true;
    (void)state;
    for (long n = 1; fired; n++) {
        mem_fail_nth(n);
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct rule_set *set = rule_set_new(ARENA_MAX);
        bool done = set && go_through(set, &arena);
        fired = mem_fail_fired();
        mem_fail_nth(0);
        assert_true(done == !fired);
        rule_set_unref(set);
    }
}
#endif

static void an_arena_of_any_size_is_enough_or_said_to_be_full(void **state)
{
    struct rule_set *set = make_set(shop);
    bool found_once = false;
    (void)state;
    for (size_t size = 0; size < 200; size++) {
        ARENA_AUTO struct arena arena = arena_make(size);
        struct rule_found found;
        enum rule_find result = find(set, "POST", "/x/..;/refunds", &arena, &found);
        assert_true(result == RULE_NO_MEMORY || result == RULE_PATH_AMBIGUOUS);
        found_once = found_once || result == RULE_PATH_AMBIGUOUS;
    }
    assert_true(found_once);
    rule_set_unref(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_is_met_by_method_and_whole_path),
        cmocka_unit_test(the_first_rule_that_matches_wins),
        cmocka_unit_test(
            escapes_of_unreserved_characters_and_one_trailing_slash_do_not_hide_a_path),
        cmocka_unit_test(a_method_in_lower_case_meets_the_rule_too),
        cmocka_unit_test(path_parameters_have_their_value_from_the_normalised_path),
        cmocka_unit_test(a_path_that_some_server_reads_so_that_it_meets_a_rule_is_ambiguous),
        cmocka_unit_test(
            an_ambiguous_path_too_long_to_be_tried_is_refused_where_the_method_is_ruled),
        cmocka_unit_test(an_ambiguous_path_that_meets_no_rule_passes),
        cmocka_unit_test(parameters_in_a_segment_that_a_rule_leaves_free_are_just_its_value),
        cmocka_unit_test(a_method_override_counts_as_the_method),
        cmocka_unit_test(no_override_leads_round_the_rule_of_the_sent_method),
        cmocka_unit_test(a_request_is_safe_only_when_every_reading_is),
        cmocka_unit_test(what_is_no_match_is_refused_with_a_reason),
        cmocka_unit_test(a_rule_that_can_never_be_reached_is_seen),
        cmocka_unit_test(a_template_that_names_no_parameter_of_the_path_is_seen),
        cmocka_unit_test(a_set_lives_as_long_as_somebody_holds_it),
#ifdef PAWL_HOOKS
        cmocka_unit_test(every_allocation_may_fail),
#endif
        cmocka_unit_test(an_arena_of_any_size_is_enough_or_said_to_be_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
