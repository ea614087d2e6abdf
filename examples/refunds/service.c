/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service that refunds charges: POST /refunds with an Idempotency-Key. The refund, its ledger
 * entry and the record of the response are one SQLite transaction; the money is moved by a
 * provider, which no transaction of ours can take back. README.md says why each step comes where it
 * does.
 *
 *     cc service.c $(pkg-config --cflags --libs pawl sqlite3 libmicrohttpd jansson) -o service
 *     ./service refunds.db http://127.0.0.1:9000/payouts 8080 [--once-per-charge]
 */
#include <jansson.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pawl/client.h>
#include <pawl/pawl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define BODY_MAX 65536
#define TRIES 20

static const char schema[] =
    "PRAGMA journal_mode = WAL;"
    "CREATE TABLE IF NOT EXISTS refunds(id TEXT PRIMARY KEY, merchant TEXT NOT NULL,"
    " charge TEXT NOT NULL, amount INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS ledger(id INTEGER PRIMARY KEY, refund TEXT NOT NULL"
    " REFERENCES refunds(id), amount INTEGER NOT NULL);";

static const char *file, *provider;
static bool once_per_charge;

/* A request, as far as it has come, and what it is told. */
struct exchange {
    char body[BODY_MAX + 1];
    size_t size;
    char merchant[200], key[300], charge[64], payload_hash[PAWL_HASH_SIZE];
    json_int_t amount;
    int status;
    char response[1024];
    const char *code; /* the header Error-Code; NULL: none */
};

/* ---- the database: each thread has a connection of its own ---- */

static _Thread_local sqlite3 *db;
static _Thread_local struct pawl *pawl;

static bool run(const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool connect_thread(void)
{
    if (pawl)
        return true;
    /* Foreign keys: so that a COMMIT which forgets to complete is refused. */
    if (sqlite3_open(file, &db) == SQLITE_OK && sqlite3_busy_timeout(db, 10000) == SQLITE_OK &&
        run("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL"))
        pawl = pawl_on_sqlite(db);
    if (!pawl)
        sqlite3_close(db);
    return pawl;
}

static bool insert(const char *sql, const char *const *texts, json_int_t amount)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        return false;
    int n = 0;
    while (texts[n]) {
        sqlite3_bind_text(statement, n + 1, texts[n], -1, SQLITE_STATIC);
        n++;
    }
    sqlite3_bind_int64(statement, n + 1, amount);
    sqlite3_step(statement);
    return sqlite3_finalize(statement) == SQLITE_OK;
}

/* ---- what is told ---- */

static void tell(struct exchange *x, int status, const char *code, const char *text)
{
    x->status = status;
    x->code = code;
    snprintf(x->response, sizeof x->response, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}",
             code, text);
}

static void tell_begun(struct exchange *x, const struct pawl_begun *begun)
{
    if (begun->decision == PAWL_REPLAY) {
        x->status = begun->http_code;
        x->code = begun->headers && strstr(begun->headers, "PROVIDER.duplicate")
                      ? "PROVIDER.duplicate"
                      : NULL;
        snprintf(x->response, sizeof x->response, "%s", (const char *)begun->body);
        return;
    }
    bool other = begun->decision == PAWL_OTHER_REQUEST;
    tell(x, 409,
         other                              ? "CONFLICT.idempotency.payload_mismatch"
         : begun->decision == PAWL_REJECTED ? "CONFLICT.idempotency.duplicate"
                                            : "CONFLICT.idempotency",
         pawl_decision_name(begun->decision));
}

/* ---- one transaction ---- */

static struct pawl_operation operation_of(const struct exchange *x)
{
    return (struct pawl_operation){
        .tenant = x->merchant,
        .rule = "refunds.create",
        .key = x->key,
        .payload_hash = x->payload_hash,
        .once = once_per_charge ? x->charge : NULL,
        .duplicate = once_per_charge ? PAWL_DUPLICATE_REJECT : PAWL_DUPLICATE_REPLAY,
    };
}

