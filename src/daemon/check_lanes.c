/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints and sources for which something waits, and which nobody has. */
#include "daemon/check.h"

#include "base/thread.h"
#include "config/warnings.h"
#include "store/rows.h"
#include "store/tables/tasks.h"
#include "webhook/endpoints/registry.h"
#include "webhook/fanout.h"
#include "webhook/handler.h"

#define ARENA_MAX ((size_t)64 * 1024 * 1024)
#define PROBLEM_MAX ((size_t)1024)
#define PAGE ((size_t)500)
#define DELIVERY_COUNTS_MOST 8 /* of a kind */

struct lanes {
    const struct config *config;
    struct store *store;
    struct thread_parker own;
    struct arena arena;
    struct registry registry;
    struct census census;
    bool is_alone;
};

/* ---- who has it ---- */

static bool is_in_config(const struct config *config, struct slice kind, struct slice name)
{
    const struct webhook_settings *webhooks = &config->webhooks;
    const struct inbox_settings *inbox = &config->inbox;
    bool is_webhook = slice_eq(kind, SLICE(WEBHOOK_KIND)), is_in = false;
    for (size_t i = 0; i < webhooks->n_endpoints && is_webhook && !is_in; i++)
        is_in = slice_eq(webhooks->endpoints[i].name, name);
    for (size_t i = 0; i < inbox->n_sources && !is_webhook && !is_in; i++)
        is_in = slice_eq(inbox->sources[i].source, name);
    return is_in;
}

/* A stored endpoint is everybody's; what is due to a removed one ends. Whoever is alone on its
 * store knows that the declarations of others are of the dead. */
static bool is_unserved(const struct lanes *lanes, struct slice kind, struct slice name)
{
    bool is_webhook = slice_eq(kind, SLICE(WEBHOOK_KIND));
    const struct registry_entry *known = is_webhook ? registry_find(&lanes->registry, name) : NULL;
    const struct census_entry *entry = census_find(&lanes->census, kind, name);
    if (is_in_config(lanes->config, kind, name) || (known && known->settings))
        return false;
    if (!entry)
        return known || !is_webhook;
    return (entry->n_living == 0 || lanes->is_alone) && entry->row.state != STORE_ROSTER_REMOVED;
}

/* ---- what waits ---- */

static void tell_of_lane(struct slice kind, struct slice name, void (*report)(void *, struct slice),
                         void *argument)
{
    BUF_AUTO struct buf line = buf_make(PROBLEM_MAX);
    bool is_webhook = slice_eq(kind, SLICE(WEBHOOK_KIND));
    buf_printf(&line,
               "%s '%.*s', which is in no config in force: they wait for one that has it, for "
               "roster_gone, and then they are dead (if you renamed it, add %s%.*s%s; `pawl %s "
               "remove %.*s%s` ends them) [%s]",
               is_webhook ? "the store holds deliveries to an endpoint"
                          : "the store holds events of a source",
               SLICE_ARG(name), is_webhook ? "formerly: [" : "source: ", SLICE_ARG(name),
               is_webhook ? "] to the endpoint" : " to the source",
               is_webhook ? "webhook endpoint" : "inbox", SLICE_ARG(name),
               is_webhook ? " --force" : "", warning_name(WARNING_ENDPOINT_UNSERVED));
    if (buf_ok(&line))
        report(argument, buf_slice(&line));
}

static enum store_status find_lane_rows(struct lanes *lanes, const struct table_query *query,
                                        struct store_found *ret_found)
{
    struct rows rows = {
        .store = lanes->store, .parker = &lanes->own.parker, .arena = &lanes->arena};
    return rows_find(&rows, query, ret_found);
}

/* Whether something is due there, now or later. */
static bool look_for_waiting(struct lanes *lanes, const struct store_task *of)
{
    struct store_found found;
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &of->row,
                                      .index = &task_indexes[TASK_BY_LANE],
                                      .prefix = 2,
                                      .is_sound_only = true,
                                      .limit = 1};
    return find_lane_rows(lanes, &query, &found) == STORE_DONE &&
           (found.n > 0 || found.next_due != CLOCK_NEVER);
}

/* Of each lane one task, of those behind that of `behind`. */
static enum store_status read_page(struct lanes *lanes, const struct store_task *behind,
                                   struct store_found *ret_found)
{
    const struct store_task like = {.kind = behind->kind};
    const struct table_query query = {.table = &task_table,
                                      .by = TABLE_BY_INDEX,
                                      .like = &like.row,
                                      .index = &task_indexes[TASK_BY_KEY],
                                      .prefix = 1,
                                      .behind = behind->lane.len > 0 ? &behind->row : NULL,
                                      .is_first_of_each = true,
                                      .is_sound_only = true,
                                      .limit = PAGE};
    return find_lane_rows(lanes, &query, ret_found);
}

static void look_at_kind(struct lanes *lanes, struct slice kind,
                         void (*report)(void *, struct slice), void *argument)
{
    struct store_task of = {.kind = kind};
    struct store_found found;
    size_t told = 0;
    do {
        if (read_page(lanes, &of, &found) != STORE_DONE)
            return;
        for (size_t i = 0; i < found.n && told < DELIVERY_COUNTS_MOST; i++) {
            of.lane = ((const struct store_task *)found.rows[i])->lane;
            if (!is_unserved(lanes, kind, of.lane) || !look_for_waiting(lanes, &of))
                continue;
            tell_of_lane(kind, of.lane, report, argument);
            told++;
        }
    } while (found.n == PAGE && told < DELIVERY_COUNTS_MOST);
}

void check_lanes_served(struct store *store, const struct config *config,
                        void (*report)(void *argument, struct slice line), void *argument)
{
    struct lanes lanes = {.config = config, .store = store, .is_alone = store_is_alone(store)};
    if (warning_is_allowed(config->allowed, WARNING_ENDPOINT_UNSERVED))
        return;
    thread_parker_init(&lanes.own);
    lanes.arena = arena_make(ARENA_MAX);
    lanes.census = census_make();
    if (registry_read(store, &lanes.own.parker, &lanes.arena, &lanes.registry) == STORE_DONE &&
        census_read(&lanes.census, store, &lanes.own.parker) == STORE_DONE) {
        look_at_kind(&lanes, SLICE(WEBHOOK_KIND), report, argument);
        look_at_kind(&lanes, SLICE(INBOX_KIND), report, argument);
    }
    census_fini(&lanes.census);
    arena_fini(&lanes.arena);
    thread_parker_fini(&lanes.own);
}
