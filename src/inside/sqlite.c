/* SPDX-License-Identifier: Apache-2.0 */
#include "inside/sqlite.h"

#include "base/check.h"
#include "base/crypto/random.h"
#include "base/headers.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "inside/headers.h"
#include "inside/names.h"
#include "store/sqlite/guest.h"
#include "store/tables/events.h"
#include "store/tables/inbox.h"
#include "store/tables/machines.h"

#define RECIPE SLICE(PAYLOAD_RECIPE_ALL) /* of payload hashes as `pawl hash` makes them */
#define LEASE_US CLOCK_US_PER_S
#define TTL_MS (INT64_C(24) * 3600 * 1000)
#define FIELDS_MAX ((size_t)64 * 1024)

static const struct table *const tables[] = {
    &event_table, &machine_table, &machine_state_table, &machine_told_table, &inbox_table, NULL};

/* ---- a call ---- */

static void use_secret(struct inside_sqlite *on)
{
    const unsigned char *secret = sqlite_guest_secret(on->backend);
    if (memcmp(on->secret, secret, DIGEST_SIZE) == 0)
        return;
    memcpy(on->secret, secret, DIGEST_SIZE);
    on->key = digest_key_of(slice_make((const char *)secret, DIGEST_SIZE));
}

/* SQLite calls it busy as well when the call's own statement is the one that writes. */
static enum pawl_error refuse_busy(struct inside_sqlite *on)
{
    if (sqlite_guest_is_nested(on->backend))
        return inside_fail(&on->pawl, PAWL_INVALID,
                           "the call is part of a statement that writes; SELECT it alone");
    return inside_fail(&on->pawl, PAWL_AGAIN, "%s", direct_problem(on->direct));
}

enum pawl_error inside_sqlite_enter(struct inside_sqlite *on)
{
    struct pawl *pawl = &on->pawl;
    enum sqlite_guest_state state = sqlite_guest_enter(on->backend);
    int64_t self = sqlite_guest_self(on->backend);
    if (state == SQLITE_GUEST_IDLE)
        return inside_fail(pawl, PAWL_INVALID, "no transaction is open: BEGIN IMMEDIATE first");
    if (state == SQLITE_GUEST_BUSY)
        return refuse_busy(on);
    if (state != SQLITE_GUEST_READY)
        return inside_fail(pawl, state == SQLITE_GUEST_CLOSED ? PAWL_CLOSED : PAWL_FAILED, "%s",
                           direct_problem(on->direct));
    if (self != on->self) {
        on->first = on->last = 0;
        buf_clear(&on->renewed);
    }
    on->self = self;
    use_secret(on);
    return PAWL_OK;
}

static enum pawl_error run_inside_op(struct inside_sqlite *on, struct store_op *op, size_t sweep)
{
    direct_run(on->direct, op, on->self, sweep);
    switch (op->result.status) {
    case STORE_DONE:
    case STORE_CONFLICT:
        return PAWL_OK;
    case STORE_DOWN:
        return refuse_busy(on);
    case STORE_NO_MEMORY:
        return PAWL_NO_MEMORY;
    default:
        return inside_fail(&on->pawl, PAWL_FAILED, "%s", direct_problem(on->direct));
    }
}

enum pawl_error inside_sqlite_run(struct inside_sqlite *on, struct store_op *op)
{
    return run_inside_op(on, op, 0);
}

enum pawl_error inside_sqlite_add(struct inside_sqlite *on, struct store_op *op)
{
    bool sweeps = !sqlite_guest_is_read_only(on->backend) && on->added++ % INSIDE_SWEEP_EACH == 0;
    return run_inside_op(on, op, sweeps ? INSIDE_SWEEP : 0);
}

/* With a NUL behind it. NULL: there is none, or no memory. */
static const char *keep_text(struct pawl *pawl, struct slice text)
{
    return text.len > 0 ? arena_copy(&pawl->texts, text).at : NULL;
}

static enum pawl_error sqlite_install(struct pawl *pawl)
{
    return inside_sqlite_enter(inside_sqlite_of(pawl));
}

/* ---- begin: what it brings ---- */

/* The operation of the store, and what it borrows. */
struct begin_query {
    struct store_op op;
    struct store_once once;
};

