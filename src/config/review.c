/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong between rules, and what is allowed but risky. */
#include "config/reader.h"

static void check_names(struct reader *reader, const struct rule_draft *earlier,
                        const struct rule_draft *later)
{
    const struct node *name = earlier->set[OPTION_name], *other = later->set[OPTION_name];
    if (name && other && slice_eq(name->text, other->text))
        complaints_add(reader->errors, other->place, other->key,
                       "'%.*s' is the name of another rule (line %zu)", SLICE_ARG(other->text),
                       name->place.line);
}

/* All of what the rule matches may be taken by one earlier rule, or by several, each some of its
 * methods. A `match` that was refused has no methods. */
static void check_reached(struct reader *reader, struct rule_draft *const *drafts, size_t later)
{
    const struct rule_match *match = &drafts[later]->rule.match;
    const struct node *node = drafts[later]->set[OPTION_match];
    unsigned taken = 0;
    for (size_t i = 0; node && i < later && match->methods; i++) {
        const struct node *name = drafts[i]->set[OPTION_name];
        unsigned covered = rule_match_covers(&drafts[i]->rule.match, match);
        taken |= covered;
        if (taken != match->methods || !name)
            continue;
        complaints_add(reader->errors, node->place, node->key,
                       "never reached: rule '%.*s' (line %zu) matches %s first",
                       SLICE_ARG(name->text), drafts[i]->set[OPTION_match]->place.line,
                       covered == match->methods ? "all of it" : "the last of its methods");
        return;
    }
}

static bool was_called(const struct rule *rule, struct slice name)
{
    for (size_t i = 0; i < rule->n_formerly; i++)
        if (slice_eq(rule->formerly[i], name))
            return true;
    return false;
}

/* Records are found by name: each name, old or present, leads to one rule. */
static void check_former(struct reader *reader, const struct rule_draft *draft,
                         const struct rule_draft *other)
{
    const struct node *node = draft->set[OPTION_formerly], *name = other->set[OPTION_name];
    for (size_t i = 0; i < draft->rule.n_formerly; i++) {
        struct slice former = draft->rule.formerly[i];
        if (name && slice_eq(former, other->rule.name))
            complaints_add(reader->errors, node->place, node->key,
                           "'%.*s' is the present name of the rule in line %zu", SLICE_ARG(former),
                           name->place.line);
        if (draft != other && was_called(&other->rule, former))
            complaints_add(reader->errors, node->place, node->key,
                           "'%.*s' is an earlier name of another rule, too", SLICE_ARG(former));
    }
}

static bool names_header(const struct template *template, struct slice name)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source == TEMPLATE_HEADER &&
            slice_eq_nocase(template->parts[i].text, name))
            return true;
    return false;
}

static void warn_of_tenant(struct reader *reader, const struct rule_draft *draft)
{
    const struct node *node = draft->set[OPTION_tenant];
    const struct rule *rule = &draft->rule;
    if (!node || rule->tenant_none)
        return;
    if (names_header(&rule->tenant, SLICE("Authorization")))
        complaints_add(reader->warnings, node->place, node->key,
                       "a refreshed token is another tenant, whose retries run again (better a "
                       "stable id that the layer in front sets)");
    if (!rule->trust_tenant && !rule->authorizes && !rule_hides_tenant(rule))
        complaints_add(reader->warnings, node->place, node->key,
                       "who can name a tenant can read its answers (authorize: GET /me asks the "
                       "service before each replay; trust_tenant: true says that the layer in "
                       "front sets it and clients cannot)");
}

static void warn_of_retry(struct reader *reader, const struct rule_draft *draft)
{
    const struct node *node = draft->set[OPTION_unknown];
    if (node && draft->rule.unknown == RECORD_UNKNOWN_RETRY)
        complaints_add(reader->warnings, node->place, node->key,
                       "under retry the upstream itself must know a repeated key, for longer than "
                       "ttl + timeout");
}

static void warn_of_store_down(struct reader *reader, const struct rule_draft *draft)
{
    const struct node *node = draft->set[OPTION_store_down];
    if (node && draft->rule.store_down_pass)
        complaints_add(reader->warnings, node->place, node->key,
                       "while the record store is down requests pass unprotected: a retry may "
                       "happen twice");
}

static bool says_500(const struct rule_draft *draft)
{
    for (size_t i = 0; i < draft->in_doubt.n; i++)
        if (draft->in_doubt.at[i] == 500)
            return true;
    return false;
}

/* A 500 that only a person settles. One line for all rules. */
static void remind_of_500(struct reader *reader, struct rule_draft *const *drafts, size_t n)
{
    const struct rule_draft *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct rule *rule = &drafts[i]->rule;
        if (!rule->protect || rule->unknown != RECORD_UNKNOWN_HOLD || says_500(drafts[i]) ||
            fate_policy_sort(&rule->answers, 500) != FATE_SORT_IN_DOUBT)
            continue;
        first = first ? first : drafts[i];
        count++;
    }
    if (first && first->set[OPTION_name])
        complaints_add(reader->reminders, first->set[OPTION_name]->place, SLICE("in_doubt"),
                       "a 500 leaves the outcome unknown until a person settles it, in %zu rule%s "
                       "from here on (unknown: {probe: ...} asks the service, not_done: [500] if "
                       "it rolls back on every error)",
                       count, count == 1 ? "" : "s");
}

static bool has_segment(const struct rule_match *match, struct slice text)
{
    for (size_t i = 0; i < match->n_segments; i++)
        if (!match->segments[i].is_param && slice_eq(match->segments[i].text, text))
            return true;
    return false;
}

/* POST .../payments */
static bool takes_money(const struct rule *rule)
{
    const struct rule_match *match = &rule->match;
    return rule->protect && match->methods & RULE_POST && match->n_segments > 0 &&
           !match->segments[match->n_segments - 1].is_param &&
           slice_eq(match->segments[match->n_segments - 1].text, SLICE("payments"));
}

/* Anything on refunds, or DELETE of a payment. */
static bool gives_back(const struct rule *rule)
{
    return has_segment(&rule->match, SLICE("refunds")) ||
           (rule->match.methods & RULE_DELETE && has_segment(&rule->match, SLICE("payments")));
}

static void warn_of_reverse(struct reader *reader, struct rule_draft *const *drafts, size_t n)
{
    const struct rule_draft *payment = NULL;
    for (size_t i = 0; i < n; i++) {
        if (gives_back(&drafts[i]->rule))
            return;
        if (!payment && takes_money(&drafts[i]->rule))
            payment = drafts[i];
    }
    if (payment)
        complaints_add(reader->warnings, payment->set[OPTION_match]->place, SLICE("match"),
                       "payments have a rule, their reverse has none (expected one for /refunds or "
                       "DELETE)");
}

void rules_review(struct reader *reader, struct rule_draft *const *drafts, size_t n)
{
    for (size_t later = 0; later < n; later++) {
        for (size_t earlier = 0; earlier < later; earlier++)
            check_names(reader, drafts[earlier], drafts[later]);
        check_reached(reader, drafts, later);
        for (size_t other = 0; other < n; other++)
            check_former(reader, drafts[later], drafts[other]);
        if (!drafts[later]->rule.protect)
            continue;
        warn_of_tenant(reader, drafts[later]);
        warn_of_retry(reader, drafts[later]);
        warn_of_store_down(reader, drafts[later]);
    }
    warn_of_reverse(reader, drafts, n);
    remind_of_500(reader, drafts, n);
}
