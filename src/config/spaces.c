/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that share their keys (`key_space:`): they must make the same key of the same request. */
#include "base/buf.h"
#include "config/reader.h"

#define TEMPLATE_MAX ((size_t)8 * 1024)

static bool is_same_template(struct arena *scratch, const struct template *one,
                             const struct template *other)
{
    BUF_AUTO struct buf a = buf_make(TEMPLATE_MAX), b = buf_make(TEMPLATE_MAX);
    template_write(one, &a);
    template_write(other, &b);
    scratch->failed |= !buf_ok(&a) || !buf_ok(&b);
    return slice_eq(buf_slice(&a), buf_slice(&b));
}

static bool is_same_tenant(struct arena *scratch, const struct rule *one, const struct rule *other)
{
    return one->tenant_none == other->tenant_none &&
           rule_hides_tenant(one) == rule_hides_tenant(other) &&
           (one->tenant_none || is_same_template(scratch, &one->tenant, &other->tenant));
}

static bool folds_names(const struct rule *rule)
{
    return key_format_kind_folds(rule->key_format_kind) ||
           key_format_folds(rule->key.parts[0].format);
}

/* In what they differ; NULL: in nothing that counts. Both have a plain header key. */
static const char *key_difference(struct reader *reader, const struct rule *one,
                                  const struct rule *other)
{
    if (!slice_eq_nocase(one->key.parts[0].text, other->key.parts[0].text))
        return "key";
    if (!is_same_tenant(reader->scratch, one, other))
        return "tenant";
    if (one->key_syntax != other->key_syntax)
        return "key_syntax";
    return folds_names(one) != folds_names(other) ? "key_format, of which only one folds upper case"
                                                  : NULL;
}

static bool is_in_a_space(const struct rule_draft *draft)
{
    return draft->set[OPTION_key_space] && !slice_eq(draft->rule.key_space, draft->rule.name);
}

static bool check_key_space(struct reader *reader, const struct rule_draft *draft,
                            const struct node *node)
{
    bool plain = template_is_plain_header(&draft->rule.key);
    if (!plain)
        reader_complain(reader, node,
                        "rules that share keys take them from a header alone, and the key of rule "
                        "'%.*s' is composed (expected key: \"{header:Idempotency-Key}\")",
                        SLICE_ARG(draft->rule.name));
    return plain;
}

static void check_pair(struct reader *reader, const struct rule_draft *draft,
                       const struct rule_draft *other)
{
    const struct node *node = draft->set[OPTION_key_space];
    if (!slice_eq(draft->rule.key_space, rule_key_space(&other->rule)) ||
        !check_key_space(reader, other, node))
        return;
    const char *differs = key_difference(reader, &draft->rule, &other->rule);
    if (differs)
        reader_complain(reader, node,
                        "the rules '%.*s' and '%.*s' share keys, and differ in their %s (expected "
                        "the same)",
                        SLICE_ARG(other->rule.name), SLICE_ARG(draft->rule.name), differs);
}

/* The space of a rule that has left its own is not the one that its name says. */
static void check_joined(struct reader *reader, const struct rule_draft *draft,
                         const struct rule_draft *other)
{
    const struct node *node = draft->set[OPTION_key_space];
    if (slice_eq(draft->rule.key_space, other->rule.name) && is_in_a_space(other))
        reader_complain(reader, node,
                        "the rule '%.*s' is in the key space '%.*s' (expected key_space: %.*s)",
                        SLICE_ARG(other->rule.name), SLICE_ARG(other->rule.key_space),
                        SLICE_ARG(other->rule.key_space));
}

static bool is_alone(const struct rule_draft *draft, struct rule_draft *const *drafts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (drafts[i] != draft && slice_eq(rule_key_space(&drafts[i]->rule), draft->rule.key_space))
            return false;
    return true;
}

/* A space of its own is that of an earlier name. A record of that name that goes on keeps it, and
 * would take a value by it, where nobody who brings the value looks. */
static void check_values(struct reader *reader, const struct rule_draft *draft,
                         struct rule_draft *const *drafts, size_t n)
{
    bool is_at_risk = draft->set[OPTION_once] && draft->rule.n_formerly == 0;
    if (is_at_risk && is_alone(draft, drafts, n))
        reader_complain(reader, draft->set[OPTION_key_space],
                        "a rule with `once` finds the values of the records in this space by its "
                        "earlier names (expected formerly: [%.*s] beside it)",
                        SLICE_ARG(draft->rule.key_space));
}

void spaces_review(struct reader *reader, struct rule_draft *const *drafts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_in_a_space(drafts[i]) || !drafts[i]->set[OPTION_name])
            continue;
        reader->draft = drafts[i];
        check_values(reader, drafts[i], drafts, n);
        if (!check_key_space(reader, drafts[i], drafts[i]->set[OPTION_key_space]))
            continue;
        for (size_t other = 0; other < n; other++) {
            if (other == i || !drafts[other]->rule.protect)
                continue;
            check_joined(reader, drafts[i], drafts[other]);
            if (other < i || !is_in_a_space(drafts[other]))
                check_pair(reader, drafts[i], drafts[other]);
        }
    }
}
