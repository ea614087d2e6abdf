/* SPDX-License-Identifier: Apache-2.0 */
#include "config/explain.h"

#include "base/json/json.h"
#include "base/text/nearest.h"
#include "config/option.h"
#include "config/reader.h"
#include "config/scalar.h"
#include <limits.h>
#include <stdlib.h>

#define TEXT_MAX ((size_t)64 * 1024)
#define COMMENT_COLUMN 44
#define FOLDER_MAX 2048

/* ---- the reference ---- */

/* The i-th of the table's options and the sections behind them; NULL: there are no more. */
static const struct option *nth_option(const struct config_sections *sections, size_t i)
{
    if (i < OPTION_COUNT)
        return option_at((enum option_id)i);
    return i - OPTION_COUNT < sections->n ? sections->at[i - OPTION_COUNT] : NULL;
}

const struct option *explain_find(const struct config_sections *sections, struct slice name,
                                  struct slice *ret_nearest)
{
    const struct option *option;
    struct nearest nearest = {.given = name};
    for (size_t i = 0; (option = nth_option(sections, i)); i++) {
        if (slice_eq(name, option->name))
            return option;
        nearest_try(&nearest, option->name);
    }
    *ret_nearest = nearest_name(&nearest);
    return NULL;
}

/* A line of the text, unless `add` has nothing to say. */
static void add_option_fact(struct buf *buf, const char *name, const struct option *option,
                            bool (*add)(const struct option *option, struct buf *buf))
{
    size_t before = buf->len;
    buf_printf(buf, "  %-8s ", name);
    if (add(option, buf))
        buf_add_char(buf, '\n');
    else
        buf_cut(buf, before);
}

static const struct value {
    enum option_id option;
    const char *value;
    const char *text;
} values[] = {
#define X(option, value, text) {OPTION_##option, value, text},
    CONFIG_VALUES(X)
#undef X
};
#define N_VALUES COUNT_OF(values)

/* Those of an option are in a row. */
static const struct value *values_of(const struct option *option, size_t *ret_n)
{
    size_t first = 0, n = 0;
    while (first < N_VALUES && option_at(values[first].option) != option)
        first++;
    while (first + n < N_VALUES && option_at(values[first + n].option) == option)
        n++;
    *ret_n = n;
    return values + first;
}

/* Adds the others of its group. */
static bool add_related(const struct option *option, struct buf *buf)
{
    static const char *const groups[] = {
#define X(names) names,
        CONFIG_GROUPS(X)
#undef X
    };
    size_t i = 0, n = COUNT_OF(groups), before = buf->len;
    while (i < n && slice_item(slice_of(groups[i]), '|', option->name) < 0)
        i++;
    struct slice rest = slice_of(i < n ? groups[i] : ""), name;
    while (option->where && slice_next(&rest, '|', &name))
        if (name.len > 0 && !slice_eq(name, option->name))
            buf_printf(buf, "%s%.*s", buf->len > before ? ", " : "", SLICE_ARG(name));
    return buf->len > before;
}

static void describe_values(const struct option *option, struct buf *buf)
{
    size_t n;
    const struct value *one = values_of(option, &n);
    buf_add_str(buf, n > 0 ? "  values\n" : "");
    for (size_t i = 0; i < n; i++)
        buf_printf(buf, "    %-11s %s\n", one[i].value, one[i].text);
}

static void describe_option(const struct option *option, struct buf *buf)
{
    size_t n;
    const struct option *part = option_parts(option, &n);
    buf_printf(buf, "%s: %s\n  type     %s\n", option->name.at, option->help, option_type(option));
    add_option_fact(buf, "where", option, option_add_where);
    buf_printf(buf, "  default  %s\n", option->fallback);
    add_option_fact(buf, "range", option, option_add_range);
    buf_printf(buf, "  reload   %s\n", option->where & OPTION_RESTART ? "needs a restart" : "yes");
    add_option_fact(buf, "related", option, add_related);
    describe_values(option, buf);
    buf_add_str(buf, n > 0 ? "  parts\n" : "");
    for (size_t i = 0; i < n; i++)
        buf_printf(buf, "    %s: %s\n      default  %s\n", part[i].name.at, part[i].help,
                   part[i].fallback);
}

