/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receipts: the events that were received, as rows (store/table.h). A receipt goes with the task of
 * its handler: it has its id, is stored and removed with it, and says of which event it is. So an
 * id is known while its handling waits or is dead, and from its end on for as long as the task is
 * kept. People read both as inbox_events.
 */
#ifndef PAWL_STORE_RECEIPTS_H
#define PAWL_STORE_RECEIPTS_H

#include "store/table.h"

struct store_receipt {
    struct table_row row; /* first */
    struct slice source;  /* with the id: of one event there is one */
    struct slice
        event_id; /* as its sender has it; of a long one its hash (core/template/template.h) */
    struct slice payload_hash; /* of what counts of its body, by the recipe */
    struct slice recipe;       /* core/request/payload.h */
    int64_t received_at;
};

extern const struct table receipt_table;

#endif
