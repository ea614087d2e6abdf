/* SPDX-License-Identifier: Apache-2.0 */
#include "client/fields.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuse(struct arena *arena, struct slice *ret_problem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(struct arena *arena, struct slice *ret_problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *ret_problem = arena_vprintf(arena, format, arguments);
    va_end(arguments);
    return false;
}

/* Takes the next line off, without its line end. */
static bool take_line(struct slice *rest, struct slice *ret_line)
{
    if (rest->len == 0)
        return false;
    *rest = slice_cut(*rest, '\n', ret_line);
    if (ret_line->len > 0 && ret_line->at[ret_line->len - 1] == '\r')
        ret_line->len--;
    return true;
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
        return refuse(arena, ret_problem, "cannot read the headers in %.*s: %s", SLICE_ARG(path),
                      strerror(-error));
    return client_fields_add_lines(path, lines, arena, headers, ret_problem);
}

bool client_fields_add_lines(struct slice path, struct slice lines, struct arena *arena,
                             struct headers *headers, struct slice *ret_problem)
{
    struct slice line, name;
    while (take_line(&lines, &line)) {
        struct slice value = slice_cut(line, ':', &name);
        if (line.len == 0)
            continue;
        if (!value.at || !header_is_valid(name, slice_trim(value)))
            return refuse(arena, ret_problem, "%.*s contains a line that is no header",
                          SLICE_ARG(path));
        if (!headers_add(headers, name, slice_trim(value)))
            return refuse(arena, ret_problem, "too many headers");
    }
    return true;
}

bool client_fields_split(struct slice fields, struct headers *ret_headers)
{
    struct slice line, name;
    headers_clear(ret_headers);
    while (take_line(&fields, &line)) {
        bool is_file = line.len > 0 && line.at[0] == '@';
        struct slice value = is_file ? slice_skip(line, 1) : slice_cut(line, ':', &name);
        if (!headers_add(ret_headers, is_file ? SLICE("@") : name, slice_trim(value)))
            return false;
    }
    return true;
}
