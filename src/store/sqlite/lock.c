/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite/lock.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BYTE_TURNSTILE = 0, BYTE_BATCH = 1, BYTE_LIFE = 2 };

#define POLL_FIRST_US INT64_C(50)
#define POLL_MOST_US INT64_C(2000)
#define PID_TEXT_SIZE 16 /* of each role, one after the other */

int store_lock_open(struct store_lock *lock, const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    lock->fd = fd;
    lock->role = STORE_COMMAND;
    return fd < 0 ? -errno : 0;
}

void store_lock_close(struct store_lock *lock)
{
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
}

bool store_lock_is_unlinked(const struct store_lock *lock)
{
    struct stat info;
    return fstat(lock->fd, &info) == 0 && info.st_nlink == 0;
}

static int set_bytes(const struct store_lock *lock, int first, int n, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
    if (fcntl(lock->fd, F_OFD_SETLK, &range) == 0)
        return 0;
    return errno == EACCES ? -EAGAIN : -errno;
}

static int set_byte(const struct store_lock *lock, int byte, short type)
{
    return set_bytes(lock, byte, 1, type);
}

static void pause_us(int64_t span_us)
{
    struct timespec span = {.tv_sec = 0, .tv_nsec = (long)(span_us * 1000)};
    nanosleep(&span, NULL);
}

static int poll_byte(const struct store_lock *lock, int byte, int64_t until_us)
{
    int64_t pause = POLL_FIRST_US;
    for (;;) {
        int result = set_byte(lock, byte, F_WRLCK);
        if (result != -EAGAIN)
            return result;
        if (clock_boot_us() >= until_us)
            return -EAGAIN;
        pause_us(pause);
        pause = pause * 2 > POLL_MOST_US ? POLL_MOST_US : pause * 2;
    }
}

static int take_in_turn(const struct store_lock *lock, int64_t until_us)
{
    int result = poll_byte(lock, BYTE_TURNSTILE, until_us);
    if (result != 0)
        return result;
    result = poll_byte(lock, BYTE_BATCH, until_us);
    set_byte(lock, BYTE_TURNSTILE, F_UNLCK);
    return result;
}

int store_lock_take(struct store_lock *lock, int64_t span_us)
{
    CHECK(!thread_is_loop());
    /* Mostly nobody is there, and one call takes both. */
    if (set_bytes(lock, BYTE_TURNSTILE, 2, F_WRLCK) != 0)
        return take_in_turn(lock, clock_after(clock_boot_us(), span_us));
    set_byte(lock, BYTE_TURNSTILE, F_UNLCK);
    return 0;
}

void store_lock_free(struct store_lock *lock)
{
    set_byte(lock, BYTE_BATCH, F_UNLCK);
}

static int byte_of(enum store_role role)
{
    CHECK(role == STORE_SERVE || role == STORE_DRAINER);
    return BYTE_LIFE + (int)(role - STORE_SERVE);
}

static off_t place_of_role(enum store_role role)
{
    return (off_t)PID_TEXT_SIZE * (off_t)(role - STORE_SERVE);
}

int store_lock_life(struct store_lock *lock, enum store_role role)
{
    int result = set_byte(lock, byte_of(role), F_WRLCK);
    if (result != 0)
        return result;
    lock->role = role;
    char text[PID_TEXT_SIZE + 1];
    snprintf(text, sizeof text, "%-*ld\n", PID_TEXT_SIZE - 1, (long)getpid());
    if (pwrite(lock->fd, text, PID_TEXT_SIZE, place_of_role(role)) == PID_TEXT_SIZE)
        return 0;
    /* On a full disk the pid is not known; the lock holds. */
    return errno == ENOSPC || errno == EDQUOT ? 0 : -errno;
}

bool store_lock_life_held(struct store_lock *lock, enum store_role role)
{
    if (lock->role == role)
        return true;
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte_of(role), .l_len = 1};
    if (fcntl(lock->fd, F_OFD_GETLK, &range) != 0)
        return true;
    return range.l_type != F_UNLCK;
}

int64_t store_lock_holder(struct store_lock *lock, enum store_role role)
{
    char text[PID_TEXT_SIZE + 1] = {0};
    ssize_t n = pread(lock->fd, text, PID_TEXT_SIZE, place_of_role(role));
    return n > 0 ? strtol(text, NULL, 10) : 0;
}
