/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that return a row: eponymous virtual tables, whose hidden columns are the
 * arguments. A call is a scan of one row; it is made when the scan begins. */
#include "inside/extension.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/time/timestamp.h"
#include <assert.h>

#define ARGUMENTS_MAX 10

enum which { CALL_BEGIN, CALL_CLAIM, CALL_TRANSITION, CALL_RECEIVE, CALL_COUNT };

/* A call that is being made: arguments in their order, NULL: not given. */
struct call {
    struct pawl *pawl;
    sqlite3_value *arguments[ARGUMENTS_MAX];
    union {
        struct pawl_begun begun;
        struct pawl_claimed claimed;
        struct pawl_transition transition;
        struct pawl_received received;
    } result;
};

struct function {
    const char *name;
    const char *columns; /* as CREATE TABLE has them: results, then arguments */
    int n_results;
    int n_arguments;
    int n_needed; /* the first so many are to be given */
    enum pawl_error (*call)(struct call *call);
    void (*show)(const struct call *call, sqlite3_context *context, int column);
};

struct table {
    sqlite3_vtab base; /* first */
    struct extension *extension;
    const struct function *function;
};

struct cursor {
    sqlite3_vtab_cursor base; /* first */
    struct call call;
    struct arena texts; /* of its result: the handle's, until the next call of whatever function */
    bool is_over;
};
static_assert(offsetof(struct table, base) == 0 && offsetof(struct cursor, base) == 0,
              "SQLite has pointers to what they begin with");

/* ---- arguments and results ---- */

static const char *call_text(const struct call *call, int at)
{
    return call->arguments[at] ? (const char *)sqlite3_value_text(call->arguments[at]) : NULL;
}

static bool is_null(const struct call *call, int at)
{
    return !call->arguments[at] || sqlite3_value_type(call->arguments[at]) == SQLITE_NULL;
}

/* 0: not given. */
static enum pawl_error read_sql_span(const struct call *call, int at, const char *name,
                                     int64_t *ret_ms)
{
    *ret_ms = 0;
    if (!call->arguments[at] || (extension_span(call->arguments[at], ret_ms) && *ret_ms > 0))
        return PAWL_OK;
    return inside_fail(call->pawl, PAWL_INVALID,
                       "%s must be a duration such as 24h, a number of seconds above 0, or forever",
                       name);
}

static void show_text(sqlite3_context *context, const char *value)
{
    sqlite3_result_text(context, value, -1, SQLITE_TRANSIENT);
}

/* A time as the views show it. */
static void show_time(sqlite3_context *context, int64_t us)
{
    char room[TIMESTAMP_LEN + 1];
    struct buf time BUF_AUTO = buf_on(room, sizeof room, TIMESTAMP_LEN);
    if (us != 0 && timestamp_print(&time, us))
        sqlite3_result_text(context, time.at, (int)time.len, SQLITE_TRANSIENT);
}

/* ---- pawl_begin ---- */

enum { TENANT, RULE, KEY, PAYLOAD_HASH, TTL, ONCE, ONCE_TTL, DUPLICATE, TOMBSTONE, TARGET_HASH };
static_assert(TARGET_HASH + 1 == ARGUMENTS_MAX, "no function has more arguments than pawl_begin");

static enum pawl_error read_duplicate(const struct call *call, enum pawl_duplicate *ret_duplicate)
{
    const char *name = call_text(call, DUPLICATE);
    static const char *const names[] = {[PAWL_DUPLICATE_REPLAY] = "replay",
                                        [PAWL_DUPLICATE_REJECT] = "reject",
                                        [PAWL_DUPLICATE_ACK] = "ack"};
    for (int i = 0; i < 3; i++)
        if (!name || strcmp(name, names[i]) == 0) {
            *ret_duplicate = (enum pawl_duplicate)i;
            return PAWL_OK;
        }
    return inside_fail(call->pawl, PAWL_INVALID, "duplicate must be replay, reject or ack");
}

