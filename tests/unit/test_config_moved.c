/* SPDX-License-Identifier: Apache-2.0 */
/* What a reload takes from rules: a line for each pair of patterns, with a path of it. */
#include "config_texts.h"

#include "base/buf.h"
#include "config/moved.h"

#define TEXT_MAX ((size_t)1024 * 1024)
#define CLASS " [identity-moved]\n"
#define AGAIN ": a retry of what ran before runs again"
#define OTHER_KEYS ", which has other keys" AGAIN

#define ALL "- {name: all, match: POST /**}\n"
#define PAY "- {name: pay, match: POST /pay}\n"
#define HOOKS "- {name: all, match: POST /hooks/**}\n"
#define ITEM "- {name: item, match: 'PUT,DELETE /items/{id}'}\n"
#define COMPOSED ", key: '{header:Idempotency-Key}{path:id}'"
#define ONCE ", once: {key: '{body:/order}'}"
#define TO_PAY "POST /pay had rule 'all' and now has rule 'pay'" OTHER_KEYS

struct row {
    const char *name;
    const char *before;
    const char *after;
    const char *lines; /* without [identity-moved] at their ends */
};

static void collect(void *argument, struct slice line)
{
    struct buf *lines = argument;
    buf_add_slice(lines, line);
    buf_add_char(lines, '\n');
}

typedef void reporter(const struct config *before, const struct config *after,
                      void (*report)(void *argument, struct slice line), void *argument);

static struct config *parsed(const char *top, const char *rules)
{
    BUF_AUTO struct buf text = buf_make(TEXT_MAX);
    buf_printf(&text, "%s%srules:\n%s", HEAD, top, rules);
    buf_add_char(&text, '\0');
    assert_true(buf_ok(&text));
    return good(text.at);
}

/* What is told of a reload from one config to the other. */
static void tell(reporter *report, struct config *before, struct config *after, struct buf *lines)
{
    report(before, after, collect, lines);
    buf_add_char(lines, '\0');
    config_free(before);
    config_free(after);
}

/* Every line ends in its class. */
static void wanted(const char *text, struct buf *buf)
{
    struct slice rest = slice_of(text), line;
    while (rest.len > 0) {
        rest = slice_cut(rest, '\n', &line);
        buf_printf(buf, "%.*s%s", SLICE_ARG(line), CLASS);
    }
    buf_add_char(buf, '\0');
}

static void check(reporter *report, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        BUF_AUTO struct buf told = buf_make(TEXT_MAX), lines = buf_make(TEXT_MAX);
        tell(report, parsed("", rows[i].before), parsed("", rows[i].after), &told);
        wanted(rows[i].lines, &lines);
        if (strcmp(told.at, lines.at) != 0)
            fail_msg("%s: not\n%s but\n%s", rows[i].name, lines.at, told.at);
    }
}
#define CHECK(report, rows) check(report, rows, sizeof(rows) / sizeof(rows[0]))

