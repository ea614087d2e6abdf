/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/lines.h"

#include "base/check.h"
#include <errno.h>
#include <unistd.h>

#define PIECE ((size_t)64 * 1024)

struct lines lines_of(int fd)
{
    return (struct lines){.fd = fd, .bytes = buf_make(LINES_MOST + PIECE)};
}

void lines_fini(struct lines *lines)
{
    buf_fini(&lines->bytes);
}

/* Reads on. False: nothing came. */
static bool fill_lines(struct lines *lines)
{
    buf_drop(&lines->bytes, lines->at);
    lines->at = 0;
    char *room = lines->bytes.len < LINES_MOST ? buf_room(&lines->bytes, PIECE) : NULL;
    if (!room) {
        lines->error = lines->bytes.len < LINES_MOST ? -ENOMEM : -EFBIG;
        return false;
    }
    ssize_t n;
    do
        n = read(lines->fd, room, PIECE);
    while (n < 0 && errno == EINTR);
    lines->error = n < 0 ? -errno : 0;
    lines->is_over = n == 0;
    if (n > 0)
        buf_added(&lines->bytes, (size_t)n);
    return n > 0;
}

bool lines_next(struct lines *lines, struct slice *ret_line)
{
    CHECK(lines->fd >= 0 && lines->at <= lines->bytes.len);
    size_t seen = 0; /* bytes of the line that hold no line end */
    for (;;) {
        struct slice rest = slice_skip(buf_slice(&lines->bytes), lines->at);
        ptrdiff_t end = slice_find(slice_skip(rest, seen), '\n');
        bool is_last = end < 0 && lines->is_over && rest.len > 0;
        if (end >= 0 || is_last) {
            size_t len = is_last ? rest.len : seen + (size_t)end;
            *ret_line = slice_make(rest.at, len);
            lines->at += len + (is_last ? 0 : 1);
            lines->n++;
            return true;
        }
        seen = rest.len;
        if (lines->is_over || lines->error != 0 || (!fill_lines(lines) && lines->error != 0))
            return false;
    }
}
