/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps: a closed list of tasks, all or nothing. Its steps run one after the other; when one of
 * them fails for good, the reverses of those that are done run backwards. Pure decisions.
 *
 *      running --last step done--> done
 *       |   |
 *       |   '--a step failed--> undoing --last reverse done--> undone
 *       |                          |
 *       '--a step is in doubt--.   |--a reverse failed
 *                              v   v
 *                              parked  --a person retries or drops that task--> running, undoing
 *
 * What ended in doubt is not undone by guess: it may have happened or not.
 */
#ifndef PAWL_CORE_STEPS_H
#define PAWL_CORE_STEPS_H

#include "core/task.h"

#define STEPS_MOST ((size_t)32) /* of one list */

/* The store keeps the numbers. */
enum steps_state { STEPS_RUNNING = 1, STEPS_DONE, STEPS_UNDOING, STEPS_UNDONE, STEPS_PARKED };

/* Its name as JSON has it: running, done, undoing, undone, parked. */
struct slice steps_state_name(enum steps_state state);

/* One of its tasks as it has become. */
struct steps_task {
    bool is_reverse;
    enum task_state state;
    bool in_doubt;
    bool is_last;      /* of its direction: none is behind it */
    bool next_is_dead; /* of its direction: the one behind it cannot be sent */
};

/* What the list is after that. STEPS_UNDOING after a step: its reverses are to be added, and what
 * waits is dropped. */
enum steps_state steps_after(enum steps_state state, const struct steps_task *task);

/* A person takes up the task that parked the list: what the list is while it goes on. */
enum steps_state steps_unpark(bool is_reverse);

#endif
