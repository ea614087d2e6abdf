/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths: normalising an unambiguous one twice is the same as once and changes nothing that servers
 * read in different ways; the eager reading is stable and unambiguous; and no spelling of a ruled
 * path passes by: when the eager reading of a path meets a rule, the search finds the rule or calls
 * the path ambiguous; what a rule takes as it is spelled it takes decoded, too. The first line is
 * the path of a rule, the second the path of a request.
 */
#include "../unit/eager_path.h"
#include "base/check.h"
#include "core/request/rule_index.h"
#include "fuzz.h"

/* Nothing in it is left for the eager reading to resolve. */
static bool is_plain(struct slice path)
{
    for (size_t i = 0; i < path.len; i++)
        if (path.at[i] == ';' || path.at[i] == '%' || path.at[i] == '\0')
            return false;
    return path.len > 0 && path.at[0] == '/' && !path_is_ambiguous(path);
}

static struct slice check_forms(struct slice path, struct arena *arena)
{
    struct slice once = path_normalise(path, arena);
    CHECK(once.at && once.len > 0);
    if (!path_is_ambiguous(path))
        CHECK(slice_eq(once, path_normalise(once, arena)));
    struct slice read = path_resolve(path, arena);
    CHECK(read.at && read.len > 0 && read.at[0] == '/');
    CHECK(!path_is_ambiguous(read));
    CHECK(slice_eq(read, path_resolve(read, arena)));
    if (is_plain(path))
        CHECK(slice_eq(read, once));
    return read;
}

static enum rule_find find(const struct rule_set *set, struct slice path, struct arena *arena)
{
    static const struct headers none;
    struct rule_found found;
    struct rule_request request = {SLICE("POST"), path, &none};
    enum rule_find result = rule_find_request(set, &request, arena, &found);
    CHECK(result != RULE_NO_MEMORY && result != RULE_METHOD_REFUSED);
    return result;
}

static struct rule_set *make_set(struct slice path)
{
    struct rule_set *set = rule_set_new(1 << 20);
    BUF_AUTO struct buf text = buf_make(1 << 20);
    struct slice problem = {NULL, 0};
    CHECK(set);
    buf_add_str(&text, "POST ");
    buf_add_slice(&text, path);
    CHECK(buf_ok(&text));
    set->rules = arena_alloc(&set->arena, sizeof(*set->rules));
    CHECK(set->rules);
    memset(set->rules, 0, sizeof(*set->rules));
    if (!rule_match_compile(buf_slice(&text), &set->arena, &set->rules[0].match, &problem)) {
        CHECK(problem.len > 0);
        rule_set_unref(set);
        return NULL;
    }
    set->n = 1;
    CHECK(rule_set_index(set));
    return set;
}

static void check_spelled(const struct rule_set *set, struct slice path, struct arena *arena)
{
    struct rule_path split;
    rule_path_split(path_normalise(path, arena), &split);
    const struct rule *decoded = rule_index_first(set, RULE_POST, &split);
    split.raw = true;
    CHECK(!rule_index_first(set, RULE_POST, &split) || decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 22);
    struct slice rule;
    struct slice path = slice_cut(slice_make(data, size), '\n', &rule);
    if (size > 4096)
        return 0;
    struct slice read = check_forms(path, &arena);
    struct rule_set *set = make_set(rule);
    if (!set)
        return 0;
    check_spelled(set, path, &arena);
    enum rule_find result = find(set, path, &arena);
    enum rule_find eager = find(set, read, &arena);
    if (eager == RULE_FOUND)
        CHECK(result != RULE_NONE);
    if (path_is_ambiguous(path) && result == RULE_FOUND)
        CHECK(eager != RULE_NONE);
    rule_set_unref(set);
    return 0;
}
