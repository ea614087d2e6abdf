/* SPDX-License-Identifier: Apache-2.0 */
/* Records, in the JSON of `pawl keys --json`. */
#include "operator/keys.h"
#include "admin/admin_priv.h"
#include "base/check.h"
#include "base/json/json.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MOST 1000

/* ---- what is wanted ---- */

/* NULL: taken; else what was expected. */
static const char *take_keys_pair(void *to, struct slice name, struct slice value)
{
    struct keys_wanted *wanted = to;
    struct slice *const texts[] = {&wanted->tenant, &wanted->rule, &wanted->key, &wanted->once};
    ptrdiff_t text = slice_item(SLICE("tenant|rule|key|once"), '|', name);
    uint64_t number = 0;
    if (text >= 0) {
        *texts[text] = value;
    } else if (slice_eq(name, SLICE("status"))) {
        ptrdiff_t status = slice_item(SLICE(KEYS_STATUS_NAMES), '|', value);
        wanted->status = (enum keys_status)(KEYS_PENDING + status);
        return status >= 0 ? NULL : "pending, released, complete, failed or unknown";
    } else if (slice_eq(name, SLICE("lapsed"))) {
        wanted->lapsed = slice_eq(value, SLICE("true"));
        return wanted->lapsed || slice_eq(value, SLICE("false")) ? NULL : "true or false";
    } else if (slice_eq(name, SLICE("limit"))) {
        if (!slice_to_u64(value, LIMIT_MOST, &number) || number == 0)
            return "1 to 1000";
        wanted->limit = (size_t)number;
    } else if (slice_eq(name, SLICE("after"))) {
        if (!slice_to_u64(value, KEYS_TOKEN_MOST, &number))
            return "a row id";
        wanted->after = (int64_t)number;
    } else {
        return "tenant, rule, key, once, status, lapsed, limit or after";
    }
    return NULL;
}

/* ---- replies ---- */

static void write_list(struct session *session, const struct keys_found *found, struct reply *reply)
{
    int64_t now = store_now(session->admin->config.store);
    const struct digest_key *key = store_digest_key(session->admin->config.store);
    reply->type = "application/json";
    buf_add_str(&reply->body, "{\"keys\":[");
    for (const struct keys_row *row = found->first; row; row = row->next) {
        struct keys_view view = {&row->store, &row->store.record, row->lease, now, NULL, key};
        json_next_item(&reply->body);
        keys_add_json(&reply->body, &view, false);
    }
    buf_add_char(&reply->body, ']');
    json_add_known_i64(&reply->body, "next", found->next);
    buf_add_str(&reply->body, "}\n");
}

void keys_reply_list(struct session *session, struct reply *reply)
{
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_wanted wanted = {.limit = LIMIT_DEFAULT, .scans = KEYS_SCANS_MOST};
    if (!session_read_query(session, take_keys_pair, &wanted, reply) ||
        !session_enter_store(session, reply))
        return;
    enum store_status status =
        keys_list(session->admin->config.store, &wanted, fiber_parker(), &found);
    if (session_leave_store(session, status, reply))
        write_list(session, &found, reply);
}

bool keys_find_row(struct session *session, struct keys_found *ret_found, struct keys_row **ret_row,
                   struct reply *reply)
{
    int64_t id = session->place.id;
    struct keys_wanted wanted = {.after = id - 1, .limit = 1, .scans = 1};
    CHECK(id > 0);
    if (!session_enter_store(session, reply))
        return false;
    enum store_status status =
        keys_list(session->admin->config.store, &wanted, fiber_parker(), ret_found);
    if (!session_leave_store(session, status, reply))
        return false;
    *ret_row = ret_found->first;
    if (*ret_row && (*ret_row)->store.id == id)
        return true;
    reply_problem(reply, 404, "there is no record %lld", (long long)id);
    return false;
}

void keys_reply_one(struct session *session, struct reply *reply)
{
    KEYS_FOUND_AUTO struct keys_found found = {0};
    struct keys_row *row;
    if (!keys_find_row(session, &found, &row, reply))
        return;
    struct keys_view view = {0};
    enum store_status status = keys_look(session->admin->config.store, row, fiber_parker(), &view);
    if (reply_store_failure(reply, status))
        return;
    if (view.record->status == RECORD_ABSENT) {
        reply_problem(reply, 404, "the record has just expired or been deleted");
    } else {
        reply->type = "application/json";
        keys_add_json(&reply->body, &view, true);
        buf_add_char(&reply->body, '\n');
    }
    outcome_unref(view.outcome);
}