/* Whether there is nothing to be done any more: then the response is there. */
static enum pawl_error is_known(struct exchange *x, bool *ret_known)
{
    struct pawl_operation operation = operation_of(x);
    struct pawl_begun begun;
    if (!run("BEGIN IMMEDIATE"))
        return PAWL_AGAIN;
    enum pawl_error error = pawl_begin(pawl, &operation, &begun);
    *ret_known = !error && begun.decision != PAWL_PROCEED;
    if (*ret_known)
        tell_begun(x, &begun);
    run("ROLLBACK");
    return error;
}

/* The refund, its ledger entry, the response: all three, or none. */
static enum pawl_error record(struct exchange *x, const char *refund, bool was_paid)
{
    struct pawl_operation operation = operation_of(x);
    struct pawl_begun begun;
    enum pawl_error error = pawl_begin(pawl, &operation, &begun);
    if (error || begun.decision != PAWL_PROCEED) {
        if (!error)
            tell_begun(x, &begun);
        return error;
    }
    if (!insert("INSERT INTO refunds(id, merchant, charge, amount) VALUES(?1, ?2, ?3, ?4)",
                (const char *const[]){refund, x->merchant, x->charge, NULL}, x->amount) ||
        !insert("INSERT INTO ledger(refund, amount) VALUES(?1, ?2)",
                (const char *const[]){refund, NULL}, -x->amount))
        return PAWL_FAILED;
    x->status = 201;
    x->code = was_paid ? "PROVIDER.duplicate" : NULL;
    snprintf(x->response, sizeof x->response, "{\"id\":\"%s\",\"charge\":\"%s\",\"amount\":%lld}",
             refund, x->charge, (long long)x->amount);
    const struct pawl_outcome outcome = {
        .http_code = 201,
        .body = x->response,
        .body_size = strlen(x->response),
        .headers = was_paid ? "{\"Error-Code\":\"PROVIDER.duplicate\"}" : NULL,
        .result_ref = refund,
    };
    return pawl_complete(pawl, begun.token, &outcome, NULL);
}

static enum pawl_error record_refund(struct exchange *x, const char *refund, bool was_paid)
{
    if (!run("BEGIN IMMEDIATE"))
        return PAWL_AGAIN;
    enum pawl_error error = record(x, refund, was_paid);
    if (!error && run("COMMIT"))
        return PAWL_OK;
    run("ROLLBACK");
    return error ? error : PAWL_AGAIN;
}

/* ---- the provider ---- */

/* Pays, once for each request id however often it is asked. False: nobody knows whether it has. */
static bool pay(const struct exchange *x, char refund[64], bool *ret_was_paid)
{
    char request_id[640];
    char *body = NULL;
    /* The lengths keep merchant and key apart; read_request bounds both. */
    snprintf(request_id, sizeof request_id, "%zu:%s:%s", strlen(x->merchant), x->merchant, x->key);
    json_t *payout = json_pack("{s:s, s:I}", "charge", x->charge, "amount", x->amount);
    body = json_dumps(payout, JSON_COMPACT);
    json_decref(payout);
    struct pawl_response *response = pawl_send(&(struct pawl_request){
        .url = provider,
        .key = request_id,
        .body = body,
        .body_size = strlen(body),
        .is_json = true,
        .timeout_ms = 1000,
        .deadline_ms = 1500,
    });
    free(body);
    json_t *paid =
        response && response->verdict == PAWL_DONE ? json_loads(response->body, 0, NULL) : NULL;
    const char *id = json_string_value(json_object_get(paid, "id"));
    if (id)
        snprintf(refund, 64, "%s", id);
    *ret_was_paid = json_is_true(json_object_get(paid, "duplicate"));
    json_decref(paid);
    pawl_response_free(response);
    return id;
}

/* ---- a request ---- */

