/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "engine/keys.h"

#define FOUND_MAX ((size_t)256 * 1024 * 1024)
#define SLICE_ROWS 20000 /* looked at while the store is held: a few milliseconds */

void keys_found_fini(struct keys_found *found)
{
    arena_fini(&found->arena);
}

void keys_found_cut(struct keys_found *found, size_t n)
{
    struct keys_row **end = &found->first;
    for (size_t i = 0; i < n && *end; i++)
        end = &(*end)->next;
    *end = NULL;
}

static struct slice keep(struct keys_found *found, struct slice text)
{
    struct slice copy = arena_copy(&found->arena, text);
    found->no_memory |= !copy.at;
    return copy;
}

static void drop_slice(struct keys_found *found)
{
    struct keys_row **end = &found->first;
    found->last = NULL;
    for (found->n = 0; *end && (*end)->store.id <= found->after; found->n++) {
        found->last = *end;
        end = &(*end)->next;
    }
    *end = NULL;
}

/* Runs on the committer's thread inside its transaction, so it only copies. */
static void add_row(void *argument, const struct store_row *row, enum record_lease lease)
{
    struct keys_found *found = argument;
    /* Ids ascend: one that does not belongs to a batch that is applied again from its start. */
    if (found->last && row->id <= found->last->store.id)
        drop_slice(found);
    struct keys_row *copy = arena_alloc(&found->arena, sizeof *copy);
    if (!copy) {
        found->no_memory = true;
        return;
    }
    *copy = (struct keys_row){.store = *row, .lease = lease};
    copy->store.tenant = keep(found, row->tenant);
    copy->store.rule = keep(found, row->rule);
    copy->store.key = keep(found, row->key);
    copy->store.recipe = keep(found, row->recipe);
    copy->store.fingerprint = keep(found, row->fingerprint);
    copy->store.origin = keep(found, row->origin);
    copy->store.once = keep(found, row->once);
    copy->store.location = keep(found, row->location);
    if (found->last)
        found->last->next = copy;
    else
        found->first = copy;
    found->last = copy;
    found->n++;
}

/* The last id of a slice that begins above `after`, which may come from outside. */
static int64_t slice_end(int64_t after)
{
    return after < INT64_MAX - SLICE_ROWS ? after + SLICE_ROWS : INT64_MAX;
}

/* The row of a record that is named in full; 0: none, or only a scan finds it, as the key of a
 * window shows more than it is looked up by. */
static int64_t row_named(struct store *store, const struct keys_wanted *wanted,
                         struct parker *parker)
{
    if (!wanted->tenant.at || !wanted->rule.at || !wanted->key.at || wanted->after != 0)
        return 0;
    struct store_op op = {.kind = STORE_LOOK,
                          .key_hash =
                              store_key_hash(store, wanted->tenant, wanted->rule, wanted->key)};
    store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_PATIENCE_US));
    outcome_unref(op.found);
    return op.status == STORE_DONE && op.record.status != RECORD_ABSENT ? op.row : 0;
}

enum store_status keys_list(struct store *store, const struct keys_wanted *wanted,
                            struct parker *parker, struct keys_found *ret_found)
{
    int64_t named = row_named(store, wanted, parker);
    struct store_list list = {.tenant = wanted->tenant,
                              .rule = wanted->rule,
                              .key = wanted->key,
                              .once = wanted->once,
                              .status = wanted->status,
                              .lapsed_only = wanted->lapsed,
                              .up_to = named > 0 ? named - 1 : wanted->after,
                              .each = add_row,
                              .argument = ret_found};
    struct store_op op = {.kind = STORE_LIST, .list = &list, .row = INT64_MAX};
    size_t scans = 0;
    *ret_found = (struct keys_found){.arena = arena_make(FOUND_MAX)};
    while (list.up_to < op.row && ret_found->n < wanted->limit &&
           (wanted->scans == 0 || scans++ < wanted->scans)) {
        list.after = ret_found->after = list.up_to;
        list.up_to = named > 0 ? named : slice_end(list.after);
        list.limit = wanted->limit - ret_found->n;
        op = (struct store_op){.kind = STORE_LIST, .list = &list};
        store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_PATIENCE_US));
        if (op.status != STORE_DONE)
            return op.status;
        if (named > 0)
            return ret_found->no_memory ? STORE_NO_MEMORY : STORE_DONE;
    }
    if (ret_found->last && ret_found->n == wanted->limit)
        ret_found->next = ret_found->last->store.id;
    else if (list.up_to < op.row)
        ret_found->next = list.up_to;
    return ret_found->no_memory ? STORE_NO_MEMORY : STORE_DONE;
}

const char *keys_status_text(enum store_status status)
{
    switch (status) {
    case STORE_DONE:
        return NULL;
    case STORE_NO_MEMORY:
        return "out of memory";
    case STORE_DEAD:
        return "the store failed; look again what it holds";
    case STORE_DOWN:
    case STORE_FULL:
    case STORE_LIMITED:
    case STORE_NO_ROOM:
    case STORE_TOO_LARGE:
    case STORE_WITHDRAWN:
        return "the store did not answer in time; nothing was changed";
    }
    UNREACHABLE();
}
