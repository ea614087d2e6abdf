/* SPDX-License-Identifier: Apache-2.0 */
/* Which rule a request meets; declared in core/rule.h. */
#include "base/check.h"
#include "core/path.h"
#include "core/rule.h"

/* ---- one method, one path ---- */

static bool match_path(const struct rule_match *match, struct slice path,
                       struct slice *ret_segments)
{
    size_t n = 0;
    if (path.len > 0 && path.at[0] == '/')
        path = slice_skip(path, 1);
    for (struct slice rest = path; rest.at && path.len > 0; n++) {
        struct slice segment;
        rest = slice_cut(rest, '/', &segment);
        if (n == match->n_segments)
            return false;
        if (!match->segments[n].is_param && !slice_eq(match->segments[n].text, segment))
            return false;
        ret_segments[n] = segment;
    }
    return n == match->n_segments;
}

static const struct rule *first_match(const struct rule_set *set, struct slice method,
                                      struct slice path, struct slice *ret_segments)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct rule *rule = &set->rules[i];
        if (slice_eq_nocase(rule->match.method, method) &&
            match_path(&rule->match, path, ret_segments))
            return rule;
    }
    return NULL;
}

static bool has_method(const struct rule_set *set, struct slice method)
{
    for (size_t i = 0; i < set->n; i++)
        if (slice_eq_nocase(set->rules[i].match.method, method))
            return true;
    return false;
}

/* Beyond that a path is not tried in all its readings (up to 96, for each ruled method): refused.
 */
#define READINGS_PATH_MAX 2048

/* Whether any reading of the path meets a rule. */
static enum rule_find search_readings(const struct rule_set *set, struct slice method,
                                      struct slice normalised, struct arena *arena)
{
    struct slice segments[TEMPLATE_PATH_PARAMS_MAX];
    unsigned choices = path_choices(normalised);
    if (!has_method(set, method))
        return RULE_NONE;
    if (normalised.len > READINGS_PATH_MAX)
        return RULE_PATH_AMBIGUOUS;
    char *text = arena_alloc(arena, normalised.len + 1);
    if (!text)
        return RULE_NO_MEMORY;
    for (unsigned reading = 0; reading < PATH_READINGS; reading++) {
        if (reading & ~choices || (reading & PATH_NUL_ENDS && reading & PATH_NUL_DROPS))
            continue;
        size_t len = path_read(normalised, reading, text);
        if (first_match(set, method, slice_make(text, len), segments))
            return RULE_PATH_AMBIGUOUS;
    }
    return RULE_NONE;
}

static void fill_facts(const struct rule *rule, const struct slice *segments,
                       struct template_facts *facts)
{
    facts->route = rule->name;
    facts->n_params = 0;
    for (size_t i = 0; i < rule->match.n_segments; i++)
        if (rule->match.segments[i].is_param)
            facts->params[facts->n_params++] =
                (struct template_path_param){rule->match.segments[i].text, segments[i]};
}

/* The first rule for one reading of the method. */
static enum rule_find find_method(const struct rule_set *set, struct slice method,
                                  struct slice path, struct arena *arena,
                                  struct rule_found *ret_found)
{
    struct slice segments[TEMPLATE_PATH_PARAMS_MAX];
    struct slice normal = path_normalise(path, arena);
    if (!normal.at)
        return RULE_NO_MEMORY;
    if (path_is_ambiguous(path))
        return search_readings(set, method, normal, arena);
    const struct rule *rule = first_match(set, method, normal, segments);
    if (!rule)
        return path_choices(normal) ? search_readings(set, method, normal, arena) : RULE_NONE;
    fill_facts(rule, segments, &ret_found->facts);
    ret_found->facts.method = method;
    ret_found->rule = rule;
    ret_found->path = normal;
    return RULE_FOUND;
}

/* ---- methods ---- */

static const struct slice known[] = {
    {"GET", 3},  {"HEAD", 4}, {"OPTIONS", 7}, {"CONNECT", 7}, {"TRACE", 5},
    {"POST", 4}, {"PUT", 3},  {"PATCH", 5},   {"DELETE", 6},
};
#define N_KNOWN (sizeof(known) / sizeof(known[0]))
#define N_SAFE 3    /* the first ones */
#define N_UNRULED 5 /* and those that are never served */

/* The index in `known`, without regard to case; N_KNOWN: none of them. */
static size_t known_method(struct slice method)
{
    size_t i = 0;
    while (i < N_KNOWN && !slice_eq_nocase(known[i], method))
        i++;
    return i;
}

