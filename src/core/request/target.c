/* SPDX-License-Identifier: Apache-2.0 */
/* target_hash (contract section 4); declared in core/request/rule.h. */
#include "base/text/ascii.h"
#include "core/request/query.h"
#include "core/request/rule.h"

/* Lines of a header that the upstream sees. */
static const struct header *next_header_line(const struct headers *headers, struct slice name,
                                             size_t *at)
{
    if (!headers || headers_is_hop_by_hop(headers, name))
        return NULL;
    return headers_next(headers, name, at);
}

/* `type/subtype`, in lower case; all of the value of a multipart/... whose boundary counts. */
static size_t write_type(struct slice content_type, bool with_boundary, char *ret_text)
{
    struct slice type;
    size_t len = 0;
    slice_cut(content_type, ';', &type);
    type = slice_trim(type);
    for (; len < type.len; len++)
        ret_text[len] = ascii_lower(type.at[len]);
    struct slice whole = slice_trim(content_type);
    if (!with_boundary || !slice_starts(slice_make(ret_text, len), SLICE("multipart/")))
        return len;
    memcpy(ret_text + len, whole.at + len, whole.len - len);
    return whole.len;
}

/* Of several lines the list of them (RFC 9110 5.3), as one part of the hash. */
static bool add_media_type(struct digest_stream *stream, const struct headers *headers,
                           bool with_boundary, struct arena *arena)
{
    static const struct slice name = {"Content-Type", 12};
    const struct header *line;
    size_t size = 0;
    size_t len = 0;
    for (size_t at = 0; (line = next_header_line(headers, name, &at));)
        size += 1 + line->value.len;
    char *text = arena_alloc(arena, size);
    for (size_t at = 0; text && (line = next_header_line(headers, name, &at));) {
        if (len > 0)
            text[len++] = ',';
        len += write_type(line->value, with_boundary, text + len);
    }
    if (text)
        digest_add_sized(stream, slice_make(text, len));
    return text;
}

/* A part of its own: the parts behind it come in pairs, so that the number of parts shows whether
 * it is there. */
static bool add_coding(struct digest_stream *stream, const struct headers *headers,
                       struct arena *arena)
{
    const struct header *line = headers_find(headers, SLICE("Content-Encoding"));
    struct slice coding = line ? slice_trim(line->value) : slice_make("", 0);
    char *text = arena_alloc(arena, coding.len);
    for (size_t i = 0; text && i < coding.len; i++)
        text[i] = ascii_lower(coding.at[i]);
    if (text)
        digest_add_sized(stream, slice_make(text, coding.len));
    return text;
}

static bool is_counted(const struct rule *rule, struct slice pair)
{
    for (size_t i = 0; i < rule->n_query_names; i++)
        if (query_names(pair, rule->query_names[i]))
            return true;
    return false;
}

static bool add_named_pairs(struct digest_stream *stream, const struct rule *rule,
                            struct slice query, struct arena *arena)
{
    struct slice pair;
    size_t len = 0;
    char *text = arena_alloc(arena, query.len + 1);
    while (text && query_take(&query, &pair)) {
        if (!is_counted(rule, pair))
            continue;
        if (len > 0)
            text[len++] = '&';
        memcpy(text + len, pair.at, pair.len);
        len += pair.len;
    }
    if (text)
        digest_add_sized(stream, slice_make(text, len));
    return text;
}

static bool add_target_query(struct digest_stream *stream, const struct rule *rule,
                             struct slice query, struct arena *arena)
{
    switch (rule->query) {
    case RULE_QUERY_ALL:
        digest_add_sized(stream, query);
        return true;
    case RULE_QUERY_NONE:
        digest_add_sized(stream, slice_make(NULL, 0));
        return true;
    case RULE_QUERY_NAMES:
        return add_named_pairs(stream, rule, query, arena);
    }
    return false;
}

/* Name and value of each line, so that an absent header is not an empty one. */
static void add_target_headers(struct digest_stream *stream, const struct rule *rule,
                               const struct headers *headers)
{
    for (size_t i = 0; i < rule->n_headers; i++) {
        size_t at = 0;
        const struct header *line;
        while ((line = next_header_line(headers, rule->headers[i], &at))) {
            digest_add_sized(stream, rule->headers[i]);
            digest_add_sized(stream, line->value);
        }
    }
}

bool rule_target_hash(const struct rule *rule, const struct template_facts *facts,
                      struct slice path, struct arena *arena, struct digest *ret_hash)
{
    struct digest_stream stream;
    digest_start(&stream);
    digest_add_sized(&stream, SLICE("pawl1"));
    digest_add_sized(&stream, facts->method);
    digest_add_sized(&stream, path);
    bool done = add_target_query(&stream, rule, facts->query, arena) &&
                add_media_type(&stream, facts->headers, facts->labels & PAYLOAD_LABEL_TYPE, arena);
    if (facts->labels & PAYLOAD_LABEL_CODING)
        done = add_coding(&stream, facts->headers, arena) && done;
    add_target_headers(&stream, rule, facts->headers);
    struct digest hash = digest_end(&stream);
    if (done)
        *ret_hash = hash;
    return done;
}
