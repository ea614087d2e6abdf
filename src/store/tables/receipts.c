/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/receipts.h"

#include "store/tables/tasks.h"

#define RECEIPT(kind, role, field) TABLE_COLUMN(struct store_receipt, kind, role, field, #field)

static const struct table_column receipt_columns[] = {
    RECEIPT(TEXT, KEY, source),          RECEIPT(TEXT, KEY, event_id),
    RECEIPT(BYTES, PLAIN, payload_hash), RECEIPT(TEXT, PLAIN, recipe),
    RECEIPT(INT, PLAIN, received_at),
};

/* By enum task_state: done, dead, dropped. */
#define RESULT "CASE t.state WHEN 2 THEN 'ok' WHEN 3 THEN 'dead' WHEN 4 THEN 'dropped' END"
_Static_assert(TASK_DONE == 2 && TASK_DEAD == 3 && TASK_DROPPED == 4, "as the views say");

const struct table receipt_table = {
    .name = "pawl_receipt",
    .columns = receipt_columns,
    .n_columns = sizeof receipt_columns / sizeof *receipt_columns,
    .parent = &task_table,
    .row_size = sizeof(struct store_receipt),
    .sqlite_view = "CREATE VIEW IF NOT EXISTS inbox_events AS"
                   " SELECT r.event_id, r.source, lower(hex(r.payload_hash)) AS payload_hash,"
                   "  strftime('%Y-%m-%dT%H:%M:%f', r.received_at / 1e6, 'unixepoch') || 'Z'"
                   "   AS received_at,"
                   "  CASE WHEN t.ended_at > 0 THEN strftime('%Y-%m-%dT%H:%M:%f', t.ended_at / 1e6,"
                   "   'unixepoch') || 'Z' END AS processed_at, " RESULT " AS result"
                   " FROM pawl_receipt r JOIN pawl_task t USING (id);",
    .postgres_view =
        "CREATE OR REPLACE VIEW pawl.inbox_events AS"
        " SELECT i.event_id, i.source, encode(i.payload_hash, 'hex') AS payload_hash,"
        " to_timestamp(i.received_at / 1e6) AS received_at,"
        " to_timestamp(i.processed_at / 1e6) AS processed_at, i.result FROM pawl.inbox i"
        " UNION ALL SELECT encode(r.event_id, 'escape'), encode(r.source, 'escape'),"
        " encode(r.payload_hash, 'hex'), to_timestamp(r.received_at / 1e6),"
        " to_timestamp(nullif(t.ended_at, 0) / 1e6), " RESULT
        " FROM pawl.receipt r JOIN pawl.task t USING (id);\n",
};