static bool read_request(struct exchange *x)
{
    json_t *body = json_loadb(x->body, x->size, 0, NULL);
    const char *charge = json_string_value(json_object_get(body, "charge"));
    const json_t *amount = json_object_get(body, "amount");
    bool good = charge && strlen(charge) < sizeof x->charge && json_is_integer(amount) &&
                json_integer_value(amount) > 0;
    if (good)
        snprintf(x->charge, sizeof x->charge, "%s", charge);
    x->amount = json_integer_value(amount);
    json_decref(body);
    bool fits = strlen(x->merchant) + strlen(x->key) < 250; /* in one key of the provider's */
    if (x->key[0] == 0)
        tell(x, 400, "VALIDATION.idempotency_key.missing", "the header Idempotency-Key is missing");
    else if (!good)
        tell(x, 400, "VALIDATION", "a refund is a charge and an amount above 0");
    else if (!fits)
        tell(x, 400, "VALIDATION.idempotency_key.malformed", "merchant and key are too long");
    return good && x->key[0] && fits &&
           pawl_payload_hash(x->body, x->size, x->payload_hash) == PAWL_OK;
}

static void refund(struct exchange *x)
{
    char id[64];
    bool known = false, was_paid = false;
    enum pawl_error error = PAWL_AGAIN;
    if (!read_request(x))
        return;
    for (int i = 0; i < TRIES && error == PAWL_AGAIN; i++)
        error = is_known(x, &known);
    if (known)
        return;
    if (!error && !pay(x, id, &was_paid)) {
        tell(x, 504, "PROVIDER.timeout", "try again with the same key");
        return;
    }
    error = error ? error : PAWL_AGAIN;
    for (int i = 0; i < TRIES && error == PAWL_AGAIN; i++)
        error = record_refund(x, id, was_paid);
    if (error == PAWL_MALFORMED)
        tell(x, 400, "VALIDATION.idempotency_key.malformed", pawl_problem(pawl));
    else if (error)
        tell(x, 503, "UNAVAILABLE", "try again with the same key");
}

/* ---- HTTP ---- */

static void copy_header(struct MHD_Connection *connection, const char *name, char *room,
                        size_t size)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    snprintf(room, size, "%s", value ? value : "");
}

static enum MHD_Result respond(struct MHD_Connection *connection, const struct exchange *x)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(x->response), (void *)x->response, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", "application/json");
    if (x->code)
        MHD_add_response_header(response, "Error-Code", x->code);
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
        memcpy(x->body + x->size, data, n);
        x->size += n;
        *data_size = 0;
        return MHD_YES;
    }
    copy_header(connection, "Idempotency-Key", x->key, sizeof x->key);
    copy_header(connection, "X-Merchant", x->merchant, sizeof x->merchant);
    if (strcmp(url, "/refunds") != 0 || strcmp(method, "POST") != 0)
        tell(x, 404, "NOT_FOUND", "POST /refunds");
    else if (!connect_thread())
        tell(x, 503, "UNAVAILABLE", "the database cannot be opened");
    else
        refund(x);
    return respond(connection, x);
}

static void end_exchange(void *argument, struct MHD_Connection *connection, void **exchange,
                         enum MHD_RequestTerminationCode code)
{
    (void)argument, (void)connection, (void)code;
    free(*exchange);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: service FILE PROVIDER PORT [--once-per-charge]\n");
        return 2;
    }
    file = argv[1];
    provider = argv[2];
    once_per_charge = argc > 4 && strcmp(argv[4], "--once-per-charge") == 0;
    if (!connect_thread() || !run(schema)) {
        fprintf(stderr, "service: %s cannot be opened\n", file);
        return 1;
    }
    sigset_t end;
    int signal;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGINT);
    sigprocmask(SIG_BLOCK, &end, NULL); /* in every thread that follows */
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)strtol(argv[3], NULL, 10))};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, serve, NULL,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)THREADS, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, NULL, MHD_OPTION_END);
    if (!daemon) {
        fprintf(stderr, "service: port %s cannot be opened\n", argv[3]);
        return 1;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    printf("listening on 127.0.0.1:%d\n", info->port);
    fflush(stdout);
    sigwait(&end, &signal);
    MHD_stop_daemon(daemon);
    pawl_free(pawl);
    sqlite3_close(db);
    return 0;
}
