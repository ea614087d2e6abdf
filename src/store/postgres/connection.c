/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the server, and exchanges over it. */
#include "base/check.h"
#include "base/mem.h"
#include "store/postgres/postgres.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define BACKOFF_LEAST_US (INT64_C(50) * CLOCK_US_PER_MS)
#define BACKOFF_MOST_US (INT64_C(2) * CLOCK_US_PER_S)

int64_t postgres_test_time(void)
{
#ifdef PAWL_HOOKS
    return clock_test_moved() ? clock_wall_us() : 0;
#else
    return 0;
#endif
}

/* ---- what went wrong ---- */

/* One line, however many the server wrote, without the severity before it. */
static void add_problem_line(struct buf *line, const char *what)
{
    static const char severity[] = "ERROR:  ";
    struct slice rest = slice_of(what);
    if (strncmp(what, severity, strlen(severity)) == 0)
        rest = slice_skip(rest, strlen(severity));
    for (size_t i = 0; i < rest.len; i++) {
        bool is_space = rest.at[i] == '\n' || rest.at[i] == '\t' || rest.at[i] == ' ';
        if (!is_space)
            buf_add_char(line, rest.at[i]);
        else if (i + 1 < rest.len && !strchr("\n\t ", rest.at[i + 1]))
            buf_add_char(line, ' ');
    }
}

void postgres_explain(struct postgres_backend *postgres, const char *what)
{
    struct buf line BUF_AUTO = buf_make(SIZE_MAX);
    add_problem_line(&line, what);
    snprintf(postgres->backend.problem, sizeof postgres->backend.problem, "%s: %.*s",
             postgres->place, SLICE_ARG(buf_slice(&line)));
}

void postgres_advise(struct postgres_backend *postgres, const char *advice)
{
    size_t len = strlen(postgres->backend.problem);
    snprintf(postgres->backend.problem + len, sizeof postgres->backend.problem - len, "; %s",
             advice);
}

enum backend_status postgres_distrust(struct postgres_backend *postgres, enum backend_status status)
{
    postgres_explain(postgres, "a function of the schema `pawl` is not the one of this pawl");
    postgres_advise(postgres, "install it anew: pawl schema postgres | psql");
    return status;
}

static enum backend_status lose_connection(struct postgres_backend *postgres, const char *what)
{
    postgres_explain(postgres, what);
    postgres_disconnect(postgres);
    return BACKEND_BUSY;
}

/* By SQLSTATE, the longest prefix first. What is not here is tried again. */
static enum backend_status status_of_state(const char *state)
{
    static const struct {
        const char *prefix;
        enum backend_status status;
    } states[] = {
        {"53100", BACKEND_FULL},                        /* disk full */
        {"42", BACKEND_AWAY},     {"3F", BACKEND_AWAY}, /* our schema is not there, or not ours */
        {"PW006", BACKEND_AWAY},                        /* another store */
        {"XX001", BACKEND_FATAL}, {"XX002", BACKEND_FATAL}, /* data, index corrupted */
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strncmp(state, states[i].prefix, strlen(states[i].prefix)) == 0)
            return states[i].status;
    return BACKEND_BUSY;
}

/* A value, a constraint, or a limit that no row can exceed: the same again fails again. */
static bool is_refusal_state(const char *state)
{
    return strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0 ||
           strncmp(state, "54", 2) == 0 || strncmp(state, "P0001", 5) == 0;
}

/* A server that cannot be written to (a standby, one that ends), or has another store than it had,
 * is not the one to stay with. */
static bool is_leaving(const char *state)
{
    return strncmp(state, "57P", 3) == 0 || strncmp(state, "25006", 5) == 0 ||
           strncmp(state, "PW006", 5) == 0;
}

/* ---- connecting ---- */

static void note_warning(void *argument, const PGresult *result)
{
    struct postgres_backend *postgres = argument;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (state && severity && strcmp(severity, "WARNING") == 0)
        postgres->warned = true;
}

void postgres_disconnect(struct postgres_backend *postgres)
{
    if (postgres->conn)
        PQfinish(postgres->conn);
    postgres->conn = NULL;
}

/* What is set in the URL wins. */
PGconn *postgres_open_conn(const struct postgres_backend *postgres)
{
    static const char *const names[] = {"application_name", "connect_timeout",
                                        "tcp_user_timeout", "target_session_attrs",
                                        "dbname",           NULL};
    char name[32];
    snprintf(name, sizeof name, postgres->number > 1 ? "pawl %zu" : "pawl", postgres->number);
    const char *const values[] = {name, "3", "10000", "read-write", postgres->url, NULL};
    return PQconnectdbParams(names, values, 1);
}

