/* SPDX-License-Identifier: Apache-2.0 */
/* What one rule may say and yet cannot mean (errors), or seldom means (warnings). */
#include "config/option.h"
#include "config/reader.h"
#include "core/tenant.h"

#include <inttypes.h>

/* ---- tenants ---- */

static void refuse_reserved_tenant(struct reader *reader, const struct rule_draft *draft)
{
    const struct node *node = draft->set[OPTION_tenant];
    const struct template *tenant = &draft->rule.tenant;
    bool is_literal = tenant->n > 0 && tenant->parts[0].source == TEMPLATE_LITERAL;
    if (node && is_literal && !rule_hides_tenant(&draft->rule) &&
        tenant_is_reserved(tenant->parts[0].text))
        reader_complain(reader, node,
                        "begins with '" TENANT_HIDDEN "', which marks tenants that are stored as a "
                        "hash: every request would get 400 (expected another beginning)");
}

static void warn_of_tenant(struct reader *reader, const struct rule_draft *draft)
{
    const struct node *node = draft->set[OPTION_tenant];
    const struct rule *rule = &draft->rule;
    if (!node || rule->tenant_none)
        return;
    if (template_reads_header(&rule->tenant, SLICE("Authorization")))
        reader_warn(reader, WARNING_TENANT_TOKEN, node,
                    "a refreshed token becomes a new tenant, so its retries run again; use a "
                    "stable id set by your auth proxy");
    if (template_reads_header(&rule->tenant, SLICE("Cookie")))
        reader_warn(reader, WARNING_TENANT_COOKIE, node,
                    "any cookie that is added or changed makes a new tenant, so its retries run "
                    "again; use {cookie:NAME} with the session's cookie");
    if (template_has_optional(&rule->tenant))
        reader_warn(reader, WARNING_TENANT_OPTIONAL, node,
                    "all callers without it are one tenant and share their records");
    if (!rule->trust_tenant && !rule->authorizes && !rule_hides_tenant(rule))
        reader_warn(
            reader, WARNING_TENANT_OPEN, node,
            "any client that can set this value can read that tenant's stored responses "
            "(`authorize: GET /tenants/{tenant}/access` asks the service first, which must "
            "respond with 2xx only if this caller may act as this tenant; `trust_tenant: true` "
            "declares that the layer in front sets it and clients cannot)");
}

static bool is_carried(const struct template_part *part)
{
    return part->source != TEMPLATE_PATH && part->source != TEMPLATE_QUERY;
}

/* Whether the target names the tenant: {tenant}, or all that it is made of. `*ret_lacks` is a
 * source that neither the target nor the caller's headers carry. */
static bool names_tenant(const struct template *target, const struct template *tenant,
                         const struct template_part **ret_lacks)
{
    bool whole = true;
    *ret_lacks = NULL;
    if (template_uses(target, TEMPLATE_TENANT))
        return true;
    for (size_t i = 0; i < tenant->n; i++) {
        const struct template_part *part = &tenant->parts[i];
        bool held = part->source == TEMPLATE_LITERAL || template_has_part(target, part);
        if (!held && !is_carried(part))
            *ret_lacks = part;
        whole = whole && held;
    }
    return whole;
}

bool rule_probe_names_tenant(const struct rule *rule)
{
    const struct template_part *lacks;
    return rule->tenant_none || names_tenant(&rule->probe, &rule->tenant, &lacks);
}

/* A request of pawl's own whose response decides about a tenant's records must be about that
 * tenant.
 */
