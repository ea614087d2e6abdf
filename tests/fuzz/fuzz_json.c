/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a JSON body. The canonical form is its own canonical form; members in any order,
 * every character escaped and numbers in another spelling hash the same; each value is found by a
 * pointer; what is refused counts raw.
 */
#include "base/check.h"
#include "core/request/payload.h"
#include "fuzz.h"

#include <stdlib.h>

#define ROOM (256U << 20)

static const struct payload_selection everything = {.mode = PAYLOAD_ALL};

static struct payload read_json(struct arena *arena, struct slice body)
{
    struct payload payload;
    CHECK(payload_read(arena,
                       &(struct payload_input){body, SLICE("application/json"), SLICE(""), 0},
                       &payload) == PAYLOAD_OK);
    return payload;
}

static struct digest hash_of(const struct payload *payload)
{
    struct digest hash;
    CHECK(payload_hash(payload, &everything, &hash));
    return hash;
}

/* UTF-16 code units as \uXXXX, whatever the character. */
static void write_escaped(struct buf *buf, struct slice s)
{
    buf_add_char(buf, '"');
    for (size_t i = 0; i < s.len;) {
        unsigned char lead = (unsigned char)s.at[i++];
        uint32_t code = lead < 0x80   ? lead
                        : lead < 0xE0 ? lead & 0x1F
                        : lead < 0xF0 ? lead & 0xF
                                      : lead & 7;
        while (i < s.len && ((unsigned char)s.at[i] & 0xC0) == 0x80)
            code = code << 6 | ((unsigned char)s.at[i++] & 0x3F);
        if (code >= 0x10000)
            buf_printf(buf, "\\u%04x\\u%04X", 0xD800 + ((code - 0x10000) >> 10),
                       0xDC00 + ((code - 0x10000) & 0x3FF));
        else
            buf_printf(buf, "\\u%04x", code);
    }
    buf_add_char(buf, '"');
}

/* The same number with its exponent moved: 12.5e3 as 12.5e3 or, plain, 12.5 as 12.50E+00. */
static void write_number(struct buf *buf, struct slice literal)
{
    buf_add_slice(buf, literal);
    if (slice_find(literal, 'e') < 0 && slice_find(literal, 'E') < 0)
        buf_add_str(buf, slice_find(literal, '.') < 0 ? ".0E+00" : "0e-0");
}

/* The value with members in reverse order; recursion is bounded by JSON_DEPTH_MAX. */
static void write_otherwise(struct buf *buf, const struct json *value);

static void write_children(struct buf *buf, const struct json *value)
{
    const struct json **children = calloc(value->count + 1, sizeof(*children));
    CHECK(children);
    size_t n = 0;
    for (const struct json *child = value->first; child; child = child->next)
        children[n++] = child;
    CHECK(n == value->count);
    for (size_t i = 0; i < n; i++) {
        const struct json *child = children[value->type == JSON_OBJECT ? n - 1 - i : i];
        if (i > 0)
            buf_add_str(buf, " ,\n");
        if (value->type == JSON_OBJECT) {
            write_escaped(buf, child->name);
            buf_add_char(buf, ':');
        }
        write_otherwise(buf, child);
    }
    free(children);
}

static void write_otherwise(struct buf *buf, const struct json *value)
{
    static const char *const words[] = {"null", "false", "true"};
    if (value->type <= JSON_TRUE) {
        buf_add_str(buf, words[value->type]);
    } else if (value->type == JSON_NUMBER) {
        write_number(buf, value->text);
    } else if (value->type == JSON_STRING) {
        write_escaped(buf, value->text);
    } else {
        buf_add_char(buf, value->type == JSON_OBJECT ? '{' : '[');
        write_children(buf, value);
        buf_add_char(buf, value->type == JSON_OBJECT ? '}' : ']');
    }
}

static void check_same_hash(struct slice other, const struct digest *hash)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    struct payload payload = read_json(&arena, other);
    CHECK(payload.kind == PAYLOAD_IS_JSON);
    struct digest again = hash_of(&payload);
    CHECK(digest_eq(hash, &again));
}

static void check_canonical(const struct payload *payload, const struct digest *hash)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    BUF_AUTO struct buf once = buf_make(ROOM);
    BUF_AUTO struct buf twice = buf_make(ROOM);
    CHECK(payload_canonical(payload, &everything, &once));
    struct digest of_bytes = digest_of(buf_slice(&once));
    CHECK(digest_eq(hash, &of_bytes));
    struct payload again = read_json(&arena, buf_slice(&once));
    CHECK(again.kind == PAYLOAD_IS_JSON);
    CHECK(payload_canonical(&again, &everything, &twice));
    CHECK(slice_eq(buf_slice(&once), buf_slice(&twice)));
}

/* Every member of the root is found by its name. */
static void check_pointers(const struct json *root)
{
    for (const struct json *child = root->first; child && root->type == JSON_OBJECT;
         child = child->next) {
        BUF_AUTO struct buf pointer = buf_make(ROOM);
        buf_add_char(&pointer, '/');
        for (size_t i = 0; i < child->name.len; i++) {
            char c = child->name.at[i];
            if (c == '~' || c == '/')
                buf_add_str(&pointer, c == '~' ? "~0" : "~1");
            else
                buf_add_char(&pointer, c);
        }
        CHECK(json_pointer_valid(buf_slice(&pointer)));
        CHECK(json_at(root, buf_slice(&pointer)) == child);
    }
}

/* Every scalar in the root is found as it is written. */
static void check_written(struct slice body, const struct json *root)
{
    for (const struct json *child = root->first; child; child = child->next) {
        ARENA_AUTO struct arena arena = arena_make(ROOM);
        struct json *again;
        if (child->type > JSON_STRING)
            continue;
        CHECK(json_parse(&arena, json_written(body, child), &again, NULL) == JSON_OK);
        CHECK(again->type == child->type && slice_eq(again->text, child->text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    ARENA_AUTO struct arena arena = arena_make(ROOM);
    BUF_AUTO struct buf other = buf_make(ROOM);
    struct slice body = slice_make(bytes, n);
    struct payload payload = read_json(&arena, body);
    struct digest hash = hash_of(&payload);
    if (payload.kind != PAYLOAD_IS_JSON) {
        struct digest raw = digest_of(body);
        CHECK(payload.kind == PAYLOAD_IS_RAW && payload.problem != JSON_OK);
        CHECK(payload.problem_offset <= n);
        CHECK(digest_eq(&raw, &hash));
        return 0;
    }
    check_canonical(&payload, &hash);
    write_otherwise(&other, payload.json);
    CHECK(buf_ok(&other));
    check_same_hash(buf_slice(&other), &hash);
    if (payload.json->count < 100)
        check_pointers(payload.json);
    check_written(body, payload.json);
    return 0;
}
