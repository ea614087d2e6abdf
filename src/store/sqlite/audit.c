/* SPDX-License-Identifier: Apache-2.0 */
/* Acts of operators, in pawl_audit. */
#include "store/sqlite/sqlite.h"

static struct slice column_text(sqlite3_stmt *s, int at)
{
    const void *bytes = sqlite3_column_blob(s, at);
    return slice_make(bytes, (size_t)sqlite3_column_bytes(s, at));
}

enum backend_status sqlite_add_audit(struct sqlite_backend *sqlite, const struct store_audit *audit)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_AUDIT_INSERT);
    sqlite_bind_number(&binding, audit->id);
    sqlite_bind_number(&binding, audit->at);
    sqlite_bind_text(&binding, audit->actor);
    sqlite_bind_number(&binding, audit->act);
    sqlite_bind_text(&binding, audit->tenant);
    sqlite_bind_text(&binding, audit->rule);
    sqlite_bind_text(&binding, audit->key);
    sqlite_bind_number(&binding, audit->token);
    sqlite_bind_number(&binding, audit->from);
    sqlite_bind_number(&binding, audit->to);
    sqlite_bind_number(&binding, audit->http_status);
    sqlite_bind_number(&binding, audit->force);
    return sqlite_run_bound(sqlite, &binding);
}

/* False: it is none that pawl wrote. */
static bool read_audit(sqlite3_stmt *s, struct store_audit *ret_audit)
{
    int at = 0;
    ret_audit->id = sqlite3_column_int64(s, at++);
    ret_audit->at = sqlite3_column_int64(s, at++);
    ret_audit->actor = column_text(s, at++);
    int act = sqlite3_column_int(s, at++);
    ret_audit->tenant = column_text(s, at++);
    ret_audit->rule = column_text(s, at++);
    ret_audit->key = column_text(s, at++);
    ret_audit->token = sqlite3_column_int64(s, at++);
    int from = sqlite3_column_int(s, at++);
    int to = sqlite3_column_int(s, at++);
    ret_audit->http_status = sqlite3_column_int(s, at++);
    ret_audit->force = sqlite3_column_int(s, at++);
    ret_audit->act = (enum store_act)act;
    ret_audit->from = (enum record_status)from;
    ret_audit->to = (enum record_status)to;
    return act >= STORE_ACT_RESOLVE && act <= STORE_ACT_FORGET && from >= RECORD_ABSENT &&
           from <= RECORD_UNKNOWN && to >= RECORD_ABSENT && to <= RECORD_UNKNOWN;
}

enum backend_status sqlite_list_audits(struct backend *backend, const struct store_audit_list *list)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_AUDIT_LIST);
    sqlite_bind_number(&binding, list->after);
    sqlite_bind_number(&binding, list->limit > INT64_MAX ? INT64_MAX : (int64_t)list->limit);
    int code;
    while ((code = sqlite_step(&binding)) == SQLITE_ROW) {
        struct store_audit audit;
        if (!read_audit(binding.statement, &audit)) {
            code = SQLITE_CORRUPT;
            break;
        }
        list->each(list->argument, &audit);
    }
    sqlite3_reset(binding.statement);
    return sqlite_status(sqlite, code);
}

enum backend_status sqlite_sweep_audits(struct sqlite_backend *sqlite, int64_t now, size_t max,
                                        size_t *ret_steps)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_AUDIT_SWEEP);
    sqlite_bind_number(&binding, now - STORE_AUDIT_KEEP_US);
    sqlite_bind_number(&binding, (int64_t)max);
    enum backend_status status = sqlite_run_bound(sqlite, &binding);
    if (status == BACKEND_OK)
        *ret_steps = (size_t)sqlite3_changes(sqlite->db);
    return status;
}
