/* SPDX-License-Identifier: Apache-2.0 */
#include "client/queue_send.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "client/fields.h"
#include "client/http.h"
#include "client/queue.h"
#include "client/queue_steps.h"
#include "client/request.h"
#include "client/verdict.h"
#include "courier/kind.h"
#include <assert.h>

#define UNREADABLE_US (30 * CLOCK_US_PER_S)  /* until a file of headers is read again */
#define ARENA_MAX (CLIENT_BODY_MAX * 41)     /* client_name_record */
#define BODY_MAX ((uint64_t)CLIENT_BODY_MAX) /* of a response */
static_assert(TALLY_MOST <= COURIER_OWN_MAX, "an end has room for its counters");

/* A delivery's own: one attempt. */
struct sending {
    struct attempt attempt;
    struct client_operation operation;
    struct headers headers;
    struct client_http http;
    struct retry_choices choices;
    struct credentials_set credentials;
    bool tries_credentials;
    struct runner_end end;
    bool is_unsent; /* its key says when it was made, and no attempt before this one reached anybody
                     */
    char renewed[CLIENT_KEY_SIZE]; /* its key from now on; else empty */
    struct arena arena;            /* of the operation */
    struct tally tally;
};

static struct sending *queue_sending_of(const struct courier_delivery *delivery)
{
    return delivery->own;
}

static const struct queue_sender *queue_sender_of(const struct courier_kind *kind)
{
    return kind->argument;
}

static struct courier_verdict put_off(int64_t wait_us, enum task_reason reason)
{
    return (struct courier_verdict){COURIER_BUSY, wait_us, TASK_WAITING, reason};
}

/* ---- the operation ---- */

/* What a file may not say: where the request ends, or what its key is. */
static bool are_free(const struct headers *headers)
{
    for (size_t i = 0; i < headers->n; i++)
        if (client_is_reserved(headers, headers->at[i].name) ||
            slice_eq_nocase(headers->at[i].name, SLICE("Idempotency-Key")))
            return false;
    return true;
}

static bool is_file(const struct header *line)
{
    return slice_eq(line->name, SLICE("@"));
}

/* What a line says by itself, a file does not say again: an edit may have given it. */
static bool add_header_file(const struct headers *given, struct slice path, struct arena *arena,
                            struct headers *all)
{
    struct headers lines;
    struct slice problem;
    headers_clear(&lines);
    bool fits = client_fields_add_file(path, arena, &lines, &problem);
    for (size_t i = 0; i < lines.n && fits; i++)
        fits = headers_find(given, lines.at[i].name) ||
               headers_add(all, lines.at[i].name, lines.at[i].value);
    return fits;
}

/* Its lines, those of its files as they are now, and who sends it. */
static bool gather_sent_headers(struct sending *sending, const struct store_request *request)
{
    struct headers *all = &sending->headers;
    struct headers given;
    bool fits = client_fields_split(request->fields, &given);
    headers_clear(all);
    for (size_t i = 0; i < given.n && fits; i++)
        fits = is_file(&given.at[i])
                   ? add_header_file(&given, given.at[i].value, &sending->arena, all)
                   : headers_add(all, given.at[i].name, given.at[i].value);
    if (fits && !headers_find(all, SLICE("User-Agent")))
        fits = headers_add(all, SLICE("User-Agent"), SLICE("pawl/" PAWL_VERSION));
    return fits && all->n + 2 <= HEADERS_MAX && are_free(all);
}

static bool make_sent_operation(struct courier_delivery *delivery,
                                const struct store_request *request)
{
    struct sending *sending = queue_sending_of(delivery);
    struct client_operation *operation = &sending->operation;
    const char *problem;
    operation->key = delivery->stored.key;
    operation->method = request->method;
    operation->headers = &sending->headers;
    operation->has_body =
        !slice_eq(request->method, SLICE("GET")) && !slice_eq(request->method, SLICE("HEAD"));
    return retry_choices_read(&sending->choices, request->answers) &&
           url_read(request->url, &operation->url, &problem) &&
           store_request_unpack(request, CLIENT_BODY_MAX, &sending->arena, &operation->body);
}

