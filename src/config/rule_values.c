/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of what only rules have. */
#include "base/time/duration.h"
#include "config/option.h"
#include "config/reader.h"

#define HEADER_NAME_MAX 128
#define MEANT_MAX 1024
#define A_MATCH "METHOD[,METHOD] /path/{param}, such as POST /refunds or * /**"
#define A_TEMPLATE "a template such as \"{header:Idempotency-Key}\" or \"{body:/id}\""
#define A_TENANT "a template such as \"{header:X-Merchant-Id}\", or none"
#define A_PROBE "a GET request such as \"GET /refunds/by-key/{key}\""
#define AN_AUTHORIZE "a GET request such as \"GET /tenants/{tenant}/access\", or none"
#define PROBE_HEADERS_MAX ((size_t)16 * 1024)
#define AN_UNKNOWN "hold, {hold: DURATION}, retry, participant or {probe: \"GET /path/{key}\"}"
#define A_POINTER "a JSON pointer such as /amount"
#define A_PAYLOAD "all, raw, ignore, {include: [/a]} or {exclude: [/b]}"
#define A_QUERY "all, none or a list of names"
#define A_FORMAT "any, uuid, uuid4 or {regex: PATTERN}"

static void complain_of_rule(struct reader *reader, const struct node *node, struct slice problem,
                             const char *expected)
{
    reader_complain(reader, node, "%.*s (expected %s)", SLICE_ARG(problem), expected);
}

OPTION_READER(match)
{
    struct slice text, problem = {NULL, 0};
    if (!reader_scalar(reader, node, A_MATCH, &text))
        return;
    text = arena_copy(reader->texts, text);
    if (!rule_match_compile(text, reader->texts, field, &problem))
        reader_complain(reader, node, "%.*s", SLICE_ARG(problem));
}

OPTION_READER(key)
{
    struct slice text;
    if (reader_scalar(reader, node, A_TEMPLATE, &text))
        (void)reader_template(reader, node, text, TEMPLATE_FOR_KEY, field);
}

OPTION_READER(tenant)
{
    struct slice text;
    struct rule_draft *draft = reader->draft;
    draft->has_tenant = true; /* well or badly: it is not missing */
    if (!reader_scalar(reader, node, A_TENANT, &text))
        return;
    draft->rule.tenant_none = slice_eq(text, SLICE("none"));
    if (!draft->rule.tenant_none)
        (void)reader_template(reader, node, text, TEMPLATE_FOR_TENANT, field);
}

OPTION_READER(in_progress)
{
    size_t index;
    int64_t us;
    if (node->kind == NODE_SCALAR && duration_parse(node->text, &us)) {
        reader_meant_member(reader, node, "wait", "conflict or {wait: DURATION}");
        return;
    }
    if (node->kind != NODE_MAP) {
        if (reader_choice(reader, node, "conflict|{wait: DURATION}", &index))
            *(int64_t *)field = 0;
        return;
    }
    const struct node *wait = reader_only_member(reader, node, "wait", &index);
    if (wait)
        read_duration(reader, option, wait, field);
}

static bool is_get(struct slice text)
{
    struct slice target = slice_trim(slice_skip(text, text.len < 4 ? text.len : 4));
    return slice_starts(text, SLICE("GET ")) && target.len > 0 && target.at[0] == '/' &&
           slice_find(target, ' ') < 0 && slice_find(target, '#') < 0;
}

/* `/path`, or a path with another method. */
static void refuse_get(struct reader *reader, const struct node *node, struct slice text,
                       const char *expected)
{
    BUF_AUTO struct buf meant = buf_make(MEANT_MAX);
    ptrdiff_t slash = slice_find(text, '/');
    buf_printf(&meant, "GET %.*s", SLICE_ARG(slice_skip(text, slash < 0 ? 0 : (size_t)slash)));
    if (!is_get(buf_slice(&meant)))
        buf_clear(&meant);
    reader_expected_near(reader, node, expected, &meant);
}

/* "GET /path/{key}"; GET is all there is, as a request of pawl's own must change nothing. False:
 * it complained. */
static bool read_get(struct reader *reader, const struct node *node, struct slice text,
                     const char *expected, struct template *ret_target)
{
    if (!is_get(text)) {
        refuse_get(reader, node, text, expected);
        return false;
    }
    return reader_template(reader, node, slice_trim(slice_skip(text, 4)), TEMPLATE_FOR_PROBE,
                           ret_target);
}

static void read_probe(struct reader *reader, const struct node *node, struct slice text)
{
    struct rule *rule = &reader->draft->rule;
    rule->first = RECORD_FIRST_RESTORED;
    if (read_get(reader, node, text, A_PROBE, &rule->probe))
        rule->unknown = RECORD_UNKNOWN_PROBE;
}

