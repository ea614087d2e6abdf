/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/roster.h"

#include "base/buf.h"

#define PROCESS(kind, role, field) TABLE_COLUMN(struct store_process, kind, role, field, #field)

static const struct table_column process_columns[] = {
    PROCESS(INT, PLAIN, is_in_force),
    PROCESS(INT, PLAIN, started_at),
    PROCESS(INT, GONE, lives_until),
};

const struct table process_table = {
    .name = "pawl_process",
    .columns = process_columns,
    .n_columns = COUNT_OF(process_columns),
    .row_size = sizeof(struct store_process),
};

#define TERMS(type)                                                                                \
    TABLE_COLUMN(type, TEXT, PLAIN, terms.types, "types"),                                         \
        TABLE_COLUMN(type, TEXT, PLAIN, terms.tenants, "tenants"),                                 \
        TABLE_COLUMN(type, INT, PLAIN, terms.ordered, "ordered"),                                  \
        TABLE_COLUMN(type, INT, PLAIN, terms.skips, "skips"),                                      \
        TABLE_COLUMN(type, INT, PLAIN, terms.retry, "retry"),                                      \
        TABLE_COLUMN(type, INT, PLAIN, terms.envelope, "envelope"),                                \
        TABLE_COLUMN(type, INT, PLAIN, terms.endpoint, "endpoint"),                                \
        TABLE_COLUMN(type, INT, PLAIN, terms.keep_us, "keep_us")

static const struct table_column serves_columns[] = {
    TABLE_COLUMN(struct store_serves, INT, PARENT, process, "process"),
    TABLE_COLUMN(struct store_serves, TEXT, PLAIN, kind, "kind"),
    TABLE_COLUMN(struct store_serves, TEXT, PLAIN, name, "name"),
    TERMS(struct store_serves),
    TABLE_LATE(struct store_serves, TEXT, terms.former, "former"),
};

static const struct table_index serves_indexes[] = {
    {.name = "process", .columns = {0, 1, 2}, .n_columns = 3, .is_unique = true},
};

const struct table serves_table = {
    .name = "pawl_serves",
    .columns = serves_columns,
    .n_columns = COUNT_OF(serves_columns),
    .indexes = serves_indexes,
    .n_indexes = COUNT_OF(serves_indexes),
    .parent = &process_table,
    .row_size = sizeof(struct store_serves),
};

static const struct table_column roster_columns[] = {
    TABLE_COLUMN(struct store_roster, TEXT, KEY, kind, "kind"),
    TABLE_COLUMN(struct store_roster, TEXT, KEY, name, "name"),
    TABLE_COLUMN(struct store_roster, INT, PLAIN, state, "state"),
    TERMS(struct store_roster),
    TABLE_COLUMN(struct store_roster, INT, PLAIN, unserved_since, "unserved_since"),
    TABLE_COLUMN(struct store_roster, INT, GONE, gone_at, "gone_at"),
    TABLE_LATE(struct store_roster, TEXT, terms.former, "former"),
};

const struct table roster_table = {
    .name = "pawl_roster",
    .columns = roster_columns,
    .n_columns = COUNT_OF(roster_columns),
    .row_size = sizeof(struct store_roster),
};

void store_list_add(struct buf *list, struct slice text)
{
    buf_printf(list, "%zu:", text.len);
    buf_add_slice(list, text);
    buf_add_char(list, ',');
}

bool store_list_next(struct slice *list, struct slice *ret_text)
{
    struct slice length, rest = slice_cut(*list, ':', &length);
    uint64_t n = 0;
    if (!rest.at || !slice_to_u64(length, INT64_MAX, &n) || n >= rest.len)
        return false;
    *ret_text = slice_first(rest, (size_t)n);
    *list = slice_skip(rest, (size_t)n + 1);
    return true;
}
