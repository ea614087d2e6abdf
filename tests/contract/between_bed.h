/* SPDX-License-Identifier: Apache-2.0 */
/* What another process does between the load and the save of a batch, on the backends that hold no
 * lock between the two. */
#ifndef PAWL_TESTS_BETWEEN_BED_H
#define PAWL_TESTS_BETWEEN_BED_H

#include "table_bed.h"

#define BETWEEN_MOST 2

struct between {
    struct bed other;
    struct store_op ops[BETWEEN_MOST];
    size_t n;
    const char *then; /* SQL, after them; NULL: none */
};

/* A store that holds its lock from load to save has nothing between the two. */
static inline bool has_between(const struct bed *bed)
{
    return bed->kind == BED_TOY || bed->kind == BED_POSTGRES;
}

/* In front of PostgreSQL, too, something that stops behind a load. */
static inline void open_hostile(struct bed *bed)
{
    enum store_open_result result;
    char *problem = NULL;
    if (bed->kind != BED_POSTGRES)
        return;
    bed_close(bed);
    struct backend *behind = postgres_backend_open(&bed->config, &result, &problem);
    assert_non_null(behind);
    bed->backend = hostile_over(behind, 0, false);
    assert_int_equal(store_open_over(&bed->config, bed->backend, &bed->store, &problem),
                     STORE_OPENED);
}

/* Each act under the token of the begin before it. */
static inline void do_between(void *argument)
{
    struct between *between = argument;
    int64_t token = 0;
    for (size_t i = 0; i < between->n; i++) {
        struct store_op *op = &between->ops[i];
        op->writing.token = token;
        run(&between->other, op);
        assert_int_equal(op->result.status, STORE_DONE);
        token = op->result.record.token;
    }
    if (between->then)
        bed_exec(&between->other, between->then);
}

/* Behind the next load of an open_hostile bed; close_other(&between->other) in the end. */
static inline void meanwhile(struct bed *bed, struct between *between, size_t n)
{
    open_other(bed, &between->other);
    between->n = n;
    struct hostile_faults *faults = hostile_faults(bed->backend);
    faults->loaded = do_between;
    faults->argument = between;
}

#endif
