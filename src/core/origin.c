/* SPDX-License-Identifier: Apache-2.0 */
#include "core/origin.h"

static void add_line(struct buf *buf, struct slice text)
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
    add_line(buf, origin->client);
    add_line(buf, origin->correlation_id);
    add_line(buf, origin->trace_id);
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
    ret_origin->body = slice_cut(text, '\n', &ret_origin->trace_id);
    return true;
}

struct slice origin_event_data(struct slice text, struct slice response)
{
    struct origin origin;
    bool has_response =
        origin_read(text, &origin) && origin.emit.len > 0 && !origin.emit_without_response;
    return has_response ? emit_body(response) : SLICE("");
}
