/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/audience.h"

#include "core/task.h"
#include "store/tables/tasks.h"
#include "webhook/endpoints/endpoint.h"

/* What no pawl wrote is no row id. */
static int64_t id_or_none(int64_t id)
{
    return id > 0 ? id : 0;
}

static void add_audience_member(struct audience *audience, struct slice name,
                                const struct store_terms *terms, const struct census_entry *entry)
{
    audience->at[audience->n++] = (struct audience_member){.name = name,
                                                           .ordered = terms->ordered,
                                                           .skips = terms->skips,
                                                           .retry = census_profile(terms),
                                                           .envelope = id_or_none(terms->envelope),
                                                           .row = id_or_none(terms->endpoint),
                                                           .entry = entry};
}

/* Where another process declared it later, and otherwise, its deliveries are made as that one
 * says. */
static void add_own(struct audience *audience, const struct webhook_target *target,
                    const struct census_entry *entry)
{
    const struct webhook_endpoint *endpoint = target->endpoint;
    const struct store_terms own = {.ordered = endpoint->ordered,
                                    .skips = endpoint->skips,
                                    .retry = endpoint->retry,
                                    .envelope = target->envelope};
    bool is_told = entry && census_is_told(entry);
    bool is_living = entry && entry->n_living > 0;
    add_audience_member(audience, endpoint->name, is_living ? census_terms(entry) : &own,
                        is_told ? entry : NULL);
    struct audience_member *member = &audience->at[audience->n - 1];
    member->row = target->state.row.id;
    member->endpoint = entry && entry->told_as ? NULL : endpoint;
    if (member->envelope == 0) /* an older pawl's, which names none */
        member->envelope = target->envelope;
}

static void add_others(struct audience *audience, const struct census_entry *entry)
{
    const struct store_terms *terms = census_terms(entry);
    add_audience_member(audience, entry->row.name, terms, entry);
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
           (member->entry && !member->entry->told_as && census_wants(member->entry, event, false));
}
