/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox: the events that an application handles in its own transactions, as rows (store/table.h).
 * Those that a gateway receives are store/tables/receipts.h; people read either as inbox_events.
 */
#ifndef PAWL_STORE_INBOX_H
#define PAWL_STORE_INBOX_H

#include "store/table.h"

struct store_inbox {
    struct table_row row; /* first */
    struct slice source;
    struct slice event_id;
    struct slice payload_hash; /* empty: none was brought */
    int64_t received_at;
    struct slice result;
    int64_t gone_at; /* from then on the id is new; CLOCK_NEVER: never */
};

extern const struct table inbox_table;

#endif