static const char *read_operation_spans(const struct pawl_operation *operation,
                                        struct record_begin *begin)
{
    int64_t ttl_ms = operation->ttl_ms ? operation->ttl_ms : TTL_MS;
    int64_t once_ms = operation->once_ttl_ms ? operation->once_ttl_ms : ttl_ms;
    bool good = names_span(ttl_ms, &begin->ttl_us) && names_span(once_ms, &begin->once_ttl_us) &&
                names_span(operation->tombstone_ms, &begin->tombstone_us);
    begin->doubted_us = begin->ttl_us;
    return good ? NULL
                : "ttl_ms, once_ttl_ms and tombstone_ms must be between 0 and 100000 days, or "
                  "PAWL_FOREVER";
}

static struct digest hash_of(const struct inside_sqlite *on, struct slice tenant, struct slice rule,
                             struct slice key)
{
    const struct slice parts[] = {tenant, rule, key};
    return digest_keyed(&on->key, parts, 3);
}

static void fill_once(const struct inside_sqlite *on, const struct pawl_operation *operation,
                      struct begin_query *asked)
{
    struct store_op *op = &asked->op;
    struct slice text = slice_of(operation->once);
    if (!operation->once) {
        op->begin.once_ttl_us = 0;
        return;
    }
    op->begin.once_replay = operation->duplicate == PAWL_DUPLICATE_REPLAY;
    asked->once = (struct store_once){
        .text = text,
        .hash = store_once_hash(&on->key, op->arrival.tenant, op->arrival.rule, text),
        .as_key = hash_of(on, op->arrival.tenant, op->arrival.rule, text),
        .reject = operation->duplicate == PAWL_DUPLICATE_REJECT,
        .acknowledge = operation->duplicate == PAWL_DUPLICATE_ACK,
    };
    op->arrival.once = &asked->once;
}

static enum pawl_error make_begin(struct inside_sqlite *on, const struct pawl_operation *operation,
                                  struct begin_query *asked)
{
    struct pawl *pawl = &on->pawl;
    struct store_op *op = &asked->op;
    *op = (struct store_op){
        .kind = STORE_BEGIN,
        .arrival = {.tenant = slice_of(operation->tenant),
                    .rule = slice_of(operation->rule),
                    .key = slice_of(operation->key),
                    .recipe = RECIPE},
        .begin = {.lease_us = LEASE_US, .unknown = RECORD_UNKNOWN_HOLD},
    };
    const char *problem = names_problem(operation->tenant, operation->rule, operation->key);
    if (!problem && operation->once)
        problem = names_problem(NULL, operation->rule, operation->once);
    if (problem)
        return inside_fail(pawl, PAWL_MALFORMED, "%s", problem);
    problem = read_operation_spans(operation, &op->begin);
    if (problem)
        return inside_fail(pawl, PAWL_INVALID, "%s", problem);
    if (!names_digest(operation->payload_hash, &op->begin.payload_hash) ||
        !names_digest(operation->target_hash, &op->begin.target_hash))
        return inside_fail(pawl, PAWL_INVALID,
                           "payload_hash and target_hash must be 64 hex digits");
    random_bytes(op->begin.attempt_id, RECORD_ATTEMPT_ID_SIZE);
    op->key_hash = hash_of(on, op->arrival.tenant, op->arrival.rule, op->arrival.key);
    fill_once(on, operation, asked);
    return PAWL_OK;
}

/* ---- begin: what it came to ---- */

/* A duplicate of what is done is not told its response, as the rule has it. */
static enum pawl_duplicate refusal_of(const struct store_op *op, enum pawl_duplicate duplicate)
{
    bool told = op->result.verdict == RECORD_REPLAY ||
                op->result.verdict == RECORD_RESULT_NOT_KEPT ||
                (op->result.verdict == RECORD_RESULT_EXPIRED &&
                 (op->result.by_once || op->result.acknowledges));
    if (!told || op->result.record.status != RECORD_COMPLETE)
        return PAWL_DUPLICATE_REPLAY;
    if (op->result.acknowledges)
        return PAWL_DUPLICATE_ACK;
    return op->result.by_once || !op->arrival.once ? duplicate : PAWL_DUPLICATE_REPLAY;
}