static enum backend_status fail_to_connect(struct postgres_backend *postgres)
{
    int64_t wait = postgres->backoff_us;
    postgres_explain(postgres, postgres->conn ? PQerrorMessage(postgres->conn) : "out of memory");
    if (postgres->conn && strstr(PQerrorMessage(postgres->conn), "password"))
        postgres_advise(postgres, "it comes from the URL, PGPASSWORD or ~/.pgpass");
    postgres_disconnect(postgres);
    postgres->retry_at = clock_after(clock_boot_us(), wait);
    postgres->backoff_us = 2 * wait < BACKOFF_MOST_US ? 2 * wait : BACKOFF_MOST_US;
    return BACKEND_AWAY;
}

enum backend_status postgres_connect(struct postgres_backend *postgres)
{
    if (postgres->conn && PQstatus(postgres->conn) == CONNECTION_OK)
        return BACKEND_OK;
    postgres_disconnect(postgres);
    if (postgres->backoff_us == 0)
        postgres->backoff_us = BACKOFF_LEAST_US;
    if (clock_boot_us() < postgres->retry_at)
        return BACKEND_AWAY;
    postgres->conn = postgres_open_conn(postgres);
    postgres->owns_session = false;
    if (!postgres->conn || PQstatus(postgres->conn) != CONNECTION_OK ||
        PQsetnonblocking(postgres->conn, 1) != 0 || PQenterPipelineMode(postgres->conn) != 1)
        return fail_to_connect(postgres);
    PQsetNoticeReceiver(postgres->conn, note_warning, postgres);
    enum backend_status status = postgres_schema_check(postgres);
    if (status == BACKEND_OK)
        status = postgres_check_durability(postgres);
    if (status == BACKEND_OK)
        status = postgres_own_session(postgres);
    if (status != BACKEND_OK) {
        postgres_disconnect(postgres);
        return status;
    }
    postgres->backoff_us = BACKOFF_LEAST_US;
    postgres->retry_at = 0;
    postgres->cannot_pair = false;
    return BACKEND_OK;
}

/* ---- an exchange ---- */

static void drop_results(struct postgres_backend *postgres)
{
    for (size_t i = 0; i < postgres->n_results; i++) {
        PQclear(postgres->results[i]);
        postgres->results[i] = NULL;
    }
    postgres->n_results = 0;
}

enum backend_status postgres_start(struct postgres_backend *postgres)
{
    enum backend_status status = postgres_connect(postgres);
    drop_results(postgres);
    postgres->warned = false;
    postgres->failure = (struct postgres_failure){0};
    return status;
}

/* What cannot be queued shows at the end, as a connection that is lost. */
static void note_queued(struct postgres_backend *postgres, bool sent)
{
    CHECK(postgres->n_results < POSTGRES_STATEMENTS_MAX);
    postgres->results[postgres->n_results++] = NULL;
    if (!sent && postgres->conn)
        lose_connection(postgres, PQerrorMessage(postgres->conn));
}

void postgres_queue(struct postgres_backend *postgres, const char *sql,
                    const struct postgres_params *params)
{
    static const struct postgres_params none;
    PGconn *conn = postgres->conn;
    note_queued(postgres, conn && postgres_params_send(params ? params : &none, conn, sql, NULL));
}

void postgres_queue_named(struct postgres_backend *postgres, const char *name)
{
    PGconn *conn = postgres->conn;
    note_queued(postgres, conn && postgres_params_send(&postgres->params, conn, NULL, name));
}

void postgres_queue_parse(struct postgres_backend *postgres, const char *name, const char *sql)
{
    PGconn *conn = postgres->conn;
    note_queued(postgres, conn && PQsendPrepare(conn, name, sql, 0, NULL) == 1);
}

/* Sends what is to be sent, and takes what has come. False: the connection is lost. */
static bool pump_socket(struct postgres_backend *postgres)
{
    PGconn *conn = postgres->conn;
    struct pollfd poll_one = {.fd = PQsocket(conn), .events = POLLIN};
    int unsent = PQflush(conn);
    if (unsent < 0)
        return false;
    if (!PQisBusy(conn))
        return true;
    poll_one.events = (short)(POLLIN | (unsent > 0 ? POLLOUT : 0));
    int n = poll(&poll_one, 1, postgres->timeout_ms);
    if (n == 0 || (n < 0 && errno != EINTR))
        return false;
    return n < 0 || !(poll_one.revents & (POLLIN | POLLERR | POLLHUP)) || PQconsumeInput(conn);
}

/* The next result, or NULL between those of two statements. False: the connection is lost. */
static bool next_result(struct postgres_backend *postgres, PGresult **ret_result)
{
    do {
        if (!pump_socket(postgres))
            return false;
    } while (PQisBusy(postgres->conn));
    *ret_result = PQgetResult(postgres->conn);
    return true;
}

