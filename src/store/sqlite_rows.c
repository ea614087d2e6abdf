/* SPDX-License-Identifier: Apache-2.0 */
/* One record: its row in pawl_pending or pawl_outcome. */
#include "base/check.h"
#include "store/sqlite.h"

enum { STATE_COLUMNS = 17 }; /* status .. expires_at, in every statement in this order */

static void bind_slice(sqlite3_stmt *statement, int at, struct slice s)
{
    sqlite3_bind_text64(statement, at, s.at ? s.at : "", s.len, SQLITE_STATIC, SQLITE_UTF8);
}

static void bind_bytes(sqlite3_stmt *statement, int at, struct slice s)
{
    sqlite3_bind_blob64(statement, at, s.at ? s.at : "", s.len, SQLITE_STATIC);
}

static void bind_digest(sqlite3_stmt *statement, int at, const struct digest *digest)
{
    sqlite3_bind_blob(statement, at, digest->bytes, DIGEST_SIZE, SQLITE_STATIC);
}

/* ?1 id, ?2..?18 what acquire, release and doubt change. */
static void bind_state(sqlite3_stmt *s, const struct store_row *row)
{
    const struct record *record = &row->record;
    int at = 1;
    sqlite3_bind_int64(s, at++, row->id);
    sqlite3_bind_int64(s, at++, record->status);
    sqlite3_bind_int64(s, at++, record->token);
    sqlite3_bind_blob(s, at++, record->attempt_id, RECORD_ATTEMPT_ID_SIZE, SQLITE_STATIC);
    sqlite3_bind_int64(s, at++, record->attempts);
    sqlite3_bind_int64(s, at++, record->started_at);
    sqlite3_bind_int64(s, at++, record->lease_until);
    sqlite3_bind_int64(s, at++, record->lease_us);
    sqlite3_bind_int64(s, at++, record->owner);
    sqlite3_bind_int64(s, at++, record->owner_is_serve);
    sqlite3_bind_int64(s, at++, record->probing);
    sqlite3_bind_int64(s, at++, record->window);
    sqlite3_bind_int64(s, at++, record->unknown);
    sqlite3_bind_int64(s, at++, record->settle_us);
    sqlite3_bind_int64(s, at++, record->quiet_at);
    sqlite3_bind_int64(s, at++, record->ttl_us);
    sqlite3_bind_int64(s, at++, record->tombstone_us);
    bool released = record->status == RECORD_PENDING && record->lease_until == 0;
    if (released)
        sqlite3_bind_int64(s, at++, record->expires_at);
    else
        sqlite3_bind_null(s, at++);
    CHECK(at == 2 + STATE_COLUMNS);
}

/* From `at` on, what never changes while a record lives: key_hash .. created_at. */
static void bind_identity(sqlite3_stmt *s, int at, const struct store_row *row)
{
    bind_digest(s, at++, &row->key_hash);
    bind_slice(s, at++, row->tenant);
    bind_slice(s, at++, row->rule);
    bind_slice(s, at++, row->key);
    bind_slice(s, at++, row->recipe);
    bind_digest(s, at++, &row->record.payload_hash);
    bind_digest(s, at++, &row->record.target_hash);
    sqlite3_bind_int64(s, at, row->record.created_at);
}

static struct slice column_slice(sqlite3_stmt *s, int at)
{
    const void *bytes = sqlite3_column_blob(s, at);
    return slice_make(bytes, (size_t)sqlite3_column_bytes(s, at));
}

static bool column_bytes(sqlite3_stmt *s, int at, void *ret_bytes, size_t n)
{
    struct slice bytes = column_slice(s, at);
    if (bytes.len != n)
        return false;
    memcpy(ret_bytes, bytes.at, n);
    return true;
}

/* Columns 0 to 7 of both find statements; the texts move into the backend's own buffer. */
static bool read_identity(struct sqlite_backend *sqlite, sqlite3_stmt *s, struct store_row *row)
{
    size_t lens[4];
    buf_clear(&sqlite->texts);
    for (int i = 0; i < 4; i++) {
        struct slice text = column_slice(s, 1 + i);
        lens[i] = text.len;
        buf_add_slice(&sqlite->texts, text);
    }
    if (!buf_ok(&sqlite->texts))
        return false;
    struct slice *texts[4] = {&row->tenant, &row->rule, &row->key, &row->recipe};
    const char *at = sqlite->texts.at;
    for (int i = 0; i < 4; at += lens[i], i++)
        *texts[i] = slice_make(at, lens[i]);
    row->record.created_at = sqlite3_column_int64(s, 7);
    return column_bytes(s, 0, row->key_hash.bytes, DIGEST_SIZE) &&
           column_bytes(s, 5, row->record.payload_hash.bytes, DIGEST_SIZE) &&
           column_bytes(s, 6, row->record.target_hash.bytes, DIGEST_SIZE);
}

