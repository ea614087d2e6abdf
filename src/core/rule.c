/* SPDX-License-Identifier: Apache-2.0 */
/* Rule sets, and compiling `match:`. */
#include "core/rule.h"
#include "base/check.h"
#include "base/mem.h"

struct rule_set *rule_set_new(size_t arena_max)
{
    struct rule_set *set = mem_zalloc(1, sizeof(*set));
    if (!set)
        return NULL;
    atomic_init(&set->refs, 1);
    set->arena = arena_make(arena_max);
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
    arena_fini(&set->arena);
    mem_free(set);
}

/* ---- match ---- */

struct match_compiler {
    struct arena *arena;
    struct rule_match match;
    struct slice *problem;
};

static bool complain(struct match_compiler *compiler, const char *problem)
{
    *compiler->problem = slice_of(problem);
    return false;
}

static bool read_method(struct match_compiler *compiler, struct slice method)
{
    static const struct slice ruled[] = {{"POST", 4}, {"PUT", 3}, {"PATCH", 5}, {"DELETE", 6}};
    for (size_t i = 0; i < sizeof(ruled) / sizeof(ruled[0]); i++) {
        if (slice_eq(method, ruled[i])) {
            compiler->match.method = ruled[i];
            return true;
        }
    }
    return complain(compiler, "a rule covers POST, PUT, PATCH or DELETE, as in POST /refunds");
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
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
        return complain(compiler, "a path parameter needs a name, as in {id}");
    for (size_t i = 0; i < name.len; i++)
        if (!is_word(name.at[i]))
            return complain(compiler, "a path parameter is a whole segment, and its name is made "
                                      "of letters, digits, '_' and '-', as in /matches/{id}");
    if (has_param(&compiler->match, name))
        return complain(compiler, "two path parameters have one name");
    return true;
}

static bool read_segment(struct match_compiler *compiler, struct slice text)
{
    struct rule_segment segment = {.text = text};
    size_t end = text.len - 1;
    if (compiler->match.n_segments == TEMPLATE_PATH_PARAMS_MAX)
        return complain(compiler, "a path has at most 16 segments");
    if (text.at[0] == '{' && text.at[end] == '}') {
        segment = (struct rule_segment){slice_make(text.at + 1, end - 1), true};
        if (!read_param(compiler, segment.text))
            return false;
    } else if (slice_find(text, '{') >= 0 || slice_find(text, '}') >= 0) {
        return complain(compiler, "a path parameter is a whole segment, as in /matches/{id}");
    }
    compiler->match.segments[compiler->match.n_segments++] = segment;
    return true;
}

static bool is_path_text(struct slice path)
{
    for (size_t i = 0; i < path.len; i++)
        if (path.at[i] <= ' ' || path.at[i] > '~' || strchr("?#;\"<>^`|", path.at[i]))
            return false;
    return path.len > 0 && path.at[0] == '/';
}

static bool read_path(struct match_compiler *compiler, struct slice path)
{
    if (!is_path_text(path))
        return complain(compiler, "a path starts with '/' and has no space, '?', '#' or ';', and "
                                  "nothing that must be percent-encoded");
    if (path_is_ambiguous(path))
        return complain(compiler, "servers read this path in different ways: it has a '.' or '..' "
                                  "segment, '//', '\\', %2F, %5C or %00");
    struct slice normal = path_normalise(path, compiler->arena);
    if (!normal.at)
        return complain(compiler, "out of memory");
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
    struct slice method;
    struct slice path = slice_trim(slice_cut(slice_trim(text), ' ', &method));
    if (!read_method(&compiler, method) || !read_path(&compiler, path))
        return false;
    *ret_match = compiler.match;
    return true;
}

void rule_match_write(const struct rule_match *match, struct buf *buf)
{
    buf_add_slice(buf, match->method);
    buf_add_str(buf, match->n_segments == 0 ? " /" : " ");
    for (size_t i = 0; i < match->n_segments; i++) {
        const struct rule_segment *segment = &match->segments[i];
        buf_add_str(buf, segment->is_param ? "/{" : "/");
        buf_add_slice(buf, segment->text);
        buf_add_str(buf, segment->is_param ? "}" : "");
    }
}

bool rule_hides_tenant(const struct rule *rule)
{
    return !rule->tenant_none && (rule->secret || template_is_credential(&rule->tenant));
}

bool rule_match_covers(const struct rule_match *earlier, const struct rule_match *later)
{
    if (!slice_eq(earlier->method, later->method) || earlier->n_segments != later->n_segments)
        return false;
    for (size_t i = 0; i < earlier->n_segments; i++) {
        const struct rule_segment *wide = &earlier->segments[i];
        const struct rule_segment *narrow = &later->segments[i];
        if (!wide->is_param && (narrow->is_param || !slice_eq(wide->text, narrow->text)))
            return false;
    }
    return true;
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
