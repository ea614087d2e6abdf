/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluating templates: first every source's value, then the text. */
#include "base/check.h"
#include "base/text/ascii.h"
#include "base/text/number.h"
#include "base/text/percent.h"
#include "core/request/path.h"
#include "core/request/query.h"
#include "core/template/template_clock.h"
#include "core/template/template_priv.h"

#define NUMBER_TEXT_MAX 2048
#define MEMBERS_SHOWN 12

/* What is evaluated, over what, into which memory. */
struct evaluation {
    const struct template *template;
    const struct template_facts *facts;
    struct arena *arena;
    bool is_key; /* values are judged by their formats */
    bool url;    /* of a probe target: path and query values keep their escapes */
    struct slice values[TEMPLATE_PARTS_MAX];
};

/* ---- values ---- */

static enum template_result key_value(const struct evaluation *evaluation, struct slice header,
                                      struct slice *ret_value)
{
    switch (key_header_read(evaluation->facts->headers, header, evaluation->facts->key_syntax,
                            evaluation->arena, ret_value)) {
    case KEY_HEADER_OK:
        return TEMPLATE_OK;
    case KEY_HEADER_NO_MEMORY:
        return TEMPLATE_NO_MEMORY;
    default:
        return TEMPLATE_MISSING;
    }
}

static enum template_result single_header_value(const struct evaluation *evaluation,
                                                const struct template_part *part,
                                                struct slice *ret_value)
{
    const struct headers *headers = evaluation->facts->headers;
    size_t lines = headers ? headers_count(headers, part->text) : 0;
    if (headers && headers_is_hop_by_hop(headers, part->text))
        return TEMPLATE_MISSING;
    if (lines == 0 && part->optional) {
        *ret_value = slice_make("", 0);
        return TEMPLATE_OK;
    }
    if (lines != 1)
        return TEMPLATE_MISSING;
    if (slice_eq_nocase(part->text, SLICE("Idempotency-Key")))
        return key_value(evaluation, part->text, ret_value);
    struct slice value = headers_find(headers, part->text)->value;
    if (value.len == 0)
        return TEMPLATE_MISSING;
    *ret_value = value;
    return TEMPLATE_OK;
}

static enum template_result number_value(struct slice literal, struct arena *arena,
                                         struct slice *ret_value)
{
    BUF_AUTO struct buf text = buf_make(NUMBER_TEXT_MAX);
    if (!number_add_canonical(&text, literal))
        return buf_ok(&text) ? TEMPLATE_MISSING : TEMPLATE_NO_MEMORY;
    if (!buf_ok(&text))
        return TEMPLATE_NO_MEMORY;
    struct slice value = arena_copy(arena, buf_slice(&text));
    if (!value.at)
        return TEMPLATE_NO_MEMORY;
    *ret_value = value;
    return TEMPLATE_OK;
}

/* `null`, "", objects and arrays name nothing (contract section 3). */
static enum template_result body_value(const struct evaluation *evaluation, struct slice pointer,
                                       struct slice *ret_value)
{
    const struct json *json = template_json_at(evaluation->facts, pointer);
    if (!json)
        return TEMPLATE_MISSING;
    if (json->type == JSON_NUMBER && !evaluation->url)
        return number_value(json->text, evaluation->arena, ret_value);
    if (json->type == JSON_TRUE || json->type == JSON_FALSE)
        *ret_value = json->type == JSON_TRUE ? SLICE("true") : SLICE("false");
    else
        *ret_value = json->text; /* empty of null, objects and arrays */
    return ret_value->len > 0 ? TEMPLATE_OK : TEMPLATE_MISSING;
}

/* A name that comes twice is read one way here, another there. */
static enum template_result form_value_of(const struct evaluation *evaluation, struct slice name,
                                          struct slice *ret_value)
{
    const struct payload *payload = evaluation->facts->payload;
    struct slice sent;
    if (!payload || payload->kind != PAYLOAD_IS_FORM ||
        query_find(payload->bytes, name, &sent) != 1)
        return TEMPLATE_MISSING;
    *ret_value = payload_form_value(payload, evaluation->arena, name);
    if (!ret_value->at)
        return TEMPLATE_NO_MEMORY;
    return ret_value->len > 0 ? TEMPLATE_OK : TEMPLATE_MISSING;
}

