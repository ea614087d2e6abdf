/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/state.h"

#define TIMEOUT_US (10 * CLOCK_US_PER_S) /* for one operation of the store */
#define ARENA_MAX ((size_t)1024 * 1024)
#define STATES_MOST 10000
#define TRIES_MOST 100 /* somebody else was first each time */

enum store_status webhook_states(struct store *store, struct parker *parker,
                                 struct store_found *found)
{
    const struct table_query query = {.table = &endpoint_table, .limit = STATES_MOST};
    return store_find_rows(store, &query, parker, clock_after(clock_boot_us(), TIMEOUT_US), found);
}

static enum store_status read_state(struct store *store, struct parker *parker,
                                    struct store_endpoint *state, struct arena *arena)
{
    struct store_found found = {.arena = arena};
    const struct table_query query = {
        .table = &endpoint_table, .by = TABLE_BY_KEY, .like = &state->row, .limit = 1};
    enum store_status status =
        store_find_rows(store, &query, parker, clock_after(clock_boot_us(), TIMEOUT_US), &found);
    if (status == STORE_DONE && found.n == 1)
        *state = *(const struct store_endpoint *)found.rows[0];
    return status;
}

static enum store_status try_set(struct store *store, struct parker *parker, struct slice name,
                                 bool disabled, bool *ret_changed)
{
    ARENA_AUTO struct arena arena = arena_make(ARENA_MAX);
    struct store_endpoint state = {.name = name};
    enum store_status status = read_state(store, parker, &state, &arena);
    *ret_changed = state.is_disabled != disabled;
    if (status != STORE_DONE || !*ret_changed)
        return status;
    state.is_disabled = disabled;
    state.why = disabled ? SLICE("by an operator") : SLICE("");
    state.failing_since = 0;
    state.changed_at = store_now(store);
    struct table_change change = {.table = &endpoint_table,
                                  .act = state.row.id != 0 ? TABLE_UPDATE : TABLE_INSERT,
                                  .row = &state.row};
    struct store_op op = {.kind = STORE_ROWS, .brings = &change, .n_brings = 1};
    store_run(store, &op, parker, clock_after(clock_boot_us(), TIMEOUT_US));
    return op.status;
}

enum store_status webhook_state_set(struct store *store, struct parker *parker, struct slice name,
                                    bool disabled, bool *ret_changed)
{
    enum store_status status = STORE_CONFLICT;
    for (int try = 0; try < TRIES_MOST && status == STORE_CONFLICT; try++)
        status = try_set(store, parker, name, disabled, ret_changed);
    return status;
}
