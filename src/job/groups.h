/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups: items of one group are run one after the other, in their order. A group is known for as
 * long as one of its items is under way or waits for that. One loop's.
 */
#ifndef PAWL_JOB_GROUPS_H
#define PAWL_JOB_GROUPS_H

#include "base/slice.h"

/* The beginning of an item's own struct. */
struct groups_item {
    struct groups_item *next; /* in a list, or behind another one of its group */
    struct slice group;       /* empty: it is in none */
};

struct group;

#define GROUPS_BUCKETS ((size_t)4096)

struct groups {
    struct group *buckets[GROUPS_BUCKETS];
    size_t waiting; /* items that wait for another one of their group */
};

enum groups_result { GROUPS_MAY_RUN, GROUPS_WAITS, GROUPS_NO_MEMORY };

/* Whether an item may be run now; else it waits, behind those that came before. */
enum groups_result groups_begin(struct groups *groups, struct groups_item *item);

/* It is under way no more. The next one of its group, which may be run now; NULL: there is none. */
struct groups_item *groups_end(struct groups *groups, const struct groups_item *item);

/* Nothing is under way: takes an item that waits, of any group. NULL: none does, and nothing is
 * left of the groups. */
struct groups_item *groups_take_any(struct groups *groups);

#endif