/* A step of a list that is parked waits with it. */
static enum store_status judge_list(const struct courier_delivery *delivery, struct rows *rows,
                                    bool *ret_is_parked)
{
    struct store_task_list list;
    *ret_is_parked = false;
    if (delivery->stored.list_id == 0)
        return STORE_DONE;
    enum store_status status =
        rows_by_id(rows, &task_list_table, delivery->stored.list_id, &list.row);
    *ret_is_parked = list.row.id != 0 && list.state == STEPS_PARKED;
    return status;
}

/* Attempts that reached nobody leave no row; one that did may have had its effect. */
static enum store_status look_back(struct courier_delivery *delivery, struct rows *rows)
{
    const struct store_attempt like = {.task = delivery->stored.row.id};
    struct store_attempt first;
    const struct table_query query = {.table = &attempt_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &attempt_index,
                                      .prefix = 1,
                                      .like = &like.row};
    if (key_made_at(delivery->stored.key) == 0 || delivery->stored.task.in_doubt)
        return STORE_DONE;
    enum store_status status = rows_find_first(rows, &query, &first.row);
    queue_sending_of(delivery)->is_unsent = status == STORE_DONE && first.row.id == 0;
    return status;
}

static int64_t wait_for_credentials(const struct queue_sender *sender,
                                    struct courier_delivery *delivery,
                                    const struct store_request *request)
{
    struct sending *sending = queue_sending_of(delivery);
    sending->credentials = (struct credentials_set){delivery->stored.lane, request->fields,
                                                    credentials_stamp(request->fields)};
    return credentials_wait_us(sender->credentials, &sending->credentials,
                               &sending->tries_credentials);
}

/* Whether it has no attempt left, or no time for the first one. The claim is counted already. */
static struct courier_verdict judge_limits(struct courier_delivery *delivery)
{
    const struct task *task = &delivery->stored.task;
    delivery->attempts_most = queue_sending_of(delivery)->choices.attempts;
    if (task->deadline_at < task->first_at)
        return courier_settle(TASK_DEAD, TASK_REASON_DEADLINE);
    if (delivery->attempts_most > 0 && task->attempts > delivery->attempts_most)
        return courier_settle(TASK_DEAD, TASK_REASON_ATTEMPTS);
    return (struct courier_verdict){.claim = COURIER_CLAIMED};
}

int64_t queue_remembers_us(const struct store_task *task, const struct store_request *request)
{
    struct retry_choices choices = {0};
    bool is_read = retry_choices_read(&choices, request->answers);
    int64_t said = is_read ? choices.remember_us : 0, lasts = task->lasts_us;
    int64_t us = said > 0 ? said : TASK_KEEP_DONE_US;
    return lasts > us && lasts < CLOCK_NEVER ? lasts : us;
}

/* Everything but the claim. COURIER_CLAIMED: it may be claimed. */
static struct courier_verdict prepare_delivery(const struct queue_sender *sender,
                                               struct courier_delivery *delivery, struct rows *rows)
{
    struct sending *sending = queue_sending_of(delivery);
    struct table_row *row;
    bool is_parked;
    if (judge_list(delivery, rows, &is_parked) != STORE_DONE ||
        rows_take(rows, &request_table, delivery->stored.row.id, &row) != STORE_DONE ||
        look_back(delivery, rows) != STORE_DONE)
        return courier_down;
    const struct store_request *request = (const struct store_request *)row;
    if (is_parked)
        return courier_settle(TASK_DEAD, TASK_REASON_ODD_ROW);
    if (!request || !make_sent_operation(delivery, request))
        return sending->arena.failed ? courier_down
                                     : courier_settle(TASK_DEAD, TASK_REASON_UNREADABLE);
    struct courier_verdict limited = judge_limits(delivery);
    if (limited.claim != COURIER_CLAIMED)
        return limited;
    int64_t wait_us = wait_for_credentials(sender, delivery, request);
    if (wait_us > 0)
        return put_off(wait_us, TASK_REASON_CREDENTIALS);
    if (!gather_sent_headers(sending, request))
        return put_off(UNREADABLE_US, TASK_REASON_UNREADABLE);
    if (!client_name_record(&sending->operation, &sending->arena, &sending->attempt))
        return courier_down;
    struct record_begin *begin = &sending->attempt.begin;
    sending->attempt.key_hash = engine_key_hash(sender->engine, sending->attempt.tenant,
                                                sending->attempt.rule, sending->attempt.key);
    begin->lease_us = clock_after(sender->timeout_us, TASK_LEASE_EXTRA_US);
    begin->settle_us = sender->timeout_us;
    begin->ttl_us = delivery->keep_done_us = queue_remembers_us(&delivery->stored, request);
    begin->doubted_us = begin->ttl_us > TASK_KEEP_DONE_US ? begin->ttl_us : TASK_KEEP_DONE_US;
    begin->unknown = RECORD_UNKNOWN_RETRY;
    return (struct courier_verdict){.claim = COURIER_CLAIMED};
}

