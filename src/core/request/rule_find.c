/* SPDX-License-Identifier: Apache-2.0 */
/* Which rule a request meets; declared in core/request/rule.h. */
#include "base/check.h"
#include "core/request/path.h"
#include "core/request/rule_index.h"

/* ---- methods ---- */

static const struct slice known[] = {
    {"GET", 3},  {"HEAD", 4}, {"OPTIONS", 7}, {"CONNECT", 7}, {"TRACE", 5},
    {"POST", 4}, {"PUT", 3},  {"PATCH", 5},   {"DELETE", 6},
};
#define N_SAFE 3    /* the first ones */
#define N_UNRULED 5 /* and those that are never served */

/* The index in `known`, without regard to case; COUNT_OF(known): none of them. */
static size_t known_method(struct slice method)
{
    size_t i = 0;
    while (i < COUNT_OF(known) && !slice_eq_nocase(known[i], method))
        i++;
    return i;
}

bool rule_is_override(struct slice name)
{
    return headers_is_dashed(name, SLICE("X-HTTP-Method-Override")) ||
           headers_is_dashed(name, SLICE("X-HTTP-Method")) ||
           headers_is_dashed(name, SLICE("X-Method-Override"));
}

/* The methods of a request: the sent one, and those that overrides name. */
struct sent_methods {
    size_t n_lines; /* of overrides */
    unsigned ruled; /* RULE_POST and so on */
    bool safe;      /* one of them is GET, HEAD or OPTIONS */
    bool refused;   /* one of them is CONNECT or TRACE */
};

static unsigned rule_bit(size_t method)
{
    static const unsigned bits[] = {RULE_POST, RULE_PUT, RULE_PATCH, RULE_DELETE};
    return method < COUNT_OF(known) ? bits[method - N_UNRULED] : RULE_OTHER;
}

static void add_method(struct sent_methods *sent, size_t method)
{
    if (method < N_SAFE)
        sent->safe = true;
    else if (method < N_UNRULED)
        sent->refused = true;
    else
        sent->ruled |= rule_bit(method);
}

/* An empty element names nothing. */
static void add_override_line(struct sent_methods *sent, struct slice value)
{
    sent->n_lines++;
    struct slice element;
    while (slice_next(&value, ',', &element)) {
        element = slice_trim(element);
        if (element.len > 0)
            add_method(sent, known_method(element));
    }
}

static struct sent_methods read_overrides(const struct headers *headers)
{
    struct sent_methods sent = {0};
    for (size_t i = 0; headers && i < headers->n; i++)
        if (rule_is_override(headers->at[i].name))
            add_override_line(&sent, headers->at[i].value);
    return sent;
}

