/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong between rules, and what is missing. */
#include "base/buf.h"
#include "config/option.h"
#include "config/reader.h"
#include "core/request/trial.h"

static void check_rule_names(struct reader *reader, const struct rule_draft *earlier,
                             const struct rule_draft *later)
{
    const struct node *name = earlier->set[OPTION_name], *other = later->set[OPTION_name];
    if (name && other && slice_eq(name->text, other->text))
        complaints_add(reader->errors, other->place, other->key,
                       "'%.*s' is already the name of the rule on line %zu", SLICE_ARG(other->text),
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
        reader_complain(reader, node, "never reached: rule '%.*s' (line %zu) matches %s first",
                        SLICE_ARG(name->text), drafts[i]->set[OPTION_match]->place.line,
                        covered == match->methods ? "all of it" : "the last of its methods");
        return;
    }
}

/* Records are found by name: each name, old or present, leads to one rule. */
static void check_former(struct reader *reader, const struct rule_draft *draft,
                         const struct rule_draft *other)
{
    const struct node *node = draft->set[OPTION_formerly], *name = other->set[OPTION_name];
    for (size_t i = 0; i < draft->rule.n_formerly; i++) {
        struct slice former = draft->rule.formerly[i];
        if (name && slice_eq(former, other->rule.name))
            reader_complain(reader, node, "'%.*s' is the current name of the rule on line %zu",
                            SLICE_ARG(former), name->place.line);
        if (draft != other && slice_is_among(former, other->rule.formerly, other->rule.n_formerly))
            reader_complain(reader, node, "'%.*s' is an earlier name of another rule, too",
                            SLICE_ARG(former));
    }
}

/* ---- notes ---- */

#define NAMES_MAX ((size_t)1024)
#define NAMES_SHOWN 8

static bool holds_500(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_HOLD && rule->hold_us == 0 &&
           remember_policy_sort(&rule->responses, 500) == SORT_IN_DOUBT;
}

/* The client's own key, any text, spelled in two ways. */
static bool probes_any_key(const struct rule *rule)
{
    bool quoted =
        rule->forward_key == KEY_FORWARD_QUOTED ||
        (rule->forward_key == KEY_FORWARD_BY_SYNTAX && rule->key_syntax == KEY_SYNTAX_STRICT);
    return rule->unknown == RECORD_UNKNOWN_PROBE && template_uses(&rule->probe, TEMPLATE_KEY) &&
           template_is_plain_header(&rule->key) && !rule->key.parts[0].format &&
           rule->key_format_kind == KEY_FORMAT_ANY && !quoted;
}

/* A value of the request, encoded in the key, and so encoded again in the probe's {key}. */
static bool probes_encoded_key(const struct rule *rule)
{
    static const unsigned values = 1U << TEMPLATE_HEADER | 1U << TEMPLATE_BODY |
                                   1U << TEMPLATE_FORM | 1U << TEMPLATE_PATH | 1U << TEMPLATE_QUERY;
    if (rule->unknown != RECORD_UNKNOWN_PROBE || !template_uses(&rule->probe, TEMPLATE_KEY) ||
        template_is_plain_header(&rule->key))
        return false;
    for (size_t i = 0; i < rule->key.n; i++)
        if (values >> rule->key.parts[i].source & 1 && !rule->key.parts[i].format)
            return true;
    return false;
}

static bool holds_for_a_while(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_HOLD && rule->hold_us > 0;
}

static bool probes_without_tenant(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_PROBE && !rule_probe_names_tenant(rule);
}

static bool asks_always(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_PROBE && rule->first == RECORD_FIRST_ALWAYS;
}

static bool cannot_be_tried(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_PROBE && !trial_is_possible(rule);
}

static bool lacks_error(const struct rule *rule)
{
    return rule->errors && rule->errors->lacks_error;
}

static bool has_participant(const struct rule *rule)
{
    return rule->unknown == RECORD_UNKNOWN_PARTICIPANT;
}

