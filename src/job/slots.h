/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots: the gate of `each` (runner/runner.h): so many attempts at a time, so many a second, none
 * once it is closed. One loop's. Whoever waits comes through in order of arrival.
 */
#ifndef PAWL_JOB_SLOTS_H
#define PAWL_JOB_SLOTS_H

#include "runner/runner.h"

struct slots_waiter;

struct slots {
    struct runner_gate gate; /* first: the two are cast into each other */
    size_t most;             /* attempts at a time */
    int64_t apart_us;        /* between two beginnings; 0: no bound */
    size_t taken;
    int64_t next_at; /* boot time: of the next beginning */
    struct slots_waiter *first, *last;
};

/* `apart_us` as above. */
void slots_init(struct slots *slots, size_t most, int64_t apart_us);

/* Lets nothing more begin, and wakes whoever waits to. */
void slots_close(struct slots *slots);

#endif
