/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/audience.h"

#include "core/task.h"
#include "webhook/endpoint.h"

static void add_own(struct audience *audience, const struct webhook_target *target,
                    const struct census_entry *entry)
{
    const struct webhook_endpoint *endpoint = target->endpoint;
    bool is_told = entry && census_is_told(entry);
    audience->at[audience->n++] = (struct audience_member){.name = endpoint->name,
                                                           .ordered = endpoint->ordered,
                                                           .skips = endpoint->skips,
                                                           .retry = endpoint->retry,
                                                           .envelope = target->envelope,
                                                           .row = target->state.row.id,
                                                           .endpoint = endpoint,
                                                           .entry = is_told ? entry : NULL};
}

/* What no pawl wrote is no row id. */
static int64_t or_none(int64_t id)
{
    return id > 0 ? id : 0;
}

static void add_others(struct audience *audience, const struct census_entry *entry)
{
    const struct store_terms *terms = census_terms(entry);
    audience->at[audience->n++] = (struct audience_member){.name = entry->row.name,
                                                           .ordered = terms->ordered,
                                                           .skips = terms->skips,
                                                           .retry = census_profile(terms),
                                                           .envelope = or_none(terms->envelope),
                                                           .row = or_none(terms->endpoint),
                                                           .entry = entry};
    if (terms->keep_us > audience->keep_us)
        audience->keep_us = terms->keep_us;
}

bool audience_make(struct arena *arena, const struct roster *roster, const struct census *census,
                   int64_t keep_us, struct audience *ret_audience)
{
    struct slice kind = SLICE(WEBHOOK_KIND);
    ret_audience->n = 0;
    ret_audience->keep_us = keep_us;
    ret_audience->at =
        arena_alloc(arena, (roster->n + roster->n_held + census->n + 1) * sizeof *ret_audience->at);
    if (!ret_audience->at)
        return false;
    for (size_t i = 0; i < roster->n; i++) {
        const struct webhook_target *target = &roster->targets[i];
        add_own(ret_audience, target, census_find(census, kind, target->endpoint->name));
    }
    for (size_t i = 0; i < roster->n_held; i++)
        add_own(ret_audience, &roster->held[i], NULL);
    for (size_t i = 0; i < census->n; i++) {
        const struct census_entry *entry = &census->entries[i];
        if (slice_eq(entry->row.kind, kind) && census_is_told(entry) &&
            !roster_find(roster, entry->row.name) && !roster_holds(roster, entry->row.name))
            add_others(ret_audience, entry);
    }
    if (ret_audience->keep_us == 0) /* only stored ones */
        ret_audience->keep_us = TASK_KEEP_DONE_US;
    return true;
}

bool audience_wants(const struct audience_member *member, const struct store_event *event)
{
    return (member->endpoint && webhook_endpoint_wants(member->endpoint, event, false)) ||
           (member->entry && census_wants(member->entry, event, false));
}
