/* SPDX-License-Identifier: Apache-2.0 */
/* Rule sets, compiling `match:`, and what a rule says of itself. */
#include "core/request/rule.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/text/percent.h"
#include "core/request/path.h"

#include <stdarg.h>

struct rule_set *rule_set_new(size_t arena_max)
{
    struct rule_set *set = mem_zalloc(1, sizeof *set);
    if (!set)
        return NULL;
    atomic_init(&set->refs, 1);
    mutex_init(&set->learning);
    set->arena = arena_make_secret(arena_max); /* also those of endpoints and sources */
    return set;
}

struct rule_set *rule_set_ref(struct rule_set *set)
{
    int before = atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    CHECK(before > 0);
    return set;
}

void rule_set_unref(struct rule_set *set)
{
    if (!set)
        return;
    int before = atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel);
    CHECK(before > 0);
    if (before > 1)
        return;
    rule_set_unref(set->inboxes);
    rule_set_unref(set->closed);
    mutex_fini(&set->learning);
    arena_fini(&set->arena);
    mem_free(set);
}

/* ---- match ---- */

struct match_compiler {
    struct arena *arena;
    struct rule_match match;
    struct slice *problem;
};

static bool __attribute__((format(printf, 2, 3)))
refuse_match(struct match_compiler *compiler, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *compiler->problem = arena_vprintf(compiler->arena, format, arguments);
    va_end(arguments);
    return false;
}

static const struct {
    struct slice name;
    unsigned bit;
} methods[] = {
    {{"POST", 4}, RULE_POST},
    {{"PUT", 3}, RULE_PUT},
    {{"PATCH", 5}, RULE_PATCH},
    {{"DELETE", 6}, RULE_DELETE},
};
static bool read_match_method(struct match_compiler *compiler, struct slice method)
{
    static const struct slice safe[] = {{"GET", 3}, {"HEAD", 4}, {"OPTIONS", 7}};
    static const struct slice refused[] = {{"CONNECT", 7}, {"TRACE", 5}};
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        if (slice_eq(method, methods[i].name)) {
            compiler->match.methods |= methods[i].bit;
            return true;
        }
    }
    if (SLICE_AMONG(method, safe))
        return refuse_match(compiler, "GET, HEAD and OPTIONS need no rule: they always pass");
    if (SLICE_AMONG(method, refused))
        return refuse_match(compiler, "CONNECT and TRACE always get 405");
    return refuse_match(
        compiler,
        "'%.*s' is not a method that a rule names (expected POST, PUT, PATCH, DELETE, "
        "several of them as in POST,PUT /refunds, or * for every method that changes "
        "something)",
        SLICE_QUOTED(method));
}

static bool read_methods(struct match_compiler *compiler, struct slice list)
{
    if (slice_eq(list, SLICE("*"))) {
        compiler->match.methods = RULE_EVERY;
        return true;
    }
    struct slice method;
    while (slice_next(&list, ',', &method))
        if (!read_match_method(compiler, slice_trim(method)))
            return false;
    return true;
}

static bool has_param(const struct rule_match *match, struct slice name)
{
    for (size_t i = 0; i < match->n_segments; i++)
        if (match->segments[i].is_param && slice_eq(match->segments[i].text, name))
            return true;
    return false;
}

static bool read_param(struct match_compiler *compiler, struct slice name)
{
    if (name.len == 0)
        return refuse_match(compiler, "a path parameter needs a name, as in {id}");
    if (!slice_is_word(name, "_-"))
        return refuse_match(compiler,
                            "the name of a path parameter is made of letters, digits, '_' "
                            "and '-', as in /matches/{id}");
    if (has_param(&compiler->match, name))
        return refuse_match(compiler, "two path parameters have one name");
    return true;
}

