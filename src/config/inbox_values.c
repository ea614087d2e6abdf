/* SPDX-License-Identifier: Apache-2.0 */
/* `inbox:`, whose events are received, and who handles them (contract section 9): what the file
 * says of each source, and the rules that it makes of them. */
#include "base/check.h"
#include "base/text/ascii.h"
#include "base/text/url.h"
#include "config/option.h"
#include "config/reader.h"

#define SOURCES_MAX 100
#define RULES_SIZE_MAX ((size_t)1024 * 1024)
#define RECIPE_MAX ((size_t)64 * 1024)
#define URL_MAX ((size_t)4096)
#define A_SOURCE                                                                                   \
    "{name: stripe, match: POST /hooks/stripe, verify: {scheme: stripe, secret: file:PATH}, "      \
    "handler: POST /internal/stripe}"
#define A_VERIFY                                                                                   \
    "{scheme: stripe, secret: file:PATH}, or {header: X-Signature, signed: \"{body}\", secret: "   \
    "..}"
#define A_SECRET "the sender's secret, or file:PATH of a file with it"
#define A_HANDLER "POST /path at the upstream, or POST https://HOST/PATH"
#define AN_ID "a template such as \"{body:/id}\" or \"{header:webhook-id}\""
#define SCHEMES "standard|stripe|github|slack|shopify" /* as signature_scheme_find has them */

/* ---- verify ---- */

/* Before all is known that its secrets are read by. */
struct verify_draft {
    struct inbox_verify verify;
    const struct node *secret;
};

static READER_NAMED(read_scheme)
{
    struct signature_scheme *scheme = field;
    size_t index;
    if (!reader_choice(reader, node, SCHEMES, &index))
        return;
    const struct signature_scheme *named = signature_scheme_find(signature_scheme_name(index));
    CHECK(named && slice_item(SLICE(SCHEMES), '|', named->name) == (ptrdiff_t)index);
    *scheme = *named;
}

static READER_NAMED(read_later)
{
    *(const struct node **)field = node;
}

static READER_NAMED(read_text)
{
    struct slice text;
    if (reader_scalar(reader, node, "a text", &text))
        *(struct slice *)field = arena_copy(reader->texts, text);
}

static const struct option verify_members[] = {
    CONFIG_MEMBER(scheme, verify_draft, verify.scheme, scheme, 0, 0, "(its own)",
                  "how the sender signs: " SCHEMES),
    CONFIG_SECRET(secret, verify_draft, secret, later, "(required)",
                  "the sender's secret, or a list while it rotates"),
    CONFIG_MEMBER(tolerance, verify_draft, verify.tolerance_us, duration, CLOCK_US_PER_S, DAY, "5m",
                  "how far the time of a request may be from now, in either direction"),
    CONFIG_MEMBER(header, verify_draft, verify.scheme.header, text, 0, 0, "(required)",
                  "the header that has the signature"),
    CONFIG_MEMBER(signed, verify_draft, verify.scheme.signed_as, text, 0, 0, "\"{body}\"",
                  "the bytes that are signed, of {timestamp} and {body}"),
    CONFIG_MEMBER(hash, verify_draft, verify.scheme.hash, hash, 0, 0, "sha256",
                  "sha256 | sha512 | sha1"),
    CONFIG_MEMBER(encoding, verify_draft, verify.scheme.encoding, encoding, 0, 0, "hex",
                  "hex | base64"),
    CONFIG_MEMBER(prefix, verify_draft, verify.scheme.prefix, text, 0, 0, "\"\"",
                  "what stands before the signature, such as sha256="),
    CONFIG_MEMBER(
        timestamp, verify_draft, verify.scheme.timestamp, text, 0, 0, "\"\"",
        "the header that has the time, in seconds; t= where it is among the signature's members"),
};
static const struct option verify_option = {.members = verify_members,
                                            .n_members = COUNT_OF(verify_members)};

