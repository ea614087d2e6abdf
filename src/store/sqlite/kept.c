/* SPDX-License-Identifier: Apache-2.0 */
/* The kept response of a final record. */
#include "store/sqlite/sqlite.h"

/* A packed body stays packed. NULL: no memory. */
static struct outcome *read_kept_outcome(sqlite3_stmt *s, bool packed)
{
    int status = sqlite3_column_int(s, 1);
    bool failed = sqlite3_column_int(s, 0) == RECORD_FAILED;
    struct slice fields = sqlite_column_bytes(s, 2), body = sqlite_column_bytes(s, 3);
    return packed ? outcome_new_packed(status, failed, fields, body)
                  : outcome_new(status, failed, fields, body);
}

enum backend_status sqlite_outcome(struct backend *backend, const struct store_row *row,
                                   uint64_t most, struct outcome **ret_outcome, uint64_t *ret_size)
{
    struct sqlite_backend *sqlite = sqlite_call(backend);
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_READ);
    sqlite3_stmt *s = binding.statement;
    sqlite_bind_number(&binding, row->id);
    if (!sqlite_step(&binding)) {
        sqlite3_reset(s);
        sqlite_fail(sqlite, SQLITE_CORRUPT);
        return sqlite->status;
    }
    struct slice body = sqlite_column_bytes(s, 3);
    bool packed = sqlite3_column_int(s, 4) && sqlite3_column_type(s, 3) != SQLITE_NULL;
    size_t body_size = packed ? outcome_unpacked_size(body) : body.len;
    *ret_outcome = NULL;
    *ret_size = sizeof(struct outcome) + sqlite_column_bytes(s, 2).len + body_size;
    bool fits = *ret_size <= most;
    if (fits)
        *ret_outcome = read_kept_outcome(s, packed);
    sqlite3_reset(s);
    return fits && !*ret_outcome ? BACKEND_NO_MEMORY : BACKEND_OK;
}
