/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identities: the rules of a config beside what the store says that their records are named by
 * (store/tables/identity.h). One identity of a rule at a time, in all processes on the store:
 *
 *  - Start, reload: identities_adopt writes what is new, changes what no record is left of, or
 * what its rule accepts (`moved:`), and refuses any other change.
 *  - A begin carries set->epoch: ENGINE_MOVED where the store has another one by then.
 *  - ENGINE_MOVED: identities_learn finds out of which rules the store has another identity now.
 *    They begin nothing; the others are begun again under the new epoch.
 *
 * Rules that protect nothing, and the sources of `inbox:`, have no identity.
 */
#ifndef PAWL_ENGINE_IDENTITIES_H
#define PAWL_ENGINE_IDENTITIES_H

#include "core/request/rule.h"
#include "store/store.h"

/* The store has this set's identities from now on, and set->epoch is theirs. False: `*ret_problem`
 * (mem_free; NULL: out of memory) is a line that says why; the store is as it was, but for rules
 * that were new or accepted. */
bool identities_adopt(struct store *store, struct rule_set *set, struct parker *parker,
                      char **ret_problem);

/* Whether identities_adopt would succeed; writes nothing. */
bool identities_check(struct store *store, struct rule_set *set, struct parker *parker,
                      char **ret_problem);

/* Takes over what is known of `from`, where its rules name everything as those of `set` do. False:
 * they do not, or the store has another identity of one. */
bool identities_inherit(struct rule_set *set, const struct rule_set *from);

/* Asks the store again. Sets set->moved, and then set->epoch. */
enum store_status identities_learn(struct store *store, struct rule_set *set,
                                   struct parker *parker);

/* Fills in what a begin by this rule of the set carries. False: the store has another identity of
 * the rule, and nothing may begin. Rules of other sets carry nothing. */
struct attempt;
bool identities_name(const struct rule_set *set, const struct rule *rule, struct attempt *attempt);

#endif
