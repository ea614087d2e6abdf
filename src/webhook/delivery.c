/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/delivery.h"

#include "base/check.h"
#include "courier/kind.h"
#include "store/rows.h"
#include "webhook/endpoints/endpoint.h"
#include "webhook/fanout.h"
#include "webhook/post.h"

#define VALUE_MAX ((size_t)64 * 1024)           /* of a header */
#define APART_US (INT64_C(10) * CLOCK_US_PER_S) /* of two machines' clocks */
#define FAILING_MOST_US (INT64_C(7) * 86400 * CLOCK_US_PER_S)

/* A delivery's own: one attempt. */
struct sending {
    struct webhook_plan *plan;
    struct roster *roster;
    struct webhook_target *target;
    struct webhook_target *heir; /* whose state counts: the target, or what it is called now */
    struct store_event event;
    struct envelope_rule rule; /* by which it is told */
    struct buf body;
    struct webhook_post post;
};

static struct sending *webhook_sending_of(const struct courier_delivery *delivery)
{
    return delivery->own;
}

static const struct webhook_sender *webhook_sender_of(const struct courier_kind *kind)
{
    return kind->argument;
}

/* ---- the claim ---- */

static void take_target(struct sending *sending, struct slice name)
{
    roster_unref(sending->roster);
    sending->roster = roster_ref(sending->plan->roster);
    sending->target = roster_find(sending->roster, name);
    sending->heir = sending->target ? roster_heir(sending->roster, sending->target) : NULL;
}

/* Another process may have told one that was made since the registry was read, also under a name
 * that was another one's. False: the store does not say. */
static bool find_target(const struct webhook_sender *sender, struct courier_delivery *delivery)
{
    struct sending *sending = webhook_sending_of(delivery);
    take_target(sending, delivery->stored.lane);
    bool is_known = sending->target ? delivery->stored.endpoint <= sending->target->state.row.id
                                    : clock_after(delivery->stored.task.created_at, APART_US) <
                                          sending->plan->read_at;
    if (is_known)
        return sending->target || sending->roster->is_whole;
    if (webhook_plan_refresh(sending->plan, sender->store, delivery->parker) != STORE_DONE)
        return false;
    take_target(sending, delivery->stored.lane);
    return sending->target || sending->roster->is_whole;
}

/* There is no such endpoint here: it was removed, or is left to others. */
static struct courier_verdict judge_missing_endpoint(const struct webhook_sender *sender,
                                                     const struct courier_delivery *delivery)
{
    const struct webhook_plan *plan = webhook_sending_of(delivery)->plan;
    struct slice lane = delivery->stored.lane;
    enum store_roster_state state;
    if (census_ask(sender->store, delivery->parker, SLICE(WEBHOOK_KIND), lane, &state) !=
        STORE_DONE)
        return courier_down;
    bool is_removed =
        state == STORE_ROSTER_REMOVED || (state == 0 && !webhook_plan_is_of_others(plan, lane));
    return is_removed ? courier_settle(TASK_DEAD, TASK_REASON_REMOVED) : courier_down;
}

/* Of an endpoint that had the name before this one. What a person sends again is for this one. An
 * older pawl, which does not say whose it is, told those of a config before they had rows. */
static bool is_of_an_earlier_one(const struct webhook_target *target,
                                 const struct store_task *stored)
{
    bool is_anothers =
        stored->endpoint != 0 ? stored->endpoint != target->state.row.id : target->is_stored;
    return is_anothers && stored->row.id < target->state.row.id && !stored->task.replay;
}

/* Whether it wants the event yet: this process's config, or else any other that lives, as the store
 * says now. A person may send it any type, but no other tenant's; so may what was to be sent under
 * a former name, whose types nobody knows any more. */