/* found: R2 */
static void a_path_that_meets_other_keys_is_told(void **state)
{
    static const struct row rows[] = {
        {"in front of a catch-all", ALL, PAY ALL,
         TO_PAY " (to find it, add key_space: all to the rule)\n"},
        {"in front of it, in a space", "- {name: all, match: POST /**, key_space: money}\n",
         PAY "- {name: all, match: POST /**, key_space: money}\n",
         TO_PAY " (to find it, add key_space: money to the rule)\n"},
        {"back behind it", PAY ALL, ALL,
         "POST /pay had rule 'pay' and now has rule 'all'" OTHER_KEYS
         " (to find it, add key_space: pay to the rule)\n"},
        {"swapped", "- {name: a, match: POST /a}\n- {name: b, match: POST /b}\n",
         "- {name: b, match: POST /a}\n- {name: a, match: POST /b}\n",
         "POST /a had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add key_space: a to the rule)\n"
         "POST /b had rule 'b' and now has rule 'a'" OTHER_KEYS
         " (to find it, add key_space: b to the rule)\n"},
        {"renamed", PAY, "- {name: paid, match: POST /pay}\n",
         "POST /pay had rule 'pay' and now has rule 'paid'" OTHER_KEYS
         " (to find it, add key_space: pay to the rule)\n"},
        {"renamed, of a composed key", "- {name: a, match: 'POST /a/{id}'" COMPOSED "}\n",
         "- {name: b, match: 'POST /a/{id}'" COMPOSED "}\n",
         "POST /a/any-value had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add formerly: [a] to the rule)\n"},
        {"renamed, with once", "- {name: a, match: POST /a" ONCE "}\n",
         "- {name: b, match: POST /a" ONCE "}\n",
         "POST /a had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add formerly: [a] to the rule)\n"},
        {"a composed key in front of a catch-all", ALL,
         "- {name: a, match: 'POST /a/{id}'" COMPOSED "}\n" ALL,
         "POST /a/any-value had rule 'all' and now has rule 'a'" OTHER_KEYS "\n"},
        {"another order",
         "- {name: a, match: 'POST /{x}/end'}\n- {name: b, match: 'POST /b/{y}'}\n",
         "- {name: b, match: 'POST /b/{y}'}\n- {name: a, match: 'POST /{x}/end'}\n",
         "POST /b/end had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add key_space: a to the rule)\n"},
        {"only some methods", ITEM, "- {name: gone, match: 'DELETE /items/{key}'}\n" ITEM,
         "DELETE /items/any-value had rule 'item' and now has rule 'gone'" OTHER_KEYS
         " (to find it, add key_space: item to the rule)\n"},
        {"of every method", "- {name: all, match: '* /**'}\n",
         "- {name: most, match: 'POST,PUT,PATCH,DELETE /**'}\n"
         "- {name: other, match: '* /**'}\n",
         "POST / had rule 'all' and now has rule 'most'" OTHER_KEYS
         " (to find it, add key_space: all to the rule)\n"
         "REPORT / had rule 'all' and now has rule 'other'" OTHER_KEYS
         " (to find it, add key_space: all to the rule)\n"},
        {"beside a path of the same length",
         "- {name: one, match: 'POST /a/{x}'}\n- {name: a, match: POST /a/**}\n",
         "- {name: one, match: 'POST /a/{x}'}\n- {name: b, match: POST /a/**}\n",
         "POST /a had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add key_space: a to the rule)\n"},
        {"only longer paths", "- {name: one, match: POST /a}\n- {name: a, match: POST /a/**}\n",
         "- {name: one, match: POST /a}\n- {name: b, match: POST /a/**}\n",
         "POST /a/any-value had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add key_space: a to the rule)\n"},
    };
    (void)state;
    CHECK(moved_report_paths, rows);
}