static void add_fact_json(struct buf *buf, const char *name, const struct option *option,
                          bool (*add)(const struct option *option, struct buf *buf))
{
    BUF_AUTO struct buf text = buf_make(256);
    if (add(option, &text))
        json_add_text(buf, name, buf_slice(&text));
}

static void describe_values_json(const struct option *option, struct buf *buf)
{
    size_t n;
    const struct value *one = values_of(option, &n);
    if (n == 0)
        return;
    json_open(buf, "values", '[');
    for (size_t i = 0; i < n; i++) {
        json_next_item(buf);
        buf_add_char(buf, '{');
        json_add_text(buf, "value", slice_of(one[i].value));
        json_add_text(buf, "means", slice_of(one[i].text));
        buf_add_char(buf, '}');
    }
    buf_add_char(buf, ']');
}

/* Of a part, too, which has no place of its own and no parts. */
static void describe_json(const struct option *option, struct buf *buf)
{
    size_t n;
    const struct option *part = option_parts(option, &n);
    buf_add_char(buf, '{');
    json_add_text(buf, "name", option->name);
    json_add_text(buf, "type", slice_of(option_type(option)));
    json_add_text(buf, option_is_value(option->fallback) ? "default" : "without",
                  slice_of(option->fallback));
    add_fact_json(buf, "where", option, option_add_where);
    add_fact_json(buf, "range", option, option_add_range);
    if (option->where)
        json_add_bool(buf, "reload", !(option->where & OPTION_RESTART));
    json_add_text(buf, "help", slice_of(option->help));
    add_fact_json(buf, "related", option, add_related);
    describe_values_json(option, buf);
    if (n > 0)
        json_open(buf, "parts", '[');
    for (size_t i = 0; i < n; i++) {
        json_next_item(buf);
        describe_json(&part[i], buf);
    }
    buf_add_str(buf, n > 0 ? "]}" : "}");
}

void explain_reference(const struct explain *explain)
{
    const struct option *option = explain->option;
    if (option) {
        (explain->json ? describe_json : describe_option)(option, explain->to);
        return;
    }
    if (!explain->json) {
        config_options_print(&explain->sections, explain->to);
        return;
    }
    buf_add_str(explain->to, "{\"options\":[");
    for (size_t i = 0; (option = nth_option(&explain->sections, i)); i++) {
        json_next_item(explain->to);
        describe_json(option, explain->to);
    }
    buf_add_str(explain->to, "]}");
}

/* ---- values ---- */

/* What needs no quotes anywhere. */
static bool is_plain_scalar(struct slice text)
{
    bool starts = slice_is_word(slice_first(text, 1), "");
    return starts && slice_is_word(text, "._/-") && !slice_eq(text, SLICE("null"));
}

/* Characters that YAML does not take as they are, or takes for the end of a line. */
static void add_quoted(struct buf *buf, struct slice text)
{
    static const char *const escapes[][2] = {{"\"", "\\\""},          {"\\", "\\\\"},
                                             {"\xc2\x85", "\\N"},     {"\xe2\x80\xa8", "\\L"},
                                             {"\xe2\x80\xa9", "\\P"}, {"\xef\xbb\xbf", "\\uFEFF"}};
    buf_add_char(buf, '"');
    while (text.len > 0) {
        size_t i = 0, n = COUNT_OF(escapes);
        while (i < n && !slice_starts(text, slice_of(escapes[i][0])))
            i++;
        if (i < n)
            buf_add_str(buf, escapes[i][1]);
        else
            buf_add_char(buf, text.at[0]);
        text = slice_skip(text, i < n ? strlen(escapes[i][0]) : 1);
    }
    buf_add_char(buf, '"');
}

static void add_scalar(const struct explain *explain, struct slice text, bool is_null)
{
    if (explain->json && is_null)
        buf_add_str(explain->to, "null");
    else if (explain->json)
        json_add_string(explain->to, text);
    else if (is_null)
        buf_add_char(explain->to, '~');
    else if (is_plain_scalar(text))
        buf_add_slice(explain->to, text);
    else
        add_quoted(explain->to, text);
}

