/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt at one task, in a fiber of its own. Declared in courier_priv.h. */
#include "base/check.h"
#include "base/mem.h"
#include "courier/courier_priv.h"
#include "courier/kind.h"
#include "fiber/fiber.h"
#include "store/tables/orders.h"
#include <limits.h>

#define ATTEMPTS_KEPT 20
#define ATTEMPTS_KEPT_FIRST 5
#define LEASE_MARGIN_US CLOCK_US_PER_S /* of a lease, in which no attempt is under way */

/* ---- saving ---- */

static enum store_status save_delivery_rows(struct courier *courier, struct rows *rows)
{
    enum store_status status = rows_save(rows);
    courier->store_is_dead |= status == STORE_DEAD;
    return status;
}

static struct task_terms task_terms_of(const struct courier_kind *kind,
                                       const struct store_task *stored)
{
    struct courier_limits limits = courier_limits_of(kind, stored->lane);
    return (struct task_terms){.done_us = limits.keep_done_us,
                               .dead_us = kind->keep_dead_us,
                               .holds = stored->ord.len > 0 && !stored->skips,
                               .schedule = limits.schedule};
}

/* What one end writes, in memory until it is saved. */
struct ending {
    struct store_task task;
    struct store_attempt attempt;
    bool has_attempt;
    struct rows rows; /* COURIER_CHANGES_MAX of them */
    struct arena arena;
};

/* Of the attempts of a task the first ones and the last ones are kept. */
static enum store_status keep_attempt(struct ending *ending)
{
    const struct store_attempt like = {.task = ending->task.row.id};
    const struct table_query query = {.table = &attempt_table,
                                      .by = TABLE_BY_INDEX,
                                      .index = &attempt_index,
                                      .prefix = 1,
                                      .like = &like.row,
                                      .limit = ATTEMPTS_KEPT};
    struct store_found found = {0};
    enum store_status status = STORE_DONE;
    if (ending->attempt.n > ATTEMPTS_KEPT)
        status = rows_find(&ending->rows, &query, &found);
    if (found.n == ATTEMPTS_KEPT) /* one makes room for it */
        rows_put(&ending->rows, TABLE_REMOVE, &attempt_table, found.rows[ATTEMPTS_KEPT_FIRST],
                 NULL);
    rows_put(&ending->rows, TABLE_INSERT, &attempt_table, &ending->attempt.row, NULL);
    return status;
}

/* The task is as it will be: what else changes with it. `delivery` NULL: its owner died. */
static enum store_status collect_changes(struct courier *courier, const struct courier_kind *kind,
                                         struct courier_delivery *delivery, struct ending *ending)
{
    struct rows *rows = &ending->rows;
    arena_reset(&ending->arena);
    *rows = (struct rows){.store = courier->config.store,
                          .parker = fiber_parker(),
                          .arena = &ending->arena,
                          .most = COURIER_CHANGES_MAX};
    rows->changes = arena_alloc(&ending->arena, COURIER_CHANGES_MAX * sizeof *rows->changes);
    if (!rows->changes)
        return STORE_NO_MEMORY;
    store_task_derive(&ending->task);
    rows_put(rows, TABLE_UPDATE, &task_table, &ending->task.row, NULL);
    enum store_status status = ending->has_attempt ? keep_attempt(ending) : STORE_DONE;
    if (status == STORE_DONE && !task_is_open(&ending->task.task))
        status = order_put_next(rows, &ending->task);
    return status == STORE_DONE && kind->follow ? kind->follow(kind, delivery, &ending->task, rows)
                                                : status;
}

static void count_saved(struct courier *courier, const struct courier_kind *kind,
                        const struct store_task *task)
{
    courier->counts.done += task->task.state == TASK_DONE;
    courier->counts.dead += task->task.state == TASK_DEAD;
    if (kind->saved)
        kind->saved(kind, task);
}

/* How many attempts a lane of others has is theirs to say. */
static const struct retry_schedule theirs = {.attempts = INT_MAX};

