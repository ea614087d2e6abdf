/* SPDX-License-Identifier: Apache-2.0 */
/* Leases by store time, as backends tell them with a row. */
#include "store/backend.h"

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