/* ---- the claim ---- */

static struct courier_verdict settle_replay(const struct record *record)
{
    return client_is_refusal(record) ? courier_settle(TASK_DEAD, TASK_REASON_FINAL)
                                     : courier_settle(TASK_DONE, TASK_REASON_ALREADY);
}

static struct courier_verdict courier_verdict_of(struct sending *sending,
                                                 enum engine_verdict verdict)
{
    struct store_result *result = &sending->attempt.result;
    switch (engine_class_of(verdict)) {
    case VERDICT_PROCEED:
        return (struct courier_verdict){.claim = COURIER_CLAIMED};
    case VERDICT_DONE:
        return settle_replay(&result->record);
    case VERDICT_MISMATCH:
        return courier_settle(TASK_DEAD, TASK_REASON_PAYLOAD_MISMATCH);
    case VERDICT_WAIT:
        return put_off(result->lease_left_us > 0 ? result->lease_left_us : RETRY_BUSY_FIRST_US,
                       TASK_REASON_IN_PROGRESS);
    default:
        return result->status == STORE_CONFLICT ? (struct courier_verdict){.claim = COURIER_TAKEN}
                                                : courier_down;
    }
}

static struct courier_verdict claim(const struct courier_kind *kind,
                                    struct courier_delivery *delivery, struct rows *rows)
{
    const struct queue_sender *sender = queue_sender_of(kind);
    struct sending *sending = queue_sending_of(delivery);
    sending->arena = arena_make(ARENA_MAX);
    client_http_init(&sending->http);
    struct courier_verdict verdict = prepare_delivery(sender, delivery, rows);
    if (verdict.claim != COURIER_CLAIMED)
        return verdict;
    sending->attempt.brings = rows->changes;
    sending->attempt.n_brings = rows->n;
    CRASH_POINT(before_begin);
    enum engine_verdict begun = engine_begin(sender->engine, &sending->attempt, delivery->parker,
                                             clock_after(clock_boot_us(), ROWS_WITHIN_US));
    sending->attempt.n_brings = 0;
    attempt_fini(&sending->attempt);
    if (begun == ENGINE_PROCEED)
        CRASH_POINT(after_claim_commit);
    return courier_verdict_of(sending, begun);
}

/* ---- an attempt ---- */

/* Whoever says that it is busy, or that something is wrong with it, has not looked at them, and a
 * portal that redirects is another one. What is final may be a refusal of who sends. */
static bool is_answered(const struct runner_end *end)
{
    bool refuses = end->status == 401 || end->status == 403 || end->status == 407;
    bool is_its_own = end->status / 100 == 2 || (end->status / 100 == 4 && !refuses);
    return is_its_own && (end->class == RETRY_DONE || end->class == RETRY_FINAL);
}

static void tell_credentials(const struct queue_sender *sender, struct sending *sending)
{
    struct runner_end *end = &sending->end;
    if (end->class == RETRY_CREDENTIALS)
        end->hint_us = credentials_refuse(sender->credentials, &sending->credentials, end->status);
    else if (is_answered(end))
        credentials_accept(sender->credentials, &sending->credentials);
    else
        return;
    sending->tries_credentials = false;
}

