/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/freeze.h"
#include "operator/keys.h"
#include "operator/tasks.h"
#include "operator/terms_act.h"

#define SLICE_ROWS 20000 /* looked at while the store is held: a few milliseconds */

/* ---- the terms ---- */

static struct slice frozen_word(const struct terms *terms)
{
    return terms->frozen ? SLICE("frozen") : SLICE("open");
}

static bool want_frozen(const void *argument, int64_t now, struct terms_change *change)
{
    bool frozen = *(const bool *)argument;
    bool is_other = (change->expected.frozen != 0) != frozen;
    change->wanted.frozen = frozen;
    change->wanted.frozen_at = frozen ? now : 0;
    return is_other;
}

enum store_status freeze_set(struct store *store, const struct store_actor *actor, bool frozen,
                             struct parker *parker, bool *ret_changed)
{
    const struct terms_act act = {frozen ? "freeze" : "thaw", actor, frozen_word, want_frozen,
                                  &frozen};
    return terms_act(store, &act, parker, ret_changed);
}

/* ---- what is in flight ---- */

/* Of the slices before, and with this one. */
struct counting {
    size_t before;
    size_t n;
};

static void restart_freeze_slice(void *argument)
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
                              .restart = restart_freeze_slice,
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

enum store_status freeze_look(struct store *store, struct parker *parker,
                              struct freeze_view *ret_view)
{
    *ret_view = (struct freeze_view){0};
    enum store_status status = count_operations(store, parker, &ret_view->operations);
    for (size_t i = 0; status == STORE_DONE && i < TASKS_KIND_COUNT; i++) {
        const struct tasks_source source = {store, parker, slice_of(tasks_kinds[i].name)};
        status = count_deliveries(&source, &ret_view->deliveries);
    }
    const struct terms terms = store_terms(store);
    ret_view->is_frozen = terms.frozen != 0;
    ret_view->since = terms.frozen ? terms.frozen_at : 0;
    return status;
}
