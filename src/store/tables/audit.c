/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables/audit.h"

#include "base/check.h"

#define COLUMN(kind, role, field, name) TABLE_COLUMN(struct store_audit, kind, role, field, name)

static const struct table_column columns[] = {
    COLUMN(INT, GONE, at, "at"),         COLUMN(TEXT, PLAIN, actor, "actor"),
    COLUMN(INT, PLAIN, act, "act"),      COLUMN(TEXT, PLAIN, tenant, "tenant"),
    COLUMN(TEXT, PLAIN, rule, "rule"),   COLUMN(TEXT, PLAIN, key, "key"),
    COLUMN(INT, PLAIN, token, "token"),  COLUMN(INT, PLAIN, from, "from_status"),
    COLUMN(INT, PLAIN, to, "to_status"), COLUMN(INT, PLAIN, http_status, "http_code"),
    COLUMN(INT, PLAIN, force, "forced"), COLUMN(BYTES, PLAIN, attempt_id, "attempt_id"),
};

static const struct table_relation relations[] = {
    TABLE_GROWS(2, STORE_ACT_RESOLVE, STORE_ACT_HOLD),
    TABLE_GROWS(7, RECORD_ABSENT, RECORD_UNKNOWN),
    TABLE_GROWS(8, RECORD_ABSENT, RECORD_UNKNOWN),
};

static void hold(void *row)
{
    struct store_audit *audit = row;
    if (audit->act < STORE_ACT_RESOLVE || audit->act > STORE_ACT_HOLD)
        audit->act = STORE_ACT_ODD;
    if ((unsigned)audit->from > RECORD_UNKNOWN)
        audit->from = RECORD_ABSENT;
    if ((unsigned)audit->to > RECORD_UNKNOWN)
        audit->to = RECORD_ABSENT;
}

const struct table audit_table = {
    .name = "pawl_audit",
    .columns = columns,
    .n_columns = sizeof columns / sizeof *columns,
    .row_size = sizeof(struct store_audit),
    .keep_us = STORE_AUDIT_KEEP_US,
    .is_log = true,
    .relations = relations,
    .n_relations = sizeof relations / sizeof *relations,
    .hold = hold,
};

#undef COLUMN
#define COLUMN(kind, role, field, name) TABLE_COLUMN(struct store_reason, kind, role, field, name)

static const struct table_column reason_columns[] = {COLUMN(INT, GONE, at, "at"),
                                                     COLUMN(INT, LINK, act, "act"),
                                                     COLUMN(TEXT, PLAIN, text, "reason")};

const struct table reason_table = {
    .name = "pawl_reason",
    .columns = reason_columns,
    .n_columns = sizeof reason_columns / sizeof *reason_columns,
    .row_size = sizeof(struct store_reason),
    .keep_us = STORE_AUDIT_KEEP_US,
    .is_log = true,
};

const char *store_act_name(enum store_act act)
{
    static const char *const names[] = {[STORE_ACT_ODD] = "odd_row",
                                        [STORE_ACT_RESOLVE] = "resolve",
                                        [STORE_ACT_RELEASE] = "release",
                                        [STORE_ACT_FORGET] = "forget",
                                        [STORE_ACT_HOLD] = "hold"};
    CHECK(act >= STORE_ACT_ODD && act <= STORE_ACT_HOLD);
    return names[act];
}
