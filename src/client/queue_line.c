/* SPDX-License-Identifier: Apache-2.0 */
#include "base/headers.h"
#include "base/text/url.h"
#include "base/time/duration.h"
#include "client/fields.h"
#include "client/operation.h"
#include "client/queue.h"
#include "client/request.h"
#include "core/request/canonical.h"

#define PROBLEM_SHOWN 60
#define GROUP_MAX ((size_t)255)

bool queue_check(const struct queue_operation *operation, struct buf *problem)
{
    struct url url;
    const char *why;
    if (!url_read(operation->url, &url, &why))
        buf_printf(problem, "the URL %s", why);
    else if (url.userinfo.at)
        buf_add_str(problem,
                    "the URL contains credentials, which would stay on disk: use -H @FILE");
    else if (operation->key.len > 0 && !client_is_key(operation->key))
        buf_add_str(problem, "a key has 1 to 255 bytes of printable ASCII, not more");
    else if (operation->group.len > GROUP_MAX)
        buf_add_str(problem, "the name of a group has at most 255 bytes");
    return problem->len == 0;
}

/* What is read, and what it becomes. */
struct reader {
    struct arena *arena;
    struct queue_operation *operation;
    struct buf fields;
    bool is_json;
    bool has_type; /* a Content-Type is given */
    bool has_body; /* of this line */
    struct slice problem;
};