static enum store_status ask_wanted(const struct webhook_sender *sender,
                                    const struct courier_delivery *delivery, bool *ret_is_wanted)
{
    const struct sending *sending = webhook_sending_of(delivery);
    bool of_any_type = delivery->stored.task.replay || sending->target->endpoint->heir;
    struct census census = census_make();
    *ret_is_wanted =
        webhook_endpoint_wants(sending->target->endpoint, &sending->event, of_any_type);
    if (*ret_is_wanted || sending->target->is_stored)
        return STORE_DONE;
    enum store_status status = census_read(&census, sender->store, delivery->parker);
    const struct census_entry *entry =
        census_find(&census, SLICE(WEBHOOK_KIND), delivery->stored.lane);
    *ret_is_wanted = entry && census_wants(entry, &sending->event, of_any_type);
    census_fini(&census);
    return status;
}

static enum store_status read_state(struct rows *rows, struct slice name,
                                    struct store_endpoint *ret_state)
{
    *ret_state = (struct store_endpoint){.name = name};
    return rows_find_one(rows, &endpoint_table, &ret_state->row);
}

/* Whether it is, as the store says now where it was: an operator may have enabled it before this
 * was published. What a person sends again is sent all the same. */
static enum store_status ask_disabled(const struct courier_delivery *delivery, struct rows *rows,
                                      bool *ret_is_disabled)
{
    struct sending *sending = webhook_sending_of(delivery);
    struct store_endpoint state;
    *ret_is_disabled = sending->heir->state.is_disabled && !delivery->stored.task.replay;
    if (!*ret_is_disabled)
        return STORE_DONE;
    enum store_status status = read_state(rows, sending->heir->endpoint->name, &state);
    bool is_the_same = state.row.id == sending->heir->state.row.id; /* not removed since */
    *ret_is_disabled = !is_the_same || state.is_disabled;
    return status;
}

/* The rule that the delivery names; of one from before it did, the endpoint's. True in
 * `*ret_is_known`: there is one, and this version knows it. */
static enum store_status take_endpoint_rule(const struct webhook_sender *sender,
                                            const struct courier_delivery *delivery,
                                            bool *ret_is_known)
{
    struct sending *sending = webhook_sending_of(delivery);
    int64_t named = delivery->stored.envelope;
    struct slice text;
    *ret_is_known = true;
    sending->rule = webhook_plan_rule(sending->plan, sending->target->endpoint);
    if (named == 0 || named == sending->target->envelope)
        return STORE_DONE;
    enum store_status status =
        envelope_find(sender->store, delivery->parker, named, &sending->post.arena, &text);
    if (status == STORE_DONE)
        *ret_is_known = envelope_rule_read(text, &sending->post.arena, &sending->rule);
    return sending->post.arena.failed ? STORE_NO_MEMORY : status;
}

/* What is sent. */
static struct courier_verdict make_body(const struct webhook_sender *sender,
                                        struct courier_delivery *delivery)
{
    struct sending *sending = webhook_sending_of(delivery);
    bool is_known = false;
    if (take_endpoint_rule(sender, delivery, &is_known) != STORE_DONE)
        return courier_down;
    if (!is_known)
        return courier_settle(TASK_DEAD, TASK_REASON_UNREADABLE);
    webhook_envelope_write(&sending->rule, &sending->event, &sending->body);
    return buf_ok(&sending->body) ? (struct courier_verdict){.claim = COURIER_CLAIMED}
                                  : courier_down;
}

/* Everything but the claim. COURIER_CLAIMED: it may be claimed. */
static struct courier_verdict prepare_webhook(const struct webhook_sender *sender,
                                              struct courier_delivery *delivery, struct rows *rows)
{
    struct sending *sending = webhook_sending_of(delivery);
    bool is_wanted = false, is_disabled = false;
    sending->plan = webhook_plan_ref(*sender->plan);
    if (!find_target(sender, delivery))
        return courier_down;
    if (!sending->target)
        return judge_missing_endpoint(sender, delivery);
    if (is_of_an_earlier_one(sending->target, &delivery->stored))
        return courier_settle(TASK_DEAD, TASK_REASON_REMOVED);
    if (ask_disabled(delivery, rows, &is_disabled) != STORE_DONE)
        return courier_down;
    if (is_disabled)
        return courier_settle(TASK_DEAD, TASK_REASON_DISABLED);
    if (rows_by_id(rows, &event_table, delivery->stored.event, &sending->event.row) != STORE_DONE)
        return courier_down;
    if (sending->event.row.id == 0)
        return courier_settle(TASK_DEAD, TASK_REASON_UNREADABLE);
    if (ask_wanted(sender, delivery, &is_wanted) != STORE_DONE)
        return courier_down;
    if (!is_wanted)
        return (struct courier_verdict){COURIER_SETTLED, 0, TASK_DEAD, TASK_REASON_NOT_WANTED,
                                        .lets_pass = true};
    delivery->stored.endpoint = sending->target->state.row.id;
    return make_body(sender, delivery);
}

