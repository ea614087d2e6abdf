/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rule_index: the rules of a set, found by the shape of their paths. Paths that have their
 * parameters in the same places are one shape; within a shape the literal segments name a chain, so
 * that a look-up costs a step for each shape, of which a config has few, not for each rule.
 */
#ifndef PAWL_CORE_RULE_INDEX_H
#define PAWL_CORE_RULE_INDEX_H

#include "core/request/rule.h"

/* A path, split once for all look-ups. */
struct rule_path {
    size_t n; /* segments in all; of those beyond the maximum only the number is known */
    struct slice segments[TEMPLATE_PATH_PARAMS_MAX];
    uint64_t hashes[TEMPLATE_PATH_PARAMS_MAX]; /* of the decoded segments */
    bool raw; /* literals are compared as they are spelled (rule_segment_takes) */
};

void rule_path_split(struct slice path, struct rule_path *ret_path);

/* The first rule that takes one of these methods and the path; NULL: none. */
const struct rule *rule_index_first(const struct rule_set *set, unsigned methods,
                                    const struct rule_path *path);

/* Whether any rule takes one of these methods. */
bool rule_index_has(const struct rule_set *set, unsigned methods);

#endif