static bool read_pending(struct sqlite_backend *sqlite, sqlite3_stmt *s, struct store_row *row)
{
    struct record *record = &row->record;
    int at = 8;
    record->status = (enum record_status)sqlite3_column_int(s, at++);
    record->token = sqlite3_column_int64(s, at++);
    bool ok = column_bytes(s, at++, record->attempt_id, RECORD_ATTEMPT_ID_SIZE);
    record->attempts = sqlite3_column_int64(s, at++);
    record->started_at = sqlite3_column_int64(s, at++);
    record->lease_until = sqlite3_column_int64(s, at++);
    record->lease_us = sqlite3_column_int64(s, at++);
    record->owner = sqlite3_column_int64(s, at++);
    record->owner_is_serve = sqlite3_column_int(s, at++);
    record->probing = sqlite3_column_int(s, at++);
    record->window = sqlite3_column_int(s, at++);
    record->unknown = (enum record_unknown)sqlite3_column_int(s, at++);
    record->settle_us = sqlite3_column_int64(s, at++);
    record->quiet_at = sqlite3_column_int64(s, at++);
    record->ttl_us = sqlite3_column_int64(s, at++);
    record->tombstone_us = sqlite3_column_int64(s, at++);
    record->expires_at = sqlite3_column_int64(s, at++);
    bool known = record->status == RECORD_PENDING || record->status == RECORD_UNKNOWN;
    return read_identity(sqlite, s, row) && ok && known;
}

static bool read_final(struct sqlite_backend *sqlite, sqlite3_stmt *s, struct store_row *row)
{
    struct record *record = &row->record;
    int at = 8;
    record->status = (enum record_status)sqlite3_column_int(s, at++);
    record->token = sqlite3_column_int64(s, at++);
    record->attempts = sqlite3_column_int64(s, at++);
    record->started_at = sqlite3_column_int64(s, at++);
    record->completed_at = sqlite3_column_int64(s, at++);
    record->expires_at = sqlite3_column_int64(s, at++);
    record->gone_at = sqlite3_column_int64(s, at++);
    record->kept = sqlite3_column_int(s, at++);
    record->http_status = sqlite3_column_int(s, at++);
    bool known = record->status == RECORD_COMPLETE || record->status == RECORD_FAILED;
    if (!read_identity(sqlite, s, row) || !known)
        return false;
    size_t from = sqlite->texts.len;
    buf_add_slice(&sqlite->texts, column_slice(s, at));
    row->location = slice_make(sqlite->texts.at + from, sqlite->texts.len - from);
    return buf_ok(&sqlite->texts);
}

/* The texts buffer may move while it grows: room for everything is made first. */
static enum backend_status find_in(struct sqlite_backend *sqlite, enum sqlite_statement name,
                                   struct store_row *row)
{
    sqlite3_stmt *s = sqlite_use(sqlite, name);
    sqlite3_bind_int64(s, 1, row->id);
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        buf_clear(&sqlite->texts);
        if (!buf_room(&sqlite->texts, SQLITE_ROW_TEXT_MAX)) {
            sqlite3_reset(s);
            return BACKEND_NO_MEMORY;
        }
        bool ok =
            name == SQL_PENDING_FIND ? read_pending(sqlite, s, row) : read_final(sqlite, s, row);
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
    *ret_row = (struct store_row){.record.status = RECORD_ABSENT};
    int64_t id = 0;
    enum backend_status status = sqlite_keys_find(sqlite, key, &id);
    if (status != BACKEND_OK || id == 0)
        return status;
    status = sqlite_find_row(sqlite, id, ret_row);
    if (status != BACKEND_OK)
        return status;
    bool same = ret_row->record.status != RECORD_ABSENT && digest_eq(&ret_row->key_hash, key);
    return same ? BACKEND_OK : sqlite_status(sqlite, SQLITE_CORRUPT);
}