/* A complaint never shows what was given. */
static void read_verify_secret(struct reader *reader, const struct node *node,
                               struct inbox_verify *verify)
{
    struct slice text;
    const char *path, *problem;
    CHECK(verify->n_secrets < SIGNATURE_SECRETS_MAX);
    if (!reader_scalar(reader, node, A_SECRET, &text) || !reader_secret(reader, node, &text, &path))
        return;
    if (signature_secret_read(&verify->scheme, text, reader->texts,
                              &verify->secrets[verify->n_secrets], &problem))
        verify->n_secrets++;
    else
        reader_complain(reader, node, "the secret %s (expected " A_SECRET ")", problem);
}

static void read_verify_secrets(struct reader *reader, const struct node *node,
                                struct inbox_verify *verify)
{
    if (node->kind != NODE_LIST) {
        read_verify_secret(reader, node, verify);
        return;
    }
    if (node->count == 0 || node->count > SIGNATURE_SECRETS_MAX)
        reader_not_a_list(reader, node, SIGNATURE_SECRETS_MAX, A_SECRET);
    for (const struct node *item = node->first; item && verify->n_secrets < SIGNATURE_SECRETS_MAX;
         item = item->next)
        read_verify_secret(reader, item, verify);
}

/* Of a scheme by name its parts are known. */
static const struct node *find_inbox_part(const struct node *map)
{
    static const struct slice parts[] = {{"header", 6},   {"signed", 6}, {"hash", 4},
                                         {"encoding", 8}, {"prefix", 6}, {"timestamp", 9}};
    for (const struct node *one = map->first; one; one = one->next)
        if (SLICE_AMONG(one->key, parts))
            return one;
    return NULL;
}

static READER_NAMED(read_verify)
{
    struct verify_draft draft = {0};
    const struct node *part = node->kind == NODE_MAP ? find_inbox_part(node) : NULL;
    size_t errors = reader->errors->n;
    const char *problem = NULL;
    if (!options_read_members(reader, &verify_option, node, A_VERIFY, &draft) ||
        reader->errors->n > errors)
        return;
    if (draft.verify.scheme.name.len > 0 && part)
        reader_complain(reader, part, "is known of a scheme (expected `scheme`, or its parts)");
    else if (!draft.secret)
        reader_complain(reader, node, "has no secret (expected " A_VERIFY ")");
    else if (!signature_scheme_check(&draft.verify.scheme, &problem))
        reader_complain(reader, node, "the scheme %s (expected " A_VERIFY ")", problem);
    else
        read_verify_secrets(reader, draft.secret, &draft.verify);
    *(struct inbox_verify *)field = draft.verify;
}

/* ---- one source ---- */

static READER_NAMED(read_inbox_template)
{
    struct slice text;
    if (reader_scalar(reader, node, AN_ID, &text))
        (void)reader_template(reader, node, text, TEMPLATE_FOR_KEY, field);
}

static READER_NAMED(read_order)
{
    struct inbox_source *source = READER_STRUCT(field, inbox_source, order);
    read_inbox_template(reader, option, node, field);
    source->has_order = source->order.n > 0;
}

static bool is_inbox_path(struct slice text)
{
    static const struct slice unfit = {" ?#{}*\\%", 8};
    for (size_t i = 0; i < text.len; i++)
        if (slice_find(unfit, text.at[i]) >= 0)
            return false;
    return text.len < URL_MAX / 2;
}

/* The path of a handler at the upstream becomes a URL once that is known. */
static READER_NAMED(read_handler)
{
    struct inbox_source *source = READER_STRUCT(field, inbox_source, handler);
    struct slice text;
    struct url url;
    const char *problem = "is not absolute";
    if (!reader_scalar(reader, node, A_HANDLER, &text))
        return;
    if (slice_starts(text, SLICE("POST ")))
        text = slice_trim(slice_skip(text, strlen("POST ")));
    source->at_upstream = slice_starts(text, SLICE("/"));
    if (source->at_upstream ? !is_inbox_path(text) : !url_read(text, &url, &problem))
        reader_complain(reader, node, "%s (expected " A_HANDLER ")",
                        source->at_upstream ? "is no plain path" : problem);
    else
        source->handler = arena_copy(reader->texts, text);
}

