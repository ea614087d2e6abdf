/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/sources.h"

#include "webhook/endpoints/census.h"
#include "webhook/handler.h"

static enum sources_end judge_source(const struct census_entry *entry)
{
    return !entry                                     ? SOURCES_NOT_FOUND
           : entry->n_living > 0                      ? SOURCES_SERVED
           : entry->row.state == STORE_ROSTER_REMOVED ? SOURCES_ALREADY
                                                      : SOURCES_REMOVED;
}

static enum store_status try_remove(struct rows *rows, struct slice name,
                                    const struct store_actor *actor, enum sources_end *ret_end)
{
    CENSUS_AUTO struct census census = census_make();
    enum store_status status = census_read(&census, rows->store, rows->parker);
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
    census_put_removed(entry, census.now, rows);
    census_put_moved(&census, rows);
    store_audit_put(&audit, actor, rows);
    return rows_save(rows);
}

enum store_status sources_remove(struct store *store, struct parker *parker, struct slice name,
                                 const struct store_actor *actor, enum sources_end *ret_end)
{
    struct rows rows = {.store = store, .parker = parker};
    enum store_status status = STORE_CONFLICT;
    while (rows_try_again(&rows, &status))
        status = try_remove(&rows, name, actor, ret_end);
    return status;
}