/* One cookie of its name (RFC 6265 4.2.1), as it was sent. */
static enum template_result cookie_value(const struct headers *headers, struct slice name,
                                         struct slice *ret_value)
{
    static const struct slice cookie = {"Cookie", 6};
    const struct header *line;
    struct slice found = {NULL, 0};
    size_t at = 0;
    if (!headers || headers_is_hop_by_hop(headers, cookie))
        return TEMPLATE_MISSING;
    while ((line = headers_next(headers, cookie, &at)))
        for (struct slice rest = line->value, pair, sent; slice_next(&rest, ';', &pair);) {
            struct slice value = slice_cut(pair, '=', &sent);
            if (!value.at || !slice_eq(slice_trim(sent), name))
                continue;
            if (found.at)
                return TEMPLATE_MISSING;
            found = slice_trim(value);
        }
    *ret_value = found;
    return found.len > 0 ? TEMPLATE_OK : TEMPLATE_MISSING;
}

static struct slice path_value(const struct template_facts *facts, struct slice name)
{
    for (size_t i = 0; i < facts->n_params; i++)
        if (slice_eq(facts->params[i].name, name))
            return facts->params[i].value;
    return slice_make(NULL, 0);
}

static struct slice query_value(const struct template_facts *facts, struct slice name)
{
    struct slice value = {NULL, 0};
    return query_find(facts->query, name, &value) == 1 ? value : slice_make(NULL, 0);
}

/* Values of the request line are percent-encoded, and '+' is a space in queries alone. */
static enum template_result decode_value(const struct evaluation *evaluation,
                                         const struct template_part *part, struct slice *value)
{
    bool query = part->source == TEMPLATE_QUERY;
    if (evaluation->url || (!query && part->source != TEMPLATE_PATH))
        return TEMPLATE_OK;
    *value = percent_decode(*value, query, evaluation->arena);
    return value->at ? TEMPLATE_OK : TEMPLATE_NO_MEMORY;
}

/* What the source and, for the client's own key, the rule ask of a value. */
static enum template_result check_value_format(const struct evaluation *evaluation,
                                               const struct template_part *part,
                                               struct slice *value)
{
    const struct key_format *formats[] = {part->format, NULL};
    if (part->longest > 0 && value->len > part->longest)
        return TEMPLATE_FORMAT;
    if (evaluation->facts->key_format && template_key_header(evaluation->template) == part)
        formats[1] = evaluation->facts->key_format;
    for (size_t i = 0; i < 2; i++)
        if (formats[i] && !key_format_match(formats[i], *value, evaluation->arena, value))
            return evaluation->arena->failed ? TEMPLATE_NO_MEMORY : TEMPLATE_FORMAT;
    return TEMPLATE_OK;
}

static enum template_result evaluate_part(const struct evaluation *evaluation,
                                          const struct template_part *part, struct slice *ret_value)
{
    const struct template_facts *facts = evaluation->facts;
    switch (part->source) {
    case TEMPLATE_LITERAL:
    case TEMPLATE_WINDOW:
        return TEMPLATE_OK;
    case TEMPLATE_HEADER:
        return single_header_value(evaluation, part, ret_value);
    case TEMPLATE_BODY:
    case TEMPLATE_MEMBER:
        return body_value(evaluation, part->text, ret_value);
    case TEMPLATE_FORM:
        return form_value_of(evaluation, part->text, ret_value);
    case TEMPLATE_COOKIE:
        return cookie_value(facts->headers, part->text, ret_value);
    case TEMPLATE_DATE:
    case TEMPLATE_HOUR:
    case TEMPLATE_WEEK:
    case TEMPLATE_MONTH:
        return template_clock_value(facts, part, evaluation->arena, ret_value);
    case TEMPLATE_PATH:
        *ret_value = path_value(facts, part->text);
        break;
    case TEMPLATE_QUERY:
        *ret_value = query_value(facts, part->text);
        break;
    case TEMPLATE_METHOD:
        *ret_value = facts->method;
        break;
    case TEMPLATE_ROUTE:
        *ret_value = facts->route;
        break;
    case TEMPLATE_TENANT:
        *ret_value = facts->tenant;
        break;
    case TEMPLATE_PAYLOAD:
        *ret_value = facts->payload_hex;
        break;
    case TEMPLATE_KEY:
        *ret_value = facts->key;
        break;
    case TEMPLATE_ITEM:
        *ret_value = facts->item;
        break;
    case TEMPLATE_ENV:
        *ret_value = template_env_value(facts, part);
        break;
    }
    return ret_value->len > 0 ? decode_value(evaluation, part, ret_value) : TEMPLATE_MISSING;
}

