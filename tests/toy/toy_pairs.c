/* SPDX-License-Identifier: Apache-2.0 */
#include "toy_inside.h"

#include "base/check.h"

/* The change of a group that is of pairs; NULL: it is more than that. `row` is it as it is saved.
 */
static const struct backend_change *plain_change(const struct toy *toy,
                                                 const struct backend_group *group,
                                                 struct store_row *ret_row)
{
    const struct backend_change *change = group->changes;
    if (!change || change->next || !change->row || change->row->once.len > 0)
        return NULL;
    *ret_row = *change->row;
    if (record_is_final(ret_row->record.status))
        return change->before == RECORD_PENDING && !ret_row->record.provisional ? change : NULL;
    if (change->before != RECORD_ABSENT || record_is_asking(&ret_row->record))
        return NULL;
    ret_row->id += toy->shared->token;
    ret_row->record.token += toy->shared->token;
    ret_row->record.created_at = ret_row->record.started_at = toy->shared->now;
    ret_row->record.lease_until = clock_after(toy->shared->now, ret_row->record.lease_us);
    return change;
}

static void write_plain(struct toy *toy, const struct backend_save *save,
                        struct backend_group *group)
{
    struct store_row row;
    const struct backend_change *change = plain_change(toy, group, &row);
    bool may = group->begins ? terms_eq(&save->terms, &toy->shared->terms) : true;
    group->result = GROUP_CONFLICT;
    if (!change || !may)
        return;
    struct backend_change numbered = *change;
    numbered.row = &row;
    const struct kept *kept = toy_find_row(&toy->shared->rows, &toy_records, row.id);
    if (!toy_fits_load(toy, &numbered) ||
        (change->before == RECORD_ABSENT && toy_find_named(&toy->shared->rows, &row.key_hash)))
        return;
    if (kept) { /* what a finish does not assume stays */
        struct record record = row.record;
        row = kept->store;
        row.version = change->row->version;
        row.record = record;
    }
    toy_apply_change(toy, &numbered);
    group->result = GROUP_OK;
}

enum backend_status toy_pairs(struct backend *backend, struct backend_save *save,
                              struct backend_read *read)
{
    struct toy *toy = (struct toy *)backend;
    CHECK(!toy->loaded);
    struct shared *shared = toy_lock(backend);
    toy->went = false;
    save->version = toy->version = ++shared->version;
    save->at = shared->now;
    for (struct backend_group *group = save->groups; group; group = group->next)
        write_plain(toy, save, group);
    *read = (struct backend_read){shared->now, shared->boot,           shared->token + 1,
                                  TOKENS,      shared->counts.forgets, shared->terms};
    shared->token += TOKENS;
    save->changed = save->groups;
    save->counts = shared->counts;
    mutex_unlock(&shared->mutex);
    return BACKEND_OK;
}
