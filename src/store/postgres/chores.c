/* SPDX-License-Identifier: Apache-2.0 */
/* What is due beside operations: beats, sweeping, gauges. Each in a transaction of its
 * own, in front of the load of its batch, so that none fails for another one. */
#include "base/crash.h"
#include "store/counts.h"
#include "store/postgres/postgres.h"
#include <stdlib.h>

/* The first parameters of all these functions. */
static void start_params(struct postgres_backend *postgres, int64_t self)
{
    postgres_params_clear(&postgres->params);
    postgres_add_number(&postgres->params, self);
    postgres_add_number(&postgres->params, postgres_test_time());
}

/* ---- beats ---- */

void postgres_queue_beat(struct postgres_backend *postgres)
{
    start_params(postgres, postgres->backend.self.incarnation);
    postgres_queue(postgres, "SELECT now, holds FROM pawl.beat($1, $2)", &postgres->params);
}

enum postgres_beat postgres_read_beat(struct postgres_backend *postgres, const PGresult *result)
{
    int64_t now = postgres_number(result, 0, 0);
    if (postgres_number(result, 0, 1) == 0)
        return BEAT_NEEDLESS;
    if (now == 0)
        return BEAT_MISSED;
    postgres->backend.self.beat_at = now;
    return BEAT_WRITTEN;
}

/* ---- one chore ---- */

enum { AT_CHORE = 2 }; /* among the statements of a chore: BEGIN and limits come first */

typedef void queue_chore(struct postgres_backend *postgres, const struct backend_chores *chores);
typedef void read_chore(struct postgres_backend *postgres, struct backend_chores *chores);

static void queue_beat(struct postgres_backend *postgres, const struct backend_chores *chores)
{
    (void)chores;
    postgres_queue_beat(postgres);
}

static void read_beat(struct postgres_backend *postgres, struct backend_chores *chores)
{
    enum postgres_beat beat = postgres_read_beat(postgres, postgres->results[AT_CHORE]);
    chores->beaten = beat == BEAT_WRITTEN;
    chores->missed = beat == BEAT_MISSED;
}

static void queue_sweep(struct postgres_backend *postgres, const struct backend_chores *chores)
{
    start_params(postgres, postgres_counts_as(postgres));
    postgres_add_number(&postgres->params, (int64_t)chores->sweep_most);
    postgres_queue(postgres, "SELECT steps FROM pawl.sweep($1, $2, $3)", &postgres->params);
    for (size_t i = 0; i < postgres->n_tables; i++)
        if (table_column_of(postgres->tables[i], TABLE_GONE))
            postgres_table_sweep(postgres, postgres->tables[i], chores->sweep_most);
}

/* Each of the sweeps may have taken as many steps as all were to take. */
static void read_swept(struct postgres_backend *postgres, struct backend_chores *chores)
{
    size_t swept = (size_t)postgres_number(postgres->results[AT_CHORE], 0, 0);
    for (size_t at = AT_CHORE + 1; at + 1 < postgres->n_results; at++)
        swept += (size_t)strtoull(PQcmdTuples(postgres->results[at]), NULL, 10);
    chores->swept = swept < chores->sweep_most ? swept : chores->sweep_most;
}

static void queue_gauge(struct postgres_backend *postgres, const struct backend_chores *chores)
{
    (void)chores;
    start_params(postgres, postgres->backend.self.incarnation);
    postgres_add_number(&postgres->params, STORE_EXPIRED_MOST);
    postgres_queue(postgres, "SELECT * FROM pawl.gauge($1, $2, $3)", &postgres->params);
}

static void read_postgres_gauges(struct postgres_backend *postgres, struct backend_chores *chores)
{
    const PGresult *gauge = postgres->results[AT_CHORE];
    chores->gauges = (struct backend_gauges){
        .stale = postgres_number(gauge, 0, 0),
        .unknown_oldest = postgres_number(gauge, 0, 1),
        .expired = postgres_number(gauge, 0, 2),
        .expired_oldest = postgres_number(gauge, 0, 3),
    };
}

/* Labels escaped as the format wants it. By the primary key, so that it reads no more than it
 * shows, whatever applications call their rules. In a transaction of its own: a rule that the
 * database's encoding cannot express costs no gauge. */
static const char decisions_query[] =
    "SELECT convert_to(coalesce(string_agg("
    "format(E'{rule=\"%s\",decision=\"%s\"} %s\\n', l.rule, l.decision, l.times),"
    " '' ORDER BY l.id, l.decision), ''), 'UTF8') FROM ("
    "SELECT d.rule AS id, replace(replace(replace(convert_from(d.rule, 'UTF8'),"
    " E'\\\\', E'\\\\\\\\'), '\"', E'\\\\\"'), E'\\n', E'\\\\n') AS rule, d.decision, d.times"
    " FROM pawl.decisions d ORDER BY d.rule, d.decision LIMIT 2048) l";

static void queue_decisions(struct postgres_backend *postgres, const struct backend_chores *chores)
{
    (void)chores;
    postgres_params_clear(&postgres->params);
    postgres_queue(postgres, decisions_query, &postgres->params);
}

