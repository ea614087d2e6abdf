/* SPDX-License-Identifier: Apache-2.0 */
#include "inside/extension.h"

#include "base/duration.h"
#include "base/mem.h"
#include <stdio.h>

/* The program's functions, through which every other source of the extension calls SQLite. */
SQLITE_EXTENSION_INIT1

#define SQLITE_LEAST 3034000 /* sqlite3_txn_state */

/* ---- errors ---- */

const char *extension_state(enum pawl_error error)
{
    static const char *const states[] = {
        [PAWL_AGAIN] = "again",     [PAWL_STALE] = "PW001",
        [PAWL_MALFORMED] = "PW004", [PAWL_INVALID] = "22023",
        [PAWL_OTHER] = "23505",     [PAWL_CLOSED] = "PW003",
        [PAWL_FAILED] = "failed",   [PAWL_NO_MEMORY] = "out of memory",
    };
    return states[error];
}

int extension_code(enum pawl_error error)
{
    return error == PAWL_AGAIN       ? SQLITE_BUSY
           : error == PAWL_NO_MEMORY ? SQLITE_NOMEM
                                     : SQLITE_ERROR;
}

static void report(sqlite3_context *context, const struct pawl *pawl, enum pawl_error error)
{
    char text[INSIDE_PROBLEM_SIZE + 32];
    snprintf(text, sizeof text, "%s: %s", extension_state(error), pawl_problem(pawl));
    sqlite3_result_error(context, text, -1);
    sqlite3_result_error_code(context, extension_code(error));
}

/* ---- the handle ---- */

void extension_connect(struct extension *extension)
{
    extension->connected++;
}

void extension_disconnect(struct extension *extension)
{
    if (--extension->connected > 0)
        return;
    pawl_free(extension->pawl);
    extension->pawl = NULL;
}

/* Preparing a statement connects what it names. */
static bool connect_one(struct extension *extension)
{
    sqlite3_stmt *statement = NULL;
    int code =
        extension->connected > 0
            ? SQLITE_OK
            : sqlite3_prepare_v2(extension->db, "SELECT 1 FROM pawl_begin", -1, &statement, NULL);
    sqlite3_finalize(statement);
    return code == SQLITE_OK;
}

struct pawl *extension_pawl(struct extension *extension)
{
    if (!extension->pawl && connect_one(extension))
        extension->pawl = pawl_on_sqlite(extension->db);
    return extension->pawl;
}

/* ---- arguments ---- */

bool extension_span(sqlite3_value *value, int64_t *ret_ms)
{
    int64_t us = 0;
    int type = sqlite3_value_type(value);
    struct slice text = slice_of((const char *)sqlite3_value_text(value));
    bool is_forever = type == SQLITE_NULL || slice_eq(text, SLICE("forever"));
    if (is_forever) {
        *ret_ms = PAWL_FOREVER;
    } else if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) {
        double seconds = sqlite3_value_double(value);
        *ret_ms = seconds < 1e13 ? (int64_t)(seconds * 1000) : -1;
    } else {
        *ret_ms = duration_parse(text, &us) ? us / 1000 : -1;
    }
    return *ret_ms >= 0;
}

static const char *text_or_null(int n, sqlite3_value **arguments, int at)
{
    return at < n ? (const char *)sqlite3_value_text(arguments[at]) : NULL;
}

/* ---- functions ---- */

/* The connection's handle; NULL: the error is reported. */
static struct pawl *pawl_of(sqlite3_context *context)
{
    struct pawl *pawl = extension_pawl(sqlite3_user_data(context));
    if (!pawl)
        sqlite3_result_error_nomem(context);
    return pawl;
}

static void tell(sqlite3_context *context, const struct pawl *pawl, enum pawl_error error,
                 const char *result)
{
    if (error)
        report(context, pawl, error);
    else
        sqlite3_result_text(context, result, -1, SQLITE_STATIC);
}