/* The parts that the map leaves out, and that have a default. */
static void add_left_out(const struct explain *explain, const struct option *option,
                         const struct node *map)
{
    size_t n;
    const struct option *part = option_parts(option, &n);
    for (size_t i = 0; i < n; i++) {
        if (!option_is_value(part[i].fallback) || node_member(map, part[i].name))
            continue;
        buf_add_str(explain->to, ", ");
        add_scalar(explain, part[i].name, false);
        buf_add_str(explain->to, ": ");
        add_scalar(explain, slice_of(part[i].fallback), false);
    }
}

/* Appends the folder of `path` by its shortest way from the root. False: it is not there. */
static bool add_real_folder(struct buf *buf, struct slice path)
{
    char folder[FOLDER_MAX] = ".", real[PATH_MAX];
    const char *slash = memrchr(path.at, '/', path.len);
    size_t len = slash ? (size_t)(slash - path.at) + 1 : 0;
    if (len >= sizeof folder)
        return false;
    if (len > 0) {
        memcpy(folder, path.at, len);
        folder[len] = '\0';
    }
    if (!realpath(folder, real))
        return false;
    buf_printf(buf, "%s/", strcmp(real, "/") == 0 ? "" : real);
    return true;
}

/* Appends `path`, which is relative to the config, from everywhere. False: that cannot be said, or
 * memory ran out for it. */
static bool add_absolute(const struct reader *reader, struct slice path, struct buf *buf)
{
    BUF_AUTO struct buf whole = buf_make(TEXT_MAX);
    bool there = add_real_folder(&whole, slice_of(reader->errors->path));
    buf_add_slice(&whole, path);
    if (!buf_ok(&whole))
        buf->failed = true;
    if (!there || !buf_ok(&whole))
        return false;
    const char *slash = memrchr(whole.at, '/', whole.len);
    if (add_real_folder(buf, buf_slice(&whole)))
        buf_add(buf, slash + 1, (size_t)(whole.at + whole.len - slash) - 1);
    else
        buf_add_slice(buf, buf_slice(&whole));
    return true;
}

/* False: the path is absolute, or that cannot be said. */
static bool explain_file(const struct explain *explain, const struct reader *reader,
                         struct slice prefix, struct slice path)
{
    BUF_AUTO struct buf whole = buf_make(TEXT_MAX);
    buf_add_slice(&whole, prefix);
    bool made = !slice_starts(path, SLICE("/")) && add_absolute(reader, path, &whole);
    explain->to->failed |= !buf_ok(&whole);
    if (made)
        add_scalar(explain, buf_slice(&whole), false);
    return made;
}

/* A value that names a file beside the config names it from everywhere. False: it names none.
 * `option`: whose part it is, or NULL. */
static bool add_path(const struct explain *explain, const struct reader *reader,
                     const struct option *option, const struct node *node)
{
    static const struct slice prefixes[] = {{"sqlite:", 7}, {"file:", 5}};
    if (node->kind != NODE_SCALAR)
        return false;
    if (option)
        return option == option_at(OPTION_upstream_tls) &&
               !slice_eq(node->key, SLICE("server_name")) &&
               explain_file(explain, reader, SLICE(""), node->written);
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (slice_starts(node->written, prefixes[i]))
            return explain_file(explain, reader, prefixes[i],
                                slice_skip(node->written, prefixes[i].len));
    return false;
}

/* One of the environment, and nothing beside it. */
static bool is_variable(struct slice text)
{
    return slice_starts(text, SLICE("${")) && slice_find(text, '}') == (ptrdiff_t)text.len - 1;
}

/* A URL that names a password: user:PASSWORD@, or among its parameters. */
static bool has_password(struct slice url)
{
    const char *scheme = url.len > 0 ? memmem(url.at, url.len, "://", 3) : NULL;
    if (!scheme)
        return false;
    struct slice rest = slice_skip(url, (size_t)(scheme - url.at) + 3), user;
    bool has_user = slice_find(rest, '@') >= 0;
    slice_cut(rest, '@', &user);
    ptrdiff_t colon = has_user ? slice_find(user, ':') : -1;
    return (colon >= 0 && !is_variable(slice_skip(user, (size_t)colon + 1))) ||
           memmem(rest.at, rest.len, "password=", strlen("password="));
}

