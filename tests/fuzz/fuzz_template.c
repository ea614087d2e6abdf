/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: the first line is a template; two lists of values follow, three lines each. What is
 * compiled is evaluated over both: different values never give one key, one tenant or one probe
 * target, and what is evaluated has the characters and the length that the contract names.
 */
#include "base/check.h"
#include "core/rule.h"
#include "core/template.h"
#include "fuzz.h"

#define VALUES 3

static struct slice take_line(struct slice *rest)
{
    struct slice line;
    *rest = slice_cut(*rest, '\n', &line);
    return line;
}

/* Every source reads one of the values: a as {path:a}, {header:A} and so on. */
static void set_facts(const struct slice *values, struct headers *headers,
                      struct template_facts *ret_facts)
{
    static const struct slice names[VALUES] = {{"a", 1}, {"b", 1}, {"c", 1}};
    struct template_facts facts = {.headers = headers, .n_params = VALUES};
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
    static const char names[VALUES] = {'a', 'b', 'c'};
    switch (part->source) {
    case TEMPLATE_PATH:
        return part->text.len == 1 && part->text.at[0] == names[i];
    case TEMPLATE_HEADER:
        return slice_eq_nocase(part->text, slice_make(&names[i], 1));
    case TEMPLATE_METHOD:
    case TEMPLATE_TENANT:
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
        result = template_key(template, facts, arena, buf, &missing);
        CHECK(result != TEMPLATE_OK || (buf->len > 0 && buf->len <= KEY_TEXT_MAX));
        break;
    case TEMPLATE_FOR_TENANT:
        result = template_tenant(template, facts, arena, buf, &missing);
        break;
    case TEMPLATE_FOR_PROBE:
        result = template_probe(template, facts, arena, buf, &missing);
        for (size_t i = 0; result == TEMPLATE_OK && i < buf->len; i++)
            CHECK(buf->at[i] > ' ' && buf->at[i] <= '~' && buf->at[i] != '#');
        break;
    }
    CHECK(result != TEMPLATE_NO_MEMORY);
    CHECK(result != TEMPLATE_MISSING || missing.len > 0);
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
    struct slice problem = {NULL, 0};
    headers[0].n = headers[1].n = 0;
    if (!template_compile(text, use, &arena, &template, &problem)) {
        CHECK(problem.len > 0);
        return;
    }
    set_facts(one, &headers[0], &facts);
    bool both = evaluate(&template, use, &facts, &arena, &first);
    set_facts(other, &headers[1], &facts);
    both = evaluate(&template, use, &facts, &arena, &second) && both;
    if (!both || spelled_twice(&template, use) ||
        (use == TEMPLATE_FOR_PROBE && (has_escapes(one) || has_escapes(other))))
        return;
    CHECK(differ(&template, one, other) == !slice_eq(buf_slice(&first), buf_slice(&second)));
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
    return 0;
}
