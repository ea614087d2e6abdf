/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of the SQLite backend, what is bound to them, and what their failures mean. */
#include "base/check.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"
#include <errno.h>
#include <stdio.h>

/* A file that could not grow, for a reason that passes. Not a failed sync: what it was to make
 * durable may be lost (contract section 2, invariant 8). */
static bool lacks_space(int code)
{
    /* What the failed call left: sqlite3_system_errno knows nothing of one inside a COMMIT. */
    bool no_room = errno == ENOSPC || errno == EDQUOT;
    return no_room && (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE);
}

static enum backend_status status_of_code(int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: /* a race for the WAL's locks */
    case SQLITE_SCHEMA:   /* somebody made an index meanwhile */
        return BACKEND_BUSY;
    case SQLITE_FULL:
        return BACKEND_FULL;
    case SQLITE_NOMEM:
        return BACKEND_NO_MEMORY;
    default:
        return code == SQLITE_READONLY_DBMOVED ? BACKEND_AWAY : BACKEND_FATAL;
    }
}

bool sqlite_fail(struct sqlite_backend *sqlite, int code)
{
    if (!sqlite_ok(sqlite))
        return false;
    code = lacks_space(code) ? SQLITE_FULL : code;
    sqlite->status = status_of_code(code);
    snprintf(sqlite->backend.problem, sizeof sqlite->backend.problem, "%s: %s%s", sqlite->path,
             code == SQLITE_ERROR ? sqlite3_errmsg(sqlite->db) : sqlite3_errstr(code),
             code == SQLITE_CORRUPT ? "; restore a backup" : "");
    return false;
}

static int prepare_statement(struct sqlite_backend *sqlite, enum sqlite_statement name)
{
#define X(name, sql) [SQL_##name] = sql,
#define OWN(sql) sql
    static const char *const own[SQL_COUNT] = {SQLITE_STATEMENTS(X)};
#undef OWN
#define OWN(sql) ""
    static const char *const foreign[SQL_COUNT] = {SQLITE_STATEMENTS(X)};
#undef OWN
#undef X
    const char *const *texts = sqlite->is_foreign ? foreign : own;
    return sqlite3_prepare_v3(sqlite->db, texts[name], -1, SQLITE_PREPARE_PERSISTENT,
                              &sqlite->statements[name], NULL);
}

/* Without memory for it all parameters are bound each time. */
static void note_parameters(struct sqlite_backend *sqlite, enum sqlite_statement name)
{
    int n = sqlite3_bind_parameter_count(sqlite->statements[name]);
    if (n > 0)
        sqlite->held[name] = mem_zalloc((size_t)n, sizeof *sqlite->held[name]);
}

bool sqlite_prepare_all(struct sqlite_backend *sqlite)
{
    for (int name = 0; name < SQL_COUNT; name++) {
        if (sqlite->is_foreign && name == SQL_TERMS_WRITE)
            continue; /* of columns that a file of an application has not */
        if (prepare_statement(sqlite, name) != SQLITE_OK)
            return false;
        note_parameters(sqlite, name);
    }
    return true;
}

void sqlite_finalize_all(struct sqlite_backend *sqlite)
{
    for (int name = 0; name < SQL_COUNT; name++) {
        sqlite3_finalize(sqlite->statements[name]);
        mem_free(sqlite->held[name]);
    }
}

bool sqlite_prepare_rollback(struct sqlite_backend *sqlite)
{
    return prepare_statement(sqlite, SQL_ROLLBACK) == SQLITE_OK;
}

struct sqlite_binding sqlite_bind(struct sqlite_backend *sqlite, enum sqlite_statement name)
{
    if (!sqlite->statements[name] && sqlite_ok(sqlite))
        sqlite_note(sqlite, prepare_statement(sqlite, name));
    return (struct sqlite_binding){
        .sqlite = sqlite, .statement = sqlite->statements[name], .held = sqlite->held[name]};
}

/* What the next parameter holds from now on, where it can be known. False: it does already. */
static bool move_to_parameter(struct sqlite_binding *b, struct sqlite_parameter now)
{
    struct sqlite_parameter *held = b->held ? &b->held[b->at] : NULL;
    b->at++;
    if (!held)
        return true;
    bool same = held->kind == now.kind && held->number == now.number && now.kind != PARAMETER_OTHER;
    *held = now;
    return !same;
}

