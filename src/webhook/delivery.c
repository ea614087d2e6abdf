/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/delivery.h"

#include "base/check.h"
#include "base/crash.h"
#include "base/mem.h"
#include "http/call.h"
#include "webhook/endpoint.h"
#include "webhook/fanout.h"

#define STORE_US (INT64_C(10) * CLOCK_US_PER_S) /* for one operation of the store */
#define ARENA_MAX ((size_t)16 * 1024 * 1024)
#define HEAD_MAX ((size_t)64 * 1024)
#define RESPONSE_MAX ((uint64_t)16 * 1024) /* bytes of a response's body that are read */
#define FAILING_MOST_US (INT64_C(7) * 86400 * CLOCK_US_PER_S)

/* A delivery's own: one attempt. */
struct sending {
    struct webhook_plan *plan;
    struct webhook_target *target;
    struct store_event event;
    struct arena arena;
    struct headers headers;
    struct buf request; /* its headers */
    struct buf body;
    struct buf response;
    struct http_call call;
};

static struct sending *sending_of(const struct courier_delivery *delivery)
{
    return delivery->own;
}

static const struct webhook_sender *sender_of(const struct courier_kind *kind)
{
    return kind->argument;
}

static const struct courier_verdict down = {.claim = COURIER_DOWN};

static struct courier_verdict settle(enum task_reason reason)
{
    return (struct courier_verdict){COURIER_SETTLED, 0, TASK_DEAD, reason};
}

/* ---- the claim ---- */

static enum store_status read_event(const struct webhook_sender *sender,
                                    const struct courier_delivery *delivery, bool *ret_is_there)
{
    struct sending *sending = sending_of(delivery);
    int64_t id = delivery->stored.event;
    struct store_found found = {.arena = &sending->arena};
    const struct table_query query = {.table = &event_table, .after = id - 1, .limit = 1};
    enum store_status status = store_find_rows(sender->store, &query, delivery->parker,
                                               clock_after(clock_boot_us(), STORE_US), &found);
    *ret_is_there = status == STORE_DONE && found.n == 1 && found.rows[0]->id == id;
    if (*ret_is_there)
        sending->event = *(const struct store_event *)found.rows[0];
    return status;
}

/* Everything but the claim. COURIER_CLAIMED: it may be claimed. */
static struct courier_verdict prepare(const struct webhook_sender *sender,
                                      struct courier_delivery *delivery)
{
    struct sending *sending = sending_of(delivery);
    bool is_there = false;
    sending->plan = webhook_plan_ref(*sender->plan);
    sending->target = webhook_plan_find(sending->plan, delivery->stored.lane);
    if (!sending->target)
        return settle(TASK_REASON_REMOVED);
    if (sending->target->state.is_disabled && !delivery->stored.task.replay)
        return settle(TASK_REASON_DISABLED);
    if (read_event(sender, delivery, &is_there) != STORE_DONE)
        return down;
    if (!is_there)
        return settle(TASK_REASON_UNREADABLE);
    const struct webhook_plan *plan = sending->plan;
    webhook_envelope_write(&sending->target->endpoint->envelope, plan->wanted.webhooks.source,
                           &sending->event, &sending->body);
    return buf_ok(&sending->body) ? (struct courier_verdict){.claim = COURIER_CLAIMED} : down;
}

static struct courier_verdict claim(const struct courier_kind *kind,
                                    struct courier_delivery *delivery, struct table_change *change)
{
    const struct webhook_sender *sender = sender_of(kind);
    struct sending *sending = mem_zalloc(1, sizeof *sending);
    delivery->own = sending;
    if (!sending)
        return down;
    sending->arena = arena_make(ARENA_MAX);
    sending->request = buf_make(HEAD_MAX);
    sending->body = sending->response = buf_make(SIZE_MAX);
    struct courier_verdict verdict = prepare(sender, delivery);
    if (verdict.claim != COURIER_CLAIMED)
        return verdict;
    struct store_op op = {.kind = STORE_ROWS, .brings = change, .n_brings = 1};
    CRASH_POINT(before_begin);
    store_run(sender->store, &op, delivery->parker, clock_after(clock_boot_us(), STORE_US));
    if (op.status == STORE_DONE)
        CRASH_POINT(after_claim_commit);
    verdict.claim = op.status == STORE_DONE       ? COURIER_CLAIMED
                    : op.status == STORE_CONFLICT ? COURIER_TAKEN
                                                  : COURIER_DOWN;
    return verdict;
}

/* ---- the request ---- */

static bool add_header(struct sending *sending, struct slice name, const struct buf *value)
{
    struct slice copy = arena_copy(&sending->arena, buf_slice(value));
    return buf_ok(value) && !sending->arena.failed && headers_add(&sending->headers, name, copy);
}

