/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: the first line is a template; two lists of values follow, three lines each. What is
 * compiled is evaluated over both: different values never give one key, one tenant or one probe
 * target, and what is evaluated has the characters and the length that the contract names. The same
 * of items: the first value is the whole, and all three are its members. A text is written as it
 * was given, and raw or in a URL it is filled in or lacks a value.
 */
#include "base/check.h"
#include "core/request/rule.h"
#include "core/template/template.h"
#include "fuzz.h"

#define VALUES 3

static struct slice take_line(struct slice *rest)
{
    struct slice line;
    *rest = slice_cut(*rest, '\n', &line);
    return line;
}

/* The item {"a": .., "b": .., "c": ..}. */
struct item {
    struct json root, members[VALUES];
    struct payload payload;
};

static const struct slice names[VALUES] = {{"a", 1}, {"b", 1}, {"c", 1}};

static void set_item(const struct slice *values, struct item *item)
{
    memset(item, 0, sizeof(*item));
    item->root = (struct json){.type = JSON_OBJECT, .first = item->members, .count = VALUES};
    item->payload = (struct payload){.kind = PAYLOAD_IS_JSON, .json = &item->root};
    for (size_t i = 0; i < VALUES; i++)
        item->members[i] = (struct json){.type = JSON_STRING,
                                         .text = values[i],
                                         .name = names[i],
                                         .next = i + 1 < VALUES ? &item->members[i + 1] : NULL};
}

/* Every source reads one of the values: a as {path:a}, {header:A} and so on. */
static void set_facts(const struct slice *values, struct headers *headers, struct item *item,
                      struct template_facts *ret_facts)
{
    struct template_facts facts = {.headers = headers, .n_params = VALUES};
    set_item(values, item);
    facts.payload = &item->payload;
    facts.item = values[0];
    for (size_t i = 0; i < VALUES; i++) {
        facts.params[i] = (struct template_path_param){names[i], values[i]};
        CHECK(headers_add(headers, names[i], values[i]));
    }
    facts.method = facts.tenant = values[0];
    facts.route = facts.payload_hex = values[1];
    facts.key = values[2];
    *ret_facts = facts;
}

/* Whether the template looks at `values[i]`. */
static bool looks_at(const struct template_part *part, size_t i)
{
    switch (part->source) {
    case TEMPLATE_PATH:
        return slice_eq(part->text, names[i]);
    case TEMPLATE_HEADER:
        return slice_eq_nocase(part->text, names[i]);
    case TEMPLATE_BODY:
    case TEMPLATE_MEMBER:
        return part->text.len == 2 && part->text.at[1] == names[i].at[0];
    case TEMPLATE_METHOD:
    case TEMPLATE_TENANT:
    case TEMPLATE_ITEM:
        return i == 0;
    case TEMPLATE_ROUTE:
    case TEMPLATE_PAYLOAD:
        return i == 1;
    case TEMPLATE_KEY:
        return i == 2;
    default:
        return false;
    }
}

static bool differ(const struct template *template, const struct slice *one,
                   const struct slice *other)
{
    for (size_t p = 0; p < template->n; p++)
        for (size_t i = 0; i < VALUES; i++)
            if (looks_at(&template->parts[p], i) && !slice_eq(one[i], other[i]))
                return true;
    return false;
}

static bool evaluate(const struct template *template, enum template_use use,
                     const struct template_facts *facts, struct arena *arena, struct buf *buf)
{
    struct slice missing = {NULL, 0};
    enum template_result result = TEMPLATE_OK;
    switch (use) {
    case TEMPLATE_FOR_KEY:
    case TEMPLATE_FOR_JOB:
    case TEMPLATE_FOR_ITEM:
        result = template_key(template, facts, arena, buf, &missing);
        CHECK(result != TEMPLATE_OK || (buf->len > 0 && buf->len <= KEY_TEXT_MAX));
        break;
    case TEMPLATE_FOR_TENANT:
        result = template_tenant(template, facts, arena, buf, &missing);
        break;
    case TEMPLATE_FOR_PROBE:
        result = template_probe(template, facts,
                                &(struct template_output){.arena = arena, .buf = buf}, &missing);
        for (size_t i = 0; result == TEMPLATE_OK && i < buf->len; i++)
            CHECK(buf->at[i] > ' ' && buf->at[i] <= '~' && buf->at[i] != '#');
        break;
    case TEMPLATE_FOR_TEXT:
        return false;
    }
    CHECK(result != TEMPLATE_NO_MEMORY);
    CHECK(result != TEMPLATE_MISSING || missing.at);
    return result == TEMPLATE_OK;
}

