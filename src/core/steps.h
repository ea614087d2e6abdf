/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps: a closed list of tasks, all or nothing. Its steps run one after the other; when one of
 * them fails for good, the reverses of those that are done run backwards. Pure decisions; the model
 * is docs/model/lists.py.
 *
 *      running --last step done-------------------------------------------> done
 *       |   |\
 *       |   | '--a step failed, drop--list--> undoing --last reverse done--> undone
 *       |   |                                  ^  |  |
 *       |   '--a step ended in doubt--> parked |  |  '--the same, and something was given up,
 *       |                                |  |  |  |     drop --list--------> partial
 *       |                                |  '--'  '--a reverse failed, or cannot be made--> parked
 *       |                                '--drop --list --keep-------------> kept
 *       '--drop --list --keep---------------------------------------------->
 *
 * What a list is follows from its tasks alone: while it has no reverse, from the first step that is
 * not done; then from the first reverse that is not finished. A list that is parked, and goes on
 * only because a person acts:
 *
 *      the task             in a list that  a person may
 *      a step that waits    is running      edit it, if nobody was reached; drop the whole list
 *      a step, dead         is parked       retry; drop (it was not done: it is undone; in doubt
 *                                           with force alone); settle it as done (it goes on) or
 *                                           not (it is undone, over nothing)
 *      a reverse that waits is undone       retry (now); drop; edit it, if nobody was reached
 *      a reverse, dead      is parked       retry, if it can be made; edit; drop; settle as done
 *      any that is sent     any             nothing until it has ended
 *
 * `drop` of a whole list: what is done is undone, or kept; what is being undone stops, partial. In
 * doubt only with force, and then the end is partial, as nobody knows. What ended in doubt is not
 * undone by guess: it may have happened or not.
 */
#ifndef PAWL_CORE_STEPS_H
#define PAWL_CORE_STEPS_H

#include "core/task.h"

#define STEPS_MOST ((size_t)32) /* of one list */

/* The store keeps the numbers. */
enum steps_state {
    STEPS_RUNNING = 1,
    STEPS_DONE,
    STEPS_UNDOING,
    STEPS_UNDONE,
    STEPS_PARKED,
    STEPS_PARTIAL, /* over, and something may stand that should not */
    STEPS_KEPT,    /* over by a person, and what was done stays */
};

/* Its name as JSON has it: running, done, undoing, undone, parked, partial, kept. */
struct slice steps_state_name(enum steps_state state);
bool steps_are_over(enum steps_state state);

/* One of its tasks as it has become. */
struct steps_task {
    int64_t step; /* from 1; of its reverse below 0 */
    enum task_state state;
    bool in_doubt;
    bool must_park; /* dead, and not because it was refused */
    bool can_run;   /* there is something to send */
    bool has_begun; /* an attempt of it reached somebody, or may have */
};

/* A final response behind a doubt says that the step was not done, where its service answers a key
 * that it knows as it did first; of others it parks. So does what was busy until the end. */
bool steps_is_refusal(const struct task *task, enum task_reason reason, bool dedupes);

/* What the list is by its tasks, reverses first and backwards (step -2 before -1). Not `is_back`:
 * by its steps; STEPS_UNDOING: what is done is to be undone. `is_back`: by its reverses, also where
 * there is none, as nothing that was done has one. */
enum steps_state steps_judge(const struct steps_task *tasks, size_t n, bool is_back);

enum steps_act { STEPS_RETRY, STEPS_DROP, STEPS_SETTLE_DONE, STEPS_SETTLE_NOT_DONE, STEPS_EDIT };

enum steps_answer {
    STEPS_MAY,
    STEPS_MAY_NOT,    /* not in this list, or not this one */
    STEPS_UNMADE,     /* there is nothing to send: it is edited or dropped */
    STEPS_IN_SENDING, /* not while it is being sent */
    STEPS_IN_DOUBT,   /* not without force */
};

/* A person who wants to act. */
struct steps_wish {
    enum steps_act act;
    bool force;
    bool is_back; /* the list has reverses */
};

/* Whether it may be done to one of its tasks. */
enum steps_answer steps_may(enum steps_state state, const struct steps_task *task,
                            const struct steps_wish *wish);

/* Whether a person may drop the whole list. */
enum steps_answer steps_may_drop(enum steps_state state, const struct steps_task *tasks, size_t n,
                                 bool force);

#endif