/* After a call that binds. What a parameter holds that could not be bound is not known. */
static void note_bound(struct sqlite_binding *b, int code)
{
    if (code == SQLITE_OK)
        return;
    if (b->held)
        b->held[b->at - 1].kind = PARAMETER_OTHER;
    sqlite_fail(b->sqlite, code);
}

void sqlite_bind_number(struct sqlite_binding *b, int64_t number)
{
    if (move_to_parameter(b, (struct sqlite_parameter){PARAMETER_NUMBER, number}))
        note_bound(b, sqlite3_bind_int64(b->statement, b->at, number));
}

void sqlite_bind_null(struct sqlite_binding *b)
{
    if (move_to_parameter(b, (struct sqlite_parameter){.kind = PARAMETER_NULL}))
        note_bound(b, sqlite3_bind_null(b->statement, b->at));
}

void sqlite_bind_text(struct sqlite_binding *b, struct slice text)
{
    const char *at = text.at ? text.at : "";
    move_to_parameter(b, (struct sqlite_parameter){.kind = PARAMETER_OTHER});
    sqlite_note(b->sqlite,
                sqlite3_bind_text64(b->statement, b->at, at, text.len, SQLITE_STATIC, SQLITE_UTF8));
}

void sqlite_bind_bytes(struct sqlite_binding *b, struct slice bytes)
{
    const char *at = bytes.at ? bytes.at : "";
    move_to_parameter(b, (struct sqlite_parameter){.kind = PARAMETER_OTHER});
    sqlite_note(b->sqlite, sqlite3_bind_blob64(b->statement, b->at, at, bytes.len, SQLITE_STATIC));
}

bool sqlite_step(const struct sqlite_binding *binding)
{
    if (!sqlite_ok(binding->sqlite))
        return false;
    CHECK(binding->at == sqlite3_bind_parameter_count(binding->statement));
    int code = sqlite3_step(binding->statement);
    return code == SQLITE_ROW || (code != SQLITE_DONE && sqlite_fail(binding->sqlite, code));
}

bool sqlite_run(const struct sqlite_binding *binding)
{
    sqlite_step(binding);
    sqlite3_reset(binding->statement);
    return sqlite_ok(binding->sqlite);
}

bool sqlite_change(const struct sqlite_binding *binding)
{
    return sqlite_run(binding) && sqlite3_changes(binding->sqlite->db) > 0;
}

bool sqlite_run_named(struct sqlite_backend *sqlite, enum sqlite_statement name)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, name);
    return sqlite_run(&binding);
}

/* By the value, and not by sqlite3_column_blob and _bytes, which each look the column up. The
 * connection has no mutex, or its caller holds it, so its values need none. */
static struct slice value_bytes(sqlite3_value *value, const void *bytes)
{
    return slice_make(bytes, bytes ? (size_t)sqlite3_value_bytes(value) : 0);
}

struct slice sqlite_column_bytes(sqlite3_stmt *s, int at)
{
    sqlite3_value *value = sqlite3_column_value(s, at);
    return value_bytes(value, sqlite3_value_blob(value));
}

/* As bytes where that is the same: SQLite copies a text that is asked for as one. */
struct slice sqlite_column_text(const struct sqlite_backend *sqlite, sqlite3_stmt *s, int at)
{
    sqlite3_value *value = sqlite3_column_value(s, at);
    return sqlite->is_utf16 ? value_bytes(value, sqlite3_value_text(value))
                            : value_bytes(value, sqlite3_value_blob(value));
}

/* ---- outside of a call ---- */

int sqlite_ask_number(sqlite3 *db, const char *sql, int64_t *ret_number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

int sqlite_ask_word(sqlite3 *db, const char *sql, char *room, size_t size)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    const char *word = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (code == SQLITE_ROW && !word)
        code = SQLITE_NOMEM;
    if (word)
        snprintf(room, size, "%s", word);
    sqlite3_finalize(statement);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}
