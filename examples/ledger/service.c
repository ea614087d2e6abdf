/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The credit ledger's service: POST /commands/NAME with a merchant (X-Merchant) and a JSON body,
 * GET /accounts/USER and GET /metrics. Each command is one PostgreSQL transaction: its rows, its
 * row of the audit and, in tier 1, the record of its response. README.md says which guarantee each
 * has.
 *
 *     cc service.c commands.c $(pkg-config --cflags --libs pawl libpq libmicrohttpd jansson) \
 *         -o service
 *     ./service postgres://ledger@localhost/ledger 8080
 */
#include "ledger.h"

#include <jansson.h>
#include <libpq-fe.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pawl/pawl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 8
#define BODY_MAX 65536
#define TRIES 20
#define TEXT_OID 25
#define HOURS_24_MS (INT64_C(24) * 3600 * 1000)

static const char *database;

/* A request, as far as it has come, and what it is told. */
struct exchange {
    const struct command *command;
    char sent[BODY_MAX + 1];
    size_t size;
    json_t *body;
    char merchant[200];
    const char *values[1 + FIELDS_MAX]; /* parameters: merchant, fields; borrowed from `texts` */
    char texts[FIELDS_MAX][300];
    char payload_hash[PAWL_HASH_SIZE];
    const char *key;

    int status;
    char response[4096];
    char state[32], seconds_left[32]; /* as of now, beside the response; "": neither */
};

/* ---- the database: each thread has a connection of its own ---- */

static _Thread_local PGconn *db;
static _Thread_local struct pawl *pawl;

static bool connect_thread(void)
{
    if (db && PQstatus(db) == CONNECTION_OK)
        return true;
    pawl_free(pawl);
    PQfinish(db);
    db = PQconnectdb(database);
    pawl = PQstatus(db) == CONNECTION_OK ? pawl_on_postgres(db) : NULL;
    return pawl;
}

static bool run(const char *sql)
{
    PGresult *result = PQexec(db, sql);
    bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return good;
}

/* The first column of the first row into `room`, "" where there is none. What fails rolls back. */
static enum pawl_error ask(const char *sql, const char *const *values, int n, char *room,
                           size_t size)
{
    /* All text, those too that a statement leaves out. */
    static const Oid types[1 + FIELDS_MAX] = {TEXT_OID, TEXT_OID, TEXT_OID,
                                              TEXT_OID, TEXT_OID, TEXT_OID};
    PGresult *result = PQexecParams(db, sql, n, types, values, NULL, NULL, 0);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool again = state && (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0);
    bool theirs = state && (strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0);
    bool any = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0;
    snprintf(room, size, "%s",
             theirs ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)
             : any  ? PQgetvalue(result, 0, 0)
                    : "");
    bool good =
        PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return good ? PAWL_OK : again ? PAWL_AGAIN : theirs ? PAWL_INVALID : PAWL_FAILED;
}

static int n_values(const struct command *command)
{
    int n = 0;
    while (n < FIELDS_MAX && command->fields[n])
        n++;
    return 1 + n;
}

/* ---- what is told ---- */

/* `existing`: JSON of the row that is in the way; NULL: none. */
static void tell(struct exchange *x, int status, const char *code, const char *message,
                 const char *existing)
{
    json_t *row = existing ? json_loads(existing, 0, NULL) : NULL;
    json_t *error = json_pack("{s:{s:s, s:s, s:o*}}", "error", "code", code, "message", message,
                              "existing", row);
    char *text = json_dumps(error, JSON_COMPACT);
    x->status = status;
    snprintf(x->response, sizeof x->response, "%s", text ? text : "{}");
    free(text);
    json_decref(error);
}

static const char *member(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));
    return text ? text : "?";
}