static bool refuse_member(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse_member(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    reader->problem = arena_vprintf(reader->arena, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- members ---- */

static bool read_key(struct reader *reader, const struct json *value)
{
    reader->operation->key = value->text;
    return value->text.len > 0 || refuse_member(reader, "\"key\" is empty");
}

static bool read_method(struct reader *reader, const struct json *value)
{
    reader->operation->method = value->text;
    return header_is_token(value->text) || refuse_member(reader, "\"method\" is not a method");
}

static bool read_line_url(struct reader *reader, const struct json *value)
{
    reader->operation->url = value->text;
    return true;
}

static bool read_group(struct reader *reader, const struct json *value)
{
    reader->operation->group = value->text;
    return true;
}

static bool read_on_failure(struct reader *reader, const struct json *value)
{
    reader->operation->skips = slice_eq(value->text, SLICE("skip"));
    return reader->operation->skips || slice_eq(value->text, SLICE("park")) ||
           refuse_member(reader, "\"on_failure\" must be park or skip");
}

static bool read_attempts(struct reader *reader, const struct json *value)
{
    uint64_t attempts = 0;
    bool is_good = slice_to_u64(value->text, RETRY_CHOICE_ATTEMPTS_MOST, &attempts) && attempts > 0;
    reader->operation->attempts = (int)attempts;
    return is_good || refuse_member(reader, "\"attempts\" wants a number from 1 to %d",
                                    RETRY_CHOICE_ATTEMPTS_MOST);
}

static bool read_deadline(struct reader *reader, const struct json *value)
{
    if (slice_eq(value->text, SLICE("none"))) {
        reader->operation->lasts_us = CLOCK_NEVER;
        return true;
    }
    return (duration_parse(value->text, &reader->operation->lasts_us) &&
            reader->operation->lasts_us > 0) ||
           refuse_member(reader, "\"deadline\" wants a duration such as 30m, or none");
}

static bool read_remember(struct reader *reader, const struct json *value)
{
    int64_t *us = &reader->operation->remember_us;
    return (duration_parse(value->text, us) && *us > 0 && *us < CLOCK_NEVER) ||
           refuse_member(reader, "\"remember\" wants a duration such as 24h");
}

static bool read_line_body(struct reader *reader, struct slice body)
{
    if (reader->has_body)
        return refuse_member(reader, "\"json\" and \"data\" exclude each other");
    reader->has_body = reader->operation->has_body = true;
    reader->operation->body = body;
    return true;
}

static bool read_data(struct reader *reader, const struct json *value)
{
    return read_line_body(reader, value->text);
}

static bool add_canonical_json(const struct json *value, struct arena *arena,
                               struct slice *ret_text)
{
    BUF_AUTO struct buf text = buf_make(SIZE_MAX);
    struct canonical canonical = {.buf = &text};
    arena->failed |= !canonical_add_json(&canonical, value, (struct json_set){0});
    *ret_text = arena_copy_buf(arena, &text);
    return !arena->failed;
}

/* The value is sent in its canonical form: the tree has no other. */
static bool read_json(struct reader *reader, const struct json *value)
{
    struct slice body;
    reader->is_json = true;
    return add_canonical_json(value, reader->arena, &body) ? read_line_body(reader, body)
                                                           : refuse_member(reader, "out of memory");
}

static bool read_line_undo(struct reader *reader, const struct json *value)
{
    return add_canonical_json(value, reader->arena, &reader->operation->undo) ||
           refuse_member(reader, "out of memory");
}

static bool read_line_headers(struct reader *reader, const struct json *value)
{
    static const struct headers none;
    for (const struct json *one = value->first; one; one = one->next) {
        if (one->type != JSON_STRING || !header_is_valid(one->name, one->text))
            return refuse_member(reader, "\"headers\" holds what is no header: \"%.*s\"",
                                 SLICE_ARG(slice_first(one->name, PROBLEM_SHOWN)));
        if (client_is_reserved(&none, one->name) ||
            slice_eq_nocase(one->name, SLICE("Idempotency-Key")))
            return refuse_member(reader, "the header %.*s is set by pawl", SLICE_ARG(one->name));
        reader->has_type = reader->has_type || slice_eq_nocase(one->name, SLICE("Content-Type"));
        fields_add(&reader->fields, one->name, one->text);
    }
    return true;
}

static bool read_header_files(struct reader *reader, const struct json *value)
{
    for (const struct json *one = value->first; one; one = one->next) {
        if (one->type != JSON_STRING || one->text.len == 0 || one->text.at[0] != '/' ||
            !header_is_text(one->text))
            return refuse_member(reader, "\"header_files\" wants absolute paths");
        buf_printf(&reader->fields, "@%.*s\r\n", SLICE_ARG(one->text));
    }
    return true;
}

static const struct member {
    struct slice name;
    enum json_type type; /* JSON_NULL: any */
    bool (*read)(struct reader *reader, const struct json *value);
} members[] = {
    {{"url", 3}, JSON_STRING, read_line_url},
    {{"method", 6}, JSON_STRING, read_method},
    {{"headers", 7}, JSON_OBJECT, read_line_headers},
    {{"header_files", 12}, JSON_ARRAY, read_header_files},
    {{"json", 4}, JSON_NULL, read_json},
    {{"data", 4}, JSON_STRING, read_data},
    {{"key", 3}, JSON_STRING, read_key},
    {{"group", 5}, JSON_STRING, read_group},
    {{"on_failure", 10}, JSON_STRING, read_on_failure},
    {{"deadline", 8}, JSON_STRING, read_deadline},
    {{"attempts", 8}, JSON_NUMBER, read_attempts},
    {{"remember", 8}, JSON_STRING, read_remember},
    {{"undo", 4}, JSON_OBJECT, read_line_undo},
};

static bool read_line_member(struct reader *reader, const struct json *value)
{
    static const char *const types[] = {[JSON_STRING] = "a string",
                                        [JSON_NUMBER] = "a number",
                                        [JSON_ARRAY] = "an array",
                                        [JSON_OBJECT] = "an object"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const struct member *member = &members[i];
        if (!slice_eq(member->name, value->name))
            continue;
        if (member->type != JSON_NULL && member->type != value->type)
            return refuse_member(reader, "\"%s\" wants %s", member->name.at, types[member->type]);
        return member->read(reader, value);
    }
    return refuse_member(reader, "there is no member \"%.*s\"",
                         SLICE_ARG(slice_first(value->name, PROBLEM_SHOWN)));
}

/* ---- the line ---- */

/* The defaults' fields, and what the body brings, around those that were read. */
static bool complete_line(struct reader *reader)
{
    struct queue_operation *operation = reader->operation;
    if (operation->url.len == 0)
        return refuse_member(reader, "there is no \"url\"");
    if (reader->is_json && !reader->has_type)
        buf_add_str(&reader->fields, "Content-Type: application/json\r\n");
    operation->fields = arena_copy_buf(reader->arena, &reader->fields);
    return !reader->arena->failed || refuse_member(reader, "out of memory");
}

bool queue_line_read(struct slice line, struct arena *arena, struct queue_operation *operation,
                     struct slice *ret_problem)
{
    struct reader reader = {.arena = arena, .operation = operation, .fields = buf_make(SIZE_MAX)};
    struct json *root = NULL;
    struct headers given;
    buf_add_slice(&reader.fields, operation->fields);
    reader.has_type = client_fields_split(operation->fields, &given) &&
                      headers_find(&given, SLICE("Content-Type"));
    enum json_error error = json_parse(arena, line, &root, NULL);
    bool good = error == JSON_OK || refuse_member(&reader, "%s", json_error_text(error));
    good = good && (root->type == JSON_OBJECT || refuse_member(&reader, "it is not an object"));
    for (const struct json *one = good ? root->first : NULL; one && good; one = one->next)
        good = read_line_member(&reader, one);
    good = good && complete_line(&reader);
    buf_fini(&reader.fields);
    *ret_problem = reader.problem;
    return good;
}