static bool sign(struct sending *sending, int64_t seconds)
{
    const struct webhook_endpoint *endpoint = sending->target->endpoint;
    const struct signature_scheme *scheme = signature_scheme_find(SLICE("standard"));
    const struct signature_keys keys = {endpoint->secrets, endpoint->n_secrets};
    const struct signature_message message = {sending->event.id, seconds,
                                              buf_slice(&sending->body)};
    BUF_AUTO struct buf time = buf_make(HEAD_MAX), signature = buf_make(HEAD_MAX);
    buf_add_i64(&time, seconds);
    return signature_sign(scheme, &keys, &message, &signature) &&
           headers_add(&sending->headers, scheme->id, sending->event.id) &&
           add_header(sending, scheme->timestamp, &time) &&
           add_header(sending, scheme->header, &signature);
}

static bool write_request(struct sending *sending)
{
    struct headers *headers = &sending->headers;
    const struct webhook_endpoint *endpoint = sending->target->endpoint;
    if (!headers_add(headers, SLICE("Content-Type"), webhook_envelope_type(&endpoint->envelope)) ||
        !headers_add(headers, SLICE("User-Agent"), SLICE("pawl/" PAWL_VERSION)) ||
        !headers_add(headers, SLICE("Idempotency-Key"), sending->event.id) ||
        !sign(sending, clock_wall_us() / CLOCK_US_PER_S))
        return false;
    const struct http_origins_request request = {SLICE("POST"), &sending->target->url, headers,
                                                 buf_slice(&sending->body), true};
    http_origins_write(&sending->request, &request);
    return buf_ok(&sending->request);
}

/* ---- an attempt ---- */

static enum http_call_result exchange(struct sending *sending,
                                      const struct courier_delivery *delivery)
{
    struct http_call *call = &sending->call;
    int64_t connect_by = clock_after(clock_boot_us(), sending->plan->wanted.connect_timeout_us);
    struct http_call_limits limits = {connect_by, delivery->until, RESPONSE_MAX};
    if (!write_request(sending))
        return HTTP_CALL_NO_MEMORY;
    enum http_call_result result =
        http_origins_find(sending->plan->origins, &sending->target->url,
                          clock_first(connect_by, delivery->until), &call->pool, &call->unreached);
    if (result != HTTP_CALL_DONE)
        return result;
    call->method = SLICE("POST");
    call->headers = buf_slice(&sending->request);
    call->body = buf_slice(&sending->body);
    call->first_by = delivery->send_by;
    CRASH_POINT(before_connect);
    result = http_call_run(call, &limits, &sending->response);
    CRASH_POINT(after_response_body);
    return result;
}

static enum task_reason reason_of(enum retry_class class, enum exchange_end ended,
                                  enum http_call_result result)
{
    if (class == RETRY_DONE)
        return TASK_REASON_NONE;
    if (result == HTTP_CALL_FORBIDDEN)
        return TASK_REASON_ADDRESS_REFUSED;
    if (ended == EXCHANGE_RESPONDED)
        return class == RETRY_FINAL ? TASK_REASON_GONE : TASK_REASON_NOT_DONE;
    return ended == EXCHANGE_NOT_SENT    ? TASK_REASON_NOT_REACHED
           : ended == EXCHANGE_TIMED_OUT ? TASK_REASON_TIMED_OUT
                                         : TASK_REASON_BROKE;
}

/* What there is to show: the response, or why there is none. */
static struct slice answer_of(const struct sending *sending, enum exchange_end ended)
{
    return ended == EXCHANGE_RESPONDED       ? buf_slice(&sending->response)
           : sending->call.unreached != NULL ? slice_of(sending->call.unreached)
                                             : SLICE("");
}

static struct courier_result attempt(const struct courier_kind *kind,
                                     struct courier_delivery *delivery)
{
    struct sending *sending = sending_of(delivery);
    struct http_call *call = &sending->call;
    (void)kind;
    enum http_call_result result = exchange(sending, delivery);
    enum exchange_end ended = http_call_end(call, result, false);
    int status = ended == EXCHANGE_RESPONDED ? call->response.status : 0;
    int64_t hint_us = ended == EXCHANGE_RESPONDED
                          ? retry_read_hint(&call->response.headers, clock_wall_us())
                          : RETRY_NO_HINT;
    enum retry_class class = result == HTTP_CALL_FORBIDDEN
                                 ? RETRY_FINAL
                                 : retry_classify_by(RETRY_BY_WEBHOOK, ended, status, SLICE(""));
    return (struct courier_result){
        .task = {.class = class,
                 .reason = reason_of(class, ended, result),
                 .hint_us = hint_us,
                 .status = status,
                 .is_unreached = ended == EXCHANGE_NOT_SENT,
                 .is_in_doubt = ended != EXCHANGE_NOT_SENT && class != RETRY_DONE},
        .answer = answer_of(sending, ended),
        .sent_at = call->sent > 0 ? call->sent_at : 0};
}

/* ---- its end ---- */

