/* SPDX-License-Identifier: Apache-2.0 */
/* One record: its row in pawl_pending or pawl_outcome. */
#include "base/check.h"
#include "store/sqlite/sqlite.h"

/* ---- columns and fields (sqlite_columns.h) ---- */

#define BIND_INT(binding, value) sqlite_bind_number(binding, (int64_t)(value))
#define BIND_BYTES(binding, value)                                                                 \
    sqlite_bind_bytes(binding, slice_make((const char *)(value), sizeof(value)))
#define BIND_TEXT(binding, value) sqlite_bind_text(binding, value)
#define BIND_RARE(binding, value) bind_rare(binding, value)
#define BIND(kind, column, field) BIND_##kind(binding, row->field);

static void bind_rare(struct sqlite_binding *binding, struct slice text)
{
    if (text.len > 0)
        sqlite_bind_text(binding, text);
    else
        sqlite_bind_null(binding);
}

static void bind_identity(struct sqlite_binding *binding, const struct store_row *row)
{
    SQLITE_IDENTITY(BIND)
}

static void bind_final(struct sqlite_binding *binding, const struct store_row *row)
{
    SQLITE_FINAL(BIND)
}

static void bind_final_once(struct sqlite_binding *binding, const struct store_row *row)
{
    sqlite_bind_text(binding, row->once);
    SQLITE_FINAL_ONCE(BIND)
}

static void bind_claim_once(struct sqlite_binding *binding, const struct store_row *row)
{
    SQLITE_CLAIM_ONCE(BIND)
}

/* What PENDING_INSERT and PENDING_UPDATE have in common. */
static void bind_claim(struct sqlite_binding *binding, const struct store_row *row)
{
    sqlite_bind_number(binding, row->record.status);
    if (record_is_released(&row->record))
        sqlite_bind_number(binding, row->record.expires_at);
    else
        sqlite_bind_null(binding);
    SQLITE_CLAIM(BIND)
}

/* A row that is being read, column by column. */
struct columns {
    struct arena *texts;
    sqlite3_stmt *statement;
    int at;
    bool ok;
    bool lacks_memory;
};

static int64_t read_number(struct columns *columns)
{
    return sqlite3_column_int64(columns->statement, columns->at++);
}

/* By the value, and not by sqlite3_column_blob and _bytes, which each look the column up. The
 * connection has no mutex, so its values need none. */
static struct slice column_slice(sqlite3_stmt *s, int at)
{
    sqlite3_value *value = sqlite3_column_value(s, at);
    const void *bytes = sqlite3_value_blob(value);
    return slice_make(bytes, bytes ? (size_t)sqlite3_value_bytes(value) : 0);
}

static void read_bytes(struct columns *columns, void *ret_bytes, size_t n)
{
    struct slice bytes = column_slice(columns->statement, columns->at++);
    columns->ok &= bytes.len == n;
    if (columns->ok)
        memcpy(ret_bytes, bytes.at, n);
}

static struct slice read_text(struct columns *columns)
{
    struct slice text = column_slice(columns->statement, columns->at++);
    if (text.len == 0)
        return (struct slice){0};
    text = arena_copy(columns->texts, text);
    columns->lacks_memory |= !text.at;
    return text;
}

#define READ_INT(columns, ret) ret = (__typeof__(ret))read_number(columns)
#define READ_BYTES(columns, ret) read_bytes(columns, ret, sizeof(ret))
#define READ_TEXT(columns, ret) ret = read_text(columns)
#define READ_RARE(columns, ret) READ_TEXT(columns, ret)
#define READ(kind, column, field) READ_##kind(columns, row->field);

/* The once value; false: none, and nothing stands behind it. */
static bool read_once(struct columns *columns, struct store_row *row)
{
    if (sqlite3_column_type(columns->statement, columns->at) == SQLITE_NULL)
        return false;
    READ_TEXT(columns, row->once);
    return true;
}

static bool read_pending(struct columns *columns, struct store_row *row)
{
    READ_INT(columns, row->record.status);
    READ_INT(columns, row->record.expires_at);
    SQLITE_CLAIM(READ)
    SQLITE_IDENTITY(READ)
    if (read_once(columns, row)) {
        SQLITE_CLAIM_ONCE(READ)
    }
    /* What is provisional stands in both tables. */
    row->record.provisional = record_is_final(row->record.status);
    return columns->ok && row->record.status > RECORD_ABSENT &&
           row->record.status <= RECORD_UNKNOWN;
}