/* Names what is there, so that whoever reads it need not look: its key, its id, since when. */
static void tell_existing(struct exchange *x, const char *existing)
{
    char message[512];
    json_t *row = json_loads(existing, 0, NULL);
    bool is_operation = json_object_get(row, "opened_at");
    snprintf(message, sizeof message, "%s: %s exists, id %lld, %s %s", x->command->name,
             x->values[1], (long long)json_integer_value(json_object_get(row, "id")),
             is_operation ? "and is" : "created at",
             member(row, is_operation ? "status" : "created_at"));
    tell(x, 409, is_operation ? "NOT_OPEN" : "DUPLICATE", message, existing);
    json_decref(row);
}

static enum pawl_error audit(const struct exchange *x, const char *result)
{
    char none[8];
    char *body = json_dumps(x->body, JSON_COMPACT);
    enum pawl_error error = ask(
        "INSERT INTO audit(merchant, command, result, body) VALUES ($1, $2, $3, $4::jsonb)",
        (const char *const[]){x->merchant, x->command->name, result, body}, 4, none, sizeof none);
    free(body);
    return error;
}

/* ---- one command, inside its transaction ---- */

/* The command's statement. `*ret_done`: it made its rows; else the response says what is there. */
static enum pawl_error act(struct exchange *x, bool *ret_done)
{
    const struct command *command = x->command;
    char existing[2048] = "";
    enum pawl_error error =
        ask(command->sql, x->values, n_values(command), x->response, sizeof x->response);
    if (error == PAWL_INVALID) {
        char message[512];
        snprintf(message, sizeof message, "%.500s", x->response);
        tell(x, 400, "VALIDATION", message, NULL);
    }
    *ret_done = !error && x->response[0];
    x->status = *ret_done ? (command->pattern == REPEATABLE ? 200 : 201) : x->status;
    if (error || *ret_done)
        return error;
    if (command->existing)
        error = ask(command->existing, x->values, n_values(command), existing, sizeof existing);
    if (!existing[0])
        tell(x, 404, "NOT_FOUND", "what the command names is not there", NULL);
    else if (command->pattern == REPEATABLE)
        x->status = snprintf(x->response, sizeof x->response, "%s", existing) ? 200 : 500;
    else
        tell_existing(x, existing);
    return error;
}

static enum pawl_error tell_begun(struct exchange *x, const struct pawl_begun *begun)
{
    if (begun->decision == PAWL_REPLAY) {
        x->status = begun->http_code;
        snprintf(x->response, sizeof x->response, "%s", (const char *)begun->body);
    } else {
        tell(x, 409, "CONFLICT.idempotency", pawl_decision_name(begun->decision), NULL);
    }
    return audit(x, pawl_decision_name(begun->decision));
}

/* Tier 1: the first response is kept, and told again. */
static enum pawl_error act_once(struct exchange *x, bool *ret_done)
{
    const struct pawl_operation operation = {
        .tenant = x->merchant,
        .rule = x->command->name,
        .key = x->key,
        .payload_hash = x->payload_hash,
        .ttl_ms = x->command->pattern == EXPLICIT_KEY ? HOURS_24_MS : PAWL_FOREVER,
        .wait_ms = PAWL_FOREVER,
    };
    struct pawl_begun begun;
    enum pawl_error error = pawl_begin(pawl, &operation, &begun);
    if (error)
        return error;
    if (begun.decision != PAWL_PROCEED)
        return tell_begun(x, &begun);
    int64_t token = begun.token;
    error = act(x, ret_done);
    if (error)
        return error;
    if (!*ret_done) {
        error = pawl_release(pawl, token, NULL);
        return error ? error : audit(x, "refused");
    }
    const struct pawl_outcome outcome = {
        .http_code = x->status, .body = x->response, .body_size = strlen(x->response)};
    error = pawl_complete(pawl, token, &outcome, NULL);
    return error ? error : audit(x, "new");
}

