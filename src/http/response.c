/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of a response: RFC 9112 sections 4 and 6, and what is odd but clear. */
#include "base/text/ascii.h"
#include "http/fields.h"

#define BLANKS_MAX 8      /* in a status line */
#define LINE_SHOWN_MAX 20 /* bytes of a refused line without a colon */

/* Without the blanks at its start, which it counts. */
static struct slice skip_blanks(struct slice s, size_t *n)
{
    size_t found = 0;

    while (found < s.len && s.at[found] == ' ')
        found++;
    *n += found;
    return slice_skip(s, found);
}

/* `HTTP/1.1 200 OK`. The SP before an absent reason is often forgotten and never in doubt. */
static enum http_refusal read_status_line(struct slice line, struct http_response *response)
{
    struct slice version, code;
    size_t odd = 0; /* blanks beyond the two that must be there */
    struct slice rest = skip_blanks(slice_cut(line, ' ', &version), &odd);
    struct slice reason = skip_blanks(slice_cut(rest, ' ', &code), &odd);
    enum http_refusal refusal =
        http_version_read(version, HTTP_REFUSAL_STATUS_LINE, &response->minor_version);

    if (refusal)
        return refusal;
    if (code.len != 3 || code.at[0] == '0' || !ascii_is_digit(code.at[0]) ||
        !ascii_is_digit(code.at[1]) || !ascii_is_digit(code.at[2]) || !header_is_text(reason))
        return HTTP_REFUSAL_STATUS_LINE;
    if (odd > BLANKS_MAX - 2)
        return HTTP_REFUSAL_STATUS_LINE;
    response->is_odd = response->is_odd || odd > 0 || code.at[0] > '5';
    response->status = (code.at[0] - '0') * 100 + (code.at[1] - '0') * 10 + (code.at[2] - '0');
    response->reason = reason;
    return HTTP_REFUSAL_NONE;
}

/* ---- framing that others understand alike ---- */

/* Keeps the first `n` lines of that name. */
static void keep_lines(struct headers *headers, struct slice name, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < headers->n; i++) {
        bool drops = slice_eq_nocase(headers->at[i].name, name) && n == 0;

        if (!drops && n > 0 && slice_eq_nocase(headers->at[i].name, name))
            n--;
        if (!drops)
            headers->at[kept++] = headers->at[i];
    }
    headers->n = kept;
}

/* Lengths of the same digits, in lines or lists, become one. */
static enum http_refusal unite_lengths(struct http_response *response)
{
    struct headers *headers = &response->headers;
    struct slice name = SLICE("Content-Length"), digits, member;
    const struct header *line;
    size_t n = 0, at = 0;

    while ((line = headers_next(headers, name, &at))) {
        struct slice list = line->value;

        while (slice_next(&list, ',', &member)) {
            member = slice_trim(member);
            digits = n++ == 0 ? member : digits;
            if (!slice_eq(member, digits))
                return HTTP_REFUSAL_CONTENT_LENGTH;
        }
    }
    if (n < 2)
        return HTTP_REFUSAL_NONE;
    keep_lines(headers, name, 1);
    for (size_t i = 0; i < headers->n; i++)
        if (slice_eq_nocase(headers->at[i].name, name))
            headers->at[i].value = digits;
    response->is_odd = true;
    return HTTP_REFUSAL_NONE;
}

/* `identity` says nothing, and a length says nothing beside `chunked`. */
static void drop_idle_coding(struct http_response *response)
{
    struct headers *headers = &response->headers;
    struct slice name = SLICE("Transfer-Encoding"), length = SLICE("Content-Length");
    const struct header *coding = headers_find(headers, name);

    if (!coding || headers_count(headers, name) != 1)
        return;
    if (slice_eq_nocase(coding->value, SLICE("identity"))) {
        keep_lines(headers, name, 0);
        response->is_odd = true;
    } else if (response->minor_version >= 1 && slice_eq_nocase(coding->value, SLICE("chunked")) &&
               headers_find(headers, length)) {
        keep_lines(headers, length, 0);
        response->is_odd = true;
    }
}

static enum http_refusal read_framing(struct http_response *response)
{
    const struct header *length;
    enum http_refusal refusal = unite_lengths(response);
    uint64_t n;

    length = headers_find(&response->headers, SLICE("Content-Length"));
    if (!refusal && length && !slice_to_u64(length->value, HTTP_LENGTH_MAX, &n))
        refusal = HTTP_REFUSAL_CONTENT_LENGTH;
    if (refusal)
        return refusal;
    drop_idle_coding(response);
    return http_framing_read(&response->headers, response->minor_version, &response->framing,
                             &response->content_length);
}

/* ---- all of it ---- */

/* The lines behind a line end that comes first. */
static struct slice skip_line_first(struct slice headers)
{
    if (slice_starts(headers, SLICE("\r\n")))
        return slice_skip(headers, 2);
    return slice_starts(headers, SLICE("\n")) ? slice_skip(headers, 1) : headers;
}

/* The first line decides how all end; http_headers_scan has seen to it. */
static bool ends_in_lf(struct slice headers)
{
    return headers.at[headers.len - 2] != '\r';
}

static enum http_refusal read_response_fields(struct slice headers, struct http_response *response)
{
    struct slice lines = skip_line_first(headers);
    enum http_refusal refusal;

    response->line_first = lines.len < headers.len;
    response->is_odd = response->line_first || ends_in_lf(headers);
    refusal = read_status_line(http_next_line(&lines), response);
    if (!refusal)
        refusal = http_fields_read(lines, &response->headers);
    return refusal ? refusal : read_framing(response);
}