static const struct option source_members[] = {
    CONFIG_MEMBER(name, inbox_source, name, name, 0, 0, "(required)",
                  "what the source is called in lists, metrics and `Webhook-Source`"),
    CONFIG_MEMBER(source, inbox_source, source, name, 0, 0, "(the name)",
                  "what its events are stored under, and so called there, in place of the name: "
                  "the name before it was renamed"),
    CONFIG_MEMBER(match, inbox_source, match, match, 0, 0, "(required)",
                  "where its events arrive, such as POST /hooks/stripe"),
    CONFIG_MEMBER(verify, inbox_source, verify, verify, 0, 0, "(required)",
                  "how they are signed: " A_VERIFY),
    CONFIG_MEMBER(handler, inbox_source, handler, handler, 0, 0, "(required)",
                  "where each is handled: POST /path at the upstream, closed to others; or a URL"),
    CONFIG_MEMBER(id, inbox_source, id, inbox_template, 0, 0,
                  "(the scheme's; required for one of your own)",
                  "template of an event's id, such as \"{body:/id}\""),
    CONFIG_MEMBER(keep, inbox_source, keep_us, duration, 2 * DAY, 3650 * DAY, "7d",
                  "how long an id is known once the event was handled"),
    CONFIG_MEMBER(payload, inbox_source, payload, payload, 0, 0,
                  "(all; of stripe without "
                  "/pending_webhooks)",
                  "which part of the body must be the same when an id repeats"),
    CONFIG_MEMBER(mismatch, inbox_source, mismatch_status, inbox_mismatch, 0, 0, "409",
                  "status when it differs: 409 | 200"),
    CONFIG_MEMBER(max_request_body, inbox_source, max_body, size, 0, GIB, "1MiB",
                  "a larger body is refused"),
    CONFIG_MEMBER(order, inbox_source, order, order, 0, 0, "(none)",
                  "template; events with the same value are handled one after the other"),
    CONFIG_MEMBER(on_failure, inbox_source, skips, on_failure, 0, 0, "park",
                  "what a dead event does to those behind it in its order: park | skip"),
    CONFIG_MEMBER(retry, inbox_source, retry, retry_profile, 0, 0, "webhook",
                  "profile of further attempts"),
    CONFIG_MEMBER(timeout, inbox_source, timeout_us, duration, MS, HOUR, "15s",
                  "time for an attempt of the handler"),
    CONFIG_MEMBER(in_flight, inbox_source, in_flight, count, 1, 256, "4", "attempts at a time"),
};
static const struct option source_option = {.members = source_members,
                                            .n_members = COUNT_OF(source_members)};

/* Where its senders put the id. */
static void fill_id(struct reader *reader, const struct node *node, struct inbox_source *source)
{
    static const struct {
        struct slice scheme;
        struct slice id;
    } ids[] = {{{"standard", 8}, {"{header:webhook-id}", 19}},
               {{"stripe", 6}, {"{body:/id}", 10}},
               {{"github", 6}, {"{header:X-GitHub-Delivery}", 26}},
               {{"slack", 5}, {"{body:/event_id}", 16}},
               {{"shopify", 7}, {"{header:X-Shopify-Webhook-Id}", 29}}};
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        if (slice_eq(source->verify.scheme.name, ids[i].scheme))
            (void)reader_template(reader, node, ids[i].id, TEMPLATE_FOR_KEY, &source->id);
}

/* What Stripe counts down between two deliveries of one event. */
static void fill_payload(struct inbox_source *source)
{
    if (slice_eq(source->verify.scheme.name, SLICE("stripe")) &&
        source->payload.mode == PAYLOAD_ALL)
        source->payload = (struct payload_selection){
            .mode = PAYLOAD_EXCLUDE, .n_pointers = 1, .pointers = {SLICE("/pending_webhooks")}};
}