/* Fills `values`: of every part that is a source. */
static enum template_result find_values(struct evaluation *evaluation, struct slice *ret_missing)
{
    CHECK(evaluation->template->n > 0 && evaluation->template->n <= TEMPLATE_PARTS_MAX);
    for (size_t i = 0; i < evaluation->template->n; i++) {
        const struct template_part *part = &evaluation->template->parts[i];
        enum template_result result = evaluate_part(evaluation, part, &evaluation->values[i]);
        if (result == TEMPLATE_OK && evaluation->is_key)
            result = check_value_format(evaluation, part, &evaluation->values[i]);
        if (result == TEMPLATE_MISSING || result == TEMPLATE_FORMAT)
            *ret_missing = part->written;
        if (result != TEMPLATE_OK)
            return result;
    }
    return TEMPLATE_OK;
}

/* ---- why there is none ---- */

/* How often a name is in a query or form. */
static int count_pairs(struct slice pairs, struct slice name)
{
    struct slice value;
    return query_find(pairs, name, &value);
}

static bool comes_twice(const struct template_facts *facts, const struct template_part *part)
{
    const struct payload *payload = facts->payload;
    switch (part->source) {
    case TEMPLATE_HEADER:
        return facts->headers && headers_count(facts->headers, part->text) > 1;
    case TEMPLATE_QUERY:
        return count_pairs(facts->query, part->text) > 1;
    case TEMPLATE_FORM:
        return payload && payload->kind == PAYLOAD_IS_FORM &&
               count_pairs(payload->bytes, part->text) > 1;
    default:
        return false;
    }
}

static void explain_header(const struct template_facts *facts, const struct template_part *part,
                           struct buf *buf)
{
    struct slice name = part->source == TEMPLATE_COOKIE ? SLICE("Cookie") : part->text;
    if (facts->headers && headers_is_hop_by_hop(facts->headers, name))
        buf_add_str(buf, ", which Connection names: the next hop would not see it");
}

/* What the item has in place of a member. */
static void explain_item(const struct json *item, struct buf *buf)
{
    const struct json *member = item->type == JSON_OBJECT ? item->first : NULL;
    if (!member) {
        buf_add_str(buf, item->type == JSON_OBJECT ? ": the item is an object without members"
                                                   : ": the item is no object");
        return;
    }
    buf_add_str(buf, ": the item has only ");
    for (int i = 0; member && i < MEMBERS_SHOWN; i++, member = member->next)
        buf_printf(buf, "%s%.*s", i > 0 ? ", " : "", SLICE_QUOTED(member->name));
    buf_add_str(buf, member ? ", ..." : "");
}

static const char *lack_of(const struct json *json)
{
    switch (json->type) {
    case JSON_NULL:
        return ", which is null";
    case JSON_OBJECT:
        return ", but an object ({name|json} in a text puts it there as JSON)";
    case JSON_ARRAY:
        return ", but an array ({name|json} in a text puts it there as JSON)";
    default:
        return ", which is empty";
    }
}

static void explain_body(const struct template_facts *facts, struct slice pointer, struct buf *buf)
{
    const struct payload *payload = facts->payload;
    const struct json *json = template_json_at(facts, pointer);
    if (payload && payload->problem != JSON_OK)
        buf_printf(buf, ": %s at byte %zu", json_error_text(payload->problem),
                   payload->problem_offset);
    else if (json)
        buf_add_str(buf, lack_of(json));
    else if (facts->item.at && payload && payload->kind == PAYLOAD_IS_JSON)
        explain_item(payload->json, buf);
    else if (facts->item.at)
        buf_add_str(buf, ": the item has no members");
}

void template_explain_missing(const struct template *template, const struct template_facts *facts,
                              struct slice missing, struct buf *buf)
{
    for (size_t i = 0; i < template->n; i++) {
        const struct template_part *part = &template->parts[i];
        if (part->source == TEMPLATE_LITERAL || !slice_eq(part->written, missing))
            continue;
        if (comes_twice(facts, part))
            buf_add_str(buf, ", which came more than once");
        else if (part->source == TEMPLATE_HEADER || part->source == TEMPLATE_COOKIE)
            explain_header(facts, part, buf);
        else if (part->source == TEMPLATE_BODY || part->source == TEMPLATE_MEMBER)
            explain_body(facts, part->text, buf);
        else if (part->source == TEMPLATE_ITEM)
            buf_add_str(buf, ", which is empty");
        else if (part->source == TEMPLATE_ENV)
            buf_add_str(buf, template_env_value(facts, part).at ? ", which is empty"
                                                                : ", which is not set");
        else if (template_part_asks_zone(part))
            template_clock_explain(facts, part, buf);
        return;
    }
}

