/* SPDX-License-Identifier: Apache-2.0 */
/* On PostgreSQL each call is one SELECT of a function of the schema (store/postgres/schema), which
 * decides: here arguments become parameters, columns results, and SQLSTATEs errors. Numbers and
 * times come as text, bodies go and come as bytes in hex. */
#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/crypto/digest.h"
#include "base/mem.h"
#include "inside/inside.h"
#include "store/postgres/libpq.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define PARAMS_MAX 11
#define NUMBER_SIZE 32
#define US(column) "(extract(epoch FROM " column ") * 1000000)::bigint"

struct on_postgres {
    struct pawl pawl; /* first: the two are cast into each other */
    PGconn *connection;
};
static_assert(offsetof(struct on_postgres, pawl) == 0, "pawl is the first member");
static_assert(NUMBER_SIZE >= sizeof "-9223372036854775808 ms", "the longest span has room");

/* A statement's parameters, in their order, and what they borrow. */
struct params {
    int n;
    const char *values[PARAMS_MAX];
    char numbers[PARAMS_MAX][NUMBER_SIZE];
};

static PGconn *connection_of(struct pawl *pawl)
{
    return ((struct on_postgres *)pawl)->connection;
}

/* ---- parameters ---- */

static void add_text_parameter(struct params *params, const char *text)
{
    CHECK(params->n < PARAMS_MAX);
    params->values[params->n++] = text;
}

#define ADD_TEXTS(params, ...)                                                                     \
    do {                                                                                           \
        const char *const texts[] = {__VA_ARGS__};                                                 \
        for (size_t i = 0; i < COUNT_OF(texts); i++)                                               \
            add_text_parameter(params, texts[i]);                                                  \
    } while (0)

/* For the text of the next one. */
static char *number_room(struct params *params)
{
    CHECK(params->n < PARAMS_MAX);
    return params->numbers[params->n];
}

static void add_number(struct params *params, int64_t number)
{
    char *room = number_room(params);
    snprintf(room, NUMBER_SIZE, "%lld", (long long)number);
    add_text_parameter(params, room);
}

/* As an interval; `otherwise`: of 0. NULL: for ever. */
static void add_span(struct params *params, int64_t ms, const char *otherwise)
{
    char *room = number_room(params);
    snprintf(room, NUMBER_SIZE, "%lld ms", (long long)ms);
    add_text_parameter(params, ms == PAWL_FOREVER ? NULL : ms == 0 ? otherwise : room);
}

/* In hex, which lies in pawl->texts. False: no memory. */
static bool add_bytes_parameter(struct pawl *pawl, struct params *params, const void *bytes,
                                size_t n)
{
    char *hex = bytes ? arena_alloc(&pawl->texts, 2 * n + 3) : NULL;
    if (hex) {
        memcpy(hex, "\\x", 2);
        hex_encode(bytes, n, hex + 2);
    }
    add_text_parameter(params, hex);
    return hex || !bytes;
}

/* ---- a call ---- */

static enum pawl_error error_of_state(const char *state)
{
    static const struct {
        const char *state;
        enum pawl_error error;
    } errors[] = {{"PW001", PAWL_STALE},  {"PW004", PAWL_MALFORMED}, {"PW003", PAWL_CLOSED},
                  {"PW005", PAWL_CLOSED}, {"22023", PAWL_INVALID},   {"23505", PAWL_OTHER},
                  {"40001", PAWL_AGAIN},  {"40P01", PAWL_AGAIN},     {"53200", PAWL_NO_MEMORY}};
    for (size_t i = 0; i < COUNT_OF(errors); i++)
        if (state && strcmp(state, errors[i].state) == 0)
            return errors[i].error;
    return PAWL_FAILED;
}

static enum pawl_error fail_postgres_call(struct pawl *pawl, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    message = message ? message : PQerrorMessage(connection_of(pawl));
    int len = (int)strcspn(message, "\n");
    return inside_fail(pawl, error_of_state(state), "%.*s%s%s%s", len, message, hint ? " (" : "",
                       hint ? hint : "", hint ? ")" : "");
}

