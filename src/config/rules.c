/* SPDX-License-Identifier: Apache-2.0 */
/* From the rules of the file to the rule set. */
#include "base/buf.h"
#include "base/check.h"
#include "config/option.h"
#include "config/reader.h"

#define RULES_MAX 1000
#define AUTHORITY_MAX 512
#define RECIPE_MAX (64 * 1024)

static const struct place *place_of_option(const struct rule_draft *draft, enum option_id id,
                                           const struct node *rule)
{
    return draft->set[id] ? &draft->set[id]->place : &rule->place;
}

/* {path:x} names a parameter of the rule's own path. */
static void check_parameters(struct reader *reader, const struct template *template,
                             enum option_id id, const struct node *node)
{
    const struct rule_draft *draft = reader->draft;
    struct slice lacks = rule_match_lacks(&draft->rule.match, template);
    if (lacks.at)
        complaints_add(reader->errors, *place_of_option(draft, id, node), option_at(id)->name,
                       "the path of rule '%.*s' has no {%.*s}", SLICE_ARG(draft->rule.name),
                       SLICE_ARG(lacks));
}

static void check_required(struct reader *reader, const struct node *node)
{
    const struct rule_draft *draft = reader->draft;
    if (!draft->set[OPTION_name])
        complaints_add(reader->errors, node->place, SLICE("name"), "the rule has no name");
    if (!draft->set[OPTION_match])
        complaints_add(reader->errors, node->place, SLICE("match"),
                       "the rule has no match (expected METHOD /path/{param})");
    if (!draft->has_tenant && draft->rule.protect)
        complaints_add(reader->errors, node->place, SLICE("tenant"),
                       "missing (expected a template such as \"{header:X-Merchant-Id}\", or none, "
                       "in the rule or at the top)");
}

bool option_counts(const struct rule_draft *draft, enum option_id id)
{
    bool needs_probe =
        id == OPTION_probe_status || id == OPTION_probe_headers || id == OPTION_not_found;
    return !needs_probe || draft->rule.unknown == RECORD_UNKNOWN_PROBE;
}

static void check_counts(struct reader *reader, const struct rule_draft *base, enum option_id id)
{
    const struct rule_draft *draft = reader->draft;
    const struct node *node = draft->set[id];
    if (node && node != base->set[id] && !option_counts(draft, id))
        reader_complain(reader, node,
                        "has an effect only with a probe (expected `unknown: {probe: ..}`)");
}

/* With the headers of no caller only the target says whose operation is meant. */
static bool names_its_tenant(const struct rule_draft *draft)
{
    const struct rule *rule = &draft->rule;
    if (!draft->has_tenant || rule->tenant_none)
        return true;
    return !rule_hides_tenant(rule) && template_uses(&rule->probe, TEMPLATE_TENANT);
}

/* In the background there is no request: only what is kept with the record. */
static void check_probe_options(struct reader *reader, const struct rule_draft *base)
{
    struct rule *rule = &reader->draft->rule;
    const struct node *node = reader->draft->set[OPTION_probe_headers];
    check_counts(reader, base, OPTION_probe_status);
    check_counts(reader, base, OPTION_probe_headers);
    check_counts(reader, base, OPTION_not_found);
    const struct template_part *part = template_not_kept(&rule->probe);
    bool probes = rule->unknown == RECORD_UNKNOWN_PROBE;
    bool named = names_its_tenant(reader->draft);
    if (node && probes && !named)
        reader_complain(reader, node,
                        "turns on probes in the background, and the probe of rule '%.*s' does not "
                        "say whose operation is meant (expected {tenant} in it, and that it is no "
                        "credential; or `tenant: none`)",
                        SLICE_ARG(rule->name));
    if (node && node != base->set[OPTION_probe_headers] && part)
        reader_complain(reader, node,
                        "turns on probes in the background, and this probe needs {%.*s} of the "
                        "request (expected a probe of no more than {key} and {tenant})",
                        SLICE_ARG(part->written));
    rule->probes_alone = rule->probes_alone && probes && named && !part;
}

/* Whether the probe asks by the once value too, whatever the key: all that the value is made of is
 * in its target. */
static bool probe_names_value(const struct rule *rule)
{
    for (size_t i = 0; i < rule->once.key.n; i++) {
        const struct template_part *part = &rule->once.key.parts[i];
        if (part->source != TEMPLATE_LITERAL && !template_has_part(&rule->probe, part))
            return false;
    }
    return true;
}