/* Who may see a response must not depend on the body, which the caller chooses. */
OPTION_READER(authorize)
{
    struct slice text;
    struct rule *rule = &reader->draft->rule;
    if (!reader_scalar(reader, node, AN_AUTHORIZE, &text))
        return;
    rule->authorizes = false;
    if (slice_eq(text, SLICE("none")) || !read_get(reader, node, text, AN_AUTHORIZE, field))
        return;
    rule->authorizes = !template_needs_body(&rule->authorize);
    if (!rule->authorizes)
        complain_of_rule(reader, node, SLICE("reads the body"),
                         "sources of the headers, path or query");
}

/* A line that a probe has of its own, or that is about the connection. */
static bool is_probes_own(struct slice name)
{
    static const struct headers none;
    return headers_is_hop_by_hop(&none, name) || probe_owns_header(name);
}

/* Kept as the lines that are sent. */
OPTION_READER(probe_headers)
{
    struct rule *rule = &reader->draft->rule;
    BUF_AUTO struct buf lines = buf_make(PROBE_HEADERS_MAX);
    if (node->kind != NODE_MAP) {
        reader_expected(reader, node,
                        "a map of headers, such as {Authorization: \"Bearer ${TOKEN}\"}");
        return;
    }
    for (const struct node *line = node->first; line; line = line->next) {
        struct slice value;
        if (!reader_scalar(reader, line, "the value of a header", &value))
            return;
        if (!header_is_valid(line->key, value) || is_probes_own(line->key)) {
            reader_complain(reader, line, "cannot be a header of a probe");
            return;
        }
        fields_add(&lines, line->key, slice_trim(value));
    }
    if (!buf_ok(&lines))
        reader_complain(reader, node, "is too long");
    rule->probes_alone = true;
    *(struct slice *)field = arena_copy(reader->texts, buf_slice(&lines));
}

static void read_hold(struct reader *reader, const struct option *option, const struct node *node)
{
    struct rule *rule = &reader->draft->rule;
    rule->unknown = RECORD_UNKNOWN_HOLD;
    if (node->kind != NODE_SCALAR || !slice_eq(node->text, SLICE("forever")))
        read_duration(reader, option, node, &rule->hold_us);
}

static void read_first_probe(struct reader *reader, const struct node *node)
{
    reader->draft->says_first = true;
    read_first(reader, NULL, node, &reader->draft->rule.first);
}

static void read_probe_map(struct reader *reader, const struct node *map, const struct node *probe)
{
    struct slice text;
    const struct node *first = node_member(map, SLICE("first"));
    if (map->count > (first ? 2U : 1U))
        reader_complain(reader, map, "holds %zu names (expected probe and, perhaps, first)",
                        map->count);
    if (reader_scalar(reader, probe, A_PROBE, &text))
        read_probe(reader, probe, text);
    if (first)
        read_first_probe(reader, first);
}

OPTION_READER(unknown)
{
    static const enum record_unknown scalars[] = {RECORD_UNKNOWN_HOLD, RECORD_UNKNOWN_RETRY,
                                                  RECORD_UNKNOWN_PARTICIPANT};
    size_t index;
    struct slice text;
    reader->draft->rule.hold_us = 0;
    reader->draft->says_first = false;
    const struct node *probe = node->kind == NODE_MAP ? node_member(node, SLICE("probe")) : NULL;
    if (probe) {
        read_probe_map(reader, node, probe);
        return;
    }
    if (node->kind == NODE_MAP) {
        const struct node *hold = reader_only_member(reader, node, "probe|hold", &index);
        if (hold)
            read_hold(reader, option, hold);
        return;
    }
    if (!reader_scalar(reader, node, AN_UNKNOWN, &text))
        return;
    if (slice_starts(text, SLICE("probe:")))
        read_probe(reader, node, slice_trim(slice_skip(text, strlen("probe:"))));
    else if (slice_eq(text, SLICE("probe")))
        reader_expected(reader, node, "{probe: \"GET /path/{key}\"}");
    else if (reader_choice(reader, node, "hold|retry|participant|{hold: DURATION}|{probe: REQUEST}",
                           &index))
        *(enum record_unknown *)field = scalars[index];
}

/* "" names the whole body, which is `all`, or nothing. */
static bool is_pointer(struct slice text)
{
    return text.len > 0 && json_pointer_valid(text);
}