static enum pawl_error check_transaction(struct pawl *pawl)
{
    switch (PQtransactionStatus(connection_of(pawl))) {
    case PQTRANS_INTRANS:
        return PAWL_OK;
    case PQTRANS_IDLE:
        return inside_fail(pawl, PAWL_INVALID, "no transaction is open: BEGIN first");
    case PQTRANS_INERROR:
        return inside_fail(pawl, PAWL_FAILED, "the transaction has failed: roll back");
    default:
        return inside_fail(pawl, PAWL_FAILED, "the connection is in use, or broken");
    }
}

/* Runs a statement that returns one row: the caller's (PQclear). */
static enum pawl_error call_function(struct pawl *pawl, const char *sql,
                                     const struct params *params, PGresult **ret_row)
{
    enum pawl_error error = check_transaction(pawl);
    *ret_row = NULL;
    if (error)
        return error;
    PGresult *result =
        PQexecParams(connection_of(pawl), sql, params->n, NULL, params->values, NULL, NULL, 0);
    if (result && PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        *ret_row = result;
        return PAWL_OK;
    }
    error = result ? fail_postgres_call(pawl, result) : PAWL_NO_MEMORY;
    PQclear(result);
    return error;
}

/* ---- columns ---- */

/* NULL: NULL, or no memory. */
static const char *text_at(struct pawl *pawl, const PGresult *row, int column)
{
    struct slice text = slice_make(PQgetvalue(row, 0, column), (size_t)PQgetlength(row, 0, column));
    return PQgetisnull(row, 0, column) ? NULL : arena_copy(&pawl->texts, text).at;
}

static int64_t number_at(const PGresult *row, int column)
{
    return strtoll(PQgetvalue(row, 0, column), NULL, 10);
}

static bool truth_at(const PGresult *row, int column)
{
    return *PQgetvalue(row, 0, column) == 't';
}

static bool column_says(const PGresult *row, int column, const char *word)
{
    return strcmp(PQgetvalue(row, 0, column), word) == 0;
}

/* A bytea, as the server writes it in hex whatever its settings say (encode). */
static void bytes_at(struct pawl *pawl, const PGresult *row, int column,
                     struct pawl_begun *ret_begun)
{
    size_t n = (size_t)PQgetlength(row, 0, column) / 2;
    char *bytes = PQgetisnull(row, 0, column) ? NULL : arena_alloc(&pawl->texts, n + 1);
    if (!bytes || !hex_decode(slice_make(PQgetvalue(row, 0, column), 2 * n), bytes, n))
        return;
    bytes[n] = 0;
    ret_begun->body = bytes;
    ret_begun->body_size = n;
}

/* Gives the row back. */
static enum pawl_error end_postgres_call(struct pawl *pawl, PGresult *row)
{
    PQclear(row);
    return pawl->texts.failed ? PAWL_NO_MEMORY : PAWL_OK;
}

/* ---- operations under a key ---- */

static enum pawl_error postgres_install(struct pawl *pawl)
{
    return check_transaction(pawl);
}

static enum pawl_decision decision_at(const PGresult *row, int column)
{
    int decision = PAWL_BEGUN_HERE;
    while (decision > 0 &&
           !column_says(row, column, pawl_decision_name((enum pawl_decision)decision)))
        decision--;
    return (enum pawl_decision)decision;
}

static void add_begin(struct params *params, const struct pawl_operation *operation)
{
    static const char *const duplicates[] = {[PAWL_DUPLICATE_REPLAY] = "replay",
                                             [PAWL_DUPLICATE_REJECT] = "reject",
                                             [PAWL_DUPLICATE_ACK] = "ack"};
    static_assert(COUNT_OF(duplicates) == PAWL_DUPLICATE_ACK + 1, "a word each");
    CHECK(operation->duplicate <= PAWL_DUPLICATE_ACK); /* pawl_begin refuses others */
    ADD_TEXTS(params, operation->tenant, operation->rule, operation->key, operation->payload_hash);
    add_span(params, operation->ttl_ms, "24 hours");
    add_text_parameter(params, operation->once);
    add_span(params, operation->once_ttl_ms ? operation->once_ttl_ms : operation->ttl_ms,
             "24 hours");
    add_text_parameter(params, duplicates[operation->duplicate]);
    add_span(params, operation->tombstone_ms, "0");
    add_span(params, operation->wait_ms == PAWL_NO_WAIT ? 0 : operation->wait_ms,
             operation->wait_ms == PAWL_NO_WAIT ? "0" : "10 s");
    add_text_parameter(params, operation->target_hash);
}

