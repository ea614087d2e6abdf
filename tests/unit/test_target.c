/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "eager_path.h"

#define ARENA_MAX (1024 * 1024)

/* ---- paths ---- */

static void the_normal_form_is_as_the_contract_has_it(void **state)
{
    static const char *const rows[][2] = {
        {"/a", "/a"},
        {"/a/", "/a"},
        {"/", "/"},
        {"", "/"},
        {"/%41%7e%2D", "/A~-"},
        {"/%2f%5c%00", "/%2F%5C%00"},
        {"/a//", "/a/"},
        {"/%zz", "/%25zz"},
        {"/%", "/%25"},
        {"/%4", "/%254"},
        {"/%%34%31", "/%2541"},
        {"/%2541", "/%2541"},
        {"/%c3%bC", "/%C3%BC"},
        {"/A", "/A"},
        {"*", "*"},
        {"/a;b=%3d", "/a;b=%3D"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct slice once = path_normalise(slice_of(rows[i][0]), &arena);
        if (!slice_eq(once, slice_of(rows[i][1])))
            fail_msg("%s became %.*s", rows[i][0], SLICE_ARG(once));
    }
}

static void the_eager_reading_resolves_everything(void **state)
{
    static const char *const rows[][2] = {
        {"/a/../b", "/b"},       {"/a%2F..%2fb", "/b"}, {"/a\\.\\b", "/a/b"},
        {"//a///b//", "/a/b"},   {"/a%00b/c", "/a"},    {"/../..", "/"},
        {"/a/b/..", "/a"},       {"/a/./b/.", "/a/b"},  {"/%2e%2e/x%5C", "/x"},
        {"/a/..;x/b;y=1", "/b"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
        struct slice read = path_resolve(slice_of(rows[i][0]), &arena);
        if (!slice_eq(read, slice_of(rows[i][1])))
            fail_msg("%s became %.*s", rows[i][0], SLICE_ARG(read));
    }
}

static void only_what_servers_read_in_different_ways_is_ambiguous(void **state)
{
    static const char *const clear[] = {"/",    "/a",     "/a/", "",     "/a.b", "/...", "/a%20b",
                                        "/a;b", "/%252e", "/.a", "/a..", "*",    "/%2",  "/~"};
    static const char *const unclear[] = {"//",   "/a//b",  "/.",     "/..",    "/a/./b",
                                          "/%2E", "/a%2Fb", "/a\\b",  "/a%5Cb", "/a%00",
                                          "/a//", "/.;x",   "/..%3Bx"};
    (void)state;
    for (size_t i = 0; i < sizeof(clear) / sizeof(clear[0]); i++)
        if (path_is_ambiguous(slice_of(clear[i])))
            fail_msg("%s", clear[i]);
    for (size_t i = 0; i < sizeof(unclear) / sizeof(unclear[0]); i++)
        if (!path_is_ambiguous(slice_of(unclear[i])))
            fail_msg("%s", unclear[i]);
}

/* ---- target hash ---- */

/* One request, to be changed in one place. */
struct target {
    struct rule rule;
    struct headers headers;
    struct template_facts facts;
    struct slice path;
};

static void target_init(struct target *target)
{
    *target = (struct target){.path = SLICE("/refunds")};
    target->rule.n_headers = 2;
    target->rule.headers[0] = SLICE("If-Match");
    target->rule.headers[1] = SLICE("X-Version");
    target->facts.method = SLICE("POST");
    target->facts.query = SLICE("a=1&b=2");
    target->facts.headers = &target->headers;
    headers_add(&target->headers, SLICE("Content-Type"), SLICE("application/json"));
    headers_add(&target->headers, SLICE("If-Match"), SLICE("\"v1\""));
}

static struct digest hash_of(const struct target *target)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct digest hash;
    assert_true(rule_target_hash(&target->rule, &target->facts, target->path, &arena, &hash));
    return hash;
}

static bool same(const struct target *a, const struct target *b)
{
    struct digest one = hash_of(a);
    struct digest other = hash_of(b);
    return digest_eq(&one, &other);
}

/* found: A-M6, A-M13 */
static void a_label_that_counts_is_a_component_of_its_own(void **state)
{
    static struct target base;
    static struct target other;
    (void)state;
    target_init(&base);
    headers_add(&base.headers, SLICE("Content-Encoding"), SLICE("br"));
    target_init(&other);
    headers_add(&other.headers, SLICE("Content-Encoding"), SLICE("zstd"));
    assert_true(same(&base, &other));
    base.facts.labels = other.facts.labels = PAYLOAD_LABEL_CODING;
    assert_false(same(&base, &other));
    other = base;
    other.facts.headers = &other.headers;
    other.facts.labels = 0;
    assert_false(same(&base, &other));
    other.facts.labels = PAYLOAD_LABEL_CODING | PAYLOAD_LABEL_TYPE;
    assert_true(same(&base, &other)); /* no multipart: its parameters do not count */
    base.headers.at[0].value = SLICE("Multipart/Mixed; boundary=A");
    other.headers.at[0].value = SLICE("multipart/mixed; boundary=a");
    assert_false(same(&base, &other));
    base.facts.labels = other.facts.labels = PAYLOAD_LABEL_TYPE;
    assert_false(same(&base, &other));
    other.headers.at[0].value = SLICE(" multipart/mixed; boundary=A ");
    assert_true(same(&base, &other));
}

static void the_target_hash_differs_with_each_component(void **state)
{
    static struct target base;
    static struct target other;
    (void)state;
    target_init(&base);
    target_init(&other);
    assert_true(same(&base, &other));
    other.facts.method = SLICE("PUT");
    assert_false(same(&base, &other));
    target_init(&other);
    other.path = SLICE("/refunds2");
    assert_false(same(&base, &other));
    target_init(&other);
    other.facts.query = SLICE("a=1&b=3");
    assert_false(same(&base, &other));
    target_init(&other);
    other.headers.at[0].value = SLICE("text/plain");
    assert_false(same(&base, &other));
    target_init(&other);
    other.headers.at[1].value = SLICE("\"v2\"");
    assert_false(same(&base, &other));
    target_init(&other);
    other.headers.n = 1;
    assert_false(same(&base, &other));
    target_init(&other);
    other.headers.at[1].name = SLICE("X-Version");
    assert_false(same(&base, &other));
}

static void the_media_type_counts_without_parameters_and_case(void **state)
{
    static struct target base;
    static struct target other;
    (void)state;
    target_init(&base);
    target_init(&other);
    other.headers.at[0].value = SLICE("Application/JSON ; charset=utf-8");
    assert_true(same(&base, &other));
    other.headers.at[0].value = SLICE("");
    assert_false(same(&base, &other));
}

static void parts_of_the_target_never_run_together(void **state)
{
    static struct target base;
    static struct target other;
    (void)state;
    target_init(&base);
    target_init(&other);
    base.path = SLICE("/refundsa");
    base.facts.query = SLICE("=1");
    other.path = SLICE("/refunds");
    other.facts.query = SLICE("a=1");
    assert_false(same(&base, &other));
    target_init(&base);
    target_init(&other);
    base.headers.n = 1;
    base.headers.at[0].value = SLICE("x");
    headers_add(&base.headers, SLICE("Content-Type"), SLICE("If-Match"));
    headers_add(&base.headers, SLICE("Content-Type"), SLICE("v"));
    other.headers.at[0].value = SLICE("x");
    other.headers.at[1].value = SLICE("v");
    assert_false(same(&base, &other));
}

static void an_absent_header_is_not_an_empty_or_a_repeated_one(void **state)
{
    static struct target base;
    static struct target other;
    (void)state;
    target_init(&base);
    target_init(&other);
    base.headers.n = 1;
    other.headers.at[1].value = SLICE("");
    assert_false(same(&base, &other));
    target_init(&base);
    headers_add(&other.headers, SLICE("If-Match"), SLICE(""));
    assert_false(same(&base, &other));
}

static void a_header_that_connection_names_does_not_count(void **state)
{
    static struct target base;
    static struct target other;
    (void)state;
    target_init(&base);
    target_init(&other);
    headers_add(&other.headers, SLICE("Connection"), SLICE("if-match"));
    assert_false(same(&base, &other));
    base.headers.n = 1;
    assert_true(same(&base, &other));
}

static void the_query_counts_as_the_rule_says(void **state)
{
    static struct target base;
    static struct target other;
    (void)state;
    target_init(&base);
    target_init(&other);
    base.rule.query = other.rule.query = RULE_QUERY_NAMES;
    base.rule.n_query_names = other.rule.n_query_names = 1;
    base.rule.query_names[0] = other.rule.query_names[0] = SLICE("a");
    other.facts.query = SLICE("b=3&a=1&c");
    assert_true(same(&base, &other));
    other.facts.query = SLICE("b=2&a=2");
    assert_false(same(&base, &other));
    other.facts.query = SLICE("a=1&%61=2");
    assert_false(same(&base, &other));
    other.facts.query = SLICE("a=1&a=1");
    assert_false(same(&base, &other));
    base.rule.query = other.rule.query = RULE_QUERY_NONE;
    assert_true(same(&base, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_normal_form_is_as_the_contract_has_it),
        cmocka_unit_test(the_eager_reading_resolves_everything),
        cmocka_unit_test(only_what_servers_read_in_different_ways_is_ambiguous),
        cmocka_unit_test(the_target_hash_differs_with_each_component),
        cmocka_unit_test(a_label_that_counts_is_a_component_of_its_own),
        cmocka_unit_test(the_media_type_counts_without_parameters_and_case),
        cmocka_unit_test(parts_of_the_target_never_run_together),
        cmocka_unit_test(an_absent_header_is_not_an_empty_or_a_repeated_one),
        cmocka_unit_test(a_header_that_connection_names_does_not_count),
        cmocka_unit_test(the_query_counts_as_the_rule_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
