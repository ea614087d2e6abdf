/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines: state machines of applications, as rows (store/table.h): what an action makes of a
 * state, which people declare by INSERT; the state of each thing; and what each action was told.
 * On PostgreSQL they are tables of the schema (postgres/schema/messages.sql).
 */
#ifndef PAWL_STORE_MACHINES_H
#define PAWL_STORE_MACHINES_H

#include "store/table.h"

struct store_machine {
    struct table_row row; /* first */
    struct slice name;
    struct slice from; /* empty: of what is not there yet */
    struct slice action;
    struct slice to;
};

struct store_machine_state {
    struct table_row row; /* first */
    struct slice tenant;
    struct slice machine;
    struct slice thing;
    struct slice state;
    bool has_seq;
    int64_t seq; /* of the newest action that said how new it is */
    int64_t at;
};

struct store_machine_action {
    struct table_row row; /* first */
    struct slice tenant;
    struct slice machine;
    struct slice thing;
    struct slice action_id;
    struct slice action;
    int64_t decision; /* enum pawl_move */
    struct slice from;
    struct slice to;
    int64_t at;
};

extern const struct table machine_table, machine_state_table, machine_told_table;

enum machine_index { MACHINE_BY_ACTION, MACHINE_INDEX_COUNT };
extern const struct table_index machine_indexes[MACHINE_INDEX_COUNT];

#endif
