/* SPDX-License-Identifier: Apache-2.0 */
/* The memory backend's second names (core/once.h). They are found by looking at every row. */
#include "base/check.h"
#include "base/mem.h"
#include "store/memory_table.h"

/* ---- looking ---- */

struct search {
    const struct digest *once; /* the row that this value leads to */
    int64_t id;                /* or the record of this id */
    int64_t holder;            /* or a key bound to this one, of this text (`.at` NULL: any) */
    struct slice key;
    struct row *found;
};

static enum backend_status match(void *argument, struct row *row)
{
    struct search *search = argument;
    bool bound = row->holder != 0;
    bool by_once = search->once && row->holds && digest_eq(&row->once_hash, search->once);
    bool by_id = search->id != 0 && !bound && row->store.id == search->id;
    bool text = !search->key.at || slice_eq(search->key, row->store.key);
    bool by_holder = search->holder != 0 && row->holder == search->holder && text;
    if (by_once || by_id || by_holder)
        search->found = row;
    return BACKEND_OK;
}

static struct row *find(struct table *table, struct search search)
{
    memory_each(table, match, &search);
    return search.found;
}

struct store_row memory_show(struct table *table, const struct row *row)
{
    if (row->holder == 0)
        return row->store;
    const struct row *holder = find(table, (struct search){.id = row->holder});
    CHECK(holder);
    struct store_row shown = holder->store;
    shown.bound = row->store.id;
    shown.bound_until = row->sweep_at;
    shown.bound_acknowledges = row->acknowledges;
    shown.recipe = row->store.recipe;
    shown.record.payload_hash = row->store.record.payload_hash;
    shown.record.target_hash = row->store.record.target_hash;
    return shown;
}

bool memory_is_bound(struct table *table, const struct row *row, struct slice key)
{
    return find(table, (struct search){.holder = row->store.id, .key = key});
}

enum backend_status memory_find_once(struct backend *backend, const struct digest *once,
                                     struct store_row *ret_row)
{
    struct row *row = find(table_of(backend), (struct search){.once = once});
    *ret_row = row ? row->store : (struct store_row){.record.status = RECORD_ABSENT};
    return BACKEND_OK;
}

/* ---- changing ---- */

static bool take_value(struct table *table, struct row *row)
{
    struct digest_key key = digest_key_of(slice_make(table->secret, sizeof table->secret));
    row->once_hash = store_once_hash(&key, row->store.tenant, row->store.rule, row->store.once);
    struct row *before = find(table, (struct search){.once = &row->once_hash});
    if (before && !memory_log(table, UNDO_CHANGE, before))
        return false;
    if (before)
        before->holds = false;
    row->holds = true;
    return true;
}

bool memory_name_row(struct table *table, struct row *row)
{
    struct row *before = memory_find_row(table, &row->store.key_hash);
    if (before && !memory_log(table, UNDO_CHANGE, before))
        return false;
    if (before)
        before->keyed = false;
    row->keyed = true;
    return row->store.once.len == 0 || take_value(table, row);
}

/* Behind its memory_log. */
static void replace_value(struct table *table, struct row *row, struct slice value)
{
    struct undo *undo = &table->undo[table->n_undo - 1];
    undo->replaced_once = true;
    undo->once_text = row->once;
    row->once = (char *)(uintptr_t)value.at;
    row->store.once = value;
    row->holds = false;
}

enum backend_status memory_hold(struct backend *backend, struct store_row *from,
                                const struct store_once *once)
{
    struct table *table = table_of(backend);
    struct row *row = memory_row_of(table, from);
    char *text = mem_copy(once->text.at, once->text.len);
    if (!text || !memory_log(table, UNDO_CHANGE, row)) {
        mem_free(text);
        return memory_no_memory(backend);
    }
    replace_value(table, row, slice_make(text, once->text.len));
    row->store.once_template = once->template_id;
    from->once = row->store.once;
    from->once_template = once->template_id;
    return take_value(table, row) ? BACKEND_OK : memory_no_memory(backend);
}

enum backend_status memory_bind(struct backend *backend, const struct backend_bound *bound)
{
    struct table *table = table_of(backend);
    struct store_row as_row = {.id = bound->id,
                               .key_hash = bound->key_hash,
                               .key = bound->key,
                               .recipe = bound->recipe,
                               .record = {.status = RECORD_ABSENT,
                                          .payload_hash = bound->payload_hash,
                                          .target_hash = bound->target_hash}};
    struct row *row = memory_new_row(&as_row);
    if (row) {
        row->holder = bound->holder;
        row->acknowledges = bound->acknowledges;
        row->sweep_at = bound->expires_at;
    }
    if (!row || !memory_name_row(table, row) || !memory_log(table, UNDO_INSERT, row)) {
        mem_free(row);
        return memory_no_memory(backend);
    }
    memory_grow(table);
    memory_link(table, row);
    return BACKEND_OK;
}

bool memory_unbind(struct table *table, const struct row *row)
{
    struct row *bound;
    while (row->holder == 0 && (bound = find(table, (struct search){.holder = row->store.id}))) {
        if (!memory_log(table, UNDO_REMOVE, bound))
            return false;
        memory_unlink(table, bound);
    }
    return true;
}

enum backend_status memory_lengthen(struct backend *backend, const struct store_row *from)
{
    struct table *table = table_of(backend);
    struct row *row = memory_row_of(table, from);
    if (!memory_log(table, UNDO_CHANGE, row))
        return memory_no_memory(backend);
    struct record *record = &row->store.record;
    record->kept = from->record.kept;
    record->expires_at = from->record.expires_at;
    record->gone_at = from->record.gone_at;
    int64_t body_until = record_body_until(record), row_until = record_row_until(record);
    row->sweep_at = record->kept && body_until < row_until ? body_until : row_until;
    return BACKEND_OK;
}
