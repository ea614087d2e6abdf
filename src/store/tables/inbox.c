/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/inbox.h"

#define INBOX(kind, role, field) TABLE_COLUMN(struct store_inbox, kind, role, field, #field)

static const struct table_column inbox_columns[] = {
    INBOX(TEXT, KEY, source),       INBOX(TEXT, KEY, event_id), INBOX(BYTES, PLAIN, payload_hash),
    INBOX(INT, PLAIN, received_at), INBOX(TEXT, PLAIN, result), INBOX(INT, GONE, gone_at),
};

#define TIME "strftime('%Y-%m-%dT%H:%M:%f', received_at / 1e6, 'unixepoch') || 'Z'"

/* Handled in the transaction that received it: it is processed at once. */
const struct table inbox_table = {
    .name = "pawl_inbox",
    .columns = inbox_columns,
    .n_columns = sizeof inbox_columns / sizeof *inbox_columns,
    .row_size = sizeof(struct store_inbox),
    .sqlite_view = "CREATE VIEW IF NOT EXISTS inbox_events AS"
                   " SELECT event_id, source, lower(hex(payload_hash)) AS payload_hash, " TIME
                   " AS received_at, " TIME " AS processed_at, result FROM pawl_inbox;",
};
