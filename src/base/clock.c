/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/check.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#define MS_PER_DAY 86400000

#ifdef PAWL_HOOKS
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Mapped before main and never changed: every thread reads it without a lock. */
static const int64_t *test_offset;

__attribute__((constructor)) static void test_clock_map(void)
{
    const char *path = getenv("PAWL_TEST_CLOCK");
    struct stat status;
    if (!path)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(fstat(fd, &status) == 0 && status.st_size >= (off_t)sizeof *test_offset);
    void *at = mmap(NULL, sizeof *test_offset, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    test_offset = at;
}

/* The simulation's clocks; boot 0: the machine's. */
static int64_t set_wall, set_boot;

void clock_test_set(int64_t wall_us, int64_t boot_us)
{
    __atomic_store_n(&set_wall, wall_us, __ATOMIC_RELAXED);
    __atomic_store_n(&set_boot, boot_us, __ATOMIC_RELAXED);
}

static bool is_clock_moved(clockid_t clock, int64_t *ret_us)
{
    int64_t boot = __atomic_load_n(&set_boot, __ATOMIC_RELAXED);
    *ret_us = clock == CLOCK_BOOTTIME ? boot : __atomic_load_n(&set_wall, __ATOMIC_RELAXED);
    return boot != 0;
}

static int64_t moved_by_us(void)
{
    return test_offset ? __atomic_load_n(test_offset, __ATOMIC_SEQ_CST) : 0;
}

bool clock_test_moved(void)
{
    int64_t us = 0;
    return is_clock_moved(CLOCK_REALTIME, &us) || moved_by_us() != 0;
}
#else
static inline bool is_clock_moved(clockid_t clock, int64_t *ret_us)
{
    (void)clock, (void)ret_us;
    return false;
}

static inline int64_t moved_by_us(void)
{
    return 0;
}
#endif

static int64_t read_us(clockid_t clock)
{
    struct timespec now;
    int64_t set = 0;
    if (is_clock_moved(clock, &set))
        return set;
    CHECK(clock_gettime(clock, &now) == 0);
    return (int64_t)now.tv_sec * CLOCK_US_PER_S + now.tv_nsec / 1000 + moved_by_us();
}

int64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t clock_boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

/* A hash of the kernel's random id of this boot. */
int64_t clock_boot_id(void)
{
    char text[64] = {0};
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    int64_t id = 0;
    for (ssize_t i = 0; i < n; i++)
        id = (int64_t)(((uint64_t)id * 31 + (unsigned char)text[i]) & INT64_MAX);
    return id;
}

int clock_ms_left(int64_t now_us, int64_t deadline_us)
{
    if (deadline_us == CLOCK_NEVER)
        return -1;
    if (deadline_us <= now_us)
        return 0;
    /* Unsigned: the distance between any two int64 fits. */
    uint64_t left_us = (uint64_t)deadline_us - (uint64_t)now_us;
    uint64_t left_ms = left_us / 1000 + (left_us % 1000 != 0);
    return left_ms > MS_PER_DAY ? MS_PER_DAY : (int)left_ms;
}
