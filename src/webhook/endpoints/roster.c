/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/roster.h"

#include "base/check.h"
#include "base/mem.h"
#include "webhook/endpoints/endpoint.h"
#include "webhook/endpoints/held.h"
#include <stdlib.h>

#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define MAP_MAX ((size_t)1024 * 1024)

static int compare_targets(const void *a, const void *b)
{
    return slice_compare(((const struct webhook_target *)a)->endpoint->name,
                         ((const struct webhook_target *)b)->endpoint->name);
}

static void add_roster_target(struct roster *roster, const struct webhook_endpoint *endpoint,
                              bool is_stored)
{
    struct webhook_target *target = &roster->targets[roster->n++];
    const char *problem;
    target->endpoint = endpoint;
    target->is_stored = is_stored;
    bool is_good = url_read(endpoint->url, &target->url, &problem); /* its reader saw to that */
    CHECK(is_good);
    roster->needs_tls |= target->url.tls;
}

/* Its deliveries are made, and left to whoever can read it. */
static void add_held_entry(struct roster *roster, const struct registry_entry *entry)
{
    struct webhook_endpoint *endpoint = arena_alloc(&roster->arena, sizeof *endpoint);
    struct slice name = arena_copy(&roster->arena, entry->state->name);
    struct slice settings = arena_copy(&roster->arena, entry->settings->settings);
    if (!endpoint || !held_endpoint_read(name, settings, &roster->arena, endpoint)) {
        roster->is_whole = false;
        return;
    }
    roster->held[roster->n_held++] =
        (struct webhook_target){.endpoint = endpoint, .state.row = entry->state->row};
}

static void add_stored(struct roster *roster, const struct registry_entry *entry, int64_t now,
                       webhook_reader *read)
{
    BUF_AUTO struct buf map = buf_make(MAP_MAX);
    struct webhook_endpoint *endpoint = arena_alloc(&roster->arena, sizeof *endpoint);
    int64_t until = CLOCK_NEVER;
    registry_add_map(entry, now, &map, &until);
    roster->until = clock_first(roster->until, until);
    if (endpoint && buf_ok(&map) && !read(buf_slice(&map), &roster->arena, endpoint))
        add_roster_target(roster, endpoint, true);
    else if (roster->arena.failed || (map.failed && !map.too_large))
        roster->is_whole = false;
    else
        add_held_entry(roster, entry);
}

struct roster *roster_new(const struct webhook_settings *settings, const struct registry *registry,
                          webhook_reader *read)
{
    size_t n_stored = registry ? registry->n_stored : 0;
    struct roster *roster = mem_zalloc(1, sizeof *roster);
    CHECK(!registry || (read && registry->n_stored <= registry->n));
    if (!roster)
        return NULL;
    roster->refs = 1;
    roster->arena = arena_make_secret(ARENA_MAX);
    roster->until = CLOCK_NEVER;
    roster->is_whole = registry;
    roster->targets = mem_zalloc(settings->n_endpoints + n_stored + 1, sizeof *roster->targets);
    roster->stored = mem_zalloc(n_stored + 1, sizeof *roster->stored);
    roster->held = mem_zalloc(n_stored + 1, sizeof *roster->held);
    if (!roster->targets || !roster->stored || !roster->held) {
        roster_unref(roster);
        return NULL;
    }
    for (size_t i = 0; i < settings->n_endpoints; i++)
        add_roster_target(roster, &settings->endpoints[i], false);
    for (size_t i = 0; registry && i < registry->n; i++) {
        const struct registry_entry *entry = &registry->at[i];
        if (!entry->settings)
            continue;
        roster->stored[roster->n_stored++] = entry->settings->row;
        if (!webhook_is_configured(settings, entry->state->name))
            add_stored(roster, entry, registry->now, read);
    }
    CHECK(roster->n_stored == n_stored && roster->n_held <= n_stored);
    qsort(roster->targets, roster->n, sizeof *roster->targets, compare_targets);
    return roster;
}

struct roster *roster_ref(struct roster *roster)
{
    CHECK(roster->refs > 0);
    roster->refs++;
    return roster;
}

void roster_unref(struct roster *roster)
{
    CHECK(!roster || roster->refs > 0);
    if (!roster || --roster->refs > 0)
        return;
    arena_fini(&roster->arena);
    mem_free(roster->targets);
    mem_free(roster->stored);
    mem_free(roster->held);
    mem_free(roster);
}

bool roster_is_of(const struct roster *roster, const struct registry *registry)
{
    size_t n = 0;
    if (!roster->is_whole || registry->now >= roster->until)
        return false;
    for (size_t i = 0; i < registry->n; i++) {
        const struct store_endpoint_settings *settings = registry->at[i].settings;
        if (!settings)
            continue;
        if (n == roster->n_stored || roster->stored[n].id != settings->row.id ||
            roster->stored[n].version != settings->row.version)
            return false;
        n++;
    }
    return n == roster->n_stored;
}

void roster_take_states(struct roster *roster, const struct registry *registry)
{
    for (size_t i = 0; i < roster->n; i++) {
        struct webhook_target *target = &roster->targets[i];
        const struct registry_entry *entry = registry_find(registry, target->endpoint->name);
        target->state = entry ? *entry->state : (struct store_endpoint){0};
        target->state.name = target->endpoint->name;
        target->state.why = SLICE("");
    }
}

static struct webhook_target *find_roster_target(struct webhook_target *targets, size_t n,
                                                 struct slice name)
{
    const struct webhook_endpoint like = {.name = name};
    const struct webhook_target target = {.endpoint = &like};
    return n == 0 ? NULL : bsearch(&target, targets, n, sizeof target, compare_targets);
}

struct webhook_target *roster_find(const struct roster *roster, struct slice name)
{
    return find_roster_target(roster->targets, roster->n, name);
}

struct webhook_target *roster_heir(const struct roster *roster, struct webhook_target *target)
{
    const struct webhook_endpoint *heir = target->endpoint->heir;
    struct webhook_target *found = heir ? roster_find(roster, heir->name) : target;
    CHECK(found);
    return found;
}

bool roster_holds(const struct roster *roster, struct slice name)
{
    return find_roster_target(roster->held, roster->n_held, name);
}