enum store_status delivery_lose(struct courier *courier, const struct courier_kind *kind,
                                const struct store_task *stored)
{
    int64_t now = store_now(courier->config.store);
    struct task_terms terms = task_terms_of(kind, stored);
    if (!courier_serves(kind, stored->lane))
        terms.schedule = &theirs;
    struct ending ending = {.task = *stored, .arena = arena_make(COURIER_ARENA_MAX)};
    task_lose(&ending.task.task, &terms, now);
    ending.has_attempt = true;
    ending.attempt = (struct store_attempt){
        .task = stored->row.id, .n = stored->task.tries, .at = now, .reason = TASK_REASON_LOST};
    enum store_status status = collect_changes(courier, kind, NULL, &ending);
    if (status == STORE_DONE)
        status = save_delivery_rows(courier, &ending.rows);
    courier->counts.lost += status == STORE_DONE;
    if (status == STORE_DONE)
        count_saved(courier, kind, &ending.task);
    arena_fini(&ending.arena);
    return status;
}

/* ---- the claim ---- */

/* One that is not the first of its order is held. */
static enum store_status check_order(struct delivery *delivery, bool *ret_is_first)
{
    ARENA_AUTO struct arena arena = arena_make(COURIER_ARENA_MAX);
    struct store_task task = delivery->given.stored, earlier;
    struct rows rows = {
        .store = delivery->courier->config.store, .parker = fiber_parker(), .arena = &arena};
    enum store_status status = order_find_earlier(&rows, &task, &earlier);
    *ret_is_first = earlier.row.id == 0;
    if (*ret_is_first)
        return status;
    (void)order_hold(&task);
    rows_put(&rows, TABLE_UPDATE, &task_table, &task.row, NULL);
    rows_put(&rows, TABLE_TOUCH, &task_table, &earlier.row, NULL);
    status = rows_save(&rows);
    return status == STORE_CONFLICT ? STORE_DONE : status; /* looked at again with the next turn */
}

static struct courier_verdict save_claim(struct delivery *delivery, struct rows *rows)
{
    const struct courier_kind *kind = delivery->kind;
    if (!kind->claim)
        return courier_claimed(save_delivery_rows(delivery->courier, rows));
    if (kind->own_size > 0)
        delivery->given.own = mem_zalloc(1, kind->own_size);
    if (kind->own_size > 0 && !delivery->given.own)
        return courier_down;
    return kind->claim(kind, &delivery->given, rows);
}

/* The lease counts from before the claim: by this process's clock it ends no later than by any
 * other's. */
static struct courier_verdict claim_delivery(struct delivery *delivery)
{
    struct store_task *stored = &delivery->given.stored;
    const struct courier_kind *kind = delivery->kind;
    const struct courier_limits limits = courier_limits_of(kind, stored->lane);
    int64_t timeout_us = limits.timeout_us;
    const struct task_claim wanted = {delivery->courier->config.owner,
                                      timeout_us + TASK_LEASE_EXTRA_US, stored->lasts_us,
                                      limits.schedule};
    int64_t now = store_now(delivery->courier->config.store), due_at = stored->task.due_at;
    int64_t lease_ends = clock_after(clock_boot_us(), wanted.lease_us - LEASE_MARGIN_US);
    now = now < due_at ? due_at : now;
    struct store_task before = *stored;
    task_claim(&stored->task, &wanted, now);
    store_task_derive(stored);
    struct rows rows = {.store = delivery->courier->config.store,
                        .parker = fiber_parker(),
                        .arena = &delivery->given.arena,
                        .begins = true};
    rows_put(&rows, TABLE_UPDATE, &task_table, &stored->row, NULL);
    struct courier_verdict verdict = save_claim(delivery, &rows);
    if (verdict.claim != COURIER_CLAIMED) {
        *stored = before;
        return verdict;
    }
    CHECK(rows.n > 0 && rows.changes[0].row == &stored->row); /* its kind took nothing away */
    stored->row.version = rows.changes[0].version;
    delivery->before = before.task;
    delivery->given.until = clock_first(lease_ends, clock_after(clock_boot_us(), timeout_us));
    delivery->given.send_by = delivery->given.until;
    delivery->courier->counts.attempts++;
    delivery->courier->counts.retries += stored->task.attempts > 1;
    delivery->due_at = clock_boot_us() - (now - due_at);
    return verdict;
}

