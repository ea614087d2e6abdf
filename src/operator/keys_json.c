/* SPDX-License-Identifier: Apache-2.0 */
/* Records for programs: one JSON object; what does not apply is null. */
#include "base/json.h"
#include "base/timestamp.h"
#include "operator/keys.h"

#define CAUSE_MAX ((size_t)64)

const char *keys_policy_name(enum record_unknown policy)
{
    static const char *const names[] = {"hold", "retry", "probe", "participant"};
    return names[policy];
}

const char *keys_lease_name(const struct keys_view *view)
{
    if (view->record->status != RECORD_PENDING && !view->record->provisional)
        return NULL;
    static const char *const names[] = {"released", "live", "lapsed"};
    return names[view->lease];
}

int64_t keys_left(int64_t now, int64_t then)
{
    return then > now ? then - now : 0;
}

int64_t keys_seconds_left(int64_t now, int64_t then)
{
    int64_t left = keys_left(now, then);
    return left / CLOCK_US_PER_S + (left % CLOCK_US_PER_S > 0);
}

/* An absent text (NULL) is null. */
static void add_word(struct buf *buf, const char *name, const char *word)
{
    json_add_name(buf, name);
    if (word)
        json_add_string(buf, slice_of(word));
    else
        buf_add_str(buf, "null");
}

/* A moment that never came or never comes (`forever`) is null. */
static void add_time(struct buf *buf, const char *name, int64_t us)
{
    BUF_AUTO struct buf text = buf_make(TIMESTAMP_LEN);
    bool known = us != 0 && us != CLOCK_NEVER && timestamp_print(&text, us);
    json_add_name(buf, name);
    if (known)
        json_add_string(buf, buf_slice(&text));
    else
        buf_add_str(buf, "null");
}

static void add_digest(struct buf *buf, const char *name, const struct digest *digest)
{
    char hex[DIGEST_HEX_SIZE + 1];
    hex_encode(digest->bytes, DIGEST_SIZE, hex);
    add_word(buf, name, hex);
}

/* A text that may be empty: then it is null. */
static void add_known(struct buf *buf, const char *name, struct slice text)
{
    json_add_name(buf, name);
    if (text.len > 0)
        json_add_string(buf, text);
    else
        buf_add_str(buf, "null");
}

bool keys_origin(const struct keys_view *view, struct origin *ret_origin)
{
    return !record_is_final(view->record->status) && origin_read(view->row->origin, ret_origin);
}

struct slice keys_tenant_hash(const struct keys_view *view, char ret_hex[LOG_KEYED_SIZE])
{
    if (view->row->tenant.len == 0)
        return slice_of(NULL);
    log_keyed_hex("tenant_hash", view->digest_key, view->row->tenant, ret_hex);
    return slice_of(ret_hex);
}

/* Which request claimed it last, and why nobody knows what that did. */
static void add_origin(struct buf *buf, const struct keys_view *view)
{
    BUF_AUTO struct buf cause = buf_make(CAUSE_MAX);
    struct origin origin;
    record_cause_write(view->record->cause, &cause);
    add_known(buf, "cause", buf_slice(&cause));
    json_add_name(buf, "origin");
    if (!keys_origin(view, &origin)) {
        buf_add_str(buf, "null");
        return;
    }
    buf_add_char(buf, '{');
    add_known(buf, "method", origin.method);
    add_known(buf, "path", origin.path);
    add_known(buf, "client", origin.client);
    add_known(buf, "correlation_id", origin.correlation_id);
    add_known(buf, "trace_id", origin.trace_id);
    add_known(buf, "body", origin.body);
    buf_add_char(buf, '}');
}

