/* SPDX-License-Identifier: Apache-2.0 */
/* What the person of test_lists.c, which alone includes this, did to what: each act in each state
 * in which a list allows it, and none elsewhere. docs/guide/queue.md has the same as a table. */
#ifndef PAWL_TESTS_LISTS_ACTS_H
#define PAWL_TESTS_LISTS_ACTS_H

#include <stdio.h>

#include "client/queue_steps.h"

#define ACTS 5 /* enum steps_act */
#define CAN(act) (1U << STEPS_##act)
#define CAN_RESUME (CAN(RETRY) | CAN(DROP) | CAN(EDIT))
#define CAN_SETTLE (CAN(SETTLE_DONE) | CAN(SETTLE_NOT_DONE))

static const struct {
    enum steps_state list;
    bool is_undo;
    enum task_state task;
    unsigned acts;
    const char *name;
} situations[] = {
    {STEPS_RUNNING, false, TASK_WAITING, CAN(EDIT), "a step that waits"},
    {STEPS_PARKED, false, TASK_DEAD, CAN(RETRY) | CAN(DROP) | CAN_SETTLE, "the step that parked"},
    {STEPS_UNDOING, true, TASK_WAITING, CAN_RESUME, "an undo that waits"},
    {STEPS_UNDOING, true, TASK_DEAD, CAN(DROP) | CAN(EDIT) | CAN_SETTLE,
     "an unmade undo behind one"},
    {STEPS_PARKED, true, TASK_WAITING, CAN_RESUME, "an undo behind a dead one"},
    {STEPS_PARKED, true, TASK_DEAD, CAN_RESUME | CAN_SETTLE, "the undo that parked"},
};
#define SITUATIONS (sizeof situations / sizeof *situations)

struct acts_seen {
    uint64_t of_tasks[SITUATIONS][ACTS];
    uint64_t of_lists[STEPS_KEPT + 1][2]; /* dropped whole; and what was done was kept */
};

/* False: it was done where it is not allowed. */
static bool acts_count(struct acts_seen *seen, const struct store_task *task, enum steps_act act,
                       const struct queue_steps_acted *acted)
{
    for (size_t i = 0; i < SITUATIONS; i++)
        if (situations[i].list == acted->before && situations[i].task == acted->found &&
            situations[i].is_undo == (task->step < 0)) {
            seen->of_tasks[i][act]++;
            return (situations[i].acts >> act & 1U) != 0;
        }
    return false;
}

/* Prints them. How many never came. */
static int acts_print(const struct acts_seen *seen)
{
    static const char *const names[ACTS] = {"retry", "drop", "settle --done", "settle --not-done",
                                            "edit"};
    static const enum steps_state open[] = {STEPS_RUNNING, STEPS_UNDOING, STEPS_PARKED};
    int missing = 0;
    for (size_t i = 0; i < SITUATIONS; i++)
        for (int act = 0; act < ACTS; act++) {
            if ((situations[i].acts >> act & 1U) == 0)
                continue;
            printf("%10llu  %s: %s\n", (unsigned long long)seen->of_tasks[i][act],
                   situations[i].name, names[act]);
            missing += seen->of_tasks[i][act] == 0;
        }
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        for (int keep = 0; keep < 2; keep++) {
            printf("%10llu  a list that is %.*s: drop --list%s\n",
                   (unsigned long long)seen->of_lists[open[i]][keep],
                   SLICE_ARG(steps_state_name(open[i])), keep ? " --keep" : "");
            missing += seen->of_lists[open[i]][keep] == 0;
        }
    return missing;
}

#endif