/* What is written so in other gateways and frameworks, and what it is here. */
static bool check_pattern(struct match_compiler *compiler, struct slice text)
{
    static const char advice[] = "write {name} for one segment, /** at the end for any rest";
    if (slice_find(text, '*') >= 0)
        return refuse_match(compiler, "'%.*s' is not a pattern of pawl (%s)", SLICE_QUOTED(text),
                            advice);
    if (text.at[0] == ':' && slice_find(text, '{') < 0)
        return refuse_match(compiler, "':%.*s' is written {%.*s}",
                            SLICE_QUOTED(slice_skip(text, 1)), SLICE_QUOTED(slice_skip(text, 1)));
    for (size_t i = 0; i < text.len; i++)
        if (strchr("^|[]\\<>", text.at[i]) || (text.at[i] == '$' && i + 1 == text.len) ||
            (text.at[i] == '.' && i + 1 < text.len && text.at[i + 1] == '+'))
            return refuse_match(compiler,
                                "'%.*s' looks like a regular expression, which pawl does not "
                                "take (%s)",
                                SLICE_QUOTED(text), advice);
    return true;
}

static size_t count_char(struct slice text, char c)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.at[i] == c;
    return n;
}

static bool read_segment(struct match_compiler *compiler, struct slice text)
{
    struct rule_segment segment = {.text = text};
    struct slice rest = slice_cut(text, '{', &segment.before);
    if (compiler->match.n_segments == TEMPLATE_PATH_PARAMS_MAX)
        return refuse_match(compiler, "a path has at most 16 segments");
    if (rest.at) {
        segment.is_param = true;
        segment.after = slice_cut(rest, '}', &segment.text);
    } else {
        segment.before = slice_make(NULL, 0);
    }
    if ((segment.is_param && !segment.after.at) || count_char(text, '{') > 1 ||
        count_char(text, '}') > segment.is_param)
        return refuse_match(compiler, "a segment has one path parameter, perhaps with a literal "
                                      "before or behind it, as in /orders/{id}:cancel");
    if (segment.is_param && !read_param(compiler, segment.text))
        return false;
    compiler->match.segments[compiler->match.n_segments++] = segment;
    return true;
}

static bool is_path_text(struct slice path)
{
    for (size_t i = 0; i < path.len; i++)
        if (path.at[i] <= ' ' || path.at[i] > '~' || strchr("?#;\"`", path.at[i]))
            return false;
    return path.len > 0 && path.at[0] == '/';
}

static bool check_patterns(struct match_compiler *compiler, struct slice path)
{
    for (struct slice rest = slice_skip(path, 1); rest.len > 0;) {
        struct slice segment;
        rest = slice_cut(rest, '/', &segment);
        if (segment.len > 0 && !check_pattern(compiler, segment))
            return false;
    }
    return true;
}

/* Takes the two stars off the end of the path. */
static struct slice cut_rest(struct match_compiler *compiler, struct slice path)
{
    static const struct slice stars = {"/**", 3};
    if (path.len < stars.len || !slice_eq(slice_skip(path, path.len - stars.len), stars))
        return path;
    compiler->match.rest = true;
    return path.len > stars.len ? slice_make(path.at, path.len - stars.len) : SLICE("/");
}

static bool read_path(struct match_compiler *compiler, struct slice path)
{
    if (!is_path_text(path))
        return refuse_match(compiler,
                            "a path starts with '/' and has no space, '?', '#' or ';', and "
                            "nothing that must be percent-encoded");
    path = cut_rest(compiler, path);
    if (!check_patterns(compiler, path))
        return false;
    if (path_is_ambiguous(path))
        return refuse_match(compiler,
                            "servers read this path in different ways: it has a '.' or '..' "
                            "segment, '//', %%2F, %%5C or %%00");
    struct slice normal = path_normalise(path, compiler->arena);
    if (!normal.at)
        return refuse_match(compiler, "out of memory");
    for (struct slice rest = slice_skip(normal, 1); rest.len > 0;) {
        struct slice segment;
        rest = slice_cut(rest, '/', &segment);
        if (!read_segment(compiler, segment))
            return false;
    }
    return true;
}

