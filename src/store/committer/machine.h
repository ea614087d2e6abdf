/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine: the states of a committer, and what moves it between them.
 *
 *                   no space
 *            .------------------>  full  --- committed ---> up
 *            |                      | ^  '- reads: stays
 *            |             held, away | no space
 *            |                      v |
 *    up -----+--- held, away --->  held, away  --- committed ---> up
 *            |
 *            '--- failed ------->  dead: from every state, and for good
 *
 *   up     batches go through
 *   full   there is no space for what writes: meanwhile what only reads goes on
 *   held   somebody else holds the store, or memory is short: everything waits
 *   away   its file was deleted or replaced: likewise, and what may be refused is, at once
 *   dead   an I/O error: nothing that was decided is reported (contract section 2, invariant 8)
 *
 * To stop is no state: it is asked for in each of them.
 */
#ifndef PAWL_STORE_COMMITTER_MACHINE_H
#define PAWL_STORE_COMMITTER_MACHINE_H

enum committer_state {
    COMMITTER_UP,
    COMMITTER_FULL,
    COMMITTER_HELD,
    COMMITTER_AWAY,
    COMMITTER_DEAD,
    COMMITTER_STATES,
};

/* What became of a batch. */
enum committer_event {
    COMMITTER_READS,     /* it committed, while what writes had to wait */
    COMMITTER_COMMITTED, /* it committed */
    COMMITTER_NO_SPACE,
    COMMITTER_HELD_UP,
    COMMITTER_LOST,
    COMMITTER_FAILED,
    COMMITTER_EVENTS,
};

/* Where the event leads. Asserts that it can happen in this state. */
enum committer_state committer_next(enum committer_state state, enum committer_event event);

#endif
