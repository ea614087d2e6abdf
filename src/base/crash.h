/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash points: named places where a test ends or halts the process. Builds without hooks hold
 * nothing of them. With hooks, read once from the environment before main:
 *
 *     PAWL_CRASH_AT=name[:N]   SIGKILL at the N-th pass (default 1), all threads counted together
 *     PAWL_STOP_AT=name[:N]    SIGSTOP instead; SIGCONT lets it go on, and it stops no more
 *     PAWL_HANG_AT=name        that thread alone waits, at every pass, while the file
 *                              $PAWL_HANG_WHILE exists, and makes it one byte long
 *
 * A name that is not in the table ends the process at start: a misspelt test must not pass.
 */
#ifndef PAWL_BASE_CRASH_H
#define PAWL_BASE_CRASH_H

#include "base/crash_points.h"

enum crash_point {
#define X(name) CRASH_POINT_##name,
    CRASH_POINTS(X)
#undef X
};

#ifdef PAWL_HOOKS
void crash_pass(enum crash_point point);
#define CRASH_POINT(name) crash_pass(CRASH_POINT_##name)
#else
#define CRASH_POINT(name) ((void)0)
#endif

#endif