static bool read_final(struct columns *columns, struct store_row *row)
{
    READ_INT(columns, row->record.status);
    READ_TEXT(columns, row->location);
    SQLITE_FINAL(READ)
    SQLITE_IDENTITY(READ)
    if (read_once(columns, row)) {
        SQLITE_FINAL_ONCE(READ)
    }
    return columns->ok && record_is_final(row->record.status);
}

/* ---- one row ---- */

static enum backend_status read_row(struct sqlite_backend *sqlite, enum sqlite_statement name,
                                    struct arena *texts, struct store_row *row)
{
    struct columns columns = {.texts = texts, .statement = sqlite_use(sqlite, name), .ok = true};
    bool ok = name == SQL_PENDING_FIND ? read_pending(&columns, row) : read_final(&columns, row);
    if (!ok)
        return sqlite_status(sqlite, SQLITE_CORRUPT);
    if (columns.lacks_memory)
        return sqlite_status(sqlite, SQLITE_NOMEM);
    return sqlite_judge_lease(sqlite, &row->record);
}

static enum backend_status find_in(struct sqlite_backend *sqlite, enum sqlite_statement name,
                                   struct arena *texts, struct store_row *row)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    sqlite_bind_number(&binding, row->id);
    int code = sqlite_step(&binding);
    enum backend_status status =
        code == SQLITE_ROW ? read_row(sqlite, name, texts, row) : sqlite_status(sqlite, code);
    sqlite3_reset(binding.statement);
    return status;
}

enum backend_status sqlite_find_row(struct sqlite_backend *sqlite, int64_t id, struct arena *texts,
                                    struct store_row *ret_row)
{
    if (sqlite_recent_find(sqlite, id, texts, ret_row))
        return sqlite_judge_lease(sqlite, &ret_row->record);
    *ret_row = (struct store_row){.id = id};
    enum backend_status status = find_in(sqlite, SQL_PENDING_FIND, texts, ret_row);
    bool provisional = ret_row->record.provisional;
    if (status != BACKEND_OK || (ret_row->record.status != RECORD_ABSENT && !provisional))
        return status;
    status = find_in(sqlite, SQL_OUTCOME_FIND, texts, ret_row);
    bool lacks_answer = provisional && ret_row->record.completed_at == 0;
    return status == BACKEND_OK && lacks_answer ? sqlite_status(sqlite, SQLITE_CORRUPT) : status;
}

static bool is_of(const struct store_row *row, const struct digest *key)
{
    return row->record.status != RECORD_ABSENT && digest_eq(&row->key_hash, key);
}

/* The row to which a name leads, by its key or by its value; or through a bound key. */
static enum backend_status follow(struct sqlite_backend *sqlite, struct backend_name *name,
                                  struct arena *arena)
{
    int64_t id = 0;
    enum backend_status status = sqlite_keys_find(sqlite, &name->hash, &id);
    if (status != BACKEND_OK || id == 0)
        return status;
    if (name->hinted && name->hinted->id == id) {
        name->row = name->hinted;
        return BACKEND_OK;
    }
    struct store_row *row = arena_alloc(arena, sizeof *row);
    if (!row)
        return sqlite_status(sqlite, SQLITE_NOMEM);
    status = sqlite_find_row(sqlite, id, arena, row);
    if (status != BACKEND_OK)
        return status;
    if (row->record.status == RECORD_ABSENT && !name->is_once)
        return sqlite_find_bound(sqlite, id, arena, name);
    bool same = name->is_once ? sqlite_is_named(sqlite, row, &name->hash) : is_of(row, &name->hash);
    name->row = row;
    return same ? BACKEND_OK : sqlite_status(sqlite, SQLITE_CORRUPT);
}

/* What is pending under a key is what the key leads to. A row that lives for its once value is
 * there though its key leads elsewhere by now. */
static enum backend_status try_hint(struct sqlite_backend *sqlite, struct backend_name *name,
                                    struct arena *arena)
{
    struct store_row *row = arena_alloc(arena, sizeof *row);
    if (!row)
        return sqlite_status(sqlite, SQLITE_NOMEM);
    enum backend_status status = sqlite_find_row(sqlite, name->hint, arena, row);
    if (status != BACKEND_OK || !is_of(row, &name->hash))
        return status;
    name->hinted = row;
    name->row = record_is_final(row->record.status) ? NULL : row;
    return BACKEND_OK;
}

