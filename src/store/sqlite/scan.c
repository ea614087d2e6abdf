/* SPDX-License-Identifier: Apache-2.0 */
/* Many records at once: expiry in small slices, listing, gauges. */
#include "base/check.h"
#include "base/crash.h"
#include "store/counts.h"
#include "store/sqlite/sqlite.h"

#define SWEEP_MAX 64 /* rows a slice */

struct due {
    int64_t id;
    int64_t gone_at;
    enum record_status status;
    struct digest key_hash;
    bool has_value; /* a once value may lead to it */
};

/* Which expired rows, and how many of them. */
struct slice_of_work {
    enum sqlite_statement query;
    int64_t now;
    size_t max;
};

/* Reads at most SWEEP_MAX due rows; deleting while reading would disturb the cursor. */
static enum backend_status collect(struct sqlite_backend *sqlite, const struct slice_of_work *work,
                                   struct due *due, size_t *ret_n)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, work->query);
    sqlite3_stmt *s = binding.statement;
    sqlite_bind_number(&binding, work->now);
    sqlite_bind_number(&binding, (int64_t)work->max);
    size_t n = 0;
    int code = SQLITE_ROW;
    while (n < work->max && (code = sqlite_step(&binding)) == SQLITE_ROW) {
        struct due *row = &due[n++];
        row->id = sqlite3_column_int64(s, 0);
        if (sqlite3_column_bytes(s, 1) != DIGEST_SIZE) {
            code = SQLITE_CORRUPT;
            break;
        }
        memcpy(row->key_hash.bytes, sqlite3_column_blob(s, 1), DIGEST_SIZE);
        row->status = (enum record_status)sqlite3_column_int(s, 2);
        row->gone_at = sqlite3_column_int64(s, 3);
        row->has_value = sqlite3_column_bytes(s, 4) > 0;
    }
    sqlite3_reset(s);
    *ret_n = n;
    return code == SQLITE_ROW || code == SQLITE_DONE ? BACKEND_OK : sqlite_status(sqlite, code);
}

static enum backend_status sweep_row(struct sqlite_backend *sqlite, const struct due *due,
                                     int64_t now)
{
    if (due->gone_at > now) {
        struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_STRIP);
        sqlite_bind_number(&binding, due->id);
        return sqlite_run_bound(sqlite, &binding);
    }
    backend_count_swept(&sqlite->state.counts, due->status);
    struct store_row row = {.id = due->id, .key_hash = due->key_hash};
    arena_reset(&sqlite->texts);
    enum backend_status status =
        due->has_value ? sqlite_find_row(sqlite, due->id, &sqlite->texts, &row) : BACKEND_OK;
    return status == BACKEND_OK ? sqlite_remove(sqlite, &row) : status;
}

/* `*ret_n`: how many there were. */
static enum backend_status sweep_slice(struct sqlite_backend *sqlite,
                                       const struct slice_of_work *work, size_t *ret_n)
{
    struct due due[SWEEP_MAX];
    enum backend_status status = collect(sqlite, work, due, ret_n);
    for (size_t i = 0; i < *ret_n && status == BACKEND_OK; i++) {
        CRASH_POINT(inside_sweep);
        status = sweep_row(sqlite, &due[i], work->now);
    }
    return status;
}

/* `max` rows, or all that are due. */
static enum backend_status sweep_table(struct sqlite_backend *sqlite, struct slice_of_work work,
                                       size_t *steps)
{
    const size_t most = work.max;
    size_t n = 0, done = 0;
    enum backend_status status = BACKEND_OK;
    do {
        work.max = most - done < SWEEP_MAX ? most - done : SWEEP_MAX;
        status = sweep_slice(sqlite, &work, &n);
        done += n;
    } while (status == BACKEND_OK && n == work.max && done < most);
    *steps += done;
    return status;
}

static enum backend_status sweep(struct sqlite_backend *sqlite, int64_t now, size_t max,
                                 size_t *ret_steps)
{
    size_t steps = 0;
    struct slice_of_work finals = {SQL_OUTCOME_DUE, now, max};
    enum backend_status status = sweep_table(sqlite, finals, &steps);
    struct slice_of_work released = {SQL_PENDING_EXPIRED, now, max - steps};
    if (status == BACKEND_OK && steps < max)
        status = sweep_table(sqlite, released, &steps);
    size_t bound = 0, rows = 0;
    if (status == BACKEND_OK && steps < max)
        status = sqlite_sweep_bound(sqlite, now, max - steps, &bound);
    steps += bound;
    if (status == BACKEND_OK && steps < max)
        status = sqlite_sweep_tables(sqlite, now, max - steps, &rows);
    if (status == BACKEND_OK)
        *ret_steps = steps + rows;
    return status;
}

static void bind_filter(struct sqlite_binding *binding, struct slice filter)
{
    if (filter.at)
        sqlite_bind_text(binding, filter);
    else
        sqlite_bind_null(binding);
}

