/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crash.h"

#ifdef PAWL_HOOKS
#include "base/check.h"
#include "base/slice.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct trap {
    int signal;
    enum crash_point point;
    _Atomic int64_t passes_left; /* it springs where this becomes 0; never armed: 0 or below */
};

static struct trap crash_trap = {.signal = SIGKILL};
static struct trap stop_trap = {.signal = SIGSTOP};
static struct trap hang_trap; /* that thread alone, at every pass, while $PAWL_HANG_WHILE exists */

static enum crash_point point_named(struct slice name)
{
#define X(known)                                                                                   \
    if (slice_eq(name, SLICE(#known)))                                                             \
        return CRASH_POINT_##known;
    CRASH_POINTS(X)
#undef X
    CHECK(!"the environment names a crash point that exists");
    UNREACHABLE();
}

static void trap_arm(struct trap *trap, const char *text)
{
    struct slice name;
    uint64_t passes = 1;
    if (!text)
        return;
    struct slice count = slice_cut(slice_of(text), ':', &name);
    CHECK(!count.at || slice_to_u64(count, INT64_MAX, &passes));
    CHECK(passes > 0);
    trap->point = point_named(name);
    atomic_store(&trap->passes_left, (int64_t)passes);
}

__attribute__((constructor)) static void crash_arm(void)
{
    trap_arm(&crash_trap, getenv("PAWL_CRASH_AT"));
    trap_arm(&stop_trap, getenv("PAWL_STOP_AT"));
    trap_arm(&hang_trap, getenv("PAWL_HANG_AT"));
}

static void hang_while_asked(void)
{
    const char *path = getenv("PAWL_HANG_WHILE");
    while (path && truncate(path, 1) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void trap_pass(struct trap *trap, enum crash_point point)
{
    if (trap->point == point && atomic_load(&trap->passes_left) > 0 &&
        atomic_fetch_sub(&trap->passes_left, 1) == 1)
        raise(trap->signal);
}

void crash_pass(enum crash_point point)
{
    if (hang_trap.point == point && atomic_load(&hang_trap.passes_left) > 0)
        hang_while_asked();
    trap_pass(&stop_trap, point);
    trap_pass(&crash_trap, point);
}
#endif
