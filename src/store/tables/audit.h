/* SPDX-License-Identifier: Apache-2.0 */
/* audit: what operators did to records by hand, and where a hold ended, each act written in the
 * transaction that did it. What changed nothing is not among them. */
#ifndef PAWL_STORE_AUDIT_H
#define PAWL_STORE_AUDIT_H

#include "core/record.h"
#include "store/table.h"

#define STORE_ACTOR_MAX 256 /* bytes of an actor's name; the rest is cut off */
#define STORE_AUDIT_KEEP_US (400 * INT64_C(86400) * CLOCK_US_PER_S) /* then an act is swept */

/* The store keeps these numbers. */
enum store_act {
    STORE_ACT_ODD = 0, /* of a row that no pawl wrote */
    STORE_ACT_RESOLVE = 1,
    STORE_ACT_RELEASE = 2,
    STORE_ACT_FORGET = 3,
    STORE_ACT_HOLD = 4, /* its hold ended (`unknown: {hold: 10m}`) */
};

/* The actor of an end of a hold: no person. */
#define STORE_ACTOR_RULE SLICE("rule")

/* As commands and programs call it: "resolve". */
const char *store_act_name(enum store_act act);

struct store_audit {
    struct table_row row; /* first */
    int64_t at;           /* store time */
    struct slice actor;
    enum store_act act;
    struct slice tenant;
    struct slice rule;
    struct slice key;
    int64_t token; /* the record's, before the act */
    enum record_status from;
    enum record_status to;   /* RECORD_PENDING: released; RECORD_ABSENT: forgotten */
    int http_status;         /* resolve; else 0 */
    bool force;              /* `force` was given, needed or not */
    struct slice attempt_id; /* which call did it; empty: from before format 5 */
};

#define STORE_REASON_MAX 1024 /* bytes of a reason; the rest is cut off */

/* Why an act was done, where its operator said it: written beside the act. */
struct store_reason {
    struct table_row row; /* first */
    int64_t at;
    int64_t act; /* the id of its struct store_audit; ascending */
    struct slice text;
};

/* Their rows are struct store_audit and struct store_reason. */
extern const struct table audit_table, reason_table;

#endif