static enum backend_status list_row(struct sqlite_backend *sqlite, const struct store_list *list,
                                    const struct record_world *world, int64_t id, bool *ret_more)
{
    struct store_row row;
    arena_reset(&sqlite->texts);
    enum backend_status status = sqlite_find_row(sqlite, id, &sqlite->texts, &row);
    if (status != BACKEND_OK || record_is_gone(&row.record, world->now))
        return status;
    enum record_lease lease = record_lease(&row.record, world, NULL);
    if (!list->lapsed_only || lease == RECORD_LEASE_LAPSED)
        *ret_more = list->each(list->argument, &row, lease);
    return BACKEND_OK;
}

static struct sqlite_binding bind_list(struct sqlite_backend *sqlite, const struct store_list *list)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, list->newest ? SQL_LIST_NEWEST : SQL_LIST);
    bind_filter(&binding, list->tenant);
    bind_filter(&binding, list->rule);
    bind_filter(&binding, list->key);
    sqlite_bind_number(&binding, list->statuses);
    sqlite_bind_number(&binding, list->after);
    sqlite_bind_number(&binding, list->most < INT64_MAX ? (int64_t)list->most : INT64_MAX);
    bind_filter(&binding, list->once);
    return binding;
}

enum backend_status sqlite_list(struct backend *backend, const struct store_list *list,
                                const struct record_world *world, int64_t *ret_seen)
{
    struct sqlite_backend *sqlite = sqlite_of(backend);
    struct sqlite_binding binding = bind_list(sqlite, list);
    sqlite3_stmt *s = binding.statement;
    enum backend_status status = BACKEND_OK;
    int64_t seen = 0;
    size_t n = 0;
    bool more = true;
    int code = SQLITE_ROW;
    while (status == BACKEND_OK && more && (code = sqlite_step(&binding)) == SQLITE_ROW) {
        seen = sqlite3_column_int64(s, 0);
        n++;
        if (sqlite3_column_int(s, 1))
            status = list_row(sqlite, list, world, seen, &more);
    }
    sqlite3_reset(s);
    *ret_seen = more && n < list->most ? 0 : seen;
    return status == BACKEND_OK ? sqlite_status(sqlite, code) : status;
}

/* The numbers of one row, or 0 when there is none. */
static enum backend_status read_numbers(struct sqlite_backend *sqlite,
                                        const struct sqlite_binding *binding,
                                        int64_t *const *ret_numbers, int n)
{
    int code = sqlite_step(binding);
    for (int i = 0; i < n && (code == SQLITE_ROW || code == SQLITE_DONE); i++)
        *ret_numbers[i] = code == SQLITE_ROW ? sqlite3_column_int64(binding->statement, i) : 0;
    sqlite3_reset(binding->statement);
    return sqlite_status(sqlite, code);
}

static enum backend_status count_expired(struct sqlite_backend *sqlite, int64_t now,
                                         struct backend_gauges *gauges)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, SQL_EXPIRED_COUNT);
    sqlite_bind_number(&binding, now);
    sqlite_bind_number(&binding, STORE_EXPIRED_MOST);
    int64_t *const numbers[] = {&gauges->expired, &gauges->expired_oldest};
    return read_numbers(sqlite, &binding, numbers, 2);
}

/* Leases are counted by owner: of another process once its longest has lapsed, or as a dead serve.
 */
static enum backend_status gauge(struct sqlite_backend *sqlite, struct backend_gauges *ret_gauges)
{
    const int64_t now = sqlite->state.now;
    struct backend_gauges gauges = {0};
    struct sqlite_binding stale = sqlite_bind(sqlite, SQL_STALE_COUNT);
    sqlite_bind_number(&stale, sqlite->backend.self.incarnation);
    sqlite_bind_number(&stale, now);
    sqlite_bind_number(&stale, sqlite->state.serve.incarnation);
    sqlite_bind_number(&stale, sqlite->state.serve.alive);
    int64_t *const count = &gauges.stale, *const since = &gauges.unknown_oldest;
    enum backend_status status = read_numbers(sqlite, &stale, &count, 1);
    struct sqlite_binding oldest = sqlite_bind(sqlite, SQL_UNKNOWN_OLDEST);
    if (status == BACKEND_OK)
        status = read_numbers(sqlite, &oldest, &since, 1);
    if (status == BACKEND_OK)
        status = count_expired(sqlite, now, &gauges);
    if (status == BACKEND_OK)
        *ret_gauges = gauges;
    return status;
}

enum backend_status sqlite_do_chores(struct sqlite_backend *sqlite, struct backend_chores *chores)
{
    enum backend_status status = BACKEND_OK;
    if (chores->beat)
        status = sqlite_beat(sqlite, &chores->beaten);
    if (status == BACKEND_OK && chores->sweep_most > 0)
        status = sweep(sqlite, sqlite->state.now, chores->sweep_most, &chores->swept);
    if (status == BACKEND_OK && chores->gauge)
        status = gauge(sqlite, &chores->gauges);
    return status;
}