bool rule_match_compile(struct slice text, struct arena *arena, struct rule_match *ret_match,
                        struct slice *ret_problem)
{
    struct match_compiler compiler = {.arena = arena, .problem = ret_problem};
    text = slice_trim(text);
    ptrdiff_t slash = slice_find(text, '/');
    size_t split = slash < 0 ? text.len : (size_t)slash;
    struct slice list = slice_make(text.at, split);
    if (slash <= 0 || list.at[split - 1] != ' ')
        return refuse_match(&compiler, "expected METHOD[,METHOD] /path, such as POST /refunds, "
                                       "PUT,PATCH /refunds/{id} or * /**");
    if (!read_methods(&compiler, slice_trim(list)) ||
        !read_path(&compiler, slice_skip(text, split)))
        return false;
    *ret_match = compiler.match;
    return true;
}

/* Takes what `literal` spells off the front of `text`. */
static bool cut_front(struct slice *text, struct slice literal, bool raw)
{
    bool starts = slice_starts(*text, literal);
    if (starts || raw) {
        *text = slice_skip(*text, starts ? literal.len : 0);
        return starts;
    }
    while (literal.len > 0)
        if (text->len == 0 || percent_take(text, false) != percent_take(&literal, false))
            return false;
    return true;
}

/* The last character of a normalised path, in which each '%' starts an escape. */
static struct slice last_of(struct slice text)
{
    bool escaped = text.len >= PERCENT_SIZE && text.at[text.len - PERCENT_SIZE] == '%';
    return slice_skip(text, text.len - (escaped ? PERCENT_SIZE : 1));
}

static bool cut_back(struct slice *text, struct slice literal, bool raw)
{
    while (literal.len > 0) {
        if (text->len == 0)
            return false;
        struct slice one = last_of(*text), other = last_of(literal);
        if (raw && !slice_eq(one, other))
            return false;
        text->len -= one.len;
        literal.len -= other.len;
        if (percent_take(&one, false) != percent_take(&other, false))
            return false;
    }
    return true;
}

bool rule_segment_takes(const struct rule_segment *segment, struct slice text, bool raw,
                        struct slice *ret_value)
{
    *ret_value = text;
    if (!segment->is_param)
        return cut_front(ret_value, segment->text, raw) && ret_value->len == 0;
    if (segment->before.len == 0 && segment->after.len == 0)
        return true;
    return cut_front(ret_value, segment->before, raw) && cut_back(ret_value, segment->after, raw) &&
           ret_value->len > 0;
}

static void write_methods(const struct rule_match *match, struct buf *buf)
{
    bool first = true;
    if (match->methods == RULE_EVERY)
        buf_add_char(buf, '*');
    for (size_t i = 0; i < COUNT_OF(methods) && match->methods != RULE_EVERY; i++) {
        if (!(match->methods & methods[i].bit))
            continue;
        buf_add_str(buf, first ? "" : ",");
        buf_add_slice(buf, methods[i].name);
        first = false;
    }
}

struct slice rule_match_method(const struct rule_match *match)
{
    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if (match->methods == methods[i].bit)
            return methods[i].name;
    return slice_make(NULL, 0);
}

void rule_match_write(const struct rule_match *match, struct buf *buf)
{
    write_methods(match, buf);
    buf_add_str(buf, match->n_segments == 0 && !match->rest ? " /" : " ");
    for (size_t i = 0; i < match->n_segments; i++) {
        const struct rule_segment *segment = &match->segments[i];
        buf_add_char(buf, '/');
        buf_add_slice(buf, segment->before);
        buf_add_str(buf, segment->is_param ? "{" : "");
        buf_add_slice(buf, segment->text);
        buf_add_str(buf, segment->is_param ? "}" : "");
        buf_add_slice(buf, segment->after);
    }
    buf_add_str(buf, match->rest ? "/**" : "");
}

