/* SPDX-License-Identifier: Apache-2.0 */
/* What the committer does in a batch of its own accord: leases renewed, expired rows deleted. */
#include "store/committer.h"

/* A row that is renewed is a lease of this process: with none there is nothing to do until the next
 * one is taken, so that an idle store writes nothing. */
enum backend_status committer_heartbeat(struct committer *c, struct apply *apply)
{
    if (apply->boot < c->heartbeat_at || committer_writes_wait(c, apply->boot))
        return BACKEND_OK;
    size_t renewed = 0;
    enum backend_status status =
        c->backend->ops->heartbeat(c->backend, c->self, apply->world.now, &renewed);
    if (status != BACKEND_OK)
        return status;
    if (renewed == 0)
        c->lease_least = CLOCK_NEVER;
    c->heartbeat_at = renewed > 0 ? clock_after(apply->boot, c->lease_least / 3) : CLOCK_NEVER;
    apply->changed |= renewed > 0;
    return BACKEND_OK;
}

/* A record takes two operations at least, a begin and what ends it, and two steps at most, its
 * answer and its row. So with a step for each operation the sweep keeps up with any load, however
 * slow the disk and however full the batches, and what is beyond that makes up for what was left.
 */
enum backend_status committer_sweep(struct committer *c, struct apply *apply, size_t operations)
{
    bool due = apply->boot >= c->sweep_at || c->backlog;
    if (!due || committer_writes_wait(c, apply->boot))
        return BACKEND_OK;
    size_t steps = 0;
    size_t most = COMMITTER_SWEEP_MAX + operations;
    enum backend_status status =
        c->backend->ops->sweep(c->backend, apply->world.now, most, &apply->state, &steps);
    c->backlog = steps == most;
    c->sweep_at = apply->boot + COMMITTER_SWEEP_US;
    apply->changed |= steps > 0;
    return status;
}
