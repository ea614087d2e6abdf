/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/machines.h"

#define MACHINE(kind, role, field, name) TABLE_COLUMN(struct store_machine, kind, role, field, name)

static const struct table_column machine_columns[] = {
    MACHINE(TEXT, KEY, name, "name"),
    MACHINE(TEXT, KEY, from, "from_state"),
    MACHINE(TEXT, KEY, action, "action"),
    MACHINE(TEXT, PLAIN, to, "to_state"),
};

const struct table_index machine_indexes[MACHINE_INDEX_COUNT] = {
    [MACHINE_BY_ACTION] = {.name = "action", .columns = {0, 2}, .n_columns = 2},
};

const struct table machine_table = {
    .name = "pawl_machine",
    .columns = machine_columns,
    .n_columns = COUNT_OF(machine_columns),
    .indexes = machine_indexes,
    .n_indexes = COUNT_OF(machine_indexes),
    .row_size = sizeof(struct store_machine),
};

#define STATE(kind, role, field, name)                                                             \
    TABLE_COLUMN(struct store_machine_state, kind, role, field, name)

static const struct table_column state_columns[] = {
    STATE(TEXT, KEY, tenant, "tenant"),    STATE(TEXT, KEY, machine, "machine"),
    STATE(TEXT, KEY, thing, "thing"),      STATE(TEXT, PLAIN, state, "state"),
    STATE(INT, PLAIN, has_seq, "has_seq"), STATE(INT, PLAIN, seq, "seq"),
    STATE(INT, PLAIN, at, "at"),
};

const struct table machine_state_table = {
    .name = "pawl_machine_state",
    .columns = state_columns,
    .n_columns = COUNT_OF(state_columns),
    .row_size = sizeof(struct store_machine_state),
};

#define TOLD(kind, role, field, name)                                                              \
    TABLE_COLUMN(struct store_machine_action, kind, role, field, name)

static const struct table_column told_columns[] = {
    TOLD(TEXT, KEY, tenant, "tenant"),
    TOLD(TEXT, KEY, machine, "machine"),
    TOLD(TEXT, KEY, thing, "thing"),
    TOLD(TEXT, KEY, action_id, "action_id"),
    TOLD(TEXT, PLAIN, action, "action"),
    TOLD(INT, PLAIN, decision, "decision"),
    TOLD(TEXT, PLAIN, from, "from_state"),
    TOLD(TEXT, PLAIN, to, "to_state"),
    TOLD(INT, PLAIN, at, "at"),
};

const struct table machine_told_table = {
    .name = "pawl_machine_told",
    .columns = told_columns,
    .n_columns = COUNT_OF(told_columns),
    .row_size = sizeof(struct store_machine_action),
};
