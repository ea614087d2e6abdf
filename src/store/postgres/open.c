/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the PostgreSQL backend. */
#include "base/buf.h"
#include "base/check.h"
#include "base/crypto/random.h"
#include "base/mem.h"
#include "store/postgres/postgres.h"
#include <limits.h>
#include <stdio.h>

#define URL_PROBLEM_MAX ((size_t)1024)
#define DECISIONS_SIZE ((size_t)4 * 1024 * 1024) /* of their lines */

static void postgres_abandon(struct backend *backend)
{
    postgres_of(backend)->maintained = false;
}

static void postgres_close(struct backend *backend)
{
    struct postgres_backend *postgres = postgres_of(backend);
    postgres_disconnect(postgres);
    for (size_t i = 0; i < POSTGRES_STATEMENTS_MAX; i++)
        PQclear(postgres->results[i]);
    PQclear(postgres->found);
    postgres_params_fini(&postgres->params);
    buf_fini(&postgres->backend.decisions);
    buf_fini(&postgres->backend.odd_rows);
    postgres_marks_leave(postgres->marks);
    mem_free(postgres->url);
    mem_free(postgres->place);
    mem_free(postgres);
}

static struct backend *postgres_another(const struct backend *backend, size_t number);

static const struct backend_ops postgres_ops = {
    .load = postgres_load,
    .maintain = postgres_maintain,
    .save = postgres_save,
    .pairs = postgres_pairs,
    .abandon = postgres_abandon,
    .outcome = postgres_outcome,
    .list = postgres_list,
    .query = postgres_query,
    .look = postgres_look,
    .others = postgres_others,
    .another = postgres_another,
    .close = postgres_close,
};

/* ---- opening ---- */

static const char *option_value(const PQconninfoOption *options, const char *name)
{
    while (options->keyword && strcmp(options->keyword, name) != 0)
        options++;
    return options->keyword && options->val ? options->val : "";
}

/* Which store it is, without what is secret of it. */
static char *place_of_server(const PQconninfoOption *options)
{
    struct buf place BUF_AUTO = buf_make(4096);
    const char *user = option_value(options, "user"), *port = option_value(options, "port");
    buf_printf(&place, "postgres://%s%s%s%s%s/%s", user, *user ? "@" : "",
               option_value(options, "host"), *port ? ":" : "", port,
               option_value(options, "dbname"));
    return buf_take(&place);
}

/* On a connection of its own: a script of many statements goes through no pipeline. What stands
 * before its transaction is for psql and for stores with records. */
static bool install_postgres_schema(struct postgres_backend *postgres)
{
    struct buf sql BUF_AUTO = buf_make(SIZE_MAX);
    postgres_schema_write(postgres->tables, postgres->n_tables, &sql);
    buf_add_char(&sql, 0);
    const char *script = buf_ok(&sql) ? strstr(sql.at, "\nBEGIN;\n") : NULL;
    PGconn *conn = script ? postgres_open_conn(postgres) : NULL;
    bool connected = conn && PQstatus(conn) == CONNECTION_OK;
    PGresult *result = NULL;
    for (int tries = 0; connected && tries < 5; tries++) {
        PQclear(result);
        result = PQexec(conn, script);
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (!state || strcmp(state, "55P03") != 0)
            break;
        PQclear(PQexec(conn, "ROLLBACK"));
    }
    bool ok = result && PQresultStatus(result) == PGRES_COMMAND_OK;
    const char *state = ok ? NULL : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (!ok)
        postgres_explain(postgres, conn ? PQerrorMessage(conn) : "out of memory");
    if (state && strcmp(state, "42501") == 0)
        postgres_advise(postgres, "as the database's owner run `pawl schema postgres | psql`, and "
                                  "there `SELECT pawl.admit_gateway('ROLE')` for this role");
    PQclear(result);
    PQfinish(conn);
    return ok;
}

static bool connect_first(struct postgres_backend *postgres, const struct store_config *config)
{
    enum backend_status status = postgres_connect(postgres);
    if (status == BACKEND_OK || !postgres->lacks_schema || config->read_only_file)
        return status == BACKEND_OK;
    return install_postgres_schema(postgres) && postgres_connect(postgres) == BACKEND_OK;
}

/* With an @ or a / in the password as they stand, part of it becomes one of these. */
static const char *misread_option(const PQconninfoOption *options)
{
    bool any =
        strchr(option_value(options, "host"), '@') || strchr(option_value(options, "dbname"), '@');
    return any ? "its URL contains more than one @: in a password write %40 for @ and %2F for /"
               : NULL;
}

