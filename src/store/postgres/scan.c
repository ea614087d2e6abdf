/* SPDX-License-Identifier: Apache-2.0 */
/* Many records at once: lists, and which acquisitions have ended. */
#include "store/postgres/postgres.h"

/* $1 after, $2 most, $3 tenant, $4 rule, $5 key, $6 once (NULL: any), $7 statuses (0: any). One row
 * at least: up to which id it looked, and at how many. */
#define WANTED                                                                                     \
    " FROM seen s LEFT JOIN slice r ON ($3::bytea IS NULL OR r.tenant = $3)"                       \
    " AND ($4 IS NULL OR r.rule = $4) AND ($6 IS NULL OR r.once = $6)"                             \
    " AND ($5 IS NULL OR r.key = $5 OR"                                                            \
    "  r.id IN (SELECT holder FROM pawl.bound WHERE key = $5))"                                    \
    " AND ($7 = 0 OR ($7 >> r.status::int) & 1 = 1)"                                               \
    " LEFT JOIN pawl.owner o ON o.incarnation = r.owner ORDER BY r.id"
#define LIST_OLDEST                                                                                \
    "WITH slice AS MATERIALIZED (SELECT * FROM pawl.record WHERE id > $1 ORDER BY id LIMIT $2),"
#define LIST_NEWEST                                                                                \
    "WITH slice AS MATERIALIZED (SELECT * FROM pawl.record WHERE id > $1 ORDER BY id DESC"         \
    " LIMIT $2),"
/* Of records nobody holds only the unknown ones, which an index finds. */
#define LIST_UNKNOWN                                                                               \
    "WITH slice AS MATERIALIZED (SELECT r.* FROM pawl.unheld u JOIN pawl.record r ON r.id = u.id"  \
    " WHERE u.status = 4 AND u.id > $1 ORDER BY u.id LIMIT $2),"
#define LIST_REST                                                                                  \
    " seen AS (SELECT max(id) AS last, count(*) AS n FROM slice)"                                  \
    " SELECT s.last, s.n, o.beat_at, r.id, r.version" POSTGRES_READ(POSTGRES_NAME) WANTED

enum { AT_LAST, AT_SEEN, AT_BEAT, AT_ROW };

static void add_list_params(struct postgres_params *params, const struct store_list *list)
{
    int64_t most = list->most < INT64_MAX ? (int64_t)list->most : INT64_MAX;
    postgres_params_clear(params);
    postgres_add_number(params, list->after);
    postgres_add_number(params, most);
    postgres_add_filter(params, list->tenant);
    postgres_add_filter(params, list->rule);
    postgres_add_filter(params, list->key);
    postgres_add_filter(params, list->once);
    postgres_add_number(params, list->statuses);
}

/* False: no more is wanted. */
static bool show_scanned_row(struct postgres_backend *postgres, const PGresult *result, int at,
                             const struct store_list *list, const struct record_world *world)
{
    struct store_row row;
    postgres_read_row(postgres, result, at, AT_ROW, &row);
    postgres_judge(postgres, &row.record, postgres_number(result, at, AT_BEAT));
    if (record_is_absent(&row.record, world->now))
        return true;
    enum record_lease lease = record_lease(&row.record, world, NULL);
    bool wanted = !list->lapsed_only || lease == RECORD_LEASE_LAPSED;
    return !wanted || list->each(list->argument, &row, lease);
}

enum backend_status postgres_list(struct backend *backend, const struct store_list *list,
                                  const struct record_world *world, int64_t *ret_seen)
{
    struct postgres_backend *postgres = postgres_of(backend);
    enum backend_status status = postgres_start(postgres);
    if (status != BACKEND_OK)
        return status;
    add_list_params(&postgres->params, list);
    postgres_queue_limits(postgres, POSTGRES_READS);
    bool unknown = list->statuses == 1U << RECORD_UNKNOWN;
    postgres_queue(postgres,
                   list->newest ? LIST_NEWEST LIST_REST
                   : unknown    ? LIST_UNKNOWN LIST_REST
                                : LIST_OLDEST LIST_REST,
                   &postgres->params);
    status = postgres_finish(postgres);
    if (status != BACKEND_OK)
        return status;
    const PGresult *result = postgres->results[1];
    int64_t last = postgres_number(result, 0, AT_LAST);
    bool ended = (uint64_t)postgres_number(result, 0, AT_SEEN) < list->most;
    for (int at = 0; at < PQntuples(result) && !PQgetisnull(result, at, AT_ROW); at++)
        if (!show_scanned_row(postgres, result, at, list, world)) {
            *ret_seen = postgres_number(result, at, AT_ROW);
            return BACKEND_OK;
        }
    *ret_seen = ended ? 0 : last;
    return BACKEND_OK;
}

/* ---- who waits ---- */

/* The places of those that are still held, by what their owners last said. A lease of this process
 * does not lapse. */
#define HELD                                                                                       \
    "SELECT w.place FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY w(id, token, place)"   \
    " JOIN pawl.record r ON r.id = w.id AND r.token = w.token AND r.lease_until > 0"               \
    " LEFT JOIN pawl.owner o ON o.incarnation = r.owner"                                           \
    "  AND pawl.is_beat(o.beat_at, pawl.clock($4))"                                                \
    " WHERE r.owner = $3 OR pawl.clock($4) < greatest(r.lease_until,"                              \
    "  coalesce(pawl.after(o.beat_at, r.lease_us), 0))"

enum backend_status postgres_look(struct backend *backend, struct backend_watch *watches, size_t n)
{
    struct postgres_backend *postgres = postgres_of(backend);
    struct postgres_params *params = &postgres->params;
    enum backend_status status = postgres_start(postgres);
    if (status != BACKEND_OK)
        return status;
    postgres_params_clear(params);
    postgres_array_begin(params, POSTGRES_INT8);
    for (size_t i = 0; i < n; i++)
        postgres_item_number(params, watches[i].row);
    postgres_array_end(params);
    postgres_array_begin(params, POSTGRES_INT8);
    for (size_t i = 0; i < n; i++)
        postgres_item_number(params, watches[i].token);
    postgres_array_end(params);
    postgres_add_number(params, backend->self.incarnation);
    postgres_add_number(params, postgres_test_time());
    postgres_queue_limits(postgres, POSTGRES_READS);
    postgres_queue(postgres, HELD, params);
    status = postgres_finish(postgres);
    if (status != BACKEND_OK)
        return status;
    const PGresult *held = postgres->results[1];
    for (size_t i = 0; i < n; i++)
        watches[i].ended = true;
    for (int at = 0; at < PQntuples(held); at++) {
        size_t place = (size_t)postgres_number(held, at, 0) - 1;
        if (place < n)
            watches[place].ended = false;
    }
    return BACKEND_OK;
}
