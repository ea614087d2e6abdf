/* SPDX-License-Identifier: Apache-2.0 */
#include "client/undo.h"

#include "base/check.h"
#include "base/headers.h"
#include "base/json/json.h"
#include "base/text/url.h"
#include "client/fields.h"
#include "client/queue.h"
#include "core/request/canonical.h"
#include "core/request/filled.h"
#include "core/request/path.h"

#define ORIGIN_MAX ((size_t)16 * 1024) /* and a Location behind it */
#define PROBLEM_MAX ((size_t)512)
#define RESPONSE SLICE("{response:")
#define LOCATION SLICE("{location}")
#define MARK SLICE("{\"filled\":")
#define UNFILLED SLICE("{\"unfilled\":")

/* What is filled in, and from where. */
struct filling {
    struct arena *arena;
    const struct undo_response *response;
    const struct json *root; /* of the response's body; NULL: it is no JSON */
    bool is_check;           /* whatever is named is there */
    bool failed;
    struct buf *problem; /* why */
};

/* A string that is filled. */
struct place {
    bool in_url;
    struct buf *text;
    struct filled url; /* writes to the text, and judges it */
};

static void refuse_place(struct filling *filling, struct slice named, const char *why)
{
    if (!filling->failed)
        buf_printf(filling->problem, "%.*s %s", SLICE_QUOTED(named), why);
    filling->failed = true;
}

/* ---- what is named ---- */

/* It is not only too long. */
static bool lacks_memory(const struct buf *buf)
{
    return !buf_ok(buf) && !buf->too_large;
}

/* At the step's own origin, and a path that servers do not resolve to another. */
static bool is_own_location(struct slice location, const struct url *step, struct arena *arena)
{
    struct url to;
    const char *problem;
    struct slice segment;
    BUF_AUTO struct buf own = buf_make(ORIGIN_MAX), other = buf_make(ORIGIN_MAX);
    if (!url_read(location, &to, &problem) || to.userinfo.at)
        return false;
    url_write_origin(&own, step);
    url_write_origin(&other, &to);
    arena->failed |= lacks_memory(&own) || lacks_memory(&other);
    for (struct slice rest = to.path; slice_next(&rest, '/', &segment);)
        if (path_has_dots(segment))
            return false;
    return slice_eq(buf_slice(&own), buf_slice(&other));
}

/* Empty: there is none to follow. */
static struct slice location_of(const struct filling *filling)
{
    struct headers fields;
    struct url step;
    const char *problem;
    BUF_AUTO struct buf whole = buf_make(ORIGIN_MAX);
    if (!filling->response || !client_fields_split(filling->response->fields, &fields) ||
        !url_read(filling->response->url, &step, &problem))
        return SLICE("");
    const struct header *line = headers_find(&fields, SLICE("Location"));
    struct slice found = line ? line->value : SLICE("");
    bool is_path = found.len > 1 && found.at[0] == '/' && found.at[1] != '/';
    if (is_path)
        url_write_origin(&whole, &step);
    buf_add_slice(&whole, found);
    filling->arena->failed |= lacks_memory(&whole);
    if (!buf_ok(&whole) || !is_own_location(buf_slice(&whole), &step, filling->arena))
        return SLICE("");
    return arena_copy_buf(filling->arena, &whole);
}

/* The text of a value that has one. */
static bool text_of_json(const struct json *value, struct slice *ret_text)
{
    if (!value || value->type == JSON_NULL || value->type >= JSON_ARRAY)
        return false;
    *ret_text = value->type == JSON_TRUE    ? SLICE("true")
                : value->type == JSON_FALSE ? SLICE("false")
                                            : value->text;
    return true;
}

/* Where the placeholder at the beginning of `text` ends; 0: there is none. */
static size_t placeholder_end(struct slice text, struct slice *ret_pointer)
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

static bool look_up_pointer(struct filling *filling, struct slice pointer, struct slice *ret_text)
{
    if (filling->is_check) {
        *ret_text = SLICE("x");
        return json_pointer_valid(pointer);
    }
    return filling->root && text_of_json(json_at(filling->root, pointer), ret_text);
}

/* ---- filling ---- */