/* A key is one String or one bare value: both spellings are one key on purpose. */
static bool spelled_twice(const struct template *template, enum template_use use)
{
    return use == TEMPLATE_FOR_KEY && template_is_plain_header(template);
}

/* In a URL an escape and what it stands for are one value: path values keep theirs as sent. */
static bool has_escapes(const struct slice *values)
{
    for (size_t i = 0; i < VALUES; i++)
        if (slice_find(values[i], '%') >= 0)
            return true;
    return false;
}

static void check_use(struct slice text, enum template_use use, const struct slice *one,
                      const struct slice *other)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 24);
    BUF_AUTO struct buf first = buf_make(1 << 20);
    BUF_AUTO struct buf second = buf_make(1 << 20);
    static struct headers headers[2];
    struct template template;
    struct template_facts facts;
    struct item item;
    struct slice problem = {NULL, 0};
    headers[0].n = headers[1].n = 0;
    if (!template_compile(text, use, &arena, &template, &problem)) {
        CHECK(problem.len > 0);
        return;
    }
    set_facts(one, &headers[0], &item, &facts);
    bool both = evaluate(&template, use, &facts, &arena, &first);
    set_facts(other, &headers[1], &item, &facts);
    both = evaluate(&template, use, &facts, &arena, &second) && both;
    if (!both || spelled_twice(&template, use) ||
        (use == TEMPLATE_FOR_PROBE && (has_escapes(one) || has_escapes(other))))
        return;
    CHECK(differ(&template, one, other) == !slice_eq(buf_slice(&first), buf_slice(&second)));
}

static void check_filling(const struct template *template, const struct template_facts *facts,
                          enum template_filling filling, struct arena *arena)
{
    BUF_AUTO struct buf buf = buf_make(1 << 20);
    struct slice missing = {NULL, 0};
    struct template_output output = {arena, &buf};
    enum template_result result = template_fill(template, facts, filling, &output, &missing);
    CHECK(result != TEMPLATE_NO_MEMORY);
    CHECK(result == TEMPLATE_OK || (missing.at && buf.len == 0));
    CHECK(result != TEMPLATE_FORMAT || filling != TEMPLATE_IN_URL);
}

static void check_text(struct slice text, const struct slice *values)
{
    ARENA_AUTO struct arena arena = arena_make(1 << 24);
    BUF_AUTO struct buf written = buf_make(1 << 20);
    static struct headers headers;
    struct template template;
    struct template_facts facts;
    struct item item;
    struct slice problem = {NULL, 0};
    headers.n = 0;
    if (!template_compile(text, TEMPLATE_FOR_TEXT, &arena, &template, &problem)) {
        CHECK(problem.len > 0);
        return;
    }
    template_write(&template, &written);
    CHECK(slice_eq(buf_slice(&written), text));
    set_facts(values, &headers, &item, &facts);
    check_filling(&template, &facts, TEMPLATE_RAW, &arena);
    check_filling(&template, &facts, TEMPLATE_IN_URL, &arena);
    check_filling(&template, &facts, TEMPLATE_IN_JSON, &arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = slice_make(data, size);
    struct slice text = take_line(&rest);
    struct slice one[VALUES];
    struct slice other[VALUES];
    for (size_t i = 0; i < VALUES; i++)
        one[i] = take_line(&rest);
    for (size_t i = 0; i < VALUES; i++)
        other[i] = take_line(&rest);
    check_use(text, TEMPLATE_FOR_KEY, one, other);
    check_use(text, TEMPLATE_FOR_TENANT, one, other);
    check_use(text, TEMPLATE_FOR_PROBE, one, other);
    check_use(text, TEMPLATE_FOR_JOB, one, other);
    check_use(text, TEMPLATE_FOR_ITEM, one, other);
    check_text(text, one);
    return 0;
}