static void check_inbox_source(struct reader *reader, const struct node *node,
                               struct inbox_source *source)
{
    const char *missing = source->name.len == 0           ? "name"
                          : source->match.methods == 0    ? "match"
                          : source->verify.n_secrets == 0 ? "verify"
                          : source->handler.len == 0      ? "handler"
                                                          : NULL;
    if (!missing && source->id.n == 0)
        fill_id(reader, node, source);
    if (!missing && source->id.n == 0)
        missing = "id";
    if (missing)
        reader_complain(reader, node, "a source has no %s (expected " A_SOURCE ")", missing);
    else if (rule_match_lacks(&source->match, &source->id).at ||
             rule_match_lacks(&source->match, &source->order).at)
        reader_complain(reader, node, "the path of source %.*s has no such parameter",
                        SLICE_ARG(source->name));
    fill_payload(source);
    if (source->source.len == 0)
        source->source = source->name;
}

static void check_source_name(struct reader *reader, const struct node *node,
                              const struct inbox_source *sources, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (slice_eq(sources[i].name, sources[at].name))
            reader_complain(reader, node, "two sources have the name %.*s (expected another)",
                            SLICE_ARG(sources[at].name));
        else if (slice_eq(sources[i].source, sources[at].source))
            reader_complain(reader, node, "%.*s and %.*s are the same source, %.*s",
                            SLICE_ARG(sources[i].name), SLICE_ARG(sources[at].name),
                            SLICE_ARG(sources[at].source));
}

OPTION_READER(inbox)
{
    struct inbox_settings *settings = field;
    if (node->kind != NODE_LIST || node->count > SOURCES_MAX) {
        reader_not_a_list(reader, node, SOURCES_MAX, A_SOURCE);
        return;
    }
    struct inbox_source *all = arena_alloc(reader->texts, (node->count + 1) * sizeof *all);
    size_t n = 0;
    if (!all)
        return;
    for (const struct node *item = node->first; item; item = item->next, n++) {
        size_t errors = reader->errors->n;
        all[n] = (struct inbox_source){0};
        (void)options_read_members(reader, &source_option, item, A_SOURCE, &all[n]);
        if (reader->errors->n == errors)
            check_inbox_source(reader, item, &all[n]);
        if (reader->errors->n == errors)
            check_source_name(reader, item, all, n);
    }
    *settings = (struct inbox_settings){all, n};
}

/* ---- their rules ---- */

static void make_rule(struct reader *reader, const struct inbox_source *source,
                      struct rule *ret_rule)
{
    BUF_AUTO struct buf recipe = buf_make(RECIPE_MAX);
    *ret_rule = (struct rule){.name = source->name,
                              .match = source->match,
                              .protect = true,
                              .require = true,
                              .tenant_none = true,
                              .key = source->id,
                              .payload = source->payload,
                              .mismatch_status = source->mismatch_status,
                              .max_request_body = source->max_body,
                              .max_response_body = URL_MAX,
                              .inbox = source};
    payload_recipe_write(&ret_rule->payload, &recipe);
    ret_rule->recipe = arena_copy_buf(reader->texts, &recipe);
}

static bool reads_unsigned_header(const struct inbox_source *source)
{
    const struct signature_scheme *scheme = &source->verify.scheme;
    for (size_t i = 0; i < source->id.n; i++)
        if (source->id.parts[i].source == TEMPLATE_HEADER &&
            !(scheme->id.len > 0 && slice_eq_nocase(source->id.parts[i].text, scheme->id)))
            return true;
    return false;
}

static void warn_of_id(struct reader *reader, const struct node *node,
                       const struct inbox_source *source)
{
    if (reads_unsigned_header(source))
        reader_warn(reader, WARNING_INBOX_ID_UNSIGNED, node,
                    "source %.*s takes the id of an event from a header that is not signed: "
                    "whoever holds one signed request can have it handled again under other ids",
                    SLICE_ARG(source->name));
}