bool rule_request_is_safe(const struct headers *headers, struct slice method)
{
    struct sent_methods sent = read_overrides(headers);
    return known_method(method) < N_SAFE && sent.ruled == 0 && !sent.refused;
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

/* ---- one reading ---- */

/* The rules that one path meets, under each of the methods: one, or none of them. */
static bool is_met_alike(const struct rule_set *set, const struct sent_methods *sent,
                         const struct rule_path *path, const struct rule **ret_rule)
{
    bool first = !sent->safe;
    const struct rule *rule = NULL;
    for (unsigned bit = 1; bit <= RULE_OTHER; bit <<= 1) {
        if (!(sent->ruled & bit))
            continue;
        const struct rule *met = rule_index_first(set, bit, path);
        if (!first && met != rule)
            return false;
        rule = met;
        first = false;
    }
    *ret_rule = rule;
    return true;
}

/* ---- all readings ---- */

/* Bytes of path that are read at most, over all readings of one request: about 0.3 ms. */
#define READINGS_BYTES_MAX (16 * 1024)

/* A path, the rule it meets as it is written, and whether each of its readings has to meet that
 * one (an ambiguous path), or only none may meet another one. */
struct search {
    const struct rule_set *set;
    const struct sent_methods *sent;
    const struct rule *rule;
    bool ambiguous;
    char *text; /* room for one reading */
};

/* Whether a server that decodes no escape would meet another rule. */
static bool differs_raw(const struct search *search, struct slice text, struct rule_path *path)
{
    const struct rule *rule;
    if (slice_find(text, '%') < 0)
        return false;
    path->raw = true;
    return !is_met_alike(search->set, search->sent, path, &rule) || (rule && rule != search->rule);
}

static bool leads_elsewhere(const struct search *search, struct slice text)
{
    struct rule_path path;
    const struct rule *rule;
    rule_path_split(text, &path);
    if (!is_met_alike(search->set, search->sent, &path, &rule))
        return true;
    return (rule != search->rule && (rule || search->ambiguous)) ||
           differs_raw(search, text, &path);
}

static bool is_reading(unsigned reading, unsigned choices)
{
    return !(reading & ~choices) && !(reading & PATH_NUL_ENDS && reading & PATH_NUL_DROPS);
}

static bool search_readings(const struct search *search, struct slice normal, unsigned choices)
{
    for (unsigned reading = 0; reading < PATH_READINGS; reading++) {
        if (!is_reading(reading, choices))
            continue;
        size_t len = path_read(normal, reading, search->text);
        if (leads_elsewhere(search, slice_make(search->text, len)))
            return true;
    }
    return false;
}

static size_t count_readings(unsigned choices)
{
    size_t n = (size_t)1 << __builtin_popcount(choices);
    bool nul = choices & PATH_NUL_ENDS;
    return nul ? n / 4 * 3 : n;
}

/* {path:} would have another value in another reading. */
static bool takes_from_path(const struct rule *rule)
{
    return template_uses(&rule->key, TEMPLATE_PATH) ||
           template_uses(&rule->tenant, TEMPLATE_PATH) ||
           template_uses(&rule->probe, TEMPLATE_PATH) ||
           template_uses(&rule->authorize, TEMPLATE_PATH) ||
           template_uses(&rule->once.key, TEMPLATE_PATH);
}

/* Nothing in it that any server reads in a way of its own: nearly every path. */
static bool is_plain_path(struct slice path)
{
    for (size_t i = 0; i < path.len; i++) {
        char c = path.at[i];
        if (c == '%' || c == ';' || c == '\\' || c == '.' || c == '\0' ||
            (c == '/' && i > 0 && path.at[i - 1] == '/'))
            return false;
    }
    return true;
}

/* Whether servers that read `path`, in its normal form `normal`, in their own ways would meet
 * another rule than the one it meets as it is written. */
static enum rule_find check_readings(struct search *search, struct slice path, struct slice normal,
                                     struct arena *arena)
{
    if (is_plain_path(path))
        return RULE_FOUND;
    if (leads_elsewhere(search, normal))
        return RULE_PATH_AMBIGUOUS;
    unsigned choices = path_choices(normal);
    struct slice decoded = path_decode_again(normal, arena);
    if (!decoded.at)
        return RULE_NO_MEMORY;
    bool again = decoded.len < normal.len; /* each decoding shortens it */
    search->ambiguous = path_is_ambiguous(path);
    bool varies = search->ambiguous || again || path_is_unclean(normal);
    if (varies && search->rule && takes_from_path(search->rule))
        return RULE_PATH_AMBIGUOUS;
    if (!search->ambiguous && choices == 0 && !again)
        return RULE_FOUND;
    unsigned more = again ? path_choices(decoded) : 0;
    size_t readings = count_readings(choices) + (again ? count_readings(more) : 0);
    if (readings * normal.len > READINGS_BYTES_MAX)
        return search->set->index && rule_index_has(search->set, search->sent->ruled)
                   ? RULE_PATH_AMBIGUOUS
                   : RULE_FOUND;
    search->text = arena_alloc(arena, normal.len + 1);
    if (!search->text)
        return RULE_NO_MEMORY;
    bool elsewhere = search_readings(search, normal, choices) ||
                     (again && search_readings(search, decoded, more));
    return elsewhere ? RULE_PATH_AMBIGUOUS : RULE_FOUND;
}

/* ---- the request ---- */

static void fill_facts(const struct rule *rule, const struct rule_path *path,
                       struct template_facts *facts)
{
    facts->route = rule->name;
    facts->n_params = 0;
    for (size_t i = 0; i < rule->match.n_segments; i++)
        if (rule->match.segments[i].is_param) {
            struct template_path_param *param = &facts->params[facts->n_params++];
            param->name = rule->match.segments[i].text;
            (void)rule_segment_takes(&rule->match.segments[i], path->segments[i], false,
                                     &param->value);
        }
}

/* What every reading of method and path meets. */
static enum rule_find find_alike(struct search *search, const struct rule_request *request,
                                 struct arena *arena, struct rule_found *ret_found)
{
    struct rule_path path;
    struct slice normal = path_normalise(request->path, arena);
    if (!normal.at)
        return RULE_NO_MEMORY;
    rule_path_split(normal, &path);
    if (!is_met_alike(search->set, search->sent, &path, &search->rule))
        return RULE_METHOD_AMBIGUOUS;
    enum rule_find find = check_readings(search, request->path, normal, arena);
    if (find != RULE_FOUND)
        return find;
    if (!search->rule)
        return RULE_NONE;
    fill_facts(search->rule, &path, &ret_found->facts);
    ret_found->rule = search->rule;
    ret_found->path = normal;
    return RULE_FOUND;
}

enum rule_find rule_find_request(const struct rule_set *set, const struct rule_request *request,
                                 struct arena *arena, struct rule_found *ret_found)
{
    struct rule_found found = {.facts.headers = request->headers};
    struct sent_methods sent = read_overrides(request->headers);
    add_method(&sent, known_method(request->method));
    if (sent.refused)
        return RULE_METHOD_REFUSED;
    if (sent.ruled == 0)
        return RULE_NONE;
    struct search search = {.set = set, .sent = &sent};
    enum rule_find find = find_alike(&search, request, arena, &found);
    if (find != RULE_FOUND)
        return find;
    found.facts.method = sent.n_lines > 0 ? join_methods(request, arena) : request->method;
    if (!found.facts.method.at)
        return RULE_NO_MEMORY;
    *ret_found = found;
    return RULE_FOUND;
}
