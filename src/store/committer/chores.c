/* SPDX-License-Identifier: Apache-2.0 */
/* What the committer does in a batch of its own accord: a beat, expired rows deleted. */
#include "store/committer/state.h"

#define MISSED_TRIES 10 /* of a beat that met something in its way, until the next one */

/* A record takes two operations at least, a begin and what ends it, and two steps at most, its
 * body and its row. So with a step for each operation the sweep keeps up with any load, however
 * slow the disk and however full the batches, and what is beyond that makes up for what was left.
 */
struct backend_chores committer_chores(const struct committer *c, int64_t boot, size_t operations)
{
    bool writes = !committer_writes_wait(c, boot);
    bool sweeps = writes && (boot >= c->due[DUE_SWEEP] || c->backlog);
    return (struct backend_chores){
        .beat = writes && boot >= c->due[DUE_BEAT],
        .sweep_most = sweeps ? COMMITTER_SWEEP_MAX + operations : 0,
        .gauge = boot >= c->due[DUE_GAUGE],
        .gauges =
            c->gauges, /* they stay where the look at them fails; only this thread writes them */
    };
}

/* A process without leases does not beat until it takes the next one, so that an idle store writes
 * nothing. What its batch then takes is noted behind this. */
void committer_note_beat(struct committer *c, const struct backend_chores *done)
{
    if (!done->beat || done->beaten || done->missed)
        return;
    c->lease_least = CLOCK_NEVER;
    c->due[DUE_BEAT] = CLOCK_NEVER;
}

void committer_chores_done(struct committer *c, int64_t boot, const struct backend_chores *done)
{
    if (done->beaten)
        c->due[DUE_BEAT] = clock_after(boot, c->lease_least / BEATS_OF_LEASE);
    if (done->missed)
        c->due[DUE_BEAT] = clock_after(boot, c->lease_least / BEATS_OF_LEASE / MISSED_TRIES);
    if (done->sweep_most > 0) {
        c->backlog = done->swept == done->sweep_most;
        c->due[DUE_SWEEP] = boot + COMMITTER_SWEEP_US;
    }
    if (done->gauge)
        c->due[DUE_GAUGE] = boot + COMMITTER_GAUGE_US;
}
