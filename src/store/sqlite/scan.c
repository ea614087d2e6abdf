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

/* Reads at most `max` due rows; deleting while reading would disturb the cursor. Returns how
 * many. */
static size_t collect_due(struct sqlite_backend *sqlite, enum sqlite_statement query, size_t max,
                          struct due *due)
{
    struct sqlite_binding binding = sqlite_bind(sqlite, query);
    sqlite3_stmt *s = binding.statement;
    sqlite_bind_number(&binding, sqlite->state.now);
    sqlite_bind_number(&binding, (int64_t)max);
    size_t n = 0;
    while (n < max && sqlite_step(&binding)) {
        struct due *row = &due[n++];
        row->id = sqlite3_column_int64(s, 0);
        if (sqlite3_column_bytes(s, 1) == DIGEST_SIZE)
            memcpy(row->key_hash.bytes, sqlite3_column_blob(s, 1), DIGEST_SIZE);
        else
            sqlite_fail(sqlite, SQLITE_CORRUPT);
        row->status = (enum record_status)sqlite3_column_int(s, 2);
        row->gone_at = sqlite3_column_int64(s, 3);
        row->has_value = sqlite3_column_bytes(s, 4) > 0;
    }
    sqlite3_reset(s);
    return n;
}

static void sweep_row(struct sqlite_backend *sqlite, const struct due *due)
{
    if (due->gone_at > sqlite->state.now) {
        struct sqlite_binding binding = sqlite_bind(sqlite, SQL_OUTCOME_STRIP);
        sqlite_bind_number(&binding, due->id);
        sqlite_run(&binding);
        return;
    }
    backend_count_swept(&sqlite->state.counts, due->status);
    struct store_row row = {.id = due->id, .key_hash = due->key_hash};
    arena_reset(&sqlite->texts);
    if (!due->has_value || sqlite_find_row(sqlite, due->id, &sqlite->texts, &row))
        sqlite_remove(sqlite, &row);
}

/* `max` rows, or all that are due. How many there were. */
static size_t sweep_table(struct sqlite_backend *sqlite, enum sqlite_statement query, size_t max)
{
    struct due due[SWEEP_MAX];
    size_t n = SWEEP_MAX, done = 0;
    for (; n == SWEEP_MAX && done < max && sqlite_ok(sqlite); done += n) {
        n = collect_due(sqlite, query, max - done < SWEEP_MAX ? max - done : SWEEP_MAX, due);
        for (size_t i = 0; i < n && sqlite_ok(sqlite); i++) {
            CRASH_POINT(inside_sweep);
            sweep_row(sqlite, &due[i]);
        }
    }
    return done;
}

static size_t sweep_all(struct sqlite_backend *sqlite, size_t max)
{
    size_t steps = sweep_table(sqlite, SQL_OUTCOME_DUE, max);
    steps += sweep_table(sqlite, SQL_PENDING_EXPIRED, max - steps);
    steps += sqlite_sweep_bound(sqlite, sqlite->state.now, max - steps);
    return steps + sqlite_sweep_tables(sqlite, max - steps);
}

static void bind_filter(struct sqlite_binding *binding, struct slice filter)
{
    if (filter.at)
        sqlite_bind_text(binding, filter);
    else
        sqlite_bind_null(binding);
}

/* False: no further one is wanted. */
static bool list_row(struct sqlite_backend *sqlite, const struct store_list *list,
                     const struct record_world *world, int64_t id)
{
    struct store_row row;
    arena_reset(&sqlite->texts);
    if (!sqlite_find_row(sqlite, id, &sqlite->texts, &row) ||
        record_is_absent(&row.record, world->now))
        return true;
    enum record_lease lease = record_lease(&row.record, world, NULL);
    bool shown = !list->lapsed_only || lease == RECORD_LEASE_LAPSED;
    return !shown || list->each(list->argument, &row, lease);
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
    struct sqlite_backend *sqlite = sqlite_call(backend);
    struct sqlite_binding binding = bind_list(sqlite, list);
    sqlite3_stmt *s = binding.statement;
    int64_t seen = 0;
    size_t n = 0;
    bool more = true;
    while (more && sqlite_step(&binding)) {
        seen = sqlite3_column_int64(s, 0);
        n++;
        if (sqlite3_column_int(s, 1))
            more = list_row(sqlite, list, world, seen);
    }
    sqlite3_reset(s);
    *ret_seen = more && n < list->most ? 0 : seen;
    return sqlite->status;
}

/* The numbers of one row; 0 where there is none. `ret_second` NULL: there is one number. */
static void read_two_numbers(const struct sqlite_binding *binding, int64_t *ret_first,
                             int64_t *ret_second)
{
    bool any = sqlite_step(binding);
    *ret_first = any ? sqlite3_column_int64(binding->statement, 0) : 0;
    if (ret_second)
        *ret_second = any ? sqlite3_column_int64(binding->statement, 1) : 0;
    sqlite3_reset(binding->statement);
}

/* Leases are counted by owner: of another process once its longest has lapsed, or as a dead serve.
 */
static void read_sqlite_gauges(struct sqlite_backend *sqlite, struct backend_gauges *ret_gauges)
{
    const int64_t now = sqlite->state.now;
    struct backend_gauges gauges = {0};
    struct sqlite_binding stale = sqlite_bind(sqlite, SQL_STALE_COUNT);
    sqlite_bind_number(&stale, sqlite->backend.self.incarnation);
    sqlite_bind_number(&stale, now);
    sqlite_bind_number(&stale, sqlite->state.serve.alive);
    sqlite_bind_number(&stale, store_lock_life_held(&sqlite->lock, STORE_DRAINER));
    read_two_numbers(&stale, &gauges.stale, NULL);
    struct sqlite_binding oldest = sqlite_bind(sqlite, SQL_UNKNOWN_OLDEST);
    read_two_numbers(&oldest, &gauges.unknown_oldest, NULL);
    struct sqlite_binding expired = sqlite_bind(sqlite, SQL_EXPIRED_COUNT);
    sqlite_bind_number(&expired, now);
    sqlite_bind_number(&expired, STORE_EXPIRED_MOST);
    read_two_numbers(&expired, &gauges.expired, &gauges.expired_oldest);
    if (sqlite_ok(sqlite))
        *ret_gauges = gauges;
}

/* Again at those that were odd: whoever reads one notes it, at most where it stood. */
static void look_at_odd(struct sqlite_backend *sqlite)
{
    struct backend_odd *odd = &sqlite->backend.odd_records;
    size_t n = odd->n;
    odd->n = 0;
    for (size_t i = 0; i < n && sqlite_ok(sqlite); i++) {
        struct store_row row;
        arena_reset(&sqlite->texts);
        sqlite_find_row(sqlite, odd->ids[i], &sqlite->texts, &row);
        bool is_named = row.record.status == RECORD_ABSENT || row.once.len > 0 ||
                        sqlite_keys_find(sqlite, &row.key_hash) == row.id;
        if (!is_named)
            backend_hold_row(&sqlite->backend, &row);
    }
}

void sqlite_do_chores(struct sqlite_backend *sqlite, struct backend_chores *chores)
{
    if (chores->beat)
        chores->beaten = sqlite_beat(sqlite);
    if (chores->sweep_most > 0)
        chores->swept = sweep_all(sqlite, chores->sweep_most);
    if (chores->gauge)
        read_sqlite_gauges(sqlite, &chores->gauges);
    if (!chores->gauge)
        return;
    sqlite_find_odd(sqlite);
    look_at_odd(sqlite);
}
