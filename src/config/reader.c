/* SPDX-License-Identifier: Apache-2.0 */
#include "config/reader.h"
#include "base/check.h"
#include "base/json/json.h"
#include "base/text/nearest.h"
#include "config/meant.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define NAMES_MAX 32
#define NAME_BYTES_MAX 100
#define SHORT_LIST 8
#define HINT_MAX 2048
#define VALUE_SHOWN_MAX 60
#define WARNING_MAX 768

static struct slice node_shown(const struct node *node)
{
    struct slice text = node->written;
    return text.len > VALUE_SHOWN_MAX ? slice_make(text.at, VALUE_SHOWN_MAX) : text;
}

void reader_complain(struct reader *reader, const struct node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complaints_add_list(reader->errors, node->place, node->key, format, args);
    va_end(args);
}

void reader_expected(struct reader *reader, const struct node *node, const char *expected)
{
    reader_complain(reader, node, "'%.*s' is not valid here (expected %s)",
                    SLICE_ARG(node_shown(node)), expected);
}

/* Of a value that the environment gave nothing is guessed: it may be a secret. */
void reader_expected_near(struct reader *reader, const struct node *node, const char *expected,
                          const struct buf *meant)
{
    if (meant->failed && !meant->too_large)
        reader->scratch->failed = true;
    else if (meant->failed || meant->len == 0 || !slice_eq(node->text, node->written))
        reader_expected(reader, node, expected);
    else
        reader_complain(reader, node, "'%.*s' is not valid here (did you mean '%.*s'? expected %s)",
                        SLICE_ARG(node_shown(node)), SLICE_ARG(buf_slice(meant)), expected);
}

/* `{header:X}` without quotes is a YAML map with one name and no value. */
static bool is_bare_template(const struct node *node)
{
    return node->kind == NODE_MAP && node->first && node->first->kind == NODE_SCALAR &&
           node->first->is_null && slice_find(node->first->key, ':') > 0;
}

bool reader_scalar(struct reader *reader, const struct node *node, const char *expected,
                   struct slice *ret_text)
{
    if (node->kind == NODE_BAD)
        return false;
    if (node->kind == NODE_SCALAR && !node->is_null) {
        *ret_text = node->text;
        return true;
    }
    if (is_bare_template(node))
        reader_complain(reader, node, "a template must be quoted (expected \"{%.*s}\")",
                        SLICE_ARG(node->first->key));
    else if (node->kind == NODE_SCALAR)
        reader_complain(reader, node, "has no value (expected %s)", expected);
    else
        reader_complain(reader, node, "is a %s (expected %s)",
                        node->kind == NODE_LIST ? "list" : "map", expected);
    return false;
}

void reader_meant_member(struct reader *reader, const struct node *node, const char *member,
                         const char *expected)
{
    reader_complain(reader, node, "'%.*s' is not valid here (did you mean {%s: %.*s}? expected %s)",
                    SLICE_ARG(node_shown(node)), member, SLICE_ARG(node_shown(node)), expected);
}

struct names {
    size_t n;
    const struct slice *at;
};

static size_t split_choices(const char *choices, struct slice *ret_names)
{
    struct slice rest = slice_of(choices);
    size_t n = 0;
    while (n < NAMES_MAX && slice_next(&rest, '|', &ret_names[n]))
        n++;
    CHECK(!rest.at); /* all of them */
    return n;
}

static void add_choices(struct buf *buf, const struct slice *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_add_str(buf, i == 0 ? "" : i + 1 == n ? " or " : ", ");
        buf_add_slice(buf, names[i]);
    }
}

/* Complains `KEY: PROBLEM (did you mean 'x'? expected a, b or c)`; a long list is left out where a
 * name is near. */
static void complain_of_name(struct reader *reader, struct complaint problem, struct slice key,
                             struct slice given, const struct names *names)
{
    BUF_AUTO struct buf buf = buf_make(HINT_MAX);
    struct nearest nearest = {.given = given};
    for (size_t i = 0; i < names->n; i++)
        nearest_try(&nearest, names->at[i]);
    struct slice near = meant_name(given, names->at, names->n);
    if (!near.at)
        near = nearest_name(&nearest);
    bool lists = !near.at || (names->n > 1 && names->n <= SHORT_LIST);
    if (near.at)
        buf_printf(&buf, "did you mean '%.*s'?%s", SLICE_ARG(near), lists ? " " : "");
    if (lists) {
        buf_add_str(&buf, "expected ");
        add_choices(&buf, names->at, names->n);
    }
    if (!buf_ok(&buf))
        reader->scratch->failed = true;
    complaints_add(reader->errors, problem.place, key, "%.*s (%.*s)", SLICE_ARG(problem.text),
                   SLICE_ARG(buf_slice(&buf)));
}

void reader_unknown_name(struct reader *reader, const struct node *node, const struct slice *names,
                         size_t n)
{
    struct complaint problem = {node->key_place, SLICE("unknown option")};
    complain_of_name(reader, problem, node->key, node->key, &(struct names){n, names});
}

/* What begins with a bracket shows a form, and is no word to be equal to. */
static bool is_word(struct slice name)
{
    return name.len > 0 && name.at[0] != '{' && name.at[0] != '[';
}