static enum pawl_decision decision_of(const struct store_op *op, int64_t self)
{
    static const enum pawl_decision decisions[] = {
        [RECORD_PROCEED] = PAWL_PROCEED,
        [RECORD_REPLAY] = PAWL_REPLAY,
        [RECORD_MISMATCH] = PAWL_OTHER_REQUEST,
        [RECORD_IN_PROGRESS] = PAWL_IN_PROGRESS,
        [RECORD_OUTCOME_UNKNOWN] = PAWL_OUTCOME_UNKNOWN,
        [RECORD_RESULT_EXPIRED] = PAWL_RESULT_EXPIRED,
        [RECORD_RESULT_NOT_KEPT] = PAWL_RESULT_NOT_KEPT,
        [RECORD_DUPLICATE] = PAWL_REJECTED,
    };
    /* Operations of SQL are neither probed nor asked about, and their keys have no time. */
    enum record_verdict verdict = op->result.verdict;
    CHECK(verdict <= RECORD_DUPLICATE && decisions[verdict] != 0);
    bool own = verdict == RECORD_IN_PROGRESS && op->result.record.owner == self;
    return own ? PAWL_BEGUN_HERE : decisions[verdict];
}

/* The kept response. False: no memory. */
static bool show_outcome(struct pawl *pawl, const struct outcome *outcome, struct pawl_begun *begun)
{
    struct buf json BUF_AUTO = buf_make(SIZE_MAX);
    struct slice body = arena_copy(&pawl->texts, outcome->body);
    headers_to_json(outcome->fields, &json);
    begun->headers = buf_ok(&json) ? keep_text(pawl, buf_slice(&json)) : NULL;
    begun->body = body.at;
    begun->body_size = body.len;
    return body.at && begun->headers;
}

static enum pawl_error show_done(struct inside_sqlite *on, const struct store_op *op,
                                 enum pawl_duplicate refusal, struct pawl_begun *begun)
{
    struct pawl *pawl = &on->pawl;
    if (refusal == PAWL_DUPLICATE_ACK) {
        begun->decision = PAWL_REPLAY;
        begun->http_code = 204;
        return PAWL_OK;
    }
    if (refusal == PAWL_DUPLICATE_REJECT)
        begun->decision = PAWL_REJECTED;
    begun->http_code = op->result.record.http_status;
    bool kept = op->result.store_now < record_body_until(&op->result.record);
    if (!kept || (begun->decision != PAWL_REPLAY && begun->decision != PAWL_REJECTED))
        return PAWL_OK;
    struct store_row row;
    direct_row(on->direct, op, &row);
    begun->result_ref = keep_text(pawl, row.location);
    if (begun->decision == PAWL_REPLAY && !show_outcome(pawl, op->result.found, begun))
        return PAWL_NO_MEMORY;
    return pawl->texts.failed ? PAWL_NO_MEMORY : PAWL_OK;
}

/* There is room for it. */
static void note_begun(struct inside_sqlite *on, const struct store_op *op)
{
    const struct inside_renewed renewed = {op->result.record.token, op->result.row, op->key_hash};
    if (op->result.row != op->result.record.token)
        buf_add(&on->renewed, (const char *)&renewed, sizeof renewed);
    on->last = op->result.record.token;
    on->first = on->first ? on->first : on->last;
    CHECK(on->first > 0 && on->first <= on->last);
    on->row = op->result.row;
    on->key_hash = op->key_hash;
}

static enum pawl_error show_begun_operation(struct inside_sqlite *on, const struct store_op *op,
                                            const struct pawl_operation *operation,
                                            struct pawl_begun *begun)
{
    if (op->result.verdict == RECORD_OTHER_RECIPE)
        return inside_fail(&on->pawl, PAWL_INVALID,
                           "the record was hashed by another recipe, and cannot be compared");
    begun->decision = decision_of(op, on->self);
    begun->first_at_us = op->result.record.created_at;
    switch (begun->decision) {
    case PAWL_PROCEED:
        begun->token = op->result.record.token;
        if (!sqlite_guest_is_guarded(on->backend))
            begun->warning = "PRAGMA foreign_keys is off: a COMMIT that forgets to complete or "
                             "release is not refused, and the outcome is unknown then";
        note_begun(on, op);
        return PAWL_OK;
    case PAWL_REPLAY:
    case PAWL_REJECTED:
    case PAWL_RESULT_EXPIRED:
    case PAWL_RESULT_NOT_KEPT:
        return show_done(on, op, refusal_of(op, operation->duplicate), begun);
    default:
        return PAWL_OK;
    }
}