/* What was done under a value that a record held is asked about by that value, and what was done in
 * a window by when that began, which nobody knows without the record: by another key the service
 * would not find it. NULL: it is asked about. */
static const char *cannot_ask_first(const struct rule *rule)
{
    if (template_window_us(&rule->key) > 0)
        return "has `first`, and the key has a window: the service knows what was done by when "
               "that window began, which is lost with its record (expected `first: off`)";
    if (rule->once.on && !probe_names_value(rule))
        return "has `first`, and the probe does not name the value of `once` (expected all its "
               "sources in the target, or `first: off`)";
    return NULL;
}

static void check_first(struct reader *reader)
{
    struct rule *rule = &reader->draft->rule;
    if (!rule_asks_first(rule))
        return;
    const char *why = cannot_ask_first(rule);
    if (!why)
        return;
    rule->first = RECORD_FIRST_OFF;
    if (reader->draft->says_first)
        reader_complain(reader, reader->draft->set[OPTION_unknown], "%s", why);
}

/* A status that a probe may get for "not found": others are about who asks, ask for patience, or
 * say nothing. */
static bool may_find_nothing(int status)
{
    static const int others[] = {401, 403, 407, 408, 425, 429};
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (status == others[i])
            return false;
    return status / 100 == 4;
}

static void check_not_found(struct reader *reader)
{
    const struct draft_statuses *list = &reader->draft->not_found;
    for (size_t i = 0; i < list->n; i++)
        if (!may_find_nothing(list->at[i]))
            reader_complain(reader, reader->draft->set[OPTION_not_found],
                            "%d does not say that there is no such operation (expected a 4xx, and "
                            "not 401, 403, 407, 408, 425 or 429, or a condition on the body)",
                            list->at[i]);
}

/* What passes live is passed before its body is known. */
static void check_conditions(struct reader *reader, enum option_id id,
                             const struct draft_statuses *list)
{
    if (reader->draft->rule.stream && list->conditions.n > 0)
        reader_complain(reader, reader->draft->set[id],
                        "has a condition on bodies, which `stream` passes unread (expected "
                        "statuses only, or no `stream`)");
}

/* A status has one sort. */
static void check_answers(struct reader *reader)
{
    const struct rule_draft *draft = reader->draft;
    const struct node *node = draft->set[OPTION_in_doubt];
    for (size_t i = 0; i < draft->in_doubt.n; i++)
        for (size_t j = 0; j < draft->not_done.n; j++)
            if (draft->in_doubt.at[i] == draft->not_done.at[j])
                reader_complain(reader, node, "%d is in not_done, too (expected it in one of them)",
                                draft->in_doubt.at[i]);
    check_conditions(reader, OPTION_not_done, &draft->not_done);
    check_conditions(reader, OPTION_in_doubt, &draft->in_doubt);
    check_conditions(reader, OPTION_not_found, &draft->not_found);
    check_not_found(reader);
}

static void move_draft_statuses(struct remember_policy *policy, const struct draft_statuses *list,
                                enum response_sort sort)
{
    CHECK(list->n <= DRAFT_STATUSES_MAX);
    for (size_t i = 0; i < list->n; i++)
        remember_policy_move(policy, list->at[i], sort);
}

static void compile_answers(struct rule_draft *draft)
{
    struct rule *rule = &draft->rule;
    rule->responses = remember_policy_of(draft->remember);
    move_draft_statuses(&rule->responses, &draft->not_done, SORT_NOT_DONE);
    move_draft_statuses(&rule->responses, &draft->in_doubt, SORT_IN_DOUBT);
    rule->by_body.not_done = draft->not_done.conditions;
    rule->by_body.in_doubt = draft->in_doubt.conditions;
    rule->not_found = (struct remember_policy){0};
    move_draft_statuses(&rule->not_found, &draft->not_found, SORT_NOT_DONE);
    if (!draft->set[OPTION_not_found])
        remember_policy_move(&rule->not_found, 404, SORT_NOT_DONE);
    rule->not_found_by_body.not_done = draft->not_found.conditions;
}

/* A format that was meant for the keys of clients has nothing to judge where no client sends one.
 */
