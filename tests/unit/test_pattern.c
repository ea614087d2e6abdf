/* SPDX-License-Identifier: Apache-2.0 */
/* core/request/pattern.c, beside what glibc's regexec says of the same patterns and texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "core/request/pattern.h"

#define COMPILED_MAX ((size_t)1024 * 1024)
#define TEXTS 40

/* ---- made-up patterns ---- */

static uint64_t seed;

static unsigned draw(unsigned below)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (unsigned)(seed >> 33) % below;
}

struct text {
    char at[1024];
    size_t len;
};

static void add(struct text *text, const char *more)
{
    size_t n = strlen(more);
    assert_true(text->len + n < sizeof(text->at));
    memcpy(text->at + text->len, more, n + 1);
    text->len += n;
}

static void add_atom(struct text *text)
{
    static const char *const atoms[] = {
        "a",
        "b",
        "c",
        "-",
        "0",
        ".",
        "[ab]",
        "[^a]",
        "[a-c0]",
        "[]a]",
        "[^]b]",
        "[a-]",
        "[[:digit:]]",
        "[[:alpha:]-]",
        "[^[:alnum:]]",
        "[[.a.]-c]",
        "[[=b=]]",
        "\\.",
        "\\{",
        "[[:punct:]]",
        "[+--]",
        "[[:upper:][:space:]]",
    };
    add(text, atoms[draw(sizeof(atoms) / sizeof(atoms[0]))]);
}

static bool add_quantifier(struct text *text)
{
    static const char *const quantifiers[] = {"*",    "+",     "?",     "{0}",  "{2}",
                                              "{1,}", "{0,2}", "{2,4}", "{0,}", "{0,0}"};
    if (draw(3) > 0)
        return false;
    add(text, quantifiers[draw(sizeof(quantifiers) / sizeof(quantifiers[0]))]);
    return true;
}

/* True: it holds a quantifier. */
static bool add_choice(struct text *text, unsigned depth)
{
    bool repeats = false;
    for (unsigned branch = 0, n = 1 + draw(depth > 0 ? 2 : 3); branch < n; branch++) {
        if (branch > 0)
            add(text, "|");
        for (unsigned i = draw(4); i > 0 && text->len < 180; i--) {
            bool inside = false;
            if (depth < 3 && draw(4) == 0) {
                add(text, "(");
                inside = add_choice(text, depth + 1);
                add(text, ")");
            } else {
                add_atom(text);
            }
            repeats = repeats || inside || (!inside && add_quantifier(text));
        }
    }
    return repeats;
}

static void make_text(struct text *text)
{
    static const char *const pieces[] = {"a", "b", "c", "-", "0", "9",
                                         ".", "{", "]", "A", " ", "x"};
    *text = (struct text){0};
    for (unsigned i = draw(9); i > 0; i--)
        add(text, pieces[draw(sizeof(pieces) / sizeof(pieces[0]))]);
}

/* ---- both matchers ---- */

static bool compile_both(const char *pattern, struct arena *arena, const struct pattern **ret_own,
                         regex_t *ret_theirs)
{
    char whole[1200];
    struct slice problem = {NULL, 0};
    snprintf(whole, sizeof(whole), "^(%s)$", pattern);
    *ret_own = pattern_compile(slice_of(pattern), arena, &problem);
    bool theirs = regcomp(ret_theirs, whole, REG_EXTENDED | REG_NOSUB) == 0;
    if (theirs != (*ret_own != NULL))
        fail_msg("pattern <%s>: glibc %d, own %d: %.*s", pattern, theirs, *ret_own != NULL,
                 SLICE_ARG(problem));
    return theirs;
}

static void check_texts(const char *pattern, const struct pattern *own, const regex_t *theirs,
                        unsigned *matched)
{
    for (int i = 0; i < TEXTS; i++) {
        struct text text;
        make_text(&text);
        bool expected = regexec(theirs, text.at, 0, NULL, 0) == 0;
        if (pattern_matches(own, slice_make(text.at, text.len)) != expected)
            fail_msg("pattern <%s>, text <%s>: glibc says %d", pattern, text.at, expected);
        *matched += expected;
    }
}

static void what_matches_is_what_regexec_says(void **state)
{
    unsigned tried = 0, matched = 0;
    (void)state;
    for (seed = 1; tried < 4000; tried++) {
        ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
        struct text pattern = {0};
        const struct pattern *own;
        regex_t theirs;
        add_choice(&pattern, 0);
        if (pattern.len == 0 || !compile_both(pattern.at, &arena, &own, &theirs))
            continue;
        check_texts(pattern.at, own, &theirs, &matched);
        regfree(&theirs);
    }
    assert_true(matched > 10000 && matched < tried * TEXTS / 2);
}

static void brackets_mean_what_posix_says(void **state)
{
    static const char *const patterns[] = {
        "[a-c-e]",   "[--0]", "[a\\]", "[\\.]",        "[[:digit:]-z]", "[a-[:digit:]]",
        "[z-a]",     "[]-a]", "[^-a]", "[a^]",         "[[:nope:]]",    "[[.ab.]]",
        "[[=a=]-c]", "[.]",   "[a-a]", "[[:cntrl:]a]", "[[:xdigit:]]",  "[[:blank:][:graph:]]",
        "[!-~]",     "[ -]+", "[*-]",  "[[]",          "[[a]",          "x[^[:print:]]?",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
        const struct pattern *own;
        regex_t theirs;
        if (!compile_both(patterns[i], &arena, &own, &theirs))
            continue;
        for (int c = 1; c < 256; c++) {
            char text[] = {(char)c, '\0'};
            if (pattern_matches(own, slice_make(text, 1)) !=
                (regexec(&theirs, text, 0, NULL, 0) == 0))
                fail_msg("pattern <%s>, byte %d", patterns[i], c);
        }
        regfree(&theirs);
    }
}

