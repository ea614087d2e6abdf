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
static enum backend_status drop_name(struct sqlite_backend *sqlite, const struct digest *name,
                                     int64_t row)
{
    int64_t leads_to = 0;
    enum backend_status status = sqlite_keys_find(sqlite, name, &leads_to);
    return status == BACKEND_OK && leads_to == row ? sqlite_keys_set(sqlite, name, 0) : status;
}

/* ---- once values ---- */

bool sqlite_is_named(const struct sqlite_backend *sqlite, const struct store_row *row,
                     const struct digest *once)
{
    struct digest hash = once_hash(sqlite, row, row->once);
    return row->record.status != RECORD_ABSENT && digest_eq(&hash, once);
}

enum backend_status sqlite_drop_once(struct sqlite_backend *sqlite, const struct store_row *row,
                                     struct slice once)
{
    struct digest hash = once_hash(sqlite, row, once);
    return drop_name(sqlite, &hash, row->id);
}

/* ---- bound keys ---- */

static bool read_hash(sqlite3_stmt *s, int at, struct digest *ret_hash)
{
    bool sound = sqlite3_column_bytes(s, at) == DIGEST_SIZE;
    if (sound)
        memcpy(ret_hash->bytes, sqlite3_column_blob(s, at), DIGEST_SIZE);
    return sound;
}

/* The row of the statement, in the arena; NULL: no memory, or (`*ret_sound`) it is damaged. */
static struct backend_bound *read_bound(sqlite3_stmt *s, struct arena *arena, bool *ret_sound)
{
    struct backend_bound *bound = arena_alloc(arena, sizeof *bound);
    *ret_sound = true;
    if (!bound)
        return NULL;
    *bound = (struct backend_bound){.holder = sqlite3_column_int64(s, 0),
                                    .expires_at = sqlite3_column_int64(s, 1),
                                    .acknowledges = sqlite3_column_int(s, 2)};
    *ret_sound = read_hash(s, 3, &bound->key_hash) && read_hash(s, 4, &bound->payload_hash) &&
                 read_hash(s, 5, &bound->target_hash);
    const void *recipe = sqlite3_column_blob(s, 6);
    bound->recipe =
        arena_copy(arena, slice_make(recipe ? recipe : "", (size_t)sqlite3_column_bytes(s, 6)));
    return *ret_sound && bound->recipe.at ? bound : NULL;
}

static enum backend_status find_holder(struct sqlite_backend *sqlite, int64_t id,
                                       struct arena *arena, struct backend_name *name)
{
    struct store_row *row = arena_alloc(arena, sizeof *row);
    if (!row)
        return sqlite_status(sqlite, SQLITE_NOMEM);
    name->row = row;
    enum backend_status status = sqlite_find_row(sqlite, id, arena, row);
    bool none = status == BACKEND_OK && row->record.status == RECORD_ABSENT;
    return none ? sqlite_status(sqlite, SQLITE_CORRUPT) : status;
}

enum backend_status sqlite_find_bound(struct sqlite_backend *sqlite, int64_t id,
                                      struct arena *arena, struct backend_name *name)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_FIND);
    sqlite_bind_number(&binding, id);
    int code = sqlite_step(&binding);
    bool sound = code == SQLITE_ROW;
    struct backend_bound *bound = sound ? read_bound(binding.statement, arena, &sound) : NULL;
    sqlite3_reset(binding.statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return sqlite_status(sqlite, code);
    if (!bound)
        return sqlite_status(sqlite, sound ? SQLITE_NOMEM : SQLITE_CORRUPT);
    bound->id = id;
    name->bound = bound;
    if (!digest_eq(&bound->key_hash, &name->hash))
        return sqlite_status(sqlite, SQLITE_CORRUPT);
    return find_holder(sqlite, bound->holder, arena, name);
}

static enum backend_status delete_bound(struct sqlite_backend *sqlite, int64_t id)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_DELETE);
    sqlite_bind_number(&binding, id);
    return sqlite_run_bound(sqlite, &binding);
}

enum backend_status sqlite_bind_key(struct sqlite_backend *sqlite,
                                    const struct backend_bound *bound)
{
    int64_t before = 0;
    enum backend_status status = sqlite_keys_find(sqlite, &bound->key_hash, &before);
    if (status == BACKEND_OK && before != 0)
        status = delete_bound(sqlite, before);
    if (status == BACKEND_OK)
        status = sqlite_keys_set(sqlite, &bound->key_hash, bound->id);
    if (status != BACKEND_OK)
        return status;
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_INSERT);
    sqlite_bind_number(&binding, bound->id);
    sqlite_bind_number(&binding, bound->holder);
    sqlite_bind_number(&binding, bound->expires_at);
    sqlite_bind_number(&binding, bound->acknowledges);
    sqlite_bind_bytes(&binding, slice_make((const char *)bound->key_hash.bytes, DIGEST_SIZE));
    sqlite_bind_text(&binding, bound->key);
    sqlite_bind_text(&binding, bound->recipe);
    sqlite_bind_bytes(&binding, slice_make((const char *)bound->payload_hash.bytes, DIGEST_SIZE));
    sqlite_bind_bytes(&binding, slice_make((const char *)bound->target_hash.bytes, DIGEST_SIZE));
    return sqlite_run_bound(sqlite, &binding);
}

/* Takes away the first bound key that the statement finds; `*ret_any`: there was one. */
static enum backend_status drop_bound(struct sqlite_backend *sqlite,
                                      const struct sqlite_binding *binding, bool *ret_any)
{
    sqlite3_stmt *s = binding->statement;
    struct digest key;
    int code = sqlite_step(binding);
    int64_t id = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    if (code == SQLITE_ROW && sqlite3_column_bytes(s, 1) == DIGEST_SIZE)
        memcpy(key.bytes, sqlite3_column_blob(s, 1), DIGEST_SIZE);
    else if (code == SQLITE_ROW)
        code = SQLITE_CORRUPT;
    sqlite3_reset(s);
    *ret_any = code == SQLITE_ROW;
    if (code != SQLITE_ROW)
        return sqlite_status(sqlite, code);
    enum backend_status status = drop_name(sqlite, &key, id);
    return status == BACKEND_OK ? delete_bound(sqlite, id) : status;
}

enum backend_status sqlite_sweep_bound(struct sqlite_backend *sqlite, int64_t now, size_t max,
                                       size_t *ret_steps)
{
    enum backend_status status = BACKEND_OK;
    bool any = true;
    size_t n = 0;
    for (; status == BACKEND_OK && any && n < max; n += any) {
        struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_DUE);
        sqlite_bind_number(&binding, now);
        status = drop_bound(sqlite, &binding, &any);
    }
    *ret_steps = n;
    return status;
}

/* ---- both ---- */

enum backend_status sqlite_unname_row(struct sqlite_backend *sqlite, const struct store_row *row)
{
    enum backend_status status = drop_name(sqlite, &row->key_hash, row->id);
    if (status == BACKEND_OK && row->once.len > 0)
        status = sqlite_drop_once(sqlite, row, row->once);
    bool any = true;
    while (status == BACKEND_OK && any) {
        struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_OF);
        sqlite_bind_number(&binding, row->id);
        status = drop_bound(sqlite, &binding, &any);
    }
    return status;
}
