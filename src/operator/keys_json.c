/* SPDX-License-Identifier: Apache-2.0 */
/* Records for programs: one JSON object; what does not apply is null. */
#include "base/json/json.h"
#include "core/retry/probe_due.h"
#include "operator/keys.h"

#define CAUSE_MAX ((size_t)64)

const char *keys_lease_name(const struct keys_view *view)
{
    if (view->record->status != RECORD_PENDING && !view->record->provisional)
        return NULL;
    static const char *const names[] = {"released", "live", "lapsed"};
    return names[view->lease];
}

int64_t keys_probe_due(const struct keys_view *view)
{
    const struct record *record = view->record;
    bool probes = record->unknown == RECORD_UNKNOWN_PROBE && view->lease != RECORD_LEASE_LIVE;
    return probes && record_in_doubt(record, view->lease) ? probe_due(record) : 0;
}

static void add_digest_json(struct buf *buf, const char *name, const struct digest *digest)
{
    char hex[DIGEST_HEX_SIZE + 1];
    hex_encode(digest->bytes, DIGEST_SIZE, hex);
    json_add_known_text(buf, name, digest_is_none(digest) ? slice_of(NULL) : slice_of(hex));
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

/* Which request claimed it last, and why its outcome is in doubt. */
static void add_origin_json(struct buf *buf, const struct keys_view *view)
{
    BUF_AUTO struct buf cause = buf_make(CAUSE_MAX);
    struct origin origin;
    record_cause_write(view->record->cause, &cause);
    json_add_known_text(buf, "cause", buf_slice(&cause));
    if (!keys_origin(view, &origin)) {
        json_add_null(buf, "origin");
        return;
    }
    json_open(buf, "origin", '{');
    json_add_known_text(buf, "method", origin.method);
    json_add_known_text(buf, "path", origin.path);
    json_add_known_text(buf, "client", origin.client);
    json_add_known_text(buf, "correlation_id", origin.correlation_id);
    json_add_known_text(buf, "trace_id", origin.trace_id);
    json_add_known_text(buf, "body", origin.body);
    buf_add_char(buf, '}');
}

static void add_record_json(struct buf *buf, const struct keys_view *view)
{
    const struct record *record = view->record;
    bool live = view->lease == RECORD_LEASE_LIVE;
    json_add_i64(buf, "id", view->row->id);
    json_add_text(buf, "key", view->row->key);
    json_add_text(buf, "tenant", view->row->tenant);
    char hash[LOG_KEYED_SIZE];
    json_add_known_text(buf, "tenant_hash", keys_tenant_hash(view, hash));
    json_add_text(buf, "rule", view->row->rule);
    json_add_known_text(buf, "once", view->row->once);
    json_add_known_text(buf, "status", slice_of(record_status_name(record->status)));
    json_add_known_text(buf, "lease", slice_of(keys_lease_name(view)));
    json_add_i64(buf, "lease_left_ms",
                 live ? clock_left(view->now, record->lease_until) / CLOCK_US_PER_MS : 0);
    json_add_bool(buf, "in_doubt", record_in_doubt(record, view->lease));
    json_add_bool(buf, "provisional", record->provisional);
    json_add_i64(buf, "token", record->token);
    json_add_i64(buf, "attempts", record->attempts);
    json_add_time(buf, "created_at", record->created_at);
    json_add_time(buf, "started_at", record->started_at);
    json_add_time(buf, "completed_at", record->completed_at);
    json_add_time(buf, "expires_at", record->provisional ? 0 : record->expires_at);
    json_add_time(buf, "quiet_at", record_is_final(record->status) ? 0 : record->quiet_at);
    json_add_time(buf, "probe_due_at", keys_probe_due(view));
    add_digest_json(buf, "payload_hash", &record->payload_hash);
    json_add_known_i64(buf, "http_code", record_is_final(record->status) ? record->http_status : 0);
    json_add_known_text(buf, "result_ref", view->row->location);
    add_origin_json(buf, view);
}

static void add_outcome(struct buf *buf, const struct outcome *outcome)
{
    if (!outcome) {
        json_add_null(buf, "outcome");
        return;
    }
    json_open(buf, "outcome", '{');
    json_add_i64(buf, "status", outcome->status);
    json_add_fields(buf, "headers", outcome->fields);
    json_add_i64(buf, "body_bytes", (int64_t)outcome->body.len);
    buf_add_char(buf, '}');
}

static void add_rest(struct buf *buf, const struct keys_view *view)
{
    const struct record *record = view->record;
    bool ended = record_is_final(record->status);
    int64_t quiet_us = ended ? 0 : clock_left(view->now, record->quiet_at);
    add_digest_json(buf, "target_hash", &record->target_hash);
    json_add_text(buf, "recipe", view->row->recipe);
    /* Rows of known outcomes do not hold their policy any more. */
    json_add_known_text(buf, "unknown",
                        slice_of(ended ? NULL : record_unknown_name(record->unknown)));
    json_add_i64(buf, "settle_ms", record->settle_us / CLOCK_US_PER_MS);
    json_add_i64(buf, "quiet_in_ms", quiet_us / CLOCK_US_PER_MS);
    json_add_bool(buf, "probing", record->probing);
    json_add_bool(buf, "kept", record->kept);
    json_add_time(buf, "gone_at", record->gone_at);
    json_add_time(buf, "once_until", record->once_until);
    add_outcome(buf, view->outcome);
}

void keys_add_json(struct buf *buf, const struct keys_view *view, bool whole)
{
    buf_add_char(buf, '{');
    add_record_json(buf, view);
    if (whole)
        add_rest(buf, view);
    buf_add_char(buf, '}');
}

void keys_add_act_json(struct buf *buf, const struct keys_act *act, const struct digest_key *key)
{
    struct store_row row = act->row->store;
    bool absent = act->record.status == RECORD_ABSENT;
    struct keys_view view = {.row = &row,
                             .record = absent ? &row.record : &act->record,
                             .lease = absent ? act->row->lease : act->lease,
                             .now = act->now,
                             .digest_key = key};
    if (act->changed && act->outcome)
        row.location = act->outcome->location;
    buf_add_char(buf, '{');
    add_record_json(buf, &view);
    json_add_text(buf, "act", slice_of(keys_act_name(act)));
    json_add_text(buf, "result", slice_of(keys_end_name(act->end)));
    json_add_bool(buf, "changed", act->changed);
    json_add_text(buf, "message", buf_slice(&act->what));
    buf_add_char(buf, '}');
}
