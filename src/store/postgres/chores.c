/* SPDX-License-Identifier: Apache-2.0 */
/* What is due beside operations: beats, sweeping, gauges. A transaction of its own, in front of the
 * load of its batch. */
#include "base/crash.h"
#include "store/counts.h"
#include "store/postgres/postgres.h"
#include <stdlib.h>

/* The first parameters of all these functions. */
static void start_params(struct postgres_backend *postgres)
{
    postgres_params_clear(&postgres->params);
    postgres_add_number(&postgres->params, postgres->backend.self.incarnation);
    postgres_add_number(&postgres->params, postgres_test_time());
}

/* Which statement of the exchange said what; 0: it was not asked. */
struct asked {
    size_t beat;
    size_t sweep;
    size_t tables;
    size_t gauge;
};

static void queue_sweep(struct postgres_backend *postgres, size_t most, struct asked *asked)
{
    start_params(postgres);
    postgres_add_number(&postgres->params, (int64_t)most);
    asked->sweep = postgres->n_results;
    postgres_queue(postgres, "SELECT steps FROM pawl.sweep($1, $2, $3)", &postgres->params);
    asked->tables = postgres->n_results;
    for (size_t i = 0; i < postgres->n_tables; i++)
        if (table_column_of(postgres->tables[i], TABLE_GONE))
            postgres_table_sweep(postgres, postgres->tables[i], most);
}

static struct asked queue_chores(struct postgres_backend *postgres,
                                 const struct backend_chores *chores)
{
    struct asked asked = {0};
    postgres_queue_limits(postgres, true);
    if (chores->beat) {
        start_params(postgres);
        asked.beat = postgres->n_results;
        postgres_queue(postgres, "SELECT now, holds FROM pawl.beat($1, $2)", &postgres->params);
    }
    if (chores->sweep_most > 0)
        queue_sweep(postgres, chores->sweep_most, &asked);
    if (chores->gauge) {
        start_params(postgres);
        postgres_add_number(&postgres->params, STORE_EXPIRED_MOST);
        asked.gauge = postgres->n_results;
        postgres_queue(postgres, "SELECT * FROM pawl.gauge($1, $2, $3)", &postgres->params);
    }
    return asked;
}

/* Each of the sweeps may have taken as many steps as all were to take. */
static size_t read_swept(struct postgres_backend *postgres, const struct asked *asked, size_t most)
{
    size_t end = asked->gauge > 0 ? asked->gauge : postgres->n_results - 1;
    size_t swept = (size_t)postgres_number(postgres->results[asked->sweep], 0, 0);
    for (size_t at = asked->tables; at < end; at++)
        swept += (size_t)strtoull(PQcmdTuples(postgres->results[at]), NULL, 10);
    return swept < most ? swept : most;
}

static void read_chores(struct postgres_backend *postgres, const struct asked *asked,
                        struct backend_chores *chores)
{
    if (asked->beat > 0) {
        const PGresult *beat = postgres->results[asked->beat];
        chores->beaten = postgres_number(beat, 0, 1) != 0;
        if (chores->beaten)
            postgres->backend.self.beat_at = postgres_number(beat, 0, 0);
    }
    if (asked->sweep > 0)
        chores->swept = read_swept(postgres, asked, chores->sweep_most);
    if (asked->gauge > 0) {
        const PGresult *gauge = postgres->results[asked->gauge];
        chores->gauges = (struct backend_gauges){
            .stale = postgres_number(gauge, 0, 0),
            .unknown_oldest = postgres_number(gauge, 0, 1),
            .expired = postgres_number(gauge, 0, 2),
            .expired_oldest = postgres_number(gauge, 0, 3),
        };
    }
}

/* Nobody is told of what these do, and all of it may be done again: a lost answer is no doubt. */
enum backend_status postgres_maintain(struct backend *backend, struct backend_chores *chores)
{
    struct postgres_backend *postgres = postgres_of(backend);
    enum backend_status status = postgres_start_transaction(postgres);
    if (status != BACKEND_OK)
        return status;
    struct asked asked = queue_chores(postgres, chores);
    CRASH_POINT(inside_sweep);
    status = postgres_commit(postgres);
    if (status != BACKEND_OK)
        return status == BACKEND_UNSURE ? BACKEND_BUSY : status;
    read_chores(postgres, &asked, chores);
    postgres->maintained = chores->beaten || chores->swept > 0;
    return BACKEND_OK;
}
