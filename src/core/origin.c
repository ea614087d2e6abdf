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
    add_line(buf, origin->path);
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
    ret_origin->path = slice_cut(first, ' ', &ret_origin->method);
    text = slice_cut(text, '\n', &ret_origin->client);
    text = slice_cut(text, '\n', &ret_origin->correlation_id);
    ret_origin->body = slice_cut(text, '\n', &ret_origin->trace_id);
    return true;
}
