/* SPDX-License-Identifier: Apache-2.0 */
/* What operators did to records, in the JSON of `pawl keys audit --json`. */
#include "operator/audit.h"
#include "admin/admin_priv.h"
#include "base/json/json.h"

#define PAGE 32 /* acts copied while the store is held */

/* `after=ID`, or nothing. */
static bool read_query(const struct session *session, int64_t *ret_after, struct reply *reply)
{
    struct slice query = session->http.request->query, name;
    struct slice value = slice_cut(query, '=', &name);
    uint64_t after = 0;
    bool good = query.len == 0 ||
                (slice_eq(name, SLICE("after")) && slice_to_u64(value, INT64_MAX, &after));
    if (!good)
        reply_problem(reply, 400, "the query is not understood: expected after=ID");
    *ret_after = (int64_t)after;
    return good;
}

static void write_page(const struct audit_page *page, struct reply *reply)
{
    reply->type = "application/json";
    buf_add_str(&reply->body, "{\"acts\":[");
    for (size_t i = 0; i < page->acts.n; i++) {
        json_next_item(&reply->body);
        audit_add_json(&reply->body, (const struct store_audit *)page->acts.rows[i],
                       page->reasons[i]);
    }
    buf_add_char(&reply->body, ']');
    json_add_known_i64(&reply->body, "next", page->next);
    buf_add_str(&reply->body, "}\n");
}

void audit_reply(struct session *session, struct reply *reply)
{
    AUDIT_PAGE_AUTO struct audit_page page = {.table = &audit_table, .limit = PAGE};
    if (!read_query(session, &page.next, reply) || !session_enter_store(session, reply))
        return;
    enum store_status status = audit_read(session->admin->config.store, fiber_parker(), &page);
    if (session_leave_store(session, status, reply))
        write_page(&page, reply);
}
