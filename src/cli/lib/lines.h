/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a file, read one after the other: memory is bounded by the longest one. */
#ifndef PAWL_CLI_LINES_H
#define PAWL_CLI_LINES_H

#include "base/buf.h"

#define LINES_MOST ((size_t)64 * 1024 * 1024) /* bytes of one line */

struct lines {
    int fd;
    struct buf bytes;
    size_t at;    /* of the next line */
    size_t n;     /* lines read */
    bool is_over; /* nothing more comes from `fd` */
    int error;    /* -errno of what went wrong; -EFBIG: too long a line */
};

/* Of an open file, which stays the caller's. */
struct lines lines_of(int fd);
void lines_fini(struct lines *lines);

/* The next line without its end, until the next call. False: there is none, or `error`. */
bool lines_next(struct lines *lines, struct slice *ret_line);

#endif