static enum backend_status find(struct sqlite_backend *sqlite, struct backend_name *name,
                                struct arena *arena)
{
    name->row = name->hinted = NULL;
    name->bound = NULL;
    enum backend_status status = name->hint != 0 ? try_hint(sqlite, name, arena) : BACKEND_OK;
    return status == BACKEND_OK && !name->row ? follow(sqlite, name, arena) : status;
}

enum backend_status sqlite_find(struct sqlite_backend *sqlite, struct backend_name *names, size_t n,
                                struct arena *arena)
{
    enum backend_status status = BACKEND_OK;
    for (size_t i = 0; i < n && status == BACKEND_OK; i++)
        status = find(sqlite, &names[i], arena);
    return status;
}

/* ---- new rows ---- */

static void bind_new_claim(struct sqlite_binding *binding, const struct backend_change *change)
{
    sqlite_bind_number(binding, change->row->id);
    bind_claim(binding, change->row);
    bind_identity(binding, change->row);
}

/* result_ref, headers, body, packed; `outcome` NULL: none is kept. */
static void bind_outcome(struct sqlite_binding *binding, const struct outcome *outcome)
{
    bool packed = outcome && outcome->packed.len > 0;
    if (outcome && outcome->location.len > 0)
        sqlite_bind_text(binding, outcome->location);
    else
        sqlite_bind_null(binding);
    if (outcome) {
        sqlite_bind_bytes(binding, outcome->fields);
        sqlite_bind_bytes(binding, packed ? buf_slice(&outcome->packed) : outcome->body);
    } else {
        sqlite_bind_null(binding);
        sqlite_bind_null(binding);
    }
    sqlite_bind_number(binding, packed);
}

static void bind_new_final(struct sqlite_binding *binding, const struct backend_change *change)
{
    const struct store_row *row = change->row;
    sqlite_bind_number(binding, row->id);
    sqlite_bind_number(binding, row->record.status);
    sqlite_bind_number(binding, backend_sweep_at(&row->record, change->outcome));
    bind_outcome(binding, change->outcome);
    bind_final(binding, row);
    bind_identity(binding, row);
}

typedef void insert_bind(struct sqlite_binding *binding, const struct backend_change *change);

/* All that there are: `statement` takes one row, the one behind it INSERT_ROWS. */
static enum backend_status insert_all(struct sqlite_backend *sqlite, struct sqlite_inserts *inserts,
                                      enum sqlite_statement statement, insert_bind *bind)
{
    const size_t n = inserts->n, at_once = n == INSERT_ROWS ? n : 1;
    enum backend_status status = BACKEND_OK;
    inserts->n = 0;
    for (size_t i = 0; i < n && status == BACKEND_OK;) {
        struct sqlite_binding binding = sqlite_bind(sqlite, statement + (at_once > 1));
        for (size_t last = i + at_once; i < last; i++)
            bind(&binding, inserts->changes[i]);
        status = sqlite_run_bound(sqlite, &binding);
    }
    return status;
}

static enum backend_status insert_claims(struct sqlite_backend *sqlite)
{
    return insert_all(sqlite, &sqlite->claims, SQL_PENDING_INSERT, bind_new_claim);
}

static enum backend_status insert_finals(struct sqlite_backend *sqlite)
{
    return insert_all(sqlite, &sqlite->finals, SQL_OUTCOME_INSERT, bind_new_final);
}

static enum backend_status insert_pending(struct sqlite_backend *sqlite,
                                          const struct backend_change *change)
{
    const struct store_row *row = change->row;
    sqlite_recent_add(sqlite, row);
    if (row->once.len == 0) {
        sqlite->claims.changes[sqlite->claims.n++] = change;
        return sqlite->claims.n == INSERT_ROWS ? insert_claims(sqlite) : BACKEND_OK;
    }
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_PENDING_INSERT_ONCE);
    bind_new_claim(&binding, change);
    sqlite_bind_text(&binding, row->once);
    bind_claim_once(&binding, row);
    return sqlite_run_bound(sqlite, &binding);
}

static enum backend_status insert_final(struct sqlite_backend *sqlite,
                                        const struct backend_change *change)
{
    if (change->row->once.len == 0) {
        sqlite->finals.changes[sqlite->finals.n++] = change;
        return sqlite->finals.n == INSERT_ROWS ? insert_finals(sqlite) : BACKEND_OK;
    }
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_INSERT_ONCE);
    bind_new_final(&binding, change);
    bind_final_once(&binding, change->row);
    return sqlite_run_bound(sqlite, &binding);
}

/* ---- changes ---- */