static void a_path_that_nothing_protects_any_more_is_told(void **state)
{
#define NONE " and now has none that protects it" AGAIN "\n"
    static const struct row rows[] = {
        {"taken away", PAY ITEM, PAY, "PUT /items/any-value had rule 'item'" NONE},
        {"not protected", PAY, "- {name: pay, match: POST /pay, protect: false}\n",
         "POST /pay had rule 'pay'" NONE},
        {"an exception", ALL, "- {name: open, match: POST /open, protect: false}\n" ALL,
         "POST /open had rule 'all'" NONE},
        {"a narrower match", "- {name: a, match: 'POST /a/**'}\n",
         "- {name: a, match: 'POST /a/{x}'}\n", "POST /a had rule 'a'" NONE},
        {"a method less", ITEM, "- {name: item, match: 'PUT /items/{id}'}\n",
         "DELETE /items/any-value had rule 'item'" NONE},
        {"a value that a rule has", "- {name: a, match: 'POST /{x}'}\n",
         "- {name: a, match: POST /any-value}\n", "POST /any-value- had rule 'a'" NONE},
        {"a verb of a catch-all", "- {name: a, match: 'POST /o/{x}'}\n",
         "- {name: b, match: 'POST /o/{x}:cancel'}\n- {name: a, match: 'POST /o/{x}'}\n",
         "POST /o/-any-value-:cancel had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add key_space: a to the rule)\n"},
        {"two literals beside parameters", "- {name: a, match: 'POST /v{x}'}\n",
         "- {name: b, match: 'POST /{x}:end'}\n- {name: a, match: 'POST /v{x}'}\n",
         "POST /v-any-value-:end had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add key_space: a to the rule)\n"},
        {"a literal that one beside a parameter begins like",
         "- {name: c, match: 'POST /va{y}'}\n- {name: a, match: 'POST /v{x}'}\n",
         "- {name: c, match: 'POST /va{y}'}\n", "POST /v-any-value- had rule 'a'" NONE},
        {"a path of a verb", "- {name: a, match: 'POST /{x}:end'}\n",
         "- {name: b, match: 'POST /7:end'}\n- {name: a, match: 'POST /{x}:end'}\n",
         "POST /7:end had rule 'a' and now has rule 'b'" OTHER_KEYS
         " (to find it, add key_space: a to the rule)\n"},
        {"longer than all others",
         "- {name: a, match: 'POST /{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/**'}\n",
         "- {name: a, match: 'POST /{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}'}\n"
         "- {name: b, match: 'POST /{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}', key_space: a}\n",
         "POST /any-value/any-value/any-value/any-value/any-value/any-value/any-value/any-value/"
         "any-value/any-value had rule 'a'" NONE},
    };
    (void)state;
    CHECK(moved_report_paths, rows);
}

static void what_finds_its_records_or_meets_what_it_met_is_not_told(void **state)
{
    static const struct row rows[] = {
        {"the same", PAY ITEM ALL, PAY ITEM ALL, ""},
        {"one more", PAY, PAY ITEM, ""},
        {"an unprotected one", "- {name: a, match: POST /a, protect: false}\n", PAY, ""},
        {"in the space of the catch-all", ALL,
         "- {name: pay, match: POST /pay, key_space: all}\n" ALL, ""},
        {"renamed in a space", "- {name: a, match: POST /a, key_space: money}\n",
         "- {name: b, match: POST /a, key_space: money}\n", ""},
        {"renamed", PAY, "- {name: paid, match: POST /pay, formerly: [pay]}\n", ""},
        {"behind the catch-all's exception", PAY ALL, PAY ITEM ALL, ""},
        {"the order of what shares no path", PAY ITEM, ITEM PAY, ""},
        {"names of parameters", ITEM, "- {name: item, match: 'PUT,DELETE /items/{key}'}\n", ""},
        {"verbs that share no path", "- {name: a, match: 'POST /{x}:end'}\n",
         "- {name: b, match: 'POST /{x}:begin'}\n- {name: a, match: 'POST /{x}:end'}\n", ""},
        {"a wider match", PAY, "- {name: pay, match: 'POST,PUT /pay/**'}\n", ""},
        {"a rule that was never met there",
         "- {name: a, match: 'POST /{x}'}\n- {name: b, match: 'POST,PUT /b'}\n",
         "- {name: a, match: 'POST /{x}'}\n- {name: b, match: 'PUT /b'}\n", ""},
    };
    (void)state;
    CHECK(moved_report_paths, rows);
}

static void a_source_of_events_takes_a_path_from_a_rule(void **state)
{
    static const char source[] =
        "inbox: [{name: hooks, match: POST /hooks, verify: {scheme: stripe, secret: "
        "whsec_0123456789012345678901234567890}, handler: POST /handle}]\n";
    BUF_AUTO struct buf told = buf_make(TEXT_MAX);
    (void)state;
    tell(moved_report_paths, parsed("", HOOKS), parsed(source, HOOKS), &told);
    assert_string_equal(
        told.at, "POST /hooks had rule 'all' and now has source 'hooks' of inbox" AGAIN CLASS);
}

