/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fail_stop.h"

#include "core/errors.h"
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES 512

/* In one write, and not at all where nobody reads: to stop matters more than to say so. */
static void say_fail_stop(const char *what)
{
    char line[LINE_MAX_BYTES];
    int n = snprintf(line, sizeof line, "pawl: the store failed, stopping: %s\n", what);
    struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&error, 1, 0) == 1 && (error.revents & POLLOUT) != 0 &&
        write(STDERR_FILENO, line, (size_t)n) != n)
        return;
}

void fail_stop(void *log, const char *what)
{
    log_flush(*(struct log **)log);
    say_fail_stop(what);
    _exit(EXIT_FAIL_STOP);
}
