/* SPDX-License-Identifier: Apache-2.0 */
#include "inside/headers.h"

#include "base/json/json.h"
#include "core/outcome.h"

static const char *add_json_line(struct slice name, const struct json *value, struct buf *lines)
{
    struct headers one = {.n = 1, .at = {{name, slice_trim(value->text)}}};
    bool is_text = value->type == JSON_STRING || value->type == JSON_NUMBER;
    if (!is_text)
        return "a header's value must be a string, a number, or an array of them";
    if (!header_is_valid(name, one.at[0].value))
        return "headers must have names and values that HTTP allows";
    outcome_keep_fields(&one, 0, lines);
    return buf_ok(lines) ? NULL : "the headers do not fit into memory";
}

static const char *add_json_member(const struct json *member, struct buf *lines)
{
    if (member->type != JSON_ARRAY)
        return add_json_line(member->name, member, lines);
    const char *problem = NULL;
    for (const struct json *value = member->first; value && !problem; value = value->next)
        problem = add_json_line(member->name, value, lines);
    return problem;
}

const char *headers_to_lines(struct slice json, struct arena *arena, struct buf *lines)
{
    struct json *root;
    const char *problem = NULL;
    if (json_parse(arena, json, &root, NULL) != JSON_OK || root->type != JSON_OBJECT)
        return "headers must be a JSON object";
    for (const struct json *member = root->first; member && !problem; member = member->next)
        problem = add_json_member(member, lines);
    return problem;
}

static size_t count_header_lines(struct slice lines, struct slice name)
{
    struct slice other, value;
    size_t n = 0;
    while (fields_next(&lines, &other, &value))
        n += slice_eq_nocase(other, name);
    return n;
}

/* All values of that name, from its first line on. */
static void add_json_values(struct slice lines, struct slice name, struct buf *json)
{
    struct slice other, value;
    bool several = count_header_lines(lines, name) > 1;
    if (several)
        buf_add_char(json, '[');
    while (fields_next(&lines, &other, &value)) {
        if (!slice_eq_nocase(other, name))
            continue;
        if (several)
            json_next_item(json);
        json_add_string(json, value);
    }
    if (several)
        buf_add_char(json, ']');
}

void headers_to_json(struct slice lines, struct buf *json)
{
    struct slice name, value, rest = lines;
    buf_add_char(json, '{');
    for (const char *at = rest.at; fields_next(&rest, &name, &value); at = rest.at) {
        struct slice before = slice_make(lines.at, (size_t)(at - lines.at));
        if (count_header_lines(before, name) > 0)
            continue;
        json_next_item(json);
        json_add_string(json, name);
        buf_add_char(json, ':');
        add_json_values(slice_make(at, lines.len - before.len), name, json);
    }
    buf_add_char(json, '}');
}
