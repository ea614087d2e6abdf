/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/endpoints/endpoint.h"

#include "base/json/json.h"
#include "core/event_type.h"
#include <assert.h>

#define MEMBER(name, fact)                                                                         \
    {                                                                                              \
        {name, sizeof name - 1}, WEBHOOK_FACT_##fact                                               \
    }

/* Of those that have a name. CloudEvents 1.0, JSON format: what it has beside these is constant. */
static const struct webhook_members named[] = {
    [WEBHOOK_STANDARD] = {3,
                          {MEMBER("type", TYPE), MEMBER("timestamp", TIME), MEMBER("data", DATA)}},
    [WEBHOOK_CLOUDEVENTS] = {5,
                             {MEMBER("id", ID), MEMBER("source", SOURCE), MEMBER("type", TYPE),
                              MEMBER("time", TIME), MEMBER("data", DATA)}},
};

static_assert(sizeof named / sizeof *named == WEBHOOK_OWN, "own members are the last form");

bool webhook_is_configured(const struct webhook_settings *settings, struct slice name)
{
    for (size_t i = 0; i < settings->n_endpoints; i++)
        if (slice_eq(settings->endpoints[i].name, name))
            return true;
    return false;
}

bool webhook_endpoint_wants(const struct webhook_endpoint *endpoint,
                            const struct store_event *event, bool of_any_type)
{
    bool wants_type = of_any_type, wants_tenant = endpoint->n_tenants == 0;
    for (size_t i = 0; i < endpoint->n_types; i++)
        wants_type |= event_type_matches(endpoint->types[i], event->type);
    for (size_t i = 0; i < endpoint->n_tenants; i++)
        wants_tenant |= slice_eq(endpoint->tenants[i], event->tenant);
    return wants_type && wants_tenant;
}

/* ---- envelopes ---- */

static void add_fact_member(struct buf *body, struct slice name, enum webhook_fact fact,
                            struct slice source, const struct store_event *event)
{
    const struct slice facts[] = {
        [WEBHOOK_FACT_ID] = event->id,         [WEBHOOK_FACT_TYPE] = event->type,
        [WEBHOOK_FACT_TIME] = event->time,     [WEBHOOK_FACT_DATA] = event->data,
        [WEBHOOK_FACT_TENANT] = event->tenant, [WEBHOOK_FACT_SOURCE] = source,
    };
    static_assert(sizeof facts / sizeof *facts == WEBHOOK_FACT_SOURCE + 1, "each has its fact");
    json_next_item(body);
    json_add_string(body, name);
    buf_add_char(body, ':');
    if (fact == WEBHOOK_FACT_DATA)
        buf_add_slice(body, facts[fact]);
    else if (fact == WEBHOOK_FACT_TENANT && facts[fact].len == 0)
        buf_add_str(body, "null");
    else
        json_add_string(body, facts[fact]);
}

void webhook_envelope_write(const struct envelope_rule *rule, const struct store_event *event,
                            struct buf *body)
{
    const struct webhook_envelope *envelope = &rule->envelope;
    bool is_own = envelope->form == WEBHOOK_OWN;
    const struct webhook_members *members = is_own ? &envelope->own : &named[envelope->form];
    if (envelope->form == WEBHOOK_NONE) {
        buf_add_slice(body, event->data);
        return;
    }
    buf_add_char(body, '{');
    if (envelope->form == WEBHOOK_CLOUDEVENTS)
        buf_add_str(body, "\"specversion\":\"1.0\",\"datacontenttype\":\"application/json\"");
    for (size_t i = 0; i < members->n; i++)
        add_fact_member(body, members->at[i].name, members->at[i].fact, rule->source, event);
    buf_add_char(body, '}');
}

struct slice webhook_envelope_type(const struct webhook_envelope *envelope)
{
    return envelope->form == WEBHOOK_CLOUDEVENTS ? SLICE("application/cloudevents+json")
                                                 : SLICE("application/json");
}
