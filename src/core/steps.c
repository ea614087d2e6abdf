/* SPDX-License-Identifier: Apache-2.0 */
#include "core/steps.h"

#include "base/check.h"

struct slice steps_state_name(enum steps_state state)
{
    static const char *const names[] = {[STEPS_RUNNING] = "running",
                                        [STEPS_DONE] = "done",
                                        [STEPS_UNDOING] = "undoing",
                                        [STEPS_UNDONE] = "undone",
                                        [STEPS_PARKED] = "parked"};
    CHECK(state >= STEPS_RUNNING && state <= STEPS_PARKED);
    return slice_of(names[state]);
}

static enum steps_state after_step(const struct steps_task *task)
{
    switch (task->state) {
    case TASK_WAITING:
    case TASK_SENDING:
        return STEPS_RUNNING;
    case TASK_DONE:
        return task->is_last ? STEPS_DONE : STEPS_RUNNING;
    case TASK_DEAD:
        return task->in_doubt ? STEPS_PARKED : STEPS_UNDOING;
    case TASK_DROPPED:
        return STEPS_UNDOING;
    }
    UNREACHABLE();
}

static enum steps_state after_reverse(const struct steps_task *task)
{
    switch (task->state) {
    case TASK_WAITING:
    case TASK_SENDING:
        return STEPS_UNDOING;
    case TASK_DONE:
    case TASK_DROPPED:
        return task->is_last ? STEPS_UNDONE : task->next_is_dead ? STEPS_PARKED : STEPS_UNDOING;
    case TASK_DEAD:
        return STEPS_PARKED;
    }
    UNREACHABLE();
}

enum steps_state steps_after(enum steps_state state, const struct steps_task *task)
{
    if (state == STEPS_RUNNING && !task->is_reverse)
        return after_step(task);
    if (state == STEPS_UNDOING && task->is_reverse)
        return after_reverse(task);
    return state;
}

enum steps_state steps_unpark(bool is_reverse)
{
    return is_reverse ? STEPS_UNDOING : STEPS_RUNNING;
}