/* ---- text ---- */

static enum template_spelling spelling_of_part(const struct template_part *part, bool url)
{
    if (!url)
        return TEMPLATE_SPELL_KEY;
    if (part->source == TEMPLATE_PATH)
        return TEMPLATE_SPELL_PATH;
    return part->source == TEMPLATE_QUERY ? TEMPLATE_SPELL_QUERY : TEMPLATE_SPELL_URL;
}

static void write_text(const struct evaluation *evaluation, bool url, struct template_sink *sink)
{
    bool after_source = false;
    for (size_t i = 0; i < evaluation->template->n; i++) {
        const struct template_part *part = &evaluation->template->parts[i];
        if (part->source == TEMPLATE_WINDOW)
            continue;
        if (part->source == TEMPLATE_LITERAL) {
            template_sink_add(sink, part->text);
            after_source = false;
            continue;
        }
        if (after_source)
            template_sink_add(sink, SLICE(":"));
        if (template_part_is_clock(part))
            template_sink_add_clock(sink, evaluation->values[i]);
        else
            template_sink_spell(sink, spelling_of_part(part, url), evaluation->values[i]);
        after_source = true;
    }
}

/* ---- keys, tenants, probes ---- */

#define DIGEST_PREFIX "sha256-"
#define DIGEST_TEXT_SIZE (sizeof DIGEST_PREFIX - 1 + DIGEST_HEX_SIZE)

/* A text that looks like a digest becomes its own, so that nobody spells the key of a long one. */
static bool looks_digested(struct slice text)
{
    struct digest digest;
    return text.len == DIGEST_TEXT_SIZE && slice_starts(text, SLICE(DIGEST_PREFIX)) &&
           hex_decode(slice_skip(text, sizeof DIGEST_PREFIX - 1), digest.bytes, DIGEST_SIZE);
}

/* In a text with clocks the first half is the digest of everything else: two texts that differ in
 * their clocks only have the same first half. */
static void add_evaluated_digest(const struct evaluation *evaluation, struct template_text *text)
{
    char hex[DIGEST_HEX_SIZE + 1];
    struct digest_stream stream, timeless;
    bool timed = text->clocks.n > 0;
    struct template_sink sink = {.stream = &stream, .timeless = timed ? &timeless : NULL};
    digest_start(&stream);
    digest_start(&timeless);
    write_text(evaluation, false, &sink);
    struct digest digest = digest_end(&stream), of_rest = digest_end(&timeless);
    if (timed) {
        memcpy(digest.bytes, of_rest.bytes, DIGEST_SIZE / 2);
        text->clocks.n = 1;
        text->clocks.range[0].at = DIGEST_TEXT_SIZE - DIGEST_HEX_SIZE / 2;
        text->clocks.range[0].len = DIGEST_HEX_SIZE / 2;
    }
    hex_encode(digest.bytes, DIGEST_SIZE, hex);
    buf_add_str(text->buf, DIGEST_PREFIX);
    buf_add_slice(text->buf, slice_make(hex, DIGEST_HEX_SIZE));
}

static void add_evaluated_key(const struct evaluation *evaluation, struct template_text *text)
{
    struct buf *buf = text->buf;
    struct template_sink counter = {.clocks = &text->clocks};
    write_text(evaluation, false, &counter);
    if (counter.len <= KEY_TEXT_MAX) {
        size_t start = buf->len;
        write_text(evaluation, false, &(struct template_sink){.buf = buf});
        if (!buf_ok(buf) || !looks_digested(slice_skip(buf_slice(buf), start)))
            return;
        buf_cut(buf, start);
    }
    add_evaluated_digest(evaluation, text);
}

enum template_result template_judge_key(const struct template *template,
                                        const struct template_facts *facts, struct arena *arena,
                                        struct slice *key)
{
    struct evaluation evaluation = {.template = template, .facts = facts, .arena = arena};
    return check_value_format(&evaluation, template_key_header(template), key);
}