static enum pawl_error postgres_begin(struct pawl *pawl, const struct pawl_operation *operation,
                                      struct pawl_begun *ret_begun)
{
    static const char sql[] =
        "SELECT decision, token, http_code, headers, encode(body, 'hex'), result_ref,"
        " " US("first_at") ", (extract(epoch FROM lease_left) * 1000)::bigint"
                           " FROM pawl.begin($1, $2, $3, $4, $5::interval, $6, $7::interval, $8, "
                           "$9::interval,"
                           " $10::interval, $11)";
    struct params params = {0};
    PGresult *row;
    add_begin(&params, operation);
    enum pawl_error error = call_function(pawl, sql, &params, &row);
    if (error)
        return error;
    *ret_begun = (struct pawl_begun){
        .decision = decision_at(row, 0),
        .token = number_at(row, 1),
        .http_code = (int)number_at(row, 2),
        .headers = text_at(pawl, row, 3),
        .result_ref = text_at(pawl, row, 5),
        .first_at_us = number_at(row, 6),
        .lease_left_ms = number_at(row, 7),
    };
    bytes_at(pawl, row, 4, ret_begun);
    return end_postgres_call(pawl, row);
}

static enum pawl_error postgres_complete(struct pawl *pawl, int64_t token,
                                         const struct pawl_outcome *outcome, bool *ret_already)
{
    struct params params = {0};
    PGresult *row;
    add_number(&params, token);
    add_number(&params, outcome->http_code);
    if (!add_bytes_parameter(pawl, &params, outcome->body, outcome->body_size))
        return PAWL_NO_MEMORY;
    add_text_parameter(&params, outcome->headers);
    add_text_parameter(&params, outcome->result_ref);
    enum pawl_error error = call_function(
        pawl, "SELECT pawl.complete_bytes($1, $2, $3::bytea, $4::jsonb, $5)", &params, &row);
    if (error)
        return error;
    *ret_already = column_says(row, 0, "already");
    return end_postgres_call(pawl, row);
}

static enum pawl_error postgres_release(struct pawl *pawl, int64_t token, bool *ret_already)
{
    struct params params = {0};
    PGresult *row;
    add_number(&params, token);
    enum pawl_error error = call_function(pawl, "SELECT pawl.release($1)", &params, &row);
    if (error)
        return error;
    *ret_already = column_says(row, 0, "already");
    return end_postgres_call(pawl, row);
}

/* An array's elements, quoted. */
static void write_keys(const char *const *keys, size_t n, struct buf *array)
{
    buf_add_char(array, '{');
    for (size_t i = 0; i < n; i++) {
        buf_add_str(array, i > 0 ? ",\"" : "\"");
        for (const char *at = keys[i]; *at; at++) {
            if (*at == '"' || *at == '\\')
                buf_add_char(array, '\\');
            buf_add_char(array, *at);
        }
        buf_add_char(array, '"');
    }
    buf_add(array, "}", 2);
}

static enum pawl_error postgres_lock(struct pawl *pawl, const char *tenant, const char *rule,
                                     const char *const *keys, size_t n)
{
    struct buf array BUF_AUTO = buf_make(SIZE_MAX);
    struct params params = {0};
    PGresult *row;
    write_keys(keys, n, &array);
    if (!buf_ok(&array))
        return PAWL_NO_MEMORY;
    ADD_TEXTS(&params, tenant, rule, array.at);
    enum pawl_error error =
        call_function(pawl, "SELECT pawl.lock($1, $2, $3::text[])", &params, &row);
    return error ? error : end_postgres_call(pawl, row);
}

/* ---- natural keys, machines, events ---- */

