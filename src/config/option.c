/* SPDX-License-Identifier: Apache-2.0 */
#include "config/option.h"
#include "base/check.h"
#include "base/clock.h"
#include "config/reader.h"
#include <assert.h>

#define WHERE_MAX 64

enum { OWNER_config, OWNER_rule_draft };

static const struct option options[OPTION_COUNT] = {
#define X(name, where, owner, field, reader, lowest, highest, fallback, help)                      \
    [OPTION_##name] = {SLICE(#name),  where,  OWNER_##owner, OPTION_FIELD(owner, field),           \
                       read_##reader, lowest, highest,       fallback,                             \
                       help},
    CONFIG_OPTIONS(X)
#undef X
};

#define X(name, where, owner, field, reader, lowest, highest, fallback, help)                      \
    static_assert((where) & (OPTION_TOP | SHARED), #name " may stand somewhere");                  \
    static_assert(!((where)&SHARED) || OWNER_##owner == OWNER_rule_draft, #name " is a rule's");   \
    static_assert(!((where)&OPTION_RESTART) || OWNER_##owner == OWNER_config,                      \
                  #name ", which needs a restart, is no rule's");                                  \
    static_assert(!((where)&OPTION_RESTART) ||                                                     \
                      OPTION_KIND(((struct owner *)0)->field) != OPTION_IS_OTHER,                  \
                  #name ", which needs a restart, has a field that can be compared");              \
    static_assert(0 <= (lowest) && (lowest) <= (highest), #name " has bounds in order");           \
    static_assert(sizeof fallback > 1 && sizeof help > 1, #name " has a default and help");
CONFIG_OPTIONS(X)
#undef X
#define X(of, name, owner, field, reader, lowest, highest, fallback, help)                         \
    static_assert(0 <= (lowest) && (lowest) <= (highest), #name " has bounds in order");           \
    static_assert(sizeof fallback > 1 && sizeof help > 1, #name " has a default and help");
CONFIG_PARTS(X)
#undef X

static const struct slice later[] = {
#define X(name) {#name, sizeof(#name) - 1},
    CONFIG_LATER(X)
#undef X
};

const struct option *option_at(enum option_id id)
{
    CHECK(id < OPTION_COUNT);
    return &options[id];
}

static const struct option parts[] = {
#define X(of, name, owner, field, reader, lowest, highest, fallback, help)                         \
    {SLICE(#name), 0,        OPTION_##of, OPTION_FIELD(owner, field), read_##reader, lowest,       \
     highest,      fallback, help},
    CONFIG_PARTS(X)
#undef X
};
#define N_PARTS COUNT_OF(parts)

const struct option *option_parts(const struct option *option, size_t *ret_n)
{
    size_t first = 0, n = 0;
    *ret_n = option->n_members;
    if (option->members)
        return option->members;
    while (first < N_PARTS && option_at(parts[first].owner) != option)
        first++;
    while (first + n < N_PARTS && option_at(parts[first + n].owner) == option)
        n++;
    *ret_n = n;
    return parts + first;
}

bool option_is_value(const char *fallback)
{
    return fallback[0] != '(';
}

static bool is_same(enum option_kind kind, const void *a, const void *b)
{
    const struct url_authority *one = a, *other = b;
    switch (kind) {
    case OPTION_IS_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case OPTION_IS_I64:
        return *(const int64_t *)a == *(const int64_t *)b;
    case OPTION_IS_SIZE:
        return *(const size_t *)a == *(const size_t *)b;
    case OPTION_IS_SLICE:
        return slice_eq(*(const struct slice *)a, *(const struct slice *)b);
    case OPTION_IS_ADDRESS:
        return one->port == other->port && slice_eq(one->host, other->host);
    case OPTION_IS_OTHER:
        break;
    }
    UNREACHABLE();
}

bool option_needs_restart(const struct option *option, const struct config *old,
                          const struct config *new)
{
    return option->where & OPTION_RESTART &&
           !is_same(option->kind, (const char *)old + option->offset,
                    (const char *)new + option->offset);
}

static const struct option *find_option_row(const struct option *rows, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(rows[i].name, name))
            return &rows[i];
    return NULL;
}

static size_t add_names(const struct option *rows, size_t n, unsigned where, struct slice *names)
{
    size_t added = 0;
    for (size_t i = 0; i < n; i++)
        if (!where || rows[i].where & where)
            names[added++] = rows[i].name;
    return added;
}

static void unknown_option(struct reader *reader, const struct node *node, unsigned where)
{
    struct slice names[OPTION_COUNT + CONFIG_SECTIONS_MAX];
    CHECK(reader->config->sections.n <= CONFIG_SECTIONS_MAX);
    size_t n = add_names(options, OPTION_COUNT, where, names);
    for (size_t i = 0; i < reader->config->sections.n && where & OPTION_TOP; i++)
        names[n++] = reader->config->sections.at[i]->name;
    reader_unknown_name(reader, node, names, n);
}

bool option_add_where(const struct option *option, struct buf *buf)
{
    static const struct {
        unsigned where;
        const char *words;
    } places[] = {
        {OPTION_TOP, "at the top"}, {OPTION_RULE, "in a rule"}, {OPTION_DEFAULTS, "in defaults"}};
    int n = 0,
        all = __builtin_popcount(option->where & (OPTION_TOP | OPTION_DEFAULTS | OPTION_RULE));
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        if (!(option->where & places[i].where))
            continue;
        buf_add_str(buf, n == 0 ? "" : n + 1 < all ? ", " : " or ");
        buf_add_str(buf, places[i].words);
        n++;
    }
    return n > 0;
}

static void complain_misplaced(struct reader *reader, const struct option *option,
                               const struct node *node)
{
    BUF_AUTO struct buf where = buf_make(WHERE_MAX);
    (void)option_add_where(option, &where);
    if (!buf_ok(&where))
        reader->scratch->failed = true;
    complaints_add(reader->errors, node->key_place, node->key,
                   "does not belong here (it belongs %.*s)", SLICE_ARG(buf_slice(&where)));
}

static void *field_of(const struct reader *reader, const struct option *option)
{
    char *owner =
        option->owner == OWNER_rule_draft ? (char *)reader->draft : (char *)reader->config;
    return owner + option->offset;
}

static void read_option(struct reader *reader, const struct option *option, const struct node *node,
                        void *field)
{
    CHECK(option->read && option_fits_reader(option));
    option->read(reader, option, node, field);
}

/* ---- sections ---- */

/* The default of the table. */
static void read_fallback(struct reader *reader, const struct option *option, void *field)
{
    if (!option_is_value(option->fallback))
        return;
    const struct node *node =
        node_read(slice_of(option->fallback), reader->scratch, reader->errors);
    if (node)
        read_option(reader, option, node, field);
    else
        reader->scratch->failed = true;
}

static void fill_defaults(struct reader *reader, const struct option *rows, size_t n, void *into)
{
    for (size_t i = 0; i < n; i++)
        read_fallback(reader, &rows[i], (char *)into + rows[i].offset);
}

bool options_read_members(struct reader *reader, const struct option *option,
                          const struct node *node, const char *expected, void *into)
{
    struct slice names[CONFIG_MEMBERS_MAX];
    size_t n;
    const struct option *members = option_parts(option, &n);
    CHECK(n <= CONFIG_MEMBERS_MAX);
    if (node->kind != NODE_MAP) {
        reader_expected(reader, node, expected);
        return false;
    }
    fill_defaults(reader, members, n, into);
    for (struct node *one = node->first; one; one = one->next) {
        const struct option *member = find_option_row(members, n, one->key);
        one->is_secret = member && member->where & OPTION_SECRET;
        if (member)
            read_option(reader, member, one, (char *)into + member->offset);
        else
            reader_unknown_name(reader, one, names, add_names(members, n, 0, names));
    }
    return true;
}

/* False: no section has that name. */
static bool read_section(struct reader *reader, const struct node *node)
{
    struct config_sections *sections = &reader->config->sections;
    size_t i = 0;
    while (i < sections->n && !slice_eq(sections->at[i]->name, node->key))
        i++;
    if (i == sections->n)
        return false;
    reader->section_nodes[i] = node;
    (void)options_read_members(reader, sections->at[i], node, "a map of options",
                               reader->config->section_values[i]);
    return true;
}

/* ---- maps ---- */

static void read_member(struct reader *reader, struct node *node, unsigned where)
{
    const struct option *option = find_option_row(options, OPTION_COUNT, node->key);
    node->is_secret = option && option->where & OPTION_SECRET;
    if (option && option->where & where) {
        reader->draft->set[option - options] = node;
        read_option(reader, option, node, field_of(reader, option));
    } else if (option) {
        complain_misplaced(reader, option, node);
    } else if (SLICE_AMONG(node->key, later)) {
        complaints_add(reader->errors, node->key_place, node->key, "not in this version of pawl");
    } else if (!slice_eq(node->key, SLICE("<<")) &&
               !(where & OPTION_TOP && read_section(reader, node))) {
        unknown_option(reader, node, where);
    }
}

void options_read_map(struct reader *reader, const struct node *map, unsigned where)
{
    for (struct node *node = map->first; node; node = node->next)
        read_member(reader, node, where);
}

void options_read_fallbacks(struct reader *reader)
{
    struct config *config = reader->config;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        read_fallback(reader, &options[i], field_of(reader, &options[i]));
    for (size_t i = 0; i < config->sections.n; i++) {
        const struct option *section = config->sections.at[i];
        CHECK(section->size > 0 && section->members && section->n_members > 0);
        config->section_values[i] = arena_alloc(&config->arena, section->size);
        if (!config->section_values[i])
            return;
        memset(config->section_values[i], 0, section->size);
        fill_defaults(reader, section->members, section->n_members, config->section_values[i]);
    }
}

static void print_option(struct buf *buf, const struct option *option, const char *indent)
{
    buf_printf(buf, "%s# %s\n", indent, option->help);
    buf_printf(buf, "%s%s%s: %s\n", indent, option_is_value(option->fallback) ? "" : "# ",
               option->name.at, option->fallback);
}

static void print_options(struct buf *buf, unsigned where, unsigned not_where, const char *indent)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options[i].where & where && !(options[i].where & not_where))
            print_option(buf, &options[i], indent);
}

void config_options_print(const struct config_sections *sections, struct buf *buf)
{
    buf_add_str(buf,
                "# Every option with its default. Durations: 150ms 10s 5m 24h 7d forever. Sizes: "
                "512 64KiB 1MiB.\n# ${NAME} in a value is a variable of the environment.\n\n");
    print_options(buf, OPTION_TOP, 0, "");
    for (size_t i = 0; i < sections->n; i++)
        print_option(buf, sections->at[i], "");
    buf_add_str(buf, "\n# Only in a rule, which may also have its own tenant, trust_tenant, secret "
                     "and allow:\n");
    print_options(buf, OPTION_RULE, OPTION_TOP | OPTION_DEFAULTS, "");
    buf_add_str(buf, "\n# In a rule, or here for all rules:\ndefaults:\n");
    print_options(buf, OPTION_DEFAULTS, 0, "  ");
}
