/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/audit.h"

#include "base/check.h"
#include "base/json/json.h"

#define PAGE_BYTES ((size_t)16 * 1024 * 1024)
#define REASONS ((size_t)256) /* read at once */

void audit_page_fini(struct audit_page *page)
{
    arena_fini(&page->arena);
}

/* Keeps it, if the act that it is about is on the page. */
static void keep_reason(struct audit_page *page, const struct store_reason *reason)
{
    for (size_t i = 0; i < page->acts.n; i++)
        if (page->acts.rows[i]->id == reason->act)
            page->reasons[i] = arena_copy(&page->arena, reason->text);
}

/* A reason is written right behind its act, so that it has a higher id, and they ascend together.
 * There are those of other acts among them, any number. */
static enum store_status read_reasons(struct store *store, struct parker *parker,
                                      struct audit_page *page)
{
    CHECK(page->acts.n > 0);
    int64_t after = page->acts.rows[0]->id, act = 0;
    struct store_found found;
    enum store_status status;
    do {
        ARENA_AUTO struct arena arena = arena_make(PAGE_BYTES);
        const struct table_query query = {.table = &reason_table, .after = after, .limit = REASONS};
        struct rows rows = {.store = store, .parker = parker, .arena = &arena};
        status = rows_find(&rows, &query, &found);
        for (size_t i = 0; i < found.n && status == STORE_DONE; i++) {
            const struct store_reason *reason = (const struct store_reason *)found.rows[i];
            keep_reason(page, reason);
            after = reason->row.id;
            act = reason->act;
        }
    } while (status == STORE_DONE && found.n == REASONS &&
             act < page->acts.rows[page->acts.n - 1]->id);
    return status;
}

enum store_status audit_read(struct store *store, struct parker *parker, struct audit_page *page)
{
    const struct table_query query = {
        .table = page->table, .after = page->next, .limit = page->limit};
    struct store_found *acts = &page->acts;
    CHECK(page->table && page->limit > 0);
    audit_page_fini(page);
    page->arena = arena_make(PAGE_BYTES);
    struct rows rows = {.store = store, .parker = parker, .arena = &page->arena};
    enum store_status status = rows_find(&rows, &query, acts);
    page->next = 0;
    if (status != STORE_DONE || acts->n == 0)
        return status;
    if (acts->n == page->limit)
        page->next = acts->rows[acts->n - 1]->id;
    page->reasons = arena_alloc(&page->arena, acts->n * sizeof *page->reasons);
    if (!page->reasons)
        return STORE_NO_MEMORY;
    memset(page->reasons, 0, acts->n * sizeof *page->reasons);
    status = read_reasons(store, parker, page);
    return status == STORE_DONE && page->arena.failed ? STORE_NO_MEMORY : status;
}

const char *audit_result(const struct store_audit *act)
{
    return act->to == RECORD_PENDING ? "released" : record_status_name(act->to);
}

void audit_add_json(struct buf *buf, const struct store_audit *act, struct slice reason)
{
    buf_add_char(buf, '{');
    json_add_i64(buf, "id", act->row.id);
    json_add_time(buf, "at", act->at);
    json_add_text(buf, "actor", act->actor);
    json_add_text(buf, "act", slice_of(store_act_name(act->act)));
    json_add_text(buf, "key", act->key);
    json_add_text(buf, "tenant", act->tenant);
    json_add_text(buf, "rule", act->rule);
    json_add_i64(buf, "token", act->token);
    json_add_text(buf, "from", slice_of(record_status_name(act->from)));
    json_add_text(buf, "to", slice_of(audit_result(act)));
    json_add_known_i64(buf, "http_code", act->http_status);
    json_add_bool(buf, "forced", act->force);
    json_add_known_text(buf, "reason", reason);
    buf_add_char(buf, '}');
}
