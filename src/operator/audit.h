/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit: what operators did by hand, to records (store/tables/audit.h) or to tasks, lanes and
 * endpoints (store/tables/task_audit.h), with the reasons that they gave, page by page.
 */
#ifndef PAWL_OPERATOR_AUDIT_H
#define PAWL_OPERATOR_AUDIT_H

#include "store/rows.h"
#include "store/tables/audit.h"

#define AUDIT_PAGE_MOST ((size_t)256)

/* Acts, oldest first. */
struct audit_page {
    const struct table *table; /* audit_table or task_audit_table, whose rows they are */
    size_t limit;
    int64_t next;       /* those behind this id; 0: from the start on, or the end was reached */
    struct arena arena; /* of both: */
    struct store_found acts;
    struct slice *reasons; /* one for each act; empty: nobody said why */
};
#define AUDIT_PAGE_AUTO __attribute__((cleanup(audit_page_fini)))

/* Accepts what is all zero but for the first three. */
void audit_page_fini(struct audit_page *page);

/* Reads the page from `next` on, in place of what was there, and moves `next`. */
enum store_status audit_read(struct store *store, struct parker *parker, struct audit_page *page);

/* What an operator calls the record's state behind an act: pending without a lease is released. */
const char *audit_result(const struct store_audit *act);

/* Appends one JSON object: an act on a record. */
void audit_add_json(struct buf *buf, const struct store_audit *act, struct slice reason);

#endif