static bool is_failure(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK;
}

/* Keeps results by statement, up to the Sync; of warnings, those of the last statement, before
 * whose result they come. False: the connection is lost. */
static bool collect_results(struct postgres_backend *postgres)
{
    size_t at = 0;
    for (;;) {
        PGresult *result = NULL;
        if (!next_result(postgres, &result))
            return false;
        if (!result) {
            at++;
            if (at > postgres->n_results)
                return false;
            continue;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            return at == postgres->n_results;
        }
        if (at >= postgres->n_results || postgres->results[at]) {
            PQclear(result);
            return false;
        }
        postgres->results[at] = result;
        postgres->warned = postgres->warned && at + 1 == postgres->n_results;
    }
}

static int64_t error_number(const PGresult *result, int field)
{
    const char *text = PQresultErrorField(result, field);
    uint64_t number = 0;
    (void)slice_to_u64(slice_of(text ? text : ""), INT64_MAX, &number);
    return (int64_t)number;
}

/* The first statement that failed says why. */
static enum backend_status judge_results(struct postgres_backend *postgres)
{
    size_t at = 0;
    while (at < postgres->n_results && !is_failure(postgres->results[at]))
        at++;
    if (at == postgres->n_results)
        return BACKEND_OK;
    const PGresult *result = postgres->results[at];
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    postgres_explain(postgres, message ? message : PQresultErrorMessage(result));
    bool forgot = state && postgres_is_forgotten(postgres, state);
    if (state && strcmp(state, "42501") == 0)
        postgres_advise(
            postgres,
            "as the owner of the schema run `SELECT pawl.admit_gateway('ROLE')` for this role");
    postgres->failure = (struct postgres_failure){
        .at = state ? at : postgres->n_results,
        .refused = state && is_refusal_state(state),
        .blocked = state && strcmp(state, "55P03") == 0,
        .unfit = state && strcmp(state, "PW010") == 0,
        .went_back = state && strcmp(state, "PW011") == 0,
        .since = error_number(result, PG_DIAG_MESSAGE_DETAIL),
        .mark = error_number(result, PG_DIAG_CONSTRAINT_NAME),
        .forgot = forgot,
    };
    postgres->owns_session = postgres->owns_session && !forgot;
    if (!state || is_leaving(state) || PQstatus(postgres->conn) != CONNECTION_OK)
        postgres_disconnect(postgres);
    return state ? status_of_state(state) : BACKEND_BUSY;
}

static const char *why_lost(const struct postgres_backend *postgres)
{
    const char *message = PQerrorMessage(postgres->conn);
    return message && *message ? message : "the server did not respond in time";
}

enum backend_status postgres_finish(struct postgres_backend *postgres)
{
    if (!postgres->conn)
        return BACKEND_BUSY;
    if (PQpipelineSync(postgres->conn) != 1 || !collect_results(postgres)) {
        postgres->failure.at = postgres->n_results;
        return lose_connection(postgres, why_lost(postgres));
    }
    return judge_results(postgres);
}

enum backend_status postgres_start_transaction(struct postgres_backend *postgres)
{
    enum backend_status status = postgres_start(postgres);
    if (status == BACKEND_OK)
        postgres_queue(postgres, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", NULL);
    return status;
}

/* What fails in a pipeline skips the COMMIT, too. The problem of the transaction stays explained.
 */
static void roll_back_postgres(struct postgres_backend *postgres)
{
    struct postgres_failure failure = postgres->failure;
    if (!postgres->conn || PQtransactionStatus(postgres->conn) == PQTRANS_IDLE)
        return;
    char problem[sizeof postgres->backend.problem];
    memcpy(problem, postgres->backend.problem, sizeof problem);
    drop_results(postgres);
    postgres_queue(postgres, "ROLLBACK", NULL);
    if (postgres_finish(postgres) != BACKEND_OK)
        postgres_disconnect(postgres);
    memcpy(postgres->backend.problem, problem, sizeof problem);
    postgres->failure = failure;
}

/* After a warning at COMMIT the transaction is committed on this server, and unknown is whether it
 * is on the standby that COMMIT was to wait for. */
enum backend_status postgres_commit(struct postgres_backend *postgres)
{
    size_t commit = postgres->n_results;
    postgres_queue(postgres, "COMMIT", NULL);
    enum backend_status status = postgres_finish(postgres);
    if (status != BACKEND_OK) {
        roll_back_postgres(postgres);
        return postgres->failure.at >= commit ? BACKEND_UNSURE : status;
    }
    bool committed = strcmp(PQcmdStatus(postgres->results[commit]), "COMMIT") == 0;
    if (committed && !postgres->warned)
        return BACKEND_OK;
    postgres_explain(postgres, "the commit was not confirmed");
    return BACKEND_UNSURE;
}
