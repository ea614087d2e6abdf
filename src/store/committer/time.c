/* SPDX-License-Identifier: Apache-2.0 */
/* Store time, and what of the store's state a batch may believe. */
#include "store/committer/committer.h"

#include <stdio.h>

/* Ahead of the mark by more than this: the wall clock was set, or the store was left alone. */
#define JUMP_US (7 * INT64_C(86400) * CLOCK_US_PER_S)

/* By what the store holds: every process of one boot comes to the same. Only while the store is
 * held, and the wall clock first: a boot time from before a wait would put that wait on top of the
 * store's time, and the next process adds its own. */
void backend_read_time(struct backend *backend, struct backend_state *state)
{
    struct backend_clock *clock = &backend->clock;
    int64_t wall = clock_wall_us();
    int64_t boot = clock_boot_us();
    bool same_boot =
        clock->boot_id != 0 && clock->boot_id == state->boot_id && boot > state->time_boot;
    int64_t passed = same_boot ? boot - state->time_boot : 0;
    int64_t now = record_store_time(wall, state->time, passed);
    int64_t own = clock->offset + boot; /* as of the last load, which may have saved nothing */
    int64_t expected = state->time + passed > own ? state->time + passed : own;
    state->boot = boot;
    state->now = now > own ? now : own;
    clock->refused = wall > RECORD_TIME_MOST;
    if (state->now <= RECORD_TIME_MOST)
        clock->offset = state->now - boot;
    if (state->time != 0 && now - expected > JUMP_US) {
        clock->jump_us = now - expected;
        clock->jumps++;
    }
}

void backend_judge_lease(struct record *record, const struct backend_owner *owner,
                         const struct backend_state *state)
{
    int64_t beaten = owner->beat_at != 0 ? clock_after(owner->beat_at, record->lease_us) : 0;
    bool dead = owner->is_serve && (owner->incarnation != state->serve || !state->serve_alive);
    /* By then it was dead: a later serve started. */
    int64_t dead_at = state->serve_alive ? state->serve_since : state->now;
    if (record->lease_until < beaten)
        record->lease_until = beaten;
    int64_t ends_at = dead && dead_at < record->lease_until ? dead_at : record->lease_until;
    record->lapsed_at = dead || state->now >= ends_at ? ends_at : 0;
}

void committer_mark_time(const struct committer *c, struct backend_state *state)
{
    state->time = state->now;
    state->time_boot = state->boot;
    state->boot_id = c->backend->clock.boot_id;
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