static void add_location(struct filling *filling, struct place *place)
{
    struct slice value = filling->is_check ? SLICE("https://x/x") : location_of(filling);
    if (value.len == 0)
        refuse_place(filling, LOCATION, "is none of the step's own origin, or is not there");
    else if (!place->in_url)
        buf_add_slice(place->text, value);
    else if (place->text->len == 0)
        filled_add_text(&place->url, value);
    else
        filled_add_value(&place->url, value);
}

static void add_place_value(struct filling *filling, struct slice named, struct slice pointer,
                            struct place *place)
{
    struct slice value;
    if (!look_up_pointer(filling, pointer, &value))
        refuse_place(filling, named,
                     filling->is_check ? "wants a JSON pointer"
                                       : "is no text in the step's response");
    else if (place->in_url)
        filled_add_value(&place->url, value);
    else
        buf_add_slice(place->text, value);
    if (place->url.fault != FILLED_GOOD)
        refuse_place(filling, named, filled_fault_text(place->url.fault));
}

/* One byte, or what is named, off the front of `text`. */
static void add_next_place(struct filling *filling, struct slice *text, struct place *place)
{
    struct slice pointer;
    size_t len = placeholder_end(*text, &pointer);
    struct slice named = slice_first(*text, len > 0 ? len : 1);
    *text = slice_skip(*text, named.len);
    if (len == 0 && place->in_url)
        filled_add_text(&place->url, named);
    else if (len == 0)
        buf_add_slice(place->text, named);
    else if (slice_eq(named, LOCATION))
        add_location(filling, place);
    else
        add_place_value(filling, named, pointer, place);
}

static struct slice fill_text(struct filling *filling, struct slice text, bool in_url)
{
    BUF_AUTO struct buf filled = buf_make(SIZE_MAX);
    struct place place = {.in_url = in_url, .text = &filled};
    struct slice whole = text;
    place.url = filled_make(&filled, FILLED_WANTS_VALUES | FILLED_KEEPS_ORIGIN);
    while (text.len > 0 && !filling->failed)
        add_next_place(filling, &text, &place);
    if (in_url && !filling->failed && filled_end(&place.url) != FILLED_GOOD)
        refuse_place(filling, whole, filled_fault_text(place.url.fault));
    return filling->failed ? SLICE("") : arena_copy_buf(filling->arena, &filled);
}

/* A string that is one value and nothing else becomes that value. */
static bool take_filled_value(struct filling *filling, struct json *at)
{
    struct slice pointer;
    size_t len = placeholder_end(at->text, &pointer);
    if (filling->is_check || len != at->text.len || !slice_starts(at->text, RESPONSE))
        return false;
    const struct json *value = filling->root ? json_at(filling->root, pointer) : NULL;
    if (!value) {
        refuse_place(filling, at->text, "is not in the step's response");
        return true;
    }
    struct json *next = at->next;
    struct slice name = at->name;
    *at = *value;
    at->next = next;
    at->name = name;
    return true;
}

/* Whether what is below it is no deeper than so many levels. */
static bool is_within_levels(const struct json *value, size_t levels)
{
    const struct json *stack[JSON_DEPTH_MAX + 1] = {value};
    for (size_t depth = 1; depth > 0;) {
        const struct json *at = stack[depth - 1];
        if (!at || (depth == 1 && at != value)) {
            depth--;
            continue;
        }
        stack[depth - 1] = at->next;
        if (at->type < JSON_ARRAY)
            continue;
        if (depth > levels)
            return false;
        stack[depth++] = at->first;
    }
    return true;
}

/* Not recursive: depth is JSON_DEPTH_MAX at most. A value that was taken is the response's own, in
 * which nothing is filled. */
static void fill_tree(struct filling *filling, struct json *root)
{
    struct json *stack[JSON_DEPTH_MAX + 1] = {root->first};
    bool in_json = false;
    for (size_t depth = 1; depth > 0 && !filling->failed;) {
        struct json *at = stack[depth - 1];
        if (!at) {
            depth--;
            continue;
        }
        stack[depth - 1] = at->next;
        bool in_url = depth == 1 && slice_eq(at->name, SLICE("url"));
        if (depth == 1)
            in_json = slice_eq(at->name, SLICE("json"));
        bool is_taken = at->type == JSON_STRING && in_json && take_filled_value(filling, at);
        if (is_taken && !is_within_levels(at, JSON_DEPTH_MAX - depth))
            refuse_place(filling, at->name, "would be nested too deep");
        else if (!is_taken && at->type == JSON_STRING)
            at->text = fill_text(filling, at->text, in_url);
        else if (!is_taken && at->type >= JSON_ARRAY && at->first && depth <= JSON_DEPTH_MAX)
            stack[depth++] = at->first;
    }
}

