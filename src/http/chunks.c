/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked coding (RFC 9112 7.1), a byte machine that may stop anywhere. Only data is passed
 * over in runs. The zeroed state is SIZE; the moves:
 *
 *        .-------------------- DATA_LF <- DATA_CR <- DATA
 *        v                                            ^
 *      SIZE -> EXTENSION -> SIZE_LF --- size > 0 -----'
 *        `-------------------^  `------ size = 0 -> LINE -> NAME -> VALUE -> VALUE_LF
 *                                                   | ^________________________|
 *                                                   `-> END_LF -> END
 *
 * In responses BLANKS may follow SIZE, and where LF ends the lines the states that wait for it
 * behind CR are passed at once.
 *
 * Any byte that has no place leads to REFUSED, which like END is never left.
 */
#include "http/fields.h"

#include "base/check.h"

#define SIZE_DIGITS_MAX 16
#define LINE_MAX_LEN 4096
#define BLANKS_MAX 16

enum state {
    STATE_SIZE, /* hex digits, at least one */
    STATE_BLANKS,
    STATE_EXTENSION,
    STATE_SIZE_LF,
    STATE_DATA,
    STATE_DATA_CR,
    STATE_DATA_LF,
    STATE_LINE, /* at the start of a trailer line, or of the last, empty one */
    STATE_NAME,
    STATE_VALUE,
    STATE_VALUE_LF,
    STATE_END_LF,
    STATE_END,
    STATE_REFUSED,
};

static enum state refuse_chunks(struct http_chunks *chunks, enum http_refusal refusal)
{
    chunks->refusal = refusal;
    return STATE_REFUSED;
}

/* From a state that waits for LF. */
static enum state behind_lf(struct http_chunks *chunks, enum state state)
{
    chunks->line_len = chunks->n_blanks = 0;
    switch (state) {
    case STATE_SIZE_LF:
        return chunks->left > 0 ? STATE_DATA : STATE_LINE;
    case STATE_DATA_LF:
        return STATE_SIZE;
    case STATE_VALUE_LF:
        return STATE_LINE;
    default:
        return STATE_END;
    }
}

/* Whether `c` ends a line. Of a response, the first one decides how all do. */
static bool take_line_end(struct http_chunks *chunks, char c)
{
    if (c != '\r' && !(c == '\n' && chunks->is_response))
        return false;
    if (chunks->line_end == '\0')
        chunks->line_end = c;
    chunks->is_odd = chunks->is_odd || c == '\n';
    return chunks->line_end == c;
}

/* Behind the byte that ends a line; `lf` is the state that waits for the LF behind CR. */
static enum state end_line(struct http_chunks *chunks, char c, enum state lf)
{
    return c == '\r' ? lf : behind_lf(chunks, lf);
}

/* Behind a size: blanks, in responses, and then what may follow it. */
static enum state on_blanks(struct http_chunks *chunks, char c)
{
    if (take_line_end(chunks, c))
        return end_line(chunks, c, STATE_SIZE_LF);
    if (c == ';')
        return STATE_EXTENSION;
    if (!chunks->is_response || (c != ' ' && c != '\t') || ++chunks->n_blanks > BLANKS_MAX)
        return refuse_chunks(chunks, HTTP_REFUSAL_CHUNK);
    chunks->is_odd = true;
    return STATE_BLANKS;
}

/* Sixteen digits fit into `left`; what is larger than any length pawl counts is refused. */
static enum state on_size(struct http_chunks *chunks, char c)
{
    int digit = hex_digit(c);

    if (digit >= 0) {
        if (++chunks->line_len > SIZE_DIGITS_MAX)
            return refuse_chunks(chunks, HTTP_REFUSAL_CHUNK);
        chunks->left = chunks->left << 4 | (unsigned)digit;
        return STATE_SIZE;
    }
    if (chunks->line_len == 0 || chunks->left > HTTP_LENGTH_MAX)
        return refuse_chunks(chunks, HTTP_REFUSAL_CHUNK);
    return on_blanks(chunks, c);
}

static enum state on_extension(struct http_chunks *chunks, char c)
{
    if (take_line_end(chunks, c))
        return end_line(chunks, c, STATE_SIZE_LF);
    if (++chunks->line_len > LINE_MAX_LEN || !header_is_text(slice_make(&c, 1)))
        return refuse_chunks(chunks, HTTP_REFUSAL_CHUNK);
    return STATE_EXTENSION;
}

static enum state on_data_end(struct http_chunks *chunks, char c)
{
    if (take_line_end(chunks, c))
        return end_line(chunks, c, STATE_DATA_LF);
    return refuse_chunks(chunks, HTTP_REFUSAL_CHUNK);
}

static enum state on_name(struct http_chunks *chunks, char c);

static enum state on_line(struct http_chunks *chunks, char c)
{
    chunks->name[0] = '\0';
    return take_line_end(chunks, c) ? end_line(chunks, c, STATE_END_LF) : on_name(chunks, c);
}

static bool is_forbidden(const struct http_chunks *chunks)
{
    return chunks->line_len <= sizeof chunks->name &&
           http_is_load_bearing(slice_make(chunks->name, chunks->line_len));
}

/* Only the start of a name is kept: no forbidden one is longer. */
static enum state on_name(struct http_chunks *chunks, char c)
{
    if (c == ':' && chunks->line_len > 0 && !is_forbidden(chunks))
        return STATE_VALUE;
    if (!header_is_token(slice_make(&c, 1)))
        return refuse_chunks(chunks, HTTP_REFUSAL_TRAILER);
    if (chunks->line_len < sizeof chunks->name)
        chunks->name[chunks->line_len] = c;
    if (++chunks->line_len < sizeof chunks->name)
        chunks->name[chunks->line_len] = '\0';
    return STATE_NAME;
}

static enum state on_value(struct http_chunks *chunks, char c)
{
    if (take_line_end(chunks, c))
        return end_line(chunks, c, STATE_VALUE_LF);
    chunks->line_len++;
    if (!header_is_text(slice_make(&c, 1)))
        return refuse_chunks(chunks, HTTP_REFUSAL_TRAILER);
    return STATE_VALUE;
}

static enum state on_trailer(struct http_chunks *chunks, char c)
{
    enum state next;

    switch ((enum state)chunks->state) {
    case STATE_LINE:
        next = on_line(chunks, c);
        break;
    case STATE_NAME:
        next = on_name(chunks, c);
        break;
    case STATE_VALUE:
        next = on_value(chunks, c);
        break;
    default:
        next = c == '\n' ? behind_lf(chunks, (enum state)chunks->state)
                         : refuse_chunks(chunks, HTTP_REFUSAL_TRAILER);
    }
    if (chunks->line_len > LINE_MAX_LEN || ++chunks->trailer_len > HTTP_HEADERS_SIZE_MAX)
        return refuse_chunks(chunks, HTTP_REFUSAL_TRAILER);
    return next;
}

static enum state on_byte(struct http_chunks *chunks, char c)
{
    switch ((enum state)chunks->state) {
    case STATE_SIZE:
        return on_size(chunks, c);
    case STATE_BLANKS:
        return on_blanks(chunks, c);
    case STATE_EXTENSION:
        return on_extension(chunks, c);
    case STATE_DATA_CR:
        return on_data_end(chunks, c);
    case STATE_SIZE_LF:
    case STATE_DATA_LF:
        return c == '\n' ? behind_lf(chunks, (enum state)chunks->state)
                         : refuse_chunks(chunks, HTTP_REFUSAL_CHUNK);
    case STATE_LINE:
    case STATE_NAME:
    case STATE_VALUE:
    case STATE_VALUE_LF:
    case STATE_END_LF:
        return on_trailer(chunks, c);
    case STATE_DATA:
    case STATE_END:
    case STATE_REFUSED:
        break;
    }
    UNREACHABLE();
}

static struct slice take_data(struct http_chunks *chunks, struct slice bytes)
{
    if (bytes.len > chunks->left)
        bytes.len = chunks->left;
    chunks->left -= bytes.len;
    if (chunks->left == 0)
        chunks->state = STATE_DATA_CR;
    return bytes;
}

enum http_parse http_chunks_decode(struct http_chunks *chunks, struct slice bytes, size_t *ret_used,
                                   struct slice *ret_data)
{
    size_t used = 0;
    struct slice data = slice_make(NULL, 0);

    while (used < bytes.len && data.len == 0 && chunks->state < STATE_END) {
        if (chunks->state == STATE_DATA) {
            data = take_data(chunks, slice_skip(bytes, used));
            used += data.len;
        } else {
            chunks->state = (int)on_byte(chunks, bytes.at[used++]);
        }
    }
    if (chunks->state == STATE_REFUSED && used > 0)
        chunks->byte = bytes.at[used - 1];
    if (chunks->state == STATE_REFUSED)
        return HTTP_PARSE_REFUSED;
    *ret_used = used;
    *ret_data = data;
    return chunks->state == STATE_END ? HTTP_PARSE_DONE : HTTP_PARSE_MORE;
}

void http_chunks_refused(const struct http_chunks *chunks, struct buf *ret_text)
{
    buf_add_str(ret_text, http_refusal_text(chunks->refusal));
    if (chunks->refusal == HTTP_REFUSAL_TRAILER && chunks->name[0] != '\0')
        buf_printf(ret_text, ": %.*s", (int)sizeof chunks->name, chunks->name);
    buf_printf(ret_text, ", byte 0x%02x", (unsigned)(unsigned char)chunks->byte);
}
