/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the database has our schema; what installs it: schema/ and the tables of modules. */
#include "store/postgres/postgres.h"
#include <stdio.h>

void postgres_schema_write(const struct table *const *tables, size_t n, struct buf *sql)
{
    static const char end[] = "COMMIT;\n";
    static const char rights[] = "DO $$ BEGIN PERFORM pawl.set_rights(); END $$;\n";
    buf_add(sql, postgres_schema_sql, strlen(postgres_schema_sql) - strlen(end));
    buf_add_str(sql, "\n");
    postgres_tables_write(tables, n, sql);
    buf_add_str(sql, rights);
    buf_add_str(sql, end);
}

static enum backend_status refuse_schema(struct postgres_backend *postgres, const char *what)
{
    snprintf(postgres->backend.problem, sizeof postgres->backend.problem, "%s: %s", postgres->place,
             what);
    return BACKEND_AWAY;
}

/* Asks for nothing but what every database knows: is there a store, and is it whole; our types; has
 * it our indexes of odd rows, without which nobody looks for any; who answers. */
static void queue_schema_check(struct postgres_backend *postgres)
{
    struct buf sql BUF_AUTO = buf_make(SIZE_MAX);
    buf_add_str(&sql, "SELECT pg_catalog.to_regclass('pawl.store') IS NOT NULL, true");
    for (size_t i = 0; i < postgres->n_tables; i++)
        buf_printf(&sql,
                   " AND pg_catalog.to_regclass('pawl.%s') IS NOT NULL"
                   " AND pg_catalog.to_regprocedure('pawl.insert_%s(bytea[])') IS NOT NULL",
                   postgres_table_name(postgres->tables[i]),
                   postgres_table_name(postgres->tables[i]));
#define X(name) buf_add_str(&sql, ", coalesce(pg_catalog.to_regtype('pawl." #name "')::oid, 0)");
    POSTGRES_TYPES(X)
#undef X
    buf_add_str(&sql, ", true");
    for (size_t i = 0; i < postgres->n_tables; i++) {
        char mark[TABLE_MARK_SIZE];
        if (!table_mark(postgres->tables[i], TABLE_POSTGRES, mark))
            sql.failed = true;
        buf_printf(&sql, " AND pg_catalog.to_regclass('pawl.%s_odd_%s') IS NOT NULL",
                   postgres_table_name(postgres->tables[i]), mark);
    }
    buf_add_str(&sql, ", pg_catalog.pg_backend_pid()");
    buf_add_char(&sql, 0);
    if (buf_ok(&sql))
        postgres_queue(postgres, sql.at, NULL);
}

static enum backend_status ask_for_schema(struct postgres_backend *postgres, const char *sql)
{
    enum backend_status status = postgres_start(postgres);
    if (status != BACKEND_OK)
        return status;
    if (sql)
        postgres_queue(postgres, sql, NULL);
    else
        queue_schema_check(postgres);
    return postgres_finish(postgres);
}

/* Other threads read it, without a lock, from the store's opening on; and what they made of it
 * would fit no other store. */
static enum backend_status keep_secret(struct postgres_backend *postgres, const char *secret)
{
    if (postgres->knows_secret && memcmp(postgres->backend.secret, secret, DIGEST_SIZE) != 0)
        return refuse_schema(postgres,
                             "another store is there now; restart pawl if it is to use that");
    if (!postgres->knows_secret)
        memcpy(postgres->backend.secret, secret, DIGEST_SIZE);
    postgres->knows_secret = true;
    postgres->identity = digest_of(slice_make(secret, DIGEST_SIZE));
    return BACKEND_OK;
}

static enum backend_status read_store(struct postgres_backend *postgres)
{
    static const char sql[] =
        "SELECT format, secret, pg_catalog.jsonb_extract_path_text(pg_catalog.to_jsonb(s),"
        " 'revision')::pg_catalog.int8 FROM pawl.store s";
    enum backend_status status = ask_for_schema(postgres, sql);
    if (status != BACKEND_OK)
        return status;
    const PGresult *store = postgres->results[0];
    bool is_one = PQntuples(store) == 1;
    struct slice secret = is_one ? postgres_bytes(store, 0, 1) : (struct slice){0};
    if (secret.len != DIGEST_SIZE)
        return refuse_schema(postgres, "its secret is missing or damaged; restore a backup");
    int64_t format = postgres_number(store, 0, 0);
    if (format > POSTGRES_FORMAT)
        return refuse_schema(postgres, "its schema was made by a newer pawl; run that version");
    bool lacks_columns = postgres_number(store, 0, 2) < POSTGRES_REVISION;
    if (format < POSTGRES_FORMAT || lacks_columns) {
        postgres->lacks_schema = format == POSTGRES_FORMAT;
        return refuse_schema(postgres, "its schema is of an older pawl; as its owner run"
                                       " `pawl schema postgres | psql`");
    }
    return keep_secret(postgres, secret.at);
}

enum backend_status postgres_schema_check(struct postgres_backend *postgres)
{
    enum backend_status status = ask_for_schema(postgres, NULL);
    if (status != BACKEND_OK)
        return status;
    const PGresult *there = postgres->results[0];
    bool any = postgres_number(there, 0, 0) != 0, whole = postgres_number(there, 0, 1) != 0;
    for (int i = 0; i < TYPE_COUNT; i++) {
        postgres->types[i] = (Oid)postgres_number(there, 0, i + 2);
        whole = whole && postgres->types[i] != 0;
    }
    postgres->may_find_odd = postgres_number(there, 0, TYPE_COUNT + 2) != 0;
    postgres->owns_session =
        !postgres->backend.lacks_pairs &&
        postgres_number(there, 0, TYPE_COUNT + 3) == PQbackendPID(postgres->conn);
    postgres->lacks_schema = !any;
    if (!any)
        return refuse_schema(postgres, "there is no pawl store in this database; as its owner run"
                                       " `pawl schema postgres | psql`");
    status = read_store(postgres);
    if (status != BACKEND_OK || whole)
        return status;
    postgres->lacks_schema = true;
    return refuse_schema(postgres, "its schema is not whole; as its owner run"
                                   " `pawl schema postgres | psql`");
}
