/* SPDX-License-Identifier: Apache-2.0 */
#include "core/web/origin.h"

static const struct slice spellings[] = {
    [KEY_FORWARD_BY_SYNTAX] = {"", 0},
    [KEY_FORWARD_BARE] = {"bare", 4},
    [KEY_FORWARD_QUOTED] = {"quoted", 6},
};

static enum key_forward read_spelling(struct slice word)
{
    for (enum key_forward i = KEY_FORWARD_BARE; i <= KEY_FORWARD_QUOTED; i++)
        if (slice_eq(word, spellings[i]))
            return i;
    return KEY_FORWARD_BY_SYNTAX;
}

static void add_origin_line(struct buf *buf, struct slice text)
{
    buf_add_slice(buf, text);
    buf_add_char(buf, '\n');
}

void origin_write(const struct origin *origin, struct buf *buf)
{
    buf_add_slice(buf, origin->method);
    buf_add_char(buf, ' ');
    buf_add_slice(buf, origin->path);
    if (origin->emit.len > 0) {
        buf_add_char(buf, '\t');
        buf_add_slice(buf, origin->emit);
        buf_add_str(buf, origin->emit_without_response ? "\t-" : "");
    }
    buf_add_char(buf, '\n');
    add_origin_line(buf, origin->client);
    add_origin_line(buf, origin->correlation_id);
    buf_add_slice(buf, origin->trace_id);
    if (origin->spelling != KEY_FORWARD_BY_SYNTAX)
        buf_add_char(buf, '\t');
    add_origin_line(buf, spellings[origin->spelling]);
    buf_add_slice(buf, origin->body);
}

bool origin_read(struct slice text, struct origin *ret_origin)
{
    struct slice first;
    if (text.len == 0)
        return false;
    *ret_origin = (struct origin){0};
    text = slice_cut(text, '\n', &first);
    struct slice target = slice_cut(first, ' ', &ret_origin->method);
    struct slice emit = slice_cut(target, '\t', &ret_origin->path);
    ret_origin->emit_without_response = slice_cut(emit, '\t', &ret_origin->emit).len > 0;
    text = slice_cut(text, '\n', &ret_origin->client);
    text = slice_cut(text, '\n', &ret_origin->correlation_id);
    ret_origin->body = slice_cut(text, '\n', &first);
    ret_origin->spelling = read_spelling(slice_cut(first, '\t', &ret_origin->trace_id));
    return true;
}

bool origin_read_event_data(struct slice text, struct slice response, struct slice *ret_data)
{
    struct origin origin;
    bool has_response =
        origin_read(text, &origin) && origin.emit.len > 0 && !origin.emit_without_response;
    return emit_read_body(has_response ? response : SLICE(""), ret_data);
}

enum key_forward origin_spelling(struct slice text)
{
    struct origin origin;
    return origin_read(text, &origin) ? origin.spelling : KEY_FORWARD_BY_SYNTAX;
}

struct slice origin_respell(struct slice text, enum key_forward spelling, struct arena *arena)
{
    struct buf buf BUF_AUTO = buf_make(ORIGIN_MAX + sizeof "\tquoted");
    struct origin origin = {0};
    (void)origin_read(text, &origin);
    origin.spelling = spelling;
    origin_write(&origin, &buf);
    return buf_ok(&buf) ? arena_copy(arena, buf_slice(&buf)) : (struct slice){0};
}