enum backend_status sqlite_insert(struct backend *backend, const struct store_row *row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    enum backend_status status = sqlite_keys_set(sqlite, &row->key_hash, row->id);
    if (status != BACKEND_OK)
        return status;

    sqlite3_stmt *s = sqlite_use(sqlite, SQL_PENDING_INSERT);
    bind_state(s, row);
    bind_identity(s, 2 + STATE_COLUMNS, row);
    return sqlite_run(sqlite, s);
}

enum backend_status sqlite_update(struct backend *backend, const struct store_row *row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_PENDING_UPDATE);
    bind_state(s, row);
    enum backend_status status = sqlite_run(sqlite, s);
    CHECK(status != BACKEND_OK || sqlite3_changes(sqlite->db) == 1);
    return status;
}

static enum backend_status delete_by_id(struct sqlite_backend *sqlite, enum sqlite_statement name,
                                        int64_t id)
{
    sqlite3_stmt *s = sqlite_use(sqlite, name);
    sqlite3_bind_int64(s, 1, id);
    return sqlite_run(sqlite, s);
}

enum backend_status sqlite_finish(struct backend *backend, const struct store_row *row,
                                  const struct outcome *outcome)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    const struct record *record = &row->record;
    bool strip_first = outcome && record->tombstone_us > 0;
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_OUTCOME_INSERT);
    sqlite3_bind_int64(s, 1, row->id);
    sqlite3_bind_int64(s, 2, record->status);
    sqlite3_bind_int64(s, 3, record->completed_at);
    sqlite3_bind_int64(s, 4, record->expires_at);
    sqlite3_bind_int64(s, 5, record->gone_at);
    sqlite3_bind_int64(s, 6, strip_first ? record->expires_at : record->gone_at);
    sqlite3_bind_int64(s, 7, record->kept);
    sqlite3_bind_int64(s, 8, record->http_status);
    if (outcome) {
        if (outcome->location.len > 0)
            bind_slice(s, 9, outcome->location);
        bind_bytes(s, 10, outcome->fields);
        bool packed = false;
        bind_bytes(s, 11, sqlite_pack_body(sqlite, outcome->body, &packed));
        sqlite3_bind_int(s, 12, packed);
    } else {
        sqlite3_bind_int(s, 12, 0);
    }
    sqlite3_bind_int64(s, 13, record->token);
    sqlite3_bind_int64(s, 14, record->attempts);
    sqlite3_bind_int64(s, 15, record->started_at);
    bind_identity(s, 16, row);
    enum backend_status status = sqlite_run(sqlite, s);
    if (status != BACKEND_OK)
        return status;
    status = delete_by_id(sqlite, SQL_PENDING_DELETE, row->id);
    CHECK(status != BACKEND_OK || sqlite3_changes(sqlite->db) == 1);
    return status;
}

enum backend_status sqlite_remove(struct backend *backend, const struct store_row *row)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    enum backend_status status = sqlite_keys_set(sqlite, &row->key_hash, 0);
    if (status != BACKEND_OK)
        return status;
    status = delete_by_id(sqlite, SQL_PENDING_DELETE, row->id);
    if (status != BACKEND_OK || sqlite3_changes(sqlite->db) == 1)
        return status;
    return delete_by_id(sqlite, SQL_OUTCOME_DELETE, row->id);
}

enum backend_status sqlite_outcome(struct backend *backend, const struct store_row *row,
                                   struct outcome **ret_outcome)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_OUTCOME_READ);
    sqlite3_bind_int64(s, 1, row->id);
    int code = sqlite3_step(s);
    if (code != SQLITE_ROW) {
        sqlite3_reset(s);
        return sqlite_status(sqlite, code == SQLITE_DONE ? SQLITE_CORRUPT : code);
    }
    struct slice body = column_slice(s, 3);
    enum backend_status status = BACKEND_OK;
    if (sqlite3_column_int(s, 4) && sqlite3_column_type(s, 3) != SQLITE_NULL)
        status = sqlite_unpack_body(sqlite, row->id, body, &body);
    struct outcome *outcome = NULL;
    if (status == BACKEND_OK)
        outcome = outcome_new(sqlite3_column_int(s, 1), sqlite3_column_int(s, 0) == RECORD_FAILED,
                              column_slice(s, 2), body);
    sqlite3_reset(s);
    if (!outcome)
        return status == BACKEND_OK ? BACKEND_NO_MEMORY : status;
    *ret_outcome = outcome;
    return BACKEND_OK;
}
