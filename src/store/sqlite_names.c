/* SPDX-License-Identifier: Apache-2.0 */
/* Which other names lead to a row (core/once.h): its once value, by the index of keys, and keys
 * that were bound to it, by their own rows. A name leads to one row, so taking it over is setting
 * it. */
#include "base/check.h"
#include "store/sqlite.h"

static struct digest once_hash(const struct sqlite_backend *sqlite, const struct store_row *row)
{
    struct digest_key key = digest_key_of(slice_make(sqlite->backend.secret, DIGEST_SIZE));
    return store_once_hash(&key, row->tenant, row->rule, row->once);
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

enum backend_status sqlite_find_once(struct backend *backend, const struct digest *once,
                                     struct store_row *ret_row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    int64_t id = 0;
    *ret_row = (struct store_row){.record.status = RECORD_ABSENT};
    enum backend_status status = sqlite_keys_find(sqlite, once, &id);
    if (status == BACKEND_OK && id != 0)
        status = sqlite_find_row(sqlite, id, ret_row);
    if (status != BACKEND_OK || id == 0)
        return status;
    struct digest hash = once_hash(sqlite, ret_row);
    bool same = ret_row->record.status != RECORD_ABSENT && digest_eq(&hash, once);
    return same ? BACKEND_OK : sqlite_status(sqlite, SQLITE_CORRUPT);
}

enum backend_status sqlite_name_row(struct sqlite_backend *sqlite, const struct store_row *row)
{
    struct digest hash = once_hash(sqlite, row);
    return sqlite_keys_set(sqlite, &hash, row->id);
}

enum backend_status sqlite_hold(struct backend *backend, struct store_row *row,
                                const struct store_once *once)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    struct digest before = once_hash(sqlite, row);
    enum backend_status status =
        row->once.len > 0 ? drop_name(sqlite, &before, row->id) : BACKEND_OK;
    row->once = once->text;
    row->once_template = once->template_id;
    if (status == BACKEND_OK)
        status = sqlite_name_row(sqlite, row);
    if (status != BACKEND_OK)
        return status;
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_PENDING_HOLD);
    sqlite_bind_number(&binding, row->id);
    sqlite_bind_text(&binding, row->once);
    return sqlite_run_bound(sqlite, &binding);
}

/* ---- bound keys ---- */

/* What a row of pawl_bound says, but for its recipe. */
struct bound_row {
    int64_t holder;
    int64_t expires_at;
    bool acknowledges;
    struct digest hashes[3]; /* key, payload, target */
};

static bool read_bound(sqlite3_stmt *s, struct bound_row *ret_bound)
{
    ret_bound->holder = sqlite3_column_int64(s, 0);
    ret_bound->expires_at = sqlite3_column_int64(s, 1);
    ret_bound->acknowledges = sqlite3_column_int(s, 2);
    for (int i = 0; i < 3; i++) {
        if (sqlite3_column_bytes(s, 3 + i) != DIGEST_SIZE)
            return false;
        memcpy(ret_bound->hashes[i].bytes, sqlite3_column_blob(s, 3 + i), DIGEST_SIZE);
    }
    return true;
}

/* The statement stands on the row of the bound key: `row` is compared by its hashes. */
static bool take_hashes(struct sqlite_backend *sqlite, sqlite3_stmt *s,
                        const struct bound_row *bound, struct store_row *row)
{
    size_t from = sqlite->texts.len;
    buf_add_slice(&sqlite->texts,
                  slice_make(sqlite3_column_blob(s, 6), (size_t)sqlite3_column_bytes(s, 6)));
    if (!buf_ok(&sqlite->texts))
        return false;
    row->recipe = slice_make(sqlite->texts.at + from, sqlite->texts.len - from);
    row->bound_until = bound->expires_at;
    row->bound_acknowledges = bound->acknowledges;
    row->record.payload_hash = bound->hashes[1];
    row->record.target_hash = bound->hashes[2];
    return true;
}

enum backend_status sqlite_find_bound(struct sqlite_backend *sqlite, int64_t id,
                                      const struct digest *key, struct store_row *ret_row)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_FIND);
    sqlite3_stmt *s = binding.statement;
    sqlite_bind_number(&binding, id);
    struct bound_row bound;
    int code = sqlite_step(&binding);
    bool sound = code == SQLITE_ROW && read_bound(s, &bound) && digest_eq(&bound.hashes[0], key);
    enum backend_status status =
        sound ? sqlite_find_row(sqlite, bound.holder, ret_row)
              : sqlite_status(sqlite,
                              code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_CORRUPT : code);
    if (status == BACKEND_OK && ret_row->record.status == RECORD_ABSENT)
        status = sqlite_status(sqlite, SQLITE_CORRUPT);
    if (status == BACKEND_OK && !take_hashes(sqlite, s, &bound, ret_row))
        status = BACKEND_NO_MEMORY;
    ret_row->bound = id;
    sqlite3_reset(s);
    return status;
}

static enum backend_status delete_bound(struct sqlite_backend *sqlite, int64_t id)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_DELETE);
    sqlite_bind_number(&binding, id);
    return sqlite_run_bound(sqlite, &binding);
}

enum backend_status sqlite_bind_key(struct backend *backend, const struct backend_bound *bound)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
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

enum backend_status sqlite_lengthen(struct backend *backend, const struct store_row *row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    const struct record *record = &row->record;
    int64_t body_until = record_body_until(record), row_until = record_row_until(record);
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_LENGTHEN);
    sqlite_bind_number(&binding, record->kept && body_until < row_until ? body_until : row_until);
    sqlite_bind_number(&binding, record->kept);
    sqlite_bind_number(&binding, record->expires_at);
    sqlite_bind_number(&binding, record->gone_at);
    sqlite_bind_number(&binding, row->id);
    return sqlite_run_bound(sqlite, &binding);
}

enum backend_status sqlite_unname_row(struct sqlite_backend *sqlite, const struct store_row *row)
{
    struct digest hash = row->once.len > 0 ? once_hash(sqlite, row) : row->key_hash;
    enum backend_status status = drop_name(sqlite, &row->key_hash, row->id);
    if (status == BACKEND_OK && row->once.len > 0)
        status = drop_name(sqlite, &hash, row->id);
    bool any = true;
    while (status == BACKEND_OK && any) {
        struct sqlite_binding binding = sqlite_bind(sqlite, SQL_BOUND_OF);
        sqlite_bind_number(&binding, row->id);
        status = drop_bound(sqlite, &binding, &any);
    }
    return status;
}
