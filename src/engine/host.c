/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/host.h"

#include "base/check.h"
#include "base/clock.h"
#include "core/web/origin.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PID ", pid "
#define SINCE " since "
#define BOOT "boot "
#define STAT_MAX ((size_t)1024)
#define ENVIRONMENT_MAX ((size_t)4 * 1024 * 1024) /* the kernel's own bound is some 2 MiB */
#define READ_MAX ((size_t)16 * 1024)

/* When a process was started, in ticks since the boot: nobody has had its number at that time but
 * itself. 0: there is none, or it has exited. */
static unsigned long long started_at(long pid)
{
    char path[64], text[STAT_MAX], state = 0;
    unsigned long long ticks = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *end = strrchr(text, ')'); /* of its name, which may be anything */
    if (!end || sscanf(end + 1,
                       " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                       "%*d %llu",
                       &state, &ticks) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : ticks;
}

void host_write(struct buf *buf)
{
    char name[HOST_NAME_MAX + 1] = "";
    if (gethostname(name, sizeof name) != 0)
        name[0] = '\0';
    name[HOST_NAME_MAX] = '\0';
    buf_printf(buf, "%s" PID "%d" SINCE "%llu, " BOOT "%016llx", name, (int)getpid(),
               started_at((long)getpid()), (unsigned long long)clock_boot_id());
}

/* Begun here, since this host booted. */
static bool is_of_this_host(struct slice client)
{
    char boot[sizeof BOOT + 16];
    int n = snprintf(boot, sizeof boot, BOOT "%016llx", (unsigned long long)clock_boot_id());
    struct slice own = slice_make(boot, (size_t)n);
    return clock_boot_id() != 0 && client.len >= own.len &&
           slice_eq(slice_skip(client, client.len - own.len), own);
}

static bool client_is_alive(struct slice client)
{
    char text[HOST_NAME_MAX + 128] = "";
    long pid;
    unsigned long long since;
    if (client.len >= sizeof text)
        return false;
    memcpy(text, client.at, client.len);
    const char *at = strstr(text, PID);
    return at && sscanf(at, PID "%ld" SINCE "%llu", &pid, &since) == 2 && since != 0 &&
           started_at(pid) == since;
}

/* The environment with which a process was started; empty where it may not be read. */
static void read_environment(const char *pid, struct buf *buf)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n = 1; fd >= 0 && n > 0;) {
        char *room = buf_room(buf, READ_MAX);
        n = room ? read(fd, room, READ_MAX) : 0;
        buf_added(buf, n > 0 ? (size_t)n : 0);
    }
    if (fd >= 0)
        close(fd);
}

static bool has_variable(struct slice environment, struct slice name, struct slice value)
{
    struct slice one;
    while (slice_next(&environment, '\0', &one))
        if (one.len == name.len + value.len && slice_eq(slice_first(one, name.len), name) &&
            slice_eq(slice_skip(one, name.len), value))
            return true;
    return false;
}

size_t host_signal(struct slice key, int64_t token, int number)
{
    char digits[24];
    BUF_AUTO struct buf environment = buf_make(ENVIRONMENT_MAX);
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    size_t n = 0;
    CHECK(token > 0 && number >= 0);
    int len = snprintf(digits, sizeof digits, "%lld", (long long)token);
    struct slice value = slice_make(digits, (size_t)len);
    while (processes && (entry = readdir(processes))) {
        long pid = strtol(entry->d_name, NULL, 10);
        buf_clear(&environment);
        if (pid <= 0 || pid == (long)getpid())
            continue;
        read_environment(entry->d_name, &environment);
        if (has_variable(buf_slice(&environment), SLICE(HOST_TOKEN), value) &&
            has_variable(buf_slice(&environment), SLICE(HOST_KEY), key))
            n += kill((pid_t)pid, number) == 0;
    }
    if (processes)
        closedir(processes);
    return n;
}

bool host_goes_on(struct slice origin, struct slice key, int64_t token)
{
    struct origin begun;
    return origin_read(origin, &begun) && is_of_this_host(begun.client) &&
           (client_is_alive(begun.client) || host_signal(key, token, 0) > 0);
}
