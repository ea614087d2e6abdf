/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/multipart.h"

#include "base/check.h"

/* CRLF, two dashes, the boundary: what ends a part. */
#define DELIMITER_MAX (4 + MULTIPART_BOUNDARY_MAX)

/* A walk over the parts. */
struct parts {
    struct slice rest; /* what follows the last delimiter */
    struct slice delimiter;
    char bytes[DELIMITER_MAX];
};

enum step {
    STEP_PART,
    STEP_END,
    STEP_MALFORMED,
};

/* ---- Content-Type parameters (RFC 9110 5.6.6) ---- */

static bool boundary_valid(struct slice boundary)
{
    return slice_is_word(boundary, "'()+_,-./:=? ") && boundary.len <= MULTIPART_BOUNDARY_MAX &&
           boundary.at[boundary.len - 1] != ' ';
}

/* Takes a parameter's value: up to ';', or a quoted string. No boundary holds a backslash, so
 * one that does is left as it is and found invalid. */
static bool take_parameter_value(struct slice *rest, struct slice *ret_value)
{
    if (rest->len == 0 || rest->at[0] != '"') {
        struct slice value;
        *rest = slice_cut(*rest, ';', &value);
        *ret_value = slice_trim(value);
        return ret_value->len == 0 || !memchr(ret_value->at, ' ', ret_value->len);
    }
    struct slice after;
    struct slice tail = slice_skip(*rest, 1);
    size_t end = 0;
    while (end < tail.len && tail.at[end] != '"')
        end += tail.at[end] == '\\' ? 2 : 1;
    if (end >= tail.len)
        return false;
    *ret_value = slice_make(tail.at, end);
    *rest = slice_cut(slice_skip(tail, end + 1), ';', &after);
    return slice_trim(after).len == 0;
}

/* Takes `name=value` off `rest`; an empty parameter has neither. */
static bool take_parameter(struct slice *rest, struct slice *ret_name, struct slice *ret_value)
{
    size_t i = 0;
    while (i < rest->len && rest->at[i] != '=' && rest->at[i] != ';')
        i++;
    *ret_name = slice_trim(slice_make(rest->at, i));
    *ret_value = slice_make(NULL, 0);
    bool has_value = i < rest->len && rest->at[i] == '=';
    *rest = slice_skip(*rest, i < rest->len ? i + 1 : i);
    return has_value ? take_parameter_value(rest, ret_value) : ret_name->len == 0;
}

/* `boundary`, or RFC 2231's boundary* and boundary*0, which some readers would prefer. */
static bool names_boundary(struct slice name)
{
    struct slice word = SLICE("boundary");
    return name.len >= word.len && slice_eq_nocase(slice_make(name.at, word.len), word) &&
           (name.len == word.len || name.at[word.len] == '*');
}

struct slice multipart_boundary(struct slice parameters)
{
    struct slice boundary = slice_make(NULL, 0);
    while (parameters.len > 0) {
        struct slice name;
        struct slice value;
        if (!take_parameter(&parameters, &name, &value))
            return slice_make(NULL, 0);
        if (!names_boundary(name))
            continue;
        if (boundary.at || name.len != SLICE("boundary").len || !boundary_valid(value))
            return slice_make(NULL, 0);
        boundary = value;
    }
    return boundary;
}

/* ---- parts ---- */

static void parts_start(struct parts *parts, struct slice bytes, struct slice boundary)
{
    CHECK(boundary.len <= MULTIPART_BOUNDARY_MAX);
    memcpy(parts->bytes, "\r\n--", 4);
    memcpy(parts->bytes + 4, boundary.at, boundary.len);
    parts->delimiter = slice_make(parts->bytes, 4 + boundary.len);
    /* Empty until the first delimiter was seen there: the body begins with it, less its CRLF. */
    struct slice first = slice_skip(parts->delimiter, 2);
    bool starts = slice_starts(bytes, first);
    parts->rest = starts ? slice_skip(bytes, first.len) : slice_make(NULL, 0);
}

/* Cuts a part at the next delimiter. */
static bool cut_part(struct parts *parts, struct slice *ret_part)
{
    const char *end =
        memmem(parts->rest.at, parts->rest.len, parts->delimiter.at, parts->delimiter.len);
    if (!end)
        return false;
    *ret_part = slice_make(parts->rest.at, (size_t)(end - parts->rest.at));
    parts->rest = slice_skip(parts->rest, ret_part->len + parts->delimiter.len);
    return true;
}

static bool has_blank_line(struct slice part)
{
    return slice_starts(part, SLICE("\r\n")) ||
           (part.len > 0 && memmem(part.at, part.len, "\r\n\r\n", 4));
}

/* Behind a delimiter come CRLF and a part, or two dashes and the end. */
static enum step parts_next(struct parts *parts, struct slice *ret_part)
{
    if (slice_eq(parts->rest, SLICE("--")) || slice_eq(parts->rest, SLICE("--\r\n")))
        return STEP_END;
    if (!slice_starts(parts->rest, SLICE("\r\n")))
        return STEP_MALFORMED;
    parts->rest = slice_skip(parts->rest, 2);
    /* A boundary in the very next line would share its CRLF with the one before. */
    struct slice dashes = slice_skip(parts->delimiter, 2);
    struct slice part;
    if (slice_starts(parts->rest, dashes) || !cut_part(parts, &part) || !has_blank_line(part))
        return STEP_MALFORMED;
    *ret_part = part;
    return STEP_PART;
}

bool multipart_valid(struct slice bytes, struct slice boundary)
{
    struct parts parts;
    struct slice part;
    enum step step;
    parts_start(&parts, bytes, boundary);
    do {
        step = parts_next(&parts, &part);
    } while (step == STEP_PART);
    return step == STEP_END;
}

static void add_part_size(struct canonical *canonical, uint64_t size)
{
    char bytes[8];
    for (int i = 7; i >= 0; i--, size >>= 8)
        bytes[i] = (char)(size & 0xFF);
    canonical_add(canonical, slice_make(bytes, sizeof bytes));
}

bool multipart_add_canonical(struct canonical *canonical, struct slice bytes, struct slice boundary)
{
    struct parts parts;
    struct slice part;
    parts_start(&parts, bytes, boundary);
    canonical_add(canonical, SLICE(MULTIPART_MAGIC "parts\n"));
    while (parts_next(&parts, &part) == STEP_PART) {
        add_part_size(canonical, part.len);
        canonical_add(canonical, part);
        if (!canonical_step(canonical))
            return false;
    }
    return buf_ok(canonical->buf);
}

bool multipart_add_malformed(struct canonical *canonical, struct slice bytes)
{
    if (slice_starts(bytes, SLICE(MULTIPART_MAGIC)))
        canonical_add(canonical, SLICE(MULTIPART_MAGIC "raw\n"));
    canonical_add(canonical, bytes);
    return buf_ok(canonical->buf);
}