/* RFC 9112 6.3, items 1 and 8: what the status and the method say about the body. */
static void apply_status(struct http_response *response, struct slice method)
{
    bool interim_or_204 = response->status < 200 || response->status == 204;
    bool announced = response->framing == HTTP_FRAMING_CHUNKED || response->content_length > 0;

    if (interim_or_204 || response->status == 304 || slice_eq(method, SLICE("HEAD"))) {
        /* They announce bytes that must not come: after 304 and HEAD of another response. A
         * server may send them all the same, however late, and then they would be read as the
         * response to another client's request: nothing more is read here. */
        if (announced)
            response->keep_alive = false;
        response->framing = HTTP_FRAMING_NONE;
        response->content_length = 0;
    } else if (response->framing == HTTP_FRAMING_NONE) {
        response->framing = HTTP_FRAMING_CLOSE;
        response->keep_alive = false;
    }
}

enum http_parse http_parse_response(struct slice bytes, size_t *scan, struct slice method,
                                    struct http_response *ret)
{
    enum http_parse found;

    memset(ret, 0, offsetof(struct http_response, headers.hops));
    ret->minor_version = 1;
    found = http_headers_scan(bytes, scan, HTTP_LINE_ENDS_ALIKE, &ret->refusal);
    if (found != HTTP_PARSE_DONE)
        return found;
    ret->headers_len = *scan + 1;
    ret->refusal = read_response_fields(slice_make(bytes.at, ret->headers_len), ret);
    if (ret->refusal)
        return HTTP_PARSE_REFUSED;
    ret->keep_alive = !ret->is_odd && http_persists(&ret->headers, ret->minor_version);
    apply_status(ret, method);
    return HTTP_PARSE_DONE;
}

/* ---- what was refused ---- */

/* The line that holds the byte at `at`, as far as it has come. */
static struct slice line_at(struct slice bytes, size_t at)
{
    size_t from = at, to = at;

    while (from > 0 && bytes.at[from - 1] != '\n')
        from--;
    while (to < bytes.len && bytes.at[to] != '\r' && bytes.at[to] != '\n')
        to++;
    return slice_make(bytes.at + from, to - from);
}

/* The status line, or the line behind the fields that were understood; of a folded one that which
 * it belongs to. */
static struct slice line_refused(struct slice headers, const struct http_response *response)
{
    struct slice lines = skip_line_first(headers), line = http_next_line(&lines);
    bool folded = response->refusal == HTTP_REFUSAL_OBS_FOLD && response->headers.n > 0;
    size_t n = response->status != 0 ? response->headers.n + !folded : 0;

    for (size_t i = 0; i < n; i++)
        line = http_next_line(&lines);
    return line;
}

static const char *first_bad(struct slice s, bool (*is_good)(struct slice))
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_good(slice_make(s.at + i, 1)))
            return s.at + i;
    return NULL;
}

/* The byte that a line of whole headers is refused for; NULL: all of it. */
static const char *bad_byte(struct slice line, enum http_refusal refusal)
{
    struct slice name;
    const char *control = first_bad(line, header_is_text);

    slice_cut(line, ':', &name);
    if (refusal == HTTP_REFUSAL_FIELD_NAME)
        return first_bad(name, header_is_token);
    if (refusal == HTTP_REFUSAL_FIELD_VALUE && !control)
        return memchr(line.at, '\t', line.len);
    return control;
}

static void write_escaped(struct slice s, struct buf *ret_text)
{
    buf_add_str(ret_text, ": \"");
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] < ' ' || s.at[i] > '~' || s.at[i] == '"' || s.at[i] == '\\')
            buf_printf(ret_text, "\\x%02x", (unsigned)(unsigned char)s.at[i]);
        else
            buf_add_char(ret_text, s.at[i]);
    buf_add_char(ret_text, '"');
}

/* A field by its name, anything else by its start. */
static void write_field_line(struct slice line, bool is_field, struct buf *ret_text)
{
    struct slice name = line;

    if (is_field)
        slice_cut(line, ':', &name);
    name = slice_first(name, LINE_SHOWN_MAX);
    if (is_field && header_is_token(name))
        buf_printf(ret_text, ": %.*s", SLICE_ARG(name));
    else if (name.len > 0)
        write_escaped(name, ret_text);
}

static bool is_about_a_line(enum http_refusal refusal)
{
    return refusal != HTTP_REFUSAL_LINE_FIRST && refusal != HTTP_REFUSAL_CONTENT_LENGTH &&
           refusal != HTTP_REFUSAL_TRANSFER_ENCODING && refusal != HTTP_REFUSAL_FRAMING;
}

void http_response_refused(struct slice bytes, size_t scan, const struct http_response *response,
                           struct buf *ret_text)
{
    bool whole = response->headers_len > 0;
    struct slice line;
    const char *byte = NULL;

    buf_add_str(ret_text, http_refusal_text(response->refusal));
    if (!is_about_a_line(response->refusal))
        return;
    if (whole) {
        line = line_refused(slice_make(bytes.at, response->headers_len), response);
        byte = bad_byte(line, response->refusal);
    } else {
        line = line_at(bytes, scan);
        if (response->refusal == HTTP_REFUSAL_LINE_END)
            byte = bytes.at[scan] != '\0' && bytes.at[scan] != '\n' ? "\r" : bytes.at + scan;
    }
    write_field_line(line, line.at != skip_line_first(bytes).at, ret_text);
    if (byte)
        buf_printf(ret_text, ", byte 0x%02x", (unsigned)(unsigned char)*byte);
}