static bool find_choice(struct slice given, const struct slice *names, size_t n, size_t *ret_index)
{
    for (size_t i = 0; i < n; i++) {
        if (is_word(names[i]) && slice_eq(given, names[i])) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

bool reader_refuse_wild(struct reader *reader, const struct node *node)
{
    if (node->kind != NODE_SCALAR || !json_pointer_is_meant_wild(node->text))
        return false;
    reader_complain(reader, node,
                    "'%.*s': pointers have no wildcards (expected names and numbers from the root, "
                    "such as /lines/0/id, or /lines for all that is in it)",
                    SLICE_ARG(node->written));
    return true;
}

bool reader_choice(struct reader *reader, const struct node *node, const char *choices,
                   size_t *ret_index)
{
    BUF_AUTO struct buf expected = buf_make(HINT_MAX);
    struct slice names[NAMES_MAX], text;
    size_t n = split_choices(choices, names);
    add_choices(&expected, names, n);
    buf_add_char(&expected, '\0');
    if (!buf_ok(&expected)) {
        reader->scratch->failed = true;
        return false;
    }
    if (!reader_scalar(reader, node, expected.at, &text))
        return false;
    if (find_choice(text, names, n, ret_index))
        return true;
    BUF_AUTO struct buf what = buf_make(VALUE_SHOWN_MAX + HINT_MAX);
    buf_printf(&what, "'%.*s' is not valid here", SLICE_ARG(node_shown(node)));
    reader->scratch->failed |= !buf_ok(&what);
    struct complaint problem = {node->place, buf_slice(&what)};
    complain_of_name(reader, problem, node->key, text, &(struct names){n, names});
    return false;
}

const struct node *reader_only_member(struct reader *reader, const struct node *map,
                                      const char *choices, size_t *ret_index)
{
    struct slice names[NAMES_MAX];
    size_t n = split_choices(choices, names);
    if (map->count != 1) {
        complaints_add(reader->errors, map->place, map->key, "holds %zu names (expected one: %s)",
                       map->count, choices);
        return NULL;
    }
    if (find_choice(map->first->key, names, n, ret_index))
        return map->first;
    reader_unknown_name(reader, map->first, names, n);
    return NULL;
}

void reader_not_a_list(struct reader *reader, const struct node *node, size_t most,
                       const char *expected)
{
    const char *quote = slice_is_word(node->written, "._/-") ? "" : "\"";
    if (node->kind == NODE_SCALAR && !node->is_null)
        reader_complain(reader, node,
                        "is not a list (did you mean [%s%.*s%s]? expected %s, in a list)", quote,
                        SLICE_ARG(node_shown(node)), quote, expected);
    else if (node->kind == NODE_LIST)
        reader_complain(reader, node, "has %zu items (expected at most %zu)", node->count, most);
    else if (node->kind != NODE_BAD)
        reader_complain(reader, node, "is not a list (expected %s, in a list)", expected);
}

bool reader_is_name(struct slice text)
{
    return slice_is_word(text, "._-") && text.len <= NAME_BYTES_MAX;
}

void reader_text(struct reader *reader, const struct node *node, const struct reader_text *wanted,
                 struct slice *field)
{
    struct slice text;
    if (!reader_scalar(reader, node, wanted->a_text, &text))
        return;
    if (wanted->is_good(text))
        *field = arena_copy(reader->texts, text);
    else
        reader_expected(reader, node, wanted->expected);
}

bool reader_list(struct reader *reader, const struct node *node, bool (*is_good)(struct slice),
                 const char *expected, struct reader_texts *texts)
{
    if (node->kind != NODE_LIST || node->count > texts->max) {
        reader_not_a_list(reader, node, texts->max, expected);
        return false;
    }
    CHECK(texts->n == 0);
    for (const struct node *item = node->first; item; item = item->next) {
        struct slice text;
        if (!reader_scalar(reader, item, expected, &text))
            return false;
        if (!is_good(text)) {
            reader_expected(reader, item, expected);
            return false;
        }
        texts->at[texts->n++] = arena_copy(reader->texts, text);
    }
    return true;
}

/* ---- warnings ---- */

static const char choices[] =
#define X(name, text) "|" text
    CONFIG_WARNINGS(X);
#undef X
static_assert(WARNING_COUNT <= NAMES_MAX, "reader_choice knows them all");

/* What the top allows is allowed in each rule. */
OPTION_READER(allow)
{
    if (node->kind != NODE_LIST) {
        reader_complain(reader, node, "not a list (expected classes of warnings such as [%s])",
                        warning_name((enum warning)0));
        return;
    }
    for (const struct node *item = node->first; item; item = item->next) {
        size_t index;
        if (reader_choice(reader, item, choices + 1, &index))
            *(unsigned *)field |= 1U << index;
    }
}

void reader_warn(struct reader *reader, enum warning warning, const struct node *node,
                 const char *format, ...)
{
    char text[WARNING_MAX];
    va_list arguments;
    if (!node || warning_is_allowed(reader->draft->allowed, warning))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    complaints_add(reader->warnings, node->place, node->key, "%s [%s]", text,
                   warning_name(warning));
}