static enum pawl_error postgres_claim(struct pawl *pawl, const struct pawl_claim *claim,
                                      struct pawl_claimed *ret_claimed)
{
    struct params params = {0};
    PGresult *row;
    ADD_TEXTS(&params, claim->tenant, claim->rule, claim->key, claim->row);
    enum pawl_error error = call_function(
        pawl, "SELECT claimed, existing, " US("at") " FROM pawl.claim($1, $2, $3, $4::jsonb)",
        &params, &row);
    if (error)
        return error;
    *ret_claimed = (struct pawl_claimed){
        .claimed = truth_at(row, 0), .existing = text_at(pawl, row, 1), .at_us = number_at(row, 2)};
    return end_postgres_call(pawl, row);
}

static enum pawl_move move_at(const PGresult *row, int column)
{
    int move = PAWL_OTHER_ACTION;
    while (move > 0 && !column_says(row, column, pawl_move_name((enum pawl_move)move)))
        move--;
    return (enum pawl_move)move;
}

static enum pawl_error postgres_transition(struct pawl *pawl, const struct pawl_action *action,
                                           struct pawl_transition *ret_transition)
{
    struct params params = {0};
    PGresult *row;
    ADD_TEXTS(&params, action->tenant, action->machine, action->id, action->action,
              action->action_id);
    if (action->has_seq)
        add_number(&params, action->seq);
    else
        add_text_parameter(&params, NULL);
    enum pawl_error error =
        call_function(pawl,
                      "SELECT decision, replayed, from_state, to_state, " US(
                          "at") " FROM pawl.transition($1, $2, $3, $4, $5, $6::bigint)",
                      &params, &row);
    if (error)
        return error;
    *ret_transition = (struct pawl_transition){.decision = move_at(row, 0),
                                               .replayed = truth_at(row, 1),
                                               .from_state = text_at(pawl, row, 2),
                                               .to_state = text_at(pawl, row, 3),
                                               .at_us = number_at(row, 4)};
    return end_postgres_call(pawl, row);
}

static enum pawl_error postgres_publish(struct pawl *pawl, const struct pawl_event *event,
                                        bool *ret_already)
{
    struct params params = {0};
    PGresult *row;
    ADD_TEXTS(&params, event->type, event->id, event->data, event->tenant);
    enum pawl_error error =
        call_function(pawl, "SELECT pawl.publish($1, $2, $3::jsonb, $4)", &params, &row);
    if (error)
        return error;
    *ret_already = column_says(row, 0, "replayed");
    return end_postgres_call(pawl, row);
}

static enum pawl_error postgres_receive(struct pawl *pawl, const struct pawl_incoming *incoming,
                                        struct pawl_received *ret_received)
{
    struct params params = {0};
    PGresult *row;
    ADD_TEXTS(&params, incoming->source, incoming->event_id, incoming->payload_hash);
    add_span(&params, incoming->keep_ms, "7 days");
    enum pawl_error error = call_function(
        pawl,
        "SELECT decision, " US("received_at") ", result"
                                              " FROM pawl.receive($1, $2, $3, $4::interval)",
        &params, &row);
    if (error)
        return error;
    *ret_received = (struct pawl_received){.decision = decision_at(row, 0),
                                           .received_at_us = number_at(row, 1),
                                           .result = text_at(pawl, row, 2)};
    return end_postgres_call(pawl, row);
}

/* ---- the connection ---- */

static void postgres_free(struct pawl *pawl)
{
    arena_fini(&pawl->texts);
    mem_free(pawl);
}

static const struct inside_ops ops = {
    .install = postgres_install,
    .begin = postgres_begin,
    .complete = postgres_complete,
    .release = postgres_release,
    .lock = postgres_lock,
    .claim = postgres_claim,
    .transition = postgres_transition,
    .publish = postgres_publish,
    .receive = postgres_receive,
    .close = postgres_free,
};

struct pawl *pawl_on_postgres(void *connection)
{
    mem_keep_no_spares();
    struct on_postgres *on = libpq_load() ? NULL : mem_zalloc(1, sizeof *on);
    if (!on)
        return NULL;
    on->pawl.ops = &ops;
    on->pawl.texts = arena_make(SIZE_MAX);
    on->connection = connection;
    return &on->pawl;
}
