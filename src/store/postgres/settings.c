/* SPDX-License-Identifier: Apache-2.0 */
/* Which settings of the server decide about its durability: asked of each connection and with each
 * gauge. */
#include "store/postgres/durability.h"
#include "store/postgres/postgres.h"
#include <string.h>

/* Of those that receive the WAL only standbys count: a subscriber is connected to a database, and
 * what copies the cluster or archives the WAL is not promoted. */
#define SETTINGS                                                                                   \
    "SELECT pg_catalog.current_setting('fsync', true),"                                            \
    " pg_catalog.current_setting('full_page_writes', true),"                                       \
    " pg_catalog.current_setting('synchronous_standby_names', true), "
#define STANDBYS                                                                                   \
    "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication r"                            \
    " JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) r.pid"                    \
    " WHERE a.datid IS NULL"                                                                       \
    " AND r.application_name OPERATOR(pg_catalog.<>) 'pg_basebackup'::pg_catalog.text"             \
    " AND r.application_name OPERATOR(pg_catalog.<>) 'pg_receivewal'::pg_catalog.text)"

static enum durability_setting durability_of(const PGresult *result, int column, const char *off)
{
    if (PQgetisnull(result, 0, column))
        return SETTING_UNREAD;
    struct slice value = postgres_bytes(result, 0, column);
    return slice_eq(value, slice_of(off)) ? SETTING_OFF : SETTING_ON;
}

/* libpq tries one host of a list after the other, as it does with the addresses of a name. */
static bool follows_hosts(const PQconninfoOption *options)
{
    for (; options->keyword; options++)
        if (options->val && strncmp(options->keyword, "host", 4) == 0 && strchr(options->val, ','))
            return true;
    return false;
}

void postgres_queue_durability(struct postgres_backend *postgres)
{
    postgres_params_clear(&postgres->params);
    postgres_queue(postgres, postgres->hides_standbys ? SETTINGS "-1" : SETTINGS STANDBYS,
                   &postgres->params);
}

void postgres_read_durability(struct postgres_backend *postgres, const PGresult *result)
{
    struct durability seen = {.fsync = durability_of(result, 0, "off"),
                              .full_page_writes = durability_of(result, 1, "off"),
                              .synchronous = durability_of(result, 2, ""),
                              .follows = postgres->follows,
                              .n_standbys = (long)postgres_number(result, 0, 3)};
    postgres->backend.weakness = durability_judge(&seen);
}

/* A role that may not read who is connected is asked for less. */
enum backend_status postgres_check_durability(struct postgres_backend *postgres)
{
    enum backend_status status = BACKEND_AWAY;
    PQconninfoOption *options = PQconninfo(postgres->conn);
    postgres->follows = postgres->names_session || (options && follows_hosts(options));
    PQconninfoFree(options);
    for (int try = 0; try < 2 && status == BACKEND_AWAY; try++) {
        postgres->hides_standbys = try > 0;
        status = postgres_start(postgres);
        if (status == BACKEND_OK)
            postgres_queue_durability(postgres);
        status = postgres_finish(postgres);
    }
    if (status == BACKEND_OK)
        postgres_read_durability(postgres, postgres->results[0]);
    else if (status == BACKEND_AWAY)
        postgres->backend.weakness = durability_judge(&(struct durability){0});
    return status == BACKEND_AWAY && postgres->conn ? BACKEND_OK : status;
}
