/* SPDX-License-Identifier: Apache-2.0 */
/* Many records at once: heartbeat, expiry in small slices, listing, gauges. */
#include "base/check.h"
#include "base/crash.h"
#include "store/sqlite.h"

#define SWEEP_MAX 64 /* rows a slice */

struct due {
    int64_t id;
    int64_t gone_at;
    enum record_status status;
    struct digest key_hash;
};

/* Which expired rows, and how many of them. */
struct slice_of_work {
    enum sqlite_statement query;
    int64_t now;
    size_t max;
};

enum backend_status sqlite_heartbeat(struct backend *backend, int64_t owner, int64_t now)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_PENDING_HEARTBEAT);
    sqlite3_bind_int64(s, 1, owner);
    sqlite3_bind_int64(s, 2, now);
    return sqlite_run(sqlite, s);
}

/* Reads at most `max` due rows; deleting while reading would disturb the cursor. */
static enum backend_status collect(struct sqlite_backend *sqlite, const struct slice_of_work *work,
                                   struct due *due, size_t *ret_n)
{
    sqlite3_stmt *s = sqlite_use(sqlite, work->query);
    sqlite3_bind_int64(s, 1, work->now);
    sqlite3_bind_int64(s, 2, (int64_t)work->max);
    size_t n = 0;
    int code = SQLITE_ROW;
    while (n < work->max && (code = sqlite3_step(s)) == SQLITE_ROW) {
        struct due *row = &due[n++];
        bool final = work->query == SQL_OUTCOME_DUE;
        row->id = sqlite3_column_int64(s, 0);
        if (sqlite3_column_bytes(s, 1) != DIGEST_SIZE) {
            code = SQLITE_CORRUPT;
            break;
        }
        memcpy(row->key_hash.bytes, sqlite3_column_blob(s, 1), DIGEST_SIZE);
        row->status = final ? (enum record_status)sqlite3_column_int(s, 2) : RECORD_PENDING;
        row->gone_at = final ? sqlite3_column_int64(s, 3) : 0;
    }
    sqlite3_reset(s);
    *ret_n = n;
    return code == SQLITE_ROW || code == SQLITE_DONE ? BACKEND_OK : sqlite_status(sqlite, code);
}

static enum backend_status sweep_row(struct sqlite_backend *sqlite, const struct due *due,
                                     int64_t now, struct backend_state *state)
{
    if (due->gone_at > now) {
        sqlite3_stmt *s = sqlite_use(sqlite, SQL_OUTCOME_STRIP);
        sqlite3_bind_int64(s, 1, due->id);
        return sqlite_run(sqlite, s);
    }
    state->pending -= due->status == RECORD_PENDING;
    state->complete -= due->status == RECORD_COMPLETE;
    state->failed -= due->status == RECORD_FAILED;
    struct store_row row = {.id = due->id, .key_hash = due->key_hash};
    return sqlite_remove(&sqlite->backend, &row);
}

static enum backend_status sweep_table(struct sqlite_backend *sqlite,
                                       const struct slice_of_work *work,
                                       struct backend_state *state, size_t *steps)
{
    struct due due[SWEEP_MAX];
    size_t n = 0;
    CHECK(work->max <= SWEEP_MAX);
    enum backend_status status = collect(sqlite, work, due, &n);
    for (size_t i = 0; i < n && status == BACKEND_OK; i++) {
        CRASH_POINT(inside_sweep);
        status = sweep_row(sqlite, &due[i], work->now, state);
        (*steps)++;
    }
    return status;
}

enum backend_status sqlite_sweep(struct backend *backend, int64_t now, size_t max,
                                 struct backend_state *state, size_t *ret_steps)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    size_t steps = 0;
    struct slice_of_work finals = {SQL_OUTCOME_DUE, now, max};
    enum backend_status status = sweep_table(sqlite, &finals, state, &steps);
    struct slice_of_work released = {SQL_PENDING_EXPIRED, now, max - steps};
    if (status == BACKEND_OK && steps < max)
        status = sweep_table(sqlite, &released, state, &steps);
    size_t audits = 0;
    if (status == BACKEND_OK && steps < max)
        status = sqlite_sweep_audits(sqlite, now, max - steps, &audits);
    if (status == BACKEND_OK)
        *ret_steps = steps + audits;
    return status;
}

static void bind_filter(sqlite3_stmt *s, int at, struct slice filter)
{
    if (filter.at)
        sqlite3_bind_text64(s, at, filter.at, filter.len, SQLITE_STATIC, SQLITE_UTF8);
}

static enum backend_status list_row(struct sqlite_backend *sqlite, const struct store_list *list,
                                    const struct record_world *world, int64_t id, size_t *listed)
{
    struct store_row row;
    enum backend_status status = sqlite_find_row(sqlite, id, &row);
    if (status != BACKEND_OK || record_is_gone(&row.record, world->now))
        return status;
    enum record_lease lease = record_lease(&row.record, world, NULL);
    if (list->lapsed_only && lease != RECORD_LEASE_LAPSED)
        return BACKEND_OK;
    list->each(list->argument, &row, lease);
    (*listed)++;
    return BACKEND_OK;
}

enum backend_status sqlite_list(struct backend *backend, const struct store_list *list,
                                const struct record_world *world)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_LIST);
    bind_filter(s, 1, list->tenant);
    bind_filter(s, 2, list->rule);
    bind_filter(s, 3, list->key);
    sqlite3_bind_int(s, 4, list->status);
    sqlite3_bind_int64(s, 5, list->after);
    sqlite3_bind_int64(s, 6, list->up_to > 0 ? list->up_to : INT64_MAX);
    size_t listed = 0;
    int code = SQLITE_DONE;
    enum backend_status status = BACKEND_OK;
    while (status == BACKEND_OK && listed < list->limit && (code = sqlite3_step(s)) == SQLITE_ROW)
        status = list_row(sqlite, list, world, sqlite3_column_int64(s, 0), &listed);
    sqlite3_reset(s);
    if (status != BACKEND_OK || code == SQLITE_ROW || code == SQLITE_DONE)
        return status;
    return sqlite_status(sqlite, code);
}

/* One number, or 0 when there is no row. */
static enum backend_status read_number(struct sqlite_backend *sqlite, sqlite3_stmt *s,
                                       int64_t *ret_number)
{
    int code = sqlite3_step(s);
    int64_t number = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_reset(s);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return sqlite_status(sqlite, code);
    *ret_number = number;
    return BACKEND_OK;
}

/* A lease of our own is never lapsed, so only those of other owners are looked at (record_lease).
 */
enum backend_status sqlite_gauge(struct backend *backend, const struct record_world *world,
                                 struct backend_gauges *ret_gauges)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    struct backend_gauges gauges = {0};
    sqlite3_stmt *s = sqlite_use(sqlite, SQL_STALE_COUNT);
    sqlite3_bind_int64(s, 1, world->self);
    sqlite3_bind_int64(s, 2, world->now);
    sqlite3_bind_int64(s, 3, world->serve);
    sqlite3_bind_int(s, 4, world->serve_alive);
    sqlite3_bind_int64(s, 5, STORE_GAUGE_MOST);
    enum backend_status status = read_number(sqlite, s, &gauges.stale);
    if (status == BACKEND_OK)
        status =
            read_number(sqlite, sqlite_use(sqlite, SQL_UNKNOWN_OLDEST), &gauges.unknown_oldest);
    if (status == BACKEND_OK)
        *ret_gauges = gauges;
    return status;
}