static enum pawl_error read_sql_spans(const struct call *call, struct pawl_operation *operation)
{
    enum pawl_error error = read_sql_span(call, TTL, "ttl", &operation->ttl_ms);
    if (!error && !is_null(call, ONCE_TTL))
        error = read_sql_span(call, ONCE_TTL, "once_ttl", &operation->once_ttl_ms);
    bool has_tombstone = !is_null(call, TOMBSTONE);
    if (!error && has_tombstone &&
        !extension_span(call->arguments[TOMBSTONE], &operation->tombstone_ms))
        return inside_fail(call->pawl, PAWL_INVALID, "tombstone must be a duration such as 24h");
    return error;
}

static enum pawl_error begin_in_sql(struct call *call)
{
    struct pawl_operation operation = {
        .tenant = call_text(call, TENANT),
        .rule = call_text(call, RULE),
        .key = call_text(call, KEY),
        .payload_hash = call_text(call, PAYLOAD_HASH),
        .target_hash = call_text(call, TARGET_HASH),
        .once = call_text(call, ONCE),
    };
    enum pawl_error error = read_sql_spans(call, &operation);
    if (!error)
        error = read_duplicate(call, &operation.duplicate);
    if (error)
        return error;
    return pawl_begin(call->pawl, &operation, &call->result.begun);
}

static void show_begun_column(const struct call *call, sqlite3_context *context, int column)
{
    const struct pawl_begun *begun = &call->result.begun;
    switch (column) {
    case 0:
        return show_text(context, pawl_decision_name(begun->decision));
    case 1:
        if (begun->decision == PAWL_PROCEED)
            sqlite3_result_int64(context, begun->token);
        return;
    case 2:
        if (begun->http_code != 0)
            sqlite3_result_int(context, begun->http_code);
        return;
    case 3:
        return show_text(context, begun->headers);
    case 4:
        if (begun->body)
            sqlite3_result_blob64(context, begun->body, begun->body_size, SQLITE_TRANSIENT);
        return;
    case 5:
        return show_text(context, begun->result_ref);
    case 6:
        return show_time(context, begun->first_at_us);
    default:
        return show_text(context, begun->warning);
    }
}

/* ---- pawl_claim ---- */

static enum pawl_error claim_event(struct call *call)
{
    const struct pawl_claim claim = {.tenant = call_text(call, 0),
                                     .rule = call_text(call, 1),
                                     .key = call_text(call, 2),
                                     .row = call_text(call, 3)};
    return pawl_claim(call->pawl, &claim, &call->result.claimed);
}

static void show_claimed(const struct call *call, sqlite3_context *context, int column)
{
    const struct pawl_claimed *claimed = &call->result.claimed;
    if (column == 0)
        sqlite3_result_int(context, claimed->claimed);
    else if (column == 1)
        show_text(context, claimed->existing);
    else
        show_time(context, claimed->at_us);
}

/* ---- pawl_transition ---- */

static enum pawl_error call_transition(struct call *call)
{
    sqlite3_value *seq = call->arguments[5];
    const struct pawl_action action = {
        .tenant = call_text(call, 0),
        .machine = call_text(call, 1),
        .id = call_text(call, 2),
        .action = call_text(call, 3),
        .action_id = call_text(call, 4),
        .has_seq = seq && sqlite3_value_type(seq) != SQLITE_NULL,
        .seq = seq ? sqlite3_value_int64(seq) : 0,
    };
    return pawl_transition(call->pawl, &action, &call->result.transition);
}

static void show_transition(const struct call *call, sqlite3_context *context, int column)
{
    const struct pawl_transition *transition = &call->result.transition;
    switch (column) {
    case 0:
        return show_text(context, pawl_move_name(transition->decision));
    case 1:
        return sqlite3_result_int(context, transition->replayed);
    case 2:
        return show_text(context, transition->from_state);
    case 3:
        return show_text(context, transition->to_state);
    default:
        return show_time(context, transition->at_us);
    }
}

/* ---- pawl_receive ---- */