static void check_target(struct reader *reader, const struct rule_draft *draft,
                         const struct template *target, enum option_id id)
{
    const struct rule *rule = &draft->rule;
    const struct node *node = draft->set[id];
    const struct template_part *lacks;
    if (!node || rule->tenant_none)
        return;
    bool named = names_tenant(target, &rule->tenant, &lacks);
    if (rule_hides_tenant(rule) && template_uses(target, TEMPLATE_TENANT))
        reader_complain(reader, node,
                        "{tenant} of a credential is a hash that the service does not know "
                        "(remove it: the caller's headers are sent too)");
    else if (lacks)
        reader_complain(reader, node,
                        "the tenant of rule '%.*s' comes from {%.*s}, which this request does not "
                        "carry (expected {tenant} in it)",
                        SLICE_ARG(rule->name), SLICE_ARG(lacks->written));
    else if (!named && !rule_hides_tenant(rule) && id == OPTION_authorize)
        reader_warn(reader, WARNING_AUTHORIZE_TENANT, node,
                    "names no {tenant}: the service must judge by the headers whether this caller "
                    "may act as this tenant (better GET /tenants/{tenant}/access)");
}

/* ---- probes ---- */

static bool names_operation(const struct template *probe)
{
    for (size_t i = 0; i < probe->n; i++) {
        enum template_source source = probe->parts[i].source;
        if (source != TEMPLATE_LITERAL && source != TEMPLATE_METHOD && source != TEMPLATE_ROUTE &&
            source != TEMPLATE_TENANT)
            return true;
    }
    return false;
}

static bool has_query(const struct template *probe)
{
    for (size_t i = 0; i < probe->n; i++)
        if (probe->parts[i].source == TEMPLATE_LITERAL &&
            slice_find(probe->parts[i].text, '?') >= 0)
            return true;
    return false;
}

static void check_probe_risks(struct reader *reader, const struct rule_draft *draft)
{
    const struct node *node = draft->set[OPTION_unknown];
    const struct rule *rule = &draft->rule;
    if (!node || rule->unknown != RECORD_UNKNOWN_PROBE)
        return;
    check_target(reader, draft, &rule->probe, OPTION_unknown);
    if (!names_operation(&rule->probe))
        reader_complain(reader, node,
                        "the probe names no operation, so its response would settle every one "
                        "(expected {key}, or a source of the body or path, as in GET "
                        "/refunds/by-key/{key})");
    else if (has_query(&rule->probe))
        reader_warn(reader, WARNING_PROBE_QUERY, node,
                    "a search that returns 200 with an empty list means `it happened` to pawl "
                    "(expected a path that returns 404 for a key that the service does not know)");
}

/* ---- keys and what is compared ---- */

static bool is_constant(const struct rule *rule)
{
    const struct template *key = &rule->key;
    for (size_t i = 0; i < key->n; i++) {
        enum template_source source = key->parts[i].source;
        bool none = source == TEMPLATE_TENANT && rule->tenant_none;
        if (source != TEMPLATE_LITERAL && source != TEMPLATE_METHOD && source != TEMPLATE_ROUTE &&
            !none)
            return false;
    }
    return key->n > 0;
}

static void check_key_risks(struct reader *reader, const struct rule_draft *draft)
{
    const struct node *node = draft->set[OPTION_key];
    if (node && is_constant(&draft->rule))
        reader_complain(
            reader, node,
            "is the same for every request of the rule (expected a source that distinguishes "
            "operations, such as {header:Idempotency-Key} or {body:/id}; {tenant} for one "
            "operation of each tenant)");
}

static const struct node *first_set(const struct rule_draft *draft, enum option_id a,
                                    enum option_id b)
{
    return draft->set[a] ? draft->set[a] : draft->set[b];
}

static void warn_of_comparison(struct reader *reader, const struct rule_draft *draft)
{
    const struct rule *rule = &draft->rule;
    if (rule->payload.mode == PAYLOAD_IGNORE && rule->query == RULE_QUERY_NONE &&
        rule->n_headers == 0)
        reader_warn(reader, WARNING_NOTHING_COMPARED,
                    first_set(draft, OPTION_payload, OPTION_query),
                    "with query: none and headers: [] only method and path are compared: a "
                    "different request under the same key gets the first response");
    if (rule->replay_cookies && rule->tenant_none)
        reader_warn(reader, WARNING_COOKIES_SHARED, draft->set[OPTION_replay_cookies],
                    "under tenant: none any client that repeats the key gets the first client's "
                    "cookies");
}