static void read_decisions(struct postgres_backend *postgres, struct backend_chores *chores)
{
    (void)chores;
    buf_clear(&postgres->backend.decisions);
    buf_add_slice(&postgres->backend.decisions, postgres_bytes(postgres->results[AT_CHORE], 0, 0));
}

static void queue_odd(struct postgres_backend *postgres, const struct backend_chores *chores)
{
    (void)chores;
    postgres_tables_odd(postgres);
}

static void read_odd(struct postgres_backend *postgres, struct backend_chores *chores)
{
    (void)chores;
    buf_clear(&postgres->backend.odd_rows);
    buf_add_slice(&postgres->backend.odd_rows, postgres_bytes(postgres->results[AT_CHORE], 0, 0));
}

/* Again at those that were odd: whoever reads one notes it. */
static void queue_odd_records(struct postgres_backend *postgres,
                              const struct backend_chores *chores)
{
    static const char query[] = "SELECT r.id, r.version" POSTGRES_READ(
        POSTGRES_NAME) " FROM pawl.record r WHERE r.id = ANY ($1)";
    const struct backend_odd *odd = &postgres->backend.odd_records;
    (void)chores;
    postgres_params_clear(&postgres->params);
    postgres_array_begin(&postgres->params, POSTGRES_INT8);
    for (size_t i = 0; i < odd->n; i++)
        postgres_item_number(&postgres->params, odd->ids[i]);
    postgres_array_end(&postgres->params);
    postgres_queue(postgres, query, &postgres->params);
}

static void read_odd_records(struct postgres_backend *postgres, struct backend_chores *chores)
{
    const PGresult *found = postgres->results[AT_CHORE];
    (void)chores;
    postgres->backend.odd_records.n = 0;
    for (int i = 0; i < PQntuples(found); i++) {
        struct store_row row;
        postgres_read_row(postgres, found, i, 0, &row);
    }
}

/* Likewise in one of its own: a role that may not read it costs no gauge. */
static void queue_durability(struct postgres_backend *postgres, const struct backend_chores *chores)
{
    (void)chores;
    postgres_queue_durability(postgres);
}

static void read_durability(struct postgres_backend *postgres, struct backend_chores *chores)
{
    (void)chores;
    postgres_read_durability(postgres, postgres->results[AT_CHORE]);
}

/* Nobody is told of what it does, and all of it may be done again. What fails is left for another
 * time, so that the batch goes on; what would stop the batch, too, its load finds. */
static enum backend_status do_chore(struct postgres_backend *postgres,
                                    struct backend_chores *chores, queue_chore *queue,
                                    read_chore *read)
{
    enum backend_status status = postgres_start_transaction(postgres);
    if (status != BACKEND_OK)
        return status;
    postgres_queue_limits(postgres, POSTGRES_CHORES);
    queue(postgres, chores);
    CRASH_POINT(inside_sweep);
    status = postgres_commit(postgres);
    if (status == BACKEND_OK)
        read(postgres, chores);
    return status == BACKEND_FATAL ? status : BACKEND_OK;
}

enum backend_status postgres_maintain(struct backend *backend, struct backend_chores *chores)
{
    struct postgres_backend *postgres = postgres_of(backend);
    enum backend_status status = BACKEND_OK;
    chores->missed = chores->beat;
    if (chores->beat)
        status = do_chore(postgres, chores, queue_beat, read_beat);
    if (status == BACKEND_OK && chores->sweep_most > 0)
        status = do_chore(postgres, chores, queue_sweep, read_swept);
    if (status == BACKEND_OK && chores->gauge)
        status = do_chore(postgres, chores, queue_gauge, read_postgres_gauges);
    if (status == BACKEND_OK && chores->gauge)
        status = do_chore(postgres, chores, queue_decisions, read_decisions);
    if (status == BACKEND_OK && chores->gauge && postgres->may_find_odd)
        status = do_chore(postgres, chores, queue_odd, read_odd);
    if (status == BACKEND_OK && chores->gauge && postgres->backend.odd_records.n > 0)
        status = do_chore(postgres, chores, queue_odd_records, read_odd_records);
    if (status == BACKEND_OK && chores->gauge)
        status = do_chore(postgres, chores, queue_durability, read_durability);
    postgres->maintained = chores->beaten || chores->swept > 0;
    return status;
}

/* Sessions with the name that pawl gives its own; those of another role are seen by a member of
 * pg_read_all_stats alone. */
size_t postgres_others(struct backend *backend)
{
    static const char sql[] = "SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.datname ="
                              " pg_catalog.current_database() AND a.application_name = 'pawl'"
                              " AND a.pid <> pg_catalog.pg_backend_pid()";
    struct postgres_backend *postgres = postgres_of(backend);
    if (postgres_start(postgres) != BACKEND_OK)
        return 0;
    postgres_queue(postgres, sql, NULL);
    if (postgres_finish(postgres) != BACKEND_OK || PQntuples(postgres->results[0]) != 1)
        return 0;
    return (size_t)postgres_number(postgres->results[0], 0, 0);
}