static void check_key_format(struct reader *reader, const struct rule_draft *base)
{
    const struct rule_draft *draft = reader->draft;
    const struct node *node = draft->set[OPTION_key_format];
    if (node && node != base->set[OPTION_key_format] &&
        draft->rule.key_format_kind != KEY_FORMAT_ANY && !template_key_header(&draft->rule.key))
        reader_complain(reader, node,
                        "checks the key that clients send in a header, and this key reads none "
                        "(expected a format at its source, as in {body:/id|uuid4})");
}

/* How long a record of the rule lives after its completion, or from its begin. */
static int64_t life_of(const struct rule *rule)
{
    int64_t window = template_window_us(&rule->key);
    return window > 0 ? window : rule->ttl_us;
}

static bool says_key_time(const struct rule *rule)
{
    return rule->key_format_kind == KEY_FORMAT_UUID7 && template_key_header(&rule->key);
}

/* As long as the record, and not where the keys say no time. */
static void default_key_age(struct rule_draft *draft)
{
    struct rule *rule = &draft->rule;
    if (!draft->set[OPTION_key_max_age])
        rule->key_max_age_us = life_of(rule) == CLOCK_NEVER ? 0 : life_of(rule);
    if (!says_key_time(rule))
        rule->key_max_age_us = 0;
}

/* A key that outlives its record would begin anew. */
static void check_key_age(struct reader *reader, const struct rule_draft *base)
{
    const struct rule_draft *draft = reader->draft;
    const struct node *node = draft->set[OPTION_key_max_age];
    if (!node)
        return;
    if (!says_key_time(&draft->rule) && node != base->set[OPTION_key_max_age])
        reader_complain(reader, node,
                        "judges keys that say when they were made (expected key_format: uuid7 "
                        "beside it, and a key that clients send in a header)");
    else if (draft->rule.key_max_age_us > life_of(&draft->rule))
        reader_complain(reader, node,
                        "is longer than the record lives: a retry could be taken for a new "
                        "operation (expected at most the rule's `ttl`, or its {window:..})");
}

static void check_rules_form(struct reader *reader)
{
    const struct rule_draft *draft = reader->draft;
    const struct node *node = draft->set[OPTION_key];
    if (node && draft->rule.body_json && template_uses(&draft->rule.key, TEMPLATE_FORM))
        reader_complain(reader, node,
                        "{form:..} finds nothing where body: json reads every body as JSON");
}

/* What is compared is in a repeat what it was; of a stream nothing is kept. */
static void check_copied(struct reader *reader)
{
    const struct rule *rule = &reader->draft->rule;
    const struct node *node = reader->draft->set[OPTION_replay];
    if (rule->copied.n > 0 && rule->stream)
        reader_complain(reader, node,
                        "copies into responses, and `stream` keeps none (expected no `stream`, or "
                        "`replay: {copy: []}`)");
    for (size_t i = 0; i < rule->copied.n; i++)
        if (payload_counts(&rule->payload, rule->copied.at[i]))
            reader_complain(reader, node,
                            "copies %.*s, which is compared: a request with another one is refused "
                            "as a mismatch (expected it in `payload: {exclude: [%.*s]}`)",
                            SLICE_ARG(rule->copied.at[i]), SLICE_ARG(rule->copied.at[i]));
}

/* Of a stream there is no record that could tell of it. */
static void check_emit(struct reader *reader)
{
    const struct rule_draft *draft = reader->draft;
    const struct node *node = draft->set[OPTION_emit];
    if (!node || draft->rule.emit.type.len == 0)
        return;
    if (draft->rule.stream)
        reader_complain(
            reader, node,
            "publishes no event for a response that is streamed (expected no `stream`)");
    else if (!draft->rule.protect)
        reader_complain(reader, node,
                        "publishes events of protected operations only (expected `protect`)");
    else if (reader->config->webhooks.n_endpoints == 0)
        reader_warn(reader, WARNING_EMIT_UNHEARD, node,
                    "no endpoint of `webhooks` receives these events: they wait for one "
                    "in a config or in the store");
}

