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

static const struct {
    const char *name;
    const char *sql;
} calls[] = {
#define X(name, sql) [CALL_##name] = {"pawl_" #name, sql},
    POSTGRES_CALLS(X)
#undef X
};

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