static enum pawl_error sqlite_begin(struct pawl *pawl, const struct pawl_operation *operation,
                                    struct pawl_begun *ret_begun)
{
    struct inside_sqlite *on = inside_sqlite_of(pawl);
    struct begin_query asked;
    enum pawl_error error = inside_sqlite_enter(on);
    if (!error)
        error = make_begin(on, operation, &asked);
    if (!error && !buf_room(&on->renewed, sizeof(struct inside_renewed)))
        error = PAWL_NO_MEMORY;
    if (error)
        return error;
    error = inside_sqlite_add(on, &asked.op);
    if (!error)
        error = show_begun_operation(on, &asked.op, operation, ret_begun);
    store_result_fini(&asked.op.result, &asked.op.room);
    return error;
}

/* ---- complete, release ---- */

static enum pawl_error refuse_stale(struct pawl *pawl, int64_t token)
{
    return inside_fail(pawl, PAWL_STALE,
                       "the token %lld is stale: the transaction that began the operation has "
                       "ended, or it is settled; roll back",
                       (long long)token);
}

/* False: its row is its token's. */
static bool find_renewed(const struct inside_sqlite *on, int64_t token, struct store_op *op)
{
    struct inside_renewed one;
    CHECK(on->renewed.len % sizeof one == 0);
    for (size_t at = on->renewed.len; at > 0;) {
        at -= sizeof one;
        memcpy(&one, on->renewed.at + at, sizeof one);
        if (one.token != token)
            continue;
        op->row_hint = one.row;
        op->key_hash = one.key_hash;
        return true;
    }
    return false;
}

/* Names the record by its token, which must be of this transaction. */
static enum pawl_error name_record(struct inside_sqlite *on, int64_t token, struct store_op *op)
{
    struct store_row row;
    op->writing.token = token;
    op->row_hint = on->row;
    op->key_hash = on->key_hash;
    if (on->first == 0 || token < on->first || token > on->last)
        return refuse_stale(&on->pawl, token);
    if (token == on->last || find_renewed(on, token, op))
        return PAWL_OK;
    if (!sqlite_guest_find(on->backend, token, &row))
        return inside_fail(&on->pawl, PAWL_FAILED, "%s", direct_problem(on->direct));
    if (row.record.status == RECORD_ABSENT)
        return refuse_stale(&on->pawl, token);
    op->row_hint = row.id;
    op->key_hash = row.key_hash;
    return PAWL_OK;
}

static enum pawl_error write_inside_record(struct inside_sqlite *on, struct store_op *op,
                                           bool *ret_already)
{
    enum pawl_error error = inside_sqlite_run(on, op);
    *ret_already = op->result.write == RECORD_ALREADY;
    if (!error && op->result.write != RECORD_WRITTEN && op->result.write != RECORD_ALREADY)
        error = refuse_stale(&on->pawl, op->writing.token);
    outcome_unref(op->result.found);
    return error;
}

static const char *check_outcome(const struct pawl_outcome *outcome)
{
    int code = outcome->http_code;
    if (code < 200 || code > 599)
        return "http_code must be between 200 and 599";
    if ((code == 204 || code == 304) && outcome->body_size > 0)
        return "a response 204 or 304 has no body";
    return NULL;
}

/* NULL: `*ret_error` says why. Its location may be borrowed from `from`. */
static struct outcome *make_inside_outcome(struct pawl *pawl, const struct pawl_outcome *from,
                                           enum pawl_error *ret_error)
{
    struct buf lines BUF_AUTO = buf_make(FIELDS_MAX);
    const char *problem = check_outcome(from);
    if (!problem && from->result_ref && !header_is_text(slice_of(from->result_ref)))
        problem = "result_ref must not have control characters";
    if (!problem && from->headers)
        problem = headers_to_lines(slice_of(from->headers), &pawl->texts, &lines);
    if (problem) {
        *ret_error = inside_fail(pawl, PAWL_INVALID, "%s", problem);
        return NULL;
    }
    struct outcome *outcome =
        outcome_new(from->http_code, from->http_code / 100 == 4, buf_slice(&lines),
                    slice_make(from->body, from->body_size));
    *ret_error = outcome ? PAWL_OK : PAWL_NO_MEMORY;
    if (outcome && from->result_ref)
        outcome->location = slice_of(from->result_ref);
    return outcome;
}

