/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/policy.h"
#include "base/json/json.h"
#include "base/time/duration.h"

/* ---- values ---- */

static void add_policy_list(struct buf *buf, const char *name, const struct slice *items, size_t n)
{
    json_open(buf, name, '[');
    for (size_t i = 0; i < n; i++) {
        json_next_item(buf);
        json_add_string(buf, items[i]);
    }
    buf_add_char(buf, ']');
}

static void add_policy_span(struct buf *buf, const char *name, int64_t us)
{
    json_add_name(buf, name);
    buf_add_char(buf, '"');
    duration_print(buf, us);
    buf_add_char(buf, '"');
}

static void add_policy_template(struct buf *buf, const char *name, const struct template *template)
{
    BUF_AUTO struct buf text = buf_make(buf->max);
    template_write(template, &text);
    json_add_text(buf, name, buf_slice(&text));
    if (!buf_ok(&text))
        buf->failed = true;
}

/* ---- one rule ---- */

static void add_policy_key(struct buf *buf, const struct rule *rule)
{
    static const char *const formats[] = {[KEY_FORMAT_ANY] = "any",
                                          [KEY_FORMAT_UUID] = "uuid",
                                          [KEY_FORMAT_UUID4] = "uuid4",
                                          [KEY_FORMAT_UUID7] = "uuid7",
                                          [KEY_FORMAT_REGEX] = "regex"};
    json_open(buf, "key", '{');
    add_policy_template(buf, "template", &rule->key);
    json_add_bool(buf, "required", rule->require);
    json_add_text(buf, "syntax",
                  slice_of(rule->key_syntax == KEY_SYNTAX_STRICT ? "strict" : "lenient"));
    json_add_text(buf, "format", slice_of(formats[rule->key_format_kind]));
    if (rule->key_format_kind == KEY_FORMAT_REGEX)
        json_add_text(buf, "pattern", rule->key_pattern);
    if (rule->key_max_age_us > 0)
        add_policy_span(buf, "max_age", rule->key_max_age_us);
    buf_add_char(buf, '}');
}

/* Keys of two tenants never meet; where there is no tenant, everybody's do. */
static void add_tenant(struct buf *buf, const struct rule *rule)
{
    if (rule->tenant_none) {
        json_add_null(buf, "tenant");
        return;
    }
    json_open(buf, "tenant", '{');
    add_policy_template(buf, "template", &rule->tenant);
    json_add_bool(buf, "credential", rule_hides_tenant(rule));
    json_add_bool(buf, "authorized", rule->authorizes);
    buf_add_char(buf, '}');
}

static void add_lifetime(struct buf *buf, const struct rule *rule)
{
    int64_t window = template_window_us(&rule->key);
    json_open(buf, "lifetime", '{');
    if (window > 0)
        add_policy_span(buf, "window", window);
    else
        add_policy_span(buf, "ttl", rule->ttl_us);
    add_policy_span(buf, "tombstone", rule->tombstone_us);
    buf_add_char(buf, '}');
}

static void add_compared(struct buf *buf, const struct rule *rule)
{
    const struct payload_selection *payload = &rule->payload;
    const char *mode = payload_mode_name(payload->mode);
    json_open(buf, "compared", '{');
    if (payload->mode == PAYLOAD_INCLUDE || payload->mode == PAYLOAD_EXCLUDE) {
        json_open(buf, "payload", '{');
        add_policy_list(buf, mode, payload->pointers, payload->n_pointers);
        buf_add_char(buf, '}');
    } else {
        json_add_text(buf, "payload", slice_of(mode));
    }
    json_add_text(buf, "body", slice_of(rule->body_json ? "json" : "auto"));
    if (rule->query == RULE_QUERY_NAMES)
        add_policy_list(buf, "query", rule->query_names, rule->n_query_names);
    else
        json_add_text(buf, "query", slice_of(rule->query == RULE_QUERY_ALL ? "all" : "none"));
    add_policy_list(buf, "headers", rule->headers, rule->n_headers);
    buf_add_char(buf, '}');
}

/* The statuses of one sort, neighbours as a range: ["401", "403", "407-408"]. */
static void add_sort(struct buf *buf, const char *name, const struct rule *rule,
                     enum response_sort sort)
{
    json_open(buf, name, '[');
    for (int first = REMEMBER_STATUS_LEAST; first <= REMEMBER_STATUS_MOST; first++) {
        int last = first;
        if (remember_policy_sort(&rule->responses, first) != sort)
            continue;
        while (last < REMEMBER_STATUS_MOST &&
               remember_policy_sort(&rule->responses, last + 1) == sort)
            last++;
        json_next_item(buf);
        if (first == last)
            buf_printf(buf, "\"%d\"", first);
        else
            buf_printf(buf, "\"%d-%d\"", first, last);
        first = last;
    }
    buf_add_char(buf, ']');
}

static void add_kept(struct buf *buf, const struct rule *rule)
{
    json_open(buf, "kept", '{');
    add_sort(buf, "final", rule, SORT_FINAL);
    add_sort(buf, "not_done", rule, SORT_NOT_DONE);
    add_sort(buf, "in_doubt", rule, SORT_IN_DOUBT);
    json_add_bool(buf, "by_body", body_conditions_are_on(&rule->by_body));
    json_add_i64(buf, "max_response_body", (int64_t)rule->max_response_body);
    json_add_bool(buf, "cookies", rule->replay_cookies);
    json_add_bool(buf, "streamed", rule->stream);
    buf_add_char(buf, '}');
}

