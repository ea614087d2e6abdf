/* SPDX-License-Identifier: Apache-2.0 */
#include "inside/extension.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/time/duration.h"
#include <assert.h>
#include <stdio.h>

/* The program's functions, through which every other source of the extension calls SQLite. */
SQLITE_EXTENSION_INIT1

#define SQLITE_LEAST 3034000 /* sqlite3_txn_state */
#define SECONDS_END 1e13     /* of a span; in milliseconds they fit */

/* ---- errors ---- */

const char *extension_state(enum pawl_error error)
{
    static const char *const states[] = {
        [PAWL_AGAIN] = "again",     [PAWL_STALE] = "PW001",
        [PAWL_MALFORMED] = "PW004", [PAWL_INVALID] = "22023",
        [PAWL_OTHER] = "23505",     [PAWL_CLOSED] = "PW003",
        [PAWL_FAILED] = "failed",   [PAWL_NO_MEMORY] = "out of memory",
    };
    static_assert(COUNT_OF(states) == PAWL_NO_MEMORY + 1, "a word each");
    CHECK(states[error]); /* of PAWL_OK there is none */
    return states[error];
}

int extension_code(enum pawl_error error)
{
    return error == PAWL_AGAIN       ? SQLITE_BUSY
           : error == PAWL_NO_MEMORY ? SQLITE_NOMEM
                                     : SQLITE_ERROR;
}

static void report_sql_error(sqlite3_context *context, const struct pawl *pawl,
                             enum pawl_error error)
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
    CHECK(extension->connected > 0);
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
        *ret_ms = seconds >= 0 && seconds < SECONDS_END ? (int64_t)(seconds * 1000) : -1;
    } else {
        *ret_ms = duration_parse(text, &us) ? us / 1000 : -1;
    }
    return *ret_ms >= 0;
}

enum pawl_error extension_check(sqlite3_value *value)
{
    if (sqlite3_value_type(value) == SQLITE_NULL)
        return PAWL_OK;
    const char *text = (const char *)sqlite3_value_text(value);
    if (!text)
        return PAWL_NO_MEMORY;
    return strlen(text) == (size_t)sqlite3_value_bytes(value) ? PAWL_OK : PAWL_MALFORMED;
}

static const char *text_or_null(int n, sqlite3_value **arguments, int at)
{
    return at < n ? (const char *)sqlite3_value_text(arguments[at]) : NULL;
}

/* ---- functions ---- */

/* The connection's handle, once the texts among the arguments are known to be whole: all but
 * `body`. NULL: the error is reported. */
static struct pawl *pawl_of(sqlite3_context *context, int n, sqlite3_value **arguments, int body)
{
    struct pawl *pawl = extension_pawl(sqlite3_user_data(context));
    enum pawl_error error = pawl ? PAWL_OK : PAWL_NO_MEMORY;
    for (int i = 0; i < n && !error; i++)
        error = i == body ? PAWL_OK : extension_check(arguments[i]);
    if (error == PAWL_NO_MEMORY)
        sqlite3_result_error_nomem(context);
    else if (error)
        sqlite3_result_error(context, "PW004: an argument has a NUL byte in it", -1);
    return error ? NULL : pawl;
}

static void tell_result(sqlite3_context *context, const struct pawl *pawl, enum pawl_error error,
                        const char *result)
{
    if (error)
        report_sql_error(context, pawl, error);
    else
        sqlite3_result_text(context, result, -1, SQLITE_STATIC);
}

/* One that is none, where it is out of range. */
static int sqlite_code_of(sqlite3_value *value)
{
    int64_t code = sqlite3_value_int64(value);
    return code >= 0 && code < 1000 ? (int)code : 0;
}

/* False: no memory. */
static bool read_sql_body(sqlite3_value *value, const void **ret_body, size_t *ret_size)
{
    bool is_text = sqlite3_value_type(value) == SQLITE_TEXT;
    const void *body =
        is_text ? (const void *)sqlite3_value_text(value) : sqlite3_value_blob(value);
    size_t size = (size_t)sqlite3_value_bytes(value);
    *ret_body = body;
    *ret_size = size;
    return body || size == 0;
}

/* pawl_complete(token [, http_code [, body [, headers [, result_ref]]]]) */
static void complete_in_sql(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    struct pawl *pawl = pawl_of(context, n, arguments, 2);
    bool already = false;
    struct pawl_outcome outcome = {.http_code = 200};
    if (!pawl)
        return;
    if (n > 1)
        outcome.http_code = sqlite_code_of(arguments[1]);
    if (n > 2 && !read_sql_body(arguments[2], &outcome.body, &outcome.body_size)) {
        sqlite3_result_error_nomem(context);
        return;
    }
    outcome.headers = text_or_null(n, arguments, 3);
    outcome.result_ref = text_or_null(n, arguments, 4);
    enum pawl_error error =
        pawl_complete(pawl, sqlite3_value_int64(arguments[0]), &outcome, &already);
    tell_result(context, pawl, error, already ? "already" : "stored");
}