enum template_result template_value(const struct template *template,
                                    const struct template_facts *facts, struct arena *arena,
                                    struct template_text *text, struct slice *ret_missing)
{
    struct evaluation evaluation = {
        .template = template, .facts = facts, .arena = arena, .is_key = true};
    if (template_is_plain_header(template)) {
        struct slice key = {NULL, 0};
        enum template_result result = TEMPLATE_MISSING;
        if (facts->headers)
            result = key_value(&evaluation, template->parts[0].text, &key);
        if (result == TEMPLATE_OK)
            result = template_judge_key(template, facts, arena, &key);
        if (result == TEMPLATE_MISSING || result == TEMPLATE_FORMAT)
            *ret_missing = template->parts[0].written;
        if (result != TEMPLATE_OK)
            return result;
        buf_add_slice(text->buf, key);
    } else {
        enum template_result result = find_values(&evaluation, ret_missing);
        if (result != TEMPLATE_OK)
            return result;
        add_evaluated_key(&evaluation, text);
    }
    return buf_ok(text->buf) ? TEMPLATE_OK : TEMPLATE_NO_MEMORY;
}

enum template_result template_key(const struct template *template,
                                  const struct template_facts *facts, struct arena *arena,
                                  struct buf *buf, struct slice *ret_missing)
{
    struct template_text text = {.buf = buf};
    return template_value(template, facts, arena, &text, ret_missing);
}

/* A tenant is shown and typed as it is: %0A of a query is none. */
static bool is_shown_as_sent(const struct template_part *part, struct slice value)
{
    bool decoded = part->source == TEMPLATE_QUERY || part->source == TEMPLATE_PATH;
    for (size_t i = 0; decoded && i < value.len; i++)
        if (ascii_is_control(value.at[i]))
            return false;
    return true;
}

enum template_result template_tenant(const struct template *template,
                                     const struct template_facts *facts, struct arena *arena,
                                     struct buf *buf, struct slice *ret_missing)
{
    struct evaluation evaluation = {.template = template, .facts = facts, .arena = arena};
    enum template_result result = find_values(&evaluation, ret_missing);
    if (result != TEMPLATE_OK)
        return result;
    for (size_t i = 0; i < template->n; i++)
        if (!is_shown_as_sent(&template->parts[i], evaluation.values[i])) {
            *ret_missing = template->parts[i].written;
            return TEMPLATE_MISSING;
        }
    if (template->n == 1 && template->parts[0].source != TEMPLATE_LITERAL)
        buf_add_slice(buf, evaluation.values[0]);
    else
        write_text(&evaluation, false, &(struct template_sink){.buf = buf});
    return buf_ok(buf) ? TEMPLATE_OK : TEMPLATE_NO_MEMORY;
}

static bool is_to_blame(struct slice value)
{
    return slice_find(value, '/') >= 0 || path_is_ambiguous(value) || path_is_unclean(value);
}

/* The source to blame for what is wrong with a target: the literals were checked. */
static struct slice blamed_source(const struct evaluation *evaluation)
{
    struct slice first = {0};
    for (size_t i = 0; i < evaluation->template->n; i++) {
        const struct template_part *part = &evaluation->template->parts[i];
        if (part->source == TEMPLATE_LITERAL)
            continue;
        if (is_to_blame(evaluation->values[i]))
            return part->written;
        first = first.at ? first : part->written;
    }
    return first;
}

enum template_result template_probe(const struct template *template,
                                    const struct template_facts *facts,
                                    struct template_output *output, struct slice *ret_missing)
{
    struct evaluation evaluation = {
        .template = template, .facts = facts, .arena = output->arena, .url = true};
    struct slice path;
    size_t start = output->buf->len;
    struct filled filled = filled_make(output->buf, FILLED_WANTS_VALUES);
    enum template_result result = find_values(&evaluation, ret_missing);
    if (result != TEMPLATE_OK)
        return result;
    write_text(&evaluation, true, &(struct template_sink){.filled = &filled});
    output->fault = filled_end(&filled);
    if (!buf_ok(output->buf))
        return TEMPLATE_NO_MEMORY;
    slice_cut(slice_skip(buf_slice(output->buf), start), '?', &path);
    if (output->fault == FILLED_GOOD && path_is_ambiguous(path))
        output->fault = FILLED_AMBIGUOUS;
    if (output->fault == FILLED_GOOD)
        return TEMPLATE_OK;
    buf_cut(output->buf, start);
    *ret_missing = blamed_source(&evaluation);
    return TEMPLATE_FORMAT;
}
