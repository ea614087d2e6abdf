/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same: which operation of the queue was added last with a payload, as rows (store/table.h), so
 * that the commit which adds another one with it conflicts. There is a row for each that was added
 * with --dedupe-payload.
 */
#ifndef PAWL_STORE_SAME_H
#define PAWL_STORE_SAME_H

#include "base/clock.h"
#include "store/table.h"

struct store_same {
    struct table_row row; /* first */
    struct slice hash;    /* of what is compared (client/queue.h) */
    int64_t task;         /* its row id */
    int64_t until;        /* the end of the window */
};

/* Kept for so long behind the window, as the operation may wait for longer than that. */
#define STORE_SAME_KEEP_US (INT64_C(30) * 86400 * CLOCK_US_PER_S)

extern const struct table same_table;

#endif
