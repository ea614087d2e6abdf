/* SPDX-License-Identifier: Apache-2.0 */
#include "config/moved.h"

#include "base/buf.h"
#include "base/check.h"
#include "config/warnings.h"
#include "core/request/rule_index.h"

#define LINES_MAX 32
#define TEXT_MAX ((size_t)64 * 1024)
#define LONGEST ((size_t)TEMPLATE_PATH_PARAMS_MAX + 1) /* longer paths meet what these meet */

struct telling {
    const struct rule_set *before;
    const struct rule_set *after;
    struct slice value; /* no rule has it for a segment of its own */
    void (*report)(void *argument, struct slice line);
    void *argument;
    size_t n;
};

static bool is_full(const struct telling *telling)
{
    CHECK(telling->n <= LINES_MAX);
    return telling->n == LINES_MAX;
}

/* Ends the line with its class. */
static void tell_move(struct telling *telling, struct buf *line)
{
    if (is_full(telling))
        return;
    if (++telling->n == LINES_MAX) {
        buf_clear(line);
        buf_add_str(line, "there are more such lines than are shown here");
    }
    buf_printf(line, " [%s]", warning_name(WARNING_IDENTITY_MOVED));
    if (buf_ok(line))
        telling->report(telling->argument, buf_slice(line));
}

static bool is_compared(const struct config *before, const struct config *after)
{
    return config_has_gateway(before) && config_has_gateway(after) &&
           !warning_is_allowed(after->allowed, WARNING_IDENTITY_MOVED);
}

static struct telling start_telling(const struct config *before, const struct config *after,
                                    void (*report)(void *argument, struct slice line),
                                    void *argument)
{
    return (struct telling){.before = before->gateway.rules,
                            .after = after->gateway.rules,
                            .report = report,
                            .argument = argument};
}

/* ---- a path that two patterns take ---- */

static bool holds_text(struct slice text, struct slice part)
{
    return text.len > 0 && memmem(text.at, text.len, part.at, part.len);
}

/* Whether a literal holds `part`; `beside`: one of those round parameters. */
static bool is_held_in(const struct rule_set *set, bool beside, struct slice part)
{
    for (size_t i = 0; set && i < set->n; i++)
        for (size_t k = 0; k < set->rules[i].match.n_segments; k++) {
            const struct rule_segment *segment = &set->rules[i].match.segments[k];
            if (holds_text(segment->before, part) || holds_text(segment->after, part) ||
                (!beside && !segment->is_param && holds_text(segment->text, part)))
                return true;
        }
    return false;
}

static bool is_held_by_rule(const struct telling *telling, bool beside, struct slice part)
{
    return is_held_in(telling->before, beside, part) ||
           is_held_in(telling->before->inboxes, beside, part) ||
           is_held_in(telling->after, beside, part) ||
           is_held_in(telling->after->inboxes, beside, part);
}

/* A path with such a value is taken by a rule only if all paths of its pattern are: its first and
 * last characters are in no literal beside a parameter, as long as one of them is left for that. */
static void choose_value(const struct telling *telling, struct buf *value)
{
    static const char edges[] = "-abcdefghijklmnopqrstuvwxyz0123456789";
    bool as_it_is =
        !is_held_by_rule(telling, true, SLICE("a")) && !is_held_by_rule(telling, true, SLICE("e"));
    size_t at = 0;
    while (at + 2 < sizeof edges && is_held_by_rule(telling, true, slice_make(edges + at, 1)))
        at++;
    buf_printf(value, as_it_is ? "any-value" : "%cany-value%c", edges[at], edges[at]);
    while (buf_ok(value) && is_held_by_rule(telling, false, buf_slice(value)))
        buf_add_char(value, edges[at]);
}

static bool has_length(const struct rule_match *match, size_t n)
{
    return n == match->n_segments || (match->rest && n > match->n_segments);
}

/* Behind the end of a pattern that takes any rest: any. */
static struct rule_segment segment_at(const struct rule_match *match, size_t i)
{
    return i < match->n_segments ? match->segments[i] : (struct rule_segment){.is_param = true};
}

