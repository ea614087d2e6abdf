/* SPDX-License-Identifier: Apache-2.0 */
/* signals: those that a command which runs others does not die of, read by a fiber. */
#ifndef PAWL_JOB_SIGNALS_H
#define PAWL_JOB_SIGNALS_H

#include "fiber/fiber.h"

/* Holds back INT, TERM, HUP, QUIT, USR1 and USR2, and ignores PIPE, in this thread and those that
 * it starts: before it starts any. An INT, HUP or QUIT that it was started to ignore stays ignored.
 */
void signals_hold_back(void);

/* Once all is stored: from now on this process dies of INT, TERM, HUP and QUIT. */
void signals_let_go(void);

struct signals {
    /* Gets each. `from_terminal`: its whole foreground group got it. */
    void (*got)(void *argument, int number, bool from_terminal);
    void *argument;
    struct parker *parker; /* of the fiber; the watch's own, as the rest */
    struct fiber_io io;
    bool ends;
};

/* Starts the fiber that reads them. False: no descriptor or memory. */
bool signals_watch(struct loop *loop, struct signals *signals);

/* On the loop: ends that fiber. */
void signals_end(struct signals *signals);

#endif