/* ---- its end ---- */

/* Whether the task is still in this attempt: it was only touched. Then it is read anew. */
static enum store_status read_again(struct delivery *delivery, bool *ret_is_ours)
{
    struct store_task *stored = &delivery->given.stored;
    ARENA_AUTO struct arena arena = arena_make(COURIER_ARENA_MAX);
    struct rows rows = {
        .store = delivery->courier->config.store, .parker = fiber_parker(), .arena = &arena};
    struct store_task now;
    enum store_status status = rows_by_id(&rows, &task_table, stored->row.id, &now.row);
    *ret_is_ours = now.row.id != 0 && now.task.state == TASK_SENDING &&
                   now.task.owner == stored->task.owner && now.task.tries == stored->task.tries;
    if (now.row.id != 0)
        stored->row.version = now.row.version;
    return status;
}

static enum store_status save_end(struct delivery *delivery, struct rows *rows)
{
    if (!delivery->kind->end)
        return save_delivery_rows(delivery->courier, rows);
    enum store_status status = delivery->kind->end(delivery->kind, &delivery->given, rows);
    delivery->courier->store_is_dead |= status == STORE_DEAD;
    return status;
}

/* Waits a while. False: give up, as the process is about to end; the task is found lost. */
static bool wait_for_store(struct delivery *delivery)
{
    struct courier *courier = delivery->courier;
    int64_t now = clock_boot_us();
    if (courier->store_is_dead || (atomic_load(&courier->drains) &&
                                   now > clock_after(delivery->given.until, TASK_LEASE_EXTRA_US)))
        return false;
    fiber_sleep_until(clock_after(now, COURIER_PAUSE_US));
    return true;
}

/* Once the task has an end of somebody else's: what is the kind's is saved all the same. */
static void end_without_task(struct delivery *delivery, struct rows *rows)
{
    enum store_status status;
    do {
        rows->n = 0;
        status = save_end(delivery, rows);
    } while (status != STORE_DONE && status != STORE_DEAD && wait_for_store(delivery));
}

typedef void (*fill_fn)(struct delivery *delivery, struct ending *ending, const void *argument);

/* Saves an end until it is saved. `fill` moves the task from the state in which it was read. */
static bool save_ending(struct delivery *delivery, fill_fn fill, const void *argument,
                        struct ending *ending)
{
    bool is_ours = true;
    for (;;) {
        ending->task = delivery->given.stored;
        ending->has_attempt = false;
        fill(delivery, ending, argument);
        enum store_status status =
            collect_changes(delivery->courier, delivery->kind, &delivery->given, ending);
        if (status == STORE_DONE)
            status = save_end(delivery, &ending->rows);
        if (status == STORE_DONE)
            return true;
        if (status == STORE_CONFLICT)
            status = read_again(delivery, &is_ours);
        delivery->courier->store_is_dead |= status == STORE_DEAD;
        if (!is_ours && status == STORE_DONE) {
            end_without_task(delivery, &ending->rows);
            return false;
        }
        if (status != STORE_DONE && !wait_for_store(delivery))
            return false;
    }
}

struct attempt_end {
    const struct courier_result *result;
    int64_t began; /* store time */
    int64_t wait_us;
    int64_t took_us;
};

static struct task_terms terms_of_delivery(const struct delivery *delivery)
{
    struct task_terms terms = task_terms_of(delivery->kind, &delivery->given.stored);
    if (delivery->given.keep_done_us > 0)
        terms.done_us = delivery->given.keep_done_us;
    return terms;
}

