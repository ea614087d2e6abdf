/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/registry.h"

#include "base/check.h"
#include "base/json/json.h"
#include "store/rows.h"
#include <stdlib.h>

static int compare_registry_entries(const void *a, const void *b)
{
    return slice_compare(((const struct registry_entry *)a)->state->name,
                         ((const struct registry_entry *)b)->state->name);
}

/* ---- reading ---- */

/* Both are in the order of their ids. */
static void join_registry(const struct store_found *states, const struct store_found *settings,
                          struct registry *registry)
{
    for (size_t i = 0, j = 0; i < states->n; i++) {
        const struct table_row *state = states->rows[i];
        while (j < settings->n && settings->rows[j]->id < state->id)
            j++;
        bool is_stored = j < settings->n && settings->rows[j]->id == state->id;
        registry->n_stored += is_stored;
        registry->at[registry->n++] = (struct registry_entry){
            (const struct store_endpoint *)state,
            is_stored ? (const struct store_endpoint_settings *)settings->rows[j] : NULL};
    }
    qsort(registry->at, registry->n, sizeof *registry->at, compare_registry_entries);
}

enum store_status registry_read(struct store *store, struct parker *parker, struct arena *arena,
                                struct registry *ret_registry)
{
    struct rows rows = {.store = store, .parker = parker, .arena = arena};
    struct store_found states, settings;
    *ret_registry = (struct registry){0};
    /* Settings first: of what is made in between there is only the state, and that of a config. */
    enum store_status status = rows_find_all(&rows, &endpoint_settings_table, &settings);
    if (status == STORE_DONE)
        status = rows_find_all(&rows, &endpoint_table, &states);
    if (status != STORE_DONE)
        return status;
    ret_registry->now = states.now;
    ret_registry->at = arena_alloc(arena, (states.n + 1) * sizeof *ret_registry->at);
    if (!ret_registry->at)
        return STORE_NO_MEMORY;
    join_registry(&states, &settings, ret_registry);
    return STORE_DONE;
}

const struct registry_entry *registry_find(const struct registry *registry, struct slice name)
{
    const struct store_endpoint like = {.name = name};
    const struct registry_entry entry = {.state = &like};
    return registry->n == 0
               ? NULL
               : bsearch(&entry, registry->at, registry->n, sizeof entry, compare_registry_entries);
}

const struct webhook_endpoint *registry_conflict(const struct registry *registry,
                                                 const struct webhook_settings *settings)
{
    for (size_t i = 0; i < settings->n_endpoints; i++) {
        const struct registry_entry *entry = registry_find(registry, settings->endpoints[i].name);
        if (entry && entry->settings)
            return &settings->endpoints[i];
    }
    return NULL;
}

/* ---- secrets ---- */

bool registry_next_secret(struct slice *secrets, struct registry_secret *ret_secret)
{
    struct slice line, until;
    uint64_t time = 0;
    if (!slice_next(secrets, '\n', &line) || line.len == 0)
        return false;
    ret_secret->text = slice_cut(line, ' ', &until);
    bool is_time = slice_to_u64(until, INT64_MAX, &time);
    ret_secret->until = is_time ? (int64_t)time : 0;
    return true;
}

bool registry_secret_signs(const struct registry_secret *secret, int64_t now)
{
    return secret->until == 0 || now < secret->until;
}

void registry_add_map(const struct registry_entry *entry, int64_t now, struct buf *map,
                      int64_t *ret_until)
{
    struct slice rest = entry->settings->secrets, members = entry->settings->settings;
    struct registry_secret secret;
    *ret_until = CLOCK_NEVER;
    buf_add_char(map, '{');
    json_add_text(map, "name", entry->state->name);
    json_open(map, "secret", '[');
    while (registry_next_secret(&rest, &secret)) {
        if (!registry_secret_signs(&secret, now))
            continue;
        json_next_item(map);
        json_add_string(map, secret.text);
        if (secret.until != 0)
            *ret_until = clock_first(*ret_until, secret.until);
    }
    buf_add_char(map, ']');
    if (members.len > 2) { /* more than `{}` */
        buf_add_char(map, ',');
        buf_add_slice(map, slice_make(members.at + 1, members.len - 2));
    }
    buf_add_char(map, '}');
}
