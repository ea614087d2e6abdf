/* SPDX-License-Identifier: Apache-2.0 */
/* Which other names lead to a row (core/once.h): its once value, by the index of keys, and keys
 * that were bound to it, by their own rows. A name leads to one row, so taking it over is setting
 * it. */
#include "base/check.h"
#include "store/sqlite/sqlite.h"

static struct digest once_hash(const struct sqlite_backend *sqlite, const struct store_row *row,
                               struct slice once)
{
    struct digest_key key = digest_key_of(slice_make(sqlite->backend.secret, DIGEST_SIZE));
    return store_once_hash(&key, row->tenant, row->rule, once);
}

/* The name leads nowhere any more, if it led to `row`. */
static void drop_name(struct sqlite_backend *sqlite, const struct digest *name, int64_t row)
{
    if (sqlite_keys_find(sqlite, name) == row)
        sqlite_keys_set(sqlite, name, 0);
}

/* ---- once values ---- */

bool sqlite_is_named(const struct sqlite_backend *sqlite, const struct store_row *row,
                     const struct digest *once)
{
    struct digest hash = once_hash(sqlite, row, row->once);
    return row->record.status != RECORD_ABSENT && digest_eq(&hash, once);
}

void sqlite_drop_once(struct sqlite_backend *sqlite, const struct store_row *row, struct slice once)
{
    struct digest hash = once_hash(sqlite, row, once);
    drop_name(sqlite, &hash, row->id);
}

/* ---- bound keys ---- */

static bool read_hash(sqlite3_stmt *s, int at, struct digest *ret_hash)
{
    bool sound = sqlite3_column_bytes(s, at) == DIGEST_SIZE;
    if (sound)
        memcpy(ret_hash->bytes, sqlite3_column_blob(s, at), DIGEST_SIZE);
    return sound;
}

static void delete_bound(struct sqlite_backend *sqlite, int64_t id)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_DELETE);
    sqlite_bind_number(&binding, id);
    sqlite_run(&binding);
}

void sqlite_bind_key(struct sqlite_backend *sqlite, const struct backend_bound *bound)
{
    int64_t before = sqlite_keys_find(sqlite, &bound->key_hash);
    if (before != 0)
        delete_bound(sqlite, before);
    sqlite_keys_set(sqlite, &bound->key_hash, bound->id);
    sqlite_insert_bound(sqlite, bound);
}

/* Takes away the first bound key that the statement finds. Whether there was one. */
static bool drop_bound(struct sqlite_backend *sqlite, enum sqlite_statement name, int64_t number)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    sqlite_bind_number(&binding, number);
    struct digest key;
    bool any = sqlite_step(&binding);
    int64_t id = any ? sqlite3_column_int64(binding.statement, 0) : 0;
    bool is_named = any && read_hash(binding.statement, 1, &key);
    sqlite3_reset(binding.statement);
    if (!any)
        return false;
    if (is_named)
        drop_name(sqlite, &key, id);
    delete_bound(sqlite, id);
    return true;
}

size_t sqlite_sweep_bound(struct sqlite_backend *sqlite, int64_t now, size_t max)
{
    size_t n = 0;
    while (n < max && drop_bound(sqlite, SQL_BOUND_DUE, now))
        n++;
    return n;
}

/* ---- both ---- */

void sqlite_unname_row(struct sqlite_backend *sqlite, const struct store_row *row)
{
    drop_name(sqlite, &row->key_hash, row->id);
    if (row->once.len > 0)
        sqlite_drop_once(sqlite, row, row->once);
    while (drop_bound(sqlite, SQL_BOUND_OF, row->id))
        continue;
}
