/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/restored.h"

#include "operator/terms_act.h"

static struct slice restored_word(const struct terms *terms)
{
    return terms->went_back_at  ? SLICE("went back")
           : terms->restored_at ? SLICE("restored")
                                : SLICE("open");
}

static bool want_mark(const void *argument, int64_t now, struct terms_change *change)
{
    const struct restored_mark *mark = argument;
    if (mark->since == 0 && change->expected.went_back_at != 0)
        return false;
    change->wanted.restored_since = mark->since;
    change->wanted.restored_at = mark->since ? now : 0;
    change->wanted.restored_until = mark->until;
    if (mark->since)
        change->wanted.went_back_at = 0;
    change->above = mark->above;
    return true;
}

enum store_status restored_set(struct store *store, const struct store_actor *actor,
                               const struct restored_mark *mark, struct parker *parker,
                               bool *ret_changed)
{
    const struct terms_act act = {mark->since ? "restored" : "clear", actor, restored_word,
                                  want_mark, mark};
    return terms_act(store, &act, parker, ret_changed);
}