static struct courier_verdict claim(const struct courier_kind *kind,
                                    struct courier_delivery *delivery, struct rows *rows)
{
    const struct webhook_sender *sender = webhook_sender_of(kind);
    struct sending *sending = webhook_sending_of(delivery);
    webhook_post_init(&sending->post);
    sending->body = buf_make(SIZE_MAX);
    struct courier_verdict verdict = prepare_webhook(sender, delivery, rows);
    return verdict.claim == COURIER_CLAIMED ? webhook_post_claim(rows) : verdict;
}

/* ---- the request ---- */

static bool sign_post(struct sending *sending, int64_t seconds)
{
    const struct webhook_endpoint *endpoint = sending->target->endpoint;
    const struct signature_scheme *scheme = signature_scheme_find(SLICE("standard"));
    const struct signature_keys keys = {endpoint->secrets, endpoint->n_secrets};
    const struct signature_message message = {sending->event.id, seconds,
                                              buf_slice(&sending->body)};
    BUF_AUTO struct buf time = buf_make(VALUE_MAX), signature = buf_make(VALUE_MAX);
    buf_add_i64(&time, seconds);
    return signature_sign(scheme, &keys, &message, &signature) &&
           headers_add(&sending->post.headers, scheme->id, sending->event.id) &&
           webhook_post_add(&sending->post, scheme->timestamp, &time) &&
           webhook_post_add(&sending->post, scheme->header, &signature);
}

static bool add_post_headers(struct sending *sending)
{
    struct headers *headers = &sending->post.headers;
    return headers_add(headers, SLICE("Content-Type"),
                       webhook_envelope_type(&sending->rule.envelope)) &&
           headers_add(headers, SLICE("User-Agent"), SLICE("pawl/" PAWL_VERSION)) &&
           headers_add(headers, SLICE("Idempotency-Key"), sending->event.id) &&
           sign_post(sending, clock_wall_us() / CLOCK_US_PER_S);
}

/* ---- an attempt ---- */

static struct courier_result attempt(const struct courier_kind *kind,
                                     struct courier_delivery *delivery)
{
    struct sending *sending = webhook_sending_of(delivery);
    const struct webhook_way way = {.url = &sending->target->url,
                                    .origins = sending->plan->origins,
                                    .connect_us = sending->plan->wanted.connect_timeout_us};
    (void)kind;
    CHECK(sending->target && sending->heir && buf_ok(&sending->body));
    CHECK(sending->event.row.id == delivery->stored.event);
    sending->post.body = buf_slice(&sending->body);
    enum http_call_result result = add_post_headers(sending)
                                       ? webhook_post_send(&sending->post, &way, delivery)
                                       : HTTP_CALL_NO_MEMORY;
    return webhook_post_result(&sending->post, result, RETRY_BY_WEBHOOK,
                               delivery->stored.task.in_doubt);
}

/* ---- its end ---- */

