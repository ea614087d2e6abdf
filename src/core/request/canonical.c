/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/canonical.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/text/number.h"

/* Bytes gathered before the digest sees them. */
#define GATHERED 4096

/* One open array or object. */
struct level {
    bool object;
    bool any;                /* a child was written */
    const struct json *next; /* array: the next element */
    size_t first;            /* object: its part of the writer's members, sorted */
    size_t at;
    size_t end;
};

struct writer {
    struct canonical *canonical;
    struct arena *arena; /* of the levels and members */
    struct json_set without;
    struct level *levels; /* JSON_DEPTH_MAX of them; nothing on the stack grows with depth */
    size_t depth;
    const struct json **members; /* of all open objects, the innermost last; and room to sort */
    size_t n_members;
    size_t cap_members;
};

bool canonical_end(struct canonical *canonical)
{
    if (!buf_ok(canonical->buf))
        return false;
    if (canonical->digest) {
        digest_add(canonical->digest, buf_slice(canonical->buf));
        buf_clear(canonical->buf);
    }
    return true;
}

void canonical_add(struct canonical *canonical, struct slice bytes)
{
    if (canonical->digest && bytes.len >= GATHERED) {
        if (canonical_end(canonical))
            digest_add(canonical->digest, bytes);
        return;
    }
    buf_add_slice(canonical->buf, bytes);
}

bool canonical_step(struct canonical *canonical)
{
    if (canonical->digest && canonical->buf->len >= GATHERED)
        return canonical_end(canonical);
    return buf_ok(canonical->buf);
}

static bool is_in_json_set(struct json_set set, const struct json *value)
{
    for (size_t i = 0; i < set.n; i++) {
        if (set.at[i] == value)
            return true;
    }
    return false;
}

/* Room for `n` more members and as many again for the sort. */
static bool reserve_members(struct writer *writer, size_t n)
{
    if (n > (SIZE_MAX / sizeof *writer->members - writer->n_members) / 4)
        return false;
    size_t need = writer->n_members + 2 * n;
    if (need <= writer->cap_members)
        return true;
    size_t cap = need + need / 2;
    const struct json **members = arena_alloc(writer->arena, cap * sizeof *members);
    if (!members)
        return false;
    if (writer->n_members > 0)
        memcpy(members, writer->members, writer->n_members * sizeof *members);
    writer->members = members;
    writer->cap_members = cap;
    return true;
}

static bool sort_object(struct writer *writer, struct level *level, const struct json *object)
{
    if (!reserve_members(writer, object->count))
        return false;
    const struct json **members = writer->members + writer->n_members;
    size_t n = 0;
    for (const struct json *member = object->first; member; member = member->next) {
        if (!is_in_json_set(writer->without, member))
            members[n++] = member;
    }
    json_sort_members(members, n, members + n);
    level->first = level->at = writer->n_members;
    level->end = writer->n_members += n;
    return true;
}

static bool open_written(struct writer *writer, const struct json *value)
{
    CHECK(writer->depth < JSON_DEPTH_MAX);
    struct level *level = &writer->levels[writer->depth++];
    *level = (struct level){.object = value->type == JSON_OBJECT, .next = value->first};
    buf_add_char(writer->canonical->buf, level->object ? '{' : '[');
    return !level->object || value->count == 0 || sort_object(writer, level, value);
}

static void close_written(struct writer *writer)
{
    const struct level *level = &writer->levels[--writer->depth];
    if (level->end > level->first)
        writer->n_members = level->first;
    buf_add_char(writer->canonical->buf, level->object ? '}' : ']');
}

/* The next child that is not left out, or NULL. */
static const struct json *next_child(const struct writer *writer, struct level *level)
{
    if (level->object)
        return level->at < level->end ? writer->members[level->at++] : NULL;
    while (level->next && is_in_json_set(writer->without, level->next))
        level->next = level->next->next;
    const struct json *child = level->next;
    if (child)
        level->next = child->next;
    return child;
}

/* Closes what has no more children; then the next value to write, its comma and name written. NULL:
 * all is closed. */
static const struct json *next_written(struct writer *writer)
{
    struct buf *buf = writer->canonical->buf;
    while (writer->depth > 0) {
        struct level *level = &writer->levels[writer->depth - 1];
        const struct json *child = next_child(writer, level);
        if (!child) {
            close_written(writer);
            continue;
        }
        if (level->any)
            buf_add_char(buf, ',');
        level->any = true;
        if (level->object) {
            json_add_canonical_string(buf, child->name);
            buf_add_char(buf, ':');
        }
        return child;
    }
    return NULL;
}

static bool write_canonical_value(struct writer *writer, const struct json *value)
{
    static const char *const words[] = {
        [JSON_NULL] = "null", [JSON_FALSE] = "false", [JSON_TRUE] = "true"};
    struct buf *buf = writer->canonical->buf;
    switch (value->type) {
    case JSON_NULL:
    case JSON_FALSE:
    case JSON_TRUE:
        buf_add_str(buf, words[value->type]);
        return true;
    case JSON_NUMBER:
        /* The reader refuses what is not bounded. */
        CHECK(number_add_canonical(buf, value->text));
        return true;
    case JSON_STRING:
        json_add_canonical_string(buf, value->text);
        return true;
    case JSON_ARRAY:
    case JSON_OBJECT:
        return open_written(writer, value);
    }
    UNREACHABLE();
}

static bool add_tree(struct writer *writer, const struct json *root)
{
    for (const struct json *value = root; value; value = next_written(writer)) {
        if (!write_canonical_value(writer, value) || !canonical_step(writer->canonical))
            return false;
    }
    return canonical_step(writer->canonical);
}

bool canonical_add_json(struct canonical *canonical, const struct json *root,
                        struct json_set without)
{
    if (is_in_json_set(without, root))
        return true;
    ARENA_AUTO struct arena arena = arena_make(SIZE_MAX);
    struct writer writer = {.canonical = canonical, .arena = &arena, .without = without};
    writer.levels = arena_alloc(&arena, JSON_DEPTH_MAX * sizeof *writer.levels);
    return writer.levels && add_tree(&writer, root);
}
