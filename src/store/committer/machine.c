/* SPDX-License-Identifier: Apache-2.0 */
#include "store/committer/machine.h"

#include "base/check.h"

#define NEVER COMMITTER_STATES

/* By events, in their order. */
#define BY_TROUBLE COMMITTER_FULL, COMMITTER_HELD, COMMITTER_AWAY, COMMITTER_DEAD

static const enum committer_state moves[COMMITTER_STATES][COMMITTER_EVENTS] = {
    [COMMITTER_UP] = {NEVER, COMMITTER_UP, BY_TROUBLE},
    [COMMITTER_FULL] = {COMMITTER_FULL, COMMITTER_UP, BY_TROUBLE},
    [COMMITTER_HELD] = {NEVER, COMMITTER_UP, BY_TROUBLE},
    [COMMITTER_AWAY] = {NEVER, COMMITTER_UP, BY_TROUBLE},
    [COMMITTER_DEAD] = {NEVER, NEVER, NEVER, NEVER, NEVER, NEVER},
};

enum committer_state committer_next(enum committer_state state, enum committer_event event)
{
    CHECK(state < COMMITTER_STATES && event < COMMITTER_EVENTS);
    enum committer_state next = moves[state][event];
    CHECK(next != NEVER);
    return next;
}