/* Tier 2: the database's constraints are all there is. */
static enum pawl_error act_by_constraint(struct exchange *x, bool *ret_done)
{
    enum pawl_error error = act(x, ret_done);
    return error ? error : audit(x, *ret_done ? "new" : "duplicate");
}

static enum pawl_error transact(struct exchange *x, bool *ret_done)
{
    bool once = x->command->pattern == NATURAL_KEY || x->command->pattern == EXPLICIT_KEY;
    *ret_done = false;
    if (!run("BEGIN"))
        return PAWL_FAILED;
    enum pawl_error error = once ? act_once(x, ret_done) : act_by_constraint(x, ret_done);
    if (!error && run("COMMIT"))
        return PAWL_OK;
    run("ROLLBACK");
    return error ? error : PAWL_FAILED;
}

/* ---- a request ---- */

/* Each as text, whatever JSON it was. */
static bool read_fields(struct exchange *x)
{
    char message[128];
    x->values[0] = x->merchant;
    for (int i = 0; i + 1 < n_values(x->command); i++) {
        const json_t *value = json_object_get(x->body, x->command->fields[i]);
        if (json_is_integer(value))
            snprintf(x->texts[i], sizeof x->texts[i], "%lld", (long long)json_integer_value(value));
        else if (json_is_string(value))
            snprintf(x->texts[i], sizeof x->texts[i], "%s", json_string_value(value));
        bool fits = json_string_length(value) < sizeof x->texts[i];
        if (!x->texts[i][0] || !fits) {
            snprintf(message, sizeof message, "%s is %s", x->command->fields[i],
                     fits ? "missing" : "too long");
            tell(x, 400, "VALIDATION", message, NULL);
            return false;
        }
        x->values[i + 1] = x->texts[i];
    }
    return true;
}

static bool read_request(struct exchange *x)
{
    x->body = json_loadb(x->sent, x->size, 0, NULL);
    if (!json_is_object(x->body) || !x->merchant[0]) {
        tell(x, 400, "VALIDATION", "a command is a JSON object, and has a merchant", NULL);
        return false;
    }
    const char *key = x->command->pattern == EXPLICIT_KEY ? "idempotency_key" : x->command->key;
    x->key = key ? json_string_value(json_object_get(x->body, key)) : NULL;
    if (key && !x->key) {
        tell(x, 400, "VALIDATION", "its key is missing", NULL);
        return false;
    }
    return read_fields(x) && pawl_payload_hash(x->sent, x->size, x->payload_hash) == PAWL_OK;
}

/* What changes while the stored response stays: told beside it. */
static void tell_live(struct exchange *x)
{
    PGresult *result = PQexecParams(db, x->command->live, 1, NULL,
                                    (const char *const[]){x->response}, NULL, NULL, 0);
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        snprintf(x->state, sizeof x->state, "%s", PQgetvalue(result, 0, 0));
        snprintf(x->seconds_left, sizeof x->seconds_left, "%s", PQgetvalue(result, 0, 1));
    }
    PQclear(result);
}

static void serve_command(struct exchange *x)
{
    char none[8];
    bool done = false;
    enum pawl_error error = PAWL_AGAIN;
    if (!read_request(x))
        return;
    for (int i = 0; i < TRIES && error == PAWL_AGAIN; i++)
        error = transact(x, &done);
    if (error == PAWL_MALFORMED)
        tell(x, 400, "VALIDATION", pawl_problem(pawl), NULL);
    else if (error && error != PAWL_INVALID)
        tell(x, 503, "UNAVAILABLE", "try again with the same key", NULL);
    if (!error && done && x->command->after)
        (void)ask(x->command->after, (const char *const[]){x->response}, 1, none, sizeof none);
    if (!error && x->status < 300 && x->command->live)
        tell_live(x);
}

static void serve_query(struct exchange *x, const char *sql, const char *const *values, int n)
{
    x->status = ask(sql, values, n, x->response, sizeof x->response) == PAWL_OK ? 200 : 503;
}

