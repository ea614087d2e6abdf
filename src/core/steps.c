/* SPDX-License-Identifier: Apache-2.0 */
#include "core/steps.h"

#include "base/check.h"

#define CONFLICT 409 /* it says that the key is known, and not what became of it */

struct slice steps_state_name(enum steps_state state)
{
    static const char *const names[] = {
        [STEPS_RUNNING] = "running", [STEPS_DONE] = "done",     [STEPS_UNDOING] = "undoing",
        [STEPS_UNDONE] = "undone",   [STEPS_PARKED] = "parked", [STEPS_PARTIAL] = "partial",
        [STEPS_KEPT] = "kept"};
    CHECK(state >= STEPS_RUNNING && state <= STEPS_KEPT);
    return slice_of(names[state]);
}

bool steps_are_over(enum steps_state state)
{
    return state == STEPS_DONE || state == STEPS_UNDONE || state == STEPS_PARTIAL ||
           state == STEPS_KEPT;
}

bool steps_is_refusal(const struct task *task, enum task_reason reason, bool dedupes)
{
    bool is_busy = task->busy_since != 0; /* its last answers said so: it may end elsewhere yet */
    return dedupes && reason == TASK_REASON_IN_DOUBT && task->status / 100 == 4 &&
           task->status != CONFLICT && !is_busy;
}

/* ---- what it is ---- */

/* Of the steps: the first one that is not done. */
static enum steps_state judge_forward(const struct steps_task *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum task_state state = tasks[i].state;
        if (state == TASK_WAITING || state == TASK_SENDING)
            return STEPS_RUNNING;
        if (state == TASK_DEAD)
            return tasks[i].must_park ? STEPS_PARKED : STEPS_UNDOING;
        if (state == TASK_DROPPED)
            return STEPS_UNDOING;
    }
    return STEPS_DONE;
}

/* What was dropped in doubt may stand, as does what lost its undo. */
static bool may_stand(const struct steps_task *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tasks[i].state == TASK_DROPPED && (tasks[i].step < 0 || tasks[i].in_doubt))
            return true;
    return false;
}

static enum steps_state judge_backward(const struct steps_task *tasks, size_t n)
{
    for (size_t i = 0; i < n && tasks[i].step < 0; i++) {
        enum task_state state = tasks[i].state;
        if (state == TASK_WAITING || state == TASK_SENDING)
            return STEPS_UNDOING;
        if (state == TASK_DEAD)
            return STEPS_PARKED;
    }
    return may_stand(tasks, n) ? STEPS_PARTIAL : STEPS_UNDONE;
}

enum steps_state steps_judge(const struct steps_task *tasks, size_t n, bool is_back)
{
    return is_back ? judge_backward(tasks, n) : judge_forward(tasks, n);
}

/* ---- what a person may do ---- */

static enum steps_answer may_step(enum steps_state state, const struct steps_task *task,
                                  const struct steps_wish *wish)
{
    if (wish->is_back)
        return STEPS_MAY_NOT;
    if (wish->act == STEPS_EDIT) {
        bool waits = state == STEPS_RUNNING && task->state == TASK_WAITING;
        return waits && !task->has_begun ? STEPS_MAY : STEPS_MAY_NOT;
    }
    if (task->state != TASK_DEAD)
        return STEPS_MAY_NOT;
    return wish->act == STEPS_DROP && task->in_doubt && !wish->force ? STEPS_IN_DOUBT : STEPS_MAY;
}

static enum steps_answer may_reverse(const struct steps_task *task, const struct steps_wish *wish)
{
    bool is_settled = wish->act == STEPS_SETTLE_DONE || wish->act == STEPS_SETTLE_NOT_DONE;
    if (task->state != TASK_DEAD && (task->state != TASK_WAITING || is_settled))
        return STEPS_MAY_NOT;
    if (wish->act == STEPS_RETRY && !task->can_run)
        return STEPS_UNMADE;
    return wish->act == STEPS_EDIT && task->in_doubt && !wish->force ? STEPS_IN_DOUBT : STEPS_MAY;
}

enum steps_answer steps_may(enum steps_state state, const struct steps_task *task,
                            const struct steps_wish *wish)
{
    if (steps_are_over(state))
        return STEPS_MAY_NOT;
    if (task->state == TASK_SENDING)
        return STEPS_IN_SENDING;
    return task->step < 0 ? may_reverse(task, wish) : may_step(state, task, wish);
}

enum steps_answer steps_may_drop(enum steps_state state, const struct steps_task *tasks, size_t n,
                                 bool force)
{
    bool in_doubt = false, is_back = n > 0 && tasks[0].step < 0;
    if (steps_are_over(state))
        return STEPS_MAY_NOT;
    for (size_t i = 0; i < n; i++) {
        if (tasks[i].state == TASK_SENDING)
            return STEPS_IN_SENDING;
        in_doubt |= tasks[i].in_doubt && tasks[i].state != TASK_DONE;
    }
    return in_doubt && !is_back && !force ? STEPS_IN_DOUBT : STEPS_MAY;
}