/* The longer literal, if it begins (or ends) as the other does. False: both cannot be. */
static bool join_paths(struct slice a, struct slice b, bool at_front, struct slice *ret_both)
{
    struct slice shorter = a.len < b.len ? a : b;
    *ret_both = a.len < b.len ? b : a;
    return slice_eq(shorter, at_front ? slice_first(*ret_both, shorter.len)
                                      : slice_skip(*ret_both, ret_both->len - shorter.len));
}

/* A segment that both take. False: there is none. */
static bool write_segment(const struct telling *telling, const struct rule_segment *a,
                          const struct rule_segment *b, struct buf *path)
{
    struct slice value, before, after;
    const struct rule_segment *literal = a->is_param ? b : a, *other = a->is_param ? a : b;
    if (!literal->is_param) {
        buf_add_slice(path, literal->text);
        return rule_segment_takes(other, literal->text, false, &value);
    }
    if (!join_paths(a->before, b->before, true, &before) ||
        !join_paths(a->after, b->after, false, &after))
        return false;
    buf_printf(path, "%.*s%.*s%.*s", SLICE_ARG(before), SLICE_ARG(telling->value),
               SLICE_ARG(after));
    return true;
}

/* A path of `n` segments that both patterns take. False: there is none. */
static bool write_path(const struct telling *telling, const struct rule_match *a,
                       const struct rule_match *b, size_t n, struct buf *path)
{
    buf_clear(path);
    if (!has_length(a, n) || !has_length(b, n))
        return false;
    buf_add_str(path, n == 0 ? "/" : "");
    for (size_t i = 0; i < n; i++) {
        struct rule_segment one = segment_at(a, i), other = segment_at(b, i);
        buf_add_char(path, '/');
        if (!write_segment(telling, &one, &other, path))
            return false;
    }
    return buf_ok(path);
}

/* ---- the rules that it meets ---- */

/* NULL: none. Sources of events come before the rules. */
static const struct rule *matching_rule(const struct rule_set *set, unsigned method,
                                        struct slice text)
{
    struct rule_path path;
    rule_path_split(text, &path);
    const struct rule *source = set->inboxes ? rule_index_first(set->inboxes, method, &path) : NULL;
    return source ? source : rule_index_first(set, method, &path);
}

static bool is_free(const struct rule_set *set, struct slice name)
{
    return !rule_set_named(set, name);
}

/* How `after` would find what `before` has stored, where it can. */
static void add_move_remedy(const struct telling *telling, const struct rule *before,
                            const struct rule *after, struct buf *line)
{
    struct slice space = rule_key_space(before);
    bool joins = template_is_plain_header(&before->key) && template_is_plain_header(&after->key) &&
                 !before->once.on;
    if (joins)
        buf_printf(line, " (to find it, add key_space: %.*s to the rule)", SLICE_ARG(space));
    else if (is_free(telling->after, space))
        buf_printf(line, " (to find it, add formerly: [%.*s] to the rule)", SLICE_ARG(space));
}

static void tell_path(struct telling *telling, const struct rule *before, const struct rule *after,
                      struct slice method, struct slice path)
{
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    bool is_rule = after && after->protect && !after->inbox;
    buf_printf(&line, "%.*s %.*s had rule '%.*s' and now has ", SLICE_ARG(method), SLICE_ARG(path),
               SLICE_ARG(before->name));
    if (is_rule)
        buf_printf(&line, "rule '%.*s', which has other keys", SLICE_ARG(after->name));
    else if (after && after->inbox)
        buf_printf(&line, "source '%.*s' of inbox", SLICE_ARG(after->name));
    else
        buf_add_str(&line, "none that protects it");
    buf_add_str(&line, ": a retry of what ran before runs again");
    if (is_rule)
        add_move_remedy(telling, before, after, &line);
    tell_move(telling, &line);
}

/* The first method by which the path had `before` and has `after` (NULL: no rule). False: none. */
static bool tell_methods(struct telling *telling, const struct rule *before,
                         const struct rule *after, struct slice path)
{
    static const struct {
        unsigned bit;
        struct slice name;
    } methods[] = {{RULE_POST, {"POST", 4}},
                   {RULE_PUT, {"PUT", 3}},
                   {RULE_PATCH, {"PATCH", 5}},
                   {RULE_DELETE, {"DELETE", 6}},
                   {RULE_OTHER, {"REPORT", 6}}}; /* one of the others */
    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if (matching_rule(telling->before, methods[i].bit, path) == before &&
            matching_rule(telling->after, methods[i].bit, path) == after) {
            tell_path(telling, before, after, methods[i].name, path);
            return true;
        }
    return false;
}

