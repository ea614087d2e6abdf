/* SPDX-License-Identifier: Apache-2.0 */
#include "store/op.h"

#include "base/check.h"
#include "base/mem.h"

struct digest store_once_hash(const struct digest_key *key, struct slice tenant, struct slice rule,
                              struct slice text)
{
    /* A fourth part: no key has this hash. */
    const struct slice parts[] = {SLICE("once"), tenant, rule, text};
    return digest_keyed(key, parts, 4);
}

void store_result_fini(struct store_result *result, const struct store_room *room)
{
    CHECK(!result->holds || (result->found && room->held));
    if (result->holds)
        outcome_drop(result->found, room->held);
    result->holds = false;
    outcome_unref(result->found);
    mem_free(result->found_recipe);
    mem_free(result->found_key);
    mem_free(result->found_origin);
    result->found = NULL;
    result->found_recipe = result->found_key = result->found_origin = NULL;
}

enum store_status store_closed_by(const struct store_result *result)
{
    bool closed = result->status == STORE_FROZEN || result->status == STORE_WENT_BACK;
    return closed ? result->status : STORE_DONE;
}
