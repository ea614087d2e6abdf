/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json/json.h"

#include "base/check.h"
#include "base/json/json_scan.h"
#include "base/text/utf8.h"

bool json_pointer_valid(struct slice pointer)
{
    if (pointer.len > 0 && pointer.at[0] != '/')
        return false;
    for (size_t i = 0; i < pointer.len; i++) {
        char next = i + 1 < pointer.len ? pointer.at[i + 1] : '\0';
        if (pointer.at[i] == '~' && next != '0' && next != '1')
            return false;
    }
    return utf8_valid(pointer);
}

bool json_pointer_is_meant_wild(struct slice text)
{
    struct slice token, rest = text;
    if (text.len > 0 && (text.at[0] == '$' || text.at[0] == '.'))
        return true;
    while (slice_next(&rest, '/', &token))
        if (slice_eq(token, SLICE("*")) || slice_eq(token, SLICE("-")))
            return true;
    return false;
}

/* Whether `token`, with its ~0 and ~1, spells `name` (RFC 6901 section 4). */
static bool token_is(struct slice token, struct slice name)
{
    size_t n = 0;
    for (size_t i = 0; i < token.len; i++, n++) {
        char c = token.at[i];
        if (c == '~' && i + 1 < token.len)
            c = token.at[++i] == '1' ? '/' : '~';
        if (n == name.len || name.at[n] != c)
            return false;
    }
    return n == name.len;
}

static const struct json *member_at(const struct json *object, struct slice token)
{
    const struct json *member = object->first;
    while (member && !token_is(token, member->name))
        member = member->next;
    return member;
}

static const struct json *element_at(const struct json *array, struct slice token)
{
    uint64_t index;
    bool padded = token.len > 1 && token.at[0] == '0';
    if (padded || array->count == 0 || !slice_to_u64(token, array->count - 1, &index))
        return NULL;
    const struct json *element = array->first;
    while (index-- > 0)
        element = element->next;
    return element;
}

const struct json *json_at(const struct json *root, struct slice pointer)
{
    if (pointer.len > 0 && pointer.at[0] != '/')
        return NULL;
    const struct json *value = root;
    while (value && pointer.at && pointer.len > 0) {
        struct slice token;
        struct slice rest = slice_cut(slice_skip(pointer, 1), '/', &token);
        /* slice_cut drops the '/' that starts the next token. */
        pointer = rest.at ? slice_make(rest.at - 1, rest.len + 1) : rest;
        if (value->type == JSON_OBJECT)
            value = member_at(value, token);
        else if (value->type == JSON_ARRAY)
            value = element_at(value, token);
        else
            value = NULL;
    }
    return value;
}

const struct json *json_at_as(const struct json *root, struct slice pointer, enum json_type type)
{
    const struct json *value = json_at(root, pointer);
    return value && value->type == type ? value : NULL;
}

/* Of the string that `text` begins with, which was read before. */
static size_t string_length(struct slice text)
{
    size_t n = 1;
    for (;;) {
        n += json_unescaped_length(slice_skip(text, n));
        CHECK(n < text.len && (text.at[n] == '"' || text.at[n] == '\\'));
        if (text.at[n] == '"')
            return n + 1;
        n += 2;
    }
}

struct slice json_written(struct slice bytes, const struct json *scalar)
{
    CHECK(scalar->type <= JSON_STRING && scalar->at < bytes.len && bytes.len <= UINT32_MAX);
    struct slice rest = slice_skip(bytes, scalar->at);
    switch (scalar->type) {
    case JSON_NUMBER:
        return slice_first(rest, scalar->text.len);
    case JSON_STRING:
        return slice_first(rest, string_length(rest));
    default:
        return slice_first(rest, scalar->type == JSON_FALSE ? 5 : 4);
    }
}