/* CGI and what descends from it gives X_Method_Override and X-Method-Override one name. */
static bool is_named(struct slice name, struct slice wanted)
{
    if (name.len != wanted.len)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i] == '_' ? '-' : name.at[i];
        if (!slice_eq_nocase(slice_make(&c, 1), slice_make(wanted.at + i, 1)))
            return false;
    }
    return true;
}

bool rule_is_override(struct slice name)
{
    return is_named(name, SLICE("X-HTTP-Method-Override")) ||
           is_named(name, SLICE("X-HTTP-Method")) || is_named(name, SLICE("X-Method-Override"));
}

/* What override headers say. */
struct overrides {
    size_t n_lines;
    size_t n;                  /* of methods named, known or not */
    unsigned named;            /* known ones, a bit each */
    size_t order[N_KNOWN + 1]; /* known ones in their order of arrival, each once */
    size_t n_order;
};

static void add_line(struct overrides *overrides, struct slice value)
{
    overrides->n_lines++;
    for (struct slice rest = value; rest.at;) {
        struct slice element;
        rest = slice_cut(rest, ',', &element);
        size_t i = known_method(slice_trim(element));
        overrides->n++;
        if (i == N_KNOWN || overrides->named & 1U << i)
            continue;
        overrides->named |= 1U << i;
        overrides->order[overrides->n_order++] = i;
    }
}

static struct overrides find_overrides(const struct headers *headers)
{
    struct overrides overrides = {0};
    for (size_t i = 0; headers && i < headers->n; i++)
        if (rule_is_override(headers->at[i].name))
            add_line(&overrides, headers->at[i].value);
    return overrides;
}

struct slice rule_method(const struct headers *headers, struct slice method)
{
    struct overrides overrides = find_overrides(headers);
    return overrides.n_order > 0 ? known[overrides.order[0]] : method;
}

bool rule_request_is_safe(const struct headers *headers, struct slice method)
{
    struct overrides overrides = find_overrides(headers);
    return known_method(method) < N_SAFE && !(overrides.named >> N_SAFE);
}

static bool is_refused(size_t method)
{
    return method >= N_SAFE && method < N_UNRULED;
}

static bool names_refused(const struct overrides *overrides)
{
    for (size_t i = 0; i < overrides->n_order; i++)
        if (is_refused(overrides->order[i]))
            return true;
    return false;
}

/* The sent method and every override as sent: a text that is no method. */
static struct slice join_methods(const struct rule_request *request, struct arena *arena)
{
    size_t size = request->method.len;
    for (size_t i = 0; i < request->headers->n; i++)
        if (rule_is_override(request->headers->at[i].name))
            size += 1 + request->headers->at[i].value.len;
    char *text = arena_alloc(arena, size);
    if (!text)
        return slice_make(NULL, 0);
    memcpy(text, request->method.at, request->method.len);
    size_t len = request->method.len;
    for (size_t i = 0; i < request->headers->n; i++) {
        struct slice value = request->headers->at[i].value;
        if (!rule_is_override(request->headers->at[i].name))
            continue;
        text[len++] = ',';
        if (value.len > 0)
            memcpy(text + len, value.at, value.len);
        len += value.len;
    }
    return slice_make(text, len);
}

/* The rule of the first method that has one: those named, then the one sent. */
static enum rule_find find_by_methods(const struct rule_set *set,
                                      const struct rule_request *request,
                                      const struct overrides *overrides, struct arena *arena,
                                      struct rule_found *ret_found)
{
    enum rule_find find = RULE_NONE;
    for (size_t i = 0; find == RULE_NONE && i < overrides->n_order; i++)
        find = find_method(set, known[overrides->order[i]], request->path, arena, ret_found);
    if (find != RULE_NONE)
        return find;
    return find_method(set, request->method, request->path, arena, ret_found);
}

enum rule_find rule_find_request(const struct rule_set *set, const struct rule_request *request,
                                 struct arena *arena, struct rule_found *ret_found)
{
    struct rule_found found = {.facts.headers = request->headers};
    struct overrides overrides = find_overrides(request->headers);
    if (is_refused(known_method(request->method)) || names_refused(&overrides))
        return RULE_METHOD_REFUSED;
    enum rule_find find = find_by_methods(set, request, &overrides, arena, &found);
    if (find != RULE_FOUND)
        return find;
    bool plain = overrides.n == 1 && overrides.n_order == 1 &&
                 slice_eq(found.facts.method, known[overrides.order[0]]);
    if (overrides.n_lines > 0 && !plain)
        found.facts.method = join_methods(request, arena);
    if (!found.facts.method.at)
        return RULE_NO_MEMORY;
    *ret_found = found;
    return RULE_FOUND;
}
