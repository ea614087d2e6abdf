/* SPDX-License-Identifier: Apache-2.0 */
/* shelf: rows of tables by their declarations, in memory. Not locked. */
#ifndef PAWL_TESTS_SHELF_H
#define PAWL_TESTS_SHELF_H

#include "store/backend.h"

struct shelf_row;

struct shelf {
    struct shelf_row *first; /* by table as they come, and id */
};

void shelf_fini(struct shelf *shelf);

/* The shelf as it is with the rows that the group brings. False: the first that does not fit is
 * marked, and there is none. */
bool shelf_with(const struct shelf *shelf, const struct backend_group *group,
                struct shelf *ret_shelf);

/* As struct backend_ops has it. */
void shelf_query(const struct shelf *shelf, const struct table_query *query, int64_t now,
                 int64_t *ret_next);

/* Drops at most `most` rows whose time is past; returns how many. */
size_t shelf_sweep(struct shelf *shelf, int64_t now, size_t most);

#endif
