/* SPDX-License-Identifier: Apache-2.0 */
/* Who did what to records by hand. */
#include "base/json.h"
#include "operator/keys.h"

#define PAGE_BYTES ((size_t)16 * 1024 * 1024)

static void start_page(void *argument)
{
    ((struct keys_audit *)argument)->n = 0;
}

/* Runs on the committer's thread inside its transaction, so it only copies. */
static void copy_act(void *argument, const struct table_row *row)
{
    struct keys_audit *page = argument;
    const struct store_audit *audit = (const struct store_audit *)row;
    page->reasons[page->n] = (struct slice){0};
    struct store_audit *copy = &page->at[page->n++];
    *copy = *audit;
    copy->actor = arena_copy(&page->arena, audit->actor);
    copy->attempt_id = (struct slice){0};
    copy->tenant = arena_copy(&page->arena, audit->tenant);
    copy->rule = arena_copy(&page->arena, audit->rule);
    copy->key = arena_copy(&page->arena, audit->key);
}

/* ---- reasons ---- */

/* A page of them. */
struct reading {
    const struct keys_reasons *wanted;
    int64_t last; /* id of the last row */
    int64_t act;  /* that it is about */
    size_t n;
};

static void start_reasons(void *argument)
{
    ((struct reading *)argument)->n = 0;
}

static void show_reason(void *argument, const struct table_row *row)
{
    struct reading *reading = argument;
    const struct store_reason *reason = (const struct store_reason *)row;
    reading->n++;
    reading->last = row->id;
    reading->act = reason->act;
    reading->wanted->each(reading->wanted->argument, reason);
}

/* A reason is written right behind its act, so that it has a higher id, and they ascend together.
 */
enum store_status keys_find_reasons(struct store *store, const struct keys_reasons *wanted,
                                    struct parker *parker)
{
    struct reading reading = {.wanted = wanted, .last = wanted->first};
    enum store_status status;
    do {
        struct table_query query = {.table = &reason_table,
                                    .after = reading.last,
                                    .limit = KEYS_AUDIT_PAGE,
                                    .restart = start_reasons,
                                    .each = show_reason,
                                    .argument = &reading};
        reading.n = 0;
        status = keys_query(store, &query, parker);
    } while (status == STORE_DONE && reading.n == KEYS_AUDIT_PAGE && reading.act < wanted->last);
    return status;
}

/* Of the act that it is about, if that is on the page. */
static void copy_reason(void *argument, const struct store_reason *reason)
{
    struct keys_audit *page = argument;
    for (size_t i = 0; i < page->n; i++)
        if (page->at[i].row.id == reason->act)
            page->reasons[i] = arena_copy(&page->arena, reason->text);
}

static enum store_status read_reasons(struct store *store, struct keys_audit *page,
                                      struct parker *parker)
{
    if (page->n == 0)
        return STORE_DONE;
    const struct keys_reasons wanted = {page->at[0].row.id, page->at[page->n - 1].row.id,
                                        copy_reason, page};
    return keys_find_reasons(store, &wanted, parker);
}

enum store_status keys_audit_next(struct store *store, struct keys_audit *page,
                                  struct parker *parker)
{
    arena_fini(&page->arena);
    page->arena = arena_make(PAGE_BYTES);
    struct table_query query = {.table = &audit_table,
                                .after = page->last,
                                .limit = KEYS_AUDIT_PAGE,
                                .restart = start_page,
                                .each = copy_act,
                                .argument = page};
    page->n = 0;
    enum store_status status = keys_query(store, &query, parker);
    if (status == STORE_DONE)
        status = read_reasons(store, page, parker);
    if (page->n > 0)
        page->last = page->at[page->n - 1].row.id;
    return status == STORE_DONE && page->arena.failed ? STORE_NO_MEMORY : status;
}

void keys_audit_fini(struct keys_audit *page)
{
    arena_fini(&page->arena);
}

const char *keys_audit_result(const struct store_audit *audit)
{
    if (audit->to == RECORD_PENDING)
        return "released";
    return record_status_name(audit->to);
}

void keys_audit_add_json(struct buf *buf, const struct store_audit *audit, struct slice reason)
{
    buf_add_char(buf, '{');
    json_add_i64(buf, "id", audit->row.id);
    json_add_time(buf, "at", audit->at);
    json_add_text(buf, "actor", audit->actor);
    json_add_text(buf, "act", slice_of(store_act_name(audit->act)));
    json_add_text(buf, "key", audit->key);
    json_add_text(buf, "tenant", audit->tenant);
    json_add_text(buf, "rule", audit->rule);
    json_add_i64(buf, "token", audit->token);
    json_add_text(buf, "from", slice_of(record_status_name(audit->from)));
    json_add_text(buf, "to", slice_of(keys_audit_result(audit)));
    json_add_known_i64(buf, "http_code", audit->http_status);
    json_add_bool(buf, "forced", audit->force);
    json_add_known_text(buf, "reason", reason);
    buf_add_char(buf, '}');
}