/* A secret in the config itself; a file or the environment's variable is only named. */
static bool is_hidden(const struct node *node)
{
    struct slice text = node->written;
    if (node->kind != NODE_SCALAR)
        return node->is_secret && node->count > 0;
    if (!node->is_secret)
        return has_password(text);
    return !slice_starts(text, SLICE("file:")) && !is_variable(text);
}

/* Quotes say what is a text: they stay where they matter, and are not put where they were not. */
static void add_written(const struct explain *explain, const struct node *node)
{
    BUF_AUTO struct buf json = buf_make(TEXT_MAX);
    bool looks_typed = !explain->json && scalar_add_json(node->written, &json);
    explain->to->failed |= json.failed;
    if (looks_typed && node->is_plain && !node->is_null)
        buf_add_slice(explain->to, node->written);
    else if (looks_typed && !node->is_plain)
        add_quoted(explain->to, node->written);
    else
        add_scalar(explain, node->written, node->is_null);
}

/* Adds a value as it is written, in one line. `option`: the option that it is the value of; NULL:
 * it is a part of one. Recursion is bounded by NODE_DEPTH_MAX. */
static void explain_value(const struct explain *explain, const struct reader *reader,
                          const struct option *option, const struct node *node)
{
    bool is_map = node->kind == NODE_MAP;
    if (is_hidden(node)) {
        add_scalar(explain, SLICE("(hidden)"), false);
        return;
    }
    if (node->kind == NODE_SCALAR) {
        add_written(explain, node);
        return;
    }
    buf_add_char(explain->to, is_map ? '{' : '[');
    for (const struct node *one = node->first; one; one = one->next) {
        if (is_map) {
            add_scalar(explain, one->key, false);
            buf_add_str(explain->to, ": ");
        }
        if (!option || !add_path(explain, reader, option, one))
            explain_value(explain, reader, NULL, one);
        buf_add_str(explain->to, one->next ? ", " : "");
    }
    if (is_map && option)
        add_left_out(explain, option, node);
    buf_add_char(explain->to, is_map ? '}' : ']');
}

/* ---- a config ---- */

/* Where a value comes from. */
struct origin {
    const char *from; /* "rule", "defaults", "top" or "default"; "tenant", "unknown": that option */
    const struct node *node; /* NULL: the table's default */
    const char *instead;     /* the value where the node's does not count; NULL: it does */
};

/* A tenant that is a credential is hidden, whatever `secret` says. */
static bool is_hidden_by_source(const struct rule_draft *draft, enum option_id id)
{
    return id == OPTION_secret && !draft->rule.secret && rule_hides_tenant(&draft->rule);
}

static struct origin origin_of(const struct reader *reader, const struct rule_draft *draft,
                               enum option_id id)
{
    const struct node *node = draft->set[id];
    unsigned where = option_at(id)->where;
    if (is_hidden_by_source(draft, id))
        return (struct origin){"tenant", draft->set[OPTION_tenant], "true"};
    if (id == OPTION_lease && rule_draft_has_short_lease(draft))
        return (struct origin){"unknown", draft->set[OPTION_unknown], PARTICIPANT_LEASE};
    if (!node)
        return (struct origin){"default", NULL, NULL};
    if (draft == reader->base)
        return (struct origin){"top", node, NULL};
    if (node != reader->base->set[id])
        return (struct origin){"rule", node, NULL};
    return (struct origin){where & OPTION_TOP ? "top" : "defaults", node, NULL};
}

static void add_fallback(const struct explain *explain, const struct option *option)
{
    ARENA_AUTO struct arena arena = arena_make(TEXT_MAX);
    struct complaints none;
    complaints_init(&none, "");
    const struct node *node = node_read(slice_of(option->fallback), &arena, &none);
    complaints_fini(&none);
    if (node)
        explain_value(explain, NULL, NULL, node);
    else
        explain->to->failed = true;
}

static void add_effective(const struct explain *explain, const struct reader *reader,
                          const struct option *option, struct origin origin)
{
    if (!origin.node)
        add_fallback(explain, option);
    else if (origin.instead)
        add_scalar(explain, slice_of(origin.instead), false);
    else if (is_hidden(origin.node) || !add_path(explain, reader, NULL, origin.node))
        explain_value(explain, reader, option, origin.node);
}