/* What becomes of the endpoint, where its state changes. */
static bool judge_target(const struct sending *sending, const struct store_task *ended, int64_t now,
                         struct store_endpoint *state)
{
    bool succeeded = ended->task.state == TASK_DONE;
    bool is_gone = ended->task.reason == TASK_REASON_GONE;
    bool was_made = ended->task.status > 0 || ended->task.reason != TASK_REASON_NONE;
    if (succeeded ? state->failing_since == 0 : !was_made || state->is_disabled)
        return false;
    state->name = sending->heir->endpoint->name;
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

/* By the state as it was read last, nearly always nothing; else by what the store says now. */
static enum store_status follow(const struct courier_kind *kind, struct courier_delivery *delivery,
                                const struct store_task *ended, struct rows *rows)
{
    const struct sending *sending = delivery ? webhook_sending_of(delivery) : NULL;
    int64_t now = store_now(webhook_sender_of(kind)->store);
    if (!sending || !sending->target || sending->post.request.len == 0)
        return STORE_DONE; /* nothing was sent */
    struct store_endpoint *state = arena_alloc(rows->arena, sizeof *state);
    if (!state)
        return STORE_NO_MEMORY;
    *state = sending->heir->state;
    if (!judge_target(sending, ended, now, state))
        return STORE_DONE;
    enum store_status status = read_state(rows, sending->heir->endpoint->name, state);
    bool is_removed = sending->heir->is_stored && state->row.id == 0;
    if (status != STORE_DONE || is_removed || !judge_target(sending, ended, now, state))
        return status;
    rows_put(rows, state->row.id != 0 ? TABLE_UPDATE : TABLE_INSERT, &endpoint_table, &state->row,
             NULL);
    sending->heir->state = *state;
    sending->heir->state.why = SLICE("");
    return STORE_DONE;
}

static void fini(const struct courier_kind *kind, struct courier_delivery *delivery)
{
    struct sending *sending = webhook_sending_of(delivery);
    (void)kind;
    webhook_post_fini(&sending->post);
    roster_unref(sending->roster);
    webhook_plan_unref(sending->plan);
    buf_fini(&sending->body);
}

/* ---- the kind ---- */

static const struct webhook_target *target_of(const struct courier_kind *kind, struct slice lane)
{
    return roster_find((*webhook_sender_of(kind)->plan)->roster, lane);
}

/* Deliveries to one that was removed, or that the store knows nothing of, are ended here. */
static bool serves(const struct courier_kind *kind, struct slice lane)
{
    const struct webhook_sender *sender = webhook_sender_of(kind);
    if (!target_of(kind, lane) && roster_holds((*sender->plan)->roster, lane))
        return false;
    if (target_of(kind, lane) || census_gives_up(sender->census, kind->name, lane))
        return true;
    return !census_find(sender->census, kind->name, lane) &&
           !webhook_plan_is_of_others(*sender->plan, lane);
}

/* Of a lane without an endpoint nothing is sent, and its tasks end. */
static struct courier_limits limits_of(const struct courier_kind *kind, struct slice lane)
{
    const struct webhook_target *target = target_of(kind, lane);
    if (!target)
        return kind->limits;
    return (struct courier_limits){(int)target->endpoint->in_flight, target->endpoint->timeout_us,
                                   TASK_KEEP_DONE_US, &target->endpoint->schedule};
}

static struct slice label(const struct courier_kind *kind, struct slice lane)
{
    return delivery_counts_name(target_of(kind, lane));
}

static void saved(const struct courier_kind *kind, const struct store_task *task)
{
    delivery_counts_add(webhook_sender_of(kind)->counts, target_of(kind, task->lane),
                        task->task.state);
}

void webhook_sender_init(struct webhook_sender *sender)
{
    CHECK(sender->store && sender->census && sender->plan && sender->counts);
    sender->kind =
        (struct courier_kind){.name = SLICE(WEBHOOK_KIND),
                              .limits = {LANES_IN_FLIGHT, CLOCK_US_PER_S, TASK_KEEP_DONE_US, NULL},
                              .keep_dead_us = TASK_KEEP_DEAD_US,
                              .own_size = sizeof(struct sending),
                              .serves = serves,
                              .limits_of = limits_of,
                              .claim = claim,
                              .attempt = attempt,
                              .end = webhook_post_end,
                              .follow = follow,
                              .saved = saved,
                              .fini = fini,
                              .label = label,
                              .argument = sender};
}