static void fill_attempt_row(struct delivery *delivery, struct ending *ending, const void *argument)
{
    const struct attempt_end *end = argument;
    const struct task_result *result = &end->result->task;
    const struct store_task *stored = &delivery->given.stored;
    struct task_terms terms = terms_of_delivery(delivery);
    terms.attempts = delivery->given.attempts_most;
    terms.before = &delivery->before;
    task_end(&ending->task.task, stored->row.id, result, &terms,
             store_now(delivery->courier->config.store));
    if (end->result->key.len > 0)
        ending->task.key = end->result->key;
    /* The reasons of attempts are those that any pawl knows. */
    bool is_late =
        result->reason == TASK_REASON_KEY_EXPIRED || result->reason == TASK_REASON_HAPPENED;
    ending->has_attempt = !task_gives_back(&stored->task, result);
    ending->attempt = (struct store_attempt){
        .task = stored->row.id,
        .n = stored->task.tries,
        .at = end->began,
        .wait_us = end->wait_us,
        .took_us = end->took_us,
        .status = result->status,
        .reason = is_late ? TASK_REASON_FINAL : result->reason,
        .answer = slice_first(end->result->answer, COURIER_ANSWER_MAX),
    };
}

static enum lane_end lane_end_of(const struct store_task *stored, const struct task_result *result)
{
    bool failed = result->class == RETRY_LATER || result->class == RETRY_AT_ONCE;
    if (stored->task.replay || (result->class == RETRY_FINAL && result->status == 0))
        return LANE_UNCOUNTED;
    if (task_gives_back(&stored->task, result))
        return LANE_UNREACHED;
    return failed ? LANE_FAILED : LANE_SUCCEEDED;
}

static enum lane_end make_delivery_attempt(struct delivery *delivery, struct ending *ending)
{
    struct courier *courier = delivery->courier;
    int64_t began = store_now(courier->config.store), boot = clock_boot_us();
    struct courier_result result = delivery->kind->attempt(delivery->kind, &delivery->given);
    CHECK(result.task.status >= 0 && result.task.status <= 999);
    bool was_sent = result.sent_at != 0;
    int64_t wait_us = (was_sent ? result.sent_at : boot) - delivery->due_at;
    const struct attempt_end end = {&result, began, wait_us, clock_boot_us() - boot};
    if (was_sent)
        series_add_wait(&courier->series, wait_us);
    if (save_ending(delivery, fill_attempt_row, &end, ending))
        count_saved(courier, delivery->kind, &ending->task);
    return lane_end_of(&delivery->given.stored, &result.task);
}

/* ---- without an attempt ---- */

static void fill_verdict(struct delivery *delivery, struct ending *ending, const void *argument)
{
    const struct courier_verdict *verdict = argument;
    struct task_terms terms = terms_of_delivery(delivery);
    int64_t now = store_now(delivery->courier->config.store);
    CHECK(verdict->claim == COURIER_SETTLED || verdict->claim == COURIER_BUSY);
    terms.holds = terms.holds && !verdict->lets_pass;
    ending->task.why = 0; /* of what it waited for until now */
    if (verdict->claim == COURIER_SETTLED)
        task_settle(&ending->task.task, verdict->state, verdict->reason, &terms, now);
    else
        task_put_off(&ending->task.task, clock_after(now, verdict->wait_us), verdict->reason);
}

/* One try: what conflicts is looked at again with the next turn. */
static enum store_status save_verdict(struct delivery *delivery,
                                      const struct courier_verdict *verdict, struct ending *ending)
{
    struct courier *courier = delivery->courier;
    ending->task = delivery->given.stored;
    fill_verdict(delivery, ending, verdict);
    enum store_status status = collect_changes(courier, delivery->kind, &delivery->given, ending);
    if (status == STORE_DONE)
        status = save_delivery_rows(courier, &ending->rows);
    if (status == STORE_DONE)
        count_saved(courier, delivery->kind, &ending->task);
    return status;
}

