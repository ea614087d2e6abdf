/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/input.h"

#include "core/errors.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)64 * 1024)

/* Reads until the end, or until more than INPUT_MAX came. 0 or -errno. */
static int read_all(int fd, struct buf *bytes)
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

static int open_input(const char *path)
{
    if (!path || strcmp(path, "-") == 0)
        return STDIN_FILENO;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int input_read(const char *command, const char *path, struct buf *ret_bytes)
{
    BUF_AUTO struct buf bytes = buf_make(INPUT_MAX + 1);
    int fd = open_input(path);
    int error = fd < 0 ? fd : read_all(fd, &bytes);
    if (fd > STDIN_FILENO)
        close(fd);
    const char *name = path ? path : "-";
    if (error != 0) {
        fprintf(stderr, "pawl %s: cannot read %s: %s\n", command, name, strerror(-error));
        return EXIT_USAGE;
    }
    if (bytes.len > INPUT_MAX) {
        fprintf(stderr, "pawl %s: %s holds more than %zu MiB, which is the limit here\n", command,
                name, INPUT_MAX / (1024 * 1024));
        return EXIT_BAD_DATA;
    }
    *ret_bytes = bytes;
    bytes = buf_make(0);
    return EXIT_DONE;
}