static void many_rules(const char *name, size_t n, struct buf *rules)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(rules, "- {name: %s%zu, match: POST /%zu}\n", name, i, i);
    buf_add_char(rules, '\0');
}

static size_t lines_of(const struct buf *told)
{
    size_t n = 0;
    for (size_t i = 0; i < told->len; i++)
        n += told->at[i] == '\n';
    return n;
}

static void of_many_lines_the_last_says_that_there_are_more(void **state)
{
    static const size_t cases[][2] = {{31, 31}, {32, 32}, {40, 32}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        BUF_AUTO struct buf one = buf_make(TEXT_MAX), other = buf_make(TEXT_MAX);
        BUF_AUTO struct buf told = buf_make(TEXT_MAX);
        many_rules("a", cases[i][0], &one);
        many_rules("b", cases[i][0], &other);
        tell(moved_report_paths, parsed("", one.at), parsed("", other.at), &told);
        assert_int_equal(lines_of(&told), cases[i][1]);
        bool is_cut = strstr(told.at, "\nthere are more such lines than are shown here" CLASS);
        assert_int_equal(is_cut, cases[i][0] > 31);
    }
}

static void what_is_allowed_is_not_told(void **state)
{
    static const char allowed[] = "allow: [identity-moved]\n";
    BUF_AUTO struct buf told = buf_make(TEXT_MAX);
    (void)state;
    tell(moved_report_paths, parsed("", ALL), parsed(allowed, PAY ALL), &told);
    assert_string_equal(told.at, "");
    buf_clear(&told);
    tell(moved_report_paths, parsed(allowed, ALL), parsed("", PAY ALL), &told);
    assert_holds(told.at, TO_PAY);
}

static void another_comparison_of_targets_is_told(void **state)
{
#define COMPARES(more) "- {name: pay, match: POST /pay" more "}\n"
#define REFUSED " now: a retry across the reload may be refused as another request\n"
    static const struct row rows[] = {
        {"the same", COMPARES(", query: [a, b], headers: [X-A, X-B]"),
         COMPARES(", query: [b, a], headers: [X-A, X-B]"), ""},
        {"query", COMPARES(""), COMPARES(", query: none"),
         "rule 'pay' compares other query parameters" REFUSED},
        {"names of the query", COMPARES(", query: [a]"), COMPARES(", query: [a, b]"),
         "rule 'pay' compares other query parameters" REFUSED},
        {"headers", COMPARES(", headers: [X-A]"), COMPARES(""),
         "rule 'pay' compares other headers" REFUSED},
        {"the order of headers", COMPARES(", headers: [X-A, X-B]"),
         COMPARES(", headers: [X-B, X-A]"), "rule 'pay' compares other headers" REFUSED},
        {"both, renamed", COMPARES(""),
         "- {name: b, formerly: [pay], match: POST /b, query: none, headers: [X-A]}\n",
         "rule 'b' compares other query parameters and headers" REFUSED},
        {"gone", COMPARES(", query: none"), ITEM, ""},
        {"not protected", COMPARES(""), COMPARES(", query: none, protect: false"), ""},
    };
    (void)state;
    CHECK(moved_report_targets, rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_that_meets_other_keys_is_told),
        cmocka_unit_test(a_path_that_nothing_protects_any_more_is_told),
        cmocka_unit_test(what_finds_its_records_or_meets_what_it_met_is_not_told),
        cmocka_unit_test(a_source_of_events_takes_a_path_from_a_rule),
        cmocka_unit_test(of_many_lines_the_last_says_that_there_are_more),
        cmocka_unit_test(what_is_allowed_is_not_told),
        cmocka_unit_test(another_comparison_of_targets_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
