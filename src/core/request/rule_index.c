/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/rule_index.h"

#include "base/text/percent.h"
#include "core/request/trial.h"

#define HASH_START UINT64_C(14695981039346656037) /* FNV-1a */
#define HASH_STEP UINT64_C(1099511628211)

struct shape {
    size_t n_segments;
    bool rest;
    unsigned params; /* a bit for each segment */
};

/* Rules are numbered from 1 on; 0 ends a chain. A chain is in the order of the rules. */
struct rule_index {
    unsigned methods; /* of all rules */
    size_t n_shapes;
    struct shape *shapes;
    size_t mask;
    uint32_t *heads;
    uint32_t *next; /* by the rule's number */
};

static uint64_t mix_hash(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * HASH_STEP;
    return hash ^ hash >> 32;
}

static uint64_t hash_text(struct slice text)
{
    uint64_t hash = HASH_START;
    while (text.len > 0) {
        char c = text.at[0];
        if (c == '%')
            c = percent_take(&text, false);
        else
            text = slice_skip(text, 1);
        hash = (hash ^ (unsigned char)c) * HASH_STEP;
    }
    return hash;
}

void rule_path_split(struct slice path, struct rule_path *ret_path)
{
    ret_path->n = 0;
    ret_path->raw = false;
    if (path.len > 0 && path.at[0] == '/')
        path = slice_skip(path, 1);
    for (struct slice rest = path; rest.at && path.len > 0; ret_path->n++) {
        struct slice segment;
        rest = slice_cut(rest, '/', &segment);
        if (ret_path->n >= TEMPLATE_PATH_PARAMS_MAX)
            continue;
        ret_path->segments[ret_path->n] = segment;
        ret_path->hashes[ret_path->n] = hash_text(segment);
    }
}

/* ---- making it ---- */

static struct shape shape_of(const struct rule_match *match)
{
    struct shape shape = {.n_segments = match->n_segments, .rest = match->rest};
    for (size_t i = 0; i < match->n_segments; i++)
        shape.params |= match->segments[i].is_param ? 1U << i : 0;
    return shape;
}

static size_t find_shape(struct rule_index *index, struct shape wanted)
{
    size_t i = 0;
    for (; i < index->n_shapes; i++) {
        const struct shape *shape = &index->shapes[i];
        if (shape->n_segments == wanted.n_segments && shape->rest == wanted.rest &&
            shape->params == wanted.params)
            return i;
    }
    index->shapes[index->n_shapes++] = wanted;
    return i;
}

static uint64_t hash_match(size_t shape, const struct rule_match *match)
{
    uint64_t hash = mix_hash(HASH_START, shape);
    for (size_t i = 0; i < match->n_segments; i++)
        if (!match->segments[i].is_param)
            hash = mix_hash(hash, hash_text(match->segments[i].text));
    return hash;
}

static struct rule_index *index_new(struct rule_set *set)
{
    size_t size = 16;
    while (size < 2 * set->n)
        size *= 2;
    struct rule_index *index = arena_alloc(&set->arena, sizeof *index);
    struct shape *shapes = arena_alloc(&set->arena, (set->n + 1) * sizeof *shapes);
    uint32_t *heads = arena_alloc(&set->arena, size * sizeof *heads);
    uint32_t *next = arena_alloc(&set->arena, (set->n + 1) * sizeof *next);
    if (!index || !shapes || !heads || !next)
        return NULL;
    memset(heads, 0, size * sizeof *heads);
    *index = (struct rule_index){.shapes = shapes, .mask = size - 1, .heads = heads, .next = next};
    return index;
}

bool rule_set_index(struct rule_set *set)
{
    struct rule_index *index = index_new(set);
    set->moved = arena_alloc(&set->arena, (set->n + 1) * sizeof *set->moved);
    set->trials = arena_alloc(&set->arena, (set->n + 1) * sizeof *set->trials);
    if (!index || !set->moved || !set->trials)
        return false;
    for (size_t i = 0; i <= set->n; i++) {
        atomic_init(&set->moved[i], false);
        atomic_init(&set->trials[i], TRIAL_DUE);
    }
    for (size_t n = set->n; n > 0; n--) {
        const struct rule_match *match = &set->rules[n - 1].match;
        size_t shape = find_shape(index, shape_of(match));
        uint32_t *head = &index->heads[hash_match(shape, match) & index->mask];
        index->methods |= match->methods;
        index->next[n] = *head;
        *head = (uint32_t)n;
    }
    set->index = index;
    return true;
}

/* ---- searching ---- */

static bool is_match(const struct rule_match *match, const struct rule_path *path)
{
    if (match->rest ? path->n < match->n_segments : path->n != match->n_segments)
        return false;
    for (size_t i = 0; i < match->n_segments; i++) {
        struct slice value;
        if (!rule_segment_takes(&match->segments[i], path->segments[i], path->raw, &value))
            return false;
    }
    return true;
}

/* The number of the first rule of this shape, if it comes before `best`; else `best`. */
static size_t first_of_shape(const struct rule_set *set, size_t at, unsigned methods,
                             const struct rule_path *path, size_t best)
{
    const struct rule_index *index = set->index;
    const struct shape *shape = &index->shapes[at];
    if (shape->rest ? path->n < shape->n_segments : path->n != shape->n_segments)
        return best;
    uint64_t hash = mix_hash(HASH_START, at);
    for (size_t i = 0; i < shape->n_segments; i++)
        if (!(shape->params >> i & 1))
            hash = mix_hash(hash, path->hashes[i]);
    for (size_t n = index->heads[hash & index->mask]; n > 0 && n < best; n = index->next[n]) {
        const struct rule_match *match = &set->rules[n - 1].match;
        if (match->methods & methods && is_match(match, path))
            return n;
    }
    return best;
}

const struct rule *rule_index_first(const struct rule_set *set, unsigned methods,
                                    const struct rule_path *path)
{
    size_t none = set->n + 1;
    size_t best = none;
    if (!rule_index_has(set, methods))
        return NULL;
    for (size_t at = 0; at < set->index->n_shapes; at++)
        best = first_of_shape(set, at, methods, path, best);
    return best < none ? &set->rules[best - 1] : NULL;
}

bool rule_index_has(const struct rule_set *set, unsigned methods)
{
    return set->index && set->index->methods & methods;
}