/* What becomes of the endpoint, where its state changes. */
static bool judge(const struct sending *sending, const struct store_task *ended, int64_t now,
                  struct store_endpoint *state)
{
    bool succeeded = ended->task.state == TASK_DONE;
    bool is_gone = ended->task.reason == TASK_REASON_GONE;
    bool was_made = ended->task.status > 0 || ended->task.reason != TASK_REASON_NONE;
    if (succeeded ? state->failing_since == 0 : !was_made || state->is_disabled)
        return false;
    state->name = sending->target->endpoint->name;
    state->changed_at = now;
    if (succeeded) {
        state->failing_since = 0;
        return true;
    }
    bool is_first = state->failing_since == 0;
    if (is_first)
        state->failing_since = now;
    bool is_old = now >= clock_after(state->failing_since, FAILING_MOST_US);
    if (is_gone || is_old) {
        state->is_disabled = true;
        state->why = is_gone ? SLICE("it responded 410") : SLICE("it has failed for 7 days");
    }
    return is_first || state->is_disabled;
}

static enum store_status read_state(const struct courier_follow *follow, struct slice name,
                                    struct store_endpoint *ret_state)
{
    struct store_found found = {.arena = follow->arena};
    const struct store_endpoint like = {.name = name};
    const struct table_query query = {
        .table = &endpoint_table, .by = TABLE_BY_KEY, .like = &like.row, .limit = 1};
    enum store_status status = store_find_rows(follow->store, &query, follow->parker,
                                               clock_after(clock_boot_us(), STORE_US), &found);
    *ret_state = status == STORE_DONE && found.n == 1
                     ? *(const struct store_endpoint *)found.rows[0]
                     : (struct store_endpoint){0};
    return status;
}

/* By the state as it was read last, nearly always nothing; else by what the store says now. */
static enum store_status follow(const struct courier_kind *kind, struct courier_delivery *delivery,
                                const struct store_task *ended, struct courier_follow *follow)
{
    const struct sending *sending = delivery ? sending_of(delivery) : NULL;
    int64_t now = store_now(sender_of(kind)->store);
    if (!sending || !sending->target || sending->request.len == 0)
        return STORE_DONE; /* nothing was sent */
    struct store_endpoint *state = arena_alloc(follow->arena, sizeof *state);
    if (!state)
        return STORE_NO_MEMORY;
    *state = sending->target->state;
    if (!judge(sending, ended, now, state))
        return STORE_DONE;
    enum store_status status = read_state(follow, sending->target->endpoint->name, state);
    if (status != STORE_DONE || !judge(sending, ended, now, state))
        return status;
    CHECK(follow->n < follow->most);
    follow->changes[follow->n++] =
        (struct table_change){.table = &endpoint_table,
                              .act = state->row.id != 0 ? TABLE_UPDATE : TABLE_INSERT,
                              .row = &state->row};
    sending->target->state = *state;
    sending->target->state.why = SLICE("");
    return STORE_DONE;
}

static enum store_status end(const struct courier_kind *kind, struct courier_delivery *delivery,
                             struct table_change *changes, size_t n)
{
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = n};
    if (n == 0)
        return STORE_DONE;
    CRASH_POINT(before_outcome_commit);
    store_run(sender_of(kind)->store, &op, delivery->parker,
              clock_after(clock_boot_us(), STORE_US));
    CRASH_POINT(after_outcome_commit);
    return op.status;
}

static void fini(const struct courier_kind *kind, struct courier_delivery *delivery)
{
    struct sending *sending = sending_of(delivery);
    (void)kind;
    if (!sending)
        return;
    http_call_close(&sending->call);
    http_pool_unref(sending->call.pool);
    webhook_plan_unref(sending->plan);
    buf_fini(&sending->request);
    buf_fini(&sending->body);
    buf_fini(&sending->response);
    arena_fini(&sending->arena);
    mem_free(sending);
}

/* ---- the kind ---- */

/* Of a lane without an endpoint nothing is sent, and its tasks end. */
static struct courier_limits limits_of(const struct courier_kind *kind, struct slice lane)
{
    const struct webhook_target *target = webhook_plan_find(*sender_of(kind)->plan, lane);
    if (!target)
        return kind->limits;
    return (struct courier_limits){(int)target->endpoint->in_flight, target->endpoint->timeout_us};
}

static struct slice label(const struct courier_kind *kind, struct slice lane)
{
    const struct webhook_target *target = webhook_plan_find(*sender_of(kind)->plan, lane);
    return target ? target->endpoint->name : SERIES_OTHER;
}

void webhook_sender_init(struct webhook_sender *sender)
{
    sender->kind = (struct courier_kind){.name = SLICE(WEBHOOK_KIND),
                                         .limits = {LANES_IN_FLIGHT, CLOCK_US_PER_S},
                                         .keep_done_us = TASK_KEEP_DONE_US,
                                         .keep_dead_us = TASK_KEEP_DEAD_US,
                                         .limits_of = limits_of,
                                         .claim = claim,
                                         .attempt = attempt,
                                         .end = end,
                                         .follow = follow,
                                         .fini = fini,
                                         .label = label,
                                         .argument = sender};
}