static enum pawl_error call_receive(struct call *call)
{
    struct pawl_incoming incoming = {.source = call_text(call, 0),
                                     .event_id = call_text(call, 1),
                                     .payload_hash = call_text(call, 2)};
    enum pawl_error error = read_sql_span(call, 3, "keep", &incoming.keep_ms);
    if (error)
        return error;
    return pawl_receive(call->pawl, &incoming, &call->result.received);
}

static void show_received_column(const struct call *call, sqlite3_context *context, int column)
{
    const struct pawl_received *received = &call->result.received;
    if (column == 0)
        show_text(context, pawl_decision_name(received->decision));
    else if (column == 1)
        show_time(context, received->received_at_us);
    else
        show_text(context, received->result);
}

static const struct function functions[CALL_COUNT] = {
    [CALL_BEGIN] = {"pawl_begin",
                    "decision, token, http_code, headers, body, result_ref, first_at, warning,"
                    " tenant HIDDEN, rule HIDDEN, key HIDDEN, payload_hash HIDDEN, ttl HIDDEN,"
                    " once HIDDEN, once_ttl HIDDEN, duplicate HIDDEN, tombstone HIDDEN,"
                    " target_hash HIDDEN",
                    8, 10, 3, begin_in_sql, show_begun_column},
    [CALL_CLAIM] = {"pawl_claim",
                    "claimed, existing, at, tenant HIDDEN, rule HIDDEN, key HIDDEN, \"row\" HIDDEN",
                    3, 4, 4, claim_event, show_claimed},
    [CALL_TRANSITION] = {"pawl_transition",
                         "decision, replayed, from_state, to_state, at, tenant HIDDEN,"
                         " machine HIDDEN, id HIDDEN, action HIDDEN, action_id HIDDEN, seq HIDDEN",
                         5, 6, 5, call_transition, show_transition},
    [CALL_RECEIVE] = {"pawl_receive",
                      "decision, received_at, result, source HIDDEN, event_id HIDDEN,"
                      " payload_hash HIDDEN, keep HIDDEN",
                      3, 4, 2, call_receive, show_received_column},
};

/* ---- the virtual table ---- */

/* What SQLite gives back with each connect. */
struct declared {
    struct extension *extension;
    const struct function *function;
};

static int connect(sqlite3 *db, void *argument, int n, const char *const *names,
                   sqlite3_vtab **ret_table, char **ret_problem)
{
    const struct declared *declared = argument;
    (void)n, (void)names, (void)ret_problem;
    struct table *table = mem_zalloc(1, sizeof *table);
    char *sql = sqlite3_mprintf("CREATE TABLE x(%s)", declared->function->columns);
    int code = table && sql ? sqlite3_declare_vtab(db, sql) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code == SQLITE_OK)
        code = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
    if (code != SQLITE_OK) {
        mem_free(table);
        return code;
    }
    table->extension = declared->extension;
    table->function = declared->function;
    extension_connect(table->extension);
    *ret_table = &table->base;
    return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *base)
{
    struct table *table = (struct table *)base;
    extension_disconnect(table->extension);
    mem_free(table);
    return SQLITE_OK;
}

