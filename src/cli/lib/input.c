/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/input.h"

#include "cli/command/command.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)64 * 1024)

/* Reads until the end, or until more than INPUT_MAX came. 0 or -errno. */
static int read_all_bytes(int fd, struct buf *bytes)
{
    while (bytes->len <= INPUT_MAX) {
        size_t left = INPUT_MAX + 1 - bytes->len;
        char *room = buf_room(bytes, left < PIECE ? left : PIECE);
        if (!room)
            return -ENOMEM;
        ssize_t n = read(fd, room, left < PIECE ? left : PIECE);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            buf_added(bytes, (size_t)n);
    }
    return 0;
}

int input_read(const char *command, const char *path, struct buf *ret_bytes)
{
    BUF_AUTO struct buf bytes = buf_make(INPUT_MAX + 1);
    bool is_file = path && strcmp(path, "-") != 0;
    int fd = is_file ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    int error = fd < 0 ? -errno : read_all_bytes(fd, &bytes);
    if (is_file && fd >= 0)
        close(fd);
    const char *name = is_file ? path : "standard input";
    if (error != 0)
        return command_failed(command, EXIT_USAGE, "cannot read %s: %s", name, strerror(-error));
    if (bytes.len > INPUT_MAX)
        return command_failed(command, EXIT_BAD_DATA, "%s is larger than the limit of %zu MiB",
                              name, INPUT_MAX / (1024 * 1024));
    *ret_bytes = bytes;
    bytes = buf_make(0);
    return EXIT_DONE;
}

int input_read_secret(const char *command, const char *text, struct arena *arena,
                      struct slice *ret_secret)
{
    static const struct slice file = {"file:", 5};
    *ret_secret = slice_of(text);
    if (!slice_starts(*ret_secret, file))
        return EXIT_DONE;
    BUF_AUTO struct buf bytes = buf_make(0);
    int code = input_read(command, text + file.len, &bytes);
    if (code == EXIT_DONE)
        *ret_secret = arena_copy(arena, slice_trim(buf_slice(&bytes)));
    return code;
}