static enum backend_status update_pending(struct sqlite_backend *sqlite,
                                          const struct store_row *row)
{
    sqlite_recent_drop(sqlite, row->id);
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_PENDING_UPDATE);
    bind_claim(&binding, row);
    bind_claim_once(&binding, row);
    sqlite_bind_number(&binding, row->id);
    enum backend_status status = sqlite_run_bound(sqlite, &binding);
    CHECK(status != BACKEND_OK || sqlite3_changes(sqlite->db) == 1);
    return status;
}

static enum backend_status hold_pending(struct sqlite_backend *sqlite, const struct store_row *row)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_PENDING_HOLD);
    sqlite_bind_number(&binding, row->id);
    sqlite_bind_text(&binding, row->once);
    return sqlite_run_bound(sqlite, &binding);
}

static enum backend_status delete_by_id(struct sqlite_backend *sqlite, enum sqlite_statement name,
                                        int64_t id)
{
    sqlite_recent_drop(sqlite, id);
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    sqlite_bind_number(&binding, id);
    return sqlite_run_bound(sqlite, &binding);
}

static enum backend_status remove_row(struct sqlite_backend *sqlite, const struct store_row *row,
                                      bool provisional)
{
    enum backend_status status = sqlite_unname_row(sqlite, row);
    if (status != BACKEND_OK)
        return status;
    status = delete_by_id(sqlite, SQL_PENDING_DELETE, row->id);
    if (status != BACKEND_OK || (!provisional && sqlite3_changes(sqlite->db) == 1))
        return status;
    return delete_by_id(sqlite, SQL_OUTCOME_DELETE, row->id);
}

enum backend_status sqlite_remove(struct sqlite_backend *sqlite, const struct store_row *row)
{
    return remove_row(sqlite, row, false);
}

/* Of what is frozen, or was told to another key: its answer may have been swept meanwhile, and does
 * not come back. */
static enum backend_status lengthen_final(struct sqlite_backend *sqlite,
                                          const struct store_row *row)
{
    const struct record *record = &row->record;
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_LENGTHEN);
    sqlite_bind_number(&binding, backend_sweep_at(record, record->kept));
    sqlite_bind_number(&binding, record->kept);
    sqlite_bind_number(&binding, record->expires_at);
    sqlite_bind_number(&binding, record->gone_at);
    sqlite_bind_number(&binding, record->once_until);
    sqlite_bind_number(&binding, row->id);
    return sqlite_run_bound(sqlite, &binding);
}

/* It stands in both tables for as long as it is provisional. */
static enum backend_status freeze(struct sqlite_backend *sqlite,
                                  const struct backend_change *change)
{
    const struct store_row *row = change->row;
    if (row->record.provisional)
        return update_pending(sqlite, row);
    enum backend_status status = delete_by_id(sqlite, SQL_PENDING_DELETE, row->id);
    bool filled_in = change->outcome || !row->record.kept;
    if (status != BACKEND_OK || !filled_in)
        return status == BACKEND_OK ? lengthen_final(sqlite, row) : status;
    status = delete_by_id(sqlite, SQL_OUTCOME_DELETE, row->id);
    return status == BACKEND_OK ? insert_final(sqlite, change) : status;
}

static enum backend_status finish(struct sqlite_backend *sqlite,
                                  const struct backend_change *change)
{
    const struct store_row *row = change->row;
    enum backend_status status = insert_final(sqlite, change);
    if (status == BACKEND_OK && row->record.provisional)
        return update_pending(sqlite, row);
    if (status == BACKEND_OK)
        status = delete_by_id(sqlite, SQL_PENDING_DELETE, row->id);
    CHECK(status != BACKEND_OK || sqlite3_changes(sqlite->db) == 1);
    return status;
}

static bool has_new_value(const struct backend_change *change)
{
    static const struct digest none;
    return !digest_eq(&change->once_name, &none);
}

/* A new row gets its names, a row that holds a value anew that one. */
static enum backend_status name_row(struct sqlite_backend *sqlite,
                                    const struct backend_change *change)
{
    const struct store_row *row = change->row;
    enum backend_status status = BACKEND_OK;
    if (change->before == RECORD_ABSENT)
        status = sqlite_keys_set(sqlite, &row->key_hash, row->id);
    if (status != BACKEND_OK || !has_new_value(change))
        return status;
    if (change->once_before.len > 0)
        status = sqlite_drop_once(sqlite, row, change->once_before);
    return status == BACKEND_OK ? sqlite_keys_set(sqlite, &change->once_name, row->id) : status;
}