/* Whether its service says that it was done before, and has no response for whoever asks again. */
static bool has_happened(const struct runner_end *end)
{
    static const struct slice words[] = {
        {"CONFLICT.idempotency.duplicate", 30},
        {"CONFLICT.idempotency.result_expired", 35},
        {"CONFLICT.idempotency.result_not_kept", 36},
    };
    return (end->class == RETRY_FINAL || end->class == RETRY_IN_DOUBT) &&
           SLICE_AMONG(end->code, words);
}

/* A reverse that was done before, or that deletes what is not there, has nothing left to do. */
static bool is_undone(const struct sending *sending, const struct store_task *stored)
{
    int status = sending->end.status;
    bool is_gone =
        slice_eq(sending->operation.method, SLICE("DELETE")) && (status == 404 || status == 410);
    return stored->step < 0 && (is_gone || has_happened(&sending->end));
}

/* Whether the service refused the age of its key, and so did nothing: of what nobody was ever sent
 * before it is a new operation, under a new key. What may have been done is a person's. */
static bool judge_dated_key(struct sending *sending, struct task_result *result)
{
    static const struct slice refusals[] = {
        {"VALIDATION.idempotency.key_expired", 34},
        {"VALIDATION.idempotency.key_ahead", 32},
    };
    struct slice code = sending->end.code;
    if (sending->end.class != RETRY_FINAL || !SLICE_AMONG(code, refusals))
        return false;
    bool renews = sending->is_unsent && !sending->attempt.result.record.doubt;
    if (renews) {
        client_mint_key(true, sending->renewed);
        result->class = RETRY_BUSY; /* it uses up no attempt */
        result->reason = TASK_REASON_NOT_DONE;
    } else if (slice_eq(code, refusals[0])) {
        result->reason = TASK_REASON_KEY_EXPIRED;
    }
    return renews;
}

static struct courier_result attempt(const struct courier_kind *kind,
                                     struct courier_delivery *delivery)
{
    const struct queue_sender *sender = queue_sender_of(kind);
    struct sending *sending = queue_sending_of(delivery);
    struct client_http *http = &sending->http;
    struct runner_end *end = &sending->end;
    const struct runner_attempt made = {
        .number = delivery->stored.task.attempts,
        .until = delivery->until,
        .send_by = clock_first(delivery->send_by, sending->attempt.send_by),
        .token = sending->attempt.token,
        .in_doubt = delivery->stored.task.in_doubt || sending->attempt.result.record.doubt};
    CHECK(delivery->stored.task.attempts > 0 && delivery->stored.task.state == TASK_SENDING);
    http->operation = &sending->operation;
    http->origins = sender->origins;
    http->connect_us = sender->connect_us;
    http->max_body = BODY_MAX;
    http->choices = &sending->choices;
    *end = (struct runner_end){.hint_us = RETRY_NO_HINT};
    http->executor.run(&http->executor, &made, end);
    bool doubts = end->write == WRITE_DOUBT || end->write == WRITE_NOTHING;
    if (is_undone(sending, &delivery->stored))
        end->class = RETRY_DONE;
    bool happened = has_happened(end);
    if (happened) { /* no new key without force, and no list undone over it */
        end->class = RETRY_IN_DOUBT;
        end->is_settled = false;
    }
    tell_credentials(sender, sending);
    struct courier_result result = {
        .task = {.class = end->write == WRITE_NOTHING ? RETRY_LATER : end->class,
                 .reason =
                     happened ? TASK_REASON_HAPPENED : task_reason_of_end(end->ended, end->class),
                 .hint_us = end->hint_us,
                 .status = end->status,
                 .is_unreached = !end->reached,
                 .is_in_doubt = doubts || happened,
                 .is_settled = end->is_settled},
        .answer = buf_slice(&http->body),
        .sent_at = http->call.sent > 0 ? http->call.sent_at : 0};
    if (judge_dated_key(sending, &result.task))
        result.key = slice_of(sending->renewed);
    return result;
}

/* ---- its end ---- */