static enum pawl_error sqlite_complete(struct pawl *pawl, int64_t token,
                                       const struct pawl_outcome *outcome, bool *ret_already)
{
    struct inside_sqlite *on = inside_sqlite_of(pawl);
    struct store_op op = {
        .kind = STORE_FINISH, .writing.keeps = true, .writing.http_status = outcome->http_code};
    enum pawl_error error = inside_sqlite_enter(on);
    if (!error)
        error = name_record(on, token, &op);
    if (!error)
        op.writing.outcome = make_inside_outcome(pawl, outcome, &error);
    if (error)
        return error;
    op.writing.final = op.writing.outcome->failed ? RECORD_FAILED : RECORD_COMPLETE;
    error = write_inside_record(on, &op, ret_already);
    outcome_unref(op.writing.outcome);
    return error;
}

static enum pawl_error sqlite_release(struct pawl *pawl, int64_t token, bool *ret_already)
{
    struct inside_sqlite *on = inside_sqlite_of(pawl);
    struct store_op op = {.kind = STORE_RELEASE};
    enum pawl_error error = inside_sqlite_enter(on);
    if (!error)
        error = name_record(on, token, &op);
    return error ? error : write_inside_record(on, &op, ret_already);
}

static enum pawl_error sqlite_lock(struct pawl *pawl, const char *tenant, const char *rule,
                                   const char *const *keys, size_t n)
{
    enum pawl_error error = inside_sqlite_enter(inside_sqlite_of(pawl));
    for (size_t i = 0; i < n && !error; i++) {
        const char *problem = names_problem(tenant, rule, keys[i]);
        error = problem ? inside_fail(pawl, PAWL_MALFORMED, "%s", problem) : PAWL_OK;
    }
    return error;
}

/* ---- natural keys ---- */

static enum pawl_error check_claim(struct pawl *pawl, const char *row)
{
    struct json *root;
    bool is_json = json_parse(&pawl->texts, slice_of(row), &root, NULL) == JSON_OK;
    return is_json ? PAWL_OK : inside_fail(pawl, PAWL_INVALID, "the row must be JSON");
}

static enum pawl_error store_claim(struct pawl *pawl, int64_t token, const char *row)
{
    const struct pawl_outcome outcome = {.http_code = 200, .body = row, .body_size = strlen(row)};
    bool already;
    return sqlite_complete(pawl, token, &outcome, &already);
}

static enum pawl_error sqlite_claim(struct pawl *pawl, const struct pawl_claim *claim,
                                    struct pawl_claimed *ret_claimed)
{
    const struct pawl_operation operation = {
        .tenant = claim->tenant, .rule = claim->rule, .key = claim->key, .ttl_ms = PAWL_FOREVER};
    const char *row = claim->row ? claim->row : "null";
    struct pawl_begun begun = {.token = 0};
    enum pawl_error error = check_claim(pawl, row);
    if (!error)
        error = sqlite_begin(pawl, &operation, &begun);
    if (error)
        return error;
    ret_claimed->claimed = begun.decision == PAWL_PROCEED;
    ret_claimed->existing = begun.body;
    ret_claimed->at_us = begun.first_at_us;
    if (ret_claimed->claimed)
        return store_claim(pawl, begun.token, row);
    return begun.decision == PAWL_REPLAY
               ? PAWL_OK
               : inside_fail(pawl, PAWL_FAILED, "key %s of rule %s is no claim: %s", claim->key,
                             claim->rule, pawl_decision_name(begun.decision));
}

/* ---- the connection ---- */

static void sqlite_free(struct pawl *pawl)
{
    struct inside_sqlite *on = inside_sqlite_of(pawl);
    direct_close(on->direct);
    arena_fini(&pawl->texts);
    buf_fini(&on->renewed);
    mem_free(on);
}

static const struct inside_ops ops = {
    .install = sqlite_install,
    .begin = sqlite_begin,
    .complete = sqlite_complete,
    .release = sqlite_release,
    .lock = sqlite_lock,
    .claim = sqlite_claim,
    .transition = inside_sqlite_transition,
    .publish = inside_sqlite_publish,
    .receive = inside_sqlite_receive,
    .close = sqlite_free,
};

struct pawl *pawl_on_sqlite(void *db)
{
    mem_keep_no_spares();
    struct inside_sqlite *on = mem_zalloc(1, sizeof *on);
    struct backend *backend = on ? sqlite_guest_open(db, tables) : NULL;
    struct direct *direct = backend ? direct_open(backend) : NULL;
    if (!direct) {
        mem_free(on);
        return NULL;
    }
    on->pawl.ops = &ops;
    on->pawl.texts = arena_make(SIZE_MAX);
    on->renewed = buf_make(SIZE_MAX);
    on->backend = backend;
    on->direct = direct;
    return &on->pawl;
}
