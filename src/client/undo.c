/* SPDX-License-Identifier: Apache-2.0 */
#include "client/undo.h"

#include "base/headers.h"
#include "base/json.h"
#include "base/percent.h"
#include "base/url.h"
#include "client/fields.h"
#include "client/queue.h"
#include "core/canonical.h"

#define ORIGIN_MAX ((size_t)16 * 1024) /* and a Location behind it */
#define RESPONSE SLICE("{response:")
#define LOCATION SLICE("{location}")
#define MARK SLICE("{\"filled\":")

/* What is filled in, and from where. */
struct filling {
    struct arena *arena;
    const struct undo_response *response;
    const struct json *root; /* of the response's body; NULL: it is no JSON */
    bool is_check;           /* whatever is named is there */
    bool failed;
};

/* ---- what is named ---- */

static struct slice location_of(const struct filling *filling)
{
    struct headers fields;
    struct url step, to;
    const char *problem;
    BUF_AUTO struct buf origin = buf_make(ORIGIN_MAX), other = buf_make(ORIGIN_MAX);
    if (!filling->response || !client_fields_split(filling->response->fields, &fields) ||
        !url_read(filling->response->url, &step, &problem))
        return SLICE("");
    const struct header *line = headers_find(&fields, SLICE("Location"));
    if (!line)
        return SLICE("");
    struct slice found = line->value;
    url_write_origin(&origin, &step);
    bool is_path = found.len > 1 && found.at[0] == '/' && found.at[1] != '/';
    if (is_path) {
        buf_add_slice(&origin, found);
        return arena_copy(filling->arena, buf_slice(&origin));
    }
    if (!url_read(found, &to, &problem) || to.userinfo.at)
        return SLICE("");
    url_write_origin(&other, &to);
    return slice_eq(buf_slice(&origin), buf_slice(&other)) ? found : SLICE("");
}

/* The text of a value that has one. */
static bool text_of(const struct json *value, struct slice *ret_text)
{
    if (!value || value->type == JSON_NULL || value->type >= JSON_ARRAY)
        return false;
    *ret_text = value->type == JSON_TRUE    ? SLICE("true")
                : value->type == JSON_FALSE ? SLICE("false")
                                            : value->text;
    return true;
}

/* Where the placeholder at the beginning of `text` ends; 0: there is none. */
static size_t placeholder(struct slice text, struct slice *ret_pointer)
{
    *ret_pointer = SLICE("");
    if (slice_starts(text, LOCATION))
        return LOCATION.len;
    if (!slice_starts(text, RESPONSE))
        return 0;
    for (size_t end = RESPONSE.len; end < text.len; end++)
        if (text.at[end] == '}') {
            *ret_pointer = slice_make(text.at + RESPONSE.len, end - RESPONSE.len);
            return end + 1;
        }
    return 0;
}

static bool look_up(struct filling *filling, struct slice pointer, struct slice *ret_text)
{
    if (filling->is_check) {
        *ret_text = SLICE("x");
        return json_pointer_valid(pointer);
    }
    return filling->root && text_of(json_at(filling->root, pointer), ret_text);
}

static void add_escaped(struct buf *text, struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        char escape[PERCENT_SIZE];
        if (slice_is_word(slice_make(value.at + i, 1), SLICE_URL_MARKS)) {
            buf_add_char(text, value.at[i]);
            continue;
        }
        percent_write(value.at[i], escape);
        buf_add(text, escape, PERCENT_SIZE);
    }
}

/* ---- filling ---- */

static struct slice fill_text(struct filling *filling, struct slice text, bool in_url)
{
    BUF_AUTO struct buf filled = buf_make(SIZE_MAX);
    while (text.len > 0) {
        struct slice pointer, value;
        size_t len = placeholder(text, &pointer);
        if (len == 0) {
            buf_add_char(&filled, text.at[0]);
            text = slice_skip(text, 1);
            continue;
        }
        bool is_location = len == LOCATION.len && slice_starts(text, LOCATION);
        if (is_location) {
            value = filling->is_check ? SLICE("https://x/x") : location_of(filling);
            filling->failed |= value.len == 0;
        } else {
            filling->failed |= !look_up(filling, pointer, &value);
        }
        if (filling->failed)
            return SLICE("");
        if (in_url && !is_location)
            add_escaped(&filled, value);
        else
            buf_add_slice(&filled, value);
        text = slice_skip(text, len);
    }
    return arena_copy(filling->arena, buf_slice(&filled));
}