static void explain_json(const struct explain *explain, const struct reader *reader,
                         const struct option *option, struct origin origin)
{
    struct buf *to = explain->to;
    bool is_words = !origin.node && !option_is_value(option->fallback);
    json_add_name(to, option->name.at);
    buf_add_str(to, "{");
    json_add_name(to, "value");
    if (is_words)
        buf_add_str(to, "null");
    else
        add_effective(explain, reader, option, origin);
    json_add_text(to, "from", slice_of(origin.from));
    if (origin.node)
        json_add_i64(to, "line", (int64_t)origin.node->key_place.line);
    else if (is_words)
        json_add_text(to, "without", slice_of(option->fallback));
    buf_add_char(to, '}');
}

/* The comment behind the value; `start` is where the line begins. */
static void add_option_origin(struct buf *to, size_t start, struct origin origin, bool is_own)
{
    do
        buf_add_char(to, ' ');
    while (buf_ok(to) && to->len - start < COMMENT_COLUMN);
    if (!origin.node)
        buf_add_str(to, "# default\n");
    else
        buf_printf(to, "# %s%sline %zu\n", is_own ? "" : origin.from, is_own ? "" : ", ",
                   origin.node->key_place.line);
}

/* A line that would be refused, or holds no value, is a comment. */
static void add_yaml(const struct explain *explain, const struct reader *reader,
                     const struct option *option, struct origin origin, const char *indent)
{
    struct buf *to = explain->to;
    bool is_words = !origin.node && !option_is_value(option->fallback);
    size_t start = to->len;
    buf_printf(to, "%s%s%s: ", indent, is_words ? "# " : "", option->name.at);
    if (is_words)
        buf_printf(to, "%s\n", option->fallback);
    else
        add_effective(explain, reader, option, origin);
    if (!is_words)
        add_option_origin(to, start, origin, !*indent || strcmp(origin.from, "rule") == 0);
}

static bool is_wanted_option(const struct explain *explain, enum option_id id)
{
    if (id == OPTION_rules || id == OPTION_defaults || id == OPTION_name)
        return false;
    return !explain->option || explain->option == option_at(id);
}

static void explain_option(const struct explain *explain, const struct reader *reader,
                           const struct rule_draft *draft, enum option_id id)
{
    bool in_rule = draft != reader->base;
    struct origin origin = origin_of(reader, draft, id);
    const char *indent = !in_rule ? "" : id == OPTION_name ? "  - " : "    ";
    if (explain->json)
        explain_json(explain, reader, option_at(id), origin);
    else if (in_rule && origin.node && !option_counts(draft, id))
        add_yaml(explain, reader, option_at(id), origin, "    # ");
    else
        add_yaml(explain, reader, option_at(id), origin, indent);
}

static void explain_rule_options(const struct explain *explain, const struct reader *reader,
                                 const struct rule_draft *draft, unsigned where)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (option_at((enum option_id)i)->where & where &&
            is_wanted_option(explain, (enum option_id)i))
            explain_option(explain, reader, draft, (enum option_id)i);
}

static void add_sections(const struct explain *explain, const struct reader *reader)
{
    for (size_t i = 0; i < explain->sections.n; i++) {
        const struct option *section = explain->sections.at[i];
        const struct node *node = reader->section_nodes[i];
        struct origin origin = {node ? "top" : "default", node, NULL};
        if (explain->option && explain->option != section)
            continue;
        if (explain->json)
            explain_json(explain, reader, section, origin);
        else
            add_yaml(explain, reader, section, origin, "");
    }
}

void explain_read(const struct explain *explain, const struct reader *reader)
{
    struct buf *to = explain->to;
    if (explain->json)
        buf_add_str(to, "{\"options\":{");
    explain_rule_options(explain, reader, reader->base, OPTION_TOP);
    add_sections(explain, reader);
    buf_add_str(to, explain->json ? "},\"rules\":[" : reader->n_drafts > 0 ? "rules:\n" : "");
    for (size_t i = 0; i < reader->n_drafts; i++) {
        buf_add_str(to, explain->json ? i > 0 ? ",{" : "{" : "");
        explain_option(explain, reader, reader->drafts[i], OPTION_name);
        explain_rule_options(explain, reader, reader->drafts[i], OPTION_RULE);
        buf_add_str(to, explain->json ? "}" : "");
    }
    if (explain->json)
        buf_add_str(to, "]}");
}
