/* SPDX-License-Identifier: Apache-2.0 */
/* Store time, and what of the store's state a batch may believe. */
#include "store/committer/committer.h"

#include <stdio.h>

/* Ahead of the mark by more than this: the wall clock was set, or the store was left alone. */
#define JUMP_US (7 * INT64_C(86400) * CLOCK_US_PER_S)

/* By what the store holds: every process of one boot comes to the same. Only while the store is
 * held, and the wall clock first: a boot time from before a wait would put that wait on top of the
 * store's time, and the next process adds its own. */
int64_t committer_time(struct committer *c, const struct backend_state *state, int64_t *ret_boot)
{
    int64_t wall = clock_wall_us();
    int64_t boot = clock_boot_us();
    bool same_boot = c->boot_id != 0 && c->boot_id == state->boot_id && boot > state->time_boot;
    int64_t passed = same_boot ? boot - state->time_boot : 0;
    int64_t now = record_store_time(wall, state->time, passed);
    int64_t own =
        atomic_load(&c->offset) + boot; /* as of the last batch, which may not have written */
    int64_t expected = state->time + passed > own ? state->time + passed : own;
    *ret_boot = boot;
    atomic_store(&c->clock_refused, wall > RECORD_TIME_MOST);
    if (state->time != 0 && now - expected > JUMP_US) {
        atomic_store(&c->clock_jump, now - expected);
        atomic_fetch_add(&c->clock_jumps, 1);
    }
    return now > own ? now : own;
}

void committer_mark_time(const struct committer *c, struct backend_state *state, int64_t now,
                         int64_t boot)
{
    state->time = now;
    state->time_boot = boot;
    state->boot_id = c->boot_id;
}

/* A mark from a wall clock that was wrong once: time never goes back by itself, a person may. */
bool committer_is_sane(struct committer *c, const struct backend_state *state)
{
    bool sane = state->time >= 0 && state->time <= RECORD_TIME_MOST && state->token >= 0 &&
                state->token < RECORD_TOKEN_MOST;
    if (!sane)
        snprintf(c->backend->problem, sizeof c->backend->problem,
                 "%s: its store time is past the year 2200, a wall clock was wrong once; "
                 "docs/guide/operating.md, \"The clock was wrong\", says how to set it back",
                 c->config.path ? c->config.path : "the store");
    return sane;
}

/* The life lock was got round (its file was removed, the file system does not keep locks): whoever
 * took the store took the records that run here for orphans. */
bool committer_may_go_on(struct committer *c, const struct backend_state *state)
{
    if (!committer_is_sane(c, state))
        return false;
    bool taken = c->registered && state->serve != c->self;
    if (taken)
        snprintf(
            c->backend->problem, sizeof c->backend->problem,
            "another `pawl serve` took this store; stop one of the two, and restart the other");
    return !taken;
}
