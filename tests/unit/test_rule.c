/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "eager_path.h"
#include "rules_made.h"
#include <stdio.h>

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
    static char request[8200] = "POST /files//";
    (void)state;
    memset(request + strlen(request), 'a', 1900);
    expect(shop, request, RULE_NONE, NULL);
    memset(request + strlen(request), 'a', 2000);
    expect(shop, request, RULE_NONE, NULL);
    memcpy(request + 13, "%2F%5C;%00%20", 13);
    expect(shop, request, RULE_PATH_AMBIGUOUS, NULL);
    memcpy(request, "GET  ", 4);
    memmove(request + 3, request + 4, sizeof(request) - 4);
    expect(shop, request, RULE_NONE, NULL);
}

static void an_ambiguous_path_that_meets_no_rule_passes(void **state)
{
    static const char *const rules[] = {"POST /refunds", "DELETE /refunds/{id}", NULL};
    static const char *const requests[] = {
        "POST /files//a",      "POST /x/../files",
        "POST /files/a%2Fb",   "POST /refunds/../x",
        "POST /a\\b",          "POST /files%00",
        "GET //refunds",       "PUT /x/../refunds",
        "POST /files;x",       "POST /x/...",
        "POST /x%252Frefunds", "POST /files%0A",
        "POST /a%20b/c.",      "DELETE /refunds/../x/y",
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

/* found: A-P */
static void a_spelling_that_some_servers_clean_does_not_lead_round_a_rule(void **state)
{
    static const char *const requests[] = {
        "POST /refunds%0A",
        "POST /refunds%0d%0a",
        "POST /refunds%20",
        "POST /%20refunds",
        "POST /refunds%09/",
        "POST /refunds%7F",
        "POST /refunds.",
        "POST /refunds../",
        "POST /refunds%2E",
        "POST /refunds.%20",
        "POST /%2572efunds",
        "POST /%252e%252e/refunds",
        "POST /x%252F..%252frefunds",
        "POST /%u0072efunds",
        "POST /x/..%u002frefunds",
        "POST /x/..%c0%afrefunds",
        "POST /x/%c0%ae%c0%ae/refunds",
        "POST /x/..%e0%80%afrefunds",
        "POST /refunds%253Bx",
        "POST /refunds%2500",
        "POST /%25/%252e%252e/refunds",
        "POST /%2541%25%252f..%252frefunds",
        "POST /%25%2572efunds/..%252frefunds",
    };
    static const char *const rest[] = {"POST /refunds", "* /**", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        expect(shop, requests[i], RULE_PATH_AMBIGUOUS, NULL);
        expect(rest, requests[i], RULE_PATH_AMBIGUOUS, NULL);
    }
    expect(shop, "DELETE /refunds/a%20b.", RULE_FOUND, "DELETE /refunds/{id}");
    expect(shop, "POST /%2525x", RULE_NONE, NULL);
    expect(shop, "POST /%25%2541%25", RULE_NONE, NULL); /* escapes that end before their digits */
    expect(shop, "POST /%2541%25u", RULE_NONE, NULL);
    expect(shop, "POST /%2541%c1%25", RULE_NONE, NULL);
    expect(shop, "POST /x%c0%80%e0%80", RULE_NONE, NULL);
}

static const char *const wide[] = {"POST /refunds/{id}/**", "POST,PUT /files/**", "DELETE /**",
                                   "* /**", NULL};

/* found: B-F2, C-H1 */
static void lists_and_rests_are_matched(void **state)
{
    (void)state;
    expect(wide, "POST /refunds/7", RULE_FOUND, "POST /refunds/{id}/**");
    expect(wide, "POST /refunds/7/", RULE_FOUND, "POST /refunds/{id}/**");
    expect(wide, "POST /refunds/7/a/b/c", RULE_FOUND, "POST /refunds/{id}/**");
    expect(wide, "POST /refunds", RULE_FOUND, "* /**");
    expect(wide, "POST /files", RULE_FOUND, "POST,PUT /files/**");
    expect(wide, "PUT /files/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18", RULE_FOUND,
           "POST,PUT /files/**");
    expect(wide, "PATCH /files/a", RULE_FOUND, "* /**");
    expect(wide, "DELETE /", RULE_FOUND, "DELETE /**");
    expect(wide, "PROPPATCH /files", RULE_FOUND, "* /**");
    expect(wide, "proppatch /", RULE_FOUND, "* /**");
    expect(wide, "GET /files/a", RULE_NONE, NULL);
    expect(wide, "HEAD /", RULE_NONE, NULL);
    expect(wide, "OPTIONS /", RULE_NONE, NULL);
    expect(wide, "CONNECT /", RULE_METHOD_REFUSED, NULL);
    expect(wide, "TRACE /files", RULE_METHOD_REFUSED, NULL);
}

static void key_by_path(struct rule_set *set)
{
    struct slice problem;
    assert_true(template_compile(SLICE("{path:id}"), TEMPLATE_FOR_KEY, &set->arena,
                                 &set->rules[0].key, &problem));
}

/* found: E-W2 */
static void an_ambiguous_path_whose_readings_all_meet_one_rule_passes_unless_it_is_a_source(
    void **state)
{
    static const char *const rules[] = {"POST /files/{id}/**", NULL};
    static const char *const requests[] = {"/files/a%2Fb/c", "/files/a/b%2F%2Fc", "/files/a//b",
                                           "/files/a/x%5Cy"};
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rule_set *set = make_set(rules);
    struct rule_found found;
    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        assert_int_equal(find(set, "POST", requests[i], &arena, &found), RULE_FOUND);
    assert_true(slice_eq(found.path, SLICE("/files/a/x%5Cy")));
    assert_int_equal(find(set, "POST", "/files/a/../../b", &arena, &found), RULE_PATH_AMBIGUOUS);
    assert_int_equal(find(set, "POST", "/files%2Fa", &arena, &found), RULE_PATH_AMBIGUOUS);
    struct template once;
    struct slice problem;
    assert_true(
        template_compile(SLICE("{path:id}"), TEMPLATE_FOR_KEY, &set->arena, &once, &problem));
    set->rules[0].once.key = once;
    assert_int_equal(find(set, "POST", requests[0], &arena, &found), RULE_PATH_AMBIGUOUS);
    set->rules[0].once.key = (struct template){0};
    key_by_path(set);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        assert_int_equal(find(set, "POST", requests[i], &arena, &found), RULE_PATH_AMBIGUOUS);
    assert_int_equal(find(set, "POST", "/files/a/b", &arena, &found), RULE_FOUND);
    rule_set_unref(set);
}

/* found: A-L18 */
static void a_header_that_looks_like_one_the_rule_judges_by_is_seen(void **state)
{
    static const char *const rules[] = {"POST /x", NULL};
    static const char *const named[] = {"X_Merchant_Id", "x-merchant_id", "Idem_Key",
                                        "If_Match",      "X_Who",         "X_Op",
                                        "X_HTTP_Method", "Order_Ref"};
    struct rule_set *set = make_set(rules);
    struct rule *rule = &set->rules[0];
    struct slice problem;
    (void)state;
    rule->headers[rule->n_headers++] = SLICE("If-Match");
    rule->headers[rule->n_headers++] = SLICE("a_b");
    assert_true(template_compile(SLICE("{header:X-Merchant-Id}"), TEMPLATE_FOR_TENANT, &set->arena,
                                 &rule->tenant, &problem));
    assert_true(template_compile(SLICE("{header:Idem-Key}"), TEMPLATE_FOR_KEY, &set->arena,
                                 &rule->key, &problem));
    assert_true(template_compile(SLICE("/a/{header:X-Who}"), TEMPLATE_FOR_PROBE, &set->arena,
                                 &rule->authorize, &problem));
    assert_true(template_compile(SLICE("/a/{header:X-Op}"), TEMPLATE_FOR_PROBE, &set->arena,
                                 &rule->probe, &problem));
    assert_true(template_compile(SLICE("{header:Order-Ref}"), TEMPLATE_FOR_KEY, &set->arena,
                                 &rule->once.key, &problem));
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        struct headers headers = {0};
        headers_add(&headers, SLICE("X-Merchant-Id"), SLICE("m"));
        headers_add(&headers, SLICE("X_Other"), SLICE("m"));
        headers_add(&headers, SLICE("a_b"), SLICE("m"));
        assert_null(rule_look_alike(rule, &headers));
        headers_add(&headers, slice_of(named[i]), SLICE("m"));
        assert_ptr_equal(rule_look_alike(rule, &headers), &headers.at[3]);
    }
    rule_set_unref(set);
}

/* found: A-M11 */
static void a_thousand_rules_and_a_path_of_many_readings_are_bounded(void **state)
{
    enum { N = 1000 };
    static char texts[N][64];
    static const char *rules[N + 1];
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct rule_found found;
    char path[1200] = "/";
    (void)state;
    for (size_t i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "POST /api/v1/thing%zu/{id}", i);
        rules[i] = texts[i];
    }
    struct rule_set *set = make_set(rules);
    assert_int_equal(find(set, "POST", "/api/v1/thing999/7", &arena, &found), RULE_FOUND);
    assert_true(slice_eq(found.rule->name, SLICE("POST /api/v1/thing999/{id}")));
    assert_int_equal(find(set, "POST", "/api/v1/thing1000/7", &arena, &found), RULE_NONE);
    assert_int_equal(find(set, "POST", "/x;/..%2f\\%00%20%252f./thing", &arena, &found), RULE_NONE);
    memset(path + 1, 'a', sizeof(path) - 2);
    memcpy(path + 1, "x;/..%2f\\%00%20%252f./thing", 26);
    assert_int_equal(find(set, "POST", path, &arena, &found), RULE_PATH_AMBIGUOUS);
    assert_int_equal(find(set, "PUT", path, &arena, &found), RULE_NONE);
    rule_set_unref(set);
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

static const char *const apart[] = {"POST /x", "DELETE /x", NULL};
static const char *const together[] = {"POST,PUT /x", "* /y", NULL};

/* found: A-H3, A-L21 */
static void an_override_that_names_a_method_of_another_rule_is_refused(void **state)
{
    static const struct override_row rows[] = {
        {"POST", "X-HTTP-Method-Override", "DELETE", RULE_METHOD_AMBIGUOUS, NULL, NULL},
        {"DELETE", "x-http-method", "patch", RULE_METHOD_AMBIGUOUS, NULL, NULL},
        {"DELETE", "X-HTTP-Method-Override", "PATCH, DELETE", RULE_METHOD_AMBIGUOUS, NULL, NULL},
        {"GET", "X-Method-Override", "POST", RULE_METHOD_AMBIGUOUS, NULL, NULL},
        {"POST", "X_Method_Override", "GET", RULE_METHOD_AMBIGUOUS, NULL, NULL},
        {"POST", "X-HTTP-Method-Override", "NONSENSE", RULE_METHOD_AMBIGUOUS, NULL, NULL},
        {"PROPPATCH", "X-HTTP-Method-Override", "POST", RULE_METHOD_AMBIGUOUS, NULL, NULL},
        {"PUT", "X-HTTP-Method-Override", "PATCH", RULE_NONE, NULL, NULL},
        {"GET", "X-Method-Override", "HEAD", RULE_NONE, NULL, NULL},
        {"POST", "X-HTTP-Method-Override", "TRACE", RULE_METHOD_REFUSED, NULL, NULL},
        {"POST", "X-HTTP-Method-Override", "POST, CONNECT", RULE_METHOD_REFUSED, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_override(apart, &rows[i]);
}

/* found: A-H3 */
static void the_sent_method_counts_beside_an_override_that_meets_the_same_rule(void **state)
{
    static const struct override_row rows[] = {
        {"POST", "X-HTTP-Method-Override", "PUT", RULE_FOUND, "POST,PUT /x", "POST,PUT"},
        {"PUT", "X-HTTP-Method-Override", "post", RULE_FOUND, "POST,PUT /x", "PUT,post"},
        {"POST", "X-HTTP-Method-Override", "POST", RULE_FOUND, "POST,PUT /x", "POST,POST"},
        {"POST", "X-HTTP-Method-Override", "", RULE_FOUND, "POST,PUT /x", "POST,"},
        {"POST", "X-HTTP-Method-Override", "PATCH", RULE_METHOD_AMBIGUOUS, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_override(together, &rows[i]);
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
    headers_add(&headers, SLICE("X-HTTP-Method"), SLICE("POST"));
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
    if (!rule_set_index(set))
        return false;
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
        cmocka_unit_test(a_spelling_that_some_servers_clean_does_not_lead_round_a_rule),
        cmocka_unit_test(lists_and_rests_are_matched),
        cmocka_unit_test(
            an_ambiguous_path_whose_readings_all_meet_one_rule_passes_unless_it_is_a_source),
        cmocka_unit_test(a_header_that_looks_like_one_the_rule_judges_by_is_seen),
        cmocka_unit_test(a_thousand_rules_and_a_path_of_many_readings_are_bounded),
        cmocka_unit_test(an_override_that_names_a_method_of_another_rule_is_refused),
        cmocka_unit_test(the_sent_method_counts_beside_an_override_that_meets_the_same_rule),
        cmocka_unit_test(a_request_is_safe_only_when_every_reading_is),
        cmocka_unit_test(a_set_lives_as_long_as_somebody_holds_it),
#ifdef PAWL_HOOKS
        cmocka_unit_test(every_allocation_may_fail),
#endif
        cmocka_unit_test(an_arena_of_any_size_is_enough_or_said_to_be_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