/* ---- times ---- */

static void warn_of_times(struct reader *reader, const struct rule_draft *draft)
{
    const struct rule *rule = &draft->rule;
    int64_t window = template_window_us(&rule->key);
    if (window > 0 && window < rule->timeout_us)
        reader_warn(reader, WARNING_WINDOW_SHORT, draft->set[OPTION_key],
                    "the window is shorter than `timeout`: it may close while the first request "
                    "runs");
    if (template_key_header(&rule->key) && template_has_clock(&rule->key))
        reader_warn(
            reader, WARNING_KEY_BY_CLOCK, draft->set[OPTION_key],
            "a client's retry after the end of the day, week, month or hour has another "
            "key and runs again (expected {window:..}, which begins with the first request, or "
            "the date in `once`)");
    if (window == 0 && rule->ttl_us < rule->timeout_us)
        reader_warn(reader, WARNING_TTL_SHORT, first_set(draft, OPTION_ttl, OPTION_timeout),
                    "`ttl` is shorter than `timeout`: a retry after a lost response may come too "
                    "late and run again");
}

/* ---- bodies ---- */

static void check_limit(struct reader *reader, const struct rule_draft *draft, enum option_id id,
                        uint64_t limit)
{
    uint64_t all = reader->config->gateway.max_buffered;
    const struct node *buffered = reader->base->set[OPTION_max_buffered];
    const struct node *node = draft->set[id] ? draft->set[id] : buffered;
    if (node && limit > all)
        reader_complain(reader, node,
                        "%s of rule '%.*s' is %" PRIu64 " bytes, and max_buffered, the memory for "
                        "all bodies, %" PRIu64 ": a body that large could never pass",
                        option_at(id)->name.at, SLICE_ARG(draft->rule.name), limit, all);
}

static void check_limits(struct reader *reader, const struct rule_draft *draft)
{
    const struct rule *rule = &draft->rule;
    check_limit(reader, draft, OPTION_max_request_body, rule->max_request_body);
    if (!rule->stream)
        check_limit(reader, draft, OPTION_max_response_body, rule->max_response_body);
}

/* ---- what it takes ---- */

/* A store that the command line names is judged when it is opened. */
static void check_participant(struct reader *reader, const struct rule_draft *draft)
{
    const struct config *config = reader->config;
    if (draft->rule.unknown == RECORD_UNKNOWN_PARTICIPANT && config->store.len > 0 &&
        !config->store_is_postgres)
        reader_complain(reader, draft->set[OPTION_unknown],
                        "participant needs the database in which the service commits its effects "
                        "(expected store: postgres://USER@HOST/DATABASE with it, or hold, retry or "
                        "{probe: ..})");
}

static void warn_of_promises(struct reader *reader, const struct rule_draft *draft)
{
    if (draft->rule.unknown == RECORD_UNKNOWN_RETRY)
        reader_warn(reader, WARNING_UPSTREAM_REMEMBERS, draft->set[OPTION_unknown],
                    "under retry the upstream itself must recognize a repeated key, for longer "
                    "than ttl + timeout; if it sends 409 while the first attempt runs, add "
                    "in_doubt: [409]");
    if (draft->rule.store_down_pass)
        reader_warn(reader, WARNING_STORE_DOWN_PASS, draft->set[OPTION_store_down],
                    "while the record store is down, requests pass unprotected: a retry may run "
                    "twice");
}

void rule_review(struct reader *reader, struct rule_draft *draft)
{
    reader->draft = draft;
    if (draft->rule.authorizes)
        check_target(reader, draft, &draft->rule.authorize, OPTION_authorize);
    check_probe_risks(reader, draft);
    check_participant(reader, draft);
    check_key_risks(reader, draft);
    check_limits(reader, draft);
    refuse_reserved_tenant(reader, draft);
    warn_of_tenant(reader, draft);
    warn_of_comparison(reader, draft);
    warn_of_times(reader, draft);
    warn_of_promises(reader, draft);
}