/* pawl_release(token) */
static void release_value(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    struct pawl *pawl = pawl_of(context, n, arguments, -1);
    bool already = false;
    if (!pawl)
        return;
    enum pawl_error error = pawl_release(pawl, sqlite3_value_int64(arguments[0]), &already);
    tell_result(context, pawl, error, already ? "already" : "released");
}

/* pawl_publish(type, event_id, data [, tenant]) */
static void publish_in_sql(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    struct pawl *pawl = pawl_of(context, n, arguments, -1);
    bool already = false;
    if (!pawl)
        return;
    const struct pawl_event event = {.type = text_or_null(n, arguments, 0),
                                     .id = text_or_null(n, arguments, 1),
                                     .data = text_or_null(n, arguments, 2),
                                     .tenant = text_or_null(n, arguments, 3)};
    enum pawl_error error = pawl_publish(pawl, &event, &already);
    tell_result(context, pawl, error, already ? "replayed" : "stored");
}

/* pawl_payload_hash(body) */
static void payload_hash_in_sql(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    char hash[PAWL_HASH_SIZE];
    const void *body;
    size_t size;
    (void)n;
    if (sqlite3_value_type(arguments[0]) == SQLITE_NULL)
        return;
    if (!read_sql_body(arguments[0], &body, &size) ||
        pawl_payload_hash(body, size, hash) != PAWL_OK)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text(context, hash, -1, SQLITE_TRANSIENT);
}

/* pawl_install() */
static void install_value(sqlite3_context *context, int n, sqlite3_value **arguments)
{
    struct pawl *pawl = pawl_of(context, n, arguments, -1);
    if (pawl)
        tell_result(context, pawl, pawl_install(pawl), "installed");
}

static void undeclare_functions(void *extension)
{
    extension_undeclare(extension);
}

static int declare_functions(sqlite3 *db, struct extension *extension)
{
    static const struct {
        const char *name;
        int least, most; /* arguments */
        void (*call)(sqlite3_context *context, int n, sqlite3_value **arguments);
    } functions[] = {{"pawl_complete", 1, 5, complete_in_sql},
                     {"pawl_release", 1, 1, release_value},
                     {"pawl_publish", 3, 4, publish_in_sql},
                     {"pawl_payload_hash", 1, 1, payload_hash_in_sql},
                     {"pawl_install", 0, 0, install_value}};
    int code = SQLITE_OK;
    for (size_t i = 0; i < COUNT_OF(functions); i++)
        for (int n = functions[i].least; n <= functions[i].most && code == SQLITE_OK; n++) {
            extension->declared++;
            code = sqlite3_create_function_v2(db, functions[i].name, n,
                                              SQLITE_UTF8 | SQLITE_DIRECTONLY, extension,
                                              functions[i].call, NULL, NULL, undeclare_functions);
        }
    return code;
}

/* To declare the functions once more would take the handle from statements that have it. SQLITE_OK:
 * they are there; SQLITE_EMPTY: they are not. */
static int find_functions(sqlite3 *db)
{
    static const char none[] = "no such function";
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, "SELECT pawl_install()", -1, &statement, NULL);
    sqlite3_finalize(statement);
    bool lacks = code == SQLITE_ERROR && strncmp(sqlite3_errmsg(db), none, strlen(none)) == 0;
    return lacks ? SQLITE_EMPTY : code;
}

int sqlite3_pawl_init(sqlite3 *db, char **ret_problem, const sqlite3_api_routines *api)
{
    sqlite3_api = api;
    if (sqlite3_libversion_number() < SQLITE_LEAST) {
        *ret_problem =
            sqlite3_mprintf("pawl needs SQLite 3.34 or later, this is %s", sqlite3_libversion());
        return SQLITE_ERROR;
    }
    int code = find_functions(db);
    if (code != SQLITE_EMPTY)
        return code;
    struct extension *extension = mem_zalloc(1, sizeof *extension);
    if (!extension)
        return SQLITE_NOMEM;
    extension->db = db;
    extension->declared = 1; /* by this call */
    code = extension_declare_rows(db, extension);
    if (code == SQLITE_OK)
        code = declare_functions(db, extension);
    extension_undeclare(extension);
    return code;
}
