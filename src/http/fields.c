/* SPDX-License-Identifier: Apache-2.0 */
#include "http/fields.h"

#include "base/check.h"
#include "base/text/ascii.h"
#include "base/text/word.h"

bool http_is_load_bearing(struct slice name)
{
    static const struct slice names[] = {
        {"Content-Length", 14},    {"Host", 4},
        {"Transfer-Encoding", 17}, {"Idempotency-Key", 15},
        {"Authorization", 13},     {"Content-Type", 12},
        {"Content-Encoding", 16},  {"X-HTTP-Method-Override", 22},
        {"X-HTTP-Method", 13},     {"X-Method-Override", 17},
    };
    return SLICE_AMONG(name, names);
}

static bool is_empty_line_at(const char *at, size_t lf)
{
    return (lf >= 3 && memcmp(at + lf - 3, "\r\n\r\n", 4) == 0) || (lf >= 1 && at[lf - 1] == '\n');
}

static bool is_bare(const char *at, size_t lf)
{
    return lf == 0 || at[lf - 1] != '\r';
}

/* A line end of a response: of the kind of the one before it, so that the first one decides. */
static bool ends_as_before(const char *at, size_t lf)
{
    const char *before = memrchr(at, '\n', lf);
    return !before || is_bare(at, (size_t)(before - at)) == is_bare(at, lf);
}

/* The byte at `i`, which is a control byte or behind CR. */
static enum http_refusal judge_byte(const char *at, size_t i, enum http_line_ends ends)
{
    bool after_cr = i > 0 && at[i - 1] == '\r';

    if (at[i] == '\n' && ends == HTTP_LINE_ENDS_ALIKE)
        return ends_as_before(at, i) ? HTTP_REFUSAL_NONE : HTTP_REFUSAL_LINE_ENDS_MIXED;
    if (at[i] == '\0' || (at[i] == '\n') != after_cr)
        return HTTP_REFUSAL_LINE_END;
    return HTTP_REFUSAL_NONE;
}

/* Where, from `i` on, is the first byte that could be CR, LF or NUL. */
static size_t skip_plain(const char *at, size_t i, size_t end)
{
    while (end - i >= WORD_SIZE && !word_below(word_load(at + i), '\r' + 1))
        i += WORD_SIZE;
    while (i < end && (unsigned char)at[i] > '\r')
        i++;
    return i;
}

enum http_parse http_headers_scan(struct slice bytes, size_t *scan, enum http_line_ends ends,
                                  enum http_refusal *ret_refusal)
{
    size_t end = bytes.len < HTTP_HEADERS_SIZE_MAX ? bytes.len : HTTP_HEADERS_SIZE_MAX;
    size_t i = *scan;

    CHECK(i <= end);
    for (; i < end; i++) {
        bool after_cr = i > 0 && bytes.at[i - 1] == '\r';

        if (!after_cr && (i = skip_plain(bytes.at, i, end)) == end)
            break;
        *scan = i;
        /* Refused here, not when the headers are complete: bare LFs may never complete them. */
        *ret_refusal = judge_byte(bytes.at, i, ends);
        if (*ret_refusal)
            return HTTP_PARSE_REFUSED;
        if (bytes.at[i] == '\n' && is_empty_line_at(bytes.at, i))
            return HTTP_PARSE_DONE;
    }
    *scan = end;
    if (end < HTTP_HEADERS_SIZE_MAX)
        return HTTP_PARSE_MORE;
    *ret_refusal = HTTP_REFUSAL_HEADERS_TOO_LARGE;
    return HTTP_PARSE_REFUSED;
}

struct slice http_next_line(struct slice *rest)
{
    struct slice line = {rest->at, 0};

    CHECK(rest->at);
    (void)fields_next_line(rest, &line);
    return line;
}

enum http_refusal http_version_read(struct slice s, enum http_refusal malformed, int *ret_minor)
{
    if (s.len != 8 || memcmp(s.at, "HTTP/", 5) != 0 || s.at[6] != '.')
        return malformed;
    if (!ascii_is_digit(s.at[5]) || !ascii_is_digit(s.at[7]))
        return malformed;
    if (s.at[5] != '1' || s.at[7] > '1')
        return HTTP_REFUSAL_VERSION;
    *ret_minor = s.at[7] - '0';
    return HTTP_REFUSAL_NONE;
}

/* Whether the field decides where a message ends or which host it is for. */
static bool is_framing(struct slice name)
{
    return slice_eq_nocase(name, SLICE("Content-Length")) ||
           slice_eq_nocase(name, SLICE("Transfer-Encoding")) ||
           slice_eq_nocase(name, SLICE("Host"));
}

static enum http_refusal read_field(struct slice line, struct headers *headers)
{
    ptrdiff_t colon = slice_find(line, ':');
    struct slice name, padded, value;

    if (line.at[0] == ' ' || line.at[0] == '\t')
        return HTTP_REFUSAL_OBS_FOLD;
    if (colon < 0)
        return HTTP_REFUSAL_FIELD_NAME;
    name = slice_make(line.at, (size_t)colon);
    padded = slice_skip(line, (size_t)colon + 1);
    value = slice_trim(padded);
    if (!header_is_token(name))
        return HTTP_REFUSAL_FIELD_NAME;
    /* HTAB around a value is legal, but there are servers that take it for a part of the value. */
    if (!header_is_text(value) || (slice_find(padded, '\t') >= 0 && is_framing(name)))
        return HTTP_REFUSAL_FIELD_VALUE;
    if (headers_add(headers, name, value))
        return HTTP_REFUSAL_NONE;
    return headers->n < HEADERS_MAX ? HTTP_REFUSAL_CONNECTION_LIST : HTTP_REFUSAL_TOO_MANY_FIELDS;
}

enum http_refusal http_fields_read(struct slice lines, struct headers *ret_headers)
{
    enum http_refusal refusal = HTTP_REFUSAL_NONE;
    struct slice line;

    headers_clear(ret_headers);
    while (!refusal && (line = http_next_line(&lines)).len > 0)
        refusal = read_field(line, ret_headers);
    return refusal;
}

enum http_refusal http_framing_read(const struct headers *headers, int minor_version,
                                    enum http_framing *ret_framing, uint64_t *ret_length)
{
    const struct header *length = headers_find(headers, SLICE("Content-Length"));
    const struct header *coding = headers_find(headers, SLICE("Transfer-Encoding"));

    if (length && coding)
        return HTTP_REFUSAL_FRAMING;
    if (length) {
        if (headers_count(headers, SLICE("Content-Length")) != 1 ||
            !slice_to_u64(length->value, HTTP_LENGTH_MAX, ret_length))
            return HTTP_REFUSAL_CONTENT_LENGTH;
        *ret_framing = HTTP_FRAMING_LENGTH;
        return HTTP_REFUSAL_NONE;
    }
    if (coding && (minor_version < 1 || headers_count(headers, SLICE("Transfer-Encoding")) != 1 ||
                   !slice_eq_nocase(coding->value, SLICE("chunked"))))
        return HTTP_REFUSAL_TRANSFER_ENCODING;
    *ret_framing = coding ? HTTP_FRAMING_CHUNKED : HTTP_FRAMING_NONE;
    *ret_length = 0;
    return HTTP_REFUSAL_NONE;
}

bool http_persists(const struct headers *headers, int minor_version)
{
    if (headers_connection_has(headers, SLICE("close")))
        return false;
    return minor_version >= 1 || headers_connection_has(headers, SLICE("keep-alive"));
}