/* Of what libpq says, what stands before the text that it quotes: that may be the password. */
static char *explain_url(const char *wrong)
{
    struct buf text = buf_make(URL_PROBLEM_MAX);
    size_t n = strcspn(wrong, "\n\":");
    while (n > 0 && wrong[n - 1] == ' ')
        n--;
    buf_printf(&text,
               "the store's URL is not valid: %.*s (in a user name or password write %%40 for @, "
               "%%2F for /, %%23 for #, %%25 for %%)",
               (int)n, wrong);
    return buf_take(&text);
}

static bool take_config(struct postgres_backend *postgres, const struct store_config *config,
                        char **ret_problem)
{
    char *wrong = NULL;
    PQconninfoOption *options = PQconninfoParse(config->path, &wrong);
    const char *refused = options ? misread_option(options) : NULL;
    if (refused)
        *ret_problem = mem_copy(refused, strlen(refused));
    postgres->place = options && !refused ? place_of_server(options) : NULL;
    postgres->names_session = options && *option_value(options, "target_session_attrs");
    postgres->url = mem_copy(config->path, strlen(config->path));
    if (wrong)
        *ret_problem = explain_url(wrong);
    PQfreemem(wrong);
    PQconninfoFree(options);
    for (const struct table *const *table = config->tables; *table; table++) {
        CHECK(postgres->n_tables < POSTGRES_TABLES_MAX && (*table)->row_size <= TABLE_ROW_MAX);
        postgres->tables[postgres->n_tables++] = *table;
    }
    return postgres->place && postgres->url;
}

static struct postgres_backend *new_postgres(int timeout_ms, bool lacks_pairs)
{
    struct postgres_backend *postgres = mem_zalloc(1, sizeof *postgres);
    if (!postgres)
        return NULL;
    postgres->backend = (struct backend){.ops = &postgres_ops,
                                         .has_clock = true,
                                         .has_round_trips = true,
                                         .lacks_pairs = lacks_pairs,
                                         .outcome_max = POSTGRES_OUTCOME_MAX,
                                         .space.free = UINT64_MAX,
                                         .odd_rows = buf_make(SIZE_MAX),
                                         .decisions = buf_make(DECISIONS_SIZE)};
    postgres->params = postgres_params_make(POSTGRES_MESSAGE_MAX);
    postgres->timeout_ms = timeout_ms;
    postgres->number = 1;
    return postgres;
}

/* It counts in rows of its own, which nobody else holds while a batch of it is under way. */
static struct backend *postgres_another(const struct backend *backend, size_t number)
{
    const struct postgres_backend *first = (const struct postgres_backend *)backend;
    struct postgres_backend *postgres = new_postgres(first->timeout_ms, backend->lacks_pairs);
    CHECK(first->knows_secret && number > 1);
    if (!postgres)
        return NULL;
    memcpy(postgres->tables, first->tables, sizeof first->tables);
    memcpy(postgres->backend.secret, backend->secret, sizeof backend->secret);
    postgres->n_tables = first->n_tables;
    postgres->names_session = first->names_session;
    postgres->knows_secret = true;
    postgres->identity = first->identity;
    postgres->number = number;
    postgres->counts_as = random_id();
    postgres->marks = postgres_marks_share(first->marks);
    postgres->backend.weakness = backend->weakness;
    postgres->url = mem_copy(first->url, strlen(first->url));
    postgres->place = mem_copy(first->place, strlen(first->place));
    postgres->backend.place = postgres->place;
    if (postgres->url && postgres->place)
        return &postgres->backend;
    postgres_close(&postgres->backend);
    return NULL;
}

struct backend *postgres_backend_open(const struct store_config *config,
                                      enum store_open_result *ret_result, char **ret_problem)
{
    *ret_result = STORE_OPEN_FAILED;
    *ret_problem = NULL;
    const char *lacking = libpq_load();
    if (lacking) {
        *ret_problem = mem_copy(lacking, strlen(lacking));
        return NULL;
    }
    int64_t timeout_ms = config->limits.timeout_us / CLOCK_US_PER_MS;
    /* A command keeps no mark, by which what is unsure is fenced, and does so little that its
     * session needs to be told nothing. */
    struct postgres_backend *postgres = new_postgres(
        timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX, config->role == STORE_COMMAND);
    if (!postgres)
        return NULL;
    postgres->marks = postgres_marks_make();
    bool taken = postgres->marks && take_config(postgres, config, ret_problem);
    postgres->backend.place = postgres->place;
    if (taken && connect_first(postgres, config) &&
        backend_check_weakness(&postgres->backend, config)) {
        *ret_result = STORE_OPENED;
        return &postgres->backend;
    }
    if (taken)
        *ret_problem = mem_copy(postgres->backend.problem, strlen(postgres->backend.problem));
    postgres_close(&postgres->backend);
    return NULL;
}