/* A rule that takes a POST to the handler of a source, in lower case. */
static void make_closed(struct reader *reader, const struct node *node,
                        const struct inbox_source *source, struct rule *ret_rule)
{
    *ret_rule = (struct rule){.name = source->name, .protect = true};
    BUF_AUTO struct buf text = buf_make(URL_MAX);
    struct arena *texts = reader->texts;
    struct slice problem = {NULL, 0};
    buf_add_str(&text, "POST ");
    for (size_t k = 0; k < source->handler.len; k++)
        buf_add_char(&text, ascii_lower(source->handler.at[k]));
    if (!rule_match_compile(arena_copy(texts, buf_slice(&text)), texts, &ret_rule->match, &problem))
        reader_complain(reader, node, "the handler of %.*s: %.*s", SLICE_ARG(source->name),
                        SLICE_ARG(problem));
}

static struct rule_set *new_set(struct reader *reader, size_t n)
{
    struct rule_set *set = rule_set_new(RULES_SIZE_MAX);
    if (set)
        set->rules = arena_alloc(&set->arena, n * sizeof *set->rules);
    if (!set || !set->rules)
        reader->scratch->failed = true;
    return set;
}

/* Whether others reach the handler by a rule, which would make it theirs. */
static void check_closed(struct reader *reader, const struct node *node,
                         const struct inbox_source *source)
{
    static const struct headers none;
    const struct rule_set *all = reader->config->gateway.rules;
    const struct rule_set *const sets[] = {all, all->inboxes};
    const struct rule_request wanted = {SLICE("POST"), source->handler, &none};
    for (size_t i = 0; i < 2; i++) {
        struct rule_found found;
        if (rule_find_request(sets[i], &wanted, reader->scratch, &found) == RULE_FOUND)
            reader_complain(reader, node,
                            "the handler of %.*s is taken by `%.*s`, and closed to others "
                            "(expected another path)",
                            SLICE_ARG(source->name), SLICE_ARG(found.rule->name));
    }
}

static void point_at_upstream(struct reader *reader, struct inbox_source *source)
{
    const struct config *config = reader->config;
    bool bracketed = slice_find(config->upstream.host, ':') >= 0;
    BUF_AUTO struct buf text = buf_make(URL_MAX);
    buf_printf(&text, bracketed ? "http%s://[%.*s]:%u%.*s" : "http%s://%.*s:%u%.*s",
               config->upstream_tls.on ? "s" : "", SLICE_ARG(config->upstream.host),
               (unsigned)config->upstream.port, SLICE_ARG(source->handler));
    source->handler = arena_copy_buf(reader->texts, &text);
}

/* Their deliveries and calls would be counted as one. */
static void check_lane(struct reader *reader, const struct node *node,
                       const struct inbox_source *source)
{
    const struct webhook_settings *webhooks = &reader->config->webhooks;
    for (size_t i = 0; i < webhooks->n_endpoints; i++)
        if (slice_eq(webhooks->endpoints[i].name, source->source))
            reader_complain(reader, node, "an endpoint has the name %.*s (expected another)",
                            SLICE_ARG(source->source));
}

void inbox_compile(struct reader *reader, const struct node *node)
{
    struct inbox_settings *settings = &reader->config->inbox;
    struct rule_set *rules = reader->config->gateway.rules;
    if (settings->n_sources == 0 || reader->errors->n > 0)
        return;
    rules->inboxes = new_set(reader, settings->n_sources);
    rules->closed = new_set(reader, settings->n_sources);
    if (reader->scratch->failed)
        return;
    for (size_t i = 0; i < settings->n_sources; i++) {
        const struct inbox_source *source = &settings->sources[i];
        warn_of_id(reader, node, source);
        check_lane(reader, node, source);
        if (rule_set_named(rules, source->name))
            reader_complain(reader, node, "a rule has the name %.*s (expected another)",
                            SLICE_ARG(source->name));
        make_rule(reader, source, &rules->inboxes->rules[rules->inboxes->n++]);
        if (source->at_upstream)
            make_closed(reader, node, source, &rules->closed->rules[rules->closed->n++]);
    }
    if (!rule_set_index(rules->inboxes) || !rule_set_index(rules->closed))
        reader->scratch->failed = true;
    for (size_t i = 0; i < settings->n_sources && !reader->scratch->failed; i++)
        if (settings->sources[i].at_upstream) {
            check_closed(reader, node, &settings->sources[i]);
            point_at_upstream(reader, &settings->sources[i]);
        }
}
