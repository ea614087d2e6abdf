/* SPDX-License-Identifier: Apache-2.0 */
#include "client/fields.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuse_field(struct arena *arena, struct slice *ret_problem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse_field(struct arena *arena, struct slice *ret_problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *ret_problem = arena_vprintf(arena, format, arguments);
    va_end(arguments);
    return false;
}

/* All of its bytes are there: those of a pipe would have to be waited for. */
static int check_regular(int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return -errno;
    return S_ISREG(about.st_mode) ? 0 : -EOPNOTSUPP;
}

/* 0 or -errno. */
static int read_file(const char *path, struct arena *arena, struct slice *ret_bytes)
{
    char *room = arena_alloc(arena, CLIENT_FIELDS_FILE_MAX + 1);
    int fd = room ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0)
        return room ? -errno : -ENOMEM;
    int error = check_regular(fd);
    ssize_t n = error == 0 ? read(fd, room, CLIENT_FIELDS_FILE_MAX + 1) : 0;
    if (error == 0)
        error = n < 0 ? -errno : (size_t)n > CLIENT_FIELDS_FILE_MAX ? -EFBIG : 0;
    close(fd);
    *ret_bytes = slice_make(room, n < 0 ? 0 : (size_t)n);
    return error;
}

bool client_fields_add_file(struct slice path, struct arena *arena, struct headers *headers,
                            struct slice *ret_problem)
{
    struct slice text = arena_copy(arena, path), lines;
    int error = text.at ? read_file(text.at, arena, &lines) : -ENOMEM;
    if (error != 0)
        return refuse_field(arena, ret_problem, "cannot read the headers in %.*s: %s",
                            SLICE_ARG(path), strerror(-error));
    return client_fields_add_lines(path, lines, arena, headers, ret_problem);
}

bool client_fields_add_lines(struct slice path, struct slice lines, struct arena *arena,
                             struct headers *headers, struct slice *ret_problem)
{
    struct slice name, value;
    while (fields_next(&lines, &name, &value)) {
        if (name.len == 0 && !value.at)
            continue;
        if (!value.at || !header_is_valid(name, value))
            return refuse_field(arena, ret_problem, "%.*s contains a line that is no header",
                                SLICE_ARG(path));
        if (!headers_add(headers, name, value))
            return refuse_field(arena, ret_problem, "too many headers");
    }
    return true;
}

bool client_fields_split(struct slice fields, struct headers *ret_headers)
{
    struct slice name, value;
    headers_clear(ret_headers);
    while (fields_next(&fields, &name, &value))
        if (!headers_add(ret_headers, name, value))
            return false;
    return true;
}
