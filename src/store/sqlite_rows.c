/* SPDX-License-Identifier: Apache-2.0 */
/* One record: its row in pawl_pending or pawl_outcome. */
#include "base/check.h"
#include "store/sqlite.h"

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
    struct sqlite_backend *sqlite;
    sqlite3_stmt *statement;
    int at;
    bool ok;
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

/* Into the backend's own buffer, which has room for all texts of a row. */
static struct slice read_text(struct columns *columns)
{
    struct buf *texts = &columns->sqlite->texts;
    size_t from = texts->len;
    buf_add_slice(texts, column_slice(columns->statement, columns->at++));
    columns->ok &= buf_ok(texts);
    return columns->ok ? slice_make(texts->at + from, texts->len - from) : (struct slice){0};
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
    enum record_status status = row->record.status;
    return columns->ok && (status == RECORD_PENDING || status == RECORD_UNKNOWN);
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
    enum record_status status = row->record.status;
    return columns->ok && (status == RECORD_COMPLETE || status == RECORD_FAILED);
}

/* ---- one row ---- */

/* The texts buffer must not move while slices point into it: room for all is made first. */
static enum backend_status find_in(struct sqlite_backend *sqlite, enum sqlite_statement name,
                                   struct store_row *row)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    sqlite3_stmt *s = binding.statement;
    sqlite_bind_number(&binding, row->id);
    int code = sqlite_step(&binding);
    if (code == SQLITE_ROW) {
        buf_clear(&sqlite->texts);
        if (!buf_room(&sqlite->texts, SQLITE_ROW_TEXT_MAX)) {
            sqlite3_reset(s);
            return BACKEND_NO_MEMORY;
        }
        struct columns columns = {.sqlite = sqlite, .statement = s, .ok = true};
        bool ok =
            name == SQL_PENDING_FIND ? read_pending(&columns, row) : read_final(&columns, row);
        code = ok ? SQLITE_DONE : SQLITE_CORRUPT;
    }
    sqlite3_reset(s);
    return code == SQLITE_DONE ? BACKEND_OK : sqlite_status(sqlite, code);
}

enum backend_status sqlite_find_row(struct sqlite_backend *sqlite, int64_t id,
                                    struct store_row *ret_row)
{
    *ret_row = (struct store_row){.id = id};
    enum backend_status status = find_in(sqlite, SQL_PENDING_FIND, ret_row);
    if (status != BACKEND_OK || ret_row->record.status != RECORD_ABSENT)
        return status;
    return find_in(sqlite, SQL_OUTCOME_FIND, ret_row);
}

static enum backend_status find_by_key(struct sqlite_backend *sqlite, const struct digest *key,
                                       struct store_row *ret_row)
{
    *ret_row = (struct store_row){.record.status = RECORD_ABSENT};
    int64_t id = 0;
    enum backend_status status = sqlite_keys_find(sqlite, key, &id);
    if (status != BACKEND_OK || id == 0)
        return status;
    status = sqlite_find_row(sqlite, id, ret_row);
    if (status == BACKEND_OK && ret_row->record.status == RECORD_ABSENT)
        return sqlite_find_bound(sqlite, id, key, ret_row);
    if (status != BACKEND_OK)
        return status;
    bool same = ret_row->record.status != RECORD_ABSENT && digest_eq(&ret_row->key_hash, key);
    return same ? BACKEND_OK : sqlite_status(sqlite, SQLITE_CORRUPT);
}

/* A row that lives for its once value is there though its key leads elsewhere by now. */
static bool is_hinted(const struct store_row *row, const struct digest *key)
{
    return row->record.status != RECORD_ABSENT && row->once.len > 0 &&
           digest_eq(&row->key_hash, key);
}

enum backend_status sqlite_find(struct backend *backend, const struct digest *key, int64_t hint,
                                struct store_row *ret_row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    if (hint != 0) {
        *ret_row = (struct store_row){.id = hint};
        enum backend_status status = find_in(sqlite, SQL_PENDING_FIND, ret_row);
        bool found = ret_row->record.status != RECORD_ABSENT && digest_eq(&ret_row->key_hash, key);
        if (status != BACKEND_OK || found)
            return status;
    }
    enum backend_status status = find_by_key(sqlite, key, ret_row);
    if (status != BACKEND_OK || hint == 0 || ret_row->id == hint)
        return status;
    status = sqlite_find_row(sqlite, hint, ret_row);
    if (status != BACKEND_OK || is_hinted(ret_row, key))
        return status;
    return find_by_key(sqlite, key, ret_row);
}

enum backend_status sqlite_insert(struct backend *backend, const struct store_row *row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    enum backend_status status = sqlite_keys_set(sqlite, &row->key_hash, row->id);
    bool has_value = row->once.len > 0;
    if (status == BACKEND_OK && has_value)
        status = sqlite_name_row(sqlite, row);
    if (status != BACKEND_OK)
        return status;

    struct sqlite_binding binding =
        sqlite_bind(sqlite, has_value ? SQL_PENDING_INSERT_ONCE : SQL_PENDING_INSERT);
    bind_claim(&binding, row);
    bind_identity(&binding, row);
    if (has_value) {
        sqlite_bind_text(&binding, row->once);
        bind_claim_once(&binding, row);
    }
    sqlite_bind_number(&binding, row->id);
    return sqlite_run_bound(sqlite, &binding);
}

enum backend_status sqlite_update(struct backend *backend, const struct store_row *row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_PENDING_UPDATE);
    bind_claim(&binding, row);
    bind_claim_once(&binding, row);
    sqlite_bind_number(&binding, row->id);
    enum backend_status status = sqlite_run_bound(sqlite, &binding);
    CHECK(status != BACKEND_OK || sqlite3_changes(sqlite->db) == 1);
    return status;
}

static enum backend_status delete_by_id(struct sqlite_backend *sqlite, enum sqlite_statement name,
                                        int64_t id)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    sqlite_bind_number(&binding, id);
    return sqlite_run_bound(sqlite, &binding);
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

enum backend_status sqlite_finish(struct backend *backend, const struct store_row *row,
                                  const struct outcome *outcome)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    bool strip_first = outcome && record_body_until(&row->record) < record_row_until(&row->record);
    bool has_value = row->once.len > 0;
    struct sqlite_binding binding =
        sqlite_bind(sqlite, has_value ? SQL_OUTCOME_INSERT_ONCE : SQL_OUTCOME_INSERT);
    sqlite_bind_number(&binding, row->id);
    sqlite_bind_number(&binding, row->record.status);
    sqlite_bind_number(&binding, strip_first ? record_body_until(&row->record)
                                             : record_row_until(&row->record));
    bind_outcome(&binding, outcome);
    bind_final(&binding, row);
    bind_identity(&binding, row);
    if (has_value)
        bind_final_once(&binding, row);
    enum backend_status status = sqlite_run_bound(sqlite, &binding);
    if (status != BACKEND_OK)
        return status;
    status = delete_by_id(sqlite, SQL_PENDING_DELETE, row->id);
    CHECK(status != BACKEND_OK || sqlite3_changes(sqlite->db) == 1);
    return status;
}

enum backend_status sqlite_remove(struct backend *backend, const struct store_row *row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    enum backend_status status = sqlite_unname_row(sqlite, row);
    if (status != BACKEND_OK)
        return status;
    status = delete_by_id(sqlite, SQL_PENDING_DELETE, row->id);
    if (status != BACKEND_OK || sqlite3_changes(sqlite->db) == 1)
        return status;
    return delete_by_id(sqlite, SQL_OUTCOME_DELETE, row->id);
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