static void anchors_count_at_both_ends_and_are_refused_elsewhere(void **state)
{
    static const char *const taken[] = {"^[a-c]+$", "^a|^b$", "(^a|b$)", "^^a$$", "(^a)b", "a(b$)"};
    static const char *const refused[] = {"a^b",   "a$b", "(a$)b",  "a(^b)",
                                          "(^a)*", "a*^", "(a$){2}"};
    (void)state;
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
        unsigned matched = 0;
        const struct pattern *own;
        regex_t theirs;
        assert_true(compile_both(taken[i], &arena, &own, &theirs));
        check_texts(taken[i], own, &theirs, &matched);
        regfree(&theirs);
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
        struct slice problem = {NULL, 0};
        if (pattern_compile(slice_of(refused[i]), &arena, &problem) || problem.len == 0)
            fail_msg("pattern <%s> was taken", refused[i]);
    }
}

/* found: L6 */
static void what_other_expressions_mean_otherwise_is_refused_with_what_to_write(void **state)
{
    static const char *const rows[][2] = {
        {"[a-zA-Z0-9\\-_]+", "- at the end, [a-z-], for \\-"},
        {"^[^\\s]{1,40}$", "[:space:] for \\s"},
        {"^[\\w-]{1,64}$", "A-Za-z0-9_ for \\w"},
        {"[\\d]+", "0-9 for \\d"},
        {"^[\\x21-\\x7E]+$", "the character itself for \\x41"},
        {"[A-\\d]", "is itself"},
        {"^(?!\\s)(.*)(\\S)$", "'(?' is not taken"},
        {"(?:abc)+", "write (abc) for (?:abc)"},
        {"\\d+", "[0-9] for \\d"},
        {"\\w", "[A-Za-z0-9_] for \\w"},
        {"a\\s", "[[:space:]] for \\s"},
        {"\\x41", "itself for \\x41"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
        struct slice problem = {NULL, 0};
        if (pattern_compile(slice_of(rows[i][0]), &arena, &problem))
            fail_msg("pattern <%s> was taken", rows[i][0]);
        if (!strstr(problem.at, rows[i][1]))
            fail_msg("pattern <%s>: %s", rows[i][0], problem.at);
    }
}

/* ---- bounds ---- */

static void a_class_that_is_not_closed_is_refused(void **state)
{
    static const char *const refused[] = {"[[:digit]]+", "[[:digit]+", "[a[:]", "[[.a]]", "[[=a]"};
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
        struct slice problem = {NULL, 0};
        if (pattern_compile(slice_of(refused[i]), &arena, &problem) || problem.len == 0)
            fail_msg("pattern <%s> was taken", refused[i]);
    }
}

static void a_pattern_that_bounds_make_longer_than_1024_positions_is_refused(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
    struct slice problem = {NULL, 0};
    (void)state;
    assert_non_null(pattern_compile(SLICE("(abcd){255}abcd"), &arena, &problem));
    assert_null(pattern_compile(SLICE("(abcd){255}abcde"), &arena, &problem));
    assert_true(slice_find(problem, '1') >= 0);
}

static void a_text_over_255_bytes_never_matches(void **state)
{
    ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
    struct slice problem;
    char text[256];
    (void)state;
    memset(text, 'a', sizeof(text));
    const struct pattern *own = pattern_compile(SLICE("a*"), &arena, &problem);
    assert_true(pattern_matches(own, slice_make(text, 255)));
    assert_false(pattern_matches(own, slice_make(text, 256)));
}

/* found: A-H4 */
static void hostile_keys_cost_no_memory_and_bounded_time(void **state)
{
    static const char *const patterns[] = {"[a-z0-9-]+[0-9][a-z0-9-]{24}", "[01]*1[01]{16}",
                                           ".*[0-9].{255}"};
    static const char alphabet[] = "01";
    (void)state;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        ARENA_AUTO struct arena arena = arena_make(COMPILED_MAX);
        struct slice problem;
        const struct pattern *own = pattern_compile(slice_of(patterns[i]), &arena, &problem);
        assert_non_null(own);
        size_t before = mallinfo2().uordblks;
        for (int n = 0; n < 3000; n++) {
            char text[255];
            for (size_t at = 0; at < sizeof(text); at++)
                text[at] = alphabet[draw(2)];
            pattern_matches(own, slice_make(text, sizeof(text)));
        }
        assert_int_equal(mallinfo2().uordblks, before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_matches_is_what_regexec_says),
        cmocka_unit_test(brackets_mean_what_posix_says),
        cmocka_unit_test(anchors_count_at_both_ends_and_are_refused_elsewhere),
        cmocka_unit_test(what_other_expressions_mean_otherwise_is_refused_with_what_to_write),
        cmocka_unit_test(a_class_that_is_not_closed_is_refused),
        cmocka_unit_test(a_pattern_that_bounds_make_longer_than_1024_positions_is_refused),
        cmocka_unit_test(a_text_over_255_bytes_never_matches),
        cmocka_unit_test(hostile_keys_cost_no_memory_and_bounded_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
