/* SPDX-License-Identifier: Apache-2.0 */
#include "config/node.h"
#include "base/buf.h"
#include "base/check.h"
#include "config/syntax.h"

#include <stdlib.h>
#include <yaml.h>

#define VALUE_MAX (64 * 1024) /* of one scalar after `${VAR}` */

/* A map or list that is still open. */
struct frame {
    struct node *node;
    struct node *last;
    bool has_key; /* map: the name was read, its value comes next */
    struct slice key;
    struct place key_place;
};

struct tree {
    struct arena *arena;
    struct complaints *complaints;
    struct node *root;
    size_t depth;
    struct frame frames[NODE_DEPTH_MAX];
    bool is_foreign; /* it gets nothing of the environment */
    bool over;       /* a complaint after which nothing more can be read */
};

static struct place place_of_mark(yaml_mark_t mark)
{
    return (struct place){mark.line + 1, mark.column + 1};
}

static struct frame *top_of(struct tree *tree)
{
    return tree->depth ? &tree->frames[tree->depth - 1] : NULL;
}

/* A name for the current place in the tree. */
static struct slice name_here(struct tree *tree)
{
    struct frame *top = top_of(tree);
    if (!top)
        return SLICE("config");
    return top->has_key ? top->key : top->node->key;
}

static bool scalar_has_control(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
            return true;
    return false;
}

/* The NAME of a text that begins with `${NAME}`; empty: it does not. */
static struct slice variable_at(struct slice text)
{
    if (!slice_starts(text, SLICE("${")))
        return slice_make(NULL, 0);
    struct slice rest = slice_skip(text, 2);
    size_t n = slice_span(rest, "_");
    return slice_first(rest, n < rest.len && rest.at[n] == '}' ? n : 0);
}

/* Puts the variables of `node` in; false: it complained. */
static bool put_variables_in(struct tree *tree, struct node *node, struct buf *buf)
{
    struct slice rest = node->written;
    while (rest.len) {
        if (tree->is_foreign || !slice_starts(rest, SLICE("${"))) {
            buf_add_char(buf, rest.at[0]);
            rest = slice_skip(rest, 1);
            continue;
        }
        struct slice name = variable_at(rest);
        struct slice copy = arena_copy(tree->arena, name);
        const char *value = name.len && copy.at ? getenv(copy.at) : NULL;
        if (!value) {
            complaints_add(tree->complaints, node->place, node->key,
                           name.len ? "the environment has no variable '%.*s'"
                                    : "'${' without a variable%.*s (expected ${NAME})",
                           SLICE_ARG(name));
            return false;
        }
        buf_add_str(buf, value);
        rest = slice_skip(rest, name.len + 3);
    }
    return true;
}

static void fill_in_node(struct tree *tree, struct node *node)
{
    BUF_AUTO struct buf buf = buf_make(VALUE_MAX);
    bool good = put_variables_in(tree, node, &buf);
    if (good && (buf.too_large || scalar_has_control(buf_slice(&buf)))) {
        complaints_add(tree->complaints, node->place, node->key,
                       buf.too_large ? "the value is too long" : "the value holds a control byte");
        good = false;
    }
    if (good)
        node->text = arena_copy(tree->arena, buf_slice(&buf));
    if (buf.failed && !buf.too_large)
        tree->arena->failed = true;
    if (!good)
        node->kind = NODE_BAD;
}

static bool is_null_event(const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (strcmp(value, "") == 0 || strcmp(value, "~") == 0 || strcmp(value, "null") == 0);
}

/* A new node as the next child of the open map or list, or as the root. */
static struct node *add_node(struct tree *tree, enum node_kind kind, yaml_mark_t mark)
{
    struct frame *top = top_of(tree);
    struct node *node = arena_alloc(tree->arena, sizeof *node);
    if (!node)
        return NULL;
    *node = (struct node){.kind = kind, .place = place_of_mark(mark), .key = name_here(tree)};
    node->key_place = top && top->has_key ? top->key_place : node->place;
    if (!top) {
        tree->root = node;
        return node;
    }
    if (top->last)
        top->last->next = node;
    else
        top->node->first = node;
    top->last = node;
    top->node->count++;
    top->has_key = false;
    return node;
}

const struct node *node_member(const struct node *map, struct slice key)
{
    CHECK(map->kind == NODE_MAP);
    for (const struct node *one = map->first; one; one = one->next)
        if (slice_eq(one->key, key))
            return one;
    return NULL;
}

static void take_map_key(struct tree *tree, struct slice key, struct place place)
{
    struct frame *top = top_of(tree);
    const struct node *first = node_member(top->node, key);
    top->key = arena_copy(tree->arena, key);
    top->key_place = place;
    top->has_key = true;
    if (slice_eq(key, SLICE("<<")))
        complaints_add(tree->complaints, place, key,
                       "merge keys are not supported (write the values out, or use `defaults`)");
    else if (first)
        complaints_add(tree->complaints, place, key, "given twice (first on line %zu)",
                       first->key_place.line);
    if (top->node->count == NODE_MEMBERS_MAX) {
        complaints_add(tree->complaints, place, top->node->key, "more than %d names in one map",
                       NODE_MEMBERS_MAX);
        tree->over = true;
    }
}