/* Which arguments are given, as bits of idxNum; their values come in this order. */
static int plan(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct function *function = ((const struct table *)base)->function;
    int given[ARGUMENTS_MAX], next = 0;
    CHECK(function->n_needed <= function->n_arguments && function->n_arguments <= ARGUMENTS_MAX);
    for (int i = 0; i < function->n_arguments; i++)
        given[i] = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        int at = info->aConstraint[i].iColumn - function->n_results;
        if (at < 0 || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        bool twice = given[at] >= 0;
        if (twice || !info->aConstraint[i].usable)
            return SQLITE_CONSTRAINT;
        given[at] = i;
    }
    info->idxNum = 0;
    for (int i = 0; i < function->n_arguments; i++) {
        if (given[i] < 0)
            continue;
        info->idxNum |= 1 << i;
        info->aConstraintUsage[given[i]].argvIndex = ++next;
        info->aConstraintUsage[given[i]].omit = 1;
    }
    info->estimatedRows = 1;
    info->estimatedCost = 1;
    info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret_cursor)
{
    (void)base;
    struct cursor *cursor = mem_zalloc(1, sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    cursor->texts = arena_make(SIZE_MAX);
    *ret_cursor = &cursor->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    arena_fini(&cursor->texts);
    mem_free(cursor);
    return SQLITE_OK;
}

static int refuse_in_table(struct table *table, enum pawl_error error, const char *why)
{
    sqlite3_free(table->base.zErrMsg);
    table->base.zErrMsg =
        sqlite3_mprintf("%s: %s: %s", extension_state(error), table->function->name, why);
    return extension_code(error);
}

/* The cursor's arena for the handle's, which has the texts. */
static void keep_texts(struct cursor *cursor)
{
    struct arena texts = cursor->texts;
    arena_reset(&texts);
    cursor->texts = cursor->call.pawl->texts;
    cursor->call.pawl->texts = texts;
}

static int make_call(struct cursor *cursor, int given, sqlite3_value **values)
{
    struct table *table = (struct table *)cursor->base.pVtab;
    const struct function *function = table->function;
    int needed = (1 << function->n_needed) - 1;
    cursor->call = (struct call){.pawl = extension_pawl(table->extension)};
    if (!cursor->call.pawl)
        return SQLITE_NOMEM;
    if ((given & needed) != needed)
        return refuse_in_table(table, PAWL_INVALID, "an argument is missing");
    enum pawl_error error = PAWL_OK;
    for (int i = 0; i < function->n_arguments && !error; i++)
        if (given >> i & 1)
            error = extension_check(cursor->call.arguments[i] = *values++);
    if (error)
        return refuse_in_table(table, error, "an argument has a NUL byte in it");
    error = function->call(&cursor->call);
    if (error)
        return refuse_in_table(table, error, pawl_problem(cursor->call.pawl));
    keep_texts(cursor);
    return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *unused, int n,
                  sqlite3_value **values)
{
    struct cursor *cursor = (struct cursor *)base;
    (void)unused, (void)n;
    int code = make_call(cursor, given, values);
    cursor->is_over = code != SQLITE_OK;
    return code;
}

static int next(sqlite3_vtab_cursor *cursor)
{
    ((struct cursor *)cursor)->is_over = true;
    return SQLITE_OK;
}

static int is_over(sqlite3_vtab_cursor *cursor)
{
    return ((struct cursor *)cursor)->is_over;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int at)
{
    const struct cursor *cursor = (struct cursor *)base;
    const struct function *function = ((const struct table *)base->pVtab)->function;
    if (at < function->n_results)
        function->show(&cursor->call, context, at);
    return SQLITE_OK;
}

static int row_id(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret_id)
{
    (void)cursor;
    *ret_id = 1;
    return SQLITE_OK;
}

/* No xCreate: there is no CREATE VIRTUAL TABLE of it. */
static const sqlite3_module module = {
    .xConnect = connect,
    .xDisconnect = disconnect,
    .xBestIndex = plan,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = is_over,
    .xColumn = column,
    .xRowid = row_id,
};

void extension_undeclare(struct extension *extension)
{
    CHECK(extension->declared > 0);
    if (--extension->declared == 0)
        mem_free(extension);
}

static void undeclare_tables(void *argument)
{
    struct declared *declared = argument;
    extension_undeclare(declared->extension);
    mem_free(declared);
}

int extension_declare_rows(sqlite3 *db, struct extension *extension)
{
    int code = SQLITE_OK;
    for (int i = 0; i < CALL_COUNT && code == SQLITE_OK; i++) {
        struct declared *declared = mem_zalloc(1, sizeof *declared);
        if (!declared)
            return SQLITE_NOMEM;
        *declared = (struct declared){extension, &functions[i]};
        extension->declared++;
        code = sqlite3_create_module_v2(db, functions[i].name, &module, declared, undeclare_tables);
    }
    return code;
}