static struct slice fill_undo(struct filling *filling, struct slice undo)
{
    struct json *root = NULL;
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    struct canonical canonical = {.buf = &text};
    if (json_parse(filling->arena, undo, &root, NULL) != JSON_OK || root->type != JSON_OBJECT)
        return SLICE("");
    fill_tree(filling, root);
    if (filling->failed)
        return SLICE("");
    filling->arena->failed |= !canonical_add_json(&canonical, root, (struct json_set){0});
    return arena_copy_buf(filling->arena, &text);
}

/* Whether what was filled is an operation, and nothing beside it. */
static bool check_operation(struct filling *filling, struct slice filled)
{
    struct queue_operation operation = {0};
    struct slice problem = SLICE("it is no JSON object");
    if (filling->failed)
        return false;
    if (filled.len == 0 || !queue_line_read(filled, filling->arena, &operation, &problem)) {
        buf_add_slice(filling->problem, problem);
        return false;
    }
    bool plain = operation.key.len == 0 && operation.group.len == 0 && operation.undo.len == 0 &&
                 operation.lasts_us == 0 && operation.attempts == 0 && !operation.skips;
    if (!plain)
        buf_add_str(filling->problem,
                    "it takes url, method, headers, header_files, and json or data");
    return plain && queue_check(&operation, filling->problem);
}

bool undo_check(struct slice undo, struct arena *arena, struct slice *ret_problem)
{
    char room[PROBLEM_MAX + 1];
    BUF_AUTO struct buf problem = buf_on(room, sizeof room, PROBLEM_MAX);
    struct filling filling = {.arena = arena, .is_check = true, .problem = &problem};
    bool good = check_operation(&filling, fill_undo(&filling, undo));
    *ret_problem = arena_copy(arena, buf_slice(&problem));
    return good;
}

struct slice undo_fill(struct slice undo, const struct undo_response *response, struct arena *arena,
                       struct slice *ret_problem)
{
    char room[PROBLEM_MAX + 1];
    BUF_AUTO struct buf problem = buf_on(room, sizeof room, PROBLEM_MAX);
    struct filling filling = {.arena = arena, .response = response, .problem = &problem};
    struct json *root = NULL;
    CHECK(!undo_is_marked(undo));
    if (response && response->body.len <= UNDO_RESPONSE_MOST &&
        json_parse(arena, response->body, &root, NULL) == JSON_OK)
        filling.root = root;
    struct slice filled = fill_undo(&filling, undo);
    bool good = check_operation(&filling, filled);
    *ret_problem = arena_copy(arena, buf_slice(&problem));
    return good ? filled : SLICE("");
}

/* ---- what is stored ---- */

struct slice undo_mark(struct slice filled, struct arena *arena)
{
    BUF_AUTO struct buf marked = buf_make(SIZE_MAX);
    CHECK(filled.len > 0 && !undo_is_marked(filled));
    buf_add_slice(&marked, MARK);
    buf_add_slice(&marked, filled);
    buf_add_char(&marked, '}');
    return arena_copy_buf(arena, &marked);
}

struct slice undo_unmark(struct slice stored)
{
    if (!slice_starts(stored, MARK))
        return SLICE("");
    return slice_make(stored.at + MARK.len, stored.len - MARK.len - 1);
}

struct slice undo_mark_unfilled(struct slice undo, struct slice problem, struct arena *arena)
{
    BUF_AUTO struct buf marked = buf_make(SIZE_MAX);
    CHECK(problem.len > 0 && !undo_is_marked(undo));
    buf_add_slice(&marked, UNFILLED);
    json_add_string(&marked, problem);
    buf_add_str(&marked, ",\"undo\":");
    buf_add_slice(&marked, undo);
    buf_add_char(&marked, '}');
    return arena_copy_buf(arena, &marked);
}

bool undo_is_marked(struct slice stored)
{
    return slice_starts(stored, MARK) || slice_starts(stored, UNFILLED);
}