static void add_row(struct buf *buf, const struct keys_view *view)
{
    const struct record *record = view->record;
    bool live = view->lease == RECORD_LEASE_LIVE;
    json_add_i64(buf, "id", view->row->id);
    json_add_text(buf, "key", view->row->key);
    json_add_text(buf, "tenant", view->row->tenant);
    char hash[LOG_KEYED_SIZE];
    add_known(buf, "tenant_hash", keys_tenant_hash(view, hash));
    json_add_text(buf, "rule", view->row->rule);
    json_add_name(buf, "once");
    if (view->row->once.len > 0)
        json_add_string(buf, view->row->once);
    else
        buf_add_str(buf, "null");
    add_word(buf, "status", record_status_name(record->status));
    add_word(buf, "lease", keys_lease_name(view));
    json_add_i64(buf, "lease_left_ms",
                 live ? keys_left(view->now, record->lease_until) / CLOCK_US_PER_MS : 0);
    json_add_bool(buf, "in_doubt", record_in_doubt(record, view->lease));
    json_add_i64(buf, "token", record->token);
    json_add_i64(buf, "attempts", record->attempts);
    add_time(buf, "created_at", record->created_at);
    add_time(buf, "started_at", record->started_at);
    add_time(buf, "completed_at", record->completed_at);
    add_time(buf, "expires_at", record->expires_at);
    add_time(buf, "quiet_at", record_is_final(record->status) ? 0 : record->quiet_at);
    add_digest(buf, "payload_hash", &record->payload_hash);
    json_add_name(buf, "http_code");
    if (record_is_final(record->status))
        buf_add_i64(buf, record->http_status);
    else
        buf_add_str(buf, "null");
    add_known(buf, "result_ref", view->row->location);
    add_origin(buf, view);
}

/* The answer's header lines, as [name, value] pairs in their order. */
static void add_headers(struct buf *buf, struct slice fields)
{
    json_add_name(buf, "headers");
    buf_add_char(buf, '[');
    const char *separator = "[";
    while (fields.len > 0) {
        struct slice line, name;
        fields = slice_cut(fields, '\n', &line);
        struct slice value = slice_cut(line, ':', &name);
        if (value.len > 0 && value.at[value.len - 1] == '\r')
            value.len--;
        buf_add_str(buf, separator);
        json_add_string(buf, name);
        buf_add_char(buf, ',');
        json_add_string(buf, slice_trim(value));
        buf_add_char(buf, ']');
        separator = ",[";
    }
    buf_add_char(buf, ']');
}

static void add_outcome(struct buf *buf, const struct outcome *outcome)
{
    json_add_name(buf, "outcome");
    if (!outcome) {
        buf_add_str(buf, "null");
        return;
    }
    buf_add_char(buf, '{');
    json_add_i64(buf, "status", outcome->status);
    add_headers(buf, outcome->fields);
    json_add_i64(buf, "body_bytes", (int64_t)outcome->body.len);
    buf_add_char(buf, '}');
}

static void add_rest(struct buf *buf, const struct keys_view *view)
{
    const struct record *record = view->record;
    add_digest(buf, "target_hash", &record->target_hash);
    json_add_text(buf, "recipe", view->row->recipe);
    /* Rows of known outcomes do not hold their policy any more. */
    add_word(buf, "unknown",
             record_is_final(record->status) ? NULL : keys_policy_name(record->unknown));
    json_add_i64(buf, "settle_ms", record->settle_us / CLOCK_US_PER_MS);
    json_add_i64(buf, "quiet_in_ms",
                 record_is_final(record->status)
                     ? 0
                     : keys_left(view->now, record->quiet_at) / CLOCK_US_PER_MS);
    json_add_bool(buf, "probing", record->probing);
    json_add_bool(buf, "kept", record->kept);
    add_time(buf, "gone_at", record->gone_at);
    add_time(buf, "once_until", record->once_until);
    add_outcome(buf, view->outcome);
}

void keys_add_json(struct buf *buf, const struct keys_view *view, bool whole)
{
    buf_add_char(buf, '{');
    add_row(buf, view);
    if (whole)
        add_rest(buf, view);
    buf_add_char(buf, '}');
}

void keys_add_act_json(struct buf *buf, const struct keys_act *act, const struct digest_key *key)
{
    struct store_row row = act->row->store;
    bool gone = act->record.status == RECORD_ABSENT;
    struct keys_view view = {.row = &row,
                             .record = gone ? &row.record : &act->record,
                             .lease = gone ? act->row->lease : act->lease,
                             .now = act->now,
                             .digest_key = key};
    if (act->changed && act->outcome)
        row.location = act->outcome->location;
    buf_add_char(buf, '{');
    add_row(buf, &view);
    json_add_text(buf, "act", slice_of(keys_act_name(act)));
    json_add_text(buf, "result", slice_of(keys_end_name(act->end)));
    json_add_bool(buf, "changed", act->changed);
    json_add_text(buf, "message", buf_slice(&act->what));
    buf_add_char(buf, '}');
}