static const struct rule_note {
    enum warning class;
    bool (*applies)(const struct rule *rule);
    const char *what;
    const char *advice;
    enum option_id option; /* it is of; 0: `unknown` */
} rule_notes[] = {
    {WARNING_ERROR_MEMBER, lacks_error,
     "a template of a 409 has no member `error`: stripe-node takes such a response for a success",
     "add one to each, unless no such client calls", OPTION_errors},
    {WARNING_HELD_500, holds_500, "after a 500 the outcome is unknown until an operator settles it",
     "add a probe, or not_done: [500] if the service rolls back on every error"},
    {WARNING_HOLD_ENDS, holds_for_a_while,
     "what is in doubt is done at most once until its hold ends, and may be done once more after "
     "each end; the time is the store's",
     "hold: forever keeps it until an operator settles it"},
    {WARNING_PROBE_TENANT, probes_without_tenant,
     "the probe names no tenant: only the caller's headers say whose operation is meant, and a "
     "service that looks for the key among all tenants' gives one tenant another's response",
     "look only among the caller's own, or add {tenant} to the target unless it is a credential"},
    {WARNING_PROBE_KEY, probes_any_key,
     "a key such as a,b is quoted in Idempotency-Key and bare in the probe's {key}, and one with "
     "a / cannot be probed",
     "add a key_format that refuses both"},
    {WARNING_PROBE_KEY, cannot_be_tried,
     "the probe has no {key}, or more of the request beside it, so it is not tried whether the "
     "service finds what does not exist",
     "see that it responds 404, or what not_found names, to what it does not know"},
    {WARNING_PROBE_FIRST, asks_always,
     "each new operation costs a GET and a commit before it is sent",
     "first: restored asks only while the store may lack records"},
    {WARNING_PARTICIPANT_COMPLETES, has_participant,
     "exactly once holds for what the service does in the transaction in which it calls "
     "pawl.complete with its Idempotency-Token",
     "pawl_participant_missing_total counts 2xx responses without it"},
    {WARNING_PROBE_KEY, probes_encoded_key,
     "{key} is the key as Idempotency-Key has it, where a value such as a b is a%20b",
     "where the service looks up its own value, name that in the target, such as {body:/id}"},
};

static bool is_noted_rule(const struct rule_draft *draft, const struct rule_note *note)
{
    return draft->rule.protect && draft->set[OPTION_name] &&
           !warning_is_allowed(draft->allowed, note->class) && note->applies(&draft->rule);
}

/* One line for all rules that it is about. */
static void note_rules(struct reader *reader, struct rule_draft *const *drafts, size_t n,
                       const struct rule_note *note)
{
    const struct rule_draft *first = NULL;
    BUF_AUTO struct buf names = buf_make(NAMES_MAX);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_noted_rule(drafts[i], note))
            continue;
        first = first ? first : drafts[i];
        if (count++ < NAMES_SHOWN)
            buf_printf(&names, "%s%.*s", count > 1 ? ", " : "", SLICE_ARG(drafts[i]->rule.name));
    }
    if (!first)
        return;
    if (count > NAMES_SHOWN)
        buf_printf(&names, " and %zu more", count - NAMES_SHOWN);
    reader->scratch->failed |= !buf_ok(&names);
    complaints_add(reader->notes, first->set[OPTION_name]->place,
                   note->option ? option_at(note->option)->name : SLICE("unknown"),
                   "%s, in %.*s (%s) [%s]", note->what, SLICE_ARG(buf_slice(&names)), note->advice,
                   warning_name(note->class));
}

/* ---- what takes, and what gives back ---- */

/* As a segment, or as a verb behind one: /orders/{id}:cancel. */
static bool has_segment(const struct rule_match *match, struct slice text)
{
    for (size_t i = 0; i < match->n_segments; i++) {
        const struct rule_segment *segment = &match->segments[i];
        bool is_verb = segment->after.len > 0 && segment->after.at[0] == ':';
        if (slice_eq(segment->is_param ? slice_skip(segment->after, is_verb) : segment->text, text))
            return true;
    }
    return false;
}