static enum backend_status save_row(struct sqlite_backend *sqlite,
                                    const struct backend_change *change)
{
    const struct store_row *row = change->row;
    struct store_row gone = {.id = row->id, .key_hash = row->key_hash, .tenant = row->tenant};
    gone.rule = row->rule;
    gone.once = change->once_before;
    if (row->record.status == RECORD_ABSENT)
        return remove_row(sqlite, &gone, change->was_provisional);
    enum backend_status status = name_row(sqlite, change);
    if (status != BACKEND_OK)
        return status;
    if (change->was_provisional)
        return freeze(sqlite, change);
    if (record_is_final(change->before))
        return lengthen_final(sqlite, row);
    bool finished = record_is_final(row->record.status);
    if (change->before == RECORD_ABSENT)
        return finished ? insert_final(sqlite, change) : insert_pending(sqlite, change);
    if (!finished && has_new_value(change))
        status = hold_pending(sqlite, row);
    if (!finished)
        return status == BACKEND_OK ? update_pending(sqlite, row) : status;
    return finish(sqlite, change);
}

static enum backend_status save_change(struct sqlite_backend *sqlite,
                                       const struct backend_change *change)
{
    if (change->seen)
        return BACKEND_OK;
    return change->bound ? sqlite_bind_key(sqlite, change->bound) : save_row(sqlite, change);
}

/* Rows of modules alone may not fit: the records are what load said, as it holds the lock. */
static enum backend_status save_group(struct sqlite_backend *sqlite, struct backend_group *group,
                                      struct sqlite_leases *own)
{
    enum backend_status status = BACKEND_OK;
    const struct backend_change *change = group->changes;
    if (change && change->brought)
        status = sqlite_write_rows(sqlite, group, &change);
    if (group->result != GROUP_OK)
        return status;
    for (; change && status == BACKEND_OK; change = change->next) {
        backend_count(&sqlite->state.counts, change);
        if (change->row)
            status = sqlite_count_lease(sqlite, own, change);
        if (status == BACKEND_OK)
            status = save_change(sqlite, change);
    }
    return status;
}

enum backend_status sqlite_save_groups(struct sqlite_backend *sqlite, struct backend_group *groups)
{
    enum backend_status status = BACKEND_OK;
    struct sqlite_leases own = {0};
    sqlite->claims.n = sqlite->finals.n = 0; /* of a save that failed */
    for (struct backend_group *group = groups; group && status == BACKEND_OK; group = group->next)
        status = save_group(sqlite, group, &own);
    if (status == BACKEND_OK)
        status = insert_claims(sqlite);
    if (status == BACKEND_OK)
        status = insert_finals(sqlite);
    return status == BACKEND_OK ? sqlite_save_leases(sqlite, &own) : status;
}

/* A packed body stays packed. NULL: no memory. */
static struct outcome *read_outcome(sqlite3_stmt *s, bool packed)
{
    int status = sqlite3_column_int(s, 1);
    bool failed = sqlite3_column_int(s, 0) == RECORD_FAILED;
    struct slice fields = column_slice(s, 2), body = column_slice(s, 3);
    return packed ? outcome_new_packed(status, failed, fields, body)
                  : outcome_new(status, failed, fields, body);
}

enum backend_status sqlite_outcome(struct backend *backend, const struct store_row *row,
                                   uint64_t most, struct outcome **ret_outcome, uint64_t *ret_size)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_READ);
    sqlite3_stmt *s = binding.statement;
    sqlite_bind_number(&binding, row->id);
    int code = sqlite_step(&binding);
    if (code != SQLITE_ROW) {
        sqlite3_reset(s);
        return sqlite_status(sqlite, code == SQLITE_DONE ? SQLITE_CORRUPT : code);
    }
    struct slice body = column_slice(s, 3);
    bool packed = sqlite3_column_int(s, 4) && sqlite3_column_type(s, 3) != SQLITE_NULL;
    size_t body_size = packed ? outcome_unpacked_size(body) : body.len;
    bool damaged = packed && body_size == 0;
    *ret_outcome = NULL;
    *ret_size = sizeof(struct outcome) + column_slice(s, 2).len + body_size;
    bool fits = !damaged && *ret_size <= most;
    if (fits)
        *ret_outcome = read_outcome(s, packed);
    sqlite3_reset(s);
    if (damaged)
        return backend_condemn(backend, row->id);
    return fits && !*ret_outcome ? BACKEND_NO_MEMORY : BACKEND_OK;
}
