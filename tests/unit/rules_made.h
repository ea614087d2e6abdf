/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of a test, made from their `match`. Include it behind cmocka.h. */
#ifndef PAWL_TESTS_UNIT_RULES_MADE_H
#define PAWL_TESTS_UNIT_RULES_MADE_H

#include "core/request/rule.h"

#define ARENA_MAX (1024 * 1024)
#define SET_MAX (32 * ARENA_MAX)

/* ---- rules under test ---- */

/* The rules of a config, first to last, named by their `match`. */
static inline struct rule_set *make_set(const char *const *matches)
{
    struct rule_set *set = rule_set_new(SET_MAX);
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
    assert_true(rule_set_index(set));
    return set;
}

#endif
