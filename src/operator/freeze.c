/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/freeze.h"
#include "operator/keys.h"
#include "operator/tasks.h"

#define TRIES_MOST 100   /* somebody else set the terms each time */
#define SLICE_ROWS 20000 /* looked at while the store is held: a few milliseconds */

/* ---- the terms ---- */

static struct store_task_audit make_act(const struct store_actor *actor, bool frozen, int64_t now)
{
    static const struct slice states[] = {{"open", 4}, {"frozen", 6}};
    return (struct store_task_audit){.at = now,
                                     .actor = actor->name,
                                     .act = frozen ? SLICE("freeze") : SLICE("thaw"),
                                     .kind = SLICE(FREEZE_KIND),
                                     .from = states[!frozen],
                                     .to = states[frozen]};
}

static enum store_status try_set(struct store *store, const struct store_actor *actor, bool frozen,
                                 struct parker *parker)
{
    int64_t now = store_now(store);
    struct store_task_audit act = make_act(actor, frozen, now);
    struct table_change changes[STORE_AUDIT_CHANGES];
    size_t n = store_audit_add(&act, actor, changes);
    struct terms_change terms = {.expected = store_terms(store)};
    terms.wanted = terms.expected;
    terms.wanted.frozen = frozen;
    terms.wanted.frozen_at = frozen ? now : 0;
    struct store_op op = {.kind = STORE_ROWS, .brings = changes, .n_brings = n, .terms = &terms};
    store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    return op.status;
}

/* Any operation reads the terms. */
static enum store_status read_terms(struct store *store, struct parker *parker)
{
    struct store_op op = {.kind = STORE_LOOK, .record_alone = true};
    store_run(store, &op, parker, clock_after(clock_boot_us(), KEYS_TIMEOUT_US));
    return op.status;
}

enum store_status freeze_set(struct store *store, const struct store_actor *actor, bool frozen,
                             struct parker *parker, bool *ret_changed)
{
    enum store_status status = STORE_CONFLICT;
    *ret_changed = false;
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++) {
        status = read_terms(store, parker);
        if (status != STORE_DONE || (store_terms(store).frozen != 0) == frozen)
            return status;
        status = try_set(store, actor, frozen, parker);
        *ret_changed = status == STORE_DONE;
    }
    return status;
}

/* ---- what is in flight ---- */

/* Of the slices before, and with this one. */
struct counting {
    size_t before;
    size_t n;
};

static void restart_slice(void *argument)
{
    struct counting *counting = argument;
    counting->n = counting->before;
}

static bool count_live(void *argument, const struct store_row *row, enum record_lease lease)
{
    (void)row;
    ((struct counting *)argument)->n += lease == RECORD_LEASE_LIVE;
    return true;
}

static enum store_status count_operations(struct store *store, struct parker *parker, size_t *ret_n)
{
    struct counting counting = {0};
    struct store_list list = {.statuses = 1U << RECORD_PENDING,
                              .most = SLICE_ROWS,
                              .restart = restart_slice,
                              .each = count_live,
                              .argument = &counting};
    enum store_status status;
    do {
        counting.before = counting.n;
        status = keys_scan(store, &list, parker, &list.after);
    } while (status == STORE_DONE && list.after != 0);
    *ret_n = counting.n;
    return status;
}

/* One whose lease is over is nobody's: its owner has died. */
static enum store_status count_deliveries(const struct tasks_source *source, size_t *n)
{
    struct tasks_wanted wanted = {.has_state = true, .state = TASK_SENDING};
    enum store_status status;
    do {
        TASKS_PAGE_AUTO struct tasks_page page = {0};
        status = tasks_list(source, &wanted, &page);
        for (size_t i = 0; i < page.n && status == STORE_DONE; i++)
            *n += page.rows[i].stored->task.lease_until > page.now;
        wanted.after = page.next;
    } while (status == STORE_DONE && wanted.after != 0);
    return status;
}

enum store_status freeze_look(struct store *store, const struct slice *kinds, struct parker *parker,
                              struct freeze_view *ret_view)
{
    *ret_view = (struct freeze_view){0};
    enum store_status status = count_operations(store, parker, &ret_view->operations);
    for (; status == STORE_DONE && kinds->len > 0; kinds++) {
        const struct tasks_source source = {store, parker, *kinds};
        status = count_deliveries(&source, &ret_view->deliveries);
    }
    const struct terms terms = store_terms(store);
    ret_view->is_frozen = terms.frozen != 0;
    ret_view->since = terms.frozen ? terms.frozen_at : 0;
    return status;
}