static void check_rule(struct reader *reader, const struct node *node,
                       const struct rule_draft *base)
{
    const struct rule *rule = &reader->draft->rule;
    check_required(reader, node);
    check_probe_options(reader, base);
    check_first(reader);
    check_answers(reader);
    check_key_format(reader, base);
    check_key_age(reader, base);
    check_rules_form(reader);
    check_copied(reader);
    check_emit(reader);
    once_review(reader, reader->draft);
    retry_review(reader, base);
    if (!reader->draft->set[OPTION_match])
        return;
    check_parameters(reader, &rule->key, OPTION_key, node);
    check_parameters(reader, &rule->once.key, OPTION_once, node);
    if (!rule->tenant_none)
        check_parameters(reader, &rule->tenant, OPTION_tenant, node);
    if (rule->authorizes)
        check_parameters(reader, &rule->authorize, OPTION_authorize, node);
    if (rule->unknown == RECORD_UNKNOWN_PROBE)
        check_parameters(reader, &rule->probe, OPTION_unknown, node);
}

/* Reads one rule over `base`. NULL: no memory, or it is no map. */
static struct rule_draft *read_rule_draft(struct reader *reader, const struct node *node,
                                          const struct rule_draft *base)
{
    if (node->kind != NODE_MAP) {
        if (node->kind != NODE_BAD)
            complaints_add(reader->errors, node->place, SLICE("rules"),
                           "not a map (expected name:, match: and more)");
        return NULL;
    }
    struct rule_draft *draft = arena_alloc(reader->scratch, sizeof *draft);
    if (!draft)
        return NULL;
    *draft = *base;
    reader->draft = draft;
    options_read_map(reader, node, OPTION_RULE);
    if (!draft->set[OPTION_settle])
        draft->rule.settle_us = draft->rule.timeout_us;
    if (rule_draft_has_short_lease(draft))
        draft->rule.lease_us = PARTICIPANT_LEASE_US;
    default_key_age(draft);
    compile_answers(draft);
    check_rule(reader, node, base);
    return draft;
}

/* As a client writes it that was given the URL. */
static struct slice upstream_authority(struct reader *reader)
{
    BUF_AUTO struct buf text = buf_make(AUTHORITY_MAX);
    const struct url_authority *upstream = &reader->config->upstream;
    bool bracketed = slice_find(upstream->host, ':') >= 0;
    buf_printf(&text, bracketed ? "[%.*s]" : "%.*s", SLICE_ARG(upstream->host));
    if (upstream->port != (reader->config->upstream_tls.on ? 443 : 80))
        buf_printf(&text, ":%u", (unsigned)upstream->port);
    return arena_copy_buf(reader->texts, &text);
}

/* The rule's own parts that defaults cannot share. */
static void finish_rule(struct reader *reader, struct rule_draft *draft)
{
    BUF_AUTO struct buf recipe = buf_make(RECIPE_MAX);
    if (draft->rule.authorizes && draft->rule.authorize_host.len == 0)
        draft->rule.authorize_host = upstream_authority(reader);
    draft->rule.payload.as_json = draft->rule.body_json;
    payload_recipe_write(&draft->rule.payload, &recipe);
    draft->rule.recipe = arena_copy_buf(reader->texts, &recipe);
}

static void build_rules(struct reader *reader, struct rule_draft *const *drafts, size_t n)
{
    struct rule_set *set = reader->config->gateway.rules;
    set->rules = arena_alloc(&set->arena, n * sizeof *set->rules);
    if (!set->rules)
        return;
    for (size_t i = 0; i < n; i++) {
        finish_rule(reader, drafts[i]);
        set->rules[set->n++] = drafts[i]->rule;
    }
    if (!rule_set_index(set))
        reader->scratch->failed = true;
}

void rules_compile(struct reader *reader, const struct node *node, const struct rule_draft *base)
{
    size_t n = 0;
    if (!node || node->kind != NODE_LIST)
        return;
    if (node->count > RULES_MAX) {
        reader_complain(reader, node, "more than %d rules", RULES_MAX);
        return;
    }
    struct rule_draft **drafts = arena_alloc(reader->scratch, (node->count + 1) * sizeof *drafts);
    if (!drafts)
        return;
    for (const struct node *one = node->first; one; one = one->next) {
        struct rule_draft *draft = read_rule_draft(reader, one, base);
        if (draft)
            drafts[n++] = draft;
    }
    reader->drafts = drafts;
    reader->n_drafts = n;
    rules_review(reader, drafts, n);
    spaces_review(reader, drafts, n);
    if (reader->errors->n == 0 && !reader->scratch->failed)
        build_rules(reader, drafts, n);
}
