/* SPDX-License-Identifier: Apache-2.0 */
/* Acts of operators, in pawl_audit. */
#include "store/sqlite.h"

static void bind_text(sqlite3_stmt *s, int at, struct slice text)
{
    sqlite3_bind_text64(s, at, text.at ? text.at : "", text.len, SQLITE_STATIC, SQLITE_UTF8);
}

static struct slice column_text(sqlite3_stmt *s, int at)
{
    const void *bytes = sqlite3_column_blob(s, at);
    return slice_make(bytes, (size_t)sqlite3_column_bytes(s, at));
}

enum backend_status sqlite_add_audit(struct backend *backend, const struct store_audit *audit)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_AUDIT_INSERT);
    int at = 1;
    sqlite3_bind_int64(s, at++, audit->id);
    sqlite3_bind_int64(s, at++, audit->at);
    bind_text(s, at++, audit->actor);
    sqlite3_bind_int(s, at++, audit->act);
    bind_text(s, at++, audit->tenant);
    bind_text(s, at++, audit->rule);
    bind_text(s, at++, audit->key);
    sqlite3_bind_int64(s, at++, audit->token);
    sqlite3_bind_int(s, at++, audit->from);
    sqlite3_bind_int(s, at++, audit->to);
    sqlite3_bind_int(s, at++, audit->http_status);
    sqlite3_bind_int(s, at++, audit->force);
    return sqlite_run(sqlite, s);
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
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_AUDIT_LIST);
    sqlite3_bind_int64(s, 1, list->after);
    sqlite3_bind_int64(s, 2, list->limit > INT64_MAX ? INT64_MAX : (int64_t)list->limit);
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        struct store_audit audit;
        if (!read_audit(s, &audit)) {
            code = SQLITE_CORRUPT;
            break;
        }
        list->each(list->argument, &audit);
    }
    sqlite3_reset(s);
    return sqlite_status(sqlite, code);
}

enum backend_status sqlite_sweep_audits(struct sqlite_backend *sqlite, int64_t now, size_t max,
                                        size_t *ret_steps)
{
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_AUDIT_SWEEP);
    sqlite3_bind_int64(s, 1, now - STORE_AUDIT_KEEP_US);
    sqlite3_bind_int64(s, 2, (int64_t)max);
    enum backend_status status = sqlite_run(sqlite, s);
    if (status == BACKEND_OK)
        *ret_steps = (size_t)sqlite3_changes(sqlite->db);
    return status;
}