static const struct command *find_command(const char *name)
{
    const struct command *command = commands;
    while (command->name && strcmp(command->name, name) != 0)
        command++;
    return command->name ? command : NULL;
}

static void serve_url(struct exchange *x, const char *method, const char *url)
{
    static const char metrics[] =
        "SELECT coalesce(string_agg(format(E'ledger_commands_total{command=\"%s\",result=\"%s\"} "
        "%s'"
        " || E'\\n', command, result, n), '' ORDER BY command, result), '') FROM"
        " (SELECT command, result, count(*) AS n FROM audit GROUP BY command, result) a";
    bool is_get = strcmp(method, "GET") == 0;
    if (!connect_thread()) {
        tell(x, 503, "UNAVAILABLE", "the database is away", NULL);
    } else if (is_get && strcmp(url, "/metrics") == 0) {
        serve_query(x, metrics, NULL, 0);
    } else if (is_get && strncmp(url, "/accounts/", 10) == 0) {
        serve_query(x,
                    "SELECT json_build_object('balance', coalesce(sum(amount), 0)) FROM entries"
                    " WHERE merchant = $1 AND user_id = $2",
                    (const char *const[]){x->merchant, url + 10}, 2);
    } else {
        bool is_command = strcmp(method, "POST") == 0 && strncmp(url, "/commands/", 10) == 0;
        x->command = is_command ? find_command(url + 10) : NULL;
        if (x->command)
            serve_command(x);
        else
            tell(x, 404, "NOT_FOUND", "there is no such command", NULL);
    }
}

/* ---- HTTP ---- */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value[0])
        MHD_add_response_header(response, name, value);
}

static enum MHD_Result respond(struct MHD_Connection *connection, const struct exchange *x)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(x->response), (void *)x->response, MHD_RESPMEM_MUST_COPY);
    add_header(response, "Content-Type", x->response[0] == '{' ? "application/json" : "text/plain");
    add_header(response, "Operation-Status", x->state);
    add_header(response, "Operation-Time-Remaining", x->seconds_left);
    enum MHD_Result queued = MHD_queue_response(connection, (unsigned)x->status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result serve(void *argument, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *data,
                             size_t *data_size, void **ret_exchange)
{
    struct exchange *x = *ret_exchange;
    (void)argument, (void)version;
    if (!x) {
        *ret_exchange = x = calloc(1, sizeof *x);
        return x ? MHD_YES : MHD_NO;
    }
    if (*data_size > 0) {
        size_t room = BODY_MAX - x->size, n = *data_size < room ? *data_size : room;
        memcpy(x->sent + x->size, data, n);
        x->size += n;
        *data_size = 0;
        return MHD_YES;
    }
    const char *merchant = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Merchant");
    snprintf(x->merchant, sizeof x->merchant, "%s",
             merchant && strlen(merchant) < sizeof x->merchant ? merchant : "");
    serve_url(x, method, url);
    return respond(connection, x);
}

static void end_exchange(void *argument, struct MHD_Connection *connection, void **exchange,
                         enum MHD_RequestTerminationCode code)
{
    struct exchange *x = *exchange;
    (void)argument, (void)connection, (void)code;
    if (x)
        json_decref(x->body);
    free(x);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: service DATABASE PORT\n");
        return 2;
    }
    database = argv[1];
    sigset_t end;
    int signal;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGINT);
    sigprocmask(SIG_BLOCK, &end, NULL); /* in every thread that follows */
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)strtol(argv[2], NULL, 10))};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, serve, NULL,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)THREADS, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, NULL, MHD_OPTION_END);
    if (!daemon) {
        fprintf(stderr, "service: port %s cannot be opened\n", argv[2]);
        return 1;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    printf("listening on 127.0.0.1:%d\n", info->port);
    fflush(stdout);
    sigwait(&end, &signal);
    MHD_stop_daemon(daemon);
    return 0;
}