enum response_says rule_probe_says(const struct rule *rule, int status,
                                   const struct headers *headers, struct slice body)
{
    if (remember_policy_sort(&rule->not_found, status) == SORT_NOT_DONE)
        return SAYS_NOT_DONE;
    return disposition_says_by_body(&rule->not_found_by_body, status, headers, body);
}

struct slice rule_key_space(const struct rule *rule)
{
    return rule->key_space.len > 0 ? rule->key_space : rule->name;
}

const struct rule *rule_set_named(const struct rule_set *set, struct slice name)
{
    const struct rule *in_space = NULL;
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++) {
        const struct rule *rule = &set->rules[i];
        if (slice_eq(rule->name, name) || slice_is_among(name, rule->formerly, rule->n_formerly))
            return rule;
        bool joins = slice_eq(rule->key_space, name);
        in_space = joins ? rule : in_space;
        n += joins;
    }
    return n == 1 ? in_space : NULL;
}

bool probe_owns_header(struct slice name)
{
    static const struct slice own[] = {{"Accept-Encoding", 15},
                                       {"Content-Length", 14},
                                       {"Idempotency-Key", 15},
                                       {"Idempotency-Token", 17}};
    return HEADERS_AMONG(name, own);
}

bool rule_hides_tenant(const struct rule *rule)
{
    return !rule->tenant_none && (rule->secret || template_is_credential(&rule->tenant));
}

bool rule_names_callers(const struct rule *rule)
{
    return !rule->tenant_none && !template_has_optional(&rule->tenant);
}

/* Whether it takes every segment that `narrow` takes. */
static bool segment_covers(const struct rule_segment *wide, const struct rule_segment *narrow)
{
    struct slice value, before = narrow->before, after = narrow->after;
    if (!narrow->is_param)
        return rule_segment_takes(wide, narrow->text, false, &value);
    return wide->is_param && cut_front(&before, wide->before, false) &&
           cut_back(&after, wide->after, false);
}

unsigned rule_match_covers(const struct rule_match *earlier, const struct rule_match *later)
{
    bool longer = later->rest || later->n_segments > earlier->n_segments;
    if (later->n_segments < earlier->n_segments || (longer && !earlier->rest))
        return 0;
    for (size_t i = 0; i < earlier->n_segments; i++)
        if (!segment_covers(&earlier->segments[i], &later->segments[i]))
            return 0;
    return earlier->methods & later->methods;
}

struct slice rule_match_lacks(const struct rule_match *match, const struct template *template)
{
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        if (part->source == TEMPLATE_PATH && !has_param(match, part->text))
            return part->text;
    }
    return slice_make(NULL, 0);
}

/* ---- headers that look like another ---- */

static bool looks_like(struct slice name, struct slice wanted)
{
    return headers_is_dashed(name, wanted) && !slice_eq_nocase(name, wanted);
}

static bool looks_like_a_source(struct slice name, const struct template *template)
{
    for (size_t i = 0; i < template->n; i++)
        if (template->parts[i].source == TEMPLATE_HEADER &&
            looks_like(name, template->parts[i].text))
            return true;
    return false;
}

static bool is_look_alike(const struct rule *rule, struct slice name)
{
    for (size_t i = 0; i < rule->n_headers; i++)
        if (looks_like(name, rule->headers[i]))
            return true;
    return rule_is_override(name) || looks_like_a_source(name, &rule->key) ||
           looks_like_a_source(name, &rule->tenant) || looks_like_a_source(name, &rule->probe) ||
           looks_like_a_source(name, &rule->authorize) ||
           looks_like_a_source(name, &rule->once.key);
}

const struct header *rule_look_alike(const struct rule *rule, const struct headers *headers)
{
    for (size_t i = 0; i < headers->n; i++)
        if (slice_find(headers->at[i].name, '_') >= 0 && is_look_alike(rule, headers->at[i].name))
            return &headers->at[i];
    return NULL;
}
