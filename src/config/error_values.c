/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of `errors`: the bodies of pawl's own errors in an API's own words. */
#include "base/check.h"
#include "base/json/json.h"
#include "config/option.h"
#include "config/reader.h"
#include "core/error_text.h"
#include <assert.h>

#define FILLED_MAX ((size_t)64 * 1024)
#define PARSED_MAX ((size_t)1024 * 1024)
#define ERRORS "{media_type: application/json, templates: {default: '{\"error\": \"{detail}\"}'}}"
static_assert(ERROR_COUNT <= ERROR_TEXTS_MAX, "each error and `default` may have a template");
#define A_TEMPLATE "JSON with {names} in it, such as '{\"error\": \"{detail}\"}'"

static bool is_json_media(struct slice text)
{
    return json_is_type(text) && header_is_text(text);
}

OPTION_READER(json_type)
{
    static const char expected[] = "application/json, or a type that ends in +json";
    static const struct reader_text wanted = {is_json_media, expected, expected};
    reader_text(reader, node, &wanted, field);
}

/* False: no error of pawl's has that name. */
static bool check_error_name(struct reader *reader, const struct node *node)
{
    struct slice names[ERROR_COUNT];
    size_t n = 0;
    names[n++] = SLICE("default");
    for (int error = ERROR_NONE + 1; error < ERROR_COUNT; error++)
        names[n++] = error_text_name((enum error)error);
    if (slice_is_among(node->key, names, n))
        return true;
    reader_unknown_name(reader, node, names, n);
    return false;
}

/* NULL: it complained, or there is no memory. What is filled in changes nothing of how it reads. */
static const struct json *fill_example(struct reader *reader, const struct node *node,
                                       struct slice text)
{
    BUF_AUTO struct buf filled = buf_make(FILLED_MAX);
    struct problem problem = problem_of(ERROR_IN_PROGRESS);
    struct error_facts facts = {.problem = &problem};
    struct slice wrong;
    struct json *json;
    if (!error_text_fill(text, &facts, &filled, &wrong)) {
        reader_complain(reader, node,
                        "%.*s is not known there (expected {code}, {error_code}, {title}, "
                        "{detail}, {hint}, {instance}, {key} or {trace_id} inside a string, "
                        "{status}, {retry_after}, {retryable} or {safe_new_key} outside)",
                        SLICE_ARG(wrong));
        return NULL;
    }
    struct slice copy = arena_copy(reader->scratch, buf_slice(&filled));
    enum json_error error = json_parse(reader->scratch, copy, &json, NULL);
    if (buf_ok(&filled) && error == JSON_OK)
        return json;
    reader_complain(reader, node, "is not JSON once it is filled: %s (expected " A_TEMPLATE ")",
                    json_error_text(error));
    return NULL;
}

static bool is_of_conflict(struct slice name)
{
    for (int error = ERROR_NONE + 1; error < ERROR_COUNT; error++)
        if (error_row((enum error)error)->status == 409 &&
            slice_eq(name, error_text_name((enum error)error)))
            return true;
    return slice_eq(name, SLICE("default"));
}

static void read_template(struct reader *reader, const struct node *node, struct error_texts *texts)
{
    struct slice text;
    if (!check_error_name(reader, node) || !reader_scalar(reader, node, A_TEMPLATE, &text))
        return;
    if (text.len > ERROR_TEXT_MAX) {
        reader_complain(reader, node, "is longer than %d bytes", ERROR_TEXT_MAX);
        return;
    }
    const struct json *json = fill_example(reader, node, text);
    if (!json)
        return;
    CHECK(texts->n < ERROR_TEXTS_MAX);
    texts->lacks_error |= is_of_conflict(node->key) && !json_at(json, SLICE("/error"));
    texts->at[texts->n++] =
        (struct error_text){arena_copy(reader->texts, node->key), arena_copy(reader->texts, text)};
}

OPTION_READER(error_templates)
{
    struct error_texts *texts = READER_STRUCT(field, error_texts, at);
    if (node->kind != NODE_MAP || node->count == 0 || node->count > ERROR_TEXTS_MAX) {
        reader_expected(reader, node, "1 to 64 templates by error, such as {default: '..'}");
        return;
    }
    for (const struct node *one = node->first; one; one = one->next)
        read_template(reader, one, texts);
}

OPTION_READER(errors)
{
    struct error_texts texts = {0};
    size_t errors = reader->errors->n;
    if (!options_read_members(reader, option, node, ERRORS, &texts))
        return;
    if (texts.n == 0 && errors == reader->errors->n)
        reader_complain(reader, node, "has no templates (expected " ERRORS ")");
    struct error_texts *kept = arena_alloc(reader->texts, sizeof *kept);
    if (!kept)
        return;
    *kept = texts;
    *(const struct error_texts **)field = kept;
}