/* What is made by POST, and how it is reversed: by a rule on one of these words, or DELETE of it.
 */
static const struct {
    const char *noun;
    const char *words[6];
} reverses[] = {
    {"payments", {"refunds", "refund", "reversals", "void", "cancel"}},
    {"charges", {"refunds", "refund", "reversals", "void", "cancel"}},
    {"captures", {"refunds", "refund", "reversals"}},
    {"payouts", {"reversals", "reverse", "cancel"}},
    {"transfers", {"reversals", "reverse", "cancel"}},
    {"authorizations", {"voids", "void", "reversals", "release"}},
    {"holds", {"releases", "release", "voids", "void", "cancel"}},
    {"orders", {"refunds", "returns", "cancellations", "cancel"}},
    {"purchases", {"refunds", "returns", "reversals", "cancel"}},
    {"bookings", {"cancellations", "cancel"}},
    {"reservations", {"cancellations", "cancel", "release"}},
    {"subscriptions", {"cancellations", "cancel"}},
    {"grants", {"revocations", "revoke"}},
};
/* POST .../payments */
static bool rule_makes(const struct rule *rule, const char *noun)
{
    const struct rule_match *match = &rule->match;
    return rule->protect && match->methods & RULE_POST && match->n_segments > 0 && !match->rest &&
           !match->segments[match->n_segments - 1].is_param &&
           slice_eq(match->segments[match->n_segments - 1].text, slice_of(noun));
}

static bool reverses_it(const struct rule *rule, const struct rule *maker, size_t row)
{
    struct rule_match one = maker->match;
    one.methods = RULE_DELETE;
    if (rule->match.rest && rule_match_covers(&rule->match, &one))
        return true;
    for (size_t i = 0; i < 6 && reverses[row].words[i]; i++)
        if (has_segment(&rule->match, slice_of(reverses[row].words[i])))
            return true;
    return rule->match.methods & RULE_DELETE &&
           has_segment(&rule->match, slice_of(reverses[row].noun));
}

static struct rule_draft *find_maker(struct rule_draft *const *drafts, size_t n, const char *noun)
{
    for (size_t i = 0; i < n; i++)
        if (rule_makes(&drafts[i]->rule, noun))
            return drafts[i];
    return NULL;
}

static void note_reverse(struct reader *reader, struct rule_draft *const *drafts, size_t n,
                         size_t row)
{
    struct rule_draft *maker = find_maker(drafts, n, reverses[row].noun);
    bool reversed = !maker;
    for (size_t i = 0; i < n && !reversed; i++)
        reversed = reverses_it(&drafts[i]->rule, &maker->rule, row);
    if (reversed || warning_is_allowed(maker->allowed, WARNING_REVERSE_MISSING))
        return;
    complaints_add(reader->notes, maker->set[OPTION_match]->place, SLICE("match"),
                   "%s have a rule, and no rule covers their reversal (such as /%s or DELETE) [%s]",
                   reverses[row].noun, reverses[row].words[0],
                   warning_name(WARNING_REVERSE_MISSING));
}

void rules_review(struct reader *reader, struct rule_draft *const *drafts, size_t n)
{
    for (size_t later = 0; later < n; later++) {
        for (size_t earlier = 0; earlier < later; earlier++)
            check_rule_names(reader, drafts[earlier], drafts[later]);
        check_reached(reader, drafts, later);
        for (size_t other = 0; other < n; other++)
            check_former(reader, drafts[later], drafts[other]);
        if (drafts[later]->rule.protect)
            rule_review(reader, drafts[later]);
    }
    for (size_t row = 0; row < COUNT_OF(reverses); row++)
        note_reverse(reader, drafts, n, row);
    for (size_t i = 0; i < COUNT_OF(rule_notes); i++)
        note_rules(reader, drafts, n, &rule_notes[i]);
}