/* pawl_complete(token [, http_code [, body [, headers [, result_ref]]]]) */
static void complete(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    struct pawl *pawl = pawl_of(context);
    bool already = false;
    struct pawl_outcome outcome = {.http_code = n > 1 ? sqlite3_value_int(arguments[1]) : 200};
    if (!pawl)
        return;
    if (n > 2) {
        bool is_text = sqlite3_value_type(arguments[2]) == SQLITE_TEXT;
        outcome.body = is_text ? (const void *)sqlite3_value_text(arguments[2])
                               : sqlite3_value_blob(arguments[2]);
        outcome.body_size = outcome.body ? (size_t)sqlite3_value_bytes(arguments[2]) : 0;
    }
    outcome.headers = text_or_null(n, arguments, 3);
    outcome.result_ref = text_or_null(n, arguments, 4);
    enum pawl_error error =
        pawl_complete(pawl, sqlite3_value_int64(arguments[0]), &outcome, &already);
    tell(context, pawl, error, already ? "already" : "stored");
}

/* pawl_release(token) */
static void release(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    struct pawl *pawl = pawl_of(context);
    bool already = false;
    (void)n;
    if (!pawl)
        return;
    enum pawl_error error = pawl_release(pawl, sqlite3_value_int64(arguments[0]), &already);
    tell(context, pawl, error, already ? "already" : "released");
}

/* pawl_publish(type, event_id, data [, tenant]) */
static void publish(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    struct pawl *pawl = pawl_of(context);
    bool already = false;
    if (!pawl)
        return;
    const struct pawl_event event = {.type = text_or_null(n, arguments, 0),
                                     .id = text_or_null(n, arguments, 1),
                                     .data = text_or_null(n, arguments, 2),
                                     .tenant = text_or_null(n, arguments, 3)};
    enum pawl_error error = pawl_publish(pawl, &event, &already);
    tell(context, pawl, error, already ? "replayed" : "stored");
}

/* pawl_payload_hash(body) */
static void payload_hash(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    char hash[PAWL_HASH_SIZE];
    bool is_text = sqlite3_value_type(arguments[0]) == SQLITE_TEXT;
    const void *body =
        is_text ? (const void *)sqlite3_value_text(arguments[0]) : sqlite3_value_blob(arguments[0]);
    (void)n;
    if (sqlite3_value_type(arguments[0]) == SQLITE_NULL)
        return;
    if (pawl_payload_hash(body, (size_t)sqlite3_value_bytes(arguments[0]), hash) != PAWL_OK)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text(context, hash, -1, SQLITE_TRANSIENT);
}

/* pawl_install() */
static void install(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    struct pawl *pawl = pawl_of(context);
    (void)n, (void)arguments;
    if (pawl)
        tell(context, pawl, pawl_install(pawl), "installed");
}

static int declare_functions(sqlite3 *db, struct extension *extension)
{
    static const struct {
        const char *name;
        int least, most; /* arguments */
        void (*call)(sqlite3_context *context, int n, sqlite3_value **arguments);
    } functions[] = {{"pawl_complete", 1, 5, complete},
                     {"pawl_release", 1, 1, release},
                     {"pawl_publish", 3, 4, publish},
                     {"pawl_payload_hash", 1, 1, payload_hash},
                     {"pawl_install", 0, 0, install}};
    int code = SQLITE_OK;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (int n = functions[i].least; n <= functions[i].most && code == SQLITE_OK; n++)
            code = sqlite3_create_function_v2(db, functions[i].name, n,
                                              SQLITE_UTF8 | SQLITE_DIRECTONLY, extension,
                                              functions[i].call, NULL, NULL, NULL);
    return code;
}

/* To declare the functions once more would take the handle from statements that have it. */
static bool is_loaded(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    bool loaded =
        sqlite3_prepare_v2(db, "SELECT pawl_install()", -1, &statement, NULL) == SQLITE_OK;
    sqlite3_finalize(statement);
    return loaded;
}

int sqlite3_pawl_init(sqlite3 *db, char **ret_problem, const sqlite3_api_routines *api)
{
    sqlite3_api = api;
    if (sqlite3_libversion_number() < SQLITE_LEAST) {
        *ret_problem =
            sqlite3_mprintf("pawl needs SQLite 3.34 or later, this is %s", sqlite3_libversion());
        return SQLITE_ERROR;
    }
    if (is_loaded(db))
        return SQLITE_OK;
    struct extension *extension = mem_zalloc(1, sizeof *extension);
    if (!extension)
        return SQLITE_NOMEM;
    extension->db = db;
    int code = extension_declare_rows(db, extension);
    return code == SQLITE_OK ? declare_functions(db, extension) : code;
}