/* A string that is one value and nothing else becomes that value. */
static bool take_value(struct filling *filling, struct json *at)
{
    struct slice pointer;
    size_t len = placeholder(at->text, &pointer);
    if (filling->is_check || len != at->text.len || !slice_starts(at->text, RESPONSE))
        return false;
    const struct json *value = filling->root ? json_at(filling->root, pointer) : NULL;
    filling->failed |= !value;
    if (!value)
        return true;
    struct json *next = at->next;
    struct slice name = at->name;
    *at = *value;
    at->next = next;
    at->name = name;
    return true;
}

/* Not recursive: depth is JSON_DEPTH_MAX at most. */
static void fill_tree(struct filling *filling, struct json *root)
{
    struct json *stack[JSON_DEPTH_MAX + 1] = {root->first};
    for (size_t depth = 1; depth > 0 && !filling->failed;) {
        struct json *at = stack[depth - 1];
        if (!at) {
            depth--;
            continue;
        }
        stack[depth - 1] = at->next;
        bool in_url = depth == 1 && slice_eq(at->name, SLICE("url"));
        bool in_json = depth > 1 || slice_eq(at->name, SLICE("json"));
        if (at->type == JSON_STRING && !(in_json && take_value(filling, at)))
            at->text = fill_text(filling, at->text, in_url);
        else if (at->type >= JSON_ARRAY && at->first && depth <= JSON_DEPTH_MAX)
            stack[depth++] = at->first;
    }
}

static struct slice fill(struct filling *filling, struct slice undo)
{
    struct json *root = NULL;
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    struct canonical canonical = {.buf = &text};
    if (json_parse(filling->arena, undo, &root, NULL) != JSON_OK || root->type != JSON_OBJECT)
        return SLICE("");
    fill_tree(filling, root);
    if (filling->failed || !canonical_add_json(&canonical, root, (struct json_set){0}))
        return SLICE("");
    return arena_copy(filling->arena, buf_slice(&text));
}

bool undo_check(struct slice undo, struct arena *arena, struct slice *ret_problem)
{
    struct filling filling = {.arena = arena, .is_check = true};
    struct queue_operation operation = {0};
    BUF_AUTO struct buf problem = buf_make(SIZE_MAX);
    struct slice filled = fill(&filling, undo);
    *ret_problem = SLICE("{response:...} wants a JSON pointer");
    if (filled.len == 0 || !queue_line_read(filled, arena, &operation, ret_problem))
        return false;
    bool plain = operation.key.len == 0 && operation.group.len == 0 && operation.undo.len == 0 &&
                 operation.lasts_us == 0 && !operation.skips;
    if (!plain)
        *ret_problem = SLICE("it takes url, method, headers, header_files, and json or data");
    else if (!queue_check(&operation, &problem))
        *ret_problem = arena_copy(arena, buf_slice(&problem));
    return plain && problem.len == 0;
}

struct slice undo_fill(struct slice undo, const struct undo_response *response, struct arena *arena)
{
    struct filling filling = {.arena = arena, .response = response};
    struct json *root = NULL;
    if (response && response->body.len <= UNDO_RESPONSE_MOST &&
        json_parse(arena, response->body, &root, NULL) == JSON_OK)
        filling.root = root;
    return fill(&filling, undo);
}

struct slice undo_mark(struct slice filled, struct arena *arena)
{
    BUF_AUTO struct buf marked = buf_make(SIZE_MAX);
    buf_add_slice(&marked, MARK);
    buf_add_slice(&marked, filled);
    buf_add_char(&marked, '}');
    return arena_copy(arena, buf_slice(&marked));
}

struct slice undo_unmark(struct slice stored)
{
    if (!slice_starts(stored, MARK))
        return SLICE("");
    return slice_make(stored.at + MARK.len, stored.len - MARK.len - 1);
}
