/* SPDX-License-Identifier: Apache-2.0 */
/* What queue_steps.c and queue_steps_act.c share: a list that is read whole, changed in memory, and
 * saved in one commit. */
#ifndef PAWL_CLIENT_QUEUE_STEPS_PRIV_H
#define PAWL_CLIENT_QUEUE_STEPS_PRIV_H

#include "client/queue_steps.h"

#define WALK_MOST (2 * STEPS_MOST)

/* A list as it is. Its rows lie in the arena of `rows`, or are those of changes that were there. */
struct walk {
    struct rows *rows;
    struct store_task_list *list;
    bool list_is_changed;
    struct store_task *tasks[WALK_MOST]; /* reverses backwards, then steps */
    bool is_changed[WALK_MOST];
    size_t n;
    int64_t now;
};

/* Reads a list; `*ret_found`: it is there. */
enum store_status walk_read(struct walk *walk, int64_t list, bool *ret_found);

/* What core/steps.h wants to know of its tasks. */
void walk_describe(const struct walk *walk, struct steps_task tasks[WALK_MOST]);
bool walk_is_back(const struct walk *walk);

/* Stores the undo of a step that is done, filled in from its response. */
enum store_status walk_fill_undo(struct walk *walk, const struct store_task *done,
                                 const struct undo_response *response);

/* Brings what changed, and the list in this state. It is among the changes even if it stays as it
 * is: list and tasks are read one after the other, and another one may have acted in between. */
enum store_status walk_save(struct walk *walk, enum steps_state state);
/* The same in the state that its tasks say; where they say so with the reverses of what is done. */
enum store_status walk_go_on(struct walk *walk);

#endif
