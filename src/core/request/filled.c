/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request/filled.h"

#include "base/check.h"
#include "base/text/ascii.h"
#include "base/text/percent.h"
#include "core/request/path.h"

#define ORIGIN_SLASHES 3

struct filled filled_make(struct buf *buf, unsigned flags)
{
    return (struct filled){.buf = buf, .flags = flags, .piece = buf->len};
}

static void note_filled(struct filled *filled, bool is_fault, enum filled_fault fault)
{
    if (is_fault && filled->fault == FILLED_GOOD)
        filled->fault = fault;
}

static bool segment_has_control(struct slice segment)
{
    while (segment.len > 0) {
        char c = segment.at[0];
        bool is_escaped = percent_starts(segment, &c);
        if (ascii_is_control(c))
            return true;
        segment = slice_skip(segment, is_escaped ? PERCENT_SIZE : 1);
    }
    return false;
}

/* A segment of the path, or what stands before it, has ended. */
static void end_filled_segment(struct filled *filled)
{
    struct slice segment = slice_skip(buf_slice(filled->buf), filled->piece);
    if (!filled->holds || filled->in_query || !buf_ok(filled->buf))
        return;
    note_filled(filled, segment_has_control(segment), FILLED_CONTROL);
    note_filled(filled, path_has_dots(segment), FILLED_DOTS);
    note_filled(filled, path_is_nameless(segment), FILLED_NAMELESS);
}

void filled_add_text(struct filled *filled, struct slice literal)
{
    for (size_t i = 0; i < literal.len; i++) {
        char c = literal.at[i];
        bool ends = !filled->in_query && (c == '/' || c == '?' || c == '#');
        if (ends)
            end_filled_segment(filled);
        buf_add_char(filled->buf, c);
        if (!ends)
            continue;
        filled->slashes += c == '/';
        filled->in_query = c != '/';
        filled->piece = filled->buf->len;
        filled->holds = false;
    }
}

void filled_expect(struct filled *filled, struct slice value)
{
    bool is_origin = !filled->in_query && filled->slashes < ORIGIN_SLASHES;
    bool is_empty = filled->in_query && value.len == 0;
    note_filled(filled, is_origin && filled->flags & FILLED_KEEPS_ORIGIN, FILLED_ORIGIN);
    note_filled(filled, is_empty && filled->flags & FILLED_WANTS_VALUES, FILLED_EMPTY);
    filled->holds = true;
}

void filled_add_value(struct filled *filled, struct slice value)
{
    filled_expect(filled, value);
    for (size_t i = 0; i < value.len; i++) {
        char escape[PERCENT_SIZE];
        if (slice_is_word(slice_make(value.at + i, 1), SLICE_URL_MARKS)) {
            buf_add_char(filled->buf, value.at[i]);
            continue;
        }
        percent_write(value.at[i], escape);
        buf_add(filled->buf, escape, PERCENT_SIZE);
    }
}

enum filled_fault filled_end(struct filled *filled)
{
    end_filled_segment(filled);
    return filled->fault;
}

const char *filled_fault_text(enum filled_fault fault)
{
    static const char *const texts[] = {
        [FILLED_NAMELESS] = "leaves a segment of the path without a name",
        [FILLED_DOTS] = "makes a segment of the path `.` or `..`, which servers resolve",
        [FILLED_CONTROL] = "puts a control byte into the path",
        [FILLED_EMPTY] = "is empty in the query",
        [FILLED_ORIGIN] = "would be in front of the path, where it could name another host",
        [FILLED_AMBIGUOUS] = "makes a path that servers read in different ways",
    };
    CHECK(fault != FILLED_GOOD);
    return texts[fault];
}