static size_t larger_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The first path that `before` had and `after` (NULL: no rule) has. */
static void tell_pair(struct telling *telling, const struct rule *before, const struct rule *after)
{
    const struct rule_match *a = &before->match, *b = after ? &after->match : a;
    BUF_AUTO struct buf path = buf_make(TEXT_MAX);
    size_t n = larger_of(a->n_segments, b->n_segments);
    size_t longest = a->rest && b->rest ? LONGEST : n;
    bool told = false;
    for (; n <= longest && !told && write_path(telling, a, b, n, &path); n++)
        told = tell_methods(telling, before, after, buf_slice(&path));
}

/* Whether it finds what `before` has stored. */
static bool finds_records_of(const struct rule *after, const struct rule *before)
{
    struct slice space = rule_key_space(before);
    return after->protect && !after->inbox &&
           (slice_eq(rule_key_space(after), space) ||
            slice_is_among(space, after->formerly, after->n_formerly));
}

static void tell_pairs(struct telling *telling, const struct rule *before,
                       const struct rule_set *set)
{
    for (size_t i = 0; set && i < set->n && !is_full(telling); i++)
        if (!finds_records_of(&set->rules[i], before))
            tell_pair(telling, before, &set->rules[i]);
}

void moved_report_paths(const struct config *before, const struct config *after,
                        void (*report)(void *argument, struct slice line), void *argument)
{
    BUF_AUTO struct buf value = buf_make(TEXT_MAX);
    if (!is_compared(before, after))
        return;
    struct telling telling = start_telling(before, after, report, argument);
    choose_value(&telling, &value);
    telling.value = buf_slice(&value);
    for (size_t i = 0; i < telling.before->n && !is_full(&telling); i++) {
        const struct rule *rule = &telling.before->rules[i];
        if (!rule->protect)
            continue;
        tell_pairs(&telling, rule, telling.after->inboxes);
        tell_pairs(&telling, rule, telling.after);
        tell_pair(&telling, rule, NULL);
    }
}

/* ---- what is compared of a target ---- */

static bool has_all(const struct slice *names, size_t n, const struct slice *of, size_t n_of)
{
    for (size_t i = 0; i < n_of; i++)
        if (!slice_is_among(of[i], names, n))
            return false;
    return true;
}

static bool same_query(const struct rule *a, const struct rule *b)
{
    return a->query == b->query &&
           has_all(a->query_names, a->n_query_names, b->query_names, b->n_query_names) &&
           has_all(b->query_names, b->n_query_names, a->query_names, a->n_query_names);
}

/* In their order, in which they are hashed. */
static bool same_headers(const struct rule *a, const struct rule *b)
{
    size_t i = 0;
    while (i < a->n_headers && i < b->n_headers && slice_eq(a->headers[i], b->headers[i]))
        i++;
    return i == a->n_headers && i == b->n_headers;
}

static void tell_target(struct telling *telling, const struct rule *before,
                        const struct rule *after)
{
    BUF_AUTO struct buf line = buf_make(TEXT_MAX);
    bool query = !same_query(before, after), headers = !same_headers(before, after);
    if (!query && !headers)
        return;
    buf_printf(&line,
               "rule '%.*s' compares other %s%s%s now: a retry across the reload may be refused as "
               "another request",
               SLICE_ARG(after->name), query ? "query parameters" : "",
               query && headers ? " and " : "", headers ? "headers" : "");
    tell_move(telling, &line);
}

void moved_report_targets(const struct config *before, const struct config *after,
                          void (*report)(void *argument, struct slice line), void *argument)
{
    if (!is_compared(before, after))
        return;
    struct telling telling = start_telling(before, after, report, argument);
    for (size_t i = 0; i < telling.before->n; i++) {
        const struct rule *rule = &telling.before->rules[i];
        const struct rule *heir = rule_set_named(telling.after, rule->name);
        if (rule->protect && heir && heir->protect)
            tell_target(&telling, rule, heir);
    }
}
