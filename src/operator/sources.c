/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/sources.h"

#include "webhook/endpoints/census.h"
#include "webhook/handler.h"

#define TIMEOUT_US (10 * CLOCK_US_PER_S) /* for one operation of the store */
#define TRIES_MOST 100                   /* somebody else was first each time */

static enum sources_end judge_source(const struct census_entry *entry)
{
    return !entry                                     ? SOURCES_NOT_FOUND
           : entry->n_living > 0                      ? SOURCES_SERVED
           : entry->row.state == STORE_ROSTER_REMOVED ? SOURCES_ALREADY
                                                      : SOURCES_REMOVED;
}

static enum store_status try_remove(struct store *store, struct parker *parker, struct slice name,
                                    const struct store_actor *actor, enum sources_end *ret_end)
{
    CENSUS_AUTO struct census census = census_make();
    struct table_change changes[2 + STORE_AUDIT_CHANGES];
    enum store_status status = census_read(&census, store, parker);
    if (status != STORE_DONE)
        return status;
    struct census_entry *entry = census_find(&census, SLICE(INBOX_KIND), name);
    *ret_end = judge_source(entry);
    if (*ret_end != SOURCES_REMOVED)
        return STORE_DONE;
    struct store_task_audit audit = {.at = census.now,
                                     .actor = actor->name,
                                     .act = SLICE("remove"),
                                     .kind = SLICE(INBOX_KIND),
                                     .lane = name,
                                     .force = actor->force};
    changes[0] = census_remove(entry, census.now);
    changes[1] = census_moved(&census);
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = 2};
    op.n_brings += store_audit_add(&audit, actor, &changes[2]);
    return store_run(store, &op, parker, clock_after(clock_boot_us(), TIMEOUT_US));
}

enum store_status sources_remove(struct store *store, struct parker *parker, struct slice name,
                                 const struct store_actor *actor, enum sources_end *ret_end)
{
    enum store_status status = STORE_CONFLICT;
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++)
        status = try_remove(store, parker, name, actor, ret_end);
    return status;
}