static void on_scalar(struct tree *tree, const yaml_event_t *event)
{
    struct frame *top = top_of(tree);
    struct slice text = slice_make(event->data.scalar.value, event->data.scalar.length);
    if (top && top->node->kind == NODE_MAP && !top->has_key) {
        take_map_key(tree, text, place_of_mark(event->start_mark));
        return;
    }
    struct node *node = add_node(tree, NODE_SCALAR, event->start_mark);
    if (!node)
        return;
    node->is_null = is_null_event(event);
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->written = arena_copy(tree->arena, text);
    fill_in_node(tree, node);
}

static void stop_reading(struct tree *tree, struct place place, struct slice key,
                         const char *problem)
{
    complaints_add(tree->complaints, place, key, "%s", problem);
    tree->over = true;
}

static void on_open(struct tree *tree, enum node_kind kind, const yaml_event_t *event)
{
    struct frame *top = top_of(tree);
    struct place place = place_of_mark(event->start_mark);
    if (top && top->node->kind == NODE_MAP && !top->has_key) {
        stop_reading(tree, place, top->node->key, "a name must be a single word");
        return;
    }
    if (tree->depth == NODE_DEPTH_MAX) {
        stop_reading(tree, place, name_here(tree), "nested too deeply");
        return;
    }
    struct node *node = add_node(tree, kind, event->start_mark);
    if (node)
        tree->frames[tree->depth++] = (struct frame){.node = node};
}

static void on_alias(struct tree *tree, const yaml_event_t *event)
{
    complaints_add(tree->complaints, place_of_mark(event->start_mark), name_here(tree),
                   "aliases are not supported (write the value out, or use `defaults`)");
    struct frame *top = top_of(tree);
    if (top && top->node->kind == NODE_MAP && !top->has_key)
        tree->over = true;
    else
        add_node(tree, NODE_BAD, event->start_mark);
}

static void refuse_decoration(struct tree *tree, const yaml_event_t *event,
                              const yaml_char_t *anchor, const yaml_char_t *tag)
{
    struct place place = place_of_mark(event->start_mark);
    if (anchor)
        complaints_add(tree->complaints, place, name_here(tree),
                       "anchors are not supported (write the value out, or use `defaults`)");
    if (tag)
        complaints_add(tree->complaints, place, name_here(tree),
                       "tags such as !!str are not supported (leave it out)");
}

static void on_event(struct tree *tree, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        refuse_decoration(tree, event, event->data.scalar.anchor, event->data.scalar.tag);
        on_scalar(tree, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        refuse_decoration(tree, event, event->data.sequence_start.anchor,
                          event->data.sequence_start.tag);
        on_open(tree, NODE_LIST, event);
        break;
    case YAML_MAPPING_START_EVENT:
        refuse_decoration(tree, event, event->data.mapping_start.anchor,
                          event->data.mapping_start.tag);
        on_open(tree, NODE_MAP, event);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        CHECK(tree->depth > 0);
        tree->depth--;
        break;
    case YAML_ALIAS_EVENT:
        on_alias(tree, event);
        break;
    case YAML_DOCUMENT_START_EVENT:
        if (!tree->root)
            break;
        stop_reading(tree, place_of_mark(event->start_mark), SLICE("config"),
                     "a second document (expected one)");
        break;
    default:
        break;
    }
}

static void complain_of_syntax(struct tree *tree, const yaml_parser_t *parser, struct slice text)
{
    /* The reader of bytes knows only an offset. */
    bool by_offset = parser->error == YAML_READER_ERROR;
    struct syntax_error error = {
        .problem = parser->problem ? parser->problem : "unreadable",
        .context = parser->context,
        .place = by_offset ? syntax_place(text, parser->problem_offset)
                           : place_of_mark(parser->problem_mark),
        .start = place_of_mark(parser->context_mark),
    };
    tree->over = true;
    if (parser->error == YAML_MEMORY_ERROR)
        tree->arena->failed = true;
    else
        syntax_complain(tree->complaints, &error, text);
}

static void read_events(struct tree *tree, yaml_parser_t *parser, struct slice text)
{
    yaml_event_type_t type = YAML_NO_EVENT;
    while (type != YAML_STREAM_END_EVENT && !tree->over && !tree->arena->failed) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            complain_of_syntax(tree, parser, text);
            return;
        }
        type = event.type;
        on_event(tree, &event);
        yaml_event_delete(&event);
    }
}

static struct node *read_tree(struct slice text, struct tree *tree)
{
    struct arena *arena = tree->arena;
    struct complaints *complaints = tree->complaints;
    yaml_parser_t parser;
    if (text.len > NODE_TEXT_MAX) {
        complaints_add(complaints, (struct place){1, 1}, SLICE("config"), "longer than %d bytes",
                       NODE_TEXT_MAX);
        return NULL;
    }
    if (!yaml_parser_initialize(&parser)) {
        arena->failed = true;
        return NULL;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.len ? text.at : ""),
                                 text.len);
    read_events(tree, &parser, text);
    CHECK(tree->over || arena->failed || tree->depth == 0);
    yaml_parser_delete(&parser);
    if (!tree->over && !tree->root && !arena->failed)
        add_node(tree, NODE_MAP, (yaml_mark_t){0});
    return tree->over || arena->failed ? NULL : tree->root;
}

struct node *node_read(struct slice text, struct arena *arena, struct complaints *complaints)
{
    struct tree tree = {.arena = arena, .complaints = complaints};
    return read_tree(text, &tree);
}

struct node *node_read_foreign(struct slice text, struct arena *arena,
                               struct complaints *complaints)
{
    struct tree tree = {.arena = arena, .complaints = complaints, .is_foreign = true};
    return read_tree(text, &tree);
}
