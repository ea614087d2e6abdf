/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that is this connection's own remembers what batches call: each statement is parsed
 * once, where it costs a batch of one operation a fifth of what its server computes.
 *
 *      connected -> own         the process that answers is the one that this connection was given,
 *                               and it was told all of them
 *      own -> lent              one that it was told is not there any more, or returns other rows:
 *                               until the connection is made anew
 *
 * A pooler that lends sessions by transactions gives its clients numbers of its own, and forgets
 * nothing between two clients. What one of them would be told there another one finds, or does not
 * find: so everything is unnamed on a session that is lent. One that only looks like our own (a
 * pooler that hands on the number of a process) fails at the first statement that it lacks, which
 * has done nothing: the same exchange is sent again as on one that is lent.
 */
#include "store/postgres/postgres.h"

/* A session in the middle of a pipeline is not idle: where its client's host died, TCP finds out.
 */
#define LIMITS(lock_timeout)                                                                       \
    "SELECT pg_catalog.set_config('statement_timeout', '10s', true),"                              \
    " pg_catalog.set_config('lock_timeout', '" lock_timeout "', true),"                            \
    " pg_catalog.set_config('search_path', 'pg_catalog', true),"                                   \
    " pg_catalog.set_config('idle_in_transaction_session_timeout', '10s', true),"                  \
    " pg_catalog.set_config('tcp_keepalives_idle', '5', true),"                                    \
    " pg_catalog.set_config('tcp_keepalives_interval', '2', true),"                                \
    " pg_catalog.set_config('tcp_keepalives_count', '3', true),"                                   \
    " pg_catalog.set_config('enable_seqscan', 'off', true),"                                       \
    " pg_catalog.set_config('jit', 'off', true),"                                                  \
    " pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true)"
#define LAZY ", pg_catalog.set_config('synchronous_commit', 'off', true)"
/* Its commit is waited for, and the warning comes that it was not. */
#define DURABLE                                                                                    \
    ", pg_catalog.set_config('client_min_messages', 'warning', true),"                             \
    " pg_catalog.set_config('synchronous_commit',"                                                 \
    " CASE pg_catalog.current_setting('synchronous_commit') WHEN 'remote_apply'"                   \
    " THEN 'remote_apply' ELSE 'on' END, true)"
#define READ_LIMITS LIMITS("1s") LAZY
#define SAVE_LIMITS LIMITS("200ms") DURABLE

/* Of this version: another one may mean another text, and where sessions are lent after all it
 * would be called in place of this one. */
static const struct {
    const char *name;
    const char *sql;
} calls[] = {
#define X(name, sql) [CALL_##name] = {"pawl_" PAWL_VERSION "_" #name, sql},
    POSTGRES_CALLS(X)
#undef X
};

void postgres_queue_limits(struct postgres_backend *postgres, enum postgres_limits limits)
{
    static const char *const statements[] = {
        [POSTGRES_READS] = READ_LIMITS,
        [POSTGRES_CHORES] = LIMITS("20ms") LAZY,
        [POSTGRES_SAVES] = SAVE_LIMITS,
    };
    postgres_queue(postgres, statements[limits], NULL);
}

void postgres_queue_call(struct postgres_backend *postgres, enum postgres_call call)
{
    if (postgres->owns_session)
        postgres_queue_named(postgres, calls[call].name);
    else
        postgres_queue(postgres, calls[call].sql, &postgres->params);
}

/* Whoever finds a name taken there has met a stranger's statement. */
enum backend_status postgres_own_session(struct postgres_backend *postgres)
{
    if (!postgres->owns_session)
        return BACKEND_OK;
    enum backend_status status = postgres_start(postgres);
    for (size_t i = 0; status == BACKEND_OK && i < sizeof calls / sizeof *calls; i++)
        postgres_queue_parse(postgres, calls[i].name, calls[i].sql);
    status = postgres_finish(postgres);
    postgres->owns_session = status == BACKEND_OK;
    return postgres->conn ? BACKEND_OK : status;
}

bool postgres_is_forgotten(const struct postgres_backend *postgres, const char *state)
{
    static const char *const states[] = {
        "26000", /* there is no such statement: another session, or it was told to forget */
        "08P01", /* it takes another number of parameters: a stranger's of that name */
        "0A000", /* its plan is of a function that returned other rows */
    };
    bool is_one = false;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        is_one = is_one || strcmp(state, states[i]) == 0;
    return postgres->owns_session && is_one;
}