static bool refuse_wildcards(struct reader *reader, const struct node *list)
{
    const struct node *item = list->kind == NODE_LIST ? list->first : NULL;
    while (item && !reader_refuse_wild(reader, item))
        item = item->next;
    return item;
}

OPTION_READER(payload)
{
    static const enum payload_mode scalars[] = {PAYLOAD_ALL, PAYLOAD_RAW, PAYLOAD_IGNORE};
    struct payload_selection *selection = field;
    size_t index;
    if (node->kind != NODE_MAP) {
        if (reader_choice(reader, node, "all|raw|ignore|{include: [..]}|{exclude: [..]}", &index))
            *selection = (struct payload_selection){.mode = scalars[index]};
        return;
    }
    const struct node *list = reader_only_member(reader, node, "include|exclude", &index);
    if (!list)
        return;
    struct reader_texts texts = {.max = PAYLOAD_POINTERS_MAX, .at = selection->pointers};
    if (list->kind == NODE_LIST && list->count == 0)
        complain_of_rule(reader, list, SLICE("is empty"), A_PAYLOAD);
    else if (!refuse_wildcards(reader, list) &&
             reader_list(reader, list, is_pointer, A_POINTER, &texts)) {
        selection->mode = index == 0 ? PAYLOAD_INCLUDE : PAYLOAD_EXCLUDE;
        selection->n_pointers = texts.n;
    }
}

OPTION_READER(copied)
{
    struct copied_members *members = READER_STRUCT(field, copied_members, at);
    struct reader_texts texts = {.max = COPIED_MAX, .at = members->at};
    if (!refuse_wildcards(reader, node) && reader_list(reader, node, is_pointer, A_POINTER, &texts))
        members->n = texts.n;
}

OPTION_READER(replay)
{
    struct copied_members members = {0};
    if (options_read_members(reader, option, node, "{copy: [/id]}", &members))
        *(struct copied_members *)field = members;
}

static bool is_parameter_name(struct slice text)
{
    return text.len > 0 && text.len <= 128;
}

OPTION_READER(query)
{
    struct rule *rule = &reader->draft->rule;
    struct reader_texts texts = {.max = RULE_LIST_MAX, .at = rule->query_names};
    size_t index;
    if (node->kind != NODE_LIST) {
        if (reader_choice(reader, node, "all|none|[NAMES]", &index))
            *(enum rule_query *)field = index == 0 ? RULE_QUERY_ALL : RULE_QUERY_NONE;
    } else if (node->count == 0) {
        complain_of_rule(reader, node, SLICE("is empty"), A_QUERY);
    } else if (reader_list(reader, node, is_parameter_name, "the name of a query parameter",
                           &texts)) {
        rule->query = RULE_QUERY_NAMES;
        rule->n_query_names = texts.n;
    }
}

static bool is_end_to_end(struct slice name)
{
    static const struct headers none;
    return slice_is_word(name, SLICE_TOKEN_MARKS) && name.len <= HEADER_NAME_MAX &&
           !headers_is_hop_by_hop(&none, name);
}

OPTION_READER(headers)
{
    struct rule *rule = &reader->draft->rule;
    struct reader_texts texts = {.max = RULE_LIST_MAX, .at = field};
    if (reader_list(reader, node, is_end_to_end, "the name of a header that the upstream sees",
                    &texts))
        rule->n_headers = texts.n;
}

static void set_format(struct reader *reader, const struct node *node, enum key_format_kind kind,
                       struct slice pattern)
{
    struct slice problem = {NULL, 0};
    struct rule_draft *draft = reader->draft;
    const struct key_format *compiled = key_format_new(kind, pattern, reader->texts, &problem);
    if (!compiled) {
        complain_of_rule(reader, node, problem, "a POSIX extended regular expression");
        return;
    }
    draft->rule.key_format = compiled;
    draft->rule.key_format_kind = kind;
    draft->rule.key_pattern = pattern;
}

OPTION_READER(key_format)
{
    static const enum key_format_kind kinds[] = {KEY_FORMAT_ANY, KEY_FORMAT_UUID, KEY_FORMAT_UUID4,
                                                 KEY_FORMAT_UUID7};
    struct slice pattern = {NULL, 0};
    size_t index;
    if (node->kind != NODE_MAP) {
        if (reader_choice(reader, node, "any|uuid|uuid4|uuid7|{regex: PATTERN}", &index))
            set_format(reader, node, kinds[index], pattern);
        return;
    }
    const struct node *regex = reader_only_member(reader, node, "regex", &index);
    if (!regex || !reader_scalar(reader, regex, A_FORMAT, &pattern))
        return;
    set_format(reader, regex, KEY_FORMAT_REGEX, arena_copy(reader->texts, pattern));
}
