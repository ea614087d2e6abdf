/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/events.h"

#include "base/clock.h"

/* X(kind, role, field, name). */
#define EVENT_COLUMNS(X)                                                                           \
    X(TEXT, KEY, id, event_id)                                                                     \
    X(TEXT, PLAIN, tenant, tenant)                                                                 \
    X(TEXT, PLAIN, type, type)                                                                     \
    X(TEXT, PLAIN, time, time)                                                                     \
    X(BYTES, PLAIN, data, data)                                                                    \
    X(INT, PLAIN, created_at, created_at)                                                          \
    X(INT, PLAIN, is_new, is_new)                                                                  \
    X(INT, PLAIN, fanned_at, fanned_at)                                                            \
    X(INT, DUE, gone_at, gone_at)

static const struct table_column event_columns[] = {
#define X(kind, role, field, name) TABLE_COLUMN(struct store_event, kind, role, field, #name),
    EVENT_COLUMNS(X)
#undef X
};

enum event_column {
#define X(kind, role, field, name) COLUMN_##name,
    EVENT_COLUMNS(X)
#undef X
};

const struct table_index event_indexes[EVENT_INDEX_COUNT] = {
    [EVENT_BY_NEW] = {.name = "new",
                      .columns = {COLUMN_is_new},
                      .n_columns = 1,
                      .is_partial = true},
    [EVENT_BY_GONE] = {.name = "gone",
                       .columns = {COLUMN_gone_at},
                       .n_columns = 1,
                       .is_partial = true},
};

static const struct table_relation event_relations[] = {
    TABLE_WITHIN(COLUMN_created_at, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_fanned_at, 0, CLOCK_NEVER),
    TABLE_WITHIN(COLUMN_gone_at, 1, CLOCK_NEVER),
    TABLE_WHERE(COLUMN_is_new, 1, 1, COLUMN_fanned_at, 0, 0),
    TABLE_WHERE(COLUMN_is_new, 1, 1, COLUMN_gone_at, CLOCK_NEVER, CLOCK_NEVER),
    TABLE_WHERE(COLUMN_is_new, 0, 0, COLUMN_fanned_at, 1, CLOCK_NEVER),
};

/* Its deliveries that are there go on; it gets no others, and is not removed. */
static void hold_event(void *row)
{
    struct store_event *event = row;
    event->created_at = event->created_at > 0 ? event->created_at : 0;
    event->gone_at = CLOCK_NEVER;
}

const struct table event_table = {
    .name = "pawl_event",
    .columns = event_columns,
    .n_columns = COUNT_OF(event_columns),
    .indexes = event_indexes,
    .n_indexes = COUNT_OF(event_indexes),
    .row_size = sizeof(struct store_event),
    .relations = event_relations,
    .n_relations = COUNT_OF(event_relations),
    .hold = hold_event,
};

#define ENDPOINT(kind, role, field, name)                                                          \
    TABLE_COLUMN(struct store_endpoint, kind, role, field, name)

static const struct table_column endpoint_columns[] = {
    ENDPOINT(TEXT, KEY, name, "name"),
    ENDPOINT(INT, PLAIN, is_disabled, "disabled"),
    ENDPOINT(TEXT, PLAIN, why, "why"),
    ENDPOINT(INT, PLAIN, failing_since, "failing_since"),
    ENDPOINT(INT, PLAIN, changed_at, "changed_at"),
};

static const struct table_relation endpoint_relations[] = {
    TABLE_WITHIN(3, 0, CLOCK_NEVER),
    TABLE_WITHIN(4, 0, CLOCK_NEVER),
};

static void hold_endpoint(void *row)
{
    struct store_endpoint *endpoint = row;
    if (endpoint->failing_since < 0)
        endpoint->failing_since = 0;
    if (endpoint->changed_at < 0)
        endpoint->changed_at = 0;
}

const struct table endpoint_table = {
    .name = "pawl_endpoint",
    .columns = endpoint_columns,
    .n_columns = COUNT_OF(endpoint_columns),
    .row_size = sizeof(struct store_endpoint),
    .relations = endpoint_relations,
    .n_relations = COUNT_OF(endpoint_relations),
    .hold = hold_endpoint,
    .heal = "pawl_webhook_endpoint",
};

#define SETTINGS(kind, role, field)                                                                \
    TABLE_COLUMN(struct store_endpoint_settings, kind, role, field, #field)

static const struct table_column settings_columns[] = {
    SETTINGS(TEXT, PLAIN, settings),
    SETTINGS(TEXT, PLAIN, secrets),
    SETTINGS(INT, PLAIN, created_at),
};

const struct table endpoint_settings_table = {
    .name = "pawl_endpoint_settings",
    .columns = settings_columns,
    .n_columns = COUNT_OF(settings_columns),
    .parent = &endpoint_table,
    .row_size = sizeof(struct store_endpoint_settings),
};

static const struct table_column envelope_columns[] = {
    TABLE_COLUMN(struct store_envelope, TEXT, KEY, rule, "rule"),
};

const struct table envelope_table = {
    .name = "pawl_envelope",
    .columns = envelope_columns,
    .n_columns = COUNT_OF(envelope_columns),
    .row_size = sizeof(struct store_envelope),
};