/* ---- the fiber ---- */

/* Nothing was saved, so the task is as due as it was: its place in the lane is kept for a while, or
 * it would be tried again and again. */
static enum lane_end stay_in_lane(void)
{
    fiber_sleep_until(clock_after(clock_boot_us(), COURIER_PAUSE_US));
    return LANE_UNCOUNTED;
}

static enum lane_end run_delivery(struct delivery *delivery, struct ending *ending)
{
    bool is_first = true;
    enum store_status status = check_order(delivery, &is_first);
    if (status != STORE_DONE)
        return stay_in_lane();
    if (!is_first)
        return LANE_UNCOUNTED;
    struct courier_verdict verdict = claim_delivery(delivery);
    switch (verdict.claim) {
    case COURIER_CLAIMED:
        return make_delivery_attempt(delivery, ending);
    case COURIER_TAKEN: /* or another one of its order is being sent */
        return delivery->given.stored.ord.len > 0 ? stay_in_lane() : LANE_UNCOUNTED;
    case COURIER_DOWN:
        return stay_in_lane();
    case COURIER_BUSY:
    case COURIER_SETTLED:
        status = save_verdict(delivery, &verdict, ending);
        return status == STORE_DONE || status == STORE_CONFLICT ? LANE_UNCOUNTED : stay_in_lane();
    }
    UNREACHABLE();
}

static void forget_delivery(struct delivery *delivery)
{
    struct delivery **at = &delivery->courier->deliveries;
    while (*at != delivery)
        at = &(*at)->next;
    *at = delivery->next;
    delivery->courier->ended++;
    arena_fini(&delivery->given.arena);
    mem_free(delivery);
}

static void deliver_task(void *argument)
{
    struct delivery *delivery = argument;
    struct courier *courier = delivery->courier;
    struct ending *ending = mem_zalloc(1, sizeof *ending);
    delivery->given.parker = fiber_parker();
    if (ending)
        ending->arena = arena_make(COURIER_ARENA_MAX);
    enum lane_end end = ending ? run_delivery(delivery, ending) : stay_in_lane();
    if (ending)
        arena_fini(&ending->arena);
    if (delivery->given.own && delivery->kind->fini)
        delivery->kind->fini(delivery->kind, &delivery->given);
    mem_free(delivery->given.own);
    mem_free(ending);
    lanes_end(courier->lanes, &delivery->lane, end, clock_boot_us());
    forget_delivery(delivery);
    courier_wake(courier);
}

static bool copy_texts(struct courier_delivery *given, const struct store_task *stored)
{
    given->stored = *stored;
    given->stored.kind = arena_copy(&given->arena, stored->kind);
    given->stored.lane = arena_copy(&given->arena, stored->lane);
    given->stored.key = arena_copy(&given->arena, stored->key);
    given->stored.ord = arena_copy(&given->arena, stored->ord);
    store_task_derive(&given->stored);
    return !given->arena.failed;
}

bool delivery_start(struct courier *courier, const struct courier_kind *kind,
                    const struct store_task *stored, struct lane_attempt lane)
{
    struct delivery *delivery = mem_zalloc(1, sizeof *delivery);
    CHECK(stored->row.id != 0 && !delivery_is_under_way(courier, stored->row.id));
    if (!delivery)
        return false;
    delivery->courier = courier;
    delivery->kind = kind;
    delivery->lane = lane;
    delivery->given.arena = arena_make(COURIER_ARENA_MAX);
    delivery->next = courier->deliveries;
    courier->deliveries = delivery;
    if (copy_texts(&delivery->given, stored) &&
        fiber_spawn(loop_current(), "delivery", deliver_task, delivery))
        return true;
    forget_delivery(delivery);
    return false;
}

bool delivery_is_under_way(const struct courier *courier, int64_t id)
{
    for (const struct delivery *at = courier->deliveries; at; at = at->next)
        if (at->given.stored.row.id == id)
            return true;
    return false;
}
