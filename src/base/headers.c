/* SPDX-License-Identifier: Apache-2.0 */
#include "base/headers.h"
#include "base/check.h"
#include "base/text/ascii.h"
#include "base/text/word.h"

/* RFC 9110 5.6.1.2: empty elements are passed over, but not in any number. */
static bool add_hops(struct headers *headers, struct slice list)
{
    size_t room = HEADERS_HOPS_MAX - headers->n_hops;
    struct slice element;
    while (slice_next(&list, ',', &element)) {
        element = slice_trim(element);
        if (room-- == 0)
            return false;
        if (element.len > 0)
            headers->hops[headers->n_hops++] = element;
    }
    return true;
}

bool headers_add(struct headers *headers, struct slice name, struct slice value)
{
    CHECK(headers->n <= HEADERS_MAX);
    if (headers->n == HEADERS_MAX)
        return false;
    if (slice_eq_nocase(name, SLICE("Connection")) && !add_hops(headers, value))
        return false;
    headers->at[headers->n++] = (struct header){name, value};
    return true;
}

const struct header *headers_next(const struct headers *headers, struct slice name, size_t *at)
{
    for (size_t i = *at; i < headers->n; i++) {
        if (slice_eq_nocase(headers->at[i].name, name)) {
            *at = i + 1;
            return &headers->at[i];
        }
    }
    *at = headers->n;
    return NULL;
}

const struct header *headers_find(const struct headers *headers, struct slice name)
{
    size_t at = 0;
    return headers_next(headers, name, &at);
}

size_t headers_count(const struct headers *headers, struct slice name)
{
    size_t at = 0;
    size_t count = 0;
    while (headers_next(headers, name, &at))
        count++;
    return count;
}

/* RFC 9110 5.6.1.2: empty elements are passed over, as no token is empty. */
static bool list_has(struct slice list, struct slice token)
{
    struct slice element;
    while (slice_next(&list, ',', &element))
        if (slice_eq_nocase(slice_trim(element), token))
            return true;
    return false;
}

bool headers_list_has(const struct headers *headers, struct slice name, struct slice token)
{
    size_t at = 0;
    const struct header *line;
    CHECK(token.len > 0);
    while ((line = headers_next(headers, name, &at)))
        if (list_has(line->value, token))
            return true;
    return false;
}

bool headers_connection_has(const struct headers *headers, struct slice token)
{
    return slice_is_among(token, headers->hops, headers->n_hops);
}

bool headers_is_hop_by_hop(const struct headers *headers, struct slice name)
{
    static const struct slice fixed[] = {
        {"Connection", 10}, {"Proxy-Connection", 16},  {"Keep-Alive", 10},
        {"TE", 2},          {"Transfer-Encoding", 17}, {"Upgrade", 7},
    };
    if (SLICE_AMONG(name, fixed))
        return true;
    return headers_connection_has(headers, name);
}

bool headers_is_dashed(struct slice name, struct slice wanted)
{
    if (name.len != wanted.len)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i] == '_' ? '-' : name.at[i];
        if (!slice_eq_nocase(slice_make(&c, 1), slice_make(wanted.at + i, 1)))
            return false;
    }
    return true;
}

bool headers_is_among(struct slice name, const struct slice *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (headers_is_dashed(name, list[i]))
            return true;
    return false;
}

bool header_is_token(struct slice s)
{
    static const bool bytes[256] = {
        ['!'] = true,         ['#'] = true,  ['$'] = true,         ['%'] = true,
        ['&'] = true,         ['\''] = true, ['*'] = true,         ['+'] = true,
        ['-'] = true,         ['.'] = true,  ['0' ... '9'] = true, ['A' ... 'Z'] = true,
        ['^' ... 'z'] = true, ['|'] = true,  ['~'] = true,
    };
    for (size_t i = 0; i < s.len; i++)
        if (!bytes[(unsigned char)s.at[i]])
            return false;
    return s.len > 0;
}

static bool word_has_control(uint64_t word)
{
    return word_below(word, ' ') | word_is(word, 0x7F);
}

bool header_is_text(struct slice s)
{
    size_t i = 0;
    while (s.len - i >= WORD_SIZE && !word_has_control(word_load(s.at + i)))
        i += WORD_SIZE;
    for (; i < s.len; i++)
        if (s.at[i] != '\t' && ascii_is_control(s.at[i]))
            return false;
    return true;
}

bool header_is_valid(struct slice name, struct slice value)
{
    return header_is_token(name) && header_is_text(value);
}

void fields_add(struct buf *buf, struct slice name, struct slice value)
{
    buf_add_slice(buf, name);
    buf_add(buf, ": ", 2);
    buf_add_slice(buf, value);
    buf_add(buf, "\r\n", 2);
}

bool fields_next_line(struct slice *rest, struct slice *ret_line)
{
    if (rest->len == 0)
        return false;
    *rest = slice_cut(*rest, '\n', ret_line);
    if (ret_line->len > 0 && ret_line->at[ret_line->len - 1] == '\r')
        ret_line->len--;
    return true;
}

bool fields_next(struct slice *rest, struct slice *ret_name, struct slice *ret_value)
{
    struct slice line, name = SLICE("@");
    if (!fields_next_line(rest, &line))
        return false;
    struct slice value =
        line.len > 0 && line.at[0] == '@' ? slice_skip(line, 1) : slice_cut(line, ':', &name);
    *ret_name = name;
    *ret_value = slice_trim(value);
    return true;
}