/* What the task became is the first change. */
static void put_counters(struct sending *sending, const struct courier_delivery *delivery,
                         struct rows *rows)
{
    const struct task *now = &((const struct store_task *)rows->changes[0].row)->task;
    CHECK(rows->changes[0].table == &task_table && rows->changes[0].act == TABLE_UPDATE);
    bool is_exhausted = now->state == TASK_DEAD && (now->reason == TASK_REASON_ATTEMPTS ||
                                                    now->reason == TASK_REASON_DEADLINE);
    tally_init(&sending->tally, RETRY_PROFILE_queue, sending->attempt.token);
    tally_add(&sending->tally, delivery->stored.task.tries == 1 ? TALLY_OPERATION : TALLY_RETRY, 1);
    if (is_exhausted)
        tally_add(&sending->tally, TALLY_EXHAUSTED, 1);
    for (size_t i = 0; i < sending->tally.n; i++)
        rows_put(rows, TABLE_ADD, &counter_table, &sending->tally.counters[i].row, NULL);
}

/* The record and the task, or where the record has moved on the task alone. */
static enum store_status end(const struct courier_kind *kind, struct courier_delivery *delivery,
                             struct rows *rows)
{
    const struct queue_sender *sender = queue_sender_of(kind);
    struct sending *sending = queue_sending_of(delivery);
    struct attempt *record = &sending->attempt;
    struct engine_act act = runner_act(&sending->end, false);
    if (rows->n > 0)
        put_counters(sending, delivery, rows);
    record->brings = rows->changes;
    record->n_brings = rows->n;
    enum engine_written written = engine_store(sender->engine, record, &act, delivery->parker);
    if (written == ENGINE_LOST)
        return record->result.status == STORE_CONFLICT ? STORE_CONFLICT : STORE_DEAD;
    return written == ENGINE_STORED ? STORE_DONE : rows_save(rows);
}

static enum store_status audit_key(const struct courier_delivery *delivery,
                                   const struct store_task *ended, struct rows *rows)
{
    const struct store_actor actor = {.name = SLICE("queue"),
                                      .reason = queue_sending_of(delivery)->end.code};
    struct store_task_audit *audit = arena_alloc(rows->arena, sizeof *audit);
    if (!audit)
        return STORE_NO_MEMORY;
    *audit =
        store_audit_task(&actor, "key_renewed", &delivery->stored, ended, store_now(rows->store));
    store_audit_put(audit, &actor, rows);
    return STORE_DONE;
}

/* The response is that of the attempt that ends. */
static enum store_status follow(const struct courier_kind *kind, struct courier_delivery *delivery,
                                const struct store_task *ended, struct rows *rows)
{
    const struct sending *sending = delivery ? queue_sending_of(delivery) : NULL;
    struct undo_response response = {0};
    (void)kind;
    if (sending && sending->renewed[0] && audit_key(delivery, ended, rows) != STORE_DONE)
        return STORE_NO_MEMORY;
    if (!sending || sending->http.status == 0 || sending->http.truncated)
        return queue_steps_follow(ended, NULL, rows);
    BUF_AUTO struct buf url = buf_make(SIZE_MAX);
    url_write_origin(&url, &sending->operation.url);
    url_write_target(&url, &sending->operation.url);
    response = (struct undo_response){.url = arena_copy_buf(rows->arena, &url),
                                      .fields = buf_slice(&sending->http.fields),
                                      .body = buf_slice(&sending->http.body)};
    return queue_steps_follow(ended, &response, rows);
}

static void fini(const struct courier_kind *kind, struct courier_delivery *delivery)
{
    struct sending *sending = queue_sending_of(delivery);
    if (sending->tries_credentials)
        credentials_give_back(queue_sender_of(kind)->credentials, &sending->credentials);
    outcome_unref(sending->end.outcome);
    client_http_fini(&sending->http);
    arena_fini(&sending->arena);
}

void queue_sender_init(struct queue_sender *sender)
{
    sender->kind =
        (struct courier_kind){.name = SLICE(QUEUE_KIND),
                              .limits = {sender->in_flight, sender->timeout_us, TASK_KEEP_DONE_US},
                              .keep_dead_us = TASK_KEEP_DEAD_US,
                              .own_size = sizeof(struct sending),
                              .claim = claim,
                              .attempt = attempt,
                              .end = end,
                              .follow = follow,
                              .fini = fini,
                              .argument = sender};
}