static void add_in_progress(struct buf *buf, const struct rule *rule)
{
    if (rule->in_progress_wait_us == 0) {
        json_add_text(buf, "in_progress", SLICE("conflict"));
        return;
    }
    json_open(buf, "in_progress", '{');
    add_policy_span(buf, "wait", rule->in_progress_wait_us);
    buf_add_char(buf, '}');
}

static void add_duplicate(struct buf *buf, enum rule_duplicate duplicate, int ack_status)
{
    static const char *const names[] = {
        [RULE_DUPLICATE_REPLAY] = "replay", [RULE_DUPLICATE_REJECT] = "reject"};
    if (duplicate != RULE_DUPLICATE_ACK) {
        json_add_text(buf, "duplicate", slice_of(names[duplicate]));
        return;
    }
    json_open(buf, "duplicate", '{');
    json_add_i64(buf, "ack", ack_status);
    buf_add_char(buf, '}');
}

static void add_once(struct buf *buf, const struct rule_once *once)
{
    if (!once->on)
        return;
    json_open(buf, "once", '{');
    add_policy_template(buf, "template", &once->key);
    add_policy_span(buf, template_window_us(&once->key) > 0 ? "window" : "ttl", once->ttl_us);
    add_duplicate(buf, once->duplicate, once->ack_status);
    json_add_text(buf, "payload", slice_of(once->any_payload ? "ignore" : "same"));
    buf_add_char(buf, '}');
}

static void add_delays(struct buf *buf, const struct retry_schedule *schedule)
{
    json_open(buf, "schedule", '[');
    for (int i = 0; i < schedule->attempts - 1; i++) {
        json_next_item(buf);
        buf_add_char(buf, '"');
        duration_print(buf, schedule->list[i]);
        buf_add_char(buf, '"');
    }
    buf_add_char(buf, ']');
}

/* A profile's name, or where there is more to say what a client has to wait for. */
static void add_retry(struct buf *buf, const struct rule_retry *retry)
{
    struct slice profile = retry->on ? retry_profile_name(retry->profile) : SLICE("none");
    bool cut = retry->on && retry->try_timeout_us != CLOCK_NEVER;
    if (!cut && !retry->own_delays) {
        json_add_text(buf, "retry", profile);
        return;
    }
    json_open(buf, "retry", '{');
    json_add_text(buf, "profile", profile);
    if (cut)
        add_policy_span(buf, "try_timeout", retry->try_timeout_us);
    if (retry->own_delays)
        add_delays(buf, &retry->schedule);
    buf_add_char(buf, '}');
}

static void add_policy(struct buf *buf, const struct rule *rule)
{
    add_policy_key(buf, rule);
    add_tenant(buf, rule);
    add_lifetime(buf, rule);
    add_compared(buf, rule);
    add_kept(buf, rule);
    add_duplicate(buf, rule->duplicate, rule->ack_status);
    add_once(buf, &rule->once);
    json_add_bool(buf, "authorized", rule->authorizes);
    json_add_i64(buf, "mismatch_status", rule->mismatch_status);
    add_in_progress(buf, rule);
    json_add_text(buf, "unknown", slice_of(record_unknown_name(rule->unknown)));
    add_retry(buf, &rule->retry);
    json_add_text(buf, "store_down", slice_of(rule->store_down_pass ? "pass" : "refuse"));
    json_add_i64(buf, "max_request_body", (int64_t)rule->max_request_body);
}

static void add_rule(struct buf *buf, const struct rule *rule)
{
    BUF_AUTO struct buf match = buf_make(buf->max);
    rule_match_write(&rule->match, &match);
    json_next_item(buf);
    buf_add_char(buf, '{');
    json_add_text(buf, "name", rule->name);
    json_add_text(buf, "match", buf_slice(&match));
    json_add_bool(buf, "protected", rule->protect);
    if (rule->protect)
        add_policy(buf, rule);
    buf_add_char(buf, '}');
    if (!buf_ok(&match))
        buf->failed = true;
}

/* ---- the document ---- */

static void add_error(struct buf *buf, const struct error_row *row)
{
    json_open(buf, row->code, '{');
    json_add_i64(buf, "status", row->status);
    json_add_text(buf, "title", slice_of(row->title));
    json_add_bool(buf, "retryable", row->retryable);
    json_add_bool(buf, "safe_new_key", row->safe_new_key);
    json_add_text(buf, "hint", slice_of(row->hint));
    buf_add_char(buf, '}');
}

void policy_write(const struct rule_set *rules, struct buf *buf)
{
    buf_add_str(buf, "{\"rules\":[");
    for (size_t i = 0; i < rules->n; i++)
        add_rule(buf, &rules->rules[i]);
    buf_add_char(buf, ']');
    json_open(buf, "errors", '{');
    for (int error = ERROR_NONE + 1; error < ERROR_COUNT; error++)
        add_error(buf, error_row((enum error)error));
    buf_add_str(buf, "}}\n");
}
